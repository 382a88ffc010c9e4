/* targets.h - densities with known evidence, for measuring how right a fit is. */
#ifndef BENCH_TARGETS_H
#define BENCH_TARGETS_H
#include <stdint.h>
#include "wvgd_model.h"

typedef struct bench_target {
    size_t dim;
    double log_z; /* NAN: unknown */
    wvgd_point_density *density;
    size_t K;                    /* mixtures: components, */
    double *log_w, *mean, *root; /* [K], [K][dim], [K][dim][dim] lower Cholesky factors, */
    double nu;                   /* 0: Gaussian; else Student-t */
    double *inverse, log_det;    /* [dim][dim] from coordinates to those of `inner`; NULL: the same. Log
                                  * determinant of the way back */
    double *spare;
    struct bench_target *inner;
} bench_target;

/* A generator of its own, so that targets do not depend on the library's. */
typedef struct {
    uint64_t state;
} bench_random;
double bench_uniform(bench_random *r);
double bench_normal(bench_random *r);

/* K Gaussians (nu = 0) or Student-t's, means uniform in [-box, box]^D, covariances with random axes and eigenvalues
 * in 0.5..1.5, scaled by 10^(2 U(low, high)); weights 0.1 + U. */
bench_target *bench_mixture(uint64_t seed, size_t D, size_t K, double box, double low, double high, double nu);
bench_target *bench_star(void);
bench_target *bench_named(const char *name); /* rosenbrock, shells2, shells5, quartic, funnel, schools, line7 */

/* The same density with coordinate i multiplied by scale[i]; takes *inner over. */
bench_target *bench_scaled(bench_target *inner, const double *scale);

/* The same density turned and sheared: axes in random directions stretched by condition^-1/2 ..
 * condition^1/2; takes *inner over. */
bench_target *bench_sheared(bench_target *inner, uint64_t seed, double condition);

/* Coordinates of the inner density. */
void bench_inside(const bench_target *t, const double *z, double *x);

wvgd_model bench_model(bench_target *t); /* closing it frees nothing but the model */
void bench_free(bench_target *t);
#endif
