/* limit.c - what ends a run early: its seconds, and a stop that somebody has asked for. Scratch comes from arenas and
 * nothing is allocated on the way, so that a jump out of the middle of the work leaves nothing behind. */
#include "limit.h"
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <time.h>

struct wv_arena_exit {
    jmp_buf to;
    wv_limit *limit;
};

double wv_limit_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void wv_limit_ask(wv_limit *l)
{
    atomic_store(&l->asked, true);
}

bool wv_limit_asked(const wv_limit *l)
{
    return atomic_load_explicit(&l->asked, memory_order_relaxed);
}

bool wv_limit_obey(wv_limit *l)
{
    return atomic_exchange(&l->asked, false);
}

void wv_limit_set(wv_limit *l, double end, double grace)
{
    l->end = end;
    l->grace = grace;
}

bool wv_limit_time_up(const wv_limit *l)
{
    return isfinite(l->end) && wv_limit_clock() >= l->end;
}

void wv_limit_set_price(wv_limit *l, double seconds)
{
    l->price = seconds;
    l->cheapest = l->cheapest > 0 ? fmin(l->cheapest, seconds) : seconds;
}

/* Whether work that is under way is to be given up. */
static bool struck(wv_limit *l)
{
    if (wv_limit_asked(l) && !atomic_exchange(&l->heard, true))
        atomic_store(&l->last, fmin(atomic_load(&l->last), wv_limit_clock() + l->grace));
    double last = atomic_load_explicit(&l->last, memory_order_relaxed);
    return isfinite(last) && wv_limit_clock() >= last;
}

bool wv_limit_try_part(wv_limit *l, wv_arena *arena, wv_limit_work *work, void *context)
{
    struct wv_arena_exit here = {.limit = l}, *outer = wv_arena_exit(arena);
    size_t mark = wv_arena_mark(arena);
    volatile bool whole = false;
    wv_arena_set_exit(arena, &here);
    if (!setjmp(here.to)) {
        wv_limit_look(arena);
        work(context);
        whole = true;
    }
    wv_arena_set_exit(arena, outer);
    wv_arena_release(arena, mark);
    return whole;
}

bool wv_limit_try(wv_limit *l, wv_arena *arena, wv_limit_work *work, void *context)
{
    atomic_store(&l->heard, false);
    atomic_store(&l->last, fmax(l->end, wv_limit_clock()) + l->grace);
    return wv_limit_try_part(l, arena, work, context);
}

void wv_limit_look(wv_arena *arena)
{
    struct wv_arena_exit *e = wv_arena_exit(arena);
    if (e && struck(e->limit))
        longjmp(e->to, 1);
}

wv_limit *wv_limit_of(const wv_arena *arena)
{
    const struct wv_arena_exit *e = wv_arena_exit(arena);
    return e ? e->limit : NULL;
}
