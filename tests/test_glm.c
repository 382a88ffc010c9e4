/* test_glm.c - generalised linear models from tables, against posteriors and predictions that R has computed
 * (tests/data/glm/truth.R), long runs of NUTS (nuts.R), and quadrature (weights.R): all six likelihoods, with
 * categories, interactions, offsets, weights and trials. Would find priors that are not scaled as they should be,
 * constants that are missing from a density, Jacobians, coefficients in another order, and new rows that are not made
 * as those of the fit. */
#include "glm_data.h"
#include "predict.h"
#include "wvgd_tools.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after what it needs */
#include <cmocka.h>

#include "support/near.h"

static const char *const LIKELIHOODS[] = {"gaussian", "student", "bernoulli", "binomial", "poisson", "negbinomial"};
enum { COUNT = sizeof LIKELIHOODS / sizeof *LIKELIHOODS, MOST = 20, ROWS = 5, COLUMNS = 7, DRAWS = 200 };

static json_t *all; /* of truth.json */

static int read_truth(void **state)
{
    (void)state;
    json_error_t error;
    all = json_load_file(WVGD_SOURCE_DIR "/tests/data/glm/truth.json", 0, &error);
    return all ? 0 : -1;
}

static int forget_truth(void **state)
{
    (void)state;
    json_decref(all);
    return 0;
}

static double number(const json_t *truth, const char *key, size_t i)
{
    const json_t *v = json_array_get(json_object_get(truth, key), i);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static const char *text(const json_t *truth, const char *key)
{
    return json_string_value(json_object_get(truth, key));
}

/* prior, weights: NULL, "": none */
static wvgd_session *fit_table(const char *data, const char *likelihood, const char *terms, const char *prior,
                               const char *weights)
{
    char path[300];
    wvgd_error error;
    wvgd_request *q = wvgd_request_new();
    snprintf(path, sizeof path, WVGD_SOURCE_DIR "/tests/data/glm/%s.csv", data);
    assert_int_equal(wvgd_request_set(q, "model", "glm", &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "data", path, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "formula", terms, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "likelihood", likelihood, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "threads", "1", &error), WVGD_OK);
    if (prior && *prior)
        assert_int_equal(wvgd_request_set(q, "prior", prior, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "weights", weights, &error), WVGD_OK);
    wvgd_session *s = wvgd_open(q, &error);
    if (!s)
        fail_msg("%s: %s", likelihood, error.text);
    assert_int_equal(wvgd_session_run(s, NULL, NULL, &error), WVGD_OK);
    wvgd_request_free(q);
    return s;
}

/* Means within 0.05 sd, sds within 5 %. names: NULL if the truth has none. */
static void check_moments(const char *what, const json_t *p, const json_t *truth)
{
    size_t n = json_array_size(json_object_get(truth, "mean"));
    const json_t *names = json_object_get(truth, "names");
    assert_true(n > 0 && json_array_size(json_object_get(p, "names")) == n);
    for (size_t i = 0; i < n; i++) {
        double sd = number(truth, "sd", i);
        const char *name = json_string_value(json_array_get(json_object_get(p, "names"), i));
        if (names)
            assert_string_equal(name, json_string_value(json_array_get(names, i)));
        if (!(fabs(number(p, "mean", i) - number(truth, "mean", i)) <= 0.05 * sd) ||
            !(fabs(number(p, "sd", i) / sd - 1) <= 0.05))
            fail_msg("%s, %s: %g +- %g, the truth is %g +- %g", what, name, number(p, "mean", i), number(p, "sd", i),
                     number(truth, "mean", i), sd);
    }
}

/* Means and sds within three standard errors, where the truth is exact. */
static void check_errors(const json_t *p, const json_t *truth)
{
    size_t n = json_array_size(json_object_get(truth, "mean"));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(number(p, "mean", i) - number(truth, "mean", i)) <= 3 * number(p, "mcse", i)) ||
            !(fabs(number(p, "sd", i) - number(truth, "sd", i)) <= 3 * number(p, "sd_se", i)))
            fail_msg("parameter %zu: %g +- %g (sd %g +- %g), the truth is %g (sd %g)", i, number(p, "mean", i),
                     number(p, "mcse", i), number(p, "sd", i), number(p, "sd_se", i), number(truth, "mean", i),
                     number(truth, "sd", i));
}

/* Means within 0.05 sd, sds within 5 %, the log evidence within 0.05 and four standard errors; all of the gaussian,
 * which R has by quadrature, within three. */
