/* run_record.c - the record of what was asked. Options travel as text, which the table of their owner checks; JSON types are for readers. */
#include "run_record.h"
#include "run_directory.h"
#include "run_json.h"
#include "text.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const char library_group[] = "Options of the fit:", program_group[] = "Options of the run:", model_group[] = "Options of models:";

/* ---- the table ----------------------------------------------------------------------------------------------------------------------- */
static const option_line program_options[] = {
    {"data", 0, "FILE", NULL, NULL, "data of the model: CSV or JSON, see wvgd models", program_group},
    {"out", 'o', "DIR", NULL, NULL, "directory for the results; made if it is not there", program_group},
    {"resume", 0, "DIR", NULL, NULL, "go on with the run in DIR from its last checkpoint", program_group},
    {"overwrite", 0, NULL, NULL, NULL, "replace a run that is in the --out directory", program_group},
    {"config", 0, "FILE", NULL, NULL,
     "options from a JSON object whose keys are long names (and model); the command line wins. For a shared object also: its configuration "
     "text",
     program_group},
    {"threads", 0, "N", "1..4096", "all cores", "threads that evaluate the model; results do not depend on it", program_group},
    {"output-draws", 0, "K", "1..1000000", "1000", "posterior draws in draws.csv", program_group},
    {"checkpoint-every", 0, "SECONDS", "0..1e9", "30", "seconds between checkpoints", program_group},
    {"check-gradient", 0, NULL, NULL, NULL, "compare the model's gradient with differences before the fit", program_group},
    {"quiet", 'q', NULL, NULL, NULL, "no progress on stderr", program_group},
};
enum { PROGRAM_OPTIONS = sizeof program_options / sizeof *program_options };

static size_t library_options(void)
{
    size_t n = 0;
    while (wvgd_options_describe(n))
        n++;
    return n;
}

/* The choices that a command line has: particles may also come from a file, but costs not from a function of the caller's. */
static const char *choices(const wvgd_option_info *info)
{
    static char costs[100];
    if (!strcmp(info->name, "init"))
        return "explore|normal|FILE.csv";
    if (strcmp(info->name, "cost"))
        return info->values;
    const char *last = strstr(info->values, "|callback");
    snprintf(costs, sizeof costs, "%.*s", last ? (int)(last - info->values) : (int)strlen(info->values), info->values);
    return costs;
}

/* Choices are what follows the option; numbers have a range. */
static option_line library_line(const wvgd_option_info *info)
{
    bool choice = strstr(info->values, "..") == NULL;
    return (option_line){info->name, 0, choice ? choices(info) : "N", choice ? NULL : info->values, info->initial, info->help, library_group};
}

bool fit_option(size_t i, option_line *line)
{
    size_t library = library_options();
    if (i < PROGRAM_OPTIONS) {
        *line = program_options[i];
        return true;
    }
    i -= PROGRAM_OPTIONS;
    if (i < library) {
        *line = library_line(wvgd_options_describe(i));
        return true;
    }
    const model_option *o = describe_model_option((unsigned)(i - library));
    if (!o)
        return false;
    *line = (option_line){o->name, 0, o->argument, o->models, o->initial, o->help, model_group};
    return true;
}

static bool is_library_option(const char *name)
{
    for (size_t i = 0; wvgd_options_describe(i); i++)
        if (!strcmp(wvgd_options_describe(i)->name, name))
            return true;
    return false;
}

/* ---- text and JSON ------------------------------------------------------------------------------------------------------------------- */
static json_t *number_from_text(const char *text)
{
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (*text && !*end && !errno)
        return json_integer(whole);
    double value;
    bool seed = strspn(text, "0123456789") == strlen(text); /* beyond 2^63: no integer of Jansson's, and as a real it would lose digits */
    return seed || read_number(text, &value) ? json_text(text) : json_real(value);
}

static bool is_number(const char *text)
{
    double value;
    return text && !read_number(text, &value);
}

/* The value of an option as JSON: numbers where the option has a range or a number as default. */
static json_t *typed(const option_line *line, const char *text)
{
    if (!line->argument)
        return json_true();
    bool number = line->group == model_group ? is_number(line->initial) : line->range != NULL;
    return number ? number_from_text(text) : json_text(text);
}

