/* test_svgd.c - the SVGD baseline: its direction against sums over pairs and against differences of the
 * kernel, the median, what one particle and many do, the fixed points that are known for random mixtures,
 * density estimates against closed forms, and that neither order nor threads nor memory play a part.
 * Nothing here is random but for fixed starts. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* cmocka's, and a function of the program's */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kde.h"
#include "ascending.h"
#include "kernel.h"
#include "mixture_targets.h"
#include "models.h"
#include "random.h"
#include "support/near.h"
#include "support/targets.h"
#include "svgd.h"

/* ---- allocations, counted (the linker sends malloc and calloc here) ---------------------------------------------- */
static size_t allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations++;
    return __real_calloc(n, size);
}

/* ---- direction --------------------------------------------------------------------------------------------------- */
enum { N = 41, D = 3 };

static double kernel(const double *a, const double *b, double h)
{
    double square = 0;
    for (size_t d = 0; d < D; d++)
        square += (a[d] - b[d]) * (a[d] - b[d]);
    return exp(-square / h);
}

/* phi by the definition; the kernel's gradient by central differences, which are exact to about 1e-9 here. */
static void slow_direction(const double *z, const double *grad, double h, double *phi)
{
    const double step = 1e-5;
    memset(phi, 0, N * D * sizeof *phi);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            for (size_t d = 0; d < D; d++) {
                double up[D], down[D];
                memcpy(up, z + j * D, sizeof up);
                memcpy(down, z + j * D, sizeof down);
                up[d] += step;
                down[d] -= step;
                phi[i * D + d] += (kernel(z + j * D, z + i * D, h) * grad[j * D + d] +
                                   (kernel(up, z + i * D, h) - kernel(down, z + i * D, h)) / (2 * step)) /
                                  N;
            }
}

static void fill(double *z, double *grad, double offset, double scale)
{
    svgd_random_normal(1, 1, N * D, z);
    svgd_random_normal(1, 2, N * D, grad);
    for (size_t i = 0; i < N * D; i++)
        z[i] = offset + scale * z[i];
}

static void test_direction(void **state)
{
    double z[N * D], grad[N * D], phi[N * D], slow[N * D];
    static const double bandwidth[] = {0.01, 0.7, 30};
    (void)state;
    svgd_kernel *k = svgd_kernel_new(N, D, NULL, NULL);
    assert_non_null(k);
    for (size_t b = 0; b < 3; b++) {
        fill(z, grad, 100, 1); /* far from 0: distances do not suffer */
        svgd_kernel_distances(k, z);
        svgd_kernel_direction(k, grad, bandwidth[b], phi);
        slow_direction(z, grad, bandwidth[b], slow);
        for (size_t i = 0; i < N * D; i++)
            assert_near(phi[i], slow[i], 1e-6 * (1 + 1 / bandwidth[b])); /* error of the differences */
    }
    svgd_kernel_free(k);
}

/* Many points are taken by bands of rows: the direction of some of them by a plain loop. */
static void test_bands(void **state)
{
    enum { MANY = 2500, EVERY = 499 };
    const double h = 3;
    double *z = calloc((size_t)3 * MANY * D, sizeof *z), *grad = z + MANY * D, *phi = grad + MANY * D;
    (void)state;
    assert_non_null(z);
    svgd_random_normal(1, 3, (size_t)2 * MANY * D, z);
    svgd_kernel *k = svgd_kernel_new(MANY, D, NULL, NULL);
    assert_non_null(k);
    assert_true(svgd_kernel_distances(k, z));
    assert_true(svgd_kernel_direction(k, grad, h, phi));
    for (size_t i = 0; i < MANY; i += EVERY)
        for (size_t d = 0; d < D; d++) {
            double sum = 0;
            for (size_t j = 0; j < MANY; j++)
                sum += kernel(z + j * D, z + i * D, h) * (grad[j * D + d] + 2 / h * (z[i * D + d] - z[j * D + d]));
            assert_near(phi[i * D + d], sum / MANY, 1e-12);
        }
    svgd_kernel_free(k);
    free(z);
}

