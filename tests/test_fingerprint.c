/* test_fingerprint.c - the bits of results: about a dozen models, both solvers, every stage, family,
 * cost and estimator, other cells from the same draws. A hash of each result (particles, masses,
 * components, evidence, moments, draws, trace, ...) is compared with tests/data/fingerprints.txt, so
 * that no change of the code changes a result unseen. Each fit is also run with two threads, and once
 * more from a state saved in the middle: the same bits.
 *
 *     test_fingerprint            compares; exit 0: equal, 1: not, 77: cannot be compared here (the
 *                                 reason is printed)
 *     test_fingerprint --write    writes the file anew (make fingerprints)
 *     test_fingerprint --values   prints all values as well, for scripts/compare-fingerprints
 *
 * Bits depend on the instruction set, the BLAS kernels, the compiler and the C library. The first two are forced:
 * the linker puts __wrap_wv_instructions_best in the place of the library's choice, and OpenBLAS gets the kernels of
 * a Haswell, which every processor with AVX2 can run. The others are named in the file: where they differ from those
 * here, and the bits do, too, nothing can be said. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "simd/instructions.h"
#include "model_data.h"
#include "models.h"
#include "support/targets.h"
#include "wvgd.h"

enum { SKIPPED = 77, SAMPLES = 200, LINE = 256 };
static const char *const KERNELS = "Haswell";
static const char *const FILE_NAME = WVGD_SOURCE_DIR "/tests/data/fingerprints.txt";

/* Absent where the BLAS is another one. */
__attribute__((weak)) char *openblas_get_corename(void);
__attribute__((weak)) char *openblas_get_config(void);

wv_instructions __real_wv_instructions_best(void);
wv_instructions __wrap_wv_instructions_best(void);
wv_instructions __wrap_wv_instructions_best(void)
{
    return WV_AVX2;
}

