/* arguments.c - checks a command line against the command's options, with messages that name the nearest
 * option, then lets argp take it apart. */
#include "arguments.h"
#include "help_page.h"
#include "request.h"
#include "run_directory.h"
#include "suggest.h"
#include "text.h"
#include <argp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sysexits.h>

static size_t count_options(const command *c)
{
    option_line line;
    size_t n = 0;
    while (c->option && c->option(n, &line))
        n++;
    return n;
}

/* ---- messages that argp does not give ---------------------------------------------------------------------------- */
static const char *const everywhere[] = {"help", "help-all", "usage", "version"}; /* options of every command */
enum { EVERYWHERE = sizeof everywhere / sizeof *everywhere, SHORTEST = 3 /* letters of an abbreviation */ };

/* The option of that name or of a name that only begins so; *n: how many begin so. */
static const char *match(const arguments *a, const char *name, size_t length, size_t *n, size_t *which)
{
    const char *found = NULL;
    *n = 0;
    for (size_t i = 0; i < a->options + EVERYWHERE; i++) {
        const char *have = i < a->options ? a->name[i] : everywhere[i - a->options];
        if (strncmp(have, name, length))
            continue;
        found = have;
        *which = i;
        if (strlen(have) == length) {
            *n = 1;
            return found;
        }
        ++*n;
    }
    return found;
}

/* "--prior-sd, --prior-means or --prior-sds" */
static int ambiguous(const command *c, const arguments *a, const char *word, size_t length, size_t n, failure *f)
{
    char list[300] = "";
    for (size_t i = 0, at = 0; i < a->options + EVERYWHERE && at < sizeof list; i++) {
        const char *have = i < a->options ? a->name[i] : everywhere[i - a->options];
        if (!strncmp(have, word, length))
            at += (size_t)snprintf(list + at, sizeof list - at, "--%s%s", have, --n > 1 ? ", " : n == 1 ? " or " : "");
    }
    return fail(f, EX_USAGE, "%s: --%.*s is ambiguous: did you mean %s?", c->name, (int)length, word, list);
}

/* The value of an option, which is the next word, is passed over. Another option is no value: one that begins like it
 * is written after '='. Negative numbers are values. */
static int pass_value(const command *c, const char *option, const char *value, int argc, char **argv, int *i,
                      failure *f)
{
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (!next)
        return fail(f, EX_USAGE, "%s: %s needs a value: %s", c->name, option, value);
    if (next[0] == '-' && next[1] && !strchr(".0123456789", next[1]))
        return fail(f, EX_USAGE, "%s: %s needs a value: expected %s, found the option %s", c->name, option, value,
                    next);
    ++*i;
    return 0;
}

/* A flag is there or not. */
static int check_flag(const command *c, const char *name, const char *value, const char *next, failure *f)
{
    static const char *const values[] = {"true", "false", "yes", "no", "on", "off"};
    if (value)
        return fail(f, EX_USAGE, "%s: --%s takes no value, but '%s' was given", c->name, name, value);
    for (size_t i = 0; next && i < sizeof values / sizeof *values; i++)
        if (!strcasecmp(next, values[i]))
            return fail(f, EX_USAGE, "%s: --%s takes no value: remove '%s'", c->name, name, next);
    return 0;
}

/* Checks the option at argv[*i], and passes over its argument. */
static int check_long(const command *c, const arguments *a, int argc, char **argv, int *i, failure *f)
{
    const char *word = argv[*i] + 2;
    size_t length = strcspn(word, "="), n, which = 0;
    const char *name = match(a, word, length, &n, &which);
    option_line line = {0};
    char given[80];
    snprintf(given, sizeof given, "%.*s", (int)length, word);
    bool whole = n == 1 && strlen(name) == length;
    if (!n || (!whole && (length < SHORTEST || is_likely_option(given))))
        return refuse_option(c, given, n ? name : NULL, f);
    if (n > 1)
        return ambiguous(c, a, word, length, n, f);
    if (which < a->options)
        c->option(which, &line);
    if (!line.argument)
        return check_flag(c, name, word[length] ? word + length + 1 : NULL, argv[*i + 1], f);
    char option[80];
    snprintf(option, sizeof option, "--%s", name);
    return word[length] ? 0 : pass_value(c, option, line.argument, argc, argv, i, f);
}

static int check_letters(const command *c, const arguments *a, int argc, char **argv, int *i, failure *f)
{
    for (const char *letter = argv[*i] + 1; *letter; letter++) {
        option_line line = {0};
        size_t k = 0;
        while (k < a->options && c->option(k, &line) && line.letter != *letter)
            k++;
        if (k == a->options && !strchr("?hV", *letter))
            return fail(f, EX_USAGE, "%s: unknown option -%c: see wvgd %s --help%s", c->name, *letter, c->name,
                        c->basic ? "-all" : "");
        if (k < a->options && line.argument) {
            char option[] = {'-', *letter, '\0'};
            return letter[1] ? 0 : pass_value(c, option, line.argument, argc, argv, i, f);
        }
    }
    return 0;
}

