/* instructions.c - what the processor has. Alone in its file, so that the linker can replace it
 * (tests/test_fingerprint.c). */
#include "simd/instructions.h"

wv_instructions wv_instructions_best(void)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return WV_ANY;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return WV_AVX2;
    return WV_AVX512;
#else
    return WV_ANY;
#endif
}
