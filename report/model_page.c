/* model_page.c - what only some models have to show, from their data file.
 *     gp        the mean and sd of the process at the times of a grid, given the data, for the
 *               hyperparameters of each particle:
 *               k' K^-1 y  and  A - k' K^-1 k,   K = k + B I,   k(d) = A exp(-d^2 / (2 s^2)) cos(2 pi f d)
 *     mixture   in one dimension, the density itself
 * Regressions have a page of their own kind (regression_page.c). */
#include "model_data.h"
#include "json_values.h"
#include "pack.h"
#include "regression_page.h"
#include "report.h"
#include "run_json.h"
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FINE_GRID = 1200, COARSE_GRID = 240, FINE_SERIES = 400, LARGEST_SERIES = 1500, LARGEST_FITS = 24 };

json_t *page_without(const char *why)
{
    json_t *o = json_object(), *text = json_text(why);
    json_object_set_new(o, "missing", text ? text : json_string("the data file cannot be read"));
    return o;
}

static const char *option(const run_view *v, const char *name)
{
    return json_string_value(json_object_get(json_object_get(v->run, "options"), name));
}

/* ---- gp ---------------------------------------------------------------------------------------------------------- */
typedef struct {
    double A, omega, s, B;
} kernel;

static double covariance(const kernel *k, double d)
{
    return k->A * exp(-d * d / (2 * k->s * k->s)) * cos(k->omega * d);
}

/* mean[grid] and sd[grid] of the process given the data; work: [n][n + grid + 1]. false: these
 * hyperparameters allow none. */
static bool fit_process(const kernel *k, const series_data *data, size_t grid, const double *at, double *mean,
                        double *sd, double *work)
{
    size_t n = data->n;
    double *K = work, *right = work + n * n; /* [n][grid + 1]: covariances with the grid, and the data */
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++)
            K[i * n + j] = covariance(k, data->t[i] - data->t[j]) + (i == j ? k->B + 1e-10 * k->A : 0);
        for (size_t g = 0; g < grid; g++)
            right[i * (grid + 1) + g] = covariance(k, data->t[i] - at[g]);
        right[i * (grid + 1) + grid] = data->y[i];
    }
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (lapack_int)n, K, (lapack_int)n) ||
        LAPACKE_dtrtrs(LAPACK_ROW_MAJOR, 'L', 'N', 'N', (lapack_int)n, (lapack_int)grid + 1, K, (lapack_int)n, right,
                       (lapack_int)grid + 1))
        return false;
    for (size_t g = 0; g < grid; g++) {
        double square = 0;
        mean[g] = 0;
        for (size_t i = 0; i < n; i++) {
            const double *row = right + i * (grid + 1);
            mean[g] += row[g] * row[grid];
            square += row[g] * row[g];
        }
        sd[g] = sqrt(fmax(k->A - square, 0));
    }
    return true;
}

typedef struct {
    double beta;
    size_t j;
} ranked;

static int heavier(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->beta != y->beta ? (x->beta < y->beta) - (x->beta > y->beta) : (x->j > y->j) - (x->j < y->j);
}

/* The heaviest particles, heaviest first; to be freed. NULL: no memory. */
static ranked *rank_particles(const run_view *v)
{
    ranked *r = malloc((v->N + 1) * sizeof *r);
    for (size_t j = 0; r && j < v->N; j++) {
        double beta = number_at(json_array_get(json_object_get(v->run, "particles"), j), "beta");
        r[j] = (ranked){isfinite(beta) ? beta : 0, j};
    }
    if (r)
        qsort(r, v->N, sizeof *r, heavier);
    return r;
}

