/* diagonal.c - the natural step of diagonal components (method, section 4): the regressions of quadratic.c with
 * matrices that are diagonal, so that all but one of them take time in proportion to points and dimensions.
 *
 * Coordinates are y = (x - mu)/root, whitened by the component, and z = (y - mean)/W, in units of the cell. First
 * the slopes of the gradient on y, coordinate by coordinate, then, where the cell truncates, what the quadratic
 * a1 z + a2 z^2/2 leaves of log p~ on (z, z^2/2): the boundary term. With points enough that is one regression
 * for all coordinates, else one for each.
 * What a regression on the other coordinates as well would take out of the noise of a slope, sum_k X_ik^2 / ESS, is
 * small beside that of the boundary term, 2 sum_i<k X_ik^2 / ESS, if there are many. */
#include "update/diagonal.h"
#include "policy.h"
#include "simd/columns.h"
#include "dense.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* What a step works out, [D] each but for the last. */
typedef struct {
    double *mean, *at; /* of the points: of x, and of y */
    double *variance;  /* of y */
    double *W, *unit;  /* sd of the cell in y, and 1/(root W): z = (x - mean) unit */
    double *a1, *a2;   /* the quadratic in z */
    double *half;      /* mean of z^2/2 */
    double *left;      /* [n] what the quadratic leaves of log p~, centred */
} local;

/* Room for the step, which the caller gives back. */
static local make_room(const wv_step *s, const wv_update *c)
{
    return (local){.mean = wv_arena_take(s->arena, s->D),
                   .at = wv_arena_take(s->arena, s->D),
                   .variance = wv_arena_take(s->arena, s->D),
                   .W = wv_arena_take(s->arena, s->D),
                   .unit = wv_arena_take(s->arena, s->D),
                   .a1 = wv_arena_take(s->arena, s->D),
                   .a2 = wv_arena_take(s->arena, s->D),
                   .half = wv_arena_take(s->arena, s->D),
                   .left = wv_arena_take(s->arena, c->n)};
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* Means and variances of the points; a1: mean of the gradient in y, a2: its covariance with y. Without
 * gradients that of log q_j, -y, stands for it. */
static void measure(size_t D, const wv_update *c, local *l)
{
    const wv_columns *pass = wv_columns_best();
    bool score = c->estimator == WVGD_SCORE;
    pass->row_means(c->n, D, c->u, c->x, l->mean);
    if (!score)
        pass->row_means(c->n, D, c->u, c->grad, l->a1);
    pass->row_slopes(c->n, D, c->u, c->x, l->mean, score ? NULL : c->grad, l->a1, l->variance, l->a2);
    for (size_t i = 0; i < D; i++) {
        double root = c->root[i];
        l->at[i] = (l->mean[i] - c->mu[i]) / root;
        l->variance[i] /= root * root;
        l->a1[i] = score ? -l->at[i] : root * l->a1[i];
        l->a2[i] = score ? -l->variance[i] : l->a2[i];
    }
}

/* l->left, and what it needs. */
static void leave(size_t D, const wv_update *c, local *l)
{
    double mean = 0;
    for (size_t i = 0; i < D; i++) {
        l->unit[i] = 1 / (c->root[i] * l->W[i]);
        l->half[i] = l->variance[i] / (2 * l->W[i] * l->W[i]);
    }
    memcpy(l->left, c->log_p, c->n * sizeof *l->left);
    wv_columns_best()->row_quadratic(c->n, D, c->x, l->mean, l->unit, l->a1, l->a2, l->left);
    for (size_t p = 0; p < c->n; p++)
        mean += c->u[p] * l->left[p];
    for (size_t p = 0; p < c->n; p++)
        l->left[p] -= mean;
}

/* ---- truncated, with points enough ------------------------------------------------------------------------------- */
/* W: sds on the cell. They are not shrunk: in units of a component that is nearly flat along one coordinate, the cell
 * is tiny there, and any other size would hide it. */
static void find_widths(size_t D, local *l)
{
    for (size_t i = 0; i < D; i++)
        l->W[i] = sqrt(l->variance[i]);
}

/* F[p][p] = Cov(T, T) (lower half) and b[p] = Cov(T, left) for T = (z, z^2/2), p = 2 D. */
static void normal_equations(const wv_step *s, const wv_update *c, const local *l, double *F, double *b)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, p = 2 * D;
    double *T = wv_arena_take(s->arena, WV_STEP_ROWS * p), weighted[WV_STEP_ROWS];
    memset(F, 0, p * p * sizeof *F);
    memset(b, 0, p * sizeof *b);
    for (size_t first = 0; first < c->n; first += WV_STEP_ROWS) {
        size_t here = c->n - first < WV_STEP_ROWS ? c->n - first : WV_STEP_ROWS;
        wv_columns_best()->row_statistics(here, D, c->u + first, c->x + first * D, l->mean, l->unit, l->half, T);
        for (size_t k = 0; k < here; k++)
            weighted[k] = sqrt(c->u[first + k]) * l->left[first + k];
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)here, (int)p, 1.0, T, (int)p, weighted, 1, 1.0, b, 1);
        wv_dense_cross(here, p, T, p, T, true, F);
    }
    wv_arena_release(s->arena, mark);
}

