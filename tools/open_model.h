/* open_model.h - from a name on the command line and a data file to a model that can be fitted. The table of models
 * lives here: help, man page and completion read it. */
#ifndef WV_OPEN_MODEL_H
#define WV_OPEN_MODEL_H
#include "failure.h"
#include "priors.h"
#include "sha256.h"
#include "table_notes.h"
#include "wvgd_tools.h"
#include <jansson.h>

/* An option that only some models have. */
typedef struct {
    const char *name;     /* long name, with '-' */
    const char *argument; /* "COL", "S" ..., or NULL for a flag */
    const char *initial;  /* default as text; NULL: none */
    const char *models;   /* which models: "logistic, linear" */
    const char *help;     /* one line */
} model_option;
const model_option *describe_model_option(unsigned i); /* NULL past the end */

/* Does the model have the option of that name? */
bool has_model_option(const char *model, const char *name);

/* Is it a path to a shared object (NULL: no), rather than the name of a built-in model? */
bool names_object(const char *model);
bool names_stan_program(const char *model);

/* Is there a model of that name, or could the path be one? */
int check_model_name(const char *name, failure *f);

/* Puts a model around the one that was opened, such as one that shares batches with other processes. */
typedef struct model_request model_request;
typedef struct {
    /* Called before a model is opened; afterwards either `wrap` or, if it could not be opened, `cancel`. Both return 0,
     * or an exit code with *f filled. wrap: *inner is of wvgd_model_threads, and outlives *outer. summed: the log
     * density is the sum of those of all processes, less that of *prior, unless it is NULL, for all but one. */
    int (*begin)(void *self, const model_request *request, failure *f);
    int (*wrap)(void *self, const wvgd_model *inner, bool summed, const wvgd_model *prior, wvgd_model *outer,
                failure *f);
    void (*cancel)(void *self);
    /* Why the last batch has failed, or NULL. *model: the model itself has, and says more. */
    const char *(*why)(void *self, bool *model);
    void *self;
    row_shares *shares; /* with --shard rows each process opens one of these; NULL: it is the only one */
} model_wrapper;

/* What the user asked for. */
struct model_request {
    const char *name;          /* MODEL: a built-in name, or a path to a shared object (contains '/' or ends in .so) */
    const char *data;          /* --data, or NULL */
    const char *text;          /* configuration text of a shared object, or NULL */
    const char *const *option; /* [options] values of model options, in the order of describe_model_option; NULL:
                                * not given ("" for a flag given) */
    unsigned threads;          /* at least 1 */
    unsigned long long seed;   /* for generated quantities of external models */
    const char *program;       /* Stan program that the shared object was compiled from, for messages, or NULL */
    const model_wrapper *wrapper; /* goes around the model; NULL: none */
    const wvgd_own_model *own;    /* the caller's, instead of one by name; NULL: none */
};

/* What the model explains: which values of which rows. Runs can be compared if they explain the same. */
typedef struct {
    const char *name;         /* column; NULL: the model has none, or only the model knows it */
    size_t rows, dropped;     /* used, and left out because a value is missing */
    bool discrete;            /* the density of a response is a probability: of labels, of counts */
    char sha256[SHA256_TEXT]; /* of the values in the order of the rows */
} response_facts;

/* A model ready to be fitted, threads and counting included, and how its draws are shown. It must stay
 * where it is: the model keeps its address. */
typedef struct {
    wvgd_model model; /* names are always set */
    const char *kind; /* built-in name, "plugin" or "bridgestan" */
    size_t shown;     /* quantities shown for a draw: model.dim, or more or fewer for constrained models */
    const char *const *shown_names; /* [shown] */
    /* values[shown] of one draw, 0 on success; NULL: z itself */
    int (*show)(void *self, const double *z, double *values);
    /* what follows from show has random numbers from this seed on; 0 on success; NULL if show is */
    int (*restart)(void *self, unsigned long long seed);
    void *show_self;           /* first argument of both */
    unsigned long long seed;   /* of the request */
    const wvgd_table *facts;   /* NULL: the model is no regression */
    response_facts response;   /* of a model with a data file */
    const series_data *series; /* of a gp; NULL: of others */
    const data_table *columns; /* its table: kinds and levels of columns, rows that count; NULL likewise */
    char prior[600];           /* of a model with a data file, in words; "": it has none, or only the model knows it */
    json_t *priors;            /* {name: text} of a regression, or NULL */
    const prior_list *list;    /* priors of linear and glm, in the order of the coordinates, or NULL */
    json_t *design;            /* of a glm: how its rows are made from columns (design.h), or NULL */
    const char *likelihood;    /* of a glm, or NULL */
    wvgd_cost_batch *cost;     /* between predictions, for --cost functional; NULL: the model makes none */
    void *cost_self;           /* its first argument */
    size_t failed_points;      /* points at which a Stan model could not be evaluated (density zero) or shown
                                * (values NAN); kept up to date */
    const char *first_message; /* why the first of them could not, or NULL; kept up to date */
    char *hints, *warnings;    /* lines about its table (table_notes.h), or NULL */
    const double *first_bad;   /* [dim] the first point where the log density or gradient of a shared object was NaN or
                                * infinite, or NULL; kept up to date */
    bool lost;                 /* the wrapper has lost a process, not the model failed: first_message says which */
    const model_wrapper *wrapper; /* of the request, or NULL; a session sets it before it opens the model */
    const wvgd_own_model *own;    /* the caller's; set likewise, or NULL */
    void *owner;                  /* everything behind it */
} opened_model;

/* "z.1 = 0.5, z.2 = -1, ...": as many coordinates as there is room for. */
void show_point(const wvgd_model *model, const double *z, char *text, size_t size);

/* 0, or an exit code with *f filled and *out all zero. Evaluate and show an external model
 * only from the thread that has opened it. */
int open_model(const model_request *request, opened_model *out, failure *f);
void close_model(opened_model *model); /* accepts an all-zero struct */
#endif
