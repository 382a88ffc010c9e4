/* columns_avx512.c - passes over blocks of points with AVX-512. */
#ifdef __x86_64__
#define WV_LANES 8
#define WV_TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))
#define WV_SET wv_columns_avx512
#include "simd/columns_body.h"
#else
#include "simd/columns.h"
#endif