/* The boundary term: regression of what is left of log p~ on T = (z, z^2/2), all coordinates at once, shrunk by
 * ESS/(ESS + coefficients); added to a1 and a2. */
static void regress_together(const wv_step *s, const wv_update *c, local *l)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D, p = 2 * D;
    bool plain = c->estimator == WVGD_SCORE &&
                 c->ess > wv_policy.update_plain_points * (double)p; /* as in quadratic.c */
    double keep = plain ? 1 : c->ess / (c->ess + (double)p), ridge = plain ? 1e-9 : (double)p / c->ess,
           *F = wv_arena_take(s->arena, p * p), *b = wv_arena_take(s->arena, p);
    normal_equations(s, c, l, F, b);
    for (size_t i = 0; i < p; i++)
        F[i * p + i] = F[i * p + i] * (1 + ridge) + 1e-9;
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, b, (lapack_int)p) == 0) {
        cblas_daxpy((int)D, keep, b, 1, l->a1, 1);
        cblas_daxpy((int)D, keep, b + D, 1, l->a2, 1);
    }
    wv_arena_release(s->arena, mark);
}

double wv_diagonal_precondition(const wv_update *c, size_t dim, const double *d0, double *step)
{
    int D = (int)dim;
    for (size_t i = 0; i < dim; i++)
        step[i] = d0[i] / c->root[i];
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, D, c->precondition, D, step, 1);
    double size = cblas_ddot(D, step, 1, step, 1);
    cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, D, c->precondition, D, step, 1);
    for (size_t i = 0; i < dim; i++)
        step[i] /= c->root[i];
    return size;
}

/* The precision in y after the step, rho X less than log q_j's: its change limited to [1/update_change, high]. */
static double new_precision(const wv_update *c, double X, double high)
{
    return clamp(1 - c->rho * X, 1 / wv_policy.update_change, high);
}

/* Where a step of a truncated component goes, in y, [D] each. */
typedef struct {
    double *X;       /* curvature of the quadratic relative to log q_j */
    double *d0;      /* change of the slope, */
    double *step;    /* and what a full covariance makes of it (c->precondition) */
    double *n0;      /* linear part; then the new location */
    double *changed; /* what limits have added to the precision, in z, */
    bool limited;    /* if they have added something */
} target;

/* When limits have added t->changed to the precision, gives back its linear part: to += E[ z z'changed z ]/2, in z. */
static void give_back(const wv_step *s, const wv_update *c, const local *l, const target *t, double *to)
{
    const wv_columns *pass = wv_columns_best();
    size_t mark = wv_arena_mark(s->arena), D = s->D;
    double *none = wv_arena_zeros(s->arena, D), *less = wv_arena_take(s->arena, D), *mean = wv_arena_take(s->arena, D),
           *pull = wv_arena_zeros(s->arena, c->n), total = 0;
    for (size_t i = 0; i < D; i++)
        less[i] = -t->changed[i];
    pass->row_quadratic(c->n, D, c->x, l->mean, l->unit, none, less, pull);
    for (size_t p = 0; p < c->n; p++)
        total += pull[p] *= c->u[p];
    pass->row_means(c->n, D, pull, c->x, mean);
    for (size_t i = 0; i < D; i++)
        to[i] += (mean[i] - total * l->mean[i]) * l->unit[i] / l->W[i];
    wv_arena_release(s->arena, mark);
}

