/* joint_closing.c - batches of fresh draws from the untruncated components and from Gaussians around the particles,
 * with a share of heavier tails. The trial chooses the ensemble weights, the proposal's weights and the size of the
 * final batch; the final batch, independent of all choices, gives the bound, the evidence, masses and moments. So the
 * bound is a bound, and no lucky batch stops the draws (method, section 5). */
#include "joint/joint_closing.h"
#include "gaussian.h"
#include "joint/batch_density.h"
#include "posterior.h"
#include "nearest.h"
#include "dense.h"
#include "evidence.h"
#include "joint/particle.h"
#include "joint/full_prefit.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Shares of the closing proposal: Student-t copies of the components, and one wide t around everything. */
static const double share_tails = 0.2, share_wide = 0.1, degrees = 4, widening = 2;

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* A t around the whole ensemble: its mean and `widening` times a root of its covariance. Diagonal
 * where no D x D matrix is formed. */
static void wide_tail(wvgd_fit *f, const double *w)
{
    size_t D = f->D;
    double *m = f->tail_mu, *C = f->square[0];
    bool full = f->metric_family == wv_family_get(WVGD_FULL);
    memset(m, 0, D * sizeof *m);
    for (size_t j = 0; j < f->N; j++)
        cblas_daxpy((int)D, w[j], f->now.z + j * D, 1, m, 1);
    if (full)
        memset(C, 0, D * D * sizeof *C);
    memset(f->tail_root, 0, D * sizeof *m);
    for (size_t j = 0; j < f->N; j++) {
        if (w[j] == 0)
            continue;
        wv_gaussian q = wv_fit_component(f, j), r = wv_fit_spread(f, j);
        const wv_gaussian *g = f->N > 1 ? &r : &q;
        for (size_t i = 0; i < D; i++)
            f->vector[0][i] = f->now.z[j * D + i] - m[i];
        if (full) {
            wv_gaussian_cov(g, f->square[1], f->work);
            cblas_daxpy((int)(D * D), w[j], f->square[1], 1, C, 1);
            cblas_dger(CblasRowMajor, (int)D, (int)D, w[j], f->vector[0], 1, f->vector[0], 1, C, (int)D);
        } else {
            g->family->sd(D, g->R, g->root, f->vector[1]);
            for (size_t i = 0; i < D; i++)
                f->tail_root[i] += w[j] * (f->vector[1][i] * f->vector[1][i] + f->vector[0][i] * f->vector[0][i]);
        }
    }
    if (full && wv_dense_chol(D, C, f->square[1]))
        for (size_t i = 0; i < D * D; i++)
            f->tail_root[i] = widening * C[i];
    else if (!full)
        for (size_t i = 0; i < D; i++)
            f->tail_root[i] = widening * sqrt(f->tail_root[i]);
}

/* The closing proposal for ensemble weights w, each share rounded to whole draws out of `planned`. */
static void propose(wvgd_fit *f, const double *w)
{
    size_t N = f->N, c = 0, left = f->s.planned, largest = 0;
    double central = (1 - share_tails - share_wide) / 2;
    wide_tail(f, w);
    for (size_t j = 0; j < N; j++) {
        double a = 0.5 * w[j] + 0.5 / (double)N;
        f->proposal[j] = (wv_proposal){wv_fit_component(f, j), a * central};
        f->proposal[N + j] = (wv_proposal){wv_fit_component(f, j), a * share_tails};
        f->proposal[N + j].q.nu = degrees;
        f->proposal[2 * N + j] = (wv_proposal){wv_fit_spread(f, j), a * central};
    }
    f->proposal[3 * N] = (wv_proposal){{f->metric_family, f->D, 0, f->tail_mu, f->tail_root, degrees}, share_wide};
    f->proposals = 3 * N + 1;
    if (f->pilot) { /* a full Gaussian covers what diagonal ones cannot */
        for (c = 0; c < f->proposals; c++)
            f->proposal[c].log_alpha *= 0.6;
        f->proposal[c] = (wv_proposal){wv_full_prefit_gaussian(f), 0.2};
        f->proposal[c + 1] = f->proposal[c];
        f->proposal[c + 1].q.nu = degrees;
        f->proposals += 2;
    }
    for (c = 0; c < f->proposals; c++) {
        f->share[c] = (size_t)(f->proposal[c].log_alpha * (double)f->s.planned);
        f->share[c] = f->share[c] < left ? f->share[c] : left;
        left -= f->share[c];
        if (f->share[c] > f->share[largest])
            largest = c;
    }
    f->share[largest] += left;
    for (c = 0; c < f->proposals; c++)
        f->proposal[c].log_alpha = log((double)f->share[c] / (double)f->s.planned);
}

