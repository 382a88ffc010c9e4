/* cell_target.h - the mixture that made the closing draws, as the target of the components of the cells. */
#ifndef WV_CELL_TARGET_H
#define WV_CELL_TARGET_H
#include "wvgd.h"

/* The mixture's inverse roots, which wv_cell_target reads: to be called whenever the mixture has changed. */
void wv_cell_target_prepare(wvgd_fit *f);

/* Log density of the mixture at x[n][D], and its gradient where grad is not NULL. */
void wv_cell_target(wvgd_fit *f, size_t n, const double *x, double *log_m, double *grad);
#endif
