/* cells.c - with weighted draws in hand the transport problem is weighted k-means; particles, masses of the
 * cells, then their components (cell_component.c): none of it asks the model (method, sections 5 and 6, quantise). */
#include "staged/cells.h"
#include "fit.h"
#include "gaussian.h"
#include "posterior.h"
#include "rng.h"
#include "staged/cell_target.h"
#include "staged/cell_bound.h"
#include "nearest.h"
#include "simd/columns.h"
#include "evidence.h"
#include "halfspaces.h"
#include "staged/assess.h"
#include "joint/particle.h"
#include "kmeans.h"
#include "staged/cell_refine.h"
#include "staged/cell_draws.h"
#include "staged/cell_component.h"
#include "weights.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* ---- particles --------------------------------------------------------------------------------------------------- */
/* Cells of a piece of the stored draws, which has no more than WV_FREE of them (close_max is 100000 at most), and
 * with `context` also costs to the nearest particle. */
static void find_piece(wvgd_fit *f, void *context, size_t piece)
{
    size_t most = wv_fit_piece(f->closing.draws.n), first = piece * most,
           here = f->closing.draws.n - first < most ? f->closing.draws.n - first : most;
    if (context)
        wv_nearest_assign(f, here, f->closing.draws.x + first * f->D, f->closing.draws.cell + first,
                          f->closing.draws.near + first, f->desk.free_cost);
    else
        wv_halfspaces_assign(f, here, f->closing.draws.x + first * f->D, f->closing.draws.cell + first);
}

/* Cells of the stored draws, */
static void find_cells(wvgd_fit *f)
{
    wv_halfspaces_update(f);
    wv_fit_share(f, wv_fit_pieces(f->closing.draws.n), (double)(f->closing.draws.n * f->N * f->D), find_piece, NULL);
}

/* and costs to the nearest particle. */
static void assign_all(wvgd_fit *f)
{
    wv_fit_share(f, wv_fit_pieces(f->closing.draws.n), (double)(f->closing.draws.n * f->N * f->D), find_piece,
                 f->closing.draws.near);
    wv_halfspaces_update(f);
}

/* Multiplications for what is done with the stored draws of all cells, each of which looks for its own. */
static double work_of(const wvgd_fit *f)
{
    return (double)f->closing.draws.n * (double)(f->N + f->D * f->D);
}

/* Particles to where the cost pulls them, spreads to the covariances of the cells. */
static void settle_particle(wvgd_fit *f, void *context, size_t j)
{
    size_t n = wv_cell_draws_gather(f, j, false);
    (void)context;
    memcpy(f->desk.glu, f->desk.glv, n * sizeof(double));
    if (n > 1)
        wv_particle_step(f, j, (wv_cell_points){n, f->desk.gx, f->desk.glu, f->desk.glv}, 1, f->desk.ga,
                         f->desk.vector[9]);
}

/* gain of a round, relative, at which particles have settled under a cost that is dear */
static const double settled = 3e-4;

static void settle_particles(wvgd_fit *f, size_t rounds)
{
    double before = INFINITY, distortion;
    for (size_t round = 0; round < rounds; round++) {
        if (f->opt.cost == WVGD_CALLBACK) {
            assign_all(f);
            distortion = cblas_ddot((int)f->closing.draws.n, f->closing.v, 1, f->closing.draws.near, 1);
            if (distortion > (1 - settled) * before)
                return;
            before = distortion;
        } else
            find_cells(f);
        wv_fit_share(f, f->N, work_of(f), settle_particle, NULL);
    }
    find_cells(f);
}

/* ---- the mixture as a control ------------------------------------------------------------------------------------ */
/* The stored draws estimate masses and means of the mixture in the cells too, with nearly the same errors as those
 * of the posterior; and the mixture's own are known as well as one likes, from points that cost nothing. Under a
 * squared cost the cell of a point x = mu_k + L_k e depends on e only where the N - 1 walls between the first
 * particle and the others look, so in more than four dimensions the points have only as many coordinates as these
 * directions, if they are fewer; elsewhere e has mean 0. */

