/* test_api.c - the calls in order and out of order: ask and tell, step, run, stopping, limits, failures, results
 * while running, views, trace. All of it with either solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/saved.h"
#include "support/targets.h"
#include "wvgd.h"

static wvgd_model MODEL;   /* two Gaussians in two dimensions */
static wvgd_solver SOLVER; /* the one that is being tested */

static int set_up(void **state)
{
    (void)state;
    const double weight[] = {0.4, 0.6}, mean[] = {-2, 0, 2, 1}, cov[] = {1, 0.3, 0.3, 0.5, 0.4, -0.2, -0.2, 0.8};
    return target_mixture(&MODEL, 2, 2, weight, mean, cov);
}

static int tear_down(void **state)
{
    (void)state;
    wvgd_model_close(&MODEL);
    return 0;
}

static wvgd_options options_of(size_t N, wvgd_family family)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = SOLVER;
    o.particles = N;
    o.family = family;
    o.max_iter = 80;
    return o;
}

/* The verdict is against the result, and a reason says so in these words. */
static bool doubted(const wvgd_results *r, const char *words)
{
    for (size_t i = 0; !r->reliable && i < r->reasons; i++)
        if (strstr(r->reason[i], words))
            return true;
    return false;
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
/* One batch by hand; false when the fit has ended. */
static bool by_hand(wvgd_fit *fit, const wvgd_model *model)
{
    size_t n, again;
    const double *z, *same;
    bool gradient, wanted;
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    if (n == 0)
        return false;
    double *log_p = malloc(n * sizeof *log_p), *grad = malloc(n * model->dim * sizeof *grad),
           *copy = malloc(n * model->dim * sizeof *copy);
    assert_true(log_p && grad && copy);
    memcpy(copy, z, n * model->dim * sizeof *z);
    assert_int_equal(wvgd_ask(fit, &again, &same, &wanted, NULL), WVGD_OK); /* the same points again */
    assert_int_equal(again, n);
    assert_int_equal(wanted, gradient);
    assert_memory_equal(same, copy, n * model->dim * sizeof *z);
    assert_int_equal(model->log_density(model->self, n, z, log_p, gradient ? grad : NULL), 0);
    assert_int_equal(wvgd_tell(fit, log_p, gradient ? grad : NULL, NULL), WVGD_OK);
    free(log_p);
    free(grad);
    free(copy);
    return true;
}

static void assert_same_end(const wvgd_fit *one, const wvgd_fit *two)
{
    wvgd_results a, b;
    size_t rows, other;
    wvgd_get_results(one, &a);
    wvgd_get_results(two, &b);
    assert_int_equal(a.stop, b.stop);
    assert_int_equal(a.iterations, b.iterations);
    assert_int_equal(a.evaluations, b.evaluations);
    assert_int_equal(a.closing_draws, b.closing_draws);
    assert_memory_equal(a.z, b.z, a.N * a.D * sizeof *a.z);
    assert_memory_equal(a.mu, b.mu, a.N * a.D * sizeof *a.z);
    assert_memory_equal(a.sd, b.sd, a.N * a.D * sizeof *a.z);
    assert_memory_equal(a.beta, b.beta, a.N * sizeof *a.z);
    assert_memory_equal(a.elbo, b.elbo, a.N * sizeof *a.z);
    assert_memory_equal(&a.pelbo, &b.pelbo, sizeof a.pelbo);
    assert_memory_equal(&a.evidence, &b.evidence, sizeof a.pelbo);
    assert_memory_equal(a.mean, b.mean, a.D * sizeof *a.z);
    const wvgd_trace_row *x = wvgd_trace(one, &rows), *y = wvgd_trace(two, &other);
    assert_int_equal(rows, other);
    for (size_t i = 0; i < rows; i++) {
        assert_int_equal(x[i].iteration, y[i].iteration);
        assert_int_equal(x[i].evaluations, y[i].evaluations);
        assert_memory_equal(&x[i].pelbo, &y[i].pelbo, sizeof(double));
        assert_memory_equal(&x[i].step, &y[i].step, sizeof(double));
    }
}

static void by_hand_by_step_and_by_run(void **state)
{
    (void)state;
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++) {
        wvgd_options o = options_of(2, family);
        wvgd_model silent = MODEL; /* without log_density all must be done by hand */
        silent.log_density = NULL;
        wvgd_fit *run = wvgd_new(&MODEL, &o, NULL, NULL), *step = wvgd_new(&MODEL, &o, NULL, NULL),
                 *hand = wvgd_new(&silent, &o, NULL, NULL);
        assert_true(run && step && hand);
        assert_int_equal(wvgd_run(run, NULL, NULL, NULL), WVGD_OK);
        while (strcmp(stage_of(step), "done"))
            assert_int_equal(wvgd_step(step, NULL), WVGD_OK);
        while (by_hand(hand, &MODEL)) {
        }
        assert_string_equal(stage_of(hand), "done");
        assert_same_end(run, step);
        assert_same_end(run, hand);
        wvgd_free(run);
        wvgd_free(step);
        wvgd_free(hand);
    }
}

