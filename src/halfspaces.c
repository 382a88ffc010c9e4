/* halfspaces.c - points that cost no evaluation. Under a squared cost with metric M the particle nearest
 * to x is that of the largest score
 *     s_k(x) = (x - z_0)' M (z_k - z_0) - |z_k - z_0|^2_M / 2,
 * linear in x. */
#include "halfspaces.h"
#include "fit.h"
#include "gaussian.h"
#include "rng.h"
#include "nearest.h"
#include "simd/columns.h"
#include "dense.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#define ROW CblasRowMajor

bool wv_halfspaces_flat(const wvgd_fit *f)
{
    return f->opt.cost == WVGD_SQEUCLID || f->opt.cost == WVGD_MAHALANOBIS;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
/* f->shared.facet: M (z_k - z_0) [N][D], then the offsets [N]. */
void wv_halfspaces_update(wvgd_fit *f)
{
    size_t D = f->D, N = f->N;
    double *G = f->shared.facet, *offset = G + N * D;
    if (!wv_halfspaces_flat(f))
        return;
    for (size_t k = 0; k < N * D; k++)
        G[k] = f->cells.now.z[k] - f->cells.now.z[k % D];
    if (f->opt.cost == WVGD_MAHALANOBIS)
        f->metric_family->whiten(D, 0, f->cells.now.metric, N, G, f->arena);
    for (size_t k = 0; k < N; k++)
        offset[k] = cblas_ddot((int)D, G + k * D, 1, G + k * D, 1) / 2;
    if (f->opt.cost == WVGD_MAHALANOBIS)
        f->metric_family->push(D, 0, f->cells.now.metric, N, G, f->arena);
}

void wv_halfspaces_assign(wvgd_fit *f, size_t n, const double *x, uint32_t *cell)
{
    size_t D = f->D, N = f->N;
    double *columns = f->desk.block, which[WV_COLUMNS];
    const double *G = f->shared.facet, *offset = G + N * D;
    const wv_columns *pass = wv_columns_best();
    if (!wv_halfspaces_flat(f)) {
        wv_nearest_assign(f, n, x, cell, f->desk.free_cost, f->desk.free_cost + WV_FREE);
        return;
    }
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS, whole = wv_columns_round(here);
        wv_columns_turn(D, here, x + first * D, columns);
        pass->subtract(D, whole, columns, f->cells.now.z, columns);
        pass->highest(D, whole, N, columns, G, offset, which);
        for (size_t i = 0; i < here; i++)
            cell[first + i] = (uint32_t)which[i];
    }
}

size_t wv_halfspaces_dims(const wvgd_fit *f)
{
    return wv_halfspaces_flat(f) && f->N - 1 < f->D ? f->N - 1 : f->D;
}

void wv_halfspaces_scores(wvgd_fit *f, const wv_gaussian *q, size_t dims, double *A, double *W, double *low)
{
    size_t D = f->D, N = f->N;
    const double *G = f->shared.facet, *offset = G + N * D;
    double *C = f->desk.square[0], trace = 0;
    for (size_t i = 0; i < D; i++)
        f->desk.vector[0][i] = q->mu[i] - f->cells.now.z[i];
    for (size_t j = 0; j < N; j++)
        low[j] = offset[j] - cblas_ddot((int)D, G + j * D, 1, f->desk.vector[0], 1);
    memcpy(A, G, N * D * sizeof *A);
    q->family->pull(D, q->R, q->root, N, A, f->arena);
    if (dims == D) {
        memcpy(W, A, N * D * sizeof *W);
        return;
    }
    cblas_dsyrk(ROW, CblasLower, CblasNoTrans, (int)dims, (int)D, 1.0, A + D, (int)D, 0.0, C, (int)dims);
    for (size_t j = 0; j < dims; j++)
        trace += C[j * dims + j];
    for (size_t j = 0; j < dims; j++) /* particles may lie on a line, or on each other */
        C[j * dims + j] += 1e-14 * trace + 1e-300;
    wv_dense_chol(dims, C, f->desk.square[1]);
    memset(W, 0, dims * sizeof *W);
    memcpy(W + dims, C, dims * dims * sizeof *W);
}

/* ---- the mass of a component in its cell ------------------------------------------------------------------------- */
/* In coordinates e in which q_j is standard normal its cell is { e : B e < h }: B [N - 1][D], rows of length
 * 1, and h into f->desk.wall. Where walls are fewer than dimensions only the space that they span matters, and B
 * becomes the Cholesky factor of B B'; basis [N - 1][D], if it is not NULL, has orthonormal rows that span
 * it. Returns the number of columns of B. */
