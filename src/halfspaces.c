/* halfspaces.c - points that cost no evaluation. Under a squared cost with metric M the particle nearest
 * to x is that of the largest score
 *     s_k(x) = (x - z_0)' M (z_k - z_0) - |z_k - z_0|^2_M / 2,
 * linear in x. */
#include "halfspaces.h"
#include "interval.h"
#include "gaussian.h"
#include "rng.h"
#include "nearest.h"
#include "simd/columns.h"
#include "dense.h"
#include "error.h"
#include "limit.h"
#include "memory.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW CblasRowMajor

bool wv_halfspaces_new(wv_halfspaces *h, size_t N, size_t D, bool used)
{
    *h = (wv_halfspaces){0};
    const wv_slot slots[] = {
        {&h->facet, used ? wv_times(N, D) : 0},
        {&h->offset, used ? N : 0},
        {&h->lattice, used ? WV_LATTICE * WV_LATTICE_POINTS : 0},
    };
    h->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return h->memory != NULL;
}

void wv_halfspaces_free(wv_halfspaces *h)
{
    free(h->memory);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
static bool flat(const wv_halfspaces *h)
{
    return wv_cost_flat(&h->g.cost);
}

void wv_halfspaces_update(wv_halfspaces *h, const wv_geometry *g, wv_arena *arena)
{
    size_t D = g->D, N = g->N;
    double *G = h->facet;
    h->g = *g;
    if (!flat(h))
        return;
    for (size_t k = 0; k < N * D; k++)
        G[k] = g->z[k] - g->z[k % D];
    if (g->cost.kind == WVGD_MAHALANOBIS)
        g->cost.metric_family->whiten(D, 0, g->metric, N, G, arena);
    for (size_t k = 0; k < N; k++)
        h->offset[k] = cblas_ddot((int)D, G + k * D, 1, G + k * D, 1) / 2;
    if (g->cost.kind == WVGD_MAHALANOBIS)
        g->cost.metric_family->push(D, 0, g->metric, N, G, arena);
}

/* Under a squared cost. */
static void assign_flat(const wv_halfspaces *h, size_t n, const double *x, uint32_t *cell, wv_arena *arena)
{
    size_t D = h->g.D, mark = wv_arena_mark(arena);
    double *columns = wv_arena_take(arena, D * WV_COLUMNS), which[WV_COLUMNS]; /* [D][WV_COLUMNS] */
    const wv_columns *pass = wv_columns_best();
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS, whole = wv_columns_round(here);
        wv_limit_look(arena);
        wv_columns_turn(D, here, x + first * D, columns);
        pass->subtract(D, whole, columns, h->g.z, columns);
        pass->highest(D, whole, h->g.N, columns, h->facet, h->offset, which);
        for (size_t i = 0; i < here; i++)
            cell[first + i] = (uint32_t)which[i];
    }
    wv_arena_release(arena, mark);
}

void wv_halfspaces_assign(const wv_halfspaces *h, size_t n, const double *x, uint32_t *cell, wv_arena *arena)
{
    if (flat(h)) {
        assign_flat(h, n, x, cell, arena);
        return;
    }
    size_t mark = wv_arena_mark(arena);
    double *near = wv_arena_take(arena, n), *next = wv_arena_take(arena, n);
    wv_nearest_assign(&h->g, n, x, cell, near, next, arena);
    wv_arena_release(arena, mark);
}

size_t wv_halfspaces_dims(const wv_geometry *g)
{
    return wv_cost_flat(&g->cost) && g->N - 1 < g->D ? g->N - 1 : g->D;
}

/* W[1 + dims][dims] from A[1 + dims][D]: a row of zeros, then the Cholesky factor of the products of the others. */
static void factor_products(size_t D, size_t dims, const double *A, double *W, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *C = wv_arena_take(arena, dims * dims), *spare = wv_arena_take(arena, dims * dims), trace = 0;
    cblas_dsyrk(ROW, CblasLower, CblasNoTrans, (int)dims, (int)D, 1.0, A + D, (int)D, 0.0, C, (int)dims);
    for (size_t j = 0; j < dims; j++)
        trace += C[j * dims + j];
    for (size_t j = 0; j < dims; j++) /* particles may lie on a line, or on each other */
        C[j * dims + j] += 1e-14 * trace + 1e-300;
    wv_dense_chol(dims, C, spare);
    memset(W, 0, dims * sizeof *W);
    memcpy(W + dims, C, dims * dims * sizeof *W);
    wv_arena_release(arena, mark);
}

