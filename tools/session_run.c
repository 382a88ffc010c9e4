/* session_run.c - runs the fit of a session with checkpoints, and writes the run directory.
 *
 * `checkpoint` is always a state to go on from. A run that a limit or the callback ends leaves there the state from
 * before it was told to, so that it can go on as if nothing had happened, and its closed state in `result`. */
#include "history.h"
#include "prior_conflict.h"
#include "prior_distance.h"
#include "run_directory.h"
#include "run_record.h"
#include "session.h"
#include "shown.h"
#include "status.h"
#include "stored_values.h"
#include "text.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */
/* The first message of a model that cannot be evaluated somewhere stays with the run, for a
 * process that goes on with it. */
static void note_message(wvgd_session *s)
{
    if (s->model.first_message && !record_reopen(s->asked, "message"))
        json_object_set_new(json_object_get(s->asked, "reopen"), "message", json_text(s->model.first_message));
}

void drop_kept(kept_state *k)
{
    free(k->state);
    json_decref(k->asked);
    *k = (kept_state){0};
}

static int keep_state(wvgd_session *s, kept_state *k, failure *f)
{
    size_t size = wvgd_save_size(s->fit);
    wvgd_error error;
    double begin = clock_seconds();
    note_message(s);
    void *state = realloc(k->state, size);
    if (!state)
        return fail(f, EX_SOFTWARE, "no memory for a checkpoint of %zu bytes", size);
    json_decref(k->asked);
    *k = (kept_state){state, size, json_deep_copy(s->asked), 0, 0};
    if (!k->asked)
        return fail(f, EX_SOFTWARE, "no memory for the record of the run");
    if (wvgd_save(s->fit, state, size, &error) != WVGD_OK)
        return fail(f, EX_SOFTWARE, "%s", error.text);
    k->at = clock_seconds();
    k->price = k->at - begin;
    return 0;
}

/* A checkpoint on the way. The first is `passing`: there is nothing to lose yet. */
static int write_kept(const wvgd_session *s, const kept_state *k, bool passing, failure *f)
{
    file_set set = set_of_run(s->dir);
    set.passing = passing;
    if (write_checkpoint(&set, s->checkpoint, k->asked, k->state, k->size, f))
        return f->code;
    return commit_files(&set, f);
}

static int save_state(wvgd_session *s, bool passing, failure *f)
{
    kept_state now = {0};
    int code = keep_state(s, &now, f);
    if (!code)
        code = write_kept(s, &now, passing, f);
    drop_kept(&now);
    s->saved_at = clock_seconds();
    return code;
}

static void warn_of(const wvgd_session *s, const failure *f)
{
    char text[sizeof f->text + 64];
    snprintf(text, sizeof text, "warning: cannot write a checkpoint: %s", f->text);
    if (s->note)
        s->note(s->note_self, text);
}

/* On the way a checkpoint that cannot be written is no reason to give up: the disk may have room again later. */
static void save_on_the_way(wvgd_session *s)
{
    failure f;
    if (save_state(s, false, &f))
        warn_of(s, &f);
    else
        s->saves++;
}

/* ---- iterations -------------------------------------------------------------------------------------------------- */
/* A limit may strike in any step, and a later run goes on from before that: the state is kept as often as takes a small
 * share of the time, a smaller one if there is no directory to write it to then. What it will cost goes by its size:
 * the first one is small. */
static bool wants_keeping(const wvgd_session *s)
{
    enum { SHARE = 50, SHARE_ASIDE = 400 };
    const kept_state *k = &s->before;
    double due = (s->dir ? SHARE : SHARE_ASIDE) * k->price, since = clock_seconds() - k->at;
    return !k->state || (since >= due && since >= due * (double)wvgd_save_size(s->fit) / (double)k->size);
}

/* A fit that has drawn as much as it may has ended, too, but cannot go on. */
static bool has_reached_limit(const wvgd_session *s, const wvgd_progress *p)
{
    return p->stop == WVGD_MAX_ITER ? p->iteration >= s->options.max_iter
                                    : p->stop != WVGD_RUNNING && p->stop != WVGD_CONVERGED && p->stop != WVGD_FINISHED;
}

