/* mixture_fit.h - the mixture of K full Gaussians that a staged fit (and the fit of one mode) adapts: natural
 * gradient of its ELBO, growth, refinement. */
#ifndef WV_MIXTURE_FIT_H
#define WV_MIXTURE_FIT_H
#include "mixture.h"
#include "rng.h"
#include "wvgd.h"

/* A mixture being fitted. */
typedef struct {
    size_t iteration;
    size_t stalls, small; /* iterations without gain; with hardly any step */
    double rho;           /* step, as a share of the full one */
    double best, best_sd; /* ELBO of the best state */
    double elbo, sd;      /* of the last */
} wv_mixture_fitting;

/* Begins to fit the components in f->mix with their weights. What is in the pool is used; with `step_first`
 * a first step is taken from it alone. */
void wv_mixture_fit_begin(wvgd_fit *f, bool step_first);

/* A batch of draws of every component; its answers make one step. True: the fit has ended, f->mix holds the best
 * of it, with f->s.mix.elbo and f->s.mix.sd. */
void wv_mixture_fit_ask(wvgd_fit *f);
bool wv_mixture_fit_tell(wvgd_fit *f);

/* n draws of q in antithetic orthogonal blocks, each followed by its mirror image. */
void wv_mixture_fit_spread(wvgd_fit *f, const wv_gaussian *q, const wv_stream *stream, size_t n, double *x);

/* Takes the best state so far. */
void wv_mixture_fit_end(wvgd_fit *f);

/* log sum_k w_k q_k at n points x. */
void wv_mixture_log_density(wvgd_fit *f, size_t n, const double *x, double *log_m);

/* Splits the components that explain log p~ worst, along the direction in which its curvature changes
 * fastest; from the points in the pool. */
void wv_grow_split(wvgd_fit *f);

/* Adds components at the points x[n][D] whose weight p~/m is largest; log_w: [n] their log weights
 * relative to the mean, destroyed. */
void wv_grow_add(wvgd_fit *f, size_t n, const double *x, double *log_w, double share);

/* Drops components that have hardly any weight. */
void wv_grow_drop(wvgd_fit *f);

/* Forward-KL (population Monte Carlo) step from all points in the pool with normalised posterior weights v. */
void wv_grow_refine(wvgd_fit *f, const double *v);
#endif
