/* bend_row.h - location and scale of one coordinate as functions of a few others, its arguments:
 *     y = m(t) + exp(s(t)) v                                              (docs/internals/bend.md)
 * Two experts of precision p_k = exp(a_k + b_k.t) and location mu_k, quadratic in t, are multiplied: exp(-2 s) = p_1 +
 * p_2, m = (p_1 mu_1 + p_2 mu_2) / (p_1 + p_2). A prior and data whose scales depend on t have this form. */
#ifndef WV_BEND_ROW_H
#define WV_BEND_ROW_H
#include "arena.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    WV_BEND_PARENTS = 6,                       /* arguments of a row at most */
    WV_BEND_SLOPES = 1 + WV_BEND_PARENTS,      /* 1, t */
    WV_BEND_SQUARES = 1 + 2 * WV_BEND_PARENTS, /* 1, t, t^2 - 1 */
};

typedef struct {
    size_t parents;
    size_t parent[WV_BEND_PARENTS];      /* numbers of the arguments */
    double precision[2][WV_BEND_SLOPES]; /* a_k, b_k */
    double location[2][WV_BEND_SQUARES]; /* of mu_k: constant, slopes [parents], squares [parents] */
} wv_bend_row;

/* A row at a point. */
typedef struct {
    double s, m;                                     /* log scale, location */
    double ds[WV_BEND_PARENTS], dm[WV_BEND_PARENTS]; /* derivatives by the arguments */
} wv_bend_place;

/* y = v. */
void wv_bend_row_clear(wv_bend_row *row);

/* At the arguments t[..], of which it takes its own. */
wv_bend_place wv_bend_row_at(const wv_bend_row *row, const double *t);

/* A row at n points, in columns that are `apart` numbers apart: scales exp(s), their logs and locations, and, if they
 * are wanted, derivatives of the last two by the arguments of the row. */
typedef struct {
    size_t apart;
    double *scale, *s, *m; /* [n] */
    double *ds, *dm;       /* [parents][apart] */
} wv_bend_places;

/* At arguments t[n][..], `apart` numbers apart; from the arena. */
wv_bend_places wv_bend_row_places(const wv_bend_row *row, size_t n, const double *t, size_t apart, bool slopes,
                                  wv_arena *arena);

/* n points: arguments t[n][r], values y and scores g = d log p / dy, `apart` numbers apart, and weights w (which sum to
 * 1). */
typedef struct {
    size_t n, r, apart;
    const double *t, *y, *g, *w;
} wv_bend_points;

/* Fits the row to scores, sum w huber(exp(s) g + exp(-s) (y - m)) with that ridge on slopes, from where it is; anew:
 * from y = v, with one expert first. Returns the cost. */
double wv_bend_row_fit(wv_bend_row *row, const wv_bend_points *p, double ridge, bool anew, wv_arena *arena);

/* At the points, times the roots of their weights: residuals r[apart] and their derivatives J[..][apart] by the
 * parameters of the row, whose number is returned; `apart` is at least n, a multiple of WV_BEND_BLOCK, and what is
 * beyond n is 0. M[..][..] = J J' with that ridge. */
enum { WV_BEND_BLOCK = 8, WV_BEND_TERMS = 2 * WV_BEND_SLOPES + 2 * WV_BEND_SQUARES };
size_t wv_bend_row_slopes(const wv_bend_row *row, const wv_bend_points *p, double ridge, size_t apart, double *J,
                          double *r, double *M, wv_arena *arena);

/* The same function after argument number `which` has become (t - shift) / scale. */
void wv_bend_row_rescale(wv_bend_row *row, size_t which, double shift, double scale);
#endif
