/* partition.c - with weighted draws in hand the transport problem is weighted k-means, and the truncated components come from the regression of update.c, iterated to its
 * end on draws that are not evaluated: none of it asks the model. Then one fresh batch, from inside the cells, for the bound (method, sections 5 and 6, quantise). */
#include "partition.h"
#include "cell.h"
#include "close.h"
#include "dense.h"
#include "evidence.h"
#include "joint.h"
#include "mix.h"
#include "particle.h"
#include "quantise.h"
#include "refine.h"
#include "update.h"
#include "weight.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

enum { STEPS = 30, POLISH = 60, CANDIDATES = 2, BATCHES = 24, TRIES = 60 }; /* steps of the regression on free draws, and on stored ones; components of the mixture tried; batches of free draws for masses and for the bound */

/* Free draws of the mixture for masses and means of the cells; in few dimensions more, since Lloyd's slow directions amplify their noise. */
static double control_draws(const wvgd_fit *f)
{
    return f->D > 4 ? 10000 : 40000 * fmax(1, 10 / (double)(f->D * f->D));
}

/* A component of which less lies in its cell is none for it. */
static const double smallest_share = 0.005;

/* Draws for the bound, in all and for a cell; standard error wanted of the ELBO of a component that is alone, and its draws at most. */
static const double bound_draws = 100, bound_cell = 16, alone_se = 0.006, alone_draws = 2000;

/* ---- particles ------------------------------------------------------------------------------------------------------------------- */
static void assign_all(wvgd_fit *f)
{
    for (size_t first = 0; first < f->close.n; first += f->n_max) {
        size_t here = f->close.n - first < f->n_max ? f->close.n - first : f->n_max;
        wv_cell_assign(f, here, f->close.x + first * f->D, f->close.cell + first, f->close.near + first, f->b.next);
    }
}

/* Stored draws of cell j into the arrays of a cell, as many as these hold; log weights of the posterior in f->glv. */
static size_t gather(wvgd_fit *f, size_t j)
{
    size_t n = 0, D = f->D;
    for (size_t i = 0; i < f->close.n && n < f->n_max; i++)
        if (f->close.cell[i] == j && f->close.log_p[i] > -INFINITY) {
            memcpy(f->gx + n * D, f->close.x + i * D, D * sizeof(double));
            memcpy(f->gg + n * D, f->close.grad + i * D, D * sizeof(double));
            f->glp[n] = f->close.log_p[i];
            f->glv[n] = f->close_log_w[i];
            f->psi[n++] = f->close.log_m[i];
        }
    return n;
}

/* Particles to where the cost pulls them, spreads to the covariances of the cells. */
static void settle_particles(wvgd_fit *f, size_t rounds)
{
    for (size_t round = 0; round < rounds; round++) {
        assign_all(f);
        for (size_t j = 0; j < f->N; j++) {
            size_t n = gather(f, j);
            memcpy(f->glu, f->glv, n * sizeof(double));
            if (n > 1)
                wv_particle_step(f, j, n, 1, f->vector[9]);
        }
    }
    assign_all(f);
}

/* ---- the mixture as a control ---------------------------------------------------------------------------------------------------------- */
/* The stored draws estimate masses and means of the mixture in the cells too, with nearly the same errors as those of the posterior; and the mixture's own are known as well as one
 * likes, from draws that cost nothing. */

/* Whether the free draws are affordable. */
static bool controlled(const wvgd_fit *f)
{
    double D = (double)f->D;
    return f->N > 1 && control_draws(f) * (double)f->N * (f->opt.cost == WVGD_SQEUCLID ? D : D * D) < 3e9 && f->opt.cost != WVGD_CALLBACK;
}

/* Masses of the mixture in the cells, mass[N], and its sums of x there, sum[N][D]. */
static void mixture_cells(wvgd_fit *f, double *mass, double *sum)
{
    size_t D = f->D;
    memset(mass, 0, f->N * sizeof *mass);
    memset(sum, 0, f->N * D * sizeof *sum);
    for (size_t k = 0; k < f->s.mix.K; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, 0, k};
        size_t n = 2 * (size_t)ceil(fmax(control_draws(f) * f->mix.w[k], 128) / 2);
        for (size_t first = 0; first < n; first += WV_FREE) {
            size_t here = n - first < WV_FREE ? n - first : WV_FREE;
            wv_component_draw(&q, &stream, first, here, true, f->gy, f->work);
            wv_cell_assign(f, here, f->gy, f->free_cell, f->free_cost, f->free_cost + WV_FREE);
            for (size_t i = 0; i < here; i++) {
                double w = f->mix.w[k] / (double)n;
                mass[f->free_cell[i]] += w;
                cblas_daxpy((int)D, w, f->gy + i * D, 1, sum + f->free_cell[i] * D, 1);
            }
        }
    }
}

/* Weights of the stored draws that stand for the mixture, into f->close_spare; returns how far the posterior's follow them, as a coefficient between 0 and 1. */
static double mixture_weights(wvgd_fit *f)
{
    size_t n = f->close.n;
    double mean = 1 / (double)n, cross = 0, square = 0;
    wv_mix_log_density(f, n, f->close.x, f->psi);
    for (size_t i = 0; i < n; i++)
        f->psi[i] -= f->close.log_m[i];
    if (!wv_weight_normalise(n, f->psi, f->close_spare))
        return 0;
    for (size_t i = 0; i < n; i++) {
        cross += (f->close_v[i] - mean) * (f->close_spare[i] - mean);
        square += (f->close_spare[i] - mean) * (f->close_spare[i] - mean);
    }
    return square > 0 ? fmin(fmax(cross / square, 0), 1) : 0;
}

