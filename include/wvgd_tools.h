/* wvgd_tools.h - what the program wvgd does, for other programs: models by name, tables, run directories.
 *
 *     wvgd_request *q = wvgd_request_new();
 *     wvgd_request_set(q, "model", "logistic", &error);
 *     wvgd_request_set(q, "data", "data/iris.csv", &error);
 *     wvgd_session *s = wvgd_open(q, &error);
 *     wvgd_session_run(s, NULL, NULL, &error);
 *     wvgd_session_summary(s, WVGD_SUMMARY_TEXT, 0, &text, &error);
 *     wvgd_session_write(s, "iris", false, &error);
 *     wvgd_session_close(s);
 *     wvgd_request_free(q);
 *
 * A *request* says what to fit and how, by the names that the command line has (docs/options.md). A *session* is
 * a model with its data, a fit (wvgd.h) and, if you want one, a run directory (docs/formats.md). The program wvgd uses
 * the same calls: each reads what the other writes.
 *
 * Conventions are those of wvgd.h, but a table with several problems has a line for each in the text of an error:
 * row-major arrays, natural logs, a wvgd_status and a sentence in *error (which may be NULL) from every call that can
 * fail. A NULL pointer where one is required is WVGD_E_ARGUMENT; functions without a status then do nothing, and return
 * NULL or 0. Ownership: the caller frees requests and sessions. Texts, names and arrays that a call returns belong to
 * the session; each call says how long they live. A session copies what it needs of a request, which can then be
 * changed, freed, or used to open other sessions. Threads: one thread at a time uses a request or a session; different
 * ones are independent. Open, run and read a session whose model is a shared object or a Stan program in the same
 * thread. Unlike libwvgd, this library opens files, and loads shared objects if you ask for it. It never prints, exits
 * or installs handlers, and keeps no state outside requests and sessions. Numbers have a decimal point under any
 * locale: during a call, callbacks included, the calling thread has the C locale for numbers (uselocale). Set a
 * threaded BLAS to one thread before the first call. */
#ifndef WVGD_TOOLS_H
#define WVGD_TOOLS_H

#include "wvgd.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The exit code (sysexits.h) with which the program ends for a status: 0, 64 (WVGD_E_ARGUMENT), 65 (WVGD_E_DATA), 66
 * (WVGD_E_NO_INPUT), 69 (WVGD_E_UNAVAILABLE), 73 (WVGD_E_CREATE), 74 (WVGD_E_IO), 75 (WVGD_E_STATE: a run cannot
 * be resumed, or needs a model that you have not trusted); 70 for all others. In this library WVGD_E_MODEL can also
 * mean that memory ran out outside the fit. */
int wvgd_exit_code(wvgd_status status);

/* ---- a request --------------------------------------------------------------------------------------------------- */
typedef struct wvgd_request wvgd_request;

wvgd_request *wvgd_request_new(void);      /* NULL: no memory */
wvgd_request *wvgd_request_new_svgd(void); /* for SVGD, the baseline: options of wvgd svgd; its session has no fit */
void wvgd_request_free(wvgd_request *request); /* accepts NULL */

/* Sets `model` (a name of wvgd_model_describe, or a path to a shared object), or an option by its long name, with '-'
 * or '_' between words: those of wvgd_options_describe, `data`, `out`, `output-draws`, `checkpoint-every` ..., and
 * those of the model (`target`, `standardize` ...). Flags are set by "" or "true", and taken back by "false". value
 * NULL: takes it back. Copies both. An option or a model that does not exist, or a value out of its range, is
 * WVGD_E_ARGUMENT, and changes nothing; what depends on the model is checked by wvgd_open. `out` may be left out: see
 * wvgd_session_write. */
wvgd_status wvgd_request_set(wvgd_request *request, const char *name, const char *value, wvgd_error *error);

/* The value of an option as text ("" for a flag), or NULL if it was not set. Valid until the next call for the request.
 */
const char *wvgd_request_get(const wvgd_request *request, const char *name);

/* Sets options from a JSON file: an object whose keys are long names (and model), or the run.json of another run. Later
 * calls override earlier ones. A file cannot make the library load code: if only the file names a shared object as
 * model, set `trust-model` by wvgd_request_set. */
wvgd_status wvgd_request_read(wvgd_request *request, const char *path, wvgd_error *error);

