/* draws.c - batches of a staged fit. Each point's log_sum is the log of the sum over all proposals of
 * (draws made) x (density at the point), so that p~ / (exp log_sum / n) is its deterministic-mixture
 * weight, whoever drew it (method, section 3). What the proposals of each batch add is kept for every
 * point, so that batches can be forgotten. */
#include "draws.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include "simd/columns.h"
#include "dense.h"
#include <cblas.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

bool wv_draws_new(wv_draws *d, size_t D, size_t room, size_t places)
{
    *d = (wv_draws){.D = D, .room = room, .places = places};
    const wv_slot slots[] = {
        {&d->x, wv_times(room, D)},
        {&d->grad, wv_times(room, D)},
        {&d->log_p, room},
        {&d->log_sum, room},
        {&d->part, wv_times(WV_BATCHES, room)},
        {&d->mu, wv_times(places, D)},
        {&d->inverse, wv_times(places, wv_times(D, D))},
        {&d->log_det, places},
        {&d->share, places},
        {&d->nu, places},
        {&d->tails, places},
    };
    d->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS); /* most of it is never used */
    return d->memory != NULL;
}

void wv_draws_free(wv_draws *d)
{
    free(d->memory);
}

bool wv_draws_archive(wv_draws *d, wv_archive *a, bool running)
{
    struct {
        size_t batches;
        wv_draws_batch batch[WV_BATCHES];
    } s = {.batches = d->batches};
    memcpy(s.batch, d->batch, sizeof s.batch);
    wv_archive_values(a, &s, sizeof s);
    size_t n = 0, made = 0;
    if (s.batches > WV_BATCHES)
        return wv_archive_refuse(a);
    for (size_t b = 0; b < s.batches; b++) {
        const wv_draws_batch *batch = &s.batch[b];
        if (batch->first != n || batch->proposal != made || batch->n > d->room - n ||
            batch->proposals > d->places - made)
            return wv_archive_refuse(a);
        n += batch->n;
        made += batch->proposals;
    }
    if (wv_archive_reading(a)) {
        d->batches = s.batches;
        memcpy(d->batch, s.batch, sizeof s.batch);
    }
    n = running ? n : 0;
    made = running ? made : 0;
    wv_archive_array(a, d->x, n * d->D);
    wv_archive_array(a, d->grad, n * d->D);
    wv_archive_array(a, d->log_p, n);
    wv_archive_array(a, d->log_sum, n);
    wv_archive_array(a, d->mu, made * d->D);
    wv_archive_array(a, d->inverse, made * d->D * d->D);
    double *const lists[] = {d->log_det, d->share, d->nu, d->tails};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        wv_archive_array(a, lists[i], made);
    for (size_t b = 0; b < s.batches; b++)
        wv_archive_array(a, n ? d->part + b * d->room : NULL, n);
    return true;
}

enum { GROUP = 32 }; /* log densities that are summed at once */

size_t wv_draws_components(const wvgd_fit *f)
{
    size_t fit = (size_t)wv_policy.mixture_roots / (f->D * f->D), few = (size_t)wv_policy.mixture_room_least,
           most = f->opt.components;
    fit = fit < few ? few : fit;
    return fit < most ? fit : most;
}

size_t wv_draws_each(size_t D, size_t K)
{
    bool few = (double)K < wv_policy.mixture_few;
    size_t draws = K == 1 ? (size_t)wv_policy.mixture_alone_draws * D
                          : D / (size_t)(few ? wv_policy.mixture_few_draws : wv_policy.mixture_draws),
           least_draws = (size_t)(K == 1 ? wv_policy.mixture_alone_draws_least : wv_policy.mixture_draws_least);
    return draws > least_draws ? draws : least_draws;
}

size_t wv_draws_points(const wvgd_fit *f)
{
    size_t K = wv_draws_components(f), each = wv_draws_each(f->D, 2), alone = wv_draws_each(f->D, 1);
    /* four batches of the last fit, a trial and a final batch, and all of the next fit */
    size_t batches = 4 + (size_t)wv_policy.mixture_iterations;
    size_t many = batches * K * (each + each % 2) + (400 + 24 * K + 4) + (WV_CHUNK + 4 * K + 4),
           one = ((size_t)wv_policy.mixture_window + 1) * alone;
    many = many > one ? many : one;
    return (many + WV_COLUMNS - 1) / WV_COLUMNS * WV_COLUMNS;
}

size_t wv_draws_proposals(const wvgd_fit *f)
{
    return 20 * wv_draws_components(f) + 2;
}

