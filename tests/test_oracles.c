/* test_oracles.c - tests of the truths that other tests lean on: quadrature in 1-D, exact bounds
 * of logistic regression, targets. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "support/logistic_truth.h"
#include "support/mixture_tables.h"
#include "support/near.h"
#include "support/oracle1d.h"
#include "support/targets.h"
#include "support/test_random.h"

static const double LOG_2PI = 1.8378770664093453;
static const char *const DATASET[] = {"iris", "boston", "cancer", "diabetes"};
enum { DATASETS = 4, SUBSETS = 10, MAX_D = 31 };

static oracle1d_target as_target(const mixture_table *m)
{
    return (oracle1d_target){m->K, m->weight, m->mean, m->sd};
}

/* ---- 1-D: cells and components ----------------------------------------------------------------------------------- */
/* Cell (-inf, 0.3), q = N(0, 1), target N(1, 1): log q and log p~ differ by 1/2 - z, log Z = log Phi(0.3). */
static void known_component_gradient(void **state)
{
    (void)state;
    const double one = 1.0;
    const oracle1d_target target = {1, &one, &one, &one};
    oracle1d_component c = oracle1d_component_in(&target, (oracle1d_interval){-INFINITY, 0.3}, 0.0, 1.0);
    assert_near(c.grad_mu, 0.434, 5e-4);
    assert_near(c.grad_log_sd, -0.787, 5e-4);
    assert_near(c.log_Z, log(0.5 * erfc(-0.3 / sqrt(2.0))), 1e-13);
    assert_near(c.elbo, c.mean - 0.5 + c.log_Z, 1e-13);
    assert_near(c.kl, log(0.5 * erfc(0.7 / sqrt(2.0))) - c.elbo, 1e-13);
    assert_near(c.a0, -0.5 - 0.5 * LOG_2PI, 1e-10);
    assert_near(c.a1, 1.0, 1e-10);
    assert_near(c.a2, -0.5, 1e-10);
}

/* The gradient is that of the value, in inner and outer cells of a mixture whose weights do not sum to 1. */
static void component_gradient_is_difference(void **state)
{
    (void)state;
    const double weight[] = {0.8, 1.7, 0.5}, mean[] = {-1.0, 0.4, 2.0}, sd[] = {0.4, 0.9, 0.2}, h = 1e-4;
    const oracle1d_target target = {3, weight, mean, sd};
    const oracle1d_interval cells[] = {
        {-INFINITY, -0.5}, {-0.5, 0.7}, {0.7, INFINITY}, {-INFINITY, INFINITY}, {4.0, INFINITY}};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        oracle1d_component c = oracle1d_component_in(&target, cells[i], 0.3, 0.8);
        double up = oracle1d_component_in(&target, cells[i], 0.3 + h, 0.8).elbo,
               down = oracle1d_component_in(&target, cells[i], 0.3 - h, 0.8).elbo;
        assert_near(c.grad_mu, (up - down) / (2.0 * h), 1e-5 * (1.0 + fabs(c.grad_mu)));
        up = oracle1d_component_in(&target, cells[i], 0.3, 0.8 * exp(h)).elbo;
        down = oracle1d_component_in(&target, cells[i], 0.3, 0.8 * exp(-h)).elbo;
        assert_near(c.grad_log_sd, (up - down) / (2.0 * h), 1e-5 * (1.0 + fabs(c.grad_log_sd)));
        assert_true(c.kl > 0.0);
    }
}

/* A cell 40 sds out in the tail of its component: the mean there is that of the tail, a + 1/a - 2/a^3 + 10/a^5 - ... */
static void component_in_far_tail(void **state)
{
    (void)state;
    const double one = 1.0, zero = 0.0, a = 40.0;
    const oracle1d_target target = {1, &one, &zero, &one};
    oracle1d_component c = oracle1d_component_in(&target, (oracle1d_interval){a, INFINITY}, 0.0, 1.0);
    assert_near(c.mean, a + 1.0 / a - 2.0 / pow(a, 3.0) + 10.0 / pow(a, 5.0), 1e-8);
    assert_near(c.elbo, c.log_Z, 1e-8);
    assert_near(c.log_Z, -0.5 * a * a - 0.5 * LOG_2PI - log(a) + log1p(-1.0 / (a * a) + 3.0 / pow(a, 4.0)), 1e-7);
}

