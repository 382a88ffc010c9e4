/* linear.c - Gaussian responses with unknown noise: y_i ~ N(x_i . w + offset_i, sigma^2), with a weight v_i.
 * The coordinates are w and log_sigma, whose density is that of sigma times sigma. Of the data only R of
 * [X y] = Q R enters, with rows times sqrt(v_i): sum_i v_i (x_i . w - y_i)^2 = |R (w, -1)|^2. A point costs D^2
 * however many rows there are, and nothing cancels.
 *
 * Without priors of its own a linear model has w ~ N(0, prior_sd^2 I), sigma ~ half-Cauchy(prior_sd): on features of
 * size 1 both are in units of y, so prior_sd says how large, roughly, effects and noise may be; it falls only like
 * 1/sigma^2, so noise far above the scale is not held down. */
#include "density.h"
#include "regression_design.h"
#include "gaussian.h"
#include "prior.h"
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { BLOCK = WVGD_CHUNK };

typedef struct {
    size_t D;    /* D - 1 weights and log_sigma: as many as [X y] has columns */
    size_t M;    /* rows of R: min(rows, D), at least 1 */
    double rows; /* their weights, summed */
    double *R;   /* [M][D] upper triangular; the last column belongs to y */
    wv_priors priors;
    const char **names;
} linear;

/* residual: [b][M] work. The gradient by w is -R' residual / sigma^2 and that of the prior. */
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
        double *e = residual + i * M, log_sigma = w[D - 1], precision = exp(-2.0 * log_sigma),
               chi2 = cblas_ddot(m, e, 1, e, 1) * precision;
        log_p[i] = wv_priors_density(&l->priors, w, grad ? grad + i * D : NULL);
        log_p[i] -= 0.5 * chi2 + l->rows * (log_sigma + 0.5 * WV_LOG_2PI);
        if (grad) {
            cblas_dscal(m, -precision, e, 1);
            grad[i * D + D - 1] += chi2 - l->rows;
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
    wv_priors_start(&l->priors, normal, z);
}

static void close_linear(void *self)
{
    linear *l = self;
    wv_priors_close(&l->priors);
    free(l->R);
    free(l->names);
    free(l);
}

/* R of [X y] = Q R, A being [X y]: row-major [rows][D] is LAPACK's transpose, whose LQ factor L is R'. */
static bool reduce(linear *l, size_t rows, double *A)
{
    size_t D = l->D, lwork = 64 * D;
    double *work = calloc(D + lwork, sizeof *work); /* reflectors [D], then LAPACK's */
    lapack_int m = (lapack_int)D, n = (lapack_int)rows;
    bool good = work && (rows == 0 ||
                         LAPACKE_dgelqf_work(LAPACK_COL_MAJOR, m, n, A, m, work, work + D, (lapack_int)lwork) == 0);
    for (size_t k = 0; good && k < l->M; k++)
        for (size_t j = k; j < D; j++)
            l->R[k * D + j] = A[k * D + j];
    free(work);
    return good;
}

/* [X 1 y - offset] with rows times the roots of their weights; to be freed. */
static double *join_rows(const wv_glm *data, size_t D, double *weights)
{
    double *A = calloc(data->rows + 1, D * sizeof *A);
    *weights = 0;
    for (size_t i = 0; A && i < data->rows; i++) {
        double *row = A + i * D, v = data->weight ? data->weight[i] : 1, root = sqrt(v);
        *weights += v;
        for (size_t c = 0; c < data->columns; c++)
            row[c] = root * data->X[i * data->columns + c];
        if (data->intercept)
            row[data->columns] = root;
        row[D - 1] = root * (data->y[i] - (data->offset ? data->offset[i] : 0));
        wv_design_read(i, data->columns, data->X, data->give_back);
    }
    return A;
}

int wv_model_gaussian(wvgd_model *model, const char *name, const wv_glm *data)
{
    const char *const more[2] = {"log_sigma", NULL};
    size_t rows = data->rows, D = data->columns + data->intercept + 1, M = rows < D ? rows : D;
    linear *l;
    if (D == 1 || D > INT_MAX / 64 || rows > INT_MAX || !(l = malloc(sizeof *l)))
        return -1;
    M = M ? M : 1;
    *l = (linear){.D = D,
                  .M = M,
                  .R = calloc(M, D * sizeof(double)),
                  .names = wv_design_names(data->columns, data->names, data->intercept, more)};
    double *A = join_rows(data, D, &l->rows);
    bool good = !wv_priors_open(&l->priors, data->columns, data->intercept, 1, data->prior, data->centre) && l->R &&
                l->names && A && reduce(l, rows, A);
    free(A);
    if (!good) {
        close_linear(l);
        return -1;
    }
    *model = (wvgd_model){.name = name,
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

/* mean[columns] of X[rows][columns] */
static void average(size_t rows, size_t columns, const double *X, double *mean)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns; c++)
            mean[c] += X[i * columns + c] / (double)rows;
}

int wv_model_linear(wvgd_model *model, const wv_regression *data)
{
    size_t D = data->columns + data->intercept + 1;
    double *X = calloc(data->rows + 1, (data->columns + 1) * sizeof *X), *centre = calloc(D, sizeof *centre);
    wv_prior *prior = calloc(D, sizeof *prior);
    int status = X && centre && prior ? wv_design_fill(data, false, data->columns, X) : -1;
    for (size_t i = 0; !status && i < D; i++)
        prior[i] = data->prior ? data->prior[i]
                   : i < D - 1 ? (wv_prior){WV_PRIOR_NORMAL, 0, data->prior_sd, 0}
                               : (wv_prior){WV_PRIOR_CAUCHY, 0, data->prior_sd, 0};
    if (!status) {
        average(data->rows, data->columns, X, centre);
        status = wv_model_gaussian(model, "linear",
                                   &(wv_glm){.rows = data->rows,
                                             .columns = data->columns,
                                             .X = X,
                                             .y = data->y,
                                             .names = data->names,
                                             .intercept = data->intercept,
                                             .prior = prior,
                                             .centre = data->centred ? centre : NULL});
    }
    free(X);
    free(centre);
    free(prior);
    return status;
}
