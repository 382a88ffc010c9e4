/* mixture_fit.c - natural gradient of a mixture's ELBO with soft cells: component k is fitted to log p~ + log r_k,
 * r_k = w_k q_k / m its responsibility, by the regression of update.c, on points pooled over the last batches with
 * deterministic-mixture weights. A component alone has r = 1, and the same loop fits one mode. (Method, section 6.) */
#include "staged/mixture_fit.h"
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "staged/modes.h"
#include "simd/columns.h"
#include "dense.h"
#include "draws.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { WINDOW = 8, ALONE = 120, TOGETHER = 12 }; /* batches kept for one component; iterations at most */

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* n standard normals in antithetic orthogonal blocks: 2 D of them span every direction twice. */
static void orthogonal(wvgd_fit *f, const wv_stream *stream, size_t n, double *x)
{
    size_t D = f->D, made = 0;
    double *Q = f->desk.square[0], *R = f->desk.square[1], *tau = f->desk.vector[0];
    lapack_int d = (lapack_int)D, room = (lapack_int)wv_dense_eigh_work(D);
    for (uint64_t block = 0; made < n; block++) {
        /* directions of the block that are used: the first */
        size_t some = (n - made + 1) / 2 < D ? (n - made + 1) / 2 : D;
        wv_rng_normal(stream, 2 * block, some * D, Q);
        wv_rng_normal(stream, 2 * block + 1, some * D, R);
        bool apart = D > 1 &&
                     LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, d, (lapack_int)some, Q, d, tau, f->desk.syev, room) == 0 &&
                     LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, d, (lapack_int)some, (lapack_int)some, Q, d, tau,
                                         f->desk.syev, room) == 0;
        for (size_t i = 0; i < some; i++) {
            if (apart) /* a direction of the block, as long as an independent normal vector */
                cblas_dscal(d, cblas_dnrm2(d, R + i * D, 1), Q + i * D, 1);
            for (int sign = 1; sign >= -1 && made < n; sign -= 2, made++)
                for (size_t k = 0; k < D; k++)
                    x[made * D + k] = sign * Q[i * D + k];
        }
    }
}

void wv_mixture_fit_spread(wvgd_fit *f, const wv_gaussian *q, const wv_stream *stream, size_t n, double *x)
{
    orthogonal(f, stream, n, x);
    q->family->colour(f->D, q->R, q->root, n, x, f->arena);
    for (size_t i = 0; i < n; i++)
        cblas_daxpy((int)f->D, 1.0, q->mu, 1, x + i * f->D, 1);
}

void wv_mixture_fit_ask(wvgd_fit *f)
{
    size_t K = f->mix.K, D = f->D, draws = K == 1 ? 2 * D : K < 8 ? D / 2 : D / 3, least = K == 1 ? 20 : 10;
    draws = draws > least ? draws : least;
    if (K > 1 && f->growth.effort) { /* as many as the pool has room for */
        size_t room = wv_draws_components(f) * (D / 2 > 10 ? D / 2 : 10) / K / 2 * 2;
        draws = draws << f->growth.effort < room ? draws << f->growth.effort : room;
    }
    draws += draws % 2;
    f->b.n = K * draws;
    f->proposals.n = K;
    for (size_t k = 0; k < K; k++) {
        double *x = f->b.x + k * draws * D;
        wv_stream stream = {f->opt.seed, WV_RNG_FIT, f->count.batch, k};
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        f->proposals.p[k].q = q;
        f->proposals.share[k] = draws;
        wv_mixture_fit_spread(f, &q, &stream, draws, x);
    }
}

/* ---- what the pool says ------------------------------------------------------------------------------------------ */
/* Components as places: each with its weight in the mixture. */
static wv_place place(const wvgd_fit *f, size_t k)
{
    return (wv_place){
        f->mix.mu + k * f->D, f->shared.mix_inverse + k * f->D * f->D, f->shared.mix_det[k], f->mix.w[k], 0, 0, 0};
}

static void invert_one(wvgd_fit *f, void *context, size_t k)
{
    size_t D = f->D;
    (void)context;
    wv_dense_invert(D, f->mix.root + k * D * D, f->shared.mix_inverse + k * D * D);
    f->shared.mix_det[k] = wv_family_get(WVGD_FULL)->log_det(D, 0, f->mix.root + k * D * D);
}

