/* kernel.h - the direction in which SVGD moves its particles: distances, bandwidth and kernel sums
 * of n points in D dimensions.
 *
 *     phi(z_i) = 1/n sum_j [ k(z_j, z_i) g_j + grad_{z_j} k(z_j, z_i) ],   k(a, b) = exp(-|a - b|^2 / h)
 *              = 1/n ( sum_j K_ij (g_j - 2/h z_j) + 2/h z_i sum_j K_ij )
 *
 * Squared distances come from the Gram matrix of the centred points, the sums from one product of K with
 * [g - 2 z / h, 1]: two matrix products. */
#ifndef SVGD_KERNEL_H
#define SVGD_KERNEL_H
#include <stdbool.h>
#include <stddef.h>

typedef struct svgd_kernel svgd_kernel;

/* Memory for n points in D dimensions, all that the calls below need. stop: whether to give up, asked between bands of
 * rows; NULL: never. NULL: no memory, or the sizes are 0 or beyond BLAS. */
svgd_kernel *svgd_kernel_new(size_t n, size_t D, bool (*stop)(void *self), void *self);
void svgd_kernel_free(svgd_kernel *kernel); /* accepts NULL */

/* Squared distances between all points of z[n][D], for the calls below. False: given up. */
bool svgd_kernel_distances(svgd_kernel *kernel, const double *z);

/* The median heuristic: h = med^2 / log n, med the median of the n (n - 1)/2 distances. 1 if n is
 * 1 or all points are one. */
double svgd_kernel_median(svgd_kernel *kernel);

/* phi[n][D] at the points of the last svgd_kernel_distances, from grad[n][D] with bandwidth h > 0.
 * The distances are used up. False: given up, and phi is as before. */
bool svgd_kernel_direction(svgd_kernel *kernel, const double *grad, double h, double *phi);

/* x[n] = exp(-scale x), for scale x >= 0; what is beyond 700 counts as 700. */
void svgd_kernel_exponentials(size_t n, double *x, double scale);
#endif
