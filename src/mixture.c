/* mixture.c - a weighted set of full Gaussians: m(z) = sum_k w_k N(z; mu_k, L_k L_k'). */
#include "mixture.h"
#include "error.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

bool wv_mixture_new(wv_mixture *m, size_t D, size_t room)
{
    *m = (wv_mixture){.D = D, .room = room};
    const wv_slot slots[] = {{&m->mu, wv_times(room, D)}, {&m->root, wv_times(room, wv_times(D, D))}, {&m->w, room}};
    m->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return m->memory != NULL;
}

void wv_mixture_free(wv_mixture *m)
{
    free(m->memory);
}

bool wv_mixture_archive(wv_mixture *m, wv_archive *a, size_t least)
{
    size_t K = m->K, D = m->D;
    wv_archive_values(a, &K, sizeof K);
    if (K > m->room || K < least)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        m->K = K;
    wv_archive_array(a, m->mu, K * D);
    wv_archive_array(a, m->root, K * D * D);
    wv_archive_array(a, m->w, K);
    return true;
}

wv_gaussian wv_mixture_component(const wv_mixture *m, size_t k)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), m->D, 0, m->mu + k * m->D, m->root + k * m->D * m->D, 0};
}

bool wv_mixture_is(const wv_mixture *m, const wv_gaussian *q)
{
    size_t D = m->D;
    return m->K == 1 && q->family == wv_family_get(WVGD_FULL) && !memcmp(q->mu, m->mu, D * sizeof *m->mu) &&
           !memcmp(q->root, m->root, D * D * sizeof *m->root);
}

void wv_mixture_copy(wv_mixture *to, const wv_mixture *from)
{
    size_t K = from->K, D = from->D;
    to->K = K;
    memcpy(to->mu, from->mu, K * D * sizeof *to->mu);
    memcpy(to->root, from->root, K * D * D * sizeof *to->root);
    memcpy(to->w, from->w, K * sizeof *to->w);
}

void wv_mixture_set_one(wv_mixture *m, const double *mu, const double *root)
{
    size_t D = m->D;
    m->K = 1;
    m->w[0] = 1;
    memcpy(m->mu, mu, D * sizeof *m->mu);
    memcpy(m->root, root, D * D * sizeof *m->root);
}