static void without_a_gradient(void **state)
{
    (void)state;
    wvgd_model blind = MODEL;
    blind.has_gradient = false;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_error error = {WVGD_OK, ""};
    o.estimator = WVGD_REPARAM;
    assert_null(wvgd_new(&blind, &o, NULL, &error));
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "gradient"));
    o.estimator = WVGD_SCORE;
    wvgd_fit *fit = wvgd_new(&blind, &o, NULL, NULL);
    assert_non_null(fit);
    size_t n;
    const double *z;
    bool gradient = true;
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    assert_false(gradient);
    while (by_hand(fit, &blind)) {
    }
    wvgd_results r;
    wvgd_get_results(fit, &r);
    assert_near(r.evidence.value, 0, 6 * r.evidence.se);
    wvgd_free(fit);
}

static void calls_out_of_order(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    wvgd_error error = {WVGD_OK, ""};
    double log_p[4096], grad[8192], z[2] = {0, 0}, log_q;
    size_t n, cell;
    const double *points;
    bool gradient;
    memset(log_p, 0, sizeof log_p);
    memset(grad, 0, sizeof grad);
    assert_int_equal(wvgd_tell(fit, log_p, grad, &error), WVGD_E_ARGUMENT); /* tell without ask */
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "wvgd_ask"));
    assert_int_equal(wvgd_tell(fit, log_p, grad, NULL), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_ask(fit, &n, &points, &gradient, NULL), WVGD_OK);
    assert_true(gradient && n > 0 && n <= 4096);
    assert_int_equal(wvgd_tell(fit, NULL, grad, &error), WVGD_E_ARGUMENT); /* nothing told */
    assert_non_null(strstr(error.text, "log densities"));
    assert_int_equal(wvgd_tell(fit, log_p, NULL, &error), WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "gradients"));
    /* what only an ended fit can do */
    assert_int_equal(wvgd_cell(fit, 1, z, &cell, &error), WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "not finished"));
    assert_int_equal(wvgd_log_q(fit, 1, z, &log_q, NULL), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_sample(fit, 1, 1, z, NULL, NULL), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_resample(fit, 1, 1, z, NULL, NULL), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_draws(fit, &n, NULL, NULL, NULL, NULL, NULL), WVGD_E_ARGUMENT);
    /* none of this disturbed it */
    wvgd_fit *other = wvgd_new(&MODEL, &o, NULL, NULL);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    assert_int_equal(wvgd_run(other, NULL, NULL, NULL), WVGD_OK);
    assert_same_end(fit, other);
    /* after the end nothing is asked, stepped or told */
    assert_int_equal(wvgd_ask(fit, &n, &points, &gradient, NULL), WVGD_OK);
    assert_int_equal(n, 0);
    assert_int_equal(wvgd_tell(fit, log_p, grad, NULL), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    wvgd_stop_now(fit);
    assert_same_end(fit, other);
    wvgd_free(fit);
    wvgd_free(other);
    wvgd_free(NULL);
}

