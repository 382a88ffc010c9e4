/* update.h - one step of a component. */
#ifndef WV_UPDATE_H
#define WV_UPDATE_H
#include "update/step.h"

wv_update_result wv_update_step(const wv_step *s, const wv_update *c);
#endif
