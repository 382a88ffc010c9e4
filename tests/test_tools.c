/* test_tools.c - libwvgd-tools through its header: NULL and wrong arguments, what belongs to whom, and runs that are
 * written, loaded, stopped and gone on with. Would find errors without a sentence or with the wrong code, sessions
 * that need their request, results that differ by how they were asked for, and directories left half written. */
#include "wvgd_tools.h"
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#define TABLE WVGD_SOURCE_DIR "/data/cancer.csv"
#define OBJECT WVGD_BINARY_DIR "/tests/plugin.so"

static char dir[64];
static wvgd_error error;

static int enter(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/wvgd-tools-XXXXXX");
    return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", dir);
    return chdir("/") || system(line);
}

static void put_file(const char *path, const char *text)
{
    FILE *s = fopen(path, "w");
    assert_non_null(s);
    assert_true(fputs(text, s) >= 0);
    assert_int_equal(fclose(s), 0);
}

static void set(wvgd_request *request, const char *name, const char *value)
{
    assert_int_equal(wvgd_request_set(request, name, value, &error), WVGD_OK);
}

static wvgd_request *ask_logistic(void)
{
    wvgd_request *request = wvgd_request_new();
    assert_non_null(request);
    set(request, "model", "logistic");
    set(request, "data", TABLE);
    set(request, "standardize", "");
    set(request, "threads", "1");
    return request;
}

static wvgd_session *open_session(const wvgd_request *request)
{
    wvgd_session *s = wvgd_open(request, &error);
    if (!s)
        print_error("%s\n", error.text);
    assert_non_null(s);
    return s;
}

static void run(wvgd_session *s)
{
    assert_int_equal(wvgd_session_run(s, NULL, NULL, &error), WVGD_OK);
}

static double evidence(const wvgd_session *s)
{
    wvgd_results r;
    wvgd_get_results(wvgd_session_fit(s), &r);
    return r.evidence.value;
}

/* ---- wrong arguments --------------------------------------------------------------------------------------------- */
static void refused(wvgd_status status, wvgd_status expected, const char *words)
{
    assert_int_equal(status, expected);
    assert_int_equal(error.code, expected);
    if (!strstr(error.text, words))
        print_error("found \"%s\", expected \"%s\" in it\n", error.text, words);
    assert_non_null(strstr(error.text, words));
}

static void refuses_null(void **state)
{
    (void)state;
    wvgd_request *request = wvgd_request_new();
    const char *text = "";
    double x = 0;
    refused(wvgd_request_set(NULL, "model", "gp", &error), WVGD_E_ARGUMENT, "request");
    refused(wvgd_request_set(request, NULL, "gp", &error), WVGD_E_ARGUMENT, "name");
    refused(wvgd_request_read(NULL, "a", &error), WVGD_E_ARGUMENT, "request");
    refused(wvgd_request_read(request, NULL, &error), WVGD_E_ARGUMENT, "path");
    refused(wvgd_request_command(NULL, "a", &error), WVGD_E_ARGUMENT, "request");
    refused(wvgd_session_run(NULL, NULL, NULL, &error), WVGD_E_ARGUMENT, "session");
    refused(wvgd_session_write(NULL, "a", false, &error), WVGD_E_ARGUMENT, "session");
    refused(wvgd_session_summary(NULL, WVGD_SUMMARY_TEXT, 0, &text, &error), WVGD_E_ARGUMENT, "session");
    refused(wvgd_session_draws(NULL, WVGD_DRAWS_ENSEMBLE, 1, 1, &x, NULL, &error), WVGD_E_ARGUMENT, "session");
    assert_null(wvgd_open(NULL, &error));
    assert_null(wvgd_resume(NULL, NULL, &error));
    assert_null(wvgd_load(NULL, NULL, &error));
    assert_null(wvgd_open(NULL, NULL));
    assert_null(wvgd_request_get(NULL, "model"));
    assert_null(wvgd_request_get(request, NULL));
    assert_null(wvgd_session_model(NULL));
    assert_null(wvgd_session_table(NULL));
    assert_null(wvgd_session_fit(NULL));
    assert_null(wvgd_session_solver_note(NULL));
    assert_null(wvgd_session_names(NULL, NULL));
    assert_null(wvgd_session_warnings(NULL, NULL));
    assert_null(wvgd_session_option(NULL, "seed"));
    wvgd_request_notes(NULL, NULL, NULL);
    wvgd_request_free(NULL);
    wvgd_session_close(NULL);
    wvgd_request_free(request);
}

