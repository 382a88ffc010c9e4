/* medoids.c - N of M points that stand for all of them. */
#include "medoids.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    size_t M, N;
    const double *cost;    /* [M][M] */
    size_t *medoid, *cell; /* [N], [M] */
    double *near;          /* [M] cost of the nearest medoid */
} search;

/* Point u of the distribution near / sum near, u in (0, 1). */
static size_t pick(const search *s, double u)
{
    double sum = 0, at = 0;
    for (size_t i = 0; i < s->M; i++)
        sum += s->near[i];
    for (size_t i = 0; i < s->M; i++)
        if ((at += s->near[i]) >= u * sum && s->near[i] > 0)
            return i;
    return (size_t)(u * (double)s->M); /* all costs are 0 */
}

static void add_medoid(search *s, size_t j, size_t point)
{
    s->medoid[j] = point;
    for (size_t i = 0; i < s->M; i++)
        s->near[i] = fmin(s->near[i], s->cost[i * s->M + point]);
}

/* u[N] in (0, 1). */
static void seed_medoids(search *s, const double *u)
{
    for (size_t i = 0; i < s->M; i++)
        s->near[i] = INFINITY;
    add_medoid(s, 0, (size_t)(u[0] * (double)s->M));
    for (size_t j = 1; j < s->N; j++)
        add_medoid(s, j, pick(s, u[j]));
}

/* Cells of the medoids; the mean cost. */
static double assign(search *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->M; i++) {
        const double *cost = s->cost + i * s->M;
        s->cell[i] = 0;
        for (size_t j = 1; j < s->N; j++)
            if (cost[s->medoid[j]] < cost[s->medoid[s->cell[i]]])
                s->cell[i] = j;
        sum += cost[s->medoid[s->cell[i]]];
    }
    return sum / (double)s->M;
}

/* The point of cell j with the least cost to all others of it. */
static size_t centre(const search *s, size_t j)
{
    double least = INFINITY;
    size_t best = s->medoid[j];
    for (size_t k = 0; k < s->M; k++) {
        double sum = 0;
        for (size_t i = 0; i < s->M && s->cell[k] == j && sum < least; i++)
            sum += s->cell[i] == j ? s->cost[i * s->M + k] : 0;
        if (s->cell[k] == j && sum < least) {
            least = sum;
            best = k;
        }
    }
    return best;
}

static double settle(search *s)
{
    double now = assign(s), before = INFINITY;
    while (now < before) {
        before = now;
        for (size_t j = 0; j < s->N; j++)
            s->medoid[j] = centre(s, j);
        now = assign(s);
    }
    return now;
}

static double search_all(search *s, size_t starts, uint64_t seed, double *u, size_t *best, size_t *size)
{
    double least = INFINITY;
    for (size_t start = 0; start < starts; start++) {
        svgd_random_uniform(seed, start, s->N, u);
        seed_medoids(s, u);
        double cost = settle(s);
        if (cost < least) {
            least = cost;
            memcpy(best, s->medoid, s->N * sizeof *best);
            memset(size, 0, s->N * sizeof *size);
            for (size_t i = 0; i < s->M; i++)
                size[s->cell[i]]++;
        }
    }
    return least;
}

double find_medoids(size_t M, const double *cost, size_t N, size_t starts, uint64_t seed, size_t *medoid, size_t *size)
{
    size_t *work = calloc(N + M, sizeof *work);
    double *near = calloc(M + N, sizeof *near), least = (double)NAN;
    if (work && near) {
        search s = {M, N, cost, work, work + N, near};
        least = search_all(&s, starts, seed, near + M, medoid, size);
    }
    free(work);
    free(near);
    return least;
}
