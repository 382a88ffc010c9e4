/* limit.h - the least that a batch of logistic regression can cost: two matrix products of BLAS and, between them,
 * exp and log1p of SLEEF for every row and point, without a prior, padding, checks or anything else. What
 * libwvgd's own kernel is measured against. */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H
#include <stdbool.h>
#include <stddef.h>

bool limit_there(void);       /* was SLEEF found when this was built? */
const char *limit_name(void); /* of the instruction set that is used */

enum { LIMIT_POINTS = 64 }; /* of a block */

/* X: [rows][D], w: [D][LIMIT_POINTS]; fills log_p[LIMIT_POINTS] and grad [D][LIMIT_POINTS]. S: [block][LIMIT_POINTS]
 * work. passes: with them, or the two products alone. */
void limit_evaluate(size_t rows, size_t D, size_t block, const double *X, const double *w, double *log_p, double *grad,
                    double *S, bool passes);
#endif
