/* sources.c - densities of weighted Gaussians and Student-t's at many points, a block of them at a time. */
#include "sources.h"
#include "error.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum { GROUP = 32 }; /* log densities that are summed at once */

/* Places at points, block by block of WV_COLUMNS. */
typedef struct {
    const wv_sources *sources;
    size_t n;
    const double *x;           /* [n][D] */
    const wv_squares *squares; /* where these are kept, or NULL */
    size_t known;              /* blocks that are left out */
    double *log_sum;           /* [n] */
} densities;

size_t wv_sources_blocks(size_t n)
{
    return (n + WV_COLUMNS - 1) / WV_COLUMNS;
}

size_t wv_sources_points(size_t n, size_t at)
{
    size_t left = n - at * WV_COLUMNS;
    return left < WV_COLUMNS ? left : WV_COLUMNS;
}

/* Multiplications, of which whitening takes most. */
static double work_of(const densities *d, bool whitens)
{
    size_t D = d->sources->D;
    return (double)(d->sources->n * d->n * D) * (whitens ? (double)D : 1);
}

wv_squares wv_sources_squares(size_t D, size_t sources, size_t n, size_t keep, wv_arena *arena)
{
    size_t row = wv_sources_blocks(n) * WV_COLUMNS, points = wv_times(wv_times(sources, row), D);
    return (wv_squares){.row = row,
                        .r = wv_arena_take(arena, wv_times(sources, row)),
                        .y = points <= keep ? wv_arena_take(arena, points) : NULL};
}

/* A block of points, as rows and in columns, with room for as many in other coordinates. */
typedef struct {
    size_t n;
    const double *rows;          /* [n][D] */
    double *columns, *spare, *y; /* [D][WV_COLUMNS] each */
} block;

/* From the arena; rows NULL: only the room. */
static block block_at(size_t D, size_t n, const double *rows, wv_arena *arena)
{
    size_t size = D * WV_COLUMNS;
    block b = {.n = n,
               .rows = rows,
               .columns = wv_arena_take(arena, size),
               .spare = wv_arena_take(arena, size),
               .y = wv_arena_take(arena, size)};
    if (rows)
        wv_columns_turn(D, n, rows, b.columns);
    return b;
}

/* r = |y|^2 of a block in the coordinates y of source p, from those of the source before, if they are like these. */
static void see(const wv_source *p, size_t D, const block *b, const double *before, double *y, double *r,
                wv_arena *arena)
{
    size_t n = wv_columns_round(b->n);
    if (p->like > 0)
        for (size_t i = 0; i < n; i++)
            r[i] = p->like * before[i];
    else if (p->scale)
        wv_columns_best()->apart(D, n, b->columns, p->mu, p->scale, r);
    else if (p->q) {
        wv_gaussian_whiten(p->q, b->n, b->rows, b->spare, arena);
        for (size_t i = 0; i < n; i++)
            r[i] = i < b->n ? cblas_ddot((int)D, b->spare + i * D, 1, b->spare + i * D, 1) : 0;
    } else
        wv_columns_whiten(D, n, p->inverse, p->mu, b->columns, b->spare, y, r);
}

static void measure_at(wv_arena *arena, void *context, size_t index)
{
    const densities *d = context;
    const wv_squares *to = d->squares;
    size_t D = d->sources->D, size = D * WV_COLUMNS, at = d->known + index, here = wv_sources_points(d->n, at),
           mark = wv_arena_mark(arena);
    block b = block_at(D, here, d->x + at * size, arena);
    for (size_t c = 0; c < d->sources->n; c++) {
        wv_source p = d->sources->at(d->sources->self, c);
        double *y = to->y ? to->y + (c * (to->row / WV_COLUMNS) + at) * size : b.y,
               *r = to->r + c * to->row + at * WV_COLUMNS;
        see(&p, D, &b, c ? r - to->row : NULL, y, r, arena);
    }
    wv_arena_release(arena, mark);
}

