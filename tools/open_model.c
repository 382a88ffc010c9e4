/* open_model.c - the table of models and of their options, and how each model is made from its data. To add a
 * model: a row, and a function that opens it. */
#include "open_model.h"
#include "blas_memory.h"
#include "column_moments.h"
#include "external.h"
#include "glm_data.h"
#include "model_data.h"
#include "models.h"
#include "object_file.h"
#include "pages.h"
#include "prior_conflict.h"
#include "priors.h"
#include "text.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */
enum {
    TARGET,
    FEATURES,
    IGNORE,
    DELIMITER,
    MISSING,
    STANDARDIZE,
    NO_INTERCEPT,
    PRIOR_SD,
    PRIOR,
    FORMULA,
    WEIGHTS,
    HIDDEN,
    LIKELIHOOD,
    PRIOR_MEANS,
    PRIOR_SDS,
    SHARD,
    OPTIONS
};

static const model_option options[OPTIONS] = {
    [TARGET] = {"target", "COL", NULL, "logistic, linear, bnn",
                "response column (default: the last one); all others are features"},
    [FEATURES] = {"features", "COL[,COL]", NULL, "logistic, linear, bnn",
                  "columns to use as features (default: all others)"},
    [IGNORE] = {"ignore", "COL[,COL]", NULL, "logistic, linear, glm, bnn, gp",
                "columns to leave out, such as identifiers, dates or a second target"},
    [DELIMITER] = {"delimiter", "C", NULL, "logistic, linear, glm, bnn",
                   "field separator: ',' or ';' or tab (default: the most frequent one in the header)"},
    [MISSING] =
        {"missing", "error|drop", "error", "logistic, linear, glm, bnn",
         "rows with missing values (empty, NA, NaN, null, .) in a column that is used: refuse the file, or drop "
         "them"},
    [STANDARDIZE] = {"standardize", NULL, NULL, "logistic, linear, bnn",
                     "centre each feature and divide it by its sample sd; constant features become 0"},
    [NO_INTERCEPT] = {"no-intercept", NULL, NULL, "logistic, linear",
                      "do not add an intercept (a column of ones, after the last feature)"},
    [PRIOR_SD] =
        {"prior-sd", "S", NULL, "logistic, linear, bnn",
         "prior sd of every weight, intercept and biases included: normal with mean 0 and sd S, above 0 (default: 1; "
         "linear: priors scaled to the data). If the noise sd is a parameter (linear, bnn), its prior is half-Cauchy "
         "with scale S"},
    [PRIOR] =
        {"prior", "NAME=DIST[; NAME=DIST]", NULL, "linear, glm",
         "prior of a parameter: a coefficient, intercept (for centred columns), slopes (all coefficients), sigma, "
         "nu or shape; normal(mean, sd), student(nu, location, scale), cauchy(location, scale), exponential(rate), "
         "gamma(shape, rate) or lognormal(meanlog, sdlog). May be given several times"},
    [FORMULA] = {"formula", "TEXT", NULL, "glm",
                 "response ~ terms, as in R: 'y ~ x1 + x2*x3 + offset(log(n))'; see docs/formula.md"},
    [WEIGHTS] = {"weights", "COL", NULL, "glm",
                 "column of weights, at least 0, by which the log likelihoods of the rows are multiplied"},
    [HIDDEN] = {"hidden", "H", "5", "bnn", "number of hidden units, 1 to 10000"},
    [LIKELIHOOD] =
        {"likelihood", "NAME", NULL, "glm, bnn",
         "glm: gaussian, student, bernoulli, binomial, poisson or negbinomial. bnn: auto, binary or normal (default: "
         "auto, binary if the response has exactly two different values, otherwise normal)"},
    [PRIOR_MEANS] = {"prior-means", "A,F,S,B", "0,0,0,0", "gp",
                     "means of the normal priors of log A, log f, log s, log B"},
    [PRIOR_SDS] = {"prior-sds", "A,F,S,B", "2,2,2,2", "gp",
                   "sds of the normal priors of log A, log f, log s, log B; above 0"},
    [SHARD] = {"shard", "rows", NULL, "logistic, linear, glm, bnn, PATH.so",
               "wvgd-mpi: each rank reads its share of the rows only; a shared object must export "
               "wvgd_model_open_shard"},
};

const model_option *describe_model_option(unsigned i)
{
    return i < OPTIONS ? &options[i] : NULL;
}

/* What was given for an option, or NULL. */
static const char *given_option(const model_request *request, unsigned i)
{
    return request->option ? request->option[i] : NULL;
}

/* The same, or the default. */
static const char *option_text(const model_request *request, unsigned i)
{
    const char *value = given_option(request, i);
    return value ? value : options[i].initial;
}

static bool in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

bool has_model_option(const char *model, const char *name)
{
    for (unsigned i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].name, name))
            return in_list(options[i].models, model);
    return false;
}

/* What does for a model what an option of others would do; NULL: nothing does. */
static const char *instead_of(unsigned option, const char *model)
{
    static const char *const glm[OPTIONS] = {
        [TARGET] = "the formula names the response: --formula 'y ~ ...'",
        [FEATURES] = "the formula names the columns: --formula 'y ~ a + b'",
        [STANDARDIZE] = "write scale(x) in the formula; its priors are scaled to the columns anyway",
        [NO_INTERCEPT] = "write -1 in the formula",
        [PRIOR_SD] = "use --prior 'slopes=normal(0, S)'",
    };
    if (!strcmp(model, "glm"))
        return glm[option];
    bool logistic = !strcmp(model, "logistic"), linear = !strcmp(model, "linear");
    if ((logistic || linear) && (option == FORMULA || option == WEIGHTS || option == LIKELIHOOD))
        return "use wvgd fit glm, which takes a formula and a likelihood";
    return logistic && option == PRIOR ? "use --prior-sd, or wvgd fit glm --likelihood bernoulli" : NULL;
}

/* name: of a row of the table of models. */
static int check_options(const model_request *request, const char *name, failure *f)
{
    for (unsigned i = 0; i < OPTIONS; i++)
        if (given_option(request, i) && !in_list(options[i].models, name)) {
            const char *instead = instead_of(i, name);
            return fail(f, EX_USAGE, "--%s does not apply to the model %s, only to %s%s%s", options[i].name,
                        request->name, options[i].models, instead ? ": " : "", instead ? instead : "");
        }
    return 0;
}

static int refuse_option(unsigned i, const char *value, const char *expected, failure *f)
{
    return fail(f, EX_USAGE, "--%s is '%.60s': expected %s", options[i].name, value, expected);
}

/* What a positive number whose square is one too may be; NULL: it is one. */
static const char *sd_problem(double value)
{
    return !(value > 0) ? "above 0" : value < 1e-150 || value > 1e150 ? "between 1e-150 and 1e150" : NULL;
}

