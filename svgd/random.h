/* random.h - counter-based random numbers (Random123, Philox 4x64-10): a function of seed, stream and index alone. */
#ifndef SVGD_RANDOM_H
#define SVGD_RANDOM_H
#include <stddef.h>
#include <stdint.h>

/* out[i] ~ U(0,1), ends excluded, and out[i] ~ N(0,1), i < n. A stream is for one call: numbers of
 * different streams are independent. */
void svgd_random_uniform(uint64_t seed, uint64_t stream, size_t n, double *out);
void svgd_random_normal(uint64_t seed, uint64_t stream, size_t n, double *out);
#endif