static void invert(wvgd_fit *f)
{
    wv_fit_share(f, f->mix.K, (double)(f->mix.K * f->D * f->D * f->D) / 6, invert_one, NULL);
}

/* Multiplications that take the points of the pool to the coordinates of all components, or moments in these. */
static double work_of(const wvgd_fit *f)
{
    return (double)(wv_draws_size(f) * f->mix.K * f->D * f->D);
}

/* Densities of all components (f->shared.mix_q[k][n_pool]) and of the mixture (f->shared.mix_log) at the pooled points;
 * ELBO, sd and ESS of the mixture. Points in the coordinates of each component are left in f->shared.mix_y, if there is
 * room; measured: f->shared.mix_q and f->shared.mix_y have the squares and the points already. False: no point has
 * density. */
static bool assess(wvgd_fit *f, bool measured, double *elbo, double *sd, double *ess)
{
    size_t n = wv_draws_size(f), K = f->mix.K, room = wv_draws_points(f);
    invert(f);
    if (!measured)
        wv_draws_measure(f, place, 0, K, 0, n, f->pool.x, true);
    for (size_t i = 0; i < n; i++)
        f->shared.mix_log[i] = -INFINITY;
    wv_draws_sum(f, place, 0, K, 0, n, f->shared.mix_log);
    for (size_t k = 0; k < K; k++)
        wv_columns_density(f->D, n, f->shared.mix_det[k], 0, f->shared.mix_q + k * room, f->shared.mix_q + k * room);
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->shared.mix_log[i] - f->pool.log_sum[i];
    /* log of the mixture's share where there is density, outside of which it is cut off */
    double inside = -wv_weights_lse(n, f->desk.psi), mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->pool.log_p[i] > -INFINITY ? f->desk.psi[i] : -INFINITY;
    inside += wv_weights_lse(n, f->desk.psi);
    if (!wv_weights_normalise(n, f->desk.psi, f->shared.mix_u))
        return false;
    for (size_t i = 0; i < n; i++)
        if (f->shared.mix_u[i] > 0)
            mean += f->shared.mix_u[i] * (f->pool.log_p[i] - f->shared.mix_log[i]);
    for (size_t i = 0; i < n; i++)
        if (f->shared.mix_u[i] > 0)
            squares += f->shared.mix_u[i] * (f->pool.log_p[i] - f->shared.mix_log[i] - mean) *
                       (f->pool.log_p[i] - f->shared.mix_log[i] - mean);
    *elbo = mean + inside;
    *sd = sqrt(squares);
    *ess = wv_weights_ess(n, f->shared.mix_u);
    return isfinite(*elbo);
}

/* ---- blocks of points, after `assess` ---------------------------------------------------------------------------- */
static size_t blocks(const wvgd_fit *f)
{
    return (wv_draws_size(f) + WV_COLUMNS - 1) / WV_COLUMNS;
}

/* Columns in block `at`: of points, and rounded up to whole vectors. */
static size_t points_in(const wvgd_fit *f, size_t at)
{
    size_t left = wv_draws_size(f) - at * WV_COLUMNS;
    return left < WV_COLUMNS ? left : WV_COLUMNS;
}

static size_t columns_in(const wvgd_fit *f, size_t at)
{
    return wv_columns_round(points_in(f, at));
}

/* Block `at` in the coordinates of component k: [D][WV_COLUMNS]. */
static const double *whitened(wvgd_fit *f, size_t k, size_t at)
{
    size_t D = f->D, size = D * WV_COLUMNS;
    double *x = f->desk.gx, *spare = x + size, *y = spare + size, *r = y + size;
    if (f->mix.K * blocks(f) * size <= wv_draws_kept(f))
        return f->shared.mix_y + (k * blocks(f) + at) * size;
    wv_columns_turn(D, points_in(f, at), f->pool.x + at * size, x);
    wv_columns_whiten(D, columns_in(f, at), f->shared.mix_inverse + k * D * D, f->mix.mu + k * D, x, spare, y, r);
    return y;
}

/* f->shared.mix_grad: gradients at the pooled points of block `at` of log p~, and with several components of log p~ -
 * log m, grad log m = - sum_k r_k A_k'^-1 y_k. */
