/* svgd_session.c - a session that runs SVGD, the baseline, instead of a fit: with the same inputs and outputs as far as
 * they make sense for it. */
#include "svgd_session.h"
#include "fit_options.h"
#include "kde.h"
#include "random.h"
#include "request.h"
#include "run_directory.h"
#include "run_record.h"
#include "session.h"
#include "start_file.h"
#include "svgd_record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { TRACE_ROWS = 2000 };

struct svgd_part {
    svgd_options o;
    double max_seconds;
    double begun, shown; /* by the clock; shown: progress, last */
    size_t max_iter;
    uint64_t seed;
    svgd *svgd;
    svgd_row *row; /* [TRACE_ROWS + 1] */
    size_t rows;
    svgd_results results;
};

void free_svgd(svgd_part *r)
{
    if (!r)
        return;
    svgd_free(r->svgd);
    free(r->row);
    free(r);
}

/* ---- what was asked ---------------------------------------------------------------------------------------------- */
static const char run_group[] = "Run options:", svgd_group[] = "SVGD options:";

static const option_line options[] = {
    {"data", 0, "FILE", NULL, NULL, "data file, CSV or JSON: see wvgd models", run_group},
    {"config", 0, "FILE", NULL, NULL, CONFIG_HELP, run_group},
    {"out", 'o', "DIR", NULL, NULL, "directory for the results; created if missing", run_group},
    {"overwrite", 0, NULL, NULL, NULL, "replace an existing run in the --out directory", run_group},
    {"threads", 0, "N", "1..4096", "all cores",
     "number of threads that evaluate the model; results do not depend on it", run_group},
    {"quiet", 'q', NULL, NULL, NULL, "show no progress and no hints on stderr; warnings remain", run_group},
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
    {"seed", 0, "N", "0..2^64-1", "1", "random seed of the starting points", svgd_group},
};
enum { OPTIONS = sizeof options / sizeof *options };

bool svgd_option(size_t i, option_line *line)
{
    if (i >= OPTIONS)
        return model_row(i - OPTIONS, line);
    *line = options[i];
    return true;
}

wvgd_request *wvgd_request_new_svgd(void)
{
    wvgd_request *request = wvgd_request_new();
    if (request)
        request->option = svgd_option;
    return request;
}

static void read_options(svgd_part *r, const json_t *asked)
{
    char buffer[40];
    const json_t *all = json_object_get(asked, "options");
    const char *seed = option_text_of(json_object_get(all, "seed"), buffer),
               *optimizer = json_string_value(json_object_get(all, "optimizer"));
    svgd_options_init(&r->o);
    r->o.optimiser = optimizer && !strcmp(optimizer, "adam") ? SVGD_ADAM : SVGD_ADAGRAD;
    r->o.particles = (size_t)record_number(asked, "particles", 100);
    r->o.step = record_number(asked, "step", 0.5);
    r->o.bandwidth = record_number(asked, "bandwidth", 0); /* a word: the median heuristic */
    r->o.tol = record_number(asked, "tol", 1e-4);
    r->o.scale = record_number(asked, "init-scale", 1);
    r->max_iter = (size_t)record_number(asked, "max-iter", 20000);
    r->max_seconds = record_number(asked, "max-seconds", 0);
    r->seed = seed ? strtoull(seed, NULL, 10) : 1;
}

/* Of what going on needs, a run of SVGD keeps where its data are. */
static int complete(wvgd_session *s, failure *f)
{
    static const char *const needless[] = {"model", "model_hash", "text", "start"};
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        json_object_del(json_object_get(s->asked, "reopen"), needless[i]);
    return describe_opened(json_object_get(s->asked, "model"), &s->model)
               ? fail(f, EX_SOFTWARE, "no memory for the record of the run")
               : 0;
}

