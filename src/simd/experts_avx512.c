/* experts_avx512.c - rows of bent coordinates with AVX-512. */
#ifdef __x86_64__
#define WV_LANES 8
#define WV_TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))
#define WV_SET wv_experts_avx512
#include "simd/experts_body.h"
#else
#include "simd/experts.h"
#endif
