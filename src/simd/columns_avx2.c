/* columns_avx2.c - passes over blocks of points with AVX2 and FMA. */
#ifdef __x86_64__
#define WV_LANES 4
#define WV_TARGET __attribute__((target("avx2,fma")))
#define WV_SET wv_columns_avx2
#include "simd/columns_body.h"
#else
#include "simd/columns.h"
#endif
