/* reparam.h - the paper's estimator: gradients along paths, with Adam. */
#ifndef WV_REPARAM_H
#define WV_REPARAM_H
#include "update/step.h"

/* E_qj[(grad log p~ + y) (1, y')] in the component's whitened coordinates: gradients of ELBO_j (but for the boundary
 * term) in its mean, g_mu[D], and in a lower-triangular (or diagonal) change of its root, g_root[D][D] (or [D]). */
void wv_reparam_gradient(const wv_step *s, const wv_update *c, double *g_mu, double *g_root);

wv_update_result wv_reparam_update(const wv_step *s, const wv_update *c);
#endif
