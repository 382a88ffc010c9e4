/* test_repeat.c - fits of the same model with several seeds: their evidence is pooled, and a fit that has missed a mode
 * is found out. The truth is known: two Gaussians of equal mass. */
#include "repeat.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after what it needs */
#include <cmocka.h>

/* Gaussians at -4 and at 4 of sd 1, or the first alone: log evidence log(sqrt(2 pi)) each. */
static double two(void *self, const double *z, double *grad)
{
    double a = -(z[0] + 4) * (z[0] + 4) / 2, b = self ? -INFINITY : -(z[0] - 4) * (z[0] - 4) / 2, top = fmax(a, b);
    double sum = exp(a - top) + exp(b - top);
    if (grad)
        grad[0] = -(exp(a - top) * (z[0] + 4) + (b > -INFINITY ? exp(b - top) * (z[0] - 4) : 0)) / sum;
    return top + log(sum);
}

static int here = 1;

static wvgd_fit *fitted(wvgd_model *model, bool one, uint64_t seed, wvgd_options *o)
{
    wvgd_options_init(o);
    o->seed = seed;
    o->particles = 2;
    assert_int_equal(wvgd_model_pointwise(model, 1, two, one ? &here : NULL, true), 0);
    wvgd_fit *fit = wvgd_new(model, o, NULL, NULL);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    return fit;
}

/* A run.json as far as it is needed: reliable so far. */
static json_t *new_run(void)
{
    return json_pack("{s:{s:[s]},s:{s:b,s:[s]},s:{s:[]}}", "model", "names", "x", "verdict", "reliable", 1, "reasons",
                     "converged", "diagnostics", "warnings");
}

static double at(const json_t *run, const char *key)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(run, "repeat"), "evidence"), key));
}

static void fits_that_agree(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o;
    repeated_fits r = {0};
    failure f;
    wvgd_results first;
    wvgd_fit *fit = fitted(&model, false, 1, &o);
    assert_int_equal(run_repeated(&r, 2, &model, &o, 1, NULL, NULL, NULL, &f), 0);
    assert_true(r.n == 2 && r.each[0].seed == 2 && r.each[1].seed == 3);
    json_t *run = new_run();
    describe_repeated(&r, 3, fit, run);
    wvgd_get_results(fit, &first);
    assert_true(json_is_true(json_object_get(json_object_get(run, "repeat"), "agree")));
    assert_true(json_is_true(json_object_get(json_object_get(run, "verdict"), "reliable")));
    assert_true(at(run, "se") < first.evidence.se);
    assert_true(fabs(at(run, "value") - log(2 * sqrt(2 * acos(-1)))) < 4 * at(run, "se"));
    assert_int_equal(json_array_size(json_object_get(json_object_get(run, "repeat"), "fits")), 3);
    for (size_t k = 0; k < 3; k++)
        assert_true(is_pooled(&r, fit, k));
    json_decref(run);
    free_repeated(&r);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* The second fit has seen one mode only: log 2 less evidence, and its mean is 4 away. */
static void a_fit_that_has_missed_a_mode(void **state)
{
    (void)state;
    wvgd_model model, half;
    wvgd_options o;
    wvgd_fit *fit = fitted(&model, false, 1, &o);
    repeated_fit other = {7, fitted(&half, true, 7, &o)};
    repeated_fits r = {1, &other, 1};
    json_t *run = new_run();
    describe_repeated(&r, 2, fit, run);
    const json_t *verdict = json_object_get(run, "verdict"), *reasons = json_object_get(verdict, "reasons");
    assert_true(json_is_false(json_object_get(verdict, "reliable")));
    assert_true(json_is_false(json_object_get(json_object_get(run, "repeat"), "agree")));
    assert_int_equal(json_array_size(reasons), 2); /* evidence and mean; not what spoke for it before */
    const char *reason = json_string_value(json_array_get(reasons, 0));
    assert_non_null(strstr(reason, "(seed 7) and"));
    assert_non_null(strstr(reason, "(seed 1), farther apart"));
    assert_non_null(strstr(json_string_value(json_array_get(reasons, 1)), "mean of x"));
    assert_true(is_pooled(&r, fit, 0) && !is_pooled(&r, fit, 1)); /* pooled results are those of the better fit */
    json_decref(run);
    wvgd_fit *shown = other.fit, *better = fit;
    other = (repeated_fit){1, fit}; /* the other way round: what is shown is the better one all the same */
    r.seed = 7;
    prefer_pooled(&r, &shown);
    assert_true(shown == better && r.seed == 1 && other.seed == 7 && is_pooled(&r, shown, 0));
    wvgd_free(other.fit);
    wvgd_free(fit);
    wvgd_model_close(&model);
    wvgd_model_close(&half);
}

static int stop(void *self, const wvgd_progress *p)
{
    (void)p;
    return ++*(int *)self > 3;
}

/* A run that is stopped leaves out the fit under way, and says so. */
static void fits_that_are_stopped(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o;
    repeated_fits r = {0};
    failure f;
    int calls = 0;
    wvgd_fit *fit = fitted(&model, false, 1, &o);
    assert_int_equal(run_repeated(&r, 2, &model, &o, 1, NULL, stop, &calls, &f), 0);
    assert_int_equal(r.n, 0);
    json_t *run = new_run();
    describe_repeated(&r, 3, fit, run);
    const json_t *warnings = json_object_get(json_object_get(run, "diagnostics"), "warnings");
    assert_non_null(strstr(json_string_value(json_array_get(warnings, 0)), "only 1 of 3 fits"));
    json_decref(run);
    free_repeated(&r);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_that_agree),
        cmocka_unit_test(a_fit_that_has_missed_a_mode),
        cmocka_unit_test(fits_that_are_stopped),
    };
    return cmocka_run_group_tests_name("repeat", tests, NULL, NULL);
}
