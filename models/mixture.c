/* mixture.c - sum_k weight_k N(z; mean_k, cov_k). With cov_k = L L', W = L^-1 and v = W (z - mean_k),
 *     log g_k = log weight_k - sum log L_ii - D log(2 pi)/2 - |v|^2/2,    d log g_k / dz = -W' v,
 * and log p is their log-sum-exp. Points are columns; components are added one after the other, relative to the
 * largest so far, so the work is [D][points]. */
#include "density.h"
#include "models.h"
#include "pass.h"
#include "scratch.h"
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = WVGD_CHUNK }; /* points that are evaluated together */

typedef struct {
    size_t D, K;
    double *log_weight; /* [K] with the constants of the densities */
    double *mean;       /* [K][D] */
    double *inverse;    /* [K][D][D] of the lower factors, zeros above */
    const wv_pass *pass;
    wv_scratch scratch;
    double store[];
} mixture;

/* Work for up to BLOCK points. */
typedef struct {
    double *z, *u, *v;   /* [D][width] points, from the mean, and whitened; then the slope in u */
    double *grad;        /* [D][width] */
    double *top, *total; /* [width] log p = top + log total */
} work;

static void add_component(const mixture *m, size_t k, size_t width, bool grad, const work *w)
{
    const double *W = m->inverse + k * m->D * m->D;
    int d = (int)m->D, n = (int)width;
    m->pass->centre(m->D, width, w->z, m->mean + k * m->D, w->u);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, d, n, d, 1.0, W, d, w->u, n, 0.0, w->v, n);
    if (grad)
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, n, d, 1.0, W, d, w->v, n, 0.0, w->u, n);
    m->pass->add_gaussian(m->D, width, m->log_weight[k], w->v, w->u, w->top, w->total, grad ? w->grad : NULL);
}

static void evaluate(const mixture *m, size_t b, const double *z, double *log_p, double *grad, const work *w)
{
    size_t D = m->D, width = wv_pass_width(b);
    memset(w->z, 0, D * width * sizeof *w->z);
    memset(w->grad, 0, D * width * sizeof *w->grad);
    for (size_t i = 0; i < width; i++) {
        w->top[i] = -INFINITY;
        w->total[i] = 0.0;
    }
    for (size_t i = 0; i < b; i++)
        for (size_t d = 0; d < D; d++)
            w->z[d * width + i] = z[i * D + d];
    for (size_t k = 0; k < m->K; k++)
        add_component(m, k, width, grad, w);
    for (size_t i = 0; i < b; i++) {
        log_p[i] = w->top[i] + log(w->total[i]);
        for (size_t d = 0; grad && d < D; d++)
            grad[i * D + d] = w->grad[d * width + i] / w->total[i];
    }
    wv_density_reject(b, D, log_p, grad);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    mixture *m = self;
    double *piece = wv_scratch_take(&m->scratch);
    if (!piece)
        return -1;
    size_t most = m->D * BLOCK;
    work w = {piece, piece + most, piece + 2 * most, piece + 3 * most, piece + 4 * most, piece + 4 * most + BLOCK};
    for (size_t i = 0; i < n; i += BLOCK)
        evaluate(m, n - i < BLOCK ? n - i : BLOCK, z + i * m->D, log_p + i, grad ? grad + i * m->D : NULL, &w);
    wv_scratch_give(&m->scratch, piece);
    return 0;
}

static void close_mixture(void *self)
{
    mixture *m = self;
    wv_scratch_close(&m->scratch);
    free(m);
}

/* Factors component k and inverts the factor. Fails if the covariance is not positive definite or
 * the weight not positive. */
static bool factor(mixture *m, size_t k, double weight)
{
    size_t D = m->D;
    double *L = m->inverse + k * D * D, log_det = 0.0;
    /* row-major: the lower half */
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, L, (lapack_int)D) != 0)
        return false;
    for (size_t i = 0; i < D; i++) {
        log_det += log(L[i * D + i]);
        for (size_t j = i + 1; j < D; j++)
            L[i * D + j] = 0.0;
    }
    if (LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (lapack_int)D, L, (lapack_int)D) != 0)
        return false;
    m->log_weight[k] = log(weight) - log_det - 0.5 * (double)D * WV_LOG_2PI;
    return isfinite(m->log_weight[k]);
}

int wv_model_mixture(wvgd_model *model, size_t D, size_t K, const double *weight, const double *mean, const double *cov)
{
    if (D == 0 || D > INT_MAX / BLOCK || K == 0)
        return -1;
    mixture *m = malloc(sizeof *m + (K + K * D + K * D * D) * sizeof(double));
    if (!m)
        return -1;
    *m = (mixture){.D = D,
                   .K = K,
                   .log_weight = m->store,
                   .mean = m->store + K,
                   .inverse = m->store + K + K * D,
                   .pass = wv_pass_best()};
    memcpy(m->mean, mean, K * D * sizeof *mean);
    memcpy(m->inverse, cov, K * D * D * sizeof *cov);
    for (size_t k = 0; k < K; k++)
        if (!factor(m, k, weight[k])) {
            free(m);
            return -1;
        }
    wv_scratch_open(&m->scratch, (4 * D + 2) * BLOCK);
    *model = (wvgd_model){.name = "mixture",
                          .dim = D,
                          .log_density = log_density,
                          .self = m,
                          .has_gradient = true,
                          .batched = true,
                          .thread_safe = true,
                          .close = close_mixture};
    return 0;
}
