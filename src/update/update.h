/* update.h - one step of a component. */
#ifndef WV_UPDATE_H
#define WV_UPDATE_H
#include "update/step.h"

wv_update_result wv_update_step(const wv_step *s, const wv_update *c);

/* The estimates behind a step, for D = 1 and tests: gradient of ELBO_j in (mu, log sigma), and the natural
 * parameters (coefficients of z and z^2) that the step aims at. */
void wv_update_target_1d(const wv_step *s, const wv_update *c, double gradient[2], double natural[2]);
#endif
