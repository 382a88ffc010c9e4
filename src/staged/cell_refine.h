/* cell_refine.h - the components of the cells, fitted to the posterior itself. */
#ifndef WV_CELL_REFINE_H
#define WV_CELL_REFINE_H
#include "archive.h"
#include "gaussian.h"
#include "wvgd.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    size_t room;   /* proposals at most; 0: components of such a fit are never refined */
    size_t D;      /* dimensions of the next, or 0 */
    double *whole; /* [2][D] location and sds of a diagonal component of the whole posterior */
    /* ---- what a batch of draws needs until it is told; never saved: one that was not told is asked for again ---- */
    double *root; /* [room][D][D] full roots of the proposals */
    double *memory;
} wv_cell_refine;

/* whole: there is a component of the whole posterior. False without memory. */
bool wv_cell_refine_new(wv_cell_refine *r, size_t D, size_t room, bool whole);
void wv_cell_refine_free(wv_cell_refine *r);
void wv_cell_refine_archive(wv_cell_refine *r, wv_archive *a, bool running);

/* Proposals of a batch at most; 0: components of such a fit are never refined. */
size_t wv_cell_refine_proposals(const wvgd_fit *f);

/* Whether the components that cells.c has fitted without the model deserve evaluations of their own. */
bool wv_cell_refine_wanted(const wvgd_fit *f);

/* Rounds of draws of every component, a natural-gradient step each. True: that was the last. */
void wv_cell_refine_begin(wvgd_fit *f);
void wv_cell_refine_ask(wvgd_fit *f);
bool wv_cell_refine_tell(wvgd_fit *f);

/* Weights of the components from their own draws of the last round. */
void wv_cell_refine_weigh(wvgd_fit *f);

/* Draws that bring the standard error of one component's ELBO, with the Gaussian `control` as control and in
 * mirrored pairs, to `se`, as the last round says. */
double wv_cell_refine_price(wvgd_fit *f, const wv_gaussian *control, double se);
#endif
