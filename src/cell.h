/* cell.h - costs, nearest particle, cells. */
#ifndef WV_CELL_H
#define WV_CELL_H
#include "fit.h"

/* Costs of n points x from a particle at z that measures as particle j does: out[i] = c(z, x_i). y: [n][D] scratch. */
void wv_cell_cost(const wvgd_fit *f, size_t j, const double *z, size_t n, const double *x, double *out, double *y);

/* Nearest particle of each point (lowest index on ties), the cost to it and to the second nearest (INFINITY when N = 1). */
void wv_cell_assign(const wvgd_fit *f, size_t n, const double *x, uint32_t *cell, double *near, double *next);

/* The same for particles z[N][D] under the squared distance. */
void wv_cell_nearest(const wvgd_fit *f, const double *z, size_t n, const double *x, uint32_t *cell, double *near, double *next);

/* Cells of rows of which each two are mirror images about `middle`, middle + e and middle - e: with many particles that takes half the time. wv_cell_prepare has seen the particles. second: `next` is wanted. */
void wv_cell_prepare(const wvgd_fit *f);
void wv_cell_assign_mirrored(const wvgd_fit *f, const double *middle, size_t n, const double *x, uint32_t *cell, double *near, double *next, bool second);

/* Doubles of scratch for these: of a worker, f->narrow, and that all share, f->rounded (none: it is not used). */
size_t wv_cell_narrow_size(size_t N, size_t D);
size_t wv_cell_rounded_size(size_t N, size_t D);
#endif
