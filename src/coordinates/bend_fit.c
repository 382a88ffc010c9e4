/* bend_fit.c - arguments of a bend, and its fit to scores (bend_fit.h). In whitened coordinates z a Gaussian has the
 * scores -z. What is left, rho = L'g + z, is regressed on t z and t^2 for every candidate t: where that explains much,
 * scales or locations of the others depend on t. */
#include "coordinates/bend_fit.h"
#include "dense.h"
#include "error.h"
#include "memory.h"
#include "policy.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the pool ---------------------------------------------------------------------------------------------------- */
size_t wv_bend_batch(size_t D)
{
    size_t n = (size_t)fmax(wv_policy.bend_batch, wv_policy.bend_batch_dimension * (double)D);
    return n + n % 2;
}

/* Batches for a map: each look that finds more arguments goes back to round 2. */
static size_t most_batches(void)
{
    return (size_t)(wv_policy.bend_rounds + wv_policy.bend_looks * (wv_policy.bend_rounds_look - 2));
}

bool wv_bend_pool_new(wv_bend_pool *p, size_t D)
{
    p->D = D;
    p->ring = D ? (size_t)fmin(wv_policy.bend_points + wv_policy.bend_points_dimension * (double)D,
                               wv_policy.bend_memory / (double)D)
                : 0;
    p->room = D ? p->ring + most_batches() * wv_bend_batch(D) : 0;
    const wv_slot slots[] = {{&p->x, wv_times(p->room, D)},
                             {&p->g, wv_times(p->room, D)},
                             {&p->log_p, p->room},
                             {&p->born, p->room}};
    p->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_AS_IT_IS);
    return p->memory != NULL;
}

void wv_bend_pool_free(wv_bend_pool *p)
{
    free(p->memory);
}

typedef struct {
    size_t n, next, round, batch, looks;
} counts;

bool wv_bend_pool_archive(wv_bend_pool *p, wv_archive *a)
{
    counts c = {p->n, p->next, p->round, p->batch, p->looks};
    wv_archive_values(a, &c, sizeof c);
    if (c.n > p->room || c.next > p->room || (double)c.round > wv_policy.bend_rounds + 1 ||
        (double)c.looks > wv_policy.bend_looks || c.batch > most_batches() + 1)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        p->n = c.n;
        p->next = c.next;
        p->round = c.round;
        p->batch = c.batch;
        p->looks = c.looks;
    }
    wv_archive_array(a, p->x, c.n * p->D);
    wv_archive_array(a, p->g, c.n * p->D);
    wv_archive_array(a, p->log_p, c.n);
    wv_archive_array(a, p->born, c.n);
    return true;
}

void wv_bend_pool_clear(wv_bend_pool *p)
{
    p->n = p->next = p->round = p->batch = p->looks = 0;
}

void wv_bend_pool_reopen(wv_bend_pool *p)
{
    p->round = p->batch = p->looks = 0;
    p->next = p->n % p->ring;
    memset(p->born, 0, p->n * sizeof *p->born);
}

void wv_bend_pool_take(wv_bend_pool *p, size_t n, const double *x, const double *log_p, const double *grad)
{
    size_t D = p->D, most = p->round ? p->room : p->ring;
    for (size_t i = 0; i < n && D; i++) {
        if (!isfinite(log_p[i]) || (p->round && p->n == most))
            continue;
        size_t at = p->round ? p->n : p->next % most;
        memcpy(p->x + at * D, x + i * D, D * sizeof *x);
        memcpy(p->g + at * D, grad + i * D, D * sizeof *grad);
        p->log_p[at] = log_p[i];
        p->born[at] = (double)p->batch;
        p->next = (at + 1) % most;
        p->n = p->n < at + 1 ? at + 1 : p->n;
    }
}

/* ---- regressions ------------------------------------------------------------------------------------------------- */
/* S[p][p] (lower half) becomes its Cholesky factor after a ridge; false: it has none. */
static bool factor(size_t p, double *S)
{
    const double relative = 1e-8, absolute = 1e-14;
    for (size_t i = 0; i < p; i++)
        S[i * p + i] += relative * S[i * p + i] + absolute;
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, S, (lapack_int)p) == 0;
}

/* B[p][q] <- S^-1 B; S is overwritten. */
static bool solve(size_t p, double *S, size_t q, double *B)
{
    if (!factor(p, S))
        return false;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)p, (int)q, 1.0, S, (int)p, B,
                (int)q);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, (int)p, (int)q, 1.0, S, (int)p, B,
                (int)q);
    return true;
}

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

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* Points around a Gaussian, whitened, with what it leaves of the scores; both times a weight against outliers. */
typedef struct {
    size_t n, D, columns, most; /* columns of Q, and at most */
    double *z, *rho;            /* [n][D] */
    double *weight;             /* [n] */
    double *Q;                  /* [n][most] orthonormal: what has been regressed on so far */
    double *E;                  /* [n][D] weighted rho without that */
} looked;

/* Only the last points stay, of all that are within reach. */
static size_t keep_last(wv_bend_pool *p, size_t kept, looked *l)
{
    size_t D = p->D, most = (size_t)(wv_policy.bend_fit_points + wv_policy.bend_fit_points_dimension * (double)D);
    if (kept <= most)
        return kept;
    double *arrays[] = {p->x, p->g, l->z, l->rho};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        memmove(arrays[k], arrays[k] + (kept - most) * D, most * D * sizeof(double));
    memmove(p->log_p, p->log_p + kept - most, most * sizeof(double));
    memmove(p->born, p->born + kept - most, most * sizeof(double));
    return most;
}

