/* regression_page.c - what a regression makes of the rows it was fitted to, from draws theta_1 .. theta_K of draws.csv:
 *     rows         mean response and, for numbers, the interval that holds 90 % of the predictive distribution; of
 *                  successes, all as shares of the trials
 *     replicated   responses drawn anew for the same rows: for numbers the density of some such data sets and four
 *                  statistics of all; for labels, how many rows of each of ten groups have the label 1
 *     effects      the mean response, averaged over the rows, if a column had the same value in all of them */
#include "regression_page.h"
#include "kernel_density.h"
#include "glm_data.h"
#include "model_data.h"
#include "pack.h"
#include "predict.h"
#include "predictive.h"
#include "run_json.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    DRAWS = 400,
    LABELLED_ROWS = 20000,
    NUMBERED_ROWS = 2000,
    BLOCK = 256,
    REPLICATES = 40, /* whose density is shown */
    GRID = 100,
    GROUPS = 10,
    STATISTICS = 4,
    EFFECTS = 40,
    EFFECT_GRID = 20,
    EFFECT_DRAWS = 200,
    EFFECT_ROWS = 100,
    EFFECT_FEATURES = 500,
    MOST_LEVELS = 60 /* of an effect */
};

/* Some rows of the data, and some draws. */
typedef struct {
    const predictor *p;
    const regression_data *data;
    glm_data *glm; /* where rows come from, of a glm; NULL: of others */
    size_t n;      /* rows that are looked at: the first ones of data, once pick_rows has been called */
    size_t K, P;   /* draws, quantities */
    double *draw;  /* [K][P] */
} rows_seen;

/* Moves `most` rows, evenly spread over all, to the front. Returns how many there are. */
static size_t pick_rows(regression_data *d, size_t most)
{
    size_t n = d->rows < most ? d->rows : most;
    for (size_t i = 0; i < n; i++) {
        size_t from = n == d->rows ? i : (size_t)((double)i * (double)d->rows / (double)n);
        memmove(d->X + i * d->columns, d->X + from * d->columns, d->columns * sizeof *d->X);
        d->y[i] = d->y[from];
    }
    return n;
}

static double *pick_draws(const run_view *v, size_t *K)
{
    size_t step = 1 + (v->n - 1) / DRAWS;
    *K = (v->n - 1) / step + 1;
    double *draw = malloc((*K * v->P + 1) * sizeof *draw);
    for (size_t k = 0; draw && k < *K; k++)
        memcpy(draw + k * v->P, v->draw + k * step * v->P, v->P * sizeof *draw);
    return draw;
}