static size_t control_dims(const wvgd_fit *f)
{
    return f->D > 4 ? wv_halfspaces_dims(f) : f->D;
}

static bool lattice(const wvgd_fit *f)
{
    return control_dims(f) <= WV_LATTICE;
}

/* Whether the points are those of wv_halfspaces_lattice, for all components the same. */
static bool shared(const wvgd_fit *f)
{
    return lattice(f) && control_dims(f) < f->D;
}

/* Points for masses and means of the cells; fewer where they cost more. */
static double control_draws(const wvgd_fit *f)
{
    double d = (double)control_dims(f);
    return shared(f) ? WV_LATTICE_POINTS : fmin(fmax(1e7 / (d * d), 4000), 10000);
}

/* Whether the points are affordable. */
static bool controlled(const wvgd_fit *f)
{
    double d = (double)control_dims(f);
    return f->N > 1 && control_draws(f) * (double)f->N * (wv_halfspaces_flat(f) ? d : d * d) < 3e9 &&
           f->opt.cost != WVGD_CALLBACK;
}

/* n standard normal points e[n][dims] for component k of the mixture: a lattice, or mirrored draws. */
static void spread_points(wvgd_fit *f, size_t k, size_t n, double *e)
{
    size_t dims = control_dims(f);
    wv_stream stream = {f->opt.seed, WV_RNG_SETTLE, 0, k};
    if (lattice(f)) {
        wv_rng_lattice(&stream, n, dims, e);
        return;
    }
    wv_rng_normal(&stream, 0, n / 2 * dims, e);
    for (size_t i = 0; i < n / 2 * dims; i++)
        e[n / 2 * dims + i] = -e[i];
}

/* Points of component k: an even number. */
static size_t control_share(const wvgd_fit *f, size_t k)
{
    double K = (double)f->mix.K, most = fmin(control_draws(f), (double)f->size.n_max), least = fmin(64, 0.5 * most / K);
    return 2 * (size_t)((least + (most - least * K) * f->mix.w[k]) / 2);
}

/* Points of all components into f->desk.gx, unless they share f->halfspaces.lattice; returns how many. */
static size_t control_points(wvgd_fit *f)
{
    size_t n = 0, dims = control_dims(f);
    if (shared(f)) {
        wv_halfspaces_lattice(f, dims);
        return WV_LATTICE_POINTS;
    }
    for (size_t k = 0; k < f->mix.K; k++) {
        spread_points(f, k, control_share(f, k), f->desk.gx + n * dims);
        n += control_share(f, k);
    }
    return n;
}

/* Adds mass and sums of x in the cells of n points e of component q, each of weight w; they are in
 * columns if they are shared. */
static void count_points(wvgd_fit *f, const wv_gaussian *q, size_t n, const double *e, double w, double *mass,
                         double *sum)
{
    size_t D = f->D, N = f->N, dims = control_dims(f);
    double *A = f->shared.try_z + N * D, *T = A + N * D, *low = f->shared.cell_spare, *W = f->shared.sum_z,
           *own = f->shared.step_kl, which[WV_COLUMNS];
    wv_halfspaces_scores(f, q, dims, A, W, low);
    memset(T, 0, N * D * sizeof *T);
    memset(own, 0, N * sizeof *own);
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
        const double *columns = shared(f) ? e + first * dims : f->desk.block;
        if (!shared(f))
            wv_columns_turn(dims, here, e + first * dims, f->desk.block);
        wv_columns_best()->highest(dims, wv_columns_round(here), N, columns, W, low, which);
        for (size_t i = 0; i < here; i++) {
            size_t best = (size_t)which[i];
            own[best] += w;
            for (size_t k = 0; k < dims; k++)
                T[best * dims + k] += w * columns[k * WV_COLUMNS + i];
        }
    }
    if (dims < D) { /* from coordinates along the walls to those of q */
        cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)N, (int)dims, 1.0, W + dims,
                    (int)dims, T, (int)dims);
        memcpy(W, T, N * dims * sizeof *W);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)N, (int)D, (int)dims, 1.0, W, (int)dims, A + D,
                    (int)D, 0.0, T, (int)D);
    }
    q->family->colour(D, 0, q->root, N, T, f->arena);
    cblas_daxpy((int)(N * D), 1.0, T, 1, sum, 1);
    for (size_t j = 0; j < N; j++) {
        mass[j] += own[j];
        cblas_daxpy((int)D, own[j], q->mu, 1, sum + j * D, 1);
    }
}

