/* assess.h - what the recent draws say of the mixture: densities, ELBO, and the weights that make them stand for it or
 * for one of its components. */
#ifndef WV_ASSESS_H
#define WV_ASSESS_H
#include "draws.h"
#include "mixture.h"
#include "wvgd.h"

/* The mixture, its components in the order that it has them, at the recent draws. */
typedef struct {
    const wv_mixture *mix;
    size_t n;             /* points */
    wv_squares squares;   /* the points in the coordinates of each component */
    double *log_m, *u;    /* [n], [n] log density of the mixture; weights that stand for it */
    double elbo, sd, ess; /* of the mixture: sd of log p~ - log m, effective size of u */
} wv_assessment;

/* Room for an assessment of K components at n points, from f->arena. */
wv_assessment wv_assess_room(wvgd_fit *f, size_t K, size_t n);

/* Fills it for f->mix and the recent draws, which there must be room for. measured: squares has the squares and the
 * points already. False: no point has density. */
bool wv_assess(wvgd_fit *f, wv_assessment *a, bool measured);

/* u[n]: weights of the recent draws that stand for component k, those of at most `least` left out, zero up to the end
 * of the last block of WV_COLUMNS; false: no point has density. */
bool wv_assess_component(wvgd_fit *f, const wv_assessment *a, size_t k, double least, double *u);

/* The share of component k where there is density. */
double wv_assess_inside(wvgd_fit *f, const wv_assessment *a, size_t k);

/* E_qk[log p~ - log m] under these weights. */
double wv_assess_own_elbo(const wvgd_fit *f, const wv_assessment *a, const double *u);

/* Blocks of WV_COLUMNS points, points in one of them, and that one. */
size_t wv_assess_blocks(const wv_assessment *a);
size_t wv_assess_points_in(const wv_assessment *a, size_t at);
wv_block wv_assess_block(const wvgd_fit *f, const wv_assessment *a, size_t at);

/* Multiplications that take the points to the coordinates of all components, or moments in these. */
double wv_assess_work(const wv_assessment *a);
#endif
