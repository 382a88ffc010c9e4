/* threads.c - a model that shares each batch among threads. The size of chunks depends on the batch alone and they are handed out by index, so what a chunk computes does not
 * depend on how many threads there are. Threads are started once and wait between batches; a batch of one chunk does not wake them. */
#include "wvgd_model.h"
#include <pthread.h>
#include <stdlib.h>

typedef struct {
    wvgd_model inner;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t *thread;
    unsigned threads;      /* running beside the caller */
    /* the batch, under the lock */
    size_t n, chunk;       /* points, and those of a chunk */
    size_t next, busy;     /* first point not handed out, chunks being computed */
    const double *z;
    double *log_p, *grad;
    int failure;           /* of the earliest failing chunk */
    size_t failed_at;
    int quit;
} pool;

/* Small batches make small chunks, so that there are some eight of them to share; chunks of fewer than eight points would waste vectors. */
static size_t chunk_of(size_t n)
{
    enum { SHARES = 8, LEAST = 8 };
    size_t chunk = (n / SHARES + LEAST) / LEAST * LEAST;
    return chunk < WVGD_CHUNK ? chunk : WVGD_CHUNK;
}

/* Takes chunks until none is left. Called and returns with the lock held. */
static void serve(pool *p)
{
    size_t dim = p->inner.dim;
    while (p->next < p->n) {
        size_t at = p->next, n = p->n - at < p->chunk ? p->n - at : p->chunk;
        p->next += n;
        p->busy++;
        pthread_mutex_unlock(&p->lock);
        int failure = p->inner.log_density(p->inner.self, n, p->z + at * dim, p->log_p + at, p->grad ? p->grad + at * dim : NULL);
        pthread_mutex_lock(&p->lock);
        p->busy--;
        if (failure && (!p->failure || at < p->failed_at)) {
            p->failure = failure;
            p->failed_at = at;
        }
    }
    if (!p->busy)
        pthread_cond_broadcast(&p->done);
}

static void *worker(void *self)
{
    pool *p = self;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        serve(p);
        if (!p->quit && p->next >= p->n)
            pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    pool *p = self;
    size_t chunk = chunk_of(n);
    if (n <= chunk)
        return p->inner.log_density(p->inner.self, n, z, log_p, grad);
    pthread_mutex_lock(&p->lock);
    p->n = n;
    p->chunk = chunk;
    p->next = 0;
    p->z = z;
    p->log_p = log_p;
    p->grad = grad;
    p->failure = 0;
    pthread_cond_broadcast(&p->work);
    serve(p);
    while (p->busy)
        pthread_cond_wait(&p->done, &p->lock);
    int failure = p->failure;
    p->n = p->next = 0;
    pthread_mutex_unlock(&p->lock);
    return failure;
}

static void close_pool(void *self)
{
    pool *p = self;
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->threads; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->thread);
    free(p);
}

int wvgd_model_threads(wvgd_model *model, const wvgd_model *inner, unsigned threads)
{
    pool *p = calloc(1, sizeof *p);
    unsigned extra = threads > 1 && inner->thread_safe ? threads - 1 : 0;
    if (!p || !(p->thread = calloc(extra ? extra : 1, sizeof *p->thread))) {
        free(p);
        return -1;
    }
    p->inner = *inner;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    while (p->threads < extra && pthread_create(&p->thread[p->threads], NULL, worker, p) == 0)
        p->threads++; /* fewer threads than asked for only take longer */
    *model = *inner;
    model->log_density = log_density;
    model->self = p;
    model->close = close_pool;
    return 0;
}
