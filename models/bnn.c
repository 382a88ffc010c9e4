/* bnn.c - Bayesian neural network with one hidden layer: f(x) = b2 + sum_h w2_h tanh(b1_h + w1_h . x),
 * all weights and biases N(0, prior_sd^2).
 * Outputs: y ~ Bernoulli(sigmoid(f)), or y ~ N(f, sigma^2) with sigma ~ half-Cauchy(prior_sd) as in linear.c.
 * Coordinates: w1 [H][P], b1 [H], w2 [H], b2 and, unless binary, log_sigma.
 * The units of a group of points are stacked, w1 and b1 as W [points H][P + 1], so that their sums over the
 * features, for a block of rows, are one product T = W X', X with a column of ones; so is the way back to the
 * gradient. Rows are padded with zeros to whole vectors; what is computed of these is not used. */
#include "density.h"
#include "regression_design.h"
#include "pass.h"
#include "scratch.h"
#include <cblas.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = WVGD_CHUNK, /* most points */
    UNITS = 512,        /* and units of a group, */
    NAME = 32           /* length of a name */
};
enum {
    SMALL = 1000000, /* multiplications of a product that is done without copying its operands */
    FEW = 48,        /* least */
    ROWS = 256       /* and most rows of a block */
};
enum {
    MOST = 1 << 23,  /* numbers that are kept of predictions made, */
    SLOTS = 1 << 16, /* and predictions: of second arguments, */
    FIRST = 1 << 10  /* and of first ones */
};
static const double RIGHT_ANGLE = 1.5707963267948966;

typedef struct {
    size_t rows, P, H, D;
    size_t padded; /* rows, up to a multiple of WV_PASS_WIDTH */
    bool binary;
    double prior_sd;
    size_t group; /* points that are evaluated together, a divisor of GROUP: group H <= UNITS or group = 1 */
    size_t block; /* rows that are: a multiple of WV_PASS_WIDTH */
    double *X;    /* [padded][P + 1] with a column of ones */
    double *y;    /* [padded], if binary 1 - 2 y */
    const wv_pass *pass;
    wv_scratch work;    /* pieces that hold a scratch */
    char (*text)[NAME]; /* [D] */
    const char **names; /* [D] into text */
} bnn;

/* Work for a group of b points and a block of r rows. */
typedef struct {
    double *W, *dW;        /* [b H][P + 1] first layer, and the gradient by it */
    double *T;             /* [b H][r] hidden units, then the gradient by their sums */
    double *f;             /* [b][r] outputs, then the gradient by them */
    double squares[GROUP]; /* of the residuals */
} scratch;

/* f[r]: b2 + sum_h w2_h T_h. */
static void fill_outputs(const bnn *n, size_t r, const double *z, const double *T, double *f)
{
    const double *w2 = z + n->H * (n->P + 1);
    for (size_t k = 0; k < r; k++)
        f[k] = w2[n->H];
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n->H, (int)r, 1.0, T, (int)r, w2, 1, 1.0, f, 1);
}

/* sum_k log Bernoulli of `real` rows, and f becomes the gradient by it: with s = (1 - 2 y) f that is
 * -log(1 + exp s), and -(1 - 2 y) sigmoid(s). */
static double add_labels(const bnn *n, size_t real, size_t r, const double *sign, double *f)
{
    double sum[WV_PASS_WIDTH] = {0}, total = 0.0;
    for (size_t k = 0; k < r; k++)
        f[k] = k < real ? sign[k] * f[k] : -1e300; /* past the end: log(1 + exp s) = 0 */
    n->pass->softplus(r / WV_PASS_WIDTH, WV_PASS_WIDTH, f, sum);
    for (size_t k = 0; k < r; k++)
        f[k] *= -sign[k];
    for (size_t k = 0; k < WV_PASS_WIDTH; k++)
        total += sum[k];
    return -total;
}

