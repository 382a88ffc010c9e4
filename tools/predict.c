/* predict.c - what a model expects of new rows, from draws theta_1 .. theta_K of its posterior.
 *     logistic        mean response  sigmoid(x . w)          response  0 or 1
 *     linear          x . w                                  N(x . w, sigma^2)
 *     glm             g(x . w + offset)                      as its likelihood says
 *     bnn             f(x) or sigmoid(f(x))                  N(f(x), sigma^2), or 0 or 1
 *     in general      what the family of the response says (response.h), which the record may name
 *     gp              the process f(t) given the data, N(m, v) for each draw:
 *                     m = k' C^-1 y, v = A - k' C^-1 k       N(m, v + B)
 * Mean and sd of the mean response are those over the draws, quantiles are those of R. The interval of a new response
 * holds 90 % of its predictive distribution, the mixture over the draws, with 5 % on either side: computed, not
 * simulated. Rows are encoded as in the fit: the record has the names of the features and what they were standardized
 * by. */
#include "predict.h"
#include "table.h"
#include "predictive.h"
#include "response.h"
#include "text.h"
#include <lapacke.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { BLOCK = 256 }; /* rows whose mean responses are kept at a time */

struct predictor {
    int (*fill)(const predictor *p, size_t K, const double *value, size_t rows, const double *X, double *mean,
                double *sd, failure *f);
    size_t columns;
    const char **names;     /* [columns] */
    const json_t *data;     /* of the record: kinds and levels of columns */
    double *centre, *scale; /* [columns] x becomes (x - centre) / scale; scale 0: it becomes 0 */
    design *design;         /* of a glm: columns of its rows, then the offset and the trials, if it has them */
    size_t features;        /* of the columns, those that have a weight */
    size_t offset, trials;  /* which columns these are; columns: there is none */
    size_t quantities;
    size_t *weight;                /* [columns] which quantity is the weight of a column; of linear predictors */
    size_t intercept;              /* which is the intercept; quantities: there is none */
    const response_family *family; /* of responses */
    size_t noise, tail;            /* which quantities tell their spread and tail; quantities: there is none */
    bool log_noise;                /* by its log */
    size_t hidden;                 /* units of a bnn */
    const series_data *series;
};

/* ---- mean responses: mean[rows][K] ------------------------------------------------------------------------------- */
/* X[rows][columns] as in the fit; to be freed. */
static double *encode(const predictor *p, size_t rows, const double *X)
{
    double *Z = malloc((rows * p->columns + 1) * sizeof *Z);
    for (size_t i = 0; Z && i < rows * p->columns; i++) {
        size_t c = i % p->columns;
        Z[i] = p->scale[c] > 0 ? (X[i] - p->centre[c]) / p->scale[c] : 0;
    }
    return Z;
}

static bool is_binary(const predictor *p)
{
    return p->family && !strcmp(p->family->name, "bernoulli");
}

static double linear_predictor(const predictor *p, const double *w, const double *x)
{
    double t = p->intercept < p->quantities ? w[p->intercept] : 0;
    t += p->offset < p->columns ? x[p->offset] : 0;
    for (size_t c = 0; c < p->features; c++)
        t += w[p->weight[c]] * x[c];
    return t;
}

double network_output(size_t H, size_t F, const double *w, const double *x)
{
    const double *b1 = w + H * F, *w2 = b1 + H;
    double t = w2[H];
    for (size_t h = 0; h < H; h++) {
        double u = b1[h];
        for (size_t c = 0; c < F; c++)
            u += w[h * F + c] * x[c];
        t += w2[h] * tanh(u);
    }
    return t;
}

