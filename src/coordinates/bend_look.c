/* bend_look.c - arguments of a bend, found by regression of scores (bend_look.h). */
#include "coordinates/bend_look.h"
#include "dense.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* ---- regressions ------------------------------------------------------------------------------------------------- */
/* Z[n][p] -= Q Q' Z, Q [n][q] with orthonormal columns, rows `ld` apart. */
static void project(size_t n, size_t q, size_t ld, const double *Q, size_t p, double *Z, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *C = wv_arena_take(arena, q * p);
    if (q) {
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)q, (int)p, (int)n, 1.0, Q, (int)ld, Z, (int)p, 0.0, C,
                    (int)p);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)p, (int)q, -1.0, Q, (int)ld, C, (int)p, 1.0,
                    Z, (int)p);
    }
    wv_arena_release(arena, mark);
}

static void weigh(wv_bend_look *l, wv_arena *arena)
{
    for (size_t i = 0; i < l->n; i++)
        l->weight[i] = cblas_dnrm2((int)l->D, l->rho + i * l->D, 1);
    double far = wv_policy.bend_outlier * wv_weights_smallest(l->n, l->weight, l->n / 2, arena);
    for (size_t i = 0; i < l->n; i++)
        l->weight[i] = fmin(1, far / fmax(l->weight[i], 1e-300));
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->D; k++)
            l->E[i * l->D + k] = l->weight[i] * l->rho[i * l->D + k];
}

/* Columns Z[n][p] join those that have been regressed on, and what they explain leaves E. Z is overwritten. */
static bool regress_on(wv_bend_look *l, size_t p, double *Z, wv_arena *arena)
{
    size_t n = l->n, mark = wv_arena_mark(arena);
    double *G = wv_arena_zeros(arena, p * p);
    project(n, l->columns, l->most, l->Q, p, Z, arena);
    wv_dense_cross(n, p, Z, p, Z, true, G);
    bool good = l->columns + p <= l->most && wv_dense_ridge_factor(p, G);
    if (good) {
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)n, (int)p, 1.0, G, (int)p, Z,
                    (int)p);
        for (size_t i = 0; i < n; i++)
            memcpy(l->Q + i * l->most + l->columns, Z + i * p, p * sizeof *Z);
        project(n, p, p, Z, l->D, l->E, arena);
        l->columns += p;
    }
    wv_arena_release(arena, mark);
    return good;
}

/* Z[n][D + 1]: weighted t z and t^2 - 1, t = v.z. */
static void bent_terms(const wv_bend_look *l, const double *v, double *Z)
{
    size_t D = l->D;
    for (size_t i = 0; i < l->n; i++) {
        const double *z = l->z + i * D;
        double t = cblas_ddot((int)D, z, 1, v, 1), w = l->weight[i];
        for (size_t k = 0; k < D; k++)
            Z[i * (D + 1) + k] = w * t * z[k];
        Z[i * (D + 1) + D] = w * (t * t - 1);
    }
}

/* Adjusted share of the squares of E that the terms of a direction explain. */
static double judge(const wv_bend_look *l, const double *v, wv_arena *arena)
{
    size_t n = l->n, D = l->D, p = D + 1, mark = wv_arena_mark(arena);
    double *Z = wv_arena_take(arena, n * p), *G = wv_arena_zeros(arena, p * p), *C = wv_arena_zeros(arena, p * D);
    bent_terms(l, v, Z);
    project(n, l->columns, l->most, l->Q, p, Z, arena);
    wv_dense_cross(n, p, Z, p, Z, true, G);
    wv_dense_cross(n, p, Z, D, l->E, false, C);
    double total = cblas_ddot((int)(n * D), l->E, 1, l->E, 1), share = 0;
    if (wv_dense_ridge_factor(p, G) && total > 0) {
        cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)p, (int)D, 1.0, G, (int)p, C,
                    (int)D);
        double explained = cblas_ddot((int)(p * D), C, 1, C, 1), free = (double)(n - l->columns);
        share = 1 - (total - explained) / (free - (double)p) / (total / free);
    }
    wv_arena_release(arena, mark);
    return share;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* v -= its part along the q orthonormal rows of O[q][D]; returns the length that is left of 1. */
