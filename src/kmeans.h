/* kmeans.h - the transport problem on weighted points: k-means with restarts. */
#ifndef WV_KMEANS_H
#define WV_KMEANS_H
#include "wvgd.h"

/* Doubles that all starts take. */
size_t wv_kmeans_size(const wvgd_fit *f);

/* Keeps the points of the last iterations with their posterior weights, as many as one batch can hold. */
void wv_kmeans_pool(wvgd_fit *f);

/* Looks for better particles on the pooled points: Lloyd from many starts against Lloyd from the current
 * ones. Squared costs only. True: clearly better ones were found and taken; spreads are those of the new
 * cells, components are left to the caller. */
bool wv_kmeans_improve(wvgd_fit *f);

/* The mixture of a staged fit as a control: draws of it stand for the share c of what the stored draws say of it. */
typedef struct {
    double c;        /* 0: it is none */
    const double *w; /* [n] weights of the stored draws that stand for the mixture; not used where c is 0 */
} wv_mixture_control;

/* Particles from the stored closing draws with weights f->closing.v: the best of many starts of Lloyd's iteration, for
 * squared costs; others begin with that of the mahalanobis cost. */
void wv_kmeans_place(wvgd_fit *f, wv_mixture_control control);
#endif
