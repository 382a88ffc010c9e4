/* test_gaussian.c - one particle on Gaussian targets: the component becomes the target (full, low rank), or the best
 * diagonal one, whatever the condition number and the start. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { D = 20, SEEDS = 5 };

/* A target, and one start 10 sds from its mean in every coordinate. */
typedef struct {
    wvgd_model model;
    target_truth truth;
    double start[D];
} gaussian;

static gaussian make(size_t dim, double condition, uint64_t seed, bool normalised)
{
    gaussian g;
    assert_int_equal(target_gaussian_random(&g.model, dim, condition, seed, normalised), 0);
    g.truth = target_truth_of(&g.model);
    test_random random = test_random_seed(seed);
    for (size_t i = 0; i < dim; i++)
        g.start[i] = g.truth.mean[i] + (test_random_uniform(&random) < 0.5 ? -10 : 10) * sqrt(g.truth.cov[i * dim + i]);
    return g;
}

static wvgd_options options_of(wvgd_family family, uint64_t seed)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = 1;
    o.family = family;
    o.seed = seed;
    return o;
}

static wvgd_fit *fit_of(const gaussian *g, const wvgd_options *o, wvgd_results *r)
{
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(&g->model, o, g->start, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, r);
    return fit;
}

/* Largest error of the component's mean in sds, and of its covariance relative to the product of sds. */
static void errors(const wvgd_fit *fit, const wvgd_results *r, const target_truth *truth, double *mean, double *cov)
{
    size_t dim = r->D;
    double own[D * D];
    wvgd_error error;
    assert_int_equal(wvgd_component_cov(fit, 0, own, &error), WVGD_OK);
    *mean = *cov = 0;
    for (size_t i = 0; i < dim; i++) {
        double sd = sqrt(truth->cov[i * dim + i]);
        *mean = fmax(*mean, fabs(r->mu[i] - truth->mean[i]) / sd);
        for (size_t k = 0; k < dim; k++)
            *cov = fmax(*cov, fabs(own[i * dim + k] - truth->cov[i * dim + k]) / sd / sqrt(truth->cov[k * dim + k]));
    }
}

/* The full family holds the target: no noise is left at the optimum, and the bound is the evidence. */
static void full_is_exact(void **state)
{
    (void)state;
    double worst = 0, worst_mean = 0, worst_cov = 0;
    size_t most = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gaussian g = make(D, 1e6, seed, seed % 2);
        wvgd_options o = options_of(WVGD_FULL, seed);
        wvgd_results r;
        double mean, cov;
        wvgd_fit *fit = fit_of(&g, &o, &r);
        errors(fit, &r, &g.truth, &mean, &cov);
        worst = fmax(worst, fabs(r.pelbo.value - g.truth.log_evidence));
        worst_mean = fmax(worst_mean, mean);
        worst_cov = fmax(worst_cov, cov);
        most = r.iterations > most ? r.iterations : most;
        assert_int_equal(r.stop, WVGD_CONVERGED);
        wvgd_free(fit);
        g.model.close(g.model.self);
    }
    print_message("full, D = %d, condition 1e6: |PELBO - log evidence| at most %.2g after at most %zu iterations; "
                  "mean within %.2g sd, covariance within %.2g\n",
                  D, worst, most, worst_mean, worst_cov);
    assert_true(worst < 1e-6);
    assert_true(most <= 40);
    assert_true(worst_mean < 1e-3);
    assert_true(worst_cov < 1e-3);
}

/* A low-rank component of rank D is a full one. */
static void lowrank_of_rank_D_is_full(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        gaussian g = make(D, 1e6, seed, true);
        wvgd_options o = options_of(WVGD_LOWRANK, seed);
        wvgd_results r;
        double mean, cov;
        o.rank = D;
        wvgd_fit *fit = fit_of(&g, &o, &r);
        errors(fit, &r, &g.truth, &mean, &cov);
        print_message("lowrank of rank %d: |PELBO - log evidence| %.2g after %zu iterations; mean within %.2g sd, "
                      "covariance within %.2g\n",
                      D, fabs(r.pelbo.value - g.truth.log_evidence), r.iterations, mean, cov);
        assert_near(r.pelbo.value, g.truth.log_evidence, 1e-6);
        assert_true(r.iterations <= 40);
        assert_true(mean < 1e-3);
        assert_true(cov < 1e-3);
        wvgd_free(fit);
        g.model.close(g.model.self);
    }
}

