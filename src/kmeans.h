/* kmeans.h - the transport problem on weighted points: k-means with restarts. */
#ifndef WV_KMEANS_H
#define WV_KMEANS_H
#include "cost.h"
#include "mixture.h"
#include "workers.h"

typedef struct {
    size_t n;
    const double *x, *w; /* [n][D], [n] */
} wv_weighted_points;

/* Looks for better particles than those of g on points whose weights sum to 1: Lloyd from many starts, which (seed,
 * batch) key, against Lloyd from the current ones. Squared costs only. True: clearly better ones were found, z[N][D],
 * with the cell[n] of each point. */
bool wv_kmeans_improve(const wv_geometry *g, wv_weighted_points p, uint64_t seed, uint64_t batch, wv_workers *workers,
                       double *z, uint32_t *cell);

/* The mixture of a staged fit as a control: draws of it stand for the share c of what the stored draws say of it. */
typedef struct {
    double c;        /* 0: it is none */
    const double *w; /* [n] weights of the stored draws that stand for the mixture; not used where c is 0 */
} wv_mixture_control;

/* What a staged fit knows of the posterior. */
typedef struct {
    wv_weighted_points draws; /* stored draws, with their posterior weights */
    const double *mean;       /* [D] of the posterior */
    const wv_mixture *mixture;
    wv_mixture_control control;
    size_t most;        /* points at most */
    bool zeros;         /* the density is zero somewhere: the mixture does not know where */
    bool several_modes; /* of weight */
    bool given_metric;  /* the metric is the user's, not the posterior's */
} wv_kmeans_points;

/* Particles z[N][D] of a staged fit: the best of many starts of Lloyd's iteration, for squared costs; others begin with
 * that of the mahalanobis cost. Of g only cost and metric are read. */
void wv_kmeans_place(const wv_geometry *g, const wv_kmeans_points *p, uint64_t seed, uint64_t batch,
                     wv_workers *workers, double *z);
#endif
