/* mixture_fit.c - natural gradient of a mixture's ELBO with soft cells: component k is fitted to log p~ + log r_k,
 * r_k = w_k q_k / m its responsibility, by the regression of update.c, on points pooled over the last batches with
 * deterministic-mixture weights. A component alone has r = 1, and the same loop fits one mode. (Method, section 6.) */
#include "staged/mixture_fit.h"
#include "dense.h"
#include "draws.h"
#include "fit.h"
#include "gaussian.h"
#include "policy.h"
#include "rng.h"
#include "simd/columns.h"
#include "staged/assess.h"
#include "staged/follow.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

static const double negligible = 1e-12; /* weight of a point that need not be looked at */

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* n standard normals in antithetic orthogonal blocks: 2 D of them span every direction twice. */
static void orthogonal(const wv_stream *stream, size_t D, size_t n, double *x, wv_arena *arena)
{
    size_t made = 0, mark = wv_arena_mark(arena), room = wv_dense_eigh_work(D);
    double *Q = wv_arena_take(arena, D * D), *R = wv_arena_take(arena, D * D), *tau = wv_arena_take(arena, D),
           *work = wv_arena_take(arena, room);
    lapack_int d = (lapack_int)D;
    for (uint64_t block = 0; made < n; block++) {
        /* directions of the block that are used: the first */
        size_t some = (n - made + 1) / 2 < D ? (n - made + 1) / 2 : D;
        lapack_int m = (lapack_int)some;
        wv_rng_normal(stream, 2 * block, some * D, Q);
        wv_rng_normal(stream, 2 * block + 1, some * D, R);
        bool apart = D > 1 && LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, d, m, Q, d, tau, work, (lapack_int)room) == 0 &&
                     LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, d, m, m, Q, d, tau, work, (lapack_int)room) == 0;
        for (size_t i = 0; i < some; i++) {
            if (apart) /* a direction of the block, as long as an independent normal vector */
                cblas_dscal(d, cblas_dnrm2(d, R + i * D, 1), Q + i * D, 1);
            for (int sign = 1; sign >= -1 && made < n; sign -= 2, made++)
                for (size_t k = 0; k < D; k++)
                    x[made * D + k] = sign * Q[i * D + k];
        }
    }
    wv_arena_release(arena, mark);
}

void wv_mixture_fit_draw_blocks(wvgd_fit *f, const wv_gaussian *q, const wv_stream *stream, size_t n, double *x)
{
    orthogonal(stream, f->D, n, x, f->arena);
    q->family->colour(f->D, q->R, q->root, n, x, f->arena);
    for (size_t i = 0; i < n; i++)
        cblas_daxpy((int)f->D, 1.0, q->mu, 1, x + i * f->D, 1);
}

/* Draws of each component in a batch, an even number, without min_batch. */
static size_t draws_each(const wvgd_fit *f)
{
    size_t K = f->mix.K, draws = wv_draws_each(f->D, K);
    if (K > 1 && f->growth.effort) { /* as many as the recent draws have room for */
        size_t room = f->mix.room * wv_draws_each(f->D, 2) / K / 2 * 2;
        draws = draws << f->growth.effort < room ? draws << f->growth.effort : room;
    }
    return draws + draws % 2;
}

