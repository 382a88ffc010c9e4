/* logistic_truth.h - data and true values for Bayesian logistic regression, for tests. Exact bounds of
 * Gaussians: logistic_bound.h of experiments/. */
#ifndef LOGISTIC_TRUTH_H
#define LOGISTIC_TRUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "logistic_bound.h"

enum { LOGISTIC_ALL_ROWS = -1 };

/* Reads data/<name>.csv (iris, boston, cancer, diabetes), keeps the rows of line `subset` of
 * tests/data/subsets_<name>.csv (or all rows) and, if asked, centres each feature over the rows kept and divides it
 * by its sample sd (n - 1; constant columns become 0). */
bool logistic_data_read(logistic_data *data, const char *name, int subset, bool standardize);
void logistic_data_free(logistic_data *data);

/* A row of tests/data/logistic_truth.txt: subsets 0..9 of each data set, and LOGISTIC_ALL_ROWS
 * where known (its bounds are NAN). */
typedef struct {
    size_t D;
    double log_evidence, log_evidence_se, elbo_fullrank, elbo_meanfield;
} logistic_truth;
bool logistic_truth_read(logistic_truth *truth, const char *name, int subset, bool standardize);

/* A vector of tests/data/logistic_moments.txt into value[D]. kind: meanfield_mean, meanfield_sd, fullrank_mean,
 * fullrank_sd (optima of the bound), posterior_mean, posterior_sd, posterior_mean_mcse (Monte Carlo). Without
 * meanfield and fullrank for LOGISTIC_ALL_ROWS. */
bool logistic_moment_read(const char *name, int subset, bool standardize, const char *kind, size_t D, double *value);

#endif
