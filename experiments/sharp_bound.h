/* sharp_bound.h - the PELBO of a fit that has ended, from as many draws as one likes.
 *
 * ELBO_j = E_qj[log p~ - log q(z; theta_j)] + log Z_j from n draws of the untruncated component: Z_j is the share of
 * them that falls into cell j, the mean is over these. PELBO = sum_j w_j (ELBO_j - log w_j) with the fit's own
 * weights, which were chosen on other draws: it stays a bound. */
#ifndef WV_SHARP_BOUND_H
#define WV_SHARP_BOUND_H
#include "wvgd.h"

/* About `draws` draws in all, shared by the components as their weights are. 0, or -1 with *error filled. */
int sharpen_bound(const wvgd_model *model, const wvgd_fit *fit, size_t draws, uint64_t seed, wvgd_estimate *out,
                  wvgd_error *error);
#endif