void wv_mixture_fit_ask(wvgd_fit *f)
{
    size_t K = f->mix.K, D = f->D, plain = draws_each(f), draws = wv_draws_widened(plain, K, f->opt.min_batch);
    f->b.n = K * draws;
    f->b.extra = K * (draws - plain);
    f->proposals.n = K;
    for (size_t k = 0; k < K; k++) {
        wv_stream stream = {f->opt.seed, WV_RNG_FIT, f->count.batch, k};
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        f->proposals.p[k].q = q;
        f->proposals.draws[k] = draws;
        wv_mixture_fit_draw_blocks(f, &q, &stream, draws, f->b.x + k * draws * D);
    }
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */
/* A step of all components, each of which is one task. */
typedef struct {
    const wv_assessment *at;
    const double *v;   /* [n] weights of the points, NULL: all have density */
    double *grad;      /* [blocks][D][WV_COLUMNS] gradients of log p~ less those of the log mixture */
    double *mu, *root; /* [K][D], [K][D][D] the next components */
    double *elbo, *kl; /* [K] part of each in the ELBO; nats of a full step */
} stepping;

/* Gradients at the recent draws of block `at` of log p~, and with several components of log p~ - log m. */
static void gradients(wvgd_fit *f, void *context, size_t at)
{
    const stepping *s = context;
    wv_block b = wv_assess_block(f, s->at, at);
    double *out = s->grad + at * WV_COLUMNS * f->D;
    wv_columns_turn(f->D, b.n, f->recent.grad + at * WV_COLUMNS * f->D, out);
    if (f->mix.K > 1)
        wv_mixture_subtract_gradient(&f->mix, &b, out, f->arena);
}

/* Moments of one component, and the step that they are for. */
typedef struct {
    wv_update_moments m; /* first: what the update sees */
    const stepping *step;
} own_moments;

/* Covariance of the gradients under the weights c->u, lower half. */
static void grad_cov(const wv_step *s, const wv_update *c, const wv_update_moments *m, double *cov)
{
    const own_moments *own = (const own_moments *)(const void *)c->moments;
    const wv_assessment *a = own->step->at;
    size_t D = s->D, mark = wv_arena_mark(s->arena);
    const wv_columns *pass = wv_columns_best();
    double *g = wv_arena_take(s->arena, D * WV_COLUMNS), *ug = wv_arena_take(s->arena, D * WV_COLUMNS);
    memset(cov, 0, D * D * sizeof *cov);
    for (size_t at = 0; at < wv_assess_blocks(a); at++) {
        size_t n = wv_columns_round(wv_assess_points_in(a, at));
        const double *u = c->u + at * WV_COLUMNS;
        pass->centre(D, n, u, own->step->grad + at * WV_COLUMNS * D, m->grad, g, ug);
        wv_columns_product(D, n, ug, g, true, cov, s->arena);
    }
    wv_arena_release(s->arena, mark);
}

/* Moments of points and gradients in the coordinates of component k under the weights u, which stand for it, so that
 * the mean of the points is next to 0 and may be subtracted last. u is zero beyond the last point. */
static void measure(wvgd_fit *f, const stepping *s, size_t k, const double *u, wv_update_moments *m)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    int d = (int)D;
    const wv_columns *pass = wv_columns_best();
    double *y = wv_arena_take(f->arena, D * WV_COLUMNS), *uy = wv_arena_take(f->arena, D * WV_COLUMNS),
           *zero = wv_arena_zeros(f->arena, D);
    memset(m->mean, 0, D * sizeof *y);
    memset(m->grad, 0, D * sizeof *y);
    memset(m->cov, 0, D * D * sizeof *y);
    memset(m->cross, 0, D * D * sizeof *y);
    for (size_t at = 0; at < wv_assess_blocks(s->at); at++, u += WV_COLUMNS) {
        wv_block b = wv_assess_block(f, s->at, at);
        size_t n = wv_columns_round(b.n), before = wv_arena_mark(f->arena);
        const double *g = s->grad + at * WV_COLUMNS * D;
        if (!(wv_weights_largest(n, u) > 0))
            continue;
        pass->centre(D, n, u, wv_mixture_whitened(&f->mix, &b, k, f->arena), zero, y, uy);
        pass->mean(D, n, u, y, m->mean);
        pass->mean(D, n, u, g, m->grad);
        wv_columns_product(D, n, uy, y, true, m->cov, f->arena);
        wv_columns_product(D, n, uy, g, false, m->cross, f->arena);
        wv_arena_release(f->arena, before);
    }
    cblas_dger(CblasRowMajor, d, d, -1.0, m->mean, 1, m->mean, 1, m->cov, d);
    cblas_dger(CblasRowMajor, d, d, -1.0, m->mean, 1, m->grad, 1, m->cross, d);
    wv_dense_mirror(D, m->cov);
    wv_arena_release(f->arena, mark);
}