static void gradients(wvgd_fit *f, void *context, size_t at)
{
    size_t D = f->D, K = f->mix.K, room = wv_draws_points(f), points = points_in(f, at), n = columns_in(f, at),
           first = at * WV_COLUMNS;
    const wv_columns *pass = wv_columns_best();
    double *r = f->desk.glu, *ry = f->desk.gg,
           *out = f->shared.mix_grad + first * D; /* [WV_COLUMNS], [D][WV_COLUMNS] */
    (void)context;
    wv_columns_turn(D, points, f->pool.grad + first * D, out);
    for (size_t k = 0; k < K && K > 1; k++) {
        double log_w = log(f->mix.w[k]);
        for (size_t i = 0; i < n; i++) /* no part beyond the last point, where nothing is known */
            r[i] = i < points ? log_w + f->shared.mix_q[k * room + first + i] - f->shared.mix_log[first + i]
                              : -INFINITY;
        pass->exponentials(n, 0, r, r);
        if (!(wv_weights_largest(n, r) > 1e-17))
            continue;
        pass->scale(D, n, r, whitened(f, k, at), ry);
        wv_columns_push(D, n, f->shared.mix_inverse + k * D * D, ry, out);
    }
}

/* Covariance of the gradients under the weights c->u, lower half. */
static void spread(wvgd_fit *f, const wv_update *c, const wv_update_moments *m, double *cov)
{
    size_t D = f->D;
    const wv_columns *pass = wv_columns_best();
    double *g = f->desk.gg, *ug = g + D * WV_COLUMNS;
    memset(cov, 0, D * D * sizeof *cov);
    for (size_t at = 0; at < blocks(f); at++) {
        size_t n = columns_in(f, at);
        const double *u = c->u + at * WV_COLUMNS;
        pass->centre(D, n, u, f->shared.mix_grad + at * WV_COLUMNS * D, m->grad, g, ug);
        wv_columns_product(D, n, ug, g, true, cov);
    }
}

/* Moments of points and gradients in the coordinates of component k under the weights u, which stand for it, so that
 * the mean of the points is next to 0 and may be subtracted last. u is zero beyond the last point. */
static void measure(wvgd_fit *f, size_t k, const double *u, wv_update_moments *m)
{
    size_t D = f->D;
    int d = (int)D;
    const wv_columns *pass = wv_columns_best();
    double *y = f->desk.gg, *uy = y + D * WV_COLUMNS, *zero = f->desk.vector[1];
    memset(zero, 0, D * sizeof *y);
    memset(m->mean, 0, D * sizeof *y);
    memset(m->grad, 0, D * sizeof *y);
    memset(m->cov, 0, D * D * sizeof *y);
    memset(m->cross, 0, D * D * sizeof *y);
    for (size_t at = 0; at < blocks(f); at++, u += WV_COLUMNS) {
        size_t n = columns_in(f, at);
        const double *g = f->shared.mix_grad + at * WV_COLUMNS * D;
        if (!(wv_weights_largest(n, u) > 0))
            continue;
        pass->centre(D, n, u, whitened(f, k, at), zero, y, uy);
        pass->mean(D, n, u, y, m->mean);
        pass->mean(D, n, u, g, m->grad);
        wv_columns_product(D, n, uy, y, true, m->cov);
        wv_columns_product(D, n, uy, g, false, m->cross);
    }
    cblas_dger(CblasRowMajor, d, d, -1.0, m->mean, 1, m->mean, 1, m->cov, d);
    cblas_dger(CblasRowMajor, d, d, -1.0, m->mean, 1, m->grad, 1, m->cross, d);
    wv_dense_mirror(D, m->cov);
}

/* ---- points of one component ------------------------------------------------------------------------------------- */
/* Weights of the pooled points that stand for component k, those of at most `least` left out, into f->desk.gu, zero up
 * to the end of the last block; false: no point has density. */
static bool stand_for(wvgd_fit *f, size_t k, double least)
{
    size_t n = wv_draws_size(f);
    const double *log_q = f->shared.mix_q + k * wv_draws_points(f);
    double total = 0;
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->pool.log_p[i] > -INFINITY ? log_q[i] - f->pool.log_sum[i] : -INFINITY;
    bool some = wv_weights_normalise(n, f->desk.psi, f->desk.gu);
    for (size_t i = 0; i < n; i++)
        total += f->desk.gu[i] = f->desk.gu[i] > least ? f->desk.gu[i] : 0;
    for (size_t i = 0; i < n; i++)
        f->desk.gu[i] /= total;
    for (size_t i = n; i < blocks(f) * WV_COLUMNS; i++)
        f->desk.gu[i] = 0;
    return some;
}

