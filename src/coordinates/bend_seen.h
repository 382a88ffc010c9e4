/* bend_seen.h - points of the pool in the coordinates of a bend, and rows fitted to them (docs/internals/bend.md). */
#ifndef WV_BEND_SEEN_H
#define WV_BEND_SEEN_H
#include "coordinates/bend.h"
#include "coordinates/bend_pool.h"

typedef struct {
    size_t n, D, r;
    double *w, *g;  /* [n][D] coordinates, and scores by them */
    double *weight; /* [n], sum 1 */
} wv_bend_seen;

/* Room for all points, from the arena; a copy. */
wv_bend_seen wv_bend_seen_take(const wv_bend_pool *p, size_t r, wv_arena *arena);
wv_bend_seen wv_bend_seen_copy(const wv_bend_seen *s, wv_arena *arena);

/* Points and scores in the frame of the bend. */
void wv_bend_seen_from(const wv_bend_pool *p, const wv_bend *b, const wv_bend_seen *s);

/* Newer points count more, and those where the present map, through which the others have gone, can be right. */
void wv_bend_seen_weigh(const wv_bend_pool *p, double reach, const wv_bend_seen *s);

/* Points whose scores of the others are far from standard normal, in mean squares of that size, count little. */
void wv_bend_seen_doubt(const wv_bend_seen *s, double size);

/* Weights of the points in regressions of what is left of the scores of coordinates first to last - 1: less for
 * outliers. */
void wv_bend_seen_residuals(const wv_bend_seen *s, double *weight, wv_arena *arena);

/* Arguments of row c among the first `most`: all, or those whose terms explain most of its scores, one by one. */
void wv_bend_seen_parents(const wv_bend_seen *s, size_t c, size_t most, wv_bend_row *row);

/* Coordinate c for the fit of a row; the row of c in the bend is fitted to the scores. */
wv_bend_points wv_bend_seen_points(const wv_bend_seen *s, size_t c);
double wv_bend_seen_fit_row(const wv_bend_seen *s, wv_bend *b, size_t c, bool anew, wv_arena *arena);

/* Coordinate c and its scores through its row: the arguments get what it says of them. */
void wv_bend_seen_undo_row(const wv_bend_seen *s, const wv_bend_row *row, size_t c, wv_arena *arena);

/* The others and their scores through the affine layer: the arguments get what it says of them. */
void wv_bend_seen_undo_affine(const wv_bend_seen *s, const wv_bend_affine *a, wv_arena *arena);

/* The others, and their scores, in the basis T [k][k], or back from it. */
void wv_bend_seen_turn(const wv_bend_seen *s, const double *T, bool back, wv_arena *arena);
#endif