static int read_prior_sd(const model_request *request, double *value, failure *f)
{
    const char *text = given_option(request, PRIOR_SD) ? given_option(request, PRIOR_SD) : "1",
               *expected = read_plain_number(text, value);
    char rule[60];
    if (expected)
        return refuse_option(PRIOR_SD, text, strchr(text, ',') ? "one number, such as 1.2" : expected, f);
    snprintf(rule, sizeof rule, "a number %s", sd_problem(*value) ? sd_problem(*value) : "");
    return sd_problem(*value) ? refuse_option(PRIOR_SD, text, rule, f) : 0;
}

static int read_hidden(const model_request *request, size_t *hidden, failure *f)
{
    const char *text = option_text(request, HIDDEN);
    double value = 0;
    if (read_plain_number(text, &value) || value != floor(value) || value < 1 || value > 10000)
        return refuse_option(HIDDEN, text, "a whole number, 1..10000", f);
    *hidden = (size_t)value;
    return 0;
}

static int read_likelihood(const model_request *request, target_kind *kind, failure *f)
{
    static const struct {
        const char *name;
        target_kind kind;
    } names[] = {{"auto", TARGET_EITHER}, {"binary", TARGET_LABELS}, {"normal", TARGET_REAL}};
    const char *text = given_option(request, LIKELIHOOD) ? given_option(request, LIKELIHOOD) : "auto";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            *kind = names[i].kind;
            return 0;
        }
    return refuse_option(LIKELIHOOD, text, "auto|binary|normal", f);
}

static int check_shard(const model_request *request, failure *f)
{
    const char *text = given_option(request, SHARD);
    return !text || !strcmp(text, "rows") ? 0 : refuse_option(SHARD, text, "rows", f);
}

/* "a,b,c,d" */
static int read_four(const model_request *request, unsigned i, double value[4], failure *f)
{
    const char *text = option_text(request, i);
    char copy[256], *at = copy;
    bool good = (size_t)snprintf(copy, sizeof copy, "%s", text) < sizeof copy;
    for (size_t k = 0; k < 4 && good; k++) {
        char *comma = strchr(at, ',');
        good = (comma != NULL) == (k < 3);
        if (comma)
            *comma = '\0';
        good = good && !read_plain_number(at, &value[k]);
        at = comma ? comma + 1 : at;
    }
    return good ? 0 : refuse_option(i, text, "four numbers separated by commas", f);
}

static int check_sds(const char *text, const double sd[4], failure *f)
{
    static const char *const number[] = {"first", "second", "third", "fourth"};
    char found[NUMBER_ROOM];
    for (size_t k = 0; k < 4; k++)
        if (sd_problem(sd[k]))
            return fail(f, EX_USAGE, "--%s is '%.60s': the %s value is %s, expected four numbers %s",
                        options[PRIOR_SDS].name, text, number[k], short_number(sd[k], found), sd_problem(sd[k]));
    return 0;
}

/* ---- everything behind an opened model --------------------------------------------------------------------------- */
typedef struct {
    wvgd_model inner, pooled, wrapped; /* each around the one before; wrapped only with a wrapper */
    wvgd_model prior;                  /* what `inner` would be without rows, where it has a share of them */
    row_shares *shares;                /* of the rows; NULL: all are here */
    bool standardized;                 /* the features of a share have been */
    regression_data data;              /* of a regression: names and labels */
    wvgd_table facts;                  /* pointing into it */
    glm_data glm;                      /* of a glm */
    prior_list priors;                 /* of linear and glm */
    series_data series;                /* of a gp */
    double *moments;                   /* [2][columns] means and sds of features, or NULL */
    wv_bridgestan *stan;
    wv_bnn_angle *angle;      /* between predictions of a bnn */
    char *name_text;          /* of names made here */
    const char **names;       /* [dim] into name_text */
    const char **coordinates; /* [dim] of a model of the caller's, and the texts of those made here */
    double *bad;              /* [dim] of a shared object: its first bad point */
    opened_model *out;        /* told about failures */
} session;

/* ---- built-in models --------------------------------------------------------------------------------------------- */
static int no_memory(const model_request *request, failure *f)
{
    return fail(f, EX_SOFTWARE, "%s: not enough memory for the model, or it is too large for BLAS", request->name);
}

static int open_mixture(const model_request *request, session *s, failure *f)
{
    mixture_data data;
    if (read_mixture(request->data, &data, f))
        return f->code;
    int failed = wv_model_mixture(&s->inner, data.D, data.K, data.weight, data.mean, data.cov);
    free_mixture(&data);
    return failed ? no_memory(request, f) : 0;
}

/* Adds x[n], the shares of which are hashed one after the other. */
static int hash_numbers(row_shares *shares, sha256 *hash, size_t n, const double *x, failure *f)
{
    for (unsigned turn = 0; turn < (shares ? shares->count : 1); turn++) {
        bool mine = !shares || shares->rank == turn;
        size_t size;
        char *sent = NULL;
        if (mine)
            sha256_add_numbers(hash, n, x);
        int code = shares ? share_texts(shares, (const char *)hash, mine ? sizeof *hash : 0, &sent, &size, NULL, f) : 0;
        if (!code && shares)
            memcpy(hash, sent, sizeof *hash);
        free(sent);
        if (code)
            return code;
    }
    return 0;
}

/* Notes what the model explains: y[n] of so many rows. */
static int note_response(session *s, const char *name, bool discrete, size_t rows, size_t n, const double *y,
                         failure *f)
{
    sha256 hash;
    s->out->response = (response_facts){.name = name, .rows = rows, .discrete = discrete};
    sha256_begin(&hash);
    int code = hash_numbers(s->shares, &hash, n, y, f);
    sha256_end(&hash, s->out->response.sha256);
    return code;
}

/* Means and sds of the features. */
static int note_moments(const model_request *request, session *s, const bool *constant, failure *f)
{
    const regression_data *d = &s->data;
    f->code = 0;
    if (!(s->moments = calloc(d->columns + 1, 2 * sizeof *s->moments)))
        no_memory(request, f);
    if (share_failure(s->shares, f))
        return f->code;
    if (given_option(request, STANDARDIZE)) {
        s->facts.mean = s->moments;
        s->facts.sd = s->moments + d->columns;
    }
    return measure_columns(s->shares, d->rows, d->all_rows, d->columns, d->X, constant, s->moments,
                           s->moments + d->columns, f);
}

/* What is known of the columns once they have been read. */
static int note_facts(const model_request *request, session *s, failure *f)
{
    const regression_data *d = &s->data;
    bool *constant = calloc(d->columns + 1, sizeof *constant);
    s->facts = (wvgd_table){d->all_rows, d->target, {d->label[0], d->label[1]}, d->columns, d->names, NULL, NULL};
    s->out->facts = &s->facts;
    s->out->columns = &d->source;
    f->code = 0;
    if (!constant)
        no_memory(request, f);
    int code = share_failure(s->shares, f);
    if (!code)
        code = note_response(s, d->target, d->labels, d->all_rows, d->rows, d->y, f);
    if (!code)
        code = find_constants(s->shares, d->rows, d->columns, d->X, constant, f);
    if (!code) {
        s->out->response.dropped = d->source.dropped;
        s->out->hints = table_hints(d);
        s->out->warnings = table_warnings(d, constant);
    }
    if (!code && (s->shares || given_option(request, STANDARDIZE)))
        code = note_moments(request, s, constant, f);
    free(constant);
    return code;
}

