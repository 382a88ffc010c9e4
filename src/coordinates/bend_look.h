/* bend_look.h - arguments of a bend: directions t such that scores are explained by t z and t^2 beyond what a standard
 * normal explains (docs/internals/bend.md). */
#ifndef WV_BEND_LOOK_H
#define WV_BEND_LOOK_H
#include "arena.h"
#include <stdbool.h>
#include <stddef.h>

/* Points around a Gaussian, whitened, with what it leaves of the scores; both times a weight against outliers. */
typedef struct {
    size_t n, D, columns, most; /* columns of Q, and at most */
    double *z, *rho;            /* [n][D] */
    double *weight;             /* [n] */
    double *Q;                  /* [n][most] orthonormal: what has been regressed on so far */
    double *E;                  /* [n][D] weighted rho without that */
} wv_bend_look;

/* Room for n points, from the arena. */
wv_bend_look wv_bend_look_take(size_t n, size_t D, wv_arena *arena);

/* Looks for arguments besides the first `known` coordinates, among the rows of root [D][D] and directions near them.
 * Returns how many there are with these; basis[D][D]: root times columns that are dual to the arguments, then ones that
 * are orthogonal to them. 0: there is no such basis. */
size_t wv_bend_look_find(wv_bend_look *l, const double *root, size_t known, double *basis, wv_arena *arena);

/* After a look: whether the axes are independent, so that lines explain the scores much better than arguments do;
 * basis[D][D]: their sds, root [D][D] being that of the Gaussian that z has been whitened by. */
bool wv_bend_look_separate(const wv_bend_look *l, const double *root, double *basis, wv_arena *arena);
#endif
