/* help_page.h - the help of one command, from its table of options. */
#ifndef WV_HELP_PAGE_H
#define WV_HELP_PAGE_H
#include "arguments.h"
#include <stdio.h>

/* Usage, description, options and examples. all: every option, not only the basic ones. */
void print_command_help(FILE *stream, const command *c, bool all);

/* Words from column `at` on, wrapped to the width of the terminal; continuation lines begin at column `left`. */
void print_words(FILE *stream, const char *words, size_t at, size_t left);

/* The lines that begin with "Usage:" and "or:". */
void print_usage(FILE *stream, const command *c);
#endif
