/* weight.h - importance weights, always in log space. */
#ifndef WV_WEIGHT_H
#define WV_WEIGHT_H
#include "fit.h"

/* log sum exp; -INFINITY for an empty or all-zero set. */
double wv_weight_lse(size_t n, const double *log_w);

/* The largest of w[n]; -INFINITY for an empty set. NaN counts as nothing. */
double wv_weight_largest(size_t n, const double *w);

/* x[i] = exp(x[i]), x[i] < 700; NaN gives 0. */
void wv_weight_exp(size_t n, double *x);

/* w[i] = exp(log_w[i]) normalised to sum 1. False (and w all zero) when no weight is positive. */
bool wv_weight_normalise(size_t n, const double *log_w, double *w);

/* out[k] <- log(exp out[k] + exp(log_w + log_q[k])). */
void wv_weight_add_log(size_t n, double *out, double log_w, const double *log_q);

/* Effective sample size (sum w)^2 / sum w^2. */
double wv_weight_ess(size_t n, const double *w);

/* Densities of the points of a batch under the proposals that made it: fills log_m, log_q (needs b->cell), log_mix
 * for the two sets of weights w[2][N] (either may be NULL), and adds to sum_u. */
void wv_weight_mixture(wvgd_fit *f, wv_batch *b, const double *const w[2]);

/* The same where the proposals are not the components (group.h): points are listed by cell, and only the component
 * of a point's own cell is evaluated, so sum_u is its expectation, the number of points, and log_mix, which tells of
 * its noise, is -INFINITY. First what the proposals have in common for all points, then points from `first` on,
 * whose cells are known, by whoever has them at hand, and then the rest, when all are listed by cell. */
typedef struct {
    size_t at_once;    /* points whose densities are held at once */
    const double *own; /* scales of diagonal components, or NULL */
} wv_weight_plan;
wv_weight_plan wv_weight_begin(wvgd_fit *f);
void wv_weight_some(wvgd_fit *f, wv_batch *b, const wv_weight_plan *plan, size_t first, size_t n);
void wv_weight_end(wvgd_fit *f, wv_batch *b, const wv_weight_plan *plan);

/* Pareto k-hat of the weights (Zhang and Stephens's estimate with the usual weak prior). NAN: too few distinct
 * weights in the tail. When smoothed is not NULL it gets the Pareto-smoothed log weights. order: [n] scratch. */
double wv_weight_pareto_k(size_t n, const double *log_w, double *smoothed, uint32_t *order);
#endif
