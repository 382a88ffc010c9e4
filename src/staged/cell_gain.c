/* cell_gain.c - what a component could still gain within its family. The natural gradient step of a truncated Gaussian
 * q_j is the regression of log p~ - log q_j on its statistics T = (t, t t') under q_j (method, section 4), and wins
 * half of the variance that this explains, to second order: gain_j = Var_qj(g) / 2,     g the fitted part of log p~ -
 * log q_j = (log m - log q_j) + (log p~ - log m). The loss against log(beta_j p(x)) cannot tell a bad fit from what the
 * family must lose; the gain can. g has many coefficients and the evaluated draws are few, so its direction is found
 * without them: free draws of q_j fit log m - log q_j, m the mixture, and stored draws, weighted to stand for q_j, log
 * p~ - log m. What a step of the best length along g wins is Cov(g, log p~ - log q_j)^2 / (2 Var g): one coefficient,
 * measured on other free draws and on the evaluated ones, so that no draw judges what was fitted to it. Directions that
 * neither shows remain unseen.
 *
 * Free draws take time, and most fits are good. So a first look comes before: half of the whole variance of log p~ -
 * log q_j, by the evaluated draws, is more than any step can win; and the stored draws alone tell how much of it a
 * regression explains, less what it would explain of noise. Only where neither excludes a bad fit are free draws made.
 * Then both estimates count, by their errors. Where the component is all of the mixture free draws would show nothing:
 * then the gain is not known beyond that variance.
 *
 * Where the density ends in the cell, neither the mixture nor free draws know where: there stored draws alone tell.
 */
#include "staged/cell_gain.h"
#include "fit.h"
#include "gaussian.h"
#include "halfspaces.h"
#include "dense.h"
#include "policy.h"
#include "staged/cell_draws.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* Weighted draws of q_j in its cell, and values there. */
typedef struct {
    size_t n;
    double *x, *u, *d; /* [n][D], [n], [n] */
} weighted;

static weighted take_weighted(wvgd_fit *f, size_t n)
{
    return (weighted){0, wv_arena_take(f->arena, n * f->D), wv_arena_take(f->arena, n), wv_arena_take(f->arena, n)};
}

/* Draws `first` .. `end` of w. */
static weighted part_of(const wvgd_fit *f, const weighted *w, size_t first, size_t end)
{
    return (weighted){end - first, w->x + first * f->D, w->u + first, w->d + first};
}

/* The family's statistics in coordinates t of `frame`. */
typedef struct {
    size_t D, p; /* 1, t, and products: all of them, or squares alone */
    bool all;
    wv_gaussian frame; /* without a family: points are in these coordinates */
    double *b;         /* [p] coefficients of g */
} direction;

static size_t size_of(size_t D, bool all)
{
    return 1 + D + (all ? D * (D + 1) / 2 : D);
}

static direction direction_of(wvgd_fit *f)
{
    bool all = f->cells.shape.family == wv_family_get(WVGD_FULL) &&
               (double)size_of(f->D, true) <= wv_policy.gain_check_coefficients;
    size_t p = size_of(f->D, all);
    return (direction){.D = f->D, .p = p, .all = all, .b = wv_arena_zeros(f->arena, p)};
}

/* T[p] of t[D]. */
static void statistics(const direction *g, const double *t, double *T)
{
    size_t at = 0;
    T[at++] = 1;
    for (size_t k = 0; k < g->D; k++)
        T[at++] = t[k];
    for (size_t k = 0; k < g->D; k++)
        for (size_t l = g->all ? 0 : k; l <= k; l++)
            T[at++] = t[k] * t[l];
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* log m - log q_j at the draws from number `first` on. */
static void add_values(wvgd_fit *f, size_t j, weighted *w, size_t first)
{
    size_t n = w->n - first, mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, n), *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_mixture_log_density(&f->mix, n, w->x + first * f->D, w->d + first, NULL, &f->workers);
    wv_gaussian_log_density(&q, n, w->x + first * f->D, log_q, y, f->arena);
    for (size_t i = 0; i < n; i++)
        w->d[first + i] -= log_q[i];
    wv_arena_release(f->arena, mark);
}

