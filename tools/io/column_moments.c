/* column_moments.c - constants, means and sds of columns, summed in the order of rows and shares. */
#include "column_moments.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* first[columns]: the first row of the file, in all processes; NULL: no memory in one of them. */
static double *share_first_row(row_shares *s, size_t rows, size_t columns, const double *X, failure *f)
{
    double *first = calloc(columns + 1, sizeof *first);
    f->code = first ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu columns", columns);
    int code = share_failure(s, f);
    for (size_t c = 0; c < columns && !code; c++) {
        first[c] = rows ? X[c] : 0;
        code = share_first(s, rows > 0, &first[c], f);
    }
    if (!code)
        return first;
    free(first);
    return NULL;
}

int find_constants(row_shares *s, size_t rows, size_t columns, const double *X, bool *constant, failure *f)
{
    double *first = share_first_row(s, rows, columns, X, f);
    size_t *others = calloc(columns + 1, sizeof *others);
    int code = first ? 0 : f->code;
    if (!code && !others)
        fail(f, EX_SOFTWARE, "no memory for %zu columns", columns);
    if (!code)
        code = share_failure(s, f);
    for (size_t i = 0; i < rows * columns && !code; i++)
        others[i % columns] += X[i] != first[i % columns];
    if (!code)
        code = share_counts(s, columns, others, f);
    for (size_t c = 0; c < columns && !code; c++)
        constant[c] = !others[c];
    free(first);
    free(others);
    return code;
}

/* Where squares leave the range of numbers: of distances from the mean, over the largest of them. */
static int measure_again(row_shares *s, size_t rows, double n, size_t columns, const double *X, size_t c, double mean,
                         double *sd, failure *f)
{
    double largest = 0, *all, scaled = 0;
    size_t shares;
    for (size_t i = 0; i < rows; i++)
        largest = fmax(largest, fabs(X[i * columns + c] - mean));
    if (share_numbers(s, 1, &largest, &all, &shares, f))
        return f->code;
    for (size_t k = 0; k < shares; k++)
        largest = fmax(largest, all[k]);
    free(all);
    for (size_t i = 0; i < rows; i++)
        scaled += (X[i * columns + c] - mean) / largest * ((X[i * columns + c] - mean) / largest);
    int code = share_sums(s, 1, &scaled, f);
    *sd = largest * sqrt(scaled / (n - 1));
    return code;
}

int measure_columns(row_shares *s, size_t rows, size_t all_rows, size_t columns, const double *X, const bool *constant,
                    double *mean, double *sd, failure *f)
{
    double n = (double)all_rows, *first = share_first_row(s, rows, columns, X, f);
    if (!first)
        return f->code;
    memset(mean, 0, columns * sizeof *mean);
    memset(sd, 0, columns * sizeof *sd);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns; c++)
            mean[c] += X[i * columns + c] / n;
    int code = share_sums(s, columns, mean, f);
    for (size_t i = 0; i < rows && !code; i++)
        for (size_t c = 0; c < columns; c++)
            sd[c] += (X[i * columns + c] - mean[c]) * (X[i * columns + c] - mean[c]);
    if (!code)
        code = share_sums(s, columns, sd, f);
    for (size_t c = 0; c < columns && !code; c++) {
        bool fits = sd[c] > 0 && isfinite(sd[c]);
        sd[c] = constant[c] ? 0 : sqrt(sd[c] / (n - 1));
        if (!constant[c] && !fits)
            code = measure_again(s, rows, n, columns, X, c, mean[c], &sd[c], f);
        mean[c] = constant[c] ? first[c] : mean[c];
    }
    free(first);
    return code;
}
