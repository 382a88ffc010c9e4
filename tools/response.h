/* response.h - what a response is, given its mean: the table of likelihoods that predictions know. */
#ifndef WV_RESPONSE_H
#define WV_RESPONSE_H
#include <stdbool.h>
#include <stddef.h>

/* A likelihood. spread: sigma of gaussian and student, shape of negbinomial (variance mean + mean^2 / shape), number of
 * trials of binomial; tail: nu of student. Others are not read. */
typedef struct {
    const char *name;
    const char *spread, *tail; /* parameters that tell them, by name; NULL: there is none */
    bool counts;               /* responses are 0, 1, 2, ... */
    double (*mean)(double t);  /* of the linear predictor, of one trial */
    double (*below)(double y, double mean, double spread, double tail); /* P(response <= y) */
} response_family;

const response_family *find_family(const char *name); /* NULL: there is none of that name */

/* The p-quantile of the mixture, with equal weights, over n draws: for counts the least one that has at least the
 * probability p at or below it. spread and tail may be NULL where the family reads none. NAN: a mean is no number. */
double response_quantile(const response_family *f, size_t n, const double *mean, const double *spread,
                         const double *tail, double p);
#endif
