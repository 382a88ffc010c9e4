/* run_json.c - results as JSON, with what follows from them: the verdict, the number of modes that may have been
 * missed, and the moments and quantiles of each shown quantity from weighted draws.
 *     expected unseen modes  W (n - 1) / (n - W - 2) - W   for W modes found by n starts
 *     ESS of a mean          variance / (standard error that independent weighted draws would have)^2 */
#include "run_json.h"
#include "json_values.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *numbers(size_t n, const double *x)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_number(x[i]));
    return a;
}

static json_t *rows(size_t n, size_t columns, const double *x)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, numbers(columns, x + i * columns));
    return a;
}

static json_t *texts(size_t n, const char *const *text)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_text(text[i]));
    return a;
}

static json_t *estimate(wvgd_estimate e)
{
    json_t *o = json_object();
    json_object_set_new(o, "value", json_number(e.value));
    json_object_set_new(o, "se", json_number(e.se));
    return o;
}

/* ---- verdict ----------------------------------------------------------------------------------------------------- */
static json_t *verdict(const wvgd_results *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "reliable", json_boolean(r->reliable));
    json_object_set_new(o, "reasons", texts(r->reasons, r->reason));
    return o;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static json_t *seconds(const wvgd_results *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "total", json_number(r->seconds));
    json_object_set_new(o, "model", json_number(r->model_seconds));
    json_object_set_new(o, "engine", json_number(r->seconds - r->model_seconds));
    return o;
}

static json_t *evidence(const wvgd_results *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "pelbo", estimate(r->pelbo));
    json_object_set_new(o, "pelbo_beta", estimate(r->pelbo_beta));
    json_object_set_new(o, "importance", estimate(r->evidence));
    return o;
}

static json_t *diagnostics(const wvgd_results *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "ess", json_number(r->ess));
    set_count(o, "closing_draws", r->closing_draws);
    json_object_set_new(o, "pareto_k", json_number(r->pareto_k));
    json_object_set_new(o, "pareto_k_limit", json_number(r->pareto_k_limit));
    json_object_set_new(o, "tail_k_limit", json_number(r->tail_k_limit));
    json_object_set_new(o, "meanfield_gap", json_number(r->meanfield_gap));
    json_object_set_new(o, "warnings", texts(r->warnings, r->warning));
    return o;
}

/* Walks that looked for what the final draws do not represent. */
static json_t *certificate(const wvgd_results *r)
{
    json_t *o = json_object();
    set_count(o, "walks", r->walks);
    set_count(o, "outside", r->walks_outside);
    set_count(o, "evaluations", r->walks_evaluations);
    return o;
}

/* ---- bent coordinates -------------------------------------------------------------------------------------------- */
static json_t *bend_line(const wvgd_fit *fit, size_t i)
{
    wvgd_bend_line line;
    json_t *o = NULL;
    if (!wvgd_get_bend_line(fit, i, &line) || !line.knots)
        return json_null();
    o = json_object();
    json_object_set_new(o, "low", json_number(line.low));
    json_object_set_new(o, "high", json_number(line.high));
    json_object_set_new(o, "value", numbers(line.knots, line.value));
    json_object_set_new(o, "second", numbers(line.knots, line.second));
    return o;
}