static void posteriors_are_those_of_R(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT; k++) {
        const json_t *truth = json_object_get(all, LIKELIHOODS[k]);
        wvgd_session *s = fit_table(LIKELIHOODS[k], LIKELIHOODS[k], text(truth, "formula"), NULL, NULL);
        const char *run;
        wvgd_results r;
        wvgd_error error;
        assert_int_equal(wvgd_session_summary(s, WVGD_SUMMARY_JSON, 0, &run, &error), WVGD_OK);
        json_t *found = json_loads(run, 0, NULL), *p = json_object_get(found, "posterior");
        wvgd_get_results(wvgd_session_fit(s), &r);
        assert_true(json_is_true(json_object_get(json_object_get(found, "verdict"), "reliable")));
        double se = hypot(r.evidence.se, json_number_value(json_object_get(truth, "log_evidence_se"))),
               off = r.evidence.value - json_number_value(json_object_get(truth, "log_evidence"));
        if (fabs(off) > (k ? fmin(0.05, 4 * se) : 3 * se))
            fail_msg("%s: the log evidence is off by %g +- %g", LIKELIHOODS[k], off, se);
        check_moments(LIKELIHOODS[k], p, truth);
        if (!k)
            check_errors(p, truth);
        json_decref(found);
        wvgd_session_close(s);
    }
}

/* Long runs of NUTS, with evidence by bridge sampling, for every likelihood but the gaussian: what the truths of R do
 * not have as well, such as near separation, no intercept and priors that are given. */
static void posteriors_are_those_of_NUTS(void **state)
{
    (void)state;
    json_error_t bad;
    json_t *list = json_load_file(WVGD_SOURCE_DIR "/tests/data/glm/nuts.json", 0, &bad), *truth;
    size_t k, seen[COUNT] = {0};
    assert_true(json_array_size(list) >= 10);
    json_array_foreach(list, k, truth) {
        char what[300];
        const char *run;
        wvgd_results r;
        wvgd_error error;
        wvgd_session *s = fit_table(text(truth, "data"), text(truth, "likelihood"), text(truth, "formula"),
                                    text(truth, "prior"), NULL);
        snprintf(what, sizeof what, "%s, %s", text(truth, "likelihood"), text(truth, "formula"));
        assert_int_equal(wvgd_session_summary(s, WVGD_SUMMARY_JSON, 0, &run, &error), WVGD_OK);
        json_t *found = json_loads(run, 0, NULL);
        wvgd_get_results(wvgd_session_fit(s), &r);
        double off = r.evidence.value - json_number_value(json_object_get(truth, "log_evidence")),
               se = hypot(r.evidence.se, json_number_value(json_object_get(truth, "log_evidence_se")));
        if (!(fabs(off) <= fmin(0.05, 4 * se)))
            fail_msg("%s: the log evidence is off by %g +- %g", what, off, se);
        assert_true(json_is_true(json_object_get(json_object_get(found, "verdict"), "reliable")));
        check_moments(what, json_object_get(found, "posterior"), truth);
        for (size_t l = 0; l < COUNT; l++)
            seen[l] += !strcmp(LIKELIHOODS[l], text(truth, "likelihood"));
        json_decref(found);
        wvgd_session_close(s);
    }
    for (size_t l = 1; l < COUNT; l++)
        assert_true(seen[l] >= 2);
    json_decref(list);
}

/* The draws of truth.R, and its predictions: quantiles of numbers to what uniroot leaves, the rest to rounding. The
 * design goes through JSON, as that of a run does. */
static void predictions_are_those_of_R(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT; k++) {
        const json_t *truth = json_object_get(all, LIKELIHOODS[k]);
        const char *names[MOST];
        char path[300];
        failure f;
        glm_data g;
        size_t n = json_array_size(json_object_get(truth, "names")), rows = 0;
        double value[DRAWS][MOST], *X = NULL;
        wvgd_prediction row[ROWS];
        snprintf(path, sizeof path, WVGD_SOURCE_DIR "/tests/data/glm/%s.csv", LIKELIHOODS[k]);
        glm_request q = {.formula = text(truth, "formula"), .likelihood = LIKELIHOODS[k]};
        if (read_glm(path, &q, &g, &f))
            fail_msg("%s", f.text);
        size_t columns = g.columns + g.intercept;
        json_t *record = json_pack("{s:{s:s, s:s, s:o}}", "model", "kind", "glm", "likelihood", LIKELIHOODS[k],
                                   "design", describe_design(g.design));
        for (size_t j = 0; j < n; j++)
            names[j] = json_string_value(json_array_get(json_object_get(truth, "names"), j));
        double *flat = &value[0][0];
        for (size_t d = 0; d < DRAWS; d++)
            for (size_t j = 0; j < n; j++) {
                double wave = sin(1.3 * (double)(d + 1) * (double)(j + 1));
                flat[d * n + j] = j < columns ? number(truth, "mean", j) + number(truth, "sd", j) * wave
                                              : number(truth, "mean", j) * exp(wave / 4);
            }
        predictor *p = new_predictor(record, n, names, NULL, &f);
        if (!p || read_new_rows(p, path, &X, &rows, &f))
            fail_msg("%s", f.text);
        assert_true(rows >= ROWS);
        assert_int_equal(predict_rows(p, DRAWS, flat, ROWS, X, row, &f), 0);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            const wvgd_prediction *w = &row[i / COLUMNS];
            const double found[COLUMNS] = {w->mean, w->sd, w->q5, w->q50, w->q95, w->lower, w->upper};
            double expected = number(truth, "predicted", i);
            if (fabs(found[i % COLUMNS] - expected) > 2e-8 * (1 + fabs(expected)))
                fail_msg("%s, row %zu, column %zu: %.12g, R has %.12g", LIKELIHOODS[k], i / COLUMNS, i % COLUMNS,
                         found[i % COLUMNS], expected);
        }
        free(X);
        free_predictor(p);
        json_decref(record);
        free_glm(&g);
    }
}

