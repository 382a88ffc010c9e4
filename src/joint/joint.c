/* joint.c - the paper's dynamics, with exact estimators: an iteration draws a batch, weighs it, and moves every
 * particle and every component (method, sections 2-4, 6). Which stage comes when is decided here, at the end, and
 * nowhere else:
 *     [pilot ->] search -> settle -> average -> trial -> final -> done
 * (judgements: schedule.c; the pilot: pilot.c; trial and final: joint_closing.c). */
#include "joint/joint.h"
#include "arena.h"
#include "error.h"
#include "evidence.h"
#include "fit.h"
#include "gaussian.h"
#include "joint/pilot.h"
#include "joint/joint_batch.h"
#include "joint/joint_closing.h"
#include "particle.h"
#include "joint/schedule.h"
#include "kmeans.h"
#include "memory.h"
#include "trace.h"
#include "update/update.h"
#include "staged/explore.h"
#include "staged/modes.h"
#include "weights.h"
#include "policy.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
    if (s.phase_start > rows || s.marked > rows || (double)s.trials > wv_policy.joint_trials)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a))
        *j = s;
    wv_archive_array(a, j->z_mark, j->N * j->D);
    wv_archive_array(a, j->adam, j->adam_size);
    return true;
}

/* ---- what the batch says ----------------------------------------------------------------------------------------- */
/* Standard error of the bound from kept draws alone: of the mean h_bar[N] of h = log p~ - log q, and of log
 * Z_j, a share of the draws. */
static double reject_se(const wvgd_fit *f, const double *h_bar)
{
    const wv_batch *b = &f->b;
    double variance = 0;
    for (size_t j = 0; j < f->N; j++) {
        double squares = 0, kept = 0, Z = exp(f->cells.log_Z[j]);
        for (size_t i = 0; i < b->n; i++)
            if (b->cell[i] == j && b->log_p[i] > -INFINITY) {
                double d = b->log_p[i] - b->log_q[i] - h_bar[j];
                squares += d * d;
                kept++;
            }
        if (kept > 1)
            variance += f->cells.weight[j] * f->cells.weight[j] * (squares / (kept - 1) + 1 - Z) / kept;
    }
    return sqrt(variance);
}

/* Normalised posterior weights of the points; false: none has weight. */
static bool posterior_weights(const wvgd_fit *f, double *weight)
{
    const wv_batch *b = &f->b;
    size_t mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, b->n);
    for (size_t i = 0; i < b->n; i++)
        log_w[i] = b->log_p[i] - b->log_m[i];
    bool some = wv_weights_normalise(b->n, log_w, weight);
    wv_arena_release(f->arena, mark);
    return some;
}

/* Masses, bound, distortion of the state that made the batch, whose points have posterior weights weight[n]. The bound
 * is judged with ensemble weights from earlier batches, so it is one. */
static void estimate(wvgd_fit *f, const double *weight)
{
    wv_batch *b = &f->b;
    size_t mark = wv_arena_mark(f->arena);
    double *h_bar = wv_arena_take(f->arena, f->N);
    wv_partition_sum_masses(&f->cells, b->n, b->cell, weight);
    wv_trace_set_ess(&f->trace, wv_weights_ess(b->n, weight));
    wv_trace_set_distortion(&f->trace, (wvgd_estimate){wv_evidence_mean(b->n, weight, b->near, 1).value, NAN});
    wv_partition_estimate(&f->cells, b, h_bar, f->arena);
    if (f->count.iteration == 0)
        wv_partition_weigh(&f->cells, f->cells.elbo);
    wvgd_estimate bound = wv_evidence_bound(f->N, b, f->cells.weight, 0, f->cells.elbo, f->cells.log_Z, h_bar,
                                            f->arena);
    bound.se = f->opt.sampler == WVGD_REJECT ? reject_se(f, h_bar) : bound.se;
    wv_trace_set_pelbo(&f->trace, bound);
    wv_arena_release(f->arena, mark);
}

