/* table_notes.h - what a user should know about a table before relying on its model. */
#ifndef WV_TABLE_NOTES_H
#define WV_TABLE_NOTES_H
#include "glm_data.h"
#include "model_data.h"

/* All return lines with a newline at the end of each, to be freed; NULL: there are none. */
char *table_hints(const regression_data *data);                          /* worth a look at the command line */
char *table_warnings(const regression_data *data, const bool *constant); /* belong to the results; find_constants */
char *glm_hints(const glm_data *g);
char *level_warnings(const data_table *t);

/* The first of the lines, cut off the rest, which *lines then points to; NULL: none is left. */
char *next_line(char **lines);
#endif
