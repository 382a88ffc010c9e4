/* compare.c - which of several runs the data support:
 *     difference      log Z_i - log Z_best, with the standard error sqrt(se_i^2 + se_best^2)
 *     bayes factor    exp(difference)
 *     probability     Z_i / sum_j Z_j, for runs that are equally probable before the data
 * Evidence can be compared only if all runs explain the same values, which their hashes tell. */
#include "cut_text.h"
#include "json_bytes.h"
#include "json_values.h"
#include "prior_conflict.h"
#include "priors.h"
#include "run_directory.h"
#include "run_json.h"
#include "session.h"
#include "status.h"
#include "summary.h"
#include "text.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

struct wvgd_comparison {
    size_t n;
    wvgd_compared *row; /* [n] the best first */
    char **name;        /* [n] what the rows call their runs, in the order of the caller */
    size_t notes;
    char **note; /* [notes] */
    char *text;  /* the last one that was asked for */
};

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory for the comparison");
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */
__attribute__((format(printf, 2, 3))) static int add_note(wvgd_comparison *c, const char *format, ...)
{
    char text[900], **more = realloc(c->note, (c->notes + 1) * sizeof *more);
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!more)
        return -1;
    c->note = more;
    c->note[c->notes] = strdup(text);
    return c->note[c->notes] ? (c->notes++, 0) : -1;
}

/* ---- the data ---------------------------------------------------------------------------------------------------- */
static const json_t *data_of(const json_t *run)
{
    return json_object_get(run, "data");
}

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
    const char *x = text_at(a, key), *y = text_at(b, key);
    return x && y && !strcmp(x, y);
}

/* "the 98 values of y (2 rows dropped)" */
static void show_response(const json_t *data, char *text, size_t size)
{
    char name[QUOTED];
    const char *response = text_at(data, "response");
    double dropped = number_at(data, "dropped");
    int at = snprintf(text, size, "%.0f values of %s", number_at(data, "rows"), quote(response ? response : "?", name));
    if (dropped > 0 && at > 0 && (size_t)at < size)
        snprintf(text + at, size - (size_t)at, " (%.0f row%s dropped)", dropped, dropped > 1 ? "s" : "");
}

/* Runs a and b explain the same values, as far as is known: *unknown counts pairs of which nothing is. */
static int check_pair(const json_t *a, const json_t *b, const char *name_a, const char *name_b, size_t *unknown,
                      failure *f)
{
    const json_t *x = data_of(a), *y = data_of(b);
    char first[200], second[200];
    bool known = text_at(x, "response_sha256") && text_at(y, "response_sha256");
    if (!known) {
        *unknown += !(text_at(x, "sha256") && same_text(x, y, "sha256"));
        return 0;
    }
    show_response(x, first, sizeof first);
    show_response(y, second, sizeof second);
    if (!same_text(x, y, "response_sha256"))
        return fail(f, EX_DATAERR,
                    "%s and %s explain different data, so their evidence cannot be compared: one has %s, the other "
                    "%s%s: fit both to the same rows of the same response%s",
                    name_a, name_b, first, second,
                    strcmp(first, second) ? "" : ", but other ones, or with other weights or trials",
                    number_at(x, "dropped") != number_at(y, "dropped") && same_text(x, y, "sha256")
                        ? ", from a file without the rows that have missing values"
                        : "");
    if (json_is_true(json_object_get(x, "discrete")) != json_is_true(json_object_get(y, "discrete")))
        return fail(f, EX_DATAERR,
                    "%s and %s cannot be compared: the evidence of one is the density of numbers, that of the other "
                    "the probability of labels or counts",
                    name_a, name_b);
    return 0;
}

static int check_data_of(wvgd_comparison *c, json_t *const *run, failure *f)
{
    size_t unknown = 0;
    for (size_t i = 1; i < c->n; i++)
        if (check_pair(run[0], run[i], c->name[0], c->name[i], &unknown, f))
            return f->code;
    if (unknown && add_note(c, "wvgd cannot see whether all runs explain the same data: the comparison is right only "
                               "if they do"))
        return no_memory(f);
    return 0;
}

/* ---- priors ------------------------------------------------------------------------------------------------------ */
/* Adds a name to a list of names, unless it would become too long. */
static void list_name(char *list, size_t size, const char *name)
{
    size_t at = strlen(list);
    if (at + strlen(name) + sizeof ", ..." < size)
        snprintf(list + at, size - at, "%s%s", at ? ", " : "", name);
    else if (at < 3 || strcmp(list + at - 3, "..."))
        snprintf(list + at, size - at, ", ...");
}

