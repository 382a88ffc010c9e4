/* close.h - the closing pass: fresh draws after the last iteration, so that all results describe one partition. */
#ifndef WV_CLOSE_H
#define WV_CLOSE_H
#include "fit.h"

/* Enters the first closing stage, the trial. */
void wv_close_begin(wvgd_fit *f);

/* One chunk of closing draws, of the trial or the final stage. */
wvgd_status wv_close_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_close_tell(wvgd_fit *f, wvgd_error *error);

/* Normalised posterior weights of the stored draws; false when all are zero. */
bool wv_close_weights(wvgd_fit *f);

/* Means, variances and standard errors of m functions by their values at the stored draws,
 * value[n][m], as if draws were independent. */
void wv_close_moments(const wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse);

/* Root of the posterior's covariance from the weighted draws and f->mean, f->var: sds times the
 * Cholesky factor of the correlations. */
void wv_close_posterior_root(wvgd_fit *f, const wv_family *family, double *root);

/* Masses, k-hats, distortion from the stored draws, their weights and cells. */
void wv_close_describe(wvgd_fit *f);
/* Are the weights of the closing draws of a joint fit that has ended so uneven that means, variances and the weights
 * that users see stand for the ensemble instead? */
bool wv_close_uncorrected(const wvgd_fit *f);
#endif
