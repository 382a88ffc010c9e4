/* closing_draws.h - the draws that results are estimated from, with either solver. */
#ifndef WV_CLOSING_DRAWS_H
#define WV_CLOSING_DRAWS_H
#include "archive.h"
#include "batch.h"
#include "draws.h"

/* Squares |y|^2 of the first n draws in the coordinates of the proposals that one version of the mixture has given. */
typedef struct {
    wv_squares squares;
    size_t n, version;
    double *memory;
} wv_closing_seen;

/* Closing draws, with what they say of the posterior. */
typedef struct {
    size_t N, D;
    size_t room, strata;         /* draws and proposals at most */
    bool gradients;              /* gradients are kept, too */
    size_t planned;              /* draws in a block of the present stage, fixed before the first */
    size_t block;                /* blocks complete */
    size_t trial;                /* of the draws, those of the trial, which stand first */
    wv_batch draws;              /* [room] before the closing stages: points that kmeans.c keeps */
    double *made;                /* [strata] draws of each proposal of the final batch */
    double *wide_mu, *wide_root; /* staged: [D], [D][D] the wide Student-t of the proposal */
    wv_closing_seen seen;        /* staged: a cache, never saved */
    double *v, *log_w;           /* [n] normalised posterior weights, and the logs of these, */
    double *smooth;              /* [n] Pareto-smoothed log weights, */
    double *calibrated;          /* [n] and weights calibrated by Stein's identities */
    double *memory;
    uint32_t *index;
} wv_closing;

/* What a stage has made of the draws, and what the next one relies on. */
typedef struct {
    bool cells, weights;       /* there are cells and densities of components; weights for the posterior */
    bool some, blocks;         /* there is one draw at least; draws are within the present block */
    size_t most, planned_most; /* draws at most, and those that are planned */
} wv_closing_rule;

bool wv_closing_new(wv_closing *c, size_t N, size_t D, size_t room, size_t strata, bool gradients);
void wv_closing_free(wv_closing *c);
bool wv_closing_archive(wv_closing *c, wv_archive *a, wv_closing_rule rule);

/* Weights [n] of the draws, calibrated by Stein's identities; some may be negative. */
void wv_closing_set_calibrated(wv_closing *c, const double *weight);

/* Room for squares of so many draws in the coordinates of so many places; false without memory. */
bool wv_closing_seen_new(wv_closing *c, size_t places, size_t points);

/* Draws whose squares are known for this version of the mixture. Whoever replaces draws forgets those from the first
 * of these on. */
size_t wv_closing_seen_known(const wv_closing *c, size_t version);
void wv_closing_seen_forget(wv_closing *c, size_t from);

/* Log densities log_q[n] of the component of cell j at the draws there with positive density, in their order. Others,
 * and those beyond n, get none. Writes to no draw of another cell. */
void wv_closing_set_log_q(wv_closing *c, size_t j, size_t n, const double *log_q);

/* Draws with gradients and what is calibrated of them, into a part of the same shape; neither cells nor weights. */
void wv_closing_copy(wv_closing *to, const wv_closing *from);

/* Before the closing stages: keeps the points of a batch, in the place of the oldest where there are more than `most`.
 * *next: where the next one goes, which the caller remembers. */
void wv_closing_collect(wv_closing *c, const wv_batch *b, size_t most, size_t *next);
void wv_closing_clear(wv_closing *c);

/* Forgets the draws; the next come in blocks of so many. */
void wv_closing_plan(wv_closing *c, size_t planned);

/* Appends points with cells and densities, and adds to sum_u. */
void wv_closing_append(wv_closing *c, const wv_batch *b);
#endif