static double orthogonal(size_t D, size_t q, const double *O, double *v)
{
    double whole = cblas_dnrm2((int)D, v, 1);
    for (size_t k = 0; k < q; k++)
        cblas_daxpy((int)D, -cblas_ddot((int)D, v, 1, O + k * D, 1), O + k * D, 1, v, 1);
    double left = cblas_dnrm2((int)D, v, 1);
    cblas_dscal((int)D, 1 / fmax(left, 1e-300), v, 1);
    return left / fmax(whole, 1e-300);
}

/* The axis that explains most, its direction into v[D]; returns its share. */
static double best_axis(const wv_bend_look *l, const double *root, size_t q, const double *O, double *v, size_t *axis,
                        wv_arena *arena)
{
    const double least = 0.2;
    size_t D = l->D, mark = wv_arena_mark(arena);
    double best = -INFINITY, *try = wv_arena_take(arena, D);
    for (size_t i = 0; i < D; i++) {
        memcpy(try, root + i * D, D * sizeof *try);
        if (orthogonal(D, q, O, try) < least)
            continue;
        double share = judge(l, try, arena);
        if (share > best) {
            best = share;
            *axis = i;
            memcpy(v, try, D * sizeof *v);
        }
    }
    wv_arena_release(arena, mark);
    return best;
}

/* One step from direction v to one of which the terms explain more: rho = (v.z) C'z is regressed on C, then on v.
 * False: it cannot be taken. */
static bool improve(const wv_bend_look *l, size_t q, const double *O, double *v, wv_arena *arena)
{
    const double ridge = 1e-6;
    size_t n = l->n, D = l->D, mark = wv_arena_mark(arena);
    double *Z = wv_arena_take(arena, n * D), *G = wv_arena_zeros(arena, D * D), *C = wv_arena_zeros(arena, D * D),
           *R = wv_arena_take(arena, n * D), *U = wv_arena_take(arena, n * D), *H = wv_arena_zeros(arena, D * D),
           *step = wv_arena_zeros(arena, D);
    for (size_t i = 0; i < n; i++) {
        double t = cblas_ddot((int)D, l->z + i * D, 1, v, 1);
        for (size_t k = 0; k < D; k++)
            Z[i * D + k] = l->weight[i] * t * l->z[i * D + k];
    }
    project(n, l->columns, l->most, l->Q, D, Z, arena);
    wv_dense_cross(n, D, Z, D, Z, true, G);
    wv_dense_cross(n, D, Z, D, l->E, false, C);
    bool good = wv_dense_ridge_solve(D, G, D, C);
    memcpy(R, l->E, n * D * sizeof *R);
    wv_dense_product(n, D, Z, D, C, -1, 1, R);
    wv_dense_product(n, D, l->z, D, C, 1, 0, U);
    for (size_t i = 0; i < n && good; i++) {
        const double *z = l->z + i * D, *u = U + i * D;
        double w = l->weight[i];
        cblas_dsyr(CblasRowMajor, CblasLower, (int)D, w * w * cblas_ddot((int)D, u, 1, u, 1), z, 1, H, (int)D);
        cblas_daxpy((int)D, w * cblas_ddot((int)D, u, 1, R + i * D, 1), z, 1, step, 1);
    }
    double size = 0;
    for (size_t k = 0; k < D; k++)
        size = fmax(size, H[k * D + k]);
    for (size_t k = 0; k < D; k++)
        H[k * D + k] += ridge * size;
    good = good && wv_dense_ridge_solve(D, H, 1, step) && isfinite(cblas_dnrm2((int)D, step, 1));
    if (good) {
        cblas_daxpy((int)D, 1.0, step, 1, v, 1);
        orthogonal(D, q, O, v);
    }
    wv_arena_release(arena, mark);
    return good;
}

