/* moments.h - posterior moments from weighted draws, sharpened by Stein's identities, with errors
 * as the draws were made. */
#ifndef WV_MOMENTS_H
#define WV_MOMENTS_H
#include "arena.h"
#include "draws.h"
#include "mixture.h"

/* What they are estimated from. */
typedef struct {
    size_t D;
    const wv_draws *draws; /* with gradients, strata, log_m and, in log_mix[0], the log density of the mixture */
    const double *v;       /* [n] their normalised posterior weights, */
    double pareto_k;       /* and k-hat of these */
    const wv_mixture *mix; /* like the posterior */
    size_t modes;          /* of the posterior */
    const size_t *mode;    /* [K] that of each component; not used with fewer than two */
    wv_arena *arena;
} wv_moments_input;

/* Mean, variance and standard error of every coordinate, [D] each, and the weights [n] under which they are means, some
 * of which may be negative; where calibration is not safe these are v. */
void wv_moments_estimate(const wv_moments_input *in, double *mean, double *var, double *mcse, double *weight);

/* The same for m functions of the parameters, by their values at the draws: value[n][m]. */
void wv_moments_of(const wv_moments_input *in, size_t m, const double *value, double *mean, double *var, double *mcse);
#endif
