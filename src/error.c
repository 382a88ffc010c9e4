/* error.c - errors as data. */
#include "error.h"
#include "number_text.h"
#include <stdarg.h>

wvgd_status wv_fail(wvgd_error *error, wvgd_status code, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        error->code = code;
        wv_number_text_vprint(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return code;
}

bool wv_missing(wvgd_error *error, const char *function, const char *name, const void *argument)
{
    if (!argument)
        wv_fail(error, WVGD_E_ARGUMENT, "%s: the argument %s is NULL", function, name);
    return !argument;
}

size_t wv_times(size_t a, size_t b)
{
    return b && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}
