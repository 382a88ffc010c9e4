/* gaussian.c - the families, each a table of functions on its root. See gaussian.h for what a root is. */
#include "gaussian.h"
#include "rng.h"
#include "simd/columns.h"
#include "dense.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum {
    MOST = 128, /* dimensions up to which inverses are formed */
    FEW = 16,   /* rows from which on */
    ROWS = 64,  /* rows */
    STRIP = 8,  /* and columns of a product */
    FACTORS = 8 /* uniform numbers whose product is far from the end of the range */
};

static const double pi = 3.141592653589793238463;

/* ---- diag -------------------------------------------------------------------------------------------------------- */
static size_t diag_size(size_t D, size_t R)
{
    (void)R;
    return D;
}

static double diag_log_det(size_t D, size_t R, const double *s)
{
    double sum = 0;
    (void)R;
    for (size_t i = 0; i < D; i++)
        sum += log(s[i]);
    return sum;
}

static void diag_colour(size_t D, size_t R, const double *s, size_t n, double *y, wv_arena *arena)
{
    (void)R, (void)arena;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            y[k * D + i] *= s[i];
}

static void diag_whiten(size_t D, size_t R, const double *s, size_t n, double *x, wv_arena *arena)
{
    (void)R, (void)arena;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            x[k * D + i] /= s[i];
}

static void diag_set_sd(size_t D, size_t R, double *s, const double *sd)
{
    (void)R;
    memcpy(s, sd, D * sizeof *s);
}

static void diag_sd(size_t D, size_t R, const double *s, double *sd)
{
    (void)R;
    memcpy(sd, s, D * sizeof *sd);
}

static bool diag_absorb(size_t D, size_t R, double *s, double *C, wv_arena *arena)
{
    (void)R, (void)arena;
    for (size_t i = 0; i < D; i++)
        s[i] *= sqrt(C[i * D + i]);
    return true;
}

/* ---- full -------------------------------------------------------------------------------------------------------- */
static size_t full_size(size_t D, size_t R)
{
    (void)R;
    return D * D;
}

static double full_log_det(size_t D, size_t R, const double *L)
{
    double sum = 0;
    (void)R;
    for (size_t i = 0; i < D;) { /* a logarithm for several, as far as their product stays in the range of numbers */
        double product = L[i * D + i];
        for (i++; i < D && product > 1e-150 && product < 1e150 && L[i * D + i] > 1e-150 && L[i * D + i] < 1e150; i++)
            product *= L[i * D + i];
        sum += log(product);
    }
    return sum;
}

static void transpose(size_t D, const double *a, double *out)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            out[k * D + i] = a[i * D + k];
}

/* x <- x T, T a triangle with zeros in its other half, D <= MOST: products of a few rows with a strip of T are made
 * without copies, and most of the zeros are left out. */
static void multiply(size_t D, const double *T, bool upper, size_t n, double *x, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *rows = wv_arena_take(arena, ROWS * D);
    for (size_t first = 0; first < n; first += ROWS) {
        size_t here = n - first < ROWS ? n - first : ROWS;
        double *to = x + first * D;
        memcpy(rows, to, here * D * sizeof *x);
        for (size_t next = 0; next < D; next += STRIP) {
            size_t at = D < STRIP || next + STRIP <= D ? next : D - STRIP, /* the last strip is as wide */
                wide = D < STRIP ? D : STRIP, from = upper ? 0 : at, depth = upper ? at + wide : D - at;
            wv_columns_multiply(
                &(wv_product){here, wide, depth, rows + from, D, 1, T + from * D + at, D, to + at, D, false});
        }
    }
    wv_arena_release(arena, mark);
}

/* x <- x L'. */
static void times_transposed(size_t D, const double *L, size_t n, double *x, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *T = wv_arena_take(arena, D * D);
    transpose(D, L, T);
    multiply(D, T, true, n, x, arena);
    wv_arena_release(arena, mark);
}

