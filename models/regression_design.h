/* regression_design.h - the rows of a regression as the models use them: features standardised if asked, and a column
 * of ones. */
#ifndef WV_REGRESSION_DESIGN_H
#define WV_REGRESSION_DESIGN_H
#include "models.h"

/* Fills the first columns of X [rows][stride] with the features and, with `ones`, the next with 1.
 * Returns 0, or -1 without memory. */
int wv_design_fill(const wv_regression *data, bool ones, size_t stride, double *X);

/* The names of the columns, then "intercept" if asked, then further ones (constants; NULL: none): one allocation.
 * NULL: no memory. */
const char **wv_design_names(size_t columns, const char *const *name, bool intercept, const char *const more[2]);
#endif
