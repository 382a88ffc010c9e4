/* partition.h - particles, their cells and the components of these: what a fit adapts and what it reports. */
#ifndef WV_PARTITION_H
#define WV_PARTITION_H
#include "archive.h"
#include "arena.h"
#include "cost.h"
#include "gaussian.h"

/* What is adapted; one contiguous block, so that the best state can be kept by one copy. */
typedef struct {
    double *z;            /* [N][D] particles */
    double *mu;           /* [N][D] component locations */
    double *root;         /* [N][family->size] component roots */
    double *spread;       /* [N][cell_family->size] roots of the posterior's covariance in each cell */
    double *metric;       /* [metric_family->size] root of the covariance that the mahalanobis cost divides by */
    double *centre;       /* [D] posterior mean, smoothed */
    double *elbo;         /* [N] smoothed ELBO_j: softmax gives the weights that judge the next batch */
    double *losses;       /* [N] times that a component ran away from its cell */
    double *beta, *beta2; /* [N] means of beta_j and its square since the cells have been at rest */
} wv_ensemble;

/* Sizes and shapes. */
typedef struct {
    size_t N, D, R;
    const wv_family *family, *cell_family, *metric_family; /* of components, of cells, of the metric */
    wv_cost cost;
} wv_shape;

typedef struct {
    wv_shape shape;
    wv_ensemble now, best;        /* current and best state */
    size_t size;                  /* doubles in each */
    size_t refined;               /* rounds of evaluations that the components of the cells have had */
    double *around;               /* [N] flags: draws of the component in its cell come from around the particle, too */
    double *beta, *beta_se;       /* [N] masses of the cells */
    double *weight, *weight_beta; /* [N] of the components in the ensemble: optimal ones, and masses */
    double *log_Z, *elbo, *elbo_se; /* [N] */
    double *ess, *pareto_k;         /* [N] of the closing draws in each cell */
    double *memory;
} wv_partition;

/* All zero, but for results, which are NAN; false without memory. */
bool wv_partition_new(wv_partition *p, wv_shape shape);
void wv_partition_free(wv_partition *p);
bool wv_partition_archive(wv_partition *p, wv_archive *a);

/* The best state so far is kept, and gone back to. */
void wv_partition_keep(wv_partition *p);
void wv_partition_go_back(wv_partition *p);

/* The particles with the cost that makes the cells: it follows them as they move. */
wv_geometry wv_partition_geometry(const wv_partition *p);

wv_gaussian wv_partition_component(const wv_partition *p, size_t j);
bool wv_partition_same(const wv_partition *p, size_t i, size_t j); /* whether two cells have the same component */
wv_gaussian wv_partition_spread(const wv_partition *p, size_t j);  /* N(z_j, covariance of the cell) */
wv_gaussian wv_partition_around(const wv_partition *p, size_t j);  /* the same as a proposal: a Student-t */

/* Particle j and its component are at z, [D]; component and spread have the shape of g, or where they are of another
 * family its standard deviations sd[D]. */
void wv_partition_place(wv_partition *p, size_t j, const double *z, const wv_gaussian *g, const double *sd);
void wv_partition_set_metric(wv_partition *p, const double *root); /* [metric_family->size] */

/* Particle j, or all of them, go to z[D] or z[N][D]. */
void wv_partition_move(wv_partition *p, size_t j, const double *z);
void wv_partition_move_all(wv_partition *p, const double *z);

/* The spread of cell j becomes root[cell_family->size]; follows, by a share `keep`, the covariance about mean[D] of
 * points x[n][D] with weights that sum to 1. */
void wv_partition_set_spread(wv_partition *p, size_t j, const double *root);
void wv_partition_follow(wv_partition *p, size_t j, const double *mean, size_t n, const double *x, const double *weight,
                         double keep, wv_arena *arena);

/* Spreads of all cells: the standard deviations about their particles of points x[n][D] with weights w[n] and cells.
 * Those of cells without two points stay. */
void wv_partition_spread_over(wv_partition *p, size_t n, const double *x, const double *w, const uint32_t *cell,
                              wv_arena *arena);

/* Component j becomes the given Gaussian of its family; is kept; is what was kept, and becomes that again. Writes to
 * nothing that belongs to another cell. */
void wv_partition_set_component(wv_partition *p, size_t j, const double *mu, const double *root);
void wv_partition_keep_component(wv_partition *p, size_t j);
wv_gaussian wv_partition_kept_component(const wv_partition *p, size_t j);
void wv_partition_recall_component(wv_partition *p, size_t j);

/* Component j begins again at its particle, with the shape of its cell; a diagonal one no wider than coordinates are
 * when the others are given, under the covariance with the Cholesky factor correlated[D][D] (NULL: not known). */
void wv_partition_restart_component(wv_partition *p, size_t j, const double *correlated, wv_arena *arena);

void wv_partition_set_sd(wv_partition *p, const double *sd);  /* all components and cells: independent coordinates */
void wv_partition_put_one(wv_partition *p, const double *at); /* the first particle and its component */
void wv_partition_set_metric(wv_partition *p, const double *root);
void wv_partition_forget_masses(wv_partition *p);
#endif
