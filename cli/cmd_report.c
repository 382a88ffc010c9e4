/* cmd_report.c - wvgd report: a run directory as one HTML page, or as figures. What is in the files is always shown;
 * the fit itself, brought back from its saved state, adds draws of the ensemble and weighted draws, and the data
 * file what the model has to show. Where either is gone the page says so. */
#include "blas_memory.h"
#include "commands.h"
#include "figures.h"
#include "fit_options.h"
#include "fit_request.h"
#include "page.h"
#include "report.h"
#include "run_directory.h"
#include "run_record.h"
#include "saved_fit.h"
#include "text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

enum { ENSEMBLE_VALUES = 800000, LEAST_ENSEMBLE = 2000, MOST_ENSEMBLE = 20000 };

/* Arrays that a view points to. */
typedef struct {
    saved_fit saved;
    double *ensemble, *weight;
    size_t *ensemble_cell, *closing_cell;
    char no_data[1200];
} sources;

static void free_sources(sources *s)
{
    free_saved(&s->saved);
    free(s->ensemble);
    free(s->weight);
    free(s->ensemble_cell);
    free(s->closing_cell);
}

/* ---- what the fit adds ------------------------------------------------------------------------------------------- */
static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory for the draws of the report");
}

/* Turns coordinates z[n][D] into quantities x[n][P], in place where they are the same. */
static double *show_all(const opened_model *m, size_t n, double *z)
{
    if (!m->show)
        return z;
    double *x = malloc((n * m->shown + 1) * sizeof *x);
    if (x && m->restart)
        m->restart(m->show_self, m->seed);
    for (size_t i = 0; x && i < n; i++)
        if (m->show(m->show_self, z + i * m->model.dim, x + i * m->shown))
            for (size_t c = 0; c < m->shown; c++)
                x[i * m->shown + c] = NAN;
    free(z);
    return x;
}

static int take_ensemble(run_view *v, sources *s, failure *f)
{
    size_t n = ENSEMBLE_VALUES / (v->P + 1);
    wvgd_error error;
    n = n < LEAST_ENSEMBLE ? LEAST_ENSEMBLE : n > MOST_ENSEMBLE ? MOST_ENSEMBLE : n;
    if (s->saved.from_store && n > s->saved.stored.ensemble)
        n = s->saved.stored.ensemble;
    double *z = malloc(n * v->D * sizeof *z);
    s->ensemble_cell = malloc(n * sizeof *s->ensemble_cell);
    if (!z || !s->ensemble_cell) {
        free(z);
        return no_memory(f);
    }
    if (wvgd_sample(s->saved.fit, 1, n, z, s->ensemble_cell, &error) != WVGD_OK) {
        note(v, "cannot draw from the ensemble: %s", error.text);
        free(z);
        return 0;
    }
    s->ensemble = show_all(&s->saved.model, n, z);
    if (!s->ensemble)
        return no_memory(f);
    v->ensemble = (weighted_values){n, v->P, s->ensemble, NULL, s->ensemble_cell, v->N};
    return 0;
}

/* The closing draws with their weights, which draws.csv was resampled from. */
static int take_closing(run_view *v, sources *s, failure *f)
{
    size_t n;
    const double *z, *log_w;
    const uint32_t *cell;
    if (wvgd_draws(s->saved.fit, &n, &z, NULL, &log_w, &cell, NULL) != WVGD_OK)
        return 0;
    s->weight = malloc((n + 1) * sizeof *s->weight);
    s->closing_cell = malloc((n + 1) * sizeof *s->closing_cell);
    if (!s->weight || !s->closing_cell)
        return no_memory(f);
    for (size_t i = 0; i < n; i++) {
        s->weight[i] = exp(log_w[i]);
        s->closing_cell[i] = cell[i];
    }
    v->closing = (weighted_values){n, v->D, z, s->weight, s->closing_cell, v->N};
    return 0;
}

/* Particles as the quantities that are shown. */
static int take_particles(run_view *v, sources *s, failure *f)
{
    wvgd_results r;
    double *z = malloc((v->N * v->D + 1) * sizeof *z);
    if (!z)
        return no_memory(f);
    wvgd_get_results(s->saved.fit, &r);
    memcpy(z, r.z, v->N * v->D * sizeof *z);
    v->particle = show_all(&s->saved.model, v->N, z);
    return v->particle ? 0 : no_memory(f);
}

/* draws.csv once more, in the coordinates of the fit: the same stream gives the same draws. */
static int take_coordinates(run_view *v, sources *s, failure *f)
{
    wvgd_options options;
    if (!v->n || v->n != record_count(s->saved.asked, "output-draws", 1000) ||
        record_options(s->saved.asked, &options, f))
        return 0;
    v->coordinate = malloc(v->n * v->D * sizeof *v->coordinate);
    if (!v->coordinate)
        return no_memory(f);
    if (wvgd_resample(s->saved.fit, options.seed, v->n, v->coordinate, NULL, NULL) != WVGD_OK) {
        free(v->coordinate);
        v->coordinate = NULL;
    }
    return 0;
}

