/* explore.h - where to start: modes of the log density, found by ascents from scattered points. */
#ifndef WV_EXPLORE_H
#define WV_EXPLORE_H
#include "fit.h"

/* Gaussians that a path leaves behind. */
size_t wv_explore_stations(const wvgd_fit *f);

void wv_explore_begin(wvgd_fit *f);
wvgd_status wv_explore_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_explore_tell(wvgd_fit *f, wvgd_error *error);

/* Goes on to the solver with the modes found so far. */
void wv_explore_settle(wvgd_fit *f);
#endif
