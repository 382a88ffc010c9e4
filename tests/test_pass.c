/* test_pass.c - tests of the vector passes that the models are made of: each instruction set that this processor has
 * against long double, also far out, and all of them against each other. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "../models/pass.h"
#include "../models/scratch.h"
#include "support/near.h"
#include "support/test_random.h"

enum { N = 4096 };

/* Arguments of every size and both signs: special ones, edges of ranges, and 10^U(-20, 3.5). */
static void fill_arguments(double *x)
{
    static const double SPECIAL[] = {0.0,   1e-320, DBL_MIN, 1e-300, 1e-16,   0.34657359, 0.5,   1.0,
                                     18.0,  36.0,   36.8,    40.0,   700.0,   707.9,      708.0, 708.5,
                                     745.0, 1e3,    1e10,    1e300,  DBL_MAX, INFINITY};
    test_random r = test_random_seed(5);
    size_t k = 0;
    for (; k < 2 * sizeof SPECIAL / sizeof *SPECIAL; k++)
        x[k] = k % 2 ? -SPECIAL[k / 2] : SPECIAL[k / 2];
    for (; k < N; k++)
        x[k] = (k % 2 ? -1.0 : 1.0) * pow(10.0, -20.0 + 23.5 * test_random_uniform(&r));
}

/* Runs check with every instruction set that is there. */
static void with_each(void (*check)(const wv_pass *))
{
    size_t run = 0;
    for (size_t k = 0; wv_pass_number(k); k++)
        if ((wv_pass_number(k)->needs <= wv_instructions_best())) {
            check(wv_pass_number(k));
            run++;
        }
    assert_true(run >= 1);
}

/* The best one is there and is the first that is. */
static void best_is_there(void **state)
{
    (void)state;
    size_t k = 0;
    while (!(wv_pass_number(k)->needs <= wv_instructions_best()))
        k++;
    assert_ptr_equal(wv_pass_best(), wv_pass_number(k));
    assert_int_equal(wv_pass_width(0), 0);
    assert_int_equal(wv_pass_width(1), WV_PASS_WIDTH);
    assert_int_equal(wv_pass_width(WV_PASS_WIDTH), WV_PASS_WIDTH);
    assert_int_equal(wv_pass_width(WV_PASS_WIDTH + 1), 2 * WV_PASS_WIDTH);
}

/* exp has a relative error below 1e-15, 1 + t and its logarithm half a unit in the last place each: 4 epsilon in
 * all, of the value or, as terms of a sum with a logarithm near 0, of 1. */
static void check_softplus(const wv_pass *pass)
{
    static double x[N], s[N], sum[N];
    fill_arguments(x);
    memcpy(s, x, sizeof s);
    memset(sum, 0, sizeof sum);
    pass->softplus(1, N, s, sum);
    for (size_t i = 0; i < N; i++) {
        long double t = expl(-fabsl((long double)x[i])), value = (x[i] > 0 ? (long double)x[i] : 0.0L) + log1pl(t),
                    slope = (x[i] > 0 ? 1.0L : t) / (1.0L + t);
        if (x[i] == INFINITY)
            assert_true(sum[i] == INFINITY);
        else
            assert_near(sum[i], (double)value, 4.0 * DBL_EPSILON * fmax(1.0, (double)value));
        assert_near(s[i], (double)slope, 6.0 * DBL_EPSILON * (double)slope + 1e-307);
    }
}

/* 512 rows: the product of 1 + exp(-|s|) is as large as it may be where s is 0, and one NaN or
 * infinity spoils its own column only. */
