/* posterior.c - what weighted closing draws say of the posterior: moments, masses of the cells and diagnostics (method,
 * section 5). */
#include "posterior.h"
#include "limit.h"
#include "arena.h"
#include "memory.h"
#include "gaussian.h"
#include "evidence.h"
#include "dense.h"
#include "simd/columns.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

bool wv_posterior_new(wv_posterior *p, size_t D)
{
    const wv_slot slots[] = {{&p->mean, D}, {&p->var, D}, {&p->mcse, D}, {&p->sd_se, D}, {&p->tail_k, D}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    for (size_t i = 0; p->memory && i < D; i++)
        p->mean[i] = p->var[i] = p->mcse[i] = p->sd_se[i] = p->tail_k[i] = NAN;
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
    wv_archive_array(a, p->sd_se, D);
    wv_archive_array(a, p->tail_k, D);
}

void wv_posterior_masses(const wv_closing *c, size_t N, double *beta)
{
    memset(beta, 0, N * sizeof *beta);
    for (size_t i = 0; i < c->draws.n; i++)
        beta[c->draws.cell[i]] += c->v[i];
}

void wv_posterior_log_weights(const wv_draws *d, double *log_w)
{
    for (size_t i = 0; i < d->n; i++)
        log_w[i] = d->log_p[i] - d->log_m[i];
}

double wv_posterior_smooth(wv_closing *c, wv_arena *arena)
{
    size_t n = c->draws.n, mark = wv_arena_mark(arena);
    double *log_w = wv_arena_take(arena, n), *smooth = wv_arena_take(arena, n);
    wv_posterior_log_weights(&c->draws, log_w);
    double k = wv_weights_pareto_k(n, log_w, smooth, arena);
    wv_closing_set_smooth(c, smooth);
    wv_arena_release(arena, mark);
    return c->draws.states ? NAN : k;
}

void wv_posterior_diagnose(const wv_closing *c, size_t N, const double *beta, wv_cell_diagnostics to, wv_arena *arena)
{
    size_t n = c->draws.n, mark = wv_arena_mark(arena);
    size_t *end = wv_arena_take_sizes(arena, N + 1); /* draws of the cells before; later, of the cell itself, too */
    double all = 0, *sum = wv_arena_take(arena, N), *squares = wv_arena_take(arena, N),
           *log_w = wv_arena_take(arena, n); /* [n] by cell */
    memset(end, 0, (N + 1) * sizeof *end);
    memset(sum, 0, N * sizeof *sum);
    memset(squares, 0, N * sizeof *squares);
    for (size_t i = 0; i < n; i++) {
        size_t j = c->draws.cell[i];
        double v = c->v[i];
        end[j + 1]++;
        sum[j] += v;
        squares[j] += v * v;
        all += v * v;
    }
    for (size_t j = 0; j < N; j++)
        end[j + 1] += end[j];
    for (size_t i = 0; i < n; i++)
        log_w[end[c->draws.cell[i]]++] = c->draws.log_p[i] - c->draws.log_m[i];
    for (size_t j = 0, first = 0; j < N; first = end[j++]) {
        double b = beta[j];
        to.beta_se[j] = sqrt(squares[j] * (1 - b) * (1 - b) + (all - squares[j]) * b * b);
        to.ess[j] = squares[j] > 0 ? sum[j] * sum[j] / squares[j] : 0;
        to.pareto_k[j] = wv_weights_pareto_k(end[j] - first, log_w + first, NULL, arena);
    }
    wv_arena_release(arena, mark);
}

void wv_posterior_moments(const wv_closing *c, size_t m, const double *value, wv_moments to, wv_arena *arena)
{
    size_t n = c->draws.n, mark = wv_arena_mark(arena);
    const double *v = c->calibrated;
    double *square = wv_arena_take(arena, n);
    for (size_t i = 0; i < m; i++) {
        wvgd_estimate e = wv_evidence_mean(n, v, value + i, m);
        to.mean[i] = e.value;
        to.mcse[i] = e.se;
        to.var[i] = 0;
        for (size_t k = 0; k < n; k++) {
            square[k] = v[k] > 0 ? (value[k * m + i] - e.value) * (value[k * m + i] - e.value) : 0;
            to.var[i] += v[k] > 0 ? v[k] * (value[k * m + i] - e.value) * (value[k * m + i] - e.value) : 0;
        }
        if (!to.sd_se)
            continue;
        wv_limit_look(arena);
        double se = wv_evidence_mean(n, v, square, 1).se;
        to.sd_se[i] = to.var[i] > 0 ? se / (2 * sqrt(to.var[i])) : 0 * to.var[i];
    }
    if (to.tail_k)
        wv_weights_tail_indices(n, v, m, value, m, to.mean, to.var, to.sd_se, to.tail_k, arena);
    wv_arena_release(arena, mark);
}

void wv_posterior_estimate(wv_posterior *p, const wv_closing *c, wv_arena *arena)
{
    wv_posterior_moments(c, c->draws.shape.D, c->draws.x, (wv_moments){p->mean, p->var, p->mcse, p->sd_se, p->tail_k},
                         arena);
}

void wv_posterior_estimate_roughly(wv_posterior *p, const wv_closing *c, wv_arena *arena)
{
    size_t D = c->draws.shape.D;
    wv_posterior_moments(c, D, c->draws.x, (wv_moments){p->mean, p->var, p->mcse, p->sd_se, NULL}, arena);
    for (size_t i = 0; i < D; i++)
        p->tail_k[i] = NAN;
}

/* Draws by their mode, and its mean. */
typedef struct {
    const size_t *mode; /* [n] */
    const double *mean; /* [modes][D] */
} in_modes;

/* rows[n][D] <- draws from `first` on, less the mean of their mode. */
static void from_modes(const wv_closing *c, const in_modes *in, size_t first, size_t n, double *rows)
{
    size_t D = c->draws.shape.D;
    for (size_t k = first; k < first + n; k++)
        for (size_t i = 0; i < D; i++)
            *rows++ = c->draws.x[k * D + i] - in->mean[in->mode[k] * D + i];
}

/* C[D][D] += the weighted squares of the draws about their mean, or those of their modes, the lower half. */
static void add_squares(const wv_posterior *p, const wv_closing *c, const in_modes *in, double *C, wv_arena *arena)
{
    size_t D = c->draws.shape.D, mark = wv_arena_mark(arena);
    double *x = wv_arena_take(arena, 3 * D * WV_COLUMNS), *centred = x + D * WV_COLUMNS,
           *weighted = centred + D * WV_COLUMNS, v[WV_COLUMNS], /* [D][WV_COLUMNS] */
                                                     *rows = in ? wv_arena_take(arena, D * WV_COLUMNS) : NULL,
           *zero = in ? wv_arena_zeros(arena, D) : NULL;
    for (size_t first = 0; first < c->draws.n; first += WV_COLUMNS) {
        size_t here = c->draws.n - first < WV_COLUMNS ? c->draws.n - first : WV_COLUMNS, whole = wv_columns_round(here);
        for (size_t k = 0; k < whole; k++)
            v[k] = k < here ? c->v[first + k] : 0;
        if (in)
            from_modes(c, in, first, here, rows);
        wv_columns_turn(D, here, in ? rows : c->draws.x + first * D, x);
        wv_columns_best()->centre(D, whole, v, x, in ? zero : p->mean, centred, weighted);
        wv_columns_product(D, whole, weighted, centred, true, C, arena);
    }
    wv_arena_release(arena, mark);
}

/* Turns root, of independent coordinates with these sds, into that of the correlated ones, if their covariance has a
 * Cholesky factor, and the draws, which may be mirrored pairs, span all directions. */
static void correlate(const wv_posterior *p, const wv_closing *c, const in_modes *in, const double *sd, double *root,
                      wv_arena *arena)
{
    size_t D = c->draws.shape.D, mark = wv_arena_mark(arena);
    if (wv_weights_ess(c->draws.n, c->v) < 2 * (double)D)
        return;
    double *C = wv_arena_zeros(arena, D * D), *spare = wv_arena_take(arena, D * D);
    add_squares(p, c, in, C, arena);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            C[i * D + k] /= sd[i] * sd[k];
    if (wv_dense_chol(D, C, spare))
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k <= i; k++)
                root[i * D + k] = sd[i] * C[i * D + k];
    wv_arena_release(arena, mark);
}