static int take_fit(run_view *v, sources *s, const model_trust *trust, failure *f)
{
    failure why;
    wvgd_results r;
    if (load_saved(&s->saved, v->dir, trust, &why)) {
        note(v, "the fit could not be restored, so the density of the ensemble is missing: %s", why.text);
        return 0;
    }
    wvgd_get_results(s->saved.fit, &r);
    if (r.N != v->N || r.D != v->D || s->saved.model.shown != v->P) {
        note(v, "the saved fit does not match run.json, so the density of the ensemble is missing");
        return 0;
    }
    v->fit = s->saved.fit;
    int code = take_ensemble(v, s, f);
    if (!code)
        code = take_closing(v, s, f);
    if (!code && v->transformed)
        code = take_particles(v, s, f);
    if (!code && v->transformed)
        code = take_coordinates(v, s, f);
    return code;
}

/* ---- what the data add ------------------------------------------------------------------------------------------- */
static void take_data(run_view *v, sources *s)
{
    const json_t *asked = s->saved.asked ? s->saved.asked : v->run; /* of SVGD there is no other record */
    const char *path = record_reopen(asked, "data");
    failure why;
    v->no_data = s->no_data;
    if (!path)
        snprintf(s->no_data, sizeof s->no_data, "the run does not name its data file");
    else if (check_data(asked, &why))
        snprintf(s->no_data, sizeof s->no_data, "%s", why.text);
    else
        v->data = path;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */
static bool report_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"out", 'o', "FILE", NULL, "DIR/report.html", "file for the page", NULL},
        {"figures", 0, "FIGURES", NULL, NULL,
         "write the main plots as SVG and PNG files to this directory (needs gnuplot); write the page only if --out is "
         "given",
         NULL},
        {"model", 0, "MODEL.so", NULL, NULL, NAMED_MODEL_HELP, NULL},
        {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP, NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

static int write_report(run_view *v, const char *path, failure *f)
{
    struct stat about;
    if (belongs_to_run(path))
        return fail(f, EX_CANTCREAT, "%s is a file of a run and would be overwritten: choose another --out", path);
    json_t *data = describe_report(v, f);
    int code = data ? write_page(path, data, f) : f->code;
    json_decref(data);
    if (!code && !stat(path, &about) && S_ISREG(about.st_mode)) {
        put_foreign(stdout, path);
        printf(": %.2f MB\n", (double)about.st_size / 1e6);
    }
    return code;
}

/* All files of the run, and of the same one. */
static int read_all(run_view *v, sources *s, const char *dir, const model_trust *trust, failure *f)
{
    int code = settle_run(dir, f);
    run_stamp before = stamp_of_run(dir);
    if (!code)
        code = read_view(dir, v, f);
    if (!code)
        code = take_fit(v, s, trust, f);
    run_stamp after = stamp_of_run(dir);
    return same_stamp(&before, &after)
               ? code
               : fail(f, EX_TEMPFAIL, "the run in %s was replaced while being read: try again", dir);
}

static int run_report(arguments *a, failure *f)
{
    run_view v = {0};
    sources s = {0};
    model_trust trust;
    const char *figures = given(a, "figures"), *out = given(a, "out");
    if (!a->words)
        return fail(f, EX_USAGE, "report: DIR is missing: name a run directory");
    if (given_trust(a, &trust, f))
        return f->code;
    bool page = out || !figures;
    char *path = out ? strdup(out) : run_path(a->word[0], "report.html");
    int code = path ? reserve_blas(1, f) : fail(f, EX_SOFTWARE, "no memory");
    if (!code)
        code = read_all(&v, &s, a->word[0], &trust, f);
    if (!code && page && !has_page())
        code = write_page(path, NULL, f);
    if (!code) {
        take_data(&v, &s);
        if (figures)
            code = write_figures(&v, figures, f);
    }
    if (!code && page)
        code = write_report(&v, path, f);
    free_view(&v);
    free_sources(&s);
    free(path);
    return code;
}

const command report_command = {
    "report",
    "DIR [-o FILE]\nDIR --figures FIGURES",
    "write a report: one self-contained HTML page, or figures",
    "Writes an HTML page about the run in DIR. The page is one file and works offline. It shows the verdict with its "
    "reasons, parameters, densities, pairs of parameters with cells and particles, a replay of the fit and, for some "
    "models, their predictions. With --figures, writes the main plots as SVG and PNG files instead.",
    "wvgd report heart                       # heart/report.html\n"
    "wvgd report heart -o /tmp/heart.html\n"
    "wvgd report heart --figures figures     # marginals, pair, masses, training: .svg and .png\n",
    report_option,
    "DIR",
    run_report,
    NULL,
};
