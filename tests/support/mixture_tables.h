/* mixture_tables.h - the random 1-D mixtures of tests/data and their deterministic optima (see
 * tests/data/README.md). */
#ifndef MIXTURE_TABLES_H
#define MIXTURE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

enum { MIXTURE_TARGETS = 15, MIXTURE_MAX = 8 };

typedef struct {
    size_t K;
    double weight[MIXTURE_MAX], mean[MIXTURE_MAX], sd[MIXTURE_MAX]; /* [K] */
} mixture_table;
bool mixture_table_read(mixture_table *mixture, int target);

/* The optimal N cells (N = 3..7) under the squared cost, and the best truncated Gaussian on each. */
typedef struct {
    size_t N;
    double distortion, ise, pelbo, pelbo_beta;
    double z[MIXTURE_MAX], beta[MIXTURE_MAX], mu[MIXTURE_MAX], sd[MIXTURE_MAX], elbo[MIXTURE_MAX]; /* [N] */
    bool sd_infinite[MIXTURE_MAX]; /* [N] the optimum is a limit: mu and sd stand for it, elbo is right */
    bool any_infinite;
} mixture_truth;
bool mixture_truth_read(mixture_truth *truth, int target, size_t N);

#endif
