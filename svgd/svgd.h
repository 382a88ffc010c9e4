/* svgd.h - Stein variational gradient descent (Liu and Wang, 2016), the baseline: n particles of equal weight that
 * move along phi (kernel.h) with AdaGrad or Adam.
 *
 * It sees the target through wvgd_model.h alone. Nothing allocates in a step; the same start gives the same
 * bits on any number of threads of the model.
 *
 *     svgd_options o;  svgd_options_init(&o);
 *     svgd *s = svgd_new(&model, &o, z0);
 *     for (svgd_get(s, &v); !v.converged && v.iteration < 10000; svgd_get(s, &v))
 *         svgd_step(s);
 *     svgd_free(s); */
#ifndef SVGD_H
#define SVGD_H
#include "wvgd_model.h"

typedef enum { SVGD_ADAM, SVGD_ADAGRAD } svgd_optimiser;

typedef struct {
    size_t particles; /* n >= 1 */
    svgd_optimiser optimiser;
    double step;      /* > 0: how far, in units of the parameters, a coordinate may move in the first steps */
    double bandwidth; /* h of the kernel exp(-|a-b|^2/h); 0: median heuristic, in every step */
    double tol;       /* converged when the force is below: see svgd_view */
    double scale;     /* > 0: unit of length for the force on a single particle, which has no spread */
    /* Whether to stop: asked inside a step, which is then left undone. NULL: never */
    bool (*stop)(void *self);
    void *stop_self;
} svgd_options;

/* 100 particles, adagrad, step 0.5, median heuristic, tol 1e-4, scale 1 */
void svgd_options_init(svgd_options *options);

typedef struct svgd svgd;

/* z0: [n][D] where the particles start, copied. The model is copied; what it points to must outlive *s. NULL: no
 * memory, a model without gradient, or an option out of range. All memory of the steps is allocated here. */
svgd *svgd_new(const wvgd_model *model, const svgd_options *options, const double *z0);
void svgd_free(svgd *s); /* accepts NULL */

/* One evaluation of all particles and one step. 0, or what the model returned: it has failed. After a stop the
 * particles have their densities, but have not moved. */
int svgd_step(svgd *s);

/* Views into *s, valid until the next step. z is where the particles are now; the rest belongs to where they were
 * before the last step, but for `evaluate`. */
typedef struct {
    size_t n, D, iteration, evaluations;
    size_t bad_points;   /* particles without a finite density or gradient, summed over steps: they
                          * only feel the others */
    const double *z;     /* [n][D] */
    const double *log_p; /* [n] */
    const double *grad;  /* [n][D] */
    const double *phi;   /* [n][D] */
    double bandwidth;    /* h */
    double mean_log_p;   /* over particles where it is finite */
    double force;        /* greatest over coordinates of rms phi times the sd of the particles there: nats that
                          * moving on by one sd would gain at most */
    double model_seconds;
    bool converged; /* force <= tol in 10 steps on end */
    bool stopped;   /* the last step was left undone: log_p belongs to z, the rest to the step before */
} svgd_view;
void svgd_get(const svgd *s, svgd_view *view);

/* log_p of the particles where they are now, without a step. 0, or what the model returned. */
int svgd_evaluate(svgd *s);
#endif
