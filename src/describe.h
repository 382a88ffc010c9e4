/* describe.h - what the closing draws of a fit say of the posterior and of its cells. */
#ifndef WV_DESCRIBE_H
#define WV_DESCRIBE_H
#include "moments.h"
#include "wvgd.h"

/* Normalised posterior weights of the closing draws; false when all are zero. */
bool wv_describe_weights(wvgd_fit *f);

/* Are the weights of the closing draws so uneven that means, variances and the weights that users see stand for what
 * was fitted instead: with the joint solver for the ensemble, with the staged one, if a limit has ended it, for the
 * mixture? */
bool wv_describe_uncorrected(const wvgd_fit *f);

/* Of a staged fit: moments of the posterior and calibrated weights. */
void wv_describe_moments(wvgd_fit *f);

/* Of m functions of the parameters by their values at the closing draws, value[n][m], with either solver: moments
 * (sd_se and tail_k may be NULL); quantiles at p[P] and their standard errors, [m][P] each. */
void wv_describe_functions(wvgd_fit *f, size_t m, const double *value, wv_moments to, size_t P, const double *p,
                           double *quantile, double *se);

/* Masses, k-hats and distortion from the closing draws, their weights and cells. */
void wv_describe_cells(wvgd_fit *f);
#endif
