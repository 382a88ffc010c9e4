/* posterior.c - what the closing draws say of the posterior, with either solver: their normalised weights, moments,
 * masses of the cells and diagnostics (method, section 5). */
#include "posterior.h"
#include "gaussian.h"
#include "evidence.h"
#include "joint/particle.h"
#include "dense.h"
#include "nearest.h"
#include "simd/columns.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Effective draws below which weights correct nothing: what they say of the posterior is noise. */
static const double few = 30;

bool wv_posterior_uncorrected(const wvgd_fit *f)
{
    return f->s.stage == WV_DONE && !f->staged && f->s.final_ess < few;
}

/* The weights of the closing draws that users see are those that stand for the ensemble. */
static void stand_for_ensemble(wvgd_fit *f)
{
    for (size_t i = 0; i < f->close.n; i++) {
        size_t j = f->close.cell[i];
        f->psi[i] = f->weight[j] > 0 && f->close.log_p[i] > -INFINITY
                        ? log(f->weight[j]) + f->close.log_q[i] - f->log_Z[j] - f->close.log_m[i]
                        : -INFINITY;
    }
    double total = wv_weights_lse(f->close.n, f->psi);
    for (size_t i = 0; i < f->close.n; i++)
        f->close_log_w[i] = f->psi[i] - total;
}

bool wv_posterior_weights(wvgd_fit *f)
{
    for (size_t i = 0; i < f->close.n; i++)
        f->psi[i] = f->close.log_p[i] - f->close.log_m[i];
    bool some = wv_weights_normalise(f->close.n, f->psi, f->close_v);
    double total = wv_weights_lse(f->close.n, f->psi);
    for (size_t i = 0; i < f->close.n; i++)
        f->close_log_w[i] = some ? f->psi[i] - total : -INFINITY;
    if (some && wv_posterior_uncorrected(f))
        stand_for_ensemble(f);
    return some;
}

void wv_posterior_masses(const wvgd_fit *f, double *beta)
{
    memset(beta, 0, f->N * sizeof *beta);
    for (size_t i = 0; i < f->close.n; i++)
        beta[f->close.cell[i]] += f->close_v[i];
}

static void cell_diagnostics(wvgd_fit *f)
{
    size_t *end = f->start; /* [N + 1] draws of the cells before, which become those of the cell itself, too */
    double all = 0, *sum = f->cell_spare, *squares = f->cell_ess, *log_w = f->psi;
    memset(end, 0, (f->N + 1) * sizeof *end);
    memset(sum, 0, f->N * sizeof *sum);
    memset(squares, 0, f->N * sizeof *squares);
    for (size_t i = 0; i < f->close.n; i++) {
        size_t j = f->close.cell[i];
        double v = f->close_v[i];
        end[j + 1]++;
        sum[j] += v;
        squares[j] += v * v;
        all += v * v;
    }
    for (size_t j = 0; j < f->N; j++)
        end[j + 1] += end[j];
    for (size_t i = 0; i < f->close.n; i++)
        log_w[end[f->close.cell[i]]++] = f->close.log_p[i] - f->close.log_m[i];
    for (size_t j = 0, first = 0; j < f->N; first = end[j++]) {
        double b = f->beta[j];
        f->beta_se[j] = sqrt(squares[j] * (1 - b) * (1 - b) + (all - squares[j]) * b * b);
        f->cell_ess[j] = squares[j] > 0 ? sum[j] * sum[j] / squares[j] : 0;
        f->cell_k[j] = wv_weights_pareto_k(end[j] - first, log_w + first, NULL, f->order);
    }
}

/* The iterations since the cells came to rest have estimated the same masses: both estimates,
 * weighted by their precision. */
static void pool_masses(wvgd_fit *f)
{
    double total = 0, k = (double)f->s.averaged;
    for (size_t j = 0; j < f->N; j++) {
        double other = fmax(f->now.beta2[j] - f->now.beta[j] * f->now.beta[j], 0) / fmax(k - 1, 1),
               own = f->beta_se[j] * f->beta_se[j];
        if (f->s.averaged && own > 0 && other > 0) {
            f->beta[j] = (f->beta[j] / own + f->now.beta[j] / other) / (1 / own + 1 / other);
            f->beta_se[j] = sqrt(1 / (1 / own + 1 / other));
        }
        total += f->beta[j];
    }
    for (size_t j = 0; j < f->N; j++)
        f->beta[j] /= total;
}

