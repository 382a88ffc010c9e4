/* staged_closing.h - closing draws of the staged solver, and the evidence that they give. */
#ifndef WV_STAGED_CLOSING_H
#define WV_STAGED_CLOSING_H
#include "posterior.h"
#include "rng.h"
#include "wvgd.h"

enum { WV_WIDE_PROPOSALS = 2 }; /* beside those of the components */

/* From one ask to its tell: where the wide Student-t's of the proposal are. */
typedef struct {
    double *wide_mu, *wide_root; /* [D], [D][D] */
    double *memory;
} wv_staged_closing;

bool wv_staged_closing_new(wv_staged_closing *c, size_t D);
void wv_staged_closing_free(wv_staged_closing *c);

/* Draws a batch of about n from the mixture with heavier tails; after it has been told, wv_staged_closing_take makes it
 * part of the closing draws. */
void wv_staged_closing_draw(wvgd_fit *f, size_t n, wv_rng_use use);
void wv_staged_closing_take(wvgd_fit *f);

/* Whether there is room for another batch. */
bool wv_staged_closing_has_room(const wvgd_fit *f);

/* Log density of the proposals of the last batch at the points x[n][D]. */
void wv_staged_closing_log_density(wvgd_fit *f, size_t n, const double *x, double *log_m);

/* n independent draws of these proposals, into the batch. */
void wv_staged_closing_draw_alone(wvgd_fit *f, size_t n, wv_rng_use use);

/* log mean p~/m over the closing draws from `first` on, with control variates, and its standard error: of the residuals
 * within strata, draws 2i and 2i+1 taken as one, since they mirror each other. Fills log_m and the weights v of these
 * draws. */
wvgd_estimate wv_staged_closing_weigh(wvgd_fit *f, size_t first);

/* After that: all draws under the mixture of both proposals, with the weights omega that the controls give them, in
 * log_m; and log densities of the mixture, in log_mix[0]. */
void wv_staged_closing_weigh_all(wvgd_fit *f);
void wv_staged_closing_mixture_density(wvgd_fit *f);
#endif
