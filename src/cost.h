/* cost.h - costs between particles and points. */
#ifndef WV_COST_H
#define WV_COST_H
#include "wvgd.h"

/* Costs of n points x from a particle at z that measures as particle j does: out[i] = c(z, x_i). y: [n][D] scratch. */
void wv_cost_cost(const wvgd_fit *f, size_t j, const double *z, size_t n, const double *x, double *out, double *y);

/* Costs of n points from a under the callback into cost[n], unless it is NULL; and the sum of their gradients in a,
 * times weight[n], into grad[D], unless that is NULL. */
void wv_cost_callback(const wvgd_fit *f, const double *a, size_t n, const double *x, double *cost, const double *weight,
                      double *grad);
#endif