/* Rows 0 .. n of a layer; arguments count from 1, as all that is numbered in run.json. */
static json_t *bend_rows(const wvgd_fit *fit, size_t layer, size_t n)
{
    json_t *list = json_array();
    wvgd_bend_row row;
    for (size_t i = 0; i < n && wvgd_get_bend_row(fit, layer, i, &row); i++) {
        json_t *o = json_object(), *parents = json_array(), *precision = json_array(), *location = json_array();
        for (size_t k = 0; k < row.parents; k++)
            json_array_append_new(parents, json_integer((json_int_t)row.parent[k] + 1));
        for (size_t k = 0; k < 2; k++) {
            json_array_append_new(precision, numbers(1 + row.parents, row.precision[k]));
            json_array_append_new(location, numbers(1 + 2 * row.parents, row.location[k]));
        }
        json_object_set_new(o, "parents", parents);
        json_object_set_new(o, "precision", precision);
        json_object_set_new(o, "location", location);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *bend_affine(const wvgd_fit *fit, size_t n)
{
    wvgd_bend_affine affine;
    if (!wvgd_get_bend_affine(fit, &affine) || !affine.slice)
        return json_null();
    json_t *o = json_object(), *parents = json_array(), *slices = json_array();
    for (size_t k = 0; k < affine.parents; k++)
        json_array_append_new(parents, json_integer((json_int_t)affine.parent[k] + 1));
    for (size_t k = 0; k < 1 + 2 * affine.parents; k++)
        json_array_append_new(slices, rows(n, n + 1, affine.slice + k * n * (n + 1)));
    json_object_set_new(o, "parents", parents);
    json_object_set_new(o, "reach", json_number(affine.reach));
    json_object_set_new(o, "slices", slices);
    return o;
}

static json_t *bend_layer(const wvgd_fit *fit, size_t layer, size_t n)
{
    json_t *o = json_object();
    const double *turn = wvgd_bend_turn(fit, layer);
    if (turn)
        json_object_set_new(o, "turn", rows(n, n, turn));
    json_object_set_new(o, "rows", bend_rows(fit, layer, n));
    return o;
}

/* The map, piece by piece, in the order in which u passes through it. */
static json_t *bend_map(const wvgd_fit *fit, const wvgd_bend_map *map)
{
    json_t *o = json_object(), *lines = json_array(), *layers = json_array();
    for (size_t i = 0; i < map->D; i++)
        json_array_append_new(lines, bend_line(fit, i));
    for (size_t l = 1; l <= map->layers; l++)
        json_array_append_new(layers, bend_layer(fit, l, map->D - map->arguments));
    json_object_set_new(o, "lines", lines);
    json_object_set_new(o, "arguments", bend_rows(fit, 0, map->arguments));
    json_object_set_new(o, "affine", bend_affine(fit, map->D - map->arguments));
    json_object_set_new(o, "layers", layers);
    json_object_set_new(o, "centre", numbers(map->D, map->centre));
    json_object_set_new(o, "basis", rows(map->D, map->D, map->basis));
    json_object_set_new(o, "clip", json_number(map->clip));
    json_object_set_new(o, "log_scale", json_number(map->log_scale));
    return o;
}

/* The map that was used, and the search for one. */
static json_t *bend(const wvgd_fit *fit, const wvgd_results *r)
{
    json_t *o = json_object();
    wvgd_bend_map map;
    set_count(o, "arguments", r->bend_arguments);
    set_count(o, "maps", r->bend_maps);
    set_count(o, "evaluations", r->bend_evaluations);
    json_object_set_new(o, "particles", json_string(r->bent ? "bent" : "straight"));
    json_object_set_new(o, "components", json_string(r->bent_components ? "bent" : "straight"));
    if (wvgd_get_bend(fit, &map))
        json_object_set_new(o, "map", bend_map(fit, &map));
    return o;
}

/* Chains that completed the fit. */
static json_t *finish(const wvgd_results *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "result", json_string(r->finish));
    set_count(o, "chains", r->finish_chains);
    set_count(o, "trajectories", r->finish_trajectories);
    set_count(o, "states", r->finish_states);
    set_count(o, "rungs", r->finish_rungs);
    set_count(o, "evaluations", r->finish_evaluations);
    json_object_set_new(o, "acceptance", json_number(r->finish_acceptance));
    json_object_set_new(o, "jumps", json_number(r->finish_jumps));
    json_object_set_new(o, "mean_se", json_number(r->finish_mean_se));
    json_object_set_new(o, "sd_se", json_number(r->finish_sd_se));
    json_object_set_new(o, "rhat", json_number(r->finish_rhat));
    json_object_set_new(o, "drift", json_number(r->finish_drift));
    json_object_set_new(o, "autocorrelation", json_number(r->finish_tau));
    json_object_set_new(o, "missing", json_number(r->finish_missing));
    return o;
}

/* Mode m: its mass, its particles, and means and sds of what is shown, from the draws that belong to it. */
static json_t *mode(const wvgd_results *r, const shown_draws *d, size_t m)
{
    json_t *o = json_object(), *particles = json_array(), *mean = json_array(), *sd = json_array();
    for (size_t j = 0; j < r->N; j++)
        if (d->mode[d->n + j] == m)
            json_array_append_new(particles, json_integer((json_int_t)j + 1));
    for (size_t c = 0; c < d->columns; c++) {
        double weight = 0, first = 0, second = 0, low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < d->n; i++)
            if (d->mode[i] == m && d->weight[i] > 0) {
                double value = d->value[i * d->columns + c];
                weight += d->weight[i];
                first += d->weight[i] * value;
                low = fmin(low, value);
                high = fmax(high, value);
            }
        double centre = low == high ? low : first / weight; /* a constant has no spread of rounding errors */
        for (size_t i = 0; i < d->n; i++)
            if (d->mode[i] == m && d->weight[i] > 0) {
                double off = d->value[i * d->columns + c] - centre;
                second += d->weight[i] * off * off;
            }
        json_array_append_new(mean, json_number(centre));
        json_array_append_new(sd, json_number(sqrt(second / weight)));
    }
    json_object_set_new(o, "mass", json_number(d->mass[m]));
    json_object_set_new(o, "mass_se", json_number(d->mass[r->modes + m]));
    json_object_set_new(o, "particles", particles);
    json_object_set_new(o, "mean", mean);
    json_object_set_new(o, "sd", sd);
    return o;
}

