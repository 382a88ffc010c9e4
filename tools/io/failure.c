/* failure.c - why a command cannot go on, as data. */
#include "failure.h"
#include "text.h"
#include <stdarg.h>
#include <stdbool.h>
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

void add_failure(failure *all, const failure *one)
{
    static const char more[] = "\n...";
    if (!all->code) {
        *all = *one;
        return;
    }
    size_t at = strlen(all->text), room = sizeof all->text - at;
    if (at >= strlen(more) && !strcmp(all->text + at - strlen(more), more))
        return;
    bool fits = strlen(one->text) + 1 + sizeof more <= room;
    snprintf(all->text + at, room, "%s%s", fits ? "\n" : more, fits ? one->text : "");
}
