/* pool.c - batches of a staged fit. Each point's log_sum is the log of the sum over all proposals of (draws made) x (density at the point), so that p~ / (exp log_sum / n)
 * is its deterministic-mixture weight, whoever drew it (method, section 3). */
#include "pool.h"
#include "weight.h"
#include <math.h>
#include <string.h>

size_t wv_pool_components(const wvgd_fit *f)
{
    size_t fit = 200000 / (f->D * f->D), most = f->opt.components;
    fit = fit < 8 ? 8 : fit;
    return fit < most ? fit : most;
}

size_t wv_pool_points(const wvgd_fit *f)
{
    size_t K = wv_pool_components(f), joint = f->D / 2 > 10 ? f->D / 2 : 10, alone = 2 * f->D > 20 ? 2 * f->D : 20;
    /* four batches of the last fit, a trial and a final batch, and twelve of the next fit */
    size_t many = 16 * K * (joint + joint % 2) + (400 + 24 * K + 4) + (WV_CHUNK + 4 * K + 4), one = 9 * alone;
    return many > one ? many : one;
}

size_t wv_pool_proposals(const wvgd_fit *f)
{
    return 20 * wv_pool_components(f) + 2;
}

void wv_pool_clear(wvgd_fit *f)
{
    f->s.batches = 0;
}

size_t wv_pool_size(const wvgd_fit *f)
{
    size_t b = f->s.batches;
    return b ? f->s.pooled[b - 1].first + f->s.pooled[b - 1].n : 0;
}

static size_t proposals(const wvgd_fit *f)
{
    size_t b = f->s.batches;
    return b ? f->s.pooled[b - 1].proposal + f->s.pooled[b - 1].proposals : 0;
}

static wv_gauss proposal(const wvgd_fit *f, size_t c)
{
    return (wv_gauss){wv_family_get(WVGD_FULL), f->D, 0, f->pool.mu + c * f->D, f->pool.root + c * f->D * f->D, f->pool.nu[c]};
}

/* log_sum <- log(exp log_sum + sum_c share_c q_c) for proposals [from, to). */
static void add(wvgd_fit *f, size_t from, size_t to, size_t n, const double *x, double *log_sum)
{
    double *log_q = f->block, *y = log_q + WV_BLOCK;
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t c = from; c < to; c++) {
            wv_gauss q = proposal(f, c);
            wv_component_log_density(&q, here, x + first * f->D, log_q, y, f->work);
            wv_weight_add_log(here, log_sum + first, log(f->pool.share[c]), log_q);
        }
    }
}

void wv_pool_add_density(wvgd_fit *f, size_t b, size_t n, const double *x, double *log_sum)
{
    const wv_pool_batch *batch = &f->s.pooled[b];
    add(f, batch->proposal, batch->proposal + batch->proposals, n, x, log_sum);
}

/* Weighs everything from the start. */
static void weigh(wvgd_fit *f)
{
    size_t n = wv_pool_size(f);
    for (size_t i = 0; i < n; i++)
        f->pool.log_sum[i] = -INFINITY;
    add(f, 0, proposals(f), n, f->pool.x, f->pool.log_sum);
}

void wv_pool_forget(wvgd_fit *f, size_t keep)
{
    if (f->s.batches <= keep)
        return;
    size_t drop = f->s.batches - keep, D = f->D, n = wv_pool_size(f), c = proposals(f);
    size_t x0 = keep ? f->s.pooled[drop].first : n, c0 = keep ? f->s.pooled[drop].proposal : c;
    memmove(f->pool.x, f->pool.x + x0 * D, (n - x0) * D * sizeof(double));
    memmove(f->pool.grad, f->pool.grad + x0 * D, (n - x0) * D * sizeof(double));
    memmove(f->pool.log_p, f->pool.log_p + x0, (n - x0) * sizeof(double));
    memmove(f->pool.mu, f->pool.mu + c0 * D, (c - c0) * D * sizeof(double));
    memmove(f->pool.root, f->pool.root + c0 * D * D, (c - c0) * D * D * sizeof(double));
    memmove(f->pool.nu, f->pool.nu + c0, (c - c0) * sizeof(double));
    memmove(f->pool.share, f->pool.share + c0, (c - c0) * sizeof(double));
    for (size_t b = 0; b < keep; b++) {
        f->s.pooled[b] = f->s.pooled[b + drop];
        f->s.pooled[b].first -= x0;
        f->s.pooled[b].proposal -= c0;
    }
    f->s.batches = keep;
    weigh(f);
}

void wv_pool_take(wvgd_fit *f)
{
    size_t D = f->D, n0 = wv_pool_size(f), c0 = proposals(f), n = f->b.n, made = 0;
    memcpy(f->pool.x + n0 * D, f->b.x, n * D * sizeof(double));
    memcpy(f->pool.grad + n0 * D, f->b.grad, n * D * sizeof(double));
    memcpy(f->pool.log_p + n0, f->b.log_p, n * sizeof(double));
    for (size_t c = 0; c < f->proposals; c++) {
        const wv_gauss *q = &f->proposal[c].q;
        if (!f->share[c])
            continue;
        memcpy(f->pool.mu + (c0 + made) * D, q->mu, D * sizeof(double));
        memcpy(f->pool.root + (c0 + made) * D * D, q->root, D * D * sizeof(double));
        f->pool.nu[c0 + made] = q->nu;
        f->pool.share[c0 + made++] = (double)f->share[c];
    }
    f->s.pooled[f->s.batches++] = (wv_pool_batch){n0, n, c0, made};
    for (size_t i = n0; i < n0 + n; i++)
        f->pool.log_sum[i] = -INFINITY;
    add(f, 0, c0, n, f->pool.x + n0 * D, f->pool.log_sum + n0); /* new points under old proposals, all points under new ones */
    add(f, c0, c0 + made, n0 + n, f->pool.x, f->pool.log_sum);
}
