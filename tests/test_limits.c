/* test_limits.c - limits are seen inside a batch: a stop, from the model's call as from another thread, and the clock.
 * `stop` names the one that struck, and a limit that does not strike changes no bit. Also: memory in many dimensions.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "wvgd.h"

enum { DIM = 3, PARTICLES = 100, DRAWS = 200, PIECE = 2047 }; /* most points of one call of the model */

typedef struct {
    wvgd_fit *fit;
    size_t stop_at;   /* calls of the model after which it asks for a stop; 0: never */
    size_t calls;     /* so far */
    size_t most;      /* points in one of them */
    long nanoseconds; /* that a point takes */
    size_t points;    /* that it was asked for */
    size_t dim, last; /* other than DIM, if not 0; points at which it asks for a stop, if not 0 */
} watched;

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    watched *w = self;
    w->calls++;
    w->points += n;
    w->most = n > w->most ? n : w->most;
    size_t D = w->dim ? w->dim : DIM;
    if (w->calls == w->stop_at || (w->last && w->points >= w->last))
        wvgd_stop_now(w->fit);
    long wait = (long)n * w->nanoseconds;
    nanosleep(&(struct timespec){wait / 1000000000, wait % 1000000000}, NULL);
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            log_p[i] -= 0.5 * z[i * D + d] * z[i * D + d];
            if (grad)
                grad[i * D + d] = -z[i * D + d];
        }
    }
    return 0;
}

/* Of the joint solver without exploration: the first batch has PARTICLES * DRAWS points. */
static wvgd_fit *new_fit(watched *w, double max_seconds)
{
    wvgd_model model = {.name = "watched", .dim = DIM, .log_density = log_density, .self = w, .has_gradient = true};
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.init = WVGD_INIT_NORMAL;
    o.particles = PARTICLES;
    o.draws = DRAWS;
    o.max_iter = 3;
    o.max_seconds = max_seconds;
    w->fit = wvgd_new(&model, &o, NULL, NULL);
    assert_non_null(w->fit);
    return w->fit;
}

static wvgd_results run(wvgd_fit *fit)
{
    wvgd_results r;
    wvgd_error error;
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(fit, &r);
    return r;
}

static void a_stop_is_seen_inside_a_batch(void **state)
{
    (void)state;
    watched w = {.stop_at = 1};
    wvgd_fit *fit = new_fit(&w, 0);
    assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    assert_int_equal(w.calls, 1); /* the rest of the batch is given up */
    wvgd_results r = run(fit);
    assert_int_equal(r.stop, WVGD_STOPPED);
    assert_true(w.most <= PIECE);
    assert_int_equal(r.iterations, 0);
    wvgd_free(fit);
}

static void the_clock_is_seen_inside_a_batch(void **state)
{
    (void)state;
    watched w = {.nanoseconds = 20000};
    wvgd_fit *fit = new_fit(&w, 0.03); /* the first batch would take 0.4 s */
    assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    wvgd_progress p;
    wvgd_get_progress(fit, &p);
    assert_true(p.evaluations > 0 && p.evaluations < PARTICLES * DRAWS);
    assert_int_equal(run(fit).stop, WVGD_TIME_UP);
    wvgd_free(fit);
}

static void *stop_later(void *context)
{
    nanosleep(&(struct timespec){0, 60000000}, NULL);
    wvgd_stop_now(context);
    return NULL;
}

static void another_thread_may_stop_a_run(void **state)
{
    (void)state;
    watched w = {.nanoseconds = 10000};
    wvgd_fit *fit = new_fit(&w, 0);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, stop_later, fit), 0);
    wvgd_results r = run(fit);
    pthread_join(other, NULL);
    assert_int_equal(r.stop, WVGD_STOPPED);
    wvgd_free(fit);
}

