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

static double cost_of_rows(const wv_bend_seen *s, const wv_bend *b, wv_arena *arena)
{
    double cost = 0;
    for (size_t c = s->r; c < s->D; c++) {
        wv_bend_points p = wv_bend_seen_points(s, c);
        cost += wv_bend_row_cost(&b->row[c], &p, arena);
    }
    return isfinite(cost) ? cost : INFINITY;
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
/* All points after argument j has leant by `share` of delta. */
static void lean_points(const wv_bend_seen *s, size_t j, const double *delta, double share)
{
    size_t r = s->r, k = s->D - r;
    for (size_t i = 0; i < s->n; i++) {
        double *w = s->w + i * s->D, *g = s->g + i * s->D;
        w[j] += share * cblas_ddot((int)k, delta, 1, w + r, 1);
        cblas_daxpy((int)k, -share * g[j], delta, 1, g + r, 1);
    }
}

/* Sums over the others at a point: half the squares of their residuals as argument j leans. */
typedef struct {
    double aa, ar;                      /* of squares of da, and with the residual */
    double *cross, *own, *own_residual; /* [k] */
} lean_sums;

/* Residuals of the rows at point i, as argument j leans by delta: e^s (g - delta g_j) + e^-s (y - m) with s and m at
 * t_j
 * + delta.y. False: the point does not count. */
static bool lean_at(const wv_bend_seen *s, const wv_bend *b, size_t i, size_t j, lean_sums *t)
{
    size_t r = s->r, k = s->D - r;
    const double *w = s->w + i * s->D, *g = s->g + i * s->D;
    bool good = true;
    t->aa = t->ar = 0;
    for (size_t c = 0; c < k && good; c++) {
        const wv_bend_row *row = &b->row[r + c];
        wv_bend_place p = wv_bend_row_at(row, w);
        double e = exp(p.s), pull = e * g[r + c], away = (w[r + c] - p.m) / e, residual = pull + away, a = 0,
               own = e * g[j], weight = s->weight[i] / fmax(1, fabs(residual) / wv_policy.bend_huber);
        for (size_t n = 0; n < row->parents; n++)
            a += row->parent[n] == j ? p.ds[n] * (pull - away) - p.dm[n] / e : 0;
        t->aa += weight * a * a;
        t->ar += weight * a * residual;
        t->cross[c] = weight * a * own;
        t->own[c] = weight * own * own;
        t->own_residual[c] = weight * own * residual;
        good = isfinite(t->aa) && isfinite(t->cross[c]) && isfinite(t->own[c]) && isfinite(t->own_residual[c]);
    }
    return good;
}

/* delta[k]: a step of Gauss and Newton's method; false: there is none. */
static bool find_lean(const wv_bend_seen *s, const wv_bend *b, size_t j, double *delta, wv_arena *arena)
{
    const double ridge = 1e-6, longest = 0.5;
    size_t r = s->r, k = s->D - r, mark = wv_arena_mark(arena);
    double *H = wv_arena_zeros(arena, k * k);
    lean_sums t = {0, 0, wv_arena_take(arena, k), wv_arena_take(arena, k), wv_arena_take(arena, k)};
    memset(delta, 0, k * sizeof *delta);
    for (size_t i = 0; i < s->n; i++) {
        const double *y = s->w + i * s->D + r;
        if (!(s->weight[i] > 0) || !lean_at(s, b, i, j, &t))
            continue;
        cblas_dsyr(CblasRowMajor, CblasLower, (int)k, t.aa, y, 1, H, (int)k);
        cblas_dsyr2(CblasRowMajor, CblasLower, (int)k, -1.0, y, 1, t.cross, 1, H, (int)k);
        cblas_daxpy((int)k, -t.ar, y, 1, delta, 1);
        for (size_t c = 0; c < k; c++) {
            H[c * k + c] += t.own[c];
            delta[c] += t.own_residual[c];
        }
    }
    for (size_t c = 0; c < k; c++)
        H[c * k + c] += ridge;
    bool good = wv_dense_ridge_solve(k, H, 1, delta);
    double length = cblas_dnrm2((int)k, delta, 1);
    good = good && isfinite(length) && length > 0;
    cblas_dscal((int)k, fmin(1, longest / fmax(length, 1e-300)), delta, 1);
    wv_arena_release(arena, mark);
    return good;
}

/* Argument j leans as far as that helps; delta[k] becomes what it has leant by. */
static void lean_one(const wv_bend_seen *s, wv_bend *b, size_t j, double *delta, wv_arena *arena)
{
    enum { HALVED = 4 };
    size_t k = s->D - s->r;
    double before = cost_of_rows(s, b, arena), share = 1;
    bool good = find_lean(s, b, j, delta, arena);
    for (size_t i = 0; i < HALVED && good; i++, share /= 2) {
        lean_points(s, j, delta, share);
        if (cost_of_rows(s, b, arena) < before) {
            cblas_dscal((int)k, share, delta, 1);
            wv_bend_lean(b, j, delta);
            return;
        }
        lean_points(s, j, delta, -share);
    }
    memset(delta, 0, k * sizeof *delta);
}

/* Of two axes that are nearly the same near the Gaussian, such as those of a thin banana, the first look may have taken
 * the wrong one: arguments lean to others close by. False: all is as it was. */
static bool exchange_axes(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, double *cost, wv_arena *arena)
{
    const double nearest = 1e-6, farthest = 0.7;
    size_t D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *delta = wv_arena_take(arena, k), first = *cost;
    wv_bend_row *rows = (wv_bend_row *)(void *)wv_arena_take(arena, k * (sizeof *rows / sizeof(double) + 1));
    for (size_t j = 0; j < r; j++)
        for (size_t i = 0; i < D; i++) {
            const double *axis = b->basis + i * D;
            double far = cblas_dnrm2((int)k, axis + r, 1) / fabs(axis[j]);
            if (!(far > nearest && far < farthest))
                continue;
            memcpy(delta, axis + r, k * sizeof *delta);
            cblas_dscal((int)k, 1 / axis[j], delta, 1);
            memcpy(rows, b->row + r, k * sizeof *rows);
            wv_bend_lean(b, j, delta);
            wv_bend_seen_from(p, b, s);
            double now = fit_rows(s, b, false, arena);
            if (now < wv_policy.bend_lean_gain * *cost) {
                *cost = now;
                continue;
            }
            cblas_dscal((int)k, -1, delta, 1);
            wv_bend_lean(b, j, delta);
            wv_bend_seen_from(p, b, s);
            for (size_t c = 0; c < k; c++)
                wv_bend_set_row(b, r + c, &rows[c]);
        }
    wv_arena_release(arena, mark);
    return *cost < first;
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

/* Arguments lean, unless that gains little; false: then all is as it was. */
static bool lean_arguments(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, double *cost, wv_arena *arena)
{
    size_t D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *delta = wv_arena_take(arena, r * k);
    wv_bend_row *rows = (wv_bend_row *)(void *)wv_arena_take(arena, k * (sizeof *rows / sizeof(double) + 1));
    size_t axes = 0;
    memcpy(rows, b->row + r, k * sizeof *rows);
    for (size_t j = 0; j < r; j++)
        axes += is_axis(b, j);
    memset(delta, 0, r * k * sizeof *delta);
    for (size_t j = 0; j < r; j++)
        if (axes == r || !is_axis(b, j))
            lean_one(s, b, j, delta + j * k, arena);
    double now = fit_rows(s, b, false, arena);
    bool better = now < (axes == r ? wv_policy.bend_lean_gain : wv_policy.bend_turn_gain) * *cost;
    if (better)
        *cost = now;
    else {
        cblas_dscal((int)(r * k), -1, delta, 1);
        for (size_t j = 0; j < r; j++)
            wv_bend_lean(b, j, delta + j * k);
        wv_bend_seen_from(p, b, s);
        for (size_t c = 0; c < k; c++)
            wv_bend_set_row(b, r + c, &rows[c]);
    }
    wv_arena_release(arena, mark);
    return better;
}

void wv_bend_others_fit(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, bool anew, wv_arena *arena)
{
    size_t D = s->D, r = s->r;
    wv_bend_clear_layers(b);
    wv_bend_seen_from(p, b, s);
    double cost = fit_rows(s, b, anew, arena);
    if (p->round <= 2 && D > r)
        exchange_axes(p, s, b, &cost, arena);
    for (size_t i = 0; i < (size_t)wv_policy.bend_leans && D > r && lean_arguments(p, s, b, &cost, arena);)
        i++;
    for (size_t i = 0; i < (size_t)wv_policy.bend_turns && D - r > 1 && turn_basis(p, s, b, &cost, arena);)
        i++;
    for (size_t c = r; c < D; c++)
        wv_bend_seen_undo_row(s, &b->row[c], c, arena);
    for (size_t l = 0; l < (size_t)wv_policy.bend_layers && D - r > 1; l++)
        if (!fit_layer(s, b, arena))
            break;
}
