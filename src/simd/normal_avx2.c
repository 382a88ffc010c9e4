/* normal_avx2.c - Box-Muller with AVX2 and FMA. */
#ifdef __x86_64__
#define WV_LANES 4
#define WV_TARGET __attribute__((target("avx2,fma")))
#define WV_NORMAL wv_normal_avx2
#include "simd/normal_body.h"
#else
#include "simd/normal.h"
#endif
