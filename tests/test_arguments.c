/* test_arguments.c - NULL where a pointer is needed, values that no enum has, and matrices that are no metric: every
 * public function refuses them with a sentence, or does nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/targets.h"
#include "wvgd.h"

static wvgd_model MODEL; /* two Gaussians in two dimensions */

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

static wvgd_error error;

/* The status, and words that the sentence has. */
static void refused(wvgd_status status, const char *words)
{
    assert_int_equal(status, WVGD_E_ARGUMENT);
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    if (!strstr(error.text, words))
        print_error("\"%s\" lacks \"%s\"\n", error.text, words);
    assert_non_null(strstr(error.text, words));
    error = (wvgd_error){0};
}

static void no_fit(wvgd_fit *fit, const char *words)
{
    assert_null(fit);
    refused(error.code, words);
}

static wvgd_fit *new_fit(bool run)
{
    wvgd_options o;
    wvgd_options_init(&o);
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, &error);
    assert_non_null(fit);
    if (run)
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    return fit;
}

static void options_may_not_be_null(void **state)
{
    (void)state;
    wvgd_options o;
    char text[40];
    wvgd_options_init(NULL);
    wvgd_options_init(&o);
    refused(wvgd_options_set(NULL, "tol", "1", &error), "options is NULL");
    refused(wvgd_options_set(&o, NULL, "1", &error), "name is NULL");
    refused(wvgd_options_set(&o, "tol", NULL, &error), "value is NULL");
    refused(wvgd_options_get(NULL, "tol", text, sizeof text, &error), "options is NULL");
    refused(wvgd_options_get(&o, NULL, text, sizeof text, &error), "name is NULL");
    refused(wvgd_options_get(&o, "tol", NULL, 10, &error), "text is NULL");
    assert_int_equal(wvgd_options_set(NULL, "tol", "1", NULL), WVGD_E_ARGUMENT); /* error may be NULL itself */
    assert_null(wvgd_options_describe(SIZE_MAX));
}

static void new_needs_model_and_options(void **state)
{
    (void)state;
    wvgd_options o;
    wvgd_options_init(&o);
    no_fit(wvgd_new(NULL, &o, NULL, &error), "model is NULL");
    no_fit(wvgd_new(&MODEL, NULL, NULL, &error), "options is NULL");
    wvgd_fit *fit = new_fit(true);
    no_fit(wvgd_quantize(NULL, &o, &error), "fit is NULL");
    no_fit(wvgd_quantize(fit, NULL, &error), "options is NULL");
    wvgd_free(fit);
    wvgd_free(NULL);
}

static void no_enum_has_other_values(void **state)
{
    (void)state;
    static const char *const names[] = {"solver", "family", "cells", "cost", "estimator", "sampler", "init"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int bad = -1; bad <= 99; bad += 100) {
            wvgd_options o;
            wvgd_options_init(&o);
            int *const field[] = {(int *)&o.solver,    (int *)&o.family,  (int *)&o.cells, (int *)&o.cost,
                                  (int *)&o.estimator, (int *)&o.sampler, (int *)&o.init};
            *field[i] = bad;
            no_fit(wvgd_new(&MODEL, &o, NULL, &error), names[i]);
        }
    assert_string_equal(wvgd_stop_name((wvgd_stop)99), "unknown");
    assert_string_equal(wvgd_stop_name((wvgd_stop)-1), "unknown");
    assert_string_equal(wvgd_stop_name(WVGD_STOPPED), "stopped");
}

static void steps_need_a_fit(void **state)
{
    (void)state;
    size_t n;
    const double *z;
    double log_p = 0;
    bool gradient;
    wvgd_fit *fit = new_fit(false);
    refused(wvgd_ask(NULL, &n, &z, &gradient, &error), "fit is NULL");
    refused(wvgd_ask(fit, NULL, &z, &gradient, &error), "n is NULL");
    refused(wvgd_ask(fit, &n, NULL, &gradient, &error), "z is NULL");
    refused(wvgd_ask(fit, &n, &z, NULL, &error), "gradient is NULL");
    refused(wvgd_tell(NULL, &log_p, NULL, &error), "fit is NULL");
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, &error), WVGD_OK);
    refused(wvgd_tell(fit, NULL, NULL, &error), "log densities");
    refused(wvgd_step(NULL, &error), "fit is NULL");
    refused(wvgd_run(NULL, NULL, NULL, &error), "fit is NULL");
    wvgd_stop_now(NULL);
    wvgd_free(fit);
}

static void views_of_nothing_are_empty(void **state)
{
    (void)state;
    wvgd_progress p;
    wvgd_results r;
    size_t rows = 7;
    wvgd_fit *fit = new_fit(true);
    wvgd_get_progress(NULL, &p);
    assert_string_equal(p.stage, "done");
    assert_true(p.evaluations == 0 && isnan(p.pelbo));
    wvgd_get_progress(fit, NULL);
    wvgd_get_results(NULL, &r);
    assert_true(r.N == 0 && r.D == 0 && !r.z && !r.reliable);
    wvgd_get_results(fit, NULL);
    assert_null(wvgd_trace(NULL, &rows));
    assert_int_equal(rows, 0);
    assert_non_null(wvgd_trace(fit, NULL));
    assert_null(wvgd_trace_beta(NULL));
    assert_null(wvgd_draw_weights(NULL));
    wvgd_bend_map map = {.D = 1};
    wvgd_bend_line line = {.knots = 1};
    wvgd_bend_row row = {.parents = 1};
    assert_true(!wvgd_get_bend(NULL, &map) && !map.D && !wvgd_get_bend(fit, &map) && !wvgd_get_bend(fit, NULL));
    assert_true(!wvgd_get_bend_line(fit, 0, &line) && !line.knots && !wvgd_get_bend_line(NULL, 0, NULL));
    assert_true(!wvgd_get_bend_row(fit, 0, 0, &row) && !row.parents && !wvgd_get_bend_row(NULL, 0, 0, NULL));
    assert_true(!wvgd_bend_turn(fit, 1) && !wvgd_bend_turn(NULL, 1));
    assert_int_equal(wvgd_save_size(NULL), 0);
    wvgd_free(fit);
}

