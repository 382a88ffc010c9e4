/* experts_any.c - rows of bent coordinates with what every processor of the kind that is compiled for has. */
#define WV_LANES 2
#define WV_TARGET
#define WV_SET wv_experts_any
#include "simd/experts_body.h"
