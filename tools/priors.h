/* priors.h - priors of a regression by name: defaults scaled to the data, --prior 'NAME=DIST(..)', and their texts. */
#ifndef WV_PRIORS_H
#define WV_PRIORS_H
#include "failure.h"
#include "models.h"
#include <jansson.h>

typedef enum { PRIOR_SLOPE, PRIOR_INTERCEPT, PRIOR_POSITIVE } prior_role;

typedef struct {
    const char *name; /* a column, intercept, sigma, nu, shape */
    prior_role role;
    wv_prior prior;
    bool given; /* by --prior */
} named_prior;

/* Room for the priors of a model, in the order of its coordinates: columns, an intercept, positive parameters. */
typedef struct {
    size_t n, columns;
    bool intercept, centred; /* centred: the prior of the intercept is for columns less their means */
    bool standardized;       /* columns are divided by their sds */
    bool equal;              /* of --prior-sd, but for those that are given by name */
    named_prior *each;       /* [n] */
    wv_prior *prior;         /* [n] the same for the model */
} prior_list;

/* Names only; positive: names of further parameters, NULL at the end. 0, or EX_SOFTWARE with *f filled. Free it in
 * either case. */
int name_priors(prior_list *p, size_t columns, const char *const *names, bool intercept, const char *const *positive,
                failure *f);
void free_priors(prior_list *p); /* accepts an all-zero struct */

/* Defaults for columns of sd[columns] and a response y of this mean and sd: slopes normal(0, 2.5 s / sd(x)), the
 * intercept normal(mean(y), 2.5 s) or normal(0, 2.5), sigma exponential(1 / s), nu gamma(2, 0.1), shape exponential(1);
 * s is sd(y) for numbers, otherwise 1. A constant column has sd 0. */
void default_priors(prior_list *p, bool numbers, const double *sd, double mean_y, double sd_y);

/* Every weight normal(0, sd), sigma cauchy(0, sd). */
void equal_priors(prior_list *p, double sd);

/* Changes those that a text names: "NAME=DIST(a, b); NAME=.."; NULL changes nothing. 0, or EX_USAGE. */
int read_priors(prior_list *p, const char *text, failure *f);

/* What an intercept, or all weights, have a prior for. */
extern const char centred_columns[], standardized_columns[];

/* One of them, such as "normal(0, 2.5) for centred columns". Returns text. */
enum { PRIOR_ROOM = 160 };
const char *show_prior(const prior_list *p, size_t i, char text[PRIOR_ROOM]);

/* {name: text}; NULL: no memory. And in one line of text[size]. */
json_t *describe_priors(const prior_list *p);
void list_priors(const prior_list *p, char *text, size_t size);
#endif
