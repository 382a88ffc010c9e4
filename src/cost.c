/* cost.c - costs c(a, b) between a particle and a point:
 *     sqeuclid      |a-b|^2
 *     mahalanobis   (a-b)' C^-1 (a-b), C given (the inverse metric) or the posterior's covariance, which is followed;
 *                   of several modes the staged solver takes that within modes
 *     own           (a-b)' V_j^-1 (a-b)/2 + log|V_j|/2, V_j the posterior's covariance in cell j
 *     l1, lp        sum |a_i-b_i|^p
 *     callback      the user's                                                     (method, sections 1 and 2) */
#include "cost.h"
#include "gaussian.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static void squared(size_t D, const double *z, size_t n, const double *x, double *out)
{
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t i = 0; i < D; i++) {
            double d = x[k * D + i] - z[i];
            sum += d * d;
        }
        out[k] = sum;
    }
}

static void powered(size_t D, double p, const double *z, size_t n, const double *x, double *out)
{
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t i = 0; i < D; i++) {
            double d = fabs(x[k * D + i] - z[i]);
            sum += p == 1 ? d : pow(d, p);
        }
        out[k] = sum;
    }
}

/* |A^-1 (x - z)|^2 */
static void whitened(const wv_family *family, const double *root, size_t D, const double *z, size_t n, const double *x,
                     double *out, double *y, wv_arena *arena)
{
    wv_gaussian g = {family, D, 0, z, root, 0};
    wv_gaussian_whiten(&g, n, x, y, arena);
    for (size_t k = 0; k < n; k++)
        out[k] = cblas_ddot((int)D, y + k * D, 1, y + k * D, 1);
}

wv_cost wv_cost_of(const wvgd_options *o, const wv_family *metric_family, const wv_family *cell_family)
{
    return (wv_cost){o->cost, o->power, o->cost_function, o->cost_batch, o->cost_self, metric_family, cell_family};
}

bool wv_cost_flat(const wv_cost *c)
{
    return c->kind == WVGD_SQEUCLID || c->kind == WVGD_MAHALANOBIS;
}

void wv_cost_callback(const wv_cost *c, size_t D, const double *a, size_t n, const double *x, double *cost,
                      const double *weight, double *grad, wv_arena *arena)
{
    if (c->batch) {
        c->batch(c->self, D, a, n, x, cost, weight, grad);
        return;
    }
    size_t mark = wv_arena_mark(arena);
    double *one = wv_arena_take(arena, D); /* gradient of one cost */
    if (grad)
        memset(grad, 0, D * sizeof *grad);
    for (size_t k = 0; k < n; k++) {
        bool pulls = grad && weight[k] != 0;
        if (!cost && !pulls)
            continue;
        double here = c->function(c->self, D, a, x + k * D, pulls ? one : NULL);
        if (cost)
            cost[k] = here;
        if (pulls)
            cblas_daxpy((int)D, weight[k], one, 1, grad, 1);
    }
    wv_arena_release(arena, mark);
}

void wv_cost_cost(const wv_geometry *g, size_t j, const double *z, size_t n, const double *x, double *out, double *y,
                  wv_arena *arena)
{
    size_t D = g->D;
    const wv_cost *c = &g->cost;
    switch (c->kind) {
    case WVGD_SQEUCLID: squared(D, z, n, x, out); break;
    case WVGD_MAHALANOBIS: whitened(c->metric_family, g->metric, D, z, n, x, out, y, arena); break;
    case WVGD_OWN: {
        const double *root = g->spread + j * c->cell_family->size(D, 0);
        double half_log_det = c->cell_family->log_det(D, 0, root);
        whitened(c->cell_family, root, D, z, n, x, out, y, arena);
        for (size_t k = 0; k < n; k++)
            out[k] = out[k] / 2 + half_log_det;
        break;
    }
    case WVGD_L1: powered(D, 1, z, n, x, out); break;
    case WVGD_LP: powered(D, c->power, z, n, x, out); break;
    case WVGD_CALLBACK: wv_cost_callback(c, D, z, n, x, out, NULL, NULL, arena); break;
    }
}
