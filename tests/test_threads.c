/* test_threads.c - models that wrap models: a batch shared among threads gives the same bits for every
 * number of them; a function of one point. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

/* ---- whole fits -------------------------------------------------------------------------------------------------- */
enum { N = 3, D = 3 };

typedef struct {
    double z[N * D], mu[N * D], sd[N * D], beta[N], weight[N], elbo[N], log_Z[N], mean[D], var[D];
    wvgd_estimate pelbo, evidence, distortion;
    size_t iterations, evaluations;
} outcome;

static outcome fit_with(const wvgd_model *model, wvgd_solver solver)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = solver;
    o.particles = N;
    o.max_iter = 40;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, NULL);
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    wvgd_results r;
    outcome out;
    memset(&out, 0, sizeof out);
    wvgd_get_results(fit, &r);
    memcpy(out.z, r.z, sizeof out.z);
    memcpy(out.mu, r.mu, sizeof out.mu);
    memcpy(out.sd, r.sd, sizeof out.sd);
    memcpy(out.beta, r.beta, sizeof out.beta);
    memcpy(out.weight, r.weight, sizeof out.weight);
    memcpy(out.elbo, r.elbo, sizeof out.elbo);
    memcpy(out.log_Z, r.log_Z, sizeof out.log_Z);
    memcpy(out.mean, r.mean, sizeof out.mean);
    memcpy(out.var, r.var, sizeof out.var);
    out.pelbo = r.pelbo;
    out.evidence = r.evidence;
    out.distortion = r.distortion;
    out.iterations = r.iterations;
    out.evaluations = r.evaluations;
    wvgd_free(fit);
    return out;
}

static void same_bits_for_any_number_of_threads(void **state)
{
    (void)state;
    wvgd_model inner;
    assert_int_equal(target_mixture_random(&inner, D, 3, 3.0, 4), 0);
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        outcome plain = fit_with(&inner, solver), one;
        static const unsigned threads[] = {1, 0, 2, 3, 8};
        for (size_t k = 0; k < 5; k++) {
            wvgd_model shared;
            assert_int_equal(wvgd_model_threads(&shared, &inner, threads[k]), 0);
            assert_int_equal(shared.dim, inner.dim);
            assert_int_equal(shared.has_gradient, inner.has_gradient);
            outcome out = fit_with(&shared, solver);
            if (k == 0)
                one = out; /* chunks may round otherwise than whole batches do, but never otherwise than chunks */
            assert_memory_equal(&out, &one, sizeof out);
            wvgd_model_close(&shared);
            assert_null(shared.self);
        }
        outcome again = fit_with(&inner, solver); /* closing the wrapper has left the model alone */
        assert_memory_equal(&again, &plain, sizeof again);
    }
    wvgd_model_close(&inner);
}

/* ---- a density of one point, without any beyond 3 ---------------------------------------------------------------- */
static double bump(void *self, const double *z, double *grad)
{
    const double *scale = self;
    if (z[0] > 3)
        return NAN;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = -z[i] / (*scale * *scale);
    return -0.5 * (z[0] * z[0] + z[1] * z[1]) / (*scale * *scale);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
/* Counts who calls it, and fails at points whose first coordinate says so. */
typedef struct {
    pthread_mutex_t lock;
    size_t calls, points, largest, inside, most_inside;
    pthread_t caller;
    bool other_thread;
} counter;

static int count(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    counter *c = self;
    int failure = 0;
    pthread_mutex_lock(&c->lock);
    c->calls++;
    c->points += n;
    c->largest = n > c->largest ? n : c->largest;
    c->inside++;
    c->most_inside = c->inside > c->most_inside ? c->inside : c->most_inside;
    c->other_thread = c->other_thread || !pthread_equal(c->caller, pthread_self());
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -z[2 * i] - 10 * z[2 * i + 1];
        for (size_t d = 0; grad && d < 2; d++)
            grad[2 * i + d] = z[2 * i + d] + 0.5;
        if (z[2 * i] >= 1000 && !failure)
            failure = (int)z[2 * i];
    }
    pthread_mutex_lock(&c->lock);
    c->inside--;
    pthread_mutex_unlock(&c->lock);
    return failure;
}

