/* interval.h - cells in one dimension are sets of intervals: which ones, what a Gaussian has there, draws of it there.
 */
#ifndef WV_INTERVAL_H
#define WV_INTERVAL_H
#include "arena.h"
#include "cost.h"
#include "gaussian.h"
#include "rng.h"

typedef struct {
    double lo, hi; /* either may be infinite */
} wv_interval;

/* Disjoint and ascending; in the arena of the caller. */
typedef struct {
    size_t n;
    wv_interval *part; /* [n] */
} wv_intervals;

/* Whether the cells are told like this: in one dimension, under every cost that is known in closed form. */
bool wv_interval_cells(const wv_geometry *g);

/* The cell of particle j. */
wv_intervals wv_interval_cell(const wv_geometry *g, size_t j, wv_arena *arena);

/* Log of the mass of q there, exact however small it is. */
double wv_interval_log_mass(const wv_intervals *s, const wv_gaussian *q);

/* x[n]: draws number first .. first + n of q there; returns the log of its mass. */
double wv_interval_draw(const wv_intervals *s, const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n,
                        double *x);
#endif
