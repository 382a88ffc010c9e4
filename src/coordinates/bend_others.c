/* bend_others.c - the others of a bend: rows, layers, their basis, and directions of the arguments (bend_others.h). */
#include "coordinates/bend_others.h"
#include "dense.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Rows of the others; returns the sum of their costs. */
static double fit_rows(const wv_bend_seen *s, wv_bend *b, bool anew, wv_arena *arena)
{
    double cost = 0;
    for (size_t c = s->r; c < s->D; c++)
        cost += wv_bend_seen_fit_row(s, b, c, anew, arena);
    return cost;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */
/* T [k][k]: eigenvectors, in columns, of the largest slice d rho / d(t_j u) of what is left of the scores. */
static bool largest_slice(const wv_bend_seen *s, double *T, wv_arena *arena)
{
    size_t n = s->n, D = s->D, r = s->r, k = D - r, p = 1 + k + 2 * r + r * k, mark = wv_arena_mark(arena);
    double *Z = wv_arena_zeros(arena, n * p), *Y = wv_arena_zeros(arena, n * k), *G = wv_arena_zeros(arena, p * p),
           *C = wv_arena_zeros(arena, p * k), *weight = wv_arena_take(arena, n), *S = wv_arena_take(arena, k * k),
           *e = wv_arena_take(arena, k), *work = wv_arena_take(arena, wv_dense_eigh_work(k)), largest = 0;
    wv_bend_seen_residuals(s, weight, arena);
    for (size_t i = 0; i < n; i++) {
        const double *t = s->w + i * D, *u = t + r, *g = s->g + i * D + r;
        double *z = Z + i * p, a = sqrt(weight[i]);
        if (!(a > 0))
            continue;
        z[0] = a;
        for (size_t c = 0; c < k; c++) {
            z[1 + c] = a * u[c];
            Y[i * k + c] = a * (g[c] + u[c]);
        }
        for (size_t j = 0; j < r; j++) {
            z[1 + k + j] = a * t[j];
            z[1 + k + r + j] = a * (t[j] * t[j] - 1);
            for (size_t c = 0; c < k; c++)
                z[1 + k + 2 * r + j * k + c] = a * t[j] * u[c];
        }
    }
    wv_dense_cross(n, p, Z, p, Z, true, G);
    wv_dense_cross(n, p, Z, k, Y, false, C);
    for (size_t c = 0; c < p; c++)
        G[c * p + c] += wv_policy.bend_ridge_layer;
    bool good = wv_dense_ridge_solve(p, G, k, C);
    for (size_t j = 0; j < r && good; j++) {
        const double *slice = C + (1 + k + 2 * r + j * k) * k;
        for (size_t a = 0; a < k; a++)
            for (size_t c = 0; c < k; c++)
                S[a * k + c] = (slice[a * k + c] + slice[c * k + a]) / 2;
        double size = cblas_dnrm2((int)(k * k), S, 1);
        if (size > largest) {
            largest = size;
            memcpy(T, S, k * k * sizeof *T);
        }
    }
    good = good && largest > 0 && wv_dense_eigh(k, T, e, work);
    for (size_t a = 0; a < k && good; a++) /* eigenvectors stand in rows */
        for (size_t c = 0; c < a; c++) {
            double v = T[a * k + c];
            T[a * k + c] = T[c * k + a];
            T[c * k + a] = v;
        }
    wv_arena_release(arena, mark);
    return good;
}

/* One more layer; what it explains leaves the scores. */
static bool fit_layer(const wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    size_t r = s->r, k = s->D - r, mark = wv_arena_mark(arena);
    double *T = wv_arena_take(arena, k * k);
    wv_bend_row *rows = (wv_bend_row *)(void *)wv_arena_take(arena, k * (sizeof *rows / sizeof(double) + 1));
    bool good = largest_slice(s, T, arena);
    if (good) {
        wv_bend_seen_turn(s, T, false, arena);
        for (size_t c = 0; c < k; c++) {
            wv_bend_row_clear(&rows[c]);
            wv_bend_seen_parents(s, r + c, r, &rows[c]);
            wv_bend_points p = wv_bend_seen_points(s, r + c);
            wv_bend_row_fit(&rows[c], &p, wv_policy.bend_ridge_layer, true, arena);
        }
        for (size_t c = 0; c < k; c++)
            wv_bend_seen_undo_row(s, &rows[c], r + c, arena);
        wv_bend_seen_turn(s, T, true, arena);
        wv_bend_add_layer(b, T, rows);
    }
    wv_arena_release(arena, mark);
    return good;
}

/* ---- the affine layer -------------------------------------------------------------------------------------------- */
/* Weights of the points in its regressions: those far out in the arguments count little. Sum 1. */
static void affine_weights(const wv_bend_seen *s, double *weight, wv_arena *arena)
{
    double total = 0;
    wv_bend_seen_residuals(s, weight, arena);
    for (size_t i = 0; i < s->n; i++) {
        double out = 0;
        for (size_t j = 0; j < s->r; j++)
            out += pow(s->w[i * s->D + j] / wv_policy.bend_affine_far, 4);
        total += weight[i] /= 1 + out;
    }
    cblas_dscal((int)s->n, 1 / fmax(total, 1e-300), weight, 1);
}

/* If the posterior given the arguments is a Gaussian of mean o and precision 1 + S, the scores g of the others y leave
 * g + y = (1 + S) o - S y: coefficients C[features][k + 1][k] of (y, 1) times each feature. */
static bool affine_slopes(const wv_bend_seen *s, const wv_bend_affine *a, double *C, wv_arena *arena)
{
    size_t n = s->n, D = s->D, r = s->r, k = D - r, p = a->features * (k + 1), mark = wv_arena_mark(arena);
    double *Z = wv_arena_zeros(arena, n * p), *Y = wv_arena_zeros(arena, n * k), *G = wv_arena_zeros(arena, p * p),
           *weight = wv_arena_take(arena, n), phi[WV_BEND_FEATURES];
    memset(C, 0, p * k * sizeof *C);
    affine_weights(s, weight, arena);
    for (size_t i = 0; i < n; i++) {
        const double *y = s->w + i * D + r, *g = s->g + i * D + r;
        double *z = Z + i * p, w = sqrt(weight[i]);
        if (!(w > 0))
            continue;
        wv_bend_affine_features(a, s->w + i * D, phi);
        for (size_t f = 0; f < a->features; f++) {
            cblas_daxpy((int)k, w * phi[f], y, 1, z + f * (k + 1), 1);
            z[f * (k + 1) + k] = w * phi[f];
        }
        for (size_t c = 0; c < k; c++)
            Y[i * k + c] = w * (g[c] + y[c]);
    }
    wv_dense_cross(n, p, Z, p, Z, true, G);
    wv_dense_cross(n, p, Z, k, Y, false, C);
    for (size_t c = 0; c < p; c++)
        G[c * p + c] += wv_policy.bend_ridge_layer;
    bool good = wv_dense_ridge_solve(p, G, k, C);
    for (size_t c = 0; c < p * k && good; c++)
        good = isfinite(C[c]);
    wv_arena_release(arena, mark);
    return good;
}

/* To first order, (1 + S)^-1 = C C' where C is 1 - S below the diagonal and 1 - S/2 on it: slices of the layer. */
static void affine_slices(size_t features, size_t k, const double *C, double *slice)
{
    for (size_t f = 0; f < features; f++)
        for (size_t i = 0; i < k; i++) {
            const double *from = C + f * (k + 1) * k;
            double *to = slice + (f * k + i) * (k + 1);
            for (size_t c = 0; c < k; c++)
                to[c] = c > i ? 0 : (from[c * k + i] + from[i * k + c]) / 2;
            to[i] /= 2;
            to[k] = from[k * k + i];
        }
}

/* What layers leave, of all arguments at once and of all pairs of the others: a first estimate, and what is left of it.
 */
static void fit_affine(const wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    size_t k = s->D - s->r, mark = wv_arena_mark(arena), parents = s->r < WV_BEND_PARENTS ? s->r : WV_BEND_PARENTS;
    while (parents && (double)((1 + 2 * parents) * (k + 1)) > wv_policy.bend_affine_share * (double)s->n)
        parents--;
    size_t features = 1 + 2 * parents, size = features * k * (k + 1);
    double *C = wv_arena_take(arena, size), *slice = wv_arena_zeros(arena, size);
    wv_bend_add_affine(b, parents, slice, true);
    for (size_t time = 0; time < (size_t)wv_policy.bend_affine_times; time++) {
        size_t before = wv_arena_mark(arena);
        wv_bend_seen left = wv_bend_seen_copy(s, arena);
        wv_bend_seen_undo_affine(&left, &b->affine, arena);
        bool good = affine_slopes(&left, &b->affine, C, arena);
        wv_arena_release(arena, before);
        if (!good)
            break;
        affine_slices(features, k, C, slice);
        wv_bend_add_affine(b, parents, slice, false);
    }
    wv_bend_seen_undo_affine(s, &b->affine, arena);
    wv_arena_release(arena, mark);
}

/* ---- turns of the basis ------------------------------------------------------------------------------------------ */
/* T [k][k] = exp(W), W skew. */
static void exponential(size_t k, double *W, double *T, wv_arena *arena)
{
    enum { HALVED = 5, TERMS = 8 };
    size_t mark = wv_arena_mark(arena);
    double *power = wv_arena_zeros(arena, k * k), *next = wv_arena_take(arena, k * k);
    cblas_dscal((int)(k * k), ldexp(1, -HALVED), W, 1);
    memset(T, 0, k * k * sizeof *T);
    for (size_t i = 0; i < k; i++)
        T[i * (k + 1)] = power[i * (k + 1)] = 1;
    for (size_t term = 1; term <= TERMS; term++) {
        wv_dense_product(k, k, power, k, W, 1 / (double)term, 0, next);
        memcpy(power, next, k * k * sizeof *power);
        cblas_daxpy((int)(k * k), 1.0, power, 1, T, 1);
    }
    for (size_t i = 0; i < HALVED; i++) {
        wv_dense_product(k, k, T, k, T, 1, 0, next);
        memcpy(T, next, k * k * sizeof *T);
    }
    wv_arena_release(arena, mark);
}

/* Sums over points of one pair of the others. */
typedef struct {
    double ff, f, one, zf, z;
} turn_sums;

/* -2 sinh of the difference of the logs of two scales, of up to 2. */
static double apart(double a, double b)
{
    const double most = 7.2537208156940379; /* 2 sinh 2 */
    double by = b / a - a / b;
    return by > most ? most : by < -most ? -most : by;
}

/* A turn by W_ij between two of the others, whose log scales are s_i and s_j, leaves rho_i = -2 W_ij sinh(s_i - s_j)
 * u_j of the scores. W[k][k] by regression of both scores on that and on a constant times u_j; small where its error is
 * not. */
static void find_turns(const wv_bend_seen *s, const wv_bend *b, double *W, wv_arena *arena)
{
    const double ridge = 0.02, narrow = exp(-12), wide = exp(12), most = 0.3, all = 0.7, errors = 4;
    size_t n = s->n, D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *u = wv_arena_take(arena, n * k), *rho = wv_arena_take(arena, n * k), *scale = wv_arena_take(arena, n * k),
           *size = wv_arena_take(arena, n), *a = wv_arena_take(arena, n);
    for (size_t c = 0; c < k; c++) {
        size_t before = wv_arena_mark(arena);
        wv_bend_places p = wv_bend_row_places(&b->row[r + c], n, s->w, D, false, arena);
        for (size_t i = 0; i < n; i++) {
            u[i * k + c] = (s->w[i * D + r + c] - p.m[i]) / p.scale[i];
            rho[i * k + c] = p.scale[i] * s->g[i * D + r + c] + u[i * k + c];
            scale[i * k + c] = fmin(fmax(p.scale[i], narrow), wide);
        }
        wv_arena_release(arena, before);
    }
    for (size_t i = 0; i < n; i++) {
        double square = cblas_ddot((int)k, rho + i * k, 1, rho + i * k, 1) / (double)k,
               spread = cblas_ddot((int)k, u + i * k, 1, u + i * k, 1) / (double)k;
        size[i] = isfinite(square) ? sqrt(square) : INFINITY;
        a[i] = s->weight[i] / fmax(1, spread / wv_policy.bend_outlier);
    }
    double far = wv_policy.bend_outlier * wv_weights_smallest(n, size, n / 2, arena) + 1e-9;
    for (size_t i = 0; i < n; i++)
        a[i] = isfinite(size[i]) ? a[i] / pow(fmax(1, size[i] / far), 2) : 0;
    memset(W, 0, k * k * sizeof *W);
    for (size_t c = 0; c < k; c++)
        for (size_t e = 0; e < c; e++) {
            turn_sums t = {ridge, 0, ridge, 0, 0};
            double squares = 0;
            for (size_t i = 0; i < n; i++) {
                if (!(a[i] > 0))
                    continue;
                const double *ui = u + i * k, *qi = rho + i * k;
                double F = apart(scale[i * k + c], scale[i * k + e]), z = a[i] * (qi[c] * ui[e] + qi[e] * ui[c]),
                       w = a[i] * (ui[e] * ui[e] + ui[c] * ui[c]);
                t.ff += w * F * F;
                t.f += w * F;
                t.one += w;
                t.zf += z * F;
                t.z += z;
            }
            double det = t.ff * t.one - t.f * t.f, turn = (t.zf * t.one - t.f * t.z) / det,
                   shift = (t.ff * t.z - t.f * t.zf) / det, middle = t.f / t.one;
            for (size_t i = 0; i < n; i++) {
                const double *ui = u + i * k, *qi = rho + i * k;
                double F = apart(scale[i * k + c], scale[i * k + e]), by = F * turn + shift,
                       one = (qi[c] - by * ui[e]) * ui[e], two = (qi[e] - by * ui[c]) * ui[c];
                squares += a[i] > 0 ? a[i] * a[i] * (one * one + two * two) * pow(F - middle, 2) : 0;
            }
            double variance = squares / pow(det / t.one, 2);
            turn *= fmax(0, 1 - errors * variance / fmax(turn * turn, 1e-12));
            turn = isfinite(turn) ? fmin(fmax(turn, -most), most) : 0;
            W[c * k + e] = turn;
            W[e * k + c] = -turn;
        }
    double norm = cblas_dnrm2((int)(k * k), W, 1) / sqrt(2);
    cblas_dscal((int)(k * k), fmin(1, all / fmax(norm, 1e-9)), W, 1);
    wv_arena_release(arena, mark);
}

/* Turns the others, unless that gains little; false: then all is as it was. */
static bool turn_basis(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, double *cost, wv_arena *arena)
{
    size_t D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *W = wv_arena_take(arena, k * k), *T = wv_arena_take(arena, k * k), *back = wv_arena_take(arena, k * k);
    wv_bend_row *rows = (wv_bend_row *)(void *)wv_arena_take(arena, k * (sizeof *rows / sizeof(double) + 1));
    memcpy(rows, b->row + r, k * sizeof *rows);
    find_turns(s, b, W, arena);
    exponential(k, W, T, arena);
    for (size_t i = 0; i < k; i++)
        for (size_t c = 0; c < k; c++)
            back[i * k + c] = T[c * k + i];
    wv_bend_rotate(b, T, arena);
    wv_bend_seen_from(p, b, s);
    double now = fit_rows(s, b, false, arena);
    bool better = now < wv_policy.bend_turn_gain * *cost;
    if (better)
        *cost = now;
    else {
        wv_bend_rotate(b, back, arena);
        wv_bend_seen_from(p, b, s);
        for (size_t c = 0; c < k; c++)
            wv_bend_set_row(b, r + c, &rows[c]);
    }
    wv_arena_release(arena, mark);
    return better;
}

/* ---- directions of the arguments --------------------------------------------------------------------------------- */
/* At the points, times the root of the weight of the residual of row c: derivatives of the residual
 * e^s (g - delta_c g_j) + e^-s (y - m), s and m at t_j + delta.y, by t_j and by delta_c, into a[n] and own[n]. */
static void lean_row(const wv_bend_seen *s, const wv_bend_row *row, size_t c, size_t j, double *a, double *own)
{
    for (size_t i = 0; i < s->n; i++) {
        const double *w = s->w + i * s->D, *g = s->g + i * s->D;
        wv_bend_place p = wv_bend_row_at(row, w);
        double e = exp(p.s), pull = e * g[c], away = (w[c] - p.m) / e, by = 0,
               root = sqrt(s->weight[i] / fmax(1, fabs(pull + away) / wv_policy.bend_huber));
        for (size_t n = 0; n < row->parents; n++)
            by += row->parent[n] == j ? p.ds[n] * (pull - away) - p.dm[n] / e : 0;
        bool good = s->weight[i] > 0 && isfinite(by) && isfinite(e * g[j]) && isfinite(pull + away);
        a[i] = good ? root * by : 0;
        own[i] = good ? -root * e * g[j] : 0;
    }
}

/* Adds row c to the normal equations H[k][k] delta = h, from which its own parameters are eliminated; square[n] += a^2.
 */
static void add_row(const wv_bend_seen *s, const wv_bend *b, size_t c, size_t j, double *H, double *h, double *square,
                    wv_arena *arena)
{
    size_t n = s->n, D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena), to = c - r,
           apart = (n + WV_BEND_BLOCK - 1) / WV_BEND_BLOCK * WV_BEND_BLOCK;
    double *J = wv_arena_take(arena, WV_BEND_TERMS * apart), *residual = wv_arena_take(arena, apart),
           *M = wv_arena_take(arena, WV_BEND_TERMS * WV_BEND_TERMS), *a = wv_arena_zeros(arena, apart),
           *own = wv_arena_zeros(arena, apart), *C = wv_arena_zeros(arena, WV_BEND_TERMS * (k + 1)),
           *X = wv_arena_take(arena, WV_BEND_TERMS * (k + 1)), *y = wv_arena_zeros(arena, k);
    wv_bend_points points = wv_bend_seen_points(s, c);
    size_t P = wv_bend_row_slopes(&b->row[c], &points, wv_policy.bend_ridge, apart, J, residual, M, arena);
    lean_row(s, &b->row[c], c, j, a, own);
    for (size_t i = 0; i < n; i++) {
        const double *others = s->w + i * D + r;
        square[i] += a[i] * a[i];
        cblas_daxpy((int)k, a[i] * own[i], others, 1, y, 1);
        cblas_daxpy((int)k, -a[i] * residual[i], others, 1, h, 1);
        h[to] -= own[i] * residual[i];
        H[to * k + to] += own[i] * own[i];
        for (size_t m = 0; m < P; m++) {
            cblas_daxpy((int)k, J[m * apart + i] * a[i], others, 1, C + m * (k + 1), 1);
            C[m * (k + 1) + to] += J[m * apart + i] * own[i];
            C[m * (k + 1) + k] += J[m * apart + i] * residual[i];
        }
    }
    for (size_t m = 0; m < k; m++) {
        H[to * k + m] += y[m];
        H[m * k + to] += y[m];
    }
    memcpy(X, C, P * (k + 1) * sizeof *C);
    if (wv_dense_ridge_solve(P, M, k + 1, X)) {
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)k, (int)k, (int)P, -1.0, C, (int)(k + 1), X,
                    (int)(k + 1), 1.0, H, (int)k);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)P, (int)k, 1.0, C, (int)(k + 1), X + k, (int)(k + 1), 1.0, h, 1);
    }
    wv_arena_release(arena, mark);
}