/* ---- one cell ---------------------------------------------------------------------------------------------------- */
/* Points that a component is fitted to. */
typedef struct {
    size_t n;
    double *x, *grad;                  /* [n][D], [n][D] (NULL without gradients) */
    double *log_p, *log_u, *log_v, *u; /* [n] what is fitted, log q_j/m, log p~/m, normalised u */
} gathered;

/* Room for n points, from the arena. */
static gathered room_for(const wvgd_fit *f, size_t n)
{
    wv_arena *a = f->arena;
    return (gathered){.x = wv_arena_take(a, n * f->D),
                      .grad = f->model.has_gradient ? wv_arena_take(a, n * f->D) : NULL,
                      .log_p = wv_arena_take(a, n),
                      .log_u = wv_arena_take(a, n),
                      .log_v = wv_arena_take(a, n),
                      .u = wv_arena_take(a, n)};
}

static void fetch(const double *row, size_t D)
{
    for (size_t i = 0; i < D; i += 64 / sizeof *row)
        __builtin_prefetch(row + i);
}

/* Numbers first and rows after them: with many cells none of them is in the cache, and those of
 * several points are waited for at once. */
static void gather(const wvgd_fit *f, const wv_cell_lists *lists, size_t j, gathered *g)
{
    const wv_batch *b = &f->b;
    const uint32_t *order = lists->order + lists->start[j];
    /* rows that are fetched before they are copied */
    size_t D = f->D, n = lists->start[j + 1] - lists->start[j], ahead = D < 16 ? 16 : 4;
    g->n = n;
    for (size_t k = 0; k < n; k++) {
        size_t i = order[k];
        double log_p = b->log_p[i], log_m = b->log_m[i];
        g->log_p[k] = log_p;
        g->log_u[k] = log_p > -INFINITY ? b->log_q[i] - log_m : -INFINITY;
        g->log_v[k] = log_p - log_m;
    }
    for (size_t k = 0; k < n; k++) {
        size_t i = order[k], next = lists->start[j] + k + ahead < b->n ? order[k + ahead] : i;
        fetch(b->x + next * D, D);
        if (g->grad)
            fetch(b->grad + next * D, D);
        memcpy(g->x + k * D, b->x + i * D, D * sizeof(double));
        if (g->grad)
            memcpy(g->grad + k * D, b->grad + i * D, D * sizeof(double));
    }
}

/* Points of density zero drop out of the regressions (their weight is zero, their log density is
 * not a number to multiply by it). */
static void drop_zero(size_t D, gathered *g)
{
    size_t kept = 0;
    for (size_t k = 0; k < g->n; k++)
        if (g->log_p[k] > -INFINITY) {
            if (kept != k) {
                memcpy(g->x + kept * D, g->x + k * D, D * sizeof(double));
                if (g->grad)
                    memcpy(g->grad + kept * D, g->grad + k * D, D * sizeof(double));
                g->log_p[kept] = g->log_p[k];
                g->log_u[kept] = g->log_u[k];
                g->log_v[kept] = g->log_v[k];
            }
            kept++;
        }
    g->n = kept;
}

/* Begins component j again with the shape of its cell. */
static void restart(wvgd_fit *f, size_t j)
{
    size_t both = f->D + f->cells.shape.family->size(f->D, f->cells.shape.R);
    wv_partition_restart_component(&f->cells, j, f->pilot.wanted ? f->pilot.root : NULL, f->arena);
    if (f->joint.adam)
        memset(f->joint.adam + j * 2 * both, 0, 2 * both * sizeof(double));
}

/* grad += grad log q_j = -A'^-1 y at the points. */
static void add_own_gradient(const wvgd_fit *f, size_t j, gathered *g)
{
    const wv_gaussian *q = &f->proposals.p[j].q;
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, g->n * f->D);
    wv_gaussian_whiten(q, g->n, g->x, y, f->arena);
    q->family->push(f->D, f->cells.shape.R, q->root, g->n, y, f->arena);
    cblas_daxpy((int)(g->n * f->D), -1.0, y, 1, g->grad, 1);
    wv_arena_release(f->arena, mark);
}

