/* batch_density.c - deterministic-mixture densities of a batch: log m, log q_j of the point's own component, and
 * log sum_j w_j q_j (method, section 3). */
#include "joint/batch_density.h"
#include "arena.h"
#include "dense.h"
#include "fit.h"
#include "sources.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static bool is(const wv_gaussian *q, wvgd_family family)
{
    return q->family == wv_family_get(family);
}

/* Doubles of an inverse root; those of low rank are left to their family. */
static size_t size_of(const wv_gaussian *q)
{
    return is(q, WVGD_DIAG) ? q->D : is(q, WVGD_FULL) ? q->D * q->D : 0;
}

static void invert(const wv_gaussian *q, double *inverse)
{
    if (is(q, WVGD_FULL))
        wv_dense_invert(q->D, q->root, inverse);
    for (size_t i = 0; i < q->D && is(q, WVGD_DIAG); i++)
        inverse[i] = 1 / q->root[i];
}

static double log_det(const wv_gaussian *q)
{
    return q->family->log_det(q->D, q->R, q->root);
}

static wv_source proposal(const void *self, size_t c)
{
    const wv_batch_density_plan *plan = self;
    const wv_gaussian *q = &plan->proposals->p[c].q;
    const double *inverse = plan->roots + plan->at[c];
    return (wv_source){.mu = q->mu,
                       .inverse = is(q, WVGD_FULL) ? inverse : NULL,
                       .scale = is(q, WVGD_DIAG) ? inverse : NULL,
                       .q = size_of(q) ? NULL : q,
                       .log_det = plan->log_det[c],
                       .weight = q->nu > 0 ? 0 : 1,
                       .nu = q->nu,
                       .t_weight = q->nu > 0 ? 1 : 0};
}

static wv_sources sources_of(const wv_batch_density_plan *plan)
{
    return (wv_sources){proposal, plan, plan->proposals->n, plan->D};
}

/* What the proposals have in common for all points. */
static wv_batch_density_plan prepare(wvgd_fit *f)
{
    const wv_proposals *p = &f->proposals;
    size_t all = 0;
    wv_batch_density_plan plan = {.proposals = p,
                                  .D = f->D,
                                  .at = wv_arena_take_sizes(f->arena, p->n),
                                  .log_det = wv_arena_take(f->arena, p->n),
                                  .constant = wv_arena_take(f->arena, p->n),
                                  .share = wv_arena_take(f->arena, p->n)};
    for (size_t c = 0; c < p->n; c++) {
        plan.at[c] = all;
        all += size_of(&p->p[c].q);
    }
    plan.roots = wv_arena_take(f->arena, all);
    for (size_t c = 0; c < p->n; c++) {
        invert(&p->p[c].q, plan.roots + plan.at[c]);
        plan.log_det[c] = log_det(&p->p[c].q);
        plan.share[c] = exp(p->p[c].log_alpha);
    }
    wv_sources sources = sources_of(&plan);
    wv_sources_constants(&sources, plan.constant);
    return plan;
}

/* u[proposals][WV_COLUMNS]: log densities of at most WV_COLUMNS points x[n][D] under each proposal. */
static void densities(const wv_batch_density_plan *plan, size_t n, const double *x, double *u, wv_arena *arena)
{
    wv_sources sources = sources_of(plan);
    wv_sources_each(&sources, plan->constant, n, x, u, arena);
}

/* log_m[n] of the mixture; u becomes q / m. */
static void divide(const wv_batch_density_plan *plan, size_t n, double *u, double *log_m)
{
    wv_columns_best()->shares(plan->proposals->n, wv_columns_round(n), WV_COLUMNS, plan->share, u, log_m);
}

/* A batch is weighed in pieces, a task each. */
typedef struct {
    wv_batch *b;
    wv_batch_density_plan plan;
    size_t piece;           /* points in a piece */
    const double *const *w; /* [2] weights of the components */
    double *sum_u;          /* [pieces][N] sums over the points of each piece */
} weighing;

/* Weighs at most WV_COLUMNS points; adds to sum_u[N]. u: [proposals][WV_COLUMNS] scratch. */
static void weigh_block(const wvgd_fit *f, const weighing *g, size_t first, size_t n, double *u, double *sum_u)
{
    wv_batch *b = g->b;
    double log_m[WV_COLUMNS], mix[WV_COLUMNS];
    densities(&g->plan, n, b->x + first * f->D, u, f->arena);
    for (size_t k = 0; k < n; k++)
        b->log_q[first + k] = u[b->cell[first + k] * WV_COLUMNS + k];
    divide(&g->plan, n, u, log_m);
    memcpy(b->log_m + first, log_m, n * sizeof *log_m);
    for (size_t j = 0; j < f->N; j++)
        sum_u[j] += cblas_dasum((int)n, u + j * WV_COLUMNS, 1);
    for (int i = 0; i < 2 && g->w[i]; i++) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)f->N, (int)n, 1.0, u, WV_COLUMNS, g->w[i], 1, 0.0, mix, 1);
        for (size_t k = 0; k < n; k++)
            b->log_mix[i][first + k] = log_m[k] + log(mix[k]);
    }
}

