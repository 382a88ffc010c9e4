/* fit.c - new, free, ask, tell, step, run. A fit goes through stages; each stage makes a batch of points (ask) and
 * takes their log densities (tell), and tell decides which stage comes next:
 *     staged   explore -> (mix -> try -> [crawl])* -> close -> bound -> done                 (staged.c)
 *     joint    [explore ->] [pilot ->] search -> settle -> average -> trial -> final -> done (joint.c, schedule.c,
 *                                                                                             joint_closing.c) */
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "thread_pool.h"
#include "staged/cell_bound.h"
#include "nearest.h"
#include "joint/joint_closing.h"
#include "simd/columns.h"
#include "dense.h"
#include "staged/explore.h"
#include "halfspaces.h"
#include "joint/shared_proposals.h"
#include "joint/joint.h"
#include "update/lowrank.h"
#include "staged/modes.h"
#include "moments.h"
#include "options.h"
#include "joint/full_prefit.h"
#include "draws.h"
#include "kmeans.h"
#include "staged/cell_refine.h"
#include "joint/schedule.h"
#include "staged/staged.h"
#include <cblas.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- stages ------------------------------------------------------------------------------------------------------ */
typedef struct {
    const char *name;
    wvgd_status (*ask)(wvgd_fit *, wvgd_error *);
    wvgd_status (*tell)(wvgd_fit *, wvgd_error *);
    bool gradient; /* wants gradients where the model has them */
} stage;

static const stage stages[] = {
    [WV_EXPLORE] = {"explore", wv_explore_ask, wv_explore_tell, true},
    [WV_MIX] = {"fit", wv_staged_ask, wv_staged_tell, true},
    [WV_TRY] = {"try", wv_staged_ask, wv_staged_tell, true},
    [WV_CRAWL] = {"crawl", wv_staged_ask, wv_staged_tell, true},
    [WV_CLOSE] = {"close", wv_staged_ask, wv_staged_tell, true},
    [WV_REFINE] = {"refine", wv_cell_refine_ask, wv_cell_refine_tell, true},
    [WV_BOUND] = {"bound", wv_cell_bound_ask, wv_cell_bound_tell, false},
    [WV_PILOT] = {"pilot", wv_full_prefit_ask, wv_full_prefit_tell, true},
    [WV_SEARCH] = {"fit", wv_joint_ask, wv_joint_tell, true},
    [WV_SETTLE] = {"settle", wv_joint_ask, wv_joint_tell, true},
    [WV_AVERAGE] = {"average", wv_joint_ask, wv_joint_tell, true},
    [WV_TRIAL] = {"close", wv_joint_closing_ask, wv_joint_closing_tell, false},
    [WV_FINAL] = {"close", wv_joint_closing_ask, wv_joint_closing_tell, false},
    [WV_DONE] = {"done", NULL, NULL, false},
};

/* ---- views ------------------------------------------------------------------------------------------------------- */
wv_gaussian wv_fit_component(const wvgd_fit *f, size_t j)
{
    return (wv_gaussian){f->family, f->D, f->R, f->now.mu + j * f->D, f->now.root + j * f->family->size(f->D, f->R), 0};
}

wv_gaussian wv_fit_spread(const wvgd_fit *f, size_t j)
{
    return (wv_gaussian){
        f->cell_family, f->D, 0, f->now.z + j * f->D, f->now.spread + j * f->cell_family->size(f->D, 0), 0};
}

bool wv_fit_same(const wvgd_fit *f, size_t i, size_t j)
{
    size_t D = f->D, size = f->family->size(D, f->R);
    return !memcmp(f->now.mu + i * D, f->now.mu + j * D, D * sizeof(double)) &&
           !memcmp(f->now.root + i * size, f->now.root + j * size, size * sizeof(double));
}

wv_gaussian wv_fit_around(const wvgd_fit *f, size_t j)
{
    wv_gaussian around = wv_fit_spread(f, j);
    /* cells may be unbounded and components in them decay like exponentials: no Gaussian covers that; in
     * many dimensions a t would waste its draws */
    around.nu = f->D <= 4 ? 6 : f->D <= 12 ? 16 : 0;
    return around;
}