/* The text of a JSON value, in buffer unless it is a string; NULL: it is no value of an option. A flag that is false, or null: *absent. */
static const char *text_of(const json_t *v, char buffer[40], bool *absent)
{
    *absent = json_is_false(v) || json_is_null(v);
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_integer(v))
        snprintf(buffer, 40, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        snprintf(buffer, 40, "%.17g", json_real_value(v));
    else if (json_is_true(v) || *absent)
        buffer[0] = 0;
    else
        return NULL;
    return buffer;
}

/* ---- --config ------------------------------------------------------------------------------------------------------------------------ */
static bool is_shared_object(const char *model)
{
    size_t n = model ? strlen(model) : 0;
    return n && (strchr(model, '/') || (n > 3 && !strcmp(model + n - 3, ".so")));
}

/* "max_iter" is max-iter. */
static void with_hyphens(const char *key, char *name, size_t size)
{
    snprintf(name, size, "%s", key);
    for (; *name; name++)
        if (*name == '_')
            *name = '-';
}

static const option_line *find_option(const char *name, option_line *line)
{
    for (size_t i = 0; fit_option(i, line); i++)
        if (!strcmp(line->name, name))
            return line;
    return NULL;
}

static int unknown_key(const char *path, const char *key, failure *f)
{
    const char *names[200] = {"model"};
    option_line line;
    for (size_t i = 0; i < 198 && fit_option(i, &line); i++)
        names[i + 1] = line.name;
    const char *near = find_nearest(key, names);
    return fail(f, EX_DATAERR, "%s: there is no option '%.60s'%s%s%s", path, key, near ? ": did you mean " : "",
                near ? near : ": wvgd options lists them", near ? "?" : "");
}

/* texts: long name -> text, for everything the file sets. */
static int read_config(const char *path, json_t *texts, failure *f)
{
    char *bytes = NULL;
    size_t size = 0;
    int code = read_text(path, &bytes, &size, f);
    if (code)
        return code;
    json_error_t error;
    json_t *config = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error), *value;
    free(bytes);
    if (!config)
        return fail(f, EX_DATAERR, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    if (!json_is_object(config))
        code = fail(f, EX_DATAERR, "%s: expected an object of options", path);
    const char *key;
    json_object_foreach(config, key, value)
    {
        char name[100], buffer[40];
        bool absent;
        option_line line;
        with_hyphens(key, name, sizeof name);
        bool is_model = !strcmp(name, "model");
        const char *text = text_of(value, buffer, &absent);
        if (!is_model && !find_option(name, &line))
            code = unknown_key(path, key, f);
        else if (!text)
            code = fail(f, EX_DATAERR, "%s: option %s: expected a text, a number, true or false", path, name);
        else if (!is_model && !line.argument && !json_is_boolean(value) && !absent)
            code = fail(f, EX_DATAERR, "%s: option %s is a flag: expected true or false", path, name);
        else if (!absent)
            json_object_set_new(texts, name, json_text(text));
        if (code)
            break;
    }
    json_decref(config);
    return code;
}

/* All options that were given, as text: those of --config, then those of the command line. `text`: configuration of a shared object. */
static int collect(const arguments *a, json_t *texts, failure *f)
{
    const char *config = given(a, "config"), *model = a->words ? a->word[0] : NULL;
    bool is_text = config && is_shared_object(model) && access(config, R_OK);
    int code = config && !is_text ? read_config(config, texts, f) : 0;
    for (size_t i = 0; i < a->options; i++)
        if (a->value[i] && strcmp(a->name[i], "config"))
            json_object_set_new(texts, a->name[i], json_text(a->value[i]));
    if (is_text)
        json_object_set_new(texts, "config", json_text(config));
    if (model)
        json_object_set_new(texts, "model", json_text(model));
    return code;
}

