/* joint.c - the paper's dynamics, with exact estimators: an iteration draws a batch, weighs it, and moves every
 * particle and every component. Read it from wv_joint_tell at the end upwards (method, sections 2-4, 6; when
 * steps change and when to stop: schedule.c). */
#include "joint/joint.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
#include "gaussian.h"
#include "joint/batch_density.h"
#include "nearest.h"
#include "evidence.h"
#include "joint/shared_proposals.h"
#include "joint/particle.h"
#include "kmeans.h"
#include "joint/schedule.h"
#include "trace.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

bool wv_joint_new(wv_joint *j, size_t N, size_t D, wv_joint_sizes size)
{
    *j = (wv_joint){.N = N, .D = D, .adam_size = size.adam};
    const wv_slot slots[] = {{&j->z_mark, wv_times(N, D)},
                             {&j->adam, size.adam},
                             {&j->group, size.group},
                             {&j->tail_mu, size.tail_root ? D : 0},
                             {&j->tail_root, size.tail_root}};
    j->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    return j->memory != NULL;
}

void wv_joint_free(wv_joint *j)
{
    free(j->memory);
}

/* rows: of the trace, at most. */
bool wv_joint_archive(wv_joint *j, wv_archive *a, size_t rows)
{
    enum { SAVED = offsetof(wv_joint, z_mark) }; /* all numbers of eight bytes: there is no padding */
    wv_joint s = *j;
    wv_archive_values(a, &s, SAVED);
    if (s.phase_start > rows || s.marked > rows || s.trials > 4)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *j = s;
    wv_archive_array(a, j->z_mark, j->N * j->D);
    wv_archive_array(a, j->adam, j->adam_size);
    return true;
}

/* ---- the proposal ------------------------------------------------------------------------------------------------ */
/* Do groups of particles share proposals? */
static bool grouped(const wvgd_fit *f)
{
    return wv_shared_proposals_many(f) && f->opt.sampler == WVGD_MIXTURE && f->opt.cells != WVGD_SOFT;
}

/* Each cell's M draws come from its component and from a Student-t around its particle: half and half while the
 * component lies in its cell, fewer from a component that does not (a nearly flat one, whose own draws fall
 * elsewhere). One component needs only itself; many share proposals. */
static void propose(wvgd_fit *f)
{
    size_t N = f->N;
    bool spread = N > 1 && f->opt.sampler == WVGD_MIXTURE;
    f->proposals.n = spread ? 2 * N : N;
    for (size_t j = 0; j < N; j++) {
        double inside = f->count.iteration ? fmin(exp(f->cells.log_Z[j]), 1) : 1;
        size_t own = inside >= 0 ? 2 * (size_t)ceil((double)f->size.M / 2 * fmax(inside / (1 + inside), 0.125))
                                 : f->size.M / 2; /* an eighth at least: u_j <= 8 N */
        f->proposals.share[j] = spread && own < f->size.M ? own : f->size.M;
        f->proposals.p[j].q = wv_partition_component(&f->cells, j);
        if (spread) {
            f->proposals.share[N + j] = f->size.M - f->proposals.share[j];
            f->proposals.p[N + j].q = wv_partition_around(&f->cells, j);
        }
    }
    if (grouped(f))
        wv_shared_proposals_propose(f, wv_partition_around(&f->cells, 0).nu);
    for (size_t c = 0; c < f->proposals.n; c++)
        f->proposals.p[c].log_alpha = log((double)f->proposals.share[c] / (double)(N * f->size.M));
}

/* Keeps the draws of component j that fall into its own cell; returns how many. */
static size_t reject(wvgd_fit *f, size_t j, size_t at)
{
    wv_batch *b = &f->b;
    size_t D = f->D, kept = at;
    wv_nearest_assign(f, f->size.M, b->x + at * D, b->cell + at, b->near + at, b->next + at);
    for (size_t k = at; k < at + f->size.M; k++)
        if (b->cell[k] == j) {
            memmove(b->x + kept * D, b->x + k * D, D * sizeof(double));
            b->cell[kept] = b->cell[k];
            b->near[kept] = b->near[k];
            b->next[kept++] = b->next[k];
        }
    return kept - at;
}

