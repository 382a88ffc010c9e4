/* outcome.h - what the closing draws have shown of the whole posterior: evidence, bounds, and how far to trust them. */
#ifndef WV_OUTCOME_H
#define WV_OUTCOME_H
#include "archive.h"
#include "wvgd.h"

typedef struct {
    wvgd_estimate bound, bound_beta, evidence; /* PELBO with the weights chosen, and with masses; log p(x) */
    double pareto_k, ess;
    double meanfield_gap;
    double noise;        /* sd of the noise of log densities, from points that were asked for twice */
    double roughness;    /* sd of what is not smooth in them, from differences; 0: gradients are the model's own */
    size_t wrong_slopes; /* points beside which the density does not change as the gradients say */
    double uncovered;    /* log p~ / (m Z) at the mode that the closing proposal covers least */
} wv_outcome;

void wv_outcome_new(wv_outcome *o); /* nothing is known */
void wv_outcome_archive(wv_outcome *o, wv_archive *a);
void wv_outcome_copy(wv_outcome *o, const wv_outcome *from);

/* The evidence by importance sampling, and the effective draws behind it. */
void wv_outcome_set_evidence(wv_outcome *o, wvgd_estimate evidence, double ess);

/* Bounds with weights that were chosen, and with the masses of the cells; then one with better weights. */
void wv_outcome_set_bounds(wv_outcome *o, wvgd_estimate bound, wvgd_estimate bound_beta);
void wv_outcome_raise_bound(wv_outcome *o, wvgd_estimate bound);

/* The evidence gets the error that makes it agree with the bounds, where these are known. */
void wv_outcome_reconcile(wv_outcome *o);

void wv_outcome_set_pareto_k(wv_outcome *o, double k);
void wv_outcome_set_meanfield_gap(wv_outcome *o, double nats);
void wv_outcome_set_uncovered(wv_outcome *o, double above);
void wv_outcome_set_noise(wv_outcome *o, double sd);
void wv_outcome_set_roughness(wv_outcome *o, double sd);
void wv_outcome_set_wrong_slopes(wv_outcome *o, size_t points);
#endif