/* ---- random numbers: functions of draw and row (splitmix64) ------------------------------------------------------ */
static double uniform_at(uint64_t k, uint64_t i, uint64_t which)
{
    uint64_t x = (k * 0x9E3779B97F4A7C15u) ^ (i * 0xD1B54A32D192ED03u) ^ (which * 0x8CB92BA72F3D8DD7u);
    for (int round = 0; round < 2; round++) {
        x += 0x9E3779B97F4A7C15u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        x ^= x >> 31;
    }
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

static double normal_at(uint64_t k, uint64_t i)
{
    return sqrt(-2 * log(uniform_at(k, i, 1))) * cos(2 * M_PI * uniform_at(k, i, 2));
}

/* ---- responses drawn anew ---------------------------------------------------------------------------------------- */
/* The count whose distribution function first reaches u: p[0], and p[y + 1] / p[y] = (a + b y) / (y + 1). Where p[0] is
 * 0 to rounding, a normal of this mean and variance. */
static double draw_count(double u, double first, double a, double b, double mean, double variance, double normal)
{
    if (!(first > 1e-280))
        return floor(fmax(mean + sqrt(variance) * normal + 0.5, 0));
    double y = 0, below = first, p = first;
    while (below < u && p > 0 && y < 1e6) {
        p *= (a + b * y) / (y + 1);
        below += p;
        y++;
    }
    return y;
}

/* A response of draw k and row i, given its mean, spread (sigma, shape or trials) and tail (nu). */
static double draw_response(const char *family, double m, double spread, double tail, size_t k, size_t i)
{
    double u = uniform_at(k, i, 3), normal = normal_at(k, i);
    if (!strcmp(family, "student")) { /* Bailey's polar method */
        double r = sqrt(tail * expm1(-2 / tail * log(u)));
        return m + spread * r * cos(2 * M_PI * uniform_at(k, i, 4));
    }
    if (!strcmp(family, "poisson"))
        return draw_count(u, exp(-m), m, 0, m, m, normal);
    if (!strcmp(family, "negbinomial")) {
        double share = m / (m + spread);
        return draw_count(u, exp(-spread * log1p(m / spread)), spread * share, share, m, m + m * m / spread, normal);
    }
    if (!strcmp(family, "binomial")) {
        double q = fmin(m / spread, 1 - 1e-15), odds = q / (1 - q);
        return fmin(draw_count(u, pow(1 - q, spread), spread * odds, -odds, m, m * (1 - q), normal), spread);
    }
    return m + spread * normal;
}

typedef struct {
    double sum, square, least, greatest; /* square: around the first value */
    double first;
} tally;

static void add_value(tally *t, double y)
{
    if (t->least > t->greatest)
        t->first = y;
    t->sum += y - t->first;
    t->square += (y - t->first) * (y - t->first);
    t->least = fmin(t->least, y);
    t->greatest = fmax(t->greatest, y);
}

static const tally no_values = {0, 0, INFINITY, -INFINITY, 0};

static double statistic(const tally *t, size_t which, size_t n)
{
    double N = (double)n, mean = t->sum / N;
    switch (which) {
    case 0: return t->first + mean;
    case 1: return n > 1 ? sqrt(fmax(t->square - N * mean * mean, 0) / (N - 1)) : 0;
    case 2: return t->least;
    default: return t->greatest;
    }
}

/* Observed and replicated statistics: 5, 50 and 95 % of the latter, and the share of them above the former, half of
 * those equal to it. */
static json_t *describe_statistics(const rows_seen *s, const tally *replicated)
{
    static const char *const name[STATISTICS] = {"mean", "sd", "minimum", "maximum"};
    json_t *list = json_array();
    tally seen = no_values;
    double *x = malloc((s->K + 1) * sizeof *x);
    for (size_t i = 0; i < s->n; i++)
        add_value(&seen, s->data->y[i]);
    for (size_t w = 0; x && w < STATISTICS; w++) {
        double observed = statistic(&seen, w, s->n), above = 0;
        for (size_t k = 0; k < s->K; k++) {
            x[k] = statistic(&replicated[k], w, s->n);
            above += x[k] > observed ? 1 : x[k] == observed ? 0.5 : 0;
        }
        sort_draws(s->K, x);
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:o, s:f}", "name", name[w], "observed",
                                        json_number(observed), "q5", json_number(sorted_quantile(s->K, x, 0.05)), "q50",
                                        json_number(sorted_quantile(s->K, x, 0.5)), "q95",
                                        json_number(sorted_quantile(s->K, x, 0.95)), "above", above / (double)s->K));
    }
    free(x);
    return list;
}

/* Counts are spread over the unit around them: a density has no other way to be smooth. */
static double spread_count(const rows_seen *s, double y, size_t k, size_t i)
{
    return predictor_family(s->p)->counts ? y + uniform_at(k, i, 5) - 0.5 : y;
}

/* y: room for [n]. Densities of the responses and of the first replicates[REPLICATES][n], on one grid. */
static void add_densities(json_t *o, const rows_seen *s, const double *replicate, double *y)
{
    double lo, hi, density[GRID], low, high;
    size_t R = s->K < REPLICATES ? s->K : REPLICATES;
    json_t *each = json_array();
    for (size_t i = 0; i < s->n; i++)
        y[i] = spread_count(s, s->data->y[i], s->K, i);
    find_shown_range(s->n, y, 1, &lo, &hi);
    find_shown_range(R * s->n, replicate, 1, &low, &high);
    lo = fmin(lo, low);
    hi = fmax(hi, high);
    weighted_values seen = {s->n, 1, y, NULL, NULL, 0};
    if (hi > lo && estimate_density(&seen, GRID, lo, hi, density)) {
        json_object_set_new(o, "lo", json_number(lo));
        json_object_set_new(o, "hi", json_number(hi));
        json_object_set_new(o, "density", pack_floats(GRID, density));
    }
    for (size_t r = 0; r < R && hi > lo; r++) {
        weighted_values one = {s->n, 1, replicate + r * s->n, NULL, NULL, 0};
        if (estimate_density(&one, GRID, lo, hi, density))
            json_array_append_new(each, pack_floats(GRID, density));
    }
    json_object_set_new(o, "densities", each);
}