static int fill_regression(const predictor *p, size_t K, const double *value, size_t rows, const double *X,
                           double *mean, double *sd, failure *f)
{
    double *Z = encode(p, rows, X);
    if (!Z)
        return fail(f, EX_SOFTWARE, "no memory for %zu rows", rows);
    for (size_t k = 0; k < K; k++) {
        const double *w = value + k * p->quantities;
        double noise = p->noise == p->quantities ? 0 : p->log_noise ? exp(w[p->noise]) : w[p->noise];
        for (size_t i = 0; i < rows; i++) {
            const double *x = Z + i * p->columns;
            double t = p->hidden ? network_output(p->hidden, p->columns, w, x) : linear_predictor(p, w, x),
                   trials = p->trials < p->columns ? x[p->trials] : 1;
            mean[i * K + k] = trials * p->family->mean(t);
            sd[i * K + k] = p->trials < p->columns ? trials : noise;
        }
    }
    free(Z);
    return 0;
}

typedef struct {
    double A, omega, s, B;
} kernel;

static kernel read_kernel(const double *log_theta)
{
    return (kernel){exp(log_theta[0]), 2 * M_PI * exp(log_theta[1]), exp(log_theta[2]), exp(log_theta[3])};
}

static double covariance(const kernel *k, double d)
{
    double u = d / k->s;
    return k->A * exp(-u * u / 2) * cos(k->omega * d);
}

/* right[n][rows + 1] = L^-1 (covariances with the new times, y) for C = L L'. false: C is singular. */
static bool solve_process(const kernel *k, const series_data *data, size_t rows, const double *t, double *C,
                          double *right)
{
    size_t n = data->n;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++)
            C[i * n + j] = covariance(k, data->t[i] - data->t[j]) + (i == j ? k->B : 0);
        for (size_t r = 0; r < rows; r++)
            right[i * (rows + 1) + r] = covariance(k, data->t[i] - t[r]);
        right[i * (rows + 1) + rows] = data->y[i];
    }
    return !LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (lapack_int)n, C, (lapack_int)n) &&
           !LAPACKE_dtrtrs(LAPACK_ROW_MAJOR, 'L', 'N', 'N', (lapack_int)n, (lapack_int)rows + 1, C, (lapack_int)n,
                           right, (lapack_int)rows + 1);
}

/* sd: of the process itself, without noise. */
static int fill_process(const predictor *p, size_t K, const double *value, size_t rows, const double *t, double *mean,
                        double *sd, failure *f)
{
    size_t n = p->series->n;
    double *C = malloc(n * n * sizeof *C), *right = malloc(n * (rows + 1) * sizeof *right);
    int code = C && right ? 0 : fail(f, EX_SOFTWARE, "no memory for a series of %zu values", n);
    for (size_t k = 0; k < K && !code; k++) {
        kernel here = read_kernel(value + k * p->quantities);
        if (!solve_process(&here, p->series, rows, t, C, right))
            code = fail(f, EX_SOFTWARE, "the covariance of draw %zu is singular: its noise is too small", k + 1);
        for (size_t r = 0; r < rows && !code; r++) {
            double sum = 0, square = 0;
            for (size_t i = 0; i < n; i++) {
                const double *row = right + i * (rows + 1);
                sum += row[r] * row[rows];
                square += row[r] * row[r];
            }
            mean[r * K + k] = sum;
            sd[r * K + k] = sqrt(fmax(here.A - square, 0));
        }
    }
    free(C);
    free(right);
    return code;
}

/* ---- from mean responses to a prediction ------------------------------------------------------------------------- */
static const double low_tail = 0.05, high_tail = 0.95;

static wvgd_prediction describe_regression(const predictor *p, size_t K, const double *tail, double *mean,
                                           const double *spread)
{
    wvgd_prediction row;
    describe_draws(K, mean, &row.mean, &row.sd);
    row.lower = response_quantile(p->family, K, mean, spread, tail, low_tail);
    row.upper = response_quantile(p->family, K, mean, spread, tail, high_tail);
    sort_draws(K, mean);
    row.q5 = sorted_quantile(K, mean, low_tail);
    row.q50 = sorted_quantile(K, mean, 0.5);
    row.q95 = sorted_quantile(K, mean, high_tail);
    return row;
}

