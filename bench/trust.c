/* trust.c - can the verdict be trusted? Fits of many kinds of targets with known evidence.
 *     trust [KIND ...] [--seeds N] [--first SEED] [--jobs J] [--particles N] [--bend auto|never] [-v]
 * KIND: part of a kind's name; all of them without. A row for each kind:
 *     right      |error of the log evidence| <= max(0.05, 3 se)
 *     lies       called reliable and not right
 *     trusted    share of the right ones that are called reliable
 *     > 3 se     share of the reliable ones whose error is beyond 3 standard errors
 *     z          rms of (estimate - truth) / se over known marginals of the reliable ones: means, sds, quantiles at
 *                5, 50 and 95 %; numbers that are exact (to a thousandth of the sd) are left out
 *     marked     share of the reliable ones' parameters that are marked as heavy-tailed: their sds do not count
 *     evals, s   means
 * Then all counted kinds together, and beside the bounds that they should keep. Kinds in brackets are not among these:
 * funnels, and what no density or gradient points to; they have rows of their own.
 * -v: a line for each fit. */
#include "trust/targets.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEANS, SDS, QUANTILES, SCORES, MOST = 30 };

/* What comes of one fit. */
typedef struct {
    size_t kind;
    unsigned long seed;
    int failed, reliable;
    double error, se, evaluations, seconds, pelbo;
    double z[SCORES];      /* sums of squares over marginals: means, sds, quantiles */
    size_t count[SCORES];  /* terms of each */
    size_t marked, params; /* parameters: with heavy tails, all */
    size_t starts, modes;
    size_t arguments, maps; /* of bent coordinates: arguments of the map that was kept, and maps fitted */
    double worst_z;         /* the largest of these, */
    char worst[80];         /* and of what */
    char reason[200];
} outcome;

typedef struct {
    size_t n, failed, right, reliable, lies, trusted, beyond, count[SCORES], marked, params;
    double z[SCORES], evaluations, seconds, worst;
    size_t
        honest_count[SCORES]; /* the same of fits whose evidence is within 3 se: a mode that was missed is one thing, */
    double honest_z[SCORES];  /* errors of numbers another */
} totals;

/* Kinds are numbered: those of trust_kinds, then the others. */
static size_t kinds(void)
{
    return trust_kind_count + trust_other_count;
}

static const trust_kind *kind_at(size_t k)
{
    return k < trust_kind_count ? trust_kinds + k : trust_others + (k - trust_kind_count);
}

static unsigned long seeds = 10, first_seed = 1, jobs = 1, particles;
static const char *bend;
static int verbose;

/* Standard errors, in sds, below which a number that is not far off is exact: what is left is rounding, and no draws
 * tell it. */
static const double exact = 1e-3;

static void score(outcome *out, int what, size_t i, double estimate, double truth, double se, double sd)
{
    static const char *const names[SCORES] = {"mean", "sd", "quantile"};
    double z = (estimate - truth) / se;
    if (!isfinite(truth) || (se < exact * sd && fabs(estimate - truth) < 10 * exact * sd))
        return;
    out->z[what] += z * z;
    out->count[what]++;
    if (!(fabs(z) > out->worst_z))
        return;
    out->worst_z = fabs(z);
    snprintf(out->worst, sizeof out->worst, "%s %zu %.5g, se %.2g, is %.5g, sd %.3g", names[what], i + 1, estimate, se,
             truth, sd);
}

/* What the fit says of the coordinates whose marginals are known. */
static bool compare(const trust_target *t, const wvgd_fit *fit, outcome *out, wvgd_error *error)
{
    wvgd_results r;
    size_t n;
    const double *x;
    double row[5][MOST], quantile[MOST * TRUST_LEVELS], se[MOST * TRUST_LEVELS];
    wvgd_description of = {row[0], row[1], row[2], row[3], row[4], quantile, se};
    wvgd_get_results(fit, &r);
    if (t->known && (t->dim > MOST || wvgd_draws(fit, &n, &x, NULL, NULL, NULL, error) != WVGD_OK ||
                     wvgd_describe(fit, t->dim, x, TRUST_LEVELS, trust_level, &of, error) != WVGD_OK))
        return false;
    for (size_t i = 0; i < t->known; i++) {
        const trust_marginal *m = t->marginal + i;
        bool marked = r.tail_k[i] > r.tail_k_limit;
        score(out, MEANS, i, r.mean[i], m->mean, r.mcse[i], m->sd);
        if (!marked)
            score(out, SDS, i, sqrt(r.var[i]), m->sd, r.sd_se[i], m->sd);
        for (size_t l = 0; l < TRUST_LEVELS; l++)
            score(out, QUANTILES, i, quantile[i * TRUST_LEVELS + l], m->quantile[l], se[i * TRUST_LEVELS + l], m->sd);
        out->marked += marked;
        out->params++;
    }
    return true;
}

