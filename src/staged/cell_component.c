/* cell_component.c - the component of a cell is fitted to the mixture that made the stored draws, times the
 * exponential of a quadratic that corrects it on the cell, fitted to log p~ - log m at the stored draws there.
 * That costs no evaluation, so draws of the component itself are as many as it takes: the regression of update.c
 * runs on a few sets of them, several steps on each, for as long as the component still is like the one that
 * made the set and the ELBO on it rises (method, section 6, quantise). In the end all candidates are judged on fresh
 * draws of all of them. In one dimension cell_line.c does without draws. */
#include "staged/cell_component.h"
#include "fit.h"
#include "gaussian.h"
#include "simd/columns.h"
#include "dense.h"
#include "halfspaces.h"
#include "policy.h"
#include "cell_line.h"
#include "staged/mixture_fit.h"
#include "staged/modes.h"
#include "staged/cell_draws.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* ---- a cell ------------------------------------------------------------------------------------------------------ */
/* Draws of the component in its cell, WV_FREE at most. */
typedef struct {
    double *x, *grad, *log_p; /* [n][D], [n][D], [n] points, target and its gradient */
    double *log_v;            /* [n] what is added to the log density of any component that they shall stand for */
    double *u;                /* [n] normalised weights */
} made;

/* Sizes of the sets of draws: of those on the way, and of the last; 0: too expensive. */
typedef struct {
    size_t few, many;
} sizes;

/* Components that a cell has had on the way, of which the best is taken. */
enum { CANDIDATES = 16 };
typedef struct {
    size_t n;
    double *mu, *root; /* [n][D], [n][family->size] */
    double *elbo;      /* [n] by draws of their own; INFINITY: not known */
} candidates;

/* A cell whose component is fitted. */
typedef struct {
    size_t j;
    bool careful; /* every beginning is followed, with more draws, and with some from around the particle */
    sizes size;
    double *mean, *root; /* [D], [D][D] moments of the posterior there */
    double *weight;      /* [n] normalised weights of the posterior at the stored draws there, */
    size_t n;            /* so many, */
    double ess;          /* and how many they are worth */
    double log_mass;     /* log(beta_j p(x)), as these draws have it: their noise is in the ELBOs that they give, too */
    double *mass;        /* [K] masses there of the components of the mixture; 0: tried as a beginning */

    /* draws of the component are made: */
    wv_cell_sample stored; /* the stored draws, */
    double *residual;      /* [n] and what mixture and correction leave of log p~ there, less */
    double level;          /* the mean of that: the log evidence, which ELBOs by the target do not have */
    double *correction;    /* the quadratic that corrects the mixture: 1, t, t^2/2 and, with `cross`, t_i t_k */
    bool cross;
    made draws;
    candidates tried;
} cell;

static bool is_full(const wvgd_fit *f)
{
    return f->cells.shape.family == wv_family_get(WVGD_FULL);
}

static wv_gaussian cell_gauss(const wvgd_fit *f, const cell *c)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), f->D, 0, c->mean, c->root, 0};
}

/* ---- the correction ---------------------------------------------------------------------------------------------- */
static size_t all_coefficients(size_t D)
{
    return 1 + 2 * D + D * (D - 1) / 2;
}

static size_t coefficients(const wvgd_fit *f, const cell *c)
{
    return c->cross ? all_coefficients(f->D) : 1 + 2 * f->D;
}

/* How far a point t, in units of the cell, is pulled in to the edge of what the quadratic is
 * believed; 1: not at all. */
static double pull(size_t D, const double *t)
{
    double length = cblas_dnrm2((int)D, t, 1), edge = wv_policy.correction_edge * sqrt((double)D);
    return length > edge ? edge / length : 1;
}

/* Columns of the quadratic: 1, t, t^2/2 and, with `cross`, t_i t_k, times `scale`. */
static void quadratic(size_t D, const double *t, bool cross, double scale, double *T)
{
    double p = pull(D, t);
    size_t at = 2 * D + 1;
    T[0] = scale;
    for (size_t i = 0; i < D; i++) {
        T[1 + i] = scale * p * t[i];
        T[1 + D + i] = scale * p * p * t[i] * t[i] / 2;
        for (size_t k = 0; cross && k < i; k++)
            T[at++] = scale * p * p * t[i] * t[k];
    }
}

/* Weighted normal equations F[p][p], b[p] of the correction for the stored draws; r[n]: what is to be explained. */
static void normal_equations(wvgd_fit *f, const cell *c, const double *r, double *F, double *b)
{
    size_t D = f->D, p = coefficients(f, c), n = c->stored.n, mark = wv_arena_mark(f->arena);
    double *t = wv_arena_take(f->arena, n * D), *T = wv_arena_take(f->arena, WV_BLOCK * p),
           *scaled = wv_arena_take(f->arena, WV_BLOCK); /* [n][D], [WV_BLOCK][p], [WV_BLOCK] */
    wv_gaussian units = cell_gauss(f, c);
    wv_gaussian_whiten(&units, n, c->stored.x, t, f->arena);
    memset(F, 0, p * p * sizeof *F);
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t i = 0; i < here; i++) {
            double root = sqrt(c->weight[first + i]);
            quadratic(D, t + (first + i) * D, c->cross, root, T + i * p);
            scaled[i] = root * r[first + i];
        }
        wv_dense_cross(here, p, T, p, T, true, F);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)here, (int)p, 1.0, T, (int)p, scaled, 1, 1.0, b, 1);
    }
    wv_arena_release(f->arena, mark);
}

/* Whether a cell's draws are enough for a correction with all products of coordinates. */
static bool crossed(const wvgd_fit *f, double ess)
{
    size_t full = all_coefficients(f->D);
    return f->D > 1 && ess > wv_policy.correction_cross_draws * (double)full && full <= f->size.p_max;
}

/* A correction that bends upwards more than the cell's own precision allows (heavy tails) would make the target
 * improper. */
static void limit_bend(size_t D, size_t p, double *b)
{
    double widest = 0;
    for (size_t i = 1 + D; i < p; i++)
        widest = fmax(widest, i <= 2 * D ? b[i] : 0);
    if (widest > wv_policy.correction_bend)
        cblas_dscal((int)(p - 1 - D), wv_policy.correction_bend / widest, b + 1 + D, 1);
}

/* Fits the correction of the cell to the stored draws, by least squares, shrunk by ESS / (ESS + coefficients).
 * Coordinates: the cell's moments. */
