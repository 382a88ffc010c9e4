/* json_values.c - members of JSON objects. */
#include "json_values.h"
#include <math.h>

double number_at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

size_t count_at(const json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    return n > 0 ? (size_t)n : 0;
}

const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

void set_count(json_t *object, const char *key, size_t count)
{
    json_object_set_new(object, key, json_integer((json_int_t)count));
}