/* Calls visit for the mean responses mean[K] and their spreads sd[K] of each row. */
typedef void visit_row(void *self, size_t i, const double *mean, const double *sd);
static bool visit_rows(const rows_seen *s, visit_row *visit, void *self)
{
    failure f;
    double *mean = malloc(BLOCK * s->K * sizeof *mean), *sd = malloc(BLOCK * s->K * sizeof *sd);
    bool good = mean && sd;
    for (size_t at = 0; at < s->n && good; at += BLOCK) {
        size_t here = s->n - at < BLOCK ? s->n - at : BLOCK;
        good = !mean_responses(s->p, s->K, s->draw, here, s->data->X + at * s->data->columns, mean, sd, &f);
        for (size_t i = 0; i < here && good; i++)
            visit(self, at + i, mean + i * s->K, sd + i * s->K);
    }
    free(mean);
    free(sd);
    return good;
}

typedef struct {
    const rows_seen *s;
    tally *tallies;    /* [K] */
    double *replicate; /* [REPLICATES][n] */
} number_check;

static void replicate_number(void *self, size_t i, const double *mean, const double *sd)
{
    number_check *c = self;
    const char *family = predictor_family(c->s->p)->name;
    size_t tail = predictor_tail(c->s->p);
    for (size_t k = 0; k < c->s->K; k++) {
        double nu = tail < c->s->P ? c->s->draw[k * c->s->P + tail] : 0,
               y = draw_response(family, mean[k], sd[k], nu, k, i);
        add_value(&c->tallies[k], y);
        if (k < REPLICATES)
            c->replicate[k * c->s->n + i] = spread_count(c->s, y, k, i);
    }
}

static json_t *check_numbers(const rows_seen *s)
{
    json_t *o = json_object();
    number_check c = {s, malloc(s->K * sizeof *c.tallies), malloc((REPLICATES + 1) * s->n * sizeof *c.replicate)};
    for (size_t k = 0; c.tallies && k < s->K; k++)
        c.tallies[k] = no_values;
    if (c.tallies && c.replicate && visit_rows(s, replicate_number, &c)) {
        add_densities(o, s, c.replicate, c.replicate + REPLICATES * s->n);
        json_object_set_new(o, "statistics", describe_statistics(s, c.tallies));
    }
    free(c.tallies);
    free(c.replicate);
    return o;
}

typedef struct {
    const rows_seen *s;
    const size_t *group; /* [n] */
    double *ones;        /* [GROUPS][K] */
} label_check;

static void replicate_label(void *self, size_t i, const double *mean, const double *sd)
{
    label_check *c = self;
    (void)sd;
    for (size_t k = 0; k < c->s->K; k++)
        c->ones[c->group[i] * c->s->K + k] += uniform_at(k, i, 1) < mean[k];
}

typedef struct {
    double p;
    size_t i;
} ranked;

static int by_probability(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p != y->p ? (x->p > y->p) - (x->p < y->p) : (x->i > y->i) - (x->i < y->i);
}

/* group[n]: of ten, as equal in size as can be, rising in probability. */
static bool group_rows(const rows_seen *s, const double *probability, size_t *group)
{
    ranked *r = malloc((s->n + 1) * sizeof *r);
    for (size_t i = 0; r && i < s->n; i++)
        r[i] = (ranked){probability[i], i};
    if (r)
        qsort(r, s->n, sizeof *r, by_probability);
    for (size_t i = 0; r && i < s->n; i++)
        group[r[i].i] = i * GROUPS / s->n;
    free(r);
    return r != NULL;
}

static json_t *describe_groups(const rows_seen *s, const double *probability, const size_t *group, double *ones)
{
    json_t *list = json_array();
    for (size_t g = 0; g < GROUPS; g++) {
        double *x = ones + g * s->K, seen = 0, rows = 0, lo = 1, hi = 0;
        for (size_t i = 0; i < s->n; i++)
            if (group[i] == g) {
                seen += s->data->y[i];
                rows++;
                lo = fmin(lo, probability[i]);
                hi = fmax(hi, probability[i]);
            }
        if (rows == 0)
            continue;
        sort_draws(s->K, x);
        json_array_append_new(list,
                              json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "rows", rows, "observed", seen, "q5",
                                        sorted_quantile(s->K, x, 0.05), "q50", sorted_quantile(s->K, x, 0.5), "q95",
                                        sorted_quantile(s->K, x, 0.95), "lo", lo, "hi", hi));
    }
    return list;
}