static void fit_correction(wvgd_fit *f, cell *c)
{
    size_t D = f->D, n = c->stored.n;
    c->cross = crossed(f, c->ess);
    size_t p = coefficients(f, c);
    double ess = c->ess, level = 0, *b = c->correction;
    memset(b, 0, all_coefficients(D) * sizeof *b);
    if (ess < wv_policy.correction_draws * (double)p)
        return;
    size_t mark = wv_arena_mark(f->arena);
    double *r = wv_arena_take(f->arena, n), *F = wv_arena_take(f->arena, p * p);
    for (size_t i = 0; i < n; i++) {
        r[i] = c->stored.log_p[i] - c->stored.log_mix[i];
        level += c->weight[i] * r[i];
    }
    for (size_t i = 0; i < n; i++)
        r[i] -= level;
    normal_equations(f, c, r, F, b);
    for (size_t i = 0; i < p; i++)
        F[i * p + i] += 1e-8 + (i ? 0.5 / ess : 0);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, b, (lapack_int)p) != 0)
        memset(b, 0, p * sizeof *b);
    cblas_dscal((int)p, ess / (ess + (double)p), b, 1);
    b[0] += level * (double)p / (ess + (double)p); /* only the level is not shrunk */
    limit_bend(D, p, b);
    wv_arena_release(f->arena, mark);
}

/* Qt[n][D]: the quadratic part of the correction times the points t[n][D]. */
static void bend(wvgd_fit *f, const cell *c, size_t n, const double *t, double *Qt)
{
    size_t D = f->D, at = 1 + 2 * D, mark = wv_arena_mark(f->arena);
    const double *b = c->correction;
    double *Q = wv_arena_take(f->arena, D * D);
    if (c->cross) {
        for (size_t i = 0; i < D; i++) {
            Q[i * D + i] = b[1 + D + i];
            for (size_t k = 0; k < i; k++)
                Q[i * D + k] = Q[k * D + i] = b[at++];
        }
        wv_dense_product(n, D, t, D, Q, 1, 0, Qt);
    } else
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < D; k++)
                Qt[i * D + k] = b[1 + D + k] * t[i * D + k];
    wv_arena_release(f->arena, mark);
}

/* Adds the correction at the points x[n][D] to value[n], and its gradient to grad[n][D] where that is not NULL. */
static void correct(wvgd_fit *f, const cell *c, size_t n, const double *x, double *value, double *grad)
{
    size_t D = f->D;
    const double *b = c->correction;
    wv_gaussian units = cell_gauss(f, c);
    if (!(cblas_dasum((int)coefficients(f, c), b, 1) > 0))
        return;
    size_t mark = wv_arena_mark(f->arena);
    double *t = wv_arena_take(f->arena, n * D), *Qt = wv_arena_take(f->arena, n * D); /* Qt becomes the gradient */
    wv_gaussian_whiten(&units, n, x, t, f->arena);
    bend(f, c, n, t, Qt);
    for (size_t i = 0; i < n; i++) {
        double *g = Qt + i * D, p = pull(D, t + i * D);
        value[i] += b[0] + p * cblas_ddot((int)D, b + 1, 1, t + i * D, 1) +
                    p * p * cblas_ddot((int)D, g, 1, t + i * D, 1) / 2;
        for (size_t k = 0; k < D; k++)
            g[k] = p == 1 ? g[k] + b[1 + k] : 0; /* beyond the edge it is level, near enough */
    }
    if (grad) {
        units.family->push(D, 0, c->root, n, Qt, f->arena);
        cblas_daxpy((int)(n * D), 1.0, Qt, 1, grad, 1);
    }
    wv_arena_release(f->arena, mark);
}

/* What mixture and correction leave of log p~ at the stored draws of the cell, into c->residual, with mean 0 over the
 * posterior's weights; returns its variance. */
static double find_residuals(wvgd_fit *f, cell *c)
{
    size_t n = c->stored.n;
    double *r = c->residual, mean = 0, squares = 0;
    memcpy(r, c->stored.log_mix, n * sizeof *r);
    correct(f, c, n, c->stored.x, r, NULL);
    for (size_t i = 0; i < n; i++) {
        r[i] = c->stored.log_p[i] - r[i];
        mean += c->weight[i] * r[i];
    }
    c->level = mean;
    for (size_t i = 0; i < n; i++)
        r[i] -= mean;
    for (size_t i = 0; i < n; i++)
        squares += c->weight[i] * r[i] * r[i];
    return squares;
}

/* ---- beginnings -------------------------------------------------------------------------------------------------- */
/* Gaussian of the given mean and full root as component j; a diagonal one gets the precisions, which
 * is what a Gaussian cell would want. */
static void set_component(wvgd_fit *f, size_t j, const double *mean, const double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *C = wv_arena_take(f->arena, D * D), *sd = wv_arena_take(f->arena, D);
    if (is_full(f))
        wv_partition_set_component(&f->cells, j, mean, root);
    else {
        memcpy(C, root, D * D * sizeof *C);
        bool inverted = LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, C, (lapack_int)D) == 0;
        for (size_t i = 0; i < D && inverted; i++)
            sd[i] = 1 / sqrt(C[i * D + i]);
        wv_partition_set_component_sd(&f->cells, j, mean, inverted ? sd : NULL);
    }
    wv_arena_release(f->arena, mark);
}

void wv_cell_component_recall(wvgd_fit *f, size_t j)
{
    wv_partition_recall_component(&f->cells, j);
}

/* The posterior's covariance in the cell, as its moments have it. */
static void set_spread(wvgd_fit *f, const cell *c)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D);
    if (f->opt.cost == WVGD_OWN) {
        /* it bounds the cell */
    } else if (f->cells.shape.cell_family == wv_family_get(WVGD_FULL))
        wv_partition_set_spread(&f->cells, c->j, c->root);
    else {
        wv_family_get(WVGD_FULL)->sd(D, 0, c->root, sd);
        wv_partition_set_spread_sd(&f->cells, c->j, sd);
    }
    wv_arena_release(f->arena, mark);
}

/* ---- draws of the component -------------------------------------------------------------------------------------- */
/* What is known of a set of draws of the component in its cell, which stand in c->draws. */
typedef struct {
    size_t n;
    double share; /* of the component that lies in the cell */
    double ess;
    double elbo, variance; /* mean (and log share), and variance of log target - log component */
    bool around;           /* half of them come from around the particle */
} set;

