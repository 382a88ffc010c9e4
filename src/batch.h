/* batch.h - points that are asked for together, and the proposals that made them. */
#ifndef WV_BATCH_H
#define WV_BATCH_H
#include "gaussian.h"
#include <stdint.h>

typedef struct {
    size_t n;
    size_t extra;         /* of these, points that are there because of min_batch */
    size_t values;        /* of the density that it has taken: more than n where gradients are differences */
    double *x;            /* [n][D] points */
    double *log_p, *grad; /* [n], [n][D] as told; bad points have log_p = -INFINITY and grad = 0 */
    double *log_m;        /* [n] log density of the mixture sampled */
    double *log_q;        /* [n] log density of the component that owns the point's cell */
    double *log_mix[2];   /* [n] log sum_j w_j q_j for two sets of weights */
    double *near, *next;  /* [n] cost to the nearest and to the second nearest particle */
    uint32_t *cell;       /* [n] nearest particle */
    uint32_t *stratum;    /* [n] proposal that drew the point */
    double *sum_u;        /* [N] sum over all points of q_j / m */
    double *memory;       /* of a batch that owns its arrays */
    uint32_t *index;
    struct {
        double *x, *log_p, *grad;
        uint32_t *stratum;
    } own; /* its own arrays, while points and answers stand elsewhere */
} wv_batch;

/* Room for n points in D dimensions, and for sums over N cells; false without memory. */
bool wv_batch_new(wv_batch *b, size_t n, size_t D, size_t N, bool gradients);
void wv_batch_free(wv_batch *b);

/* Points, answers and strata are made and told in the arrays of `to`, without a copy; and in its own again. */
void wv_batch_put(wv_batch *b, const wv_batch *to);
void wv_batch_put_back(wv_batch *b);

/* Points of a batch listed by cell: those of cell j are order[start[j]] .. order[start[j + 1] - 1]. */
typedef struct {
    uint32_t *order; /* [n] */
    size_t *start;   /* [N + 1] */
} wv_cell_lists;

typedef struct {
    wv_gaussian q;
    double log_alpha; /* log share in the mixture that was sampled */
} wv_proposal;

/* Points of a batch that lie one after the other: draws of one proposal from number `number` on. */
typedef struct {
    size_t first, n, proposal, number;
} wv_stretch;

/* Proposals of a batch; with the joint solver the first N are the components. */
typedef struct {
    size_t n;
    wv_proposal *p;      /* [3N + 3 + those of a closing batch] */
    size_t *draws;       /* [the same] of each */
    wv_stretch *stretch; /* [3N + 3 + WV_PIECES] */
} wv_proposals;

/* For N components, besides `others`, and stretches of so many pieces at most; false without memory. */
bool wv_proposals_new(wv_proposals *p, size_t N, size_t others, size_t pieces);
void wv_proposals_free(wv_proposals *p);
#endif
