/* summary.c - a run.json, for people (100 columns) or as less JSON. Whatever the file lacks is shown as '-'. */
#include "summary.h"
#include "cut_text.h"
#include "json_bytes.h"
#include "json_values.h"
#include "text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 100, NAME_WIDTH = 26, SHORT_NAME = 17, LABEL_WIDTH = 22, FORMULA_WIDTH = 60 };

/* ---- values that may be missing ---------------------------------------------------------------------------------- */
static double item(const json_t *object, const char *key, size_t i)
{
    const json_t *v = json_array_get(json_object_get(object, key), i);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *text(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "-";
}

static void put_value(FILE *s, int width, int digits, double value)
{
    char out[40] = "-";
    if (isfinite(value))
        snprintf(out, sizeof out, "%.*g", digits, value);
    fprintf(s, " %*s", width, out);
}

/* Nothing is shown as -0.00. */
static void put_fixed(FILE *s, int width, int decimals, double value)
{
    char out[40] = "-";
    if (fabs(value) >= 1e8)
        snprintf(out, sizeof out, "%.5g", value);
    else if (isfinite(value))
        snprintf(out, sizeof out, "%.*f", decimals, value);
    const char *shown = isfinite(value) && *out == '-' && strspn(out + 1, "0.") == strlen(out + 1) ? out + 1 : out;
    fprintf(s, " %*s", width, shown);
}

/* A paragraph behind "  - ", broken at blanks. */
static void put_item(FILE *s, const char *words)
{
    size_t column = 3;
    char shown[5];
    fputs("  -", s);
    while (*words) {
        size_t length = strcspn(words, " ");
        if (column + 1 + length > WIDTH && column > 3) {
            fputs("\n   ", s);
            column = 3;
        }
        putc(' ', s);
        for (size_t i = 0; i < length; fputs(shown, s))
            i += show_character(words + i, shown);
        column += 1 + length;
        words += length + strspn(words + length, " ");
    }
    putc('\n', s);
}

/* A run of SVGD: it has particles of equal weight, and no cells, no evidence. */
static bool is_svgd(const json_t *run)
{
    return !strcmp(text(json_object_get(run, "method")), "svgd");
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */
/* A label that is the number its class stands for needs no words. */
static bool is_plain(const json_t *labels, size_t i)
{
    double value;
    return !read_number(text(json_array_get(labels, i)), &value) && value == (double)i;
}

/* Which of two labels of the target is 1. */
static void put_labels(FILE *s, const json_t *labels)
{
    if (json_array_size(labels) != 2)
        return;
    if (is_plain(labels, 0) && is_plain(labels, 1)) {
        fputs(" (0/1)", s);
        return;
    }
    fputs(" (\"", s);
    put_cut(s, text(json_array_get(labels, 0)), LABEL_WIDTH);
    fputs("\" counts as 0, \"", s);
    put_cut(s, text(json_array_get(labels, 1)), LABEL_WIDTH);
    fputs("\" as 1)", s);
}

/* Parts between "; ", on lines of at most 100 columns. */
static void put_wrapped(FILE *s, const char *text, int column)
{
    enum { INDENT = 7 };
    while (*text) {
        const char *end = strstr(text, "; ");
        int length = end ? (int)(end - text) + 1 : (int)strlen(text);
        char *part = strndup(text, (size_t)length);
        if (column > INDENT && column + 1 + length > WIDTH) {
            fprintf(s, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            putc(' ', s);
            column++;
        }
        if (part)
            put_foreign(s, part);
        free(part);
        column += length;
        text += length + (end ? 1 : 0);
    }
    putc('\n', s);
}

/* What the model was made from. */
static void put_data(FILE *s, const json_t *model, const json_t *data)
{
    double dropped = number_at(data, "dropped"), rows = number_at(model, "rows"),
           features = number_at(model, "features");
    const char *prior = json_string_value(json_object_get(model, "prior"));
    if (json_object_get(model, "target")) {
        fputs("target ", s);
        put_cut(s, text(json_object_get(model, "target")), LABEL_WIDTH);
        put_labels(s, json_object_get(model, "labels"));
        if (isfinite(rows) && isfinite(features)) {
            fprintf(s, "; %.0f row%s", rows, rows > 1 ? "s" : "");
            if (dropped > 0)
                fprintf(s, " (%.0f dropped)", dropped);
            fprintf(s, ", %.0f feature%s", features, features == 1 ? "" : "s");
            if (!json_object_get(model, "likelihood")) /* of a glm the formula says it */
                fprintf(s, ", %sstandardized", json_object_get(model, "standardized") ? "" : "not ");
        }
        putc('\n', s);
    }
    if (prior) {
        fputs("prior: ", s);
        put_wrapped(s, prior, (int)strlen("prior: "));
    }
}

static const char *stop_in_words(const char *stop)
{
    static const char *const words[][2] = {{"max_iter", "not converged"},
                                           {"time_up", "time limit reached"},
                                           {"max_evaluations", "evaluation limit reached"},
                                           {"finished", "converged, completed by chains"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(stop, words[i][0]))
            return words[i][1];
    return stop;
}

static void put_head(FILE *s, const json_t *run)
{
    const json_t *model = json_object_get(run, "model");
    put_cut(s, text(json_object_get(model, "name")), NAME_WIDTH);
    double dim = number_at(model, "dim");
    size_t cells = json_array_size(json_object_get(run, "particles"));
    const json_t *likelihood = json_object_get(model, "likelihood");
    if (likelihood) {
        fprintf(s, " (%s, ", text(likelihood));
        put_cut(s, text(json_object_get(json_object_get(model, "design"), "formula")), FORMULA_WIDTH);
        putc(')', s);
    }
    fprintf(s, ": %.0f parameter%s, %zu %s%s\n", dim, dim > 1 ? "s" : "", cells, is_svgd(run) ? "particle" : "cell",
            cells == 1 ? "" : "s");
    put_data(s, model, json_object_get(run, "data"));
    const char *stop = text(json_object_get(run, "stop"));
    double most = number_at(json_object_get(run, "options"), "max-iter"), iterations = number_at(run, "iterations");
    put_cut(s, stop_in_words(stop), 30);
    if (!strcmp(stop, "max_iter") && iterations > most) /* search and final draws are more than were asked for */
        fprintf(s, " within %.0f iteration%s (%.0f with those of the search and the final draws)", most,
                most == 1 ? "" : "s", iterations);
    else
        fprintf(s, " after %.0f iteration%s", iterations, iterations == 1 ? "" : "s");
    fprintf(s, ", %.0f evaluations, %.3g s (%.3g s in the model)\n", number_at(run, "evaluations"),
            number_at(json_object_get(run, "seconds"), "total"), number_at(json_object_get(run, "seconds"), "model"));
    if (number_at(run, "widened") > 0)
        fprintf(s, "min-batch %.0f: %.0f of these evaluations make batches wider\n",
                number_at(json_object_get(run, "options"), "min-batch"), number_at(run, "widened"));
    putc('\n', s);
}

static void put_estimate(FILE *s, const char *name, const json_t *estimate)
{
    fprintf(s, "%-14s", name);
    put_fixed(s, 12, 4, number_at(estimate, "value"));
    fputs(" +-", s);
    put_fixed(s, 7, 4, number_at(estimate, "se"));
}

/* SVGD: what stands for a density, and how still the particles are. */
static void put_density(FILE *s, const json_t *run)
{
    const json_t *d = json_object_get(run, "density");
    fputs("no log evidence: SVGD does not estimate it\nforce", s);
    put_value(s, 0, 2, number_at(json_object_get(run, "diagnostics"), "force"));
    fputs(" nats per sd; kernel density estimate: bandwidth", s);
    put_value(s, 0, 4, number_at(d, "bandwidth"));
    fputs(" (", s);
    put_cut(s, text(json_object_get(d, "chosen")), 20);
    fputs(")\n\n", s);
}

/* That of several fits. */
static void put_repeated(FILE *s, const json_t *repeat)
{
    const json_t *fits = json_object_get(repeat, "fits"), *fit;
    size_t k, pooled = 0;
    json_array_foreach(fits, k, fit)
        pooled += json_is_true(json_object_get(fit, "pooled"));
    if (!json_array_size(fits))
        return;
    put_estimate(s, "pooled", json_object_get(repeat, "evidence"));
    fprintf(s, "   %zu of %zu fits%s\n", pooled, json_array_size(fits),
            json_is_true(json_object_get(repeat, "agree")) ? ", which agree" : ", which do not agree: see the verdict");
}

static void put_evidence(FILE *s, const json_t *run)
{
    const json_t *e = json_object_get(run, "evidence"), *d = json_object_get(run, "diagnostics");
    double limit = number_at(d, "pareto_k_limit"),
           gap = number_at(json_object_get(e, "importance"), "value") - number_at(json_object_get(e, "pelbo"), "value");
    put_estimate(s, "log evidence", json_object_get(e, "importance"));
    fprintf(s, "   ESS %.0f of %.0f final draws, k-hat", number_at(d, "ess"), number_at(d, "closing_draws"));
    put_fixed(s, 0, 2, number_at(d, "pareto_k"));
    if (isfinite(limit))
        fprintf(s, " (good: below %.2g)", limit);
    putc('\n', s);
    put_repeated(s, json_object_get(run, "repeat"));
    put_estimate(s, "PELBO", json_object_get(e, "pelbo"));
    fputs(gap < 0 ? "   lower bound on the log evidence (both are estimates)\n"
                  : "   lower bound on the log evidence\n",
          s);
    put_estimate(s, "distortion", json_object_get(run, "distortion"));
    fputs("   mean cost between a posterior point and its particle\n\n", s);
}

/* Rows to show: a line that says that one is left out would take as much room as that one. */
static size_t rows_shown(size_t n, size_t most)
{
    return n <= most || n - most == 1 ? n : most;
}

static void put_more(FILE *s, size_t n, size_t most, const char *dir, const char *option)
{
    if (n > most) {
        fprintf(s, "... and %zu more: wvgd summary ", n - most);
        put_foreign(s, dir ? dir : "DIR");
        fprintf(s, "%s\n", option);
    }
    putc('\n', s);
}

/* Whether the sd of quantity i rests on a tail that is too heavy, or that of any. */
static bool is_heavy(const json_t *run, size_t i)
{
    return item(json_object_get(run, "posterior"), "tail_k", i) >
           number_at(json_object_get(run, "diagnostics"), "tail_k_limit");
}

static bool has_heavy(const json_t *run)
{
    size_t i = 0, n = json_array_size(json_object_get(json_object_get(run, "posterior"), "names"));
    while (i < n && !is_heavy(run, i))
        i++;
    return i < n;
}

/* Whether some mean is much more certain than as many independent draws would make it. */
static bool has_sharp_means(const json_t *p, size_t n)
{
    size_t i = 0;
    while (i < n && !(item(p, "mcse", i) < item(p, "sd", i) / sqrt(item(p, "ess", i)) / 2))
        i++;
    return i < n;
}

/* How uncertain sds and quantiles are at most, and what the columns leave open. */
static void put_errors(FILE *s, const json_t *run)
{
    const json_t *p = json_object_get(run, "posterior"), *q = json_object_get(p, "quantiles"), *names;
    size_t n = json_array_size(names = json_object_get(p, "names")), sd = n, quantile = n, heavy = 0;
    double sd_worst = -1, quantile_worst = -1;
    for (size_t i = 0; i < n; i++) {
        double scale = item(p, "sd", i), here = item(p, "sd_se", i) / scale;
        const json_t *se = json_array_get(json_object_get(q, "se"), i);
        heavy += is_heavy(run, i);
        if (is_heavy(run, i) || !(scale > 0))
            continue;
        if (here > sd_worst) {
            sd_worst = here;
            sd = i;
        }
        for (size_t l = 0; l < json_array_size(se); l++) {
            double error = json_number_value(json_array_get(se, l)) / scale;
            if (error > quantile_worst) {
                quantile_worst = error;
                quantile = i;
            }
        }
    }
    if (sd < n && quantile < n) {
        fprintf(s, "standard errors: sds up to %.2g %% (", 100 * sd_worst);
        put_cut(s, text(json_array_get(names, sd)), SHORT_NAME);
        fprintf(s, "), quantiles up to %.2g sd (", quantile_worst);
        put_cut(s, text(json_array_get(names, quantile)), SHORT_NAME);
        fputs(")\n", s);
    }
    if (has_sharp_means(p, n))
        fputs("MCSE: standard error of the mean, less than sd/sqrt(ESS) since control variates reduce it\n", s);
    if (heavy)
        fputs("* heavy tails: the sd, and perhaps the mean, is unreliable or does not exist; use the quantiles\n", s);
}

static void put_parameters(FILE *s, const json_t *run, size_t most, const char *dir)
{
    static const struct {
        const char *key, *title;
        int width, digits;
    } columns[] = {{"mean", "mean", 11, 4}, {"sd", "sd", 9, 3},   {"q5", "5%", 10, 4},   {"q50", "50%", 10, 4},
                   {"q95", "95%", 10, 4},   {"ess", "ESS", 6, 0}, {"mcse", "MCSE", 8, 2}};
    const json_t *p = json_object_get(run, "posterior"), *names = json_object_get(p, "names");
    size_t n = json_array_size(names), columns_n = sizeof columns / sizeof *columns;
    fprintf(s, "%-*s", NAME_WIDTH, "parameter");
    for (size_t c = 0; c < columns_n; c++)
        fprintf(s, " %*s", columns[c].width, columns[c].title);
    putc('\n', s);
    most = rows_shown(n, most);
    for (size_t i = 0; i < n && i < most; i++) {
        bool heavy = is_heavy(run, i);
        fprintf(s, "%*s", NAME_WIDTH - put_cut(s, text(json_array_get(names, i)), NAME_WIDTH), "");
        for (size_t c = 0; c < columns_n; c++)
            if (heavy && c == 2) { /* the sd, before it */
                putc('*', s);
                put_value(s, columns[c].width - 1, columns[c].digits, item(p, columns[c].key, i));
            } else if (columns[c].digits)
                put_value(s, columns[c].width, columns[c].digits, item(p, columns[c].key, i));
            else
                put_fixed(s, columns[c].width, 0, item(p, columns[c].key, i));
        putc('\n', s);
    }
    put_errors(s, run);
    put_more(s, n, most, dir, "");
}

/* A particle, and the mass of its cell. */
typedef struct {
    double mass;
    size_t number;
} heavy;

static int compare_masses(const void *a, const void *b)
{
    const heavy *x = a, *y = b;
    return x->mass != y->mass ? (x->mass < y->mass) - (x->mass > y->mass) : (x->number > y->number) ? 1 : -1;
}

/* The greatest mass first, to be freed; NULL: no memory. */
static heavy *order_by_mass(const json_t *particles)
{
    size_t n = json_array_size(particles);
    heavy *order = calloc(n, sizeof *order);
    for (size_t j = 0; order && j < n; j++) {
        double mass = number_at(json_array_get(particles, j), "beta");
        order[j] = (heavy){isfinite(mass) ? mass : -1, j};
    }
    if (order)
        qsort(order, n, sizeof *order, compare_masses);
    return order;
}

/* If not all are shown, those of the greatest mass are. */
static void put_particles(FILE *s, const json_t *run, size_t most, const char *dir)
{
    const json_t *particles = json_object_get(run, "particles");
    size_t n = json_array_size(particles);
    fprintf(s, "%-8s %8s %7s %8s %12s %8s %6s %8s %6s %7s %6s\n", "particle", "mass", "+-", "weight", "ELBO", "loss",
            "+-", "gain", "+-", "ESS", "k-hat");
    most = rows_shown(n, most);
    heavy *order = n > most ? order_by_mass(particles) : NULL;
    for (size_t k = 0; k < n && k < most; k++) {
        size_t j = order ? order[k].number : k;
        const json_t *p = json_array_get(particles, j);
        fprintf(s, "%-8zu", j + 1);
        put_fixed(s, 8, 5, number_at(p, "beta"));
        put_fixed(s, 7, 5, number_at(p, "beta_se"));
        put_fixed(s, 8, 5, number_at(p, "weight"));
        put_fixed(s, 12, 4, number_at(p, "elbo"));
        put_fixed(s, 8, 3, number_at(p, "loss"));
        put_fixed(s, 6, 3, number_at(p, "loss_se"));
        put_fixed(s, 8, 3, number_at(p, "gain"));
        put_fixed(s, 6, 3, number_at(p, "gain_se"));
        put_fixed(s, 7, 0, number_at(p, "ess"));
        put_fixed(s, 6, 2, number_at(p, "pareto_k"));
        putc('\n', s);
    }
    fputs("mass: of the cell; weight: of its Gaussian in the ensemble; loss: nats by which this Gaussian falls\n"
          "short of the posterior in its cell; gain: those that a better one would win; +-: standard errors\n",
          s);
    put_more(s, n, most, dir, " --all shows all of them");
    free(order);
}

/* By how many of their sds the means of quantity c differ among the modes, at most. */
static double separation(const json_t *each, size_t c)
{
    double least = INFINITY, most = -INFINITY, sd = 0;
    const json_t *m;
    size_t k;
    json_array_foreach(each, k, m) {
        least = fmin(least, item(m, "mean", c));
        most = fmax(most, item(m, "mean", c));
        sd = fmax(sd, item(m, "sd", c));
    }
    return sd > 0 ? (most - least) / sd : 0;
}

/* The quantities that tell modes apart, those with means more than half an sd apart, the clearest first:
 * chosen[most] of n; returns how many. */
static size_t choose_telling(const json_t *each, size_t n, size_t most, size_t *chosen)
{
    size_t count = 0;
    for (size_t c = 0; c < n; c++) {
        if (!(separation(each, c) > 0.5))
            continue;
        size_t at = count < most ? count++ : most;
        for (; at > 0 && separation(each, chosen[at - 1]) < separation(each, c); at--)
            if (at < most)
                chosen[at] = chosen[at - 1];
        if (at < most)
            chosen[at] = c;
    }
    return count;
}

/* Of modes, the heaviest first: how many have a mass that the table can show. */
static size_t count_weighty(const json_t *each)
{
    size_t n = 0;
    while (n < json_array_size(each) && !(number_at(json_array_get(each, n), "mass") < 5e-6))
        n++;
    return n;
}

/* Modes, if there are several: masses, particles, and the means in each of what tells them apart. */
static void put_modes(FILE *s, const json_t *run, size_t most, const char *dir)
{
    enum { TELLING = 4, LIST = 20 }; /* lines of 100 columns */
    const json_t *each = json_object_get(json_object_get(run, "modes"), "each"),
                 *names = json_object_get(json_object_get(run, "posterior"), "names");
    size_t n = count_weighty(each), others = json_array_size(each) - n, chosen[TELLING],
           columns = n < 2 ? 0 : choose_telling(each, json_array_size(names), TELLING, chosen);
    if (n < 2)
        return;
    fprintf(s, "%-9s %9s %9s   %-*s", "mode", "mass", "+-", LIST, "particles");
    for (size_t k = 0; k < columns; k++) {
        const char *name = text(json_array_get(names, chosen[k]));
        size_t length = strlen(name);
        fprintf(s, " %*s", length < 11 ? (int)(11 - length) : 0, "");
        put_cut(s, name, 11);
    }
    putc('\n', s);
    most = rows_shown(n, most);
    for (size_t m = 0; m < n && m < most; m++) {
        const json_t *mode = json_array_get(each, m), *particles = json_object_get(mode, "particles");
        char list[LIST + 1] = "-";
        size_t used = 0;
        fprintf(s, "%-9zu", m + 1);
        put_fixed(s, 9, 5, number_at(mode, "mass"));
        put_fixed(s, 9, 5, number_at(mode, "mass_se"));
        for (size_t j = 0; j < json_array_size(particles) && used < LIST; j++) {
            bool last = j + 1 == json_array_size(particles);
            int here = snprintf(list + used, sizeof list - used, "%s%lld", j ? ", " : "",
                                (long long)json_integer_value(json_array_get(particles, j)));
            if (used + (size_t)here + (last ? 0 : 5) > LIST) { /* no room for ", ..." behind it */
                snprintf(list + used, sizeof list - used, "%s", j ? ", ..." : "...");
                break;
            }
            used += (size_t)here;
        }
        fprintf(s, "   %-*s", LIST, list);
        for (size_t k = 0; k < columns; k++)
            put_value(s, 11, 4, item(mode, "mean", chosen[k]));
        putc('\n', s);
    }
    fputs("particles: those that lie in the mode; cells reach into other modes, so masses need not add up\n", s);
    if (others)
        fprintf(s, "%zu other%s that the search found: hardly any mass\n", others, others > 1 ? "s" : "");
    put_more(s, n, most, dir, "");
}

static void put_items(FILE *s, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        put_item(s, text(json_array_get(list, i)));
}

bool is_reliable(const json_t *run)
{
    return json_is_true(json_object_get(json_object_get(run, "verdict"), "reliable"));
}

static void put_verdict(FILE *s, const json_t *run)
{
    const json_t *v = json_object_get(run, "verdict"),
                 *warnings = json_object_get(json_object_get(run, "diagnostics"), "warnings");
    fprintf(s, "Verdict: %s%s%s\n", is_reliable(run) ? "no problems detected" : "unreliable",
            is_reliable(run) && has_heavy(run) ? ", except for what is marked *" : "",
            is_reliable(run) && json_array_size(warnings) ? " in the computation; see the warnings below" : "");
    put_items(s, json_object_get(v, "reasons"));
    if (json_array_size(warnings)) {
        fputs("Warnings:\n", s);
        put_items(s, warnings);
    }
}

void put_summary(FILE *stream, const json_t *run, size_t most, size_t particles, const char *dir)
{
    put_head(stream, run);
    if (is_svgd(run))
        put_density(stream, run);
    else
        put_evidence(stream, run);
    put_parameters(stream, run, most, dir);
    if (!is_svgd(run)) {
        put_modes(stream, run, most, dir);
        put_particles(stream, run, particles, dir);
    }
    put_verdict(stream, run);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */
/* JSON text, which has escapes for some control characters only, with escapes for all. */
static void put_json_text(FILE *s, const char *json)
{
    bool plain;
    for (size_t length; *json; json += length) {
        length = read_character(json, &plain);
        if (plain || *json == '\n')
            fwrite(json, 1, length, s);
        else if (length < 3) /* U+007F to U+009F: the last byte is the number */
            fprintf(s, "\\u00%02X", (unsigned char)json[length - 1]);
        else /* U+2028 to U+202E, U+2066 to U+2069 */
            fprintf(s, "\\u20%02X", (((unsigned char)json[1] & 3) << 6) | ((unsigned char)json[2] & 63));
    }
}

/* The parts of run.json that a summary has. */
static json_t *choose_parts(const json_t *run)
{
    static const char *const keys[] = {"model",  "stop",       "iterations",  "evaluations", "seconds", "evidence",
                                       "repeat", "distortion", "diagnostics", "verdict",     "modes",   "posterior"};
    static const char *const columns[] = {"z",   "beta",     "beta_se", "weight",  "elbo", "elbo_se",
                                          "ess", "pareto_k", "gain",    "gain_se", "loss", "loss_se"};
    json_t *out = json_object(), *particles = json_array(), *p;
    size_t j;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (json_object_get(run, keys[k]))
            json_object_set(out, keys[k], json_object_get(run, keys[k]));
    json_array_foreach(json_object_get(run, "particles"), j, p) {
        json_t *row = json_object();
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
            if (json_object_get(p, columns[k]))
                json_object_set(row, columns[k], json_object_get(p, columns[k]));
        json_array_append_new(particles, row);
    }
    json_object_set_new(out, "particles", particles);
    return out;
}

int put_summary_json(FILE *stream, const json_t *run)
{
    json_t *out = choose_parts(run);
    char *dump = dump_json(out, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(out);
    if (dump)
        put_json_text(stream, dump);
    free(dump);
    return dump ? 0 : -1;
}
