/* test_distribution.c - the fit as a distribution: cells against brute force, a density that integrates to 1, draws
 * that follow it, closing draws and resampled draws that have the posterior's moments. With either solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

static void mixture_1d(wvgd_model *model)
{
    const double weight[] = {0.3, 0.5, 0.2}, mean[] = {-2, 0.5, 3}, sd[] = {0.5, 0.8, 0.3};
    assert_int_equal(target_mixture_1d(model, 3, weight, mean, sd), 0);
}

static void mixture_2d(wvgd_model *model)
{
    const double weight[] = {0.5, 0.3, 0.2}, mean[] = {-1, 0, 2, 1, 1, -2},
                 cov[] = {1, 0.4, 0.4, 0.6, 0.5, -0.1, -0.1, 0.3, 0.2, 0, 0, 0.9};
    assert_int_equal(target_mixture(model, 2, 3, weight, mean, cov), 0);
}

static wvgd_solver SOLVER; /* the one that is being tested */

static wvgd_options options_of(size_t N)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = SOLVER;
    o.particles = N;
    o.max_iter = 50;
    return o;
}

static wvgd_fit *fitted(const wvgd_model *model, const wvgd_options *o)
{
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(model, o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    return fit;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
static const double METRIC[4] = {2.0, 0.8, 0.8, 1.0};

static double quartic(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < dim; i++) {
        double d = a[i] - b[i];
        sum += d * d + 0.1 * d * d * d * d;
        if (grad_a)
            grad_a[i] = 2 * d + 0.4 * d * d * d;
    }
    return sum;
}

static double cost_of(const wvgd_options *o, const wvgd_results *r, size_t j, const double *x)
{
    const double *z = r->z + 2 * j, *V = r->cell_cov + 4 * j, d[] = {z[0] - x[0], z[1] - x[1]};
    double det = V[0] * V[3] - V[1] * V[2];
    switch (o->cost) {
    case WVGD_SQEUCLID: return d[0] * d[0] + d[1] * d[1];
    case WVGD_MAHALANOBIS: return METRIC[0] * d[0] * d[0] + 2 * METRIC[1] * d[0] * d[1] + METRIC[3] * d[1] * d[1];
    case WVGD_OWN: return (V[3] * d[0] * d[0] - 2 * V[1] * d[0] * d[1] + V[0] * d[1] * d[1]) / det / 2 + log(det) / 2;
    case WVGD_L1: return fabs(d[0]) + fabs(d[1]);
    case WVGD_LP: return pow(fabs(d[0]), o->power) + pow(fabs(d[1]), o->power);
    default: return quartic(NULL, 2, z, x, NULL);
    }
}

/* Points whose two nearest particles are equally near to rounding may go either way; they are left out. */
static void cells_by_brute_force(void **state)
{
    (void)state;
    enum { n = 9001, N = 6 };
    static double x[2 * n];
    static size_t cell[n];
    test_random random = test_random_seed(1);
    for (size_t i = 0; i < 2 * n; i++)
        x[i] = 3 * test_random_normal(&random);
    wvgd_model model;
    mixture_2d(&model);
    for (wvgd_cost cost = WVGD_SQEUCLID; cost <= WVGD_CALLBACK; cost++)
        for (int power = 0; power < (cost == WVGD_LP ? 3 : 1); power++) {
            static const double powers[] = {1.5, 2, 4};
            wvgd_options o = options_of(N);
            wvgd_results r;
            size_t compared = 0;
            o.cost = cost;
            o.power = powers[power];
            o.metric = METRIC;
            o.cost_function = quartic;
            o.max_iter = 25;
            wvgd_fit *fit = fitted(&model, &o);
            wvgd_get_results(fit, &r);
            assert_int_equal(wvgd_cell(fit, n, x, cell, NULL), WVGD_OK);
            for (size_t i = 0; i < n; i++) {
                double least = INFINITY, next = INFINITY;
                size_t nearest = 0;
                for (size_t j = 0; j < N; j++) {
                    double c = cost_of(&o, &r, j, x + 2 * i);
                    if (c < least) {
                        next = least;
                        least = c;
                        nearest = j;
                    } else
                        next = fmin(next, c);
                }
                if (next - least < 1e-9 * (1 + fabs(least)))
                    continue;
                compared++;
                if (cell[i] != nearest)
                    fail_msg("cost %d: point (%g, %g) is in cell %zu, not %zu", (int)cost, x[2 * i], x[2 * i + 1],
                             nearest, cell[i]);
            }
            assert_true(compared > n - 10);
            wvgd_free(fit);
        }
    wvgd_model_close(&model);
}

/* Every particle is in its own cell (but for `own`, where a wide neighbour may reach over), and no
 * points at all are no trouble. */
static void particles_are_in_their_cells(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o = options_of(5);
    wvgd_results r;
    size_t cell[5];
    mixture_2d(&model);
    wvgd_fit *fit = fitted(&model, &o);
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_cell(fit, 5, r.z, cell, NULL), WVGD_OK);
    for (size_t j = 0; j < 5; j++)
        assert_int_equal(cell[j], j);
    assert_int_equal(wvgd_cell(fit, 0, NULL, NULL, NULL), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, 0, NULL, NULL, NULL), WVGD_OK);
    assert_int_equal(wvgd_sample(fit, 1, 0, NULL, NULL, NULL), WVGD_OK);
    assert_int_equal(wvgd_resample(fit, 1, 0, NULL, NULL, NULL), WVGD_OK);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* ---- density ----------------------------------------------------------------------------------------------------- */
