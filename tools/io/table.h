/* table.h - columns of a CSV file with types, and which of its rows count.
 *     numeric      every value is a number
 *     boolean      true/false, yes/no, t/f, y/n in any case: 0 and 1
 *     categorical  anything else: levels in the order of their bytes, values are indices of levels
 * A column that looks like a date, or that has too many levels, cannot be used. Rows in which a column that is used has
 * no value are an error, or dropped. All problems of all columns come in one message, a line each. */
#ifndef WV_TABLE_H
#define WV_TABLE_H
#include "csv_file.h"
#include <stdbool.h>

typedef enum { COLUMN_NUMERIC, COLUMN_BOOLEAN, COLUMN_CATEGORICAL } column_kind;

typedef struct {
    const char *name;    /* pointing into the file */
    column_kind kind;    /* once it has been read */
    double *value;       /* [rows] of those that are kept; NULL: not read */
    size_t levels;       /* of a categorical column */
    const char **level;  /* [levels] in the order of their bytes, pointing into the file or, with shares, */
    char *level_text;    /* into this; NULL without */
    size_t missing;      /* rows of the file without a value, of all shares */
    size_t first;        /* row of the file with the first value that is no number; csv.rows: none here */
    size_t first_line;   /* where it stands in the file; 0: there is none in any share */
    bool mixed;          /* categorical, though some values are numbers */
    bool counter;        /* whole numbers that only seem to tell the rows apart */
    bool used, response; /* a response may have any number of levels, and be constant */
    bool factor;         /* factor() names it, so that it may have many levels */
    bool named;          /* by a formula or --features, not by `.` or as one of all others */
    bool refused;        /* cannot be used, whatever rows are dropped */
    bool untold;         /* which a message had no room for */
} data_column;

bool is_feature(const data_column *column);

typedef struct {
    csv_file csv;
    size_t rows;         /* that are kept, of this share */
    size_t all_rows;     /* that are kept, of all shares */
    size_t dropped;      /* rows with missing values, of all shares */
    size_t gaps;         /* the same, dropped or not */
    bool drops;          /* they are to be dropped */
    size_t *row;         /* [rows] of the file */
    data_column *column; /* [csv.columns] */
    char *response;      /* fields of the response one after the other, where the text of rows is gone; else NULL */
    size_t *response_at; /* [rows] where they begin in it */
    bool formula;        /* a formula says which columns are used */
    bool lean;           /* if all that is used is numbers, the text of rows of a share goes as it is read */
} data_table;

/* How a file is to be read. All may be NULL or 0. */
typedef struct {
    const char *target;    /* response column; NULL: the last one that is not ignored */
    const char *features;  /* names with commas between them; NULL: all others */
    const char *ignore;    /* likewise */
    const char *delimiter; /* NULL: detected from the header */
    const char *missing;   /* "drop": rows with missing values are left out */
    row_shares *shares;    /* read one of these only; NULL: all rows */
} table_options;

/* Opens the file: names only, nothing is used yet. Returns 0, or an exit code with *f filled and *t empty. path must
 * outlive *t. */
int open_table(const char *path, const table_options *options, data_table *t, failure *f);
void close_table(data_table *t); /* accepts an all-zero struct */

/* Sets flag[columns] for the columns that a list names, "a,b"; one name that has commas in it is a list too. */
int mark_columns(const csv_file *csv, const char *list, bool *flag, failure *f);

/* Which column may be meant by a name that the file lacks: "did you mean b?", or "expected a, b or c". Returns text. */
enum { SUGGESTED = 340 };
const char *suggest_columns(const csv_file *csv, const char *name, char text[SUGGESTED]);

/* Says that there is no column of that name, and which one may be meant. Returns EX_DATAERR. */
int refuse_column(const csv_file *csv, const char *name, failure *f);

/* Reads the columns that are marked as used: which rows count, then kinds, values and levels. */
int read_columns(data_table *t, const table_options *options, failure *f);

/* Row i of those that are kept, in the column of the response. */
const char *response_field(const data_table *t, size_t column, size_t i);

/* After the lines on problems of columns: which options help. */
void add_remedies(const data_table *t, failure *f);

/* 0 or 1 for true/false, yes/no, t/f, y/n in any case; -1: it is none of these. */
int read_boolean(const char *s);

/* Gives back what only reading needs. Levels and names stay. */
void forget_values(data_table *t);

/* Gives back the rows of the file, where it has shares: categories of others point into them. Levels and names stay,
 * and may have moved. */
void forget_table_rows(data_table *t);
#endif
