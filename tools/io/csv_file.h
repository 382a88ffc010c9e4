/* csv_file.h - a CSV file with a header, read whole (through libcsv). Fields are separated by commas, semicolons
 * or tabs, and may be quoted; blanks around unquoted fields and empty lines do not count; lines end in LF, CRLF or CR.
 * Every row has as many fields as the header has names; names are not empty and differ. */
#ifndef WV_CSV_FILE_H
#define WV_CSV_FILE_H
#include "failure.h"
#include "row_shares.h"
#include <stddef.h>

typedef struct {
    const char *path;
    size_t rows, columns; /* at least 1 each; with shares only all of them together have a row */
    size_t all_rows;      /* of all shares */
    row_shares *shares;   /* NULL: these are all rows */
    const char **name;    /* [columns] */
    char *text;           /* all fields one after the other, each with a NUL, the header first */
    size_t *start;        /* [rows] where in text the row begins */
    size_t *line;         /* [rows] where in the file it begins */
} csv_file;

/* 0, or an exit code with *f filled and *csv empty. path must outlive *csv. delimiter 0: the one of , ; tab that the
 * header has most of. */
int open_csv(const char *path, char delimiter, csv_file *csv, failure *f);

/* The same, with the rows of a share only. Failures are the same in all processes. */
int open_csv_share(const char *path, char delimiter, row_shares *shares, csv_file *csv, failure *f);
void close_csv(csv_file *csv); /* accepts an all-zero struct */

/* Keeps the names of the columns only: rows becomes 0, and memory is given back. The names may have moved. */
void forget_rows(csv_file *csv);

/* The first field of a row, and the one after a field. */
const char *first_field(const csv_file *csv, size_t row);
const char *next_field(const char *field);

/* The field of a row in a column: walks over those before it. */
const char *find_field(const csv_file *csv, size_t row, size_t column);

/* The column of that name, or csv->columns. */
size_t find_column(const csv_file *csv, const char *name);

/* Says that a field is not what it should be. Returns EX_DATAERR. */
int refuse_field(const csv_file *csv, size_t row, size_t column, const char *field, const char *expected, failure *f);

/* The number in a field. */
int read_field(const csv_file *csv, size_t row, size_t column, const char *field, double *value, failure *f);
#endif
