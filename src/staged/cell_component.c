/* cell_component.c - the component of a cell is fitted to the mixture that made the stored draws, times the
 * exponential of a quadratic that corrects it on the cell, fitted to log p~ - log m at the stored draws there.
 * That costs no evaluation, so draws of the component itself are as many as it takes: the regression of update.c
 * runs on a few sets of them, several steps on each, for as long as the component still is like the one that
 * made the set (method, section 6, quantise). */
#include "staged/cell_component.h"
#include "fit.h"
#include "gaussian.h"
#include "staged/cell_target.h"
#include "simd/columns.h"
#include "dense.h"
#include "halfspaces.h"
#include "staged/mixture_fit.h"
#include "staged/modes.h"
#include "staged/cell_draws.h"
#include "update/update.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum {
    SETS = 5,       /* sets of draws at most, */
    STEPS = 4,      /* steps on one */
    AVERAGED = 12,  /* sets at the end */
    POLISH = 60,    /* steps on stored draws */
    COMPONENTS = 2, /* components of the mixture tried, */
    SHARED = 100    /* and draws that tell which */
};

/* A component of which less lies in its cell is none for it (with many particles: a tenth of the usual); where less
 * than `little` does, half of the draws come from around the particle, or, in many dimensions, where those would
 * have next to no weight, there are as many as there may be. */
static const double smallest_share = 0.005, little = 0.1;

/* Variance of log target - log component that leaves nothing to gain, as such, and as a multiple of what mixture and
 * correction leave of log p~ (of a fifth of the dimensions, if that is more): one that is as far from the posterior
 * as a component is from it can tell no better one. Nats of a full step after which a set has no more to say, and of
 * a first step that shows the end to be near; nats that the noise of the last steps may cost. */
static const double alike = 0.01, blind = 3, settled = 1e-3, nearly = 0.1, noise = 0.02;

/* Nats by which an ELBO must be better to matter. Effective draws, or as many as there are dimensions,
 * if these are more, that can tell one. */
static const double margin = 0.01, enough_draws = 50;

/* Multiplications for all cells together. */
static const double budget = 4e9;

/* ---- the correction ---------------------------------------------------------------------------------------------- */
static size_t coefficients(const wvgd_fit *f)
{
    size_t D = f->D;
    return f->desk.correction_cross ? 1 + 2 * D + D * (D - 1) / 2 : 1 + 2 * D;
}

/* How far a point t, in units of the cell, is pulled in to the edge of what the quadratic is
 * believed; 1: not at all. */
static double pull(size_t D, const double *t)
{
    double length = cblas_dnrm2((int)D, t, 1), edge = 3 * sqrt((double)D);
    return length > edge ? edge / length : 1;
}

/* Columns of the quadratic: 1, t, t^2/2 and, with `cross`, t_i t_k, times `scale`. */
static void quadratic(size_t D, const double *t, bool cross, double scale, double *T)
{
    double p = pull(D, t);
    size_t at = 2 * D + 1;
    T[0] = scale;
    for (size_t i = 0; i < D; i++) {
        T[1 + i] = scale * p * t[i];
        T[1 + D + i] = scale * p * p * t[i] * t[i] / 2;
        for (size_t k = 0; cross && k < i; k++)
            T[at++] = scale * p * p * t[i] * t[k];
    }
}

static wv_gaussian cell_gauss(const wvgd_fit *f)
{
    return (wv_gaussian){wv_family_get(WVGD_FULL), f->D, 0, f->desk.cell_mean, f->desk.cell_root, 0};
}

/* Weighted normal equations of the correction for the gathered draws, whitened in f->desk.y; r: what is to be
 * explained. */
static void normal_equations(wvgd_fit *f, size_t n, const double *r, double *b)
{
    size_t D = f->D, p = coefficients(f);
    memset(f->desk.F, 0, p * p * sizeof(double));
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        for (size_t i = 0; i < here; i++) {
            double root = sqrt(f->desk.ga[first + i]);
            quadratic(D, f->desk.y + (first + i) * D, f->desk.correction_cross, root, f->desk.T + i * p);
            f->desk.uy[i] = root * r[first + i];
        }
        wv_dense_cross(here, p, f->desk.T, p, f->desk.T, true, f->desk.F);
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)here, (int)p, 1.0, f->desk.T, (int)p, f->desk.uy, 1, 1.0, b, 1);
    }
}

