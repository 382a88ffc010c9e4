/* lowrank.c - the natural step for low-rank components in many dimensions (method, section 4).
 *
 * The slope of the residual gradient, what the current component leaves of it, on the point: first coordinate
 * by coordinate, then, on what that leaves, in the space of the component's own directions and of those in
 * which most of it lies, where the regression has few coefficients; then coordinates once more. All of these
 * are exact where the posterior is a Gaussian of the family, though there are fewer points than dimensions.
 * The R directions that gain most are kept. */
#include "update/lowrank.h"
#include "dense.h"
#include "policy.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* Gram-Schmidt, twice; a row that vanishes is left zero. Returns rows in place. */
static void orthonormalise(size_t D, size_t k, double *v)
{
    for (size_t a = 0; a < k; a++) {
        for (int twice = 0; twice < 2; twice++)
            for (size_t b = 0; b < a; b++)
                cblas_daxpy((int)D, -cblas_ddot((int)D, v + a * D, 1, v + b * D, 1), v + b * D, 1, v + a * D, 1);
        double norm = cblas_dnrm2((int)D, v + a * D, 1);
        cblas_dscal((int)D, norm > 1e-12 ? 1 / norm : 0, v + a * D, 1);
    }
}

/* What a low-rank step is made of, in the coordinates t = (x - mu)/s, in which the component has the precision
 * I + Q'(1/e - 1)Q. K = 2R rows are considered: those of Q and R more. */
typedef struct {
    size_t K;
    double *t, *r;        /* [n][D] points and what the component leaves of the gradient there, less their means: for
                           * a Gaussian posterior r is linear in t */
    double *mean, *slope; /* [D] means of t and of the gradient */
    double *square, *b;   /* [D] mean squares of t; slopes of r, coordinate by coordinate */
    double *U;            /* [K][D] orthonormal rows */
    double *image;        /* [K][D] */
    double *H;            /* [K][K] slope of r on t in the space of U */
    double *small[4];     /* [K][K] */
    double *value, *old;  /* [K] */
    double *syev;
    double *at, *from; /* [n][K] */
} low;

/* Room for the step, which the caller gives back. */
static low make_room(const wv_step *s, const wv_update *c)
{
    size_t D = s->D, K = 2 * c->R, n = c->n;
    wv_arena *a = s->arena;
    low l = {.K = K,
             .t = wv_arena_take(a, n * D),
             .r = wv_arena_take(a, n * D),
             .mean = wv_arena_take(a, D),
             .slope = wv_arena_take(a, D),
             .square = wv_arena_take(a, D),
             .b = wv_arena_take(a, D),
             .U = wv_arena_take(a, K * D),
             .image = wv_arena_take(a, K * D),
             .H = wv_arena_take(a, K * K),
             .value = wv_arena_take(a, K),
             .old = wv_arena_take(a, K),
             .at = wv_arena_take(a, n * K),
             .from = wv_arena_take(a, n * K),
             .syev = wv_arena_take(a, wv_dense_eigh_work(K ? K : 1))};
    for (size_t i = 0; i < 4; i++)
        l.small[i] = wv_arena_take(a, K * K);
    return l;
}

/* Points, and what is left of the gradient. */
static void measure_low(const wv_step *s, const wv_update *c, low *l)
{
    size_t D = s->D, R = c->R, n = c->n;
    const double *e = c->root + D, *Q = e + R;
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++) {
            l->t[p * D + i] = (c->x[p * D + i] - c->mu[i]) / c->root[i];
            l->r[p * D + i] = c->grad[p * D + i] * c->root[i];
        }
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, l->t, (int)D, c->u, 1, 0.0, l->mean, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, l->r, (int)D, c->u, 1, 0.0, l->slope, 1);
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++) {
            l->t[p * D + i] -= l->mean[i];
            l->r[p * D + i] += l->t[p * D + i] - l->slope[i];
        }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)R, (int)D, 1.0, l->t, (int)D, Q, (int)D, 0.0,
                l->at, (int)R);
    for (size_t p = 0; p < n; p++)
        for (size_t k = 0; k < R; k++)
            l->at[p * R + k] *= 1 / e[k] - 1;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)D, (int)R, 1.0, l->at, (int)R, Q, (int)D, 1.0,
                l->r, (int)D);
}