/* X and d0 of the quadratic. Its precision keeps a floor, and d0 what that takes of the slope: the full step has both,
 * so that steps of any length are parts of it, and noise in the floor averages out as all noise does. */
static void aim(const wv_step *s, const wv_update *c, const local *l, target *t)
{
    t->limited = false;
    for (size_t i = 0; i < s->D; i++) {
        double W = l->W[i], most = 1 - wv_update_floor(c) / (W * W);
        t->X[i] = l->a2[i] / (W * W) + 1;
        t->d0[i] = l->a1[i] / W + l->at[i];
        t->changed[i] = W * W * fmax(t->X[i] - most, 0);
        t->limited = t->limited || t->X[i] > most;
        t->X[i] = fmin(t->X[i], most);
    }
    if (t->limited)
        give_back(s, c, l, t, t->d0);
}

/* Limits d0, and works out t->step; *kl: nats of the full step. Returns the squared size of d0. */
static double limit_slope(const wv_step *s, const wv_update *c, const local *l, const target *t, double *kl)
{
    double size = 0;
    *kl = 0;
    for (size_t i = 0; i < s->D; i++) {
        double W = l->W[i];
        size += W * W * t->d0[i] * t->d0[i];
        *kl += t->X[i] * W * W * (t->X[i] * W * W) / 4;
    }
    double far = c->rho * sqrt(size);
    if (far > wv_policy.update_slope_change) { /* a cell is about 2 units wide: no estimate from its points justifies a
                                                  larger change of slope */
        far /= wv_policy.update_slope_change;
        cblas_dscal((int)s->D, 1 / far, t->d0, 1);
        size /= far * far;
    }
    if (c->precondition)
        size = wv_diagonal_precondition(c, s->D, t->d0, t->step);
    *kl += size / 2;
    return size;
}

/* The new location into t->n0; returns how far it is. */
static double locate(const wv_step *s, const wv_update *c, const local *l, target *t, double size)
{
    size_t D = s->D;
    double *n0 = t->n0, moved = 0,
           reach = wv_policy.update_move_preconditioned * sqrt((double)D) / sqrt(fmax(size, 1e-300));
    t->limited = false;
    for (size_t i = 0; i < D; i++) {
        n0[i] = (c->precondition ? 0 : c->rho * t->d0[i]) - l->at[i];
        t->changed[i] = l->W[i] * l->W[i] * (new_precision(c, t->X[i], INFINITY) - 1 + c->rho * t->X[i]);
        t->limited = t->limited || t->changed[i] > 0;
    }
    if (t->limited)
        give_back(s, c, l, t, n0);
    for (size_t i = 0; i < D; i++) {
        n0[i] = n0[i] / new_precision(c, t->X[i], INFINITY) + l->at[i];
        n0[i] += c->precondition ? fmin(c->rho, reach) * t->step[i] : 0;
        moved += n0[i] * n0[i];
    }
    return sqrt(moved);
}

/* The step towards the quadratic by rho, within the trust region (update.c's `walk`, for matrices
 * that are diagonal). */
static wv_update_result walk(const wv_step *s, const wv_update *c, const local *l)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D;
    target t = {.X = wv_arena_take(s->arena, D),
                .d0 = wv_arena_take(s->arena, D),
                .step = wv_arena_take(s->arena, D),
                .n0 = wv_arena_take(s->arena, D),
                .changed = wv_arena_take(s->arena, D)};
    wv_update_result result = {false, 0};
    aim(s, c, l, &t);
    double size = limit_slope(s, c, l, &t, &result.kl),
           most = wv_policy.update_move * sqrt((double)D) * wv_policy.update_change,
           moved = isfinite(result.kl) ? locate(s, c, l, &t, size) : NAN;
    result.ok = isfinite(moved);
    for (size_t i = 0; result.ok && i < D; i++) {
        c->mu[i] += c->root[i] * t.n0[i] * (moved > most && !c->precondition ? most / moved : 1);
        c->root[i] /= sqrt(new_precision(c, t.X[i], wv_policy.update_change));
    }
    wv_arena_release(s->arena, mark);
    return result;
}

