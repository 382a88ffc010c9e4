/* kde.h - a density from particles: a Gaussian of standard deviation b around each of n points in D dimensions,
 * with a bandwidth b that is given or best. */
#ifndef SVGD_KDE_H
#define SVGD_KDE_H
#include <stddef.h>

/* log q[m] at the points x[m][D]: q(x) = 1/n sum_i N(x; z_i, b^2 I). */
void svgd_kde_log_density(size_t n, size_t D, const double *z, double b, size_t m, const double *x, double *log_q);

/* Points and weights of a quadrature rule in one dimension with the density p there: sum_i
 * weight_i f(x_i) is the integral of f. */
typedef struct {
    size_t m;
    const double *x, *weight, *p; /* [m] */
} svgd_quadrature;

/* Integrated squared error in one dimension, integral of (q - p)^2. */
double svgd_kde_ise(size_t n, const double *z, double b, const svgd_quadrature *q);

/* The b in [least, most] with the smallest ise (the oracle's choice, since it needs to know p),
 * which goes to *ise unless it is NULL. */
double svgd_kde_oracle(size_t n, const double *z, double least, double most, const svgd_quadrature *q, double *ise);

/* The b with the greatest likelihood of each particle under the density of the others, for any D: what can be done
 * without knowing p. work: [n (n + 1)]. NAN: n < 2, or all particles are one. */
double svgd_kde_leave_one_out(size_t n, size_t D, const double *z, double *work);
#endif
