/* certificate.h - Hamiltonian chains that look for mass outside the closing proposal. */
#ifndef WV_CERTIFICATE_H
#define WV_CERTIFICATE_H
#include "archive.h"
#include "wvgd.h"

enum { WV_WALKERS = 64 }; /* chains at once */

/* What the chains have shown. */
typedef enum {
    WV_CERTIFICATE_NONE,   /* nothing: no chains were possible, or they have not ended */
    WV_CERTIFICATE_EXACT,  /* none are needed: the weights of the closing draws are equal to rounding */
    WV_CERTIFICATE_PASSED, /* no mass outside the proposal */
    WV_CERTIFICATE_FAILED  /* mass that the proposal does not represent */
} wv_certificate_result;

/* Everything but points. */
typedef struct {
    size_t result;           /* wv_certificate_result */
    size_t walks, outside;   /* chains; those of them that have stood outside the proposal, */
    size_t states;           /* and at how many ends of trajectories */
    size_t evaluations;      /* of all chains of the fit, whatever they led to */
    size_t failures;         /* certificates that have failed */
    size_t trajectory;       /* trajectories that have ended */
    double limit;            /* log p~/(m Z) beyond which a state is outside */
    double largest;          /* of the final draws */
    double excess;           /* sum over states of what p~/(m Z) is above that, up to the limit */
    double most[WV_WALKERS]; /* largest log p~/(m Z) at the states of each */
} wv_certified;

typedef struct {
    size_t D;
    wv_certified now;
    double *outside_x; /* [WV_WALKERS][D] where p~/(m Z) was largest */
    double *memory;
} wv_certificate;

bool wv_certificate_new(wv_certificate *c, size_t D);
void wv_certificate_free(wv_certificate *c);
bool wv_certificate_archive(wv_certificate *c, wv_archive *a, bool running);
void wv_certificate_copy(wv_certificate *to, const wv_certificate *from); /* what has been shown, no chains */

/* The mixture has changed: nothing is known of it. */
void wv_certificate_forget(wv_certificate *c);

/* What the variance of p~/(m Z) under m has beyond the weights of the final draws, as the chains have met it; 0 without
 * chains. Large weights are rare among draws of m, and by as much more frequent among states of the posterior. */
double wv_certificate_unseen_variance(const wv_certificate *c);

/* Chains set out from the closing draws. False: none are needed, or none can. */
bool wv_certificate_begin(wvgd_fit *f);

/* Takes a step of every chain. True: the chains have ended, and `result` says what they have shown. */
bool wv_certificate_tell(wvgd_fit *f);
#endif
