/* test_arena.c - scratch memory: arrays do not overlap and begin a cache line, what was taken after a mark is given
 * back, and an arena that is asked for more than its room gives it all the same, in whatever order marks are nested. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "arena.h"

enum { ROOM = 1000 };

static void fill(double *x, size_t n, double value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}

static void assert_filled(const double *x, size_t n, double value)
{
    for (size_t i = 0; i < n; i++)
        assert_true(x[i] == value);
}

static void arrays_are_apart(void **state)
{
    (void)state;
    wv_arena *a = wv_arena_new(ROOM);
    double *x[12];
    for (size_t i = 0; i < 12; i++) {
        x[i] = wv_arena_take(a, 1 + 7 * i);
        assert_int_equal((uintptr_t)x[i] % 64, 0);
        fill(x[i], 1 + 7 * i, (double)i);
    }
    for (size_t i = 0; i < 12; i++)
        assert_filled(x[i], 1 + 7 * i, (double)i);
    wv_arena_release(a, 0);
    assert_ptr_equal(wv_arena_take(a, 3), x[0]);
    assert_filled(wv_arena_zeros(a, 100), 100, 0);
    wv_arena_free(a);
    wv_arena_free(NULL);
}

/* Each level holds an array that is larger than what is left, and looks at it after the levels inside have gone. */
static void descend(wv_arena *a, size_t depth)
{
    size_t mark = wv_arena_mark(a), n = 300 + depth;
    double *x = wv_arena_take(a, n);
    assert_non_null(x);
    fill(x, n, (double)depth);
    if (depth < 20)
        descend(a, depth + 1);
    assert_filled(x, n, (double)depth);
    wv_arena_release(a, mark);
    assert_int_equal(wv_arena_mark(a), mark);
}

static void more_than_there_is_room_for(void **state)
{
    (void)state;
    wv_arena *a = wv_arena_new(ROOM);
    for (int round = 0; round < 3; round++)
        descend(a, 0);
    double *small = wv_arena_take(a, 10);
    assert_non_null(small);
    assert_null(wv_arena_take(a, SIZE_MAX / 4)); /* that nobody has */
    wv_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays_are_apart),
                                       cmocka_unit_test(more_than_there_is_room_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