/* E_qk[log p~ - log m] under the weights f->desk.gu. */
static double own_elbo(const wvgd_fit *f)
{
    double sum = 0;
    for (size_t i = 0, n = wv_draws_size(f); i < n; i++)
        if (f->desk.gu[i] > 0)
            sum += f->desk.gu[i] * (f->pool.log_p[i] - f->shared.mix_log[i]);
    return sum;
}

/* Points that stand for component k: weights into f->desk.gu, points and gradients into f->desk.gx, f->desk.gg. Returns
 * how many. */
static size_t gather(wvgd_fit *f, size_t k, double least)
{
    size_t D = f->D, kept = 0, n = stand_for(f, k, least) ? wv_draws_size(f) : 0;
    for (size_t i = 0; i < n; i++)
        if (f->desk.gu[i] > 0) {
            memcpy(f->desk.gx + kept * D, f->pool.x + i * D, D * sizeof(double));
            memcpy(f->desk.gg + kept * D, f->pool.grad + i * D, D * sizeof(double));
            f->desk.gu[kept++] = f->desk.gu[i];
        }
    return kept;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */
static void keep_best(wvgd_fit *f)
{
    wv_mixture_copy(&f->mix_best, &f->mix);
}

static void go_back(wvgd_fit *f)
{
    wv_mixture_copy(&f->mix, &f->mix_best);
}

static void shrink(wvgd_fit *f, size_t k, double by)
{
    cblas_dscal((int)(f->D * f->D), by, f->mix.root + k * f->D * f->D, 1);
}

/* Marks, in f->desk.mix_e, the components that have dragged the ELBO down. */
static void mark_lost(wvgd_fit *f, double elbo)
{
    for (size_t k = 0; k < f->mix.K; k++)
        f->desk.mix_e[k] = f->mix.K > 1 && stand_for(f, k, 1e-12) && own_elbo(f) < elbo - 30;
}

static void copy_component(wvgd_fit *f, size_t to, size_t from)
{
    memcpy(f->mix.mu + to * f->D, f->mix.mu + from * f->D, f->D * sizeof(double));
    memcpy(f->mix.root + to * f->D * f->D, f->mix.root + from * f->D * f->D, f->D * f->D * sizeof(double));
}

static void normalise_weights(wvgd_fit *f)
{
    double sum = cblas_dasum((int)f->mix.K, f->mix.w, 1);
    cblas_dscal((int)f->mix.K, 1 / sum, f->mix.w, 1);
}

/* Keeps the components whose mark is zero, if any. */
static void drop_marked(wvgd_fit *f)
{
    size_t kept = 0;
    for (size_t k = 0; k < f->mix.K; k++)
        if (f->desk.mix_e[k] == 0) {
            f->mix.w[kept] = f->mix.w[k];
            copy_component(f, kept++, k);
        }
    if (!kept)
        return;
    f->mix.K = kept;
    normalise_weights(f);
}

/* What a step makes of each component: its own part of the ELBO, and the nats of a full step. */
typedef struct {
    double *elbo, *kl; /* [K] */
} gains;

/* Natural gradient step of component k, into f->shared.mix_mu and f->shared.mix_root. */
static void step_one(wvgd_fit *f, void *context, size_t k)
{
    const gains *g = context;
    size_t D = f->D, n = wv_draws_size(f);
    wv_update_moments m = {.mean = f->desk.vector[0],
                           .cov = f->desk.square[9],
                           .grad = f->desk.vector[9],
                           .cross = f->desk.square[10],
                           .relative = f->mix.K > 1,
                           .spread = spread};
    double ess = stand_for(f, k, 1e-12) ? wv_weights_ess(n, f->desk.gu) : 0, *root = f->shared.mix_root + k * D * D,
           *mu = f->shared.mix_mu + k * D;
    memcpy(mu, f->mix.mu + k * D, D * sizeof *mu);
    memcpy(root, f->mix.root + k * D * D, D * D * sizeof *root);
    g->elbo[k] = NAN;
    wv_update_result r = {false, 0};
    if (ess >= 4) {
        g->elbo[k] = own_elbo(f);
        measure(f, k, f->desk.gu, &m);
        wv_update c = {.estimator = WVGD_NATURAL,
                       .family = wv_family_get(WVGD_FULL),
                       .mu = mu,
                       .root = root,
                       .moments = &m,
                       .u = f->desk.gu,
                       .ess = ess,
                       .rho = f->fitting.rho};
        r = wv_update_component(f, &c);
    }
    if (!r.ok)
        cblas_dscal((int)(D * D), 0.8, root, 1);
    g->kl[k] = r.ok ? r.kl : INFINITY;
}

/* The same for every component, and for the weights; returns the nats of a full step. */
static double step(wvgd_fit *f)
{
    size_t K = f->mix.K, D = f->D;
    double total = 0, top = -INFINITY, bottom = INFINITY, *E = f->desk.mix_e;
    gains g = {E, E + K};
    wv_fit_share(f, blocks(f), work_of(f), gradients, NULL);
    wv_fit_share(f, K, 2 * work_of(f), step_one, &g);
    for (size_t k = 0; k < K; k++) {
        total += f->mix.w[k] * g.kl[k];
        if (isfinite(E[k])) {
            top = fmax(top, E[k]);
            bottom = fmin(bottom, E[k]);
        }
    }
    memcpy(f->mix.mu, f->shared.mix_mu, K * D * sizeof(double));
    memcpy(f->mix.root, f->shared.mix_root, K * D * D * sizeof(double));
    if (K > 1 && top > -INFINITY) {
        double sum = 0;
        for (size_t k = 0; k < K; k++)
            sum += f->mix.w[k] *= exp(0.5 * ((isfinite(E[k]) ? E[k] : bottom) - top));
        double floored = 0;
        for (size_t k = 0; k < K; k++)
            floored += f->mix.w[k] = fmax(f->mix.w[k] / sum, 0.02 / (double)K);
        for (size_t k = 0; k < K; k++)
            f->mix.w[k] /= floored;
    }
    return total;
}

/* Judges the current state on the pool, goes back if it has become worse, and steps. measured: as
 * wv_draws_take has left it. True: the fit has ended. */
static bool iterate(wvgd_fit *f, bool judged, bool measured)
{
    wv_mixture_fitting *m = &f->fitting;
    double elbo, sd, ess, D = (double)f->D;
    bool back = false;
    if (!assess(f, measured, &elbo, &sd, &ess)) {
        if (m->best > -INFINITY)
            go_back(f);
        for (size_t k = 0; k < f->mix.K; k++)
            shrink(f, k, 0.5);
        return ++m->stalls > 10;
    }
    double noise = sd / sqrt(fmax(ess, 1));
    f->last.pelbo = elbo;
    f->last.pelbo_se = noise;
    f->last.ess = ess;
    if (judged) {
        /* of a state that has gone astray the noise is as large as the fall */
        back = elbo < m->best - fmax(1, 3 * fmin(noise, m->best_sd));
        m->stalls = elbo > m->best + 0.02 + 0.1 * noise ? 0 : m->stalls + 1;
        if (back) {
            /* one that has lost itself in the neck of a funnel, say, goes, and the others need not suffer for it */
            mark_lost(f, m->best);
            go_back(f);
            drop_marked(f);
            keep_best(f);
            m->rho = fmax(0.2, m->rho / 2);
            if (!assess(f, false, &elbo, &sd, &ess))
                return true;
            m->best = fmin(m->best, elbo);
            m->best_sd = sd;
        } else if (elbo > m->best) {
            keep_best(f);
            m->best = elbo;
            m->best_sd = sd;
        }
        if (m->stalls >= (f->mix.K == 1 ? 6 : 4)) {
            wv_mixture_fit_end(f);
            return true;
        }
    }
    double kl = step(f);
    m->small = kl < 0.01 * (5 + 0.2 * D) ? m->small + 1 : 0;
    m->elbo = elbo;
    m->sd = sd;
    if (m->small >= 2)
        return true;
    if (!back)
        m->rho = fmin(1, 1.4 * m->rho);
    return false;
}

void wv_mixture_fit_begin(wvgd_fit *f, bool step_first)
{
    f->fitting = (wv_mixture_fitting){.rho = 1, .best = -INFINITY};
    keep_best(f);
    if (step_first)
        iterate(f, false, false);
}

bool wv_mixture_fit_tell(wvgd_fit *f)
{
    wv_mixture_fitting *m = &f->fitting;
    size_t finite = 0;
    for (size_t i = 0; i < f->b.n; i++)
        finite += f->b.log_p[i] > -INFINITY;
    bool measured = wv_draws_take(f, &f->b);
    m->iteration++;
    f->count.iteration++;
    if (f->mix.K == 1) {
        measured = measured && f->pool.batches <= WINDOW;
        wv_draws_forget(f, WINDOW);
        if (2 * finite < f->b.n) { /* mostly without density: contract */
            shrink(f, 0, 0.5);
            if (++m->stalls <= 10)
                return false;
            wv_mixture_fit_end(f);
            return true;
        }
    }
    if (iterate(f, true, measured))
        return true;
    if (m->iteration < (f->mix.K == 1 ? ALONE : TOGETHER))
        return false;
    wv_mixture_fit_end(f);
    return true;
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

void wv_mixture_log_density(wvgd_fit *f, size_t n, const double *x, double *log_m)
{
    for (size_t i = 0; i < n; i++)
        log_m[i] = -INFINITY;
    invert(f);
    wv_draws_add(f, place, 0, f->mix.K, n, x, log_m);
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */
/* Is component k the heaviest of those of a mode that matters? */
static bool stands_for_mode(wvgd_fit *f, size_t k)
{
    size_t modes = f->modes.relevant, m = wv_modes_nearest(f, modes, f->mix.mu + k * f->D);
    for (size_t i = 0; i < f->mix.K; i++)
        if (f->mix.w[i] > f->mix.w[k] && wv_modes_nearest(f, modes, f->mix.mu + i * f->D) == m)
            return false;
    return true;
}

void wv_grow_drop(wvgd_fit *f)
{
    for (size_t k = 0; k < f->mix.K; k++)
        f->desk.mix_e[k] = !(f->mix.w[k] > 0.03 / (double)f->mix.K) && !(f->mix.w[k] > 0.002 && stands_for_mode(f, k));
    drop_marked(f);
}

/* S[D][D][D]: the mean third derivative of log p~ in whitened coordinates, E[r_a y_b y_c] by Stein's identity
 * (r has mean 0), symmetrised. uy: [n][D]. */
static void third_derivative(size_t D, size_t n, const double *u, const double *y, const double *r, double *uy,
                             double *S)
{
    for (size_t b = 0; b < D; b++) { /* S[b][a][c] = E[r_a y_b y_c] for c <= b */
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c <= b; c++)
                uy[i * D + c] = u[i] * y[i * D + b] * y[i * D + c];
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)D, (int)b + 1, (int)n, 1.0, r, (int)D, uy, (int)D,
                    0.0, S + b * D * D, (int)D);
    }
    for (size_t p = 0; p < D; p++)
        for (size_t q = 0; q <= p; q++)
            for (size_t s = 0; s <= q; s++) {
                double mean = (S[(q * D + p) * D + s] + S[(p * D + q) * D + s] + S[(p * D + s) * D + q]) / 3;
                S[(p * D + q) * D + s] = S[(p * D + s) * D + q] = S[(q * D + p) * D + s] = mean;
                S[(q * D + s) * D + p] = S[(s * D + p) * D + q] = S[(s * D + q) * D + p] = mean;
            }
}