void wv_halfspaces_scores(const wv_halfspaces *h, const wv_gaussian *q, size_t dims, double *A, double *W, double *low,
                          wv_arena *arena)
{
    size_t D = h->g.D, N = h->g.N, mark = wv_arena_mark(arena);
    const double *G = h->facet;
    double *away = wv_arena_take(arena, D);
    for (size_t i = 0; i < D; i++)
        away[i] = q->mu[i] - h->g.z[i];
    for (size_t j = 0; j < N; j++)
        low[j] = h->offset[j] - cblas_ddot((int)D, G + j * D, 1, away, 1);
    memcpy(A, G, N * D * sizeof *A);
    q->family->pull(D, q->R, q->root, N, A, arena);
    if (dims == D)
        memcpy(W, A, N * D * sizeof *W);
    else
        factor_products(D, dims, A, W, arena);
    wv_arena_release(arena, mark);
}

/* ---- the mass of a component in its cell ------------------------------------------------------------------------- */
double wv_halfspaces_log_mass(const wv_halfspaces *h, size_t j, const wv_gaussian *q, wv_arena *arena)
{
    size_t D = h->g.D, mark = wv_arena_mark(arena);
    double *A = wv_arena_take(arena, 2 * D), *W = wv_arena_take(arena, 2 * D), low[2], zero = 0, one = 1;
    wv_halfspaces_scores(h, q, D, A, W, low, arena);
    double length = cblas_dnrm2((int)D, A + D, 1), wall = length > 0 ? low[1] / length : INFINITY;
    wv_arena_release(arena, mark);
    wv_interval side = {-INFINITY, j ? -wall : wall};
    wv_gaussian normal = {wv_family_get(WVGD_DIAG), 1, 0, &zero, &one, 0};
    return wv_interval_log_mass(&(wv_intervals){1, &side}, &normal);
}

/* ---- draws inside a cell ----------------------------------------------------------------------------------------- */
/* Coordinates of a Gaussian that tell the cell of its draws, fewer than all: the cell is that of the largest W a - low,
 * and e = g + Q' (a - Q g) are standard normal in all dimensions if g is. */
typedef struct {
    size_t dims;
    double *W, *low, *Q; /* [N][dims], [N], [dims][D] orthonormal rows */
} telling;

/* False: there are none, or rounding does not tell them (particles on a line). */
static bool find_telling(const wv_halfspaces *h, const wv_gaussian *q, telling *t, wv_arena *arena)
{
    size_t N = h->g.N, D = h->g.D, dims = N - 1;
    if (N > D || !flat(h))
        return false;
    double *A = wv_arena_take(arena, N * D);
    *t = (telling){dims, wv_arena_take(arena, N * dims), wv_arena_take(arena, N), A + D};
    wv_halfspaces_scores(h, q, dims, A, t->W, t->low, arena);
    for (size_t k = 0; k < dims; k++)
        if (!(t->W[(k + 1) * dims + k] > 1e-4 * cblas_dnrm2((int)D, t->Q + k * D, 1)))
            return false;
    cblas_dtrsm(ROW, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)dims, (int)D, 1.0, t->W + dims, (int)dims,
                t->Q, (int)D);
    return true;
}

/* Draws whose telling coordinates lie in the cell, number first .. first + n: these into a[kept][dims], and g into
 * in->x. */
static void draw_telling(const wv_halfspaces *h, const wv_in_cell *c, const telling *t, uint64_t first, size_t n,
                         double *a, wv_inside *in, wv_arena *arena)
{
    size_t N = h->g.N, D = h->g.D, dims = t->dims, mark = wv_arena_mark(arena);
    double *block = wv_arena_take(arena, dims * WV_COLUMNS), which[WV_COLUMNS]; /* [dims][WV_COLUMNS] */
    wv_stream told = c->stream, rest = c->stream; /* not those of other draws in a cell, which are numbered by it */
    told.component = N + 2 * c->j;
    rest.component = N + 2 * c->j + 1;
    for (size_t at = 0; at < n; at += WV_COLUMNS) {
        wv_rng_normal(&told, first + at, dims * WV_COLUMNS, block);
        wv_columns_best()->highest(dims, WV_COLUMNS, N, block, t->W, t->low, which);
        for (size_t i = 0; i < WV_COLUMNS && at + i < n; i++) {
            if (which[i] != (double)c->j)
                continue;
            wv_rng_normal(&rest, first + at + i, D, in->x + in->n * D);
            for (size_t k = 0; k < dims; k++)
                a[in->n * dims + k] = block[k * WV_COLUMNS + i];
            in->u[in->n++] = 1;
        }
    }
    wv_arena_release(arena, mark);
}

/* Only the coordinates that tell the cell are made of all n draws, and the others of those inside. False: this is no
 * way. */
