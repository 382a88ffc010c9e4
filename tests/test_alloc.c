/* test_alloc.c - memory: whichever allocation of a whole life fails, nothing leaks, nothing crashes, and
 * WVGD_E_MEMORY is reported; and nothing is allocated inside iterations, but for the trace. With either solver. The
 * linker sends malloc and its kin here (--wrap). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wvgd.h"

/* Whatever can be shared among threads is (the linker puts this in the place of the library's). */
double __wrap_wv_thread_pool_worth(void);
double __wrap_wv_thread_pool_worth(void)
{
    return 0;
}

/* ---- allocations, counted and refused ---------------------------------------------------------------------------- */
static bool watching;
static size_t calls, refuse_at; /* refuse_at 0: never */
static long live;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **p, size_t alignment, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **p, size_t alignment, size_t size);
void __wrap_free(void *p);

static bool refused(void)
{
    return watching && ++calls == refuse_at;
}

static void *noted(void *p)
{
    live += watching && p;
    return p;
}

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : noted(__real_malloc(size));
}
void *__wrap_calloc(size_t n, size_t size)
{
    return refused() ? NULL : noted(__real_calloc(n, size));
}
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refused() ? NULL : noted(__real_aligned_alloc(alignment, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    if (refused())
        return NULL;
    void *q = __real_realloc(p, size);
    live += watching && q && !p;
    return q;
}

int __wrap_posix_memalign(void **p, size_t alignment, size_t size)
{
    int failure = refused() ? 12 : __real_posix_memalign(p, alignment, size);
    live += watching && !failure;
    return failure;
}

void __wrap_free(void *p)
{
    live -= watching && p;
    __real_free(p);
}

/* ---- a small life ------------------------------------------------------------------------------------------------ */
/* Two bumps; needs no memory. */
static double bumps(void *self, const double *z, double *grad)
{
    size_t D = *(const size_t *)self;
    double a = 0, b = 0;
    for (size_t i = 0; i < D; i++) {
        a -= 0.5 * (z[i] - 2) * (z[i] - 2);
        b -= 0.5 * (z[i] + 2) * (z[i] + 2);
    }
    double top = fmax(a, b), sum = exp(a - top) + exp(b - top);
    for (size_t i = 0; grad && i < D; i++)
        grad[i] = -(exp(a - top) * (z[i] - 2) + exp(b - top) * (z[i] + 2)) / sum;
    return top + log(sum);
}

/* A banana: the second coordinate follows the square of the first. */
static double bent(void *self, const double *z, double *grad)
{
    size_t D = *(const size_t *)self;
    double off = z[1] + z[0] * z[0], sum = -0.5 * z[0] * z[0] - 2 * off * off;
    for (size_t i = 2; i < D; i++)
        sum -= 0.5 * z[i] * z[i];
    if (!grad)
        return sum;
    grad[0] = -z[0] - 8 * off * z[0];
    grad[1] = -4 * off;
    for (size_t i = 2; i < D; i++)
        grad[i] = -z[i];
    return sum;
}

static double square(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < dim; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        if (grad_a)
            grad_a[i] = 2 * (a[i] - b[i]);
    }
    return sum;
}

static unsigned char state_buffer[1 << 24];

/* new, run (long enough for the trace to grow twice), results, draws, save, another fit that restores; all through
 * two wrapping models. Any failure of memory shows as WVGD_E_MEMORY here, after which all is freed. `went_on`
 * counts runs that could go on after theirs. */
