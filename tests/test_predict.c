/* test_predict.c - predictions against those of R from the same draws (tests/data/predict.R), and quantiles of mixtures
 * at their edges. Would find rows or columns that are mixed up, features that are not standardized as in the fit,
 * quantiles of another definition, noise that is left out, and a wrong conditional mean or variance of a process. */
#include "predict.h"
#include "predictive.h"
#include "response.h"
#include "table.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* after what it needs */
#include <cmocka.h>

typedef struct {
    size_t rows, columns;
    double *x; /* [rows][columns] */
} matrix;

/* The matrix of that name; to be freed. */
static matrix find(const char *name)
{
    char line[TABLE_LINE], found[40];
    matrix m = {0};
    FILE *file = table_open("tests/data/predict.txt");
    assert_non_null(file);
    while (!m.x && table_next(file, line)) {
        if (sscanf(line, "%39s %zu %zu", found, &m.rows, &m.columns) != 3 || strcmp(found, name) != 0)
            continue;
        m.x = calloc(m.rows * m.columns, sizeof *m.x);
        for (size_t i = 0; i < m.rows; i++) {
            assert_true(table_next(file, line));
            assert_non_null(table_numbers(line, m.columns, m.x + i * m.columns));
        }
    }
    fclose(file);
    assert_non_null(m.x);
    return m;
}

/* A record as a run has it: features a and b, standardized or not. */
static json_t *record(const char *kind, bool standardized, bool discrete)
{
    json_t *asked = json_pack("{s:{s:s}, s:{s:[s,s], s:b}}", "model", "kind", kind, "data", "features", "a", "b",
                              "discrete", discrete);
    if (standardized)
        json_object_set_new(json_object_get(asked, "model"), "standardized",
                            json_pack("{s:[f,f], s:[f,f]}", "mean", 0.5, 11.0, "sd", 2.0, 0.0));
    return asked;
}

/* Draws and rows of the truth through the predictor, against the truth called `name`; the last `without` quantities of
 * the draws are left out. */
static void check(const char *name, const char *draws, size_t without, const char *rows, json_t *asked,
                  const char *const *names, const series_data *series)
{
    failure f;
    matrix w = find(draws), X = find(rows), truth = find(name);
    size_t n = w.columns - without;
    for (size_t k = 0; k < w.rows; k++)
        memmove(w.x + k * n, w.x + k * w.columns, n * sizeof *w.x);
    predictor *p = new_predictor(asked, n, names, series, &f);
    wvgd_prediction row[8];
    if (!p || predict_rows(p, w.rows, w.x, X.rows, X.x, row, &f))
        fail_msg("%s: %s", name, f.text);
    for (size_t i = 0; i < X.rows; i++) {
        const double found[] = {row[i].mean, row[i].sd, row[i].q5, row[i].q50, row[i].q95, row[i].lower, row[i].upper};
        for (size_t c = 0; c < 7; c++)
            if (!(fabs(found[c] - truth.x[i * 7 + c]) <= 1e-9 * (1 + fabs(truth.x[i * 7 + c]))))
                fail_msg("%s, row %zu, column %zu: %.15g, R has %.15g", name, i, c, found[c], truth.x[i * 7 + c]);
    }
    free_predictor(p);
    free(w.x);
    free(X.x);
    free(truth.x);
    json_decref(asked);
}

static void predicts_logistic(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "intercept"};
    check("logistic", "logistic_draws", 0, "X", record("logistic", true, true), names, NULL);
}

static void predicts_linear(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "intercept", "log_sigma"};
    check("linear", "linear_draws", 0, "X", record("linear", false, false), names, NULL);
}

static void predicts_bnn(void **state)
{
    (void)state;
    const char *names[14];
    for (size_t i = 0; i < 14; i++)
        names[i] = i < 13 ? "w" : "log_sigma";
    check("bnn", "bnn_draws", 0, "X", record("bnn", true, false), names, NULL);
    check("bnn_binary", "bnn_draws", 1, "X", record("bnn", true, true), names, NULL);
}