_Noreturn static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "test_fingerprint: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void *need(void *memory)
{
    if (!memory)
        give_up("malloc", "no memory");
    return memory;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */
static int make_banana(wvgd_model *model)
{
    return target_banana(model, 2, 1, 1);
}

static int make_modes(wvgd_model *model)
{
    return target_mixture_random(model, 2, 3, 4.0, 5);
}

static int make_wide(wvgd_model *model)
{
    return target_gaussian_random(model, 160, 100, 3, true);
}

/* Two overlapping Gaussians in four dimensions, by the built-in model. */
static int make_mixture(wvgd_model *model)
{
    enum { D = 4, K = 2 };
    const double weight[K] = {1, 2}, mean[K * D] = {0, 0, 0, 0, 2, 1, 0, -1};
    double cov[K * D * D];
    for (size_t i = 0; i < sizeof cov / sizeof *cov; i++) {
        size_t a = i / D % D, b = i % D;
        cov[i] = a == b ? 1 + (double)a / 2 : 0.3;
    }
    return wv_model_mixture(model, D, K, weight, mean, cov);
}

typedef int constructor(wvgd_model *model, const wv_regression *data);

/* The first `rows` rows of data/diabetes.csv or cancer.csv, standardised. */
static int from_file(wvgd_model *model, const char *path, const char *target, target_kind kind, size_t rows,
                     constructor *construct)
{
    regression_data d;
    failure f;
    if (read_regression(path, &(table_options){.target = target}, kind, &d, &f))
        return -1;
    wv_regression data = {
        rows < d.rows ? rows : d.rows, d.columns, d.X, d.y, d.names, true, true, 1, NULL, false, NULL};
    int status = construct(model, &data);
    free_regression(&d);
    return status;
}

static int make_cancer(wvgd_model *model)
{
    return from_file(model, WVGD_SOURCE_DIR "/data/cancer.csv", NULL, TARGET_LABELS, SIZE_MAX, wv_model_logistic);
}

static int make_diabetes(wvgd_model *model)
{
    return from_file(model, WVGD_SOURCE_DIR "/data/diabetes.csv", "bp", TARGET_REAL, SIZE_MAX, wv_model_linear);
}

static int network(wvgd_model *model, const wv_regression *data)
{
    return wv_model_bnn(model, data, 1, true);
}

static int make_network(wvgd_model *model)
{
    return from_file(model, WVGD_SOURCE_DIR "/data/diabetes.csv", NULL, TARGET_LABELS, 40, network);
}

/* A Gaussian process of 30 noisy points of a decaying wave; the noise is a wave too fast to follow. */
static int make_process(wvgd_model *model)
{
    enum { n = 30 };
    double t[n], y[n];
    for (size_t i = 0; i < n; i++) {
        t[i] = (double)i / 6;
        y[i] = cos(6 * t[i]) * exp(-t[i] / 4) + 0.1 * sin(1000 * t[i]);
    }
    const wv_gp_prior prior = {{0, 0, 0, -3}, {1, 0.5, 1, 1}};
    return wv_model_gp(model, n, t, y, &prior);
}

/* ---- the fits ---------------------------------------------------------------------------------------------------- */
typedef struct {
    const char *name;
    int (*make)(wvgd_model *);
    const char *options;  /* NAME=VALUE, with blanks between them */
    const char *quantize; /* options of other cells from the same draws, or NULL */
} row;

static const row ROWS[] = {
    {"banana", make_banana, "particles=4 cost=own", "particles=3 cost=sqeuclid family=diag"},
    {"modes", make_modes, "particles=5 family=diag cost=sqeuclid", "particles=2 cost=l1"},
    {"skewed", target_skewed, "particles=3 family=lowrank rank=2 cost=l1", NULL},
    {"skewed-diag", target_skewed, "particles=3 family=diag cells=soft", NULL},
    {"one-particle", target_skewed, "particles=1 evidence-se=0.01", "particles=20"},
    {"student", target_student, "particles=3 cost=lp power=1.5 seed=2", NULL},
    {"callback", make_modes, "particles=3 cost=callback", NULL},
    {"mixture", make_mixture, "particles=4 components=2 evidence-se=0.003", NULL},
    {"cancer", make_cancer, "particles=5", "particles=2 family=diag"},
    {"diabetes", make_diabetes, "particles=2 seed=3", NULL},
    {"network", make_network, "particles=2 components=6 starts=8 max-iter=60", NULL},
    {"process", make_process, "particles=3 init=prior", NULL},
    {"stopped", make_banana, "particles=2 max-iter=3", NULL},
    {"joint", make_modes, "solver=joint particles=2 max-iter=400 tol=0.1 cost=own", NULL},
    {"joint-pilot", make_modes, "solver=joint particles=3 family=diag max-iter=40", NULL},
    {"joint-soft", make_modes, "solver=joint particles=3 family=lowrank rank=1 cells=soft cost=sqeuclid max-iter=30",
     NULL},
    {"joint-score", make_banana, "solver=joint particles=3 family=diag estimator=score cost=l1 init=normal max-iter=30",
     NULL},
    {"joint-reject", make_modes, "solver=joint particles=3 estimator=reparam sampler=reject cost=lp max-iter=30", NULL},
    {"joint-callback", make_modes, "solver=joint particles=3 cost=callback max-iter=30", NULL},
    {"joint-cancer", make_cancer, "solver=joint particles=3 family=diag max-iter=20", NULL},
    {"joint-many", make_mixture, "solver=joint particles=300 family=diag cost=sqeuclid init=normal max-iter=4 draws=64",
     NULL},
    {"joint-wide", make_wide, "solver=joint particles=2 family=lowrank rank=3 max-iter=12", NULL},
};
enum { FITS = sizeof ROWS / sizeof *ROWS };

/* Stages that some fit must come to. */
static const char *const STAGES[] = {"explore", "fit",   "trial", "bend",   "probe",   "close", "refine",
                                     "certify", "bound", "pilot", "settle", "average", "done"};
enum { STAGE_NAMES = sizeof STAGES / sizeof *STAGES };
static bool seen[STAGE_NAMES];

static void set_options(wvgd_options *o, const char *text)
{
    char copy[LINE], *rest = NULL;
    wvgd_error error;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (!value)
            give_up(word, "expected NAME=VALUE");
        *value++ = '\0';
        if (wvgd_options_set(o, word, value, &error) != WVGD_OK)
            give_up(text, error.text);
    }
    if (o->cost == WVGD_CALLBACK)
        o->cost_function = target_smooth_cost;
}

static const char *stage_of(const wvgd_fit *fit)
{
    wvgd_progress p;
    wvgd_get_progress(fit, &p);
    for (size_t i = 0; i < STAGE_NAMES; i++)
        seen[i] |= !strcmp(p.stage, STAGES[i]);
    return p.stage;
}

