/* session.c - opens a session: from a request, from the checkpoint of a run, or from a run that has ended; and shows
 * what it has found. */
#include "session.h"
#include "check_gradient.h"
#include "fit_options.h"
#include "json_bytes.h"
#include "request.h"
#include "run_directory.h"
#include "run_record.h"
#include "shown.h"
#include "start_file.h"
#include "status.h"
#include "stored_values.h"
#include "summary.h"
#include "text.h"
#include "write.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static wvgd_session *new_session(const wvgd_request *request, wvgd_error *error)
{
    wvgd_session *s = calloc(1, sizeof *s);
    failure f;
    if (!s) {
        fail(&f, EX_SOFTWARE, "no memory for a session");
        pass_failure(error, &f);
        return NULL;
    }
    s->lock = -1;
    s->shows = &s->model;
    s->note = request ? request->note : NULL;
    s->note_self = request ? request->note_self : NULL;
    s->model.wrapper = request ? request->wrapper : NULL;
    s->model.own = request ? request->own : NULL;
    return s;
}

void wvgd_session_close(wvgd_session *s)
{
    if (!s)
        return;
    free_shown(&s->shown, s->fit);
    if (!s->loaded)
        wvgd_free(s->fit);
    free_svgd(s->svgd);
    close_model(&s->model);
    free_saved(&s->saved);
    free(s->start);
    drop_kept(&s->before);
    free_repeated(&s->repeated);
    json_decref(s->asked);
    json_decref(s->run);
    free(s->warning);
    free(s->text);
    free(s->row);
    free(s->dir);
    if (s->lock >= 0)
        close(s->lock);
    free(s);
}

/* One way to begin a session: from a run directory, from a request, or from both. */
typedef int beginning(wvgd_session *s, const char *dir, const wvgd_request *request, failure *f);

/* The session, or NULL and what made it fail. */
static wvgd_session *open_by(beginning *begin, const char *dir, const wvgd_request *request, wvgd_error *error)
{
    failure f;
    wvgd_session *s = new_session(request, error);
    if (!s)
        return NULL;
    locale_t before = use_plain_numbers();
    int code = begin(s, dir, request, &f);
    uselocale(before);
    if (!code)
        return s;
    if (!request || !request->who)
        name_options(&f);
    pass_failure(error, &f);
    wvgd_session_close(s);
    return NULL;
}

static int set_directory(wvgd_session *s, const char *dir, failure *f)
{
    s->dir = strdup(dir);
    return s->dir ? 0 : fail(f, EX_SOFTWARE, "no memory for the name of a directory");
}

/* ---- a new one --------------------------------------------------------------------------------------------------- */
/* Particles of --init FILE.csv: as many as it has rows, unless --particles says otherwise. */
int place_particles(wvgd_session *s, const wvgd_request *request, size_t *particles, failure *f)
{
    const char *path = requested(request, "init");
    size_t before = *particles;
    const wvgd_model *m = &s->model.model;
    int code = read_start(path, m->dim, m->names, is_requested(request, "particles"), particles, &s->start, f);
    if (code)
        return code;
    json_object_set_new(json_object_get(s->asked, "options"), "particles", json_integer((json_int_t)*particles));
    char *note = is_requested(request, "quiet") ? NULL : start_note(path, before, *particles);
    if (note)
        tell(request, note);
    free(note);
    return 0;
}

/* The staged solver does not support all options; says why the joint one is used. */
static void explain_solver(wvgd_session *s)
{
    wvgd_results found;
    wvgd_get_results(s->fit, &found);
    if (found.solver == s->options.solver)
        return;
    bool many = !s->model.model.has_gradient && s->model.model.dim > WVGD_DIFFERENCES;
    s->solver = many ? "using the joint solver: without gradients the staged solver works in up to 64 dimensions"
                : s->options.estimator != WVGD_NATURAL
                    ? "using the joint solver: the staged solver works only with --estimator natural"
                : s->options.sampler != WVGD_MIXTURE
                    ? "using the joint solver: the staged solver works only with --sampler mixture"
                    : "using the joint solver: the staged solver needs --family full in more than 128 dimensions";
    if (s->note)
        s->note(s->note_self, s->solver);
}

