/* json_values.h - members of JSON objects. */
#ifndef WV_JSON_VALUES_H
#define WV_JSON_VALUES_H
#include <jansson.h>
#include <stddef.h>

double number_at(const json_t *object, const char *key);    /* NAN: there is no number */
size_t count_at(const json_t *object, const char *key);     /* 0: there is none */
const char *text_at(const json_t *object, const char *key); /* NULL: there is no text */
void set_count(json_t *object, const char *key, size_t count);
#endif
