/* logistic_truth.c - data and true values for Bayesian logistic regression, for tests. */
#include "logistic_truth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ---- data files -------------------------------------------------------------------------------------------------- */
static FILE *open_data(const char *format, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, format, name);
    return table_open(path);
}

/* The indices of line `subset` into row[]; returns how many, 0 on failure. */
static size_t read_subset(const char *name, int subset, size_t most, size_t *row)
{
    char line[TABLE_LINE];
    size_t n = 0;
    FILE *file = open_data("tests/data/subsets_%s.csv", name);
    if (!file)
        return 0;
    bool found = true;
    for (int i = 0; i <= subset && found; i++)
        found = table_next(file, line);
    fclose(file);
    for (char *text = found ? line : NULL, *end; text && n < most; text = *end == ',' ? end + 1 : NULL)
        row[n++] = (size_t)strtoul(text, &end, 10);
    return n;
}

/* Rows and columns (with the target) of an open CSV file, which is left after its header. */
static bool csv_shape(FILE *file, size_t *rows, size_t *columns)
{
    char line[TABLE_LINE];
    if (!table_next(file, line))
        return false;
    *columns = 1;
    for (const char *c = line; *c; c++)
        *columns += *c == ',';
    for (*rows = 0; table_next(file, line);)
        ++*rows;
    rewind(file);
    return table_next(file, line);
}

/* All rows: the features, then a column of ones where the file has the target. */
static bool read_all(logistic_data *data, const char *name)
{
    char line[TABLE_LINE];
    FILE *file = open_data("data/%s.csv", name);
    if (!file)
        return false;
    bool good = csv_shape(file, &data->n, &data->D);
    data->X = good ? calloc(data->n * data->D, sizeof *data->X) : NULL;
    data->y = good ? calloc(data->n, sizeof *data->y) : NULL;
    good = data->X && data->y;
    for (size_t i = 0; i < data->n && good; i++) {
        double *x = data->X + i * data->D;
        good = table_next(file, line) && table_numbers(line, data->D, x) != NULL;
        data->y[i] = x[data->D - 1];
        x[data->D - 1] = 1.0;
    }
    fclose(file);
    return good;
}

static bool keep_rows(logistic_data *data, const char *name, int subset)
{
    size_t *row = calloc(data->n, sizeof *row), n = row ? read_subset(name, subset, data->n, row) : 0, D = data->D;
    double *X = calloc(n * D + 1, sizeof *X), *y = calloc(n + 1, sizeof *y);
    bool good = n > 0 && X && y;
    for (size_t i = 0; i < n && good; i++) {
        good = row[i] < data->n;
        if (!good)
            break;
        memcpy(X + i * D, data->X + row[i] * D, D * sizeof *X);
        y[i] = data->y[row[i]];
    }
    free(row);
    free(data->X);
    free(data->y);
    *data = (logistic_data){.n = n, .D = D, .X = X, .y = y};
    return good;
}

static void standardize_column(logistic_data *data, size_t d)
{
    size_t n = data->n, D = data->D;
    double *x = data->X + d, mean = 0.0, square = 0.0, lowest = x[0], highest = x[0];
    for (size_t i = 0; i < n; i++) {
        mean += x[i * D] / (double)n;
        lowest = fmin(lowest, x[i * D]);
        highest = fmax(highest, x[i * D]);
    }
    for (size_t i = 0; i < n; i++)
        square += (x[i * D] - mean) * (x[i * D] - mean);
    double sd = sqrt(square / (double)(n - 1));
    for (size_t i = 0; i < n; i++)
        x[i * D] = lowest < highest ? (x[i * D] - mean) / sd : 0.0;
}

bool logistic_data_read(logistic_data *data, const char *name, int subset, bool standardize)
{
    *data = (logistic_data){0};
    bool good = read_all(data, name) && (subset == LOGISTIC_ALL_ROWS || keep_rows(data, name, subset));
    if (!good)
        logistic_data_free(data);
    for (size_t d = 0; standardize && d + 1 < data->D; d++)
        standardize_column(data, d);
    return good;
}

void logistic_data_free(logistic_data *data)
{
    free(data->X);
    free(data->y);
    *data = (logistic_data){0};
}

/* ---- truths from tables ------------------------------------------------------------------------------------------ */
/* What follows "<name> <treatment> <subset> <kind> " in tests/data/<table>, in line. NULL: not there. */
static const char *find_row(const char *table, const char *name, int subset, bool standardize, const char *kind,
                            char line[TABLE_LINE])
{
    char key[256];
    snprintf(key, sizeof key, "%s %s %d %s%s", name, standardize ? "standardized" : "raw", subset, kind,
             *kind ? " " : "");
    return table_find(table, key, line);
}

bool logistic_truth_read(logistic_truth *truth, const char *name, int subset, bool standardize)
{
    char line[TABLE_LINE];
    double value[5];
    const char *rest = find_row("logistic_truth.txt", name, subset, standardize, "", line);
    if (!rest || !table_numbers(rest, 5, value))
        return false;
    *truth = (logistic_truth){(size_t)value[0], value[1], value[2], value[3], value[4]};
    return true;
}

bool logistic_moment_read(const char *name, int subset, bool standardize, const char *kind, size_t D, double *value)
{
    char line[TABLE_LINE];
    const char *rest = find_row("logistic_moments.txt", name, subset, standardize, kind, line);
    return rest && table_numbers(rest, D, value);
}
