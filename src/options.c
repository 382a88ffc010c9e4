/* options.c - one table of options: field, default, range, help. Setting by name, text, help pages
 * and JSON keys all read it. */
#include "options.h"
#include "error.h"
#include "number_text.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { COUNT, REAL, NAME, SEED } kind;

typedef struct {
    wvgd_option_info info;
    kind kind;
    size_t offset;    /* of the field in wvgd_options */
    double low, high; /* range of a number, ends included */
} row;

#define FIELD(f) offsetof(wvgd_options, f)
/* clang-format off */
static const row table[] = {
    {{"solver", "staged|joint", "staged",
      "staged: fit a Gaussian mixture, add components while that helps, then divide the posterior into cells; "
      "joint: the paper's method, which moves particles and components together", NULL},
     NAME, FIELD(solver), 0, 0},
    {{"particles", "1..100000", "5",
      "number of particles; each represents one cell of the posterior", NULL},
     COUNT, FIELD(particles), 1, 100000},
    {{"most-particles", "0..1000", "0",
      "staged solver: add particles, up to this number, if the ensemble needs them to pass the verdict; 0: none",
      "solver staged"},
     COUNT, FIELD(most_particles), 0, 1000},
    {{"components", "1..200", "80", "staged solver: maximum number of mixture components", "solver staged"},
     COUNT, FIELD(components), 1, 200},
    {{"family", "diag|full|lowrank", "full",
      "covariance of each component: diagonal, full, or diagonal plus low rank", NULL},
     NAME, FIELD(family), 0, 0},
    {{"rank", "1..1000", "5", "lowrank family: rank of the term added to the diagonal", "family lowrank"},
     COUNT, FIELD(rank), 1, 1000},
    {{"cells", "hard|soft", "hard",
      "joint solver: fit each component to its cell (hard) or to its responsibilities (soft); the "
      "results always have hard cells",
      "solver joint"},
     NAME, FIELD(cells), 0, 0},
    {{"cost", "sqeuclid|mahalanobis|own|l1|lp|callback", "mahalanobis",
      "distance used to assign points to cells; mahalanobis uses the covariance of the posterior (within its modes, if "
      "there are several), own that of each cell", NULL},
     NAME, FIELD(cost), 0, 0},
    {{"power", "1..8", "1.5", "lp cost: the exponent in sum |a-b|^power", "cost lp"}, REAL, FIELD(power), 1, 8},
    {{"estimator", "natural|score|reparam", "natural",
      "how components are updated: natural (exact, uses gradients, or differences where the model has none), "
      "score (exact, joint solver, needs neither) or reparam "
      "(the paper's, biased)", NULL},
     NAME, FIELD(estimator), 0, 0},
    {{"sampler", "mixture|reject", "mixture",
      "mixture: all components share their draws; reject: each component discards its draws outside its own cell, "
      "as in the paper", NULL},
     NAME, FIELD(sampler), 0, 0},
    {{"draws", "0..1000000", "0", "joint solver: draws per component per iteration; 0: chosen from the dimension",
      "solver joint"},
     COUNT, FIELD(draws), 0, 1000000},
    {{"init", "explore|prior|normal", "explore",
      "where the fit starts: at modes found by gradient ascent (explore), at draws from the model's prior, or at "
      "normal draws with sd init-scale", NULL},
     NAME, FIELD(init), 0, 0},
    {{"bend", "auto|never", "auto",
      "coordinates in which funnels, bananas and hierarchies are nearly Gaussian: look for them if one Gaussian fits "
      "badly (auto), or never",
      "solver staged"},
     NAME, FIELD(bend), 0, 0},
    {{"finish", "auto|never|always", "auto",
      "complete the fit with Hamiltonian Monte Carlo chains: if importance sampling fails and max-evaluations allows "
      "it (auto), never, or always",
      "solver staged"},
     NAME, FIELD(finish), 0, 0},
    {{"starts", "0..100000", "0",
      "number of gradient ascents in the search for modes; 0: continue until they find no new modes", NULL},
     COUNT, FIELD(starts), 0, 100000},
    {{"init-scale", "1e-100..1e100", "1",
      "rough scale of the parameters; it need not be accurate for one mode, but with several far apart, give their "
      "distance", NULL},
     REAL, FIELD(init_scale), 1e-100, 1e100},
    {{"max-iter", "1..1000000", "2000",
      "maximum number of iterations; the fit still completes the search for modes and the final estimates", NULL},
     COUNT, FIELD(max_iter), 1, 1000000},
    {{"max-evaluations", "0..1000000000", "0",
      "maximum number of evaluations of the model, final draws included; 0: 200000 with the staged solver (more with a "
      "smaller evidence-se, and 2D + 1 times as many for a model without gradients), no limit with the joint solver",
      NULL},
     COUNT, FIELD(max_evaluations), 0, 1000000000},
    {{"max-seconds", "0..1e9", "0", "time limit in seconds; 0: no limit", NULL}, REAL, FIELD(max_seconds), 0, 1e9},
    {{"tol", "1e-8..10", "0.005", "joint solver: stop when the remaining improvement of PELBO is below X nats",
      "solver joint"},
     REAL, FIELD(tol), 1e-8, 10},
    {{"evidence-se", "0.001..1", "0.02",
      "target for the standard error of the log evidence; smaller values take more draws", NULL},
     REAL, FIELD(evidence_se), 0.001, 1},
    {{"seed", "0..2^64-1", "1", "random seed; the same seed gives identical results", NULL}, SEED, FIELD(seed), 0, 0},
    {{"min-batch", "0..4096", "0",
      "ask the model for at least N points at a time where possible, for hardware that needs large batches: more "
      "ascents at once, more draws; results depend on it; 0: no minimum", NULL},
     COUNT, FIELD(min_batch), 0, 4096},
    {{"threads", "1..4096", "1", "number of threads; results do not depend on it", NULL},
     COUNT, FIELD(threads), 1, 4096},
};
/* clang-format on */
enum { ROWS = sizeof table / sizeof table[0] };

