/* error.h - errors as data, and sizes that cannot overflow. */
#ifndef WV_ERROR_H
#define WV_ERROR_H
#include "wvgd.h"

/* Fills *error (may be NULL) and returns code, so that callers can write `return wv_fail(...)`. */
__attribute__((format(printf, 3, 4))) wvgd_status wv_fail(wvgd_error *error, wvgd_status code, const char *format, ...);

/* Whether an argument of a public function is NULL; then *error names it. */
bool wv_missing(wvgd_error *error, const char *function, const char *name, const void *argument);

/* a * b, or SIZE_MAX when that does not fit; SIZE_MAX times anything but zero stays SIZE_MAX. */
size_t wv_times(size_t a, size_t b);
#endif
