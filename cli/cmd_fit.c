/* cmd_fit.c - wvgd fit: makes a request of the command line, runs it with progress and signals, prints the summary. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "progress.h"
#include "say.h"
#include "signals.h"
#include "wvgd_tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_ROWS = 30 }; /* parameters, and particles, in the summary after a fit */

/* ---- while it runs ----------------------------------------------------------------------------------------------- */
static int after_batch(void *self, const wvgd_progress *p)
{
    progress_display *display = self;
    show_progress(display, p);
    if (was_interrupted())
        hide_progress(display);
    return was_interrupted();
}

static void print_note(void *self, const char *text)
{
    hide_progress(self);
    say("%s", text);
}

/* ---- what it has found ------------------------------------------------------------------------------------------- */
static void print_lines(size_t n, const char *const *line)
{
    for (size_t i = 0; i < n; i++)
        say("warning: %s", line[i]);
}

/* What speaks against the result, and all warnings; unless the summary says so in the same terminal. */
static void print_results(wvgd_session *s)
{
    size_t n;
    const char *text, *const *line = wvgd_session_warnings(s, &n);
    if (wvgd_session_summary(s, WVGD_SUMMARY_TEXT, SHOWN_ROWS, &text, NULL) != WVGD_OK)
        return;
    if (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO))
        print_lines(n, line);
    fputs(text, stdout);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */
static int fail_as(failure *f, const wvgd_error *error)
{
    return fail(f, wvgd_exit_code(error->code), "%s", error->text);
}

static wvgd_session *begin(const arguments *a, wvgd_request *q, progress_display *display, failure *f)
{
    const char *dir = given(a, "resume");
    wvgd_error error;
    wvgd_request_notes(q, print_note, display);
    wvgd_session *s = dir ? wvgd_resume(dir, q, &error) : wvgd_open(q, &error);
    if (!s)
        fail_as(f, &error);
    return s;
}

/* Has the run, which goes on, ended long ago? */
static bool was_done(const wvgd_session *s)
{
    wvgd_progress p;
    wvgd_get_progress(wvgd_session_fit(s), &p);
    return !strcmp(p.stage, "done");
}

static int explain_signal(const wvgd_session *s, const char *dir, failure *f)
{
    wvgd_results r;
    wvgd_get_results(wvgd_session_fit(s), &r);
    return fail(f, EXIT_INTERRUPTED,
                r.stop != WVGD_CONVERGED ? "interrupted; wvgd fit --resume %s continues"
                                         : "interrupted, but the run in %s had already finished",
                dir);
}

/* The results are printed even if they cannot be written. */
static int run_session(wvgd_session *s, const char *dir, progress_display *display, failure *f)
{
    wvgd_error error;
    if (!display->quiet && was_done(s))
        say("the run in %s had already finished: nothing to do", dir);
    catch_signals();
    wvgd_status status = wvgd_session_run(s, after_batch, display, &error);
    hide_progress(display);
    print_results(s);
    if (status != WVGD_OK)
        return fail_as(f, &error);
    if (was_interrupted())
        return explain_signal(s, dir, f);
    if (!display->quiet)
        say("results are in %s: wvgd report %s makes a page with plots, wvgd sample %s -n 4000 writes draws", dir, dir,
            dir);
    return 0;
}

static int run_fit(arguments *a, failure *f)
{
    const char *dir = given(a, "resume");
    wvgd_request *q = NULL;
    progress_display display = begin_progress(true, 0); /* until the run begins */
    int code = dir ? request_changes(a, &q, f) : request_fit(a, &q, f);
    wvgd_session *s = code ? NULL : begin(a, q, &display, f);
    if (s) {
        const char *limit = wvgd_session_option(s, "max-seconds");
        display = begin_progress(wvgd_request_get(q, "quiet") != NULL, limit ? strtod(limit, NULL) : 0);
        code = run_session(s, dir ? dir : wvgd_request_get(q, "out"), &display, f);
    } else
        code = f->code;
    wvgd_session_close(s);
    wvgd_request_free(q);
    return code;
}

const command fit_command = {
    "fit",
    "MODEL [--data FILE] --out DIR\n--resume DIR [MODEL.so]",
    "fit a model, print a summary, write the results to a directory",
    "Fits MODEL, a built-in model (see wvgd models) or a shared object. The fit stops when it has converged. It prints "
    "a summary to stdout and writes run.json, particles.csv, trace.csv, history.csv, draws.csv (Stan CSV) and a "
    "checkpoint to DIR. Ctrl-C stops early and writes the results so far; --resume DIR continues. If the model is a "
    "shared object, name it again or give --trust-model.",
    "# logistic regression; the target is the last column of the file\nwvgd fit logistic --data heart.csv "
    "--standardize --out heart\n# another target, ten cells\nwvgd fit logistic --data heart.csv --target chd "
    "--particles 10 --out heart10\n# options from a file\nwvgd fit --config heart.json --out heart11\n# your own "
    "model, compiled to a shared object\nwvgd fit ./model.so --data data.json --out mine\n# continue after Ctrl-C, or "
    "with a higher limit\nwvgd fit --resume heart --max-iter 10000\nwvgd fit --resume mine ./model.so\n",
    fit_option,
    "MODEL",
    run_fit,
    "data target ignore standardize out particles seed threads max-seconds evidence-se resume overwrite quiet",
};