void wv_fit_draw(wvgd_fit *f, uint64_t number, size_t k, wv_rng_use use, uint64_t first, size_t n, bool antithetic,
                 size_t at)
{
    wv_stream stream = {f->opt.seed, use, number, k};
    wv_gaussian_draw(&f->proposal[k].q, &stream, first, n, antithetic, f->b.x + at * f->D, f->work);
    for (size_t i = at; i < at + n; i++)
        f->b.stratum[i] = (uint32_t)k;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
typedef struct {
    double **where;
    size_t count;
} slot;

/* One block for all slots, zeroed or as it comes, or NULL. With `lines` each begins a cache line: vectors that
 * lie across two take twice as long to load. */
static double *carve(const slot *slots, size_t n, bool zeroed, bool lines, size_t *total)
{
    size_t line = lines ? 64 / sizeof(double) : 1, sum = line - 1;
    for (size_t i = 0; i < n; i++) {
        if (slots[i].count == SIZE_MAX || slots[i].count > SIZE_MAX / 16 - sum - line)
            return NULL;
        sum += (slots[i].count + line - 1) / line * line;
    }
    double *block = zeroed ? calloc(sum + 1, sizeof *block) : malloc((sum + 1) * sizeof *block);
    size_t at = (line - (uintptr_t)block / sizeof *block % line) % line;
    for (size_t i = 0; block && i < n; at += (slots[i++].count + line - 1) / line * line)
        *slots[i].where = slots[i].count ? block + at : NULL;
    *total = sum;
    return block;
}

static bool carve_saved(wvgd_fit *f)
{
    size_t N = f->N, D = f->D, ND = wv_times(N, D), root = wv_times(N, f->family->size(D, f->R));
    size_t spread = wv_times(N, f->cell_family->size(D, 0)), metric = f->metric_family->size(D, 0);
    size_t adam = f->opt.estimator == WVGD_REPARAM ? wv_times(2, ND + root) : 0, pilot = f->pilot ? D * D : 0;
    size_t modes = f->exploring ? wv_modes_most(f) : 0, paths = f->exploring ? wv_times(WV_PATHS, D) : 0,
           padded = f->exploring ? wv_times(WV_PATHS, wv_columns_round(D)) : 0, one = f->exploring ? D : 0;
    size_t frame = f->exploring ? wv_modes_root_size(f) : 0,
           stops = f->exploring ? WV_PATHS * wv_explore_stations(f) : 0;
    bool fits = f->exploring && f->dense;
    size_t K = fits ? wv_draws_components(f) : 0, pool = fits ? wv_draws_points(f) : 0,
           made = fits ? wv_draws_proposals(f) : 0, KD = wv_times(K, D), DD = fits ? D * D : 0;
    const slot slots[] = {
        {&f->now.z, ND},
        {&f->now.mu, ND},
        {&f->now.root, root},
        {&f->now.spread, spread},
        {&f->now.metric, metric},
        {&f->now.centre, D},
        {&f->now.elbo, N},
        {&f->now.losses, N},
        {&f->now.beta, N},
        {&f->now.beta2, N},
        {&f->best.z, ND},
        {&f->best.mu, ND},
        {&f->best.root, root},
        {&f->best.spread, spread},
        {&f->best.metric, metric},
        {&f->best.centre, D},
        {&f->best.elbo, N},
        {&f->best.losses, N},
        {&f->best.beta, N},
        {&f->best.beta2, N},
        {&f->pilot_mu, f->pilot ? D : 0},
        {&f->pilot_root, pilot},
        {&f->pilot_best, f->pilot ? D + pilot : 0},
        {&f->adam, adam},
        {&f->z_mark, ND},
        {&f->mode_x, wv_times(modes, D)},
        {&f->mode_root, wv_times(modes, wv_modes_root_size(f))},
        {&f->mode_frame, frame},
        {&f->scatter_centre, one},
        {&f->end_x, WV_ENDS * one},
        {&f->path_frame, frame},
        {&f->path_x, paths},
        {&f->path_p, paths},
        {&f->path_g, padded},
        {&f->path_q, padded},
        {&f->path_s, WV_KEPT * padded},
        {&f->path_y, WV_KEPT * padded},
        {&f->station_x, wv_times(stops, D)},
        {&f->station_root, wv_times(stops, wv_modes_root_size(f))},
        {&f->mix.mu, KD},
        {&f->mix.root, wv_times(K, DD)},
        {&f->mix.w, K},
        {&f->mix_best.mu, KD},
        {&f->mix_best.root, wv_times(K, DD)},
        {&f->mix_best.w, K},
        {&f->mix_tried.mu, KD},
        {&f->mix_tried.root, wv_times(K, DD)},
        {&f->mix_tried.w, K},
        {&f->pool.x, wv_times(pool, D)},
        {&f->pool.grad, wv_times(pool, D)},
        {&f->pool.log_p, pool},
        {&f->pool.log_sum, pool},
        {&f->pool.mu, wv_times(made, D)},
        {&f->pool.inverse, wv_times(made, DD)},
        {&f->pool.log_det, made},
        {&f->pool.share, made},
        {&f->pool.nu, made},
        {&f->pool.tails, made},
        {&f->crawl_x, fits ? 2 * WV_WALKS * D : 0},
        {&f->crawl_g, fits ? 2 * WV_WALKS * D : 0},
        {&f->crawl_p, fits ? 2 * WV_WALKS * D : 0},
        {&f->crawl_seen, fits ? WV_WALKS * WV_WALK * D : 0},
        {&f->crawl_log_p, fits ? WV_WALKS * WV_WALK : 0},
        /* from here on all of it is part of a saved state (state.c) */
        {&f->around, N},
        {&f->made, f->made_room},
        {&f->beta, N},
        {&f->beta_se, N},
        {&f->weight, N},
        {&f->weight_beta, N},
        {&f->log_Z, N},
        {&f->elbo, N},
        {&f->elbo_se, N},
        {&f->cell_ess, N},
        {&f->cell_k, N},
        {&f->close.sum_u, N},
        {&f->mean, D},
        {&f->var, D},
        {&f->mcse, D},
    };
    f->saved = carve(slots, sizeof slots / sizeof *slots, false, false, &f->saved_size);
    if (!f->saved)
        return false;
    /* with the pool between these two, most of it and mostly unused: not zeroed */
    double *end = f->saved + f->saved_size, *rest = fits ? f->crawl_x : end, *mixtures = fits ? f->mix.mu : end;
    memset(f->saved, 0, (size_t)(mixtures - f->saved) * sizeof *end);
    memset(rest, 0, (size_t)(end - rest) * sizeof *end);
    f->ensemble_size = (size_t)(f->best.z - f->now.z);
    f->mix_size = KD + wv_times(K, DD) + K;
    return true;
}

static bool carve_scratch(wvgd_fit *f)
{
    size_t N = f->N, D = f->D, n = f->n_max, nD = wv_times(n, D), C = f->close_max, any = n > C ? n : C;
    bool soft = f->opt.cells == WVGD_SOFT && N > 1, fits = f->exploring && f->dense, joint = !f->staged;
    size_t proposals = wv_times(3, N) + 3, K = fits ? wv_draws_components(f) : 0, pool = fits ? wv_draws_points(f) : 0;
    const slot slots[] = {
        {&f->b.x, nD},
        {&f->b.log_p, n},
        {&f->b.grad, f->model.has_gradient ? nD : 0},
        {&f->b.log_m, n},
        {&f->b.log_q, n},
        {&f->b.log_mix[0], n},
        {&f->b.log_mix[1], n},
        {&f->b.near, n},
        {&f->b.next, n},
        {&f->b.sum_u, N},
        {&f->close.x, wv_times(C, D)},
        {&f->close.log_p, C},
        {&f->close.log_m, C},
        {&f->close.log_q, C},
        {&f->close.log_mix[0], C},
        {&f->close.log_mix[1], C},
        {&f->close.near, C},
        {&f->close_v, C},
        {&f->close_log_w, C},
        {&f->close_smooth, C},
        {&f->close_spare, C},
        {&f->close_cal, C},
        {&f->close.grad, f->staged ? wv_times(C, D) : 0},
        {&f->mix_q, wv_times(K + 1, pool)},
        {&f->mix_log, pool},
        {&f->mix_u, pool},
        {&f->mix_grad, wv_times(pool, D)},
        {&f->mix_y, fits ? wv_draws_kept(f) : 0},
        {&f->mix_inverse, wv_times(K + 1, fits ? D * D : 0)},
        {&f->mix_det, K + 1},
        {&f->mix_made, 2 * (K + 1)},
        {&f->pool.part, wv_times(WV_BATCHES, pool)},
        {&f->mix_mu, wv_times(K, D)},
        {&f->mix_root, wv_times(K, fits ? D * D : 0)},
        {&f->facet, f->staged ? wv_times(N, D + 1) : 0},
        {&f->free_inverse, f->staged ? wv_times(K, D * D + D + 1) : 0},
        {&f->frame_turned, fits ? D * D : 0},
        {&f->lattice, f->staged ? WV_LATTICE * WV_LATTICE_POINTS : 0},
        {&f->mix_mass, f->staged ? N : 0},
        {&f->control, wv_times(f->made_room, f->made_room + 3 + WV_BLOCK)},
        {&f->stein, f->staged ? wv_moments_work(D) : 0},
        {&f->tail_mu, D},
        {&f->tail_root, f->metric_family->size(D, 0)},
        {&f->scale, joint ? wv_times(proposals, D + 1) : 0},
        {&f->alpha, joint ? proposals : 0},
        {&f->piece_u, joint ? wv_times(WV_PIECES, N) : 0},
        {&f->group, joint ? wv_shared_proposals_size(f) : 0},
        {&f->rounded, joint ? wv_nearest_rounded_size(N, D) : 0},
        {&f->soft_grad, soft ? nD : 0},
        {&f->sd_view, wv_times(N, D)},
        {&f->spread_view, wv_times(N, f->cell_family->size(D, 0))},
        {&f->pooled, n},
        {&f->cell_spare, N},
        {&f->step_kl, N},
        {&f->try_z, wv_times(3, wv_times(N, D))},
        {&f->sum_z, wv_times(N, D)},
        {&f->starts, wv_kmeans_size(f)},
    };
    f->scratch = carve(slots, sizeof slots / sizeof *slots, true, true, &f->scratch_size);
    f->scratch_index = calloc(wv_times(2, n) + wv_times(2, C) + any + N, sizeof(uint32_t));
    f->proposal = calloc(proposals + f->made_room, sizeof *f->proposal);
    f->share = calloc(proposals + f->made_room, sizeof *f->share);
    f->stretch = calloc(2 * proposals + 1 + WV_PIECES, sizeof *f->stretch);
    f->start = calloc(N + 1, sizeof *f->start);
    if (!f->scratch || !f->scratch_index || !f->proposal || !f->share || !f->stretch || !f->start)
        return false;
    f->b.cell = f->scratch_index;
    f->b.stratum = f->b.cell + n;
    f->own = f->b;
    f->close.cell = f->b.stratum + n;
    f->close.stratum = f->close.cell + C;
    f->order = f->close.stratum + C;
    f->member = f->order + any;
    return true;
}

/* The scratch of one worker. As large as a batch, for a cell may have all of its points; memory
 * that is never touched costs nothing. */
static bool carve_desk(wvgd_fit *f)
{
    size_t N = f->N, D = f->D, n = f->n_max, nD = wv_times(n, D), any = n > f->close_max ? n : f->close_max;
    size_t square = f->dense ? D * D : 0, p = f->p_max, rows = n > D ? n : D;
    size_t work = wv_gaussian_row_work(f->R > 1 ? f->R : 1, rows), absorb = wv_gaussian_absorb_work(f->dense ? D : 1);
    bool fits = f->exploring && f->dense, joint = !f->staged;
    size_t K = f->staged ? wv_draws_components(f) : 0;
    double *free_cell;
    const slot slots[] = {
        {&f->block, wv_times(WV_BLOCK, (f->staged ? N : wv_times(3, N) + 1) + D + 2)},
        {&f->narrow, wv_nearest_narrow_size(N, D)},
        {&f->gathered, joint ? wv_times(2 * WV_BLOCK, D) : 0},
        {&f->gx, nD},
        {&f->gg, nD},
        {&f->glp, n},
        {&f->glu, n},
        {&f->glv, n},
        {&f->gu, n},
        {&f->ga, n},
        {&f->gr, n},
        {&f->y, nD},
        {&f->gy, wv_times(n + WV_COLUMNS, D)},
        {&f->uy, nD},
        {&f->square[0], square},
        {&f->square[1], square},
        {&f->square[2], square},
        {&f->square[3], square},
        {&f->square[4], square},
        {&f->square[5], square},
        {&f->square[6], square},
        {&f->square[7], square},
        {&f->square[8], square},
        {&f->square[9], square},
        {&f->square[10], square},
        {&f->vector[0], D},
        {&f->vector[1], D},
        {&f->vector[2], D},
        {&f->vector[3], D},
        {&f->vector[4], D},
        {&f->vector[5], D},
        {&f->vector[6], D},
        {&f->vector[7], D},
        {&f->vector[8], D},
        {&f->vector[9], D},
        {&f->T, wv_times(WV_BLOCK, p)},
        {&f->F, wv_times(p, p)},
        {&f->Fc, p},
        {&f->Fm, p},
        {&f->syev, wv_dense_eigh_work(f->dense ? D : 1)},
        {&f->work, work > absorb ? work : absorb},
        {&f->undo, D + (f->pilot || fits ? D * D : f->family->size(D, f->R))},
        {&f->large, f->dense ? 0 : wv_lowrank_work(D, f->R, n)},
        {&free_cell, WV_FREE / 2},
        {&f->free_cost, 2 * WV_FREE},
        {&f->free_y, wv_times(WV_BLOCK * K, D)},
        {&f->free_log, K},
        {&f->wall, wv_times(N, D + 1)},
        {&f->psi, any},
        {&f->moving, n},
        {&f->columns, fits ? wv_draws_work(D) : 0},
        {&f->mix_e, 3 * (f->made_room + 3 * N + 3)},
        {&f->cell_mean, D},
        {&f->cell_root, f->staged ? D * D : 0},
        {&f->correction, f->staged ? 1 + 2 * D + D * (D - 1) / 2 : 0},
    };
    f->desk = carve(slots, sizeof slots / sizeof *slots, false, true, &f->desk_size);
    f->free_cell = f->desk ? (uint32_t *)(void *)free_cell : NULL;
    return f->desk != NULL;
}

/* The other workers; fewer than asked for, if there is no memory for them. A cost function of the
 * caller's is called by one thread at a time. */
static bool hire(wvgd_fit *f)
{
    size_t wanted = f->opt.cost == WVGD_CALLBACK ? 1 : f->opt.threads < WV_WORKERS ? f->opt.threads : WV_WORKERS;
    f->view = calloc(wanted, sizeof *f->view);
    for (size_t v = 0; f->view && v + 1 < wanted; v++) {
        memcpy(&f->view[v], f, offsetof(wvgd_fit, crew));
        if (!carve_desk(&f->view[v]))
            break;
        f->views++;
    }
    while (f->views && !wv_thread_pool_room(f->views))
        free(f->view[--f->views].desk);
    f->crew = f->view ? wv_thread_pool_new((unsigned)f->views + 1) : NULL;
    return f->crew != NULL;
}

void wvgd_free(wvgd_fit *f)
{
    if (!f)
        return;
    wv_thread_pool_free(f->crew);
    for (size_t v = 0; v < f->views; v++)
        free(f->view[v].desk);
    free(f->view);
    free(f->desk);
    free(f->saved);
    free(f->scratch);
    free(f->scratch_index);
    free(f->proposal);
    free(f->share);
    free(f->stretch);
    free(f->start);
    free(f->trace);
    free(f->trace_beta);
    free(f);
}

/* ---- work that is shared ----------------------------------------------------------------------------------------- */
typedef struct {
    wvgd_fit *f;
    wv_fit_task *task;
    void *context;
} shared;

static int do_task(void *self, size_t index, unsigned worker)
{
    const shared *s = self;
    s->task(worker ? &s->f->view[worker - 1] : s->f, s->context, index);
    return 0;
}

void wv_fit_share(wvgd_fit *f, size_t count, double work, wv_fit_task *task, void *context)
{
    wv_thread_pool *crew = f->crew;
    size_t restarts = f->s.restarts, lost = f->s.lost, limits = f->s.limits;
    if (!crew || count < 2 || work < f->worth_sharing || !f->views) {
        /* views have no crew: what is shared already is not shared again */
        for (size_t i = 0; i < count; i++)
            task(f, context, i);
        return;
    }
    for (size_t v = 0; v < f->views; v++)
        memcpy(&f->view[v], f, offsetof(wvgd_fit, crew));
    f->crew = NULL;
    wv_thread_pool_run(crew, count, do_task, &(shared){f, task, context});
    f->crew = crew;
    for (size_t v = 0; v < f->views; v++) {
        f->s.restarts += f->view[v].s.restarts - restarts;
        f->s.lost += f->view[v].s.lost - lost;
        f->s.limits += f->view[v].s.limits - limits;
    }
}

double wv_fit_cheap(const wvgd_fit *f)
{
    return f->model.work > 0 ? fmin(3e7 / f->model.work, WV_CHUNK / 2) : 0;
}

size_t wv_fit_piece(size_t n)
{
    enum { LEAST = 2 * WV_BLOCK };
    size_t piece = (n + WV_PIECES - 1) / WV_PIECES;
    piece = (piece + WV_BLOCK - 1) / WV_BLOCK * WV_BLOCK;
    return piece > LEAST ? piece : LEAST;
}

size_t wv_fit_pieces(size_t n)
{
    return (n + wv_fit_piece(n) - 1) / wv_fit_piece(n);
}

/* ---- new --------------------------------------------------------------------------------------------------------- */
static wvgd_status check(const wvgd_model *model, const wvgd_options *o, const double *z0, wvgd_error *error)
{
    wvgd_status status = wv_options_check(o, error);
    if (status != WVGD_OK)
        return status;
    if (model->dim < 1 || model->dim > 1000000)
        return wv_fail(error, WVGD_E_ARGUMENT, "the model has %zu dimensions: expected 1..1000000", model->dim);
    if (o->init == WVGD_INIT_PRIOR && !model->start)
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "init is prior, but %s names no prior to start from: use explore or normal",
                       model->name ? model->name : "the model");
    if (!model->has_gradient && o->estimator != WVGD_SCORE)
        return wv_fail(error, WVGD_E_ARGUMENT, "the model has no gradient: use estimator score");
    if (o->family == WVGD_FULL && model->dim > 10 * WV_DENSE)
        return wv_fail(error, WVGD_E_ARGUMENT, "family full in %zu dimensions: use diag or lowrank above %d",
                       model->dim, 10 * WV_DENSE);
    if (o->estimator == WVGD_SCORE && o->family == WVGD_LOWRANK && model->dim > WV_DENSE)
        return wv_fail(error, WVGD_E_ARGUMENT, "family lowrank without gradients in %zu dimensions: use diag above %d",
                       model->dim, WV_DENSE);
    if (o->estimator == WVGD_REPARAM && o->family == WVGD_LOWRANK)
        return wv_fail(error, WVGD_E_ARGUMENT, "estimator reparam works with family diag or full, not lowrank");
    for (size_t i = 0; z0 && i < wv_times(o->particles, model->dim); i++)
        if (!isfinite(z0[i]))
            return wv_fail(error, WVGD_E_ARGUMENT,
                           "starting particle %zu has coordinate %zu = %g: expected a finite number",
                           i / model->dim + 1, i % model->dim + 1, z0[i]);
    return WVGD_OK;
}

