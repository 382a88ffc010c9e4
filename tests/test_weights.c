/* test_weights.c - sums in log space, effective sample sizes, and Pareto k-hat on tails whose shape is known. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "support/near.h"
#include "support/test_random.h"
#include "weights.h"

/* ---- log-sum-exp ------------------------------------------------------------------------------------------------- */
static void sums_in_log_space(void **state)
{
    (void)state;
    assert_true(wv_weights_lse(0, NULL) == -INFINITY);
    const double none[] = {-INFINITY, -INFINITY};
    assert_true(wv_weights_lse(2, none) == -INFINITY);
    const double one[] = {-INFINITY, -3.5, -INFINITY};
    assert_near(wv_weights_lse(3, one), -3.5, 0);
    const double two[] = {log(2.0), log(3.0)};
    assert_near(wv_weights_lse(2, two), log(5.0), 1e-15);
    const double large[] = {1e308, 1e308}, small[] = {-1e308, -1e308}, far[] = {-800, 800}, tiny[] = {-745, -746, -747};
    assert_near(wv_weights_lse(2, large), 1e308, 0);
    assert_near(wv_weights_lse(2, small), -1e308, 0);
    assert_near(wv_weights_lse(2, far), 800, 0);
    assert_near(wv_weights_lse(3, tiny), -745 + log(1 + exp(-1.0) + exp(-2.0)), 1e-12);
    double many[1000];
    for (size_t i = 0; i < 1000; i++)
        many[i] = -5000;
    assert_near(wv_weights_lse(1000, many), -5000 + log(1000.0), 1e-9);
}

static void normalising(void **state)
{
    (void)state;
    const double log_w[] = {-1000, -1000 + log(3.0), -INFINITY, -5000}, none[] = {-INFINITY, -INFINITY};
    double w[4];
    assert_true(wv_weights_normalise(4, log_w, w));
    assert_near(w[0], 0.25, 1e-12);
    assert_near(w[1], 0.75, 1e-12);
    assert_true(w[2] == 0 && w[3] == 0);
    w[0] = w[1] = 7;
    assert_false(wv_weights_normalise(2, none, w));
    assert_true(w[0] == 0 && w[1] == 0);
    assert_false(wv_weights_normalise(0, none, w));
}

static void effective_sizes(void **state)
{
    (void)state;
    const double equal[] = {0.2, 0.2, 0.2, 0.2, 0.2}, one[] = {0, 0, 5, 0}, zero[] = {0, 0}, uneven[] = {3, 1};
    assert_near(wv_weights_ess(5, equal), 5, 1e-12);
    assert_near(wv_weights_ess(4, one), 1, 1e-12);
    assert_true(wv_weights_ess(2, zero) == 0);
    assert_true(wv_weights_ess(0, zero) == 0);
    assert_near(wv_weights_ess(2, uneven), 1.6, 1e-12);
}

/* ---- Pareto k-hat ------------------------------------------------------------------------------------------------ */
enum { MANY = 40000 };
static double log_w[MANY], smoothed[MANY];
static uint32_t order[MANY];
static wv_arena *arena;

/* Generalised Pareto draws ((1 - u)^-k - 1)/k: every tail of them is generalised Pareto with the same shape. The
 * tail fitted has m = 3 sqrt(n) = 600 points, whose maximum likelihood estimate of k has standard error
 * (1 + k)/sqrt(m); the weak prior moves it by 10 (0.5 - k)/(m + 10) at most. */
static void shape_of_pareto_tails(void **state)
{
    (void)state;
    static const double shapes[] = {-0.3, 0.0, 0.2, 0.5, 0.7, 0.9, 1.5};
    enum { SAMPLES = 8 };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        double k = shapes[s], m = 3 * sqrt(MANY), prior = 10 * fabs(0.5 - k) / (m + 10), mean = 0;
        for (uint64_t sample = 0; sample < SAMPLES; sample++) {
            test_random random = test_random_seed(100 * s + sample);
            for (size_t i = 0; i < MANY; i++) {
                double u = test_random_uniform(&random);
                log_w[i] = 12 + log(k != 0 ? expm1(-k * log(u)) / k : -log(u));
            }
            double hat = wv_weights_pareto_k(MANY, log_w, NULL, arena);
            assert_near(hat, k, 4 * (1 + fabs(k)) / sqrt(m) + prior);
            mean += hat / SAMPLES;
        }
        /* 0.01: of order 1/m, the bias of the estimate itself */
        assert_near(mean, k, 4 * (1 + fabs(k)) / sqrt(m * SAMPLES) + prior + 0.01);
    }
}

/* Exceedances over fifty orders of magnitude, whose products are no numbers: the estimate, which is made for shapes
 * around 1, falls short, but says that the tail is hopeless. */
static void extreme_tails(void **state)
{
    (void)state;
    test_random random = test_random_seed(6);
    for (size_t i = 0; i < MANY; i++)
        log_w[i] = -20 * log(test_random_uniform(&random));
    double k = wv_weights_pareto_k(MANY, log_w, NULL, arena);
    assert_true(k > 10 && k < 30);
}

