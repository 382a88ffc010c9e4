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

/* What is known of functions, [m] each: means, variances, standard errors of the mean and of the sd, and tail
 * indices of the square (wv_weights_tail_index). The last two may be NULL. */
typedef struct {
    double *mean, *var, *mcse, *sd_se, *tail_k;
} wv_moments;

/* Of every coordinate, and the weights [n] under which they are means, some of which may be negative; where calibration
 * is not safe these are v. */
void wv_moments_estimate(const wv_moments_input *in, wv_moments to, double *weight);

/* Of m functions of the parameters, by their values at the draws: value[n][m]. */
void wv_moments_of(const wv_moments_input *in, size_t m, const double *value, wv_moments to);

/* omega[n]: the factors that the tilt gives to the draws, whether they have weight or not; false: they are 1. */
bool wv_moments_tilt(const wv_moments_input *in, double *omega);

/* Levels of m <= D functions. Where values are coordinates, `share` is the probability of their being at most `at`
 * under the mixture q: (q/m) (1[value <= at] - share) has mean 0, and `slope` times that is taken away as a control
 * variate.
 */
typedef struct {
    size_t m, ld;                /* functions; their values are so far apart */
    const double *value;         /* [n][m] */
    const double *at;            /* [m] */
    const double *share, *slope; /* [m], or NULL */
} wv_moments_levels;

/* Probabilities [m] of being at most at the levels, and their standard errors, with that tilt or without. */
void wv_moments_below(const wv_moments_input *in, const wv_moments_levels *l, bool tilted, double *mean, double *se);
#endif