static wvgd_fit *begin(const wvgd_model *model, const wvgd_options *o)
{
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(model, o, NULL, &error);
    if (!fit)
        give_up("wvgd_new", error.text);
    return fit;
}

/* Steps until the fit has ended, `most` at most; how many. */
static size_t step(wvgd_fit *fit, size_t most)
{
    wvgd_error error;
    size_t steps = 0;
    for (; steps < most && strcmp(stage_of(fit), "done"); steps++)
        if (wvgd_step(fit, &error) != WVGD_OK)
            give_up("wvgd_step", error.text);
    return steps;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
typedef struct {
    char name[64]; /* of the fit, a blank, of the result */
    size_t n, room;
    double *value; /* [n] */
} result;

typedef struct {
    size_t n;
    result *list;
} results;

static void add(results *r, const double *value, size_t n)
{
    if (!value)
        return;
    result *last = &r->list[r->n - 1];
    if (last->n + n > last->room) {
        last->room = 2 * (last->n + n) + 16;
        last->value = need(realloc(last->value, last->room * sizeof *value));
    }
    memcpy(last->value + last->n, value, n * sizeof *value);
    last->n += n;
}

static void add_one(results *r, double value)
{
    add(r, &value, 1);
}

static void add_estimate(results *r, wvgd_estimate e)
{
    add_one(r, e.value);
    add_one(r, e.se);
}

static void add_count(results *r, size_t count)
{
    add_one(r, (double)count);
}

static void add_text(results *r, const char *text)
{
    for (; *text; text++)
        add_one(r, (unsigned char)*text);
    add_one(r, '\n');
}

static void name_next(results *r, const char *fit, const char *what)
{
    r->list = need(realloc(r->list, (r->n + 1) * sizeof *r->list));
    r->list[r->n] = (result){.value = NULL};
    snprintf(r->list[r->n++].name, sizeof r->list->name, "%s %s", fit, what);
}

static void add_particles(results *r, const char *fit, const wvgd_results *w)
{
    size_t N = w->N, D = w->D;
    name_next(r, fit, "particles");
    add(r, w->z, N * D);
    name_next(r, fit, "masses");
    add(r, w->beta, N);
    add(r, w->beta_se, N);
    name_next(r, fit, "weights");
    add(r, w->weight, N);
    name_next(r, fit, "components");
    add(r, w->mu, N * D);
    add(r, w->sd, N * D);
    add(r, w->chol, w->chol ? N * D * D : 0);
    name_next(r, fit, "cells");
    add(r, w->cell_cov, w->chol ? N * D * D : N * D);
    add(r, w->cell_ess, N);
    add(r, w->cell_pareto_k, N);
    name_next(r, fit, "bounds");
    add(r, w->log_Z, N);
    add(r, w->elbo, N);
    add(r, w->elbo_se, N);
}

static void add_evidence(results *r, const char *fit, const wvgd_results *w)
{
    size_t K = w->components, D = w->D;
    name_next(r, fit, "evidence");
    add_estimate(r, w->evidence);
    add_estimate(r, w->pelbo);
    add_estimate(r, w->pelbo_beta);
    name_next(r, fit, "distortion");
    add_estimate(r, w->distortion);
    name_next(r, fit, "diagnostics");
    add_one(r, w->ess);
    add_one(r, w->pareto_k);
    add_one(r, w->pareto_k_limit);
    add_one(r, w->meanfield_gap);
    add_one(r, w->expected_unseen);
    name_next(r, fit, "counts");
    const size_t counts[] = {w->stop,          w->iterations, w->evaluations, w->bad_points, w->zero_points,
                             w->closing_draws, w->starts,     w->modes,       w->hit_once,   K};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        add_count(r, counts[i]);
    name_next(r, fit, "modes");
    add(r, w->mode, w->modes * D);
    name_next(r, fit, "mixture");
    add(r, w->component_weight, K);
    add(r, w->component_mu, K * D);
    add(r, w->component_chol, K * D * D);
    name_next(r, fit, "moments");
    add(r, w->mean, D);
    add(r, w->var, D);
    add(r, w->mcse, D);
    name_next(r, fit, "verdict");
    add_text(r, w->reliable ? "reliable" : "unreliable");
    for (size_t i = 0; i < w->reasons; i++)
        add_text(r, w->reason[i]);
    for (size_t i = 0; i < w->warnings; i++)
        add_text(r, w->warning[i]);
}

/* Closing draws with their weights, and draws from the ensemble and the posterior. */
static void add_draws(results *r, const char *name, const wvgd_fit *fit, size_t D)
{
    size_t n, cell[SAMPLES];
    const double *z, *log_p, *log_w;
    const uint32_t *cells;
    wvgd_error error;
    double *drawn = need(malloc(SAMPLES * D * sizeof *drawn)), log_q[SAMPLES];
    if (wvgd_draws(fit, &n, &z, &log_p, &log_w, &cells, &error) != WVGD_OK)
        give_up(name, error.text);
    name_next(r, name, "draws");
    add(r, z, n * D);
    add(r, log_p, n);
    name_next(r, name, "draw-weights");
    add(r, log_w, n);
    add(r, wvgd_draw_weights(fit), n);
    for (size_t i = 0; i < n; i++)
        add_count(r, cells[i]);
    name_next(r, name, "samples");
    if (wvgd_sample(fit, 1, SAMPLES, drawn, cell, &error) != WVGD_OK ||
        wvgd_log_q(fit, SAMPLES, drawn, log_q, &error) != WVGD_OK)
        give_up(name, error.text);
    add(r, drawn, SAMPLES * D);
    add(r, log_q, SAMPLES);
    for (size_t i = 0; i < SAMPLES; i++)
        add_count(r, cell[i]);
    name_next(r, name, "resampled");
    if (wvgd_resample(fit, 1, SAMPLES, drawn, cell, &error) != WVGD_OK)
        give_up(name, error.text);
    add(r, drawn, SAMPLES * D);
    free(drawn);
}

/* Expectations of the squares of the parameters. */
static void add_expectations(results *r, const char *name, const wvgd_fit *fit, size_t D)
{
    size_t n;
    const double *z;
    wvgd_error error;
    if (wvgd_draws(fit, &n, &z, NULL, NULL, NULL, &error) != WVGD_OK)
        give_up(name, error.text);
    double *square = need(malloc(n * D * sizeof *square)), *moment = need(malloc(3 * D * sizeof *moment));
    for (size_t i = 0; i < n * D; i++)
        square[i] = z[i] * z[i];
    if (wvgd_expect(fit, D, square, moment, moment + D, moment + 2 * D, &error) != WVGD_OK)
        give_up(name, error.text);
    name_next(r, name, "expectations");
    add(r, moment, 3 * D);
    free(square);
    free(moment);
}

/* All but times. */
static void add_trace(results *r, const char *name, const wvgd_fit *fit, size_t N)
{
    size_t rows;
    const wvgd_trace_row *t = wvgd_trace(fit, &rows);
    name_next(r, name, "trace");
    for (size_t i = 0; i < rows; i++) {
        add_count(r, t[i].iteration);
        add_count(r, t[i].evaluations);
        add(r, (const double[]){t[i].pelbo, t[i].pelbo_se, t[i].distortion, t[i].ess, t[i].step}, 5);
    }
    add(r, wvgd_trace_beta(fit), rows * N);
}

static void take(results *r, const char *name, const wvgd_fit *fit)
{
    wvgd_results w;
    wvgd_get_results(fit, &w);
    add_particles(r, name, &w);
    add_evidence(r, name, &w);
    add_draws(r, name, fit, w.D);
    add_expectations(r, name, fit, w.D);
    add_trace(r, name, fit, w.N);
}

static void free_results(results *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->list[i].value);
    free(r->list);
}

