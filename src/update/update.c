/* update.c - one step of component j down KL(q_j || p_j) on its cell (method, section 4).
 *
 * natural, score: a truncated Gaussian is an exponential family with statistics T = (y, y y'/2), so the natural
 * gradient step moves its parameters towards the coefficients of the least-squares regression of log p~ on T under
 * q_j. `natural` first regresses the gradient on y (D equations a point) and then, where the cell truncates, what is
 * left of log p~ on T: the boundary term. `score` takes the current q_j for the first part and needs no gradient.
 * All of it happens in coordinates y whitened by q_j, where its precision is I; least squares are those of
 * coordinates whitened by q_j's own moments on the cell, z = W^-1 (y - mean) with W W' = M, so units do not matter.
 * The regression of the gradient and the step need the points' first and second moments only. Eigenvalues are worked
 * out where one of them meets a limit, or a ridge has to be chosen; otherwise Cholesky factors do.
 *
 * reparam: the paper's estimator E_qj[(grad log p~ - grad log q) dz/dtheta], with Adam. It lacks the
 * boundary term; exact for one particle. */
#include "update/update.h"
#include "dense.h"
#include "gaussian.h"
#include "policy.h"
#include "update/diagonal.h"
#include "update/lowrank.h"
#include "update/reparam.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* What one update works out. */
typedef struct {
    size_t D;
    wv_update_moments m; /* of y and of the gradients */
    double keep, own;    /* M = keep cov + own I */
    double *M;           /* [D][D] covariance of the cell, shrunk, */
    double *W, *V;       /* [D][D] its lower root and the inverse of that (truncated or score) */
    double *C;           /* [D][D] Cov(gradient - that of log q_j, y), gradient in y, */
    double *X;      /* [D][D] curvature of the fitted quadratic relative to log q_j: the precision aimed at is I - X, */
    double *A;      /* [D][D] curvature of the quadratic in z (truncated or score), */
    double *E;      /* [D][D] eigenvectors, */
    double *Q;      /* [D][D] the new root in y */
    double *S, *S2; /* [D][D] products on the way */
    double *a0, *a1; /* [D] gradient of the quadratic at the mean, in y and in z */
    double *c;       /* [D] eigenvalues */
    double *change;  /* [D] of the slope: d0, */
    double *step;    /* [D] and what a full covariance makes of it (c->precondition) */
    double *delta;   /* [D] new location in y */
    double r2;       /* share of the variance of the gradient (or of log p~) that the quadratic explains;
                      * NAN: not worked out */
    double *y, *z;   /* [n][D] points less their mean, in y and in z (truncated or score) */
} local;

static wv_update_moments own_moments(const wv_step *s)
{
    size_t D = s->D;
    return (wv_update_moments){.mean = wv_arena_take(s->arena, D),
                               .cov = wv_arena_take(s->arena, D * D),
                               .grad = wv_arena_take(s->arena, D),
                               .cross = wv_arena_take(s->arena, D * D)};
}

/* Room for the update, which the caller gives back. */
static local make_room(const wv_step *s, const wv_update *c)
{
    size_t D = s->D, square = D * D, points = c->n * D;
    wv_arena *a = s->arena;
    return (local){.D = D,
                   .m = c->moments ? *c->moments : own_moments(s),
                   .M = wv_arena_take(a, square),
                   .W = wv_arena_take(a, square),
                   .V = wv_arena_take(a, square),
                   .C = wv_arena_take(a, square),
                   .X = wv_arena_take(a, square),
                   .A = wv_arena_take(a, square),
                   .E = wv_arena_take(a, square),
                   .Q = wv_arena_take(a, square),
                   .S = wv_arena_take(a, square),
                   .S2 = wv_arena_take(a, square),
                   .a0 = wv_arena_take(a, D),
                   .a1 = wv_arena_take(a, D),
                   .c = wv_arena_take(a, D),
                   .change = wv_arena_take(a, D),
                   .step = wv_arena_take(a, D),
                   .delta = wv_arena_take(a, D),
                   .y = wv_arena_take(a, points),
                   .z = wv_arena_take(a, points),
                   .r2 = NAN};
}

static void multiply(size_t D, CBLAS_TRANSPOSE ta, const double *a, CBLAS_TRANSPOSE tb, const double *b, double *out)
{
    bool tiny = (double)D <= wv_policy.update_tiny_matrix;
    for (size_t i = 0; tiny && i < D; i++)
        for (size_t k = 0; k < D; k++) {
            double sum = 0;
            for (size_t m = 0; m < D; m++)
                sum += a[ta == CblasTrans ? m * D + i : i * D + m] * b[tb == CblasTrans ? k * D + m : m * D + k];
            out[i * D + k] = sum;
        }
    if (tiny)
        return;
    cblas_dgemm(CblasRowMajor, ta, tb, (int)D, (int)D, (int)D, 1.0, a, (int)D, b, (int)D, 0.0, out, (int)D);
}

/* sum_ik a_ik b_ik */
static double inner(size_t D, const double *a, const double *b)
{
    return cblas_ddot((int)(D * D), a, 1, b, 1);
}

/* sum_ik a_ik b_ki: the trace of a b */
static double trace(size_t D, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += cblas_ddot((int)D, a + i * D, 1, b + i, (int)D);
    return sum;
}

