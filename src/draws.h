/* draws.h - a set of draws: points, their answers, and the proposals that made them. A fit has the recent draws of its
 * mixture, the closing draws, which results are estimated from, and those of the last iterations of the joint
 * solver. */
#ifndef WV_DRAWS_H
#define WV_DRAWS_H
#include "archive.h"
#include "batch.h"
#include "mixture.h"
#include "wvgd.h"

enum {
    WV_BATCHES = 24,      /* batches of a set at most */
    WV_CHUNK = 4096,      /* closing draws asked for at once */
    WV_SURE_TRIAL = 1024, /* draws of a trial at most that is made to be sure */
};

/* A batch that has been taken: its points and the proposals that made them. */
typedef struct {
    size_t first, n, proposal, proposals;
} wv_draws_batch;

/* What a set keeps. */
typedef struct {
    size_t D, room;                /* dimensions; points at most */
    bool gradients;                /* gradients and strata */
    size_t cells;                  /* cells and densities of components, for so many; or 0 */
    size_t sources;                /* proposals at most; 0: none are kept */
    bool sums;                     /* what each batch's proposals add to the density at every point */
    size_t cached, cached_sources; /* squares of so many points in the coordinates of so many sources */
} wv_draws_shape;

/* A set of draws. */
typedef struct {
    wv_draws_shape shape;
    size_t n;
    size_t next;          /* where the next point goes in a set that keeps the last ones */
    double *x;            /* [room][D] points */
    double *log_p, *grad; /* [room], [room][D] answers */
    uint32_t *stratum;    /* [room] proposal of its batch that drew the point */
    double *log_m;        /* [room] log density of the mixture that was sampled; not with sums */
    size_t states, each;  /* the last points are so many states of chains, `each` of a chain one after the other */

    /* ---- batches and proposals: location, inverse root, log determinant of the root; draws as a Gaussian, degrees
     * of freedom and draws as a Student-t ---- */
    size_t batches;
    wv_draws_batch batch[WV_BATCHES];
    double *mu, *inverse, *log_det, *draws, *nu, *t_draws; /* [sources][D], [sources][D][D], [sources] each */
    double *log_sum; /* [room] with sums: log of the sum over proposals of draws x density, */
    double *part;    /* [WV_BATCHES][room] and of the proposals of each batch */

    /* ---- cells ---- */
    uint32_t *cell;     /* [room] cell of the point */
    double *near;       /* [room] cost to its particle */
    double *log_q;      /* [room] log density of the component of the cell */
    double *log_mix[2]; /* [room] log sum_j w_j q_j for two sets of weights; staged: the first is that of the mixture */
    double *sum_u;      /* [cells] sum over all points of q_j / m */

    /* ---- a cache, never saved: squares of the first `known` points in the coordinates of the last batch's sources,
     * which come from this version of the mixture ---- */
    wv_squares squares;
    size_t known, version;

    double *memory;
    uint32_t *index;
} wv_draws;

bool wv_draws_new(wv_draws *d, wv_draws_shape shape);
void wv_draws_free(wv_draws *d);

/* Cells of the draws are numbers below N from now on, which is no more than it was made for. */
void wv_draws_resize_cells(wv_draws *d, size_t N);

/* What there is of a set in a stage. */
typedef struct {
    bool left_out;      /* nothing that a later stage needs */
    bool cells;         /* there are cells and densities of components */
    size_t least, most; /* points */
} wv_draws_rule;

bool wv_draws_archive(wv_draws *d, wv_archive *a, wv_draws_rule rule);

/* Room for components of a staged fit in D dimensions that may have `most`; then for points and proposals with K of
 * them, and for doubles of whitened points that are kept. */
size_t wv_draws_components(size_t D, size_t most);
size_t wv_draws_points(size_t D, size_t K, size_t least);
size_t wv_draws_proposals(size_t K);
size_t wv_draws_kept(size_t D, size_t K, size_t least);

/* Draws of each of K components in a batch of a fit in D dimensions, at least. */
size_t wv_draws_each(size_t D, size_t K);

/* Draws of each of K components, so many or, an even number, as a batch of at least `least` points needs. */
size_t wv_draws_widened(size_t draws, size_t K, size_t least);

/* ---- points ------------------------------------------------------------------------------------------------------ */
/* Forgets everything. */
void wv_draws_clear(wv_draws *d);

/* Points from `first` on, as a batch: a view. */
wv_batch wv_draws_view(const wv_draws *d, size_t first);

