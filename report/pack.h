/* pack.h - arrays as JSON strings, small enough for a page: base64 of little-endian numbers. Whatever
 * is no finite number comes back as NaN. */
#ifndef WV_PACK_H
#define WV_PACK_H
#include <jansson.h>
#include <stddef.h>

/* float32 */
json_t *pack_floats(size_t n, const double *x);

/* uint16: x[0], x[stride], ... n of them, from 0 at lo to 65534 at hi; 65535: no number, or one outside. */
json_t *pack_levels(size_t n, const double *x, size_t stride, double lo, double hi);

/* {"lo": [columns], "hi": [columns], "levels": "..."}: a table x[rows][columns], column after column, each
 * between its least and greatest finite value. */
json_t *pack_table(size_t rows, size_t columns, const double *x);

/* uint16; what is too large becomes 65535. */
json_t *pack_counts(size_t n, const size_t *x);

/* int8: correlations r as 127 asin(r) / (pi/2), which is finest where they are strong; -128: no number. */
json_t *pack_correlations(size_t n, const double *r);
#endif
