/* linear.c - Bayesian linear regression with unknown noise: y_i ~ N(x_i . w, sigma^2),
 * w ~ N(0, prior_sd^2 I), sigma ~ half-Cauchy(prior_sd).
 * The coordinates are w and log_sigma, whose density is that of sigma times sigma. Weights and noise have the
 * one prior scale: on features of size 1 both are in units of y, so prior_sd says how large, roughly, effects
 * and noise may be. The prior does not look at the data; it is proper, and falls only like 1/sigma^2, so
 * noise far above the scale is not held down.
 *
 * Of the data only R of [X y] = Q R enters: |X w - y|^2 = |R (w, -1)|^2. A point costs D^2 however many
 * rows there are, and nothing cancels. */
#include "density.h"
#include "design.h"
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { BLOCK = WVGD_CHUNK };

typedef struct {
    size_t rows, D; /* D - 1 weights and log_sigma: as many as [X y] has columns */
    size_t M;       /* rows of R: min(rows, D), at least 1 */
    double prior_sd;
    double *R; /* [M][D] upper triangular; the last column belongs to y */
    const char **names;
} linear;

/* residual: [b][M] work. The gradient by w is -R' residual / sigma^2 - w / prior_sd^2. */
static void evaluate(const linear *l, size_t b, const double *z, double *log_p, double *grad, double *residual)
{
    size_t D = l->D, M = l->M;
    int n = (int)b, d = (int)D, m = (int)M;
    for (size_t i = 0; i < b; i++)
        for (size_t k = 0; k < M; k++)
            residual[i * M + k] = -l->R[k * D + D - 1];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, m, d - 1, 1.0, z, d, l->R, d, 1.0, residual, m);
    for (size_t i = 0; i < b; i++) {
        const double *w = z + i * D;
        double *e = residual + i * M, log_sigma = w[D - 1], slope;
        log_p[i] = wv_density_weights(D - 1, w, l->prior_sd, grad ? grad + i * D : NULL);
        log_p[i] += wv_density_noise(l->rows, cblas_ddot(m, e, 1, e, 1), log_sigma, l->prior_sd, &slope);
        if (grad) {
            cblas_dscal(m, -exp(-2.0 * log_sigma), e, 1);
            grad[i * D + D - 1] = slope;
        }
    }
    if (grad)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d - 1, m, 1.0, residual, m, l->R, d, 1.0, grad, d);
    wv_density_reject(b, D, log_p, grad);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const linear *l = self;
    double *residual = calloc(l->M, BLOCK * sizeof *residual);
    if (!residual)
        return -1;
    for (size_t i = 0; i < n; i += BLOCK)
        evaluate(l, n - i < BLOCK ? n - i : BLOCK, z + i * l->D, log_p + i, grad ? grad + i * l->D : NULL, residual);
    free(residual);
    return 0;
}

/* A draw from the prior. */
static void start(void *self, const double *normal, double *z)
{
    const linear *l = self;
    wv_density_start_weights(l->D - 1, l->prior_sd, normal, z);
    z[l->D - 1] = wv_density_start_noise(l->prior_sd, normal[l->D - 1]);
}

static void close_linear(void *self)
{
    linear *l = self;
    free(l->R);
    free(l->names);
    free(l);
}

/* R of [X y] = Q R: row-major [rows][D] is LAPACK's transpose, whose LQ factor L is R'. */
static bool reduce(linear *l, const wv_regression *data)
{
    size_t rows = l->rows, D = l->D, lwork = 64 * D;
    /* work: reflectors [D], then LAPACK's */
    double *A = calloc(rows + 1, D * sizeof *A), *work = calloc(D + lwork, sizeof *work);
    bool good = A && work && !wv_design_fill(data, data->intercept, D, A);
    if (good) {
        for (size_t i = 0; i < rows; i++)
            A[i * D + D - 1] = data->y[i];
        lapack_int m = (lapack_int)D, n = (lapack_int)rows;
        good = rows == 0 || LAPACKE_dgelqf_work(LAPACK_COL_MAJOR, m, n, A, m, work, work + D, (lapack_int)lwork) == 0;
        for (size_t k = 0; k < l->M; k++)
            for (size_t j = k; j < D; j++)
                l->R[k * D + j] = A[k * D + j];
    }
    free(A);
    free(work);
    return good;
}

int wv_model_linear(wvgd_model *model, const wv_regression *data)
{
    size_t rows = data->rows, D = data->columns + data->intercept + 1, M = rows < D ? rows : D;
    linear *l;
    if (D == 1 || D > INT_MAX / 64 || rows > INT_MAX || !(l = malloc(sizeof *l)))
        return -1;
    M = M ? M : 1;
    *l = (linear){rows, D, M, data->prior_sd, calloc(M, D * sizeof(double)), wv_design_names(data, true)};
    if (!l->R || !l->names || !reduce(l, data)) {
        close_linear(l);
        return -1;
    }
    *model = (wvgd_model){.name = "linear",
                          .dim = D,
                          .log_density = log_density,
                          .self = l,
                          .has_gradient = true,
                          .batched = true,
                          .thread_safe = true,
                          .names = l->names,
                          .close = close_linear,
                          .start = start,
                          .start_self = l,
                          .work = 4 * (double)M * (double)D};
    return 0;
}