/* FNV-1a of the bytes; all NaNs are one. */
static uint64_t hash(const result *r)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < r->n; i++) {
        double value = isnan(r->value[i]) ? NAN : r->value[i];
        unsigned char byte[sizeof value];
        memcpy(byte, &value, sizeof value);
        for (size_t k = 0; k < sizeof byte; k++)
            h = (h ^ byte[k]) * 1099511628211u;
    }
    return h;
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */
/* The results of a whole fit are those of r->list from `first` on. */
static bool same(const results *r, size_t first, const char *name, const wvgd_fit *fit, const char *how)
{
    results other = {0};
    bool equal = true;
    take(&other, name, fit);
    for (size_t i = 0; i < other.n; i++) {
        const result *a = &r->list[first + i], *b = &other.list[i];
        if (a->n == b->n && hash(a) == hash(b))
            continue;
        fprintf(stderr, "test_fingerprint: %s differs %s\n", b->name, how);
        equal = false;
    }
    free_results(&other);
    return equal;
}

static wvgd_fit *resumed(const wvgd_model *model, const wvgd_options *o, size_t steps)
{
    wvgd_fit *half = begin(model, o), *rest = begin(model, o);
    wvgd_error error;
    step(half, steps);
    size_t size = wvgd_save_size(half);
    void *state = need(malloc(size));
    if (wvgd_save(half, state, size, &error) != WVGD_OK || wvgd_restore(rest, state, size, &error) != WVGD_OK)
        give_up("resume", error.text);
    step(rest, SIZE_MAX);
    free(state);
    wvgd_free(half);
    return rest;
}

