/* cell_bound.h - masses of the components in their cells, and the PELBO from fresh draws inside the cells. */
#ifndef WV_CELL_BOUND_H
#define WV_CELL_BOUND_H
#include "wvgd.h"

/* log Z_j of every component, with standard errors in f->elbo_se. Needs wv_halfspaces_update. */
void wv_cell_bound_masses(wvgd_fit *f);

/* The log mass of cell j, which no ELBO_j can be above, and three standard errors. */
double wv_cell_bound_most(const wvgd_fit *f, size_t j);

wvgd_status wv_cell_bound_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_cell_bound_tell(wvgd_fit *f, wvgd_error *error);
#endif
