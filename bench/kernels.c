/* kernels.c - points a second of the built-in models, one thread and two, and of logistic regression also against
 * the limit (kernels/limit.h), measured by turns in one process.
 *     kernels [--quick]
 * prints lines "name<TAB>value". One-thread figures are by the thread's own clock, so that other
 * processes disturb them little; those with two threads by the wall's. Of the repeats the best counts,
 * and of ratios the median over repeats. */
#include "../models/models.h"
#include "../models/pass.h"
#include "ascending.h"
#include "kernels/limit.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_REPEATS = 101 };
static const char *const NO_NAME = "x";
static double work_time = 0.1; /* seconds of a measurement, about */
static int repeats = 21;

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t n, size_t size)
{
    void *p = aligned_alloc(64, (n * size + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "kernels: no memory\n");
        exit(70);
    }
    memset(p, 0, n * size);
    return p;
}

/* Roughly normal numbers that are the same everywhere. */
static double noise(void)
{
    static uint64_t s = 1;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(s >> 11) * 0x1p-53 - 0.5;
    }
    return sum * 1.7320508075688772;
}

static double *noises(size_t n, double scale)
{
    double *x = allocate(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = scale * noise();
    return x;
}

/* What is measured: a batch of points. */
typedef struct {
    wvgd_model *model;
    size_t n;
    double *z, *log_p, *grad;
    clockid_t clock;
} batch;

typedef struct {
    size_t rows, D, block, n;
    double *X, *w, *log_p, *grad, *S;
    bool passes;
} bound;

static void run_batch(void *self)
{
    batch *b = self;
    b->model->log_density(b->model->self, b->n, b->z, b->log_p, b->grad);
}

static void run_bound(void *self)
{
    bound *b = self;
    for (size_t i = 0; i < b->n; i += LIMIT_POINTS)
        limit_evaluate(b->rows, b->D, b->block, b->X, b->w, b->log_p, b->grad, b->S, b->passes);
}

typedef struct {
    void (*run)(void *);
    void *self;
    clockid_t clock;
    size_t points;
    int calls;                 /* of one measurement */
    double rate[MOST_REPEATS]; /* points a second */
} contest;

/* All of them by turns, `repeats` times. */
static void measure(size_t n, contest *c)
{
    for (size_t k = 0; k < n; k++) {
        c[k].run(c[k].self);
        double t = clock_of(CLOCK_MONOTONIC);
        c[k].run(c[k].self);
        t = clock_of(CLOCK_MONOTONIC) - t;
        c[k].calls = t > 0 && work_time / t < 1e6 ? (int)(work_time / t) + 1 : 1;
    }
    for (int i = 0; i < repeats; i++)
        for (size_t k = 0; k < n; k++) {
            double t = clock_of(c[k].clock);
            for (int j = 0; j < c[k].calls; j++)
                c[k].run(c[k].self);
            t = clock_of(c[k].clock) - t;
            c[k].rate[i] = (double)c[k].points * c[k].calls / t;
        }
}

static double median_ratio(const contest *a, const contest *b)
{
    double ratio[MOST_REPEATS];
    for (int i = 0; i < repeats; i++)
        ratio[i] = a->rate[i] / b->rate[i];
    qsort(ratio, (size_t)repeats, sizeof *ratio, ascending);
    return ratio[repeats / 2];
}

static double best(const contest *c)
{
    double most = 0;
    for (int i = 0; i < repeats; i++)
        most = fmax(most, c->rate[i]);
    return most;
}

static void tell(const char *model, const char *size, const char *what, double value)
{
    printf("%s %s %s\t%.9g\n", model, size, what, value);
    fflush(stdout);
}

/* n points with a gradient; *threaded in two threads. */
static void measure_model(const char *name, const char *size, wvgd_model *model, size_t n, double spread, bound *limit)
{
    wvgd_model threaded;
    size_t D = model->dim;
    batch b = {model,
               n,
               noises(n * D, spread),
               allocate(n, sizeof(double)),
               allocate(n * D, sizeof(double)),
               CLOCK_THREAD_CPUTIME_ID},
          wall = b, two = b;
    if (wvgd_model_threads(&threaded, model, 2)) {
        fprintf(stderr, "kernels: no memory\n");
        exit(70);
    }
    two.model = &threaded;
    bound products;
    contest c[5] = {{.run = run_batch, .self = &b, .clock = CLOCK_THREAD_CPUTIME_ID, .points = n},
                    {.run = run_batch, .self = &wall, .clock = CLOCK_MONOTONIC, .points = n},
                    {.run = run_batch, .self = &two, .clock = CLOCK_MONOTONIC, .points = n}};
    size_t contests = 3;
    if (limit) {
        products = *limit;
        products.passes = false;
        limit->n = products.n = n;
        c[contests++] = (contest){.run = run_bound, .self = &products, .clock = CLOCK_THREAD_CPUTIME_ID, .points = n};
        if (limit_there())
            c[contests++] = (contest){.run = run_bound, .self = limit, .clock = CLOCK_THREAD_CPUTIME_ID, .points = n};
    }
    measure(contests, c);
    tell(name, size, "points/s", best(&c[0]));
    tell(name, size, "two threads / one", median_ratio(&c[2], &c[1]));
    if (limit)
        tell(name, size, "of the two products alone", median_ratio(&c[0], &c[3]));
    if (limit && limit_there()) {
        tell(name, size, "limit points/s", best(&c[4]));
        tell(name, size, "of the limit", median_ratio(&c[0], &c[4]));
    }
    wvgd_model_close(&threaded);
    free(b.z);
    free(b.log_p);
    free(b.grad);
}

/* As many rows as keep a product small, like the model's own. */
static size_t rows_of_block(size_t D)
{
    size_t block = 1000000 / D / LIMIT_POINTS / 8 * 8;
    return block < 48 ? 48 : block > 512 ? 512 : block;
}

static wv_regression make_rows(size_t rows, size_t columns, bool binary)
{
    double *X = noises(rows * columns, 1.0), *y = allocate(rows, sizeof *y);
    const char **names = allocate(columns, sizeof *names);
    for (size_t i = 0; i < rows; i++) {
        double f = X[i * columns] - 0.5 * X[i * columns + columns - 1] + noise();
        y[i] = binary ? f > 0 : f;
    }
    for (size_t d = 0; d < columns; d++)
        names[d] = NO_NAME;
    return (wv_regression){rows, columns, X, y, names, true, true, 1.0, NULL, false, NULL};
}

static void free_rows(wv_regression *data)
{
    free((void *)(uintptr_t)data->X);
    free((void *)(uintptr_t)data->y);
    free((void *)(uintptr_t)data->names);
}

static void fail_if(int status, const char *name)
{
    if (status) {
        fprintf(stderr, "kernels: no model %s\n", name);
        exit(70);
    }
}

/* rows x D with the intercept. */
static void measure_logistic(size_t rows, size_t D, size_t n)
{
    char size[64];
    wvgd_model model;
    wv_regression data = make_rows(rows, D - 1, true);
    fail_if(wv_model_logistic(&model, &data), "logistic");
    free_rows(&data);
    size_t block = rows_of_block(D);
    bound limit = {.rows = rows,
                   .D = D,
                   .block = block,
                   .X = noises(rows * D, 1.0),
                   .w = noises(D * LIMIT_POINTS, 0.3),
                   .passes = true};
    limit.log_p = allocate(LIMIT_POINTS, sizeof(double));
    limit.grad = allocate(D * LIMIT_POINTS, sizeof(double));
    limit.S = allocate(block * LIMIT_POINTS, sizeof(double));
    snprintf(size, sizeof size, "%zux%zu", rows, D);
    measure_model("logistic", size, &model, n, 0.3, &limit);
    wvgd_model_close(&model);
    free(limit.X);
    free(limit.w);
    free(limit.log_p);
    free(limit.grad);
    free(limit.S);
}

static void measure_bnn(size_t rows, size_t columns, size_t hidden, size_t n)
{
    char size[64];
    wvgd_model model;
    wv_regression data = make_rows(rows, columns, true);
    fail_if(wv_model_bnn(&model, &data, hidden, true), "bnn");
    free_rows(&data);
    snprintf(size, sizeof size, "%zux%zu,H=%zu", rows, columns, hidden);
    measure_model("bnn", size, &model, n, 0.5, NULL);
    wvgd_model_close(&model);
}

static void measure_gp(size_t times, size_t n)
{
    char size[64];
    wvgd_model model;
    wv_gp_prior prior = {{0, -2, 2, -2}, {0.5, 0.5, 0.5, 0.5}};
    double *t = allocate(times, sizeof *t), *y = noises(times, 1.0);
    for (size_t i = 0; i < times; i++)
        t[i] = (double)i;
    fail_if(wv_model_gp(&model, times, t, y, &prior), "gp");
    snprintf(size, sizeof size, "%zu", times);
    measure_model("gp", size, &model, n, 0.3, NULL);
    wvgd_model_close(&model);
    free(t);
    free(y);
}

static void measure_mixture(size_t K, size_t D, size_t n)
{
    char size[64];
    wvgd_model model;
    double *weight = allocate(K, sizeof *weight), *mean = noises(K * D, 5.0), *cov = allocate(K * D * D, sizeof *cov);
    for (size_t k = 0; k < K; k++) {
        weight[k] = 1.0 / (double)K;
        for (size_t d = 0; d < D * D; d++)
            cov[k * D * D + d] = d / D == d % D ? 1.0 : 0.3;
    }
    fail_if(wv_model_mixture(&model, D, K, weight, mean, cov), "mixture");
    snprintf(size, sizeof size, "K=%zu,D=%zu", K, D);
    measure_model("mixture", size, &model, n, 5.0, NULL);
    wvgd_model_close(&model);
    free(weight);
    free(mean);
    free(cov);
}

int main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--quick"))) {
        fprintf(stderr, "usage: kernels [--quick]\n");
        return 64;
    }
    if (argc == 2) {
        work_time = 0.01;
        repeats = 7;
    }
    printf("instruction set\t%s\nSLEEF\t%s\n", wv_pass_best()->name, limit_name());
    measure_logistic(569, 31, 1024);
    measure_logistic(20000, 100, 256);
    measure_logistic(3000, 1000, 256);
    measure_bnn(506, 13, 20, 512);
    measure_bnn(20000, 50, 50, 128);
    measure_gp(114, 128);
    measure_gp(400, 64);
    measure_mixture(5, 10, 1024);
    measure_mixture(10, 100, 512);
    return 0;
}
