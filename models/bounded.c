/* bounded.c - a model whose parameters have limits, in coordinates that have none. With s = 1 / (1 + exp(-z)):
 *     lower and upper   theta = lower + (upper - lower) s     log dtheta/dz = log(upper - lower) + log s + log(1 - s)
 *     lower             theta = lower + exp(z)                                z
 *     upper             theta = upper - exp(-z)                              -z
 *     neither           theta = z                                             0
 * All rise with z. The log density of z is that of theta, plus the sum of these. */
#include "wvgd_model.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    wvgd_model inner;
    double limit[]; /* [2][dim] lower and upper ones */
} bounded;

/* theta, and at it: */
typedef struct {
    double theta, slope;          /* dtheta/dz */
    double log_slope, log_change; /* log of it, and the derivative of that */
} place;

static double log_sigmoid(double z)
{
    return z > 0 ? -log1p(exp(-z)) : z - log1p(exp(z));
}

static place place_of(double lower, double upper, double z)
{
    bool below = lower > -INFINITY, above = upper < INFINITY;
    if (below && above) {
        double wide = upper - lower, s = exp(log_sigmoid(z)), rest = exp(log_sigmoid(-z)),
               theta = z < 0 ? lower + wide * s : upper - wide * rest;
        return (place){theta, wide * s * rest, log(wide) + log_sigmoid(z) + log_sigmoid(-z), rest - s};
    }
    if (below)
        return (place){lower + exp(z), exp(z), z, 1};
    if (above)
        return (place){upper - exp(-z), exp(-z), -z, -1};
    return (place){z, 1, 0, 0};
}

/* The z of a theta inside its limits. */
static double coordinate_of(double lower, double upper, double theta)
{
    bool below = lower > -INFINITY, above = upper < INFINITY;
    if (below && above)
        return log(theta - lower) - log(upper - theta);
    if (below)
        return log(theta - lower);
    return above ? -log(upper - theta) : theta;
}

static place coordinate_place(const bounded *b, size_t i, double z)
{
    return place_of(b->limit[i], b->limit[b->inner.dim + i], z);
}

/* What the coordinates add to answers at theta; a gradient in theta becomes one in z. */
static void pull_back(const bounded *b, size_t n, const double *z, double *log_p, double *grad)
{
    size_t dim = b->inner.dim;
    for (size_t k = 0; k < n * dim; k++) {
        place p = coordinate_place(b, k % dim, z[k]);
        log_p[k / dim] += p.log_slope;
        if (grad)
            grad[k] = grad[k] * p.slope + p.log_change;
    }
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const bounded *b = self;
    size_t dim = b->inner.dim;
    double *theta = n <= SIZE_MAX / sizeof *theta / dim ? malloc(n * dim * sizeof *theta) : NULL;
    if (!theta)
        return -1;
    for (size_t k = 0; k < n * dim; k++)
        theta[k] = coordinate_place(b, k % dim, z[k]).theta;
    int failure = b->inner.log_density(b->inner.self, n, theta, log_p, grad);
    free(theta);
    if (!failure)
        pull_back(b, n, z, log_p, grad);
    return failure;
}

static void start(void *self, const double *normal, double *z)
{
    const bounded *b = self;
    b->inner.start(b->inner.start_self, normal, z);
    for (size_t i = 0; i < b->inner.dim; i++)
        z[i] = coordinate_of(b->limit[i], b->limit[b->inner.dim + i], z[i]);
}

static bool is_possible(const wvgd_model *inner, const double *lower, const double *upper)
{
    if (!inner || !inner->log_density || !inner->dim || inner->dim > SIZE_MAX / 4 / sizeof(double))
        return false;
    for (size_t i = 0; i < inner->dim; i++)
        if ((lower && (isnan(lower[i]) || lower[i] == INFINITY)) ||
            (upper && (isnan(upper[i]) || upper[i] == -INFINITY)) ||
            (lower && upper &&
             !(lower[i] < upper[i] && (!isfinite(lower[i]) || isinf(upper[i]) || isfinite(upper[i] - lower[i])))))
            return false;
    return true;
}

int wvgd_model_bounded(wvgd_model *model, const wvgd_model *inner, const double *lower, const double *upper)
{
    bounded *b = model && is_possible(inner, lower, upper) ? malloc(sizeof *b + 2 * inner->dim * sizeof(double)) : NULL;
    if (!b)
        return -1;
    b->inner = *inner;
    for (size_t i = 0; i < inner->dim; i++) {
        b->limit[i] = lower ? lower[i] : -INFINITY;
        b->limit[inner->dim + i] = upper ? upper[i] : INFINITY;
    }
    *model = *inner;
    model->log_density = log_density;
    model->self = b;
    model->close = free;
    model->start = inner->start ? start : NULL;
    model->start_self = b;
    return 0;
}

int wvgd_model_parameters(const wvgd_model *model, size_t n, const double *z, double *theta)
{
    if (!model || model->log_density != log_density || !z || !theta)
        return -1;
    const bounded *b = model->self;
    for (size_t k = 0; k < n * b->inner.dim; k++)
        theta[k] = coordinate_place(b, k % b->inner.dim, z[k]).theta;
    return 0;
}
