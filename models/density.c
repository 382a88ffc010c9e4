/* density.c - terms that the log densities of several models share. */
#include "density.h"
#include <math.h>

double wv_density_weights(size_t n, const double *w, double sd, double *grad)
{
    double squares = 0.0, inverse = 1.0 / sd;
    for (size_t i = 0; i < n; i++) {
        double u = w[i] * inverse;
        squares += u * u;
        if (grad)
            grad[i] = -u * inverse;
    }
    return -0.5 * squares - (double)n * (log(sd) + 0.5 * WV_LOG_2PI);
}

/* -log(pi cosh u) = log(2/pi) - |u| - log(1 + exp(-2 |u|)) */
double wv_density_noise(size_t n, double squares, double log_sigma, double scale, double *slope)
{
    const double log_2_over_pi = -0.45158270528945486;
    double rows = (double)n, u = log_sigma - log(scale), chi2 = squares * exp(-2.0 * log_sigma);
    *slope = chi2 - rows - tanh(u);
    return -0.5 * chi2 - rows * (log_sigma + 0.5 * WV_LOG_2PI) + log_2_over_pi - fabs(u) - log1p(exp(-2.0 * fabs(u)));
}

void wv_density_start_weights(size_t n, double sd, const double *normal, double *z)
{
    for (size_t i = 0; i < n; i++)
        z[i] = sd * normal[i];
}

/* A half-Cauchy variable is scale tan(pi P / 2) for uniform P, here P(normal); the tail is taken on the side where
 * it is small, for log tan(x) = -log tan(pi/2 - x). */
double wv_density_start_noise(double scale, double normal)
{
    const double half_pi = 1.5707963267948966, tail = 0.5 * erfc(fabs(normal) * 0.70710678118654752);
    return log(scale) + copysign(log(tan(half_pi * fmax(tail, 1e-300))), normal);
}

void wv_density_reject(size_t n, size_t D, double *log_p, double *grad)
{
    for (size_t i = 0; i < n; i++) {
        if (isfinite(log_p[i]))
            continue;
        log_p[i] = -INFINITY;
        for (size_t d = 0; grad && d < D; d++)
            grad[i * D + d] = 0.0;
    }
}