static void step_needs_a_log_density(void **state)
{
    (void)state;
    wvgd_model silent = MODEL;
    silent.log_density = NULL;
    wvgd_options o = options_of(1, WVGD_FULL);
    wvgd_error error = {WVGD_OK, ""};
    wvgd_fit *fit = wvgd_new(&silent, &o, NULL, NULL);
    assert_int_equal(wvgd_step(fit, &error), WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "log_density"));
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_step(fit, NULL), WVGD_E_ARGUMENT);
    wvgd_free(fit);
}

/* ---- a model that fails ------------------------------------------------------------------------------------------ */
typedef struct {
    const wvgd_model *inner;
    size_t calls, fail_at;
    int code;
} failing;

static int fail_once(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    failing *f = self;
    if (f->calls++ == f->fail_at)
        return f->code;
    return f->inner->log_density(f->inner->self, n, z, log_p, grad);
}

static void a_failing_model_is_reported(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    failing never = {&MODEL, 0, SIZE_MAX, 1};
    wvgd_model counting = MODEL;
    counting.log_density = fail_once;
    counting.self = &never;
    wvgd_fit *well = wvgd_new(&counting, &o, NULL, NULL);
    assert_int_equal(wvgd_run(well, NULL, NULL, NULL), WVGD_OK);
    const size_t when[] = {0, 3, never.calls / 2, never.calls - 1};
    static const int codes[] = {1, -7, 42, 1000000};
    for (size_t k = 0; k < 4; k++) {
        failing f = {&MODEL, 0, when[k], codes[k]};
        wvgd_model model = MODEL;
        wvgd_error error = {WVGD_OK, ""};
        char number[16];
        model.log_density = fail_once;
        model.self = &f;
        model.name = k ? "the flaky one" : NULL;
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_MODEL);
        assert_int_equal(error.code, WVGD_E_MODEL);
        snprintf(number, sizeof number, "%d", codes[k]);
        assert_non_null(strstr(error.text, number));
        assert_non_null(strstr(error.text, k ? "the flaky one" : "model"));
        wvgd_results r;
        wvgd_get_results(fit, &r);
        assert_int_equal(r.stop, WVGD_RUNNING);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK); /* asks for the same points again, and goes on */
        assert_same_end(well, fit);
        wvgd_free(fit);
    }
    wvgd_free(well);
}

/* ---- progress, stopping, limits ---------------------------------------------------------------------------------- */
typedef struct {
    const char *stage; /* stop in this stage, */
    size_t after;      /* after so many batches of it */
    size_t calls, in_stage, fitted;
    size_t evaluations, iteration;
    double seconds;
} watcher;

static int watch(void *self, const wvgd_progress *p)
{
    watcher *w = self;
    w->calls++;
    assert_non_null(p->stage);
    assert_int_equal(p->max_iter, 80);
    assert_true(p->evaluations > w->evaluations && p->iteration >= w->iteration && p->seconds >= w->seconds);
    w->evaluations = p->evaluations;
    w->iteration = p->iteration;
    w->seconds = p->seconds;
    if (!p->iteration)
        assert_true(isnan(p->pelbo) && isnan(p->ess) && isnan(p->pelbo_se));
    if (!strcmp(p->stage, "fit"))
        w->fitted++;
    if (!strcmp(p->stage, "done") && w->fitted > 1)
        assert_true(isfinite(p->pelbo));
    if (w->stage && !strcmp(p->stage, w->stage))
        return w->in_stage++ >= w->after ? 7 : 0;
    return 0;
}

static void assert_complete(const wvgd_fit *fit)
{
    wvgd_results r;
    wvgd_get_results(fit, &r);
    assert_true(isfinite(r.pelbo.value) && isfinite(r.pelbo.se) && isfinite(r.pelbo_beta.value) &&
                isfinite(r.evidence.value));
    assert_true(isfinite(r.distortion.value) && r.ess > 0 && r.closing_draws > 0);
    double beta = 0, weight = 0;
    for (size_t j = 0; j < r.N; j++) {
        beta += r.beta[j];
        weight += r.weight[j];
    }
    assert_near(beta, 1, 1e-9);
    assert_near(weight, 1, 1e-9);
    for (size_t i = 0; i < r.D; i++)
        assert_true(isfinite(r.mean[i]) && r.var[i] > 0 && r.mcse[i] > 0);
}

