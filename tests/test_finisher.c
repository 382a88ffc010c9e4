/* test_finisher.c - chains that complete a fit: states of the posterior, an evidence by the bridge or the ladder that
 * is right within its error, the same results when resumed, and with any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "wvgd.h"

static wvgd_options options_of(uint64_t seed, wvgd_finish finish)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.particles = 2;
    o.seed = seed;
    o.finish = finish;
    return o;
}

static bool says(const wvgd_results *r, const char *text)
{
    for (size_t i = 0; i < r->reasons; i++)
        if (strstr(r->reason[i], text))
            return true;
    return false;
}

static wvgd_fit *fit_of(const wvgd_model *model, const wvgd_options *o, wvgd_results *r)
{
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(model, o, NULL, &error);
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(fit, r);
    return fit;
}

/* x_i = i + (1 + i) n_i: the mixture is the posterior already, and chains must leave it so. */
enum { NORMALS = 5 };

static double normals(void *self, const double *z, double *grad)
{
    (void)self;
    double sum = 0;
    for (size_t i = 0; i < NORMALS; i++) {
        double sd = 1 + (double)i, y = (z[i] - (double)i) / sd;
        sum -= y * y / 2 + log(sd * sqrt(2 * M_PI));
        if (grad)
            grad[i] = -y / sd;
    }
    return sum;
}

