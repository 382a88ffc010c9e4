/* cell_target.c - what components of cells are fitted to: the mixture that made the closing draws. Its density and
 * gradient are two products with the stacked inverse roots of its components. */
#include "staged/cell_target.h"
#include "fit.h"
#include "staged/mixture_fit.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor

/* f->shared.free_inverse: inverse roots [K][D][D], whitened means relative to f->posterior.mean [K][D], log weights
 * and constants [K]. */
void wv_cell_target_prepare(wvgd_fit *f)
{
    size_t D = f->D, K = f->mix.K;
    double *inverse = f->shared.free_inverse, *mean = inverse + K * D * D, *constant = mean + K * D;
    for (size_t k = 0; k < K; k++) {
        double *L = inverse + k * D * D, *m = mean + k * D;
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        memcpy(L, q.root, D * D * sizeof *L);
        LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (lapack_int)D, L, (lapack_int)D);
        for (size_t i = 0; i < D; i++) {
            m[i] = q.mu[i] - f->posterior.mean[i];
            memset(L + i * D + i + 1, 0, (D - i - 1) * sizeof *L);
        }
        cblas_dtrmv(ROW, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, L, (int)D, m, 1);
        constant[k] = log(f->mix.w[k]) - q.family->log_det(D, 0, q.root) - (double)D * 0.918938533204672742;
    }
}

/* Densities of the components from whitened points y[K][D] of one point, which become minus its gradients,
 * weighted; returns the log density of the mixture. */
static double blend(size_t K, size_t D, const double *mean, const double *constant, double *y, double *log_q)
{
    double top = -INFINITY, sum = 0;
    for (size_t k = 0; k < K; k++) {
        double square = 0, *yk = y + k * D;
        for (size_t i = 0; i < D; i++) {
            yk[i] -= mean[k * D + i];
            square += yk[i] * yk[i];
        }
        log_q[k] = constant[k] - square / 2;
        top = fmax(top, log_q[k]);
    }
    if (!(top > -INFINITY))
        return -INFINITY;
    for (size_t k = 0; k < K; k++)
        sum += log_q[k] = exp(log_q[k] - top);
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < D; i++)
            y[k * D + i] *= log_q[k] / sum;
    return top + log(sum);
}

void wv_cell_target(wvgd_fit *f, size_t n, const double *x, double *log_m, double *grad)
{
    size_t D = f->D, K = f->mix.K;
    const double *inverse = f->shared.free_inverse, *mean = inverse + K * D * D, *constant = mean + K * D;
    double *d = f->desk.block, *y = f->desk.free_y; /* [WV_BLOCK][D], [WV_BLOCK][K][D] */
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t i = 0; i < here; i++)
            for (size_t k = 0; k < D; k++)
                d[i * D + k] = x[(first + i) * D + k] - f->posterior.mean[k];
        cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)here, (int)(K * D), (int)D, 1.0, d, (int)D, inverse, (int)D,
                    0.0, y, (int)(K * D));
        for (size_t i = 0; i < here; i++)
            log_m[first + i] = blend(K, D, mean, constant, y + i * K * D, f->desk.free_log);
        if (grad)
            cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)here, (int)D, (int)(K * D), -1.0, y, (int)(K * D),
                        inverse, (int)D, 0.0, grad + first * D, (int)D);
    }
}