/* Lists n points from `first` on as stretches, none of them too long; returns how many are listed now. */
static size_t list(wvgd_fit *f, size_t listed, size_t first, size_t n, size_t proposal)
{
    size_t piece = wv_fit_piece(f->b.n);
    for (size_t at = 0; at < n; at += piece)
        f->proposals.stretch[listed++] = (wv_stretch){first + at, n - at < piece ? n - at : piece, proposal, at};
    return listed;
}

static void draw_stretch(wvgd_fit *f, void *context, size_t k)
{
    const wv_stretch *s = &f->proposals.stretch[k];
    (void)context;
    wv_fit_draw(f, f->count.batch, s->proposal, WV_RNG_FIT, s->number, s->n, true, s->first);
}

static void draw(wvgd_fit *f)
{
    size_t listed = 0;
    f->b.n = f->N * f->size.M;
    for (size_t c = 0, at = 0; c < f->proposals.n; at += f->proposals.share[c++])
        listed = list(f, listed, at, f->proposals.share[c], c);
    wv_fit_share(f, listed, 10 * (double)(f->b.n * f->D), draw_stretch, NULL);
}

wvgd_status wv_joint_ask(wvgd_fit *f, wvgd_error *error)
{
    propose(f);
    if (f->opt.sampler == WVGD_MIXTURE) {
        draw(f);
        return WVGD_OK;
    }
    f->b.n = 0;
    for (size_t c = 0; c < f->proposals.n; c++) {
        wv_fit_draw(f, f->count.batch, c, WV_RNG_FIT, 0, f->proposals.share[c], true, f->b.n);
        f->b.n += reject(f, c, f->b.n);
    }
    return f->b.n ? WVGD_OK
                  : wv_fail(error, WVGD_E_NO_DRAWS, "no component has a draw in its own cell: use the mixture sampler");
}

/* ---- what the batch says ----------------------------------------------------------------------------------------- */
/* Points listed by cell: order[start[j] .. start[j+1]). */
static void sort_by_cell(wvgd_fit *f)
{
    memset(f->shared.start, 0, (f->N + 1) * sizeof *f->shared.start);
    for (size_t i = 0; i < f->b.n; i++)
        f->shared.start[f->b.cell[i] + 1]++;
    for (size_t j = 0; j < f->N; j++)
        f->shared.start[j + 1] += f->shared.start[j];
    for (size_t i = 0; i < f->b.n; i++)
        f->shared.order[f->shared.start[f->b.cell[i]]++] = (uint32_t)i;
    for (size_t j = f->N; j > 0; j--)
        f->shared.start[j] = f->shared.start[j - 1];
    f->shared.start[0] = 0;
}

/* Are particles looked at that might be worth more elsewhere, after so many iterations? Then costs
 * to the second nearest count, too. */
static bool moves_due(const wvgd_fit *f, size_t iterations)
{
    return f->N > 1 && f->stage == WV_SEARCH && iterations % 4 == 3 && f->joint.moves < 20 + 2 * f->N;
}

/* Cells of a stretch of points and, where proposals are shared (plan), their densities, as long as they are at hand. */
static void assign_stretch(wvgd_fit *f, void *context, size_t k)
{
    const wv_stretch *s = &f->proposals.stretch[k];
    const wv_batch_density_plan *plan = context;
    wv_batch *b = &f->b;
    wv_nearest_sieve sieve;
    bool second = moves_due(f, f->count.iteration + 1),
         pairs = s->proposal < f->proposals.n && wv_nearest_mirrored(f, f->proposals.p[s->proposal].q.mu, &sieve);
    for (size_t at = s->first, end = at + s->n, here; at < end; at += here) {
        here = pairs && end - at > 2 * WV_COLUMNS ? 2 * WV_COLUMNS : end - at;
        if (pairs)
            wv_nearest_assign_mirrored(f, &sieve, here, b->x + at * f->D, b->cell + at, b->near + at, b->next + at,
                                       second);
        else
            wv_nearest_assign(f, here, b->x + at * f->D, b->cell + at, b->near + at, b->next + at);
        if (plan)
            wv_batch_density_some(f, b, plan, at, here);
    }
}