static json_t *check_labels(const rows_seen *s, const double *probability)
{
    json_t *o = json_object();
    size_t *group = malloc((s->n + 1) * sizeof *group);
    label_check c = {s, group, calloc(GROUPS * s->K, sizeof *c.ones)};
    if (group && c.ones && group_rows(s, probability, group) && visit_rows(s, replicate_label, &c))
        json_object_set_new(o, "groups", describe_groups(s, probability, group, c.ones));
    free(group);
    free(c.ones);
    return o;
}

/* ---- effects of columns ------------------------------------------------------------------------------------------ */
typedef struct {
    const data_column *column;
    size_t at, width;    /* its features */
    size_t levels;       /* of a category; 0: it is none */
    const double *value; /* [levels] of factor(column); NULL: they are levels of the column */
} effect;

/* Gives a column the value x, or level g, in a row. */
static void set_value(const effect *e, size_t g, double x, double *row)
{
    row[e->at] = x;
    for (size_t k = 0; e->column->kind == COLUMN_CATEGORICAL && k < e->width; k++)
        row[e->at + k] = g == k + 1;
}

/* average[K]: the mean response, averaged over rows X[rows][columns] */
static bool average_responses(const rows_seen *s, size_t K, size_t rows, const double *X, double *work, double *average)
{
    failure f;
    double *mean = work, *sd = work + rows * K;
    if (mean_responses(s->p, K, s->draw, rows, X, mean, sd, &f))
        return false;
    for (size_t k = 0; k < K; k++) {
        average[k] = 0;
        for (size_t i = 0; i < rows; i++)
            average[k] += mean[i * K + k] / (double)rows;
    }
    return true;
}

/* X[rows][columns] of a glm if a column has the value x in all of them. */
static bool set_column(const rows_seen *s, const effect *e, double x, size_t rows, double *X)
{
    failure f;
    design_rows all = {0};
    data_column *column = &s->glm->table.column[e->column - s->glm->table.column];
    size_t total = s->glm->table.rows, C = s->data->columns;
    double *old = column->value, *same = malloc(total * sizeof *same), *packed = NULL;
    for (size_t i = 0; same && i < total; i++)
        same[i] = x;
    column->value = same;
    if (same && !fill_design(s->glm->design, &s->glm->table, WITH_RESPONSE, &all, &f))
        packed = pack_design(s->p, &all);
    column->value = old;
    for (size_t i = 0; packed && i < rows; i++)
        memcpy(X + i * C, packed + i * total / rows * C, C * sizeof *X);
    free(packed);
    free(same);
    free_design_rows(&all);
    return packed != NULL;
}

/* The values of a column that are looked at lie between these. */
static void find_range(const rows_seen *s, const effect *e, double *lo, double *hi)
{
    size_t n = s->glm ? s->glm->table.rows : s->n;
    *lo = INFINITY;
    *hi = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double x = s->glm ? e->column->value[i] : s->data->X[i * s->data->columns + e->at];
        *lo = fmin(*lo, x);
        *hi = fmax(*hi, x);
    }
}

/* The average response of draws average[K] where the column is x. */
static json_t *describe_point(const effect *e, size_t g, double x, size_t K, double *average)
{
    double mean, sd;
    char number[NUMBER_ROOM];
    describe_draws(K, average, &mean, &sd);
    sort_draws(K, average);
    json_t *point = json_pack("{s:o, s:o, s:o, s:o}", "x", json_number(x), "mean", json_number(mean), "q5",
                              json_number(sorted_quantile(K, average, 0.05)), "q95",
                              json_number(sorted_quantile(K, average, 0.95)));
    if (e->levels)
        json_object_set_new(point, "level", json_text(e->value ? name_number(x, number) : e->column->level[g]));
    return point;
}