/* Draws a component and iteration, where the user leaves it to us: enough for the regressions of D gradients
 * (natural), or of one log density on all statistics (score). */
static size_t default_draws(const wvgd_options *o, size_t D)
{
    size_t statistics = 2 * D + (o->family == WVGD_DIAG ? 0 : D * (D - 1) / 2),
           wanted = o->estimator == WVGD_SCORE ? 2 * statistics : 4 * D;
    size_t most = D <= WV_DENSE ? 4096 : 512;
    wanted = wanted < most ? wanted : most;
    /* truncated components: fewer are biased, and more iterations do not repair it */
    size_t least = o->particles > 1 ? 128 : 64;
    return wanted > least ? wanted + wanted % 2 : least;
}

static void sizes(wvgd_fit *f)
{
    const wvgd_options *o = &f->opt;
    size_t D = f->D, N = f->N;
    f->R = o->family == WVGD_LOWRANK ? (o->rank < D ? o->rank : D) : 0;
    f->family = wv_family_get(o->family);
    f->cell_family = wv_family_get(o->family == WVGD_FULL ? WVGD_FULL : WVGD_DIAG);
    f->metric_family = wv_family_get(f->dense ? WVGD_FULL : WVGD_DIAG);
    f->M = o->draws ? o->draws : default_draws(o, D);
    f->pilot = o->family == WVGD_DIAG && D > 1 && f->dense && o->estimator == WVGD_NATURAL;
    f->pilot_draws = 4 * D > 64 ? 4 * D : 64;
    size_t batch = wv_times(N, f->M);
    f->made_room = f->exploring && f->dense ? 2 * wv_draws_components(f) + 1 : 0;
    f->n_max = batch > WV_CHUNK + 4 * f->made_room ? batch : WV_CHUNK + 4 * f->made_room;
    if (f->made_room && wv_draws_points(f) > f->n_max)
        f->n_max = wv_draws_points(f);
    f->close_max = 100000;
    double finer = 0.02 / o->evidence_se;
    f->close_budget = (size_t)(30000 * fmax(1, finer * finer));
    while (f->close_max > 10000 && f->close_max * D > 30000000)
        f->close_max /= 2;
    size_t full = 2 * D + wv_times(D, D - 1) / 2;
    f->p_max =
        1 + (f->dense && ((o->family != WVGD_DIAG && (double)full * 1.5 < (double)batch) || (f->N == 1 && full < 600))
                 ? full
                 : 2 * D);
}

