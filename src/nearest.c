/* nearest.c - which particle is nearest: cells L_j = { z : c(z_j, z) < c(z_k, z) for all k } under a cost (cost.c;
 * method, section 1). */
#include "nearest.h"
#include "gaussian.h"
#include "policy.h"
#include "cost.h"
#include "simd/columns.h"
#include "dense.h"
#include "error.h"
#include "limit.h"
#include "workers.h"
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Takes particle j, at `cost` from point k, into account. */
static inline void compare(size_t k, uint32_t j, double cost, uint32_t *cell, double *near, double *next)
{
    double old = near[k], after = next[k];
    bool nearer = cost < old;
    double further = nearer ? old : cost; /* no branches: they would often be guessed wrong */
    near[k] = nearer ? cost : old;
    cell[k] = nearer ? j : cell[k];
    next[k] = further < after ? further : after;
}

static float *take_floats(wv_arena *arena, size_t n)
{
    return (float *)(void *)wv_arena_take_index(arena, n);
}

/* ---- single precision -------------------------------------------------------------------------------------------- */
/* Particles in single precision, relative to their mean, and what is needed to tell how wrong distances from them may
 * be. */
typedef struct {
    size_t N, D;
    float *z, *x;       /* [N][D], [D][WV_COLUMNS] of a block of points */
    const double *wide; /* [N][D] the particles themselves */
    double *middle;     /* [D] */
    double radius;      /* the largest distance of a particle from the middle */
} sieve;

/* A sieve for particles z[N][D], whose memory the caller gives back. */
static sieve make_sieve(size_t N, size_t D, const double *z, wv_arena *arena)
{
    sieve s = {.N = N,
               .D = D,
               .middle = wv_arena_zeros(arena, D),
               .z = take_floats(arena, N * D),
               .x = take_floats(arena, WV_COLUMNS * D),
               .wide = z};
    for (size_t j = 0; j < N; j++)
        cblas_daxpy((int)D, 1 / (double)N, z + j * D, 1, s.middle, 1);
    for (size_t j = 0; j < N; j++) {
        s.radius = fmax(s.radius, sqrt(wv_columns_best()->row_distance(D, z + j * D, s.middle)));
        for (size_t i = 0; i < D; i++)
            s.z[j * D + i] = (float)(z[j * D + i] - s.middle[i]);
    }
    return s;
}

/* The nearer of two candidates of a point, and what it costs, in double. */
static void choose(const sieve *s, const double *x, int32_t first, int32_t second, uint32_t *cell, double *near,
                   double *next)
{
    double a = wv_columns_best()->row_distance(s->D, x, s->wide + (size_t)first * s->D),
           b = wv_columns_best()->row_distance(s->D, x, s->wide + (size_t)second * s->D);
    bool swap = b < a || (b == a && second < first);
    *near = swap ? b : a;
    *next = swap ? a : b;
    *cell = (uint32_t)(swap ? second : first);
}

/* Compares a point with all particles. */
static void scan(const sieve *s, const double *x, uint32_t *cell, double *near, double *next)
{
    *near = *next = INFINITY;
    *cell = 0;
    for (size_t j = 0; j < s->N; j++)
        compare(0, (uint32_t)j, wv_columns_best()->row_distance(s->D, x, s->wide + j * s->D), cell, near, next);
}

/* Nearest and second nearest particle of a block of points, given as rows and in columns. Single precision tells the
 * two; it is as good as double if the third is further away than the second by more than what rounding can change:
 * coordinates by the share `unit` of themselves, and sums of squares by (D + 4) units. Else all are compared.
 * False: that would be for too many points. */
static bool sift(sieve *s, size_t n, const double *rows, const double *columns, uint32_t *cell, double *near,
                 double *next)
{
    const double unit = FLT_EPSILON;
    int32_t first[WV_COLUMNS], second[WV_COLUMNS];
    float third[WV_COLUMNS];
    size_t D = s->D, doubts = 0;
    if (!(s->radius < 1e18))
        return false;
    wv_columns_best()->shorten(D, columns, s->middle, s->x);
    wv_columns_best()->nearby(D, n, s->N, s->x, s->z, first, second, third);
    for (size_t k = 0; k < n; k++) {
        choose(s, rows + k * D, first[k], second[k], &cell[k], &near[k], &next[k]);
        double rest = sqrt((double)third[k] / (1 + (double)(D + 4) * unit)) - unit * (2 * s->radius + sqrt(near[k]));
        if (rest > 0 && rest * rest > next[k] && third[k] > 1e-30F && near[k] < 1e36)
            continue;
        if ((double)++doubts > wv_policy.nearest_doubts)
            return false;
        scan(s, rows + k * D, &cell[k], &near[k], &next[k]);
    }
    return true;
}

