/* test_thread_pool.c - the threads of the library: every task is done once, whoever does it; a fit has the same bits
 * for any number of threads, in its trace, its results and its saved states, and goes on from a state with
 * another number; threads that cannot be started, or for which there is no memory, are done without. The linker
 * sends pthread_create and mmap here (--wrap). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thread_pool.h"
#include "workers.h"
#include "support/saved.h"
#include "support/targets.h"
#include "wvgd.h"

/* Whatever can be shared among threads is (the linker puts this in the place of the library's). */
double __wrap_wv_thread_pool_worth(void);
double __wrap_wv_thread_pool_worth(void)
{
    return 0;
}

/* ---- threads that do not start ----------------------------------------------------------------------------------- */
static int startable = 1 << 20; /* threads that may still be started */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *self);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *self);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *self)
{
    return startable-- > 0 ? __real_pthread_create(thread, attributes, run, self) : 11; /* EAGAIN */
}

/* ---- addresses that there are not -------------------------------------------------------------------------------- */
static size_t mappable = SIZE_MAX; /* bytes that may be mapped at once */

void *__real_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    return size <= mappable ? __real_mmap(at, size, protection, flags, file, offset) : MAP_FAILED;
}

/* ---- the crew ---------------------------------------------------------------------------------------------------- */
enum { TASKS = 3000 };

typedef struct {
    int done[TASKS];
    unsigned workers; /* of the crew */
    int fail;         /* tasks divisible by this fail, with their number and 1 */
    bool wrong;       /* a worker of a number that there is not */
} counts;

static int count(void *context, size_t index, unsigned worker)
{
    counts *c = context;
    c->done[index]++; /* nobody else has this index */
    if (worker >= c->workers)
        c->wrong = true;
    return c->fail && index && index % (size_t)c->fail == 0 ? (int)index + 1 : 0;
}

static void every_task_once(void **state)
{
    (void)state;
    static counts c;
    for (unsigned workers = 0; workers <= 9; workers++) {
        wv_thread_pool *crew = wv_thread_pool_new(workers);
        assert_non_null(crew);
        assert_int_equal(wv_thread_pool_workers(crew), 1);
        for (size_t n = 0; n <= TASKS; n = n < 12 ? n + 1 : n * 3) {
            c = (counts){.workers = workers ? workers : 1};
            assert_int_equal(wv_thread_pool_run(crew, n, count, &c), 0);
            for (size_t i = 0; i < TASKS; i++)
                assert_int_equal(c.done[i], i < n);
            assert_false(c.wrong);
            assert_int_equal(wv_thread_pool_workers(crew), n > 1 && workers ? workers : 1);
        }
        c = (counts){.workers = workers ? workers : 1, .fail = 7};
        assert_int_equal(wv_thread_pool_run(crew, TASKS, count, &c),
                         8); /* the first by number, and all others are done */
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(c.done[i], 1);
        wv_thread_pool_free(crew);
    }
    wv_thread_pool_free(NULL);
}

/* So many workers of the five that are asked for. */
static void expect_workers(unsigned workers)
{
    static counts c;
    wv_thread_pool *crew = wv_thread_pool_new(5);
    assert_non_null(crew);
    c = (counts){.workers = workers};
    assert_int_equal(wv_thread_pool_run(crew, TASKS, count, &c), 0);
    assert_int_equal(wv_thread_pool_workers(crew), workers);
    assert_false(c.wrong);
    for (size_t i = 0; i < TASKS; i++)
        assert_int_equal(c.done[i], 1);
    assert_int_equal(wv_thread_pool_run(crew, TASKS, count, &c), 0);
    assert_int_equal(wv_thread_pool_workers(crew), workers);
    wv_thread_pool_free(crew);
}

