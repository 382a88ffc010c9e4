/* arena.h - scratch memory of one worker: mark, take, release. What is taken after a mark is given back together.
 *
 *     size_t mark = wv_arena_mark(a);
 *     double *y = wv_arena_take(a, n * D);
 *     ...
 *     wv_arena_release(a, mark);
 *
 * Nothing is zeroed. In builds for debugging (WV_POISON) memory is filled with NaN when it is taken and when it is
 * released, and sanitizers see uses of what has been released. */
#ifndef WV_ARENA_H
#define WV_ARENA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wv_arena wv_arena;

/* Room for so many doubles, which cost nothing until they are touched; NULL without memory. An arena that is asked for
 * more than that still gives it, from memory that it allocates while there is any. */
wv_arena *wv_arena_new(size_t doubles);
void wv_arena_free(wv_arena *a); /* accepts NULL */

size_t wv_arena_mark(const wv_arena *a);
void wv_arena_release(wv_arena *a, size_t mark);

/* Arrays that begin a cache line. */
double *wv_arena_take(wv_arena *a, size_t n);
double *wv_arena_zeros(wv_arena *a, size_t n);
uint32_t *wv_arena_take_index(wv_arena *a, size_t n);
size_t *wv_arena_take_sizes(wv_arena *a, size_t n);

/* How what is being done with it is given up when a limit strikes (limit.c), or NULL. */
struct wv_arena_exit *wv_arena_exit(const wv_arena *a);
void wv_arena_set_exit(wv_arena *a, struct wv_arena_exit *e);
#endif
