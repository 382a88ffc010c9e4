/* text.h - text that comes from outside: whole files, numbers, names, and how to show any of it in a message. */
#ifndef WV_TEXT_H
#define WV_TEXT_H
#include "failure.h"
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Reads a file whole: text[size] and a NUL after it; free() it. A byte order mark at the start is dropped; a NUL
 * byte is refused. Returns 0 or an exit code. */
int read_text(const char *path, char **text, size_t *size, failure *f);

/* Says that a file cannot be opened, and refuses one that does not begin as text does. */
int refuse_path(const char *path, int error, failure *f);
int refuse_file_kind(const char *path, const char *text, size_t size, failure *f);

/* The decimal number in s, blanks around it allowed; the locale does not matter. Returns NULL, or
 * what was expected: "a finite number" ... Hexadecimal numbers, nan, inf and numbers too large for a
 * double are refused; one too small is 0. */
const char *read_number(const char *s, double *value);

/* The same for options, which have no blanks around them. */
const char *read_plain_number(const char *s, double *value);

/* strtod with a decimal point whatever the locale. */
double convert_number(const char *s, const char **end);

/* A number with as few digits as give it back, which is what somebody has written. Returns out. */
enum { NUMBER_ROOM = 40 };
const char *short_number(double value, char out[NUMBER_ROOM]);

/* From here on this thread prints and reads numbers with a decimal point, whatever setlocale says then or later: a
 * model in a shared object may call it. Returns what uselocale takes to have it as before. */
locale_t use_plain_numbers(void);

/* Does a name end so, and have something before it? */
bool ends_in(const char *name, const char *end);

/* The field is empty, or a usual mark of a missing value: NA, NaN, null, ? ... Words such as none may be
 * categories. */
bool is_missing(const char *s);

/* The character that s begins with: its bytes, and whether it may be printed as it is. Not so: control characters
 * (U+0000 to U+001F, U+007F to U+009F), those that turn text around or end lines (U+2028 to U+202E, U+2066 to U+2069),
 * and bytes that are no UTF-8, which come one by one. */
size_t read_character(const char *s, bool *plain);

/* One character of s as it may be shown, \xNN for a byte that may not, and how many bytes of s it takes. */
size_t show_character(const char *s, char out[5]);

/* Prints text that comes from a file, a model, another program or a path: all of it goes this way. */
void put_foreign(FILE *stream, const char *text);

bool is_utf8(const char *s);

/* Bytes of the UTF-8 character that s begins with; 0: it begins with none. */
size_t utf8_length(const char *s);

/* s in quotes for a message: control characters and bytes that are not UTF-8 as \xNN, cut when long. Returns out. */
enum { QUOTED = 64 };
const char *quote(const char *s, char out[QUOTED]);

/* A name of a column or parameter must not be empty, must be UTF-8 without control characters, and at most 255
 * bytes. Returns NULL or the rule it breaks. */
const char *name_problem(const char *name);

/* What helps where a text of a file is not in UTF-8; "" where it is. */
const char *remedy_of_text(const char *name);

/* "a level that the model was fitted with: u, v, ...", level by level as long as there is room; "" begins. */
enum { LEVELS_ROOM = 240 };
void add_level(char text[LEVELS_ROOM], const char *level);

/* Index of a name that an earlier one equals, or n. Without memory: n + 1. */
size_t find_repeated(size_t n, const char *const *names);

/* The word of a NULL-terminated list that differs from s in the fewest letters (two that have changed places count
 * as one), or NULL if none differs in at most a third of them. */
const char *find_nearest(const char *s, const char *const *words);
#endif
