/* update.c - one step of component j down KL(q_j || p_j) on its cell (method, section 4).
 *
 * natural, score: a truncated Gaussian is an exponential family with statistics T = (y, y y'/2), so the natural gradient step moves its parameters towards
 * the coefficients of the least-squares regression of log p~ on T under q_j. All of it happens in coordinates y whitened by q_j's own
 * moments on the cell, so units do not matter. `natural` first regresses the gradient on y (D equations a point) and then, where
 * the cell truncates, what is left of log p~ on T: the boundary term. `score` takes the current q_j for the first part and needs no gradient.
 *
 * reparam: the paper's estimator E_qj[(grad log p~ - grad log q) dz/dtheta], with Adam. It lacks the boundary term; exact for one particle. */
#include "update.h"
#include "dense.h"
#include "large.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor

/* Smallest precision of a truncated component, in units of its cell: its best fit may be flat. */
static const double flattest = 0.02;

/* Names for the scratch matrices of one update; all in whitened coordinates y of the cell. */
typedef struct {
    size_t D;
    double *W;      /* [D][D] lower: y0 = m0 + W y, y0 the component's own whitened coordinates */
    double *P0;     /* [D][D] current precision, */
    double *A;      /* [D][D] minus the precision aimed at: curvature of the fitted quadratic, */
    double *E;      /* [D][D] eigenvectors, */
    double *S, *S2; /* [D][D] spare */
    double *m0;     /* [D] mean of the cell in y0 */
    double *h1, *a1;/* [D] linear terms: current and aimed at */
    double *c;      /* [D] eigenvalues */
    double *delta, *spare;
    double steepest;/* largest relative increase of the precision that the step asks for */
    double r2;      /* share of the variance of the gradient (or of log p~) that the quadratic explains */
    double *y, *gy, *uy; /* [n][D] points, gradients and weighted points in y */
} local;

static local names(wvgd_fit *f)
{
    return (local){.D = f->D, .W = f->square[0], .P0 = f->square[1], .A = f->square[2], .E = f->square[3], .S = f->square[4], .S2 = f->square[5],
                   .m0 = f->vector[0], .h1 = f->vector[1], .a1 = f->vector[2], .c = f->vector[3], .delta = f->vector[4], .spare = f->vector[5],
                   .y = f->y, .gy = f->gy, .uy = f->uy};
}

/* out[D] = sum_k u_k rows_k */
static void weighted_mean(size_t n, size_t D, const double *u, const double *rows, double *out)
{
    cblas_dgemv(ROW, CblasTrans, (int)n, (int)D, 1.0, rows, (int)D, u, 1, 0.0, out, 1);
}

static void weighted_rows(size_t n, size_t D, const double *u, const double *rows, double *out)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            out[k * D + i] = u[k] * rows[k * D + i];
}

static void subtract_row(size_t n, size_t D, const double *row, double *rows)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            rows[k * D + i] -= row[i];
}

static void keep_diagonal(size_t D, double *a)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            if (i != k)
                a[i * D + k] = 0;
}

/* W: root of the covariance of q_j on its cell, in y0; with few points shrunk towards the component's own shape. Then y and the current parameters. */
static bool localise(wvgd_fit *f, const wv_update *c, local *l)
{
    int n = (int)c->n, D = (int)l->D;
    wv_gauss q = {c->family, l->D, c->R, c->mu, c->root, 0};
    wv_component_whiten(&q, c->n, c->x, l->y, f->work);
    weighted_mean(c->n, l->D, c->u, l->y, l->m0);
    subtract_row(c->n, l->D, l->m0, l->y);
    weighted_rows(c->n, l->D, c->u, l->y, l->uy);
    cblas_dgemm(ROW, CblasTrans, CblasNoTrans, D, D, n, 1.0, l->uy, D, l->y, D, 0.0, l->W, D);
    double trace = 0, keep = c->ess / (c->ess + (double)l->D);
    for (size_t i = 0; i < l->D; i++)
        trace += l->W[i * l->D + i];
    double own = fmin(1.0, trace / (double)l->D);
    for (size_t i = 0; i < l->D * l->D; i++)
        l->W[i] *= keep;
    for (size_t i = 0; i < l->D; i++)
        l->W[i * l->D + i] += (1 - keep) * own + 1e-12;
    if (c->family == wv_family_get(WVGD_DIAG))
        keep_diagonal(l->D, l->W);
    if (!wv_dense_chol(l->D, l->W, l->S))
        return false;
    cblas_dtrsm(ROW, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, D, 1.0, l->W, D, l->y, D);
    cblas_dgemm(ROW, CblasTrans, CblasNoTrans, D, D, D, 1.0, l->W, D, l->W, D, 0.0, l->P0, D);
    memcpy(l->h1, l->m0, l->D * sizeof *l->h1);
    cblas_dtrmv(ROW, CblasLower, CblasTrans, CblasNonUnit, D, l->W, D, l->h1, 1);
    cblas_dscal(D, -1.0, l->h1, 1);
    weighted_rows(c->n, l->D, c->u, l->y, l->uy);
    return true;
}

