/* halfspaces.h - points that cost no evaluation: which cell they lie in, draws of a component inside its cell. */
#ifndef WV_HALFSPACES_H
#define WV_HALFSPACES_H
#include "arena.h"
#include "cost.h"
#include "gaussian.h"
#include "rng.h"

enum {
    WV_FREE = 4096, /* draws that are not evaluated, in one batch */
    WV_LATTICE_POINTS = 4096
};

/* What is kept between calls; it is made again from the particles, so it is not saved. */
typedef struct {
    wv_geometry g;       /* as it was given last */
    double *facet;       /* [N][D] M (z_k - z_0), */
    double *offset;      /* [N] and |z_k - z_0|^2_M / 2: as wv_halfspaces_update has left them */
    double *lattice;     /* [WV_LATTICE_POINTS / WV_COLUMNS][dims][WV_COLUMNS] standard normal points */
    size_t lattice_dims; /* their dimensions; 0: there are none yet */
    double *memory;
} wv_halfspaces;

/* used: the fit has cells to be told by walls (staged solver). False without memory. */
bool wv_halfspaces_new(wv_halfspaces *h, size_t N, size_t D, bool used);
void wv_halfspaces_free(wv_halfspaces *h);

/* The hyperplanes of the cells, which everything below reads: to be called whenever particles or metric have changed.
 */
void wv_halfspaces_update(wv_halfspaces *h, const wv_geometry *g, wv_arena *arena);

/* Nearest particle of each of the points x[n][D]; n is at most WV_FREE. */
void wv_halfspaces_assign(const wv_halfspaces *h, size_t n, const double *x, uint32_t *cell, wv_arena *arena);

/* Squared costs: the cell of a point of a Gaussian depends on so many of its coordinates only, in a
 * basis that the walls span: at most N - 1. */
size_t wv_halfspaces_dims(const wv_geometry *g);

/* Squared costs: the particle nearest to a point of q is that of the largest W e - low, e[dims] standard normal,
 * W[N][dims]; dims is wv_halfspaces_dims, or D. A[N][D]: the walls as q sees them, of which W (but for its first
 * row, which is 0) is the Cholesky factor of the products if dims is not D, and a copy if it is. */
void wv_halfspaces_scores(const wv_halfspaces *h, const wv_gaussian *q, size_t dims, double *A, double *W, double *low,
                          wv_arena *arena);

/* A Gaussian in cell j, the component of it as a rule, and where its draws come from. */
typedef struct {
    size_t j;
    wv_gaussian q;
    wv_gaussian around; /* half of the draws come from this one, around the particle; family NULL: none do */
    wv_stream stream;   /* of cell j: stream.component is j */
} wv_in_cell;

/* Draws of a component in its cell, in the arena of the caller. */
typedef struct {
    size_t n;
    double *x;  /* [n][D] */
    double *u;  /* [n] weights that stand for the component */
    double all; /* the weight of all draws, those outside included */
} wv_inside;

/* Those inside the cell of draws number first .. first + n of q; with `around` the second half comes from there,
 * without it all weights are 1. n is at most WV_FREE. */
wv_inside wv_halfspaces_draw_inside(const wv_halfspaces *h, const wv_in_cell *c, uint64_t first, size_t n,
                                    wv_arena *arena);

/* Two particles under a squared cost: the log of the mass of q in the cell of j, on one side of the wall. */
double wv_halfspaces_log_mass(const wv_halfspaces *h, size_t j, const wv_gaussian *q, wv_arena *arena);

/* Makes the lattice, for cells that depend on dims <= WV_LATTICE directions only, unless it is there. */
void wv_halfspaces_lattice(wv_halfspaces *h, uint64_t seed, size_t dims);

/* Error that n of them leave in a mass, more or less. */
double wv_halfspaces_lattice_error(size_t dims, double n, double mass);
#endif
