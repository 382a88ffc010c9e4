/* plugin.c - a model of our own interface: a standard normal in as many dimensions as the configuration
 * says (default 2). The configuration "broken" leaves log_density out, "names" gives a coordinate an empty
 * name, "silent" fails without a message, "locale" takes the user's locale for the whole program. */
#include "wvgd_model.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    size_t dim = *(const size_t *)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -0.91893853320467274178 * (double)dim;
        for (size_t d = 0; d < dim; d++) {
            log_p[i] -= z[i * dim + d] * z[i * dim + d] / 2;
            if (grad)
                grad[i * dim + d] = -z[i * dim + d];
        }
    }
    return 0;
}

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size)
{
    static const char *const names[] = {"a", ""};
    size_t dim = 2;
    if (config && strcmp(config, "silent") == 0)
        return 1;
    bool comma = config && strcmp(config, "locale") == 0;
    if (comma)
        setlocale(LC_ALL, "");
    if (config && *config >= '0' && *config <= '9')
        dim = (size_t)strtoul(config, NULL, 10);
    else if (config && !comma && strcmp(config, "broken") != 0 && strcmp(config, "names") != 0) {
        snprintf(error, error_size, "found the configuration \"%s\", expected a dimension", config);
        return 1;
    }
    size_t *self = malloc(sizeof *self);
    if (!self)
        return 1;
    *self = dim;
    *model = (wvgd_model){.name = "normal",
                          .dim = dim,
                          .log_density = log_density,
                          .self = self,
                          .has_gradient = true,
                          .thread_safe = true,
                          .close = free};
    if (config && strcmp(config, "broken") == 0)
        model->log_density = NULL;
    if (config && strcmp(config, "names") == 0)
        model->names = names;
    return 0;
}
