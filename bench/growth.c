/* growth.c - how the time of an iteration grows: with the number of particles N, of draws M of each, of dimensions D
 * (diagonal components, the paper's dynamics, a target that costs next to nothing), and with the rows of a logistic
 * regression; and how much less of it two threads take.
 *     growth [--quick]
 *     growth DRAWS DIMENSIONS       only with N, for so many draws of each particle and so many dimensions
 * prints lines "name<TAB>value". Times are of the thread's own clock, but for those of threads; of several
 * iterations the shortest counts. The excess of a series is the largest factor by which time grew more than size
 * did, from any one of its sizes to any larger: 1 or less is linear or better. */
#include "../models/models.h"
#include "wvgd.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST = 16 };
static bool quick;
static size_t threads = 1;
static clockid_t watch = CLOCK_THREAD_CPUTIME_ID;

static double now(void)
{
    struct timespec t;
    clock_gettime(watch, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *why)
{
    fprintf(stderr, "growth: %s\n", why);
    exit(70);
}

/* Nearly normal, with sds between 1 and 2; not quite, for with a normal one particle would be done after two
 * iterations, both of which take longer than those that follow. */
static int target(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    size_t D = *(size_t *)self;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t d = 0; d < D; d++) {
            double precision = 1.0 / (1.0 + (double)(d % 4)), x = z[i * D + d];
            sum -= precision * x * x * (0.5 + 0.01 * precision * x * x);
            if (grad)
                grad[i * D + d] = -precision * x * (1 + 0.04 * precision * x * x);
        }
        log_p[i] = sum;
    }
    return 0;
}

/* Seconds of an iteration of N M points, and that number in *points. */
static double time_iteration(const wvgd_model *model, size_t N, size_t M, double *points)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_progress before, after;
    double best = INFINITY, spent = 0;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.family = WVGD_DIAG;
    o.cost = WVGD_SQEUCLID;
    o.init = WVGD_INIT_NORMAL;
    o.particles = N;
    o.draws = M;
    o.threads = threads;
    o.tol = 1e-8; /* it goes on */
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    if (!fit)
        die(error.text);
    for (int i = 0, timed = 0, begun = 0; (timed < (quick ? 3 : 9) || spent < (quick ? 0.05 : 0.3)) && i < 400 &&
                                          (timed == 0 || spent < (quick ? 2.0 : 20.0));
         i++) {
        wvgd_get_progress(fit, &before);
        double t = now();
        if (wvgd_step(fit, &error) != WVGD_OK)
            die(error.text);
        t = now() - t;
        wvgd_get_progress(fit, &after);
        if (strcmp(before.stage, "pilot") == 0) /* the same for all N */
            continue;
        if (N > 1 && strcmp(before.stage, "fit") != 0) /* particles that are at rest take less time */
            break;
        spent += t;
        begun++;
        /* not in its stride yet (particles that still lie apart have proposals of their own), or not an iteration */
        if (begun <= (N > 1 ? 12 : 3) || after.evaluations != before.evaluations + N * M)
            continue;
        timed++;
        best = fmin(best, t);
        *points = (double)(after.evaluations - before.evaluations);
    }
    wvgd_free(fit);
    if (!(best < INFINITY))
        die("no iteration was seen");
    return best;
}

typedef struct {
    size_t n;
    double size[MOST], seconds[MOST];
} series;

static void add(series *s, const char *name, const char *what, size_t value, double size, double seconds, double points)
{
    s->size[s->n] = size;
    s->seconds[s->n++] = seconds;
    printf("%s %s=%zu ms/iteration\t%.6g\n%s %s=%zu points\t%.0f\n", name, what, value, 1e3 * seconds, name, what,
           value, points);
    fflush(stdout);
}

static void finish(const series *s, const char *name)
{
    double excess = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = i + 1; j < s->n; j++)
            excess = fmax(excess, (s->seconds[j] / s->seconds[i]) / (s->size[j] / s->size[i]));
    size_t last = s->n - 1;
    printf("%s factor of size\t%.6g\n%s factor of time\t%.6g\n%s excess\t%.4g\n", name, s->size[last] / s->size[0],
           name, s->seconds[last] / s->seconds[0], name, excess);
}

