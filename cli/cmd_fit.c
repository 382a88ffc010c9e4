/* cmd_fit.c - wvgd fit: opens the model, runs the fit with progress, checkpoints and signals, writes
 * the run directory, prints the summary.
 *
 * `checkpoint` is always a state to go on from. A run that a limit or a signal ends leaves there the state from
 * before it was told to, so that --resume goes on as if nothing had happened, and its closed state in `result`. */
#include "check_gradient.h"
#include "commands.h"
#include "history.h"
#include "progress.h"
#include "run_directory.h"
#include "run_record.h"
#include "say.h"
#include "shown.h"
#include "signals.h"
#include "start_file.h"
#include "stored_values.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { SHOWN_ROWS = 30 }; /* parameters, and particles, in the summary after a fit */

typedef struct {
    json_t *asked;
    opened_model model;
    wvgd_options options;
    double *start; /* [N][D] particles of --init FILE.csv, or NULL */
    wvgd_fit *fit;
    const char *dir;
    const char *checkpoint; /* its file in dir */
    int lock;               /* descriptor of the locked directory, or -1 */
    bool made, resumed;     /* the directory is new; its run goes on */
    double every;           /* seconds between checkpoints */
    double saved_at;        /* when the last one was written */
    size_t saves;           /* checkpoints written on the way */
    void *kept;             /* state before the last step that may end the iterations, or NULL */
    size_t kept_size;
    json_t *kept_asked; /* the record then */
    shown_draws shown;  /* closing draws of a fit that has ended */
    bool early;         /* a limit or a signal has told the fit to end */
    progress_display display;
} fit_run;

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */
/* The first message of a model that cannot be evaluated somewhere stays with the run, for a
 * process that goes on with it. */
static void note_message(fit_run *r)
{
    if (r->model.first_message && !record_reopen(r->asked, "message"))
        json_object_set_new(json_object_get(r->asked, "reopen"), "message", json_text(r->model.first_message));
}

static int keep_state(fit_run *r, failure *f)
{
    note_message(r);
    size_t size = wvgd_save_size(r->fit);
    void *state = realloc(r->kept, size);
    wvgd_error error;
    if (!state)
        return fail(f, EX_SOFTWARE, "no memory for a checkpoint of %zu bytes", size);
    r->kept = state;
    r->kept_size = size;
    json_decref(r->kept_asked);
    r->kept_asked = json_deep_copy(r->asked);
    if (!r->kept_asked)
        return fail(f, EX_SOFTWARE, "no memory for the record of the run");
    return wvgd_save(r->fit, state, size, &error) == WVGD_OK ? 0 : fail(f, EX_SOFTWARE, "%s", error.text);
}

static void drop_kept(fit_run *r)
{
    free(r->kept);
    json_decref(r->kept_asked);
    r->kept = NULL;
    r->kept_asked = NULL;
}

/* A checkpoint on the way. The first is `passing`: there is nothing to lose yet. */
static int write_kept(fit_run *r, bool passing, failure *f)
{
    file_set set = set_of_run(r->dir);
    set.passing = passing;
    if (write_checkpoint(&set, r->checkpoint, r->kept_asked, r->kept, r->kept_size, f))
        return f->code;
    return commit_files(&set, f);
}

static int save_state(fit_run *r, bool passing, failure *f)
{
    int code = keep_state(r, f);
    if (!code)
        code = write_kept(r, passing, f);
    drop_kept(r);
    r->saved_at = clock_now();
    return code;
}

/* On the way a checkpoint that cannot be written is no reason to give up: the disk may have room again later. */
static void save_on_the_way(fit_run *r)
{
    failure f;
    if (!save_state(r, false, &f)) {
        r->saves++;
        return;
    }
    hide_progress(&r->display);
    say("warning: no checkpoint: %s", f.text);
}

/* ---- iterations -------------------------------------------------------------------------------------------------- */
/* The next step may reach a limit: its state is what a later --resume goes on from. */
static bool may_end(const fit_run *r, const wvgd_progress *p, double last_step)
{
    return p->iteration + 1 >= r->options.max_iter ||
           (r->options.max_seconds > 0 && p->seconds + 2 * last_step >= r->options.max_seconds);
}

static bool has_reached_limit(const fit_run *r, const wvgd_progress *p)
{
    return p->iteration >= r->options.max_iter || (r->options.max_seconds > 0 && p->seconds >= r->options.max_seconds);
}

/* The last step has reached a limit: what was kept from before it becomes the checkpoint. */
static void end_early(fit_run *r)
{
    failure f;
    r->early = true;
    if (r->kept && write_kept(r, false, &f)) {
        hide_progress(&r->display);
        say("warning: no checkpoint: %s", f.text);
    }
    drop_kept(r);
}