/* ---- where it starts --------------------------------------------------------------------------------------------- */
static int draw_start(wvgd_session *s, bool prior, failure *f)
{
    const svgd_part *r = s->svgd;
    const wvgd_model *m = &s->model.model;
    size_t n = r->o.particles, D = m->dim;
    double *normal = calloc(D, sizeof *normal);
    s->start = n > PTRDIFF_MAX / sizeof *s->start / D ? NULL : calloc(n * D, sizeof *s->start);
    bool memory = normal && s->start;
    for (size_t i = 0; memory && i < n; i++) {
        double *z = s->start + i * D;
        svgd_random_normal(r->seed, i, D, normal);
        if (prior && m->start)
            m->start(m->start_self, normal, z);
        else
            for (size_t d = 0; d < D; d++)
                z[d] = r->o.scale * normal[d];
    }
    free(normal);
    return memory ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu particles of %zu coordinates", n, D);
}

static int make_start(wvgd_session *s, const wvgd_request *request, failure *f)
{
    const char *init = requested(request, "init");
    if (is_start_file("init", init))
        return place_particles(s, request, &s->svgd->o.particles, f);
    return draw_start(s, !init || strcmp(init, "normal"), f);
}

static bool stop_inside(void *self);

int begin_svgd(wvgd_session *s, const wvgd_request *request, failure *f)
{
    svgd_part *r = s->svgd = calloc(1, sizeof *r);
    int code = r ? open_requested(s, request, f) : fail(f, EX_SOFTWARE, "no memory for a session");
    if (!code && !s->model.model.has_gradient)
        code = fail(f, EX_USAGE, "svgd: SVGD needs gradients, but the model %s has none", requested(request, "model"));
    if (code)
        return code;
    read_options(r, s->asked);
    code = make_start(s, request, f);
    if (!code)
        code = complete(s, f);
    r->row = calloc(TRACE_ROWS + 1, sizeof *r->row);
    r->o.stop = stop_inside;
    r->o.stop_self = s;
    r->svgd = code || !r->row ? NULL : svgd_new(&s->model.model, &r->o, s->start);
    if (!code && !r->svgd)
        code = fail(f, EX_SOFTWARE, "no memory for %zu particles of %zu coordinates", r->o.particles,
                    s->model.model.dim);
    return code ? code : take_directory(s, request, f);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static void note_row(svgd_part *r, const svgd_view *v, double seconds, bool last)
{
    size_t every = (r->max_iter + TRACE_ROWS - 1) / TRACE_ROWS;
    if (v->iteration % every == 0 || (last && v->iteration))
        r->row[r->rows++] = (svgd_row){v->iteration, v->evaluations, seconds, v->mean_log_p, v->bandwidth, v->force};
}

static int explain_failure(const wvgd_session *s, int status, failure *f)
{
    const char *message = s->model.first_message,
               *name = json_string_value(json_object_get(json_object_get(s->asked, "model"), "name"));
    return fail(f, EX_SOFTWARE, "%s: log_density returned %d, expected 0%s%s", name, status, message ? ": " : "",
                message ? message : "");
}

/* Whether somebody who sees the progress wants to stop. */
static bool show_svgd(const wvgd_session *s, const svgd_view *v)
{
    svgd_part *r = s->svgd;
    wvgd_progress p = {.stage = "svgd",
                       .iteration = v->iteration,
                       .max_iter = r->max_iter,
                       .evaluations = v->evaluations};
    r->shown = clock_seconds();
    p.seconds = r->shown - r->begun;
    p.pelbo = p.pelbo_se = p.ess = NAN;
    return s->callback && s->callback(s->callback_self, &p);
}

static bool time_is_up(const svgd_part *r)
{
    return r->max_seconds > 0 && clock_seconds() - r->begun >= r->max_seconds;
}

/* Asked inside steps; of those that take long, every now and then. */
static bool stop_inside(void *self)
{
    const double every = 0.25; /* seconds */
    const wvgd_session *s = self;
    svgd_view v;
    svgd_get(s->svgd->svgd, &v);
    return time_is_up(s->svgd) || (clock_seconds() - s->svgd->shown >= every && show_svgd(s, &v));
}

/* Says why to stop here; NULL: go on. */
static const char *reason_to_stop(const wvgd_session *s, const svgd_view *v)
{
    const svgd_part *r = s->svgd;
    bool stop = show_svgd(s, v);
    if (v->converged)
        return "converged";
    if (v->stopped && time_is_up(r))
        return "time_up";
    if (v->stopped || stop)
        return "stopped";
    if (v->iteration >= r->max_iter)
        return "max_iter";
    return time_is_up(r) ? "time_up" : NULL;
}

static int iterate(wvgd_session *s, failure *f)
{
    svgd_part *r = s->svgd;
    svgd_view v;
    const char *stop = NULL;
    double kde = record_number(s->asked, "kde-bandwidth", NAN);
    r->begun = r->shown = clock_seconds();
    while (!stop) {
        int status = svgd_step(r->svgd);
        if (status)
            return explain_failure(s, status, f);
        svgd_get(r->svgd, &v);
        if (!isfinite(v.force) && !v.stopped)
            return fail(f, EX_SOFTWARE, "the particles diverged after %zu steps: try a smaller --step than %g",
                        v.iteration, r->o.step);
        stop = reason_to_stop(s, &v);
        if (!v.stopped)
            note_row(r, &v, clock_seconds() - r->begun, stop != NULL);
    }
    int status = v.stopped ? 0 : svgd_evaluate(r->svgd); /* where they are now */
    if (status)
        return explain_failure(s, status, f);
    svgd_get(r->svgd, &v);
    r->results = (svgd_results){.model = &s->model,
                                .asked = s->asked,
                                .view = v,
                                .stop = stop,
                                .seconds = clock_seconds() - r->begun,
                                .force_limit = r->o.tol,
                                .kde = kde,
                                .kde_by = isfinite(kde) ? "given" : NULL,
                                .kde_ise = NAN,
                                .row = r->row,
                                .rows = r->rows,
                                .seed = r->seed};
    return 0;
}

/* ---- density ----------------------------------------------------------------------------------------------------- */
/* In one dimension the model can be normalised on a grid, which spans the particles and as much again on both sides:
 * the bandwidth is the one with the smallest error. */
static int choose_by_quadrature(wvgd_session *s, double low, double high, failure *f)
{
    enum { POINTS = 4001 };
    const wvgd_model *m = &s->model.model;
    svgd_part *r = s->svgd;
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
    return status ? explain_failure(s, status, f) : 0;
}

static int choose_bandwidth(wvgd_session *s, failure *f)
{
    enum { MOST = 2000 }; /* particles for which all pairs can be looked at many times */
    svgd_part *r = s->svgd;
    const svgd_view *v = &r->results.view;
    if (r->results.kde_by)
        return 0;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < v->n && v->D == 1; i++) {
        low = fmin(low, v->z[i]);
        high = fmax(high, v->z[i]);
    }
    if (high > low)
        return choose_by_quadrature(s, low, high, f);
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
/* Four files in the place of all that are there. */
int write_svgd_files(const wvgd_session *s, failure *f)
{
    static const char *const others[] = {HISTORY_FILE, RESULT_FILE, CHECKPOINT_FILE, NEXT_FILE};
    file_set set = set_of_run(s->dir);
    int code = write_svgd_tables(&set, &s->svgd->results, f);
    if (!code)
        code = write_run(&set, s->run, f);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add_removal(&set, others[i]);
    if (!code)
        return commit_files(&set, f);
    abandon_files(&set);
    return code;
}

int run_svgd(wvgd_session *s, failure *f)
{
    int code = s->dir ? make_run_directory(s->dir, s->overwrite, &s->lock, &s->made, f) : 0;
    if (code)
        return code;
    code = iterate(s, f);
    if (!code)
        code = choose_bandwidth(s, f);
    if (!code && !(s->run = svgd_json(&s->svgd->results)))
        code = fail(f, EX_SOFTWARE, "no memory for the results");
    if (!code)
        add_table_warnings(s, s->run);
    if (!code)
        code = list_warnings(s, f);
    if (!code && s->dir)
        code = write_svgd_files(s, f);
    if (code && s->made)
        rmdir(s->dir);
    return code;
}