/* The optimal quantizers of the standard normal, reached by iterating cell means. */
static void lloyd_max_constants(void **state)
{
    (void)state;
    const double one = 1.0, zero = 0.0;
    const oracle1d_target normal = {1, &one, &zero, &one};
    const double optimum[3][4] = {{-0.7979, 0.7979}, {-1.2240, 0.0, 1.2240}, {-1.5104, -0.4528, 0.4528, 1.5104}};
    const double distortion[3] = {0.3634, 0.1902, 0.1175};
    for (size_t N = 2; N <= 4; N++) {
        double z[4];
        for (size_t j = 0; j < N; j++)
            z[j] = 0.3 + (double)j;
        oracle1d_lloyd(&normal, N, z, 200);
        for (size_t j = 0; j < N; j++)
            assert_near(z[j], optimum[N - 2][j], 5.1e-5);
        assert_near(oracle1d_distortion(&normal, N, z), distortion[N - 2], 5.1e-5);
    }
}

/* dD/dz_j = 2 beta_j (z_j - mean of the cell): the moving boundaries contribute nothing. */
static void distortion_gradient_has_no_boundary_term(void **state)
{
    (void)state;
    mixture_table mixture;
    assert_true(mixture_table_read(&mixture, 3));
    const oracle1d_target target = as_target(&mixture);
    double z[3] = {-1.3, 0.2, 2.5}, h = 1e-4;
    for (size_t j = 0; j < 3; j++) {
        oracle1d_posterior p = oracle1d_posterior_in(&target, oracle1d_cell(3, z, j));
        double expected = 2.0 * p.beta * (z[j] - p.mean), centre = z[j];
        z[j] = centre + h;
        double up = oracle1d_distortion(&target, 3, z);
        z[j] = centre - h;
        double down = oracle1d_distortion(&target, 3, z);
        z[j] = centre;
        assert_near((up - down) / (2.0 * h), expected, 1e-6);
    }
}

/* ---- 1-D: the tabulated optima ----------------------------------------------------------------------------------- */
/* Components at their optimum do not want to move: eta = (mu/sd^2, -1/(2 sd^2)) is its own regression. */
static void check_component(const oracle1d_component *c, double mu, double sd, double elbo)
{
    assert_near(c->elbo, elbo, 1e-9);
    assert_near(c->grad_mu * sd, 0.0, 1e-6);
    assert_near(c->grad_log_sd, 0.0, 1e-6);
    double spread = 0.5 * c->var; /* turns a difference of precisions into one relative to the cell */
    assert_near(c->a2 * spread, -0.5 / (sd * sd) * spread, 1e-5);
    assert_near(c->a1 * sqrt(c->var), mu / (sd * sd) * sqrt(c->var), 1e-4);
}

static void check_mixture(const oracle1d_target *target, const mixture_truth *truth)
{
    double elbo[MIXTURE_MAX], weight[MIXTURE_MAX];
    for (size_t j = 0; j < truth->N; j++) {
        oracle1d_interval cell = oracle1d_cell(truth->N, truth->z, j);
        oracle1d_posterior p = oracle1d_posterior_in(target, cell);
        oracle1d_component c = oracle1d_component_in(target, cell, truth->mu[j], truth->sd[j]);
        assert_near(p.beta, truth->beta[j], 1e-10);
        assert_near(p.mean, truth->z[j], 1e-8);
        if (!truth->sd_infinite[j])
            check_component(&c, truth->mu[j], truth->sd[j], truth->elbo[j]);
        elbo[j] = truth->sd_infinite[j] ? truth->elbo[j] : c.elbo;
    }
    assert_near(oracle1d_distortion(target, truth->N, truth->z), truth->distortion, 1e-10);
    assert_near(oracle1d_best_weights(truth->N, elbo, weight), truth->pelbo, 1e-9);
    assert_near(oracle1d_pelbo(truth->N, elbo, weight), truth->pelbo, 1e-9);
    assert_near(oracle1d_pelbo(truth->N, elbo, truth->beta), truth->pelbo_beta, 1e-9);
    if (!truth->any_infinite)
        assert_near(oracle1d_ise(target, truth->N, truth->z, truth->mu, truth->sd, truth->beta), truth->ise, 1e-9);
}