/* The same draws with other numbers, which are the caller's: NULL leaves what there is. A view, not to be changed. */
typedef struct {
    double *x, *log_p, *grad, *log_m, *log_mix;
} wv_draws_numbers;
wv_draws wv_draws_with(const wv_draws *d, const wv_draws_numbers *other);

/* Appends points with cells and densities, and adds to sum_u. */
void wv_draws_append(wv_draws *d, const wv_batch *b);

/* Draws are independent in units: mirrored pairs, and the states of one chain. That of point i; how many; where the
 * points of the proposal that drew point `first` end. */
size_t wv_draws_unit(const wv_draws *d, size_t i);
size_t wv_draws_units(const wv_draws *d);
size_t wv_draws_end_of_proposal(const wv_draws *d, size_t first);

/* n states of chains, `each` of a chain, join a set without sums behind all draws: x[n][D], log_p[n], grad[n][D] where
 * the set has gradients. log m of all points is then for the caller to set. */
void wv_draws_add_states(wv_draws *d, size_t n, size_t each, const double *x, const double *log_p, const double *grad);
void wv_draws_forget_points(wv_draws *d); /* but not the proposals */
void wv_draws_set_log_m(wv_draws *d, const double *log_m);

/* Keeps the points of a batch, instead of the oldest where there is no more room. */
void wv_draws_collect(wv_draws *d, const wv_batch *b);

/* Everything but cells, into a set of the same shape. */
void wv_draws_copy(wv_draws *to, const wv_draws *from);

/* Cells cell[n] of the points from `first` on, and costs near[n] to their particles (each may be NULL). */
void wv_draws_set_cells(wv_draws *d, size_t first, size_t n, const uint32_t *cell, const double *near);

/* wv_draws_move: all points, their answers and log m, as they are in other coordinates.
 * Log density log_mix[n] of the mixture at all points; log m of the n points from `first` on becomes less by less[n].
 */
void wv_draws_set_mixture(wv_draws *d, const double *log_mix);
void wv_draws_move(wv_draws *d, const double *x, const double *log_p, const double *grad, const double *log_m);
void wv_draws_lower(wv_draws *d, size_t first, size_t n, const double *less);

/* Log densities log_q[n] of the component of cell j at the draws there with positive density, in their order. Others,
 * and those beyond n, get none. Writes to no draw of another cell. */
void wv_draws_set_log_q(wv_draws *d, size_t j, size_t n, const double *log_q);

/* Adds by[j] to the log densities of the components at the draws of each cell j. */
void wv_draws_add_log_q(wv_draws *d, const double *by);

/* ---- batches ----------------------------------------------------------------------------------------------------- */
/* Takes a batch, made by these proposals with the draws of each, and weighs all points of a set with sums anew. */
void wv_draws_take(wv_draws *d, const wv_batch *b, const wv_proposals *p, wv_workers *w);

/* The same for a batch of at most as many proposals as `squares` has rows (one for a Gaussian and its Student-t):
 * leaves there all points of the set in the coordinates of these. */
void wv_draws_take_measured(wv_draws *d, const wv_batch *b, const wv_proposals *p, const wv_squares *squares,
                            wv_workers *w);

/* Points that stand behind the last one already: another batch with its proposals, or more of the last batch, whose
 * proposals made them, too. For a set without sums. */
void wv_draws_add_batch(wv_draws *d, size_t n, const wv_proposals *p);
void wv_draws_extend_batch(wv_draws *d, size_t n, const wv_proposals *p);

/* Forgets the last batch, or all but the last `keep`. */
void wv_draws_drop_last(wv_draws *d, wv_arena *arena);
void wv_draws_forget(wv_draws *d, size_t keep, wv_arena *arena);

/* ---- densities --------------------------------------------------------------------------------------------------- */
wv_source wv_draws_source(const wv_draws *d, size_t i); /* proposal i */

/* log m of the points from `first` on: of all n of them, log of the sum over these sources, and with `batch` over the
 * proposals of that one, of draws x density / n; by their squares, which may be NULL. */
void wv_draws_weigh(wv_draws *d, const wv_sources *p, const wv_squares *squares, const size_t *batch, size_t first,
                    wv_workers *w);

/* Squares of all points in the coordinates of these sources, which belong to a version of the mixture: worked out where
 * they are not known. NULL: there is no room for them. */
const wv_squares *wv_draws_cached_squares(wv_draws *d, const wv_sources *p, size_t version, wv_workers *w);
#endif