/* x <- x L^-1, or x L'^-1. With many rows the product with the inverse is several times faster than solving. */
static void times_inverse(size_t D, const double *L, bool transposed, size_t n, double *x, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *inverse = wv_arena_take(arena, D * D);
    wv_dense_invert(D, L, inverse);
    if (transposed)
        times_transposed(D, inverse, n, x, arena);
    else
        multiply(D, inverse, false, n, x, arena);
    wv_arena_release(arena, mark);
}

static void full_colour(size_t D, size_t R, const double *L, size_t n, double *y, wv_arena *arena)
{
    (void)R;
    if (D <= MOST && n >= FEW)
        times_transposed(D, L, n, y, arena);
    else if (n == 1)
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, L, (int)D, y, 1);
    else
        cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)n, (int)D, 1.0, L, (int)D, y,
                    (int)D);
}

/* x <- L^-1 x. In few dimensions a call of the BLAS, which takes a lock, costs more than the work itself. */
static void substitute(size_t D, const double *L, double *x)
{
    for (size_t i = 0; i < D; i++) {
        double sum = x[i];
        for (size_t k = 0; k < i; k++)
            sum -= L[i * D + k] * x[k];
        x[i] = sum / L[i * D + i];
    }
}

static void full_whiten(size_t D, size_t R, const double *L, size_t n, double *x, wv_arena *arena)
{
    (void)R;
    if (D <= MOST && n >= FEW)
        times_inverse(D, L, true, n, x, arena);
    else if (n == 1 && D <= MOST)
        substitute(D, L, x);
    else if (n == 1)
        cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, L, (int)D, x, 1);
    else
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)n, (int)D, 1.0, L, (int)D, x,
                    (int)D);
}

static void full_pull(size_t D, size_t R, const double *L, size_t n, double *g, wv_arena *arena)
{
    (void)R;
    if (D <= MOST && n >= FEW)
        multiply(D, L, false, n, g, arena);
    else if (n == 1 && D <= MOST) {
        double row[MOST];
        memcpy(row, g, D * sizeof *g);
        wv_columns_best()->row_times(D, row, L, g);
    } else
        cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, (int)D, 1.0, L, (int)D,
                    g, (int)D);
}

static void full_push(size_t D, size_t R, const double *L, size_t n, double *y, wv_arena *arena)
{
    (void)R;
    if (D <= MOST && n >= FEW)
        times_inverse(D, L, false, n, y, arena);
    else
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, (int)D, 1.0, L, (int)D,
                    y, (int)D);
}

static void full_set_sd(size_t D, size_t R, double *L, const double *sd)
{
    (void)R;
    memset(L, 0, D * D * sizeof *L);
    for (size_t i = 0; i < D; i++)
        L[i * D + i] = sd[i];
}

static void full_sd(size_t D, size_t R, const double *L, double *sd)
{
    (void)R;
    for (size_t i = 0; i < D; i++)
        sd[i] = cblas_dnrm2((int)(i + 1), L + i * D, 1);
}

/* L <- L chol(C): a product of lower triangles is one, and C is well conditioned whatever L is. */
static bool full_absorb(size_t D, size_t R, double *L, double *C, wv_arena *arena)
{
    (void)R;
    size_t mark = wv_arena_mark(arena);
    bool definite = wv_dense_chol(D, C, wv_arena_take(arena, D * D));
    wv_arena_release(arena, mark);
    if (!definite)
        return false;
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, C, (int)D, L,
                (int)D);
    for (size_t i = 0; i < D; i++)
        memset(L + i * D + i + 1, 0, (D - i - 1) * sizeof *L);
    return true;
}

/* ---- lowrank ----------------------------------------------------------------------------------------------------- */
static size_t low_size(size_t D, size_t R)
{
    return D + R + R * D;
}

static double low_log_det(size_t D, size_t R, const double *root)
{
    double sum = diag_log_det(D, 0, root);
    for (size_t r = 0; r < R; r++)
        sum += 0.5 * log(root[D + r]);
    return sum;
}

