/* workers.c - threads that run numbered tasks, each with scratch memory of its own. Which of them does a task is left
 * to chance; pieces of points have fixed sizes, so that results have the same bits for any number of threads. */
#include "workers.h"
#include "limit.h"
#include <stdlib.h>

bool wv_workers_new(wv_workers *w, size_t wanted, wv_workers_room room)
{
    wanted = wanted < 1 ? 1 : wanted < WV_WORKERS ? wanted : WV_WORKERS;
    *w = (wv_workers){.arena = calloc(wanted, sizeof(wv_arena *))};
    while (w->arena && w->n < wanted && (w->arena[w->n] = wv_arena_new(w->n ? room.others : room.caller)) != NULL)
        w->n++;
    while (w->n > 1 && !wv_thread_pool_room(w->n - 1))
        wv_arena_free(w->arena[--w->n]);
    w->pool = w->n ? wv_thread_pool_new((unsigned)w->n) : NULL;
    return w->pool != NULL;
}

void wv_workers_free(wv_workers *w)
{
    wv_thread_pool_free(w->pool);
    for (size_t i = 0; i < w->n; i++)
        wv_arena_free(w->arena[i]);
    free(w->arena);
}

wv_workers wv_workers_one(wv_arena **arena)
{
    return (wv_workers){.n = 1, .arena = arena};
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */
typedef struct {
    const wv_workers *workers;
    wv_workers_task *task;
    void *context;
    wv_limit *limit; /* of what the tasks are a part of, or NULL */
} job;

/* One task of it. */
typedef struct {
    const job *of;
    size_t index;
    wv_arena *arena;
} part;

static void do_part(void *self)
{
    const part *p = self;
    p->of->task(p->arena, p->of->context, p->index);
}

static int do_task(void *self, size_t index, unsigned worker)
{
    const job *s = self;
    part p = {s, index, s->workers->arena[worker]};
    if (s->limit)
        wv_limit_try_part(s->limit, p.arena, do_part, &p);
    else
        do_part(&p);
    return 0;
}

bool wv_workers_worth(const wv_workers *w, size_t count, double work)
{
    return w->n > 1 && !w->busy && count > 1 && work >= wv_thread_pool_worth();
}

void wv_workers_run(wv_workers *w, size_t count, double work, wv_workers_task *task, void *context)
{
    if (!wv_workers_worth(w, count, work)) {
        for (size_t i = 0; i < count; i++) {
            wv_limit_look(w->arena[0]);
            task(w->arena[0], context, i);
        }
        return;
    }
    w->busy = true;
    wv_thread_pool_run(w->pool, count, do_task, &(job){w, task, context, wv_limit_of(w->arena[0])});
    w->busy = false;
    wv_limit_look(w->arena[0]); /* a task may have been given up */
}

size_t wv_workers_piece(size_t n)
{
    enum { LEAST = 2 * WV_BLOCK };
    size_t piece = (n + WV_PIECES - 1) / WV_PIECES;
    piece = (piece + WV_BLOCK - 1) / WV_BLOCK * WV_BLOCK;
    return piece > LEAST ? piece : LEAST;
}

size_t wv_workers_pieces(size_t n)
{
    return (n + wv_workers_piece(n) - 1) / wv_workers_piece(n);
}
