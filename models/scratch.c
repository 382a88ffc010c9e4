/* scratch.c - work memory of a model: a list of pieces, linked through their first bytes. */
#include "scratch.h"
#include <stdint.h>
#include <stdlib.h>

enum { LINE = 64 };

void wv_scratch_open(wv_scratch *s, size_t size)
{
    *s = (wv_scratch){.size = size ? size : 1};
    pthread_mutex_init(&s->lock, NULL);
}

void wv_scratch_close(wv_scratch *s)
{
    while (s->free) {
        void **piece = s->free;
        s->free = *piece;
        free(piece);
    }
    pthread_mutex_destroy(&s->lock);
}

double *wv_scratch_take(wv_scratch *s)
{
    pthread_mutex_lock(&s->lock);
    void **piece = s->free;
    if (piece)
        s->free = *piece;
    pthread_mutex_unlock(&s->lock);
    if (piece)
        return (double *)piece;
    if (s->size > (SIZE_MAX - LINE) / sizeof(double))
        return NULL;
    return aligned_alloc(LINE, (s->size * sizeof(double) + LINE - 1) / LINE * LINE);
}

void wv_scratch_give(wv_scratch *s, double *piece)
{
    if (!piece)
        return;
    void **link = (void **)piece;
    pthread_mutex_lock(&s->lock);
    *link = s->free;
    s->free = link;
    pthread_mutex_unlock(&s->lock);
}
