/* number_text.c - numbers as text. The calling thread has the C locale for the time of a call: what setlocale says, and
 * what other threads do, does not matter. newlocale gives the whole C locale without allocating. */
#include "number_text.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t enter(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* of no locale, which cannot be, nothing is changed */
}

static void leave(locale_t before)
{
    uselocale(before);
}

int wv_number_text_vprint(char *text, size_t size, const char *format, va_list args)
{
    locale_t before = enter();
    int length = vsnprintf(text, size, format, args);
    leave(before);
    return length;
}

int wv_number_text_print(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = wv_number_text_vprint(text, size, format, args);
    va_end(args);
    return length;
}

double wv_number_text_parse(const char *text, char **end)
{
    locale_t before = enter();
    double value = strtod(text, end);
    leave(before);
    return value;
}