static int make_fit(wvgd_session *s, failure *f)
{
    wvgd_error error;
    if (take_cost(&s->options, &s->model, f))
        return f->code;
    s->fit = wvgd_new(&s->model.model, &s->options, s->start, &error);
    if (s->fit) {
        explain_solver(s);
        return 0;
    }
    return fail(f, error.code == WVGD_E_ARGUMENT ? EX_USAGE : EX_SOFTWARE, "%s", error.text);
}

/* --check-gradient */
static int check_start(const wvgd_session *s, failure *f)
{
    const wvgd_model *m = &s->model.model;
    const wvgd_options *o = &s->options;
    if (!m->has_gradient)
        return fail(f, EX_USAGE, "--check-gradient: the model has no gradient to check: leave out the option");
    return check_gradient(m,
                          &(gradient_points){o->particles, s->start, m->start && o->init != WVGD_INIT_NORMAL,
                                             o->init_scale, o->seed},
                          s->note, s->note_self, f);
}

/* Says which options that the user has set have no effect, because of the value of another one. */
static void note_unused(const wvgd_session *s, const wvgd_request *request)
{
    wvgd_results found;
    wvgd_options used = s->options, defaults;
    const wvgd_option_info *info;
    wvgd_get_results(s->fit, &found);
    wvgd_options_init(&defaults);
    used.solver = found.solver;
    if (is_requested(request, "shard") && !request->wrapper)
        tell(request, "warning: --shard has no effect without wvgd-mpi");
    for (size_t i = 0; (info = wvgd_options_describe(i)); i++) {
        char other[40] = "", have[40] = "", mine[40] = "", initial[40] = "", text[200];
        if (!info->needs || sscanf(info->needs, "%39s", other) != 1)
            continue;
        wvgd_options_get(&used, other, have, sizeof have, NULL);
        wvgd_options_get(&used, info->name, mine, sizeof mine, NULL);
        wvgd_options_get(&defaults, info->name, initial, sizeof initial, NULL);
        bool set = (is_requested(request, info->name) && !is_from_file(request, info->name)) ||
                   (!is_most_particles(info) && strcmp(mine, initial));
        if (!set || !strcmp(have, info->needs + strlen(other) + 1))
            continue;
        snprintf(text, sizeof text, "warning: --%s has no effect with --%s %s: it needs --%s", info->name, other,
                 translate_cost(other, have, "callback", "functional"), info->needs);
        tell(request, text);
    }
}

int open_requested(wvgd_session *s, const wvgd_request *request, failure *f)
{
    int code = new_record(request, &s->asked, f);
    if (!code)
        code = open_new(s->asked, request->object ? request->object : requested(request, "model"),
                        requested(request, "data"), &s->model, f);
    char *rest = s->model.hints, *line;
    while (!code && !is_requested(request, "quiet") && (line = next_line(&rest)))
        tell(request, line);
    return code;
}

int take_directory(wvgd_session *s, const wvgd_request *request, failure *f)
{
    const char *out = requested(request, "out");
    int code = check_out(request, f);
    s->overwrite = is_requested(request, "overwrite");
    return !code && out ? set_directory(s, out, f) : code;
}

static bool has_asked_for(const wvgd_session *s, const char *option, const char *value)
{
    const char *asked = json_string_value(json_object_get(json_object_get(s->asked, "options"), option));
    return asked && !strcmp(asked, value);
}

/* Whether the staged solver can fit a model without gradients. */
static bool may_be_staged(const wvgd_session *s)
{
    return s->model.model.dim <= WVGD_DIFFERENCES && !has_asked_for(s, "solver", "joint") &&
           !has_asked_for(s, "sampler", "reject");
}

