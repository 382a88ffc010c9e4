/* run_record.h - what was asked of a run, as one JSON object that request.c makes, the checkpoint keeps and a later
 * process can start from.
 *     version, command, model{name, kind, dim, names, target, labels, standardized}, options{long name: value}, id
 *                                      as in run.json
 *     data{file, sha256, rows, dropped, response, response_sha256, discrete, levels, features}   of a data file
 *     reopen{model, data, text, model_hash, data_hash, gradient, start, constrained, shown}
 *                                      what only going on and sampling need
 *     reopen{program, program_hash}    of a Stan program: the file that the shared object `model` was compiled from
 *     reopen{own, curves}              of a model of the caller's own: true; how its coordinates are shown
 *     reopen{message}                  the first message of a model that could not be evaluated somewhere */
#ifndef WV_RUN_RECORD_H
#define WV_RUN_RECORD_H
#include "open_model.h"
#include "wvgd.h"
#include <jansson.h>

/* What run.json says of an opened model, but for its name; not 0: no memory. */
int describe_opened(json_t *m, const opened_model *model);

/* Adds what is known once the model is open. */
int complete_record(json_t *asked, const opened_model *model, failure *f);

/* May an option change when a run goes on? */
bool may_change(const char *name);

/* An absolute path where the file is there; else as it is: opening it will tell. null for NULL. */
json_t *absolute_path(const char *path);

/* Does the record belong to the run.json in dir, if there is one that can be read? */
bool same_run(const json_t *asked, const char *dir);

/* Options of the fit. */
int record_options(const json_t *asked, wvgd_options *options, failure *f);

/* The seed that was asked for, and that of the fit that is shown, which may be another one of several (--repeat): the
 * options of a record have the second. */
uint64_t record_seed(const json_t *asked);
void record_shown_seed(json_t *asked, uint64_t seed);

/* Completes them where the cost is the model's: --cost functional. */
int take_cost(wvgd_options *options, const opened_model *model, failure *f);

/* Does even a fit that has ended need the model and its data, to show draws or to tell cells? */
bool needs_model(const json_t *asked);
size_t record_count(const json_t *asked, const char *name, size_t otherwise);
double record_number(const json_t *asked, const char *name, double otherwise);

/* Opens the model of a new run, and notes what its files are. name, data: as the user has written them. */
int open_new(json_t *asked, const char *name, const char *data, opened_model *model, failure *f);

/* Are the data still what the record says, in a plain file at a full path? EX_TEMPFAIL if not. */
int check_data(const json_t *asked, failure *f);

/* A run directory may come from anybody, and the model that it names may be a shared object. Such a model is opened
 * only if the user asks for it. */
typedef struct {
    bool recorded;     /* --trust-model: the object that the record names */
    const char *named; /* or this one, which the user has named again; NULL: none */
    const char *how;   /* how to name it: "give --model MODEL.so" */
} model_trust;

/* Opens the model of the run in dir again, after checking that its files are those of the record. EX_TEMPFAIL: they
 * have changed, or the model is code that nobody trusts. */
int open_again(json_t *asked, const char *dir, const model_trust *trust, opened_model *model, failure *f);

/* A string of reopen, or NULL. */
const char *record_reopen(const json_t *asked, const char *key);
bool record_reopen_flag(const json_t *asked, const char *key);
#endif