/* precision[dim][dim] = cov^-1 */
static void invert(size_t dim, const double *cov, double *precision)
{
    memcpy(precision, cov, dim * dim * sizeof *precision);
    assert_int_equal(LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (lapack_int)dim, precision, (lapack_int)dim), 0);
    assert_int_equal(LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', (lapack_int)dim, precision, (lapack_int)dim), 0);
}

/* The best diagonal Gaussian has the target's mean, and sd_i = 1/sqrt(precision_ii). Its mean has to be right in
 * units of its own sds, up to a thousand times narrower than the target's. */
static void diag_is_meanfield(void **state)
{
    (void)state;
    double worst_sd = 0, worst_mean = 0, worst_own = 0, worst_gap = 0;
    size_t most = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gaussian g = make(D, 1e6, seed, true);
        wvgd_options o = options_of(WVGD_DIAG, seed);
        wvgd_results r;
        double precision[D * D], gap = 0, chol[D * D];
        wvgd_fit *fit = fit_of(&g, &o, &r);
        invert(D, g.truth.cov, precision);
        memcpy(chol, g.truth.cov, sizeof chol);
        assert_int_equal(LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', D, chol, D), 0);
        for (size_t i = 0; i < D; i++) {
            double sd = 1 / sqrt(precision[i * D + i]), off = fabs(r.mu[i] - g.truth.mean[i]);
            worst_sd = fmax(worst_sd, fabs(r.sd[i] / sd - 1));
            worst_mean = fmax(worst_mean, off / sqrt(g.truth.cov[i * D + i]));
            worst_own = fmax(worst_own, off / sd);
            gap += log(precision[i * D + i]) / 2 + log(chol[i * D + i]);
        }
        worst_gap = fmax(worst_gap, fabs(r.pelbo.value - (g.truth.log_evidence - gap)));
        most = r.iterations > most ? r.iterations : most;
        assert_near(r.meanfield_gap, gap, 1e-2 * gap);
        assert_near(r.pelbo.value, g.truth.log_evidence - gap, 4 * r.pelbo.se + o.tol);
        wvgd_free(fit);
        g.model.close(g.model.self);
    }
    print_message("diag: sd within %.2g of 1/sqrt(precision_ii), mean within %.2g of the target's sds and %.2g of its "
                  "own, bound within %.2g, at most %zu iterations\n",
                  worst_sd, worst_mean, worst_own, worst_gap, most);
    assert_true(worst_sd < 1e-2);
    assert_true(worst_mean < 1e-2);
}

/* Without gradients: the score estimator in five dimensions, at several condition numbers. The target is in
 * the family, so its noise vanishes too. */
static void score_without_gradients(void **state)
{
    (void)state;
    enum { DIM = 5, CONDITIONS = 4 };
    static const double condition[CONDITIONS] = {1, 100, 1e4, 1e6};
    int converged = 0, exact = 0;
    for (size_t c = 0; c < CONDITIONS; c++) {
        double worst = 0, worst_mean = 0, worst_cov = 0;
        size_t most = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            gaussian g = make(DIM, condition[c], seed, true);
            wvgd_options o = options_of(WVGD_FULL, seed);
            wvgd_results r;
            double mean, cov;
            g.model.has_gradient = false;
            o.estimator = WVGD_SCORE;
            wvgd_fit *fit = fit_of(&g, &o, &r);
            errors(fit, &r, &g.truth, &mean, &cov);
            converged += r.stop == WVGD_CONVERGED;
            exact += fabs(r.pelbo.value - g.truth.log_evidence) < o.tol && mean < 1e-2 && cov < 1e-2;
            worst = fmax(worst, fabs(r.pelbo.value - g.truth.log_evidence));
            worst_mean = fmax(worst_mean, mean);
            worst_cov = fmax(worst_cov, cov);
            most = r.iterations > most ? r.iterations : most;
            wvgd_free(fit);
            g.model.close(g.model.self);
        }
        print_message("score without gradients, D = %d, condition %g: |PELBO - log evidence| at most %.2g after at "
                      "most %zu iterations; mean within %.2g sd, covariance within %.2g\n",
                      DIM, condition[c], worst, most, worst_mean, worst_cov);
    }
    assert_int_equal(converged, CONDITIONS * SEEDS);
    assert_int_equal(exact, CONDITIONS * SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_exact),
        cmocka_unit_test(lowrank_of_rank_D_is_full),
        cmocka_unit_test(diag_is_meanfield),
        cmocka_unit_test(score_without_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
