/* posterior.h - what the closing draws say of the posterior. */
#ifndef WV_POSTERIOR_H
#define WV_POSTERIOR_H
#include "archive.h"
#include "arena.h"
#include "closing.h"
#include "moments.h"
#include "wvgd.h"

/* Moments of the posterior. */
typedef struct {
    double *mean, *var, *mcse; /* [D] means, variances, standard errors of the means, */
    double *sd_se, *tail_k;    /* [D] of the sds, and tail indices (wv_weights_tail_indices) */
    double *memory;
} wv_posterior;

bool wv_posterior_new(wv_posterior *p, size_t D);
void wv_posterior_free(wv_posterior *p);
void wv_posterior_archive(wv_posterior *p, wv_archive *a, size_t D);

/* log_w[n]: logs of weights for the posterior, up to a factor. */
void wv_posterior_log_weights(const wv_draws *d, double *log_w);

/* Masses of the cells, beta[N]: sums of the normalised weights. */
void wv_posterior_masses(const wv_closing *c, size_t N, double *beta);

/* Pareto-smoothed weights, which become those of the draws; returns k-hat. */
double wv_posterior_smooth(wv_closing *c, wv_arena *arena);

/* Standard errors of the masses, effective sizes and k-hats of the draws of each cell. */
typedef struct {
    double *beta_se, *ess, *pareto_k; /* [N] */
} wv_cell_diagnostics;
void wv_posterior_diagnose(const wv_closing *c, size_t N, const double *beta, wv_cell_diagnostics to, wv_arena *arena);

/* Moments of m functions by their values at the draws, value[n][m], under the calibrated weights, as if draws were
 * independent. */
void wv_posterior_moments(const wv_closing *c, size_t m, const double *value, wv_moments to, wv_arena *arena);

/* The same of the coordinates, which are the moments of the posterior. */
void wv_posterior_estimate(wv_posterior *p, const wv_closing *c, wv_arena *arena);

/* Without tail indices, which take most of the time. */
void wv_posterior_estimate_roughly(wv_posterior *p, const wv_closing *c, wv_arena *arena);

/* Root of the posterior's covariance from the weighted draws and their moments: sds times the
 * Cholesky factor of the correlations. */
void wv_posterior_root(const wv_posterior *p, const wv_closing *c, const wv_family *family, double *root,
                       wv_arena *arena);

/* The same of the draws about the mean of the mode that each belongs to, mode[n]. root: that of the posterior, which
 * stays as it is where a coordinate does not vary within modes. */
void wv_posterior_root_within(const wv_posterior *p, const wv_closing *c, size_t modes, const size_t *mode,
                              const wv_family *family, double *root, wv_arena *arena);

void wv_posterior_set_moments(wv_posterior *p, size_t D, const wv_moments *from);
void wv_posterior_get_moments(const wv_posterior *p, size_t D, const wv_moments *to);

void wv_posterior_copy(wv_posterior *to, const wv_posterior *from, size_t D);
#endif