/* Odd and even numbers of pairs; points that move on a little, as in a run, a lot, and into one place. */
static void test_median(void **state)
{
    static const size_t sizes[] = {2, 3, 4, 5, 41};
    static const double shrink[] = {1, 0.99, 1.02, 1e-3, 1e3, 0};
    double z[N * D], grad[N * D], distance[N * N];
    (void)state;
    for (size_t s = 0; s < 5; s++) {
        size_t n = sizes[s], pairs = 0;
        svgd_kernel *k = svgd_kernel_new(n, D, NULL, NULL);
        for (size_t m = 0; m < 6; m++, pairs = 0) {
            fill(z, grad, 0, shrink[m]);
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < i; j++)
                    distance[pairs++] = sqrt(-log(kernel(z + i * D, z + j * D, 1e6)) * 1e6);
            qsort(distance, pairs, sizeof *distance, ascending);
            double median = (distance[(pairs - 1) / 2] + distance[pairs / 2]) / 2;
            svgd_kernel_distances(k, z);
            double h = svgd_kernel_median(k), wanted = m == 5 ? 1 : median * median / log((double)n);
            if (m != 3)
                assert_near(h, wanted, 1e-7 * wanted); /* the test's own distances lose digits when points are near */
            else
                assert_near(h, wanted, 1e-3 * wanted);
        }
        svgd_kernel_free(k);
    }
    svgd_kernel *single = svgd_kernel_new(1, 1, NULL, NULL);
    double zero = 0;
    svgd_kernel_distances(single, &zero);
    assert_true(svgd_kernel_median(single) == 1);
    svgd_kernel_free(single);
    assert_null(svgd_kernel_new(0, 1, NULL, NULL));
    assert_null(svgd_kernel_new((size_t)1 << 40, 1, NULL, NULL));
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */
static svgd *run(const wvgd_model *model, const svgd_options *o, const double *z0, size_t most, svgd_view *v)
{
    svgd *s = svgd_new(model, o, z0);
    assert_non_null(s);
    for (svgd_get(s, v); !v->converged && v->iteration < most; svgd_get(s, v))
        assert_int_equal(svgd_step(s), 0);
    return s;
}

/* One particle goes to the mode, with both optimisers: to 1e-6 in units of the target's sd, since
 * the force at which it stops is 1e-7. */
static void test_one_particle(void **state)
{
    static const double mean[2] = {3, -1}, cov[4] = {1, 0.6, 0.6, 2}, start[2] = {0, 0};
    (void)state;
    for (int optimiser = SVGD_ADAM; optimiser <= SVGD_ADAGRAD; optimiser++) {
        wvgd_model model;
        svgd_options o;
        svgd_view v;
        assert_int_equal(target_gaussian_cov(&model, 2, mean, cov, true), 0);
        svgd_options_init(&o);
        o.particles = 1;
        o.optimiser = (svgd_optimiser)optimiser;
        o.step = optimiser == SVGD_ADAM ? 0.1 : 0.5;
        o.tol = 1e-7;
        svgd *s = run(&model, &o, start, 50000, &v);
        assert_true(v.converged);
        assert_near(v.z[0], 3, 1e-6);
        assert_near(v.z[1], -1, 1e-6);
        assert_int_equal(v.evaluations, v.iteration);
        svgd_free(s);
        model.close(model.self);
    }
}

/* A normal target in one dimension, 50 particles from a wrong place: where they come to rest phi is 0
 * by the definition, too, and they lie like the quantiles (i - 1/2)/n of the target: to 2/n in
 * probability, two places in their order, but for the outer ones; and the variance falls short by a few
 * times 1/n, as SVGD's does in one dimension. */