/* Lloyd's steps with sharpened means, for squared costs; then sharpened masses and their standard errors. */
static void sharpen(wvgd_fit *f, int rounds, double *beta)
{
    size_t D = f->D, N = f->N;
    double c = mixture_weights(f), *mass = f->cell_spare, *sum = f->try_z, *own = f->sum_z;
    for (int round = 0; round <= rounds; round++) {
        mixture_cells(f, mass, sum);
        memcpy(beta, mass, N * sizeof *beta);
        cblas_dscal((int)N, c, beta, 1);
        cblas_dscal((int)(N * D), c, sum, 1);
        memset(own, 0, N * D * sizeof *own);
        for (size_t i = 0; i < f->close.n; i++) {
            double w = f->close_v[i] - c * f->close_spare[i];
            beta[f->close.cell[i]] += w;
            cblas_daxpy((int)D, w, f->close.x + i * D, 1, own + f->close.cell[i] * D, 1);
        }
        for (size_t j = 0; j < N && round < rounds; j++)
            for (size_t i = 0; i < D && beta[j] > 0; i++) {
                double to = (sum[j * D + i] + own[j * D + i]) / beta[j], *z = &f->now.z[j * D + i];
                *z += (round + 1 < rounds ? 1.6 : 1) * (to - *z); /* over-relaxed: Lloyd's own steps are too short */
            }
        if (round < rounds)
            assign_all(f);
    }
    double total = 0;
    for (size_t j = 0; j < N; j++)
        total += beta[j] = fmax(beta[j], 0);
    for (size_t j = 0; j < N; j++) {
        double error = 0;
        beta[j] /= total;
        for (size_t i = 0; i < f->close.n; i++) {
            double d = (f->close_v[i] - c * f->close_spare[i]) * ((f->close.cell[i] == j) - beta[j]);
            error += d * d;
        }
        f->beta_se[j] = sqrt(error + c * c * beta[j] * (1 - beta[j]) / control_draws(f));
    }
}

static void place_particles(wvgd_fit *f)
{
    bool squared = f->opt.cost == WVGD_SQEUCLID || f->opt.cost == WVGD_MAHALANOBIS;
    if (!(f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS))
        wv_close_posterior_root(f, f->metric_family, f->now.metric);
    for (size_t j = 0; j < f->N; j++)
        wv_close_posterior_root(f, f->cell_family, f->now.spread + j * f->cell_family->size(f->D, 0));
    wv_quantise_place(f, controlled(f) ? mixture_weights(f) : 0);
    settle_particles(f, squared ? 2 : 30);
}

/* ---- components -------------------------------------------------------------------------------------------------------------------- */
/* What a component is fitted to: the mixture that made the draws, times the exponential of a quadratic that corrects it on the cell, fitted to log p~ - log m at the stored draws
 * there. It costs no evaluation, so there are as many draws from the component itself as it takes. */

/* Columns of the quadratic: 1, t, t^2/2 and, with `cross`, t_i t_k; t in units of the cell, pulled in to `edge`. Returns how far it was pulled, 1: not at all. */
static double quadratic(size_t D, const double *t, bool cross, double *T)
{
    double length = cblas_dnrm2((int)D, t, 1), edge = 3 * sqrt((double)D), pull = length > edge ? edge / length : 1;
    size_t at = 2 * D + 1;
    T[0] = 1;
    for (size_t i = 0; i < D; i++) {
        T[1 + i] = pull * t[i];
        T[1 + D + i] = pull * pull * t[i] * t[i] / 2;
        for (size_t k = 0; cross && k < i; k++)
            T[at++] = pull * pull * t[i] * t[k];
    }
    return pull;
}

/* Fits the correction of cell j to the gathered draws (log p~ in f->glp, weights f->ga), by least squares, shrunk by ESS / (ESS + coefficients). Coordinates: the cell's moments. */
static void fit_correction(wvgd_fit *f, size_t n, const double *mean, const double *root)
{
    size_t D = f->D, full = 1 + 2 * D + D * (D - 1) / 2, p;
    double ess = wv_weight_ess(n, f->ga);
    wv_gauss cell = {wv_family_get(WVGD_FULL), D, 0, mean, root, 0};
    f->correction_cross = D > 1 && ess > 4 * (double)full && full <= f->p_max;
    p = f->correction_cross ? full : 1 + 2 * D;
    memset(f->correction, 0, (full > p ? full : p) * sizeof(double));
    if (ess < 2 * (double)p)
        return;
    wv_mix_log_density(f, n, f->gx, f->glu);
    wv_component_whiten(&cell, n, f->gx, f->y, f->work);
    memset(f->F, 0, p * p * sizeof(double));
    double level = 0, *b = f->correction, *T = f->T;
    for (size_t i = 0; i < n; i++)
        level += f->ga[i] * (f->glp[i] - f->glu[i]);
    for (size_t i = 0; i < n; i++) {
        quadratic(D, f->y + i * D, f->correction_cross, T);
        cblas_dsyr(CblasRowMajor, CblasLower, (int)p, f->ga[i], T, 1, f->F, (int)p);
        cblas_daxpy((int)p, f->ga[i] * (f->glp[i] - f->glu[i] - level), T, 1, b, 1);
    }
    for (size_t i = 0; i < p; i++)
        f->F[i * p + i] += 1e-8 + (i ? 0.5 / ess : 0);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, f->F, (lapack_int)p, b, (lapack_int)p) != 0)
        memset(b, 0, p * sizeof *b);
    cblas_dscal((int)p, ess / (ess + (double)p), b, 1);
    b[0] += level * (double)p / (ess + (double)p); /* only the level is not shrunk */
    double widest = 0; /* a correction that bends upwards more than the cell's own precision allows (heavy tails) would make the target improper */
    for (size_t i = 1 + D; i < p; i++)
        widest = fmax(widest, i <= 2 * D ? b[i] : 0);
    if (widest > 0.3)
        cblas_dscal((int)(p - 1 - D), 0.3 / widest, b + 1 + D, 1);
}

