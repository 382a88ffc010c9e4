/* open_model.c - the table of models and of their options, and how each model is made from its data. To add a
 * model: a row, and a function that opens it. */
#include "open_model.h"
#include "blas_memory.h"
#include "external.h"
#include "model_data.h"
#include "models.h"
#include "object_file.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */
enum { TARGET, IGNORE, STANDARDIZE, NO_INTERCEPT, PRIOR_SD, HIDDEN, LIKELIHOOD, PRIOR_MEANS, PRIOR_SDS, OPTIONS };

static const model_option options[OPTIONS] = {
    [TARGET] = {"target", "COL", NULL, "logistic, linear, bnn",
                "response column (default: the last one); all others are features"},
    [IGNORE] = {"ignore", "COL[,COL]", NULL, "logistic, linear, bnn, gp",
                "columns to leave out, such as identifiers, text or a second target"},
    [STANDARDIZE] = {"standardize", NULL, NULL, "logistic, linear, bnn",
                     "centre each feature and divide it by its sample sd; constant features become 0"},
    [NO_INTERCEPT] = {"no-intercept", NULL, NULL, "logistic, linear",
                      "do not add an intercept (a column of ones, after the last feature)"},
    [PRIOR_SD] =
        {"prior-sd", "S", "1", "logistic, linear, bnn",
         "prior sd of every weight, intercept and biases included: normal with mean 0 and sd S, above 0. If the "
         "noise sd is a parameter (linear, bnn), its prior is half-Cauchy with scale S"},
    [HIDDEN] = {"hidden", "H", "5", "bnn", "number of hidden units, 1 to 10000"},
    [LIKELIHOOD] = {"likelihood", "auto|binary|normal", "auto", "bnn",
                    "auto: binary if the response has exactly two different values, otherwise normal"},
    [PRIOR_MEANS] = {"prior-means", "A,F,S,B", "0,0,0,0", "gp",
                     "means of the normal priors of log A, log f, log s, log B"},
    [PRIOR_SDS] = {"prior-sds", "A,F,S,B", "2,2,2,2", "gp",
                   "sds of the normal priors of log A, log f, log s, log B; above 0"},
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

/* name: of a row of the table of models. */
static int check_options(const model_request *request, const char *name, failure *f)
{
    for (unsigned i = 0; i < OPTIONS; i++)
        if (given_option(request, i) && !in_list(options[i].models, name))
            return fail(f, EX_USAGE, "--%s does not apply to the model %s, only to %s", options[i].name, request->name,
                        options[i].models);
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
    const char *text = option_text(request, PRIOR_SD), *expected = read_plain_number(text, value);
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
    const char *text = option_text(request, LIKELIHOOD);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            *kind = names[i].kind;
            return 0;
        }
    return refuse_option(LIKELIHOOD, text, "auto|binary|normal", f);
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
    wvgd_model inner, pooled;
    regression_data data; /* of a regression: names and labels */
    wvgd_table facts;     /* pointing into it */
    double *moments;      /* [2][columns] means and sds of features, or NULL */
    wv_bridgestan *stan;
    wv_bnn_angle *angle; /* between predictions of a bnn */
    char *name_text;     /* of names made here */
    const char **names;  /* [dim] into name_text */
    double *bad;         /* [dim] of a shared object: its first bad point */
    opened_model *out;   /* told about failures */
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

/* What is known of the columns once they have been read. */
static int note_facts(const model_request *request, session *s, failure *f)
{
    const regression_data *d = &s->data;
    s->facts = (wvgd_table){d->rows, d->target, {d->label[0], d->label[1]}, d->columns, d->names, NULL, NULL};
    s->out->facts = &s->facts;
    s->out->hints = table_hints(d);
    s->out->warnings = table_warnings(d);
    s->out->moments = measure_target(d);
    if (!given_option(request, STANDARDIZE))
        return 0;
    if (!(s->moments = calloc(d->columns, 2 * sizeof *s->moments)))
        return no_memory(request, f);
    s->facts.mean = s->moments;
    s->facts.sd = s->moments + d->columns;
    measure_features(d, s->moments, s->moments + d->columns);
    return 0;
}

/* What the models of a regression share. */
static int open_regression(const model_request *request, target_kind kind, session *s, wv_regression *regression,
                           failure *f)
{
    double prior_sd;
    regression_data *data = &s->data;
    if (read_prior_sd(request, &prior_sd, f) ||
        read_regression(request->data, option_text(request, TARGET), option_text(request, IGNORE), kind, data, f))
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
    s->out->prior_sd = prior_sd;
    return note_facts(request, s, f);
}

/* The prior of the model in words; noise: its sd is a parameter. */
static void note_prior(session *s, double sd, const char *weights, bool noise)
{
    char also[80] = "";
    if (noise)
        snprintf(also, sizeof also, "; half-Cauchy, scale %g, for the noise sd", sd);
    snprintf(s->out->prior, sizeof s->out->prior, "normal, mean 0, sd %g, for %s%s", sd, weights, also);
}

/* The model has copied what it needs. */
static int close_regression(const model_request *request, session *s, int failed, failure *f)
{
    forget_numbers(&s->data);
    return failed ? no_memory(request, f) : 0;
}

static int open_logistic(const model_request *request, session *s, failure *f)
{
    wv_regression regression;
    if (open_regression(request, TARGET_LABELS, s, &regression, f))
        return f->code;
    note_prior(s, regression.prior_sd, regression.intercept ? "weights and intercept" : "weights", false);
    return close_regression(request, s, wv_model_logistic(&s->inner, &regression), f);
}

static int open_linear(const model_request *request, session *s, failure *f)
{
    wv_regression regression;
    if (open_regression(request, TARGET_REAL, s, &regression, f))
        return f->code;
    note_prior(s, regression.prior_sd, regression.intercept ? "weights and intercept" : "weights", true);
    return close_regression(request, s, wv_model_linear(&s->inner, &regression), f);
}

static int open_bnn(const model_request *request, session *s, failure *f)
{
    wv_regression regression;
    target_kind kind = TARGET_EITHER;
    size_t hidden = 0;
    if (read_hidden(request, &hidden, f) || read_likelihood(request, &kind, f) ||
        open_regression(request, kind, s, &regression, f))
        return f->code;
    note_prior(s, regression.prior_sd, "weights and biases", !s->data.labels);
    return close_regression(request, s, wv_model_bnn(&s->inner, &regression, hidden, s->data.labels), f);
}

static int open_gp(const model_request *request, session *s, failure *f)
{
    series_data data;
    wv_gp_prior prior;
    if (read_four(request, PRIOR_MEANS, prior.mean, f) || read_four(request, PRIOR_SDS, prior.sd, f))
        return f->code;
    if (check_sds(option_text(request, PRIOR_SDS), prior.sd, f))
        return f->code;
    if (read_series(request->data, option_text(request, IGNORE), &data, f))
        return f->code;
    snprintf(s->out->prior, sizeof s->out->prior,
             "normal, means %g, %g, %g, %g, sds %g, %g, %g, %g, for log_A, log_f, log_s, log_B", prior.mean[0],
             prior.mean[1], prior.mean[2], prior.mean[3], prior.sd[0], prior.sd[1], prior.sd[2], prior.sd[3]);
    int failed = wv_model_gp(&s->inner, data.n, data.t, data.y, &prior);
    free_series(&data);
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
      "logistic regression; of two labels, the later one in alphabetical order counts as 1"},
     open_logistic},
    {{"linear", "CSV with a header: features, and a numeric response",
      "linear regression with unknown noise sd (parameter log_sigma)"},
     open_linear},
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
    int status = s->pooled.log_density(s->pooled.self, n, z, log_p, grad);
    if (s->stan)
        s->out->failed_points = wv_bridgestan_failures(s->stan, &s->out->first_message);
    if (!status)
        look_for_bad(s, n, z, log_p, grad);
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
static int read_configuration(const model_request *request, char **text, failure *f)
{
    size_t size;
    *text = NULL;
    if (request->data && request->text)
        return fail(f, EX_USAGE, "%s: give either --data or --config, not both", request->name);
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

static int open_object(const model_request *request, const char *path, const char *text, session *s, opened_model *out,
                       failure *f)
{
    char error[512];
    wv_object_kind kind;
    void *object = wv_object_load(path, &kind, error, sizeof error);
    if (!object)
        return fail(f, EX_DATAERR, "cannot load %s: %s", request->name, error);
    if (kind == WV_OBJECT_BRIDGESTAN)
        return open_stan(request, object, text, s, out, f);
    if (kind == WV_OBJECT_UNKNOWN)
        return fail(
            f, EX_DATAERR,
            "%s is not a model: it exports neither wvgd_model_open nor bs_model_construct (is the function misspelt, "
            "static, or C++ without extern \"C\"?)",
            request->name);
    out->kind = "plugin";
    return fail_external(request, wv_model_plugin(&s->inner, object, text, error, sizeof error), error, f);
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
        code = read_configuration(request, &text, f);
    if (!code)
        code = open_object(request, path, text, s, out, f);
    free(text);
    free(path);
    return code;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && !strcmp(name + length - tail, end);
}

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
        {"glm", "linear (a numeric target) or logistic (two labels)"},
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
    if (strcmp(out->kind, "bnn") == 0) {
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
    if (wvgd_model_threads(&s->pooled, &s->inner, request->threads))
        return no_memory(request, f);
    out->model = s->pooled;
    out->model.close = NULL; /* close_model does it */
    if (external) {
        if (!(s->bad = calloc(s->inner.dim, sizeof *s->bad)))
            return no_memory(request, f);
        out->model.log_density = log_density;
        out->model.self = s;
    }
    return 0;
}

int open_model(const model_request *request, opened_model *out, failure *f)
{
    session *s = calloc(1, sizeof *s);
    *out = (opened_model){.owner = s, .seed = request->seed};
    if (!s)
        return fail(f, EX_SOFTWARE, "%s: no memory", request->name);
    s->out = out;
    int code = reserve_blas(request->threads, f);
    if (!code)
        code = names_object(request->name) ? open_external(request, s, out, f) : open_builtin(request, s, out, f);
    if (!code)
        code = complete(request, s, out, f);
    if (code)
        close_model(out);
    return code;
}

void close_model(opened_model *model)
{
    session *s = model->owner;
    free(model->hints);
    free(model->warnings);
    if (s) {
        wvgd_model_close(&s->pooled);
        wvgd_model_close(&s->inner);
        wv_bridgestan_close(s->stan);
        wv_bnn_angle_free(s->angle);
        free_regression(&s->data);
        free(s->moments);
        free(s->bad);
        free(s->name_text);
        free(s->names);
        free(s);
    }
    *model = (opened_model){0};
}