/* Is a prior the same? bare: one of the models has no columns, which could be centred or standardized. */
static bool same_prior(const char *x, const char *y, bool bare)
{
    size_t m = strlen(x), n = strlen(y);
    const char *rest = m < n ? y + m : x + n;
    return !strncmp(x, y, m < n ? m : n) &&
           (!*rest || (bare && (!strcmp(rest, centred_columns) || !strcmp(rest, standardized_columns))));
}

/* Parameters that both runs have, with different priors. */
static void list_different(const json_t *first, const json_t *second, char *list, size_t size)
{
    const json_t *a = json_object_get(first, "priors"), *b = json_object_get(second, "priors");
    bool bare = number_at(json_object_get(first, "model"), "features") == 0 ||
                number_at(json_object_get(second, "model"), "features") == 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, name, value) {
        const char *x = json_string_value(value), *y = text_at(b, name);
        if (x && y && !same_prior(x, y, bare))
            list_name(list, size, name);
    }
}

/* Says how the priors of runs i and k differ, if they do. Returns whether, or -1. */
static int note_pair(wvgd_comparison *c, json_t *const *run, size_t i, size_t k)
{
    const json_t *a = json_object_get(run[k], "priors"), *b = json_object_get(run[i], "priors");
    const char *x = text_at(json_object_get(run[k], "model"), "prior"),
               *y = text_at(json_object_get(run[i], "model"), "prior");
    char list[300] = "";
    if (a && b)
        list_different(run[k], run[i], list, sizeof list);
    if (*list)
        return add_note(c, "the priors of %s and %s differ: %s", c->name[k], c->name[i], list) ? -1 : 1;
    if (!(a && b) && x && y && strcmp(x, y))
        return add_note(c, "the priors of %s and %s differ: %s; %s", c->name[k], c->name[i], x, y) ? -1 : 1;
    return 0;
}

/* Does a warning of the run say that its prior cannot have made the data? */
static bool has_conflict(const json_t *run)
{
    const json_t *warnings = json_object_get(json_object_get(run, "diagnostics"), "warnings");
    for (size_t i = 0; i < json_array_size(warnings); i++) {
        const char *text = json_string_value(json_array_get(warnings, i));
        if (text && !strncmp(text, PRIOR_CONFLICT, strlen(PRIOR_CONFLICT)))
            return true;
    }
    return false;
}

/* Names runs whose priors contradict their data; then compares the priors of each run with those of the runs before it,
 * up to the first difference. */
static int note_priors(wvgd_comparison *c, json_t *const *run)
{
    for (size_t i = 0; i < c->n; i++)
        if (has_conflict(run[i]) &&
            add_note(c, "the prior of %s contradicts its data, which lowers its evidence: wvgd summary %s says how",
                     c->name[i], c->name[i]))
            return -1;
    for (size_t i = 1; i < c->n; i++) {
        int noted = 0;
        for (size_t k = 0; k < i && !noted; k++)
            noted = note_pair(c, run, i, k);
        if (noted < 0)
            return -1;
    }
    return 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static int read_row(const json_t *run, const char *name, wvgd_compared *row, failure *f)
{
    const json_t *pooled = json_object_get(json_object_get(run, "repeat"), "evidence"),
                 *single = json_object_get(json_object_get(run, "evidence"), "importance"),
                 *e = isfinite(number_at(pooled, "value")) ? pooled : single;
    const char *method = text_at(run, "method");
    *row = (wvgd_compared){.run = name,
                           .log_evidence = number_at(e, "value"),
                           .se = number_at(e, "se"),
                           .reliable = is_reliable(run)};
    if (isfinite(row->log_evidence))
        return 0;
    return fail(f, EX_DATAERR, "%s has no estimate of the evidence%s: expected a run of wvgd fit", name,
                method && !strcmp(method, "svgd") ? ", because SVGD gives none" : "");
}

static int by_evidence(const void *a, const void *b)
{
    double x = ((const wvgd_compared *)a)->log_evidence, y = ((const wvgd_compared *)b)->log_evidence;
    return (x < y) - (x > y);
}

static void weigh(wvgd_comparison *c)
{
    double sum = 0;
    qsort(c->row, c->n, sizeof *c->row, by_evidence);
    for (size_t i = 0; i < c->n; i++) {
        wvgd_compared *r = &c->row[i];
        r->difference = r->log_evidence - c->row[0].log_evidence;
        r->difference_se = i ? hypot(r->se, c->row[0].se) : 0;
        sum += r->bayes_factor = exp(r->difference);
    }
    for (size_t i = 0; i < c->n; i++)
        c->row[i].probability = c->row[i].bayes_factor / sum;
}

static int note_rows(wvgd_comparison *c)
{
    const wvgd_compared *second = &c->row[1];
    int failed = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!c->row[i].reliable)
            failed |= add_note(c, "%s is unreliable, so its rank here may be wrong: wvgd summary %s gives the reasons",
                               c->row[i].run, c->row[i].run);
    if (second->difference == 0 && second->se == c->row[0].se)
        failed |= add_note(c,
                           "%s and %s have the same log evidence: they are the same fit or cells of it, or the model "
                           "does not use what differs between them",
                           c->row[0].run, second->run);
    else if (second->difference_se > 0 && -second->difference < 2 * second->difference_se)
        failed |= add_note(c,
                           "the log evidence of %s and %s differs by less than two standard errors: to tell them "
                           "apart, fit both with a smaller --evidence-se",
                           c->row[0].run, second->run);
    return failed;
}

