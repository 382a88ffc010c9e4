/* json_bytes.c - escapes on the way out, bytes on the way in. */
#include "json_bytes.h"
#include "text.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "bytes:";
enum { MARK = sizeof mark - 1 };

json_t *json_text(const char *text)
{
    return json_string_nocheck(text);
}

static bool is_marked(const char *s)
{
    return !strncmp(s, mark, MARK);
}

static bool needs_escape(const char *s)
{
    return is_marked(s) || !is_utf8(s);
}

/* Any text in the form that files have; free() it. */
static char *escape(const char *s)
{
    char *out = malloc(3 * strlen(s) + sizeof mark), *to = out;
    if (!out)
        return NULL;
    to += sprintf(to, "%s", mark);
    while (*s) {
        size_t length = utf8_length(s);
        if (length && *s != '%')
            to = (char *)memcpy(to, s, length) + length;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*s);
        s += length ? length : 1;
    }
    *to = '\0';
    return out;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The way back. What is no escape stays as it is; free() it. */
static char *unescape(const char *s)
{
    char *out = malloc(strlen(s) + 1), *to = out;
    for (s += MARK; out && *s; s++) {
        int high = *s == '%' ? hex_digit(s[1]) : -1, low = high >= 0 ? hex_digit(s[2]) : -1;
        bool byte = low >= 0 && (high || low);
        *to++ = byte ? (char)(16 * high + low) : *s;
        s += byte ? 2 : 0;
    }
    if (out)
        *to = '\0';
    return out;
}

static bool any_string(const json_t *json, bool (*is)(const char *))
{
    const char *key;
    json_t *value, *all = (json_t *)(uintptr_t)json;
    size_t i;
    if (json_is_string(json))
        return is(json_string_value(json));
    json_object_foreach(all, key, value)
        if (any_string(value, is))
            return true;
    json_array_foreach(all, i, value)
        if (any_string(value, is))
            return true;
    return false;
}

/* Changes every string that is one of those; not 0: no memory. */
static int change_strings(json_t *json, bool (*is)(const char *), char *(*change)(const char *))
{
    const char *key;
    json_t *value;
    size_t i;
    int failed = 0;
    if (json_is_string(json) && is(json_string_value(json))) {
        char *text = change(json_string_value(json));
        failed = !text || json_string_set_nocheck(json, text);
        free(text);
    }
    json_object_foreach(json, key, value)
        failed |= change_strings(value, is, change);
    json_array_foreach(json, i, value)
        failed |= change_strings(value, is, change);
    return failed;
}

char *dump_json(const json_t *json, size_t flags)
{
    if (!any_string(json, needs_escape))
        return json_dumps(json, flags);
    json_t *copy = json_deep_copy(json);
    char *text = copy && !change_strings(copy, needs_escape, escape) ? json_dumps(copy, flags) : NULL;
    json_decref(copy);
    return text;
}

int unescape_json(json_t *json)
{
    return change_strings(json, is_marked, unescape);
}