/* A limit has struck: what was kept from before it becomes the checkpoint. */
static void end_early(wvgd_session *s)
{
    failure f;
    s->early = true;
    if (s->dir && s->before.state && write_kept(s, &s->before, false, &f))
        warn_of(s, &f);
}

/* The callback wants the run to stop: it can go on from here. */
static void interrupt(wvgd_session *s)
{
    failure f;
    s->early = true;
    if (s->dir)
        save_on_the_way(s);
    else if (keep_state(s, &s->before, &f))
        drop_kept(&s->before);
}

/* Before a batch. Not 0: s->failed says why there is to be none. */
static int before_batch(wvgd_session *s, const wvgd_progress *p)
{
    s->stage = p->stage;
    if (!s->early && wants_keeping(s) && keep_state(s, &s->before, &s->failed))
        return s->failed.code;
    note_points(s->asked, s->stage, s->fit);
    return 0;
}

/* After a batch, and before the next one: the callback of wvgd_run. */
static int after_batch(void *self, const wvgd_progress *p)
{
    wvgd_session *s = self;
    bool done = !strcmp(p->stage, "done");
    note_batch(s->asked, s->stage, s->fit);
    if (!s->early && has_reached_limit(s, p))
        end_early(s);
    bool stop = s->callback && s->callback(s->callback_self, p) && !s->early && !done;
    if (stop)
        interrupt(s);
    else if (s->dir && !s->early && !done && clock_seconds() - s->saved_at >= s->every)
        save_on_the_way(s);
    return !done && (before_batch(s, p) || stop);
}

/* The model's message, or the first point where it has no number. */
static int explain_failure(const wvgd_session *s, const wvgd_error *error, failure *f)
{
    const char *message = s->model.first_message,
               *name = json_string_value(json_object_get(json_object_get(s->asked, "model"), "name"));
    char where[320];
    if (message && s->model.lost)
        return fail(f, EX_SOFTWARE, "%s", message);
    if (message)
        return fail(f, EX_SOFTWARE, "%s: %s", error->text, message);
    if (s->model.first_bad && error->code == WVGD_E_NO_DRAWS) {
        show_point(&s->model.model, s->model.first_bad, where, sizeof where);
        return fail(f, EX_SOFTWARE, "%s; the first NaN or infinite value was at %s", error->text, where);
    }
    if (error->code == WVGD_E_NO_DRAWS && s->model.warnings) /* the first of them may be the cause */
        return fail(f, EX_SOFTWARE, "%.*s; %s", (int)strcspn(s->model.warnings, "\n"), s->model.warnings, error->text);
    if (error->code == WVGD_E_MODEL && name && names_object(name))
        return fail(f, EX_SOFTWARE, "%s: %s", name, error->text);
    return fail(f, EX_SOFTWARE, "%s", error->text);
}

