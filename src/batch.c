/* batch.c - memory of a batch and of its proposals. */
#include "batch.h"
#include "error.h"
#include "memory.h"
#include <stdlib.h>

bool wv_batch_new(wv_batch *b, size_t n, size_t D, size_t N, bool gradients)
{
    *b = (wv_batch){0};
    const wv_slot slots[] = {
        {&b->x, wv_times(n, D)}, {&b->log_p, n}, {&b->grad, gradients ? wv_times(n, D) : 0},
        {&b->log_m, n},          {&b->log_q, n}, {&b->log_mix[0], n},
        {&b->log_mix[1], n},     {&b->near, n},  {&b->next, n},
        {&b->sum_u, N},
    };
    b->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    b->index = calloc(wv_times(2, n), sizeof *b->index);
    b->cell = b->index;
    b->stratum = b->index ? b->index + n : NULL;
    b->own.x = b->x;
    b->own.log_p = b->log_p;
    b->own.grad = b->grad;
    b->own.stratum = b->stratum;
    return b->memory && b->index;
}

void wv_batch_put(wv_batch *b, const wv_batch *to)
{
    b->x = to->x;
    b->log_p = to->log_p;
    b->grad = to->grad;
    b->stratum = to->stratum;
}

void wv_batch_put_back(wv_batch *b)
{
    b->x = b->own.x;
    b->log_p = b->own.log_p;
    b->grad = b->own.grad;
    b->stratum = b->own.stratum;
}

void wv_batch_free(wv_batch *b)
{
    free(b->memory);
    free(b->index);
}

bool wv_proposals_new(wv_proposals *p, size_t N, size_t others, size_t pieces)
{
    size_t most = wv_times(3, N) + 3;
    *p = (wv_proposals){.p = calloc(most + others, sizeof *p->p),
                        .draws = calloc(most + others, sizeof *p->draws),
                        .stretch = calloc(most + pieces, sizeof *p->stretch)};
    return p->p && p->draws && p->stretch;
}

void wv_proposals_free(wv_proposals *p)
{
    free(p->p);
    free(p->draws);
    free(p->stretch);
}
