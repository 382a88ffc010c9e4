/* logistic.c - Bayesian logistic regression:
 * log p(w) = sum_i log Bernoulli(y_i; sigmoid(x_i . w)) + log N(w; 0, prior_sd^2 I).
 * With x_i' = (1 - 2 y_i) x_i, which is what is stored, and s = X' w,
 *     log p = -sum_i log(1 + exp s_i) - |w|^2 / (2 prior_sd^2) - ...,
 *     its gradient  -X'^T sigmoid(s) - w / prior_sd^2:
 * two matrix products and one pass over s in between. Rows and points go in blocks, so that S [rows][points] stays
 * in the cache; several blocks of points share a block of rows, so that data that do not fit into the cache are
 * fetched less often. Points are columns, so that both products read X' as it lies. */
#include "density.h"
#include "design.h"
#include "pass.h"
#include "scratch.h"
#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Products of up to so many multiplications are done without copying their operands (by OpenBLAS: 1.2 times
 * as fast); and rows a block has at least. */
enum { SMALL = 1000000, FEW = 48 };

/* Blocks of points that share a block of rows, at most, and numbers that their weights, or gradients, may be. */
enum { BLOCKS = 4, NEAR = 16384 };

typedef struct {
    size_t rows, D;
    size_t points, block; /* of a block: points, and rows, multiples of WV_PASS_WIDTH */
    size_t blocks;        /* of points that share one of rows */
    double prior_sd;
    double *X; /* [rows][D] times 1 - 2 y */
    const char **names;
    const wv_pass *pass;
    wv_scratch scratch;
} logistic;

/* Work for a block of points; S is that of all blocks. */
typedef struct {
    size_t width; /* points, rounded up */
    double *w;    /* [D][width] */
    double *g;    /* [D][width] gradient */
    double *sum;  /* [width] of log(1 + exp s) */
    double *S;    /* [block][width] */
} work;

/* One block of rows, one of points. */
static void evaluate_block(const logistic *l, size_t rows, const double *X, bool grad, work *k)
{
    int D = (int)l->D, n = (int)k->width;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, n, D, 1.0, X, D, k->w, n, 0.0, k->S, n);
    l->pass->softplus(rows, k->width, k->S, k->sum);
    if (grad)
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, D, n, (int)rows, -1.0, X, D, k->S, n, 1.0, k->g, n);
}

/* Each block of points also fetches its share of the next block of rows. */
static void evaluate_rows(const logistic *l, size_t blocks, bool grad, work *k)
{
    for (size_t at = 0, next; at < l->rows; at = next) {
        next = at + l->block < l->rows ? at + l->block : l->rows;
        size_t last = next + l->block < l->rows ? next + l->block : l->rows, share = (last - next) * l->D / blocks;
        for (size_t i = 0; i < blocks; i++) {
            for (size_t p = i * share; p < (i + 1) * share; p += 64 / sizeof *l->X)
                __builtin_prefetch(l->X + next * l->D + p, 0, 2);
            evaluate_block(l, next - at, l->X + at * l->D, grad, &k[i]);
        }
    }
}

/* One point: matrix times vector, and rows take the place of columns in the pass. */
static void evaluate_rows_once(const logistic *l, bool grad, work *k)
{
    double sum[WV_PASS_WIDTH] = {0};
    int D = (int)l->D;
    for (size_t at = 0; at < l->rows; at += l->block) {
        size_t rows = l->rows - at < l->block ? l->rows - at : l->block, padded = wv_pass_width(rows);
        const double *X = l->X + at * l->D;
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)rows, D, 1.0, X, D, k->w, 1, 0.0, k->S, 1);
        for (size_t i = rows; i < padded; i++)
            k->S[i] = -1e300; /* log(1 + exp s) = 0 */
        l->pass->softplus(padded / WV_PASS_WIDTH, WV_PASS_WIDTH, k->S, sum);
        if (grad)
            cblas_dgemv(CblasRowMajor, CblasTrans, (int)rows, D, -1.0, X, D, k->S, 1, 1.0, k->g, 1);
    }
    for (size_t i = 0; i < WV_PASS_WIDTH; i++)
        k->sum[0] += sum[i];
}