/* Cells of the points. Draws of a proposal are pairs of mirror images; those of proposals with few
 * draws are taken together. */
static void assign(wvgd_fit *f, wv_batch_density_plan *plan)
{
    enum { MANY = 128 };
    size_t from = 0, at = 0, listed = 0;
    for (size_t c = 0; c < f->proposals.n; at += f->proposals.share[c++])
        if (plan && f->proposals.share[c] >= MANY) {
            listed = list(f, listed, from, at - from, f->proposals.n);
            listed = list(f, listed, at, f->proposals.share[c], c);
            from = at + f->proposals.share[c];
        }
    listed = list(f, listed, from, at - from, f->proposals.n);
    wv_nearest_prepare(f);
    wv_fit_share(f, listed, (double)(at * f->D) * (double)(f->N + (plan ? f->proposals.n : 0)), assign_stretch, plan);
}

/* Cells and densities. A rejected batch has only own draws: u = 1, and Z_j is the share kept. */
static void weigh(wvgd_fit *f)
{
    wv_batch *b = &f->b;
    const double *const w[2] = {f->cells.weight, NULL};
    memset(b->sum_u, 0, f->N * sizeof *b->sum_u);
    if (f->opt.sampler == WVGD_MIXTURE) {
        size_t mark = wv_arena_mark(f->arena);
        wv_batch_density_plan plan;
        if (grouped(f))
            plan = wv_batch_density_begin(f);
        assign(f, grouped(f) ? &plan : NULL);
        sort_by_cell(f);
        if (grouped(f))
            wv_batch_density_end(f, b, &plan, &(wv_cell_lists){f->shared.order, f->shared.start});
        else
            wv_batch_density(f, b, w);
        wv_arena_release(f->arena, mark);
        return;
    }
    sort_by_cell(f);
    for (size_t first = 0, end; first < b->n; first = end) {
        size_t j = b->cell[first];
        for (end = first; end < b->n && b->cell[end] == j; end++)
            ;
        wv_gaussian_log_density(&f->proposals.p[j].q, end - first, b->x + first * f->D, b->log_q + first, f->desk.y,
                                f->arena);
        b->sum_u[j] = (double)f->size.M;
        for (size_t k = first; k < end; k++) {
            b->log_m[k] = b->log_q[k];
            b->log_mix[0][k] = b->log_q[k];
        }
    }
}

/* Standard error of the bound from kept draws alone: of the mean of h = log p~ - log q, and of log
 * Z_j, a share of the draws. */
static double reject_se(const wvgd_fit *f)
{
    const wv_batch *b = &f->b;
    double variance = 0;
    for (size_t j = 0; j < f->N; j++) {
        double squares = 0, kept = 0, Z = exp(f->cells.log_Z[j]);
        for (size_t i = 0; i < b->n; i++)
            if (b->cell[i] == j && b->log_p[i] > -INFINITY) {
                double d = b->log_p[i] - b->log_q[i] - f->shared.cell_spare[j];
                squares += d * d;
                kept++;
            }
        if (kept > 1)
            variance += f->cells.weight[j] * f->cells.weight[j] * (squares / (kept - 1) + 1 - Z) / kept;
    }
    return sqrt(variance);
}

/* Masses, bound, distortion of the state that made the batch. The bound is judged with weights
 * from earlier batches, so it is one. */
static bool estimate(wvgd_fit *f)
{
    wv_batch *b = &f->b;
    for (size_t i = 0; i < b->n; i++)
        f->desk.psi[i] = b->log_p[i] - b->log_m[i];
    if (!wv_weights_normalise(b->n, f->desk.psi, f->shared.pooled))
        return false;
    memset(f->cells.beta, 0, f->N * sizeof *f->cells.beta);
    for (size_t i = 0; i < b->n; i++)
        f->cells.beta[b->cell[i]] += f->shared.pooled[i];
    f->last.ess = wv_weights_ess(b->n, f->shared.pooled);
    f->last.distortion = wv_evidence_mean(b->n, f->shared.pooled, b->near, 1).value;
    wv_evidence_elbo(f, b, f->cells.elbo, f->cells.log_Z, f->shared.cell_spare);
    if (f->count.iteration == 0)
        wv_evidence_weights(f->N, f->cells.elbo, f->cells.weight);
    wvgd_estimate bound = wv_evidence_bound(f, b, f->cells.weight, 0, f->cells.elbo, f->cells.log_Z,
                                            f->shared.cell_spare);
    f->last.pelbo = bound.value;
    f->last.pelbo_se = f->opt.sampler == WVGD_REJECT ? reject_se(f) : bound.se;
    return true;
}