static void tabulated_mixtures(void **state)
{
    (void)state;
    for (int t = 0; t < MIXTURE_TARGETS; t++) {
        mixture_table mixture;
        assert_true(mixture_table_read(&mixture, t));
        const oracle1d_target target = as_target(&mixture);
        for (size_t N = 3; N <= 7; N++) {
            mixture_truth truth;
            assert_true(mixture_truth_read(&truth, t, N));
            check_mixture(&target, &truth);
        }
    }
}

/* ---- logistic regression ----------------------------------------------------------------------------------------- */
/* E softplus(f) by the trapezoidal rule, which is all but exact for analytic functions that vanish at both ends. */
static double softplus_by_trapezium(double mean, double sd)
{
    double step = fmin(sd, 1.0) / 8.0, sum = 0.0;
    long reach = lround(12.0 * sd / step);
    for (long i = -reach; i <= reach; i++) {
        double y = (double)i * step / sd, f = mean + (double)i * step;
        sum += exp(-0.5 * y * y) * (fmax(f, 0.0) + log1p(exp(-fabs(f))));
    }
    return sum * step / sd * exp(-0.5 * LOG_2PI);
}

static void softplus_expectation(void **state)
{
    (void)state;
    const double sds[] = {1e-3, 0.1, 1.0, 7.0, 60.0, 1e3}, shift[] = {-20.0, -3.0, -0.5, 0.0, 0.2, 4.0, 50.0}, h = 1e-4;
    for (size_t i = 0; i < sizeof sds / sizeof *sds; i++)
        for (size_t k = 0; k < sizeof shift / sizeof *shift; k++) {
            double m = shift[k];
            logistic_expectation e = logistic_expect(m, sds[i]), up = logistic_expect(m + h, sds[i]),
                                 down = logistic_expect(m - h, sds[i]);
            assert_near(e.softplus, softplus_by_trapezium(m, sds[i]), 1e-10);
            assert_near(e.softplus - logistic_expect(-m, sds[i]).softplus, m, 1e-10);
            assert_near(e.sigmoid, (up.softplus - down.softplus) / (2.0 * h), 1e-7);
            assert_near(e.slope, (up.sigmoid - down.sigmoid) / (2.0 * h), 1e-7);
            assert_near(e.bend, (up.slope - down.slope) / (2.0 * h), 1e-7);
            assert_near(e.twist, (up.bend - down.bend) / (2.0 * h), 1e-7);
        }
    assert_near(logistic_expect(1.3, 0.0).softplus, log1p(exp(1.3)), 1e-14);
    assert_near(logistic_expect(1.3, 0.0).sigmoid, logistic_expect(1.3, 1e-9).sigmoid, 1e-14);
}

static void standardized_columns(void **state)
{
    (void)state;
    logistic_data data;
    assert_true(logistic_data_read(&data, "boston", 0, true));
    assert_int_equal(data.n, 50);
    assert_int_equal(data.D, 14);
    for (size_t d = 0; d < data.D; d++) {
        double sum = 0.0, square = 0.0;
        for (size_t i = 0; i < data.n; i++) {
            sum += data.X[i * data.D + d];
            square += data.X[i * data.D + d] * data.X[i * data.D + d];
        }
        assert_near(sum, d + 1 < data.D ? 0.0 : 50.0, 1e-11);
        if (square > 0.0)
            assert_near(square, d + 1 < data.D ? 49.0 : 50.0, 1e-11);
    }
    logistic_data_free(&data);
    assert_false(logistic_data_read(&data, "boston", 20, true));
    assert_false(logistic_data_read(&data, "nothing", 0, true));
}