/* Points of the pool within reach of the Gaussian, compacted; whitened, and their residual scores. */
static size_t whiten(wv_bend_pool *p, const double *mu, const double *root, looked *l)
{
    size_t D = p->D, kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        double *z = l->z + kept * D, *rho = l->rho + kept * D, square = 0, size = 0;
        for (size_t k = 0; k < D; k++)
            z[k] = p->x[i * D + k] - mu[k];
        cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, root, (int)D, z, 1);
        memcpy(rho, p->g + i * D, D * sizeof *rho);
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)D, root, (int)D, rho, 1);
        for (size_t k = 0; k < D; k++) {
            square += z[k] * z[k];
            rho[k] += z[k];
            size += rho[k] * rho[k];
        }
        if (!(square < wv_policy.bend_reach * (double)D) || !isfinite(size))
            continue;
        memmove(p->x + kept * D, p->x + i * D, D * sizeof(double));
        memmove(p->g + kept * D, p->g + i * D, D * sizeof(double));
        p->log_p[kept] = p->log_p[i];
        p->born[kept] = p->born[i];
        kept++;
    }
    return keep_last(p, kept, l);
}

static void weigh(looked *l, wv_arena *arena)
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
static bool regress_on(looked *l, size_t p, double *Z, wv_arena *arena)
{
    size_t n = l->n, mark = wv_arena_mark(arena);
    double *G = wv_arena_zeros(arena, p * p);
    project(n, l->columns, l->most, l->Q, p, Z, arena);
    wv_dense_cross(n, p, Z, p, Z, true, G);
    bool good = l->columns + p <= l->most && factor(p, G);
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
static void bent_terms(const looked *l, const double *v, double *Z)
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
static double judge(const looked *l, const double *v, wv_arena *arena)
{
    size_t n = l->n, D = l->D, p = D + 1, mark = wv_arena_mark(arena);
    double *Z = wv_arena_take(arena, n * p), *G = wv_arena_zeros(arena, p * p), *C = wv_arena_zeros(arena, p * D);
    bent_terms(l, v, Z);
    project(n, l->columns, l->most, l->Q, p, Z, arena);
    wv_dense_cross(n, p, Z, p, Z, true, G);
    wv_dense_cross(n, p, Z, D, l->E, false, C);
    double total = cblas_ddot((int)(n * D), l->E, 1, l->E, 1), share = 0;
    if (factor(p, G) && total > 0) {
        cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)p, (int)D, 1.0, G, (int)p, C,
                    (int)D);
        double explained = cblas_ddot((int)(p * D), C, 1, C, 1), free = (double)(n - l->columns);
        share = 1 - (total - explained) / (free - (double)p) / (total / free);
    }
    wv_arena_release(arena, mark);
    return share;
}

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
static double best_axis(const looked *l, const double *root, size_t q, const double *O, double *v, size_t *axis,
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
static bool improve(const looked *l, size_t q, const double *O, double *v, wv_arena *arena)
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
    bool good = solve(D, G, D, C);
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
    good = good && solve(D, H, 1, step) && isfinite(cblas_dnrm2((int)D, step, 1));
    if (good) {
        cblas_daxpy((int)D, 1.0, step, 1, v, 1);
        orthogonal(D, q, O, v);
    }
    wv_arena_release(arena, mark);
    return good;
}

/* The direction near v that explains most, best[D]; returns its share. */
static double best_direction(const looked *l, size_t q, const double *O, const double *v, double *best, wv_arena *arena)
{
    enum { STEPS = 8 };
    memcpy(best, v, l->D * sizeof *v);
    for (size_t i = 0; i < STEPS && improve(l, q, O, best, arena);)
        i++;
    return judge(l, best, arena);
}

/* The direction near the axis v takes its place if it explains much more. *share becomes its share; false: the axis
 * stays. */
static bool leave_axis(const looked *l, size_t q, const double *O, double *v, double *share, wv_arena *arena)
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
static size_t pick(looked *l, const double *root, size_t known, size_t most, double *a, wv_arena *arena)
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
        r++;
        if (!is_axis) /* what it leaves is seen better through its map */
            break;
        bent_terms(l, O + (r - 1) * D, Z);
        room = regress_on(l, D + 1, Z, arena);
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
static bool sum_slices(const looked *l, size_t r, const double *a, const double *F, double *S, wv_arena *arena)
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
    bool good = solve(p, G, k, C);
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
static void turn_rest(const looked *l, size_t r, const double *a, double *F, wv_arena *arena)
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

/* ---- fits -------------------------------------------------------------------------------------------------------- */
/* The pool in the coordinates of the bend. */
typedef struct {
    size_t n, D, r;
    double *w, *g;  /* [n][D] coordinates, and scores by them */
    double *weight; /* [n], sum 1 */
    double *y, *q;  /* [n] one coordinate, and its scores */
} bent_pool;

static void see_points(const wv_bend_pool *p, const wv_bend *b, const bent_pool *s)
{
    size_t D = p->D;
    double *away = s->g; /* scratch until the gradients come */
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < D; k++)
            away[i * D + k] = p->x[i * D + k] - b->centre[k];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->n, (int)D, (int)D, 1.0, away, (int)D, b->inverse,
                (int)D, 0.0, s->w, (int)D);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)p->n, (int)D, (int)D, 1.0, p->g, (int)D, b->basis,
                (int)D, 0.0, s->g, (int)D);
}

