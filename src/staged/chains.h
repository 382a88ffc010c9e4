/* chains.h - Hamiltonian chains in lock step: they set out from closing draws, in the metric of the mixture's
 * components of their mode, and take trajectories of the same number of steps. The certificate and the finisher walk by
 * them, and so does the probe of tails. */
#ifndef WV_CHAINS_H
#define WV_CHAINS_H
#include "archive.h"
#include "rng.h"
#include "staged/modes.h"
#include "wvgd.h"

enum { WV_CHAINS = 128 }; /* chains at once, at most */

/* Everything but points. */
typedef struct {
    size_t chains;      /* how many */
    size_t step, steps; /* taken in this trajectory, and to take */
    size_t metrics;     /* that they use, and which one each does */
    size_t metric[WV_CHAINS];
    size_t slot[WV_MODES]; /* metric of each mode; none: as many as there is room for */
    double log_step;       /* log of the common step */
    double log_shorter;    /* log of the share of their length that trajectories have at walls */
    int arriving;          /* flag: gradients at their first points are still to come */
    int moving[WV_CHAINS]; /* flags: has not left the support in this trajectory */
} wv_chains_now;

typedef struct {
    size_t D, metrics; /* dimensions; metrics that there is room for */
    wv_chains_now now;
    double *x, *g;       /* [2][WV_CHAINS][D] point and gradient: now, and at the start of the trajectory */
    double *p;           /* [WV_CHAINS][D] momentum, in the coordinates of the metric */
    double *own_step;    /* [WV_CHAINS] step of each chain in this trajectory, */
    double *energy;      /* [WV_CHAINS] log p~ - momentum^2 / 2 at its start, or, once it has left the support, how much
                            that had changed by then */
    double *log_p;       /* [WV_CHAINS] log p~ where the chain is now, */
    double *start_log_p; /* [WV_CHAINS] and at the start of the trajectory */
    double *root;        /* [metrics][D][D] lower Cholesky factors of the metrics */
    double *memory;
} wv_chains;

bool wv_chains_new(wv_chains *c, size_t D, size_t metrics);
void wv_chains_free(wv_chains *c);
bool wv_chains_archive(wv_chains *c, wv_archive *a, bool running);

/* So many chains stand at a systematic sample of the final draws, each in the metric of its mode. False: no draw has
 * density. */
bool wv_chains_place(wvgd_fit *f, size_t chains, wv_rng_use use);

/* So many chains, each with a metric of its own, of which none moves: wv_chains_put and wv_chains_push say where they
 * stand, and let them set out with momentum p[D], in the coordinates of their metric. All take so many steps. */
void wv_chains_gather(wv_chains *c, size_t chains, size_t steps);
void wv_chains_push(wvgd_fit *f, size_t i, const double *p, double step);
bool wv_chains_moving(const wv_chains *c); /* whether any chain does */

/* The metric of a chain; of number m, root[D][D], if it is not NULL, and for all chains where chain[i] is m. */
const double *wv_chains_metric(const wv_chains *c, size_t chain);
void wv_chains_set_metric(wv_chains *c, size_t m, const double *root);
void wv_chains_use_metric(wv_chains *c, size_t chain, size_t m);

/* The metric of the mode where x[D] is, or that of the chain where no chain began there. */
size_t wv_chains_metric_at(wvgd_fit *f, size_t chain, const double *x);

/* Modes of which one has a chain that began in another are one: they get the metric of their components together.
 * Returns how many are left. */
size_t wv_chains_join(wvgd_fit *f);

/* The first batch after chains were placed asks for gradients where closing draws have none. False: not needed. */
bool wv_chains_wait(wvgd_fit *f);
void wv_chains_arrive(wvgd_fit *f);

/* A trajectory of random length, at most this, begins; its points are asked for; their answers taken. True: its steps
 * have been taken. wv_chains_end: every chain is at its end or back at its start; returns the mean acceptance. With
 * this rate the log step changes by what the trajectories were worth while they were in the support, and their length
 * by how many of them have left it. */
void wv_chains_begin(wvgd_fit *f, double length, wv_rng_use use);
void wv_chains_ask(wvgd_fit *f);
bool wv_chains_tell(wvgd_fit *f);
double wv_chains_end(wvgd_fit *f, double rate, wv_rng_use use);

/* Chain i stands at x[D], with this gradient [D] and log density. */
void wv_chains_put(wv_chains *c, size_t i, const double *x, const double *grad, double log_p);

/* Chains follow another density, by log_p[chains] and g[chains][D] of it where they are. */
void wv_chains_follow(wv_chains *c, const double *log_p, const double *g);
#endif
