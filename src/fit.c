/* fit.c - new, free, ask, tell, step, run. A fit goes through stages; each stage makes a batch of points (ask) and
 * takes their log densities (tell), and tell decides which stage comes next:
 *     staged   explore -> (fit -> trial -> [probe])* -> close -> [refine ->] bound -> done    (staged.c)
 *     joint    [explore ->] [pilot ->] search -> settle -> average -> trial -> final -> done (joint.c) */
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "staged/cell_bound.h"
#include "nearest.h"
#include "simd/columns.h"
#include "dense.h"
#include "staged/explore.h"
#include "halfspaces.h"
#include "joint/shared_proposals.h"
#include "joint/joint.h"
#include "update/lowrank.h"
#include "update/update.h"
#include "staged/modes.h"
#include "options.h"
#include "policy.h"
#include "draws.h"
#include "kmeans.h"
#include "staged/cell_refine.h"
#include "staged/staged.h"
#include <cblas.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- stages ------------------------------------------------------------------------------------------------------ */
typedef struct {
    const char *name;
    bool gradient; /* wants gradients where the model has them */
    bool iterates; /* evaluations must be left for the stages that come after */
} stage;

static const stage stages[] = {
    [WV_EXPLORE] = {"explore", true, true},     [WV_FIT] = {"fit", true, true},
    [WV_SEEK] = {"explore", true, true},        [WV_TRIAL] = {"trial", true, true},
    [WV_PROBE] = {"probe", true, true},         [WV_BEND] = {"bend", true, true},
    [WV_CLOSING] = {"close", true, false},      [WV_CERTIFY] = {"certify", true, true},
    [WV_FINISH] = {"finish", true, true},       [WV_REFINE] = {"refine", true, false},
    [WV_BOUND] = {"bound", false, false},       [WV_PILOT] = {"pilot", true, true},
    [WV_SEARCH] = {"fit", true, true},          [WV_SETTLE] = {"settle", true, true},
    [WV_AVERAGE] = {"average", true, true},     [WV_JOINT_TRIAL] = {"close", false, false},
    [WV_JOINT_FINAL] = {"close", false, false}, [WV_DONE] = {"done", false, false},
};

/* The two solvers. */
typedef struct {
    void (*begin)(wvgd_fit *);
    wvgd_status (*ask)(wvgd_fit *, wvgd_error *);
    wvgd_status (*tell)(wvgd_fit *, wvgd_error *);
    /* what is left is closed with as few draws as possible; given_up: the last batch was left undone */
    void (*hurry)(wvgd_fit *, wvgd_stop, bool given_up);
} solver;

static const solver *solver_of(const wvgd_fit *f)
{
    static const solver staged = {wv_staged_begin, wv_staged_ask, wv_staged_tell, wv_staged_hurry},
                        joint = {wv_joint_begin, wv_joint_ask, wv_joint_tell, wv_joint_hurry};
    return f->staged ? &staged : &joint;
}

void wv_fit_draw(wvgd_fit *f, uint64_t number, size_t k, wv_rng_use use, uint64_t first, size_t n, bool antithetic,
                 size_t at)
{
    wv_stream stream = {f->opt.seed, use, number, k};
    wv_gaussian_draw(&f->proposals.p[k].q, &stream, first, n, antithetic, f->b.x + at * f->D, f->arena);
    for (size_t i = at; i < at + n; i++)
        f->b.stratum[i] = (uint32_t)k;
}

static wv_step step_of(wvgd_fit *f)
{
    return (wv_step){.D = f->D,
                     .dense = f->dense,
                     .most_coefficients = f->size.p_max,
                     .arena = f->arena,
                     .limits = wv_tally_lend_limits(&f->tally)};
}

wv_update_result wv_fit_update(wvgd_fit *f, const wv_update *c)
{
    wv_step s = step_of(f);
    return wv_update_step(&s, c);
}

/* Whether there is a mixture, and how many components it may have. */
static size_t mixture_room(const wvgd_fit *f)
{
    return f->exploring && f->dense ? wv_draws_components(f->D, f->opt.components) : 0;
}

/* Whether there may be bent coordinates. */
static bool bends(const wvgd_fit *f)
{
    return f->staged && mixture_room(f) && f->opt.bend == WVGD_BEND_AUTO && (double)f->D <= wv_policy.bend_dimensions;
}

/* Cells that there may be at most. */
static size_t most_cells(const wvgd_fit *f)
{
    size_t most = f->staged && !f->given ? f->opt.most_particles : 0;
    return most > f->opt.particles ? most : f->opt.particles;
}

void wv_fit_expect_cells(wvgd_fit *f, size_t N)
{
    f->N = N;
    wv_partition_resize(&f->cells, N);
    wv_draws_resize_cells(&f->closing.draws, N);
    wv_trace_expect(&f->trace, N);
}

void wv_fit_set_cells(wvgd_fit *f, size_t N)
{
    size_t before = f->N;
    wv_trace_resize(&f->trace, N);
    wv_fit_expect_cells(f, N);
    wv_partition_forget(&f->cells, before);
}