/* Whether a cell's draws are enough for a correction with all products of coordinates. */
static bool crossed(const wvgd_fit *f, double ess)
{
    size_t full = 1 + 2 * f->D + f->D * (f->D - 1) / 2;
    return f->D > 1 && ess > 4 * (double)full && full <= f->size.p_max;
}

/* Fits the correction of the cell to the gathered draws (log p~ in f->desk.glp, weights f->desk.ga), by least squares,
 * shrunk by ESS / (ESS + coefficients). Coordinates: the cell's moments. */
static void fit_correction(wvgd_fit *f, size_t n)
{
    size_t D = f->D, full = 1 + 2 * D + D * (D - 1) / 2, p;
    double ess = wv_weights_ess(n, f->desk.ga), level = 0, *b = f->desk.correction, *r = f->desk.glu;
    wv_gaussian cell = cell_gauss(f);
    f->desk.correction_cross = crossed(f, ess);
    p = coefficients(f);
    memset(b, 0, full * sizeof *b);
    if (ess < 2 * (double)p)
        return;
    wv_gaussian_whiten(&cell, n, f->desk.gx, f->desk.y, f->arena);
    for (size_t i = 0; i < n; i++) {
        r[i] = f->desk.glp[i] - f->desk.moving[i];
        level += f->desk.ga[i] * r[i];
    }
    for (size_t i = 0; i < n; i++)
        r[i] -= level;
    normal_equations(f, n, r, b);
    for (size_t i = 0; i < p; i++)
        f->desk.F[i * p + i] += 1e-8 + (i ? 0.5 / ess : 0);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, f->desk.F, (lapack_int)p, b, (lapack_int)p) != 0)
        memset(b, 0, p * sizeof *b);
    cblas_dscal((int)p, ess / (ess + (double)p), b, 1);
    b[0] += level * (double)p / (ess + (double)p); /* only the level is not shrunk */
    /* a correction that bends upwards more than the cell's own precision allows (heavy tails) would
     * make the target improper */
    double widest = 0;
    for (size_t i = 1 + D; i < p; i++)
        widest = fmax(widest, i <= 2 * D ? b[i] : 0);
    if (widest > 0.3)
        cblas_dscal((int)(p - 1 - D), 0.3 / widest, b + 1 + D, 1);
}

/* Adds the correction at the points x[n][D] to value[n], and its gradient to grad[n][D] where that is not NULL. */
static void correct(wvgd_fit *f, size_t n, const double *x, double *value, double *grad)
{
    size_t D = f->D, at = 1 + 2 * D;
    const double *b = f->desk.correction;
    double *Q = f->desk.square[0], *t = f->desk.y, *Qt = f->desk.uy;
    wv_gaussian cell = cell_gauss(f);
    if (!(cblas_dasum((int)coefficients(f), b, 1) > 0))
        return;
    wv_gaussian_whiten(&cell, n, x, t, f->arena);
    if (f->desk.correction_cross) {
        for (size_t i = 0; i < D; i++) {
            Q[i * D + i] = b[1 + D + i];
            for (size_t k = 0; k < i; k++)
                Q[i * D + k] = Q[k * D + i] = b[at++];
        }
        wv_dense_product(n, D, t, D, Q, 1, 0, Qt);
    } else
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < D; k++)
                Qt[i * D + k] = b[1 + D + k] * t[i * D + k];
    for (size_t i = 0; i < n; i++) {
        double *g = Qt + i * D, p = pull(D, t + i * D);
        value[i] += b[0] + p * cblas_ddot((int)D, b + 1, 1, t + i * D, 1) +
                    p * p * cblas_ddot((int)D, g, 1, t + i * D, 1) / 2;
        for (size_t k = 0; k < D; k++)
            g[k] = p == 1 ? g[k] + b[1 + k] : 0; /* beyond the edge it is level, near enough */
    }
    if (!grad)
        return;
    cell.family->push(D, 0, f->desk.cell_root, n, Qt, f->arena);
    cblas_daxpy((int)(n * D), 1.0, Qt, 1, grad, 1);
}

/* What mixture and correction leave of log p~ at the stored draws of the cell, into f->shared.close_spare, with mean 0
 * over the gathered draws' weights f->desk.ga; returns its variance. */
