/* limit.h - what ends a run early: its seconds, and a stop that somebody has asked for. Work that may take long is
 * done inside wv_limit_try, and its loops call wv_limit_look with the arena of their worker: once a limit has struck
 * that call does not return, and what was being done is given up. Where none strikes nothing depends on the clock. */
#ifndef WV_LIMIT_H
#define WV_LIMIT_H
#include "arena.h"
#include <stdatomic.h>

typedef struct {
    atomic_bool asked;   /* a stop, perhaps by another thread or a signal handler, */
    atomic_bool heard;   /* which work that is under way has seen */
    double end;          /* by wv_limit_clock: when time is up; INFINITY: never */
    double grace;        /* seconds after that, or after a stop was seen, that work under way has left */
    _Atomic double last; /* when it is given up */
    double price;        /* seconds that the model takes for a point, by the last call; 0: not known, */
    double cheapest;     /* and by the fastest call: the machine may be busy */
} wv_limit;

/* Seconds, from some moment on. */
double wv_limit_clock(void);

void wv_limit_ask(wv_limit *l);
bool wv_limit_asked(const wv_limit *l);
bool wv_limit_obey(wv_limit *l); /* whether a stop has been asked for since the last call */

/* Time is up at `end`; work that is under way then, or begins later, has `grace` seconds left. */
void wv_limit_set(wv_limit *l, double end, double grace);
bool wv_limit_time_up(const wv_limit *l);

/* The model has taken so many seconds for a point. */
void wv_limit_set_price(wv_limit *l, double seconds);

/* Does the work. False: a limit has struck, and what had been done so far is left as it was then. The arena is as
 * before. */
typedef void wv_limit_work(void *context);
bool wv_limit_try(wv_limit *l, wv_arena *arena, wv_limit_work *work, void *context);

/* The same for a part of it, which another worker may do. */
bool wv_limit_try_part(wv_limit *l, wv_arena *arena, wv_limit_work *work, void *context);

/* Gives up what is being tried, if a limit has struck. Outside of wv_limit_try it does nothing. */
void wv_limit_look(wv_arena *arena);

/* The limit of what is being tried with this arena, or NULL. */
wv_limit *wv_limit_of(const wv_arena *arena);
#endif