/* Newer points count more, and those where the present map, through which the others have gone, can be right. */
static void weigh_points(const wv_bend_pool *p, double reach, bent_pool *s)
{
    size_t D = s->D, k = D - s->r;
    double total = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double *w = s->w + i * D;
        double far = 0, square = 0;
        for (size_t c = 0; c < s->r; c++)
            far = fmax(far, fabs(w[c]));
        for (size_t c = s->r; c < D; c++)
            square += w[c] * w[c] / (double)k;
        double rest = square / (1 + 3 / sqrt(fmax((double)k, 1))), out = fmax(far - reach, 0);
        double weight = pow(wv_policy.bend_age, (double)p->batch - p->born[i]) / (1 + rest * rest * rest * rest) /
                        (1 + out * out * out * out);
        total += s->weight[i] = isfinite(weight) ? weight : 0;
    }
    for (size_t i = 0; i < s->n; i++)
        s->weight[i] /= fmax(total, 1e-300);
}

/* Points whose scores of the others are far from standard normal, in mean squares of that size, count little. */
static void doubt_points(const bent_pool *s, double size)
{
    size_t D = s->D, k = D - s->r;
    for (size_t i = 0; i < s->n; i++) {
        double square = 0;
        for (size_t c = s->r; c < D; c++)
            square += pow(s->g[i * D + c] + s->w[i * D + c], 2) / (double)k;
        square = isfinite(square) ? square : INFINITY;
        s->weight[i] /= 1 + pow(square / size, 2);
    }
}

/* Number c of the coordinates. */
static wv_bend_points points_of(const bent_pool *s, size_t c)
{
    return (wv_bend_points){s->n, s->D, s->D, s->w, s->w + c, s->g + c, s->weight};
}

/* Arguments of row c among the first `most`: all, or those whose terms explain most of its scores, one by one. */
static void choose_parents(const bent_pool *s, size_t c, size_t most, wv_bend_row *row)
{
    row->parents = most < WV_BEND_PARENTS ? most : WV_BEND_PARENTS;
    for (size_t k = 0; k < row->parents; k++)
        row->parent[k] = k;
    if (most <= WV_BEND_PARENTS)
        return;
    double best[WV_BEND_PARENTS] = {0};
    row->parents = 0;
    for (size_t j = 0; j < most; j++) { /* correlation of rho with t y and with t^2 - 1 */
        double xy[3] = {0}, xx[3] = {1e-12, 1e-12, 1e-12}, yy = 1e-12;
        for (size_t i = 0; i < s->n; i++) {
            double t = s->w[i * s->D + j], y = s->w[i * s->D + c], rho = s->g[i * s->D + c] + y,
                   w = s->weight[i] / fmax(1, rho * rho / 9), f[3] = {t * y, t * t - 1, t};
            yy += w * rho * rho;
            for (size_t k = 0; k < 3; k++) {
                xy[k] += w * rho * f[k];
                xx[k] += w * f[k] * f[k];
            }
        }
        double share = 0;
        for (size_t k = 0; k < 3; k++)
            share = fmax(share, xy[k] * xy[k] / xx[k] / yy);
        size_t at = row->parents < WV_BEND_PARENTS ? row->parents++ : WV_BEND_PARENTS;
        for (; at > 0 && share > best[at - 1]; at--)
            if (at < WV_BEND_PARENTS) {
                best[at] = best[at - 1];
                row->parent[at] = row->parent[at - 1];
            }
        if (at < WV_BEND_PARENTS) {
            best[at] = share;
            row->parent[at] = j;
        }
    }
}

/* Row c is fitted to the scores. */
static double fit_row(const bent_pool *s, wv_bend *b, size_t c, bool anew, wv_arena *arena)
{
    wv_bend_row row = b->row[c];
    size_t most = c < s->r ? c : s->r;
    if (anew)
        choose_parents(s, c, most, &row);
    if (!row.parents && c < s->r)
        return 0;
    wv_bend_points p = points_of(s, c);
    double ridge = c < s->r ? wv_policy.bend_ridge_layer : wv_policy.bend_ridge,
           cost = wv_bend_row_fit(&row, &p, ridge, anew, arena);
    wv_bend_set_row(b, c, &row);
    return cost;
}

/* Coordinate c and its scores through its row: the arguments get what it says of them. */
static void undo_row(const bent_pool *s, const wv_bend_row *row, size_t c, wv_arena *arena)
{
    size_t D = s->D, mark = wv_arena_mark(arena);
    wv_bend_places p = wv_bend_row_places(row, s->n, s->w, D, true, arena);
    for (size_t i = 0; i < s->n; i++) {
        double *w = s->w + i * D, *g = s->g + i * D, scaled = g[c] * p.scale[i], v = (w[c] - p.m[i]) / p.scale[i];
        for (size_t k = 0; k < row->parents; k++)
            g[row->parent[k]] += (scaled * v + 1) * p.ds[k * p.apart + i] + g[c] * p.dm[k * p.apart + i];
        g[c] = scaled;
        w[c] = v;
    }
    wv_arena_release(arena, mark);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */
/* The others, and their scores, in the basis T [k][k], or back from it. */
static void turn_others(const bent_pool *s, const double *T, bool back, wv_arena *arena)
{
    size_t D = s->D, r = s->r, k = D - r, mark = wv_arena_mark(arena);
    double *to = wv_arena_take(arena, s->n * k), *arrays[] = {s->w, s->g};
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, back ? CblasTrans : CblasNoTrans, (int)s->n, (int)k, (int)k, 1.0,
                    arrays[a] + r, (int)D, T, (int)k, 0.0, to, (int)k);
        for (size_t i = 0; i < s->n; i++)
            memcpy(arrays[a] + i * D + r, to + i * k, k * sizeof *to);
    }
    wv_arena_release(arena, mark);
}