/* Adds the correction at n points f->gx to f->glp, and its gradient to f->gg. */
static void correct(wvgd_fit *f, size_t n, const double *mean, const double *root)
{
    size_t D = f->D, p = f->correction_cross ? 1 + 2 * D + D * (D - 1) / 2 : 1 + 2 * D;
    const double *b = f->correction;
    wv_gauss cell = {wv_family_get(WVGD_FULL), D, 0, mean, root, 0};
    wv_component_whiten(&cell, n, f->gx, f->y, f->work);
    for (size_t i = 0; i < n; i++) {
        double *t = f->y + i * D, *g = f->uy + i * D, pull = quadratic(D, t, f->correction_cross, f->T);
        f->glp[i] += cblas_ddot((int)p, b, 1, f->T, 1);
        memset(g, 0, D * sizeof *g);
        size_t at = 2 * D + 1;
        for (size_t d = 0; d < D && pull == 1; d++) { /* beyond the edge it is level, near enough */
            g[d] += b[1 + d] + b[1 + D + d] * t[d];
            for (size_t k = 0; f->correction_cross && k < d; k++, at++) {
                g[d] += b[at] * t[k];
                g[k] += b[at] * t[d];
            }
        }
    }
    cell.family->push(D, 0, root, n, f->uy, f->work);
    cblas_daxpy((int)(n * D), 1.0, f->uy, 1, f->gg, 1);
}

/* WV_FREE draws of q_j into f->gy, the second half from around the particle where `around`, with weights u that stand for q_j (all 1 without), and their cells. */
static void free_draws(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t batch, bool around, size_t n, double *u)
{
    size_t half = around ? n / 2 : n;
    wv_gauss q = wv_fit_component(f, j), r = wv_fit_around(f, j);
    wv_stream stream = {f->opt.seed, use, f->s.batch, j};
    wv_component_draw(&q, &stream, batch * WV_FREE, half, f->N == 1, f->gy, f->work); /* alone, in mirrored pairs */
    for (size_t i = 0; i < n; i++)
        u[i] = 1;
    if (around) {
        wv_component_draw(&r, &stream, batch * WV_FREE + half, n - half, false, f->gy + half * f->D, f->work);
        wv_component_log_density(&q, n, f->gy, u, f->y, f->work);
        wv_component_log_density(&r, n, f->gy, f->free_cost, f->y, f->work);
        for (size_t i = 0; i < n; i++)
            u[i] = 2 / (1 + exp(f->free_cost[i] - u[i]));
    }
    wv_cell_assign(f, n, f->gy, f->free_cell, f->free_cost, f->free_cost + WV_FREE);
}

/* Log density of the mixture at n points f->gx into f->glp, its gradient into f->gg. */
static void mixture_target(wvgd_fit *f, size_t n)
{
    size_t D = f->D;
    wv_mix_log_density(f, n, f->gx, f->glp);
    memset(f->gg, 0, n * D * sizeof(double));
    for (size_t k = 0; k < f->s.mix.K; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_component_log_density(&q, n, f->gx, f->gr, f->y, f->work);
        q.family->push(D, 0, q.root, n, f->y, f->work);
        for (size_t i = 0; i < n; i++) {
            double share = f->mix.w[k] * exp(f->gr[i] - f->glp[i]);
            if (share > 1e-12)
                cblas_daxpy((int)D, -share, f->y + i * D, 1, f->gg + i * D, 1);
        }
    }
}

/* Draws of component j in its cell, gathered with weights f->gu that sum to 1, mixture densities and gradients. Returns how many; *inside: the share of q_j in the cell; *elbo: ELBO_j
 * with respect to the mixture. */
static size_t own_draws(wvgd_fit *f, size_t j, uint64_t batch, bool around, size_t draws, double *inside, double *elbo)
{
    size_t n = 0, D = f->D;
    double all = 0, sum = 0;
    wv_gauss q = wv_fit_component(f, j);
    free_draws(f, j, WV_RNG_FIT, batch, around, draws, f->glu);
    for (size_t i = 0; i < draws; i++) {
        all += f->glu[i];
        if (f->free_cell[i] != j && f->N > 1)
            continue;
        memcpy(f->gx + n * D, f->gy + i * D, D * sizeof(double));
        sum += f->gu[n++] = f->glu[i];
    }
    *inside = sum / all;
    *elbo = -INFINITY;
    if (n < 3 || !(*inside > smallest_share))
        return 0;
    cblas_dscal((int)n, 1 / sum, f->gu, 1);
    mixture_target(f, n);
    correct(f, n, f->cell_mean, f->cell_root);
    wv_component_log_density(&q, n, f->gx, f->gr, f->y, f->work);
    *elbo = log(*inside);
    for (size_t i = 0; i < n; i++)
        *elbo += f->gu[i] * (f->glp[i] - f->gr[i]);
    return n;
}

/* Gaussian of the given mean and full root as component j; a diagonal one gets the precisions, which is what a Gaussian cell would want. */
static void set_component(wvgd_fit *f, size_t j, const double *mean, const double *root)
{
    size_t D = f->D;
    double *C = f->square[0], *to = f->now.root + j * f->family->size(D, f->R);
    memcpy(f->now.mu + j * D, mean, D * sizeof *mean);
    if (f->family == wv_family_get(WVGD_FULL)) {
        memcpy(to, root, D * D * sizeof *root);
        return;
    }
    memcpy(C, root, D * D * sizeof *C);
    if (LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'U', (lapack_int)D, C, (lapack_int)D) != 0)
        return;
    for (size_t i = 0; i < D; i++)
        f->vector[0][i] = 1 / sqrt(C[i * D + i]);
    f->family->set_sd(D, f->R, to, f->vector[0]);
}