/* A share of the rows cannot tell means and sds of all: its features are standardised here. */
static void standardize_share(session *s, wv_regression *regression)
{
    regression_data *d = &s->data;
    if (!s->shares || !regression->standardize)
        return;
    s->standardized = true;
    regression->standardize = false;
    for (size_t i = 0; i < d->rows; i++)
        for (size_t c = 0; c < d->columns; c++) {
            double *x = &d->X[i * d->columns + c], sd = s->facts.sd[c];
            *x = sd > 0 ? (*x - s->facts.mean[c]) / sd : 0;
        }
}

static table_options table_options_of(const model_request *request)
{
    return (table_options){option_text(request, TARGET),  option_text(request, FEATURES),
                           option_text(request, IGNORE),  option_text(request, DELIMITER),
                           option_text(request, MISSING), NULL};
}

/* What the models of a regression share. */
static int open_regression(const model_request *request, target_kind kind, session *s, wv_regression *regression,
                           failure *f)
{
    double prior_sd;
    regression_data *data = &s->data;
    table_options how = table_options_of(request);
    how.shares = s->shares;
    if (read_prior_sd(request, &prior_sd, f) || read_regression(request->data, &how, kind, data, f))
        return f->code;
    *regression = (wv_regression){
        .rows = data->rows,
        .columns = data->columns,
        .X = data->X,
        .y = data->y,
        .names = data->names,
        .standardize = given_option(request, STANDARDIZE) != NULL,
        .intercept = given_option(request, NO_INTERCEPT) == NULL,
        .prior_sd = prior_sd,
    };
    if (note_facts(request, s, f))
        return f->code;
    standardize_share(s, regression);
    return 0;
}

/* Adds a line to the warnings. */
static void warn(session *s, char *line)
{
    char *old = s->out->warnings;
    size_t size = (old ? strlen(old) : 0) + (line ? strlen(line) : 0) + 2;
    char *text = line ? malloc(size) : NULL;
    if (text) {
        snprintf(text, size, "%s%s\n", old ? old : "", line);
        free(old);
        s->out->warnings = text;
    }
    free(line);
}

/* Warns if the prior cannot have made the response; the model is open. */
static int check_prior(session *s, const prior_question *q, failure *f)
{
    char *line;
    int code = prior_conflict(q, &line, f);
    warn(s, line);
    return code;
}

/* The same for a regression. prior_sd 0: priors have names. */
static int check_regression(const model_request *request, session *s, const wv_regression *r, double prior_sd,
                            size_t hidden, failure *f)
{
    prior_question q = {.model = s->shares ? &s->prior : &s->inner,
                        .family = find_family(s->data.labels ? "bernoulli" : "gaussian"),
                        .target = s->data.target,
                        .shares = s->shares,
                        .rows = r->rows,
                        .columns = r->columns,
                        .all_rows = s->data.all_rows,
                        .hidden = hidden,
                        .intercept = r->intercept,
                        .X = r->X,
                        .y = r->y,
                        .centre = r->standardize ? s->facts.mean : NULL,
                        .scale = r->standardize ? s->facts.sd : NULL,
                        .prior_sd = prior_sd,
                        .linear = !strcmp(request->name, "linear"),
                        .standardize = !given_option(request, STANDARDIZE)};
    return check_prior(s, &q, f);
}

/* Priors that all weights share, and that of the noise. */
static int note_equal(const model_request *request, session *s, const char *weights, double sd, bool noise, failure *f)
{
    char text[100];
    s->out->priors = json_object();
    snprintf(text, sizeof text, "normal(0, %g)%s", sd, given_option(request, STANDARDIZE) ? standardized_columns : "");
    for (size_t c = 0; !weights && c < s->data.columns; c++)
        json_object_set_new(s->out->priors, s->data.names[c], json_string(text));
    if (!weights && !given_option(request, NO_INTERCEPT))
        json_object_set_new(s->out->priors, "intercept", json_string(text));
    if (weights)
        json_object_set_new(s->out->priors, weights, json_string(text));
    snprintf(text, sizeof text, "cauchy(0, %g) above 0", sd);
    if (noise)
        json_object_set_new(s->out->priors, "sigma", json_string(text));
    return s->out->priors ? 0 : no_memory(request, f);
}

/* The priors of linear and glm, as they are. */
static int note_priors(const model_request *request, session *s, failure *f)
{
    list_priors(&s->priors, s->out->prior, sizeof s->out->prior);
    s->out->priors = describe_priors(&s->priors);
    s->out->list = &s->priors;
    return s->out->priors ? 0 : no_memory(request, f);
}

/* The prior of the model in words; noise: its sd is a parameter. */
static void note_prior(session *s, double sd, const char *weights, bool noise)
{
    char also[80] = "";
    if (noise)
        snprintf(also, sizeof also, "; half-Cauchy, scale %g, for the noise sd", sd);
    snprintf(s->out->prior, sizeof s->out->prior, "normal, mean 0, sd %g, for %s%s%s", sd, weights,
             s->facts.sd ? " of standardized columns" : "", also);
}

/* With shares, once the model without rows, s->prior, is made or has failed: what needs the rows, which the model then
 * gives back as it copies them. prior_sd, hidden: for check_regression. */
static int check_shares(const model_request *request, session *s, wv_regression *r, int failed, double prior_sd,
                        size_t hidden, failure *f)
{
    if (!s->shares)
        return 0;
    f->code = failed ? no_memory(request, f) : 0;
    r->give_back = give_back;
    return share_failure(s->shares, f) ? f->code : check_regression(request, s, r, prior_sd, hidden, f);
}

/* Once the model has copied what it needs, or failed. */
static int close_regression(const model_request *request, session *s, const wv_regression *r, int failed,
                            double prior_sd, size_t hidden, failure *f)
{
    f->code = failed ? no_memory(request, f) : 0;
    int code = share_failure(s->shares, f) || s->shares ? f->code
                                                        : check_regression(request, s, r, prior_sd, hidden, f);
    forget_numbers(&s->data);
    return code;
}

/* The same regression without rows. */
static wv_regression without_rows(const wv_regression *regression)
{
    wv_regression none = *regression;
    none.rows = 0;
    return none;
}

static int open_logistic(const model_request *request, session *s, failure *f)
{
    wv_regression regression;
    if (open_regression(request, TARGET_LABELS, s, &regression, f) ||
        note_equal(request, s, NULL, regression.prior_sd, false, f))
        return f->code;
    note_prior(s, regression.prior_sd, regression.intercept ? "weights and intercept" : "weights", false);
    wv_regression none = without_rows(&regression);
    int failed = s->shares && wv_model_logistic(&s->prior, &none);
    if (check_shares(request, s, &regression, failed, regression.prior_sd, 0, f))
        return f->code;
    failed = wv_model_logistic(&s->inner, &regression);
    return close_regression(request, s, &regression, failed, regression.prior_sd, 0, f);
}