/* The process itself is uncertain for each draw. */
static wvgd_prediction describe_process(const predictor *p, size_t K, const double *value, double *mean, double *sd)
{
    wvgd_prediction row;
    double spread, square = 0;
    describe_draws(K, mean, &row.mean, &spread);
    for (size_t k = 0; k < K; k++)
        square += sd[k] * sd[k] / (double)K;
    row.sd = sqrt(spread * spread + square);
    row.q5 = mixture_quantile(K, mean, sd, low_tail);
    row.q50 = mixture_quantile(K, mean, sd, 0.5);
    row.q95 = mixture_quantile(K, mean, sd, high_tail);
    for (size_t k = 0; k < K; k++)
        sd[k] = hypot(sd[k], sqrt(read_kernel(value + k * p->quantities).B));
    row.lower = mixture_quantile(K, mean, sd, low_tail);
    row.upper = mixture_quantile(K, mean, sd, high_tail);
    return row;
}

int mean_responses(const predictor *p, size_t K, const double *value, size_t rows, const double *X, double *mean,
                   double *sd, failure *f)
{
    return p->fill(p, K, value, rows, X, mean, sd, f);
}

bool predicts_labels(const predictor *p)
{
    return is_binary(p);
}

const response_family *predictor_family(const predictor *p)
{
    return p->family;
}

size_t predictor_tail(const predictor *p)
{
    return p->tail;
}

size_t predictor_trials(const predictor *p)
{
    return p->trials;
}

const design *predictor_design(const predictor *p)
{
    return p->design;
}

int predict_rows(const predictor *p, size_t K, const double *value, size_t rows, const double *X, wvgd_prediction *row,
                 failure *f)
{
    double *mean = malloc(BLOCK * K * sizeof *mean), *sd = malloc(BLOCK * K * sizeof *sd),
           *tail = malloc((K + 1) * sizeof *tail);
    int code = mean && sd && tail ? 0 : fail(f, EX_SOFTWARE, "no memory for predictions from %zu draws", K);
    for (size_t k = 0; k < K && !code; k++)
        tail[k] = p->tail < p->quantities ? value[k * p->quantities + p->tail] : 0;
    for (size_t at = 0; at < rows && !code; at += BLOCK) {
        size_t here = rows - at < BLOCK ? rows - at : BLOCK;
        code = p->fill(p, K, value, here, X + at * p->columns, mean, sd, f);
        for (size_t i = 0; i < here && !code; i++)
            row[at + i] = p->series ? describe_process(p, K, value, mean + i * K, sd + i * K)
                                    : describe_regression(p, K, tail, mean + i * K, sd + i * K);
    }
    free(mean);
    free(sd);
    free(tail);
    return code;
}

/* ---- what the record says ---------------------------------------------------------------------------------------- */
static int damaged(const char *what, failure *f)
{
    return fail(f, EX_DATAERR, "the record of the run lacks %s, perhaps because an older version made it: fit it again",
                what);
}

