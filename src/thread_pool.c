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
static void serve(wv_thread_pool *c, unsigned number)
{
    while (c->next < c->count) {
        size_t at = c->next++;
        wv_thread_pool_task *task = c->task;
        void *context = c->context;
        c->busy++;
        pthread_mutex_unlock(&c->lock);
        int failure = task(context, at, number);
        pthread_mutex_lock(&c->lock);
        c->busy--;
        if (failure && (!c->failure || at < c->failed_at)) {
            c->failure = failure;
            c->failed_at = at;
        }
    }
    if (!c->busy)
        pthread_cond_signal(&c->done);
}

static void *work(void *self)
{
    worker *w = self;
    wv_thread_pool *c = w->pool;
    pthread_mutex_lock(&c->lock);
    while (!c->quit) {
        serve(c, w->number);
        if (!c->quit && c->next >= c->count)
            pthread_cond_wait(&c->work, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
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

static void start(wv_thread_pool *c)
{
    unsigned others = atomic_fetch_add(&alive, c->wanted + 1), wanted = c->wanted;
    while (wanted && !wv_thread_pool_room(others + wanted))
        wanted--;
    for (; c->extra < wanted; c->extra++) {
        worker *w = &c->worker[c->extra];
        *w = (worker){.pool = c, .number = c->extra + 1};
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break; /* fewer threads than asked for only take longer */
    }
    atomic_fetch_sub(&alive, c->extra ? c->wanted - c->extra : c->wanted + 1);
    c->wanted = c->extra;
}

static int run_together(wv_thread_pool *c, size_t count, wv_thread_pool_task *task, void *context)
{
    pthread_mutex_lock(&c->lock);
    c->count = count;
    c->next = 0;
    c->task = task;
    c->context = context;
    c->failure = 0;
    for (size_t i = 1; i < count && i <= c->extra; i++)
        pthread_cond_signal(&c->work);
    serve(c, 0);
    while (c->busy)
        pthread_cond_wait(&c->done, &c->lock);
    int failure = c->failure;
    c->count = c->next = 0;
    pthread_mutex_unlock(&c->lock);
    return failure;
}

int wv_thread_pool_run(wv_thread_pool *c, size_t count, wv_thread_pool_task *task, void *context)
{
    if (count < 2 || c->owner != getpid() || pthread_mutex_trylock(&c->taken) != 0)
        return run_alone(count, task, context);
    if (c->extra < c->wanted)
        start(c);
    int failure = c->extra ? run_together(c, count, task, context) : run_alone(count, task, context);
    pthread_mutex_unlock(&c->taken);
    return failure;
}

wv_thread_pool *wv_thread_pool_new(unsigned workers)
{
    unsigned wanted = workers > 1 ? workers - 1 : 0;
    wv_thread_pool *c = calloc(1, sizeof *c);
    if (!c || !(c->worker = calloc(wanted ? wanted : 1, sizeof *c->worker))) {
        free(c);
        return NULL;
    }
    c->owner = getpid();
    c->wanted = wanted;
    pthread_mutex_init(&c->taken, NULL);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->done, NULL);
    return c;
}

static void dismiss(wv_thread_pool *c)
{
    pthread_mutex_lock(&c->lock);
    c->quit = 1;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->extra; i++)
        pthread_join(c->worker[i].thread, NULL);
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->taken);
    if (c->extra)
        atomic_fetch_sub(&alive, c->extra + 1);
}

void wv_thread_pool_free(wv_thread_pool *c)
{
    if (!c)
        return;
    if (c->owner == getpid())
        dismiss(c);
    free(c->worker);
    free(c);
}

unsigned wv_thread_pool_workers(const wv_thread_pool *c)
{
    return c->extra + 1;
}
