/* diagonal.c - the natural step of diagonal components (method, section 4): the regressions of update.c with
 * matrices that are diagonal, so that all but one of them take time in proportion to points and dimensions.
 *
 * Coordinates are y = (x - mu)/root, whitened by the component, and z = (y - mean)/W, in units of the cell. First
 * the slopes of the gradient on y, coordinate by coordinate, then, where the cell truncates, what the quadratic
 * a1 z + a2 z^2/2 leaves of log p~ on (z, z^2/2): the boundary term. With points enough that is one regression
 * for all coordinates, else one for each.
 * What a regression on the other coordinates as well would take out of the noise of a slope, sum_k X_ik^2 / ESS, is
 * small beside that of the boundary term, 2 sum_i<k X_ik^2 / ESS, if there are many. */
#include "update/diagonal.h"
#include "fit.h"
#include "simd/columns.h"
#include "dense.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

static const double flattest = 0.02; /* smallest precision of a truncated component, in units of its cell */
static const double most_change = 4; /* limit of a trust region: the factor by which a precision may change */

/* Names for the scratch of a step, [D] each. */
typedef struct {
    double *mean, *at; /* of the points: of x, and of y */
    double *variance;  /* of y */
    double *W, *unit;  /* sd of the cell in y, and 1/(root W): z = (x - mean) unit */
    double *a1, *a2;   /* the quadratic in z */
    double *half;      /* mean of z^2/2 */
} local;

static local names(wvgd_fit *f)
{
    return (local){.mean = f->desk.vector[0],
                   .at = f->desk.vector[1],
                   .variance = f->desk.vector[2],
                   .W = f->desk.vector[3],
                   .unit = f->desk.vector[4],
                   .a1 = f->desk.vector[5],
                   .a2 = f->desk.vector[6],
                   .half = f->desk.vector[7]};
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* Means and variances of the points; a1: mean of the gradient in y, a2: its covariance with y. Without
 * gradients that of log q_j, -y, stands for it. */
static void measure(wvgd_fit *f, const wv_update *c, local *l)
{
    const wv_columns *pass = wv_columns_best();
    size_t D = f->D;
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

/* What the quadratic leaves of log p~, centred, into f->desk.gr. */
static void leftover(wvgd_fit *f, const wv_update *c, local *l)
{
    double mean = 0;
    for (size_t i = 0; i < f->D; i++) {
        l->unit[i] = 1 / (c->root[i] * l->W[i]);
        l->half[i] = l->variance[i] / (2 * l->W[i] * l->W[i]);
    }
    memcpy(f->desk.gr, c->log_p, c->n * sizeof *f->desk.gr);
    wv_columns_best()->row_quadratic(c->n, f->D, c->x, l->mean, l->unit, l->a1, l->a2, f->desk.gr);
    for (size_t p = 0; p < c->n; p++)
        mean += c->u[p] * f->desk.gr[p];
    for (size_t p = 0; p < c->n; p++)
        f->desk.gr[p] -= mean;
}

/* ---- truncated, with points enough ------------------------------------------------------------------------------- */
/* W: of the covariance on the cell; with few points shrunk towards the component's own shape. */
static void shrink(size_t D, const wv_update *c, local *l)
{
    double sum = 0, keep = c->ess / (c->ess + (double)D);
    for (size_t i = 0; i < D; i++)
        sum += l->variance[i];
    for (size_t i = 0; i < D; i++)
        l->W[i] = sqrt(keep * l->variance[i] + (1 - keep) * fmin(1.0, sum / (double)D) + 1e-12);
}

/* The boundary term: regression of what is left of log p~ on T = (z, z^2/2), all coordinates at once, shrunk by
 * ESS/(ESS + coefficients); added to a1 and a2. */
static void regress_together(wvgd_fit *f, const wv_update *c, local *l)
{
    size_t D = f->D, p = 2 * D;
    bool plain = c->estimator == WVGD_SCORE && c->ess > 2 * (double)p; /* as in update.c */
    double keep = plain ? 1 : c->ess / (c->ess + (double)p), ridge = plain ? 1e-9 : (double)p / c->ess,
           weighted[WV_BLOCK];
    memset(f->desk.F, 0, p * p * sizeof *f->desk.F);
    memset(f->desk.Fc, 0, p * sizeof *f->desk.Fc);
    for (size_t first = 0; first < c->n; first += WV_BLOCK) {
        size_t here = c->n - first < WV_BLOCK ? c->n - first : WV_BLOCK;
        wv_columns_best()->row_statistics(here, D, c->u + first, c->x + first * D, l->mean, l->unit, l->half,
                                          f->desk.T);
        for (size_t k = 0; k < here; k++)
            weighted[k] = sqrt(c->u[first + k]) * f->desk.gr[first + k];
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)here, (int)p, 1.0, f->desk.T, (int)p, weighted, 1, 1.0, f->desk.Fc,
                    1);
        wv_dense_cross(here, p, f->desk.T, p, f->desk.T, true, f->desk.F);
    }
    for (size_t i = 0; i < p; i++)
        f->desk.F[i * p + i] = f->desk.F[i * p + i] * (1 + ridge) + 1e-9;
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, f->desk.F, (lapack_int)p, f->desk.Fc,
                           (lapack_int)p) != 0)
        return;
    cblas_daxpy((int)D, keep, f->desk.Fc, 1, l->a1, 1);
    cblas_daxpy((int)D, keep, f->desk.Fc + D, 1, l->a2, 1);
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