static int check_words(const command *c, const arguments *a, int argc, char **argv, failure *f)
{
    int code = 0;
    for (int i = 1; i < argc && !code && strcmp(argv[i], "--"); i++)
        if (!strncmp(argv[i], "--", 2))
            code = check_long(c, a, argc, argv, &i, f);
        else if (argv[i][0] == '-' && argv[i][1])
            code = check_letters(c, a, argc, argv, &i, f);
    return code;
}

/* ---- argp -------------------------------------------------------------------------------------------------------- */
enum { HELP_ALL = 0x800, USAGE, FIRST_KEY = 0x1000 }; /* beyond all letters */

/* The number by which argp knows row i. */
static int option_key(size_t i, const option_line *line)
{
    return line->letter ? line->letter : FIRST_KEY + (int)i;
}

/* Names, keys and arguments of the options, for argp; its own layout of help is not used. NULL: no memory. */
static struct argp_option *make_options(const command *c, size_t n)
{
    static const struct argp_option own[] = {{"help", 'h', NULL, 0, NULL, 0},
                                             {NULL, '?', NULL, 0, NULL, 0},
                                             {"help-all", HELP_ALL, NULL, 0, NULL, 0},
                                             {"usage", USAGE, NULL, 0, NULL, 0},
                                             {"version", 'V', NULL, 0, NULL, 0}};
    enum { OWN = sizeof own / sizeof *own };
    struct argp_option *options = calloc(n + OWN + 1, sizeof *options);
    option_line line;
    if (!options)
        return NULL;
    for (size_t i = 0; i < n && c->option(i, &line); i++)
        options[i] = (struct argp_option){line.name, option_key(i, &line), line.argument, 0, "", 0};
    for (size_t i = 0; i < OWN; i++) {
        options[n + i] = own[i];
        options[n + i].doc = "";
    }
    return options;
}

/* --help and the like end the program; any other key is not theirs. */
static void answer(const command *c, int key)
{
    if (key == 'h' || key == '?' || key == HELP_ALL)
        print_command_help(stdout, c, key == HELP_ALL);
    else if (key == USAGE)
        print_usage(stdout, c);
    else if (key == 'V')
        puts(argp_program_version);
    else
        return;
    exit(0);
}

/* An option that may be given several times, whose values are separated by ';'. */
static error_t join_values(arguments *a, size_t i, const char *text)
{
    size_t size = strlen(a->value[i]) + strlen(text) + 2;
    char *both = malloc(size);
    if (!both)
        return ENOMEM;
    snprintf(both, size, "%s;%s", a->value[i], text);
    free(a->joined);
    a->value[i] = a->joined = both;
    return 0;
}

