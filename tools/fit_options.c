/* fit_options.c - the options of a fit: those of the library, of a run, of models; and their values as JSON. */
#include "fit_options.h"
#include "open_model.h"
#include "run_json.h"
#include "start_file.h"
#include "text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char library_group[] = "Fit options:", program_group[] = "Run options:", model_group[] = "Model options:";

/* ---- the table --------------------------------------------------------------------------------------------------- */
static const option_line program_options[] = {
    {"data", 0, "FILE", NULL, NULL, "data file, CSV or JSON: see wvgd models", program_group},
    {"out", 'o', "DIR", NULL, NULL, "directory for the results; created if missing", program_group},
    {"resume", 0, "DIR", NULL, NULL, "continue the run in DIR from its last checkpoint", program_group},
    {"overwrite", 0, NULL, NULL, NULL, "replace an existing run in the --out directory", program_group},
    {"config", 0, "FILE", NULL, NULL, CONFIG_HELP, program_group},
    {"output-draws", 0, "K", "1..1000000", "1000", "number of posterior draws in draws.csv", program_group},
    {"checkpoint-every", 0, "SECONDS", "0..1e9", "30", "seconds between checkpoints", program_group},
    {"repeat", 0, "R", "1..1000", "1",
     "independent fits, with this seed and the next ones: evidence and draws are pooled, and fits that disagree make "
     "the "
     "verdict unreliable. Limits hold for each fit",
     program_group},
    {"check-gradient", 0, NULL, NULL, NULL,
     "before the fit, compare the model's gradient with finite differences at up to 20 starting points", program_group},
    {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP ". With --config: the model named in that file",
     program_group},
    {"rank-timeout", 0, "S", "0..1e9", "0", "wvgd-mpi: end the run if a rank does not answer for S seconds; 0: wait",
     program_group},
    {"quiet", 'q', NULL, NULL, NULL, "show no progress and no hints on stderr; warnings remain", program_group},
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
    static _Thread_local char text[2][120];
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
    static _Thread_local char text[500];
    if (strcmp(info->name, "init"))
        return info->help;
    snprintf(text, sizeof text, "%s; " START_FILE_HELP, info->help);
    return text;
}

const char *translate_cost(const char *name, const char *value, const char *from, const char *to)
{
    return !strcmp(name, "cost") && !strcmp(value, from) ? to : value;
}

/* A library starts no threads unasked; the program does, and shares the model's work among them, too. */
static bool is_threads(const wvgd_option_info *info)
{
    return !strcmp(info->name, "threads");
}

static bool is_particles(const wvgd_option_info *info)
{
    return !strcmp(info->name, "particles");
}

/* The row of an option of the library. Choices are what follows the option; numbers have a range, whole ones are
 * called N. */
static option_line library_line(const wvgd_option_info *info)
{
    bool choice = strstr(info->values, "..") == NULL, real = strchr(info->values, 'e') || strchr(info->initial, '.');
    const char *initial = is_threads(info)          ? "all cores"
                          : is_most_particles(info) ? "80, or 0 with --particles"
                          : is_particles(info)      ? "5, raised to at most 80 if the ensemble needs it"
                                                    : info->initial;
    return (option_line){info->name,
                         0,
                         choice ? choices(info) : real ? "X" : "N",
                         choice ? NULL : info->values,
                         initial,
                         start_help(info),
                         library_group};
}

int set_fit_option(wvgd_options *o, const wvgd_option_info *info, const char *value, failure *f)
{
    bool hidden = !strcmp(info->name, "cost") && !strcmp(value, "callback");
    if (!hidden &&
        wvgd_options_set(o, info->name, translate_cost(info->name, value, "functional", "callback"), NULL) == WVGD_OK)
        return 0;
    option_line line = library_line(info);
    return refuse_value(&line, value, f);
}

bool is_most_particles(const wvgd_option_info *info)
{
    return !strcmp(info->name, "most-particles");
}

bool model_row(size_t i, option_line *line)
{
    const model_option *o = describe_model_option((unsigned)i);
    if (o)
        *line = (option_line){o->name, 0, o->argument, o->models, o->initial, o->help, model_group};
    return o != NULL;
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
    return model_row(i - library, line);
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
static json_t *number_json(double value)
{
    return value == floor(value) && fabs(value) < 1e17 ? json_integer((json_int_t)value) : json_real(value);
}

/* Numbers of models have no ranges here: the models check them. */
static json_t *model_value(const option_line *line, const char *text)
{
    double value;
    bool number = line->initial && !read_number(line->initial, &value) && !read_plain_number(text, &value);
    return number ? number_json(value) : json_text(text);
}

int type_option(const option_line *line, const char *text, json_t **value, failure *f)
{
    double number;
    uint64_t seed;
    size_t which;
    int code = 0;
    const char *bar = line->argument ? strchr(line->argument, '|') : NULL;
    bool word = line->range && bar && !strncmp(text, line->argument, strlen(text)) &&
                line->argument + strlen(text) == bar;
    if (!line->argument && *text && strcmp(text, "true"))
        code = fail(f, EX_USAGE, "--%s is '%.60s': expected true or false", line->name, text);
    else if (!line->argument)
        *value = json_true();
    else if (is_model_option(line))
        *value = model_value(line, text);
    else if (!strcmp(line->name, "seed")) {
        code = read_seed(line, text, &seed, f);
        *value = code || seed > INT64_MAX ? json_text(text) : json_integer((json_int_t)seed);
    } else if (line->range && !word) {
        code = read_value(line, text, &number, f);
        *value = code ? NULL : number_json(number);
    } else {
        if (bar && !line->range && !is_start_file(line->name, text))
            code = read_choice(line, text, &which, f);
        *value = json_text(text);
    }
    return code;
}

const char *option_text_of(const json_t *v, char buffer[40])
{
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_integer(v))
        snprintf(buffer, 40, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        short_number(json_real_value(v), buffer);
    else if (json_is_true(v))
        buffer[0] = 0;
    else
        return NULL;
    return buffer;
}

bool is_start_file(const char *name, const char *value)
{
    size_t n = value ? strlen(value) : 0;
    return !strcmp(name, "init") && n > 4 && !strcmp(value + n - 4, ".csv");
}