/* Weights of the points in regressions of what is left of the scores of the others: less for outliers. */
static void weigh_residuals(const bent_pool *s, double *weight, wv_arena *arena)
{
    size_t D = s->D, k = D - s->r;
    for (size_t i = 0; i < s->n; i++) {
        weight[i] = 0;
        for (size_t c = s->r; c < D; c++)
            weight[i] += pow(s->g[i * D + c] + s->w[i * D + c], 2) / (double)k;
        weight[i] = isfinite(weight[i]) ? sqrt(weight[i]) : INFINITY;
    }
    double far = wv_policy.bend_outlier * wv_weights_smallest(s->n, weight, s->n / 2, arena) + 1e-9;
    for (size_t i = 0; i < s->n; i++)
        weight[i] = isfinite(weight[i]) ? s->weight[i] / pow(fmax(1, weight[i] / far), 2) : 0;
}

/* T [k][k]: eigenvectors, in columns, of the largest slice d rho / d(t_j u) of what is left of the scores. */
static bool largest_slice(const bent_pool *s, double *T, wv_arena *arena)
{
    size_t n = s->n, D = s->D, r = s->r, k = D - r, p = 1 + k + 2 * r + r * k, mark = wv_arena_mark(arena);
    double *Z = wv_arena_zeros(arena, n * p), *Y = wv_arena_zeros(arena, n * k), *G = wv_arena_zeros(arena, p * p),
           *C = wv_arena_zeros(arena, p * k), *weight = wv_arena_take(arena, n), *S = wv_arena_take(arena, k * k),
           *e = wv_arena_take(arena, k), *work = wv_arena_take(arena, wv_dense_eigh_work(k)), largest = 0;
    weigh_residuals(s, weight, arena);
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
    bool good = solve(p, G, k, C);
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
static bool fit_layer(const bent_pool *s, wv_bend *b, wv_arena *arena)
{
    size_t r = s->r, k = s->D - r, mark = wv_arena_mark(arena);
    double *T = wv_arena_take(arena, k * k);
    wv_bend_row *rows = (wv_bend_row *)(void *)wv_arena_take(arena, k * (sizeof *rows / sizeof(double) + 1));
    bool good = largest_slice(s, T, arena);
    if (good) {
        turn_others(s, T, false, arena);
        for (size_t c = 0; c < k; c++) {
            wv_bend_row_clear(&rows[c]);
            choose_parents(s, r + c, r, &rows[c]);
            wv_bend_points p = points_of(s, r + c);
            wv_bend_row_fit(&rows[c], &p, wv_policy.bend_ridge_layer, true, arena);
        }
        for (size_t c = 0; c < k; c++)
            undo_row(s, &rows[c], r + c, arena);
        turn_others(s, T, true, arena);
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
static void find_turns(const bent_pool *s, const wv_bend *b, double *W, wv_arena *arena)
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

/* Rows of the others; returns the sum of their costs. */
static double fit_rows(const bent_pool *s, wv_bend *b, bool anew, wv_arena *arena)
{
    double cost = 0;
    for (size_t c = s->r; c < s->D; c++)
        cost += fit_row(s, b, c, anew, arena);
    return cost;
}

/* Turns the others, unless that gains little; false: then all is as it was. */
static bool turn_basis(const wv_bend_pool *p, const bent_pool *s, wv_bend *b, double *cost, wv_arena *arena)
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
    see_points(p, b, s);
    double now = fit_rows(s, b, false, arena);
    bool better = now < wv_policy.bend_turn_gain * *cost;
    if (better)
        *cost = now;
    else {
        wv_bend_rotate(b, back, arena);
        see_points(p, b, s);
        for (size_t c = 0; c < k; c++)
            wv_bend_set_row(b, r + c, &rows[c]);
    }
    wv_arena_release(arena, mark);
    return better;
}

/* ---- directions of the arguments --------------------------------------------------------------------------------- */
/* All points after argument j has leant by `share` of delta. */
static void lean_points(const bent_pool *s, size_t j, const double *delta, double share)
{
    size_t r = s->r, k = s->D - r;
    for (size_t i = 0; i < s->n; i++) {
        double *w = s->w + i * s->D, *g = s->g + i * s->D;
        w[j] += share * cblas_ddot((int)k, delta, 1, w + r, 1);
        cblas_daxpy((int)k, -share * g[j], delta, 1, g + r, 1);
    }
}

static double cost_of_rows(const bent_pool *s, const wv_bend *b, wv_arena *arena)
{
    double cost = 0;
    for (size_t c = s->r; c < s->D; c++) {
        wv_bend_points p = points_of(s, c);
        cost += wv_bend_row_cost(&b->row[c], &p, arena);
    }
    return isfinite(cost) ? cost : INFINITY;
}

/* Sums over the others at a point: half the squares of their residuals as argument j leans. */
typedef struct {
    double aa, ar;                      /* of squares of da, and with the residual */
    double *cross, *own, *own_residual; /* [k] */
} lean_sums;

/* Residuals of the rows at point i, as argument j leans by delta: e^s (g - delta g_j) + e^-s (y - m) with s and m at
 * t_j
 * + delta.y. False: the point does not count. */
static bool lean_at(const bent_pool *s, const wv_bend *b, size_t i, size_t j, lean_sums *t)
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
static bool find_lean(const bent_pool *s, const wv_bend *b, size_t j, double *delta, wv_arena *arena)
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
    bool good = solve(k, H, 1, delta);
    double length = cblas_dnrm2((int)k, delta, 1);
    good = good && isfinite(length) && length > 0;
    cblas_dscal((int)k, fmin(1, longest / fmax(length, 1e-300)), delta, 1);
    wv_arena_release(arena, mark);
    return good;
}

/* Argument j leans as far as that helps; delta[k] becomes what it has leant by. */
static void lean_one(const bent_pool *s, wv_bend *b, size_t j, double *delta, wv_arena *arena)
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
static bool exchange_axes(const wv_bend_pool *p, const bent_pool *s, wv_bend *b, double *cost, wv_arena *arena)
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
            see_points(p, b, s);
            double now = fit_rows(s, b, false, arena);
            if (now < wv_policy.bend_lean_gain * *cost) {
                *cost = now;
                continue;
            }
            cblas_dscal((int)k, -1, delta, 1);
            wv_bend_lean(b, j, delta);
            see_points(p, b, s);
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
static bool lean_arguments(const wv_bend_pool *p, const bent_pool *s, wv_bend *b, double *cost, wv_arena *arena)
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
        see_points(p, b, s);
        for (size_t c = 0; c < k; c++)
            wv_bend_set_row(b, r + c, &rows[c]);
    }
    wv_arena_release(arena, mark);
    return better;
}

