/* moments.h - posterior moments from weighted draws, sharpened by Stein's identities, with errors
 * as the draws were made. */
#ifndef WV_MOMENTS_H
#define WV_MOMENTS_H
#include "wvgd.h"

/* Mean, variance and standard error of every coordinate from the stored closing draws and their weights
 * f->closing.v, for f->posterior. The weights under which they are means, some of which may be negative, become the
 * calibrated weights of f->closing; where calibration is not safe these are f->closing.v. */
void wv_moments_estimate(wvgd_fit *f);

/* The same for m functions of the parameters, by their values at the stored draws: value[n][m]. */
void wv_moments_of(wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse);

/* Doubles behind f->shared.stein, which is no longer used. */
size_t wv_moments_work(size_t D);
#endif
