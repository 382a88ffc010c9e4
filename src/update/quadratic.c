/* quadratic.c - the quadratic that log p~ is most like under q_j (method, section 4).
 *
 * `natural` first regresses the gradient on y (D equations a point) and then, where the cell truncates, what is left of
 * log p~ on T = (y, y y'/2): the boundary term. `score` takes the current q_j for the first part and needs no gradient.
 * All of it happens in coordinates y whitened by q_j, where its precision is I; least squares are those of
 * coordinates whitened by q_j's own moments on the cell, z = W^-1 (y - mean) with W W' = M, so units do not matter.
 * The regression of the gradient needs the points' first and second moments only. Eigenvectors are worked out where a
 * ridge has to be chosen; otherwise a series does. */
#include "update/quadratic.h"
#include "dense.h"
#include "gaussian.h"
#include "policy.h"
#include "update/square.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

static wv_update_moments own_moments(const wv_step *s)
{
    size_t D = s->D;
    return (wv_update_moments){.mean = wv_arena_take(s->arena, D),
                               .cov = wv_arena_take(s->arena, D * D),
                               .grad = wv_arena_take(s->arena, D),
                               .cross = wv_arena_take(s->arena, D * D)};
}

wv_quadratic wv_quadratic_room(const wv_step *s, const wv_update *c)
{
    size_t D = s->D, square = D * D, points = c->n * D;
    wv_arena *a = s->arena;
    return (wv_quadratic){.D = D,
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

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Covariance of the gradients, lower half. */
static void grad_cov(const wv_step *s, const wv_update *c, const wv_quadratic *l, double *cov)
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
static void measure(const wv_step *s, const wv_update *c, wv_quadratic *l)
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
static void shrink(const wv_update *c, wv_quadratic *l)
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
    if (wv_update_diagonal(c))
        keep_diagonal(D, l->M);
}

/* ---- regression of the gradient ---------------------------------------------------------------------------------- */
/* a0 and C: gradients in y, relative to that of log q_j, which is -y. */
static void pull(const wv_step *s, const wv_update *c, wv_quadratic *l)
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
static void variances(const wv_step *s, const wv_update *c, wv_quadratic *l, double *total, double *residual)
{
    size_t D = l->D;
    if (l->m.grad_cov)
        l->m.grad_cov(s, c, &l->m, l->S);
    else
        grad_cov(s, c, l, l->S);
    wv_dense_mirror(D, l->S);
    c->family->pull(D, c->R, c->root, D, l->S, s->arena);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S2[i * D + k] = l->S[k * D + i];
    c->family->pull(D, c->R, c->root, D, l->S2, s->arena);
    double given = wv_square_inner(D, l->M, l->S2), both = 2 * wv_square_inner(D, l->M, l->C),
           own = wv_square_inner(D, l->M, l->m.cov);
    /* gradient = relative - y; C is the covariance of the relative one with y */
    *total = fmax(l->m.relative ? given - both + own : given, 0);
    *residual = fmax(l->m.relative ? given : given + both - own, 0);
}

/* The symmetric slope of the residual gradient on z for ridge strength lambda, in the eigenbasis of Cov(z):
 * S_ik/(c_i + c_k + 2 lambda). Returns the residual sum of squares and the degrees of freedom spent. */
static double ridge_rss(const wv_quadratic *l, const double *S, double total, double lambda, double *freedom)
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
static bool enough(const wv_update *c, const wv_quadratic *l)
{
    return c->ess > wv_policy.update_enough_points * (double)l->D;
}

/* Ridge strength, one of the first `most`, by generalised cross-validation. */
static double choose_ridge(const wv_quadratic *l, const double *S, double total, double ess, size_t most, double *rss)
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

/* a_ik times root_i, or over it, and over root_k */
static void scale_both(size_t D, const double *root, bool times, double *a)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            a[i * D + k] *= (times ? root[i] : 1 / root[i]) * (1 / root[k]);
}

/* l->E and l->c: eigenvectors and eigenvalues of Cov(z), which for all but diagonal families has the eigenvectors of
 * Cov(y); root: [D] of M, in the eigenbasis. l->S: what C + C' is there. */