static double keep_residuals(wvgd_fit *f, size_t j, size_t n)
{
    double *r = f->desk.glu, mean = 0, squares = 0;
    memcpy(r, f->desk.moving, n * sizeof *r);
    correct(f, n, f->desk.gx, r, NULL);
    for (size_t i = 0; i < n; i++) {
        r[i] = f->desk.glp[i] - r[i];
        mean += f->desk.ga[i] * r[i];
    }
    for (size_t i = 0, at = 0; i < f->closing.draws.n && at < n; i++)
        if (f->closing.draws.cell[i] == j && f->closing.draws.log_p[i] > -INFINITY)
            f->shared.close_spare[i] = r[at++] - mean;
    for (size_t i = 0; i < n; i++)
        squares += f->desk.ga[i] * (r[i] - mean) * (r[i] - mean);
    return squares;
}

/* ---- beginnings -------------------------------------------------------------------------------------------------- */
/* Gaussian of the given mean and full root as component j; a diagonal one gets the precisions, which
 * is what a Gaussian cell would want. */
static void set_component(wvgd_fit *f, size_t j, const double *mean, const double *root)
{
    size_t D = f->D;
    double *C = f->desk.square[0], *to = f->cells.now.root + j * f->family->size(D, f->R);
    memcpy(f->cells.now.mu + j * D, mean, D * sizeof *mean);
    if (f->family == wv_family_get(WVGD_FULL)) {
        memcpy(to, root, D * D * sizeof *root);
        return;
    }
    memcpy(C, root, D * D * sizeof *C);
    if (LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, C, (lapack_int)D) != 0)
        return;
    for (size_t i = 0; i < D; i++)
        f->desk.vector[0][i] = 1 / sqrt(C[i * D + i]);
    f->family->set_sd(D, f->R, to, f->desk.vector[0]);
}

static void remember(wvgd_fit *f, size_t j)
{
    size_t size = f->family->size(f->D, f->R);
    memcpy(f->cells.best.mu + j * f->D, f->cells.now.mu + j * f->D, f->D * sizeof(double));
    memcpy(f->cells.best.root + j * size, f->cells.now.root + j * size, size * sizeof(double));
}

void wv_cell_component_recall(wvgd_fit *f, size_t j)
{
    size_t size = f->family->size(f->D, f->R);
    memcpy(f->cells.now.mu + j * f->D, f->cells.best.mu + j * f->D, f->D * sizeof(double));
    memcpy(f->cells.now.root + j * size, f->cells.best.root + j * size, size * sizeof(double));
}

/* Component j as it is and as it was remembered change places. */
static void swap(wvgd_fit *f, size_t j)
{
    size_t size = f->family->size(f->D, f->R);
    cblas_dswap((int)f->D, f->cells.best.mu + j * f->D, 1, f->cells.now.mu + j * f->D, 1);
    cblas_dswap((int)size, f->cells.best.root + j * size, 1, f->cells.now.root + j * size, 1);
}

/* The posterior's covariance in the cell, as its moments have it. */
static void set_spread(wvgd_fit *f, size_t j)
{
    double *spread = f->cells.now.spread + j * f->cell_family->size(f->D, 0);
    if (f->opt.cost == WVGD_OWN)
        return; /* it bounds the cell */
    if (f->cell_family == wv_family_get(WVGD_FULL)) {
        memcpy(spread, f->desk.cell_root, f->D * f->D * sizeof *spread);
        return;
    }
    wv_family_get(WVGD_FULL)->sd(f->D, 0, f->desk.cell_root, f->desk.vector[0]);
    f->cell_family->set_sd(f->D, 0, spread, f->desk.vector[0]);
}

/* ---- draws of the component -------------------------------------------------------------------------------------- */
/* A set of draws of component j in its cell: points, target and its gradient in f->desk.gx, f->desk.glp, f->desk.gg;
 * log weights f->desk.glv that are to be added to the log density of any component that the set shall
 * stand for; normalised weights f->desk.gu. */
typedef struct {
    size_t n;
    double share; /* of the component that lies in the cell */
    double ess;
    double elbo, spread; /* mean (and log share), and variance of log target - log component */
    bool around;         /* half of them come from around the particle */
} set;

