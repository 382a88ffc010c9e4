/* logistic_bound.h - exact variational bounds of Bayesian logistic regression, for the experiment
 * logistic and for tests.
 *
 * Model: y_i of Bernoulli(sigmoid(x_i . w)), w of N(0, I). For w of N(mu, C) the predictor
 * f_i = x_i . w is normal, so
 *     ELBO(mu, C) = sum_i ( y_i E f_i - E softplus(f_i) ) - KL( N(mu, C) || N(0, I) )
 * needs integrals over one normal variable only. They are accurate to about 1e-12 for any standard deviation of f.
 * The bound is concave in (mu, sd) and in (mu, Cholesky factor): an optimum that is found is the only one. */
#ifndef WV_LOGISTIC_BOUND_H
#define WV_LOGISTIC_BOUND_H
#include <stddef.h>

typedef struct {
    size_t n, D;
    double *X; /* [n][D] features, then a column of ones */
    double *y; /* [n] in {0, 1} */
} logistic_data;

/* E softplus(f) and the expectations of its first four derivatives, for f of N(mean, sd^2). */
typedef struct {
    double softplus, sigmoid, slope, bend, twist;
} logistic_expectation;
logistic_expectation logistic_expect(double mean, double sd);

/* ELBO of N(mu, diag(sd^2)); mu, sd: [D]. */
double logistic_elbo_diag(const logistic_data *data, const double *mu, const double *sd);

/* ELBO of N(mu, L L'); chol: [D][D] lower L (the upper triangle is not read). */
double logistic_elbo_full(const logistic_data *data, const double *mu, const double *chol);

/* The best N(mu, diag(sd^2)), by Newton's method; fills mu[D] and sd[D] and returns its ELBO, or
 * NAN: no memory, or it does not settle. */
double logistic_meanfield(const logistic_data *data, double *mu, double *sd);

/* The best N(mu, L L'), by Newton steps; fills mu[D] and chol[D][D] and returns its ELBO, or NAN: likewise. */
double logistic_fullrank(const logistic_data *data, double *mu, double *chol);
#endif
