/* follow.c - components follow weighted draws: forward-KL (population Monte Carlo) steps. They need no gradients, which
 * know nothing of a wall where the density ends. */
#include "staged/follow.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

bool wv_follow_weights(wvgd_fit *f, double *v)
{
    size_t n = f->recent.n, mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_w[i] = f->recent.log_p[i] - f->recent.log_sum[i];
    bool some = wv_weights_normalise(n, log_w, v);
    wv_arena_release(f->arena, mark);
    return some;
}

/* The next of component k, from the draws with weights u that sum to 1 and of which `size` are effective. */
static void move(wvgd_fit *f, size_t k, size_t n, const double *u, double size, double *mu, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    const double *old = f->mix.mu + k * D;
    double d = (double)D, keep = size / (size + wv_policy.mixture_forward_prior * d);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, f->recent.x, (int)D, u, 1, 0.0, mu, 1);
    for (size_t i = 0; i < D; i++)
        mu[i] = old[i] + keep * (mu[i] - old[i]);
    wv_gaussian_follow(wv_family_get(WVGD_FULL), D, root, mu, n, f->recent.x, u, size / (size + 1 + d * d),
                       wv_arena_take(f->arena, n * D), wv_arena_take(f->arena, D * D), f->arena);
    wv_arena_release(f->arena, mark);
}

/* Effective draws of the share of component k, u[n] their weights, and *sum that of these before they sum to 1. */
static double share_of(wvgd_fit *f, const wv_assessment *a, const double *v, size_t k, double *u, double *sum)
{
    size_t n = a->n;
    *sum = 0;
    wv_mixture_share(&f->mix, k, n, a->squares.r + k * a->squares.row, a->log_m, u);
    for (size_t i = 0; i < n; i++) {
        double r = v[i] > 0 ? v[i] * u[i] : 0;
        *sum += u[i] = isfinite(r) ? r : 0;
    }
    if (*sum < 1e-8)
        return 0;
    cblas_dscal((int)n, 1 / *sum, u, 1);
    return wv_weights_ess(n, u);
}

bool wv_follow_one(wvgd_fit *f, const wv_assessment *a, const double *v, size_t k, double least, double *mu,
                   double *root)
{
    size_t mark = wv_arena_mark(f->arena);
    double sum, *u = wv_arena_take(f->arena, a->n), size = share_of(f, a, v, k, u, &sum);
    bool enough = size > 0 && size >= least;
    if (enough)
        move(f, k, a->n, u, size, mu, root);
    wv_arena_release(f->arena, mark);
    return enough;
}

typedef struct {
    const wv_assessment *at;
    const double *v;       /* [n] weights of the points */
    double *mu, *root, *w; /* [K][D], [K][D][D], [K] the next components, and their weights, not normalised */
} following;

static void follow(wvgd_fit *f, void *context, size_t k)
{
    const following *to = context;
    size_t n = to->at->n, D = f->D, mark = wv_arena_mark(f->arena);
    double sum, w = f->mix.w[k], *u = wv_arena_take(f->arena, n), size = share_of(f, to->at, to->v, k, u, &sum);
    memcpy(to->mu + k * D, f->mix.mu + k * D, D * sizeof(double));
    memcpy(to->root + k * D * D, f->mix.root + k * D * D, D * D * sizeof(double));
    to->w[k] = wv_policy.mixture_forward_old * w;
    if (size > 0) {
        move(f, k, n, u, size, to->mu + k * D, to->root + k * D * D);
        to->w[k] = size < wv_policy.mixture_forward_few
                       ? 0.5 * (w + sum)
                       : wv_policy.mixture_forward_old * w + (1 - wv_policy.mixture_forward_old) * sum;
    }
    wv_arena_release(f->arena, mark);
}

void wv_follow_all(wvgd_fit *f)
{
    size_t K = f->mix.K, D = f->D, mark = wv_arena_mark(f->arena);
    wv_assessment a = wv_assess_room(f, K, f->recent.n);
    double *v = wv_arena_take(f->arena, f->recent.n);
    if (wv_follow_weights(f, v) && wv_assess(f, &a, false)) {
        following to = {.at = &a,
                        .v = v,
                        .mu = wv_arena_take(f->arena, K * D),
                        .root = wv_arena_take(f->arena, K * D * D),
                        .w = wv_arena_take(f->arena, K)};
        wv_fit_run_tasks(f, K, wv_assess_work(&a), follow, &to);
        wv_mixture_set_components(&f->mix, to.mu, to.root);
        wv_mixture_set_weights(&f->mix, to.w);
        wv_mixture_normalise(&f->mix);
    }
    wv_arena_release(f->arena, mark);
}