static error_t take(int key, char *text, struct argp_state *state)
{
    arguments *a = state->input;
    answer(a->command, key);
    if (key == ARGP_KEY_ARG) {
        a->word[a->words++] = text;
        return 0;
    }
    option_line line;
    for (size_t i = 0; i < a->options && a->command->option(i, &line); i++)
        if (key == option_key(i, &line)) {
            if (a->value[i] && line.argument && strstr(line.argument, "[,"))
                a->repeated = line.name;
            if (a->value[i] && line.argument && strstr(line.argument, "[;"))
                return join_values(a, i, text);
            a->value[i] = text ? text : "";
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

/* A list that was broken after a comma, "--ignore age, income": its second part. NULL: none was. */
static const char *broken_list(const arguments *a)
{
    for (size_t k = 0; k < a->words; k++)
        for (int i = 2; i < a->argc; i++) {
            size_t length = strlen(a->argv[i - 1]);
            if (a->argv[i] == a->word[k] && length && a->argv[i - 1][length - 1] == ',')
                return a->word[k];
        }
    return NULL;
}

/* One word at most, unless there may be several. A second one is often the data file. */
static int check_count(const arguments *a, failure *f)
{
    const command *c = a->command;
    const char *extra = a->words > (c->word != NULL) ? a->word[c->word != NULL] : NULL;
    if (!extra || (c->word && strstr(c->word, "...")))
        return 0;
    if (broken_list(a))
        return fail(f, EX_USAGE, "%s: unexpected argument '%s': write a list without a blank after the comma", c->name,
                    broken_list(a));
    if (given(a, "formula") && !strchr(given(a, "formula"), '~'))
        return fail(f, EX_USAGE, "%s: unexpected argument '%s': put a formula in quotes: --formula 'y ~ x'", c->name,
                    extra);
    if (given(a, "features") || given(a, "ignore"))
        return fail(f, EX_USAGE, "%s: unexpected argument '%s': separate columns by commas, such as a,b", c->name,
                    extra);
    if (!strcmp(c->name, "summary"))
        return fail(f, EX_USAGE,
                    "summary: unexpected argument '%s': expected one DIR; wvgd compare %s %s compares runs", extra,
                    a->word[0], extra);
    if (!strcmp(c->name, "predict"))
        return fail(f, EX_USAGE, "%s: unexpected argument '%s': expected one DIR, and --data FILE for the new rows",
                    c->name, extra);
    if (c->option && c->word && !strcmp(c->word, "MODEL") && !given(a, "data"))
        return fail(f, EX_USAGE, "%s: unexpected argument '%s': expected one MODEL, and --data FILE for its data",
                    c->name, extra);
    return fail(f, EX_USAGE, "%s: unexpected argument '%s': expected %s%s", c->name, extra,
                c->word     ? "one "
                : c->option ? "only options"
                            : "nothing after the command",
                c->word ? c->word : "");
}

int parse_arguments(const command *c, int argc, char **argv, arguments *a, failure *f)
{
    size_t n = count_options(c);
    *a = (arguments){c,
                     n,
                     calloc(n + 1, sizeof *a->name),
                     calloc(n + 1, sizeof *a->value),
                     0,
                     calloc((size_t)argc + 1, sizeof *a->word),
                     argc,
                     calloc((size_t)argc + 1, sizeof *a->argv),
                     NULL,
                     NULL,
                     NULL};
    if (!a->name || !a->value || !a->word || !a->argv)
        return fail(f, EX_SOFTWARE, "no memory for the command line");
    memcpy(a->argv, argv, (size_t)argc * sizeof *argv); /* argp changes the order */
    option_line line;
    for (size_t i = 0; i < n && c->option(i, &line); i++)
        a->name[i] = line.name;
    int code = check_words(c, a, argc, argv, f);
    if (code)
        return code;
    struct argp_option *options = make_options(c, n);
    if (!options)
        return fail(f, EX_SOFTWARE, "no memory for the options of %s", c->name);
    struct argp argp = {options, take, NULL, NULL, NULL, NULL, NULL};
    error_t error = argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, a);
    free(options);
    if (error)
        return fail(f, EX_USAGE, "%s: %s: see wvgd %s --help", c->name, strerror(error), c->name);
    if (a->repeated)
        return fail(f, EX_USAGE, "%s: --%s is given twice: give all columns in one, as --%s A,B", c->name, a->repeated,
                    a->repeated);
    return check_count(a, f);
}

void free_arguments(arguments *a)
{
    free(a->name);
    free(a->value);
    free(a->word);
    free(a->argv);
    free(a->joined);
    *a = (arguments){0};
}

const char *given(const arguments *a, const char *name)
{
    for (size_t i = 0; i < a->options; i++)
        if (!strcmp(a->name[i], name))
            return a->value[i];
    return NULL;
}

/* The row of an option, and what was given for it; NULL: nothing. */
static const char *given_row(const arguments *a, const char *name, option_line *line)
{
    for (size_t i = 0; i < a->options; i++)
        if (!strcmp(a->name[i], name))
            return a->command->option(i, line) ? a->value[i] : NULL;
    return NULL;
}

int given_count(const arguments *a, const char *name, size_t *value, failure *f)
{
    option_line line;
    double number = 0;
    const char *text = given_row(a, name, &line);
    int code = text ? read_value(&line, text, &number, f) : 0;
    if (!code && text)
        *value = (size_t)number;
    return code;
}

int given_seed(const arguments *a, const char *name, uint64_t *value, failure *f)
{
    option_line line;
    const char *text = given_row(a, name, &line);
    return text ? read_seed(&line, text, value, f) : 0;
}

int given_choice(const arguments *a, const char *name, size_t *which, failure *f)
{
    option_line line;
    const char *text = given_row(a, name, &line);
    return text ? read_choice(&line, text, which, f) : 0;
}

char *command_text(const arguments *a)
{
    const char **word = calloc((size_t)a->argc + 2, sizeof *word);
    char *text = NULL;
    if (word) {
        word[0] = "wvgd";
        word[1] = a->command->name;
        for (int i = 1; i < a->argc; i++)
            word[i + 1] = a->argv[i];
        text = quoted_words((size_t)a->argc + 1, word);
    }
    free(word);
    return text;
}

int check_out_file(const arguments *a, failure *f)
{
    struct stat about;
    const char *path = given(a, "out");
    if (!path || stat(path, &about))
        return 0;
    if (S_ISDIR(about.st_mode))
        return fail(f, EX_CANTCREAT, "%s: --out is '%s', which is a directory: expected a file name", a->command->name,
                    path);
    if (S_ISREG(about.st_mode) && about.st_size && !given(a, "overwrite") && !belongs_to_run(path))
        return fail(f, EX_CANTCREAT, "%s exists: --overwrite replaces it", path);
    return 0;
}
