/* evidence.c - bounds and evidence from points z_i drawn from a mixture m, u_j = q_j/m, v = p~/m (method,
 * section 5).
 *     Z_j    = sum_{i in cell j} u_j / sum_i u_j                  E_m[u_j] = 1 is known, so dividing by it removes
 *                                                                 noise: all of it when Z_j = 1
 *     ELBO_j = E_qj[h] + log Z_j,  h = log p~ - log q_j           E_qj by u_j over the points in cell j
 *     PELBO  = sum_j w_j (ELBO_j - log w_j)
 * The influence of a point on PELBO is sum_j w_j [ u_j 1_j (h - h_bar_j + 1)/Z_j - u_j ]; its variance within strata
 * gives the standard error. A point of density zero belongs to no cell: components are cut to the support as well. */
#include "evidence.h"
#include "arena.h"
#include "weights.h"
#include <math.h>
#include <string.h>

void wv_evidence_elbo(size_t N, const wv_batch *b, double *elbo, double *log_Z, double *h_bar, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *sum = elbo, *mean = h_bar ? h_bar : wv_arena_take(arena, N);
    memset(sum, 0, N * sizeof *sum);
    memset(mean, 0, N * sizeof *mean);
    for (size_t i = 0; i < b->n; i++)
        if (b->log_p[i] > -INFINITY) {
            double u = exp(b->log_q[i] - b->log_m[i]);
            sum[b->cell[i]] += u;
            if (u > 0)
                mean[b->cell[i]] += u * (b->log_p[i] - b->log_q[i]);
        }
    for (size_t j = 0; j < N; j++) {
        mean[j] = sum[j] > 0 ? mean[j] / sum[j] : 0;
        log_Z[j] = sum[j] > 0 ? log(fmin(sum[j] / b->sum_u[j], 1)) : -INFINITY;
        elbo[j] = mean[j] + log_Z[j];
    }
    wv_arena_release(arena, mark);
}

/* Stratified standard error of the mean of psi: its square is the sum over strata of n_s Var_s / n^2. Points of a
 * stratum are consecutive. In units of the largest psi. */
static double stratified(size_t n, const uint32_t *stratum, double *psi)
{
    double total = 0, largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(psi[i]));
    for (size_t i = 0; i < n && largest > 0; i++)
        psi[i] /= largest;
    for (size_t i = 0, end; i < n; i = end) {
        double mean = 0, squares = 0;
        for (end = i; end < n && stratum[end] == stratum[i]; end++)
            mean += psi[end];
        double size = (double)(end - i);
        mean /= size;
        for (size_t k = i; k < end; k++)
            squares += (psi[k] - mean) * (psi[k] - mean);
        total += size > 1 ? size * squares / (size - 1) : squares;
    }
    return largest * sqrt(total) / (double)n;
}

/* Standard error of the bound, by the influence of each point on it. kept: the sum of the weights that count. */
static double bound_se(const wv_batch *b, const double *w, double kept, int which, const double *elbo,
                       const double *log_Z, const double *h_bar, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *influence = wv_arena_take(arena, b->n), se;
    for (size_t i = 0; i < b->n; i++) {
        size_t j = b->cell[i];
        double psi = -exp(b->log_mix[which][i] - b->log_m[i]);
        if (b->log_p[i] > -INFINITY && w[j] > 0 && elbo[j] > -INFINITY)
            psi += w[j] / kept * exp(b->log_q[i] - b->log_m[i] - log_Z[j]) * (b->log_p[i] - b->log_q[i] - h_bar[j] + 1);
        influence[i] = psi;
    }
    se = stratified(b->n, b->stratum, influence);
    wv_arena_release(arena, mark);
    return se;
}

wvgd_estimate wv_evidence_bound(size_t N, const wv_batch *b, const double *w, int which, const double *elbo,
                                const double *log_Z, const double *h_bar, wv_arena *arena)
{
    wvgd_estimate bound = {0, NAN};
    double kept = 0;
    for (size_t j = 0; j < N; j++)
        if (w[j] > 0 && elbo[j] > -INFINITY)
            kept += w[j];
    if (!(kept > 0))
        return (wvgd_estimate){-INFINITY, INFINITY};
    for (size_t j = 0; j < N; j++)
        if (w[j] > 0 && elbo[j] > -INFINITY)
            bound.value += w[j] / kept * (elbo[j] - log(w[j] / kept));
    bound.se = bound_se(b, w, kept, which, elbo, log_Z, h_bar, arena);
    return bound;
}