/* Free draws of q_j in its cell, so many or as far as they go; of weighted ones as many as there may be. */
static weighted draw_free(wvgd_fit *f, size_t j, size_t wanted)
{
    bool around = f->cells.around[j] > 0;
    double share = fmax(exp(f->cells.log_Z[j]), wv_policy.bound_share_least),
           each = around ? WV_FREE : fmin(2 * ceil(wv_policy.bound_draw_pairs * (double)wanted / share), WV_FREE);
    wanted = around ? WV_FREE : wanted;
    uint64_t begin = 2 * (uint64_t)wv_policy.bound_mass_batches * WV_FREE;
    weighted w = take_weighted(f, wanted);
    for (size_t b = 0; w.n < wanted && (double)b < wv_policy.gain_check_batches; b++) {
        size_t mark = wv_arena_mark(f->arena);
        wv_inside in = wv_cell_draws_inside(f, j, WV_RNG_FREE, begin + b * WV_FREE, (size_t)each, around);
        size_t kept = in.n < wanted - w.n ? in.n : wanted - w.n;
        memcpy(w.x + w.n * f->D, in.x, kept * f->D * sizeof(double));
        memcpy(w.u + w.n, in.u, kept * sizeof(double));
        w.n += kept;
        wv_arena_release(f->arena, mark);
    }
    add_values(f, j, &w, 0);
    return w;
}

/* Stored draws of the cell that stand for q_j, with log p~ - log m. */
static weighted stored_draws(wvgd_fit *f, size_t j)
{
    wv_cell_sample s = wv_cell_draws_sample(f, j, false);
    weighted w = {s.n, s.x, wv_arena_take(f->arena, s.n), wv_arena_take(f->arena, s.n)};
    size_t mark = wv_arena_mark(f->arena);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double *log_q = wv_arena_take(f->arena, s.n), *y = wv_arena_take(f->arena, s.n * f->D);
    wv_gaussian_log_density(&q, s.n, s.x, log_q, y, f->arena);
    for (size_t i = 0; i < s.n; i++) {
        log_q[i] -= s.log_m[i];
        w.d[i] = s.log_p[i] - s.log_mix[i];
    }
    if (!s.n || !wv_weights_normalise(s.n, log_q, w.u))
        w.n = 0;
    wv_arena_release(f->arena, mark);
    return w;
}

static bool enough(const weighted *w, size_t p)
{
    return w->n > p && wv_weights_ess(w->n, w->u) > wv_policy.gain_check_least * (double)p;
}

/* ---- the direction ----------------------------------------------------------------------------------------------- */
/* Adds the weighted squares of draws about the mean to C[D][D]: all products (lower half), or the diagonal alone. */
static void add_squares(wvgd_fit *f, const weighted *w, const double *mean, bool full, double *C)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *d = wv_arena_take(f->arena, WV_BLOCK * D);
    for (size_t first = 0; first < w->n; first += WV_BLOCK) {
        size_t here = w->n - first < WV_BLOCK ? w->n - first : WV_BLOCK;
        for (size_t i = 0; i < here; i++) {
            double root = sqrt(w->u[first + i]), *row = d + i * D;
            for (size_t k = 0; k < D; k++)
                row[k] = root * (w->x[(first + i) * D + k] - mean[k]);
            for (size_t k = 0; k < D && !full; k++)
                C[k * (D + 1)] += row[k] * row[k];
        }
        if (full)
            cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)D, (int)here, 1.0, d, (int)D, 1.0, C, (int)D);
    }
    wv_arena_release(f->arena, mark);
}

/* Coordinates t in which the draws have mean 0 and variance 1: of all axes for full components, else of each.
 * mean[D], root[D][D]. False: there are none. */
