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
    return 3 * p + p * p + 2 * p * D + WV_BLOCK * (p + D) + 5 * D + 2 * D * D;
}

typedef struct {
    size_t p;
    double *mean, *inverse, *c; /* [p] means and inverse scales of the statistics, tilt */
    double *S, *B, *turned;   /* [p][p], [D][p], [p][D] */
    double *H, *X;            /* [WV_BLOCK][p] statistics, [WV_BLOCK][D] centred points of a block */
    double *plain;            /* [2][D] moments before calibration */
    double *sd, *unit;        /* [D] units of the coordinates, and their inverses */
    double *mu, *root;        /* [D], [D][D] of the mixture */
    double *R;                /* [D][D] its correlations */
    bool kept;                /* f->b.grad holds the gradients of all draws, multiplied by C */
} stein;

static stein names(wvgd_fit *f)
{
    size_t D = f->D, p = 2 * D;
    double *at = f->stein;
    stein s = {.p = p, .mean = at, .inverse = at + p, .c = at + 2 * p, .S = at + 3 * p};
    s.B = s.S + p * p;
    s.turned = s.B + p * D;
    s.H = s.turned + p * D;
    s.X = s.H + WV_BLOCK * p;
    s.plain = s.X + WV_BLOCK * D;
    s.sd = s.plain + 2 * D;
    s.unit = s.sd + D;
    s.mu = s.unit + D;
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

/* (C grad log p~)_i / sqrt(C_ii) of the stored draws first .. first + n, [n][D]. */
static const double *gradients(wvgd_fit *f, const stein *s, size_t first, size_t n)
{
    size_t D = f->D;
    double *g = f->b.grad + (f->close.n <= f->n_max ? first * D : 0);
    if (s->kept)
        return g;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            s->X[i * D + k] = f->close.grad[(first + i) * D + k] * s->sd[k];
    wv_dense_product(n, D, s->X, D, s->R, 1, 0, g);
    return g;
}

/* Statistics of the stored draws first .. first + n into s->H, scaled and centred; zero where a draw has no weight. */
static void rows(wvgd_fit *f, const stein *s, size_t first, size_t n)
{
    size_t D = f->D;
    const double *g = gradients(f, s, first, n), *x = f->close.x + first * D;
    for (size_t i = 0; i < n; i++, g += D, x += D) {
        double *h = s->H + i * s->p;
        if (!(f->close_v[first + i] > 0)) {
            memset(h, 0, s->p * sizeof *h);
            continue;
        }
        for (size_t k = 0; k < D; k++) {
            h[k] = g[k] * s->inverse[k] - s->mean[k];
            h[D + k] = ((x[k] - s->mu[k]) * s->unit[k] * g[k] + 1) * s->inverse[D + k] - s->mean[D + k];
        }
    }
}

/* Means and scales of the statistics, their covariance, factorised, and the tilt c: all of it from their sums and products over the draws. */
static bool solve(wvgd_fit *f, stein *s)
{
    size_t p = s->p, n = f->close.n;
    lapack_int m = (lapack_int)p;
    memset(s->mean, 0, p * sizeof(double));
    memset(s->c, 0, p * sizeof(double));
    memset(s->S, 0, p * p * sizeof(double));
    for (size_t k = 0; k < p; k++)
        s->inverse[k] = 1;
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        rows(f, s, first, here);
        cblas_dgemv(ROW, CblasTrans, (int)here, (int)p, 1.0, s->H, (int)p, f->close_v + first, 1, 1.0, s->c, 1);
        for (size_t i = 0; i < here; i++)
            cblas_dscal((int)p, sqrt(f->close_v[first + i]), s->H + i * p, 1);
        wv_dense_cross(here, p, s->H, p, s->H, true, s->S);
    }
    s->kept = n <= f->n_max;
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
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', m, s->S, m) == 0 && LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', m, 1, s->S, m, s->c, m) == 0;
}

static void tilt(wvgd_fit *f, const stein *s)
{
    for (size_t first = 0; first < f->close.n; first += WV_BLOCK) {
        size_t here = f->close.n - first < WV_BLOCK ? f->close.n - first : WV_BLOCK;
        rows(f, s, first, here);
        for (size_t i = 0; i < here; i++)
            f->close_cal[first + i] = f->close_v[first + i] * (1 - cblas_ddot((int)s->p, s->H + i * s->p, 1, s->c, 1));
    }
}