/* rows x += (x Q') diag(e^power - 1) Q */
static void spikes(size_t D, size_t R, const double *root, double power, size_t n, double *x, wv_arena *arena)
{
    const double *e = root + D, *Q = e + R;
    if (!n)
        return;
    size_t mark = wv_arena_mark(arena);
    double *work = wv_arena_take(arena, n * R);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)R, (int)D, 1.0, x, (int)D, Q, (int)D, 0.0, work,
                (int)R);
    for (size_t k = 0; k < n; k++)
        for (size_t r = 0; r < R; r++)
            work[k * R + r] *= pow(e[r], power) - 1.0;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)D, (int)R, 1.0, work, (int)R, Q, (int)D, 1.0, x,
                (int)D);
    wv_arena_release(arena, mark);
}

static void low_colour(size_t D, size_t R, const double *root, size_t n, double *y, wv_arena *arena)
{
    spikes(D, R, root, 0.5, n, y, arena);
    diag_colour(D, 0, root, n, y, NULL);
}

static void low_whiten(size_t D, size_t R, const double *root, size_t n, double *x, wv_arena *arena)
{
    diag_whiten(D, 0, root, n, x, NULL);
    spikes(D, R, root, -0.5, n, x, arena);
}

static void low_pull(size_t D, size_t R, const double *root, size_t n, double *g, wv_arena *arena)
{
    diag_colour(D, 0, root, n, g, NULL);
    spikes(D, R, root, 0.5, n, g, arena);
}

static void low_push(size_t D, size_t R, const double *root, size_t n, double *y, wv_arena *arena)
{
    spikes(D, R, root, -0.5, n, y, arena);
    diag_whiten(D, 0, root, n, y, NULL);
}

static void low_set_sd(size_t D, size_t R, double *root, const double *sd)
{
    memcpy(root, sd, D * sizeof *root);
    memset(root + D, 0, (R + R * D) * sizeof *root);
    for (size_t r = 0; r < R; r++) {
        root[D + r] = 1.0;
        root[D + R + r * D + r % D] = 1.0; /* any orthonormal rows do while e = 1 */
    }
}

/* The member of the family closest in reverse KL to a Gaussian of precision P (in coordinates scaled by
 * the old s): at the optimum e_k = 1/t_k with t_k, q_k eigenpairs of S P S, those that gain most,
 * (t - 1 - log t)/2, and diag(P C) = 1. Alternates the two from the old s on, which is near where steps
 * are short, until the latter holds to 0.002. */
static bool project(size_t D, size_t R, double *root, const double *P, double *work)
{
    double *e = root + D, *Q = e + R, *s = work, *T = s + D, *t = T + D * D, *syev = t + D, off = INFINITY;
    for (size_t i = 0; i < D; i++)
        s[i] = 1.0;
    for (int round = 0; round < 12 && off > 0.002; round++) {
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k < D; k++)
                T[i * D + k] = s[i] * P[i * D + k] * s[k];
        if (!wv_dense_eigh(D, T, t, syev))
            return false;
        for (size_t r = 0, low = 0, high = D; r < R; r++) { /* the extreme eigenvalues on either side gain most */
            double a = t[low] - 1.0 - log(t[low]), b = t[high - 1] - 1.0 - log(t[high - 1]);
            size_t k = a > b ? low++ : --high;
            e[r] = 1.0 / t[k];
            memcpy(Q + r * D, T + k * D, D * sizeof *Q);
        }
        off = 0;
        /* diag(P C), C = S (I + Q'(e-1)Q) S, with S P S q_r = q_r / e_r */
        for (size_t i = 0; i < D; i++) {
            double d = s[i] * s[i] * P[i * D + i];
            for (size_t r = 0; r < R; r++)
                d += (e[r] - 1.0) / e[r] * Q[r * D + i] * Q[r * D + i];
            off = fmax(off, fabs(d - 1.0));
            s[i] /= sqrt(fmin(fmax(d, 0.25), 4.0));
        }
    }
    for (size_t i = 0; i < D; i++)
        root[i] *= s[i];
    return true;
}

