/* request.c - options by name, and the record that is made of them. */
#include "request.h"
#include "config_file.h"
#include "fit_options.h"
#include "open_model.h"
#include "run_directory.h"
#include "run_json.h"
#include "run_record.h"
#include "status.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* ---- what was given ---------------------------------------------------------------------------------------------- */
wvgd_request *wvgd_request_new(void)
{
    wvgd_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->texts = json_object();
    request->from_file = json_object();
    if (request->texts && request->from_file)
        return request;
    wvgd_request_free(request);
    return NULL;
}

void wvgd_request_free(wvgd_request *request)
{
    if (!request)
        return;
    json_decref(request->texts);
    json_decref(request->from_file);
    free(request->file);
    free(request->command);
    free(request->object);
    free(request);
}

void wvgd_request_notes(wvgd_request *request, wvgd_note_callback *note, void *self)
{
    if (!request)
        return;
    request->note = note;
    request->note_self = self;
}

void tell(const wvgd_request *request, const char *text)
{
    if (request->note)
        request->note(request->note_self, text);
}

const char *requested(const wvgd_request *request, const char *name)
{
    return json_string_value(json_object_get(request->texts, name));
}

int request_text(wvgd_request *request, const char *name, const char *value)
{
    json_object_del(request->from_file, name);
    return json_object_set_new(request->texts, name, json_text(value));
}

/* The long name of an option: "max_iter" is max-iter. */
static int find_name(const char *given, char *name, size_t size, failure *f)
{
    option_line line;
    char shown[QUOTED];
    snprintf(name, size, "%s", given);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
    if (!strcmp(name, "resume"))
        return fail(f, EX_USAGE, "resume is not an option of a request: call wvgd_resume");
    if (!strcmp(name, "model") || find_option(name, &line))
        return 0;
    return fail(f, EX_USAGE, "unknown option %s: wvgd_options_describe and wvgd options list them",
                quote(given, shown));
}

/* A value that the option cannot have is better known now than when the model is opened. */
static int check_value(const char *name, const char *value, failure *f)
{
    wvgd_options o;
    wvgd_options_init(&o);
    for (size_t i = 0; wvgd_options_describe(i); i++)
        if (!strcmp(wvgd_options_describe(i)->name, name) && !is_start_file(name, value))
            return set_fit_option(&o, wvgd_options_describe(i), value, f);
    return 0;
}

wvgd_status wvgd_request_set(wvgd_request *request, const char *name, const char *value, wvgd_error *error)
{
    char found[100];
    failure f;
    if (lacks(error, "wvgd_request_set", "request", request) || lacks(error, "wvgd_request_set", "name", name))
        return WVGD_E_ARGUMENT;
    int code = find_name(name, found, sizeof found, &f);
    if (!code && !value) {
        json_object_del(request->texts, found);
        json_object_del(request->from_file, found);
        return WVGD_OK;
    }
    if (!code)
        code = check_value(found, value, &f);
    if (!code && request_text(request, found, value))
        code = fail(&f, EX_SOFTWARE, "no memory for the option %s", found);
    return code ? pass_failure(error, &f) : WVGD_OK;
}

const char *wvgd_request_get(const wvgd_request *request, const char *name)
{
    char found[100];
    failure f;
    return request && name && !find_name(name, found, sizeof found, &f) ? requested(request, found) : NULL;
}

wvgd_status wvgd_request_command(wvgd_request *request, const char *command, wvgd_error *error)
{
    failure f;
    if (lacks(error, "wvgd_request_command", "request", request))
        return WVGD_E_ARGUMENT;
    char *copy = command ? strdup(command) : NULL;
    if (command && !copy) {
        fail(&f, EX_SOFTWARE, "no memory for the command");
        return pass_failure(error, &f);
    }
    free(request->command);
    request->command = copy;
    return WVGD_OK;
}

/* ---- files with options ------------------------------------------------------------------------------------------ */
int request_file(wvgd_request *request, const char *path, failure *f)
{
    json_t *texts = json_object(), *value;
    const char *name;
    char *copy = strdup(path);
    int code = texts && copy ? read_config(path, texts, f)
                             : fail(f, EX_SOFTWARE, "no memory for the options of a file");
    if (!code) {
        json_object_foreach(texts, name, value)
            code |= json_object_set(request->texts, name, value) |
                    json_object_set_new(request->from_file, name, json_true());
        free(request->file);
        request->file = copy;
        copy = NULL;
        code = code ? fail(f, EX_SOFTWARE, "no memory for the options of a file") : 0;
    }
    free(copy);
    json_decref(texts);
    return code;
}

