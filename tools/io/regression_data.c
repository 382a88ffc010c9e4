/* regression_data.c - features and a target of a table, or a time series, from CSV. */
#include "model_data.h"
#include "pages.h"
#include "text.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

static const size_t longest_series = 20000; /* an exact Gaussian process takes n^2 memory and n^3 time */

static double *allocate(const csv_file *csv, size_t rows, size_t columns, failure *f)
{
    double *numbers = columns < SIZE_MAX / (rows + 1) ? calloc(rows * columns + 1, sizeof *numbers) : NULL;
    if (!numbers)
        fail(f, EX_SOFTWARE, "%s: no memory for %zu rows of %zu columns", csv->path, rows, columns);
    return numbers;
}

/* Flags for the columns that a list names, to be freed; NULL with *f filled. list NULL: none. */
static bool *choose_columns(const csv_file *csv, const char *list, failure *f)
{
    bool *flag = calloc(csv->columns, sizeof *flag);
    if (!flag)
        fail(f, EX_SOFTWARE, "%s: no memory for %zu columns", csv->path, csv->columns);
    else if (list && mark_columns(csv, list, flag, f)) {
        free(flag);
        return NULL;
    }
    return flag;
}

/* ---- the target -------------------------------------------------------------------------------------------------- */
enum { TARGET_ROOM = 240 }; /* bytes of why a column has to be what a target is */

/* What the values of a column are. */
typedef struct {
    bool numbers;         /* all of them are numbers, and compared as such */
    bool booleans;        /* all of them are yes or no: "Yes" and "y" are the same label */
    size_t different;     /* 1, 2, or 3 for more */
    const char *value[3]; /* the first ones that are different, in the order of the file */
    size_t row[3], line;  /* where they stand, in this share; the line of the last row of the file */
    unsigned third;       /* the share that has the third */
    char *text;           /* values of all shares, to be freed; NULL without shares */
} label_set;

static int compare_labels(const label_set *set, const char *a, const char *b)
{
    double x = 0, y = 0;
    if (set->booleans)
        return read_boolean(a) - read_boolean(b);
    if (!set->numbers)
        return strcmp(a, b);
    read_number(a, &x);
    read_number(b, &y);
    return (x > y) - (x < y);
}

/* Whether it is a new one. */
static bool add_label(label_set *set, size_t row, const char *field)
{
    for (size_t k = 0; k < set->different; k++)
        if (compare_labels(set, field, set->value[k]) == 0)
            return false;
    set->row[set->different] = row;
    set->value[set->different++] = field;
    return true;
}

/* The values of all shares, which are in the order of the file, take the place of those of this one. */
static int share_labels(const data_table *t, label_set *set, failure *f)
{
    row_shares *s = t->csv.shares;
    label_set mine = *set;
    size_t bytes = 0, size, *begin = calloc(s->count + 1, sizeof *begin);
    for (size_t k = 0; k < mine.different; k++)
        bytes += strlen(mine.value[k]) + 1;
    char *text = malloc(bytes + 1), *at = text;
    for (size_t k = 0; text && k < mine.different; k++)
        at = stpcpy(at, mine.value[k]) + 1;
    int code = text && begin ? share_texts(s, text, bytes, &set->text, &size, begin, f)
                             : fail(f, EX_SOFTWARE, "%s: no memory for labels", t->csv.path);
    set->different = 0;
    for (size_t i = 0, rank = 0, own = 0; !code && i < size && set->different < 3; i += strlen(set->text + i) + 1) {
        while (rank + 1 < s->count && i >= begin[rank + 1]) /* those of the next share that has some */
            rank++;
        bool here = rank == s->rank;
        if (add_label(set, here ? mine.row[own] : 0, set->text + i) && set->different == 3)
            set->third = (unsigned)rank;
        own += here;
    }
    free(text);
    free(begin);
    return code;
}

