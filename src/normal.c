/* normal.c - which instruction set Box-Muller uses. */
#include "normal.h"

wv_normal_function *wv_normal_best(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return wv_normal_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return wv_normal_avx2;
#endif
    return wv_normal_any;
}