static void check_softplus_sums(const wv_pass *pass)
{
    enum { WIDTH = 3 * WV_PASS_WIDTH };
    static double s[WV_PASS_ROWS * WIDTH];
    double sum[WIDTH], exact[WIDTH];
    test_random r = test_random_seed(6);
    for (size_t i = 0; i < WIDTH; i++)
        sum[i] = exact[i] = (double)i;
    for (size_t k = 0; k < WV_PASS_ROWS * WIDTH; k++)
        s[k] = k % WIDTH == 0 ? 0.0 : 5.0 * test_random_normal(&r);
    s[7 * WIDTH + 3] = NAN;
    s[100 * WIDTH + 10] = INFINITY;
    s[100 * WIDTH + 11] = -INFINITY;
    for (size_t i = 0; i < WIDTH; i++) {
        long double total = sum[i];
        for (size_t k = 0; k < WV_PASS_ROWS; k++)
            total += fmaxl(s[k * WIDTH + i], 0.0L) + log1pl(expl(-fabsl(s[k * WIDTH + i])));
        exact[i] = (double)total;
    }
    pass->softplus(WV_PASS_ROWS, WIDTH, s, sum);
    for (size_t i = 0; i < WIDTH; i++) {
        if (i == 3)
            assert_true(isnan(sum[i]));
        else if (i == 10)
            assert_true(sum[i] == INFINITY);
        else
            /* each addition and each factor adds an epsilon */
            assert_near(sum[i], exact[i], 1e-14 * exact[i] * sqrt(WV_PASS_ROWS));
    }
    assert_true(isnan(s[7 * WIDTH + 3]));
    assert_true(s[100 * WIDTH + 10] == 1.0 && s[100 * WIDTH + 11] == 0.0);
    assert_true(!isnan(s[8 * WIDTH + 3]));
}

/* What generalised linear models need: 100 rows, of which some share count and weight, 16 columns with a shape or scale
 * each, against sums in long double. 1e-14 of the sum of absolute terms allows for some roundings in each. */
static void check_rows(const wv_pass *pass)
{
    enum { ROWS = 100, WIDTH = 2 * WV_PASS_WIDTH, SUMS = 5, NEAR = 256, FAR = 2 };
    static const double far[FAR] = {300, 100000}, far_times[FAR] = {2, 0.5};
    static double s[4][ROWS * WIDTH], x[ROWS * WIDTH];
    double y[ROWS], times[ROWS], scale[2 * WIDTH], sum[4][SUMS * WIDTH] = {{0}}, rising[2 * WIDTH], near[NEAR];
    test_random r = test_random_seed(9);
    for (size_t k = 0; k < ROWS * WIDTH; k++)
        x[k] = 2.0 * test_random_normal(&r);
    for (size_t k = 0; k < ROWS; k++) {
        y[k] = floor((double)k / 7);
        times[k] = k < 50 ? 1.0 : 0.5;
    }
    for (size_t i = 0; i < WIDTH; i++) {
        scale[i] = exp((double)i - 3.0); /* up to 1.6e5: both ways of negbinomial */
        scale[WIDTH + i] = log(scale[i]);
    }
    for (int k = 0; k < 4; k++)
        memcpy(s[k], x, sizeof x);
    pass->softplus_times(ROWS, WIDTH, times, s[0], sum[0]);
    pass->exp(ROWS, WIDTH, s[1], sum[1]);
    pass->negbinomial(ROWS, WIDTH, y, times, scale, s[2], sum[2]);
    pass->student(ROWS, WIDTH, y, times, scale, s[3], sum[3]);
    for (size_t k = 0; k < NEAR; k++)
        near[k] = 1.0 / (double)(1 + k);
    pass->rising(NEAR, near, FAR, far, far_times, WIDTH, scale, rising);
    for (size_t i = 0; i < WIDTH; i++) {
        long double a = 0, b = 0, c[3] = {0, 0, 0}, d[2] = {0, 0}, shape = scale[i], up = 0, size = 0, by_shape = 0;
        for (size_t k = 0; k < ROWS; k++) {
            long double v = x[k * WIDTH + i], u = v - scale[WIDTH + i], l = log1pl(expl(u)), t = times[k];
            long double slope = t * (y[k] + shape) / (1 + expl(-u)), e = y[k] - v, q = e * e * shape;
            a += t * log1pl(expl(v));
            b += expl(v);
            c[0] += t * y[k] * l;
            c[1] += t * l;
            c[2] += slope;
            d[0] += t * log1pl(q);
            d[1] += t * q / (1 + q);
            assert_near(s[0][k * WIDTH + i], (double)(t / (1 + expl(-v))), 1e-14);
            assert_near(s[1][k * WIDTH + i], (double)expl(v), 1e-14 * (double)expl(v));
            assert_near(s[2][k * WIDTH + i], (double)slope, 1e-13 * (double)slope);
            assert_near(s[3][k * WIDTH + i], (double)(-t * e * shape / (1 + q)), 1e-13 * (double)fabsl(e * shape));
        }
        assert_near(sum[0][i], (double)a, 1e-14 * (double)a);
        assert_near(sum[1][i], (double)b, 1e-14 * (double)b);
        assert_near(sum[2][i], (double)c[0], 1e-14 * (1000 + (double)c[0]));
        /* one logarithm for several rows is exact relative to 1; of large shapes each row has its own */
        assert_near(sum[2][WIDTH + i], (double)c[1], 1e-14 * (double)c[1] + (shape > 1e5 ? 0 : 1e-14));
        assert_near(sum[2][2 * WIDTH + i], (double)c[2], 1e-13 * (double)c[2]);
        assert_near(sum[3][i], (double)d[0], 1e-14 * (1 + (double)d[0]));
        assert_near(sum[3][WIDTH + i], (double)d[1], 1e-14 * (1 + (double)d[1]));
        for (size_t k = 0; k < NEAR; k++) {
            long double term = near[k] * logl(shape + k);
            up += term;
            size += fabsl(term);
            by_shape += near[k] / (shape + k);
        }
        for (size_t k = 0; k < FAR; k++) {
            long double from = shape + NEAR, to = shape + far[k];
            up += far_times[k] * (lgammal(to) - lgammal(from));
            size += far_times[k] * (lgammal(to) - lgammal(from));
            for (size_t j = NEAR; j < (size_t)far[k]; j++)
                by_shape += far_times[k] / (shape + j);
        }
        assert_near(rising[i], (double)up, 1e-14 * (double)size);
        assert_near(rising[WIDTH + i], (double)by_shape, 1e-13 * (double)by_shape);
    }
}

