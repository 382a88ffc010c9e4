/* nearest.c - which particle is nearest: cells L_j = { z : c(z_j, z) < c(z_k, z) for all k } under a cost (cost.c;
 * method, section 1). */
#include "nearest.h"
#include "gaussian.h"
#include "policy.h"
#include "cost.h"
#include "simd/columns.h"
#include "dense.h"
#include "limit.h"
#include "workers.h"
#include <math.h>
#include <string.h>

/* Compares a block of points, which stand in columns, with the particles z[N][D] by squared distance. */
static void compare_block(size_t N, size_t D, const double *z, size_t n, const double *columns, uint32_t *cell,
                          double *near)
{
    double which[WV_COLUMNS], least[WV_COLUMNS];
    wv_columns_best()->nearest(D, wv_columns_round(n), N, columns, z, least, which);
    for (size_t k = 0; k < n; k++) {
        cell[k] = (uint32_t)which[k];
        near[k] = least[k];
    }
}

/* Under the squared distance, or where one metric holds for all cells: points and particles are then whitened. */
static void assign_squared(const wv_geometry *g, const wv_gaussian *metric, size_t n, const double *x, uint32_t *cell,
                           double *near, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    double *columns = wv_arena_take(arena, D * WV_COLUMNS), *rows = wv_arena_take(arena, D * WV_COLUMNS),
           *white = wv_arena_take(arena, metric ? g->N * D : 0); /* [D][WV_COLUMNS], [WV_COLUMNS][D], [N][D] */
    if (metric)
        wv_gaussian_whiten(metric, g->N, g->z, white, arena);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_limit_look(arena);
        if (metric)
            wv_gaussian_whiten(metric, here, x + first * D, rows, arena);
        wv_columns_turn(D, here, metric ? rows : x + first * D, columns);
        compare_block(g->N, D, metric ? white : g->z, here, columns, cell + first, near + first);
    }
    wv_arena_release(arena, mark);
}

/* The same for many points and a full metric, whose root is inverted for them. */
static void assign_by_inverse(const wv_geometry *g, const wv_gaussian *metric, size_t n, const double *x,
                              uint32_t *cell, double *near, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D, block = D * WV_COLUMNS;
    double *inverse = wv_arena_take(arena, D * D), *z = wv_arena_take(arena, g->N * D), /* [D][D], [N][D] */
                                                       *columns = wv_arena_take(arena, block),
           *spare = wv_arena_take(arena, block), *y = wv_arena_take(arena, block),
           r[WV_COLUMNS]; /* [D][WV_COLUMNS] each */
    wv_gaussian_whiten(metric, g->N, g->z, z, arena);
    wv_dense_invert(D, g->metric, inverse);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        wv_limit_look(arena);
        wv_columns_turn(D, here, x + first * D, columns);
        wv_columns_whiten(D, wv_columns_round(here), inverse, g->z, columns, spare, y, r);
        compare_block(g->N, D, z, here, y, cell + first, near + first);
    }
    wv_arena_release(arena, mark);
}

/* Under any cost. */
static void assign_any(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena), D = g->D;
    double *cost = wv_arena_take(arena, WV_BLOCK), *y = wv_arena_take(arena, WV_BLOCK * D); /* of a block */
    for (size_t k = 0; k < n; k++) {
        cell[k] = 0;
        near[k] = INFINITY;
    }
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t j = 0; j < g->N; j++) {
            wv_limit_look(arena);
            wv_cost_cost(g, j, g->z + j * D, here, x + first * D, cost, y, arena);
            for (size_t k = 0; k < here; k++) {
                bool nearer = cost[k] < near[first + k]; /* no branches: they would often be guessed wrong */
                near[first + k] = nearer ? cost[k] : near[first + k];
                cell[first + k] = nearer ? (uint32_t)j : cell[first + k];
            }
        }
    }
    wv_arena_release(arena, mark);
}

void wv_nearest_assign(const wv_geometry *g, size_t n, const double *x, uint32_t *cell, double *near, wv_arena *arena)
{
    wv_gaussian metric = {g->cost.metric_family, g->D, 0, g->z, g->metric, 0}; /* relative to the first particle */
    bool dense = n >= WV_COLUMNS && g->D <= WV_DENSE && g->cost.metric_family == wv_family_get(WVGD_FULL);
    if (g->cost.kind == WVGD_SQEUCLID)
        assign_squared(g, NULL, n, x, cell, near, arena);
    else if (g->cost.kind == WVGD_MAHALANOBIS && (double)g->D <= wv_policy.nearest_whitened)
        (dense ? assign_by_inverse : assign_squared)(g, &metric, n, x, cell, near, arena);
    else
        assign_any(g, n, x, cell, near, arena);
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
    double *cost = wv_arena_take(arena, n);
    g.N = N;
    g.z = z;
    wv_nearest_assign(&g, n, rows, here, cost, arena);
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
    double *cost = wv_arena_take(arena, all);
    wv_nearest_assign(&heads, g->N, g->z, group, cost, arena);
    by_group particles = sort_groups(groups, g->N, group, arena);
    wv_nearest_assign(&heads, n, x, group, cost, arena);
    by_group points = sort_groups(groups, n, group, arena);
    for (size_t c = 0; c < groups; c++)
        assign_group(heads, particles.start[c + 1] - particles.start[c], particles.order + particles.start[c],
                     points.start[c + 1] - points.start[c], points.order + points.start[c], x, cell, near, arena);
    for (size_t k = 0; k < n && !wv_cost_flat(&g->cost); k++)
        near[k] = NAN;
    wv_arena_release(arena, mark);
}
