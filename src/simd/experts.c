/* experts.c - which instruction set rows of bent coordinates use. */
#include "simd/experts.h"
#include "simd/instructions.h"

const wv_experts_passes *wv_experts_best(void)
{
#ifdef __x86_64__
    wv_instructions best = wv_instructions_best();
    if (best >= WV_AVX512)
        return &wv_experts_avx512;
    if (best >= WV_AVX2)
        return &wv_experts_avx2;
#endif
    return &wv_experts_any;
}
