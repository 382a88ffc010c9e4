/* joint_closing.c - batches of fresh draws from the untruncated components and from Gaussians around the particles,
 * with a share of heavier tails. The trial chooses the ensemble weights, the proposal's weights and the size of the
 * final batch; the final batch, independent of all choices, gives the bound, the evidence, masses and moments. So the
 * bound is a bound, and no lucky batch stops the draws (method, section 5). */
#include "joint/joint_closing.h"
#include "arena.h"
#include "cell_line.h"
#include "describe.h"
#include "fit.h"
#include "gaussian.h"
#include "joint/batch_density.h"
#include "posterior.h"
#include "nearest.h"
#include "dense.h"
#include "evidence.h"
#include "particle.h"
#include "joint/pilot.h"
#include "weights.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Whether quadrature fits the components, and tells their masses in the cells; the paper's estimator is left alone. */
static bool exact(const wvgd_fit *f)
{
    return f->N > 1 && f->opt.estimator != WVGD_REPARAM && wv_cell_line_cells(f);
}

/* Adds w times the covariance of q about m to that of the ensemble: C[D][D], or the variances alone. */
static void add_covariance(const wvgd_fit *f, const wv_gaussian *q, const double *z, double w, const double *m,
                           double *C)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *apart = wv_arena_take(f->arena, D);
    for (size_t i = 0; i < D; i++)
        apart[i] = z[i] - m[i];
    if (f->cells.shape.metric_family == wv_family_get(WVGD_FULL)) {
        double *cov = wv_arena_take(f->arena, D * D);
        wv_gaussian_cov(q, cov, f->arena);
        cblas_daxpy((int)(D * D), w, cov, 1, C, 1);
        cblas_dger(CblasRowMajor, (int)D, (int)D, w, apart, 1, apart, 1, C, (int)D);
    } else {
        double *sd = wv_arena_take(f->arena, D);
        q->family->sd(D, q->R, q->root, sd);
        for (size_t i = 0; i < D; i++)
            C[i] += w * (sd[i] * sd[i] + apart[i] * apart[i]);
    }
    wv_arena_release(f->arena, mark);
}

/* A t around the whole ensemble: its mean and a multiple of a root of its covariance. Diagonal
 * where no D x D matrix is formed. */
static wv_gaussian wide_tail(wvgd_fit *f, const double *w)
{
    bool full = f->cells.shape.metric_family == wv_family_get(WVGD_FULL);
    size_t D = f->D, size = f->cells.shape.metric_family->size(D, 0), mark = wv_arena_mark(f->arena);
    double *m = f->joint.tail_mu, *root = f->joint.tail_root, *C = wv_arena_zeros(f->arena, size);
    memset(m, 0, D * sizeof *m);
    memset(root, 0, size * sizeof *root);
    for (size_t j = 0; j < f->N; j++)
        cblas_daxpy((int)D, w[j], f->cells.now.z + j * D, 1, m, 1);
    for (size_t j = 0; j < f->N; j++) {
        if (w[j] == 0)
            continue;
        wv_gaussian q = f->N > 1 ? wv_partition_spread(&f->cells, j) : wv_partition_component(&f->cells, j);
        add_covariance(f, &q, f->cells.now.z + j * D, w[j], m, C);
    }
    if (full && wv_dense_chol(D, C, wv_arena_take(f->arena, D * D)))
        for (size_t i = 0; i < D * D; i++)
            root[i] = wv_policy.joint_wide_factor * C[i];
    else if (!full)
        for (size_t i = 0; i < D; i++)
            root[i] = wv_policy.joint_wide_factor * sqrt(C[i]);
    wv_arena_release(f->arena, mark);
    return (wv_gaussian){f->cells.shape.metric_family, D, 0, m, root, wv_policy.joint_tail_degrees};
}

/* Whether component j lies outside of its cell, but for its tail: its draws would be wasted. */
static bool lies_outside(const wvgd_fit *f, size_t j)
{
    return exact(f) && f->cells.log_Z[j] < log(wv_policy.joint_own_share);
}

/* The closing proposal for ensemble weights w, each share rounded to whole draws out of `planned`. The first N are the
 * components, some perhaps without draws. */