/* out[D] = sum_k u_k rows_k */
static void weighted_mean(size_t n, size_t D, const double *u, const double *rows, double *out)
{
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, rows, (int)D, u, 1, 0.0, out, 1);
}

static void weighted_rows(size_t n, size_t D, const double *u, const double *rows, double *out)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            out[k * D + i] = u[k] * rows[k * D + i];
}

static void subtract_row(size_t n, size_t D, const double *row, double *rows)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < D; i++)
            rows[k * D + i] -= row[i];
}

static void keep_diagonal(size_t D, double *a)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            if (i != k)
                a[i * D + k] = 0;
}

static bool diagonal(const wv_update *c)
{
    return c->family == wv_family_get(WVGD_DIAG);
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Covariance of the gradients, lower half. */
static void spread(const wv_step *s, const wv_update *c, const local *l, double *cov)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    double *g = wv_arena_take(s->arena, c->n * D), *ug = wv_arena_take(s->arena, c->n * D); /* [n][D] centred */
    memcpy(g, c->grad, c->n * D * sizeof *g);
    subtract_row(c->n, D, l->m.grad, g);
    weighted_rows(c->n, D, c->u, g, ug);
    memset(cov, 0, D * D * sizeof *cov);
    wv_dense_cross(c->n, D, ug, D, g, true, cov);
    wv_arena_release(s->arena, mark);
}

/* Moments of the points at hand; l->y is left with y - mean. */
static void measure(const wv_step *s, const wv_update *c, local *l)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    double *uy = wv_arena_take(s->arena, c->n * D); /* [n][D] weighted */
    wv_gaussian q = {c->family, D, c->R, c->mu, c->root, 0};
    wv_gaussian_whiten(&q, c->n, c->x, l->y, s->arena);
    weighted_mean(c->n, D, c->u, l->y, l->m.mean);
    subtract_row(c->n, D, l->m.mean, l->y);
    weighted_rows(c->n, D, c->u, l->y, uy);
    memset(l->m.cov, 0, D * D * sizeof(double));
    wv_dense_cross(c->n, D, uy, D, l->y, true, l->m.cov);
    wv_dense_mirror(D, l->m.cov);
    if (c->estimator != WVGD_SCORE) {
        weighted_mean(c->n, D, c->u, c->grad, l->m.grad);
        memset(l->m.cross, 0, D * D * sizeof(double));
        wv_dense_cross(c->n, D, uy, D, c->grad, false, l->m.cross);
    }
    wv_arena_release(s->arena, mark);
}

/* M: covariance of q_j on its cell; with few points shrunk towards the component's own shape. */
static void shrink(const wv_update *c, local *l)
{
    size_t D = l->D;
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += l->m.cov[i * D + i];
    l->keep = c->ess / (c->ess + (double)D);
    l->own = (1 - l->keep) * fmin(1.0, sum / (double)D) + 1e-12;
    for (size_t i = 0; i < D * D; i++)
        l->M[i] = l->keep * l->m.cov[i];
    for (size_t i = 0; i < D; i++)
        l->M[i * D + i] += l->own;
    if (diagonal(c))
        keep_diagonal(D, l->M);
}

/* ---- regression of the gradient ---------------------------------------------------------------------------------- */
/* a0 and C: gradients in y, relative to that of log q_j, which is -y. */
static void pull(const wv_step *s, const wv_update *c, local *l)
{
    size_t D = l->D;
    memcpy(l->a0, l->m.grad, D * sizeof *l->a0);
    c->family->pull(D, c->R, c->root, 1, l->a0, s->arena);
    if (l->m.relative)
        cblas_daxpy((int)D, -1.0, l->m.mean, 1, l->a0, 1);
    memcpy(l->S, l->m.cross, D * D * sizeof *l->S);
    c->family->pull(D, c->R, c->root, D, l->S, s->arena);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->C[i * D + k] = l->S[k * D + i] + (l->m.relative ? 0 : l->m.cov[i * D + k]);
}

/* Variances in z of the gradient and of what log q_j leaves of it. */
static void variances(const wv_step *s, const wv_update *c, local *l, double *total, double *residual)
{
    size_t D = l->D;
    if (l->m.spread)
        l->m.spread(s->fit, c, &l->m, l->S);
    else
        spread(s, c, l, l->S);
    wv_dense_mirror(D, l->S);
    c->family->pull(D, c->R, c->root, D, l->S, s->arena);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S2[i * D + k] = l->S[k * D + i];
    c->family->pull(D, c->R, c->root, D, l->S2, s->arena);
    double given = inner(D, l->M, l->S2), both = 2 * inner(D, l->M, l->C), own = inner(D, l->M, l->m.cov);
    /* gradient = relative - y; C is the covariance of the relative one with y */
    *total = fmax(l->m.relative ? given - both + own : given, 0);
    *residual = fmax(l->m.relative ? given : given + both - own, 0);
}

/* The symmetric slope of the residual gradient on z for ridge strength lambda, in the eigenbasis of Cov(z):
 * S_ik/(c_i + c_k + 2 lambda). Returns the residual sum of squares and the degrees of freedom spent. */