static bool low_project(size_t D, size_t R, double *root, const double *P, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    bool fine = project(D, R, root, P, wv_arena_take(arena, 2 * D + D * D + wv_dense_eigh_work(D)));
    wv_arena_release(arena, mark);
    return fine;
}

static void low_sd(size_t D, size_t R, const double *root, double *sd)
{
    const double *e = root + D, *Q = e + R;
    for (size_t i = 0; i < D; i++) {
        double v = 1.0;
        for (size_t r = 0; r < R; r++)
            v += (e[r] - 1.0) * Q[r * D + i] * Q[r * D + i];
        sd[i] = root[i] * sqrt(v);
    }
}

/* C <- C^-1; false: it is not positive definite. */
static bool invert(size_t D, double *C, wv_arena *arena)
{
    size_t mark = wv_arena_mark(arena);
    double *e = wv_arena_take(arena, D), *spare = wv_arena_take(arena, D * D), *K = wv_arena_take(arena, D * D),
           *syev = wv_arena_take(arena, wv_dense_eigh_work(D));
    bool fine = wv_dense_eigh(D, C, e, syev);
    for (size_t i = 0; i < D && fine; i++)
        e[i] = 1.0 / e[i];
    if (fine) {
        wv_dense_rebuild(D, C, e, K, spare);
        memcpy(C, K, D * D * sizeof *C);
    }
    wv_arena_release(arena, mark);
    return fine;
}

static bool low_absorb(size_t D, size_t R, double *root, double *K, wv_arena *arena)
{
    if (!invert(D, K, arena))
        return false;
    /* precision in coordinates scaled by s: G K G with the symmetric G = I + Q'(e^-1/2 - 1) Q */
    spikes(D, R, root, -0.5, D, K, arena);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < i; k++) {
            double swap = K[i * D + k];
            K[i * D + k] = K[k * D + i];
            K[k * D + i] = swap;
        }
    spikes(D, R, root, -0.5, D, K, arena);
    return low_project(D, R, root, K, arena);
}

static const wv_family families[] = {
    [WVGD_DIAG] = {"diag", diag_size, diag_log_det, diag_colour, diag_whiten, diag_colour, diag_whiten, diag_set_sd,
                   diag_sd, diag_absorb},
    [WVGD_FULL] = {"full", full_size, full_log_det, full_colour, full_whiten, full_pull, full_push, full_set_sd,
                   full_sd, full_absorb},
    [WVGD_LOWRANK] = {"lowrank", low_size, low_log_det, low_colour, low_whiten, low_pull, low_push, low_set_sd, low_sd,
                      low_absorb},
};

const wv_family *wv_family_get(wvgd_family family)
{
    return &families[family];
}

/* ---- on any family ----------------------------------------------------------------------------------------------- */
void wv_gaussian_whiten(const wv_gaussian *q, size_t n, const double *x, double *y, wv_arena *arena)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < q->D; i++)
            y[k * q->D + i] = x[k * q->D + i] - q->mu[i];
    q->family->whiten(q->D, q->R, q->root, n, y, arena);
}

void wv_gaussian_log_density(const wv_gaussian *q, size_t n, const double *x, double *log_q, double *y, wv_arena *arena)
{
    double D = (double)q->D, nu = q->nu,
           constant = wv_columns_constant(q->D, q->family->log_det(q->D, q->R, q->root), nu);
    wv_gaussian_whiten(q, n, x, y, arena);
    for (size_t k = 0; k < n; k++) {
        double r = cblas_ddot((int)q->D, y + k * q->D, 1, y + k * q->D, 1);
        log_q[k] = constant - (nu > 0 ? (nu + D) / 2 * log1p(r / nu) : r / 2);
    }
}

