/* batch_density.c - deterministic-mixture densities of a batch: log m, log q_j of the point's own component, and
 * log sum_j w_j q_j (method, section 3). The mixture of the staged solver (mixture.c) has inverse roots, with which
 * diagonal components would take several times as long (bench/density). */
#include "joint/batch_density.h"
#include "arena.h"
#include "fit.h"
#include "gaussian.h"
#include "simd/columns.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static bool diagonal(const wv_gaussian *q)
{
    return q->family == wv_family_get(WVGD_DIAG);
}

/* Inverse scales and the constant in the log density of a diagonal Gaussian or Student-t, into scale[D + 1]. */
static void prepare_one(const wv_gaussian *q, double *scale)
{
    for (size_t i = 0; i < q->D; i++)
        scale[i] = 1 / q->root[i];
    scale[q->D] = wv_columns_constant(q->D, q->family->log_det(q->D, 0, q->root), q->nu);
}

/* The same for all proposals that are diagonal, and the shares of all. Few points are weighed at once, which stay
 * near, unless matrices have to be inverted for them. */
static wv_batch_density_plan prepare(wvgd_fit *f)
{
    wv_batch_density_plan plan = {.at_once = WV_COLUMNS,
                                  .scale = wv_arena_take(f->arena, f->proposals.n * (f->D + 1)),
                                  .share = wv_arena_take(f->arena, f->proposals.n)};
    for (size_t c = 0; c < f->proposals.n; c++) {
        const wv_gaussian *q = &f->proposals.p[c].q;
        plan.share[c] = exp(f->proposals.p[c].log_alpha);
        if (diagonal(q))
            prepare_one(q, plan.scale + c * (f->D + 1));
        else
            plan.at_once = WV_BLOCK;
    }
    return plan;
}

/* Some points of a batch, as rows [n][D] and in columns, WV_COLUMNS to a block, and their densities. */
typedef struct {
    const wv_batch_density_plan *plan;
    size_t n;
    const double *x;
    double *columns;  /* [at_once][D] */
    double *whitened; /* [at_once][D] scratch */
    double *u;        /* [proposals][at_once] log densities under each proposal, then these over that of the mixture */
    double *log_m;    /* [at_once] log density of the mixture */
} points;

/* From the arena. */
static points room_for(wvgd_fit *f, const wv_batch_density_plan *plan)
{
    size_t rows = plan->at_once * f->D;
    return (points){.plan = plan,
                    .columns = wv_arena_take(f->arena, rows),
                    .whitened = wv_arena_take(f->arena, rows),
                    .u = wv_arena_take(f->arena, f->proposals.n * plan->at_once),
                    .log_m = wv_arena_take(f->arena, plan->at_once)};
}

static void turn(const wvgd_fit *f, const wv_batch *b, size_t first, size_t n, points *p)
{
    size_t D = f->D;
    p->n = n;
    p->x = b->x + first * D;
    for (size_t k = 0; k < n; k += WV_COLUMNS)
        wv_columns_turn(D, n - k < WV_COLUMNS ? n - k : WV_COLUMNS, p->x + k * D, p->columns + k * D);
}

static void density(const wvgd_fit *f, const points *p, size_t c, double *log_q)
{
    const wv_gaussian *q = &f->proposals.p[c].q;
    const double *scale = p->plan->scale + c * (f->D + 1);
    if (!diagonal(q)) {
        wv_gaussian_log_density(q, p->n, p->x, log_q, p->whitened, f->arena);
        return;
    }
    for (size_t k = 0; k < p->n; k += WV_COLUMNS) {
        size_t here = wv_columns_round(p->n - k < WV_COLUMNS ? p->n - k : WV_COLUMNS);
        wv_columns_best()->apart(f->D, here, p->columns + k * f->D, q->mu, scale, log_q + k);
        wv_columns_log(f->D, here, scale[f->D], q->nu, log_q + k, log_q + k);
    }
}

/* Log densities of all proposals, into u. */
static void densities(const wvgd_fit *f, const points *p)
{
    for (size_t c = 0; c < f->proposals.n; c++)
        density(f, p, c, p->u + c * p->plan->at_once);
}

/* log_m, and u becomes q / m. */
static void divide(const wvgd_fit *f, const points *p)
{
    wv_columns_best()->shares(f->proposals.n, wv_columns_round(p->n), p->plan->at_once, p->plan->share, p->u, p->log_m);
}

/* A batch is weighed in pieces, a task each. */
typedef struct {
    wv_batch *b;
    wv_batch_density_plan plan;
    size_t piece;           /* points in a piece */
    const double *const *w; /* [2] weights of the components */
    double *sum_u;          /* [pieces][N] sums over the points of each piece */
} weighing;

/* Weighs n points; adds to sum_u[N]. mix: [at_once] scratch. */
static void weigh_block(const wvgd_fit *f, const weighing *g, size_t first, size_t n, points *p, double *mix,
                        double *sum_u)
{
    wv_batch *b = g->b;
    size_t ld = g->plan.at_once;
    turn(f, b, first, n, p);
    densities(f, p);
    for (size_t k = 0; k < n; k++)
        b->log_q[first + k] = p->u[b->cell[first + k] * ld + k];
    divide(f, p);
    memcpy(b->log_m + first, p->log_m, n * sizeof *p->log_m);
    for (size_t j = 0; j < f->N; j++)
        sum_u[j] += cblas_dasum((int)n, p->u + j * ld, 1);
    for (int i = 0; i < 2 && g->w[i]; i++) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)f->N, (int)n, 1.0, p->u, (int)ld, g->w[i], 1, 0.0, mix, 1);
        for (size_t k = 0; k < n; k++)
            b->log_mix[i][first + k] = p->log_m[k] + log(mix[k]);
    }
}

static void weigh_piece(wvgd_fit *f, void *context, size_t k)
{
    const weighing *g = context;
    size_t at_once = g->plan.at_once, end = (k + 1) * g->piece < g->b->n ? (k + 1) * g->piece : g->b->n,
           mark = wv_arena_mark(f->arena);
    points p = room_for(f, &g->plan);
    double *mix = wv_arena_take(f->arena, at_once);
    for (size_t at = k * g->piece; at < end; at += at_once)
        weigh_block(f, g, at, end - at < at_once ? end - at : at_once, &p, mix, g->sum_u + k * f->N);
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
                         (g.plan.at_once == WV_BLOCK ? (double)f->D : 1),
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
        prepare_one(&q, scale + j * (f->D + 1));
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
    points p = room_for(f, plan);
    for (size_t end = first + n, here; first < end; first += here) {
        here = end - first < plan->at_once ? end - first : plan->at_once;
        turn(f, b, first, here, &p);
        densities(f, &p);
        divide(f, &p);
        memcpy(b->log_m + first, p.log_m, here * sizeof *p.log_m);
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
