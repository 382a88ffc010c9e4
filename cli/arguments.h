/* arguments.h - the command line of a command, parsed by argp from a table of options that help,
 * man page and completion read too. */
#ifndef WV_ARGUMENTS_H
#define WV_ARGUMENTS_H
#include "failure.h"
#include "option_line.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command;

/* What was given. */
typedef struct {
    const struct command *command;
    size_t options;
    const char **name;  /* [options] long names */
    const char **value; /* [options] NULL: not given; "" for a flag */
    size_t words;
    const char **word; /* [words] all else, in order */
    int argc;          /* the command line as it was, for the record */
    char **argv;
    const char *repeated; /* a list that was given twice, of which the first would be lost; NULL: none */
    char *joined;         /* values of an option that was given several times (--prior), or NULL */
    const char *object;   /* shared object that stands for the first word, which it was made from; NULL: none */
} arguments;

typedef struct command {
    const char *name;                            /* "fit" */
    const char *synopsis;                        /* lines: "MODEL [--data FILE] --out DIR" */
    const char *line;                            /* what it does, in one line */
    const char *text;                            /* the same in a paragraph */
    const char *examples;                        /* lines, each a command or a comment */
    bool (*option)(size_t i, option_line *line); /* row i of its options; false past the end */
    const char *word; /* what the first word is: "MODEL", "DIR", "DIR..." for several; NULL: none */
    int (*run)(arguments *a, failure *f);
    const char *basic; /* options that --help shows, in order, "data out"; --help-all shows all. NULL: both show all */
} command;

/* Row i of the commands, or NULL past the end. */
const command *describe_command(size_t i);

/* Parses argv[1..argc) (argv[0] is the command). --help, --help-all, --usage and
 * --version print and exit. 0, or EX_USAGE with *f filled. */
int parse_arguments(const command *c, int argc, char **argv, arguments *a, failure *f);
void free_arguments(arguments *a);

/* The command line as it was, quoted for a shell; free() it. NULL: no memory. */
char *command_text(const arguments *a);

/* Value of an option, or NULL if it was not given. */
const char *given(const arguments *a, const char *name);

/* A whole number from an option, in its range: *value stays as it is if it was not given. */
int given_count(const arguments *a, const char *name, size_t *value, failure *f);

/* A seed: 0..2^64 - 1. */
int given_seed(const arguments *a, const char *name, uint64_t *value, failure *f);

/* A file to write, --out, if it was given: EX_CANTCREAT if it is a directory, or if something would be lost without
 * --overwrite. An empty file, a pipe or a terminal loses nothing; files of runs are refused by the library. */
int check_out_file(const arguments *a, failure *f);

/* Which of its choices an option is: 0, 1 ..., likewise. */
int given_choice(const arguments *a, const char *name, size_t *which, failure *f);
#endif
