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

/* What run.json will say under `command`, copied. NULL, the default: the command line that would do the same. */
wvgd_status wvgd_request_command(wvgd_request *request, const char *command, wvgd_error *error);

/* Called with one line for the user, without a newline, for what is not an error: a solver other than the requested one
 * and why, an option without effect, a checkpoint that could not be written. text is valid during the call. NULL: no
 * such lines. */
typedef void wvgd_note_callback(void *self, const char *text);
void wvgd_request_notes(wvgd_request *request, wvgd_note_callback *note, void *self);

/* Row i of the models that have a name, or NULL past the end. */
typedef struct {
    const char *name;
    const char *data; /* what `data` is */
    const char *help; /* one line */
} wvgd_model_info;
const wvgd_model_info *wvgd_model_describe(size_t i);

/* ---- a session --------------------------------------------------------------------------------------------------- */
typedef struct wvgd_session wvgd_session;

/* Reads the data, opens the model and creates its fit. Evaluates nothing (except for `check-gradient`) and writes
 * nothing yet. If `out` is given, it must not exist or be empty, unless it holds a run and `overwrite` is set. NULL and
 * *error on failure. */
wvgd_session *wvgd_open(const wvgd_request *request, wvgd_error *error);

/* Continues the run in dir from its checkpoint, as if it had never stopped. request may be NULL, or change
 * `max-iter`, `max-evaluations`, `max-seconds`, `threads`, `checkpoint-every`, `output-draws`. A model that is a shared
 * object is loaded only if request names it again (`model`), or if `trust-model` allows the one that the run names. */
wvgd_session *wvgd_resume(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Other cells from the draws of the run in dir, which has ended and used the staged solver: nothing is fitted again,
 * and running the session evaluates the model only for the bound of the new cells. request has `particles`, and may
 * have `cost`, `power`, `family` and `out`; all else is as in the run. Trust is as for wvgd_resume. */
wvgd_session *wvgd_open_cells(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Loads a run that has ended, for its results and draws. This needs neither model nor data, except with the cost
 * functional, whose cells depend on predictions; a shared object is then loaded as by wvgd_resume. request may be NULL.
 */
wvgd_session *wvgd_load(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Frees the session and all that belongs to it, and unlocks its directory. Accepts NULL. */
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
    const char *const *names; /* [columns] */
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
const char *const *wvgd_session_warnings(const wvgd_session *session, size_t *n);

/* The value of an option of the run, by its long name with '-', as text ("" for a flag): as given, or the default.
 * NULL: there is none. Valid until the next call of this function for the session. */
const char *wvgd_session_option(wvgd_session *session, const char *name);

/* Names of the *n quantities in draws: the parameters or, for a Stan program, its constrained and transformed
 * parameters and generated quantities. n may be NULL. */
const char *const *wvgd_session_names(const wvgd_session *session, size_t *n);

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

#ifdef __cplusplus
}
#endif
#endif
