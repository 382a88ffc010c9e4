/* test_random.h - a tiny deterministic generator for making test problems; not for inference.
 *
 * splitmix64 for the bits, Box-Muller for normals. The same seed gives the same numbers everywhere. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "wvgd.h"

typedef struct {
    uint64_t state;
} test_random;

test_random test_random_seed(uint64_t seed);
uint64_t test_random_bits(test_random *r);
double test_random_uniform(test_random *r); /* in the open interval (0, 1) */
double test_random_normal(test_random *r);
void test_random_normals(test_random *r, size_t n, double *x); /* x: [n] */

/* A mixture in one dimension: weights U(0, 1) normalised, means N(0, 1.5^2), sds U(0.1, 1); arrays [K]. */
void test_random_mixture(test_random *r, size_t K, double *weight, double *mean, double *sd);

/* A root of a covariance, [D][D] lower triangular or, of a diagonal one, [D]; and out[D] = root e. */
void test_random_root(wvgd_family family, size_t D, test_random *r, double *root);
void test_random_colour(wvgd_family family, size_t D, const double *root, const double *e, double *out);

#endif