static bool find_frame(wvgd_fit *f, const weighted *w, direction *g, double *mean, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    bool full = f->cells.shape.family == wv_family_get(WVGD_FULL), ok = true;
    double sum = cblas_dasum((int)w->n, w->u, 1), *C = wv_arena_zeros(f->arena, D * D),
           *spare = wv_arena_take(f->arena, D * D);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)w->n, (int)D, 1 / sum, w->x, (int)D, w->u, 1, 0.0, mean, 1);
    add_squares(f, w, mean, full, C);
    cblas_dscal((int)(D * D), 1 / sum, C, 1);
    for (size_t k = 0; k < D; k++)
        ok = ok && C[k * D + k] > 0 && isfinite(C[k * D + k]);
    for (size_t k = 0; k < D && !full; k++)
        root[k] = sqrt(C[k * D + k]);
    if (full && ok && (ok = wv_dense_chol(D, C, spare)))
        memcpy(root, C, D * D * sizeof *root);
    g->frame = (wv_gaussian){full ? f->cells.shape.family : wv_family_get(WVGD_DIAG), D, 0, mean, root, 0};
    wv_arena_release(f->arena, mark);
    return ok;
}

/* Rows of statistics of a block of draws from `first` on, in T[WV_BLOCK][p]; returns how many. */
static size_t fill_block(wvgd_fit *f, const direction *g, size_t n, const double *x, size_t first, double *T)
{
    size_t D = g->D, here = n - first < WV_BLOCK ? n - first : WV_BLOCK, mark = wv_arena_mark(f->arena);
    double *t = wv_arena_take(f->arena, here * D);
    if (g->frame.family)
        wv_gaussian_whiten(&g->frame, here, x + first * D, t, f->arena);
    for (size_t i = 0; i < here; i++)
        statistics(g, g->frame.family ? t + i * D : x + (first + i) * D, T + i * g->p);
    wv_arena_release(f->arena, mark);
    return here;
}

/* Rows of statistics of a block of draws, times roots of their weights; returns how many. */
static size_t fill_rooted(wvgd_fit *f, const direction *g, const weighted *w, size_t first, double *T)
{
    size_t here = fill_block(f, g, w->n, w->x, first, T);
    for (size_t i = 0; i < here; i++)
        cblas_dscal((int)g->p, sqrt(w->u[first + i]), T + i * g->p, 1);
    return here;
}

/* How much each draw tells its own fitted value, 0 to 1: F = L L' of the regression, L[p][p]. */
static void find_leverage(wvgd_fit *f, const direction *g, const weighted *w, const double *L, double *leverage)
{
    size_t p = g->p, mark = wv_arena_mark(f->arena);
    double *T = wv_arena_take(f->arena, WV_BLOCK * p);
    for (size_t first = 0; first < w->n; first += WV_BLOCK) {
        size_t here = fill_rooted(f, g, w, first, T);
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)here, (int)p, 1.0, L, (int)p,
                    T, (int)p);
        for (size_t i = 0; i < here; i++)
            leverage[first + i] = cblas_ddot((int)p, T + i * p, 1, T + i * p, 1);
    }
    wv_arena_release(f->arena, mark);
}

/* Adds the regression of d on the statistics to g. leverage[n] of the draws, or NULL. */
static bool add_regression(wvgd_fit *f, const weighted *w, direction *g, double *leverage)
{
    size_t p = g->p, mark = wv_arena_mark(f->arena);
    lapack_int size = (lapack_int)p;
    double *T = wv_arena_take(f->arena, WV_BLOCK * p), *F = wv_arena_zeros(f->arena, p * p),
           *b = wv_arena_zeros(f->arena, p), r[WV_BLOCK];
    for (size_t first = 0; first < w->n; first += WV_BLOCK) {
        size_t here = fill_rooted(f, g, w, first, T);
        for (size_t i = 0; i < here; i++)
            r[i] = sqrt(w->u[first + i]) * (w->d[first + i] - w->d[0]);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)here, (int)p, 1.0, T, (int)p, r, 1, 1.0, b, 1);
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)p, (int)here, 1.0, T, (int)p, 1.0, F, (int)p);
    }
    for (size_t k = 0; k < p; k++)
        F[k * p + k] *= 1 + 1e-9;
    bool ok = LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', size, 1, F, size, b, size) == 0;
    for (size_t k = 0; k < p && ok; k++)
        ok = isfinite(b[k]);
    if (ok)
        cblas_daxpy((int)p, 1.0, b, 1, g->b, 1);
    if (ok && leverage)
        find_leverage(f, g, w, F, leverage);
    wv_arena_release(f->arena, mark);
    return ok;
}

