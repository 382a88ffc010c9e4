/* banana.c - a model in a shared object: what `wvgd fit ./banana.so` loads, and load_banana.c too.
 *
 *     cc -shared -fPIC -Iinclude -o banana.so examples/banana.c -lm
 *
 * (no library to link with: the header wvgd_model.h is all it needs)
 *
 * The interface is one function under a fixed name:
 *
 *     int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);
 *
 * It fills *model and returns 0; or it writes a sentence to error (at most error_size bytes, the ending zero
 * among them) and returns another value, with *model as it was. config is text that the user has given, in
 * whatever form the model likes, or NULL; it is valid during the call only. model->close, if there is one, is
 * called once, when the model is no longer needed. Nothing else is looked up in the object. Do not print, and do
 * not exit: a program that you do not know is running you.
 *
 * This one is a normal distribution bent into a banana: x of N(0, sd^2), and y + bend (x^2 - sd^2) of N(0, 1).
 * config: "SD BEND", by default "2 0.5". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wvgd_model.h>

typedef struct {
    double sd, bend;
} banana;

/* n points z[n][2] at once. No state is changed, so any number of threads may be in here: thread_safe below. */
static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const banana *b = self;
    double variance = b->sd * b->sd, constant = -log(2 * 3.14159265358979323846) - log(b->sd);
    for (size_t i = 0; i < n; i++) {
        double x = z[2 * i], unbent = z[2 * i + 1] + b->bend * (x * x - variance);
        log_p[i] = constant - 0.5 * x * x / variance - 0.5 * unbent * unbent;
        if (grad) { /* NULL when nobody wants it */
            grad[2 * i] = -x / variance - 2 * b->bend * x * unbent;
            grad[2 * i + 1] = -unbent;
        }
    }
    /* another value would end the fit: keep it for real failures, and answer -INFINITY for a point without density */
    return 0;
}

static int read_config(banana *b, const char *config)
{
    char more;
    if (!config)
        return 0;
    return sscanf(config, "%lf %lf %c", &b->sd, &b->bend, &more) == 2 && isfinite(b->sd) && b->sd > 0 &&
                   isfinite(b->bend)
               ? 0
               : -1;
}

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size);

int wvgd_model_open(wvgd_model *model, const char *config, char *error, size_t error_size)
{
    static const char *const names[] = {"x", "y"};
    banana *b = malloc(sizeof *b);
    if (!b) {
        snprintf(error, error_size, "banana: no memory");
        return -1;
    }
    *b = (banana){.sd = 2, .bend = 0.5};
    if (read_config(b, config) != 0) {
        snprintf(error, error_size, "banana: the configuration is '%.60s': expected two numbers, SD > 0 and BEND",
                 config);
        free(b);
        return -1;
    }
    *model = (wvgd_model){.name = "banana",
                          .dim = 2,
                          .log_density = log_density,
                          .self = b,
                          .has_gradient = true,
                          .thread_safe = true,
                          .names = names,
                          .close = free};
    return 0;
}
