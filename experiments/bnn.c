/* bnn.c - an ensemble of neural networks: particles that differ as functions, or as weights?
 *
 * The paper's commented-out idea: the cost between two sets of weights is the angle between their predictions.
 * Hidden units in another order or with other signs are the same function, so that a Euclidean cost spends particles
 * on mirror images, and its particles, means over cells, may be no network of the posterior at all. Boston house
 * prices (above or below the median), networks of a few tanh units; random splits into training and held-out rows.
 * One staged fit a split; its draws are cut into cells under each cost. Since a particle under the functional cost
 * is found by steps that know a gradient only, medoids are shown as well, under both costs: the best N of 500 draws
 * from the posterior, which need no steps. */
#include "medoids.h"
#include "ascending.h"
#include "model_data.h"
#include "models.h"
#include "random.h"
#include "reproduce.h"
#include "shared_file.h"
#include "wvgd.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { SPLITS = 3, PARTICLES = 8, DRAWS = 500, RESTARTS = 50 };
static const double alive = 0.01; /* least mass of a particle that counts */

/* Ways to stand for the posterior. */
enum {
    FUNCTIONAL,
    EUCLIDEAN,
    MAHALANOBIS,
    CELLS,
    FUNCTIONAL_MEDOIDS = CELLS,
    EUCLIDEAN_MEDOIDS,
    WHOLE,
    LOGISTIC,
    WAYS
};
static const char *const way_names[WAYS] = {"functional",         "euclidean",         "mahalanobis",
                                            "functional_medoids", "euclidean_medoids", "posterior_draws",
                                            "logistic_regression"};
static const char *const way_texts[WAYS] = {
    "cells, functional cost (angle)", "cells, squared Euclidean cost", "cells, Mahalanobis cost (the default)",
    "medoids, functional cost",       "medoids, Euclidean cost",       "500 draws from the posterior",
    "logistic regression, 500 draws"};
static const wvgd_cost cell_costs[CELLS] = {WVGD_CALLBACK, WVGD_SQEUCLID, WVGD_MAHALANOBIS};

typedef struct {
    size_t particles;
    size_t living;     /* of mass 0.01 and more */
    size_t distinct;   /* of these, further apart as functions than half the median angle of two draws */
    double pair_angle; /* mean angle between two living particles */
    double reach;      /* mean angle from a draw to the nearest particle */
    double predictive; /* mean log predictive density of a held-out row */
    double seconds;
} bnn_result;

typedef struct {
    const reproduction *r;
    regression_data all;
    size_t train, hidden, splits, particles;
    bnn_result result[SPLITS][WAYS];
    double median_angle[SPLITS], evidence_se[SPLITS], pareto_k[SPLITS];
} bnn_study;

/* One split: rows of both parts, standardised by the training rows. */
typedef struct {
    size_t P, H, D, train, test;
    double *X, *y; /* [train + test][P], [train + test]: training rows first */
    double *draws; /* [DRAWS][D] from the posterior */
    double *out;   /* [DRAWS][train] their predictions over their norms */
    double *cost;  /* [DRAWS][DRAWS] */
    double *value; /* [rows] or [DRAWS], scratch */
} bnn_split;

/* ---- data -------------------------------------------------------------------------------------------------------- */
typedef struct {
    double key;
    size_t row;
} keyed_row;

static int by_key(const void *a, const void *b)
{
    double x = ((const keyed_row *)a)->key, y = ((const keyed_row *)b)->key;
    return (x > y) - (x < y);
}

static void shuffle_rows(const bnn_study *study, size_t split, keyed_row *order, double *u)
{
    size_t n = study->all.rows;
    svgd_random_uniform(study->r->seed, split, n, u);
    for (size_t i = 0; i < n; i++)
        order[i] = (keyed_row){u[i], i};
    qsort(order, n, sizeof *order, by_key);
}

static void standardise(bnn_split *s, size_t d)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < s->train; i++)
        mean += s->X[i * s->P + d] / (double)s->train;
    for (size_t i = 0; i < s->train; i++)
        square += pow(s->X[i * s->P + d] - mean, 2);
    double sd = sqrt(square / (double)(s->train - 1));
    for (size_t i = 0; i < s->train + s->test; i++)
        s->X[i * s->P + d] = sd > 0 ? (s->X[i * s->P + d] - mean) / sd : 0;
}

