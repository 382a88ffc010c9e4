/* bend.h - bent coordinates: a map x = f(u) under which a funnel, a banana or a hierarchy becomes nearly a standard
 * normal (docs/internals/bend.md). The solver works in u and sees log p(f(u)) + log |det df/du|; the user sees x.
 *
 *     v_i = line_i(u_i)                                    a monotone map of each coordinate
 *     w_i = m_i(w_<i) + exp(s_i(w_<i)) v_i                 i < r: the arguments, one after the other
 *     v  <- C(w_<r) v + o(w_<r)                            i >= r: the others, in an affine layer,
 *     v  <- T (m(w_<r) + exp(s(w_<r)) T'v)                 in layers, each in a basis of its own
 *     w_i = m_i(w_<r) + exp(s_i(w_<r)) v_i                 and a last one, in that of the frame
 *     x   = centre + basis w */
#ifndef WV_BEND_H
#define WV_BEND_H
#include "archive.h"
#include "arena.h"
#include "coordinates/bend_affine.h"
#include "coordinates/bend_line.h"
#include "coordinates/bend_row.h"
#include "wvgd.h"

enum { WV_BEND_LAYERS = 3 }; /* at most, besides the last one */

/* A layer of the others: row[D], of which those from r on are used, in the basis turn [D - r][D - r], orthonormal; its
 * columns belong to the rows. */
typedef struct {
    wv_bend_row *row;
    double *turn;
} wv_bend_layer;

typedef struct {
    size_t D;
    size_t r;         /* arguments */
    size_t layers;    /* besides the last one; number 0 comes right before it */
    bool on;          /* the solver works in u */
    size_t tried;     /* maps fitted so far */
    size_t points;    /* evaluations for them */
    double *centre;   /* [D] */
    double *basis;    /* [D][D] its columns belong to w */
    double *inverse;  /* [D][D] of the basis */
    double log_det;   /* log |det basis| */
    wv_bend_row *row; /* [D] of the arguments, and the last layer of the others */
    wv_bend_layer layer[WV_BEND_LAYERS];
    wv_bend_affine affine; /* the first layer of the others */
    wv_bend_line *line;    /* [D] */
    double *shown;         /* [most][D] the points that are asked for, in x */
    double *memory;
} wv_bend;

/* In D dimensions, for batches of at most `most` points; false without memory. D = 0: there is none. */
bool wv_bend_new(wv_bend *b, size_t D, size_t most);
void wv_bend_free(wv_bend *b);
bool wv_bend_archive(wv_bend *b, wv_archive *a);

/* x = u from now on, through this centre and basis [D][D]; false: the basis has no inverse. */
bool wv_bend_set_frame(wv_bend *b, size_t r, const double *centre, const double *basis, wv_arena *arena);
void wv_bend_set_row(wv_bend *b, size_t i, const wv_bend_row *row);
void wv_bend_set_line(wv_bend *b, size_t i, const wv_bend_line *line);

/* Layers of the others: none, not even the affine one; one more before those there are, whose basis is turn [D - r][D -
 * r] and whose rows are row[D - r]. */
void wv_bend_clear_layers(wv_bend *b);
void wv_bend_add_layer(wv_bend *b, const double *turn, const wv_bend_row *row);

/* The affine layer: it depends on the first `parents` arguments, and slice[1 + 2 parents][k][k + 1], k = D - r, is
 * added to its slices; anew: to none. It is fitted last, and changes of the frame or the arguments do without it. */
void wv_bend_add_affine(wv_bend *b, size_t parents, const double *slice, bool anew);

/* Argument j is measured from `shift`, in units of `scale`: the map stays, but for the row of j, which is cleared. */
void wv_bend_rescale(wv_bend *b, size_t j, double shift, double scale, wv_arena *arena);

/* Argument j leans: delta[D] times the coordinates is added to what it measures, delta[j] being 0; rows stay. */
void wv_bend_lean(wv_bend *b, size_t j, const double *delta);

/* The others are turned: their columns of the basis become these times T [D - r][D - r], which is orthonormal. Rows
 * stay. */
void wv_bend_rotate(wv_bend *b, const double *T, wv_arena *arena);

/* Arguments i and j change places; their own rows and lines stay where they were, for others to follow. */
void wv_bend_swap(wv_bend *b, size_t i, size_t j);

void wv_bend_switch(wv_bend *b, bool on);
void wv_bend_count(wv_bend *b, size_t tried, size_t points);

/* x[n][D] = f(u[n][D]); log_det[n] of df/du, unless NULL. */
void wv_bend_forward(const wv_bend *b, size_t n, const double *u, double *x, double *log_det, wv_arena *arena);

/* u[n][D] of x[n][D]. */
void wv_bend_inverse(const wv_bend *b, size_t n, const double *x, double *u, wv_arena *arena);

/* log_p[n] += log |det df/du| at u[n][D], and grad[n][D], unless NULL, from that by x to that by u of what log_p has
 * become. Points without density stay so; those where it is not finite, and those where others are so narrow that
 * rounding of x would decide, have none. */
void wv_bend_pull(const wv_bend *b, size_t n, const double *u, double *log_p, double *grad, wv_arena *arena);

/* The other way: log_p and grad as the solver has them to those of the user. */
void wv_bend_push(const wv_bend *b, size_t n, const double *u, double *log_p, double *grad, wv_arena *arena);

/* The points of a batch as the user sees them: x itself, or where they stand in x. */
const double *wv_bend_show(wv_bend *b, size_t n, const double *x, wv_arena *arena);
#endif
