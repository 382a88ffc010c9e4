/* moments.c - Stein calibration: for the posterior, with any m and C, y_i = (x_i - m_i) / sqrt(C_ii) and g_i = (C grad log p~)_i / sqrt(C_ii), E[g_i] = 0 and
 * E[y_i g_i] = -1; with m and C those of a mixture that is like it g is nearly -y, and exactly so for a Gaussian.
 * The weights of the draws are tilted (by least squares) until both hold in the sample: a control variate from gradients that have been paid for, which removes all noise from the
 * means and variances of a Gaussian (method, section 5).
 * With statistics h = (g, y g + 1), scaled, mean h_bar and covariance S under the weights v: calibrated weights v (1 - (h - h_bar) . S^-1 h_bar). */
#include "moments.h"
#include "close.h"
#include "dense.h"
#include "mix.h"
#include "weight.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor

size_t wv_moments_work(size_t D)
{
    size_t p = 2 * D;
    return 3 * p + p * p + 2 * p * D + WV_BLOCK * (p + 2 * D) + 7 * D + 2 * D * D;
}

typedef struct {
    size_t p;
    double *mean, *inverse, *c; /* [p] means and inverse scales of the statistics, tilt */
    double *S, *B, *turned;   /* [p][p], [D][p], [p][D] */
    double *H, *Y, *G;        /* [WV_BLOCK][p] statistics, [WV_BLOCK][D] y and g of a block */
    double *plain;            /* [3][D] means, variances and standard errors before calibration */
    double *sd, *unit;        /* [D] units of the coordinates, and their inverses */
    double *centre;           /* [D] mean of Y */
    double *mu, *root;        /* [D], [D][D] of the mixture */
    double *R;                /* [D][D] its correlations */
} stein;

static stein names(wvgd_fit *f)
{
    size_t D = f->D, p = 2 * D;
    double *at = f->stein;
    stein s = {.p = p, .mean = at, .inverse = at + p, .c = at + 2 * p, .S = at + 3 * p};
    s.B = s.S + p * p;
    s.turned = s.B + p * D;
    s.H = s.turned + p * D;
    s.Y = s.H + WV_BLOCK * p;
    s.G = s.Y + WV_BLOCK * D;
    s.plain = s.G + WV_BLOCK * D;
    s.sd = s.plain + 3 * D;
    s.unit = s.sd + D;
    s.centre = s.unit + D;
    s.mu = s.centre + D;
    s.root = s.mu + D;
    s.R = s.root + D * D;
    return s;
}

/* Units and correlations of the mixture, whose mean and root are in place. */
static void correlate(const stein *s, size_t D)
{
    wv_family_get(WVGD_FULL)->sd(D, 0, s->root, s->sd);
    for (size_t i = 0; i < D; i++) {
        s->unit[i] = 1 / s->sd[i];
        cblas_dscal((int)D, s->unit[i], s->root + i * D, 1);
    }
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)D, (int)D, (int)D, 1.0, s->root, (int)D, s->root, (int)D, 0.0, s->R, (int)D);
}

/* y and g of the stored draws first .. first + n into s->Y and s->G. */
static void look(wvgd_fit *f, const stein *s, size_t first, size_t n)
{
    size_t D = f->D;
    const double *x = f->close.x + first * D, *grad = f->close.grad + first * D;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            s->Y[i * D + k] = grad[i * D + k] * s->sd[k];
    wv_dense_product(n, D, s->Y, D, s->R, 1, 0, s->G);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            s->Y[i * D + k] = (x[i * D + k] - s->mu[k]) * s->unit[k];
}

/* Means and scales of the statistics, their covariance, factorised, the tilt c, and B = S^-1 Cov(h, y): all of it from sums and products over the draws, which weigh as much as the root of their
 * weights in each factor. B is made transposed, [D][p]: what LAPACK takes for p x D. */
static bool solve(wvgd_fit *f, stein *s)
{
    size_t D = f->D, p = s->p, n = f->close.n;
    lapack_int m = (lapack_int)p;
    double *root = f->block;
    memset(s->c, 0, p * sizeof(double));
    memset(s->centre, 0, D * sizeof(double));
    memset(s->S, 0, p * p * sizeof(double));
    memset(s->B, 0, p * D * sizeof(double));
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        look(f, s, first, here);
        for (size_t i = 0; i < here; i++) {
            double *h = s->H + i * p, *y = s->Y + i * D, *g = s->G + i * D, w = root[i] = sqrt(f->close_v[first + i]);
            if (!(w > 0)) {
                memset(h, 0, p * sizeof *h);
                memset(y, 0, D * sizeof *y);
                continue;
            }
            for (size_t k = 0; k < D; k++) {
                y[k] *= w;
                h[k] = w * g[k];
                h[D + k] = y[k] * g[k] + w;
            }
        }
        cblas_dgemv(ROW, CblasTrans, (int)here, (int)p, 1.0, s->H, (int)p, root, 1, 1.0, s->c, 1);
        cblas_dgemv(ROW, CblasTrans, (int)here, (int)D, 1.0, s->Y, (int)D, root, 1, 1.0, s->centre, 1);
        wv_dense_cross(here, p, s->H, p, s->H, true, s->S);
        wv_dense_cross(here, D, s->Y, p, s->H, false, s->B);
    }
    for (size_t k = 0; k < p; k++) {
        s->inverse[k] = 1 / (sqrt(s->S[k * p + k]) + 1e-150);
        s->mean[k] = s->c[k] *= s->inverse[k];
        if (!isfinite(s->S[k * p + k]) || !isfinite(s->mean[k]))
            return false;
    }
    for (size_t k = 0; k < p; k++) {
        for (size_t l = 0; l <= k; l++)
            s->S[k * p + l] = s->S[k * p + l] * s->inverse[k] * s->inverse[l] - s->mean[k] * s->mean[l];
        s->S[k * p + k] += 1e-6;
    }
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', m, s->S, m) != 0 || LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', m, 1, s->S, m, s->c, m) != 0)
        return false;
    for (size_t k = 0; k < D; k++) {
        double shift = 0; /* of the mean, by the tilt */
        for (size_t l = 0; l < p; l++) {
            s->B[k * p + l] = s->B[k * p + l] * s->inverse[l] - s->centre[k] * s->mean[l];
            shift += s->B[k * p + l] * s->c[l];
        }
        s->centre[k] -= shift;
    }
    if (LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', m, (lapack_int)D, s->S, m, s->B, m) != 0)
        return false;
    for (size_t k = 0; k < D; k++)
        for (size_t l = 0; l < p; l++)
            s->turned[l * D + k] = s->B[k * p + l];
    return true;
}

