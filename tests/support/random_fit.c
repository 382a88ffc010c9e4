/* random_fit.c - random targets of known evidence, with options for their fits. */
#include "random_fit.h"

#include <math.h>

#include "targets.h"
#include "test_random.h"

const char *const random_fit_kind[RANDOM_FIT_KINDS] = {"mixture", "mixture 1-D", "funnel",   "rosenbrock",
                                                       "banana",  "student",     "gaussian", "log gamma"};

enum { MOST = 10, COMPONENTS = 5 };

static size_t below(test_random *r, size_t n)
{
    return (size_t)(test_random_uniform(r) * (double)n);
}

static double between(test_random *r, double low, double high)
{
    return low + (high - low) * test_random_uniform(r);
}

/* The rule of the paper. */
static int make_mixture_1d(test_random *r, wvgd_model *model)
{
    double weight[COMPONENTS], mean[COMPONENTS], sd[COMPONENTS];
    for (size_t k = 0; k < COMPONENTS; k++) {
        weight[k] = test_random_uniform(r);
        mean[k] = 1.5 * test_random_normal(r);
        sd[k] = between(r, 0.1, 1);
    }
    return target_mixture_1d(model, COMPONENTS, weight, mean, sd);
}

static int make_student(test_random *r, size_t D, wvgd_model *model)
{
    double weight[2] = {1, between(r, 0.2, 1)}, mean[2 * MOST], scale[2 * MOST * MOST] = {0};
    size_t K = 1 + below(r, 2);
    for (size_t i = 0; i < K * D; i++)
        mean[i] = 3 * test_random_normal(r);
    for (size_t i = 0; i < K * D; i++)
        scale[i / D * D * D + i % D * (D + 1)] = exp(test_random_normal(r));
    return target_student_mixture(model, D, K, between(r, 2, 8), weight, mean, scale);
}

static int make_log_gamma(test_random *r, size_t D, wvgd_model *model)
{
    double shape[MOST];
    for (size_t i = 0; i < D; i++)
        shape[i] = exp(between(r, log(0.3), log(20)));
    return target_log_gamma(model, D, shape);
}

static int make_target(test_random *r, int kind, wvgd_model *model)
{
    size_t D = 1 + below(r, MOST), several = D < 2 ? 2 : D;
    uint64_t seed = test_random_bits(r);
    switch (kind) {
    case 0: return target_mixture_random(model, D, 2 + below(r, 4), between(r, 0.5, 4), seed);
    case 1: return make_mixture_1d(r, model);
    case 2: return target_funnel(model, several, between(r, 1, 3));
    case 3: return target_rosenbrock(model, 2 * (1 + below(r, MOST / 2)));
    case 4: return target_banana(model, several, between(r, 1, 3), between(r, 0.1, 1));
    case 5: return make_student(r, D, model);
    case 6: return target_gaussian_random(model, D, exp(between(r, 0, 9)), seed, true);
    default: return make_log_gamma(r, D, model);
    }
}

static void choose_options(test_random *r, wvgd_options *o)
{
    static const size_t particles[] = {1, 2, 3, 4, 5, 5, 5, 7, 10, 12, 20, 25, 40};
    static const wvgd_family family[] = {WVGD_FULL, WVGD_FULL, WVGD_DIAG, WVGD_LOWRANK};
    static const wvgd_cost cost[] = {WVGD_SQEUCLID, WVGD_SQEUCLID, WVGD_MAHALANOBIS, WVGD_OWN, WVGD_L1};
    static const double evidence_se[] = {0.02, 0.02, 0.1, 0.5};
    o->particles = particles[below(r, sizeof particles / sizeof *particles)];
    o->family = family[below(r, sizeof family / sizeof *family)];
    o->cost = cost[below(r, sizeof cost / sizeof *cost)];
    o->evidence_se = evidence_se[below(r, sizeof evidence_se / sizeof *evidence_se)];
    o->rank = 1;
    if (below(r, 2)) /* a bad proposal */
        o->components = 1 + below(r, 3);
    if (!below(r, 6))
        o->max_iter = 1 + below(r, 30);
}

int random_fit_make(uint64_t number, wvgd_model *model, wvgd_options *options)
{
    test_random r = test_random_seed(0x9e3779b97f4a7c15u * (number + 1));
    int kind = (int)(number % RANDOM_FIT_KINDS);
    wvgd_options_init(options);
    choose_options(&r, options);
    options->seed = 1 + below(&r, 1000);
    return make_target(&r, kind, model) == 0 ? kind : -1;
}
