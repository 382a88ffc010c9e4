/* test_closing_weights.c - the proposal density behind the weights of the closing draws, checked from outside.
 *
 * With one mixture component N(mu, C) every part of the staged solver's proposal (the Gaussian, its Student-t copy,
 * the wide t) has the same centre, and scatter matrices that are multiples of C. Its density m, which the log
 * weights reveal as log m = log p~ - log w + constant, then depends on r^2 = (z - mu)' C^-1 (z - mu) alone: draws in
 * order of r^2 have log m in order, too. The targets are ones where the final draws send the fit back to growth,
 * which finds no place for another component. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <gsl/gsl_sf_psi.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "support/fitted.h"
#include "support/targets.h"

enum { MOST = 6 };

typedef struct {
    double r2, log_m;
    double rounding; /* of log m */
} draw;

static int by_distance(const void *a, const void *b)
{
    double x = ((const draw *)a)->r2, y = ((const draw *)b)->r2;
    return (x > y) - (x < y);
}

/* |L^-1 (z - mu)|^2 for the component's Cholesky factor L. */
static double distance2(const wvgd_results *r, const double *z)
{
    size_t D = r->D;
    double y[MOST], sum = 0;
    for (size_t i = 0; i < D; i++) {
        y[i] = z[i] - r->component_mu[i];
        for (size_t k = 0; k < i; k++)
            y[i] -= r->component_chol[i * D + k] * y[k];
        y[i] /= r->component_chol[i * D + i];
        sum += y[i] * y[i];
    }
    return sum;
}

/* The largest amount by which log m of a draw is above that of one nearer to the centre, beyond rounding: far out log p
 * is astronomically low. */
static double largest_rise(const wvgd_fit *fit, const wvgd_results *r)
{
    size_t n;
    const double *z, *log_p, *log_w;
    assert_int_equal(wvgd_draws(fit, &n, &z, &log_p, &log_w, NULL, NULL), WVGD_OK);
    draw *d = malloc(n * sizeof *d);
    assert_non_null(d);
    for (size_t i = 0; i < n; i++)
        d[i] = (draw){distance2(r, z + i * r->D), log_p[i] - log_w[i], 4 * DBL_EPSILON * fabs(log_p[i])};
    qsort(d, n, sizeof *d, by_distance);
    double rise = 0;
    for (size_t i = 1; i < n; i++)
        rise = fmax(rise, d[i].log_m - d[i - 1].log_m - d[i].rounding - d[i - 1].rounding);
    free(d);
    return rise;
}

static void density_falls_with_distance(void **state)
{
    (void)state;
    static const struct {
        double shape;
        size_t D;
        uint64_t seed;
    } row[] = {{5, 1, 24}, {5, 1, 36}, {5, 2, 6}, {5, 2, 25}, {8, 1, 13}, {8, 2, 20}, {8, 3, 6}, {8, 3, 7}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double shapes[MOST];
        for (size_t k = 0; k < MOST; k++)
            shapes[k] = row[i].shape;
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(1, row[i].seed);
        o.components = 2;
        assert_int_equal(target_log_gamma(&model, row[i].D, shapes), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_int_equal(r.components, 1);
        double rise = largest_rise(fit, &r);
        if (!(rise < 1e-6)) /* rounding: draws may be equally far, and log p~ has 16 digits */
            fail_msg("shape %g, D = %zu, seed %d: log m rises by %g", row[i].shape, row[i].D, (int)row[i].seed, rise);
        for (size_t k = 0; k < r.D; k++) { /* five standard errors of plain weighted draws */
            double wanted = gsl_sf_psi(row[i].shape), error = 5 * sqrt(r.var[k] / r.ess);
            if (!(fabs(r.mean[k] - wanted) < error))
                fail_msg("shape %g, D = %zu, seed %d: mean %g, expected %g +- %g", row[i].shape, row[i].D,
                         (int)row[i].seed, r.mean[k], wanted, error);
        }
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(density_falls_with_distance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
