/* request.h - what was asked for: options by their long names, from a command line, a file or a program, before they
 * are checked together. A new record is made of it once (run_record.h); nothing else spells options again. */
#ifndef WV_REQUEST_H
#define WV_REQUEST_H
#include "failure.h"
#include "wvgd_tools.h"
#include <jansson.h>

struct wvgd_request {
    json_t *texts;     /* long name -> text of every option given ("" for a flag), and model */
    json_t *from_file; /* names of those that a file has given: paths and models in it are looked at twice */
    char *file;        /* that file, or NULL */
    char *command;     /* what the record calls the command; NULL: an equivalent one is written down */
    char *object;      /* shared object that was compiled from the model, a Stan program; or NULL */
    const char *who;   /* command of the program, which needs --out; NULL: a caller of the library */
    wvgd_note_callback *note;
    void *note_self;
};

/* The text of an option, or NULL if it was not given. */
const char *requested(const wvgd_request *request, const char *name);

/* Has a file given it? */
bool is_from_file(const wvgd_request *request, const char *name);

/* Sets an option that is known to exist; not 0: no memory. */
int request_text(wvgd_request *request, const char *name, const char *value);

/* Reads a file with options: --config. */
int request_file(wvgd_request *request, const char *path, failure *f);

/* Hands a line for people to whoever asked to see them. */
void tell(const wvgd_request *request, const char *text);

/* Words as a shell would read them back; to be freed. NULL: no memory. */
char *quoted_words(size_t n, const char *const *word);

/* A new record. Values are checked. */
int new_record(const wvgd_request *request, json_t **asked, failure *f);

/* Where results are to go: must be given by a command, and be free or hold a run that may be replaced. The last thing
 * to look at: nobody should choose another directory only to learn that the model is misspelt. */
int check_out(const wvgd_request *request, failure *f);

/* Changes that a run which goes on allows: max-iter, max-seconds, threads, checkpoint-every, output-draws. */
int change_record(json_t *asked, const wvgd_request *changes, failure *f);
#endif