/* The symmetric slope of the residual gradient on y for ridge strength lambda, in the eigenbasis of Cov(y): dA_ik = S_ik/(c_i + c_k + 2 lambda).
 * Returns the residual sum of squares and the degrees of freedom spent. */
static double ridge_rss(const local *l, const double *S, double total, double lambda, double *freedom)
{
    double rss = total, df = (double)l->D;
    for (size_t i = 0; i < l->D; i++)
        for (size_t k = 0; k <= i; k++) {
            double sum = l->c[i] + l->c[k], s = S[i * l->D + k], a = s / (sum + 2 * lambda);
            rss -= (i == k ? 1 : 2) * (a * s - a * a * sum / 2);
            df += sum / (sum + 2 * lambda);
        }
    *freedom = df;
    return fmax(rss, 0);
}

/* Ridge strength by generalised cross-validation; with points enough, next to none: a shrunken step would bias what averaging converges to. */
static double choose_ridge(const local *l, const double *S, double total, double ess, double *rss)
{
    static const double grid[] = {1e-7, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1, 3, 10, 100};
    double best = INFINITY, lambda = 100, D = (double)l->D, observations = ess * D;
    size_t most = ess > 3 * D ? 1 : sizeof grid / sizeof *grid;
    for (size_t g = 0; g < most; g++) {
        double df, r = ridge_rss(l, S, total, grid[g], &df), left = 1 - df / observations;
        double score = left > 0.02 ? r / (left * left) : INFINITY;
        if (score < best) {
            best = score;
            lambda = grid[g];
            *rss = r;
        }
    }
    return lambda;
}

/* First part of `natural`: grad log p~ = a1 + A y under q_j, A symmetric, ridge towards the current precision. */
static bool gradient_regression(wvgd_fit *f, const wv_update *c, local *l)
{
    int n = (int)c->n, D = (int)l->D;
    memcpy(l->gy, c->grad, c->n * l->D * sizeof *l->gy);
    c->family->pull(l->D, c->R, c->root, c->n, l->gy, f->work);
    cblas_dtrmm(ROW, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, n, D, 1.0, l->W, D, l->gy, D);
    weighted_mean(c->n, l->D, c->u, l->gy, l->a1);
    subtract_row(c->n, l->D, l->a1, l->gy);
    double total = 0, residual = 0;
    for (size_t k = 0; k < c->n; k++)
        total += c->u[k] * cblas_ddot(D, l->gy + k * l->D, 1, l->gy + k * l->D, 1);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, n, D, D, 1.0, l->y, D, l->P0, D, 1.0, l->gy, D); /* what the current precision leaves */
    for (size_t k = 0; k < c->n; k++)
        residual += c->u[k] * cblas_ddot(D, l->gy + k * l->D, 1, l->gy + k * l->D, 1);
    cblas_dgemm(ROW, CblasTrans, CblasNoTrans, D, D, n, 1.0, l->gy, D, l->uy, D, 0.0, l->S, D);
    cblas_dgemm(ROW, CblasTrans, CblasNoTrans, D, D, n, 1.0, l->uy, D, l->y, D, 0.0, l->E, D);
    if (!wv_dense_eigh(l->D, l->E, l->c, f->syev))
        return false;
    for (size_t i = 0; i < l->D; i++)
        l->c[i] = fmax(l->c[i], 0);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, D, D, D, 1.0, l->E, D, l->S, D, 0.0, l->S2, D);
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, D, D, D, 1.0, l->S2, D, l->E, D, 0.0, l->S, D);
    for (size_t i = 0; i < l->D; i++)
        for (size_t k = 0; k <= i; k++)
            l->S[i * l->D + k] = l->S[k * l->D + i] = l->S[i * l->D + k] + l->S[k * l->D + i];
    double rss = residual, lambda = choose_ridge(l, l->S, residual, c->ess, &rss);
    for (size_t i = 0; i < l->D; i++)
        for (size_t k = 0; k < l->D; k++)
            l->S[i * l->D + k] /= l->c[i] + l->c[k] + 2 * lambda;
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, D, D, D, 1.0, l->S, D, l->E, D, 0.0, l->S2, D);
    cblas_dgemm(ROW, CblasTrans, CblasNoTrans, D, D, D, 1.0, l->E, D, l->S2, D, 0.0, l->A, D);
    for (size_t i = 0; i < l->D * l->D; i++)
        l->A[i] -= l->P0[i];
    l->r2 = total > 0 ? 1 - rss / total : 1;
    return true;
}