/* Offsets, weights (0 among them) and trials of every likelihood, in models of one coefficient, by quadrature. */
static void weights_and_offsets_are_those_of_R(void **state)
{
    (void)state;
    json_error_t bad;
    json_t *list = json_load_file(WVGD_SOURCE_DIR "/tests/data/glm/weights.json", 0, &bad), *truth;
    size_t k;
    assert_int_equal(json_array_size(list), COUNT);
    json_array_foreach(list, k, truth) {
        wvgd_session *s = fit_table("weights", text(truth, "likelihood"), text(truth, "formula"), text(truth, "prior"),
                                    "w");
        wvgd_results r;
        wvgd_get_results(wvgd_session_fit(s), &r);
        double off = r.evidence.value - json_number_value(json_object_get(truth, "log_evidence"));
        if (!(fabs(off) <= fmin(0.05, 4 * r.evidence.se + 1e-4)))
            fail_msg("%s: the log evidence is off by %g +- %g", text(truth, "likelihood"), off, r.evidence.se);
        wvgd_session_close(s);
    }
    json_decref(list);
}

/* A weight of 2 is a row twice; priors are scaled to the same data, of which the sd hardly changes with the rows, so
 * they are given. */
static void weights_are_repeated_rows(void **state)
{
    (void)state;
    char once[] = "/tmp/wvgd-glm-XXXXXX", twice[] = "/tmp/wvgd-glm-XXXXXX";
    FILE *a = fdopen(mkstemp(once), "w"), *b = fdopen(mkstemp(twice), "w");
    assert_true(a && b);
    fputs("x,y,w\n", a);
    fputs("x,y,w\n", b);
    for (int i = 0; i < 40; i++)
        for (int copy = 0; copy <= i % 2; copy++) {
            if (!copy)
                fprintf(a, "%d,%d,%d\n", i % 7, i * i % 11, 1 + i % 2);
            fprintf(b, "%d,%d,1\n", i % 7, i * i % 11);
        }
    fclose(a);
    fclose(b);
    double evidence[2];
    for (int k = 0; k < 2; k++) {
        wvgd_error error;
        wvgd_results r;
        wvgd_request *q = wvgd_request_new();
        const char *const option[][2] = {{"model", "glm"},
                                         {"data", k ? twice : once},
                                         {"formula", "y ~ 0 + x"},
                                         {"likelihood", "negbinomial"},
                                         {"weights", "w"},
                                         {"prior", "slopes=normal(0, 2);shape = lognormal(1, 1)"},
                                         {"evidence-se", "0.005"}};
        for (size_t i = 0; i < sizeof option / sizeof *option; i++)
            assert_int_equal(wvgd_request_set(q, option[i][0], option[i][1], &error), WVGD_OK);
        wvgd_session *s = wvgd_open(q, &error);
        if (!s)
            fail_msg("%s", error.text);
        assert_int_equal(wvgd_session_run(s, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(wvgd_session_fit(s), &r);
        evidence[k] = r.evidence.value;
        wvgd_session_close(s);
        wvgd_request_free(q);
    }
    assert_near(evidence[0], evidence[1], 0.02);
    remove(once);
    remove(twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(posteriors_are_those_of_R),
                                       cmocka_unit_test(posteriors_are_those_of_NUTS),
                                       cmocka_unit_test(predictions_are_those_of_R),
                                       cmocka_unit_test(weights_and_offsets_are_those_of_R),
                                       cmocka_unit_test(weights_are_repeated_rows)};
    return cmocka_run_group_tests(tests, read_truth, forget_truth);
}
