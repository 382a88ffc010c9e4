/* test_experiments.c - what the experiments are measured against, by a second computation each: the
 * Gaussian process's reference (quadrature) by importance sampling with the program's own model, its
 * picture's grid by that model's density, the best diagonal Gaussian of a logistic regression by tables and
 * by brute force, medoids by trying all. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* ours takes arguments */
#undef fail_msg

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gp.h"
#include "json_file.h"
#include "logistic_bound.h"
#include "medoids.h"
#include "sharp_bound.h"
#include "support/logistic_truth.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"

static const double LOG_2PI = 1.8378770664093453;

/* ---- Gaussian process -------------------------------------------------------------------------------------------- */
static void must(int code, const failure *f)
{
    if (code)
        print_error("%s\n", f->text);
    assert_int_equal(code, 0);
}

typedef struct {
    double mean[4], sd[4];
} normal4;

typedef struct {
    wv_gp_prior prior;
    double log_evidence, mass[2], error_mass;
    normal4 reading[2];
} reference;

static void take(json_t *list, size_t n, double *value)
{
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        value[i] = json_number_value(json_array_get(list, i));
}

static reference read_reference(const char *path)
{
    failure f;
    json_t *root;
    reference r;
    must(load_json(path, 0, &root, &f), &f);
    r.log_evidence = json_number_value(json_object_get(root, "log_evidence"));
    r.error_mass = json_number_value(json_object_get(json_object_get(root, "error"), "mass"));
    take(json_object_get(root, "prior_mean"), 4, r.prior.mean);
    take(json_object_get(root, "prior_sd"), 4, r.prior.sd);
    take(json_object_get(root, "mass"), 2, r.mass);
    for (size_t k = 0; k < 2; k++) {
        take(json_array_get(json_object_get(root, "mean"), k), 4, r.reading[k].mean);
        take(json_array_get(json_object_get(root, "sd"), k), 4, r.reading[k].sd);
    }
    json_decref(root);
    return r;
}

static double log_normal4(const normal4 *g, const double *z)
{
    double sum = 0.0;
    for (size_t d = 0; d < 4; d++) {
        double u = (z[d] - g->mean[d]) / g->sd[d];
        sum -= 0.5 * u * u + log(g->sd[d]) + 0.5 * LOG_2PI;
    }
    return sum;
}

static void open_series(const char *path, const wv_gp_prior *prior, series_data *series, wvgd_model *model)
{
    failure f;
    must(read_series(path, NULL, series, &f), &f);
    assert_int_equal(wv_model_gp(model, series->n, series->t, series->y, prior), 0);
}

/* Draws from three normals: the two readings, 1.4 times as wide as the reference says, and the prior.
 * Averages of weights p~/m over n independent draws, so that their sds give the errors; means of readings by
 * the delta method. Every check allows 4 standard errors and what the reference itself is uncertain by; 0.1
 * sd would be seen at 10 standard errors. */
