/* oracle1d.h - what a fit computes, in one dimension and by quadrature, for tests.
 *
 * In 1-D the cells of sorted particles are intervals with the midpoints as boundaries: every
 * quantity is an integral over an interval.
 * Target: p~(z) = sum_k weight_k N(z; mean_k, sd_k^2), whose log evidence is the log of the sum of
 * the weights; p = p~ / evidence.
 * Component: q(z) = N(z; mu, sd^2), in its cell q_j = q 1_j / Z_j. Integrals are accurate to about 1e-10 or better.
 * Out of memory, these functions abort. */
#ifndef ORACLE1D_H
#define ORACLE1D_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    size_t K;
    const double *weight, *mean, *sd; /* [K] */
} oracle1d_target;

double oracle1d_log_evidence(const oracle1d_target *target);
double oracle1d_log_p(const oracle1d_target *target, double z); /* log p~(z) */

/* An interval, either end of which may be infinite. */
typedef struct {
    double lo, hi;
} oracle1d_interval;

/* The cell of particle j of sorted z[N] under the squared cost. */
oracle1d_interval oracle1d_cell(size_t N, const double *z, size_t j);

/* The posterior in a cell: its mass, and the mean and variance of p_j = p 1_j / beta (NAN where beta is 0). */
typedef struct {
    double beta, mean, var;
} oracle1d_posterior;
oracle1d_posterior oracle1d_posterior_in(const oracle1d_target *target, oracle1d_interval cell);

/* D = E min_j (z_j - z)^2 */
double oracle1d_distortion(const oracle1d_target *target, size_t N, const double *z);

/* `steps` times: every z_j becomes the mean of its cell (Lloyd). */
void oracle1d_lloyd(const oracle1d_target *target, size_t N, double *z, size_t steps);

/* The best of resting places that Lloyd's steps reach from so many starts, in z, sorted. */
void oracle1d_quantizer(const oracle1d_target *target, size_t N, size_t starts, double *z);

/* A component in a cell. */
typedef struct {
    double log_Z;                /* log of the mass of q in the cell */
    double elbo;                 /* E_qj[log p~ - log q] + log_Z <= log(beta p(x)) */
    double kl;                   /* KL(q_j || p_j) = log(beta p(x)) - elbo */
    double grad_mu, grad_log_sd; /* of elbo, that is of -kl: Cov_qj(d log q / d theta, log p~ - log q) */
    double a0, a1, a2;           /* natural step target: argmin E_qj (log p~ - a0 - a1 z - a2 z^2)^2 */
    double mean, var;            /* of q_j */
} oracle1d_component;
oracle1d_component oracle1d_component_in(const oracle1d_target *target, oracle1d_interval cell, double mu, double sd);

/* The Gaussian that is best on the cell, by elbo. Where its precision would fall below 1e-5 of that of the posterior
 * there, or below zero, that is the limit, and mu and sd stand for it. */
typedef struct {
    double mu, sd, elbo;
    bool limit;
} oracle1d_best;
oracle1d_best oracle1d_best_in(const oracle1d_target *target, oracle1d_interval cell);

/* PELBO(w) = sum_j w_j (elbo_j - log w_j), with 0 log 0 = 0. */
double oracle1d_pelbo(size_t N, const double *elbo, const double *weight);

/* Fills weight[N] with softmax(elbo) and returns PELBO there: logsumexp(elbo). */
double oracle1d_best_weights(size_t N, const double *elbo, double *weight);

/* Integral of (sum_j weight_j q_j - p)^2; z (sorted), mu, sd, weight: [N]. */
double oracle1d_ise(const oracle1d_target *target, size_t N, const double *z, const double *mu, const double *sd,
                    const double *weight);

#endif
