/* cmd_svgd.c - wvgd svgd: the SVGD baseline on any model, with the inputs and outputs of wvgd fit
 * as far as they make sense for it. */
#include "commands.h"
#include "kde.h"
#include "progress.h"
#include "random.h"
#include "run_directory.h"
#include "run_json.h"
#include "run_record.h"
#include "signals.h"
#include "start_file.h"
#include "summary.h"
#include "svgd_record.h"
#include "text.h"
#include "say.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { SHOWN_ROWS = 30, TRACE_ROWS = 2000 };

/* ---- options ----------------------------------------------------------------------------------------------------- */
static const char run_group[] = "Run options:", svgd_group[] = "SVGD options:", model_group[] = "Model options:";

static const option_line options[] = {
    {"data", 0, "FILE", NULL, NULL, "data file, CSV or JSON: see wvgd models", run_group},
    {"config", 0, "TEXT", NULL, NULL, "configuration text for a shared object", run_group},
    {"out", 'o', "DIR", NULL, NULL, "directory for the results; created if missing", run_group},
    {"overwrite", 0, NULL, NULL, NULL, "replace an existing run in the --out directory", run_group},
    {"threads", 0, "N", "1..4096", "all cores",
     "number of threads that evaluate the model; results do not depend on it", run_group},
    {"quiet", 'q', NULL, NULL, NULL, "show no progress on stderr", run_group},
    {"particles", 0, "N", "1..100000", "100", "number of particles", svgd_group},
    {"optimizer", 0, "adam|adagrad", NULL, "adagrad", "optimizer that moves the particles", svgd_group},
    {"step", 0, "X", "1e-12..1e6", "0.5",
     "length of the first steps, in units of the parameters; later steps are shorter", svgd_group},
    {"bandwidth", 0, "median|H", "1e-300..1e300", "median",
     "h in the kernel exp(-|a-b|^2/h); median: med^2/log N in every step, where med is the median distance",
     svgd_group},
    {"kde-bandwidth", 0, "best|B", "1e-150..1e150", "best",
     "bandwidth of the kernel density estimate; best: minimizes the integrated squared error by quadrature in one "
     "dimension, otherwise maximizes the leave-one-out likelihood",
     svgd_group},
    {"init", 0, "prior|normal|FILE.csv", NULL, "prior",
     "where particles start: the model's prior if it has one, or N(0, init-scale^2); " START_FILE_HELP, svgd_group},
    {"init-scale", 0, "X", "1e-12..1e12", "1", "rough scale of the parameters", svgd_group},
    {"max-iter", 0, "N", "1..100000000", "20000", "maximum number of steps", svgd_group},
    {"max-seconds", 0, "X", "0..1e9", "0", "time limit in seconds; 0: no limit", svgd_group},
    {"tol", 0, "X", "0..1e6", "0.0001",
     "converged when the force on the particles, in nats per sd, stays below this for ten steps", svgd_group},
    {"seed", 0, "N", "0..18446744073709551615", "1", "random seed of the starting points", svgd_group},
};
enum { OPTIONS = sizeof options / sizeof *options };

