/* test_differences.c - models without gradients. The part itself: gradients of functions that are known, steps by scale
 * and noise, walls, plateaus. Then whole fits against known evidence, what they ask for, what they count, and that they
 * are the same bits when saved and restored and with any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinates/differences.h"
#include "support/fitted.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { D = 4, POINTS = 12 };

/* ---- the part ---------------------------------------------------------------------------------------------------- */
typedef double density(const double *x);

static const double sd[D] = {1e-3, 1, 50, 1e4};

/* Gaussian, but for a third derivative. */
static double smooth(const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++) {
        double y = x[i] / sd[i];
        sum -= y * y / 2 + y * y * y / 20;
    }
    return sum + x[0] / sd[0] * x[1] / sd[1] / 3;
}

static double smooth_slope(const double *x, size_t i)
{
    double y = x[i] / sd[i], other = i < 2 ? x[1 - i] / sd[1 - i] / 3 : 0;
    return (-y - 3 * y * y / 20 + other) / sd[i];
}

static double noise_level;
static uint64_t noise_count;
static double noisy(const double *x)
{
    test_random random = test_random_seed(++noise_count);
    return smooth(x) + noise_level * test_random_normal(&random);
}

static double walled(const double *x)
{
    return x[1] > 0.5 * sd[1] ? -INFINITY : smooth(x);
}

static double stepped(const double *x)
{
    double y[D];
    for (size_t i = 0; i < D; i++)
        y[i] = sd[i] * floor(100 * x[i] / sd[i]) / 100;
    return smooth(y);
}

/* Asks until the steps are right: points, log densities and gradients of the last stencil. Returns the number of
 * stencils. */
static int settle(wv_differences *d, density *f, const double *x, bool learn, double *log_p, double *grad)
{
    for (int times = 1;; times++) {
        wv_differences_expand(d, POINTS, x, learn);
        assert_true(d->n <= POINTS * (2 * D + 2));
        double *told = malloc(d->n * sizeof *told);
        for (size_t k = 0; k < d->n; k++)
            told[k] = f(d->x + k * D);
        bool good = wv_differences_collapse(d, told, log_p, grad);
        free(told);
        assert_int_equal(d->n, 0);
        if (good)
            return times;
    }
}

static void random_points(double *x)
{
    test_random random = test_random_seed(1);
    for (size_t k = 0; k < POINTS * D; k++)
        x[k] = sd[k % D] * test_random_normal(&random);
}

/* Largest error of a slope, in units of 1 / sd. */
static double worst_slope(const double *x, const double *grad)
{
    double worst = 0;
    for (size_t k = 0; k < POINTS * D; k++)
        worst = fmax(worst, fabs(grad[k] - smooth_slope(x + k / D * D, k % D)) * sd[k % D]);
    return worst;
}

/* Scales of 1e-3 to 50 are learned. The error of a difference with the best step is about (3 e)^(2/3) / 2 scales, less
 * than 1e-8 with rounding; where the scale is 1e4 and the step that of 1, whose differences tell the slope well
 * enough, 1e-15 / 1e-5 times 1e4. */
static void slopes_are_those_of_the_density(void **state)
{
    (void)state;
    wv_differences d;
    double x[POINTS * D], log_p[POINTS], grad[POINTS * D];
    random_points(x);
    assert_true(wv_differences_new(&d, D, POINTS));
    for (int round = 0; round < 3; round++)
        settle(&d, smooth, x, true, log_p, grad);
    assert_true(worst_slope(x, grad) < 4e-6);
    for (size_t i = 0; i < 3; i++)
        assert_true(d.scale[i] > sd[i] / 3 && d.scale[i] < 3 * sd[i]);
    for (size_t k = 0; k < POINTS; k++)
        assert_true(log_p[k] == smooth(x + k * D));
    wv_differences_free(&d);
}

/* Noise is measured to a factor of two (sixteen measurements), steps grow by its cube root, and slopes have errors of
 * that order: four times (e / h) for the largest of 48. */
