/* stan_rewrite.h - Stan programs of today in the syntax of Stan 2.21, as far as that is mechanical. Lines stay where
 * they are, so that messages about the new text fit the old one.
 *     array[N, M] vector[K] x          vector[K] x[N, M]
 *     array[] int f(array[,] real x)   int[] f(real[,] x)
 *     real a = 1, b;                   real a = 1; real b;
 *     a declaration after statements   moved up (transformed data, transformed parameters, generated
 *                                      quantities) or in a { } of its own
 *     foo_lupdf, foo_lupmf             foo_lpdf, foo_lpmf: densities are evaluated with all constants anyway
 *     foo_cdf(x | a)                   foo_cdf(x, a)
 *     a %/% b                          a / b
 *     profile("name") { }              { }
 *     texts with other letters         the same with ? instead, for ASCII is all that may be printed
 *     zeros_vector(N) ...              rep_vector(0, N) ... and other functions with new names */
#ifndef WV_STAN_REWRITE_H
#define WV_STAN_REWRITE_H
#include <stddef.h>

typedef struct {
    char *text;        /* the program rewritten, or NULL: there was nothing to change (or no memory); free() it */
    char changes[200]; /* "array declarations, _lupdf": what was changed, in words */
    char newer[40];    /* a name that Stan 2.21 does not know and that cannot be rewritten, or "" */
    size_t newer_line; /* where it is */
    size_t old_arrays; /* line of the first declaration like real x[N], which Stan 2.33 and later refuse, or 0 */
} stan_rewriting;

/* Any text will do, whether it is a Stan program or not. */
stan_rewriting rewrite_stan(const char *text);
#endif
