/* help.h - help, man page, shell completion and the page of options, all from the tables of
 * commands, options and models. */
#ifndef WV_HELP_H
#define WV_HELP_H
#include "arguments.h"
#include <argp.h>
#include <stdio.h>

/* The name of the command, its options and texts, for argp. */
typedef struct {
    struct argp argp;
    struct argp_option *options;
    char *title, *doc, *synopsis;
    char **text; /* the help texts of options */
    size_t texts;
} argp_table;

/* The number by which argp knows row i: the letter, or a number beyond all letters. */
int option_key(size_t i, const option_line *line);

/* false: no memory. */
bool make_argp(const command *c, argp_parser_t take, argp_table *table);
void free_argp(argp_table *table);

/* "help (1..10; default 5)" into text. */
void describe_option(const option_line *line, char *text, size_t size);

/* wvgd --help */
void print_help(FILE *stream);

/* wvgd --generate WHAT: man, bash, zsh, options.md. */
int generate(const char *what, FILE *stream, failure *f);
#endif
