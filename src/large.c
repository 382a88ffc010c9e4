/* large.c - the natural step for diagonal and low-rank components in many dimensions (method, section 4).
 *
 * diag: the regression of update.c coordinate by coordinate: log p~ on (y_i, y_i^2/2), with the gradient as control variate.
 * lowrank: in the component's whitened coordinates y the slope of the residual gradient r = A' grad log p~ + y on y is B = E[r y'] (Cov(y) = I
 * is known, nothing is inverted); the precision aimed at is I - sym(B). Its leading eigenvectors, found by subspace iteration on the points,
 * join the old directions; the R of them that gain most are kept, and what is left of the diagonal goes into the scales. */
#include "large.h"
#include "dense.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor
static const double flattest = 0.02, most_change = 4;

size_t wv_large_work(size_t D, size_t R)
{
    return 3 * R * D + 12 * R * R + 34 * 2 * R + 64 + 3 * R;
}

/* y0 and gradient in the component's whitened coordinates; the cell's mean there in vector[0]. */
static void whiten(wvgd_fit *f, const wv_update *c)
{
    size_t D = f->D;
    wv_gauss q = {c->family, D, c->R, c->mu, c->root, 0};
    wv_component_whiten(&q, c->n, c->x, f->y, f->work);
    cblas_dgemv(ROW, CblasTrans, (int)c->n, (int)D, 1.0, f->y, (int)D, c->u, 1, 0.0, f->vector[0], 1);
    memcpy(f->gy, c->grad, c->n * D * sizeof *f->gy);
    c->family->pull(D, c->R, c->root, c->n, f->gy, f->work);
}

/* Under the weights: variance[D] of the coordinates about their means m[D], and the covariance cross[D] with them of the gradient, whose means are g[D]. */
static void measure(const wvgd_fit *f, const wv_update *c, const double *m, bool gradient, double *variance, double *g, double *cross)
{
    size_t D = f->D;
    memset(variance, 0, D * sizeof *variance);
    memset(cross, 0, D * sizeof *cross);
    if (gradient)
        cblas_dgemv(ROW, CblasTrans, (int)c->n, (int)D, 1.0, f->gy, (int)D, c->u, 1, 0.0, g, 1);
    for (size_t p = 0; p < c->n; p++) {
        const double *row = f->y + p * D, *slope = f->gy + p * D;
        for (size_t i = 0; i < D; i++)
            variance[i] += c->u[p] * (row[i] - m[i]) * (row[i] - m[i]);
        for (size_t i = 0; i < D && gradient; i++)
            cross[i] += c->u[p] * (row[i] - m[i]) * (slope[i] - g[i]);
    }
}

/* f->y becomes y in units of the cell, (y - m)/W, and f->gr what the separable quadratic A1 y + A2 y^2/2 leaves of log p~, centred; half[D]: means of y^2/2. */
static void leftover(const wvgd_fit *f, const wv_update *c, const double *m, const double *W, const double *A1, const double *A2, double *half)
{
    size_t D = f->D;
    double mean = 0;
    memset(half, 0, D * sizeof *half);
    for (size_t p = 0; p < c->n; p++) {
        double *y = f->y + p * D, *square = f->uy + p * D;
        for (size_t i = 0; i < D; i++) {
            y[i] = (y[i] - m[i]) / W[i];
            square[i] = y[i] * y[i] / 2;
            half[i] += c->u[p] * square[i];
        }
        f->gr[p] = c->log_p[p] - cblas_ddot((int)D, y, 1, A1, 1) - cblas_ddot((int)D, square, 1, A2, 1);
        mean += c->u[p] * f->gr[p];
    }
    for (size_t p = 0; p < c->n; p++)
        f->gr[p] -= mean;
}