static void a_limit_that_does_not_strike_changes_nothing(void **state)
{
    (void)state;
    watched free_of = {0}, within = {0};
    wvgd_fit *a = new_fit(&free_of, 0), *b = new_fit(&within, 1e6);
    wvgd_results r = run(a), s = run(b);
    assert_int_equal(r.stop, WVGD_MAX_ITER);
    assert_int_equal(s.stop, WVGD_MAX_ITER);
    assert_int_equal(r.evaluations, s.evaluations);
    assert_memory_equal(r.z, s.z, PARTICLES * DIM * sizeof *r.z);
    assert_memory_equal(r.beta, s.beta, PARTICLES * sizeof *r.beta);
    assert_memory_equal(&r.evidence, &s.evidence, sizeof r.evidence);
    wvgd_free(a);
    wvgd_free(b);
}

/* Diagonal and low-rank components in 100,000 dimensions need no matrix: 337 GB would be one. */
static void memory_is_linear_in_the_dimension(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* its shadow alone is larger than the limit */
#endif
    const rlim_t most = (rlim_t)12 << 30;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    small = before;
    small.rlim_cur = before.rlim_max < most ? before.rlim_max : most;
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family += WVGD_LOWRANK - WVGD_DIAG) {
        wvgd_model model = {.dim = 100000, .log_density = log_density, .has_gradient = true};
        wvgd_options o;
        wvgd_error error = {0};
        wvgd_options_init(&o);
        o.particles = 1;
        o.family = family;
        assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
        assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
        if (!fit)
            print_error("%s\n", error.text);
        assert_non_null(fit);
        wvgd_free(fit);
    }
}

/* Seconds of the processor: the machine may be busy. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Particles and cells are whole, however early the run was ended. */
static void check_cells(const wvgd_results *r)
{
    double mass = 0;
    for (size_t j = 0; j < r->N; j++) {
        mass += r->beta[j];
        for (size_t d = 0; d < r->D; d++)
            assert_true(isfinite(r->z[j * r->D + d]) && isfinite(r->mu[j * r->D + d]) && r->sd[j * r->D + d] > 0);
    }
    assert_true(fabs(mass - 1) < 1e-9);
}

/* A fit that takes minutes beside its model: cells of many particles. */
static wvgd_fit *new_many(watched *w, double max_seconds)
{
    wvgd_model model = {.name = "watched", .dim = DIM, .log_density = log_density, .self = w, .has_gradient = true};
    wvgd_options o;
    wvgd_options_init(&o);
    o.particles = 50000;
    o.max_seconds = max_seconds;
    w->fit = wvgd_new(&model, &o, NULL, NULL);
    assert_non_null(w->fit);
    return w->fit;
}

static void the_clock_is_seen_while_cells_are_made(void **state)
{
    (void)state;
    watched w = {0};
    wvgd_fit *fit = new_many(&w, 1);
    double before = cpu_seconds();
    wvgd_results r = run(fit);
    assert_true(cpu_seconds() - before < 15);
    assert_int_equal(r.stop, WVGD_TIME_UP);
    assert_false(r.reliable);
    assert_true(isnan(r.pelbo.value) && isfinite(r.evidence.value));
    check_cells(&r);
    wvgd_free(fit);
}

static void a_stop_is_seen_while_cells_are_made(void **state)
{
    (void)state;
    watched w = {0};
    wvgd_fit *fit = new_many(&w, 0);
    wvgd_progress p;
    do { /* until the last of the final draws are told */
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
        wvgd_get_progress(fit, &p);
    } while (strcmp(p.stage, "close"));
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, stop_later, fit), 0);
    wvgd_results r = run(fit);
    pthread_join(other, NULL);
    assert_int_equal(r.stop, WVGD_STOPPED);
    assert_false(r.reliable);
    check_cells(&r);
    wvgd_free(fit);
}