static void reference_by_importance_sampling(void **state)
{
    (void)state;
    enum { n = 40000 };
    reference r = read_reference(WVGD_SOURCE_DIR "/experiments/data/gp_simulated_reference.json");
    normal4 part[3] = {r.reading[0], r.reading[1], {{0}, {0}}};
    const double share[3] = {0.45, 0.45, 0.1};
    memcpy(part[2].mean, r.prior.mean, sizeof part[2].mean);
    memcpy(part[2].sd, r.prior.sd, sizeof part[2].sd);
    for (size_t d = 0; d < 4; d++)
        for (size_t k = 0; k < 2; k++)
            part[k].sd[d] *= 1.4;
    series_data series;
    wvgd_model model;
    open_series(WVGD_SOURCE_DIR "/experiments/data/gp_simulated.csv", &r.prior, &series, &model);
    double *z = calloc(n * 4, sizeof *z), *log_p = calloc(n, sizeof *log_p), *w = calloc(n, sizeof *w);
    test_random random = test_random_seed(20261);
    for (size_t i = 0; i < n; i++) {
        double u = test_random_uniform(&random);
        const normal4 *from = &part[u < share[0] ? 0 : u < share[0] + share[1] ? 1 : 2];
        for (size_t d = 0; d < 4; d++)
            z[i * 4 + d] = from->mean[d] + from->sd[d] * test_random_normal(&random);
    }
    assert_int_equal(model.log_density(model.self, n, z, log_p, NULL), 0);
    double sum = 0.0, square = 0.0, mass[2] = {0}, mean[2][4] = {{0}}, error[2] = {0}, mean_error[2][4] = {{0}};
    for (size_t i = 0; i < n; i++) {
        double m = 0.0;
        for (size_t k = 0; k < 3; k++)
            m += share[k] * exp(log_normal4(&part[k], z + i * 4));
        w[i] = exp(log_p[i] - r.log_evidence) / m;
        sum += w[i];
        square += w[i] * w[i];
        int k = reading_of(z + i * 4);
        mass[k] += w[i];
        for (size_t d = 0; d < 4; d++)
            mean[k][d] += w[i] * z[i * 4 + d];
    }
    for (size_t k = 0; k < 2; k++)
        for (size_t d = 0; d < 4; d++)
            mean[k][d] /= mass[k];
    for (size_t i = 0; i < n; i++) {
        int k = reading_of(z + i * 4);
        for (int j = 0; j < 2; j++)
            error[j] += pow(w[i] * ((k == j) - mass[j] / sum), 2.0);
        for (size_t d = 0; d < 4; d++)
            mean_error[k][d] += pow(w[i] * (z[i * 4 + d] - mean[k][d]) / mass[k], 2.0);
    }
    double se = sqrt(square / n - pow(sum / n, 2.0)) / sqrt((double)n);
    print_message("log evidence off by %.4f (se %.4f), mass of oscillation by %.4f (se %.4f)\n", log(sum / n), se,
                  mass[0] / sum - r.mass[0], sqrt(error[0]) / sum);
    assert_true(se < 0.02);
    assert_near(log(sum / n), 0.0, 4.0 * se);
    for (size_t k = 0; k < 2; k++) {
        assert_true(r.mass[k] > 0.1);
        assert_near(mass[k] / sum, r.mass[k], 4.0 * sqrt(error[k]) / sum + 2.0 * r.error_mass);
        for (size_t d = 0; d < 4; d++) {
            assert_true(sqrt(mean_error[k][d]) < 0.02 * r.reading[k].sd[d] + 0.02);
            assert_near(mean[k][d], r.reading[k].mean[d], 4.0 * sqrt(mean_error[k][d]) + 0.02 * r.reading[k].sd[d]);
        }
    }
    free(z);
    free(log_p);
    free(w);
    wvgd_model_close(&model);
    free_series(&series);
}

/* The grid of a picture is the sum of the model's density over the other two coordinates, point by point, and
 * the best point is one with the highest. */
static void grid_is_the_models_density(void **state)
{
    (void)state;
    const gp_axis axis[4] = {{5, -1.5, 1.0}, {4, -2.6, 0.3}, {3, 0.2, 1.2}, {6, -2.5, 0.5}};
    reference r = read_reference(WVGD_SOURCE_DIR "/experiments/data/gp_simulated_reference.json");
    series_data series;
    wvgd_model model;
    gp_marginal m;
    open_series(WVGD_SOURCE_DIR "/experiments/data/gp_simulated.csv", &r.prior, &series, &model);
    assert_int_equal(make_gp_marginal(&series, &r.prior, axis, &m), 0);
    double total = 0.0;
    for (size_t f = 0; f < 4; f++)
        for (size_t b = 0; b < 6; b++) {
            double sum = 0.0, highest = -INFINITY, log_p;
            for (size_t a = 0; a < 5; a++)
                for (size_t s = 0; s < 3; s++) {
                    const double z[4] = {gp_axis_at(&axis[0], a), gp_axis_at(&axis[1], f), gp_axis_at(&axis[2], s),
                                         gp_axis_at(&axis[3], b)};
                    assert_int_equal(model.log_density(model.self, 1, z, &log_p, NULL), 0);
                    sum += exp(log_p);
                    highest = fmax(highest, log_p);
                }
            sum *= gp_axis_step(&axis[0]) * gp_axis_step(&axis[2]);
            total += sum * gp_axis_step(&axis[1]) * gp_axis_step(&axis[3]);
            assert_near(m.log_density[f * 6 + b], log(sum), 1e-7);
            assert_int_equal(model.log_density(model.self, 1, m.best + 4 * (f * 6 + b), &log_p, NULL), 0);
            assert_near(log_p, highest, 1e-9);
        }
    assert_near(gp_marginal_total(&m), log(total), 1e-7);
    free_gp_marginal(&m);
    wvgd_model_close(&model);
    free_series(&series);
}

