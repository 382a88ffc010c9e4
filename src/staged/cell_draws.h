/* cell_draws.h - the stored draws of a cell, and what they tell of Gaussians. */
#ifndef WV_CELL_DRAWS_H
#define WV_CELL_DRAWS_H
#include "gaussian.h"
#include "wvgd.h"

/* Stored draws of cell j into the arrays of a cell (f->gx, f->glp, with `gradients` f->gg), as many as
 * these hold; log weights of the posterior in f->glv, log densities of their proposal in f->psi, of the
 * mixture in f->moving. Returns how many. */
size_t wv_cell_draws_gather(wvgd_fit *f, size_t j, bool gradients);

/* The same without gradients, and with the points in columns, in f->gy: in the order of the draws, a block has
 * WV_COLUMNS of them. j = N: one out of `every` of all stored draws. */
size_t wv_cell_draws_columns(wvgd_fit *f, size_t j, size_t every);

/* Mean and root of the posterior in the cell, from n draws in columns with weights f->ga. False: there is none. */
bool wv_cell_draws_moments(wvgd_fit *f, size_t n, double *mean, double *root);

/* Log density of a full Gaussian at the draws in columns, which leaves the inverse of its root in f->square[1]. */
void wv_cell_draws_density(wvgd_fit *f, const wv_gaussian *q, size_t n, double *log_q);

/* What n gathered draws tell of a Gaussian whose log densities there are log_q; normalised weights
 * that stand for it are left in f->gu. */
typedef struct {
    double ess;
    double elbo;   /* of the Gaussian in the cell: E_q[log p~ - log q] + log Z_q */
    double spread; /* variance of log p~ - log q under q */
} wv_judgement;

wv_judgement wv_cell_draws_judge(wvgd_fit *f, size_t n, const double *log_q);

/* Draws that tell whether steps could gain. */
size_t wv_cell_draws_asked(size_t D);

/* After these two: whether steps could gain, for mixture and a quadratic correction explain more than `alike`, and
 * more than `times` what they leave, of the spread of q. Too few draws cannot say no. */
bool wv_cell_draws_may_gain(wvgd_fit *f, const wv_gaussian *q, size_t n, const double *log_q, double alike,
                            double times);

/* Log densities of component j at the stored draws of its cell into f->close.log_q: as gathered,
 * or for the component as it is now. */
void wv_cell_draws_keep(wvgd_fit *f, size_t j, size_t n, const double *log_q);
void wv_cell_draws_measure(wvgd_fit *f, size_t j);
#endif
