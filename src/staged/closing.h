/* closing.h - closing draws of the staged solver, and the evidence that they give. */
#ifndef WV_CLOSING_H
#define WV_CLOSING_H
#include "posterior.h"
#include "rng.h"
#include "wvgd.h"

/* Draws that are to come follow the first `trial` ones, which are a trial's; nothing has been
 * drawn of the present proposals. */
void wv_closing_begin(wvgd_fit *f, size_t trial);

/* Sets f->proposals for about n draws of the mixture with heavier tails. */
void wv_closing_propose(wvgd_fit *f, size_t n);

/* Proposes, and draws the batch; after it has been told, wv_closing_take makes it part of the store. */
void wv_closing_draw(wvgd_fit *f, size_t n, wv_rng_use use);
void wv_closing_take(wvgd_fit *f);

/* Whether there is room for another batch. */
bool wv_closing_has_room(const wvgd_fit *f);

/* Stored draws from `first` on. */
wv_batch wv_closing_draws(const wvgd_fit *f, size_t first);

/* Adds log of the sum over proposals of draws x density to log_sum[n] at the points x[n][D]: not
 * divided by the number of draws. */
void wv_closing_add_density(wvgd_fit *f, size_t n, const double *x, double *log_sum);

/* log mean p~/m over the stored draws from `first` on, with control variates, and its standard error: of
 * the residuals within strata, draws 2i and 2i+1 taken as one, since they mirror each other. Fills
 * f->closing.draws.log_m and the weights f->closing.v. */
wvgd_estimate wv_closing_weigh(wvgd_fit *f, size_t first);

/* Leaves only the final batch. */
void wv_closing_forget_trial(wvgd_fit *f);

/* After wv_closing_weigh: all draws under the mixture of both proposals, with the weights omega that the controls give
 * them, in f->closing.draws.log_m; and log densities of the mixture, in its log_mix[0]. */
void wv_closing_pool(wvgd_fit *f);
void wv_closing_mixture_density(wvgd_fit *f);
#endif
