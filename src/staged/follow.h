/* follow.h - components follow weighted draws: forward-KL (population Monte Carlo) steps. */
#ifndef WV_FOLLOW_H
#define WV_FOLLOW_H
#include "staged/assess.h"
#include "wvgd.h"

/* v[n]: normalised weights of the recent draws as draws of the posterior. False: there are none. */
bool wv_follow_weights(wvgd_fit *f, double *v);

/* Component k follows its share of the draws: mu[D] and root[D][D], which hold it, become the next. `least`: effective
 * draws that this takes. False: there are fewer, and nothing has changed. */
bool wv_follow_one(wvgd_fit *f, const wv_assessment *a, const double *v, size_t k, double least, double *mu,
                   double *root);

/* All components do, and their weights. */
void wv_follow_all(wvgd_fit *f);
#endif
