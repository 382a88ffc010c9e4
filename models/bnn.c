/* bnn.c - Bayesian neural network with one hidden layer: f(x) = b2 + sum_h w2_h tanh(b1_h + w1_h . x), all weights and biases N(0, prior_sd^2).
 * Outputs: y ~ Bernoulli(sigmoid(f)), or y ~ N(f, sigma^2) with sigma ~ half-Cauchy(prior_sd) as in linear.c.
 * Coordinates: w1 [H][P], b1 [H], w2 [H], b2 and, unless binary, log_sigma.
 * The units of a group of points are stacked, w1 and b1 as W [points H][P + 1], so that their sums over the features, for a block of rows, are one
 * product T = W X', X with a column of ones; so is the way back to the gradient. */
#include "density.h"
#include "design.h"
#include "lanes.h"
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256, GROUP = WVGD_CHUNK, UNITS = 512, NAME = 32 }; /* rows of a block, most points and units of a group, length of a name */

typedef struct {
    size_t rows, P, H, D;
    bool binary;
    double prior_sd;
    size_t group;        /* points that are evaluated together, a divisor of GROUP: group H <= UNITS or group = 1 */
    double *X;           /* [rows][P + 1] with a column of ones */
    double *y;           /* [rows] */
    char (*text)[NAME];  /* [D] */
    const char **names;  /* [D] into text */
} bnn;

/* Work for a group of b points and a block of r rows. */
typedef struct {
    double *W, *dW;     /* [b H][P + 1] first layer, and the gradient by it */
    double *T;          /* [b H][r] hidden units, then the gradient by their sums */
    double *f;          /* [b][r] outputs, then the gradient by them */
    double squares[GROUP]; /* of the residuals */
} scratch;

static void apply_tanh(size_t n, double *x)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes v = wv_lanes_load(x + i, n - i, 0.0), m = wv_lanes_expm1_minus(2.0 * wv_lanes_abs(v));
        wv_lanes_store(x + i, n - i, wv_lanes_sign(m / (2.0 + m), v)); /* tanh |v| = -m / (2 + m) */
    }
}

/* T becomes the gradient by the sums: w2_h df_r (1 - T^2). */
static void back_through_tanh(const bnn *n, size_t r, const double *w2, const double *df, double *T)
{
    for (size_t h = 0; h < n->H; h++, T += r)
        for (size_t k = 0; k < r; k++)
            T[k] = w2[h] * df[k] * (1.0 - T[k] * T[k]);
}

/* The log density of r rows at point i (0 if not binary: wv_density_noise does it later); f becomes its gradient, or the residuals over sigma^2. */
static double add_rows(const bnn *n, size_t r, const double *y, const double *z, scratch *s, size_t i)
{
    const double *T = s->T + i * n->H * r, *w2 = z + n->H * (n->P + 1);
    double *f = s->f + i * r;
    for (size_t k = 0; k < r; k++)
        f[k] = w2[n->H];
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n->H, (int)r, 1.0, T, (int)r, w2, 1, 1.0, f, 1);
    if (n->binary)
        return wv_density_bernoulli(r, y, f);
    double precision = exp(-2.0 * z[n->D - 1]);
    for (size_t k = 0; k < r; k++) {
        double e = y[k] - f[k];
        s->squares[i] += e * e;
        f[k] = e * precision;
    }
    return 0.0;
}

/* Adds the gradient by w2 and b2, and leaves in T that by the sums. */
static void add_output_gradient(const bnn *n, size_t r, const double *z, double *grad, scratch *s, size_t i)
{
    double *T = s->T + i * n->H * r, *f = s->f + i * r;
    size_t at = n->H * (n->P + 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)n->H, (int)r, 1.0, T, (int)r, f, 1, 1.0, grad + at, 1);
    for (size_t k = 0; k < r; k++)
        grad[at + n->H] += f[k];
    back_through_tanh(n, r, z + at, f, T);
}

static void evaluate_rows(const bnn *n, size_t at, size_t r, size_t b, const double *z, double *log_p, double *grad, scratch *s)
{
    size_t D = n->D;
    int units = (int)(b * n->H), width = (int)(n->P + 1), rows = (int)r;
    const double *X = n->X + at * (n->P + 1);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, units, rows, width, 1.0, s->W, width, X, width, 0.0, s->T, rows);
    apply_tanh(b * n->H * r, s->T);
    for (size_t i = 0; i < b; i++) {
        log_p[i] += add_rows(n, r, n->y + at, z + i * D, s, i);
        if (grad)
            add_output_gradient(n, r, z + i * D, grad + i * D, s, i);
    }
    if (grad)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, units, width, rows, 1.0, s->T, rows, X, width, 1.0, s->dW, width);
}