/* One step of a power iteration: T = S(v, ., .), and v becomes the unit vector along S(T, .).
 * Returns the Frobenius norm of T. */
static double contract(size_t D, const double *S, double *v, double *T)
{
    int d = (int)D;
    cblas_dgemv(CblasRowMajor, CblasTrans, d, d * d, 1.0, S, d * d, v, 1, 0.0, T, 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, d, d * d, 1.0, S, d * d, T, 1, 0.0, v, 1);
    double length = cblas_dnrm2(d, v, 1);
    if (length > 0)
        cblas_dscal(d, 1 / length, v, 1);
    return cblas_dnrm2(d * d, T, 1);
}

/* Unit direction, in the whitened coordinates of component k, in which the curvature of log p~ changes fastest. */
static void fastest(wvgd_fit *f, size_t k, size_t n, double *best)
{
    size_t D = f->D;
    double *y = f->desk.y, *r = f->desk.gy, *v = f->desk.vector[1], *mean = f->desk.vector[2], largest = -1;
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    wv_gaussian_whiten(&q, n, f->desk.gx, y, f->arena);
    memcpy(r, f->desk.gg, n * D * sizeof *r);
    q.family->pull(D, 0, q.root, n, r, f->arena);
    cblas_daxpy((int)(n * D), 1.0, y, 1, r, 1); /* what the component leaves of the gradient, */
    /* with outliers pulled in to the length that 98 % of the weight stays below */
    for (size_t i = 0; i < n; i++)
        f->desk.gr[i] = cblas_dnrm2((int)D, r + i * D, 1);
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++)
        high = fmax(high, f->desk.gr[i]);
    for (int round = 0; round < 40; round++) {
        double middle = (low + high) / 2, below = 0;
        for (size_t i = 0; i < n; i++)
            below += f->desk.gr[i] <= middle ? f->desk.gu[i] : 0;
        *(below < 0.98 ? &low : &high) = middle;
    }
    memset(mean, 0, D * sizeof *mean);
    for (size_t i = 0; i < n; i++) {
        if (f->desk.gr[i] > high)
            cblas_dscal((int)D, high / f->desk.gr[i], r + i * D, 1);
        cblas_daxpy((int)D, f->desk.gu[i], r + i * D, 1, mean, 1);
    }
    for (size_t i = 0; i < n; i++)
        cblas_daxpy((int)D, -1.0, mean, 1, r + i * D, 1);
    third_derivative(D, n, f->desk.gu, y, r, f->desk.uy, f->shared.mix_y);
    for (uint64_t start = 0; start < 3; start++) {
        wv_stream stream = {f->opt.seed, WV_RNG_RESTART, f->count.batch, k};
        wv_rng_normal(&stream, start, D, v);
        cblas_dscal((int)D, 1 / cblas_dnrm2((int)D, v, 1), v, 1);
        double norm = 0;
        for (int round = 0; round < 15; round++)
            norm = contract(D, f->shared.mix_y, v, f->desk.square[0]);
        if (norm > largest) {
            largest = norm;
            memcpy(best, v, D * sizeof *v);
        }
    }
}

