/* pass.c - which of the instruction sets that the passes are compiled for is used. */
#include "pass.h"
#include "pass_sets.h"

static const wv_pass *const SETS[] = {
#ifdef __x86_64__
    &wv_pass_avx512, &wv_pass_avx2,
#endif
    &wv_pass_any, /* the last: it is always there */
    NULL};

const wv_pass *wv_pass_number(size_t which)
{
    return which < sizeof SETS / sizeof *SETS ? SETS[which] : NULL;
}

const wv_pass *wv_pass_best(void)
{
    size_t which = 0;
    while (SETS[which]->needs > wv_instructions_best())
        which++;
    return SETS[which];
}

size_t wv_pass_width(size_t n)
{
    return (n + WV_PASS_WIDTH - 1) / WV_PASS_WIDTH * WV_PASS_WIDTH;
}
