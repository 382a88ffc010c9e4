/* test_stages.c - the staged solver as a machine: by hand, by step and by run through all of its stages, stopped in
 * each, with one thread and two, on models that break off, have walls, or give gradients that are no numbers. The
 * model that makes it go through all stages is a banana: one ascent ends in it, one Gaussian does not fit it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "wvgd.h"

static wvgd_model BANANA;
static const char *const STAGES[] = {"explore", "fit", "trial", "bend", "probe", "close", "certify", "bound"};
enum { STAGE_COUNT = 8, D = 2 };

static int set_up(void **state)
{
    (void)state;
    return target_banana(&BANANA, D, 1, 1);
}

static int tear_down(void **state)
{
    (void)state;
    wvgd_model_close(&BANANA);
    return 0;
}

static wvgd_options options_of(size_t N)
{
    wvgd_options o;
    wvgd_options_init(&o);
    assert_int_equal(o.solver, WVGD_STAGED);
    o.particles = N;
    return o;
}

static size_t stage_of(const wvgd_fit *fit)
{
    wvgd_progress p;
    wvgd_get_progress(fit, &p);
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (!strcmp(p.stage, STAGES[i]))
            return i;
    assert_string_equal(p.stage, "done");
    return STAGE_COUNT;
}

static void assert_sound(const wvgd_fit *fit)
{
    wvgd_results r;
    double beta = 0, weight = 0, z[20 * D], log_q[20];
    size_t cell[20], where[20];
    wvgd_get_results(fit, &r);
    assert_int_not_equal(r.stop, WVGD_RUNNING);
    assert_true(isfinite(r.evidence.value) && isfinite(r.pelbo.value) && isfinite(r.pelbo_beta.value) &&
                isfinite(r.distortion.value) && r.closing_draws > 0 && r.reasons > 0);
    for (size_t j = 0; j < r.N; j++) {
        beta += r.beta[j];
        weight += r.weight[j];
        for (size_t i = 0; i < D; i++)
            assert_true(isfinite(r.z[j * D + i]) && isfinite(r.mu[j * D + i]) && r.sd[j * D + i] > 0 &&
                        isfinite(r.sd[j * D + i]));
    }
    assert_near(beta, 1, 1e-9);
    assert_near(weight, 1, 1e-9);
    for (size_t i = 0; i < D; i++)
        assert_true(isfinite(r.mean[i]) && r.var[i] > 0 && r.mcse[i] >= 0);
    assert_int_equal(wvgd_sample(fit, 1, 20, z, cell, NULL), WVGD_OK);
    assert_int_equal(wvgd_cell(fit, 20, z, where, NULL), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, 20, z, log_q, NULL), WVGD_OK);
    for (size_t i = 0; i < 20; i++)
        assert_true(cell[i] == where[i] && isfinite(log_q[i]));
}

static void assert_same(const wvgd_fit *one, const wvgd_fit *two)
{
    wvgd_results a, b;
    wvgd_get_results(one, &a);
    wvgd_get_results(two, &b);
    assert_int_equal(a.evaluations, b.evaluations);
    assert_int_equal(a.iterations, b.iterations);
    assert_int_equal(a.components, b.components);
    assert_int_equal(a.closing_draws, b.closing_draws);
    assert_memory_equal(a.z, b.z, a.N * D * sizeof *a.z);
    assert_memory_equal(a.mu, b.mu, a.N * D * sizeof *a.z);
    assert_memory_equal(a.beta, b.beta, a.N * sizeof *a.z);
    assert_memory_equal(a.mean, b.mean, D * sizeof *a.z);
    assert_memory_equal(a.component_chol, b.component_chol, a.components * D * D * sizeof *a.z);
    assert_memory_equal(&a.evidence, &b.evidence, sizeof a.evidence);
    assert_memory_equal(&a.pelbo, &b.pelbo, sizeof a.pelbo);
    assert_memory_equal(&a.distortion, &b.distortion, sizeof a.pelbo);
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */
/* Gradients are wanted in all stages but the last. */
static void by_hand_with(wvgd_bend bend, size_t *seen)
{
    wvgd_options o = options_of(2);
    wvgd_model silent = BANANA;
    o.bend = bend;
    silent.log_density = NULL;
    wvgd_fit *run = wvgd_new(&BANANA, &o, NULL, NULL), *hand = wvgd_new(&silent, &o, NULL, NULL);
    assert_int_equal(wvgd_run(run, NULL, NULL, NULL), WVGD_OK);
    for (;;) {
        size_t n, again, stage = stage_of(hand);
        const double *z, *same;
        bool gradient, wanted;
        assert_int_equal(wvgd_ask(hand, &n, &z, &gradient, NULL), WVGD_OK);
        if (!n)
            break;
        seen[stage]++;
        assert_int_equal(gradient, stage < STAGE_COUNT - 1);
        double *log_p = malloc(n * sizeof *log_p), *grad = malloc(n * D * sizeof *grad),
               *copy = malloc(n * D * sizeof *copy);
        assert_true(log_p && grad && copy);
        memcpy(copy, z, n * D * sizeof *z);
        assert_int_equal(wvgd_ask(hand, &again, &same, &wanted, NULL), WVGD_OK); /* the same points again */
        assert_true(again == n && wanted == gradient);
        assert_memory_equal(same, copy, n * D * sizeof *z);
        assert_int_equal(BANANA.log_density(BANANA.self, n, z, log_p, gradient ? grad : NULL), 0);
        if (gradient)
            assert_int_equal(wvgd_tell(hand, log_p, NULL, NULL), WVGD_E_ARGUMENT);
        assert_int_equal(wvgd_tell(hand, log_p, gradient ? grad : NULL, NULL), WVGD_OK);
        free(log_p);
        free(grad);
        free(copy);
    }
    assert_int_equal(stage_of(hand), STAGE_COUNT);
    assert_same(run, hand);
    assert_sound(run);
    wvgd_free(run);
    wvgd_free(hand);
}

