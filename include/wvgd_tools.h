/* wvgd_tools.h - what the program wvgd is made of, for other programs: models by name, tables, run directories.
 *
 *     wvgd_request *q = wvgd_request_new();
 *     wvgd_request_set(q, "model", "logistic", &error);
 *     wvgd_request_set(q, "data", "heart.csv", &error);
 *     wvgd_session *s = wvgd_open(q, &error);
 *     wvgd_session_run(s, NULL, NULL, &error);
 *     wvgd_session_summary(s, WVGD_SUMMARY_TEXT, 0, &text, &error);
 *     wvgd_session_write(s, "heart", false, &error);
 *     wvgd_session_close(s);
 *     wvgd_request_free(q);
 *
 * A *request* says what to fit and how, by the names that the command line has (docs/options.md). A *session* is what
 * becomes of it: a model with its data, a fit (wvgd.h), and a run directory (docs/formats.md) if one is wanted. The
 * program wvgd does the same by the same calls: what it writes, these read, and the other way round.
 *
 * Conventions are those of wvgd.h: row-major arrays, natural logs, a wvgd_status and a sentence in *error (which may be
 * NULL) from every call that can fail. NULL where a pointer is needed is WVGD_E_ARGUMENT; functions without a status
 * do nothing then, and return NULL or 0.
 * Ownership: requests and sessions are the caller's, who frees them; texts, names and arrays that a call returns
 * belong to the session and live as long as each call says. A request is copied where it is used: it may be changed
 * or freed while a session lives, and may open several.
 * Threads: a request or a session is used by one thread at a time; different ones are independent. A model in a shared
 * object or of Stan is opened, run and shown by the same thread.
 * Unlike libwvgd, this library opens files, and loads shared objects if told to. It never prints, exits or installs
 * handlers, and keeps no state outside of requests and sessions. Numbers have a decimal point under any locale: while a
 * call lasts (callbacks too) the calling thread has one of its own (uselocale). A threaded BLAS should be told to use
 * one thread before anything is computed. */
#ifndef WVGD_TOOLS_H
#define WVGD_TOOLS_H

#include "wvgd.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The exit code (sysexits.h) with which the program ends for a status: 0, 64 (WVGD_E_ARGUMENT), 65 (WVGD_E_DATA), 66
 * (WVGD_E_NO_INPUT), 69 (WVGD_E_UNAVAILABLE), 73 (WVGD_E_CREATE), 74 (WVGD_E_IO), 75 (WVGD_E_STATE: a run cannot go
 * on, or its model is code that nobody trusts); 70 for all others. In this library WVGD_E_MODEL also stands for
 * memory that ran out beside the fit. */
int wvgd_exit_code(wvgd_status status);

/* ---- a request --------------------------------------------------------------------------------------------------- */
typedef struct wvgd_request wvgd_request;

wvgd_request *wvgd_request_new(void);      /* NULL: no memory */
wvgd_request *wvgd_request_new_svgd(void); /* for SVGD, the baseline: options of wvgd svgd; its session has no fit */
void wvgd_request_free(wvgd_request *request); /* accepts NULL */

/* Sets `model` (a name of wvgd_model_describe, or a path to a shared object), or an option by its long name, with '-'
 * or '_' between words: those of wvgd_options_describe, `data`, `out`, `output-draws`, `checkpoint-every` ..., and
 * those of the model (`target`, `standardize` ...). Flags are set by "". value NULL: takes it back. Copies both.
 * An option or a model that does not exist, or a value out of its range, is WVGD_E_ARGUMENT, and changes nothing; what
 * depends on the model is checked by wvgd_open. `out` may be left out: see wvgd_session_write. */
wvgd_status wvgd_request_set(wvgd_request *request, const char *name, const char *value, wvgd_error *error);

/* The value of an option as text ("" for a flag), or NULL if it was not set. Valid until the next call for the request.
 */
const char *wvgd_request_get(const wvgd_request *request, const char *name);

/* Sets what a JSON file says: an object whose keys are long names (and model), or the run.json of another run. What is
 * set later wins. A file cannot make the library load code: a model in a shared object that only the file names needs
 * `trust-model` from wvgd_request_set. */
wvgd_status wvgd_request_read(wvgd_request *request, const char *path, wvgd_error *error);

/* What run.json will say under `command`, copied. NULL, the default: the command line that would do the same. */
wvgd_status wvgd_request_command(wvgd_request *request, const char *command, wvgd_error *error);

/* Called with one line for people, without a newline, when there is something to say that is no error: another solver
 * than the one asked for and why, a checkpoint that could not be written. text is valid during the call. NULL: nobody
 * wants to know. */
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

/* Reads the data, opens the model and makes its fit; nothing is evaluated or written yet (but for `check-gradient`).
 * If `out` is given, it must be free, or hold a run and `overwrite` be set. NULL and *error on failure. */
wvgd_session *wvgd_open(const wvgd_request *request, wvgd_error *error);