static int begin_new(wvgd_session *s, const char *dir, const wvgd_request *request, failure *f)
{
    (void)dir;
    if (request->option != fit_option)
        return begin_svgd(s, request, f);
    int code = open_requested(s, request, f);
    if (!code && !s->model.model.has_gradient && !is_requested(request, "estimator") && !may_be_staged(s))
        json_object_set_new(json_object_get(s->asked, "options"), "estimator", json_string("score"));
    if (!code)
        code = record_options(s->asked, &s->options, f);
    if (!code && record_reopen_flag(s->asked, "start"))
        code = place_particles(s, request, &s->options.particles, f);
    if (!code)
        code = complete_record(s->asked, &s->model, f);
    if (!code)
        code = make_fit(s, f);
    if (!code)
        code = take_directory(s, request, f);
    if (code)
        return code;
    note_unused(s, request);
    return is_requested(request, "check-gradient") ? check_start(s, f) : 0;
}

wvgd_session *wvgd_open(const wvgd_request *request, wvgd_error *error)
{
    return lacks(error, "wvgd_open", "request", request) ? NULL : open_by(begin_new, NULL, request, error);
}

/* ---- one that goes on -------------------------------------------------------------------------------------------- */
static int read_begun(wvgd_session *s, void **state, size_t *size, failure *f)
{
    int code = find_run(s->dir, f);
    if (!code)
        code = lock_run_directory(s->dir, &s->lock, f);
    s->checkpoint = code ? CHECKPOINT_FILE : file_to_resume(s->dir);
    if (!code && !has_run_file(s->dir, s->checkpoint))
        code = fail(f, EX_TEMPFAIL, "cannot resume: %s has no checkpoint", s->dir);
    if (!code)
        code = read_checkpoint(s->dir, s->checkpoint, &s->asked, state, size, f);
    if (!code && strcmp(s->checkpoint, NEXT_FILE) && !same_run(s->asked, s->dir))
        code = fail(f, EX_TEMPFAIL, "cannot resume: %s/" CHECKPOINT_FILE " belongs to another run than %s/" RUN_FILE,
                    s->dir, s->dir);
    return code;
}

/* Where it started does not matter any more, only that it was given. */
static int forget_start(wvgd_session *s, failure *f)
{
    if (!record_reopen_flag(s->asked, "start"))
        return 0;
    s->start = calloc(s->options.particles, s->model.model.dim * sizeof *s->start);
    return s->start ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu particles", s->options.particles);
}

/* The fit of s->asked again, in this state. */
static int restore(wvgd_session *s, const char *dir, const model_trust *trust, const void *state, size_t size,
                   failure *f)
{
    wvgd_error error;
    int code = record_options(s->asked, &s->options, f);
    if (!code)
        code = open_again(s->asked, dir, trust, &s->model, f);
    if (!code)
        code = forget_start(s, f);
    if (!code)
        code = make_fit(s, f);
    if (!code && wvgd_restore(s->fit, state, size, &error) != WVGD_OK)
        code = fail(f, EX_TEMPFAIL, "cannot restore the fit in %s: %s", dir, error.text);
    return code;
}

/* What may end a run, and what run.json then says. */
static const struct {
    const char *option, *stop;
} limits[] = {{"max-iter", "max_iter"}, {"max-evaluations", "max_evaluations"}, {"max-seconds", "time_up"}};

/* A run that goes on needs a limit above what it has done. `before`: its run.json, or NULL. */
static int check_limit(const wvgd_session *s, const json_t *before, size_t k, const wvgd_request *request, failure *f)
{
    wvgd_progress p;
    wvgd_get_progress(s->fit, &p);
    const char *name = limits[k].option, *stop = json_string_value(json_object_get(before, "stop"));
    bool reached = stop && !strcmp(stop, limits[k].stop);
    double limit = record_number(s->asked, name, 0), was = reached ? record_number(before, name, 0) : 0,
           has[] = {0 /* p.iteration counts the search, too */, (double)p.evaluations, p.seconds};
    if (limit == 0 || !strcmp(p.stage, "done"))
        return 0;
    if (is_requested(request, name) && limit < fmax(has[k], was))
        return fail(f, EX_USAGE,
                    limit < has[k]
                        ? "--%s is '%g', but the run in %s has already done %g: expected more"
                        : "--%s is '%g', but the run in %s has ended because of its limit of %g: expected more",
                    name, limit, s->dir, limit < has[k] ? has[k] : was);
    if (reached && limit <= was && !is_requested(request, "quiet")) {
        char text[160];
        snprintf(text, sizeof text, "the limit --%s %g is already reached: a higher one continues the run", name,
                 limit);
        tell(request, text);
    }
    return 0;
}

