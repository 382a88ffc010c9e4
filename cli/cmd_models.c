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
    puts("\nOptions of models:");
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
    "models that can be fitted, and their options",
    "Lists the models that can be fitted: those built in, and shared objects; with the data that each takes and the "
    "options that only it has.",
    "wvgd models\n",
    NULL,
    NULL,
    run_models,
};
