/* fit_request.c - options and words of a command line, passed on under their names. */
#include "fit_request.h"
#include "open_model.h"
#include "request.h"
#include "say.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory for the command line");
}

/* What a command line says of an empty request. */
static int begin_request(const arguments *a, wvgd_request **q, failure *f)
{
    if (!*q && !(*q = wvgd_request_new()))
        return no_memory(f);
    (*q)->who = a->command->name;
    (*q)->command = command_text(a);
    (*q)->object = a->object ? strdup(a->object) : NULL;
    return (*q)->command && (!a->object || (*q)->object) ? 0 : no_memory(f);
}

/* The model first: what is wrong with it is the first thing to know. Then all options that requests have, except for
 * one. */
static int pass_options(const arguments *a, wvgd_request *q, const char *model, const char *except, failure *f)
{
    option_line line;
    int code = model ? request_put(q, "model", model, f) : 0;
    for (size_t i = 0; i < a->options && !code; i++)
        if (a->value[i] && strcmp(a->name[i], except) && find_row(q, a->name[i], &line))
            code = request_put(q, a->name[i], a->value[i], f);
    return code;
}

/* A name such as settings.json or a/b, that no text for a model looks like. */
static bool looks_like_file(const char *text)
{
    size_t length = strlen(text);
    bool json = length > 5 && !strcmp(text + length - 5, ".json");
    return !strpbrk(text, " \t\n{}[]\"=") && (json || strchr(text, '/'));
}

/* With a shared object as model, what is no file that can be read is configuration text for it. */
int request_fit(const arguments *a, wvgd_request **q, failure *f)
{
    const char *config = given(a, "config"), *model = a->words ? a->word[0] : NULL;
    bool text = config && (a->object || names_object(model)) && access(config, R_OK);
    int code = begin_request(a, q, f);
    if (text && looks_like_file(config))
        say("warning: --config: there is no file %s: the model gets '%s' as its configuration text", config, config);
    if (!code && config && !text)
        code = request_file(*q, config, f);
    return code ? code : pass_options(a, *q, model, text ? "" : "config", f);
}

int request_svgd(const arguments *a, wvgd_request **q, failure *f)
{
    *q = wvgd_request_new_svgd();
    return *q ? request_fit(a, q, f) : no_memory(f);
}

int request_changes(const arguments *a, wvgd_request **q, failure *f)
{
    int code = begin_request(a, q, f);
    return code ? code : pass_options(a, *q, a->words ? a->word[0] : NULL, "resume", f);
}

int request_cells(const arguments *a, wvgd_request **q, failure *f)
{
    int code = begin_request(a, q, f);
    return code ? code : pass_options(a, *q, given(a, "model"), "", f);
}

int request_trust(const arguments *a, wvgd_request **q, failure *f)
{
    int code = begin_request(a, q, f);
    if (!code && given(a, "model"))
        code = request_put(*q, "model", given(a, "model"), f);
    return !code && given(a, "trust-model") ? request_put(*q, "trust-model", "", f) : code;
}
