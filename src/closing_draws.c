/* closing_draws.c - the draws that results are estimated from: memory, save and restore. */
#include "closing_draws.h"
#include "error.h"
#include "memory.h"
#include "simd/columns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_closing_new(wv_closing *c, size_t N, size_t D, size_t room, size_t strata, bool gradients)
{
    *c = (wv_closing){.N = N, .D = D, .room = room, .strata = strata, .gradients = gradients};
    wv_batch *b = &c->draws;
    const wv_slot slots[] = {
        {&b->x, wv_times(room, D)},
        {&b->grad, gradients ? wv_times(room, D) : 0},
        {&b->log_p, room},
        {&b->log_m, room},
        {&b->log_q, room},
        {&b->log_mix[0], room},
        {&b->log_mix[1], room},
        {&b->near, room},
        {&b->sum_u, N},
        {&c->made, strata},
        {&c->wide_mu, gradients ? D : 0},
        {&c->wide_root, gradients ? wv_times(D, D) : 0},
        {&c->v, room},
        {&c->log_w, room},
        {&c->smooth, room},
        {&c->calibrated, room},
    };
    c->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    c->index = calloc(wv_times(2, room), sizeof *c->index);
    b->cell = c->index;
    b->stratum = c->index ? c->index + room : NULL;
    if (!c->memory || !c->index)
        return false;
    memset(b->sum_u, 0, N * sizeof *b->sum_u); /* these are saved in every stage */
    if (strata)
        memset(c->made, 0, strata * sizeof *c->made);
    return true;
}

void wv_closing_free(wv_closing *c)
{
    free(c->memory);
    free(c->index);
    free(c->seen.memory);
}

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
    size_t n, planned, block, trial;
} counts;

static bool sane(const counts *s, wv_closing_rule rule)
{
    return s->n <= rule.most && s->planned <= rule.planned_most && s->trial <= s->n && s->block <= rule.most &&
           (s->n || !rule.some) &&
           (!rule.blocks || (s->planned && s->planned <= rule.most / (s->block + 1) &&
                             s->n <= (s->block + 1) * s->planned && s->n >= s->block * s->planned));
}

bool wv_closing_archive(wv_closing *c, wv_archive *a, wv_closing_rule rule)
{
    counts s = {c->draws.n, c->planned, c->block, c->trial};
    wv_archive_values(a, &s, sizeof s);
    if (!sane(&s, rule))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        c->draws.n = s.n;
        c->planned = s.planned;
        c->block = s.block;
        c->trial = s.trial;
        wv_closing_seen_forget(c, 0);
    }
    wv_batch *b = &c->draws;
    size_t n = s.n, cells = rule.cells ? n : 0, weights = rule.weights ? n : 0, strata = c->gradients ? n : cells;
    wv_archive_array(a, c->made, c->strata);
    wv_archive_array(a, b->sum_u, c->N);
    wv_archive_array(a, b->x, n * c->D);
    wv_archive_array(a, b->log_p, n);
    wv_archive_array(a, b->log_m, n);
    wv_archive_array(a, b->grad, c->gradients ? n * c->D : 0);
    if (!below(wv_archive_peek(a, strata * sizeof *b->stratum), strata, c->strata + 3 * c->N + 3))
        return wv_archive_refuse(a);
    wv_archive_bytes(a, b->stratum, strata * sizeof *b->stratum);
    if (!below(wv_archive_peek(a, cells * sizeof *b->cell), cells, c->N))
        return wv_archive_refuse(a);
    wv_archive_bytes(a, b->cell, cells * sizeof *b->cell);
    wv_archive_array(a, b->near, cells);
    wv_archive_array(a, b->log_q, cells);
    wv_archive_array(a, b->log_mix[0], cells);
    wv_archive_array(a, b->log_mix[1], c->gradients ? 0 : cells);
    wv_archive_array(a, c->smooth, weights);
    wv_archive_array(a, c->calibrated, weights);
    return true;
}

void wv_closing_set_calibrated(wv_closing *c, const double *weight)
{
    memcpy(c->calibrated, weight, c->draws.n * sizeof *weight);
}