/* The update of component k, with the weights u of effective size ess that stand for it. */
static wv_update_result update(wvgd_fit *f, const stepping *s, size_t k, const double *u, double ess)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    own_moments own = {.m = {.mean = wv_arena_take(f->arena, D),
                             .cov = wv_arena_take(f->arena, D * D),
                             .grad = wv_arena_take(f->arena, D),
                             .cross = wv_arena_take(f->arena, D * D),
                             .relative = f->mix.K > 1,
                             .grad_cov = grad_cov},
                       .step = s};
    measure(f, s, k, u, &own.m);
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = wv_family_get(WVGD_FULL),
                   .mu = s->mu + k * D,
                   .root = s->root + k * D * D,
                   .moments = &own.m,
                   .u = u,
                   .ess = ess,
                   .rho = f->fitting.rho};
    wv_update_result r = wv_fit_update(f, &c);
    wv_arena_release(f->arena, mark);
    return r;
}

/* Does a wall, outside of which there is no density, cut component k off? The regression of gradients knows nothing of
 * it, and would have the component reach over it more and more. */
static bool walled(wvgd_fit *f, const stepping *s, size_t k)
{
    return s->v && wv_assess_inside(f, s->at, k) < wv_policy.mixture_walled;
}

static wv_update_result follow(wvgd_fit *f, const stepping *s, size_t k)
{
    size_t D = f->D;
    bool ok = wv_follow_one(f, s->at, s->v, k, wv_policy.mixture_walled_draws * (double)D, s->mu + k * D,
                            s->root + k * D * D);
    return (wv_update_result){ok, INFINITY};
}

/* Natural gradient step of component k; where it is cut off it follows the weighted draws instead. */
static void step_one(wvgd_fit *f, void *context, size_t k)
{
    const stepping *s = context;
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, wv_assess_blocks(s->at) * WV_COLUMNS), *root = s->root + k * D * D;
    double ess = wv_assess_component(f, s->at, k, negligible, u) ? wv_weights_ess(s->at->n, u) : 0;
    memcpy(s->mu + k * D, f->mix.mu + k * D, D * sizeof(double));
    memcpy(root, f->mix.root + k * D * D, D * D * sizeof *root);
    s->elbo[k] = NAN;
    wv_update_result r = {false, 0};
    if (ess >= wv_policy.mixture_step_ess) {
        s->elbo[k] = wv_assess_own_elbo(f, s->at, u);
        if (walled(f, s, k))
            r = follow(f, s, k);
        else
            r = update(f, s, k, u, ess);
    }
    if (!r.ok)
        cblas_dscal((int)(D * D), wv_policy.mixture_failed_scale, root, 1);
    s->kl[k] = r.ok ? r.kl : INFINITY;
    wv_arena_release(f->arena, mark);
}

/* Weights of components by their parts in the ELBO, those without one taken as the lowest. */
static void step_weights(wvgd_fit *f, const double *elbo)
{
    size_t K = f->mix.K, mark = wv_arena_mark(f->arena);
    double top = -INFINITY, bottom = INFINITY, sum = 0, floored = 0, *w = wv_arena_take(f->arena, K);
    for (size_t k = 0; k < K; k++)
        if (isfinite(elbo[k])) {
            top = fmax(top, elbo[k]);
            bottom = fmin(bottom, elbo[k]);
        }
    for (size_t k = 0; k < K; k++)
        sum += w[k] = f->mix.w[k] *
                      exp(wv_policy.mixture_weight_power * ((isfinite(elbo[k]) ? elbo[k] : bottom) - top));
    for (size_t k = 0; k < K; k++)
        floored += w[k] = fmax(w[k] / sum, wv_policy.mixture_weight_least / (double)K);
    for (size_t k = 0; k < K; k++)
        w[k] /= floored;
    if (K > 1 && top > -INFINITY)
        wv_mixture_set_weights(&f->mix, w);
    wv_arena_release(f->arena, mark);
}

/* Weights of the recent draws, if some have no density. */
static const double *weights_at_walls(wvgd_fit *f)
{
    size_t n = f->recent.n, finite = 0;
    double *v = wv_arena_take(f->arena, n);
    for (size_t i = 0; i < n; i++)
        finite += f->recent.log_p[i] > -INFINITY;
    return finite < n && wv_follow_weights(f, v) ? v : NULL;
}

