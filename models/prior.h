/* prior.h - densities of priors, of parameters on the whole line and of logs of positive ones. */
#ifndef WV_PRIOR_H
#define WV_PRIOR_H
#include "models.h"

/* A prior with its normalising constant. */
typedef struct {
    wv_prior prior;
    double constant; /* what the log density has beside terms of x */
    bool positive;   /* of a positive parameter: cut off at 0, and a density of its log */
} wv_prior_term;

/* Priors of weights, of an intercept, and of logs of positive parameters, in this order. */
typedef struct {
    size_t n, columns;
    wv_prior_term *term; /* [n] */
    bool intercept;      /* number `columns` is one */
    double *centre;      /* [columns] its prior is that of intercept + centre . weights; NULL: of the intercept */
} wv_priors;

/* prior: [n]; centre may be NULL. Returns 0, or -1 without memory; close it in either case. */
int wv_priors_open(wv_priors *p, size_t columns, bool intercept, size_t positive, const wv_prior *prior,
                   const double *centre);
void wv_priors_close(wv_priors *p);

/* The log density at z[n]; grad[n] unless it is NULL. */
double wv_priors_density(const wv_priors *p, const double *z, double *grad);

/* z[n] out of standard normals: a draw, up to an approximation of quantiles for student and gamma. */
void wv_priors_start(const wv_priors *p, const double *normal, double *z);
#endif
