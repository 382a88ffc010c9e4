/* help_page.c - wvgd COMMAND --help and --help-all: usage, description, options and examples, wrapped to the width of
 * the terminal. */
#define _GNU_SOURCE
#include "help_page.h"
#include "help.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NARROWEST = 40, DEFAULT_WIDTH = 80, WIDEST = 100, OPTION_COLUMN = 28, USAGE_COLUMN = 13 };

/* Columns of the terminal: $COLUMNS, else what the terminal says, else 80; between 40 and 100. */
static size_t page_width(void)
{
    struct winsize window = {0};
    const char *text = getenv("COLUMNS");
    long width = text ? strtol(text, NULL, 10) : 0;
    if (width <= 0 && isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &window))
        width = window.ws_col;
    if (width <= 0)
        return DEFAULT_WIDTH;
    return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : (size_t)width;
}

/* Writes words from column `at` on; continuation lines begin at column `left`. A word is never broken. */
static void put_wrapped(FILE *s, const char *words, size_t at, size_t left, size_t width)
{
    bool first = true;
    while (*words) {
        size_t length = strcspn(words, " ");
        if (!first && at + 1 + length > width) {
            fprintf(s, "\n%*s", (int)left, "");
            at = left;
            first = true;
        }
        fprintf(s, "%s%.*s", first ? "" : " ", (int)length, words);
        at += length + !first;
        first = false;
        words += length + strspn(words + length, " ");
    }
    putc('\n', s);
}

void print_words(FILE *s, const char *words, size_t at, size_t left)
{
    put_wrapped(s, words, at, left, page_width());
}

void print_usage(FILE *s, const command *c)
{
    size_t width = page_width();
    for (const char *line = c->synopsis, *end; line; line = *end ? end + 1 : NULL) {
        char text[400];
        end = line + strcspn(line, "\n");
        snprintf(text, sizeof text, "wvgd %s %s%.*s", c->name, c->option ? "[OPTION...] " : "", (int)(end - line),
                 line);
        fputs(line == c->synopsis ? "Usage: " : "   or: ", s);
        put_wrapped(s, text, 7, USAGE_COLUMN, width);
    }
}

/* One option: "  -o, --out=DIR", then its text in a column of its own. */
static void put_option(FILE *s, const option_line *line, size_t width)
{
    char head[200], text[700], letter[] = "    ";
    if (line->letter)
        snprintf(letter, sizeof letter, "-%c, ", line->letter);
    snprintf(head, sizeof head, "  %s--%s%s%s", letter, line->name, line->argument ? "=" : "",
             line->argument ? line->argument : "");
    describe_option(line, text, sizeof text);
    size_t left = width < 60 ? 8 : OPTION_COLUMN, at = strlen(head);
    fputs(head, s);
    if (at + 2 > left)
        fprintf(s, "\n%*s", (int)left, "");
    else
        fprintf(s, "%*s", (int)(left - at), "");
    put_wrapped(s, text, left, left, width);
}

static void put_own_options(FILE *s, const command *c, size_t width)
{
    static const option_line own[] = {{"help", 'h', NULL, NULL, NULL, "show this help", NULL},
                                      {"help-all", 0, NULL, NULL, NULL, "show all options", NULL},
                                      {"version", 'V', NULL, NULL, NULL, "show the version", NULL}};
    putc('\n', s);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (i != 1 || c->basic)
            put_option(s, &own[i], width);
}

void print_command_help(FILE *s, const command *c, bool all)
{
    size_t width = page_width(), shown = 0;
    const char *group = NULL;
    option_line line;
    print_usage(s, c);
    put_wrapped(s, c->text, 0, 0, width);
    for (; listed_option(c, shown, &line) && (all || !c->basic || line.group == basic_group); shown++) {
        if (!shown || !same_group(group, line.group))
            fprintf(s, "\n%s\n", line.group ? line.group : "Options:");
        group = line.group;
        put_option(s, &line, width);
    }
    put_own_options(s, c, width);
    if (listed_option(c, shown, &line))
        fprintf(s, "\nwvgd %s --help-all shows all options.\n", c->name);
    fputs("\nExamples:\n", s);
    for (const char *example = c->examples; *example; example += strcspn(example, "\n") + 1)
        fprintf(s, "  %.*s\n", (int)strcspn(example, "\n"), example);
}
