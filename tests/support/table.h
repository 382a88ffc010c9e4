/* table.h - reads the text files of tests/data and data: lines of numbers between blanks or
 * commas, '#' begins a comment line. */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_LINE = 8192 };

/* Opens a file of the source tree; path is relative to it. NULL: not there. */
FILE *table_open(const char *path);

/* The next line that is not a comment. */
bool table_next(FILE *file, char line[TABLE_LINE]);

/* Reads n numbers from text into value[n]; returns what follows them, or NULL if there are fewer. */
const char *table_numbers(const char *text, size_t n, double *value);

/* The rest of the first line of tests/data/<name> that begins with key, in line. NULL: not there. */
const char *table_find(const char *name, const char *key, char line[TABLE_LINE]);

#endif