/* Standardized columns, as the model will have them. To be freed. */
static double *design_of(const session *s, const wv_regression *r)
{
    double *X = malloc((r->rows * r->columns + 1) * sizeof *X);
    for (size_t i = 0; X && i < r->rows * r->columns; i++) {
        size_t c = i % r->columns;
        X[i] = s->facts.sd[c] > 0 ? (r->X[i] - s->facts.mean[c]) / s->facts.sd[c] : 0;
    }
    return X;
}

/* Defaults for the rows of all shares. */
static int scale_priors(const model_request *request, session *s, bool numbers, size_t rows, size_t all_rows,
                        const double *X, const double *y, failure *f)
{
    size_t P = s->priors.columns;
    bool *constant = calloc(P + 1, sizeof *constant);
    double *moments = calloc(P + 1, 2 * sizeof *moments), mean = 0, sd = 0;
    f->code = 0;
    if (!constant || !moments || !X)
        no_memory(request, f);
    int code = share_failure(s->shares, f);
    if (!code && numbers)
        code = find_constants(s->shares, rows, 1, y, constant, f);
    if (!code && numbers)
        code = measure_columns(s->shares, rows, all_rows, 1, y, constant, &mean, &sd, f);
    if (!code)
        code = find_constants(s->shares, rows, P, X, constant, f);
    if (!code)
        code = measure_columns(s->shares, rows, all_rows, P, X, constant, moments, moments + P, f);
    if (!code)
        default_priors(&s->priors, numbers, moments + P, mean, sd);
    free(constant);
    free(moments);
    return code;
}

/* Scaled to the data, or those of --prior-sd; then what --prior says. */
static int choose_priors(const model_request *request, session *s, wv_regression *r, failure *f)
{
    static const char *const noise[] = {"sigma", NULL};
    if (name_priors(&s->priors, r->columns, r->names, r->intercept, noise, f))
        return f->code;
    s->priors.standardized = given_option(request, STANDARDIZE) != NULL;
    if (given_option(request, PRIOR_SD))
        equal_priors(&s->priors, r->prior_sd);
    else {
        double *own = r->standardize ? design_of(s, r) : NULL;
        int code = scale_priors(request, s, true, r->rows, s->data.all_rows, r->standardize ? own : r->X, r->y, f);
        free(own);
        if (code)
            return code;
    }
    r->prior = s->priors.prior;
    r->centred = s->priors.centred;
    int code = read_priors(&s->priors, given_option(request, PRIOR), f);
    return code ? code : note_priors(request, s, f);
}

/* The same model of a share of the rows: the prior of the intercept needs the means of all. */
static int open_linear_share(const model_request *request, session *s, wv_regression *r, double prior_sd, failure *f)
{
    double *zero = calloc(r->columns + 1, sizeof *zero);
    wv_glm data = {.likelihood = WV_GAUSSIAN,
                   .rows = r->rows,
                   .columns = r->columns,
                   .X = r->X,
                   .y = r->y,
                   .names = r->names,
                   .intercept = r->intercept,
                   .prior = r->prior,
                   .centre = !r->centred       ? NULL
                             : s->standardized ? zero
                                               : s->moments};
    wv_glm none = data;
    none.rows = 0;
    int failed = !zero || wv_model_glm(&s->prior, &none), code = check_shares(request, s, r, failed, prior_sd, 0, f);
    data.give_back = r->give_back;
    failed = !code && wv_model_glm(&s->inner, &data);
    s->inner.name = "linear";
    free(zero);
    return code ? code : close_regression(request, s, r, failed, prior_sd, 0, f);
}

static int open_linear(const model_request *request, session *s, failure *f)
{
    wv_regression regression;
    if (open_regression(request, TARGET_REAL, s, &regression, f) || choose_priors(request, s, &regression, f))
        return f->code;
    double prior_sd = given_option(request, PRIOR_SD) ? regression.prior_sd : 0;
    if (s->shares)
        return open_linear_share(request, s, &regression, prior_sd, f);
    int failed = wv_model_linear(&s->inner, &regression);
    return close_regression(request, s, &regression, failed, prior_sd, 0, f);
}

/* What is known of the rows of a glm. */
static int note_glm(const model_request *request, session *s, failure *f)
{
    glm_data *g = &s->glm;
    const design_shape *shape = shape_of(g->design);
    opened_model *out = s->out;
    sha256 hash;
    size_t rows = g->rows.rows, all = g->table.all_rows;
    s->facts = (wvgd_table){all, shape->response_name, {g->label[0], g->label[1]}, g->columns, g->names, NULL, NULL};
    out->facts = &s->facts;
    out->response = (response_facts){.name = shape->response_name,
                                     .rows = all,
                                     .dropped = g->table.dropped,
                                     .discrete = g->likelihood != WV_GAUSSIAN && g->likelihood != WV_STUDENT};
    sha256_begin(&hash);
    int code = hash_numbers(s->shares, &hash, rows, g->rows.y, f);
    if (!code && g->rows.trials)
        code = hash_numbers(s->shares, &hash, rows, g->rows.trials, f);
    if (!code && g->weight)
        code = hash_numbers(s->shares, &hash, rows, g->weight, f);
    sha256_end(&hash, out->response.sha256);
    out->columns = &g->table;
    out->likelihood = g->family;
    out->design = describe_design(g->design);
    out->shown = g->quantities;
    out->shown_names = g->shown;
    out->show = show_glm;
    out->show_self = g;
    out->hints = glm_hints(g);
    out->warnings = level_warnings(&g->table);
    return code ? code : out->design ? 0 : no_memory(request, f);
}

/* Columns that are the same in every row, but for the intercept. */
static int warn_constant(const model_request *request, session *s, failure *f)
{
    const glm_data *g = &s->glm;
    bool *constant = calloc(g->columns + 1, sizeof *constant);
    f->code = constant ? 0 : no_memory(request, f);
    int code = share_failure(s->shares, f);
    if (!code)
        code = find_constants(s->shares, g->rows.rows, g->columns, g->X, constant, f);
    for (size_t c = 0; c < g->columns && !code; c++) {
        char line[300];
        snprintf(line, sizeof line, "column %.100s of the design is constant: its coefficient only reflects the prior",
                 g->names[c]);
        if (constant[c])
            warn(s, strdup(line));
    }
    free(constant);
    return code;
}

/* The intercept of the model is that of centred columns: another one than is shown. */
static int name_coordinates(session *s)
{
    size_t dim = s->inner.dim;
    if (!(s->names = calloc(dim, sizeof *s->names)))
        return -1;
    for (size_t i = 0; i < dim; i++)
        s->names[i] = s->glm.intercept && s->glm.columns && i == s->glm.columns ? "centred_intercept"
                                                                                : s->inner.names[i];
    s->inner.names = s->names;
    return 0;
}

