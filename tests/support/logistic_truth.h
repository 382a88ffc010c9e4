/* logistic_truth.h - data and exact variational bounds for Bayesian logistic regression, for tests.
 *
 * Model: y_i of Bernoulli(sigmoid(x_i . w)), w of N(0, I). For w of N(mu, C) the predictor f_i = x_i . w is normal, so
 *     ELBO(mu, C) = sum_i ( y_i E f_i - E softplus(f_i) ) - KL( N(mu, C) || N(0, I) )
 * needs integrals over one normal variable only. They are accurate to about 1e-12 for any standard deviation of f. */
#ifndef LOGISTIC_TRUTH_H
#define LOGISTIC_TRUTH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    size_t n, D;
    double *X; /* [n][D] features, then a column of ones */
    double *y; /* [n] in {0, 1} */
} logistic_data;

enum { LOGISTIC_ALL_ROWS = -1 };

/* Reads data/<name>.csv (iris, boston, cancer, diabetes), keeps the rows of line `subset` of tests/data/subsets_<name>.csv (or all rows)
 * and, if asked, centres each feature over the rows kept and divides it by its sample sd (n - 1; constant columns become 0). */
bool logistic_data_read(logistic_data *data, const char *name, int subset, bool standardize);
void logistic_data_free(logistic_data *data);

/* E softplus(f), E sigmoid(f), E sigmoid'(f) for f of N(mean, sd^2). */
typedef struct {
    double softplus, sigmoid, slope;
} logistic_expectation;
logistic_expectation logistic_expect(double mean, double sd);

/* ELBO of N(mu, diag(sd^2)); mu, sd: [D]. */
double logistic_elbo_diag(const logistic_data *data, const double *mu, const double *sd);

/* ELBO of N(mu, L L'); chol: [D][D] lower L (the upper triangle is not read). */
double logistic_elbo_full(const logistic_data *data, const double *mu, const double *chol);

/* The best N(mu, L L'), by Newton steps; fills mu[D] and chol[D][D] and returns its ELBO, or NAN if it does not settle. */
double logistic_fullrank(const logistic_data *data, double *mu, double *chol);

/* A row of tests/data/logistic_truth.txt: subsets 0..9 of each data set, and LOGISTIC_ALL_ROWS where known (its bounds are NAN). */
typedef struct {
    size_t D;
    double log_evidence, log_evidence_se, elbo_fullrank, elbo_meanfield;
} logistic_truth;
bool logistic_truth_read(logistic_truth *truth, const char *name, int subset, bool standardize);

/* A vector of tests/data/logistic_moments.txt into value[D]. kind: meanfield_mean, meanfield_sd, fullrank_mean, fullrank_sd (optima of the
 * bound), posterior_mean, posterior_sd, posterior_mean_mcse (Monte Carlo). Without meanfield and fullrank for LOGISTIC_ALL_ROWS. */
bool logistic_moment_read(const char *name, int subset, bool standardize, const char *kind, size_t D, double *value);

#endif
