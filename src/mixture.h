/* mixture.h - a weighted set of full Gaussians. */
#ifndef WV_MIXTURE_H
#define WV_MIXTURE_H
#include "archive.h"
#include "gaussian.h"

typedef struct {
    size_t K;       /* components */
    size_t D;       /* dimensions */
    size_t room;    /* components at most */
    size_t version; /* changes with everything that follows: what was computed from another version is stale */
    double *mu;     /* [K][D] */
    double *root;   /* [K][D][D] lower Cholesky factors of the covariances */
    double *w;      /* [K] weights */
    double *memory;
} wv_mixture;

/* An empty mixture with room for so many components; false without memory. */
bool wv_mixture_new(wv_mixture *m, size_t D, size_t room);
void wv_mixture_free(wv_mixture *m);
bool wv_mixture_archive(wv_mixture *m, wv_archive *a, size_t least); /* of so many components at least */

wv_gaussian wv_mixture_component(const wv_mixture *m, size_t k);

/* Whether q is all of the mixture. */
bool wv_mixture_is(const wv_mixture *m, const wv_gaussian *q);

/* ---- what it says ---- */
/* The component with the largest share of the mixture's density at x. */
size_t wv_mixture_owner(const wv_mixture *m, const double *x, wv_arena *arena);

/* Mean [D] and Cholesky factor [D][D] of the mixture's covariance; false: none. */
bool wv_mixture_moments(const wv_mixture *m, double *mean, double *root, wv_arena *arena);

/* The same of those of its components whose group[k] is g. */
bool wv_mixture_moments_of(const wv_mixture *m, const double *group, double g, double *mean, double *root,
                           wv_arena *arena);

/* ---- changes ---- */
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
