/* staged.h - the default solver: a mixture is fitted to the modes, grown until its draws weigh the
 * posterior well, and only then cut into cells. */
#ifndef WV_STAGED_H
#define WV_STAGED_H
#include "fit.h"

/* From the modes that exploration has found. */
void wv_staged_begin(wvgd_fit *f);

/* Ends the search: what is left is closed with as few draws as possible. */
void wv_staged_hurry(wvgd_fit *f, wvgd_stop stop);

wvgd_status wv_staged_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_staged_tell(wvgd_fit *f, wvgd_error *error);
#endif