static void evaluate(const bnn *n, size_t b, const double *z, double *log_p, double *grad, scratch *s)
{
    size_t D = n->D, P = n->P, H = n->H;
    for (size_t i = 0; i < b; i++) {
        const double *w1 = z + i * D, *b1 = w1 + H * P;
        log_p[i] = wv_density_weights(n->binary ? D : D - 1, w1, n->prior_sd, grad ? grad + i * D : NULL);
        s->squares[i] = 0.0;
        for (size_t h = 0; h < H; h++) {
            double *W = s->W + (i * H + h) * (P + 1);
            memcpy(W, w1 + h * P, P * sizeof *W);
            W[P] = b1[h];
        }
    }
    memset(s->dW, 0, b * H * (P + 1) * sizeof *s->dW);
    for (size_t at = 0; at < n->rows; at += ROWS)
        evaluate_rows(n, at, n->rows - at < ROWS ? n->rows - at : ROWS, b, z, log_p, grad, s);
    for (size_t i = 0; i < b; i++) {
        double slope;
        if (!n->binary) {
            log_p[i] += wv_density_noise(n->rows, s->squares[i], z[i * D + D - 1], n->prior_sd, &slope);
            if (grad)
                grad[i * D + D - 1] = slope;
        }
        for (size_t h = 0; grad && h < H; h++) {
            const double *dW = s->dW + (i * H + h) * (P + 1);
            cblas_daxpy((int)P, 1.0, dW, 1, grad + i * D + h * P, 1);
            grad[i * D + H * P + h] += dW[P];
        }
    }
    wv_density_reject(b, D, log_p, grad);
}

static int log_density(void *self, size_t count, const double *z, double *log_p, double *grad)
{
    const bnn *n = self;
    size_t group = n->group, units = group * n->H, width = n->P + 1;
    double *work = malloc((units * (2 * width + ROWS) + group * ROWS) * sizeof *work);
    if (!work)
        return -1;
    scratch s = {.W = work, .dW = work + units * width, .T = work + 2 * units * width, .f = work + units * (2 * width + ROWS)};
    for (size_t i = 0; i < count; i += group)
        evaluate(n, count - i < group ? count - i : group, z + i * n->D, log_p + i, grad ? grad + i * n->D : NULL, &s);
    free(work);
    return 0;
}

static void close_bnn(void *self)
{
    bnn *n = self;
    free(n->X);
    free(n->y);
    free(n->text);
    free(n->names);
    free(n);
}

/* In the order of the coordinates, indices from 1. */
static void fill_names(bnn *n)
{
    size_t d = 0;
    for (size_t h = 1; h <= n->H; h++)
        for (size_t i = 1; i <= n->P; i++)
            snprintf(n->text[d++], NAME, "w1[%zu,%zu]", h, i);
    for (size_t h = 1; h <= n->H; h++)
        snprintf(n->text[d++], NAME, "b1[%zu]", h);
    for (size_t h = 1; h <= n->H; h++)
        snprintf(n->text[d++], NAME, "w2[%zu]", h);
    strcpy(n->text[d++], "b2");
    if (!n->binary)
        strcpy(n->text[d], "log_sigma");
    for (d = 0; d < n->D; d++)
        n->names[d] = n->text[d];
}

int wv_model_bnn(wvgd_model *model, const wv_regression *data, size_t hidden, bool binary)
{
    size_t rows = data->rows, P = data->columns, D;
    bnn *n;
    if (hidden == 0 || P > INT_MAX / 4 || hidden > INT_MAX / 4 / (P + 2) || !(n = malloc(sizeof *n)))
        return -1;
    D = hidden * (P + 2) + (binary ? 1 : 2);
    *n = (bnn){rows, P, hidden, D, binary, data->prior_sd, GROUP, calloc(rows + 1, (P + 1) * sizeof(double)), calloc(rows + 1, sizeof(double)),
               calloc(D, NAME), calloc(D, sizeof(char *))};
    if (!n->X || !n->y || !n->text || !n->names) {
        close_bnn(n);
        return -1;
    }
    while (n->group > 1 && n->group * hidden > UNITS)
        n->group /= 2;
    wv_design_fill(data, true, P + 1, n->X);
    if (rows)
        memcpy(n->y, data->y, rows * sizeof *n->y);
    fill_names(n);
    *model = (wvgd_model){.name = "bnn", .dim = D, .log_density = log_density, .self = n, .has_gradient = true, .thread_safe = true,
                          .names = n->names, .close = close_bnn};
    return 0;
}