static void steps_follow_the_noise(void **state)
{
    (void)state;
    for (noise_level = 1e-9; noise_level < 0.05; noise_level *= 100) {
        wv_differences d;
        double x[POINTS * D], log_p[POINTS], grad[POINTS * D];
        random_points(x);
        assert_true(wv_differences_new(&d, D, POINTS));
        wv_differences_set_scale(&d, sd);
        for (int round = 0; round < 5; round++)
            settle(&d, noisy, x, false, log_p, grad);
        double found = wv_differences_noise(&d), best = cbrt(3 * noise_level);
        assert_true(found > noise_level / 2.5 && found < 2.5 * noise_level);
        assert_true(wv_differences_longest(&d) > 0.6 * best && wv_differences_longest(&d) < 1.6 * best);
        assert_true(worst_slope(x, grad) < 8 * noise_level / best + best * best);
        wv_differences_free(&d);
    }
}

/* Where scales are known and noise is that of rounding, D + 1 values a point and three for each probe give
 * slopes to 1e-5. Noise, scales that are to be learned, and plateaus bring the other side back. */
static void one_side_where_values_are_exact(void **state)
{
    (void)state;
    wv_differences d;
    double x[POINTS * D], log_p[POINTS], grad[POINTS * D];
    random_points(x);
    assert_true(wv_differences_new(&d, D, POINTS));
    wv_differences_set_scale(&d, sd);
    settle(&d, smooth, x, false, log_p, grad);
    assert_int_equal(d.sides, 2); /* nothing is known of the noise yet */
    for (int round = 0; round < 3; round++) {
        assert_int_equal(settle(&d, smooth, x, false, log_p, grad), 1);
        assert_int_equal(d.sides, 1);
        assert_true(worst_slope(x, grad) < 1e-5);
        assert_true(wv_differences_noise(&d) < 1e-13);
    }
    wv_differences_expand(&d, POINTS, x, false);
    assert_int_equal(d.n, POINTS * (D + 1) + 3); /* noise is known: one probe a batch */
    wv_differences_leave(&d);
    settle(&d, smooth, x, true, log_p, grad);
    assert_int_equal(d.sides, 2);
    wv_differences_set_scale(&d, sd);
    settle(&d, stepped, x, false, log_p, grad); /* from one side; so few points may be tops */
    assert_true(settle(&d, stepped, x, false, log_p, grad) > 1);
    assert_int_equal(d.sides, 2);
    wv_differences_free(&d);
    assert_true(wv_differences_new(&d, D, POINTS));
    wv_differences_set_scale(&d, sd);
    for (noise_level = 1e-9, noise_count = 0; noise_count < 2000;)
        settle(&d, noisy, x, false, log_p, grad);
    assert_int_equal(d.sides, 2);
    wv_differences_free(&d);
}

/* Beside a wall the slope is that of the side with density; a first-order error of less than a step, 2e-4. */
static void one_side_at_a_wall(void **state)
{
    (void)state;
    wv_differences d;
    double x[POINTS * D], log_p[POINTS], grad[POINTS * D];
    random_points(x);
    for (size_t k = 0; k < POINTS; k++)
        x[k * D + 1] = k % 2 ? 0.5 * sd[1] * (1 - 1e-9) : 0.2;
    x[1] = sd[1]; /* no density */
    assert_true(wv_differences_new(&d, D, POINTS));
    wv_differences_set_scale(&d, sd);
    settle(&d, walled, x, false, log_p, grad);
    assert_true(log_p[0] == -INFINITY);
    for (size_t i = 0; i < D; i++)
        assert_true(grad[i] == 0);
    for (size_t i = 0; i < D; i++) /* the others are compared with the function as it is */
        grad[i] = smooth_slope(x, i);
    assert_true(worst_slope(x, grad) < 2e-4);
    wv_differences_free(&d);
}