/* What component j is fitted to with soft cells: log p~ + log r_j, r_j = w_j q_j / sum_k w_k q_k, at every point of
 * the batch. mixture_grad: [n][D] that of the log mixture. */
static void soften(const wvgd_fit *f, size_t j, const double *mixture_grad, gathered *g)
{
    const wv_batch *b = &f->b;
    size_t n = 0, D = f->D, mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, b->n), *y = wv_arena_take(f->arena, b->n * D);
    wv_gaussian_log_density(&f->proposals.p[j].q, b->n, b->x, log_q, y, f->arena);
    for (size_t i = 0; i < b->n; i++) {
        double log_u = log_q[i] - b->log_m[i];
        if (!(b->log_p[i] > -INFINITY) || log_u < wv_policy.joint_far || b->log_mix[0][i] == -INFINITY)
            continue;
        memcpy(g->x + n * D, b->x + i * D, D * sizeof(double));
        g->log_p[n] = b->log_p[i] + log_q[i] - b->log_mix[0][i];
        g->log_u[n] = log_u;
        for (size_t d = 0; d < D && g->grad; d++)
            g->grad[n * D + d] = b->grad[i * D + d] - mixture_grad[i * D + d];
        n++;
    }
    g->n = n;
    if (g->grad)
        add_own_gradient(f, j, g);
    wv_arena_release(f->arena, mark);
}

/* out[n][D] = grad log sum_k w_k q_k at every point, */
static void mixture_gradient(wvgd_fit *f, void *context, size_t piece)
{
    const wv_batch *b = &f->b;
    size_t D = f->D, first = piece * wv_workers_piece(b->n),
           n = b->n - first < wv_workers_piece(b->n) ? b->n - first : wv_workers_piece(b->n),
           mark = wv_arena_mark(f->arena);
    double *out = (double *)context + first * D, *log_q = wv_arena_take(f->arena, n),
           *y = wv_arena_take(f->arena, n * D);
    memset(out, 0, n * D * sizeof *out);
    for (size_t j = 0; j < f->N; j++) {
        if (!(f->cells.weight[j] > 0))
            continue;
        const wv_gaussian *q = &f->proposals.p[j].q;
        wv_gaussian_log_density(q, n, b->x + first * D, log_q, y, f->arena);
        q->family->push(D, q->R, q->root, n, y, f->arena);
        for (size_t i = 0; i < n; i++)
            cblas_daxpy((int)D, -exp(log(f->cells.weight[j]) + log_q[i] - b->log_mix[0][first + i]), y + i * D, 1,
                        out + i * D, 1);
    }
    wv_arena_release(f->arena, mark);
}

/* piece by piece. */
static void mixture_gradients(wvgd_fit *f, double *out)
{
    wv_fit_run_tasks(f, wv_workers_pieces(f->b.n), (double)(f->b.n * f->N * f->D), mixture_gradient, out);
}

/* A component that runs away from its cell begins again, with steps half as long; so often (in a tail whose best fit
 * is an exponential or flatter, say), and it is no longer fitted but given the moments of the posterior in the cell. */
bool wv_joint_gave_up(const wvgd_fit *f, size_t j)
{
    return f->N > 1 && f->cells.now.runaways[j] >= wv_policy.joint_patience;
}

/* The step of component j where that of the others is rho: as if its phase had begun with a shorter one. */
static double own_step(const wvgd_fit *f, size_t j, double rho)
{
    return 1 / (1 / rho + (exp2(f->cells.now.runaways[j]) - 1) / f->joint.rho);
}

