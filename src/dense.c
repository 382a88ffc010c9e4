/* dense.c - eigenvalues and Cholesky factors of small symmetric matrices. LAPACK's column-major "upper" is our row-major "lower", so nothing
 * is transposed, and the _work entries take our workspace, so nothing is allocated. */
#include "dense.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

size_t wv_dense_eigh_work(size_t D)
{
    return 34 * D + 8;
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
    lapack_int n = (lapack_int)D;
    return LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'V', 'U', n, a, n, e, work, (lapack_int)wv_dense_eigh_work(D)) == 0;
}

bool wv_dense_chol(size_t D, double *a, double *spare)
{
    lapack_int n = (lapack_int)D;
    memcpy(spare, a, D * D * sizeof *a);
    for (double jitter = 0; jitter < 1e-3; jitter = jitter > 0 ? 10 * jitter : 1e-14) {
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
