/* bend_fit.h - finds the arguments of a bend and fits it, by regression of scores on points that have been paid for
 * (docs/internals/bend.md). */
#ifndef WV_BEND_FIT_H
#define WV_BEND_FIT_H
#include "coordinates/bend.h"
#include "coordinates/bend_pool.h"
#include "rng.h"

/* Whether there seem to be arguments around the Gaussian of this mean and root [D][D]; the pool stays as it is. */
bool wv_bend_seems(const wv_bend_pool *p, const double *mu, const double *root, wv_arena *arena);

/* Looks for arguments around the Gaussian of this mean and root [D][D]; false: there are none. Otherwise the bend has
 * its frame and a first fit. */
bool wv_bend_find(wv_bend_pool *p, wv_bend *b, const double *mu, const double *root, wv_arena *arena);

/* Have the arguments rows and lines, so that the points tell what the map leaves of their density? */
bool wv_bend_tells_arms(const wv_bend_pool *p);

/* x[n][D] for the next batch, from the present map, wider than it. */
void wv_bend_draw(const wv_bend_pool *p, const wv_bend *b, const wv_stream *stream, size_t n, double *x,
                  wv_arena *arena);

/* Takes a batch and fits again; true: it was the last. */
bool wv_bend_learn(wv_bend_pool *p, wv_bend *b, size_t n, const double *x, const double *log_p, const double *grad,
                   wv_arena *arena);
#endif