/* Mean and root of the posterior in the cell, from the gathered draws with weights f->ga. */
static bool cell_moments(wvgd_fit *f, size_t n, double *mean, double *root)
{
    size_t D = f->D;
    double *sd = f->vector[0];
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, f->gx, (int)D, f->ga, 1, 0.0, mean, 1);
    memset(sd, 0, D * sizeof *sd);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            sd[k] += f->ga[i] * (f->gx[i * D + k] - mean[k]) * (f->gx[i * D + k] - mean[k]);
    double ess = wv_weight_ess(n, f->ga), keep = ess / (ess + (double)D);
    for (size_t k = 0; k < D; k++)
        if (!((sd[k] = sqrt(sd[k])) > 1e-150))
            return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++) {
            f->y[i * D + k] = (f->gx[i * D + k] - mean[k]) / sd[k];
            f->uy[i * D + k] = f->ga[i] * f->y[i * D + k];
        }
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)D, (int)D, (int)n, keep, f->uy, (int)D, f->y, (int)D, 0.0, root, (int)D);
    for (size_t k = 0; k < D; k++)
        root[k * D + k] += 1 - keep;
    if (!wv_dense_chol(D, root, f->square[0]))
        return false;
    for (size_t k = 0; k < D; k++)
        cblas_dscal((int)k + 1, sd[k], root + k * D, 1);
    return true;
}

static void remember(wvgd_fit *f, size_t j)
{
    size_t size = f->family->size(f->D, f->R);
    memcpy(f->best.mu + j * f->D, f->now.mu + j * f->D, f->D * sizeof(double));
    memcpy(f->best.root + j * size, f->now.root + j * size, size * sizeof(double));
}

static void recall(wvgd_fit *f, size_t j)
{
    size_t size = f->family->size(f->D, f->R);
    memcpy(f->now.mu + j * f->D, f->best.mu + j * f->D, f->D * sizeof(double));
    memcpy(f->now.root + j * size, f->best.root + j * size, size * sizeof(double));
}

/* How much the free draws may cost, in multiplications: draws a step, 0: too dear, cells keep their moments. */
static size_t affordable(const wvgd_fit *f)
{
    double D = (double)f->D, each = (double)f->N * STEPS * 4 * ((double)f->s.mix.K * 2 * D * D + (double)f->N * (f->opt.cost == WVGD_SQEUCLID ? D : D * D));
    double wanted = fmax(256, 8 * D), most = 1.2e10 / each;
    return most < 64 ? 0 : (size_t)fmin(fmin(wanted, most), WV_FREE);
}

/* From where it stands, component j goes down the regression, with steps that fall like 1/k at the end, on fresh free draws each; if its ELBO has become better than *best, it is
 * remembered. */
static void descend(wvgd_fit *f, size_t j, size_t draws, double *best)
{
    size_t D = f->D, size = f->family->size(D, f->R);
    double mean = 0, weight = 0, inside = 1, elbo;
    bool around = false;
    for (uint64_t step = 0; step < STEPS; step++) {
        size_t n = own_draws(f, j, step, around, draws, &inside, &elbo);
        if (inside < 0.25 && !around) { /* few of its own draws lie in the cell */
            around = true;
            n = own_draws(f, j, step, around, draws, &inside, &elbo);
        }
        if (!n)
            return;
        if (step >= STEPS / 2) {
            mean += elbo;
            weight++;
        }
        wv_update c = {.estimator = WVGD_NATURAL, .family = f->family, .R = f->R, .mu = f->now.mu + j * D, .root = f->now.root + j * size, .n = n, .x = f->gx,
                       .log_p = f->glp, .grad = f->gg, .u = f->gu, .ess = wv_weight_ess(n, f->gu), .precondition = f->pilot ? f->pilot_root : NULL,
                       .rho = step < STEPS / 3 ? 0.5 : 1 / (2 + (double)(step - STEPS / 3)), .truncated = f->N > 1 && inside < 0.98};
        if (c.ess < (D == 1 ? 4 : 6) || !wv_update_component(f, &c).ok)
            return;
    }
    if (mean / weight > *best) {
        *best = mean / weight;
        remember(f, j);
    }
}

/* Where the stored draws of the cell are many for the coefficients of a component, the last steps are the posterior's own: the regression on these draws, to its fixed point. */
static void polish(wvgd_fit *f, size_t j)
{
    size_t n = gather(f, j), D = f->D, size = f->family->size(D, f->R);
    double coefficients = 2 * (double)D + (f->family == wv_family_get(WVGD_DIAG) ? 0 : (double)D * ((double)D - 1) / 2), *log_m = f->moving;
    memcpy(log_m, f->psi, n * sizeof(double));
    for (int step = 0; step < POLISH && n > 3; step++) {
        wv_gauss q = wv_fit_component(f, j);
        wv_component_log_density(&q, n, f->gx, f->gr, f->y, f->work);
        for (size_t i = 0; i < n; i++)
            f->glu[i] = f->gr[i] - log_m[i];
        if (!wv_weight_normalise(n, f->glu, f->gu))
            break;
        wv_update c = {.estimator = WVGD_NATURAL, .family = f->family, .R = f->R, .mu = f->now.mu + j * D, .root = f->now.root + j * size, .n = n, .x = f->gx,
                       .log_p = f->glp, .grad = f->gg, .u = f->gu, .ess = wv_weight_ess(n, f->gu), .precondition = f->pilot ? f->pilot_root : NULL, .rho = 0.5,
                       .truncated = f->N > 1};
        wv_update_result r = c.ess > 25 * coefficients ? wv_update_component(f, &c) : (wv_update_result){false, 0};
        if (!r.ok) { /* too few after all: as it was */
            recall(f, j);
            return;
        }
        if (r.kl < 1e-8)
            return;
    }
}

