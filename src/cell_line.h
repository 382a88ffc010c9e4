/* cell_line.h - the truncated component of a cell in one dimension, by quadrature on the cell: without the model. */
#ifndef WV_CELL_LINE_H
#define WV_CELL_LINE_H
#include "mixture.h"
#include "wvgd.h"

/* Whether cells are intervals (interval.h). All that follows is for these. */
bool wv_cell_line_cells(const wvgd_fit *f);

/* m: a mixture that is roughly like the posterior, for what lies between the closing draws and beyond them. Component j
 * becomes the Gaussian that is best on its cell, and the spread of the cell that of the posterior there. False: nothing
 * is known of the cell, and nothing has changed. Writes to nothing of another cell. */
bool wv_cell_line_fit(wvgd_fit *f, const wv_mixture *m, size_t j);

/* Log of the mass of component j in its cell. */
double wv_cell_line_log_Z(wvgd_fit *f, size_t j);

/* ELBO of component j as it is, by the same quadrature; -INFINITY: nothing is known of the cell. */
double wv_cell_line_elbo(wvgd_fit *f, const wv_mixture *m, size_t j);

/* The same, with what half of the closing draws change of it as its error, and log_c[n], the target of the quadrature
 * at the points x[n] of the cell: E_qj[log p~] is E_qj[log c], which the ELBO has, and what draws say of log p~ - log
 * c. */
wvgd_estimate wv_cell_line_control(wvgd_fit *f, const wv_mixture *m, size_t j, size_t n, const double *x,
                                   double *log_c);

/* Log of the integral of p~ over cell j, by one out of `every` of the closing draws there. */
double wv_cell_line_log_mass(wvgd_fit *f, const wv_mixture *m, size_t j, size_t every);
#endif
