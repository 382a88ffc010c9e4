/* number_table.h - the tables of a run directory (trace.csv, history.csv, draws.csv), read whole:
 * lines that begin with '#' are comments, names may repeat, fields may be NaN, Inf or words. Every row
 * has as many fields as there are names. */
#ifndef WV_NUMBER_TABLE_H
#define WV_NUMBER_TABLE_H
#include "failure.h"
#include <stddef.h>

typedef struct {
    size_t rows, columns;
    size_t *field; /* [rows + 1][columns] where in text a field begins; the first row are the names */
    char *text;
} number_table;

/* 0, or an exit code with *f filled and *t empty. A table without rows is one. */
int read_table(const char *path, number_table *t, failure *f);
void free_number_table(number_table *t); /* accepts an all-zero struct */

const char *table_name(const number_table *t, size_t column);
const char *table_text(const number_table *t, size_t row, size_t column);
double table_number(const number_table *t, size_t row, size_t column); /* NAN: it is none */

/* The first column of that name, or t->columns. */
size_t table_column(const number_table *t, const char *name);
#endif
