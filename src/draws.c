/* draws.c - batches of a staged fit. Each point's log_sum is the log of the sum over all proposals of
 * (draws made) x (density at the point), so that p~ / (exp log_sum / n) is its deterministic-mixture
 * weight, whoever drew it (method, section 3). What the proposals of each batch add is kept for every
 * point, so that batches can be forgotten. */
#include "draws.h"
#include "fit.h"
#include "error.h"
#include "memory.h"
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
    size_t fit = 200000 / (f->D * f->D), most = f->opt.components;
    fit = fit < 8 ? 8 : fit;
    return fit < most ? fit : most;
}

size_t wv_draws_points(const wvgd_fit *f)
{
    size_t K = wv_draws_components(f), joint = f->D / 2 > 10 ? f->D / 2 : 10, alone = 2 * f->D > 20 ? 2 * f->D : 20;
    /* four batches of the last fit, a trial and a final batch, and twelve of the next fit */
    size_t many = 16 * K * (joint + joint % 2) + (400 + 24 * K + 4) + (WV_CHUNK + 4 * K + 4), one = 9 * alone;
    many = many > one ? many : one;
    return (many + WV_COLUMNS - 1) / WV_COLUMNS * WV_COLUMNS;
}

size_t wv_draws_proposals(const wvgd_fit *f)
{
    return 20 * wv_draws_components(f) + 2;
}