/* At tops differences from one side vanish: both sides tell that these are no plateaus. */
static void tops_are_no_plateaus(void **state)
{
    (void)state;
    wv_differences d;
    double x[POINTS * D] = {0}, others[POINTS * D], log_p[POINTS], grad[POINTS * D];
    random_points(others);
    assert_true(wv_differences_new(&d, D, POINTS));
    wv_differences_set_scale(&d, sd);
    settle(&d, smooth, others, false, log_p, grad);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(settle(&d, smooth, x, false, log_p, grad), 1); /* x: the top */
        assert_int_equal(d.sides, 1);
        assert_int_equal(settle(&d, smooth, x, false, log_p, grad), 1);
        assert_int_equal(d.sides, 2);
    }
    assert_true(wv_differences_exact(&d));
    assert_int_equal(d.repeats, 0);
    wv_differences_free(&d);
}

/* On plateaus of sd/100 steps grow until they reach beyond: slopes are right to a tenth, where short steps say 0. */
static void steps_reach_over_plateaus(void **state)
{
    (void)state;
    wv_differences d;
    double x[POINTS * D], log_p[POINTS], grad[POINTS * D];
    random_points(x);
    assert_true(wv_differences_new(&d, D, POINTS));
    wv_differences_set_scale(&d, sd);
    for (int round = 0; round < 8; round++)
        settle(&d, stepped, x, false, log_p, grad);
    assert_true(worst_slope(x, grad) < 0.3);
    wv_differences_free(&d);
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */
static wvgd_model blind(wvgd_model model)
{
    model.has_gradient = false;
    return model;
}

static int banana(wvgd_model *m)
{
    return target_banana(m, 3, 2, 0.3);
}
static int gaussian(wvgd_model *m)
{
    return target_gaussian_random(m, 6, 1e6, 2, true);
}
static int line(wvgd_model *m)
{
    const double weight[] = {0.3, 0.7}, mean[] = {-4, 3}, width[] = {1, 0.5};
    return target_mixture_1d(m, 2, weight, mean, width);
}
static int two(wvgd_model *m)
{
    double weight[2], mean[8], cov[32];
    target_separated(4, 2, 10, 8, 1, weight, mean, cov);
    return target_mixture(m, 4, 2, weight, mean, cov);
}

static int (*const makers[])(wvgd_model *) = {banana, gaussian, line, two};

/* Evidence within its error, the same modes, and at most 2D + 2 times the evaluations with gradients. */
static void fits_are_as_good(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof makers / sizeof *makers; t++)
        for (uint64_t seed = 3; seed <= 4; seed++) {
            wvgd_model model;
            wvgd_results with, without;
            assert_int_equal(makers[t](&model), 0);
            wvgd_model hidden = blind(model);
            wvgd_options o = staged_options(2, seed);
            o.most_particles = 80; /* as in the program */
            wvgd_fit *a = fitted(&model, &o, &with), *b = fitted(&hidden, &o, &without);
            double truth = target_truth_of(&model).log_evidence;
            assert_int_equal(without.solver, WVGD_STAGED);
            assert_int_equal(without.reliable, with.reliable);
            assert_int_equal(without.modes, with.modes);
            assert_near(without.evidence.value, truth, 4 * without.evidence.se);
            assert_true(without.evaluations <= (2 * model.dim + 2) * with.evaluations);
            if (without.modes > 1) /* most starts need no gradient */
                assert_true(2 * without.evaluations <= (model.dim + 2) * with.evaluations);
            for (size_t i = 0; i < model.dim && target_truth_of(&model).mean; i++)
                assert_near(without.mean[i], target_truth_of(&model).mean[i],
                            5 * without.mcse[i] + 1e-3 * sqrt(without.var[i]));
            wvgd_free(a);
            wvgd_free(b);
            wvgd_model_close(&model);
        }
}

