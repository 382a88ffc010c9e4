/* run_record.c - reads the record of what was asked, and opens the model that it names. */
#include "run_record.h"
#include "fit_options.h"
#include "json_values.h"
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

json_t *absolute_path(const char *path)
{
    char *real = path ? realpath(path, NULL) : NULL;
    json_t *json = path ? json_text(real ? real : path) : json_null();
    free(real);
    return json;
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
        if (!is_start_file(info->name, text) && set_fit_option(options, info, text, &wrong))
            return fail(f, EX_TEMPFAIL, "the record of the run is damaged: %s", wrong.text);
    }
    const char *shown = record_reopen(asked, "seed");
    if (shown)
        options->seed = strtoull(shown, NULL, 10);
    return 0;
}

uint64_t record_seed(const json_t *asked)
{
    char buffer[40];
    const char *text = option_text_of(json_object_get(json_object_get(asked, "options"), "seed"), buffer);
    return text ? strtoull(text, NULL, 10) : 1;
}

void record_shown_seed(json_t *asked, uint64_t seed)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    if (seed != record_seed(asked))
        json_object_set_new(json_object_get(asked, "reopen"), "seed", json_string(text));
}

int take_cost(wvgd_options *options, const opened_model *model, failure *f)
{
    if (options->cost != WVGD_CALLBACK)
        return 0;
    if (!model->cost)
        return fail(f, EX_USAGE, "--cost functional needs a model with predictions, such as bnn");
    options->cost_batch = model->cost;
    options->cost_self = model->cost_self;
    return 0;
}

bool needs_model(const json_t *asked)
{
    const char *cost = json_string_value(json_object_get(json_object_get(asked, "options"), "cost"));
    return record_reopen_flag(asked, "constrained") || (cost && !strcmp(cost, "functional"));
}

bool may_change(const char *name)
{
    static const char *const list[] = {"max-iter", "max-evaluations",  "max-seconds",
                                       "threads",  "checkpoint-every", "output-draws"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i]))
            return true;
    return false;
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

/* Compares the hash of a file with the one noted. The record may come from anybody: a file that
 * is not a regular one, or has no full path, is not opened. */
static int check_file(const json_t *reopen, const char *path, const char *key, failure *f)
{
    uint64_t hash;
    char text[32];
    struct stat s;
    const char *was = json_string_value(json_object_get(reopen, key));
    if (!path)
        return 0;
    if (*path != '/')
        return fail(f, EX_TEMPFAIL, "the run names the file %s, expected a full path", path);
    if (!stat(path, &s) && !S_ISREG(s.st_mode))
        return fail(f, EX_TEMPFAIL, "%s is not a regular file, so its data cannot be read again", path);
    if (!was)
        return fail(f, EX_TEMPFAIL, "the run has no checksum of %s, so the file is not read", path);
    int code = hash_file(path, &hash, f);
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    if (!code && strcmp(was, text))
        code =
            fail(f, EX_TEMPFAIL,
                 "%s has changed since the run began, or is another file: expected the %s of the run; for another, fit "
                 "again",
                 path, strcmp(key, "data_hash") ? "model" : "data");
    return code;
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
                    "%s has changed since the run began, and the compiled model %s is no longer in the cache", program,
                    object);
    return fail(f, EX_NOINPUT,
                "the compiled model of %s is no longer in the cache (%s): wvgd stan-compile %s compiles it again",
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
                                 record_reopen(asked, "program"),
                                 model->wrapper,
                                 model->own};
        code = open_model(&request, model, f);
    } else
        code = fail(f, EX_SOFTWARE, "no memory for the options of the model");
    free(texts.value);
    free(texts.buffer);
    return code;
}

/* Files are hashed once the model has read them: what it refuses at the first line need not be read to its end. */
int open_new(json_t *asked, const char *name, const char *data, opened_model *model, failure *f)
{
    json_t *reopen = json_object_get(asked, "reopen");
    const char *program = record_reopen(asked, "program");
    int code = open_with_record(asked, name, data, model, f);
    if (code)
        return code;
    code = note_file(reopen, program, "program_hash", f);
    if (!code)
        code = note_file(reopen, data, "data_hash", f);
    if (!code && names_object(name))
        code = note_file(reopen, name, "model_hash", f);
    if (code)
        close_model(model);
    return code;
}