static set draw(wvgd_fit *f, size_t j, uint64_t number, size_t wanted, set last)
{
    set s = {.share = last.share, .elbo = -INFINITY, .around = last.around};
    wv_gaussian q = wv_partition_component(&f->cells, j);
    double sum = 0, mean = 0, squares = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        double all;
        size_t n = attempt && !s.around
                       ? WV_FREE / 2
                       : 2 * (size_t)(fmin((double)wanted / fmax(s.around ? 0.5 : s.share, 0.02), WV_FREE) / 2);
        s.n = wv_halfspaces_inside(f, j, WV_RNG_FIT, number * WV_FREE, n, s.around, &all);
        sum = cblas_dasum((int)s.n, f->desk.gu, 1);
        s.share = sum / all;
        if (s.around || s.share > little || n >= WV_FREE / 2)
            break;
        s.around = f->D <= 4; /* few of its own draws lie in the cell */
    }
    if (s.n < 3 || !(s.share > fmin(smallest_share, 0.1 / (double)f->N))) {
        s.n = 0;
        return s;
    }
    wv_gaussian_log_density(&q, s.n, f->desk.gx, f->desk.gr, f->desk.y, f->arena);
    wv_cell_target(f, s.n, f->desk.gx, f->desk.glp, f->desk.gg);
    correct(f, s.n, f->desk.gx, f->desk.glp, f->desk.gg);
    for (size_t i = 0; i < s.n; i++) {
        f->desk.glv[i] = log(f->desk.gu[i]) - f->desk.gr[i];
        f->desk.gu[i] /= sum;
        mean += f->desk.gu[i] * (f->desk.glp[i] - f->desk.gr[i]);
    }
    for (size_t i = 0; i < s.n; i++)
        squares += f->desk.gu[i] * (f->desk.glp[i] - f->desk.gr[i] - mean) * (f->desk.glp[i] - f->desk.gr[i] - mean);
    s.ess = wv_weights_ess(s.n, f->desk.gu);
    s.elbo = log(s.share) + mean;
    s.spread = squares;
    return s;
}

/* Weights of the set for component j as it is now; returns their effective size. */
static double reweigh(wvgd_fit *f, size_t j, size_t n)
{
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, n, f->desk.gx, f->desk.gr, f->desk.y, f->arena);
    for (size_t i = 0; i < n; i++)
        f->desk.gr[i] += f->desk.glv[i];
    return wv_weights_normalise(n, f->desk.gr, f->desk.gu) ? wv_weights_ess(n, f->desk.gu) : 0;
}

/* What the stored draws of the cell add to the ELBO of component j: the mean over it of what mixture and correction
 * leave, shrunk where few of them stand for it. */