/* Mean square of v(u) - u for a standard normal u. */
static double departs(const wv_bend_line *line)
{
    double sum = 0, total = 0;
    for (double u = -3; u <= 3; u += 0.25) {
        double w = exp(-u * u / 2), d = wv_bend_line_at(line, u).v - u;
        sum += w * d * d;
        total += w;
    }
    return sum / total;
}

/* The line of coordinate c, whose values and scores are those of v. */
static wv_bend_line fit_line(const bent_pool *s, size_t c, double least, wv_arena *arena)
{
    const double far = 28;
    wv_bend_line line;
    size_t n = 0, mark = wv_arena_mark(arena);
    double *weight = wv_arena_take(arena, s->n);
    for (size_t i = 0; i < s->n; i++)
        if (fabs(s->w[i * s->D + c]) < far && isfinite(s->g[i * s->D + c]) &&
            s->weight[i] * (double)s->n > wv_policy.bend_line_weight) {
            s->y[n] = s->w[i * s->D + c];
            s->q[n] = s->g[i * s->D + c];
            weight[n++] = s->weight[i];
        }
    wv_bend_line_fit(&line, n, s->y, s->q, weight, arena);
    if (line.curved && departs(&line) < least)
        wv_bend_line_clear(&line);
    wv_arena_release(arena, mark);
    return line;
}

/* Scores of the arguments regressed on (1, t): precision P[r][r], clipped, and mean mu[r]; C[r][r] its inverse. */
static bool fit_gaussian(const bent_pool *s, double *mu, double *C, wv_arena *arena)
{
    size_t r = s->r, p = 1 + r, D = s->D, mark = wv_arena_mark(arena);
    double *A = wv_arena_zeros(arena, p * p), *B = wv_arena_zeros(arena, p * r), *f = wv_arena_take(arena, p),
           *size = wv_arena_take(arena, s->n), *P = wv_arena_take(arena, r * r), *e = wv_arena_take(arena, r),
           *work = wv_arena_take(arena, wv_dense_eigh_work(r)), *spare = wv_arena_take(arena, r * r);
    for (size_t i = 0; i < s->n; i++) {
        size[i] = 0;
        for (size_t c = 0; c < r; c++)
            size[i] += pow(s->g[i * D + c] + s->w[i * D + c], 2) / (double)r;
        size[i] = isfinite(size[i]) ? sqrt(size[i]) : INFINITY;
    }
    double far = wv_policy.bend_outlier * wv_weights_smallest(s->n, size, s->n / 2, arena) + 1e-9;
    for (size_t i = 0; i < s->n; i++) {
        double w = isfinite(size[i]) ? s->weight[i] / fmax(1, size[i] / far) : 0;
        if (!(w > 0))
            continue;
        f[0] = 1;
        memcpy(f + 1, s->w + i * D, r * sizeof *f);
        cblas_dsyr(CblasRowMajor, CblasLower, (int)p, w, f, 1, A, (int)p);
        cblas_dger(CblasRowMajor, (int)p, (int)r, w, f, 1, s->g + i * D, 1, B, (int)r);
    }
    bool good = solve(p, A, r, B);
    for (size_t i = 0; i < r && good; i++)
        for (size_t j = 0; j < r; j++)
            P[i * r + j] = -(B[(1 + i) * r + j] + B[(1 + j) * r + i]) / 2;
    good = good && wv_dense_eigh(r, P, e, work);
    for (size_t i = 0; i < r && good; i++)
        e[i] = 1 / fmin(fmax(e[i], wv_policy.bend_narrow), 1 / wv_policy.bend_narrow);
    if (good) {
        wv_dense_rebuild(r, P, e, C, spare);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)r, (int)r, 1.0, C, (int)r, B, 1, 0.0, mu, 1);
        double length = cblas_dnrm2((int)r, mu, 1);
        cblas_dscal((int)r, fmin(1, 2 / fmax(length, 1e-9)), mu, 1);
    }
    wv_arena_release(arena, mark);
    return good;
}

