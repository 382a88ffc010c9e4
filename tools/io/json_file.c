/* json_file.c - JSON through Jansson. */
#include "json_file.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* Has Jansson stumbled over a bracket that follows a comma? position: behind the bracket. */
static char bracket_after_comma(const char *text, size_t size, const json_error_t *error)
{
    size_t at = error->position > 0 ? (size_t)error->position : 0;
    if (!at || at > size || !strchr("]}", text[at - 1]))
        return '\0';
    char bracket = text[--at];
    while (at && strchr(" \t\r\n", text[at - 1]))
        at--;
    return at && text[at - 1] == ',' ? bracket : '\0';
}

/* Jansson says "X expected near Y" or "what is wrong near Y". */
static int refuse_syntax(const char *path, const char *bytes, size_t size, const json_error_t *error, failure *f)
{
    char bracket = bracket_after_comma(bytes, size, error);
    if (bracket)
        return fail(f, EX_DATAERR, "%s:%d:%d: invalid JSON: found a comma before '%c': remove it", path, error->line,
                    error->column, bracket);
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

/* Not even the beginning of JSON: its first line tells what it is. */
static int refuse_other(const char *path, char *text, failure *f)
{
    char shown[QUOTED];
    text[strcspn(text, "\r\n")] = '\0';
    return fail(f, EX_DATAERR,
                "%s is not JSON: it begins with %s, expected an object {...} (wvgd models shows what each model takes)",
                path, quote(text, shown));
}

int load_json(const char *path, size_t flags, json_t **root, failure *f)
{
    char *text;
    size_t size;
    *root = NULL;
    if (read_text(path, &text, &size, f))
        return f->code;
    char *first = text + strspn(text, " \t\r\n");
    int code = *first && !strchr("{[", *first) ? refuse_other(path, first, f)
                                               : parse_json(path, text, size, flags, root, f);
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
                   : refuse_syntax(path, text, size, &error, f);
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
    case JSON_REAL: snprintf(out, size, "%s", short_number(json_number_value(value), shown)); break;
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

/* "a", "b" or "c". Returns text. */
static const char *list_keys(const char *const *keys, char *text, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; keys[i] && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s\"%s\"", !i ? "" : keys[i + 1] ? ", " : " or ", keys[i]);
    return text;
}

int check_keys(const char *path, json_t *object, const char *const *keys, failure *f)
{
    char list[400];
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
        return nearest ? fail(f, EX_DATAERR, "%s: unknown key %s: did you mean \"%s\"?", path, shown, nearest)
                       : fail(f, EX_DATAERR, "%s: unknown key %s: expected %s", path, shown,
                              list_keys(keys, list, sizeof list));
    }
    return 0;
}