static json_t *modes(const wvgd_results *r, const shown_draws *d)
{
    json_t *o = json_object(), *list = json_array();
    set_count(o, "starts", r->starts);
    set_count(o, "found", r->modes);
    set_count(o, "hit_once", r->hit_once);
    json_object_set_new(o, "expected_unseen", json_number(r->expected_unseen));
    for (size_t m = 0; m < r->modes && d->mode; m++) { /* heaviest first */
        size_t at = 0;
        while (at < json_array_size(list) &&
               !(d->mass[m] > json_number_value(json_object_get(json_array_get(list, at), "mass"))))
            at++;
        json_array_insert_new(list, at, mode(r, d, m));
    }
    json_object_set_new(o, "each", list);
    return o;
}

/* mu and sd, or a Cholesky factor, of component j. */
static void set_shape(json_t *o, const wvgd_results *r, size_t j)
{
    size_t D = r->D;
    json_object_set_new(o, "mu", numbers(D, r->mu + j * D));
    if (r->chol)
        json_object_set_new(o, "chol", rows(D, D, r->chol + j * D * D));
    else
        json_object_set_new(o, "sd", numbers(D, r->sd + j * D));
}

/* Component k of the staged solver's mixture; with the joint solver component k is that of particle k. */
static json_t *component(const wvgd_results *r, size_t k)
{
    json_t *o = json_object(), *rows = json_array();
    size_t D = r->D;
    json_object_set_new(o, "weight", json_number(r->components ? r->component_weight[k] : r->weight[k]));
    if (!r->components) {
        json_decref(rows);
        set_shape(o, r, k);
        return o;
    }
    json_object_set_new(o, "mu", numbers(D, r->component_mu + k * D));
    for (size_t i = 0; i < D; i++)
        json_array_append_new(rows, numbers(D, r->component_chol + (k * D + i) * D));
    json_object_set_new(o, "chol", rows);
    return o;
}

static json_t *particle(const wvgd_results *r, size_t j)
{
    json_t *o = json_object();
    json_object_set_new(o, "z", numbers(r->D, r->z + j * r->D));
    const struct {
        const char *key;
        const double *value; /* [N] */
    } columns[] = {{"beta", r->beta}, {"beta_se", r->beta_se}, {"weight", r->weight}, {"log_Z", r->log_Z},
                   {"elbo", r->elbo}, {"elbo_se", r->elbo_se}, {"ess", r->cell_ess},  {"pareto_k", r->cell_pareto_k},
                   {"gain", r->gain}, {"gain_se", r->gain_se}, {"loss", r->loss},     {"loss_se", r->loss_se}};
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        json_object_set_new(o, columns[c].key, json_number(columns[c].value[j]));
    set_shape(o, r, j);
    if (r->limit[j] > 0)
        json_object_set_new(o, "limit", json_true());
    return o;
}

static json_t *each(const wvgd_results *r, size_t n, json_t *(*make)(const wvgd_results *, size_t))
{
    json_t *a = json_array();
    for (size_t j = 0; j < n; j++)
        json_array_append_new(a, make(r, j));
    return a;
}

/* ---- posterior of shown quantities ------------------------------------------------------------------------------- */
typedef struct {
    double value, weight, calibrated;
} weighted;