/* Stopped in each stage: the closing pass still runs, results are complete, and the verdict tells. What
 * is left is short: the staged solver needs a trial and a final batch, the joint one a trial and a
 * final batch of several thousand draws. */
static void stopping_in_every_stage(void **state)
{
    (void)state;
    static const struct {
        const char *stage;
        size_t after;
    } rows[] = {{"explore", 0}, {"explore", 12}, {"pilot", 0}, {"pilot", 2}, {"fit", 0},  {"fit", 3},
                {"fit", 20},    {"settle", 3},   {"trial", 0}, {"close", 0}, {"bound", 0}};
    size_t stopped = 0;
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_FULL; family++) /* diag has a pilot */
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            wvgd_options o = options_of(2, family);
            watcher w = {.stage = rows[k].stage, .after = rows[k].after};
            wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
            wvgd_error error;
            if (wvgd_run(fit, watch, &w, &error) != WVGD_OK)
                fail_msg("%s", error.text);
            wvgd_results r;
            wvgd_get_results(fit, &r);
            bool late = !strcmp(rows[k].stage, "bound") ||
                        (SOLVER == WVGD_JOINT && !strcmp(rows[k].stage, "close")); /* nothing is left to stop */
            if (w.in_stage <= rows[k].after || late)                               /* never got that far */
                assert_int_not_equal(r.stop, WVGD_STOPPED);
            else {
                assert_int_equal(r.stop, WVGD_STOPPED);
                assert_true(doubted(&r, "stopped before"));
                stopped++;
            }
            assert_complete(fit);
            wvgd_free(fit);
        }
    assert_true(stopped >= 10);
}

/* Stopped while exploring, with modes found far from where it started: the particles are there, not at the start. */
static void stopping_keeps_what_was_found(void **state)
{
    (void)state;
    const double mean[] = {300, -200}, cov[] = {1, 0, 0, 4};
    wvgd_model far;
    assert_int_equal(target_gaussian_cov(&far, 2, mean, cov, true), 0);
    wvgd_options o = options_of(1, WVGD_FULL);
    watcher w = {.stage = "explore", .after = 60};
    wvgd_fit *fit = wvgd_new(&far, &o, NULL, NULL);
    assert_int_equal(wvgd_run(fit, watch, &w, NULL), WVGD_OK);
    wvgd_results r;
    wvgd_get_results(fit, &r);
    assert_near(r.z[0], mean[0], 3.0);
    assert_near(r.z[1], mean[1], 6.0);
    assert_near(r.evidence.value, 0, 6 * r.evidence.se + 0.05);
    wvgd_free(fit);
    wvgd_model_close(&far);
}

static void stop_now_between_ask_and_tell(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    size_t n;
    const double *z;
    bool gradient;
    for (int i = 0; i < 40; i++)
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    wvgd_stop_now(fit); /* the question stands: it is answered, and then the closing pass begins */
    double *log_p = malloc(n * sizeof *log_p), *grad = malloc(2 * n * sizeof *grad);
    assert_non_null(log_p);
    assert_non_null(grad);
    assert_int_equal(MODEL.log_density(MODEL.self, n, z, log_p, grad), 0);
    assert_int_equal(wvgd_tell(fit, log_p, grad, NULL), WVGD_OK);
    free(log_p);
    free(grad);
    assert_string_equal(stage_of(fit), SOLVER == WVGD_STAGED ? "trial" : "close");
    wvgd_stop_now(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    assert_complete(fit);
    wvgd_free(fit);
}

/* Iterations in stages that fit; exploration, which fits single modes, counts too but has limits of its own, as have
 * the closing batches of the staged solver. */
static void max_iter_is_kept(void **state)
{
    (void)state;
    static const size_t limits[] = {1, 2, 5, 30};
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++)
        for (size_t k = 0; k < 4; k++) {
            wvgd_options o = options_of(2, family);
            o.max_iter = limits[k];
            wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
            wvgd_progress p = {.stage = "explore"};
            size_t explored = 0, fitting = 0;
            bool searched = false;
            while (strcmp(p.stage, "done")) {
                const char *stage = p.stage;
                assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
                wvgd_get_progress(fit, &p);
                if (!strcmp(stage, "explore") && !searched)
                    explored = p.iteration;
                searched = searched || strcmp(stage, "explore") != 0;
                fitting += strcmp(stage, "explore") && strcmp(stage, "trial") && strcmp(stage, "close") &&
                           strcmp(stage, "refine") && strcmp(stage, "bound");
            }
            if (fitting > 1 && explored + fitting > limits[k])
                fail_msg("%zu iterations after %zu of exploration, where %zu are allowed (family %d)", fitting,
                         explored, limits[k], (int)family);
            wvgd_results r;
            wvgd_get_results(fit, &r);
            assert_int_equal(r.stop, explored + fitting >= limits[k] ? WVGD_MAX_ITER : WVGD_CONVERGED);
            if (r.stop == WVGD_MAX_ITER)
                assert_true(doubted(&r, "not converged"));
            assert_complete(fit);
            wvgd_free(fit);
        }
}