/* Standard error of the ensemble's total mass: that of Z_j, weighted. Joint: a share of about half the
 * proposal's n/N draws a cell (binomial). Staged: draws that cost no evaluation, until a relative
 * error of 0.005 or 24 batches of 4096. */
static double mass_se(const wvgd_results *r)
{
    double variance = 0, draws = 0.35 * 0.5 * (double)r->closing_draws / (double)r->N;
    for (size_t j = 0; j < r->N; j++)
        if (r->weight[j] > 0) {
            double odds = (1 - exp(r->log_Z[j])) / exp(r->log_Z[j]);
            variance += r->weight[j] * r->weight[j] *
                        (SOLVER == WVGD_STAGED ? fmax(0.005 * 0.005, odds / (24 * 4096)) : odds / draws);
        }
    return sqrt(variance);
}

enum { GRID = 100000, BINS = 50 };
static double grid[GRID], grid_q[GRID];
static size_t grid_cell[GRID];
static const double LEFT = -12, RIGHT = 12;

static void integrates_to_one_in_1d(void **state)
{
    (void)state;
    wvgd_model model;
    mixture_1d(&model);
    for (size_t i = 0; i < GRID; i++)
        grid[i] = LEFT + (RIGHT - LEFT) * ((double)i + 0.5) / GRID;
    for (size_t N = 1; N <= 7; N += 3)
        for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++) {
            wvgd_options o = options_of(N);
            wvgd_results r;
            double total = 0, mass[7] = {0}, h = (RIGHT - LEFT) / GRID;
            o.family = family;
            wvgd_fit *fit = fitted(&model, &o);
            wvgd_get_results(fit, &r);
            assert_int_equal(wvgd_log_q(fit, GRID, grid, grid_q, NULL), WVGD_OK);
            assert_int_equal(wvgd_cell(fit, GRID, grid, grid_cell, NULL), WVGD_OK);
            for (size_t i = 0; i < GRID; i++) {
                total += h * exp(grid_q[i]);
                mass[grid_cell[i]] += h * exp(grid_q[i]);
            }
            assert_near(total, 1, 5 * mass_se(&r) + 1e-4); /* 1e-4: cells end between points of the grid */
            for (size_t j = 0; j < N; j++)
                assert_near(mass[j], r.weight[j], 5 * mass_se(&r) + 1e-4);
            wvgd_free(fit);
        }
    wvgd_model_close(&model);
}