/* Boundary term of each coordinate: least squares of the residual f->gr on (y, y^2/2), shrunk. */
static void boundary(wvgd_fit *f, const wv_update *c, const double *half, double *A1, double *A2)
{
    size_t D = f->D;
    double *f12 = f->vector[5], *f22 = f->vector[6], *c1 = f->vector[7], *c2 = f->vector[8], shrink = c->ess / (c->ess + 2 * (double)D);
    for (size_t k = 5; k <= 8; k++)
        memset(f->vector[k], 0, D * sizeof(double));
    for (size_t p = 0; p < c->n; p++) {
        const double *y = f->y + p * D, *square = f->uy + p * D;
        double u = c->u[p], r = f->gr[p];
        for (size_t i = 0; i < D; i++) {
            double t = square[i] - half[i];
            f12[i] += u * y[i] * t;
            f22[i] += u * t * t;
            c1[i] += u * y[i] * r;
            c2[i] += u * t * r;
        }
    }
    for (size_t i = 0; i < D; i++) {
        double f11 = 2 * half[i] + 1e-9, last = f22[i] + 1e-9, det = fmax(f11 * last - f12[i] * f12[i], 1e-6 * f11 * last);
        A1[i] += shrink * (last * c1[i] - f12[i] * c2[i]) / det;
        A2[i] += shrink * (f11 * c2[i] - f12[i] * c1[i]) / det;
    }
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static wv_update_result diagonal(wvgd_fit *f, const wv_update *c)
{
    size_t D = f->D;
    double *m0 = f->vector[0], *W = f->vector[1], *A1 = f->vector[2], *A2 = f->vector[3], *half = f->vector[4], lambda = 1 / c->ess;
    bool score = c->estimator == WVGD_SCORE;
    wv_update_result result = {true, 0};
    if (score) {
        wv_gauss q = {c->family, D, c->R, c->mu, c->root, 0};
        wv_component_whiten(&q, c->n, c->x, f->y, f->work);
        cblas_dgemv(ROW, CblasTrans, (int)c->n, (int)D, 1.0, f->y, (int)D, c->u, 1, 0.0, m0, 1);
    } else
        whiten(f, c);
    measure(f, c, m0, !score, W, A1, A2);
    for (size_t i = 0; i < D; i++) {
        double variance = W[i], w = sqrt(fmax(variance, 1e-8));
        W[i] = w;
        A1[i] = score ? -w * m0[i] : w * A1[i];
        A2[i] = score ? -w * w : (w * w * A2[i] - lambda * w * w * w * w) / (variance + lambda * w * w);
    }
    if (score || c->truncated) {
        leftover(f, c, m0, W, A1, A2, half);
        boundary(f, c, half, A1, A2);
    }
    for (size_t i = 0; i < D; i++) {
        double w = W[i], P0 = w * w, h1 = -w * m0[i];
        result.kl += (A1[i] - h1) * (A1[i] - h1) / 2 + (A2[i] + P0) * (A2[i] + P0) / 4;
        double wanted = P0 - c->rho * (A2[i] + P0), P = clamp(wanted, P0 / most_change, INFINITY);
        P = c->truncated ? fmax(P, flattest) : P;
        double location = (h1 + c->rho * (A1[i] - h1)) / P;
        P = fmin(P, P0 * most_change);
        double moved = clamp(m0[i] + w * location, -most_change, most_change);
        if (!isfinite(moved) || !isfinite(P))
            return (wv_update_result){false, 0};
        c->mu[i] += c->root[i] * moved;
        c->root[i] *= w / sqrt(P);
    }
    return result;
}

/* ---- lowrank ----------------------------------------------------------------------------------------------------------------------- */
/* rows of out[k][D] = sym(B) applied to rows of v[k][D]; B = sum u r y', r in f->gy, u y in f->uy. */
static void apply_slope(const wvgd_fit *f, size_t n, size_t k, const double *v, double *out, double *points)
{
    int D = (int)f->D;
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)k, (int)n, D, 0.5, v, D, f->uy, D, 0.0, points, (int)n);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)k, D, (int)n, 1.0, points, (int)n, f->gy, D, 0.0, out, D);
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)k, (int)n, D, 0.5, v, D, f->gy, D, 0.0, points, (int)n);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)k, D, (int)n, 1.0, points, (int)n, f->uy, D, 1.0, out, D);
}

/* Gram-Schmidt, twice; a row that vanishes is left zero. Returns rows in place. */
static void orthonormalise(size_t D, size_t k, double *v)
{
    for (size_t a = 0; a < k; a++) {
        for (int twice = 0; twice < 2; twice++)
            for (size_t b = 0; b < a; b++)
                cblas_daxpy((int)D, -cblas_ddot((int)D, v + a * D, 1, v + b * D, 1), v + b * D, 1, v + a * D, 1);
        double norm = cblas_dnrm2((int)D, v + a * D, 1);
        cblas_dscal((int)D, norm > 1e-12 ? 1 / norm : 0, v + a * D, 1);
    }
}

/* Leading eigenvectors of sym(B) into v[k][D] with eigenvalues b[k]. */
static bool leading(const wvgd_fit *f, size_t n, size_t k, double *v, double *b, double *image, double *small, double *points)
{
    size_t D = f->D;
    double *syev = small + k * k;
    for (size_t a = 0; a < k; a++) /* start from the residual gradients themselves */
        memcpy(v + a * D, f->gy + (a * n / k) * D, D * sizeof *v);
    orthonormalise(D, k, v);
    for (int round = 0; round < 4; round++) {
        apply_slope(f, n, k, v, image, points);
        memcpy(v, image, k * D * sizeof *v);
        orthonormalise(D, k, v);
    }
    apply_slope(f, n, k, v, image, points);
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)k, (int)k, (int)D, 1.0, v, (int)D, image, (int)D, 0.0, small, (int)k);
    if (!wv_dense_eigh(k, small, b, syev))
        return false;
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)k, (int)D, (int)k, 1.0, small, (int)k, v, (int)D, 0.0, image, (int)D);
    memcpy(v, image, k * D * sizeof *v);
    return true;
}