/* The covariance root of a given metric: c = (a-b)' metric (a-b) = |A^-1 (a-b)|^2 with A A' = metric^-1. */
static bool given_metric(wvgd_fit *f)
{
    size_t D = f->D;
    double *E = f->square[0], *e = f->vector[0];
    memcpy(E, f->opt.metric, D * D * sizeof *E);
    if (!wv_dense_eigh(D, E, e, f->syev) || !(e[0] > 0))
        return false;
    for (size_t i = 0; i < D; i++)
        e[i] = 1 / e[i];
    wv_dense_rebuild(D, E, e, f->now.metric, f->square[1]);
    return wv_dense_chol(D, f->now.metric, f->square[1]);
}

/* Particles at z0 or at normal draws of the given scale, components and cells round with that scale. */
static void place(wvgd_fit *f, const double *z0)
{
    size_t D = f->D;
    double *sd = f->vector[0];
    for (size_t i = 0; i < D; i++)
        sd[i] = f->opt.init_scale;
    for (size_t j = 0; j < f->N; j++) {
        double *z = f->now.z + j * D;
        wv_stream stream = {f->opt.seed, WV_RNG_START, 0, 0};
        wv_rng_normal(&stream, j, D, z);
        cblas_dscal((int)D, f->opt.init_scale, z, 1);
        if (f->opt.init == WVGD_INIT_PRIOR && f->model.start) {
            wv_rng_normal(&stream, j, D, f->vector[1]);
            f->model.start(f->model.start_self, f->vector[1], z);
        }
        if (z0)
            memcpy(z, z0 + j * D, D * sizeof *z);
        memcpy(f->now.mu + j * D, z, D * sizeof *z);
        f->family->set_sd(D, f->R, f->now.root + j * f->family->size(D, f->R), sd);
        f->cell_family->set_sd(D, 0, f->now.spread + j * f->cell_family->size(D, 0), sd);
    }
    f->metric_family->set_sd(D, 0, f->now.metric, sd);
    if (f->pilot) {
        memcpy(f->pilot_mu, f->now.z, D * sizeof *sd);
        wv_family_get(WVGD_FULL)->set_sd(D, 0, f->pilot_root, sd);
    }
}