/* The component that is most of the mixture at x. */
static wv_gauss nearest_component(wvgd_fit *f, const double *x)
{
    double most = -INFINITY, log_q;
    size_t best = 0;
    for (size_t k = 0; k < f->s.mix.K; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_component_log_density(&q, 1, x, &log_q, f->y, f->work);
        if (log_q + log(f->mix.w[k]) > most) {
            most = log_q + log(f->mix.w[k]);
            best = k;
        }
    }
    return wv_mix_component(f, best);
}

/* Component j: begun with the moments of its cell, and with the components of the mixture that have most of its mass there (a cell may hold two modes, of which one is
 * the better answer); the best end of all. */
static void fit_component(wvgd_fit *f, size_t j, size_t draws)
{
    size_t n = gather(f, j);
    double *mean = f->cell_mean, *root = f->cell_root, best = -INFINITY, most = 0;
    wv_joint_restart(f, j);
    remember(f, j);
    if (n < 3 || !wv_weight_normalise(n, f->glv, f->ga))
        return; /* a cell without mass */
    if (!cell_moments(f, n, mean, root))
        return;
    set_component(f, j, mean, root);
    if (f->N == 1 && f->s.modes && f->family == wv_family_get(WVGD_FULL)) { /* the heaviest mode's Gaussian was fitted to the posterior itself, by its ELBO */
        size_t best_mode = 0;
        for (size_t m = 1; m < f->s.modes; m++)
            best_mode = f->s.mode[m].elbo > f->s.mode[best_mode].elbo ? m : best_mode;
        set_component(f, j, f->mode_x + best_mode * f->D, f->mode_root + best_mode * f->D * f->D);
        remember(f, j);
        polish(f, j);
        return;
    }
    remember(f, j);
    if (!draws && wv_weight_ess(n, f->ga) < 4 * (double)f->D) { /* too few draws for a shape of its own: that of the mixture where the particle is */
        wv_gauss q = nearest_component(f, f->now.z + j * f->D);
        set_component(f, j, q.mu, q.root);
        remember(f, j);
    }
    if (!draws)
        return;
    fit_correction(f, n, mean, root);
    memset(f->mix_e, 0, f->s.mix.K * sizeof(double)); /* mass of each component of the mixture in the cell */
    wv_mix_log_density(f, n, f->gx, f->glu);
    for (size_t k = 0; k < f->s.mix.K; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_component_log_density(&q, n, f->gx, f->gr, f->y, f->work);
        for (size_t i = 0; i < n; i++)
            f->mix_e[k] += f->ga[i] * f->mix.w[k] * exp(f->gr[i] - f->glu[i]);
    }
    descend(f, j, draws, &best);
    for (int candidate = 0; candidate < CANDIDATES && (f->s.mix.K > 1 || f->family != wv_family_get(WVGD_FULL)); candidate++) {
        size_t k = 0;
        for (size_t i = 1; i < f->s.mix.K; i++)
            k = f->mix_e[i] > f->mix_e[k] ? i : k;
        double mass = f->mix_e[k];
        f->mix_e[k] = 0;
        if (mass < 0.1 || mass < most / 3)
            break;
        most = fmax(most, mass);
        wv_gauss q = wv_mix_component(f, k);
        set_component(f, j, q.mu, q.root);
        descend(f, j, draws, &best);
    }
    recall(f, j);
    polish(f, j);
}

/* ---- masses of components in their cells ------------------------------------------------------------------------------------------------ */
/* Free draws in a batch, and of one cell at most, such that all cells together stay affordable. */
static size_t mass_most(const wvgd_fit *f)
{
    double most = 3e10 / ((double)f->N * (double)f->N * 2 * (double)f->D);
    return (size_t)fmin(fmax(most, 256), WV_FREE * BATCHES);
}

static size_t mass_batch(const wvgd_fit *f)
{
    return mass_most(f) < WV_FREE ? mass_most(f) : WV_FREE;
}

/* log Z_j to a standard error of a hundredth, half that in few dimensions, or as far as the batches go; returns that error. Of a component that hardly reaches into its cell, as the best one for a tail may,
 * draws from around the particle tell the rest (f->around). */
static double component_mass(wvgd_fit *f, size_t j)
{
    double inside = 0, squares = 0, n = 0, error = 0, fine = (f->D > 4 ? 0.01 : 0.005) * fmax(1, sqrt((double)f->N / 10)); /* what matters is their sum */
    size_t batch = mass_batch(f);
    f->around[j] = 0;
    for (uint64_t b = 0; b * batch < mass_most(f) && f->N > 1; b++) {
        free_draws(f, j, WV_RNG_FREE, b, f->around[j] > 0, batch, f->glu);
        for (size_t i = 0; i < batch; i++)
            if (f->free_cell[i] == j) {
                inside += f->glu[i];
                squares += f->glu[i] * f->glu[i];
            }
        n += (double)batch;
        if (inside < 0.1 * n && !(f->around[j] > 0)) {
            f->around[j] = 1;
            inside = squares = n = 0;
            continue;
        }
        error = inside > 0 ? sqrt(fmax(squares / inside / inside - 1 / n, 0)) : INFINITY;
        if (error < fine)
            break;
    }
    f->log_Z[j] = f->N == 1 ? 0 : inside > 0 ? log(inside / n) : -INFINITY;
    return error;
}

/* The same; but a component whose share cannot be told gives way to the one before it was polished. */
static double settle_mass(wvgd_fit *f, size_t j)
{
    double error = component_mass(f, j);
    if (error < 0.1)
        return error;
    recall(f, j);
    return component_mass(f, j);
}

