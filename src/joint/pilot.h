/* pilot.h - the full Gaussian that goes before diagonal components. */
#ifndef WV_PILOT_H
#define WV_PILOT_H
#include "archive.h"
#include "gaussian.h"
#include "wvgd.h"

typedef struct {
    bool wanted; /* it goes before diagonal components */
    size_t D;
    size_t draws; /* in an iteration */
    double *mu;   /* [D] */
    double *root; /* [D][D], right behind mu */
    double *best; /* [D + D * D] both, where they were best */
    double *memory;
} wv_pilot;

bool wv_pilot_new(wv_pilot *p, size_t D, bool wanted);
void wv_pilot_free(wv_pilot *p);
void wv_pilot_archive(wv_pilot *p, wv_archive *a);

wv_gaussian wv_pilot_gaussian(const wvgd_fit *f);
wvgd_status wv_pilot_ask(wvgd_fit *f, wvgd_error *error);

/* complete: there is nothing left to gain, or it has gone on for long enough. */
wvgd_status wv_pilot_tell(wvgd_fit *f, bool *complete, wvgd_error *error);

/* Components, spreads and metric begin where the pilot has got to. */
void wv_pilot_leave(wvgd_fit *f);

/* It begins as the Gaussian with this mean [D] and Cholesky factor [D][D]. */
void wv_pilot_start(wv_pilot *p, const double *mu, const double *root);

/* Becomes the Gaussian with the mean and covariance of the posterior, as the closing draws have them. */
void wv_pilot_take_posterior(wvgd_fit *f);
#endif
