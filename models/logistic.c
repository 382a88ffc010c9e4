/* logistic.c - Bayesian logistic regression:
 * log p(w) = sum_i log Bernoulli(y_i; sigmoid(x_i . w)) + log N(w; 0, prior_sd^2 I).
 * With x_i' = (1 - 2 y_i) x_i, which is what is stored, and s = X' w,
 *     log p = -sum_i log(1 + exp s_i) - |w|^2 / (2 prior_sd^2) - ...,
 *     its gradient  -X'^T sigmoid(s) - w / prior_sd^2. */
#include "density.h"
#include "regression_design.h"
#include "pass.h"
#include "row_blocks.h"
#include <stdlib.h>

typedef struct {
    size_t D;
    double prior_sd;
    const char **names;
    const wv_pass *pass;
    wv_row_blocks rows; /* X: times 1 - 2 y; a sum of log(1 + exp s) */
} logistic;

/* Columns of w. */
static void begin(const void *self, size_t b, const double *z, wv_row_work *k)
{
    const logistic *l = self;
    for (size_t i = 0; i < b; i++)
        for (size_t d = 0; d < l->D; d++)
            k->w[d * k->width + i] = z[i * l->D + d];
}

static void pass(const void *self, size_t at, size_t rows, wv_row_work *k)
{
    const logistic *l = self;
    (void)at;
    l->pass->softplus(rows, k->width, k->s, k->sum);
}

static void once(const void *self, size_t rows, double *s, double *sum)
{
    const logistic *l = self;
    size_t padded = wv_pass_width(rows);
    for (size_t i = rows; i < padded; i++)
        s[i] = -1e300; /* log(1 + exp s) = 0 */
    l->pass->softplus(padded / WV_PASS_WIDTH, WV_PASS_WIDTH, s, sum);
}

static void finish(const void *self, size_t b, const double *z, double *log_p, double *grad, const wv_row_work *k)
{
    const logistic *l = self;
    size_t D = l->D;
    for (size_t i = 1; k->width == 1 && i < WV_PASS_WIDTH; i++)
        k->sum[0] += k->sum[i];
    for (size_t i = 0; i < b; i++) {
        log_p[i] = wv_density_weights(D, z + i * D, l->prior_sd, grad ? grad + i * D : NULL) - k->sum[i];
        for (size_t d = 0; grad && d < D; d++)
            grad[i * D + d] += k->g[d * k->width + i];
    }
    wv_density_reject(b, D, log_p, grad);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    logistic *l = self;
    const wv_row_model model = {l->D, begin, pass, once, finish, l};
    return wv_row_blocks_evaluate(&l->rows, &model, n, z, log_p, grad);
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
    wv_row_blocks_close(&l->rows);
    free(l->names);
    free(l);
}

int wv_model_logistic(wvgd_model *model, const wv_regression *data)
{
    size_t rows = data->rows, D = data->columns + data->intercept;
    logistic *l = malloc(sizeof *l);
    if (!l)
        return -1;
    *l = (logistic){.D = D,
                    .prior_sd = data->prior_sd,
                    .names = wv_design_names(data->columns, data->names, data->intercept, NULL),
                    .pass = wv_pass_best()};
    if (wv_row_blocks_open(&l->rows, rows, D, 1, 0) || !l->names ||
        wv_design_fill(data, data->intercept, D, l->rows.X)) {
        close_logistic(l);
        return -1;
    }
    double *X = l->rows.X;
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; data->y[i] > 0.5 && d < D; d++)
            X[i * D + d] = -X[i * D + d];
    *model = (wvgd_model){.name = "logistic",
                          .dim = D,
                          .log_density = log_density,
                          .self = l,
                          .has_gradient = true,
                          .batched = true,
                          .thread_safe = true,
                          .names = l->names,
                          .close = close_logistic,
                          .start = start,
                          .start_self = l,
                          .work = (double)rows * (4 * (double)D + 30)};
    return 0;
}