/* delta[k], a step of Gauss and Newton's method for argument j and all rows; false: there is none. */
static bool find_lean(const wv_bend_seen *s, const wv_bend *b, size_t j, double *delta, wv_arena *arena)
{
    const double ridge = 1e-6, longest = 0.5;
    size_t n = s->n, D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *H = wv_arena_zeros(arena, k * k), *square = wv_arena_zeros(arena, n);
    memset(delta, 0, k * sizeof *delta);
    for (size_t c = r; c < D; c++)
        add_row(s, b, c, j, H, delta, square, arena);
    for (size_t i = 0; i < n; i++)
        cblas_dsyr(CblasRowMajor, CblasLower, (int)k, square[i], s->w + i * D + r, 1, H, (int)k);
    for (size_t c = 0; c < k; c++)
        H[c * k + c] += ridge;
    bool good = wv_dense_ridge_solve(k, H, 1, delta);
    double length = cblas_dnrm2((int)k, delta, 1);
    good = good && isfinite(length) && length > 0;
    cblas_dscal((int)k, fmin(1, longest / fmax(length, 1e-300)), delta, 1);
    wv_arena_release(arena, mark);
    return good;
}

/* Argument j leans by delta[D], unless that leaves more than the share `gain` of the cost: then all stays as it was.
 * Returns the cost that it leaves. */
