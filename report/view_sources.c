/* view_sources.c - what the fit of a run, brought back from its saved state, and its data add to what its files show:
 * draws of the ensemble, weighted draws, particles as quantities. Where either is gone the view says so. */
#include "view_sources.h"
#include "run_directory.h"
#include "run_record.h"
#include "session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { ENSEMBLE_VALUES = 800000, LEAST_ENSEMBLE = 2000, MOST_ENSEMBLE = 20000 };

void free_sources(view_sources *s)
{
    wvgd_session_close(s->session);
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

/* Coordinates z[n][D], which are freed, as quantities [n][P]. */
static double *show_all(const run_view *v, const view_sources *s, size_t n, double *z)
{
    double *x = malloc((n * v->P + 1) * sizeof *x);
    if (x)
        session_show(s->session, n, z, x);
    free(z);
    return x;
}

static int take_ensemble(run_view *v, view_sources *s, failure *f)
{
    size_t n = ENSEMBLE_VALUES / (v->P + 1);
    wvgd_error error;
    n = n < LEAST_ENSEMBLE ? LEAST_ENSEMBLE : n > MOST_ENSEMBLE ? MOST_ENSEMBLE : n;
    size_t most = session_ensemble_most(s->session);
    n = n < most ? n : most;
    double *z = malloc(n * v->D * sizeof *z);
    s->ensemble_cell = malloc(n * sizeof *s->ensemble_cell);
    if (!z || !s->ensemble_cell) {
        free(z);
        return no_memory(f);
    }
    if (wvgd_sample(v->fit, 1, n, z, s->ensemble_cell, &error) != WVGD_OK) {
        note(v, "cannot draw from the ensemble: %s", error.text);
        free(z);
        return 0;
    }
    s->ensemble = show_all(v, s, n, z);
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
    if (wvgd_draws(v->fit, &n, &z, NULL, &log_w, &cell, NULL) != WVGD_OK)
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
    wvgd_get_results(v->fit, &r);
    memcpy(z, r.z, v->N * v->D * sizeof *z);
    v->particle = show_all(v, s, v->N, z);
    return v->particle ? 0 : no_memory(f);
}

/* draws.csv once more, in the coordinates of the fit: the same stream gives the same draws. */
static int take_coordinates(run_view *v, view_sources *s, failure *f)
{
    const json_t *asked = session_record(s->session);
    wvgd_options options;
    if (!v->n || v->n != record_count(asked, "output-draws", 1000) || record_options(asked, &options, f))
        return 0;
    v->coordinate = malloc(v->n * v->D * sizeof *v->coordinate);
    if (!v->coordinate)
        return no_memory(f);
    if (wvgd_resample(v->fit, options.seed, v->n, v->coordinate, NULL, NULL) != WVGD_OK) {
        free(v->coordinate);
        v->coordinate = NULL;
    }
    return 0;
}

static int take_fit(run_view *v, view_sources *s, const wvgd_request *request, failure *f)
{
    wvgd_error why;
    wvgd_results r;
    size_t shown;
    s->session = wvgd_load(v->dir, request, &why);
    if (!s->session) {
        note(v, "the fit could not be restored, so the density of the ensemble is missing: %s", why.text);
        return 0;
    }
    wvgd_get_results(wvgd_session_fit(s->session), &r);
    wvgd_session_names(s->session, &shown);
    if (r.N != v->N || r.D != v->D || shown != v->P) {
        note(v, "the saved fit does not match run.json, so the density of the ensemble is missing");
        return 0;
    }
    v->fit = wvgd_session_fit(s->session);
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
    const json_t *asked = s->session ? session_record(s->session) : v->run; /* of SVGD there is no other record */
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
int read_whole_view(const char *dir, const wvgd_request *request, run_view *v, view_sources *s, failure *f)
{
    int code = settle_run(dir, f);
    run_stamp before = stamp_of_run(dir);
    if (!code)
        code = read_view(dir, v, f);
    if (!code)
        code = take_fit(v, s, request, f);
    run_stamp after = stamp_of_run(dir);
    if (!same_stamp(&before, &after))
        return fail(f, EX_TEMPFAIL, "the run in %s was replaced while being read: try again", dir);
    if (!code)
        take_data(v, s);
    return code;
}
