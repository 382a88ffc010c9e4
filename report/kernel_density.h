/* kernel_density.h - the density of weighted values on a grid. */
#ifndef WV_KERNEL_DENSITY_H
#define WV_KERNEL_DENSITY_H
#include <stdbool.h>
#include <stddef.h>

/* Values with weights, each in a cell. */
typedef struct {
    size_t n, stride; /* x[0], x[stride], ... */
    const double *x;
    const double *weight; /* [n], or NULL: all equal */
    const size_t *cell;   /* [n], any number from cells on: none */
    size_t cells;
} weighted_values;

/* Fills density[grid] at lo + (g + 0.5)(hi - lo)/grid. What is no number is left out. false: no memory. */
bool estimate_density(const weighted_values *v, size_t grid, double lo, double hi, double *density);

/* A range that holds nearly all of n values, with some room at both ends. */
bool find_shown_range(size_t n, const double *x, size_t stride, double *lo, double *hi);

/* The same for a density, which is reflected at the ends of its range: without room where the values seem to be
 * bounded, that is, at 0 if none is on its other side, and at the least or greatest value if more than a fiftieth of
 * them, and some, is next to it (within a twentieth of the range). Elsewhere the tails of the kernel have room. */
bool find_curve_range(size_t n, const double *x, size_t stride, double *lo, double *hi);
#endif