/* Component k becomes three along direction v: itself, narrower, and a copy to either side. */
static void split(wvgd_fit *f, size_t k, double *v)
{
    enum { AWAY = 2 };
    size_t D = f->D, K = f->mix.K;
    double aside = exp(-0.5), share = 1 / (1 + 2 * aside), *C = f->desk.square[0];
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    memcpy(f->desk.vector[4], v, D * sizeof *v);
    q.family->colour(D, 0, q.root, 1, f->desk.vector[4], f->arena);
    for (size_t i = 0; i < D; i++)
        for (size_t c = 0; c < D; c++)
            C[i * D + c] = (i == c) - 0.64 * v[i] * v[c];
    if (!q.family->absorb(D, 0, f->mix.root + k * D * D, C, f->arena))
        return;
    for (size_t s = 0; s < AWAY; s++) {
        copy_component(f, K + s, k);
        cblas_daxpy((int)D, s ? 1.0 : -1.0, f->desk.vector[4], 1, f->mix.mu + (K + s) * D, 1);
        f->mix.w[K + s] = f->mix.w[k] * aside * share;
    }
    f->mix.w[k] *= share;
    f->mix.K += AWAY;
}

void wv_grow_split(wvgd_fit *f)
{
    size_t K = f->mix.K, room = wv_draws_components(f), most = 2, n = wv_draws_size(f);
    double elbo, sd, ess, *gap = f->desk.mix_e, *direction = f->desk.vector[5];
    if (!assess(f, false, &elbo, &sd, &ess))
        return;
    for (size_t k = 0; k < K; k++) {
        gap[k] = 0;
        if (!stand_for(f, k, 1e-12) || wv_weights_ess(n, f->desk.gu) < 4)
            continue;
        for (size_t i = 0; i < n; i++) {
            double off = f->desk.gu[i] > 0 ? f->pool.log_p[i] - f->shared.mix_log[i] - elbo : 0;
            gap[k] += f->mix.w[k] * f->desk.gu[i] * fmin(off * off, 25);
        }
    }
    for (; most && f->mix.K + 2 <= room; most--) {
        size_t worst = 0;
        for (size_t k = 1; k < K; k++)
            worst = gap[k] > gap[worst] ? k : worst;
        if (!(gap[worst] > 0))
            return;
        gap[worst] = 0;
        fastest(f, worst, gather(f, worst, 1e-8), direction);
        split(f, worst, direction);
    }
}

