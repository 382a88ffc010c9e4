/* model_data.h - data files of the built-in models, as plain arrays. Functions return 0, or an exit
 * code with *f filled and nothing to free. */
#ifndef WV_MODEL_DATA_H
#define WV_MODEL_DATA_H
#include "table.h"
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
    size_t rows, columns; /* of this share */
    size_t all_rows;      /* of all shares */
    double *X;            /* [rows][columns] */
    double *y;            /* [rows] */
    const char **names;   /* [columns] of X: the column, or column[level] for each level but the first */
    char **own;           /* [columns] the same, to be freed */
    bool labels;          /* y is 0/1 */
    const char *target;   /* name of the column, pointing into source */
    bool moved;           /* it became the target because the last column is ignored */
    char *label[2];       /* what stands there for 0 and for 1; NULL without labels */
    data_table source;    /* kinds and levels of its columns; rows that count, without values */
} regression_data;
int read_regression(const char *path, const table_options *options, target_kind kind, regression_data *out, failure *f);
void forget_numbers(regression_data *data); /* X and y: names and labels stay */
void free_regression(regression_data *data);

/* A CSV file with two columns that are not to be ignored, time and value: named t and y, in any
 * order, or else in this one. */
typedef struct {
    size_t n;
    double *t, *y; /* [n] */
    char *name[2]; /* columns of time and value */
} series_data;
int read_series(const char *path, const char *ignore, series_data *out, failure *f);
void free_series(series_data *data);
#endif