wvgd_fit *wvgd_new(const wvgd_model *model, const wvgd_options *options, const double *z0, wvgd_error *error)
{
    if (check(model, options, z0, error) != WVGD_OK)
        return NULL;
    wvgd_fit *f = calloc(1, sizeof *f);
    if (f) {
        f->model = *model;
        f->opt = *options;
        f->N = options->particles;
        f->D = model->dim;
        f->dense = f->D <= WV_DENSE || options->family == WVGD_FULL;
        f->staged = options->solver == WVGD_STAGED && model->has_gradient && f->dense &&
                    options->estimator == WVGD_NATURAL && options->sampler == WVGD_MIXTURE;
        f->given = z0 != NULL;
        f->worth_sharing = 5e5;
        f->exploring = f->staged || (!z0 && options->init == WVGD_INIT_EXPLORE && model->has_gradient);
        sizes(f);
    }
    if (!f || !carve_saved(f) || !carve_scratch(f) || !carve_desk(f) || !hire(f)) {
        wv_fail(error, WVGD_E_MEMORY, "no memory for %zu particles in %zu dimensions", options->particles, model->dim);
        wvgd_free(f);
        return NULL;
    }
    f->known = WV_KNOWN_NOTHING;
    place(f, z0);
    if (f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS && (!f->dense || !given_metric(f))) {
        wv_fail(error, WVGD_E_ARGUMENT, "the metric is not positive definite, or has more than %d dimensions",
                WV_DENSE);
        wvgd_free(f);
        return NULL;
    }
    for (size_t j = 0; j < f->N; j++)
        f->beta[j] = f->beta_se[j] = f->log_Z[j] = f->elbo[j] = f->elbo_se[j] = f->cell_ess[j] = f->cell_k[j] = NAN;
    for (size_t i = 0; i < f->D; i++)
        f->mean[i] = f->var[i] = f->mcse[i] = NAN;
    f->s.pelbo = f->s.pelbo_se = f->s.ess = f->s.distortion = f->s.distortion_se = f->s.meanfield_gap = f->s.pareto_k =
        NAN;
    f->s.bound = f->s.bound_beta = f->s.evidence = (wvgd_estimate){NAN, NAN};
    if (f->exploring)
        wv_explore_begin(f);
    else
        wv_joint_begin(f);
    return f;
}

