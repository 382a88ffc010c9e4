/* cmd_options.c - wvgd options: the options of a fit with values, defaults and a line each. */
#include "commands.h"
#include "help.h"
#include "help_page.h"
#include "suggest.h"
#include <string.h>

static int run_options(arguments *a, failure *f)
{
    option_line line;
    const char *group = NULL;
    const char *name = a->words ? a->word[0] : NULL;
    for (size_t i = 0; fit_command.option(i, &line); i++) {
        if (name && strcmp(name, line.name))
            continue;
        if (!group || strcmp(group, line.group))
            printf("%s%s\n", group ? "\n" : "", line.group);
        group = line.group;
        char text[600];
        describe_option(&line, text, sizeof text);
        printf(line.letter ? "  -%c, " : "  ", line.letter);
        printf("--%s%s%s\n        ", line.name, line.argument ? " " : "", line.argument ? line.argument : "");
        print_words(stdout, text, 8, 8);
    }
    return group ? 0 : refuse_option(&fit_command, name, NULL, f);
}

const command options_command = {
    "options",
    "[NAME]",
    "list the options of a fit, with values and defaults",
    "Lists the options of wvgd fit with values, defaults and meanings, or one of them.",
    "wvgd options\nwvgd options particles\n",
    NULL,
    "NAME",
    run_options,
    NULL,
};