/* Row j of an argument that is Gaussian given those before it: R[r][r] their correlations. */
static wv_bend_row linear_row(size_t r, size_t j, const double *R, wv_arena *arena)
{
    wv_bend_row row;
    size_t mark = wv_arena_mark(arena);
    wv_bend_row_clear(&row);
    double *S = wv_arena_take(arena, j * j + 1), *c = wv_arena_take(arena, j + 1), left = 1;
    if (j && j <= WV_BEND_PARENTS) {
        for (size_t i = 0; i < j; i++) {
            c[i] = R[j * r + i];
            memcpy(S + i * j, R + i * r, j * sizeof *S);
        }
        bool good = factor(j, S) && LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)j, 1, S, (lapack_int)j, c,
                                                        (lapack_int)j) == 0;
        for (size_t i = 0; i < j && good; i++)
            left -= c[i] * R[j * r + i];
        row.parents = good ? j : 0;
        for (size_t i = 0; i < row.parents; i++) {
            row.parent[i] = i;
            row.location[0][1 + i] = row.location[1][1 + i] = c[i];
        }
        row.precision[0][0] -= log(fmax(left, 1e-3));
        row.precision[1][0] = row.precision[0][0];
    }
    wv_arena_release(arena, mark);
    return row;
}

/* The arguments become standard: each is shifted and scaled, and depends linearly on those before it. */
static void standardise(const bent_pool *s, wv_bend *b, wv_arena *arena)
{
    size_t r = s->r, mark = wv_arena_mark(arena);
    double *mu = wv_arena_take(arena, r), *C = wv_arena_take(arena, r * r), *d = wv_arena_take(arena, r);
    if (fit_gaussian(s, mu, C, arena)) {
        for (size_t j = 0; j < r; j++)
            d[j] = sqrt(C[j * r + j]);
        for (size_t j = 0; j < r; j++)
            wv_bend_rescale(b, j, mu[j], d[j], arena);
        for (size_t i = 0; i < r; i++)
            for (size_t j = 0; j < r; j++)
                C[i * r + j] /= d[i] * d[j];
        for (size_t j = 0; j < r; j++) {
            wv_bend_row row = linear_row(r, j, C, arena);
            wv_bend_set_row(b, j, &row);
        }
    }
    wv_arena_release(arena, mark);
}

/* Share of the squares of v(u) that no straight line explains, u being a little wider than normal. */
static double crooked(const wv_bend_line *line)
{
    double n = 0, v1 = 0, uv = 0, uu = 0, vv = 0;
    for (double u = -3.5; u <= 3.5; u += 0.1) {
        double w = exp(-u * u / 4), v = wv_bend_line_at(line, u).v;
        n += w;
        v1 += w * v;
        uv += w * u * v;
        uu += w * u * u;
        vv += w * v * v;
    }
    vv -= v1 * v1 / n;
    return 1 - uv * uv / (uu * vv);
}

/* Arguments 0 and c change places, of the map and of its points. */
static void swap_arguments(const bent_pool *s, wv_bend *b, size_t c)
{
    wv_bend_swap(b, 0, c);
    for (size_t i = 0; i < s->n && c; i++) {
        double *w = s->w + i * s->D, *g = s->g + i * s->D, keep = w[0];
        w[0] = w[c];
        w[c] = keep;
        keep = g[0];
        g[0] = g[c];
        g[c] = keep;
    }
}

/* The argument that is least Gaussian comes first: tails of the others depend on it. */
static void order_arguments(const bent_pool *s, wv_bend *b, wv_arena *arena)
{
    const double much = 1.2;
    size_t worst = 0;
    double first = 0, most = 0;
    for (size_t c = 0; c < s->r; c++) {
        wv_bend_line line = fit_line(s, c, 0, arena);
        double by = crooked(&line);
        first = c ? first : by;
        if (by > most) {
            most = by;
            worst = c;
        }
    }
    if (worst && !(most < much * first))
        swap_arguments(s, b, worst);
}

/* Points were drawn wider than normal along argument c: for the arguments before it, whose scores are means over it,
 * those far out count less. */
static void narrow_weights(const bent_pool *s, const wv_bend_line *line, size_t c)
{
    const double rate = 0.35;
    for (size_t i = 0; i < s->n; i++) {
        double u = wv_bend_line_inverse(line, s->w[i * s->D + c]);
        s->weight[i] *= exp(-rate * u * u);
    }
}

/* What the fit leaves of the scores of the arguments, by a loss that far points hardly touch. */
static double cost_of_arguments(const bent_pool *s, const wv_bend *b, const double *weight)
{
    double sum = 0, total = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t c = 0; c < s->r; c++) {
            double u = wv_bend_line_inverse(&b->line[c], s->w[i * s->D + c]);
            wv_bend_turn t = wv_bend_line_at(&b->line[c], u);
            double left = s->g[i * s->D + c] * t.slope + t.log_slope_change + u;
            sum += isfinite(left) ? weight[i] * left * left / (1 + left * left) : weight[i];
            total += weight[i];
        }
    return sum / fmax(total, 1e-300);
}

static void fit_lines_of_others(const bent_pool *s, wv_bend *b, wv_arena *arena)
{
    for (size_t c = s->r; c < s->D; c++) {
        wv_bend_line line = fit_line(s, c, wv_policy.bend_line_departs, arena);
        wv_bend_set_line(b, c, &line);
    }
}