/* Covariance G^1/2 (I + V'(c - 1)V) G^1/2 with G = I + Q'(e - 1)Q has at most 2R directions other than 1: their R best become the new Q, e. */
static bool merge(const wvgd_fit *f, const wv_update *c, const double *v, const double *change, double *basis, double *small)
{
    size_t D = f->D, R = c->R, K = 2 * R;
    double *e = c->root + D, *Q = e + R, *t = small + K * K, *image = basis, *syev = t + K;
    /* basis: Q, and G^1/2 V */
    memcpy(basis, Q, R * D * sizeof *basis);
    memcpy(basis + R * D, v, R * D * sizeof *basis);
    for (size_t a = R; a < K; a++)
        for (size_t r = 0; r < R; r++)
            cblas_daxpy((int)D, (sqrt(e[r]) - 1) * cblas_ddot((int)D, Q + r * D, 1, v + (a - R) * D, 1), Q + r * D, 1, basis + a * D, 1);
    orthonormalise(D, K, basis);
    /* U (C - I) U' in that basis, C - I = Q'(e-1)Q + sum_a (change_a - 1) (G^1/2 v_a)(G^1/2 v_a)' */
    memset(small, 0, K * K * sizeof *small);
    for (size_t r = 0; r < R; r++) {
        for (size_t a = 0; a < K; a++)
            t[a] = cblas_ddot((int)D, basis + a * D, 1, Q + r * D, 1);
        cblas_dsyr(ROW, CblasLower, (int)K, e[r] - 1, t, 1, small, (int)K);
    }
    for (size_t a = 0; a < R; a++) {
        for (size_t k = 0; k < K; k++) {
            t[k] = cblas_ddot((int)D, basis + k * D, 1, v + a * D, 1);
            for (size_t r = 0; r < R; r++)
                t[k] += (sqrt(e[r]) - 1) * cblas_ddot((int)D, Q + r * D, 1, v + a * D, 1) * cblas_ddot((int)D, basis + k * D, 1, Q + r * D, 1);
        }
        cblas_dsyr(ROW, CblasLower, (int)K, change[a] - 1, t, 1, small, (int)K);
    }
    wv_dense_mirror(K, small);
    if (!wv_dense_eigh(K, small, t, syev))
        return false;
    for (size_t r = 0, low = 0, high = K; r < R; r++) { /* largest gain (1/l - 1 + log l)/2 lies at either end */
        double a = fmax(1 + t[low], 1e-6), b = fmax(1 + t[high - 1], 1e-6);
        size_t k = 1 / a - 1 + log(a) > 1 / b - 1 + log(b) ? low++ : --high;
        e[r] = fmax(1 + t[k], 1e-6);
        cblas_dgemv(ROW, CblasTrans, (int)K, (int)D, 1.0, image, (int)D, small + k * K, 1, 0.0, Q + r * D, 1);
    }
    orthonormalise(D, R, Q);
    return true;
}

static wv_update_result low_rank(wvgd_fit *f, const wv_update *c)
{
    size_t D = f->D, R = c->R, n = c->n;
    double *v = f->large, *image = v + R * D, *b = image + 2 * R * D, *change = b + R, *small = change + 2 * R, *g = f->vector[1], *diagonal_of_B = f->vector[2];
    wv_update_result result = {false, 0};
    whiten(f, c);
    cblas_dgemv(ROW, CblasTrans, (int)n, (int)D, 1.0, f->gy, (int)D, c->u, 1, 0.0, g, 1);
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++) {
            double y = f->y[p * D + i] - f->vector[0][i];
            f->uy[p * D + i] = c->u[p] * y;
            f->gy[p * D + i] += y - g[i];
        }
    for (size_t i = 0; i < D; i++)
        diagonal_of_B[i] = cblas_ddot((int)n, f->gy + i, (int)D, f->uy + i, (int)D);
    if (!leading(f, n, R, v, b, image, small, f->work))
        return result;
    /* mean: E grad = 0 by a step of one current covariance; the residual of q itself is -(mean of y) */
    for (size_t i = 0; i < D; i++)
        f->vector[3][i] = c->rho * (g[i] + f->vector[0][i]);
    double moved = cblas_dnrm2((int)D, f->vector[3], 1), limit = sqrt((double)D);
    result.kl = moved * moved / (2 * c->rho * c->rho);
    if (!isfinite(moved))
        return result;
    if (moved > limit)
        cblas_dscal((int)D, limit / moved, f->vector[3], 1);
    c->family->colour(D, R, c->root, 1, f->vector[3], f->work);
    for (size_t r = 0; r < R; r++) {
        change[r] = 1 / clamp(1 - c->rho * b[r], 1 / most_change, most_change);
        result.kl += b[r] * b[r] / 4;
        for (size_t i = 0; i < D; i++)
            diagonal_of_B[i] -= b[r] * v[r * D + i] * v[r * D + i];
    }
    if (!merge(f, c, v, change, image, small))
        return result;
    for (size_t i = 0; i < D; i++) {
        result.kl += diagonal_of_B[i] * diagonal_of_B[i] / 4;
        c->root[i] /= sqrt(clamp(1 - c->rho * diagonal_of_B[i], 1 / most_change, most_change));
        c->mu[i] += f->vector[3][i];
    }
    result.ok = isfinite(result.kl);
    return result;
}

wv_update_result wv_large_update(wvgd_fit *f, const wv_update *c)
{
    return c->family == wv_family_get(WVGD_DIAG) ? diagonal(f, c) : low_rank(f, c);
}