/* One step of component j; returns the nats of the full one. */
static double move_component(wvgd_fit *f, size_t j, const gathered *g, double rho, bool soft)
{
    size_t D = f->D, size = f->cells.shape.family->size(D, f->cells.shape.R);
    double enough = D == 1 ? wv_policy.joint_ess_line : wv_policy.joint_ess;
    wv_parameters q = wv_partition_lend(&f->cells, j);
    wv_update c = {.estimator = f->opt.estimator,
                   .family = f->cells.shape.family,
                   .R = f->cells.shape.R,
                   .mu = q.mu,
                   .root = q.root,
                   .n = g->n,
                   .x = g->x,
                   .log_p = g->log_p,
                   .grad = g->grad,
                   .u = g->u,
                   .rho = own_step(f, j, rho),
                   .truncated = !soft && f->N > 1 && f->cells.log_Z[j] < log(wv_policy.joint_hardly_cut),
                   .precondition = f->pilot.wanted ? f->pilot.root : NULL,
                   .adam = f->joint.adam ? f->joint.adam + j * 2 * (D + size) : NULL,
                   .time = f->count.iteration + 1};
    bool some = wv_weights_normalise(g->n, g->log_u, g->u);
    c.ess = wv_weights_ess(g->n, g->u);
    if (wv_joint_gave_up(f, j)) { /* the Gaussian of the cell's moments will do */
        restart(f, j);
        return 0;
    }
    wv_update_result r = some && c.ess >= enough ? wv_fit_update(f, &c) : (wv_update_result){false, 0};
    if (r.ok)
        return r.kl;
    wv_partition_count_runaway(&f->cells, j);
    if (f->cells.weight[j] > wv_policy.joint_heavy)
        wv_tally_count_starved(&f->tally);
    restart(f, j);
    return 0;
}

/* Does the cost follow the posterior? */
static bool followed(const wvgd_fit *f)
{
    return f->opt.cost == WVGD_MAHALANOBIS && !f->opt.metric && f->N > 1;
}

/* What moves the cells of a batch, and how they have moved. */
typedef struct {
    double rho, lambda; /* steps of components and of particles, as shares of full ones */
    const wv_cell_lists *lists;
    const double *mixture_grad; /* soft cells: [n][D] gradient of the log mixture; or NULL */
    double *tempered; /* [n] posterior weights of the points, or NULL: those of cells that move become the ones
                       * that have moved them */
    double *walked;   /* [N] how far each particle has gone: |step|^2 in units of the cell, times its mass */
    double *nats;     /* [N] of the full step of each component */
    wv_free_draws free;
} moving;

/* The particle of cell j towards its posterior mean. */
static void move_particle(wvgd_fit *f, const moving *m, size_t j, const gathered *g)
{
    size_t mark = wv_arena_mark(f->arena);
    double *weight = wv_arena_take(f->arena, g->n), *mean = wv_arena_take(f->arena, f->D);
    double moved = wv_particle_step(&f->cells, j, (wv_cell_points){g->n, g->x, g->log_u, g->log_v}, m->free, m->lambda,
                                    weight, mean, f->arena);
    if (moved >= 0) {
        m->walked[j] = f->cells.beta[j] * m->lambda * m->lambda * moved;
        for (size_t k = 0, to = m->lists->start[j]; to < m->lists->start[j + 1] && m->tempered; to++) {
            size_t i = m->lists->order[to];
            m->tempered[i] = f->b.log_p[i] > -INFINITY ? f->cells.beta[j] * weight[k++] : 0;
        }
    }
    wv_arena_release(f->arena, mark);
}

/* Cell j: the particle towards its posterior mean, the component towards p_j. */
static void move_cell(wvgd_fit *f, void *context, size_t j)
{
    const moving *m = context;
    bool soft = m->mixture_grad;
    size_t mark = wv_arena_mark(f->arena);
    gathered g = room_for(f, soft ? f->b.n : m->lists->start[j + 1] - m->lists->start[j]);
    gather(f, m->lists, j, &g);
    drop_zero(f->D, &g);
    m->nats[j] = m->walked[j] = 0;
    if ((double)g.n >= wv_policy.joint_cell_points) {
        if (m->lambda > 0)
            move_particle(f, m, j, &g);
        if (soft)
            soften(f, j, m->mixture_grad, &g);
        m->nats[j] = move_component(f, j, &g, m->rho, soft);
    }
    wv_arena_release(f->arena, mark);
}