/* In few dimensions care is cheap. */
static bool few_dimensions(const wvgd_fit *f)
{
    return (double)f->D <= wv_policy.component_few_dimensions;
}

/* A component with less in its cell is none for it. */
static double smallest_share(size_t N)
{
    return fmin(wv_policy.component_smallest_share, wv_policy.component_smallest_share_many / (double)N);
}

/* An even number of draws, so many that about `wanted` of them lie in the cell if this share of all does. */
static size_t draws_for(size_t wanted, double share)
{
    return 2 * (size_t)(fmin((double)wanted / fmax(share, wv_policy.component_least_share), WV_FREE) / 2);
}

/* Points and weights of set `number`, from about as many draws as leave `wanted` in the cell; *sum: of the weights. */
static set draw_inside(wvgd_fit *f, cell *c, uint64_t number, size_t wanted, set last, double *sum)
{
    set s = {.share = last.share, .elbo = -INFINITY, .around = last.around};
    for (int attempt = 0; attempt < 2; attempt++) {
        size_t n = attempt && !s.around ? WV_FREE / 2 : draws_for(wanted, s.around ? 0.5 : s.share);
        size_t mark = wv_arena_mark(f->arena);
        wv_inside in = wv_cell_draws_inside(f, c->j, WV_RNG_FIT, number * WV_FREE, n, s.around);
        s.n = in.n;
        memcpy(c->draws.x, in.x, s.n * f->D * sizeof(double));
        memcpy(c->draws.u, in.u, s.n * sizeof(double));
        wv_arena_release(f->arena, mark);
        *sum = cblas_dasum((int)s.n, c->draws.u, 1);
        s.share = *sum / in.all;
        if (s.around || s.share > wv_policy.component_little_share || n >= WV_FREE / 2)
            break;
        s.around = c->careful; /* few of its own draws lie in the cell */
    }
    return s;
}

/* Target and weights of the draws of a set, whose weights sum to `sum`, and what they say of the component. */
static void measure(wvgd_fit *f, cell *c, set *s, double sum)
{
    size_t n = s->n, mark = wv_arena_mark(f->arena);
    made *d = &c->draws;
    double mean = 0, squares = 0, *log_q = wv_arena_take(f->arena, n), *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian q = wv_partition_component(&f->cells, c->j);
    wv_gaussian_log_density(&q, n, d->x, log_q, y, f->arena);
    wv_mixture_log_density(&f->mix, n, d->x, d->log_p, d->grad, &f->workers);
    correct(f, c, n, d->x, d->log_p, d->grad);
    for (size_t i = 0; i < n; i++) {
        d->log_v[i] = log(d->u[i]) - log_q[i];
        d->u[i] /= sum;
        mean += d->u[i] * (d->log_p[i] - log_q[i]);
    }
    for (size_t i = 0; i < n; i++)
        squares += d->u[i] * (d->log_p[i] - log_q[i] - mean) * (d->log_p[i] - log_q[i] - mean);
    s->ess = wv_weights_ess(n, d->u);
    s->elbo = log(s->share) + mean;
    s->variance = squares;
    wv_arena_release(f->arena, mark);
}

static set draw(wvgd_fit *f, cell *c, uint64_t number, size_t wanted, set last)
{
    double sum = 0;
    set s = draw_inside(f, c, number, wanted, last, &sum);
    if ((double)s.n < wv_policy.component_least_draws || !(s.share > smallest_share(f->N)))
        s.n = 0;
    else
        measure(f, c, &s, sum);
    return s;
}

/* What the stored draws of the cell add to the ELBO of a component q: the mean over it of what mixture and correction
 * leave, shrunk where few of them stand for it; *ess: how many do. */
static double stored_part(wvgd_fit *f, const cell *c, const wv_gaussian *q, double *ess)
{
    size_t n = c->stored.n, D = f->D, mark = wv_arena_mark(f->arena);
    double *log_u = wv_arena_take(f->arena, n), *u = wv_arena_take(f->arena, n), *y = wv_arena_take(f->arena, n * D),
           mean = 0;
    wv_gaussian_log_density(q, n, c->stored.x, log_u, y, f->arena);
    for (size_t i = 0; i < n; i++)
        log_u[i] -= c->stored.log_m[i];
    bool some = wv_weights_normalise(n, log_u, u);
    for (size_t i = 0; i < n && some; i++)
        mean += u[i] * c->residual[i];
    *ess = some ? wv_weights_ess(n, u) : 0;
    wv_arena_release(f->arena, mark);
    return *ess / (*ess + 1 + 2 * (double)D) * mean;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
/* Points that stand for the component as it is. */
typedef struct {
    size_t n;
    const double *x, *log_p, *grad; /* [n][D], [n], [n][D] */
    const double *log_v;            /* [n] is added to the log density of a component that they shall stand for */
    double *u;                      /* [n] normalised weights */
    double share;                   /* of the component that lies in the cell */
    double ess, elbo;               /* of the component, but for what all components have in common */
    bool ended;                     /* the density ends in the cell, and all points are on this side of that end */
} weighted;

/* Weights, effective size and ELBO of the component as it is now. */
static void weigh(wvgd_fit *f, size_t j, weighted *p)
{
    size_t n = p->n, mark = wv_arena_mark(f->arena);
    double *log_q = wv_arena_take(f->arena, n), *log_u = wv_arena_take(f->arena, n),
           *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, n, p->x, log_q, y, f->arena);
    for (size_t i = 0; i < n; i++)
        log_u[i] = log_q[i] + p->log_v[i];
    bool some = wv_weights_normalise(n, log_u, p->u);
    p->ess = some ? wv_weights_ess(n, p->u) : 0;
    p->elbo = some ? wv_weights_lse(n, log_u) : -INFINITY;
    for (size_t i = 0; i < n && some; i++)
        p->elbo += p->u[i] * (p->log_p[i] - log_q[i]);
    wv_arena_release(f->arena, mark);
}

static weighted of_set(const cell *c, set s)
{
    return (weighted){s.n,   c->draws.x, c->draws.log_p, c->draws.grad, c->draws.log_v, c->draws.u, s.share,
                      s.ess, 0,          false};
}