/* The sum of squares of `real` residuals; f becomes the residuals over sigma^2. */
static double add_residuals(size_t real, size_t r, const double *y, double log_sigma, double *f)
{
    double precision = exp(-2.0 * log_sigma), squares = 0.0;
    for (size_t k = 0; k < real; k++) {
        double e = y[k] - f[k];
        squares += e * e;
        f[k] = e * precision;
    }
    for (size_t k = real; k < r; k++)
        f[k] = 0.0;
    return squares;
}

/* Adds the gradient by w2 and b2, and leaves in T that by the sums. */
static void add_output_gradient(const bnn *n, size_t r, const double *z, double *grad, scratch *s, size_t i)
{
    double *T = s->T + i * n->H * r, *f = s->f + i * r;
    size_t at = n->H * (n->P + 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)n->H, (int)r, 1.0, T, (int)r, f, 1, 1.0, grad + at, 1);
    for (size_t k = 0; k < r; k++)
        grad[at + n->H] += f[k];
    n->pass->tanh_back(n->H, r, z + at, f, T);
}

/* The first layer of one point: w1 and b1 side by side, W [H][P + 1]; and the way back, added to the gradient. */
static void stack_units(const bnn *n, const double *z, double *W)
{
    const double *w1 = z, *b1 = w1 + n->H * n->P;
    for (size_t h = 0; h < n->H; h++, W += n->P + 1) {
        memcpy(W, w1 + h * n->P, n->P * sizeof *W);
        W[n->P] = b1[h];
    }
}

static void unstack_units(const bnn *n, const double *dW, double *grad)
{
    for (size_t h = 0; h < n->H; h++, dW += n->P + 1) {
        cblas_daxpy((int)n->P, 1.0, dW, 1, grad + h * n->P, 1);
        grad[n->H * n->P + h] += dW[n->P];
    }
}

/* T: hidden units of b stacked points for r rows. */
static void fill_units(const bnn *n, size_t at, size_t r, size_t b, scratch *s)
{
    int width = (int)(n->P + 1), rows = (int)r;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)(b * n->H), rows, width, 1.0, s->W, width,
                n->X + at * (n->P + 1), width, 0.0, s->T, rows);
    n->pass->tanh(b * n->H * r, s->T);
}

/* Adds the gradient by the first layer, from that by the sums in T. */
static void add_first_layer(const bnn *n, size_t at, size_t r, size_t b, scratch *s)
{
    int width = (int)(n->P + 1), rows = (int)r;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)(b * n->H), width, rows, 1.0, s->T, rows,
                n->X + at * (n->P + 1), width, 1.0, s->dW, width);
}

/* r rows from row `at`, of which those past the last are padding. */
static void evaluate_rows(const bnn *n, size_t at, size_t r, size_t b, const double *z, double *log_p, double *grad,
                          scratch *s)
{
    size_t D = n->D, real = n->rows - at < r ? n->rows - at : r;
    fill_units(n, at, r, b, s);
    for (size_t i = 0; i < b; i++) {
        double *f = s->f + i * r;
        fill_outputs(n, r, z + i * D, s->T + i * n->H * r, f);
        if (n->binary)
            log_p[i] += add_labels(n, real, r, n->y + at, f);
        else
            s->squares[i] += add_residuals(real, r, n->y + at, z[i * D + D - 1], f);
        if (grad)
            add_output_gradient(n, r, z + i * D, grad + i * D, s, i);
    }
    if (grad)
        add_first_layer(n, at, r, b, s);
}

static void evaluate(const bnn *n, size_t b, const double *z, double *log_p, double *grad, scratch *s)
{
    size_t D = n->D, P = n->P, H = n->H;
    for (size_t i = 0; i < b; i++) {
        log_p[i] = wv_density_weights(n->binary ? D : D - 1, z + i * D, n->prior_sd, grad ? grad + i * D : NULL);
        s->squares[i] = 0.0;
        stack_units(n, z + i * D, s->W + i * H * (P + 1));
    }
    memset(s->dW, 0, b * H * (P + 1) * sizeof *s->dW);
    for (size_t at = 0; at < n->padded; at += n->block)
        evaluate_rows(n, at, n->padded - at < n->block ? n->padded - at : n->block, b, z, log_p, grad, s);
    for (size_t i = 0; i < b; i++) {
        double slope;
        if (!n->binary) {
            log_p[i] += wv_density_noise(n->rows, s->squares[i], z[i * D + D - 1], n->prior_sd, &slope);
            if (grad)
                grad[i * D + D - 1] = slope;
        }
        if (grad)
            unstack_units(n, s->dW + i * H * (P + 1), grad + i * D);
    }
    wv_density_reject(b, D, log_p, grad);
}

