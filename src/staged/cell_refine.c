/* cell_refine.c - cells.c fits the components of the cells to the mixture, corrected by what the closing draws say:
 * as good as these. A single component is all that there is of the posterior, and a diagonal one looks at points
 * where the closing draws are few, so those are fitted to the posterior itself: rounds of draws of every component,
 * natural gradient steps on all of them, with deterministic-mixture weights (draws.c). */
#include "staged/cell_refine.h"
#include "fit.h"
#include "gaussian.h"
#include "cell_line.h"
#include "nearest.h"
#include "dense.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include "evidence.h"
#include "staged/mixture_fit.h"
#include "draws.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_cell_refine_new(wv_cell_refine *r, size_t D, size_t room, bool whole)
{
    *r = (wv_cell_refine){.room = room, .D = whole ? D : 0};
    const wv_slot slots[] = {{&r->root, wv_times(room, D * D)}, {&r->whole, 2 * r->D}};
    r->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return r->memory != NULL;
}

void wv_cell_refine_free(wv_cell_refine *r)
{
    free(r->memory);
}

void wv_cell_refine_archive(wv_cell_refine *r, wv_archive *a, bool running)
{
    wv_archive_array(a, r->whole, running ? 2 * r->D : 0);
}

size_t wv_cell_refine_proposals(const wvgd_fit *f)
{
    bool suits = f->staged && (f->N == 1 || (f->cells.shape.family != wv_family_get(WVGD_FULL) &&
                                             (double)f->D > wv_policy.refine_few_dimensions));
    return suits && 2 * f->N + 1 <= wv_draws_components(f->D, f->opt.components) ? 2 * f->N + 1 : 0;
}

/* Where there are more cells than the fit began with, there may be no room for their proposals. */
static bool has_room(const wvgd_fit *f)
{
    size_t wanted = wv_cell_refine_proposals(f);
    return wanted > 0 && wanted <= f->refine.room;
}

bool wv_cell_refine_wanted(const wvgd_fit *f)
{
    return has_room(f) && wv_fit_converged(f);
}

static bool diagonal(const wvgd_fit *f)
{
    return f->cells.shape.family == wv_family_get(WVGD_DIAG);
}

/* Several diagonal components may begin with the one that is best for the whole space: then the cells are no worse than
 * one component. */
static bool has_whole(const wvgd_fit *f)
{
    return f->N > 1 && f->pilot.wanted;
}

/* That component. It stands where the joint solver has its pilot's best, and is saved with that. */
static wv_gaussian whole(const wvgd_fit *f)
{
    return (wv_gaussian){f->cells.shape.family, f->D, f->cells.shape.R, f->refine.whole, f->refine.whole + f->D, 0};
}

/* Whether the present round fits it. */
static bool on_whole(const wvgd_fit *f)
{
    return has_whole(f) && (double)f->cells.refined < wv_policy.refine_whole_rounds;
}

/* Draws of a component in a round. */
static size_t draws(const wvgd_fit *f)
{
    double each = f->N > 1      ? (on_whole(f) ? wv_policy.refine_draws_whole : wv_policy.refine_draws_cell)
                  : diagonal(f) ? wv_policy.refine_draws_diagonal
                                : wv_policy.refine_draws_alone;
    size_t n = (size_t)each * f->D,
           least = (size_t)(f->N == 1 ? wv_policy.refine_draws_least_alone : wv_policy.refine_draws_least);
    return n > least ? n + n % 2 : least;
}

/* The last round with several components: what they began with is drawn from too, and the better of both is kept. */
static bool judging(const wvgd_fit *f)
{
    return f->N > 1 && (double)f->cells.refined + 1 == wv_policy.refine_rounds;
}

/* It begins with the posterior's mean, and with the sds that each coordinate has when the others are given. */
static void begin_whole(wvgd_fit *f)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *P = wv_arena_take(f->arena, D * D); /* the precision of the posterior */
    memcpy(f->refine.whole, f->posterior.mean, D * sizeof(double));
    memcpy(P, f->pilot.root, D * D * sizeof *P);
    bool inverted = LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, P, (lapack_int)D) == 0;
    for (size_t i = 0; i < D; i++)
        f->refine.whole[D + i] = inverted && P[i * D + i] > 0 ? 1 / sqrt(P[i * D + i]) : sqrt(f->posterior.var[i]);
    wv_arena_release(f->arena, mark);
}