/* The same under any cost: the points themselves are made. */
static void place_points(wvgd_fit *f, const wv_gaussian *q, size_t n, const double *e, double w, double *mass,
                         double *sum)
{
    size_t D = f->D;
    for (size_t first = 0; first < n; first += WV_FREE) {
        size_t here = n - first < WV_FREE ? n - first : WV_FREE;
        memcpy(f->desk.gy, e + first * D, here * D * sizeof *e);
        q->family->colour(D, 0, q->root, here, f->desk.gy, f->arena);
        for (size_t i = 0; i < here; i++)
            cblas_daxpy((int)D, 1.0, q->mu, 1, f->desk.gy + i * D, 1);
        wv_halfspaces_assign(f, here, f->desk.gy, f->desk.free_cell);
        for (size_t i = 0; i < here; i++) {
            mass[f->desk.free_cell[i]] += w;
            cblas_daxpy((int)D, w, f->desk.gy + i * D, 1, sum + f->desk.free_cell[i] * D, 1);
        }
    }
}

/* Masses of the mixture in the cells, mass[N], and its sums of x there, sum[N][D], from the control points. */
static void mixture_cells(wvgd_fit *f, double *mass, double *sum)
{
    size_t dims = control_dims(f), at = 0;
    memset(mass, 0, f->N * sizeof *mass);
    memset(sum, 0, f->N * f->D * sizeof *sum);
    for (size_t k = 0; k < f->mix.K; k++) {
        wv_gaussian q = wv_mixture_component(&f->mix, k);
        size_t n = control_share(f, k);
        (wv_halfspaces_flat(f) ? count_points
                               : place_points)(f, &q, n, shared(f) ? f->halfspaces.lattice : f->desk.gx + at * dims,
                                               f->mix.w[k] / (double)n, mass, sum);
        at += n;
    }
}

/* Weights of the stored draws that stand for the mixture (log density in f->closing.draws.log_mix[0]), into
 * f->shared.close_spare; returns how far the posterior's follow them, as a coefficient between 0 and 1. */
static double mixture_weights(wvgd_fit *f)
{
    size_t n = f->closing.draws.n;
    double mean = 1 / (double)n, cross = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        f->desk.psi[i] = f->closing.draws.log_mix[0][i] - f->closing.draws.log_m[i];
    if (!wv_weights_normalise(n, f->desk.psi, f->shared.close_spare))
        return 0;
    for (size_t i = 0; i < n; i++) {
        cross += (f->closing.v[i] - mean) * (f->shared.close_spare[i] - mean);
        square += (f->shared.close_spare[i] - mean) * (f->shared.close_spare[i] - mean);
    }
    return square > 0 ? fmin(fmax(cross / square, 0), 1) : 0;
}

/* Error that the control points leave in a mass. */
static double control_error(const wvgd_fit *f, size_t n, double mass)
{
    return lattice(f) ? wv_halfspaces_lattice_error(control_dims(f), (double)n, mass)
                      : sqrt(mass * (1 - mass) / (double)n);
}

/* Masses of the mixture into f->cells.beta, and its sums of x in the cells into f->shared.try_z; with `draws` those of
 * the posterior, by what the stored draws tell of the difference; c: the coefficient of the control. */