static double try_lean(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, size_t j, double *delta, double gain,
                       double *cost, wv_arena *arena)
{
    size_t r = s->r, k = s->D - r, mark = wv_arena_mark(arena);
    wv_bend_row *rows = (wv_bend_row *)(void *)wv_arena_take(arena, k * (sizeof *rows / sizeof(double) + 1));
    memcpy(rows, b->row + r, k * sizeof *rows);
    wv_bend_lean(b, j, delta);
    wv_bend_seen_from(p, b, s);
    double now = fit_rows(s, b, false, arena);
    if (now < gain * *cost)
        *cost = now;
    else {
        cblas_dscal((int)s->D, -1, delta, 1);
        wv_bend_lean(b, j, delta);
        cblas_dscal((int)s->D, -1, delta, 1);
        wv_bend_seen_from(p, b, s);
        for (size_t c = 0; c < k; c++)
            wv_bend_set_row(b, r + c, &rows[c]);
    }
    wv_arena_release(arena, mark);
    return now;
}

/* Is argument j a parameter? */
static bool is_axis(const wv_bend *b, size_t j)
{
    const double *measures = b->inverse + j * b->D, rounding = 1e-9;
    size_t D = b->D, some = 0;
    double all = 0;
    for (size_t i = 0; i < D; i++)
        all = fmax(all, fabs(measures[i]) * cblas_dnrm2((int)D, b->basis + i * D, 1));
    for (size_t i = 0; i < D; i++)
        some += fabs(measures[i]) * cblas_dnrm2((int)D, b->basis + i * D, 1) > rounding * all;
    return some == 1;
}

