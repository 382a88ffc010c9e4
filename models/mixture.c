/* mixture.c - sum_k weight_k N(z; mean_k, cov_k). With cov_k = L L' and v = L^-1 (z - mean_k),
 *     log g_k = log weight_k - sum log L_ii - D log(2 pi)/2 - |v|^2/2,    d log g_k / dz = -L'^-1 v,
 * and log p is their log-sum-exp. Components are added one after the other, relative to the largest so far, so the work is [points][D]. */
#include "density.h"
#include "models.h"
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = WVGD_CHUNK }; /* points that share a BLAS call */

typedef struct {
    size_t D, K;
    double *log_weight; /* [K] with the constants of the densities */
    double *mean;       /* [K][D] */
    double *chol;       /* [K][D][D] lower factors */
    double store[];
} mixture;

/* Adds component k to b points: on return log p = most[i] + log total[i], gradient total[i]^-1 grad[i]. v: [b][D] work. */
static void add_component(const mixture *m, size_t k, size_t b, const double *z, double *most, double *total, double *grad, double *v)
{
    size_t D = m->D;
    const double *L = m->chol + k * D * D;
    int n = (int)b, d = (int)D;
    double log_g[BLOCK];
    for (size_t i = 0; i < b; i++)
        for (size_t j = 0; j < D; j++)
            v[i * D + j] = z[i * D + j] - m->mean[k * D + j];
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, d, 1.0, L, d, v, d);
    for (size_t i = 0; i < b; i++)
        log_g[i] = m->log_weight[k] - 0.5 * cblas_ddot(d, v + i * D, 1, v + i * D, 1);
    if (grad)
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, n, d, 1.0, L, d, v, d);
    for (size_t i = 0; i < b; i++) {
        if (!(log_g[i] > -INFINITY)) /* also NaN, from overflow: too far away to count */
            continue;
        double top = fmax(most[i], log_g[i]), old = exp(most[i] - top), g = exp(log_g[i] - top);
        most[i] = top;
        total[i] = old * total[i] + g;
        for (size_t j = 0; grad && j < D; j++)
            grad[i * D + j] = old * grad[i * D + j] - g * v[i * D + j];
    }
}

static void evaluate(const mixture *m, size_t b, const double *z, double *log_p, double *grad, double *v)
{
    size_t D = m->D;
    double total[BLOCK];
    for (size_t i = 0; i < b; i++) {
        log_p[i] = -INFINITY;
        total[i] = 0.0;
    }
    if (grad)
        memset(grad, 0, b * D * sizeof *grad);
    for (size_t k = 0; k < m->K; k++)
        add_component(m, k, b, z, log_p, total, grad, v);
    for (size_t i = 0; i < b; i++) {
        log_p[i] += log(total[i]);
        for (size_t j = 0; grad && j < D; j++)
            grad[i * D + j] /= total[i];
    }
    wv_density_reject(b, D, log_p, grad);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const mixture *m = self;
    double *v = calloc(m->D, BLOCK * sizeof *v); /* [BLOCK][D] */
    if (!v)
        return -1;
    for (size_t i = 0; i < n; i += BLOCK)
        evaluate(m, n - i < BLOCK ? n - i : BLOCK, z + i * m->D, log_p + i, grad ? grad + i * m->D : NULL, v);
    free(v);
    return 0;
}

/* Factors component k. Fails if the covariance is not positive definite or the weight not positive. */
static bool factor(mixture *m, size_t k, double weight)
{
    size_t D = m->D;
    double *L = m->chol + k * D * D, log_det = 0.0;
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, L, (lapack_int)D) != 0) /* row-major: the lower half */
        return false;
    for (size_t i = 0; i < D; i++)
        log_det += log(L[i * D + i]);
    m->log_weight[k] = log(weight) - log_det - 0.5 * (double)D * WV_LOG_2PI;
    return isfinite(m->log_weight[k]);
}

int wv_model_mixture(wvgd_model *model, size_t D, size_t K, const double *weight, const double *mean, const double *cov)
{
    if (D == 0 || D > INT_MAX || K == 0)
        return -1;
    mixture *m = malloc(sizeof *m + (K + K * D + K * D * D) * sizeof(double));
    if (!m)
        return -1;
    *m = (mixture){D, K, m->store, m->store + K, m->store + K + K * D};
    memcpy(m->mean, mean, K * D * sizeof *mean);
    memcpy(m->chol, cov, K * D * D * sizeof *cov);
    for (size_t k = 0; k < K; k++)
        if (!factor(m, k, weight[k])) {
            free(m);
            return -1;
        }
    *model = (wvgd_model){
        .name = "mixture", .dim = D, .log_density = log_density, .self = m, .has_gradient = true, .thread_safe = true, .close = free};
    return 0;
}
