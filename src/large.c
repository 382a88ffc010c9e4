/* large.c - the natural step for diagonal and low-rank components in many dimensions (method, section 4).
 *
 * diag: the regression of update.c coordinate by coordinate: log p~ on (y_i, y_i^2/2), with the gradient as control variate.
 * lowrank: the slope of the residual gradient, what the current component leaves of it, on the point: first coordinate by coordinate, then, on what that leaves, in the space of
 * the component's own directions and of those in which most of it lies, where the regression has few coefficients; then coordinates once more. All of these are exact where the posterior
 * is a Gaussian of the family, though there are fewer points than dimensions. The R directions that gain most are kept. */
#include "large.h"
#include "dense.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor
static const double flattest = 0.02, most_change = 4;

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

/* Boundary term of each coordinate: least squares of the residual f->gr on (y, y^2/2), shrunk: by the number of coefficients, or in many dimensions, where these are so many that noise is
 * all there is to most of them, by how much more they explain than noise would (James and Stein). */
static void boundary(wvgd_fit *f, const wv_update *c, const double *half, double *A1, double *A2)
{
    size_t D = f->D;
    double *f12 = f->vector[5], *f22 = f->vector[6], *c1 = f->vector[7], *c2 = f->vector[8], coefficients = 2 * (double)D, shrink = c->ess / (c->ess + coefficients), explained = 0, noise = 0;
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
        double a1 = (last * c1[i] - f12[i] * c2[i]) / det, a2 = (f11 * c2[i] - f12[i] * c1[i]) / det;
        explained += a1 * c1[i] + a2 * c2[i];
        c1[i] = a1;
        c2[i] = a2;
    }
    for (size_t p = 0; p < c->n && !f->dense; p++)
        noise += c->u[p] * f->gr[p] * f->gr[p] * coefficients / c->ess;
    if (!f->dense)
        shrink = explained > noise ? 1 - noise / explained : 0;
    cblas_daxpy((int)D, shrink, c1, 1, A1, 1);
    cblas_daxpy((int)D, shrink, c2, 1, A2, 1);
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

/* What a low-rank step is made of, in the coordinates t = (x - mu)/s, in which the component has the precision I + Q'(1/e - 1)Q. K = 2R rows are considered: those of Q and R more. */
typedef struct {
    size_t K;
    double *t, *r;          /* [n][D] points and what the component leaves of the gradient there, less their means: for a Gaussian posterior r is linear in t */
    double *mean, *slope;   /* [D] means of t and of the gradient */
    double *square, *b;     /* [D] mean squares of t; slopes of r, coordinate by coordinate */
    double *U;              /* [K][D] orthonormal rows */
    double *image;          /* [K][D] */
    double *H;              /* [K][K] slope of r on t in the space of U */
    double *small[4];       /* [K][K] */
    double *value, *old;    /* [K] */
    double *syev;
    double *at, *from;      /* [n][K] */
} low;

size_t wv_large_work(size_t D, size_t R, size_t n)
{
    size_t K = 2 * R;
    return 2 * K * D + 5 * K * K + 2 * K + 2 * n * K + wv_dense_eigh_work(K ? K : 1);
}

static low names(wvgd_fit *f, const wv_update *c)
{
    size_t D = f->D, K = 2 * c->R;
    low l = {.K = K, .t = f->y, .r = f->gy, .mean = f->vector[0], .slope = f->vector[1], .square = f->vector[2], .b = f->vector[3], .U = f->large};
    l.image = l.U + K * D;
    l.H = l.image + K * D;
    for (size_t i = 0; i < 4; i++)
        l.small[i] = l.H + (i + 1) * K * K;
    l.value = l.H + 5 * K * K;
    l.old = l.value + K;
    l.at = l.old + K;
    l.from = l.at + c->n * K;
    l.syev = l.from + c->n * K;
    return l;
}

