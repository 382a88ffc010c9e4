/* json_file.c - JSON through Jansson. */
#include "json_file.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* Jansson says "X expected near Y" or "what is wrong near Y". */
static int refuse_syntax(const char *path, const json_error_t *error, failure *f)
{
    static const char suffix[] = " expected";
    char text[JSON_ERROR_TEXT_LENGTH];
    snprintf(text, sizeof text, "%s", error->text);
    char *near = strstr(text, " near ");
    if (near)
        *near = '\0';
    const char *found = near ? near + strlen(" near ") : "no JSON";
    size_t length = strlen(text), tail = sizeof suffix - 1;
    if (length > tail && strcmp(text + length - tail, suffix) == 0) {
        text[length - tail] = '\0';
        return fail(f, EX_DATAERR, "%s:%d:%d: invalid JSON: found %s, expected %s", path, error->line, error->column,
                    found, text);
    }
    return fail(f, EX_DATAERR, "%s:%d:%d: invalid JSON: %s at %s", path, error->line, error->column, text, found);
}

int load_json(const char *path, size_t flags, json_t **root, failure *f)
{
    char *text;
    size_t size;
    *root = NULL;
    if (read_text(path, &text, &size, f))
        return f->code;
    int code = parse_json(path, text, size, flags, root, f);
    free(text);
    return code;
}

int parse_json(const char *path, const char *text, size_t size, size_t flags, json_t **root, failure *f)
{
    json_error_t error;
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, &error);
    if (!*root)
        return json_error_code(&error) == json_error_out_of_memory
                   ? fail(f, EX_SOFTWARE, "%s: not enough memory for a file of this size", path)
                   : refuse_syntax(path, &error, f);
    if (!json_is_object(*root)) {
        refuse_json(path, "top level", *root, "an object {...}", f);
        json_decref(*root);
        *root = NULL;
        return f->code;
    }
    return 0;
}

static void describe(const json_t *value, char *out, size_t size)
{
    char shown[QUOTED];
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING: snprintf(out, size, "the string %s", quote(json_string_value(value), shown)); break;
    case JSON_ARRAY: snprintf(out, size, "an array of %zu", json_array_size(value)); break;
    case JSON_OBJECT: snprintf(out, size, "an object"); break;
    case JSON_INTEGER:
    case JSON_REAL: snprintf(out, size, "%.17g", json_number_value(value)); break;
    case JSON_TRUE: snprintf(out, size, "true"); break;
    case JSON_FALSE: snprintf(out, size, "false"); break;
    case JSON_NULL: snprintf(out, size, value ? "null" : "nothing"); break;
    }
}

int refuse_json(const char *path, const char *where, const json_t *found, const char *expected, failure *f)
{
    char shown[2 * QUOTED];
    describe(found, shown, sizeof shown);
    return fail(f, EX_DATAERR, "%s: %s: found %s, expected %s", path, where, shown, expected);
}

int check_keys(const char *path, json_t *object, const char *const *keys, failure *f)
{
    const char *key;
    json_t *value;
    char shown[QUOTED];
    json_object_foreach(object, key, value) {
        const char *const *known = keys;
        while (*known && strcmp(*known, key) != 0)
            known++;
        if (*known)
            continue;
        const char *nearest = find_nearest(key, keys);
        quote(key, shown);
        return fail(f, EX_DATAERR,
                    nearest ? "%s: unknown key %s: did you mean \"%s\"?"
                            : "%s: unknown key %s: expected keys like \"%s\"",
                    path, shown, nearest ? nearest : keys[0]);
    }
    return 0;
}