/* b points: columns of w, the others 0. */
static void begin(const logistic *l, size_t b, size_t width, const double *z, work *k)
{
    size_t D = l->D;
    k->width = width;
    memset(k->w, 0, D * width * sizeof *k->w);
    memset(k->g, 0, D * width * sizeof *k->g);
    memset(k->sum, 0, width * sizeof *k->sum);
    for (size_t i = 0; i < b; i++)
        for (size_t d = 0; d < D; d++)
            k->w[d * width + i] = z[i * D + d];
}

static void finish(const logistic *l, size_t b, const double *z, double *log_p, double *grad, const work *k)
{
    size_t D = l->D;
    for (size_t i = 0; i < b; i++) {
        log_p[i] = wv_density_weights(D, z + i * D, l->prior_sd, grad ? grad + i * D : NULL) - k->sum[i];
        for (size_t d = 0; grad && d < D; d++)
            grad[i * D + d] += k->g[d * k->width + i];
    }
    wv_density_reject(b, D, log_p, grad);
}

/* n points, at most so many as l->blocks blocks have. */
static void evaluate(const logistic *l, size_t n, const double *z, double *log_p, double *grad, double *piece)
{
    size_t most = l->points * l->D, each = 2 * most + l->points, blocks = 0;
    work k[BLOCKS];
    for (size_t i = 0; i < n; i += l->points, blocks++) {
        double *own = piece + blocks * each;
        k[blocks] = (work){0, own, own + most, own + 2 * most, piece + l->blocks * each};
        size_t b = n - i < l->points ? n - i : l->points;
        begin(l, b, n == 1 ? 1 : wv_pass_width(b), z + i * l->D, &k[blocks]);
    }
    if (n == 1)
        evaluate_rows_once(l, grad, k);
    else
        evaluate_rows(l, blocks, grad, k);
    for (size_t i = 0; i < n; i += l->points)
        finish(l, n - i < l->points ? n - i : l->points, z + i * l->D, log_p + i, grad ? grad + i * l->D : NULL,
               &k[i / l->points]);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    logistic *l = self;
    double *piece = wv_scratch_take(&l->scratch);
    if (!piece)
        return -1;
    for (size_t i = 0, here; i < n; i += here) {
        here = n - i < l->blocks * l->points ? n - i : l->blocks * l->points;
        evaluate(l, here, z + i * l->D, log_p + i, grad ? grad + i * l->D : NULL, piece);
    }
    wv_scratch_give(&l->scratch, piece);
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
    wv_scratch_close(&l->scratch);
    free(l->X);
    free(l->names);
    free(l);
}

/* As many points as leave enough rows to a small product. */
static void choose_blocks(logistic *l)
{
    l->points = WVGD_CHUNK;
    while (l->points > WV_PASS_WIDTH && l->points * FEW > SMALL / l->D)
        l->points /= 2;
    l->block = SMALL / l->D / l->points / WV_PASS_WIDTH * WV_PASS_WIDTH;
    l->block = l->block < FEW ? FEW : l->block > WV_PASS_ROWS ? WV_PASS_ROWS : l->block;
    l->blocks = NEAR / (l->D * l->points);
    l->blocks = l->blocks < 1 ? 1 : l->blocks > BLOCKS ? BLOCKS : l->blocks;
}

int wv_model_logistic(wvgd_model *model, const wv_regression *data)
{
    size_t rows = data->rows, D = data->columns + data->intercept;
    logistic *l;
    if (D == 0 || D > INT_MAX / WVGD_CHUNK || !(l = malloc(sizeof *l)))
        return -1;
    *l = (logistic){.rows = rows,
                    .D = D,
                    .prior_sd = data->prior_sd,
                    .X = calloc(rows + 1, D * sizeof(double)),
                    .names = wv_design_names(data, false),
                    .pass = wv_pass_best()};
    choose_blocks(l);
    wv_scratch_open(&l->scratch, l->points * (l->blocks * (2 * D + 1) + l->block));
    if (!l->X || !l->names || wv_design_fill(data, data->intercept, D, l->X)) {
        close_logistic(l);
        return -1;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; data->y[i] > 0.5 && d < D; d++)
            l->X[i * D + d] = -l->X[i * D + d];
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
