/* test_rng.c - points of a lattice against their definition in long double. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "rng.h"

/* Points of a lattice in rows and in columns: multiples of the powers of 1/phi, phi^(d+1) = phi + 1 in d dimensions,
 * d even, moved and made normal, in long double. Multiples up to 300 leave an error of a few hundred roundings in u,
 * which grows by 1 / (u radius) in a radius. */
static void lattices(void **state)
{
    (void)state;
    enum { N = 5 * WV_LATTICE_BLOCK, ODD = 3 * WV_LATTICE_BLOCK - 5 };
    static double plain[N * WV_LATTICE], some[N * WV_LATTICE], columns[N * WV_LATTICE];
    const long double turn = 2 * acosl(-1.0L);
    for (size_t dims = 1; dims <= WV_LATTICE; dims++) {
        wv_stream stream = {5 + dims, WV_RNG_SETTLE, 2, 3};
        size_t even = (dims + 1) / 2 * 2;
        long double phi = 2;
        double shift[WV_LATTICE];
        for (int i = 0; i < 200; i++)
            phi = powl(1 + phi, 1 / (long double)(even + 1));
        wv_rng_uniform(&stream, 0, WV_LATTICE, shift);
        for (size_t i = 0; i < N * WV_LATTICE; i++)
            some[i] = -7;
        wv_rng_lattice(&stream, N, dims, plain);
        wv_rng_lattice(&stream, ODD, dims, some);
        wv_rng_lattice_columns(&stream, N, dims, columns);
        for (size_t i = 0; i < N; i++)
            for (size_t d = 0; d < dims; d++) {
                size_t pair = d / 2 * 2, at = i * dims + d;
                long double u = shift[pair] + (long double)i * powl(phi, -(long double)(pair + 1)),
                            v = shift[pair + 1] + (long double)i * powl(phi, -(long double)(pair + 2));
                u -= floorl(u);
                long double radius = sqrtl(-2 * logl(u)), value = radius * (d % 2 ? sinl(turn * v) : cosl(turn * v));
                assert_true(fabsl(plain[at] - value) <= 1e-12L * (1 + 1 / (u * radius) + radius));
                assert_true(some[at] == (i < ODD ? plain[at] : -7));
                assert_true(columns[(i / WV_LATTICE_BLOCK * dims + d) * WV_LATTICE_BLOCK + i % WV_LATTICE_BLOCK] ==
                            plain[at]);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lattices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