/* The rows of this process as the model takes them. */
static wv_glm rows_of_glm(const glm_data *g, const wv_prior *prior)
{
    return (wv_glm){.likelihood = g->likelihood,
                    .rows = g->rows.rows,
                    .columns = g->columns,
                    .X = g->X,
                    .y = g->rows.y,
                    .trials = g->rows.trials,
                    .weight = g->weight,
                    .offset = g->rows.offset,
                    .names = g->names,
                    .intercept = g->intercept,
                    .prior = prior};
}

static int check_glm(session *s, const wv_glm *data, failure *f)
{
    prior_question q = {.model = &s->inner,
                        .family = find_family(s->glm.family),
                        .target = s->facts.target,
                        .shares = s->shares,
                        .rows = data->rows,
                        .columns = data->columns,
                        .all_rows = s->glm.table.all_rows,
                        .intercept = data->intercept,
                        .X = data->X,
                        .y = data->y,
                        .offset = data->offset,
                        .trials = data->trials};
    return check_prior(s, &q, f);
}

static int open_glm(const model_request *request, session *s, failure *f)
{
    glm_data *g = &s->glm;
    glm_request how = {.table = table_options_of(request),
                       .formula = given_option(request, FORMULA),
                       .likelihood = given_option(request, LIKELIHOOD),
                       .weights = given_option(request, WEIGHTS)};
    how.table.shares = s->shares;
    if (read_glm(request->data, &how, g, f) || note_glm(request, s, f) ||
        name_priors(&s->priors, g->columns, g->names, g->intercept, g->positive, f))
        return f->code;
    bool numbers = g->likelihood == WV_GAUSSIAN || g->likelihood == WV_STUDENT;
    if (scale_priors(request, s, numbers, g->rows.rows, g->table.all_rows, g->X, g->rows.y, f) ||
        read_priors(&s->priors, given_option(request, PRIOR), f) || note_priors(request, s, f) ||
        warn_constant(request, s, f))
        return f->code;
    wv_glm data = rows_of_glm(g, s->priors.prior), none = data;
    none.rows = 0;
    bool failed = wv_model_glm(&s->inner, &data) || name_coordinates(s) ||
                  (s->shares && wv_model_glm(&s->prior, &none));
    f->code = failed ? no_memory(request, f) : 0;
    int code = share_failure(s->shares, f) ? f->code : check_glm(s, &data, f);
    forget_glm_numbers(g);
    return code;
}

static int open_bnn(const model_request *request, session *s, failure *f)
{
    wv_regression regression;
    target_kind kind = TARGET_EITHER;
    size_t hidden = 0;
    if (read_hidden(request, &hidden, f) || read_likelihood(request, &kind, f) ||
        open_regression(request, kind, s, &regression, f) ||
        note_equal(request, s, "weights", regression.prior_sd, !s->data.labels, f))
        return f->code;
    note_prior(s, regression.prior_sd, "weights and biases", !s->data.labels);
    wv_regression none = without_rows(&regression);
    bool labels = s->data.labels;
    int failed = s->shares && wv_model_bnn(&s->prior, &none, hidden, labels);
    if (check_shares(request, s, &regression, failed, regression.prior_sd, hidden, f))
        return f->code;
    failed = wv_model_bnn(&s->inner, &regression, hidden, labels);
    return close_regression(request, s, &regression, failed, regression.prior_sd, hidden, f);
}

static int open_gp(const model_request *request, session *s, failure *f)
{
    series_data *data = &s->series;
    wv_gp_prior prior;
    if (read_four(request, PRIOR_MEANS, prior.mean, f) || read_four(request, PRIOR_SDS, prior.sd, f))
        return f->code;
    if (check_sds(option_text(request, PRIOR_SDS), prior.sd, f))
        return f->code;
    if (read_series(request->data, option_text(request, IGNORE), data, f))
        return f->code;
    snprintf(s->out->prior, sizeof s->out->prior,
             "normal, means %g, %g, %g, %g, sds %g, %g, %g, %g, for log_A, log_f, log_s, log_B", prior.mean[0],
             prior.mean[1], prior.mean[2], prior.mean[3], prior.sd[0], prior.sd[1], prior.sd[2], prior.sd[3]);
    s->out->series = data;
    if (note_response(s, data->name[1], false, data->n, data->n, data->y, f))
        return f->code;
    int failed = wv_model_gp(&s->inner, data->n, data->t, data->y, &prior);
    return failed ? no_memory(request, f) : 0;
}

static const struct {
    wvgd_model_info info;
    int (*open)(const model_request *request, session *s, failure *f); /* NULL: a shared object */
} models[] = {
    {{"mixture",
      "JSON such as {\"weights\": [0.3, 0.7], \"means\": [[0, 0], [4, 1]], \"sds\": [[1, 1], [2, 0.5]]}; instead of "
      "\"sds\", \"covs\" gives covariance matrices",
      "mixture of Gaussians; the log evidence is the log of the sum of the weights"},
     open_mixture},
    {{"logistic", "CSV with a header: features, and a response of 0/1 or two labels",
      "logistic regression. Of two labels, yes or true counts as 1, otherwise the later one in alphabetical order"},
     open_logistic},
    {{"linear", "CSV with a header: features, and a numeric response",
      "linear regression with unknown noise sd (parameter log_sigma); priors are scaled to the data"},
     open_linear},
    {{"glm", "CSV with a header: the columns that --formula names",
      "generalised linear model, with --formula and --likelihood: gaussian, student, bernoulli, binomial, poisson or "
      "negbinomial"},
     open_glm},
    {{"gp", "CSV with a header and two columns, time and value",
      "Gaussian process with covariance A exp(-(t-t')^2/(2 s^2)) cos(2 pi f (t-t')) + B [t = t']; parameters log A, "
      "log f, log s, log B"},
     open_gp},
    {{"bnn", "CSV as for linear or logistic",
      "neural network with one hidden layer of H tanh units; swapping units or signs changes nothing, so means of "
      "single weights have no meaning"},
     open_bnn},
    {{"PATH.so", "JSON for a Stan model, any text for others; --config TEXT passes the text directly",
      "shared object that exports wvgd_model_open, or a Stan model compiled by BridgeStan 2.x"},
     NULL},
    {{"PROGRAM.stan", "JSON as CmdStan reads it", "Stan program; use wvgd stan, which compiles and fits it"}, NULL},
};
enum { MODELS = sizeof models / sizeof *models };

const wvgd_model_info *wvgd_model_describe(size_t i)
{
    return i < MODELS ? &models[i].info : NULL;
}

/* ---- batches, and how draws are shown ---------------------------------------------------------------------------- */
void show_point(const wvgd_model *m, const double *z, char *text, size_t size)
{
    size_t at = 0;
    for (size_t d = 0; d < m->dim; d++) {
        char one[400];
        size_t length = (size_t)snprintf(one, sizeof one, "%s%s = %.9g", d ? ", " : "", m->names[d], z[d]);
        if (at + length + sizeof ", ..." > size) {
            snprintf(text + at, size - at, "%s...", d ? ", " : "");
            return;
        }
        memcpy(text + at, one, length + 1);
        at += length;
    }
}