static int collect_labels(const data_table *t, size_t column, label_set *set, failure *f)
{
    double number, line = t->csv.rows ? (double)t->csv.line[t->csv.rows - 1] : 0;
    *set = (label_set){.numbers = true, .booleans = t->column[column].kind == COLUMN_BOOLEAN};
    for (size_t i = 0; i < t->rows; i++)
        set->numbers = set->numbers && read_number(response_field(t, column, i), &number) == NULL;
    if (share_all(t->csv.shares, &set->numbers, f) || share_last(t->csv.shares, t->csv.rows > 0, &line, f))
        return f->code;
    set->line = (size_t)line;
    for (size_t i = 0; i < t->rows && set->different < 3; i++)
        add_label(set, t->row[i], response_field(t, column, i));
    return t->csv.shares ? share_labels(t, set, f) : 0;
}

static int refuse_constant(const csv_file *csv, size_t line, size_t column, const char *value, const char *expected,
                           failure *f)
{
    char shown[QUOTED];
    return fail(f, EX_DATAERR, "%s:%zu: column %s: every row has the same value %s, expected %s", csv->path, line,
                csv->name[column], quote(value, shown), expected);
}

/* Why a column has to be what a target is, and what to do if it is not. */
static const char *because_target(const regression_data *out, const char *remedy, char text[TARGET_ROOM])
{
    const csv_file *csv = &out->source.csv;
    if (out->moved)
        snprintf(text, TARGET_ROOM,
                 "because it became the target when %.64s was ignored: name another with --target, or %s",
                 csv->name[csv->columns - 1], remedy);
    else
        snprintf(text, TARGET_ROOM, "because it is the target: name another with --target, or %s", remedy);
    return text;
}

static int refuse_third(const regression_data *out, size_t column, const label_set *set, failure *f)
{
    const csv_file *csv = &out->source.csv;
    char why[TARGET_ROOM];
    char first[QUOTED], second[QUOTED], expected[4 * QUOTED + TARGET_ROOM];
    const char *third = set->value[2];
    bool same = !strcasecmp(third, set->value[0]) || !strcasecmp(third, set->value[1]);
    f->code = 0;
    if (csv->shares && csv->shares->rank != set->third)
        return 0;
    const char *remedy = same           ? "write each label in one case only"
                         : set->numbers ? "use the model linear, which takes numbers"
                                        : "recode this one to two values";
    snprintf(expected, sizeof expected, "two different values (%s and %s so far), %s", quote(set->value[0], first),
             quote(set->value[1], second), because_target(out, remedy, why));
    return refuse_field(csv, set->row[2], column, third, expected, f);
}

/* y[rows]: 0 for the smaller label, 1 for the greater one; both are kept. */
static int convert_labels(regression_data *out, size_t column, const label_set *set, failure *f)
{
    bool rising = compare_labels(set, set->value[0], set->value[1]) < 0;
    const char *zero = set->value[!rising], *one = set->value[rising];
    for (size_t i = 0; i < out->rows; i++)
        out->y[i] = compare_labels(set, response_field(&out->source, column, i), one) == 0;
    out->label[0] = strdup(zero);
    out->label[1] = strdup(one);
    return out->label[0] && out->label[1] ? 0
                                          : fail(f, EX_SOFTWARE, "%s: no memory for two labels", out->source.csv.path);
}

static int read_target_numbers(const regression_data *out, size_t column, failure *f)
{
    const data_table *t = &out->source;
    char text[QUOTED + TARGET_ROOM + 60], why[TARGET_ROOM];
    f->code = 0;
    for (size_t i = 0; i < t->rows; i++) {
        const char *field = response_field(t, column, i), *expected = read_number(field, &out->y[i]);
        if (expected) {
            snprintf(text, sizeof text, "%s, %s", expected,
                     because_target(out, "use the model logistic, which takes two labels", why));
            refuse_field(&t->csv, t->row[i], column, field, text, f);
            break;
        }
    }
    return share_failure(t->csv.shares, f);
}

/* What is wrong with the target, given its values. */
static int check_target(const regression_data *out, size_t column, target_kind kind, bool partial, const label_set *set,
                        failure *f)
{
    if (!out->labels && read_target_numbers(out, column, f))
        return f->code;
    f->code = 0;
    if (set->different < 2 && partial)
        return 0;
    if (set->different < 2)
        refuse_constant(&out->source.csv, set->line, column, set->value[0],
                        kind == TARGET_LABELS ? "two different ones" : "at least two different ones", f);
    else if (out->labels && set->different > 2)
        refuse_third(out, column, set, f);
    return share_failure(out->source.csv.shares, f);
}

