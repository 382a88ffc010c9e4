/* dense.c - eigenvalues, Cholesky factors and inverses of small matrices. LAPACK's column-major "upper" is our
 * row-major "lower", so nothing is transposed, and the _work entries take our workspace, so nothing is allocated. */
#include "dense.h"
#include "simd/columns.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
    SMALL = 16, /* triangles up to this size are inverted row by row */
    STRIP = 8   /* rows of a product that are made at once */
};

/* Doubles, then whole numbers instead of doubles. */
size_t wv_dense_eigh_work(size_t D)
{
    return 2 * D * D + 40 * D + 8;
}

bool wv_dense_eigh(size_t D, double *a, double *e, double *work)
{
    for (size_t i = 0; i < D * D; i++)
        if (!isfinite(a[i]))
            return false;
    if (D == 1) {
        e[0] = a[0];
        a[0] = 1.0;
        return true;
    }
    lapack_int n = (lapack_int)D, doubles = (lapack_int)(2 * D * D + 34 * D + 2);
    return LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', n, a, n, e, work, doubles,
                               (lapack_int *)(void *)(work + doubles), 3 + 5 * n) == 0;
}

/* Rows below the diagonal by substitution: row_i = (e_i - sum_k L_ik row_k) / L_ii. */
static void invert_small(size_t D, size_t ld, const double *L, double *inverse)
{
    for (size_t i = 0; i < D; i++) {
        double *row = inverse + i * ld, scale = 1 / L[i * ld + i];
        memset(row, 0, D * sizeof *row);
        for (size_t k = 0; k < i; k++)
            for (size_t j = 0; j <= k; j++)
                row[j] -= L[i * ld + k] * inverse[k * ld + j];
        for (size_t j = 0; j < i; j++)
            row[j] *= scale;
        row[i] = scale;
    }
}

/* By halves: (A 0; B C)^-1 = (A^-1 0; -C^-1 B A^-1  C^-1), in matrix products; what is above the diagonal
 * holds (B A^-1)' in between, then zeros. */
static void invert(size_t D, size_t ld, const double *L, double *inverse)
{
    if (D <= SMALL) {
        invert_small(D, ld, L, inverse);
        return;
    }
    size_t h = (D + 1) / 2, rest = D - h;
    const double *B = L + h * ld;
    double *A1 = inverse, *B1 = inverse + h * ld, *C1 = inverse + h * ld + h, *between = inverse + h;
    invert(h, ld, L, A1);
    invert(rest, ld, L + h * ld + h, C1);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasTrans, (int)h, (int)rest, (int)h, 1.0, A1, (int)ld, B, (int)ld, 0.0,
                between, (int)ld);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rest, (int)h, (int)rest, -1.0, C1, (int)ld, between,
                (int)ld, 0.0, B1, (int)ld);
    for (size_t i = 0; i < h; i++)
        memset(between + i * ld, 0, rest * sizeof *between);
}

void wv_dense_invert(size_t D, const double *L, double *inverse)
{
    invert(D, D, L, inverse);
}

bool wv_dense_above(size_t D, const double *a, double sign, double low, double *spare)
{
    lapack_int n = (lapack_int)D;
    for (size_t i = 0; i < D * D; i++)
        spare[i] = sign * a[i];
    for (size_t i = 0; i < D; i++)
        spare[i * D + i] -= low;
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', n, spare, n) == 0;
}

bool wv_dense_inverse_root(size_t D, const double *a, double *V, double *spare)
{
    lapack_int n = (lapack_int)D;
    for (size_t i = 0; i < D; i++) /* a = U U' with U upper: Cholesky from the last row up; V = U'^-1 */
        for (size_t k = 0; k <= i; k++)
            V[i * D + k] = a[(D - 1 - k) * D + D - 1 - i];
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', n, V, n) != 0)
        return false;
    wv_dense_invert(D, V, spare);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            V[i * D + k] = k > i ? 0 : spare[(D - 1 - k) * D + D - 1 - i];
    return isfinite(V[D * D - 1]) && isfinite(V[0]);
}