static double ridge_rss(const local *l, const double *S, double total, double lambda, double *freedom)
{
    double rss = total, df = (double)l->D;
    for (size_t i = 0; i < l->D; i++)
        for (size_t k = 0; k <= i; k++) {
            double sum = l->c[i] + l->c[k], s = S[i * l->D + k], inverse = 1 / (sum + 2 * lambda), a = s * inverse;
            rss -= (i == k ? 1 : 2) * (a * s - a * a * sum / 2);
            df += sum * inverse;
        }
    *freedom = df;
    return fmax(rss, 0);
}

static const double ridges[] = {1e-7, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1, 3, 10, 100};

/* With points enough, next to no ridge: a shrunken step would bias what averaging converges to. */
static bool enough(const wv_update *c, const local *l)
{
    return c->ess > wv_policy.update_enough_points * (double)l->D;
}

/* Ridge strength, one of the first `most`, by generalised cross-validation. */
static double choose_ridge(const local *l, const double *S, double total, double ess, size_t most, double *rss)
{
    double best = INFINITY, lambda = 100, observations = ess * (double)l->D;
    for (size_t g = 0; g < most; g++) {
        double df, r = ridge_rss(l, S, total, ridges[g], &df), left = 1 - df / observations;
        double score = left > wv_policy.update_freedom_left ? r / (left * left) : INFINITY;
        if (score < best) {
            best = score;
            lambda = ridges[g];
            *rss = r;
        }
    }
    return lambda;
}

/* rows of `a` and of its columns scaled: a_ik *= left_i right_k */
static void scale_both(size_t D, const double *left, double sign_left, const double *right, double sign_right,
                       double *a)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            a[i * D + k] *= (sign_left > 0 ? left[i] : 1 / left[i]) * (sign_right > 0 ? right[k] : 1 / right[k]);
}

static bool eigenvectors(const wv_step *s, size_t D, double *E, double *values)
{
    size_t mark = wv_arena_mark(s->arena);
    bool found = wv_dense_eigh(D, E, values, wv_arena_take(s->arena, wv_dense_eigh_work(D)));
    wv_arena_release(s->arena, mark);
    return found;
}

/* l->E and l->c: eigenvectors and eigenvalues of Cov(z), which for all but diagonal families has the eigenvectors of
 * Cov(y); root: [D] of M, in the eigenbasis. l->S: what C + C' is there. */
static bool to_eigenvectors(const wv_step *s, const wv_update *c, local *l, double *root)
{
    size_t D = l->D;
    bool diag = diagonal(c);
    memcpy(l->E, l->m.cov, D * D * sizeof *l->E);
    memcpy(l->S, l->C, D * D * sizeof *l->S);
    if (diag) {
        for (size_t i = 0; i < D; i++)
            root[i] = sqrt(l->M[i * D + i]);
        scale_both(D, root, -1, root, -1, l->E);
        scale_both(D, root, 1, root, -1, l->S);
    }
    if (!eigenvectors(s, D, l->E, l->c))
        return false;
    multiply(D, CblasNoTrans, l->E, CblasNoTrans, l->S, l->S2);
    multiply(D, CblasNoTrans, l->S2, CblasTrans, l->E, l->S);
    for (size_t i = 0; i < D; i++) {
        l->c[i] = fmax(l->c[i], 0);
        if (!diag) {
            root[i] = sqrt(l->keep * l->c[i] + l->own);
            l->c[i] /= root[i] * root[i];
        }
    }
    if (!diag)
        scale_both(D, root, 1, root, -1, l->S);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            l->S[i * D + k] = l->S[k * D + i] = l->S[i * D + k] + l->S[k * D + i];
    return true;
}

/* X from l->S in the eigenbasis, with ridge lambda. */
static void from_eigenvectors(const wv_update *c, local *l, const double *root, double lambda)
{
    size_t D = l->D;
    bool diag = diagonal(c);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S[i * D + k] /= l->c[i] + l->c[k] + 2 * lambda;
    if (!diag)
        scale_both(D, root, -1, root, -1, l->S);
    multiply(D, CblasNoTrans, l->S, CblasNoTrans, l->E, l->S2);
    multiply(D, CblasTrans, l->E, CblasNoTrans, l->S2, l->X);
    if (diag)
        scale_both(D, root, -1, root, -1, l->X);
}

/* X through the eigenvectors of Cov(z). */
static bool regress_by_eigenvectors(const wv_step *s, const wv_update *c, local *l)
{
    size_t mark = wv_arena_mark(s->arena);
    bool few = !enough(c, l), measured = few || diagonal(c);
    double *root = wv_arena_take(s->arena, l->D), total = 0, residual = 0, rss = 0, lambda = ridges[0];
    if (measured)
        variances(s, c, l, &total, &residual);
    bool found = to_eigenvectors(s, c, l, root);
    if (found && measured) {
        rss = residual;
        lambda = choose_ridge(l, l->S, residual, c->ess, few ? sizeof ridges / sizeof *ridges : 1, &rss);
        l->r2 = total > 0 ? 1 - rss / total : 1;
    }
    if (found)
        from_eigenvectors(c, l, root, lambda);
    wv_arena_release(s->arena, mark);
    return found;
}

/* The same with the least ridge, without eigenvectors, for M = keep cov + own I. In z the equation is S X + X
 * S = T, S = Cov(z) + lambda I; its solution is a series in U = (S + p)^-1 (S - p), whose terms are summed in
 * doubling numbers (Smith): X <- X + U X U, U <- U^2, from X = 2 p (S + p)^-1 T (S + p)^-1. In y everything
 * is a function of F = Cov(y) + (p + lambda) M, since M = a F + b I; U becomes (1 - 2 p a) I - 2 p b F^-1.
 * K, U: [D][D] scratch. False: the series converges too slowly. */