/* Tail indices of very many coordinates take longer than the fit: a stop in the last batch is seen there. */
static void a_stop_is_seen_while_moments_are_estimated(void **state)
{
    (void)state;
    enum { MANY = 8000 };
    size_t points = 0;
    for (int stopped = 0; stopped < 2; stopped++) {
        watched w = {.dim = MANY, .last = points};
        wvgd_model model = {.dim = MANY, .log_density = log_density, .self = &w, .has_gradient = true};
        wvgd_options o;
        wvgd_options_init(&o);
        o.solver = WVGD_JOINT;
        o.particles = 1;
        o.family = WVGD_DIAG;
        w.fit = wvgd_new(&model, &o, NULL, NULL);
        assert_non_null(w.fit);
        wvgd_results r = run(w.fit);
        points = r.evaluations;
        assert_int_equal(r.stop, stopped ? WVGD_STOPPED : WVGD_CONVERGED);
        assert_true(isnan(r.tail_k[MANY - 1]) == (stopped == 1));
        for (size_t d = 0; d < MANY; d++)
            assert_true(fabs(r.mean[d]) < 1 && r.sd_se[d] > 0);
        wvgd_free(w.fit);
    }
}

/* ---- other cells ---- */
static wvgd_fit *new_slow(watched *w, wvgd_solver solver, double max_seconds, size_t max_evaluations);

/* New cells of a run that a limit has ended are not made in haste, but have limits of their own: a stop is seen inside
 * the batch for their bound. */
static void cells_of_a_stopped_run_have_their_own_limits(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        watched w = {.stop_at = 12};
        wvgd_fit *fit = new_slow(&w, WVGD_STAGED, 0, 0);
        assert_int_equal(run(fit).stop, WVGD_STOPPED);
        wvgd_options o;
        wvgd_options_init(&o);
        o.particles = 3;
        wvgd_fit *cells = wvgd_quantize(fit, &o, NULL);
        assert_non_null(cells);
        w.fit = cells;
        w.points = 0;
        w.nanoseconds = limited ? 10000000 : 0;
        w.stop_at = limited ? w.calls + 1 : 0;
        wvgd_results r = run(cells);
        assert_true(limited ? w.points < 100 && isnan(r.pelbo.value) : isfinite(r.pelbo.value));
        assert_int_equal(r.stop, WVGD_STOPPED);
        check_cells(&r);
        wvgd_free(cells);
        wvgd_free(fit);
    }
}

/* ---- slow models ---- */
static wvgd_fit *new_slow(watched *w, wvgd_solver solver, double max_seconds, size_t max_evaluations)
{
    wvgd_model model = {.name = "watched", .dim = DIM, .log_density = log_density, .self = w, .has_gradient = true};
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = solver;
    o.max_seconds = max_seconds;
    o.max_evaluations = max_evaluations;
    w->fit = wvgd_new(&model, &o, NULL, NULL);
    assert_non_null(w->fit);
    return w->fit;
}

/* 30 ms a point: a batch of the closing draws alone would take ten seconds and more. */
static void a_slow_model_is_asked_for_few_points_at_a_time(void **state)
{
    (void)state;
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        watched w = {.nanoseconds = 30000000};
        wvgd_fit *fit = new_slow(&w, solver, 1, 0);
        wvgd_results r = run(fit);
        assert_int_equal(r.stop, WVGD_TIME_UP);
        assert_true(w.most <= 64);   /* 8 points in a quarter of a second, and the rest of a batch */
        assert_true(w.points < 300); /* 33 in a second, then those that close the run */
        check_cells(&r);
        wvgd_free(fit);
    }
}

/* A model that is slow for a while is cut into other pieces, which changes no bit. */
static void pieces_change_no_bit(void **state)
{
    (void)state;
    watched fast = {0}, slow = {.nanoseconds = 3000000};
    wvgd_fit *a = new_slow(&fast, WVGD_STAGED, 0, 0), *b = new_slow(&slow, WVGD_STAGED, 0, 0);
    wvgd_results r = run(a), s = run(b);
    assert_true(slow.calls > fast.calls);
    assert_int_equal(r.evaluations, s.evaluations);
    assert_memory_equal(r.z, s.z, r.N * DIM * sizeof *r.z);
    assert_memory_equal(&r.evidence, &s.evidence, sizeof r.evidence);
    wvgd_free(a);
    wvgd_free(b);
}

/* ---- evaluations ---- */
/* Coordinates with sds from 0.001 to 1, far from 0: after a few evaluations one draw has all of the weight. */
static int far_away(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const size_t D = *(const size_t *)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            double sd = pow(10, -3 * (double)d / (double)(D - 1)), y = (z[i * D + d] - 5) / sd;
            log_p[i] -= 0.5 * y * y;
            if (grad)
                grad[i * D + d] = -y / sd;
        }
    }
    return 0;
}