static void results_need_somewhere_to_go(void **state)
{
    (void)state;
    wvgd_fit *fit = new_fit(true);
    double z[4] = {0}, out[4];
    size_t index[2], size = wvgd_save_size(fit);
    refused(wvgd_component_cov(NULL, 0, out, &error), "fit is NULL");
    refused(wvgd_component_cov(fit, 0, NULL, &error), "cov is NULL");
    refused(wvgd_cell(NULL, 2, z, index, &error), "fit is NULL");
    refused(wvgd_cell(fit, 2, NULL, index, &error), "z is NULL");
    refused(wvgd_cell(fit, 2, z, NULL, &error), "cell is NULL");
    refused(wvgd_mode(NULL, 2, z, index, &error), "fit is NULL");
    refused(wvgd_mode(fit, 2, NULL, index, &error), "z is NULL");
    refused(wvgd_mode(fit, 2, z, NULL, &error), "mode is NULL");
    refused(wvgd_log_q(NULL, 2, z, out, &error), "fit is NULL");
    refused(wvgd_log_q(fit, 2, NULL, out, &error), "z is NULL");
    refused(wvgd_log_q(fit, 2, z, NULL, &error), "log_q is NULL");
    refused(wvgd_sample(NULL, 0, 2, z, index, &error), "fit is NULL");
    refused(wvgd_sample(fit, 0, 2, NULL, index, &error), "z is NULL");
    refused(wvgd_resample(NULL, 0, 2, z, index, &error), "fit is NULL");
    refused(wvgd_resample(fit, 0, 2, NULL, index, &error), "z is NULL");
    refused(wvgd_draws(NULL, NULL, NULL, NULL, NULL, NULL, &error), "fit is NULL");
    refused(wvgd_expect(NULL, 1, z, out, out, out, &error), "fit is NULL");
    refused(wvgd_expect(fit, 1, NULL, out, out, out, &error), "value is NULL");
    refused(wvgd_expect(fit, 1, z, NULL, out, out, &error), "mean is NULL");
    refused(wvgd_expect(fit, 1, z, out, NULL, out, &error), "var is NULL");
    refused(wvgd_expect(fit, 1, z, out, out, NULL, &error), "mcse is NULL");
    refused(wvgd_save(NULL, z, sizeof z, &error), "fit is NULL");
    refused(wvgd_save(fit, NULL, size, &error), "buffer is NULL");
    refused(wvgd_restore(NULL, z, sizeof z, &error), "fit is NULL");
    refused(wvgd_restore(fit, NULL, size, &error), "buffer is NULL");
    /* what may be NULL: outputs that nobody wants, and arrays of nothing */
    assert_int_equal(wvgd_draws(fit, NULL, NULL, NULL, NULL, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_sample(fit, 0, 2, z, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_resample(fit, 0, 2, z, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_cell(fit, 0, NULL, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, 0, NULL, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_sample(fit, 0, 0, NULL, NULL, &error), WVGD_OK);
    wvgd_free(fit);
}

static double at_point(void *self, const double *z, double *grad)
{
    (void)self;
    if (grad)
        grad[0] = -z[0];
    return -0.5 * z[0] * z[0];
}

static void wrappers_need_something_to_wrap(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(NULL, 1, at_point, NULL, true), -1);
    assert_int_equal(wvgd_model_pointwise(&model, 1, NULL, NULL, true), -1);
    assert_int_equal(wvgd_model_threads(NULL, &MODEL, 2), -1);
    assert_int_equal(wvgd_model_threads(&model, NULL, 2), -1);
    wvgd_model_close(NULL);
}

/* Of an asymmetric one only half would be looked at. */
static void a_metric_is_symmetric(void **state)
{
    (void)state;
    const double asymmetric[] = {2, 0.5, 0.75, 1}, unequal[] = {2, 0.5, 0.5 * (1 + 1e-15), 1},
                 wild[] = {2, NAN, NAN, 1};
    wvgd_options o;
    wvgd_options_init(&o);
    o.metric = asymmetric;
    no_fit(wvgd_new(&MODEL, &o, NULL, &error), "0.75 in row 2, column 1 and 0.5 in row 1, column 2");
    o.metric = wild;
    no_fit(wvgd_new(&MODEL, &o, NULL, &error), "finite");
    o.metric = unequal; /* by rounding */
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, &error);
    assert_non_null(fit);
    wvgd_free(fit);
    o.cost = WVGD_SQEUCLID; /* which does not look at it */
    o.metric = asymmetric;
    assert_non_null(fit = wvgd_new(&MODEL, &o, NULL, &error));
    wvgd_free(fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_not_be_null),         cmocka_unit_test(new_needs_model_and_options),
        cmocka_unit_test(no_enum_has_other_values),        cmocka_unit_test(steps_need_a_fit),
        cmocka_unit_test(views_of_nothing_are_empty),      cmocka_unit_test(results_need_somewhere_to_go),
        cmocka_unit_test(wrappers_need_something_to_wrap), cmocka_unit_test(a_metric_is_symmetric),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