/* ---- opening a model again --------------------------------------------------------------------------------------- */
/* Accepts the object that the record names only at a full path without links, and outside of the run directory. */
static int check_recorded_object(const char *name, const char *dir, failure *f)
{
    char *real = realpath(name, NULL), *inside = realpath(dir, NULL);
    size_t length = inside ? strlen(inside) : 0;
    int code = 0;
    if (*name != '/')
        code = fail(f, EX_TEMPFAIL,
                    "the run in %s names its model as %s, expected a full path: name the model on the command line",
                    dir, name);
    else if (!real)
        code = fail(f, EX_NOINPUT, "cannot open %s, the model of the run in %s: %s", name, dir, strerror(errno));
    else if (strcmp(real, name))
        code = fail(f, EX_TEMPFAIL, "%s, the model of the run in %s, is now %s: name the model on the command line",
                    name, dir, real);
    else if (length && !strncmp(real, inside, length) && real[length] == '/')
        code = fail(f, EX_TEMPFAIL,
                    "the model of the run in %s lies inside that directory: name the model on the command line", dir);
    free(real);
    free(inside);
    return code;
}

/* A model is code. It is loaded if the user names it, or trusts the name that the run directory has. */
static int choose_object(json_t *reopen, const char *dir, const model_trust *trust, failure *f)
{
    const char *name = text_at(reopen, "model"), *program = text_at(reopen, "program");
    if (trust->named) {
        json_object_set_new(reopen, "model", absolute_path(trust->named));
        return 0;
    }
    if (!trust->recorded)
        return fail(f, EX_TEMPFAIL,
                    "the run in %s needs its model, which is code that would run with your permissions: %s, or load %s "
                    "with --trust-model",
                    dir, trust->how, program ? program : name);
    int code = *name == '/' && program ? check_compiled(reopen, program, name, f) : 0;
    return code ? code : check_recorded_object(name, dir, f);
}

/* How the coordinates of the caller's model are shown; null: as they are. */
static json_t *curves_json(const opened_model *model)
{
    const wvgd_curve *c = model->own ? model->own->curve : NULL;
    json_t *list = c ? json_array() : json_null();
    for (size_t i = 0; c && i < model->model.dim; i++)
        json_array_append_new(list, json_pack("[iffff]", (int)c[i].kind, c[i].centre, c[i].scale, c[i].low, c[i].high));
    return list;
}

/* The same in all that the record knows of it: the function itself is the caller's affair. */
static int check_own(const json_t *asked, const char *dir, const opened_model *model, failure *f)
{
    json_t *m = json_object(), *curves = curves_json(model);
    const json_t *was = json_object_get(asked, "model"), *reopen = json_object_get(asked, "reopen");
    const char *differs = NULL;
    static const struct {
        const char *key, *called;
    } parts[] = {{"dim", "number of dimensions"}, {"names", "names"}, {"prior", "prior"}};
    int failed = describe_opened(m, model);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !differs; i++) {
        const json_t *a = json_object_get(was, parts[i].key), *b = json_object_get(m, parts[i].key);
        if (a != b && !json_equal(a, b))
            differs = parts[i].called;
    }
    if (!differs && !json_equal(json_object_get(reopen, "curves"), curves))
        differs = "prior, or other curves";
    if (!differs && json_is_true(json_object_get(reopen, "gradient")) && !model->model.has_gradient)
        differs = "density, which had gradients,";
    json_decref(m);
    json_decref(curves);
    return failed    ? fail(f, EX_SOFTWARE, "no memory for the record of the run")
           : differs ? fail(f, EX_TEMPFAIL, "the run in %s was started with another %s: expected the same density", dir,
                            differs)
                     : 0;
}

static int reopen_own(json_t *asked, const char *dir, opened_model *model, failure *f)
{
    const char *name = record_reopen(asked, "model");
    if (!model->own)
        return fail(f, EX_TEMPFAIL,
                    "the run in %s fits a density of another program, which must continue it: in Python, "
                    "wvgd.fit(log_density, ..., out=\"%s\", resume=True); in C, wvgd_request_own and wvgd_resume",
                    dir, dir);
    if (!record_reopen_flag(asked, "own"))
        return fail(f, EX_TEMPFAIL, "the run in %s fits the model %s, not a density of your own", dir, name);
    int code = open_with_record(asked, name, NULL, model, f);
    if (!code)
        code = check_own(asked, dir, model, f);
    const json_t *work = json_object_get(json_object_get(asked, "reopen"), "work");
    if (!record_reopen_flag(asked, "gradient")) /* it goes on as it began */
        model->model.has_gradient = false;
    if (json_is_number(work)) /* likewise: it may have been assumed before it was known whether there are gradients */
        model->model.work = json_number_value(work);
    return code;
}