/* r = log p~ - a1.y - y'Ay/2 at every point, centred; returns its weighted variance. */
static double residuals(const wv_update *c, local *l, double *r)
{
    int n = (int)c->n, D = (int)l->D;
    double mean = 0, variance = 0;
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, n, D, D, 1.0, l->y, D, l->A, D, 0.0, l->gy, D);
    for (size_t k = 0; k < c->n; k++) {
        const double *y = l->y + k * l->D;
        r[k] = c->log_p[k] - cblas_ddot(D, l->a1, 1, y, 1) - cblas_ddot(D, l->gy + k * l->D, 1, y, 1) / 2;
        mean += c->u[k] * r[k];
    }
    for (size_t k = 0; k < c->n; k++) {
        r[k] -= mean;
        variance += c->u[k] * r[k] * r[k];
    }
    return variance;
}

/* Statistics of a point: y, y^2/2 and, with `cross`, y_i y_k for i > k. */
static void statistics(size_t D, const double *y, bool cross, double *T)
{
    size_t at = 2 * D;
    for (size_t i = 0; i < D; i++) {
        T[i] = y[i];
        T[D + i] = y[i] * y[i] / 2;
        for (size_t k = 0; cross && k < i; k++)
            T[at++] = y[i] * y[k];
    }
}

/* F = Cov(T, T), b = Cov(T, r) under the weights, accumulated in blocks. */
static void normal_equations(wvgd_fit *f, const wv_update *c, const local *l, const double *r, bool cross, size_t p, double *mean)
{
    memset(f->F, 0, p * p * sizeof *f->F);
    memset(f->Fc, 0, p * sizeof *f->Fc);
    memset(mean, 0, p * sizeof *mean);
    for (size_t first = 0; first < c->n; first += WV_BLOCK) {
        size_t here = c->n - first < WV_BLOCK ? c->n - first : WV_BLOCK;
        for (size_t k = 0; k < here; k++) {
            double *T = f->T + k * p, u = c->u[first + k], root = sqrt(u);
            statistics(l->D, l->y + (first + k) * l->D, cross, T);
            cblas_daxpy((int)p, u, T, 1, mean, 1);
            cblas_daxpy((int)p, u * r[first + k], T, 1, f->Fc, 1);
            cblas_dscal((int)p, root, T, 1);
        }
        cblas_dsyrk(ROW, CblasLower, CblasTrans, (int)p, (int)here, 1.0, f->T, (int)p, 1.0, f->F, (int)p);
    }
    cblas_dsyr(ROW, CblasLower, (int)p, -1.0, mean, 1, f->F, (int)p);
}