static int make_split(const bnn_study *study, size_t split, bnn_split *s)
{
    size_t n = study->all.rows, P = study->all.columns, H = study->hidden;
    *s = (bnn_split){.P = P, .H = H, .D = H * (P + 2) + 1, .train = study->train, .test = n - study->train};
    size_t width = n > DRAWS ? n : DRAWS;
    s->X = calloc(n * (P + 1) + DRAWS * (s->D + s->train + DRAWS) + width, sizeof *s->X);
    keyed_row *order = calloc(n, sizeof *order);
    if (!s->X || !order) {
        free(s->X);
        free(order);
        return -1;
    }
    s->y = s->X + n * P;
    s->draws = s->y + n;
    s->out = s->draws + DRAWS * s->D;
    s->cost = s->out + DRAWS * s->train;
    s->value = s->cost + DRAWS * DRAWS;
    shuffle_rows(study, split, order, s->value);
    for (size_t i = 0; i < n; i++) {
        memcpy(s->X + i * P, study->all.X + order[i].row * P, P * sizeof *s->X);
        s->y[i] = study->all.y[order[i].row];
    }
    for (size_t d = 0; d < P; d++)
        standardise(s, d);
    free(order);
    return 0;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
/* f(x; z) of models/bnn.c, before the sigmoid. */
static double network(const bnn_split *s, const double *z, const double *x)
{
    const double *b1 = z + s->H * s->P, *w2 = b1 + s->H;
    double f = w2[s->H];
    for (size_t h = 0; h < s->H; h++)
        f += w2[h] * tanh(b1[h] + cblas_ddot((int)s->P, z + h * s->P, 1, x, 1));
    return f;
}

/* The last weight is the intercept. */
static double linear(const bnn_split *s, const double *z, const double *x)
{
    return z[s->P] + cblas_ddot((int)s->P, z, 1, x, 1);
}

typedef double predictor(const bnn_split *s, const double *z, const double *x);

/* Mean over held-out rows of log sum_j w_j p(y | x, z_j); z [N][D]. */
static double predict(const bnn_split *s, predictor *f, size_t N, size_t D, const double *z, const double *w)
{
    double sum = 0;
    for (size_t i = s->train; i < s->train + s->test; i++) {
        double p = 0;
        for (size_t j = 0; j < N; j++) {
            double a = f(s, z + j * D, s->X + i * s->P);
            p += w[j] / (1 + exp(s->y[i] > 0 ? -a : a));
        }
        sum += log(fmax(p, 1e-300));
    }
    return sum / (double)s->test;
}

/* Predictions on the training rows, of norm 1. */
static void fill_direction(const bnn_split *s, const double *z, double *out)
{
    for (size_t i = 0; i < s->train; i++)
        out[i] = network(s, z, s->X + i * s->P);
    double norm = cblas_dnrm2((int)s->train, out, 1);
    cblas_dscal((int)s->train, norm > 0 ? 1 / norm : 0, out, 1);
}

static double angle(const bnn_split *s, const double *a, const double *b)
{
    return acos(fmin(fmax(cblas_ddot((int)s->train, a, 1, b, 1), -1), 1));
}

static double distance(const bnn_split *s, size_t i, size_t k)
{
    double sum = 0;
    for (size_t d = 0; d < s->D; d++)
        sum += pow(s->draws[i * s->D + d] - s->draws[k * s->D + d], 2);
    return sum;
}

static void fill_costs(bnn_split *s, bool functional)
{
    for (size_t i = 0; i < DRAWS; i++)
        for (size_t k = 0; k <= i; k++)
            s->cost[i * DRAWS + k] = s->cost[k * DRAWS + i] =
                functional ? angle(s, s->out + i * s->train, s->out + k * s->train) : distance(s, i, k);
}

/* Of pairs of draws that follow each other. */
static double median_angle(bnn_split *s)
{
    for (size_t i = 0; i < DRAWS; i++)
        s->value[i] = angle(s, s->out + i * s->train, s->out + (i + 1) % DRAWS * s->train);
    qsort(s->value, DRAWS, sizeof *s->value, ascending);
    return s->value[DRAWS / 2];
}

/* ---- results of one set of particles ----------------------------------------------------------------------------- */
/* What the living particles, their directions in out [N][train], have to do with each other. */
static void compare(const bnn_split *s, size_t N, const double *w, const double *out, double apart, bnn_result *r)
{
    size_t pairs = 0, kept[PARTICLES];
    r->pair_angle = 0;
    for (size_t j = 0; j < N; j++) {
        bool is_new = w[j] >= alive;
        if (!is_new)
            continue;
        r->living++;
        for (size_t k = 0; k < j; k++)
            if (w[k] >= alive) {
                r->pair_angle += angle(s, out + j * s->train, out + k * s->train);
                pairs++;
            }
        for (size_t k = 0; k < r->distinct; k++)
            is_new = is_new && angle(s, out + j * s->train, out + kept[k] * s->train) > apart;
        if (is_new)
            kept[r->distinct++] = j;
    }
    r->pair_angle = pairs ? r->pair_angle / (double)pairs : (double)NAN;
}

static int measure(const bnn_split *s, size_t N, const double *z, const double *w, double apart, bnn_result *r)
{
    double *out = calloc(N * s->train, sizeof *out);
    if (!out)
        return -1;
    *r = (bnn_result){.particles = N, .predictive = predict(s, network, N, s->D, z, w)};
    for (size_t j = 0; j < N; j++)
        fill_direction(s, z + j * s->D, out + j * s->train);
    compare(s, N, w, out, apart, r);
    for (size_t i = 0; i < DRAWS; i++) {
        double near = INFINITY;
        for (size_t j = 0; j < N; j++)
            near = fmin(near, angle(s, s->out + i * s->train, out + j * s->train));
        r->reach += near / DRAWS;
    }
    free(out);
    return 0;
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */
/* Particles and masses of other cells are there before the batch for their bound, which is not needed here. */
static int measure_cells(const bnn_split *s, const wvgd_fit *base, wvgd_options *o, size_t way, double apart,
                         bnn_result *out, wvgd_error *error)
{
    double begun = now_seconds();
    wvgd_results r;
    o->cost = cell_costs[way];
    wvgd_fit *fit = wvgd_quantize(base, o, error);
    int failed = !fit;
    if (!failed) {
        wvgd_get_results(fit, &r);
        failed = measure(s, r.N, r.z, r.beta, apart, out);
        out->seconds = now_seconds() - begun;
    }
    wvgd_free(fit);
    return failed;
}

static int measure_medoids(const bnn_study *study, bnn_split *s, bool functional, double apart, bnn_result *out)
{
    size_t N = study->particles, medoid[PARTICLES], size[PARTICLES];
    double begun = now_seconds(), w[PARTICLES], *z = calloc(N * s->D, sizeof *z);
    fill_costs(s, functional);
    int failed = !z || isnan(find_medoids(DRAWS, s->cost, N, RESTARTS, study->r->seed, medoid, size));
    for (size_t j = 0; j < N && !failed; j++) {
        memcpy(z + j * s->D, s->draws + medoid[j] * s->D, s->D * sizeof *z);
        w[j] = (double)size[j] / DRAWS;
    }
    failed = failed || measure(s, N, z, w, apart, out);
    out->seconds = now_seconds() - begun;
    free(z);
    return failed;
}

/* Draws DRAWS points of the posterior of a model that has been fitted, and what they predict. */
static int measure_draws(bnn_split *s, predictor *f, const wvgd_fit *fit, size_t D, bnn_result *out, wvgd_error *error)
{
    double *z = s->draws;
    if (wvgd_resample(fit, 0, DRAWS, z, NULL, error) != WVGD_OK)
        return -1;
    for (size_t i = 0; i < DRAWS; i++)
        s->value[i] = 1.0 / DRAWS;
    *out = (bnn_result){.particles = DRAWS, .predictive = predict(s, f, DRAWS, D, z, s->value)};
    return 0;
}

static int fit_network(bnn_study *study, bnn_split *s, size_t split, const wvgd_model *model, wvgd_options *o,
                       wvgd_error *error)
{
    bnn_result *result = study->result[split];
    wvgd_results r;
    double begun = now_seconds();
    o->cost = WVGD_SQEUCLID;
    wvgd_fit *base = wvgd_new(model, o, NULL, error);
    int failed = !base || wvgd_run(base, NULL, NULL, error) != WVGD_OK ||
                 measure_draws(s, network, base, s->D, &result[WHOLE], error);
    if (!failed) {
        wvgd_get_results(base, &r);
        result[WHOLE].seconds = now_seconds() - begun;
        study->evidence_se[split] = r.evidence.se;
        study->pareto_k[split] = r.pareto_k;
        for (size_t i = 0; i < DRAWS; i++)
            fill_direction(s, s->draws + i * s->D, s->out + i * s->train);
        study->median_angle[split] = median_angle(s);
    }
    for (size_t way = 0; way < CELLS && !failed; way++)
        failed = measure_cells(s, base, o, way, 0.5 * study->median_angle[split], &result[way], error);
    for (size_t way = FUNCTIONAL_MEDOIDS; way <= EUCLIDEAN_MEDOIDS && !failed; way++)
        failed = measure_medoids(study, s, way == FUNCTIONAL_MEDOIDS, 0.5 * study->median_angle[split], &result[way]);
    wvgd_free(base);
    return failed;
}

static int fit_logistic(bnn_study *study, bnn_split *s, size_t split, const wv_regression *data, wvgd_options *o,
                        wvgd_error *error)
{
    wvgd_model model;
    double begun = now_seconds();
    if (wv_model_logistic(&model, data))
        return -1;
    wvgd_fit *fit = wvgd_new(&model, o, NULL, error);
    int failed = !fit || wvgd_run(fit, NULL, NULL, error) != WVGD_OK ||
                 measure_draws(s, linear, fit, s->P + 1, &study->result[split][LOGISTIC], error);
    study->result[split][LOGISTIC].seconds = now_seconds() - begun;
    wvgd_free(fit);
    wvgd_model_close(&model);
    return failed;
}

static int fit_models(bnn_study *study, bnn_split *s, size_t split, wvgd_error *error)
{
    wvgd_model model;
    wvgd_options o;
    wv_regression data = {.rows = s->train,
                          .columns = s->P,
                          .X = s->X,
                          .y = s->y,
                          .names = study->all.names,
                          .intercept = true,
                          .prior_sd = 1.0};
    wvgd_options_init(&o);
    o.particles = study->particles;
    o.seed = study->r->seed;
    if (fit_logistic(study, s, split, &data, &o, error) || wv_model_bnn(&model, &data, s->H, true))
        return -1;
    wv_bnn_angle *angle_cost = wv_bnn_angle_new(&model);
    o.family = WVGD_DIAG;
    o.cost_batch = wv_bnn_angle_costs;
    o.cost_self = angle_cost;
    int failed = !angle_cost || fit_network(study, s, split, &model, &o, error);
    wv_bnn_angle_free(angle_cost);
    wvgd_model_close(&model);
    return failed;
}

static int fit_split(void *self, size_t split, failure *f)
{
    bnn_study *study = self;
    bnn_split s;
    wvgd_error error = {.text = "no memory"};
    if (make_split(study, split, &s))
        return fail(f, EX_SOFTWARE, "no memory for split %zu", split);
    int failed = fit_models(study, &s, split, &error);
    free(s.X);
    return failed ? fail(f, EX_SOFTWARE, "split %zu: %s", split, error.text) : 0;
}

/* ---- results.csv, results.md ------------------------------------------------------------------------------------- */
static int write_rows(const bnn_study *study, failure *f)
{
    whole_file w;
    if (begin_result(study->r, "results.csv", &w, f))
        return f->code;
    fputs("split,method,particles,living,distinct,mean_pair_angle,mean_angle_to_nearest,predictive,seconds\n",
          w.stream);
    for (size_t split = 0; split < study->splits; split++)
        for (size_t way = 0; way < WAYS; way++) {
            const bnn_result *r = &study->result[split][way];
            fprintf(w.stream, "%zu,%s,%zu,", split, way_names[way], r->particles);
            if (way < WHOLE)
                fprintf(w.stream, "%zu,%zu,%.6f,%.6f", r->living, r->distinct, r->pair_angle, r->reach);
            else
                fputs(",,,", w.stream);
            fprintf(w.stream, ",%.6f,%.2f\n", r->predictive, r->seconds);
        }
    return finish_file(&w, f);
}

/* Mean over the splits of what `value` takes from a result, where it is a number. */
static double mean_of(const bnn_study *study, size_t way, double (*value)(const bnn_result *r))
{
    double sum = 0, n = 0;
    for (size_t split = 0; split < study->splits; split++) {
        double x = value(&study->result[split][way]);
        sum += isnan(x) ? 0 : x;
        n += isnan(x) ? 0 : 1;
    }
    return n > 0 ? sum / n : (double)NAN;
}

static double living_of(const bnn_result *r)
{
    return (double)r->living;
}

static double distinct_of(const bnn_result *r)
{
    return (double)r->distinct;
}

static double pair_angle_of(const bnn_result *r)
{
    return r->pair_angle;
}

static double reach_of(const bnn_result *r)
{
    return r->reach;
}

static double predictive_of(const bnn_result *r)
{
    return r->predictive;
}

/* Predictive density less that of the posterior draws, over splits. */
static sample_summary loss_of(const bnn_study *study, size_t way)
{
    double x[SPLITS];
    for (size_t split = 0; split < study->splits; split++)
        x[split] = study->result[split][way].predictive - study->result[split][WHOLE].predictive;
    return summarise_sample(study->splits, x);
}

static void put_table(const bnn_study *study, FILE *out)
{
    fputs("\n| stand-in for the posterior | living particles | distinct functions | angle between particles | angle to "
          "the nearest | held-out log likelihood a row | less than posterior draws |\n"
          "|---|---|---|---|---|---|---|\n",
          out);
    for (size_t way = 0; way < WAYS; way++) {
        sample_summary loss = loss_of(study, way);
        fprintf(out, "| %s |", way_texts[way]);
        if (way < WHOLE) {
            double between = mean_of(study, way, pair_angle_of);
            fprintf(out, " %.1f of %zu | %.1f |", mean_of(study, way, living_of), study->particles,
                    mean_of(study, way, distinct_of));
            if (isnan(between))
                fputs(" |", out);
            else
                fprintf(out, " %.2f |", between);
            fprintf(out, " %.2f |", mean_of(study, way, reach_of));
        } else
            fputs(" | | | |", out);
        fprintf(out, " %.4f |", mean_of(study, way, predictive_of));
        if (way == WHOLE)
            fputs(" |\n", out);
        else if (isnan(loss.se)) /* one split */
            fprintf(out, " %.4f |\n", -loss.mean);
        else
            fprintf(out, " %.4f ± %.4f |\n", -loss.mean, loss.se);
    }
}

static int write_tables(const bnn_study *study, failure *f)
{
    whole_file w;
    if (begin_markdown(study->r, "results.md", "Ensemble of Bayesian neural networks", &w, f))
        return f->code;
    double median = 0, se = 0, k = 0;
    for (size_t split = 0; split < study->splits; split++) {
        median += study->median_angle[split] / (double)study->splits;
        se = fmax(se, study->evidence_se[split]);
        k = fmax(k, study->pareto_k[split]);
    }
    fprintf(w.stream,
            "Boston house prices, above or below the median: %zu training rows, %zu held out, %zu random splits; "
            "features standardised by the training rows. One hidden layer of %zu tanh units, all weights\n"
            "N(0, 1): %zu weights. Means over the splits. Angles in radians, between predictions on the training rows; "
            "two draws from the posterior are %.2f apart (median). Living: of mass %g and more.\n"
            "Distinct: of the living, further from each other than half of that. The fits themselves: standard error "
            "of the log evidence up to %.2f, Pareto k-hat up to %.2f.\n",
            study->train, study->all.rows - study->train, study->splits, study->hidden,
            study->hidden * (study->all.columns + 2) + 1, median, alive, se, k);
    put_table(study, w.stream);
    fputs("\nEvery run: results.csv.\n", w.stream);
    return finish_file(&w, f);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */
static int run_study(bnn_study *study, failure *f)
{
    char *path = find_shared("data/boston.csv", f);
    int code = path ? read_regression(path, &(table_options){0}, TARGET_LABELS, &study->all, f) : f->code;
    if (!code) {
        code = run_jobs(study->r, "splits", study->splits, fit_split, study, f);
        if (!code)
            code = write_rows(study, f);
        if (!code)
            code = write_tables(study, f);
        if (!code)
            code = print_result(study->r, "results.md", f);
        free_regression(&study->all);
    }
    free(path);
    return code;
}

static int run_bnn(const reproduction *r, failure *f)
{
    bnn_study *study = calloc(1, sizeof *study);
    if (!study)
        return fail(f, EX_SOFTWARE, "no memory for the experiment %s", r->name);
    study->r = r;
    study->train = r->quick ? 40 : 150;
    study->hidden = r->quick ? 1 : 2;
    study->splits = r->quick ? 1 : SPLITS;
    study->particles = r->quick ? 3 : PARTICLES;
    int code = run_study(study, f);
    free(study);
    return code;
}

const experiment bnn_experiment = {"bnn", "ensemble of neural networks: functional against Euclidean cost", run_bnn};