static int check_limits(const wvgd_session *s, const wvgd_request *request, failure *f)
{
    failure none;
    json_t *before = NULL;
    int code = 0;
    if (read_run(s->dir, &before, &none))
        before = NULL;
    for (size_t k = 0; k < sizeof limits / sizeof *limits && !code; k++)
        code = check_limit(s, before, k, request, f);
    json_decref(before);
    return code;
}

/* Takes what the user has changed. A run that has converged keeps its limits. */
static int take_changes(wvgd_session *s, const wvgd_request *request, failure *f)
{
    failure none;
    json_t *before = NULL, *options = json_object_get(s->asked, "options"), *old = json_copy(options);
    int code = old ? change_record(s->asked, request, f) : fail(f, EX_SOFTWARE, "no memory for the record of the run");
    if (!strcmp(s->checkpoint, NEXT_FILE) || read_run(s->dir, &before, &none))
        before = NULL;
    const char *stop = json_string_value(json_object_get(before, "stop"));
    bool ended = stop &&
                 (!strcmp(stop, wvgd_stop_name(WVGD_CONVERGED)) || !strcmp(stop, wvgd_stop_name(WVGD_FINISHED)));
    for (size_t k = 0; k < sizeof limits / sizeof *limits && !code && ended; k++) {
        char text[160];
        if (!is_requested(request, limits[k].option))
            continue;
        json_object_set(options, limits[k].option, json_object_get(old, limits[k].option));
        snprintf(text, sizeof text, "warning: --%s has no effect: the run has converged", limits[k].option);
        tell(request, text);
    }
    json_decref(before);
    json_decref(old);
    return code;
}

static int begin_again(wvgd_session *s, const char *dir, const wvgd_request *request, failure *f)
{
    void *state = NULL;
    size_t size = 0;
    model_trust trust;
    s->resumed = true;
    int code = trust_of(request, &trust, f);
    if (!code)
        code = set_directory(s, dir, f);
    if (!code)
        code = read_begun(s, &state, &size, f);
    if (!code && request)
        code = take_changes(s, request, f);
    if (!code)
        code = restore(s, dir, &trust, state, stored_state_size(s->asked, size), f);
    if (!code && request)
        code = check_limits(s, request, f);
    forget_stored_values(s->asked);
    s->saved_at = clock_seconds();
    free(state);
    return code;
}

wvgd_session *wvgd_resume(const char *dir, const wvgd_request *request, wvgd_error *error)
{
    return lacks(error, "wvgd_resume", "dir", dir) ? NULL : open_by(begin_again, dir, request, error);
}

/* ---- other cells of one that has ended --------------------------------------------------------------------------- */
/* s->fit, which has ended, gives way to one with other cells of the same draws. */
static int change_fit(wvgd_session *s, const char *dir, const wvgd_request *request, failure *f)
{
    wvgd_results r;
    wvgd_error error;
    wvgd_fit *whole = s->fit;
    wvgd_get_results(whole, &r);
    if (r.stop == WVGD_RUNNING)
        return fail(f, EX_NOINPUT, "the run in %s has not finished: wvgd fit --resume %s continues it", dir, dir);
    forget_stored_values(s->asked);
    int code = change_cells(s->asked, request, f);
    if (!code)
        code = complete_record(s->asked, &s->model, f);
    if (!code)
        code = record_options(s->asked, &s->options, f);
    if (!code)
        code = take_cost(&s->options, &s->model, f);
    if (!code && s->options.particles > r.closing_draws)
        code = fail(f, EX_USAGE, "--particles is '%zu': expected at most %zu, the number of draws of the run",
                    s->options.particles, r.closing_draws);
    if (code)
        return code;
    s->options.max_seconds = 0; /* those of the run have ended it, or not */
    s->options.max_evaluations = 0;
    s->fit = wvgd_quantize(whole, &s->options, &error);
    wvgd_free(whole);
    return s->fit ? 0 : fail(f, error.code == WVGD_E_ARGUMENT ? EX_USAGE : EX_SOFTWARE, "%s", error.text);
}

