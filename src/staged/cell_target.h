/* cell_target.h - the mixture that made the closing draws, as the target of the components of the cells. */
#ifndef WV_CELL_TARGET_H
#define WV_CELL_TARGET_H
#include "wvgd.h"
#include <stdbool.h>
#include <stddef.h>

/* What wv_cell_target reads. It follows from the mixture and is never saved. */
struct wv_cell_target {
    size_t K;         /* components of the mixture that it was prepared for; 0: none */
    double *inverse;  /* [K][D][D] inverse roots */
    double *mean;     /* [K][D] whitened means, relative to the mean of the posterior */
    double *constant; /* [K] log weights and the constants of the log densities */
    size_t surveyed;  /* the mode whose Gaussian no steps towards the target improve, or WV_MODES */
    double *memory;
};

/* Room for a mixture of so many components; false without memory. */
bool wv_cell_target_new(struct wv_cell_target *t, size_t D, size_t components);
void wv_cell_target_free(struct wv_cell_target *t);

/* No steps towards the target improve the Gaussian of this mode; WV_MODES: of none that is known. */
void wv_cell_target_set_surveyed(struct wv_cell_target *t, size_t mode);

/* To be called whenever the mixture or the mean of the posterior has changed. */
void wv_cell_target_prepare(wvgd_fit *f);

/* Log density of the mixture at x[n][D], and its gradient [n][D] where grad is not NULL. */
void wv_cell_target(wvgd_fit *f, size_t n, const double *x, double *log_m, double *grad);
#endif