static void begin_stage(wvgd_fit *f, wv_stage stage, size_t planned)
{
    f->s.stage = stage;
    f->s.planned = planned;
    f->s.closed = f->s.block = f->close.n = 0;
    memset(f->close.sum_u, 0, f->N * sizeof(double));
}

void wv_joint_closing_begin(wvgd_fit *f)
{
    size_t most = f->n_max < f->close_max ? f->n_max : f->close_max,
           least = larger(2000, larger(100 * f->N, 100 * f->D));
    begin_stage(f, WV_TRIAL, least < most ? least : most);
    f->s.trials = 0;
    wv_evidence_weights(f->N, f->now.elbo, f->weight);
    memcpy(f->weight_beta, f->weight, f->N * sizeof *f->weight);
    if (f->s.averaged < 10) /* too few iterations with the cells at rest to say anything of the masses */
        f->s.averaged = 0;
}

wvgd_status wv_joint_closing_ask(wvgd_fit *f, wvgd_error *error)
{
    size_t begun = f->s.closed - f->s.block * f->s.planned, n = f->s.planned - begun, at = 0, done = 0;
    (void)error;
    n = n < WV_CHUNK ? n : WV_CHUNK;
    propose(f, f->weight);
    for (size_t c = 0; c < f->proposals && at < n; c++) {
        /* first draw of this share that belongs to the chunk */
        size_t from = begun + at > done ? begun + at - done : 0;
        if (from < f->share[c]) {
            size_t count = f->share[c] - from < n - at ? f->share[c] - from : n - at;
            wv_fit_draw(f, f->s.trials, c, f->s.stage == WV_TRIAL ? WV_RNG_TRIAL : WV_RNG_CLOSE,
                        f->s.block * f->share[c] + from, count, false, at);
            at += count;
        }
        done += f->share[c];
    }
    f->b.n = n;
    return WVGD_OK;
}

/* Appends the chunk to the store. */
static void keep(wvgd_fit *f)
{
    size_t n = f->b.n, at = f->s.closed;
    memcpy(f->close.x + at * f->D, f->b.x, n * f->D * sizeof(double));
    memcpy(f->close.log_p + at, f->b.log_p, n * sizeof(double));
    memcpy(f->close.log_m + at, f->b.log_m, n * sizeof(double));
    memcpy(f->close.log_q + at, f->b.log_q, n * sizeof(double));
    memcpy(f->close.log_mix[0] + at, f->b.log_mix[0], n * sizeof(double));
    memcpy(f->close.log_mix[1] + at, f->b.log_mix[1], n * sizeof(double));
    memcpy(f->close.near + at, f->b.near, n * sizeof(double));
    memcpy(f->close.cell + at, f->b.cell, n * sizeof(uint32_t));
    memcpy(f->close.stratum + at, f->b.stratum, n * sizeof(uint32_t));
    f->s.closed = f->close.n = at + n;
}

/* The spreads once more, from the trial's draws: with few iterations they rest on few points. They are only
 * proposals here, unless they define the cells. */
static void refit_spreads(wvgd_fit *f)
{
    const wv_batch *b = &f->close;
    for (size_t j = 0; j < f->N && f->opt.cost != WVGD_OWN; j++) {
        size_t n = 0;
        for (size_t i = 0; i < b->n; i++)
            if (b->cell[i] == j && b->log_p[i] > -INFINITY) {
                memcpy(f->gx + n * f->D, b->x + i * f->D, f->D * sizeof(double));
                f->glu[n] = b->log_q[i] - b->log_m[i];
                f->glv[n++] = b->log_p[i] - b->log_m[i];
            }
        if (n > 2)
            wv_particle_refit(f, j, n);
    }
}

/* Weights for the bound: from the smoothed ELBO_j of the iterations, which have less noise, but from
 * the trial where the two do not agree. */
static void choose_weights(wvgd_fit *f)
{
    wv_evidence_elbo(f, &f->close, f->elbo, f->log_Z, f->cell_spare);
    wv_evidence_elbo_se(f, &f->close, f->elbo, f->log_Z, f->cell_spare, f->elbo_se);
    for (size_t j = 0; j < f->N; j++)
        if (!f->s.averaged || !(fabs(f->elbo[j] - f->now.elbo[j]) < 3 * f->elbo_se[j]))
            f->now.elbo[j] = f->elbo[j];
    wv_evidence_weights(f->N, f->now.elbo, f->weight);
}