static void refuses_options(void **state)
{
    (void)state;
    wvgd_request *request = ask_logistic();
    set(request, "max_iter", "70");
    assert_string_equal(wvgd_request_get(request, "max-iter"), "70");
    refused(wvgd_request_set(request, "max-iter", "none", &error), WVGD_E_ARGUMENT, "none");
    assert_string_equal(wvgd_request_get(request, "max-iter"), "70");
    set(request, "max-iter", NULL);
    assert_null(wvgd_request_get(request, "max-iter"));
    refused(wvgd_request_set(request, "particels", "3", &error), WVGD_E_ARGUMENT, "particels");
    refused(wvgd_request_set(request, "resume", "x", &error), WVGD_E_ARGUMENT, "wvgd_resume");
    assert_int_equal(wvgd_request_set(request, "particels", "3", NULL), WVGD_E_ARGUMENT);
    refused(wvgd_request_set(request, "standardize", "no", &error), WVGD_E_ARGUMENT,
            "standardize is 'no': expected true or false");
    assert_non_null(strstr("standardize is 'no': expected true or false", error.text)); /* without hyphens */
    assert_string_equal(wvgd_request_get(request, "standardize"), "");
    set(request, "standardize", "false");
    assert_null(wvgd_request_get(request, "standardize"));
    set(request, "standardize", "true");
    assert_string_equal(wvgd_request_get(request, "standardize"), "");
    wvgd_request_free(request);
}

/* Opening fails with that code and these words. */
static void cannot_open(wvgd_request *request, wvgd_status expected, int code, const char *words)
{
    assert_null(wvgd_open(request, &error));
    refused(error.code, expected, words);
    assert_int_equal(wvgd_exit_code(error.code), code);
}

static void refuses_requests(void **state)
{
    (void)state;
    wvgd_request *request = wvgd_request_new();
    cannot_open(request, WVGD_E_ARGUMENT, 64, "MODEL is missing");
    refused(wvgd_request_set(request, "model", "logistc", &error), WVGD_E_ARGUMENT, "logistic");
    refused(wvgd_request_set(request, "output-draws", "0.5", &error), WVGD_E_ARGUMENT, "a whole number");
    set(request, "model", "logistic");
    set(request, "data", "none.csv");
    cannot_open(request, WVGD_E_NO_INPUT, 66, "none.csv");
    put_file("bad.csv", "a,y\n1,0\nx,1\n");
    set(request, "data", "bad.csv");
    cannot_open(request, WVGD_E_DATA, 65, "bad.csv:3");
    set(request, "data", TABLE);
    put_file("file", "");
    set(request, "out", "file");
    cannot_open(request, WVGD_E_CREATE, 73, "file");
    wvgd_request_free(request);
}

