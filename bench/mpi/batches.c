/* batches.c - what sharing batches among ranks takes. Its model is a Gaussian with a banded precision and scales from
 * 0.1 to 10, a point of which takes so many microseconds: they are slept, so ranks that share a core behave as if each
 * had its own.
 *     mpirun -n K batches D MICROSECONDS [trace [MIN-BATCH]]
 *                                                  fits it; rank 0 prints a line of JSON: ranks, batches, messages,
 *                                                  bytes, seconds waited for others, a hash of the draws; with trace
 *                                                  also stage, points, gradient and the engine's seconds of each batch
 *     mpirun -n 2 batches ping                     prints latency, bandwidth and the time in which a rank that has
 *                                                  waited long takes note of a message, as mpi/ranks.c waits */
#define _GNU_SOURCE
#include "../../mpi/ranks.h"
#include "../../mpi/split.h"
#include "wvgd.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 400, LARGE = 1 << 22 };

static struct {
    size_t D, min_batch;
    double microseconds;
} it;

static void die(const char *why)
{
    fprintf(stderr, "batches: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 70);
    exit(70);
}

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    if (seconds > 0)
        nanosleep(&t, NULL);
}

/* x_d = z_d / s_d, log p = -(x' T x) / 2, T having 1.3 on its diagonal and 0.5 beside it. */
static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    size_t D = it.D;
    pause_for(1e-6 * it.microseconds * (double)n);
    for (size_t i = 0; i < n; i++) {
        const double *p = z + i * D;
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            double s = pow(10, 2 * (double)d / (double)D - 1),
                   left = d ? pow(10, 2 * (double)(d - 1) / (double)D - 1) : 1,
                   right = pow(10, 2 * (double)(d + 1) / (double)D - 1),
                   row = 1.3 * p[d] / s + (d ? 0.5 * p[d - 1] / left : 0) + (d + 1 < D ? 0.5 * p[d + 1] / right : 0);
            log_p[i] -= 0.5 * row * p[d] / s;
            if (grad)
                grad[i * D + d] = -row / s;
        }
    }
    return 0;
}

static uint64_t hash(size_t n, const double *x, uint64_t h)
{
    const unsigned char *byte = (const unsigned char *)x;
    for (size_t i = 0; i < n * sizeof *x; i++)
        h = (h ^ byte[i]) * 1099511628211u;
    return h;
}

static void print_results(const ranks *r, const wvgd_fit *fit, double seconds, size_t batches)
{
    wvgd_results found;
    size_t n;
    const double *z, *log_p, *log_w;
    wvgd_error error;
    wvgd_get_results(fit, &found);
    if (wvgd_draws(fit, &n, &z, &log_p, &log_w, NULL, &error))
        die(error.text);
    uint64_t h = hash(n, log_w, hash(n * it.D, z, 14695981039346656037u));
    printf(
        "{\"ranks\": %d, \"dim\": %zu, \"microseconds\": %g, \"batches\": %zu, \"shared\": %llu, \"evaluations\": %zu, "
        "\"widened\": %zu, "
        "\"messages\": %llu, \"bytes\": %llu, \"wait\": %.6f, \"seconds\": %.6f, \"hash\": \"%016llx\"}\n",
        r->count, it.D, it.microseconds, batches, r->seen.shared, found.evaluations, found.widened, r->seen.messages,
        r->seen.bytes, r->seen.wait, seconds, (unsigned long long)h);
}

static void run(ranks *r, const wvgd_model *model, bool trace)
{
    wvgd_options o;
    wvgd_error error = {WVGD_OK, "no memory"};
    wvgd_options_init(&o);
    o.max_evaluations = 20000;
    o.min_batch = it.min_batch;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    double *log_p = NULL, *grad = NULL, begin = MPI_Wtime(), engine = cpu();
    size_t room = 0, batches = 0;
    while (fit) {
        size_t n;
        const double *z;
        bool gradient;
        wvgd_progress p;
        wvgd_get_progress(fit, &p);
        if (wvgd_ask(fit, &n, &z, &gradient, &error))
            die(error.text);
        if (!n)
            break;
        if (n > room) {
            free(log_p);
            free(grad);
            room = n;
            log_p = malloc(room * sizeof *log_p);
            grad = malloc(room * it.D * sizeof *grad);
        }
        if (trace)
            printf("{\"stage\": \"%s\", \"points\": %zu, \"gradient\": %d, \"engine\": %.7f}\n", p.stage, n, gradient,
                   cpu() - engine);
        if (!log_p || !grad || model->log_density(model->self, n, z, log_p, gradient ? grad : NULL))
            die("the model fails");
        engine = cpu();
        if (wvgd_tell(fit, log_p, gradient ? grad : NULL, &error))
            die(error.text);
        batches++;
    }
    if (!fit)
        die(error.text);
    print_results(r, fit, MPI_Wtime() - begin, batches);
    wvgd_free(fit);
    free(log_p);
    free(grad);
}

static void fit_it(ranks *r, bool trace)
{
    wvgd_model own = {.name = "band", .dim = it.D, .log_density = log_density, .has_gradient = true}, pooled, shared;
    if (wvgd_model_threads(&pooled, &own, 1))
        die("no memory");
    if (r->rank)
        split_serve(&pooled, r);
    else if (split_open(&shared, &pooled, false, NULL, r))
        die("no memory");
    else {
        run(r, &shared, trace);
        wvgd_model_close(&shared);
    }
    wvgd_model_close(&pooled);
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median of half a round trip of n numbers; the other rank has waited so many seconds before. */
static double half_trip(ranks *r, double *buffer, size_t n, double idle, int turns)
{
    double took[TURNS];
    for (int i = 0; i < turns; i++) {
        double begin;
        if (r->rank) {
            ranks_idle(r, buffer, n, MPI_DOUBLE);
            ranks_send(r, 0, buffer, n, MPI_DOUBLE);
            continue;
        }
        pause_for(idle);
        begin = MPI_Wtime();
        ranks_send(r, 1, buffer, n, MPI_DOUBLE);
        ranks_receive(r, 1, buffer, n, MPI_DOUBLE);
        took[i] = (MPI_Wtime() - begin) / 2;
    }
    qsort(took, r->rank ? 0 : (size_t)turns, sizeof *took, compare);
    return r->rank ? 0 : took[turns / 2];
}

static void ping(ranks *r)
{
    double *buffer = calloc(LARGE, sizeof *buffer);
    if (!buffer || r->count != 2)
        die("ping takes two ranks");
    double latency = half_trip(r, buffer, 1, 0, TURNS), large = half_trip(r, buffer, LARGE, 0, 20),
           asleep = half_trip(r, buffer, 1, 0.02, 100);
    if (!r->rank)
        printf("{\"latency\": %.9f, \"bandwidth\": %.6g, \"wake\": %.9f}\n", latency,
               LARGE * sizeof *buffer / (large - latency), 2 * (asleep - latency));
    free(buffer);
}

int main(int argc, char **argv)
{
    ranks r;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    ranks_open(&r);
    if (argc == 2 && !strcmp(argv[1], "ping"))
        ping(&r);
    else if (argc >= 3 && (it.D = strtoull(argv[1], NULL, 10)) > 0) {
        it.microseconds = strtod(argv[2], NULL);
        it.min_batch = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
        fit_it(&r, argc > 3);
    } else
        die("D MICROSECONDS [trace [MIN-BATCH]], or ping");
    MPI_Finalize();
    return 0;
}
