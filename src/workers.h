/* workers.h - threads that run numbered tasks, each with scratch memory of its own. */
#ifndef WV_WORKERS_H
#define WV_WORKERS_H
#include "arena.h"
#include "thread_pool.h"

enum {
    WV_WORKERS = 32, /* threads of a fit at most */
    WV_BLOCK = 256,  /* points whose densities under all proposals are held at once */
    WV_PIECES = 64   /* pieces at most into which points are cut for the workers */
};

typedef struct {
    wv_thread_pool *pool; /* NULL: the caller alone */
    size_t n;             /* the caller is one of them */
    wv_arena **arena;     /* [n] scratch of each: the caller's first */
    bool busy;            /* tasks are being run */
} wv_workers;

/* Room in the arenas, in doubles. */
typedef struct {
    size_t caller, others;
} wv_workers_room;

/* The caller and up to wanted - 1 threads: fewer, if there is no memory for their arenas. False without memory for the
 * caller's. */
bool wv_workers_new(wv_workers *w, size_t wanted, wv_workers_room room);
void wv_workers_free(wv_workers *w); /* accepts what wv_workers_new has left */

/* One worker, who has this arena: for work that is part of a task. It is not freed. */
wv_workers wv_workers_one(wv_arena **arena);

/* Tasks 0 .. count-1, handed out in this order; returns when all are done. A task writes to the arena of its worker,
 * and to what belongs to its index. work: multiplications of all tasks together, about; with few of them nobody is
 * woken, nor by a task that runs tasks of its own. */
typedef void wv_workers_task(wv_arena *arena, void *context, size_t index);
void wv_workers_run(wv_workers *w, size_t count, double work, wv_workers_task *task, void *context);

/* Whether such tasks are worth waking the workers, or the caller runs them alone. */
bool wv_workers_worth(const wv_workers *w, size_t count, double work);

/* Points in one of the pieces into which n points are cut for the workers, and the number of pieces: neither depends on
 * the number of workers. */
size_t wv_workers_piece(size_t n);
size_t wv_workers_pieces(size_t n);
#endif