static double stored_part(wvgd_fit *f, size_t j)
{
    size_t n = 0, D = f->D;
    double *r = f->desk.moving, *u = f->desk.ga, mean = 0;
    wv_gaussian q = wv_partition_component(&f->cells, j);
    for (size_t i = 0; i < f->closing.draws.n && n < f->size.n_max; i++)
        if (f->closing.draws.cell[i] == j && f->closing.draws.log_p[i] > -INFINITY) {
            memcpy(f->desk.gy + n * D, f->closing.draws.x + i * D, D * sizeof(double));
            f->desk.psi[n] = f->closing.draws.log_m[i];
            r[n++] = f->shared.close_spare[i];
        }
    wv_gaussian_log_density(&q, n, f->desk.gy, f->desk.gr, f->desk.y, f->arena);
    for (size_t i = 0; i < n; i++)
        f->desk.gr[i] -= f->desk.psi[i];
    if (!wv_weights_normalise(n, f->desk.gr, u))
        return 0;
    for (size_t i = 0; i < n; i++)
        mean += u[i] * r[i];
    double ess = wv_weights_ess(n, u);
    return ess / (ess + 1 + 2 * (double)D) * mean;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static wv_update_result step(wvgd_fit *f, size_t j, set s, double ess, double rho)
{
    size_t D = f->D;
    wv_update c = {.estimator = WVGD_NATURAL,
                   .family = f->family,
                   .R = f->R,
                   .mu = f->cells.now.mu + j * D,
                   .root = f->cells.now.root + j * f->family->size(D, f->R),
                   .n = s.n,
                   .x = f->desk.gx,
                   .log_p = f->desk.glp,
                   .grad = f->desk.gg,
                   .u = f->desk.gu,
                   .ess = ess,
                   .precondition = f->prefit.wanted ? f->desk.cell_root : NULL,
                   .rho = rho,
                   .truncated = f->N > 1 && s.share < 0.98};
    return wv_update_component(f, &c);
}

/* Sizes of the sets: of those on the way, and of the last; 0: too dear. */
typedef struct {
    size_t few, many;
} sizes;

static sizes affordable(const wvgd_fit *f)
{
    double D = (double)f->D, N = (double)f->N,
           each = 4 * (double)f->mix.K * D * D + 10 * D * D + fmin(N, 50) / 2 * (D * D + N * D);
    double few = fmax(f->D > 4 ? 96 : 256, (f->family == wv_family_get(WVGD_FULL) ? 2 : 8) * D),
           many = fmax(512, 8 * D);
    double points = budget / (N * each), wanted = (SETS + COMPONENTS + 2) * few + many;
    if (points < wanted / 8)
        return (sizes){0, 0};
    double scale = fmin(1, points / wanted);
    return (sizes){(size_t)fmax(scale * few, 24), (size_t)fmax(scale * many, 48)};
}

/* Up to STEPS steps on a set, for as long as the component is like the one that made it; *kl: nats of the
 * first, in full. False: it has lost its cell. */
static bool use_up(wvgd_fit *f, size_t j, set s, double *kl)
{
    double ess = s.ess;
    for (int k = 0; k < STEPS && (!k || (ess = reweigh(f, j, s.n)) > s.ess / 2); k++) {
        /* others have to project, and would overshoot */
        wv_update_result r = ess < (f->D == 1 ? 4 : 6)
                                 ? (wv_update_result){false, 0}
                                 : step(f, j, s, ess, f->family == wv_family_get(WVGD_FULL) ? 0.7 : 0.4);
        if (!r.ok)
            return false;
        *kl = k ? *kl : r.kl;
        if (r.kl < settled)
            break;
    }
    return true;
}

/* From where it stands component j goes down the regression, set by set, until a first step is
 * short; *s: its draws, in and out. */
static bool descend(wvgd_fit *f, size_t j, sizes size, set *s)
{
    double kl = INFINITY;
    for (uint64_t k = 1; s->n && k <= SETS && kl > nearly; k++) {
        if (!use_up(f, j, *s, &kl))
            return false;
        *s = draw(f, j, k, size.few, *s);
    }
    return s->n > 0;
}

/* The last steps: the noise of a set moves a component by about its dimensions times its spread, over its draws, in
 * nats; where that is much, over several sets, with steps that fall like 1/k. */
static bool average(wvgd_fit *f, size_t j, sizes size, set s)
{
    double kl, sets = fmin(ceil((double)f->D * s.spread / (noise * (double)size.many)), AVERAGED);
    for (uint64_t k = 0; !k || (double)k < sets; k++) {
        s = draw(f, j, SETS + 1 + k, size.many, s);
        if (!s.n || !(sets > 1 ? s.ess > 6 && step(f, j, s, s.ess, 1 / (double)(k + 2)).ok : use_up(f, j, s, &kl)))
            return false;
    }
    return true;
}

/* Whether component j as it is now is better on its cell than as it was remembered: ELBOs from
 * draws of both, half each. */
static bool improved(wvgd_fit *f, size_t j, uint64_t number, size_t wanted, double share)
{
    size_t D = f->D, half = 2 * (size_t)(fmin((double)wanted / fmax(share, 0.05), WV_FREE) / 4), n = 2 * half, kept = 0;
    wv_gaussian q[2] = {wv_partition_component(&f->cells, j),
                        {f->family, D, f->R, f->cells.best.mu + j * D,
                         f->cells.best.root + j * f->family->size(D, f->R), 0}};
    double *log_q[2] = {f->desk.glu, f->desk.glv}, elbo[2];
    for (uint64_t k = 0; k < 2; k++) {
        wv_stream stream = {f->opt.seed, WV_RNG_FIT, f->count.batch, j};
        wv_gaussian_draw(&q[k], &stream, (number + k) * WV_FREE, half, true, f->desk.gy + k * half * D, f->arena);
    }
    wv_halfspaces_assign(f, n, f->desk.gy, f->desk.free_cell);
    for (size_t i = 0; i < n; i++)
        if (f->desk.free_cell[i] == j || f->N == 1)
            memcpy(f->desk.gx + kept++ * D, f->desk.gy + i * D, D * sizeof(double));
    if (kept < 3)
        return false;
    for (size_t k = 0; k < 2; k++)
        wv_gaussian_log_density(&q[k], kept, f->desk.gx, log_q[k], f->desk.y, f->arena);
    wv_cell_target(f, kept, f->desk.gx, f->desk.glp, NULL);
    correct(f, kept, f->desk.gx, f->desk.glp, NULL);
    for (size_t k = 0; k < 2; k++) {
        double sum = 0, mean = 0;
        for (size_t i = 0; i < kept; i++) {
            double u = 1 / (1 + exp(log_q[1 - k][i] - log_q[k][i]));
            sum += u;
            mean += u * (f->desk.glp[i] - log_q[k][i]);
        }
        elbo[k] = mean / sum + log(sum);
    }
    elbo[0] += stored_part(f, j);
    swap(f, j);
    elbo[1] += stored_part(f, j);
    swap(f, j);
    return elbo[0] > elbo[1];
}

/* Where the stored draws of the cell are many for the coefficients of a component, the last steps are the
 * posterior's own: the regression on these draws, to its fixed point. */
static void polish(wvgd_fit *f, size_t j, size_t n)
{
    size_t D = f->D;
    double parameters = 2 * (double)D + (f->family == wv_family_get(WVGD_DIAG) ? 0 : (double)D * ((double)D - 1) / 2),
           *log_m = f->desk.moving;
    if (!((double)n > 25 * parameters))
        return;
    wv_cell_draws_gather(f, j, true);
    memcpy(log_m, f->desk.psi, n * sizeof(double));
    for (int k = 0; k < POLISH; k++) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        wv_gaussian_log_density(&q, n, f->desk.gx, f->desk.gr, f->desk.y, f->arena);
        for (size_t i = 0; i < n; i++)
            f->desk.glu[i] = f->desk.gr[i] - log_m[i];
        if (!wv_weights_normalise(n, f->desk.glu, f->desk.gu))
            break;
        double ess = wv_weights_ess(n, f->desk.gu);
        wv_update_result r = ess > 25 * parameters ? step(f, j, (set){.n = n}, ess, 0.5) : (wv_update_result){false, 0};
        if (!r.ok) { /* too few after all: as it was */
            wv_cell_component_recall(f, j);
            return;
        }
        if (r.kl < 1e-8)
            return;
    }
}

