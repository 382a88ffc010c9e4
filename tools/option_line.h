/* option_line.h - a row of a table of options, which command lines, files with options, help, man page and completion
 * read. */
#ifndef WV_OPTION_LINE_H
#define WV_OPTION_LINE_H
#include "failure.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;     /* long name */
    char letter;          /* short name, or 0 */
    const char *argument; /* what follows: "FILE", "diag|full", "N", "K" or "R" for a whole number ...; NULL: a flag */
    const char *range;    /* of a number, "1..10", or NULL */
    const char *initial;  /* default, or NULL */
    const char *help;     /* one line */
    const char *group;    /* heading under which it is listed */
} option_line;

/* Does it take whole numbers only? */
bool is_whole(const option_line *line);

/* Says what the option may be: EX_USAGE. */
int refuse_value(const option_line *line, const char *value, failure *f);

/* A number within the range of the option. */
int read_value(const option_line *line, const char *text, double *value, failure *f);

/* Which of the choices of the option it is: 0, 1 ... */
int read_choice(const option_line *line, const char *text, size_t *which, failure *f);

/* A seed: 0..2^64-1. */
int read_seed(const option_line *line, const char *text, uint64_t *value, failure *f);
#endif