/* The direction near v that explains most, best[D]; returns its share. */
static double best_direction(const wv_bend_look *l, size_t q, const double *O, const double *v, double *best,
                             wv_arena *arena)
{
    enum { ROUNDS = 12, STEPS = 4 };
    const double enough = 1.01;
    double share = 0, before = -1;
    memcpy(best, v, l->D * sizeof *v);
    for (size_t i = 0; i < ROUNDS && !(share < enough * before); i++) {
        before = share;
        for (size_t k = 0; k < STEPS && improve(l, q, O, best, arena);)
            k++;
        share = judge(l, best, arena);
    }
    return share;
}

/* The direction near the axis v takes its place if it explains much more. *share becomes its share; false: the axis
 * stays. */
static bool leave_axis(const wv_bend_look *l, size_t q, const double *O, double *v, double *share, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *best = wv_arena_take(arena, l->D), other = best_direction(l, q, O, v, best, arena);
    bool better = *share < wv_policy.bend_axis * other;
    if (better) {
        memcpy(v, best, l->D * sizeof *v);
        *share = other;
    }
    wv_arena_release(arena, mark);
    return better;
}

/* Directions of arguments a[r][D], unit vectors in z, of which `known` are there; returns r. Where there are some the
 * scores are what their map leaves. */
static size_t pick(wv_bend_look *l, const double *root, size_t known, size_t most, double *a, wv_arena *arena)
{
    size_t D = l->D, r = known, axis = 0, mark = wv_arena_mark(arena);
    double *O = wv_arena_take(arena, most * D), *Z = wv_arena_take(arena, l->n * (D + 1)), first = 0;
    memcpy(O, a, known * D * sizeof *O);
    for (size_t i = 0; i < l->n; i++) {
        Z[i * (D + 1)] = l->weight[i];
        for (size_t k = 0; k < D; k++)
            Z[i * (D + 1) + 1 + k] = l->weight[i] * l->z[i * D + k];
    }
    bool room = regress_on(l, D + 1, Z, arena);
    while (room && r < most && (double)(l->columns + D + 1) < wv_policy.bend_columns * (double)l->n) {
        double share = best_axis(l, root, r, O, O + r * D, &axis, arena);
        bool is_axis = !leave_axis(l, r, O, O + r * D, &share, arena);
        first = r > known ? first : share;
        double squares = share * cblas_ddot((int)(l->n * D), l->E, 1, l->E, 1) / (double)l->n;
        if (!(share > fmax(wv_policy.bend_share, wv_policy.bend_share_first * first)) ||
            (known && !(squares > wv_policy.bend_squares)) ||
            (known && !is_axis && !(share > wv_policy.bend_share_direction)))
            break;
        memcpy(a + r * D, is_axis ? root + axis * D : O + r * D, D * sizeof *a);
        cblas_dscal((int)D, 1 / cblas_dnrm2((int)D, a + r * D, 1), a + r * D, 1);
        bent_terms(l, O + r * D, Z);
        room = regress_on(l, D + 1, Z, arena) &&
               is_axis; /* what another direction leaves is seen better through its map */
        r++;
    }
    wv_arena_release(arena, mark);
    return r;
}

/* ---- the frame --------------------------------------------------------------------------------------------------- */
/* F[D][D], columns: r that are dual to the directions a[r][D], then an orthonormal basis of what is orthogonal to
 * them. */