/* A step of every component, and of the weights; returns the nats of a full step. */
static double step_components(wvgd_fit *f, const wv_assessment *a)
{
    size_t K = f->mix.K, D = f->D, blocks = wv_assess_blocks(a), mark = wv_arena_mark(f->arena);
    double total = 0;
    stepping s = {.at = a,
                  .v = weights_at_walls(f),
                  .grad = wv_arena_take(f->arena, blocks * WV_COLUMNS * D),
                  .mu = wv_arena_take(f->arena, K * D),
                  .root = wv_arena_take(f->arena, K * D * D),
                  .elbo = wv_arena_take(f->arena, K),
                  .kl = wv_arena_take(f->arena, K)};
    wv_fit_run_tasks(f, blocks, wv_assess_work(a), gradients, &s);
    wv_fit_run_tasks(f, K, 2 * wv_assess_work(a), step_one, &s);
    for (size_t k = 0; k < K; k++)
        total += f->mix.w[k] * s.kl[k];
    wv_mixture_set_components(&f->mix, s.mu, s.root);
    step_weights(f, s.elbo);
    wv_arena_release(f->arena, mark);
    return total;
}

/* ---- iterations -------------------------------------------------------------------------------------------------- */
static void keep_best(wvgd_fit *f)
{
    wv_mixture_copy(&f->mix_best, &f->mix);
}

static void go_back(wvgd_fit *f)
{
    wv_mixture_copy(&f->mix, &f->mix_best);
}

static void contract(wvgd_fit *f)
{
    for (size_t k = 0; k < f->mix.K; k++)
        wv_mixture_scale_root(&f->mix, k, wv_policy.mixture_retreat_scale);
}

/* Back to the best state, less the components that have dragged the ELBO down since: one that has gone astray in the
 * neck of a funnel, say, goes, and the others need not suffer for it. */
static void undo(wvgd_fit *f, const wv_assessment *a)
{
    size_t K = f->mix.K, mark = wv_arena_mark(f->arena);
    double *astray = wv_arena_take(f->arena, K), *u = wv_arena_take(f->arena, wv_assess_blocks(a) * WV_COLUMNS);
    for (size_t k = 0; k < K; k++)
        astray[k] = K > 1 && wv_assess_component(f, a, k, negligible, u) &&
                    wv_assess_own_elbo(f, a, u) < f->fitting.best - wv_policy.mixture_astray;
    go_back(f);
    wv_mixture_drop(&f->mix, astray);
    keep_best(f);
    wv_arena_release(f->arena, mark);
}

static double noise_of(const wv_assessment *a)
{
    return a->sd / sqrt(fmax(a->ess, 1));
}

/* Has the ELBO fallen below that of the best state? Of a state that has gone astray the noise is as large as the
 * fall. */
static bool is_fall(double elbo, double noise, const wv_mixture_fitting *m)
{
    return elbo < m->best - fmax(wv_policy.mixture_fall, wv_policy.mixture_fall_noise * fmin(noise, m->best_sd));
}

static bool is_gain(double elbo, double noise, const wv_mixture_fitting *m)
{
    return elbo > m->best + wv_policy.mixture_gain + wv_policy.mixture_gain_noise * noise;
}

/* Is a full step of so many nats hardly one? */
static bool is_small(double kl, size_t D)
{
    return kl < wv_policy.mixture_rest_step * (wv_policy.mixture_rest_base + wv_policy.mixture_rest_each * (double)D);
}

/* Compares the state with the best, and goes back to that if it has become worse (*back). True: the fit has ended. */
static bool compare(wvgd_fit *f, wv_assessment *a, bool *back)
{
    wv_mixture_fitting *m = &f->fitting;
    double noise = noise_of(a);
    *back = is_fall(a->elbo, noise, m);
    m->stalls = is_gain(a->elbo, noise, m) ? 0 : m->stalls + 1;
    if (*back) {
        undo(f, a);
        m->rho = fmax(wv_policy.mixture_rho_least, wv_policy.mixture_rho_fall * m->rho);
        if (!wv_assess(f, a, false))
            return true;
        m->best = fmin(m->best, a->elbo);
        m->best_sd = a->sd;
    } else if (a->elbo > m->best) {
        keep_best(f);
        m->best = a->elbo;
        m->best_sd = a->sd;
    }
    if ((double)m->stalls < (f->mix.K == 1 ? wv_policy.mixture_alone_patience : wv_policy.mixture_patience))
        return false;
    wv_mixture_fit_end(f);
    return true;
}

