/* bend_pool.h - points that a bend is fitted to: those that the solver has paid for anyway, then those of its own
 * batches (docs/internals/bend.md). */
#ifndef WV_BEND_POOL_H
#define WV_BEND_POOL_H
#include "archive.h"
#include <stdbool.h>
#include <stddef.h>

/* Points of the user's, with their gradients. */
typedef struct {
    size_t D, room;
    size_t ring;   /* of the room, for the last points before there is a bend */
    size_t n;      /* points */
    size_t next;   /* where the next goes, as long as they go round */
    size_t round;  /* of the fit, 0 before there is a bend; it goes back where more arguments are found */
    size_t batch;  /* batches since the bend was found */
    size_t looks;  /* that have found more arguments */
    bool lines;    /* lines alone: the axes are independent */
    double *x, *g; /* [room][D] */
    double *log_p; /* [room] */
    double *born;  /* [room] batch in which a point came */
    double *memory;
} wv_bend_pool;

bool wv_bend_pool_new(wv_bend_pool *p, size_t D);
void wv_bend_pool_free(wv_bend_pool *p);
bool wv_bend_pool_archive(wv_bend_pool *p, wv_archive *a);

/* Points of a batch for the fit. */
size_t wv_bend_batch(size_t D);

/* Of n points, those that have density are kept: the last ones, or, once a bend has been found, all for which there
 * is room. */
void wv_bend_pool_take(wv_bend_pool *p, size_t n, const double *x, const double *log_p, const double *grad);
void wv_bend_pool_clear(wv_bend_pool *p);

/* A bend has been left: points of its fit stay, and others join them. */
void wv_bend_pool_reopen(wv_bend_pool *p);

/* Only the last points within reach of the Gaussian of this mean and root [D][D] stay; z[n][D] whitened, rho[n][D] what
 * it leaves of their scores. */
void wv_bend_pool_whiten(wv_bend_pool *p, const double *mu, const double *root, double *z, double *rho);
#endif