/* Doubles of a scratch for b points; and a scratch in them. */
static size_t scratch_size(const bnn *n, size_t b)
{
    return b * n->H * (2 * (n->P + 1) + n->block) + b * n->block;
}

static void place_scratch(const bnn *n, size_t b, double *store, scratch *s)
{
    size_t units = b * n->H, width = n->P + 1;
    s->T = store; /* first, for it is aligned */
    s->f = s->T + units * n->block;
    s->W = s->f + b * n->block;
    s->dW = s->W + units * width;
}

static int log_density(void *self, size_t count, const double *z, double *log_p, double *grad)
{
    bnn *n = self;
    size_t group = n->group;
    double *piece = wv_scratch_take(&n->work);
    scratch s;
    if (!piece)
        return -1;
    place_scratch(n, group, piece, &s);
    for (size_t i = 0; i < count; i += group)
        evaluate(n, count - i < group ? count - i : group, z + i * n->D, log_p + i, grad ? grad + i * n->D : NULL, &s);
    wv_scratch_give(&n->work, piece);
    return 0;
}

/* A draw from the prior. */
static void start(void *self, const double *normal, double *z)
{
    const bnn *n = self;
    wv_density_start_weights(n->D, n->prior_sd, normal, z);
    if (!n->binary)
        z[n->D - 1] = wv_density_start_noise(n->prior_sd, normal[n->D - 1]);
}

static void close_bnn(void *self)
{
    bnn *n = self;
    wv_scratch_close(&n->work);
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
    size_t padded = wv_pass_width(rows);
    *n = (bnn){.rows = rows,
               .P = P,
               .H = hidden,
               .D = D,
               .padded = padded,
               .binary = binary,
               .prior_sd = data->prior_sd,
               .group = GROUP,
               .X = calloc(padded + 1, (P + 1) * sizeof(double)),
               .y = calloc(padded + 1, sizeof(double)),
               .pass = wv_pass_best(),
               .text = calloc(D, NAME),
               .names = calloc(D, sizeof(char *))};
    while (n->group > 1 && n->group * hidden > UNITS)
        n->group /= 2;
    n->block = SMALL / (P + 1) / (n->group * hidden) / WV_PASS_WIDTH * WV_PASS_WIDTH;
    n->block = n->block < FEW ? FEW : n->block > ROWS ? ROWS : n->block;
    wv_scratch_open(&n->work, scratch_size(n, n->group));
    if (!n->X || !n->y || !n->text || !n->names || wv_design_fill(data, true, P + 1, n->X)) {
        close_bnn(n);
        return -1;
    }
    for (size_t i = 0; i < rows; i++)
        n->y[i] = binary ? 1.0 - 2.0 * data->y[i] : data->y[i];
    fill_names(n);
    *model = (wvgd_model){.name = "bnn",
                          .dim = D,
                          .log_density = log_density,
                          .self = n,
                          .has_gradient = true,
                          .batched = true,
                          .thread_safe = true,
                          .names = n->names,
                          .close = close_bnn,
                          .start = start,
                          .start_self = n,
                          .work = (double)rows * (double)hidden * (4 * (double)P + 40)};
    return 0;
}

/* ---- the angle between the predictions of two points ------------------------------------------------------------- */
/* Predictions that were made are kept, those of first and of second arguments apart: particles are compared
 * with the same points again and again. */
typedef struct {
    size_t slots;
    double *z;    /* [slots][D] */
    double *f;    /* [slots][rows] predictions over their norm */
    double *norm; /* [slots]; negative: the slot is free */
    double *turn; /* [slots] the last group of points that has used it */
} memory;