static bool to_eigenvectors(const wv_step *s, const wv_update *c, wv_quadratic *l, double *root)
{
    size_t D = l->D;
    bool diag = wv_update_diagonal(c);
    memcpy(l->E, l->m.cov, D * D * sizeof *l->E);
    memcpy(l->S, l->C, D * D * sizeof *l->S);
    if (diag) {
        for (size_t i = 0; i < D; i++)
            root[i] = sqrt(l->M[i * D + i]);
        scale_both(D, root, false, l->E);
        scale_both(D, root, true, l->S);
    }
    if (!wv_square_eigenvectors(s->arena, D, l->E, l->c))
        return false;
    wv_square_multiply(D, CblasNoTrans, l->E, CblasNoTrans, l->S, l->S2);
    wv_square_multiply(D, CblasNoTrans, l->S2, CblasTrans, l->E, l->S);
    for (size_t i = 0; i < D; i++) {
        l->c[i] = fmax(l->c[i], 0);
        if (!diag) {
            root[i] = sqrt(l->keep * l->c[i] + l->own);
            l->c[i] /= root[i] * root[i];
        }
    }
    if (!diag)
        scale_both(D, root, true, l->S);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            l->S[i * D + k] = l->S[k * D + i] = l->S[i * D + k] + l->S[k * D + i];
    return true;
}

/* X from l->S in the eigenbasis, with ridge lambda. */
static void from_eigenvectors(const wv_update *c, wv_quadratic *l, const double *root, double lambda)
{
    size_t D = l->D;
    bool diag = wv_update_diagonal(c);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S[i * D + k] /= l->c[i] + l->c[k] + 2 * lambda;
    if (!diag)
        scale_both(D, root, false, l->S);
    wv_square_multiply(D, CblasNoTrans, l->S, CblasNoTrans, l->E, l->S2);
    wv_square_multiply(D, CblasTrans, l->E, CblasNoTrans, l->S2, l->X);
    if (diag)
        scale_both(D, root, false, l->X);
}

/* X through the eigenvectors of Cov(z). */
static bool regress_by_eigenvectors(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    size_t mark = wv_arena_mark(s->arena);
    bool few = !enough(c, l), measured = few || wv_update_diagonal(c);
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
static bool sum_series(wv_quadratic *l, const double *cov, const double *C, double keep, double own, double *K,
                       double *U)
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
    wv_square_multiply(D, CblasNoTrans, l->S, CblasTrans, l->S, K); /* F^-1 */
    wv_square_multiply(D, CblasNoTrans, C, CblasNoTrans, K, l->S);
    wv_square_multiply(D, CblasNoTrans, K, CblasNoTrans, l->S, l->S2);
    for (size_t i = 0; i < D * D; i++)
        l->S2[i] = 2 * p * (a * l->S[i] + b * l->S2[i]);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++) {
            l->X[i * D + k] = l->X[k * D + i] = l->S2[i * D + k] + l->S2[k * D + i];
            U[i * D + k] = U[k * D + i] = (i == k ? 1 - 2 * p * a : 0) - 2 * p * b * K[i * D + k];
        }
    for (int round = 0;; round++) {
        double left = wv_square_inner(D, U, U);
        if (left < 1e-15)
            return true;
        if (round == (int)wv_policy.update_series_doublings || !isfinite(left))
            return false;
        wv_square_multiply(D, CblasNoTrans, U, CblasNoTrans, l->X, l->S);
        wv_square_multiply(D, CblasNoTrans, l->S, CblasNoTrans, U, l->S2);
        cblas_daxpy((int)(D * D), 1.0, l->S2, 1, l->X, 1);
        wv_square_multiply(D, CblasNoTrans, U, CblasNoTrans, U, l->S);
        memcpy(U, l->S, D * D * sizeof *U);
    }
}

