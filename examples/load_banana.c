/* load_banana.c - loads a model from a shared object (banana.c, unless you name another) and fits it.
 *
 *     load_banana [OBJECT.so [CONFIG]]
 *
 * A bent posterior is hard for one Gaussian. Watch the lower bound rise as more particles, each with its own
 * Gaussian in its own cell, share the work. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wvgd.h>

typedef int open_function(wvgd_model *model, const char *config, char *error, size_t error_size);

/* banana.so lies beside this program. */
static void beside(const char *program, char *path, size_t size)
{
    const char *slash = strrchr(program, '/');
    snprintf(path, size, "%.*s/banana.so", slash ? (int)(slash - program) : 1, slash ? program : ".");
}

static int load(wvgd_model *model, const char *path, const char *config)
{
    char message[256] = "";
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays loaded: the model's code lives there */
    void *symbol = object ? dlsym(object, "wvgd_model_open") : NULL;
    open_function *open_model;
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    memcpy(&open_model, &symbol, sizeof symbol); /* POSIX says that this pointer is a function's */
    if (open_model(model, config, message, sizeof message) != 0) {
        fprintf(stderr, "%s: %s\n", path, message);
        return -1;
    }
    return 0;
}

static int fit_with(const wvgd_model *model, size_t particles)
{
    wvgd_options options;
    wvgd_error error;
    wvgd_results r;
    wvgd_options_init(&options);
    options.particles = particles;
    wvgd_fit *fit = wvgd_new(model, &options, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK) {
        fprintf(stderr, "%s\n", error.text);
        wvgd_free(fit);
        return -1;
    }
    wvgd_get_results(fit, &r);
    printf("%9zu   %8.3f   %8.3f +- %.3f   %11zu\n", r.N, r.pelbo.value, r.evidence.value, r.evidence.se,
           r.evaluations);
    wvgd_free(fit);
    return 0;
}

int main(int argc, char **argv)
{
    wvgd_model model;
    char path[4096];
    beside(argv[0], path, sizeof path);
    if (load(&model, argc > 1 ? argv[1] : path, argc > 2 ? argv[2] : NULL) != 0)
        return EXIT_FAILURE;
    printf("%s, %zu dimensions\n\nparticles   bound      log evidence         evaluations\n",
           model.name ? model.name : "model", model.dim);
    int failed = 0;
    for (size_t particles = 1; particles <= 9 && !failed; particles = 2 * particles + 1)
        failed = fit_with(&model, particles);
    wvgd_model_close(&model);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
