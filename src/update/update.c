/* update.c - one step of component j down KL(q_j || p_j) on its cell (method, section 4).
 *
 * natural, score: a truncated Gaussian is an exponential family with statistics T = (y, y y'/2), so the natural
 * gradient step moves its parameters towards the coefficients of the least-squares regression of log p~ on T under
 * q_j (quadratic.c), within a trust region. Eigenvalues are worked out where one of them meets a limit; otherwise
 * Cholesky factors do. Components that are diagonal, or low-rank in many dimensions, have steps of their own
 * (diagonal.c, lowrank.c).
 *
 * reparam: the paper's estimator (reparam.c). */
#include "update/update.h"
#include "dense.h"
#include "policy.h"
#include "update/diagonal.h"
#include "update/lowrank.h"
#include "update/quadratic.h"
#include "update/reparam.h"
#include "update/square.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* ---- the step ---------------------------------------------------------------------------------------------------- */
/* Eigenvalues of the symmetric matrix P brought into [low, high]. */
static bool limit(const wv_step *s, wv_quadratic *l, double low, double high, double *P)
{
    memcpy(l->E, P, l->D * l->D * sizeof *l->E);
    if (!wv_square_eigenvectors(s->arena, l->D, l->E, l->c))
        return false;
    for (size_t i = 0; i < l->D; i++)
        l->c[i] = fmin(fmax(l->c[i], low), high);
    wv_dense_rebuild(l->D, l->E, l->c, P, l->S2);
    return true;
}

/* The precision that is wanted, I - rho X, into l->S. */
static void want(const wv_update *c, wv_quadratic *l)
{
    size_t D = l->D;
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S[i * D + k] = (i == k) - c->rho * (l->X[i * D + k] + l->X[k * D + i]) / 2;
}

/* Are the eigenvalues of l->S = I - rho X between 1/clip and clip? They are if the change is small. */
static bool inside(const wv_update *c, wv_quadratic *l, double clip)
{
    return c->rho * sqrt(wv_square_inner(l->D, l->X, l->X)) < 1 - 1 / clip ||
           (wv_dense_above(l->D, l->S, 1, 1 / clip, l->S2) && wv_dense_above(l->D, l->S, -1, -clip, l->S2));
}

/* The trust region opens as the quadratic explains more of the gradient. */
static double region(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    if (c->truncated)
        return wv_policy.update_change;
    wv_quadratic_explain(s, c, l);
    return fmin(fmax(1 / fmax(1 - l->r2, 1e-300), wv_policy.update_change), wv_policy.update_change_most);
}

/* The precision after the step into l->S: that which is wanted, its change limited to [low, high]. False: no numbers.
 */
static bool new_precision(const wv_step *s, const wv_update *c, wv_quadratic *l, bool free, double low, double high)
{
    want(c, l);
    return free || limit(s, l, low, high, l->S);
}

/* When limits have added `changed` to the precision, give back its linear part: n0 += E[ z z'changed z ]/2, in z. */
static void give_back(const wv_step *s, const wv_update *c, const wv_quadratic *l, const double *changed, double *n0)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    double *zPz = wv_arena_take(s->arena, c->n), *n1 = wv_arena_zeros(s->arena, D); /* [n], [D] in z */
    wv_quadratic_forms(s, c, l, changed, zPz);
    for (size_t k = 0; k < c->n; k++)
        cblas_daxpy((int)D, c->u[k] * zPz[k], l->z + k * D, 1, n1, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)D, (int)D, 1.0, l->V, (int)D, n1, 1, 1.0, n0, 1);
    wv_arena_release(s->arena, mark);
}

/* to = B'AB. */
static void change_units(wv_quadratic *l, const double *A, const double *B, double *to)
{
    wv_square_multiply(l->D, CblasTrans, B, CblasNoTrans, A, l->S2);
    wv_square_multiply(l->D, CblasNoTrans, l->S2, CblasNoTrans, B, to);
}

/* The precision of the quadratic of a truncated component keeps a floor, in z, and its slope what that takes of it. The
 * full step has both, so that steps of any length are parts of it, and noise in the floor averages out as all noise
 * does. False: no numbers. */
static bool keep_floor(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    size_t D = l->D, mark = wv_arena_mark(s->arena);
    double *P = wv_arena_take(s->arena, D * D), *changed = wv_arena_take(s->arena, D * D);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            l->S[i * D + k] = (i == k) - (l->X[i * D + k] + l->X[k * D + i]) / 2;
    change_units(l, l->S, l->W, P);
    bool above = wv_dense_above(D, P, 1, wv_update_floor(c), l->S2), ok = true;
    if (!above) {
        wv_dense_mirror(D, P);
        memcpy(changed, P, D * D * sizeof *changed);
        ok = limit(s, l, wv_update_floor(c), INFINITY, P);
    }
    if (!above && ok) {
        for (size_t i = 0; i < D * D; i++)
            changed[i] = P[i] - changed[i];
        give_back(s, c, l, changed, l->a0);
        change_units(l, P, l->V, l->X);
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k < D; k++)
                l->X[i * D + k] = (i == k) - l->X[i * D + k];
    }
    wv_arena_release(s->arena, mark);
    return ok;
}