/* ---- one cell ---------------------------------------------------------------------------------------------------- */
static void fetch(const double *row, size_t D)
{
    for (size_t i = 0; i < D; i += 64 / sizeof *row)
        __builtin_prefetch(row + i);
}

/* Numbers first and rows after them: with many cells none of them is in the cache, and those of
 * several points are waited for at once. */
static void gather(wvgd_fit *f, size_t j)
{
    const wv_batch *b = &f->b;
    const uint32_t *order = f->shared.order + f->shared.start[j];
    /* rows that are fetched before they are copied */
    size_t D = f->D, n = f->shared.start[j + 1] - f->shared.start[j], ahead = D < 16 ? 16 : 4;
    for (size_t k = 0; k < n; k++) {
        size_t i = order[k];
        double log_p = b->log_p[i], log_m = b->log_m[i];
        f->desk.glp[k] = log_p;
        f->desk.glu[k] = log_p > -INFINITY ? b->log_q[i] - log_m : -INFINITY;
        f->desk.glv[k] = log_p - log_m;
    }
    for (size_t k = 0; k < n; k++) {
        size_t i = order[k], next = f->shared.start[j] + k + ahead < b->n ? order[k + ahead] : i;
        fetch(b->x + next * D, D);
        if (f->model.has_gradient)
            fetch(b->grad + next * D, D);
        memcpy(f->desk.gx + k * D, b->x + i * D, D * sizeof(double));
        if (f->model.has_gradient)
            memcpy(f->desk.gg + k * D, b->grad + i * D, D * sizeof(double));
    }
}

/* Points of density zero drop out of the regressions (their weight is zero, their log density is
 * not a number to multiply by it). */
static size_t drop_zero(wvgd_fit *f, size_t n)
{
    size_t kept = 0, D = f->D;
    for (size_t k = 0; k < n; k++)
        if (f->desk.glp[k] > -INFINITY) {
            if (kept != k) {
                memcpy(f->desk.gx + kept * D, f->desk.gx + k * D, D * sizeof(double));
                memcpy(f->desk.gg + kept * D, f->desk.gg + k * D, D * sizeof(double));
                f->desk.glp[kept] = f->desk.glp[k];
                f->desk.glu[kept] = f->desk.glu[k];
                f->desk.glv[kept] = f->desk.glv[k];
            }
            kept++;
        }
    return kept;
}

void wv_joint_restart(wvgd_fit *f, size_t j)
{
    size_t both = f->D + f->family->size(f->D, f->R);
    wv_partition_restart_component(&f->cells, j, f->prefit.wanted ? f->prefit.root : NULL, f->arena);
    if (f->joint.adam)
        memset(f->joint.adam + j * 2 * both, 0, 2 * both * sizeof(double));
    f->tally.restarts++;
}

/* What component j is fitted to with soft cells: log p~ + log r_j, r_j = w_j q_j / sum_k w_k q_k,
 * at every point of the batch. */