static wv_update_result take_step(wvgd_fit *f, const cell *c, const weighted *p, double rho)
{
    wv_parameters q = wv_partition_lend(&f->cells, c->j);
    wv_update by = {.estimator = p->grad ? WVGD_NATURAL : WVGD_SCORE,
                    .family = f->cells.shape.family,
                    .R = f->cells.shape.R,
                    .mu = q.mu,
                    .root = q.root,
                    .n = p->n,
                    .x = p->x,
                    .log_p = p->log_p,
                    .grad = p->grad,
                    .u = p->u,
                    .ess = p->ess,
                    .precondition = f->pilot.wanted ? c->root : NULL,
                    .rho = rho,
                    .truncated = f->N > 1 && p->share < wv_policy.component_hardly_cut,
                    .ended = p->ended};
    return wv_fit_update(f, &by);
}

/* A step that is kept only if the ELBO on the same points rises, and halved until it does. ok: false: none does, and
 * nothing has changed; kl: of the full one. */
static wv_update_result climb(wvgd_fit *f, const cell *c, weighted *p, double rho)
{
    size_t D = f->D, size = f->cells.shape.family->size(D, f->cells.shape.R), mark = wv_arena_mark(f->arena);
    double *mu = wv_arena_take(f->arena, D), *root = wv_arena_take(f->arena, size), before = p->elbo;
    wv_gaussian q = wv_partition_component(&f->cells, c->j);
    wv_update_result r = {true, 0};
    bool gained = false;
    memcpy(mu, q.mu, D * sizeof *mu);
    memcpy(root, q.root, size * sizeof *root);
    for (int k = 0; r.ok && !gained && (double)k <= wv_policy.component_halvings; k++, rho /= 2) {
        wv_update_result step = take_step(f, c, p, rho);
        r = (wv_update_result){step.ok, k ? r.kl : step.kl};
        weigh(f, c->j, p);
        gained = p->elbo > before;
        if (!gained) {
            wv_partition_set_component(&f->cells, c->j, mu, root);
            weigh(f, c->j, p);
        }
    }
    r.ok = gained;
    wv_arena_release(f->arena, mark);
    return r;
}

/* Sizes of sets that the budget allows. */
static sizes affordable(const wvgd_fit *f, bool careful)
{
    double D = (double)f->D, N = (double)f->N,
           each = wv_policy.component_work_mixture * (double)f->mix.K * D * D + wv_policy.component_work_own * D * D +
                  fmin(N, wv_policy.component_work_tries) / 2 * (D * D + N * D);
    double few = fmax(careful ? wv_policy.component_set_draws_few_dimensions : wv_policy.component_set_draws,
                      (is_full(f) ? wv_policy.component_set_draws_full : wv_policy.component_set_draws_other) * D),
           many = fmax(wv_policy.component_last_draws, wv_policy.component_last_draws_dimension * D);
    double points = wv_policy.component_budget / (N * each),
           wanted = (wv_policy.component_sets + wv_policy.component_mixture_starts + 2) * few + many;
    if (points < wanted / wv_policy.component_too_costly)
        return (sizes){0, 0};
    double scale = fmin(1, points / wanted);
    return (sizes){(size_t)fmax(scale * few, wv_policy.component_set_draws_least),
                   (size_t)fmax(scale * many, wv_policy.component_last_draws_least)};
}

/* Some steps on a set, for as long as the component is like the one that made it; *kl: nats of the
 * first, in full. False: it has lost its cell. */
static bool use_up(wvgd_fit *f, cell *c, set s, double *kl)
{
    double rho = is_full(f) ? wv_policy.component_step_full : wv_policy.component_step_other;
    weighted p = of_set(c, s);
    weigh(f, c->j, &p);
    *kl = 0;
    for (int k = 0; (double)k < wv_policy.component_set_steps && p.ess > wv_policy.component_set_worn * s.ess; k++) {
        if (p.ess < wv_policy.component_step_draws)
            return false;
        wv_update_result r = climb(f, c, &p, rho);
        *kl = k ? *kl : r.kl;
        if (!r.ok || r.kl < wv_policy.component_settled_gain)
            break;
    }
    return true;
}

/* Numbers of sets of draws: 0 at a beginning, then those on the way, then the last, then those that compare. */
static uint64_t last_set(void)
{
    return (uint64_t)wv_policy.component_sets + 1;
}

static uint64_t comparing_set(void)
{
    return last_set() + (uint64_t)wv_policy.component_averaged_sets;
}

/* From where it stands the component goes down the regression, set by set, until a first step is
 * short; *s: its draws, in and out. */
static bool descend(wvgd_fit *f, cell *c, set *s)
{
    double kl = INFINITY;
    for (uint64_t k = 1; s->n && (double)k <= wv_policy.component_sets && kl > wv_policy.component_near_gain; k++) {
        if (!use_up(f, c, *s, &kl))
            return false;
        *s = draw(f, c, k, c->size.few, *s);
    }
    return s->n > 0;
}

/* Sets that the last steps need: the noise of one moves a component by about its dimensions times its variance, over
 * its draws, in nats. */
static double averaged_sets(size_t D, double variance, size_t draws)
{
    return fmin(ceil((double)D * variance / (wv_policy.component_noise * (double)draws)),
                wv_policy.component_averaged_sets);
}

/* The last steps: on one set, or on several with steps that fall like 1/k. */
static bool average(wvgd_fit *f, cell *c, set s)
{
    double kl, sets = averaged_sets(f->D, s.variance, c->size.many);
    for (uint64_t k = 0; !k || (double)k < sets; k++) {
        s = draw(f, c, last_set() + k, c->size.many, s);
        if (!s.n || (sets > 1 && !(s.ess > wv_policy.component_step_draws)))
            return false;
        weighted p = of_set(c, s);
        if (!(sets > 1 ? take_step(f, c, &p, 1 / (double)(k + 2)).ok : use_up(f, c, s, &kl)))
            return false;
    }
    return true;
}

/* The stored draws of the cell with density stand for the component. */
static weighted of_stored(wvgd_fit *f, const cell *c, bool gradients)
{
    wv_cell_sample s = wv_cell_draws_sample(f, c->j, gradients);
    double *log_v = wv_arena_take(f->arena, s.n);
    for (size_t i = 0; i < s.n; i++)
        log_v[i] = -s.log_m[i];
    return (weighted){s.n, s.x, s.log_p, s.grad, log_v, wv_arena_take(f->arena, s.n), 0, 0, 0, false};
}

/* Steps on stored draws, for as long as enough of them stand for the component. False: none has been taken. */
static bool descend_stored(wvgd_fit *f, const cell *c, weighted *p, double enough)
{
    bool moved = false;
    weigh(f, c->j, p);
    for (int k = 0; (double)k < wv_policy.component_stored_steps && p->ess > enough; k++) {
        double before = p->elbo;
        bool gained = climb(f, c, p, wv_policy.component_stored_step).ok;
        moved = moved || gained;
        if (!gained || p->elbo - before < wv_policy.component_stored_settled)
            break;
    }
    return moved;
}

