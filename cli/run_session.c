/* run_session.c - runs a session with progress and signals, and prints what it has found. */
#include "run_session.h"
#include "other_ranks.h"
#include "progress.h"
#include "request.h"
#include "say.h"
#include "signals.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_ROWS = 30 }; /* parameters, and particles, in the summary after a run */

int fail_as(failure *f, const wvgd_error *error)
{
    failure line;
    f->code = 0;
    for (const char *at = error->text, *end = at; end; at = end + 1) {
        end = strchr(at, '\n');
        fail(&line, wvgd_exit_code(error->code), "%.*s", (int)(end ? end - at : (ptrdiff_t)strlen(at)), at);
        add_failure(f, &line);
    }
    return f->code;
}

/* ---- while it runs ----------------------------------------------------------------------------------------------- */
static int after_batch(void *self, const wvgd_progress *p)
{
    progress_display *display = self;
    show_progress(display, p);
    if (was_interrupted())
        hide_progress(display);
    return was_interrupted();
}

void print_note(void *self, const char *text)
{
    if (self)
        hide_progress(self);
    say("%s", text);
}

/* ---- what it has found ------------------------------------------------------------------------------------------- */
/* What speaks against the result, and all warnings, unless the summary says so in the same terminal; then the summary.
 */
static void print_results(wvgd_session *s)
{
    size_t n;
    const char *text, *const *line = wvgd_session_warnings(s, &n);
    if (wvgd_session_summary(s, WVGD_SUMMARY_TEXT, SHOWN_ROWS, &text, NULL) != WVGD_OK)
        return;
    for (size_t i = 0; i < n && (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)); i++)
        say("warning: %s", line[i]);
    fputs(text, stdout);
}

/* Has the run, which goes on, ended long ago? */
static bool was_done(const wvgd_session *s)
{
    wvgd_progress p;
    wvgd_get_progress(wvgd_session_fit(s), &p);
    return wvgd_session_fit(s) && !strcmp(p.stage, "done");
}

/* model: as the user named it, or NULL. */
static int explain_signal(const wvgd_session *s, const char *dir, const char *model, failure *f)
{
    wvgd_results r;
    if (!wvgd_session_fit(s))
        return fail(f, EXIT_INTERRUPTED, "interrupted; the results so far are in %s", dir);
    wvgd_get_results(wvgd_session_fit(s), &r);
    bool object = model && names_object(model); /* which has to be named again */
    if (r.stop == WVGD_CONVERGED || r.stop == WVGD_FINISHED)
        return fail(f, EXIT_INTERRUPTED, "interrupted, but the run in %s had already finished", dir);
    return fail(f, EXIT_INTERRUPTED, "interrupted; wvgd fit --resume %s%s%s continues", dir, object ? " " : "",
                object ? model : "");
}

/* The results are printed even if they cannot be written. */
static int run_to_end(wvgd_session *s, const char *dir, const char *model, progress_display *display, failure *f)
{
    wvgd_error error;
    if (!display->quiet && was_done(s))
        say("the run in %s had already finished: nothing to do", dir);
    catch_signals(other_ranks != NULL);
    stop_on_signal(wvgd_session_fit(s));
    wvgd_status status = wvgd_session_run(s, after_batch, display, &error);
    stop_on_signal(NULL);
    hide_progress(display);
    print_results(s);
    if (status != WVGD_OK)
        return fail_as(f, &error);
    if (was_interrupted())
        return explain_signal(s, dir, model, f);
    fflush(stdout); /* the summary comes first, even where both go to the same file */
    if (!display->quiet)
        say(!wvgd_session_fit(s) ? "results are in %s; next: wvgd report %s (a page with plots)"
            : wvgd_session_table(s)
                ? "results are in %s; next: wvgd report %s (a page with plots), wvgd predict %s "
                  "--data NEW.csv"
                : "results are in %s; next: wvgd report %s (a page with plots), wvgd sample %s (draws)",
            dir, dir, dir);
    return 0;
}

/* Lets other processes take part. */
static void share_run(wvgd_request *q, progress_display *display)
{
    char threads[24];
    const char *timeout = wvgd_request_get(q, "rank-timeout");
    if (!other_ranks)
        return;
    q->wrapper = &other_ranks->wrapper;
    other_ranks->display = display;
    other_ranks->timeout = timeout ? strtod(timeout, NULL) : 0;
    snprintf(threads, sizeof threads, "%u", other_ranks->threads);
    if (!is_requested(q, "threads")) /* which requests for cells do not have */
        wvgd_request_set(q, "threads", threads, NULL);
}

static void end_sharing(void)
{
    if (other_ranks)
        other_ranks->display = NULL;
}

int run_session(session_opener *open, const char *from, wvgd_request *q, failure *f)
{
    wvgd_error error;
    progress_display display = begin_progress(true, 0); /* until the run begins */
    wvgd_request_notes(q, print_note, &display);
    share_run(q, &display);
    wvgd_session *s = open(from, q, &error);
    if (!s) {
        end_sharing();
        return fail_as(f, &error);
    }
    const char *limit = wvgd_session_option(s, "max-seconds"), *out = wvgd_request_get(q, "out");
    display = begin_progress(wvgd_request_get(q, "quiet") != NULL, limit ? strtod(limit, NULL) : 0);
    int code = run_to_end(s, out ? out : from, wvgd_request_get(q, "model"), &display, f);
    wvgd_session_close(s);
    end_sharing();
    return code;
}