static bool svgd_option(size_t i, option_line *line)
{
    const model_option *o = i < OPTIONS ? NULL : describe_model_option((unsigned)(i - OPTIONS));
    if (i < OPTIONS)
        *line = options[i];
    else if (o)
        *line = (option_line){o->name, 0, o->argument, o->models, o->initial, o->help, model_group};
    return i < OPTIONS || o;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */
typedef struct {
    const arguments *a;
    json_t *asked;
    opened_model model;
    svgd_options o;
    double kde, max_seconds, init_scale; /* kde 0: best */
    size_t max_iter, threads;
    uint64_t seed;
    double *start; /* [n][D] */
    svgd *svgd;
    const char *dir;
    int lock;
    bool made;
    svgd_row *row; /* [TRACE_ROWS + 1] */
    size_t rows;
    svgd_results results;
} svgd_run;

/* ---- what was asked ---------------------------------------------------------------------------------------------- */
/* A word that stands for a number which is not given. */
static int given_or(const arguments *a, const char *name, const char *word, double *value, failure *f)
{
    const char *text = given(a, name);
    return !text || !strcmp(text, word) ? 0 : given_number(a, name, value, f);
}

static int read_options(svgd_run *r, failure *f)
{
    const arguments *a = r->a;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    svgd_options_init(&r->o);
    r->o.step = 0.5;
    r->o.tol = 1e-4;
    r->init_scale = 1;
    r->max_iter = 20000;
    r->seed = 1;
    r->threads = cores > 0 ? (size_t)cores : 1;
    size_t adagrad = 1;
    int code = given_choice(a, "optimizer", &adagrad, f);
    r->o.optimiser = adagrad ? SVGD_ADAGRAD : SVGD_ADAM;
    if (!code)
        code = given_count(a, "particles", &r->o.particles, f);
    if (!code)
        code = given_number(a, "step", &r->o.step, f);
    if (!code)
        code = given_or(a, "bandwidth", "median", &r->o.bandwidth, f);
    if (!code)
        code = given_or(a, "kde-bandwidth", "best", &r->kde, f);
    if (!code)
        code = given_number(a, "init-scale", &r->init_scale, f);
    if (!code)
        code = given_count(a, "max-iter", &r->max_iter, f);
    if (!code)
        code = given_number(a, "max-seconds", &r->max_seconds, f);
    if (!code)
        code = given_number(a, "tol", &r->o.tol, f);
    if (!code)
        code = given_seed(a, "seed", &r->seed, f);
    r->o.scale = r->init_scale;
    return code ? code : given_count(a, "threads", &r->threads, f);
}

static bool is_number(const char *text)
{
    double value;
    return text && !read_plain_number(text, &value);
}

/* Every option of SVGD, and those of the model and the run that were given: numbers as numbers. */
static json_t *options_json(const svgd_run *r)
{
    json_t *o = json_object();
    option_line line;
    for (size_t i = 0; svgd_option(i, &line); i++) {
        static const char *const not_recorded[] = {"out", "overwrite", "quiet", "config"};
        const char *value = given(r->a, line.name);
        bool skip = false;
        for (size_t k = 0; k < sizeof not_recorded / sizeof *not_recorded; k++)
            skip = skip || !strcmp(line.name, not_recorded[k]);
        if (!value && line.group == svgd_group)
            value = line.initial;
        if (skip || !value)
            continue;
        if (!line.argument)
            json_object_set_new(o, line.name, json_true());
        else if (is_number(value) && !strcmp(line.name, "seed") && r->seed <= INT64_MAX)
            json_object_set_new(o, line.name, json_integer((json_int_t)r->seed));
        else if (is_number(value) && strcmp(line.name, "seed") && (line.range || line.initial)) {
            double number = strtod(value, NULL);
            bool whole = number == floor(number) && fabs(number) < 1e15 && !strpbrk(value, ".eE");
            json_object_set_new(o, line.name, whole ? json_integer((json_int_t)number) : json_real(number));
        } else
            json_object_set_new(o, line.name, json_text(value));
    }
    json_object_set_new(o, "threads", json_integer((json_int_t)r->threads));
    return o;
}

static int make_record(svgd_run *r, failure *f)
{
    char *text = command_text(r->a);
    json_t *model = json_object();
    json_object_set_new(model, "name", json_text(r->a->word[0]));
    int failed = describe_opened(model, &r->model);
    r->asked = json_object();
    json_object_set_new(r->asked, "version", json_string(WVGD_VERSION));
    json_object_set_new(r->asked, "command", text ? json_text(text) : NULL);
    json_object_set_new(r->asked, "model", model);
    json_object_set_new(r->asked, "options", options_json(r));
    failed |= !json_object_get(r->asked, "options") || !text;
    free(text);
    return failed ? fail(f, EX_SOFTWARE, "no memory for the record of the run")
                  : note_data(r->asked, given(r->a, "data"), f);
}

static int open_asked(svgd_run *r, failure *f)
{
    unsigned n = 0;
    while (describe_model_option(n))
        n++;
    const char **value = calloc(n + 1, sizeof *value);
    if (!value)
        return fail(f, EX_SOFTWARE, "no memory for the options of the model");
    for (unsigned i = 0; i < n; i++)
        value[i] = given(r->a, describe_model_option(i)->name);
    model_request request = {r->a->word[0], given(r->a, "data"),  given(r->a, "config"),
                             value,         (unsigned)r->threads, r->seed,
                             NULL};
    int code = open_model(&request, &r->model, f);
    free(value);
    if (!code && !r->model.model.has_gradient)
        code = fail(f, EX_USAGE, "svgd: SVGD needs gradients, but the model %s has none", r->a->word[0]);
    return code;
}

/* ---- where it starts --------------------------------------------------------------------------------------------- */
static int draw_start(svgd_run *r, bool prior, failure *f)
{
    const wvgd_model *m = &r->model.model;
    size_t n = r->o.particles, D = m->dim;
    double *normal = calloc(D, sizeof *normal);
    r->start = n > PTRDIFF_MAX / sizeof *r->start / D ? NULL : calloc(n * D, sizeof *r->start);
    bool memory = normal && r->start;
    for (size_t i = 0; memory && i < n; i++) {
        double *z = r->start + i * D;
        svgd_random_normal(r->seed, i, D, normal);
        if (prior && m->start)
            m->start(m->start_self, normal, z);
        else
            for (size_t d = 0; d < D; d++)
                z[d] = r->init_scale * normal[d];
    }
    free(normal);
    return memory ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu particles of %zu coordinates", n, D);
}

/* Those of a file. */
static int place_particles(svgd_run *r, const char *path, failure *f)
{
    size_t before = r->o.particles;
    int code = read_start(path, r->model.model.dim, given(r->a, "particles") != NULL, &r->o.particles, &r->start, f);
    char *note = code || given(r->a, "quiet") ? NULL : start_note(path, before, r->o.particles);
    if (note)
        say("%s", note);
    free(note);
    return code;
}

static int make_start(svgd_run *r, failure *f)
{
    const char *init = given(r->a, "init") ? given(r->a, "init") : "prior";
    size_t length = strlen(init);
    if (length > 4 && !strcmp(init + length - 4, ".csv"))
        return place_particles(r, init, f);
    size_t normal = 0;
    int code = given_choice(r->a, "init", &normal, f);
    return code ? code : draw_start(r, !normal, f);
}

/* Nothing is created before everything is known to be in order. */
static int begin(svgd_run *r, failure *f)
{
    bool overwrite = given(r->a, "overwrite");
    if (!r->a->words)
        return fail(f, EX_USAGE, "svgd: MODEL is missing: see wvgd models");
    if (!(r->dir = given(r->a, "out")))
        return fail(f, EX_USAGE, "svgd: --out DIR is missing: name a directory for the results");
    int code = read_options(r, f);
    if (!code)
        code = check_run_directory(r->dir, overwrite, f);
    if (!code)
        code = open_asked(r, f);
    if (!code)
        code = make_start(r, f);
    if (!code)
        code = make_record(r, f);
    r->row = calloc(TRACE_ROWS + 1, sizeof *r->row);
    r->svgd = code || !r->row ? NULL : svgd_new(&r->model.model, &r->o, r->start);
    if (!code && !r->svgd)
        code = fail(f, EX_SOFTWARE, "no memory for %zu particles of %zu coordinates", r->o.particles,
                    r->model.model.dim);
    if (!code)
        code = make_run_directory(r->dir, overwrite, &r->lock, &r->made, f);
    return code;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static const char *reason_to_stop(const svgd_run *r, const svgd_view *v, double seconds)
{
    if (v->converged)
        return "converged";
    if (was_interrupted())
        return "stopped";
    if (v->iteration >= r->max_iter)
        return "max_iter";
    return r->max_seconds > 0 && seconds >= r->max_seconds ? "time_up" : NULL;
}

static void note_row(svgd_run *r, const svgd_view *v, double seconds, bool last)
{
    size_t every = (r->max_iter + TRACE_ROWS - 1) / TRACE_ROWS;
    if (v->iteration % every == 0 || (last && v->iteration))
        r->row[r->rows++] = (svgd_row){v->iteration, v->evaluations, seconds, v->mean_log_p, v->bandwidth, v->force};
}

static int explain_failure(const svgd_run *r, int status, failure *f)
{
    const char *message = r->model.first_message;
    return fail(f, EX_SOFTWARE, "the model %s failed with code %d%s%s", r->a->word[0], status, message ? ": " : "",
                message ? message : "");
}

static int iterate(svgd_run *r, failure *f)
{
    svgd_view v;
    const char *stop = NULL;
    double begun = clock_now(), seconds = 0;
    progress_display display = begin_progress(given(r->a, "quiet") != NULL, r->max_seconds);
    while (!stop) {
        int status = svgd_step(r->svgd);
        if (status)
            return explain_failure(r, status, f);
        svgd_get(r->svgd, &v);
        if (!isfinite(v.force))
            return fail(f, EX_SOFTWARE, "the particles diverged after %zu steps: try a smaller --step than %g",
                        v.iteration, r->o.step);
        seconds = clock_now() - begun;
        stop = reason_to_stop(r, &v, seconds);
        note_row(r, &v, seconds, stop != NULL);
        show_progress(&display,
                      &(wvgd_progress){"svgd", v.iteration, r->max_iter, v.evaluations, seconds, NAN, NAN, NAN});
    }
    int status = svgd_evaluate(r->svgd); /* where they are now */
    hide_progress(&display);
    if (status)
        return explain_failure(r, status, f);
    svgd_get(r->svgd, &v);
    r->results = (svgd_results){&r->model,
                                r->asked,
                                v,
                                stop,
                                clock_now() - begun,
                                r->o.tol,
                                r->kde > 0 ? r->kde : NAN,
                                r->kde > 0 ? "given" : NULL,
                                NAN,
                                r->row,
                                r->rows,
                                r->seed};
    return 0;
}

/* ---- density ----------------------------------------------------------------------------------------------------- */
/* In one dimension the model can be normalised on a grid, which spans the particles and as much again on both sides:
 * the bandwidth is the one with the smallest error. */
static int choose_by_quadrature(svgd_run *r, double low, double high, failure *f)
{
    enum { POINTS = 4001 };
    const wvgd_model *m = &r->model.model;
    const svgd_view *v = &r->results.view;
    double *x = calloc(3 * POINTS, sizeof *x), *weight = x + POINTS, *p = weight + POINTS, width = high - low,
           top = -INFINITY, sum = 0;
    if (!x)
        return fail(f, EX_SOFTWARE, "no memory for a grid");
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = low - width + 3 * width * (double)i / (POINTS - 1);
        weight[i] = 3 * width / (POINTS - 1);
    }
    int status = m->log_density(m->self, POINTS, x, p, NULL);
    for (size_t i = 0; i < POINTS; i++)
        top = p[i] > top ? p[i] : top;
    for (size_t i = 0; i < POINTS; i++) {
        p[i] = p[i] <= top ? exp(p[i] - top) : 0;
        sum += weight[i] * p[i];
    }
    for (size_t i = 0; i < POINTS; i++)
        p[i] /= sum;
    if (!status && isfinite(sum) && sum > 0) {
        r->results.kde = svgd_kde_oracle(v->n, v->z, 1e-3 * width, 2 * width, &(svgd_quadrature){POINTS, x, weight, p},
                                         &r->results.kde_ise);
        r->results.kde_by = "quadrature";
    }
    free(x);
    return status ? explain_failure(r, status, f) : 0;
}

static int choose_bandwidth(svgd_run *r, failure *f)
{
    enum { MOST = 2000 }; /* particles for which all pairs can be looked at many times */
    const svgd_view *v = &r->results.view;
    if (r->results.kde_by)
        return 0;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < v->n && v->D == 1; i++) {
        low = fmin(low, v->z[i]);
        high = fmax(high, v->z[i]);
    }
    if (high > low)
        return choose_by_quadrature(r, low, high, f);
    if (v->n > MOST)
        return 0;
    double *work = calloc(v->n + 1, v->n * sizeof *work);
    if (!work)
        return fail(f, EX_SOFTWARE, "no memory for the distances of %zu particles", v->n);
    r->results.kde = svgd_kde_leave_one_out(v->n, v->D, v->z, work);
    r->results.kde_by = isfinite(r->results.kde) ? "leave-one-out" : NULL;
    free(work);
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
static void print_warnings(const json_t *run)
{
    const json_t *list = json_object_get(json_object_get(run, "diagnostics"), "warnings");
    if (isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))
        return;
    say_warnings(list);
}

