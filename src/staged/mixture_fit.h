/* mixture_fit.h - the mixture of K full Gaussians that a staged fit (and the fit of one mode) adapts: natural
 * gradient of its ELBO. */
#ifndef WV_MIXTURE_FIT_H
#define WV_MIXTURE_FIT_H
#include "archive.h"
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

void wv_mixture_fit_archive(wv_mixture_fitting *m, wv_archive *a);

/* Where the mixture was not fitted: the ELBO that is known of it. */
void wv_mixture_fit_set_elbo(wv_mixture_fitting *m, double elbo);

/* Begins to fit the components in f->mix with their weights. The recent draws are used; with `step_first`
 * a first step is taken from it alone. */
void wv_mixture_fit_begin(wvgd_fit *f, bool step_first);

/* A batch of draws of every component; its answers make one step. True: the fit has ended, f->mix holds the best
 * of it, with f->fitting.elbo and f->fitting.sd. */
void wv_mixture_fit_ask(wvgd_fit *f);
bool wv_mixture_fit_tell(wvgd_fit *f);

/* n draws of q in antithetic orthogonal blocks, each followed by its mirror image. */
void wv_mixture_fit_draw_blocks(wvgd_fit *f, const wv_gaussian *q, const wv_stream *stream, size_t n, double *x);

/* Takes the best state so far. */
void wv_mixture_fit_end(wvgd_fit *f);
#endif