/* value[n] of g at n points, with the mean that weights u[n] (NULL: equal ones) give it taken away. */
static void evaluate(wvgd_fit *f, const direction *g, size_t n, const double *x, const double *u, double *value)
{
    size_t mark = wv_arena_mark(f->arena);
    double *T = wv_arena_take(f->arena, WV_BLOCK * g->p), sum = 0, mean = 0;
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = fill_block(f, g, n, x, first, T);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)here, (int)g->p, 1.0, T, (int)g->p, g->b, 1, 0.0, value + first,
                    1);
    }
    for (size_t i = 0; i < n; i++) {
        sum += u ? u[i] : 1;
        mean += (u ? u[i] : 1) * value[i];
    }
    for (size_t i = 0; i < n; i++)
        value[i] -= mean / sum;
    wv_arena_release(f->arena, mark);
}

/* ---- a first look ------------------------------------------------------------------------------------------------ */
/* Half of the variance of log p~ - log q_j under q_j: no direction gains more. */
typedef struct {
    double least, most; /* by the errors of the estimate */
} half_variance;

static half_variance half_variance_of(size_t n, const double *d)
{
    double mean = 0, square = 0, fourth = 0;
    if (n <= 2)
        return (half_variance){NAN, NAN};
    for (size_t i = 0; i < n; i++)
        mean += d[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double e = (d[i] - mean) * (d[i] - mean);
        square += e / (double)n;
        fourth += e * e / (double)n;
    }
    double normal = 2, errors = wv_policy.gain_check_errors *
                                sqrt(fmax(square > 0 ? fourth / square / square - 1 : 0, normal) / (double)n);
    return (half_variance){square / 2 * fmax(1 - errors, 0), square / 2 * (1 + errors)};
}

/* The same of the evaluated draws x[n][D] that have density. */
static half_variance look_at_evaluated(wvgd_fit *f, size_t j, size_t n, const double *x, const double *log_p)
{
    size_t mark = wv_arena_mark(f->arena), kept = 0;
    double *log_q = wv_arena_take(f->arena, n), *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, n, x, log_q, y, f->arena);
    for (size_t i = 0; i < n; i++)
        if (log_p[i] > -INFINITY)
            log_q[kept++] = log_p[i] - log_q[i];
    half_variance v = half_variance_of(kept, log_q);
    wv_arena_release(f->arena, mark);
    return v;
}

/* Some stored draws of the cell, evenly spread over them, that stand for q_j, with log p~ - log q_j; of full components
 * in its own coordinates. */
static weighted some_stored(wvgd_fit *f, size_t j, size_t wanted)
{
    const wv_draws *s = &f->closing.draws;
    size_t D = f->D, most = wv_cell_draws_most(f, j), every = most / wanted + 1;
    weighted w = take_weighted(f, most / every + 1);
    size_t mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, most / every + 1), *y = wv_arena_take(f->arena, (most / every + 1) * D);
    for (size_t i = 0, k = 0; i < s->n && k < most; i++)
        if (s->cell[i] == j && k++ % every == 0 && s->log_p[i] > -INFINITY) {
            memcpy(w.x + w.n * D, s->x + i * D, D * sizeof(double));
            w.u[w.n] = -s->log_m[i];
            w.d[w.n++] = s->log_p[i];
        }
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, w.n, w.x, log_q, y, f->arena);
    for (size_t i = 0; i < w.n; i++) {
        w.d[i] -= log_q[i];
        log_q[i] += w.u[i];
    }
    if (f->cells.shape.family == wv_family_get(WVGD_FULL))
        memcpy(w.x, y, w.n * D * sizeof *y);
    if (!w.n || !wv_weights_normalise(w.n, log_q, w.u))
        w.n = 0;
    wv_arena_release(f->arena, mark);
    return w;
}

