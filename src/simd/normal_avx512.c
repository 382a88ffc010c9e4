/* normal_avx512.c - Box-Muller with AVX-512. */
#ifdef __x86_64__
#define WV_LANES 8
#define WV_TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))
#define WV_NORMAL wv_normal_avx512
#include "simd/normal_body.h"
#else
#include "simd/normal.h"
#endif
