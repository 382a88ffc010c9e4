/* logistic_subsets.h - the data of the experiment logistic: four data sets, twenty fixed subsets of 50 rows of each,
 * and the true log evidence where it is known. */
#ifndef WV_LOGISTIC_SUBSETS_H
#define WV_LOGISTIC_SUBSETS_H
#include "logistic_bound.h"
#include "model_data.h"
#include "wvgd_model.h"

enum { SUBSETS = 20, SUBSET_ROWS = 50, SCALINGS = 2 };
typedef enum { STANDARDIZED, RAW } scaling;
extern const char *const scaling_names[SCALINGS]; /* "standardized", "raw" */

typedef struct {
    const char *name;
    char *path; /* of the data */
    regression_data all;
    size_t row[SUBSETS][SUBSET_ROWS];
    double log_evidence[SCALINGS][SUBSETS], log_evidence_se[SCALINGS][SUBSETS]; /* NAN: not known */
} logistic_set;

/* name: "iris", "boston", "diabetes" or "cancer". 0, or an exit code with *f filled and nothing to free. */
int read_logistic_set(const char *name, logistic_set *out, failure *f);
void free_logistic_set(logistic_set *set); /* accepts an all-zero struct */

/* A subset as a model (wvgd_model_close) and as the rows that logistic_bound.h takes (free its X).
 * Weights N(0, 1), an intercept. */
int open_logistic_subset(const logistic_set *set, size_t subset, scaling how, wvgd_model *model, logistic_data *rows,
                         failure *f);
#endif
