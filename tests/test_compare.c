/* test_compare.c - runs side by side: the log Bayes factor of two linear models against quadrature, rows in order,
 * probabilities, and runs that cannot be compared. Would find evidence of the wrong run, a sign, errors that are not
 * added up, responses that differ unnoticed, and a SHA-256 that is another hash. */
#include "sha256.h"
#include "wvgd_tools.h"
#include <gsl/gsl_integration.h>
#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>
/* after cmocka */
#include "near.h"

enum { ROWS = 24, FEATURES = 2 };
static char dir[64];
static wvgd_error error;
static double X[ROWS][FEATURES], y[ROWS];

static void write_table(const char *path, size_t rows, double shift)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a,b,y\n", file);
    for (size_t i = 0; i < rows; i++)
        fprintf(file, "%.17g,%.17g,%.17g\n", X[i][0], X[i][1], y[i] + shift);
    fclose(file);
}

static int enter(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        X[i][0] = sin(1.7 * (double)i);
        X[i][1] = cos(0.9 * (double)(i * i));
        y[i] = 0.8 * X[i][0] + 0.25 * X[i][1] + 0.5 * sin(5.3 * (double)i + 1);
    }
    snprintf(dir, sizeof dir, "/tmp/wvgd-compare-XXXXXX");
    return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", dir);
    return chdir("/") || system(line);
}

/* Fits a model to a table; prior NULL: without prior-sd. */
static void fit(const char *model, const char *data, const char *ignore, const char *prior, const char *out)
{
    wvgd_request *q = wvgd_request_new();
    assert_int_equal(wvgd_request_set(q, "model", model, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "data", data, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "ignore", ignore, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "prior-sd", prior, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "out", out, &error), WVGD_OK);
    assert_int_equal(wvgd_request_set(q, "particles", "1", &error), WVGD_OK);
    wvgd_session *s = wvgd_open(q, &error);
    if (!s)
        fail_msg("%s", error.text);
    assert_int_equal(wvgd_session_run(s, NULL, NULL, &error), WVGD_OK);
    wvgd_session_close(s);
    wvgd_request_free(q);
}

/* log N(y; 0, sigma^2 I + S^2 (X X' + 1 1')), for the first `columns` features and an intercept. */
static double log_given(double sigma, double S, size_t columns)
{
    double V[ROWS * ROWS], r[ROWS], log_p = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            double dot = 1;
            for (size_t c = 0; c < columns; c++)
                dot += X[i][c] * X[j][c];
            V[i * ROWS + j] = S * S * dot + (i == j ? sigma * sigma : 0);
        }
    memcpy(r, y, sizeof r);
    assert_int_equal(LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', ROWS, V, ROWS), 0);
    assert_int_equal(LAPACKE_dtrtrs(LAPACK_ROW_MAJOR, 'L', 'N', 'N', ROWS, 1, V, ROWS, r, 1), 0);
    for (size_t i = 0; i < ROWS; i++)
        log_p -= log(V[i * ROWS + i]) + (r[i] * r[i] + log(2 * M_PI)) / 2;
    return log_p;
}

typedef struct {
    double S, top;
    size_t columns;
} integrand;

/* With the half-Cauchy prior of sigma, per unit of t = log sigma. */
static double density(double t, void *self)
{
    const integrand *g = self;
    double sigma = exp(t), u = sigma / g->S;
    return exp(log_given(sigma, g->S, g->columns) - g->top) * 2 / (M_PI * g->S * (1 + u * u)) * sigma;
}

static double log_evidence(double S, size_t columns)
{
    integrand g = {S, log_given(0.4, S, columns), columns};
    gsl_function function = {density, &g};
    gsl_integration_workspace *w = gsl_integration_workspace_alloc(1000);
    double sum, rest;
    assert_int_equal(gsl_integration_qag(&function, -6, 6, 0, 1e-9, 1000, GSL_INTEG_GAUSS31, w, &sum, &rest), 0);
    gsl_integration_workspace_free(w);
    return log(sum) + g.top;
}

