/* differences.h - gradients of a model that has none, from its values around each point of a batch. A part of the fit
 * between solver and caller: the solver asks for gradients at n points, the caller is asked for n (2D + 1) values, or
 * n (D + 1) where that is exact enough, and a few that measure how smooth the density is. */
#ifndef WV_DIFFERENCES_H
#define WV_DIFFERENCES_H
#include "archive.h"
#include <stdbool.h>
#include <stddef.h>

enum { WV_DIFFERENCES_KEPT = 16 }; /* measurements of noise */

/* The last measurements of sds of what is not smooth in log densities. */
typedef struct {
    size_t seen; /* so far */
    double sd[WV_DIFFERENCES_KEPT];
} wv_noise;

typedef struct {
    /* ---- saved ---- */
    size_t again;           /* times that the batch has been asked for again */
    size_t repeats;         /* the same of all batches */
    size_t doubt;           /* 1: differences from one side have vanished, on plateaus or at tops; both sides tell */
    double top;             /* the largest log density so far of a point, */
    double lowest, highest; /* and the least and the largest of all values that are finite */
    wv_noise noise, near;   /* anywhere; not far below the top */
    double *scale;          /* [D] distance over which the slope changes by its inverse */
    double *least;          /* [D] the least step, in scales, where differences of shorter ones vanish */

    /* ---- from one ask to its tell ---- */
    size_t D, room;         /* points at most; 0: the model has gradients */
    size_t points;          /* of the batch */
    bool learn;             /* scales from its curvature */
    size_t sides;           /* of a point along each coordinate that are asked for: 1 or 2 */
    size_t probes, turn;    /* places where noise is measured; along which coordinate the first is */
    size_t known;           /* of the points, those whose values are not asked for: all or none */
    size_t n;               /* values; 0: the batch itself is asked for */
    double *step;           /* [D] */
    double *x, *log_p;      /* [n][D], [n]: the points, those around them, those of the probes */
    double *memory, *large; /* where all of this is */
} wv_differences;

/* Values that are asked for at most about so many points. */
size_t wv_differences_most(size_t D, size_t points);

/* For batches of at most `room` points (0: there are none), and coordinates of this scale [D], until it is learned;
 * false without memory. */
bool wv_differences_new(wv_differences *d, size_t D, size_t room);
void wv_differences_free(wv_differences *d);
void wv_differences_set_scale(wv_differences *d, const double *scale);
bool wv_differences_archive(wv_differences *d, wv_archive *a);

/* Is one side enough? Noise is little, and differences do not vanish. */
bool wv_differences_exact(const wv_differences *d);

/* Fills x with what is asked for about the batch x[n][D]. `learn`: scales become those of the curvature that answers
 * show, for which both sides are asked for. */
void wv_differences_expand(wv_differences *d, size_t n, const double *x, bool learn);

/* The log densities of the points themselves are these; they are not asked for. */
void wv_differences_know(wv_differences *d, const double *log_p);

/* Where the answers may be put, log_p[n]. */
double *wv_differences_lend(const wv_differences *d);

/* Nothing is asked for but the batch itself. */
void wv_differences_leave(wv_differences *d);

/* Takes the answers told[d->n] and fills log_p[points], and grad[points][D] where there is density. False: the steps
 * were not what the answers show to be right, and the same batch is to be asked for again with others. */
bool wv_differences_collapse(wv_differences *d, const double *told, double *log_p, double *grad);

/* Have all values that are finite been the same? */
bool wv_differences_flat(const wv_differences *d);

/* Standard deviation of what is not smooth in the log densities: where it was last measured, and not far below the top
 * of the density (0: not known); and the largest step in units of its scale. */
double wv_differences_noise(const wv_differences *d);
double wv_differences_roughness(const wv_differences *d);
double wv_differences_longest(const wv_differences *d);
#endif