static void test_normal(void **state)
{
    enum { n = 50 };
    static const double mean = 2, variance = 9;
    double z[n], sum = 0, square = 0;
    wvgd_model model;
    svgd_options o;
    svgd_view v;
    (void)state;
    assert_int_equal(target_gaussian_cov(&model, 1, &mean, &variance, true), 0);
    svgd_options_init(&o);
    o.particles = n;
    o.tol = 1e-6;
    svgd_random_normal(3, 0, n, z);
    svgd *s = run(&model, &o, z, 100000, &v);
    assert_true(v.converged);
    memcpy(z, v.z, sizeof z);
    qsort(z, n, sizeof *z, ascending);
    for (size_t i = 0; i < n; i++) {
        double phi = 0;
        for (size_t j = 0; j < n; j++) {
            double k = exp(-(z[i] - z[j]) * (z[i] - z[j]) / v.bandwidth);
            phi += k * ((mean - z[j]) / variance + 2 / v.bandwidth * (z[i] - z[j])) / n;
        }
        assert_near(phi, 0, 3e-6); /* rms 1e-6 over an sd of 3, so at most sqrt(n) times 3.3e-7 for any of them */
        sum += z[i] / n;
        if (i >= 5 && i < n - 5)
            assert_near(erfc(-(z[i] - mean) / (3 * sqrt(2))) / 2, ((double)i + 0.5) / n, 0.04);
    }
    for (size_t i = 0; i < n; i++)
        square += (z[i] - sum) * (z[i] - sum) / n;
    assert_near(sum, mean, 0.01);
    assert_near(square / variance, 1, 5.0 / n);
    svgd_free(s);
    model.close(model.self);
}

/* Where other computations of SVGD have ended: on target 1 of experiments/data, from all of five
 * starts, at one and the same error. */
static void test_known_fixed_point(void **state)
{
    enum { n = 9, WHICH = 1 };
    target_list list;
    failure f;
    quadrature q;
    wvgd_model model;
    svgd_options o;
    svgd_view v;
    double z[n], low, high, ise;
    (void)state;
    assert_int_equal(read_targets(WVGD_SOURCE_DIR "/experiments/data/mixtures.json", &list, &f), 0);
    assert_int_equal(read_optima(WVGD_SOURCE_DIR "/experiments/data/mixtures_truth.json", &list, &f), 0);
    const mixture_target *t = &list.target[WHICH];
    const mixture_optimum *known = &list.optimum[WHICH * NUMBERS_N];
    assert_int_equal(open_target(t, &model), 0);
    svgd_options_init(&o);
    o.particles = n;
    o.tol = 1e-6;
    svgd_random_normal(4, 0, n, z);
    svgd *s = run(&model, &o, z, 20000, &v);
    assert_true(v.converged);
    target_range(t, &low, &high);
    assert_int_equal(make_quadrature(low, high, 0, NULL, &q, &f), 0);
    double *p = malloc(q.m * sizeof *p);
    for (size_t i = 0; i < q.m; i++)
        p[i] = target_density(t, q.x[i]);
    svgd_kde_oracle(n, v.z, 0.02, 5, &(svgd_quadrature){q.m, q.x, q.weight, p}, &ise);
    for (size_t k = 0; k < GIVEN_STARTS; k++)
        assert_near(ise, known->svgd_ise[k], 0.002 * ise); /* settled to 1e-6 here, to 20,000 steps there */
    free(p);
    free_quadrature(&q);
    svgd_free(s);
    wvgd_model_close(&model);
    free_targets(&list);
}

/* The order of the particles does not matter: sums are taken in another order, so that 50 steps differ by rounding. */
static void test_order(void **state)
{
    double z[N * D], grad[N * D], turned[N * D];
    wvgd_model model;
    svgd_options o;
    svgd_view a, b;
    (void)state;
    assert_int_equal(target_mixture_random(&model, D, 3, 2, 5), 0);
    fill(z, grad, 0, 1);
    for (size_t i = 0; i < N; i++)
        memcpy(turned + i * D, z + (N - 1 - i) * D, D * sizeof *z);
    svgd_options_init(&o);
    o.particles = N;
    svgd *one = run(&model, &o, z, 50, &a), *other = run(&model, &o, turned, 50, &b);
    for (size_t i = 0; i < N; i++)
        for (size_t d = 0; d < D; d++)
            assert_near(a.z[i * D + d], b.z[(N - 1 - i) * D + d], 1e-9);
    svgd_free(one);
    svgd_free(other);
    model.close(model.self);
}