void wv_evidence_elbo_se(size_t N, const wv_batch *b, const double *elbo, const double *log_Z, const double *h_bar,
                         double *se)
{
    for (size_t j = 0; j < N; j++) {
        double largest = 0, squares = 0;
        for (int pass = 0; pass < 2; pass++) /* influence of a point in the cell, in units of the largest */
            for (size_t i = 0; i < b->n; i++) {
                if (b->cell[i] != j || b->log_p[i] == -INFINITY || elbo[j] == -INFINITY)
                    continue;
                double d = exp(b->log_q[i] - b->log_m[i] - log_Z[j]) *
                           (b->log_p[i] - b->log_q[i] - h_bar[j] + 1 - exp(log_Z[j]));
                if (pass == 0)
                    largest = fmax(largest, fabs(d));
                else if (largest > 0)
                    squares += d / largest * (d / largest);
            }
        /* points outside the cell: u_j of about 1 */
        se[j] = elbo[j] > -INFINITY
                    ? hypot(largest * sqrt(squares / (double)b->n), sqrt(1 - exp(log_Z[j]))) / sqrt((double)b->n)
                    : NAN;
    }
}

wvgd_estimate wv_evidence_importance(const wv_batch *b, wv_arena *arena)
{
    double top = -INFINITY, mean = 0, n = (double)b->n;
    for (size_t i = 0; i < b->n; i++)
        top = fmax(top, b->log_p[i] - b->log_m[i]);
    if (top == -INFINITY)
        return (wvgd_estimate){-INFINITY, INFINITY};
    size_t mark = wv_arena_mark(arena);
    double *weight = wv_arena_take(arena, b->n); /* in units of the largest */
    for (size_t i = 0; i < b->n; i++) {
        weight[i] = exp(b->log_p[i] - b->log_m[i] - top);
        mean += weight[i] / n;
    }
    wvgd_estimate evidence = {top + log(mean), stratified(b->n, b->stratum, weight) / mean};
    wv_arena_release(arena, mark);
    return evidence;
}

wvgd_estimate wv_evidence_reconcile(wvgd_estimate evidence, wvgd_estimate bound, wvgd_estimate other, double errors)
{
    const wvgd_estimate bounds[] = {bound, other};
    for (size_t i = 0; i < 2; i++) {
        double above = bounds[i].value - evidence.value;
        if (isfinite(above) && above > errors * hypot(evidence.se, bounds[i].se))
            evidence.se = sqrt(above / errors * (above / errors) - bounds[i].se * bounds[i].se);
    }
    return evidence;
}

bool wv_evidence_contradicted(wvgd_estimate evidence, wvgd_estimate bound, wvgd_estimate other, double errors)
{
    return bound.value - evidence.value > 0.999 * errors * hypot(evidence.se, bound.se) ||
           other.value - evidence.value > 0.999 * errors * hypot(evidence.se, other.se);
}

void wv_evidence_weights(size_t N, const double *elbo, double *weight)
{
    if (!wv_weights_normalise(N, elbo, weight))
        for (size_t j = 0; j < N; j++)
            weight[j] = 1 / (double)N;
    double kept = 0;
    for (size_t j = 0; j < N; j++)
        kept += weight[j] = weight[j] > 1e-12 ? weight[j] : 0;
    for (size_t j = 0; j < N; j++)
        weight[j] /= kept;
}

wvgd_estimate wv_evidence_mean(size_t n, const double *v, const double *values, size_t stride)
{
    wvgd_estimate e = {0, 0};
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i] > 0)
            e.value += v[i] * values[i * stride];
    for (size_t i = 0; i < n; i++)
        if (v[i] > 0)
            largest = fmax(largest, fabs(values[i * stride] - e.value));
    for (size_t i = 0; i < n && largest > 0; i++)
        if (v[i] > 0) {
            /* in units of the largest: costs may be near the end of the range of numbers, their squares beyond */
            double d = v[i] * ((values[i * stride] - e.value) / largest);
            e.se += d * d;
        }
    e.se = largest * sqrt(e.se);
    return e;
}