/* Points, and what is left of the gradient. */
static void measure_low(wvgd_fit *f, const wv_update *c, low *l)
{
    size_t D = f->D, R = c->R, n = c->n;
    const double *e = c->root + D, *Q = e + R;
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++) {
            l->t[p * D + i] = (c->x[p * D + i] - c->mu[i]) / c->root[i];
            l->r[p * D + i] = c->grad[p * D + i] * c->root[i];
        }
    cblas_dgemv(ROW, CblasTrans, (int)n, (int)D, 1.0, l->t, (int)D, c->u, 1, 0.0, l->mean, 1);
    cblas_dgemv(ROW, CblasTrans, (int)n, (int)D, 1.0, l->r, (int)D, c->u, 1, 0.0, l->slope, 1);
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++) {
            l->t[p * D + i] -= l->mean[i];
            l->r[p * D + i] += l->t[p * D + i] - l->slope[i];
        }
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)n, (int)R, (int)D, 1.0, l->t, (int)D, Q, (int)D, 0.0, l->at, (int)R);
    for (size_t p = 0; p < n; p++)
        for (size_t k = 0; k < R; k++)
            l->at[p * R + k] *= 1 / e[k] - 1;
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)n, (int)D, (int)R, 1.0, l->at, (int)R, Q, (int)D, 1.0, l->r, (int)D);
}

/* Slopes of what is left, coordinate by coordinate, are added to b and taken out of r. */
static void regress_coordinates(wvgd_fit *f, const wv_update *c, low *l)
{
    size_t D = f->D;
    double *cross = f->vector[4], shrink = c->ess / (c->ess + 1);
    memset(cross, 0, D * sizeof *cross);
    memset(l->square, 0, D * sizeof *cross);
    for (size_t p = 0; p < c->n; p++)
        for (size_t i = 0; i < D; i++) {
            double ut = c->u[p] * l->t[p * D + i];
            cross[i] += ut * l->r[p * D + i];
            l->square[i] += ut * l->t[p * D + i];
        }
    for (size_t i = 0; i < D; i++) {
        cross[i] = l->square[i] > 0 ? shrink * cross[i] / l->square[i] : 0;
        l->b[i] += cross[i];
    }
    for (size_t p = 0; p < c->n; p++)
        for (size_t i = 0; i < D; i++)
            l->r[p * D + i] -= cross[i] * l->t[p * D + i];
}

/* U: the rows of Q, and the R directions in which most of r lies, by subspace iteration. Where r is linear in few directions of t it lies in these, however few the points are. */
static void find_directions(wvgd_fit *f, const wv_update *c, low *l)
{
    size_t D = f->D, R = c->R, n = c->n;
    double *V = l->U + R * D, *weighted = f->uy;
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++)
            weighted[p * D + i] = sqrt(c->u[p]) * l->r[p * D + i];
    for (size_t k = 0; k < R; k++)
        memcpy(V + k * D, weighted + (k * n / R) * D, D * sizeof *V);
    orthonormalise(D, R, V);
    for (int round = 0; round < 4; round++) {
        cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)R, (int)n, (int)D, 1.0, V, (int)D, weighted, (int)D, 0.0, l->at, (int)n);
        cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)R, (int)D, (int)n, 1.0, l->at, (int)n, weighted, (int)D, 0.0, V, (int)D);
        orthonormalise(D, R, V);
    }
    memcpy(l->U, c->root + D + R, R * D * sizeof *l->U);
    orthonormalise(D, l->K, l->U);
}

/* a <- E a E', or with `back` E' a E; E: rows; spare: [K][K]. */
static void turn(size_t K, const double *E, bool back, double *a, double *spare)
{
    cblas_dgemm(ROW, back ? CblasTrans : CblasNoTrans, CblasNoTrans, (int)K, (int)K, (int)K, 1.0, E, (int)K, a, (int)K, 0.0, spare, (int)K);
    cblas_dgemm(ROW, CblasNoTrans, back ? CblasNoTrans : CblasTrans, (int)K, (int)K, (int)K, 1.0, spare, (int)K, E, (int)K, 0.0, a, (int)K);
}