/* Rows and lines of the arguments, last first. */
static void fit_arguments(const bent_pool *s, wv_bend *b, bool anew, wv_arena *arena)
{
    enum { FEW = 3 }; /* of more, hardly a point would count */
    for (size_t c = s->r; c-- > 0;) {
        fit_row(s, b, c, anew, arena);
        undo_row(s, &b->row[c], c, arena);
        wv_bend_line line = fit_line(s, c, 0, arena);
        wv_bend_set_line(b, c, &line);
        if (s->r <= FEW)
            narrow_weights(s, &line, c);
    }
}

/* The pool, to be used up. */
static bent_pool copy_pool(const bent_pool *s, wv_arena *arena)
{
    bent_pool to = *s;
    to.w = wv_arena_take(arena, s->n * s->D);
    to.g = wv_arena_take(arena, s->n * s->D);
    to.weight = wv_arena_take(arena, s->n);
    memcpy(to.w, s->w, s->n * s->D * sizeof *s->w);
    memcpy(to.g, s->g, s->n * s->D * sizeof *s->g);
    memcpy(to.weight, s->weight, s->n * sizeof *s->weight);
    return to;
}

/* The argument that comes first is that with which the others are fitted best. */
static void choose_first(const bent_pool *s, wv_bend *b, wv_arena *arena)
{
    size_t best = 0;
    double least = INFINITY;
    for (size_t c = 0; c < s->r && s->r > 1; c++) {
        size_t mark = wv_arena_mark(arena);
        bent_pool tried = copy_pool(s, arena);
        swap_arguments(&tried, b, c);
        fit_arguments(&tried, b, true, arena);
        double cost = cost_of_arguments(&tried, b, s->weight);
        wv_bend_swap(b, 0, c);
        wv_arena_release(arena, mark);
        if (cost < wv_policy.bend_first_gain * least) {
            least = cost;
            best = c;
        }
    }
    swap_arguments(s, b, best);
}

static void fit_all(const wv_bend_pool *p, wv_bend *b, bool anew, wv_arena *arena)
{
    size_t D = p->D, n = p->n, mark = wv_arena_mark(arena);
    bool final = (double)p->round >= wv_policy.bend_rounds_gaussian;
    bent_pool s = {n,
                   D,
                   b->r,
                   wv_arena_take(arena, n * D),
                   wv_arena_take(arena, n * D),
                   wv_arena_take(arena, n),
                   wv_arena_take(arena, n),
                   wv_arena_take(arena, n)};
    wv_bend_line straight;
    wv_bend_line_clear(&straight);
    wv_bend_clear_layers(b);
    for (size_t c = 0; c < D; c++)
        wv_bend_set_line(b, c, &straight);
    see_points(p, b, &s);
    for (size_t c = s.r; c < D; c++)
        undo_row(&s, &b->row[c], c, arena);
    weigh_points(p, wv_policy.bend_reach_arguments, &s);
    if (!anew) /* a map that was far too wide has drawn points where the density is nothing */
        doubt_points(&s, wv_policy.bend_doubt_rows);
    see_points(p, b, &s);
    double cost = fit_rows(&s, b, anew, arena);
    if (p->round <= 2 && D > s.r)
        exchange_axes(p, &s, b, &cost, arena);
    for (size_t i = 0; i < (size_t)wv_policy.bend_leans && D > s.r && lean_arguments(p, &s, b, &cost, arena);)
        i++;
    for (size_t i = 0; i < (size_t)wv_policy.bend_turns && D - s.r > 1 && turn_basis(p, &s, b, &cost, arena);)
        i++;
    for (size_t c = s.r; c < D; c++)
        undo_row(&s, &b->row[c], c, arena);
    for (size_t l = 0; l < (size_t)wv_policy.bend_layers && D - s.r > 1; l++)
        if (!fit_layer(&s, b, arena))
            break;
    if (p->round > 1 && (double)p->round <= wv_policy.bend_rounds_gaussian)
        order_arguments(&s, b, arena);
    if (final) {
        weigh_points(p, wv_policy.bend_clip, &s);
        /* where the others are not standard normal, scores of the arguments mean nothing: in the neck of a funnel, say
         */
        doubt_points(&s, wv_policy.bend_doubt);
        if ((double)p->round == wv_policy.bend_rounds_gaussian)
            choose_first(&s, b, arena);
        fit_lines_of_others(&s, b, arena);
        fit_arguments(&s, b, (double)p->round == wv_policy.bend_rounds_gaussian, arena);
    } else
        standardise(&s, b, arena);
    wv_arena_release(arena, mark);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */
static bool look(wv_bend_pool *p, wv_bend *b, const double *mu, const double *root, looked *l, wv_arena *arena)
{
    size_t D = p->D, most = D / 2 > 1 ? D / 2 : 1;
    double *a = wv_arena_take(arena, most * D), *F = wv_arena_take(arena, D * D), *basis = wv_arena_take(arena, D * D);
    weigh(l, arena);
    size_t r = pick(l, root, 0, most, a, arena);
    if (!r || !make_frame(D, r, a, F, arena))
        return false;
    turn_rest(l, r, a, F, arena);
    memcpy(basis, F, D * D * sizeof *F);
    cblas_dtrmm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, root, (int)D,
                basis, (int)D);
    return wv_bend_set_frame(b, r, mu, basis, arena);
}