static void check_meanfield(const char *name, int subset, bool standardize)
{
    logistic_data data;
    logistic_truth truth;
    double mu[MAX_D], sd[MAX_D], chol[MAX_D * MAX_D] = {0};
    assert_true(logistic_data_read(&data, name, subset, standardize));
    assert_true(logistic_truth_read(&truth, name, subset, standardize));
    assert_int_equal(truth.D, data.D);
    assert_true(logistic_moment_read(name, subset, standardize, "meanfield_mean", data.D, mu));
    assert_true(logistic_moment_read(name, subset, standardize, "meanfield_sd", data.D, sd));
    for (size_t d = 0; d < data.D; d++)
        chol[d * data.D + d] = sd[d];
    assert_near(logistic_elbo_diag(&data, mu, sd), truth.elbo_meanfield, 1e-9);
    assert_near(logistic_elbo_full(&data, mu, chol), truth.elbo_meanfield, 1e-9);
    assert_true(truth.elbo_meanfield < truth.elbo_fullrank &&
                truth.elbo_fullrank < truth.log_evidence + 4.0 * truth.log_evidence_se);
    logistic_data_free(&data);
}

static void tabulated_meanfield(void **state)
{
    (void)state;
    for (size_t k = 0; k < DATASETS; k++)
        for (int subset = 0; subset < SUBSETS; subset++) {
            check_meanfield(DATASET[k], subset, true);
            check_meanfield(DATASET[k], subset, false);
        }
}

static void check_fullrank(const char *name, int subset, bool standardize)
{
    logistic_data data;
    logistic_truth truth;
    double mu[MAX_D], chol[MAX_D * MAX_D], mean[MAX_D], sd[MAX_D];
    assert_true(logistic_data_read(&data, name, subset, standardize));
    assert_true(logistic_truth_read(&truth, name, subset, standardize));
    assert_true(logistic_moment_read(name, subset, standardize, "fullrank_mean", data.D, mean));
    assert_true(logistic_moment_read(name, subset, standardize, "fullrank_sd", data.D, sd));
    assert_near(logistic_fullrank(&data, mu, chol), truth.elbo_fullrank, 1e-7);
    for (size_t d = 0; d < data.D; d++) {
        double var = 0.0;
        for (size_t i = 0; i <= d; i++)
            var += chol[d * data.D + i] * chol[d * data.D + i];
        assert_near(mu[d], mean[d], 1e-3 * sd[d]);
        assert_near(sqrt(var), sd[d], 1e-3 * sd[d]);
    }
    logistic_data_free(&data);
}

static void tabulated_fullrank(void **state)
{
    (void)state;
    for (size_t k = 0; k < DATASETS; k++) {
        check_fullrank(DATASET[k], (int)k, true);
        check_fullrank(DATASET[k], (int)k + 3, false);
    }
}

/* All rows: no bound is tabulated, but the best one lies a little below the evidence, at nearly the posterior mean. */
static void bound_of_all_rows(void **state)
{
    (void)state;
    logistic_data data;
    logistic_truth truth;
    double mu[MAX_D], chol[MAX_D * MAX_D], mean[MAX_D], sd[MAX_D];
    assert_true(logistic_data_read(&data, "diabetes", LOGISTIC_ALL_ROWS, true));
    assert_true(logistic_truth_read(&truth, "diabetes", LOGISTIC_ALL_ROWS, true));
    assert_int_equal(data.n, 442);
    assert_int_equal(data.D, truth.D);
    assert_true(isnan(truth.elbo_fullrank));
    double gap = truth.log_evidence - logistic_fullrank(&data, mu, chol);
    assert_true(gap > 0.0 && gap < 0.1);
    assert_true(logistic_moment_read("diabetes", LOGISTIC_ALL_ROWS, true, "posterior_mean", data.D, mean));
    assert_true(logistic_moment_read("diabetes", LOGISTIC_ALL_ROWS, true, "posterior_sd", data.D, sd));
    for (size_t d = 0; d < data.D; d++)
        assert_near(mu[d], mean[d], 0.02 * sd[d]);
    logistic_data_free(&data);
}

/* As a Gaussian shrinks to a point, its ELBO less its entropy becomes the log density there: model
 * and bound share their constants. */
