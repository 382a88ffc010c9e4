/* bend_fit.h - finds the arguments of a bend and fits it, by regression of scores on points that have been paid for
 * (docs/internals/bend.md). */
#ifndef WV_BEND_FIT_H
#define WV_BEND_FIT_H
#include "archive.h"
#include "coordinates/bend.h"
#include "rng.h"

/* Points of the user's, with their gradients. */
typedef struct {
    size_t D, room;
    size_t ring;   /* of the room, for the last points before there is a bend */
    size_t n;      /* points */
    size_t next;   /* where the next goes, as long as they go round */
    size_t round;  /* of the fit, 0 before there is a bend; it goes back where more arguments are found */
    size_t batch;  /* batches since the bend was found */
    size_t looks;  /* that have found more arguments */
    double *x, *g; /* [room][D] */
    double *log_p; /* [room] */
    double *born;  /* [room] batch in which a point came */
    double *memory;
} wv_bend_pool;

bool wv_bend_pool_new(wv_bend_pool *p, size_t D);
void wv_bend_pool_free(wv_bend_pool *p);
bool wv_bend_pool_archive(wv_bend_pool *p, wv_archive *a);

/* Of n points, those that have density are kept: the last ones, or, once a bend has been found, all for which there
 * is room. */
void wv_bend_pool_take(wv_bend_pool *p, size_t n, const double *x, const double *log_p, const double *grad);
void wv_bend_pool_clear(wv_bend_pool *p);

/* A bend has been left: points of its fit stay, and others join them. */
void wv_bend_pool_reopen(wv_bend_pool *p);

/* Looks for arguments around the Gaussian of this mean and root [D][D]; false: there are none. Otherwise the bend has
 * its frame and a first fit. */
bool wv_bend_find(wv_bend_pool *p, wv_bend *b, const double *mu, const double *root, wv_arena *arena);

/* Points of the next batch, and how many in all; x[n][D] from the present map, wider than it. */
size_t wv_bend_batch(size_t D);
void wv_bend_draw(const wv_bend_pool *p, const wv_bend *b, const wv_stream *stream, size_t n, double *x,
                  wv_arena *arena);

/* Takes a batch and fits again; true: it was the last. */
bool wv_bend_learn(wv_bend_pool *p, wv_bend *b, size_t n, const double *x, const double *log_p, const double *grad,
                   wv_arena *arena);
#endif
