/* batch_density.c - deterministic-mixture densities of a batch: log m, log q_j of the point's own component, and
 * log sum_j w_j q_j (method, section 3). */
#include "joint/batch_density.h"
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

/* The same for all proposals that are diagonal, and the shares of all. Returns how many points are weighed at once:
 * few, which stay near, unless matrices have to be inverted for them. */
static size_t prepare(wvgd_fit *f)
{
    size_t at_once = WV_COLUMNS;
    for (size_t c = 0; c < f->proposals.n; c++) {
        const wv_gaussian *q = &f->proposals.p[c].q;
        f->shared.alpha[c] = exp(f->proposals.p[c].log_alpha);
        if (diagonal(q))
            prepare_one(q, f->shared.scale + c * (f->D + 1));
        else
            at_once = WV_BLOCK;
    }
    return at_once;
}

/* Points of a batch as rows [n][D] and in columns, WV_COLUMNS to a block. */
typedef struct {
    size_t n;
    const double *x;
    double *columns, *y; /* y: scratch, [WV_BLOCK][D] */
} points;

static points turn(wvgd_fit *f, const wv_batch *b, size_t first, size_t n)
{
    size_t D = f->D;
    points p = {n, b->x + first * D, f->desk.gathered, f->desk.gathered + WV_BLOCK * D};
    for (size_t k = 0; k < n; k += WV_COLUMNS)
        wv_columns_turn(D, n - k < WV_COLUMNS ? n - k : WV_COLUMNS, p.x + k * D, p.columns + k * D);
    return p;
}

static void density(const wvgd_fit *f, const points *p, size_t c, double *log_q)
{
    const wv_gaussian *q = &f->proposals.p[c].q;
    const double *scale = f->shared.scale + c * (f->D + 1);
    if (!diagonal(q)) {
        wv_gaussian_log_density(q, p->n, p->x, log_q, p->y, f->arena);
        return;
    }
    for (size_t k = 0; k < p->n; k += WV_COLUMNS) {
        size_t here = wv_columns_round(p->n - k < WV_COLUMNS ? p->n - k : WV_COLUMNS);
        wv_columns_best()->apart(f->D, here, p->columns + k * f->D, q->mu, scale, log_q + k);
        wv_columns_log(f->D, here, scale[f->D], q->nu, log_q + k, log_q + k);
    }
}

/* Log densities of all proposals at some points, into f->desk.block[proposals][ld]. */
static void densities(wvgd_fit *f, const points *p, size_t ld)
{
    for (size_t c = 0; c < f->proposals.n; c++)
        density(f, p, c, f->desk.block + c * ld);
}

/* log_m[n], and f->desk.block becomes u = q / m. */
static void divide(wvgd_fit *f, size_t n, size_t ld, double *log_m)
{
    wv_columns_best()->shares(f->proposals.n, wv_columns_round(n), ld, f->shared.alpha, f->desk.block, log_m);
}

/* A batch is weighed in pieces, which workers share. */
typedef struct {
    wv_batch *b;
    size_t piece, at_once;  /* points in a piece, and those whose densities are held at once */
    const double *const *w; /* [2] weights of the components */
} weighing;

/* Shares the pieces; returns how many there are. */
static size_t share_pieces(wvgd_fit *f, weighing *g, wv_fit_task *task)
{
    size_t n = g->b->n, pieces = wv_fit_pieces(n);
    g->piece = wv_fit_piece(n);
    g->at_once = prepare(f);
    wv_fit_share(f, pieces,
                 (double)n * (double)f->proposals.n * (double)f->D * (g->at_once == WV_BLOCK ? (double)f->D : 1), task,
                 g);
    return pieces;
}

static size_t end_of(const weighing *g, size_t k)
{
    return (k + 1) * g->piece < g->b->n ? (k + 1) * g->piece : g->b->n;
}

/* Weighs n points; adds to sum_u[N]. */
static void weigh_block(wvgd_fit *f, wv_batch *b, size_t first, size_t n, size_t ld, const double *const w[2],
                        double *sum_u)
{
    double *u = f->desk.block, log_m[WV_BLOCK], mix[WV_BLOCK];
    points p = turn(f, b, first, n);
    densities(f, &p, ld);
    for (size_t k = 0; k < n; k++)
        b->log_q[first + k] = u[b->cell[first + k] * ld + k];
    divide(f, n, ld, log_m);
    memcpy(b->log_m + first, log_m, n * sizeof *log_m);
    for (size_t j = 0; j < f->N; j++)
        sum_u[j] += cblas_dasum((int)n, u + j * ld, 1);
    for (int i = 0; i < 2 && w[i]; i++) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)f->N, (int)n, 1.0, u, (int)ld, w[i], 1, 0.0, mix, 1);
        for (size_t k = 0; k < n; k++)
            b->log_mix[i][first + k] = log_m[k] + log(mix[k]);
    }
}

