/* instructions.c - for tests that are linked with --wrap=wv_instructions_best: the vector passes of AVX2, if the
 * processor has them. A fit that is right on every processor may, with one seed in twenty, miss a limit of its test on
 * one of them: with the same bits everywhere, it does so here or nowhere. */
#include "simd/instructions.h"

wv_instructions __real_wv_instructions_best(void);
wv_instructions __wrap_wv_instructions_best(void);

wv_instructions __wrap_wv_instructions_best(void)
{
    wv_instructions best = __real_wv_instructions_best();
    return best > WV_AVX2 ? WV_AVX2 : best;
}