/* Second part: regression of the residual of log p~ on T, shrunk by ESS/(ESS + coefficients); adds to a1 and A. */
static void residual_regression(wvgd_fit *f, const wv_update *c, local *l)
{
    size_t D = l->D, full = 2 * D + D * (D - 1) / 2;
    bool cross = c->family != wv_family_get(WVGD_DIAG) && full <= f->p_max && c->ess > 1.5 * (double)full;
    size_t p = cross ? full : 2 * D;
    /* without gradients this is all there is: where points suffice, plain least squares, since shrinking would cripple the trust region */
    bool plain = c->estimator == WVGD_SCORE && c->ess > 2 * (double)p;
    double *r = f->gr, variance = residuals(c, l, r), shrink = plain ? 1 : c->ess / (c->ess + (double)p), ridge = plain ? 1e-9 : (double)p / c->ess, explained = 0;
    normal_equations(f, c, l, r, cross, p, f->Fm);
    memcpy(f->Fm, f->Fc, p * sizeof *f->Fm);
    for (size_t i = 0; i < p; i++)
        f->F[i * p + i] = f->F[i * p + i] * (1 + ridge) + 1e-9;
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, f->F, (lapack_int)p, f->Fc, (lapack_int)p) != 0)
        return;
    for (size_t i = 0; i < p; i++) {
        explained += f->Fc[i] * f->Fm[i];
        f->Fc[i] *= shrink;
    }
    cblas_daxpy((int)D, 1.0, f->Fc, 1, l->a1, 1);
    for (size_t i = 0, at = 2 * D; i < D; i++) {
        l->A[i * D + i] += f->Fc[D + i];
        for (size_t k = 0; cross && k < i; k++, at++) {
            l->A[i * D + k] += f->Fc[at];
            l->A[k * D + i] += f->Fc[at];
        }
    }
    if (c->estimator == WVGD_SCORE)
        l->r2 = variance > 0 ? fmin(explained / variance, 1) : 1;
}

/* (a1, A): what the quadratic fit aims at. */
static bool aim(wvgd_fit *f, const wv_update *c, local *l)
{
    size_t D = l->D;
    if (!localise(f, c, l))
        return false;
    bool diag = c->family == wv_family_get(WVGD_DIAG), score = c->estimator == WVGD_SCORE;
    if (score) {
        memcpy(l->a1, l->h1, D * sizeof *l->a1);
        for (size_t i = 0; i < D * D; i++)
            l->A[i] = -l->P0[i];
    } else if (!gradient_regression(f, c, l))
        return false;
    if (diag)
        keep_diagonal(D, l->A);
    if (score || c->truncated)
        residual_regression(f, c, l);
    return true;
}

/* Steps of a diagonal component's mean along a full covariance: spare = S_y d1, S_y = B B' with B = diag(1/(s W)) L0; returns |B' d1|^2. */
static double precondition(const wv_update *c, const local *l, const double *d1, double *step)
{
    int D = (int)l->D;
    for (size_t i = 0; i < l->D; i++)
        step[i] = d1[i] / (c->root[i] * l->W[i * l->D + i]);
    cblas_dtrmv(ROW, CblasLower, CblasTrans, CblasNonUnit, D, c->precondition, D, step, 1);
    double size = cblas_ddot(D, step, 1, step, 1);
    cblas_dtrmv(ROW, CblasLower, CblasNoTrans, CblasNonUnit, D, c->precondition, D, step, 1);
    for (size_t i = 0; i < l->D; i++)
        step[i] /= c->root[i] * l->W[i * l->D + i];
    return size;
}

/* The precision that the step aims at, P0 - rho (A + P0), with its change relative to the current one clipped to [1/clip, clip] and a floor
 * for truncated components: its eigenpairs into l->E, l->c, itself into l->S. */
