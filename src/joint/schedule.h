/* schedule.h - what the trace of the joint solver shows: is the bound level, are the particles at rest, has the run
 * converged? Nothing here changes the stage: joint.c does, by these judgements. */
#ifndef WV_SCHEDULE_H
#define WV_SCHEDULE_H
#include "wvgd.h"

/* What the trace shows from here on is judged anew. */
void wv_schedule_begin_phase(wvgd_fit *f);

/* The same, and iterations of the stage are counted from 0. */
void wv_schedule_begin_stage(wvgd_fit *f);

/* Has the bound stopped rising? Two neighbouring windows of w iterations in this phase agree
 * within noise (or within the tolerance). */
bool wv_schedule_level(const wvgd_fit *f, size_t w);

/* Steps so small that nothing is left to gain: exact fits have no noise to average. */
bool wv_schedule_still(const wvgd_fit *f);

/* The bound of the state that made the batch against the best so far. */
typedef enum {
    WV_BOUND_BEST,   /* it is the best, to be kept */
    WV_BOUND_WITHIN, /* within noise of the best */
    WV_BOUND_FELL    /* beyond noise below it: go back to the best; steps are half as long from here on */
} wv_bound_change;
wv_bound_change wv_schedule_compare(wvgd_fit *f);

/* Step of the particles in this iteration, rho being that of the components. */
double wv_schedule_lambda(const wvgd_fit *f, double rho);

/* Are particles looked at that might be worth more elsewhere, after so many iterations? Then costs
 * to the second nearest count, too. */
bool wv_schedule_moves_due(const wvgd_fit *f, size_t iterations);

/* Search: one particle, and nothing left to gain? */
bool wv_schedule_exhausted(const wvgd_fit *f);

/* Search: is the bound level, and are the particles at rest? If they drift, it is judged again some iterations from
 * here. */
bool wv_schedule_at_rest(wvgd_fit *f);

/* Iterations in which particles settle. */
size_t wv_schedule_settling(void);

/* Average: does noise cost less than the tolerance? Then, has the bound not risen meanwhile? If it has, the average is
 * judged anew. */
bool wv_schedule_averaged(const wvgd_fit *f);
bool wv_schedule_converged(const wvgd_fit *f);
void wv_schedule_average_on(wvgd_fit *f);

/* Is the best state to be preferred to the current one, where iterations end (f->stop says why)? */
bool wv_schedule_best_is_better(const wvgd_fit *f);
#endif
