/* gp_quadrature.h - the hyper-posterior of a Gaussian process on a grid, for pictures: its marginal in
 * (log f, log B), and the most probable log A and log s there.
 *
 * The model is that of models/gp.c. With R(f, s) = U diag(l) U' the log likelihood is
 * -1/2 sum_i ( log(A l_i + B) + (U'y)_i^2 / (A l_i + B) ) - n/2 log 2 pi: one eigendecomposition serves all A and
 * B. */
#ifndef WV_GP_QUADRATURE_H
#define WV_GP_QUADRATURE_H
#include "model_data.h"
#include "models.h"

enum { GP_PARAMETERS = 4 };

/* Equally spaced points from low to high. */
typedef struct {
    size_t n;
    double low, high;
} gp_axis;
double gp_axis_at(const gp_axis *axis, size_t i);
double gp_axis_step(const gp_axis *axis);

typedef struct {
    gp_axis axis[GP_PARAMETERS]; /* log A, log f, log s, log B */
    double *log_density;         /* [f][B] log of the integral over log A and log s of the joint density p(y, theta) */
    double *best;                /* [f][B][4] the most probable point with that f and B */
} gp_marginal;

/* 0, or -1: no memory, or an eigendecomposition has failed. free_gp_marginal frees. */
int make_gp_marginal(const series_data *series, const wv_gp_prior *prior, const gp_axis axis[GP_PARAMETERS],
                     gp_marginal *out);
void free_gp_marginal(gp_marginal *m); /* accepts an all-zero struct */

/* Log of the integral over everything. */
double gp_marginal_total(const gp_marginal *m);

/* The latent function given the hyperparameters theta[4]: its mean and sd at times[m]. 0, or -1: no memory, or a
 * covariance that is not positive definite. */
int predict_gp(const series_data *series, const double *theta, size_t m, const double *times, double *mean, double *sd);
#endif