static bool new_precision(wvgd_fit *f, const wv_update *c, local *l, double clip_low, double clip_high)
{
    int D = (int)l->D;
    for (size_t i = 0; i < l->D * l->D; i++)
        l->S[i] = c->rho * (l->A[i] + l->P0[i]);
    /* relative to the current: W^-T (.) W^-1 = (.) in y0, where the current precision is I */
    cblas_dtrsm(ROW, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, D, D, 1.0, l->W, D, l->S, D);
    cblas_dtrsm(ROW, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, D, D, 1.0, l->W, D, l->S, D);
    for (size_t i = 0; i < l->D; i++)
        for (size_t k = 0; k <= i; k++)
            l->E[i * l->D + k] = (i == k) - (l->S[i * l->D + k] + l->S[k * l->D + i]) / 2;
    wv_dense_mirror(l->D, l->E);
    if (!wv_dense_eigh(l->D, l->E, l->c, f->syev))
        return false;
    l->steepest = l->c[l->D - 1];
    for (size_t i = 0; i < l->D; i++)
        l->c[i] = fmin(fmax(l->c[i], clip_low), clip_high);
    wv_dense_rebuild(l->D, l->E, l->c, l->S, l->S2);
    cblas_dtrmm(ROW, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, D, D, 1.0, l->W, D, l->S, D);
    cblas_dtrmm(ROW, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, D, D, 1.0, l->W, D, l->S, D);
    memcpy(l->E, l->S, l->D * l->D * sizeof *l->E);
    wv_dense_mirror(l->D, l->E);
    if (!wv_dense_eigh(l->D, l->E, l->c, f->syev))
        return false;
    for (size_t i = 0; i < l->D; i++)
        l->c[i] = fmax(l->c[i], c->truncated ? flattest : 1e-300);
    wv_dense_rebuild(l->D, l->E, l->c, l->S, l->S2);
    return true;
}

/* When clipping has changed the quadratic, give back its linear part: a1 += E[ y y'(P - wanted)y ]/2. */
static void give_back(const wv_update *c, local *l, const double *P, double *n1)
{
    int n = (int)c->n, D = (int)l->D;
    for (size_t i = 0; i < l->D * l->D; i++)
        l->S2[i] = P[i] - (l->P0[i] - c->rho * (l->A[i] + l->P0[i]));
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, n, D, D, 1.0, l->y, D, l->S2, D, 0.0, l->gy, D);
    for (size_t k = 0; k < c->n; k++)
        cblas_daxpy(D, c->u[k] * cblas_ddot(D, l->gy + k * l->D, 1, l->y + k * l->D, 1) / 2, l->y + k * l->D, 1, n1, 1);
}

/* Location after the step, relative to the current one in y0, into l->delta. It solves with the precision aimed at, not the clipped one: an upper clip would
 * make it overshoot. */
static bool new_location(wvgd_fit *f, const wv_update *c, local *l, const double *d1, const double *step, double size, double clip)
{
    size_t D = l->D;
    int d = (int)D;
    double *n1 = f->vector[8], *rotated = f->vector[7], limit = clip * sqrt((double)D) / 4;
    for (size_t i = 0; i < D; i++)
        n1[i] = l->h1[i] + (c->precondition ? 0 : c->rho * d1[i]);
    if (c->truncated)
        give_back(c, l, l->S, n1);
    cblas_dgemv(ROW, CblasNoTrans, d, d, 1.0, l->E, d, n1, 1, 0.0, rotated, 1);
    for (size_t i = 0; i < D; i++)
        rotated[i] /= l->c[i];
    cblas_dgemv(ROW, CblasTrans, d, d, 1.0, l->E, d, rotated, 1, 0.0, l->delta, 1);
    if (c->precondition)
        cblas_daxpy(d, fmin(c->rho, sqrt((double)D) / 2 / sqrt(fmax(size, 1e-300))), step, 1, l->delta, 1);
    cblas_dtrmv(ROW, CblasLower, CblasNoTrans, CblasNonUnit, d, l->W, d, l->delta, 1);
    cblas_daxpy(d, 1.0, l->m0, 1, l->delta, 1);
    double moved = cblas_dnrm2(d, l->delta, 1);
    if (moved > limit && !c->precondition)
        cblas_dscal(d, limit / moved, l->delta, 1);
    return isfinite(moved);
}