/* Notes the first point that the engine will take for a bad one. */
static void look_for_bad(session *s, size_t n, const double *z, const double *log_p, const double *grad)
{
    size_t dim = s->inner.dim;
    for (size_t i = 0; i < n && !s->out->first_bad; i++) {
        bool bad = isnan(log_p[i]) || log_p[i] == INFINITY;
        for (size_t k = 0; grad && !bad && log_p[i] != -INFINITY && k < dim; k++)
            bad = !isfinite(grad[i * dim + k]);
        if (bad) {
            memcpy(s->bad, z + i * dim, dim * sizeof *z);
            s->out->first_bad = s->bad;
        }
    }
}

/* Passes a batch on to a shared object, and the failures in it to the user of the model. */
static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    session *s = self;
    bool model = true;
    const wvgd_model *m = s->wrapped.log_density ? &s->wrapped : &s->pooled;
    int status = m->log_density(m->self, n, z, log_p, grad);
    if (s->stan)
        s->out->failed_points = wv_bridgestan_failures(s->stan, &s->out->first_message);
    if (!status && s->bad)
        look_for_bad(s, n, z, log_p, grad);
    if (status && s->out->wrapper)
        s->out->first_message = s->out->wrapper->why(s->out->wrapper->self, &model);
    s->out->lost = status && !model;
    return status;
}

/* Stan's seeds have 32 bits. */
static unsigned fold_seed(unsigned long long seed)
{
    return (unsigned)(seed ^ seed >> 32);
}

static int show(void *self, const double *z, double *values)
{
    session *s = self;
    int status = wv_bridgestan_constrain(s->stan, z, values);
    s->out->failed_points = wv_bridgestan_failures(s->stan, &s->out->first_message);
    return status;
}

static int restart(void *self, unsigned long long seed)
{
    session *s = self;
    return wv_bridgestan_restart(s->stan, fold_seed(seed));
}

/* ---- shared objects ---------------------------------------------------------------------------------------------- */
bool names_object(const char *model)
{
    size_t length = model ? strlen(model) : 0;
    return length && (strchr(model, '/') || (length > 3 && strcmp(model + length - 3, ".so") == 0));
}

bool names_stan_program(const char *model)
{
    size_t length = strlen(model);
    return length > 5 && strcmp(model + length - 5, ".stan") == 0;
}

/* The text for an object: --config, or the contents of --data, or NULL. free() it. */
static int read_configuration(const model_request *request, row_shares *shares, char **text, failure *f)
{
    size_t size, head, line;
    *text = NULL;
    if (request->data && request->text)
        return fail(f, EX_USAGE, "%s: give either --data or --config, not both", request->name);
    if (given_option(request, SHARD) && !request->data)
        return fail(f, EX_USAGE, "%s: --shard rows needs --data FILE, whose rows are shared", request->name);
    if (request->data && shares)
        return read_share(shares, request->data, text, &size, &head, &line, f);
    if (request->data)
        return read_text(request->data, text, &size, f);
    if (request->text && !(*text = strdup(request->text)))
        return fail(f, EX_SOFTWARE, "%s: no memory for its configuration", request->name);
    return 0;
}

/* BridgeStan takes what is not an object for the name of a file. */
static int check_stan_data(const model_request *request, const char *text, failure *f)
{
    char shown[QUOTED];
    const char *first = text ? text + strspn(text, " \t\r\n") : "{";
    if (*first == '{' || (!*first && !request->data))
        return 0;
    return fail(f, EX_DATAERR, "%s: found %s, expected a JSON object {...} with the data of the Stan program",
                request->data ? request->data : "--config", quote(first, shown));
}

/* What a model is called in messages. */
static const char *known_as(const model_request *request)
{
    return request->program ? request->program : request->name;
}

static int fail_external(const model_request *request, wv_external_status status, const char *error, failure *f)
{
    if (status == WV_EXTERNAL_OK)
        return 0;
    return fail(f, status == WV_EXTERNAL_REFUSED ? EX_DATAERR : EX_SOFTWARE, "%s: %s", known_as(request), error);
}

static int open_stan(const model_request *request, void *object, const char *text, session *s, opened_model *out,
                     failure *f)
{
    char error[900];
    if (check_stan_data(request, text, f))
        return f->code;
    wv_external_status status = wv_bridgestan_open(&s->stan, &s->inner, object, text, fold_seed(request->seed), error,
                                                   sizeof error);
    if (status == WV_EXTERNAL_REFUSED && !text)
        strncat(error, " (no --data FILE was given)", sizeof error - strlen(error) - 1);
    if (fail_external(request, status, error, f))
        return f->code;
    out->kind = "bridgestan";
    out->shown = wv_bridgestan_names(s->stan, &out->shown_names);
    out->show = show;
    out->restart = restart;
    out->show_self = s;
    return 0;
}

/* Sums of all shares, for a shared object. */
static int sum_shares(void *self, size_t n, double *x)
{
    const session *s = self;
    failure ignored;
    return share_sums(s->shares, n, x, &ignored) ? -1 : 0;
}

static int open_object(const model_request *request, const char *path, const char *text, session *s, opened_model *out,
                       failure *f)
{
    char error[512];
    wv_object_kind kind;
    void *object = wv_object_load(path, &kind, error, sizeof error);
    if (!object)
        return fail(f, EX_DATAERR, "cannot load %s: %s%s", request->name, error,
                    strstr(error, "cannot open shared object") /* one that it is linked with */
                        ? ": link with -Wl,-rpath,DIR, or put its directory into LD_LIBRARY_PATH"
                        : "");
    if (kind == WV_OBJECT_BRIDGESTAN && given_option(request, SHARD))
        return fail(f, EX_USAGE,
                    "--shard rows does not apply to %s: a Stan program does not say which rows it sums over",
                    request->name);
    if (kind == WV_OBJECT_BRIDGESTAN)
        return open_stan(request, object, text, s, out, f);
    if (kind == WV_OBJECT_UNKNOWN)
        return fail(
            f, EX_DATAERR,
            "%s is not a model: it exports neither wvgd_model_open nor bs_model_construct (is the function misspelt, "
            "static, or C++ without extern \"C\"?)",
            request->name);
    out->kind = "plugin";
    wvgd_shard shard = {0, 1, sum_shares, s};
    if (s->shares) {
        shard.index = s->shares->rank;
        shard.count = s->shares->count;
    }
    bool summed = given_option(request, SHARD) != NULL;
    return fail_external(request, wv_model_plugin(&s->inner, object, text, summed ? &shard : NULL, error, sizeof error),
                         error, f);
}

