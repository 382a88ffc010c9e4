/* finisher.h - chains that complete a fit where draws of the mixture cannot: the answer comes from their states and the
 * draws together. */
#ifndef WV_FINISHER_H
#define WV_FINISHER_H
#include "archive.h"
#include "staged/chains.h"
#include "wvgd.h"

enum {
    WV_FINISH_TRAJECTORIES = 96, /* of a chain at most, */
    WV_FINISH_RUNGS = 48,        /* and rungs of the ladder */
    WV_FINISH_STATES = 4         /* states of a chain that a rung keeps */
};

typedef enum {
    WV_FINISH_NONE,          /* it was not needed, or not wanted */
    WV_FINISH_TOO_EXPENSIVE, /* it was, but max-evaluations does not allow it */
    WV_FINISH_SETTLED,       /* chains agree with each other */
    WV_FINISH_UNSETTLED      /* they do not, or were stopped before they did */
} wv_finish_result;

typedef enum { WV_FINISH_WALK, WV_FINISH_JUMP, WV_FINISH_LADDER, WV_FINISH_FLOOR } wv_finish_phase;

/* Everything but states. */
typedef struct {
    size_t result, phase;
    size_t evaluations;     /* of all chains of the finisher */
    size_t needed;          /* roughly the evaluations that it would take, if these are too many */
    size_t trajectory;      /* complete */
    size_t tried, accepted; /* jumps */
    size_t learnt;          /* times that the metric was learnt from states */
    size_t rung, move;      /* of the ladder: number, trajectories on it */
    size_t groups;          /* of modes: those between which chains walk are one */
    int hopeless;           /* flag: the proposal is no proposal */
    double acceptance;      /* of trajectories, sum over all */
    double missing;         /* share of the mass where log p~/(m Z) is beyond that of the certificate */
    double log_z, se;       /* evidence */
    double mean_se, sd_se;  /* largest between-chain errors: of means in sds, of log sds */
    double drift;           /* largest change from one half to the other, in standard errors */
    double rhat, tau;       /* largest split R-hat; autocorrelation time of p~/(p~ + m Z) */
    double beta[WV_FINISH_RUNGS + 1];
} wv_finished;

typedef struct {
    size_t D;
    wv_finished now;
    double *x, *g;         /* [trajectories][chains][D] states and gradients */
    double *log_p, *log_m; /* [trajectories][chains] */
    double *mean, *root;   /* [D], [D][D] the Gaussian at the foot of the ladder, and the */
    double *inverse;       /* [D][D] inverse of its root */
    double *rung_u;        /* [rungs][WV_FINISH_STATES][chains] log p~ - log Gaussian at states of the rungs */
    double *memory;
} wv_finisher;

bool wv_finisher_new(wv_finisher *c, size_t D);
void wv_finisher_free(wv_finisher *c);
bool wv_finisher_archive(wv_finisher *c, wv_archive *a, bool running);
void wv_finisher_copy(wv_finisher *to, const wv_finisher *from); /* what has been found, no chains */

/* Chains set out from the closing draws. False: they cannot, or cost more than there is. */
bool wv_finisher_begin(wvgd_fit *f);

void wv_finisher_ask(wvgd_fit *f);

/* True: the chains have ended, and their states have joined the closing draws. */
bool wv_finisher_tell(wvgd_fit *f);

/* Ends early with what there is; states join the draws if there are enough of them. */
void wv_finisher_leave(wvgd_fit *f);

/* About so many evaluations it takes at least. */
double wv_finisher_price(const wvgd_fit *f);

/* Whether mode m has been visited: it is the nearest one of some state. */
bool wv_finisher_visited(wvgd_fit *f, size_t m);

/* Whether states stand among the closing draws. */
bool wv_finisher_has_states(const wvgd_fit *f);
#endif