/* The step itself: towards (a1, A) by rho, within a trust region that opens as the quadratic explains more of the gradient. */
static wv_update_result take(wvgd_fit *f, const wv_update *c, local *l)
{
    wv_update_result result = {false, 0};
    size_t D = l->D;
    int d = (int)D;
    double clip = c->truncated ? 4 : fmin(fmax(1 / fmax(1 - l->r2, 1e-300), 4), 1e4), *d1 = l->spare, *step = f->vector[6];
    for (size_t i = 0; i < D; i++)
        d1[i] = l->a1[i] - l->h1[i];
    double far = cblas_dnrm2(d, d1, 1);
    if (c->truncated && c->rho * far > 1) /* a cell is about 2 units wide: no estimate from its points justifies a larger change of slope */
        cblas_dscal(d, 1 / (c->rho * far), d1, 1);
    for (size_t i = 0; i < D * D; i++)
        result.kl += (l->A[i] + l->P0[i]) * (l->A[i] + l->P0[i]) / 4;
    double size = c->precondition ? precondition(c, l, d1, step) : cblas_ddot(d, d1, 1, d1, 1);
    result.kl += size / 2;
    if (!new_precision(f, c, l, 1 / clip, INFINITY) || !new_location(f, c, l, d1, step, size, clip))
        return result;
    if (l->steepest > clip && !new_precision(f, c, l, 1 / clip, clip))
        return result;
    /* W P^-1 W': new covariance in y0 */
    for (size_t i = 0; i < D; i++)
        l->c[i] = 1 / l->c[i];
    wv_dense_rebuild(D, l->E, l->c, l->S, l->S2);
    cblas_dtrmm(ROW, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, d, d, 1.0, l->W, d, l->S, d);
    cblas_dtrmm(ROW, CblasRight, CblasLower, CblasTrans, CblasNonUnit, d, d, 1.0, l->W, d, l->S, d);
    for (size_t i = 0; i < D * D; i++)
        if (!isfinite(l->S[i]))
            return result;
    c->family->colour(D, c->R, c->root, 1, l->delta, f->work);
    cblas_daxpy(d, 1.0, l->delta, 1, c->mu, 1);
    result.ok = c->family->absorb(D, c->R, c->root, l->S, f->work);
    return result;
}

/* ---- reparam ----------------------------------------------------------------------------------------------------------------- */
/* E_qj[(grad log p~ + y) (1, y')] in the component's whitened coordinates: gradients of ELBO_j (but for the boundary term) in its mean and
 * in a lower-triangular (or diagonal) change of its root. */
static void path_gradient(wvgd_fit *f, const wv_update *c, double *g_mu, double *g_root)
{
    size_t D = f->D;
    wv_gauss q = {c->family, D, c->R, c->mu, c->root, 0};
    wv_component_whiten(&q, c->n, c->x, f->y, f->work);
    memcpy(f->gy, c->grad, c->n * D * sizeof *f->gy);
    c->family->pull(D, c->R, c->root, c->n, f->gy, f->work);
    cblas_daxpy((int)(c->n * D), 1.0, f->y, 1, f->gy, 1);
    weighted_mean(c->n, D, c->u, f->gy, g_mu);
    weighted_rows(c->n, D, c->u, f->y, f->uy);
    if (c->family == wv_family_get(WVGD_FULL))
        cblas_dgemm(ROW, CblasTrans, CblasNoTrans, (int)D, (int)D, (int)c->n, 1.0, f->gy, (int)D, f->uy, (int)D, 0.0, g_root, (int)D);
    else
        for (size_t i = 0; i < D; i++)
            g_root[i] = cblas_ddot((int)c->n, f->gy + i, (int)D, f->uy + i, (int)D);
}

/* Adam's direction, in place. */
static void adam(size_t size, double *g, double *m, double *v, size_t time)
{
    double t = (double)time, fade1 = 1 - pow(0.9, t), fade2 = 1 - pow(0.999, t);
    for (size_t i = 0; i < size; i++) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        g[i] = m[i] / fade1 / (sqrt(v[i] / fade2) + 1e-8);
    }
}

static wv_update_result reparam(wvgd_fit *f, const wv_update *c)
{
    size_t D = f->D, size = c->family->size(D, 0), all = D + size;
    bool full = c->family == wv_family_get(WVGD_FULL);
    double *g_mu = f->vector[0], *g_root = full ? f->square[0] : f->vector[1], rate = 0.1 * c->rho;
    wv_update_result result = {true, 0};
    path_gradient(f, c, g_mu, g_root);
    result.kl = cblas_ddot((int)D, g_mu, 1, g_mu, 1) / 2 + cblas_ddot((int)size, g_root, 1, g_root, 1) / 4;
    if (!isfinite(result.kl))
        return (wv_update_result){false, 0};
    adam(D, g_mu, c->adam, c->adam + all, c->time);
    adam(size, g_root, c->adam + D, c->adam + all + D, c->time);
    cblas_dscal((int)D, rate, g_mu, 1);
    c->family->colour(D, c->R, c->root, 1, g_mu, f->work);
    cblas_daxpy((int)D, 1.0, g_mu, 1, c->mu, 1);
    if (!full) {
        for (size_t i = 0; i < D; i++)
            c->root[i] *= exp(rate * g_root[i]);
        return result;
    }
    for (size_t i = 0; i < D; i++) /* L <- L (I + tril(step)), its diagonal through exp */
        for (size_t k = 0; k < D; k++)
            g_root[i * D + k] = k > i ? 0 : k == i ? exp(rate * g_root[i * D + k]) : rate * g_root[i * D + k];
    cblas_dtrmm(ROW, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, g_root, (int)D, c->root, (int)D);
    return result;
}