void wv_grow_add(wvgd_fit *f, size_t n, const double *x, double *log_w, double share)
{
    size_t D = f->D, K = f->mix.K, room = wv_draws_components(f), wanted = (size_t)ceil(0.34 * (double)K), added = 0;
    double near = (double)D + 2 * sqrt(2 * (double)D);
    for (wanted = wanted > 2 ? wanted : 2; added < wanted && K + added < room; added++) {
        size_t i = 0, parent = 0;
        for (size_t k = 1; k < n; k++)
            i = log_w[k] > log_w[i] ? k : i;
        if (!(log_w[i] > 0.7))
            break;
        double best = -INFINITY, log_q;
        for (size_t k = 0; k < K; k++) {
            wv_gaussian q = wv_mixture_component(&f->mix, k);
            wv_gaussian_log_density(&q, 1, x + i * D, &log_q, f->desk.y, f->arena);
            if (log_q + log(f->mix.w[k]) > best) {
                best = log_q + log(f->mix.w[k]);
                parent = k;
            }
        }
        copy_component(f, K + added, parent);
        memcpy(f->mix.mu + (K + added) * D, x + i * D, D * sizeof(double));
        wv_gaussian q = wv_mixture_component(&f->mix, K + added);
        wv_gaussian_whiten(&q, n, x, f->desk.y, f->arena);
        for (size_t k = 0; k < n; k++)
            if (cblas_ddot((int)D, f->desk.y + k * D, 1, f->desk.y + k * D, 1) < near)
                log_w[k] = -INFINITY;
    }
    for (size_t k = 0; k < K + added && added; k++)
        f->mix.w[k] = k < K ? (1 - share) * f->mix.w[k] : share / (double)added;
    f->mix.K = K + added;
}

