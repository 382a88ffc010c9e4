/* posterior.c - what the closing draws say of the posterior, with either solver: their normalised weights, moments,
 * masses of the cells and diagnostics (method, section 5). */
#include "posterior.h"
#include "fit.h"
#include "memory.h"
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
#include <stdlib.h>

bool wv_posterior_new(wv_posterior *p, size_t D)
{
    const wv_slot slots[] = {{&p->mean, D}, {&p->var, D}, {&p->mcse, D}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    for (size_t i = 0; p->memory && i < D; i++)
        p->mean[i] = p->var[i] = p->mcse[i] = NAN;
    return p->memory != NULL;
}

void wv_posterior_free(wv_posterior *p)
{
    free(p->memory);
}

void wv_posterior_archive(wv_posterior *p, wv_archive *a, size_t D)
{
    wv_archive_array(a, p->mean, D);
    wv_archive_array(a, p->var, D);
    wv_archive_array(a, p->mcse, D);
}

/* Effective draws below which weights correct nothing: what they say of the posterior is noise. */
static const double few = 30;

bool wv_posterior_uncorrected(const wvgd_fit *f)
{
    return f->stage == WV_DONE && !f->staged && f->outcome.ess < few;
}

/* The weights of the closing draws that users see are those that stand for the ensemble. */
static void stand_for_ensemble(wvgd_fit *f)
{
    for (size_t i = 0; i < f->closing.draws.n; i++) {
        size_t j = f->closing.draws.cell[i];
        f->desk.psi[i] = f->cells.weight[j] > 0 && f->closing.draws.log_p[i] > -INFINITY
                             ? log(f->cells.weight[j]) + f->closing.draws.log_q[i] - f->cells.log_Z[j] -
                                   f->closing.draws.log_m[i]
                             : -INFINITY;
    }
    double total = wv_weights_lse(f->closing.draws.n, f->desk.psi);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        f->closing.log_w[i] = f->desk.psi[i] - total;
}

bool wv_posterior_weights(wvgd_fit *f)
{
    for (size_t i = 0; i < f->closing.draws.n; i++)
        f->desk.psi[i] = f->closing.draws.log_p[i] - f->closing.draws.log_m[i];
    bool some = wv_weights_normalise(f->closing.draws.n, f->desk.psi, f->closing.v);
    double total = wv_weights_lse(f->closing.draws.n, f->desk.psi);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        f->closing.log_w[i] = some ? f->desk.psi[i] - total : -INFINITY;
    if (some && wv_posterior_uncorrected(f))
        stand_for_ensemble(f);
    return some;
}

void wv_posterior_masses(const wvgd_fit *f, double *beta)
{
    memset(beta, 0, f->N * sizeof *beta);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        beta[f->closing.draws.cell[i]] += f->closing.v[i];
}

static void cell_diagnostics(wvgd_fit *f)
{
    size_t *end = f->shared.start; /* [N + 1] draws of the cells before, which become those of the cell itself, too */
    double all = 0, *sum = f->shared.cell_spare, *squares = f->cells.ess, *log_w = f->desk.psi;
    memset(end, 0, (f->N + 1) * sizeof *end);
    memset(sum, 0, f->N * sizeof *sum);
    memset(squares, 0, f->N * sizeof *squares);
    for (size_t i = 0; i < f->closing.draws.n; i++) {
        size_t j = f->closing.draws.cell[i];
        double v = f->closing.v[i];
        end[j + 1]++;
        sum[j] += v;
        squares[j] += v * v;
        all += v * v;
    }
    for (size_t j = 0; j < f->N; j++)
        end[j + 1] += end[j];
    for (size_t i = 0; i < f->closing.draws.n; i++)
        log_w[end[f->closing.draws.cell[i]]++] = f->closing.draws.log_p[i] - f->closing.draws.log_m[i];
    for (size_t j = 0, first = 0; j < f->N; first = end[j++]) {
        double b = f->cells.beta[j];
        f->cells.beta_se[j] = sqrt(squares[j] * (1 - b) * (1 - b) + (all - squares[j]) * b * b);
        f->cells.ess[j] = squares[j] > 0 ? sum[j] * sum[j] / squares[j] : 0;
        f->cells.pareto_k[j] = wv_weights_pareto_k(end[j] - first, log_w + first, NULL, f->shared.order);
    }
}

/* The iterations since the cells came to rest have estimated the same masses: both estimates,
 * weighted by their precision. */
static void pool_masses(wvgd_fit *f)
{
    double total = 0, k = (double)f->joint.averaged;
    for (size_t j = 0; j < f->N; j++) {
        double other = fmax(f->cells.now.beta2[j] - f->cells.now.beta[j] * f->cells.now.beta[j], 0) / fmax(k - 1, 1),
               own = f->cells.beta_se[j] * f->cells.beta_se[j];
        if (f->joint.averaged && own > 0 && other > 0) {
            f->cells.beta[j] = (f->cells.beta[j] / own + f->cells.now.beta[j] / other) / (1 / own + 1 / other);
            f->cells.beta_se[j] = sqrt(1 / (1 / own + 1 / other));
        }
        total += f->cells.beta[j];
    }
    for (size_t j = 0; j < f->N; j++)
        f->cells.beta[j] /= total;
}

void wv_posterior_moments(const wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse)
{
    const double *v = f->closing.calibrated;
    for (size_t i = 0; i < m; i++) {
        wvgd_estimate e = wv_evidence_mean(f->closing.draws.n, v, value + i, m);
        mean[i] = e.value;
        mcse[i] = e.se;
        var[i] = 0;
        for (size_t k = 0; k < f->closing.draws.n; k++)
            var[i] += v[k] > 0 ? v[k] * (value[k * m + i] - e.value) * (value[k * m + i] - e.value) : 0;
    }
}

void wv_posterior_root(wvgd_fit *f, const wv_family *family, double *root)
{
    size_t D = f->D;
    double *sd = f->desk.vector[0], *C = f->desk.square[0], *x = f->desk.block, *centred = x + D * WV_COLUMNS,
           *weighted = centred + D * WV_COLUMNS, v[WV_COLUMNS]; /* [D][WV_COLUMNS] */
    for (size_t i = 0; i < D; i++)
        sd[i] = fmax(sqrt(f->posterior.var[i]), 1e-150);
    family->set_sd(D, 0, root, sd);
    if (family != wv_family_get(WVGD_FULL))
        return;
    memset(C, 0, D * D * sizeof *C);
    for (size_t first = 0; first < f->closing.draws.n; first += WV_COLUMNS) {
        size_t here = f->closing.draws.n - first < WV_COLUMNS ? f->closing.draws.n - first : WV_COLUMNS,
               whole = wv_columns_round(here);
        for (size_t k = 0; k < whole; k++)
            v[k] = k < here ? f->closing.v[first + k] : 0;
        wv_columns_turn(D, here, f->closing.draws.x + first * D, x);
        wv_columns_best()->centre(D, whole, v, x, f->posterior.mean, centred, weighted);
        wv_columns_product(D, whole, weighted, centred, true, C);
    }
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            C[i * D + k] /= sd[i] * sd[k];
    if (wv_dense_chol(D, C, f->desk.square[1]))
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k <= i; k++)
                root[i * D + k] = sd[i] * C[i * D + k];
}