/* Slopes of what is left, coordinate by coordinate, are added to b and taken out of r. */
static void regress_coordinates(const wv_step *s, const wv_update *c, low *l)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D;
    double *cross = wv_arena_take(s->arena, D), shrink = c->ess / (c->ess + 1);
    memset(cross, 0, D * sizeof *cross);
    memset(l->square, 0, D * sizeof *cross);
    for (size_t p = 0; p < c->n; p++)
        for (size_t i = 0; i < D; i++) {
            double ut = c->u[p] * l->t[p * D + i];
            cross[i] += ut * l->r[p * D + i];
            l->square[i] += ut * l->t[p * D + i];
        }
    for (size_t i = 0; i < D; i++) {
        cross[i] = l->square[i] > 0 ? shrink * cross[i] / l->square[i] : 0;
        l->b[i] += cross[i];
    }
    for (size_t p = 0; p < c->n; p++)
        for (size_t i = 0; i < D; i++)
            l->r[p * D + i] -= cross[i] * l->t[p * D + i];
    wv_arena_release(s->arena, mark);
}

/* U: the rows of Q, and the R directions in which most of r lies, by subspace iteration. Where r is linear in few
 * directions of t it lies in these, however few the points are. */
static void find_directions(const wv_step *s, const wv_update *c, low *l)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, R = c->R, n = c->n;
    double *V = l->U + R * D, *weighted = wv_arena_take(s->arena, n * D); /* [R][D], [n][D] */
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < D; i++)
            weighted[p * D + i] = sqrt(c->u[p]) * l->r[p * D + i];
    for (size_t k = 0; k < R; k++)
        memcpy(V + k * D, weighted + (k * n / R) * D, D * sizeof *V);
    orthonormalise(D, R, V);
    for (int round = 0; round < (int)wv_policy.update_lowrank_rounds; round++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)R, (int)n, (int)D, 1.0, V, (int)D, weighted, (int)D,
                    0.0, l->at, (int)n);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)R, (int)D, (int)n, 1.0, l->at, (int)n, weighted,
                    (int)D, 0.0, V, (int)D);
        orthonormalise(D, R, V);
    }
    wv_arena_release(s->arena, mark);
    memcpy(l->U, c->root + D + R, R * D * sizeof *l->U);
    orthonormalise(D, l->K, l->U);
}

/* a <- E a E', or with `back` E' a E; E: rows; spare: [K][K]. */
static void turn(size_t K, const double *E, bool back, double *a, double *spare)
{
    cblas_dgemm(CblasRowMajor, back ? CblasTrans : CblasNoTrans, CblasNoTrans, (int)K, (int)K, (int)K, 1.0, E, (int)K,
                a, (int)K, 0.0, spare, (int)K);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, back ? CblasNoTrans : CblasTrans, (int)K, (int)K, (int)K, 1.0, spare,
                (int)K, E, (int)K, 0.0, a, (int)K);
}

