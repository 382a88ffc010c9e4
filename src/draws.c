/* draws.c - sets of draws. In a set with sums each point's log_sum is the log of the sum over all proposals of (draws
 * made) x (density at the point), so that p~ / (exp log_sum / n) is its deterministic-mixture weight, whoever drew it
 * (method, section 3). What the proposals of each batch add is kept for every point, so that batches can be
 * forgotten. */
#include "draws.h"
#include "dense.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include "simd/columns.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room for the squares that are kept: the last row is read beyond its end. */
static size_t cached_row(const wv_draws_shape *s)
{
    return wv_times((s->cached + WV_COLUMNS - 1) / WV_COLUMNS, WV_COLUMNS);
}

bool wv_draws_new(wv_draws *d, wv_draws_shape s)
{
    size_t D = s.D, room = s.room, sources = s.sources, cells = s.cells ? room : 0, sums = s.sums ? room : 0,
           row = cached_row(&s);
    *d = (wv_draws){.shape = s, .squares.row = row};
    const wv_slot slots[] = {
        {&d->x, wv_times(room, D)},
        {&d->log_p, room},
        {&d->grad, s.gradients ? wv_times(room, D) : 0},
        {&d->log_m, s.sums ? 0 : room},
        {&d->mu, wv_times(sources, D)},
        {&d->inverse, wv_times(sources, wv_times(D, D))},
        {&d->log_det, sources},
        {&d->draws, sources},
        {&d->nu, sources},
        {&d->t_draws, sources},
        {&d->log_sum, sums},
        {&d->part, wv_times(WV_BATCHES, sums)},
        {&d->near, cells},
        {&d->log_q, cells},
        {&d->log_mix[0], cells},
        {&d->log_mix[1], cells},
        {&d->sum_u, s.cells},
        {&d->squares.r, row ? wv_times(s.cached_sources, row) + WV_COLUMNS : 0},
    };
    d->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS); /* most of it is never used */
    d->index = cells ? calloc(wv_times(2, cells), sizeof *d->index) : NULL;
    if (!d->memory || (cells && !d->index))
        return false;
    if (cells) {
        d->cell = d->index;
        d->stratum = d->index + room;
        memset(d->sum_u, 0, s.cells * sizeof *d->sum_u); /* these are saved in every stage */
    }
    return true;
}

void wv_draws_free(wv_draws *d)
{
    free(d->memory);
    free(d->index);
}

/* ---- save and restore -------------------------------------------------------------------------------------------- */
/* Whether n whole numbers in the archive are below `end`. */
static bool below(const unsigned char *from, size_t n, size_t end)
{
    for (size_t i = 0; from && i < n; i++) {
        uint32_t value;
        memcpy(&value, from + i * sizeof value, sizeof value);
        if (value >= end)
            return false;
    }
    return true;
}

/* Counts that a saved state holds. */
typedef struct {
    size_t n, next, batches, states, each;
    wv_draws_batch batch[WV_BATCHES];
} counts;

/* States of chains are whole chains, behind whole pairs. */
static bool whole_chains(const counts *s)
{
    return !s->states || (s->each > 1 && s->states <= s->n && !(s->states % s->each) && !((s->n - s->states) % 2));
}

/* Proposals of all batches; more than there is room for if they contradict each other, or the number of points. */
static size_t proposals_of(const wv_draws_shape *shape, const counts *s)
{
    size_t n = 0, made = 0, none = shape->sources + 1;
    if (s->batches > WV_BATCHES)
        return none;
    for (size_t b = 0; b < s->batches; b++) {
        const wv_draws_batch *batch = &s->batch[b];
        if (batch->first != n || batch->proposal != made || batch->n > shape->room - n ||
            batch->proposals > shape->sources - made)
            return none;
        n += batch->n;
        made += batch->proposals;
    }
    return shape->sources && n != s->n ? none : made;
}

static void archive_proposals(wv_draws *d, wv_archive *a, const counts *s, size_t made)
{
    size_t D = d->shape.D;
    wv_archive_array(a, d->mu, made * D);
    wv_archive_array(a, d->inverse, made * D * D);
    double *const lists[] = {d->log_det, d->draws, d->nu, d->t_draws};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        wv_archive_array(a, lists[i], made);
    if (!d->shape.sums)
        return;
    wv_archive_array(a, d->log_sum, s->n);
    for (size_t b = 0; b < s->batches; b++)
        wv_archive_array(a, d->part + b * d->shape.room, s->n);
}