static bool regress_by_series(const wv_step *s, wv_quadratic *l, const double *cov, const double *C, double keep,
                              double own)
{
    size_t mark = wv_arena_mark(s->arena), square = l->D * l->D;
    bool summed = sum_series(l, cov, C, keep, own, wv_arena_take(s->arena, square), wv_arena_take(s->arena, square));
    wv_arena_release(s->arena, mark);
    return summed;
}

/* First part of `natural`: the gradient is a0 + (X - I)(y - mean) under q_j, X symmetric, with a
 * ridge towards 0, the current precision. */
static bool gradient_regression(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    pull(s, c, l);
    return (!wv_update_diagonal(c) && enough(c, l) && regress_by_series(s, l, l->m.cov, l->C, l->keep, l->own)) ||
           regress_by_eigenvectors(s, c, l);
}

/* The same for a diagonal component that is truncated: only what the slope is on the diagonal, and r2, for which
 * eigenvectors would be needed, does not matter. */
bool wv_quadratic_slopes(const wv_step *s, const wv_update *c, wv_quadratic *l, double *slope)
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
    scale_both(D, root, false, cov);
    scale_both(D, root, true, C);
    bool summed = enough(c, l) && regress_by_series(s, l, cov, C, 0, 1),
         found = summed || regress_by_eigenvectors(s, c, l);
    for (size_t i = 0; found && i < D; i++)
        slope[i] = l->X[i * D + i] / (summed ? l->M[i * D + i] : 1);
    wv_arena_release(s->arena, mark);
    return found;
}

/* r2 where it has not been worked out with the ridge, which was next to nothing: the quadratic
 * explains <X, T>/2 in z. */
void wv_quadratic_explain(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    double total, residual;
    if (!isnan(l->r2))
        return;
    variances(s, c, l, &total, &residual);
    wv_square_multiply(l->D, CblasNoTrans, l->X, CblasNoTrans, l->M, l->S);
    double rss = fmax(residual - wv_square_trace(l->D, l->S, l->C) - ridges[0] * wv_square_trace(l->D, l->S, l->S), 0);
    l->r2 = total > 0 ? 1 - rss / total : 1;
}

/* ---- regression of the residual ---------------------------------------------------------------------------------- */
/* z = W^-1 (y - mean) for all points, and the quadratic in z. */
static bool to_cell(const wv_update *c, wv_quadratic *l)
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
    wv_square_multiply(D, CblasTrans, l->W, CblasNoTrans, l->S, l->S2);
    wv_square_multiply(D, CblasNoTrans, l->S2, CblasNoTrans, l->W, l->A);
    return true;
}

/* (a1, A) in z back to (a0, X) in y. */
static void from_cell(wv_quadratic *l)
{
    size_t D = l->D;
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, l->V, (int)D, l->a1, 1, 0.0, l->a0, 1);
    wv_square_multiply(D, CblasTrans, l->V, CblasNoTrans, l->A, l->S);
    wv_square_multiply(D, CblasNoTrans, l->S, CblasNoTrans, l->V, l->X);
    for (size_t i = 0; i < D; i++)
        l->X[i * D + i] += 1;
}

void wv_quadratic_forms(const wv_step *s, const wv_update *c, const wv_quadratic *l, const double *A, double *zAz)
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
static double residuals(const wv_step *s, const wv_update *c, const wv_quadratic *l, double *r)
{
    double mean = 0, variance = 0;
    wv_quadratic_forms(s, c, l, l->A, r);
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
static void normal_equations(const wv_step *s, const wv_update *c, const wv_quadratic *l, const double *r, bool cross,
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
static void add_coefficients(wv_quadratic *l, const double *b, bool cross)
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
static void residual_regression(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D, full = 2 * D + D * (D - 1) / 2;
    bool cross = !wv_update_diagonal(c) && full <= s->most_coefficients &&
                 c->ess > wv_policy.update_cross_points * (double)full;
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

bool wv_quadratic_fit(const wv_step *s, const wv_update *c, wv_quadratic *l)
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
    if (wv_update_diagonal(c))
        keep_diagonal(D, l->X);
    if (score || c->truncated) {
        if (!to_cell(c, l))
            return false;
        residual_regression(s, c, l);
        from_cell(l);
    }
    return true;
}