/* ---- ask and tell ------------------------------------------------------------------------------------------------ */
wvgd_status wvgd_ask(wvgd_fit *f, size_t *n, const double **z, bool *gradient, wvgd_error *error)
{
    const stage *now = &stages[f->s.stage];
    *n = 0;
    *z = NULL;
    *gradient = now->gradient && f->model.has_gradient;
    if (f->s.stage == WV_DONE)
        return WVGD_OK;
    if (!f->asked) {
        wvgd_status status = now->ask(f, error);
        if (status == WVGD_OK && !f->b.n)
            status = wv_fail(error, WVGD_E_STATE,
                             "stage %s has no points to ask for: the state that was restored is damaged", now->name);
        if (status != WVGD_OK)
            return status;
        f->asked = true;
    }
    *n = f->b.n;
    *z = f->b.x;
    return WVGD_OK;
}

/* Takes the answers, which may stand in the batch already; a NaN or +INF density, or a NaN in the gradient, makes
 * a point bad: density and gradient zero. */
static void clean(wvgd_fit *f, const double *log_p, const double *grad)
{
    wv_batch *b = &f->b;
    for (size_t i = 0; i < b->n; i++) {
        bool bad = isnan(log_p[i]) || log_p[i] == INFINITY, zero = log_p[i] == -INFINITY;
        for (size_t k = 0; grad && !bad && !zero && k < f->D; k++)
            bad = !isfinite(grad[i * f->D + k]);
        b->log_p[i] = bad ? -INFINITY : log_p[i];
        if (grad && (bad || zero))
            memset(b->grad + i * f->D, 0, f->D * sizeof(double));
        else if (grad && grad != b->grad)
            memcpy(b->grad + i * f->D, grad + i * f->D, f->D * sizeof(double));
        f->s.bad_points += bad;
        f->s.zero_points += zero;
    }
    f->s.evaluations += b->n;
}