static size_t find_name(size_t n, const char *const *names, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static int allocate_columns(predictor *p, size_t columns, failure *f)
{
    p->columns = p->features = p->offset = p->trials = columns;
    p->names = calloc(columns + 1, sizeof *p->names);
    p->centre = calloc(columns + 1, sizeof *p->centre);
    p->scale = calloc(columns + 1, sizeof *p->scale);
    p->weight = calloc(columns + 1, sizeof *p->weight);
    for (size_t c = 0; p->scale && c < columns; c++)
        p->scale[c] = 1;
    return p->names && p->centre && p->scale && p->weight ? 0 : fail(f, EX_SOFTWARE, "no memory for the columns");
}

/* Names of the features, and what they were standardized by. */
static int take_features(predictor *p, const json_t *asked, failure *f)
{
    const json_t *list = json_object_get(json_object_get(asked, "data"), "features"),
                 *s = json_object_get(json_object_get(asked, "model"), "standardized"),
                 *mean = json_object_get(s, "mean"), *sd = json_object_get(s, "sd");
    if (!json_array_size(list))
        return damaged("the features", f);
    if (allocate_columns(p, json_array_size(list), f))
        return f->code;
    for (size_t c = 0; c < p->columns; c++) {
        p->names[c] = json_string_value(json_array_get(list, c));
        if (!p->names[c] || (s && !(json_is_number(json_array_get(mean, c)) && json_is_number(json_array_get(sd, c)))))
            return damaged("the features", f);
        if (s) {
            p->centre[c] = json_number_value(json_array_get(mean, c));
            p->scale[c] = json_number_value(json_array_get(sd, c));
        }
    }
    return 0;
}

/* A parameter by name; *at = quantities: the family has none. */
static int take_parameter(const predictor *p, const char *const *names, const char *name, size_t *at, failure *f)
{
    *at = name ? find_name(p->quantities, names, name) : p->quantities;
    return name && *at == p->quantities ? damaged("the noise", f) : 0;
}

/* The family of responses, which the record names, or which follows from what they are; and its parameters. */
static int take_family(predictor *p, const json_t *asked, const char *const *names, failure *f)
{
    bool labels = json_is_true(json_object_get(json_object_get(asked, "data"), "discrete"));
    const char *name = json_string_value(json_object_get(json_object_get(asked, "model"), "likelihood"));
    p->family = find_family(name ? name : labels ? "bernoulli" : "gaussian");
    if (!p->family)
        return damaged("a likelihood that has predictions", f);
    p->log_noise = p->family->spread && find_name(p->quantities, names, "log_sigma") < p->quantities;
    if (take_parameter(p, names, p->log_noise ? "log_sigma" : p->family->spread, &p->noise, f))
        return f->code;
    return take_parameter(p, names, p->family->tail, &p->tail, f);
}

/* The columns of the design, the offset, and the trials. */
static int take_glm(predictor *p, const json_t *asked, const char *const *names, failure *f)
{
    p->fill = fill_regression;
    if (load_design("the record of the run", json_object_get(json_object_get(asked, "model"), "design"), &p->design, f))
        return f->code;
    const design_shape *shape = shape_of(p->design);
    size_t skip = shape->intercept, C = shape->columns - skip, trials = shape->response != RESPONSE_PLAIN;
    if (allocate_columns(p, C + shape->offset + trials, f) || take_family(p, asked, names, f))
        return f->code;
    p->features = C;
    if (shape->offset)
        p->names[p->offset = C] = "offset";
    if (trials)
        p->names[p->trials = C + shape->offset] = "trials";
    p->intercept = skip ? find_name(p->quantities, names, "intercept") : p->quantities;
    for (size_t c = 0; c < C; c++) {
        p->names[c] = shape->names[skip + c];
        if ((p->weight[c] = find_name(p->quantities, names, p->names[c])) == p->quantities)
            return damaged("a coefficient", f);
    }
    return 0;
}

static int take_linear(predictor *p, const json_t *asked, const char *const *names, failure *f)
{
    p->fill = fill_regression;
    if (take_features(p, asked, f) || take_family(p, asked, names, f))
        return f->code;
    p->intercept = find_name(p->quantities, names, "intercept");
    for (size_t c = 0; c < p->columns; c++)
        if ((p->weight[c] = find_name(p->quantities, names, p->names[c])) == p->quantities)
            return damaged("the weight of a feature", f);
    return 0;
}

static int take_network(predictor *p, const json_t *asked, const char *const *names, failure *f)
{
    p->fill = fill_regression;
    if (take_features(p, asked, f) || take_family(p, asked, names, f))
        return f->code;
    size_t others = 1 + (size_t)(p->noise < p->quantities); /* b2, and the noise */
    p->hidden = p->quantities > others ? (p->quantities - others) / (p->columns + 2) : 0;
    return p->hidden && p->hidden * (p->columns + 2) + others == p->quantities ? 0 : damaged("the hidden units", f);
}

static int take_process(predictor *p, const json_t *asked, const char *const *names, failure *f)
{
    (void)asked, (void)names;
    p->fill = fill_process;
    p->noise = p->tail = p->quantities;
    if (!p->series || p->quantities != 4)
        return damaged("the series", f);
    if (allocate_columns(p, 1, f))
        return f->code;
    p->names[0] = p->series->name[0];
    return 0;
}

static int take_model(predictor *p, const json_t *asked, const char *const *names, failure *f)
{
    static const struct {
        const char *kind;
        int (*take)(predictor *p, const json_t *asked, const char *const *names, failure *f);
    } kinds[] = {{"logistic", take_linear},
                 {"linear", take_linear},
                 {"glm", take_glm},
                 {"bnn", take_network},
                 {"gp", take_process}};
    const json_t *model = json_object_get(asked, "model");
    const char *kind = json_string_value(json_object_get(model, "kind")),
               *name = json_string_value(json_object_get(model, "name"));
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i].kind))
            return kinds[i].take(p, asked, names, f);
    return fail(f, EX_DATAERR,
                "the model of the run, %s, makes no predictions: expected logistic, linear, glm, bnn or gp",
                name   ? name
                : kind ? kind
                       : "which is unknown");
}