/* H: the symmetric slope of U r on U t, H C + C H = M + M', which is taken out of r. */
static bool regress_directions(const wv_step *s, const wv_update *c, low *l)
{
    size_t D = s->D, K = l->K, n = c->n;
    double *C = l->small[0], ridge = 1 / c->ess, shrink = c->ess / (c->ess + (double)K);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)K, (int)D, 1.0, l->t, (int)D, l->U, (int)D, 0.0,
                l->at, (int)K);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)K, (int)D, 1.0, l->r, (int)D, l->U, (int)D, 0.0,
                l->from, (int)K);
    memset(C, 0, K * K * sizeof *C);
    memset(l->H, 0, K * K * sizeof *C);
    for (size_t p = 0; p < n; p++) {
        cblas_dger(CblasRowMajor, (int)K, (int)K, c->u[p], l->at + p * K, 1, l->at + p * K, 1, C, (int)K);
        cblas_dger(CblasRowMajor, (int)K, (int)K, c->u[p], l->from + p * K, 1, l->at + p * K, 1, l->H, (int)K);
    }
    if (!wv_dense_eigh(K, C, l->value, l->syev))
        return false;
    turn(K, C, false, l->H, l->small[1]);
    for (size_t i = 0; i < K; i++)
        for (size_t k = 0; k <= i; k++)
            l->H[i * K + k] = shrink * (l->H[i * K + k] + l->H[k * K + i]) /
                              (fmax(l->value[i], 0) + fmax(l->value[k], 0) + 2 * ridge);
    wv_dense_mirror(K, l->H);
    turn(K, C, true, l->H, l->small[1]);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)K, (int)K, 1.0, l->at, (int)K, l->H, (int)K,
                0.0, l->from, (int)K);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)D, (int)K, -1.0, l->from, (int)K, l->U, (int)D,
                1.0, l->r, (int)D);
    return true;
}

/* slope <- what the mean gradient would be if the points' mean were the component's: plus
 * (precision aimed at) times the points' mean. */
static void aim_mean(const wv_step *s, const wv_update *c, low *l)
{
    size_t D = s->D, R = c->R, K = l->K;
    const double *e = c->root + D, *Q = e + R;
    for (size_t i = 0; i < D; i++)
        l->slope[i] += (1 - l->b[i]) * l->mean[i];
    for (size_t k = 0; k < R; k++)
        cblas_daxpy((int)D, (1 / e[k] - 1) * cblas_ddot((int)D, Q + k * D, 1, l->mean, 1), Q + k * D, 1, l->slope, 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)K, (int)D, 1.0, l->U, (int)D, l->mean, 1, 0.0, l->old, 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)K, (int)K, 1.0, l->H, (int)K, l->old, 1, 0.0, l->value, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)K, (int)D, -1.0, l->U, (int)D, l->value, 1, 1.0, l->slope, 1);
}

/* The precision aimed at, diag(d) + U'NU, in coordinates in which diag(d) is I: orthonormal rows l->image, N along
 * them into l->small[1] as eigenvectors, with the eigenvalues of I + N, which are positive, in l->value. */
static bool aim_precision(const wv_step *s, const wv_update *c, low *l, const double *d)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, R = c->R, K = l->K;
    const double *e = c->root + D;
    double *scaled = wv_arena_take(s->arena, K * D), *T = l->small[0], *N = l->small[1], *N0 = l->small[2],
           *spare = l->small[3]; /* scaled: [K][D] rows of U */
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < D; i++)
            l->image[k * D + i] = l->U[k * D + i] / sqrt(d[i]);
    memcpy(scaled, l->image, K * D * sizeof *l->image);
    orthonormalise(D, K, l->image);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)K, (int)K, (int)D, 1.0, l->image, (int)D, scaled, (int)D,
                0.0, T, (int)K);
    wv_arena_release(s->arena, mark);
    memset(N0, 0, K * K * sizeof *N0);
    for (size_t k = 0; k < R; k++)
        N0[k * K + k] = 1 / e[k] - 1;
    for (size_t k = 0; k < K * K; k++)
        N[k] = N0[k] - c->rho * l->H[k];
    turn(K, T, false, N, spare);
    turn(K, T, false, N0, spare);
    if (!wv_dense_eigh(K, N, l->value, l->syev))
        return false;
    turn(K, N, false, N0, spare);
    for (size_t k = 0; k < K; k++) {
        double before = fmax(1 + N0[k * K + k], 1e-6);
        l->value[k] = clamp(1 + l->value[k], before / wv_policy.update_change, before * wv_policy.update_change);
    }
    return true;
}

/* The direction that gains most, (l - 1 - log l)/2, of those that are left; K: none. */
static size_t best_direction(size_t K, const double *value)
{
    size_t best = K;
    double most = -1;
    for (size_t k = 0; k < K; k++)
        if (value[k] > 0 && value[k] - 1 - log(value[k]) > most) {
            most = value[k] - 1 - log(value[k]);
            best = k;
        }
    return best;
}