void wv_cell_refine_begin(wvgd_fit *f)
{
    wv_draws_clear(&f->recent);
    if (has_whole(f))
        begin_whole(f);
    for (size_t j = 0; j < f->N; j++)
        wv_partition_keep_component(&f->cells, j); /* what it began with */
}

/* Draws of q join the batch, as a proposal with a full root of its own. */
static void propose(wvgd_fit *f, const wv_gaussian *q, uint64_t key)
{
    size_t D = f->D, c = f->proposals.n, n = draws(f), mark = wv_arena_mark(f->arena);
    double *root = f->refine.root + c * D * D, *spare = wv_arena_take(f->arena, D * D), *x = f->b.x + f->b.n * D;
    wv_stream stream = {f->opt.seed, WV_RNG_FIT, f->count.batch, key};
    wv_gaussian_cov(q, root, f->arena);
    if (wv_dense_chol(D, root, spare)) {
        f->proposals.p[c].q = (wv_gaussian){wv_family_get(WVGD_FULL), D, 0, q->mu, root, q->nu};
        f->proposals.draws[c] = n;
        if (q->nu > 0)
            wv_gaussian_draw(q, &stream, 0, n, true, x, f->arena);
        else
            wv_mixture_fit_draw_blocks(f, &f->proposals.p[c].q, &stream, n, x);
        f->proposals.n++;
        f->b.n += n;
    }
    wv_arena_release(f->arena, mark);
}

void wv_cell_refine_ask(wvgd_fit *f)
{
    f->b.n = f->proposals.n = 0;
    if (!has_room(f))
        return; /* a damaged state: there is nothing to ask for */
    if (has_whole(f) && (double)f->cells.refined <= wv_policy.refine_whole_rounds) {
        wv_gaussian q = whole(f);
        propose(f, &q, 0);
    }
    for (size_t j = 0; j < f->N && !on_whole(f); j++)
        for (int other = 0; other <= (judging(f) || f->cells.around[j] > 0); other++) {
            wv_gaussian q = !other       ? wv_partition_component(&f->cells, j)
                            : judging(f) ? wv_partition_kept_component(&f->cells, j)
                                         : wv_partition_proposal(&f->cells, j);
            propose(f, &q, 2 * j + 1 + (uint64_t)other);
        }
}

/* ---- what the draws tell ----------------------------------------------------------------------------------------- */
/* Cells of all points of the pool, from the arena. */
static const uint32_t *find_cells(wvgd_fit *f)
{
    size_t n = f->recent.n;
    uint32_t *cell = wv_arena_take_index(f->arena, n);
    size_t mark = wv_arena_mark(f->arena);
    double *near = wv_arena_take(f->arena, WV_FREE), *next = wv_arena_take(f->arena, WV_FREE);
    wv_geometry g = wv_partition_geometry(&f->cells);
    for (size_t first = 0; first < n; first += WV_FREE) {
        size_t here = n - first < WV_FREE ? n - first : WV_FREE;
        wv_nearest_assign(&g, here, f->recent.x + first * f->D, cell + first, near, next, f->arena);
    }
    wv_arena_release(f->arena, mark);
    return cell;
}

/* Points of the pool in one cell, with normalised weights u that stand for a Gaussian there, whose ELBO on the cell
 * they tell. */
typedef struct {
    size_t n;
    double *x, *grad, *log_p, *u; /* [n][D], [n][D], [n], [n] */
    double elbo;
} in_cell;

/* Adds the points that lie in cell j (N: anywhere); u[n], log_q[n]: weights and log densities of q at all points, r[n]:
 * scratch. */
static void add_points(const wvgd_fit *f, const uint32_t *cell, size_t j, const double *u, const double *log_q,
                       double *r, in_cell *to)
{
    size_t D = f->D, n = f->recent.n, kept = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (u[i] > 0 && f->recent.log_p[i] > -INFINITY && (cell[i] == j || j == f->N || f->N == 1)) {
            memcpy(to->x + kept * D, f->recent.x + i * D, D * sizeof(double));
            memcpy(to->grad + kept * D, f->recent.grad + i * D, D * sizeof(double));
            to->log_p[kept] = f->recent.log_p[i];
            r[kept] = f->recent.log_p[i] - log_q[i];
            sum += to->u[kept++] = u[i];
        }
    if (!(sum > 0))
        return;
    cblas_dscal((int)kept, 1 / sum, to->u, 1);
    to->elbo = log(sum) + cblas_ddot((int)kept, to->u, 1, r, 1);
    to->n = kept;
}

