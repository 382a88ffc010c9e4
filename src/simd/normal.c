/* normal.c - which instruction set Box-Muller uses. */
#include "simd/normal.h"
#include "simd/instructions.h"

wv_normal_function *wv_normal_best(void)
{
#ifdef __x86_64__
    wv_instructions best = wv_instructions_best();
    if (best >= WV_AVX512)
        return wv_normal_avx512;
    if (best >= WV_AVX2)
        return wv_normal_avx2;
#endif
    return wv_normal_any;
}