static void propose(wvgd_fit *f, const double *w)
{
    size_t N = f->N, c = 0, left = f->closing.planned, largest = 0;
    double central = (1 - wv_policy.joint_tail_share - wv_policy.joint_wide_share) / 2;
    for (size_t j = 0; j < N; j++) {
        wv_gaussian own = wv_partition_component(&f->cells, j), around = wv_partition_spread(&f->cells, j);
        bool outside = lies_outside(f, j);
        double even = wv_policy.joint_even_share, a = (1 - even) * w[j] + even / (double)N;
        f->proposals.p[j] = (wv_proposal){own, outside ? 0 : a * central};
        f->proposals.p[N + j] = (wv_proposal){outside ? around : own, a * wv_policy.joint_tail_share};
        f->proposals.p[N + j].q.nu = wv_policy.joint_tail_degrees;
        f->proposals.p[2 * N + j] = (wv_proposal){around, outside ? 2 * a * central : a * central};
    }
    f->proposals.p[3 * N] = (wv_proposal){wide_tail(f, w), wv_policy.joint_wide_share};
    f->proposals.n = 3 * N + 1;
    if (f->pilot.wanted) { /* a full Gaussian covers what diagonal ones cannot */
        for (c = 0; c < f->proposals.n; c++)
            f->proposals.p[c].log_alpha *= 1 - 2 * wv_policy.joint_full_share;
        f->proposals.p[c] = (wv_proposal){wv_pilot_gaussian(f), wv_policy.joint_full_share};
        f->proposals.p[c + 1] = f->proposals.p[c];
        f->proposals.p[c + 1].q.nu = wv_policy.joint_tail_degrees;
        f->proposals.n += 2;
    }
    for (c = 0; c < f->proposals.n; c++) {
        f->proposals.draws[c] = (size_t)(f->proposals.p[c].log_alpha * (double)f->closing.planned);
        f->proposals.draws[c] = f->proposals.draws[c] < left ? f->proposals.draws[c] : left;
        left -= f->proposals.draws[c];
        if (f->proposals.draws[c] > f->proposals.draws[largest])
            largest = c;
    }
    f->proposals.draws[largest] += left;
    for (c = 0; c < f->proposals.n; c++)
        f->proposals.p[c].log_alpha = log((double)f->proposals.draws[c] / (double)f->closing.planned);
}

/* Final draws at most: once a limit has struck, as few as will do. Each meets three times as many proposals as there
 * are particles. */
static size_t most_draws(const wvgd_fit *f)
{
    double size = (double)f->D * (f->dense ? (double)f->D : 1),
           few = wv_policy.limit_closing_work / (3 * (double)f->N * (wv_policy.limit_closing_call + size));
    few = fmax(few, wv_policy.limit_closing_least);
    return wv_fit_hurried(f) && few < (double)f->size.close_max ? (size_t)few : f->size.close_max;
}

bool wv_joint_closing_long(const wvgd_fit *f)
{
    return f->closing.planned > most_draws(f);
}

void wv_joint_closing_begin(wvgd_fit *f)
{
    size_t most = f->size.n_max < most_draws(f) ? f->size.n_max : most_draws(f),
           least = larger((size_t)wv_policy.joint_trial_draws,
                          (size_t)wv_policy.joint_trial_draws_each * larger(f->N, f->D));
    wv_closing_restart(&f->closing, wv_fit_afford(f, least < most ? least : most, 2));
    f->joint.trials = 0;
    wv_partition_weigh(&f->cells, f->cells.now.elbo);
    wv_partition_set_weight_beta(&f->cells, f->cells.weight);
    if ((double)f->joint.averaged <
        wv_policy.joint_masses_known) /* too few iterations with the cells at rest to say anything of the masses */
        f->joint.averaged = 0;
}