static void weigh_piece(wvgd_fit *f, void *context, size_t k)
{
    const weighing *g = context;
    size_t end = (k + 1) * g->piece < g->b->n ? (k + 1) * g->piece : g->b->n, mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, f->proposals.n * WV_COLUMNS);
    for (size_t at = k * g->piece; at < end; at += WV_COLUMNS)
        weigh_block(f, g, at, end - at < WV_COLUMNS ? end - at : WV_COLUMNS, u, g->sum_u + k * f->N);
    wv_arena_release(f->arena, mark);
}

void wv_batch_density(wvgd_fit *f, wv_batch *b, const double *const w[2])
{
    size_t pieces = wv_workers_pieces(b->n), mark = wv_arena_mark(f->arena);
    weighing g = {.b = b,
                  .plan = prepare(f),
                  .piece = wv_workers_piece(b->n),
                  .w = w,
                  .sum_u = wv_arena_zeros(f->arena, pieces * f->N)};
    wv_fit_run_tasks(f, pieces,
                     (double)b->n * (double)f->proposals.n * (double)f->D *
                         (f->cells.shape.family == wv_family_get(WVGD_DIAG) ? 1 : (double)f->D),
                     weigh_piece, &g);
    for (size_t k = 0; k < pieces; k++)
        cblas_daxpy((int)f->N, 1.0, g.sum_u + k * f->N, 1, b->sum_u, 1);
    wv_arena_release(f->arena, mark);
}

/* Inverse scales and constants of diagonal components. */
static double *prepare_own(wvgd_fit *f)
{
    double *scale = wv_arena_take(f->arena, f->N * (f->D + 1));
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        invert(&q, scale + j * (f->D + 1));
        scale[j * (f->D + 1) + f->D] = wv_columns_constant(f->D, log_det(&q), q.nu);
    }
    return scale;
}

/* log q_j of points of cell j, all components diagonal. */
static void own_densities(const wvgd_fit *f, wv_batch *b, size_t first, size_t n, const double *scale)
{
    size_t D = f->D;
    for (size_t i = first; i < first + n; i++) {
        const double *own = scale + b->cell[i] * (D + 1);
        b->log_q[i] = own[D] - wv_columns_best()->row_apart(D, b->x + i * D, f->cells.now.mu + b->cell[i] * D, own) / 2;
    }
}

typedef struct {
    wv_batch *b;
    const wv_cell_lists *lists;
} listed;

/* The same for all points of cell j and any component. */
static void own_densities_gathered(wvgd_fit *f, void *context, size_t j)
{
    const listed *g = context;
    const uint32_t *order = g->lists->order;
    size_t D = f->D, end = g->lists->start[j + 1], mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, WV_BLOCK * D), *whitened = wv_arena_take(f->arena, WV_BLOCK * D),
           *log_q = wv_arena_take(f->arena, WV_BLOCK);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    for (size_t first = g->lists->start[j]; first < end; first += WV_BLOCK) {
        size_t n = end - first < WV_BLOCK ? end - first : WV_BLOCK;
        for (size_t k = 0; k < n; k++)
            memcpy(x + k * D, g->b->x + order[first + k] * D, D * sizeof *x);
        wv_gaussian_log_density(&q, n, x, log_q, whitened, f->arena);
        for (size_t k = 0; k < n; k++)
            g->b->log_q[order[first + k]] = log_q[k];
    }
    wv_arena_release(f->arena, mark);
}

wv_batch_density_plan wv_batch_density_begin(wvgd_fit *f)
{
    wv_batch_density_plan plan = prepare(f);
    plan.own = f->cells.shape.family == wv_family_get(WVGD_DIAG) ? prepare_own(f) : NULL;
    return plan;
}

void wv_batch_density_some(wvgd_fit *f, wv_batch *b, const wv_batch_density_plan *plan, size_t first, size_t n)
{
    size_t mark = wv_arena_mark(f->arena);
    double *u = wv_arena_take(f->arena, f->proposals.n * WV_COLUMNS), log_m[WV_COLUMNS];
    for (size_t end = first + n, here; first < end; first += here) {
        here = end - first < WV_COLUMNS ? end - first : WV_COLUMNS;
        densities(plan, here, b->x + first * f->D, u, f->arena);
        divide(plan, here, u, log_m);
        memcpy(b->log_m + first, log_m, here * sizeof *log_m);
        if (plan->own)
            own_densities(f, b, first, here, plan->own);
    }
    wv_arena_release(f->arena, mark);
}

void wv_batch_density_end(wvgd_fit *f, wv_batch *b, const wv_batch_density_plan *plan, const wv_cell_lists *lists)
{
    if (!plan->own)
        wv_fit_run_tasks(f, f->N, (double)(b->n * f->D * f->D), own_densities_gathered, &(listed){b, lists});
    for (size_t j = 0; j < f->N; j++)
        b->sum_u[j] = (double)b->n;
    for (size_t i = 0; i < b->n; i++)
        b->log_mix[0][i] = -INFINITY;
}
