/* start_file.h - particles of --init FILE.csv: after a line of names, which do not matter, a row for each particle
 * and in it a number for each coordinate, in the order of the model. */
#ifndef WV_START_FILE_H
#define WV_START_FILE_H
#include "failure.h"
#include <stdbool.h>
#include <stddef.h>

/* For the help of --init. */
#define START_FILE_HELP                                                                                                \
    "FILE.csv: a line of names, then a row for each particle with a number for each coordinate, in the order of the "  \
    "model; --particles follows from it"

/* start[*particles][D], to be freed. fixed: the file must have *particles rows; else they become as many as it has,
 * and if that is another number a line on stderr says so, unless it is to be quiet. */
int read_start(const char *path, size_t D, bool fixed, bool quiet, size_t *particles, double **start, failure *f);
#endif