/* run.json says which solver it was, whatever had been asked for. */
static bool used_joint(const wvgd_session *s, const char *dir)
{
    failure f;
    json_t *run = NULL;
    const char *solver = read_run(dir, &run, &f) ? NULL : json_string_value(json_object_get(run, "solver"));
    bool joint = s->options.solver != WVGD_STAGED || (solver && !strcmp(solver, "joint"));
    json_decref(run);
    return joint;
}

static int begin_cells(wvgd_session *s, const char *dir, const wvgd_request *request, failure *f)
{
    void *state = NULL;
    size_t size = 0;
    model_trust trust;
    failure why;
    if (!is_requested(request, "particles"))
        return fail(f, EX_USAGE, "the option particles is missing: expected the number of cells");
    int code = trust_of(request, &trust, f);
    if (!code)
        code = read_saved(dir, &s->asked, &state, &size, f);
    if (!code)
        code = record_options(s->asked, &s->options, f);
    if (!code && used_joint(s, dir))
        code = fail(f, EX_DATAERR, "the run in %s used the joint solver: quantize needs a fit with --solver staged",
                    dir);
    if (!code && (code = restore(s, dir, &trust, state, size, &why)))
        fail(f, code, "cannot bound the new cells without the model and its data: %s", why.text);
    free(state);
    if (!code)
        code = change_fit(s, dir, request, f);
    if (!code)
        code = take_directory(s, request, f);
    if (!code)
        note_unused(s, request);
    return code;
}

wvgd_session *wvgd_open_cells(const char *dir, const wvgd_request *request, wvgd_error *error)
{
    bool all = !lacks(error, "wvgd_open_cells", "dir", dir) && !lacks(error, "wvgd_open_cells", "request", request);
    return all ? open_by(begin_cells, dir, request, error) : NULL;
}

/* ---- one that has ended ------------------------------------------------------------------------------------------ */
static int load(wvgd_session *s, const char *dir, const wvgd_request *request, failure *f)
{
    model_trust trust;
    s->loaded = true;
    s->shows = &s->saved.model;
    int code = trust_of(request, &trust, f);
    if (!code)
        code = set_directory(s, dir, f);
    if (!code)
        code = load_saved(&s->saved, dir, &trust, f);
    if (!code && trust.named && !needs_model(s->saved.asked))
        tell(request, "warning: --model has no effect: this run needs no model");
    s->fit = s->saved.fit;
    if (!code)
        code = read_run(dir, &s->run, f);
    return code ? code : list_warnings(s, f);
}

wvgd_session *wvgd_load(const char *dir, const wvgd_request *request, wvgd_error *error)
{
    return lacks(error, "wvgd_load", "dir", dir) ? NULL : open_by(load, dir, request, error);
}

const json_t *session_record(const wvgd_session *s)
{
    return s->saved.asked;
}

size_t session_ensemble_most(const wvgd_session *s)
{
    return s->saved.from_store ? s->saved.stored.ensemble : SIZE_MAX;
}

void session_show(const wvgd_session *s, size_t n, const double *z, double *value)
{
    show_points(s->shows, s->shows->seed, n, z, value);
}

/* ---- what it has ------------------------------------------------------------------------------------------------- */
const wvgd_model *wvgd_session_model(const wvgd_session *s)
{
    return s ? &s->shows->model : NULL;
}

const wvgd_table *wvgd_session_table(const wvgd_session *s)
{
    return s ? s->shows->facts : NULL;
}

wvgd_fit *wvgd_session_fit(const wvgd_session *s)
{
    return s ? s->fit : NULL;
}