size_t wv_halfspaces_walls(wvgd_fit *f, size_t j, double *basis)
{
    size_t D = f->D, walls = 0, N = f->N;
    const double *G = f->shared.facet, *offset = G + N * D;
    double *B = f->desk.wall, *h = B + N * D, *C = f->desk.square[0], *away = f->desk.vector[0];
    wv_gaussian q = wv_partition_component(&f->cells, j);
    for (size_t i = 0; i < D; i++)
        away[i] = q.mu[i] - f->cells.now.z[i];
    for (size_t k = 0; k < N; k++) {
        if (k == j)
            continue;
        double *b = B + walls * D;
        for (size_t i = 0; i < D; i++)
            b[i] = G[k * D + i] - G[j * D + i];
        h[walls++] = offset[k] - offset[j] - cblas_ddot((int)D, b, 1, away, 1);
    }
    q.family->pull(D, q.R, q.root, walls, B, f->arena);
    for (size_t k = 0; k < walls; k++) {
        double length = cblas_dnrm2((int)D, B + k * D, 1);
        cblas_dscal((int)D, length > 0 ? 1 / length : 0, B + k * D, 1);
        h[k] = length > 0 ? h[k] / length : INFINITY;
    }
    if (walls >= D)
        return D;
    cblas_dsyrk(ROW, CblasLower, CblasNoTrans, (int)walls, (int)D, 1.0, B, (int)D, 0.0, C, (int)walls);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)walls, C, (lapack_int)walls) != 0)
        return D;
    for (size_t k = 0; basis && k < walls; k++)
        if (!(C[k * walls + k] > 1e-4))
            return D; /* walls so nearly parallel that rounding would tell their basis */
    if (basis) {
        memcpy(basis, B, walls * D * sizeof *B);
        cblas_dtrsm(ROW, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)walls, (int)D, 1.0, C, (int)walls,
                    basis, (int)D);
    }
    memset(B, 0, walls * walls * sizeof *B);
    for (size_t k = 0; k < walls; k++)
        memcpy(B + k * walls, C + k * walls, (k + 1) * sizeof *B);
    return walls;
}

double wv_halfspaces_count(wvgd_fit *f, size_t j, size_t dims, uint64_t first, size_t pairs, double *squares)
{
    size_t inside = 0, both = 0;
    double *columns = f->desk.block, in[WV_COLUMNS]; /* [dims][WV_COLUMNS] */
    const double *B = f->desk.wall, *h = B + f->N * f->D;
    wv_stream stream = {f->opt.seed, WV_RNG_FREE, f->count.batch, j};
    for (size_t at = 0; at < pairs; at += WV_COLUMNS) {
        size_t here = pairs - at < WV_COLUMNS ? pairs - at : WV_COLUMNS;
        wv_rng_normal(&stream, first + at, dims * WV_COLUMNS, columns);
        wv_columns_best()->within(dims, WV_COLUMNS, f->N - 1, columns, B, h, in);
        for (size_t i = 0; i < here; i++) {
            inside += in[i] == 3 ? 2 : in[i] > 0;
            both += in[i] == 3;
        }
    }
    *squares += (double)(inside + 2 * both) / 4;
    return (double)inside / 2;
}

/* ---- draws inside a cell ----------------------------------------------------------------------------------------- */
/* Where walls are fewer than dimensions: of n draws e of the standard normal only the coordinates a in the space
 * that the walls span are made, and the others, e = g + Q' (a - Q g) with a normal g, for those inside. Returns how
 * many these are, or n + 1 if this is no way. */
