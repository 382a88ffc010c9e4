/* dense.h - factorisations of small dense matrices through LAPACK, without allocation. */
#ifndef WV_DENSE_H
#define WV_DENSE_H
#include <stdbool.h>
#include <stddef.h>

/* Doubles of workspace that wv_dense_eigh needs. */
size_t wv_dense_eigh_work(size_t D);

/* a: [D][D] symmetric (lower half read). On return row k of a is the eigenvector of e[k], ascending. */
bool wv_dense_eigh(size_t D, double *a, double *e, double *work);

/* a: [D][D] symmetric (lower half read) -> lower Cholesky factor, zeros above. When a is not positive
 * definite to working precision a growing share of its diagonal is added; false: even that did not help
 * (a is left undefined). spare: [D][D]. */
bool wv_dense_chol(size_t D, double *a, double *spare);

/* inverse[D][D] of a lower triangle L with zeros above its diagonal, where the inverse has zeros too. Not in place. */
void wv_dense_invert(size_t D, const double *L, double *inverse);

/* Are all eigenvalues of sign x a (symmetric, lower half read) above low? spare: [D][D]. */
bool wv_dense_above(size_t D, const double *a, double sign, double low, double *spare);

/* V[D][D] lower with V V' = a^-1, a symmetric (lower half read); false: a is not positive definite. spare: [D][D]. */
bool wv_dense_inverse_root(size_t D, const double *a, double *V, double *spare);

/* C[n][q] = alpha A[n][p] B[p][q] + beta C. */
void wv_dense_product(size_t n, size_t p, const double *A, size_t q, const double *B, double alpha, double beta,
                      double *C);

/* S[p][q] += A' B, A [n][p], B [n][q]; lower: of a square S only what lies on and below the diagonal is right. */
void wv_dense_cross(size_t n, size_t p, const double *A, size_t q, const double *B, bool lower, double *S);

/* out = V' diag(f) V for V with eigenvectors in its rows, as wv_dense_eigh leaves them; scratch: [D][D]. */
void wv_dense_rebuild(size_t D, const double *V, const double *f, double *out, double *scratch);

/* v[D]: a unit vector along which a (symmetric, positive; destroyed) is largest, to a hundredth of its
 * eigenvalue; false: none. spare: [D][D]. */
bool wv_dense_longest(size_t D, double *a, double *v, double *spare);

/* S[p][p] (lower half) becomes its Cholesky factor after a ridge that is about its rounding; false: it has none. */
bool wv_dense_ridge_factor(size_t p, double *S);

/* B[p][q] <- S^-1 B, likewise; S is overwritten. */
bool wv_dense_ridge_solve(size_t p, double *S, size_t q, double *B);

/* Mirrors the lower half to the upper. */
void wv_dense_mirror(size_t D, double *a);
#endif
