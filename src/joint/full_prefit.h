/* full_prefit.h - the full Gaussian that goes before diagonal components. */
#ifndef WV_FULL_PREFIT_H
#define WV_FULL_PREFIT_H
#include "fit.h"

wv_gaussian wv_full_prefit_gaussian(const wvgd_fit *f);
wvgd_status wv_full_prefit_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_full_prefit_tell(wvgd_fit *f, wvgd_error *error);

/* Components, spreads and metric begin where the pilot has got to. */
void wv_full_prefit_leave(wvgd_fit *f);
#endif