/* partial: rows with missing values are left out, though they must not be, which is said elsewhere. */
static int read_target(regression_data *out, size_t column, target_kind kind, bool partial, failure *f)
{
    label_set set;
    f->code = 0;
    if (!out->all_rows)
        return 0;
    int code = collect_labels(&out->source, column, &set, f);
    out->labels = kind == TARGET_LABELS || (kind == TARGET_EITHER && set.different == 2);
    if (!code)
        code = check_target(out, column, kind, partial, &set, f);
    if (!code && out->labels && set.different == 2)
        code = convert_labels(out, column, &set, f);
    free(set.text);
    return code;
}

/* ---- the features ------------------------------------------------------------------------------------------------ */
/* Columns of X that a feature becomes: one, or one for each level but the first. */
static size_t width_of(const data_column *column)
{
    return !is_feature(column) ? 0 : column->kind == COLUMN_CATEGORICAL ? column->levels - 1 : 1;
}

/* Values of a feature in column `at` of X and those after it, of rows begin..end. */
static void fill_feature(regression_data *out, const data_column *column, size_t at, size_t begin, size_t end)
{
    size_t width = width_of(column);
    for (size_t i = begin; i < end; i++)
        for (size_t k = 0; k < width; k++)
            out->X[i * out->columns + at + k] = column->kind != COLUMN_CATEGORICAL  ? column->value[i]
                                                : (size_t)column->value[i] == k + 1 ? 1.0
                                                                                    : 0.0;
}

/* "column", or "column[level]" of each level but the first. */
static bool name_feature(regression_data *out, const data_column *column, size_t at)
{
    for (size_t k = 0; k < width_of(column); k++) {
        bool category = column->kind == COLUMN_CATEGORICAL;
        const char *level = category ? column->level[k + 1] : "";
        size_t size = strlen(column->name) + strlen(level) + sizeof "[]";
        if (!(out->own[at + k] = malloc(size)))
            return false;
        snprintf(out->own[at + k], size, category ? "%s[%s]" : "%s%s", column->name, level);
        out->names[at + k] = out->own[at + k];
    }
    return true;
}

/* X is filled row by row, and the columns are given back meanwhile. */
static void fill_rows(regression_data *out)
{
    enum { TOGETHER = 8192 }; /* rows */
    data_table *t = &out->source;
    for (size_t begin = 0, end; begin < out->rows; begin = end) {
        end = out->rows - begin < TOGETHER ? out->rows : begin + TOGETHER;
        for (size_t c = 0, at = 0; c < t->csv.columns; at += width_of(&t->column[c++])) {
            double *value = t->column[c].value;
            fill_feature(out, &t->column[c], at, begin, end);
            if (value)
                give_back(value + begin, (end - begin) * sizeof *value);
        }
    }
}

static int fill_features(regression_data *out, failure *f)
{
    data_table *t = &out->source;
    bool good = true;
    for (size_t c = 0; c < t->csv.columns; c++)
        out->columns += width_of(&t->column[c]);
    if (!(out->X = allocate(&t->csv, t->rows, out->columns, f)))
        return f->code;
    out->names = calloc(out->columns + 1, sizeof *out->names);
    out->own = calloc(out->columns + 1, sizeof *out->own);
    good = out->names && out->own;
    for (size_t c = 0, at = 0; good && c < t->csv.columns; at += width_of(&t->column[c++]))
        good = name_feature(out, &t->column[c], at);
    if (good)
        fill_rows(out);
    forget_values(t);
    return good ? 0 : fail(f, EX_SOFTWARE, "%s: no memory for %zu names", t->csv.path, out->columns);
}

/* ---- which columns count ----------------------------------------------------------------------------------------- */
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