/* ELBO_j from the stored draws, for the weights only. */
static void weigh_components(wvgd_fit *f)
{
    wv_batch *b = &f->close;
    for (size_t j = 0; j < f->N; j++) {
        wv_gauss q = wv_fit_component(f, j);
        double sum = 0, mean = 0;
        for (size_t first = 0; first < b->n; first += WV_BLOCK) {
            size_t here = b->n - first < WV_BLOCK ? b->n - first : WV_BLOCK;
            wv_component_log_density(&q, here, b->x + first * f->D, f->gr, f->y, f->work);
            for (size_t i = 0; i < here; i++) {
                size_t at = first + i;
                if (b->cell[at] != j)
                    continue;
                b->log_q[at] = f->gr[i];
                double u = b->log_p[at] > -INFINITY ? exp(f->gr[i] - b->log_m[at]) : 0;
                sum += u;
                mean += u > 0 ? u * (b->log_p[at] - f->gr[i]) : 0;
            }
        }
        f->elbo[j] = sum > 0 && f->log_Z[j] > -INFINITY ? mean / sum + f->log_Z[j] : -INFINITY;
    }
    wv_evidence_weights(f->N, f->elbo, f->weight);
}

void wv_partition_begin(wvgd_fit *f)
{
    f->s.refined = 0;
    f->s.meanfield_gap = NAN;
    bool squared = f->opt.cost == WVGD_SQEUCLID || f->opt.cost == WVGD_MAHALANOBIS;
    place_particles(f);
    if (controlled(f) && squared)
        sharpen(f, f->D <= 4 ? 12 : 3, f->beta); /* Lloyd's iteration is slow to settle; in many dimensions a hundredth more or less does not matter */
    wv_close_describe(f);
    if (controlled(f))
        sharpen(f, 0, f->beta);
    memcpy(f->weight_beta, f->beta, f->N * sizeof(double));
    if (f->pilot) {
        memcpy(f->pilot_mu, f->mean, f->D * sizeof(double));
        wv_close_posterior_root(f, wv_family_get(WVGD_FULL), f->pilot_root);
    }
    size_t draws = affordable(f);
    for (size_t j = 0; j < f->N; j++)
        fit_component(f, j, draws);
    wv_partition_weigh(f);
    if (wv_refine_wanted(f))
        wv_refine_begin(f);
}

void wv_partition_weigh(wvgd_fit *f)
{
    for (size_t j = 0; j < f->N; j++)
        f->elbo_se[j] = settle_mass(f, j);
    if (f->s.refined)
        wv_refine_weigh(f);
    else
        weigh_components(f);
    if (!(cblas_dasum((int)f->N, f->weight, 1) > 0)) /* no component has a draw in its cell that could tell */
        memcpy(f->weight, f->beta, f->N * sizeof(double));
    f->s.stage = WV_BOUND;
}

/* ---- other cells from the same draws ----------------------------------------------------------------------------------------------------- */
wvgd_fit *wvgd_quantize(const wvgd_fit *from, const wvgd_options *options, wvgd_error *error)
{
    if (from->s.stage != WV_DONE || !from->staged) {
        wv_fail(error, WVGD_E_ARGUMENT, "other cells can be had from a staged fit that has ended: this one is %s", from->staged ? "not at its end" : "of the joint solver");
        return NULL;
    }
    wvgd_fit *f = wvgd_new(&from->model, options, NULL, error);
    if (!f)
        return NULL;
    size_t n = from->close.n, D = f->D;
    if (!f->staged || f->mix_size != from->mix_size || f->close_max != from->close_max) {
        wv_fail(error, WVGD_E_ARGUMENT, "other cells need the options of the fit, but for particles, cost, family and the like");
        wvgd_free(f);
        return NULL;
    }
    if (f->N > n) {
        wv_fail(error, WVGD_E_ARGUMENT, "%zu particles from %zu closing draws: expected no more particles than draws", f->N, n);
        wvgd_free(f);
        return NULL;
    }
    f->s = from->s;
    f->s.trace_rows = 0;
    f->close.n = n;
    memcpy(f->mix.mu, from->mix.mu, f->mix_size * sizeof(double));
    memcpy(f->mode_x, from->mode_x, f->s.modes * D * sizeof(double));
    memcpy(f->mode_root, from->mode_root, f->s.modes * D * D * sizeof(double));
    memcpy(f->close.x, from->close.x, n * D * sizeof(double));
    memcpy(f->close.grad, from->close.grad, n * D * sizeof(double));
    memcpy(f->close.log_p, from->close.log_p, n * sizeof(double));
    memcpy(f->close.log_m, from->close.log_m, n * sizeof(double));
    memcpy(f->close.stratum, from->close.stratum, n * sizeof(uint32_t));
    memcpy(f->close_cal, from->close_cal, n * sizeof(double));
    memcpy(f->mean, from->mean, D * sizeof(double));
    memcpy(f->var, from->var, D * sizeof(double));
    memcpy(f->mcse, from->mcse, D * sizeof(double));
    wv_close_weights(f);
    wv_partition_begin(f);
    return f;
}

/* ---- the bound ------------------------------------------------------------------------------------------------------------------------ */
/* Of the Gaussians at hand (components of the mixture, of modes, the component itself) the one that leaves least to estimate of the ELBO of a component that is alone. */
static wv_gauss best_control(wvgd_fit *f)
{
    size_t D = f->D, K = f->s.mix.K;
    wv_gauss best = wv_fit_component(f, 0);
    double least = wv_refine_price(f, &best, alone_se);
    for (size_t k = 0; k < K + f->s.modes; k++) {
        wv_gauss g = k < K ? wv_mix_component(f, k) : (wv_gauss){wv_family_get(WVGD_FULL), D, 0, f->mode_x + (k - K) * D, f->mode_root + (k - K) * D * D, 0};
        double price = wv_refine_price(f, &g, alone_se);
        if (price < least) {
            least = price;
            best = g;
        }
    }
    return best;
}

