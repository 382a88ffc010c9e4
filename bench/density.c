/* density.c - log densities of one batch under K components that have just changed, as the joint solver weighs it
 * (joint/batch_density.c) and by the mixture of the staged solver (mixture.c), by the thread's own clock.
 *     density
 * prints microseconds of both for several families, dimensions and numbers of components; the best of many repeats. */
#include "mixture.h"
#include "simd/columns.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 1024, REPEATS = 25, ROOM = 1 << 21 };

typedef struct {
    size_t D, K;
    double *mu, *sd, *root, *x, *u, *log_m, *share, *whitened, *scale, *columns;
    wv_mixture mixture;
    wv_workers workers;
} problem;

static double number(size_t i)
{
    return 3 * sin((double)i * 1.37) + cos((double)i * 0.71);
}

static double *numbers(size_t n)
{
    double *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    for (size_t i = 0; x && i < n; i++)
        x[i] = number(i);
    return x ? x : (exit(70), NULL);
}

/* Diagonal components: 64 points at once, O(D) each. */
static void weigh_diagonal(problem *p)
{
    size_t D = p->D;
    for (size_t k = 0; k < p->K; k++) {
        for (size_t i = 0; i < D; i++)
            p->scale[k * (D + 1) + i] = 1 / p->sd[k * D + i];
        p->scale[k * (D + 1) + D] = wv_columns_constant(D, wv_family_get(WVGD_DIAG)->log_det(D, 0, p->sd + k * D), 0);
    }
    for (size_t at = 0; at < N; at += WV_COLUMNS) {
        wv_columns_turn(D, WV_COLUMNS, p->x + at * D, p->columns);
        for (size_t k = 0; k < p->K; k++) {
            double *u = p->u + k * WV_COLUMNS;
            wv_columns_best()->apart(D, WV_COLUMNS, p->columns, p->mu + k * D, p->scale + k * (D + 1), u);
            wv_columns_log(D, WV_COLUMNS, p->scale[k * (D + 1) + D], 0, u, u);
        }
        wv_columns_best()->shares(p->K, WV_COLUMNS, WV_COLUMNS, p->share, p->u, p->log_m + at);
    }
}

/* Full ones: 256 points at once, a triangular solve each. */
static void weigh_full(problem *p)
{
    for (size_t at = 0; at < N; at += WV_BLOCK) {
        for (size_t k = 0; k < p->K; k++) {
            wv_gaussian q = {wv_family_get(WVGD_FULL), p->D, 0, p->mu + k * p->D, p->root + k * p->D * p->D, 0};
            wv_gaussian_log_density(&q, WV_BLOCK, p->x + at * p->D, p->u + k * WV_BLOCK, p->whitened,
                                    p->workers.arena[0]);
        }
        wv_columns_best()->shares(p->K, WV_BLOCK, WV_BLOCK, p->share, p->u, p->log_m + at);
    }
}

/* All by inverse roots, and the shares of every component. */
static void weigh_mixture(problem *p)
{
    wv_arena *arena = p->workers.arena[0];
    size_t mark = wv_arena_mark(arena);
    wv_mixture_set_components(&p->mixture, p->mu, p->root);
    wv_squares s = wv_sources_squares(p->D, p->K, N, 0, arena);
    wv_sources all = wv_mixture_sources(&p->mixture);
    wv_sources_measure(&all, 0, N, p->x, &s, &p->workers);
    wv_sources_log(&all, N, p->x, &s, p->log_m, &p->workers);
    for (size_t k = 0; k < p->K; k++)
        wv_mixture_share(&p->mixture, k, N, s.r + k * s.row, p->log_m, p->u);
    wv_arena_release(arena, mark);
}

static double time_of(void (*weigh)(problem *), problem *p)
{
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        weigh(p);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        best = fmin(best, 1e6 * (double)(b.tv_sec - a.tv_sec) + 1e-3 * (double)(b.tv_nsec - a.tv_nsec));
    }
    return best;
}

static void measure(size_t D, size_t K)
{
    problem p = {.D = D,
                 .K = K,
                 .mu = numbers(K * D),
                 .sd = numbers(K * D),
                 .root = numbers(K * D * D),
                 .x = numbers(N * D),
                 .u = numbers((K + 4) * WV_BLOCK + N),
                 .log_m = numbers(N),
                 .share = numbers(K),
                 .whitened = numbers(WV_BLOCK * D),
                 .scale = numbers(K * (D + 1)),
                 .columns = numbers(WV_COLUMNS * D)};
    if (!wv_mixture_new(&p.mixture, D, K) || !wv_workers_new(&p.workers, 1, (wv_workers_room){ROOM, 0}))
        exit(70);
    for (size_t k = 0; k < K; k++) {
        p.share[k] = 1 / (double)K;
        for (size_t i = 0; i < D * D; i++)
            p.root[k * D * D + i] = i / D == i % D ? p.sd[k * D + i / D] = 1 + fabs(number(k + i)) : 0;
        wv_mixture_append(&p.mixture,
                          &(wv_gaussian){wv_family_get(WVGD_FULL), D, 0, p.mu + k * D, p.root + k * D * D, 0},
                          p.share[k]);
    }
    printf("%5zu %5zu   %9.0f %9.0f   %9.0f\n", D, K, time_of(weigh_diagonal, &p), time_of(weigh_full, &p),
           time_of(weigh_mixture, &p));
    double *all[] = {p.mu, p.sd, p.root, p.x, p.u, p.log_m, p.share, p.whitened, p.scale, p.columns};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    wv_mixture_free(&p.mixture);
    wv_workers_free(&p.workers);
}

int main(void)
{
    printf("microseconds of %d points\n    D     K    diagonal      full     mixture\n", N);
    for (size_t D = 2; D <= 50; D *= 5)
        for (size_t K = 10; K <= 100; K *= 10)
            measure(D, K);
    return 0;
}