/* Where the stored draws of the cell are many for the coefficients of a component, further steps are the posterior's
 * own, on these draws. False: there are none. */
static bool use_stored(wvgd_fit *f, const cell *c)
{
    double enough = wv_policy.component_stored_draws * (wv_cell_draws_coefficients(f) - 1);
    if (!((double)c->n > enough) || !f->closing.draws.shape.gradients)
        return false;
    size_t mark = wv_arena_mark(f->arena);
    weighted p = of_stored(f, c, true);
    bool moved = descend_stored(f, c, &p, enough);
    wv_arena_release(f->arena, mark);
    return moved;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */
static wv_gaussian candidate(const wvgd_fit *f, const cell *c, size_t k)
{
    return (wv_gaussian){f->cells.shape.family,
                         f->D,
                         f->cells.shape.R,
                         c->tried.mu + k * f->D,
                         c->tried.root + k * f->cells.shape.family->size(f->D, f->cells.shape.R),
                         0};
}

static candidates take_candidates(wvgd_fit *f)
{
    return (candidates){0, wv_arena_take(f->arena, CANDIDATES * f->D),
                        wv_arena_take(f->arena, CANDIDATES * f->cells.shape.family->size(f->D, f->cells.shape.R)),
                        wv_arena_take(f->arena, CANDIDATES)};
}

/* Whether a component is worth what the target says. No ELBO is above the log mass of its cell; and in more than a few
 * dimensions a full component may be wide enough to reach where no stored draws are, of which the target knows
 * nothing. ess: stored draws that stand for the component. */
static bool credible(const wvgd_fit *f, const cell *c, double elbo, double ess)
{
    double least = fmin(wv_policy.component_judge_draws, wv_policy.component_backed * c->ess);
    return elbo + c->level < c->log_mass + wv_policy.cells_incredible_nats &&
           (few_dimensions(f) || !is_full(f) || !(ess < least));
}

/* By which an ELBO must be better than another. */
static double margin(const cell *c)
{
    return c->careful ? wv_policy.component_margin_careful : wv_policy.component_margin;
}

/* Candidate k becomes q. */
static void set_candidate(const wvgd_fit *f, cell *c, size_t k, const wv_gaussian *q, double elbo)
{
    size_t D = f->D, size = f->cells.shape.family->size(D, f->cells.shape.R);
    memmove(c->tried.mu + k * D, q->mu, D * sizeof(double));
    memmove(c->tried.root + k * size, q->root, size * sizeof(double));
    c->tried.elbo[k] = elbo;
}

/* The component as it is becomes a candidate, with its ELBO by draws of its own. */
static void add_candidate(const wvgd_fit *f, cell *c, double elbo)
{
    wv_gaussian q = wv_partition_component(&f->cells, c->j);
    if (c->tried.n < CANDIDATES)
        set_candidate(f, c, c->tried.n++, &q, elbo);
}

/* Drops the candidates that are far from the best by draws of their own; in many dimensions, where judging is
 * expensive, all but that. */
static void drop_candidates(const wvgd_fit *f, cell *c)
{
    double best = -INFINITY, far = c->careful ? wv_policy.component_judged : 0;
    size_t kept = 0;
    for (size_t k = 0; k < c->tried.n; k++)
        best = fmax(best, c->tried.elbo[k] < INFINITY ? c->tried.elbo[k] : -INFINITY);
    for (size_t k = 0; k < c->tried.n; k++)
        if (c->tried.elbo[k] >= best - far) {
            wv_gaussian q = candidate(f, c, k);
            set_candidate(f, c, kept++, &q, c->tried.elbo[k]);
        }
    c->tried.n = kept;
}

/* Draws of all candidates and of the Gaussian around the particle, `each` of them, that lie in the cell: x[][D].
 * Returns how many. */
static size_t draw_all(wvgd_fit *f, const cell *c, uint64_t number, size_t each, double *x)
{
    size_t D = f->D, kept = 0, mark = wv_arena_mark(f->arena);
    double *all = wv_arena_take(f->arena, each * D);
    uint32_t *where = wv_arena_take_index(f->arena, each);
    for (size_t k = 0; k <= c->tried.n; k++) {
        wv_stream stream = {f->opt.seed, WV_RNG_FIT, f->count.batch, c->j};
        wv_gaussian q = k < c->tried.n ? candidate(f, c, k) : wv_partition_proposal(&f->cells, c->j);
        wv_gaussian_draw(&q, &stream, (number + k) * WV_FREE, each, true, all, f->arena);
        wv_halfspaces_assign(&f->halfspaces, each, all, where, f->arena);
        for (size_t i = 0; i < each; i++)
            if (where[i] == c->j || f->N == 1)
                memcpy(x + kept++ * D, all + i * D, D * sizeof(double));
    }
    wv_arena_release(f->arena, mark);
    return kept;
}

/* Log densities of the candidates at x[n][D], log_q[k][n], and minus that of all of them and the Gaussian around the
 * particle, from which x come, log_v[n]. */
static void find_densities(wvgd_fit *f, const cell *c, size_t n, const double *x, double *log_q, double *log_v)
{
    size_t mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, n * f->D);
    wv_gaussian around = wv_partition_proposal(&f->cells, c->j);
    wv_gaussian_log_density(&around, n, x, log_v, y, f->arena);
    for (size_t k = 0; k < c->tried.n; k++) {
        wv_gaussian q = candidate(f, c, k);
        wv_gaussian_log_density(&q, n, x, log_q + k * n, y, f->arena);
        wv_weights_add_log(n, log_v, 0, log_q + k * n);
    }
    for (size_t i = 0; i < n; i++)
        log_v[i] = -log_v[i];
    wv_arena_release(f->arena, mark);
}

/* ELBO of a candidate with log densities log_q[n] at the draws, by their target log_p[n]; -INFINITY: too few of them
 * stand for it. */