static void rows_are_exact(void **state)
{
    (void)state;
    with_each(check_rows);
}

static void softplus_is_exact(void **state)
{
    (void)state;
    with_each(check_softplus);
    with_each(check_softplus_sums);
}

/* expm1 to 1e-15 (of its own size, for it has no cancellation at 0) and a quotient: 8 epsilon. */
static void check_tanh(const wv_pass *pass)
{
    static double x[N], t[N];
    fill_arguments(x);
    memcpy(t, x, sizeof t);
    t[0] = NAN;
    pass->tanh(N, t);
    assert_true(isnan(t[0]));
    for (size_t i = 1; i < N; i++) {
        double exact = (double)tanhl((long double)x[i]);
        assert_near(t[i], exact, 8.0 * DBL_EPSILON * fabs(exact));
        assert_int_equal(signbit(t[i]) != 0, signbit(x[i]) != 0);
    }
}

static void check_tanh_back(const wv_pass *pass)
{
    enum { H = 3, WIDTH = 2 * WV_PASS_WIDTH };
    double T[H * WIDTH], w[H] = {0.5, -2.0, 1e10}, df[WIDTH], expected[H * WIDTH];
    test_random r = test_random_seed(7);
    test_random_normals(&r, WIDTH, df);
    for (size_t k = 0; k < H * WIDTH; k++) {
        T[k] = tanh(test_random_normal(&r));
        expected[k] = w[k / WIDTH] * df[k % WIDTH] * (1.0 - T[k] * T[k]);
    }
    pass->tanh_back(H, WIDTH, w, df, T);
    for (size_t k = 0; k < H * WIDTH; k++)
        assert_near(T[k], expected[k], 4.0 * DBL_EPSILON * fabs(w[k / WIDTH] * df[k % WIDTH]));
}

static void tanh_is_exact(void **state)
{
    (void)state;
    with_each(check_tanh);
    with_each(check_tanh_back);
}

/* Gaussians one after the other, the first of them too far away to count for some points, and NaN
 * for one: against sums in long double. */
