/* cmd_predict.c - wvgd predict: what a finished fit expects of new rows, as CSV. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "run_session.h"
#include <sysexits.h>

static bool predict_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"data", 0, "FILE", NULL, NULL, "CSV file with the new rows: the columns of the fit, in any order", NULL},
        {"out", 'o', "FILE", NULL, NULL, "write to FILE instead of stdout", NULL},
        {"overwrite", 0, NULL, NULL, NULL, "replace FILE if it exists", NULL},
        {"draws", 'n', "K", "1..100000000", "as many as draws.csv has",
         "draws of the posterior to average over, as wvgd sample -n K gives them: those of draws.csv if it has K",
         NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

static int run_predict(arguments *a, failure *f)
{
    size_t draws = 0;
    const char *data = given(a, "data");
    wvgd_error error;
    if (!a->words)
        return fail(f, EX_USAGE, "predict: DIR is missing: name a run directory");
    if (!data)
        return fail(f, EX_USAGE, "predict: --data FILE is missing: a CSV file with the new rows");
    if (given_count(a, "draws", &draws, f) || check_out_file(a, f))
        return f->code;
    wvgd_request *q = NULL;
    if (request_trust(a, &q, f)) {
        wvgd_request_free(q);
        return f->code;
    }
    wvgd_request_notes(q, print_note, NULL);
    wvgd_session *s = wvgd_load(a->word[0], q, &error);
    wvgd_status status = s ? wvgd_session_write_predictions(s, data, draws, given(a, "out"), stdout, &error)
                           : error.code;
    wvgd_session_close(s);
    wvgd_request_free(q);
    return status == WVGD_OK ? 0 : fail_as(f, &error);
}

const command predict_command = {
    "predict",
    "DIR --data FILE",
    "predict new rows with a finished fit, with uncertainty",
    "Writes a line for each row of FILE as CSV: mean, sd and quantiles (q5, q50, q95) of the mean response over the "
    "posterior, and lower and upper, between which the response itself lies with a probability of 90 %. For logistic "
    "the mean response is the probability of the label that counts as 1; for gp it is the process without noise. "
    "For counts out of a number of trials it is the mean number of successes if FILE has the columns that the trials "
    "come from, otherwise the probability of one. FILE needs the columns of the fit; they are encoded and standardized "
    "as they were there, and unknown levels and missing values are refused (exit code 65). The response and other "
    "columns are ignored. Numbers are rounded to five digits of the sd. The model must be logistic, linear, glm, bnn "
    "or gp; only gp needs the data of the fit again.",
    "wvgd fit logistic --data patients.csv --out patients\n"
    "wvgd predict patients --data new.csv --out predictions.csv\n"
    "# mean and a 90 % interval of the probability\nwvgd predict patients --data new.csv | cut -d, -f1,3,5\n",
    predict_option,
    "DIR",
    run_predict,
    NULL,
};
