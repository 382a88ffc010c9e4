/* density.c - log densities of one batch under K components that have just changed, as the joint solver weighs it
 * (joint/batch_density.c), by the thread's own clock.
 *     density
 * prints microseconds for components whose roots are diagonal, full, with an inverse, or full and left to their family
 * (sources.h), in several dimensions and numbers of components; the best of many repeats. */
#include "dense.h"
#include "sources.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 1024, REPEATS = 25, ROOM = 1 << 21 };

typedef enum { DIAGONAL, INVERSE, FAMILY, WAYS } way;

typedef struct {
    size_t D, K;
    way now;
    double *mu, *sd, *root, *inverse, *x, *u, *log_m, *share, *log_det, *constant;
    wv_gaussian *q;
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

static wv_source source(const void *self, size_t k)
{
    const problem *p = self;
    size_t D = p->D, size = p->now == DIAGONAL ? D : D * D;
    return (wv_source){.mu = p->mu + k * D,
                       .inverse = p->now == INVERSE ? p->inverse + k * size : NULL,
                       .scale = p->now == DIAGONAL ? p->inverse + k * size : NULL,
                       .q = p->now == FAMILY ? &p->q[k] : NULL,
                       .log_det = p->log_det[k],
                       .weight = 1};
}

static void weigh(problem *p)
{
    size_t D = p->D;
    wv_sources all = {source, p, p->K, D};
    for (size_t k = 0; k < p->K; k++)
        p->log_det[k] = p->now == DIAGONAL ? wv_family_get(WVGD_DIAG)->log_det(D, 0, p->sd + k * D)
                                           : wv_family_get(WVGD_FULL)->log_det(D, 0, p->root + k * D * D);
    for (size_t k = 0; k < p->K && p->now == INVERSE; k++)
        wv_dense_invert(D, p->root + k * D * D, p->inverse + k * D * D);
    for (size_t i = 0; i < p->K * D && p->now == DIAGONAL; i++)
        p->inverse[i] = 1 / p->sd[i];
    wv_sources_constants(&all, p->constant);
    for (size_t at = 0; at < N; at += WV_COLUMNS) {
        wv_sources_each(&all, p->constant, WV_COLUMNS, p->x + at * D, p->u, p->workers.arena[0]);
        wv_columns_best()->shares(p->K, WV_COLUMNS, WV_COLUMNS, p->share, p->u, p->log_m + at);
    }
}

static double time_of(way now, problem *p)
{
    double best = INFINITY;
    p->now = now;
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
                 .inverse = numbers(K * D * D),
                 .x = numbers(N * D),
                 .u = numbers(K * WV_COLUMNS),
                 .log_m = numbers(N),
                 .share = numbers(K),
                 .log_det = numbers(K),
                 .constant = numbers(K),
                 .q = calloc(K, sizeof *p.q)};
    if (!p.q || !wv_workers_new(&p.workers, 1, (wv_workers_room){ROOM, 0}))
        exit(70);
    for (size_t k = 0; k < K; k++) {
        p.share[k] = 1 / (double)K;
        for (size_t i = 0; i < D * D; i++)
            p.root[k * D * D + i] = i / D == i % D ? p.sd[k * D + i / D] = 1 + fabs(number(k + i)) : 0;
        p.q[k] = (wv_gaussian){wv_family_get(WVGD_FULL), D, 0, p.mu + k * D, p.root + k * D * D, 0};
    }
    printf("%5zu %5zu", D, K);
    for (way now = DIAGONAL; now < WAYS; now++)
        printf("   %9.0f", time_of(now, &p));
    printf("\n");
    double *all[] = {p.mu, p.sd, p.root, p.inverse, p.x, p.u, p.log_m, p.share, p.log_det, p.constant};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(p.q);
    wv_workers_free(&p.workers);
}

int main(void)
{
    printf("microseconds of %d points\n    D     K    diagonal     inverse      family\n", N);
    for (size_t D = 2; D <= 50; D *= 5)
        for (size_t K = 10; K <= 100; K *= 10)
            measure(D, K);
    return 0;
}
