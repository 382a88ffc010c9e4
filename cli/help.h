/* help.h - help, man page, shell completion and the page of options, all from the tables of
 * commands, options and models. */
#ifndef WV_HELP_H
#define WV_HELP_H
#include "arguments.h"
#include <stdio.h>

/* Row i of the options of c in the order in which they are listed: basic ones first, under a heading of their own.
 * false past the end. */
bool listed_option(const command *c, size_t i, option_line *line);
extern const char basic_group[];

/* Whether two headings, which may be NULL, are the same. */
bool same_group(const char *a, const char *b);

/* "help (1..10; default 5)" into text. */
void describe_option(const option_line *line, char *text, size_t size);

/* wvgd --help */
void print_help(FILE *stream);

/* wvgd --generate WHAT: man, bash, zsh, options.md. */
int generate(const char *what, FILE *stream, failure *f);
#endif