static int open_external(const model_request *request, session *s, opened_model *out, failure *f)
{
    if (check_options(request, "PATH.so", f))
        return f->code;
    char *text = NULL, *path = malloc(strlen(request->name) + 3);
    if (!path)
        return fail(f, EX_SOFTWARE, "%s: no memory", request->name);
    /* without a '/' the loader looks elsewhere */
    sprintf(path, "%s%s", strchr(request->name, '/') ? "" : "./", request->name);
    int code = check_object(path, f);
    if (!code)
        code = read_configuration(request, s->shares, &text, f);
    if (!code)
        code = open_object(request, path, text, s, out, f);
    free(text);
    free(path);
    return code;
}

/* Names z.1, z.2, ... for a model without. */
static int make_names(session *s)
{
    enum { LENGTH = 24 };
    size_t dim = s->inner.dim;
    s->name_text = calloc(dim, LENGTH);
    s->names = calloc(dim, sizeof *s->names);
    if (!s->name_text || !s->names)
        return -1;
    for (size_t i = 0; i < dim; i++) {
        snprintf(s->name_text + i * LENGTH, LENGTH, "z.%zu", i + 1);
        s->names[i] = s->name_text + i * LENGTH;
    }
    s->inner.names = s->names;
    return 0;
}

/* ---- a model of the caller's own --------------------------------------------------------------------------------- */
static double curve_value(const wvgd_curve *c, double z)
{
    double s = c->centre + c->scale * z, width = c->high - c->low;
    if (c->kind == WVGD_CURVE_LINE)
        return s;
    if (c->kind == WVGD_CURVE_POSITIVE) /* never rounded to a limit */
        return fmin(fmax(exp(s), DBL_MIN), DBL_MAX);
    double value = s < 0 ? c->low + width * exp(s) / (1 + exp(s)) : c->high - width / (1 + exp(s)); /* sharp at both */
    return fmin(fmax(value, nextafter(c->low, c->high)), nextafter(c->high, c->low));
}

static int show_own(void *self, const double *z, double *values)
{
    const session *s = self;
    for (size_t i = 0; i < s->inner.dim; i++)
        values[i] = curve_value(&s->out->own->curve[i], z[i]);
    return 0;
}

static int restart_own(void *self, unsigned long long seed)
{
    (void)self, (void)seed; /* there are no random numbers */
    return 0;
}

static int check_curves(const model_request *request, const wvgd_own_model *own, failure *f)
{
    for (size_t i = 0; own->curve && i < own->model.dim; i++) {
        const wvgd_curve *c = &own->curve[i];
        bool between = c->kind == WVGD_CURVE_BETWEEN;
        if (!(isfinite(c->centre) && isnormal(c->scale)))
            return fail(f, EX_USAGE,
                        "%s: curve[%zu] has centre %g and scale %g, expected finite numbers, and a scale "
                        "other than 0",
                        request->name, i, c->centre, c->scale);
        if (between && !(isfinite(c->low) && isfinite(c->high) && c->low < c->high))
            return fail(f, EX_USAGE, "%s: curve[%zu] has limits %g and %g, expected a lower and a higher finite number",
                        request->name, i, c->low, c->high);
    }
    return 0;
}

/* Is the coordinate not the parameter itself? */
static bool is_bent(const wvgd_curve *c)
{
    return c->kind != WVGD_CURVE_LINE || c->centre != 0 || c->scale != 1;
}

/* A coordinate that is not the parameter itself has a name of its own: u.NAME. */
static int name_own(session *s, const wvgd_own_model *own)
{
    static const char mark[] = "u.";
    size_t dim = s->inner.dim, room = dim * sizeof(char *);
    if (!s->inner.names && make_names(s))
        return -1;
    for (size_t i = 0; i < dim; i++)
        room += sizeof mark + (s->inner.names[i] ? strlen(s->inner.names[i]) : 0);
    if (!(s->coordinates = malloc(room)))
        return -1;
    char *text = (char *)(s->coordinates + dim);
    for (size_t i = 0; i < dim; i++) {
        s->coordinates[i] = s->inner.names[i];
        if (!s->inner.names[i] || !is_bent(&own->curve[i]))
            continue;
        s->coordinates[i] = text;
        text += sprintf(text, "%s%s", mark, s->inner.names[i]) + 1;
    }
    s->out->shown_names = s->inner.names;
    s->inner.names = s->coordinates;
    return 0;
}

static int open_own(const model_request *request, session *s, opened_model *out, failure *f)
{
    const wvgd_own_model *own = request->own;
    if (check_options(request, request->name, f))
        return f->code;
    if (request->data || request->text)
        return fail(f, EX_USAGE, "%s: --%s is for models by name", request->name, request->data ? "data" : "config");
    if (check_curves(request, own, f))
        return f->code;
    out->kind = "own";
    s->inner = own->model;
    s->inner.close = NULL; /* it is the caller's */
    if (own->prior)
        snprintf(out->prior, sizeof out->prior, "%s", own->prior);
    if (!own->curve)
        return 0;
    if (name_own(s, own))
        return no_memory(request, f);
    out->shown = own->model.dim;
    out->show = show_own;
    out->restart = restart_own;
    out->show_self = s;
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
/* Names that other programs have for these models. */
static const char *meant_model(const char *name)
{
    static const char *const likely[][2] = {
        {"logit", "logistic"},
        {"logreg", "logistic"},
        {"bernoulli", "logistic"},
        {"binary", "logistic"},
        {"classification", "logistic"},
        {"regression", "linear (a numeric target) or logistic (two labels)"},
        {"poisson", "glm with --likelihood poisson"},
        {"negbinomial", "glm with --likelihood negbinomial"},
        {"binomial", "glm with --likelihood binomial"},
        {"student", "glm with --likelihood student"},
        {"gaussian", "glm with --likelihood gaussian"},
        {"lm", "linear"},
        {"ols", "linear"},
        {"gaussian_process", "gp"},
        {"gaussian-process", "gp"},
        {"gmm", "mixture"},
        {"neural_network", "bnn"},
        {"nn", "bnn"},
        {"mlp", "bnn"},
    };
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++)
        if (!strcasecmp(name, likely[i][0]))
            return likely[i][1];
    for (unsigned i = 0; models[i].open; i++) { /* "linear_regression" */
        size_t length = strlen(models[i].info.name);
        if (length > 2 && !strncasecmp(name, models[i].info.name, length))
            return models[i].info.name;
    }
    return NULL;
}

static int refuse_name(const char *name, failure *f)
{
    const char *names[MODELS] = {NULL}; /* built-in ones, and NULL */
    char list[256] = "", shown[QUOTED];
    if (ends_in(name, ".csv") || ends_in(name, ".json"))
        return fail(f, EX_USAGE, "%s is a data file, not a model: write MODEL --data %s (wvgd models lists the models)",
                    name, name);
    if (ends_in(name, ".c") || ends_in(name, ".cpp"))
        return fail(
            f, EX_USAGE,
            "%s is source code, not a model: compile it to a shared object (cc -shared -fPIC -o model.so %s) and "
            "fit ./model.so",
            name, name);
    for (unsigned i = 0, at = 0; models[i].open; i++) {
        names[i] = models[i].info.name;
        at += (unsigned)snprintf(list + at, sizeof list - at, "%s, ", names[i]);
    }
    const char *nearest = meant_model(name) ? meant_model(name) : find_nearest(name, names);
    quote(name, shown);
    return nearest ? fail(f, EX_USAGE, "unknown model %s: did you mean %s?", shown, nearest)
                   : fail(f, EX_USAGE, "unknown model %s: expected %sor a path to a shared object", shown, list);
}

