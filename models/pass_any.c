/* pass_any.c - the passes of pass.h with what every processor of the kind that is compiled for
 * has: SSE2, NEON, or none. */
#include "pass_sets.h"
#define WV_LANES 2
#define WV_TARGET
#define WV_PASS wv_pass_any
#define WV_NAME "any"
#define WV_NEEDS WV_ANY
#include "pass_bodies.h"
