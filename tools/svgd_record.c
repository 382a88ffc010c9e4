/* svgd_record.c - results of SVGD as JSON and as tables. Particles have equal weights and are not independent: their
 * means have no standard error, and SVGD has no evidence, so that these are null. */
#include "svgd_record.h"
#include "ascending.h"
#include "json_values.h"
#include "kde.h"
#include "run_directory.h"
#include "run_json.h"
#include "stan_csv.h"
#include "write.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static void set_number(json_t *o, const char *key, double value)
{
    json_object_set_new(o, key, json_number(value));
}

/* ---- what is shown of the particles ------------------------------------------------------------------------------ */
/* values[shown] of particle i; NAN where the model refuses. */
static void show_particle(const svgd_results *r, size_t i, double *values)
{
    const opened_model *m = r->model;
    const double *z = r->view.z + i * r->view.D;
    if (!m->show)
        memcpy(values, z, r->view.D * sizeof *values);
    else if (m->show(m->show_self, z, values))
        for (size_t c = 0; c < m->shown; c++)
            values[c] = NAN;
}

/* Moments and quantiles of x[n], which are sorted on the way. */
static void add_moments(json_t *posterior, size_t n, double *x)
{
    static const struct {
        const char *key;
        double level;
    } quantile[] = {{"q5", 0.05}, {"q50", 0.5}, {"q95", 0.95}};
    double mean = 0, square = 0;
    qsort(x, n, sizeof *x, ascending);
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    if (n && x[0] == x[n - 1]) /* a constant has no spread of rounding errors */
        mean = x[0];
    for (size_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    json_array_append_new(json_object_get(posterior, "mean"), json_number(mean));
    json_array_append_new(json_object_get(posterior, "sd"), json_number(n > 1 ? sqrt(square / (double)(n - 1)) : NAN));
    json_array_append_new(json_object_get(posterior, "mcse"), json_null());
    json_array_append_new(json_object_get(posterior, "ess"), json_null());
    for (size_t k = 0; k < sizeof quantile / sizeof *quantile; k++) {
        size_t at = (size_t)ceil(quantile[k].level * (double)n);
        json_array_append_new(json_object_get(posterior, quantile[k].key), json_number(n ? x[at ? at - 1 : 0] : NAN));
    }
}

static json_t *posterior(const svgd_results *r)
{
    static const char *const keys[] = {"mean", "sd", "mcse", "ess", "q5", "q50", "q95"};
    size_t n = r->view.n, columns = r->model->shown;
    json_t *o = json_object(), *names = json_array();
    double *all = columns && n > PTRDIFF_MAX / sizeof(double) / columns ? NULL
                                                                        : malloc((n * columns + 1) * sizeof *all),
           *x = calloc(n + 1, sizeof *x);
    if (!all || !x) {
        free(all);
        free(x);
        json_decref(o);
        json_decref(names);
        return NULL;
    }
    if (r->model->restart)
        r->model->restart(r->model->show_self, r->seed);
    for (size_t i = 0; i < n; i++)
        show_particle(r, i, all + i * columns);
    json_object_set_new(o, "names", names);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        json_object_set_new(o, keys[k], json_array());
    for (size_t c = 0; c < columns; c++) {
        size_t kept = 0;
        for (size_t i = 0; i < n; i++)
            if (isfinite(all[i * columns + c]))
                x[kept++] = all[i * columns + c];
        json_array_append_new(names, json_text(r->model->shown_names[c]));
        add_moments(o, kept, x);
    }
    free(all);
    free(x);
    return o;
}

/* ---- run.json ---------------------------------------------------------------------------------------------------- */
static json_t *no_estimate(void)
{
    json_t *o = json_object();
    json_object_set_new(o, "value", json_null());
    json_object_set_new(o, "se", json_null());
    return o;
}

static json_t *evidence(void)
{
    static const char *const keys[] = {"pelbo", "pelbo_beta", "importance"};
    json_t *o = json_object();
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        json_object_set_new(o, keys[k], no_estimate());
    return o;
}

static json_t *seconds(const svgd_results *r)
{
    json_t *o = json_object();
    set_number(o, "total", r->seconds);
    set_number(o, "model", r->view.model_seconds);
    set_number(o, "engine", r->seconds - r->view.model_seconds);
    return o;
}

static json_t *particles(const svgd_results *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->view.n; i++) {
        json_t *o = json_object(), *z = json_array();
        for (size_t d = 0; d < r->view.D; d++)
            json_array_append_new(z, json_number(r->view.z[i * r->view.D + d]));
        json_object_set_new(o, "z", z);
        set_number(o, "weight", 1 / (double)r->view.n);
        set_number(o, "log_p", r->view.log_p[i]);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *density(const svgd_results *r)
{
    json_t *o = json_object();
    set_number(o, "bandwidth", r->kde);
    json_object_set_new(o, "chosen", r->kde_by ? json_string(r->kde_by) : json_null());
    set_number(o, "ise", r->kde_ise);
    return o;
}

static void add_text(json_t *list, const char *text)
{
    json_array_append_new(list, json_text(text));
}

static json_t *warnings(const svgd_results *r)
{
    json_t *list = json_array();
    char text[300];
    const svgd_view *v = &r->view;
    if (!v->iteration)
        add_text(list, "the particles have not moved: no step was completed; raise --max-seconds");
    else if (strcmp(r->stop, "converged")) {
        snprintf(text, sizeof text,
                 "the particles were still moving: the force %.2g is above --tol %.2g; raise --max-iter, or try "
                 "another --step",
                 v->force, r->force_limit);
        add_text(list, text);
    }
    if (v->D > 1 && v->n < 10 * v->D) {
        snprintf(text, sizeof text,
                 "%zu particles in %zu dimensions: SVGD underestimates standard deviations unless there are many more "
                 "particles than dimensions; raise --particles",
                 v->n, v->D);
        add_text(list, text);
    }
    if (v->bad_points) {
        snprintf(text, sizeof text,
                 "%zu evaluations had no finite density or gradient; such a particle is moved only by repulsion from "
                 "the others",
                 v->bad_points);
        add_text(list, text);
    }
    return list;
}

static json_t *diagnostics(const svgd_results *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "ess", json_null());
    json_object_set_new(o, "pareto_k", json_null());
    set_number(o, "force", r->view.force);
    set_number(o, "kernel_bandwidth", r->view.bandwidth);
    json_object_set_new(o, "warnings", warnings(r));
    return o;
}

static json_t *verdict(void)
{
    json_t *o = json_object(), *reasons = json_array();
    add_text(reasons, "SVGD gives no log evidence, no bound and no standard errors, so this run cannot show how close "
                      "its particles are to the posterior or whether they miss a mode; use wvgd fit on the same model");
    json_object_set_new(o, "reliable", json_false());
    json_object_set_new(o, "reasons", reasons);
    return o;
}

json_t *svgd_json(const svgd_results *r)
{
    static const char *const first[] = {"version", "command", "model", "data", "priors", "options", "reopen"};
    json_t *o = json_object(), *shown = posterior(r);
    if (!o || !shown) {
        json_decref(o);
        json_decref(shown);
        return NULL;
    }
    for (size_t k = 0; k < sizeof first / sizeof *first; k++)
        json_object_set(o, first[k], json_object_get(r->asked, first[k]));
    json_object_set_new(o, "method", json_string("svgd"));
    json_object_set_new(o, "stop", json_string(r->stop));
    set_count(o, "iterations", r->view.iteration);
    set_count(o, "evaluations", r->view.evaluations);
    set_count(o, "bad_points", r->view.bad_points);
    json_object_set_new(o, "seconds", seconds(r));
    json_object_set_new(o, "evidence", evidence());
    json_object_set_new(o, "distortion", no_estimate());
    json_object_set_new(o, "diagnostics", diagnostics(r));
    json_object_set_new(o, "verdict", verdict());
    json_object_set_new(o, "density", density(r));
    json_object_set_new(o, "particles", particles(r));
    json_object_set_new(o, "posterior", shown);
    return o;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
static void put_field(FILE *s, double value)
{
    putc(',', s);
    put_number(s, value);
}

static int write_particle_table(file_set *set, const svgd_results *r, failure *f)
{
    FILE *s = add_file(set, PARTICLES_FILE, f);
    if (!s)
        return f->code;
    fputs("particle,weight,log_p", s);
    for (size_t d = 0; d < r->view.D; d++) {
        putc(',', s);
        put_name(s, r->model->model.names[d]);
    }
    putc('\n', s);
    for (size_t i = 0; i < r->view.n; i++) {
        fprintf(s, "%zu", i + 1);
        put_field(s, 1 / (double)r->view.n);
        put_field(s, r->view.log_p[i]);
        for (size_t d = 0; d < r->view.D; d++)
            put_field(s, r->view.z[i * r->view.D + d]);
        putc('\n', s);
    }
    return 0;
}

static int write_trace_table(file_set *set, const svgd_results *r, failure *f)
{
    FILE *s = add_file(set, TRACE_FILE, f);
    if (!s)
        return f->code;
    fputs("iteration,evaluations,seconds,mean_log_p,bandwidth,force\n", s);
    for (size_t k = 0; k < r->rows; k++) {
        const svgd_row *row = &r->row[k];
        fprintf(s, "%zu,%zu", row->iteration, row->evaluations);
        put_field(s, row->seconds);
        put_field(s, row->mean_log_p);
        put_field(s, row->bandwidth);
        put_field(s, row->force);
        putc('\n', s);
    }
    return 0;
}

/* The particles, each once; lp_approx__ is the kernel density estimate. */
static int write_draw_table(file_set *set, const svgd_results *r, failure *f)
{
    const svgd_view *v = &r->view;
    const char *name = json_string_value(json_object_get(json_object_get(r->asked, "model"), "name"));
    double *log_q = calloc(v->n, sizeof *log_q), *values = calloc(r->model->shown + v->D, sizeof *values);
    FILE *s = log_q && values ? add_file(set, DRAWS_FILE, f) : NULL;
    int code = !log_q || !values ? fail(f, EX_SOFTWARE, "no memory for %zu particles", v->n) : s ? 0 : f->code;
    if (!code) {
        for (size_t i = 0; i < v->n; i++)
            log_q[i] = NAN;
        if (isfinite(r->kde))
            svgd_kde_log_density(v->n, v->D, v->z, r->kde, v->n, v->z, log_q);
        if (r->model->restart)
            r->model->restart(r->model->show_self, r->seed);
        put_stan_head(s, &(stan_csv_head){name ? name : "model", "svgd: the particles, each once", r->seed, v->n, v->n,
                                          r->model->shown, r->model->shown_names});
        for (size_t i = 0; i < v->n; i++) {
            show_particle(r, i, values);
            put_stan_draw(s, &(stan_csv_draw){v->log_p[i], log_q[i], i, 0}, r->model->shown, values);
        }
    }
    free(log_q);
    free(values);
    return code;
}

int write_svgd_tables(file_set *set, const svgd_results *r, failure *f)
{
    int code = write_draw_table(set, r, f);
    if (!code)
        code = write_particle_table(set, r, f);
    return code ? code : write_trace_table(set, r, f);
}
