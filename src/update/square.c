/* square.c - small square matrices. */
#include "update/square.h"
#include "dense.h"
#include "policy.h"
#include "simd/columns.h"

void wv_square_multiply(size_t D, CBLAS_TRANSPOSE ta, const double *a, CBLAS_TRANSPOSE tb, const double *b, double *out)
{
    bool tiny = (double)D <= wv_policy.update_tiny_matrix;
    for (size_t i = 0; tiny && i < D; i++)
        for (size_t k = 0; k < D; k++) {
            double sum = 0;
            for (size_t m = 0; m < D; m++)
                sum += a[ta == CblasTrans ? m * D + i : i * D + m] * b[tb == CblasTrans ? k * D + m : m * D + k];
            out[i * D + k] = sum;
        }
    if (tiny)
        return;
    if (tb == CblasTrans)
        cblas_dgemm(CblasRowMajor, ta, tb, (int)D, (int)D, (int)D, 1.0, a, (int)D, b, (int)D, 0.0, out, (int)D);
    else
        wv_columns_multiply(
            &(wv_product){D, D, D, a, ta == CblasTrans ? 1 : D, ta == CblasTrans ? D : 1, b, D, out, D, false});
}

double wv_square_inner(size_t D, const double *a, const double *b)
{
    return cblas_ddot((int)(D * D), a, 1, b, 1);
}

double wv_square_trace(size_t D, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += cblas_ddot((int)D, a + i * D, 1, b + i, (int)D);
    return sum;
}

bool wv_square_eigenvectors(wv_arena *arena, size_t D, double *E, double *values)
{
    size_t mark = wv_arena_mark(arena);
    bool found = wv_dense_eigh(D, E, values, wv_arena_take(arena, wv_dense_eigh_work(D)));
    wv_arena_release(arena, mark);
    return found;
}