static void interrupt(fit_run *r)
{
    save_on_the_way(r);
    hide_progress(&r->display);
    wvgd_stop_now(r->fit);
    r->early = true;
}

static int explain_failure(const fit_run *r, const wvgd_error *error, failure *f)
{
    const char *message = r->model.first_message;
    return fail(f, EX_SOFTWARE, message ? "%s: %s" : "%s", error->text, message);
}

/* Steps until the fit has ended. */
static int iterate(fit_run *r, failure *f)
{
    wvgd_progress p;
    wvgd_error error;
    double last_step = 0;
    for (wvgd_get_progress(r->fit, &p); strcmp(p.stage, "done");) {
        if (was_interrupted() && !r->early)
            interrupt(r);
        if (!r->early && may_end(r, &p, last_step) && keep_state(r, f))
            return f->code;
        const char *stage = p.stage;
        note_points(r->asked, stage, r->fit);
        if (wvgd_step(r->fit, &error) != WVGD_OK)
            return explain_failure(r, &error, f);
        note_batch(r->asked, stage, r->fit);
        double before = p.seconds;
        wvgd_get_progress(r->fit, &p);
        last_step = p.seconds - before;
        if (!r->early && has_reached_limit(r, &p))
            end_early(r);
        show_progress(&r->display, &p);
        if (!r->early && strcmp(p.stage, "done") && clock_now() - r->saved_at >= r->every)
            save_on_the_way(r);
    }
    hide_progress(&r->display);
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
static int write_draws(const fit_run *r, file_set *set, failure *f)
{
    const char *name = json_string_value(json_object_get(json_object_get(r->asked, "model"), "name"));
    FILE *stream = add_file(set, DRAWS_FILE, f);
    return stream ? put_draws(stream, r->fit, &r->model, name ? name : "model", RESAMPLED_DRAWS, r->options.seed,
                              record_count(r->asked, "output-draws", 1000), f)
                  : f->code;
}

/* The closed state. A run that ended early keeps its checkpoint as well, from which it can go on. */
static int write_end(fit_run *r, file_set *set, failure *f)
{
    bool next = !strcmp(r->checkpoint, NEXT_FILE);
    int code = keep_state(r, f);
    if (!code && r->shown.n && r->model.show)
        code = store_values(r->kept_asked, r->fit, &r->model, &r->shown, &r->kept, &r->kept_size, f);
    if (!code)
        code = write_checkpoint(set, r->early ? RESULT_FILE : CHECKPOINT_FILE, r->kept_asked, r->kept, r->kept_size, f);
    drop_kept(r);
    if (!code && r->early && next)
        code = add_move(set, NEXT_FILE, CHECKPOINT_FILE, f);
    if (!r->early)
        add_removal(set, RESULT_FILE);
    if (!r->early && next)
        add_removal(set, NEXT_FILE);
    return code;
}

/* All files of the run together, in the place of those that are there. */
static int write_files(fit_run *r, const wvgd_results *results, const json_t *run, failure *f)
{
    size_t rows;
    const wvgd_trace_row *trace = wvgd_trace(r->fit, &rows);
    file_set set = set_of_run(r->dir);
    r->early = r->early && results->stop != WVGD_CONVERGED;
    note_end(r->asked, r->fit);
    int code = write_end(r, &set, f);
    if (!code)
        code = write_draws(r, &set, f);
    if (!code)
        code = write_particles(&set, results, r->model.model.names, f);
    if (!code)
        code = write_trace(&set, rows, results->N, trace, wvgd_trace_beta(r->fit), f);
    if (!code)
        code = write_history(&set, r->asked, results->D, r->model.model.names, f);
    if (!code)
        code = write_run(&set, run, f);
    if (!code)
        return commit_files(&set, f);
    abandon_files(&set);
    return code;
}

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

static json_t *describe_run(fit_run *r, const wvgd_results *results, failure *f)
{
    size_t refused;
    note_message(r);
    const char *message = record_reopen(r->asked, "message");
    if (show_closing_draws(r->fit, &r->model, &r->shown, &refused, f))
        return NULL;
    json_t *run = run_json(r->asked, results, &r->shown);
    if (run && message && results->bad_points)
        add_message(run, "the model could not be evaluated at some points", message);
    if (run && refused) {
        char text[200];
        snprintf(text, sizeof text,
                 "%zu of %zu draws could not be transformed by the model and are left out of the moments: check its "
                 "generated quantities",
                 refused, results->closing_draws);
        add_message(run, text, message ? NULL : r->model.first_message);
    }
    if (!run)
        fail(f, EX_SOFTWARE, "no memory for the results");
    return run;
}

/* What speaks against the result, and all warnings; unless the summary says so in the same terminal. */
static void print_warnings(const json_t *run)
{
    const json_t *verdict = json_object_get(run, "verdict");
    if (isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))
        return;
    if (!json_is_true(json_object_get(verdict, "reliable")))
        say_warnings(json_object_get(verdict, "reasons"));
    say_warnings(json_object_get(json_object_get(run, "diagnostics"), "warnings"));
}

