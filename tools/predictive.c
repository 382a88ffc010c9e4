/* predictive.c - quantiles. That of a mixture of normals solves
 *     F(x) = sum_k Phi((x - m_k) / s_k) / n = p
 * by Newton steps, kept between two points with F < p <= F. */
#include "predictive.h"
#include "ascending.h"
#include <math.h>
#include <stdlib.h>

void describe_draws(size_t n, const double *x, double *mean, double *sd)
{
    double sum = 0, square = 0;
    for (size_t k = 0; k < n; k++)
        sum += x[k];
    *mean = sum / (double)n;
    for (size_t k = 0; k < n; k++)
        square += (x[k] - *mean) * (x[k] - *mean);
    *sd = n > 1 ? sqrt(square / (double)(n - 1)) : 0;
    if (isinf(*mean))
        *sd = INFINITY;
}

void sort_draws(size_t n, double *x)
{
    qsort(x, n, sizeof *x, ascending);
}

double sorted_quantile(size_t n, const double *x, double p)
{
    double at = p * (double)(n - 1), low = floor(at);
    size_t k = (size_t)low;
    return k + 1 < n && x[k] < x[k + 1] ? x[k] + (at - low) * (x[k + 1] - x[k]) : x[k];
}

/* F(x), and its derivative. */
static double distribution(size_t n, const double *mean, const double *sd, double x, double *slope)
{
    double sum = 0, density = 0;
    for (size_t k = 0; k < n; k++) {
        double u = (x - mean[k]) / sd[k];
        if (!(sd[k] > 0))
            sum += x >= mean[k];
        else {
            sum += erfc(-u * M_SQRT1_2) / 2;
            density += exp(-u * u / 2) / sd[k];
        }
    }
    *slope = density / (sqrt(2 * M_PI) * (double)n);
    return sum / (double)n;
}

double mixture_quantile(size_t n, const double *mean, const double *sd, double p)
{
    double low = INFINITY, high = -INFINITY, spread = 0, centre, square = 0;
    describe_draws(n, mean, &centre, &spread);
    for (size_t k = 0; k < n; k++) {
        low = fmin(low, mean[k] - 9 * sd[k]); /* F(low) < 1e-18 < p */
        high = fmax(high, mean[k] + 9 * sd[k]);
        square += sd[k] * sd[k] / (double)n;
    }
    double scale = sqrt(spread * spread + square), x = centre + (p - 0.5) * 3.7 * scale;
    for (int i = 0; i < 200 && high - low > 1e-13 * (fabs(low) + fabs(high)); i++) {
        double slope, off;
        if (!(x > low && x < high))
            x = low + (high - low) / 2;
        off = distribution(n, mean, sd, x, &slope) - p;
        if (off < 0)
            low = x;
        else
            high = x;
        double step = off / slope;
        if (fabs(step) < 1e-12 * scale)
            return x - step;
        x -= step;
    }
    return high;
}