/* The trial has chosen: weights for the bound, and how many final draws bring the evidence to the
 * wanted standard error (a third more, as the share is itself an estimate) and posterior means to a
 * standard error of about 1/70 of a sd. */
static const double enough_ess = 5000;

static void plan(wvgd_fit *f)
{
    double rel;
    wv_posterior_masses(f, f->weight_beta);
    if (f->s.averaged)
        memcpy(f->weight_beta, f->now.beta, f->N * sizeof(double));
    choose_weights(f);
    rel = wv_weights_ess(f->close.n, f->close_v) / (double)f->close.n;
    refit_spreads(f);
    if (rel < 0.3 && f->s.trials < 4) { /* a proposal that its own draws have improved deserves another trial */
        f->s.trials++;
        begin_stage(f, WV_TRIAL, f->s.planned);
        return;
    }
    double wanted = 1.3 * (1 / rel - 1) / (f->opt.evidence_se * f->opt.evidence_se),
           least = fmax((double)larger(4000, 200 * f->N), enough_ess / rel);
    begin_stage(f, WV_FINAL, (size_t)fmin(fmax(wanted, least), (double)f->close_max));
}

/* A component of which no final draw lies in its cell cannot be part of the ensemble. */
static void bury_dead(wvgd_fit *f)
{
    double kept = 0;
    for (size_t j = 0; j < f->N; j++) {
        if (f->elbo[j] == -INFINITY)
            f->weight[j] = 0;
        kept += f->weight[j];
    }
    for (size_t j = 0; j < f->N && kept > 0; j++)
        f->weight[j] /= kept;
}

static void finish(wvgd_fit *f)
{
    double *h_bar = f->cell_spare;
    wv_evidence_elbo(f, &f->close, f->elbo, f->log_Z, h_bar);
    wv_evidence_elbo_se(f, &f->close, f->elbo, f->log_Z, h_bar, f->elbo_se);
    bury_dead(f);
    f->s.bound = wv_evidence_bound(f, &f->close, f->weight, 0, f->elbo, f->log_Z, h_bar);
    f->s.bound_beta = wv_evidence_bound(f, &f->close, f->weight_beta, 1, f->elbo, f->log_Z, h_bar);
    memcpy(f->close_cal, f->close_v, f->close.n * sizeof(double));
    f->s.evidence = wv_evidence_importance(f, &f->close);
    f->s.final_ess = wv_weights_ess(f->close.n, f->close_v);
    f->s.stage = WV_DONE;
    if (wv_posterior_uncorrected(f)) {
        wv_posterior_weights(f);
        wv_weights_normalise(f->close.n, f->close_log_w, f->close_cal);
    }
    wv_posterior_moments(f, f->D, f->close.x, f->mean, f->var, f->mcse);
    wv_posterior_describe(f);
    if (wv_posterior_uncorrected(f))
        memcpy(f->close_smooth, f->close_log_w, f->close.n * sizeof(double));
}

wvgd_status wv_joint_closing_tell(wvgd_fit *f, wvgd_error *error)
{
    const double *const w[2] = {f->weight, f->weight_beta};
    memset(f->b.sum_u, 0, f->N * sizeof(double));
    wv_nearest_assign(f, f->b.n, f->b.x, f->b.cell, f->b.near, f->b.next);
    wv_batch_density(f, &f->b, w);
    for (size_t j = 0; j < f->N; j++)
        f->close.sum_u[j] += f->b.sum_u[j];
    keep(f);
    if (f->s.closed < (f->s.block + 1) * f->s.planned)
        return WVGD_OK;
    if (!wv_posterior_weights(f)) {
        size_t n = f->close.n;
        begin_stage(f, f->s.stage, f->s.planned); /* whoever goes on begins this stage again */
        return wv_fail(error, WVGD_E_NO_DRAWS,
                       "none of %zu closing draws has a finite log density: there is nothing to estimate from", n);
    }
    if (f->s.stage == WV_TRIAL)
        plan(f);
    else if (wv_evidence_importance(f, &f->close).se > f->opt.evidence_se && f->s.closed + f->s.planned <= f->close_max)
        f->s.block++; /* the trial was too hopeful: as many again */
    else
        finish(f);
    return WVGD_OK;
}
