/* fit_options.h - the table of the options of a fit, and their values as text and as JSON. */
#ifndef WV_FIT_OPTIONS_H
#define WV_FIT_OPTIONS_H
#include "failure.h"
#include "option_line.h"
#include "wvgd.h"
#include <jansson.h>

#define TRUST_MODEL_HELP                                                                                               \
    "load the shared object that the run names as its model. This runs its code with your permissions"
#define NAMED_MODEL_HELP "path of the shared object that the run was fitted with; loaded instead of the recorded path"

#define CONFIG_HELP                                                                                                    \
    "read options from FILE: a JSON object with option names (and model) as keys, or the run.json of another run. "    \
    "The "                                                                                                             \
    "command line takes precedence. If MODEL is a shared object and FILE cannot be read, the text itself is passed "   \
    "to "                                                                                                              \
    "the model"

/* Row i of the options of wvgd fit: the program's, the library's, the models'. */
bool fit_option(size_t i, option_line *line);

/* Row i of the options that only some models have. */
bool model_row(size_t i, option_line *line);

/* The row of that name; false: there is none. */
bool find_option(const char *name, option_line *line);

/* Belongs to built-in models only. */
bool is_model_option(const option_line *line);

/* Particles that a fit may have at most where the user names no number: the program adds some where they are needed,
 * the library makes as many as it is told to. Two for each of as many modes as the search keeps. */
#define MOST_PARTICLES 80
bool is_most_particles(const wvgd_option_info *info);

/* Sets an option of the library from the text that users write. */
int set_fit_option(wvgd_options *o, const wvgd_option_info *info, const char *value, failure *f);

/* A cost is spelled otherwise here than in the library: functional is the callback. Other names are the same. */
const char *translate_cost(const char *name, const char *value, const char *from, const char *to);

/* The value of an option as JSON, checked by its row: numbers where it has a range or a number as default, true for a
 * flag. *value is to be freed in either case. */
int type_option(const option_line *line, const char *text, json_t **value, failure *f);

/* The text of an option's JSON value, in buffer unless it is a string ("" for true); NULL: it is none. */
const char *option_text_of(const json_t *value, char buffer[40]);

/* --init FILE.csv */
bool is_start_file(const char *name, const char *value);
#endif