/* Ends the iterations: from here on only the closing pass. */
static void end_now(wvgd_fit *f, wvgd_stop stop)
{
    if (f->asked) {
        f->s.pending = stop;
        return;
    }
    if (f->s.stage >= WV_TRIAL)
        return;
    if (f->staged && f->s.stage <= WV_BOUND) {
        wv_staged_hurry(f, stop);
        return;
    }
    if (f->s.stage == WV_EXPLORE)
        wv_explore_settle(f);
    if (f->s.stage == WV_PILOT)
        wv_full_prefit_leave(f);
    wv_schedule_end(f, stop);
}

wvgd_status wvgd_tell(wvgd_fit *f, const double *log_p, const double *grad, wvgd_error *error)
{
    const stage *now = &stages[f->s.stage];
    bool gradient = now->gradient && f->model.has_gradient;
    if (!f->asked)
        return wv_fail(error, WVGD_E_ARGUMENT, "wvgd_tell without wvgd_ask: there are no points to tell about");
    if (!log_p || (gradient && !grad))
        return wv_fail(error, WVGD_E_ARGUMENT, "wvgd_tell needs %s",
                       log_p ? "gradients in this stage" : "log densities");
    clean(f, log_p, gradient ? grad : NULL);
    f->asked = false;
    f->s.batch++;
    wvgd_status status = now->tell(f, error);
    wvgd_stop stop = f->s.pending;
    f->s.pending = WVGD_RUNNING;
    if (stop != WVGD_RUNNING && status == WVGD_OK)
        end_now(f, stop);
    return status;
}