/* One particle bounds no cell: it is placed only now. With several, the iterations since the cells came to
 * rest have estimated the same distortion. */
static void distortion(wvgd_fit *f)
{
    if (f->N == 1) {
        wv_posterior_root(f, f->cell_family, f->cells.now.spread);
        if (!f->opt.metric)
            wv_posterior_root(f, f->metric_family, f->cells.now.metric);
        wv_particle_place_one(f, f->closing.draws.n, f->closing.draws.x, f->closing.v, f->posterior.mean);
        for (size_t first = 0; first < f->closing.draws.n; first += f->size.n_max) {
            size_t here = f->closing.draws.n - first < f->size.n_max ? f->closing.draws.n - first : f->size.n_max;
            wv_nearest_assign(f, here, f->closing.draws.x + first * f->D, f->b.cell, f->closing.draws.near + first,
                              f->b.next);
        }
    }
    wvgd_estimate d = wv_evidence_mean(f->closing.draws.n, f->closing.v, f->closing.draws.near, 1);
    double k = (double)f->joint.averaged, own = d.se * d.se,
           other = fmax(f->joint.distortion2 - f->joint.distortion1 * f->joint.distortion1, 0) / fmax(k - 1, 1);
    if (f->N > 1 && f->joint.averaged && own > 0 && other > 0 && isfinite(own) && isfinite(other)) {
        d.value = (d.value / own + f->joint.distortion1 / other) / (1 / own + 1 / other);
        d.se = sqrt(1 / (1 / own + 1 / other));
    }
    f->last.distortion = d.value;
    f->last.distortion_se = d.se;
}

void wv_posterior_describe(wvgd_fit *f)
{
    wv_posterior_masses(f, f->cells.beta);
    for (size_t i = 0; i < f->closing.draws.n; i++)
        f->desk.psi[i] = f->closing.draws.log_p[i] - f->closing.draws.log_m[i];
    f->outcome.pareto_k = wv_weights_pareto_k(f->closing.draws.n, f->desk.psi, f->closing.smooth, f->shared.order);
    cell_diagnostics(f);
    pool_masses(f);
    distortion(f);
}

void wv_posterior_set_moments(wv_posterior *p, size_t D, const double *mean, const double *var, const double *mcse)
{
    memcpy(p->mean, mean, D * sizeof *mean);
    memcpy(p->var, var, D * sizeof *var);
    memcpy(p->mcse, mcse, D * sizeof *mcse);
}

void wv_posterior_copy(wv_posterior *to, const wv_posterior *from, size_t D)
{
    memcpy(to->mean, from->mean, D * sizeof *to->mean);
    memcpy(to->var, from->var, D * sizeof *to->var);
    memcpy(to->mcse, from->mcse, D * sizeof *to->mcse);
}