bool wv_fit_may_have(const wvgd_fit *f, size_t N)
{
    return N >= f->opt.particles && N <= most_cells(f);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */
/* Doubles of scratch of one worker: several arrays as large as a batch, for a cell may have all of its points. */
static size_t arena_size(const wvgd_fit *f)
{
    size_t N = most_cells(f), D = f->D, n = f->size.n_max, any = n > f->size.close_max ? n : f->size.close_max,
           square = f->dense ? D * D : D, p = f->size.p_max;
    size_t points = wv_times(n + WV_BLOCK, wv_times(9, D) + 4 * f->cells.shape.R + 16),
           cells = wv_times(N, wv_times(28, D) + 64);
    size_t regression = wv_times(p, (f->dense ? p : 0) + WV_BLOCK + 8); /* by coordinates where no matrix is formed */
    size_t target = f->staged ? wv_times(WV_BLOCK, wv_times(f->mix.room + 1, D)) + f->mix.room : 0,
           line = D == 1 ? wv_times(2 * ((f->staged ? f->mix.room : N) + 2), 1024) : 0; /* quadrature on a cell */
    return points + cells + target + line + wv_times(any, 8) + wv_times(24, square) + regression + 65536;
}

/* And of the caller's, beside that: the mixture at all recent draws; statistics of all closing draws, and values of
 * functions (moments.c). */
static size_t mixture_size(const wvgd_fit *f)
{
    size_t K = f->mix.room, D = f->D, made = f->size.closing_proposals,
           moments = wv_times(f->size.close_max, D + (D < WV_BLOCK ? D : WV_BLOCK) + 32);
    if (!K)
        return 0;
    return wv_times(K + 1, f->recent.shape.room + 2 * (D * D + D + 2) + WV_BLOCK) +
           wv_draws_kept(D, K, f->opt.min_batch) + D * D * D + wv_times(made, made + WV_BLOCK + 3) + moments;
}

/* Workers, and views of the fit for those beside the caller. A cost function of the user's is called by one thread at a
 * time. */
static bool make_workers(wvgd_fit *f)
{
    size_t wanted = f->opt.cost == WVGD_CALLBACK ? 1 : f->opt.threads;
    wv_workers *w = &f->workers;
    if (!wv_workers_new(w, wanted, (wv_workers_room){arena_size(f) + mixture_size(f), arena_size(f)}))
        return false;
    f->arena = w->arena[0];
    f->view = calloc(w->n, sizeof *f->view);
    for (size_t v = 0; f->view && v + 1 < w->n; v++) {
        f->view[v].arena = w->arena[v + 1];
        f->view[v].workers = wv_workers_one(&w->arena[v + 1]); /* a task runs its own tasks alone */
    }
    return f->view != NULL;
}

void wvgd_free(wvgd_fit *f)
{
    if (!f)
        return;
    wv_workers_free(&f->workers);
    free(f->view);
    wv_explore_free(&f->explore);
    wv_images_free(&f->images);
    wv_modes_free(&f->modes);
    wv_mixture_free(&f->mix);
    wv_mixture_free(&f->mix_best);
    wv_mixture_free(&f->mix_tried);
    wv_bend_free(&f->bend);
    wv_bend_pool_free(&f->pool);
    wv_bent_free(&f->bent);
    wv_draws_free(&f->recent);
    wv_draws_free(&f->gathered);
    wv_staged_closing_free(&f->wide);
    wv_tail_probe_free(&f->probe);
    wv_chains_free(&f->chains);
    wv_certificate_free(&f->certificate);
    wv_finisher_free(&f->finish);
    wv_closing_free(&f->closing);
    wv_partition_free(&f->cells);
    wv_cell_refine_free(&f->refine);
    wv_halfspaces_free(&f->halfspaces);
    wv_cell_bound_free(&f->bound);
    wv_posterior_free(&f->posterior);
    wv_pilot_free(&f->pilot);
    wv_joint_free(&f->joint);
    wv_trace_free(&f->trace);
    wv_views_free(&f->views);
    wv_batch_free(&f->b);
    wv_differences_free(&f->differences);
    wv_proposals_free(&f->proposals);
    free(f);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */
typedef struct {
    wvgd_fit *f;
    wv_fit_task *task;
    void *context;
} job;

static void do_task(wv_arena *arena, void *self, size_t index)
{
    const job *s = self;
    wvgd_fit *f = s->f;
    for (size_t v = 0; arena != f->arena; v++)
        f = &s->f->view[v];
    s->task(f, s->context, index);
}

wvgd_status wv_fit_note(wvgd_fit *f, wvgd_error *error)
{
    return wv_trace_append(&f->trace, f->count.iteration, f->count.evaluations, f->count.seconds, f->cells.beta, error);
}

void wv_fit_run_tasks(wvgd_fit *f, size_t count, double work, wv_fit_task *task, void *context)
{
    size_t views = wv_workers_worth(&f->workers, count, work) ? f->workers.n - 1 : 0;
    wv_tally before = f->tally;
    for (size_t v = 0; v < views; v++)
        memcpy(&f->view[v], f, offsetof(wvgd_fit, workers));
    wv_workers_run(&f->workers, count, work, do_task, &(job){f, task, context});
    for (size_t v = 0; v < views; v++)
        wv_tally_add(&f->tally, &before, &f->view[v].tally);
}

double wv_fit_cheap(const wvgd_fit *f)
{
    return f->model.work > 0 ? fmin(wv_policy.cheap_work / f->model.work, WV_CHUNK / 2) : 0;
}

/* The run is over, but for what closes it. */
static bool out_of_time(const wvgd_fit *f)
{
    return !f->quantized && (f->stop == WVGD_TIME_UP || f->stop == WVGD_STOPPED);
}

bool wv_fit_try(wvgd_fit *f, wv_limit_work *work, void *context)
{
    if (out_of_time(f)) /* what is left has its grace, no more */
        wv_limit_set(&f->limit, wv_limit_clock(), f->limit.grace);
    return wv_limit_try(&f->limit, f->arena, work, context);
}

bool wv_fit_converged(const wvgd_fit *f)
{
    return f->stop == WVGD_CONVERGED || f->stop == WVGD_FINISHED;
}

bool wv_fit_hurried(const wvgd_fit *f)
{
    return out_of_time(f) || (!f->quantized && f->stop == WVGD_MAX_EVALUATIONS);
}

/* Points that may still be asked for. */
static double room_for_points(const wvgd_fit *f)
{
    size_t most = f->size.evaluations, done = f->count.evaluations;
    double room = most > done ? (double)(most - done) : 0;
    if (f->limit.cheapest > 0 && out_of_time(f))
        room = fmin(room, fmax(wv_policy.limit_closing, wv_policy.limit_closing_share * f->opt.max_seconds) /
                              f->limit.cheapest);
    return room;
}

size_t wv_fit_afford(wvgd_fit *f, size_t wanted, size_t parts)
{
    double most = fmax(room_for_points(f) / (double)parts, wv_policy.limit_closing_least);
    if ((double)wanted <= most)
        return wanted;
    if (f->stop == WVGD_RUNNING || wv_fit_converged(f))
        f->stop = WVGD_MAX_EVALUATIONS;
    return (size_t)most;
}

void wv_fit_cut_short(wvgd_fit *f)
{
    if (f->stop == WVGD_RUNNING || wv_fit_converged(f))
        f->stop = wv_limit_asked(&f->limit) ? WVGD_STOPPED : WVGD_TIME_UP;
}

/* ---- new --------------------------------------------------------------------------------------------------------- */
/* A given metric has finite entries and is symmetric, but for rounding. Whether it is positive definite shows later. */
static wvgd_status check_metric(const double *metric, size_t D, wvgd_error *error)
{
    const double rounding = 1e-10;
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++) {
            double below = metric[i * D + k], above = metric[k * D + i];
            if (!(fabs(below - above) <= rounding * fmax(fabs(below), fabs(above))))
                return wv_fail(
                    error, WVGD_E_ARGUMENT,
                    "the metric has %.17g in row %zu, column %zu and %.17g in row %zu, column %zu: it must be "
                    "symmetric, finite and positive definite",
                    below, i + 1, k + 1, above, k + 1, i + 1);
        }
    return WVGD_OK;
}

/* Whether D x D matrices are formed. */
static bool is_dense(const wvgd_model *model, const wvgd_options *o)
{
    return model->dim <= WV_DENSE || o->family == WVGD_FULL;
}

/* Whether the staged solver can do it: without gradients it takes differences of densities, in not too many
 * dimensions. */
static bool uses_staged(const wvgd_model *model, const wvgd_options *o)
{
    return o->solver == WVGD_STAGED && is_dense(model, o) && o->estimator == WVGD_NATURAL &&
           o->sampler == WVGD_MIXTURE && (model->has_gradient || model->dim <= WVGD_DIFFERENCES);
}

static wvgd_status check(const wvgd_model *model, const wvgd_options *o, const double *z0, wvgd_error *error)
{
    wvgd_status status = wv_options_check(o, error);
    if (status != WVGD_OK)
        return status;
    if (model->dim < 1 || model->dim > 1000000)
        return wv_fail(error, WVGD_E_ARGUMENT, "the model has %zu dimensions: expected 1 to 1000000", model->dim);
    if (o->init == WVGD_INIT_PRIOR && !model->start)
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "--init is prior, but %s has no prior to draw from: use explore or normal",
                       model->name ? model->name : "the model");
    if (!model->has_gradient && o->estimator != WVGD_SCORE && !uses_staged(model, o))
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "the model has no gradient: use --solver staged (up to %d dimensions, --sampler mixture), or "
                       "--estimator score",
                       WVGD_DIFFERENCES);
    if (o->family == WVGD_FULL && model->dim > 10 * WV_DENSE)
        return wv_fail(error, WVGD_E_ARGUMENT, "--family is full in %zu dimensions: use diag or lowrank above %d",
                       model->dim, 10 * WV_DENSE);
    if (o->estimator == WVGD_SCORE && o->family == WVGD_LOWRANK && model->dim > WV_DENSE)
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "--family is lowrank in %zu dimensions, without gradients: use diag above %d", model->dim,
                       WV_DENSE);
    if (o->estimator == WVGD_REPARAM && o->family == WVGD_LOWRANK)
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "--estimator reparam works with --family diag or full, not with lowrank");
    bool metric = o->metric && o->cost == WVGD_MAHALANOBIS && model->dim <= WV_DENSE;
    for (size_t i = 0; z0 && i < wv_times(o->particles, model->dim); i++)
        if (!isfinite(z0[i]))
            return wv_fail(error, WVGD_E_ARGUMENT,
                           "starting particle %zu has coordinate %zu = %g: expected a finite number",
                           i / model->dim + 1, i % model->dim + 1, z0[i]);
    return metric ? check_metric(o->metric, model->dim, error) : WVGD_OK;
}