/* Of two axes that are nearly the same near the Gaussian, such as those of a thin banana, the first look may have taken
 * the wrong one, or a direction in between: arguments become axes close by, an axis only if that helps much. */
static void exchange_axes(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, double *cost, wv_arena *arena)
{
    const double nearest = 1e-6, farthest = 0.7, mixed = 1.5;
    size_t D = s->D, r = s->r, mark = wv_arena_mark(arena);
    double *delta = wv_arena_take(arena, D);
    for (size_t j = 0; j < r; j++)
        for (size_t i = 0; i < D; i++) {
            memcpy(delta, b->basis + i * D, D * sizeof *delta);
            cblas_dscal((int)D, 1 / delta[j], delta, 1);
            delta[j] = 0;
            double far = cblas_dnrm2((int)(D - r), delta + r, 1), others = cblas_dnrm2((int)r, delta, 1);
            if (fmax(far, others) > nearest && far < farthest && others < mixed)
                try_lean(p, s, b, j, delta, is_axis(b, j) ? wv_policy.bend_lean_gain : 1, cost, arena);
        }
    wv_arena_release(arena, mark);
}

/* Argument j leans by a step, an axis only if that helps much; false: it stays where it is. */
static bool lean_argument(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, size_t j, double *cost,
                          wv_arena *arena)
{
    enum { HALVED = 3 };
    const double half = 0.5;
    size_t k = s->D - s->r, mark = wv_arena_mark(arena);
    double *delta = wv_arena_zeros(arena, s->D), before = *cost, now = INFINITY,
           gain = is_axis(b, j) ? wv_policy.bend_lean_gain : wv_policy.bend_turn_gain;
    bool some = find_lean(s, b, j, delta + s->r, arena);
    for (size_t i = 0; i < HALVED && some && !(now < before); i++) {
        now = try_lean(p, s, b, j, delta, gain, cost, arena);
        cblas_dscal((int)k, half, delta + s->r, 1);
    }
    wv_arena_release(arena, mark);
    return *cost < before;
}

