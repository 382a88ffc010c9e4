/* run_record.h - what was asked of a run: command line and --config, as one JSON object that the checkpoint keeps and a later process can start from.
 *     version, command, model{name, kind, dim, names}, options{long name: value}    as in run.json
 *     reopen{model, data, text, model_hash, data_hash, gradient, start, constrained, shown}    what only going on and sampling need */
#ifndef WV_RUN_RECORD_H
#define WV_RUN_RECORD_H
#include "arguments.h"
#include "open_model.h"
#include "wvgd.h"
#include <jansson.h>

/* Row i of the options of wvgd fit: the library's, the program's, the models'. */
bool fit_option(size_t i, option_line *line);

/* A new record from a command line; --config is read here. Values are checked. */
int new_record(const arguments *a, json_t **asked, failure *f);

/* Adds what is known once the model is open. */
int complete_record(json_t *asked, const opened_model *model, failure *f);

/* Changes that a run which goes on allows: --max-iter, --max-seconds, --threads, --checkpoint-every, --output-draws. */
int change_record(json_t *asked, const arguments *a, failure *f);

/* Options of the fit. */
int record_options(const json_t *asked, wvgd_options *options, failure *f);
size_t record_count(const json_t *asked, const char *name, size_t otherwise);
double record_number(const json_t *asked, const char *name, double otherwise);

/* Was the option given by the user? */
bool record_given(const json_t *asked, const char *name);
void record_set(json_t *asked, const char *name, const char *value);

/* Opens the model, after checking that its files are those of the record (EX_TEMPFAIL if they have changed; `fresh`: notes what they are now). */
int open_recorded(json_t *asked, bool fresh, opened_model *model, failure *f);

/* A string of reopen, or NULL. */
const char *record_reopen(const json_t *asked, const char *key);
bool record_reopen_flag(const json_t *asked, const char *key);
#endif
