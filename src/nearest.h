/* nearest.h - the nearest particle of many points. */
#ifndef WV_NEAREST_H
#define WV_NEAREST_H
#include "arena.h"
#include "cost.h"
#include "simd/int_scores.h"

/* Nearest particle of each point (lowest index on ties), the cost to it and to the second nearest
 * (INFINITY when N = 1). */
void wv_nearest_assign(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena);

/* Particles as whole numbers. */
typedef struct {
    wv_int_scores_words w; /* particles less their mean, times `scale`; the columns are those of who looks at them */
    double *middle;        /* [D] their mean, */
    double radius;         /* the largest distance of one from it, */
    double scale, rest;    /* and of one from what it was rounded to */
    bool fit;              /* they are neither too large nor too small */
} wv_nearest_rounded;

/* The particles of a fit as whole numbers, for one batch: wv_nearest_prepare makes them, before the workers start, and
 * all workers read them. */
typedef struct {
    double *middle; /* [D]; NULL: particles are few, or this processor cannot use whole numbers */
    int32_t *words;
    bool made;
    wv_nearest_rounded particles;
} wv_nearest_batch;

/* False without memory. */
bool wv_nearest_batch_new(wv_nearest_batch *b, size_t N, size_t D);
void wv_nearest_batch_free(wv_nearest_batch *b);

/* Particles in single precision, relative to a point in their middle, and what is needed to tell
 * how wrong distances from them may be. */
typedef struct {
    size_t N, D;
    float *z, *x, *square;             /* [N][D], [D][WV_COLUMNS] of a block of points, [N] |z|^2 */
    const double *wide;                /* [N][D] the particles themselves */
    double *middle;                    /* [D] */
    double radius;                     /* the largest distance of a particle from the middle */
    bool made;                         /* z and square are there */
    const wv_nearest_rounded *rounded; /* NULL: whole numbers are of no use */
    wv_int_scores_words w;             /* these, with columns and the rest */
    double apart;                      /* the distance between both middles */
    wv_int_scores_list list;           /* candidates, */
    double *distance;                  /* [candidates] how far these are, */
    float *e;                          /* and points of a block, in rows of whole vectors */
} wv_nearest_sieve;

/* Cells of rows of which each two are mirror images about `middle`, middle + e and middle - e: with many
 * particles that takes half the time. First the particles are seen, once for all workers; then each makes a sieve for a
 * middle (false: that is of no use), which finds the cells of up to 2 WV_COLUMNS rows at a time. The sieve lies in the
 * arena: who makes one marks it before and releases it afterwards. second: `next` is wanted. */
void wv_nearest_prepare(wv_nearest_batch *b, const wv_geometry *g, wv_arena *arena);
bool wv_nearest_mirrored(const wv_nearest_batch *b, const wv_geometry *g, const double *middle, wv_nearest_sieve *s,
                         wv_arena *arena);
void wv_nearest_assign_mirrored(wv_nearest_sieve *s, size_t n, const double *x, uint32_t *cell, double *near,
                                double *next, bool second, wv_arena *arena);
#endif