/* Goes on with a run from its checkpoint: the run in dir, as if it had never stopped. request may be NULL, or change
 * `max-iter`, `max-seconds`, `threads`, `checkpoint-every`, `output-draws`. A model that is a shared object is
 * loaded only if request names it again (`model`), or has `trust-model`: then the one that the run names. */
wvgd_session *wvgd_resume(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Other cells from the draws of the run in dir, which has ended and used the staged solver: nothing is fitted again,
 * and running the session evaluates the model only for the bound of the new cells. request has `particles`, and may
 * have `cost`, `power`, `family` and `out`; all else is as in the run. Trust is as for wvgd_resume. */
wvgd_session *wvgd_open_cells(const char *dir, const wvgd_request *request, wvgd_error *error);

/* A run that has ended, for its results and draws. Model and data are not needed, except where cells are told by
 * predictions (cost functional): then trust is as for wvgd_resume. request may be NULL. */
wvgd_session *wvgd_load(const char *dir, const wvgd_request *request, wvgd_error *error);

/* Ends the session with all that belongs to it, and unlocks its directory. Accepts NULL. */
void wvgd_session_close(wvgd_session *session);

/* The model, ready to be evaluated in `threads` threads; its names are set. Without log_density where a run was loaded
 * without its model. Valid until the session is closed, as is what follows. */
const wvgd_model *wvgd_session_model(const wvgd_session *session);

/* What a model made of its table; NULL: it has none, or the run was loaded. */
typedef struct {
    size_t rows;
    const char *target;       /* response column */
    const char *label[2];     /* what stands there for 0 and for 1; NULL: it has numbers */
    size_t columns;           /* features */
    const char *const *names; /* [columns] */
    const double *mean, *sd; /* [columns] what was taken away from features, and what they were divided by (0: constant,
                              * and 0 in the model); NULL: not standardised */
} wvgd_table;
const wvgd_table *wvgd_session_table(const wvgd_session *session);

/* The fit: wvgd_get_results, wvgd_draws and all else of wvgd.h. Not to be freed, and not to be stepped by hand where
 * wvgd_session_run is used. */
wvgd_fit *wvgd_session_fit(const wvgd_session *session);

/* Why another solver is used than the one asked for, as a sentence; NULL: it is the one asked for. Which:
 * wvgd_results.solver. */
const char *wvgd_session_solver_note(const wvgd_session *session);

/* Runs the fit to its end, by wvgd_run, with its progress callback. If `out` was given, or for a run that goes on, the
 * directory is locked, gets a checkpoint every `checkpoint-every` seconds, and all files at the end. A callback that
 * returns another value than 0 stops the run: it closes with the results so far, and can go on later (wvgd_resume).
 * If files cannot be written at the end, the status says so, and the results are there all the same. A run that fails
 * before its first checkpoint leaves nothing behind. A second call does nothing, or is WVGD_E_ARGUMENT if the first has
 * failed. */
wvgd_status wvgd_session_run(wvgd_session *session, wvgd_progress_callback *callback, void *self, wvgd_error *error);

/* Writes the run directory of a session that has run: dir is made if it is not there; a run that is in it is replaced
 * only with overwrite. Another process sees the old files or the new ones, never a mixture. */
wvgd_status wvgd_session_write(wvgd_session *session, const char *dir, bool overwrite, wvgd_error *error);

/* What the run has found, as text that belongs to the session and is valid until the next call of this function for
 * it. most: parameters, modes and particles to list at most in a text for people; 0: all. */
typedef enum {
    WVGD_SUMMARY_TEXT, /* as wvgd summary prints it, 100 columns */
    WVGD_SUMMARY_JSON, /* as wvgd summary --json */
    WVGD_RUN_JSON      /* the whole of run.json */
} wvgd_summary_kind;
wvgd_status wvgd_session_summary(wvgd_session *session, wvgd_summary_kind kind, size_t most, const char **text,
                                 wvgd_error *error);

/* What speaks against the result, then what else a user should know; *n lines, each with a remedy. NULL before the
 * session has run. n may be NULL. */
const char *const *wvgd_session_warnings(const wvgd_session *session, size_t *n);

/* The value of an option of the run, by its long name with '-', as text ("" for a flag): as given, or the default.
 * NULL: there is none. Valid until the next call of this function for the session. */
const char *wvgd_session_option(wvgd_session *session, const char *name);

/* The quantities that draws have, as users see them: the parameters, or what a Stan program makes of them. *n of them;
 * n may be NULL. */
const char *const *wvgd_session_names(const wvgd_session *session, size_t *n);

/* n draws value[n][quantities] of a session that has run, with their log weights log_w[n] (0 unless weighted); log_w
 * may be NULL. The same seed gives the same draws. A draw that the model cannot show is NAN. */
typedef enum {
    WVGD_DRAWS_ENSEMBLE,  /* of the fitted approximation */
    WVGD_DRAWS_RESAMPLED, /* of the posterior: closing draws, resampled by their importance weights */
    WVGD_DRAWS_WEIGHTED   /* closing draws with their weights, which sum to 1: n of them, evenly spaced; at most
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
