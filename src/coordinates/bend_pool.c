/* bend_pool.c - points that a bend is fitted to (bend_pool.h). */
#include "coordinates/bend_pool.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t wv_bend_batch(size_t D)
{
    size_t n = (size_t)fmax(wv_policy.bend_batch, wv_policy.bend_batch_dimension * (double)D);
    return n + n % 2;
}

/* Batches for a map: each look that finds more arguments goes back to round 2. */
static size_t most_batches(void)
{
    return (size_t)(wv_policy.bend_rounds + wv_policy.bend_looks * (wv_policy.bend_rounds_look - 2));
}

bool wv_bend_pool_new(wv_bend_pool *p, size_t D)
{
    p->D = D;
    p->ring = D ? (size_t)fmin(wv_policy.bend_points + wv_policy.bend_points_dimension * (double)D,
                               wv_policy.bend_memory / (double)D)
                : 0;
    p->room = D ? p->ring + most_batches() * wv_bend_batch(D) : 0;
    const wv_slot slots[] = {{&p->x, wv_times(p->room, D)},
                             {&p->g, wv_times(p->room, D)},
                             {&p->log_p, p->room},
                             {&p->born, p->room}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return p->memory != NULL;
}

void wv_bend_pool_free(wv_bend_pool *p)
{
    free(p->memory);
}

typedef struct {
    size_t n, next, round, batch, looks, lines;
} counts;

bool wv_bend_pool_archive(wv_bend_pool *p, wv_archive *a)
{
    counts c = {p->n, p->next, p->round, p->batch, p->looks, p->lines};
    wv_archive_values(a, &c, sizeof c);
    if (c.n > p->room || c.next > p->room || (double)c.round > wv_policy.bend_rounds + 1 ||
        (double)c.looks > wv_policy.bend_looks || c.batch > most_batches() + 1 || c.lines > 1)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        p->n = c.n;
        p->next = c.next;
        p->round = c.round;
        p->batch = c.batch;
        p->looks = c.looks;
        p->lines = c.lines;
    }
    wv_archive_array(a, p->x, c.n * p->D);
    wv_archive_array(a, p->g, c.n * p->D);
    wv_archive_array(a, p->log_p, c.n);
    wv_archive_array(a, p->born, c.n);
    return true;
}

void wv_bend_pool_clear(wv_bend_pool *p)
{
    p->n = p->next = p->round = p->batch = p->looks = 0;
    p->lines = false;
}

void wv_bend_pool_reopen(wv_bend_pool *p)
{
    p->round = p->batch = p->looks = 0;
    p->lines = false;
    p->next = p->n % p->ring;
    memset(p->born, 0, p->n * sizeof *p->born);
}

void wv_bend_pool_take(wv_bend_pool *p, size_t n, const double *x, const double *log_p, const double *grad)
{
    size_t D = p->D, most = p->round ? p->room : p->ring;
    for (size_t i = 0; i < n && D; i++) {
        if (!isfinite(log_p[i]) || (p->round && p->n == most))
            continue;
        size_t at = p->round ? p->n : p->next % most;
        memcpy(p->x + at * D, x + i * D, D * sizeof *x);
        memcpy(p->g + at * D, grad + i * D, D * sizeof *grad);
        p->log_p[at] = log_p[i];
        p->born[at] = (double)p->batch;
        p->next = (at + 1) % most;
        p->n = p->n < at + 1 ? at + 1 : p->n;
    }
}

/* Only the last points stay, of all that are within reach. */
static size_t keep_last(wv_bend_pool *p, size_t kept, double *z, double *rho)
{
    size_t D = p->D, most = (size_t)(wv_policy.bend_fit_points + wv_policy.bend_fit_points_dimension * (double)D);
    if (kept <= most)
        return kept;
    double *arrays[] = {p->x, p->g, z, rho};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        memmove(arrays[k], arrays[k] + (kept - most) * D, most * D * sizeof(double));
    memmove(p->log_p, p->log_p + kept - most, most * sizeof(double));
    memmove(p->born, p->born + kept - most, most * sizeof(double));
    return most;
}

void wv_bend_pool_whiten(wv_bend_pool *p, const double *mu, const double *root, double *all_z, double *all_rho)
{
    size_t D = p->D, kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        double *z = all_z + kept * D, *rho = all_rho + kept * D, square = 0, size = 0;
        for (size_t k = 0; k < D; k++)
            z[k] = p->x[i * D + k] - mu[k];
        cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, root, (int)D, z, 1);
        memcpy(rho, p->g + i * D, D * sizeof *rho);
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)D, root, (int)D, rho, 1);
        for (size_t k = 0; k < D; k++) {
            square += z[k] * z[k];
            rho[k] += z[k];
            size += rho[k] * rho[k];
        }
        if (!(square < wv_policy.bend_reach * (double)D) || !isfinite(size))
            continue;
        memmove(p->x + kept * D, p->x + i * D, D * sizeof(double));
        memmove(p->g + kept * D, p->g + i * D, D * sizeof(double));
        p->log_p[kept] = p->log_p[i];
        p->born[kept] = p->born[i];
        kept++;
    }
    p->n = keep_last(p, kept, all_z, all_rho);
}