/* Judges the current state on the recent draws, goes back if it has become worse, and steps. measured: a->squares is
 * known, as wv_draws_take_measured has left it. True: the fit has ended. */
static bool iterate(wvgd_fit *f, wv_assessment *a, bool judged, bool measured)
{
    wv_mixture_fitting *m = &f->fitting;
    bool back = false;
    if (!wv_assess(f, a, measured)) {
        if (m->best > -INFINITY)
            go_back(f);
        contract(f);
        return (double)++m->stalls > wv_policy.mixture_retreats;
    }
    wv_trace_set_pelbo(&f->trace, (wvgd_estimate){a->elbo, noise_of(a)});
    wv_trace_set_ess(&f->trace, a->ess);
    if (judged && compare(f, a, &back))
        return true;
    double kl = step_components(f, a);
    m->small = is_small(kl, f->D) ? m->small + 1 : 0;
    m->elbo = a->elbo;
    m->sd = a->sd;
    if ((double)m->small >= wv_policy.mixture_rests)
        return true;
    if (!back)
        m->rho = fmin(1, wv_policy.mixture_rho_rise * m->rho);
    return false;
}

void wv_mixture_fit_begin(wvgd_fit *f, bool step_first)
{
    f->fitting = (wv_mixture_fitting){.rho = 1, .best = -INFINITY};
    keep_best(f);
    if (!step_first)
        return;
    size_t mark = wv_arena_mark(f->arena);
    wv_assessment a = wv_assess_room(f, f->mix.K, f->recent.n);
    iterate(f, &a, false, false);
    wv_arena_release(f->arena, mark);
}

/* Whether iterations are over, though there may be more to gain. */
static bool late(wvgd_fit *f)
{
    double most = f->mix.K == 1 ? wv_policy.mixture_alone_iterations : wv_policy.mixture_iterations;
    if ((double)f->fitting.iteration < most)
        return false;
    wv_mixture_fit_end(f);
    return true;
}

/* A batch mostly without density: contract. True: once too often. */
static bool retreat(wvgd_fit *f)
{
    contract(f);
    if ((double)++f->fitting.stalls <= wv_policy.mixture_retreats)
        return false;
    wv_mixture_fit_end(f);
    return true;
}

bool wv_mixture_fit_tell(wvgd_fit *f)
{
    size_t finite = 0, mark = wv_arena_mark(f->arena);
    size_t window = (size_t)wv_policy.mixture_window;
    bool alone = f->mix.K == 1, ended;
    for (size_t i = 0; i < f->b.n; i++)
        finite += f->b.log_p[i] > -INFINITY;
    wv_assessment a = wv_assess_room(f, f->mix.K, f->recent.n + f->b.n);
    wv_draws_take_measured(&f->recent, &f->b, &f->proposals, &a.squares, &f->workers);
    bool measured = !alone || f->recent.batches <= window;
    if (alone)
        wv_draws_forget(&f->recent, window, f->arena);
    f->fitting.iteration++;
    f->count.iteration++;
    if (alone && (double)finite < wv_policy.mixture_finite * (double)f->b.n)
        ended = retreat(f);
    else
        ended = iterate(f, &a, true, measured) || late(f);
    wv_arena_release(f->arena, mark);
    return ended;
}

void wv_mixture_fit_end(wvgd_fit *f)
{
    wv_mixture_fitting *m = &f->fitting;
    if (m->best > -INFINITY) {
        go_back(f);
        m->elbo = m->best;
        m->sd = m->best_sd;
    }
}

void wv_mixture_fit_archive(wv_mixture_fitting *m, wv_archive *a)
{
    wv_mixture_fitting c = *m;
    wv_archive_values(a, &c, sizeof c);
    if (wv_archive_reading(a))
        *m = c;
}

void wv_mixture_fit_set_elbo(wv_mixture_fitting *m, double elbo)
{
    m->elbo = elbo;
}
