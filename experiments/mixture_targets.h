/* mixture_targets.h - the targets of the mixture experiment: mixtures of Gaussians in one dimension, from a file or
 * by the paper's rule; what is known of them; and a quadrature rule for densities that jump at the borders of cells. */
#ifndef WV_MIXTURE_TARGETS_H
#define WV_MIXTURE_TARGETS_H
#include "failure.h"
#include "wvgd_model.h"
#include <stdint.h>

enum { LEAST_N = 3, MOST_N = 7, NUMBERS_N = MOST_N - LEAST_N + 1, GIVEN_STARTS = 5 };

/* sum_k weight_k N(mean_k, sd_k^2); weights sum to 1. */
typedef struct {
    size_t K;
    double *weight, *mean, *sd; /* [K] */
} mixture_target;

/* The best that N particles can do, by a deterministic computation, and SVGD with 3N particles. */
typedef struct {
    double ise, pelbo;             /* of the best truncated Gaussians on the cells of the optimal quantizer, with the
                                    * cells' masses as weights; bound with the best weights */
    double svgd_ise[GIVEN_STARTS]; /* integrated squared errors of five runs */
} mixture_optimum;

typedef struct {
    size_t n;
    mixture_target *target;   /* [n] */
    mixture_optimum *optimum; /* [n][NUMBERS_N], or NULL: not known */
} target_list;

/* {"targets": [{"weights": [K], "means": [K], "sds": [K]}, ..]}; other keys are ignored. */
int read_targets(const char *path, target_list *out, failure *f);

/* n targets of five components: weights U(0,1), then normalised, means N(0, 1.5^2), sds U(0.1, 1). */
int draw_targets(size_t n, uint64_t seed, target_list *out, failure *f);

/* What mixtures_truth.json says of the targets in mixtures.json. */
int read_optima(const char *path, target_list *list, failure *f);

void free_targets(target_list *list); /* accepts an all-zero struct */

/* A model of the target. 0, or -1 without memory. */
int open_target(const mixture_target *target, wvgd_model *model);

/* Density of the target. */
double target_density(const mixture_target *target, double x);

/* x[m], weight[m]: Gauss-Legendre rules on panels that end at each of border[borders] (in any
 * order), from low to high. */
typedef struct {
    size_t m;
    double *x, *weight; /* [m] */
} quadrature;
int make_quadrature(double low, double high, size_t borders, const double *border, quadrature *q, failure *f);
void free_quadrature(quadrature *q);

/* The interval outside of which the target has nothing to speak of: 10 sds around all components. */
void target_range(const mixture_target *target, double *low, double *high);
#endif
