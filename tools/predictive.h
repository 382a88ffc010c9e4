/* predictive.h - numbers that describe a distribution which is known by draws, or as a mixture with a part for each
 * draw. */
#ifndef WV_PREDICTIVE_H
#define WV_PREDICTIVE_H
#include <stddef.h>

/* Mean and sample sd (n - 1) of n draws. */
void describe_draws(size_t n, const double *x, double *mean, double *sd);

/* The p-quantile of x[n], which are sorted, as R has it by default (type 7): linear between order statistics. */
void sort_draws(size_t n, double *x);
double sorted_quantile(size_t n, const double *x, double p);

/* The p-quantile of the mixture, with equal weights, of N(mean_k, sd_k^2), k < n: where the mean of their distribution
 * functions is p. sd_k >= 0. */
double mixture_quantile(size_t n, const double *mean, const double *sd, double p);
#endif