/* Every beginning is worth following in few dimensions, where that is cheap, and for components that are not
 * full: none of their beginnings is good. */
static bool thorough(const wvgd_fit *f)
{
    return f->D <= 4 || f->family != wv_family_get(WVGD_FULL);
}

/* ---- the survey -------------------------------------------------------------------------------------------------- */
/* How many times closer to the posterior than a component is the target must be. */
static double needed(const wvgd_fit *f)
{
    return fmax(blind, (double)f->D / 5);
}

/* Nothing that is said of a mode's Gaussian everywhere is quite true of cells, where a quadratic may follow more;
 * but where it follows next to nothing everywhere, cells need not be asked one by one. */
void wv_cell_component_survey(wvgd_fit *f)
{
    size_t D = f->D, m = f->modes.n ? wv_modes_heaviest(f) : 0, every = f->closing.draws.n / wv_cell_draws_asked(D) + 1;
    f->target.surveyed = WV_MODES;
    if (f->N == 1 || thorough(f) || !f->modes.n)
        return;
    wv_gaussian q = wv_modes_gaussian(f, m);
    size_t n = wv_cell_draws_columns(f, f->N, every);
    wv_cell_draws_density(f, &q, n, f->desk.glu);
    if (n && wv_cell_draws_judge(f, n, f->desk.glu).ess > 0 &&
        !wv_cell_draws_may_gain(f, &q, n, f->desk.glu, alike, needed(f) / 2))
        f->target.surveyed = m;
}

/* Whether component j is the Gaussian that was surveyed, and would not gain. */
static bool surveyed(const wvgd_fit *f, size_t j)
{
    size_t D = f->D, m = f->target.surveyed;
    return m < WV_MODES && !memcmp(f->cells.now.mu + j * D, f->modes.x + m * D, D * sizeof(double)) &&
           !memcmp(f->cells.now.root + j * D * D, f->modes.root + m * D * D, D * D * sizeof(double));
}

/* ---- the component of a cell ------------------------------------------------------------------------------------- */
/* Where component j may begin: with the moments of its cell, with the mode that is there, or with one of the
 * components of the mixture that have most of its mass there (a cell may hold two modes, of which one is the better
 * answer). False: there is no beginning of this number. ess: of the cell's draws. */