const wvgd_option_info *wvgd_options_describe(size_t i)
{
    return i < ROWS ? &table[i].info : NULL;
}

void wvgd_options_init(wvgd_options *options)
{
    if (!options)
        return;
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    for (size_t i = 0; i < ROWS; i++)
        wvgd_options_set(options, table[i].info.name, table[i].info.initial, NULL);
}

/* "max_iter" and "max-iter" are the same name. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
            return false;
    return *a == *b;
}

static const row *find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (same_name(table[i].info.name, name))
            return &table[i];
    return NULL;
}

/* Position of value in "a|b|c", or -1. */
static int choice(const char *values, const char *value)
{
    size_t length = strlen(value);
    for (int k = 0; length; k++) {
        size_t here = strcspn(values, "|");
        if (here == length && !strncmp(values, value, length))
            return k;
        if (!values[here])
            break;
        values += here + 1;
    }
    return -1;
}

static int choices(const char *values)
{
    int n = 1;
    for (; *values; values++)
        n += *values == '|';
    return n;
}

static wvgd_status bad_value(const row *r, const char *value, wvgd_error *error)
{
    static const char *const rule[] = {
        [COUNT] = "a whole number, ", [REAL] = "a number, ", [SEED] = "a whole number, "};
    return wv_fail(error, WVGD_E_ARGUMENT, "option %s is '%.60s': expected %s%s", r->info.name, value,
                   r->kind == NAME ? "" : rule[r->kind], r->info.values);
}

/* Decimal: [+-] digits [. digits] [e [+-] digits]. What else strtod takes is no number here:
 * blanks, hexadecimal, nan, inf. */
static bool is_decimal(const char *s)
{
    static const char digits[] = "0123456789";
    s += *s == '+' || *s == '-';
    size_t whole = strspn(s, digits), part = 0;
    s += whole;
    if (*s == '.') {
        part = strspn(s + 1, digits);
        s += 1 + part;
    }
    if (!whole && !part)
        return false;
    if (*s == 'e' || *s == 'E') {
        s += 1 + (s[1] == '+' || s[1] == '-');
        size_t exponent = strspn(s, digits);
        s += exponent;
        if (!exponent)
            return false;
    }
    return !*s;
}

