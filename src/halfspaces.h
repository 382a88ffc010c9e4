/* halfspaces.h - points that cost no evaluation: which cell they lie in, draws of a component inside its cell. */
#ifndef WV_HALFSPACES_H
#define WV_HALFSPACES_H
#include "gaussian.h"
#include "wvgd.h"

/* Squared costs: cells are bounded by hyperplanes. */
bool wv_halfspaces_flat(const wvgd_fit *f);

/* The hyperplanes of the cells, which everything below reads: to be called whenever particles or metric have changed.
 */
void wv_halfspaces_update(wvgd_fit *f);

/* Nearest particle of each of the points x[n][D]; n is at most WV_FREE. */
void wv_halfspaces_assign(wvgd_fit *f, size_t n, const double *x, uint32_t *cell);

/* Squared costs: the cell of a point of a Gaussian depends on so many of its coordinates only, in a
 * basis that the walls span: at most N - 1. */
size_t wv_halfspaces_dims(const wvgd_fit *f);

/* Squared costs: the particle nearest to a point of q is that of the largest W e - low, e[dims] standard normal,
 * W[N][dims]; dims is wv_halfspaces_dims(f), or D. A[N][D]: the walls as q sees them, of which W (but for its first
 * row, which is 0) is the Cholesky factor of the products if dims is not D, and a copy if it is. */
void wv_halfspaces_scores(wvgd_fit *f, const wv_gaussian *q, size_t dims, double *A, double *W, double *low);

/* Draws number first .. first + n of q_j (with `around` the second half comes from around the particle): those
 * inside the cell into f->gx, weights that stand for q_j there (all 1 without `around`) into f->gu. Returns how
 * many; *all: the weight of all n. n is at most WV_FREE. */
size_t wv_halfspaces_inside(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t first, size_t n, bool around, double *all);

/* Squared costs: the walls of the cell of j as q_j sees them, in as few dimensions as they span (returned); then
 * the sum over mirrored pairs of draws of q_j of the share of the pair that lies within, and the sum of the
 * squares of these shares, added to *squares. */
size_t wv_halfspaces_walls(wvgd_fit *f, size_t j, double *basis);
double wv_halfspaces_count(wvgd_fit *f, size_t j, size_t dims, uint64_t first, size_t pairs, double *squares);

/* Points for cells that depend on few directions only: WV_LATTICE_POINTS standard normal ones in dims <= WV_LATTICE
 * dimensions into f->lattice, in columns: blocks [dims][WV_COLUMNS]. */
enum { WV_LATTICE_POINTS = 4096 };
void wv_halfspaces_lattice(wvgd_fit *f, size_t dims);

/* Share of these points, and of their mirror images, that lie within the walls of a cell (wv_halfspaces_walls). */
double wv_halfspaces_lattice_mass(wvgd_fit *f, size_t dims);

/* Error that n of them leave in a mass, more or less. */
double wv_halfspaces_lattice_error(size_t dims, double n, double mass);
#endif