size_t wv_draws_kept(const wvgd_fit *f)
{
    size_t all = wv_times(wv_times(wv_draws_components(f), wv_draws_points(f)), f->D),
           most = (size_t)wv_policy.mixture_kept, cube = f->D * f->D * f->D; /* splits need a cube */
    most = all < most ? all : most;
    return most > cube ? most : cube;
}

size_t wv_draws_work(size_t D)
{
    return WV_COLUMNS * (3 * D + GROUP + 4);
}

void wv_draws_clear(wvgd_fit *f)
{
    f->pool.batches = 0;
}

size_t wv_draws_size(const wvgd_fit *f)
{
    size_t b = f->pool.batches;
    return b ? f->pool.batch[b - 1].first + f->pool.batch[b - 1].n : 0;
}

static size_t proposals(const wvgd_fit *f)
{
    size_t b = f->pool.batches;
    return b ? f->pool.batch[b - 1].proposal + f->pool.batch[b - 1].proposals : 0;
}

/* Proposals of the pool from number `first` on. */
typedef struct {
    const wv_draws *pool;
    size_t first;
} made_by;

static wv_place proposal(const void *self, size_t c)
{
    const made_by *m = self;
    const wv_draws *d = m->pool;
    size_t i = m->first + c;
    return (
        wv_place){d->mu + i * d->D, d->inverse + i * d->D * d->D, d->log_det[i], d->share[i], d->nu[i], d->tails[i], 0};
}

/* ---- densities --------------------------------------------------------------------------------------------------- */
/* Scratch of a block of points. */
typedef struct {
    double *x, *spare, *y;   /* [D][WV_COLUMNS] */
    double *r, *sum, *log_q; /* [WV_COLUMNS], [WV_COLUMNS], [GROUP + 2][WV_COLUMNS] */
} block;

/* From the arena. */
static block take_block(wvgd_fit *f)
{
    size_t size = f->D * WV_COLUMNS;
    return (block){wv_arena_take(f->arena, size),       wv_arena_take(f->arena, size),
                   wv_arena_take(f->arena, size),       wv_arena_take(f->arena, WV_COLUMNS),
                   wv_arena_take(f->arena, WV_COLUMNS), wv_arena_take(f->arena, (GROUP + 2) * WV_COLUMNS)};
}

/* log (draws x density) of a place's Gaussian and of its Student-t, from r = |y|^2, into log_q;
 * returns how many of the two it has. */
static size_t weigh(const wv_place *p, size_t D, size_t n, const double *r, double *log_q)
{
    size_t made = 0;
    if (p->share > 0)
        wv_columns_density(D, n, p->log_det - log(p->share), 0, r, log_q + WV_COLUMNS * made++);
    if (p->tails > 0)
        wv_columns_density(D, n, p->log_det - log(p->tails), p->nu, r, log_q + WV_COLUMNS * made++);
    return made;
}

/* b->sum <- log(exp b->sum + sum over places) at the n points in b->x, or with `r` from the squares in its rows, a
 * place each, `row` apart. */
