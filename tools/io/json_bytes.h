/* json_bytes.h - texts in JSON that need not be UTF-8: paths are bytes. In memory a JSON string holds the bytes
 * themselves; in a file one that is not UTF-8, or begins with "bytes:", is "bytes:" and the text with %XX for each byte
 * that belongs to no UTF-8 character, and %25 for '%'. Reading gives the same bytes back. */
#ifndef WV_JSON_BYTES_H
#define WV_JSON_BYTES_H
#include <jansson.h>
#include <stddef.h>

/* A string of any bytes; NULL without memory. */
json_t *json_text(const char *text);

/* As json_dumps, with escapes; free() it. NULL without memory. */
char *dump_json(const json_t *json, size_t flags);

/* Turns escapes in the strings of JSON that was read into bytes. Not 0: no memory. */
int unescape_json(json_t *json);
#endif