static int bowl(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            log_p[i] -= cosh(z[i * D + d]);
            grad[i * D + d] = -sinh(z[i * D + d]);
        }
    }
    return 0;
}

/* The same bits on one thread and on four; and nothing is allocated between the first step and the last. */
static void test_threads_and_memory(void **state)
{
    enum { n = 200, STEPS = 30 };
    double *z = malloc(n * D * sizeof *z);
    wvgd_model model = {.dim = D, .log_density = bowl, .has_gradient = true, .thread_safe = true}, threads[2];
    svgd_options o;
    svgd *s[2];
    svgd_view v[2];
    (void)state;
    svgd_random_normal(6, 0, n * D, z);
    svgd_options_init(&o);
    o.particles = n;
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(wvgd_model_threads(&threads[k], &model, k ? 4 : 1), 0);
        s[k] = svgd_new(&threads[k], &o, z);
        assert_int_equal(svgd_step(s[k]), 0);
        size_t before = allocations;
        for (size_t i = 1; i < STEPS; i++)
            assert_int_equal(svgd_step(s[k]), 0);
        assert_int_equal(allocations, before);
        svgd_get(s[k], &v[k]);
    }
    assert_memory_equal(v[0].z, v[1].z, n * D * sizeof *z);
    for (size_t k = 0; k < 2; k++) {
        svgd_free(s[k]);
        wvgd_model_close(&threads[k]);
    }
    free(z);
}

/* A model without answers for z > 0, and one that fails. */
static int half(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    for (size_t i = 0; i < n; i++) {
        log_p[i] = z[i] > 0 ? NAN : -z[i] * z[i];
        grad[i] = z[i] > 0 ? NAN : -2 * z[i];
    }
    return *(int *)self;
}

static void test_bad_points(void **state)
{
    static const double start[4] = {-1, -0.5, 0.5, 1};
    int status = 0;
    wvgd_model model = {.dim = 1, .log_density = half, .self = &status, .has_gradient = true};
    svgd_options o;
    svgd_view v;
    (void)state;
    svgd_options_init(&o);
    o.particles = 4;
    svgd *s = run(&model, &o, start, 1, &v);
    assert_int_equal(v.bad_points, 2);
    for (size_t i = 0; i < 4; i++)
        assert_true(isfinite(v.z[i]));
    assert_near(v.mean_log_p, -0.625, 1e-12);
    status = 7;
    assert_int_equal(svgd_step(s), 7);
    svgd_free(s);
    model.has_gradient = false;
    assert_null(svgd_new(&model, &o, start));
    model.has_gradient = true;
    o.step = 0;
    assert_null(svgd_new(&model, &o, start));
}

static bool count_down(void *self)
{
    size_t *left = self;
    return !*left || !--*left;
}

/* A stop inside a step leaves the particles where they were, with their densities; then all goes on as without it. */
static void test_stop(void **state)
{
    enum { MANY = 2500 };
    size_t left = 4; /* three bands of distances, and some of the direction */
    int status = 0;
    double *start = calloc(MANY, sizeof *start);
    wvgd_model model = {.dim = 1, .log_density = half, .self = &status, .has_gradient = true};
    svgd_options o;
    svgd_view v, w;
    (void)state;
    assert_non_null(start);
    svgd_random_normal(1, 4, MANY, start);
    svgd_options_init(&o);
    o.particles = MANY;
    svgd *plain = run(&model, &o, start, 1, &w);
    o.stop = count_down;
    o.stop_self = &left;
    svgd *s = svgd_new(&model, &o, start);
    assert_non_null(s);
    assert_int_equal(svgd_step(s), 0);
    svgd_get(s, &v);
    assert_true(v.stopped && !v.converged);
    assert_int_equal(v.iteration, 0);
    assert_int_equal(v.evaluations, MANY);
    assert_memory_equal(v.z, start, MANY * sizeof *start);
    assert_true(isfinite(v.mean_log_p));
    left = SIZE_MAX;
    assert_int_equal(svgd_step(s), 0);
    svgd_get(s, &v);
    assert_false(v.stopped);
    assert_memory_equal(v.z, w.z, MANY * sizeof *start);
    svgd_free(plain);
    svgd_free(s);
    free(start);
}