static void reads_files_without_trust(void **state)
{
    (void)state;
    wvgd_request *request = wvgd_request_new();
    put_file("options.json", "{\"model\": \"logistic\", \"particles\": 3, \"max_iter\": 50}");
    assert_int_equal(wvgd_request_read(request, "options.json", &error), WVGD_OK);
    set(request, "particles", "4"); /* what is set later wins */
    assert_string_equal(wvgd_request_get(request, "particles"), "4");
    assert_string_equal(wvgd_request_get(request, "max-iter"), "50");
    put_file("code.json", "{\"model\": \"" OBJECT "\"}");
    assert_int_equal(wvgd_request_read(request, "code.json", &error), WVGD_OK);
    cannot_open(request, WVGD_E_STATE, 75, "code");
    set(request, "model", OBJECT); /* the caller's own word is enough */
    wvgd_session_close(open_session(request));
    refused(wvgd_request_read(request, "none.json", &error), WVGD_E_NO_INPUT, "none.json");
    put_file("wrong.json", "{\"particels\": 3}");
    refused(wvgd_request_read(request, "wrong.json", &error), WVGD_E_DATA, "particels");
    wvgd_request_free(request);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */
static void opens_tables(void **state)
{
    (void)state;
    wvgd_request *request = ask_logistic();
    wvgd_session *s = open_session(request);
    const wvgd_table *table = wvgd_session_table(s);
    size_t n;
    const char *text;
    double x;
    assert_non_null(table);
    assert_int_equal(table->rows, 569);
    assert_int_equal(table->columns, 30);
    assert_non_null(table->mean);
    assert_int_equal(wvgd_session_model(s)->dim, 31);
    assert_string_equal(wvgd_session_names(s, &n)[30], "intercept");
    assert_int_equal(n, 31);
    assert_string_equal(wvgd_session_option(s, "particles"), "5");
    assert_string_equal(wvgd_session_option(s, "standardize"), "");
    assert_null(wvgd_session_option(s, "none"));
    assert_null(wvgd_session_solver_note(s));
    assert_null(wvgd_session_warnings(s, &n));
    refused(wvgd_session_summary(s, WVGD_SUMMARY_TEXT, 0, &text, &error), WVGD_E_ARGUMENT, "has not run");
    refused(wvgd_session_draws(s, WVGD_DRAWS_ENSEMBLE, 1, 1, &x, NULL, &error), WVGD_E_ARGUMENT, "has not run");
    refused(wvgd_session_write(s, "early", false, &error), WVGD_E_ARGUMENT, "has not run");
    assert_int_not_equal(access("early", F_OK), 0);
    wvgd_session_close(s);
    wvgd_request_free(request);
}

/* Log weights of weighted draws sum to 1. */
static void check_draws(const wvgd_session *s, const wvgd_session *loaded)
{
    enum { N = 50, D = 31 };
    double *a = calloc(N * D, sizeof *a), *b = calloc(N * D, sizeof *b), log_w[N], sum = 0;
    static const wvgd_draws_kind kinds[] = {WVGD_DRAWS_ENSEMBLE, WVGD_DRAWS_RESAMPLED, WVGD_DRAWS_WEIGHTED};
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(wvgd_session_draws(s, kinds[k], 7, N, a, log_w, &error), WVGD_OK);
        assert_int_equal(wvgd_session_draws(loaded, kinds[k], 7, N, b, NULL, &error), WVGD_OK);
        assert_memory_equal(a, b, N * D * sizeof *a);
    }
    for (size_t i = 0; i < N; i++)
        sum += exp(log_w[i]);
    assert_true(fabs(sum - 1) < 1e-12);
    refused(wvgd_session_draws(s, WVGD_DRAWS_WEIGHTED, 1, SIZE_MAX, a, NULL, &error), WVGD_E_ARGUMENT, "at most");
    free(a);
    free(b);
}

