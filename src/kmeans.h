/* kmeans.h - the transport problem on weighted points: k-means with restarts. */
#ifndef WV_KMEANS_H
#define WV_KMEANS_H
#include "wvgd.h"

/* Doubles in f->starts. */
size_t wv_kmeans_size(const wvgd_fit *f);

/* Keeps the points of the last iterations with their posterior weights, as many as one batch can hold, in f->close. */
void wv_kmeans_pool(wvgd_fit *f);

/* Looks for better particles on the pooled points: Lloyd from many starts against Lloyd from the current
 * ones. Squared costs only. True: clearly better ones were found and taken; spreads are those of the new
 * cells, components are left to the caller. */
bool wv_kmeans_improve(wvgd_fit *f);

/* Particles from the stored closing draws with weights f->close_v: the best of many starts of Lloyd's iteration, for
 * squared costs; others begin with that of the mahalanobis cost. With c > 0 the mixture of a staged fit serves as a
 * control: draws of it stand for the share c of what the stored draws say of it (weights f->close_spare). */
void wv_kmeans_place(wvgd_fit *f, double c);
#endif
