/* test_staged.c - the staged solver against known truths: Gaussians of any condition, well-separated mixtures, the
 * same in other units, evidence and bound over many kinds of targets, and calibrated moments. Its draws are few, so
 * what is compared is mostly limited by Monte Carlo error, which each test states. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fitted.h"
#include "ascending.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

/* ---- Gaussians --------------------------------------------------------------------------------------------------- */
/* Condition 1e6, up to a thousand sds away from where the ascents start. The proposal contains the target, so that
 * control variates leave no noise of the evidence but their ridge, and Stein's identities none of the mean: 5e-3 is
 * far above both. Variances: calibrated too, but for the ridge. The bound rests on 300 draws of a component that is
 * itself fitted to noisy draws: a few thousandths. */
static void gaussians(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 5, 20};
    enum { MAX_D = 20 };
    size_t most = 0;
    double worst = 0, worst_bound = 0, worst_mean = 0, worst_sd = 0;
    for (size_t d = 0; d < 3; d++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            size_t D = dims[d];
            double mean[MAX_D], cov[MAX_D * MAX_D];
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(1, seed);
            test_random random = test_random_seed(seed);
            assert_int_equal(target_gaussian_random(&model, D, 1e6, 10 * D + seed, true), 0);
            memcpy(cov, target_truth_of(&model).cov, D * D * sizeof *cov);
            wvgd_model_close(&model);
            for (size_t i = 0; i < D; i++)
                mean[i] = pow(10, (double)seed) * test_random_normal(&random);
            assert_int_equal(target_gaussian_cov(&model, D, mean, cov, false), 0);
            double truth = target_truth_of(&model).log_evidence;
            wvgd_fit *fit = fitted(&model, &o, &r);
            worst = fmax(worst, fabs(r.evidence.value - truth));
            worst_bound = fmax(worst_bound, fabs(r.pelbo.value - truth));
            assert_near(r.pelbo.value, truth, 5e-3 + 4 * r.pelbo.se);
            assert_true(r.reliable && r.modes == 1 && r.components == 1);
            most = r.evaluations > most ? r.evaluations : most;
            /* in twenty dimensions ascents along axes of condition 1e6 take two hundred each */
            assert_true(r.evaluations < (D == 20 ? 5500 : 3000));
            for (size_t i = 0; i < D; i++) {
                double sd = sqrt(cov[i * D + i]);
                assert_near(r.mean[i], mean[i], 5 * r.mcse[i] + 1e-3 * sd);
                worst_mean = fmax(worst_mean, fabs(r.mean[i] - mean[i]) / sd);
                worst_sd = fmax(worst_sd, fabs(sqrt(r.var[i]) / sd - 1));
            }
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
    print_message("Gaussians: evidence within %.2g, PELBO within %.2g, means within %.2g sd, sds within %.2g, at most "
                  "%zu evaluations\n",
                  worst, worst_bound, worst_mean, worst_sd, most);
    assert_true(worst < 5e-3);
    assert_true(worst_bound < 2e-2);
    assert_true(worst_mean < 0.05 && worst_sd < 0.05);
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */
enum { MAX_K = 10, WIDE = 20 };

/* Standard errors between the masses by nearest true mean and the true ones, at most; the standard
 * error is that of a weighted share. */
static double mass_error(const wvgd_fit *fit, size_t D, size_t K, const double *weight, const double *mean)
{
    size_t n;
    const double *x, *w = wvgd_draw_weights(fit);
    double share[MAX_K] = {0}, squares[MAX_K] = {0}, all = 0, worst = 0;
    assert_int_equal(wvgd_draws(fit, &n, &x, NULL, NULL, NULL, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i++) {
        size_t nearest = 0;
        double least = INFINITY;
        for (size_t k = 0; k < K; k++) {
            double d2 = 0;
            for (size_t c = 0; c < D; c++)
                d2 += (x[i * D + c] - mean[k * D + c]) * (x[i * D + c] - mean[k * D + c]);
            if (d2 < least) {
                least = d2;
                nearest = k;
            }
        }
        share[nearest] += w[i];
        squares[nearest] += w[i] * w[i];
        all += w[i] * w[i];
    }
    for (size_t k = 0; k < K; k++) /* sum of w^2 (1_k - share)^2 */
        worst = fmax(worst,
                     fabs(share[k] - weight[k]) / sqrt(squares[k] * (1 - 2 * share[k]) + share[k] * share[k] * all));
    return worst;
}

/* Modes of one size at least 6 of their largest sds apart, so that basins are about equal. No finite number of
 * ascents finds all modes always: one run of the sixteen may miss one. */
static void mixtures(void **state)
{
    (void)state;
    static const size_t dims[] = {2, 5, 10, WIDE}, counts[] = {5, MAX_K};
    static const double boxes[] = {10, 50};
    static double weight[MAX_K], mean[MAX_K * WIDE], cov[MAX_K * WIDE * WIDE];
    size_t most = 0, complete = 0, runs = 0;
    double worst = 0;
    for (size_t b = 0; b < 2; b++)
        for (size_t d = 0; d < 4; d++)
            for (size_t k = 0; k < 2; k++) {
                size_t D = dims[d], K = counts[k];
                wvgd_model model;
                wvgd_results r;
                wvgd_options o = staged_options(2, b + 1);
                target_separated(D, K, boxes[b], D == 2 && b == 0 ? 5 : 6, 100 * D + K, weight, mean, cov);
                assert_int_equal(target_mixture(&model, D, K, weight, mean, cov), 0);
                wvgd_fit *fit = fitted(&model, &o, &r);
                runs++;
                most = r.evaluations > most ? r.evaluations : most;
                if (r.modes == K && r.components >= K) {
                    complete++;
                    worst = fmax(worst, fabs(r.evidence.value));
                    if (!(mass_error(fit, D, K, weight, mean) < 5))
                        fail_msg("D = %zu, K = %zu, box %g: masses of modes are %g standard errors off", D, K, boxes[b],
                                 mass_error(fit, D, K, weight, mean));
                } else
                    print_message("D = %zu, K = %zu, box %g: %zu modes, evidence %.4f, %s\n", D, K, boxes[b], r.modes,
                                  r.evidence.value, r.reliable ? "said to be reliable" : "doubted");
                assert_true(r.pelbo.value < 3 * r.pelbo.se + 1e-6);
                wvgd_free(fit);
                wvgd_model_close(&model);
            }
    print_message("mixtures: all modes in %zu of %zu runs, evidence there within %.2g, at most %zu evaluations\n",
                  complete, runs, worst, most);
    assert_true(complete + 1 >= runs);
    assert_true(worst < 0.02);
    assert_true(most <= 10000);
}

/* ---- units ------------------------------------------------------------------------------------------------------- */
/* The same mixture with axes scaled by 10^U(-6, 6), and sheared along random axes with condition 1e6: as
 * good, at most twice the evaluations. */
static void units(void **state)
{
    (void)state;
    enum { D = 5, K = 4 };
    size_t plain = 0;
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int way = 0; way < 3; way++) {
            double weight[K], mean[K * D], cov[K * D * D], A[D * D] = {0};
            test_random random = test_random_seed(40 + seed);
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(3, seed);
            target_separated(D, K, 10, 8, seed, weight, mean, cov);
            for (size_t i = 0; i < D; i++)
                A[i * D + i] = way == 1 ? pow(10, 12 * test_random_uniform(&random) - 6) : 1;
            if (way == 2) {
                /* a symmetric matrix with random axes */
                assert_int_equal(target_gaussian_random(&model, D, 1e6, seed, true), 0);
                memcpy(A, target_truth_of(&model).cov, sizeof A);
                wvgd_model_close(&model);
            }
            target_transform(D, K, A, mean, cov);
            assert_int_equal(target_mixture(&model, D, K, weight, mean, cov), 0);
            wvgd_fit *fit = fitted(&model, &o, &r);
            if (way == 0)
                plain = r.evaluations;
            bool doubted = false; /* three cells for four modes: the ensemble is no good, and nothing else is said */
            for (size_t i = 0; !r.reliable && i < r.reasons; i++)
                doubted |= !strstr(r.reason[i], "ensemble");
            if (r.modes != K || !(fabs(r.evidence.value) < 5e-3) || r.evaluations > 2 * plain || doubted)
                fail_msg("way %d, seed %d: %zu modes, evidence %g, %zu evaluations where %zu do in other units", way,
                         (int)seed, r.modes, r.evidence.value, r.evaluations, plain);
            if (way < 2)
                assert_near(r.pelbo.value, 0, 0.5); /* three cells for four modes lose a part of one */
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

/* ---- evidence and bound ------------------------------------------------------------------------------------------ */
/* A target of kind i % 4, in one to four dimensions: Student-t's, bananas, log-gamma variables,
 * overlapping Gaussians. */
static void make(wvgd_model *model, size_t i)
{
    size_t D = 1 + i / 4 % 4, K = 1 + i % 3;
    double bend = 0.1 + 0.02 * (double)i / 4, weight[2] = {0.4, 0.6}, mean[8], scale[32] = {0}, shape[4];
    for (size_t d = 0; d < D; d++) {
        mean[d] = -1;
        mean[D + d] = 1 + 0.02 * (double)i;
        scale[d * D + d] = 0.5;
        scale[D * D + d * D + d] = 1;
        shape[d] = 2 + (double)((i + d) % 5);
    }
    int failed = i % 4 == 0   ? target_student_mixture(model, D, 1 + i / 4 % 2, 5, weight, mean, scale)
                 : i % 4 == 1 ? target_banana(model, D < 2 ? 2 : D, 1, bend)
                 : i % 4 == 2 ? target_log_gamma(model, D, shape)
                              : target_mixture_random(model, D, 1 + K, 1.5, i);
    assert_int_equal(failed, 0);
}

/* z-scores of the evidence over 60 fits: of 60, their root mean square has a standard error of 9 %; the standard
 * errors include allowances for what draws cannot show, and those of mixtures that the proposal contains are nothing
 * else, so it may be as low as a half. No bound is more than 3 of its standard errors above the truth. */
static void evidence_and_bound(void **state)
{
    (void)state;
    enum { FITS = 60 };
    double squares = 0, worst = 0, above = -INFINITY;
    size_t most = 0, reliable = 0, counted = 0;
    for (size_t i = 0; i < FITS; i++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(1 + i / 2 % 3, i + 1);
        make(&model, i);
        double truth = target_truth_of(&model).log_evidence;
        wvgd_fit *fit = fitted(&model, &o, &r);
        double z = (r.evidence.value - truth) / r.evidence.se;
        if (!(fabs(z) < 4))
            print_message("fit %zu: evidence %.4f +- %.4f, true %.4f, %s\n", i, r.evidence.value, r.evidence.se, truth,
                          r.reliable ? "said to be reliable" : "doubted");
        if (r.evidence.se > 2e-4) {
            squares += z * z;
            counted++;
        }
        worst = fmax(worst, fabs(z));
        above = fmax(above, (r.pelbo.value - truth - 1e-6) / r.pelbo.se);
        assert_true(r.evidence.se < 0.05);
        most = r.evaluations > most ? r.evaluations : most;
        reliable += r.reliable;
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    double rms = sqrt(squares / (double)counted);
    print_message("evidence of %d fits: z-scores have root mean square %.2f (%zu), at most %.1f; bounds at most %.1f "
                  "standard errors above the truth; at most %zu evaluations; %zu reliable\n",
                  FITS, rms, counted, worst, above, most, reliable);
    assert_true(counted > FITS / 2);
    assert_true(rms > 0.5 && rms < 1.6);
    assert_true(worst < 5);
    assert_true(above < 3);
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* Means of log-gamma variables, which Stein's identities know much better than the draws do: within 5
 * of their standard errors, z-scores about 1; standard errors smaller than without calibration (where
 * they are sd / sqrt(ess)) and variances within 5 of the standard error that plain weights would have
 * (fourth moments are below 8 var^2). */
static void moments(void **state)
{
    (void)state;
    static const double shapes[] = {1, 4, 12};
    double squares = 0, worst = 0, gain = 0, worst_var = 0;
    size_t count = 0;
    for (size_t k = 0; k < 3; k++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            enum { D = 3 };
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(1, seed);
            assert_int_equal(target_log_gamma(&model, D, (const double[]){shapes[k], shapes[k], shapes[k]}), 0);
            target_truth truth = target_truth_of(&model);
            wvgd_fit *fit = fitted(&model, &o, &r);
            for (size_t i = 0; i < D; i++) {
                double z = (r.mean[i] - truth.mean[i]) / r.mcse[i], var = truth.cov[i * (D + 1)];
                squares += z * z;
                worst = fmax(worst, fabs(z));
                gain += log(sqrt(var / r.ess) / r.mcse[i]);
                worst_var = fmax(worst_var, fabs(r.var[i] / var - 1) / sqrt(7 / r.ess));
                count++;
            }
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
    double rms = sqrt(squares / (double)count);
    print_message("moments: %zu z-scores of means with root mean square %.2f, at most %.1f; standard errors %.0f times "
                  "smaller than without calibration; variances at most %.1f plain standard errors off\n",
                  count, rms, worst, exp(gain / (double)count), worst_var);
    assert_true(worst < 5);
    assert_true(rms > 0.4 && rms < 1.6);
    assert_true(exp(gain / (double)count) > 2);
    assert_true(worst_var < 5);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* A final batch that has to be extended, several times over, is extended by draws that it does not have yet: no two
 * closing draws are alike (of 50,000 random doubles two are, with a chance of 1e-6). And its standard error is true:
 * over ten seeds the z-scores have a root mean square of 1 to within 4 / sqrt(20). */
static void fresh_draws(void **state)
{
    (void)state;
    enum { SEEDS = 10, D = 3 };
    double squares = 0;
    size_t most = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(1, seed);
        o.evidence_se = 0.006;
        o.components = 1;
        o.finish = WVGD_FINISH_NEVER; /* states of chains repeat */
        assert_int_equal(target_log_gamma(&model, D, (const double[]){1, 1, 1}), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        double z = (r.evidence.value - target_truth_of(&model).log_evidence) / r.evidence.se;
        squares += z * z;
        size_t n, alike = 0;
        const double *x;
        assert_int_equal(wvgd_draws(fit, &n, &x, NULL, NULL, NULL, NULL), WVGD_OK);
        double *first = malloc(n * sizeof *first);
        assert_non_null(first);
        for (size_t i = 0; i < n; i++)
            first[i] = x[i * D];
        qsort(first, n, sizeof *first, ascending);
        for (size_t i = 1; i < n; i++)
            alike += first[i] == first[i - 1];
        assert_int_equal(alike, 0);
        most = n > most ? n : most;
        free(first);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("draws: up to %zu, no two alike; z-scores of the evidence have root mean square %.2f\n", most,
                  sqrt(squares / SEEDS));
    assert_true(most > 2 * 4096);
    assert_true(sqrt(squares / SEEDS) < 1 + 4 / sqrt(2 * SEEDS));
}

/* ---- tails ------------------------------------------------------------------------------------------------------- */
static double rosenbrock(void *self, const double *z, double *grad)
{
    (void)self;
    double a = 1 - z[0], b = z[1] - z[0] * z[0];
    if (grad) {
        grad[0] = a + 200 * z[0] * b;
        grad[1] = -100 * b;
    }
    return -0.5 * (a * a + 100 * b * b);
}

/* Rosenbrock's density, whose evidence is 2 pi / 10. Importance sampling that has not seen the ends of the
 * valley is low, by 0.024 on average without the walks from the ends of the mixture. The mean of six z of
 * variance about 1 lies within 4 / sqrt(6); that of six errors, whose standard deviation without what is allowed
 * for tails is about 0.008, within 0.008 times that. */
static void tails(void **state)
{
    (void)state;
    enum { SEEDS = 6 };
    double sum = 0, error = 0, mean = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        assert_int_equal(wvgd_model_pointwise(&model, 2, rosenbrock, NULL, true), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        double off = r.evidence.value - log(2 * acos(-1) / 10);
        sum += off / r.evidence.se;
        mean += off / SEEDS;
        error += fabs(off) / SEEDS;
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("tails: evidence off by %.4f on average, mean z %.2f\n", error, sum / SEEDS);
    assert_true(fabs(sum / SEEDS) < 4 / sqrt(SEEDS));
    assert_true(fabs(mean) < 0.008 * 4 / sqrt(SEEDS));
    assert_true(error < 0.02);
}

/* A bent heavy mode and a round one of mass *self, both normalised: in four dimensions, at
 * (0, 0, 0, 0) and (0, -8, 0, 4). */
static double bent_and_round(void *self, const double *z, double *grad)
{
    const double P = *(double *)self, c[4] = {0, -8, 0, 4}, variance = 0.49, log_2pi = log(2 * acos(-1));
    double u = z[1] - 0.5 * (z[0] * z[0] - 1), a = log(1 - P) - 2 * log_2pi - 0.5 * z[0] * z[0] - 2 * u * u - log(0.5),
           b = log(P) - 2 * log_2pi - 2 * log(variance);
    a -= 0.5 * (z[2] * z[2] + z[3] * z[3]);
    for (size_t i = 0; i < 4; i++)
        b -= 0.5 * (z[i] - c[i]) * (z[i] - c[i]) / variance;
    double top = fmax(a, b), total = top + log(exp(a - top) + exp(b - top)), in_a = exp(a - total),
           in_b = exp(b - total);
    const double slope[4] = {-z[0] + 4 * u * z[0], -4 * u, -z[2], -z[3]};
    for (size_t i = 0; grad && i < 4; i++)
        grad[i] = in_a * slope[i] - in_b * (z[i] - c[i]) / variance;
    return total;
}

/* A mode of one percent of the mass, once found, is not lost while the mixture grows for the other, nor do tails
 * stay unseen because there are two modes: log evidences are not low on average. */
static void light_modes(void **state)
{
    (void)state;
    static const struct {
        double mass;
        uint64_t seeds;
    } cases[] = {{0.006, 15}, {0.012, 15}, {0.3, 60}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double mass = cases[c].mass, sum = 0, squares = 0, of_mass = 0, n = (double)cases[c].seeds, worst = 0;
        for (uint64_t seed = 1; seed <= cases[c].seeds; seed++) {
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(5, seed);
            assert_int_equal(wvgd_model_pointwise(&model, 4, bent_and_round, &mass, true), 0);
            wvgd_fit *fit = fitted(&model, &o, &r);
            size_t draws;
            const double *x;
            assert_int_equal(wvgd_draws(fit, &draws, &x, NULL, NULL, NULL, NULL), WVGD_OK);
            double *in = malloc(draws * sizeof *in), here, var, se, z = r.evidence.value / r.evidence.se;
            assert_non_null(in);
            for (size_t i = 0; i < draws; i++)
                in[i] = x[4 * i + 1] < -4 && x[4 * i + 3] > 1.5 ? 1 : 0;
            assert_int_equal(wvgd_expect(fit, 1, in, &here, &var, &se, NULL), WVGD_OK);
            if (here < mass / 3 || fabs(here - mass) > (mass < 0.01 ? 2 * mass : 6 * se + 0.01 * mass))
                fail_msg("seed %d: %g +- %g instead of %g", (int)seed, here, se, mass);
            worst = fmax(worst, fabs(here / mass - 1));
            of_mass += (here - mass) * (here - mass) / (se * se);
            sum += z;
            squares += z * z;
            free(in);
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
        print_message("a mode of mass %g: within %.2g of it, z-scores with root mean square %.2f; z-scores of the "
                      "evidence have mean %.2f, root mean square %.2f\n",
                      mass, worst, sqrt(of_mass / n), sum / n, sqrt(squares / n));
        assert_true(fabs(sum / n) < 4 / sqrt(n));
        /* standard errors are those of the masses */
        assert_true(mass < 0.01 || (sqrt(of_mass / n) > 0.5 && sqrt(of_mass / n) < 1.7));
    }
}

/* Modes that are too light to count are no modes of the results, whatever was found first; points belong to the
 * one that is most of the posterior there. */
static void points_belong_to_modes(void **state)
{
    (void)state;
    enum { K = 3, POINTS = 400 };
    static const double weight[K] = {0.05, 0.949, 0.001}, mean[K * 2] = {-4, 0, 4, 0, 0, 12},
                        cov[K * 4] = {2.25, 0, 0, 2.25, 4, 0, 0, 4, 1, 0, 0, 1};
    for (uint64_t seed = 1; seed <= 8; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(4, seed);
        size_t mode[POINTS], light = SIZE_MAX;
        double x[POINTS * 2];
        assert_int_equal(target_mixture(&model, 2, K, weight, mean, cov), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_int_equal(r.modes, 2);
        for (size_t m = 0; m < 2; m++) {
            assert_near(fabs(r.mode[2 * m]), 4, 1);
            assert_near(r.mode[2 * m + 1], 0, 1);
            light = r.mode[2 * m] < 0 ? m : light;
        }
        assert_true(light < 2 && r.mode[2 * light] * r.mode[2 * (1 - light)] < 0);
        for (size_t i = 0; i < POINTS; i++) {
            x[2 * i] = -9 + 0.04 * (double)i;
            x[2 * i + 1] = (double)(i % 7) - 3;
        }
        assert_int_equal(wvgd_mode(fit, POINTS, x, mode, NULL), WVGD_OK);
        /* one fit in ten of the light mode leans over to the other */
        for (size_t i = 0; i < POINTS && r.mode[2 * light] < -3.5; i++) {
            double u = x[2 * i], v = x[2 * i + 1], left = log(0.05 / 2.25) - 0.5 / 2.25 * ((u + 4) * (u + 4) + v * v),
                   right = log(0.949 / 4) - 0.125 * ((u - 4) * (u - 4) + v * v);
            if (fabs(left - right) > 1.5 && (mode[i] == light) != (left > right))
                fail_msg("seed %d: (%g, %g) is in the mode at %g", (int)seed, u, v, r.mode[2 * mode[i]]);
        }
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* Functions that do not vary, or are no number at a draw of weight, have the moments that they must have, and
 * do not touch those of others beside them. */
static void odd_functions(const wvgd_fit *fit, size_t n, size_t D, const double *x)
{
    enum { M = 5 };
    const double *log_w;
    double *value = malloc(n * (M + 2) * sizeof *value), *alone = value + n * M, m[M], var[M], mcse[M], m2[2], var2[2],
           mcse2[2];
    assert_non_null(value);
    assert_int_equal(wvgd_draws(fit, NULL, NULL, NULL, &log_w, NULL, NULL), WVGD_OK);
    size_t heaviest = 0;
    for (size_t i = 1; i < n; i++)
        heaviest = log_w[i] > log_w[heaviest] ? i : heaviest;
    for (size_t i = 0; i < n; i++) {
        const double *here = x + i * D;
        double row[M] = {here[0], 7.25, here[0] * here[1], i == heaviest ? NAN : here[1], -3};
        memcpy(value + i * M, row, sizeof row);
        alone[2 * i] = row[0];
        alone[2 * i + 1] = row[2];
    }
    assert_int_equal(wvgd_expect(fit, M, value, m, var, mcse, NULL), WVGD_OK);
    assert_int_equal(wvgd_expect(fit, 2, alone, m2, var2, mcse2, NULL), WVGD_OK);
    for (size_t k = 0; k < 2; k++) {
        assert_near(m[2 * k], m2[k], 1e-9 * mcse2[k]);
        assert_near(var[2 * k], var2[k], 1e-9 * var2[k]);
        assert_near(mcse[2 * k], mcse2[k], 1e-9 * mcse2[k]);
    }
    assert_true(m[1] == 7.25 && m[4] == -3 && var[1] == 0 && var[4] == 0 && mcse[1] == 0 && mcse[4] == 0);
    assert_true(isnan(m[3]) && isnan(var[3]) && isnan(mcse[3]));
    free(value);
}

/* Masses of modes that lie apart are the weights of the mixture, and points belong to the mode
 * that they are near to. */
static void check_masses(const wvgd_fit *fit, const wvgd_results *r, const double *weight, const double *mean, size_t n,
                         const double *x)
{
    size_t K = r->modes, D = r->D, *mode = malloc((n + K) * sizeof *mode);
    double *value = calloc(n * K + 3 * K, sizeof *value), *mass = value + n * K, *var = mass + K, *se = var + K;
    assert_true(mode && value);
    assert_int_equal(wvgd_mode(fit, n, x, mode, NULL), WVGD_OK);
    assert_int_equal(wvgd_mode(fit, K, r->mode, mode + n, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i++)
        value[i * K + mode[i]] = 1;
    assert_int_equal(wvgd_expect(fit, K, value, mass, var, se, NULL), WVGD_OK);
    for (size_t m = 0; m < K && K == 3; m++) {
        size_t best = 0;
        double least = INFINITY;
        for (size_t k = 0; k < K; k++) {
            double d = 0;
            for (size_t i = 0; i < D; i++)
                d += (mean[k * D + i] - r->mode[m * D + i]) * (mean[k * D + i] - r->mode[m * D + i]);
            best = d < least ? k : best;
            least = fmin(least, d);
        }
        assert_int_equal(mode[n + m], m);
        assert_near(mass[m], weight[best], 6 * se[m] + 1e-6);
        assert_true(se[m] < 0.02);
    }
    free(mode);
    free(value);
}

/* Moments of modes that lie apart: the mixture is the posterior, and what it knows, and what mirrored pairs have
 * settled, is not disturbed. Standard errors say so, and cover: those of independent draws would be sd / sqrt(n).
 * Functions of the parameters have the same: linear ones to rounding, squares as good as the variances. */
static void moments_of_modes(void **state)
{
    (void)state;
    enum { D = 6, K = 3 };
    static double weight[K], mean[K * D], cov[K * D * D];
    double worst = 0, worst_z = 0, largest = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(3, seed);
        target_separated(D, K, 10, 8, seed, weight, mean, cov);
        assert_int_equal(target_mixture(&model, D, K, weight, mean, cov), 0);
        target_truth truth = target_truth_of(&model);
        wvgd_fit *fit = fitted(&model, &o, &r);
        size_t n;
        const double *x, *w = wvgd_draw_weights(fit);
        assert_int_equal(wvgd_draws(fit, &n, &x, NULL, NULL, NULL, NULL), WVGD_OK);
        double *value = malloc(n * 2 * D * sizeof *value), m[2 * D], var[2 * D], mcse[2 * D], sum = 0;
        assert_non_null(value);
        for (size_t i = 0; i < n * D; i++) {
            value[i / D * 2 * D + i % D] = 3 - 2 * x[i];
            value[i / D * 2 * D + D + i % D] = x[i] * x[i];
        }
        assert_int_equal(wvgd_expect(fit, 2 * D, value, m, var, mcse, NULL), WVGD_OK);
        for (size_t i = 0; i < n; i++)
            sum += w[i];
        assert_near(sum, 1, 1e-9);
        for (size_t i = 0; r.modes == K && i < D; i++) { /* a mode that was missed is another matter */
            double sd = sqrt(truth.cov[i * (D + 1)]), square = truth.cov[i * (D + 1)] + truth.mean[i] * truth.mean[i],
                   by_weights = 0;
            worst = fmax(worst, fabs(r.mean[i] - truth.mean[i]) / sd);
            worst_z = fmax(worst_z, fabs(r.mean[i] - truth.mean[i]) / r.mcse[i]);
            largest = fmax(largest, r.mcse[i] / sd * sqrt((double)n));
            assert_near(m[i], 3 - 2 * r.mean[i], 1e-9 * (1 + fabs(m[i])));
            assert_near(var[i], 4 * r.var[i], 1e-6 * var[i]);
            assert_near(mcse[i], 2 * r.mcse[i], 1e-3 * mcse[i]);
            assert_near(m[D + i], square, 6 * mcse[D + i]);
            for (size_t k = 0; k < n; k++)
                by_weights += w[k] * x[k * D + i];
            assert_near(by_weights, r.mean[i], 1e-9 * (1 + fabs(r.mean[i])));
        }
        free(value);
        if (r.modes == K)
            odd_functions(fit, n, D, x);
        check_masses(fit, &r, weight, mean, n, x);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("modes apart: means within %.2g sd and %.1f standard errors, which are at most %.2g of those of "
                  "independent draws\n",
                  worst, worst_z, largest);
    assert_true(worst < 0.005);
    assert_true(worst_z < 6);
    assert_true(largest < 0.2);
}

/* ---- skewed weights ---------------------------------------------------------------------------------------------- */
enum { BETAS = 5 };

typedef struct {
    double a[BETAS], b[BETAS];
} betas;

/* Logits of beta variates, log evidence 0. */
static int logit_betas(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const betas *t = self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t k = 0; k < BETAS; k++) {
            double x = z[i * BETAS + k], a = t->a[k], b = t->b[k], log_1 = x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
            log_p[i] += a * x - (a + b) * log_1 + lgamma(a + b) - lgamma(a) - lgamma(b);
            if (grad)
                grad[i * BETAS + k] = a - (a + b) / (1 + exp(-x));
        }
    }
    return 0;
}

/* Their tails are longer than a Gaussian's. Estimates that are low because no large weight was drawn must not have
 * small errors: of a hundred z-scores, whose root mean square is known to 7 %, it is below 1, and one at most is
 * beyond 3. */
static void errors_of_skewed_weights(void **state)
{
    enum { SEEDS = 200 };
    const double rms_error = 0.05;
    double squares = 0;
    size_t beyond = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        betas t;
        wvgd_model m = {.name = "test", .self = &t, .dim = BETAS, .log_density = logit_betas, .has_gradient = true};
        wvgd_options o;
        wvgd_results r;
        test_random random = test_random_seed(seed);
        for (size_t k = 0; k < BETAS; k++) {
            t.a[k] = 0.5 + 5.5 * test_random_uniform(&random);
            t.b[k] = 0.5 + 5.5 * test_random_uniform(&random);
        }
        wvgd_options_init(&o);
        o.seed = seed;
        wvgd_free(fitted(&m, &o, &r));
        double z = r.evidence.value / r.evidence.se;
        squares += z * z;
        beyond += fabs(z) > 3;
    }
    printf("skewed weights: rms z of evidence %.2f, %zu of %d beyond 3\n", sqrt(squares / SEEDS), beyond, SEEDS);
    assert_true(sqrt(squares / SEEDS) < 1 + 3 * rms_error);
    assert_true(beyond <= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussians),
        cmocka_unit_test(mixtures),
        cmocka_unit_test(units),
        cmocka_unit_test(evidence_and_bound),
        cmocka_unit_test(moments),
        cmocka_unit_test(moments_of_modes),
        cmocka_unit_test(light_modes),
        cmocka_unit_test(points_belong_to_modes),
        cmocka_unit_test(fresh_draws),
        cmocka_unit_test(tails),
        cmocka_unit_test(errors_of_skewed_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
