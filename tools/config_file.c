/* config_file.c - {"particles": 7, "max_iter": 100, ...} as options of a request, checked as those of a command line.
 */
#include "config_file.h"
#include "fit_options.h"
#include "json_file.h"
#include "request.h"
#include "run_json.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* The text with integers of 19 digits and more in quotes: Jansson refuses those beyond 2^63, and
 * seeds may be that large. To be freed. */
static char *quote_long_integers(const char *text, size_t size)
{
    char *out = malloc(size + size / 9 + 3), *to = out;
    bool inside = false; /* of a string */
    for (const char *at = text; out && at < text + size;) {
        size_t number = inside ? 0 : strspn(at, "+-.0123456789eE"), digits = strspn(at + (*at == '-'), "0123456789");
        bool whole = number && digits >= 19 && number == digits + (*at == '-');
        size_t length = number ? number : inside && *at == '\\' && at[1] ? 2 : 1;
        if (!number && *at == '"')
            inside = !inside;
        if (whole)
            *to++ = '"';
        memcpy(to, at, length);
        to += length;
        at += length;
        if (whole)
            *to++ = '"';
    }
    if (out)
        *to = '\0';
    return out;
}

static int unknown_key(const char *path, const char *key, const wvgd_request *q, failure *f)
{
    char shown[QUOTED];
    const char *near = nearest_option(q, key);
    return fail(f, EX_DATAERR, "%s: unknown option %s%s%s%s", path, quote(key, shown), near ? ": did you mean " : "",
                near ? near : ": see wvgd options", near ? "?" : "");
}

/* What a value of this option may be; NULL if it is one. line NULL: the model. */
static const char *find_fault(const option_line *line, const json_t *value)
{
    if (json_is_null(value))
        return NULL;
    if (!line)
        return json_is_string(value) ? NULL : "a text";
    if (!line->argument)
        return json_is_boolean(value) ? NULL : "true or false";
    return json_is_string(value) || json_is_number(value) ? NULL : "a text or a number";
}

static int take_option(const char *path, const char *key, const json_t *value, wvgd_request *q, json_t *seen,
                       failure *f)
{
    char name[100], where[120], buffer[40];
    failure why;
    option_line line;
    write_hyphens(key, name, sizeof name);
    bool model = !strcmp(name, "model");
    if (!model && !find_row(q, name, &line))
        return unknown_key(path, key, q, f);
    if (!strcmp(name, "config") || !strcmp(name, "resume") || !strcmp(name, "trust-model"))
        return fail(f, EX_DATAERR, "%s: the option %s is allowed on the command line only", path, name);
    if (json_object_get(seen, name))
        return fail(f, EX_DATAERR, "%s: the option %s appears twice", path, name);
    json_object_set_new(seen, name, json_true());
    const char *expected = find_fault(model ? NULL : &line, value);
    snprintf(where, sizeof where, "option %s", name);
    if (expected)
        return refuse_json(path, where, value, expected, f);
    if (json_is_null(value) || json_is_false(value))
        return 0;
    if (request_put(q, name, option_text_of(value, buffer), &why))
        return fail(f, why.code == EX_USAGE ? EX_DATAERR : why.code, "%s: %s", path, why.text);
    return json_object_set_new(q->from_file, name, json_true())
               ? fail(f, EX_SOFTWARE, "no memory for the options of %s", path)
               : 0;
}

/* The model first: what is wrong with it is the first thing to know. */
static int take_options(const char *path, const json_t *options, const json_t *model, wvgd_request *q, failure *f)
{
    json_t *seen = json_object(), *value;
    const char *key;
    int code = model ? take_option(path, "model", model, q, seen, f) : 0;
    json_object_foreach((json_t *)(uintptr_t)options, key, value)
        if (!code && value != model)
            code = take_option(path, key, value, q, seen, f);
    json_decref(seen);
    return code;
}

int read_config(const char *path, wvgd_request *request, failure *f)
{
    char *bytes = NULL;
    size_t size = 0;
    json_t *config = NULL;
    int code = read_text(path, &bytes, &size, f);
    if (code)
        return code;
    char *quoted = quote_long_integers(bytes, size);
    free(bytes);
    code = quoted ? parse_json(path, quoted, strlen(quoted), 0, &config, f)
                  : fail(f, EX_SOFTWARE, "%s: not enough memory for a file of this size", path);
    free(quoted);
    if (!code && unescape_json(config))
        code = fail(f, EX_SOFTWARE, "%s: not enough memory for a file of this size", path);
    if (code) {
        json_decref(config);
        return code;
    }
    const json_t *options = json_object_get(config, "options"),
                 *name = json_object_get(json_object_get(config, "model"), "name");
    bool run = json_is_object(options) && json_is_string(name);
    code = take_options(path, run ? options : config, run ? name : json_object_get(config, "model"), request, f);
    json_decref(config);
    return code;
}