/* In bent coordinates, and with a mixture that grows. */
static void by_hand(void **state)
{
    (void)state;
    size_t seen[STAGE_COUNT + 1] = {0};
    by_hand_with(WVGD_BEND_AUTO, seen);
    by_hand_with(WVGD_BEND_NEVER, seen);
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (!seen[i])
            fail_msg("no fit came to stage %s", STAGES[i]);
}

/* The same bits with one thread and two, from a model that is cut into chunks. */
static void threads(void **state)
{
    (void)state;
    wvgd_fit *fit[2];
    for (unsigned k = 0; k < 2; k++) {
        wvgd_options o = options_of(3);
        wvgd_model shared;
        assert_int_equal(wvgd_model_threads(&shared, &BANANA, 1 + k), 0);
        fit[k] = wvgd_new(&shared, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit[k], NULL, NULL, NULL), WVGD_OK);
        wvgd_model_close(&shared);
    }
    assert_same(fit[0], fit[1]);
    wvgd_free(fit[0]);
    wvgd_free(fit[1]);
}

/* ---- stopping ---------------------------------------------------------------------------------------------------- */
/* Stopped in every stage, at its first batch and later: what is left is a trial, a final batch of
 * 4096 draws and the bound at most. */
static void stopping(void **state)
{
    (void)state;
    enum { LATER = 3 };
    for (size_t stage = 0; stage < STAGE_COUNT; stage++)
        for (size_t after = 0; after <= LATER; after += LATER) {
            wvgd_options o = options_of(2);
            o.bend = strcmp(STAGES[stage], "bend") ? WVGD_BEND_NEVER : WVGD_BEND_AUTO;
            wvgd_fit *fit = wvgd_new(&BANANA, &o, NULL, NULL);
            wvgd_results r;
            size_t in_stage = 0;
            while (stage_of(fit) < STAGE_COUNT && (stage_of(fit) != stage || in_stage < after)) {
                in_stage += stage_of(fit) == stage;
                assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
            }
            bool there = stage_of(fit) == stage;
            if (after == 0)
                assert_true(there);
            wvgd_get_results(fit, &r);
            size_t before = r.evaluations;
            wvgd_stop_now(fit);
            wvgd_stop_now(fit); /* twice is once */
            assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
            wvgd_get_results(fit, &r);
            if (there && stage < STAGE_COUNT - 1) {
                assert_int_equal(r.stop, WVGD_STOPPED);
                assert_false(r.reliable);
            } else
                assert_int_equal(r.stop, WVGD_CONVERGED); /* the bound is the last batch: nothing is left to stop */
            if (r.evaluations - before > 6000)
                fail_msg("stopped in stage %s: %zu more evaluations", STAGES[stage], r.evaluations - before);
            assert_sound(fit);
            wvgd_free(fit);
        }
}