static void swap(weighted *a, weighted *b)
{
    weighted c = *a;
    *a = *b;
    *b = c;
}

/* The value at which the weights of all values up to it reach `level`: that part of the list in which it must be is
 * divided again and again (Hoare). The values are rearranged. */
static double quantile(size_t n, weighted *x, double level)
{
    size_t low = 0, high = n;
    double below = 0; /* weight of all before `low` */
    while (high - low > 1) {
        double pivot = x[low + (high - low) / 2].value, left = 0;
        size_t less = low, more = high;
        for (size_t i = low; i < more;) /* less than the pivot, equal to it, more */
            if (x[i].value < pivot) {
                left += x[i].weight;
                swap(&x[i++], &x[less++]);
            } else if (x[i].value > pivot)
                swap(&x[i], &x[--more]);
            else
                i++;
        double equal = 0;
        for (size_t i = less; i < more; i++)
            equal += x[i].weight;
        if (less > low && below + left >= level)
            high = less;
        else if (below + left + equal >= level || more == high)
            return pivot;
        else {
            below += left + equal;
            low = more;
        }
    }
    return n ? x[low].value : NAN;
}

const double shown_level[SHOWN_LEVELS] = {0.05, 0.5, 0.95};

typedef struct {
    double mean, sd, mcse, ess;
    double sd_se, tail_k;
    double quantile[SHOWN_LEVELS], quantile_se[SHOWN_LEVELS];
} column_summary;

static bool is_constant(size_t n, const weighted *x)
{
    size_t i = 1;
    while (i < n && x[i].value == x[0].value)
        i++;
    return n && i >= n;
}

/* A value that never changes has no spread, not one of rounding errors; the ESS is that of the weights. */
static column_summary constant_summary(size_t n, const weighted *x)
{
    double v = x[0].value, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i].weight;
        squares += x[i].weight * x[i].weight;
    }
    return (column_summary){v, 0, 0, fmin(sum * sum / squares, (double)n), 0, NAN, {v, v, v}, {0, 0, 0}};
}

/* Of n weighted values, which are rearranged on the way. */
static column_summary summarise(size_t n, weighted *x)
{
    column_summary s = {.tail_k = NAN};
    double variance = 0, sharper = 0, error = 0, spread = 0;
    if (is_constant(n, x))
        return constant_summary(n, x);
    for (size_t i = 0; i < n; i++)
        s.mean += x[i].calibrated * x[i].value;
    for (size_t i = 0; i < n; i++) {
        double d = x[i].value - s.mean, e = x[i].weight * d;
        variance += x[i].weight * d * d;
        sharper += x[i].calibrated * d * d;
        error += e * e;
    }
    s.sd = sqrt(sharper > variance / 4 && sharper < 4 * variance ? sharper : variance);
    s.mcse = sqrt(error);
    s.ess = fmin(variance / error, (double)n);
    for (size_t i = 0; i < n; i++) {
        double d = x[i].value - s.mean, e = x[i].weight * (d * d - variance);
        spread += e * e;
    }
    s.sd_se = sqrt(spread) / (2 * s.sd);
    for (size_t k = 0; k < SHOWN_LEVELS; k++) {
        s.quantile[k] = quantile(n, x, shown_level[k]);
        s.quantile_se[k] = NAN;
    }
    return s;
}

/* What the fit knows of column c, which is better. */
static void take_known(const shown_draws *d, size_t c, column_summary *s)
{
    size_t columns = d->columns;
    if (!d->known || !(s->sd > 0))
        return;
    s->mean = d->known[c];
    s->sd = d->known[columns + c] > 0 ? sqrt(d->known[columns + c]) : s->sd;
    s->mcse = d->known[2 * columns + c];
    if (!d->errors)
        return;
    const double *quantile = d->errors + 2 * columns + c * SHOWN_LEVELS;
    s->sd_se = d->errors[c];
    s->tail_k = d->errors[columns + c];
    for (size_t l = 0; l < SHOWN_LEVELS; l++) {
        s->quantile[l] = quantile[l];
        s->quantile_se[l] = quantile[columns * SHOWN_LEVELS + l];
    }
}