/* Compares a block of points, which stand in columns, with all particles. */
static void compare_block(size_t N, size_t D, const double *z, size_t n, const double *columns, uint32_t *cell,
                          double *near, double *next)
{
    double which[WV_COLUMNS], least[WV_COLUMNS], other[WV_COLUMNS];
    wv_columns_best()->nearest(D, wv_columns_round(n), N, columns, z, least, other, which);
    for (size_t k = 0; k < n; k++) {
        cell[k] = (uint32_t)which[k];
        near[k] = least[k];
        next[k] = other[k];
    }
}

/* Compares a block of rows with all particles. */
static void compare_rows(size_t N, size_t D, const double *z, size_t n, const double *rows, uint32_t *cell,
                         double *near, double *next, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *columns = wv_arena_take(arena, D * WV_COLUMNS); /* [D][WV_COLUMNS] */
    wv_columns_turn(D, n, rows, columns);
    compare_block(N, D, z, n, columns, cell, near, next);
    wv_arena_release(arena, mark);
}

/* Sieves a block of rows in single precision. */
static bool sift_rows(sieve *s, size_t n, const double *rows, uint32_t *cell, double *near, double *next,
                      wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *columns = wv_arena_take(arena, s->D * WV_COLUMNS); /* [D][WV_COLUMNS] */
    wv_columns_turn(s->D, n, rows, columns);
    bool found = sift(s, n, rows, columns, cell, near, next);
    wv_arena_release(arena, mark);
    return found;
}

/* Nearest and second nearest of the particles z[N][D], by squared distance, of a block of points.
 * s: NULL for few particles. */
static void find(size_t N, size_t D, sieve *s, const double *z, size_t n, const double *rows, uint32_t *cell,
                 double *near, double *next, wv_arena *arena)
{
    if (!(s && sift_rows(s, n, rows, cell, near, next, arena)))
        compare_rows(N, D, z, n, rows, cell, near, next, arena);
}

/* Particles enough to sift them. */
static bool many(size_t N)
{
    return (double)N >= wv_policy.nearest_many;
}

/* Few particles where one metric holds for all cells, a full one: points and particles are whitened, relative to the
 * first particle. */
static void assign_few(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D, block = D * WV_COLUMNS;
    double *inverse = wv_arena_take(arena, D * D), *z = wv_arena_take(arena, g->N * D), /* [D][D], [N][D] */
                                                       *columns = wv_arena_take(arena, block),
           *spare = wv_arena_take(arena, block), *y = wv_arena_take(arena, block),
           r[WV_COLUMNS]; /* [D][WV_COLUMNS] each */
    wv_gaussian metric = {g->cost.metric_family, D, 0, g->z, g->metric, 0};
    wv_gaussian_whiten(&metric, g->N, g->z, z, arena);
    wv_dense_invert(D, g->metric, inverse);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_columns_turn(D, here, x + first * D, columns);
        wv_columns_whiten(D, wv_columns_round(here), inverse, g->z, columns, spare, y, r);
        compare_block(g->N, D, z, here, y, cell + first, near + first, next + first);
    }
    wv_arena_release(arena, mark);
}

/* The same for any number of particles and any metric, or for the squared distance. */
static void assign_flat(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                        wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    bool whitened = g->cost.kind != WVGD_SQEUCLID, sifting = many(g->N) && n >= WV_COLUMNS;
    wv_gaussian metric = {g->cost.metric_family, D, 0, g->z, g->metric, 0};
    const double *z = g->z;
    double *rows = wv_arena_take(arena, WV_COLUMNS * D); /* [WV_COLUMNS][D] */
    if (whitened) {
        double *units = wv_arena_take(arena, g->N * D); /* [N][D] */
        wv_gaussian_whiten(&metric, g->N, g->z, units, arena);
        z = units;
    }
    sieve s = {0};
    if (sifting)
        s = make_sieve(g->N, D, z, arena);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_limit_look(arena);
        if (whitened)
            wv_gaussian_whiten(&metric, here, x + first * D, rows, arena);
        find(g->N, D, sifting ? &s : NULL, z, here, whitened ? rows : x + first * D, cell + first, near + first,
             next + first, arena);
    }
    wv_arena_release(arena, mark);
}

/* The same for any cost. */
static void assign_any(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    double *cost = wv_arena_take(arena, WV_BLOCK), *y = wv_arena_take(arena, WV_BLOCK * D); /* of a block */
    for (size_t k = 0; k < n; k++) {
        cell[k] = 0;
        near[k] = next[k] = INFINITY;
    }
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t j = 0; j < g->N; j++) {
            wv_limit_look(arena);
            wv_cost_cost(g, j, g->z + j * D, here, x + first * D, cost, y, arena);
            for (size_t k = 0; k < here; k++)
                compare(first + k, (uint32_t)j, cost[k], cell, near, next);
        }
    }
    wv_arena_release(arena, mark);
}