static double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void wvgd_stop_now(wvgd_fit *f)
{
    end_now(f, WVGD_STOPPED);
}

wvgd_status wvgd_step(wvgd_fit *f, wvgd_error *error)
{
    double begin = clock_seconds();
    size_t n;
    const double *z;
    bool gradient;
    if (!f->model.log_density)
        return wv_fail(error, WVGD_E_ARGUMENT, "the model has no log_density: use wvgd_ask and wvgd_tell");
    wvgd_status status = wvgd_ask(f, &n, &z, &gradient, error);
    if (status != WVGD_OK || n == 0)
        return status;
    double asked = clock_seconds();
    int failure = f->model.log_density(f->model.self, n, z, f->b.log_p, gradient ? f->b.grad : NULL);
    f->s.model_seconds += clock_seconds() - asked;
    if (failure)
        return wv_fail(error, WVGD_E_MODEL, "%s failed with code %d in batch %zu",
                       f->model.name ? f->model.name : "the model", failure, f->s.batch + 1);
    status = wvgd_tell(f, f->b.log_p, f->b.grad, error);
    f->s.seconds += clock_seconds() - begin;
    if (f->opt.max_seconds > 0 && f->s.seconds >= f->opt.max_seconds)
        end_now(f, WVGD_TIME_UP);
    return status;
}

wvgd_status wvgd_run(wvgd_fit *f, wvgd_progress_callback *callback, void *self, wvgd_error *error)
{
    while (f->s.stage != WV_DONE) {
        wvgd_status status = wvgd_step(f, error);
        if (status != WVGD_OK)
            return status;
        wvgd_progress progress;
        wvgd_get_progress(f, &progress);
        if (callback && callback(self, &progress))
            wvgd_stop_now(f);
    }
    return WVGD_OK;
}

void wvgd_get_progress(const wvgd_fit *f, wvgd_progress *p)
{
    *p = (wvgd_progress){stages[f->s.stage].name, f->s.iteration, f->opt.max_iter,
                         f->s.evaluations,        f->s.seconds,   f->s.pelbo,
                         f->s.pelbo_se,           f->s.ess};
}

const char *wvgd_stop_name(wvgd_stop stop)
{
    static const char *const names[] = {"running", "converged", "max_iter", "time_up", "stopped"};
    return names[stop];
}

const char *wvgd_version(void)
{
    return WVGD_VERSION;
}
