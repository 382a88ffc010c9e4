/* test_rows.c - passes over rows of points against sums in long double, with every instruction set. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "simd/columns.h"
#include "support/every_pass.h"
#include "support/test_random.h"

enum { MOST = 50, POINTS = 70 };

static double between(test_random *r, double lo, double hi)
{
    return lo + (hi - lo) * test_random_uniform(r);
}

typedef struct {
    double x[POINTS * MOST], g[POINTS * MOST], u[POINTS], r[POINTS], m[MOST], gm[MOST], s[MOST], a1[MOST], a2[MOST],
        half[MOST];
} rows;

static rows random_rows(size_t D, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    rows k;
    for (size_t i = 0; i < POINTS * D; i++) {
        k.x[i] = test_random_normal(&r);
        k.g[i] = test_random_normal(&r);
    }
    for (size_t p = 0; p < POINTS; p++) {
        k.u[p] = test_random_uniform(&r);
        k.r[p] = test_random_normal(&r);
    }
    for (size_t d = 0; d < D; d++) {
        k.m[d] = test_random_normal(&r);
        k.gm[d] = test_random_normal(&r);
        k.s[d] = between(&r, 0.5, 2.0);
        k.a1[d] = test_random_normal(&r);
        k.a2[d] = test_random_normal(&r);
        k.half[d] = between(&r, 0.3, 0.7);
    }
    return k;
}

static void same(double got, long double wanted, long double size)
{
    assert_true(fabsl(got - wanted) <= 1e-14L * (1 + size));
}

static void check_rows(const wv_columns *pass)
{
    for (size_t D = 1; D <= MOST; D += D < 20 ? 1 : 15)
        for (size_t n = 1; n <= POINTS; n += 23) {
            rows k = random_rows(D, 100 * D + n);
            double mean[MOST], variance[MOST], alone[MOST], cross[MOST], left[POINTS], products[4 * MOST];
            static double T[POINTS * 2 * MOST];
            memcpy(left, k.r, sizeof left);
            pass->row_means(n, D, k.u, k.x, mean);
            pass->row_slopes(n, D, k.u, k.x, k.m, k.g, k.gm, variance, cross);
            pass->row_slopes(n, D, k.u, k.x, k.m, NULL, NULL, alone, NULL);
            pass->row_quadratic(n, D, k.x, k.m, k.s, k.a1, k.a2, left);
            pass->row_products(n, D, k.u, k.r, k.x, k.m, k.s, k.half, products);
            pass->row_statistics(n, D, k.u, k.x, k.m, k.s, k.half, T);
            for (size_t d = 0; d < D; d++) {
                long double sum[7] = {0};
                for (size_t p = 0; p < n; p++) {
                    long double u = k.u[p], x = k.x[p * D + d], y = x - k.m[d], z = y * k.s[d],
                                t = z * z / 2 - k.half[d];
                    long double term[7] = {u * x,         u * y * y, u * y * (k.g[p * D + d] - (long double)k.gm[d]),
                                           u * z * t,     u * t * t, u * z * k.r[p],
                                           u * t * k.r[p]};
                    for (size_t i = 0; i < 7; i++)
                        sum[i] += term[i];
                    same(T[p * 2 * D + d], sqrtl(u) * z, 10);
                    same(T[p * 2 * D + D + d], sqrtl(u) * t, 30);
                }
                same(mean[d], sum[0], POINTS);
                same(variance[d], sum[1], 10 * POINTS);
                same(alone[d], sum[1], 10 * POINTS);
                same(cross[d], sum[2], 10 * POINTS);
                for (size_t i = 0; i < 4; i++)
                    same(products[i * D + d], sum[3 + i], 100 * POINTS);
            }
            for (size_t p = 0; p < n; p++) {
                long double r = k.r[p], apart = 0, distance = 0;
                for (size_t d = 0; d < D; d++) {
                    long double y = k.x[p * D + d] - (long double)k.m[d], z = y * k.s[d];
                    r -= k.a1[d] * z + k.a2[d] * z * z / 2;
                    apart += z * z;
                    distance += y * y;
                }
                same(left[p], r, 20 * MOST);
                same(pass->row_apart(D, k.x + p * D, k.m, k.s), apart, apart);
                same(pass->row_distance(D, k.x + p * D, k.m), distance, distance);
            }
        }
}

static void passes_over_rows(void **state)
{
    (void)state;
    with_each(check_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_over_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
