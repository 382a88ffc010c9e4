/* lowrank.h - the update of low-rank components where no D x D matrix is formed. */
#ifndef WV_LOWRANK_H
#define WV_LOWRANK_H
#include "update/step.h"

wv_update_result wv_lowrank_update(const wv_step *s, const wv_update *c);
#endif