static bool sum_series(local *l, const double *cov, const double *C, double keep, double own, double *K, double *U)
{
    size_t D = l->D;
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += cov[i * D + i] / (double)D;
    double p = sum / (keep * sum + own), shift = p + ridges[0], a = keep / (1 + shift * keep),
           b = own / (1 + shift * keep);
    if (!(p > 0))
        return false;
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            K[i * D + k] = (1 + shift * keep) * cov[i * D + k] + (i == k ? shift * own : 0);
    if (!wv_dense_inverse_root(D, K, l->S, l->S2))
        return false;
    multiply(D, CblasNoTrans, l->S, CblasTrans, l->S, K); /* F^-1 */
    multiply(D, CblasNoTrans, C, CblasNoTrans, K, l->S);
    multiply(D, CblasNoTrans, K, CblasNoTrans, l->S, l->S2);
    for (size_t i = 0; i < D * D; i++)
        l->S2[i] = 2 * p * (a * l->S[i] + b * l->S2[i]);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++) {
            l->X[i * D + k] = l->X[k * D + i] = l->S2[i * D + k] + l->S2[k * D + i];
            U[i * D + k] = U[k * D + i] = (i == k ? 1 - 2 * p * a : 0) - 2 * p * b * K[i * D + k];
        }
    for (int round = 0;; round++) {
        double left = inner(D, U, U);
        if (left < 1e-15)
            return true;
        if (round == (int)wv_policy.update_series_doublings || !isfinite(left))
            return false;
        multiply(D, CblasNoTrans, U, CblasNoTrans, l->X, l->S);
        multiply(D, CblasNoTrans, l->S, CblasNoTrans, U, l->S2);
        cblas_daxpy((int)(D * D), 1.0, l->S2, 1, l->X, 1);
        multiply(D, CblasNoTrans, U, CblasNoTrans, U, l->S);
        memcpy(U, l->S, D * D * sizeof *U);
    }
}

static bool regress_by_series(const wv_step *s, local *l, const double *cov, const double *C, double keep, double own)
{
    size_t mark = wv_arena_mark(s->arena), square = l->D * l->D;
    bool summed = sum_series(l, cov, C, keep, own, wv_arena_take(s->arena, square), wv_arena_take(s->arena, square));
    wv_arena_release(s->arena, mark);
    return summed;
}

/* First part of `natural`: the gradient is a0 + (X - I)(y - mean) under q_j, X symmetric, with a
 * ridge towards 0, the current precision. */
static bool gradient_regression(const wv_step *s, const wv_update *c, local *l)
{
    pull(s, c, l);
    return (!diagonal(c) && enough(c, l) && regress_by_series(s, l, l->m.cov, l->C, l->keep, l->own)) ||
           regress_by_eigenvectors(s, c, l);
}

/* The same for a diagonal component that is truncated: only what the slope is on the diagonal, and r2, for which
 * eigenvectors would be needed, does not matter. */
static bool diagonal_slopes(const wv_step *s, const wv_update *c, local *l, double *slope)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    double *root = wv_arena_take(s->arena, D), *cov = wv_arena_take(s->arena, D * D),
           *C = wv_arena_take(s->arena, D * D); /* of M; Cov(y) and C in z, where M = I */
    measure(s, c, l);
    shrink(c, l);
    pull(s, c, l);
    for (size_t i = 0; i < D; i++)
        root[i] = sqrt(l->M[i * D + i]);
    memcpy(cov, l->m.cov, D * D * sizeof *cov);
    memcpy(C, l->C, D * D * sizeof *C);
    scale_both(D, root, -1, root, -1, cov);
    scale_both(D, root, 1, root, -1, C);
    bool summed = enough(c, l) && regress_by_series(s, l, cov, C, 0, 1),
         found = summed || regress_by_eigenvectors(s, c, l);
    for (size_t i = 0; found && i < D; i++)
        slope[i] = l->X[i * D + i] / (summed ? l->M[i * D + i] : 1);
    wv_arena_release(s->arena, mark);
    return found;
}

/* r2 where it has not been worked out with the ridge, which was next to nothing: the quadratic
 * explains <X, T>/2 in z. */
static void explain(const wv_step *s, const wv_update *c, local *l)
{
    double total, residual;
    if (!isnan(l->r2))
        return;
    variances(s, c, l, &total, &residual);
    multiply(l->D, CblasNoTrans, l->X, CblasNoTrans, l->M, l->S);
    double rss = fmax(residual - trace(l->D, l->S, l->C) - ridges[0] * trace(l->D, l->S, l->S), 0);
    l->r2 = total > 0 ? 1 - rss / total : 1;
}