/* Quantiles and their errors, by column, then level. */
static json_t *quantiles(size_t columns, const column_summary *s)
{
    json_t *o = json_object(), *value = json_array(), *se = json_array();
    for (size_t c = 0; c < columns; c++) {
        json_array_append_new(value, numbers(SHOWN_LEVELS, s[c].quantile));
        json_array_append_new(se, numbers(SHOWN_LEVELS, s[c].quantile_se));
    }
    json_object_set_new(o, "p", numbers(SHOWN_LEVELS, shown_level));
    json_object_set_new(o, "value", value);
    json_object_set_new(o, "se", se);
    return o;
}

/* Columns as arrays of one number each. */
static json_t *posterior_object(const shown_draws *d, const column_summary *s)
{
    static const char *const keys[] = {"mean", "sd", "mcse", "ess", "sd_se", "tail_k", "q5", "q50", "q95"};
    enum { KEYS = sizeof keys / sizeof *keys };
    json_t *o = json_object(), *list[KEYS];
    for (size_t k = 0; k < KEYS; k++)
        list[k] = json_array();
    for (size_t c = 0; c < d->columns; c++) {
        const double values[KEYS] = {s[c].mean,   s[c].sd,          s[c].mcse,        s[c].ess,        s[c].sd_se,
                                     s[c].tail_k, s[c].quantile[0], s[c].quantile[1], s[c].quantile[2]};
        for (size_t k = 0; k < KEYS; k++)
            json_array_append_new(list[k], json_number(values[k]));
    }
    json_object_set_new(o, "names", texts(d->columns, d->names));
    for (size_t k = 0; k < KEYS; k++)
        json_object_set_new(o, keys[k], list[k]);
    json_object_set_new(o, "quantiles", quantiles(d->columns, s));
    return o;
}

static json_t *posterior(const shown_draws *d)
{
    weighted *x = calloc(d->n + 1, sizeof *x);
    column_summary *s = calloc(d->columns + 1, sizeof *s);
    json_t *o = NULL;
    for (size_t c = 0; x && s && c < d->columns; c++) {
        size_t n = 0;
        for (size_t i = 0; i < d->n; i++)
            if (d->weight[i] > 0)
                x[n++] = (weighted){d->value[i * d->columns + c], d->weight[i], d->calibrated[i]};
        s[c] = summarise(n, x);
        take_known(d, c, &s[c]);
    }
    if (x && s)
        o = posterior_object(d, s);
    free(x);
    free(s);
    return o;
}

json_t *run_json(const json_t *asked, const wvgd_fit *fit, const wvgd_results *r, const shown_draws *draws)
{
    static const char *const first[] = {"version", "id", "command", "model", "data", "priors", "options"};
    json_t *o = json_object(), *shown = posterior(draws);
    if (!o || !shown) {
        json_decref(o);
        json_decref(shown);
        return NULL;
    }
    for (size_t k = 0; k < sizeof first / sizeof *first; k++)
        if (json_object_get(asked, first[k]))
            json_object_set(o, first[k], json_object_get(asked, first[k]));
    json_object_set_new(o, "solver", json_string(r->solver == WVGD_STAGED ? "staged" : "joint"));
    json_object_set_new(o, "stop", json_string(wvgd_stop_name(r->stop)));
    set_count(o, "iterations", r->iterations);
    set_count(o, "evaluations", r->evaluations);
    set_count(o, "widened", r->widened);
    set_count(o, "bad_points", r->bad_points);
    set_count(o, "zero_points", r->zero_points);
    json_object_set_new(o, "seconds", seconds(r));
    json_object_set_new(o, "evidence", evidence(r));
    json_object_set_new(o, "distortion", estimate(r->distortion));
    json_object_set_new(o, "diagnostics", diagnostics(r));
    if (r->solver == WVGD_STAGED) {
        json_object_set_new(o, "certificate", certificate(r));
        json_object_set_new(o, "finish", finish(r));
    }
    if (r->bend_maps)
        json_object_set_new(o, "bend", bend(fit, r));
    json_object_set_new(o, "verdict", verdict(r));
    json_object_set_new(o, "modes", modes(r, draws));
    json_object_set_new(o, "components", each(r, r->components ? r->components : r->N, component));
    json_object_set_new(o, "particles", each(r, r->N, particle));
    json_object_set_new(o, "posterior", shown);
    return o;
}