void wv_posterior_root(const wv_posterior *p, const wv_closing *c, const wv_family *family, double *root,
                       wv_arena *arena)
{
    size_t D = c->draws.shape.D, mark = wv_arena_mark(arena);
    double *sd = wv_arena_take(arena, D);
    for (size_t i = 0; i < D; i++)
        sd[i] = fmax(sqrt(p->var[i]), 1e-150);
    family->set_sd(D, 0, root, sd);
    if (family == wv_family_get(WVGD_FULL))
        correlate(p, c, NULL, sd, root, arena);
    wv_arena_release(arena, mark);
}

/* Means of the modes, mean[modes][D], and sds of the draws about those of theirs, sd[D]; false: some sd vanishes. */
static bool find_modes(const wv_closing *c, size_t modes, const size_t *mode, double *mean, double *sd, wv_arena *arena)
{
    size_t D = c->draws.shape.D, mark = wv_arena_mark(arena);
    const double *x = c->draws.x, *v = c->v;
    double *mass = wv_arena_zeros(arena, modes), total = 0;
    bool some = true;
    for (size_t k = 0; k < c->draws.n; k++) {
        mass[mode[k]] += v[k];
        for (size_t i = 0; v[k] > 0 && i < D; i++)
            mean[mode[k] * D + i] += v[k] * x[k * D + i];
    }
    for (size_t m = 0; m < modes; m++) {
        total += mass[m];
        for (size_t i = 0; i < D; i++)
            mean[m * D + i] /= mass[m] > 0 ? mass[m] : 1;
    }
    memset(sd, 0, D * sizeof *sd);
    for (size_t k = 0; k < c->draws.n; k++)
        for (size_t i = 0; v[k] > 0 && i < D; i++) {
            double far = x[k * D + i] - mean[mode[k] * D + i];
            sd[i] += v[k] / total * far * far;
        }
    for (size_t i = 0; i < D; i++) {
        sd[i] = sqrt(sd[i]);
        some = some && isnormal(sd[i]);
    }
    wv_arena_release(arena, mark);
    return some;
}

