/* quantiles.h - posterior quantiles from weighted draws, with standard errors. */
#ifndef WV_QUANTILES_H
#define WV_QUANTILES_H
#include "moments.h"

/* Quantiles of m functions of the parameters, by their values at the draws, value[n][m], at the probabilities p[P], and
 * their standard errors: [m][P] each; NAN for a function that is not finite. */
void wv_quantiles(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, const double *value, size_t P,
                  const double *p, double *quantile, double *se);

/* The same where draws are independent, with normalised weights v[n]. */
void wv_quantiles_plain(size_t n, const double *v, size_t m, const double *value, size_t P, const double *p,
                        double *quantile, double *se, wv_arena *arena);
#endif