/* One of N, M and D takes the values, the others are as given. */
static void grow(const char *name, char which, size_t n, const size_t *value, size_t N, size_t M, size_t D)
{
    series s = {0};
    for (size_t i = 0; i < n; i++) {
        char what[2] = {which, '\0'};
        double points = 0;
        size_t *one = which == 'N' ? &N : which == 'M' ? &M : &D;
        *one = value[i];
        wvgd_model model = {
            .name = "target", .dim = D, .log_density = target, .self = &D, .has_gradient = true, .thread_safe = true};
        double seconds = time_iteration(&model, N, M, &points);
        add(&s, name, what, value[i], points * (double)D, seconds, points);
    }
    finish(&s, name);
}

/* Two threads over one, by the clock on the wall. */
static void speed_up(size_t N, size_t M, size_t D)
{
    wvgd_model model = {
        .name = "target", .dim = D, .log_density = target, .self = &D, .has_gradient = true, .thread_safe = true};
    double points, seconds[2];
    watch = CLOCK_MONOTONIC;
    for (threads = 1; threads <= 2; threads++)
        seconds[threads - 1] = time_iteration(&model, N, M, &points);
    printf("N=%zu D=%zu two threads / one\t%.4g\n", N, D, seconds[0] / seconds[1]);
    fflush(stdout);
    watch = CLOCK_THREAD_CPUTIME_ID;
    threads = 1;
}

static double noise(void)
{
    static uint64_t s = 7;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(s >> 11) * 0x1p-53 - 0.5;
    }
    return sum * 1.7320508075688772;
}

static void grow_rows(const char *name, size_t n, const size_t *rows, size_t columns)
{
    series s = {0};
    size_t most = rows[n - 1];
    double *X = malloc(most * columns * sizeof *X), *y = malloc(most * sizeof *y), points = 0;
    const char **names = malloc(columns * sizeof *names);
    if (!X || !y || !names)
        die("no memory");
    for (size_t i = 0; i < most; i++) {
        for (size_t d = 0; d < columns; d++)
            X[i * columns + d] = noise();
        y[i] = X[i * columns] + noise() > 0;
    }
    for (size_t d = 0; d < columns; d++)
        names[d] = "x";
    for (size_t i = 0; i < n; i++) {
        wvgd_model model;
        wv_regression data = {rows[i], columns, X, y, names, true, true, 1.0, NULL, false, NULL};
        if (wv_model_logistic(&model, &data))
            die("no memory");
        double seconds = time_iteration(&model, 3, 64, &points);
        add(&s, name, "rows", rows[i], points * (double)rows[i], seconds, points);
        wvgd_model_close(&model);
    }
    finish(&s, name);
    free(X);
    free(y);
    free(names);
}

int main(int argc, char **argv)
{
    static const size_t N[] = {1, 3, 10, 30, 100, 300, 1000}, M[] = {64, 640, 6400},
                        D[] = {1, 3, 10, 30, 100, 300, 1000}, rows[] = {50, 500, 5000, 50000, 1000000};
    size_t draws = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, dimensions = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    quick = argc == 2 && !strcmp(argv[1], "--quick");
    if (draws && dimensions) {
        grow("growth with N", 'N', 7, N, 0, draws, dimensions);
        return 0;
    }
    if (argc > 2 || (argc == 2 && !quick)) {
        fprintf(stderr, "usage: growth [--quick | DRAWS DIMENSIONS]\n");
        return 64;
    }
    grow("growth with D", 'D', quick ? 6 : 7, D, 5, 64, 0);
    grow("growth with M", 'M', 3, M, 5, 0, 20);
    grow("growth with N", 'N', quick ? 5 : 7, N, 0, 200, 50);
    grow_rows("growth with rows", quick ? 4 : 5, rows, 20);
    speed_up(1000, 200, 50);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("growth peak RSS MB\t%.1f\n", (double)usage.ru_maxrss / 1024);
    return 0;
}