static size_t soften(wvgd_fit *f, size_t j)
{
    const wv_batch *b = &f->b;
    size_t n = 0, D = f->D;
    wv_gaussian_log_density(&f->proposals.p[j].q, b->n, b->x, f->desk.psi, f->desk.y, f->arena);
    for (size_t i = 0; i < b->n; i++) {
        double log_u = f->desk.psi[i] - b->log_m[i];
        if (!(b->log_p[i] > -INFINITY) || log_u < -30 || b->log_mix[0][i] == -INFINITY)
            continue;
        memcpy(f->desk.gx + n * D, b->x + i * D, D * sizeof(double));
        f->desk.glp[n] = b->log_p[i] + f->desk.psi[i] - b->log_mix[0][i];
        f->desk.glu[n] = log_u;
        if (f->model.has_gradient)
            for (size_t d = 0; d < D; d++)
                f->desk.gg[n * D + d] = b->grad[i * D + d] - f->shared.soft_grad[i * D + d];
        n++;
    }
    if (f->model.has_gradient) { /* + grad log q_j = -A'^-1 y */
        wv_gaussian_whiten(&f->proposals.p[j].q, n, f->desk.gx, f->desk.y, f->arena);
        f->proposals.p[j].q.family->push(D, f->R, f->proposals.p[j].q.root, n, f->desk.y, f->arena);
        cblas_daxpy((int)(n * D), -1.0, f->desk.y, 1, f->desk.gg, 1);
    }
    return n;
}

/* soft_grad = grad log sum_k w_k q_k at every point, */
static void mixture_gradient(wvgd_fit *f, void *context, size_t piece)
{
    const wv_batch *b = context;
    size_t D = f->D, first = piece * wv_fit_piece(b->n),
           n = b->n - first < wv_fit_piece(b->n) ? b->n - first : wv_fit_piece(b->n);
    double *out = f->shared.soft_grad + first * D;
    memset(out, 0, n * D * sizeof *out);
    for (size_t j = 0; j < f->N; j++) {
        if (!(f->cells.weight[j] > 0))
            continue;
        const wv_gaussian *q = &f->proposals.p[j].q;
        wv_gaussian_log_density(q, n, b->x + first * D, f->desk.psi, f->desk.y, f->arena);
        q->family->push(D, q->R, q->root, n, f->desk.y, f->arena);
        for (size_t i = 0; i < n; i++)
            cblas_daxpy((int)D, -exp(log(f->cells.weight[j]) + f->desk.psi[i] - b->log_mix[0][first + i]),
                        f->desk.y + i * D, 1, out + i * D, 1);
    }
}

/* piece by piece. */
static void mixture_gradients(wvgd_fit *f)
{
    wv_fit_share(f, wv_fit_pieces(f->b.n), (double)(f->b.n * f->N * f->D), mixture_gradient, &f->b);
}

/* A component that runs away from its cell begins again, with steps half as long; so often (in a tail whose best fit
 * is an exponential or flatter, say), and it is no longer fitted but given the moments of the posterior in the cell. */
static const double patience = 6;

bool wv_joint_gave_up(const wvgd_fit *f, size_t j)
{
    return f->N > 1 && f->cells.now.losses[j] >= patience;
}

/* Components cut by their cell (less than this mass inside) need the boundary term. */
static const double hardly_cut = 0.98;

/* The step of component j where that of the others is rho: as if its phase had begun with a shorter one. */
static double own_step(const wvgd_fit *f, size_t j, double rho)
{
    return 1 / (1 / rho + (exp2(f->cells.now.losses[j]) - 1) / f->joint.rho);
}

static void move_component(wvgd_fit *f, size_t j, size_t n, double rho, bool soft)
{
    size_t D = f->D, size = f->family->size(D, f->R);
    double enough = D == 1 ? 4 : 6;
    wv_update c = {.estimator = f->opt.estimator,
                   .family = f->family,
                   .R = f->R,
                   .mu = f->cells.now.mu + j * D,
                   .root = f->cells.now.root + j * size,
                   .n = n,
                   .x = f->desk.gx,
                   .log_p = f->desk.glp,
                   .grad = f->model.has_gradient ? f->desk.gg : NULL,
                   .u = f->desk.gu,
                   .rho = own_step(f, j, rho),
                   .truncated = !soft && f->N > 1 && f->cells.log_Z[j] < log(hardly_cut),
                   .precondition = f->prefit.wanted ? f->prefit.root : NULL,
                   .adam = f->joint.adam ? f->joint.adam + j * 2 * (D + size) : NULL,
                   .time = f->count.iteration + 1};
    bool some = wv_weights_normalise(n, f->desk.glu, f->desk.gu);
    c.ess = wv_weights_ess(n, f->desk.gu);
    if (wv_joint_gave_up(f, j)) { /* the Gaussian of the cell's moments will do */
        wv_joint_restart(f, j);
        return;
    }
    wv_update_result r = some && c.ess >= enough ? wv_update_component(f, &c) : (wv_update_result){false, 0};
    if (r.ok)
        f->shared.step_kl[j] += r.kl;
    else {
        f->cells.now.losses[j] += 1;
        f->tally.lost += f->cells.weight[j] > 0.01;
        wv_joint_restart(f, j);
    }
}

