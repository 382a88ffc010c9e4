/* stages.c - where the time of a fit goes: evaluations, time in the model and time outside it, for
 * each stage of the staged solver.
 *     stages [--raw] [DATA.csv [PARTICLES]]
 * fits a logistic regression (the last column is the label, features are standardised unless --raw) with defaults
 * and one thread; prints a Markdown table. Of five runs each cell is the least.
 *     stages --until MEAN_ERROR SD_ERROR REFERENCE.json DATA.csv [PARTICLES [SEED]]
 * prints seconds and evaluations after which what the fit has found until then (the heaviest mode's Gaussian; then
 * the mixture, the last one of which there was a trial while it grows; at the end the weighted draws) has all means
 * right to MEAN_ERROR sds and all log sds to SD_ERROR, and keeps them so to the end; "never" if it does not. */
#include "../models/models.h"
#include "../src/fit.h"
#include "../src/staged/mixture_fit.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 5, STAGES = 16, MOST_COLUMNS = 2000 };

typedef struct {
    const char *name;
    size_t batches, evaluations;
    double model, outside; /* seconds */
} stage;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "stages: %s: %s\n", what, why);
    exit(70);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The numbers of a file with a header: no checks beyond what this program needs, for it reads only files of ours. */
static wv_regression read_rows(const char *path, bool standardize)
{
    static const char *names[MOST_COLUMNS];
    static char head[1 << 16];
    FILE *file = fopen(path, "r");
    size_t columns = 1, n = 0, room = 1 << 16;
    double *numbers = malloc(room * sizeof *numbers), x;
    if (!file || !numbers || !fgets(head, sizeof head, file))
        die(path, "cannot be read");
    for (const char *c = head; *c; c++)
        columns += *c == ',';
    while (fscanf(file, "%lf%*[,\n]", &x) == 1) {
        if (n == room && !(numbers = realloc(numbers, (room *= 2) * sizeof *numbers)))
            die(path, "no memory");
        numbers[n++] = x;
    }
    fclose(file);
    size_t rows = n / columns, P = columns - 1;
    double *X = malloc((rows * P + 1) * sizeof *X), *y = malloc((rows + 1) * sizeof *y);
    if (!X || !y || P > MOST_COLUMNS || !P || !rows)
        die(path, "not a table");
    for (size_t i = 0; i < rows; i++) {
        memcpy(X + i * P, numbers + i * columns, P * sizeof *X);
        y[i] = numbers[i * columns + P];
    }
    for (size_t d = 0; d < P; d++)
        names[d] = "x";
    free(numbers);
    return (wv_regression){rows, P, X, y, names, standardize, true, 1.0, NULL, false, NULL};
}

static stage *find(stage *all, const char *name)
{
    size_t i = 0;
    while (i + 1 < STAGES && all[i].name && strcmp(all[i].name, name))
        i++;
    all[i].name = name;
    return &all[i];
}

/* ---- how soon a fit is right ------------------------------------------------------------------------------------- */
typedef struct {
    double mean[MOST_COLUMNS], sd[MOST_COLUMNS]; /* the truth */
    double mean_error, sd_error;                 /* what is still right */
    bool right;
    double seconds; /* since when */
    size_t evaluations;
} watch;

/* An array of numbers of a JSON file. */
static void read_numbers(const char *text, const char *name, size_t n, double *out)
{
    char key[32];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text, key);
    at = at ? strchr(at, '[') : NULL;
    for (size_t i = 0; i < n; i++) {
        char *end = NULL;
        out[i] = at ? strtod(at + 1, &end) : NAN;
        if (!end || end == at + 1)
            die(name, "not in the reference");
        at = end;
    }
}

static void read_truth(const char *path, size_t D, watch *w)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    if (!file || D > MOST_COLUMNS || !fread(text, 1, sizeof text - 1, file))
        die(path, "cannot be read");
    fclose(file);
    read_numbers(text, "mean", D, w->mean);
    read_numbers(text, "sd", D, w->sd);
}

/* What the fit knows by now of the posterior: mean and sd; false: nothing. */
static bool known(wvgd_fit *fit, double *mean, double *sd)
{
    size_t D = fit->D;
    wvgd_results r;
    if (fit->stage == WV_EXPLORE) {
        size_t best = 0;
        for (size_t m = 1; m < fit->modes.n; m++)
            best = fit->modes.mode[m].elbo > fit->modes.mode[best].elbo ? m : best;
        memcpy(mean, fit->modes.x + best * D, D * sizeof *mean);
        wv_family_get(WVGD_FULL)->sd(D, 0, fit->modes.root + best * D * D, sd);
        return fit->modes.n > 0;
    }
    wvgd_get_results(fit, &r);
    if (r.stop != WVGD_RUNNING) {
        for (size_t i = 0; i < D; i++) {
            mean[i] = r.mean[i];
            sd[i] = sqrt(r.var[i]);
        }
        return true;
    }
    double *root = malloc(D * D * sizeof *root);
    /* growing: what it was before stands until it has ended */
    const wv_mixture *mix = fit->stage == WV_FIT && fit->mix_tried.K ? &fit->mix_tried : &fit->mix;
    bool fine = root && wv_mixture_moments(mix, mean, root, fit->arena);
    if (fine)
        wv_family_get(WVGD_FULL)->sd(D, 0, root, sd);
    free(root);
    return fine;
}