/* Draws a component and iteration, where the user leaves it to us: enough for the regressions of D gradients
 * (natural), or of one log density on all statistics (score). */
static size_t default_draws(const wvgd_options *o, size_t D)
{
    size_t statistics = 2 * D + (o->family == WVGD_DIAG ? 0 : D * (D - 1) / 2),
           wanted = (size_t)(o->estimator == WVGD_SCORE ? wv_policy.draws_statistic * (double)statistics
                                                        : wv_policy.draws_dimension * (double)D),
           most = (size_t)(D <= WV_DENSE ? wv_policy.draws_most : wv_policy.draws_most_many),
           least = (size_t)(o->particles > 1 ? wv_policy.draws_least : wv_policy.draws_least_alone),
           room = (size_t)wv_policy.memory_draws / D;
    most = most < room ? most : room;
    wanted = wanted < most ? wanted : most;
    return wanted > least ? wanted + wanted % 2 : least;
}

/* Closing draws asked for at once: fewer in very many dimensions. */
static size_t closing_chunk(size_t D)
{
    size_t room = (size_t)wv_policy.memory_closing / D, least = (size_t)wv_policy.memory_closing_least;
    room = room > least / 4 ? room : least / 4;
    return room < WV_CHUNK ? room : WV_CHUNK;
}

