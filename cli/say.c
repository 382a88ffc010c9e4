/* say.c - lines on stderr, without anything that a terminal obeys. */
#define _GNU_SOURCE
#include "say.h"
#include "text.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_line(const char *before, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return;
    fputs(before, stderr);
    put_foreign(stderr, text);
    putc('\n', stderr);
    free(text);
}

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line("wvgd: ", format, args);
    va_end(args);
}

void say_lines(const char *text)
{
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        say("%.*s", (int)n, text);
    }
}

void say_plainly(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line("", format, args);
    va_end(args);
}
