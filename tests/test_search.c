/* test_search.c - posteriors whose modes are easily missed, or mistaken: starts of astronomically low density. Each is
 * small, and its evidence is known, or the same for every seed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "support/fitted.h"
#include "support/near.h"
#include "support/test_random.h"
#include "wvgd.h"

static const double log_2pi = 1.83787706640934548356;

/* ---- ARMA(1, 1) -------------------------------------------------------------------------------------------------- */
enum { TIMES = 200 };

/* y_t = mu + phi y_(t-1) + theta e_(t-1) + e_t, e_t of N(0, sigma^2), e_0 = y_0 - mu (1 + phi); z = (mu, phi, theta,
 * log sigma) with priors N(0, 10^2), N(0, 2^2), N(0, 2^2) and a half-Cauchy of scale 2.5. Where |theta| > 1 errors grow
 * like theta^200. */
static double arma(void *self, const double *z, double *grad)
{
    const double *y = self, mu = z[0], phi = z[1], theta = z[2], s = exp(z[3]), q = s / 2.5;
    double e = y[0] - mu * (1 + phi), d[] = {-1 - phi, -mu, 0}; /* the error, and its derivatives */
    double log_p = log(2 / (M_PI * 2.5)) - log1p(q * q) + z[3] - mu * mu / 200 - (phi * phi + theta * theta) / 8 -
                   log(10 * 2 * 2) - 1.5 * log_2pi,
           g[] = {-mu / 100, -phi / 4, -theta / 4, 1 - 2 * q * q / (1 + q * q)};
    for (size_t t = 0; t < TIMES; t++) {
        if (t) {
            double before = e;
            e = y[t] - mu - phi * y[t - 1] - theta * before;
            d[0] = -1 - theta * d[0];
            d[1] = -y[t - 1] - theta * d[1];
            d[2] = -before - theta * d[2];
        }
        log_p -= e * e / (2 * s * s) + z[3] + log_2pi / 2;
        for (size_t i = 0; i < 3; i++)
            g[i] -= e * d[i] / (s * s);
        g[3] += e * e / (s * s) - 1;
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

/* Starts where the density is exp(-1e80) once made ascents freeze there. */
static void starts_without_hope(void **state)
{
    (void)state;
    double y[TIMES], last = 0, first = 0, first_se = 0;
    test_random random = test_random_seed(11);
    wvgd_model model;
    for (size_t t = 0; t < TIMES; t++) {
        double now = 0.15 * test_random_normal(&random);
        y[t] = (t ? 0.9 * y[t - 1] : 0) - 0.4 * last + now;
        last = now;
    }
    assert_int_equal(wvgd_model_pointwise(&model, 4, arma, y, true), 0);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        first = seed == 1 ? r.evidence.value : first;
        first_se = seed == 1 ? r.evidence.se : first_se;
        assert_near(r.evidence.value, first, 5 * hypot(first_se, r.evidence.se));
        assert_true(r.stop == WVGD_CONVERGED && r.evidence.se < 0.05);
        assert_true(r.pelbo.value < r.evidence.value + 4 * hypot(r.evidence.se, r.pelbo.se));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* A top that is narrower than the doubles around it is refused, and said. */
static double needle(void *self, const double *z, double *grad)
{
    (void)self;
    const double u = (z[0] - 1e6) / 1e-11;
    if (grad)
        grad[0] = -u / 1e-11;
    return -u * u / 2;
}

static void needles_are_refused(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_options o = staged_options(1, 1);
    assert_int_equal(wvgd_model_pointwise(&model, 1, needle, NULL, true), 0);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_NO_DRAWS);
    assert_non_null(strstr(error.text, "double resolves"));
    wvgd_free(fit);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_without_hope),
        cmocka_unit_test(needles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