/* A regression: fitted values of mean 0 and what they leave, at draws whose weights sum to 1. Residuals that are large
 * where the statistics are, in tails, make both noise and errors many times larger than even ones would. */
typedef struct {
    size_t n, p;
    double *u, *fit, *left;        /* [n]; left: without the draw's own part in the fit */
    double explained, rest, noise; /* weighted squares of fit and of the rest; what noise adds to the first */
} regression;

static regression regression_of(wvgd_fit *f, const direction *g, const weighted *w, const double *leverage)
{
    regression r = {
        w->n, g->p, wv_arena_take(f->arena, w->n), wv_arena_take(f->arena, w->n), wv_arena_take(f->arena, w->n), 0,
        0,    0};
    double sum = cblas_dasum((int)w->n, w->u, 1), mean = cblas_ddot((int)w->n, w->u, 1, w->d, 1) / sum;
    evaluate(f, g, w->n, w->x, w->u, r.fit);
    for (size_t i = 0; i < w->n; i++) {
        double e = w->d[i] - mean - r.fit[i];
        r.u[i] = w->u[i] / sum;
        r.left[i] = e / fmax(1 - leverage[i], 1e-9);
        r.explained += r.u[i] * r.fit[i] * r.fit[i];
        r.rest += r.u[i] * e * e;
        r.noise += r.u[i] * (leverage[i] - r.u[i]) * e * r.left[i];
    }
    return r;
}

/* Half of what the regression explains of the variance of log p~ - log q_j, less what it would explain of noise. */
static double stored_gain(const regression *r)
{
    return fmax(r->explained - r->noise, 0) / 2;
}

/* Its standard error, if `gain` is true: each draw's part in it, and that of noise. */
static double stored_error(const regression *r, double gain)
{
    double a = r->explained > 0 ? sqrt(2 * gain / r->explained) : 0,
           squares = 2 * r->noise * r->noise / (double)(r->p - 1);
    for (size_t i = 0; i < r->n; i++) {
        double g = a * r->fit[i], part = r->u[i] * (2 * g * r->left[i] + g * g - 2 * gain);
        squares += part * part;
    }
    return sqrt(squares) / 2;
}

/* By so many stored draws. False: they are too few to tell. */
static bool look_at_stored(wvgd_fit *f, size_t j, size_t wanted, direction *g, regression *r)
{
    size_t D = f->D;
    weighted w = some_stored(f, j, wanted);
    double *mean = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D),
           *leverage = wv_arena_take(f->arena, w.n);
    bool own = f->cells.shape.family == wv_family_get(WVGD_FULL),
         told = enough(&w, g->p) && (own || find_frame(f, &w, g, mean, root)) && add_regression(f, &w, g, leverage);
    if (told)
        *r = regression_of(f, g, &w, leverage);
    memset(g->b, 0, g->p * sizeof *g->b);
    return told;
}

/* ---- the gain ---------------------------------------------------------------------------------------------------- */
/* g at weighted draws; weighted means of g^2 and of g d. */
typedef struct {
    weighted w;
    double *g; /* [n], of mean 0 */
    double sum, variance, covariance;
} moments;

