/* mixture.c - a weighted set of full Gaussians: m(z) = sum_k w_k N(z; mu_k, L_k L_k'). */
#include "mixture.h"
#include "dense.h"
#include "error.h"
#include "memory.h"
#include "simd/columns.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_mixture_new(wv_mixture *m, size_t D, size_t room)
{
    *m = (wv_mixture){.D = D, .room = room};
    size_t roots = wv_times(room, wv_times(D, D));
    const wv_slot slots[] = {
        {&m->mu, wv_times(room, D)}, {&m->root, roots}, {&m->w, room}, {&m->inverse, roots}, {&m->log_det, room}};
    m->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return m->memory != NULL;
}

wv_mixture wv_mixture_take(size_t D, size_t room, wv_arena *arena)
{
    size_t roots = room * D * D;
    return (wv_mixture){.D = D,
                        .room = room,
                        .mu = wv_arena_take(arena, room * D),
                        .root = wv_arena_take(arena, roots),
                        .w = wv_arena_take(arena, room),
                        .inverse = wv_arena_take(arena, roots),
                        .log_det = wv_arena_take(arena, room)};
}

void wv_mixture_free(wv_mixture *m)
{
    free(m->memory);
}

/* Components first .. end - 1 have changed. */
static void renew(wv_mixture *m, size_t first, size_t end)
{
    size_t D = m->D;
    for (size_t k = first; k < end; k++) {
        wv_dense_invert(D, m->root + k * D * D, m->inverse + k * D * D);
        m->log_det[k] = wv_family_get(WVGD_FULL)->log_det(D, 0, m->root + k * D * D);
    }
    m->version++;
}

bool wv_mixture_archive(wv_mixture *m, wv_archive *a, size_t least)
{
    size_t K = m->K, D = m->D;
    wv_archive_values(a, &K, sizeof K);
    if (K > m->room || K < least)
        return wv_archive_refuse(a);
    wv_archive_array(a, m->mu, K * D);
    wv_archive_array(a, m->root, K * D * D);
    if (wv_archive_reading(a)) {
        m->K = K;
        renew(m, 0, K);
    }
    if (!wv_archive_shares(a, K))
        return wv_archive_refuse(a);
    wv_archive_array(a, m->w, K);
    return true;
}

wv_gaussian wv_mixture_component(const wv_mixture *m, size_t k)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), m->D, 0, m->mu + k * m->D, m->root + k * m->D * m->D, 0};
}

bool wv_mixture_is(const wv_mixture *m, const wv_gaussian *q)
{
    size_t D = m->D;
    return m->K == 1 && q->family == wv_family_get(WVGD_FULL) && !memcmp(q->mu, m->mu, D * sizeof *m->mu) &&
           !memcmp(q->root, m->root, D * D * sizeof *m->root);
}

/* ---- of a mixture ------------------------------------------------------------------------------------------------ */
static wv_source component(const void *self, size_t k)
{
    const wv_mixture *m = self;
    size_t D = m->D;
    return (
        wv_source){.mu = m->mu + k * D, .inverse = m->inverse + k * D * D, .log_det = m->log_det[k], .weight = m->w[k]};
}

wv_sources wv_mixture_sources(const wv_mixture *m)
{
    return (wv_sources){component, m, m->K, m->D};
}

void wv_mixture_share(const wv_mixture *m, size_t k, size_t n, const double *r, const double *log_m, double *share)
{
    double constant = log(m->w[k]) + wv_columns_constant(m->D, m->log_det[k], 0);
    for (size_t i = 0; i < n; i++)
        share[i] = constant - r[i] / 2 - log_m[i];
    wv_weights_exp(n, share);
}

const double *wv_mixture_whitened(const wv_mixture *m, const wv_block *b, size_t k, wv_arena *arena)
{
    size_t D = m->D, size = D * WV_COLUMNS;
    const wv_squares *s = b->squares;
    if (s->y)
        return s->y + (k * (s->row / WV_COLUMNS) + b->at) * size;
    double *x = wv_arena_take(arena, size), *spare = wv_arena_take(arena, size), *y = wv_arena_take(arena, size),
           *r = wv_arena_take(arena, WV_COLUMNS);
    wv_columns_turn(D, b->n, b->x, x);
    wv_columns_whiten(D, wv_columns_round(b->n), m->inverse + k * D * D, m->mu + k * D, x, spare, y, r);
    return y;
}

/* grad log m = - sum_k r_k A_k'^-1 y_k, r_k the share of component k. */
void wv_mixture_subtract_gradient(const wv_mixture *m, const wv_block *b, double *out, wv_arena *arena)
{
    const double negligible = 1e-17;
    size_t D = m->D, n = wv_columns_round(b->n), mark = wv_arena_mark(arena);
    double *ry = wv_arena_take(arena, D * WV_COLUMNS), share[WV_COLUMNS] = {0};
    for (size_t k = 0; k < m->K; k++) {
        size_t before = wv_arena_mark(arena);
        wv_mixture_share(m, k, b->n, b->squares->r + k * b->squares->row + b->at * WV_COLUMNS, b->log_m, share);
        if (wv_weights_largest(b->n, share) > negligible) {
            wv_columns_best()->scale(D, n, share, wv_mixture_whitened(m, b, k, arena), ry);
            wv_columns_push(D, n, m->inverse + k * D * D, ry, out);
        }
        wv_arena_release(arena, before);
    }
    wv_arena_release(arena, mark);
}

