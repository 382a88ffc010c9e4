/* regression_design.c - the rows of a regression as the models use them. */
#include "regression_design.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Centres each of the first P columns of X [rows][stride] and divides it by its sample sd; a constant column becomes
 * 0. Row by row, as X lies: mean and square [P]. */
static void standardize(size_t rows, size_t P, size_t stride, double *X, double *mean, double *square)
{
    double n = (double)rows;
    for (size_t d = 0; d < P; d++)
        mean[d] = square[d] = 0.0;
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < P; d++) {
            mean[d] += X[i * stride + d] / n;
            square[d] += X[i * stride + d] != X[d]; /* is it constant? */
        }
    for (size_t d = 0; d < P; d++)
        square[d] = square[d] > 0 ? 0.0 : INFINITY;
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < P; d++)
            square[d] += (X[i * stride + d] - mean[d]) * (X[i * stride + d] - mean[d]);
    for (size_t d = 0; d < P; d++)
        square[d] = sqrt(square[d] / (n - 1.0));
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < P; d++)
            X[i * stride + d] = isinf(square[d]) ? 0.0 : (X[i * stride + d] - mean[d]) / square[d];
}

void wv_design_read(size_t row, size_t P, const double *X, void (*give_back)(void *memory, size_t bytes))
{
    enum { TOGETHER = 8192 }; /* rows */
    if (give_back && (row + 1) % TOGETHER == 0)
        give_back((void *)(uintptr_t)(X + (row + 1 - TOGETHER) * P), TOGETHER * P * sizeof *X);
}

int wv_design_fill(const wv_regression *data, bool ones, size_t stride, double *X)
{
    size_t rows = data->rows, P = data->columns;
    for (size_t i = 0; i < rows; i++) {
        for (size_t d = 0; d < P; d++)
            X[i * stride + d] = data->X[i * P + d];
        if (ones)
            X[i * stride + P] = 1.0;
        wv_design_read(i, P, data->X, data->give_back);
    }
    if (!data->standardize || P == 0)
        return 0;
    double *moments = calloc(2 * P, sizeof *moments);
    if (!moments)
        return -1;
    standardize(rows, P, stride, X, moments, moments + P);
    free(moments);
    return 0;
}

const char **wv_design_names(size_t columns, const char *const *name, bool intercept, const char *const more[2])
{
    const char *after[3] = {intercept ? "intercept" : NULL, more ? more[0] : NULL, more ? more[1] : NULL};
    size_t bytes = (columns + 3) * sizeof(char *), count = 0;
    for (size_t d = 0; d < columns; d++)
        bytes += strlen(name[d]) + 1;
    const char **names = malloc(bytes);
    if (!names)
        return NULL;
    char *text = (char *)(names + columns + 3);
    for (; count < columns; count++) {
        size_t size = strlen(name[count]) + 1;
        names[count] = memcpy(text, name[count], size);
        text += size;
    }
    for (int i = 0; i < 3; i++)
        if (after[i])
            names[count++] = after[i];
    return names;
}
