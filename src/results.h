/* results.h - results in the shape that users see. */
#ifndef WV_RESULTS_H
#define WV_RESULTS_H
#include <stdbool.h>
#include <stddef.h>

/* Filled whenever a user asks for results, who may keep pointers to them. */
typedef struct {
    double *memory;   /* the block behind what follows */
    double *sd;       /* [N][D] marginal sds of the components */
    bool untouched;   /* what there is is of cells that have not been made yet */
    double *limit;    /* [N] flags: components whose variance could as well be infinite */
    double *cell_cov; /* [N][D] variances, or with family full [N][D][D] covariances, of the posterior in the cells */
    double *loss, *loss_se; /* [N] log(beta_j p(x)) - ELBO_j */
} wv_views;

/* For N particles, and so many numbers of each; false without memory. */
bool wv_views_new(wv_views *v, size_t N, size_t sds, size_t cell_covs);
void wv_views_free(wv_views *v);
#endif
