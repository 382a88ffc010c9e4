/* cmd_options.c - wvgd options: the options of a fit with values, defaults and a line each. */
#include "commands.h"
#include "help.h"
#include <string.h>

static int run_options(arguments *a, failure *f)
{
    option_line line;
    const char *group = NULL;
    (void)a;
    (void)f;
    for (size_t i = 0; fit_command.option(i, &line); i++) {
        if (!group || strcmp(group, line.group))
            printf("%s%s\n", i ? "\n" : "", line.group);
        group = line.group;
        char text[600];
        describe_option(&line, text, sizeof text);
        printf(line.letter ? "  -%c, " : "  ", line.letter);
        printf("--%s%s%s\n        %s\n", line.name, line.argument ? " " : "", line.argument ? line.argument : "", text);
    }
    return 0;
}

const command options_command = {
    "options",
    "",
    "list the options of a fit, with values and defaults",
    "Lists the options of wvgd fit with values, defaults and meanings.",
    "wvgd options\n",
    NULL,
    NULL,
    run_options,
    NULL,
};
