/* posterior.c - what the closing draws say of the posterior, with either solver: their normalised weights, moments,
 * masses of the cells and diagnostics (method, section 5). */
#include "posterior.h"
#include "arena.h"
#include "fit.h"
#include "memory.h"
#include "gaussian.h"
#include "evidence.h"
#include "particle.h"
#include "dense.h"
#include "nearest.h"
#include "simd/columns.h"
#include "weights.h"
#include "policy.h"
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

bool wv_posterior_uncorrected(const wvgd_fit *f)
{
    return f->stage == WV_DONE && !f->staged && f->outcome.ess < wv_policy.posterior_few;
}

/* log_w[n]: logs of weights for the ensemble, up to a factor. */
static void ensemble_weights(const wvgd_fit *f, double *log_w)
{
    const wv_draws *b = &f->closing.draws;
    for (size_t i = 0; i < b->n; i++) {
        size_t j = b->cell[i];
        log_w[i] = f->cells.weight[j] > 0 && b->log_p[i] > -INFINITY
                       ? log(f->cells.weight[j]) + b->log_q[i] - f->cells.log_Z[j] - b->log_m[i]
                       : -INFINITY;
    }
}

/* log_w[n]: logs of weights for the posterior, up to a factor. */
static void importance_weights(const wvgd_fit *f, double *log_w)
{
    for (size_t i = 0; i < f->closing.draws.n; i++)
        log_w[i] = f->closing.draws.log_p[i] - f->closing.draws.log_m[i];
}

bool wv_posterior_weights(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n), *v = wv_arena_take(f->arena, n);
    importance_weights(f, log_w);
    bool some = wv_weights_normalise(n, log_w, v);
    wv_closing_set_weights(&f->closing, 0, v);
    if (some && wv_posterior_uncorrected(f)) /* what users see stands for the ensemble */
        ensemble_weights(f, log_w);
    double total = wv_weights_lse(n, log_w);
    for (size_t i = 0; i < n; i++)
        log_w[i] = some ? log_w[i] - total : -INFINITY;
    wv_closing_set_log_weights(&f->closing, log_w);
    wv_arena_release(f->arena, mark);
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
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    size_t *end = wv_arena_take_sizes(f->arena,
                                      f->N + 1); /* draws of the cells before; later, of the cell itself, too */
    uint32_t *order = wv_arena_take_index(f->arena, n);
    double all = 0, *sum = wv_arena_take(f->arena, f->N), *squares = wv_arena_take(f->arena, f->N),
           *log_w = wv_arena_take(f->arena, n); /* [n] by cell */
    memset(end, 0, (f->N + 1) * sizeof *end);
    memset(sum, 0, f->N * sizeof *sum);
    memset(squares, 0, f->N * sizeof *squares);
    for (size_t i = 0; i < n; i++) {
        size_t j = f->closing.draws.cell[i];
        double v = f->closing.v[i];
        end[j + 1]++;
        sum[j] += v;
        squares[j] += v * v;
        all += v * v;
    }
    for (size_t j = 0; j < f->N; j++)
        end[j + 1] += end[j];
    for (size_t i = 0; i < n; i++)
        log_w[end[f->closing.draws.cell[i]]++] = f->closing.draws.log_p[i] - f->closing.draws.log_m[i];
    for (size_t j = 0, first = 0; j < f->N; first = end[j++]) {
        double b = f->cells.beta[j];
        f->cells.beta_se[j] = sqrt(squares[j] * (1 - b) * (1 - b) + (all - squares[j]) * b * b);
        f->cells.ess[j] = squares[j] > 0 ? sum[j] * sum[j] / squares[j] : 0;
        f->cells.pareto_k[j] = wv_weights_pareto_k(end[j] - first, log_w + first, NULL, order);
    }
    wv_arena_release(f->arena, mark);
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

void wv_posterior_estimate(wvgd_fit *f)
{
    wv_posterior *p = &f->posterior;
    wv_posterior_moments(f, f->D, f->closing.draws.x, p->mean, p->var, p->mcse);
}

/* C[D][D] += the weighted squares of the draws about their mean, the lower half. */
static void add_squares(const wvgd_fit *f, double *C)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, 3 * D * WV_COLUMNS), *centred = x + D * WV_COLUMNS,
           *weighted = centred + D * WV_COLUMNS, v[WV_COLUMNS]; /* [D][WV_COLUMNS] */
    for (size_t first = 0; first < f->closing.draws.n; first += WV_COLUMNS) {
        size_t here = f->closing.draws.n - first < WV_COLUMNS ? f->closing.draws.n - first : WV_COLUMNS,
               whole = wv_columns_round(here);
        for (size_t k = 0; k < whole; k++)
            v[k] = k < here ? f->closing.v[first + k] : 0;
        wv_columns_turn(D, here, f->closing.draws.x + first * D, x);
        wv_columns_best()->centre(D, whole, v, x, f->posterior.mean, centred, weighted);
        wv_columns_product(D, whole, weighted, centred, true, C);
    }
    wv_arena_release(f->arena, mark);
}

/* Turns root, of independent coordinates with these sds, into that of the correlated ones, if their covariance has a
 * Cholesky factor. */
static void correlate(const wvgd_fit *f, const double *sd, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *C = wv_arena_zeros(f->arena, D * D), *spare = wv_arena_take(f->arena, D * D);
    add_squares(f, C);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            C[i * D + k] /= sd[i] * sd[k];
    if (wv_dense_chol(D, C, spare))
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k <= i; k++)
                root[i * D + k] = sd[i] * C[i * D + k];
    wv_arena_release(f->arena, mark);
}

void wv_posterior_root(wvgd_fit *f, const wv_family *family, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D);
    for (size_t i = 0; i < D; i++)
        sd[i] = fmax(sqrt(f->posterior.var[i]), 1e-150);
    family->set_sd(D, 0, root, sd);
    if (family == wv_family_get(WVGD_FULL))
        correlate(f, sd, root);
    wv_arena_release(f->arena, mark);
}

/* Costs of the draws to the one particle. */
static void measure_costs(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, most = f->size.n_max, mark = wv_arena_mark(f->arena);
    uint32_t *cell = wv_arena_take_index(f->arena, most);
    double *next = wv_arena_take(f->arena, most);
    for (size_t first = 0; first < n; first += most)
        wv_nearest_assign(f, n - first < most ? n - first : most, f->closing.draws.x + first * f->D, cell,
                          f->closing.draws.near + first, next);
    wv_arena_release(f->arena, mark);
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
        measure_costs(f);
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

static void overall_diagnostics(wvgd_fit *f)
{
    size_t n = f->closing.draws.n, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n), *smooth = wv_arena_take(f->arena, n);
    uint32_t *order = wv_arena_take_index(f->arena, n);
    importance_weights(f, log_w);
    f->outcome.pareto_k = wv_weights_pareto_k(n, log_w, smooth, order);
    wv_closing_set_smooth(&f->closing, smooth);
    wv_arena_release(f->arena, mark);
}

void wv_posterior_describe(wvgd_fit *f)
{
    wv_posterior_masses(f, f->cells.beta);
    overall_diagnostics(f);
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