static void take_quantized(results *r, const row *c, const wvgd_fit *fit, wvgd_options o)
{
    char name[64];
    wvgd_error error;
    set_options(&o, c->quantize);
    snprintf(name, sizeof name, "%s-quantized", c->name);
    wvgd_fit *other = wvgd_quantize(fit, &o, &error);
    if (!other)
        give_up(name, error.text);
    step(other, SIZE_MAX);
    take(r, name, other);
    wvgd_free(other);
}

static bool take_row(results *r, const row *c)
{
    wvgd_model bare, one, two;
    wvgd_options o;
    size_t first = r->n;
    wvgd_options_init(&o);
    set_options(&o, c->options);
    if (c->make(&bare) || wvgd_model_threads(&one, &bare, 1) || wvgd_model_threads(&two, &bare, 2))
        give_up(c->name, "the model cannot be made");
    wvgd_fit *whole = begin(&one, &o);
    size_t steps = step(whole, SIZE_MAX);
    take(r, c->name, whole);
    if (c->quantize)
        take_quantized(r, c, whole, o);
    wvgd_free(whole);
    wvgd_fit *rest = resumed(&one, &o, steps / 2);
    bool equal = same(r, first, c->name, rest, "when it is resumed in the middle");
    wvgd_free(rest);
    o.threads = 2;
    wvgd_fit *shared = begin(&two, &o);
    step(shared, SIZE_MAX);
    equal &= same(r, first, c->name, shared, "with two threads");
    wvgd_free(shared);
    wvgd_model_close(&two);
    wvgd_model_close(&one);
    wvgd_model_close(&bare);
    return equal;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */
/* What bits depend on beside the code. */
static const char *tools(void)
{
    static char text[LINE];
    char blas[64] = "?";
    const char *compiler = "gcc ", *library = "?", *optimised = ", not optimised";
#ifdef __clang__
    compiler = ""; /* __VERSION__ has its name */
#endif
#ifdef __GLIBC__
    library = gnu_get_libc_version();
#endif
#ifdef __OPTIMIZE__
    optimised = "";
#endif
    sscanf(openblas_get_config(), "OpenBLAS %63s", blas);
    snprintf(text, sizeof text, "%s%s, OpenBLAS %s, glibc %s%s", compiler, __VERSION__, blas, library, optimised);
    return text;
}

static const char MADE_WITH[] = "# made with ";

static void print_row(FILE *file, const result *r)
{
    fprintf(file, "%s %zu %016llx", r->name, r->n, (unsigned long long)hash(r));
}

static int write_file(const results *r)
{
    FILE *file = fopen(FILE_NAME, "w");
    if (!file)
        give_up(FILE_NAME, "cannot be written");
    fprintf(file,
            "# Hashes of results, written by `make fingerprints`: fit, result, count of numbers, FNV-1a of their "
            "bits.\n%s%s\n",
            MADE_WITH, tools());
    for (size_t i = 0; i < r->n; i++) {
        print_row(file, &r->list[i]);
        fputc('\n', file);
    }
    if (fclose(file))
        give_up(FILE_NAME, "cannot be written");
    printf("%zu fingerprints of %d fits written to %s\n", r->n, FITS, FILE_NAME);
    return EXIT_SUCCESS;
}

static int print_values(const results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        print_row(stdout, &r->list[i]);
        for (size_t k = 0; k < r->list[i].n; k++)
            printf(" %a", r->list[i].value[k]);
        putchar('\n');
    }
    return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The lines of the file; how it was made. NULL at the end. */
static char **read_file(char made_with[LINE], size_t *n)
{
    char line[LINE], **lines = NULL;
    FILE *file = fopen(FILE_NAME, "r");
    if (!file)
        give_up(FILE_NAME, "cannot be read");
    *n = 0;
    *made_with = '\0';
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, MADE_WITH, strlen(MADE_WITH)))
            snprintf(made_with, LINE, "%.*s", LINE - 32, line + strlen(MADE_WITH));
        if (*line == '#')
            continue;
        lines = need(realloc(lines, (*n + 1) * sizeof *lines));
        lines[(*n)++] = need(strdup(line));
    }
    fclose(file);
    return lines;
}