wvgd_status wv_joint_closing_ask(wvgd_fit *f, wvgd_error *error)
{
    size_t begun = f->closing.draws.n - f->closing.block * f->closing.planned, n = f->closing.planned - begun, at = 0,
           done = 0;
    (void)error;
    n = n < WV_CHUNK ? n : WV_CHUNK;
    n = n < f->size.n_max ? n : f->size.n_max;
    propose(f, f->cells.weight);
    for (size_t c = 0; c < f->proposals.n && at < n; c++) {
        /* first draw of this share that belongs to the chunk */
        size_t from = begun + at > done ? begun + at - done : 0;
        if (from < f->proposals.draws[c]) {
            size_t count = f->proposals.draws[c] - from < n - at ? f->proposals.draws[c] - from : n - at;
            wv_fit_draw(f, f->joint.trials, c, f->stage == WV_JOINT_TRIAL ? WV_RNG_TRIAL : WV_RNG_CLOSE,
                        f->closing.block * f->proposals.draws[c] + from, count, false, at);
            at += count;
        }
        done += f->proposals.draws[c];
    }
    f->b.n = n;
    return WVGD_OK;
}

/* The spreads once more, from the trial's draws: with few iterations they rest on few points. They are only
 * proposals here, unless they define the cells. */
static void refit_spreads(wvgd_fit *f)
{
    const wv_draws *b = &f->closing.draws;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, b->n * D), *log_u = wv_arena_take(f->arena, b->n),
           *log_v = wv_arena_take(f->arena, b->n);
    for (size_t j = 0; j < f->N && f->opt.cost != WVGD_OWN; j++) {
        size_t n = 0;
        for (size_t i = 0; i < b->n; i++)
            if (b->cell[i] == j && b->log_p[i] > -INFINITY) {
                memcpy(x + n * D, b->x + i * D, D * sizeof *x);
                log_u[n] = b->log_q[i] - b->log_m[i];
                log_v[n++] = b->log_p[i] - b->log_m[i];
            }
        if (n > 2)
            wv_particle_refit(&f->cells, j, (wv_cell_points){n, x, log_u, log_v}, f->arena);
    }
    wv_arena_release(f->arena, mark);
}

/* Weights for the bound: from the smoothed ELBO_j of the iterations, which have less noise, but from
 * the trial where the two do not agree. */
static void choose_weights(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double *h_bar = wv_arena_take(f->arena, f->N);
    wv_batch b = wv_draws_view(&f->closing.draws, 0);
    wv_partition_estimate(&f->cells, &b, h_bar, f->arena);
    wv_partition_estimate_se(&f->cells, &b, h_bar);
    wv_arena_release(f->arena, mark);
    for (size_t j = 0; j < f->N; j++)
        if (!f->joint.averaged ||
            !(fabs(f->cells.elbo[j] - f->cells.now.elbo[j]) < wv_policy.joint_elbo_agrees * f->cells.elbo_se[j]))
            wv_partition_trust_elbo(&f->cells, j);
    wv_partition_weigh(&f->cells, f->cells.now.elbo);
}

/* How many final draws bring the evidence to the wanted standard error and posterior means to one of about 1/70 of a
 * sd, where a share rel of the draws is effective. */
static double final_draws(const wvgd_fit *f, double rel)
{
    double wanted = wv_policy.joint_final_margin * (1 / rel - 1) / (f->opt.evidence_se * f->opt.evidence_se),
           least = fmax(fmax(wv_policy.joint_final_draws, wv_policy.joint_final_draws_each * (double)f->N),
                        wv_policy.joint_final_ess / rel);
    return fmin(fmax(wanted, least), (double)most_draws(f));
}

/* Masses as the iterations with the cells at rest have them, else the trial; of densities without an integral neither
 * may have any. */
static void weigh_by_masses(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double *mass = wv_arena_take(f->arena, f->N);
    wv_posterior_masses(&f->closing, f->N, mass);
    if (f->joint.averaged)
        memcpy(mass, f->cells.now.beta, f->N * sizeof *mass);
    if (!(cblas_dasum((int)f->N, mass, 1) > 0))
        for (size_t j = 0; j < f->N; j++)
            mass[j] = 1 / (double)f->N;
    wv_partition_set_weight_beta(&f->cells, mass);
    wv_arena_release(f->arena, mark);
}

