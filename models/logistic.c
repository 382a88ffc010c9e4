/* logistic.c - Bayesian logistic regression: log p(w) = sum_i log Bernoulli(y_i; sigmoid(f_i)) + log N(w; 0, prior_sd^2 I) with f = X w, and
 * the gradient X' (y - sigmoid(f)) - w / prior_sd^2. Rows and points go in blocks, so that the predictors F [points][rows] stay in the cache. */
#include "density.h"
#include "design.h"
#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = WVGD_CHUNK, ROWS = 256 }; /* points and rows of a block */

typedef struct {
    size_t rows, D;
    double prior_sd;
    double *X; /* [rows][D] */
    double *y; /* [rows] */
    const char **names;
} logistic;

/* F: [b][ROWS] work. */
static void evaluate(const logistic *l, size_t b, const double *z, double *log_p, double *grad, double *F)
{
    int n = (int)b, D = (int)l->D;
    for (size_t i = 0; i < b; i++)
        log_p[i] = wv_density_weights(l->D, z + i * l->D, l->prior_sd, grad ? grad + i * l->D : NULL);
    for (size_t at = 0; at < l->rows; at += ROWS) {
        size_t rows = l->rows - at < ROWS ? l->rows - at : ROWS;
        int r = (int)rows;
        const double *X = l->X + at * l->D;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, r, D, 1.0, z, D, X, D, 0.0, F, r);
        for (size_t i = 0; i < b; i++)
            log_p[i] += wv_density_bernoulli(rows, l->y + at, F + i * rows);
        if (grad)
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, D, r, 1.0, F, r, X, D, 1.0, grad, D);
    }
    wv_density_reject(b, l->D, log_p, grad);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const logistic *l = self;
    double *F = malloc(BLOCK * ROWS * sizeof *F);
    if (!F)
        return -1;
    for (size_t i = 0; i < n; i += BLOCK)
        evaluate(l, n - i < BLOCK ? n - i : BLOCK, z + i * l->D, log_p + i, grad ? grad + i * l->D : NULL, F);
    free(F);
    return 0;
}

/* A draw from the prior. */
static void start(void *self, const double *normal, double *z)
{
    const logistic *l = self;
    wv_density_start_weights(l->D, l->prior_sd, normal, z);
}

static void close_logistic(void *self)
{
    logistic *l = self;
    free(l->X);
    free(l->y);
    free(l->names);
    free(l);
}

int wv_model_logistic(wvgd_model *model, const wv_regression *data)
{
    size_t rows = data->rows, D = data->columns + data->intercept;
    logistic *l;
    if (D == 0 || D > INT_MAX || !(l = malloc(sizeof *l)))
        return -1;
    *l = (logistic){rows, D, data->prior_sd, calloc(rows + 1, D * sizeof(double)), calloc(rows + 1, sizeof(double)), wv_design_names(data, false)};
    if (!l->X || !l->y || !l->names) {
        close_logistic(l);
        return -1;
    }
    wv_design_fill(data, data->intercept, D, l->X);
    if (rows)
        memcpy(l->y, data->y, rows * sizeof *l->y);
    *model = (wvgd_model){.name = "logistic", .dim = D, .log_density = log_density, .self = l, .has_gradient = true, .thread_safe = true,
                          .names = l->names, .close = close_logistic, .start = start, .start_self = l};
    return 0;
}