/* Rows X[rows][columns], evenly spread; work: [2 rows + 1][K]. */
static json_t *describe_effect(const rows_seen *s, const effect *e, size_t K, size_t rows, double *X, double *work)
{
    static const char *const kinds[] = {"numeric", "boolean", "categorical"};
    size_t C = s->data->columns, trials = predictor_trials(s->p), points = e->levels;
    double lo, hi, *average = work + 2 * rows * K;
    find_range(s, e, &lo, &hi);
    if (!points)
        points = !(hi > lo) ? 1 : e->column->kind == COLUMN_BOOLEAN ? 2 : EFFECT_GRID;
    json_t *list = json_array();
    for (size_t g = 0; g < points; g++) {
        double x = e->value     ? e->value[g]
                   : e->levels  ? (double)g
                   : points > 1 ? lo + (hi - lo) * (double)g / (double)(points - 1)
                                : lo;
        if (s->glm && !set_column(s, e, x, rows, X))
            break;
        for (size_t i = 0; !s->glm && i < rows; i++) {
            memcpy(X + i * C, s->data->X + i * s->n / rows * C, C * sizeof *X);
            set_value(e, g, x, X + i * C);
        }
        for (size_t i = 0; i < rows && trials < C; i++)
            X[i * C + trials] = 1; /* the response is a share */
        if (!average_responses(s, K, rows, X, work, average))
            break;
        json_array_append_new(list, describe_point(e, g, x, K, average));
    }
    return json_pack("{s:o, s:s, s:o}", "name", json_text(e->column->name), "kind",
                     kinds[e->levels ? COLUMN_CATEGORICAL : e->column->kind], "points", list);
}

/* Is the column one that the rows of the design are made of? */
static bool is_explaining(const rows_seen *s, const data_column *column)
{
    size_t n = 0;
    const char *const *name = s->glm ? design_columns(s->glm->design, WITHOUT_RESPONSE, &n) : NULL;
    bool found = !s->glm && column->used && !column->response;
    for (size_t c = 0; c < n; c++)
        found = found || !strcmp(name[c], column->name);
    return found;
}