/* The results are printed even if they cannot be written. */
static int finish(fit_run *r, failure *f)
{
    wvgd_results results;
    wvgd_get_results(r->fit, &results);
    json_t *run = describe_run(r, &results, f);
    if (!run)
        return f->code;
    int code = write_files(r, &results, run, f);
    print_warnings(run);
    print_summary(stdout, run, SHOWN_ROWS, r->dir);
    json_decref(run);
    return code;
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */
/* Particles of --init FILE.csv: as many as it has rows, unless --particles says otherwise. */
static int place_particles(fit_run *r, failure *f)
{
    const char *path = json_string_value(json_object_get(json_object_get(r->asked, "options"), "init"));
    char text[32];
    int code = record_options(r->asked, &r->options, f);
    if (!code)
        code = read_start(path, r->model.model.dim, record_given(r->asked, "particles"),
                          record_given(r->asked, "quiet"), &r->options.particles, &r->start, f);
    if (!code) {
        snprintf(text, sizeof text, "%zu", r->options.particles);
        record_set(r->asked, "particles", text);
    }
    return code;
}

/* Not every fit can be had from the staged solver. */
static void say_solver(const fit_run *r)
{
    wvgd_results found;
    wvgd_get_results(r->fit, &found);
    if (found.solver == r->options.solver)
        return;
    const char *why = !r->model.model.has_gradient           ? "without gradients"
                      : r->options.estimator != WVGD_NATURAL ? "with another estimator than natural"
                      : r->options.sampler != WVGD_MIXTURE
                          ? "with another sampler than mixture"
                          : "with components that are not full in more than 128 dimensions";
    say("the staged solver does not work %s: this is the joint solver", why);
}

static int make_fit(fit_run *r, failure *f)
{
    wvgd_error error;
    if (take_cost(&r->options, &r->model, f))
        return f->code;
    r->fit = wvgd_new(&r->model.model, &r->options, r->start, &error);
    if (r->fit) {
        say_solver(r);
        return 0;
    }
    return fail(f, error.code == WVGD_E_ARGUMENT ? EX_USAGE : EX_SOFTWARE, "%s", error.text);
}

/* --check-gradient */
static int check_start(const fit_run *r, failure *f)
{
    const wvgd_model *m = &r->model.model;
    const wvgd_options *o = &r->options;
    if (!m->has_gradient)
        return fail(f, EX_USAGE, "--check-gradient: the model has no gradient to check");
    return check_gradient(m,
                          &(gradient_points){o->particles, r->start, m->start && o->init != WVGD_INIT_NORMAL,
                                             o->init_scale, o->seed},
                          f);
}

/* A run that is new. Nothing is created before everything is known to be in order. */
static int begin_new(fit_run *r, const arguments *a, failure *f)
{
    int code = new_record(a, &r->asked, f);
    bool overwrite = record_given(r->asked, "overwrite");
    if (!code) {
        r->dir = record_reopen(r->asked, "out");
        code = check_run_directory(r->dir, overwrite, f);
    }
    if (!code)
        code = open_new(r->asked, &r->model, f);
    if (!code && !r->model.model.has_gradient && !record_given(r->asked, "estimator"))
        record_set(r->asked, "estimator", "score");
    if (!code && record_reopen_flag(r->asked, "start"))
        code = place_particles(r, f);
    if (!code)
        code = record_options(r->asked, &r->options, f);
    if (!code)
        code = complete_record(r->asked, &r->model, f);
    if (!code)
        code = make_fit(r, f);
    if (!code && record_given(r->asked, "check-gradient"))
        code = check_start(r, f);
    if (!code)
        code = make_run_directory(r->dir, overwrite, &r->lock, &r->made, f);
    if (!code) {
        r->checkpoint = file_to_begin(r->dir);
        code = save_state(r, true, f);
        if (code)
            discard_run(r->dir, r->checkpoint, r->made);
    }
    return code;
}

static int begin_again(fit_run *r, const arguments *a, failure *f)
{
    void *state = NULL;
    size_t size = 0;
    wvgd_error error;
    model_trust trust;
    r->dir = given(a, "resume");
    r->resumed = true;
    int code = given_trust(a, &trust, f);
    if (!code)
        code = lock_run_directory(r->dir, &r->lock, f);
    r->checkpoint = code ? CHECKPOINT_FILE : file_to_resume(r->dir);
    if (!code && !has_run_file(r->dir, r->checkpoint))
        code = fail(f, EX_TEMPFAIL, "cannot resume: %s has no checkpoint", r->dir);
    if (!code)
        code = read_checkpoint(r->dir, r->checkpoint, &r->asked, &state, &size, f);
    if (!code && strcmp(r->checkpoint, NEXT_FILE) && !same_run(r->asked, r->dir))
        code = fail(f, EX_TEMPFAIL, "cannot resume: %s/" CHECKPOINT_FILE " belongs to another run than %s/" RUN_FILE,
                    r->dir, r->dir);
    if (!code)
        code = change_record(r->asked, a, f);
    if (!code)
        code = record_options(r->asked, &r->options, f);
    if (!code)
        code = open_again(r->asked, r->dir, &trust, &r->model, f);
    if (!code && record_reopen_flag(r->asked, "start")) {
        /* where it started does not matter any more, only that it was given */
        r->start = calloc(r->options.particles, r->model.model.dim * sizeof *r->start);
        code = r->start ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu particles", r->options.particles);
    }
    if (!code)
        code = make_fit(r, f);
    if (!code && wvgd_restore(r->fit, state, stored_state_size(r->asked, size), &error) != WVGD_OK)
        code = fail(f, EX_TEMPFAIL, "cannot resume %s: %s", r->dir, error.text);
    forget_stored_values(r->asked);
    r->saved_at = clock_now();
    free(state);
    return code;
}

static void end_run(fit_run *r)
{
    free_shown(&r->shown, r->fit);
    wvgd_free(r->fit);
    close_model(&r->model);
    free(r->start);
    drop_kept(r);
    json_decref(r->asked);
    if (r->lock >= 0)
        close(r->lock);
}

/* Nothing was reached that anybody could go on from, or a checkpoint was: then the run that it was
 * to replace is not lost either. */
static void give_up(fit_run *r, failure *f)
{
    char why[sizeof f->text];
    memcpy(why, f->text, sizeof why);
    if (!r->resumed && !r->saves)
        discard_run(r->dir, r->checkpoint, r->made);
    else if (!strcmp(r->checkpoint, NEXT_FILE))
        fail(f, f->code, "%.700s; the run that was to be replaced is still in %s", why, r->dir);
}

static int run_fit(arguments *a, failure *f)
{
    fit_run r = {.lock = -1};
    int code = given(a, "resume") ? begin_again(&r, a, f) : begin_new(&r, a, f);
    if (!code) {
        wvgd_progress p;
        bool quiet = given(a, "quiet") || (!r.resumed && record_given(r.asked, "quiet"));
        wvgd_get_progress(r.fit, &p);
        if (!quiet && !strcmp(p.stage, "done"))
            say("the run in %s had ended already: nothing was left to do", r.dir);
        r.every = record_number(r.asked, "checkpoint-every", 30);
        r.display = begin_progress(quiet, r.options.max_seconds);
        catch_signals();
        code = iterate(&r, f);
        if (code)
            give_up(&r, f);
        else
            code = finish(&r, f);
        if (!code && was_interrupted())
            code = fail(f, EXIT_INTERRUPTED,
                        r.early ? "interrupted; wvgd fit --resume %s goes on"
                                : "interrupted, but the run in %s had ended already",
                        r.dir);
    }
    end_run(&r);
    return code;
}

const command fit_command = {
    "fit",
    "MODEL [--data FILE] --out DIR\n--resume DIR [MODEL.so]",
    "fit a model, print a summary, leave the results in a directory",
    "Fits MODEL: a built-in one (wvgd models lists them) or a shared object. It stops by itself, prints a summary on "
    "stdout and leaves run.json, particles.csv, trace.csv, history.csv, draws.csv (Stan CSV) and a checkpoint in DIR. "
    "Ctrl-C stops early with the results so far; --resume DIR goes on, and wants a model that is a shared object to be "
    "named again, or --trust-model.",
    "# logistic regression; the last column of the file is the target\n"
    "wvgd fit logistic --data heart.csv --standardize --out heart\n"
    "# another target, ten cells, options kept in a file\n"
    "wvgd fit logistic --data heart.csv --target chd --particles 10 --out heart10\n"
    "wvgd fit --config heart.json --out heart11\n"
    "# a model of your own, compiled to a shared object\n"
    "wvgd fit ./model.so --data data.json --out mine\n"
    "# stopped by Ctrl-C, or by a limit that is raised now\n"
    "wvgd fit --resume heart --max-iter 10000\n"
    "wvgd fit --resume mine ./model.so\n",
    fit_option,
    "MODEL",
    run_fit,
};
