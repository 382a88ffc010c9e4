/* draws.h - points with the proposals that made them, and their weights under the mixture of all
 * these (deterministic-mixture weights). */
#ifndef WV_DRAWS_H
#define WV_DRAWS_H
#include "archive.h"
#include "batch.h"
#include "wvgd.h"

enum { WV_BATCHES = 24 }; /* batches that are kept */

/* A batch that has been taken: its points and the proposals that made them. */
typedef struct {
    size_t first, n, proposal, proposals;
} wv_draws_batch;

/* Points of the last batches and the proposals that made them. */
typedef struct {
    size_t D;
    size_t room, places; /* points and proposals at most */
    size_t batches;
    wv_draws_batch batch[WV_BATCHES];
    double *x, *grad, *log_p; /* [n][D], [n][D], [n] */
    double *log_sum;          /* [n] log of the sum over proposals of draws x density, */
    double *part;             /* [WV_BATCHES][room] and of the proposals of each batch */
    /* proposals: location, inverse root, log determinant of the root; draws as a Gaussian, degrees of freedom and
     * draws as a Student-t */
    double *mu, *inverse, *log_det, *share, *nu, *tails;
    double *memory;
} wv_draws;

bool wv_draws_new(wv_draws *d, size_t D, size_t room, size_t places);
void wv_draws_free(wv_draws *d);
bool wv_draws_archive(wv_draws *d, wv_archive *a, bool running);

/* A Gaussian and a Student-t of the same location and root, with the draws that each has made. */
typedef struct {
    const double *mu, *inverse; /* [D]; [D][D] inverse of the root */
    double log_det;             /* of the root */
    double share, nu, tails;    /* draws of the Gaussian; degrees of freedom and draws of the Student-t */
    double like;                /* if not 0: the squares |y|^2 here are those of the place before, times this */
} wv_place;

/* n places: at(self, c) is that of number c. */
typedef struct {
    wv_place (*at)(const void *self, size_t c);
    const void *self;
    size_t n;
} wv_places;

/* Squares |y|^2 of points in the coordinates of places, a row for each place. */
typedef struct {
    size_t row; /* points that there is room for, a multiple of WV_COLUMNS */
    double *r;  /* [places][row] */
    double *y;  /* [places][row / WV_COLUMNS][D][WV_COLUMNS] the points in these coordinates, or NULL */
} wv_squares;

/* Room for components, points and proposals of a staged fit in D dimensions; doubles of whitened points that
 * are kept; doubles for a block of points. */
size_t wv_draws_components(const wvgd_fit *f);
size_t wv_draws_points(const wvgd_fit *f);
size_t wv_draws_proposals(const wvgd_fit *f);
size_t wv_draws_kept(const wvgd_fit *f);
size_t wv_draws_work(size_t D);

/* Draws of each of K components in a batch of a fit in D dimensions, at least. */
size_t wv_draws_each(size_t D, size_t K);

void wv_draws_clear(wvgd_fit *f);

/* Points in the pool. */
size_t wv_draws_size(const wvgd_fit *f);

/* Takes a batch, made by f->proposals with the draws of each, into the pool and weighs all points anew. */
void wv_draws_take(wvgd_fit *f, const wv_batch *b);

/* The same for a batch of at most as many proposals as `seen` has rows (one for a Gaussian and its Student-t): leaves
 * there all points of the pool in the coordinates of these. */
void wv_draws_take_seen(wvgd_fit *f, const wv_batch *b, const wv_squares *seen);

/* Forgets the last batch. */
void wv_draws_drop_last(wvgd_fit *f);

/* Forgets all batches but the last `keep`. */
void wv_draws_forget(wvgd_fit *f, size_t keep);

/* Room for n points in the coordinates of so many places, from f->arena; with `keep` for the points themselves, too,
 * if they are not too many. */
wv_squares wv_draws_squares(wvgd_fit *f, size_t places, size_t n, bool keep);

/* Adds log of the sum over places of draws x density to log_sum[n] at the points x[n][D]. */
void wv_draws_add(wvgd_fit *f, const wv_places *p, size_t n, const double *x, double *log_sum);

/* The same in two steps: squares of the points x[n][D], of which the first `known` are there already; and the sum at
 * n of the points, from `first` on. Rows are read up to 7 numbers beyond that. */
void wv_draws_measure(wvgd_fit *f, const wv_places *p, size_t known, size_t n, const double *x, const wv_squares *to);
void wv_draws_sum(wvgd_fit *f, const wv_places *p, const wv_squares *s, size_t first, size_t n, double *log_sum);

/* The proposals of batch b as a mixture: adds log sum_c share_c q_c to log_sum[n] at the points x[n][D]. */
void wv_draws_add_density(wvgd_fit *f, size_t b, size_t n, const double *x, double *log_sum);
#endif
