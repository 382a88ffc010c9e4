/* Fits a standard normal density through the installed library. Its log evidence is 0. */
#include <wvgd.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIM = 2 };

static int normal(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const double log_2pi = 1.8378770664093453;
    (void)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -0.5 * DIM * log_2pi;
        for (size_t d = 0; d < DIM; d++) {
            const double x = z[i * DIM + d];
            log_p[i] -= 0.5 * x * x;
            if (grad)
                grad[i * DIM + d] = -x;
        }
    }
    return 0;
}

int main(void)
{
    wvgd_model model = {.name = "normal", .dim = DIM, .log_density = normal, .has_gradient = true};
    wvgd_options options;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_results results;

    if (strcmp(wvgd_version(), WVGD_VERSION) != 0) {
        fprintf(stderr, "library %s, header %s\n", wvgd_version(), WVGD_VERSION);
        return 1;
    }
    wvgd_options_init(&options);
    options.particles = 2;
    wvgd_fit *fit = wvgd_new(&model, &options, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK) {
        fprintf(stderr, "%s\n", error.text);
        wvgd_free(fit);
        return 1;
    }
    wvgd_get_results(fit, &results);
    printf("wvgd %s from C: pelbo %.4f\n", wvgd_version(), results.pelbo.value);
    const bool good = fabs(results.pelbo.value) < 0.5;
    wvgd_free(fit);
    return good ? 0 : 1;
}