/* Draws that cost no evaluation: where the density is zero the component ends too, which they cannot tell. */
static wv_free_draws free_draws(const wvgd_fit *f)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    bool some = f->stage == WV_SETTLE && !f->count.zero_points && !f->count.bad_points;
    return (wv_free_draws){f->opt.seed, f->count.batch, some ? wv_particle_free_batches(&g) : 0};
}

static void move_cells(wvgd_fit *f, moving *m)
{
    double work = (double)(f->b.n * f->D) * (f->cells.shape.family == wv_family_get(WVGD_DIAG) ? 8 : (double)f->D);
    bool ordered = m->free.batches > 0; /* those that settle look at the cells of all */
    if (!ordered)
        wv_fit_run_tasks(f, f->N, work, move_cell, m);
    for (size_t j = 0; j < f->N; j++) {
        if (ordered)
            move_cell(f, m, j);
        f->joint.walked += m->walked[j];
        wv_trace_set_step(&f->trace, f->trace.last.step + f->cells.weight[j] * m->nats[j]);
    }
}

/* ---- the metric -------------------------------------------------------------------------------------------------- */
/* The posterior's mean and covariance, from weights of the points, which are normalised, smoothed: the mahalanobis cost
 * follows them. */
static void follow_posterior(wvgd_fit *f, double lambda, double *weight)
{
    size_t n = f->b.n;
    double ess = wv_weights_ess(n, weight), keep = lambda * ess / (ess + (double)f->D),
           total = cblas_dasum((int)n, weight, 1);
    if (!(total > 0))
        return;
    cblas_dscal((int)n, 1 / total, weight, 1);
    wv_partition_follow_metric(&f->cells, n, f->b.x, weight, keep, f->arena);
}

/* ---- the iteration ----------------------------------------------------------------------------------------------- */
/* A particle to where it is worth more. Returns whether that matters to what the last iterations have shown. */
static bool move_particles(wvgd_fit *f, const double *weight, const wv_cell_lists *lists)
{
    size_t moved[2];
    if (!wv_schedule_moves_due(f, f->count.iteration) || f->trace.last.ess < wv_policy.joint_move_ess * (double)f->N ||
        !wv_particle_move(&f->cells, &f->b, weight, lists, moved, f->arena))
        return false;
    for (int i = 0; i < 2; i++) {
        restart(f, moved[i]);
        wv_partition_forget_runaways(&f->cells, moved[i]);
    }
    f->joint.moves++;
    if (f->cells.beta[moved[0]] + f->cells.beta[moved[1]] < wv_policy.joint_move_light)
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
           share = f->stage == WV_AVERAGE ? 1 / (k + 1) : wv_policy.joint_memory;
    double d = f->trace.last.distortion.value, rate = k > 0 ? share : 1;
    wv_partition_remember(&f->cells, share, rate);
    f->joint.distortion1 += rate * (d - f->joint.distortion1);
    f->joint.distortion2 += rate * (d * d - f->joint.distortion2);
    wv_partition_weigh(&f->cells, f->cells.now.elbo);
}

/* Step of the components, which averages when it falls like 1/k. */
static double component_step(const wvgd_fit *f)
{
    double k = (double)f->joint.averaged;
    return f->stage == WV_AVERAGE ? 1 / (1 / f->joint.rho + (f->pilot.wanted ? k / wv_policy.joint_preconditioned : k))
                                  : f->joint.rho;
}