/* ---- squares ----------------------------------------------------------------------------------------------------- */
bool wv_closing_seen_new(wv_closing *c, size_t places, size_t points)
{
    size_t row = wv_times((points + WV_COLUMNS - 1) / WV_COLUMNS, WV_COLUMNS);
    double *r = NULL;
    const wv_slot slot = {&r, wv_times(places, row) + WV_COLUMNS}; /* the last row is read beyond its end */
    c->seen = (wv_closing_seen){.memory = wv_memory_carve(&slot, 1, WV_AS_IT_IS)};
    c->seen.squares = (wv_squares){.row = row, .r = r};
    return c->seen.memory != NULL;
}

size_t wv_closing_seen_known(const wv_closing *c, size_t version)
{
    return c->seen.version == version ? c->seen.n : 0;
}

void wv_closing_seen_forget(wv_closing *c, size_t from)
{
    c->seen.n = c->seen.n < from ? c->seen.n : from;
}

void wv_closing_set_log_q(wv_closing *c, size_t j, size_t n, const double *log_q)
{
    wv_batch *b = &c->draws;
    for (size_t i = 0, k = 0; i < b->n; i++)
        if (b->cell[i] == j)
            b->log_q[i] = b->log_p[i] > -INFINITY && k < n ? log_q[k++] : -INFINITY;
}

void wv_closing_copy(wv_closing *to, const wv_closing *from)
{
    const wv_batch *b = &from->draws;
    size_t n = b->n, D = from->D;
    to->draws.n = n;
    to->trial = from->trial;
    to->planned = from->planned;
    memcpy(to->draws.x, b->x, n * D * sizeof *b->x);
    memcpy(to->draws.grad, b->grad, n * D * sizeof *b->grad);
    memcpy(to->draws.log_p, b->log_p, n * sizeof *b->log_p);
    memcpy(to->draws.log_m, b->log_m, n * sizeof *b->log_m);
    memcpy(to->draws.stratum, b->stratum, n * sizeof *b->stratum);
    memcpy(to->calibrated, from->calibrated, n * sizeof *from->calibrated);
}

void wv_closing_collect(wv_closing *c, const wv_batch *b, size_t most, size_t *next)
{
    size_t D = c->D, n = b->n < most ? b->n : most;
    *next = c->draws.n ? *next % most : 0;
    for (size_t from = 0, here; from < n; from += here) {
        size_t at = *next % most;
        here = n - from < most - at ? n - from : most - at;
        memcpy(c->draws.x + at * D, b->x + from * D, here * D * sizeof *b->x);
        memcpy(c->draws.log_p + at, b->log_p + from, here * sizeof *b->log_p);
        memcpy(c->draws.log_m + at, b->log_m + from, here * sizeof *b->log_m);
        *next += here;
    }
    c->draws.n = c->draws.n + n < most ? c->draws.n + n : most;
}

void wv_closing_clear(wv_closing *c)
{
    c->draws.n = 0;
}

void wv_closing_plan(wv_closing *c, size_t planned)
{
    c->planned = planned;
    c->draws.n = c->block = 0;
    memset(c->draws.sum_u, 0, c->N * sizeof *c->draws.sum_u);
}

void wv_closing_append(wv_closing *c, const wv_batch *b)
{
    wv_batch *d = &c->draws;
    size_t n = b->n, at = d->n;
    memcpy(d->x + at * c->D, b->x, n * c->D * sizeof *d->x);
    memcpy(d->log_p + at, b->log_p, n * sizeof *d->log_p);
    memcpy(d->log_m + at, b->log_m, n * sizeof *d->log_m);
    memcpy(d->log_q + at, b->log_q, n * sizeof *d->log_q);
    memcpy(d->log_mix[0] + at, b->log_mix[0], n * sizeof *d->log_mix[0]);
    memcpy(d->log_mix[1] + at, b->log_mix[1], n * sizeof *d->log_mix[1]);
    memcpy(d->near + at, b->near, n * sizeof *d->near);
    memcpy(d->cell + at, b->cell, n * sizeof *d->cell);
    memcpy(d->stratum + at, b->stratum, n * sizeof *d->stratum);
    for (size_t j = 0; j < c->N; j++)
        d->sum_u[j] += b->sum_u[j];
    d->n = at + n;
}