/* Rows, and directions of the arguments; returns the cost. */
static double fit_directions(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, bool anew, wv_arena *arena)
{
    wv_bend_seen_from(p, b, s);
    double cost = fit_rows(s, b, anew, arena);
    if (p->round <= 2 && s->D > s->r)
        exchange_axes(p, s, b, &cost, arena);
    for (size_t j = 0; j < s->r && s->D > s->r; j++)
        for (size_t i = 0; i < (size_t)wv_policy.bend_leans && lean_argument(p, s, b, j, &cost, arena);)
            i++;
    return cost;
}

/* c[r] of the regression of argument j on the other ones at the points (c[j] = 0), and the sd of what that leaves. */
static double regress_argument(const wv_bend_seen *s, size_t j, double *c, wv_arena *arena)
{
    size_t r = s->r, p = r + 1, mark = wv_arena_mark(arena);
    double *G = wv_arena_zeros(arena, p * p), *h = wv_arena_zeros(arena, p), *f = wv_arena_take(arena, p), square = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double *w = s->w + i * s->D;
        memcpy(f, w, r * sizeof *f);
        f[j] = 0;
        f[r] = 1;
        cblas_dsyr(CblasRowMajor, CblasLower, (int)p, s->weight[i], f, 1, G, (int)p);
        cblas_daxpy((int)p, s->weight[i] * w[j], f, 1, h, 1);
        square += s->weight[i] * w[j] * w[j];
    }
    memcpy(f, h, p * sizeof *f);
    if (!wv_dense_ridge_solve(p, G, 1, h))
        memset(h, 0, p * sizeof *h);
    memcpy(c, h, r * sizeof *c);
    square -= cblas_ddot((int)p, f, 1, h, 1);
    wv_arena_release(arena, mark);
    return sqrt(fmax(square, 1e-12));
}