static void check_add_gaussian(const wv_pass *pass)
{
    enum { D = 3, K = 4, WIDTH = 2 * WV_PASS_WIDTH };
    static const double LOG_WEIGHT[K] = {-1.0, 2.0, -700.0, 0.5};
    double z[D * WIDTH], v[D * WIDTH], slope[D * WIDTH], top[WIDTH], total[WIDTH], grad[D * WIDTH] = {0};
    long double sum[WIDTH] = {0}, g[D * WIDTH] = {0};
    test_random r = test_random_seed(8);
    test_random_normals(&r, D * WIDTH, z);
    for (size_t i = 0; i < WIDTH; i++) {
        top[i] = -INFINITY;
        total[i] = 0.0;
    }
    for (size_t k = 0; k < K; k++) {
        double mean[D] = {(double)k, -(double)k, 0.1};
        pass->centre(D, WIDTH, z, mean, v);
        for (size_t j = 0; j < D * WIDTH; j++) {
            assert_true(v[j] == z[j] - mean[j / WIDTH]);
            if (k == 0 && j % WIDTH == 1)
                v[j] = 1e200; /* its square is infinite */
            if (k == 1 && j % WIDTH == 2)
                v[j] = NAN;
            slope[j] = 2.0 * v[j];
        }
        pass->add_gaussian(D, WIDTH, LOG_WEIGHT[k], v, slope, top, total, grad);
        for (size_t i = 0; i < WIDTH; i++) {
            long double squares = 0.0L;
            for (size_t d = 0; d < D; d++)
                squares += (long double)v[d * WIDTH + i] * v[d * WIDTH + i];
            long double density = isnan((double)squares) ? 0.0L : expl(LOG_WEIGHT[k] - 0.5L * squares);
            sum[i] += density;
            for (size_t d = 0; density > 0.0L && d < D; d++)
                g[d * WIDTH + i] -= density * slope[d * WIDTH + i];
        }
    }
    for (size_t i = 0; i < WIDTH; i++) {
        double exact = (double)logl(sum[i]);
        assert_near(top[i] + log(total[i]), exact, 1e-14 * fmax(1.0, fabs(exact)));
        for (size_t d = 0; d < D; d++) {
            double expected = (double)(g[d * WIDTH + i] / sum[i]);
            assert_near(grad[d * WIDTH + i] / total[i], expected, 1e-13 * fmax(1.0, fabs(expected)));
        }
    }
}

static void mixtures_add_up(void **state)
{
    (void)state;
    with_each(check_add_gaussian);
}

/* A row of a covariance, with times so near and so far that the decay covers all from 1 to 0, and its sums. */
static void check_covariance(const wv_pass *pass)
{
    enum { WIDTH = 4 * WV_PASS_WIDTH };
    double t[WIDTH], cosine[WIDTH], sine[WIDTH], alpha[WIDTH], inverse[WIDTH], decay[WIDTH], K[WIDTH],
        sums[3] = {1.0, 2.0, 3.0};
    long double expected[3] = {1.0L, 2.0L, 3.0L}, size = 1.0L;
    const double omega = 0.7, A = 2.5, half_precision = 0.02, time = 1.5, c = cos(omega * time), s = sin(omega * time),
                 a = 0.3;
    wv_pass_process process = {A, half_precision};
    wv_pass_time at = {&time, &c, &s, &a}, times = {t, cosine, sine, alpha};
    test_random r = test_random_seed(9);
    test_random_normals(&r, WIDTH, alpha);
    test_random_normals(&r, WIDTH, inverse);
    for (size_t i = 0; i < WIDTH; i++) {
        t[i] = 0.3 * (double)(i * i) - 20.0;
        cosine[i] = cos(omega * t[i]);
        sine[i] = sin(omega * t[i]);
    }
    pass->covariance(WIDTH, &process, &at, &times, decay, K);
    for (size_t i = 0; i < WIDTH; i++) {
        long double dt = (long double)time - t[i], e = A * expl(-half_precision * dt * dt), turn = cosl(omega * dt);
        /* the exponent, up to 230, is rounded: 230 epsilon */
        assert_near(decay[i], (double)e, (double)(1e-13L * e) + 1e-99);
        assert_near(K[i], (double)(e * turn), (double)(1e-13L * e) + 1e-99);
        long double weight = ((long double)a * alpha[i] - inverse[i]) * e;
        expected[0] += weight * turn;
        expected[1] += weight * turn * dt * dt;
        expected[2] += weight * sinl(omega * dt) * dt;
        size += fabsl(weight) * (1.0L + dt * dt);
    }
    pass->covariance_back(WIDTH, &at, &times, decay, inverse, sums);
    for (size_t k = 0; k < 3; k++)
        assert_near(sums[k], (double)expected[k], (double)(1e-13L * size));
}