/* What run.json will say under `command`, copied. NULL, the default: the command line that would do the same with a
 * model by name. */
wvgd_status wvgd_request_command(wvgd_request *request, const char *command, wvgd_error *error);

/* Called with one line for the user, without a newline, for what is not an error: a solver other than the requested one
 * and why, an option without effect, a checkpoint that could not be written. text is valid during the call. NULL: no
 * such lines. */
typedef void wvgd_note_callback(void *self, const char *text);
void wvgd_request_notes(wvgd_request *request, wvgd_note_callback *note, void *self);

/* Row i of the built-in models, or NULL past the end. */
typedef struct {
    const char *name;
    const char *data; /* what `data` is */
    const char *help; /* one line */
} wvgd_model_info;
const wvgd_model_info *wvgd_model_describe(size_t i);

/* ---- a model of your own --------------------------------------------------------------------------------------- */
/* How a coordinate z of the model is reported: as a parameter t, with s = centre + scale z. */
typedef enum {
    WVGD_CURVE_LINE,     /* t = s */
    WVGD_CURVE_POSITIVE, /* t = exp(s) */
    WVGD_CURVE_BETWEEN   /* t = low + (high - low) / (1 + exp(-s)) */
} wvgd_curve_kind;

typedef struct {
    wvgd_curve_kind kind;
    double centre, scale, low, high;
} wvgd_curve;

typedef struct {
    wvgd_model model;        /* names are needed; called in whole batches by the thread that runs the session */
    const wvgd_curve *curve; /* [dim] draws, posterior and modes are in these parameters, particles in the coordinates,
                              * called u.NAME where they differ. A scale is not 0; low < high. NULL: no parameters but
                              * the coordinates */
    const char *prior;       /* in words, for run.json; NULL: unknown */
} wvgd_own_model;

/* Sessions of this request fit *own instead of a model by name; own NULL undoes this. *own is not copied: it and what
 * it points to must outlive these sessions. wvgd_resume continues such a run only with the same dimension, names,
 * curves and prior; wvgd_load needs no model. run.json calls the model model.name, which must not be the name of a
 * file; NULL: "density". A curve of scale 0, or without room between low and high, is refused by wvgd_open. */
wvgd_status wvgd_request_own(wvgd_request *request, const wvgd_own_model *own, wvgd_error *error);

/* ---- a session --------------------------------------------------------------------------------------------------- */
typedef struct wvgd_session wvgd_session;

/* Reads the data, opens the model and creates its fit. Evaluates nothing (except for `check-gradient`) and writes
 * nothing yet. If `out` is given, it must not exist or be empty, unless it holds a run and `overwrite` is set. NULL and
 * *error on failure. */
wvgd_session *wvgd_open(const wvgd_request *request, wvgd_error *error);

/* Continues the run in dir from its checkpoint, as if it had never stopped. request may be NULL, or change
 * `max-iter`, `max-evaluations`, `max-seconds`, `threads`, `checkpoint-every`, `output-draws`, and say where the same
 * `data` are now. A model that is a shared object is loaded only if request names it again (`model`), or if
 * `trust-model` allows the one that the run names. The run of a model of your own needs a request with
 * wvgd_request_own. */
wvgd_session *wvgd_resume(const char *dir, const wvgd_request *request, wvgd_error *error);

/* New cells from the draws of the run in dir, which has ended and used the staged solver: nothing is fitted again,
 * and running the session evaluates the model only for the bound of the new cells. request has `particles`, and may
 * have `cost`, `power`, `family` and `out`; all else is as in the run. Trust is as for wvgd_resume. */
