/* prior_conflict.h - could the prior have made the response? */
#ifndef WV_PRIOR_CONFLICT_H
#define WV_PRIOR_CONFLICT_H
#include "response.h"
#include "row_shares.h"
#include "wvgd_model.h"

#define PRIOR_CONFLICT "prior-data conflict" /* how warnings about priors begin */

/* A regression: its prior is known by the starting points of the model, which has weights of the columns, an intercept
 * and logs of sigma and nu, or shape, in this order; or those of a network. */
typedef struct {
    const wvgd_model *model;
    const response_family *family;
    const char *target;
    row_shares *shares;           /* NULL: there is one process */
    size_t rows, columns, hidden; /* rows: of this share; hidden: units of a network; 0: it is none */
    size_t all_rows;              /* of all shares */
    bool intercept;
    const double *X;               /* [rows][columns] */
    const double *y;               /* [rows] */
    const double *offset, *trials; /* [rows], or NULL */
    const double *centre, *scale;  /* [columns] what the model makes of X: (x - centre) / scale; NULL: X as it is */
    double prior_sd;               /* 0: it has priors of its own, for --prior */
    bool linear;                   /* leaving out --prior-sd scales its priors to the data */
    bool standardize;              /* the option may be given, and was not */
} prior_question;

/* *line says what the prior cannot make, and what to do; to be freed. NULL: it can, or no memory. Returns 0, or an exit
 * code with *f filled: shares could not agree. */
int prior_conflict(const prior_question *q, char **line, failure *f);
#endif
