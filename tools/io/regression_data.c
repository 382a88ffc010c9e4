/* regression_data.c - features and a target, or a time series, from CSV. */
#include "model_data.h"
#include "text.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

static const size_t longest_series = 20000; /* an exact Gaussian process takes n^2 memory and n^3 time */

static double *allocate(const csv_file *csv, size_t columns, failure *f)
{
    double *numbers = columns <= SIZE_MAX / csv->rows ? calloc(csv->rows * columns, sizeof *numbers) : NULL;
    if (!numbers)
        fail(f, EX_SOFTWARE, "%s: no memory for %zu rows of %zu columns", csv->path, csv->rows, columns);
    return numbers;
}

/* "a, b, c or d": the first columns, as many as the text has room for. Returns it. */
static const char *list_columns(const csv_file *csv, char *text, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < csv->columns; i++) {
        const char *before = !i ? "" : i + 1 < csv->columns ? ", " : " or ";
        if (at + strlen(before) + strlen(csv->name[i]) + sizeof ", ..." > size) {
            snprintf(text + at, size - at, "%s...", i ? ", " : "");
            break;
        }
        at += (size_t)snprintf(text + at, size - at, "%s%s", before, csv->name[i]);
    }
    return text;
}

static int refuse_column(const csv_file *csv, const char *name, failure *f)
{
    char shown[QUOTED], list[300];
    const char *nearest = NULL;
    const char **names = calloc(csv->columns + 1, sizeof *names); /* NULL at the end */
    if (names) {
        memcpy(names, csv->name, csv->columns * sizeof *names);
        nearest = find_nearest(name, names);
    }
    if (nearest)
        fail(f, EX_DATAERR, "%s:1: there is no column %s: did you mean %s?", csv->path, quote(name, shown), nearest);
    else
        fail(f, EX_DATAERR, "%s:1: there is no column %s: expected %s", csv->path, quote(name, shown),
             list_columns(csv, list, sizeof list));
    free(names);
    return f->code;
}

/* ---- columns that are left out ----------------------------------------------------------------------------------- */
/* ignored[columns]: those that the list names. One name that has commas in it is a list too. */
static int ignore_columns(const csv_file *csv, const char *list, bool *ignored, failure *f)
{
    if (find_column(csv, list) < csv->columns) {
        ignored[find_column(csv, list)] = true;
        return 0;
    }
    char *copy = strdup(list), *at = copy;
    if (!copy)
        return fail(f, EX_SOFTWARE, "%s: no memory for the names of columns", csv->path);
    failure all = {0}, one;
    while (at) {
        char *name = at + strspn(at, " "), *comma = strchr(name, ',');
        at = comma ? comma + 1 : NULL;
        if (comma)
            *comma = '\0';
        for (size_t n = strlen(name); n && name[n - 1] == ' ';)
            name[--n] = '\0';
        size_t c = find_column(csv, name);
        if (c < csv->columns)
            ignored[c] = true;
        else {
            refuse_column(csv, name, &one);
            add_failure(&all, &one);
        }
    }
    free(copy);
    if (all.code)
        *f = all;
    return all.code;
}

/* Flags for the columns, to be freed; NULL with *f filled. list NULL: all count. */
static bool *choose_columns(const csv_file *csv, const char *list, failure *f)
{
    bool *ignored = calloc(csv->columns, sizeof *ignored);
    if (!ignored)
        fail(f, EX_SOFTWARE, "%s: no memory for %zu columns", csv->path, csv->columns);
    else if (list && ignore_columns(csv, list, ignored, f)) {
        free(ignored);
        return NULL;
    }
    return ignored;
}

/* Rows in which a column that counts, the target among them, has no value. */
static size_t count_missing(const csv_file *csv, const bool *ignored, size_t target)
{
    size_t rows = 0;
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = first_field(csv, row);
        bool missing = false;
        for (size_t c = 0; c < csv->columns; c++, field = next_field(field))
            missing = missing || ((!ignored[c] || c == target) && is_missing(field));
        rows += missing;
    }
    return rows;
}

/* A field of a feature that is no number, and what can be done about it. */
static int refuse_feature(const csv_file *csv, size_t row, size_t column, const char *field, const char *expected,
                          size_t missing, failure *f)
{
    char text[500], also[80] = "encode it as numbers, such as 0/1 columns";
    if (is_missing(field))
        snprintf(also, sizeof also, "remove or fill the rows with missing values (%zu in this file)", missing);
    else if (!strcasecmp(field, "true") || !strcasecmp(field, "false"))
        snprintf(also, sizeof also, "write 0 and 1");
    snprintf(text, sizeof text, "%s, or --ignore %s to leave the column out, or %s", expected, csv->name[column], also);
    return refuse_field(csv, row, column, field, text, f);
}

