/* columns_any.c - passes over blocks of points with what every processor of the kind that is compiled for has. */
#define WV_LANES 2
#define WV_TARGET
#define WV_SET wv_columns_any
#include "simd/columns_body.h"