/* Draws for the bound from cell j. */
static size_t bound_wanted(wvgd_fit *f, size_t j)
{
    if (f->N == 1) {
        wv_gauss control = best_control(f);
        return 2 * (size_t)(fmin(fmax(wv_refine_price(f, &control, alone_se), bound_draws), alone_draws) / 2);
    }
    double all = f->s.refined ? 3 * bound_draws : bound_draws;
    return f->weight[j] > 0 ? (size_t)fmax(bound_cell, round(all * f->weight[j])) : 0;
}

/* Fresh draws of every component of weight that lie in its cell: those that do not are thrown away before they cost anything. */
wvgd_status wv_partition_ask(wvgd_fit *f, wvgd_error *error)
{
    size_t at = 0, D = f->D;
    (void)error;
    size_t batch = mass_batch(f);
    for (size_t j = 0; j < f->N; j++) {
        size_t wanted = bound_wanted(f, j), have = 0;
        wanted = wanted < f->n_max - at ? wanted : f->n_max - at;
        for (uint64_t b = 0; b < TRIES && have < wanted; b++) {
            bool around = f->around[j] > 0;
            free_draws(f, j, WV_RNG_BOUND, b, around, batch, f->glu);
            for (size_t i = 0; i < batch && have < wanted; i++) {
                size_t k = around ? i / 2 + (i % 2) * (batch / 2) : i; /* from both halves in turn */
                if (f->free_cell[k] != j && f->N > 1)
                    continue;
                memcpy(f->b.x + at * D, f->gy + k * D, D * sizeof(double));
                f->b.log_m[at] = f->glu[k];
                f->b.cell[at++] = (uint32_t)j;
                have++;
            }
        }
    }
    f->b.n = at;
    return WVGD_OK;
}

/* PELBO(w) of the cells that have an ELBO. */
static wvgd_estimate bound(const wvgd_fit *f, const double *w)
{
    wvgd_estimate e = {0, 0};
    double kept = 0;
    for (size_t j = 0; j < f->N; j++)
        kept += f->elbo[j] > -INFINITY ? w[j] : 0;
    if (!(kept > 0))
        return (wvgd_estimate){-INFINITY, INFINITY};
    for (size_t j = 0; j < f->N; j++)
        if (f->elbo[j] > -INFINITY && w[j] > 0) {
            double share = w[j] / kept;
            e.value += share * (f->elbo[j] - log(share));
            e.se += share * share * f->elbo_se[j] * f->elbo_se[j];
        }
    e.se = sqrt(e.se);
    return e;
}

/* E_qj[log m - log q_j] over the cell, m the mixture, from draws that cost nothing. */
static wvgd_estimate free_part(wvgd_fit *f, size_t j)
{
    double sum = 0, mean = 0, squares = 0, weights = 0;
    size_t batch = mass_batch(f);
    for (uint64_t b = 0, most = f->s.refined ? BATCHES : 2; b < most && (!b || b * batch < mass_most(f)); b++) {
        size_t n = 0;
        wv_gauss q = wv_fit_component(f, j);
        free_draws(f, j, WV_RNG_FREE, BATCHES + b, f->around[j] > 0, batch, f->glu);
        for (size_t i = 0; i < batch; i++)
            if (f->free_cell[i] == j || f->N == 1) {
                memmove(f->gy + n * f->D, f->gy + i * f->D, f->D * sizeof(double));
                f->glu[n++] = f->glu[i];
            }
        wv_mix_log_density(f, n, f->gy, f->glp);
        wv_component_log_density(&q, n, f->gy, f->gr, f->y, f->work);
        for (size_t i = 0; i < n; i++) {
            sum += f->glu[i];
            mean += f->glu[i] * (f->glp[i] - f->gr[i]);
            squares += f->glu[i] * (f->glp[i] - f->gr[i]) * (f->glp[i] - f->gr[i]);
            weights += f->glu[i] * f->glu[i];
        }
    }
    mean /= sum;
    return (wvgd_estimate){mean, sqrt(fmax(squares / sum - mean * mean, 0) * weights) / sum};
}

/* E_q[log g - log q] of Gaussians g and q. */
static double gaussian_part(wvgd_fit *f, const wv_gauss *g, const wv_gauss *q)
{
    size_t D = f->D;
    double *A = f->square[0], *d = f->vector[0];
    memset(A, 0, D * D * sizeof *A); /* rows: columns of the root of q, by the columns of the identity */
    for (size_t i = 0; i < D; i++)
        A[i * D + i] = 1;
    q->family->colour(D, q->R, q->root, D, A, f->work);
    g->family->whiten(D, g->R, g->root, D, A, f->work);
    wv_component_whiten(g, 1, q->mu, d, f->work);
    return q->family->log_det(D, q->R, q->root) - g->family->log_det(D, g->R, g->root) +
           ((double)D - cblas_ddot((int)(D * D), A, 1, A, 1) - cblas_ddot((int)D, d, 1, d, 1)) / 2;
}

/* Mean of d[n] under q, whose whitened draws are y (rows 2i: one of each pair), given that E y_i y_k = delta_ik: the intercept of the regression of d on these products, and its standard
 * error. With too few pairs for all products the squares must do. */