static wv_update_result step(wvgd_fit *f, const wv_update *c)
{
    if (c->estimator == WVGD_REPARAM)
        return reparam(f, c);
    if (!f->dense || (c->family == wv_family_get(WVGD_DIAG) && c->ess < 1.5 * (double)f->D))
        return wv_large_update(f, c);
    local l = names(f);
    if (!aim(f, c, &l))
        return (wv_update_result){false, 0};
    return take(f, c, &l);
}

/* Finite, and within a range whose squares are: an improper density has components that grow or shrink without end. */
static bool sound(const wvgd_fit *f, const wv_update *c)
{
    double *sd = f->vector[0];
    c->family->sd(f->D, c->R, c->root, sd);
    for (size_t i = 0; i < f->D; i++)
        if (!(sd[i] > 1e-120 && sd[i] < 1e120 && fabs(c->mu[i]) < 1e120))
            return false;
    return isfinite(c->family->log_det(f->D, c->R, c->root));
}

wv_update_result wv_update_component(wvgd_fit *f, const wv_update *c)
{
    size_t size = c->family->size(f->D, c->R);
    memcpy(f->undo, c->mu, f->D * sizeof(double));
    memcpy(f->undo + f->D, c->root, size * sizeof(double));
    wv_update_result result = step(f, c);
    if (result.ok && !sound(f, c)) {
        result = (wv_update_result){false, 0};
        f->s.limits++;
    }
    if (!result.ok) {
        memcpy(c->mu, f->undo, f->D * sizeof(double));
        memcpy(c->root, f->undo + f->D, size * sizeof(double));
    }
    return result;
}

void wv_update_target_1d(wvgd_fit *f, const wv_update *c, double gradient[2], double natural[2])
{
    local l = names(f);
    if (c->estimator == WVGD_REPARAM) {
        path_gradient(f, c, gradient, gradient + 1);
        gradient[0] /= c->root[0];
        natural[0] = natural[1] = NAN;
        return;
    }
    if (!aim(f, c, &l))
        return;
    /* log p~ ~ a1 y + A y^2/2 with y = (z - m)/w */
    double w = c->root[0] * l.W[0], m = c->mu[0] + c->root[0] * l.m0[0], s2 = c->root[0] * c->root[0];
    natural[1] = l.A[0] / (2 * w * w);
    natural[0] = l.a1[0] / w - m * l.A[0] / (w * w);
    /* gradient of ELBO_j = Cov_qj(T, log p~ - log q) = F (natural target - current), then the chain rule to (mu, log sigma) */
    double d0 = natural[0] - c->mu[0] / s2, d1 = natural[1] + 1 / (2 * s2), F[3] = {0, 0, 0}, e1 = 0, e2 = 0;
    for (size_t k = 0; k < c->n; k++) {
        e1 += c->u[k] * c->x[k];
        e2 += c->u[k] * c->x[k] * c->x[k];
    }
    for (size_t k = 0; k < c->n; k++) {
        double t1 = c->x[k] - e1, t2 = c->x[k] * c->x[k] - e2;
        F[0] += c->u[k] * t1 * t1;
        F[1] += c->u[k] * t1 * t2;
        F[2] += c->u[k] * t2 * t2;
    }
    double g0 = F[0] * d0 + F[1] * d1, g1 = F[1] * d0 + F[2] * d1; /* in the natural parameters mu/s2, -1/(2 s2) */
    gradient[0] = g0 / s2;
    gradient[1] = -2 * g0 * c->mu[0] / s2 + g1 / s2;
}
