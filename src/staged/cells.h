/* cells.h - cells, masses and truncated components, from the weighted draws of a staged fit. */
#ifndef WV_CELLS_H
#define WV_CELLS_H
#include "wvgd.h"

/* With the log density of the mixture at the stored draws in f->closing.draws.log_mix[0]: solves the transport problem
 * on them and fits a truncated component to every cell. What is left is the bound. False: a limit has struck. Then
 * particles and cells may be rough, components may have the moments of their cells, and there is to be no bound. */
bool wv_cells_begin(wvgd_fit *f);

/* Masses of the components in their cells and weights, after the components have changed. False: a limit has struck,
 * and there is to be no bound. */
bool wv_cells_weigh(wvgd_fit *f);

/* There is no bound; and a limit is why. */
void wv_cells_forget_bound(wvgd_fit *f);
void wv_cells_leave(wvgd_fit *f);
#endif