size_t wv_draws_kept(const wvgd_fit *f)
{
    size_t all = wv_times(wv_times(wv_draws_components(f), wv_draws_points(f)), f->D), most = (size_t)1 << 20,
           cube = f->D * f->D * f->D; /* splits need a cube */
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

static wv_place proposal(const wvgd_fit *f, size_t c)
{
    return (wv_place){f->pool.mu + c * f->D,
                      f->pool.inverse + c * f->D * f->D,
                      f->pool.log_det[c],
                      f->pool.share[c],
                      f->pool.nu[c],
                      f->pool.tails[c],
                      0};
}

/* ---- densities --------------------------------------------------------------------------------------------------- */
/* Scratch of a block of points. */
typedef struct {
    double *x, *spare, *y;   /* [D][WV_COLUMNS] */
    double *r, *sum, *log_q; /* [WV_COLUMNS], [WV_COLUMNS], [GROUP + 2][WV_COLUMNS] */
} block;

static block names(const wvgd_fit *f)
{
    double *at = f->desk.columns;
    size_t size = f->D * WV_COLUMNS;
    return (
        block){at, at + size, at + 2 * size, at + 3 * size, at + 3 * size + WV_COLUMNS, at + 3 * size + 2 * WV_COLUMNS};
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

/* b->sum <- log(exp b->sum + sum over places) at the n points in b->x, or with `r` from the squares in
 * its rows, a place each, `room` apart. */
static void add_block(wvgd_fit *f, const block *b, wv_draws_place *place, size_t from, size_t to, size_t n,
                      const double *r, size_t room)
{
    size_t waiting = 0;
    for (size_t c = from; c < to; c++) {
        wv_place p = place(f, c);
        if (!r && p.like > 0)
            cblas_dscal((int)n, p.like, b->r, 1);
        else if (!r)
            wv_columns_whiten(f->D, n, p.inverse, p.mu, b->x, b->spare, b->y, b->r);
        waiting += weigh(&p, f->D, n, r ? r + (c - from) * room : b->r, b->log_q + waiting * WV_COLUMNS);
        if (waiting >= GROUP || c + 1 == to) {
            wv_columns_best()->add_logs(waiting, n, b->log_q, b->sum);
            waiting = 0;
        }
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Densities of places from .. to at points, block by block of WV_COLUMNS. */
typedef struct {
    wv_draws_place *place;
    size_t from, to, n;
    const double *x; /* [n][D] */
    double *log_sum; /* [n] */
    const double *r; /* squares, or NULL */
    bool keep;       /* points in the coordinates of the places, too */
    size_t known;    /* blocks that are left out */
} densities;

static size_t blocks_of(size_t n)
{
    return (n + WV_COLUMNS - 1) / WV_COLUMNS;
}

static double work_of(const wvgd_fit *f, const densities *d)
{
    return (double)((d->to - d->from) * d->n * f->D) * (d->r ? 1 : (double)f->D);
}

static void add_at(wvgd_fit *f, void *context, size_t at)
{
    const densities *d = context;
    size_t first = at * WV_COLUMNS, here = least(d->n - first, WV_COLUMNS);
    block b = names(f);
    if (!d->r)
        wv_columns_turn(f->D, here, d->x + first * f->D, b.x);
    for (size_t i = 0; i < WV_COLUMNS; i++)
        b.sum[i] = i < here ? d->log_sum[first + i] : 0;
    add_block(f, &b, d->place, d->from, d->to, wv_columns_round(here), d->r ? d->r + first : NULL, wv_draws_points(f));
    memcpy(d->log_sum + first, b.sum, here * sizeof *d->log_sum);
}

void wv_draws_add(wvgd_fit *f, wv_draws_place *place, size_t from, size_t to, size_t n, const double *x,
                  double *log_sum)
{
    densities d = {.place = place, .from = from, .to = to, .n = n, .x = x, .log_sum = log_sum};
    wv_fit_share(f, blocks_of(n), work_of(f, &d), add_at, &d);
}

void wv_draws_sum(wvgd_fit *f, wv_draws_place *place, size_t from, size_t to, size_t first, size_t n, double *log_sum)
{
    densities d = {.place = place, .from = from, .to = to, .n = n, .r = f->shared.mix_q + first, .log_sum = log_sum};
    wv_fit_share(f, blocks_of(n), work_of(f, &d), add_at, &d);
}

static void measure_at(wvgd_fit *f, void *context, size_t index)
{
    const densities *d = context;
    block b = names(f);
    size_t D = f->D, size = D * WV_COLUMNS, at = d->known + index, first = at * WV_COLUMNS,
           here = least(d->n - first, WV_COLUMNS);
    wv_columns_turn(D, here, d->x + first * D, b.x);
    for (size_t c = 0; c < d->to - d->from; c++) {
        wv_place p = d->place(f, d->from + c);
        double *y = d->keep ? f->shared.mix_y + (c * blocks_of(d->n) + at) * size : b.y,
               *r = f->shared.mix_q + c * wv_draws_points(f) + first;
        if (p.like > 0)
            for (size_t i = 0; i < here; i++)
                r[i] = p.like * (r - wv_draws_points(f))[i];
        else
            wv_columns_whiten(D, wv_columns_round(here), p.inverse, p.mu, b.x, b.spare, y, r);
    }
}

bool wv_draws_measure(wvgd_fit *f, wv_draws_place *place, size_t from, size_t to, size_t known, size_t n,
                      const double *x, bool keep)
{
    densities d = {.place = place, .from = from, .to = to, .n = n, .x = x, .known = known / WV_COLUMNS};
    f->known.squares = 0; /* f->shared.mix_q is about to hold others */
    d.keep = keep && (to - from) * blocks_of(n) * f->D * WV_COLUMNS <= wv_draws_kept(f);
    if (d.known < blocks_of(n))
        wv_fit_share(f, blocks_of(n) - d.known, work_of(f, &d), measure_at, &d);
    return d.keep;
}

void wv_draws_add_density(wvgd_fit *f, size_t b, size_t n, const double *x, double *log_sum)
{
    const wv_draws_batch *batch = &f->pool.batch[b];
    wv_draws_add(f, proposal, batch->proposal, batch->proposal + batch->proposals, n, x, log_sum);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
static double *part(const wvgd_fit *f, size_t b)
{
    return f->pool.part + b * wv_draws_points(f);
}

/* log_sum of the points from `first` on: over all batches. */
static void combine(wvgd_fit *f, size_t first)
{
    block b = names(f);
    for (size_t n = wv_draws_size(f); first < n; first += WV_COLUMNS) {
        size_t here = least(n - first, WV_COLUMNS);
        for (size_t i = 0; i < WV_COLUMNS; i++)
            b.sum[i] = -INFINITY;
        for (size_t k = 0; k < f->pool.batches; k++)
            memcpy(b.log_q + k * WV_COLUMNS, part(f, k) + first, here * sizeof(double));
        wv_columns_best()->add_logs(f->pool.batches, wv_columns_round(here), b.log_q, b.sum);
        memcpy(f->pool.log_sum + first, b.sum, here * sizeof(double));
    }
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
    combine(f, 0);
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
    combine(f, 0);
}

bool wv_draws_take(wvgd_fit *f, const wv_batch *b)
{
    size_t D = f->D, n0 = wv_draws_size(f), c0 = proposals(f), n = b->n, old = f->pool.batches;
    memcpy(f->pool.x + n0 * D, b->x, n * D * sizeof(double));
    memcpy(f->pool.grad + n0 * D, b->grad, n * D * sizeof(double));
    memcpy(f->pool.log_p + n0, b->log_p, n * sizeof(double));
    size_t made = take_places(f, c0);
    f->pool.batch[f->pool.batches++] = (wv_draws_batch){n0, n, c0, made};
    for (size_t k = 0; k <= old; k++) { /* new points under old proposals, all points under new ones */
        double *log_sum = part(f, k);
        for (size_t i = k < old ? n0 : 0; i < n0 + n; i++)
            log_sum[i] = -INFINITY;
    }
    for (size_t k = 0; k < old; k++)
        wv_draws_add_density(f, k, n, f->pool.x + n0 * D, part(f, k) + n0);
    bool measured = made <= wv_draws_components(f) + 1;
    if (measured) {
        wv_draws_measure(f, proposal, c0, c0 + made, 0, n0 + n, f->pool.x, true);
        wv_draws_sum(f, proposal, c0, c0 + made, 0, n0 + n, part(f, old));
    } else
        wv_draws_add_density(f, old, n0 + n, f->pool.x, part(f, old));
    combine(f, 0);
    return measured;
}
