/* stan_cache.h - where compiled Stan programs are kept: $XDG_CACHE_HOME/wvgd/stan or ~/.cache/wvgd/stan. A
 * file there is named after all that it was made from, and appears whole or not at all; what is in the
 * making lies in a temporary directory. */
#ifndef WV_STAN_CACHE_H
#define WV_STAN_CACHE_H
#include "failure.h"
#include <stddef.h>
#include <stdint.h>

/* Text made with a format, to be freed; NULL without memory. */
__attribute__((format(printf, 1, 2))) char *make_text(const char *format, ...);

/* 128 bits that depend on all that was added. */
typedef struct {
    uint64_t one, two;
} content_key;
enum { KEY_TEXT = 33 };
content_key begin_key(void);
void add_to_key(content_key *key, const char *text); /* and the NUL, so that "ab", "c" is not "a", "bc" */
int add_file_to_key(content_key *key, const char *path, failure *f);
void show_key(const content_key *key, char text[KEY_TEXT]);

/* The directory, made if it is not there; free() it. Refused if others could write to it: what
 * lies there is loaded into the process. */
int open_cache(char **dir, failure *f);

/* Copies a file into the cache under this name. */
int keep_file(const char *from, const char *dir, const char *name, failure *f);
int keep_text(const char *text, const char *dir, const char *name, failure *f);

/* A new temporary directory, whose path has letters, digits and ._-/ only (make takes nothing else); free() it. */
int make_workplace(char **dir, failure *f);
void remove_workplace(const char *dir);
#endif