/* Argument j becomes the last one of the others: what the other arguments leave of it. */
static bool demote(const wv_bend_seen *s, wv_bend *b, size_t j, wv_arena *arena)
{
    size_t D = b->D, r = b->r, mark = wv_arena_mark(arena);
    double *basis = wv_arena_take(arena, D * D), *c = wv_arena_take(arena, r), sd = regress_argument(s, j, c, arena);
    memcpy(basis, b->basis, D * D * sizeof *basis);
    for (size_t i = 0; i < D; i++) {
        double *to = basis + i * D, own = to[j];
        cblas_daxpy((int)r, own, c, 1, to, 1);
        memmove(to + j, to + j + 1, (D - 1 - j) * sizeof *to);
        to[D - 1] = sd * own;
    }
    bool good = wv_bend_set_frame(b, r - 1, b->centre, basis, arena);
    wv_arena_release(arena, mark);
    return good;
}

void wv_bend_others_drop(const wv_bend_pool *p, wv_bend_seen *s, wv_bend *b, wv_arena *arena)
{
    size_t D = s->D, mark = wv_arena_mark(arena);
    double *basis = wv_arena_take(arena, D * D), cost = b->r > 1 ? fit_directions(p, s, b, true, arena) : 0;
    for (size_t j = 0; j < b->r && b->r > 1;) {
        memcpy(basis, b->basis, D * D * sizeof *basis);
        wv_bend_seen_from(p, b, s);
        bool good = demote(s, b, j, arena);
        s->r = b->r;
        double now = good ? fit_directions(p, s, b, true, arena) : INFINITY;
        if (now < cost + wv_policy.bend_squares) {
            cost = now;
            continue;
        }
        wv_bend_set_frame(b, b->r + 1, b->centre, basis, arena);
        s->r = b->r;
        j++;
    }
    wv_arena_release(arena, mark);
}

void wv_bend_others_fit(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, bool anew, wv_arena *arena)
{
    size_t D = s->D, r = s->r;
    wv_bend_clear_layers(b);
    double cost = fit_directions(p, s, b, anew, arena);
    for (size_t i = 0; i < (size_t)wv_policy.bend_turns && D - r > 1 && turn_basis(p, s, b, &cost, arena);)
        i++;
    for (size_t c = r; c < D; c++)
        wv_bend_seen_undo_row(s, &b->row[c], c, arena);
    for (size_t l = 0; l < (size_t)wv_policy.bend_layers && D - r > 1; l++)
        if (!fit_layer(s, b, arena))
            break;
    if (D > r && (double)p->round == wv_policy.bend_rounds)
        fit_affine(s, b, arena);
}