/* Does the cost follow the posterior? */
static bool followed(const wvgd_fit *f)
{
    return f->opt.cost == WVGD_MAHALANOBIS && !f->opt.metric && f->N > 1;
}

typedef struct {
    double rho, lambda; /* steps of components and of particles, as shares of full ones */
    bool soft;
} steps;

/* Cell j: the particle towards its posterior mean, the component towards p_j. f->shared.cell_spare: what
 * the particle has walked. */
static void move_cell(wvgd_fit *f, void *context, size_t j)
{
    const steps *by = context;
    size_t n = f->shared.start[j + 1] - f->shared.start[j];
    gather(f, j);
    n = drop_zero(f, n);
    f->shared.step_kl[j] = f->shared.cell_spare[j] = 0;
    if (n < 3)
        return;
    double moved = by->lambda > 0 ? wv_particle_step(f, j, (wv_cell_points){n, f->desk.gx, f->desk.glu, f->desk.glv},
                                                     by->lambda, f->desk.ga, f->desk.vector[9])
                                  : -1;
    if (moved >= 0) {
        f->shared.cell_spare[j] = f->cells.beta[j] * by->lambda * by->lambda * moved;
        for (size_t k = 0, to = f->shared.start[j]; to < f->shared.start[j + 1] && followed(f); to++)
            f->shared.pooled[f->shared.order[to]] =
                f->b.log_p[f->shared.order[to]] > -INFINITY ? f->cells.beta[j] * f->desk.ga[k++] : 0;
    }
    if (by->soft)
        n = soften(f, j);
    move_component(f, j, n, by->rho, by->soft);
}

static void move_cells(wvgd_fit *f, steps by)
{
    double work = (double)(f->b.n * f->D) * (f->family == wv_family_get(WVGD_DIAG) ? 8 : (double)f->D);
    bool ordered = wv_particle_ordered(f);
    if (!ordered)
        wv_fit_share(f, f->N, work, move_cell, &by);
    for (size_t j = 0; j < f->N; j++) {
        if (ordered)
            move_cell(f, &by, j);
        f->joint.walked += f->shared.cell_spare[j];
        f->last.step += f->cells.weight[j] * f->shared.step_kl[j];
    }
}

/* ---- the metric -------------------------------------------------------------------------------------------------- */
/* The posterior's mean and covariance, from the pooled weights, smoothed: the mahalanobis cost follows them. */
static void follow_posterior(wvgd_fit *f, double lambda)
{
    size_t D = f->D, n = f->b.n;
    double ess = wv_weights_ess(n, f->shared.pooled), keep = lambda * ess / (ess + (double)D),
           total = cblas_dasum((int)n, f->shared.pooled, 1);
    if (!(total > 0))
        return;
    cblas_dscal((int)n, 1 / total, f->shared.pooled, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, f->b.x, (int)D, f->shared.pooled, 1, 0.0,
                f->cells.now.centre, 1);
    wv_gaussian_follow(f->metric_family, D, f->cells.now.metric, f->cells.now.centre, n, f->b.x, f->shared.pooled, keep,
                       f->desk.y, f->desk.square[0], f->arena);
}

/* ---- the iteration ----------------------------------------------------------------------------------------------- */
/* Masses of moved cells, together, below which everything goes on as before. */
static const double light = 0.05;

/* A particle to where it is worth more. Returns whether that matters to what the last iterations have shown. */
static bool move_particles(wvgd_fit *f)
{
    size_t moved[2];
    if (!moves_due(f, f->count.iteration) || f->last.ess < 10 * (double)f->N ||
        !wv_particle_move(f, &f->b, f->desk.moving, &(wv_cell_lists){f->shared.order, f->shared.start}, moved))
        return false;
    for (int i = 0; i < 2; i++) {
        wv_joint_restart(f, moved[i]);
        f->cells.now.losses[moved[i]] = 0;
    }
    f->joint.moves++;
    if (f->cells.beta[moved[0]] + f->cells.beta[moved[1]] < light)
        return false;
    /* judged anew: components that begin again are worse at first, and that is no reason for shorter steps */
    f->joint.best = -INFINITY;
    return true;
}

