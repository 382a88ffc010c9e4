/* rng.c - draws keyed by (seed, use; iteration, component, draw), normals by Box-Muller. The same index gives the same number
 * on any number of threads, and a batch can be made again after a restart without saving the state of a generator. */
#include "rng.h"
#include <Random123/philox.h>
#include <Random123/u01fixedpt.h>
#include <math.h>

static philox4x64_ctr_t block(const wv_stream *s, uint64_t draw, uint64_t k)
{
    philox4x64_ctr_t counter = {{k, draw, s->component, s->iteration}};
    philox4x64_key_t key = {{s->seed, (uint64_t)s->use}};
    return philox4x64(counter, key);
}

void wv_rng_uniform(const wv_stream *stream, uint64_t draw, size_t n, double *out)
{
    for (size_t i = 0; i < n; i += 4) {
        philox4x64_ctr_t r = block(stream, draw, i / 4);
        for (size_t k = 0; k < 4 && i + k < n; k++)
            out[i + k] = u01fixedpt_open_open_64_double(r.v[k]);
    }
}

void wv_rng_normal(const wv_stream *stream, uint64_t draw, size_t n, double *out)
{
    for (size_t i = 0; i < n; i += 4) {
        philox4x64_ctr_t r = block(stream, draw, i / 4);
        for (size_t k = 0; k < 4 && i + k < n; k += 2) {
            double radius = sqrt(-2.0 * log(u01fixedpt_open_open_64_double(r.v[k])));
            double angle = 6.283185307179586476925 * u01fixedpt_open_open_64_double(r.v[k + 1]);
            out[i + k] = radius * cos(angle);
            if (i + k + 1 < n)
                out[i + k + 1] = radius * sin(angle);
        }
    }
}
