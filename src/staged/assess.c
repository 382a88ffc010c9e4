/* assess.c - what the recent draws say of the mixture. They have deterministic-mixture weights: density of the
 * mixture, or of a component, over that of all proposals that made them. */
#include "staged/assess.h"
#include "dense.h"
#include "fit.h"
#include "simd/columns.h"
#include "weights.h"
#include <math.h>

/* ---- components as places ---------------------------------------------------------------------------------------- */
/* Each with its weight in the mixture. */
static wv_place place(const void *self, size_t k)
{
    const wv_assessment *a = self;
    size_t D = a->mix->D;
    return (wv_place){a->mix->mu + k * D, a->inverse + k * D * D, a->log_det[k], a->mix->w[k], 0, 0, 0};
}

static void invert_one(wvgd_fit *f, void *context, size_t k)
{
    const wv_assessment *a = context;
    size_t D = f->D;
    const double *root = a->mix->root + k * D * D;
    wv_dense_invert(D, root, a->inverse + k * D * D);
    a->log_det[k] = wv_family_get(WVGD_FULL)->log_det(D, 0, root);
}

static void invert(wvgd_fit *f, wv_assessment *a)
{
    size_t K = a->mix->K, D = f->D;
    wv_fit_share(f, K, (double)(K * D * D * D) / 6, invert_one, a);
}

/* Room for inverse roots. */
static wv_assessment begin(wvgd_fit *f, size_t K)
{
    return (wv_assessment){.mix = &f->mix,
                           .inverse = wv_arena_take(f->arena, K * f->D * f->D),
                           .log_det = wv_arena_take(f->arena, K)};
}

void wv_mixture_log_density(wvgd_fit *f, size_t n, const double *x, double *log_m)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_assessment a = begin(f, f->mix.K);
    for (size_t i = 0; i < n; i++)
        log_m[i] = -INFINITY;
    invert(f, &a);
    wv_draws_add(f->D, &(wv_places){place, &a, f->mix.K}, n, x, log_m, &f->workers);
    wv_arena_release(f->arena, mark);
}

/* ---- the mixture ------------------------------------------------------------------------------------------------- */
wv_assessment wv_assess_room(wvgd_fit *f, size_t K, size_t n)
{
    wv_assessment a = begin(f, K);
    a.seen = wv_draws_squares(f->D, K, n, wv_draws_kept(f->D, f->mix.room), f->arena);
    a.log_q = a.seen.r;
    a.log_m = wv_arena_take(f->arena, n);
    a.u = wv_arena_take(f->arena, n);
    return a;
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
    size_t n = f->recent.n, K = f->mix.K, row = a->seen.row;
    wv_places places = {place, a, K};
    double inside;
    a->n = n;
    invert(f, a);
    if (!measured)
        wv_draws_measure(f->D, &places, 0, n, f->recent.x, &a->seen, &f->workers);
    for (size_t i = 0; i < n; i++)
        a->log_m[i] = -INFINITY;
    wv_draws_sum(f->D, &places, &a->seen, 0, n, a->log_m, &f->workers);
    for (size_t k = 0; k < K; k++)
        wv_columns_density(f->D, n, a->log_det[k], 0, a->seen.r + k * row, a->log_q + k * row);
    if (!weigh(f, a, &inside))
        return false;
    judge(f, a);
    a->elbo += inside;
    return isfinite(a->elbo);
}

/* ---- one component ----------------------------------------------------------------------------------------------- */
bool wv_assess_component(wvgd_fit *f, const wv_assessment *a, size_t k, double least, double *u)
{
    size_t n = a->n, mark = wv_arena_mark(f->arena);
    const double *log_q = a->log_q + k * a->seen.row;
    double total = 0, *log_u = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        log_u[i] = f->recent.log_p[i] > -INFINITY ? log_q[i] - f->recent.log_sum[i] : -INFINITY;
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

size_t wv_assess_columns_in(const wv_assessment *a, size_t at)
{
    return wv_columns_round(wv_assess_points_in(a, at));
}

const double *wv_assess_whitened(wvgd_fit *f, const wv_assessment *a, size_t k, size_t at)
{
    size_t D = f->D, size = D * WV_COLUMNS;
    if (a->seen.y)
        return a->seen.y + (k * (a->seen.row / WV_COLUMNS) + at) * size;
    double *x = wv_arena_take(f->arena, size), *spare = wv_arena_take(f->arena, size),
           *y = wv_arena_take(f->arena, size), *r = wv_arena_take(f->arena, WV_COLUMNS);
    wv_columns_turn(D, wv_assess_points_in(a, at), f->recent.x + at * size, x);
    wv_columns_whiten(D, wv_assess_columns_in(a, at), a->inverse + k * D * D, a->mix->mu + k * D, x, spare, y, r);
    return y;
}