/* ---- regression of the residual ---------------------------------------------------------------------------------- */
/* z = W^-1 (y - mean) for all points, and the quadratic in z. */
static bool to_cell(const wv_update *c, local *l)
{
    size_t D = l->D;
    memcpy(l->W, l->M, D * D * sizeof *l->W);
    if (!wv_dense_chol(D, l->W, l->S))
        return false;
    wv_dense_invert(D, l->W, l->V);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S[i * D + k] = l->V[k * D + i];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)c->n, (int)D, (int)D, 1.0, l->y, (int)D, l->S, (int)D,
                0.0, l->z, (int)D);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, l->W, (int)D, l->a0, 1, 0.0, l->a1, 1);
    memcpy(l->S, l->X, D * D * sizeof *l->S);
    for (size_t i = 0; i < D; i++)
        l->S[i * D + i] -= 1;
    multiply(D, CblasTrans, l->W, CblasNoTrans, l->S, l->S2);
    multiply(D, CblasNoTrans, l->S2, CblasNoTrans, l->W, l->A);
    return true;
}

/* (a1, A) in z back to (a0, X) in y. */
static void from_cell(local *l)
{
    size_t D = l->D;
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, l->V, (int)D, l->a1, 1, 0.0, l->a0, 1);
    multiply(D, CblasTrans, l->V, CblasNoTrans, l->A, l->S);
    multiply(D, CblasNoTrans, l->S, CblasNoTrans, l->V, l->X);
    for (size_t i = 0; i < D; i++)
        l->X[i * D + i] += 1;
}

/* zAz[n]: z'Az/2 at every point. */
static void forms(const wv_step *s, const wv_update *c, const local *l, const double *A, double *zAz)
{
    size_t mark = wv_arena_mark(s->arena);
    int D = (int)l->D;
    double *zA = wv_arena_take(s->arena, c->n * l->D); /* [n][D] */
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)c->n, D, D, 1.0, l->z, D, A, D, 0.0, zA, D);
    for (size_t k = 0; k < c->n; k++)
        zAz[k] = cblas_ddot(D, zA + k * l->D, 1, l->z + k * l->D, 1) / 2;
    wv_arena_release(s->arena, mark);
}

/* r = log p~ - a1.z - z'Az/2 at every point, centred; returns its weighted variance. */
static double residuals(const wv_step *s, const wv_update *c, const local *l, double *r)
{
    double mean = 0, variance = 0;
    forms(s, c, l, l->A, r);
    for (size_t k = 0; k < c->n; k++) {
        r[k] = c->log_p[k] - cblas_ddot((int)l->D, l->a1, 1, l->z + k * l->D, 1) - r[k];
        mean += c->u[k] * r[k];
    }
    for (size_t k = 0; k < c->n; k++) {
        r[k] -= mean;
        variance += c->u[k] * r[k] * r[k];
    }
    return variance;
}

/* Statistics of a point: z, z^2/2 and, with `cross`, z_i z_k for i > k. */
static void statistics(size_t D, const double *z, bool cross, double *T)
{
    size_t at = 2 * D;
    for (size_t i = 0; i < D; i++) {
        T[i] = z[i];
        T[D + i] = z[i] * z[i] / 2;
        for (size_t k = 0; cross && k < i; k++)
            T[at++] = z[i] * z[k];
    }
}

/* F = Cov(T, T) (lower half), with_r = Cov(T, r) under the weights for r with mean 0, accumulated in blocks. */
static void normal_equations(const wv_step *s, const wv_update *c, const local *l, const double *r, bool cross,
                             size_t p, double *F, double *with_r)
{
    size_t mark = wv_arena_mark(s->arena);
    double *T = wv_arena_take(s->arena, WV_STEP_ROWS * p), *mean = wv_arena_zeros(s->arena, p); /* [rows][p], [p] */
    memset(F, 0, p * p * sizeof *F);
    memset(with_r, 0, p * sizeof *with_r);
    for (size_t first = 0; first < c->n; first += WV_STEP_ROWS) {
        size_t here = c->n - first < WV_STEP_ROWS ? c->n - first : WV_STEP_ROWS;
        for (size_t k = 0; k < here; k++) {
            double *row = T + k * p, u = c->u[first + k], root = sqrt(u);
            statistics(l->D, l->z + (first + k) * l->D, cross, row);
            cblas_daxpy((int)p, u, row, 1, mean, 1);
            cblas_daxpy((int)p, u * r[first + k], row, 1, with_r, 1);
            cblas_dscal((int)p, root, row, 1);
        }
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)p, (int)here, 1.0, T, (int)p, 1.0, F, (int)p);
    }
    cblas_dsyr(CblasRowMajor, CblasLower, (int)p, -1.0, mean, 1, F, (int)p);
    wv_arena_release(s->arena, mark);
}

/* Adds the coefficients b of (z, z^2/2, products) to the quadratic (a1, A) in z. */
static void add_coefficients(local *l, const double *b, bool cross)
{
    size_t D = l->D;
    cblas_daxpy((int)D, 1.0, b, 1, l->a1, 1);
    for (size_t i = 0, at = 2 * D; i < D; i++) {
        l->A[i * D + i] += b[D + i];
        for (size_t k = 0; cross && k < i; k++, at++) {
            l->A[i * D + k] += b[at];
            l->A[k * D + i] += b[at];
        }
    }
}