/* ---- the target -------------------------------------------------------------------------------------------------- */
enum { TARGET_ROOM = 160 }; /* bytes of why a column has to be what a target is */

/* What the values of a column are. */
typedef struct {
    bool numbers;               /* all of them are numbers, and compared as such */
    size_t different;           /* 1, 2, or 3 for more */
    const char *first, *second; /* in the order of the file */
    size_t third_row;
} label_set;

static int compare_labels(const label_set *set, const char *a, const char *b)
{
    double x = 0, y = 0;
    if (!set->numbers)
        return strcmp(a, b);
    read_number(a, &x);
    read_number(b, &y);
    return (x > y) - (x < y);
}

static void add_label(label_set *set, size_t row, const char *field)
{
    if (set->different == 0)
        set->first = field;
    else if (compare_labels(set, field, set->first) == 0)
        return;
    else if (set->different == 1)
        set->second = field;
    else if (compare_labels(set, field, set->second) == 0)
        return;
    else
        set->third_row = row;
    set->different++;
}

static int refuse_missing_target(const csv_file *csv, size_t row, size_t column, failure *f)
{
    char expected[100];
    size_t rows = 0;
    for (size_t i = 0; i < csv->rows; i++)
        rows += is_missing(find_field(csv, i, column));
    snprintf(expected, sizeof expected, "a value in every row: remove or fill such rows (%zu in this file)", rows);
    return refuse_field(csv, row, column, find_field(csv, row, column), expected, f);
}

static int collect_labels(const csv_file *csv, size_t column, label_set *set, failure *f)
{
    double number;
    *set = (label_set){.numbers = true};
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = find_field(csv, row, column);
        if (is_missing(field))
            return refuse_missing_target(csv, row, column, f);
        set->numbers = set->numbers && read_number(field, &number) == NULL;
    }
    for (size_t row = 0; row < csv->rows && set->different < 3; row++)
        add_label(set, row, find_field(csv, row, column));
    return 0;
}

static int refuse_constant(const csv_file *csv, size_t column, const char *value, const char *expected, failure *f)
{
    char shown[QUOTED];
    return fail(f, EX_DATAERR, "%s:%zu: column %s: every row has the same value %s, expected %s", csv->path,
                csv->line[csv->rows - 1], csv->name[column], quote(value, shown), expected);
}

/* Why a column has to be what a target is. */
static const char *because_target(const regression_data *out, char text[TARGET_ROOM])
{
    const csv_file *csv = &out->csv;
    if (out->moved)
        snprintf(text, TARGET_ROOM,
                 "because it became the target when %.64s was ignored: --target names another column",
                 csv->name[csv->columns - 1]);
    else
        snprintf(text, TARGET_ROOM, "because it is the target: --target names another column");
    return text;
}

static int refuse_third(const regression_data *out, size_t column, const label_set *set, failure *f)
{
    const csv_file *csv = &out->csv;
    char why[TARGET_ROOM];
    char first[QUOTED], second[QUOTED], expected[4 * QUOTED + TARGET_ROOM];
    const char *third = find_field(csv, set->third_row, column);
    bool same = !strcasecmp(third, set->first) || !strcasecmp(third, set->second);
    snprintf(expected, sizeof expected, "two different values (%s and %s so far), %s, and %s", quote(set->first, first),
             quote(set->second, second), because_target(out, why),
             same           ? "labels that differ only in case are different"
             : set->numbers ? "the model linear takes numbers"
                            : "several classes are not supported: recode the column to two");
    return refuse_field(csv, set->third_row, column, third, expected, f);
}

/* y[rows]: 0 for the smaller label, 1 for the greater one; both are kept. */
static int convert_labels(regression_data *out, size_t column, const label_set *set, failure *f)
{
    bool rising = compare_labels(set, set->first, set->second) < 0;
    const char *zero = rising ? set->first : set->second, *one = rising ? set->second : set->first;
    for (size_t row = 0; row < out->csv.rows; row++)
        out->y[row] = compare_labels(set, find_field(&out->csv, row, column), one) == 0;
    out->label[0] = strdup(zero);
    out->label[1] = strdup(one);
    return out->label[0] && out->label[1] ? 0 : fail(f, EX_SOFTWARE, "%s: no memory for two labels", out->csv.path);
}

static int read_numbers(const csv_file *csv, size_t column, double *out, failure *f)
{
    for (size_t row = 0; row < csv->rows; row++)
        if (read_field(csv, row, column, find_field(csv, row, column), &out[row], f))
            return f->code;
    return 0;
}