/* The row of a built-in model; that of a shared object if there is none. */
static unsigned find_model(const char *name)
{
    unsigned i = 0;
    while (models[i].open && strcmp(models[i].info.name, name) != 0)
        i++;
    return i;
}

int check_model_name(const char *name, failure *f)
{
    bool data = ends_in(name, ".csv") || ends_in(name, ".json");
    return models[find_model(name)].open || (names_object(name) && !data) ? 0 : refuse_name(name, f);
}

static int open_builtin(const model_request *request, session *s, opened_model *out, failure *f)
{
    unsigned i = find_model(request->name);
    if (!models[i].open)
        return refuse_name(request->name, f);
    if (check_options(request, request->name, f))
        return f->code;
    if (request->text)
        return fail(f, EX_USAGE, "--config: the model %s takes no configuration text, only shared objects do",
                    request->name);
    if (!request->data)
        return fail(f, EX_USAGE, "%s: --data FILE is missing: expected %s", request->name, models[i].info.data);
    out->kind = models[i].info.name;
    return models[i].open(request, s, f);
}

/* Columns that draws.csv has for all models. */
static bool is_taken(const char *name)
{
    static const char *const taken[] = {"lp__", "lp_approx__", "path__", "log_weight__"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0)
            return true;
    return false;
}

static int check_names(const model_request *request, int code, size_t n, const char *const *names, failure *f)
{
    char shown[QUOTED];
    for (size_t i = 0; i < n; i++) {
        const char *rule = name_problem(names[i]);
        if (rule)
            return fail(f, code, "%s: name of parameter %zu: found %s, expected %s", request->name, i + 1,
                        quote(names[i], shown), rule);
        if (is_taken(names[i]))
            return fail(f, code, "%s: a parameter cannot be named %s: draws.csv uses this name itself", request->name,
                        quote(names[i], shown));
    }
    size_t repeated = find_repeated(n, names);
    if (repeated < n && request->data && code == EX_DATAERR)
        return fail(f, code,
                    "%s:1: column %s: the model %s has a parameter of that name itself: rename the column, or leave it "
                    "out with --ignore %s",
                    request->data, names[repeated], request->name, names[repeated]);
    if (repeated < n)
        return fail(f, code, "%s: two parameters are named %s", request->name, quote(names[repeated], shown));
    return repeated > n ? no_memory(request, f) : 0;
}

static const size_t largest_dim = 1000000; /* of the library */

/* Names, a cost of its own and threads around s->inner. */
static int complete(const model_request *request, session *s, opened_model *out, failure *f)
{
    bool external = strcmp(out->kind, "plugin") == 0 || s->stan;
    if (s->inner.dim > largest_dim)
        return fail(f, EX_DATAERR, "%s: the model has %zu parameters, expected at most %zu", known_as(request),
                    s->inner.dim, largest_dim);
    if (!s->inner.names && make_names(s))
        return no_memory(request, f);
    if (strcmp(out->kind, "bnn") == 0 && !s->shares) { /* predictions are for all rows */
        if (!(s->angle = wv_bnn_angle_new(&s->inner)))
            return no_memory(request, f);
        out->cost = wv_bnn_angle_costs;
        out->cost_self = s->angle;
    }
    if (!out->show) {
        out->shown = s->inner.dim;
        out->shown_names = s->inner.names;
    }
    int code = external ? EX_SOFTWARE : EX_DATAERR;
    if (check_names(request, code, s->inner.dim, s->inner.names, f) ||
        check_names(request, code, out->shown, out->shown_names, f))
        return f->code;
    if (!out->own && wvgd_model_threads(&s->pooled, &s->inner, request->threads))
        return no_memory(request, f);
    out->model = out->own ? s->inner : s->pooled;
    out->model.close = NULL; /* close_model does it */
    if (external && !(s->bad = calloc(s->inner.dim, sizeof *s->bad)))
        return no_memory(request, f);
    if (external || out->wrapper) {
        out->model.log_density = log_density;
        out->model.self = s;
    }
    return 0;
}

/* Whether all shares have been opened, and what a point costs them together: a fit with shares decides as one without.
 */
static int join_shares(session *s, int code, failure *f)
{
    f->code = code;
    if (!s->shares || share_failure(s->shares, f) || share_sums(s->shares, 1, &s->pooled.work, f))
        return f->code;
    s->out->model.work = s->pooled.work;
    return 0;
}

static int wrap(session *s, opened_model *out, failure *f)
{
    const wvgd_model *prior = s->prior.log_density ? &s->prior : NULL;
    int code = out->wrapper->wrap(out->wrapper->self, &s->pooled, s->shares != NULL, prior, &s->wrapped, f);
    out->model.batched = out->model.batched || s->wrapped.batched;
    return code;
}

int open_model(const model_request *request, opened_model *out, failure *f)
{
    session *s = calloc(1, sizeof *s);
    const model_wrapper *w = request->wrapper;
    *out = (opened_model){.owner = s, .seed = request->seed, .wrapper = w, .own = request->own};
    if (!s)
        return fail(f, EX_SOFTWARE, "%s: no memory", request->name);
    s->out = out;
    if (w && w->begin(w->self, request, f)) {
        close_model(out);
        return f->code;
    }
    int code = check_shard(request, f);
    s->shares = given_option(request, SHARD) && w ? w->shares : NULL;
    if (!code)
        code = reserve_blas(request->threads, f);
    if (!code)
        code = request->own                  ? open_own(request, s, out, f)
               : names_object(request->name) ? open_external(request, s, out, f)
                                             : open_builtin(request, s, out, f);
    if (!code)
        code = complete(request, s, out, f);
    code = join_shares(s, code, f);
    if (w && code)
        w->cancel(w->self);
    else if (w)
        code = wrap(s, out, f);
    if (code)
        close_model(out);
    return code;
}

void close_model(opened_model *model)
{
    session *s = model->owner;
    free(model->hints);
    free(model->warnings);
    json_decref(model->priors);
    json_decref(model->design);
    if (s) {
        wvgd_model_close(&s->wrapped);
        wvgd_model_close(&s->pooled);
        wvgd_model_close(&s->inner);
        wvgd_model_close(&s->prior);
        wv_bridgestan_close(s->stan);
        wv_bnn_angle_free(s->angle);
        free_regression(&s->data);
        free_glm(&s->glm);
        free_priors(&s->priors);
        free_series(&s->series);
        free(s->moments);
        free(s->bad);
        free(s->name_text);
        free(s->names);
        free(s->coordinates);
        free(s);
    }
    *model = (opened_model){0};
}
