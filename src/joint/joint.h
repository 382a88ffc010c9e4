/* joint.h - the paper's solver: particles and components move together. */
#ifndef WV_JOINT_H
#define WV_JOINT_H
#include "fit.h"

/* Enters the first stage: the pilot for diagonal components, else the search. */
void wv_joint_begin(wvgd_fit *f);

wvgd_status wv_joint_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_joint_tell(wvgd_fit *f, wvgd_error *error);

/* Begins component j again with the shape of its cell. */
void wv_joint_restart(wvgd_fit *f, size_t j);

/* Component j has run away from its cell so often that it is no longer fitted. */
bool wv_joint_gave_up(const wvgd_fit *f, size_t j);
#endif