static wvgd_model counted(counter *c, bool safe)
{
    *c = (counter){.caller = pthread_self()};
    pthread_mutex_init(&c->lock, NULL);
    return (wvgd_model){
        .name = "counted", .dim = 2, .log_density = count, .self = c, .has_gradient = true, .thread_safe = safe};
}

enum { MOST = 40 * WVGD_CHUNK };

static void every_point_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        1, 2, WVGD_CHUNK - 1, WVGD_CHUNK, WVGD_CHUNK + 1, 5 * WVGD_CHUNK, 7 * WVGD_CHUNK + 3, MOST};
    static double z[2 * MOST], log_p[MOST], grad[2 * MOST];
    size_t calls[sizeof sizes / sizeof *sizes] = {0};
    test_random random = test_random_seed(3);
    test_random_normals(&random, 2 * MOST, z);
    for (unsigned threads = 1; threads <= 8; threads += threads < 3 ? 1 : 5) {
        counter c;
        wvgd_model inner = counted(&c, true), shared;
        assert_int_equal(wvgd_model_threads(&shared, &inner, threads), 0);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int with_grad = 0; with_grad < 2; with_grad++) {
                size_t n = sizes[k];
                memset(log_p, 0xff, sizeof log_p);
                memset(grad, 0xff, sizeof grad);
                c.calls = c.points = c.largest = 0;
                assert_int_equal(shared.log_density(shared.self, n, z, log_p, with_grad ? grad : NULL), 0);
                assert_int_equal(c.points, n);
                assert_true(c.calls >= (n + WVGD_CHUNK - 1) / WVGD_CHUNK);
                if (calls[k])
                    assert_int_equal(c.calls, calls[k]); /* the same chunks for any number of threads */
                calls[k] = c.calls;
                assert_true(c.largest <= WVGD_CHUNK);
                for (size_t i = 0; i < n; i++) {
                    assert_true(log_p[i] == -z[2 * i] - 10 * z[2 * i + 1]);
                    if (with_grad)
                        assert_true(grad[2 * i] == z[2 * i] + 0.5 && grad[2 * i + 1] == z[2 * i + 1] + 0.5);
                }
                if (n < MOST)
                    assert_true(isnan(log_p[n])); /* and nothing beyond */
            }
        wvgd_model_close(&shared);
        pthread_mutex_destroy(&c.lock);
    }
}

/* Several chunks fail: the code of the earliest is told, whichever thread was first; and the next
 * batch is well again. */
static void earliest_failure_is_told(void **state)
{
    (void)state;
    static double z[2 * MOST], log_p[MOST];
    counter c;
    wvgd_model inner = counted(&c, true), shared;
    assert_int_equal(wvgd_model_threads(&shared, &inner, 4), 0);
    for (size_t round = 0; round < 50; round++) {
        memset(z, 0, sizeof z);
        size_t first = round % 20;
        for (size_t chunk = first; chunk < 40; chunk += 3)
            z[2 * (chunk * WVGD_CHUNK + round % WVGD_CHUNK)] = 1000 + (double)chunk;
        assert_int_equal(shared.log_density(shared.self, MOST, z, log_p, NULL), 1000 + (int)first);
        assert_int_equal(shared.log_density(shared.self, first * WVGD_CHUNK + 1, z, log_p, NULL),
                         round % WVGD_CHUNK ? 0 : 1000 + (int)first);
    }
    wvgd_model_close(&shared);
    pthread_mutex_destroy(&c.lock);
}

/* A failure reaches the fit as WVGD_E_MODEL with its code. */
static void failures_reach_the_fit(void **state)
{
    (void)state;
    counter c;
    wvgd_model inner = counted(&c, true), shared;
    wvgd_options o;
    const double z0[] = {2000, 0};
    wvgd_error error;
    wvgd_options_init(&o);
    o.particles = 1;
    assert_int_equal(wvgd_model_threads(&shared, &inner, 3), 0);
    wvgd_fit *fit = wvgd_new(&shared, &o, z0, NULL);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_MODEL);
    assert_non_null(strstr(error.text, "counted"));
    wvgd_free(fit);
    wvgd_model_close(&shared);
    pthread_mutex_destroy(&c.lock);
}