static bool begin(wvgd_fit *f, size_t j, size_t number, double ess, double *most)
{
    size_t D = f->D, k = 0;
    if (number == 0) { /* moments, if draws are more than these have parameters */
        set_component(f, j, f->desk.cell_mean, f->desk.cell_root);
        return thorough(f) || !f->modes.n || ess > (double)(D * (D + 3) / 2);
    }
    if (number == 1) {
        size_t m = f->modes.n ? wv_modes_nearest(f, f->modes.n, f->cells.now.z + j * D) : 0;
        if (f->modes.n)
            set_component(f, j, f->modes.x + m * D, f->modes.root + m * D * D);
        return f->modes.n > 0;
    }
    for (size_t i = 1; i < f->mix.K; i++)
        k = f->desk.mix_e[i] > f->desk.mix_e[k] ? i : k;
    double mass = f->desk.mix_e[k];
    f->desk.mix_e[k] = 0;
    if (mass < 0.1 || mass < *most / 3)
        return false;
    *most = fmax(*most, mass);
    wv_gaussian q = wv_mixture_component(&f->mix, k);
    size_t m = f->modes.n ? wv_modes_nearest(f, f->modes.n, f->cells.now.z + j * D) : 0;
    if (f->modes.n && !memcmp(q.mu, f->modes.x + m * D, D * sizeof *q.mu) &&
        !memcmp(q.root, f->modes.root + m * D * D, D * D * sizeof *q.root))
        return false; /* the mode's, which has been tried */
    set_component(f, j, q.mu, q.root);
    return true;
}

/* Mass of each component of the mixture in the cell, from some of the gathered draws, into f->desk.mix_e. */
static void share_cell(wvgd_fit *f, size_t n)
{
    size_t D = f->D, step = n / SHARED + 1, some = 0;
    double total = 0;
    f->desk.mix_e[0] = 1;
    if (f->mix.K == 1)
        return;
    for (size_t i = 0; i < n; i += step, some++) {
        for (size_t k = 0; k < D; k++)
            f->desk.uy[some * D + k] = f->desk.gy[i / WV_COLUMNS * WV_COLUMNS * D + k * WV_COLUMNS + i % WV_COLUMNS];
        total += f->desk.ga[i];
    }
    for (size_t k = 0; k < f->mix.K; k++) {
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        f->desk.mix_e[k] = 0;
        wv_gaussian_log_density(&q, some, f->desk.uy, f->desk.gr, f->desk.y, f->arena);
        for (size_t i = 0; i < some; i++)
            f->desk.mix_e[k] += f->desk.ga[i * step] / total * f->mix.w[k] *
                                exp(f->desk.gr[i] - f->desk.moving[i * step]);
    }
}

/* Remembers component j as it is, with the set of its draws, if its ELBO is clearly better than *best: of
 * equal ones all cells shall have the same. */
static void consider(wvgd_fit *f, size_t j, set s, double *best, set *chosen)
{
    double value = s.n ? s.elbo + stored_part(f, j) : -INFINITY;
    if (value > *best + margin) {
        *best = value;
        *chosen = s;
        remember(f, j);
    }
}

/* Of all beginnings, and of the places where they lead, the one with the best ELBO. Returns the set of its draws. */
static set choose(wvgd_fit *f, size_t j, sizes size, double ess)
{
    double best = -INFINITY, most = 0;
    set chosen = {.share = 0.5}, any = {.share = 0.5};
    for (size_t b = 0; b < 2 + COMPONENTS; b++) {
        if (!begin(f, j, b, ess, &most))
            continue;
        set s = draw(f, j, 0, size.few, any);
        consider(f, j, s, &best, &chosen);
        if (thorough(f) && descend(f, j, size, &s))
            consider(f, j, draw(f, j, SETS + 1, size.many, s), &best, &chosen);
    }
    wv_cell_component_recall(f, j);
    return chosen;
}

/* Full components in many dimensions: the best of all beginnings, where the stored draws of the cell can tell
 * it, and that no steps would gain. (Not its moments: they would be judged by the draws that they were fitted
 * to.) False: they cannot, or steps may. */