/* The precision in y after the step, X less than log q_j's: its change limited to
 * [1/most_change, high], with a floor in z. */
static double new_precision(const wv_update *c, double X, double W, double high)
{
    return fmax(clamp(1 - c->rho * X, 1 / most_change, high), flattest / (W * W));
}

/* When limits have changed the quadratic, gives back its linear part: n0 += E[ z z'(P - wanted)z ]/2, in z. */
static void give_back(wvgd_fit *f, const wv_update *c, local *l, const double *X, double *n0)
{
    const wv_columns *pass = wv_columns_best();
    double *none = f->desk.uy, *changed = none + f->D, *mean = changed + f->D, total = 0;
    for (size_t i = 0; i < f->D; i++) {
        none[i] = 0;
        changed[i] = -l->W[i] * l->W[i] * (new_precision(c, X[i], l->W[i], INFINITY) - 1 + c->rho * X[i]);
    }
    memset(f->desk.gr, 0, c->n * sizeof *f->desk.gr);
    pass->row_quadratic(c->n, f->D, c->x, l->mean, l->unit, none, changed, f->desk.gr);
    for (size_t p = 0; p < c->n; p++)
        total += f->desk.gr[p] *= c->u[p];
    pass->row_means(c->n, f->D, f->desk.gr, c->x, mean);
    for (size_t i = 0; i < f->D; i++)
        n0[i] += (mean[i] - total * l->mean[i]) * l->unit[i] / l->W[i];
}

/* The step towards the quadratic by rho, within the trust region (update.c's `take`, for matrices
 * that are diagonal). */
static wv_update_result take(wvgd_fit *f, const wv_update *c, local *l)
{
    size_t D = f->D;
    double *X = l->a2, *d0 = l->a1, *n0 = l->half, *step = f->desk.vector[8], size = 0, moved = 0,
           most = sqrt((double)D) / 4 * most_change;
    bool limited = false;
    wv_update_result result = {false, 0};
    for (size_t i = 0; i < D; i++) {
        double W = l->W[i];
        X[i] = l->a2[i] / (W * W) + 1;
        d0[i] = l->a1[i] / W + l->at[i];
        size += W * W * d0[i] * d0[i];
        result.kl += X[i] * W * W * (X[i] * W * W) / 4;
        limited = limited || new_precision(c, X[i], W, INFINITY) != 1 - c->rho * X[i];
    }
    double far = c->rho * sqrt(size);
    if (far > 1) { /* a cell is about 2 units wide: no estimate from its points justifies a larger change of slope */
        cblas_dscal((int)D, 1 / far, d0, 1);
        size /= far * far;
    }
    if (c->precondition)
        size = wv_diagonal_precondition(c, D, d0, step);
    result.kl += size / 2;
    if (!isfinite(result.kl))
        return result;
    for (size_t i = 0; i < D; i++)
        n0[i] = (c->precondition ? 0 : c->rho * d0[i]) - l->at[i];
    if (limited)
        give_back(f, c, l, X, n0);
    for (size_t i = 0; i < D; i++) {
        n0[i] = n0[i] / new_precision(c, X[i], l->W[i], INFINITY) + l->at[i];
        n0[i] += c->precondition ? fmin(c->rho, sqrt((double)D) / 2 / sqrt(fmax(size, 1e-300))) * step[i] : 0;
        moved += n0[i] * n0[i];
    }
    moved = sqrt(moved);
    if (!isfinite(moved))
        return result;
    for (size_t i = 0; i < D; i++) {
        c->mu[i] += c->root[i] * n0[i] * (moved > most && !c->precondition ? most / moved : 1);
        c->root[i] /= sqrt(new_precision(c, X[i], l->W[i], most_change));
    }
    result.ok = true;
    return result;
}

