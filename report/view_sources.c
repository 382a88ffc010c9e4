/* view_sources.c - what the fit of a run, brought back from its saved state, and its data add to what its files show:
 * draws of the ensemble, weighted draws, particles as quantities. Where either is gone the view says so. */
#include "view_sources.h"
#include "run_directory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { ENSEMBLE_VALUES = 800000, LEAST_ENSEMBLE = 2000, MOST_ENSEMBLE = 20000 };

void free_sources(view_sources *s)
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

static int take_ensemble(run_view *v, view_sources *s, failure *f)
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
static int take_closing(run_view *v, view_sources *s, failure *f)
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
static int take_particles(run_view *v, view_sources *s, failure *f)
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
static int take_coordinates(run_view *v, view_sources *s, failure *f)
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

static int take_fit(run_view *v, view_sources *s, const model_trust *trust, failure *f)
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
static void take_data(run_view *v, view_sources *s)
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

/* All files of the run, and of the same one. */
int read_whole_view(const char *dir, const model_trust *trust, run_view *v, view_sources *s, failure *f)
{
    int code = settle_run(dir, f);
    run_stamp before = stamp_of_run(dir);
    if (!code)
        code = read_view(dir, v, f);
    if (!code)
        code = take_fit(v, s, trust, f);
    run_stamp after = stamp_of_run(dir);
    if (!same_stamp(&before, &after))
        return fail(f, EX_TEMPFAIL, "the run in %s was replaced while being read: try again", dir);
    if (!code)
        take_data(v, s);
    return code;
}
