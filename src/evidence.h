/* evidence.h - what a batch of weighted points says about masses, bounds and the evidence. */
#ifndef WV_EVIDENCE_H
#define WV_EVIDENCE_H
#include "arena.h"
#include "batch.h"
#include "wvgd.h"

/* ELBO_j and log Z_j from all points of the batch; -INFINITY for a cell in which no point has weight.
 * h_bar[N]: E_qj[log p~ - log q_j], may be NULL. */
void wv_evidence_elbo(size_t N, const wv_batch *b, double *elbo, double *log_Z, double *h_bar, wv_arena *arena);

/* PELBO(w) = sum_j w_j (ELBO_j - log w_j) for weights that do not depend on this batch, with its standard error:
 * which = 0 or 1 says which of b->log_mix belongs to w. Cells with w > 0 and ELBO_j = -INFINITY are left out and the
 * rest of w scaled up, which keeps it a bound. */
wvgd_estimate wv_evidence_bound(size_t N, const wv_batch *b, const double *w, int which, const double *elbo,
                                const double *log_Z, const double *h_bar, wv_arena *arena);

/* Standard error of each ELBO_j. */
void wv_evidence_elbo_se(size_t N, const wv_batch *b, const double *elbo, const double *log_Z, const double *h_bar,
                         double *se);

/* log mean p~/m and its standard error, by the delta method within strata. */
wvgd_estimate wv_evidence_importance(const wv_batch *b, wv_arena *arena);

/* The evidence with the error that two bounds show. One that lies above it by more than so many errors of both is
 * believed rather: draws have supported every cell of a bound, but importance sampling does not see what its proposal
 * has no draws of, nor does its own error. */
wvgd_estimate wv_evidence_reconcile(wvgd_estimate evidence, wvgd_estimate bound, wvgd_estimate other, double errors);

/* Whether that has been done: a bound lies above the evidence by all of their errors. */
bool wv_evidence_contradicted(wvgd_estimate evidence, wvgd_estimate bound, wvgd_estimate other, double errors);

/* Softmax of ELBO_j: the best ensemble weights. */
void wv_evidence_weights(size_t N, const double *elbo, double *weight);

/* Self-normalised weighted mean of values[n * stride] under v[n] (summing to 1), and its standard error. */
wvgd_estimate wv_evidence_mean(size_t n, const double *v, const double *values, size_t stride);
#endif