static wvgd_status live_once(const wvgd_options *o, size_t D, size_t *went_on)
{
    wvgd_model points = {0}, shared = {0};
    wvgd_fit *fit = NULL, *other = NULL;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_status status = WVGD_E_MEMORY;
    double z[8 * 10];
    size_t cell[10], size;
    wvgd_results r;
    if (wvgd_model_pointwise(&points, D, bumps, &D, true) != 0)
        goto out;
    if (wvgd_model_threads(&shared, &points, 2) != 0)
        goto out;
    fit = wvgd_new(&shared, o, NULL, &error);
    status = error.code;
    if (!fit)
        goto out;
    status = wvgd_run(fit, NULL, NULL, &error);
    if (status != WVGD_OK) {
        assert_int_equal(error.code, status);
        assert_true(strlen(error.text) > 10);
        if (wvgd_run(fit, NULL, NULL, NULL) == WVGD_OK) { /* there is memory again */
            wvgd_get_results(fit, &r);
            *went_on += isfinite(r.evidence.value) ? 1 : 0;
        }
        goto out;
    }
    wvgd_get_results(fit, &r);
    status = wvgd_sample(fit, 1, 10, z, cell, &error);
    if (status == WVGD_OK)
        status = wvgd_resample(fit, 1, 10, z, cell, &error);
    size = wvgd_save_size(fit);
    assert_true(size <= sizeof state_buffer);
    if (status == WVGD_OK)
        status = wvgd_save(fit, state_buffer, size, &error);
    if (status != WVGD_OK)
        goto out;
    other = wvgd_new(&shared, o, NULL, &error);
    status = other ? WVGD_OK : error.code;
    if (other)
        status = wvgd_restore(other, state_buffer, size, &error);
    if (other && status == WVGD_E_MEMORY) { /* a restore that failed has changed nothing, and can be tried again */
        wvgd_get_results(other, &r);
        assert_int_equal(r.iterations, 0);
        assert_int_equal(wvgd_restore(other, state_buffer, size, NULL), WVGD_OK);
    }
out:
    wvgd_free(fit);
    wvgd_free(other);
    wvgd_model_close(&shared);
    wvgd_model_close(&points);
    return status;
}

static void whichever_allocation_fails(void **state)
{
    (void)state;
    size_t went_on = 0, failed_runs = 0;
    static const struct {
        wvgd_solver solver;
        wvgd_family family;
    } rows[] = {{WVGD_JOINT, WVGD_DIAG}, {WVGD_JOINT, WVGD_FULL}, {WVGD_STAGED, WVGD_FULL}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        wvgd_options o;
        wvgd_options_init(&o);
        o.solver = rows[row].solver;
        o.particles = 2;
        o.family = rows[row].family;
        o.draws = 20;
        o.max_iter = 300;
        o.tol = 1e-8;
        o.cost = WVGD_CALLBACK;
        o.cost_function = square;
        watching = true;
        calls = refuse_at = 0;
        live = 0;
        assert_int_equal(live_once(&o, 2, &went_on), WVGD_OK);
        watching = false;
        size_t total = calls;
        assert_true(total >= 12);
        assert_int_equal(live, 0);
        for (size_t k = 1; k <= total; k++) {
            watching = true;
            calls = 0;
            refuse_at = k;
            wvgd_status status = live_once(&o, 2, &went_on);
            watching = false;
            if (status != WVGD_E_MEMORY)
                fail_msg("allocation %zu of %zu refused: status %d", k, total, (int)status);
            if (live != 0)
                fail_msg("allocation %zu of %zu refused: %ld blocks left", k, total, live);
        }
        failed_runs++;
    }
    assert_true(went_on >= failed_runs); /* a trace that cannot grow ends a run, not a fit */
}

/* Sizes that cannot be had, with the real allocator. */
static void more_than_there_is(void **state)
{
    (void)state;
    static const struct {
        size_t particles, draws, dim;
    } rows[] = {{10000, 1000000, 1000}, {100000, 1, 1000000}, {100000, 1000000, 1000000}};
    for (size_t i = 0; i < 3; i++) {
        wvgd_options o;
        wvgd_model model = {.dim = rows[i].dim, .has_gradient = true};
        wvgd_error error = {WVGD_OK, ""};
        wvgd_options_init(&o);
        o.family = WVGD_DIAG;
        o.particles = rows[i].particles;
        o.draws = rows[i].draws;
        watching = true;
        calls = refuse_at = 0;
        live = 0;
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
        watching = false;
        assert_null(fit);
        assert_int_equal(error.code, WVGD_E_MEMORY);
        assert_int_equal(live, 0);
    }
}

/* Threads for which there is no memory are done without; all else is needed. */
static void memory_of_threads(void **state)
{
    (void)state;
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        bool fewer = false;
        for (size_t k = 1, total = 1; k <= total; k++) {
            wvgd_options o;
            wvgd_model model = {.dim = 2, .has_gradient = true};
            wvgd_error error = {WVGD_OK, ""};
            wvgd_options_init(&o);
            o.solver = solver;
            o.threads = 4;
            watching = true;
            calls = 0;
            live = 0;
            refuse_at = k;
            wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
            fewer = fewer || (fit && calls >= k); /* one was refused, and yet there is a fit */
            total = fit ? calls : k + 1;
            wvgd_free(fit);
            watching = false;
            assert_int_equal(error.code, fit ? WVGD_OK : WVGD_E_MEMORY);
            assert_int_equal(live, 0);
        }
        assert_true(fewer);
    }
}

