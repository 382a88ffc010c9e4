/* model_data.h - data files of the built-in models, as plain arrays. Functions return 0, or an exit
 * code with *f filled and nothing to free. */
#ifndef WV_MODEL_DATA_H
#define WV_MODEL_DATA_H
#include "csv_file.h"
#include <stdbool.h>

/* {"weights": [K], "means": [[D]..], "sds": [[D]..]} or "covs": [[[D][D]]..]; with D = 1 the entries may
 * be plain numbers (of covs: variances). */
typedef struct {
    size_t D, K;
    double *weight; /* [K] positive */
    double *mean;   /* [K][D] */
    double *cov;    /* [K][D][D] symmetric, positive definite */
} mixture_data;
int read_mixture(const char *path, mixture_data *out, failure *f);
void free_mixture(mixture_data *data);

/* What the target of a regression is: real numbers; two labels, of which the greater one (by value if all are
 * numbers, else by bytes) counts as 1; or whichever fits, two labels if there are exactly two different ones. */
typedef enum { TARGET_REAL, TARGET_LABELS, TARGET_EITHER } target_kind;

typedef struct {
    size_t rows, columns;
    double *X;          /* [rows][columns] */
    double *y;          /* [rows] */
    const char **names; /* [columns] pointing into csv */
    bool labels;        /* y is 0/1 */
    const char *target; /* name of the column, pointing into csv */
    bool moved;         /* it became the target because the last column is ignored */
    char *label[2];     /* what stands there for 0 and for 1; NULL without labels */
    csv_file csv;
} regression_data;
/* ignore: names of columns to be left out, with commas between them, or NULL. target NULL: the
 * last column that is not. */
int read_regression(const char *path, const char *target, const char *ignore, target_kind kind, regression_data *out,
                    failure *f);
void forget_numbers(regression_data *data); /* X and y: names and labels stay */
void free_regression(regression_data *data);

/* mean[columns] and sample sd[columns] of the features, which standardising takes away and divides
 * by; the sd of a constant one is 0. */
void measure_features(const regression_data *data, double *mean, double *sd);

/* A CSV file with two columns that are not to be ignored, time and value: named t and y, in any
 * order, or else in this one. */
typedef struct {
    size_t n;
    double *t, *y; /* [n] */
} series_data;
int read_series(const char *path, const char *ignore, series_data *out, failure *f);
void free_series(series_data *data);
#endif