wv_update_result wv_diagonal_truncated(const wv_step *s, const wv_update *c, const double *slope)
{
    size_t mark = wv_arena_mark(s->arena);
    local l = make_room(s, c);
    measure(s->D, c, &l);
    find_widths(s->D, &l);
    for (size_t i = 0; i < s->D; i++) {
        double M = l.W[i] * l.W[i];
        l.a1[i] *= l.W[i];
        l.a2[i] = M * (slope ? slope[i] - 1 : (l.a2[i] - 1e-7 * M) / (l.variance[i] + 1e-7 * M));
    }
    leave(s->D, c, &l);
    regress_together(s, c, &l);
    wv_update_result result = walk(s, c, &l);
    wv_arena_release(s->arena, mark);
    return result;
}

/* ---- in many dimensions, or with few points ---------------------------------------------------------------------- */
/* Boundary term of each coordinate: least squares of the residual on (z, z^2/2), shrunk: by the number of
 * coefficients, or in many dimensions, where these are so many that noise is all there is to most of them, by how
 * much more they explain than noise would (James and Stein). */
static void regress_apart(const wv_step *s, const wv_update *c, local *l)
{
    size_t mark = wv_arena_mark(s->arena), D = s->D;
    double *zt = wv_arena_take(s->arena, 4 * D), *tt = zt + D, *c1 = tt + D, *c2 = c1 + D, coefficients = 2 * (double)D,
           keep = c->ess / (c->ess + coefficients), explained = 0, noise = 0;
    wv_columns_best()->row_products(c->n, D, c->u, l->left, c->x, l->mean, l->unit, l->half, zt);
    for (size_t i = 0; i < D; i++) {
        double zz = 2 * l->half[i] + 1e-9, last = tt[i] + 1e-9, det = fmax(zz * last - zt[i] * zt[i], 1e-6 * zz * last);
        double a1 = (last * c1[i] - zt[i] * c2[i]) / det, a2 = (zz * c2[i] - zt[i] * c1[i]) / det;
        explained += a1 * c1[i] + a2 * c2[i];
        c1[i] = a1;
        c2[i] = a2;
    }
    for (size_t p = 0; p < c->n && !s->dense; p++)
        noise += c->u[p] * l->left[p] * l->left[p] * coefficients / c->ess;
    if (!s->dense)
        keep = explained > noise ? 1 - noise / explained : 0;
    cblas_daxpy((int)D, keep, c1, 1, l->a1, 1);
    cblas_daxpy((int)D, keep, c2, 1, l->a2, 1);
    wv_arena_release(s->arena, mark);
}

/* The quadratic in z of each coordinate. */
static void regress_large(const wv_step *s, const wv_update *c, local *l)
{
    double lambda = 1 / c->ess;
    bool score = c->estimator == WVGD_SCORE;
    measure(s->D, c, l);
    for (size_t i = 0; i < s->D; i++) {
        double variance = l->variance[i], w = sqrt(fmax(variance, 1e-8));
        l->W[i] = w;
        l->a1[i] *= w;
        l->a2[i] = score ? -w * w : (w * w * l->a2[i] - lambda * w * w * w * w) / (variance + lambda * w * w);
    }
    if (score || c->truncated) {
        leave(s->D, c, l);
        regress_apart(s, c, l);
    }
}

wv_update_result wv_diagonal_large(const wv_step *s, const wv_update *c)
{
    size_t mark = wv_arena_mark(s->arena);
    local l = make_room(s, c);
    double most_change = wv_policy.update_change;
    wv_update_result result = {true, 0};
    regress_large(s, c, &l);
    for (size_t i = 0; i < s->D && result.ok; i++) {
        double w = l.W[i], P0 = w * w, h1 = -w * l.at[i];
        result.kl += (l.a1[i] - h1) * (l.a1[i] - h1) / 2 + (l.a2[i] + P0) * (l.a2[i] + P0) / 4;
        double wanted = P0 - c->rho * (l.a2[i] + P0), P = clamp(wanted, P0 / most_change, INFINITY);
        P = c->truncated ? fmax(P, wv_update_floor(c)) : P;
        double location = (h1 + c->rho * (l.a1[i] - h1)) / P;
        P = fmin(P, P0 * most_change);
        double moved = clamp(l.at[i] + w * location, -most_change, most_change);
        result.ok = isfinite(moved) && isfinite(P);
        if (result.ok) {
            c->mu[i] += c->root[i] * moved;
            c->root[i] *= w / sqrt(P);
        }
    }
    wv_arena_release(s->arena, mark);
    return result.ok ? result : (wv_update_result){false, 0};
}
