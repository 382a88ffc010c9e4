/* grow.c - growth of the mixture: components that fit badly are split, others begin where p~/m is largest, and those
 * without weight are dropped. */
#include "staged/grow.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "simd/columns.h"
#include "staged/assess.h"
#include "staged/modes.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Weights of points that need not be looked at: for sums, and for the direction of a split. */
static const double negligible = 1e-12, faint = 1e-8;

/* ---- drop -------------------------------------------------------------------------------------------------------- */
static size_t mode_of(wvgd_fit *f, size_t k)
{
    wv_gaussian g = wv_mixture_component(&f->mix, k);
    return wv_modes_nearest_to(f, f->modes.n, &g);
}

/* Is component k the heaviest of those of a mode? */
static bool stands_for_mode(wvgd_fit *f, size_t k)
{
    for (size_t i = 0; i < f->mix.K; i++)
        if (f->mix.w[i] > f->mix.w[k] && mode_of(f, i) == mode_of(f, k))
            return false;
    return true;
}

void wv_grow_drop(wvgd_fit *f)
{
    size_t K = f->mix.K, mark = wv_arena_mark(f->arena);
    double *light = wv_arena_take(f->arena, K);
    for (size_t k = 0; k < K; k++)
        light[k] = !(f->mix.w[k] > wv_policy.mixture_drop / (double)K) &&
                   !(f->mix.w[k] > wv_policy.mixture_drop_mode && stands_for_mode(f, k));
    wv_mixture_drop(&f->mix, light);
    wv_arena_release(f->arena, mark);
}

/* ---- split ------------------------------------------------------------------------------------------------------- */
/* S[D][D][D]: the mean third derivative of log p~ in whitened coordinates, E[r_a y_b y_c] by Stein's identity
 * (r has mean 0), symmetrised. uy: [n][D]. */
static void third_derivative(size_t D, size_t n, const double *u, const double *y, const double *r, double *uy,
                             double *S)
{
    for (size_t b = 0; b < D; b++) { /* S[b][a][c] = E[r_a y_b y_c] for c <= b */
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c <= b; c++)
                uy[i * D + c] = u[i] * y[i * D + b] * y[i * D + c];
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)D, (int)b + 1, (int)n, 1.0, r, (int)D, uy, (int)D,
                    0.0, S + b * D * D, (int)D);
    }
    for (size_t p = 0; p < D; p++)
        for (size_t q = 0; q <= p; q++)
            for (size_t s = 0; s <= q; s++) {
                double mean = (S[(q * D + p) * D + s] + S[(p * D + q) * D + s] + S[(p * D + s) * D + q]) / 3;
                S[(p * D + q) * D + s] = S[(p * D + s) * D + q] = S[(q * D + p) * D + s] = mean;
                S[(q * D + s) * D + p] = S[(s * D + p) * D + q] = S[(s * D + q) * D + p] = mean;
            }
}

/* One step of a power iteration: T = S(v, ., .), and v becomes the unit vector along S(T, .).
 * Returns the Frobenius norm of T. */
static double power_step(size_t D, const double *S, double *v, double *T)
{
    int d = (int)D;
    cblas_dgemv(CblasRowMajor, CblasTrans, d, d * d, 1.0, S, d * d, v, 1, 0.0, T, 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, d, d * d, 1.0, S, d * d, T, 1, 0.0, v, 1);
    double length = cblas_dnrm2(d, v, 1);
    if (length > 0)
        cblas_dscal(d, 1 / length, v, 1);
    return cblas_dnrm2(d * d, T, 1);
}

/* Points that stand for a component. */
typedef struct {
    size_t n;
    double *x, *grad, *u; /* [n][D], [n][D], [n] weights */
} sample;

/* Those of component k, from the arena. */
static sample gather(wvgd_fit *f, const wv_assessment *a, size_t k)
{
    size_t D = f->D;
    sample s = {.x = wv_arena_take(f->arena, a->n * D),
                .grad = wv_arena_take(f->arena, a->n * D),
                .u = wv_arena_take(f->arena, wv_assess_blocks(a) * WV_COLUMNS)};
    size_t n = wv_assess_component(f, a, k, faint, s.u) ? a->n : 0;
    for (size_t i = 0; i < n; i++)
        if (s.u[i] > 0) {
            memcpy(s.x + s.n * D, f->recent.x + i * D, D * sizeof(double));
            memcpy(s.grad + s.n * D, f->recent.grad + i * D, D * sizeof(double));
            s.u[s.n++] = s.u[i];
        }
    return s;
}