static void writes_and_loads(void **state)
{
    (void)state;
    wvgd_request *request = ask_logistic();
    wvgd_session *s = open_session(request), *other = open_session(request);
    const char *text;
    wvgd_request_free(request); /* sessions do not need it */
    run(s);
    run(s); /* does nothing */
    run(other);
    assert_true(evidence(s) == evidence(other));
    assert_true(fabs(evidence(s) + 55.2) < 0.2);
    assert_int_equal(wvgd_session_write(s, "run", false, &error), WVGD_OK);
    refused(wvgd_session_write(other, "run", false, &error), WVGD_E_CREATE, "run");
    assert_int_equal(wvgd_session_write(other, "run", true, &error), WVGD_OK);
    assert_int_equal(wvgd_session_summary(s, WVGD_SUMMARY_TEXT, 10, &text, &error), WVGD_OK);
    assert_non_null(strstr(text, "log evidence"));
    assert_non_null(strstr(text, "and 21 more"));
    assert_int_equal(wvgd_session_summary(s, WVGD_SUMMARY_JSON, 0, &text, &error), WVGD_OK);
    assert_int_equal(*text, '{');
    wvgd_session *loaded = wvgd_load("run", NULL, &error);
    assert_non_null(loaded);
    assert_true(evidence(loaded) == evidence(s));
    assert_string_equal(wvgd_session_option(loaded, "seed"), "1");
    assert_int_equal(wvgd_session_summary(loaded, WVGD_RUN_JSON, 0, &text, &error), WVGD_OK);
    const char *command = strstr(text, "wvgd fit logistic --data "); /* quoted, if the path has spaces */
    assert_true(command && strstr(command, TABLE) && strstr(command, " --standardize"));
    check_draws(s, loaded);
    refused(wvgd_session_write(loaded, "copy", false, &error), WVGD_E_ARGUMENT, "loaded");
    wvgd_session_close(loaded);
    wvgd_session_close(other);
    wvgd_session_close(s);
    assert_null(wvgd_load("none", NULL, &error));
    assert_int_equal(error.code, WVGD_E_NO_INPUT);
}

/* ---- a model of the caller's own --------------------------------------------------------------------------------- */
/* Normal in both coordinates; self counts points, and fails after as many as it says. */
typedef struct {
    size_t points, most;
} counted;

static int own_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    counted *c = self;
    c->points += n;
    if (c->points > c->most)
        return 1;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -0.5 * (z[2 * i] * z[2 * i] + z[2 * i + 1] * z[2 * i + 1]) - log(2 * 3.14159265358979323846);
        for (size_t k = 0; grad && k < 2; k++)
            grad[2 * i + k] = -z[2 * i + k];
    }
    return 0;
}

static wvgd_request *ask_own(const wvgd_own_model *own, const char *out)
{
    wvgd_request *request = wvgd_request_new();
    assert_int_equal(wvgd_request_own(request, own, &error), WVGD_OK);
    if (out)
        set(request, "out", out);
    return request;
}

