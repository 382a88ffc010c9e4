/* cell_gain.h - what a component could still gain within its family. */
#ifndef WV_CELL_GAIN_H
#define WV_CELL_GAIN_H
#include "wvgd.h"

/* Nats that a further step of component j would win on its cell, and the standard error: from free draws of the
 * component and the stored draws, measured by the n evaluated draws x[n][D] of it in its cell, with log_p[n]. NAN: too
 * few draws to tell. Needs wv_cell_draws_update_walls. */
wvgd_estimate wv_cell_gain(wvgd_fit *f, size_t j, size_t n, const double *x, const double *log_p);
#endif
