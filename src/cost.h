/* cost.h - costs between a particle and points, and the geometry of the cells that they make. */
#ifndef WV_COST_H
#define WV_COST_H
#include "arena.h"
#include "gaussian.h"
#include "wvgd.h"

/* A cost with its parameters. */
typedef struct {
    wvgd_cost kind;
    double power;                                 /* of lp */
    wvgd_cost_function *function;                 /* of callback: for one point, */
    wvgd_cost_batch *batch;                       /* for many, or NULL, */
    void *self;                                   /* and what both are given */
    const wv_family *metric_family, *cell_family; /* of the roots below */
} wv_cost;

wv_cost wv_cost_of(const wvgd_options *o, const wv_family *metric_family, const wv_family *cell_family);

/* Particles under a cost: all that tells which cell a point lies in. It owns nothing. */
typedef struct {
    wv_cost cost;
    size_t N, D;
    const double *z;      /* [N][D] particles */
    const double *metric; /* [metric_family->size] mahalanobis: root of the covariance that it divides by */
    const double *spread; /* [N][cell_family->size] own: roots of the posterior's covariance in each cell */
} wv_geometry;

/* Squared costs: cells are bounded by hyperplanes. */
bool wv_cost_flat(const wv_cost *c);

/* Cost of the points x[n][D] to the point z[D], cell j's own where costs differ by cell. y: [n][D] scratch. */
void wv_cost_cost(const wv_geometry *g, size_t j, const double *z, size_t n, const double *x, double *out, double *y,
                  wv_arena *arena);

/* Callback costs of the points x[n][D] to a[D], unless cost is NULL, and the sum of their gradients with regard to a,
 * with weights, unless grad is. */
void wv_cost_callback(const wv_cost *c, size_t D, const double *a, size_t n, const double *x, double *cost,
                      const double *weight, double *grad, wv_arena *arena);
#endif