/* Marks the features and the target; *target: its column. */
static int mark_used(regression_data *out, const table_options *options, const bool *ignored, const bool *wanted,
                     size_t *target, failure *f)
{
    data_table *t = &out->source;
    *target = find_target(&t->csv, options->target, ignored, f);
    if (*target == t->csv.columns)
        return f->code;
    out->moved = !options->target && ignored[t->csv.columns - 1];
    for (size_t c = 0; c < t->csv.columns; c++) {
        if (options->features && wanted[c] && (ignored[c] || c == *target))
            return fail(f, EX_DATAERR, "%s:1: column %s is a feature (--features) and cannot be %s", t->csv.path,
                        t->csv.name[c], ignored[c] ? "ignored" : "the target: --target names another one");
        t->column[c].used = c == *target || (!ignored[c] && (!options->features || wanted[c]));
        t->column[c].named = options->features != NULL;
    }
    t->column[*target].response = true;
    out->target = t->csv.name[*target];
    return 0;
}

static int find_used(regression_data *out, const table_options *options, size_t *target, failure *f)
{
    const csv_file *csv = &out->source.csv;
    bool *ignored = choose_columns(csv, options->ignore, f),
         *wanted = ignored ? choose_columns(csv, options->features, f) : NULL;
    int code = wanted ? mark_used(out, options, ignored, wanted, target, f) : f->code;
    free(ignored);
    free(wanted);
    return code;
}

/* All problems of all columns come in one message. */
static int read_parts(regression_data *out, const table_options *options, target_kind kind, failure *f)
{
    failure all = {0}, one;
    size_t target = 0;
    if (find_used(out, options, &target, f))
        return f->code;
    if (read_columns(&out->source, options, &one))
        add_failure(&all, &one);
    out->rows = out->source.rows;
    out->all_rows = out->source.all_rows;
    f->code = 0;
    out->y = allocate(&out->source.csv, out->rows, 1, f);
    if (share_failure(out->source.csv.shares, f))
        return f->code;
    if (read_target(out, target, kind, all.code && out->source.dropped, &one))
        add_failure(&all, &one);
    if (all.code) {
        add_remedies(&out->source, &all);
        *f = all;
        return all.code;
    }
    forget_table_rows(&out->source);
    out->target = out->source.csv.name[target];
    return fill_features(out, f);
}

int read_regression(const char *path, const table_options *options, target_kind kind, regression_data *out, failure *f)
{
    *out = (regression_data){0};
    if (open_table(path, options, &out->source, f))
        return f->code;
    f->code = 0;
    out->source.lean = true;
    read_parts(out, options, kind, f);
    int code = share_failure(out->source.csv.shares, f);
    if (code)
        free_regression(out);
    else
        forget_values(&out->source);
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
    for (size_t i = 0; data->own && i < data->columns; i++)
        free(data->own[i]);
    free(data->own);
    free(data->names);
    free(data->label[0]);
    free(data->label[1]);
    close_table(&data->source);
    *data = (regression_data){0};
}

/* ---- series ------------------------------------------------------------------------------------------------------ */
static int read_numbers(const csv_file *csv, size_t column, double *out, failure *f)
{
    for (size_t row = 0; row < csv->rows; row++)
        if (read_field(csv, row, column, find_field(csv, row, column), &out[row], f))
            return f->code;
    return 0;
}

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
    if (!(out->t = allocate(csv, csv->rows, 1, f)) || !(out->y = allocate(csv, csv->rows, 1, f)))
        return f->code;
    out->name[0] = strdup(csv->name[t]);
    out->name[1] = strdup(csv->name[y]);
    if (!out->name[0] || !out->name[1])
        return fail(f, EX_SOFTWARE, "%s: no memory for two names", csv->path);
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
    return refuse_constant(csv, csv->line[csv->rows - 1], y, find_field(csv, 0, y), "at least two different ones", f);
}

int read_series(const char *path, const char *ignore, series_data *out, failure *f)
{
    csv_file csv;
    *out = (series_data){0};
    if (open_csv(path, 0, &csv, f))
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
    free(data->name[0]);
    free(data->name[1]);
    *data = (series_data){0};
}
