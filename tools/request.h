/* request.h - what was asked for: options by their long names, from a command line, a file or a program. Each is
 * checked by the row of its table and typed where it comes in. A new record is made of them once (run_record.h);
 * nothing else spells options again. */
#ifndef WV_REQUEST_H
#define WV_REQUEST_H
#include "failure.h"
#include "open_model.h"
#include "option_line.h"
#include "run_record.h"
#include "wvgd_tools.h"
#include <jansson.h>

struct wvgd_request {
    bool (*option)(size_t i, option_line *line); /* the rows of its options: those of a fit, or of SVGD */
    json_t *options;   /* long name -> value of every option given (true for a flag), and model */
    json_t *from_file; /* names of those that a file has given: paths and models in it are looked at twice */
    char *file;        /* that file, or NULL */
    char *command;     /* what the record calls the command; NULL: an equivalent one is written down */
    char *object;      /* shared object that was compiled from the model, a Stan program; or NULL */
    const char *who;   /* command of the program, which needs --out; NULL: a caller of the library */
    char *text;        /* the number that wvgd_request_get has returned last */
    wvgd_note_callback *note;
    void *note_self;
    const model_wrapper *wrapper; /* goes around the model; NULL: none */
    const wvgd_own_model *own;    /* the caller's model; NULL: one by name */
};

/* Was the option given? */
bool is_requested(const wvgd_request *request, const char *name);

/* The text of an option that is one, or NULL if it was not given. */
const char *requested(const wvgd_request *request, const char *name);

/* The row of an option; false: there is none. */
bool find_row(const wvgd_request *request, const char *name, option_line *line);

/* The option, or model, with a name like this one, or NULL. */
const char *nearest_option(const wvgd_request *request, const char *name);

/* Sets an option, or the model, from text: here everything comes in. */
int request_put(wvgd_request *request, const char *name, const char *value, failure *f);

/* Has a file given it? */
bool is_from_file(const wvgd_request *request, const char *name);

/* The long name of an option: "max_iter" is max-iter. */
void write_hyphens(const char *given, char *name, size_t size);

/* Reads a file with options: --config. */
int request_file(wvgd_request *request, const char *path, failure *f);

/* Which model may be loaded for a run that a directory has. request may be NULL. */
int trust_of(const wvgd_request *request, model_trust *trust, failure *f);

/* Hands a line for people to whoever asked to see them. */
void tell(const wvgd_request *request, const char *text);

/* Words as a shell would read them back; to be freed. NULL: no memory. */
char *quoted_words(size_t n, const char *const *word);

/* What cannot be asked for, whatever the model is. */
int check_request(const wvgd_request *request, failure *f);

/* A new record. */
int new_record(const wvgd_request *request, json_t **asked, failure *f);

/* Where results are to go: must be given by a command, and be free or hold a run that may be replaced. The last thing
 * to look at: nobody should choose another directory only to learn that the model is misspelt. */
int check_out(const wvgd_request *request, failure *f);

/* Changes that a run which goes on allows: max-iter, max-evaluations, max-seconds, threads, checkpoint-every,
 * output-draws. */
int change_record(json_t *asked, const wvgd_request *changes, failure *f);

/* The options with which other cells can be made of the draws of a fit; NULL past the end. And such changes. */
const char *describe_cell_option(size_t i);
int change_cells(json_t *asked, const wvgd_request *changes, failure *f);
#endif
