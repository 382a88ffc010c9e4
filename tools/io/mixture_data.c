/* mixture_data.c - a mixture of Gaussians from JSON. Every error names the file and the place: means[2][1]. */
#include "json_file.h"
#include "model_data.h"
#include "text.h"
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const size_t largest_covs = (size_t)1 << 27; /* numbers in cov: 1 GiB */

enum { PLACE = 80 }; /* bytes of "covs[18446744073709551615][...][...]" */

/* The number at a place. */
static int read_real(const char *path, const char *where, const json_t *value, double *out, failure *f)
{
    if (!json_is_number(value))
        return refuse_json(path, where, value, "a number", f);
    *out = json_number_value(value);
    return isfinite(*out) ? 0 : refuse_json(path, where, value, "a finite number", f);
}

/* value[n] -> out[n]; a plain number will do when n is 1. */
static int read_vector(const char *path, const char *where, const json_t *value, size_t n, double *out, failure *f)
{
    char place[PLACE], expected[PLACE];
    if (n == 1 && json_is_number(value))
        return read_real(path, where, value, out, f);
    snprintf(expected, sizeof expected, n == 1 ? "a number or an array of one" : "an array of %zu numbers", n);
    if (!json_is_array(value) || json_array_size(value) != n)
        return refuse_json(path, where, value, expected, f);
    for (size_t i = 0; i < n; i++) {
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        if (read_real(path, place, json_array_get(value, i), &out[i], f))
            return f->code;
    }
    return 0;
}

static int find_array(const char *path, const json_t *root, const char *key, size_t K, json_t **array, failure *f)
{
    char expected[PLACE];
    *array = json_object_get(root, key);
    if (K)
        snprintf(expected, sizeof expected, "an array of %zu, one for each weight", K);
    else
        snprintf(expected, sizeof expected, "an array with an entry for each component");
    if (!json_is_array(*array) || json_array_size(*array) == 0 || (K && json_array_size(*array) != K))
        return refuse_json(path, key, *array, expected, f);
    return 0;
}

static int read_weights(const char *path, const json_t *array, mixture_data *out, failure *f)
{
    char place[PLACE];
    double total = 0;
    for (size_t k = 0; k < out->K; k++) {
        const json_t *value = json_array_get(array, k);
        snprintf(place, sizeof place, "weights[%zu]", k);
        if (read_real(path, place, value, &out->weight[k], f))
            return f->code;
        if (!(out->weight[k] > 0))
            return refuse_json(path, place, value, "a number above 0", f);
        total += out->weight[k];
    }
    return isfinite(total) ? 0
                           : fail(f, EX_DATAERR, "%s: weights: the sum is above 1.8e308, expected a finite one", path);
}

static int read_means(const char *path, const json_t *array, mixture_data *out, failure *f)
{
    char place[PLACE];
    for (size_t k = 0; k < out->K; k++) {
        snprintf(place, sizeof place, "means[%zu]", k);
        if (read_vector(path, place, json_array_get(array, k), out->D, out->mean + k * out->D, f))
            return f->code;
    }
    return 0;
}

/* sds[K][D] become diagonal covariances. */
static int read_sds(const char *path, const json_t *array, mixture_data *out, failure *f)
{
    char place[PLACE], found[NUMBER_ROOM];
    size_t D = out->D;
    for (size_t k = 0; k < out->K; k++) {
        double *cov = out->cov + k * D * D; /* [D][D], its first row first the sds */
        snprintf(place, sizeof place, "sds[%zu]", k);
        if (read_vector(path, place, json_array_get(array, k), D, cov, f))
            return f->code;
        for (size_t i = 0; i < D; i++)
            if (!(cov[i] >= 1e-150 && cov[i] <= 1e150))
                return fail(f, EX_DATAERR,
                            "%s: sds[%zu][%zu]: found %s, expected a number above 0, between 1e-150 and 1e150", path, k,
                            i, short_number(cov[i], found));
        for (size_t i = D; i-- > 0;) {
            double sd = cov[i];
            cov[i] = 0;
            cov[i * D + i] = sd * sd;
        }
    }
    return 0;
}

static int check_symmetry(const char *path, size_t k, size_t D, double *cov, failure *f)
{
    char found[NUMBER_ROOM], other[NUMBER_ROOM];
    for (size_t i = 0; i < D; i++) {
        if (!(cov[i * D + i] > 0))
            return fail(f, EX_DATAERR, "%s: covs[%zu][%zu][%zu]: found %s, expected a variance above 0", path, k, i, i,
                        short_number(cov[i * D + i], found));
        for (size_t j = 0; j < i; j++) {
            double below = cov[i * D + j], above = cov[j * D + i];
            if (fabs(below - above) > 1e-9 * sqrt(cov[i * D + i]) * sqrt(cov[j * D + j]))
                return fail(
                    f, EX_DATAERR,
                    "%s: covs[%zu][%zu][%zu]: found %s, but %s across the diagonal: the matrix must be symmetric", path,
                    k, i, j, short_number(below, found), short_number(above, other));
            cov[i * D + j] = cov[j * D + i] = below + (above - below) / 2;
        }
    }
    return 0;
}