wv_update_result wv_diagonal_truncated(wvgd_fit *f, const wv_update *c, const double *slope)
{
    local l = names(f);
    measure(f, c, &l);
    shrink(f->D, c, &l);
    for (size_t i = 0; i < f->D; i++) {
        double M = l.W[i] * l.W[i];
        l.a1[i] *= l.W[i];
        l.a2[i] = M * (slope ? slope[i] - 1 : (l.a2[i] - 1e-7 * M) / (l.variance[i] + 1e-7 * M));
    }
    leftover(f, c, &l);
    regress_together(f, c, &l);
    return take(f, c, &l);
}

/* ---- in many dimensions, or with few points ---------------------------------------------------------------------- */
/* Boundary term of each coordinate: least squares of the residual on (z, z^2/2), shrunk: by the number of
 * coefficients, or in many dimensions, where these are so many that noise is all there is to most of them, by how
 * much more they explain than noise would (James and Stein). */
static void regress_apart(wvgd_fit *f, const wv_update *c, local *l)
{
    size_t D = f->D;
    double *zt = f->desk.uy, *tt = zt + D, *c1 = tt + D, *c2 = c1 + D, coefficients = 2 * (double)D,
           keep = c->ess / (c->ess + coefficients), explained = 0, noise = 0;
    wv_columns_best()->row_products(c->n, D, c->u, f->desk.gr, c->x, l->mean, l->unit, l->half, zt);
    for (size_t i = 0; i < D; i++) {
        double zz = 2 * l->half[i] + 1e-9, last = tt[i] + 1e-9, det = fmax(zz * last - zt[i] * zt[i], 1e-6 * zz * last);
        double a1 = (last * c1[i] - zt[i] * c2[i]) / det, a2 = (zz * c2[i] - zt[i] * c1[i]) / det;
        explained += a1 * c1[i] + a2 * c2[i];
        c1[i] = a1;
        c2[i] = a2;
    }
    for (size_t p = 0; p < c->n && !f->dense; p++)
        noise += c->u[p] * f->desk.gr[p] * f->desk.gr[p] * coefficients / c->ess;
    if (!f->dense)
        keep = explained > noise ? 1 - noise / explained : 0;
    cblas_daxpy((int)D, keep, c1, 1, l->a1, 1);
    cblas_daxpy((int)D, keep, c2, 1, l->a2, 1);
}

wv_update_result wv_diagonal_large(wvgd_fit *f, const wv_update *c)
{
    local l = names(f);
    double lambda = 1 / c->ess;
    bool score = c->estimator == WVGD_SCORE;
    wv_update_result result = {true, 0};
    measure(f, c, &l);
    for (size_t i = 0; i < f->D; i++) {
        double variance = l.variance[i], w = sqrt(fmax(variance, 1e-8));
        l.W[i] = w;
        l.a1[i] *= w;
        l.a2[i] = score ? -w * w : (w * w * l.a2[i] - lambda * w * w * w * w) / (variance + lambda * w * w);
    }
    if (score || c->truncated) {
        leftover(f, c, &l);
        regress_apart(f, c, &l);
    }
    for (size_t i = 0; i < f->D; i++) {
        double w = l.W[i], P0 = w * w, h1 = -w * l.at[i];
        result.kl += (l.a1[i] - h1) * (l.a1[i] - h1) / 2 + (l.a2[i] + P0) * (l.a2[i] + P0) / 4;
        double wanted = P0 - c->rho * (l.a2[i] + P0), P = clamp(wanted, P0 / most_change, INFINITY);
        P = c->truncated ? fmax(P, flattest) : P;
        double location = (h1 + c->rho * (l.a1[i] - h1)) / P;
        P = fmin(P, P0 * most_change);
        double moved = clamp(l.at[i] + w * location, -most_change, most_change);
        if (!isfinite(moved) || !isfinite(P))
            return (wv_update_result){false, 0};
        c->mu[i] += c->root[i] * moved;
        c->root[i] *= w / sqrt(P);
    }
    return result;
}
