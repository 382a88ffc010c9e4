/* batch_density.h - densities of the points of a batch under the proposals that made it. */
#ifndef WV_BATCH_DENSITY_H
#define WV_BATCH_DENSITY_H
#include "batch.h"
#include "wvgd.h"

/* Densities of the points of a batch under the proposals that made it: fills log_m, log_q (needs b->cell), log_mix
 * for the two sets of weights w[2][N] (either may be NULL), and adds to sum_u. */
void wv_batch_density(wvgd_fit *f, wv_batch *b, const double *const w[2]);

/* The same where the proposals are not the components (shared_proposals.h): points are listed by cell, and only the
 * component of a point's own cell is evaluated, so sum_u is its expectation, the number of points, and log_mix, which
 * tells of its noise, is -INFINITY. First what the proposals have in common for all points, then points from `first`
 * on, whose cells are known, by whoever has them at hand, and then the rest, when all are listed by cell. The arrays
 * of a plan come from f->arena, and whoever made it releases them. */
typedef struct {
    const wv_proposals *proposals;
    size_t D;
    size_t *at;        /* [proposals] where in `roots` is */
    double *roots;     /* the inverse root [D][D] of a full proposal, or the inverse scales [D] of a diagonal one */
    double *log_det;   /* [proposals] log determinants of the roots */
    double *constant;  /* [proposals] constants of the log densities */
    double *share;     /* [proposals] shares of all */
    const double *own; /* [N][D + 1] inverse scales of diagonal components and constants of log densities, or NULL */
} wv_batch_density_plan;
wv_batch_density_plan wv_batch_density_begin(wvgd_fit *f);
void wv_batch_density_some(wvgd_fit *f, wv_batch *b, const wv_batch_density_plan *plan, size_t first, size_t n);
void wv_batch_density_end(wvgd_fit *f, wv_batch *b, const wv_batch_density_plan *plan, const wv_cell_lists *lists);
#endif
