/* ranked.c - a model that does something to one process of several. Its configuration is "WHAT RANK CALL
 * MICROSECONDS": in that call, on that rank, it fails ("fail"), ends the process ("exit", "kill"), never answers
 * ("hang"), cannot be opened ("refuse"), or has another dimension ("other"); "none" does nothing of the kind. A point
 * takes so many microseconds. Its density is a mixture of two Gaussians in three dimensions. */
#include "wvgd_model.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);

enum { D = 3 };

static struct {
    char what[16];
    int rank, call, microseconds, calls;
} it;

static int my_rank(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

static int misbehave(void)
{
    printf("a model that prints\n");
    if (!strcmp(it.what, "exit"))
        exit(0);
    if (!strcmp(it.what, "kill"))
        raise(SIGKILL);
    while (!strcmp(it.what, "hang"))
        pause();
    return !strcmp(it.what, "fail") ? 5 : 0;
}

static double component(const double *z, double centre, double *slope)
{
    double square = 0;
    for (int d = 0; d < D; d++) {
        slope[d] = -(z[d] - centre) * (d + 1);
        square += (z[d] - centre) * (z[d] - centre) * (d + 1);
    }
    return -square / 2;
}

static void evaluate(const double *z, double *log_p, double *grad)
{
    double slope[2][D], a = component(z, 0, slope[0]), b = component(z, 8, slope[1]) - 1, top = fmax(a, b),
                        sum = exp(a - top) + exp(b - top);
    *log_p = top + log(sum);
    for (int d = 0; grad && d < D; d++)
        grad[d] = (exp(a - top) * slope[0][d] + exp(b - top) * slope[1][d]) / sum;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    struct timespec time = {0, 1000L * it.microseconds * (long)n % 1000000000L};
    if (++it.calls == it.call && my_rank() == it.rank) {
        int code = misbehave();
        if (code)
            return code;
    }
    if (it.microseconds)
        nanosleep(&time, NULL);
    for (size_t i = 0; i < n; i++)
        evaluate(z + i * D, log_p + i, grad ? grad + i * D : NULL);
    return 0;
}

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size)
{
    if (!config || sscanf(config, "%15s %d %d %d", it.what, &it.rank, &it.call, &it.microseconds) != 4) {
        snprintf(error, error_size, "expected WHAT RANK CALL MICROSECONDS");
        return 1;
    }
    if (!strcmp(it.what, "refuse") && my_rank() == it.rank) {
        snprintf(error, error_size, "there is no such file on this machine");
        return 1;
    }
    size_t more = !strcmp(it.what, "other") && my_rank() == it.rank;
    *model = (wvgd_model){.name = "ranked", .dim = D + more, .log_density = log_density, .has_gradient = true};
    return 0;
}
