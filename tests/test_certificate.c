/* test_certificate.c - walks that look for mass outside the final draws: they follow the posterior, pass right fits and
 * refuse wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "wvgd.h"

enum { CHAINS = 64, TAIL_DIMS = 16 };

/* What the walks of a fit have asked for. */
typedef struct {
    size_t batches, points, largest;
    double sum, square; /* of the first coordinate */
} walking;

static wvgd_options options_of(size_t components, uint64_t seed)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.particles = 2;
    o.seed = seed;
    if (components)
        o.components = components;
    o.finish = WVGD_FINISH_NEVER; /* what the certificate alone says */
    return o;
}

/* A whole fit by ask and tell. */
static wvgd_fit *fit_of(const wvgd_model *model, const wvgd_options *o, walking *w)
{
    static double log_p[20000], grad[200000];
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(model, o, NULL, &error);
    assert_non_null(fit);
    *w = (walking){0};
    for (;;) {
        size_t n;
        const double *z;
        bool gradient;
        wvgd_progress p;
        assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, &error), WVGD_OK);
        if (!n)
            return fit;
        assert_true(n * model->dim <= sizeof grad / sizeof *grad);
        wvgd_get_progress(fit, &p);
        if (!strcmp(p.stage, "certify")) {
            assert_true(gradient);
            w->batches++;
            w->points += n;
            w->largest = n > w->largest ? n : w->largest;
            for (size_t i = 0; i < n; i++) {
                w->sum += z[i * model->dim];
                w->square += z[i * model->dim] * z[i * model->dim];
            }
        }
        assert_int_equal(model->log_density(model->self, n, z, log_p, gradient ? grad : NULL), 0);
        assert_int_equal(wvgd_tell(fit, log_p, gradient ? grad : NULL, &error), WVGD_OK);
    }
}

static bool says(const wvgd_results *r, const char *text)
{
    for (size_t i = 0; i < r->reasons; i++)
        if (strstr(r->reason[i], text))
            return true;
    return false;
}

/* Where walks have been is distributed as the posterior is, here a product of Student-t's with 5 degrees of freedom: 64
 * chains that began at draws tell its mean to 1/8 sd, and its sd to a tenth. */
