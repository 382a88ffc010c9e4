/* moments.h - posterior moments from weighted draws, sharpened by Stein's identities, with errors
 * as the draws were made. */
#ifndef WV_MOMENTS_H
#define WV_MOMENTS_H
#include "wvgd.h"

/* Mean, variance and standard error of every coordinate from the stored closing draws and their weights f->close_v,
 * into f->mean, f->var and f->mcse. Fills f->close_cal with calibrated weights (some may be negative), or with a
 * copy of f->close_v where calibration is not safe. */
void wv_moments_estimate(wvgd_fit *f);

/* The same for m functions of the parameters, by their values at the stored draws: value[n][m]. */
void wv_moments_of(wvgd_fit *f, size_t m, const double *value, double *mean, double *var, double *mcse);

/* Doubles behind f->stein. */
size_t wv_moments_work(size_t D);
#endif