static void predicts_gp(void **state)
{
    (void)state;
    static const char *const names[] = {"log_A", "log_f", "log_s", "log_B"};
    matrix data = find("gp_series");
    double t[6], y[6];
    char name[] = "t", value[] = "y";
    for (size_t i = 0; i < 6; i++) {
        t[i] = data.x[2 * i];
        y[i] = data.x[2 * i + 1];
    }
    series_data series = {6, t, y, {name, value}};
    check("gp", "gp_draws", 0, "gp_at", record("gp", false, false), names, &series);
    free(data.x);
}

/* The likelihoods that the record of a model can name. */
static void predicts_families(void **state)
{
    (void)state;
    static const char *const shape[] = {"a", "b", "intercept", "shape", "nu"}, *const sigma[] = {"a", "b", "intercept",
                                                                                                 "sigma", "nu"};
    static const char *const family[] = {"poisson", "negbinomial", "student"};
    for (size_t i = 0; i < 3; i++) {
        json_t *asked = record("linear", false, i < 2);
        json_object_set_new(json_object_get(asked, "model"), "likelihood", json_string(family[i]));
        check(family[i], "family_draws", 0, "X", asked, i < 2 ? shape : sigma, NULL);
    }
}

static void finds_binomial_shares(void **state)
{
    (void)state;
    matrix m = find("binomial_below");
    const response_family *f = find_family("binomial");
    for (size_t i = 0; i < m.rows; i++) {
        const double *row = m.x + 4 * i;
        double found = f->below(row[0], row[1], row[2], 0);
        if (!(fabs(found - row[3]) <= 1e-11))
            fail_msg("row %zu: %.15g, R has %.15g", i, found, row[3]);
    }
    free(m.x);
    assert_null(find_family("gamma"));
    assert_null(find_family(NULL));
}

/* Means far beyond what can be counted, and no numbers, end. */
static void survives_extreme_means(void **state)
{
    (void)state;
    const response_family *poisson = find_family("poisson");
    assert_true(fabs(response_quantile(poisson, 1, (const double[]){1e8}, NULL, NULL, 0.5) - 1e8) < 2);
    assert_true(response_quantile(poisson, 1, (const double[]){0}, NULL, NULL, 0.95) == 0);
    assert_true(isnan(response_quantile(poisson, 1, (const double[]){INFINITY}, NULL, NULL, 0.95)));
    assert_true(response_quantile(poisson, 1, (const double[]){1e200}, NULL, NULL, 0.95) >= 0);
}

static void refuses_what_cannot_predict(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "c", "intercept"};
    failure f;
    json_t *asked = record("mixture", false, false);
    assert_null(new_predictor(asked, 3, names, NULL, &f));
    assert_non_null(strstr(f.text, "mixture, makes no predictions"));
    json_decref(asked);
    asked = record("logistic", false, true);
    assert_null(new_predictor(asked, 3, names, NULL, &f)); /* b has no weight */
    assert_null(new_predictor(json_object_get(asked, "data"), 3, names, NULL, &f));
    json_decref(asked);
}

/* One part, parts far apart, parts without spread. */
static void finds_quantiles(void **state)
{
    (void)state;
    const double mean[] = {3, -1000, 1000}, sd[] = {2, 1, 1}, none[] = {0, 0, 0}, u = 1.6448536269514722;
    assert_true(fabs(mixture_quantile(1, mean, sd, 0.95) - (3 + 2 * u)) < 1e-10);
    assert_true(fabs(mixture_quantile(1, mean, sd, 0.05) - (3 - 2 * u)) < 1e-10);
    assert_true(fabs(mixture_quantile(2, mean + 1, sd + 1, 0.025) - (-1000 - u)) < 1e-9);
    assert_true(fabs(mixture_quantile(2, mean + 1, sd + 1, 0.975) - (1000 + u)) < 1e-9);
    assert_true(fabs(mixture_quantile(1, mean, none, 0.05) - 3) < 1e-9);
    assert_true(fabs(mixture_quantile(3, mean, none, 0.95) - 1000) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicts_logistic),
        cmocka_unit_test(predicts_linear),
        cmocka_unit_test(predicts_bnn),
        cmocka_unit_test(predicts_gp),
        cmocka_unit_test(predicts_families),
        cmocka_unit_test(finds_binomial_shares),
        cmocka_unit_test(survives_extreme_means),
        cmocka_unit_test(finds_quantiles),
        cmocka_unit_test(refuses_what_cannot_predict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