wvgd_status wvgd_request_read(wvgd_request *request, const char *path, wvgd_error *error)
{
    failure f;
    if (lacks(error, "wvgd_request_read", "request", request) || lacks(error, "wvgd_request_read", "path", path))
        return WVGD_E_ARGUMENT;
    locale_t before = use_plain_numbers();
    int code = request_file(request, path, &f);
    uselocale(before);
    return code ? pass_failure(error, &f) : WVGD_OK;
}

bool is_from_file(const wvgd_request *request, const char *name)
{
    return json_object_get(request->from_file, name) != NULL;
}

/* A file that a file with options names and that is not there: which directory was meant? */
static int check_path(const wvgd_request *request, const char *name, failure *f)
{
    const char *path = requested(request, name);
    char *here = NULL;
    if (!is_from_file(request, name) || *path == '/' || (strcmp(name, "data") && !is_start_file(name, path)) ||
        !access(path, F_OK))
        return 0;
    fail(f, EX_NOINPUT, "%s: %s is '%s', which does not exist: paths are relative to the working directory, %s",
         request->file, name, path, (here = getcwd(NULL, 0)) ? here : "which no longer exists");
    free(here);
    return f->code;
}

/* ---- the options of a record ------------------------------------------------------------------------------------- */
/* The library's options: defaults, changed by what was given; all of them are recorded. */
static int fill_library(json_t *options, json_t *reopen, const wvgd_request *request, failure *f)
{
    wvgd_options o;
    option_line line;
    wvgd_options_init(&o);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o.threads = cores < 1 ? 1 : cores < 4096 ? (size_t)cores : 4096;
    for (size_t i = 0; wvgd_options_describe(i); i++) {
        const wvgd_option_info *info = wvgd_options_describe(i);
        const char *value = requested(request, info->name);
        char text[64];
        bool start = is_start_file(info->name, value);
        if (start)
            json_object_set_new(reopen, "start", json_true());
        else if (value && set_fit_option(&o, info, value, f))
            return f->code;
        wvgd_options_get(&o, info->name, text, sizeof text, NULL);
        line = library_line(info);
        json_object_set_new(options, info->name,
                            typed_option(&line,
                                         start ? value : translate_cost(info->name, text, "callback", "functional")));
    }
    return 0;
}

/* The program's and the model's. */
static void fill_others(json_t *options, const wvgd_request *request)
{
    static const char *const not_recorded[] = {"out",   "resume",         "overwrite",   "config",
                                               "quiet", "check-gradient", "trust-model", NULL};
    option_line line;
    for (size_t i = 0; fit_option(i, &line); i++) {
        const char *value = requested(request, line.name);
        bool skip = !value || is_library_option(&line);
        for (size_t k = 0; not_recorded[k]; k++)
            skip = skip || !strcmp(line.name, not_recorded[k]);
        if (!skip)
            json_object_set_new(options, line.name, typed_option(&line, value));
    }
}

static int check_numbers(const wvgd_request *request, failure *f)
{
    static const char *const names[] = {"output-draws", "checkpoint-every"};
    option_line line;
    double value;
    for (size_t i = 0; i < 2; i++)
        if (requested(request, names[i]) && find_option(names[i], &line) &&
            read_value(&line, requested(request, names[i]), &value, f))
            return f->code;
    return 0;
}

static void set_default(json_t *options, const char *name, size_t value)
{
    if (!json_object_get(options, name))
        json_object_set_new(options, name, json_integer((json_int_t)value));
}

/* ---- a new record ------------------------------------------------------------------------------------------------ */
/* What cannot be asked for, whatever the model is. */
static int check_request(const wvgd_request *request, failure *f)
{
    const char *name = requested(request, "model"), *who = request->who ? request->who : "request";
    if (!name)
        return fail(f, EX_USAGE, "%s: MODEL is missing: see wvgd models", who);
    if (is_from_file(request, "model") && names_object(name) && !requested(request, "trust-model"))
        return fail(f, EX_TEMPFAIL,
                    "%s names the model %s, which is code that would run with your permissions: name the model on the "
                    "command line, or give --trust-model",
                    request->file, name);
    if (!request->object && names_stan_program(name))
        return fail(f, EX_USAGE, "%s is a Stan program: use wvgd stan %s, with the same options", name, name);
    int code = check_path(request, "data", f);
    if (!code)
        code = check_path(request, "init", f);
    return code ? code : check_numbers(request, f);
}