static bool archive_cells(wv_draws *d, wv_archive *a, size_t n, bool known)
{
    size_t N = d->shape.cells, cells = known ? n : 0;
    wv_archive_array(a, d->sum_u, N);
    if (!below(wv_archive_peek(a, n * sizeof *d->stratum), n, d->shape.sources + 3 * N + 3))
        return wv_archive_refuse(a);
    wv_archive_bytes(a, d->stratum, n * sizeof *d->stratum);
    if (!below(wv_archive_peek(a, cells * sizeof *d->cell), cells, N))
        return wv_archive_refuse(a);
    wv_archive_bytes(a, d->cell, cells * sizeof *d->cell);
    wv_archive_array(a, d->near, cells);
    wv_archive_array(a, d->log_q, cells);
    wv_archive_array(a, d->log_mix[0], cells);
    wv_archive_array(a, d->log_mix[1], d->shape.sources ? 0 : cells); /* one set of weights with sources */
    return true;
}

bool wv_draws_archive(wv_draws *d, wv_archive *a, wv_draws_rule rule)
{
    counts s = {.n = d->n, .next = d->next, .batches = d->batches, .states = d->states, .each = d->each};
    memcpy(s.batch, d->batch, sizeof s.batch);
    if (rule.left_out)
        memset(&s, 0, sizeof s);
    wv_archive_values(a, &s, sizeof s);
    size_t made = proposals_of(&d->shape, &s);
    if (s.n > d->shape.room || s.n < rule.least || s.n > rule.most || made > d->shape.sources || !whole_chains(&s))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        d->n = s.n;
        d->next = s.next;
        d->batches = s.batches;
        d->states = s.states;
        d->each = s.each;
        d->known = 0;
        memcpy(d->batch, s.batch, sizeof s.batch);
    }
    wv_archive_array(a, d->x, s.n * d->shape.D);
    wv_archive_array(a, d->log_p, s.n);
    wv_archive_array(a, d->grad, d->shape.gradients ? s.n * d->shape.D : 0);
    wv_archive_array(a, d->log_m, d->shape.sums ? 0 : s.n);
    archive_proposals(d, a, &s, made);
    return !d->shape.cells || archive_cells(d, a, s.n, rule.cells);
}

/* ---- points ------------------------------------------------------------------------------------------------------ */
void wv_draws_resize_cells(wv_draws *d, size_t N)
{
    for (size_t j = d->shape.cells; j < N; j++)
        d->sum_u[j] = 0;
    d->shape.cells = N;
}

void wv_draws_clear(wv_draws *d)
{
    d->n = d->next = d->batches = d->known = d->states = 0;
    if (d->shape.cells)
        memset(d->sum_u, 0, d->shape.cells * sizeof *d->sum_u);
}

wv_draws wv_draws_with(const wv_draws *d, const wv_draws_numbers *other)
{
    wv_draws to = *d;
    to.x = other->x ? other->x : d->x;
    to.log_p = other->log_p ? other->log_p : d->log_p;
    to.grad = other->grad ? other->grad : d->grad;
    to.log_m = other->log_m ? other->log_m : d->log_m;
    to.log_mix[0] = other->log_mix ? other->log_mix : d->log_mix[0];
    return to;
}

wv_batch wv_draws_view(const wv_draws *d, size_t first)
{
    wv_batch b = {.n = d->n - first, .x = d->x + first * d->shape.D, .log_p = d->log_p + first, .sum_u = d->sum_u};
    b.grad = d->shape.gradients ? d->grad + first * d->shape.D : NULL;
    b.log_m = d->shape.sums ? NULL : d->log_m + first;
    if (d->shape.cells) {
        b.log_q = d->log_q + first;
        b.log_mix[0] = d->log_mix[0] + first;
        b.log_mix[1] = d->log_mix[1] + first;
        b.near = d->near + first;
        b.cell = d->cell + first;
        b.stratum = d->stratum + first;
    }
    return b;
}