static void max_seconds_is_kept(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++)
        for (wvgd_family family = WVGD_DIAG; family <= WVGD_FULL; family++) {
            wvgd_options o = options_of(2, family);
            o.init = given ? WVGD_INIT_NORMAL : WVGD_INIT_EXPLORE;
            o.max_seconds = 1e-9; /* up after the first batch */
            wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
            assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
            assert_string_equal(stage_of(fit), SOLVER == WVGD_STAGED ? "trial" : "close");
            assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
            wvgd_results r;
            wvgd_get_results(fit, &r);
            assert_int_equal(r.stop, WVGD_TIME_UP);
            assert_true(doubted(&r, "stopped before"));
            assert_true(r.seconds > 0 && r.model_seconds > 0 && r.model_seconds <= r.seconds);
            assert_complete(fit);
            wvgd_free(fit);
        }
}

static void stop_names(void **state)
{
    (void)state;
    assert_string_equal(wvgd_stop_name(WVGD_RUNNING), "running");
    assert_string_equal(wvgd_stop_name(WVGD_CONVERGED), "converged");
    assert_string_equal(wvgd_stop_name(WVGD_MAX_ITER), "max_iter");
    assert_string_equal(wvgd_stop_name(WVGD_TIME_UP), "time_up");
    assert_string_equal(wvgd_stop_name(WVGD_STOPPED), "stopped");
    assert_string_equal(wvgd_stop_name(WVGD_MAX_EVALUATIONS), "max_evaluations");
    assert_string_equal(wvgd_version(), WVGD_VERSION);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
static void results_while_running(void **state)
{
    (void)state;
    wvgd_options o = options_of(2, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    wvgd_results r;
    wvgd_get_results(fit, &r); /* before anything */
    assert_int_equal(r.N, 2);
    assert_int_equal(r.D, 2);
    assert_int_equal(r.stop, WVGD_RUNNING);
    assert_int_equal(r.iterations + r.evaluations, 0);
    assert_true(isnan(r.pelbo.value) && isnan(r.evidence.value) && isnan(r.pareto_k) && isnan(r.distortion.value));
    assert_int_equal(r.warnings + r.reasons, 0);
    assert_false(r.reliable);
    assert_null(wvgd_draw_weights(fit));
    for (size_t i = 0; i < 4; i++)
        assert_true(isfinite(r.z[i]) && r.sd[i] > 0);
    while (strcmp(stage_of(fit), "done")) {
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        bool done = !strcmp(stage_of(fit), "done"),
             closing = !strcmp(stage_of(fit), "close") || !strcmp(stage_of(fit), "certify") ||
                       (!strcmp(stage_of(fit), "explore") && r.iterations); /* more starts, with the mixture */
        assert_int_equal(r.stop == WVGD_RUNNING, !done);
        /* before the bound, the staged solver has its draws and cells */
        bool told = done || !strcmp(stage_of(fit), "bound");
        if (!closing) /* only the closing pass can tell, and draws may be added to it */
            assert_int_equal(isnan(r.evidence.value), !told);
        assert_int_equal(isnan(r.pelbo_beta.value), !done);
        assert_int_equal(r.closing_draws > 0, done);
        assert_int_equal(r.reasons > 0, done);
        assert_int_equal(wvgd_draw_weights(fit) != NULL, done);
        if (told || (isfinite(r.beta[0]) && !closing))
            assert_near(r.beta[0] + r.beta[1], 1, 1e-9);
        for (size_t i = 0; i < 2; i++)
            if (!told && isfinite(r.mean[i]))
                fail_msg("mean[%zu] is %g before the closing pass can tell: NAN is documented", i, r.mean[i]);
    }
    wvgd_free(fit);
}

static void shapes_of_views(void **state)
{
    (void)state;
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++) {
        wvgd_options o = options_of(3, family);
        size_t N = 3, D = 2;
        o.rank = 1;
        wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_results r;
        wvgd_get_results(fit, &r);
        assert_int_equal(r.N, N);
        assert_int_equal(r.D, D);
        if (family == WVGD_LOWRANK)
            assert_int_equal(r.rank, 1);
        assert_complete(fit);
        assert_int_equal(r.chol != NULL, family == WVGD_FULL);
        assert_near(r.pareto_k_limit, fmin(1 - 1 / log10((double)r.closing_draws), 0.7), 1e-12);
        assert_true(r.ess <= (double)r.closing_draws);
        if (SOLVER == WVGD_JOINT || family != WVGD_DIAG)
            assert_int_equal(isnan(r.meanfield_gap), family != WVGD_DIAG);
        assert_int_equal(r.components > 0, SOLVER == WVGD_STAGED);
        double weights = 0;
        for (size_t k = 0; k < r.components; k++) {
            const double *L = r.component_chol + k * D * D;
            assert_true(L[0] > 0 && L[1] == 0 && L[3] > 0 &&
                        isfinite(r.component_mu[k * D] + r.component_mu[k * D + 1]));
            weights += r.component_weight[k];
        }
        if (r.components)
            assert_near(weights, 1, 1e-9);
        double mass = 0, total_ess = 0;
        for (size_t j = 0; j < N; j++) {
            assert_true(r.log_Z[j] <= 0 &&
                        r.elbo[j] <= r.evidence.value + log(r.beta[j]) +
                                         6 * (r.elbo_se[j] + r.evidence.se + r.beta_se[j] / r.beta[j]));
            mass += exp(r.elbo[j]);
            total_ess += r.cell_ess[j];
            double cov[4];
            assert_int_equal(wvgd_component_cov(fit, j, cov, NULL), WVGD_OK);
            assert_near(cov[1], cov[2], 1e-14 * (fabs(cov[1]) + 1e-300));
            for (size_t i = 0; i < D; i++)
                assert_near(cov[i * D + i], r.sd[j * D + i] * r.sd[j * D + i], 1e-12 * cov[i * D + i]);
            if (family == WVGD_DIAG)
                assert_true(cov[1] == 0);
            if (family == WVGD_FULL) {
                const double *L = r.chol + j * D * D;
                assert_true(L[1] == 0 && L[0] > 0 && L[3] > 0);
                assert_near(cov[0], L[0] * L[0], 1e-12 * cov[0]);
                assert_near(cov[2], L[2] * L[0], 1e-12 * sqrt(cov[0] * cov[3]));
                assert_near(cov[3], L[2] * L[2] + L[3] * L[3], 1e-12 * cov[3]);
                const double *V = r.cell_cov + j * D * D;
                assert_true(V[0] > 0 && V[3] > 0 && V[0] * V[3] > V[1] * V[1]);
                assert_near(V[1], V[2], 1e-14);
            } else
                assert_true(r.cell_cov[j * D] > 0 && r.cell_cov[j * D + 1] > 0);
        }
        assert_true(total_ess > 0);
        /* the best weights give the log of the sum, but for their own noise */
        assert_near(r.pelbo.value, log(mass), 0.05 + 6 * r.pelbo.se);
        assert_true(r.pelbo.value <= r.evidence.value + 6 * (r.pelbo.se + r.evidence.se));
        assert_true(r.pelbo_beta.value <= r.pelbo.value + 6 * (r.pelbo.se + r.pelbo_beta.se));
        double cov[4];
        wvgd_error error = {WVGD_OK, ""};
        assert_int_equal(wvgd_component_cov(fit, N, cov, &error), WVGD_E_ARGUMENT);
        assert_non_null(strstr(error.text, "3"));
        assert_int_equal(wvgd_component_cov(fit, SIZE_MAX, cov, NULL), WVGD_E_ARGUMENT);
        wvgd_free(fit);
    }
}

static void trace_has_a_row_an_iteration(void **state)
{
    (void)state;
    wvgd_options o = options_of(3, WVGD_DIAG); /* with the pilot, whose iterations count too */
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, NULL);
    size_t rows = 99;
    wvgd_trace(fit, &rows);
    assert_int_equal(rows, 0);
    while (strcmp(stage_of(fit), "done")) {
        const char *stage = stage_of(fit);
        size_t before = rows;
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
        const wvgd_trace_row *row = wvgd_trace(fit, &rows);
        wvgd_progress p;
        wvgd_get_progress(fit, &p);
        bool walking = !strcmp(stage, "certify") && !strcmp(stage_of(fit), "certify"); /* a row when walks have ended */
        bool iterates = strcmp(stage, "explore") && strcmp(stage, "probe") && !walking && strcmp(stage, "refine") &&
                        strcmp(stage, "bound") && (SOLVER == WVGD_STAGED || strcmp(stage, "close"));
        assert_int_equal(rows, before + iterates);
        if (!iterates)
            continue;
        const wvgd_trace_row *last = &row[rows - 1];
        assert_int_equal(last->iteration, p.iteration);
        if (before)
            assert_int_equal(last->iteration, row[before - 1].iteration + 1);
        assert_int_equal(last->evaluations, p.evaluations);
        assert_true(last->seconds >= 0 && last->pelbo_se >= 0 && isfinite(last->pelbo));
        assert_near(last->pelbo, p.pelbo, 0);
        if (!strcmp(stage, "pilot") || SOLVER == WVGD_STAGED)
            continue; /* no cells yet */
        assert_true(last->ess > 0 && last->distortion >= 0 && last->step >= 0);
        const double *beta = wvgd_trace_beta(fit) + (rows - 1) * 3;
        assert_near(beta[0] + beta[1] + beta[2], 1, 1e-9);
    }
    wvgd_free(fit);
}

