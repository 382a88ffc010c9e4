/* rows.c - a model that is a sum over the rows of a file, which several machines can share:
 *
 *     cc -shared -fPIC -Iinclude -o rows.so examples/rows.c -lm
 *     wvgd fit ./rows.so --data times.csv --out run
 *     mpirun -n 16 wvgd-mpi fit ./rows.so --data times.csv --shard rows --out run
 *
 * Of the last two columns, x and y, y_i is exponential with rate exp(a + b (x_i - mean of x)); a and b are N(0, 5^2).
 *
 * For --shard rows an object exports wvgd_model_open_shard, and declares by it that the log densities that it opens for
 * all shares sum to that of all rows. So each share has the likelihood of its own rows, share 0 has the prior, and what
 * depends on all rows, here the mean of x, is agreed on with shard->sum. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wvgd_model.h>

enum { D = 2 };
static const double prior_sd = 5;

typedef struct {
    size_t rows;
    int prior;   /* this share has it */
    double xy[]; /* [rows][2] x less the mean of all rows, and y */
} table;

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const table *t = self;
    for (size_t k = 0; k < n; k++) {
        double a = z[D * k], b = z[D * k + 1], p = 0, by_a = 0, by_b = 0;
        for (size_t i = 0; i < t->rows; i++) {
            double x = t->xy[2 * i], y = t->xy[2 * i + 1], eta = a + b * x, slope = 1 - y * exp(eta);
            p += eta - y * exp(eta);
            by_a += slope;
            by_b += slope * x;
        }
        log_p[k] = p;
        if (t->prior)
            log_p[k] -= (a * a + b * b) / (2 * prior_sd * prior_sd) + log(2 * M_PI * prior_sd * prior_sd);
        if (grad) {
            grad[D * k] = by_a - t->prior * a / (prior_sd * prior_sd);
            grad[D * k + 1] = by_b - t->prior * b / (prior_sd * prior_sd);
        }
    }
    return 0;
}

/* The last two numbers of a line. 0, or -1: they are none. */
static int read_row(const char *line, double xy[2])
{
    const char *end = line + strcspn(line, "\r\n"), *at = end;
    for (int commas = 0; at > line && (at[-1] != ',' || commas++ < 1); at--)
        ;
    return sscanf(at, "%lf,%lf", &xy[0], &xy[1]) == 2 && xy[1] >= 0 ? 0 : -1;
}

/* The rows after the header; NULL: no memory, or *bad is a line that cannot be read. */
static table *read_rows(const char *text, const char **bad)
{
    size_t lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    table *t = malloc(sizeof *t + 2 * (lines + 1) * sizeof *t->xy);
    *bad = NULL;
    if (!t)
        return NULL;
    t->rows = 0;
    for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        if (read_row(line + 1, t->xy + 2 * t->rows)) {
            *bad = line + 1;
            free(t);
            return NULL;
        }
        t->rows++;
    }
    return t;
}

static int open_rows(wvgd_model *model, const char *config, const wvgd_shard *shard, char *error, size_t error_size)
{
    static const char *const names[] = {"a", "b"};
    const char *bad = NULL;
    table *t = config ? read_rows(config, &bad) : NULL;
    double all[2] = {0, 0}; /* rows and sum of x */
    for (size_t i = 0; t && i < t->rows; i++)
        all[1] += t->xy[2 * i];
    all[0] = t ? (double)t->rows : 0;
    /* every share calls sum equally often, even one that has failed: otherwise the others would wait for it */
    int lost = shard && shard->sum(shard->self, 2, all);
    if (!t || lost || !(all[0] > 0)) {
        snprintf(error, error_size, "%s%.60s", bad ? "expected two numbers at the end of: " : "no rows, or no memory",
                 bad ? bad : "");
        error[strcspn(error, "\r\n")] = '\0';
        free(t);
        return 1;
    }
    for (size_t i = 0; i < t->rows; i++)
        t->xy[2 * i] -= all[1] / all[0];
    t->prior = !shard || shard->index == 0;
    *model = (wvgd_model){.name = "rows",
                          .dim = D,
                          .names = names,
                          .log_density = log_density,
                          .self = t,
                          .has_gradient = true,
                          .thread_safe = true,
                          .close = free};
    return 0;
}

/* All rows: `wvgd fit`. */
int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);
int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size)
{
    return open_rows(model, config, NULL, error, error_size);
}

/* A share: `wvgd-mpi fit --shard rows`. */
int wvgd_model_open_shard(wvgd_model *model, const char *config, const wvgd_shard *shard, char *error,
                          size_t error_size);
int wvgd_model_open_shard(wvgd_model *model, const char *config, const wvgd_shard *shard, char *error,
                          size_t error_size)
{
    return open_rows(model, config, shard, error, error_size);
}