static void look(watch *w, wvgd_fit *fit, double seconds, size_t evaluations)
{
    static double mean[MOST_COLUMNS], sd[MOST_COLUMNS];
    bool right = known(fit, mean, sd);
    for (size_t i = 0; i < fit->D && right; i++)
        right = fabs(mean[i] - w->mean[i]) < w->mean_error * w->sd[i] && fabs(log(sd[i] / w->sd[i])) < w->sd_error;
    if (right && !w->right) {
        w->seconds = seconds;
        w->evaluations = evaluations;
    }
    w->right = right;
}

/* ---- a fit ------------------------------------------------------------------------------------------------------- */
/* One fit, batch by batch. A batch belongs to the stage that asked for it, with the answers to it. */
static void run(const wvgd_model *model, size_t particles, uint64_t seed, stage *all, watch *w)
{
    double spent = 0;
    size_t evaluations = 0;
    wvgd_options o;
    wvgd_error error;
    wvgd_progress p;
    size_t n, D = model->dim, room = 0;
    const double *z;
    double *log_p = NULL, *grad = NULL;
    bool gradient;
    wvgd_options_init(&o);
    o.particles = particles;
    o.seed = seed;
    double t = now();
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    if (!fit)
        die("fit", error.text);
    spent += now() - t;
    find(all, "new")->outside += spent;
    for (;;) {
        wvgd_get_progress(fit, &p);
        stage *s = find(all, p.stage);
        double begun = t = now();
        if (wvgd_ask(fit, &n, &z, &gradient, &error) != WVGD_OK)
            die("ask", error.text);
        s->outside += now() - t;
        if (n == 0) {
            if (w)
                look(w, fit, spent + now() - begun, evaluations);
            break;
        }
        if (n > room) {
            room = n;
            log_p = realloc(log_p, room * sizeof *log_p);
            grad = realloc(grad, room * D * sizeof *grad);
            if (!log_p || !grad)
                die("batch", "no memory");
        }
        t = now();
        if (model->log_density(model->self, n, z, log_p, gradient ? grad : NULL))
            die("model", "has failed");
        s->model += now() - t;
        t = now();
        if (wvgd_tell(fit, log_p, gradient ? grad : NULL, &error) != WVGD_OK)
            die("tell", error.text);
        s->outside += now() - t;
        spent += now() - begun;
        s->batches++;
        s->evaluations += n;
        evaluations += n;
        if (w)
            look(w, fit, spent, evaluations);
    }
    free(log_p);
    free(grad);
    wvgd_free(fit);
}

static int until(int argc, char **argv)
{
    static watch w;
    wvgd_model model;
    stage all[STAGES] = {{0}};
    wv_regression data = read_rows(argv[5], true);
    if (wv_model_logistic(&model, &data))
        die("model", "no memory");
    w.mean_error = strtod(argv[2], NULL);
    w.sd_error = strtod(argv[3], NULL);
    read_truth(argv[4], model.dim, &w);
    run(&model, argc > 6 ? strtoul(argv[6], NULL, 10) : 5, argc > 7 ? strtoul(argv[7], NULL, 10) : 1, all, &w);
    if (w.right)
        printf("%.6f %zu\n", w.seconds, w.evaluations);
    else
        printf("never\n");
    wvgd_model_close(&model);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 5 && !strcmp(argv[1], "--until"))
        return until(argc, argv);
    bool raw = argc > 1 && !strcmp(argv[1], "--raw");
    argc -= raw;
    argv += raw;
    wvgd_model model;
    wv_regression data = read_rows(argc > 1 ? argv[1] : WVGD_SOURCE_DIR "/data/cancer.csv", !raw);
    size_t particles = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    stage best[STAGES] = {{0}}, total = {.name = "all"};
    if (wv_model_logistic(&model, &data))
        die("model", "no memory");
    for (int k = 0; k < RUNS; k++) {
        stage all[STAGES] = {{0}};
        run(&model, particles, 1, all, NULL);
        for (size_t i = 0; i < STAGES; i++) {
            all[i].model = k ? fmin(all[i].model, best[i].model) : all[i].model;
            all[i].outside = k ? fmin(all[i].outside, best[i].outside) : all[i].outside;
            best[i] = all[i];
        }
    }
    printf("| stage | batches | evaluations | ms in the model | ms outside |\n| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < STAGES && best[i].name; i++) {
        total.batches += best[i].batches;
        total.evaluations += best[i].evaluations;
        total.model += best[i].model;
        total.outside += best[i].outside;
    }
    for (size_t i = 0; i <= STAGES; i++) {
        const stage *s = i < STAGES ? &best[i] : &total;
        if (s->name)
            printf("| %s | %zu | %zu | %.2f | %.2f |\n", s->name, s->batches, s->evaluations, 1e3 * s->model,
                   1e3 * s->outside);
    }
    wvgd_model_close(&model);
    return 0;
}