/* Three Gaussians with noise of 0.02 nats, which is not a function of the point. */
static wvgd_model three;
static double noisy_three(void *self, const double *z, double *grad)
{
    double value;
    test_random random = test_random_seed(++noise_count);
    (void)self;
    (void)grad;
    assert_int_equal(three.log_density(three.self, 1, z, &value, NULL), 0);
    return value + 0.02 * test_random_normal(&random);
}

/* Noise does not keep ascents from their ends, which would leave too few evaluations for starts. */
static void modes_are_found_in_noise(void **state)
{
    (void)state;
    wvgd_model model;
    noise_count = 0;
    assert_int_equal(target_mixture_random(&three, 2, 3, 4, 7), 0);
    assert_int_equal(wvgd_model_pointwise(&model, 2, noisy_three, NULL, false), 0);
    for (uint64_t seed = 1; seed <= 16; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(3, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_near(r.evidence.value, target_truth_of(&three).log_evidence, fmax(0.05, 4 * r.evidence.se));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
    wvgd_model_close(&three);
}

/* Asks by hand: gradients never, stencils only where they are needed, and all values are counted. */
static void asks_for_values_only(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(banana(&model), 0);
    wvgd_model caller = {.name = "asked by hand", .dim = model.dim};
    wvgd_options o = staged_options(2, 3);
    wvgd_fit *fit = wvgd_new(&caller, &o, NULL, NULL);
    assert_non_null(fit);
    size_t told = 0, n, stencils = 0;
    wvgd_progress p;
    for (;;) {
        const double *z, *again;
        bool gradient = true;
        wvgd_get_progress(fit, &p);
        assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
        if (!n)
            break;
        assert_false(gradient);
        size_t same;
        assert_int_equal(wvgd_ask(fit, &same, &again, &gradient, NULL), WVGD_OK);
        assert_true(same == n && again == z);
        /* the first value beside a stencil's points differs from the first point in its first coordinate alone */
        bool stencil = false;
        for (size_t k = 1; k < n && !stencil; k++)
            stencil = z[k * 3] != z[0] && z[k * 3 + 1] == z[1] && z[k * 3 + 2] == z[2];
        bool without = !strcmp(p.stage, "trial") || !strcmp(p.stage, "close") || !strcmp(p.stage, "bound");
        assert_false(stencil && without);
        stencils += stencil;
        double *log_p = malloc(n * sizeof *log_p);
        assert_int_equal(model.log_density(model.self, n, z, log_p, NULL), 0);
        assert_int_equal(wvgd_tell(fit, log_p, NULL, NULL), WVGD_OK);
        free(log_p);
        told += n;
    }
    wvgd_results r, own;
    wvgd_get_results(fit, &r);
    assert_true(stencils > 5);
    assert_int_equal(r.evaluations, told);
    wvgd_model hidden = blind(model);
    wvgd_fit *same = fitted(&hidden, &o, &own); /* with ask and tell inside: the same */
    assert_true(own.evidence.value == r.evidence.value && own.evaluations == r.evaluations);
    wvgd_free(same);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* A fit that is saved after every batch and restored into another is the same; so is one with two threads. */
static void same_bits(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        wvgd_model model;
        wvgd_results whole, parts, threads;
        assert_int_equal(makers[t](&model), 0);
        wvgd_model hidden = blind(model);
        wvgd_options o = staged_options(2, 7), shared = o;
        shared.threads = 2;
        wvgd_fit *a = fitted(&hidden, &o, &whole), *c = fitted(&hidden, &shared, &threads),
                 *b = wvgd_new(&hidden, &o, NULL, NULL);
        wvgd_progress p;
        for (wvgd_get_progress(b, &p); strcmp(p.stage, "done"); wvgd_get_progress(b, &p)) {
            size_t size = wvgd_save_size(b);
            void *saved = malloc(size);
            assert_int_equal(wvgd_save(b, saved, size, NULL), WVGD_OK);
            wvgd_free(b);
            b = wvgd_new(&hidden, &o, NULL, NULL);
            assert_int_equal(wvgd_restore(b, saved, size, NULL), WVGD_OK);
            free(saved);
            assert_int_equal(wvgd_step(b, NULL), WVGD_OK);
        }
        wvgd_get_results(b, &parts);
        const wvgd_results *others[] = {&parts, &threads};
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(others[i]->evaluations, whole.evaluations);
            assert_memory_equal(&others[i]->evidence, &whole.evidence, sizeof whole.evidence);
            assert_memory_equal(&others[i]->pelbo, &whole.pelbo, sizeof whole.pelbo);
            assert_memory_equal(others[i]->mean, whole.mean, model.dim * sizeof(double));
            assert_memory_equal(others[i]->sd_se, whole.sd_se, model.dim * sizeof(double));
        }
        wvgd_free(a);
        wvgd_free(b);
        wvgd_free(c);
        wvgd_model_close(&model);
    }
}

/* max-evaluations holds for values, not for points. */
static void limits_hold_for_values(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_results r;
    assert_int_equal(gaussian(&model), 0);
    wvgd_model hidden = blind(model);
    wvgd_options o = staged_options(1, 1);
    o.max_evaluations = 1500;
    wvgd_fit *fit = fitted(&hidden, &o, &r);
    assert_true(r.evaluations <= 1500);
    assert_int_equal(r.stop, WVGD_MAX_EVALUATIONS);
    assert_false(r.reliable);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* More dimensions than differences are for, or a solver that does not know them: refused, with what to do. */
static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_model model = {.dim = WVGD_DIFFERENCES + 1};
    wvgd_options o = staged_options(1, 1);
    assert_null(wvgd_new(&model, &o, NULL, &error));
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "--estimator score"));
    model.dim = 2;
    o.solver = WVGD_JOINT;
    assert_null(wvgd_new(&model, &o, NULL, &error));
    o.estimator = WVGD_SCORE;
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    wvgd_free(fit);
}