static int compare(wvgd_comparison *c, json_t *const *run, failure *f)
{
    for (size_t i = 0; i < c->n; i++)
        if (read_row(run[i], c->name[i], &c->row[i], f))
            return f->code;
    if (check_data_of(c, run, f))
        return f->code;
    weigh(c);
    return note_priors(c, run) || note_rows(c) ? no_memory(f) : 0;
}

void wvgd_comparison_free(wvgd_comparison *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->name && i < c->n; i++)
        free(c->name[i]);
    for (size_t i = 0; i < c->notes; i++)
        free(c->note[i]);
    free(c->name);
    free(c->note);
    free(c->row);
    free(c->text);
    free(c);
}

/* A comparison of n runs without their names. */
static wvgd_comparison *new_comparison(size_t n)
{
    wvgd_comparison *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->n = n;
    c->row = calloc(n, sizeof *c->row);
    c->name = calloc(n, sizeof *c->name);
    if (c->row && c->name)
        return c;
    wvgd_comparison_free(c);
    return NULL;
}

/* Takes what it needs of run[n], each called name[n]. NULL with *f filled on failure. */
static wvgd_comparison *compare_runs(size_t n, json_t *const *run, const char *const *name, failure *f)
{
    wvgd_comparison *c = new_comparison(n);
    int code = c ? 0 : no_memory(f);
    for (size_t i = 0; i < n && !code; i++)
        if (!(c->name[i] = strdup(name[i])))
            code = no_memory(f);
    if (!code)
        code = compare(c, run, f);
    if (!code)
        return c;
    wvgd_comparison_free(c);
    return NULL;
}

/* ---- for callers ------------------------------------------------------------------------------------------------- */
/* The objects of n runs; *all is to be freed, whatever happens. */
typedef struct {
    size_t n;
    json_t **run;
} run_list;

static void free_runs(run_list *all)
{
    for (size_t i = 0; all->run && i < all->n; i++)
        json_decref(all->run[i]);
    free(all->run);
}

static int take_room(size_t n, run_list *all, failure *f)
{
    *all = (run_list){n, calloc(n + 1, sizeof(json_t *))};
    if (!all->run)
        return no_memory(f);
    return n < 2 ? fail(f, EX_USAGE, "compare: found %zu run%s, expected at least two", n, n == 1 ? "" : "s") : 0;
}

static int read_runs(size_t n, const char *const *dir, run_list *all, failure *f)
{
    if (take_room(n, all, f))
        return f->code;
    for (size_t i = 0; i < n; i++)
        if (read_run(dir[i], &all->run[i], f))
            return f->code;
    return 0;
}

static int take_runs(size_t n, wvgd_session *const *session, run_list *all, failure *f)
{
    if (take_room(n, all, f))
        return f->code;
    for (size_t i = 0; i < n; i++) {
        if (session[i] && describe_session(session[i], f))
            return f->code;
        if (!session[i] || !session[i]->run)
            return fail(f, EX_USAGE, "wvgd_compare_sessions: session %zu has not run: expected wvgd_session_run first",
                        i + 1);
        all->run[i] = json_incref(session[i]->run);
    }
    return 0;
}