/* ---- refinement -------------------------------------------------------------------------------------------------- */
typedef struct {
    const double *v; /* [pool] weights of the points */
    double *w;       /* [K] weights of the components, not normalised */
} masses;

static void refine_one(wvgd_fit *f, void *context, size_t k)
{
    const masses *to = context;
    size_t n = wv_draws_size(f), D = f->D, room = wv_draws_points(f);
    double sum = 0, d = (double)D, *mu = f->mix.mu + k * D, *root = f->mix.root + k * D * D, *mean = f->desk.vector[0];
    for (size_t i = 0; i < n; i++) {
        double r = to->v[i] > 0 ? to->v[i] * f->mix.w[k] * exp(f->shared.mix_q[k * room + i] - f->shared.mix_log[i])
                                : 0;
        sum += f->desk.gu[i] = isfinite(r) ? r : 0;
    }
    to->w[k] = 0.2 * f->mix.w[k];
    if (sum < 1e-8)
        return;
    cblas_dscal((int)n, 1 / sum, f->desk.gu, 1);
    double size = wv_weights_ess(n, f->desk.gu), keep = size / (size + 2 * d);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, f->pool.x, (int)D, f->desk.gu, 1, 0.0, mean, 1);
    for (size_t i = 0; i < D; i++)
        mean[i] = mu[i] + keep * (mean[i] - mu[i]);
    wv_gaussian_follow(wv_family_get(WVGD_FULL), D, root, mean, n, f->pool.x, f->desk.gu, size / (size + 1 + d * d),
                       f->desk.y, f->desk.square[0], f->arena);
    memcpy(mu, mean, D * sizeof *mu);
    to->w[k] = size < 10 ? 0.5 * (f->mix.w[k] + sum) : 0.2 * f->mix.w[k] + 0.8 * sum;
}

void wv_grow_refine(wvgd_fit *f, const double *v)
{
    double elbo, sd, ess;
    masses to = {v, f->desk.mix_e};
    if (!assess(f, false, &elbo, &sd, &ess))
        return;
    wv_fit_share(f, f->mix.K, work_of(f), refine_one, &to);
    memcpy(f->mix.w, to.w, f->mix.K * sizeof(double));
    normalise_weights(f);
}