static void logistic_density_is_limit_of_bound(void **state)
{
    (void)state;
    logistic_data data;
    wvgd_model model;
    double w[MAX_D], sd[MAX_D], log_p, tiny = 1e-7;
    test_random r = test_random_seed(5);
    assert_true(logistic_data_read(&data, "diabetes", 1, true));
    assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
    test_random_normals(&r, data.D, w);
    for (size_t d = 0; d < data.D; d++)
        sd[d] = tiny;
    double entropy = (double)data.D * (0.5 * LOG_2PI + 0.5 + log(tiny));
    assert_int_equal(model.log_density(model.self, 1, w, &log_p, NULL), 0);
    assert_near(log_p, logistic_elbo_diag(&data, w, sd) - entropy, 1e-9);
    model.close(model.self);
    logistic_data_free(&data);
}

/* Weights that saturate every sigmoid: finite, and as large as the predictor says. */
static void logistic_density_is_stable(void **state)
{
    (void)state;
    const double X[] = {1.0, 1.0, -1.0, 1.0}, y[] = {0.0, 1.0}, w[] = {5e4, 0.0};
    double log_p, grad[2];
    wvgd_model model;
    assert_int_equal(target_logistic(&model, 2, 2, X, y), 0);
    assert_int_equal(model.log_density(model.self, 1, w, &log_p, grad), 0);
    assert_near(log_p, -1e5 - 0.5 * 5e4 * 5e4 - LOG_2PI, 1e-4);
    assert_near(grad[0], -2.0 - 5e4, 1e-9);
    assert_near(grad[1], 0.0, 1e-9);
    model.close(model.self);
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */
/* n normal points of the given scale: enough of them to need more than one block. */
static void check_gradient(wvgd_model *model, double scale)
{
    enum { POINTS = 70 };
    double *z = malloc(POINTS * model->dim * sizeof *z);
    assert_non_null(z);
    test_random r = test_random_seed(11);
    test_random_normals(&r, POINTS * model->dim, z);
    for (size_t i = 0; i < POINTS * model->dim; i++)
        z[i] *= scale;
    assert_true(target_gradient_error(model, POINTS, z) < 1e-6);
    free(z);
    model->close(model->self);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    wvgd_model model;
    logistic_data data;
    const double weight[] = {0.3, 0.7}, mean[] = {-1.0, 0.0, 2.0, 1.0},
                 scale[] = {1.0, 0.3, 0.3, 0.5, 0.4, 0.0, 0.0, 2.0};
    assert_int_equal(target_gaussian_random(&model, 6, 100.0, 1, true), 0);
    check_gradient(&model, 1.0);
    assert_int_equal(target_mixture_random(&model, 4, 5, 2.0, 2), 0);
    check_gradient(&model, 2.0);
    assert_int_equal(target_student_mixture(&model, 2, 2, 3.0, weight, mean, scale), 0);
    check_gradient(&model, 3.0);
    assert_int_equal(target_rosenbrock(&model, 4), 0);
    check_gradient(&model, 1.0);
    assert_int_equal(target_funnel(&model, 5, 1.5), 0);
    check_gradient(&model, 1.0);
    assert_int_equal(target_banana(&model, 3, 2.0, 0.3), 0);
    check_gradient(&model, 1.0);
    assert_int_equal(target_log_gamma(&model, 3, (const double[]){0.7, 2.0, 9.0}), 0);
    check_gradient(&model, 1.0);
    assert_int_equal(target_cauchy(&model, 3), 0);
    check_gradient(&model, 2.0);
    assert_true(logistic_data_read(&data, "cancer", 2, true));
    assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
    check_gradient(&model, 1.0);
    logistic_data_free(&data);
}

/* Mass, mean and covariance in the plane by the trapezoidal rule on [lo, hi] with n points a side,
 * against the truth. */
typedef struct {
    double lo[2], hi[2];
    size_t n[2];
} plane;

static void check_plane_truth(wvgd_model *model, const plane *grid, double tolerance)
{
    double mass = 0.0, first[2] = {0}, second[3] = {0}, h0 = (grid->hi[0] - grid->lo[0]) / (double)(grid->n[0] - 1),
           h1 = (grid->hi[1] - grid->lo[1]) / (double)(grid->n[1] - 1), *z = malloc(3 * grid->n[1] * sizeof *z);
    assert_non_null(z);
    double *log_p = z + 2 * grid->n[1];
    for (size_t i = 0; i < grid->n[0]; i++) {
        for (size_t k = 0; k < grid->n[1]; k++) {
            z[2 * k] = grid->lo[0] + (double)i * h0;
            z[2 * k + 1] = grid->lo[1] + (double)k * h1;
        }
        assert_int_equal(model->log_density(model->self, grid->n[1], z, log_p, NULL), 0);
        for (size_t k = 0; k < grid->n[1]; k++) {
            double p = exp(log_p[k]) * h0 * h1, x = z[2 * k], y = z[2 * k + 1];
            mass += p;
            first[0] += p * x;
            first[1] += p * y;
            second[0] += p * x * x;
            second[1] += p * x * y;
            second[2] += p * y * y;
        }
    }
    free(z);
    target_truth truth = target_truth_of(model);
    assert_near(log(mass), truth.log_evidence, tolerance);
    double mx = first[0] / mass, my = first[1] / mass;
    assert_near(mx, truth.mean[0], tolerance);
    assert_near(my, truth.mean[1], tolerance);
    assert_near(second[0] / mass - mx * mx, truth.cov[0], tolerance * (1.0 + truth.cov[0]));
    assert_near(second[1] / mass - mx * my, truth.cov[1], tolerance * (1.0 + fabs(truth.cov[1])));
    assert_near(second[2] / mass - my * my, truth.cov[3], tolerance * (1.0 + truth.cov[3]));
    assert_near(truth.cov[1], truth.cov[2], 1e-14);
    model->close(model->self);
}

static void truths_of_targets(void **state)
{
    (void)state;
    wvgd_model model;
    const plane near = {{-12.0, -12.0}, {12.0, 12.0}, {241, 241}},
                far = {{-300.0, -300.0}, {300.0, 300.0}, {1801, 1801}};
    const plane valley = {{-24.0, -3.0}, {26.0, 680.0}, {101, 6831}}, funnel = {{-4.5, -70.0}, {4.5, 70.0}, {46, 1751}};
    const plane banana = {{-18.0, -105.0}, {18.0, 20.0}, {145, 501}};
    const double mean[] = {0.5, -1.0}, precision[] = {2.0, 0.6, 0.6, 1.0}, weight[] = {1.0, 2.0},
                 means[] = {0.0, 1.0, -2.0, 0.0};
    const double scales[] = {1.0, 0.2, 0.2, 0.6, 0.8, -0.1, -0.1, 1.0};
    assert_int_equal(target_gaussian_precision(&model, 2, mean, precision, false), 0);
    assert_near(target_truth_of(&model).log_evidence, LOG_2PI - 0.5 * log(2.0 - 0.36), 1e-12);
    check_plane_truth(&model, &near, 1e-9);
    assert_int_equal(target_gaussian_random(&model, 2, 10.0, 3, true), 0);
    check_plane_truth(&model, &near, 1e-9);
    assert_int_equal(target_mixture_random(&model, 2, 4, 1.5, 4), 0);
    check_plane_truth(&model, &near, 1e-9);
    assert_int_equal(target_student_mixture(&model, 2, 2, 8.0, weight, means, scales), 0);
    check_plane_truth(&model, &far, 1e-8);
    assert_int_equal(target_rosenbrock(&model, 2), 0);
    check_plane_truth(&model, &valley, 1e-8);
    assert_int_equal(target_funnel(&model, 2, 0.5), 0);
    check_plane_truth(&model, &funnel, 1e-8);
    assert_int_equal(target_banana(&model, 2, 2.0, 0.3), 0);
    check_plane_truth(&model, &banana, 1e-8);
    assert_int_equal(target_log_gamma(&model, 2, (const double[]){1.5, 4.0}), 0);
    check_plane_truth(&model, &(const plane){{-20.0, -10.0}, {5.0, 5.0}, {501, 301}}, 1e-8);
}

/* A transformed mixture is the mixture in the other coordinates, but for the Jacobian; separated
 * means are separated. */
static void separated_and_transformed(void **state)
{
    (void)state;
    enum { D = 3, K = 4 };
    const double A[D * D] = {2.0, 0.5, 0.0, -1.0, 1.0, 0.3, 0.0, 0.2, 0.1},
                       jacobian = 2.0 * (0.1 - 0.06) - 0.5 * (-0.1);
    double weight[K], mean[K * D], cov[K * D * D], z[2 * D], Az[2 * D], here[2], there[2], total = 0.0;
    wvgd_model plain, moved;
    test_random random = test_random_seed(5);
    target_separated(D, K, 10.0, 8.0, 3, weight, mean, cov);
    for (size_t k = 0; k < K; k++) {
        total += weight[k];
        for (size_t other = 0; other < k; other++) {
            double d2 = 0.0;
            for (size_t i = 0; i < D; i++)
                d2 += pow(mean[k * D + i] - mean[other * D + i], 2.0);
            assert_true(d2 >= 64.0);
        }
    }
    assert_near(total, 1.0, 1e-12);
    assert_int_equal(target_mixture(&plain, D, K, weight, mean, cov), 0);
    target_transform(D, K, A, mean, cov);
    assert_int_equal(target_mixture(&moved, D, K, weight, mean, cov), 0);
    test_random_normals(&random, 2 * D, z);
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < D; i++) {
            Az[p * D + i] = 0.0;
            for (size_t j = 0; j < D; j++)
                Az[p * D + i] += A[i * D + j] * z[p * D + j];
        }
    assert_int_equal(plain.log_density(plain.self, 2, z, here, NULL), 0);
    assert_int_equal(moved.log_density(moved.self, 2, Az, there, NULL), 0);
    for (size_t p = 0; p < 2; p++)
        assert_near(there[p], here[p] - log(jacobian), 1e-9);
    plain.close(plain.self);
    moved.close(moved.self);
}