const char *wvgd_session_solver_note(const wvgd_session *s)
{
    return s ? s->solver : NULL;
}

const char *const *wvgd_session_names(const wvgd_session *s, size_t *n)
{
    if (n)
        *n = s ? s->shows->shown : 0;
    return s ? s->shows->shown_names : NULL;
}

const char *wvgd_session_option(wvgd_session *s, const char *name)
{
    if (!s || !name)
        return NULL;
    char buffer[40];
    const json_t *asked = s->loaded ? s->saved.asked : s->asked;
    locale_t before = use_plain_numbers();
    const char *text = option_text_of(json_object_get(json_object_get(asked, "options"), name), buffer);
    uselocale(before);
    if (text != buffer)
        return text;
    snprintf(s->option, sizeof s->option, "%s", buffer);
    return s->option;
}

/* Adds the texts of a list. */
static void take_list(wvgd_session *s, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text)
            s->warning[s->warnings++] = text;
    }
}

int list_warnings(wvgd_session *s, failure *f)
{
    const json_t *reasons = json_object_get(json_object_get(s->run, "verdict"), "reasons"),
                 *warnings = json_object_get(json_object_get(s->run, "diagnostics"), "warnings");
    s->warning = calloc(json_array_size(reasons) + json_array_size(warnings) + 1, sizeof *s->warning);
    if (!s->warning)
        return fail(f, EX_SOFTWARE, "no memory for the warnings");
    if (!s->svgd && !is_reliable(s->run)) /* SVGD never is */
        take_list(s, reasons);
    take_list(s, warnings);
    return 0;
}

const char *const *wvgd_session_warnings(wvgd_session *s, size_t *n)
{
    failure f;
    locale_t before = use_plain_numbers();
    if (s && describe_session(s, &f))
        s = NULL;
    uselocale(before);
    if (n)
        *n = s ? s->warnings : 0;
    return s ? s->warning : NULL;
}

static bool has_ended(const wvgd_session *s, const char *function, wvgd_error *error)
{
    failure f;
    if (s->run || s->ended)
        return true;
    fail(&f, EX_USAGE, "%s: the session has not run: expected wvgd_session_run first", function);
    pass_failure(error, &f);
    return false;
}

/* SVGD has no draws but its particles. */
static bool has_draws(const wvgd_session *s, const char *function, wvgd_error *error)
{
    failure f;
    if (!has_ended(s, function, error))
        return false;
    if (s->fit)
        return true;
    fail(&f, EX_USAGE, "%s: SVGD has no draws but its particles: expected a session with a fit", function);
    pass_failure(error, &f);
    return false;
}

