/* large.h - the update of low-rank components where no D x D matrix is formed. */
#ifndef WV_LARGE_H
#define WV_LARGE_H
#include "update.h"

/* Doubles of workspace for n points, beside the vectors of the fit. */
size_t wv_large_work(size_t D, size_t R, size_t n);

wv_update_result wv_large_update(wvgd_fit *f, const wv_update *c);
#endif
