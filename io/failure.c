/* failure.c - why a command cannot go on, as data. */
#include "failure.h"
#include "text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail(failure *f, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    f->code = code;
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    for (char *c = f->text; *c; c++) /* one line, whatever a file name or a model's message holds */
        memset(c, ' ', control_length(c));
    return code;
}