static void integrates_to_one_in_2d(void **state)
{
    (void)state;
    enum { SIDE = 700 };
    static double row[2 * SIDE], log_q[SIDE];
    wvgd_model model;
    mixture_2d(&model);
    for (wvgd_cost cost = WVGD_SQEUCLID; cost <= WVGD_OWN; cost++) {
        wvgd_options o = options_of(4);
        wvgd_results r;
        double total = 0, h = 20.0 / SIDE;
        o.cost = cost;
        wvgd_fit *fit = fitted(&model, &o);
        wvgd_get_results(fit, &r);
        for (size_t a = 0; a < SIDE; a++) {
            for (size_t b = 0; b < SIDE; b++) {
                row[2 * b] = -10 + h * ((double)a + 0.5);
                row[2 * b + 1] = -10 + h * ((double)b + 0.5);
            }
            assert_int_equal(wvgd_log_q(fit, SIDE, row, log_q, NULL), WVGD_OK);
            for (size_t b = 0; b < SIDE; b++)
                total += h * h * exp(log_q[b]);
        }
        assert_near(total, 1, 5 * mass_se(&r) + 2e-3); /* boundaries of length 20 or so through squares of side 0.03 */
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Within a cell it is the Gaussian of the component, divided by its mass there and weighted. */
static void density_of_one_component(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o = options_of(3);
    wvgd_results r;
    mixture_1d(&model);
    wvgd_fit *fit = fitted(&model, &o);
    wvgd_get_results(fit, &r);
    for (size_t j = 0; j < 3; j++) {
        double log_q, expected = log(r.weight[j]) - r.log_Z[j] - 0.5 * log(2 * 3.14159265358979323846) - log(r.sd[j]) -
                                 0.5 * (r.z[j] - r.mu[j]) * (r.z[j] - r.mu[j]) / (r.sd[j] * r.sd[j]);
        assert_int_equal(wvgd_log_q(fit, 1, &r.z[j], &log_q, NULL), WVGD_OK);
        assert_near(log_q, expected, 1e-12 * (1 + fabs(expected)));
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* ---- draws of the ensemble --------------------------------------------------------------------------------------- */
/* Chi-square over bins of equal width, with the probabilities of the density; bins with fewer than 5
 * expected draws are pooled. A chi-square of k degrees of freedom has mean k and sd sqrt(2k): five of
 * them above is less than one in a million. */
static void sample_follows_the_density(void **state)
{
    (void)state;
    enum { n = 20000 };
    static double z[n];
    static size_t cell[n], where[n];
    wvgd_model model;
    mixture_1d(&model);
    for (size_t i = 0; i < GRID; i++)
        grid[i] = LEFT + (RIGHT - LEFT) * ((double)i + 0.5) / GRID;
    for (size_t N = 1; N <= 6; N += 5) {
        wvgd_options o = options_of(N);
        wvgd_results r;
        double mass[6] = {0}, p[BINS] = {0}, chi = 0, rest_p = 0, rest = 0;
        size_t count[BINS] = {0}, in_cell[6] = {0}, freedom = 0;
        wvgd_fit *fit = fitted(&model, &o);
        wvgd_get_results(fit, &r);
        assert_int_equal(wvgd_log_q(fit, GRID, grid, grid_q, NULL), WVGD_OK);
        assert_int_equal(wvgd_cell(fit, GRID, grid, grid_cell, NULL), WVGD_OK);
        for (size_t i = 0; i < GRID; i++)
            mass[grid_cell[i]] += exp(grid_q[i]);
        for (size_t i = 0; i < GRID; i++) /* cells have exactly their weight: the noise of log_Z drops out */
            if (mass[grid_cell[i]] > 0)
                p[i * BINS / GRID] += r.weight[grid_cell[i]] * exp(grid_q[i]) / mass[grid_cell[i]];
        assert_int_equal(wvgd_sample(fit, 9, n, z, cell, NULL), WVGD_OK);
        assert_int_equal(wvgd_cell(fit, n, z, where, NULL), WVGD_OK);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(cell[i], where[i]);
            in_cell[cell[i]]++;
            assert_true(z[i] > LEFT && z[i] < RIGHT);
            count[(size_t)((z[i] - LEFT) / (RIGHT - LEFT) * BINS)]++;
        }
        for (size_t b = 0; b < BINS; b++) {
            double expected = n * p[b];
            if (expected < 5) {
                rest_p += p[b];
                rest += (double)count[b];
            } else {
                chi += ((double)count[b] - expected) * ((double)count[b] - expected) / expected;
                freedom++;
            }
        }
        if (n * rest_p > 1)
            chi += (rest - n * rest_p) * (rest - n * rest_p) / (n * rest_p);
        if (!(chi < (double)freedom + 5 * sqrt(2 * (double)freedom)))
            fail_msg("N = %zu: chi-square %g with %zu degrees of freedom", N, chi, freedom);
        for (size_t j = 0; j < N; j++)
            assert_near((double)in_cell[j] / n, r.weight[j], 5 * sqrt(r.weight[j] * (1 - r.weight[j]) / n));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

static void streams_repeat(void **state)
{
    (void)state;
    enum { n = 300 };
    double a[2 * n], b[2 * n];
    size_t ia[n], ib[n], same = 0;
    wvgd_model model;
    wvgd_options o = options_of(3);
    mixture_2d(&model);
    wvgd_fit *fit = fitted(&model, &o), *twin = fitted(&model, &o);
    assert_int_equal(wvgd_sample(fit, 7, n, a, ia, NULL), WVGD_OK);
    assert_int_equal(wvgd_sample(fit, 8, n, b, ib, NULL), WVGD_OK);
    for (size_t i = 0; i < 2 * n; i++)
        same += a[i] == b[i];
    assert_int_equal(same, 0);
    /* the same stream, from a fit of the same seed, and without cells */
    assert_int_equal(wvgd_sample(twin, 7, n, b, NULL, NULL), WVGD_OK);
    assert_memory_equal(a, b, sizeof a);
    memset(b, 0, sizeof b);
    assert_int_equal(wvgd_sample(fit, 7, n / 2, b, NULL, NULL), WVGD_OK); /* the beginning of a stream is the same */
    assert_memory_equal(a, b, sizeof a / 2);
    assert_int_equal(wvgd_resample(fit, 7, n, a, ia, NULL), WVGD_OK);
    assert_int_equal(wvgd_resample(twin, 7, n, b, ib, NULL), WVGD_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(ia, ib, sizeof ia);
    assert_int_equal(wvgd_resample(fit, 8, n, b, ib, NULL), WVGD_OK);
    assert_true(memcmp(ia, ib, sizeof ia) != 0);
    wvgd_free(fit);
    wvgd_free(twin);
    wvgd_model_close(&model);
}

/* Many cells in many dimensions: draws lie in the cells that are told, which have their weights, and are the same
 * however many are asked for, in pieces of 4096; densities are those of the points one by one. Staged, of a normal
 * posterior: one component serves all cells, and the ensemble is the posterior but for the errors of masses, up to
 * 0.01 sqrt(N) each, which no mean over draws can exceed. */
static void draws_of_many_cells(void **state)
{
    (void)state;
    enum { D = 8, N = 12, n = 20000, FEWER = 9000 };
    wvgd_model model;
    wvgd_options o = options_of(N);
    wvgd_results r;
    double *z = malloc(2 * n * D * sizeof *z), *again = z + n * D, *log_q = malloc(2 * n * sizeof *log_q),
           *log_p = log_q + n;
    size_t *cell = malloc(2 * n * sizeof *cell), *where = cell + n, in_cell[N] = {0};
    assert_true(z && log_q && cell);
    assert_int_equal(target_gaussian_random(&model, D, 100, 5, true), 0);
    target_truth truth = target_truth_of(&model);
    wvgd_fit *fit = fitted(&model, &o);
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_sample(fit, 3, n, z, cell, NULL), WVGD_OK);
    assert_int_equal(wvgd_cell(fit, n, z, where, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(cell[i], where[i]);
        in_cell[cell[i]]++;
    }
    for (size_t j = 0; j < N; j++)
        assert_near((double)in_cell[j] / n, r.weight[j], 5 * sqrt(r.weight[j] * (1 - r.weight[j]) / n));
    assert_int_equal(wvgd_sample(fit, 3, FEWER, again, NULL, NULL), WVGD_OK);
    assert_memory_equal(again, z, FEWER * D * sizeof *z);
    assert_int_equal(wvgd_log_q(fit, n, z, log_q, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i += 501) {
        double alone;
        assert_int_equal(wvgd_log_q(fit, 1, z + i * D, &alone, NULL), WVGD_OK);
        assert_near(log_q[i], alone, 1e-9);
    }
    if (SOLVER == WVGD_STAGED) {
        double error = 0.01 * sqrt(N), apart = 0;
        assert_int_equal(model.log_density(model.self, n, z, log_p, NULL), 0);
        for (size_t i = 0; i < n; i++)
            apart += (log_q[i] - log_p[i]) / n;
        assert_near(apart, 0, error);
        for (size_t d = 0; d < D; d++) {
            double mean = 0, var = 0, exact = truth.cov[d * (D + 1)];
            for (size_t i = 0; i < n; i++)
                mean += z[i * D + d] / n;
            for (size_t i = 0; i < n; i++)
                var += (z[i * D + d] - mean) * (z[i * D + d] - mean) / n;
            assert_near(mean, truth.mean[d], (error + 5 / sqrt(n)) * sqrt(exact));
            assert_near(var, exact, (2 * error + 5 * sqrt(2.0 / n)) * exact);
        }
    }
    free(z);
    free(log_q);
    free(cell);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* ---- closing draws ----------------------------------------------------------------------------------------------- */
static void closing_draws_are_the_posterior(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o = options_of(4);
    wvgd_results r;
    size_t n, where;
    const double *x, *log_p, *log_w, *weight;
    const uint32_t *cell;
    mixture_2d(&model);
    wvgd_fit *fit = fitted(&model, &o);
    target_truth truth = target_truth_of(&model);
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_draws(fit, &n, &x, &log_p, &log_w, &cell, NULL), WVGD_OK);
    assert_int_equal(n, r.closing_draws);
    weight = wvgd_draw_weights(fit); /* those of the moments: with the joint solver the same */
    assert_non_null(weight);
    double sum = 0, squares = 0, total = 0, mean[2] = {0, 0}, var[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        double w = exp(log_w[i]), density;
        sum += w;
        squares += w * w;
        total += weight[i];
        if (SOLVER == WVGD_JOINT)
            assert_near(weight[i], w, 1e-12);
        for (size_t d = 0; d < 2; d++)
            mean[d] += weight[i] * x[2 * i + d];
        if (i % 97)
            continue;
        assert_int_equal(model.log_density(model.self, 1, x + 2 * i, &density, NULL), 0);
        assert_near(log_p[i], density, 1e-10 * (1 + fabs(density)));
        assert_int_equal(wvgd_cell(fit, 1, x + 2 * i, &where, NULL), WVGD_OK);
        assert_int_equal(cell[i], where);
    }
    assert_near(sum, 1, 1e-9);
    assert_near(total, 1, 1e-9);
    if (SOLVER == WVGD_JOINT) /* the staged solver counts the draws of its final batch alone */
        assert_near(1 / squares, r.ess, 1e-6 * r.ess);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < 2; d++)
            var[d] += weight[i] * (x[2 * i + d] - mean[d]) * (x[2 * i + d] - mean[d]);
    for (size_t d = 0; d < 2; d++) {
        assert_near(mean[d], r.mean[d], 1e-9);
        /* with the staged solver the mixture is a control variate of the variance */
        assert_near(var[d], r.var[d], SOLVER == WVGD_JOINT ? 1e-9 : 5 * sqrt(3 / r.ess) * r.var[d]);
        assert_near(r.mean[d], truth.mean[d], 5 * r.mcse[d]);
        /* fourth moments of this mixture are below 4 var^2: the variance has standard error below sqrt(3 / ess) var */
        assert_near(r.var[d], truth.cov[3 * d], 5 * sqrt(3 / r.ess) * truth.cov[3 * d]);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
}

static void resampling_keeps_the_moments(void **state)
{
    (void)state;
    enum { n = 20000 };
    static double z[2 * n];
    static size_t index[n];
    wvgd_model model;
    wvgd_options o = options_of(4);
    wvgd_results r;
    size_t rows;
    const double *x;
    mixture_2d(&model);
    wvgd_fit *fit = fitted(&model, &o);
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_resample(fit, 2, n, z, index, NULL), WVGD_OK);
    assert_int_equal(wvgd_draws(fit, &rows, &x, NULL, NULL, NULL, NULL), WVGD_OK);
    double mean[2] = {0, 0}, var[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        assert_true(index[i] < rows);
        assert_memory_equal(z + 2 * i, x + 2 * index[i], 2 * sizeof *z);
        for (size_t d = 0; d < 2; d++)
            mean[d] += z[2 * i + d] / n;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < 2; d++)
            var[d] += (z[2 * i + d] - mean[d]) * (z[2 * i + d] - mean[d]) / n;
    for (size_t d = 0; d < 2; d++) {
        /* the weights are the same but for smoothing, which is less than their noise; systematic
         * draws add sd / sqrt(n) at most */
        assert_near(mean[d], r.mean[d], r.mcse[d] + 4 * sqrt(r.var[d] / n));
        assert_near(var[d], r.var[d], (sqrt(3 / r.ess) + 4 * sqrt(3.0 / n)) * r.var[d]);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* Any output may be left out; what was given stays valid while the fit is only read. */
static void views_of_draws(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o = options_of(2);
    size_t n, again;
    const double *log_w;
    double z[40];
    size_t cell[20];
    mixture_2d(&model);
    wvgd_fit *fit = fitted(&model, &o);
    assert_int_equal(wvgd_draws(fit, &n, NULL, NULL, &log_w, NULL, NULL), WVGD_OK);
    double *kept = malloc(n * sizeof *kept), log_q[20];
    assert_non_null(kept);
    memcpy(kept, log_w, n * sizeof *kept);
    wvgd_results r;
    assert_int_equal(wvgd_sample(fit, 1, 20, z, cell, NULL), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, 20, z, log_q, NULL), WVGD_OK);
    assert_int_equal(wvgd_cell(fit, 20, z, cell, NULL), WVGD_OK);
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_resample(fit, 1, 20, z, cell, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i++)
        if (log_w[i] != kept[i])
            fail_msg("log_w[%zu] was %g and is %g after resampling", i, kept[i], log_w[i]);
    assert_int_equal(wvgd_draws(fit, &again, NULL, NULL, NULL, NULL, NULL), WVGD_OK);
    assert_int_equal(again, n);
    free(kept);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

static void even_the_number_may_be_left_out(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o = options_of(2);
    const double *x = NULL;
    mixture_2d(&model);
    wvgd_fit *fit = fitted(&model, &o);
    assert_int_equal(wvgd_draws(fit, NULL, &x, NULL, NULL, NULL, NULL), WVGD_OK);
    assert_non_null(x);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_by_brute_force),
        cmocka_unit_test(particles_are_in_their_cells),
        cmocka_unit_test(integrates_to_one_in_1d),
        cmocka_unit_test(integrates_to_one_in_2d),
        cmocka_unit_test(density_of_one_component),
        cmocka_unit_test(sample_follows_the_density),
        cmocka_unit_test(streams_repeat),
        cmocka_unit_test(draws_of_many_cells),
        cmocka_unit_test(closing_draws_are_the_posterior),
        cmocka_unit_test(resampling_keeps_the_moments),
        cmocka_unit_test(views_of_draws),
        cmocka_unit_test(even_the_number_may_be_left_out),
    };
    int failed = 0;
    for (SOLVER = WVGD_STAGED; SOLVER <= WVGD_JOINT; SOLVER++)
        failed += cmocka_run_group_tests_name(SOLVER == WVGD_STAGED ? "staged" : "joint", tests, NULL, NULL);
    return failed;
}