static outcome fit_one(size_t kind, unsigned long seed)
{
    outcome out = {.kind = kind, .seed = seed, .failed = 1, .error = NAN, .se = NAN};
    trust_target *t = trust_make(kind_at(kind), seed);
    wvgd_options o;
    wvgd_error error = {0};
    wvgd_results r;
    wvgd_model model;
    trust_open(t, &model);
    wvgd_options_init(&o);
    o.seed = seed;
    if (particles)
        o.particles = particles;
    else
        o.most_particles = 80; /* as the program has it */
    if (bend && wvgd_options_set(&o, "bend", bend, &error))
        exit((fprintf(stderr, "%s\n", error.text), 64));
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    if (fit && wvgd_run(fit, NULL, NULL, &error) == WVGD_OK) {
        wvgd_get_results(fit, &r);
        out.reliable = r.reliable;
        out.error = r.evidence.value - t->log_z;
        out.se = r.evidence.se;
        out.pelbo = r.pelbo.value - t->log_z;
        out.evaluations = (double)r.evaluations;
        out.seconds = r.seconds;
        out.starts = r.starts;
        out.modes = r.modes;
        out.arguments = r.bend_arguments;
        out.maps = r.bend_maps;
        out.failed = !compare(t, fit, &out, &error);
        snprintf(out.reason, sizeof out.reason, "%.199s", r.reasons ? r.reason[0] : "");
    }
    if (out.failed)
        snprintf(out.reason, sizeof out.reason, "%.199s", error.text);
    wvgd_free(fit);
    wvgd_model_close(&model);
    trust_free(t);
    return out;
}

static int right(const outcome *o)
{
    return !o->failed && fabs(o->error) <= fmax(0.05, 3 * o->se);
}

static void add(totals *s, const outcome *o)
{
    s->n++;
    s->failed += (size_t)o->failed;
    if (o->failed)
        return;
    s->right += (size_t)right(o);
    s->reliable += (size_t)o->reliable;
    s->lies += o->reliable && !right(o);
    s->trusted += o->reliable && right(o);
    s->beyond += o->reliable && fabs(o->error) > 3 * o->se;
    s->evaluations += o->evaluations;
    s->seconds += o->seconds;
    if (!o->reliable)
        return;
    for (size_t k = 0; k < SCORES; k++) {
        bool honest = fabs(o->error) <= 3 * o->se;
        s->z[k] += o->z[k];
        s->count[k] += o->count[k];
        s->honest_z[k] += honest ? o->z[k] : 0;
        s->honest_count[k] += honest ? o->count[k] : 0;
    }
    s->marked += o->marked;
    s->params += o->params;
    s->worst = fmax(s->worst, fabs(o->error));
}

static double rms(const totals *s, int what)
{
    return sqrt(s->z[what] / (double)s->count[what]);
}

static void row(const char *name, const totals *s)
{
    double n = (double)s->n;
    printf("%-36s %5zu %6.3f %8.3f %5zu %7.3f %6.3f %7.3f ", name, s->n, (double)s->right / n, (double)s->reliable / n,
           s->lies, (double)s->trusted / (double)s->right, (double)s->beyond / (double)s->reliable, s->worst);
    for (int k = 0; k < SCORES; k++)
        printf(" %5.2f", rms(s, k));
    printf(" %6.3f %7.0f %6.2f%s\n", (double)s->marked / (double)s->params, s->evaluations / n, s->seconds / n,
           s->failed ? "  (some failed)" : "");
}

static void print_one(const outcome *o)
{
    printf("%s, seed %lu: error %.4f se %.4f pelbo %.3f, %zu modes of %zu starts, %.0f evaluations, %.2f s, bend %zu "
           "of %zu, %s%s%s\n",
           kind_at(o->kind)->name, o->seed, o->error, o->se, o->pelbo, o->modes, o->starts, o->evaluations, o->seconds,
           o->arguments, o->maps, o->reliable ? "reliable" : o->reason, right(o) ? "" : "  WRONG",
           o->reliable && !right(o) ? " LIE" : "");
    if (o->reliable && o->worst_z > 2.5)
        printf("    z %.1f: %s\n", o->worst_z, o->worst);
}

static bool asked(int argc, char **argv, const char *name)
{
    bool some = false, found = false;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--", 2)) {
            i++;
            continue;
        }
        if (argv[i][0] == '-')
            continue;
        some = true;
        found = found || strstr(name, argv[i]);
    }
    return !some || found;
}

/* The fits that are this worker's, to `to`. */
static void work(int argc, char **argv, unsigned long worker, int to)
{
    unsigned long number = 0;
    for (size_t kind = 0; kind < kinds(); kind++)
        for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++)
            if (asked(argc, argv, kind_at(kind)->name) && number++ % jobs == worker) {
                outcome o = fit_one(kind, seed);
                if (write(to, &o, sizeof o) != sizeof o)
                    exit(74);
            }
}

