/* logistic.h - what the experiment logistic measures: shared by logistic.c, which fits, and
 * logistic_tables.c, which writes. */
#ifndef WV_LOGISTIC_H
#define WV_LOGISTIC_H
#include "logistic_subsets.h"
#include "reproduce.h"
#include "wvgd.h"

enum { SETS = 4, FAMILIES = 2, MOST_PARTICLES = 5 };
extern const char *const family_names[FAMILIES]; /* "diag", "full" */
enum { JOINT, STAGED, SOLVERS };
extern const char *const solver_names[SOLVERS]; /* "joint", "staged" */

/* One fit. */
typedef struct {
    wvgd_estimate bound;                       /* PELBO of what was fitted, with the best weights: one particle by
                                                * quadrature, more from 20,000 fresh draws */
    wvgd_estimate pelbo, pelbo_beta, evidence; /* as the fit reports them */
    size_t evaluations;
    double seconds;
    bool reliable;
} logistic_run;

typedef struct {
    logistic_run run[SOLVERS][FAMILIES][MOST_PARTICLES]; /* evaluations 0: not run */
    double optimum[FAMILIES]; /* ELBO of the best Gaussian of the family, by Newton's method */
} logistic_subset;

typedef struct {
    const reproduction *r;
    size_t sets, subsets, particles; /* how many there are: fewer in a quick run */
    size_t staged_subsets;           /* subsets on which the staged solver has more than one particle */
    logistic_set set[SETS];
    logistic_subset subset[SETS][SCALINGS][SUBSETS];
} logistic_study;

/* results.csv, results.md, and the figure. */
int write_logistic(const logistic_study *study, failure *f);
#endif