void wv_draws_append(wv_draws *d, const wv_batch *b)
{
    size_t n = b->n, at = d->n, D = d->shape.D;
    memcpy(d->x + at * D, b->x, n * D * sizeof *d->x);
    memcpy(d->log_p + at, b->log_p, n * sizeof *d->log_p);
    memcpy(d->log_m + at, b->log_m, n * sizeof *d->log_m);
    memcpy(d->log_q + at, b->log_q, n * sizeof *d->log_q);
    memcpy(d->log_mix[0] + at, b->log_mix[0], n * sizeof *d->log_mix[0]);
    memcpy(d->log_mix[1] + at, b->log_mix[1], n * sizeof *d->log_mix[1]);
    memcpy(d->near + at, b->near, n * sizeof *d->near);
    memcpy(d->cell + at, b->cell, n * sizeof *d->cell);
    memcpy(d->stratum + at, b->stratum, n * sizeof *d->stratum);
    for (size_t j = 0; j < d->shape.cells; j++)
        d->sum_u[j] += b->sum_u[j];
    d->n = at + n;
}

size_t wv_draws_unit(const wv_draws *d, size_t i)
{
    size_t drawn = d->n - d->states;
    return i < drawn ? i / 2 : drawn / 2 + (i - drawn) / d->each;
}

size_t wv_draws_units(const wv_draws *d)
{
    return (d->n - d->states) / 2 + (d->states ? d->states / d->each : 0);
}

size_t wv_draws_end_of_proposal(const wv_draws *d, size_t first)
{
    size_t end = first + 2, drawn = d->n - d->states;
    if (first >= drawn)
        return d->n;
    while (end < drawn && d->stratum[end] == d->stratum[first])
        end += 2;
    return end;
}

void wv_draws_add_states(wv_draws *d, size_t n, size_t each, const double *x, const double *log_p, const double *grad)
{
    size_t D = d->shape.D;
    if (n > d->shape.room - d->n || !d->batches)
        return;
    memcpy(d->x + d->n * D, x, n * D * sizeof *x);
    memcpy(d->log_p + d->n, log_p, n * sizeof *log_p);
    if (d->shape.gradients)
        memcpy(d->grad + d->n * D, grad, n * D * sizeof *grad);
    for (size_t i = d->n; i < d->n + n; i++)
        d->stratum[i] = (uint32_t)d->shape.sources; /* none of the proposals */
    d->batch[d->batches - 1].n += n;
    d->n += n;
    d->states = n;
    d->each = each;
}

void wv_draws_forget_points(wv_draws *d)
{
    d->n = d->known = d->states = 0;
    for (size_t b = 0; b < d->batches; b++)
        d->batch[b].first = d->batch[b].n = 0;
}

void wv_draws_set_log_m(wv_draws *d, const double *log_m)
{
    memcpy(d->log_m, log_m, d->n * sizeof *log_m);
}

void wv_draws_collect(wv_draws *d, const wv_batch *b)
{
    size_t D = d->shape.D, most = d->shape.room, n = b->n < most ? b->n : most;
    d->next = d->n ? d->next % most : 0;
    for (size_t from = 0, here; from < n; from += here) {
        size_t at = d->next % most;
        here = n - from < most - at ? n - from : most - at;
        memcpy(d->x + at * D, b->x + from * D, here * D * sizeof *b->x);
        memcpy(d->log_p + at, b->log_p + from, here * sizeof *b->log_p);
        memcpy(d->log_m + at, b->log_m + from, here * sizeof *b->log_m);
        d->next += here;
    }
    d->n = d->n + n < most ? d->n + n : most;
}

/* Proposals of all batches. */
static size_t proposals_made(const wv_draws *d)
{
    size_t b = d->batches;
    return b ? d->batch[b - 1].proposal + d->batch[b - 1].proposals : 0;
}

void wv_draws_copy(wv_draws *to, const wv_draws *from)
{
    size_t n = from->n, D = from->shape.D, c = proposals_made(from);
    to->n = n;
    to->batches = from->batches;
    to->states = from->states;
    to->each = from->each;
    to->known = 0;
    memcpy(to->batch, from->batch, sizeof to->batch);
    memcpy(to->x, from->x, n * D * sizeof *to->x);
    if (to->shape.gradients)
        memcpy(to->grad, from->grad, n * D * sizeof *to->grad);
    memcpy(to->log_p, from->log_p, n * sizeof *to->log_p);
    memcpy(to->log_m, from->log_m, n * sizeof *to->log_m);
    memcpy(to->stratum, from->stratum, n * sizeof *to->stratum);
    memcpy(to->mu, from->mu, c * D * sizeof *to->mu);
    memcpy(to->inverse, from->inverse, c * D * D * sizeof *to->inverse);
    memcpy(to->log_det, from->log_det, c * sizeof *to->log_det);
    memcpy(to->draws, from->draws, c * sizeof *to->draws);
    memcpy(to->nu, from->nu, c * sizeof *to->nu);
    memcpy(to->t_draws, from->t_draws, c * sizeof *to->t_draws);
}