/* Second part: regression of the residual of log p~ on T, shrunk by ESS/(ESS + coefficients); adds to a1 and A. */
static void residual_regression(const wv_step *s, const wv_update *c, local *l)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D, full = 2 * D + D * (D - 1) / 2;
    bool cross = !diagonal(c) && full <= s->most_coefficients && c->ess > wv_policy.update_cross_points * (double)full;
    size_t p = cross ? full : 2 * D;
    /* without gradients this is all there is: where points suffice, plain least squares, since
     * shrinking would cripple the trust region */
    bool plain = c->estimator == WVGD_SCORE && c->ess > wv_policy.update_plain_points * (double)p;
    double *r = wv_arena_take(s->arena, c->n), *F = wv_arena_take(s->arena, p * p), *b = wv_arena_take(s->arena, p),
           *with_r = wv_arena_take(s->arena, p); /* [n], [p][p], [p] coefficients, [p] Cov(T, r) */
    double variance = residuals(s, c, l, r), shrink = plain ? 1 : c->ess / (c->ess + (double)p),
           ridge = plain ? 1e-9 : (double)p / c->ess, explained = 0;
    normal_equations(s, c, l, r, cross, p, F, with_r);
    memcpy(b, with_r, p * sizeof *b);
    for (size_t i = 0; i < p; i++)
        F[i * p + i] = F[i * p + i] * (1 + ridge) + 1e-9;
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, b, (lapack_int)p) == 0) {
        for (size_t i = 0; i < p; i++) {
            explained += b[i] * with_r[i];
            b[i] *= shrink;
        }
        add_coefficients(l, b, cross);
        if (c->estimator == WVGD_SCORE)
            l->r2 = variance > 0 ? fmin(explained / variance, 1) : 1;
    }
    wv_arena_release(s->arena, mark);
}

/* (a0, X): what the quadratic fit aims at. */
static bool aim(const wv_step *s, const wv_update *c, local *l)
{
    size_t D = l->D;
    bool score = c->estimator == WVGD_SCORE;
    if (!c->moments)
        measure(s, c, l);
    shrink(c, l);
    if (score) {
        l->r2 = 0;
        for (size_t i = 0; i < D; i++)
            l->a0[i] = -l->m.mean[i];
        memset(l->X, 0, D * D * sizeof *l->X);
    } else if (!gradient_regression(s, c, l))
        return false;
    if (diagonal(c))
        keep_diagonal(D, l->X);
    if (score || c->truncated) {
        if (!to_cell(c, l))
            return false;
        residual_regression(s, c, l);
        from_cell(l);
    }
    return true;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */
/* Eigenvalues of the symmetric matrix P brought into [low, high]. */
static bool limit(const wv_step *s, local *l, double low, double high, double *P)
{
    memcpy(l->E, P, l->D * l->D * sizeof *l->E);
    if (!eigenvectors(s, l->D, l->E, l->c))
        return false;
    for (size_t i = 0; i < l->D; i++)
        l->c[i] = fmin(fmax(l->c[i], low), high);
    wv_dense_rebuild(l->D, l->E, l->c, P, l->S2);
    return true;
}

/* The precision that is wanted, I - rho X, into l->S. */
static void want(const wv_update *c, local *l)
{
    size_t D = l->D;
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S[i * D + k] = (i == k) - c->rho * (l->X[i * D + k] + l->X[k * D + i]) / 2;
}

/* Are the eigenvalues of l->S = I - rho X between 1/clip and clip? They are if the change is small. */
static bool inside(const wv_update *c, local *l, double clip)
{
    return c->rho * sqrt(inner(l->D, l->X, l->X)) < 1 - 1 / clip ||
           (wv_dense_above(l->D, l->S, 1, 1 / clip, l->S2) && wv_dense_above(l->D, l->S, -1, -clip, l->S2));
}

/* The trust region opens as the quadratic explains more of the gradient. */
static double region(const wv_step *s, const wv_update *c, local *l)
{
    if (c->truncated)
        return wv_policy.update_change;
    explain(s, c, l);
    return fmin(fmax(1 / fmax(1 - l->r2, 1e-300), wv_policy.update_change), wv_policy.update_change_most);
}

/* The precision after the step into l->S: that which is wanted, its change limited to [low, high], and with a floor,
 * in z, for truncated components. False: no numbers. *limited: a limit was met. */
static bool new_precision(const wv_step *s, const wv_update *c, local *l, bool free, double low, double high,
                          bool *limited)
{
    size_t D = l->D;
    double *P = l->A; /* the precision in z: the quadratic is not needed any more */
    want(c, l);
    *limited = !free;
    if (!free && !limit(s, l, low, high, l->S))
        return false;
    if (!c->truncated)
        return true;
    multiply(D, CblasTrans, l->W, CblasNoTrans, l->S, l->S2);
    multiply(D, CblasNoTrans, l->S2, CblasNoTrans, l->W, P);
    if (wv_dense_above(D, P, 1, wv_policy.update_flattest, l->S2))
        return true;
    *limited = true;
    wv_dense_mirror(D, P);
    if (!limit(s, l, wv_policy.update_flattest, INFINITY, P))
        return false;
    multiply(D, CblasTrans, l->V, CblasNoTrans, P, l->S2);
    multiply(D, CblasNoTrans, l->S2, CblasNoTrans, l->V, l->S);
    return true;
}

/* When limits have changed the quadratic, give back its linear part: n0 += E[ z z'(P - wanted)z ]/2, in z. */
static void give_back(const wv_step *s, const wv_update *c, local *l, double *n0)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    double *changed = wv_arena_take(s->arena, D * D), *zPz = wv_arena_take(s->arena, c->n),
           *n1 = wv_arena_zeros(s->arena, D); /* [D][D] in y, [n], [D] in z */
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            changed[i * D + k] = l->S[i * D + k] - (i == k) + c->rho * l->X[i * D + k];
    multiply(D, CblasTrans, l->W, CblasNoTrans, changed, l->S2);
    multiply(D, CblasNoTrans, l->S2, CblasNoTrans, l->W, changed);
    forms(s, c, l, changed, zPz);
    for (size_t k = 0; k < c->n; k++)
        cblas_daxpy((int)D, c->u[k] * zPz[k], l->z + k * D, 1, n1, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, l->V, (int)D, n1, 1, 1.0, n0, 1);
    wv_arena_release(s->arena, mark);
}

