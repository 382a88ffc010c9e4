/* chain_states.h - what the states of the finisher's chains tell. */
#ifndef WV_CHAIN_STATES_H
#define WV_CHAIN_STATES_H
#include "wvgd.h"

/* The first trajectory that counts. */
size_t wv_chain_states_first(const wvgd_fit *f);

/* log p~/m of the final draws behind those of the trial, from the arena; p[chains][each] of every `stride`-th of the
 * last states of each chain; returns `each`. */
double *wv_chain_states_drawn(wvgd_fit *f, size_t *n);
size_t wv_chain_states_ratios(const wvgd_fit *f, size_t stride, double *p);

/* Works out errors between chains, drift, R-hat and the evidence; whether all is settled. */
bool wv_chain_states_settled(wvgd_fit *f);

/* Whether the states of a chain span too few of the autocorrelation times that were last worked out. */
bool wv_chain_states_slow(const wvgd_fit *f);

/* Mean [D] and Cholesky factor [D][D] of the covariance of states from trajectory `first` on, with so much of the
 * variances added; false: none. */
bool wv_chain_states_moments(wvgd_fit *f, size_t first, double ridge, double *mean, double *root);

/* Share of the mass, as the last states have it, where the proposal has hardly any draws. */
double wv_chain_states_missing(wvgd_fit *f);
#endif