struct wv_bnn_angle {
    const bnn *n;
    double turn; /* groups so far */
    memory side[2];
    scratch s;
    double *direction; /* [rows] gradient by the predictions */
    double store[];
};

static size_t find_slot(const memory *m, size_t D, const double *z)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a, by words */
    for (size_t d = 0; d < D; d++) {
        uint64_t word;
        memcpy(&word, z + d, sizeof word);
        h = (h ^ word) * 1099511628211u;
        h ^= h >> 29;
    }
    return (size_t)(h % m->slots);
}

/* Fills slots with the predictions at the points z_i that stand there, a group of them at most. */
static void fill_slots(wv_bnn_angle *c, const memory *m, size_t count, const size_t *slot)
{
    const bnn *n = c->n;
    for (size_t i = 0; i < count; i++)
        stack_units(n, m->z + slot[i] * n->D, c->s.W + i * n->H * (n->P + 1));
    for (size_t at = 0; count && at < n->rows; at += n->block) {
        size_t r = n->padded - at < n->block ? n->padded - at : n->block, real = n->rows - at < r ? n->rows - at : r;
        fill_units(n, at, r, count, &c->s);
        for (size_t i = 0; i < count; i++) {
            fill_outputs(n, r, m->z + slot[i] * n->D, c->s.T + i * n->H * r, c->s.f);
            memcpy(m->f + slot[i] * n->rows + at, c->s.f, real * sizeof *m->f);
        }
    }
    for (size_t i = 0; i < count; i++) {
        double *f = m->f + slot[i] * n->rows, norm = cblas_dnrm2((int)n->rows, f, 1);
        m->norm[slot[i]] = isfinite(norm) ? norm : INFINITY;
        for (size_t k = 0; k < n->rows && norm > 0; k++)
            f[k] /= norm;
    }
}

/* Slots of m with the predictions at the first of `count` points z; those that were not kept are made together.
 * Returns how many points these are: a group, or fewer where two ask for one slot. */
static size_t predict(wv_bnn_angle *c, memory *m, size_t count, const double *z, size_t *slot)
{
    size_t D = c->n->D, most = count < c->n->group ? count : c->n->group, missing = 0, some = 0, make[GROUP];
    c->turn++;
    for (; some < most; some++, z += D) {
        size_t k = slot[some] = find_slot(m, D, z);
        bool kept = m->norm[k] >= 0 && !memcmp(m->z + k * D, z, D * sizeof *z);
        if (!kept && m->turn[k] == c->turn)
            break;
        m->turn[k] = c->turn;
        if (kept)
            continue;
        memcpy(m->z + k * D, z, D * sizeof *z);
        m->norm[k] = 0; /* the same point may come again before it is filled */
        make[missing++] = k;
    }
    fill_slots(c, m, missing, make);
    return some;
}

/* The gradient by the weights z, from that by the predictions in c->direction. */
static void pull_back(wv_bnn_angle *c, const double *z, double *grad)
{
    const bnn *n = c->n;
    memset(c->s.dW, 0, n->H * (n->P + 1) * sizeof *c->s.dW);
    stack_units(n, z, c->s.W);
    for (size_t at = 0; at < n->rows; at += n->block) {
        size_t r = n->padded - at < n->block ? n->padded - at : n->block, real = n->rows - at < r ? n->rows - at : r;
        fill_units(n, at, r, 1, &c->s);
        memset(c->s.f, 0, r * sizeof *c->s.f);
        memcpy(c->s.f, c->direction + at, real * sizeof *c->s.f);
        add_output_gradient(n, r, z, grad, &c->s, 0);
        add_first_layer(n, at, r, 1, &c->s);
    }
    unstack_units(n, c->s.dW, grad);
}

/* The angle between unit vectors with this cosine, and its sine. Where they are nearly parallel the cosine does not
 * tell: there the angle is 2 atan2(|u - v|, |u + v|). */
