/* option_line.h - a row of a table of options, which command lines, files with options, help, man page and completion
 * read. */
#ifndef WV_OPTION_LINE_H
#define WV_OPTION_LINE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;     /* long name */
    char letter;          /* short name, or 0 */
    const char *argument; /* what follows: "FILE", "diag|full" ...; NULL: a flag */
    const char *range;    /* of a number, or NULL */
    const char *initial;  /* default, or NULL */
    const char *help;     /* one line */
    const char *group;    /* heading under which it is listed */
} option_line;
#endif