static wvgd_estimate adjusted_mean(wvgd_fit *f, size_t n, const double *d, const double *y)
{
    size_t D = f->D, p = 1 + D * (D + 1) / 2;
    bool all = p <= f->p_max && 2 * p < n;
    double *F = f->F, *T = f->T, *b = f->Fc, *e = f->Fm, rss = 0;
    p = all ? p : 1 + D;
    if (p > f->p_max || 3 * p >= n)
        p = 1;
    memset(F, 0, p * p * sizeof *F);
    memset(b, 0, p * sizeof *b);
    memset(e, 0, p * sizeof *e);
    e[0] = 1;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            const double *t = y + 2 * i * D;
            size_t at = 1;
            T[0] = 1;
            for (size_t k = 0; k < D && at < p; k++)
                for (size_t l = all ? 0 : k; l <= k; l++)
                    T[at++] = t[k] * t[l] - (k == l);
            if (pass == 0) {
                cblas_dsyr(CblasRowMajor, CblasLower, (int)p, 1, T, 1, F, (int)p);
                cblas_daxpy((int)p, d[i], T, 1, b, 1);
            } else {
                double r = d[i] - cblas_ddot((int)p, b, 1, T, 1);
                rss += r * r;
            }
        }
        if (pass == 0 && (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, F, (lapack_int)p) != 0 ||
                          LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, b, (lapack_int)p) != 0 ||
                          LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, F, (lapack_int)p, e, (lapack_int)p) != 0))
            return (wvgd_estimate){NAN, INFINITY};
    }
    return (wvgd_estimate){b[0], sqrt(rss / (double)(n - p) * e[0])};
}

/* ELBO of a component that is alone, from mirrored pairs of draws: a Gaussian near it is the control, and what that has to say is known exactly. False: not to be had like this, where the
 * density is zero somewhere, or beyond the range of numbers. */
static bool estimate_alone(wvgd_fit *f)
{
    const wv_batch *b = &f->b;
    wv_gauss q = wv_fit_component(f, 0), g = best_control(f);
    double *d = f->glp;
    size_t pairs = b->n / 2;
    for (size_t i = 0; i < b->n; i++)
        if (!(b->log_p[i] > -INFINITY))
            return false;
    wv_component_log_density(&g, b->n, b->x, f->psi, f->y, f->work);
    wv_component_whiten(&q, b->n, b->x, f->y, f->work);
    for (size_t i = 0; i < pairs; i++)
        d[i] = (b->log_p[2 * i] - f->psi[2 * i] + b->log_p[2 * i + 1] - f->psi[2 * i + 1]) / 2;
    wvgd_estimate mean = pairs > 2 ? adjusted_mean(f, pairs, d, f->y) : (wvgd_estimate){NAN, INFINITY};
    double elbo = gaussian_part(f, &g, &q) + mean.value;
    if (!isfinite(elbo + mean.se))
        return false;
    f->elbo[0] = elbo;
    f->elbo_se[0] = mean.se;
    return true;
}

/* Weighted variance of log p~ - b[n] over the draws of the batch from `first` on that have density. */
static double spread_of(const wv_batch *batch, size_t first, size_t n, const double *b)
{
    double sum = 0, mean = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++)
            if (batch->log_p[first + i] > -INFINITY) {
                double w = batch->log_m[first + i], d = batch->log_p[first + i] - b[i];
                if (pass == 0) {
                    sum += w;
                    mean += w * d;
                } else
                    squares += w * (d - mean / sum) * (d - mean / sum);
            }
    return squares / sum;
}

/* ELBO_j and its standard error from the draws first .. end of the batch, whose weights stand in b->log_m. The mixture is a control: what of log p~ - log q_j it explains is known. */
static void estimate(wvgd_fit *f, size_t j, size_t first, size_t end)
{
    const wv_batch *b = &f->b;
    wv_gauss q = wv_fit_component(f, j);
    double mean = 0, squares = 0, n = 0, sum = 0, all = 0, *log_m = f->moving;
    wvgd_estimate known = {0, 0};
    wv_mix_log_density(f, end - first, b->x + first * f->D, log_m);
    wv_component_log_density(&q, end - first, b->x + first * f->D, f->psi, f->y, f->work);
    if (end - first > 2 && spread_of(b, first, end - first, log_m) < spread_of(b, first, end - first, f->psi)) {
        known = free_part(f, j);
        memcpy(f->psi, log_m, (end - first) * sizeof(double));
    }
    for (size_t i = first; i < end; i++) {
        all += b->log_m[i];
        if (b->log_p[i] > -INFINITY) {
            n++;
            sum += b->log_m[i];
            mean += b->log_m[i] * (b->log_p[i] - f->psi[i - first]);
        }
    }
    if (n < 2 || !(sum > 0)) {
        f->elbo[j] = -INFINITY;
        f->weight[j] = 0;
        return;
    }
    mean /= sum;
    for (size_t i = first; i < end; i++)
        if (b->log_p[i] > -INFINITY) {
            double d = b->log_m[i] / sum * (b->log_p[i] - f->psi[i - first] - mean);
            squares += d * d;
        }
    f->log_Z[j] += log(sum / all); /* where the density is zero the cell ends too */
    f->elbo[j] = known.value + mean + f->log_Z[j];
    f->elbo_se[j] = sqrt(squares * n / (n - 1) + known.se * known.se + f->elbo_se[j] * f->elbo_se[j] + (1 - sum / all) / n);
}

wvgd_status wv_partition_tell(wvgd_fit *f, wvgd_error *error)
{
    (void)error;
    for (size_t j = 0, first = 0, end; j < f->N; j++, first = end) {
        for (end = first; end < f->b.n && f->b.cell[end] == j; end++)
            ;
        if (f->N > 1 || !estimate_alone(f))
            estimate(f, j, first, end);
    }
    double kept = cblas_dasum((int)f->N, f->weight, 1);
    if (kept > 0)
        cblas_dscal((int)f->N, 1 / kept, f->weight, 1);
    f->s.bound = bound(f, f->weight);
    f->s.bound_beta = bound(f, f->weight_beta);
    f->s.stage = WV_DONE;
    return WVGD_OK;
}
