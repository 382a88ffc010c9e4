/* mixture.h - a weighted set of full Gaussians. */
#ifndef WV_MIXTURE_H
#define WV_MIXTURE_H
#include "archive.h"
#include "sources.h"

typedef struct {
    size_t K;       /* components */
    size_t D;       /* dimensions */
    size_t room;    /* components at most */
    size_t version; /* changes with everything that follows: what was computed from another version is stale */
    double *mu;     /* [K][D] */
    double *root;   /* [K][D][D] lower Cholesky factors of the covariances */
    double *w;      /* [K] weights */

    /* ---- made from the roots when they change, never saved ---- */
    double *inverse; /* [K][D][D] inverse roots */
    double *log_det; /* [K] log determinants of the roots */
    double *memory;
} wv_mixture;

/* An empty mixture with room for so many components; false without memory. */
bool wv_mixture_new(wv_mixture *m, size_t D, size_t room);
void wv_mixture_free(wv_mixture *m);

/* The same in the arena of the caller; nothing to free. */
wv_mixture wv_mixture_take(size_t D, size_t room, wv_arena *arena);
bool wv_mixture_archive(wv_mixture *m, wv_archive *a, size_t least); /* of so many components at least */

wv_gaussian wv_mixture_component(const wv_mixture *m, size_t k);

/* Whether q is all of the mixture. */
bool wv_mixture_is(const wv_mixture *m, const wv_gaussian *q);

/* ---- densities at many points ------------------------------------------------------------------------------------ */
/* The components of a mixture, with their weights. */
wv_sources wv_mixture_sources(const wv_mixture *m);

/* Log density of the mixture at x[n][D], and its gradient [n][D] unless grad is NULL. */
void wv_mixture_log_density(const wv_mixture *m, size_t n, const double *x, double *log_m, double *grad, wv_workers *w);

/* The same in steps, where squares are kept. share[n] = w_k q_k / m, from the squares r[n] in the coordinates of
 * component k. */
void wv_mixture_share(const wv_mixture *m, size_t k, size_t n, const double *r, const double *log_m, double *share);

/* A block of at most WV_COLUMNS points. */
typedef struct {
    const wv_squares *squares;
    size_t at, n;        /* its number in these; points */
    const double *x;     /* [n][D] */
    const double *log_m; /* [n] */
} wv_block;

/* The block in the coordinates of component k: [D][WV_COLUMNS], valid until the arena is released. */
const double *wv_mixture_whitened(const wv_mixture *m, const wv_block *b, size_t k, wv_arena *arena);

/* out[D][WV_COLUMNS] -= gradient of log m at the block. */
void wv_mixture_subtract_gradient(const wv_mixture *m, const wv_block *b, double *out, wv_arena *arena);

/* owner[n]: the component with the largest share of the mixture's density at each of the points x[n][D]. */
void wv_mixture_owners(const wv_mixture *m, size_t n, const double *x, size_t *owner, wv_arena *arena);
size_t wv_mixture_owner(const wv_mixture *m, const double *x, wv_arena *arena);

/* [D] distances over which the slope of the log density changes by their inverses, on the average over components. */
void wv_mixture_scales(const wv_mixture *m, double *scale);

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Mean [D] and Cholesky factor [D][D] of the mixture's covariance; false: none. */
bool wv_mixture_moments(const wv_mixture *m, double *mean, double *root, wv_arena *arena);

/* The same of those of its components whose group[k] is g. */
bool wv_mixture_moments_of(const wv_mixture *m, const double *group, double g, double *mean, double *root,
                           wv_arena *arena);

/* ---- changes ----------------------------------------------------------------------------------------------------- */
/* to <- from, which has no more components than there is room for. */
void wv_mixture_copy(wv_mixture *to, const wv_mixture *from);

/* The mixture is the single Gaussian with this mean [D] and Cholesky factor [D][D]. */
void wv_mixture_set_one(wv_mixture *m, const double *mu, const double *root);

/* No components. */
void wv_mixture_clear(wv_mixture *m);

/* One component more, a full Gaussian; the other weights stay as they are. There must be room. */
void wv_mixture_append(wv_mixture *m, const wv_gaussian *q, double weight);

/* All K components at once: mu[K][D], root[K][D][D]. */
void wv_mixture_set_components(wv_mixture *m, const double *mu, const double *root);

/* Drops the components whose mark is not 0, unless that is all of them, and normalises the weights of the others. */
void wv_mixture_drop(wv_mixture *m, const double *marked);

/* Component k with its root scaled; or with the covariance C[D][D] (destroyed) in its own whitened coordinates, false:
 * C is no covariance. */
void wv_mixture_scale_root(wv_mixture *m, size_t k, double by);
bool wv_mixture_absorb(wv_mixture *m, size_t k, double *C, wv_arena *arena);

/* Weights: one, all, all times a number, w_k <- max(w_k / sum, least), and scaled to sum to 1. */
void wv_mixture_set_weight(wv_mixture *m, size_t k, double weight);
void wv_mixture_set_weights(wv_mixture *m, const double *w);
void wv_mixture_scale_weights(wv_mixture *m, double by);
void wv_mixture_raise_weights(wv_mixture *m, double sum, double least);
void wv_mixture_normalise(wv_mixture *m);
#endif