/* Two observations: the formulas by hand. */
static void prediction_by_hand(void **state)
{
    (void)state;
    double t[2] = {0.0, 0.7}, y[2] = {1.0, -0.4}, at = 0.3, mean, sd;
    const double theta[4] = {log(1.5), log(0.4), log(0.9), log(0.2)};
    series_data series = {.n = 2, .t = t, .y = y};
    assert_int_equal(predict_gp(&series, theta, 1, &at, &mean, &sd), 0);
    double k[2], K = 1.7, c = 1.5 * exp(-0.5 * 0.49 / 0.81) * cos(2.0 * M_PI * 0.4 * 0.7), det = K * K - c * c;
    for (int i = 0; i < 2; i++)
        k[i] = 1.5 * exp(-0.5 * pow(at - t[i], 2.0) / 0.81) * cos(2.0 * M_PI * 0.4 * (at - t[i]));
    double a0 = (K * y[0] - c * y[1]) / det, a1 = (K * y[1] - c * y[0]) / det;
    assert_near(mean, k[0] * a0 + k[1] * a1, 1e-8);
    assert_near(sd * sd, 1.5 - (K * (k[0] * k[0] + k[1] * k[1]) - 2.0 * c * k[0] * k[1]) / det, 1e-8);
}

static void rule_of_readings(void **state)
{
    (void)state;
    const double wave[4] = {0.0, 0.2, 0.9, -2.0}, slow[4] = {0.0, -2.0, 0.9, -2.0}, noise[4] = {-1.0, 0.2, 0.9, -0.5};
    assert_int_equal(reading_of(wave), OSCILLATION);
    assert_int_equal(reading_of(slow), SMOOTH);
    assert_int_equal(reading_of(noise), SMOOTH);
}

/* ---- logistic regression ----------------------------------------------------------------------------------------- */
static void meanfield_of_tables(void **state)
{
    (void)state;
    static const char *const names[] = {"iris", "boston", "cancer", "diabetes"};
    for (size_t k = 0; k < 4; k++)
        for (int raw = 0; raw < 2; raw++) {
            logistic_data data;
            logistic_truth truth;
            double mu[31], sd[31], mean[31], spread[31];
            assert_true(logistic_data_read(&data, names[k], (int)k + 2, !raw));
            assert_true(logistic_truth_read(&truth, names[k], (int)k + 2, !raw));
            assert_true(logistic_moment_read(names[k], (int)k + 2, !raw, "meanfield_mean", data.D, mean));
            assert_true(logistic_moment_read(names[k], (int)k + 2, !raw, "meanfield_sd", data.D, spread));
            assert_near(logistic_meanfield(&data, mu, sd), truth.elbo_meanfield, 1e-7);
            for (size_t d = 0; d < data.D; d++) {
                assert_near(mu[d], mean[d], 1e-3 * spread[d]);
                assert_near(sd[d], spread[d], 1e-3 * spread[d]);
            }
            logistic_data_free(&data);
        }
}

/* One weight and an intercept, six rows: pattern search from the best of a grid, down to steps of 1e-6. */
static void meanfield_by_brute_force(void **state)
{
    (void)state;
    double X[12] = {-1.5, 1.0, -0.4, 1.0, 0.1, 1.0, 0.8, 1.0, 1.1, 1.0, 2.5, 1.0},
           y[6] = {0.0, 0.0, 1.0, 0.0, 1.0, 1.0}, mu[2], sd[2];
    logistic_data data = {6, 2, X, y};
    double found = logistic_meanfield(&data, mu, sd), z[4] = {0.0, 0.0, 1.0, 1.0},
           best = logistic_elbo_diag(&data, z, z + 2);
    for (double step = 0.5; step > 1e-6; step *= 0.5)
        for (bool moved = true; moved;) {
            moved = false;
            for (int d = 0; d < 8; d++) {
                double trial[4], value;
                memcpy(trial, z, sizeof z);
                trial[d / 2] += d % 2 ? step : -step;
                if (trial[2] <= 0.0 || trial[3] <= 0.0 || (value = logistic_elbo_diag(&data, trial, trial + 2)) <= best)
                    continue;
                memcpy(z, trial, sizeof z);
                best = value;
                moved = true;
            }
        }
    assert_near(found, best, 1e-9);
    for (int d = 0; d < 2; d++) {
        assert_near(mu[d], z[d], 1e-4);
        assert_near(sd[d], z[2 + d], 1e-4);
    }
}