/* What has been read, compared. */
static wvgd_comparison *conclude(int code, run_list *all, const char *const *name, failure *f, wvgd_error *error)
{
    wvgd_comparison *c = code ? NULL : compare_runs(all->n, all->run, name, f);
    free_runs(all);
    if (!c)
        pass_failure(error, f);
    return c;
}

wvgd_comparison *wvgd_compare(size_t n, const char *const *dir, wvgd_error *error)
{
    failure f;
    run_list all;
    if (lacks(error, "wvgd_compare", "dir", dir))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (lacks(error, "wvgd_compare", "dir[]", dir[i]))
            return NULL;
    locale_t before = use_plain_numbers();
    wvgd_comparison *c = conclude(read_runs(n, dir, &all, &f), &all, dir, &f, error);
    uselocale(before);
    return c;
}

wvgd_comparison *wvgd_compare_sessions(size_t n, wvgd_session *const *session, const char *const *name,
                                       wvgd_error *error)
{
    static const char function[] = "wvgd_compare_sessions";
    failure f;
    run_list all;
    if (lacks(error, function, "session", session) || lacks(error, function, "name", name))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (lacks(error, function, "name[]", name[i]))
            return NULL;
    locale_t before = use_plain_numbers();
    wvgd_comparison *c = conclude(take_runs(n, session, &all, &f), &all, name, &f, error);
    uselocale(before);
    return c;
}

const wvgd_compared *wvgd_comparison_rows(const wvgd_comparison *c, size_t *n)
{
    if (n)
        *n = c ? c->n : 0;
    return c ? c->row : NULL;
}

const char *const *wvgd_comparison_notes(const wvgd_comparison *c, size_t *n)
{
    if (n)
        *n = c ? c->notes : 0;
    return c ? (const char *const *)c->note : NULL;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */
static char *rows_json(const wvgd_comparison *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const wvgd_compared *r = &c->row[i];
        json_array_append_new(list,
                              json_pack("{so so so so so so so sb}", "run", json_text(r->run), "log_evidence",
                                        json_number(r->log_evidence), "se", json_number(r->se), "difference",
                                        json_number(r->difference), "difference_se", json_number(r->difference_se),
                                        "bayes_factor", json_number(r->bayes_factor), "probability",
                                        json_number(r->probability), "reliable", r->reliable));
    }
    char *text = json_array_size(list) == c->n ? dump_json(list, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(list);
    return text;
}

static void put_row(FILE *s, const wvgd_compared *r, int width)
{
    fprintf(s, "%*s", width - put_cut(s, r->run, width), "");
    fprintf(s, " %13.4f %9.2g %12.4f %13.2g %12.3g %11.4f  %s\n", r->log_evidence, r->se, r->difference,
            r->difference_se, r->bayes_factor, r->probability, r->reliable ? "yes" : "no");
}

static char *rows_text(const wvgd_comparison *c)
{
    enum { NAME = 18 };
    char *text = NULL;
    size_t size, width = 3;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    for (size_t i = 0; i < c->n; i++)
        width = strlen(c->row[i].run) > width ? strlen(c->row[i].run) : width;
    if (width > NAME)
        width = NAME;
    fprintf(s, "%-*s %13s %9s %12s %13s %12s %11s  %s\n", (int)width, "run", "log_evidence", "se", "difference",
            "difference_se", "bayes_factor", "probability", "reliable");
    for (size_t i = 0; i < c->n; i++)
        put_row(s, &c->row[i], (int)width);
    if (!fclose(s))
        return text;
    free(text);
    return NULL;
}

wvgd_status wvgd_comparison_text(wvgd_comparison *c, bool json, const char **text, wvgd_error *error)
{
    static const char function[] = "wvgd_comparison_text";
    failure f;
    if (lacks(error, function, "comparison", c) || lacks(error, function, "text", text))
        return WVGD_E_ARGUMENT;
    locale_t before = use_plain_numbers();
    char *made = json ? rows_json(c) : rows_text(c);
    uselocale(before);
    if (!made) {
        no_memory(&f);
        return pass_failure(error, &f);
    }
    free(c->text);
    *text = c->text = made;
    return WVGD_OK;
}
