/* repeat.c - R independent fits. Their evidence is pooled by precision,
 *     log Z = sum_k log Z_k / se_k^2 / sum_k 1 / se_k^2,
 * over those that are reliable. A fit that has missed a mode has less evidence, not more: where fits differ by more
 * than their errors nothing can make up for the difference, and the verdict names the seed that has found most. */
#include "repeat.h"
#include "json_bytes.h"
#include "run_json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* Standard errors between two estimates, and how large a difference matters: in nats, and in sds. */
static const double most_errors = 4, least_nats = 0.05, least_sds = 0.1;

/* ---- fits -------------------------------------------------------------------------------------------------------- */
/* The callback of the caller, and whether it has asked to stop. */
typedef struct {
    wvgd_progress_callback *callback;
    void *self;
    bool stopped;
} watcher;

static int watch(void *self, const wvgd_progress *p)
{
    watcher *w = self;
    w->stopped = w->stopped || (w->callback && w->callback(w->self, p));
    return w->stopped;
}

int run_repeated(repeated_fits *r, size_t count, const wvgd_model *model, const wvgd_options *options, uint64_t seed,
                 const double *start, wvgd_progress_callback *callback, void *self, failure *f)
{
    watcher w = {callback, self, false};
    wvgd_error error;
    r->each = calloc(count + 1, sizeof *r->each);
    r->seed = options->seed;
    if (!r->each)
        return fail(f, EX_SOFTWARE, "no memory for %zu fits", count);
    for (size_t k = 0; k < count && !w.stopped; k++) {
        wvgd_options o = *options;
        o.seed = seed++;
        if (o.seed == options->seed)
            o.seed = seed++;
        wvgd_fit *fit = wvgd_new(model, &o, start, &error);
        if (!fit)
            return fail(f, EX_SOFTWARE, "%s", error.text);
        wvgd_status status = wvgd_run(fit, watch, &w, &error);
        if (status != WVGD_OK || w.stopped) {
            wvgd_free(fit);
            fit = NULL;
        }
        if (!w.stopped)
            r->each[r->n++] = (repeated_fit){o.seed, fit};
    }
    return 0;
}

void free_repeated(repeated_fits *r)
{
    for (size_t k = 0; k < r->n; k++)
        wvgd_free(r->each[k].fit);
    free(r->each);
    *r = (repeated_fits){0};
}

/* Results of the first fit, k = 0, or of one that was repeated; false: it has failed. */
static bool results_of(const repeated_fits *r, const wvgd_fit *first, size_t k, wvgd_results *to)
{
    const wvgd_fit *fit = k ? r->each[k - 1].fit : first;
    wvgd_get_results(fit, to);
    return fit != NULL;
}