/* Points of the pool in cell j (N: anywhere) that stand for q there, in arrays from the arena, which the caller
 * releases. */
static in_cell gather(wvgd_fit *f, const uint32_t *cell, const wv_gaussian *q, size_t j)
{
    size_t n = f->recent.n, D = f->D;
    in_cell to = {0,
                  wv_arena_take(f->arena, n * D),
                  wv_arena_take(f->arena, n * D),
                  wv_arena_take(f->arena, n),
                  wv_arena_take(f->arena, n),
                  -INFINITY};
    size_t mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, n), *log_u = wv_arena_take(f->arena, n), *u = wv_arena_take(f->arena, n),
           *y = wv_arena_take(f->arena, n * D);
    wv_gaussian_log_density(q, n, f->recent.x, log_q, y, f->arena);
    for (size_t i = 0; i < n; i++)
        log_u[i] = log_q[i] - f->recent.log_sum[i];
    if (wv_weights_normalise(n, log_u, u))
        add_points(f, cell, j, u, log_q, log_u, &to);
    wv_arena_release(f->arena, mark);
    return to;
}

/* The ELBO of q on cell j; -INFINITY: no point tells it. */
static double elbo_on(wvgd_fit *f, const uint32_t *cell, const wv_gaussian *q, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    double elbo = gather(f, cell, q, j).elbo;
    wv_arena_release(f->arena, mark);
    return elbo;
}

/* Whether so many effective draws are enough to tell anything, and for a step. */
static bool told(double ess)
{
    return ess >= wv_policy.refine_step_draws;
}

static bool enough(const wvgd_fit *f, double ess)
{
    return told(ess) && ess > (double)draws(f) / wv_policy.refine_step_worn;
}

/* The same to compare by: -INFINITY also where next to no points stand for q. */
static double judged_elbo(wvgd_fit *f, const uint32_t *cell, const wv_gaussian *q, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    in_cell p = gather(f, cell, q, j);
    double elbo = p.n && told(wv_weights_ess(p.n, p.u)) ? p.elbo : -INFINITY;
    wv_arena_release(f->arena, mark);
    return elbo;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* One step of the component with location mu and the given root, fitted on cell j (N: everywhere); returns the nats
 * of a full step, NAN: it could not be taken. */
static double take_step(wvgd_fit *f, const uint32_t *cell, size_t j, double *mu, double *root, double rho)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_gaussian q = {f->cells.shape.family, f->D, f->cells.shape.R, mu, root, 0};
    in_cell p = gather(f, cell, &q, j);
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = f->cells.shape.family,
                   .R = f->cells.shape.R,
                   .mu = mu,
                   .root = root,
                   .n = p.n,
                   .x = p.x,
                   .log_p = p.log_p,
                   .grad = p.grad,
                   .u = p.u,
                   .ess = p.n ? wv_weights_ess(p.n, p.u) : 0,
                   .precondition = f->pilot.wanted ? f->pilot.root : NULL,
                   .rho = rho,
                   .truncated = f->N > 1 && j < f->N};
    wv_update_result r = enough(f, c.ess) ? wv_fit_update(f, &c) : (wv_update_result){false, 0};
    wv_arena_release(f->arena, mark);
    return r.ok ? r.kl : NAN;
}

/* Components that are worse on their cells than the one for the whole space begin with that; what
 * they begin with is kept. */
static void choose_starts(wvgd_fit *f, const uint32_t *cell)
{
    wv_gaussian all = whole(f);
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        if (judged_elbo(f, cell, &all, j) > judged_elbo(f, cell, &q, j))
            wv_partition_set_component(&f->cells, j, all.mu, all.root);
        wv_partition_keep_component(&f->cells, j);
    }
}

/* Components that are not better on their cells than what they began with are that again. */
static void keep_better(wvgd_fit *f, const uint32_t *cell)
{
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j), old = wv_partition_kept_component(&f->cells, j);
        if (!(judged_elbo(f, cell, &q, j) > judged_elbo(f, cell, &old, j)))
            wv_partition_recall_component(&f->cells, j);
    }
}