/* The length that all but a share of the weight stays below. */
static double quantile(size_t n, const double *length, const double *u, double share)
{
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++)
        high = fmax(high, length[i]);
    for (int round = 0; round < 40; round++) {
        double middle = (low + high) / 2, below = 0;
        for (size_t i = 0; i < n; i++)
            below += length[i] <= middle ? u[i] : 0;
        *(below < share ? &low : &high) = middle;
    }
    return high;
}

/* r[n][D]: outliers are pulled in, and the mean subtracted. */
static void tame(wvgd_fit *f, size_t n, const double *u, double *r)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *length = wv_arena_take(f->arena, n), *mean = wv_arena_zeros(f->arena, D);
    for (size_t i = 0; i < n; i++)
        length[i] = cblas_dnrm2((int)D, r + i * D, 1);
    double most = quantile(n, length, u, wv_policy.mixture_split_quantile);
    for (size_t i = 0; i < n; i++) {
        if (length[i] > most)
            cblas_dscal((int)D, most / length[i], r + i * D, 1);
        cblas_daxpy((int)D, u[i], r + i * D, 1, mean, 1);
    }
    for (size_t i = 0; i < n; i++)
        cblas_daxpy((int)D, -1.0, mean, 1, r + i * D, 1);
    wv_arena_release(f->arena, mark);
}

/* best[D]: the unit vector along which S[D][D][D] is largest, of several that power iterations find. */
static void largest_direction(wvgd_fit *f, size_t k, const double *S, double *best)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *v = wv_arena_take(f->arena, D), *T = wv_arena_take(f->arena, D * D), largest = -1;
    for (uint64_t start = 0; (double)start < wv_policy.mixture_split_starts; start++) {
        wv_stream stream = {f->opt.seed, WV_RNG_RESTART, f->count.batch, k};
        wv_rng_normal(&stream, start, D, v);
        cblas_dscal((int)D, 1 / cblas_dnrm2((int)D, v, 1), v, 1);
        double norm = 0;
        for (int round = 0; round < wv_policy.mixture_split_rounds; round++)
            norm = power_step(D, S, v, T);
        if (norm > largest) {
            largest = norm;
            memcpy(best, v, D * sizeof *v);
        }
    }
    wv_arena_release(f->arena, mark);
}

/* Unit direction, in the whitened coordinates of component k, in which the curvature of log p~ changes fastest. */
static void fastest(wvgd_fit *f, const wv_assessment *a, size_t k, double *best)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    sample s = gather(f, a, k);
    double *y = wv_arena_take(f->arena, s.n * D), *r = s.grad, *S = wv_arena_take(f->arena, D * D * D);
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    wv_gaussian_whiten(&q, s.n, s.x, y, f->arena);
    q.family->pull(D, 0, q.root, s.n, r, f->arena);
    cblas_daxpy((int)(s.n * D), 1.0, y, 1, r, 1); /* what the component leaves of the gradient */
    tame(f, s.n, s.u, r);
    third_derivative(D, s.n, s.u, y, r, wv_arena_take(f->arena, s.n * D), S);
    largest_direction(f, k, S, best);
    wv_arena_release(f->arena, mark);
}

/* Component k becomes three along direction v: itself, narrower, and a copy to either side. */
static void split(wvgd_fit *f, size_t k, const double *v)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double aside = exp(-0.5), share = 1 / (1 + 2 * aside), w = f->mix.w[k], *C = wv_arena_take(f->arena, D * D),
           *away = wv_arena_take(f->arena, D), *mu = wv_arena_take(f->arena, D);
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    memcpy(away, v, D * sizeof *v);
    q.family->colour(D, 0, q.root, 1, away, f->arena);
    for (size_t i = 0; i < D; i++)
        for (size_t c = 0; c < D; c++)
            C[i * D + c] = (i == c) - wv_policy.mixture_split_narrowing * v[i] * v[c];
    if (wv_mixture_absorb(&f->mix, k, C, f->arena)) {
        for (int sign = -1; sign <= 1; sign += 2) {
            memcpy(mu, q.mu, D * sizeof *mu);
            cblas_daxpy((int)D, sign, away, 1, mu, 1);
            wv_mixture_append(&f->mix, &(wv_gaussian){q.family, D, 0, mu, q.root, 0}, w * aside * share);
        }
        wv_mixture_set_weight(&f->mix, k, w * share);
    }
    wv_arena_release(f->arena, mark);
}

