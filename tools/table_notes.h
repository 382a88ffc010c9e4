/* table_notes.h - what a user should know about a table before relying on its model. */
#ifndef WV_TABLE_NOTES_H
#define WV_TABLE_NOTES_H
#include "model_data.h"
#include <jansson.h>

/* Both return lines with a newline at the end of each, to be freed; NULL: there are none. */
char *table_hints(const regression_data *data);    /* worth a look at the command line */
char *table_warnings(const regression_data *data); /* belong to the results */

/* Mean and sample sd of the target. */
typedef struct {
    double mean, sd;
} target_moments;
target_moments measure_target(const regression_data *data);

/* The first of the lines, cut off the rest, which *lines then points to; NULL: none is left. */
char *next_line(char **lines);

/* A warning, to be freed, if a fit with these results explains a target less well than its mean would: its prior keeps
 * the weights too small. NULL: it does not, or has no parameter log_sigma. posterior: that of run.json. */
char *prior_warning(const json_t *posterior, const char *target, const target_moments *moments, double prior_sd);
#endif
