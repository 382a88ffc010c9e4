/* pilot.c - a single full Gaussian fitted before diagonal components (method, section 4, families). Its
 * covariance preconditions the steps of their means, which diagonal scales alone cannot do on correlated posteriors; it
 * predicts what a diagonal family must lose; and it joins the closing proposal. */
#include "joint/pilot.h"
#include "arena.h"
#include "fit.h"
#include "posterior.h"
#include "memory.h"
#include "gaussian.h"
#include "joint/schedule.h"
#include "trace.h"
#include "update/update.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

static size_t draws_for(size_t D)
{
    return (size_t)fmax(wv_policy.pilot_draws, wv_policy.pilot_draws_each * (double)D);
}

bool wv_pilot_new(wv_pilot *p, size_t D, bool wanted)
{
    size_t both = wanted ? D + D * D : 0;
    *p = (wv_pilot){.wanted = wanted, .D = D, .draws = draws_for(D)};
    const wv_slot slots[] = {{&p->mu, both}, {&p->best, both}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    p->root = p->mu ? p->mu + D : NULL;
    return p->memory != NULL;
}

void wv_pilot_free(wv_pilot *p)
{
    free(p->memory);
}

void wv_pilot_archive(wv_pilot *p, wv_archive *a)
{
    size_t both = p->wanted ? p->D + p->D * p->D : 0;
    wv_archive_array(a, p->mu, both);
    wv_archive_array(a, p->best, both);
}

wv_gaussian wv_pilot_gaussian(const wvgd_fit *f)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), f->D, 0, f->pilot.mu, f->pilot.root, 0};
}

wvgd_status wv_pilot_ask(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    f->proposals.p[0] = (wv_proposal){wv_pilot_gaussian(f), 0};
    f->proposals.n = 1;
    f->b.n = f->pilot.draws;
    wv_fit_draw(f, f->count.batch, 0, WV_RNG_PILOT, 0, f->b.n, true, 0);
    return WVGD_OK;
}

/* sd[D]: the sds of the best diagonal Gaussian, 1 / sqrt Lambda_ii, Lambda the pilot's precision. Returns the nats that
 * such a Gaussian must lose: sum log Lambda_ii / 2 - log det Lambda / 2. */
static double diagonal_fit(const wvgd_fit *f, double *sd)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *inverse = wv_arena_zeros(f->arena, D * D), gap = wv_family_get(WVGD_FULL)->log_det(D, 0, f->pilot.root);
    for (size_t i = 0; i < D; i++)
        inverse[i * D + i] = 1;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, f->pilot.root,
                (int)D, inverse, (int)D);
    for (size_t i = 0; i < D; i++) {
        double precision = cblas_ddot((int)D, inverse + i, (int)D, inverse + i, (int)D);
        gap += log(precision) / 2;
        sd[i] = 1 / sqrt(precision);
    }
    wv_arena_release(f->arena, mark);
    return gap;
}

void wv_pilot_leave(wvgd_fit *f)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D);
    wv_outcome_set_meanfield_gap(&f->outcome, diagonal_fit(f, sd));
    wv_partition_set_sd(&f->cells, sd);
    if (f->N == 1)
        wv_partition_put(&f->cells, 0, f->pilot.mu);
    if (!f->opt.metric && f->cells.shape.metric_family == wv_family_get(WVGD_FULL))
        wv_partition_set_metric(&f->cells, f->pilot.root);
    wv_arena_release(f->arena, mark);
}

/* Points with a density, and what a step needs to know of them. */
typedef struct {
    size_t n;
    double *x, *grad;      /* [n][D] */
    double *log_p, *h, *u; /* [n] log p~, log p~ - log q, equal weights */
} gathered;

/* Room for n points, from the arena. */
static gathered room_for(const wvgd_fit *f, size_t n)
{
    wv_arena *a = f->arena;
    return (gathered){0,
                      wv_arena_take(a, n * f->D),
                      wv_arena_take(a, n * f->D),
                      wv_arena_take(a, n),
                      wv_arena_take(a, n),
                      wv_arena_take(a, n)};
}

static void gather(wvgd_fit *f, gathered *g)
{
    const wv_batch *b = &f->b;
    wv_gaussian q = wv_pilot_gaussian(f);
    size_t D = f->D, kept = 0, mark = wv_arena_mark(f->arena);
    wv_gaussian_log_density(&q, b->n, b->x, b->log_q, wv_arena_take(f->arena, b->n * D), f->arena);
    wv_arena_release(f->arena, mark);
    for (size_t i = 0; i < b->n; i++)
        if (b->log_p[i] > -INFINITY) {
            memcpy(g->x + kept * D, b->x + i * D, D * sizeof(double));
            memcpy(g->grad + kept * D, b->grad + i * D, D * sizeof(double));
            g->log_p[kept] = b->log_p[i];
            g->h[kept++] = b->log_p[i] - b->log_q[i];
        }
    g->n = kept;
}