/* ---- a new record -------------------------------------------------------------------------------------------------------------------- */
/* The command line, quoted for a shell. */
static json_t *command_line(const arguments *a)
{
    char *text = NULL;
    size_t size = 0;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    fprintf(s, "wvgd %s", a->command->name);
    for (int i = 1; i < a->argc; i++) {
        const char *w = a->argv[i];
        bool plain = *w && strspn(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") == strlen(w);
        fputs(plain ? " " : " '", s);
        for (; *w; w++)
            if (*w == '\'')
                fputs("'\\''", s);
            else
                putc(*w, s);
        if (!plain)
            putc('\'', s);
    }
    json_t *json = fclose(s) ? NULL : json_text(text);
    free(text);
    return json;
}

static const char *text_at(const json_t *texts, const char *name)
{
    return json_string_value(json_object_get(texts, name));
}

static bool is_start_file(const char *name, const char *value)
{
    size_t n = value ? strlen(value) : 0;
    return !strcmp(name, "init") && n > 4 && !strcmp(value + n - 4, ".csv");
}

/* The library's options: defaults, changed by what was given; all of them are recorded. */
static int fill_library(json_t *options, json_t *reopen, const json_t *texts, failure *f)
{
    wvgd_options o;
    wvgd_error error;
    option_line line;
    wvgd_options_init(&o);
    for (size_t i = 0; wvgd_options_describe(i); i++) {
        const wvgd_option_info *info = wvgd_options_describe(i);
        const char *value = text_at(texts, info->name);
        char text[64];
        bool start = is_start_file(info->name, value);
        if (start)
            json_object_set_new(reopen, "start", json_true());
        else if (value && wvgd_options_set(&o, info->name, value, &error) != WVGD_OK)
            return fail(f, EX_USAGE, "%s", error.text);
        wvgd_options_get(&o, info->name, text, sizeof text, NULL);
        line = library_line(info);
        json_object_set_new(options, info->name, typed(&line, start ? value : text));
    }
    return 0;
}

/* The program's and the model's. */
static void fill_others(json_t *options, const json_t *texts)
{
    static const char *const not_recorded[] = {"out", "resume", "overwrite", "config", "quiet", "check-gradient", NULL};
    option_line line;
    for (size_t i = 0; fit_option(i, &line); i++) {
        const char *value = text_at(texts, line.name);
        bool skip = !value || line.group == library_group;
        for (size_t k = 0; not_recorded[k]; k++)
            skip = skip || !strcmp(line.name, not_recorded[k]);
        if (!skip)
            json_object_set_new(options, line.name, typed(&line, value));
    }
}

static int check_number(const json_t *texts, const char *name, double low, double high, bool whole, failure *f)
{
    const char *text = text_at(texts, name);
    double value;
    if (text && (read_number(text, &value) || value < low || value > high || (whole && value != (double)(long long)value)))
        return fail(f, EX_USAGE, "option %s is '%.60s': expected %s%g..%g", name, text, whole ? "a whole number " : "", low, high);
    return 0;
}

static int check_numbers(const json_t *texts, failure *f)
{
    int code = check_number(texts, "threads", 1, 4096, true, f);
    if (!code)
        code = check_number(texts, "output-draws", 1, 1e6, true, f);
    return code ? code : check_number(texts, "checkpoint-every", 0, 1e9, false, f);
}

/* An absolute path where the file is there; else as it is: opening it will tell. */
static json_t *absolute(const char *path)
{
    char *real = path ? realpath(path, NULL) : NULL;
    json_t *json = path ? json_text(real ? real : path) : json_null();
    free(real);
    return json;
}

static void set_default(json_t *options, const char *name, size_t value)
{
    if (!json_object_get(options, name))
        json_object_set_new(options, name, json_integer((json_int_t)value));
}

int new_record(const arguments *a, json_t **asked, failure *f)
{
    json_t *texts = json_object(), *record = json_object(), *options = json_object(), *reopen = json_object(), *model = json_object();
    int code = collect(a, texts, f);
    const char *name = text_at(texts, "model");
    if (!code && !name)
        code = fail(f, EX_USAGE, "fit: MODEL is missing: wvgd models lists what there is");
    if (!code && !text_at(texts, "out"))
        code = fail(f, EX_USAGE, "fit: --out DIR is missing: where should the results go?");
    if (!code)
        code = check_numbers(texts, f);
    if (!code)
        code = fill_library(options, reopen, texts, f);
    if (!code) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        fill_others(options, texts);
        set_default(options, "threads", cores > 0 ? (size_t)cores : 1);
        set_default(options, "output-draws", 1000);
        set_default(options, "checkpoint-every", 30);
        json_object_set_new(record, "version", json_string(WVGD_VERSION));
        json_object_set_new(record, "command", command_line(a));
        json_object_set_new(model, "name", json_text(name));
        json_object_set_new(reopen, "model", is_shared_object(name) ? absolute(name) : json_text(name));
        json_object_set_new(reopen, "data", absolute(text_at(texts, "data")));
        json_object_set(reopen, "text", json_object_get(texts, "config"));
        json_object_set(reopen, "out", json_object_get(texts, "out"));
        json_object_set(reopen, "given", texts);
    }
    json_object_set_new(record, "model", model);
    json_object_set_new(record, "options", options);
    json_object_set_new(record, "reopen", reopen);
    json_decref(texts);
    *asked = record;
    return code;
}

