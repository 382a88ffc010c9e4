/* test_small_stack.c - whole fits in threads with 128 KB of stack, as wvgd.h promises: both solvers, every family and
 * cost, samples, other cells from the same draws, a state saved and restored, the baseline. The stack is filled with
 * a pattern first and lies above a page that cannot be touched, so that the test also tells how much was used. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
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

#include "models.h"
#include "support/targets.h"
#include "svgd.h"
#include "wvgd.h"

#ifdef __SANITIZE_ADDRESS__ /* guards in frames */
enum { STACK = 2048 * 1024 };
#else
enum { STACK = 128 * 1024 };
#endif
/* SPARE: what is left of the stack, for models. */
enum { GUARD = 64 * 1024, SPARE = 16 * 1024, PATTERN = 0xA5, SAMPLES = 50, ROOM = 256 };

typedef struct {
    int (*make)(wvgd_model *);
    const char *options, *quantize; /* NAME=VALUE, with blanks between them; NULL: no other cells */
    char complaint[ROOM];           /* empty: all went well */
} job;

/* ---- what is fitted ---------------------------------------------------------------------------------------------- */
static int make_banana(wvgd_model *model)
{
    return target_banana(model, 2, 1, 1);
}

static int make_modes(wvgd_model *model)
{
    return target_mixture_random(model, 2, 3, 4, 5);
}

static int make_wide(wvgd_model *model)
{
    return target_gaussian_random(model, 140, 10, 3, true);
}

static int make_middle(wvgd_model *model)
{
    return target_gaussian_random(model, 100, 10, 3, true);
}

/* Forty rows of three waves, and whether their sum is positive. */
static int make_regression(wvgd_model *model, int kind)
{
    enum { rows = 40, columns = 3 };
    static const char *const names[] = {"a", "b", "c"};
    double X[rows * columns], y[rows];
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < columns; k++)
            sum += X[i * columns + k] = sin((double)((i + 1) * (k + 2)));
        y[i] = kind == 1 ? sum + 0.1 * cos((double)i) : sum + 0.3 * cos(7 * (double)i) > 0;
    }
    const wv_regression data = {rows, columns, X, y, names, true, true, 1, NULL, false, NULL};
    return kind == 0   ? wv_model_logistic(model, &data)
           : kind == 1 ? wv_model_linear(model, &data)
                       : wv_model_bnn(model, &data, 2, true);
}

static int make_logistic(wvgd_model *model)
{
    return make_regression(model, 0);
}

static int make_linear(wvgd_model *model)
{
    return make_regression(model, 1);
}

static int make_network(wvgd_model *model)
{
    return make_regression(model, 2);
}

static int make_process(wvgd_model *model)
{
    enum { n = 20 };
    double t[n], y[n];
    for (size_t i = 0; i < n; i++) {
        t[i] = (double)i / 6;
        y[i] = cos(6 * t[i]) * exp(-t[i] / 4) + 0.1 * sin(1000 * t[i]);
    }
    const wv_gp_prior prior = {{0, 0, 0, -3}, {1, 0.5, 1, 1}};
    return wv_model_gp(model, n, t, y, &prior);
}

/* ---- a whole fit ------------------------------------------------------------------------------------------------- */
static wvgd_options set_options(const char *first, const char *second)
{
    wvgd_options o;
    wvgd_options_init(&o);
    const char *texts[] = {first, second};
    for (size_t t = 0; t < 2 && texts[t]; t++) {
        char copy[ROOM], *rest = NULL;
        strncpy(copy, texts[t], sizeof copy - 1);
        copy[sizeof copy - 1] = '\0';
        for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            char *value = strchr(word, '=');
            *value++ = '\0';
            wvgd_options_set(&o, word, value, NULL);
        }
    }
    if (o.cost == WVGD_CALLBACK)
        o.cost_function = target_smooth_cost;
    return o;
}

/* A state saved now, restored into a fit of its own. */
static wvgd_status copy_state(const wvgd_fit *from, wvgd_fit *to, wvgd_error *error)
{
    size_t size = wvgd_save_size(from);
    void *bytes = malloc(size);
    wvgd_status status = bytes ? wvgd_save(from, bytes, size, error) : WVGD_E_MEMORY;
    if (status == WVGD_OK)
        status = wvgd_restore(to, bytes, size, error);
    free(bytes);
    return status;
}

/* What can be asked of a fit that has ended. */
static wvgd_status use(const wvgd_fit *fit, wvgd_error *error)
{
    wvgd_results r;
    wvgd_get_results(fit, &r);
    double *z = malloc(SAMPLES * (r.D + 1) * sizeof *z);
    size_t cell[SAMPLES];
    wvgd_status status = z ? wvgd_sample(fit, 1, SAMPLES, z, cell, error) : WVGD_E_MEMORY;
    if (status == WVGD_OK)
        status = wvgd_log_q(fit, SAMPLES, z, z + SAMPLES * r.D, error);
    if (status == WVGD_OK)
        status = wvgd_cell(fit, SAMPLES, z, cell, error);
    if (status == WVGD_OK)
        status = wvgd_resample(fit, 1, SAMPLES, z, cell, error);
    free(z);
    return status;
}