static void unsafe_models_stay_in_one_thread(void **state)
{
    (void)state;
    static double z[2 * MOST], log_p[MOST];
    counter c;
    wvgd_model inner = counted(&c, false), shared;
    assert_int_equal(wvgd_model_threads(&shared, &inner, 8), 0);
    for (int round = 0; round < 20; round++)
        assert_int_equal(shared.log_density(shared.self, MOST, z, log_p, NULL), 0);
    assert_int_equal(c.most_inside, 1);
    assert_false(c.other_thread);
    wvgd_model_close(&shared);
    pthread_mutex_destroy(&c.lock);
}

static void closing_while_idle(void **state)
{
    (void)state;
    counter c;
    wvgd_model inner = counted(&c, true), shared;
    double z[2] = {0, 0}, log_p;
    for (unsigned round = 0; round < 200; round++) { /* at once, before threads have begun to wait, and after a batch */
        assert_int_equal(wvgd_model_threads(&shared, &inner, 1 + round % 8), 0);
        if (round % 3 == 0)
            assert_int_equal(shared.log_density(shared.self, 1, z, &log_p, NULL), 0);
        wvgd_model_close(&shared);
    }
    wvgd_model_close(NULL);
    pthread_mutex_destroy(&c.lock);
}

/* wvgd_model_close forgets self: closing once more does nothing. */
static void closing_twice(void **state)
{
    (void)state;
    double scale = 1;
    counter c;
    wvgd_model inner = counted(&c, true), shared, points;
    assert_int_equal(wvgd_model_pointwise(&points, 2, bump, &scale, true), 0);
    assert_int_equal(wvgd_model_threads(&shared, &inner, 2), 0);
    for (int i = 0; i < 2; i++) {
        wvgd_model_close(&points);
        wvgd_model_close(&shared);
    }
    pthread_mutex_destroy(&c.lock);
}

/* ---- a function of one point ------------------------------------------------------------------------------------- */
static void pointwise_models(void **state)
{
    (void)state;
    double scale = 0.5, z[] = {1, 2, 4, 0, -1, 0}, log_p[3], grad[6];
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, 2, bump, &scale, true), 0);
    assert_int_equal(model.dim, 2);
    assert_true(model.has_gradient);
    assert_int_equal(model.log_density(model.self, 3, z, log_p, grad), 0);
    assert_near(log_p[0], -10, 1e-12);
    assert_true(isnan(log_p[1]));
    assert_near(log_p[2], -2, 1e-12);
    assert_near(grad[1], -8, 1e-12);
    assert_near(grad[4], 4, 1e-12);
    assert_int_equal(model.log_density(model.self, 3, z, log_p, NULL), 0);
    assert_near(log_p[2], -2, 1e-12);
    wvgd_options o;
    wvgd_options_init(&o);
    o.particles = 2;
    o.max_iter = 60;
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    wvgd_results r;
    wvgd_get_results(fit, &r);
    /* the cut at 3, six sds out, takes 1e-9 */
    assert_near(r.evidence.value, log(2 * 3.14159265358979 * 0.25), 6 * r.evidence.se);
    wvgd_free(fit);
    wvgd_model_close(&model);
    assert_int_equal(wvgd_model_pointwise(&model, 2, bump, &scale, false), 0);
    assert_false(model.has_gradient);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(every_point_once),
        cmocka_unit_test(earliest_failure_is_told),
        cmocka_unit_test(failures_reach_the_fit),
        cmocka_unit_test(unsafe_models_stay_in_one_thread),
        cmocka_unit_test(closing_while_idle),
        cmocka_unit_test(closing_twice),
        cmocka_unit_test(pointwise_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