static bool make_frame(size_t D, size_t r, const double *a, double *F, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    lapack_int d = (lapack_int)D, q = (lapack_int)r;
    double *A = wv_arena_zeros(arena, D * D), *tau = wv_arena_take(arena, D), *work = wv_arena_take(arena, D * D + 64),
           *S = wv_arena_zeros(arena, r * r), *dual = wv_arena_take(arena, r * D);
    memcpy(A, a, r * D * sizeof *A); /* columns of a column-major matrix */
    memcpy(dual, a, r * D * sizeof *dual);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)r, (int)r, (int)D, 1.0, a, (int)D, a, (int)D, 0.0, S,
                (int)r);
    bool good = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', q, S, q) == 0;
    if (good) {
        cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)r, (int)D, 1.0, S, (int)r,
                    dual, (int)D);
        cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, (int)r, (int)D, 1.0, S, (int)r,
                    dual, (int)D);
    }
    good = good && LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, d, q, A, d, tau, work, (lapack_int)(D * D + 64)) == 0 &&
           LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, d, d, q, A, d, tau, work, (lapack_int)(D * D + 64)) == 0;
    for (size_t c = 0; c < D && good; c++)
        for (size_t i = 0; i < D; i++)
            F[i * D + c] = c < r ? dual[c * D + i] : A[c * D + i];
    wv_arena_release(arena, mark);
    return good;
}

/* Slices of the third derivatives: coefficients of the scores of the others, y, on t y and t^2 for each argument.
 * S[k][k] gets a sum of the slices with unequal weights: what diagonalises all of them diagonalises it. */
static bool sum_slices(const wv_bend_look *l, size_t r, const double *a, const double *F, double *S, wv_arena *arena)
{
    size_t n = l->n, D = l->D, k = D - r, p = 1 + D + r * (1 + k), mark = wv_arena_mark(arena);
    double *Z = wv_arena_take(arena, p), *Y = wv_arena_take(arena, k), *G = wv_arena_zeros(arena, p * p),
           *C = wv_arena_zeros(arena, p * k), *y = wv_arena_take(arena, k);
    for (size_t i = 0; i < n; i++) {
        double w = l->weight[i];
        const double *z = l->z + i * D;
        Z[0] = w;
        for (size_t c = 0; c < D; c++)
            Z[1 + c] = w * z[c];
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)k, 1.0, F + r, (int)D, z, 1, 0.0, y, 1);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)k, w, F + r, (int)D, l->rho + i * D, 1, 0.0, Y, 1);
        for (size_t c = 0; c < r; c++) {
            double t = cblas_ddot((int)D, z, 1, a + c * D, 1), *to = Z + 1 + D + c * (1 + k);
            to[0] = w * (t * t - 1);
            for (size_t m = 0; m < k; m++)
                to[1 + m] = w * t * y[m];
        }
        cblas_dsyr(CblasRowMajor, CblasLower, (int)p, 1.0, Z, 1, G, (int)p);
        cblas_dger(CblasRowMajor, (int)p, (int)k, 1.0, Z, 1, Y, 1, C, (int)k);
    }
    for (size_t c = 1 + D; c < p; c++)
        G[c * p + c] += wv_policy.bend_ridge * (double)n;
    bool good = wv_dense_ridge_solve(p, G, k, C);
    memset(S, 0, k * k * sizeof *S);
    for (size_t c = 0; c < r && good; c++) {
        const double *square = C + (1 + D + c * (1 + k)) * k, *slice = square + k;
        double weight = 1 / (1 + (double)c / 3), length = cblas_dnrm2((int)k, square, 1);
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < k; j++)
                S[i * k + j] += weight * (slice[i * k + j] + slice[j * k + i]) / 2 +
                                (length > 0 ? weight * square[i] * square[j] / length : 0);
    }
    wv_arena_release(arena, mark);
    return good;
}

/* The others are turned to eigenvectors of the slices. */
static void turn_rest(const wv_bend_look *l, size_t r, const double *a, double *F, wv_arena *arena)
{
    size_t D = l->D, k = D - r, mark = wv_arena_mark(arena);
    double *S = wv_arena_take(arena, k * k), *e = wv_arena_take(arena, k),
           *work = wv_arena_take(arena, wv_dense_eigh_work(k)), *turned = wv_arena_take(arena, D * k);
    if (k > 1 && sum_slices(l, r, a, F, S, arena) && wv_dense_eigh(k, S, e, work)) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)D, (int)k, (int)k, 1.0, F + r, (int)D, S, (int)k, 0.0,
                    turned, (int)k);
        for (size_t i = 0; i < D; i++)
            memcpy(F + i * D + r, turned + i * k, k * sizeof *turned);
    }
    wv_arena_release(arena, mark);
}