void wv_posterior_moments(const wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse)
{
    const double *v = f->close_cal;
    for (size_t i = 0; i < m; i++) {
        wvgd_estimate e = wv_evidence_mean(f->close.n, v, value + i, m);
        mean[i] = e.value;
        mcse[i] = e.se;
        var[i] = 0;
        for (size_t k = 0; k < f->close.n; k++)
            var[i] += v[k] > 0 ? v[k] * (value[k * m + i] - e.value) * (value[k * m + i] - e.value) : 0;
    }
}

void wv_posterior_root(wvgd_fit *f, const wv_family *family, double *root)
{
    size_t D = f->D;
    double *sd = f->vector[0], *C = f->square[0], *x = f->block, *centred = x + D * WV_COLUMNS,
           *weighted = centred + D * WV_COLUMNS, v[WV_COLUMNS]; /* [D][WV_COLUMNS] */
    for (size_t i = 0; i < D; i++)
        sd[i] = fmax(sqrt(f->var[i]), 1e-150);
    family->set_sd(D, 0, root, sd);
    if (family != wv_family_get(WVGD_FULL))
        return;
    memset(C, 0, D * D * sizeof *C);
    for (size_t first = 0; first < f->close.n; first += WV_COLUMNS) {
        size_t here = f->close.n - first < WV_COLUMNS ? f->close.n - first : WV_COLUMNS, whole = wv_columns_round(here);
        for (size_t k = 0; k < whole; k++)
            v[k] = k < here ? f->close_v[first + k] : 0;
        wv_columns_turn(D, here, f->close.x + first * D, x);
        wv_columns_best()->centre(D, whole, v, x, f->mean, centred, weighted);
        wv_columns_product(D, whole, weighted, centred, true, C);
    }
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            C[i * D + k] /= sd[i] * sd[k];
    if (wv_dense_chol(D, C, f->square[1]))
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k <= i; k++)
                root[i * D + k] = sd[i] * C[i * D + k];
}

/* One particle bounds no cell: it is placed only now. With several, the iterations since the cells came to
 * rest have estimated the same distortion. */
static void distortion(wvgd_fit *f)
{
    if (f->N == 1) {
        wv_posterior_root(f, f->cell_family, f->now.spread);
        if (!f->opt.metric)
            wv_posterior_root(f, f->metric_family, f->now.metric);
        wv_particle_place_one(f, f->close.n, f->close.x, f->close_v, f->mean);
        for (size_t first = 0; first < f->close.n; first += f->n_max) {
            size_t here = f->close.n - first < f->n_max ? f->close.n - first : f->n_max;
            wv_nearest_assign(f, here, f->close.x + first * f->D, f->b.cell, f->close.near + first, f->b.next);
        }
    }
    wvgd_estimate d = wv_evidence_mean(f->close.n, f->close_v, f->close.near, 1);
    double k = (double)f->s.averaged, own = d.se * d.se,
           other = fmax(f->s.distortion2 - f->s.distortion1 * f->s.distortion1, 0) / fmax(k - 1, 1);
    if (f->N > 1 && f->s.averaged && own > 0 && other > 0 && isfinite(own) && isfinite(other)) {
        d.value = (d.value / own + f->s.distortion1 / other) / (1 / own + 1 / other);
        d.se = sqrt(1 / (1 / own + 1 / other));
    }
    f->s.distortion = d.value;
    f->s.distortion_se = d.se;
}

void wv_posterior_describe(wvgd_fit *f)
{
    wv_posterior_masses(f, f->beta);
    for (size_t i = 0; i < f->close.n; i++)
        f->psi[i] = f->close.log_p[i] - f->close.log_m[i];
    f->s.pareto_k = wv_weights_pareto_k(f->close.n, f->psi, f->close_smooth, f->order);
    cell_diagnostics(f);
    pool_masses(f);
    distortion(f);
}