/* ---- models that misbehave --------------------------------------------------------------------------------------- */
typedef enum { BEYOND, NOTHING_BEYOND, WALL, NO_SLOPE, SLOPE_BEYOND, WRONG_SLOPE, KINDS } trouble;

/* A standard normal in the plane that is no number outside radius 2, has no density there, ends at a wall where it
 * is highest, has gradients that are no numbers, everywhere or beyond a line, or gradients with the wrong sign. */
static double troubled(void *self, const double *z, double *grad)
{
    trouble kind = *(const trouble *)self;
    double r2 = z[0] * z[0] + z[1] * z[1];
    for (size_t i = 0; grad && i < D; i++)
        grad[i] = kind == NO_SLOPE || (kind == SLOPE_BEYOND && z[0] > 1) ? NAN : kind == WRONG_SLOPE ? z[i] : -z[i];
    if (kind == BEYOND && r2 > 4)
        return NAN;
    if (kind == NOTHING_BEYOND && r2 > 4)
        return -INFINITY;
    if (kind == WALL && z[0] < 0)
        return -INFINITY;
    return -0.5 * r2;
}

/* Whatever happens, the fit ends, with an error or with sound results; where it calls them reliable they are right,
 * within 0.05 and 6 standard errors: the mass within radius 2 is 2 pi (1 - exp(-2)), half of the plane has pi. */
static void troubled_models(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    const double truth[KINDS] = {
        log(2 * pi * (1 - exp(-2.0))), log(2 * pi * (1 - exp(-2.0))), log(pi), NAN, NAN, log(2 * pi)};
    for (trouble kind = BEYOND; kind < KINDS; kind++)
        for (size_t N = 1; N <= 3; N += 2) {
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = options_of(N);
            wvgd_error error = {WVGD_OK, ""};
            assert_int_equal(wvgd_model_pointwise(&model, D, troubled, &kind, true), 0);
            wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
            wvgd_status status = wvgd_run(fit, NULL, NULL, &error);
            wvgd_get_results(fit, &r);
            print_message("kind %d, N = %zu: status %d, log evidence %.4f +- %.4f, exact %.4f, %s, %zu evaluations, "
                          "%zu bad, %zu without density\n",
                          (int)kind, N, (int)status, r.evidence.value, r.evidence.se, truth[kind],
                          r.reliable ? "reliable" : "doubted", r.evaluations, r.bad_points, r.zero_points);
            if (status == WVGD_OK) {
                assert_sound(fit);
                if (r.reliable)
                    assert_near(r.evidence.value, truth[kind], 0.05 + 6 * r.evidence.se);
                if (kind == BEYOND || kind == SLOPE_BEYOND)
                    assert_false(r.reliable);
                if (kind <= WALL)
                    assert_near(r.evidence.value, truth[kind], 0.05 + 6 * r.evidence.se);
            } else
                assert_int_equal(status, WVGD_E_NO_DRAWS);
            if (kind == NO_SLOPE)
                assert_int_equal(status, WVGD_E_NO_DRAWS); /* no point has density and gradient */
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(threads),
        cmocka_unit_test(stopping),
        cmocka_unit_test(troubled_models),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
