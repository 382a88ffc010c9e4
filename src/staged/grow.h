/* grow.h - growth of the mixture: components are split, added and dropped. */
#ifndef WV_GROW_H
#define WV_GROW_H
#include "wvgd.h"

/* Splits the components that explain log p~ worst, along the direction in which its curvature changes
 * fastest; from the recent draws. */
void wv_grow_split(wvgd_fit *f);

/* Adds components at the points x[n][D] whose weight p~/m is largest; log_w: [n] their log weights
 * relative to the mean, destroyed. Together they get the share of the mixture. */
void wv_grow_add(wvgd_fit *f, size_t n, const double *x, double *log_w, double share);

/* Drops components that have hardly any weight. */
void wv_grow_drop(wvgd_fit *f);
#endif
