/* run_record.c - the record of what was asked. Options travel as text, which the table of their owner
 * checks; JSON types are for readers. */
#include "run_record.h"
#include "config_file.h"
#include "run_directory.h"
#include "run_json.h"
#include "start_file.h"
#include "text.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const char library_group[] = "Options of the fit:", program_group[] = "Options of the run:",
                  model_group[] = "Options of models:";

/* ---- the table --------------------------------------------------------------------------------------------------- */
static const option_line program_options[] = {
    {"data", 0, "FILE", NULL, NULL, "data of the model: CSV or JSON, see wvgd models", program_group},
    {"out", 'o', "DIR", NULL, NULL, "directory for the results; made if it is not there", program_group},
    {"resume", 0, "DIR", NULL, NULL, "go on with the run in DIR from its last checkpoint", program_group},
    {"overwrite", 0, NULL, NULL, NULL, "replace a run that is in the --out directory", program_group},
    {"config", 0, "FILE", NULL, NULL,
     "file with options: a JSON object whose keys are long names (and model), or the run.json of another run; the "
     "command line wins. With a shared object as MODEL, what is no file that can be read is configuration text for it",
     program_group},
    {"output-draws", 0, "K", "1..1000000", "1000", "posterior draws in draws.csv", program_group},
    {"checkpoint-every", 0, "SECONDS", "0..1e9", "30", "seconds between checkpoints", program_group},
    {"check-gradient", 0, NULL, NULL, NULL,
     "before the fit, compare the model's gradient with differences at 20 points (beyond 100 dimensions fewer) like "
     "those that fits start from",
     program_group},
    {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP "; with --config, that of the file", program_group},
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

/* The choices that a command line has: starts may also come from a file, and the cost that is a function of
 * the caller's is here one of the model's. */
static const char *choices(const wvgd_option_info *info)
{
    static char text[2][120];
    bool init = !strcmp(info->name, "init"), cost = !strcmp(info->name, "cost");
    const char *own = cost ? strstr(info->values, "callback") : NULL;
    if (!init && !cost)
        return info->values;
    snprintf(text[cost], sizeof text[cost], "%.*s%s", own ? (int)(own - info->values) : (int)strlen(info->values),
             info->values, own ? "functional" : "|FILE.csv");
    return text[cost];
}

/* What such a file holds. */
static const char *start_help(const wvgd_option_info *info)
{
    static char text[500];
    if (strcmp(info->name, "init"))
        return info->help;
    snprintf(text, sizeof text, "%s; " START_FILE_HELP, info->help);
    return text;
}

/* A cost is spelled otherwise here than in the library: functional is the callback. Other names are the same. */
static const char *translate(const char *name, const char *value, const char *from, const char *to)
{
    return !strcmp(name, "cost") && !strcmp(value, from) ? to : value;
}

/* Sets an option of the library from the text that users write. */
static int set_option(wvgd_options *o, const wvgd_option_info *info, const char *value, failure *f)
{
    bool hidden = !strcmp(info->name, "cost") && !strcmp(value, "callback");
    if (!hidden &&
        wvgd_options_set(o, info->name, translate(info->name, value, "functional", "callback"), NULL) == WVGD_OK)
        return 0;
    return fail(f, EX_USAGE, "option %s is '%.60s': expected %s", info->name, value, choices(info));
}

/* A library starts no threads unasked; the program does, and shares the model's work among them, too. */
static bool is_threads(const wvgd_option_info *info)
{
    return !strcmp(info->name, "threads");
}

/* Choices are what follows the option; numbers have a range, whole ones are called N. */
static option_line library_line(const wvgd_option_info *info)
{
    bool choice = strstr(info->values, "..") == NULL, real = strchr(info->values, 'e') || strchr(info->initial, '.');
    const char *initial = is_threads(info) ? "all cores" : info->initial;
    return (option_line){info->name,
                         0,
                         choice ? choices(info) : real ? "X" : "N",
                         choice ? NULL : info->values,
                         initial,
                         start_help(info),
                         library_group};
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

bool find_option(const char *name, option_line *line)
{
    for (size_t i = 0; fit_option(i, line); i++)
        if (!strcmp(line->name, name))
            return true;
    return false;
}

bool is_model_option(const option_line *line)
{
    return line->group == model_group;
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */
/* A number, or text if it is none, or one whose digits would be lost. */
static json_t *number_from_text(const char *text)
{
    double value;
    char *end;
    if (read_plain_number(text, &value))
        return json_text(text);
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (!*end && !errno)
        return json_integer(whole);
    return *end ? json_real(value) : json_text(text); /* beyond 2^63 there are no integers of Jansson's */
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

const char *option_text_of(const json_t *v, char buffer[40])
{
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_integer(v))
        snprintf(buffer, 40, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v)) /* as few digits as give the number back, which is what somebody has written */
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(buffer, 40, "%.*g", digits, json_real_value(v));
            if (strtod(buffer, NULL) == json_real_value(v))
                break;
        }
    else if (json_is_true(v))
        buffer[0] = 0;
    else
        return NULL;
    return buffer;
}

/* ---- --config ---------------------------------------------------------------------------------------------------- */
static bool is_shared_object(const char *model)
{
    size_t n = model ? strlen(model) : 0;
    return n && (strchr(model, '/') || (n > 3 && !strcmp(model + n - 3, ".so")));
}

static bool is_stan_program(const char *model)
{
    size_t n = strlen(model);
    return n > 5 && !strcmp(model + n - 5, ".stan");
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

/* A file that --config names and that is not there: which directory was meant? */
static int check_path(const arguments *a, const char *config, const json_t *texts, const char *name, failure *f)
{
    const char *path = text_at(texts, name);
    char *here = NULL;
    if (given(a, name) || !path || *path == '/' || (strcmp(name, "data") && !is_start_file(name, path)) ||
        !access(path, F_OK))
        return 0;
    fail(f, EX_NOINPUT, "%s: option %s is '%s', which is not there: paths begin in the working directory, %s", config,
         name, path, (here = getcwd(NULL, 0)) ? here : "which is gone");
    free(here);
    return f->code;
}

/* All options that were given, as text: those of --config, then those of the command line. `text`:
 * configuration of a shared object. */
static int collect(const arguments *a, json_t *texts, failure *f)
{
    const char *config = given(a, "config"), *model = a->words ? a->word[0] : NULL;
    bool is_text = config && (a->object || is_shared_object(model)) && access(config, R_OK);
    int code = config && !is_text ? read_config(config, texts, f) : 0;
    if (!code)
        code = check_path(a, config, texts, "data", f);
    if (!code)
        code = check_path(a, config, texts, "init", f);
    for (size_t i = 0; i < a->options; i++)
        if (a->value[i] && strcmp(a->name[i], "config"))
            json_object_set_new(texts, a->name[i], json_text(a->value[i]));
    if (is_text)
        json_object_set_new(texts, "config", json_text(config));
    if (model)
        json_object_set_new(texts, "model", json_text(model));
    return code;
}

/* ---- a new record ------------------------------------------------------------------------------------------------ */
static json_t *command_line(const arguments *a)
{
    char *text = command_text(a);
    json_t *json = text ? json_text(text) : NULL;
    free(text);
    return json;
}

/* The library's options: defaults, changed by what was given; all of them are recorded. */
static int fill_library(json_t *options, json_t *reopen, const json_t *texts, failure *f)
{
    wvgd_options o;
    option_line line;
    wvgd_options_init(&o);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o.threads = cores < 1 ? 1 : cores < 4096 ? (size_t)cores : 4096;
    for (size_t i = 0; wvgd_options_describe(i); i++) {
        const wvgd_option_info *info = wvgd_options_describe(i);
        const char *value = text_at(texts, info->name);
        char text[64];
        bool start = is_start_file(info->name, value);
        if (start)
            json_object_set_new(reopen, "start", json_true());
        else if (value && set_option(&o, info, value, f))
            return f->code;
        wvgd_options_get(&o, info->name, text, sizeof text, NULL);
        line = library_line(info);
        json_object_set_new(options, info->name,
                            typed(&line, start ? value : translate(info->name, text, "callback", "functional")));
    }
    return 0;
}

/* The program's and the model's. */
static void fill_others(json_t *options, const json_t *texts)
{
    static const char *const not_recorded[] = {"out",   "resume",         "overwrite",   "config",
                                               "quiet", "check-gradient", "trust-model", NULL};
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
    if (text && (read_plain_number(text, &value) || value < low || value > high ||
                 (whole && value != (double)(long long)value)))
        return fail(f, EX_USAGE, "option %s is '%.60s': expected %s%g..%g", name, text, whole ? "a whole number " : "",
                    low, high);
    return 0;
}

static int check_numbers(const json_t *texts, failure *f)
{
    int code = check_number(texts, "output-draws", 1, 1e6, true, f);
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
    json_t *texts = json_object(), *record = json_object(), *options = json_object(), *reopen = json_object(),
           *model = json_object();
    int code = collect(a, texts, f);
    const char *name = text_at(texts, "model");
    if (!code && !name)
        code = fail(f, EX_USAGE, "%s: MODEL is missing: wvgd models lists what there is", a->command->name);
    if (!code && !a->words && is_shared_object(name) && !given(a, "trust-model"))
        code = fail(f, EX_TEMPFAIL,
                    "%s names the model %s, and that is code which would run with your rights: name the model on the "
                    "command line, or give --trust-model",
                    given(a, "config"), name);
    if (!code && !a->object && is_stan_program(name))
        code = fail(f, EX_USAGE, "%s is a Stan program: wvgd stan %s compiles and fits it, with the same options", name,
                    name);
    if (!code && !text_at(texts, "out"))
        code = fail(f, EX_USAGE, "%s: --out DIR is missing: where should the results go?", a->command->name);
    if (!code)
        code = check_numbers(texts, f);
    if (!code)
        code = fill_library(options, reopen, texts, f);
    if (!code) {
        fill_others(options, texts);
        set_default(options, "output-draws", 1000);
        set_default(options, "checkpoint-every", 30);
        json_object_set_new(record, "version", json_string(WVGD_VERSION));
        json_object_set_new(record, "command", command_line(a));
        json_object_set_new(model, "name", json_text(name));
        json_object_set_new(reopen, "model",
                            a->object                ? absolute(a->object)
                            : is_shared_object(name) ? absolute(name)
                                                     : json_text(name));
        if (a->object)
            json_object_set_new(reopen, "program", absolute(name));
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

/* ---- reading it -------------------------------------------------------------------------------------------------- */
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
    failure wrong;
    wvgd_options_init(options);
    for (size_t i = 0; wvgd_options_describe(i); i++) {
        const wvgd_option_info *info = wvgd_options_describe(i);
        char buffer[40];
        const char *text = option_text_of(json_object_get(have, info->name), buffer);
        if (!text)
            return fail(f, EX_TEMPFAIL, "the record of the run has no option %s", info->name);
        if (!is_start_file(info->name, text) && set_option(options, info, text, &wrong))
            return fail(f, EX_TEMPFAIL, "the record of the run is wrong: %s", wrong.text);
    }
    return 0;
}

int take_cost(wvgd_options *options, const opened_model *model, failure *f)
{
    if (options->cost != WVGD_CALLBACK)
        return 0;
    if (!model->cost)
        return fail(f, EX_USAGE, "cost functional needs a model with predictions: bnn");
    options->cost_batch = model->cost;
    options->cost_self = model->cost_self;
    return 0;
}

bool needs_model(const json_t *asked)
{
    const char *cost = json_string_value(json_object_get(json_object_get(asked, "options"), "cost"));
    return record_reopen_flag(asked, "constrained") || (cost && !strcmp(cost, "functional"));
}

/* When a run goes on. */
static bool may_change(const char *name)
{
    static const char *const list[] = {"max-iter", "max-seconds", "threads", "checkpoint-every", "output-draws"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i]))
            return true;
    return false;
}

int given_trust(const arguments *a, model_trust *trust, failure *f)
{
    const char *word = a->command->word && !strcmp(a->command->word, "DIR") ? given(a, "model")
                       : a->words                                           ? a->word[0]
                                                                            : NULL;
    *trust = (model_trust){given(a, "trust-model") != NULL, a->object ? a->object : word};
    if (word && !a->object && is_stan_program(word))
        return fail(f, EX_USAGE, "%s is a Stan program: wvgd stan-compile %s prints the path of the model", word, word);
    return 0;
}

int change_record(json_t *asked, const arguments *a, failure *f)
{
    json_t *texts = json_object();
    int code = 0;
    for (size_t i = 0; i < a->options && !code; i++) {
        bool aside = !strcmp(a->name[i], "quiet") || !strcmp(a->name[i], "resume") ||
                     !strcmp(a->name[i], "trust-model");
        if (a->value[i] && !aside && !may_change(a->name[i]))
            code = fail(f, EX_USAGE,
                        "fit: --%s cannot change when a run goes on: with --resume only limits, threads and output can",
                        a->name[i]);
        else if (a->value[i])
            json_object_set_new(texts, a->name[i], json_text(a->value[i]));
    }
    if (!code)
        code = check_numbers(texts, f);
    for (size_t i = 0; wvgd_options_describe(i) && !code; i++) {
        const wvgd_option_info *info = wvgd_options_describe(i);
        wvgd_options o;
        wvgd_options_init(&o);
        if (given(a, info->name))
            code = set_option(&o, info, given(a, info->name), f);
    }
    for (size_t i = 0; i < a->options && !code; i++)
        if (a->value[i] && may_change(a->name[i]))
            record_set(asked, a->name[i], a->value[i]);
    json_decref(texts);
    return code;
}

/* ---- opening the model ------------------------------------------------------------------------------------------- */
/* A pipe can be read once only: by the model. */
static bool is_pipe(const char *path)
{
    struct stat s;
    return !stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

/* Notes the hash of a file that the model has been made from. */
static int note_file(json_t *reopen, const char *path, const char *key, failure *f)
{
    uint64_t hash;
    char text[32];
    if (!path || is_pipe(path))
        return 0;
    int code = hash_file(path, &hash, f);
    if (!code) {
        snprintf(text, sizeof text, "%016" PRIx64, hash);
        json_object_set_new(reopen, key, json_string(text));
    }
    return code;
}

/* Compares the hash of a file with the one noted. The record may come from anybody: what is no plain file of the size
 * that data may have, or has no full path, is not opened. */
static int check_file(const json_t *reopen, const char *path, const char *key, failure *f)
{
    uint64_t hash;
    char text[32];
    struct stat s;
    const char *was = json_string_value(json_object_get(reopen, key));
    if (!path)
        return 0;
    if (*path != '/')
        return fail(f, EX_TEMPFAIL, "the run names the file %s: expected a full path", path);
    if (!stat(path, &s) && !S_ISREG(s.st_mode))
        return fail(f, EX_TEMPFAIL, "%s is not a plain file: expected data that can be read again", path);
    if (!was)
        return fail(f, EX_TEMPFAIL, "the run does not say what was in %s: nothing is read from it", path);
    int code = hash_file(path, &hash, f);
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    if (!code && strcmp(was, text))
        code = fail(f, EX_TEMPFAIL, "%s has changed since the run began: it needs the same data", path);
    return code;
}

int note_data(json_t *asked, const char *path, failure *f)
{
    json_t *reopen = json_object();
    json_object_set_new(reopen, "data", absolute(path));
    int failed = json_object_set_new(asked, "reopen", reopen);
    return failed ? fail(f, EX_SOFTWARE, "no memory for the record of the run")
                  : note_file(reopen, path, "data_hash", f);
}

int check_data(const json_t *asked, failure *f)
{
    return check_file(json_object_get(asked, "reopen"), record_reopen(asked, "data"), "data_hash", f);
}

/* A Stan program's object is in the cache of compiled programs, which anybody may clean. */
static int check_compiled(const json_t *reopen, const char *program, const char *object, failure *f)
{
    failure changed;
    if (!access(object, F_OK))
        return 0;
    if (check_file(reopen, program, "program_hash", &changed) == EX_TEMPFAIL)
        return fail(f, EX_TEMPFAIL,
                    "%s has changed since the run began, and what was compiled from it then, %s, is gone: the cache "
                    "was cleaned",
                    program, object);
    return fail(
        f, EX_NOINPUT,
        "the compiled form of %s is gone, the cache was cleaned: there is no %s; wvgd stan-compile %s makes it again",
        program, object, program);
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
        if (v)
            t->value[i] = option_text_of(v, t->buffer[i]);
    }
    return t->value && t->buffer;
}

/* Opens the model of that name with what the record says else. */
static int open_with_record(const json_t *asked, const char *name, const char *data, opened_model *model, failure *f)
{
    option_texts texts = {0};
    int code;
    if (model_texts(asked, &texts)) {
        char seed[40];
        const char *text = option_text_of(json_object_get(json_object_get(asked, "options"), "seed"), seed);
        size_t threads = record_count(asked, "threads", 1);
        model_request request = {name,
                                 data,
                                 record_reopen(asked, "text"),
                                 texts.value,
                                 threads < 4096 ? (unsigned)threads : 4096,
                                 text ? strtoull(text, NULL, 10) : 1,
                                 record_reopen(asked, "program")};
        code = open_model(&request, model, f);
    } else
        code = fail(f, EX_SOFTWARE, "no memory for the options of the model");
    free(texts.value);
    free(texts.buffer);
    return code;
}

/* Files are hashed once the model has read them: what it refuses at the first line need not be read to its end. */
int open_new(json_t *asked, opened_model *model, failure *f)
{
    json_t *reopen = json_object_get(asked, "reopen");
    const json_t *as_given = json_object_get(reopen, "given"); /* as users have written it, for messages */
    const char *program = record_reopen(asked, "program"),
               *name = program ? record_reopen(asked, "model") : text_at(as_given, "model"),
               *data = text_at(as_given, "data");
    int code = open_with_record(asked, name, data, model, f);
    if (code)
        return code;
    code = note_file(reopen, program, "program_hash", f);
    if (!code)
        code = note_file(reopen, data, "data_hash", f);
    if (!code && is_shared_object(name))
        code = note_file(reopen, name, "model_hash", f);
    if (code)
        close_model(model);
    return code;
}

/* ---- opening a model again --------------------------------------------------------------------------------------- */
/* The object that the record names, if it is where a run of this user's would have it: at a full path without links,
 * and not among the files of the run. */
static int check_recorded_object(const char *name, const char *dir, failure *f)
{
    char *real = realpath(name, NULL), *inside = realpath(dir, NULL);
    size_t length = inside ? strlen(inside) : 0;
    int code = 0;
    if (*name != '/')
        code = fail(f, EX_TEMPFAIL, "the run in %s names its model %s: expected a full path; name the model yourself",
                    dir, name);
    else if (!real)
        code = fail(f, EX_NOINPUT, "cannot open %s, the model of the run in %s: %s", name, dir, strerror(errno));
    else if (strcmp(real, name))
        code = fail(f, EX_TEMPFAIL, "%s, the model of the run in %s, is %s now: name the model yourself", name, dir,
                    real);
    else if (length && !strncmp(real, inside, length) && real[length] == '/')
        code = fail(f, EX_TEMPFAIL, "the model of the run in %s lies in that directory itself: name the model yourself",
                    dir);
    free(real);
    free(inside);
    return code;
}

/* A model is code. It is loaded if the user names it, or trusts the name that the run directory has. */
static int choose_object(json_t *reopen, const char *dir, const model_trust *trust, failure *f)
{
    const char *name = text_at(reopen, "model"), *program = text_at(reopen, "program");
    if (trust->named) {
        json_object_set_new(reopen, "model", absolute(trust->named));
        return 0;
    }
    if (!trust->recorded)
        return fail(f, EX_TEMPFAIL,
                    "the run in %s needs its model, and that is code which would run with your rights: name the model "
                    "again, or load %s with --trust-model",
                    dir, program ? program : name);
    int code = *name == '/' && program ? check_compiled(reopen, program, name, f) : 0;
    return code ? code : check_recorded_object(name, dir, f);
}

int open_again(json_t *asked, const char *dir, const model_trust *trust, opened_model *model, failure *f)
{
    json_t *reopen = json_object_get(asked, "reopen");
    const char *name = record_reopen(asked, "model"), *data = record_reopen(asked, "data");
    if (!name)
        return fail(f, EX_TEMPFAIL, "the record of the run does not name a model");
    bool object = is_shared_object(name);
    if (!object && trust->named && strcmp(trust->named, name))
        return fail(f, EX_USAGE, "the model of the run in %s is %s, not '%s'", dir, name, trust->named);
    int code = object ? choose_object(reopen, dir, trust, f) : 0;
    name = record_reopen(asked, "model");
    if (!code)
        code = check_file(reopen, data, "data_hash", f);
    if (!code && object)
        code = check_file(reopen, name, "model_hash", f);
    return code ? code : open_with_record(asked, name, data, model, f);
}

static json_t *names_json(size_t n, const char *const *names)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_text(names[i]));
    return list;
}