int open_again(json_t *asked, const char *dir, const model_trust *trust, opened_model *model, failure *f)
{
    json_t *reopen = json_object_get(asked, "reopen");
    const char *name = record_reopen(asked, "model"), *data = record_reopen(asked, "data");
    if (!name)
        return fail(f, EX_TEMPFAIL, "the record of the run does not name a model");
    if (model->own || record_reopen_flag(asked, "own"))
        return reopen_own(asked, dir, model, f);
    bool object = names_object(name);
    if (trust->named && (object ? !names_object(trust->named) : strcmp(trust->named, name) != 0))
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

/* Which column was explained by how many, which of two labels is 1, and what the features were standardized by. */
static int add_facts(json_t *model, const wvgd_table *facts)
{
    int failed = json_object_set_new(model, "target", json_text(facts->target)) |
                 json_object_set_new(model, "rows", json_integer((json_int_t)facts->rows)) |
                 json_object_set_new(model, "features", json_integer((json_int_t)facts->columns));
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
    if (*model->prior)
        failed |= json_object_set_new(m, "prior", json_text(model->prior));
    if (model->likelihood)
        failed |= json_object_set_new(m, "likelihood", json_text(model->likelihood));
    if (model->design)
        failed |= json_object_set(m, "design", model->design);
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

/* The bytes of the data file, if they can be read again. */
static int add_file_hash(json_t *data, const char *path, failure *f)
{
    char text[SHA256_TEXT];
    json_t *hash = json_null();
    if (path && !is_pipe(path)) {
        if (sha256_file(path, text, f))
            return f->code;
        hash = json_string(text);
    }
    return json_object_set_new(data, "sha256", hash) ? fail(f, EX_SOFTWARE, "no memory for the record of the run") : 0;
}

/* Levels of columns with labels, in the order of their numbers. */
static json_t *levels_json(const opened_model *model)
{
    json_t *levels = json_object();
    if (model->facts && model->facts->label[0])
        json_object_set_new(levels, model->facts->target, names_json(2, model->facts->label));
    for (size_t c = 0; model->columns && c < model->columns->csv.columns; c++) {
        const data_column *column = &model->columns->column[c];
        if (is_feature(column) && column->levels)
            json_object_set_new(levels, column->name, names_json(column->levels, column->level));
    }
    return levels;
}

/* Kinds of the columns that features are made of: what new data must be like. */
static json_t *kinds_json(const data_table *t)
{
    static const char *const kinds[] = {"numeric", "boolean", "categorical"};
    json_t *columns = json_object();
    for (size_t c = 0; c < t->csv.columns; c++)
        if (is_feature(&t->column[c]))
            json_object_set_new(columns, t->column[c].name, json_string(kinds[t->column[c].kind]));
    return columns;
}

/* Which rows of which file the model explains. */
static int add_data(json_t *asked, const opened_model *model, failure *f)
{
    const char *path = record_reopen(asked, "data");
    const response_facts *r = &model->response;
    if (!path)
        return 0;
    json_t *data = json_object();
    int failed = json_object_set_new(data, "file", json_text(path)), code = add_file_hash(data, path, f);
    if (r->name)
        failed |= json_object_set_new(data, "rows", json_integer((json_int_t)r->rows)) |
                  json_object_set_new(data, "dropped", json_integer((json_int_t)r->dropped)) |
                  json_object_set_new(data, "response", json_text(r->name)) |
                  json_object_set_new(data, "response_sha256", json_string(r->sha256)) |
                  json_object_set_new(data, "discrete", json_boolean(r->discrete)) |
                  json_object_set_new(data, "levels", levels_json(model));
    if (model->facts)
        failed |= json_object_set_new(data, "features", names_json(model->facts->columns, model->facts->names));
    if (model->columns)
        failed |= json_object_set_new(data, "columns", kinds_json(model->columns));
    failed |= json_object_set_new(asked, "data", data);
    return code ? code : failed ? fail(f, EX_SOFTWARE, "no memory for the record of the run") : 0;
}

int complete_record(json_t *asked, const opened_model *model, failure *f)
{
    json_t *m = json_object_get(asked, "model"), *reopen = json_object_get(asked, "reopen");
    int failed = describe_opened(m, model) |
                 json_object_set_new(reopen, "gradient", json_boolean(model->model.has_gradient)) |
                 json_object_set_new(reopen, "constrained", json_boolean(model->show != NULL));
    if (model->own)
        failed |= json_object_set_new(reopen, "curves", curves_json(model)) |
                  json_object_set_new(reopen, "work", json_real(model->model.work));
    if (model->priors)
        failed |= json_object_set(asked, "priors", model->priors);
    failed |= json_object_set_new(asked, "id", identity(asked));
    return failed ? fail(f, EX_SOFTWARE, "no memory for the names of the parameters") : add_data(asked, model, f);
}