/* Values of the density that a point with its gradient takes. */
static size_t values_a_point(const wvgd_fit *f)
{
    return f->model.has_gradient ? 1 : 2 * f->D + 1;
}

static void sizes(wvgd_fit *f)
{
    const wvgd_options *o = &f->opt;
    size_t D = f->D, N = f->N;
    f->size.M_least = o->draws ? o->draws : default_draws(o, D);
    f->size.M = wv_draws_widened(f->size.M_least, N, o->min_batch);
    size_t batch = wv_times(N, f->size.M);
    f->size.closing_proposals = mixture_room(f) ? 2 * mixture_room(f) + WV_WIDE_PROPOSALS : 0;
    size_t chunk = closing_chunk(D) + 4 * f->size.closing_proposals;
    f->size.n_max = batch > chunk ? batch : chunk;
    if (f->size.closing_proposals && wv_draws_points(D, mixture_room(f), o->min_batch) > f->size.n_max)
        f->size.n_max = wv_draws_points(D, mixture_room(f), o->min_batch);
    f->size.close_max = (size_t)wv_policy.closing_most;
    double finer = wv_policy.closing_budget_se / o->evidence_se;
    f->size.close_budget = (size_t)(wv_policy.closing_budget * fmax(1, finer * finer));
    f->size.evaluations = o->max_evaluations ? o->max_evaluations
                          : f->staged
                              ? (size_t)(wv_policy.limit_evaluations * fmax(1, finer * finer)) * values_a_point(f)
                              : SIZE_MAX;
    while (f->size.close_max > (size_t)wv_policy.memory_closing_least &&
           (double)f->size.close_max * (double)D > wv_policy.memory_closing)
        f->size.close_max /= 2;
    size_t full = 2 * D + wv_times(D, D - 1) / 2;
    f->size.p_max = 1 +
                    (f->dense && ((o->family != WVGD_DIAG && (double)full * wv_policy.score_draws < (double)batch) ||
                                  (f->N == 1 && (double)full < wv_policy.score_alone))
                         ? full
                         : 2 * D);
}

static wv_draws_shape recent_shape(const wvgd_fit *f)
{
    size_t K = mixture_room(f), D = K ? f->D : 0;
    return (wv_draws_shape){.D = D,
                            .room = K ? wv_draws_points(D, K, f->opt.min_batch) : 0,
                            .gradients = true,
                            .sources = K ? wv_draws_proposals(K) : 0,
                            .sums = true};
}

static wv_draws_shape gathered_shape(const wvgd_fit *f)
{
    size_t n = f->size.n_max < f->size.close_max ? f->size.n_max : f->size.close_max;
    return (wv_draws_shape){.D = f->D, .room = f->staged ? 0 : n};
}

/* Two batches of the staged solver, that of the trial and the final one, with their proposals. */
static wv_draws_shape closing_shape(const wvgd_fit *f)
{
    size_t K = f->staged ? mixture_room(f) : 0;
    return (wv_draws_shape){.D = f->D,
                            .room = f->size.close_max,
                            .gradients = f->staged && f->model.has_gradient,
                            .cells = most_cells(f),
                            .sources = f->staged ? 2 * f->size.closing_proposals : 0,
                            .cached = f->staged ? wv_draws_points(f->D, K, f->opt.min_batch) : 0,
                            .cached_sources = K + WV_WIDE_PROPOSALS};
}

static wv_shape cell_shape(const wvgd_fit *f)
{
    const wvgd_options *o = &f->opt;
    wv_shape s = {.N = most_cells(f),
                  .D = f->D,
                  .R = o->family == WVGD_LOWRANK ? (o->rank < f->D ? o->rank : f->D) : 0,
                  .family = wv_family_get(o->family),
                  .cell_family = wv_family_get(o->family == WVGD_FULL ? WVGD_FULL : WVGD_DIAG),
                  .metric_family = wv_family_get(f->dense ? WVGD_FULL : WVGD_DIAG)};
    s.cost = wv_cost_of(o, s.metric_family, s.cell_family);
    return s;
}

/* All memory of the iterations; wvgd_free takes what has been made. The cells come first: others ask for their shape.
 */
