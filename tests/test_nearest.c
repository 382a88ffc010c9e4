/* test_nearest.c - the nearest of many particles against comparing all of them: candidates in single precision,
 * cells and costs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "simd/columns.h"
#include "support/every_pass.h"
#include "support/test_random.h"

enum { MOST = 50 };

/* Two candidates and the third distance, in single precision, for any number of rows and columns. */
static void check_nearby(const wv_columns *pass)
{
    enum { D = 7, N = 30 };
    static float x[D * WV_COLUMNS], z[N * D];
    static double wide[D * WV_COLUMNS];
    double mu[D];
    int32_t first[WV_COLUMNS], second[WV_COLUMNS];
    float third[WV_COLUMNS];
    test_random r = test_random_seed(5);
    for (size_t d = 0; d < D; d++)
        mu[d] = 1e6 * test_random_normal(&r);
    for (size_t i = 0; i < D * WV_COLUMNS; i++)
        wide[i] = mu[i / WV_COLUMNS] + test_random_normal(&r);
    for (size_t i = 0; i < N * D; i++)
        z[i] = (float)test_random_normal(&r);
    pass->shorten(D, wide, mu, x);
    for (size_t i = 0; i < D * WV_COLUMNS; i++)
        assert_true(fabs(x[i] - (wide[i] - mu[i / WV_COLUMNS])) <= FLT_EPSILON * fabs((double)x[i]));
    for (size_t n = 4; n <= N; n++) {
        pass->nearby(D, n + 20, n, x, z, first, second, third);
        for (size_t i = 0; i < n + 20; i++) {
            double least[3] = {INFINITY, INFINITY, INFINITY};
            size_t at[3] = {0};
            for (size_t j = 0; j < n; j++) {
                double cost = 0;
                for (size_t d = 0; d < D; d++)
                    cost += pow((double)x[d * WV_COLUMNS + i] - (double)z[j * D + d], 2);
                for (size_t k = 0; k < 3; k++)
                    if (cost < least[k]) {
                        memmove(least + k + 1, least + k, (2 - k) * sizeof *least);
                        memmove(at + k + 1, at + k, (2 - k) * sizeof *at);
                        least[k] = cost;
                        at[k] = j;
                        break;
                    }
            }
            assert_true(((size_t)first[i] == at[0] && (size_t)second[i] == at[1]) || least[1] - least[0] < 1e-5);
            assert_true(fabs(third[i] - least[2]) <= 1e-5 * least[2]);
        }
    }
}

static void candidates(void **state)
{
    (void)state;
    with_each(check_nearby);
}

/* Cells and costs are those that comparing all particles gives. */
static void check_cells(const wv_geometry *g, size_t n, const double *x, const uint32_t *cell, const double *near,
                        const double *next)
{
    size_t D = g->D;
    for (size_t i = 0; i < n; i++) {
        double least = INFINITY, second = INFINITY;
        size_t at = 0;
        for (size_t j = 0; j < g->N; j++) {
            double cost = 0;
            for (size_t d = 0; d < D; d++)
                cost += (x[i * D + d] - g->z[j * D + d]) * (x[i * D + d] - g->z[j * D + d]);
            if (cost < least) {
                second = least;
                least = cost;
                at = j;
            } else if (cost < second)
                second = cost;
        }
        assert_true(cell[i] == at || second <= least * (1 + 1e-14));
        assert_true(fabs(near[i] - least) <= 1e-13 * least && fabs(next[i] - second) <= 1e-13 * second);
    }
}

/* Whatever the scale and wherever the origin: also where single precision cannot tell, with particles that lie upon
 * each other, and for pairs of mirror images. */
static void nearest_particles(void **state)
{
    (void)state;
    enum { n = 300 };
    static const size_t dims[] = {1, 2, 8, 9, 17, MOST}, numbers[] = {41, 167};
    static const double scales[] = {1, 1e-3, 1e-25, 1e25, 1e150}, origins[] = {0, 1, 1e9};
    test_random r = test_random_seed(8);
    wv_arena *arena = wv_arena_new(200000);
    assert_non_null(arena);
    for (size_t k = 0; k < 6 * 5 * 3 * 2; k++) {
        size_t D = dims[k % 6], N = numbers[k / 90];
        double scale = scales[k / 6 % 5], origin = origins[k / 30 % 3] * scale;
        double *x = malloc(n * D * sizeof *x), *z = malloc(N * D * sizeof *z), near[n], next[n];
        uint32_t cell[n];
        wv_geometry g = {.cost.kind = WVGD_SQEUCLID, .N = N, .D = D, .z = z};
        assert_true(x && z);
        for (int twins = 0; twins < 2; twins++) {
            for (size_t i = 0; i < N * D; i++)
                z[i] = origin + scale * test_random_normal(&r);
            for (size_t i = 0; i < n * D; i++)
                x[i] = origin + scale * test_random_normal(&r);
            if (twins) {
                memcpy(z + 30 * D, z + 7 * D, D * sizeof *x); /* with a point upon them, */
                memcpy(x + 11 * D, z + 7 * D, D * sizeof *x);
                for (size_t d = 0; d < D; d++) { /* and triplets that are nearly the same */
                    z[20 * D + d] = z[21 * D + d] * (1 + 1e-9);
                    z[22 * D + d] = z[21 * D + d] * (1 - 1e-9);
                }
            }
            wv_nearest_assign(&g, n, x, cell, near, next, arena);
            check_cells(&g, n, x, cell, near, next);
            if (twins)
                assert_int_equal(cell[11], 7);
        }
        free(x);
        free(z);
    }
    wv_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates),
        cmocka_unit_test(nearest_particles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