static void a_gaussian_stays_what_it_is(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_results r;
    wvgd_options o = options_of(1, WVGD_FINISH_ALWAYS);
    assert_int_equal(wvgd_model_pointwise(&model, NORMALS, normals, NULL, true), 0);
    wvgd_fit *fit = fit_of(&model, &o, &r);
    assert_string_equal(r.finish, "settled");
    assert_near(r.evidence.value, 0, 4 * r.evidence.se + 1e-6);
    assert_true(r.evidence.se < 0.05 && r.finish_missing == 0);
    for (size_t i = 0; i < NORMALS; i++) {
        assert_near(r.mean[i], (double)i, 4.5 * r.mcse[i]);
        assert_near(sqrt(r.var[i]), 1 + (double)i, 4.5 * r.sd_se[i]);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* Draws and states together have the moments and the evidence of a Student-t with 6 degrees of freedom, and are as many
 * as are said. */
static void states_follow_a_known_posterior(void **state)
{
    (void)state;
    enum { D = 4 };
    wvgd_model model;
    const double nu = 6, weight = 1, mean[D] = {3, -1, 0, 2},
                 scale[D * D] = {4, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0.01, 0, 0, 0, 0, 1};
    assert_int_equal(target_student_mixture(&model, D, 1, nu, &weight, mean, scale), 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        wvgd_results r;
        wvgd_options o = options_of(seed, WVGD_FINISH_ALWAYS);
        wvgd_fit *fit = fit_of(&model, &o, &r);
        assert_string_equal(r.finish, "settled");
        assert_int_equal(r.stop, WVGD_FINISHED);
        assert_true(r.finish_states > 0 && r.finish_states % r.finish_chains == 0);
        assert_true(r.finish_states < r.closing_draws && r.finish_rungs == 0);
        assert_true(r.finish_evaluations > 0 && r.finish_evaluations < r.evaluations);
        assert_near(r.evidence.value, 0, 4 * r.evidence.se);
        for (size_t i = 0; i < D; i++) {
            double sd = sqrt(scale[i * D + i] * nu / (nu - 2));
            assert_near(r.mean[i], mean[i], 4.5 * r.mcse[i]);
            assert_near(sqrt(r.var[i]), sd, 5 * r.sd_se[i]);
            assert_true(r.mcse[i] < 0.1 * sd);
        }
        assert_true(r.finish_acceptance > 0.5 && r.finish_jumps > 0.1 && r.finish_tau >= 1);
        assert_true(r.reliable && says(&r, "Hamiltonian chains completed the fit"));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Pairs a ~ N(1, 1), b ~ N(a^2, 0.1) in 8 dimensions with one component: the proposal is hopeless, and the ladder tells
 * the evidence. Means are 1 and 2, variances 1 and 6.1. */
enum { PAIRS = 4 };

static double pairs(void *self, const double *z, double *grad)
{
    (void)self;
    double sum = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        double a = z[2 * i], e = a * a - z[2 * i + 1];
        sum -= ((a - 1) * (a - 1) + e * e / 0.1) / 2;
        if (grad) {
            grad[2 * i] = 1 - a - 2 * a * e / 0.1;
            grad[2 * i + 1] = e / 0.1;
        }
    }
    return sum;
}

/* States alone have equal weights, and the mixture, of which none is a draw, tells nothing of them. */
static void assert_plain_variances(const wvgd_fit *fit, const wvgd_results *r, size_t D)
{
    const double *z;
    size_t n;
    assert_int_equal(wvgd_draws(fit, &n, &z, NULL, NULL, NULL, NULL), WVGD_OK);
    for (size_t d = 0; d < D; d++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < n; i++)
            mean += z[i * D + d] / (double)n;
        for (size_t i = 0; i < n; i++)
            square += (z[i * D + d] - mean) * (z[i * D + d] - mean) / (double)n;
        assert_near(r->mean[d], mean, 1e-6 * sqrt(square));
        assert_near(r->var[d], square, 1e-6 * square);
    }
}

static void a_hopeless_proposal_is_replaced(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, 2 * PAIRS, pairs, NULL, true), 0);
    const double truth = PAIRS * (log(2 * M_PI) + 0.5 * log(0.1));
    size_t settled = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        wvgd_results r;
        wvgd_options o = options_of(seed, WVGD_FINISH_AUTO);
        o.components = 1;
        wvgd_fit *fit = fit_of(&model, &o, &r);
        assert_true(r.finish_rungs > 0 && r.finish_missing > 0.1);
        assert_int_equal(r.closing_draws, r.finish_states);
        assert_plain_variances(fit, &r, 2 * PAIRS);
        if (strcmp(r.finish, "settled")) /* some 4 of 100 fits do not, and say so */
            assert_false(r.reliable);
        else {
            settled++;
            assert_near(r.evidence.value, truth, 6 * r.evidence.se); /* errors from a few chains have tails */
            assert_true(r.evidence.se < 0.35);
            for (size_t i = 0; i < 2 * PAIRS; i++) {
                assert_near(r.mean[i], i % 2 ? 2 : 1, 6 * r.mcse[i]);
                assert_near(sqrt(r.var[i]), i % 2 ? sqrt(6.1) : 1, 6 * r.sd_se[i]);
                assert_false(r.tail_k[i] > r.tail_k_limit); /* squares of normals: 0 */
            }
        }
        wvgd_free(fit);
    }
    assert_true(settled >= 2);
    wvgd_model_close(&model);
}

/* Two narrow Gaussians that cross, with one component: chains need some ten trajectories to get from one arm to the
 * other. A walk that is too short for that remembers where it began: log evidences were then 0.08 too low on average.
 */
static void slow_chains_walk_on(void **state)
{
    (void)state;
    enum { SEEDS = 8 };
    wvgd_model model;
    const double weight[] = {1, 1}, mean[] = {0, 0, 1, 1}, cov[] = {1, 0, 0, 0.04, 0.04, 0, 0, 1};
    double sum = 0, squares = 0;
    assert_int_equal(target_mixture(&model, 2, 2, weight, mean, cov), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_results r;
        wvgd_options o = options_of(seed, WVGD_FINISH_ALWAYS);
        o.components = 1;
        wvgd_fit *fit = fit_of(&model, &o, &r);
        if (!strcmp(r.finish, "settled")) { /* two thirds of them count, or a half */
            assert_true((double)r.finish_trajectories > 1.4 * 5 * r.finish_tau);
            assert_near(r.evidence.value, target_truth_of(&model).log_evidence, 4 * r.evidence.se);
        }
        double error = r.evidence.value - target_truth_of(&model).log_evidence;
        sum += error / SEEDS;
        squares += error * error / SEEDS;
        wvgd_free(fit);
    }
    assert_true(fabs(sum) < 3 * sqrt(squares / SEEDS) && fabs(sum) < 0.04);
    wvgd_model_close(&model);
}