/* Moves every particle and every component; weight[n]: posterior weights of the points. */
static void move_state(wvgd_fit *f, const double *weight, const wv_cell_lists *lists)
{
    size_t n = f->b.n, mark = wv_arena_mark(f->arena);
    bool soft = f->opt.cells == WVGD_SOFT && f->stage == WV_SEARCH && f->N > 1;
    double rho = component_step(f), lambda = wv_schedule_lambda(f, rho),
           *mixture_grad = soft ? wv_arena_take(f->arena, n * f->D) : NULL,
           *tempered = followed(f) ? wv_arena_take(f->arena, n) : NULL;
    moving m = {rho,
                lambda,
                lists,
                mixture_grad,
                tempered,
                wv_arena_take(f->arena, f->N),
                wv_arena_take(f->arena, f->N),
                free_draws(f)};
    if (soft)
        mixture_gradients(f, mixture_grad);
    if (tempered)
        memcpy(tempered, weight, n * sizeof *tempered);
    move_cells(f, &m);
    if (lambda > 0 && tempered)
        follow_posterior(f, lambda, tempered);
    remember(f);
    wv_arena_release(f->arena, mark);
}

/* Keeps the best state, and goes back to it when the bound has fallen (then true). */
static bool went_back(wvgd_fit *f)
{
    wv_bound_change change = wv_schedule_compare(f);
    if (change == WV_BOUND_BEST)
        wv_partition_keep(&f->cells);
    else if (change == WV_BOUND_FELL)
        wv_partition_go_back(&f->cells);
    return change == WV_BOUND_FELL;
}

/* Keeps the points of the last iterations, as many as one batch can hold. */
static void keep_points(wvgd_fit *f)
{
    if (f->b.n < f->gathered.shape.room)
        wv_draws_collect(&f->gathered, &f->b);
    else
        wv_draws_clear(&f->gathered); /* there is room for no other batch: it is taken when it is looked at */
}

/* One iteration with points that are weighed and listed by cell. */
static wvgd_status iterate(wvgd_fit *f, const double *weight, const wv_cell_lists *lists, wvgd_error *error)
{
    estimate(f, weight);
    if (f->stage == WV_SEARCH && f->N > 1)
        keep_points(f);
    bool back = went_back(f);
    wv_trace_set_step(&f->trace, 0);
    if (!back)
        move_state(f, weight, lists);
    f->count.iteration++;
    wvgd_status status = wv_fit_note(f, error);
    if (status == WVGD_OK && (back || move_particles(f, weight, lists)))
        wv_schedule_begin_phase(f);
    return status;
}

typedef struct {
    wvgd_fit *f;
    const wv_cell_lists *lists;
} weighing;

static void weigh_batch(void *context)
{
    const weighing *w = context;
    wv_joint_batch_weigh(w->f, w->lists);
}

/* given_up: a limit has struck before the points had cells; the caller sees it, too. */
static wvgd_status tell_iteration(wvgd_fit *f, bool *given_up, wvgd_error *error)
{
    size_t n = f->b.n, mark = wv_arena_mark(f->arena);
    wv_cell_lists lists = {wv_arena_take_index(f->arena, n), wv_arena_take_sizes(f->arena, f->N + 1)};
    double *weight = wv_arena_take(f->arena, n);
    wvgd_status status;
    if (!wv_fit_try(f, weigh_batch, &(weighing){f, &lists})) {
        *given_up = true;
        status = WVGD_OK;
    } else if (posterior_weights(f, weight))
        status = iterate(f, weight, &lists, error);
    else
        status = wv_fail(
            error, WVGD_E_NO_DRAWS,
            "none of the %zu points of iteration %zu has a finite log density: check the model, or change init-scale",
            n, f->count.iteration + 1);
    wv_arena_release(f->arena, mark);
    return status;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */
/* What a stage says after a batch. */
typedef enum {
    GOES_ON,
    COMPLETE, /* the next one can begin */
    CONVERGED /* an iteration: nothing is left to gain */
} report;

typedef struct {
    wvgd_fit *f;
    const wv_geometry *g;
    wv_weighted_points p;
    double *z;      /* [N][D] */
    uint32_t *cell; /* [n] */
    bool better;
} improving;

static void improve(void *context)
{
    improving *i = context;
    wvgd_fit *f = i->f;
    i->better = wv_kmeans_improve(i->g, i->p, f->opt.seed, f->count.batch, &f->workers, i->z, i->cell);
}

/* Clearly better particles on the points that were kept, if there are, with the spreads of the new cells; components
 * are left to the caller. */
static bool find_better(wvgd_fit *f)
{
    const wv_draws *b = &f->gathered;
    wv_geometry g = wv_partition_geometry(&f->cells);
    if (f->N == 1 || !wv_cost_flat(&g.cost))
        return false;
    if (!b->n)
        wv_draws_collect(&f->gathered, &f->b);
    size_t mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, b->n), *w = wv_arena_take(f->arena, b->n),
           *z = wv_arena_take(f->arena, f->N * f->D);
    uint32_t *cell = wv_arena_take_index(f->arena, b->n);
    for (size_t k = 0; k < b->n; k++)
        log_w[k] = b->log_p[k] - b->log_m[k];
    improving i = {f, &g, {b->n, b->x, w}, z, cell, false};
    bool better = wv_weights_normalise(b->n, log_w, w) && wv_fit_try(f, improve, &i) && i.better;
    if (better) {
        wv_partition_move_all(&f->cells, z);
        wv_partition_fit_spreads(&f->cells, b->n, b->x, w, cell, f->arena);
    }
    wv_arena_release(f->arena, mark);
    return better;
}