static void fits_models_of_its_own(void **state)
{
    (void)state;
    static const char *const names[] = {"rate", "share"};
    static const wvgd_curve curve[] = {{WVGD_CURVE_POSITIVE, 0, 0.5, 0, 0}, {WVGD_CURVE_BETWEEN, 0, 1.7, -1, 3}};
    counted count = {0, SIZE_MAX};
    wvgd_own_model own = {{.dim = 2, .log_density = own_density, .self = &count, .has_gradient = true, .names = names},
                          curve,
                          "mine"};
    const double z[] = {0, 0, 2, -1};
    double value[4];
    const char *text;
    size_t n;
    wvgd_request *request = ask_own(&own, "mine");
    wvgd_session *s = open_session(request);
    run(s);
    assert_true(fabs(evidence(s)) < 0.02);
    assert_string_equal(wvgd_session_names(s, &n)[1], "share");
    assert_int_equal(wvgd_session_values(s, 2, z, value, &error), WVGD_OK);
    assert_true(value[0] == 1 && value[1] == 1 && fabs(value[2] - exp(1)) < 1e-14);
    assert_true(fabs(value[3] - (-1 + 4 / (1 + exp(1.7)))) < 1e-14);
    assert_int_equal(wvgd_session_summary(s, WVGD_RUN_JSON, 0, &text, &error), WVGD_OK);
    assert_non_null(strstr(text, "\"prior\": \"mine\""));
    assert_non_null(strstr(text, "\"u.share\""));           /* the coordinate has another name than the parameter */
    wvgd_session *loaded = wvgd_load("mine", NULL, &error); /* though s is still open */
    assert_non_null(loaded);
    assert_string_equal(wvgd_session_names(loaded, &n)[0], "rate");
    wvgd_session_close(loaded);
    assert_null(wvgd_resume("mine", NULL, &error));
    refused(error.code, WVGD_E_STATE, "must continue it");
    own.prior = "other";
    wvgd_request *again = ask_own(&own, NULL);
    assert_null(wvgd_resume("mine", again, &error));
    refused(error.code, WVGD_E_STATE, "another prior");
    own.prior = "mine";
    count.points = 0;
    wvgd_session *resumed = wvgd_resume("mine", again, &error);
    assert_non_null(resumed);
    run(resumed);
    assert_int_equal(count.points, 0); /* it had ended */
    assert_true(evidence(resumed) == evidence(s));
    wvgd_session_close(resumed);
    wvgd_session_close(s);
    wvgd_request_free(again);
    wvgd_request_free(request);
    request = ask_own(&own, "half");
    set(request, "checkpoint-every", "0");
    count = (counted){0, 400};
    s = open_session(request);
    refused(wvgd_session_run(s, NULL, NULL, &error), WVGD_E_MODEL, "returned 1");
    count.most = SIZE_MAX;
    again = ask_own(&own, NULL);
    resumed = wvgd_resume("half", again, &error);
    assert_non_null(resumed);
    run(resumed);
    assert_true(fabs(evidence(resumed)) < 0.02);
    wvgd_session_close(resumed);
    wvgd_session_close(s);
    wvgd_request_free(again);
    own.model.name = "./mine.so";
    refused(wvgd_request_own(request, &own, &error), WVGD_E_ARGUMENT, "of a file");
    own.model.log_density = NULL;
    refused(wvgd_request_own(request, &own, &error), WVGD_E_ARGUMENT, "log_density is NULL");
    wvgd_request_free(request);
}

static void refuses_curves(void **state)
{
    (void)state;
    static const char *const names[] = {"rate", "share"};
    static const struct {
        wvgd_curve curve[2];
        const char *said;
    } wrong[] = {{{{WVGD_CURVE_LINE, 0, 1, 0, 0}, {0}}, "curve[1] has centre 0 and scale 0"},
                 {{{WVGD_CURVE_POSITIVE, NAN, 1, 0, 0}, {WVGD_CURVE_LINE, 0, 1, 0, 0}}, "curve[0] has centre nan"},
                 {{{WVGD_CURVE_LINE, 0, 1, 0, 0}, {WVGD_CURVE_BETWEEN, 0, 1, 2, 2}}, "curve[1] has limits 2 and 2"}};
    counted count = {0, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wvgd_own_model own = {
            {.dim = 2, .log_density = own_density, .self = &count, .has_gradient = true, .names = names},
            wrong[i].curve,
            NULL};
        wvgd_request *request = ask_own(&own, NULL);
        assert_null(wvgd_open(request, &error));
        refused(error.code, WVGD_E_ARGUMENT, wrong[i].said);
        wvgd_request_free(request);
    }
}