typedef struct {
    const wv_mixture *mix;
    size_t n;
    const double *x;      /* [n][D] */
    double *log_m, *grad; /* [n], [n][D] */
} slopes;

static void slope_at(wv_arena *arena, void *context, size_t at)
{
    const slopes *s = context;
    size_t D = s->mix->D, first = at * WV_COLUMNS, here = wv_sources_points(s->n, at), mark = wv_arena_mark(arena);
    double *out = wv_arena_zeros(arena, D * WV_COLUMNS), *grad = s->grad + first * D;
    wv_sources sources = wv_mixture_sources(s->mix);
    wv_squares squares = wv_sources_squares(D, s->mix->K, here, SIZE_MAX, arena);
    wv_workers alone = wv_workers_one(&arena);
    wv_sources_measure(&sources, 0, here, s->x + first * D, &squares, &alone);
    wv_sources_log(&sources, here, s->x + first * D, &squares, s->log_m + first, &alone);
    wv_block b = {&squares, 0, here, s->x + first * D, s->log_m + first};
    wv_mixture_subtract_gradient(s->mix, &b, out, arena);
    for (size_t i = 0; i < here; i++)
        for (size_t d = 0; d < D; d++)
            grad[i * D + d] = -out[d * WV_COLUMNS + i];
    wv_arena_release(arena, mark);
}

void wv_mixture_log_density(const wv_mixture *m, size_t n, const double *x, double *log_m, double *grad, wv_workers *w)
{
    wv_sources sources = wv_mixture_sources(m);
    slopes s = {m, n, x, log_m, grad};
    if (grad)
        wv_workers_run(w, wv_sources_blocks(n), 2 * (double)(m->K * n * m->D * m->D), slope_at, &s);
    else
        wv_sources_log(&sources, n, x, NULL, log_m, w);
}

void wv_mixture_owners(const wv_mixture *m, size_t n, const double *x, size_t *owner, wv_arena *arena)
{
    wv_sources sources = wv_mixture_sources(m);
    wv_workers alone = wv_workers_one(&arena);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = wv_sources_points(n, first / WV_COLUMNS), mark = wv_arena_mark(arena);
        wv_squares s = wv_sources_squares(m->D, m->K, here, 0, arena);
        double most[WV_COLUMNS];
        for (size_t i = 0; i < here; i++) {
            owner[first + i] = 0;
            most[i] = -INFINITY;
        }
        wv_sources_measure(&sources, 0, here, x + first * m->D, &s, &alone);
        for (size_t k = 0; k < m->K; k++) {
            double top = log(m->w[k]) - m->log_det[k];
            for (size_t i = 0; i < here; i++)
                if (top - s.r[k * s.row + i] / 2 > most[i]) {
                    most[i] = top - s.r[k * s.row + i] / 2;
                    owner[first + i] = k;
                }
        }
        wv_arena_release(arena, mark);
    }
}

