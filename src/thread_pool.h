/* thread_pool.h - threads that run numbered tasks. They are started once, when there is work,
 * and wait in between. */
#ifndef WV_THREAD_POOL_H
#define WV_THREAD_POOL_H
#include <stdbool.h>
#include <stddef.h>

typedef struct wv_thread_pool wv_thread_pool;

/* Task number `index`, done by a worker: 0 for the thread that called wv_thread_pool_run, others for those of
 * the pool. Returns 0, or why it failed. */
typedef int wv_thread_pool_task(void *context, size_t index, unsigned worker);

/* the caller's thread is one of them; fewer, if no more can be started, or there is no memory for
 * what they do. NULL: no memory */
wv_thread_pool *wv_thread_pool_new(unsigned workers);
void wv_thread_pool_free(wv_thread_pool *pool); /* NULL is none */
/* Those that there are: the caller's alone, before there is work. */
unsigned wv_thread_pool_workers(const wv_thread_pool *pool);

/* Multiplications that take as long as it takes to wake some threads, several times over: for less work none is woken.
 * In a file of its own, so that tests can wake them for everything. */
double wv_thread_pool_worth(void);

/* OpenBLAS takes a buffer for each thread that is inside it, and where there is no room for one (ulimit -v) asks
 * again without end: a thread too many would never come back. Whether so many threads, beside the caller's, have
 * room for theirs, and leave as much for all else. */
bool wv_thread_pool_room(size_t threads);

/* Tasks 0 .. count-1, handed out in this order; returns when all are done: 0, or what the first of them
 * (by number) that failed has returned. One task wakes nobody; who calls while the pool is at work (from one of
 * its tasks, say) does the tasks alone. */
int wv_thread_pool_run(wv_thread_pool *pool, size_t count, wv_thread_pool_task *task, void *context);

#endif
