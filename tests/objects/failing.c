/* failing.c - models that fail, after the configuration: "zero" has density zero everywhere, "third" fails with
 * code 7 in its third call, "gradient" is a standard normal whose gradient has the wrong sign in its second
 * coordinate, "beyond" one where it has so only beyond 1 in the first, "hole" one whose log density is no number
 * there and "edge" one whose density is zero there, "nan" one whose gradient is no number anywhere, "exit", "_exit",
 * "_Exit" and "quick" end the program, as if all were well, when a density is asked for, and "open" and "_open" when
 * the model is opened; "child" starts a process that ends so, and goes on; "endless" never answers. */
#include "wvgd_model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);

typedef struct {
    char config[16];
    int calls;
} failing;

/* Ends the program, or never answers. */
static void end(const char *config)
{
    if (!strcmp(config, "exit"))
        exit(0);
    if (!strcmp(config, "_exit"))
        _exit(0);
    if (!strcmp(config, "_Exit"))
        _Exit(0);
    if (!strcmp(config, "quick"))
        quick_exit(0);
    if (!strcmp(config, "child") && !fork())
        _exit(0);
    while (wait(NULL) > 0)
        ;
    while (!strcmp(config, "endless"))
        pause();
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    failing *m = self;
    if (!strcmp(m->config, "third") && ++m->calls == 3)
        return 7;
    end(m->config);
    for (size_t i = 0; i < n; i++) {
        bool beyond = z[2 * i] > 1, zero = !strcmp(m->config, "zero") || (beyond && !strcmp(m->config, "edge"));
        bool turned = !strcmp(m->config, "gradient") || (beyond && !strcmp(m->config, "beyond"));
        log_p[i] = zero                                   ? -INFINITY
                   : beyond && !strcmp(m->config, "hole") ? NAN
                                                          : -(z[2 * i] * z[2 * i] + z[2 * i + 1] * z[2 * i + 1]) / 2;
        if (grad) {
            grad[2 * i] = strcmp(m->config, "nan") ? -z[2 * i] : NAN;
            grad[2 * i + 1] = turned ? z[2 * i + 1] : -z[2 * i + 1];
        }
    }
    return 0;
}

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size)
{
    static failing m;
    (void)error;
    (void)error_size;
    memset(&m, 0, sizeof m);
    if (config)
        strncpy(m.config, config, sizeof m.config - 1);
    if (!strcmp(m.config, "open"))
        exit(0);
    if (!strcmp(m.config, "_open"))
        _exit(0);
    *model = (wvgd_model){.name = "failing", .dim = 2, .log_density = log_density, .self = &m, .has_gradient = true};
    return 0;
}
