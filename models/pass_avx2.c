/* pass_avx2.c - the passes of pass.h with AVX2 and fused multiplications and additions. */
#include "pass_sets.h"
#ifdef __x86_64__
#define WV_LANES 4
#define WV_TARGET __attribute__((target("avx2,fma")))
#define WV_PASS wv_pass_avx2
#define WV_NAME "AVX2"
#define WV_NEEDS WV_AVX2
#include "pass_bodies.h"
#endif
