/* verdict.h - may the result be relied on? */
#ifndef WV_VERDICT_H
#define WV_VERDICT_H
#include "wvgd.h"

/* Fills the reasons in f->messages and f->messages.reliable, once the fit has ended. */
void wv_verdict(wvgd_fit *f);

/* Whether points with NaN or infinite values are so many that they speak against the result. */
bool wv_verdict_has_bad_points(const wvgd_fit *f);

/* Whether the density is noisy, grows without bound or has a wrong gradient: all else that speaks against the result
 * follows from that. */
bool wv_verdict_wrong_model(const wvgd_fit *f);

/* Whether a result that is not reliable lies so far from the starts that the density seems not to fall off. After
 * wv_verdict. */
bool wv_verdict_improper(const wvgd_fit *f);

/* Is this k-hat of a cell, which has so many effective draws and this mass, above the limit of n weights by more than
 * its standard error (about (1 + k) / sqrt(m) for a tail of m draws, before it is shrunk as if there were ten more)? Of
 * many cells some are always above it, and tails of less than ten draws tell nothing. */
bool wv_verdict_cell_uncovered(double k, double ess, double mass, size_t n);

/* sum_j |weight_j - beta_j|, of each what is beyond its error; weights are the softmax of ELBOs with these errors. */
double wv_verdict_weights_apart(size_t N, const double *weight, const double *elbo_se, const double *beta,
                                const double *beta_se);

/* What the components of cells of weight could gain within their family: the worst of those that are bad fits, and the
 * mass of those that too few draws see (a gain of NAN). */
typedef struct {
    size_t worst; /* N: none */
    double unknown;
} wv_verdict_gains;

/* Nothing speaks against the ensemble. */
bool wv_verdict_ensemble_good(const wvgd_fit *f);

/* Whether none of its components could gain much within the family, as far as draws tell. */
bool wv_verdict_components_good(const wvgd_fit *f);

wv_verdict_gains wv_verdict_look_at_gains(size_t N, const double *gain, const double *gain_se, const double *beta);

/* Whether more components are what a staged fit lacks: it has as many as it may have, and the option says so. */
bool wv_verdict_lacks_components(const wvgd_fit *f);

/* The largest Pareto k-hat with which n weights can be relied on. */
double wv_verdict_khat_limit(size_t n);
#endif
