/* instructions.h - which instruction set the vector passes of the library and its models use. */
#ifndef WV_INSTRUCTIONS_H
#define WV_INSTRUCTIONS_H

/* Each has all that those before it have. AVX2 is meant with FMA, AVX512 with DQ and VL. */
typedef enum { WV_ANY, WV_AVX2, WV_AVX512 } wv_instructions;

/* The best that this processor has. Whatever chooses a pass asks here and nowhere else: results differ in the last bits
 * between instruction sets, and a test that wants the same bits everywhere replaces this one function. */
wv_instructions wv_instructions_best(void);
#endif
