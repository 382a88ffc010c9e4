/* targets.h - kinds of targets with known evidence, for measuring whether a verdict can be trusted.
 *
 * Every kind makes a random target from a seed. Densities are those of z; log_z is the log of their integral, by a
 * closed form or by quadrature. */
#ifndef TRUST_TARGETS_H
#define TRUST_TARGETS_H
#include <stdint.h>
#include "test_random.h"
#include "wvgd_model.h"

enum { TRUST_LEVELS = 3 }; /* quantiles at 5, 50 and 95 % */
extern const double trust_level[TRUST_LEVELS];

/* What is known of one coordinate; NAN: not known, or does not exist. */
typedef struct {
    double mean, sd, quantile[TRUST_LEVELS];
} trust_marginal;

typedef struct trust_target {
    size_t dim;
    double log_z;
    wvgd_point_density *density;                           /* called with the target as self */
    void (*start)(void *self, const double *n, double *z); /* draw from the prior; NULL: there is none */
    size_t known;                                          /* the first coordinates have known marginals */
    trust_marginal *marginal;                              /* [known] */
    size_t n, K;                                           /* kinds use these as they like */
    double *a, *b, *c, *work;
    double p[8];
    const void *what;
} trust_target;

typedef enum {
    TRUST_COUNTED, /* part of the totals */
    TRUST_BENT,    /* funnels and hierarchies */
    TRUST_HIDDEN,  /* no density or gradient points to where the mass is */
    TRUST_CLASSES
} trust_class;

typedef struct {
    const char *name;
    trust_class class;
    void (*make)(trust_target *t, uint64_t seed);
} trust_kind;

extern const trust_kind trust_kinds[];
extern const size_t trust_kind_count;
extern const trust_kind trust_tails[]; /* of one mode, with mass where a Gaussian has none */
extern const size_t trust_tail_count;
extern const trust_kind trust_cores[]; /* with a core that few components take for the whole */
extern const size_t trust_core_count;
extern const trust_kind trust_others[]; /* more of the first, of other densities */
extern const size_t trust_other_count;

trust_target *trust_make(const trust_kind *kind, uint64_t seed);
void trust_free(trust_target *t);
/* The target as a model, which must not outlive it. */
void trust_open(trust_target *t, wvgd_model *model);

/* ---- parts of kinds ---------------------------------------------------------------------------------------------- */
void *trust_take(size_t n, size_t size); /* zeros; aborts without memory */

/* Mean, sd and quantiles of a density that n points x, as far apart as each other, with masses m stand for. */
trust_marginal trust_marginal_of(size_t n, const double *x, const double *m);

/* Mixtures of Gaussians, or Student-t's of p[0] degrees of freedom: a log weights[K], b means[K][D], c lower Cholesky
 * factors[K][D][D]. Room for one; its evidence and what is known of it, when all these are set. */
void trust_mixture(trust_target *t, size_t D, size_t K);
void trust_mixture_end(trust_target *t, double log_z);
/* K components with means uniform in a box and sds of one size each, 10^U(low, high). */
void trust_random_mixture(trust_target *t, uint64_t seed, size_t D, size_t K, double box, double low, double high,
                          double nu);
/* A slab with so much of the mass around a spike `ratio` times narrower, `off` sds of the slab from its middle. */
void trust_slab(trust_target *t, uint64_t seed, size_t D, double share, double ratio, double off);
/* Along a[dim]. */
void trust_reflect(const trust_target *t, double *x);
/* L L' with random axes and standard deviations sd[D]. */
void trust_random_root(test_random *r, size_t D, const double *sd, double *L);

/* Products of one-dimensional densities, shifted and scaled, with a shape for each coordinate. */
typedef struct {
    double (*log_p)(double x, double shape, double *slope); /* log density and its derivative */
    double low, high; /* where it is to be integrated for its moments; both 0: a Cauchy, which has none */
} trust_line;
void trust_product(trust_target *t, uint64_t seed, size_t D, const trust_line *of, double low, double high);

/* Evidence and marginals of a density of one or two dimensions that has nothing outside of a box. */
void trust_quadrature(trust_target *t, double (*box)[2]);

/* A spectrum with so many lines, in so many observations with that noise. */
void trust_spectrum(trust_target *t, uint64_t seed, size_t lines, size_t observations, double noise);
void trust_posterior(trust_target *t, uint64_t seed, const char *name);
/* Makers of bent.c. */
void trust_centred(trust_target *t, uint64_t seed);
void trust_non_centred(trust_target *t, uint64_t seed);
void trust_walk(trust_target *t, uint64_t seed);
void trust_pairs4(trust_target *t, uint64_t seed);
void trust_pairs10(trust_target *t, uint64_t seed);
void trust_funnel10(trust_target *t, uint64_t seed);
void trust_funnel_turned(trust_target *t, uint64_t seed);
void trust_shell5(trust_target *t, uint64_t seed);
/* Of far.c. */
void trust_far(trust_target *t, uint64_t seed);
void trust_wave(trust_target *t, uint64_t seed);
void trust_regression(trust_target *t, uint64_t seed);
#endif