/* exp(-(|x| - 2)^2 / (2 0.1^2)) in 4 dimensions with 16 components: a part of the shell is missing, but draws of the
 * rest still tell the evidence, with states. */
enum { SHELL = 4 };

static double shell(void *self, const double *z, double *grad)
{
    (void)self;
    double square = 0;
    for (size_t i = 0; i < SHELL; i++)
        square += z[i] * z[i];
    double r = sqrt(square), d = (r - 2) / 0.1;
    for (size_t i = 0; grad && i < SHELL; i++)
        grad[i] = -d / 0.1 * z[i] / (r + 1e-300);
    return -d * d / 2;
}

static void draws_count_where_a_part_is_missing(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, SHELL, shell, NULL, true), 0);
    const double w = 0.1, truth = log(2 * M_PI * M_PI * sqrt(2 * M_PI) * w * (2 * 2 * 2 + 3 * 2 * w * w));
    size_t bridged = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        wvgd_results r;
        wvgd_options o = options_of(seed, WVGD_FINISH_AUTO);
        o.components = 16;
        wvgd_fit *fit = fit_of(&model, &o, &r);
        assert_string_equal(r.finish, "settled");
        if (r.reliable && r.modes > 1)
            assert_true(says(&r, "chains walk from one to the other") && !says(&r, "modes have been missed"));
        assert_true(isnan(r.pareto_k)); /* no weight of draws and states is beyond a limit */
        bridged += r.finish_missing > 0.1 && r.finish_rungs == 0 && r.finish_states < r.closing_draws;
        assert_near(r.evidence.value, truth, 4 * r.evidence.se);
        for (size_t i = 0; i < SHELL; i++)
            assert_near(r.mean[i], 0, 5 * r.mcse[i]);
        wvgd_free(fit);
    }
    assert_true(bridged);
    wvgd_model_close(&model);
}

/* Two shells of radius 2 in five dimensions, which Gaussians follow badly: with some seeds no component of a cell has
 * mass inside of it, and there is no bound. States show all the same what the posterior is. */
static double two_shells(void *self, const double *z, double *grad)
{
    enum { WIDE = 5 };
    double log_p[2], g[2][WIDE];
    (void)self;
    for (size_t s = 0; s < 2; s++) {
        double square = 0;
        for (size_t i = 0; i < WIDE; i++) {
            g[s][i] = z[i] - (i ? 0 : s ? 3.5 : -3.5);
            square += g[s][i] * g[s][i];
        }
        double r = sqrt(square), d = (r - 2) / 0.1;
        log_p[s] = -d * d / 2;
        for (size_t i = 0; i < WIDE; i++)
            g[s][i] *= -d / 0.1 / (r + 1e-300);
    }
    double top = fmax(log_p[0], log_p[1]) + log1p(exp(-fabs(log_p[0] - log_p[1])));
    for (size_t i = 0; grad && i < WIDE; i++)
        grad[i] = exp(log_p[0] - top) * g[0][i] + exp(log_p[1] - top) * g[1][i];
    return top;
}

