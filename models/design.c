/* design.c - the rows of a regression as the models use them. */
#include "design.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Centres column x [rows], `stride` apart, and divides it by its sample sd; a constant column becomes 0. */
static void standardize(size_t rows, size_t stride, double *x)
{
    double mean = 0.0, square = 0.0, n = (double)rows;
    bool constant = true;
    for (size_t i = 0; i < rows; i++) {
        mean += x[i * stride] / n;
        constant = constant && x[i * stride] == x[0];
    }
    for (size_t i = 0; i < rows; i++)
        square += (x[i * stride] - mean) * (x[i * stride] - mean);
    double sd = sqrt(square / (n - 1.0));
    for (size_t i = 0; i < rows; i++)
        x[i * stride] = constant ? 0.0 : (x[i * stride] - mean) / sd;
}

void wv_design_fill(const wv_regression *data, bool ones, size_t stride, double *X)
{
    for (size_t i = 0; i < data->rows; i++) {
        for (size_t d = 0; d < data->columns; d++)
            X[i * stride + d] = data->X[i * data->columns + d];
        if (ones)
            X[i * stride + data->columns] = 1.0;
    }
    for (size_t d = 0; data->standardize && d < data->columns; d++)
        standardize(data->rows, stride, X + d);
}

const char **wv_design_names(const wv_regression *data, bool log_sigma)
{
    const char *more[2] = {"intercept", "log_sigma"};
    bool wanted[2] = {data->intercept, log_sigma};
    size_t bytes = (data->columns + 2) * sizeof(char *), count = 0;
    for (size_t d = 0; d < data->columns; d++)
        bytes += strlen(data->names[d]) + 1;
    const char **names = malloc(bytes);
    if (!names)
        return NULL;
    char *text = (char *)(names + data->columns + 2);
    for (; count < data->columns; count++) {
        size_t size = strlen(data->names[count]) + 1;
        names[count] = memcpy(text, data->names[count], size);
        text += size;
    }
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            names[count++] = more[i];
    return names;
}