static bool draw_in_parts(const wv_halfspaces *h, const wv_in_cell *c, uint64_t first, size_t n, wv_inside *in,
                          wv_arena *arena)
{
    size_t D = h->g.D, mark = wv_arena_mark(arena);
    telling t;
    bool told = find_telling(h, &c->q, &t, arena);
    if (told) {
        int dims = (int)t.dims, d = (int)D;
        double *a = wv_arena_take(arena, n * t.dims);
        in->all = (double)n;
        draw_telling(h, c, &t, first, n, a, in, arena);
        int kept = (int)in->n;
        cblas_dgemm(ROW, CblasNoTrans, CblasTrans, kept, dims, d, -1.0, in->x, d, t.Q, d, 1.0, a, dims);
        cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, kept, d, dims, 1.0, a, dims, t.Q, d, 1.0, in->x, d);
        c->q.family->colour(D, c->q.R, c->q.root, in->n, in->x, arena);
        for (size_t i = 0; i < in->n; i++)
            cblas_daxpy(d, 1.0, c->q.mu, 1, in->x + i * D, 1);
    }
    wv_arena_release(arena, mark);
    return told;
}

/* x[n][D]: the first `half` draws from q_j, the others from around the particle; u[n]: their weights for q_j. Returns
 * the sum of these. */
static double draw_both(const wv_in_cell *c, uint64_t first, size_t half, size_t n, bool mirrored, double *x, double *u,
                        wv_arena *arena)
{
    size_t D = c->q.D, mark = wv_arena_mark(arena);
    double *log_r = wv_arena_take(arena, n), *y = wv_arena_take(arena, n * D), all = 0;
    wv_gaussian_draw(&c->around, &c->stream, first + half, n - half, mirrored, x + half * D, arena);
    wv_gaussian_log_density(&c->q, n, x, u, y, arena);
    wv_gaussian_log_density(&c->around, n, x, log_r, y, arena);
    for (size_t i = 0; i < n; i++)
        all += u[i] = 2 / (1 + exp(log_r[i] - u[i]));
    wv_arena_release(arena, mark);
    return all;
}

/* Elsewhere standard errors are taken as if draws were independent. */
static bool mirrored(const wv_halfspaces *h, const wv_in_cell *c)
{
    return c->stream.use == WV_RNG_FIT || h->g.N == 1;
}

/* Draws are made in the whole space, and those outside of the cell left out. */
static void draw_and_reject(const wv_halfspaces *h, const wv_in_cell *c, uint64_t first, size_t n, wv_inside *in,
                            wv_arena *arena)
{
    bool both = c->around.family != NULL;
    size_t N = h->g.N, D = h->g.D, half = both ? n / 2 : n, mark = wv_arena_mark(arena);
    double *x = wv_arena_take(arena, n * D), *u = wv_arena_take(arena, n); /* [n][D], [n] */
    uint32_t *cell = wv_arena_take_index(arena, n);
    wv_gaussian_draw(&c->q, &c->stream, first, half, mirrored(h, c), x, arena);
    for (size_t i = 0; i < n; i++)
        u[i] = 1;
    in->all = both ? draw_both(c, first, half, n, mirrored(h, c), x, u, arena) : (double)n;
    if (N > 1)
        wv_halfspaces_assign(h, n, x, cell, arena);
    for (size_t i = 0; i < n; i++) {
        /* from both halves in turn, so that the first few stand for all */
        size_t k = both ? i / 2 + (i % 2) * half : i;
        if (N > 1 && cell[k] != c->j)
            continue;
        memcpy(in->x + in->n * D, x + k * D, D * sizeof *x);
        in->u[in->n++] = u[k];
    }
    wv_arena_release(arena, mark);
}

wv_inside wv_halfspaces_draw_inside(const wv_halfspaces *h, const wv_in_cell *c, uint64_t first, size_t n,
                                    wv_arena *arena)
{
    size_t D = h->g.D;
    wv_inside in = {.x = wv_arena_take(arena, n * D), .u = wv_arena_take(arena, n)};
    if (h->g.N > 1 && wv_interval_cells(&h->g)) { /* all of them lie there */
        wv_intervals cell = wv_interval_cell(&h->g, c->j, arena);
        in.all = (double)n * exp(-wv_interval_draw(&cell, &c->q, &c->stream, first, n, in.x));
        in.n = n;
        for (size_t i = 0; i < n; i++)
            in.u[i] = 1;
        return in;
    }
    if (mirrored(h, c) || c->around.family || D <= WV_LATTICE || !draw_in_parts(h, c, first, n, &in, arena))
        draw_and_reject(h, c, first, n, &in, arena);
    return in;
}

/* ---- a lattice --------------------------------------------------------------------------------------------------- */
void wv_halfspaces_lattice(wv_halfspaces *h, uint64_t seed, size_t dims)
{
    wv_stream stream = {seed, WV_RNG_SETTLE, 0, 0};
    if (h->lattice_dims != dims)
        wv_rng_lattice_columns(&stream, WV_LATTICE_POINTS, dims, h->lattice);
    h->lattice_dims = dims;
}

double wv_halfspaces_lattice_error(size_t dims, double n, double mass)
{
    double d = (double)(dims + dims % 2);
    return 0.5 * pow(n, -(d + 1) / (2 * d)) * sqrt(fmax(4 * mass * (1 - mass), 0.6));
}
