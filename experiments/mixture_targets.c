/* mixture_targets.c - targets of the mixture experiment. */
#include "mixture_targets.h"
#include "ascending.h"
#include "json_file.h"
#include "models.h"
#include "random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const double tau = 6.283185307179586476925;

/* ---- reading ----------------------------------------------------------------------------------------------------- */
enum { MOST_TARGETS = 10000, MOST_COMPONENTS = 1000 };

static int make_target(size_t K, mixture_target *t, failure *f)
{
    t->K = K;
    t->weight = calloc(3 * K, sizeof(double));
    if (!t->weight)
        return fail(f, EX_SOFTWARE, "no memory for a target of %zu components", K);
    t->mean = t->weight + K;
    t->sd = t->mean + K;
    return 0;
}

static void normalise(mixture_target *t)
{
    double sum = 0;
    for (size_t k = 0; k < t->K; k++)
        sum += t->weight[k];
    for (size_t k = 0; k < t->K; k++)
        t->weight[k] /= sum;
}

static int make_list(size_t n, target_list *out, failure *f)
{
    *out = (target_list){n, calloc(n, sizeof *out->target), NULL};
    return out->target ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu targets", n);
}

/* values[K] of one key; K is 0 as long as it is not known. */
static int read_row(const char *path, size_t i, const json_t *object, const char *key, double least, size_t K,
                    double *values, failure *f)
{
    char where[80];
    const json_t *list = json_object_get(object, key);
    snprintf(where, sizeof where, "targets[%zu].%s", i, key);
    if (!json_is_array(list) || json_array_size(list) != K)
        return refuse_json(path, where, list, "an array of as many numbers as there are weights", f);
    for (size_t k = 0; k < K; k++) {
        const json_t *v = json_array_get(list, k);
        values[k] = json_number_value(v);
        if (!json_is_number(v) || !(fabs(values[k]) <= 1e6) || !(values[k] >= least)) {
            snprintf(where, sizeof where, "targets[%zu].%s[%zu]", i, key, k);
            return refuse_json(path, where, v, least > 0 ? "a number from 1e-6 to 1e6" : "a number from -1e6 to 1e6",
                               f);
        }
    }
    return 0;
}

static int read_target(const char *path, size_t i, const json_t *object, mixture_target *t, failure *f)
{
    char where[80];
    const json_t *weights = json_object_get(object, "weights");
    size_t K = json_array_size(weights);
    snprintf(where, sizeof where, "targets[%zu].weights", i);
    if (!K || K > MOST_COMPONENTS)
        return refuse_json(path, where, weights, "an array of 1 to 1000 numbers", f);
    int code = make_target(K, t, f);
    if (!code)
        code = read_row(path, i, object, "weights", 1e-6, K, t->weight, f);
    if (!code)
        code = read_row(path, i, object, "means", -1e6, K, t->mean, f);
    if (!code)
        code = read_row(path, i, object, "sds", 1e-6, K, t->sd, f);
    if (!code)
        normalise(t);
    return code;
}

int read_targets(const char *path, target_list *out, failure *f)
{
    json_t *root = NULL;
    *out = (target_list){0};
    int code = load_json(path, 0, &root, f);
    if (code)
        return code;
    const json_t *list = json_object_get(root, "targets");
    size_t n = json_array_size(list);
    code = n && n <= MOST_TARGETS ? make_list(n, out, f)
                                  : refuse_json(path, "targets", list, "an array of 1 to 10000 targets", f);
    for (size_t i = 0; i < n && !code; i++)
        code = read_target(path, i, json_array_get(list, i), &out->target[i], f);
    json_decref(root);
    if (code)
        free_targets(out);
    return code;
}

int draw_targets(size_t n, uint64_t seed, target_list *out, failure *f)
{
    enum { K = 5, STREAMS = 3 };
    int code = make_list(n, out, f);
    for (size_t i = 0; i < n && !code; i++) {
        mixture_target *t = &out->target[i];
        code = make_target(K, t, f);
        if (code)
            break;
        svgd_random_uniform(seed, STREAMS * i, K, t->weight);
        svgd_random_normal(seed, STREAMS * i + 1, K, t->mean);
        svgd_random_uniform(seed, STREAMS * i + 2, K, t->sd);
        for (size_t k = 0; k < K; k++) {
            t->mean[k] *= 1.5;
            t->sd[k] = 0.1 + 0.9 * t->sd[k];
        }
        normalise(t);
    }
    if (code)
        free_targets(out);
    return code;
}