bool wv_bend_find(wv_bend_pool *p, wv_bend *b, const double *mu, const double *root, wv_arena *arena)
{
    size_t D = p->D, n = p->n, mark = wv_arena_mark(arena);
    size_t most = (size_t)(wv_policy.bend_columns * (double)n) + 1;
    looked l = {.D = D,
                .most = most,
                .z = wv_arena_take(arena, n * D + D),
                .rho = wv_arena_take(arena, n * D + D),
                .weight = wv_arena_take(arena, n + 1),
                .Q = wv_arena_take(arena, n * most + 1),
                .E = wv_arena_take(arena, n * D + 1)};
    bool found = false;
    if (D > 1 && n > 0) {
        p->n = l.n = whiten(p, mu, root, &l);
        found = (double)l.n > wv_policy.bend_least * (double)D && look(p, b, mu, root, &l, arena);
    }
    if (found) {
        p->round = p->batch = 1;
        fit_all(p, b, true, arena);
        wv_bend_count(b, 1, 0);
    }
    wv_arena_release(arena, mark);
    return found;
}

/* Points near the present map, in its coordinates: the others and the arguments through their rows and layers. */
static void see_rest(const wv_bend_pool *p, const wv_bend *b, const bent_pool *s, looked *l, wv_arena *arena)
{
    const double least = 0.1;
    size_t D = p->D, r = b->r;
    see_points(p, b, s);
    for (size_t c = r; c < D; c++)
        undo_row(s, &b->row[c], c, arena);
    weigh_points(p, wv_policy.bend_reach_arguments, (bent_pool *)s);
    for (size_t i = 0; i < b->layers; i++) {
        turn_others(s, b->layer[i].turn, false, arena);
        for (size_t c = r; c < D; c++)
            undo_row(s, &b->layer[i].row[c - r], c, arena);
        turn_others(s, b->layer[i].turn, true, arena);
    }
    for (size_t c = r; c-- > 0;)
        undo_row(s, &b->row[c], c, arena);
    l->n = 0;
    for (size_t i = 0; i < s->n; i++) {
        double *z = l->z + l->n * D, *rho = l->rho + l->n * D, size = 0;
        memcpy(z, s->w + i * D, D * sizeof *z);
        for (size_t k = 0; k < D; k++) {
            rho[k] = s->g[i * D + k] + z[k];
            size += rho[k] * rho[k] + z[k] * z[k];
        }
        l->n += s->weight[i] * (double)s->n > least && isfinite(size);
    }
}

/* Looks for more arguments in what the present map leaves of the scores; true: there are some, and the map has been
 * fitted anew with them. */
static bool look_again(wv_bend_pool *p, wv_bend *b, wv_arena *arena)
{
    size_t D = p->D, n = p->n, most = D / 2, r = b->r, mark = wv_arena_mark(arena),
           columns = (size_t)(wv_policy.bend_columns * (double)n) + 1;
    bent_pool s = {n,
                   D,
                   r,
                   wv_arena_take(arena, n * D),
                   wv_arena_take(arena, n * D),
                   wv_arena_take(arena, n),
                   wv_arena_take(arena, n),
                   wv_arena_take(arena, n)};
    looked l = {.D = D,
                .most = columns,
                .z = wv_arena_take(arena, n * D),
                .rho = wv_arena_take(arena, n * D),
                .weight = wv_arena_take(arena, n),
                .Q = wv_arena_take(arena, n * columns),
                .E = wv_arena_take(arena, n * D)};
    double *a = wv_arena_zeros(arena, (most + 1) * D), *F = wv_arena_take(arena, D * D),
           *basis = wv_arena_take(arena, D * D);
    bool found = false;
    if (r < most) {
        see_rest(p, b, &s, &l, arena);
        for (size_t j = 0; j < r; j++)
            a[j * D + j] = 1;
        if ((double)l.n > wv_policy.bend_least * (double)D) {
            weigh(&l, arena);
            size_t now = pick(&l, b->basis, r, most, a, arena);
            found = now > r && make_frame(D, now, a, F, arena);
            if (found) {
                turn_rest(&l, now, a, F, arena);
                wv_dense_product(D, D, b->basis, D, F, 1, 0, basis);
                memcpy(F, b->centre, D * sizeof *F);
                found = wv_bend_set_frame(b, now, F, basis, arena);
            }
        }
    }
    wv_arena_release(arena, mark);
    return found;
}

void wv_bend_draw(const wv_bend_pool *p, const wv_bend *b, const wv_stream *stream, size_t n, double *x,
                  wv_arena *arena)
{
    enum { WIDTHS = 4 };
    static const double wide[WIDTHS] = {1.3, 1.3, 2, 3};
    size_t D = b->D, mark = wv_arena_mark(arena);
    double *u = wv_arena_take(arena, n * D);
    wv_rng_normal(stream, 0, n / 2 * D, u);
    for (size_t i = 0; i < n / 2; i++) {
        double by = p->round > 1 ? wide[i % WIDTHS] : wide[0];
        for (size_t k = 0; k < D; k++) {
            u[i * D + k] *= k < b->r ? by : 1;
            u[(n / 2 + i) * D + k] = -u[i * D + k];
        }
    }
    wv_bend_forward(b, n, u, x, NULL, arena);
    wv_arena_release(arena, mark);
}

bool wv_bend_learn(wv_bend_pool *p, wv_bend *b, size_t n, const double *x, const double *log_p, const double *grad,
                   wv_arena *arena)
{
    wv_bend_pool_take(p, n, x, log_p, grad);
    fit_all(p, b, false, arena);
    p->round++;
    p->batch++;
    if (p->round == (size_t)wv_policy.bend_rounds_look && (double)p->looks < wv_policy.bend_looks &&
        look_again(p, b, arena)) {
        p->looks++;
        p->round = 2;
        fit_all(p, b, true, arena);
    }
    return (double)p->round > wv_policy.bend_rounds;
}
