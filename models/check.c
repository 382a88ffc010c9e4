/* check.c - a model that passes batches through, counts and times them, and on the first batch with a gradient
 * compares it with differences. With c(h) = (log p(z + h e_d) - log p(z - h e_d)) / (2 h), the derivative is taken
 * as d = (4 c(h/2) - c(h)) / 3, and its own uncertainty as |c(h/2) - c(h)| + 16 epsilon max(1, |log p|) / h:
 * curvature within the step, and rounding. Only what the gradient is off beyond that counts. */
#include "models.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STENCIL = 4,                       /* points a coordinate, */
    COORDINATES = WVGD_CHUNK / STENCIL /* coordinates a batch */
};
static const double STEP = 1e-5, OFFSET[STENCIL] = {-1.0, -0.5, 0.5, 1.0};

typedef struct {
    wvgd_model inner;
    size_t points; /* to be compared */
    wv_check result;
    double *z; /* [WVGD_CHUNK][dim] */
} check;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes note of coordinate d, whose gradient is g, of a point with log density log_p; around:
 * [STENCIL] log densities. */
static void compare(wv_check *result, size_t d, double g, double log_p, double step, const double *around)
{
    double wide = (around[3] - around[0]) / (2.0 * step), narrow = (around[2] - around[1]) / step;
    double difference = (4.0 * narrow - wide) / 3.0;
    double uncertainty = fabs(narrow - wide) + 16.0 * DBL_EPSILON * fmax(1.0, fabs(log_p)) / step;
    if (!isfinite(difference))
        return; /* at the edge of the support */
    double beyond = fabs(g - difference) - uncertainty,
           error = beyond > 0.0 ? beyond / fmax(fabs(g), fabs(difference)) : 0.0;
    if (isnan(beyond) || isinf(beyond))
        error = INFINITY;
    if (result->compared++ == 0 || error > result->error) {
        result->error = error;
        result->coordinate = d;
        result->gradient = g;
        result->difference = difference;
    }
}

/* Compares grad [dim] at z [dim]. */
static int compare_point(check *c, const double *z, double log_p, const double *grad)
{
    size_t D = c->inner.dim;
    double around[COORDINATES * STENCIL];
    for (size_t at = 0; at < D; at += COORDINATES) {
        size_t count = D - at < COORDINATES ? D - at : COORDINATES;
        for (size_t k = 0; k < count * STENCIL; k++) {
            size_t d = at + k / STENCIL;
            memcpy(c->z + k * D, z, D * sizeof *z);
            c->z[k * D + d] += OFFSET[k % STENCIL] * STEP * fmax(1.0, fabs(z[d]));
        }
        int failure = c->inner.log_density(c->inner.self, count * STENCIL, c->z, around, NULL);
        if (failure)
            return failure;
        for (size_t k = 0; k < count; k++)
            compare(&c->result, at + k, grad[at + k], log_p, STEP * fmax(1.0, fabs(z[at + k])), around + k * STENCIL);
    }
    return 0;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    check *c = self;
    size_t D = c->inner.dim;
    double start = now();
    int failure = c->inner.log_density(c->inner.self, n, z, log_p, grad);
    c->result.seconds += now() - start;
    c->result.batches++;
    c->result.evaluations += n;
    for (size_t i = 0; grad && i < n && c->points && !failure; i++)
        if (isfinite(log_p[i])) {
            failure = compare_point(c, z + i * D, log_p[i], grad + i * D);
            c->points--;
        }
    if (grad)
        c->points = 0;
    return failure;
}

static void close_check(void *self)
{
    check *c = self;
    free(c->z);
    free(c);
}

int wv_model_check(wvgd_model *model, const wvgd_model *inner, size_t points)
{
    check *c = malloc(sizeof *c);
    if (!c)
        return -1;
    *c = (check){.inner = *inner, .points = points, .z = calloc(inner->dim, WVGD_CHUNK * sizeof(double))};
    if (!c->z) {
        free(c);
        return -1;
    }
    *model = *inner;
    model->log_density = log_density;
    model->self = c;
    model->thread_safe = false;
    model->close = close_check;
    return 0;
}

wv_check wv_model_checked(const wvgd_model *model)
{
    return ((const check *)model->self)->result;
}
