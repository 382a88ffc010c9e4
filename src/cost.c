/* cost.c - costs c(a, b) between a particle and a point:
 *     sqeuclid      |a-b|^2
 *     mahalanobis   (a-b)' C^-1 (a-b), C given (the inverse metric) or the posterior's covariance, which is followed
 *     own           (a-b)' V_j^-1 (a-b)/2 + log|V_j|/2, V_j the posterior's covariance in cell j
 *     l1, lp        sum |a_i-b_i|^p
 *     callback      the user's                                                     (method, sections 1 and 2) */
#include "cost.h"
#include "fit.h"
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
                     double *out, double *y)
{
    wv_gaussian g = {family, D, 0, z, root, 0};
    wv_gaussian_whiten(&g, n, x, y, NULL);
    for (size_t k = 0; k < n; k++)
        out[k] = cblas_ddot((int)D, y + k * D, 1, y + k * D, 1);
}

void wv_cost_callback(const wvgd_fit *f, const double *a, size_t n, const double *x, double *cost, const double *weight,
                      double *grad)
{
    const wvgd_options *o = &f->opt;
    size_t D = f->D;
    if (o->cost_batch) {
        o->cost_batch(o->cost_self, D, a, n, x, cost, weight, grad);
        return;
    }
    size_t mark = wv_arena_mark(f->arena);
    double *one = wv_arena_take(f->arena, D); /* gradient of one cost */
    if (grad)
        memset(grad, 0, D * sizeof *grad);
    for (size_t k = 0; k < n; k++) {
        bool pulls = grad && weight[k] != 0;
        if (!cost && !pulls)
            continue;
        double here = o->cost_function(o->cost_self, D, a, x + k * D, pulls ? one : NULL);
        if (cost)
            cost[k] = here;
        if (pulls)
            cblas_daxpy((int)D, weight[k], one, 1, grad, 1);
    }
    wv_arena_release(f->arena, mark);
}

void wv_cost_cost(const wvgd_fit *f, size_t j, const double *z, size_t n, const double *x, double *out, double *y)
{
    size_t D = f->D;
    switch (f->opt.cost) {
    case WVGD_SQEUCLID: squared(D, z, n, x, out); break;
    case WVGD_MAHALANOBIS: whitened(f->metric_family, f->cells.now.metric, D, z, n, x, out, y); break;
    case WVGD_OWN: {
        wv_gaussian own = wv_partition_spread(&f->cells, j);
        double half_log_det = own.family->log_det(D, own.R, own.root);
        whitened(own.family, own.root, D, z, n, x, out, y);
        for (size_t k = 0; k < n; k++)
            out[k] = out[k] / 2 + half_log_det;
        break;
    }
    case WVGD_L1: powered(D, 1, z, n, x, out); break;
    case WVGD_LP: powered(D, f->opt.power, z, n, x, out); break;
    case WVGD_CALLBACK: wv_cost_callback(f, z, n, x, out, NULL, NULL); break;
    }
}