static bool choose_stored(wvgd_fit *f, size_t j, size_t n, double ess)
{
    size_t chosen = 2 + COMPONENTS;
    double best = -INFINITY, spread = INFINITY, most = 0, *log_q = f->desk.gr, *best_q = f->desk.glu;
    for (size_t b = 1; b < 2 + COMPONENTS && spread > margin; b++) {
        if (b == 2)
            share_cell(f, n);
        if (!begin(f, j, b, ess, &most))
            continue;
        wv_gaussian q = wv_partition_component(&f->cells, j);
        wv_cell_draws_density(f, &q, n, log_q);
        wv_judgement a = wv_cell_draws_judge(f, n, log_q);
        /* a few draws are enough to see that nothing is left to gain, and none where that is known */
        if (a.spread > margin && a.ess < fmax(enough_draws, (double)f->D) && !surveyed(f, j))
            return false;
        if (a.elbo > best + margin) {
            best = a.elbo;
            spread = a.spread;
            chosen = b;
            memcpy(best_q, log_q, n * sizeof *log_q);
            remember(f, j);
        }
    }
    if (chosen == 2 + COMPONENTS)
        return false;
    wv_cell_component_recall(f, j);
    if (spread > margin && crossed(f, ess))
        return false;
    if (spread > margin && !surveyed(f, j)) {
        wv_gaussian q = wv_partition_component(&f->cells, j);
        wv_dense_invert(f->D, q.root, f->desk.square[1]);
        wv_cell_draws_judge(f, n, best_q);
        if (wv_cell_draws_may_gain(f, &q, n, best_q, alike, needed(f)))
            return false;
    }
    wv_cell_draws_keep(f, j, n, best_q);
    return true;
}

/* The same from draws of its own, or by steps. */
static void choose_drawn(wvgd_fit *f, size_t j, size_t n, sizes size, double ess)
{
    share_cell(f, n);
    wv_cell_draws_gather(f, j, false);
    fit_correction(f, n);
    double left = keep_residuals(f, j, n);
    set s = choose(f, j, size, ess);
    if (!(s.spread > (thorough(f) ? alike : fmax(alike, needed(f) * left))))
        return;
    s = draw(f, j, 0, size.few, s);
    if (!(thorough(f) || descend(f, j, size, &s)) || !average(f, j, size, s) ||
        !improved(f, j, SETS + AVERAGED + 1, size.many, s.share))
        wv_cell_component_recall(f, j);
}

/* The Gaussian of the heaviest mode, which was fitted to the posterior itself, by its ELBO. */
static void take_heaviest(wvgd_fit *f, size_t j)
{
    size_t best = wv_modes_heaviest(f);
    set_component(f, j, f->modes.x + best * f->D, f->modes.root + best * f->D * f->D);
}

/* False: its log densities at the stored draws are not known yet. */
void wv_cell_component_plain(wvgd_fit *f, size_t j)
{
    wv_gaussian q = wv_mixture_component(&f->mix, wv_mixture_owner(&f->mix, f->cells.now.z + j * f->D, f->arena));
    set_component(f, j, q.mu, q.root);
    remember(f, j);
}

static bool fit(wvgd_fit *f, size_t j)
{
    size_t n = wv_cell_draws_columns(f, j, 1), D = f->D;
    sizes size = affordable(f);
    wv_partition_restart_component(&f->cells, j, f->prefit.wanted ? f->prefit.root : NULL, f->arena);
    f->tally.restarts++;
    remember(f, j);
    bool mass = n >= 3 && wv_weights_normalise(n, f->desk.glv, f->desk.ga) &&
                wv_cell_draws_moments(f, n, f->desk.cell_mean, f->desk.cell_root);
    double ess = mass ? wv_weights_ess(n, f->desk.ga) : 0;
    if (!size.few && ess < 4 * (double)D) { /* too few draws for a shape of its own */
        wv_cell_component_plain(f, j);
        return false;
    }
    if (!mass)
        return false;
    set_spread(f, j);
    if (f->N > 1 && !thorough(f) && choose_stored(f, j, n, ess))
        return true;
    set_component(f, j, f->desk.cell_mean, f->desk.cell_root);
    if (f->N == 1 && f->modes.n && f->family == wv_family_get(WVGD_FULL))
        take_heaviest(f, j);
    else if (size.few)
        choose_drawn(f, j, n, size, ess);
    remember(f, j);
    polish(f, j, n);
    return false;
}

void wv_cell_component_fit(wvgd_fit *f, size_t j)
{
    if (!fit(f, j))
        wv_cell_draws_measure(f, j);
}
