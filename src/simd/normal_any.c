/* normal_any.c - Box-Muller with what every processor of the kind that is compiled for has. */
#define WV_LANES 2
#define WV_TARGET
#define WV_NORMAL wv_normal_any
#include "simd/normal_body.h"