/* A fit that is cut off before its draws tell anything shows what it has fitted so far, not the one draw that has all
 * of the weight, and names no cause but the limit. */
static void a_fit_that_is_cut_off_early_shows_what_it_has_fitted(void **state)
{
    (void)state;
    const size_t limits[] = {20, 60, 120};
    size_t D = 30;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        wvgd_model model = {.name = "far", .dim = D, .log_density = far_away, .self = &D, .has_gradient = true};
        wvgd_options o;
        wvgd_options_init(&o);
        o.max_evaluations = limits[i];
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        assert_non_null(fit);
        wvgd_results r = run(fit);
        assert_int_equal(r.stop, WVGD_MAX_EVALUATIONS);
        assert_false(r.reliable);
        assert_true(r.ess < 5);
        double least = INFINITY;
        for (size_t d = 0; d < D; d++)
            least = fmin(least, sqrt(r.var[d]));
        assert_true(least > 1e-6);                                                   /* not of one draw */
        assert_true(r.distortion.value > 0 && r.distortion.value < 100 * (double)D); /* D in the metric of the draws */
        bool few = false;
        for (size_t k = 0; k < r.reasons; k++) {
            few = few || strstr(r.reason[k], "the effective number of final draws is only");
            assert_null(strstr(r.reason[k], "shift it in the model"));
        }
        assert_true(few);
        wvgd_free(fit);
    }
}

static void evaluations_stay_within_their_limit(void **state)
{
    (void)state;
    const size_t limits[] = {1, 100, 400, 1000, 3000};
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            watched w = {0};
            wvgd_fit *fit = new_slow(&w, solver, 0, limits[i]);
            wvgd_results r = run(fit);
            bool more = false;
            for (size_t k = 0; k < r.warnings; k++)
                more = more || strstr(r.warning[k], "more than --max-evaluations");
            assert_int_equal(r.evaluations, w.points);
            assert_true(r.evaluations <= limits[i] || (more && r.evaluations < 200));
            if (r.evaluations > limits[i] / 2 && limits[i] < 1000)
                assert_int_equal(r.stop, WVGD_MAX_EVALUATIONS);
            assert_true(r.stop == WVGD_CONVERGED || !r.reliable);
            check_cells(&r);
            wvgd_free(fit);
        }
}

/* One that is not reached changes nothing. */
static void many_evaluations_change_nothing(void **state)
{
    (void)state;
    watched v = {0}, w = {0};
    wvgd_fit *a = new_slow(&v, WVGD_STAGED, 0, 0), *b = new_slow(&w, WVGD_STAGED, 0, 1000000);
    wvgd_results r = run(a), s = run(b);
    assert_int_equal(r.stop, WVGD_CONVERGED);
    assert_int_equal(r.evaluations, s.evaluations);
    assert_memory_equal(r.z, s.z, r.N * DIM * sizeof *r.z);
    wvgd_free(a);
    wvgd_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_is_seen_inside_a_batch),
        cmocka_unit_test(the_clock_is_seen_inside_a_batch),
        cmocka_unit_test(another_thread_may_stop_a_run),
        cmocka_unit_test(a_limit_that_does_not_strike_changes_nothing),
        cmocka_unit_test(memory_is_linear_in_the_dimension),
        cmocka_unit_test(the_clock_is_seen_while_cells_are_made),
        cmocka_unit_test(a_stop_is_seen_while_cells_are_made),
        cmocka_unit_test(a_stop_is_seen_while_moments_are_estimated),
        cmocka_unit_test(cells_of_a_stopped_run_have_their_own_limits),
        cmocka_unit_test(a_slow_model_is_asked_for_few_points_at_a_time),
        cmocka_unit_test(pieces_change_no_bit),
        cmocka_unit_test(evaluations_stay_within_their_limit),
        cmocka_unit_test(a_fit_that_is_cut_off_early_shows_what_it_has_fitted),
        cmocka_unit_test(many_evaluations_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
