/* mixture.c - a weighted set of full Gaussians: m(z) = sum_k w_k N(z; mu_k, L_k L_k'). */
#include "mixture.h"
#include "dense.h"
#include "error.h"
#include "memory.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_mixture_new(wv_mixture *m, size_t D, size_t room)
{
    *m = (wv_mixture){.D = D, .room = room};
    const wv_slot slots[] = {{&m->mu, wv_times(room, D)}, {&m->root, wv_times(room, wv_times(D, D))}, {&m->w, room}};
    m->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return m->memory != NULL;
}

void wv_mixture_free(wv_mixture *m)
{
    free(m->memory);
}

bool wv_mixture_archive(wv_mixture *m, wv_archive *a, size_t least)
{
    size_t K = m->K, D = m->D;
    wv_archive_values(a, &K, sizeof K);
    if (K > m->room || K < least)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        m->K = K;
        m->version++;
    }
    wv_archive_array(a, m->mu, K * D);
    wv_archive_array(a, m->root, K * D * D);
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

/* ---- what it says ------------------------------------------------------------------------------------------------ */
size_t wv_mixture_owner(const wv_mixture *m, const double *x, wv_arena *arena)
{
    size_t best = 0, mark = wv_arena_mark(arena);
    double most = -INFINITY, log_q, *y = wv_arena_take(arena, m->D);
    for (size_t k = 0; k < m->K; k++) {
        wv_gaussian q = wv_mixture_component(m, k);
        wv_gaussian_log_density(&q, 1, x, &log_q, y, arena);
        if (log_q + log(m->w[k]) > most) {
            most = log_q + log(m->w[k]);
            best = k;
        }
    }
    wv_arena_release(arena, mark);
    return best;
}

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
    m->version++;
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
    m->version++;
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
    m->version++;
}

bool wv_mixture_absorb(wv_mixture *m, size_t k, double *C, wv_arena *arena)
{
    m->version++;
    return wv_family_get(WVGD_FULL)->absorb(m->D, 0, m->root + k * m->D * m->D, C, arena);
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
    size_t D = m->D;
    m->K = 1;
    m->w[0] = 1;
    memcpy(m->mu, mu, D * sizeof *m->mu);
    memcpy(m->root, root, D * D * sizeof *m->root);
    m->version++;
}
