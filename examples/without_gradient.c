/* without_gradient.c - a model without gradients, whose parameters have limits. The rate of a decay and the level of a
 * background, both positive, and the share of the decay, between 0 and 1, from counts in ten bins.
 *     cc without_gradient.c $(pkg-config --cflags --libs wvgd) -lm && ./a.out */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wvgd.h>

enum { D = 3, BINS = 10 };
static const double counts[BINS] = {102, 79, 71, 48, 44, 39, 29, 33, 24, 26};

/* Poisson counts, and exponential priors of mean 1 (rate) and 100 (level). */
static double decay(void *self, const double *theta, double *grad)
{
    double rate = theta[0], level = theta[1], share = theta[2], sum = -rate - level / 100 - log(100);
    (void)self;
    (void)grad; /* always NULL: the model has no gradient */
    for (int b = 0; b < BINS; b++) {
        double expected = level * (1 - share + share * exp(-rate * b));
        sum += counts[b] * log(expected) - expected - lgamma(counts[b] + 1);
    }
    return sum;
}

int main(void)
{
    const double lower[D] = {0, 0, 0}, upper[D] = {INFINITY, INFINITY, 1}, level[] = {0.05, 0.5, 0.95};
    static const char *const names[D] = {"rate", "level", "share"};
    double mean[D], var[D], mcse[D], sd_se[D], tail_k[D], quantile[D * 3], quantile_se[D * 3], *theta;
    const wvgd_description to = {mean, var, mcse, sd_se, tail_k, quantile, quantile_se};
    const double *z;
    size_t n;
    wvgd_model inner, model;
    wvgd_options options;
    wvgd_results r;
    wvgd_error error;

    if (wvgd_model_pointwise(&inner, D, decay, NULL, false) || wvgd_model_bounded(&model, &inner, lower, upper))
        return 1;
    wvgd_options_init(&options);
    wvgd_fit *fit = wvgd_new(&model, &options, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK ||
        wvgd_draws(fit, &n, &z, NULL, NULL, NULL, &error) != WVGD_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    wvgd_get_results(fit, &r);
    theta = malloc(n * D * sizeof *theta); /* the draws, within their limits */
    if (!theta || wvgd_model_parameters(&model, n, z, theta) ||
        wvgd_describe(fit, D, theta, 3, level, &to, &error) != WVGD_OK)
        return 1;
    printf("log evidence %.3f +- %.3f, %s, %zu values of the density\n", r.evidence.value, r.evidence.se,
           r.reliable ? "reliable" : "unreliable", r.evaluations);
    for (size_t i = 0; i < D; i++)
        printf("%-6s mean %8.4f  sd %7.4f  90 %% from %8.4f to %8.4f\n", names[i], mean[i], sqrt(var[i]),
               quantile[3 * i], quantile[3 * i + 2]);
    free(theta);
    wvgd_free(fit);
    wvgd_model_close(&model);
    wvgd_model_close(&inner);
    return 0;
}