/* Part of component k in what is wrong with the mixture: its share of the variance of log p~ - log m. */
static double misfit(wvgd_fit *f, const wv_assessment *a, size_t k)
{
    size_t mark = wv_arena_mark(f->arena);
    double gap = 0, *u = wv_arena_take(f->arena, wv_assess_blocks(a) * WV_COLUMNS);
    if (wv_assess_component(f, a, k, negligible, u) && wv_weights_ess(a->n, u) >= wv_policy.mixture_step_ess)
        for (size_t i = 0; i < a->n; i++) {
            double off = u[i] > 0 ? f->recent.log_p[i] - a->log_m[i] - a->elbo : 0;
            gap += f->mix.w[k] * u[i] * fmin(off * off, wv_policy.mixture_split_outlier);
        }
    wv_arena_release(f->arena, mark);
    return gap;
}

static size_t position_of_largest(size_t n, const double *x)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

void wv_grow_split(wvgd_fit *f)
{
    size_t K = f->mix.K, mark = wv_arena_mark(f->arena);
    double *gap = wv_arena_take(f->arena, K), *direction = wv_arena_take(f->arena, f->D);
    wv_assessment a = wv_assess_room(f, K, f->recent.n);
    size_t most = wv_assess(f, &a, false) ? (size_t)wv_policy.mixture_splits : 0;
    for (size_t k = 0; k < K && most; k++)
        gap[k] = misfit(f, &a, k);
    for (; most && f->mix.K + 2 <= f->mix.room; most--) {
        size_t worst = position_of_largest(K, gap);
        if (!(gap[worst] > 0))
            break;
        gap[worst] = 0;
        fastest(f, &a, worst, direction);
        split(f, worst, direction);
    }
    wv_arena_release(f->arena, mark);
}

/* ---- add --------------------------------------------------------------------------------------------------------- */
/* Points near the last component have been dealt with: log_w[n] is -INFINITY there. y: [n][D] scratch. */
static void strike_near(wvgd_fit *f, size_t n, const double *x, double *log_w, double *y)
{
    size_t D = f->D;
    double near = (double)D + wv_policy.mixture_add_apart * sqrt(2 * (double)D);
    wv_gaussian q = wv_mixture_component(&f->mix, f->mix.K - 1);
    wv_gaussian_whiten(&q, n, x, y, f->arena);
    for (size_t k = 0; k < n; k++)
        if (cblas_ddot((int)D, y + k * D, 1, y + k * D, 1) < near)
            log_w[k] = -INFINITY;
}

/* The last `added` components share a part of the mixture. */
static void make_way(wvgd_fit *f, size_t added, double share)
{
    size_t K = f->mix.K - added, mark = wv_arena_mark(f->arena);
    double *w = wv_arena_take(f->arena, f->mix.K);
    for (size_t k = 0; k < f->mix.K; k++)
        w[k] = k < K ? (1 - share) * f->mix.w[k] : share / (double)added;
    wv_mixture_set_weights(&f->mix, w);
    wv_arena_release(f->arena, mark);
}

/* Components to add to K. */
static size_t additions(size_t K)
{
    return (size_t)fmax(ceil(wv_policy.mixture_add_share * (double)K), wv_policy.mixture_add_least);
}

void wv_grow_add(wvgd_fit *f, size_t n, const double *x, double *log_w, double share)
{
    size_t D = f->D, K = f->mix.K, wanted = additions(K), added = 0, mark = wv_arena_mark(f->arena);
    wv_mixture before = f->mix; /* its first K components stay where they are */
    double *y = wv_arena_take(f->arena, n * D);
    for (; added < wanted && f->mix.K < f->mix.room; added++) {
        size_t i = position_of_largest(n, log_w);
        if (!(log_w[i] > wv_policy.mixture_add_excess))
            break;
        size_t parent = wv_mixture_owner(&before, x + i * D, f->arena);
        wv_gaussian q = wv_mixture_component(&before, parent);
        q.mu = x + i * D;
        wv_mixture_append(&f->mix, &q, 0);
        strike_near(f, n, x, log_w, y);
    }
    if (added)
        make_way(f, added, share);
    wv_arena_release(f->arena, mark);
}
