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

/* Particles in single precision, relative to a point in their middle, and what is needed to tell
 * how wrong distances from them may be. */
typedef struct {
    size_t N, D;
    float *z, *x, *square; /* [N][D], [D][WV_COLUMNS] of a block of points, [N] |z|^2 */
    const double *wide;    /* [N][D] the particles themselves */
    double *middle;        /* [D] */
    double radius;         /* the largest distance of a particle from the middle */
    bool made;             /* z and square are there */
} wv_nearest_sieve;

/* Cells of rows of which each two are mirror images about `middle`, middle + e and middle - e: with many
 * particles that takes half the time. A sieve for a middle (false: that is of no use) finds the cells of up to
 * 2 WV_COLUMNS rows at a time. It lies in the arena: who makes one marks it before and releases it afterwards. */
bool wv_nearest_mirrored(const wv_geometry *g, const double *middle, wv_nearest_sieve *s, wv_arena *arena);
void wv_nearest_assign_mirrored(wv_nearest_sieve *s, size_t n, const double *x, uint32_t *cell, double *near,
                                double *next, wv_arena *arena);
#endif
