/* number_text.h - numbers as text, with a decimal point whatever the locale of the program. */
#ifndef WV_NUMBER_TEXT_H
#define WV_NUMBER_TEXT_H
#include <stdarg.h>
#include <stddef.h>

/* As snprintf, vsnprintf and strtod do in the C locale. */
__attribute__((format(printf, 3, 4))) int wv_number_text_print(char *text, size_t size, const char *format, ...);
__attribute__((format(printf, 3, 0))) int wv_number_text_vprint(char *text, size_t size, const char *format,
                                                                va_list args);
double wv_number_text_parse(const char *text, char **end);
#endif
