/* reparam.c - the paper's estimator E_qj[(grad log p~ - grad log q) dz/dtheta], with Adam. It lacks the boundary term;
 * exact for one particle. */
#include "update/reparam.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static bool full(const wv_update *c)
{
    return c->family == wv_family_get(WVGD_FULL);
}

void wv_reparam_gradient(const wv_step *s, const wv_update *c, double *g_mu, double *g_root)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, n = c->n;
    double *y = wv_arena_take(s->arena, n * D), *gy = wv_arena_take(s->arena, n * D),
           *uy = wv_arena_take(s->arena, n * D); /* [n][D] points, gradients and weighted points */
    wv_gaussian q = {c->family, D, c->R, c->mu, c->root, 0};
    wv_gaussian_whiten(&q, n, c->x, y, s->arena);
    memcpy(gy, c->grad, n * D * sizeof *gy);
    c->family->pull(D, c->R, c->root, n, gy, s->arena);
    cblas_daxpy((int)(n * D), 1.0, y, 1, gy, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, gy, (int)D, c->u, 1, 0.0, g_mu, 1);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            uy[k * D + i] = c->u[k] * y[k * D + i];
    if (full(c))
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)D, (int)D, (int)n, 1.0, gy, (int)D, uy, (int)D, 0.0,
                    g_root, (int)D);
    else
        for (size_t i = 0; i < D; i++)
            g_root[i] = cblas_ddot((int)n, gy + i, (int)D, uy + i, (int)D);
    wv_arena_release(s->arena, mark);
}

/* Adam's direction, in place, with the constants of its authors. */
static void adam(size_t size, double *g, double *m, double *v, size_t time)
{
    double t = (double)time, new1 = wv_policy.update_adam_mean, new2 = wv_policy.update_adam_square,
           fade1 = 1 - pow(1 - new1, t), fade2 = 1 - pow(1 - new2, t);
    for (size_t i = 0; i < size; i++) {
        m[i] = (1 - new1) * m[i] + new1 * g[i];
        v[i] = (1 - new2) * v[i] + new2 * g[i] * g[i];
        g[i] = m[i] / fade1 / (sqrt(v[i] / fade2) + 1e-8);
    }
}

/* The root times I + its change, the diagonal of which goes through exp; g_root is destroyed. */
static void change_root(size_t D, const wv_update *c, double rate, double *g_root)
{
    if (!full(c)) {
        for (size_t i = 0; i < D; i++)
            c->root[i] *= exp(rate * g_root[i]);
        return;
    }
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            g_root[i * D + k] = k > i ? 0 : k == i ? exp(rate * g_root[i * D + k]) : rate * g_root[i * D + k];
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, g_root, (int)D,
                c->root, (int)D);
}

wv_update_result wv_reparam_update(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, size = c->family->size(D, 0), all = D + size;
    double *g_mu = wv_arena_take(s->arena, D), *g_root = wv_arena_take(s->arena, size),
           rate = wv_policy.update_adam_rate * c->rho;
    wv_update_result result = {false, 0};
    wv_reparam_gradient(s, c, g_mu, g_root);
    double kl = cblas_ddot((int)D, g_mu, 1, g_mu, 1) / 2 + cblas_ddot((int)size, g_root, 1, g_root, 1) / 4;
    if (isfinite(kl)) {
        adam(D, g_mu, c->adam, c->adam + all, c->time);
        adam(size, g_root, c->adam + D, c->adam + all + D, c->time);
        cblas_dscal((int)D, rate, g_mu, 1);
        c->family->colour(D, c->R, c->root, 1, g_mu, s->arena);
        cblas_daxpy((int)D, 1.0, g_mu, 1, c->mu, 1);
        change_root(D, c, rate, g_root);
        result = (wv_update_result){true, kl};
    }
    wv_arena_release(s->arena, mark);
    return result;
}