static int read_target_numbers(const regression_data *out, size_t column, failure *f)
{
    const csv_file *csv = &out->csv;
    char text[QUOTED + TARGET_ROOM + 60], why[TARGET_ROOM];
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = find_field(csv, row, column), *expected = read_number(field, &out->y[row]);
        if (expected) {
            snprintf(text, sizeof text, "%s, %s, and the model logistic takes two labels", expected,
                     because_target(out, why));
            return refuse_field(csv, row, column, field, text, f);
        }
    }
    return 0;
}

static int read_target(regression_data *out, size_t column, target_kind kind, failure *f)
{
    label_set set;
    if (collect_labels(&out->csv, column, &set, f))
        return f->code;
    out->labels = kind == TARGET_LABELS || (kind == TARGET_EITHER && set.different == 2);
    if (!out->labels && read_target_numbers(out, column, f))
        return f->code;
    if (set.different < 2)
        return refuse_constant(&out->csv, column, set.first,
                               kind == TARGET_LABELS ? "two different ones" : "at least two different ones", f);
    if (out->labels && set.different > 2)
        return refuse_third(out, column, &set, f);
    return out->labels ? convert_labels(out, column, &set, f) : 0;
}

/* ---- the features ------------------------------------------------------------------------------------------------ */
/* A line for each feature that has fields which are no numbers; bad[columns]: the first row of these, counted from 1.
 */
static int refuse_features(const csv_file *csv, const bool *ignored, size_t target, const size_t *bad, failure *f)
{
    size_t missing = count_missing(csv, ignored, target);
    failure one;
    double value;
    f->code = 0;
    for (size_t c = 0; c < csv->columns; c++)
        if (bad[c]) {
            const char *field = find_field(csv, bad[c] - 1, c);
            refuse_feature(csv, bad[c] - 1, c, field, read_number(field, &value), missing, &one);
            add_failure(f, &one);
        }
    return f->code;
}

/* All columns that are not ignored: the target's flag is set too by now. */
static int read_features(regression_data *out, const bool *ignored, size_t target, failure *f)
{
    const csv_file *csv = &out->csv;
    double *x = out->X;
    bool any = false;
    size_t *bad = calloc(csv->columns, sizeof *bad);
    if (!bad)
        return fail(f, EX_SOFTWARE, "%s: no memory for %zu columns", csv->path, csv->columns);
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = first_field(csv, row);
        for (size_t c = 0; c < csv->columns; c++, field = next_field(field))
            if (!ignored[c] && read_number(field, x++) && !bad[c]) {
                bad[c] = row + 1;
                any = true;
            }
    }
    int code = any ? refuse_features(csv, ignored, target, bad, f) : 0;
    free(bad);
    return code;
}

/* Memory for the features, and for their names. */
static int allocate_features(regression_data *out, const bool *ignored, failure *f)
{
    const csv_file *csv = &out->csv;
    out->rows = csv->rows;
    for (size_t c = 0; c < csv->columns; c++)
        out->columns += !ignored[c];
    if (!(out->X = allocate(csv, out->columns, f)) || !(out->y = allocate(csv, 1, f)))
        return f->code;
    if (!(out->names = calloc(out->columns, sizeof *out->names)))
        return fail(f, EX_SOFTWARE, "%s: no memory for %zu names", csv->path, out->columns);
    return 0;
}

/* Of the file only names are needed once its numbers have been read. */
static void keep_names(regression_data *out, const bool *ignored, size_t target)
{
    forget_rows(&out->csv);
    out->target = out->csv.name[target];
    for (size_t c = 0, i = 0; c < out->csv.columns; c++)
        if (!ignored[c])
            out->names[i++] = out->csv.name[c];
}

/* The column of that name, or the last one that counts; csv->columns with *f filled. */
static size_t find_target(const csv_file *csv, const char *name, const bool *ignored, failure *f)
{
    size_t target = name ? find_column(csv, name) : csv->columns, others = 0;
    for (size_t c = 0; c < csv->columns; c++)
        others += !ignored[c];
    if (name && target == csv->columns) {
        refuse_column(csv, name, f);
        return target;
    }
    for (size_t c = csv->columns; !name && target == csv->columns && c-- > 0;)
        if (!ignored[c])
            target = c;
    if (others < 2 || (name && ignored[target])) {
        const char *shown = csv->name[target < csv->columns ? target : 0];
        fail(f, EX_DATAERR,
             name && ignored[target]
                 ? "%s:1: column %s is the target and cannot be ignored"
                 : "%s:1: column %s: there is no other column, expected a target and at least one feature",
             csv->path, shown);
        return csv->columns;
    }
    return target;
}