int read_optima(const char *path, target_list *list, failure *f)
{
    json_t *root = NULL;
    int code = load_json(path, 0, &root, f);
    if (code)
        return code;
    const json_t *targets = json_object_get(root, "targets");
    if (json_array_size(targets) != list->n)
        code = refuse_json(path, "targets", targets, "as many targets as mixtures.json has", f);
    list->optimum = code ? NULL : calloc(list->n * NUMBERS_N, sizeof *list->optimum);
    if (!code && !list->optimum)
        code = fail(f, EX_SOFTWARE, "no memory for %zu optima", list->n);
    for (size_t i = 0; i < list->n * NUMBERS_N && !code; i++) {
        char key[8];
        mixture_optimum *o = &list->optimum[i];
        snprintf(key, sizeof key, "%zu", i % NUMBERS_N + LEAST_N);
        const json_t *row = json_object_get(json_array_get(targets, i / NUMBERS_N), key),
                     *runs = json_object_get(row, "svgd_3N_ise");
        if (!json_is_object(row) || json_array_size(runs) != GIVEN_STARTS)
            code = refuse_json(path, key, row, "an object with ise, pelbo and svgd_3N_ise", f);
        o->ise = json_number_value(json_object_get(row, "ise"));
        o->pelbo = json_number_value(json_object_get(row, "pelbo"));
        for (size_t s = 0; s < GIVEN_STARTS; s++)
            o->svgd_ise[s] = json_number_value(json_array_get(runs, s));
    }
    json_decref(root);
    return code;
}

void free_targets(target_list *list)
{
    for (size_t i = 0; list->target && i < list->n; i++)
        free(list->target[i].weight);
    free(list->target);
    free(list->optimum);
    *list = (target_list){0};
}

/* ---- density ----------------------------------------------------------------------------------------------------- */
int open_target(const mixture_target *t, wvgd_model *model)
{
    double *variance = malloc(t->K * sizeof *variance);
    if (!variance)
        return -1;
    for (size_t k = 0; k < t->K; k++)
        variance[k] = t->sd[k] * t->sd[k];
    int failed = wv_model_mixture(model, 1, t->K, t->weight, t->mean, variance);
    free(variance);
    return failed;
}

double target_density(const mixture_target *t, double x)
{
    double sum = 0;
    for (size_t k = 0; k < t->K; k++) {
        double u = (x - t->mean[k]) / t->sd[k];
        sum += t->weight[k] / (t->sd[k] * sqrt(tau)) * exp(-0.5 * u * u);
    }
    return sum;
}

void target_range(const mixture_target *t, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t k = 0; k < t->K; k++) {
        *low = fmin(*low, t->mean[k] - 10 * t->sd[k]);
        *high = fmax(*high, t->mean[k] + 10 * t->sd[k]);
    }
}

/* ---- quadrature -------------------------------------------------------------------------------------------------- */
int make_quadrature(double low, double high, size_t borders, const double *border, quadrature *q, failure *f)
{
    enum { PANELS = 400, POINTS = 5 };
    static const double at[POINTS] = {-0.9061798459386640, -0.5384693101056831, 0, 0.5384693101056831,
                                      0.9061798459386640};
    static const double share[POINTS] = {0.2369268850561891, 0.4786286704993665, 0.5688888888888889, 0.4786286704993665,
                                         0.2369268850561891};
    size_t ends = PANELS + 1 + borders, n = 0;
    double *end = malloc(ends * sizeof *end);
    *q = (quadrature){0, malloc(ends * POINTS * sizeof(double)), malloc(ends * POINTS * sizeof(double))};
    if (!end || !q->x || !q->weight) {
        free(end);
        free_quadrature(q);
        return fail(f, EX_SOFTWARE, "no memory for a quadrature rule");
    }
    for (size_t i = 0; i <= PANELS; i++)
        end[n++] = low + (high - low) * (double)i / PANELS;
    for (size_t i = 0; i < borders; i++)
        if (border[i] > low && border[i] < high)
            end[n++] = border[i];
    qsort(end, n, sizeof *end, ascending);
    for (size_t i = 0; i + 1 < n; i++)
        for (size_t k = 0; k < POINTS; k++) {
            double half = (end[i + 1] - end[i]) / 2;
            q->x[q->m] = (end[i] + end[i + 1]) / 2 + half * at[k];
            q->weight[q->m++] = half * share[k];
        }
    free(end);
    return 0;
}

void free_quadrature(quadrature *q)
{
    free(q->x);
    free(q->weight);
    *q = (quadrature){0};
}
