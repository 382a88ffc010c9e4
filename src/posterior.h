/* posterior.h - what the closing draws say of the posterior. */
#ifndef WV_POSTERIOR_H
#define WV_POSTERIOR_H
#include "archive.h"
#include "batch.h"
#include "wvgd.h"

/* Moments of the posterior. */
typedef struct {
    double *mean, *var, *mcse; /* [D] means, variances, standard errors of the means */
    double *memory;
} wv_posterior;

bool wv_posterior_new(wv_posterior *p, size_t D);
void wv_posterior_free(wv_posterior *p);
void wv_posterior_archive(wv_posterior *p, wv_archive *a, size_t D);

/* Normalised posterior weights of the stored draws; false when all are zero. */
bool wv_posterior_weights(wvgd_fit *f);

/* Masses of the cells, beta[N]: sums of these weights. */
void wv_posterior_masses(const wvgd_fit *f, double *beta);

/* Means, variances and standard errors of m functions by their values at the stored draws,
 * value[n][m], as if draws were independent. */
void wv_posterior_moments(const wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse);

/* The same of the coordinates, which are the moments of the posterior. */
void wv_posterior_estimate(wvgd_fit *f);

/* Root of the posterior's covariance from the weighted draws and their moments: sds times the
 * Cholesky factor of the correlations. */
void wv_posterior_root(wvgd_fit *f, const wv_family *family, double *root);

/* Masses, k-hats, distortion from the stored draws, their weights and cells. */
void wv_posterior_describe(wvgd_fit *f);

/* Are the weights of the closing draws of a joint fit that has ended so uneven that means, variances and the weights
 * that users see stand for the ensemble instead? */
bool wv_posterior_uncorrected(const wvgd_fit *f);

/* Means, variances and standard errors of the means, [D] each. */
void wv_posterior_set_moments(wv_posterior *p, size_t D, const double *mean, const double *var, const double *mcse);

void wv_posterior_copy(wv_posterior *to, const wv_posterior *from, size_t D);
#endif