static double elbo_of(wvgd_fit *f, size_t n, const double *log_q, const double *log_v, const double *log_p)
{
    size_t mark = wv_arena_mark(f->arena);
    double *log_u = wv_arena_take(f->arena, n), *u = wv_arena_take(f->arena, n), elbo = -INFINITY;
    for (size_t i = 0; i < n; i++)
        log_u[i] = log_q[i] + log_v[i];
    if (wv_weights_normalise(n, log_u, u) && wv_weights_ess(n, u) > wv_policy.component_judge_draws) {
        elbo = wv_weights_lse(n, log_u);
        for (size_t i = 0; i < n; i++)
            elbo += u[i] * (log_p[i] - log_q[i]);
    }
    wv_arena_release(f->arena, mark);
    return elbo;
}

/* The component becomes the best of all candidates, by fresh draws of all of them, or stays the one that is kept. */
static void judge(wvgd_fit *f, cell *c, uint64_t number)
{
    drop_candidates(f, c);
    size_t K = c->tried.n,
           each = 2 *
                  (size_t)(fmin(wv_policy.component_judges * (double)c->size.many, WV_FREE) / (double)(2 * (K + 1))),
           most = each * (K + 1), mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, most * f->D), best = -INFINITY;
    size_t n = draw_all(f, c, number, each, x);
    double *log_q = wv_arena_take(f->arena, K * n), *log_v = wv_arena_take(f->arena, n),
           *log_p = wv_arena_take(f->arena, n); /* [K][n], [n], [n] */
    find_densities(f, c, n, x, log_q, log_v);
    wv_mixture_log_density(&f->mix, n, x, log_p, NULL, &f->workers);
    correct(f, c, n, x, log_p, NULL);
    wv_cell_component_recall(f, c->j);
    for (size_t k = 0; k < K; k++) {
        wv_gaussian q = candidate(f, c, k);
        double ess, elbo = elbo_of(f, n, log_q + k * n, log_v, log_p) - log((double)each) + stored_part(f, c, &q, &ess);
        if (credible(f, c, elbo, ess) && elbo > best + (k ? margin(c) : 0)) {
            best = elbo;
            wv_partition_set_component(&f->cells, c->j, q.mu, q.root);
        }
    }
    wv_arena_release(f->arena, mark);
}

/* Every beginning is worth following for components that are not full, too: none of their beginnings is good. */
static bool thorough(const wvgd_fit *f, const cell *c)
{
    return c->careful || !is_full(f);
}

/* Whether a component of this ELBO is worth more care than it has had: it loses much. */
static bool worth_care(const wvgd_fit *f, const cell *c, double elbo)
{
    return !c->careful && is_full(f) && f->N > 1 && (double)f->D <= wv_policy.component_care_dimensions &&
           c->log_mass - elbo > wv_policy.component_care_loss;
}

/* How many times closer to the posterior than a component is the target must be. */
static double needed(const wvgd_fit *f)
{
    return fmax(wv_policy.component_closer, (double)f->D / wv_policy.component_closer_dimensions);
}

/* ---- the component of a cell ------------------------------------------------------------------------------------- */
/* The mode that is where the particle is, if there are modes. */
static size_t mode_there(wvgd_fit *f, const cell *c)
{
    return f->modes.n ? wv_modes_nearest(f, f->modes.n, f->cells.now.z + c->j * f->D) : 0;
}

/* Whether q is next to the Gaussian of the mode that is there, with which the component may begin, too. */
static bool is_mode_there(wvgd_fit *f, const cell *c, const wv_gaussian *q)
{
    if (!f->modes.n)
        return false;
    size_t m = mode_there(f, c), mark = wv_arena_mark(f->arena);
    double *y = wv_arena_take(f->arena, f->D);
    wv_gaussian mode = wv_modes_gaussian(f, m);
    wv_gaussian_whiten(&mode, 1, q->mu, y, f->arena);
    double apart = wv_modes_divergence(f, q, m, cblas_ddot((int)f->D, y, 1, y, 1));
    wv_arena_release(f->arena, mark);
    return apart < wv_policy.component_margin;
}

/* The component of the mixture that has most of its mass in the cell, of those that have not been tried; *most: the
 * largest mass so far. False: there is none of weight, or it is the mode's Gaussian. */
static bool begin_mixture(wvgd_fit *f, const cell *c, double *most)
{
    size_t k = 0;
    for (size_t i = 1; i < f->mix.K; i++)
        k = c->mass[i] > c->mass[k] ? i : k;
    double mass = c->mass[k];
    c->mass[k] = 0;
    if (mass < wv_policy.component_start_mass || mass < *most / wv_policy.component_start_ratio)
        return false;
    *most = fmax(*most, mass);
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    if (is_mode_there(f, c, &q))
        return false;
    set_component(f, c->j, q.mu, q.root);
    return true;
}

/* The mode and components of the mixture; the moments come last. */
static size_t beginnings(void)
{
    return 1 + (size_t)wv_policy.component_mixture_starts;
}

/* Where the component may begin: with the mode that is there, with one of the components of the mixture that have most
 * of its mass there (a cell may hold two modes, of which one is the better answer), or with the moments of its cell.
 * False: there is no beginning of this number. */
static bool begin(wvgd_fit *f, const cell *c, size_t number, double *most)
{
    size_t D = f->D;
    if (number == beginnings()) { /* moments, if draws are more than these have parameters */
        set_component(f, c->j, c->mean, c->root);
        return thorough(f, c) || !f->modes.n || c->ess > (double)(D * (D + 3) / 2);
    }
    if (number > 0)
        return begin_mixture(f, c, most);
    size_t m = mode_there(f, c);
    if (f->modes.n)
        set_component(f, c->j, f->modes.x + m * D, f->modes.root + m * D * D);
    return f->modes.n > 0;
}

/* Mass of each component of the mixture in the cell, from some of the stored draws, in columns, into c->mass. */
static void masses_in_cell(wvgd_fit *f, const cell *c, const wv_cell_sample *s)
{
    size_t D = f->D, n = s->n, step = n / (size_t)wv_policy.component_mass_draws + 1, some = 0,
           most = (n + step - 1) / step, mark = wv_arena_mark(f->arena);
    double total = 0, *x = wv_arena_take(f->arena, most * D), *y = wv_arena_take(f->arena, most * D),
           *log_q = wv_arena_take(f->arena, most); /* [some][D], [some][D], [some] */
    c->mass[0] = 1;
    for (size_t i = 0; i < n && f->mix.K > 1; i += step, some++) {
        for (size_t k = 0; k < D; k++)
            x[some * D + k] = s->x[i / WV_COLUMNS * WV_COLUMNS * D + k * WV_COLUMNS + i % WV_COLUMNS];
        total += c->weight[i];
    }
    for (size_t k = 0; k < f->mix.K && f->mix.K > 1; k++) {
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        c->mass[k] = 0;
        wv_gaussian_log_density(&q, some, x, log_q, y, f->arena);
        for (size_t i = 0; i < some; i++)
            c->mass[k] += c->weight[i * step] / total * f->mix.w[k] * exp(log_q[i] - s->log_mix[i * step]);
    }
    wv_arena_release(f->arena, mark);
}

