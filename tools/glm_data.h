/* glm_data.h - a table and a formula as the rows of a generalised linear model. */
#ifndef WV_GLM_DATA_H
#define WV_GLM_DATA_H
#include "design.h"
#include "models.h"

/* What the user asked for; NULL: not given. */
typedef struct {
    table_options table; /* target and features are not read */
    const char *formula, *likelihood, *weights;
    bool keep; /* for other uses than a fit: rows.X and the values of the table stay, there is no X */
} glm_request;

typedef struct {
    wv_likelihood likelihood;
    const char *family;          /* its name */
    const char *const *positive; /* sigma, nu, shape, as it has them; NULL at the end */
    data_table table;            /* kinds and levels of columns; rows that count */
    design *design;
    design_rows rows; /* of this share: y, offset, trials; y is 0/1 for two labels */
    double *weight;   /* [rows] or NULL */
    char *label[2];   /* of a response with two labels, or NULL */
    size_t columns;   /* without the intercept */
    bool intercept;
    const char *const *names; /* [columns] */
    double *X;                /* [rows][columns] less their means, if there is an intercept */
    double *centre;           /* [columns] what was taken away */
    const char **shown;       /* [quantities] intercept, columns, sigma, nu, shape */
    size_t quantities;
} glm_data;

/* 0, or an exit code with *f filled and *out empty. path must outlive *out. */
int read_glm(const char *path, const glm_request *q, glm_data *out, failure *f);
design_rows
take_raw_rows(glm_data *g); /* adds the means again, to g->X, too; all memory stays g's; no intercept column */
void forget_glm_numbers(glm_data *g); /* names, levels and the design stay */
void free_glm(glm_data *g);           /* accepts an all-zero struct */

/* values[quantities] of coordinates z: the intercept for columns as they are, positive parameters themselves. self: a
 * glm_data. Returns 0. */
int show_glm(void *self, const double *z, double *values);
#endif
