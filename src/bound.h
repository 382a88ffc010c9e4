/* bound.h - masses of the components in their cells, and the PELBO from fresh draws inside the cells. */
#ifndef WV_BOUND_H
#define WV_BOUND_H
#include "fit.h"

/* log Z_j of every component, with standard errors in f->elbo_se. Needs wv_free_cells. */
void wv_bound_masses(wvgd_fit *f);

/* The log mass of cell j, which no ELBO_j can be above, and three standard errors. */
double wv_bound_most(const wvgd_fit *f, size_t j);

wvgd_status wv_bound_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_bound_tell(wvgd_fit *f, wvgd_error *error);
#endif