/* Other cells of a run, and its draws as a table: what the program does is what the library does. */
static void makes_cells(void **state)
{
    (void)state;
    wvgd_request *request = ask_logistic();
    set(request, "out", "whole");
    wvgd_session *s = open_session(request);
    run(s);
    wvgd_session_close(s);
    wvgd_request_free(request);
    request = wvgd_request_new();
    set(request, "out", "whole");
    assert_null(wvgd_open_cells("whole", request, &error));
    refused(error.code, WVGD_E_ARGUMENT, "particles is missing");
    set(request, "particles", "3");
    assert_null(wvgd_open_cells("whole", request, &error));
    refused(error.code, WVGD_E_CREATE, "already holds a run: overwrite replaces it");
    set(request, "out", "three");
    wvgd_session *cells = wvgd_open_cells("whole", request, &error), *whole = wvgd_load("whole", NULL, &error);
    assert_non_null(cells);
    run(cells);
    wvgd_results r;
    wvgd_get_results(wvgd_session_fit(cells), &r);
    assert_int_equal(r.N, 3);
    assert_true(evidence(cells) == evidence(whole));
    assert_int_equal(wvgd_session_write_draws(whole, WVGD_DRAWS_RESAMPLED, 1, 20, "draws.csv", NULL, &error), WVGD_OK);
    assert_int_equal(access("draws.csv", F_OK), 0);
    refused(wvgd_session_write_draws(whole, WVGD_DRAWS_RESAMPLED, 1, 20, "whole/draws.csv", NULL, &error),
            WVGD_E_CREATE, "file of a run");
    refused(wvgd_session_write_draws(whole, WVGD_DRAWS_RESAMPLED, 1, 20, NULL, NULL, &error), WVGD_E_ARGUMENT,
            "stream");
    wvgd_session_close(cells);
    wvgd_session_close(whole);
    set(request, "particles", "100000");
    assert_null(wvgd_open_cells("three", request, &error));
    refused(error.code, WVGD_E_ARGUMENT, "draws of the run");
    wvgd_request_free(request);
}