static bool make_parts(wvgd_fit *f)
{
    const wv_shape *s = &f->cells.shape;
    if (!wv_partition_new(&f->cells, cell_shape(f)))
        return false;
    size_t D = f->D, N = s->N, root = s->family->size(D, s->R), both = wv_times(N, wv_times(2, D + root));
    bool adam = f->opt.estimator == WVGD_REPARAM,
         pilot = f->opt.family == WVGD_DIAG && D > 1 && f->dense && f->opt.estimator == WVGD_NATURAL;
    size_t K = mixture_room(f), d = K ? D : 0, blind = f->staged && !f->model.has_gradient ? f->size.n_max : 0,
           asked = wv_differences_most(D, blind);
    wv_joint_sizes joint = {.adam = adam ? both : 0,
                            .group = f->staged ? 0 : wv_shared_proposals_size(f),
                            .tail_root = f->staged ? 0 : f->cells.shape.metric_family->size(D, 0)};
    wv_trace_new(&f->trace, N, N);
    return wv_halfspaces_new(&f->halfspaces, N, D, f->staged) && wv_cell_bound_new(&f->bound, f->staged ? N : 0) &&
           wv_posterior_new(&f->posterior, D) && wv_pilot_new(&f->pilot, D, pilot) &&
           wv_joint_new(&f->joint, N, D, joint) && wv_modes_new(&f->modes, D, f->dense, f->exploring) &&
           wv_explore_new(&f->explore, D, f->dense, f->exploring ? wv_explore_paths(D, f->opt.min_batch) : 0) &&
           wv_images_new(&f->images, D, f->dense && f->exploring) && wv_mixture_new(&f->mix, d, K) &&
           wv_mixture_new(&f->mix_best, d, K) && wv_mixture_new(&f->mix_tried, d, K) &&
           wv_bend_new(&f->bend, bends(f) ? D : 0, asked ? asked : f->size.n_max) &&
           wv_bend_pool_new(&f->pool, bends(f) ? D : 0) && wv_bent_new(&f->bent, bends(f) ? D : 0, bends(f) ? K : 0) &&
           wv_draws_new(&f->recent, recent_shape(f)) && wv_draws_new(&f->gathered, gathered_shape(f)) &&
           wv_tail_probe_new(&f->probe, d) &&
           wv_chains_new(&f->chains, d, d ? (size_t)fmax((double)f->modes.room, WV_WALKS) : 0) &&
           wv_certificate_new(&f->certificate, d) && wv_finisher_new(&f->finish, d) &&
           wv_cell_refine_new(&f->refine, D, wv_cell_refine_proposals(f), pilot) &&
           wv_closing_new(&f->closing, closing_shape(f)) && wv_staged_closing_new(&f->wide, f->staged ? D : 0) &&
           wv_batch_new(&f->b, f->size.n_max, D, N, f->model.has_gradient || f->staged) &&
           wv_differences_new(&f->differences, D, blind) &&
           wv_proposals_new(&f->proposals, N, f->size.closing_proposals, WV_PIECES) &&
           wv_views_new(&f->views, N, wv_times(N, D), wv_times(N, f->cells.shape.cell_family->size(D, 0))) &&
           make_workers(f);
}

/* The covariance root of a given metric: c = (a-b)' metric (a-b) = |A^-1 (a-b)|^2 with A A' = metric^-1. */
static bool given_metric(wvgd_fit *f)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *E = wv_arena_take(f->arena, D * D), *e = wv_arena_take(f->arena, D),
           *metric = wv_arena_take(f->arena, D * D), *spare = wv_arena_take(f->arena, D * D),
           *work = wv_arena_take(f->arena, wv_dense_eigh_work(D));
    memcpy(E, f->opt.metric, D * D * sizeof *E);
    bool definite = wv_dense_eigh(D, E, e, work) && e[0] > 0;
    for (size_t i = 0; i < D && definite; i++)
        e[i] = 1 / e[i];
    if (definite) {
        wv_dense_rebuild(D, E, e, metric, spare);
        definite = wv_dense_chol(D, metric, spare);
        wv_partition_set_metric(&f->cells, metric);
    }
    wv_arena_release(f->arena, mark);
    return definite;
}

/* Particles at z0 or at normal draws of the given scale, components and cells round with that scale. */
static void place(wvgd_fit *f, const double *z0)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D), *normal = wv_arena_take(f->arena, D), *z = wv_arena_take(f->arena, D),
           *metric = wv_arena_take(f->arena, f->cells.shape.metric_family->size(D, 0));
    for (size_t i = 0; i < D; i++)
        sd[i] = f->opt.init_scale;
    for (size_t j = 0; j < f->N; j++) {
        wv_stream stream = {f->opt.seed, WV_RNG_START, 0, 0};
        wv_rng_normal(&stream, j, D, z);
        cblas_dscal((int)D, f->opt.init_scale, z, 1);
        if (f->opt.init == WVGD_INIT_PRIOR && f->model.start) {
            wv_rng_normal(&stream, j, D, normal);
            f->model.start(f->model.start_self, normal, z);
        }
        if (z0)
            memcpy(z, z0 + j * D, D * sizeof *z);
        wv_partition_put(&f->cells, j, z);
    }
    wv_partition_set_sd(&f->cells, sd);
    f->cells.shape.metric_family->set_sd(D, 0, metric, sd);
    wv_partition_set_metric(&f->cells, metric);
    if (f->pilot.wanted) {
        double *root = wv_arena_take(f->arena, D * D);
        wv_family_get(WVGD_FULL)->set_sd(D, 0, root, sd);
        wv_pilot_start(&f->pilot, f->cells.now.z, root);
    }
    wv_arena_release(f->arena, mark);
}

