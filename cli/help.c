/* help.c - everything that tells users which commands, options and models there are. Nothing is
 * spelled here that a table has. */
#include "help.h"
#include "open_model.h"
#include "text.h"
#include "wvgd.h"
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

void describe_option(const option_line *line, char *text, size_t size)
{
    const char *range = line->range, *initial = line->initial;
    int n = snprintf(text, size, "%s", line->help);
    size_t at = n > 0 && (size_t)n < size ? (size_t)n : size - 1;
    if (range && initial)
        snprintf(text + at, size - at, " (%s; default %s)", range, initial);
    else if (range || initial)
        snprintf(text + at, size - at, range ? " (%s)" : " (default %s)", range ? range : initial);
}

/* ---- order of options -------------------------------------------------------------------------------------------- */
const char basic_group[] = "Basic options:";

/* Whether a list of words separated by blanks has this one; *before: how many words come before it. */
static bool has_word(const char *list, const char *word, size_t *before)
{
    *before = 0;
    for (size_t length; list && *list; list += length + (list[length] == ' '), ++*before) {
        length = strcspn(list, " ");
        if (length == strlen(word) && !strncmp(list, word, length))
            return true;
    }
    return false;
}

static bool is_basic(const command *c, const option_line *line)
{
    size_t before;
    return has_word(c->basic, line->name, &before);
}

bool listed_option(const command *c, size_t i, option_line *line)
{
    size_t before, basic = 0;
    for (size_t k = 0; c->option && c->option(k, line); k++)
        if (has_word(c->basic, line->name, &before)) {
            basic++;
            if (before == i) {
                line->group = basic_group;
                return true;
            }
        }
    for (size_t k = 0; c->option && c->option(k, line); k++)
        if (!is_basic(c, line) && basic++ == i)
            return true;
    return false;
}