/* Names, counts and times of a model that is used as it comes. */
static void the_model_is_copied(void **state)
{
    (void)state;
    wvgd_model model = MODEL;
    wvgd_options o = options_of(1, WVGD_FULL);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
    memset(&model, 0xff, sizeof model);
    memset(&o, 0xff, sizeof o);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    assert_complete(fit);
    wvgd_free(fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand_by_step_and_by_run),
        cmocka_unit_test(without_a_gradient),
        cmocka_unit_test(calls_out_of_order),
        cmocka_unit_test(step_needs_a_log_density),
        cmocka_unit_test(a_failing_model_is_reported),
        cmocka_unit_test(stopping_in_every_stage),
        cmocka_unit_test(stopping_keeps_what_was_found),
        cmocka_unit_test(stop_now_between_ask_and_tell),
        cmocka_unit_test(max_iter_is_kept),
        cmocka_unit_test(max_seconds_is_kept),
        cmocka_unit_test(stop_names),
        cmocka_unit_test(results_while_running),
        cmocka_unit_test(shapes_of_views),
        cmocka_unit_test(trace_has_a_row_an_iteration),
        cmocka_unit_test(the_model_is_copied),
    };
    int failed = 0;
    for (SOLVER = WVGD_STAGED; SOLVER <= WVGD_JOINT; SOLVER++)
        failed += cmocka_run_group_tests_name(SOLVER == WVGD_STAGED ? "staged" : "joint", tests, set_up, tear_down);
    return failed;
}
