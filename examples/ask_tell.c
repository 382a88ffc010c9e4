/* ask_tell.c - you evaluate the points; the fit only asks and is told.
 *
 * For densities that live where a callback cannot go: on another machine, behind a queue, in another language. The
 * model has no log_density at all. Each round the fit asks for a batch of points, you find their log densities (and
 * gradients, if it wants them) in whatever way and order you like, and tell them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wvgd.h>

enum { D = 3 };

/* Stands for the expensive thing: three independent logistic distributions, e^-z / (1 + e^-z)^2 each.
 * The evidence is 1, the variance pi^2/3. */
static void evaluate_elsewhere(size_t n, const double *z, double *log_p, double *grad)
{
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            double x = z[i * D + d];
            log_p[i] -= fabs(x) + 2 * log1p(exp(-fabs(x))); /* the density is symmetric: this form is safe for any x */
            if (grad)
                grad[i * D + d] = -tanh(x / 2);
        }
    }
}

/* One question and its answer: 1, or 0 when the fit has ended, or -1. */
static int one_round(wvgd_fit *fit, wvgd_error *error)
{
    size_t n;
    const double *z; /* [n][D], valid until wvgd_tell */
    bool wants_gradients;
    if (wvgd_ask(fit, &n, &z, &wants_gradients, error) != WVGD_OK)
        return -1;
    if (n == 0)
        return 0;
    double *log_p = malloc(n * sizeof *log_p), *grad = malloc(n * D * sizeof *grad);
    wvgd_status status = WVGD_E_MEMORY;
    if (log_p && grad) {
        evaluate_elsewhere(n, z, log_p, wants_gradients ? grad : NULL);
        status = wvgd_tell(fit, log_p, grad, error);
    }
    free(log_p);
    free(grad);
    return status == WVGD_OK ? 1 : -1;
}

int main(void)
{
    wvgd_model model = {.name = "asked by hand", .dim = D, .has_gradient = true}; /* log_density is NULL */
    wvgd_options options;
    wvgd_error error = {WVGD_OK, "no memory"};
    wvgd_options_init(&options);
    options.particles = 2;
    wvgd_fit *fit = wvgd_new(&model, &options, NULL, &error);
    int more = fit ? 1 : -1;
    for (const char *stage = ""; more > 0;) {
        wvgd_progress p;
        wvgd_get_progress(fit, &p);
        if (p.stage != stage) /* stages are constant strings */
            printf("after %6zu evaluations: %s\n", p.evaluations, stage = p.stage);
        more = one_round(fit, &error);
    }
    if (more < 0) {
        fprintf(stderr, "%s\n", error.text);
        wvgd_free(fit);
        return EXIT_FAILURE;
    }
    wvgd_results r;
    wvgd_get_results(fit, &r);
    printf("\nlog evidence %.3f +- %.3f (exactly 0), after %zu evaluations\n", r.evidence.value, r.evidence.se,
           r.evaluations);
    for (size_t d = 0; d < D; d++)
        printf("z[%zu]: mean %6.3f +- %.3f (0), sd %.3f (1.814)\n", d, r.mean[d], r.mcse[d], sqrt(r.var[d]));
    wvgd_free(fit);
    return EXIT_SUCCESS;
}