static moments moments_of(wvgd_fit *f, const direction *g, const weighted *w)
{
    moments m = {*w, wv_arena_take(f->arena, w->n), 0, 0, 0};
    evaluate(f, g, w->n, w->x, w->u, m.g);
    for (size_t i = 0; i < w->n; i++)
        m.sum += w->u[i];
    for (size_t i = 0; i < w->n; i++) {
        m.variance += w->u[i] / m.sum * m.g[i] * m.g[i];
        m.covariance += w->u[i] / m.sum * m.g[i] * w->d[i];
    }
    return m;
}

/* Variance of r Cov(g, d) - r^2/2 * Var g, as the draws have it; with a mean of d far from 0 its noise has no part. */
static double error_of(const moments *m, double r, double variance)
{
    double mean = 0, error = 0;
    for (size_t i = 0; i < m->w.n; i++)
        mean += m->w.u[i] / m->sum * m->w.d[i];
    for (size_t i = 0; i < m->w.n; i++) {
        double e = r * (m->g[i] * (m->w.d[i] - mean) - m->covariance) - variance * (m->g[i] * m->g[i] - m->variance);
        error += m->w.u[i] / m->sum * e * (m->w.u[i] / m->sum * e);
    }
    return error;
}

/* The evaluated draws, with log p~ - log m. */
static weighted evaluated(wvgd_fit *f, size_t n, const double *x, const double *log_p)
{
    weighted w = take_weighted(f, n);
    for (size_t i = 0; i < n; i++)
        if (log_p[i] > -INFINITY) {
            memcpy(w.x + w.n * f->D, x + i * f->D, f->D * sizeof *x);
            w.u[w.n] = 1;
            w.d[w.n++] = log_p[i];
        }
    size_t mark = wv_arena_mark(f->arena);
    double *log_m = wv_arena_take(f->arena, w.n);
    wv_mixture_log_density(&f->mix, w.n, w.x, log_m, NULL, &f->workers);
    for (size_t i = 0; i < w.n; i++)
        w.d[i] -= log_m[i];
    wv_arena_release(f->arena, mark);
    return w;
}

/* Of one direction, by free draws and by the evaluated ones. */
typedef struct {
    moments known, asked;
} measured;

/* Var g from free draws; 0: there is nothing along it. */
static double along(const measured *m)
{
    return m->known.variance > 1e-12 ? m->known.variance : 0;
}

/* C^2 / 2V, V that variance, C the covariance with log p~ - log q_j, to which the evaluated draws add what the mixture
 * does not tell. */
static double measured_gain(const measured *m)
{
    double V = along(m), C = m->known.covariance + m->asked.covariance;
    return V > 0 && C > 0 ? C * C / (2 * V) : 0;
}

/* Its standard error, if `gain` is true. */
static double measured_error(const measured *m, double gain)
{
    double V = along(m), r = sqrt(2 * gain / V);
    if (!(V > 0))
        return 0;
    return sqrt(error_of(&m->known, r, r * r / 2) + error_of(&m->asked, r, 0)) +
           (error_of(&m->known, 1, 0) + error_of(&m->asked, 1, 0)) / (2 * V);
}

/* The direction of the step, from the first free draws and from stored draws, if these can tell. */
static bool find_direction(wvgd_fit *f, size_t j, const weighted *first, direction *g, double *mean, double *root)
{
    size_t mark = wv_arena_mark(f->arena);
    bool ok = find_frame(f, first, g, mean, root) && add_regression(f, first, g, NULL);
    weighted stored = stored_draws(f, j);
    if (ok && enough(&stored, g->p))
        add_regression(f, &stored, g, NULL);
    wv_arena_release(f->arena, mark);
    return ok;
}

/* From free draws of the component, stored ones and the evaluated ones. False: they are too few. */
static bool measure(wvgd_fit *f, size_t j, direction *g, const weighted *asked, measured *m)
{
    size_t D = f->D, fit = (size_t)fmin(wv_policy.gain_check_draws * (double)g->p, WV_FREE / 2),
           wanted = fit + (size_t)wv_policy.gain_check_measure;
    weighted free_draws = draw_free(f, j, wanted), first = part_of(f, &free_draws, 0, free_draws.n * fit / wanted),
             other = part_of(f, &free_draws, first.n, free_draws.n);
    double *mean = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, D * D);
    if (!(asked->n > 2 && enough(&first, g->p) && enough(&other, 1) && find_direction(f, j, &first, g, mean, root)))
        return false;
    *m = (measured){moments_of(f, g, &other), moments_of(f, g, asked)};
    return true;
}

