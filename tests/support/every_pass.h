/* every_pass.h - a check of the vector passes, with every instruction set that is there. */
#ifndef EVERY_PASS_H
#define EVERY_PASS_H

#include "simd/columns.h"
#include "simd/instructions.h"

static inline void with_each(void (*check)(const wv_columns *))
{
    check(&wv_columns_any);
    check(wv_columns_best());
#ifdef __x86_64__
    if (wv_instructions_best() >= WV_AVX2)
        check(&wv_columns_avx2);
#endif
}

#endif
