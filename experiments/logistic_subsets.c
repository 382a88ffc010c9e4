/* logistic_subsets.c - the data of the experiment logistic. */
#include "logistic_subsets.h"
#include "regression_design.h"
#include "json_file.h"
#include "shared_file.h"
#include "text.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

const char *const scaling_names[SCALINGS] = {"standardized", "raw"};

/* The whole number that begins at *at and ends in `end`; moves *at behind both. False: there is none. */
static bool take_index(char **at, char end, size_t rows, size_t *value)
{
    char *after = *at;
    unsigned long number = isdigit((unsigned char)**at) ? strtoul(*at, &after, 10) : ULONG_MAX;
    if (number >= rows || *after != end)
        return false;
    *value = (size_t)number;
    *at = after + 1;
    return true;
}

/* SUBSETS lines, each of SUBSET_ROWS rows, counted from 0, with commas between them. */
static int read_rows(const char *path, logistic_set *set, failure *f)
{
    char *text = NULL;
    size_t size;
    int code = read_text(path, &text, &size, f);
    char *at = text;
    for (size_t s = 0; s < SUBSETS && !code; s++)
        for (size_t i = 0; i < SUBSET_ROWS && !code; i++)
            if (!take_index(&at, i + 1 < SUBSET_ROWS ? ',' : '\n', set->all.rows, &set->row[s][i]))
                code = fail(f, EX_DATAERR,
                            "%s:%zu: field %zu: expected %d row numbers below %zu, with commas between them", path,
                            s + 1, i + 1, SUBSET_ROWS, set->all.rows);
    free(text);
    return code;
}

/* {"truth": {NAME: {"standardized": [{"log_evidence": .., "log_evidence_se": ..}, ..], "raw":
 * [..]}}}: of the first subsets. */
static int read_truth(const char *path, logistic_set *set, failure *f)
{
    json_t *root;
    if (load_json(path, 0, &root, f))
        return f->code;
    json_t *truth = json_object_get(json_object_get(root, "truth"), set->name);
    for (size_t how = 0; how < SCALINGS; how++) {
        json_t *list = json_object_get(truth, scaling_names[how]);
        for (size_t s = 0; s < SUBSETS; s++) {
            json_t *known = json_array_get(list, s);
            json_t *value = json_object_get(known, "log_evidence"), *se = json_object_get(known, "log_evidence_se");
            bool given = json_is_number(value) && json_is_number(se);
            set->log_evidence[how][s] = given ? json_number_value(value) : (double)NAN;
            set->log_evidence_se[how][s] = given ? json_number_value(se) : (double)NAN;
        }
    }
    json_decref(root);
    return 0;
}

/* Reads a file that comes with the program: format with the name in it. */
static int read_shared(const char *format, logistic_set *set,
                       int (*read)(const char *path, logistic_set *set, failure *f), failure *f)
{
    char name[128];
    snprintf(name, sizeof name, format, set->name);
    char *path = find_shared(name, f);
    int code = path ? read(path, set, f) : f->code;
    free(path);
    return code;
}

static int read_features(const char *path, logistic_set *set, failure *f)
{
    set->path = strdup(path);
    return set->path ? read_regression(set->path, &(table_options){0}, TARGET_LABELS, &set->all, f)
                     : fail(f, EX_SOFTWARE, "no memory for %s", path);
}

int read_logistic_set(const char *name, logistic_set *out, failure *f)
{
    *out = (logistic_set){.name = name};
    int code = read_shared("data/%s.csv", out, read_features, f);
    if (!code)
        code = read_shared("experiments/subsets_%s.csv", out, read_rows, f);
    if (!code)
        code = read_shared("experiments/truth_given.json", out, read_truth, f);
    if (code)
        free_logistic_set(out);
    return code;
}

void free_logistic_set(logistic_set *set)
{
    if (set->all.X)
        free_regression(&set->all);
    free(set->path);
    *set = (logistic_set){0};
}

int open_logistic_subset(const logistic_set *set, size_t subset, scaling how, wvgd_model *model, logistic_data *rows,
                         failure *f)
{
    size_t P = set->all.columns, n = SUBSET_ROWS, D = P + 1;
    double *store = calloc(n * (D + P + 1), sizeof *store), *X = store + n * D, *y = X + n * P;
    if (!store)
        return fail(f, EX_SOFTWARE, "no memory for a subset of %s", set->name);
    for (size_t i = 0; i < n; i++) {
        memcpy(X + i * P, set->all.X + set->row[subset][i] * P, P * sizeof *X);
        y[i] = set->all.y[set->row[subset][i]];
    }
    wv_regression data = {.rows = n,
                          .columns = P,
                          .X = X,
                          .y = y,
                          .names = set->all.names,
                          .standardize = how == STANDARDIZED,
                          .intercept = true,
                          .prior_sd = 1.0};
    wv_design_fill(&data, true, D, store);
    *rows = (logistic_data){.n = n, .D = D, .X = store, .y = y};
    if (wv_model_logistic(model, &data) == 0)
        return 0;
    free(store);
    return fail(f, EX_SOFTWARE, "no memory for a subset of %s", set->name);
}