/* The bound of the Gaussian that made the points. */
static wvgd_estimate bound(const gathered *g)
{
    double mean = 0, squares = 0, n = (double)g->n;
    for (size_t i = 0; i < g->n; i++)
        mean += g->h[i] / n;
    for (size_t i = 0; i < g->n; i++)
        squares += (g->h[i] - mean) * (g->h[i] - mean);
    return (wvgd_estimate){mean, sqrt(squares) / n};
}

/* Steps the Gaussian; nats of the full step, INFINITY if there was none. */
static double step_gaussian(wvgd_fit *f, const gathered *g, double rho)
{
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = wv_family_get(WVGD_FULL),
                   .mu = f->pilot.mu,
                   .root = f->pilot.root,
                   .n = g->n,
                   .x = g->x,
                   .log_p = g->log_p,
                   .grad = g->grad,
                   .u = g->u,
                   .ess = (double)g->n,
                   .rho = rho};
    for (size_t i = 0; i < g->n; i++)
        g->u[i] = 1 / (double)g->n;
    wv_update_result r = wv_fit_update(f, &c);
    return r.ok ? r.kl : INFINITY;
}

/* Keeps the best Gaussian, and goes back to it when the bound has fallen (then true). */
static bool went_back(wvgd_fit *f)
{
    wv_bound_change change = wv_schedule_compare(f);
    size_t both = (f->D + f->D * f->D) * sizeof(double);
    if (change == WV_BOUND_BEST)
        memcpy(f->pilot.best, f->pilot.mu, both);
    else if (change == WV_BOUND_FELL)
        memcpy(f->pilot.mu, f->pilot.best, both);
    return change == WV_BOUND_FELL;
}

/* One iteration with the points that have a density; *back: the bound had fallen, and the best state is there again. */
static wvgd_status iterate(wvgd_fit *f, const gathered *g, bool *back, wvgd_error *error)
{
    wv_trace_set_pelbo(&f->trace, bound(g));
    if ((double)g->n < wv_policy.pilot_inside * (double)f->b.n) /* much of it outside the support: draw nearer */
        cblas_dscal((int)(f->D * f->D), wv_policy.pilot_shrink, f->pilot.root, 1);
    double k = (double)f->joint.averaged, rho = k > 0 ? 1 / (1 / f->joint.rho + k) : f->joint.rho;
    *back = went_back(f);
    wv_trace_set_step(&f->trace, *back ? INFINITY : step_gaussian(f, g, rho));
    f->count.iteration++;
    wv_partition_forget_masses(&f->cells);
    return wv_fit_note(f, error);
}

wvgd_status wv_pilot_tell(wvgd_fit *f, bool *complete, wvgd_error *error)
{
    size_t n = f->b.n, mark = wv_arena_mark(f->arena);
    gathered g = room_for(f, n);
    bool back = false;
    gather(f, &g);
    wvgd_status status = g.n ? iterate(f, &g, &back, error)
                             : wv_fail(error, WVGD_E_NO_DRAWS,
                                       "none of the %zu points of iteration %zu has a finite log density: check the "
                                       "model, or change init-scale",
                                       n, f->count.iteration + 1);
    wv_arena_release(f->arena, mark);
    if (status != WVGD_OK)
        return status;
    if (f->joint.averaged > 0)
        f->joint.averaged++;
    else if (back)
        wv_schedule_begin_phase(f);
    else if (wv_schedule_level(f, (size_t)wv_policy.pilot_window)) {
        f->joint.averaged = 1;
        wv_schedule_begin_phase(f);
    }
    *complete = wv_schedule_still(f) || (double)f->joint.averaged > wv_policy.pilot_average ||
                (double)f->count.iteration >= wv_policy.pilot_most * (double)f->opt.max_iter;
    return WVGD_OK;
}

void wv_pilot_start(wv_pilot *p, const double *mu, const double *root)
{
    memcpy(p->mu, mu, p->D * sizeof *mu);
    memcpy(p->root, root, p->D * p->D * sizeof *root);
}

void wv_pilot_take_posterior(wvgd_fit *f)
{
    memcpy(f->pilot.mu, f->posterior.mean, f->D * sizeof(double));
    wv_posterior_root(&f->posterior, &f->closing, wv_family_get(WVGD_FULL), f->pilot.root, f->arena);
}
