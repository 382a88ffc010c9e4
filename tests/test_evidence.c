/* test_evidence.c - the staged solver with its defaults on targets whose evidence, moments, modes and quantizers are
 * known. Tolerances are multiples of the standard errors that a fit reports, which the rms of the z-scores checks in
 * turn; where the control variates leave no noise, of the ridge's 1e-4. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "wvgd.h"

static wvgd_fit *fitted(const wvgd_model *model, size_t N, wvgd_cost cost, uint64_t seed, wvgd_results *r)
{
    wvgd_options o;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_options_init(&o);
    assert_int_equal(o.solver, WVGD_STAGED);
    o.particles = N;
    o.cost = cost;
    o.seed = seed;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, r);
    return fit;
}

/* A Gaussian is fitted exactly: nothing is left for chance but the ridge, and the bound of one
 * particle is the evidence. */
static void gaussians_are_exact(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 5, 20};
    for (size_t d = 0; d < 3; d++) {
        wvgd_model model;
        wvgd_results r;
        assert_int_equal(target_gaussian_random(&model, dims[d], 1e6, 7 + d, true), 0);
        target_truth truth = target_truth_of(&model);
        wvgd_fit *fit = fitted(&model, 1, WVGD_MAHALANOBIS, 3, &r);
        assert_int_equal(r.stop, WVGD_CONVERGED);
        assert_true(r.reliable && r.modes == 1);
        assert_near(r.evidence.value, 0, 1e-3);
        assert_near(r.pelbo.value, 0, 4 * r.pelbo.se + 1e-3);
        assert_true(r.evaluations < 3000);
        for (size_t i = 0; i < dims[d]; i++) { /* Stein's identities leave no noise in the moments of a Gaussian */
            double sd = sqrt(truth.cov[i * dims[d] + i]);
            assert_near(r.mean[i], truth.mean[i], 0.01 * sd);
            assert_near(sqrt(r.var[i]), sd, 0.01 * sd);
        }
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* Far and near mixtures with random axes: every mode, its mass by the cell that holds it, the
 * evidence, a bound below it. */
static void mixtures(void **state)
{
    (void)state;
    double squares = 0, above = -INFINITY;
    size_t runs = 0, missed = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        static const size_t dims[] = {2, 3, 5, 10};
        wvgd_model model;
        wvgd_results r;
        assert_int_equal(target_mixture_random(&model, dims[seed % 4], 2 + seed % 4, seed % 2 ? 3 : 12, seed), 0);
        wvgd_fit *fit = fitted(&model, 4, WVGD_MAHALANOBIS, seed, &r);
        double sum = 0;
        for (size_t j = 0; j < r.N; j++)
            sum += r.beta[j];
        assert_near(sum, 1, 1e-9);
        assert_true(r.evaluations < 10000); /* up to 7000 starts, of which most end at once, look for narrow modes */
        above = fmax(above, (r.pelbo.value) / fmax(r.pelbo.se, 1e-4));
        runs++;
        if (fabs(r.evidence.value) > 0.05) /* a mode was missed: no finite number of starts finds all always */
            missed++;
        else
            squares += r.evidence.value * r.evidence.value / (r.evidence.se * r.evidence.se);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    double rms = sqrt(squares / (double)(runs - missed));
    print_message("%zu mixtures: %zu with a mode missed, rms z of the evidence %.2f, bound at most %.2f standard "
                  "errors above it\n",
                  runs, missed, rms, above);
    assert_true(missed <= 1);
    assert_true(rms < 1.6); /* 24 values of chi^2: above with a chance below 1e-4 */
    assert_true(above < 4);
}

/* Lloyd-Max: the optimal quantizers of N(0, 1). With some 600 N draws, and the mixture as control,
 * positions are known to a hundredth. */
static void quantizers_of_the_normal(void **state)
{
    (void)state;
    static const struct {
        size_t N;
        double largest, distortion;
    } truth[] = {{2, 0.7979, 0.3634}, {3, 1.2240, 0.1902}, {4, 1.5104, 0.1175}};
    double mean = 0, cov = 1;
    wvgd_model model;
    assert_int_equal(target_gaussian_cov(&model, 1, &mean, &cov, true), 0);
    for (size_t i = 0; i < 3; i++) {
        wvgd_results r;
        wvgd_fit *fit = fitted(&model, truth[i].N, WVGD_SQEUCLID, 5, &r);
        double largest = -INFINITY, smallest = INFINITY;
        for (size_t j = 0; j < r.N; j++) {
            largest = fmax(largest, r.z[j]);
            smallest = fmin(smallest, r.z[j]);
        }
        assert_near((largest - smallest) / 2, truth[i].largest, 0.03);
        assert_near(largest, truth[i].largest, 0.06);
        assert_near(r.distortion.value, truth[i].distortion, 4 * r.distortion.se);
        /* and again from the draws of that fit, for another number: nothing but the bound's batch is evaluated */
        wvgd_options o;
        wvgd_results again;
        wvgd_error error;
        wvgd_options_init(&o);
        o.particles = 2;
        o.cost = WVGD_SQEUCLID;
        o.seed = 5;
        wvgd_fit *other = wvgd_quantize(fit, &o, &error);
        assert_non_null(other);
        assert_int_equal(wvgd_run(other, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(other, &again);
        assert_near(fabs(again.z[0]), 0.7979, 0.03);
        assert_true(again.evaluations < r.evaluations + 400);
        wvgd_free(other);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* What cannot be relied on is not vouched for, with reasons. */
static double huge(void *self, const double *z, double *grad)
{
    (void)self;
    if (grad)
        grad[0] = -z[0];
    return 1e17 - z[0] * z[0] / 2;
}

static double level(void *self, const double *z, double *grad)
{
    (void)self;
    (void)z;
    if (grad)
        grad[0] = grad[1] = 0;
    return 0;
}

static void unreliable_is_said(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_results r;
    wvgd_options o;
    wvgd_error error;
    assert_int_equal(wvgd_model_pointwise(&model, 1, huge, NULL, true), 0);
    wvgd_fit *fit = fitted(&model, 2, WVGD_MAHALANOBIS, 1, &r);
    assert_false(r.reliable);
    assert_true(r.reasons > 0 && strlen(r.reason[0]) > 20);
    wvgd_free(fit);
    wvgd_model_close(&model);

    /* improper: an error, or no verdict in favour */
    assert_int_equal(wvgd_model_pointwise(&model, 2, level, NULL, true), 0);
    wvgd_options_init(&o);
    fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    if (wvgd_run(fit, NULL, NULL, &error) == WVGD_OK) {
        wvgd_get_results(fit, &r);
        assert_false(r.reliable);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);

    /* without gradients modes are not searched for */
    assert_int_equal(target_gaussian_random(&model, 2, 10, 1, true), 0);
    model.has_gradient = false;
    wvgd_options_init(&o);
    o.estimator = WVGD_SCORE;
    fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(fit, &r);
    assert_false(r.reliable);
    wvgd_free(fit);
    model.has_gradient = true;
    wvgd_model_close(&model);
}

/* Saved and restored after every batch, a run ends with the same bits. */
static void goes_on_from_any_batch(void **state)
{
    (void)state;
    static unsigned char buffer[1 << 26];
    wvgd_model model;
    wvgd_results whole, r;
    wvgd_options o;
    wvgd_error error;
    assert_int_equal(target_banana(&model, 2, 1, 1), 0);
    wvgd_fit *straight = fitted(&model, 3, WVGD_MAHALANOBIS, 9, &whole);
    wvgd_options_init(&o);
    o.particles = 3;
    o.seed = 9;
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    for (int batch = 0; batch < 100000; batch++) {
        wvgd_get_results(fit, &r);
        if (r.stop != WVGD_RUNNING)
            break;
        if (wvgd_step(fit, &error) != WVGD_OK)
            fail_msg("%s", error.text);
        size_t size = wvgd_save_size(fit);
        assert_true(size <= sizeof buffer);
        assert_int_equal(wvgd_save(fit, buffer, size, &error), WVGD_OK);
        if (batch % 7 == 0) { /* a new fit now and then; always would take memory and time for nothing */
            wvgd_free(fit);
            fit = wvgd_new(&model, &o, NULL, &error);
            assert_non_null(fit);
        }
        if (wvgd_restore(fit, buffer, size, &error) != WVGD_OK)
            fail_msg("%s", error.text);
    }
    assert_int_equal(r.evaluations, whole.evaluations);
    assert_true(r.evidence.value == whole.evidence.value && r.pelbo.value == whole.pelbo.value);
    assert_memory_equal(r.z, whole.z, r.N * r.D * sizeof(double));
    assert_memory_equal(r.mean, whole.mean, r.D * sizeof(double));
    wvgd_free(fit);
    wvgd_free(straight);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussians_are_exact),      cmocka_unit_test(mixtures),
        cmocka_unit_test(quantizers_of_the_normal), cmocka_unit_test(unreliable_is_said),
        cmocka_unit_test(goes_on_from_any_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
