/* joint.h - the paper's solver: particles and components move together. */
#ifndef WV_JOINT_H
#define WV_JOINT_H
#include "fit.h"

/* Enters the first stage: the pilot for diagonal components, else the search. */
void wv_joint_begin(wvgd_fit *f);

wvgd_status wv_joint_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_joint_tell(wvgd_fit *f, wvgd_error *error);

/* The full Gaussian that preconditions diagonal components. */
wv_gauss wv_joint_pilot(const wvgd_fit *f);
wvgd_status wv_joint_pilot_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_joint_pilot_tell(wvgd_fit *f, wvgd_error *error);
void wv_joint_leave_pilot(wvgd_fit *f);

/* Ends the iterations for the given reason and goes on to the closing pass with the better of the current and the best state. */
void wv_joint_end(wvgd_fit *f, wvgd_stop stop);
#endif
