/* open_model.h - from a name on the command line and a data file to a model that can be fitted. The table of models
 * lives here: help, man page and completion read it. */
#ifndef WV_OPEN_MODEL_H
#define WV_OPEN_MODEL_H
#include "failure.h"
#include "table_notes.h"
#include "wvgd_tools.h"

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

/* What the user asked for. */
typedef struct {
    const char *name;          /* MODEL: a built-in name, or a path to a shared object (contains '/' or ends in .so) */
    const char *data;          /* --data, or NULL */
    const char *text;          /* configuration text of a shared object, or NULL */
    const char *const *option; /* [options] values of model options, in the order of describe_model_option; NULL:
                                * not given ("" for a flag given) */
    unsigned threads;          /* at least 1 */
    unsigned long long seed;   /* for generated quantities of external models */
    const char *program;       /* Stan program that the shared object was compiled from, for messages, or NULL */
} model_request;

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
    char prior[240];           /* of a model with a data file, in words; "": it has none, or only the model knows it */
    wvgd_cost_batch *cost;     /* between predictions, for --cost functional; NULL: the model makes none */
    void *cost_self;           /* its first argument */
    size_t failed_points;      /* points at which a Stan model could not be evaluated (density zero) or shown
                                * (values NAN); kept up to date */
    const char *first_message; /* why the first of them could not, or NULL; kept up to date */
    char *hints, *warnings;    /* lines about its table (table_notes.h), or NULL */
    target_moments moments;    /* of the target of a regression */
    double prior_sd;           /* and of its weights */
    const double *first_bad;   /* [dim] the first point where the log density or gradient of a shared object was NaN or
                                * infinite, or NULL; kept up to date */
    void *owner;               /* everything behind it */
} opened_model;

/* "z.1 = 0.5, z.2 = -1, ...": as many coordinates as there is room for. */
void show_point(const wvgd_model *model, const double *z, char *text, size_t size);

/* 0, or an exit code with *f filled and *out all zero. Evaluate and show an external model only
 * from the thread that has opened it. */
int open_model(const model_request *request, opened_model *out, failure *f);
void close_model(opened_model *model); /* accepts an all-zero struct */
#endif
