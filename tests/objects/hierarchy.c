/* hierarchy.c - a model to load that needs bent coordinates: y_i ~ N(theta_i, 1), theta_i ~ N(mu, exp(s)), mu ~ N(0,
 * 3), s ~ N(0, 1), centred: the scale of the thetas depends on s. */
#include "wvgd_model.h"
#include <math.h>
#include <string.h>

enum { GROUPS = 8, DIM = GROUPS + 2 };

static const double y[GROUPS] = {1.9, 0.4, -0.3, 0.7, -0.1, 0.2, 2.1, 1.1};

/* The order of parameters is s, mu, thetas. */
static double at(const double *z, double *grad)
{
    double s = z[0], mu = z[1], precision = exp(-2 * s), value = -s * s / 2 - mu * mu / 18 - GROUPS * s;
    double g[DIM] = {-s - GROUPS, -mu / 9};
    for (size_t i = 0; i < GROUPS; i++) {
        double away = z[2 + i] - mu, error = y[i] - z[2 + i];
        value -= away * away * precision / 2 + error * error / 2;
        g[0] += away * away * precision;
        g[1] += away * precision;
        g[2 + i] = error - away * precision;
    }
    memcpy(grad, g, sizeof g);
    return value;
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    double unused[DIM];
    (void)self;
    for (size_t i = 0; i < n; i++)
        log_p[i] = at(z + i * DIM, grad ? grad + i * DIM : unused);
    return 0;
}

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size)
{
    (void)config;
    (void)error;
    (void)error_size;
    *model = (wvgd_model){
        .name = "hierarchy", .dim = DIM, .log_density = log_density, .has_gradient = true, .thread_safe = true};
    return 0;
}