/* Four files in the place of all that are there. */
static int write_files(const svgd_run *r, const json_t *run, failure *f)
{
    static const char *const others[] = {HISTORY_FILE, RESULT_FILE, CHECKPOINT_FILE, NEXT_FILE};
    file_set set = set_of_run(r->dir);
    int code = write_svgd_tables(&set, &r->results, f);
    if (!code)
        code = write_run(&set, run, f);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add_removal(&set, others[i]);
    if (!code)
        return commit_files(&set, f);
    abandon_files(&set);
    return code;
}

static int finish(svgd_run *r, failure *f)
{
    int code = choose_bandwidth(r, f);
    json_t *run = code ? NULL : svgd_json(&r->results);
    if (!code && !run)
        code = fail(f, EX_SOFTWARE, "no memory for the results");
    if (code)
        return code;
    code = write_files(r, run, f);
    print_warnings(run);
    put_summary(stdout, run, SHOWN_ROWS, r->dir);
    json_decref(run);
    return code;
}

static int run_svgd(arguments *a, failure *f)
{
    svgd_run r = {.a = a, .lock = -1};
    int code = begin(&r, f);
    if (!code) {
        catch_signals();
        code = iterate(&r, f);
        if (!code)
            code = finish(&r, f);
        if (code && r.made)
            rmdir(r.dir);
        if (!code && !strcmp(r.results.stop, "stopped"))
            code = fail(f, EXIT_INTERRUPTED, "interrupted; the results so far are in %s", r.dir);
    }
    svgd_free(r.svgd);
    close_model(&r.model);
    free(r.start);
    free(r.row);
    json_decref(r.asked);
    if (r.lock >= 0)
        close(r.lock);
    return code;
}

const command svgd_command = {
    "svgd",
    "MODEL [--data FILE] --out DIR",
    "Stein variational gradient descent on the same models, for comparison",
    "Moves particles of equal weight by SVGD (Liu and Wang, 2016) with the RBF kernel. Prints a summary to stdout and "
    "writes run.json, particles.csv, trace.csv and draws.csv (the particles) to DIR. SVGD gives no evidence and no "
    "standard errors; its density is a kernel density estimate. It serves as a baseline: for inference use wvgd fit.",
    "wvgd svgd logistic --data heart.csv --standardize --particles 200 --out heart-svgd\n"
    "wvgd svgd mixture --data mixture.json --optimizer adam --step 0.1 --out mixture-svgd\n",
    svgd_option,
    "MODEL",
    run_svgd,
    "data target ignore standardize out particles step seed threads max-iter max-seconds overwrite quiet",
};