void wv_draws_set_cells(wv_draws *d, size_t first, size_t n, const uint32_t *cell, const double *near)
{
    if (cell)
        memcpy(d->cell + first, cell, n * sizeof *cell);
    if (near)
        memcpy(d->near + first, near, n * sizeof *near);
}

void wv_draws_set_mixture(wv_draws *d, const double *log_mix)
{
    memcpy(d->log_mix[0], log_mix, d->n * sizeof *log_mix);
}

void wv_draws_move(wv_draws *d, const double *x, const double *log_p, const double *grad, const double *log_m)
{
    memcpy(d->x, x, d->n * d->shape.D * sizeof *x);
    memcpy(d->log_p, log_p, d->n * sizeof *log_p);
    if (d->shape.gradients)
        memcpy(d->grad, grad, d->n * d->shape.D * sizeof *grad);
    memcpy(d->log_m, log_m, d->n * sizeof *log_m);
    d->known = 0; /* squares are those of other points */
}

void wv_draws_lower(wv_draws *d, size_t first, size_t n, const double *less)
{
    for (size_t i = 0; i < n; i++)
        d->log_m[first + i] -= less[i];
}

void wv_draws_set_log_q(wv_draws *d, size_t j, size_t n, const double *log_q)
{
    for (size_t i = 0, k = 0; i < d->n; i++)
        if (d->cell[i] == j)
            d->log_q[i] = d->log_p[i] > -INFINITY && k < n ? log_q[k++] : -INFINITY;
}

