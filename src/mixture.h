/* mixture.h - a weighted set of full Gaussians. */
#ifndef WV_MIXTURE_H
#define WV_MIXTURE_H
#include "archive.h"
#include "gaussian.h"

typedef struct {
    size_t K;     /* components */
    size_t D;     /* dimensions */
    size_t room;  /* components at most */
    double *mu;   /* [K][D] */
    double *root; /* [K][D][D] lower Cholesky factors of the covariances */
    double *w;    /* [K] weights */
    double *memory;
} wv_mixture;

/* An empty mixture with room for so many components; false without memory. */
bool wv_mixture_new(wv_mixture *m, size_t D, size_t room);
void wv_mixture_free(wv_mixture *m);
bool wv_mixture_archive(wv_mixture *m, wv_archive *a, size_t least); /* of so many components at least */

wv_gaussian wv_mixture_component(const wv_mixture *m, size_t k);

/* Whether q is all of the mixture. */
bool wv_mixture_is(const wv_mixture *m, const wv_gaussian *q);

/* to <- from, which has no more components than there is room for. */
void wv_mixture_copy(wv_mixture *to, const wv_mixture *from);

/* The mixture is the single Gaussian with this mean [D] and Cholesky factor [D][D]. */
void wv_mixture_set_one(wv_mixture *m, const double *mu, const double *root);
#endif
