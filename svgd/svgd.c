/* svgd.c - the loop of SVGD: evaluate, direction, step.
 *     adagrad   s += phi^2;                                 z += step phi / (sqrt(s) + tiny)
 *     adam      m = .9 m + .1 phi, v = .99 v + .01 phi^2;   z += step_t m^ / (sqrt(v^) + tiny)
 * where ^ is the usual correction for the start. Directions have no noise, so what keeps Adam from settling is its
 * constant step alone: step_t = step / sqrt(1 + t/100). AdaGrad's shrinks by itself. */
#include "svgd.h"
#include "kernel.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUIET_STEPS = 10 }; /* with a force below tol before a run counts as converged */

struct svgd {
    wvgd_model model;
    svgd_options o;
    svgd_kernel *kernel;
    size_t n, D, iteration, evaluations, bad_points, quiet;
    double *z, *grad, *phi; /* [n][D] */
    double *first, *second; /* [n][D] moments of phi */
    double *log_p;          /* [n] */
    double *column;         /* [3][D] sums over particles */
    double bandwidth, mean_log_p, force, model_seconds;
    bool stopped; /* inside the last step */
};

void svgd_options_init(svgd_options *options)
{
    *options = (svgd_options){100, SVGD_ADAGRAD, 0.5, 0, 1e-4, 1, NULL, NULL};
}

static double *numbers(size_t rows, size_t columns)
{
    return columns && rows > PTRDIFF_MAX / sizeof(double) / columns ? NULL : calloc(rows * columns, sizeof(double));
}

static bool in_range(const wvgd_model *m, const svgd_options *o)
{
    return m->log_density && m->has_gradient && m->dim && o->particles && o->step > 0 && o->bandwidth >= 0 &&
           o->tol >= 0 && o->scale > 0;
}

svgd *svgd_new(const wvgd_model *model, const svgd_options *options, const double *z0)
{
    svgd *s = in_range(model, options) ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    size_t n = options->particles, D = model->dim;
    *s = (svgd){.model = *model,
                .o = *options,
                .kernel = svgd_kernel_new(n, D, options->stop, options->stop_self),
                .n = n,
                .D = D,
                .z = numbers(n, D),
                .grad = numbers(n, D),
                .phi = numbers(n, D),
                .first = numbers(n, D),
                .second = numbers(n, D),
                .log_p = numbers(n, 1),
                .column = numbers(3, D),
                .bandwidth = options->bandwidth,
                .mean_log_p = NAN,
                .force = INFINITY};
    if (!s->kernel || !s->z || !s->grad || !s->phi || !s->first || !s->second || !s->log_p || !s->column) {
        svgd_free(s);
        return NULL;
    }
    memcpy(s->z, z0, n * D * sizeof *s->z);
    return s;
}

void svgd_free(svgd *s)
{
    if (!s)
        return;
    svgd_kernel_free(s->kernel);
    free(s->z);
    free(s->grad);
    free(s->phi);
    free(s->first);
    free(s->second);
    free(s->log_p);
    free(s->column);
    free(s);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */
static double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A particle whose density or gradient is no number gets no gradient: only the others move it. */
static void count_bad(svgd *s)
{
    size_t D = s->D, good = 0;
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        double *g = s->grad + i * D;
        double zero = 0 * s->log_p[i];
        for (size_t d = 0; d < D; d++)
            zero += 0 * g[d]; /* NaN if any is not finite */
        bool bad = zero != 0;
        if (bad)
            memset(g, 0, D * sizeof *g);
        else
            sum += s->log_p[i];
        good += !bad;
    }
    s->bad_points += s->n - good;
    s->mean_log_p = good ? sum / (double)good : NAN;
}

int svgd_evaluate(svgd *s)
{
    double begun = clock_seconds();
    int failed = s->model.log_density(s->model.self, s->n, s->z, s->log_p, s->grad);
    s->model_seconds += clock_seconds() - begun;
    if (failed)
        return failed;
    s->evaluations += s->n;
    count_bad(s);
    return 0;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static const double tiny = 1e-12; /* beside the size of phi */

static void step_adagrad(svgd *s)
{
    for (size_t i = 0; i < s->n * s->D; i++) {
        s->second[i] += s->phi[i] * s->phi[i];
        s->z[i] += s->o.step * s->phi[i] / (sqrt(s->second[i]) + tiny);
    }
}

static void step_adam(svgd *s)
{
    double t = (double)s->iteration, step = s->o.step / sqrt(1 + t / 100), early1 = 1 - pow(0.9, t),
           early2 = 1 - pow(0.99, t);
    for (size_t i = 0; i < s->n * s->D; i++) {
        double phi = s->phi[i], m = 0.9 * s->first[i] + 0.1 * phi, v = 0.99 * s->second[i] + 0.01 * phi * phi;
        s->first[i] = m;
        s->second[i] = v;
        s->z[i] += step * (m / early1) / (sqrt(v / early2) + tiny);
    }
}

static void (*const steps[])(svgd *) = {[SVGD_ADAM] = step_adam, [SVGD_ADAGRAD] = step_adagrad};

/* Greatest over coordinates of rms phi times the sd of the particles. */
static double measure_force(svgd *s)
{
    size_t n = s->n, D = s->D;
    double *mean = s->column, *square = mean + D, *force = square + D, greatest = 0;
    memset(s->column, 0, 3 * D * sizeof *s->column);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < D; d++) {
            double phi = s->phi[i * D + d];
            mean[d] += s->z[i * D + d];
            force[d] += phi * phi;
        }
    for (size_t d = 0; d < D; d++)
        mean[d] /= (double)n;
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < D; d++) {
            double c = s->z[i * D + d] - mean[d];
            square[d] += c * c;
        }
    for (size_t d = 0; d < D; d++) {
        double here = sqrt(force[d] / (double)n) * (n > 1 ? sqrt(square[d] / (double)n) : s->o.scale);
        greatest = here > greatest || here != here ? here : greatest;
    }
    return greatest;
}

/* False: somebody wants to stop, and nothing has changed. */
static bool find_direction(svgd *s)
{
    if (!svgd_kernel_distances(s->kernel, s->z))
        return false;
    double h = s->o.bandwidth > 0 ? s->o.bandwidth : svgd_kernel_median(s->kernel);
    if (!svgd_kernel_direction(s->kernel, s->grad, h, s->phi))
        return false;
    s->bandwidth = h;
    return true;
}

int svgd_step(svgd *s)
{
    int failed = svgd_evaluate(s);
    if (failed)
        return failed;
    s->stopped = !find_direction(s);
    if (s->stopped)
        return 0;
    s->force = measure_force(s);
    s->quiet = s->force <= s->o.tol ? s->quiet + 1 : 0;
    s->iteration++;
    steps[s->o.optimiser](s);
    return 0;
}

void svgd_get(const svgd *s, svgd_view *v)
{
    *v = (svgd_view){s->n,
                     s->D,
                     s->iteration,
                     s->evaluations,
                     s->bad_points,
                     s->z,
                     s->log_p,
                     s->grad,
                     s->phi,
                     s->bandwidth,
                     s->mean_log_p,
                     s->force,
                     s->model_seconds,
                     s->quiet >= QUIET_STEPS,
                     s->stopped};
}
