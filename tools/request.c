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
enum { NUMBER = 40 }; /* bytes of a number as text */

wvgd_request *wvgd_request_new(void)
{
    wvgd_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->option = fit_option;
    request->options = json_object();
    request->from_file = json_object();
    request->text = calloc(NUMBER, 1);
    if (request->options && request->from_file && request->text)
        return request;
    wvgd_request_free(request);
    return NULL;
}

void wvgd_request_free(wvgd_request *request)
{
    if (!request)
        return;
    json_decref(request->options);
    json_decref(request->from_file);
    free(request->text);
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

bool is_requested(const wvgd_request *request, const char *name)
{
    return json_object_get(request->options, name) != NULL;
}

const char *requested(const wvgd_request *request, const char *name)
{
    return json_string_value(json_object_get(request->options, name));
}

bool find_row(const wvgd_request *request, const char *name, option_line *line)
{
    for (size_t i = 0; request->option(i, line); i++)
        if (!strcmp(line->name, name))
            return true;
    return false;
}

const char *nearest_option(const wvgd_request *request, const char *name)
{
    const char *names[200] = {"model"};
    option_line line;
    for (size_t i = 0; i < 198 && request->option(i, &line); i++)
        names[i + 1] = line.name;
    return find_nearest(name, names);
}

int request_put(wvgd_request *request, const char *name, const char *value, failure *f)
{
    json_t *typed = NULL;
    option_line line;
    int code = 0;
    if (find_row(request, name, &line) && !line.argument && !strcmp(value, "false")) {
        json_object_del(request->from_file, name);
        json_object_del(request->options, name);
        return 0;
    }
    if (!strcmp(name, "model")) {
        code = request->object || names_stan_program(value) ? 0 : check_model_name(value, f);
        typed = json_text(value);
    } else
        code = find_row(request, name, &line) ? type_option(&line, value, &typed, f)
                                              : fail(f, EX_USAGE, "unknown option %s", name);
    if (code) {
        json_decref(typed);
        return code;
    }
    json_object_del(request->from_file, name);
    return json_object_set_new(request->options, name, typed)
               ? fail(f, EX_SOFTWARE, "no memory for the option %s", name)
               : 0;
}

void write_hyphens(const char *given, char *name, size_t size)
{
    snprintf(name, size, "%s", given);
    for (; *name; name++)
        if (*name == '_')
            *name = '-';
}

static int find_name(const wvgd_request *request, const char *given, char *name, size_t size, failure *f)
{
    option_line line;
    char shown[QUOTED];
    write_hyphens(given, name, size);
    if (!strcmp(name, "resume"))
        return fail(f, EX_USAGE, "resume is not an option of a request: call wvgd_resume");
    if (!strcmp(name, "model") || find_row(request, name, &line))
        return 0;
    const char *near = nearest_option(request, name);
    return fail(f, EX_USAGE, "unknown option %s%s%s%s", quote(given, shown), near ? ": did you mean " : "",
                near ? near : ": wvgd_options_describe and wvgd options list them", near ? "?" : "");
}

wvgd_status wvgd_request_set(wvgd_request *request, const char *name, const char *value, wvgd_error *error)
{
    char found[100];
    failure f;
    if (lacks(error, "wvgd_request_set", "request", request) || lacks(error, "wvgd_request_set", "name", name))
        return WVGD_E_ARGUMENT;
    locale_t before = use_plain_numbers();
    int code = find_name(request, name, found, sizeof found, &f);
    if (!code && value)
        code = request_put(request, found, value, &f);
    else if (!code) {
        json_object_del(request->options, found);
        json_object_del(request->from_file, found);
    }
    uselocale(before);
    if (code)
        name_options(&f);
    return code ? pass_failure(error, &f) : WVGD_OK;
}

const char *wvgd_request_get(const wvgd_request *request, const char *name)
{
    char found[100];
    failure f;
    if (!request || !name || find_name(request, name, found, sizeof found, &f))
        return NULL;
    locale_t before = use_plain_numbers();
    const char *text = option_text_of(json_object_get(request->options, found), request->text);
    uselocale(before);
    return text;
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

/* What makes a model of the caller's own useless; NULL: nothing. */
static const char *own_problem(const wvgd_own_model *own)
{
    const char *name = own->model.name;
    if (!own->model.log_density)
        return "model.log_density is NULL: expected a function";
    if (!own->model.dim || !own->model.names)
        return !own->model.dim ? "model.dim is 0: expected at least 1"
                               : "model.names is NULL: expected a name for each dimension";
    return name && (names_object(name) || names_stan_program(name))
               ? "model.name is the name of a file: expected another one"
               : NULL;
}

wvgd_status wvgd_request_own(wvgd_request *request, const wvgd_own_model *own, wvgd_error *error)
{
    failure f;
    if (lacks(error, "wvgd_request_own", "request", request))
        return WVGD_E_ARGUMENT;
    const char *problem = own ? own_problem(own) : NULL;
    int failed = problem ? fail(&f, EX_USAGE, "wvgd_request_own: %s", problem)
                 : !own  ? json_object_del(request->options, "model") && 0
                         : json_object_set_new(request->options, "model",
                                               json_text(own->model.name ? own->model.name : "density")) &&
                              fail(&f, EX_SOFTWARE, "no memory for the name of the model");
    if (failed)
        return pass_failure(error, &f);
    request->own = own;
    return WVGD_OK;
}

/* ---- files with options ------------------------------------------------------------------------------------------ */
int request_file(wvgd_request *request, const char *path, failure *f)
{
    char *copy = strdup(path);
    if (!copy)
        return fail(f, EX_SOFTWARE, "no memory for the name of a file");
    free(request->file);
    request->file = copy;
    return read_config(path, request, f);
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
static json_t *default_value(const option_line *line, const wvgd_request *request)
{
    json_t *value = NULL;
    failure f;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!strcmp(line->name, "threads"))
        return json_integer(cores < 1 ? 1 : cores < 4096 ? cores : 4096);
    if (!strcmp(line->name, "most-particles"))
        return json_integer(is_requested(request, "particles") ? 0 : MOST_PARTICLES);
    if (!strcmp(line->name, "particles")) /* words follow the number */
        return json_integer(strtol(line->initial, NULL, 10));
    type_option(line, line->initial, &value, &f);
    return value;
}

/* Whatever has a default is recorded, but for options of other models; and what was given, unless results do not depend
 * on it. */
static json_t *record_of_options(const wvgd_request *request)
{
    static const char *const not_recorded[] = {"out",         "resume",       "overwrite",
                                               "config",      "quiet",        "check-gradient",
                                               "trust-model", "rank-timeout", NULL};
    json_t *options = json_object();
    const char *model = requested(request, "model");
    option_line line;
    for (size_t i = 0; request->option(i, &line); i++) {
        json_t *value = json_object_get(request->options, line.name);
        bool skip = !value && (!line.initial || (is_model_option(&line) && !has_model_option(model, line.name)));
        for (size_t k = 0; not_recorded[k]; k++)
            skip = skip || !strcmp(line.name, not_recorded[k]);
        if (!skip)
            json_object_set_new(options, line.name, value ? json_incref(value) : default_value(&line, request));
    }
    return options;
}

/* ---- a new record ------------------------------------------------------------------------------------------------ */
int check_request(const wvgd_request *request, failure *f)
{
    const char *name = requested(request, "model"), *who = request->who ? request->who : "request";
    if (!name)
        return fail(f, EX_USAGE,
                    "%s: MODEL is missing: expected a name that wvgd models lists, such as %s; or a shared object", who,
                    requested(request, "formula") ? "glm" : "logistic, linear or glm");
    if (is_from_file(request, "model") && names_object(name) && !is_requested(request, "trust-model"))
        return fail(f, EX_TEMPFAIL,
                    "%s names the model %s, which is code that would run with your permissions: name the model on the "
                    "command line, or give --trust-model",
                    request->file, name);
    if (!request->object && names_stan_program(name))
        return fail(f, EX_USAGE, "%s is a Stan program: use wvgd stan %s, with the same options", name, name);
    int code = check_path(request, "data", f);
    if (!code)
        code = check_path(request, "init", f);
    return code;
}

int check_out(const wvgd_request *request, failure *f)
{
    const char *out = requested(request, "out");
    if (!out && request->who)
        return fail(f, EX_USAGE, "%s: --out DIR is missing: name a directory for the results", request->who);
    return out ? check_run_directory(out, is_requested(request, "overwrite"), f) : 0;
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
    const char *model = requested(request, "model");
    size_t n = model ? 3 : 2, most = 3 + 2 * json_object_size(request->options);
    const char **word = calloc(most, sizeof *word), *name;
    char(*own)[104] = calloc(most, sizeof *own), *text = NULL;
    json_t *value;
    if (word && own) {
        word[0] = "wvgd";
        word[1] = !model ? "quantize" : request->option == fit_option ? "fit" : "svgd";
        word[2] = model;
        json_object_foreach(request->options, name, value)
            if (strcmp(name, "model")) {
                snprintf(own[n], sizeof *own, "--%s", name);
                word[n] = own[n];
                n++;
                if (!json_is_true(value)) {
                    word[n] = option_text_of(value, own[n]);
                    n++;
                }
            }
        text = quoted_words(n, word);
    }
    free(word);
    free(own);
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
static json_t *reopen_of(const wvgd_request *request)
{
    const char *name = requested(request, "model"), *init = requested(request, "init");
    json_t *reopen = json_object();
    json_object_set_new(reopen, "model",
                        request->object      ? absolute_path(request->object)
                        : names_object(name) ? absolute_path(name)
                                             : json_text(name));
    if (request->object)
        json_object_set_new(reopen, "program", absolute_path(name));
    json_object_set_new(reopen, "data", absolute_path(requested(request, "data")));
    json_object_set(reopen, "text", json_object_get(request->options, "config"));
    if (is_start_file("init", init))
        json_object_set_new(reopen, "start", json_true());
    if (request->own)
        json_object_set_new(reopen, "own", json_true());
    return reopen;
}

int new_record(const wvgd_request *request, json_t **asked, failure *f)
{
    int code = check_request(request, f);
    if (code)
        return code;
    *asked = json_object();
    int failed = json_object_set_new(*asked, "version", json_string(WVGD_VERSION)) |
                 json_object_set_new(*asked, "command", command_of(request)) |
                 json_object_set_new(*asked, "model",
                                     json_pack("{so}", "name", json_text(requested(request, "model")))) |
                 json_object_set_new(*asked, "options", record_of_options(request)) |
                 json_object_set_new(*asked, "reopen", reopen_of(request));
    return failed ? fail(f, EX_SOFTWARE, "no memory for the record of the run") : 0;
}

/* Commands that name the model of a run as they name that of a new one. */
static bool resumes(const char *command)
{
    return !strcmp(command, "fit") || !strcmp(command, "stan");
}

int trust_of(const wvgd_request *request, model_trust *trust, failure *f)
{
    const char *model = request ? requested(request, "model") : NULL;
    *trust = (model_trust){request && is_requested(request, "trust-model"),
                           request && request->object ? request->object : model,
                           !request || !request->who ? "set the option model"
                           : resumes(request->who)   ? "name it again after --resume DIR"
                                                     : "give --model MODEL.so"};
    if (model && !request->object && names_stan_program(model))
        return fail(f, EX_USAGE, "%s is a Stan program: wvgd stan-compile %s prints the path of the model", model,
                    model);
    return 0;
}

/* ---- a record that changes --------------------------------------------------------------------------------------- */
static bool is_aside(const char *name)
{
    return !strcmp(name, "quiet") || !strcmp(name, "rank-timeout") || !strcmp(name, "trust-model") ||
           !strcmp(name, "model") || !strcmp(name, "data");
}

/* The same data in another place: whether they are the same, their hash will tell. */
static int move_data(json_t *asked, const char *path, failure *f)
{
    json_t *reopen = json_object_get(asked, "reopen"), *data = json_object_get(asked, "data");
    if (!json_is_string(json_object_get(reopen, "data")))
        return fail(f, EX_USAGE, "fit: the run was begun without --data: it cannot have any now");
    return json_object_set_new(reopen, "data", absolute_path(path)) ||
                   (data && json_object_set(data, "file", json_object_get(reopen, "data")))
               ? fail(f, EX_SOFTWARE, "no memory for the record of the run")
               : 0;
}

int change_record(json_t *asked, const wvgd_request *changes, failure *f)
{
    const char *name;
    json_t *value, *options = json_object_get(asked, "options");
    json_object_foreach(changes->options, name, value)
        if (!strcmp(name, "out") || !strcmp(name, "overwrite"))
            return fail(f, EX_USAGE,
                        "fit: give either --resume or --%s, not both: a resumed run stays in its directory", name);
        else if (!is_aside(name) && !may_change(name))
            return fail(f, EX_USAGE,
                        "fit: --%s cannot change with --resume: only --max-iter, --max-evaluations, --max-seconds, "
                        "--threads, --checkpoint-every and --output-draws can, and --data if the file has moved",
                        name);
    json_object_foreach(changes->options, name, value)
        if (may_change(name) && json_object_set(options, name, value))
            return fail(f, EX_SOFTWARE, "no memory for the record of the run");
    return requested(changes, "data") ? move_data(asked, requested(changes, "data"), f) : 0;
}

static const char *const of_cells[] = {"particles", "cost", "power", "family"};

const char *describe_cell_option(size_t i)
{
    return i < sizeof of_cells / sizeof *of_cells ? of_cells[i] : NULL;
}

int change_cells(json_t *asked, const wvgd_request *changes, failure *f)
{
    json_t *options = json_object_get(asked, "options"), *reopen = json_object_get(asked, "reopen");
    int failed = json_object_set_new(asked, "command", command_of(changes));
    for (size_t i = 0; describe_cell_option(i); i++)
        if (is_requested(changes, of_cells[i]))
            failed |= json_object_set(options, of_cells[i], json_object_get(changes->options, of_cells[i]));
    failed |= json_object_set_new(options, "most-particles", json_integer(0)) | /* as many as are asked for, */
              json_object_set_new(options, "repeat", json_integer(1));          /* of one fit */
    json_object_del(reopen, "start");                                           /* new particles start nowhere, */
    json_object_del(asked, "history");                                          /* and have come from nowhere */
    return failed ? fail(f, EX_SOFTWARE, "no memory for the record of the run") : 0;
}