/* Location after the step, relative to the current one in y, into l->delta, and the root of the covariance, Q
 * Q' = S^-1, into l->Q. It solves with a precision that has no upper limit, which would make it overshoot. */
static bool new_location(const wv_step *s, const wv_update *c, local *l, double size, bool limited)
{
    size_t D = l->D;
    int d = (int)D;
    size_t mark = wv_arena_mark(s->arena);
    double *n0 = wv_arena_take(s->arena, D);
    for (size_t i = 0; i < D; i++)
        n0[i] = (c->precondition ? 0 : c->rho * l->change[i]) - l->m.mean[i];
    if (c->truncated && limited)
        give_back(s, c, l, n0);
    bool definite = wv_dense_inverse_root(D, l->S, l->Q, l->S2);
    if (definite) {
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, d, l->Q, d, n0, 1);
        cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, d, l->Q, d, n0, 1);
        for (size_t i = 0; i < D; i++)
            l->delta[i] = n0[i] + l->m.mean[i];
        if (c->precondition)
            cblas_daxpy(d,
                        fmin(c->rho, wv_policy.update_move_preconditioned * sqrt((double)D) / sqrt(fmax(size, 1e-300))),
                        l->step, 1, l->delta, 1);
    }
    wv_arena_release(s->arena, mark);
    return definite;
}

/* q_j takes the covariance Q Q' in y. */
static bool absorb(const wv_step *s, const wv_update *c, local *l)
{
    size_t D = l->D;
    if (c->family == wv_family_get(WVGD_FULL)) { /* a product of lower triangles is one */
        cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, l->Q,
                    (int)D, c->root, (int)D);
        return true;
    }
    multiply(D, CblasNoTrans, l->Q, CblasTrans, l->Q, l->S);
    return c->family->absorb(D, c->R, c->root, l->S, s->arena);
}

/* The change of the slope that (a0, X) asks for, into l->change, and l->step with a full covariance. Returns its
 * squared size in units of the component. */
static double slope_change(const wv_step *s, const wv_update *c, local *l)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    int d = (int)D;
    double *d0 = l->change, *Md = wv_arena_take(s->arena, D);
    for (size_t i = 0; i < D; i++)
        d0[i] = l->a0[i] + l->m.mean[i];
    cblas_dgemv(CblasRowMajor, CblasNoTrans, d, d, 1.0, l->M, d, d0, 1, 0.0, Md, 1);
    double size = cblas_ddot(d, d0, 1, Md, 1), far = c->rho * sqrt(size);
    wv_arena_release(s->arena, mark);
    if (c->truncated && far > wv_policy.update_slope_change) {
        /* a cell is about 2 units wide: no estimate from its points justifies a larger change of slope */
        far /= wv_policy.update_slope_change;
        cblas_dscal(d, 1 / far, d0, 1);
        size /= far * far;
    }
    return c->precondition ? wv_diagonal_precondition(c, D, d0, l->step) : size;
}

/* The step itself: towards (a0, X) by rho, within the trust region. */
static wv_update_result walk(const wv_step *s, const wv_update *c, local *l)
{
    wv_update_result result = {false, 0};
    size_t D = l->D;
    int d = (int)D;
    double size = slope_change(s, c, l);
    multiply(D, CblasNoTrans, l->X, CblasNoTrans, l->M, l->S);
    result.kl = trace(D, l->S, l->S) / 4 + size / 2;
    if (!isfinite(result.kl))
        return result;
    want(c, l);
    /* no trust region is narrower: where it is not left, r2 need not be known */
    bool free = inside(c, l, wv_policy.update_change), limited;
    double clip = free ? wv_policy.update_change : region(s, c, l);
    want(c, l);
    bool low = free || wv_dense_above(D, l->S, 1, 1 / clip, l->S2),
         high = free || wv_dense_above(D, l->S, -1, -clip, l->S2);
    if (!new_precision(s, c, l, low, 1 / clip, INFINITY, &limited) || !new_location(s, c, l, size, limited))
        return result;
    double moved = cblas_dnrm2(d, l->delta, 1), most = wv_policy.update_move * sqrt((double)D);
    if (!isfinite(moved))
        return result;
    if (moved > clip * most && !c->precondition) {
        clip = region(s, c, l);
        cblas_dscal(d, fmin(1, clip * most / moved), l->delta, 1);
    }
    if (!high &&
        !(new_precision(s, c, l, false, 1 / clip, clip, &limited) && wv_dense_inverse_root(D, l->S, l->Q, l->S2)))
        return result;
    c->family->colour(D, c->R, c->root, 1, l->delta, s->arena);
    cblas_daxpy(d, 1.0, l->delta, 1, c->mu, 1);
    result.ok = absorb(s, c, l);
    return result;
}

