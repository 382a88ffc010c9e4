/* nearest.h - the nearest particle of many points. */
#ifndef WV_NEAREST_H
#define WV_NEAREST_H
#include "arena.h"
#include "cost.h"

/* Nearest particle of each point (lowest index on ties), the cost to it and to the second nearest
 * (INFINITY when N = 1). */
void wv_nearest_assign(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena);

/* The same under the squared Euclidean cost, of points in blocks of columns [D][WV_COLUMNS] (simd/columns.h). */
void wv_nearest_assign_columns(const wv_geometry *g, size_t n, const double *columns, uint32_t *cell, double *near,
                               double *next, wv_arena *arena);

/* The nearest of the particles around the nearest of a few of them, by the metric: nearly always the nearest of all,
 * and found in a time that grows with the root of their number. near: NAN under a cost that is not squared. */
void wv_nearest_assign_roughly(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near,
                               wv_arena *arena);
#endif