static size_t inside_walls(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t first, size_t n)
{
    size_t D = f->D, kept = 0;
    /* [dims][D], [dims][WV_COLUMNS], [kept][dims] */
    double *Q = f->desk.square[2], *a = f->desk.block, *seen = f->desk.gy, in[WV_COLUMNS];
    wv_gaussian q = wv_partition_component(&f->cells, j);
    size_t dims = f->N <= D && wv_halfspaces_flat(f) ? wv_halfspaces_walls(f, j, Q) : D;
    /* not those of other draws in a cell, which are numbered by it */
    wv_stream walls = {f->opt.seed, use, f->count.batch, f->N + 2 * j},
              rest = {f->opt.seed, use, f->count.batch, f->N + 2 * j + 1};
    if (dims >= D)
        return n + 1;
    for (size_t at = 0; at < n; at += WV_COLUMNS) {
        wv_rng_normal(&walls, first + at, dims * WV_COLUMNS, a);
        wv_columns_best()->within(dims, WV_COLUMNS, f->N - 1, a, f->desk.wall, f->desk.wall + f->N * D, in);
        for (size_t i = 0; i < WV_COLUMNS && at + i < n; i++) {
            if (!((int)in[i] & 1))
                continue;
            wv_rng_normal(&rest, first + at + i, D, f->desk.gx + kept * D);
            for (size_t k = 0; k < dims; k++)
                seen[kept * dims + k] = a[k * WV_COLUMNS + i];
            f->desk.gu[kept++] = 1;
        }
    }
    if (!kept)
        return 0;
    cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)kept, (int)dims, (int)D, -1.0, f->desk.gx, (int)D, Q, (int)D, 1.0,
                seen, (int)dims);
    cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)kept, (int)D, (int)dims, 1.0, seen, (int)dims, Q, (int)D, 1.0,
                f->desk.gx, (int)D);
    q.family->colour(D, q.R, q.root, kept, f->desk.gx, f->arena);
    for (size_t i = 0; i < kept; i++)
        for (size_t k = 0; k < D; k++)
            f->desk.gx[i * D + k] += q.mu[k];
    return kept;
}

size_t wv_halfspaces_inside(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t first, size_t n, bool around, double *all)
{
    size_t D = f->D, half = around ? n / 2 : n, kept = 0;
    double *u = f->desk.glu, *log_r = f->desk.free_cost;
    wv_gaussian q = wv_partition_component(&f->cells, j), r = wv_partition_around(&f->cells, j);
    wv_stream stream = {f->opt.seed, use, f->count.batch, j};
    /* elsewhere standard errors are taken as if draws were independent */
    bool mirrored = use == WV_RNG_FIT || f->N == 1;
    if (!mirrored && !around && f->D > WV_LATTICE && (kept = inside_walls(f, j, use, first, n)) <= n) {
        *all = (double)n;
        return kept;
    }
    kept = 0;
    wv_gaussian_draw(&q, &stream, first, half, mirrored, f->desk.gy, f->arena);
    for (size_t i = 0; i < n; i++)
        u[i] = 1;
    *all = (double)n;
    if (around) {
        wv_gaussian_draw(&r, &stream, first + half, n - half, mirrored, f->desk.gy + half * D, f->arena);
        wv_gaussian_log_density(&q, n, f->desk.gy, u, f->desk.y, f->arena);
        wv_gaussian_log_density(&r, n, f->desk.gy, log_r, f->desk.y, f->arena);
        *all = 0;
        for (size_t i = 0; i < n; i++)
            *all += u[i] = 2 / (1 + exp(log_r[i] - u[i]));
    }
    if (f->N > 1)
        wv_halfspaces_assign(f, n, f->desk.gy, f->desk.free_cell);
    for (size_t i = 0; i < n; i++) {
        /* from both halves in turn, so that the first few stand for all */
        size_t k = around ? i / 2 + (i % 2) * half : i;
        if (f->N > 1 && f->desk.free_cell[k] != j)
            continue;
        memcpy(f->desk.gx + kept * D, f->desk.gy + k * D, D * sizeof(double));
        f->desk.gu[kept++] = u[k];
    }
    return kept;
}

/* ---- a lattice --------------------------------------------------------------------------------------------------- */
void wv_halfspaces_lattice(wvgd_fit *f, size_t dims)
{
    wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, 0, 0};
    if (f->known.lattice_dims != dims)
        wv_rng_lattice_columns(&stream, WV_LATTICE_POINTS, dims, f->shared.lattice);
    f->known.lattice_dims = dims;
}

double wv_halfspaces_lattice_error(size_t dims, double n, double mass)
{
    double d = (double)(dims + dims % 2);
    return 0.5 * pow(n, -(d + 1) / (2 * d)) * sqrt(fmax(4 * mass * (1 - mass), 0.6));
}

double wv_halfspaces_lattice_mass(wvgd_fit *f, size_t dims)
{
    double inside = 0, in[WV_COLUMNS];
    const double *B = f->desk.wall, *h = B + f->N * f->D;
    for (size_t first = 0; first < WV_LATTICE_POINTS; first += WV_COLUMNS) {
        wv_columns_best()->within(dims, WV_COLUMNS, f->N - 1, f->shared.lattice + first * dims, B, h, in);
        for (size_t i = 0; i < WV_COLUMNS; i++)
            inside += in[i] == 3 ? 1 : in[i] > 0 ? 0.5 : 0;
    }
    return inside / WV_LATTICE_POINTS;
}