/* What both tell, either or none (NULL). A gain that is low by chance would have a low error, and count too much:
 * errors are those of a gain that is as high as any of them says, or of one alone by some of its errors. */
static wvgd_estimate estimate_of(const regression *stored, const measured *m)
{
    double a = stored ? stored_gain(stored) : 0, b = m ? measured_gain(m) : 0;
    if (stored && m) {
        double both = fmax(a, b), sa = stored_error(stored, both), sb = measured_error(m, both), s = hypot(sa, sb);
        return s > 0 ? (wvgd_estimate){(sb * sb * a + sa * sa * b) / (s * s), sa * sb / s} : (wvgd_estimate){both, 0};
    }
    if (stored)
        return (wvgd_estimate){a, stored_error(stored, a + wv_policy.gain_error_at * stored_error(stored, a))};
    return (wvgd_estimate){b, measured_error(m, b + wv_policy.gain_error_at * measured_error(m, b))};
}

/* Whether too little is left to gain for a bad fit, also where only evaluated draws have been. */
static bool nothing_hidden(const half_variance *all, const regression *r)
{
    wvgd_estimate gain = estimate_of(r, NULL);
    return gain.value + wv_policy.gain_check_errors * gain.se + fmax(all->least - (r->explained + r->rest) / 2, 0) <
           wv_policy.verdict_gain;
}

/* Where the density ends in the cell, which free draws do not know: by the stored ones, unless the evaluated ones vary
 * more. */
static wvgd_estimate gain_where_ended(wvgd_fit *f, size_t j, const half_variance *all)
{
    direction g = direction_of(f);
    regression r;
    bool told = look_at_stored(f, j, wv_cell_draws_most(f, j), &g, &r) && !(all->least > (r.explained + r.rest) / 2);
    return told ? estimate_of(&r, NULL) : (wvgd_estimate){NAN, NAN};
}

wvgd_estimate wv_cell_gain(wvgd_fit *f, size_t j, size_t n, const double *x, const double *log_p)
{
    size_t mark = wv_arena_mark(f->arena);
    half_variance all = look_at_evaluated(f, j, n, x, log_p);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wvgd_estimate gain = {0, all.most / wv_policy.verdict_errors};
    if (wv_cell_draws_ended(f, j, &q).told) {
        gain = gain_where_ended(f, j, &all);
        wv_arena_release(f->arena, mark);
        return gain;
    }
    if (!isfinite(all.most))
        return (wvgd_estimate){NAN, NAN};
    if (all.most < wv_policy.gain_check_small)
        return gain;
    direction g = direction_of(f);
    regression r;
    measured m;
    size_t look = (size_t)(wv_policy.gain_check_look + wv_policy.gain_check_look_each * (double)g.p);
    bool told = !(f->cells.around[j] > 0) && look_at_stored(f, j, look, &g, &r), /* or the component lies elsewhere */
        hidden = !(told && nothing_hidden(&all, &r));
    if (hidden && (told || !wv_mixture_is(&f->mix, &q))) {
        weighted asked = evaluated(f, n, x, log_p);
        bool both = measure(f, j, &g, &asked, &m),
             seen = told && all.least <= (r.explained + r.rest) / 2; /* by stored draws, as much as by the evaluated */
        gain = both ? estimate_of(seen ? &r : NULL, &m) : (wvgd_estimate){NAN, NAN};
        if (!both && seen)
            gain = estimate_of(&r, NULL);
    } else if (told)
        gain = estimate_of(&r, NULL);
    wv_arena_release(f->arena, mark);
    return gain;
}
