/* threads.c - a model that shares each batch among threads. The size of chunks depends on the batch alone and they
 * are handed out by index, so what a chunk computes does not depend on how many threads there are. */
#include "thread_pool.h"
#include "wvgd_model.h"
#include <stdlib.h>

typedef struct {
    wvgd_model inner;
    wv_thread_pool *crew;
} shared;

typedef struct {
    const wvgd_model *inner;
    size_t n, chunk; /* points, and those of a chunk */
    const double *z;
    double *log_p, *grad;
} batch;

/* Small batches make small chunks, eight of them if that is possible: as many for each of two or four
 * threads. Chunks of fewer than eight points would waste vectors, and those of sixteen take less time
 * for each point than those of eight. */
size_t wvgd_model_chunk(size_t n)
{
    enum { SHARES = 8, VECTOR = 8 };
    size_t share = (n + SHARES * VECTOR - 1) / (SHARES * VECTOR) * VECTOR,
           least = n < SHARES * VECTOR ? VECTOR : 2 * VECTOR, chunk = share > least ? share : least;
    return chunk < WVGD_CHUNK ? chunk : WVGD_CHUNK;
}

static int evaluate(void *context, size_t index, unsigned worker)
{
    const batch *b = context;
    size_t at = index * b->chunk, n = b->n - at < b->chunk ? b->n - at : b->chunk, dim = b->inner->dim;
    (void)worker;
    return b->inner->log_density(b->inner->self, n, b->z + at * dim, b->log_p + at,
                                 b->grad ? b->grad + at * dim : NULL);
}

static int evaluate_chunks(shared *s, size_t chunk, size_t n, const double *z, double *log_p, double *grad)
{
    batch b = {&s->inner, n, chunk, z, log_p, grad};
    return wv_thread_pool_run(s->crew, (n + chunk - 1) / chunk, evaluate, &b);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    return evaluate_chunks(self, wvgd_model_chunk(n), n, z, log_p, grad);
}

int wvgd_model_threads_part(const wvgd_model *model, size_t chunk, size_t n, const double *z, double *log_p,
                            double *grad)
{
    return model && chunk ? evaluate_chunks(model->self, chunk, n, z, log_p, grad) : -1;
}

static void close_shared(void *self)
{
    shared *s = self;
    wv_thread_pool_free(s->crew);
    free(s);
}

int wvgd_model_threads(wvgd_model *model, const wvgd_model *inner, unsigned threads)
{
    shared *s = model && inner ? calloc(1, sizeof *s) : NULL;
    if (!s || !(s->crew = wv_thread_pool_new(inner->thread_safe ? threads : 1))) {
        free(s);
        return -1;
    }
    s->inner = *inner;
    *model = *inner;
    model->log_density = log_density;
    model->self = s;
    model->close = close_shared;
    return 0;
}
