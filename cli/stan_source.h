/* stan_source.h - a Stan program as one text: the file with what it #includes in place, and where
 * each line comes from. */
#ifndef WV_STAN_SOURCE_H
#define WV_STAN_SOURCE_H
#include "failure.h"
#include <stddef.h>

typedef struct {
    size_t file, line; /* index into file[]; counted from 1 */
} stan_origin;

typedef struct {
    char *text; /* NUL at the end; every line of it ends in a newline */
    size_t lines, files;
    stan_origin *origin; /* [lines] */
    char **file;         /* [files] paths; the first is the program */
} stan_source;

/* 0, or an exit code with *f filled. An included file is looked for beside the file that includes
 * it, then beside the program. */
int read_stan(const char *path, stan_source *source, failure *f);
void free_stan(stan_source *source);

/* Where a line of the text (counted from 1) comes from: the path, and *line set to the line there. */
const char *locate_stan(const stan_source *source, size_t *line);
#endif
