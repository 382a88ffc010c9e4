/* test_update.c - steps of diagonal components: those of full ones in one dimension, and to a normal posterior. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "arena.h"
#include "support/near.h"
#include "support/test_random.h"
#include "update/update.h"

static double between(test_random *r, double lo, double hi)
{
    return lo + (hi - lo) * test_random_uniform(r);
}

static wv_step new_step(size_t D, size_t *undone)
{
    wv_step s = {
        .D = D, .dense = true, .most_coefficients = 1 + 2 * D, .arena = wv_arena_new(400000), .limits = undone};
    assert_non_null(s.arena);
    return s;
}

/* In one dimension a diagonal component and a full one are the same, and so are their steps, limits included. */
static void one_dimension(void **state)
{
    (void)state;
    enum { n = 60 };
    size_t limited = 0, undone = 0;
    const wv_family *families[2] = {wv_family_get(WVGD_DIAG), wv_family_get(WVGD_FULL)};
    wv_step step = new_step(1, &undone);
    test_random r = test_random_seed(9);
    for (int trial = 0; trial < 400; trial++) {
        double x[n], g[n], log_p[n], u[n], mu[2], root[2], kl[2], total = 0, squares = 0, curve = between(&r, -3, 30),
                                                                  third = test_random_normal(&r);
        for (size_t p = 0; p < n; p++) {
            x[p] = between(&r, 0.3, 2);
            u[p] = exp(-x[p] * x[p] / 2);
            log_p[p] = -curve * x[p] * x[p] / 2 + third * x[p] * x[p] * x[p] / 6 +
                       (trial % 2 ? 0.3 * sin(5 * x[p]) : 0);
            g[p] = -curve * x[p] + third * x[p] * x[p] / 2 + (trial % 2 ? 1.5 * cos(5 * x[p]) : 0);
            total += u[p];
        }
        for (size_t p = 0; p < n; p++) {
            u[p] /= total;
            squares += u[p] * u[p];
        }
        for (int k = 0; k < 2; k++) {
            mu[k] = 0;
            root[k] = 1;
            wv_update c = {.estimator = trial % 3 ? WVGD_NATURAL : WVGD_SCORE,
                           .family = families[k],
                           .mu = &mu[k],
                           .root = &root[k],
                           .n = n,
                           .x = x,
                           .log_p = log_p,
                           .grad = g,
                           .u = u,
                           .ess = 1 / squares,
                           .truncated = true,
                           .rho = trial % 5 ? 0.5 : 1};
            wv_update_result result = wv_update_step(&step, &c);
            assert_true(result.ok);
            kl[k] = result.kl;
        }
        limited += root[0] > 1.999 || root[0] < 0.501;
        assert_near(mu[0], mu[1], 1e-6 * (1 + fabs(mu[1])));
        assert_near(root[0], root[1], 1e-6 * root[1]);
        assert_near(kl[0], kl[1], 1e-6 * (1 + kl[1]));
    }
    assert_true(limited > 20 && limited < 380);
    wv_arena_free(step.arena);
}

/* A full step on a normal posterior whose coordinates are independent ends there, however the cell cuts the
 * component: with few points and many, in few dimensions and many. */
static void normal_posteriors(void **state)
{
    (void)state;
    enum { MAX_D = 40, MAX_n = 400 };
    static double x[MAX_n * MAX_D], g[MAX_n * MAX_D], log_p[MAX_n], u[MAX_n];
    for (size_t D = 2; D <= MAX_D; D *= 2)
        for (size_t n = D; n <= MAX_n; n *= 2) {
            if (D > 4 && n < 2 * D)
                continue;
            size_t undone = 0;
            wv_step step = new_step(D, &undone);
            test_random r = test_random_seed(D + n);
            double mu[MAX_D], root[MAX_D], mean[MAX_D], sd[MAX_D], total = 0, squares = 0;
            for (size_t d = 0; d < D; d++) {
                mu[d] = test_random_normal(&r);
                root[d] = between(&r, 0.1, 10);
                mean[d] = mu[d] + 0.1 * root[d] * test_random_normal(&r);
                sd[d] = root[d] * between(&r, 0.9, 1.1);
            }
            for (size_t p = 0; p < n; p++) {
                double size = 0;
                log_p[p] = 3;
                for (size_t d = 0; d < D; d++) {
                    double y = between(&r, d ? -1 : 0, 1.5), v;
                    size += y * y;
                    x[p * D + d] = mu[d] + root[d] * y;
                    v = (x[p * D + d] - mean[d]) / sd[d];
                    log_p[p] -= v * v / 2;
                    g[p * D + d] = -v / sd[d];
                }
                total += u[p] = exp(-size / 2 / (double)D);
            }
            for (size_t p = 0; p < n; p++) {
                u[p] /= total;
                squares += u[p] * u[p];
            }
            wv_update c = {.estimator = WVGD_NATURAL,
                           .family = wv_family_get(WVGD_DIAG),
                           .mu = mu,
                           .root = root,
                           .n = n,
                           .x = x,
                           .log_p = log_p,
                           .grad = g,
                           .u = u,
                           .ess = 1 / squares,
                           .truncated = true,
                           .rho = 1};
            bool few = c.ess < 1.5 * (double)D; /* a ridge of 1/ESS holds the step back */
            assert_true(wv_update_step(&step, &c).ok);
            for (size_t d = 0; d < D; d++) {
                assert_near(mu[d], mean[d], (few ? 0.2 : 1e-4) * sd[d]);
                assert_near(root[d], sd[d], (few ? 0.2 : 1e-4) * sd[d]);
            }
            wv_arena_free(step.arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_dimension),
        cmocka_unit_test(normal_posteriors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
