/* scratch.h - work memory of a model that several threads evaluate at once: pieces of one size,
 * made when needed and used again. */
#ifndef WV_SCRATCH_H
#define WV_SCRATCH_H
#include <pthread.h>
#include <stddef.h>

typedef struct {
    pthread_mutex_t lock;
    size_t size; /* doubles of a piece */
    void *free;  /* a list of those not in use */
} wv_scratch;

void wv_scratch_open(wv_scratch *s, size_t size);
void wv_scratch_close(wv_scratch *s); /* when all have been given back */

/* A piece, aligned to 64 bytes, with whatever is in it; NULL: no memory. */
double *wv_scratch_take(wv_scratch *s);
void wv_scratch_give(wv_scratch *s, double *piece); /* accepts NULL */
#endif