/* ---- reading it ---------------------------------------------------------------------------------------------------------------------- */
const char *record_reopen(const json_t *asked, const char *key)
{
    return json_string_value(json_object_get(json_object_get(asked, "reopen"), key));
}

bool record_reopen_flag(const json_t *asked, const char *key)
{
    return json_is_true(json_object_get(json_object_get(asked, "reopen"), key));
}

bool record_given(const json_t *asked, const char *name)
{
    return json_object_get(json_object_get(json_object_get(asked, "reopen"), "given"), name) != NULL;
}

double record_number(const json_t *asked, const char *name, double otherwise)
{
    const json_t *v = json_object_get(json_object_get(asked, "options"), name);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

size_t record_count(const json_t *asked, const char *name, size_t otherwise)
{
    double value = record_number(asked, name, (double)otherwise);
    return value >= 1 && value <= 1e6 ? (size_t)value : otherwise;
}

void record_set(json_t *asked, const char *name, const char *value)
{
    option_line line;
    if (find_option(name, &line))
        json_object_set_new(json_object_get(asked, "options"), name, typed(&line, value));
}

int record_options(const json_t *asked, wvgd_options *options, failure *f)
{
    const json_t *have = json_object_get(asked, "options");
    wvgd_error error;
    wvgd_options_init(options);
    for (size_t i = 0; wvgd_options_describe(i); i++) {
        const char *name = wvgd_options_describe(i)->name;
        char buffer[40];
        bool absent;
        const char *text = text_of(json_object_get(have, name), buffer, &absent);
        if (!text)
            return fail(f, EX_TEMPFAIL, "the record of the run has no option %s", name);
        if (!is_start_file(name, text) && wvgd_options_set(options, name, text, &error) != WVGD_OK)
            return fail(f, EX_TEMPFAIL, "the record of the run is wrong: %s", error.text);
    }
    return 0;
}

int change_record(json_t *asked, const arguments *a, failure *f)
{
    static const char *const allowed[] = {"max-iter", "max-seconds", "threads", "checkpoint-every", "output-draws", "quiet", "resume", NULL};
    json_t *texts = json_object();
    int code = 0;
    if (a->words)
        code = fail(f, EX_USAGE, "fit: --resume takes the model from the run, but '%s' is given too", a->word[0]);
    for (size_t i = 0; i < a->options && !code; i++) {
        bool fine = !a->value[i];
        for (size_t k = 0; allowed[k]; k++)
            fine = fine || !strcmp(a->name[i], allowed[k]);
        if (!fine)
            code = fail(f, EX_USAGE, "fit: --%s cannot change when a run goes on: with --resume only limits, threads and output can", a->name[i]);
        else if (a->value[i])
            json_object_set_new(texts, a->name[i], json_text(a->value[i]));
    }
    if (!code)
        code = check_numbers(texts, f);
    for (size_t i = 0; i < a->options && !code; i++) {
        wvgd_options o;
        wvgd_error error;
        wvgd_options_init(&o);
        if (!a->value[i])
            continue;
        if (is_library_option(a->name[i]) && wvgd_options_set(&o, a->name[i], a->value[i], &error) != WVGD_OK)
            code = fail(f, EX_USAGE, "%s", error.text);
        else if (strcmp(a->name[i], "quiet") && strcmp(a->name[i], "resume"))
            record_set(asked, a->name[i], a->value[i]);
    }
    json_decref(texts);
    return code;
}

/* ---- opening the model --------------------------------------------------------------------------------------------------------------- */
/* A pipe can be read once only: by the model. */
static bool is_pipe(const char *path)
{
    struct stat s;
    return !stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

/* Notes the hash of a file, or compares it with the one noted. */
static int check_file(json_t *reopen, const char *path, const char *key, bool fresh, failure *f)
{
    uint64_t hash;
    char text[32];
    if (!path || (fresh && is_pipe(path)))
        return 0;
    int code = hash_file(path, &hash, f);
    if (code)
        return code;
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    const char *was = json_string_value(json_object_get(reopen, key));
    if (fresh)
        json_object_set_new(reopen, key, json_string(text));
    else if (!was || strcmp(was, text))
        return fail(f, EX_TEMPFAIL, "%s has changed since the run began: it cannot go on with other data", path);
    return 0;
}

/* Texts of the model's options as given, in the order of their table; the numbers among them in buffers. */
typedef struct {
    const char **value;
    char (*buffer)[40];
} option_texts;

static bool model_texts(const json_t *asked, option_texts *t)
{
    const json_t *options = json_object_get(asked, "options");
    unsigned n = 0;
    while (describe_model_option(n))
        n++;
    t->value = calloc(n + 1, sizeof *t->value);
    t->buffer = calloc(n + 1, sizeof *t->buffer);
    for (unsigned i = 0; t->value && t->buffer && i < n; i++) {
        const json_t *v = json_object_get(options, describe_model_option(i)->name);
        bool absent;
        if (v)
            t->value[i] = text_of(v, t->buffer[i], &absent);
    }
    return t->value && t->buffer;
}

int open_recorded(json_t *asked, bool fresh, opened_model *model, failure *f)
{
    json_t *reopen = json_object_get(asked, "reopen");
    const char *name = record_reopen(asked, "model"), *data = record_reopen(asked, "data");
    option_texts texts = {0};
    if (!name)
        return fail(f, EX_TEMPFAIL, "the record of the run does not name a model");
    if (!model_texts(asked, &texts)) {
        free(texts.value);
        free(texts.buffer);
        return fail(f, EX_SOFTWARE, "no memory for the options of the model");
    }
    int code = check_file(reopen, data, "data_hash", fresh, f);
    if (!code && is_shared_object(name))
        code = check_file(reopen, name, "model_hash", fresh, f);
    if (!code) {
        char seed[40];
        bool absent;
        const char *text = text_of(json_object_get(json_object_get(asked, "options"), "seed"), seed, &absent);
        size_t threads = record_count(asked, "threads", 1);
        model_request request = {
            name, data, record_reopen(asked, "text"), texts.value, threads < 4096 ? (unsigned)threads : 4096, text ? strtoull(text, NULL, 10) : 1};
        code = open_model(&request, model, f);
    }
    free(texts.value);
    free(texts.buffer);
    return code;
}

static json_t *names_json(size_t n, const char *const *names)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_text(names[i]));
    return list;
}

int complete_record(json_t *asked, const opened_model *model, failure *f)
{
    json_t *m = json_object_get(asked, "model"), *reopen = json_object_get(asked, "reopen");
    int failed = json_object_set_new(m, "kind", json_text(model->kind)) | json_object_set_new(m, "dim", json_integer((json_int_t)model->model.dim)) |
                 json_object_set_new(m, "names", names_json(model->model.dim, model->model.names)) |
                 json_object_set_new(reopen, "gradient", json_boolean(model->model.has_gradient)) |
                 json_object_set_new(reopen, "constrained", json_boolean(model->show != NULL));
    return failed ? fail(f, EX_SOFTWARE, "no memory for the names of the parameters") : 0;
}
