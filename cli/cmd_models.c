/* cmd_models.c - wvgd models: the table of models, and the options that only some of them have. */
#include "commands.h"
#include "open_model.h"
#include <stdio.h>

static int run_models(arguments *a, failure *f)
{
    (void)a;
    (void)f;
    for (unsigned i = 0; wvgd_model_describe(i); i++) {
        const wvgd_model_info *m = wvgd_model_describe(i);
        printf("%-10s %s\n           data: %s\n", m->name, m->help, m->data ? m->data : "none");
    }
    puts("\nModel options:");
    for (unsigned i = 0; describe_model_option(i); i++) {
        const model_option *o = describe_model_option(i);
        printf("  --%s%s%s (%s)\n           %s", o->name, o->argument ? " " : "", o->argument ? o->argument : "",
               o->models, o->help);
        if (o->initial)
            printf("; default %s", o->initial);
        putchar('\n');
    }
    return 0;
}

const command models_command = {
    "models",
    "",
    "list the models and their options",
    "Lists the built-in models and the kinds of shared objects that can be fitted, with their data formats and "
    "options.",
    "wvgd models\n",
    NULL,
    NULL,
    run_models,
    NULL,
};
