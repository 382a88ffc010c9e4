/* cell_draws.h - draws in a cell: those of its component, the stored ones, and what these tell of Gaussians. */
#ifndef WV_CELL_DRAWS_H
#define WV_CELL_DRAWS_H
#include "gaussian.h"
#include "halfspaces.h"
#include "wvgd.h"

/* Stored draws of one cell, f->size.n_max at most. */
typedef struct {
    size_t n;
    double *x;               /* [n][D] rows, or columns: blocks [D][WV_COLUMNS], in the order of the draws */
    double *grad;            /* [n][D] gradients of log p~, or NULL */
    double *log_p, *log_w;   /* [n] log p~, log weights of the posterior */
    double *log_mix, *log_m; /* [n] log densities of the mixture, and of the proposal that made them */
} wv_cell_sample;

/* The walls of all cells follow particles and metric: f->halfspaces. */
void wv_cell_draws_update_walls(wvgd_fit *f);

/* Draws number first .. first + n of component j that lie in its cell; around: half of them from around the particle.
 * In f->arena. */
wv_inside wv_cell_draws_inside(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t first, size_t n, bool around);

/* Draws of a sample of cell j at most: stored draws without density are counted, too. */
size_t wv_cell_draws_most(const wvgd_fit *f, size_t j);

/* The stored draws of cell j with positive density, in rows, in arrays from f->arena, which the caller releases. */
wv_cell_sample wv_cell_draws_sample(wvgd_fit *f, size_t j, bool gradients);

/* The same without gradients, in columns. */
wv_cell_sample wv_cell_draws_columns(wvgd_fit *f, size_t j);

/* Coefficients of log q for components q. */
double wv_cell_draws_coefficients(const wvgd_fit *f);

/* What stored draws tell of a Gaussian q in cell j where the density ends there, at a wall or a limit. */
typedef struct {
    bool ended;            /* it does, and cuts q off; false: nothing else is told */
    bool told;             /* and enough draws stand for q to rely on the rest */
    double ess;            /* draws of q on this side of the end that the stored ones are worth */
    wvgd_estimate log_Z;   /* log mass of q in the cell on this side, */
    double mean, variance; /* and log p~ - log q there; the mean less what a fit to the same draws adds to it */
} wv_ended;

wv_ended wv_cell_draws_ended(wvgd_fit *f, size_t j, const wv_gaussian *q);

/* Mean[D] and root[D][D] of the posterior in the cell, from draws in columns with weights u[n]. False: there is none.
 */
bool wv_cell_draws_moments(wvgd_fit *f, const wv_cell_sample *s, const double *u, double *mean, double *root);

/* Log density of a full Gaussian at draws in columns. */
void wv_cell_draws_density(wvgd_fit *f, const wv_cell_sample *s, const wv_gaussian *q, double *log_q);

/* What draws tell of a Gaussian whose log densities there are log_q[n]; u[n]: normalised weights that stand for it. */
typedef struct {
    double ess;
    double elbo;     /* of the Gaussian in the cell: E_q[log p~ - log q] + log Z_q */
    double variance; /* of log p~ - log q under q */
} wv_judgement;

wv_judgement wv_cell_draws_judge(const wvgd_fit *f, const wv_cell_sample *s, const double *log_q, double *u);

/* Whether steps from q could gain, for mixture and a quadratic correction explain more than `alike`, and more than
 * `times` what they leave, of the variance of log p~ - log q. Draws in columns; log_q[n], u[n]: as wv_cell_draws_judge
 * has them. Too few draws cannot say no. */
bool wv_cell_draws_may_gain(wvgd_fit *f, const wv_cell_sample *s, const wv_gaussian *q, const double *log_q,
                            const double *u, double alike, double times);

/* Log densities of component j at the stored draws of its cell, to the closing draws: as they were found for its
 * sample, or for the component as it is now. */
void wv_cell_draws_keep(wvgd_fit *f, size_t j, size_t n, const double *log_q);
void wv_cell_draws_measure(wvgd_fit *f, size_t j);
#endif