/* Whether the file has this line; what it has under the same name instead goes to stderr. */
static bool known(const result *r, char *const *lines, size_t n)
{
    char line[LINE];
    size_t length = strlen(r->name);
    snprintf(line, sizeof line, "%s %zu %016llx", r->name, r->n, (unsigned long long)hash(r));
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(lines[i], line))
            return true;
        if (!strncmp(lines[i], line, length) && lines[i][length] == ' ') {
            fprintf(stderr, "test_fingerprint: %s, where the file has%s\n", line, lines[i] + length);
            return false;
        }
    }
    fprintf(stderr, "test_fingerprint: %s is not in the file\n", r->name);
    return false;
}

static int compare(const results *r)
{
    char made_with[LINE];
    size_t n, changed = 0;
    char **lines = read_file(made_with, &n);
    for (size_t i = 0; i < r->n; i++)
        changed += !known(&r->list[i], lines, n);
    for (size_t i = 0; i < n; i++)
        free(lines[i]);
    free(lines);
    if (!changed && n == r->n) {
        printf("%zu fingerprints of %d fits are as they were\n", n, FITS);
        return EXIT_SUCCESS;
    }
    if (*made_with && n && strcmp(made_with, tools())) {
        printf("skipped: %zu of %zu fingerprints differ, but they were made with %s, and here is %s\n", changed, r->n,
               made_with, tools());
        return SKIPPED;
    }
    fprintf(stderr,
            "test_fingerprint: %zu of %zu results have changed (%zu in the file). scripts/compare-fingerprints says by "
            "how much. If they were meant to, `make fingerprints` writes the new ones.\n",
            changed, r->n, n);
    return EXIT_FAILURE;
}

/* ---- the processor ----------------------------------------------------------------------------------------------- */
/* Why bits cannot be compared here, or NULL. */
static const char *hindrance(void)
{
    if (__real_wv_instructions_best() < WV_AVX2)
        return "this processor has no AVX2 with FMA";
    if (!openblas_get_corename || !openblas_get_config)
        return "the BLAS is not OpenBLAS, whose kernels could be chosen";
    if (strcmp(openblas_get_corename(), KERNELS))
        return "this OpenBLAS does not take OPENBLAS_CORETYPE=Haswell: it was built for one processor";
    return NULL;
}

/* OpenBLAS reads its environment when it is loaded: with another one the program begins again. */
static void force_kernels(char **argv)
{
    const char *kernels = getenv("OPENBLAS_CORETYPE"), *threads = getenv("OPENBLAS_NUM_THREADS");
    if (kernels && !strcmp(kernels, KERNELS) && threads && !strcmp(threads, "1"))
        return;
    setenv("OPENBLAS_CORETYPE", KERNELS, 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
    give_up("execv", "cannot begin again with OPENBLAS_CORETYPE set");
}

int main(int argc, char **argv)
{
    results r = {0};
    bool equal = true;
    force_kernels(argv);
    if (hindrance()) {
        printf("skipped: %s\n", hindrance());
        return SKIPPED;
    }
    for (size_t i = 0; i < FITS; i++)
        equal &= take_row(&r, &ROWS[i]);
    for (size_t i = 0; i < STAGE_NAMES; i++)
        if (!seen[i])
            give_up(STAGES[i], "no fit came to this stage");
    int status = argc > 1 && !strcmp(argv[1], "--write")    ? write_file(&r)
                 : argc > 1 && !strcmp(argv[1], "--values") ? print_values(&r)
                                                            : compare(&r);
    free_results(&r);
    return equal ? status : EXIT_FAILURE;
}