static void sharpen(wvgd_fit *f, double c, bool draws)
{
    size_t D = f->D, N = f->N;
    double *sum = f->shared.try_z;
    mixture_cells(f, f->cells.beta, sum);
    if (!draws)
        return;
    memcpy(f->shared.mix_mass, f->cells.beta, N * sizeof(double));
    cblas_dscal((int)N, c, f->cells.beta, 1);
    cblas_dscal((int)(N * D), c, sum, 1);
    for (size_t i = 0; i < f->closing.draws.n; i++) {
        double w = f->closing.v[i] - c * f->shared.close_spare[i];
        f->cells.beta[f->closing.draws.cell[i]] += w;
        cblas_daxpy((int)D, w, f->closing.draws.x + i * D, 1, sum + f->closing.draws.cell[i] * D, 1);
    }
}

/* Lloyd's steps with sharpened means, for squared costs. In few dimensions they are slow to settle, so
 * over-relaxed; in many, where particles lean towards the draws that placed them, that would throw them out of
 * their cells, and a hundredth more or less does not matter: there the steps but for the last are those of the
 * mixture alone, if it is like the posterior. */
static void sharpen_particles(wvgd_fit *f, double c)
{
    size_t D = f->D, rounds = D <= 4 ? 12 : shared(f) ? 4 : 3;
    for (size_t round = 1; round <= rounds; round++) {
        bool draws = !shared(f) || c < 0.5 || round == rounds;
        if (draws)
            find_cells(f);
        else
            wv_halfspaces_update(f);
        sharpen(f, c, draws);
        for (size_t j = 0; j < f->N; j++)
            for (size_t i = 0; i < D && f->cells.beta[j] > 0; i++) {
                double *z = &f->cells.now.z[j * D + i];
                *z += (D <= 4 && round < rounds ? 1.6 : 1) * (f->shared.try_z[j * D + i] / f->cells.beta[j] - *z);
            }
    }
}

/* Sharpened masses and their standard errors. */
static void sharpen_masses(wvgd_fit *f, size_t n, double c)
{
    double total = 0, squares = 0, *own = f->shared.cell_spare;
    sharpen(f, c, true);
    memset(own, 0, f->N * sizeof *own);
    for (size_t j = 0; j < f->N; j++)
        total += f->cells.beta[j] = fmax(f->cells.beta[j], 0);
    cblas_dscal((int)f->N, 1 / total, f->cells.beta, 1);
    for (size_t i = 0; i < f->closing.draws.n; i++) {
        double w = f->closing.v[i] - c * f->shared.close_spare[i];
        own[f->closing.draws.cell[i]] += w * w;
        squares += w * w;
    }
    for (size_t j = 0; j < f->N; j++) {
        double b = f->cells.beta[j], known = c * control_error(f, n, b);
        f->cells.beta_se[j] = sqrt(own[j] * (1 - b) * (1 - b) + (squares - own[j]) * b * b + known * known);
    }
}

static void place_particles(wvgd_fit *f, double c)
{
    size_t size = f->cell_family->size(f->D, 0);
    wv_posterior_root(f, f->cell_family, f->cells.now.spread);
    if (!(f->opt.metric && f->opt.cost == WVGD_MAHALANOBIS)) {
        if (f->metric_family == f->cell_family)
            memcpy(f->cells.now.metric, f->cells.now.spread, size * sizeof(double));
        else
            wv_posterior_root(f, f->metric_family, f->cells.now.metric);
    }
    for (size_t j = 1; j < f->N; j++)
        memcpy(f->cells.now.spread + j * size, f->cells.now.spread, size * sizeof(double));
    if (f->N > 1)
        wv_kmeans_place(f, c);
    else
        memcpy(f->cells.now.z, f->posterior.mean,
               f->D * sizeof(double)); /* where wv_posterior_describe finds its place from */
    wv_halfspaces_update(f);
}

