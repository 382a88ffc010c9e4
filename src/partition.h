/* partition.h - particles, their cells and the components of these: what a fit adapts and what it reports. */
#ifndef WV_PARTITION_H
#define WV_PARTITION_H
#include "archive.h"
#include "arena.h"
#include "batch.h"
#include "cost.h"
#include "gaussian.h"

/* What is adapted. */
typedef struct {
    double *z;            /* [N][D] particles */
    double *mu;           /* [N][D] component locations */
    double *root;         /* [N][family->size] component roots */
    double *spread;       /* [N][cell_family->size] roots of the posterior's covariance in each cell */
    double *metric;       /* [metric_family->size] root of the covariance that the mahalanobis cost divides by */
    double *centre;       /* [D] posterior mean, smoothed */
    double *elbo;         /* [N] smoothed ELBO_j: softmax gives the weights that judge the next batch */
    double *runaways;     /* [N] times that a component ran away from its cell */
    double *beta, *beta2; /* [N] means of beta_j and its square since the cells have been at rest */
} wv_ensemble;

/* Sizes and shapes. */
typedef struct {
    size_t N, D, R;
    const wv_family *family, *cell_family, *metric_family; /* of components, of cells, of the metric */
    wv_cost cost;
} wv_shape;

typedef struct {
    wv_shape shape;
    wv_ensemble now, best;        /* current and best state */
    size_t refined;               /* rounds of evaluations that the components of the cells have had */
    double *around;               /* [N] flags: draws of the component in its cell come from around the particle, too */
    double *beta, *beta_se;       /* [N] masses of the cells */
    double *weight, *weight_beta; /* [N] of the components in the ensemble: optimal ones, and masses */
    double *log_Z, *elbo, *elbo_se; /* [N] */
    double *ess, *pareto_k;         /* [N] of the closing draws in each cell */
    double *gain, *gain_se;         /* [N] nats that another step of the component would win */
    double *excess, *excess_se;     /* [N] ELBO_j as the mixture has it less the measured one; NAN: not known */
    double *memory;
} wv_partition;

/* All zero, but for results, which are NAN; false without memory. */
bool wv_partition_new(wv_partition *p, wv_shape shape);
/* As many cells, no more than it was made for; what is known of the first ones stays. */
void wv_partition_resize(wv_partition *p, size_t N);
/* Nothing is known of the cells from number `first` on. */
void wv_partition_forget(wv_partition *p, size_t first);
void wv_partition_free(wv_partition *p);
bool wv_partition_archive(wv_partition *p, wv_archive *a);

/* The best state so far is kept, and gone back to. */
void wv_partition_keep(wv_partition *p);
void wv_partition_go_back(wv_partition *p);

/* The particles with the cost that makes the cells: it follows them as they move. */
wv_geometry wv_partition_geometry(const wv_partition *p);

wv_gaussian wv_partition_component(const wv_partition *p, size_t j);
/* first[N]: the first cell with the component of each. */
void wv_partition_first_same(const wv_partition *p, size_t *first, wv_arena *arena);
wv_gaussian wv_partition_spread(const wv_partition *p, size_t j);   /* N(z_j, covariance of the cell) */
wv_gaussian wv_partition_proposal(const wv_partition *p, size_t j); /* the same as a proposal: a Student-t */

/* Particle j and its component are at z, [D]; component and spread have the shape of g, or where they are of another
 * family its standard deviations sd[D]. */
void wv_partition_place(wv_partition *p, size_t j, const double *z, const wv_gaussian *g, const double *sd);
void wv_partition_set_metric(wv_partition *p, const double *root); /* [metric_family->size] */

/* The metric follows, by a share `keep`, the covariance of points x[n][D] with weights that sum to 1. */
void wv_partition_follow_metric(wv_partition *p, size_t n, const double *x, const double *weight, double keep,
                                wv_arena *arena);

/* Particle j, or all of them, go to z[D] or z[N][D]; or by a share of the way. */
void wv_partition_move(wv_partition *p, size_t j, const double *z);
void wv_partition_move_all(wv_partition *p, const double *z);
void wv_partition_move_towards(wv_partition *p, size_t j, double share, const double *z);

/* The spread of cell j becomes root[cell_family->size], or independent coordinates with sd[D]; follows, by a share
 * `keep`, the covariance about mean[D] of points x[n][D] with weights that sum to 1. */
void wv_partition_set_spread(wv_partition *p, size_t j, const double *root);
void wv_partition_set_spread_sd(wv_partition *p, size_t j, const double *sd);
void wv_partition_follow(wv_partition *p, size_t j, const double *mean, size_t n, const double *x, const double *weight,
                         double keep, wv_arena *arena);

