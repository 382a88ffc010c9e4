/* design.h - design matrices: a formula and a table, coded as R's model.matrix does.
 *     fit      parse_formula -> open_table -> mark_formula_columns -> read_columns -> make_design -> fill_design
 *     predict  open_csv -> read_design_rows, with the design of the fit, or one read back from its run (load_design)
 * A design keeps what it took from the table of the fit: kinds and levels of columns, means and sds of scale(),
 * polynomials of poly(), the columns that `.` stands for. New rows are coded with these. */
#ifndef WV_DESIGN_MATRIX_H
#define WV_DESIGN_MATRIX_H
#include "formula.h"
#include "model_data.h" /* tables */
#include <jansson.h>

enum { DESIGN_COLUMNS = 10000 }; /* at most */

typedef struct design design;

/* ---- what a design is -------------------------------------------------------------------------------------------- */
typedef struct {
    size_t columns;           /* of X */
    const char *const *names; /* [columns] intercept, x, region[east], a:b, I(x^2), poly(x,2)[1] ... */
    bool intercept;           /* the first column is that of ones */
    size_t terms;             /* without the intercept, in R's order */
    const char *const *term;  /* [terms] their names: region, a:b, poly(x,2) */
    const size_t *term_of;    /* [columns] which term it belongs to; terms: the intercept */
    bool offset;              /* it has some */
    response_kind response;
    const char *response_name; /* y, log(y); of cbind(s,f) the first one */
    const char *other_name;    /* failures or trials; NULL: there are none */
    bool response_column;      /* y is a column, not an expression: response_name is its name */
    column_kind response_type; /* of that column */
    size_t levels;             /* of a categorical response */
    const char *const *level;  /* [levels] */
} design_shape;
const design_shape *shape_of(const design *d);

/* ---- the table of the fit ---------------------------------------------------------------------------------------- */
/* Marks the columns that the formula names as used, those of the response as such, after open_table. `.` stands for
 * all that the response does not name and `ignored` [csv.columns] does not mark; NULL: none. Names that the table lacks
 * are refused, with their place in the formula. A caller that needs other columns (weights) marks them, too. */
int mark_formula_columns(const formula *m, const bool *ignored, data_table *t, failure *f);

/* After read_columns: the design of these rows. ignored: the same as before. The formula and the table may go away. */
int make_design(const formula *m, const bool *ignored, const data_table *t, design **out, failure *f);
void free_design(design *d); /* accepts NULL */

/* ---- rows -------------------------------------------------------------------------------------------------------- */
typedef enum {
    WITHOUT_RESPONSE = 0, /* X and offset */
    WITH_TRIALS = 1,      /* what the trials need: for cbind(s,f) both columns */
    WITH_RESPONSE = 3,    /* all of it */
} design_parts;

typedef struct {
    size_t rows, columns;
    double *X;      /* [rows][columns], row by row; the intercept is one of its columns */
    double *offset; /* [rows] their sum; NULL: the formula has none */
    double *y;      /* [rows] NULL: not asked for. Successes of a pair; index of the level of a categorical response */
    double *trials; /* [rows] successes and failures, or trials; NULL: there are none, or they were not asked for */
} design_rows;
void free_design_rows(design_rows *r); /* accepts an all-zero struct */

/* The rows of the table that the design was made of. */
int fill_design(const design *d, const data_table *t, design_parts parts, design_rows *out, failure *f);

/* Names of the columns that such rows are made of, each once, in the order of the formula; *columns: how many. */
const char *const *design_columns(const design *d, design_parts parts, size_t *columns);

/* The values that factor(column) has in the rows of the fit, rising, if the design has a term of it; else NULL. */
const double *factor_values(const design *d, const char *column, size_t *values);

/* Every row of a new file, with the levels and values of the fit. Columns that are missing, levels that are unknown and
 * values that are missing are refused, a line for each column. Columns that the design does not need are not read. */
int read_design_rows(const design *d, const csv_file *csv, design_parts parts, design_rows *out, failure *f);

/* ---- runs -------------------------------------------------------------------------------------------------------- */
/* As JSON, for run.json: {formula, dot[], columns[{name, kind, levels[]}], state[[..]..]}. NULL: no memory. */
json_t *describe_design(const design *d);
/* Back again. path: what messages call the file. */
int load_design(const char *path, const json_t *from, design **out, failure *f);
#endif
