/* nuts.h - NUTS: multinomial, diagonal metric (Betancourt 2017), for references and prices. */
#ifndef NUTS_H
#define NUTS_H
#include "wvgd_model.h"
#include <stddef.h>
#include <stdint.h>

enum { NUTS_MOST = 256 }; /* dimensions */

/* A chain: warmup with dual averaging and windows for the metric, then so many draws, each handed to `each` unless
 * NULL. Returns how many gradients it took. Not for threads. */
size_t nuts_run(wvgd_point_density *log_p, void *self, size_t D, uint64_t seed, size_t warmup, size_t draws,
                void (*each)(void *to, const double *x), void *to);

/* Gradients of 4 chains, 1000 iterations of warmup and 1000 more. */
size_t nuts_price(wvgd_point_density *log_p, void *self, size_t D);

/* Its random numbers. */
void nuts_seed(uint64_t seed);
double nuts_uniform(void);
double nuts_normal(void);
#endif