/* Each needs 128 MB of addresses, and so much is left over; threads of other crews may still want theirs. */
static void threads_without_room(void **state)
{
    (void)state;
    for (unsigned more = 0; more <= 5; more++) {
        mappable = (size_t)more << 27;
        expect_workers(more > 1 ? more : 1);
    }
    wv_thread_pool *other = wv_thread_pool_new(3);
    static counts c;
    c = (counts){.workers = 3};
    assert_int_equal(wv_thread_pool_run(other, TASKS, count, &c), 0);
    assert_int_equal(wv_thread_pool_workers(other), 3);
    expect_workers(2);
    wv_thread_pool_free(other);
    expect_workers(5);
    mappable = SIZE_MAX;
}

static void threads_that_do_not_start(void **state)
{
    (void)state;
    for (int most = 0; most < 5; most++) {
        startable = most;
        expect_workers(most < 4 ? (unsigned)most + 1 : 5);
        startable = 1 << 20;
    }
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */
enum { TAKEN = 500 };

/* Fills scratch with its number, and looks whether somebody else has written there. */
static void fill(wv_arena *arena, void *context, size_t index)
{
    counts *c = context;
    size_t mark = wv_arena_mark(arena);
    double *mine = wv_arena_take(arena, TAKEN);
    c->wrong = c->wrong || mark != 0;
    for (size_t i = 0; i < TAKEN; i++)
        mine[i] = (double)index;
    for (size_t i = 0; i < TAKEN; i++)
        c->wrong = c->wrong || mine[i] != (double)index;
    c->done[index]++;
    wv_arena_release(arena, mark);
}

/* A task that shares its own work does that alone, in the arena of its worker. */
static void fill_again(wv_arena *arena, void *context, size_t index)
{
    wv_workers one = wv_workers_one(&arena);
    counts inside = {0};
    (void)index;
    wv_workers_run(&one, 3, 1e9, fill, &inside);
    *(bool *)context = *(bool *)context || inside.wrong || inside.done[0] + inside.done[1] + inside.done[2] != 3;
}

static void workers_with_arenas(void **state)
{
    (void)state;
    static counts c;
    for (size_t wanted = 0; wanted <= 5; wanted++) {
        wv_workers w;
        bool wrong = false;
        assert_true(wv_workers_new(&w, wanted, (wv_workers_room){TAKEN, TAKEN}));
        assert_int_equal(w.n, wanted ? wanted : 1);
        c = (counts){0};
        wv_workers_run(&w, TASKS, 1e9, fill, &c);
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(c.done[i], 1);
        assert_false(c.wrong);
        wv_workers_run(&w, 20, 1e9, fill_again, &wrong);
        assert_false(wrong);
        wv_workers_free(&w);
    }
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */
typedef struct {
    const char *name;
    const wvgd_model *model;
    wvgd_solver solver;
    size_t particles, draws;
    wvgd_family family;
    wvgd_cells cells;
    wvgd_cost cost;
    wvgd_estimator estimator;
    wvgd_sampler sampler;
    bool settles; /* long enough for particles to settle */
} way;

static wvgd_fit *make(const way *w, size_t threads)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_options_init(&o);
    o.solver = w->solver;
    o.particles = w->particles;
    o.draws = w->draws;
    o.family = w->family;
    o.cells = w->cells;
    o.cost = w->cost;
    o.estimator = w->estimator;
    o.sampler = w->sampler;
    o.rank = 2;
    o.max_iter = w->settles ? 400 : 14;
    o.tol = w->settles ? 0.05 : 1e-6;
    o.threads = threads;
    wvgd_fit *fit = wvgd_new(w->model, &o, NULL, &error);
    if (!fit)
        fail_msg("%s: %s", w->name, error.text);
    return fit;
}

/* One batch, by hand, so that no times are recorded; false: there is none left. */
static bool batch(const way *w, wvgd_fit *fit)
{
    static double log_p[1 << 17], grad[1 << 20];
    size_t n;
    const double *z;
    bool gradient;
    wvgd_error error;
    if (wvgd_ask(fit, &n, &z, &gradient, &error) != WVGD_OK)
        fail_msg("%s: %s", w->name, error.text);
    if (!n)
        return false;
    assert_true(n <= 1 << 17 && n * w->model->dim <= 1 << 20);
    assert_int_equal(w->model->log_density(w->model->self, n, z, log_p, gradient ? grad : NULL), 0);
    if (wvgd_tell(fit, log_p, grad, &error) != WVGD_OK)
        fail_msg("%s: %s", w->name, error.text);
    return true;
}

/* A saved state holds trace and results. */
static void assert_same(const way *w, size_t threads, size_t after, const saved *a, const saved *b)
{
    if (a->size != b->size || memcmp(a->bytes, b->bytes, a->size))
        fail_msg("%s: other bits with %zu threads after %zu batches", w->name, threads, after);
}

/* Batches in all, with states after the third, the middle one and the last. */
enum { LOOKS = 3 };

static size_t run(const way *w, size_t threads, const size_t look[LOOKS], saved out[LOOKS])
{
    int before = startable;
    wvgd_fit *fit = make(w, threads);
    size_t n = 0, settling = 0;
    for (; batch(w, fit); n++) {
        wvgd_progress p;
        wvgd_get_progress(fit, &p);
        settling += !strcmp(p.stage, "settle");
        for (size_t k = 0; look && k < LOOKS; k++)
            if (n + 1 == look[k])
                out[k] = save(fit);
    }
    if (w->settles)
        assert_true(settling > 0);
    if (before > WV_WORKERS) /* all of them can be started */
        assert_int_equal(before - startable, w->cost == WVGD_CALLBACK ? 0 : threads - 1);
    wvgd_free(fit);
    return n;
}

static void same_bits(const way *w)
{
    static const size_t threads[] = {2, 3, 7};
    size_t batches = run(w, 1, NULL, NULL), look[LOOKS] = {3, batches / 2, batches};
    assert_true(batches > 6);
    saved one[LOOKS], other[LOOKS], last;
    assert_int_equal(run(w, 1, look, one), batches);
    for (size_t t = 0; t < 3; t++) {
        assert_int_equal(run(w, threads[t], look, other), batches);
        for (size_t k = 0; k < LOOKS; k++) {
            assert_same(w, threads[t], look[k], &one[k], &other[k]);
            free(other[k].bytes);
        }
        wvgd_fit *fit = make(w, threads[t]); /* goes on with another number of threads */
        assert_int_equal(wvgd_restore(fit, one[1].bytes, one[1].size, NULL), WVGD_OK);
        while (batch(w, fit)) {
        }
        last = save(fit);
        assert_same(w, threads[t], batches, &one[LOOKS - 1], &last);
        free(last.bytes);
        wvgd_free(fit);
    }
    for (size_t k = 0; k < LOOKS; k++)
        free(one[k].bytes);
}

static wvgd_model mixture, banana, wide, bimodal, line, large;

static int set_up(void **state)
{
    (void)state;
    static const double weight[] = {0.4, 0.6}, mean[] = {-6, 0, 0, 6, 1, 0},
                        cov[] = {1, 0.3, 0, 0.3, 1, 0, 0, 0, 2, 2, 0, 0, 0, 1, 0.5, 0, 0.5, 1};
    return target_mixture_random(&mixture, 3, 3, 3.0, 4) || target_banana(&banana, 4, 1, 0.5) ||
           target_gaussian_random(&wide, 40, 10, 3, false) || target_mixture(&bimodal, 3, 2, weight, mean, cov) ||
           target_banana(&line, 2, 1, 0.3) || target_gaussian_random(&large, 140, 10, 3, false);
}

static int tear_down(void **state)
{
    (void)state;
    wvgd_model_close(&mixture);
    wvgd_model_close(&banana);
    wvgd_model_close(&wide);
    wvgd_model_close(&bimodal);
    wvgd_model_close(&line);
    wvgd_model_close(&large);
    return 0;
}

static void joint_fits(void **state)
{
    (void)state;
    const way ways[] = {
        {"full", &mixture, WVGD_JOINT, 6, 0, WVGD_FULL, WVGD_HARD, WVGD_MAHALANOBIS, WVGD_NATURAL, WVGD_MIXTURE, false},
        {"diagonal", &mixture, WVGD_JOINT, 20, 0, WVGD_DIAG, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"many", &mixture, WVGD_JOINT, 60, 64, WVGD_DIAG, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE, false},
        {"many, full", &mixture, WVGD_JOINT, 60, 64, WVGD_FULL, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"many dimensions", &wide, WVGD_JOINT, 12, 0, WVGD_DIAG, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"low rank", &wide, WVGD_JOINT, 4, 0, WVGD_LOWRANK, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"low rank, without matrices", &large, WVGD_JOINT, 3, 64, WVGD_LOWRANK, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL,
         WVGD_MIXTURE, false},
        {"soft", &banana, WVGD_JOINT, 5, 0, WVGD_FULL, WVGD_SOFT, WVGD_MAHALANOBIS, WVGD_NATURAL, WVGD_MIXTURE, false},
        {"reject", &banana, WVGD_JOINT, 5, 0, WVGD_FULL, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_REJECT, false},
        {"score", &banana, WVGD_JOINT, 3, 0, WVGD_DIAG, WVGD_HARD, WVGD_L1, WVGD_SCORE, WVGD_MIXTURE, false},
        {"reparam", &banana, WVGD_JOINT, 3, 0, WVGD_FULL, WVGD_HARD, WVGD_LP, WVGD_REPARAM, WVGD_MIXTURE, false},
        {"own cost", &banana, WVGD_JOINT, 5, 0, WVGD_FULL, WVGD_HARD, WVGD_OWN, WVGD_NATURAL, WVGD_MIXTURE, false},
        {"settling", &line, WVGD_JOINT, 4, 0, WVGD_FULL, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE, true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        same_bits(&ways[i]);
}

static void staged_fits(void **state)
{
    (void)state;
    const way ways[] = {
        {"one", &banana, WVGD_STAGED, 1, 0, WVGD_FULL, WVGD_HARD, WVGD_MAHALANOBIS, WVGD_NATURAL, WVGD_MIXTURE, false},
        {"bimodal", &bimodal, WVGD_STAGED, 5, 0, WVGD_FULL, WVGD_HARD, WVGD_MAHALANOBIS, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"diagonal", &banana, WVGD_STAGED, 6, 0, WVGD_DIAG, WVGD_HARD, WVGD_SQEUCLID, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"many", &mixture, WVGD_STAGED, 40, 0, WVGD_FULL, WVGD_HARD, WVGD_MAHALANOBIS, WVGD_NATURAL, WVGD_MIXTURE,
         false},
        {"low rank", &banana, WVGD_STAGED, 4, 0, WVGD_LOWRANK, WVGD_HARD, WVGD_L1, WVGD_NATURAL, WVGD_MIXTURE, false},
        {"own cost", &banana, WVGD_STAGED, 4, 0, WVGD_FULL, WVGD_HARD, WVGD_OWN, WVGD_NATURAL, WVGD_MIXTURE, false},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        same_bits(&ways[i]);
}

static double square(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    const pthread_t *caller = self;
    double sum = 0;
    assert_true(pthread_equal(*caller, pthread_self()));
    for (size_t i = 0; i < dim; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        if (grad_a)
            grad_a[i] = 2 * (a[i] - b[i]);
    }
    return sum;
}

/* A cost function of the caller's is called by one thread. */
static void callback_costs(void **state)
{
    (void)state;
    pthread_t caller = pthread_self();
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        wvgd_options o;
        wvgd_options_init(&o);
        o.solver = solver;
        o.particles = 3;
        o.max_iter = 5;
        o.threads = 3;
        o.cost = WVGD_CALLBACK;
        o.cost_function = square;
        o.cost_self = &caller;
        wvgd_fit *fit = wvgd_new(&banana, &o, NULL, NULL);
        assert_non_null(fit);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_free(fit);
    }
}

typedef struct {
    wv_thread_pool *crew;
    counts own[4];
} callers;

/* Who calls a crew that is at work, from another thread or from one of its tasks, does his tasks himself. */
static int call_again(void *context, size_t index, unsigned worker)
{
    callers *c = context;
    (void)worker;
    c->own[index] = (counts){.workers = 3};
    return wv_thread_pool_run(c->crew, TASKS, count, &c->own[index]);
}

static void *call_often(void *context)
{
    static _Thread_local counts c;
    for (int again = 0; again < 300; again++) {
        c = (counts){.workers = 3};
        if (wv_thread_pool_run(context, TASKS, count, &c) != 0 || c.wrong)
            return context;
        for (size_t i = 0; i < TASKS; i++)
            if (c.done[i] != 1)
                return context;
    }
    return NULL;
}

static void several_callers(void **state)
{
    (void)state;
    static callers c;
    pthread_t thread[3];
    void *wrong;
    c.crew = wv_thread_pool_new(3);
    for (size_t t = 0; t < 3; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, call_often, c.crew), 0);
    for (size_t t = 0; t < 3; t++) {
        assert_int_equal(pthread_join(thread[t], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(wv_thread_pool_run(c.crew, 4, call_again, &c), 0);
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(c.own[k].done[i], 1);
    wv_thread_pool_free(c.crew);
}

/* A child of the process has none of its threads: it does all tasks itself, and has none to wait
 * for. Returns how it ended. */
static int work_in_child(wv_thread_pool *crew)
{
    static counts c;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        bool all = true;
        alarm(300);
        c = (counts){.workers = 1};
        all = wv_thread_pool_run(crew, TASKS, count, &c) == 0 && !c.wrong;
        for (size_t i = 0; i < TASKS; i++)
            all = all && c.done[i] == 1;
        wv_thread_pool_free(crew);
        _exit(all ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* A task in the middle of which the process has a child. */
static int fork_once(void *context, size_t index, unsigned worker)
{
    (void)worker;
    return index == 1 ? work_in_child(context) : 0;
}

static void children_work_alone(void **state)
{
    (void)state;
    static counts c;
    wv_thread_pool *crew = wv_thread_pool_new(4);
    for (int used = 0; used < 2; used++) {
        assert_int_equal(work_in_child(crew), 0);
        c = (counts){.workers = 4};
        assert_int_equal(wv_thread_pool_run(crew, TASKS, count, &c), 0);
    }
    assert_int_equal(wv_thread_pool_run(crew, 4, fork_once, crew), 0);
    wv_thread_pool_free(crew);
}

/* The same bits from fewer threads than asked for; and a fit that is thrown away before it has begun. */
static void fits_without_threads(void **state)
{
    (void)state;
    const way w = {"no threads",     &mixture,     WVGD_JOINT,   6,    0, WVGD_FULL, WVGD_HARD,
                   WVGD_MAHALANOBIS, WVGD_NATURAL, WVGD_MIXTURE, false};
    const size_t look[LOOKS] = {3, 5, 7};
    saved one[LOOKS], other[LOOKS];
    run(&w, 1, look, one);
    for (int most = 0; most < 3; most++) {
        startable = most;
        run(&w, 4, look, other);
        startable = 1 << 20;
        for (size_t k = 0; k < LOOKS; k++) {
            assert_same(&w, (size_t)most, look[k], &one[k], &other[k]);
            free(other[k].bytes);
        }
        wvgd_free(make(&w, 4));
    }
    for (size_t k = 0; k < LOOKS; k++)
        free(one[k].bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_without_room), cmocka_unit_test(every_task_once),
        cmocka_unit_test(workers_with_arenas),  cmocka_unit_test(threads_that_do_not_start),
        cmocka_unit_test(joint_fits),           cmocka_unit_test(staged_fits),
        cmocka_unit_test(callback_costs),       cmocka_unit_test(fits_without_threads),
        cmocka_unit_test(several_callers),      cmocka_unit_test(children_work_alone),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