/* A box of sides 0.2, 2, 20 and 200. */
static double flat(void *self, const double *z, double *grad)
{
    (void)self, (void)grad;
    for (size_t i = 0; i < 4; i++)
        if (fabs(z[i]) > pow(10, (double)i - 1))
            return -INFINITY;
    return -200;
}

/* In four dimensions and more Gaussians do not fill a box: fits took all evaluations that they might. Now they end
 * early and say that limits are missing; with these the box has a shape. */
static void a_flat_box_needs_its_limits(void **state)
{
    (void)state;
    const double high[] = {0.1, 1, 10, 100}, low[] = {-0.1, -1, -10, -100};
    wvgd_model model, bounded;
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    wvgd_options_init(&o);
    assert_int_equal(wvgd_model_pointwise(&model, 4, flat, NULL, false), 0);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_NO_DRAWS);
    assert_non_null(strstr(error.text, "wvgd_model_bounded"));
    wvgd_get_results(fit, &r);
    assert_true(r.evaluations < 30000);
    wvgd_free(fit);
    assert_int_equal(wvgd_model_bounded(&bounded, &model, low, high), 0);
    fit = wvgd_new(&bounded, &o, NULL, &error);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(fit, &r);
    assert_true(r.reliable);
    assert_near(r.evidence.value, -200 + 4 * log(2) + 2 * log(10), fmax(0.05, 4 * r.evidence.se));
    wvgd_free(fit);
    wvgd_model_close(&bounded);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_are_those_of_the_density),
        cmocka_unit_test(steps_follow_the_noise),
        cmocka_unit_test(one_side_where_values_are_exact),
        cmocka_unit_test(one_side_at_a_wall),
        cmocka_unit_test(tops_are_no_plateaus),
        cmocka_unit_test(steps_reach_over_plateaus),
        cmocka_unit_test(fits_are_as_good),
        cmocka_unit_test(a_flat_box_needs_its_limits),
        cmocka_unit_test(modes_are_found_in_noise),
        cmocka_unit_test(asks_for_values_only),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(limits_hold_for_values),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