static double angle_between(size_t rows, const double *u, const double *v, double cosine, double *sine)
{
    double apart = 0.0, together = 0.0;
    if (fabs(cosine) < 1 - 1e-6) {
        *sine = sqrt(1.0 - cosine * cosine);
        return acos(cosine);
    }
    for (size_t k = 0; k < rows; k++) {
        apart += (u[k] - v[k]) * (u[k] - v[k]);
        together += (u[k] + v[k]) * (u[k] + v[k]);
    }
    *sine = sqrt(apart) * sqrt(together) / 2;
    return 2.0 * atan2(sqrt(apart), sqrt(together));
}

/* With unit vectors u of a and v of b the gradient of their angle by u is (cosine u - v) / sine: sums of it over
 * points b need one way back through the network. */
void wv_bnn_angle_costs(void *self, size_t dim, const double *a, size_t count, const double *b, double *cost,
                        const double *weight, double *grad_a)
{
    wv_bnn_angle *c = self;
    size_t rows = c->n->rows, first, slot[GROUP], some;
    predict(c, &c->side[0], 1, a, &first);
    double norm = c->side[0].norm[first], along = 0.0, angle, sine;
    const double *u = c->side[0].f + first * rows;
    bool turns = false;
    memset(c->direction, 0, rows * sizeof *c->direction);
    for (size_t at = 0; at < count; at += some) {
        some = predict(c, &c->side[1], count - at, b + at * dim, slot);
        for (size_t i = 0; i < some; i++) {
            const double *v = c->side[1].f + slot[i] * rows, other = c->side[1].norm[slot[i]];
            sine = 0.0;
            if (!(norm >= DBL_MIN) || !(other >= DBL_MIN)) /* no direction: at right angles to all others */
                angle = norm >= DBL_MIN || other >= DBL_MIN ? RIGHT_ANGLE : 0.0;
            else if (!isfinite(norm) || !isfinite(other))
                angle = 2.0 * RIGHT_ANGLE;
            else {
                double cosine = cblas_ddot((int)rows, u, 1, v, 1);
                angle = angle_between(rows, u, v, cosine, &sine);
                if (grad_a && weight[at + i] != 0 && sine > 1e-12) {
                    /* else the same direction, up to rounding: a cusp, whose gradient is taken for 0 */
                    cblas_daxpy((int)rows, -weight[at + i] / sine, v, 1, c->direction, 1);
                    along += weight[at + i] * cosine / sine;
                    turns = true;
                }
            }
            if (cost)
                cost[at + i] = angle;
        }
    }
    if (!grad_a)
        return;
    memset(grad_a, 0, dim * sizeof *grad_a);
    if (turns) {
        cblas_daxpy((int)rows, along, u, 1, c->direction, 1);
        cblas_dscal((int)rows, 1.0 / norm, c->direction, 1);
        pull_back(c, a, grad_a);
    }
}

wv_bnn_angle *wv_bnn_angle_new(const wvgd_model *model)
{
    const bnn *n = model->self;
    size_t each = n->D + n->rows + 2, most = MOST / each < 1 ? 1 : MOST / each, work = scratch_size(n, n->group);
    size_t slots[2] = {most < FIRST ? most : FIRST, most < SLOTS ? most : SLOTS};
    wv_bnn_angle *c = malloc(sizeof *c + ((slots[0] + slots[1]) * each + work + n->rows) * sizeof(double));
    if (!c)
        return NULL;
    double *at = c->store;
    c->n = n;
    c->turn = 0;
    for (int side = 0; side < 2; at += slots[side++] * each) {
        double *norm = at + slots[side] * (n->D + n->rows);
        c->side[side] = (memory){slots[side], at, at + slots[side] * n->D, norm, norm + slots[side]};
        for (size_t k = 0; k < slots[side]; k++) {
            norm[k] = -1.0;
            norm[slots[side] + k] = 0.0;
        }
    }
    place_scratch(n, n->group, at, &c->s);
    c->direction = at + work;
    return c;
}

void wv_bnn_angle_free(wv_bnn_angle *angle)
{
    free(angle);
}