/* Better particles from the points that were kept, a few times at most; then the search begins again. */
static bool requantise(wvgd_fit *f)
{
    if ((double)f->joint.requantised >= wv_policy.joint_requantise || !find_better(f))
        return false;
    f->joint.requantised++;
    for (size_t j = 0; j < f->N; j++) {
        restart(f, j);
        wv_partition_forget_runaways(&f->cells, j);
    }
    f->joint.best = -INFINITY;
    wv_schedule_begin_stage(f);
    return true;
}

static report after_search(wvgd_fit *f)
{
    if (wv_schedule_exhausted(f))
        return CONVERGED;
    return wv_schedule_at_rest(f) && !requantise(f) ? COMPLETE : GOES_ON;
}

static report after_settle(wvgd_fit *f)
{
    return ++f->joint.averaged == wv_schedule_settling() ? COMPLETE : GOES_ON;
}

static report after_average(wvgd_fit *f)
{
    f->joint.averaged++;
    if (!wv_schedule_averaged(f))
        return GOES_ON;
    if (wv_schedule_converged(f))
        return CONVERGED;
    wv_schedule_average_on(f);
    return GOES_ON;
}

/* Stages of iterations, which can be ended early. */
static bool iterating(wv_stage stage)
{
    return stage == WV_PILOT || stage == WV_SEARCH || stage == WV_SETTLE || stage == WV_AVERAGE;
}

/* What the stage has come to. complete: as the pilot or the closing draws say. */
static report look(wvgd_fit *f, bool complete)
{
    switch (f->stage) {
    case WV_SEARCH: return after_search(f);
    case WV_SETTLE: return after_settle(f);
    case WV_AVERAGE: return after_average(f);
    default: return complete ? COMPLETE : GOES_ON;
    }
}

/* The stage that comes next. */
static wv_stage next(const wvgd_fit *f, report found)
{
    if (found == CONVERGED)
        return WV_JOINT_TRIAL;
    if (found == GOES_ON)
        return f->stage;
    switch (f->stage) {
    case WV_PILOT: return WV_SEARCH;
    case WV_SEARCH: return f->N == 1 ? WV_AVERAGE : WV_SETTLE; /* one particle bounds no cell */
    case WV_SETTLE: return WV_AVERAGE;
    case WV_AVERAGE: return WV_JOINT_TRIAL;
    case WV_JOINT_TRIAL: return WV_JOINT_FINAL;
    default: return WV_DONE;
    }
}

/* Enters a stage from another one: the one place where the joint solver changes it. */
static void enter(wvgd_fit *f, wv_stage stage)
{
    bool from_pilot = f->stage == WV_PILOT;
    f->stage = stage;
    if (iterating(stage)) {
        if (from_pilot) {
            wv_pilot_leave(f);
            f->joint.rho = wv_policy.joint_step;
            f->joint.best = -INFINITY;
        }
        wv_schedule_begin_stage(f);
    } else if (stage == WV_JOINT_TRIAL)
        wv_joint_closing_begin(f);
    else if (stage == WV_DONE)
        wv_joint_closing_finish(f);
}

