/* cmd_models.c - wvgd models: the table of models, and the options that only some of them have. */
#include "commands.h"
#include "help_page.h"
#include "open_model.h"
#include <stdio.h>
#include <string.h>

static int run_models(arguments *a, failure *f)
{
    enum { LEFT = 11 };
    char text[700];
    const char *name = a->words ? a->word[0] : NULL;
    size_t options = 0;
    if (name && check_model_name(name, f))
        return f->code;
    if (name && names_object(name))
        name = "PATH.so";
    for (unsigned i = 0; wvgd_model_describe(i); i++) {
        const wvgd_model_info *m = wvgd_model_describe(i);
        if (name && strcmp(name, m->name))
            continue;
        int at = printf("%-10s ", m->name);
        print_words(stdout, m->help, (size_t)at, LEFT);
        snprintf(text, sizeof text, "data: %s", m->data ? m->data : "none");
        printf("%*s", LEFT, "");
        print_words(stdout, text, LEFT, LEFT);
    }
    for (unsigned i = 0; describe_model_option(i); i++) {
        const model_option *o = describe_model_option(i);
        if (name && !has_model_option(name, o->name))
            continue;
        fputs(options++ ? "" : "\nModel options:\n", stdout);
        printf("  --%s%s%s (%s)\n%*s", o->name, o->argument ? " " : "", o->argument ? o->argument : "", o->models, LEFT,
               "");
        snprintf(text, sizeof text, "%s%s%s", o->help, o->initial ? "; default " : "", o->initial ? o->initial : "");
        print_words(stdout, text, LEFT, LEFT);
    }
    return 0;
}

const command models_command = {
    "models",
    "[MODEL]",
    "list the models and their options",
    "Lists the built-in models and the kinds of shared objects that can be fitted, with their data formats and "
    "options; or one of them.",
    "wvgd models\nwvgd models logistic\n",
    NULL,
    "MODEL",
    run_models,
    NULL,
};