void wv_posterior_root_within(const wv_posterior *p, const wv_closing *c, size_t modes, const size_t *mode,
                              const wv_family *family, double *root, wv_arena *arena)
{
    size_t D = c->draws.shape.D, mark = wv_arena_mark(arena);
    double *mean = wv_arena_zeros(arena, modes * D), *sd = wv_arena_take(arena, D);
    in_modes in = {mode, mean};
    if (find_modes(c, modes, mode, mean, sd, arena)) {
        family->set_sd(D, 0, root, sd);
        if (family == wv_family_get(WVGD_FULL))
            correlate(p, c, &in, sd, root, arena);
    }
    wv_arena_release(arena, mark);
}

void wv_posterior_set_moments(wv_posterior *p, size_t D, const wv_moments *from)
{
    memcpy(p->mean, from->mean, D * sizeof *p->mean);
    memcpy(p->var, from->var, D * sizeof *p->var);
    memcpy(p->mcse, from->mcse, D * sizeof *p->mcse);
    memcpy(p->sd_se, from->sd_se, D * sizeof *p->sd_se);
    memcpy(p->tail_k, from->tail_k, D * sizeof *p->tail_k);
}

void wv_posterior_get_moments(const wv_posterior *p, size_t D, const wv_moments *to)
{
    memcpy(to->mean, p->mean, D * sizeof *p->mean);
    memcpy(to->var, p->var, D * sizeof *p->var);
    memcpy(to->mcse, p->mcse, D * sizeof *p->mcse);
    if (!to->sd_se)
        return;
    memcpy(to->sd_se, p->sd_se, D * sizeof *p->sd_se);
    memcpy(to->tail_k, p->tail_k, D * sizeof *p->tail_k);
}

void wv_posterior_copy(wv_posterior *to, const wv_posterior *from, size_t D)
{
    wv_posterior_set_moments(to, D, &(wv_moments){from->mean, from->var, from->mcse, from->sd_se, from->tail_k});
}
