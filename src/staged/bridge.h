/* bridge.h - ratios of masses from draws of two densities. */
#ifndef WV_BRIDGE_H
#define WV_BRIDGE_H
#include "wvgd.h"

/* log(exp a + exp b) */
double wv_bridge_add(double a, double b);

/* Two samples: log ratios r[n] of densities p~/q at draws of q and at draws of p, of which those in group `out` of
 * `groups` are left out. In column c of `columns` is a draw of chain c, in group c % groups. */
typedef struct {
    const double *q, *p;
    size_t nq, np, columns_q, columns_p, groups, out;
} wv_bridge_samples;

/* log Z. */
double wv_bridge(const wv_bridge_samples *s);

/* The evidence by the bridge between n1 draws of m, with log p~/m q[n1], and states of chains, p[chains][each]. */
wvgd_estimate wv_bridge_states(wvgd_fit *f, size_t n1, const double *q, size_t each, const double *p);
#endif