/* of: kinds, then classes. */
static void take_outcomes(FILE *from, totals *of)
{
    outcome o;
    while (fread(&o, sizeof o, 1, from) == 1) {
        add(of + o.kind, &o);
        add(of + kinds() + kind_at(o.kind)->class, &o);
        if (verbose)
            print_one(&o);
    }
}

static void print_table(const totals *of)
{
    static const char *const classes[TRUST_CLASSES] = {"all counted kinds", "(bent)", "(hidden)"};
    char name[80];
    printf("%-36s %5s %6s %8s %5s %7s %6s %7s  %5s %5s %5s %6s %7s %6s\n", "kind", "fits", "right", "reliable", "lies",
           "trusted", "> 3 se", "worst", "mean", "sd", "quant", "marked", "evals", "s");
    for (size_t k = 0; k < kinds(); k++)
        if (of[k].n) {
            snprintf(name, sizeof name, kind_at(k)->class == TRUST_COUNTED ? "%s" : "(%s)", kind_at(k)->name);
            row(name, of + k);
        }
    for (size_t c = 0; c < TRUST_CLASSES; c++)
        if (of[kinds() + c].n)
            row(classes[c], of + kinds() + c);
}

static void line(const char *what, double value, double least, double most)
{
    printf("%-52s %7.4f   %g .. %g%s\n", what, value, least, most,
           value >= least && value <= most ? "" : "   NOT KEPT");
}

/* What the counted kinds should keep. */
static void print_bounds(const totals *of)
{
    const totals *all = of + kinds() + TRUST_COUNTED;
    double n = (double)all->n, most = 0;
    size_t counted = 0, equal = 0;
    for (size_t k = 0; k < kinds(); k++) {
        if (kind_at(k)->class != TRUST_COUNTED || !of[k].n)
            continue;
        counted++;
        equal += of[k].n == seeds;
        most = fmax(most, (double)of[k].lies / (double)of[k].n);
    }
    printf("\n%zu fits, %zu of each of %zu kinds%s\n", all->n, (size_t)seeds, counted,
           equal == counted ? "" : " (some lost)");
    line("lies, of all fits", (double)all->lies / n, 0, 0.005);
    line("lies, of the fits of a kind, at most", most, 0, 0.02);
    line("right ones that are called reliable", (double)all->trusted / (double)all->right, 0.95, 1);
    line("errors beyond 3 se, of the reliable ones", (double)all->beyond / (double)all->reliable, 0, 0.01);
    line("z rms of means", rms(all, MEANS), 0.8, 1.25);
    line("z rms of sds", rms(all, SDS), 0.8, 1.25);
    line("z rms of quantiles", rms(all, QUANTILES), 0.8, 1.25);
    static const char *const what[SCORES] = {"means", "sds", "quantiles"};
    for (size_t k = 0; k < SCORES; k++) {
        char text[80];
        snprintf(text, sizeof text, "the same of %s, evidence within 3 se", what[k]);
        line(text, sqrt(all->honest_z[k] / (double)all->honest_count[k]), 0.8, 1.25);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        verbose = verbose || !strcmp(argv[i], "-v");
        if (!strcmp(argv[i], "--help")) {
            puts("trust [KIND ...] [--seeds N] [--first SEED] [--jobs J] [--particles N] [--bend auto|never] [-v]");
            return 0;
        }
        if (i + 1 < argc && !strcmp(argv[i], "--seeds"))
            seeds = strtoul(argv[i + 1], NULL, 10);
        if (i + 1 < argc && !strcmp(argv[i], "--first"))
            first_seed = strtoul(argv[i + 1], NULL, 10);
        if (i + 1 < argc && !strcmp(argv[i], "--jobs"))
            jobs = strtoul(argv[i + 1], NULL, 10);
        if (i + 1 < argc && !strcmp(argv[i], "--particles"))
            particles = strtoul(argv[i + 1], NULL, 10);
        if (i + 1 < argc && !strcmp(argv[i], "--bend"))
            bend = argv[i + 1];
    }
    totals *of = calloc(kinds() + TRUST_CLASSES, sizeof *of);
    int ends[2];
    if (!of || !jobs || pipe(ends))
        return 70;
    for (unsigned long w = 0; w < jobs; w++) {
        pid_t child = fork();
        if (child < 0)
            return 70;
        if (!child) {
            work(argc, argv, w, ends[1]);
            _exit(0);
        }
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "rb");
    if (!from)
        return 70;
    take_outcomes(from, of);
    while (wait(NULL) > 0)
        ;
    print_table(of);
    print_bounds(of);
    fclose(from);
    free(of);
    return 0;
}