/* Of the first columns; of none if there are very many features. */
static json_t *describe_effects(const rows_seen *s)
{
    const data_table *t = s->glm ? &s->glm->table : &s->data->source;
    size_t K = s->K < EFFECT_DRAWS ? s->K : EFFECT_DRAWS, rows = s->n < EFFECT_ROWS ? s->n : EFFECT_ROWS, at = 0;
    double *X = malloc(rows * s->data->columns * sizeof *X), *work = malloc((2 * rows + 1) * K * sizeof *work);
    json_t *list = json_array();
    for (size_t c = 0; X && work && c < t->csv.columns && s->data->columns <= EFFECT_FEATURES; c++) {
        const data_column *column = &t->column[c];
        size_t width = !is_explaining(s, column) ? 0 : column->kind == COLUMN_CATEGORICAL ? column->levels - 1 : 1;
        effect e = {column, at, width, column->kind == COLUMN_CATEGORICAL ? column->levels : 0, NULL};
        if (s->glm && !e.levels)
            e.value = factor_values(s->glm->design, column->name, &e.levels);
        e.levels = e.levels < MOST_LEVELS ? e.levels : MOST_LEVELS;
        if (width && json_array_size(list) < EFFECTS)
            json_array_append_new(list, describe_effect(s, &e, K, rows, X, work));
        at += width;
    }
    free(X);
    free(work);
    return list;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
/* A number of each row x[n]; of successes, their share of the trials, NaN of none. */
static void put_rows(json_t *o, const char *key, const rows_seen *s, double *x)
{
    size_t C = s->data->columns, trials = predictor_trials(s->p);
    for (size_t i = 0; trials < C && i < s->n; i++)
        x[i] = s->data->X[i * C + trials] > 0 ? x[i] / s->data->X[i * C + trials] : NAN;
    json_object_set_new(o, key, pack_floats(s->n, x));
}

/* Mean responses and intervals of the rows. */
static bool add_rows(json_t *o, const rows_seen *s, bool binary)
{
    failure f;
    wvgd_prediction *row = malloc((s->n + 1) * sizeof *row);
    double *x = malloc((s->n + 1) * sizeof *x);
    bool good = row && x && !predict_rows(s->p, s->K, s->draw, s->n, s->data->X, row, &f);
    for (size_t i = 0; good && i < s->n; i++)
        x[i] = row[i].mean;
    if (good) {
        json_object_set_new(o, "replicated", binary ? check_labels(s, x) : check_numbers(s));
        json_object_set_new(o, "effects", describe_effects(s));
        put_rows(o, "p", s, x);
        memcpy(x, s->data->y, s->n * sizeof *x);
        put_rows(o, "y", s, x);
    }
    for (int upper = 0; good && !binary && upper < 2; upper++) {
        for (size_t i = 0; i < s->n; i++)
            x[i] = upper ? row[i].upper : row[i].lower;
        put_rows(o, upper ? "upper" : "lower", s, x);
    }
    free(row);
    free(x);
    return good;
}

static json_t *describe_rows(const run_view *v, const predictor *p, regression_data *data, glm_data *glm)
{
    const char *const *names;
    bool binary = predicts_labels(p);
    size_t total = data->rows, n = predictor_columns(p, &names);
    bool same = n == data->columns;
    for (size_t c = 0; same && c < n; c++)
        same = !strcmp(names[c], data->names[c]);
    if (!same)
        return page_without("the columns of the data file differ from those of the run");
    if (!v->n)
        return page_without("there are no draws to predict with");
    rows_seen s = {
        .p = p, .data = data, .glm = glm, .n = pick_rows(data, binary ? LABELLED_ROWS : NUMBERED_ROWS), .P = v->P};
    s.draw = pick_draws(v, &s.K);
    json_t *model = json_object_get(v->run, "model"),
           *o = json_pack("{s:b, s:b, s:b, s:I}", "binary", binary, "shares", predictor_trials(p) < n, "standardized",
                          json_object_get(model, "standardized") != NULL, "rows", (json_int_t)total);
    bool good = s.draw && add_rows(o, &s, binary);
    free(s.draw);
    if (good)
        return o;
    json_decref(o);
    return page_without("there is not enough memory for predictions");
}

static table_options options_of(const json_t *run)
{
    const json_t *o = json_object_get(run, "options");
    return (table_options){json_string_value(json_object_get(o, "target")),
                           json_string_value(json_object_get(o, "features")),
                           json_string_value(json_object_get(o, "ignore")),
                           json_string_value(json_object_get(o, "delimiter")),
                           json_string_value(json_object_get(o, "missing")),
                           NULL};
}

/* The rows of a glm, as those of other regressions. */
static json_t *describe_glm(const run_view *v, const predictor *p, failure *why)
{
    const json_t *o = json_object_get(v->run, "options");
    glm_request how = {options_of(v->run), json_string_value(json_object_get(o, "formula")),
                       json_string_value(json_object_get(o, "likelihood")),
                       json_string_value(json_object_get(o, "weights")), true};
    glm_data g;
    regression_data data = {0};
    if (read_glm(v->data, &how, &g, why))
        return page_without(why->text);
    const char *const *names;
    data.rows = g.rows.rows;
    data.columns = predictor_columns(p, &names);
    data.X = pack_design(p, &g.rows);
    data.y = g.rows.y;
    data.names = (const char **)(uintptr_t)names;
    json_t *page = data.X && data.columns == g.columns + (g.rows.offset != NULL) + (g.rows.trials != NULL)
                       ? describe_rows(v, p, &data, &g)
                       : page_without("the columns of the data file differ from those of the run");
    free(data.X);
    free_glm(&g);
    return page;
}

json_t *describe_regression_page(const run_view *v)
{
    failure why;
    regression_data data;
    json_t *o = NULL;
    const json_t *list = json_object_get(json_object_get(v->run, "posterior"), "names");
    bool binary = json_is_true(json_object_get(json_object_get(v->run, "data"), "discrete"));
    table_options how = options_of(v->run);
    const char **names = calloc(v->P + 1, sizeof *names);
    for (size_t i = 0; names && i < v->P; i++)
        names[i] = json_string_value(json_array_get(list, i));
    predictor *p = names ? new_predictor(v->run, v->P, names, NULL, &why) : NULL;
    if (!p)
        o = page_without(names ? why.text : "there is not enough memory");
    else if (predictor_design(p))
        o = describe_glm(v, p, &why);
    else if (read_regression(v->data, &how, binary ? TARGET_LABELS : TARGET_REAL, &data, &why))
        o = page_without(why.text);
    else {
        o = describe_rows(v, p, &data, NULL);
        free_regression(&data);
    }
    free_predictor(p);
    free(names);
    return o;
}
