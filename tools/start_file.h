/* start_file.h - particles of --init FILE.csv: after a line of names, which do not matter, a row for each particle
 * and in it a number for each coordinate, in the order of the model. */
#ifndef WV_START_FILE_H
#define WV_START_FILE_H
#include "failure.h"
#include <stdbool.h>
#include <stddef.h>

/* For the help of --init. */
#define START_FILE_HELP                                                                                                \
    "FILE.csv: a header, then one row per particle with one number per parameter, in the order of the "                \
    "model; its rows set --particles"

/* start[*particles][D], to be freed. names[D]: of the parameters. fixed: the file must have *particles rows; else they
 * become as many as it has. */
int read_start(const char *path, size_t D, const char *const *names, bool fixed, size_t *particles, double **start,
               failure *f);

/* For people, if the number of particles has changed from `before`: "FILE has 3 rows: ..."; else NULL. To be freed. */
char *start_note(const char *path, size_t before, size_t particles);
#endif