/* The bound of a fitted ensemble by two routes: component by component, and as the mean of log p~ - log q over draws
 * of the ensemble. Both are Monte Carlo: 4 standard errors of the difference; the second also has the fit's own log
 * Z_j, known to half a hundredth each. With one particle the first is the ELBO, known exactly. */
static void check_sharp_bound(const logistic_data *data, const wvgd_model *model, size_t N)
{
    enum { n = 100000 };
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    wvgd_estimate bound;
    wvgd_options_init(&o);
    o.particles = N;
    o.family = WVGD_DIAG;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(fit, &r);
    assert_int_equal(sharpen_bound(model, fit, n, 3, &bound, &error), 0);
    assert_true(bound.se > 0.0 && bound.se < 0.3); /* a component may have little in its cell */
    double *z = calloc(n * data->D, sizeof *z), *log_p = calloc(n, sizeof *log_p), *log_q = calloc(n, sizeof *log_q),
           mean = 0.0, square = 0.0;
    assert_int_equal(wvgd_sample(fit, 1, n, z, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, n, z, log_q, &error), WVGD_OK);
    assert_int_equal(model->log_density(model->self, n, z, log_p, NULL), 0);
    for (size_t i = 0; i < n; i++)
        mean += (log_p[i] - log_q[i]) / n;
    for (size_t i = 0; i < n; i++)
        square += pow(log_p[i] - log_q[i] - mean, 2.0);
    assert_near(bound.value, N == 1 ? logistic_elbo_diag(data, r.mu, r.sd) : mean,
                4.0 * hypot(bound.se, sqrt(square) / n) + (N == 1 ? 0.0 : 0.01));
    free(z);
    free(log_p);
    free(log_q);
    wvgd_free(fit);
}

static void bound_by_two_routes(void **state)
{
    (void)state;
    logistic_data data;
    wvgd_model model;
    assert_true(logistic_data_read(&data, "iris", 0, false));
    assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
    check_sharp_bound(&data, &model, 1);
    check_sharp_bound(&data, &model, 3);
    model.close(model.self);
    logistic_data_free(&data);
}

/* ---- medoids ----------------------------------------------------------------------------------------------------- */
static void medoids_by_trying_all(void **state)
{
    (void)state;
    enum { M = 14 };
    double x[M][2], cost[M * M];
    test_random random = test_random_seed(7);
    for (int repeat = 0; repeat < 20; repeat++) {
        size_t medoid[3], size[3];
        double least = INFINITY, sum = 0.0;
        for (size_t i = 0; i < M; i++)
            for (size_t d = 0; d < 2; d++)
                x[i][d] = test_random_normal(&random);
        for (size_t i = 0; i < M; i++)
            for (size_t k = 0; k < M; k++)
                cost[i * M + k] = hypot(x[i][0] - x[k][0], x[i][1] - x[k][1]);
        for (size_t a = 0; a < M; a++)
            for (size_t b = 0; b < a; b++)
                for (size_t c = 0; c < b; c++) {
                    sum = 0.0;
                    for (size_t i = 0; i < M; i++)
                        sum += fmin(cost[i * M + a], fmin(cost[i * M + b], cost[i * M + c]));
                    least = fmin(least, sum / M);
                }
        double found = find_medoids(M, cost, 3, 60, 1, medoid, size);
        assert_near(found, least, 1e-12);
        assert_int_equal(size[0] + size[1] + size[2], M);
    }
}

/* Fewer different points than medoids. */
static void medoids_of_equal_points(void **state)
{
    (void)state;
    const double cost[9] = {0.0};
    size_t medoid[2], size[2];
    assert_near(find_medoids(3, cost, 2, 4, 1, medoid, size), 0.0, 0.0);
    assert_int_equal(size[0] + size[1], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_by_importance_sampling),
        cmocka_unit_test(grid_is_the_models_density),
        cmocka_unit_test(prediction_by_hand),
        cmocka_unit_test(rule_of_readings),
        cmocka_unit_test(meanfield_of_tables),
        cmocka_unit_test(meanfield_by_brute_force),
        cmocka_unit_test(medoids_by_trying_all),
        cmocka_unit_test(medoids_of_equal_points),
        cmocka_unit_test(bound_by_two_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
