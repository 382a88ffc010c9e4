/* pilot.h - the full Gaussian that goes before diagonal components. */
#ifndef WV_PILOT_H
#define WV_PILOT_H
#include "fit.h"

wv_gauss wv_pilot_gauss(const wvgd_fit *f);
wvgd_status wv_pilot_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_pilot_tell(wvgd_fit *f, wvgd_error *error);

/* Components, spreads and metric begin where the pilot has got to. */
void wv_pilot_leave(wvgd_fit *f);
#endif