/* Calibrated weights, with means and variances under them, and standard errors: of what the statistics do not explain of each coordinate. */
static void tilt(wvgd_fit *f, const stein *s)
{
    size_t D = f->D, p = s->p, n = f->close.n;
    double *w = f->block;
    memset(f->var, 0, D * sizeof(double));
    memset(f->mcse, 0, D * sizeof(double));
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        const double *v = f->close_v + first;
        look(f, s, first, here);
        for (size_t i = 0; i < here; i++) {
            double *h = s->H + i * p, *y = s->Y + i * D, *g = s->G + i * D;
            w[i] = 1;
            if (!(v[i] > 0)) {
                memset(h, 0, p * sizeof *h);
                memset(y, 0, D * sizeof *y);
                continue;
            }
            for (size_t k = 0; k < D; k++) {
                h[k] = g[k] * s->inverse[k] - s->mean[k];
                h[D + k] = (y[k] * g[k] + 1) * s->inverse[D + k] - s->mean[D + k];
                y[k] -= s->centre[k];
            }
        }
        cblas_dgemv(ROW, CblasNoTrans, (int)here, (int)p, -1.0, s->H, (int)p, s->c, 1, 1.0, w, 1);
        for (size_t i = 0; i < here; i++) {
            f->close_cal[first + i] = v[i] * w[i];
            for (size_t k = 0; k < D; k++)
                f->var[k] += v[i] * w[i] * s->Y[i * D + k] * s->Y[i * D + k];
        }
        wv_dense_product(here, p, s->H, D, s->turned, -1, 1, s->Y);
        for (size_t i = 0; i < here; i++)
            for (size_t k = 0; k < D; k++)
                f->mcse[k] += v[i] * v[i] * s->Y[i * D + k] * s->Y[i * D + k];
    }
    for (size_t k = 0; k < D; k++) {
        f->mean[k] = s->mu[k] + s->sd[k] * s->centre[k];
        f->var[k] *= s->sd[k] * s->sd[k];
        f->mcse[k] = s->sd[k] * sqrt(f->mcse[k]);
    }
}

/* Means, variances and standard errors under the weights as they are. */
static void weighted(wvgd_fit *f)
{
    size_t D = f->D, n = f->close.n;
    cblas_dgemv(ROW, CblasTrans, (int)n, (int)D, 1.0, f->close.x, (int)D, f->close_v, 1, 0.0, f->mean, 1);
    memset(f->var, 0, D * sizeof(double));
    memset(f->mcse, 0, D * sizeof(double));
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++) {
            double d = f->close.x[k * D + i] - f->mean[i], v = f->close_v[k];
            f->var[i] += v * d * d;
            f->mcse[i] += v * v * d * d;
        }
    for (size_t i = 0; i < D; i++)
        f->mcse[i] = sqrt(f->mcse[i]);
}

void wv_moments_estimate(wvgd_fit *f)
{
    size_t D = f->D, n = f->close.n;
    double *const moments[] = {f->mean, f->var, f->mcse};
    stein s = names(f);
    memcpy(f->close_cal, f->close_v, n * sizeof(double));
    weighted(f);
    if (!(wv_weight_ess(n, f->close_v) > 10 * (double)D && f->s.pareto_k < 0.7))
        return;
    if (!wv_mix_moments(f, s.mu, s.root))
        return;
    correlate(&s, D);
    if (!solve(f, &s))
        return;
    for (size_t m = 0; m < 3; m++)
        memcpy(s.plain + m * D, moments[m], D * sizeof(double));
    tilt(f, &s);
    for (size_t i = 0; i < D; i++)
        if (!(f->var[i] > s.plain[D + i] / 4 && f->var[i] < 4 * s.plain[D + i] && fabs(f->mean[i] - s.plain[i]) < 6 * s.plain[2 * D + i])) { /* no small correction: leave it */
            memcpy(f->close_cal, f->close_v, n * sizeof(double));
            for (size_t m = 0; m < 3; m++)
                memcpy(moments[m], s.plain + m * D, D * sizeof(double));
            return;
        }
}