static void bad_targets_are_refused(void **state)
{
    (void)state;
    wvgd_model model;
    const double mean[] = {0.0, 0.0}, indefinite[] = {1.0, 2.0, 2.0, 1.0};
    assert_int_equal(target_gaussian_cov(&model, 2, mean, indefinite, true), -1);
    assert_int_equal(target_gaussian_precision(&model, 2, mean, indefinite, true), -1);
    assert_int_equal(target_rosenbrock(&model, 3), -1);
    assert_int_equal(target_banana(&model, 1, 1.0, 1.0), -1);
}

/* Two independent ways to the density of a 1-D mixture, deep into its tails. */
static void mixture_density_agrees_with_oracle(void **state)
{
    (void)state;
    enum { POINTS = 130 };
    mixture_table mixture;
    wvgd_model model;
    double z[POINTS], log_p[POINTS], grad[POINTS];
    assert_true(mixture_table_read(&mixture, 7));
    const oracle1d_target target = as_target(&mixture);
    assert_int_equal(target_mixture_1d(&model, mixture.K, mixture.weight, mixture.mean, mixture.sd), 0);
    for (size_t i = 0; i < POINTS; i++)
        z[i] = -65.0 + (double)i;
    assert_int_equal(model.log_density(model.self, POINTS, z, log_p, grad), 0);
    for (size_t i = 0; i < POINTS; i++)
        assert_near(log_p[i], oracle1d_log_p(&target, z[i]), 1e-12 * (1.0 + fabs(log_p[i])));
    oracle1d_posterior p = oracle1d_posterior_in(&target, (oracle1d_interval){-INFINITY, INFINITY});
    assert_near(target_truth_of(&model).mean[0], p.mean, 1e-12);
    assert_near(target_truth_of(&model).cov[0], p.var, 1e-12);
    model.close(model.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_component_gradient),
        cmocka_unit_test(component_gradient_is_difference),
        cmocka_unit_test(component_in_far_tail),
        cmocka_unit_test(lloyd_max_constants),
        cmocka_unit_test(distortion_gradient_has_no_boundary_term),
        cmocka_unit_test(tabulated_mixtures),
        cmocka_unit_test(softplus_expectation),
        cmocka_unit_test(standardized_columns),
        cmocka_unit_test(tabulated_meanfield),
        cmocka_unit_test(tabulated_fullrank),
        cmocka_unit_test(bound_of_all_rows),
        cmocka_unit_test(logistic_density_is_limit_of_bound),
        cmocka_unit_test(logistic_density_is_stable),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(truths_of_targets),
        cmocka_unit_test(separated_and_transformed),
        cmocka_unit_test(bad_targets_are_refused),
        cmocka_unit_test(mixture_density_agrees_with_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