static void weighs_linear_models(void **state)
{
    (void)state;
    static const char *const runs[] = {"less", "all"};
    size_t n, notes;
    write_table("table.csv", ROWS, 0);
    fit("linear", "table.csv", NULL, "1", "all");
    fit("linear", "table.csv", "b", "1", "less");
    wvgd_comparison *c = wvgd_compare(2, runs, &error);
    assert_non_null(c);
    const wvgd_compared *r = wvgd_comparison_rows(c, &n);
    double all = log_evidence(1, 2), less = log_evidence(1, 1);
    const char *best = all > less ? "all" : "less";
    assert_int_equal(n, 2);
    assert_true(fabs(all - less) > 0.2); /* else the order could be luck */
    assert_string_equal(r[0].run, best);
    assert_near(r[0].log_evidence, fmax(all, less), 4 * r[0].se);
    assert_near(r[1].difference, -fabs(all - less), 4 * r[1].difference_se);
    assert_true(r[1].difference_se < 0.1 && r[0].difference == 0 && r[0].difference_se == 0);
    assert_near(r[1].difference_se, hypot(r[0].se, r[1].se), 1e-12);
    assert_near(r[1].bayes_factor, exp(r[1].difference), 1e-12);
    assert_near(r[0].probability, 1 / (1 + exp(r[1].difference)), 1e-12);
    assert_near(r[0].probability + r[1].probability, 1, 1e-12);
    assert_true(r[0].reliable && r[1].reliable);
    wvgd_comparison_notes(c, &notes);
    assert_int_equal(notes, 0);
    wvgd_comparison_free(c);
}

static void tells_priors_that_differ(void **state)
{
    (void)state;
    static const char *const runs[] = {"all", "wide"};
    size_t notes;
    fit("linear", "table.csv", NULL, "3", "wide");
    wvgd_comparison *c = wvgd_compare(2, runs, &error);
    assert_non_null(c);
    const char *const *note = wvgd_comparison_notes(c, &notes);
    assert_int_equal(notes, 1);
    assert_non_null(strstr(note[0], "the priors of all and wide differ"));
    wvgd_comparison_free(c);
}

static void refuse(const char *other, wvgd_status status, const char *words)
{
    const char *const runs[] = {"all", other};
    assert_null(wvgd_compare(2, runs, &error));
    assert_int_equal(error.code, status);
    if (!strstr(error.text, words))
        fail_msg("%s", error.text);
}

static void refuses_other_data(void **state)
{
    (void)state;
    write_table("fewer.csv", ROWS - 1, 0);
    write_table("moved.csv", ROWS, 1e-9);
    fit("linear", "fewer.csv", NULL, "1", "fewer");
    fit("linear", "moved.csv", NULL, "1", "moved");
    refuse("fewer", WVGD_E_DATA, "explain different data");
    refuse("fewer", WVGD_E_DATA, "23 values of \"y\"");
    refuse("moved", WVGD_E_DATA, "explain different data");
    refuse("nowhere", WVGD_E_NO_INPUT, "nowhere");
    static const char *const runs[] = {"all", NULL};
    assert_null(wvgd_compare(1, runs, &error));
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_null(wvgd_compare(2, runs, &error));
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_null(wvgd_compare(2, NULL, NULL));
}

/* The response of 0 and 1 as numbers has a density, as labels a probability. */
static void refuses_density_and_probability(void **state)
{
    (void)state;
    static const char *const runs[] = {"numbers", "labels"};
    FILE *file = fopen("binary.csv", "w");
    fputs("a,y\n", file);
    for (size_t i = 0; i < ROWS; i++)
        fprintf(file, "%.17g,%d\n", X[i][0], y[i] > 0);
    fclose(file);
    fit("linear", "binary.csv", NULL, "1", "numbers");
    fit("logistic", "binary.csv", NULL, "1", "labels");
    assert_null(wvgd_compare(2, runs, &error));
    assert_int_equal(error.code, WVGD_E_DATA);
    assert_non_null(strstr(error.text, "the density of numbers"));
}

static void hash(const char *text, size_t times, const char *expected)
{
    sha256 s;
    char found[SHA256_TEXT];
    sha256_begin(&s);
    for (size_t i = 0; i < times; i++)
        sha256_add(&s, text, strlen(text));
    sha256_end(&s, found);
    assert_string_equal(found, expected);
}

/* The examples of FIPS 180-2, appendix B, and the empty text. */
static void hashes_as_published(void **state)
{
    (void)state;
    hash("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    hash("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sha256 a, b;
    char first[SHA256_TEXT], second[SHA256_TEXT];
    sha256_begin(&a);
    sha256_begin(&b);
    sha256_add_numbers(&a, 1, (double[]){-0.0});
    sha256_add_numbers(&b, 1, (double[]){0.0});
    sha256_end(&a, first);
    sha256_end(&b, second);
    assert_string_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_as_published),
        cmocka_unit_test(weighs_linear_models),
        cmocka_unit_test(tells_priors_that_differ),
        cmocka_unit_test(refuses_other_data),
        cmocka_unit_test(refuses_density_and_probability),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
