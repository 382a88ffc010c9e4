/* ladder.h - the evidence by chains that walk down from the posterior to a Gaussian. */
#ifndef WV_LADDER_H
#define WV_LADDER_H
#include "wvgd.h"

/* False: there is no Gaussian to walk down to. */
bool wv_ladder_begin(wvgd_fit *f);

/* Takes a step of the chains on a rung; those at the end of the last one leave draws of the Gaussian to be made. */
void wv_ladder_tell(wvgd_fit *f);
void wv_ladder_ask_floor(wvgd_fit *f);

/* The draws of the Gaussian have been told: the evidence. */
void wv_ladder_end(wvgd_fit *f);
#endif