/* Until the fit has learned the scales of the parameters: sds of the model's prior, or the scale that was given. */
static void scale_differences(wvgd_fit *f)
{
    if (!f->differences.room)
        return;
    size_t D = f->D, mark = wv_arena_mark(f->arena), n = f->model.start ? (size_t)wv_policy.differences_start_draws : 0;
    double *normal = wv_arena_take(f->arena, D), *z = wv_arena_take(f->arena, D), *first = wv_arena_zeros(f->arena, D),
           *second = wv_arena_zeros(f->arena, D), *scale = wv_arena_take(f->arena, D);
    for (size_t j = 0; j < n; j++) {
        wv_stream stream = {f->opt.seed, WV_RNG_START, 2, 0};
        wv_rng_normal(&stream, j, D, normal);
        f->model.start(f->model.start_self, normal, z);
        for (size_t i = 0; i < D; i++) { /* from what draws differ by from the first one */
            double y = j ? z[i] - scale[i] : 0;
            scale[i] = j ? scale[i] : z[i];
            first[i] += y / (double)n;
            second[i] += y * y / (double)n;
        }
    }
    for (size_t i = 0; i < D; i++)
        scale[i] = n ? sqrt(fmax(second[i] - first[i] * first[i], 0)) : f->opt.init_scale;
    wv_differences_set_scale(&f->differences, scale);
    wv_arena_release(f->arena, mark);
}