/* ---- weights of the components ----------------------------------------------------------------------------------- */
/* ELBO_j from the stored draws of the cell, for the weights only. */
static void weigh_component(wvgd_fit *f, void *context, size_t j)
{
    const wv_batch *b = &f->closing.draws;
    size_t n = 0;
    double *u = f->desk.psi, *d = f->desk.moving, sum = 0, mean = 0;
    (void)context;
    for (size_t i = 0; i < b->n && n < f->size.n_max; i++)
        if (b->cell[i] == j && b->log_q[i] > -INFINITY) {
            u[n] = b->log_q[i] - b->log_m[i];
            d[n++] = b->log_p[i] - b->log_q[i];
        }
    wv_weights_exp(n, u);
    for (size_t i = 0; i < n; i++) {
        sum += u[i];
        mean += u[i] * d[i];
    }
    f->cells.elbo[j] = sum > 0 && f->cells.log_Z[j] > -INFINITY ? mean / sum + f->cells.log_Z[j] : -INFINITY;
}

/* Whether ELBO_j lies a nat above the log mass of its cell, which it cannot: of a component that hardly reaches
 * into its cell the stored draws tell nothing. */
static bool incredible(const wvgd_fit *f, size_t j)
{
    return f->cells.elbo[j] > wv_cell_bound_most(f, j) + 1;
}

/* What cannot be has no weight, where the evidence is known well enough to tell and most is left. */
static void weigh_components(wvgd_fit *f)
{
    double left = 0;
    wv_fit_share(f, f->N, work_of(f), weigh_component, NULL);
    for (size_t j = 0; j < f->N; j++)
        left += incredible(f, j) ? 0 : f->cells.beta[j];
    for (size_t j = 0; j < f->N && left > 0.5 && f->outcome.evidence.se < 0.05; j++)
        if (incredible(f, j))
            f->cells.elbo[j] = -INFINITY;
    wv_evidence_weights(f->N, f->cells.elbo, f->cells.weight);
}

static void fit_component(wvgd_fit *f, void *context, size_t j)
{
    (void)context;
    wv_cell_component_fit(f, j);
}

void wv_cells_begin(wvgd_fit *f)
{
    f->cells.refined = 0;
    f->outcome.meanfield_gap = NAN;
    double c = controlled(f) ? mixture_weights(f) : 0;
    wv_cell_target_prepare(f);
    place_particles(f, c);
    if (f->N > 1 && (!wv_halfspaces_flat(f) || !controlled(f)))
        settle_particles(f, !wv_halfspaces_flat(f) ? 30 : f->D > 4 ? 1 : 2);
    size_t points = controlled(f) ? control_points(f) : 0;
    if (points && wv_halfspaces_flat(f))
        sharpen_particles(f, c);
    assign_all(f);
    wv_posterior_describe(f);
    if (points)
        sharpen_masses(f, points, c);
    f->known.mass_points = (double)points;
    memcpy(f->cells.weight_beta, f->cells.beta, f->N * sizeof(double));
    if (f->prefit.wanted) {
        memcpy(f->prefit.mu, f->posterior.mean, f->D * sizeof(double));
        wv_posterior_root(f, wv_family_get(WVGD_FULL), f->prefit.root);
    }
    wv_cell_component_survey(f);
    wv_fit_share(f, f->N, 1e6 * (double)f->N, fit_component, NULL); /* a millisecond each, or several */
    wv_cells_weigh(f);
    f->known.mass_points = 0; /* particles may move */
    if (wv_cell_refine_wanted(f))
        wv_cell_refine_begin(f);
}

void wv_cells_weigh(wvgd_fit *f)
{
    wv_halfspaces_update(f);
    wv_cell_bound_masses(f, &(wv_mixture_masses){f->known.mass_points, f->shared.mix_mass});
    if (f->cells.refined)
        wv_cell_refine_weigh(f);
    else
        weigh_components(f);
    if (!(cblas_dasum((int)f->N, f->cells.weight, 1) > 0)) /* no component has a draw in its cell that could tell */
        memcpy(f->cells.weight, f->cells.beta, f->N * sizeof(double));
    f->stage = WV_BOUND;
}
