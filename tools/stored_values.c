/* stored_values.c - writes rows of shown quantities behind a state, and finds a row again by the bytes of its point. */
#define _GNU_SOURCE
#include "stored_values.h"
#include "json_values.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { ENSEMBLE_DRAWS_STORED = 1000 }; /* as many as wvgd sample --from ensemble gives by default */

static const json_t *stored_in(const json_t *asked)
{
    return json_object_get(json_object_get(asked, "reopen"), "stored");
}

bool has_stored_values(const json_t *asked)
{
    return stored_in(asked) != NULL;
}

void forget_stored_values(json_t *asked)
{
    json_object_del(json_object_get(asked, "reopen"), "stored");
}

/* Bytes of the rows; SIZE_MAX: too many for any file. */
static size_t stored_bytes(const json_t *asked)
{
    const json_t *stored = stored_in(asked);
    size_t P = json_array_size(json_object_get(stored, "names")), rows = count_at(stored, "rows");
    return P && rows > PTRDIFF_MAX / sizeof(double) / P ? SIZE_MAX : rows * P * sizeof(double);
}

size_t stored_state_size(const json_t *asked, size_t size)
{
    size_t bytes = stored_bytes(asked);
    return bytes < size ? size - bytes : 0;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
/* Values of n points; NaN where the model refuses one. */
static void show_points(const opened_model *m, size_t n, const double *z, double *value)
{
    for (size_t i = 0; i < n; i++)
        if (m->show(m->show_self, z + i * m->model.dim, value + i * m->shown))
            for (size_t c = 0; c < m->shown; c++)
                value[i * m->shown + c] = NAN;
}

/* Closing draws without weight were not shown, but are among those that come with weights. */
static void copy_closing(const shown_draws *d, const wvgd_fit *fit, const opened_model *m, double *value)
{
    size_t n;
    const double *z = NULL;
    wvgd_draws(fit, &n, &z, NULL, NULL, NULL, NULL);
    memcpy(value, d->value, d->n * d->columns * sizeof *value);
    for (size_t i = 0; z && i < d->n; i++)
        if (!(d->weight[i] > 0))
            show_points(m, 1, z + i * m->model.dim, value + i * d->columns);
}

static int describe_values(json_t *asked, const opened_model *m, size_t rows, size_t ensemble)
{
    json_t *stored = json_object(), *names = json_array();
    int failed = 0;
    for (size_t c = 0; c < m->shown; c++)
        failed |= json_array_append_new(names, json_text(m->shown_names[c]));
    failed |= json_object_set_new(stored, "names", names) |
              json_object_set_new(stored, "rows", json_integer((json_int_t)rows)) |
              json_object_set_new(stored, "ensemble", json_integer((json_int_t)ensemble));
    return failed | json_object_set_new(json_object_get(asked, "reopen"), "stored", stored);
}

int store_values(json_t *asked, const wvgd_fit *fit, const opened_model *m, const shown_draws *shown, void **state,
                 size_t *size, failure *f)
{
    wvgd_results r;
    wvgd_get_results(fit, &r);
    size_t ensemble = ENSEMBLE_DRAWS_STORED, P = m->shown, D = m->model.dim;
    double *z = calloc(ensemble, D * sizeof *z);
    if (z && wvgd_sample(fit, 1, ensemble, z, NULL, NULL) != WVGD_OK)
        ensemble = 0;
    size_t rows = shown->n + ensemble + r.N;
    double *value = P && rows > PTRDIFF_MAX / sizeof *value / P ? NULL : malloc(rows * P * sizeof *value + 1);
    char *longer = value ? realloc(*state, *size + rows * P * sizeof *value) : NULL;
    if (longer)
        *state = longer;
    int failed = !z || !longer || describe_values(asked, m, rows, ensemble);
    if (!failed) {
        copy_closing(shown, fit, m, value);
        if (m->restart)
            m->restart(m->show_self, 1); /* as wvgd sample does for this stream */
        show_points(m, ensemble, z, value + shown->n * P);
        if (m->restart)
            m->restart(m->show_self, m->seed);
        show_points(m, r.N, r.z, value + (shown->n + ensemble) * P);
        memcpy(longer + *size, value, rows * P * sizeof *value);
        *size += rows * P * sizeof *value;
    }
    free(z);
    free(value);
    return failed ? fail(f, EX_SOFTWARE, "no memory for %zu rows of %zu quantities", rows, P) : 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
void free_values(stored_values *v)
{
    free(v->names);
    free(v->z);
    free(v->value);
    free(v->order);
    *v = (stored_values){0};
}

static int wrong_record(failure *f)
{
    return fail(f, EX_DATAERR, "the record of the run is damaged: its stored values do not match the state");
}

int read_values(const json_t *asked, const void *state, size_t size, stored_values *v, failure *f)
{
    const json_t *stored = stored_in(asked), *names = json_object_get(stored, "names");
    size_t at = stored_state_size(asked, size);
    *v = (stored_values){.P = json_array_size(names),
                         .rows = count_at(stored, "rows"),
                         .ensemble = count_at(stored, "ensemble")};
    if (!at || !v->P)
        return wrong_record(f);
    v->names = calloc(v->P, sizeof *v->names);
    v->value = malloc(size - at + 1);
    if (!v->names || !v->value)
        return fail(f, EX_SOFTWARE, "no memory for %zu rows of %zu quantities", v->rows, v->P);
    memcpy(v->value, (const char *)state + at, size - at);
    for (size_t c = 0; c < v->P; c++)
        if (!(v->names[c] = json_string_value(json_array_get(names, c))))
            return wrong_record(f);
    return 0;
}

static int by_bytes(const void *a, const void *b, void *self)
{
    const stored_values *v = self;
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    int order = memcmp(v->z + i * v->D, v->z + j * v->D, v->D * sizeof *v->z);
    return order ? order : (i > j) - (i < j);
}

int match_values(stored_values *v, const wvgd_fit *fit, failure *f)
{
    wvgd_results r;
    size_t n = 0;
    const double *z;
    wvgd_get_results(fit, &r);
    if (wvgd_draws(fit, &n, &z, NULL, NULL, NULL, NULL) != WVGD_OK || v->ensemble > ENSEMBLE_DRAWS_STORED ||
        v->rows != n + v->ensemble + r.N)
        return wrong_record(f);
    v->D = r.D;
    v->z = calloc(v->rows, v->D * sizeof *v->z);
    v->order = calloc(v->rows, sizeof *v->order);
    if (!v->z || !v->order)
        return fail(f, EX_SOFTWARE, "no memory for %zu points", v->rows);
    memcpy(v->z, z, n * v->D * sizeof *z);
    if (v->ensemble && wvgd_sample(fit, 1, v->ensemble, v->z + n * v->D, NULL, NULL) != WVGD_OK)
        return wrong_record(f);
    memcpy(v->z + (n + v->ensemble) * v->D, r.z, r.N * v->D * sizeof *z);
    for (size_t i = 0; i < v->rows; i++)
        v->order[i] = i;
    qsort_r(v->order, v->rows, sizeof *v->order, by_bytes, v);
    return 0;
}

int find_values(void *self, const double *z, double *values)
{
    const stored_values *v = self;
    size_t low = 0, high = v->rows; /* the first row that is not before z lies in low..high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(v->z + v->order[middle] * v->D, z, v->D * sizeof *z) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == v->rows || memcmp(v->z + v->order[low] * v->D, z, v->D * sizeof *z))
        return 1;
    memcpy(values, v->value + v->order[low] * v->P, v->P * sizeof *values);
    return 0;
}