static void weigh_piece(wvgd_fit *f, void *context, size_t k)
{
    const weighing *g = context;
    double *sum_u = f->shared.piece_u + k * f->N;
    memset(sum_u, 0, f->N * sizeof *sum_u);
    for (size_t at = k * g->piece, end = end_of(g, k); at < end; at += g->at_once)
        weigh_block(f, g->b, at, end - at < g->at_once ? end - at : g->at_once, g->at_once, g->w, sum_u);
}

void wv_batch_density(wvgd_fit *f, wv_batch *b, const double *const w[2])
{
    weighing g = {.b = b, .w = w};
    size_t pieces = share_pieces(f, &g, weigh_piece);
    for (size_t k = 0; k < pieces; k++)
        cblas_daxpy((int)f->N, 1.0, f->shared.piece_u + k * f->N, 1, b->sum_u, 1);
}

/* Inverse scales and constants of diagonal components, after those of the proposals. */
static double *prepare_own(wvgd_fit *f)
{
    double *scale = f->shared.scale + f->proposals.n * (f->D + 1);
    for (size_t j = 0; j < f->N; j++) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        prepare_one(&q, scale + j * (f->D + 1));
    }
    return scale;
}

/* log q_j of points of cell j, all components diagonal. */
static void own_densities(wvgd_fit *f, wv_batch *b, size_t first, size_t n, const double *scale)
{
    size_t D = f->D;
    for (size_t i = first; i < first + n; i++) {
        const double *own = scale + b->cell[i] * (D + 1);
        b->log_q[i] = own[D] - wv_columns_best()->row_apart(D, b->x + i * D, f->cells.now.mu + b->cell[i] * D, own) / 2;
    }
}

/* The same for all points of cell j and any component. */
static void own_densities_gathered(wvgd_fit *f, void *context, size_t j)
{
    wv_batch *b = context;
    size_t D = f->D;
    double log_q[WV_BLOCK], *x = f->desk.gathered, *y = x + WV_BLOCK * D;
    wv_gaussian q = wv_partition_component(&f->cells, j);
    for (size_t first = f->shared.start[j]; first < f->shared.start[j + 1]; first += WV_BLOCK) {
        size_t n = f->shared.start[j + 1] - first < WV_BLOCK ? f->shared.start[j + 1] - first : WV_BLOCK;
        for (size_t k = 0; k < n; k++)
            memcpy(x + k * D, b->x + f->shared.order[first + k] * D, D * sizeof *x);
        wv_gaussian_log_density(&q, n, x, log_q, y, f->arena);
        for (size_t k = 0; k < n; k++)
            b->log_q[f->shared.order[first + k]] = log_q[k];
    }
}

wv_batch_density_plan wv_batch_density_begin(wvgd_fit *f)
{
    return (wv_batch_density_plan){.at_once = prepare(f),
                                   .own = f->family == wv_family_get(WVGD_DIAG) ? prepare_own(f) : NULL};
}

void wv_batch_density_some(wvgd_fit *f, wv_batch *b, const wv_batch_density_plan *plan, size_t first, size_t n)
{
    for (size_t end = first + n, here; first < end; first += here) {
        double log_m[WV_BLOCK];
        here = end - first < plan->at_once ? end - first : plan->at_once;
        points p = turn(f, b, first, here);
        densities(f, &p, plan->at_once);
        divide(f, here, plan->at_once, log_m);
        memcpy(b->log_m + first, log_m, here * sizeof *log_m);
        if (plan->own)
            own_densities(f, b, first, here, plan->own);
    }
}

void wv_batch_density_end(wvgd_fit *f, wv_batch *b, const wv_batch_density_plan *plan)
{
    if (!plan->own)
        wv_fit_share(f, f->N, (double)(b->n * f->D * f->D), own_densities_gathered, b);
    for (size_t j = 0; j < f->N; j++)
        b->sum_u[j] = (double)b->n;
    for (size_t i = 0; i < b->n; i++)
        b->log_mix[0][i] = -INFINITY;
}