/* ---- none inside iterations -------------------------------------------------------------------------------------- */
static void no_step_allocates(const wvgd_options *o, wvgd_point_density *density, size_t D)
{
    wvgd_model model;
    wvgd_progress p;
    wvgd_results r;
    double z[8 * 10], log_q[10], cov[64];
    size_t cell[10], rows = 0, before, n, growths = 0;
    assert_int_equal(wvgd_model_pointwise(&model, D, density, &D, true), 0);
    wvgd_fit *fit = wvgd_new(&model, o, NULL, NULL);
    assert_non_null(fit);
    watching = true;
    refuse_at = 0;
    do {
        calls = 0;
        before = rows;
        if (wvgd_step(fit, NULL) != WVGD_OK)
            break;
        wvgd_trace(fit, &rows);
        wvgd_get_progress(fit, &p);
        wvgd_get_results(fit, &r);
        if (calls)
            growths++;
        if (calls > 2 || (calls && rows == before))
            break;
    } while (strcmp(p.stage, "done"));
    size_t in_steps = calls;
    calls = 0;
    bool read = wvgd_sample(fit, 1, 10, z, cell, NULL) == WVGD_OK && wvgd_log_q(fit, 10, z, log_q, NULL) == WVGD_OK &&
                wvgd_cell(fit, 10, z, cell, NULL) == WVGD_OK && wvgd_resample(fit, 1, 10, z, cell, NULL) == WVGD_OK &&
                wvgd_draws(fit, &n, NULL, NULL, NULL, NULL, NULL) == WVGD_OK &&
                wvgd_component_cov(fit, 0, cov, NULL) == WVGD_OK && wvgd_save_size(fit) <= sizeof state_buffer &&
                wvgd_save(fit, state_buffer, wvgd_save_size(fit), NULL) == WVGD_OK;
    watching = false;
    if (strcmp(p.stage, "done"))
        fail_msg("stage %s, iteration %zu: %zu allocations in a step", p.stage, p.iteration, in_steps);
    if (density == bent && o->solver == WVGD_STAGED)
        assert_true(o->bend == WVGD_BEND_AUTO ? r.bend_arguments : r.components > 2); /* it has a map, or has grown */
    assert_true(read);
    assert_int_equal(calls, 0);
    assert_true(growths <= 3); /* the trace, which doubles */
    wvgd_free(fit);
    wvgd_model_close(&model);
}

static void iterations_do_not_allocate(void **state)
{
    (void)state;
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++)
        for (int way = 0; way < 6; way++) {
            wvgd_options o;
            wvgd_options_init(&o);
            o.solver = WVGD_JOINT;
            o.particles = way == 5 ? 1 : 3;
            o.family = family;
            o.rank = 2;
            o.max_iter = way < 2 ? 70 : 30;
            o.threads = 2;
            o.cost_function = square;
            o.cost = (wvgd_cost)way;
            if (way == 1)
                o.estimator = WVGD_SCORE;
            if (way == 2 && family != WVGD_LOWRANK)
                o.estimator = WVGD_REPARAM;
            if (way == 3)
                o.cells = WVGD_SOFT;
            if (way == 4)
                o.sampler = WVGD_REJECT;
            no_step_allocates(&o, bumps, 4);
        }
}

/* Every family and cost, on a density that one Gaussian a mode fits and on one for which the
 * mixture grows and walks are sent out. */
static void staged_iterations_do_not_allocate(void **state)
{
    (void)state;
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++)
        for (int way = 0; way < 6; way++) {
            wvgd_options o;
            wvgd_options_init(&o);
            o.threads = 2;
            o.particles = way == 5 ? 1 : 3;
            o.family = family;
            o.rank = 2;
            o.cost_function = square;
            o.cost = (wvgd_cost)way;
            o.bend = way == 3 ? WVGD_BEND_AUTO : WVGD_BEND_NEVER;
            no_step_allocates(&o, way % 3 ? bumps : bent, 4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_allocation_fails),
        cmocka_unit_test(more_than_there_is),
        cmocka_unit_test(memory_of_threads),
        cmocka_unit_test(iterations_do_not_allocate),
        cmocka_unit_test(staged_iterations_do_not_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