wvgd_fit *wvgd_new(const wvgd_model *model, const wvgd_options *options, const double *z0, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_new", "model", model) || wv_missing(error, "wvgd_new", "options", options))
        return NULL;
    if (check(model, options, z0, error) != WVGD_OK)
        return NULL;
    wvgd_fit *f = calloc(1, sizeof *f);
    if (f) {
        f->model = *model;
        f->opt = *options;
        f->N = options->particles;
        f->D = model->dim;
        f->dense = is_dense(model, options);
        f->staged = uses_staged(model, options);
        f->given = z0 != NULL;
        f->exploring = f->staged || (!z0 && options->init == WVGD_INIT_EXPLORE && model->has_gradient);
        sizes(f);
    }
    if (!f || !make_parts(f)) {
        wv_fail(error, WVGD_E_MEMORY, "no memory for %zu particles in %zu dimensions", options->particles, model->dim);
        wvgd_free(f);
        return NULL;
    }
    wv_fit_set_cells(f, f->N);
    place(f, z0);
    scale_differences(f);
    if (f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS && (!f->dense || !given_metric(f))) {
        wv_fail(error, WVGD_E_ARGUMENT, "the metric is not positive definite, or has more than %d dimensions",
                WV_DENSE);
        wvgd_free(f);
        return NULL;
    }
    wv_outcome_new(&f->outcome);
    wv_limit_set(&f->limit, INFINITY, wv_policy.limit_grace);
    solver_of(f)->begin(f);
    return f;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */
/* Ends the iterations: from here on only the closing pass. */
static void end_now(wvgd_fit *f, wvgd_stop stop)
{
    if (f->asked) {
        f->pending = stop;
        return;
    }
    if (f->stage != WV_DONE && !wv_fit_hurried(f))
        solver_of(f)->hurry(f, stop, false);
}

/* The same with the last batch left undone. */
static void give_up_batch(wvgd_fit *f, wvgd_stop stop)
{
    f->asked = false;
    solver_of(f)->hurry(f, stop, true);
}

void wvgd_stop_now(wvgd_fit *f)
{
    if (f)
        wv_limit_ask(&f->limit);
}

/* What wvgd_stop_now has asked for, since it was last looked for. */
static void obey(wvgd_fit *f)
{
    if (wv_limit_obey(&f->limit))
        end_now(f, WVGD_STOPPED);
}

void wv_fit_set_limit(wvgd_fit *f, double now)
{
    double most = f->opt.max_seconds;
    wv_limit_set(&f->limit, most > 0 ? now + most - f->count.seconds : INFINITY,
                 fmax(wv_policy.limit_grace, wv_policy.limit_grace_share * most));
}

/* Whether so many values are more evaluations than there are, but for what the final draws need. */
static bool exceeds(const wvgd_fit *f, size_t n)
{
    double most = (double)f->size.evaluations,
           kept = fmin(wv_policy.limit_reserve, wv_policy.limit_reserve_share * most);
    return (double)(f->count.evaluations + n) > most - (stages[f->stage].iterates ? kept : 0);
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
/* What the caller is asked for: the batch of the solver, or, for gradients that the model does not have, values around
 * its points (coordinates/differences.h). */
typedef struct {
    size_t n;
    const double *x; /* [n][D] */
    double *log_p;   /* [n] */
    double *grad;    /* [n][D], or NULL: no gradients are asked for */
} question;

static question question_of(const wvgd_fit *f)
{
    const wv_differences *d = &f->differences;
    if (d->n)
        return (question){d->n - d->known, (wv_bent_asks(f) ? f->bend.shown : d->x) + d->known * f->D,
                          wv_differences_lend(d) + d->known, NULL};
    return (question){f->b.n, wv_bent_asks(f) ? f->bend.shown : f->b.x, f->b.log_p,
                      stages[f->stage].gradient && f->model.has_gradient ? f->b.grad : NULL};
}

/* Scales along each coordinate with the others fixed: those of the mixture, or of the modes that ascents know. */
static void take_scales(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double *scale = wv_arena_take(f->arena, f->D);
    if (f->stage == WV_EXPLORE)
        wv_modes_scales(f, scale);
    else
        wv_mixture_scales(&f->mix, scale);
    wv_differences_set_scale(&f->differences, scale);
    wv_arena_release(f->arena, mark);
}

/* Are gradients asked for whose points have been asked for before? */
static bool climbs(const wvgd_fit *f)
{
    return f->stage == WV_EXPLORE && f->explore.phase == WV_CLIMB;
}

/* The search learns scales from curvature, but for ascents once there is a mode and differences are exact. */
static bool learns_scales(const wvgd_fit *f)
{
    bool known = f->modes.n && f->explore.phase != WV_ALONE && wv_differences_exact(&f->differences);
    return f->stage == WV_EXPLORE && !known;
}

/* The batch of the solver is there. Where it wants gradients that the model does not have, the stencil is made. */
static void make_question(wvgd_fit *f)
{
    wv_differences *d = &f->differences;
    wv_differences_leave(d);
    if (d->room && f->b.n && wv_staged_wants_gradient(f)) {
        bool learn = learns_scales(f);
        if (!learn && !d->again) /* else its answers have shown better scales */
            take_scales(f);
        wv_differences_expand(d, f->b.n, f->b.x, learn);
        if (climbs(f))
            wv_differences_know(d, f->b.log_p);
    }
    if (wv_bent_asks(f))
        wv_bend_show(&f->bend, d->n ? d->n : f->b.n, d->n ? d->x : f->b.x, f->arena);
}

wvgd_status wvgd_ask(wvgd_fit *f, size_t *n, const double **z, bool *gradient, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_ask", "fit", f) || wv_missing(error, "wvgd_ask", "n", n) ||
        wv_missing(error, "wvgd_ask", "z", z) || wv_missing(error, "wvgd_ask", "gradient", gradient))
        return WVGD_E_ARGUMENT;
    obey(f);
    const stage *now = &stages[f->stage];
    *n = 0;
    *z = NULL;
    *gradient = now->gradient && f->model.has_gradient;
    if (f->stage == WV_DONE)
        return WVGD_OK;
    if (!f->asked) {
        f->b.extra = 0;
        wvgd_status status = solver_of(f)->ask(f, error);
        if (status == WVGD_OK && f->stage != WV_DONE)
            make_question(f);
        if (status == WVGD_OK && f->stage != WV_DONE && !wv_fit_hurried(f) && exceeds(f, question_of(f).n)) {
            give_up_batch(f, WVGD_MAX_EVALUATIONS);
            return wvgd_ask(f, n, z, gradient, error);
        }
        if (status == WVGD_OK && f->stage == WV_DONE)
            return WVGD_OK;
        if (status == WVGD_OK && !f->b.n)
            status = wv_fail(error, WVGD_E_STATE, "stage %s has no points to ask for: the restored state is damaged",
                             now->name);
        if (status != WVGD_OK)
            return status;
        f->asked = true;
    }
    question q = question_of(f);
    *n = q.n;
    *z = q.x;
    return WVGD_OK;
}

/* A NaN or +INF density, or a NaN in the gradient, makes point i bad. */
static bool is_bad(const wvgd_fit *f, size_t i, const double *log_p, const double *grad)
{
    bool bad = isnan(log_p[i]) || log_p[i] == INFINITY;
    for (size_t k = 0; grad && !bad && log_p[i] > -INFINITY && k < f->D; k++)
        bad = !isfinite(grad[i * f->D + k]);
    return bad;
}

static void count_answers(wvgd_fit *f, size_t n, const double *log_p, const double *grad)
{
    for (size_t i = 0; i < n; i++) {
        f->count.bad_points += is_bad(f, i, log_p, grad);
        f->count.zero_points += log_p[i] == -INFINITY;
    }
    f->count.evaluations += n;
    f->b.values = n;
}

/* Takes the answers, which may stand in the batch already; bad points get density and gradient zero. */
static void clean(wvgd_fit *f, const double *log_p, const double *grad)
{
    wv_batch *b = &f->b;
    for (size_t i = 0; i < b->n; i++) {
        b->log_p[i] = is_bad(f, i, log_p, grad) ? -INFINITY : log_p[i];
        if (grad && b->log_p[i] == -INFINITY)
            memset(b->grad + i * f->D, 0, f->D * sizeof(double));
        else if (grad && grad != b->grad)
            memcpy(b->grad + i * f->D, grad + i * f->D, f->D * sizeof(double));
    }
}

/* The batch gets its answers. False: it is asked for again, since its stencil was too narrow or too wide. */
static bool answer(wvgd_fit *f, const double *log_p, const double *grad)
{
    wv_differences *d = &f->differences;
    question q = question_of(f);
    size_t points = f->b.n;
    count_answers(f, q.n, log_p, q.grad ? grad : NULL);
    f->count.widened += points ? q.n / points * f->b.extra : 0;
    if (!d->n) {
        clean(f, log_p, q.grad ? grad : NULL);
        f->count.points += points;
        if (wv_bent_asks(f))
            wv_bend_pull(&f->bend, points, f->b.x, f->b.log_p, q.grad ? f->b.grad : NULL, f->arena);
        return true;
    }
    memmove(q.log_p, log_p, q.n * sizeof *log_p);
    if (wv_bent_asks(f))
        wv_bend_pull(&f->bend, d->n, d->x, wv_differences_lend(d), NULL, f->arena);
    if (!wv_differences_collapse(d, wv_differences_lend(d), f->b.log_p, f->b.grad))
        return false;
    wv_outcome_set_roughness(&f->outcome, wv_differences_roughness(d));
    clean(f, f->b.log_p, f->b.grad);
    f->count.points += climbs(f) ? 0 : points;
    return true;
}

wvgd_status wvgd_tell(wvgd_fit *f, const double *log_p, const double *grad, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_tell", "fit", f))
        return WVGD_E_ARGUMENT;
    if (!f->asked)
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "wvgd_tell was called without wvgd_ask: no points are waiting for answers");
    if (!log_p || (question_of(f).grad && !grad))
        return wv_fail(error, WVGD_E_ARGUMENT, "wvgd_tell needs %s",
                       log_p ? "gradients in this stage" : "log densities");
    wvgd_status status = WVGD_OK;
    f->asked = false;
    if (answer(f, log_p, grad)) {
        f->count.batch++;
        status = solver_of(f)->tell(f, error);
    }
    obey(f);
    wvgd_stop stop = f->pending;
    f->pending = WVGD_RUNNING;
    if (stop != WVGD_RUNNING && status == WVGD_OK)
        end_now(f, stop);
    return status;
}

