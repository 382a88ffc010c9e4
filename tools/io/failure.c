/* failure.c - why a command cannot go on, as data. */
#include "failure.h"
#include "text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail(failure *f, int code, const char *format, ...)
{
    va_list args;
    char text[sizeof f->text];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    f->code = code;
    for (size_t at = 0, n = 0; at < sizeof f->text - 4; at += strlen(f->text + at)) {
        char *shown = f->text + at; /* one line, whatever a file name or a model's message holds */
        *shown = '\0';
        if (!text[n])
            break;
        n += strchr("\n\r\t", text[n]) ? (size_t)sprintf(shown, " ") : show_character(text + n, shown);
    }
    return code;
}
