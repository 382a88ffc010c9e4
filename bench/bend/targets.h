/* targets.h - bent posteriors whose log evidence, means and sds are known: in closed form, or by quadrature over their
 * scales, given which the rest is normal (or, for counts, a product of one-dimensional integrals). */
#ifndef BEND_TARGETS_H
#define BEND_TARGETS_H
#include "wvgd_model.h"
#include <stdbool.h>
#include <stddef.h>

enum { BEND_SCALES = 3, BEND_TERMS = 4, BEND_MOST = 256 };

/* A factor N(constant + sum_k coefficient_k exp(scale_k) z_k; 0, sd exp(scale)) of the density. Scales are numbers of
 * log scales; -1: none. */
typedef struct {
    size_t terms, of[BEND_TERMS];
    double coefficient[BEND_TERMS], constant, sd;
    int scale, by[BEND_TERMS];
} bend_factor;

typedef struct bend_target {
    size_t dim;
    double log_z, mean[BEND_MOST], sd[BEND_MOST]; /* NAN: not known, or does not exist */
    wvgd_point_density *density;                  /* called with the target as self */

    size_t scales; /* normal given its first coordinates, the log scales */
    double prior_mean[BEND_SCALES], prior_sd[BEND_SCALES];
    double cauchy; /* > 0: instead, the one scale is half-Cauchy of this size */
    size_t factors, room;
    bend_factor *factor;

    double p[4], data[BEND_MOST]; /* kinds use these as they like */
    double turn[BEND_MOST];       /* unit vector: seen in coordinates reflected along it; 0: as they are */
    bool turned;
} bend_target;

typedef struct {
    const char *name;
    bool control; /* needs no bend */
    void (*make)(bend_target *t);
} bend_kind;

extern const bend_kind bend_kinds[];
extern const size_t bend_kind_count;

bend_target *bend_make(const bend_kind *kind);
void bend_free(bend_target *t);
#endif
