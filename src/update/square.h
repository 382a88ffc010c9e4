/* square.h - small square matrices. */
#ifndef WV_SQUARE_H
#define WV_SQUARE_H
#include "arena.h"
#include <cblas.h>
#include <stdbool.h>
#include <stddef.h>

/* out = a b, each of them [D][D] and transposed if so said. Not in place. */
void wv_square_multiply(size_t D, CBLAS_TRANSPOSE ta, const double *a, CBLAS_TRANSPOSE tb, const double *b,
                        double *out);

/* sum_ik a_ik b_ik */
double wv_square_inner(size_t D, const double *a, const double *b);

/* sum_ik a_ik b_ki: the trace of a b */
double wv_square_trace(size_t D, const double *a, const double *b);

/* wv_dense_eigh with scratch from an arena: rows of E become eigenvectors. */
bool wv_square_eigenvectors(wv_arena *arena, size_t D, double *E, double *values);
#endif