static wv_update_result by_matrices(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena);
    local l = make_room(s, c);
    wv_update_result result = {false, 0};
    if (aim(s, c, &l))
        result = walk(s, c, &l);
    wv_arena_release(s->arena, mark);
    return result;
}

/* A diagonal component that its cell truncates. In few dimensions the slopes of the gradient come
 * from a regression on all coordinates. */
static wv_update_result truncated(const wv_step *s, const wv_update *c)
{
    if (c->estimator != WVGD_NATURAL || s->D == 1 || (double)s->D >= wv_policy.update_apart_dimensions)
        return wv_diagonal_truncated(s, c, NULL);
    size_t mark = wv_arena_mark(s->arena);
    double *slope = wv_arena_take(s->arena, s->D);
    size_t room = wv_arena_mark(s->arena);
    local l = make_room(s, c);
    bool sloped = diagonal_slopes(s, c, &l, slope);
    wv_arena_release(s->arena, room);
    wv_update_result result = sloped ? wv_diagonal_truncated(s, c, slope) : (wv_update_result){false, 0};
    wv_arena_release(s->arena, mark);
    return result;
}

/* ---- all estimators ---------------------------------------------------------------------------------------------- */
static wv_update_result move(const wv_step *s, const wv_update *c)
{
    if (c->estimator == WVGD_REPARAM)
        return wv_reparam_update(s, c);
    if (diagonal(c) && (!s->dense || c->ess < wv_policy.update_matrix_points * (double)s->D))
        return wv_diagonal_large(s, c);
    if (!s->dense)
        return wv_lowrank_update(s, c);
    if (diagonal(c) && c->truncated)
        return truncated(s, c);
    return by_matrices(s, c);
}

/* Finite, and within a range whose squares are: an improper density has components that grow or shrink without end. */
static bool sound(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena);
    double *sd = wv_arena_take(s->arena, s->D);
    bool within = true;
    c->family->sd(s->D, c->R, c->root, sd);
    for (size_t i = 0; i < s->D && within; i++)
        within = sd[i] > 1e-120 && sd[i] < 1e120 && fabs(c->mu[i]) < 1e120;
    wv_arena_release(s->arena, mark);
    return within && isfinite(c->family->log_det(s->D, c->R, c->root));
}

wv_update_result wv_update_step(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena), size = c->family->size(s->D, c->R);
    double *mu = wv_arena_take(s->arena, s->D), *root = wv_arena_take(s->arena, size); /* before the step */
    memcpy(mu, c->mu, s->D * sizeof *mu);
    memcpy(root, c->root, size * sizeof *root);
    wv_update_result result = move(s, c);
    if (result.ok && !sound(s, c)) {
        result = (wv_update_result){false, 0};
        ++*s->limits;
    }
    if (!result.ok) {
        memcpy(c->mu, mu, s->D * sizeof *mu);
        memcpy(c->root, root, size * sizeof *root);
    }
    wv_arena_release(s->arena, mark);
    return result;
}

/* Gradient of ELBO_j = Cov_qj(T, log p~ - log q) = F (natural target - current), then the chain rule to
 * (mu, log sigma). */
static void elbo_gradient_1d(const wv_update *c, const double natural[2], double gradient[2])
{
    double s2 = c->root[0] * c->root[0], d0 = natural[0] - c->mu[0] / s2, d1 = natural[1] + 1 / (2 * s2),
           F[3] = {0, 0, 0}, e1 = 0, e2 = 0;
    for (size_t k = 0; k < c->n; k++) {
        e1 += c->u[k] * c->x[k];
        e2 += c->u[k] * c->x[k] * c->x[k];
    }
    for (size_t k = 0; k < c->n; k++) {
        double t1 = c->x[k] - e1, t2 = c->x[k] * c->x[k] - e2;
        F[0] += c->u[k] * t1 * t1;
        F[1] += c->u[k] * t1 * t2;
        F[2] += c->u[k] * t2 * t2;
    }
    double g0 = F[0] * d0 + F[1] * d1, g1 = F[1] * d0 + F[2] * d1; /* in the natural parameters mu/s2, -1/(2 s2) */
    gradient[0] = g0 / s2;
    gradient[1] = -2 * g0 * c->mu[0] / s2 + g1 / s2;
}

void wv_update_step_target_1d(const wv_step *s, const wv_update *c, double gradient[2], double natural[2])
{
    if (c->estimator == WVGD_REPARAM) {
        wv_reparam_gradient(s, c, gradient, gradient + 1);
        gradient[0] /= c->root[0];
        natural[0] = natural[1] = NAN;
        return;
    }
    size_t mark = wv_arena_mark(s->arena);
    local l = make_room(s, c);
    if (aim(s, c, &l)) {
        /* log p~ ~ a0 y + (X - 1) y^2/2 with y = (z - m)/sd */
        double sd = c->root[0], m = c->mu[0] + sd * l.m.mean[0], s2 = sd * sd;
        natural[1] = (l.X[0] - 1) / (2 * s2);
        natural[0] = l.a0[0] / sd - m * (l.X[0] - 1) / s2;
        elbo_gradient_1d(c, natural, gradient);
    }
    wv_arena_release(s->arena, mark);
}