/* The R directions that gain most into the root; what the others add to the diagonal of the precision into more[D].
 * l->value is used up. */
static bool keep_directions(const wv_step *s, const wv_update *c, low *l, double *more)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, R = c->R, K = l->K, kept = 0;
    double *e = c->root + D, *Q = e + R, *other = wv_arena_take(s->arena, D), *N = l->small[1];
    memset(more, 0, D * sizeof *more);
    for (size_t best; kept < K && (best = best_direction(K, l->value)) < K; kept++) {
        double *row = kept < R ? Q + kept * D : other;
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)K, (int)D, 1.0, l->image, (int)D, N + best * K, 1, 0.0, row, 1);
        if (kept < R)
            e[kept] = 1 / l->value[best];
        else
            for (size_t i = 0; i < D; i++)
                more[i] += (l->value[best] - 1) * row[i] * row[i];
        l->value[best] = 0;
    }
    wv_arena_release(s->arena, mark);
    return kept == K;
}

/* The precision aimed at as scales and the R directions that gain most; what the others add to the diagonal goes into
 * the scales. */
static bool take_root(const wv_step *s, const wv_update *c, low *l)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, R = c->R;
    double *d = wv_arena_take(s->arena, D), *more = wv_arena_take(s->arena, D), change = wv_policy.update_change;
    for (size_t i = 0; i < D; i++)
        d[i] = clamp(1 - c->rho * l->b[i], 1 / change, change);
    bool taken = aim_precision(s, c, l, d) && keep_directions(s, c, l, more);
    if (taken) {
        orthonormalise(D, R, c->root + D + R);
        for (size_t i = 0; i < D; i++)
            c->root[i] /= sqrt(d[i] * clamp(1 + more[i], 1 / change, change));
    }
    wv_arena_release(s->arena, mark);
    return taken;
}

/* Regressions of what is left of the gradient. */
static bool regress(const wv_step *s, const wv_update *c, low *l)
{
    measure_low(s, c, l);
    memset(l->b, 0, s->D * sizeof *l->b);
    regress_coordinates(s, c, l);
    find_directions(s, c, l);
    if (!regress_directions(s, c, l))
        return false;
    regress_coordinates(s, c, l);
    aim_mean(s, c, l);
    return true;
}

/* The step to what the regressions aim at. The mean goes by the new covariance, at most sqrt(D) of its sds. */
static wv_update_result walk(const wv_step *s, const wv_update *c, low *l)
{
    size_t D = s->D;
    wv_update_result result = {false, cblas_ddot((int)D, l->b, 1, l->b, 1) / 4};
    for (size_t k = 0; k < c->R; k++) /* of H what is not only noise to be left out again */
        result.kl += cblas_ddot((int)c->R, l->H + k * l->K, 1, l->H + k * l->K, 1) / 4;
    for (size_t i = 0; i < D; i++)
        l->slope[i] /= c->root[i];
    if (!take_root(s, c, l))
        return result;
    c->family->pull(D, c->R, c->root, 1, l->slope, s->arena);
    double moved = cblas_dnrm2((int)D, l->slope, 1), limit = wv_policy.update_lowrank_move * sqrt((double)D);
    result.kl += moved * moved / 2;
    if (!isfinite(result.kl))
        return result;
    cblas_dscal((int)D, c->rho * moved > limit ? limit / moved : c->rho, l->slope, 1);
    c->family->colour(D, c->R, c->root, 1, l->slope, s->arena);
    cblas_daxpy((int)D, 1.0, l->slope, 1, c->mu, 1);
    result.ok = true;
    return result;
}

wv_update_result wv_lowrank_update(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena);
    low l = make_room(s, c);
    wv_update_result result = {false, 0};
    if (regress(s, c, &l))
        result = walk(s, c, &l);
    wv_arena_release(s->arena, mark);
    return result;
}