/* Ends the iterations, and goes on to the closing draws with the better of the current and the best state. */
static void end_iterations(wvgd_fit *f, wvgd_stop stop)
{
    f->stop = stop;
    if (wv_schedule_best_is_better(f))
        wv_partition_go_back(&f->cells);
    if (f->stage != WV_AVERAGE)
        f->joint.averaged = 0; /* the cells were not at rest */
    enter(f, WV_JOINT_TRIAL);
}

/* The pilot for diagonal components, else the search. */
static void begin_iterations(wvgd_fit *f)
{
    f->joint.rho = f->N == 1 || f->pilot.wanted ? 1 : wv_policy.joint_step;
    f->joint.best = -INFINITY;
    f->stage = f->pilot.wanted ? WV_PILOT : WV_SEARCH;
    wv_partition_forget_elbos(&f->cells);
    wv_partition_weigh(&f->cells, f->cells.now.elbo);
    wv_schedule_begin_phase(f);
}

void wv_joint_begin(wvgd_fit *f)
{
    if (f->exploring) {
        wv_explore_begin(f);
        f->stage = WV_EXPLORE;
    } else
        begin_iterations(f);
}

/* From the modes that have been found so far. */
static void leave_exploration(wvgd_fit *f)
{
    wv_modes_order(f);
    wv_explore_place(f);
    begin_iterations(f);
}

static wvgd_status tell_exploration(wvgd_fit *f, wvgd_error *error)
{
    wvgd_status status = wv_explore_tell(f, error);
    if (status == WVGD_OK && wv_explore_done(f))
        leave_exploration(f);
    return status;
}

wvgd_status wv_joint_ask(wvgd_fit *f, wvgd_error *error)
{
    if (f->stage == WV_EXPLORE)
        return wv_explore_ask(f, error);
    if (f->stage == WV_PILOT)
        return wv_pilot_ask(f, error);
    return iterating(f->stage) ? wv_joint_batch_ask(f, error) : wv_joint_closing_ask(f, error);
}

wvgd_status wv_joint_tell(wvgd_fit *f, wvgd_error *error)
{
    bool complete = false, given_up = false;
    if (f->stage == WV_EXPLORE)
        return tell_exploration(f, error);
    wvgd_status status = f->stage == WV_PILOT  ? wv_pilot_tell(f, &complete, error)
                         : iterating(f->stage) ? tell_iteration(f, &given_up, error)
                                               : wv_joint_closing_tell(f, &complete, error);
    if (status != WVGD_OK || given_up)
        return status;
    report found = look(f, complete);
    wv_stage stage = next(f, found);
    if (found == CONVERGED)
        end_iterations(f, WVGD_CONVERGED);
    else if (stage != f->stage)
        enter(f, stage);
    if (iterating(f->stage) && f->count.iteration >= f->opt.max_iter)
        end_iterations(f, WVGD_MAX_ITER);
    return WVGD_OK;
}

/* The final draws are begun anew, with fewer of them, if their batch was left undone or would take long. */
static void hurry_closing(wvgd_fit *f, wvgd_stop stop, bool given_up)
{
    wvgd_stop before = f->stop;
    f->stop = stop;
    if (given_up || wv_joint_closing_long(f))
        enter(f, WV_JOINT_TRIAL);
    else
        f->stop = before;
}

void wv_joint_hurry(wvgd_fit *f, wvgd_stop stop, bool given_up)
{
    if (f->stage == WV_JOINT_TRIAL || f->stage == WV_JOINT_FINAL)
        hurry_closing(f, stop, given_up);
    if (f->stage == WV_EXPLORE)
        leave_exploration(f);
    if (f->stage == WV_PILOT)
        enter(f, WV_SEARCH);
    if (iterating(f->stage))
        end_iterations(f, stop);
}
