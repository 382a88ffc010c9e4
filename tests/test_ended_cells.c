/* test_ended_cells.c - cells in which the density ends, at a wall beyond which it is zero: whether their components are
 * near the best of their family there, and whether bound and gains are right, against exact draws of the posterior. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/edited_state.h"
#include "support/fitted.h"
#include "support/near.h"
#include "support/test_random.h"
#include "wvgd.h"
#include "wvgd_model.h"

enum { D = 3, N = 5, DRAWS = 60000 };

/* Independent exponentials: zero where a coordinate is negative. Evidence 1. */
static double exponentials(void *self, const double *z, double *grad)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < D; i++) {
        sum -= z[i] < 0 ? INFINITY : z[i];
        if (grad)
            grad[i] = -1;
    }
    return sum;
}

/* Exact draws with their cells and log densities: of the posterior, and of the ensemble. */
typedef struct {
    double x[DRAWS][D], log_p[DRAWS], log_q[DRAWS];
    size_t cell[DRAWS];
} exact;

static exact *exact_draws(uint64_t seed)
{
    exact *e = malloc(sizeof *e);
    test_random r = test_random_seed(seed);
    assert_non_null(e);
    for (size_t i = 0; i < DRAWS; i++) {
        for (size_t k = 0; k < D; k++)
            e->x[i][k] = -log(test_random_uniform(&r));
        e->log_p[i] = exponentials(NULL, e->x[i], NULL);
    }
    return e;
}

static void look_up(exact *e, const wvgd_fit *fit)
{
    assert_int_equal(wvgd_cell(fit, DRAWS, e->x[0], e->cell, NULL), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, DRAWS, e->x[0], e->log_q, NULL), WVGD_OK);
}

/* Of the component of a cell: its ELBO, log(beta_j p(x)) - ELBO_j, and the error of that, by weights q/p. */
typedef struct {
    double elbo, loss, se;
} truth;

static truth truth_of(const exact *e, size_t j)
{
    double n = 0, sum = 0, mean = 0, error = 0;
    for (size_t i = 0; i < DRAWS; i++)
        if (e->cell[i] == j) {
            double u = exp(e->log_q[i] - e->log_p[i]);
            n++;
            sum += u;
            mean += u * (e->log_p[i] - e->log_q[i]);
        }
    mean /= sum;
    for (size_t i = 0; i < DRAWS; i++)
        if (e->cell[i] == j) {
            double u = exp(e->log_q[i] - e->log_p[i]) / sum, d = e->log_p[i] - e->log_q[i] - mean + 1;
            error += (u * d - 1 / n) * (u * d - 1 / n);
        }
    double elbo = mean + log(sum / DRAWS);
    return (truth){elbo, log(n / DRAWS) - elbo, sqrt(error)};
}

/* An exponential at a wall needs a Gaussian whose mean lies beyond it: it is one where the precision is 0. What it
 * must keep of that costs about 0.02 nats a dimension. */