/* ---- one dimension ----------------------------------------------------------------------------------------------- */
/* Component j becomes the best on its cell; context: a mixture like the posterior. */
static void fit_line(wvgd_fit *f, void *context, size_t j)
{
    const wv_mixture *m = context;
    if (!wv_cell_line_fit(f, m, j))
        return;
    wv_partition_set_log_Z(&f->cells, j, (wvgd_estimate){wv_cell_line_log_Z(f, j), 0}, false);
    wv_partition_set_elbo(&f->cells, j, wv_cell_line_elbo(f, m, j));
    wv_partition_trust_elbo(&f->cells, j);
    wv_partition_forget_runaways(&f->cells, j);
}

/* Components by quadrature, from the draws of the trial, and the weights that their ELBOs give. */
static void fit_lines(wvgd_fit *f)
{
    size_t N = f->N, mark = wv_arena_mark(f->arena);
    wv_mixture m = wv_mixture_take(1, N, f->arena);
    for (size_t j = 0; j < N; j++) {
        wv_gaussian q = wv_partition_spread(&f->cells, j);
        wv_mixture_append(&m, &q, f->cells.weight_beta[j]);
    }
    wv_fit_run_tasks(f, N, wv_policy.cells_component_work * (double)N, fit_line, &m);
    wv_partition_weigh(&f->cells, f->cells.now.elbo);
    wv_arena_release(f->arena, mark);
}

/* Masses of the components in their cells are known: log q_j becomes the log density of the truncated component, whose
 * mass there is 1, so that the draws need not tell it. */
static void truncate_exactly(wvgd_fit *f, const double *const w[2])
{
    wv_batch *b = &f->b;
    size_t mark = wv_arena_mark(f->arena);
    double *log_Z = wv_arena_take(f->arena, f->N);
    for (size_t j = 0; j < f->N; j++)
        log_Z[j] = wv_cell_line_log_Z(f, j);
    memset(b->sum_u, 0, f->N * sizeof *b->sum_u);
    for (size_t i = 0; i < b->n; i++) {
        size_t j = b->cell[i];
        b->log_q[i] -= log_Z[j];
        b->sum_u[j] += exp(b->log_q[i] - b->log_m[i]);
        for (int k = 0; k < 2; k++)
            b->log_mix[k][i] = log(w[k][j]) + b->log_q[i];
    }
    wv_arena_release(f->arena, mark);
}

/* The bounds are there: log q_j is again that of the Gaussian, and log Z_j that of its mass in the cell. */
static void restore_masses(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double *log_Z = wv_arena_take(f->arena, f->N);
    for (size_t j = 0; j < f->N; j++) {
        log_Z[j] = wv_cell_line_log_Z(f, j);
        wv_partition_set_bound(&f->cells, j, (wvgd_estimate){f->cells.elbo[j], f->cells.elbo_se[j]},
                               f->cells.log_Z[j] + log_Z[j]);
    }
    wv_draws_add_log_q(&f->closing.draws, log_Z);
    wv_arena_release(f->arena, mark);
}

/* ---- trial and final --------------------------------------------------------------------------------------------- */
/* The trial has chosen weights. Returns whether the final draws can be made; else those of another trial are planned.
 */
static bool end_trial(wvgd_fit *f)
{
    weigh_by_masses(f);
    choose_weights(f);
    double rel = wv_weights_ess(f->closing.draws.n, f->closing.v) / (double)f->closing.draws.n;
    refit_spreads(f);
    if (exact(f))
        fit_lines(f);
    bool again = rel < wv_policy.joint_trial_uneven && !wv_fit_hurried(f) &&
                 (double)f->joint.trials <
                     wv_policy.joint_trials; /* a proposal that its own draws have improved deserves another */
    f->joint.trials += again;
    wv_closing_restart(&f->closing, again ? f->closing.planned : wv_fit_afford(f, (size_t)final_draws(f, rel), 1));
    return !again;
}

/* Returns whether the final draws are enough; else as many again are planned: the trial was too hopeful. */
static bool end_block(wvgd_fit *f)
{
    wv_batch b = wv_draws_view(&f->closing.draws, 0);
    bool again = wv_evidence_importance(&b, f->arena).se > f->opt.evidence_se &&
                 f->closing.draws.n + f->closing.planned <= most_draws(f) && !wv_fit_hurried(f) &&
                 wv_fit_afford(f, f->closing.planned, 1) == f->closing.planned;
    if (again)
        wv_closing_add_block(&f->closing);
    return !again;
}

