/* pass_avx512.c - the passes of pass.h with AVX-512 and fused multiplications and additions. */
#include "pass_sets.h"
#ifdef __x86_64__
#define WV_LANES 8
#define WV_TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))
#define WV_PASS wv_pass_avx512
#define WV_NAME "AVX-512"
#define WV_NEEDS WV_AVX512
#include "pass_bodies.h"
#endif