wv_bend_look wv_bend_look_take(size_t n, size_t D, wv_arena *arena)
{
    size_t most = (size_t)(wv_policy.bend_columns * (double)n) + 1;
    return (wv_bend_look){.D = D,
                          .most = most,
                          .z = wv_arena_take(arena, n * D),
                          .rho = wv_arena_take(arena, n * D),
                          .weight = wv_arena_take(arena, n),
                          .Q = wv_arena_take(arena, n * most),
                          .E = wv_arena_take(arena, n * D)};
}

size_t wv_bend_look_find(wv_bend_look *l, const double *root, size_t known, double *basis, wv_arena *arena)
{
    size_t D = l->D, most = D / 2 > 1 ? D / 2 : 1, mark = wv_arena_mark(arena), r = 0;
    double *a = wv_arena_zeros(arena, most * D), *F = wv_arena_take(arena, D * D);
    for (size_t j = 0; j < known; j++)
        a[j * D + j] = 1;
    if (known < most && (double)l->n > wv_policy.bend_least * (double)D) {
        weigh(l, arena);
        r = pick(l, root, known, most, a, arena);
    }
    bool good = r > known && make_frame(D, r, a, F, arena);
    if (good) {
        turn_rest(l, r, a, F, arena);
        wv_dense_product(D, D, root, D, F, 1, 0, basis);
    }
    wv_arena_release(arena, mark);
    return good ? r : 0;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */
/* What is left of the scores of a coordinate, sd times g, after a regression on (1, w, w^2, w^3), w its value in sds:
 * the sum of weighted squares. */
static double left_of_own(const wv_bend_look *l, const double *w, const double *g, wv_arena *arena)
{
    enum { TERMS = 4 };
    size_t mark = wv_arena_mark(arena);
    double G[TERMS * TERMS] = {0}, h[TERMS] = {0}, c[TERMS], square = 0;
    for (size_t i = 0; i < l->n; i++) {
        double a = l->weight[i] * l->weight[i], v = w[i], f[TERMS] = {1, v, v * v, v * v * v};
        cblas_dsyr(CblasRowMajor, CblasLower, TERMS, a, f, 1, G, TERMS);
        cblas_daxpy(TERMS, a * g[i], f, 1, h, 1);
        square += a * g[i] * g[i];
    }
    memcpy(c, h, sizeof c);
    bool good = wv_dense_ridge_solve(TERMS, G, 1, c);
    wv_arena_release(arena, mark);
    return good ? square - cblas_ddot(TERMS, c, 1, h, 1) : square;
}

bool wv_bend_look_separate(const wv_bend_look *l, const double *root, double *basis, wv_arena *arena)
{
    size_t n = l->n, D = l->D, mark = wv_arena_mark(arena);
    double *w = wv_arena_take(arena, n * D), *g = wv_arena_take(arena, n * D), *own = wv_arena_take(arena, 2 * n),
           left = 0, more = wv_policy.bend_separate * (double)(n - l->columns) / (double)n;
    for (size_t i = 0; i < n * D; i++) {
        w[i] = l->z[i];
        g[i] = l->rho[i] - l->z[i];
    }
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)n, (int)D, 1.0, root, (int)D, w,
                (int)D);
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, (int)D, 1.0, root, (int)D, g,
                (int)D);
    memset(basis, 0, D * D * sizeof *basis);
    for (size_t k = 0; k < D; k++) {
        double sd = basis[k * (D + 1)] = cblas_dnrm2((int)k + 1, root + k * D, 1);
        for (size_t i = 0; i < n; i++) {
            own[i] = w[i * D + k] / sd;
            own[n + i] = g[i * D + k] * sd;
        }
        left += left_of_own(l, own, own + n, arena);
    }
    wv_arena_release(arena, mark);
    return more * left < cblas_ddot((int)(n * D), l->E, 1, l->E, 1);
}
