/* json_file.h - JSON files read whole (through Jansson), and messages about the values in them. */
#ifndef WV_JSON_FILE_H
#define WV_JSON_FILE_H
#include "failure.h"
#include <jansson.h>

/* Reads an object. Keys that occur twice, values that are no finite numbers and nesting deeper than Jansson's limit
 * (2048) are syntax errors. flags: more of Jansson's, e.g. JSON_DECODE_INT_AS_REAL, or 0. Returns 0 and *root
 * (json_decref it), or an exit code with *f filled: "file:line:column: found X, expected Y". */
int load_json(const char *path, size_t flags, json_t **root, failure *f);

/* The same from text that was read from the file. */
int parse_json(const char *path, const char *text, size_t size, size_t flags, json_t **root, failure *f);

/* Says that the value at `where` ("means[2][1]") is not what it should be; found NULL: there is
 * none. Returns EX_DATAERR. */
int refuse_json(const char *path, const char *where, const json_t *found, const char *expected, failure *f);

/* Refuses an object with a key that is not in the NULL-terminated list, naming the nearest one that is. */
int check_keys(const char *path, json_t *object, const char *const *keys, failure *f);
#endif