/* Spreads of all cells: the standard deviations about their particles of points x[n][D] with weights w[n] and cells.
 * Those of cells without two points stay. */
void wv_partition_fit_spreads(wv_partition *p, size_t n, const double *x, const double *w, const uint32_t *cell,
                              wv_arena *arena);

/* Component j becomes the given Gaussian of its family, or one of independent coordinates with sd[D] (NULL: it keeps
 * its shape); is kept; is what was kept, and becomes that again. Writes to
 * nothing that belongs to another cell. */
void wv_partition_set_component(wv_partition *p, size_t j, const double *mu, const double *root);
void wv_partition_set_component_sd(wv_partition *p, size_t j, const double *mu, const double *sd);
void wv_partition_keep_component(wv_partition *p, size_t j);
wv_gaussian wv_partition_kept_component(const wv_partition *p, size_t j);
void wv_partition_recall_component(wv_partition *p, size_t j);

/* Parameters of component j, lent for a step that changes them where they are. */
typedef struct {
    double *mu, *root; /* [D], [family->size] */
} wv_parameters;
wv_parameters wv_partition_lend(wv_partition *p, size_t j);

/* Component j begins again at its particle, with the shape of its cell; a diagonal one no wider than coordinates are
 * when the others are given, under the covariance with the Cholesky factor correlated[D][D] (NULL: not known). */
void wv_partition_restart_component(wv_partition *p, size_t j, const double *correlated, wv_arena *arena);

/* All components and cells: independent coordinates. Particle j and its component: a position. */
void wv_partition_set_sd(wv_partition *p, const double *sd);
void wv_partition_put(wv_partition *p, size_t j, const double *at);

/* Times that component j ran away from its cell: once more, and none. */
void wv_partition_count_runaway(wv_partition *p, size_t j);
void wv_partition_forget_runaways(wv_partition *p, size_t j);

/* ---- results: those of one cell write to nothing that belongs to another ----------------------------------------- */
/* Rounds of evaluations for the components: none yet, and one more. */
void wv_partition_begin_rounds(wv_partition *p);
void wv_partition_count_round(wv_partition *p);

/* Masses: of one cell; sums of the weights of points; not known. Diagnostics of the draws in a cell. */
void wv_partition_set_mass(wv_partition *p, size_t j, double beta, double se);
void wv_partition_sum_masses(wv_partition *p, size_t n, const uint32_t *cell, const double *weight);
void wv_partition_forget_masses(wv_partition *p);
void wv_partition_forget_bounds(wv_partition *p);
void wv_partition_set_diagnostics(wv_partition *p, size_t j, double beta_se, double ess, double pareto_k);

/* log Z_j with its standard error, by draws of the component, or also from around the particle; ELBO_j; ELBO_j with its
 * standard error and the log Z_j that belongs to it; cell j has no bound, and no part in the ensemble. */
void wv_partition_set_log_Z(wv_partition *p, size_t j, wvgd_estimate log_Z, bool around);
void wv_partition_set_elbo(wv_partition *p, size_t j, double elbo);
void wv_partition_set_bound(wv_partition *p, size_t j, wvgd_estimate elbo, double log_Z);
void wv_partition_leave_out(wv_partition *p, size_t j);

/* Of component j: nats that another step would win; its ELBO as the mixture has it less the measured one. NAN: not
 * known. */
void wv_partition_set_gain(wv_partition *p, size_t j, wvgd_estimate gain);
void wv_partition_set_excess(wv_partition *p, size_t j, wvgd_estimate excess);

/* ELBOs and log Z of all cells by a batch, and their standard errors; h_bar[N] as in evidence.h. */
void wv_partition_estimate(wv_partition *p, const wv_batch *b, double *h_bar, wv_arena *arena);
void wv_partition_estimate_se(wv_partition *p, const wv_batch *b, const double *h_bar);

/* Smoothed ELBOs: not known; that of cell j is the last one; those, and means of the masses, go by a share towards the
 * last ones (1: become these). */
void wv_partition_forget_elbos(wv_partition *p);
void wv_partition_trust_elbo(wv_partition *p, size_t j);
void wv_partition_remember(wv_partition *p, double elbos, double masses);

/* Weights of the components: the best ones for ELBOs elbo[N]; given, w[N]; and, for the ensemble by
 * masses, given. */
void wv_partition_weigh(wv_partition *p, const double *elbo);
void wv_partition_set_weights(wv_partition *p, const double *w);
void wv_partition_set_weight_beta(wv_partition *p, const double *w);
#endif