static void components_follow_walls(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(N, seed);
        assert_int_equal(wvgd_model_pointwise(&model, D, exponentials, NULL, true), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        exact *e = exact_draws(100 + seed);
        double bound = 0, apart = 0;
        look_up(e, fit);
        for (size_t j = 0; j < N; j++) {
            truth t = truth_of(e, j);
            print_message("mass %.3f weight %.3f: loss %.4f +- %.4f, gain %.4f +- %.4f\n", r.beta[j], r.weight[j],
                          t.loss, t.se, r.gain[j], r.gain_se[j]);
            assert_true(t.loss < 0.1 + 4 * t.se);
            assert_near(r.elbo[j], t.elbo, 4.5 * hypot(r.elbo_se[j], t.se));
            bound += r.weight[j] * (t.elbo - log(r.weight[j]));
            apart += fabs(r.weight[j] - r.beta[j]);
        }
        print_message("bound %.4f +- %.4f, exact %.4f; weights %.3f apart\n", r.pelbo.value, r.pelbo.se, bound, apart);
        assert_near(r.pelbo.value, bound, 4 * r.pelbo.se);
        assert_true(r.pelbo.se < 0.04);
        assert_true(r.reliable);
        free(e);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* Half of the variance of log p - log q that 1, t and t t' explain under the component of a cell. */
static double exact_gain(const exact *e, size_t j)
{
    enum { P = 1 + D + D * (D + 1) / 2 };
    double F[P * P] = {0}, b[P] = {0}, sum = 0, mean = 0, explained = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        double T[P] = {1}, u = exp(e->log_q[i] - e->log_p[i]), d = e->log_p[i] - e->log_q[i];
        size_t at = 1;
        for (size_t k = 0; k < D; k++)
            T[at++] = e->x[i][k];
        for (size_t k = 0; k < D; k++)
            for (size_t l = 0; l <= k; l++)
                T[at++] = e->x[i][k] * e->x[i][l];
        for (size_t k = 0; e->cell[i] == j && k < P; k++) {
            b[k] += u * d * T[k];
            for (size_t l = 0; l < P; l++)
                F[k * P + l] += u * T[k] * T[l];
        }
    }
    sum = F[0];
    mean = b[0] / sum;
    double with[P];
    memcpy(with, b, sizeof with);
    assert_int_equal(LAPACKE_dposv(LAPACK_ROW_MAJOR, 'L', P, 1, F, P, b, 1), 0);
    for (size_t k = 0; k < P; k++)
        explained += b[k] * with[k] / sum;
    return (explained - mean * mean) / 2;
}

/* Numbers `from` on of a result [n] become others, in the state of the fit. */
static void put(wvgd_fit *fit, size_t n, const double *view, size_t first, size_t count, const double *value)
{
    enum { MOST = N * D * D };
    double from[MOST], to[MOST];
    memcpy(from, view, n * sizeof *from);
    memcpy(to, view, n * sizeof *to);
    memcpy(to + first, value, count * sizeof *to);
    assert_true(edited_state_replace(fit, n, from, to) > 0);
}

/* log mass in the cell of z[j] of the component with this mean and root, by its draws. */
static double log_mass(const double *z, size_t j, const double *mu, const double *chol)
{
    double inside = 0;
    test_random r = test_random_seed(7);
    for (size_t i = 0; i < DRAWS; i++) {
        double e[D], x[D], least = INFINITY;
        size_t nearest = 0;
        test_random_normals(&r, D, e);
        test_random_colour(WVGD_FULL, D, chol, e, x);
        for (size_t k = 0; k < N; k++) {
            double sum = 0;
            for (size_t l = 0; l < D; l++)
                sum += (mu[l] + x[l] - z[k * D + l]) * (mu[l] + x[l] - z[k * D + l]);
            nearest = sum < least ? k : nearest;
            least = fmin(sum, least);
        }
        inside += nearest == j;
    }
    return log(inside / DRAWS);
}

/* Components that lie on this side of the walls, with the mean and a part of the covariance of their cells, are
 * spoiled: what they could gain is seen. */
static void gains_are_seen_at_walls(void **state)
{
    (void)state;
    static const double scale[] = {1, 0.8, 1.3};
    for (size_t c = 0; c < sizeof scale / sizeof *scale; c++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_progress p;
        wvgd_options o = staged_options(N, 11 + c);
        o.cost = WVGD_SQEUCLID;
        assert_int_equal(wvgd_model_pointwise(&model, D, exponentials, NULL, true), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        for (wvgd_get_progress(fit, &p); strcmp(p.stage, "bound"); wvgd_get_progress(fit, &p))
            assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        size_t j = 0;
        for (size_t k = 0; k < N; k++)
            j = r.beta[k] > r.beta[j] ? k : j;
        double chol[D * D] = {0}, mu[D], log_Z;
        for (size_t k = 0; k < D; k++) {
            mu[k] = r.z[j * D + k];
            chol[k * (D + 1)] = scale[c] * sqrt(r.cell_cov[j * D * D + k * (D + 1)]);
        }
        log_Z = log_mass(r.z, j, mu, chol);
        put(fit, N * D, r.mu, j * D, D, mu);
        put(fit, N * D * D, r.chol, j * D * D, D * D, chol);
        put(fit, N, r.log_Z, j, 1, &log_Z);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        assert_near(r.mu[j * D], mu[0], 1e-12);
        exact *e = exact_draws(200 + c);
        look_up(e, fit);
        double gain = fmin(exact_gain(e, j), truth_of(e, j).loss);
        print_message("gain %.4f +- %.4f, exact %.4f\n", r.gain[j], r.gain_se[j], gain);
        assert_near(r.gain[j], gain, 4 * r.gain_se[j] + 0.05 * gain);
        assert_true(r.gain_se[j] < 0.02 + 0.25 * gain);
        assert_true(gain < 0.15 || !r.reliable);
        free(e);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(components_follow_walls),
                                       cmocka_unit_test(gains_are_seen_at_walls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