size_t wv_mixture_owner(const wv_mixture *m, const double *x, wv_arena *arena)
{
    size_t owner = 0;
    wv_mixture_owners(m, 1, x, &owner, arena);
    return owner;
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Adds share times the covariance of q about `mean` to cov[D][D]. */
static void add_cov(const wv_gaussian *q, double share, const double *mean, double *cov, wv_arena *arena)
{
    size_t D = q->D, mark = wv_arena_mark(arena);
    double *own = wv_arena_take(arena, D * D), *away = wv_arena_take(arena, D);
    wv_gaussian_cov(q, own, arena);
    cblas_daxpy((int)(D * D), share, own, 1, cov, 1);
    for (size_t i = 0; i < D; i++)
        away[i] = q->mu[i] - mean[i];
    cblas_dger(CblasRowMajor, (int)D, (int)D, share, away, 1, away, 1, cov, (int)D);
    wv_arena_release(arena, mark);
}

static bool in_group(const double *group, size_t k, double g)
{
    return !group || group[k] == g;
}

bool wv_mixture_moments_of(const wv_mixture *m, const double *group, double g, double *mean, double *root,
                           wv_arena *arena)
{
    size_t D = m->D, K = m->K;
    double sum = 0;
    if (K == 1) {
        memcpy(mean, m->mu, D * sizeof *mean);
        memcpy(root, m->root, D * D * sizeof *root);
        return true;
    }
    memset(mean, 0, D * sizeof *mean);
    memset(root, 0, D * D * sizeof *root);
    for (size_t k = 0; k < K; k++)
        if (in_group(group, k, g)) {
            sum += m->w[k];
            cblas_daxpy((int)D, m->w[k], m->mu + k * D, 1, mean, 1);
        }
    cblas_dscal((int)D, 1 / sum, mean, 1);
    for (size_t k = 0; k < K; k++)
        if (in_group(group, k, g)) {
            wv_gaussian q = wv_mixture_component(m, k);
            add_cov(&q, m->w[k] / sum, mean, root, arena);
        }
    size_t mark = wv_arena_mark(arena);
    bool positive = wv_dense_chol(D, root, wv_arena_take(arena, D * D));
    wv_arena_release(arena, mark);
    return positive;
}

/* Of the mean precision: with inverse roots B_k it is sum_k w_k B_k'B_k. */
void wv_mixture_scales(const wv_mixture *m, double *scale)
{
    size_t D = m->D;
    memset(scale, 0, D * sizeof *scale);
    for (size_t k = 0; k < m->K; k++)
        for (size_t r = 0; r < D; r++)
            for (size_t i = 0; i <= r; i++) {
                double b = m->inverse[(k * D + r) * D + i];
                scale[i] += m->w[k] * b * b;
            }
    for (size_t i = 0; i < D; i++)
        scale[i] = 1 / sqrt(scale[i]);
}

bool wv_mixture_moments(const wv_mixture *m, double *mean, double *root, wv_arena *arena)
{
    return wv_mixture_moments_of(m, NULL, 0, mean, root, arena);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */
void wv_mixture_copy(wv_mixture *to, const wv_mixture *from)
{
    size_t K = from->K, D = from->D;
    to->K = K;
    memcpy(to->mu, from->mu, K * D * sizeof *to->mu);
    memcpy(to->root, from->root, K * D * D * sizeof *to->root);
    memcpy(to->w, from->w, K * sizeof *to->w);
    memcpy(to->inverse, from->inverse, K * D * D * sizeof *to->inverse);
    memcpy(to->log_det, from->log_det, K * sizeof *to->log_det);
    to->version++;
}

void wv_mixture_clear(wv_mixture *m)
{
    m->K = 0;
    m->version++;
}

/* Component `to` <- q. */
static void put(wv_mixture *m, size_t to, const wv_gaussian *q)
{
    size_t D = m->D;
    memcpy(m->mu + to * D, q->mu, D * sizeof *m->mu);
    memcpy(m->root + to * D * D, q->root, D * D * sizeof *m->root);
    renew(m, to, to + 1);
}

void wv_mixture_append(wv_mixture *m, const wv_gaussian *q, double weight)
{
    put(m, m->K, q);
    m->w[m->K++] = weight;
}

void wv_mixture_set_components(wv_mixture *m, const double *mu, const double *root)
{
    size_t K = m->K, D = m->D;
    memcpy(m->mu, mu, K * D * sizeof *mu);
    memcpy(m->root, root, K * D * D * sizeof *root);
    renew(m, 0, K);
}

void wv_mixture_drop(wv_mixture *m, const double *marked)
{
    size_t kept = 0;
    for (size_t k = 0; k < m->K; k++) {
        wv_gaussian q = wv_mixture_component(m, k);
        if (marked[k] != 0)
            continue;
        if (kept < k) {
            put(m, kept, &q);
            m->w[kept] = m->w[k];
        }
        kept++;
    }
    if (!kept)
        return;
    m->K = kept;
    wv_mixture_normalise(m);
}

void wv_mixture_scale_root(wv_mixture *m, size_t k, double by)
{
    cblas_dscal((int)(m->D * m->D), by, m->root + k * m->D * m->D, 1);
    renew(m, k, k + 1);
}

bool wv_mixture_absorb(wv_mixture *m, size_t k, double *C, wv_arena *arena)
{
    bool absorbed = wv_family_get(WVGD_FULL)->absorb(m->D, 0, m->root + k * m->D * m->D, C, arena);
    renew(m, k, k + 1);
    return absorbed;
}

void wv_mixture_set_weight(wv_mixture *m, size_t k, double weight)
{
    m->w[k] = weight;
    m->version++;
}

void wv_mixture_set_weights(wv_mixture *m, const double *w)
{
    memcpy(m->w, w, m->K * sizeof *w);
    m->version++;
}

void wv_mixture_scale_weights(wv_mixture *m, double by)
{
    cblas_dscal((int)m->K, by, m->w, 1);
    m->version++;
}

void wv_mixture_raise_weights(wv_mixture *m, double sum, double least)
{
    for (size_t k = 0; k < m->K; k++)
        m->w[k] = fmax(m->w[k] / sum, least);
    m->version++;
}

void wv_mixture_normalise(wv_mixture *m)
{
    wv_mixture_scale_weights(m, 1 / cblas_dasum((int)m->K, m->w, 1));
}

void wv_mixture_set_one(wv_mixture *m, const double *mu, const double *root)
{
    m->K = 1;
    m->w[0] = 1;
    wv_mixture_set_components(m, mu, root);
}