static json_t *numbers_json(size_t n, const double *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_number(x[i]));
    return list;
}

/* Which column was explained, which of two labels is 1, and what the features were standardised by. */
static int add_facts(json_t *model, const regression_facts *facts)
{
    int failed = json_object_set_new(model, "target", json_text(facts->target));
    if (facts->label[0])
        failed |= json_object_set_new(model, "labels", names_json(2, facts->label));
    if (!facts->mean)
        return failed;
    json_t *s = json_object();
    failed |= json_object_set_new(s, "columns", names_json(facts->columns, facts->names)) |
              json_object_set_new(s, "mean", numbers_json(facts->columns, facts->mean)) |
              json_object_set_new(s, "sd", numbers_json(facts->columns, facts->sd));
    return failed | json_object_set_new(model, "standardized", s);
}

int describe_opened(json_t *m, const opened_model *model)
{
    int failed = json_object_set_new(m, "kind", json_text(model->kind)) |
                 json_object_set_new(m, "dim", json_integer((json_int_t)model->model.dim)) |
                 json_object_set_new(m, "names", names_json(model->model.dim, model->model.names));
    return model->facts ? failed | add_facts(m, model->facts) : failed;
}

/* A hash of all that the numbers of a run depend on: whatever cannot change when it goes on. */
static json_t *identity(const json_t *asked)
{
    static const char *const files[] = {"data_hash", "model_hash", "program_hash", "text"};
    const json_t *reopen = json_object_get(asked, "reopen");
    json_t *options = json_copy(json_object_get(asked, "options")), *all = json_object(), *value;
    const char *key;
    void *next;
    char text[32];
    json_object_foreach_safe(options, next, key, value)
        if (may_change(key))
            json_object_del(options, key);
    json_object_set_new(all, "options", options);
    json_object_set(all, "model", json_object_get(asked, "model"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (json_object_get(reopen, files[i]))
            json_object_set(all, files[i], json_object_get(reopen, files[i]));
    char *dump = dump_json(all, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    snprintf(text, sizeof text, "%016" PRIx64, dump ? hash_text(dump) : 0);
    json_t *id = dump ? json_string(text) : NULL;
    free(dump);
    json_decref(all);
    return id;
}

bool same_run(const json_t *asked, const char *dir)
{
    failure f;
    json_t *run = NULL;
    if (read_run(dir, &run, &f)) /* none yet, or one that cannot be read: nothing to contradict */
        return true;
    const char *id = json_string_value(json_object_get(asked, "id")),
               *other = json_string_value(json_object_get(run, "id"));
    bool same = id && other ? !strcmp(id, other) : id == other;
    json_decref(run);
    return same;
}

int complete_record(json_t *asked, const opened_model *model, failure *f)
{
    json_t *m = json_object_get(asked, "model"), *reopen = json_object_get(asked, "reopen");
    int failed = describe_opened(m, model) |
                 json_object_set_new(reopen, "gradient", json_boolean(model->model.has_gradient)) |
                 json_object_set_new(reopen, "constrained", json_boolean(model->show != NULL));
    failed |= json_object_set_new(asked, "id", identity(asked));
    return failed ? fail(f, EX_SOFTWARE, "no memory for the names of the parameters") : 0;
}