static void covariances_are_exact(void **state)
{
    (void)state;
    with_each(check_covariance);
}

/* All that a pass leaves behind. */
typedef struct {
    double s[N], sum[N], t[N], back[N], top[N], total[N], grad[N], decay[N], K[N], sums[3];
} outcome;

static void run_all(const wv_pass *pass, outcome *o)
{
    static double x[N], y[N];
    const double w[2] = {0.7, -1.3}, mean[2] = {0.1, -0.2};
    memset(o, 0, sizeof *o);
    test_random r = test_random_seed(10);
    fill_arguments(x);
    test_random_normals(&r, N, y);
    memcpy(o->s, x, sizeof x);
    pass->softplus(1, N, o->s, o->sum);
    memcpy(o->t, x, sizeof x);
    pass->tanh(N, o->t);
    memcpy(o->back, o->t, sizeof o->t);
    pass->tanh_back(2, N / 2, w, y, o->back);
    for (size_t i = 0; i < N; i++)
        o->top[i] = -INFINITY;
    pass->centre(2, N / 2, y, mean, o->decay);
    pass->add_gaussian(2, N / 2, 0.3, o->decay, y, o->top, o->total, o->grad);
    pass->add_gaussian(2, N / 2, 0.4, y, o->decay, o->top, o->total, o->grad);
    wv_pass_process process = {1.5, 0.3};
    wv_pass_time at = {y, y + 1, y + 2, y + 3}, times = {y, o->t, y, y};
    pass->covariance(N, &process, &at, &times, o->decay, o->K);
    pass->covariance_back(N, &at, &times, o->decay, o->K, o->sums);
}

/* Some sets fuse multiplications and additions: a rounding here or there, and what terms of a size
 * up to 100 leave of it. */
static void instruction_sets_agree(void **state)
{
    (void)state;
    static outcome first, other;
    run_all(wv_pass_best(), &first);
    for (size_t k = 0; wv_pass_number(k); k++) {
        if (!(wv_pass_number(k)->needs <= wv_instructions_best()))
            continue;
        run_all(wv_pass_number(k), &other);
        const double *a = (const double *)&first, *b = (const double *)&other;
        for (size_t i = 0; i < sizeof first / sizeof(double); i++)
            if (!(a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))))
                assert_near(a[i], b[i], 1e-14 * fmax(fabs(a[i]), 1.0) * 100.0);
    }
}

/* Pieces are aligned, differ while in use, and come back. */
static void scratch_is_used_again(void **state)
{
    (void)state;
    wv_scratch s;
    wv_scratch_open(&s, 1000);
    double *a = wv_scratch_take(&s), *b = wv_scratch_take(&s);
    assert_true(a && b && a != b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
    for (size_t i = 0; i < 1000; i++)
        a[i] = b[i] = 1.0;
    wv_scratch_give(&s, a);
    assert_ptr_equal(wv_scratch_take(&s), a);
    wv_scratch_give(&s, b);
    wv_scratch_give(&s, a);
    wv_scratch_give(&s, NULL);
    wv_scratch_close(&s);
    wv_scratch_open(&s, SIZE_MAX / 4); /* more than there is */
    assert_null(wv_scratch_take(&s));
    wv_scratch_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_is_there),          cmocka_unit_test(softplus_is_exact),
        cmocka_unit_test(rows_are_exact),         cmocka_unit_test(tanh_is_exact),
        cmocka_unit_test(mixtures_add_up),        cmocka_unit_test(covariances_are_exact),
        cmocka_unit_test(instruction_sets_agree), cmocka_unit_test(scratch_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