static void add_block(size_t D, const block *b, const wv_places *places, size_t n, const double *r, size_t row)
{
    size_t waiting = 0;
    for (size_t c = 0; c < places->n; c++) {
        wv_place p = places->at(places->self, c);
        if (!r && p.like > 0)
            cblas_dscal((int)n, p.like, b->r, 1);
        else if (!r)
            wv_columns_whiten(D, n, p.inverse, p.mu, b->x, b->spare, b->y, b->r);
        waiting += weigh(&p, D, n, r ? r + c * row : b->r, b->log_q + waiting * WV_COLUMNS);
        if (waiting >= GROUP || c + 1 == places->n) {
            wv_columns_best()->add_logs(waiting, n, b->log_q, b->sum);
            waiting = 0;
        }
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Densities of places at points, block by block of WV_COLUMNS. */
typedef struct {
    const wv_places *places;
    size_t n;
    const double *x;           /* [n][D] */
    double *log_sum;           /* [n] */
    const wv_squares *squares; /* or NULL */
    size_t first;              /* square that belongs to the first point */
    size_t known;              /* blocks that are left out */
} densities;

static size_t blocks_of(size_t n)
{
    return (n + WV_COLUMNS - 1) / WV_COLUMNS;
}

/* Multiplications, of which whitening takes most. */
static double work_of(const wvgd_fit *f, const densities *d, bool whitens)
{
    return (double)(d->places->n * d->n * f->D) * (whitens ? (double)f->D : 1);
}

static void add_at(wvgd_fit *f, void *context, size_t at)
{
    const densities *d = context;
    size_t first = at * WV_COLUMNS, here = least(d->n - first, WV_COLUMNS), mark = wv_arena_mark(f->arena);
    block b = take_block(f);
    if (!d->squares)
        wv_columns_turn(f->D, here, d->x + first * f->D, b.x);
    for (size_t i = 0; i < WV_COLUMNS; i++)
        b.sum[i] = i < here ? d->log_sum[first + i] : 0;
    add_block(f->D, &b, d->places, wv_columns_round(here), d->squares ? d->squares->r + d->first + first : NULL,
              d->squares ? d->squares->row : 0);
    memcpy(d->log_sum + first, b.sum, here * sizeof *d->log_sum);
    wv_arena_release(f->arena, mark);
}

void wv_draws_add(wvgd_fit *f, const wv_places *p, size_t n, const double *x, double *log_sum)
{
    densities d = {.places = p, .n = n, .x = x, .log_sum = log_sum};
    wv_fit_share(f, blocks_of(n), work_of(f, &d, true), add_at, &d);
}

void wv_draws_sum(wvgd_fit *f, const wv_places *p, const wv_squares *s, size_t first, size_t n, double *log_sum)
{
    densities d = {.places = p, .n = n, .squares = s, .first = first, .log_sum = log_sum};
    wv_fit_share(f, blocks_of(n), work_of(f, &d, false), add_at, &d);
}

static void measure_at(wvgd_fit *f, void *context, size_t index)
{
    const densities *d = context;
    const wv_squares *to = d->squares;
    size_t D = f->D, size = D * WV_COLUMNS, at = d->known + index, first = at * WV_COLUMNS,
           here = least(d->n - first, WV_COLUMNS), mark = wv_arena_mark(f->arena);
    block b = take_block(f);
    wv_columns_turn(D, here, d->x + first * D, b.x);
    for (size_t c = 0; c < d->places->n; c++) {
        wv_place p = d->places->at(d->places->self, c);
        double *y = to->y ? to->y + (c * (to->row / WV_COLUMNS) + at) * size : b.y, *r = to->r + c * to->row + first;
        if (p.like > 0)
            for (size_t i = 0; i < here; i++)
                r[i] = p.like * (r - to->row)[i];
        else
            wv_columns_whiten(D, wv_columns_round(here), p.inverse, p.mu, b.x, b.spare, y, r);
    }
    wv_arena_release(f->arena, mark);
}

void wv_draws_measure(wvgd_fit *f, const wv_places *p, size_t known, size_t n, const double *x, const wv_squares *to)
{
    densities d = {.places = p, .n = n, .x = x, .squares = to, .known = known / WV_COLUMNS};
    if (d.known < blocks_of(n))
        wv_fit_share(f, blocks_of(n) - d.known, work_of(f, &d, true), measure_at, &d);
}

wv_squares wv_draws_squares(wvgd_fit *f, size_t places, size_t n, bool keep)
{
    size_t row = blocks_of(n) * WV_COLUMNS, points = wv_times(wv_times(places, row), f->D);
    return (wv_squares){.row = row,
                        .r = wv_arena_take(f->arena, wv_times(places, row)),
                        .y = keep && points <= wv_draws_kept(f) ? wv_arena_take(f->arena, points) : NULL};
}

void wv_draws_add_density(wvgd_fit *f, size_t b, size_t n, const double *x, double *log_sum)
{
    const wv_draws_batch *batch = &f->pool.batch[b];
    made_by self = {&f->pool, batch->proposal};
    wv_draws_add(f, &(wv_places){proposal, &self, batch->proposals}, n, x, log_sum);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
/* [n] what the proposals of batch b add to each point. */
static double *part(const wvgd_fit *f, size_t b)
{
    return f->pool.part + b * f->pool.room;
}

/* log_sum of all points, over all batches. */
static void combine(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena);
    block b = take_block(f);
    for (size_t n = wv_draws_size(f), first = 0; first < n; first += WV_COLUMNS) {
        size_t here = least(n - first, WV_COLUMNS);
        for (size_t i = 0; i < WV_COLUMNS; i++)
            b.sum[i] = -INFINITY;
        for (size_t k = 0; k < f->pool.batches; k++)
            memcpy(b.log_q + k * WV_COLUMNS, part(f, k) + first, here * sizeof(double));
        wv_columns_best()->add_logs(f->pool.batches, wv_columns_round(here), b.log_q, b.sum);
        memcpy(f->pool.log_sum + first, b.sum, here * sizeof(double));
    }
    wv_arena_release(f->arena, mark);
}

void wv_draws_forget(wvgd_fit *f, size_t keep)
{
    if (f->pool.batches <= keep)
        return;
    size_t drop = f->pool.batches - keep, D = f->D, n = wv_draws_size(f), c = proposals(f);
    size_t x0 = keep ? f->pool.batch[drop].first : n, c0 = keep ? f->pool.batch[drop].proposal : c;
    memmove(f->pool.x, f->pool.x + x0 * D, (n - x0) * D * sizeof(double));
    memmove(f->pool.grad, f->pool.grad + x0 * D, (n - x0) * D * sizeof(double));
    memmove(f->pool.log_p, f->pool.log_p + x0, (n - x0) * sizeof(double));
    memmove(f->pool.mu, f->pool.mu + c0 * D, (c - c0) * D * sizeof(double));
    memmove(f->pool.inverse, f->pool.inverse + c0 * D * D, (c - c0) * D * D * sizeof(double));
    double *const lists[] = {f->pool.log_det, f->pool.share, f->pool.nu, f->pool.tails};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        memmove(lists[i], lists[i] + c0, (c - c0) * sizeof(double));
    for (size_t b = 0; b < keep; b++) {
        memmove(part(f, b), part(f, b + drop) + x0, (n - x0) * sizeof(double));
        f->pool.batch[b] = f->pool.batch[b + drop];
        f->pool.batch[b].first -= x0;
        f->pool.batch[b].proposal -= c0;
    }
    f->pool.batches = keep;
    combine(f);
}

/* Proposals of f->proposals.p as places from c0 on; a Gaussian and a Student-t with the same location and root, one
 * after the other, are one place. Returns how many. */
static size_t take_places(wvgd_fit *f, size_t c0)
{
    size_t D = f->D, at = c0;
    const wv_gaussian *last = NULL;
    for (size_t c = 0; c < f->proposals.n; c++) {
        const wv_gaussian *q = &f->proposals.p[c].q;
        if (!f->proposals.share[c])
            continue;
        if (!last || last->mu != q->mu || last->root != q->root || last->nu > 0 || !(q->nu > 0)) {
            memcpy(f->pool.mu + at * D, q->mu, D * sizeof(double));
            wv_dense_invert(D, q->root, f->pool.inverse + at * D * D);
            f->pool.log_det[at] = q->family->log_det(D, 0, q->root);
            f->pool.share[at] = f->pool.tails[at] = f->pool.nu[at] = 0;
            at++;
        }
        last = q;
        f->pool.nu[at - 1] = q->nu;
        *(q->nu > 0 ? &f->pool.tails[at - 1] : &f->pool.share[at - 1]) = (double)f->proposals.share[c];
    }
    return at - c0;
}

void wv_draws_drop_last(wvgd_fit *f)
{
    f->pool.batches--;
    combine(f);
}

/* The points of a batch and its proposals join the pool; what proposals add to points, old ones to the new points and
 * new ones to all, is nothing so far, and for old proposals worked out. */
static void append(wvgd_fit *f, const wv_batch *b)
{
    if (f->pool.batches == WV_BATCHES || b->n > f->pool.room - wv_draws_size(f) ||
        f->proposals.n > f->pool.places - proposals(f))
        wv_draws_clear(f); /* there is room in every fit; a forged state may leave none */
    size_t D = f->D, n0 = wv_draws_size(f), c0 = proposals(f), n = b->n, old = f->pool.batches;
    memcpy(f->pool.x + n0 * D, b->x, n * D * sizeof(double));
    memcpy(f->pool.grad + n0 * D, b->grad, n * D * sizeof(double));
    memcpy(f->pool.log_p + n0, b->log_p, n * sizeof(double));
    size_t made = take_places(f, c0);
    f->pool.batch[f->pool.batches++] = (wv_draws_batch){n0, n, c0, made};
    for (size_t k = 0; k <= old; k++) {
        double *log_sum = part(f, k);
        for (size_t i = k < old ? n0 : 0; i < n0 + n; i++)
            log_sum[i] = -INFINITY;
    }
    for (size_t k = 0; k < old; k++)
        wv_draws_add_density(f, k, n, f->pool.x + n0 * D, part(f, k) + n0);
}

void wv_draws_take(wvgd_fit *f, const wv_batch *b)
{
    append(f, b);
    size_t last = f->pool.batches - 1;
    wv_draws_add_density(f, last, wv_draws_size(f), f->pool.x, part(f, last));
    combine(f);
}

void wv_draws_take_seen(wvgd_fit *f, const wv_batch *b, const wv_squares *seen)
{
    append(f, b);
    size_t last = f->pool.batches - 1, n = wv_draws_size(f);
    made_by self = {&f->pool, f->pool.batch[last].proposal};
    wv_places places = {proposal, &self, f->pool.batch[last].proposals};
    wv_draws_measure(f, &places, 0, n, f->pool.x, seen);
    wv_draws_sum(f, &places, seen, 0, n, part(f, last));
    combine(f);
}
