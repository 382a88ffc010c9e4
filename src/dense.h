/* dense.h - factorisations of small dense matrices through LAPACK, without allocation. */
#ifndef WV_DENSE_H
#define WV_DENSE_H
#include <stdbool.h>
#include <stddef.h>

/* Doubles of workspace that wv_dense_eigh needs. */
size_t wv_dense_eigh_work(size_t D);

/* a: [D][D] symmetric (lower half read). On return row k of a is the eigenvector of e[k], ascending. */
bool wv_dense_eigh(size_t D, double *a, double *e, double *work);

/* a: [D][D] symmetric (lower half read) -> lower Cholesky factor, zeros above. When a is not positive definite to working precision a growing
 * share of its diagonal is added; false: even that did not help (a is left undefined). spare: [D][D]. */
bool wv_dense_chol(size_t D, double *a, double *spare);

/* out = V' diag(f) V for V with eigenvectors in its rows, as wv_dense_eigh leaves them; scratch: [D][D]. */
void wv_dense_rebuild(size_t D, const double *V, const double *f, double *out, double *scratch);

/* Mirrors the lower half to the upper. */
void wv_dense_mirror(size_t D, double *a);
#endif
