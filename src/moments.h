/* moments.h - posterior moments from weighted draws, sharpened by Stein's identities, with errors
 * as the draws were made. */
#ifndef WV_MOMENTS_H
#define WV_MOMENTS_H
#include "arena.h"
#include "draws.h"
#include "mixture.h"

/* Of the coordinates under the mixture, [D] each, where these are not those of its Gaussians: means, variances, and
 * standard errors of the latter. */
typedef struct {
    double *mean, *var, *var_se;
} wv_moments_known;

/* What they are estimated from. */
typedef struct {
    size_t D;
    const wv_draws *draws;         /* with strata, log_m and, in log_mix[0], the log density of the mixture */
    const double *v;               /* [n] their normalised posterior weights, */
    double pareto_k;               /* and k-hat of these */
    const wv_mixture *mix;         /* like the posterior */
    const wv_moments_known *known; /* of it, or NULL */
    size_t modes;                  /* of the posterior */
    const size_t *mode;            /* [K] that of each component; not used with fewer than two */
    wv_arena *arena;
} wv_moments_input;

/* A tilt of the weights: draw i, of pair i/2, gets v (1 - t) / kept. `valid` is false where none is safe. */
typedef struct {
    bool valid;
    size_t p;     /* statistics */
    double *Z;    /* [n/2][p] statistics of pairs less the means of their proposals, white */
    double *t;    /* [n/2] what the tilt takes from the weights of a pair */
    double *keep; /* [n/2] 1 / (1 - leverage) */
    double kept;  /* sum of the weights with the tilt */
} wv_moments_tilt;

/* What is known of functions, [m] each: means, variances, standard errors of the mean and of the sd, and tail
 * indices of the square (wv_weights_tail_indices). The last two may be NULL. */
typedef struct {
    double *mean, *var, *mcse, *sd_se, *tail_k;
} wv_moments;

/* The tilt of these draws: from the arena, which the caller releases. */
wv_moments_tilt wv_moments_find_tilt(const wv_moments_input *in);

/* Whether it is a small correction of all coordinates. */
bool wv_moments_tilts(const wv_moments_input *in, const wv_moments_tilt *tilt);

/* u[n] <- the density of the mixture over that of the draws. */
void wv_moments_ratio(const wv_moments_input *in, double *u);

/* Moments of every coordinate. Returns whether they are means under the tilt; where it is no small correction there is
 * none. */
bool wv_moments_estimate(const wv_moments_input *in, const wv_moments_tilt *tilt, wv_moments to);

/* Of m functions of the parameters, by their values at the draws: value[n][m]. */
void wv_moments_of(const wv_moments_input *in, const wv_moments_tilt *tilt, size_t m, const double *value,
                   wv_moments to);

/* Levels of functions. Where values are coordinates, `share` is the probability of their being at most `at` under the
 * mixture q: (q/m) (1[value <= at] - share) has mean 0, and `slope` times that is taken away as a control variate. */
typedef struct {
    size_t m, ld;                /* functions; rows of values are so far apart */
    const double *value;         /* [n][m] */
    const double *at;            /* [m] */
    const double *share, *slope; /* [m], or NULL */
} wv_moments_levels;

/* Standard errors [m] of the probabilities of being at most at the levels, with the tilt, if it is not NULL. */
void wv_moments_below(const wv_moments_input *in, const wv_moments_tilt *tilt, const wv_moments_levels *l, double *se);
#endif