bool wv_dense_chol(size_t D, double *a, double *spare)
{
    lapack_int n = (lapack_int)D;
    memcpy(spare, a, D * D * sizeof *a);
    for (double jitter = 0; jitter<1e-3; jitter = jitter> 0 ? 10 * jitter : 1e-14) {
        memcpy(a, spare, D * D * sizeof *a);
        for (size_t i = 0; i < D; i++)
            a[i * D + i] *= 1.0 + jitter;
        if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', n, a, n) == 0 && isfinite(a[D * D - 1])) {
            for (size_t i = 0; i < D; i++)
                memset(a + i * D + i + 1, 0, (D - i - 1) * sizeof *a);
            return true;
        }
    }
    return false;
}

/* Rows of a product [rows][p][q] that is made at once: OpenBLAS makes those of up to 1e6
 * multiplications without copies. */
static size_t at_once(size_t n, size_t p, size_t q)
{
    size_t rows = 1000000 / (p * q);
    rows = rows < 16 ? 256 : rows;
    return rows < n ? rows : n;
}

void wv_dense_product(size_t n, size_t p, const double *A, size_t q, const double *B, double alpha, double beta,
                      double *C)
{
    for (size_t first = 0, here; first < n; first += here) {
        here = at_once(n - first, p, q);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)here, (int)q, (int)p, alpha, A + first * p, (int)p,
                    B, (int)q, beta, C + first * q, (int)q);
    }
}

/* In strips, which leave out most of what lies above the diagonal. */
void wv_dense_cross(size_t n, size_t p, const double *A, size_t q, const double *B, bool lower, double *S)
{
    for (size_t first = 0, here; first < n; first += here) {
        here = at_once(n - first < 256 ? n - first : 256, STRIP, q);
        for (size_t at = 0; at < p; at += STRIP) {
            size_t rows = p - at < STRIP ? p - at : STRIP, columns = lower ? at + rows : q;
            wv_columns_multiply(
                &(wv_product){rows, columns, here, A + first * p + at, 1, p, B + first * q, q, S + at * q, q, true});
        }
    }
}

void wv_dense_rebuild(size_t D, const double *V, const double *f, double *out, double *scratch)
{
    for (size_t k = 0; k < D; k++)
        for (size_t i = 0; i < D; i++)
            scratch[k * D + i] = f[k] * V[k * D + i];
    int n = (int)D;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, n, n, 1.0, V, n, scratch, n, 0.0, out, n);
}

void wv_dense_mirror(size_t D, double *a)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = i + 1; k < D; k++)
            a[i * D + k] = a[k * D + i];
}

/* The 1024th power of a is nearly v v'. */
bool wv_dense_longest(size_t D, double *a, double *v, double *spare)
{
    size_t best = 0;
    for (int k = 0; k <= 10; k++) {
        double trace = 0;
        for (size_t i = 0; i < D; i++)
            trace += a[i * D + i];
        if (!(trace > 0) || !isfinite(trace))
            return false;
        cblas_dscal((int)(D * D), 1 / trace, a, 1);
        if (k < 10) {
            wv_dense_product(D, D, a, D, a, 1, 0, spare);
            memcpy(a, spare, D * D * sizeof *a);
        }
    }
    for (size_t i = 1; i < D; i++)
        best = a[i * D + i] > a[best * D + best] ? i : best;
    memcpy(v, a + best * D, D * sizeof *v);
    cblas_dscal((int)D, 1 / cblas_dnrm2((int)D, v, 1), v, 1);
    return true;
}

bool wv_dense_ridge_factor(size_t p, double *S)
{
    const double relative = 1e-8, absolute = 1e-14;
    for (size_t i = 0; i < p; i++)
        S[i * p + i] += relative * S[i * p + i] + absolute;
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, S, (lapack_int)p) == 0;
}

bool wv_dense_ridge_solve(size_t p, double *S, size_t q, double *B)
{
    if (!wv_dense_ridge_factor(p, S))
        return false;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)p, (int)q, 1.0, S, (int)p, B,
                (int)q);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, (int)p, (int)q, 1.0, S, (int)p, B,
                (int)q);
    return true;
}
