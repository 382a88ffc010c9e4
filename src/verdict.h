/* verdict.h - may the result be relied on? */
#ifndef WV_VERDICT_H
#define WV_VERDICT_H
#include "wvgd.h"

/* Fills the reasons in f->messages and f->messages.reliable, once the fit has ended. */
void wv_verdict(wvgd_fit *f);

/* Modes that are expected to be missing, W of them having been found by n starts:
 * W (n-1) / (n-W-2) - W. NAN: cannot be said. */
double wv_verdict_unseen(const wvgd_fit *f);

/* Is this k-hat of a cell, which has so many effective draws and this mass, above the limit of n weights by more than
 * its standard error (about (1 + k) / sqrt(m) for a tail of m draws, before it is shrunk as if there were ten more)? Of
 * many cells some are always above it, and tails of less than ten draws tell nothing. */
bool wv_verdict_cell_uncovered(double k, double ess, double mass, size_t n);

/* The largest Pareto k-hat with which n weights can be relied on. */
double wv_verdict_khat_limit(size_t n);
#endif
