/* density.h - terms that the log densities of several models share. */
#ifndef WV_DENSITY_H
#define WV_DENSITY_H
#include <stddef.h>

#define WV_LOG_2PI 1.8378770664093453

/* sum_i log N(w_i; 0, sd^2); sets grad[n], unless it is NULL, to its gradient. */
double wv_density_weights(size_t n, const double *w, double sd, double *grad);

/* What an unknown noise level adds: log N(residuals; 0, sigma^2) of n residuals with the given sum of squares,
 * and the log prior density of log_sigma,
 *     sigma ~ half-Cauchy(scale), that is u = log_sigma - log(scale) has the density 1/(pi cosh u).
 * *slope: the derivative by log_sigma. */
double wv_density_noise(size_t n, double squares, double log_sigma, double scale, double *slope);

/* Draws from the same priors out of standard normals: z[n] of weights, and a log_sigma. */
void wv_density_start_weights(size_t n, double sd, const double *normal, double *z);
double wv_density_start_noise(double scale, double normal);

/* Points whose log density is NaN or infinite have none: log_p = -INFINITY, gradient 0. log_p:
 * [n], grad: [n][D] or NULL. */
void wv_density_reject(size_t n, size_t D, double *log_p, double *grad);
#endif