static void walks_follow_the_posterior(void **state)
{
    (void)state;
    enum { D = 3 };
    const double nu = 5, weight = 1, mean[D] = {3, -1, 0}, scale[D * D] = {4, 1, 0, 1, 1, 0, 0, 0, 0.01};
    wvgd_model model;
    assert_int_equal(target_student_mixture(&model, D, 1, nu, &weight, mean, scale), 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        walking w;
        wvgd_results r;
        wvgd_options o = options_of(0, seed);
        wvgd_fit *fit = fit_of(&model, &o, &w);
        wvgd_get_results(fit, &r);
        double n = (double)w.points, m = w.sum / n, sd = sqrt(w.square / n - m * m), truth = 2 * sqrt(nu / (nu - 2));
        assert_true(r.walks == CHAINS);
        assert_int_equal(w.points, r.walks_evaluations);
        assert_true(w.largest <= CHAINS && w.batches > 2);
        assert_true(fabs(m - mean[0]) < 4 * truth / 8);
        assert_true(fabs(log(sd / truth)) < 0.4);
        assert_true(r.reliable && says(&r, r.walks_outside ? "left the approximation" : "found no mass outside"));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

static void an_exact_mixture_needs_none(void **state)
{
    (void)state;
    wvgd_model model;
    walking w;
    wvgd_results r;
    wvgd_options o = options_of(0, 1);
    assert_int_equal(target_gaussian_random(&model, 6, 1e4, 1, true), 0);
    wvgd_fit *fit = fit_of(&model, &o, &w);
    wvgd_get_results(fit, &r);
    assert_true(r.reliable && !says(&r, "walks"));
    assert_int_equal(r.walks, 0);
    assert_int_equal(w.points, 0);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* A core with 0.9 of the mass, in a tail 15 times as wide. With one component the mixture is the core to rounding where
 * the final draws have weight. (With two, it is exact.) */
static double core_and_tail(void *self, const double *z, double *grad)
{
    enum { D = TAIL_DIMS };
    (void)self;
    const double share = 0.1, wide = 15;
    double square = 0;
    for (size_t i = 0; i < D; i++)
        square += z[i] * z[i];
    double core = log(1 - share) - square / 2, tail = log(share) - D * log(wide) - square / (2 * wide * wide),
           top = fmax(core, tail), sum = top + log(exp(core - top) + exp(tail - top)),
           slope = exp(core - sum) + exp(tail - sum) / (wide * wide);
    for (size_t i = 0; grad && i < D; i++)
        grad[i] = -slope * z[i];
    return sum;
}

static void a_mixture_that_is_exact_in_its_core_only_is_not_exact(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, TAIL_DIMS, core_and_tail, NULL, true), 0);
    for (uint64_t seed = 1; seed <= 16; seed++) {
        walking w;
        wvgd_results r;
        wvgd_options o = options_of(1, seed);
        wvgd_fit *fit = fit_of(&model, &o, &w);
        wvgd_get_results(fit, &r);
        assert_true(r.walks >= CHAINS && w.points);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Groups y_j ~ N(theta_j, 1), theta_j ~ N(0, tau), log tau ~ N(0, 1), all y_j small: z = (log tau, theta). A single
 * Gaussian has no part of its narrow end. */
enum { GROUPS = 8 };

static double groups(void *self, const double *z, double *grad)
{
    const double *y = self;
    double sum = -z[0] * z[0] / 2, tau = exp(z[0]), up = -z[0];
    for (size_t j = 0; j < GROUPS; j++) {
        double e = z[1 + j] / tau;
        sum -= e * e / 2 + z[0] + (y[j] - z[1 + j]) * (y[j] - z[1 + j]) / 2;
        up += e * e - 1;
        if (grad)
            grad[1 + j] = -e / tau + y[j] - z[1 + j];
    }
    if (grad)
        grad[0] = up;
    return sum;
}

static void a_wrong_fit_is_refused(void **state)
{
    (void)state;
    double y[GROUPS] = {0.3, -0.8, 0.5, 1.1, -0.2, -1.3, 0.7, 0.1};
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, GROUPS + 1, groups, y, true), 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        walking w;
        wvgd_results r;
        wvgd_options o = options_of(1, seed);
        wvgd_fit *fit = fit_of(&model, &o, &w);
        wvgd_get_results(fit, &r);
        assert_true(r.walks_outside >= 2);
        assert_false(r.reliable);
        assert_true(says(&r, "a part of the posterior is missing"));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* A fifth of the mass in a tail six times as wide along one of twelve coordinates. */
enum { LONG = 12 };
static const double long_share = 0.2, long_wide = 6;

static double long_tail(void *self, const double *z, double *grad)
{
    (void)self;
    double core = log(1 - long_share) - z[0] * z[0] / 2,
           tail = log(long_share / long_wide) - z[0] * z[0] / (2 * long_wide * long_wide), top = fmax(core, tail),
           sum = top + log(exp(core - top) + exp(tail - top)), rest = 0;
    for (size_t i = 1; i < LONG; i++) {
        rest += z[i] * z[i] / 2;
        if (grad)
            grad[i] = -z[i];
    }
    if (grad)
        grad[0] = -z[0] * (exp(core - sum) + exp(tail - sum) / (long_wide * long_wide));
    return sum - rest;
}

/* Where walks have found mass that the mixture lacks it grows, and the verdict says so: some fits of a core in a long
 * tail find it in this way alone. */
static void a_mixture_grows_where_walks_have_been(void **state)
{
    (void)state;
    wvgd_model model;
    size_t grown = 0;
    const double sd = sqrt(1 - long_share + long_share * long_wide * long_wide);
    assert_int_equal(wvgd_model_pointwise(&model, LONG, long_tail, NULL, true), 0);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        walking w;
        wvgd_results r;
        wvgd_options o = options_of(0, seed);
        o.bend = WVGD_BEND_NEVER;
        wvgd_fit *fit = fit_of(&model, &o, &w);
        wvgd_get_results(fit, &r);
        if (says(&r, "has grown where earlier ones found some")) {
            grown++;
            assert_near(r.evidence.value, LONG * log(2 * M_PI) / 2, 4 * r.evidence.se);
            assert_near(log(sqrt(r.var[0]) / sd), 0, log(1.15)); /* what counts as wrong in bench/certificate */
        }
        wvgd_free(fit);
    }
    assert_true(grown > 0);
    wvgd_model_close(&model);
}

/* Exponentials: most trajectories leave the support, whatever their steps. */
enum { WALLS = 3 };

static double exponentials(void *self, const double *z, double *grad)
{
    (void)self;
    double sum = 0;
    for (size_t i = 0; i < WALLS; i++) {
        if (z[i] < 0)
            return -INFINITY;
        sum -= z[i];
        if (grad)
            grad[i] = -1;
    }
    return sum;
}

/* Walls make trajectories shorter, and leave steps as they are: chains that complete a fit cost no more than elsewhere,
 * some 40 evaluations a trajectory with its jump, and tell the mean, 1, and the sd, 1. */
static void walls_do_not_make_chains_expensive(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, WALLS, exponentials, NULL, true), 0);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        walking w;
        wvgd_results r;
        wvgd_options o = options_of(0, seed);
        o.finish = WVGD_FINISH_ALWAYS;
        wvgd_fit *fit = fit_of(&model, &o, &w);
        wvgd_get_results(fit, &r);
        assert_string_equal(r.finish, "settled");
        assert_true(r.finish_evaluations < 20000);
        for (size_t i = 0; i < WALLS; i++) {
            assert_true(fabs(r.mean[i] - 1) < 4 * r.mcse[i]);
            assert_true(fabs(sqrt(r.var[i]) - 1) < 4 * r.sd_se[i]);
        }
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_follow_the_posterior),
        cmocka_unit_test(an_exact_mixture_needs_none),
        cmocka_unit_test(a_mixture_that_is_exact_in_its_core_only_is_not_exact),
        cmocka_unit_test(a_wrong_fit_is_refused),
        cmocka_unit_test(a_mixture_grows_where_walks_have_been),
        cmocka_unit_test(walls_do_not_make_chains_expensive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
