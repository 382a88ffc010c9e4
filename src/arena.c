/* arena.c - scratch memory of one worker: a stack of arrays. */
#include "arena.h"
#include "error.h"
#include <stdlib.h>
#include <string.h>
#if WV_POISON && defined __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum {
    LINE = 64,
    TOKENS =
        1024 /* arrays beyond the room of an arena: each takes a line of it, so that marks before and after differ */
};

/* Memory beyond the room of an arena: given back when what was used at `mark` is released. */
typedef struct overflow {
    struct overflow *next;
    size_t mark;
} overflow;

struct wv_arena {
    unsigned char *memory, *base; /* as it was allocated, and its first whole cache line */
    size_t size;                  /* bytes, a multiple of LINE */
    size_t used;                  /* bytes, and a line for each array beyond them, so that a later mark is larger */
    overflow *beyond;
    struct wv_arena_exit *exit;
};

wv_arena *wv_arena_new(size_t doubles)
{
    wv_arena *a = calloc(1, sizeof *a);
    size_t size = wv_times(doubles, sizeof(double));
    if (!a || size > SIZE_MAX / 2) {
        free(a);
        return NULL;
    }
    size = (size + LINE - 1) / LINE * LINE;
    a->memory = malloc(size + (TOKENS + 1) * LINE);
    if (!a->memory) {
        free(a);
        return NULL;
    }
    a->size = size;
    a->base = a->memory + (LINE - (uintptr_t)a->memory % LINE) % LINE;
    return a;
}

/* Debugging: bytes that give NaN, and sanitizers that complain. */
static void poison(void *memory, size_t size, bool taken)
{
#if WV_POISON
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(memory, size);
#endif
    memset(memory, 0xff, size);
#ifdef __SANITIZE_ADDRESS__
    if (!taken)
        __asan_poison_memory_region(memory, size);
#endif
#endif
    (void)memory;
    (void)size;
    (void)taken;
}

static void free_beyond(wv_arena *a, size_t mark)
{
    while (a->beyond && a->beyond->mark >= mark) {
        overflow *o = a->beyond;
        a->beyond = o->next;
        free(o);
    }
}

void wv_arena_free(wv_arena *a)
{
    if (!a)
        return;
    free_beyond(a, 0);
#if WV_POISON && defined __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(a->base, a->size + TOKENS * LINE);
#endif
    free(a->memory);
    free(a);
}

size_t wv_arena_mark(const wv_arena *a)
{
    return a->used;
}

void wv_arena_release(wv_arena *a, size_t mark)
{
    size_t end = a->used < a->size ? a->used : a->size;
    free_beyond(a, mark);
    if (mark < end)
        poison(a->base + mark, end - mark, false);
    a->used = mark;
}

static void *take_beyond(wv_arena *a, size_t size)
{
    size_t head = (sizeof(overflow) + LINE - 1) / LINE * LINE;
    overflow *o = size < SIZE_MAX / 2 ? aligned_alloc(LINE, head + size) : NULL;
    if (!o)
        return NULL;
    *o = (overflow){a->beyond, a->used};
    a->beyond = o;
    a->used += LINE;
    return (unsigned char *)o + head;
}

static void *take(wv_arena *a, size_t n, size_t each)
{
    size_t size = wv_times(n, each);
    size = size < SIZE_MAX - LINE ? (size + LINE - 1) / LINE * LINE : size;
    if (a->used > a->size || size > a->size - a->used)
        return take_beyond(a, size);
    void *memory = a->base + a->used;
    a->used += size;
    poison(memory, size, true);
    return memory;
}

double *wv_arena_take(wv_arena *a, size_t n)
{
    return take(a, n, sizeof(double));
}

double *wv_arena_zeros(wv_arena *a, size_t n)
{
    double *x = wv_arena_take(a, n);
    memset(x, 0, n * sizeof *x);
    return x;
}

uint32_t *wv_arena_take_index(wv_arena *a, size_t n)
{
    return take(a, n, sizeof(uint32_t));
}

size_t *wv_arena_take_sizes(wv_arena *a, size_t n)
{
    return take(a, n, sizeof(size_t));
}

struct wv_arena_exit *wv_arena_exit(const wv_arena *a)
{
    return a->exit;
}

void wv_arena_set_exit(wv_arena *a, struct wv_arena_exit *e)
{
    a->exit = e;
}