void wv_draws_add_log_q(wv_draws *d, const double *by)
{
    for (size_t i = 0; i < d->n; i++)
        d->log_q[i] += by[d->cell[i]];
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */
size_t wv_draws_components(size_t D, size_t most)
{
    size_t fit = (size_t)wv_policy.mixture_roots / (D * D), few = (size_t)wv_policy.mixture_room_least;
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

size_t wv_draws_widened(size_t draws, size_t K, size_t least)
{
    size_t wanted = (least + K - 1) / K;
    return draws >= wanted ? draws : wanted + wanted % 2;
}

size_t wv_draws_points(size_t D, size_t K, size_t least)
{
    size_t each = wv_draws_each(D, 2), alone = wv_draws_widened(wv_draws_each(D, 1), 1, least);
    /* four batches of the last fit, a trial and a final batch, and all of the next fit */
    size_t batches = 4 + (size_t)wv_policy.mixture_iterations;
    size_t batch = K * (each + each % 2), wide = least + 2 * K; /* K' components have up to least + 2 K' draws */
    size_t many = batches * (batch > wide || !least ? batch : wide) + (400 + least + 24 * K + 4) +
                  (WV_CHUNK + 4 * K + 4),
           one = ((size_t)wv_policy.mixture_window + 1) * alone;
    many = many > one ? many : one;
    return (many + WV_COLUMNS - 1) / WV_COLUMNS * WV_COLUMNS;
}

size_t wv_draws_proposals(size_t K)
{
    return 20 * K + 2;
}

size_t wv_draws_kept(size_t D, size_t K, size_t least)
{
    size_t all = wv_times(wv_times(K, wv_draws_points(D, K, least)), D), most = (size_t)wv_policy.mixture_kept,
           cube = D * D * D; /* splits need a cube */
    most = all < most ? all : most;
    return most > cube ? most : cube;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */
wv_source wv_draws_source(const wv_draws *d, size_t i)
{
    size_t D = d->shape.D;
    return (wv_source){.mu = d->mu + i * D,
                       .inverse = d->inverse + i * D * D,
                       .log_det = d->log_det[i],
                       .weight = d->draws[i],
                       .nu = d->nu[i],
                       .t_weight = d->t_draws[i]};
}

typedef struct {
    const wv_draws *set;
    size_t first;
} of_batch;

static wv_source proposal(const void *self, size_t c)
{
    const of_batch *m = self;
    return wv_draws_source(m->set, m->first + c);
}

/* The proposals of batch b as sources, which point to *self. */
static wv_sources sources_of(const wv_draws *d, size_t b, of_batch *self)
{
    *self = (of_batch){d, d->batch[b].proposal};
    return (wv_sources){proposal, self, d->batch[b].proposals, d->shape.D};
}

/* ---- densities --------------------------------------------------------------------------------------------------- */
/* Adds log sum_c draws_c q_c over the proposals of batch b to log_sum[n] at the points x[n][D]. */
static void add_density(const wv_draws *d, size_t b, size_t n, const double *x, double *log_sum, wv_workers *w)
{
    of_batch self;
    wv_sources sources = sources_of(d, b, &self);
    wv_sources_add(&sources, n, x, NULL, log_sum, w);
}

void wv_draws_weigh(wv_draws *d, const wv_sources *p, const wv_squares *squares, const size_t *batch, size_t first,
                    wv_workers *w)
{
    size_t D = d->shape.D, n = d->n - first;
    double *log_m = d->log_m + first, *x = d->x + first * D;
    const wv_squares *from = squares ? &(wv_squares){squares->row, squares->r + first, NULL} : NULL;
    wv_sources_log(p, n, x, from, log_m, w);
    if (batch)
        add_density(d, *batch, n, x, log_m, w);
    for (size_t i = 0; i < n; i++)
        log_m[i] -= log((double)n);
}

const wv_squares *wv_draws_cached_squares(wv_draws *d, const wv_sources *p, size_t version, wv_workers *w)
{
    if (d->n > d->squares.row)
        return NULL;
    wv_sources_measure(p, d->version == version ? d->known : 0, d->n, d->x, &d->squares, w);
    d->known = d->n;
    d->version = version;
    return &d->squares;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* [n] what the proposals of batch b add to each point. */
static double *part(const wv_draws *d, size_t b)
{
    return d->part + b * d->shape.room;
}

/* log_sum of all points, over all batches. */
static void combine(wv_draws *d, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *log_q = wv_arena_take(arena, WV_BATCHES * WV_COLUMNS), sum[WV_COLUMNS]; /* [batches][WV_COLUMNS] */
    for (size_t first = 0; first < d->n; first += WV_COLUMNS) {
        size_t here = least(d->n - first, WV_COLUMNS);
        for (size_t i = 0; i < WV_COLUMNS; i++)
            sum[i] = -INFINITY;
        for (size_t k = 0; k < d->batches; k++)
            memcpy(log_q + k * WV_COLUMNS, part(d, k) + first, here * sizeof(double));
        wv_columns_best()->add_logs(d->batches, wv_columns_round(here), log_q, sum);
        memcpy(d->log_sum + first, sum, here * sizeof(double));
    }
    wv_arena_release(arena, mark);
}

/* Points from x0 and proposals from c0 on come to stand first. */
static void move_to_front(wv_draws *d, size_t x0, size_t c0)
{
    size_t D = d->shape.D, n = d->n - x0, c = proposals_made(d) - c0;
    memmove(d->x, d->x + x0 * D, n * D * sizeof(double));
    if (d->shape.gradients)
        memmove(d->grad, d->grad + x0 * D, n * D * sizeof(double));
    memmove(d->log_p, d->log_p + x0, n * sizeof(double));
    if (!d->shape.sums)
        memmove(d->log_m, d->log_m + x0, n * sizeof(double));
    if (d->shape.cells)
        memmove(d->stratum, d->stratum + x0, n * sizeof *d->stratum);
    memmove(d->mu, d->mu + c0 * D, c * D * sizeof(double));
    memmove(d->inverse, d->inverse + c0 * D * D, c * D * D * sizeof(double));
    double *const lists[] = {d->log_det, d->draws, d->nu, d->t_draws};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        memmove(lists[i], lists[i] + c0, c * sizeof(double));
}

void wv_draws_forget(wv_draws *d, size_t keep, wv_arena *arena)
{
    if (d->batches <= keep)
        return;
    size_t drop = d->batches - keep, x0 = keep ? d->batch[drop].first : d->n,
           c0 = keep ? d->batch[drop].proposal : proposals_made(d);
    move_to_front(d, x0, c0);
    for (size_t b = 0; b < keep; b++) {
        if (d->shape.sums)
            memmove(part(d, b), part(d, b + drop) + x0, (d->n - x0) * sizeof(double));
        d->batch[b] = d->batch[b + drop];
        d->batch[b].first -= x0;
        d->batch[b].proposal -= c0;
    }
    d->n -= x0;
    d->batches = keep;
    d->known = 0;
    if (d->shape.sums)
        combine(d, arena);
}

/* Proposals as sources from c0 on; a Gaussian and a Student-t with the same location and root, one after the other, are
 * one source. again: they stand there, and have made more draws. Returns how many. */
static size_t take_sources(wv_draws *d, const wv_proposals *p, size_t c0, bool again)
{
    size_t D = d->shape.D, at = c0;
    const wv_gaussian *last = NULL;
    for (size_t c = 0; c < p->n; c++) {
        const wv_gaussian *q = &p->p[c].q;
        if (!p->draws[c])
            continue;
        bool another = !last || last->mu != q->mu || last->root != q->root || last->nu > 0 || !(q->nu > 0);
        if (another && !again) {
            memcpy(d->mu + at * D, q->mu, D * sizeof(double));
            wv_dense_invert(D, q->root, d->inverse + at * D * D);
            d->log_det[at] = q->family->log_det(D, 0, q->root);
            d->draws[at] = d->t_draws[at] = 0;
        }
        at += another;
        last = q;
        d->nu[at - 1] = q->nu;
        *(q->nu > 0 ? &d->t_draws[at - 1] : &d->draws[at - 1]) += (double)p->draws[c];
    }
    return at - c0;
}

void wv_draws_add_batch(wv_draws *d, size_t n, const wv_proposals *p)
{
    if (d->batches == WV_BATCHES || n > d->shape.room - d->n || p->n > d->shape.sources - proposals_made(d))
        wv_draws_clear(d); /* there is room in every fit; a forged state may leave none */
    size_t c0 = proposals_made(d);
    d->batch[d->batches] = (wv_draws_batch){d->n, n, c0, take_sources(d, p, c0, false)};
    d->batches++;
    d->n += n;
}

void wv_draws_extend_batch(wv_draws *d, size_t n, const wv_proposals *p)
{
    wv_draws_batch *last = d->batches ? &d->batch[d->batches - 1] : NULL;
    if (!last || n > d->shape.room - d->n || p->n > d->shape.sources - last->proposal) {
        wv_draws_add_batch(d, n, p); /* of a forged state */
        return;
    }
    take_sources(d, p, last->proposal, true);
    last->n += n;
    d->n += n;
}

void wv_draws_drop_last(wv_draws *d, wv_arena *arena)
{
    d->n = d->batch[--d->batches].first;
    d->known = least(d->known, d->n);
    if (d->shape.sums)
        combine(d, arena);
}

/* The points of a batch and its proposals join the set; what proposals add to points, old ones to the new points and
 * new ones to all, is nothing so far, and for old proposals worked out. */
static void join(wv_draws *d, const wv_batch *b, const wv_proposals *p, wv_workers *w)
{
    wv_draws_add_batch(d, b->n, p);
    size_t D = d->shape.D, n = b->n, n0 = d->n - n, old = d->batches - 1;
    memcpy(d->x + n0 * D, b->x, n * D * sizeof(double));
    memcpy(d->grad + n0 * D, b->grad, n * D * sizeof(double));
    memcpy(d->log_p + n0, b->log_p, n * sizeof(double));
    for (size_t k = 0; k <= old; k++) {
        double *log_sum = part(d, k);
        for (size_t i = k < old ? n0 : 0; i < n0 + n; i++)
            log_sum[i] = -INFINITY;
    }
    for (size_t k = 0; k < old; k++)
        add_density(d, k, n, d->x + n0 * D, part(d, k) + n0, w);
}

void wv_draws_take(wv_draws *d, const wv_batch *b, const wv_proposals *p, wv_workers *w)
{
    join(d, b, p, w);
    size_t last = d->batches - 1;
    add_density(d, last, d->n, d->x, part(d, last), w);
    combine(d, w->arena[0]);
}

void wv_draws_take_measured(wv_draws *d, const wv_batch *b, const wv_proposals *p, const wv_squares *squares,
                            wv_workers *w)
{
    join(d, b, p, w);
    size_t last = d->batches - 1;
    of_batch self;
    wv_sources sources = sources_of(d, last, &self);
    wv_sources_measure(&sources, 0, d->n, d->x, squares, w);
    wv_sources_add(&sources, d->n, d->x, squares, part(d, last), w);
    combine(d, w->arena[0]);
}