/* n draws from number `first` on, relative to the mean. */
static void draw(const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n, double *x, wv_arena *arena)
{
    size_t D = q->D;
    for (size_t k = 0; k < n; k++) {
        wv_rng_normal(stream, first + k, D, x + k * D);
        if (q->nu > 0) {
            /* t: normal over the root of chi^2_nu / nu, nu a whole number: a sum of exponentials, and of
             * a squared normal where it is odd */
            wv_stream tail = *stream;
            double u[WV_DEGREES / 2 + 2], chi = 0;
            size_t halves = (size_t)(q->nu / 2);
            tail.use = WV_RNG_TAIL;
            wv_rng_uniform(&tail, first + k, halves + 2, u);
            if ((size_t)q->nu % 2) {
                double c = cos(2 * pi * u[halves + 1]);
                chi = -2 * log(u[halves]) * c * c;
            }
            for (size_t i = 0; i < halves; i += FACTORS) {
                for (size_t l = i + 1; l < halves && l < i + FACTORS; l++)
                    u[i] *= u[l];
                chi -= 2 * log(u[i]);
            }
            cblas_dscal((int)D, sqrt(q->nu / chi), x + k * D, 1);
        }
    }
    q->family->colour(D, q->R, q->root, n, x, arena);
}

void wv_gaussian_draw(const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n, bool antithetic,
                      double *x, wv_arena *arena)
{
    /* the first draw may be the second of its pair, and the last the first */
    size_t D = q->D, before = antithetic ? first % 2 : 0, pairs = antithetic ? (n + before + 1) / 2 : 0;
    if (!antithetic)
        draw(q, stream, first, n, x, arena);
    else if (n)
        /* in the last rows, which are overwritten as they are used */
        draw(q, stream, first / 2, pairs, x + (n - pairs) * D, arena);
    for (size_t k = 0; k < n; k++) {
        const double *from = antithetic ? x + (n - pairs + (k + before) / 2) * D : x + k * D;
        double sign = antithetic && (k + before) % 2 ? -1 : 1, *to = x + k * D;
        for (size_t i = 0; i < D; i++)
            to[i] = q->mu[i] + sign * from[i];
    }
}

void wv_gaussian_cov(const wv_gaussian *q, double *cov, wv_arena *arena)
{
    size_t D = q->D;
    memset(cov, 0, D * D * sizeof *cov); /* rows of A' first: pull of the unit vectors gives A' */
    for (size_t i = 0; i < D; i++)
        cov[i * D + i] = 1.0;
    q->family->pull(D, q->R, q->root, D, cov, arena);   /* row i = A' e_i = row i of A */
    q->family->colour(D, q->R, q->root, D, cov, arena); /* row i = A (row i of A)' = row i of A A' */
}

void wv_gaussian_follow(const wv_family *family, size_t D, double *root, const double *centre, size_t n,
                        const double *x, const double *w, double keep, double *y, double *C, wv_arena *arena)
{
    wv_gaussian g = {family, D, 0, centre, root, 0};
    for (size_t i = 0, step = family == &families[WVGD_FULL] ? D + 1 : 1; i < D; i++)
        if (!(root[i * step] > 1e-120 && root[i * step] < 1e120))
            return; /* squares would leave the range of numbers */
    if (family != &families[WVGD_FULL]) {
        wv_columns_best()->row_slopes(n, D, w, x, centre, NULL, NULL, y, NULL);
        for (size_t i = 0; i < D; i++)
            root[i] *= sqrt(1 - keep + 1e-12 + keep * y[i] / (root[i] * root[i]));
        return;
    }
    wv_gaussian_whiten(&g, n, x, y, arena);
    for (size_t k = 0; k < n; k++)
        cblas_dscal((int)D, sqrt(keep * w[k]), y + k * D, 1);
    memset(C, 0, D * D * sizeof *C);
    wv_dense_cross(n, D, y, D, y, true, C);
    for (size_t i = 0; i < D; i++)
        C[i * D + i] += 1 - keep + 1e-12;
    full_absorb(D, 0, root, C, arena);
}