static wvgd_status set_number(const row *r, void *field, const char *value, wvgd_error *error)
{
    char *end;
    errno = 0;
    if (r->kind == SEED) {
        unsigned long long u = strtoull(value, &end, 10);
        if (*value < '0' || *value > '9' || *end || errno)
            return bad_value(r, value, error);
        *(uint64_t *)field = u;
        return WVGD_OK;
    }
    double x = is_decimal(value) ? wv_number_text_parse(value, &end) : NAN;
    if (!(x >= r->low && x <= r->high) || *end || (r->kind == COUNT && x != floor(x)))
        return bad_value(r, value, error);
    if (r->kind == COUNT)
        *(size_t *)field = (size_t)x;
    else
        *(double *)field = x;
    return WVGD_OK;
}

wvgd_status wvgd_options_set(wvgd_options *options, const char *name, const char *value, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_options_set", "options", options) ||
        wv_missing(error, "wvgd_options_set", "name", name) || wv_missing(error, "wvgd_options_set", "value", value))
        return WVGD_E_ARGUMENT;
    const row *r = find(name);
    if (!r)
        return wv_fail(error, WVGD_E_ARGUMENT, "unknown option '%.60s'", name);
    void *field = (char *)options + r->offset;
    if (r->kind != NAME)
        return set_number(r, field, value, error);
    int k = choice(r->info.values, value);
    if (k < 0)
        return bad_value(r, value, error);
    *(int *)field = k; /* every option with names is an enum, which has the size of an int in the C ABI */
    return WVGD_OK;
}

wvgd_status wvgd_options_get(const wvgd_options *options, const char *name, char *text, size_t size, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_options_get", "options", options) ||
        wv_missing(error, "wvgd_options_get", "name", name) || wv_missing(error, "wvgd_options_get", "text", text))
        return WVGD_E_ARGUMENT;
    const row *r = find(name);
    if (!r)
        return wv_fail(error, WVGD_E_ARGUMENT, "unknown option '%.60s'", name);
    const void *field = (const char *)options + r->offset;
    int length = 0;
    if (r->kind == COUNT)
        length = snprintf(text, size, "%zu", *(const size_t *)field);
    else if (r->kind == SEED)
        length = snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)field);
    else if (r->kind == REAL)
        length = wv_number_text_print(text, size, "%.17g", *(const double *)field);
    else if (*(const int *)field < 0 || *(const int *)field >= choices(r->info.values))
        length = snprintf(text, size, "%d", *(const int *)field);
    else {
        const char *v = r->info.values;
        for (int k = *(const int *)field; k > 0; k--)
            v += strcspn(v, "|") + 1;
        length = snprintf(text, size, "%.*s", (int)strcspn(v, "|"), v);
    }
    if (length < 0 || (size_t)length >= size)
        return wv_fail(error, WVGD_E_ARGUMENT, "the value of option %s does not fit into %zu bytes", name, size);
    return WVGD_OK;
}

/* The range rules of the table, for structs filled by hand. */
static bool in_range(const row *r, const void *field)
{
    double x;
    switch (r->kind) {
    case COUNT: x = (double)*(const size_t *)field; break;
    case REAL: x = *(const double *)field; break;
    case NAME: return *(const int *)field >= 0 && *(const int *)field < choices(r->info.values);
    default: return true;
    }
    return x >= r->low && x <= r->high;
}

wvgd_status wv_options_check(const wvgd_options *options, wvgd_error *error)
{
    if (options->size != sizeof *options)
        return wv_fail(error, WVGD_E_ARGUMENT,
                       "the options struct has size %zu, expected %zu: call wvgd_options_init, and compile with the "
                       "header of this library version",
                       options->size, sizeof *options);
    for (size_t i = 0; i < ROWS; i++)
        if (!in_range(&table[i], (const char *)options + table[i].offset)) {
            char text[64] = "out of range";
            wvgd_options_get(options, table[i].info.name, text, sizeof text, NULL);
            return bad_value(&table[i], text, error);
        }
    if (options->cost == WVGD_CALLBACK && !options->cost_function && !options->cost_batch)
        return wv_fail(error, WVGD_E_ARGUMENT, "cost is callback, but cost_function and cost_batch are NULL");
    return WVGD_OK;
}
