/* bent_cells.h - components of the cells of a fit in bent coordinates: cells and costs are those of the user's x, each
 * component is a Gaussian of u, mapped to x and truncated to its cell (docs/internals/bend.md). Where there are such,
 * f->bent.cells is set, and means and roots of components are those in u. */
#ifndef WV_BENT_CELLS_H
#define WV_BENT_CELLS_H
#include "gaussian.h"
#include "rng.h"
#include "wvgd.h"

/* Whether components are to be such: the fit has a bend, and components have full covariances. */
bool wv_bent_cells_suit(const wvgd_fit *f);

/* Components of all cells, the spreads of these, masses and first weights, from the stored draws and from draws that
 * cost nothing. */
void wv_bent_cells_fit(wvgd_fit *f);

/* Fresh draws for the bound into f->b, cell after cell; and from their answers, those of cell j being draws first ..
 * first + n, the ELBO of cell j. */
void wv_bent_cells_ask(wvgd_fit *f);
void wv_bent_cells_estimate(wvgd_fit *f, size_t j, size_t first, size_t n);

/* What a step of component j along the arguments would gain, from the stored draws; NAN: too few tell. */
wvgd_estimate wv_bent_cells_gain(wvgd_fit *f, size_t j);

/* Log density in x of a Gaussian of u at x[n][D]; draws of it in x. The Gaussian is one of x itself where the fit has
 * no such components. */
void wv_bent_cells_log_density(const wvgd_fit *f, const wv_gaussian *q, size_t n, const double *x, double *log_q);
void wv_bent_cells_draw(const wvgd_fit *f, const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n,
                        double *x);
#endif