static char *summary_text(const wvgd_session *s, wvgd_summary_kind kind, size_t most)
{
    char *text = NULL;
    size_t size;
    int failed = 0;
    if (kind == WVGD_RUN_JSON)
        return dump_json(s->run, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    if (kind == WVGD_SUMMARY_JSON)
        failed = put_summary_json(stream, s->run);
    else
        put_summary(stream, s->run, most ? most : SIZE_MAX, most ? most : SIZE_MAX, s->dir);
    if (!fclose(stream) && !failed)
        return text;
    free(text);
    return NULL;
}

wvgd_status wvgd_session_summary(wvgd_session *s, wvgd_summary_kind kind, size_t most, const char **text,
                                 wvgd_error *error)
{
    static const char function[] = "wvgd_session_summary";
    failure f;
    if (lacks(error, function, "session", s) || lacks(error, function, "text", text) || !has_ended(s, function, error))
        return WVGD_E_ARGUMENT;
    locale_t before = use_plain_numbers();
    int code = describe_session(s, &f);
    char *made = code ? NULL : summary_text(s, kind, most);
    uselocale(before);
    if (!code && !made)
        code = fail(&f, EX_SOFTWARE, "no memory for the summary");
    if (code)
        return pass_failure(error, &f);
    free(s->text);
    *text = s->text = made;
    return WVGD_OK;
}

wvgd_status wvgd_session_values(const wvgd_session *s, size_t n, const double *z, double *value, wvgd_error *error)
{
    static const char function[] = "wvgd_session_values";
    if (lacks(error, function, "session", s) || lacks(error, function, "z", z) ||
        lacks(error, function, "value", value))
        return WVGD_E_ARGUMENT;
    session_show(s, n, z, value);
    return WVGD_OK;
}

wvgd_status wvgd_session_draws(const wvgd_session *s, wvgd_draws_kind kind, uint64_t seed, size_t n, double *value,
                               double *log_w, wvgd_error *error)
{
    static const char function[] = "wvgd_session_draws";
    failure f;
    if (lacks(error, function, "session", s) || lacks(error, function, "value", value) ||
        !has_draws(s, function, error))
        return WVGD_E_ARGUMENT;
    return show_draws(s->fit, s->shows, kind, seed, n, value, log_w, &f) ? pass_failure(error, &f) : WVGD_OK;
}

/* The run keeps quantities of its closing draws, and of some draws of the ensemble. */
static int check_stored(const wvgd_session *s, wvgd_draws_kind kind, uint64_t seed, size_t n, failure *f)
{
    size_t most = session_ensemble_most(s);
    if (!s->saved.from_store || kind != WVGD_DRAWS_ENSEMBLE || (seed == 1 && n <= most))
        return 0;
    return fail(f, EX_TEMPFAIL,
                "the run in %s stores %zu ensemble draws, of seed 1. Other draws need its model, which is code: name "
                "it with --model or give --trust-model. --from posterior needs no model",
                s->dir, most);
}

/* There are only so many draws with weights. */
static void note_fewer(const wvgd_session *s, wvgd_draws_kind kind, size_t n)
{
    wvgd_results r;
    char text[200] = "";
    wvgd_get_results(s->fit, &r);
    if (kind == WVGD_DRAWS_WEIGHTED && n > r.closing_draws)
        snprintf(text, sizeof text, "warning: the run has %zu final draws, not %zu: all of them are written",
                 r.closing_draws, n);
    if (kind == WVGD_DRAWS_RESAMPLED && n > r.closing_draws)
        snprintf(text, sizeof text,
                 "draws repeat: the run has only %zu final draws, with an ESS of %.0f; those of --from ensemble never "
                 "repeat",
                 r.closing_draws, r.ess);
    if (*text && s->note)
        s->note(s->note_self, text);
}

static int put_all(const wvgd_session *s, FILE *stream, wvgd_draws_kind kind, uint64_t seed, size_t n, failure *f)
{
    const json_t *asked = s->loaded ? s->saved.asked : s->asked;
    const char *name = json_string_value(json_object_get(json_object_get(asked, "model"), "name"));
    return put_draws(stream, s->fit, s->shows, name ? name : "model", kind, seed, n, f);
}

static int write_table(const wvgd_session *s, const char *path, wvgd_draws_kind kind, uint64_t seed, size_t n,
                       failure *f)
{
    whole_file w;
    int code = begin_other_file(&w, path, f);
    if (code)
        return code;
    code = put_all(s, w.stream, kind, seed, n, f);
    if (!code)
        return finish_file(&w, f);
    abandon_file(&w);
    return code;
}

wvgd_status wvgd_session_write_draws(wvgd_session *s, wvgd_draws_kind kind, uint64_t seed, size_t n, const char *path,
                                     FILE *stream, wvgd_error *error)
{
    static const char function[] = "wvgd_session_write_draws";
    failure f;
    if (lacks(error, function, "session", s) || (!path && lacks(error, function, "stream", stream)) ||
        !has_draws(s, function, error))
        return WVGD_E_ARGUMENT;
    locale_t before = use_plain_numbers();
    int code = check_stored(s, kind, seed, n, &f);
    if (!code)
        code = path ? write_table(s, path, kind, seed, n, &f) : put_all(s, stream, kind, seed, n, &f);
    if (!code && (path || !fflush(stream)))
        note_fewer(s, kind, n);
    uselocale(before);
    return code ? pass_failure(error, &f) : WVGD_OK;
}