static wvgd_status fit_all(const job *j, const wvgd_model *model, wvgd_error *error)
{
    wvgd_options o = set_options(j->options, NULL), other = set_options(j->options, j->quantize);
    wvgd_fit *begun = wvgd_new(model, &o, NULL, error), *fit = wvgd_new(model, &o, NULL, error), *cells = NULL;
    wvgd_status status = begun && fit ? WVGD_OK : error->code;
    for (int i = 0; i < 3 && status == WVGD_OK; i++)
        status = wvgd_step(begun, error);
    if (status == WVGD_OK)
        status = copy_state(begun, fit, error);
    if (status == WVGD_OK)
        status = wvgd_run(fit, NULL, NULL, error);
    if (status == WVGD_OK)
        status = use(fit, error);
    if (status == WVGD_OK && j->quantize) {
        cells = wvgd_quantize(fit, &other, error);
        status = cells ? wvgd_run(cells, NULL, NULL, error) : error->code;
        if (status == WVGD_OK)
            status = use(cells, error);
    }
    wvgd_free(cells);
    wvgd_free(fit);
    wvgd_free(begun);
    return status;
}

static void *fit_in_thread(void *self)
{
    job *j = self;
    wvgd_model model;
    wvgd_error error = {WVGD_OK, ""};
    if (j->make(&model)) {
        strcpy(j->complaint, "no model");
        return NULL;
    }
    if (fit_all(j, &model, &error) != WVGD_OK)
        strcpy(j->complaint, *error.text ? error.text : "failed");
    wvgd_model_close(&model);
    return NULL;
}

static void *descend_in_thread(void *self)
{
    job *j = self;
    svgd_options o;
    wvgd_model model;
    svgd_options_init(&o);
    o.particles = 40;
    if (j->make(&model)) {
        strcpy(j->complaint, "no model");
        return NULL;
    }
    double *z = calloc(o.particles * model.dim, sizeof *z);
    for (size_t i = 0; z && i < o.particles * model.dim; i++)
        z[i] = sin((double)i);
    svgd *s = z ? svgd_new(&model, &o, z) : NULL;
    for (int i = 0; s && i < 20; i++)
        if (svgd_step(s))
            strcpy(j->complaint, "no step");
    if (!s)
        strcpy(j->complaint, "no baseline");
    svgd_free(s);
    free(z);
    wvgd_model_close(&model);
    return NULL;
}

/* ---- small stacks ------------------------------------------------------------------------------------------------ */
/* Runs the work in a thread with a stack of STACK bytes; how many of them it has touched. */
static size_t bytes_used(void *(*work)(void *), job *j)
{
    unsigned char *memory = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
                                 -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory, GUARD, PROT_NONE), 0);
    unsigned char *stack = memory + GUARD;
    memset(stack, PATTERN, STACK);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work, j), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    size_t untouched = 0;
    while (untouched < STACK && stack[untouched] == PATTERN)
        untouched++;
    munmap(memory, GUARD + STACK);
    return STACK - untouched;
}

static void check(void *(*work)(void *), job *j)
{
    size_t used = bytes_used(work, j);
    if (*j->complaint)
        fail_msg("%s: %s", j->options, j->complaint);
    print_message("%6zu bytes: %s\n", used, j->options);
    if (used > STACK - SPARE)
        fail_msg("%s: %zu bytes of stack", j->options, used);
}

static void fits(void **state)
{
    (void)state;
    job jobs[] = {
        {make_banana, "particles=4 cost=own", "particles=3 cost=sqeuclid family=diag", ""},
        {make_modes, "particles=5 family=diag cost=sqeuclid", "particles=2 cost=l1", ""},
        {target_skewed, "particles=3 family=lowrank rank=2 cost=l1", NULL, ""},
        {target_skewed, "particles=3 cells=soft cost=lp power=1.5", NULL, ""},
        {make_modes, "particles=3 cost=callback", NULL, ""},
        {make_modes, "particles=60 cost=mahalanobis", NULL, ""},
        {make_logistic, "particles=2", NULL, ""},
        {make_linear, "particles=2", NULL, ""},
        {make_network, "particles=2 components=3 starts=8 max-iter=20", NULL, ""},
        {make_process, "particles=2 init=prior", NULL, ""},
        {make_middle, "particles=2 starts=2", NULL, ""},
        {make_wide, "particles=2 starts=2", NULL, ""},
        {make_modes, "solver=joint particles=2 max-iter=30 cost=own", NULL, ""},
        {make_modes, "solver=joint particles=3 family=diag max-iter=30", NULL, ""},
        {make_modes, "solver=joint particles=3 family=lowrank rank=1 cells=soft cost=sqeuclid max-iter=30", NULL, ""},
        {make_banana, "solver=joint particles=3 family=diag estimator=score cost=l1 init=normal max-iter=30", NULL, ""},
        {make_modes, "solver=joint particles=3 estimator=reparam sampler=reject cost=lp max-iter=30", NULL, ""},
        {make_modes, "solver=joint particles=3 cost=callback max-iter=20", NULL, ""},
        {make_middle, "solver=joint particles=2 init=normal max-iter=3", NULL, ""},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        check(fit_in_thread, &jobs[i]);
}

/* The threads of a fit have the stacks that threads of the process have. */
static void workers(void **state)
{
    (void)state;
    pthread_attr_t usual, small;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, STACK), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    job jobs[] = {{target_skewed, "particles=3 family=full threads=2 cost=sqeuclid", NULL, ""},
                  {make_middle, "particles=2 starts=2 threads=2", NULL, ""},
                  {make_modes, "solver=joint particles=3 family=diag max-iter=20 threads=2", NULL, ""}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        check(fit_in_thread, &jobs[i]);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&usual);
}

static void baseline(void **state)
{
    (void)state;
    job j = {make_banana, "svgd", NULL, ""};
    check(descend_in_thread, &j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits),
        cmocka_unit_test(workers),
        cmocka_unit_test(baseline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
