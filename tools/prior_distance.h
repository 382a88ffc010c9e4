/* prior_distance.h - after the fit: do the data pull parameters away from their priors? */
#ifndef WV_PRIOR_DISTANCE_H
#define WV_PRIOR_DISTANCE_H
#include "priors.h"

/* A warning about the parameter that is farthest from its prior, and what to do; to be freed. NULL: there is none, or
 * no memory. mean, var: of the posterior of the coordinates, in the order of the list; logs of positive parameters.
 * skip_intercept: its coordinate is not what its prior is for. */
char *find_distant(const prior_list *list, bool skip_intercept, const double *mean, const double *var);
#endif