static int check_definite(const char *path, size_t k, size_t D, const double *cov, double *work, failure *f)
{
    memcpy(work, cov, D * D * sizeof *work);
    lapack_int info = LAPACKE_dpotrf_work(LAPACK_ROW_MAJOR, 'L', (lapack_int)D, work, (lapack_int)D);
    if (info < 0)
        return fail(f, EX_SOFTWARE, "%s: no memory to check covs[%zu]", path, k);
    return info ? fail(f, EX_DATAERR, "%s: covs[%zu]: the matrix is not positive definite (leading minor of order %d)",
                       path, k, (int)info)
                : 0;
}

static int read_cov(const char *path, size_t k, const json_t *value, size_t D, double *cov, failure *f)
{
    char place[PLACE], expected[PLACE];
    snprintf(place, sizeof place, "covs[%zu]", k);
    if (D == 1 && json_is_number(value))
        return read_real(path, place, value, cov, f);
    snprintf(expected, sizeof expected, "an array of %zu rows of %zu numbers%s", D, D, D == 1 ? ", or a number" : "");
    if (!json_is_array(value) || json_array_size(value) != D)
        return refuse_json(path, place, value, expected, f);
    for (size_t i = 0; i < D; i++) {
        snprintf(place, sizeof place, "covs[%zu][%zu]", k, i);
        if (read_vector(path, place, json_array_get(value, i), D, cov + i * D, f))
            return f->code;
    }
    return 0;
}

static int read_covs(const char *path, const json_t *array, mixture_data *out, failure *f)
{
    size_t D = out->D;
    double *work = malloc(D * D * sizeof *work); /* [D][D] */
    int code = work ? 0 : fail(f, EX_SOFTWARE, "%s: no memory for %zu dimensions", path, D);
    for (size_t k = 0; k < out->K && !code; k++) {
        double *cov = out->cov + k * D * D;
        code = read_cov(path, k, json_array_get(array, k), D, cov, f);
        if (!code)
            code = check_symmetry(path, k, D, cov, f);
        if (!code)
            code = check_definite(path, k, D, cov, work, f);
    }
    free(work);
    return code;
}

/* D is that of the first mean. */
static int allocate(const char *path, const json_t *means, mixture_data *out, failure *f)
{
    const json_t *first = json_array_get(means, 0);
    out->D = json_is_array(first) ? json_array_size(first) : 1;
    if (out->D == 0)
        return refuse_json(path, "means[0]", first, "at least one number", f);
    if (out->D > largest_covs / out->D || out->K > largest_covs / (out->D * out->D))
        return fail(f, EX_DATAERR,
                    "%s: found %zu components in %zu dimensions: their covariances may have at most %zu numbers", path,
                    out->K, out->D, largest_covs);
    out->weight = calloc(out->K, sizeof *out->weight);
    out->mean = calloc(out->K * out->D, sizeof *out->mean);
    out->cov = calloc(out->K * out->D * out->D, sizeof *out->cov);
    if (!out->weight || !out->mean || !out->cov)
        return fail(f, EX_SOFTWARE, "%s: no memory for %zu components in %zu dimensions", path, out->K, out->D);
    return 0;
}

static int convert(const char *path, json_t *root, mixture_data *out, failure *f)
{
    static const char *const keys[] = {"weights", "means", "sds", "covs", NULL};
    json_t *weights, *means, *shapes;
    if (check_keys(path, root, keys, f))
        return f->code;
    bool sds = json_object_get(root, "sds") != NULL;
    if (sds == (json_object_get(root, "covs") != NULL))
        return fail(f, EX_DATAERR, "%s: found %s, expected either \"sds\" or \"covs\"", path,
                    sds ? "\"sds\" and \"covs\"" : "neither");
    if (find_array(path, root, "weights", 0, &weights, f))
        return f->code;
    out->K = json_array_size(weights);
    if (find_array(path, root, "means", out->K, &means, f) ||
        find_array(path, root, sds ? "sds" : "covs", out->K, &shapes, f) || allocate(path, means, out, f) ||
        read_weights(path, weights, out, f) || read_means(path, means, out, f))
        return f->code;
    return sds ? read_sds(path, shapes, out, f) : read_covs(path, shapes, out, f);
}

int read_mixture(const char *path, mixture_data *out, failure *f)
{
    json_t *root;
    *out = (mixture_data){0};
    if (load_json(path, JSON_DECODE_INT_AS_REAL, &root, f))
        return f->code;
    int code = convert(path, root, out, f);
    json_decref(root);
    if (code)
        free_mixture(out);
    return code;
}

void free_mixture(mixture_data *data)
{
    free(data->weight);
    free(data->mean);
    free(data->cov);
    *data = (mixture_data){0};
}