/* H: the symmetric slope of U r on U t, H C + C H = M + M', which is taken out of r. */
static bool regress_directions(wvgd_fit *f, const wv_update *c, low *l)
{
    size_t D = f->D, K = l->K, n = c->n;
    double *C = l->small[0], ridge = 1 / c->ess, shrink = c->ess / (c->ess + (double)K);
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)n, (int)K, (int)D, 1.0, l->t, (int)D, l->U, (int)D, 0.0, l->at, (int)K);
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)n, (int)K, (int)D, 1.0, l->r, (int)D, l->U, (int)D, 0.0, l->from, (int)K);
    memset(C, 0, K * K * sizeof *C);
    memset(l->H, 0, K * K * sizeof *C);
    for (size_t p = 0; p < n; p++) {
        cblas_dger(ROW, (int)K, (int)K, c->u[p], l->at + p * K, 1, l->at + p * K, 1, C, (int)K);
        cblas_dger(ROW, (int)K, (int)K, c->u[p], l->from + p * K, 1, l->at + p * K, 1, l->H, (int)K);
    }
    if (!wv_dense_eigh(K, C, l->value, l->syev))
        return false;
    turn(K, C, false, l->H, l->small[1]);
    for (size_t i = 0; i < K; i++)
        for (size_t k = 0; k <= i; k++)
            l->H[i * K + k] = shrink * (l->H[i * K + k] + l->H[k * K + i]) / (fmax(l->value[i], 0) + fmax(l->value[k], 0) + 2 * ridge);
    wv_dense_mirror(K, l->H);
    turn(K, C, true, l->H, l->small[1]);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)n, (int)K, (int)K, 1.0, l->at, (int)K, l->H, (int)K, 0.0, l->from, (int)K);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)n, (int)D, (int)K, -1.0, l->from, (int)K, l->U, (int)D, 1.0, l->r, (int)D);
    return true;
}

/* slope <- what the mean gradient would be if the points' mean were the component's: plus (precision aimed at) times the points' mean. */
static void aim_mean(wvgd_fit *f, const wv_update *c, low *l)
{
    size_t D = f->D, R = c->R, K = l->K;
    const double *e = c->root + D, *Q = e + R;
    for (size_t i = 0; i < D; i++)
        l->slope[i] += (1 - l->b[i]) * l->mean[i];
    for (size_t k = 0; k < R; k++)
        cblas_daxpy((int)D, (1 / e[k] - 1) * cblas_ddot((int)D, Q + k * D, 1, l->mean, 1), Q + k * D, 1, l->slope, 1);
    cblas_dgemv(ROW, CblasNoTrans, (int)K, (int)D, 1.0, l->U, (int)D, l->mean, 1, 0.0, l->old, 1);
    cblas_dgemv(ROW, CblasNoTrans, (int)K, (int)K, 1.0, l->H, (int)K, l->old, 1, 0.0, l->value, 1);
    cblas_dgemv(ROW, CblasTrans, (int)K, (int)D, -1.0, l->U, (int)D, l->value, 1, 1.0, l->slope, 1);
}