static void add_fits(json_t *o, const run_view *v, const series_data *data, size_t grid, const double *at, double *work)
{
    json_t *fits = json_array();
    double mean[FINE_GRID], sd[FINE_GRID];
    ranked *order = rank_particles(v);
    for (size_t c = 0; order && c < v->N && c < LARGEST_FITS; c++) {
        const json_t *z = json_object_get(json_array_get(json_object_get(v->run, "particles"), order[c].j), "z");
        kernel k = {exp(run_item(z, 0)), 6.283185307179586 * exp(run_item(z, 1)), exp(run_item(z, 2)),
                    exp(run_item(z, 3))};
        if (fit_process(&k, data, grid, at, mean, sd, work))
            json_array_append_new(fits,
                                  json_pack("{s:I, s:o, s:o, s:f}", "particle", (json_int_t)order[c].j, "mean",
                                            pack_floats(grid, mean), "sd", pack_floats(grid, sd), "noise", sqrt(k.B)));
    }
    free(order);
    json_object_set_new(o, "fits", fits);
}

static json_t *describe_gp(const run_view *v)
{
    failure why;
    series_data data;
    if (v->D != 4)
        return page_without("this run does not have the four parameters of a gp");
    if (read_series(v->data, option(v, "ignore"), &data, &why))
        return page_without(why.text);
    json_t *o = NULL;
    /* fine: processes of high frequency are drawn as they are */
    size_t grid = data.n <= FINE_SERIES ? FINE_GRID : COARSE_GRID;
    double *work = data.n <= LARGEST_SERIES ? malloc(data.n * (data.n + grid + 1) * sizeof *work) : NULL, at[FINE_GRID],
           lo = INFINITY, hi = -INFINITY;
    if (work) {
        for (size_t i = 0; i < data.n; i++) {
            lo = fmin(lo, data.t[i]);
            hi = fmax(hi, data.t[i]);
        }
        for (size_t g = 0; g < grid; g++)
            /* a little beyond the data, to see it forget them */
            at[g] = lo + (hi - lo) * (-0.02 + 1.12 * (double)g / (double)(grid - 1));
        o = json_pack("{s:s, s:o, s:o, s:o}", "kind", "gp", "t", pack_floats(data.n, data.t), "y",
                      pack_floats(data.n, data.y), "at", pack_floats(grid, at));
        add_fits(o, v, &data, grid, at, work);
    }
    free(work);
    free_series(&data);
    return o ? o : page_without("the series is too long to plot its fits: the limit is 1500 points");
}

/* ---- mixture ----------------------------------------------------------------------------------------------------- */
static json_t *describe_mixture(const run_view *v)
{
    failure why;
    mixture_data data;
    if (v->D != 1)
        return NULL;
    if (read_mixture(v->data, &data, &why))
        return page_without(why.text);
    json_t *o = json_pack("{s:s, s:[], s:[], s:[]}", "kind", "mixture", "weight", "mean", "sd");
    for (size_t k = 0; k < data.K && data.D == 1; k++) {
        json_array_append_new(json_object_get(o, "weight"), json_number(data.weight[k]));
        json_array_append_new(json_object_get(o, "mean"), json_number(data.mean[k]));
        json_array_append_new(json_object_get(o, "sd"), json_number(sqrt(data.cov[k])));
    }
    free_mixture(&data);
    return o;
}

json_t *describe_model_page(const run_view *v)
{
    static const struct {
        const char *kind;
        json_t *(*describe)(const run_view *v);
    } pages[] = {{"gp", describe_gp},
                 {"logistic", describe_regression_page},
                 {"linear", describe_regression_page},
                 {"glm", describe_regression_page},
                 {"bnn", describe_regression_page},
                 {"mixture", describe_mixture}};
    const char *kind = json_string_value(json_object_get(json_object_get(v->run, "model"), "kind"));
    for (size_t i = 0; kind && i < sizeof pages / sizeof *pages; i++)
        if (!strcmp(kind, pages[i].kind)) {
            json_t *o = v->data || (!strcmp(kind, "mixture") && v->D != 1)
                            ? pages[i].describe(v)
                            : page_without(v->no_data ? v->no_data : "the data file is unknown");
            if (o && !json_object_get(o, "kind"))
                json_object_set_new(o, "kind", json_string(kind));
            return o;
        }
    return NULL;
}