/* Keeps the component as it is, with the set of its draws, if its ELBO is clearly better than *best: of
 * equal ones all cells shall have the same. of_mode: it was fitted to the posterior itself, and no draws need to stand
 * for it. */
static void consider(wvgd_fit *f, cell *c, set s, bool of_mode, double *best, set *chosen)
{
    wv_gaussian q = wv_partition_component(&f->cells, c->j);
    double ess, value = s.n ? s.elbo + stored_part(f, c, &q, &ess) : -INFINITY;
    if (!s.n || !credible(f, c, value, of_mode ? INFINITY : ess))
        return;
    add_candidate(f, c, value);
    if (value > *best + margin(c)) {
        *best = value;
        *chosen = s;
        wv_partition_keep_component(&f->cells, c->j);
    }
}

/* Of all beginnings, and of the points where they lead, the one with the best ELBO. A step wins half of the variance of
 * log target - log component at most: where that is next to nothing, or leaves it below the best, none is taken.
 * Returns the set of its draws. */
static set choose(wvgd_fit *f, cell *c)
{
    double best = -INFINITY, most = 0;
    set any = {.share = wv_policy.component_first_share}, chosen = any;
    for (size_t b = 0; b <= beginnings(); b++) {
        if (!begin(f, c, b, &most))
            continue;
        set s = draw(f, c, 0, c->size.few, any);
        consider(f, c, s, b == 0, &best, &chosen);
        if (thorough(f, c) && s.variance > wv_policy.component_alike && s.elbo + s.variance / 2 > best &&
            descend(f, c, &s))
            consider(f, c, s, false, &best, &chosen);
    }
    wv_cell_component_recall(f, c->j);
    return chosen;
}

/* Whether a few draws cannot tell: they are enough to see that nothing is left to gain. */
static bool undecided(const wvgd_fit *f, wv_judgement a)
{
    return a.variance > wv_policy.component_margin && a.ess < fmax(wv_policy.component_enough_draws, (double)f->D);
}

/* What the stored draws say of the best beginning. */
typedef struct {
    double *log_q, *u;     /* [n] log densities and weights of the last beginning, */
    double *best_q;        /* [n] log densities of the best, */
    double best, variance; /* its ELBO, and the variance of log p~ - log q; -INFINITY: there is none */
} stored_choice;

/* The best of all beginnings but for the moments. False: the draws cannot tell it. */
static bool best_stored(wvgd_fit *f, const cell *c, const wv_cell_sample *s, stored_choice *to)
{
    double most = 0;
    for (size_t b = 0; b < beginnings() && to->variance > wv_policy.component_margin; b++) {
        if (b == 1)
            masses_in_cell(f, c, s);
        if (!begin(f, c, b, &most))
            continue;
        wv_gaussian q = wv_partition_component(&f->cells, c->j);
        wv_cell_draws_density(f, s, &q, to->log_q);
        wv_judgement a = wv_cell_draws_judge(f, s, to->log_q, to->u);
        if (undecided(f, a))
            return false;
        if (a.elbo > to->best + wv_policy.component_margin) {
            to->best = a.elbo;
            to->variance = a.variance;
            memcpy(to->best_q, to->log_q, s->n * sizeof *to->log_q);
            wv_partition_keep_component(&f->cells, c->j);
        }
    }
    return to->best > -INFINITY;
}

/* Whether steps from the best beginning may gain. */
static bool steps_may_gain(wvgd_fit *f, const cell *c, const wv_cell_sample *s, stored_choice *by)
{
    if (!(by->variance > wv_policy.component_margin))
        return false;
    if (crossed(f, c->ess))
        return true;
    wv_gaussian q = wv_partition_component(&f->cells, c->j);
    wv_cell_draws_judge(f, s, by->best_q, by->u);
    return wv_cell_draws_may_gain(f, s, &q, by->best_q, by->u, wv_policy.component_alike, needed(f));
}

/* Full components in many dimensions: the best of all beginnings, where the stored draws of the cell can tell
 * it, and that no steps would gain. (Not its moments: they would be judged by the draws that they were fitted
 * to.) False: they cannot, or steps may. */
static bool choose_stored(wvgd_fit *f, cell *c, const wv_cell_sample *s)
{
    size_t n = s->n, mark = wv_arena_mark(f->arena);
    stored_choice by = {wv_arena_take(f->arena, n), wv_arena_take(f->arena, n), wv_arena_take(f->arena, n), -INFINITY,
                        INFINITY};
    bool told = best_stored(f, c, s, &by);
    if (told) {
        wv_cell_component_recall(f, c->j);
        c->careful = worth_care(f, c, by.best);
        told = !c->careful && !steps_may_gain(f, c, s, &by);
    }
    if (told)
        wv_cell_draws_keep(f, c->j, n, by.best_q);
    wv_arena_release(f->arena, mark);
    return told;
}

static made take_draws(wvgd_fit *f)
{
    return (made){wv_arena_take(f->arena, WV_FREE * f->D), wv_arena_take(f->arena, WV_FREE * f->D),
                  wv_arena_take(f->arena, WV_FREE), wv_arena_take(f->arena, WV_FREE), wv_arena_take(f->arena, WV_FREE)};
}

/* The same from draws of its own, or by steps: of all beginnings and ends the best. */
static void choose_drawn(wvgd_fit *f, cell *c)
{
    size_t mark = wv_arena_mark(f->arena);
    c->stored = wv_cell_draws_sample(f, c->j, false);
    c->residual = wv_arena_take(f->arena, c->stored.n);
    c->correction = wv_arena_take(f->arena, all_coefficients(f->D));
    c->draws = take_draws(f);
    c->tried = take_candidates(f);
    fit_correction(f, c);
    double left = find_residuals(f, c), *mass = wv_arena_take(f->arena, f->mix.K);
    memcpy(mass, c->mass, f->mix.K * sizeof *mass);
    set s = choose(f, c);
    if (worth_care(f, c, s.elbo + c->level)) {
        c->careful = true;
        c->tried.n = 0;
        memcpy(c->mass, mass, f->mix.K * sizeof *mass);
        s = choose(f, c);
    }
    bool open = s.variance > fmax(wv_policy.component_alike, thorough(f, c) ? 0 : needed(f) * left);
    if (open) {
        if (!thorough(f, c))
            s = draw(f, c, 0, c->size.few, s);
        if ((thorough(f, c) || descend(f, c, &s)) && average(f, c, s))
            add_candidate(f, c, INFINITY);
        else
            wv_cell_component_recall(f, c->j);
    }
    if (use_stored(f, c)) {
        add_candidate(f, c, INFINITY);
        open = true;
    }
    if (open)
        judge(f, c, comparing_set());
    wv_arena_release(f->arena, mark);
}

