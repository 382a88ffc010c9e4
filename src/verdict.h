/* verdict.h - may the result be relied on? */
#ifndef WV_VERDICT_H
#define WV_VERDICT_H
#include "wvgd.h"

/* Fills the reasons in f->messages and f->messages.reliable, once the fit has ended. */
void wv_verdict(wvgd_fit *f);

/* Modes that are expected to be missing, W of them having been found by n starts:
 * W (n-1) / (n-W-2) - W. NAN: cannot be said. */
double wv_verdict_unseen(const wvgd_fit *f);

/* The largest Pareto k-hat with which n weights can be relied on. */
double wv_verdict_khat_limit(size_t n);
#endif
