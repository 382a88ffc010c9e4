/* quickstart.c - from a log density to an answer.
 *
 *     cc quickstart.c $(pkg-config --cflags --libs wvgd) -lm && ./a.out
 *
 * The density: two hills in the plane, the higher one at (2, 1) with 70 % of the mass and the lower one at (-2, 0)
 * with 30 %. Its integral is 5: in Bayesian words, the evidence. We pretend not to know any of this, and ask for it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wvgd.h>

/* Log density of one point, and its gradient where it is wanted. Any constant may be left out, or put in: 5, here. */
static double two_hills(void *self, const double *z, double *grad)
{
    (void)self; /* data would come through here */
    double a = log(5 * 0.7) - 0.5 * (pow(z[0] - 2, 2) + pow(z[1] - 1, 2)) - log(2 * 3.14159265);
    double b = log(5 * 0.3) - 0.5 * (pow(z[0] + 2, 2) + pow(z[1] - 0, 2)) - log(2 * 3.14159265);
    double top = fmax(a, b), log_p = top + log(exp(a - top) + exp(b - top)), on_a = exp(a - log_p),
           on_b = exp(b - log_p);
    if (grad) {
        grad[0] = -on_a * (z[0] - 2) - on_b * (z[0] + 2);
        grad[1] = -on_a * (z[1] - 1) - on_b * (z[1] - 0);
    }
    return log_p;
}

int main(void)
{
    wvgd_model model;
    wvgd_options options;
    wvgd_error error;
    /* good defaults; wvgd_options_set(&options, "family", "diag", &error) changes one by name */
    wvgd_options_init(&options);
    options.particles = 4;
    if (wvgd_model_pointwise(&model, 2, two_hills, NULL, true) != 0)
        return EXIT_FAILURE;
    wvgd_fit *fit = wvgd_new(&model, &options, NULL, &error); /* NULL: it looks for good starting points itself */
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK) {
        fprintf(stderr, "%s\n", error.text);
        return EXIT_FAILURE;
    }
    wvgd_results r;
    wvgd_get_results(fit, &r); /* views into the fit: nothing to free */

    printf("Four particles, each with the mass of the points nearest to it:\n\n");
    for (size_t j = 0; j < r.N; j++)
        printf("    (%6.2f, %6.2f)  %4.1f %%  %.*s\n", r.z[2 * j], r.z[2 * j + 1], 100 * r.beta[j],
               (int)lround(60 * r.beta[j]), "############################################################");
    printf("\nMean           (%6.3f, %6.3f)       exactly: (0.800, 0.700)\n", r.mean[0], r.mean[1]);
    printf("Log evidence    %6.3f +- %.3f        exactly: %.3f\n", r.evidence.value, r.evidence.se, log(5.0));
    printf("Lower bound     %6.3f +- %.3f        never above it, but for noise\n", r.pelbo.value, r.pelbo.se);
    printf("The run %s after %zu evaluations of the density.\n", wvgd_stop_name(r.stop), r.evaluations);
    for (size_t i = 0; i < r.warnings; i++)
        printf("Note: %s\n", r.warning[i]);
    wvgd_free(fit);
    wvgd_model_close(&model);
    return EXIT_SUCCESS;
}
