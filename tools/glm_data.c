/* glm_data.c - from a file, a formula and a likelihood to plain arrays, and from coordinates to what is shown. */
#include "glm_data.h"
#include "column_moments.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const struct {
    const char *name, *expected;
    const char *positive[3];
} likelihoods[] = {
    [WV_GAUSSIAN] = {"gaussian", "numbers", {"sigma", NULL}},
    [WV_STUDENT] = {"student", "numbers", {"sigma", "nu", NULL}},
    [WV_BERNOULLI] = {"bernoulli", "0 and 1, yes and no, or two labels", {NULL}},
    [WV_BINOMIAL] = {"binomial", "whole numbers from 0 to the number of trials", {NULL}},
    [WV_POISSON] = {"poisson", "counts: 0, 1, 2, ...", {NULL}},
    [WV_NEGBINOMIAL] = {"negbinomial", "counts: 0, 1, 2, ...", {"shape", NULL}},
};
enum { LIKELIHOODS = sizeof likelihoods / sizeof *likelihoods };
static const double largest_count = 1e9;
static const double largest_offset = 100; /* exp(100) is more than there are of anything */

#define NAMES "gaussian|student|bernoulli|binomial|poisson|negbinomial"

#define WANTED                                                                                                         \
    "--likelihood is missing: expected " NAMES                                                                         \
    " (bernoulli for yes and no, poisson or negbinomial for counts, gaussian for numbers)"

/* Names that other programs have. */
static const char *meant(const char *name)
{
    static const char *const likely[][2] = {{"normal", "gaussian"},
                                            {"gauss", "gaussian"},
                                            {"t", "student"},
                                            {"student_t", "student"},
                                            {"logistic", "bernoulli"},
                                            {"logit", "bernoulli"},
                                            {"binary", "bernoulli"},
                                            {"count", "poisson"},
                                            {"negative_binomial", "negbinomial"},
                                            {"negative-binomial", "negbinomial"},
                                            {"nb", "negbinomial"},
                                            {"negbin", "negbinomial"},
                                            {"neg_binomial_2", "negbinomial"}};
    const char *names[LIKELIHOODS + 1] = {NULL};
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++)
        if (!strcmp(name, likely[i][0]))
            return likely[i][1];
    for (size_t i = 0; i < LIKELIHOODS; i++)
        names[i] = likelihoods[i].name;
    return find_nearest(name, names);
}