wvgd_session *wvgd_open_cells(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Loads a run that has ended, for its results and draws. This needs neither model nor data, except with the cost
 * functional, whose cells depend on predictions; a shared object is then loaded as by wvgd_resume. request may be NULL.
 */
wvgd_session *wvgd_load(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Frees the session and all that belongs to it, and unlocks its directory if it has not run. Accepts NULL. */
void wvgd_session_close(wvgd_session *session);

/* The model, ready to be evaluated in `threads` threads; its names are set. log_density is NULL if the run was loaded
 * without its model. Valid until the session is closed, as is what the following calls return. */
const wvgd_model *wvgd_session_model(const wvgd_session *session);

/* The table that the model was made from; NULL: it has none, or the run was loaded. */
typedef struct {
    size_t rows;
    const char *target;       /* response column */
    const char *label[2];     /* the labels that count as 0 and as 1; NULL: it has numbers */
    size_t columns;           /* features */
    const char *const *names; /* [columns] of the features; with a formula, of the columns of the design */
    const double *mean, *sd;  /* [columns] means and sds by which features were standardized (sd 0: constant, and 0 in
                               * the model); NULL: not standardized */
} wvgd_table;
const wvgd_table *wvgd_session_table(const wvgd_session *session);

/* The fit, for wvgd_get_results, wvgd_draws and the other functions of wvgd.h. Do not free it, and do not step it if
 * you use wvgd_session_run. NULL for SVGD. */
wvgd_fit *wvgd_session_fit(const wvgd_session *session);

/* Why the solver is not the requested one (wvgd_results.solver says which it is), as a sentence; NULL: it is. */
const char *wvgd_session_solver_note(const wvgd_session *session);

/* Runs the fit to its end, by wvgd_run, with its progress callback. If `out` was given, or the run is resumed, it locks
 * the directory, writes a checkpoint every `checkpoint-every` seconds, and all files at the end. If the callback
 * returns a nonzero value, the run stops with the results so far; wvgd_resume can continue it. If the files cannot be
 * written at the end, the status says so, but the session has its results. A run that fails before its first checkpoint
 * leaves nothing behind. A second call does nothing, or is WVGD_E_ARGUMENT if the first has failed. */
wvgd_status wvgd_session_run(wvgd_session *session, wvgd_progress_callback *callback, void *self, wvgd_error *error);

/* Writes the run directory of a session that has run. dir is created if missing; a run in it is replaced only with
 * overwrite. Other processes see either the old files or the new ones, never a mixture. */
wvgd_status wvgd_session_write(wvgd_session *session, const char *dir, bool overwrite, wvgd_error *error);

/* The results as text, which belongs to the session and is valid until the next call of this function for it. most: the
 * maximum number of parameters, modes and particles that WVGD_SUMMARY_TEXT lists; 0: all. */
typedef enum {
    WVGD_SUMMARY_TEXT, /* as wvgd summary prints it, 100 columns */
    WVGD_SUMMARY_JSON, /* as wvgd summary --json */
    WVGD_RUN_JSON      /* all of run.json */
} wvgd_summary_kind;
wvgd_status wvgd_session_summary(wvgd_session *session, wvgd_summary_kind kind, size_t most, const char **text,
                                 wvgd_error *error);

/* The reasons of the verdict if the result is unreliable, then other warnings: *n lines, each with a remedy. NULL
 * before the session has run. n may be NULL. */
const char *const *wvgd_session_warnings(wvgd_session *session, size_t *n);

/* The value of an option of the run, by its long name with '-', as text ("" for a flag): as given, or the default.
 * NULL: there is none. Valid until the next call of this function for the session. */
const char *wvgd_session_option(wvgd_session *session, const char *name);

/* Names of the *n quantities in draws: the parameters or, for a Stan program, its constrained and transformed
 * parameters and generated quantities. n may be NULL. */
const char *const *wvgd_session_names(const wvgd_session *session, size_t *n);

/* The quantities value[n][quantities] of points z[n][D]: of particles, say. NAN if the model cannot transform a point;
 * if the run was loaded without its model, of points other than draws and particles. */
wvgd_status wvgd_session_values(const wvgd_session *session, size_t n, const double *z, double *value,
                                wvgd_error *error);

/* n draws value[n][quantities] of a session that has run, with their log weights log_w[n] (0 unless weighted); log_w
 * may be NULL. The same seed gives the same draws. If the model cannot transform a draw, its values are NAN. */
typedef enum {
    WVGD_DRAWS_ENSEMBLE,  /* from the fitted approximation */
    WVGD_DRAWS_RESAMPLED, /* from the posterior: final draws, resampled by their importance weights */
    WVGD_DRAWS_WEIGHTED   /* final draws with their weights, which sum to 1: n of them, evenly spaced; at most
                           * wvgd_results.closing_draws */
} wvgd_draws_kind;
wvgd_status wvgd_session_draws(const wvgd_session *session, wvgd_draws_kind kind, uint64_t seed, size_t n,
                               double *value, double *log_w, wvgd_error *error);

/* The same draws as Stan CSV in a file; path NULL: to stream. n 0: all that there are, if weighted. */
wvgd_status wvgd_session_write_draws(wvgd_session *session, wvgd_draws_kind kind, uint64_t seed, size_t n,
                                     const char *path, FILE *stream, wvgd_error *error);

/* ---- predictions ------------------------------------------------------------------------------------------------- */
/* What a model expects of one new row. The mean response is
 *   logistic, binary bnn, glm bernoulli   the probability of the label that counts as 1
 *   linear, other bnn, other glm          the mean of the response
 *   glm binomial                          that of the successes if new rows have the trials, otherwise of one trial
 *   gp                                    the process without noise */
typedef struct {
    double mean, sd, q5, q50, q95; /* of the mean response, over the posterior: quantiles of 5, 50, 95 % */
    double lower, upper;           /* where the response itself lies with a probability of 90 %: 5 % are below, 5 %
                                    * above; 0 or 1 for labels */
} wvgd_prediction;

/* Predicts *rows rows of the CSV file `data` with a session that has run, or was loaded. It needs the columns that the
 * model was fitted with, in any order; the response and others may be there. They are encoded as in the fit. Columns
 * that are missing, values that are missing or no numbers and levels that the fit did not have are WVGD_E_DATA. draws:
 * how many draws of the posterior are averaged; 0: those of draws.csv, `output-draws` of them. A
 * gp needs the data of its run again, if it was loaded. *row belongs to the session, and is valid until the next call
 * of this function for it. */
wvgd_status wvgd_session_predict(wvgd_session *session, const char *data, size_t draws, const wvgd_prediction **row,
                                 size_t *rows, wvgd_error *error);

/* The same as CSV with a header, mean,sd,q5,q50,q95,lower,upper, rounded to five digits of the sd, in a file that
 * appears whole or not at all; path NULL: to stream. */
wvgd_status wvgd_session_write_predictions(wvgd_session *session, const char *data, size_t draws, const char *path,
                                           FILE *stream, wvgd_error *error);

/* ---- comparing runs ---------------------------------------------------------------------------------------------- */
typedef struct wvgd_comparison wvgd_comparison;

/* A run beside the others. Runs are equally probable before the data. */
typedef struct {
    const char *run;         /* its directory or name */
    double log_evidence, se; /* pooled over the fits of `repeat` */
    double difference;       /* its log evidence less that of the best run, */
    double difference_se;    /* and the standard error; 0 for the best run itself */
    double bayes_factor;     /* of the run against the best one: exp(difference) */
    double probability;      /* of the run, given that one of them is right */
    bool reliable;           /* its verdict */
} wvgd_compared;

/* Compares the runs in n directories by their evidence; needs neither models nor data, and keeps nothing open. At least
 * two. Runs that explain different responses (data.response_sha256 of run.json), or one of which has the density of
 * numbers and another the probability of labels or counts, are WVGD_E_DATA. NULL and *error on failure. The caller
 * frees the result, to which all that the following calls return belongs. */
wvgd_comparison *wvgd_compare(size_t n, const char *const *dir, wvgd_error *error);

/* The same for sessions that have run or were loaded, called name[n]. They need not stay open. */
wvgd_comparison *wvgd_compare_sessions(size_t n, wvgd_session *const *session, const char *const *name,
                                       wvgd_error *error);
void wvgd_comparison_free(wvgd_comparison *comparison); /* accepts NULL */

/* *n rows, the best run first. n may be NULL. */
const wvgd_compared *wvgd_comparison_rows(const wvgd_comparison *comparison, size_t *n);

/* *n lines about what limits the comparison: priors that differ, unreliable runs, a difference within its error, data
 * that cannot be checked. n may be NULL. */
const char *const *wvgd_comparison_notes(const wvgd_comparison *comparison, size_t *n);

/* The rows as wvgd compare prints them: a table, or a JSON array of objects whose keys are the names of the fields
 * above. Valid until the next call of this function for the comparison. */
wvgd_status wvgd_comparison_text(wvgd_comparison *comparison, bool json, const char **text, wvgd_error *error);

#ifdef __cplusplus
}
#endif
#endif