void wv_sources_measure(const wv_sources *p, size_t known, size_t n, const double *x, const wv_squares *to,
                        wv_workers *w)
{
    densities d = {.sources = p, .n = n, .x = x, .squares = to, .known = known / WV_COLUMNS};
    if (d.known < wv_sources_blocks(n))
        wv_workers_run(w, wv_sources_blocks(n) - d.known, work_of(&d, true), measure_at, &d);
}

/* log (weight x density) of a source's Gaussian and of its Student-t, from r = |y|^2, into log_q; returns how many of
 * the two it has. */
static size_t weigh(const wv_source *p, size_t D, size_t n, const double *r, double *log_q)
{
    size_t made = 0;
    if (p->weight > 0)
        wv_columns_density(D, n, p->log_det - log(p->weight), 0, r, log_q + WV_COLUMNS * made++);
    if (p->t_weight > 0)
        wv_columns_density(D, n, p->log_det - log(p->t_weight), p->nu, r, log_q + WV_COLUMNS * made++);
    return made;
}

static void add_at(wv_arena *arena, void *context, size_t at)
{
    const densities *d = context;
    size_t D = d->sources->D, C = d->sources->n, first = at * WV_COLUMNS, here = wv_sources_points(d->n, at),
           n = wv_columns_round(here), waiting = 0, mark = wv_arena_mark(arena);
    double *log_q = wv_arena_take(arena, (GROUP + 2) * WV_COLUMNS), own[WV_COLUMNS], sum[WV_COLUMNS];
    block b = block_at(D, here, d->squares ? NULL : d->x + first * D, arena);
    for (size_t i = 0; i < WV_COLUMNS; i++)
        sum[i] = i < here ? d->log_sum[first + i] : 0;
    for (size_t c = 0; c < C; c++) {
        wv_source p = d->sources->at(d->sources->self, c);
        const double *r = d->squares ? d->squares->r + c * d->squares->row + first : own;
        if (!d->squares)
            see(&p, D, &b, own, b.y, own, arena);
        waiting += weigh(&p, D, n, r, log_q + waiting * WV_COLUMNS);
        if (waiting >= GROUP || c + 1 == C) {
            wv_columns_best()->add_logs(waiting, n, log_q, sum);
            waiting = 0;
        }
    }
    memcpy(d->log_sum + first, sum, here * sizeof *sum);
    wv_arena_release(arena, mark);
}

void wv_sources_add(const wv_sources *p, size_t n, const double *x, const wv_squares *squares, double *log_sum,
                    wv_workers *w)
{
    densities d = {.sources = p, .n = n, .x = x, .squares = squares, .log_sum = log_sum};
    wv_workers_run(w, wv_sources_blocks(n), work_of(&d, !squares), add_at, &d);
}

void wv_sources_log(const wv_sources *p, size_t n, const double *x, const wv_squares *squares, double *log_sum,
                    wv_workers *w)
{
    for (size_t i = 0; i < n; i++)
        log_sum[i] = -INFINITY;
    wv_sources_add(p, n, x, squares, log_sum, w);
}

void wv_sources_constants(const wv_sources *p, double *constant)
{
    for (size_t c = 0; c < p->n; c++) {
        wv_source s = p->at(p->self, c);
        constant[c] = wv_columns_constant(p->D, s.log_det, s.weight > 0 ? 0 : s.nu);
    }
}

void wv_sources_each(const wv_sources *p, const double *constant, size_t n, const double *x, double *log_q,
                     wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    block b = block_at(p->D, n, x, arena);
    for (size_t c = 0; c < p->n; c++, log_q += WV_COLUMNS) {
        wv_source s = p->at(p->self, c);
        see(&s, p->D, &b, NULL, b.y, log_q, arena);
        wv_columns_log(p->D, wv_columns_round(n), constant[c], s.weight > 0 ? 0 : s.nu, log_q, log_q);
    }
    wv_arena_release(arena, mark);
}