/* Points of one call of the model: as many as it answers soon; at first only as many as keep its threads busy. If the
 * bits of its answers depend on this number (`batched`), it follows from the work of a point, not from the clock. */
static size_t piece_size(const wvgd_fit *f)
{
    double most = wv_policy.step_piece, chunks = floor(wv_policy.step_piece_work / (f->model.work * WVGD_CHUNK)),
           least = f->model.thread_safe ? wv_policy.step_piece_thread * (double)f->opt.threads : 1,
           soon = f->limit.price > 0 ? wv_policy.step_piece_seconds / f->limit.price : wv_policy.step_piece_thread;
    if (f->model.batched)
        return f->model.work > 0 ? (size_t)fmin(fmax(chunks, 1) * WVGD_CHUNK, most) : (size_t)most;
    return (size_t)fmin(fmax(soon, least), most);
}

/* Evaluates the batch by pieces, between which it looks for a limit that has struck; the last one is not smaller than
 * the others. *stop: the limit that left points undone. */
static int evaluate(wvgd_fit *f, question q, size_t *done, wvgd_stop *stop)
{
    size_t n = q.n, D = f->D;
    bool may_stop = !wv_fit_hurried(f);
    int failure = 0;
    for (*done = 0; *done < n && !failure && *stop == WVGD_RUNNING;) {
        size_t piece = piece_size(f), at = *done, here = n - at < 2 * piece ? n - at : piece;
        double begin = wv_limit_clock();
        failure = f->model.log_density(f->model.self, here, q.x + at * D, q.log_p + at,
                                       q.grad ? q.grad + at * D : NULL);
        wv_limit_set_price(&f->limit, (wv_limit_clock() - begin) / (double)here);
        *done += here;
        if (!may_stop || *done == n)
            continue;
        if (wv_limit_asked(&f->limit))
            *stop = WVGD_STOPPED;
        else if (wv_limit_time_up(&f->limit))
            *stop = WVGD_TIME_UP;
    }
    return failure;
}

wvgd_status wvgd_step(wvgd_fit *f, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_step", "fit", f))
        return WVGD_E_ARGUMENT;
    double begin = wv_limit_clock();
    size_t n;
    const double *z;
    bool gradient;
    if (!f->model.log_density)
        return wv_fail(error, WVGD_E_ARGUMENT, "the model has no log_density: use wvgd_ask and wvgd_tell");
    wv_fit_set_limit(f, begin);
    wvgd_status status = wvgd_ask(f, &n, &z, &gradient, error);
    if (status != WVGD_OK || n == 0)
        return status;
    double asked = wv_limit_clock();
    wvgd_stop stop = WVGD_RUNNING;
    size_t done;
    question q = question_of(f);
    int failure = evaluate(f, q, &done, &stop);
    f->count.model_seconds += wv_limit_clock() - asked;
    if (failure)
        return wv_fail(error, WVGD_E_MODEL,
                       "%s: log_density returned %d in batch %zu, expected 0 (for a point without density set log_p to "
                       "-INFINITY, and return 0)",
                       f->model.name ? f->model.name : "the model", failure, f->count.batch + 1);
    if (stop == WVGD_RUNNING)
        status = wvgd_tell(f, q.log_p, q.grad, error);
    else { /* the batch is given up */
        f->count.evaluations += done;
        give_up_batch(f, stop);
    }
    f->count.seconds += wv_limit_clock() - begin;
    if (f->opt.max_seconds > 0 && f->count.seconds >= f->opt.max_seconds)
        end_now(f, WVGD_TIME_UP);
    return status;
}

wvgd_status wvgd_run(wvgd_fit *f, wvgd_progress_callback *callback, void *self, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_run", "fit", f))
        return WVGD_E_ARGUMENT;
    while (f->stage != WV_DONE) {
        wvgd_status status = wvgd_step(f, error);
        if (status != WVGD_OK)
            return status;
        wvgd_progress progress;
        wvgd_get_progress(f, &progress);
        if (callback && callback(self, &progress))
            end_now(f, WVGD_STOPPED);
    }
    return WVGD_OK;
}

void wvgd_get_progress(const wvgd_fit *f, wvgd_progress *p)
{
    if (p && !f)
        *p = (wvgd_progress){stages[WV_DONE].name, 0, 0, 0, 0, NAN, NAN, NAN, WVGD_RUNNING};
    if (!p || !f)
        return;
    *p = (wvgd_progress){stages[f->stage].name,  f->count.iteration, f->opt.max_iter,
                         f->count.evaluations,   f->count.seconds,   f->trace.last.pelbo.value,
                         f->trace.last.pelbo.se, f->trace.last.ess,  f->stop};
}

const char *wvgd_stop_name(wvgd_stop stop)
{
    static const char *const names[] = {"running", "converged",       "max_iter", "time_up",
                                        "stopped", "max_evaluations", "finished"};
    return (size_t)stop < sizeof names / sizeof *names ? names[stop] : "unknown";
}

const char *wvgd_version(void)
{
    return WVGD_VERSION;
}