void wv_nearest_assign_columns(const wv_geometry *g, size_t n, const double *columns, uint32_t *cell, double *near,
                               double *next, wv_arena *arena)
{
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        wv_limit_look(arena);
        compare_block(g->N, g->D, g->z, n - first < WV_COLUMNS ? n - first : WV_COLUMNS, columns + first * g->D,
                      cell + first, near + first, next + first);
    }
}

void wv_nearest_assign(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, double *next,
                       wv_arena *arena)
{
    bool squared = g->cost.kind == WVGD_SQEUCLID,
         whitened = g->cost.kind == WVGD_MAHALANOBIS && (double)g->D <= wv_policy.nearest_whitened,
         few = !many(g->N) && n >= WV_COLUMNS && g->D <= WV_DENSE && g->cost.metric_family == wv_family_get(WVGD_FULL);
    if (n)
        (squared     ? assign_flat
         : !whitened ? assign_any
         : few       ? assign_few
                     : assign_flat)(g, n, x, cell, near, next, arena);
}

/* ---- roughly ----------------------------------------------------------------------------------------------------- */
/* Numbers of n points by the group that each is in. */
typedef struct {
    size_t *start;   /* [groups + 1] */
    uint32_t *order; /* [n] */
} by_group;

static by_group sort_groups(size_t groups, size_t n, const uint32_t *group, wv_arena *arena)
{
    by_group b = {wv_arena_take_sizes(arena, groups + 2), wv_arena_take_index(arena, n)};
    memset(b.start, 0, (groups + 2) * sizeof *b.start);
    for (size_t k = 0; k < n; k++)
        b.start[group[k] + 2]++;
    for (size_t c = 0; c <= groups; c++)
        b.start[c + 1] += b.start[c];
    for (size_t k = 0; k < n; k++)
        b.order[b.start[group[k] + 1]++] = (uint32_t)k;
    return b;
}

static double *gather_rows(size_t D, size_t n, const uint32_t *order, const double *x, wv_arena *arena)
{
    double *rows = wv_arena_take(arena, n * D);
    for (size_t k = 0; k < n; k++)
        memcpy(rows + k * D, x + order[k] * D, D * sizeof *rows);
    return rows;
}

/* Points and particles of one group. */
static void assign_group(wv_geometry g, size_t N, const uint32_t *particle, size_t n, const uint32_t *point,
                         const double *x, uint32_t *cell, double *near, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    const double *z = gather_rows(g.D, N, particle, g.z, arena), *rows = gather_rows(g.D, n, point, x, arena);
    uint32_t *here = wv_arena_take_index(arena, n);
    double *cost = wv_arena_take(arena, n), *next = wv_arena_take(arena, n);
    g.N = N;
    g.z = z;
    wv_nearest_assign(&g, n, rows, here, cost, next, arena);
    for (size_t k = 0; k < n; k++) {
        cell[point[k]] = particle[here[k]];
        near[point[k]] = cost[k];
    }
    wv_arena_release(arena, mark);
}

/* The first few particles are the heads of groups: every other one is in that of the nearest head. */
void wv_nearest_assign_roughly(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near,
                               wv_arena *arena)
{
    size_t groups = (size_t)ceil(sqrt((double)g->N)), all = n > g->N ? n : g->N, mark = wv_arena_mark(arena);
    wv_geometry heads = *g;
    if (!wv_cost_flat(&g->cost))
        heads.cost.kind = WVGD_MAHALANOBIS;
    heads.N = groups;
    uint32_t *group = wv_arena_take_index(arena, all);
    double *cost = wv_arena_take(arena, all), *next = wv_arena_take(arena, all);
    wv_nearest_assign(&heads, g->N, g->z, group, cost, next, arena);
    by_group particles = sort_groups(groups, g->N, group, arena);
    wv_nearest_assign(&heads, n, x, group, cost, next, arena);
    by_group points = sort_groups(groups, n, group, arena);
    for (size_t c = 0; c < groups; c++)
        assign_group(heads, particles.start[c + 1] - particles.start[c], particles.order + particles.start[c],
                     points.start[c + 1] - points.start[c], points.order + points.start[c], x, cell, near, arena);
    for (size_t k = 0; k < n && !wv_cost_flat(&g->cost); k++)
        near[k] = NAN;
    wv_arena_release(arena, mark);
}
