/* test_kmeans.c - particles by k-means: regular simplices where they are best, and the better minimum of a distribution
 * from the worse one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "kmeans.h"
#include "ascending.h"
#include "support/near.h"
#include "support/test_random.h"

enum { D = 12, MAX_CORNERS = 5 };

static double product(const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y[n][D] = L^-1 (x - mean) */
static void whiten(size_t n, const double *L, const double *mean, const double *x, double *y)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < D; i++) {
            y[j * D + i] = x[j * D + i] - mean[i];
            for (size_t k = 0; k < i; k++)
                y[j * D + i] -= L[i * D + k] * y[j * D + k];
            y[j * D + i] /= L[i * D + i];
        }
}

/* Of one Gaussian in many dimensions, under its own metric, few particles begin at the corners of a regular simplex
 * around its mean, exactly. */
static void a_regular_simplex(void **state)
{
    (void)state;
    test_random r = test_random_seed(4);
    wv_mixture mixture;
    wv_workers workers;
    assert_true(wv_mixture_new(&mixture, D, 1) && wv_workers_new(&workers, 1, (wv_workers_room){100000, 0}));
    for (size_t N = 2; N <= MAX_CORNERS; N++) {
        double mu[D], root[D * D] = {0}, z[MAX_CORNERS * D], y[MAX_CORNERS * D], n = (double)N;
        test_random_normals(&r, D, mu);
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k <= i; k++)
                root[i * D + k] = k < i ? 0.3 * test_random_normal(&r) : 0.5 + test_random_uniform(&r);
        wv_mixture_set_one(&mixture, mu, root);
        wv_geometry g = {.cost = {.kind = WVGD_MAHALANOBIS, .metric_family = wv_family_get(WVGD_FULL)},
                         .N = N,
                         .D = D,
                         .metric = root};
        wv_kmeans_points p = {.mixture = &mixture, .control = {1, NULL}, .mean = mu, .most = 10000};
        wv_kmeans_place(&g, &p, 1, 1, &workers, z);
        whiten(N, root, mu, z, y);
        for (size_t j = 0; j < N; j++)
            for (size_t k = 0; k <= j; k++)
                assert_near(product(y + j * D, y + k * D), k == j ? 1 : -1 / (n - 1), 1e-9);
    }
    wv_mixture_free(&mixture);
    wv_workers_free(&workers);
}

/* Four clusters on a line, of equal weight and width, with gaps of 1, 10 and 1: two particles on the left pair and one
 * on each of the others is best of all; three on the left pair and one on the right rests as well. */
static void the_better_minimum(void **state)
{
    (void)state;
    enum { EACH = 200, POINTS = 4 * EACH, N = 4 };
    static const double centre[4] = {0, 1, 11, 12}, worse[N] = {-0.05, 0.05, 1, 11.5};
    static double x[POINTS], w[POINTS];
    static uint32_t cell[POINTS];
    double z[N], sorted[N];
    wv_workers workers;
    assert_true(wv_workers_new(&workers, 1, (wv_workers_room){100000, 0}));
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = centre[i / EACH] + 0.2 * (((double)(i % EACH) + 0.5) / EACH - 0.5);
        w[i] = 1.0 / POINTS;
    }
    wv_geometry g = {.cost.kind = WVGD_SQEUCLID, .N = N, .D = 1, .z = worse};
    assert_true(wv_kmeans_improve(&g, (wv_weighted_points){POINTS, x, w}, 3, 1, &workers, z, cell));
    for (size_t j = 0; j < N; j++)
        sorted[j] = z[j];
    qsort(sorted, N, sizeof *sorted, ascending);
    for (size_t j = 0; j < N; j++)
        assert_near(sorted[j], centre[j], 1e-12);
    for (size_t i = 0; i < POINTS; i++)
        assert_near(z[cell[i]], centre[i / EACH], 1e-12);
    g.z = sorted; /* nothing is better than the best */
    assert_false(wv_kmeans_improve(&g, (wv_weighted_points){POINTS, x, w}, 3, 2, &workers, z, cell));
    g.cost.kind = WVGD_L1; /* squared costs only */
    g.z = worse;
    assert_false(wv_kmeans_improve(&g, (wv_weighted_points){POINTS, x, w}, 3, 1, &workers, z, cell));
    wv_workers_free(&workers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regular_simplex),
        cmocka_unit_test(the_better_minimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