static uint64_t seed_of(const repeated_fits *r, size_t k)
{
    return k ? r->each[k - 1].seed : r->seed;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */
typedef struct {
    size_t fits, failed, unreliable; /* all, and of these */
    size_t low, high;                /* with the least and the most evidence */
    bool evidence_differs;
    size_t parameter; /* whose mean differs most, */
    double sds;       /* by so many sds; 0: none does */
    size_t modes_least, modes_most;
    wvgd_estimate pooled;
} comparison;

/* By how many sds the means of a parameter differ between two fits; 0: no more than their errors. */
static double mean_difference(const wvgd_results *a, const wvgd_results *b, size_t i)
{
    double apart = fabs(a->mean[i] - b->mean[i]), sds = apart / sqrt(fmax(a->var[i], b->var[i]));
    return apart > most_errors * hypot(a->mcse[i], b->mcse[i]) && sds > least_sds ? sds : 0;
}

static void compare_means(const wvgd_results *a, const wvgd_results *b, comparison *c)
{
    for (size_t i = 0; i < a->D; i++) {
        double sds = mean_difference(a, b, i);
        c->parameter = sds > c->sds ? i : c->parameter;
        c->sds = fmax(c->sds, sds);
    }
}

/* Fit k beside those before it. */
static void compare_fit(const repeated_fits *r, const wvgd_fit *first, size_t k, comparison *c)
{
    wvgd_results a, b;
    if (!results_of(r, first, k, &a)) {
        c->failed++;
        return;
    }
    c->unreliable += !a.reliable;
    c->modes_least = a.modes < c->modes_least ? a.modes : c->modes_least;
    c->modes_most = a.modes > c->modes_most ? a.modes : c->modes_most;
    if (results_of(r, first, c->low, &b) && a.evidence.value < b.evidence.value)
        c->low = k;
    if (results_of(r, first, c->high, &b) && a.evidence.value > b.evidence.value)
        c->high = k;
    for (size_t l = 0; l < k; l++) {
        if (!results_of(r, first, l, &b))
            continue;
        double apart = fabs(a.evidence.value - b.evidence.value);
        c->evidence_differs = c->evidence_differs ||
                              !(apart <= fmax(most_errors * hypot(a.evidence.se, b.evidence.se), least_nats));
        compare_means(&a, &b, c);
    }
}

bool is_pooled(const repeated_fits *r, const wvgd_fit *first, size_t k)
{
    wvgd_results a, b;
    if (!results_of(r, first, k, &a) || !a.reliable)
        return false;
    for (size_t l = 0; l <= r->n; l++)
        if (results_of(r, first, l, &b) && b.reliable &&
            b.evidence.value - a.evidence.value > fmax(most_errors * hypot(a.evidence.se, b.evidence.se), least_nats))
            return false;
    return true;
}

void prefer_pooled(repeated_fits *r, wvgd_fit **first)
{
    for (size_t k = 1; k <= r->n && !is_pooled(r, *first, 0); k++)
        if (is_pooled(r, *first, k)) {
            repeated_fit other = r->each[k - 1];
            r->each[k - 1] = (repeated_fit){r->seed, *first};
            r->seed = other.seed;
            *first = other.fit;
        }
}

static wvgd_estimate pool(const repeated_fits *r, const wvgd_fit *first)
{
    double sum = 0, precision = 0;
    for (size_t k = 0; k <= r->n; k++) {
        wvgd_results a;
        if (!is_pooled(r, first, k) || !results_of(r, first, k, &a))
            continue;
        double here = 1 / (a.evidence.se * a.evidence.se);
        sum += here * a.evidence.value;
        precision += here;
    }
    return (wvgd_estimate){sum / precision, sqrt(1 / precision)};
}

static comparison compare(const repeated_fits *r, const wvgd_fit *first)
{
    wvgd_results a;
    results_of(r, first, 0, &a);
    comparison c = {.fits = r->n + 1, .modes_least = a.modes, .modes_most = a.modes};
    for (size_t k = 0; k <= r->n; k++)
        compare_fit(r, first, k, &c);
    c.pooled = pool(r, first);
    return c;
}

/* ---- in run.json ------------------------------------------------------------------------------------------------- */
static json_t *fit_object(const repeated_fits *r, const wvgd_fit *first, size_t k)
{
    json_t *o = json_object();
    wvgd_results a;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed_of(r, k));
    json_object_set_new(o, "seed", json_string(text));
    bool ended = results_of(r, first, k, &a);
    json_object_set_new(o, "log_evidence", ended ? json_number(a.evidence.value) : json_null());
    json_object_set_new(o, "se", ended ? json_number(a.evidence.se) : json_null());
    json_object_set_new(o, "reliable", json_boolean(ended && a.reliable));
    json_object_set_new(o, "modes", ended ? json_integer((json_int_t)a.modes) : json_null());
    json_object_set_new(o, "evaluations", ended ? json_integer((json_int_t)a.evaluations) : json_null());
    json_object_set_new(o, "pooled", json_boolean(is_pooled(r, first, k)));
    return o;
}

