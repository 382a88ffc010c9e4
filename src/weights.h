/* weights.h - importance weights, always in log space. */
#ifndef WV_WEIGHTS_H
#define WV_WEIGHTS_H
#include "arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* log sum exp; -INFINITY for an empty or all-zero set. */
double wv_weights_lse(size_t n, const double *log_w);

/* The largest of w[n]; -INFINITY for an empty set. NaN counts as nothing. */
double wv_weights_largest(size_t n, const double *w);

/* x[i] = exp(x[i]), x[i] < 700; NaN gives 0. */
void wv_weights_exp(size_t n, double *x);

/* w[i] = exp(log_w[i]) normalised to sum 1. False (and w all zero) when no weight is positive. */
bool wv_weights_normalise(size_t n, const double *log_w, double *w);

/* out[k] <- log(exp out[k] + exp(log_w + log_q[k])). */
void wv_weights_add_log(size_t n, double *out, double log_w, const double *log_q);

/* Effective sample size (sum w)^2 / sum w^2. */
double wv_weights_ess(size_t n, const double *w);

/* order[n]: numbers of the values w[n], the smallest first. */
void wv_weights_order(size_t n, const double *w, uint32_t *order, wv_arena *arena);

/* Indices, in order, of the `most` largest of r[n], none of which is negative and the largest is `top`, and of some
 * that are nearly as large; returns how many. */
size_t wv_weights_find_large(size_t n, const double *r, double top, size_t most, uint32_t *large);

/* Value number k of n, the smallest being number 0; 0 where there are not so many. */
double wv_weights_smallest(size_t n, const double *w, size_t k, wv_arena *arena);

/* Draws in the tail that k-hat of n weights looks at: a fifth of few, 3 sqrt(n) of many. */
double wv_weights_tail(double n);

/* Pareto k-hat of the weights (Zhang and Stephens's estimate with the usual weak prior). NAN: too few distinct
 * weights in the tail. When smoothed is not NULL it gets the Pareto-smoothed log weights. */
double wv_weights_pareto_k(size_t n, const double *log_w, double *smoothed, wv_arena *arena);

/* tail_k[m]: is the tail of a function too heavy for its sd? Values [n][m], rows `ld` apart, at draws with the
 * normalised weights v. The larger of two Pareto k-hats, each less its standard error: that of v (value - mean)^2 among
 * the draws, which says whether these tell the variance, and that of (value - median)^2 in the posterior, which says
 * whether there is one. Above the limit only where the standard error of the sd is no trifle. NAN: too few draws to
 * tell. */
void wv_weights_tail_indices(size_t n, const double *v, size_t m, const double *value, size_t ld, const double *mean,
                             const double *var, const double *sd_se, double *tail_k, wv_arena *arena);
#endif