/* SVGD is a session without a fit. */
static void runs_svgd(void **state)
{
    (void)state;
    const char *text;
    double x;
    wvgd_request *request = wvgd_request_new_svgd();
    refused(wvgd_request_set(request, "family", "full", &error), WVGD_E_ARGUMENT, "family");
    refused(wvgd_request_set(request, "bandwidth", "mean", &error), WVGD_E_ARGUMENT, "median or a number");
    set(request, "model", "logistic");
    set(request, "data", TABLE);
    set(request, "particles", "10");
    set(request, "max-iter", "5");
    wvgd_session *s = open_session(request);
    assert_null(wvgd_session_fit(s));
    assert_int_equal(wvgd_session_run(s, NULL, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_session_summary(s, WVGD_SUMMARY_TEXT, 5, &text, &error), WVGD_OK);
    assert_non_null(strstr(text, "10 particles"));
    refused(wvgd_session_draws(s, WVGD_DRAWS_ENSEMBLE, 1, 1, &x, NULL, &error), WVGD_E_ARGUMENT, "SVGD");
    assert_int_equal(wvgd_session_write(s, "stein", false, &error), WVGD_OK);
    assert_int_equal(access("stein/particles.csv", F_OK), 0);
    wvgd_session_close(s);
    wvgd_request_free(request);
}

static int stop_in_fit(void *self, const wvgd_progress *p)
{
    size_t *calls = self;
    ++*calls;
    return p->iteration >= 2;
}

/* A run that is stopped, written and gone on with ends as one that nobody stopped: into a directory from the
 * beginning, or written at the end. */
static void goes_on(void **state)
{
    const bool out = *state != NULL;
    size_t calls = 0;
    wvgd_results r;
    wvgd_progress p;
    wvgd_request *request = ask_logistic();
    wvgd_session *whole = open_session(request);
    run(whole);
    if (out)
        set(request, "out", "stopped");
    wvgd_session *s = open_session(request);
    assert_int_equal(wvgd_session_run(s, stop_in_fit, &calls, &error), WVGD_OK);
    wvgd_get_results(wvgd_session_fit(s), &r);
    assert_int_equal(r.stop, WVGD_STOPPED);
    assert_true(calls > 2);
    if (!out)
        assert_int_equal(wvgd_session_write(s, "stopped", false, &error), WVGD_OK);
    wvgd_session_close(s);
    wvgd_session *ended = wvgd_load("stopped", NULL, &error);
    assert_non_null(ended);
    wvgd_session_close(ended);
    s = wvgd_resume("stopped", NULL, &error);
    assert_non_null(s);
    wvgd_get_progress(wvgd_session_fit(s), &p);
    assert_int_equal(p.iteration, 2); /* from there, not from the beginning */
    run(s);
    assert_true(evidence(s) == evidence(whole));
    wvgd_session_close(s);
    wvgd_session_close(whole);
    wvgd_request_free(request);
}

/* A model that fails in its third batch: nothing is left, and the session cannot run again. */
static void gives_up(void **state)
{
    (void)state;
    wvgd_request *request = wvgd_request_new();
    set(request, "model", WVGD_BINARY_DIR "/tests/failing.so");
    set(request, "config", "third");
    set(request, "out", "failed");
    wvgd_session *s = open_session(request);
    refused(wvgd_session_run(s, NULL, NULL, &error), WVGD_E_MODEL, "7");
    assert_int_not_equal(access("failed", F_OK), 0);
    refused(wvgd_session_run(s, NULL, NULL, &error), WVGD_E_ARGUMENT, "failed before");
    assert_int_not_equal(access("failed", F_OK), 0);
    wvgd_session_close(s);
    wvgd_request_free(request);
}

static void take_note(void *self, const char *text)
{
    snprintf(self, 200, "%s", text);
}

static void says_which_solver(void **state)
{
    (void)state;
    char note[200] = "";
    wvgd_request *request = ask_logistic();
    set(request, "estimator", "score");
    wvgd_request_notes(request, take_note, note);
    wvgd_session *s = open_session(request);
    wvgd_results r;
    wvgd_get_results(wvgd_session_fit(s), &r);
    assert_int_equal(r.solver, WVGD_JOINT);
    assert_non_null(strstr(note, "estimator"));
    assert_string_equal(wvgd_session_solver_note(s), note);
    wvgd_session_close(s);
    wvgd_request_free(request);
}

static void leaves_the_locale(void **state)
{
    (void)state;
    locale_t mine = duplocale(LC_GLOBAL_LOCALE), before = uselocale(mine);
    wvgd_request *request = ask_logistic();
    set(request, "max-iter", "2");
    wvgd_session *s = open_session(request);
    assert_true(uselocale((locale_t)0) == mine);
    run(s);
    assert_true(uselocale((locale_t)0) == mine);
    wvgd_session_close(s);
    wvgd_request_free(request);
    uselocale(before);
    freelocale(mine);
}

static void describes_models(void **state)
{
    (void)state;
    size_t n = 0;
    for (; wvgd_model_describe(n); n++)
        assert_non_null(wvgd_model_describe(n)->help);
    assert_true(n > 4);
    assert_null(wvgd_model_describe(SIZE_MAX));
    assert_int_equal(wvgd_exit_code(WVGD_OK), 0);
    assert_int_equal(wvgd_exit_code(WVGD_E_MEMORY), 70);
    assert_int_equal(wvgd_exit_code(WVGD_E_IO), 74);
}

int main(void)
{
    static char out[] = "out";
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(refuses_null),
        IN_DIRECTORY(refuses_options),
        IN_DIRECTORY(refuses_requests),
        IN_DIRECTORY(reads_files_without_trust),
        IN_DIRECTORY(opens_tables),
        IN_DIRECTORY(writes_and_loads),
        IN_DIRECTORY(fits_models_of_its_own),
        IN_DIRECTORY(refuses_curves),
        {"goes_on", goes_on, enter, leave, NULL},
        {"goes_on_in_directory", goes_on, enter, leave, out},
        IN_DIRECTORY(makes_cells),
        IN_DIRECTORY(runs_svgd),
        IN_DIRECTORY(gives_up),
        IN_DIRECTORY(says_which_solver),
        IN_DIRECTORY(leaves_the_locale),
        IN_DIRECTORY(describes_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
