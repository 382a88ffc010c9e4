/* experts_avx2.c - rows of bent coordinates with AVX2 and FMA. */
#ifdef __x86_64__
#define WV_LANES 4
#define WV_TARGET __attribute__((target("avx2,fma")))
#define WV_SET wv_experts_avx2
#include "simd/experts_body.h"
#else
#include "simd/experts.h"
#endif