/* The precision aimed at, diag(d) + U'NU, as scales and the R directions that gain most; what the others add to the diagonal goes into the scales. */
static bool take_root(wvgd_fit *f, const wv_update *c, low *l)
{
    size_t D = f->D, R = c->R, K = l->K;
    double *s = c->root, *e = s + D, *Q = e + R, *d = f->vector[4], *more = f->vector[5], *T = l->small[0], *N = l->small[1], *N0 = l->small[2], *spare = l->small[3];
    for (size_t i = 0; i < D; i++)
        d[i] = clamp(1 - c->rho * l->b[i], 1 / most_change, most_change);
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < D; i++)
            l->image[k * D + i] = l->U[k * D + i] / sqrt(d[i]);
    memcpy(f->uy, l->image, K * D * sizeof *l->image);
    orthonormalise(D, K, l->image);
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)K, (int)K, (int)D, 1.0, l->image, (int)D, f->uy, (int)D, 0.0, T, (int)K);
    memset(N0, 0, K * K * sizeof *N0);
    for (size_t k = 0; k < R; k++)
        N0[k * K + k] = 1 / e[k] - 1;
    for (size_t k = 0; k < K * K; k++)
        N[k] = N0[k] - c->rho * l->H[k];
    turn(K, T, false, N, spare);
    turn(K, T, false, N0, spare);
    if (!wv_dense_eigh(K, N, l->value, l->syev))
        return false;
    turn(K, N, false, N0, spare);
    memset(more, 0, D * sizeof *more);
    for (size_t k = 0; k < K; k++) {
        double before = fmax(1 + N0[k * K + k], 1e-6);
        l->value[k] = clamp(1 + l->value[k], before / most_change, before * most_change);
    }
    for (size_t kept = 0; kept < K; kept++) { /* by what they gain, (l - 1 - log l)/2 */
        size_t best = K;
        double most = -1;
        for (size_t k = 0; k < K; k++)
            if (l->value[k] > 0 && l->value[k] - 1 - log(l->value[k]) > most) {
                most = l->value[k] - 1 - log(l->value[k]);
                best = k;
            }
        if (best == K)
            return false;
        double *row = kept < R ? Q + kept * D : f->uy;
        cblas_dgemv(ROW, CblasTrans, (int)K, (int)D, 1.0, l->image, (int)D, N + best * K, 1, 0.0, row, 1);
        if (kept < R)
            e[kept] = 1 / l->value[best];
        else
            for (size_t i = 0; i < D; i++)
                more[i] += (l->value[best] - 1) * row[i] * row[i];
        l->value[best] = 0;
    }
    orthonormalise(D, R, Q);
    for (size_t i = 0; i < D; i++)
        s[i] /= sqrt(d[i] * clamp(1 + more[i], 1 / most_change, most_change));
    return true;
}

static wv_update_result low_rank(wvgd_fit *f, const wv_update *c)
{
    size_t D = f->D;
    low l = names(f, c);
    wv_update_result result = {false, 0};
    measure_low(f, c, &l);
    memset(l.b, 0, D * sizeof *l.b);
    regress_coordinates(f, c, &l);
    find_directions(f, c, &l);
    if (!regress_directions(f, c, &l))
        return result;
    regress_coordinates(f, c, &l);
    aim_mean(f, c, &l);
    result.kl = cblas_ddot((int)D, l.b, 1, l.b, 1) / 4;
    for (size_t k = 0; k < c->R; k++) /* of H what is not only noise to be left out again */
        result.kl += cblas_ddot((int)c->R, l.H + k * l.K, 1, l.H + k * l.K, 1) / 4;
    for (size_t i = 0; i < D; i++)
        l.slope[i] /= c->root[i];
    if (!take_root(f, c, &l))
        return result;
    /* the mean goes by the new covariance, at most sqrt(D) of its sds */
    c->family->pull(D, c->R, c->root, 1, l.slope, f->work);
    double moved = cblas_dnrm2((int)D, l.slope, 1), limit = sqrt((double)D);
    result.kl += moved * moved / 2;
    if (!isfinite(result.kl))
        return result;
    cblas_dscal((int)D, c->rho * moved > limit ? limit / moved : c->rho, l.slope, 1);
    c->family->colour(D, c->R, c->root, 1, l.slope, f->work);
    cblas_daxpy((int)D, 1.0, l.slope, 1, c->mu, 1);
    result.ok = true;
    return result;
}

wv_update_result wv_large_update(wvgd_fit *f, const wv_update *c)
{
    return c->family == wv_family_get(WVGD_DIAG) ? diagonal(f, c) : low_rank(f, c);
}