static void add_reason(json_t *run, const char *text)
{
    json_t *verdict = json_object_get(run, "verdict"), *reasons = json_object_get(verdict, "reasons");
    if (json_is_true(json_object_get(verdict, "reliable")))
        json_array_clear(reasons); /* what spoke for it */
    json_object_set_new(verdict, "reliable", json_false());
    json_array_append_new(reasons, json_text(text));
}

static void add_warning(json_t *run, const char *text)
{
    json_array_append_new(json_object_get(json_object_get(run, "diagnostics"), "warnings"), json_text(text));
}

static size_t most_starts(const repeated_fits *r, const wvgd_fit *first)
{
    wvgd_results a;
    size_t most = 0;
    for (size_t k = 0; k <= r->n; k++)
        most = results_of(r, first, k, &a) && a.starts > most ? a.starts : most;
    return most;
}

/* What the fits say of each other. */
static void judge(const repeated_fits *r, const wvgd_fit *first, const comparison *c, json_t *run)
{
    wvgd_results low, high;
    char line[400];
    const json_t *names = json_object_get(json_object_get(run, "model"), "names");
    const char *name = json_string_value(json_array_get(names, c->parameter));
    if (c->evidence_differs && results_of(r, first, c->low, &low) && results_of(r, first, c->high, &high)) {
        snprintf(line, sizeof line,
                 "the log evidence of %zu fits lies between %.6g (seed %llu) and %.6g (seed %llu), farther apart than "
                 "their errors allow: a fit that misses a mode has less; set --starts to %zu or more",
                 c->fits, low.evidence.value, (unsigned long long)seed_of(r, c->low), high.evidence.value,
                 (unsigned long long)seed_of(r, c->high), 2 * most_starts(r, first));
        add_reason(run, line);
    }
    if (c->sds > 0) {
        snprintf(line, sizeof line,
                 "the mean of %.48s differs between fits by %.2g sd, more than its errors allow: set --starts to %zu "
                 "or more, or "
                 "lower --evidence-se",
                 name ? name : "a parameter", c->sds, 2 * most_starts(r, first));
        add_reason(run, line);
    }
    if (c->failed || 2 * c->unreliable > c->fits) {
        snprintf(line, sizeof line,
                 "of %zu fits %zu failed and %zu are unreliable: look at them one by one, by their seeds", c->fits,
                 c->failed, c->unreliable);
        add_reason(run, line);
    } else if (c->unreliable) {
        snprintf(line, sizeof line, "%zu of %zu fits are unreliable, and are left out of the pooled evidence and draws",
                 c->unreliable, c->fits);
        add_warning(run, line);
    }
    if (c->modes_least < c->modes_most && !c->evidence_differs) {
        snprintf(line, sizeof line,
                 "the fits found from %zu to %zu modes, but the same evidence: modes that some have missed have little "
                 "mass",
                 c->modes_least, c->modes_most);
        add_warning(run, line);
    }
}

void describe_repeated(const repeated_fits *r, size_t asked, const wvgd_fit *first, json_t *run)
{
    comparison c = compare(r, first);
    json_t *o = json_object(), *fits = json_array(), *evidence = json_object();
    char line[200];
    for (size_t k = 0; k <= r->n; k++)
        json_array_append_new(fits, fit_object(r, first, k));
    json_object_set_new(evidence, "value", json_number(c.pooled.value));
    json_object_set_new(evidence, "se", json_number(c.pooled.se));
    json_object_set_new(o, "asked", json_integer((json_int_t)asked));
    json_object_set_new(o, "fits", fits);
    json_object_set_new(o, "evidence", evidence);
    json_object_set_new(o, "agree", json_boolean(!c.evidence_differs && !(c.sds > 0) && !c.failed));
    json_object_set_new(run, "repeat", o);
    judge(r, first, &c, run);
    if (c.fits < asked) {
        snprintf(line, sizeof line, "only %zu of %zu fits were run: wvgd fit --resume runs the others", c.fits, asked);
        add_warning(run, line);
    }
}