static int iterate(wvgd_session *s, failure *f)
{
    wvgd_progress p;
    wvgd_error error;
    wvgd_get_progress(s->fit, &p);
    if (strcmp(p.stage, "done") && before_batch(s, &p))
        return fail(f, s->failed.code, "%s", s->failed.text);
    if (wvgd_run(s->fit, after_batch, s, &error) != WVGD_OK)
        return explain_failure(s, &error, f);
    return s->failed.code ? fail(f, s->failed.code, "%s", s->failed.text) : 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
static void add_warning(json_t *run, const char *text)
{
    json_array_append_new(json_object_get(json_object_get(run, "diagnostics"), "warnings"), json_text(text));
}

/* Text and, if there is one, the message of the model, as one line. */
static void add_message(json_t *run, const char *text, const char *message)
{
    char line[1000];
    int n = snprintf(line, sizeof line, "%s%s%s", text, message ? "; its first message: " : "", message ? message : "");
    for (char *c = line; n > 0 && *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    for (size_t end = strlen(line); end && line[end - 1] == ' ';)
        line[--end] = '\0';
    add_warning(run, line);
}

/* A quantity that is no parameter, but made of them, may have heavier tails: what the fit does not know. */
static void judge_tails(json_t *run)
{
    const json_t *p = json_object_get(run, "posterior"), *k = json_object_get(p, "tail_k");
    json_t *verdict = json_object_get(run, "verdict"), *reasons = json_object_get(verdict, "reasons");
    double limit = json_number_value(json_object_get(json_object_get(run, "diagnostics"), "tail_k_limit")),
           most = limit;
    size_t n = json_array_size(k), worst = n, heavy = 0;
    char line[400], others[48] = "";
    for (size_t i = 0; i < n; i++) {
        double here = json_is_number(json_array_get(k, i)) ? json_number_value(json_array_get(k, i)) : 0;
        heavy += here > limit;
        worst = here > most ? i : worst;
        most = fmax(most, here);
    }
    if (!heavy)
        return;
    if (heavy > 1)
        snprintf(others, sizeof others, " (and of %zu other%s)", heavy - 1, heavy > 2 ? "s" : "");
    snprintf(line, sizeof line,
             "%sthe tails of %.48s%s are so heavy (tail index %.2f, limit %g) that its sd, and perhaps its mean, is "
             "unreliable or does not exist: use its median and quantiles",
             json_is_true(json_object_get(verdict, "reliable")) ? "except for what is marked: " : "",
             json_string_value(json_array_get(json_object_get(p, "names"), worst)), others, most, limit);
    json_array_append_new(reasons, json_text(line));
}

void add_table_warnings(const wvgd_session *s, json_t *run)
{
    const opened_model *m = &s->model;
    char *copy = m->warnings ? strdup(m->warnings) : NULL, *rest = copy, *line;
    while ((line = next_line(&rest)))
        add_warning(run, line);
    free(copy);
}

/* Unless the prior has been found wrong before the fit. */
static void judge_priors(const wvgd_session *s, const wvgd_results *results, json_t *run)
{
    const opened_model *m = &s->model;
    if (!m->list || (m->warnings && strstr(m->warnings, PRIOR_CONFLICT)))
        return;
    bool raw = strcmp(m->kind, "glm") &&
               m->list->centred; /* coordinates of linear are weights of columns as they are */
    char *line = find_distant(m->list, raw, results->mean, results->var);
    if (line)
        add_warning(run, line);
    free(line);
}

static json_t *describe_run(wvgd_session *s, const wvgd_results *results, failure *f)
{
    size_t refused;
    note_message(s);
    const char *message = record_reopen(s->asked, "message");
    if (show_closing_draws(s->fit, &s->model, &s->shown, &refused, f))
        return NULL;
    json_t *run = run_json(s->asked, s->fit, results, &s->shown);
    if (run && s->model.show)
        judge_tails(run);
    if (run && record_count(s->asked, "repeat", 1) > 1)
        describe_repeated(&s->repeated, record_count(s->asked, "repeat", 1), s->fit, run);
    if (run) {
        add_table_warnings(s, run);
        judge_priors(s, results, run);
    }
    if (run && message && results->bad_points)
        add_message(run, "the model could not be evaluated at some points", message);
    if (run && results->bad_points && s->model.first_bad) {
        char where[320], text[400];
        show_point(&s->model.model, s->model.first_bad, where, sizeof where);
        snprintf(text, sizeof text, "the first NaN or infinite density or gradient was at %s", where);
        add_warning(run, text);
    }
    if (run && refused) {
        char text[200];
        snprintf(text, sizeof text,
                 "the model could not transform %zu of %zu draws, which are left out of the moments: check its "
                 "generated quantities",
                 refused, results->closing_draws);
        add_message(run, text, message ? NULL : s->model.first_message);
    }
    if (!run)
        fail(f, EX_SOFTWARE, "no memory for the results");
    return run;
}

/* The other fits of --repeat, of which one that is pooled is shown. One that was stopped early has the first only. */
static int repeat_fit(wvgd_session *s, failure *f)
{
    size_t fits = record_count(s->asked, "repeat", 1);
    if (fits < 2 || s->early)
        return 0;
    int code = run_repeated(&s->repeated, fits - 1, &s->model.model, &s->options, record_seed(s->asked), s->start,
                            s->callback, s->callback_self, f);
    if (code)
        return code;
    prefer_pooled(&s->repeated, &s->fit);
    s->options.seed = s->repeated.seed;
    record_shown_seed(s->asked, s->repeated.seed);
    return 0;
}

static int write_draws(const wvgd_session *s, file_set *set, failure *f)
{
    const char *name = json_string_value(json_object_get(json_object_get(s->asked, "model"), "name"));
    FILE *stream = add_file(set, DRAWS_FILE, f);
    return stream ? put_pooled_draws(stream, s->fit, &s->repeated, &s->model, name ? name : "model", s->options.seed,
                                     record_count(s->asked, "output-draws", 1000), f)
                  : f->code;
}

/* The closed state. A run that ended early keeps its checkpoint as well, from which it can go on. */
static int write_end(wvgd_session *s, file_set *set, failure *f)
{
    bool next = !strcmp(s->checkpoint, NEXT_FILE);
    kept_state end = {0};
    int code = keep_state(s, &end, f);
    if (!code && s->shown.n && s->model.show)
        code = store_values(end.asked, s->fit, &s->model, &s->shown, &end.state, &end.size, f);
    if (!code)
        code = write_checkpoint(set, s->early ? RESULT_FILE : CHECKPOINT_FILE, end.asked, end.state, end.size, f);
    drop_kept(&end);
    if (!code && s->early && next)
        code = add_move(set, NEXT_FILE, CHECKPOINT_FILE, f);
    if (!s->early)
        add_removal(set, RESULT_FILE);
    if (!s->early && next)
        add_removal(set, NEXT_FILE);
    return code;
}

/* All files of the run together, in the place of those that are there. */
static int write_files(wvgd_session *s, failure *f)
{
    if (s->svgd)
        return write_svgd_files(s, f);
    size_t rows;
    wvgd_results results;
    const wvgd_trace_row *trace = wvgd_trace(s->fit, &rows);
    file_set set = set_of_run(s->dir);
    wvgd_get_results(s->fit, &results);
    s->early = s->early && results.stop != WVGD_CONVERGED && results.stop != WVGD_FINISHED;
    note_end(s->asked, s->fit);
    int code = write_end(s, &set, f);
    if (!code)
        code = write_draws(s, &set, f);
    if (!code)
        code = write_particles(&set, &results, s->model.model.names, f);
    if (!code)
        code = write_trace(&set, rows, results.N, trace, wvgd_trace_beta(s->fit), f);
    if (!code)
        code = write_history(&set, s->asked, results.D, s->model.model.names, f);
    if (!code)
        code = write_run(&set, s->run, f);
    if (!code)
        return commit_files(&set, f);
    abandon_files(&set);
    return code;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */
/* Nothing is created before everything is known to be in order. */
static int begin_directory(wvgd_session *s, failure *f)
{
    if (!s->dir || s->resumed)
        return 0;
    int code = make_run_directory(s->dir, s->overwrite, &s->lock, &s->made, f);
    if (!code) {
        s->checkpoint = file_to_begin(s->dir);
        code = save_state(s, true, f);
        if (code)
            discard_run(s->dir, s->checkpoint, s->made);
    }
    return code;
}

/* The run failed: removes what it has begun, unless there is a checkpoint to go on from. A run that it was to replace
 * stays. */
static void give_up(wvgd_session *s, failure *f)
{
    char why[sizeof f->text];
    memcpy(why, f->text, sizeof why);
    if (!s->dir)
        return;
    if (!s->resumed && !s->saves)
        discard_run(s->dir, s->checkpoint, s->made);
    else if (!strcmp(s->checkpoint, NEXT_FILE))
        fail(f, f->code, "%.700s; the old run is still in %s", why, s->dir);
}

static bool is_done(const wvgd_fit *fit)
{
    wvgd_progress p;
    wvgd_get_progress(fit, &p);
    return !strcmp(p.stage, "done");
}

int describe_session(wvgd_session *s, failure *f)
{
    wvgd_results results;
    if (s->run || !s->ended)
        return 0;
    wvgd_get_results(s->fit, &results);
    s->run = describe_run(s, &results, f);
    return s->run ? list_warnings(s, f) : f->code;
}

static int run(wvgd_session *s, failure *f)
{
    if (s->begun)
        return fail(f, EX_USAGE, "wvgd_session_run: the run has failed before: expected a new session");
    s->begun = true;
    if (s->svgd)
        return run_svgd(s, f);
    int code = begin_directory(s, f);
    if (code)
        return code;
    s->every = record_number(s->asked, "checkpoint-every", 30);
    s->over = s->resumed && is_done(s->fit);
    if ((code = iterate(s, f))) {
        give_up(s, f);
        return code;
    }
    if ((code = repeat_fit(s, f)))
        return code;
    s->ended = true;
    if (!s->dir) /* nobody may want the record, which takes a while */
        return 0;
    code = describe_session(s, f);
    return code || s->over ? code : write_files(s, f);
}

/* Others may use the directory again, though the session stays open. */
static void unlock(wvgd_session *s)
{
    if (s->lock >= 0)
        unlock_run_directory(s->lock);
    s->lock = -1;
}

wvgd_status wvgd_session_run(wvgd_session *s, wvgd_progress_callback *callback, void *self, wvgd_error *error)
{
    failure f;
    if (lacks(error, "wvgd_session_run", "session", s))
        return WVGD_E_ARGUMENT;
    s->callback = callback;
    s->callback_self = self;
    locale_t before = use_plain_numbers();
    int code = s->run || s->ended ? 0 : run(s, &f);
    unlock(s);
    uselocale(before);
    return code ? pass_failure(error, &f) : WVGD_OK;
}

/* The state to go on from, if there is one, then all files. */
static int write_directory(wvgd_session *s, const char *dir, bool overwrite, failure *f)
{
    int lock = -1;
    bool made = false;
    char *other = s->dir;
    const char *checkpoint = s->checkpoint;
    if (!(s->dir = strdup(dir))) {
        s->dir = other;
        return fail(f, EX_SOFTWARE, "no memory for the name of a directory");
    }
    int code = check_run_directory(dir, overwrite, f);
    if (!code)
        code = make_run_directory(dir, overwrite, &lock, &made, f);
    if (!code) {
        s->checkpoint = file_to_begin(dir);
        if (s->early && s->before.state)
            code = write_kept(s, &s->before, true, f);
        if (!code)
            code = write_files(s, f);
        if (code)
            discard_run(dir, s->checkpoint, made);
    }
    if (lock >= 0)
        unlock_run_directory(lock);
    free(s->dir);
    s->dir = other;
    s->checkpoint = checkpoint;
    return code;
}

wvgd_status wvgd_session_write(wvgd_session *s, const char *dir, bool overwrite, wvgd_error *error)
{
    failure f = {0};
    if (lacks(error, "wvgd_session_write", "session", s) || lacks(error, "wvgd_session_write", "dir", dir))
        return WVGD_E_ARGUMENT;
    if (s->loaded)
        fail(&f, EX_USAGE, "wvgd_session_write: the session was loaded: expected one that has run");
    else if (!s->run && !s->ended)
        fail(&f, EX_USAGE, "wvgd_session_write: the session has not run: expected wvgd_session_run first");
    else {
        locale_t before = use_plain_numbers();
        if (describe_session(s, &f) || write_directory(s, dir, overwrite, &f))
            name_options(&f);
        uselocale(before);
    }
    return f.code ? pass_failure(error, &f) : WVGD_OK;
}
