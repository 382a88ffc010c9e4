/* pool.h - points with the proposals that made them, and their weights under the mixture of all these (deterministic-mixture weights). */
#ifndef WV_POOL_H
#define WV_POOL_H
#include "fit.h"

/* Room for components, points and proposals of a staged fit in D dimensions. */
size_t wv_pool_components(const wvgd_fit *f);
size_t wv_pool_points(const wvgd_fit *f);
size_t wv_pool_proposals(const wvgd_fit *f);

void wv_pool_clear(wvgd_fit *f);

/* Points in the pool. */
size_t wv_pool_size(const wvgd_fit *f);

/* Takes the batch in f->b, made by f->proposal with f->share draws each, into the pool and weighs all points anew. */
void wv_pool_take(wvgd_fit *f);

/* Forgets all batches but the last `keep`. */
void wv_pool_forget(wvgd_fit *f, size_t keep);

/* The proposals of batch b as a mixture: adds log sum_c share_c q_c to log_sum[n] at the points x[n][D]. */
void wv_pool_add_density(wvgd_fit *f, size_t b, size_t n, const double *x, double *log_sum);
#endif