int check_out(const wvgd_request *request, failure *f)
{
    const char *out = requested(request, "out");
    if (!out && request->who)
        return fail(f, EX_USAGE, "%s: --out DIR is missing: name a directory for the results", request->who);
    return out ? check_run_directory(out, requested(request, "overwrite") != NULL, f) : 0;
}

static void put_word(FILE *s, const char *word)
{
    bool plain = *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
                              strlen(word);
    fputs(plain ? "" : "'", s);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", s);
        else
            putc(*word, s);
    fputs(plain ? "" : "'", s);
}

char *quoted_words(size_t n, const char *const *word)
{
    char *text = NULL;
    size_t size = 0;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        fputs(i ? " " : "", s);
        put_word(s, word[i]);
    }
    return fclose(s) ? NULL : text;
}

/* The command of the program that would have asked for the same. To be freed. */
static char *equivalent_command(const wvgd_request *request)
{
    size_t n = 3, most = 3 + 2 * json_object_size(request->texts);
    const char **word = calloc(most, sizeof *word), *name;
    char(*option)[104] = calloc(most, sizeof *option), *text = NULL;
    json_t *value;
    option_line line;
    if (word && option) {
        word[0] = "wvgd";
        word[1] = "fit";
        word[2] = requested(request, "model");
        json_object_foreach(request->texts, name, value)
            if (find_option(name, &line)) {
                snprintf(option[n], sizeof *option, "--%s", name);
                word[n] = option[n];
                n++;
                if (line.argument)
                    word[n++] = json_string_value(value);
            }
        text = quoted_words(n, word);
    }
    free(word);
    free(option);
    return text;
}

static json_t *command_of(const wvgd_request *request)
{
    char *made = request->command ? NULL : equivalent_command(request);
    json_t *json = request->command || made ? json_text(request->command ? request->command : made) : NULL;
    free(made);
    return json;
}

/* What only going on and sampling need. */
static void fill_reopen(const wvgd_request *request, json_t *reopen)
{
    const char *name = requested(request, "model");
    json_object_set_new(reopen, "model",
                        request->object      ? absolute_path(request->object)
                        : names_object(name) ? absolute_path(name)
                                             : json_text(name));
    if (request->object)
        json_object_set_new(reopen, "program", absolute_path(name));
    json_object_set_new(reopen, "data", absolute_path(requested(request, "data")));
    json_object_set(reopen, "text", json_object_get(request->texts, "config"));
    json_object_set(reopen, "out", json_object_get(request->texts, "out"));
    json_object_set_new(reopen, "given", json_copy(request->texts));
}

int new_record(const wvgd_request *request, json_t **asked, failure *f)
{
    json_t *record = json_object(), *options = json_object(), *reopen = json_object(), *model = json_object();
    int code = check_request(request, f);
    if (!code)
        code = fill_library(options, reopen, request, f);
    if (!code) {
        fill_others(options, request);
        set_default(options, "output-draws", 1000);
        set_default(options, "checkpoint-every", 30);
        json_object_set_new(record, "version", json_string(WVGD_VERSION));
        json_object_set_new(record, "command", command_of(request));
        json_object_set_new(model, "name", json_text(requested(request, "model")));
        fill_reopen(request, reopen);
    }
    json_object_set_new(record, "model", model);
    json_object_set_new(record, "options", options);
    json_object_set_new(record, "reopen", reopen);
    *asked = record;
    return code;
}

/* ---- a run that goes on ------------------------------------------------------------------------------------------ */
static bool is_aside(const char *name)
{
    return !strcmp(name, "quiet") || !strcmp(name, "trust-model") || !strcmp(name, "model");
}

int change_record(json_t *asked, const wvgd_request *changes, failure *f)
{
    const char *name;
    json_t *value;
    json_object_foreach(changes->texts, name, value)
        if (!is_aside(name) && !may_change(name))
            return fail(f, EX_USAGE,
                        "fit: --%s cannot change with --resume: only --max-iter, --max-seconds, --threads, "
                        "--checkpoint-every and "
                        "--output-draws can",
                        name);
    int code = check_numbers(changes, f);
    json_object_foreach(changes->texts, name, value)
        if (!code)
            code = check_value(name, json_string_value(value), f);
    json_object_foreach(changes->texts, name, value)
        if (!code && may_change(name))
            record_set(asked, name, json_string_value(value));
    return code;
}
