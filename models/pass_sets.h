/* pass_sets.h - the instruction sets for which the passes of pass.h are compiled. */
#ifndef WV_PASS_SETS_H
#define WV_PASS_SETS_H
#include "pass.h"

#ifdef __x86_64__
extern const wv_pass wv_pass_avx512, wv_pass_avx2;
#endif
extern const wv_pass wv_pass_any;
#endif