/* A component that is alone and has run away, as it does where the density has no end, goes back to where it began. */
static void catch_runaway(wvgd_fit *f)
{
    wv_gaussian q = wv_partition_component(&f->cells, 0), old = wv_partition_kept_component(&f->cells, 0);
    double now = f->cells.shape.family->log_det(f->D, f->cells.shape.R, q.root),
           before = f->cells.shape.family->log_det(f->D, f->cells.shape.R, old.root);
    if (f->N == 1 && !(fabs(now - before) < wv_policy.refine_runaway * (double)f->D))
        wv_partition_recall_component(&f->cells, 0);
}

/* The step of this round, as a share of the full one. */
static double step_share(const wvgd_fit *f)
{
    double at = (double)f->cells.refined - (on_whole(f) || !has_whole(f) ? 0 : wv_policy.refine_whole_rounds);
    return diagonal(f) && (f->N == 1 || on_whole(f)) ? 1 / (at + 1) : wv_policy.refine_first_step / fmax(1, at);
}

/* What a round does with its draws; returns the nats of full steps, weighted. */
static double use_draws(wvgd_fit *f, const uint32_t *cell)
{
    double kl = 0, rho = step_share(f);
    if (wv_cell_line_cells(f))
        return 0; /* quadrature has found the best: the draws are for the bound */
    if (on_whole(f)) {
        take_step(f, cell, f->N, f->refine.whole, f->refine.whole + f->D, rho);
        return 0;
    }
    if (judging(f)) {
        keep_better(f, cell);
        return 0;
    }
    if (has_whole(f) && (double)f->cells.refined == wv_policy.refine_whole_rounds)
        choose_starts(f, cell);
    for (size_t j = 0; j < f->N; j++) {
        wv_parameters q = wv_partition_lend(&f->cells, j);
        kl += f->cells.weight[j] * take_step(f, cell, j, q.mu, q.root, rho);
    }
    return kl;
}

/* Whether rounds have ended, after so many and with full steps of so many nats. */
static bool ended(const wvgd_fit *f, size_t rounds, double kl)
{
    double D = (double)f->D, parameters = diagonal(f) ? 2 * D : D * (D + 3) / 2;
    double caution = (double)rounds > wv_policy.refine_early_rounds ? 1 : wv_policy.refine_early_caution;
    return (f->N == 1 && kl < caution * wv_policy.refine_settled_gain * parameters) ||
           (double)rounds == wv_policy.refine_rounds || !wv_fit_converged(f);
}

bool wv_cell_refine_tell(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    /* draws of the component itself, in mirrored pairs, tell more than these and older ones with unequal weights */
    wv_draws_clear(&f->recent);
    wv_draws_take(&f->recent, &f->b, &f->proposals, &f->workers);
    double kl = use_draws(f, find_cells(f));
    wv_arena_release(f->arena, mark);
    wv_partition_count_round(&f->cells);
    bool complete = ended(f, f->cells.refined, kl);
    if (complete)
        catch_runaway(f);
    return complete;
}

void wv_cell_refine_weigh(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    const uint32_t *cell = find_cells(f);
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        wv_partition_set_elbo(&f->cells, j, f->cells.log_Z[j] > -INFINITY ? elbo_on(f, cell, &q, j) : -INFINITY);
    }
    wv_arena_release(f->arena, mark);
    wv_partition_weigh(&f->cells, f->cells.elbo);
}

double wv_cell_refine_price(wvgd_fit *f, const wv_gaussian *control, double se)
{
    size_t b = f->recent.batches;
    double sum = 0, squares = 0, pairs = 0;
    if (!b || !f->cells.refined)
        return 0;
    size_t first = f->recent.batch[b - 1].first, n = f->recent.batch[b - 1].n, mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, n), *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian_log_density(control, n, f->recent.x + first * f->D, log_q, y, f->arena);
    for (size_t i = 0; i + 1 < n; i += 2) {
        double d = (f->recent.log_p[first + i] - log_q[i] + f->recent.log_p[first + i + 1] - log_q[i + 1]) / 2;
        if (!isfinite(d))
            continue;
        sum += d;
        squares += d * d;
        pairs++;
    }
    wv_arena_release(f->arena, mark);
    return pairs > 2 ? 2 * fmax(squares / pairs - sum * sum / pairs / pairs, 0) / (se * se) : 0;
}
