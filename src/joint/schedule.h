/* schedule.h - which stage comes next, and when a run has converged. */
#ifndef WV_SCHEDULE_H
#define WV_SCHEDULE_H
#include "wvgd.h"

/* What the trace shows from here on is judged anew. */
void wv_schedule_begin_phase(wvgd_fit *f);

/* Has the bound stopped rising? Two neighbouring windows of w iterations in this phase agree
 * within noise (or within the tolerance). */
bool wv_schedule_level(const wvgd_fit *f, size_t w);

/* Steps so small that nothing is left to gain: exact fits have no noise to average. */
bool wv_schedule_still(const wvgd_fit *f);

/* Keeps the best state, and goes back to it with smaller steps when the bound has fallen beyond its noise
 * (then true). Called with the state that made the batch. */
bool wv_schedule_fell(wvgd_fit *f);

/* Step of the particles in this iteration, rho being that of the components. */
double wv_schedule_lambda(const wvgd_fit *f, double rho);

/* What comes after this iteration of the joint solver. */
void wv_schedule_next(wvgd_fit *f);

/* Ends the iterations for the given reason and goes on to the closing pass with the better of the
 * current and the best state. */
void wv_schedule_end(wvgd_fit *f, wvgd_stop stop);
#endif