/* ---- where the density ends -------------------------------------------------------------------------------------- */
/* Whether the density ends in the cell, so near that a Gaussian would reach far beyond. */
static bool ended(wvgd_fit *f, const cell *c)
{
    wv_gaussian moments = cell_gauss(f, c);
    return f->N > 1 && wv_cell_draws_ended(f, c->j, &moments).ended;
}

/* Neither mixture nor draws of a component know that end. The stored draws do: they choose among all beginnings, and
 * where these lead. False: they are too few. */
static bool choose_ended(wvgd_fit *f, const cell *c)
{
    size_t mark = wv_arena_mark(f->arena);
    double best = -INFINITY, most = 0, enough = wv_policy.component_ended_draws * wv_cell_draws_coefficients(f);
    weighted p = of_stored(f, c, f->closing.draws.shape.gradients);
    p.ended = true;
    for (size_t b = 0; b <= beginnings(); b++) {
        if (!begin(f, c, b, &most))
            continue;
        descend_stored(f, c, &p, enough);
        if (p.ess > enough && p.elbo > best + wv_policy.component_margin_careful) {
            best = p.elbo;
            wv_partition_keep_component(&f->cells, c->j);
        }
    }
    wv_cell_component_recall(f, c->j);
    wv_arena_release(f->arena, mark);
    return best > -INFINITY;
}

/* Whether the component is alone and that of the heaviest mode. */
static bool heaviest(const wvgd_fit *f)
{
    return f->N == 1 && f->modes.n && is_full(f);
}

/* Whether draws of the component are made. */
static bool drawn(const wvgd_fit *f, const cell *c)
{
    return !heaviest(f) && c->size.few;
}

/* The Gaussian of the heaviest mode, which was fitted to the posterior itself, by its ELBO. */
static void take_heaviest(wvgd_fit *f, size_t j)
{
    size_t best = wv_modes_heaviest(f);
    set_component(f, j, f->modes.x + best * f->D, f->modes.root + best * f->D * f->D);
}

void wv_cell_component_plain(wvgd_fit *f, size_t j)
{
    wv_gaussian q = wv_mixture_component(&f->mix, wv_mixture_owner(&f->mix, f->cells.now.z + j * f->D, f->arena));
    set_component(f, j, q.mu, q.root);
    wv_partition_keep_component(&f->cells, j);
}

/* What the stored draws in columns say of a cell before draws of its component are made. */
typedef enum {
    LEFT, /* too little: the component is what it shall be */
    TOLD, /* which component is the best, and its log densities are where they belong */
    OPEN  /* moments, and masses of the mixture's components */
} findings;

static double log_mass(wvgd_fit *f, const wv_cell_sample *s)
{
    size_t mark = wv_arena_mark(f->arena);
    double *log_w = wv_arena_take(f->arena, s->n);
    for (size_t i = 0; i < s->n; i++)
        log_w[i] = s->log_p[i] - s->log_m[i];
    double sum = wv_weights_lse(s->n, log_w);
    wv_arena_release(f->arena, mark);
    return sum - log((double)f->closing.draws.n);
}

static findings look(wvgd_fit *f, cell *c, const wv_cell_sample *s)
{
    bool mass = (double)s->n >= wv_policy.component_least_draws && wv_weights_normalise(s->n, s->log_w, c->weight) &&
                wv_cell_draws_moments(f, s, c->weight, c->mean, c->root);
    c->n = s->n;
    c->ess = mass ? wv_weights_ess(s->n, c->weight) : 0;
    c->log_mass = log_mass(f, s);
    if (!mass || (!c->size.few && c->ess < wv_policy.component_shape_draws * (double)f->D)) {
        wv_cell_component_plain(f, c->j); /* too few draws for a shape of its own */
        return LEFT;
    }
    set_spread(f, c);
    if (f->N > 1 && !thorough(f, c) && choose_stored(f, c, s))
        return TOLD;
    if (drawn(f, c))
        masses_in_cell(f, c, s);
    return OPEN;
}

static findings look_first(wvgd_fit *f, cell *c)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_cell_sample s = wv_cell_draws_columns(f, c->j);
    findings found = look(f, c, &s);
    wv_arena_release(f->arena, mark);
    return found;
}

/* Fits the component of a cell whose moments are known. */
static void fit_known(wvgd_fit *f, cell *c)
{
    set_component(f, c->j, c->mean, c->root);
    if (heaviest(f))
        take_heaviest(f, c->j);
    if (!ended(f, c) || !choose_ended(f, c)) {
        if (drawn(f, c))
            choose_drawn(f, c);
        else
            use_stored(f, c);
    }
    wv_partition_keep_component(&f->cells, c->j);
}

void wv_cell_component_fit(wvgd_fit *f, size_t j)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    cell c = {.j = j,
              .careful = few_dimensions(f),
              .size = affordable(f, few_dimensions(f)),
              .mean = wv_arena_take(f->arena, D),
              .root = wv_arena_take(f->arena, D * D),
              .weight = wv_arena_take(f->arena, wv_cell_draws_most(f, j)),
              .mass = wv_arena_take(f->arena, f->mix.K)};
    wv_partition_restart_component(&f->cells, j, f->pilot.wanted ? f->pilot.root : NULL, f->arena);
    wv_partition_keep_component(&f->cells, j);
    if (wv_cell_line_cells(f)) {
        if (wv_cell_line_fit(f, &f->mix, j))
            wv_partition_keep_component(&f->cells, j);
        wv_cell_draws_measure(f, j);
        wv_arena_release(f->arena, mark);
        return;
    }
    wv_cell_component_plain(f, j);
    findings found = look_first(f, &c);
    if (found == OPEN)
        fit_known(f, &c);
    wv_arena_release(f->arena, mark);
    if (found != TOLD)
        wv_cell_draws_measure(f, j);
}