predictor *new_predictor(const json_t *asked, size_t n, const char *const *names, const series_data *series, failure *f)
{
    predictor *p = calloc(1, sizeof *p);
    if (!p) {
        fail(f, EX_SOFTWARE, "no memory for predictions");
        return NULL;
    }
    p->quantities = n;
    p->series = series;
    p->data = json_object_get(asked, "data");
    if (!take_model(p, asked, names, f))
        return p;
    free_predictor(p);
    return NULL;
}

void free_predictor(predictor *p)
{
    if (!p)
        return;
    free_design(p->design);
    free(p->names);
    free(p->centre);
    free(p->scale);
    free(p->weight);
    free(p);
}

size_t predictor_columns(const predictor *p, const char *const **names)
{
    *names = p->names;
    return p->columns;
}

/* ---- new rows ---------------------------------------------------------------------------------------------------- */
/* The column that a feature column[level] is made of; NULL: it is one itself. *level: which of its levels. */
static const char *column_of(const predictor *p, const char *feature, size_t *level)
{
    const char *column;
    json_t *levels, *text;
    size_t k;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(p->data, "levels"), column, levels)
        json_array_foreach(levels, k, text) {
            size_t length = strlen(column), size = json_string_length(text);
            if (!strncmp(feature, column, length) && feature[length] == '[' && strlen(feature) == length + size + 2 &&
                !strncmp(feature + length + 1, json_string_value(text), size) && feature[length + 1 + size] == ']') {
                *level = k;
                return column;
            }
        }
    return NULL;
}

/* Which level a field is; unknown ones are refused. */
static int read_level(const predictor *p, const csv_file *csv, size_t row, size_t column, size_t *level, failure *f)
{
    const json_t *levels = json_object_get(json_object_get(p->data, "levels"), csv->name[column]);
    const char *field = find_field(csv, row, column);
    char expected[LEVELS_ROOM] = "";
    for (*level = 0; *level < json_array_size(levels); ++*level)
        if (!strcmp(field, json_string_value(json_array_get(levels, *level))))
            return 0;
    for (size_t k = 0; k < json_array_size(levels); k++)
        add_level(expected, json_string_value(json_array_get(levels, k)));
    return refuse_field(csv, row, column, field, expected, f);
}

/* The value of feature c in a row, encoded as in the fit. */
static int read_feature(const predictor *p, const csv_file *csv, size_t row, size_t c, size_t at, double *x, failure *f)
{
    size_t wanted = 0, found = 0;
    const char *field = find_field(csv, row, at),
               *kind = json_string_value(json_object_get(json_object_get(p->data, "columns"), csv->name[at]));
    if (column_of(p, p->names[c], &wanted)) {
        int code = read_level(p, csv, row, at, &found, f);
        *x = wanted == found ? 1.0 : 0.0;
        return code;
    }
    if (!kind || strcmp(kind, "boolean"))
        return read_field(csv, row, at, field, x, f);
    *x = read_boolean(field);
    return *x < 0 ? refuse_field(csv, row, at, field, "yes or no (or true or false), as in the data of the fit", f) : 0;
}

