/* regression_design.h - the rows of a regression as the models use them: features standardised if asked, and a column
 * of ones. */
#ifndef WV_REGRESSION_DESIGN_H
#define WV_REGRESSION_DESIGN_H
#include "models.h"

/* Fills the first columns of X [rows][stride] with the features and, with `ones`, the next with 1.
 * Returns 0, or -1 without memory. */
int wv_design_fill(const wv_regression *data, bool ones, size_t stride, double *X);

/* Row i of X [rows][P] has been read, and no row is read again: gives back many of them at a time. give_back: of the
 * data; NULL: X stays. */
void wv_design_read(size_t row, size_t P, const double *X, void (*give_back)(void *memory, size_t bytes));

/* The names of the columns, then "intercept" if asked, then further ones (constants; NULL: none): one allocation.
 * NULL: no memory. */
const char **wv_design_names(size_t columns, const char *const *name, bool intercept, const char *const more[2]);
#endif