/* Standard errors of the means: of what the statistics do not explain of each coordinate. */
static void errors(wvgd_fit *f, const stein *s)
{
    size_t D = f->D, p = s->p;
    memset(s->B, 0, p * D * sizeof(double));
    memset(f->mcse, 0, D * sizeof(double));
    for (int pass = 0; pass < 2; pass++) { /* B = S^-1 Cov(h, x); residuals */
        for (size_t first = 0; first < f->close.n; first += WV_BLOCK) {
            size_t here = f->close.n - first < WV_BLOCK ? f->close.n - first : WV_BLOCK;
            rows(f, s, first, here);
            for (size_t i = 0; i < here; i++)
                for (size_t k = 0; k < D; k++)
                    s->X[i * D + k] = f->close_v[first + i] * (f->close.x[(first + i) * D + k] - f->mean[k]);
            if (pass == 0) { /* B is made transposed, [D][p]: what LAPACK takes for p x D */
                wv_dense_cross(here, D, s->X, p, s->H, false, s->B);
                continue;
            }
            for (size_t i = 0; i < here; i++)
                cblas_dscal((int)p, f->close_v[first + i], s->H + i * p, 1);
            wv_dense_product(here, p, s->H, D, s->turned, -1, 1, s->X);
            for (size_t i = 0; i < here; i++)
                for (size_t k = 0; k < D; k++)
                    f->mcse[k] += s->X[i * D + k] * s->X[i * D + k];
        }
        if (pass == 1)
            break;
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, (lapack_int)D, s->S, (lapack_int)p, s->B, (lapack_int)p);
        for (size_t k = 0; k < D; k++)
            for (size_t l = 0; l < p; l++)
                s->turned[l * D + k] = s->B[k * p + l];
    }
    for (size_t k = 0; k < D; k++)
        f->mcse[k] = sqrt(f->mcse[k]);
}

/* Means and variances under the weights w[n], which may be negative. */
static void weighted(wvgd_fit *f, const double *w)
{
    size_t D = f->D, n = f->close.n;
    cblas_dgemv(ROW, CblasTrans, (int)n, (int)D, 1.0, f->close.x, (int)D, w, 1, 0.0, f->mean, 1);
    memset(f->var, 0, D * sizeof(double));
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++) {
            double d = f->close.x[k * D + i] - f->mean[i];
            f->var[i] += w[k] * d * d;
        }
}

void wv_moments_estimate(wvgd_fit *f)
{
    size_t D = f->D, n = f->close.n;
    stein s = names(f);
    memcpy(f->close_cal, f->close_v, n * sizeof(double));
    weighted(f, f->close_v);
    memset(f->mcse, 0, D * sizeof(double));
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++) {
            double d = f->close_v[k] * (f->close.x[k * D + i] - f->mean[i]);
            f->mcse[i] += d * d;
        }
    for (size_t i = 0; i < D; i++)
        f->mcse[i] = sqrt(f->mcse[i]);
    if (!(wv_weight_ess(n, f->close_v) > 10 * (double)D && f->s.pareto_k < 0.7))
        return;
    if (!wv_mix_moments(f, s.mu, s.root))
        return;
    correlate(&s, D);
    memcpy(s.plain, f->mean, D * sizeof(double));
    memcpy(s.plain + D, f->var, D * sizeof(double));
    if (!solve(f, &s))
        return;
    tilt(f, &s);
    weighted(f, f->close_cal);
    for (size_t i = 0; i < D; i++)
        if (!(f->var[i] > s.plain[D + i] / 4 && f->var[i] < 4 * s.plain[D + i] && fabs(f->mean[i] - s.plain[i]) < 6 * f->mcse[i])) { /* no small correction: leave it */
            memcpy(f->close_cal, f->close_v, n * sizeof(double));
            memcpy(f->mean, s.plain, D * sizeof(double));
            memcpy(f->var, s.plain + D, D * sizeof(double));
            return;
        }
    errors(f, &s);
}