static void states_know_shells(void **state)
{
    (void)state;
    enum { SEEDS = 4 };
    wvgd_model model;
    wvgd_results r;
    const double w = 0.1,
                 truth = log(16 * M_PI * M_PI / 3 * sqrt(2 * M_PI) * w * (16 + 24 * w * w + 3 * w * w * w * w));
    assert_int_equal(wvgd_model_pointwise(&model, 5, two_shells, NULL, true), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_options o = options_of(seed, WVGD_FINISH_AUTO);
        o.max_evaluations = 680000;
        o.bend = WVGD_BEND_NEVER;
        wvgd_fit *fit = fit_of(&model, &o, &r);
        assert_string_equal(r.finish, "settled");
        assert_near(r.evidence.value, truth, 4 * r.evidence.se);
        assert_false(r.reliable);
        assert_false(r.pelbo.value > r.evidence.value + 4 * hypot(r.pelbo.se, r.evidence.se)); /* or there is none */
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Without enough evaluations the verdict says what chains would take; with `never` nothing is said of them. */
static void limits_are_kept(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_results r;
    assert_int_equal(wvgd_model_pointwise(&model, 2 * PAIRS, pairs, NULL, true), 0);
    wvgd_options o = options_of(1, WVGD_FINISH_AUTO);
    o.components = 1;
    o.max_evaluations = 16000;
    wvgd_fit *fit = fit_of(&model, &o, &r);
    assert_false(r.reliable);
    assert_true(r.evaluations <= 16000 && !strcmp(r.finish, "too_expensive") && says(&r, "raise --max-evaluations"));
    wvgd_free(fit);
    o.max_evaluations = 30000;
    fit = fit_of(&model, &o, &r);
    assert_true(r.evaluations <= 30000 && !strcmp(r.finish, "unsettled") && !r.reliable);
    wvgd_free(fit);
    o.max_evaluations = 0;
    o.finish = WVGD_FINISH_NEVER;
    fit = fit_of(&model, &o, &r);
    assert_true(!strcmp(r.finish, "none") && !r.finish_states && !r.reliable);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* Another fit, resumed at every so many batches of the stage; or with threads. */
static void assert_same(const wvgd_results *a, const wvgd_results *b)
{
    assert_memory_equal(&a->evidence, &b->evidence, sizeof a->evidence);
    assert_memory_equal(a->mean, b->mean, a->D * sizeof *a->mean);
    assert_memory_equal(a->var, b->var, a->D * sizeof *a->var);
    assert_memory_equal(a->sd_se, b->sd_se, a->D * sizeof *a->sd_se);
    assert_memory_equal(a->beta, b->beta, a->N * sizeof *a->beta);
    assert_int_equal(a->evaluations, b->evaluations);
    assert_int_equal(a->finish_states, b->finish_states);
}

static void resumed_and_with_threads_it_is_the_same(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_error error;
    wvgd_results whole, r;
    assert_int_equal(wvgd_model_pointwise(&model, 2 * PAIRS, pairs, NULL, true), 0);
    wvgd_options o = options_of(1, WVGD_FINISH_AUTO);
    o.components = 1;
    wvgd_fit *fit = fit_of(&model, &o, &whole), *other;
    assert_true(whole.finish_rungs > 0);
    o.threads = 3;
    other = fit_of(&model, &o, &r);
    assert_same(&whole, &r);
    wvgd_free(other);
    o.threads = 1;
    other = wvgd_new(&model, &o, NULL, &error);
    for (size_t batch = 0, resumed = 0;; batch++) {
        wvgd_progress p;
        assert_int_equal(wvgd_step(other, &error), WVGD_OK);
        wvgd_get_progress(other, &p);
        if (!strcmp(p.stage, "done")) {
            assert_true(resumed > 5);
            break;
        }
        if (strcmp(p.stage, "finish") || batch % 37)
            continue;
        size_t size = wvgd_save_size(other);
        void *saved = malloc(size);
        assert_int_equal(wvgd_save(other, saved, size, &error), WVGD_OK);
        wvgd_free(other);
        other = wvgd_new(&model, &o, NULL, &error);
        assert_int_equal(wvgd_restore(other, saved, size, &error), WVGD_OK);
        free(saved);
        resumed++;
    }
    wvgd_get_results(other, &r);
    assert_same(&whole, &r);
    wvgd_free(other);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gaussian_stays_what_it_is),
        cmocka_unit_test(states_follow_a_known_posterior),
        cmocka_unit_test(slow_chains_walk_on),
        cmocka_unit_test(draws_count_where_a_part_is_missing),
        cmocka_unit_test(a_hopeless_proposal_is_replaced),
        cmocka_unit_test(states_know_shells),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(resumed_and_with_threads_it_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
