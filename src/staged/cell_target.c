/* cell_target.c - what components of cells are fitted to: the mixture that made the closing draws. Its density and
 * gradient are two products with the stacked inverse roots of its components. */
#include "staged/cell_target.h"
#include "error.h"
#include "fit.h"
#include "memory.h"
#include "staged/modes.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW CblasRowMajor

bool wv_cell_target_new(struct wv_cell_target *t, size_t D, size_t components)
{
    *t = (struct wv_cell_target){.surveyed = WV_MODES};
    const wv_slot slots[] = {{&t->inverse, wv_times(components, D * D)},
                             {&t->mean, wv_times(components, D)},
                             {&t->constant, components}};
    t->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return t->memory != NULL;
}

void wv_cell_target_free(struct wv_cell_target *t)
{
    free(t->memory);
}

void wv_cell_target_set_surveyed(struct wv_cell_target *t, size_t mode)
{
    t->surveyed = mode;
}

void wv_cell_target_prepare(wvgd_fit *f)
{
    size_t D = f->D, K = f->mix.K;
    struct wv_cell_target *t = &f->target;
    t->K = K;
    for (size_t k = 0; k < K; k++) {
        double *L = t->inverse + k * D * D, *m = t->mean + k * D;
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        memcpy(L, q.root, D * D * sizeof *L);
        LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (lapack_int)D, L, (lapack_int)D);
        for (size_t i = 0; i < D; i++) {
            m[i] = q.mu[i] - f->posterior.mean[i];
            memset(L + i * D + i + 1, 0, (D - i - 1) * sizeof *L);
        }
        cblas_dtrmv(ROW, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, L, (int)D, m, 1);
        t->constant[k] = log(f->mix.w[k]) - q.family->log_det(D, 0, q.root) - (double)D * 0.918938533204672742;
    }
}

/* Densities of the components from whitened points y[K][D] of one point, which become minus its gradients,
 * weighted; returns the log density of the mixture. log_q: [K] scratch. */
static double blend(const struct wv_cell_target *t, size_t D, double *y, double *log_q)
{
    double top = -INFINITY, sum = 0;
    for (size_t k = 0; k < t->K; k++) {
        double square = 0, *yk = y + k * D;
        for (size_t i = 0; i < D; i++) {
            yk[i] -= t->mean[k * D + i];
            square += yk[i] * yk[i];
        }
        log_q[k] = t->constant[k] - square / 2;
        top = fmax(top, log_q[k]);
    }
    if (!(top > -INFINITY))
        return -INFINITY;
    for (size_t k = 0; k < t->K; k++)
        sum += log_q[k] = exp(log_q[k] - top);
    for (size_t k = 0; k < t->K; k++)
        for (size_t i = 0; i < D; i++)
            y[k * D + i] *= log_q[k] / sum;
    return top + log(sum);
}

void wv_cell_target(wvgd_fit *f, size_t n, const double *x, double *log_m, double *grad)
{
    const struct wv_cell_target *t = &f->target;
    size_t D = f->D, KD = t->K * D, most = n < WV_BLOCK ? n : WV_BLOCK, mark = wv_arena_mark(f->arena);
    double *d = wv_arena_take(f->arena, most * D), *y = wv_arena_take(f->arena, most * KD),
           *log_q = wv_arena_take(f->arena, t->K); /* [block][D] relative points, [block][K][D], [K] */
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t i = 0; i < here; i++)
            for (size_t k = 0; k < D; k++)
                d[i * D + k] = x[(first + i) * D + k] - f->posterior.mean[k];
        cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)here, (int)KD, (int)D, 1.0, d, (int)D, t->inverse, (int)D, 0.0,
                    y, (int)KD);
        for (size_t i = 0; i < here; i++)
            log_m[first + i] = blend(t, D, y + i * KD, log_q);
        if (grad)
            cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)here, (int)D, (int)KD, -1.0, y, (int)KD, t->inverse,
                        (int)D, 0.0, grad + first * D, (int)D);
    }
    wv_arena_release(f->arena, mark);
}
