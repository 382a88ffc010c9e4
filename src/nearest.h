/* nearest.h - the nearest particle of many points. */
#ifndef WV_NEAREST_H
#define WV_NEAREST_H
#include "simd/int_scores.h"
#include "wvgd.h"

/* Nearest particle of each point (lowest index on ties), the cost to it and to the second nearest
 * (INFINITY when N = 1). */
void wv_nearest_assign(const wvgd_fit *f, size_t n, const double *x, uint32_t *cell, double *near, double *next);

/* The same for particles z[N][D] under the squared distance. */
void wv_nearest_nearest(const wvgd_fit *f, const double *z, size_t n, const double *x, uint32_t *cell, double *near,
                        double *next);

/* Particles as whole numbers. */
typedef struct {
    wv_int_scores_words w; /* particles less their mean, times `scale`; the columns are those of who looks at them */
    double *middle;        /* [D] their mean, */
    double radius;         /* the largest distance of one from it, */
    double scale, rest;    /* and of one from what it was rounded to */
    bool fit;              /* they are neither too large nor too small */
} wv_nearest_rounded;

/* The particles of a fit as whole numbers, for one batch: wv_nearest_prepare makes them, before work is shared, and
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
 * middle (false: that is of no use), which finds the cells of up to 2 WV_COLUMNS rows at a time. The sieve lies in
 * f->arena: who makes one marks the arena before and releases it afterwards. second: `next` is wanted. */
void wv_nearest_prepare(wvgd_fit *f);
bool wv_nearest_mirrored(const wvgd_fit *f, const double *middle, wv_nearest_sieve *s);
void wv_nearest_assign_mirrored(const wvgd_fit *f, wv_nearest_sieve *s, size_t n, const double *x, uint32_t *cell,
                                double *near, double *next, bool second);

/* Doubles of scratch, for scratch.c; nothing here uses it. */
size_t wv_nearest_narrow_size(size_t N, size_t D);
size_t wv_nearest_rounded_size(size_t N, size_t D);
#endif