/* A component of which no final draw lies in its cell cannot be part of the ensemble. */
static void bury_dead(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    double kept = 0, *w = wv_arena_take(f->arena, f->N);
    for (size_t j = 0; j < f->N; j++)
        kept += w[j] = f->cells.elbo[j] > -INFINITY ? f->cells.weight[j] : 0;
    for (size_t j = 0; j < f->N && kept > 0; j++)
        w[j] /= kept;
    wv_partition_set_weights(&f->cells, w);
    wv_arena_release(f->arena, mark);
}

/* Bounds from the final draws. */
static void estimate_bounds(wvgd_fit *f)
{
    wv_batch b = wv_draws_view(&f->closing.draws, 0);
    size_t mark = wv_arena_mark(f->arena);
    const double *elbo = f->cells.elbo, *log_Z = f->cells.log_Z;
    double *h_bar = wv_arena_take(f->arena, f->N);
    wv_partition_estimate(&f->cells, &b, h_bar, f->arena);
    wv_partition_estimate_se(&f->cells, &b, h_bar);
    bury_dead(f);
    wvgd_estimate with_weights = wv_evidence_bound(f->N, &b, f->cells.weight, 0, elbo, log_Z, h_bar, f->arena),
                  with_masses = wv_evidence_bound(f->N, &b, f->cells.weight_beta, 1, elbo, log_Z, h_bar, f->arena);
    wv_outcome_set_bounds(&f->outcome, with_weights, with_masses);
    wv_arena_release(f->arena, mark);
    if (exact(f))
        restore_masses(f);
}

static void estimate_moments(void *context)
{
    wvgd_fit *f = context;
    wv_posterior_estimate(&f->posterior, &f->closing, f->arena);
}

void wv_joint_closing_finish(wvgd_fit *f)
{
    estimate_bounds(f);
    wv_closing_set_calibrated(&f->closing, f->closing.v);
    wv_batch b = wv_draws_view(&f->closing.draws, 0);
    wv_outcome_set_evidence(&f->outcome, wv_evidence_importance(&b, f->arena),
                            wv_weights_ess(f->closing.draws.n, f->closing.v));
    wv_outcome_reconcile(&f->outcome);
    if (wv_describe_uncorrected(f)) {
        wv_describe_weights(f);
        size_t mark = wv_arena_mark(f->arena);
        double *weight = wv_arena_take(f->arena, f->closing.draws.n);
        wv_weights_normalise(f->closing.draws.n, f->closing.log_w, weight);
        wv_closing_set_calibrated(&f->closing, weight);
        wv_arena_release(f->arena, mark);
    }
    if (!wv_fit_try(f, estimate_moments, f)) {
        wv_fit_cut_short(f);
        wv_posterior_estimate_roughly(&f->posterior, &f->closing, f->arena);
    }
    wv_describe_cells(f);
}

wvgd_status wv_joint_closing_tell(wvgd_fit *f, bool *complete, wvgd_error *error)
{
    const double *const w[2] = {f->cells.weight, f->cells.weight_beta};
    wv_geometry g = wv_partition_geometry(&f->cells);
    memset(f->b.sum_u, 0, f->N * sizeof(double));
    wv_nearest_assign(&g, f->b.n, f->b.x, f->b.cell, f->b.near, f->b.next, f->arena);
    wv_batch_density(f, &f->b, w);
    if (exact(f))
        truncate_exactly(f, w);
    wv_draws_append(&f->closing.draws, &f->b);
    if (f->closing.draws.n < (f->closing.block + 1) * f->closing.planned)
        return WVGD_OK;
    if (!wv_describe_weights(f)) {
        size_t n = f->closing.draws.n;
        wv_closing_restart(&f->closing, f->closing.planned); /* whoever goes on begins this stage again */
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "none of %zu final draws has a finite log density: nothing can be estimated", n);
    }
    *complete = f->stage == WV_JOINT_TRIAL ? end_trial(f) : end_block(f);
    return WVGD_OK;
}