static int choose_likelihood(const glm_request *q, glm_data *g, failure *f)
{
    char shown[QUOTED];
    if (!q->likelihood)
        return q->formula ? fail(f, EX_USAGE, WANTED) : 0; /* otherwise both are asked for */
    for (size_t i = 0; i < LIKELIHOODS; i++)
        if (!strcmp(q->likelihood, likelihoods[i].name)) {
            g->likelihood = (wv_likelihood)i;
            g->family = likelihoods[i].name;
            g->positive = likelihoods[i].positive;
            return 0;
        }
    const char *near = meant(q->likelihood);
    return fail(f, EX_USAGE, "--likelihood is %s: expected " NAMES "%s%s%s", quote(q->likelihood, shown),
                near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

/* The columns of the file, for somebody who has given no formula. */
static int ask_for_formula(const data_table *t, const glm_request *q, failure *f)
{
    char list[400] = "";
    size_t at = 0;
    for (size_t c = 0; c < t->csv.columns && at + 80 < sizeof list; c++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%.60s", at ? ", " : "", t->csv.name[c]);
    return fail(f, EX_USAGE,
                "glm: --formula is missing: expected a response, ~ and terms, such as --formula '%.60s ~ .' "
                "('.' stands for all other columns); the columns are %s%s",
                t->csv.name[t->csv.columns - 1], list, q->likelihood ? "" : "; and " WANTED);
}

/* ---- the response ------------------------------------------------------------------------------------------------ */
/* Says that the response of row i is wrong. */
static int refuse_response(const glm_data *g, size_t i, const char *expected, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    const csv_file *csv = &g->table.csv;
    char value[NUMBER_ROOM], why[240];
    size_t row = g->table.row[i], column = find_column(csv, shape->response_name);
    snprintf(why, sizeof why, "%s, because it is the response of --likelihood %s", expected, g->family);
    if (shape->response_column && column < csv->columns)
        return refuse_field(csv, row, column, find_field(csv, row, column), why, f);
    return fail(f, EX_DATAERR, "%s:%zu: %s is %s, expected %s", csv->path, csv->line[row], shape->response_name,
                short_number(g->rows.y[i], value), why);
}

static int refuse_kind(const glm_data *g, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    return fail(f, EX_DATAERR, "%s: the response %s has %zu levels, expected %s for --likelihood %s%s",
                g->table.csv.path, shape->response_name, shape->levels, likelihoods[g->likelihood].expected, g->family,
                shape->levels == 2 && g->likelihood != WV_BERNOULLI ? ": --likelihood bernoulli takes two labels" : "");
}

static int no_memory(const glm_data *g, failure *f)
{
    return fail(f, EX_SOFTWARE, "%s: no memory for the rows of the model", g->table.csv.path);
}

/* What stands in the file where the response is y first, to be freed; the number itself if that is no column, or
 * nothing is. */
static int find_label(const glm_data *g, double y, char **label, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    const csv_file *csv = &g->table.csv;
    size_t column = find_column(csv, shape->response_name), bytes, at = 0;
    const char *own = "";
    char *all = NULL;
    for (size_t i = 0; shape->response_column && column < csv->columns && i < g->rows.rows && !*own; i++)
        if (g->rows.y[i] == y)
            own = find_field(csv, g->table.row[i], column);
    if (csv->shares && share_texts(csv->shares, own, strlen(own) + 1, &all, &bytes, NULL, f))
        return f->code;
    while (all && at < bytes && !all[at]) /* the first process that has one */
        at++;
    own = !all ? own : at < bytes ? all + at : "";
    *label = strdup(*own ? own : y > 0 ? "1" : "0");
    free(all);
    return *label ? 0 : no_memory(g, f);
}

/* Labels are 0 and 1 in the order of their bytes, or as numbers. */
static int take_labels(glm_data *g, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    if (shape->levels && shape->levels != 2)
        return refuse_kind(g, f);
    f->code = 0;
    for (size_t i = 0; i < g->rows.rows && !f->code; i++)
        if (g->rows.y[i] != 0 && g->rows.y[i] != 1)
            refuse_response(g, i, "0 or 1 (or yes and no, or two labels)", f);
    if (share_failure(g->table.csv.shares, f))
        return f->code;
    for (int k = 0; k < 2; k++)
        if (find_label(g, k, &g->label[k], f))
            return f->code;
    return 0;
}

static bool is_count(double y)
{
    return y >= 0 && y <= largest_count && y == floor(y);
}

static int check_count(const glm_data *g, size_t i, failure *f)
{
    double y = g->rows.y[i];
    if (!is_count(y))
        return refuse_response(g, i, "a count, a whole number from 0 to 1e9", f);
    if (!g->rows.trials)
        return 0;
    if (!is_count(g->rows.trials[i]) || g->rows.trials[i] < y)
        return fail(f, EX_DATAERR,
                    "%s:%zu: %.17g of %.17g trials (%s) are successes (%s), expected whole numbers from 0 to 1e9, "
                    "and no more successes than trials",
                    g->table.csv.path, g->table.csv.line[g->table.row[i]], y, g->rows.trials[i],
                    shape_of(g->design)->other_name, shape_of(g->design)->response_name);
    return 0;
}

static int check_counts(const glm_data *g, failure *f)
{
    f->code = 0;
    for (size_t i = 0; i < g->rows.rows && !f->code; i++)
        check_count(g, i, f);
    return share_failure(g->table.csv.shares, f);
}

static int check_finite(const glm_data *g, failure *f)
{
    f->code = 0;
    for (size_t i = 0; i < g->rows.rows && !f->code; i++)
        if (!isfinite(g->rows.y[i]))
            refuse_response(g, i, "a finite number", f);
    return share_failure(g->table.csv.shares, f);
}

static int check_numbers(const glm_data *g, failure *f)
{
    bool constant = false;
    if (find_constants(g->table.csv.shares, g->rows.rows, 1, g->rows.y, &constant, f))
        return f->code;
    return constant ? fail(f, EX_DATAERR,
                           "%s: every row has the same value of the response %s, expected at least two different "
                           "ones",
                           g->table.csv.path, shape_of(g->design)->response_name)
                    : 0;
}

static bool is_gaussian_like(const glm_data *g)
{
    return g->likelihood == WV_GAUSSIAN || g->likelihood == WV_STUDENT;
}

/* Offsets of counts are logs. */
static int check_offset(const glm_data *g, failure *f)
{
    f->code = 0;
    for (size_t i = 0; g->rows.offset && !is_gaussian_like(g) && i < g->rows.rows && !f->code; i++)
        if (fabs(g->rows.offset[i]) > largest_offset)
            fail(f, EX_DATAERR,
                 "%s:%zu: the offset is %g, which is added to the %s of the mean, expected at most %g: for an exposure "
                 "x, write offset(log(x))",
                 g->table.csv.path, g->table.csv.line[g->table.row[i]], g->rows.offset[i],
                 g->label[0] || g->rows.trials ? "log odds" : "log", largest_offset);
    return share_failure(g->table.csv.shares, f);
}

static int check_response(glm_data *g, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    bool trials = g->rows.trials != NULL;
    if (trials != (g->likelihood == WV_BINOMIAL))
        return fail(f, EX_USAGE,
                    trials ? "--likelihood is %s, but the response has trials: expected binomial"
                           : "--likelihood %s: the response has no trials: expected cbind(successes, failures) ~ .. or "
                             "y | trials(n) ~ ..; for 0 and 1 use --likelihood bernoulli",
                    g->family);
    if (check_finite(g, f))
        return f->code;
    if (g->likelihood == WV_BERNOULLI)
        return take_labels(g, f);
    if (shape->levels)
        return refuse_kind(g, f);
    return is_gaussian_like(g) ? check_numbers(g, f) : check_counts(g, f);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Weights of the rows of this share. */
static int read_weights(glm_data *g, size_t c, double *sum, failure *f)
{
    const data_column *column = &g->table.column[c];
    if (!(g->weight = calloc(g->table.rows + 1, sizeof *g->weight)))
        return no_memory(g, f);
    for (size_t i = 0; i < g->table.rows; i++) {
        size_t row = g->table.row[i];
        double w = column->value[i];
        if (column->kind == COLUMN_CATEGORICAL || !(w >= 0 && w <= largest_count))
            return refuse_field(&g->table.csv, row, c, find_field(&g->table.csv, row, c),
                                "a weight, a number from 0 to 1e9", f);
        *sum += g->weight[i] = w;
    }
    return 0;
}

static int take_weights(glm_data *g, const char *name, failure *f)
{
    row_shares *shares = g->table.csv.shares;
    double sum = 0;
    f->code = 0;
    if (!name)
        return 0;
    read_weights(g, find_column(&g->table.csv, name), &sum, f);
    if (share_failure(shares, f) || share_sums(shares, 1, &sum, f))
        return f->code;
    return sum > 0
               ? 0
               : fail(f, EX_DATAERR, "%s: column %s: every weight is 0, expected one above 0", g->table.csv.path, name);
}

static bool name_quantities(glm_data *g, const design_shape *shape)
{
    size_t more = 0;
    while (g->positive[more])
        more++;
    g->quantities = shape->columns + more;
    g->shown = calloc(g->quantities + 1, sizeof *g->shown);
    for (size_t k = 0; g->shown && k < g->quantities; k++)
        g->shown[k] = k < shape->columns ? shape->names[k] : g->positive[k - shape->columns];
    return g->shown != NULL;
}

static int name_columns(glm_data *g, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    g->columns = shape->columns - shape->intercept;
    g->intercept = shape->intercept;
    g->names = shape->names + shape->intercept;
    g->centre = calloc(g->columns + 1, sizeof *g->centre);
    f->code = g->centre && name_quantities(g, shape) ? 0 : no_memory(g, f);
    if (share_failure(g->table.csv.shares, f))
        return f->code;
    return shape->columns ? 0 : fail(f, EX_USAGE, "--formula has no terms: expected an intercept or a column");
}

/* Columns without the intercept, less their means, in the place of those of the design. */
static int centre_columns(glm_data *g, failure *f)
{
    const design_shape *shape = shape_of(g->design);
    size_t skip = g->intercept, C = g->columns, n = g->rows.rows;
    double all = (double)g->table.all_rows;
    forget_values(&g->table);
    forget_table_rows(&g->table);
    g->X = g->rows.X;
    g->rows.X = NULL;
    for (size_t i = 0; i < n * C && skip; i++)
        g->X[i] = g->X[i / C * shape->columns + skip + i % C];
    for (size_t i = 0; i < n * C && skip; i++)
        g->centre[i % C] += g->X[i] / all;
    if (share_sums(g->table.csv.shares, C, g->centre, f))
        return f->code;
    for (size_t i = 0; i < n * C; i++)
        g->X[i] -= g->centre[i % C];
    return 0;
}

/* Columns that `.` leaves out: those of --ignore, and the weights. To be freed. */
static int mark_ignored(glm_data *g, const glm_request *q, bool *ignored, failure *f)
{
    const csv_file *csv = &g->table.csv;
    if (q->table.ignore && mark_columns(csv, q->table.ignore, ignored, f))
        return f->code;
    if (!q->weights)
        return 0;
    size_t c = find_column(csv, q->weights);
    if (c == csv->columns)
        return refuse_column(csv, q->weights, f);
    ignored[c] = true;
    return 0;
}

static int use_formula(glm_data *g, const glm_request *q, const formula *m, const bool *ignored, failure *f)
{
    data_table *t = &g->table;
    if (mark_formula_columns(m, ignored, t, f))
        return f->code;
    if (q->weights && !t->column[find_column(&t->csv, q->weights)].used) {
        data_column *weights = &t->column[find_column(&t->csv, q->weights)];
        weights->used = weights->response = true; /* no part of X */
    }
    if (read_columns(t, &q->table, f)) {
        add_remedies(t, f);
        return f->code;
    }
    if (make_design(m, ignored, t, &g->design, f))
        return f->code;
    f->code = 0;
    fill_design(g->design, t, WITH_RESPONSE, &g->rows, f);
    if (share_failure(t->csv.shares, f) || check_response(g, f) || check_offset(g, f) ||
        take_weights(g, q->weights, f) || name_columns(g, f))
        return f->code;
    return q->keep ? 0 : centre_columns(g, f);
}

int read_glm(const char *path, const glm_request *q, glm_data *out, failure *f)
{
    formula *m = NULL;
    bool *ignored = NULL;
    *out = (glm_data){0};
    int code = q->formula ? parse_formula(q->formula, strlen(q->formula), &m, f) : 0;
    if (!code)
        code = choose_likelihood(q, out, f);
    if (!code)
        code = open_table(path, &q->table, &out->table, f);
    if (!code && !m)
        code = ask_for_formula(&out->table, q, f);
    if (!code && !(ignored = calloc(out->table.csv.columns, sizeof *ignored)))
        code = no_memory(out, f);
    if (!code)
        code = mark_ignored(out, q, ignored, f);
    if (!code)
        code = use_formula(out, q, m, ignored, f);
    free(ignored);
    free_formula(m);
    if (code)
        free_glm(out);
    return code;
}

void forget_glm_numbers(glm_data *g)
{
    free_design_rows(&g->rows);
    g->rows = (design_rows){0};
    free(g->weight);
    free(g->X);
    g->weight = g->X = NULL;
    forget_values(&g->table);
}

void free_glm(glm_data *g)
{
    free_design_rows(&g->rows);
    free_design(g->design);
    close_table(&g->table);
    free(g->weight);
    free(g->X);
    free(g->centre);
    free(g->shown);
    free(g->label[0]);
    free(g->label[1]);
    *g = (glm_data){0};
}

/* The coordinates are columns, intercept, logs. */
int show_glm(void *self, const double *z, double *values)
{
    const glm_data *g = self;
    size_t C = g->columns, P = C + g->intercept;
    if (g->intercept) {
        values[0] = z[C];
        for (size_t c = 0; c < C; c++)
            values[0] -= g->centre[c] * z[c];
    }
    for (size_t c = 0; c < C; c++)
        values[g->intercept + c] = z[c];
    for (size_t k = P; k < g->quantities; k++)
        values[k] = exp(z[k]);
    return 0;
}
