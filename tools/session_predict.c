/* session_predict.c - predictions of a session for the rows of a file. */
#include "fit_options.h"
#include "predict.h"
#include "run_directory.h"
#include "run_record.h"
#include "session.h"
#include "shown.h"
#include "status.h"
#include "summary.h"
#include "text.h"
#include "write.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const json_t *record_of(const wvgd_session *s)
{
    return s->loaded ? s->saved.asked : s->asked;
}

static bool is_gp(const json_t *asked)
{
    const char *kind = json_string_value(json_object_get(json_object_get(asked, "model"), "kind"));
    return kind && !strcmp(kind, "gp");
}

/* The data of a gp that was loaded. */
static int read_again(const json_t *asked, series_data *series, failure *f)
{
    failure why;
    const char *ignore = json_string_value(json_object_get(json_object_get(asked, "options"), "ignore")),
               *path = record_reopen(asked, "data");
    int code = path ? check_data(asked, &why) : fail(&why, EX_TEMPFAIL, "the run does not name its data file");
    if (!code)
        code = read_series(path, ignore, series, &why);
    return code ? fail(f, code, "predictions of a gp need the data of its run: %s", why.text) : 0;
}

static int predict_with(wvgd_session *s, const predictor *p, const char *data, size_t K, size_t *rows, failure *f)
{
    double *X, *value = calloc(K, s->shows->shown * sizeof *value);
    int code = read_new_rows(p, data, &X, rows, f);
    wvgd_prediction *row = code ? NULL : calloc(*rows, sizeof *row);
    if (!code && (!value || !row))
        code = fail(f, EX_SOFTWARE, "no memory for predictions from %zu draws", K);
    if (!code)
        code = show_draws(s->fit, s->shows, WVGD_DRAWS_RESAMPLED, record_seed(record_of(s)), K, value, NULL, f);
    if (!code)
        code = predict_rows(p, K, value, *rows, X, row, f);
    free(X);
    free(value);
    if (code)
        free(row);
    else {
        free(s->row);
        s->row = row;
    }
    return code;
}

static int predict(wvgd_session *s, const char *data, size_t draws, size_t *rows, failure *f)
{
    const json_t *asked = record_of(s);
    series_data again = {0};
    const series_data *series = s->shows->series;
    int code = 0;
    if (is_gp(asked) && !series) {
        code = read_again(asked, &again, f);
        series = &again;
    }
    predictor *p = code ? NULL : new_predictor(asked, s->shows->shown, s->shows->shown_names, series, f);
    if (!code)
        code = p ? predict_with(s, p, data, draws ? draws : record_count(asked, "output-draws", 1000), rows, f)
                 : f->code;
    free_predictor(p);
    free_series(&again);
    return code;
}

/* Has it draws to predict with? */
static int check_ended(wvgd_session *s, const char *function, failure *f)
{
    if (describe_session(s, f))
        return f->code;
    if (!s->run)
        return fail(f, EX_USAGE, "%s: the session has not run: expected wvgd_session_run first", function);
    return s->fit ? 0
                  : fail(f, EX_USAGE, "%s: SVGD has no draws to predict with: expected a session with a fit", function);
}

wvgd_status wvgd_session_predict(wvgd_session *s, const char *data, size_t draws, const wvgd_prediction **row,
                                 size_t *rows, wvgd_error *error)
{
    static const char function[] = "wvgd_session_predict";
    failure f;
    if (lacks(error, function, "session", s) || lacks(error, function, "data", data) ||
        lacks(error, function, "row", row) || lacks(error, function, "rows", rows))
        return WVGD_E_ARGUMENT;
    locale_t before = use_plain_numbers();
    int code = check_ended(s, function, &f);
    if (!code)
        code = predict(s, data, draws, rows, &f);
    uselocale(before);
    if (code)
        return pass_failure(error, &f);
    *row = s->row;
    return WVGD_OK;
}

/* ---- as CSV ------------------------------------------------------------------------------------------------------ */
/* To five digits of the sd, which is far below the error of any number of draws. */
static void put_rounded(FILE *stream, double value, double sd)
{
    if (!(sd > 0) || !isfinite(sd) || !isfinite(value) || value == 0) {
        put_number(stream, value);
        return;
    }
    int digits = 5 + (int)floor(log10(fabs(value))) - (int)floor(log10(sd));
    fprintf(stream, "%.*g", digits < 1 ? 1 : digits > 17 ? 17 : digits, value);
}

static void put_rows(FILE *stream, size_t rows, const wvgd_prediction *row)
{
    fputs("mean,sd,q5,q50,q95,lower,upper\n", stream);
    for (size_t i = 0; i < rows; i++) {
        const double value[] = {row[i].mean, row[i].sd, row[i].q5, row[i].q50, row[i].q95, row[i].lower, row[i].upper};
        for (size_t c = 0; c < sizeof value / sizeof *value; c++) {
            if (c)
                putc(',', stream);
            put_rounded(stream, value[c], row[i].sd);
        }
        putc('\n', stream);
    }
}

static int write_rows(const char *path, size_t rows, const wvgd_prediction *row, failure *f)
{
    whole_file w;
    int code = begin_other_file(&w, path, f);
    if (code)
        return code;
    put_rows(w.stream, rows, row);
    return finish_file(&w, f);
}

/* Rows so far from those of the fit that numbers end. */
static void note_infinite(const wvgd_session *s, const char *data, size_t rows, const wvgd_prediction *row)
{
    char text[400];
    size_t many = 0, first = 0;
    for (size_t i = rows; i-- > 0;)
        if (!isfinite(row[i].mean)) {
            many++;
            first = i + 1;
        }
    if (!many || !s->note)
        return;
    snprintf(text, sizeof text,
             "warning: %.200s: the mean response of row %zu%s is beyond 1.8e308: are its columns in the units of the "
             "fit?",
             data, first, many > 1 ? " (and of others)" : "");
    s->note(s->note_self, text);
}

/* Predictions are as good as the draws behind them. */
static void note_unreliable(const wvgd_session *s)
{
    char text[1200];
    if (is_reliable(s->run) || !s->note)
        return;
    snprintf(text, sizeof text, "warning: the run in %s is unreliable, and its predictions may be too: %s",
             s->dir ? s->dir : "memory", s->warnings ? s->warning[0] : "see its verdict");
    s->note(s->note_self, text);
}

wvgd_status wvgd_session_write_predictions(wvgd_session *s, const char *data, size_t draws, const char *path,
                                           FILE *stream, wvgd_error *error)
{
    const wvgd_prediction *row;
    size_t rows = 0;
    failure f;
    if (!path && lacks(error, "wvgd_session_write_predictions", "stream", stream))
        return WVGD_E_ARGUMENT;
    wvgd_status status = wvgd_session_predict(s, data, draws, &row, &rows, error);
    if (status != WVGD_OK)
        return status;
    int code = 0;
    locale_t before = use_plain_numbers();
    if (path)
        code = write_rows(path, rows, row, &f);
    else
        put_rows(stream, rows, row);
    if (!code) {
        note_infinite(s, data, rows, row);
        note_unreliable(s);
    }
    uselocale(before);
    return code ? pass_failure(error, &f) : WVGD_OK;
}
