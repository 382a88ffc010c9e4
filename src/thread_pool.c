/* thread_pool.c - threads that wait for numbered tasks and take them one by one, under a lock. Which of them does a
 * task is left to chance, so tasks must not depend on it. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "thread_pool.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    pthread_t thread;
    wv_thread_pool *pool;
    unsigned number;
} worker;

struct wv_thread_pool {
    pthread_mutex_t taken; /* by a caller: others do without the pool */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    worker *worker;         /* [wanted] */
    unsigned wanted, extra; /* threads beside the caller's: those asked for, and those that run; none
                             * before there is work */
    pid_t owner;            /* the process that they run in: its children have none of them */
    /* under the lock */
    size_t count, next, busy; /* tasks, the first not handed out, those being done */
    wv_thread_pool_task *task;
    void *context;
    int failure; /* of the first task that failed */
    size_t failed_at;
    int quit;
};

/* Takes tasks until none is left. Called and returns with the lock held. */
static void serve(wv_thread_pool *pool, unsigned number)
{
    while (pool->next < pool->count) {
        size_t at = pool->next++;
        wv_thread_pool_task *task = pool->task;
        void *context = pool->context;
        pool->busy++;
        pthread_mutex_unlock(&pool->lock);
        int failure = task(context, at, number);
        pthread_mutex_lock(&pool->lock);
        pool->busy--;
        if (failure && (!pool->failure || at < pool->failed_at)) {
            pool->failure = failure;
            pool->failed_at = at;
        }
    }
    if (!pool->busy)
        pthread_cond_signal(&pool->done);
}

static void *work(void *self)
{
    worker *w = self;
    wv_thread_pool *pool = w->pool;
    pthread_mutex_lock(&pool->lock);
    while (!pool->quit) {
        serve(pool, w->number);
        if (!pool->quit && pool->next >= pool->count)
            pthread_cond_wait(&pool->work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The same without waking anybody. */
static int run_alone(size_t count, wv_thread_pool_task *task, void *context)
{
    int failure = 0;
    for (size_t i = 0; i < count; i++) {
        int code = task(context, i, 0);
        failure = failure ? failure : code;
    }
    return failure;
}

bool wv_thread_pool_room(size_t threads)
{
    enum { BUFFER = 1 << 27 };
    size_t bytes = (threads + 1) * BUFFER;
    void *probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return probe != MAP_FAILED && munmap(probe, bytes) == 0;
}

/* Threads of all crews that are at work, their callers' included, each of which may still want its buffer. */
static _Atomic unsigned alive;

static void start(wv_thread_pool *pool)
{
    unsigned others = atomic_fetch_add(&alive, pool->wanted + 1), wanted = pool->wanted;
    while (wanted && !wv_thread_pool_room(others + wanted))
        wanted--;
    for (; pool->extra < wanted; pool->extra++) {
        worker *w = &pool->worker[pool->extra];
        *w = (worker){.pool = pool, .number = pool->extra + 1};
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break; /* fewer threads than asked for only take longer */
    }
    atomic_fetch_sub(&alive, pool->extra ? pool->wanted - pool->extra : pool->wanted + 1);
    pool->wanted = pool->extra;
}

static int run_together(wv_thread_pool *pool, size_t count, wv_thread_pool_task *task, void *context)
{
    pthread_mutex_lock(&pool->lock);
    pool->count = count;
    pool->next = 0;
    pool->task = task;
    pool->context = context;
    pool->failure = 0;
    for (size_t i = 1; i < count && i <= pool->extra; i++)
        pthread_cond_signal(&pool->work);
    serve(pool, 0);
    while (pool->busy)
        pthread_cond_wait(&pool->done, &pool->lock);
    int failure = pool->failure;
    pool->count = pool->next = 0;
    pthread_mutex_unlock(&pool->lock);
    return failure;
}

int wv_thread_pool_run(wv_thread_pool *pool, size_t count, wv_thread_pool_task *task, void *context)
{
    if (count < 2 || pool->owner != getpid() || pthread_mutex_trylock(&pool->taken) != 0)
        return run_alone(count, task, context);
    if (pool->extra < pool->wanted)
        start(pool);
    int failure = pool->extra ? run_together(pool, count, task, context) : run_alone(count, task, context);
    pthread_mutex_unlock(&pool->taken);
    return failure;
}

wv_thread_pool *wv_thread_pool_new(unsigned workers)
{
    unsigned wanted = workers > 1 ? workers - 1 : 0;
    wv_thread_pool *pool = calloc(1, sizeof *pool);
    if (!pool || !(pool->worker = calloc(wanted ? wanted : 1, sizeof *pool->worker))) {
        free(pool);
        return NULL;
    }
    pool->owner = getpid();
    pool->wanted = wanted;
    pthread_mutex_init(&pool->taken, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    return pool;
}

static void dismiss(wv_thread_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->quit = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->extra; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->taken);
    if (pool->extra)
        atomic_fetch_sub(&alive, pool->extra + 1);
}

void wv_thread_pool_free(wv_thread_pool *pool)
{
    if (!pool)
        return;
    if (pool->owner == getpid())
        dismiss(pool);
    free(pool->worker);
    free(pool);
}

unsigned wv_thread_pool_workers(const wv_thread_pool *pool)
{
    return pool->extra + 1;
}