bool same_group(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* ---- wvgd --help ------------------------------------------------------------------------------------------------- */
static const char about[] =
    "Bayesian inference by Wasserstein variational gradient descent. A fit gives particles with their cells and "
    "masses, the log evidence with a lower bound, and draws from the posterior.";
static const char first_steps[] =
    "wvgd models                                                     # list the models\n"
    "wvgd fit logistic --data data/iris.csv --standardize --out iris # fit; files go to iris/\n"
    "wvgd summary iris                                               # print the summary again\n"
    "wvgd report iris                                                # write iris/report.html\n"
    "wvgd sample iris -n 4000 --out d.csv                            # write posterior draws\n"
    "wvgd stan schools.stan --data schools.json --out s              # compile and fit a Stan program\n";

static const struct {
    int code;
    const char *meaning;
} exit_codes[] = {
    {0, "done; see `verdict` and `warnings` in run.json"},
    {1, "summary --check: the result is unreliable"},
    {64, "wrong command, option or value"},
    {65, "a data, config or model file has wrong content; the message says where"},
    {66, "an input file or directory does not exist or is of the wrong kind"},
    {69, "a required tool is missing (Stan: see wvgd stan --doctor; report: Node.js; figures: gnuplot)"},
    {70, "the model failed, or no draw had a finite weight"},
    {73, "cannot create output"},
    {74, "input or output error, such as a full disk"},
    {75, "cannot resume or reopen the run, or it needs a model that you have not trusted"},
    {130, "interrupted; checkpoint and run.json have been written"},
};
enum { EXIT_CODES = sizeof exit_codes / sizeof *exit_codes };

void print_help(FILE *stream)
{
    fputs("Usage: wvgd COMMAND ...\nBayesian inference by Wasserstein variational gradient descent.\n\nCommands (wvgd "
          "COMMAND --help explains each):\n",
          stream);
    for (size_t i = 0; describe_command(i); i++)
        fprintf(stream, "  %-12s %s\n", describe_command(i)->name, describe_command(i)->line);
    fprintf(stream, "\nFirst steps (data/ is in the source tree):\n");
    for (const char *s = first_steps; *s; s += strcspn(s, "\n") + 1)
        fprintf(stream, "  %.*s\n", (int)strcspn(s, "\n"), s);
    fputs("\nResults go to stdout, progress and messages to stderr. Exit codes:\n", stream);
    for (size_t i = 0; i < EXIT_CODES; i++)
        fprintf(stream, "  %3d  %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

/* ---- man page ---------------------------------------------------------------------------------------------------- */
/* Text with what troff would take for its own escaped. */
static void put_roff(FILE *s, const char *text, size_t length)
{
    static const char special[] = "\\-'^~`", *const escape[] = {"\\e", "\\-", "\\(aq", "\\(ha", "\\(ti", "\\(ga"};
    for (size_t i = 0; i < length && text[i]; i++) {
        const char *found = strchr(special, text[i]);
        if ((!i || text[i - 1] == '\n') && strchr(".'", text[i]))
            fputs("\\&", s);
        if (found)
            fputs(escape[found - special], s);
        else
            putc(text[i], s);
    }
}

static void put_roff_text(FILE *s, const char *text)
{
    put_roff(s, text, strlen(text));
}

static void put_examples(FILE *s, const char *lines)
{
    fputs(".PP\n.EX\n", s);
    put_roff_text(s, lines);
    fputs(".EE\n", s);
}

/* The first command, if it is another one than c and has this very option: `wvgd stan` has the options of
 * `wvgd fit`, which need not be listed twice. */
static const command *listed_before(const command *c, const option_line *line)
{
    const command *first = describe_command(0);
    option_line other;
    for (size_t k = 0; c != first && line->group && listed_option(first, k, &other); k++)
        if (other.group && !strcmp(other.group, line->group) && !strcmp(other.name, line->name) &&
            !strcmp(other.help, line->help))
            return first;
    return NULL;
}

/* Options of one heading. */
typedef struct {
    const command *first; /* the command that some of them are listed with already, or NULL */
    size_t shared, own;   /* how many are, and how many are not */
    bool all;             /* the shared ones are all that `first` has under this heading */
} option_group;

/* The group that begins in row k. */
static option_group look_at_group(const command *c, size_t k)
{
    option_group g = {0};
    option_line line, other;
    listed_option(c, k, &line);
    const char *group = line.group;
    for (; listed_option(c, k, &line) && same_group(line.group, group); k++) {
        const command *shared = listed_before(c, &line);
        g.first = shared ? shared : g.first;
        g.shared += shared != NULL;
        g.own += shared == NULL;
    }
    size_t there = 0;
    for (k = 0; g.first && listed_option(g.first, k, &other); k++)
        there += same_group(other.group, group);
    g.all = g.shared == there;
    return g;
}

/* "those", or the names of the shared options from row k on, each between two marks. */
static void put_shared(FILE *s, const command *c, size_t k, const option_group *g, const char *open, const char *close)
{
    option_line line;
    if (g->all)
        fputs("those", s);
    for (size_t left = g->shared; !g->all && left && listed_option(c, k, &line); k++)
        if (listed_before(c, &line))
            fprintf(s, "%s%s%s%s", open, line.name, close, --left ? ", " : "");
}

static void put_roff_options(FILE *s, const command *c)
{
    option_line line;
    const char *group = NULL;
    for (size_t i = 0; listed_option(c, i, &line); i++) {
        char text[600];
        if (line.group && !same_group(group, line.group)) {
            option_group g = look_at_group(c, i);
            fputs(".PP\n.I ", s);
            put_roff_text(s, line.group);
            putc('\n', s);
            if (g.first) {
                put_shared(s, c, i, &g, "\\-\\-", "");
                fprintf(s, " of\n.BR \"wvgd %s\"%s\n", g.first->name, g.own ? " ,\nand:" : " .");
            }
        }
        group = line.group;
        if (listed_before(c, &line))
            continue;
        fputs(".TP\n", s);
        if (line.letter)
            fprintf(s, "\\fB\\-%c\\fR, ", line.letter);
        fputs("\\fB\\-\\-", s);
        put_roff_text(s, line.name);
        fputs("\\fR", s);
        if (line.argument) {
            fputs("=\\fI", s);
            put_roff_text(s, line.argument);
            fputs("\\fR", s);
        }
        putc('\n', s);
        describe_option(&line, text, sizeof text);
        put_roff_text(s, text);
        putc('\n', s);
    }
}

/* A line for each way to call the command. */
static void put_roff_synopsis(FILE *s, const command *c)
{
    for (const char *line = c->synopsis, *end; line; line = *end ? end + 1 : NULL) {
        end = line + strcspn(line, "\n");
        fprintf(s, ".B wvgd %s\n%s", c->name, c->option ? "[OPTION...] " : "\\&");
        put_roff(s, line, (size_t)(end - line));
        fputs("\n.br\n", s);
    }
}

static void put_roff_command(FILE *s, const command *c)
{
    fputs(".SS ", s);
    for (const char *line = c->synopsis, *end; line; line = *end ? end + 1 : NULL) {
        end = line + strcspn(line, "\n");
        fprintf(s, "%swvgd %s %s", line == c->synopsis ? "" : ".B ", c->name, c->option ? "[OPTION...] " : "");
        put_roff(s, line, (size_t)(end - line));
        fputs(line == c->synopsis ? "\n" : "\n.PP\n", s);
    }
    put_roff_text(s, c->text);
    putc('\n', s);
    put_roff_options(s, c);
    put_examples(s, c->examples);
}

static void put_roff_files(FILE *s)
{
    static const char *const files[][2] = {
        {"run.json", "options, results, diagnostics and verdict"},
        {"draws.csv", "posterior draws, as Stan CSV"},
        {"particles.csv", "a row for each particle"},
        {"trace.csv, history.csv", "the course of the fit"},
        {"checkpoint", "the state from which --resume continues"},
        {"result", "the final state of a run that a limit or a signal ended"},
        {"checkpoint.next", "the checkpoint of a run that will replace the present one when it has finished"},
        {"report.html", "written by wvgd report"},
        {"cells-N, cells-N-COST", "directories written by wvgd quantize"},
    };
    fputs(".SH FILES\nA run directory can hold these. A crash leaves the old files or the new ones.\n", s);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        fputs(".TP\n.I ", s);
        put_roff_text(s, files[i][0]);
        putc('\n', s);
        put_roff_text(s, files[i][1]);
        putc('\n', s);
    }
}

static void generate_man(FILE *s)
{
    fprintf(s,
            ".TH WVGD 1 \"\" \"wvgd %s\" \"User Commands\"\n.SH NAME\nwvgd \\- Bayesian inference by Wasserstein "
            "variational gradient descent\n",
            WVGD_VERSION);
    fputs(".SH SYNOPSIS\n", s);
    for (size_t i = 0; describe_command(i); i++)
        put_roff_synopsis(s, describe_command(i));
    fputs(".SH DESCRIPTION\n", s);
    put_roff_text(s, about);
    fputs("\n.PP\nResults go to standard output, progress and messages to standard error.\n", s);
    put_examples(s, first_steps);
    fputs(".SH COMMANDS\n", s);
    for (size_t i = 0; describe_command(i); i++)
        put_roff_command(s, describe_command(i));
    fputs(".SH MODELS\n", s);
    for (unsigned i = 0; wvgd_model_describe(i); i++) {
        const wvgd_model_info *m = wvgd_model_describe(i);
        fputs(".TP\n.B ", s);
        put_roff_text(s, m->name);
        putc('\n', s);
        put_roff_text(s, m->help);
        fputs("; data: ", s);
        put_roff_text(s, m->data ? m->data : "none");
        putc('\n', s);
    }
    put_roff_files(s);
    fputs(".SH EXIT STATUS\n", s);
    for (size_t i = 0; i < EXIT_CODES; i++) {
        fprintf(s, ".TP\n.B %d\n", exit_codes[i].code);
        put_roff_text(s, exit_codes[i].meaning);
        putc('\n', s);
    }
    fputs(
        ".SH REFERENCES\nThe paper whose method this is: L. Ambrogioni, U. Guclu and M. van Gerven,\n"
        ".IR \"Wasserstein variational gradient descent: from semi-discrete optimal transport to ensemble variational "
        "inference\" ,\n2018.\n.PP\n"
        "SVGD: Q. Liu and D. Wang,\n"
        ".IR \"Stein variational gradient descent: a general purpose Bayesian inference algorithm\" ,\n2016.\n"
        ".SH SEE ALSO\n"
        "Tutorial, file formats, the interface for C and the report are described in the directory docs of the source "
        "tree. For C programs:\n.BR pkg-config (1)\nnames wvgd and wvgd\\-tools. Figures:\n.BR gnuplot (1).\n",
        s);
}

/* ---- completion -------------------------------------------------------------------------------------------------- */
static bool is_choice(const char *argument)
{
    return argument && strchr(argument, '|') != NULL;
}

static bool is_file(const char *argument)
{
    return argument && (strstr(argument, "FILE") || strstr(argument, "DIR") || !strcmp(argument, "F"));
}

static void put_words(FILE *s, const char *choices, const char *between)
{
    for (const char *c = choices; *c; c++)
        if (*c == '|')
            fputs(between, s);
        else
            putc(*c, s);
}

static void put_models(FILE *s)
{
    for (unsigned i = 0; wvgd_model_describe(i); i++)
        if (!strpbrk(wvgd_model_describe(i)->name, "./")) /* not "PATH.so" */
            fprintf(s, "%s%s", i ? " " : "", wvgd_model_describe(i)->name);
}

/* Completion of the argument of each option that has one. */
static void put_bash_arguments(FILE *s, const command *c)
{
    option_line line;
    for (size_t i = 0; c->option && c->option(i, &line); i++) {
        if (!line.argument)
            continue;
        fprintf(s, "        %s:--%s", c->name, line.name);
        if (line.letter)
            fprintf(s, " | %s:-%c", c->name, line.letter);
        fputs(") ", s);
        if (is_choice(line.argument)) {
            fputs("mapfile -t COMPREPLY < <(compgen -W \"", s);
            put_words(s, line.argument, " ");
            fputs("\" -- \"$word\"); ", s);
        } else if (is_file(line.argument))
            fputs("mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); ", s);
        fputs("return ;;\n", s);
    }
}

static void generate_bash(FILE *s)
{
    option_line line;
    fputs("# bash completion for wvgd; written by wvgd --generate bash\n_wvgd() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} "
          "words=\"--help\"\n"
          "    COMPREPLY=()\n    compopt -o filenames 2>/dev/null\n    if ((COMP_CWORD == 1)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"",
          s);
    for (size_t i = 0; describe_command(i); i++)
        fprintf(s, "%s ", describe_command(i)->name);
    fputs("--help --version\" -- \"$word\")\n        return\n    fi\n    case $command:$before in\n", s);
    for (size_t i = 0; describe_command(i); i++)
        put_bash_arguments(s, describe_command(i));
    fputs("    esac\n    case $command in\n", s);
    for (size_t i = 0; describe_command(i); i++) {
        const command *c = describe_command(i);
        fprintf(s, "        %s) words=\"", c->name);
        for (size_t k = 0; c->option && c->option(k, &line); k++)
            fprintf(s, "--%s ", line.name);
        fputs(c->basic ? "--help --help-all\" ;;\n" : "--help\" ;;\n", s);
    }
    fputs("    esac\n    if [[ $word == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
          "\"$word\")\n"
          "    elif [[ $command == fit || $command == svgd ]]; then\n        mapfile -t COMPREPLY < <(compgen -W \"",
          s);
    put_models(s);
    fputs("\" -- \"$word\"; compgen -f -- \"$word\")\n", s);
    for (size_t i = 0; describe_command(i); i++)
        if (is_choice(describe_command(i)->word)) {
            fprintf(s, "    elif [[ $command == %s ]]; then\n        mapfile -t COMPREPLY < <(compgen -W \"",
                    describe_command(i)->name);
            put_words(s, describe_command(i)->word, " ");
            fputs("\" -- \"$word\")\n", s);
        }
    fputs("    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n    fi\n}\n"
          "complete -F _wvgd wvgd\n",
          s);
}

/* Text inside the single quotes and brackets of a zsh specification. */
static void put_zsh(FILE *s, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", s);
        else if (strchr("[]:\\", *text))
            fprintf(s, "\\%c", *text);
        else
            putc(*text, s);
}

static void put_zsh_option(FILE *s, const option_line *line)
{
    char text[600];
    describe_option(line, text, sizeof text);
    for (int letter = line->letter ? 1 : 0; letter >= 0; letter--) {
        if (letter)
            fprintf(s, "                '-%c[", line->letter);
        else
            fprintf(s, "                '--%s%s[", line->name, line->argument ? "=" : "");
        put_zsh(s, text);
        putc(']', s);
        if (line->argument) {
            putc(':', s);
            put_zsh(s, is_choice(line->argument) ? line->name : line->argument);
            putc(':', s);
        }
        if (is_choice(line->argument)) {
            putc('(', s);
            put_words(s, line->argument, " ");
            putc(')', s);
        } else if (is_file(line->argument))
            fputs("_files", s);
        fputs("' \\\n", s);
    }
}

static void generate_zsh(FILE *s)
{
    option_line line;
    fputs("#compdef wvgd\n# zsh completion for wvgd; written by wvgd --generate zsh\n_wvgd() {\n    local -a "
          "commands\n    commands=(\n",
          s);
    for (size_t i = 0; describe_command(i); i++) {
        fprintf(s, "        '%s:", describe_command(i)->name);
        put_zsh(s, describe_command(i)->line);
        fputs("'\n", s);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n    local "
          "command=$words[2]\n"
          "    shift words\n    ((CURRENT--))\n    case $command in\n",
          s);
    for (size_t i = 0; describe_command(i); i++) {
        const command *c = describe_command(i);
        fprintf(s, "        %s)\n            _arguments \\\n", c->name);
        for (size_t k = 0; c->option && c->option(k, &line); k++)
            put_zsh_option(s, &line);
        fputs("                '--help[help]'", s);
        if (c->basic)
            fputs(" \\\n                '--help-all[all options]'", s);
        if (c->word && !strcmp(c->word, "MODEL")) {
            fputs(" \\\n                '1:MODEL:{compadd ", s);
            put_models(s);
            fputs("; _files}'", s);
        } else if (is_choice(c->word)) {
            fputs(" \\\n                '1:NAME:(", s);
            put_words(s, c->word, " ");
            fputs(")'", s);
        } else if (c->word)
            fprintf(s, " \\\n                '%s:%.3s:_files'", strstr(c->word, "...") ? "*" : "1", c->word);
        fputs("\n            ;;\n", s);
    }
    fputs("    esac\n}\n_wvgd \"$@\"\n", s);
}

/* ---- docs/options.md --------------------------------------------------------------------------------------------- */
static void put_cell(FILE *s, const char *text)
{
    fputs("| ", s);
    for (; *text; text++) {
        if (*text == '|')
            putc('\\', s);
        putc(*text, s);
    }
    putc(' ', s);
}

/* The models that have the option; NULL: it is no option of models. */
static const char *models_with(const option_line *line)
{
    for (unsigned i = 0; describe_model_option(i); i++)
        if (line->range == describe_model_option(i)->models && !strcmp(line->name, describe_model_option(i)->name))
            return line->range;
    return NULL;
}

/* Whether the group that begins in row k has options of models. */
static bool has_models(const command *c, size_t k)
{
    option_line line;
    bool found = false;
    listed_option(c, k, &line);
    for (const char *group = line.group; listed_option(c, k, &line) && same_group(line.group, group); k++)
        found = found || (models_with(&line) && !listed_before(c, &line));
    return found;
}

/* The heading of a group, which options of another command belong to it, and the head of a table for its own. */
static void put_page_group(FILE *s, const command *c, size_t k, const char *group, bool models)
{
    option_group g = look_at_group(c, k);
    fprintf(s, "\n%s", group ? group : "");
    if (g.first) {
        putc(' ', s);
        put_shared(s, c, k, &g, "`--", "`");
        fprintf(s, " of `wvgd %s`%s", g.first->name, g.own ? ", and:" : ".");
    }
    if (group)
        fputs(g.own ? "\n\n" : "\n", s);
    if (g.own)
        fputs(models ? "| option | value | models | default | meaning |\n| --- | --- | --- | --- | --- |\n"
                     : "| option | value | default | meaning |\n| --- | --- | --- | --- |\n",
              s);
}

/* models: the table has a column for them. */
static void put_page_row(FILE *s, const option_line *line, bool models)
{
    const char *some = models_with(line), *range = some ? NULL : line->range;
    fprintf(s, line->letter ? "| `--%s`, `-%c` " : "| `--%s` ", line->name, line->letter);
    put_cell(s, range ? range : line->argument ? line->argument : "");
    if (models)
        put_cell(s, some ? some : "");
    put_cell(s, line->initial ? line->initial : "");
    put_cell(s, line->help);
    fputs("|\n", s);
}

static void generate_page(FILE *s)
{
    option_line line;
    fputs("# Options\n\nWritten by `wvgd --generate options.md` from the tables that the program itself reads. Long "
          "names are also the keys of `--config FILE.json` and of `options` in `run.json`.\n",
          s);
    for (size_t i = 0; describe_command(i); i++) {
        const command *c = describe_command(i);
        const char *group = NULL;
        if (!listed_option(c, 0, &line))
            continue;
        fprintf(s, "\n## wvgd %s\n\n%s\n", c->name, c->text);
        bool models = false;
        for (size_t k = 0; listed_option(c, k, &line); k++) {
            if (!k || !same_group(group, line.group))
                put_page_group(s, c, k, line.group, models = has_models(c, k));
            group = line.group;
            if (!listed_before(c, &line))
                put_page_row(s, &line, models);
        }
    }
}

int generate(const char *what, FILE *stream, failure *f)
{
    static const struct {
        const char *name;
        void (*write)(FILE *);
    } kinds[] = {{"man", generate_man}, {"bash", generate_bash}, {"zsh", generate_zsh}, {"options.md", generate_page}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(what, kinds[i].name)) {
            kinds[i].write(stream);
            return 0;
        }
    return fail(f, EX_USAGE, "--generate is '%s': expected man, bash, zsh or options.md", what);
}
