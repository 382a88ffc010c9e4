/* sources.h - weighted Gaussians and Student-t's, and their densities at many points. Every density of a mixture, of
 * either solver, is worked out here. */
#ifndef WV_SOURCES_H
#define WV_SOURCES_H
#include "gaussian.h"
#include "simd/columns.h"
#include "workers.h"

/* A Gaussian and a Student-t of the same location and root, each with a weight: the draws that it has made, say. The
 * root is given in one of three ways. */
typedef struct {
    const double *mu;      /* [D] */
    const double *inverse; /* [D][D] inverse of the root */
    const double *scale;   /* or [D] the inverses of a diagonal one */
    const wv_gaussian *q;  /* or a Gaussian whose family whitens */
    double log_det;        /* of the root */
    double weight;         /* of the Gaussian */
    double nu, t_weight;   /* of the Student-t: degrees of freedom, weight */
    double like;           /* if not 0: the squares |y|^2 here are those of the source before, times this */
} wv_source;

/* n sources: at(self, c) is that of number c. */
typedef struct {
    wv_source (*at)(const void *self, size_t c);
    const void *self;
    size_t n, D;
} wv_sources;

/* Squares |y|^2 of points in the coordinates of sources, a row for each source. */
typedef struct {
    size_t row; /* points that there is room for, a multiple of WV_COLUMNS */
    double *r;  /* [sources][row] */
    double *y;  /* [sources][row / WV_COLUMNS][D][WV_COLUMNS] the points in these coordinates, or NULL; only of sources
                 * with an inverse root */
} wv_squares;

/* Room for n points in the coordinates of so many sources, from the arena; with at most `keep` doubles for the points
 * themselves, too. */
wv_squares wv_sources_squares(size_t D, size_t sources, size_t n, size_t keep, wv_arena *arena);

/* Squares of the points x[n][D], of which the first `known` are there already. */
void wv_sources_measure(const wv_sources *p, size_t known, size_t n, const double *x, const wv_squares *to,
                        wv_workers *w);

/* log_sum[n], the log of the sum over sources of weight x density at the points x[n][D]; and what adds it. squares: of
 * these points, whose rows are read up to 7 numbers beyond the last; NULL: worked out. */
void wv_sources_log(const wv_sources *p, size_t n, const double *x, const wv_squares *squares, double *log_sum,
                    wv_workers *w);
void wv_sources_add(const wv_sources *p, size_t n, const double *x, const wv_squares *squares, double *log_sum,
                    wv_workers *w);

/* For those who take sums of their own, of sources each of which is a Gaussian or a Student-t and like no other: the
 * constants [sources] of their log densities, without weights; and, with these, the log densities
 * log_q[sources][WV_COLUMNS] of at most WV_COLUMNS points x[n][D]. Columns up to the rounded n are written. */
void wv_sources_constants(const wv_sources *p, double *constant);
void wv_sources_each(const wv_sources *p, const double *constant, size_t n, const double *x, double *log_q,
                     wv_arena *arena);

/* Blocks of WV_COLUMNS points that n points fill, and the points in number `at` of them. */
size_t wv_sources_blocks(size_t n);
size_t wv_sources_points(size_t n, size_t at);
#endif
