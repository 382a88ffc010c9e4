/* bend_affine.h - the first layer of the others of a bend: an affine map that depends on the arguments t,
 *     y = o(t) + C(t) v,   C lower triangular                                         (docs/internals/bend.md)
 * Offsets, numbers below the diagonal and logs of those on it are linear in features (1, s_1, s_1^2 - 1, s_2, ..),
 * where s = t / sqrt(1 + t^2/reach^2) is bounded, and they are, too. */
#ifndef WV_BEND_AFFINE_H
#define WV_BEND_AFFINE_H
#include "archive.h"
#include "arena.h"
#include "coordinates/bend_row.h"
#include <stdbool.h>
#include <stddef.h>

enum { WV_BEND_FEATURES = 1 + 2 * WV_BEND_PARENTS };

typedef struct {
    size_t k;                       /* others */
    size_t features;                /* 1 + 2 parents; 0: y = v */
    size_t parent[WV_BEND_PARENTS]; /* numbers of the arguments */
    double *slice;                  /* [features][k][k + 1]: C, logs on its diagonal, and offsets in the last column */
} wv_bend_affine;

size_t wv_bend_affine_parents(const wv_bend_affine *a);

/* Of D coordinates r are arguments. */
bool wv_bend_affine_archive(wv_bend_affine *a, wv_archive *archive, size_t D, size_t r);

/* phi[features] at the arguments t. */
void wv_bend_affine_features(const wv_bend_affine *a, const double *t, double *phi);

/* Scratch at[k][k + 1] for a point: the layer there. */
double *wv_bend_affine_take(const wv_bend_affine *a, wv_arena *arena);

/* v[k] <- y, with the layer at the arguments t in `at`; returns the log determinant. And back, y <- v. */
double wv_bend_affine_do(const wv_bend_affine *a, const double *t, double *at, double *v);
void wv_bend_affine_undo(const wv_bend_affine *a, const double *t, double *at, double *y);

/* g[k], the gradient by y, becomes that by v, with that of the log determinant: what comes of the arguments is added to
 * by[..]. `at` is the layer at t. The other way: g by v becomes that by y, and what came of the layer is taken off by.
 */
void wv_bend_affine_pull(const wv_bend_affine *a, const double *t, const double *at, const double *v, double *g,
                         double *by);
void wv_bend_affine_push(const wv_bend_affine *a, const double *t, const double *at, const double *v, double *g,
                         double *by);
#endif
