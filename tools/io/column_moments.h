/* column_moments.h - what the rows of all shares say of columns X[rows][columns]. Functions return 0, or an exit code
 * with *f filled, the same in all processes. */
#ifndef WV_COLUMN_MOMENTS_H
#define WV_COLUMN_MOMENTS_H
#include "row_shares.h"

/* Which columns have the same value in every row. */
int find_constants(row_shares *s, size_t rows, size_t columns, const double *X, bool *constant, failure *f);

/* mean[columns] and sample sd[columns]: what standardising takes away and divides by. A constant column has its value
 * and 0. all_rows: of all shares. */
int measure_columns(row_shares *s, size_t rows, size_t all_rows, size_t columns, const double *X, const bool *constant,
                    double *mean, double *sd, failure *f);
#endif