/* A constant factor changes nothing, however large. */
static void shape_has_no_scale(void **state)
{
    (void)state;
    test_random random = test_random_seed(5);
    for (size_t i = 0; i < 5000; i++)
        log_w[i] = -0.6 * log(test_random_uniform(&random));
    double k = wv_weights_pareto_k(5000, log_w, NULL, arena);
    static const double shift[] = {-1e5, -700, 700, 1e5};
    for (size_t s = 0; s < 4; s++) {
        static double moved[5000];
        for (size_t i = 0; i < 5000; i++)
            moved[i] = log_w[i] + shift[s];
        assert_near(wv_weights_pareto_k(5000, moved, NULL, arena), k, 1e-6);
    }
}

static void too_few_or_equal_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5000; i++)
        log_w[i] = -3;
    assert_true(isnan(wv_weights_pareto_k(5000, log_w, smoothed, arena))); /* no tail */
    for (size_t i = 0; i < 5000; i++)
        assert_true(smoothed[i] == log_w[i]);
    test_random random = test_random_seed(6);
    for (size_t i = 0; i < 5000; i++)
        log_w[i] = test_random_normal(&random);
    for (size_t n = 0; n < 25; n++)
        assert_true(isnan(wv_weights_pareto_k(n, log_w, smoothed, arena))); /* a fifth of them: fewer than 5 */
    assert_true(isfinite(wv_weights_pareto_k(100, log_w, NULL, arena)));
    for (size_t i = 10; i < 5000; i++)
        log_w[i] = -INFINITY; /* ten weights, less than the tail has points */
    assert_true(isnan(wv_weights_pareto_k(5000, log_w, NULL, arena)));
    for (size_t i = 0; i < 5000; i++)
        log_w[i] = -INFINITY;
    assert_true(isnan(wv_weights_pareto_k(5000, log_w, NULL, arena)));
    for (size_t i = 0; i < 5000; i++)
        log_w[i] = i % 2 ? 0 : -1; /* two values: the whole tail is one of them */
    assert_true(isnan(wv_weights_pareto_k(5000, log_w, NULL, arena)));
}

static int ascending(const void *a, const void *b)
{
    double x = log_w[*(const uint32_t *)a], y = log_w[*(const uint32_t *)b];
    return (x > y) - (x < y);
}

/* Weights that are nearly all alike, but for three in a hundred, uniform up to twice as much: they have a bound, and a
 * tail that begins among the ones that are alike made k-hat 2 and more of them. With a Pareto tail instead k-hat says
 * so as before, with the standard error of the 90 draws that it has, and in the mean over 32 samples. */
static void tails_among_weights_alike(void **state)
{
    (void)state;
    enum { n = 3000, SAMPLES = 32 };
    double mean = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        test_random random = test_random_seed(300 + sample);
        for (size_t i = 0; i < n; i++)
            log_w[i] = test_random_uniform(&random) < 0.03 ? log(1 + test_random_uniform(&random))
                                                           : 1e-4 * test_random_normal(&random);
        assert_true(wv_weights_pareto_k(n, log_w, NULL, arena) < 0.5);
        for (size_t i = 0; i < n; i++)
            log_w[i] = test_random_uniform(&random) < 0.03 ? -log(test_random_uniform(&random))
                                                           : 1e-4 * test_random_normal(&random);
        double k = wv_weights_pareto_k(n, log_w, NULL, arena);
        assert_true(k > 1 - 4 * 2 / sqrt(90 / 2));
        mean += k / SAMPLES;
    }
    assert_true(mean > 1 - 4 * 2 / sqrt(90.0 / 2 * SAMPLES));
}

/* Smoothing keeps the order, never exceeds the largest weight, leaves all but the tail alone, and hardly
 * moves the sum where the tail is light. */
static void smoothing(void **state)
{
    (void)state;
    static const double shapes[] = {0.2, 0.6, 0.9};
    for (size_t s = 0; s < 3; s++) {
        enum { n = 10000, tail = 300 };
        test_random random = test_random_seed(7 + s);
        for (size_t i = 0; i < n; i++)
            log_w[i] = log(expm1(-shapes[s] * log(test_random_uniform(&random))) / shapes[s]);
        assert_true(isfinite(wv_weights_pareto_k(n, log_w, smoothed, arena)));
        for (uint32_t i = 0; i < n; i++)
            order[i] = i;
        qsort(order, n, sizeof *order, ascending);
        double top = log_w[order[n - 1]];
        for (size_t i = 0; i < n; i++) {
            uint32_t at = order[i];
            if (i)
                assert_true(log_w[order[i - 1]] <= log_w[at] && smoothed[order[i - 1]] <= smoothed[at]);
            if (i < n - tail)
                assert_true(smoothed[at] == log_w[at]);
            assert_true(isfinite(smoothed[at]) && smoothed[at] <= top);
        }
        if (s == 0)
            assert_near(wv_weights_lse(n, smoothed), wv_weights_lse(n, log_w), 0.02);
    }
}

static int make_arena(void **state)
{
    (void)state;
    return (arena = wv_arena_new(2 * MANY)) ? 0 : -1;
}

static int free_arena(void **state)
{
    (void)state;
    wv_arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_in_log_space),
        cmocka_unit_test(normalising),
        cmocka_unit_test(effective_sizes),
        cmocka_unit_test(shape_of_pareto_tails),
        cmocka_unit_test(extreme_tails),
        cmocka_unit_test(shape_has_no_scale),
        cmocka_unit_test(too_few_or_equal_weights),
        cmocka_unit_test(tails_among_weights_alike),
        cmocka_unit_test(smoothing),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