/* What limits have added to the precision of the step, in l->S, is given back to n0. */
static void give_back_limits(const wv_step *s, const wv_update *c, wv_quadratic *l, double *n0)
{
    size_t mark = wv_arena_mark(s->arena), D = l->D;
    double *changed = wv_arena_take(s->arena, D * D);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++)
            changed[i * D + k] = l->S[i * D + k] - (i == k) + c->rho * l->X[i * D + k];
    change_units(l, changed, l->W, changed);
    give_back(s, c, l, changed, n0);
    wv_arena_release(s->arena, mark);
}

/* Location after the step, relative to the current one in y, into l->delta, and the root of the covariance, Q
 * Q' = S^-1, into l->Q. It solves with a precision that has no upper limit, which would make it overshoot. */
static bool new_location(const wv_step *s, const wv_update *c, wv_quadratic *l, double size, bool limited)
{
    size_t D = l->D;
    int d = (int)D;
    size_t mark = wv_arena_mark(s->arena);
    double *n0 = wv_arena_take(s->arena, D);
    for (size_t i = 0; i < D; i++)
        n0[i] = (c->precondition ? 0 : c->rho * l->change[i]) - l->m.mean[i];
    if (c->truncated && limited)
        give_back_limits(s, c, l, n0);
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
static bool absorb(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    size_t D = l->D;
    if (c->family == wv_family_get(WVGD_FULL)) { /* a product of lower triangles is one */
        cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, l->Q,
                    (int)D, c->root, (int)D);
        return true;
    }
    wv_square_multiply(D, CblasNoTrans, l->Q, CblasTrans, l->Q, l->S);
    return c->family->absorb(D, c->R, c->root, l->S, s->arena);
}

/* The change of the slope that (a0, X) asks for, into l->change, and l->step with a full covariance. Returns its
 * squared size in units of the component. */
static double slope_change(const wv_step *s, const wv_update *c, wv_quadratic *l)
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
static wv_update_result walk(const wv_step *s, const wv_update *c, wv_quadratic *l)
{
    wv_update_result result = {false, 0};
    size_t D = l->D;
    int d = (int)D;
    if (c->truncated && !keep_floor(s, c, l))
        return result;
    double size = slope_change(s, c, l);
    wv_square_multiply(D, CblasNoTrans, l->X, CblasNoTrans, l->M, l->S);
    result.kl = wv_square_trace(D, l->S, l->S) / 4 + size / 2;
    if (!isfinite(result.kl))
        return result;
    want(c, l);
    /* no trust region is narrower: where it is not left, r2 need not be known */
    bool free = inside(c, l, wv_policy.update_change);
    double clip = free ? wv_policy.update_change : region(s, c, l);
    want(c, l);
    bool low = free || wv_dense_above(D, l->S, 1, 1 / clip, l->S2),
         high = free || wv_dense_above(D, l->S, -1, -clip, l->S2);
    if (!new_precision(s, c, l, low, 1 / clip, INFINITY) || !new_location(s, c, l, size, !low))
        return result;
    double moved = cblas_dnrm2(d, l->delta, 1), most = wv_policy.update_move * sqrt((double)D);
    if (!isfinite(moved))
        return result;
    if (moved > clip * most && !c->precondition) {
        clip = region(s, c, l);
        cblas_dscal(d, fmin(1, clip * most / moved), l->delta, 1);
    }
    if (!high && !(new_precision(s, c, l, false, 1 / clip, clip) && wv_dense_inverse_root(D, l->S, l->Q, l->S2)))
        return result;
    c->family->colour(D, c->R, c->root, 1, l->delta, s->arena);
    cblas_daxpy(d, 1.0, l->delta, 1, c->mu, 1);
    result.ok = absorb(s, c, l);
    return result;
}

static wv_update_result by_matrices(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena);
    wv_quadratic l = wv_quadratic_room(s, c);
    wv_update_result result = {false, 0};
    if (wv_quadratic_fit(s, c, &l))
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
    wv_quadratic l = wv_quadratic_room(s, c);
    bool sloped = wv_quadratic_slopes(s, c, &l, slope);
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
    if (wv_update_diagonal(c) && (!s->dense || c->ess < wv_policy.update_matrix_points * (double)s->D))
        return wv_diagonal_large(s, c);
    if (!s->dense)
        return wv_lowrank_update(s, c);
    if (wv_update_diagonal(c) && c->truncated)
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
