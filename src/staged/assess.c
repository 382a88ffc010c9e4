/* assess.c - what the recent draws say of the mixture. They have deterministic-mixture weights: density of the
 * mixture, or of a component, over that of all proposals that made them. */
#include "staged/assess.h"
#include "fit.h"
#include "policy.h"
#include "simd/columns.h"
#include "weights.h"
#include <math.h>

/* ---- the mixture ------------------------------------------------------------------------------------------------- */
wv_assessment wv_assess_room(wvgd_fit *f, size_t K, size_t n)
{
    size_t kept = wv_draws_kept(f->D, f->mix.room, f->opt.min_batch);
    return (wv_assessment){.mix = &f->mix,
                           .squares = wv_sources_squares(f->D, K, n, kept, f->arena),
                           .log_m = wv_arena_take(f->arena, n),
                           .u = wv_arena_take(f->arena, n)};
}

double wv_assess_work(const wv_assessment *a)
{
    size_t D = a->mix->D;
    return (double)(a->n * a->mix->K * D * D);
}

/* Mean and sd of log p~ - log m under the weights a->u. */
static void judge(const wvgd_fit *f, wv_assessment *a)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < a->n; i++)
        if (a->u[i] > 0)
            mean += a->u[i] * (f->recent.log_p[i] - a->log_m[i]);
    for (size_t i = 0; i < a->n; i++)
        if (a->u[i] > 0)
            squares += a->u[i] * (f->recent.log_p[i] - a->log_m[i] - mean) * (f->recent.log_p[i] - a->log_m[i] - mean);
    a->elbo = mean;
    a->sd = sqrt(squares);
    a->ess = wv_weights_ess(a->n, a->u);
}

/* Weights that stand for the mixture where there is density, outside of which it is cut off; *inside: log of its share
 * there. False: there is none. */
static bool weigh(wvgd_fit *f, wv_assessment *a, double *inside)
{
    size_t n = a->n, mark = wv_arena_mark(f->arena);
    double *log_u = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_u[i] = a->log_m[i] - f->recent.log_sum[i];
    *inside = -wv_weights_lse(n, log_u);
    for (size_t i = 0; i < n; i++)
        log_u[i] = f->recent.log_p[i] > -INFINITY ? log_u[i] : -INFINITY;
    *inside += wv_weights_lse(n, log_u);
    bool some = wv_weights_normalise(n, log_u, a->u);
    wv_arena_release(f->arena, mark);
    return some;
}

bool wv_assess(wvgd_fit *f, wv_assessment *a, bool measured)
{
    wv_sources sources = wv_mixture_sources(&f->mix);
    double inside;
    a->n = f->recent.n;
    if (!measured)
        wv_sources_measure(&sources, 0, a->n, f->recent.x, &a->squares, &f->workers);
    wv_sources_log(&sources, a->n, f->recent.x, &a->squares, a->log_m, &f->workers);
    if (!weigh(f, a, &inside))
        return false;
    judge(f, a);
    a->elbo += wv_policy.mixture_wall_price * inside;
    return isfinite(a->elbo);
}

/* ---- one component ----------------------------------------------------------------------------------------------- */
bool wv_assess_component(wvgd_fit *f, const wv_assessment *a, size_t k, double least, double *u)
{
    size_t n = a->n, mark = wv_arena_mark(f->arena);
    const double *r = a->squares.r + k * a->squares.row;
    double total = 0, *log_u = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_u[i] = f->recent.log_p[i] > -INFINITY ? -r[i] / 2 - f->recent.log_sum[i] : -INFINITY;
    bool some = wv_weights_normalise(n, log_u, u);
    for (size_t i = 0; i < n; i++)
        total += u[i] = u[i] > least ? u[i] : 0;
    for (size_t i = 0; i < n; i++)
        u[i] /= total;
    for (size_t i = n; i < wv_assess_blocks(a) * WV_COLUMNS; i++)
        u[i] = 0;
    wv_arena_release(f->arena, mark);
    return some;
}

double wv_assess_inside(wvgd_fit *f, const wv_assessment *a, size_t k)
{
    size_t n = a->n, mark = wv_arena_mark(f->arena);
    const double *r = a->squares.r + k * a->squares.row;
    double inside = 0, *log_u = wv_arena_take(f->arena, n), *u = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_u[i] = -r[i] / 2 - f->recent.log_sum[i];
    wv_weights_normalise(n, log_u, u);
    for (size_t i = 0; i < n; i++)
        inside += f->recent.log_p[i] > -INFINITY ? u[i] : 0;
    wv_arena_release(f->arena, mark);
    return inside;
}

double wv_assess_own_elbo(const wvgd_fit *f, const wv_assessment *a, const double *u)
{
    double sum = 0;
    for (size_t i = 0; i < a->n; i++)
        if (u[i] > 0)
            sum += u[i] * (f->recent.log_p[i] - a->log_m[i]);
    return sum;
}

/* ---- blocks of points -------------------------------------------------------------------------------------------- */
size_t wv_assess_blocks(const wv_assessment *a)
{
    return (a->n + WV_COLUMNS - 1) / WV_COLUMNS;
}

size_t wv_assess_points_in(const wv_assessment *a, size_t at)
{
    size_t left = a->n - at * WV_COLUMNS;
    return left < WV_COLUMNS ? left : WV_COLUMNS;
}

wv_block wv_assess_block(const wvgd_fit *f, const wv_assessment *a, size_t at)
{
    size_t first = at * WV_COLUMNS;
    return (wv_block){&a->squares, at, wv_assess_points_in(a, at), f->recent.x + first * f->D, a->log_m + first};
}
