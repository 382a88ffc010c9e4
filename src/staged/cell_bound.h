/* cell_bound.h - masses of the components in their cells, and the PELBO from fresh draws inside the cells. */
#ifndef WV_CELL_BOUND_H
#define WV_CELL_BOUND_H
#include "wvgd.h"
#include <stdbool.h>

/* What is kept from the asked batch to its answers: of each cell what its pool has told, free of evaluations. It is not
 * saved: a restored fit asks for the batch again. */
typedef struct {
    double *ess;               /* [N] effective draws of the pool; 0: the cell has none, and needs none */
    double *log_Z, *log_Z_se;  /* [N] log mass of the component in its cell */
    double *part, *log_Z_part; /* [N] E_qj[log m - log q_j], m the mixture; standard error of its sum with log_Z */
    double *memory;
} wv_cell_bound;

/* False without memory. */
bool wv_cell_bound_new(wv_cell_bound *b, size_t N);
void wv_cell_bound_free(wv_cell_bound *b);

/* Masses of the mixture in the cells that points which cost nothing have told. */
typedef struct {
    double points; /* how many */
    double *mass;  /* [N] */
} wv_mixture_masses;

/* log Z_j of every component, with standard errors in f->cells.elbo_se. Needs wv_halfspaces_update. known: what is
 * known of the mixture, or NULL. */
void wv_cell_bound_masses(wvgd_fit *f, const wv_mixture_masses *known);

/* The log mass of cell j, which no ELBO_j can be above, and three standard errors. */
double wv_cell_bound_most(const wvgd_fit *f, size_t j);

wvgd_status wv_cell_bound_ask(wvgd_fit *f, wvgd_error *error);
void wv_cell_bound_tell(wvgd_fit *f);
#endif
