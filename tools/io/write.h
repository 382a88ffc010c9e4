/* write.h - one file that appears whole or not at all (file_set.h), and the spelling of numbers and names in CSV. */
#ifndef WV_WRITE_H
#define WV_WRITE_H
#include "failure.h"
#include "file_set.h"
#include <stdio.h>

typedef struct {
    FILE *stream; /* write here */
    char *path;   /* what the file will be called: as given, for messages, */
    char *target; /* and with links followed */
    file_set set; /* of this file alone */
} whole_file;

/* Opens. 0, or an exit code with *f filled: EX_CANTCREAT (EX_IOERR when the disk is full). */
int begin_file(whole_file *w, const char *path, failure *f);

/* Checks all that was written, gives the file its name and frees *w. 0, or EX_IOERR: then the old
 * file, if any, is untouched. */
int finish_file(whole_file *w, failure *f);

/* Removes what was written and frees *w. */
void abandon_file(whole_file *w);

/* A number that reads back to the same bits: 17 digits; NaN, Inf, -Inf (what R, NumPy and pandas all read). */
void put_number(FILE *stream, double value);

/* The first character of a text, or '_' if it must not be printed as it is. Returns its bytes. */
size_t put_safe(FILE *stream, const char *text);

/* A name as a CSV field: quoted if it has to be, control characters replaced by '_'. */
void put_name(FILE *stream, const char *name);
#endif