static int read_table(regression_data *out, const char *target_name, bool *ignored, target_kind kind, failure *f)
{
    size_t target = find_target(&out->csv, target_name, ignored, f);
    if (target == out->csv.columns)
        return f->code;
    out->moved = !target_name && ignored[out->csv.columns - 1];
    ignored[target] = true;
    if (allocate_features(out, ignored, f))
        return f->code;
    failure all = {0}, one;
    if (read_features(out, ignored, target, &one))
        add_failure(&all, &one);
    if (read_target(out, target, kind, &one))
        add_failure(&all, &one);
    if (all.code)
        *f = all;
    else
        keep_names(out, ignored, target);
    return all.code;
}

int read_regression(const char *path, const char *target, const char *ignore, target_kind kind, regression_data *out,
                    failure *f)
{
    *out = (regression_data){0};
    if (open_csv(path, &out->csv, f))
        return f->code;
    bool *ignored = choose_columns(&out->csv, ignore, f);
    int code = ignored ? read_table(out, target, ignored, kind, f) : f->code;
    free(ignored);
    if (code)
        free_regression(out);
    return code;
}

void forget_numbers(regression_data *data)
{
    free(data->X);
    free(data->y);
    data->X = data->y = NULL;
}

void free_regression(regression_data *data)
{
    forget_numbers(data);
    free(data->names);
    free(data->label[0]);
    free(data->label[1]);
    close_csv(&data->csv);
    *data = (regression_data){0};
}

void measure_features(const regression_data *data, double *mean, double *sd)
{
    double n = (double)data->rows;
    for (size_t c = 0; c < data->columns; c++) {
        const double *x = data->X + c; /* x[i * columns] */
        bool constant = true;
        double square = 0;
        mean[c] = 0;
        for (size_t i = 0; i < data->rows; i++) {
            mean[c] += x[i * data->columns] / n;
            constant = constant && x[i * data->columns] == x[0];
        }
        for (size_t i = 0; i < data->rows; i++)
            square += (x[i * data->columns] - mean[c]) * (x[i * data->columns] - mean[c]);
        sd[c] = constant ? 0 : sqrt(square / (n - 1));
        mean[c] = constant ? x[0] : mean[c];
    }
}

/* ---- series ------------------------------------------------------------------------------------------------------ */
/* The columns of time and value: those named t and y, or else the first and the second of two. */
static int find_pair(const csv_file *csv, const bool *ignored, size_t *t, size_t *y, failure *f)
{
    size_t left[2] = {0, 0}, n = 0;
    for (size_t c = 0; c < csv->columns; c++)
        if (!ignored[c] && n++ < 2)
            left[n - 1] = c;
    if (n != 2)
        return fail(f, EX_DATAERR, "%s:1: found %zu column%s, expected two: time and value%s", csv->path, n,
                    n == 1 ? "" : "s", n > 2 ? " (leave out others with --ignore)" : "");
    bool swapped = !strcmp(csv->name[left[0]], "y") || !strcmp(csv->name[left[1]], "t");
    *t = left[swapped];
    *y = left[!swapped];
    return 0;
}

static int read_pair(const csv_file *csv, const bool *ignored, series_data *out, failure *f)
{
    size_t t = 0, y = 0;
    if (find_pair(csv, ignored, &t, &y, f))
        return f->code;
    if (csv->rows > longest_series)
        return fail(f, EX_DATAERR, "%s:%zu: found %zu rows, expected at most %zu", csv->path, csv->line[longest_series],
                    csv->rows, longest_series);
    out->n = csv->rows;
    if (!(out->t = allocate(csv, 1, f)) || !(out->y = allocate(csv, 1, f)))
        return f->code;
    failure all = {0}, one;
    if (read_numbers(csv, t, out->t, &one))
        add_failure(&all, &one);
    if (read_numbers(csv, y, out->y, &one))
        add_failure(&all, &one);
    if (all.code) {
        *f = all;
        return all.code;
    }
    for (size_t i = 1; i < out->n; i++)
        if (out->y[i] != out->y[0])
            return 0;
    return refuse_constant(csv, y, find_field(csv, 0, y), "at least two different ones", f);
}

int read_series(const char *path, const char *ignore, series_data *out, failure *f)
{
    csv_file csv;
    *out = (series_data){0};
    if (open_csv(path, &csv, f))
        return f->code;
    bool *ignored = choose_columns(&csv, ignore, f);
    int code = ignored ? read_pair(&csv, ignored, out, f) : f->code;
    free(ignored);
    close_csv(&csv);
    if (code)
        free_series(out);
    return code;
}

void free_series(series_data *data)
{
    free(data->t);
    free(data->y);
    *data = (series_data){0};
}