/* ---- densities --------------------------------------------------------------------------------------------------- */
static double normal_density(double x, double variance)
{
    return exp(-0.5 * x * x / variance) / sqrt(6.283185307179586 * variance);
}

/* Integral of (p - q)^2 for mixtures of Gaussians: sums of densities of differences. */
static double closed_ise(const mixture_target *t, size_t n, const double *z, double b)
{
    double ise = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            ise += normal_density(z[i] - z[j], 2 * b * b) / (double)(n * n);
    for (size_t k = 0; k < t->K; k++) {
        for (size_t i = 0; i < n; i++)
            ise -= 2 * t->weight[k] / (double)n * normal_density(t->mean[k] - z[i], t->sd[k] * t->sd[k] + b * b);
        for (size_t m = 0; m < t->K; m++)
            ise += t->weight[k] * t->weight[m] *
                   normal_density(t->mean[k] - t->mean[m], t->sd[k] * t->sd[k] + t->sd[m] * t->sd[m]);
    }
    return ise;
}

static void test_density(void **state)
{
    enum { n = 12 };
    double weight[2] = {0.3, 0.7}, mean[2] = {-1, 2}, sd[2] = {0.5, 1.2}, z[n], work[n * (n + 1)], low, high, ise;
    mixture_target t = {2, weight, mean, sd};
    quadrature q;
    failure f;
    (void)state;
    svgd_random_normal(8, 0, n, z);
    target_range(&t, &low, &high);
    assert_int_equal(make_quadrature(low - 10, high + 10, n, z, &q, &f), 0);
    double *p = malloc(2 * q.m * sizeof *p), *all = p + q.m, sum = 0;
    for (size_t i = 0; i < q.m; i++)
        p[i] = target_density(&t, q.x[i]);
    svgd_quadrature rule = {q.m, q.x, q.weight, p};
    static const double bandwidth[] = {0.1, 0.4, 2};
    for (size_t k = 0; k < 3; k++)
        assert_near(svgd_kde_ise(n, z, bandwidth[k], &rule), closed_ise(&t, n, z, bandwidth[k]), 1e-9);
    double best = svgd_kde_oracle(n, z, 0.02, 5, &rule, &ise);
    assert_near(ise, closed_ise(&t, n, z, best), 1e-9);
    for (double b = 0.02; b < 5; b *= 1.02)
        assert_true(closed_ise(&t, n, z, b) >= ise - 1e-9);
    svgd_kde_log_density(n, 1, z, best, q.m, q.x, all);
    for (size_t i = 0; i < q.m; i++)
        sum += q.weight[i] * exp(all[i]);
    assert_near(sum, 1, 1e-9);
    for (size_t dim = 1; dim <= 2; dim++) {
        size_t points = n / dim;
        best = svgd_kde_leave_one_out(points, dim, z, work);
        double most = -INFINITY, here = 0;
        for (double b = 0.01; b < 4; b *= 1.02) {
            double likelihood = 0;
            for (size_t i = 0; i < points; i++) {
                double others = 0;
                for (size_t j = 0; j < points; j++)
                    others += j == i ? 0
                                     : normal_density(z[i * dim] - z[j * dim], b * b) *
                                           (dim > 1 ? normal_density(z[i * dim + 1] - z[j * dim + 1], b * b) : 1);
                likelihood += log(others);
            }
            if (likelihood > most) {
                most = likelihood;
                here = b;
            }
        }
        assert_near(log(best), log(here), 0.021); /* a step of the test's grid */
    }
    assert_true(isnan(svgd_kde_leave_one_out(1, 1, z, work)));
    free(p);
    free_quadrature(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direction),  cmocka_unit_test(test_bands),
        cmocka_unit_test(test_median),     cmocka_unit_test(test_one_particle),
        cmocka_unit_test(test_normal),     cmocka_unit_test(test_known_fixed_point),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_threads_and_memory),
        cmocka_unit_test(test_bad_points), cmocka_unit_test(test_stop),
        cmocka_unit_test(test_density),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
