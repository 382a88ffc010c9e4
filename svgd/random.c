/* random.c - uniform numbers from Philox, normal ones by Box-Muller. */
#include "random.h"
#include <Random123/philox.h>
#include <Random123/u01fixedpt.h>
#include <math.h>

static philox4x64_ctr_t block(uint64_t seed, uint64_t stream, uint64_t k)
{
    philox4x64_ctr_t counter = {{k, stream, 0, 0}};
    philox4x64_key_t key = {{seed, UINT64_C(0x73766764)}}; /* apart from all streams of the library */
    return philox4x64(counter, key);
}

void svgd_random_uniform(uint64_t seed, uint64_t stream, size_t n, double *out)
{
    for (size_t i = 0; i < n; i += 4) {
        philox4x64_ctr_t r = block(seed, stream, i / 4);
        for (size_t k = 0; k < 4 && i + k < n; k++)
            out[i + k] = u01fixedpt_open_open_64_double(r.v[k]);
    }
}

void svgd_random_normal(uint64_t seed, uint64_t stream, size_t n, double *out)
{
    for (size_t i = 0; i < n; i += 2) {
        philox4x64_ctr_t r = block(seed, stream, i / 2);
        double radius = sqrt(-2 * log(u01fixedpt_open_open_64_double(r.v[0]))),
               angle = 6.283185307179586476925 * u01fixedpt_open_open_64_double(r.v[1]);
        out[i] = radius * cos(angle);
        if (i + 1 < n)
            out[i + 1] = radius * sin(angle);
    }
}