/* Smoothed ELBO_j, whose softmax judges the next batch; with the cells at rest, plain averages of
 * them and of the masses. */
static void remember(wvgd_fit *f)
{
    double k = f->stage == WV_AVERAGE ? (double)f->joint.averaged : 0,
           share = f->stage == WV_AVERAGE ? 1 / (k + 1) : 0.2;
    for (size_t j = 0; j < f->N; j++) {
        if (f->cells.elbo[j] > -INFINITY) {
            bool known = f->cells.now.elbo[j] > -INFINITY && (f->stage != WV_AVERAGE || k > 0);
            f->cells.now.elbo[j] = known ? f->cells.now.elbo[j] + share * (f->cells.elbo[j] - f->cells.now.elbo[j])
                                         : f->cells.elbo[j];
        }
        f->cells.now.beta[j] += k > 0 ? share * (f->cells.beta[j] - f->cells.now.beta[j])
                                      : f->cells.beta[j] - f->cells.now.beta[j];
        f->cells.now.beta2[j] += k > 0 ? share * (f->cells.beta[j] * f->cells.beta[j] - f->cells.now.beta2[j])
                                       : f->cells.beta[j] * f->cells.beta[j] - f->cells.now.beta2[j];
    }
    double d = f->last.distortion, rate = k > 0 ? share : 1;
    f->joint.distortion1 += rate * (d - f->joint.distortion1);
    f->joint.distortion2 += rate * (d * d - f->joint.distortion2);
    wv_evidence_weights(f->N, f->cells.now.elbo, f->cells.weight);
}

wvgd_status wv_joint_tell(wvgd_fit *f, wvgd_error *error)
{
    bool soft = f->opt.cells == WVGD_SOFT && f->stage == WV_SEARCH && f->N > 1;
    /* 1/k averages; preconditioned means may be pulled too weakly in some directions, and 2/k
     * forgives that for a third more noise */
    double k = (double)f->joint.averaged,
           rho = f->stage == WV_AVERAGE ? 1 / (1 / f->joint.rho + (f->prefit.wanted ? k / 2 : k)) : f->joint.rho;
    double lambda = wv_schedule_lambda(f, rho);
    weigh(f);
    if (!estimate(f))
        return wv_fail(
            error, WVGD_E_NO_DRAWS,
            "none of the %zu points of iteration %zu has a finite log density: check the model, or start elsewhere",
            f->b.n, f->count.iteration + 1);
    if (f->stage == WV_SEARCH && f->N > 1)
        wv_kmeans_pool(f);
    bool back = wv_schedule_fell(f);
    f->last.step = 0;
    if (!back) {
        if (moves_due(f, f->count.iteration + 1))
            memcpy(f->desk.moving, f->shared.pooled, f->b.n * sizeof *f->desk.moving);
        if (soft)
            mixture_gradients(f);
        move_cells(f, (steps){rho, lambda, soft});
        if (lambda > 0 && followed(f))
            follow_posterior(f, lambda);
        remember(f);
    }
    f->count.iteration++;
    wvgd_status status = wv_fit_note(f, error);
    if (status != WVGD_OK)
        return status;
    if (back || move_particles(f))
        wv_schedule_begin_phase(f);
    wv_schedule_next(f);
    return WVGD_OK;
}

void wv_joint_begin(wvgd_fit *f)
{
    f->joint.rho = f->N == 1 || f->prefit.wanted ? 1 : 0.5;
    f->joint.best = -INFINITY;
    f->stage = f->prefit.wanted ? WV_PILOT : WV_SEARCH;
    for (size_t j = 0; j < f->N; j++)
        f->cells.now.elbo[j] = -INFINITY;
    wv_evidence_weights(f->N, f->cells.now.elbo, f->cells.weight);
    wv_schedule_begin_phase(f);
}
