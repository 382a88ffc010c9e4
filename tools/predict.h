/* predict.h - predictions of a regression from draws of its posterior. */
#ifndef WV_PREDICT_H
#define WV_PREDICT_H
#include "design.h"
#include "failure.h"
#include "model_data.h"
#include "response.h"
#include "wvgd_tools.h"
#include <jansson.h>

/* What a record says of a model that predicts. */
typedef struct predictor predictor;

/* From the record of a run (run_record.h), and the n names of its quantities. series: the data of a gp. Everything must
 * outlive the result. NULL with *f filled: the model makes no predictions, or the record lacks something. */
predictor *new_predictor(const json_t *asked, size_t n, const char *const *names, const series_data *series,
                         failure *f);
void free_predictor(predictor *p); /* accepts NULL */

/* The columns that predictions need; of a glm those of its design, then its offset and trials, if it has them. */
size_t predictor_columns(const predictor *p, const char *const **names);

/* Rows X[rows][columns] of them from a file, to be freed. All that is wrong with it is told, a line each. */
int read_new_rows(const predictor *p, const char *path, double **X, size_t *rows, failure *f);

/* row[rows] from K draws value[K][quantities]. */
int predict_rows(const predictor *p, size_t K, const double *value, size_t rows, const double *X, wvgd_prediction *row,
                 failure *f);

/* Mean responses mean[rows][K], and the sds sd[rows][K] of a response around them, which are 0 for labels; of a gp, the
 * sds of the process itself. */
int mean_responses(const predictor *p, size_t K, const double *value, size_t rows, const double *X, double *mean,
                   double *sd, failure *f);
bool predicts_labels(const predictor *p); /* responses are 0 or 1 */
const response_family *predictor_family(const predictor *p);
size_t predictor_tail(const predictor *p);   /* which quantity is nu; as many as there are: none */
size_t predictor_trials(const predictor *p); /* which column has the trials; as many as there are: none */

/* Of a glm: rows X[rows][columns] as above, from those of its design; to be freed. NULL: no memory. */
const design *predictor_design(const predictor *p); /* NULL: of others */
double *pack_design(const predictor *p, const design_rows *rows);

/* The output of a network with H hidden units and F inputs, in the layout of models/bnn.c, before any sigmoid. */
double network_output(size_t H, size_t F, const double *w, const double *x);
#endif