/* A line for each column that the file lacks. at[columns]: where the others are. */
static int find_columns(const predictor *p, const csv_file *csv, size_t *at, failure *f)
{
    failure all = {0}, one;
    char shown[QUOTED];
    for (size_t c = 0; c < p->columns; c++) {
        size_t level = 0;
        const char *column = column_of(p, p->names[c], &level);
        if ((at[c] = find_column(csv, column ? column : p->names[c])) == csv->columns && level < 2) {
            fail(&one, EX_DATAERR, "%s:1: there is no column %s, which the model was fitted with", csv->path,
                 quote(column ? column : p->names[c], shown));
            add_failure(&all, &one);
        }
    }
    if (all.code)
        *f = all;
    return all.code;
}

/* A line for each column that has a field which is no number: the first of these. */
static int read_numbers(const predictor *p, const csv_file *csv, const size_t *at, double *X, failure *f)
{
    failure all = {0}, one;
    for (size_t c = 0; c < p->columns; c++) {
        int code = 0;
        for (size_t i = 0; i < csv->rows && !code; i++)
            code = read_feature(p, csv, i, c, at[c], &X[i * p->columns + c], &one);
        size_t level = 0; /* a column with several levels is told about once */
        if (code && !(column_of(p, p->names[c], &level) && level > 1))
            add_failure(&all, &one);
    }
    if (all.code)
        *f = all;
    return all.code;
}

double *pack_design(const predictor *p, const design_rows *r)
{
    size_t C = p->columns, skip = r->columns - p->features;
    double *X = calloc(r->rows * C + 1, sizeof *X);
    for (size_t i = 0; X && i < r->rows; i++) {
        memcpy(X + i * C, r->X + i * r->columns + skip, p->features * sizeof *X);
        if (p->offset < C)
            X[i * C + p->offset] = r->offset[i];
        if (p->trials < C)
            X[i * C + p->trials] = r->trials ? r->trials[i] : 1;
    }
    return X;
}

/* Without columns for the trials, predictions are those of one. */
static int read_glm_rows(const predictor *p, const csv_file *csv, double **X, failure *f)
{
    size_t n = 0, there = 0;
    const char *const *name = design_columns(p->design, WITH_TRIALS, &n);
    design_rows r = {0};
    for (size_t c = 0; c < n; c++)
        there += find_column(csv, name[c]) < csv->columns;
    if (read_design_rows(p->design, csv, p->trials < p->columns && there == n ? WITH_TRIALS : WITHOUT_RESPONSE, &r, f))
        return f->code;
    *X = pack_design(p, &r);
    free_design_rows(&r);
    return *X ? 0 : fail(f, EX_SOFTWARE, "%s: no memory for %zu rows", csv->path, csv->rows);
}

int read_new_rows(const predictor *p, const char *path, double **X, size_t *rows, failure *f)
{
    csv_file csv;
    *X = NULL;
    if (open_csv(path, 0, &csv, f))
        return f->code;
    if (p->design) {
        *rows = csv.rows;
        int status = read_glm_rows(p, &csv, X, f);
        close_csv(&csv);
        return status;
    }
    size_t *at = calloc(p->columns, sizeof *at);
    *rows = csv.rows;
    if (csv.rows <= SIZE_MAX / sizeof **X / p->columns)
        *X = malloc(csv.rows * p->columns * sizeof **X);
    int code = at && *X ? 0 : fail(f, EX_SOFTWARE, "%s: no memory for %zu rows", path, csv.rows);
    if (!code)
        code = find_columns(p, &csv, at, f);
    if (!code)
        code = read_numbers(p, &csv, at, *X, f);
    free(at);
    close_csv(&csv);
    if (code) {
        free(*X);
        *X = NULL;
    }
    return code;
}
