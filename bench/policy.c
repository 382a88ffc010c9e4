/* policy.c - what each row of src/policy.def does: a small suite of fits with known truths, with one row at a time
 * halved and doubled, compared with the suite as it is.
 *     policy [--from ROW] [NAME ...]      all rows, those from ROW on, or those named; a table in Markdown
 * The engine is built once more, with a table that can be written to. Each suite runs in a process of its own: a value
 * that makes a fit crash or go on for ever is reported as such. Noise: the suite as it is with other seeds. */
#include "models.h"
#include "policy.h"
#include "support/targets.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FITS = 128, REFERENCES = 20, MOST_SECONDS = 12, SAMPLES = 64, LINE = 256 };

/* Absent where the BLAS is another one. */
__attribute__((weak)) void openblas_set_num_threads(int threads);

/* ---- targets ----------------------------------------------------------------------------------------------------- */
static int make_banana(wvgd_model *model)
{
    return target_banana(model, 2, 1, 1);
}

static int make_modes(wvgd_model *model)
{
    return target_mixture_random(model, 2, 3, 4, 5);
}

static int make_overlap(wvgd_model *model)
{
    return target_mixture_random(model, 4, 4, 1.5, 7);
}

static int make_line(wvgd_model *model)
{
    const double weight[] = {1, 2, 1}, mean[] = {-6, 0, 9}, sd[] = {1, 0.5, 2};
    return target_mixture_1d(model, 3, weight, mean, sd);
}

static int make_funnel(wvgd_model *model)
{
    return target_funnel(model, 3, 1);
}

static int make_valley(wvgd_model *model)
{
    return target_rosenbrock(model, 2);
}

static int make_gaussian(wvgd_model *model)
{
    return target_gaussian_random(model, 12, 30, 3, true);
}

static int make_wide(wvgd_model *model)
{
    return target_gaussian_random(model, 20, 100, 4, false);
}

/* ---- the suite --------------------------------------------------------------------------------------------------- */
typedef struct {
    int (*make)(wvgd_model *);
    const char *options; /* NAME=VALUE, with blanks between them */
    unsigned seeds;
} fit_row;

static const fit_row FITS[] = {
    {make_banana, "particles=4 cost=own", 2},
    {make_banana, "particles=1 family=diag", 1},
    {make_modes, "particles=5 family=diag cost=sqeuclid", 2},
    {make_modes, "particles=3 cost=callback", 1},
    {make_modes, "particles=16 evidence-se=0.04", 1},
    {make_overlap, "particles=6 family=lowrank rank=1", 2},
    {make_overlap, "particles=2 cells=soft components=3 evidence-se=0.01", 1},
    {make_line, "particles=6", 2},
    {target_skewed, "particles=3 family=lowrank rank=2 cost=l1", 1},
    {target_skewed, "particles=3 family=diag cells=soft", 1},
    {target_student, "particles=3 cost=lp power=1.5", 1},
    {make_funnel, "particles=3 cost=mahalanobis", 2},
    {make_valley, "particles=4", 1},
    {make_gaussian, "particles=3 family=diag", 1},
    {make_gaussian, "particles=60 cost=sqeuclid", 1},
    {make_wide, "particles=2 family=lowrank rank=3", 1},
    {make_modes, "solver=joint particles=2 max-iter=60 tol=0.1 cost=own", 1},
    {make_modes, "solver=joint particles=3 family=diag max-iter=40", 1},
    {make_modes, "solver=joint particles=3 family=lowrank rank=1 cells=soft cost=sqeuclid max-iter=40", 1},
    {make_banana, "solver=joint particles=3 family=diag estimator=score cost=l1 init=normal max-iter=40", 1},
    {make_modes, "solver=joint particles=3 estimator=reparam sampler=reject cost=lp max-iter=40", 1},
    {make_modes, "solver=joint particles=3 cost=callback max-iter=30", 1},
    {target_skewed, "solver=joint particles=1 max-iter=200", 1},
    {make_overlap, "solver=joint particles=40 family=diag cost=sqeuclid init=normal max-iter=8 draws=32", 1},
};
enum { ROWS = sizeof FITS / sizeof *FITS };

typedef struct {
    double evaluations, evidence, mean, bound, distortion, reliable; /* errors of evidence and mean: absolute */
    unsigned long long hash;
} outcome;

typedef struct {
    size_t n;
    bool complete;
    double seconds;
    outcome fit[MOST_FITS];
} suite;

static wvgd_model model[ROWS];

static void hash(outcome *o, size_t n, const double *value)
{
    for (size_t i = 0; value && i < n; i++) {
        unsigned long long bits;
        memcpy(&bits, &value[i], sizeof bits);
        o->hash = (o->hash ^ bits) * 1099511628211u;
        o->hash ^= o->hash >> 29;
    }
}

static void set_options(wvgd_options *o, const char *text)
{
    char copy[LINE], *rest = NULL;
    wvgd_error error;
    wvgd_options_init(o);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        if (wvgd_options_set(o, word, value, &error) != WVGD_OK)
            fprintf(stderr, "policy: %s: %s\n", text, error.text);
    }
    if (o->cost == WVGD_CALLBACK)
        o->cost_function = target_smooth_cost;
}

/* Root mean square of the errors of the means, in standard deviations. */
static double mean_error(const wvgd_model *m, const double *mean)
{
    target_truth t = target_truth_of(m);
    double sum = 0;
    if (!t.mean || !t.cov)
        return 0;
    for (size_t i = 0; i < m->dim; i++) {
        double d = mean[i] - t.mean[i];
        sum += d * d / t.cov[i * m->dim + i];
    }
    return sqrt(sum / (double)m->dim);
}

static outcome describe(const wvgd_fit *fit, const wvgd_model *m)
{
    double *z = calloc(SAMPLES, m->dim * sizeof *z);
    wvgd_results r;
    outcome o = {.evidence = NAN};
    if (!z)
        return o;
    wvgd_get_results(fit, &r);
    double sums[] = {r.evidence.value, r.evidence.se, r.pelbo.value, r.pelbo.se, r.distortion.value, r.ess, r.pareto_k};
    o = (outcome){.evaluations = (double)r.evaluations,
                  .evidence = fabs(r.evidence.value - target_truth_of(m).log_evidence),
                  .mean = mean_error(m, r.mean),
                  .bound = r.pelbo.value,
                  .distortion = log(r.distortion.value),
                  .reliable = r.reliable};
    hash(&o, sizeof sums / sizeof *sums, sums);
    hash(&o, r.N * r.D, r.z);
    hash(&o, r.N, r.elbo);
    hash(&o, r.D, r.mean);
    hash(&o, r.D, r.mcse);
    o.hash += r.reasons + 64 * r.warnings;
    if (wvgd_sample(fit, 1, SAMPLES, z, NULL, NULL) == WVGD_OK)
        hash(&o, SAMPLES * r.D, z);
    free(z);
    return o;
}

static void run_suite(suite *s, unsigned long first_seed)
{
    for (size_t i = 0; i < ROWS; i++)
        for (unsigned k = 0; k < FITS[i].seeds; k++) {
            wvgd_options o;
            set_options(&o, FITS[i].options);
            o.seed = first_seed + k;
            wvgd_fit *fit = wvgd_new(&model[i], &o, NULL, NULL);
            outcome out = {.evidence = NAN};
            if (fit && wvgd_run(fit, NULL, NULL, NULL) == WVGD_OK)
                out = describe(fit, &model[i]);
            s->fit[s->n++] = out;
            wvgd_free(fit);
        }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    s->seconds = (double)used.ru_utime.tv_sec + 1e-6 * (double)used.ru_utime.tv_usec;
    s->complete = true;
}

/* The suite in a process of its own, with the row at this address set to value; without one, as it is. */
static suite apart(double *row, double value, unsigned long first_seed)
{
    static suite s;
    int end[2];
    memset(&s, 0, sizeof s);
    fflush(stdout);
    if (pipe(end))
        return s;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {MOST_SECONDS, MOST_SECONDS};
        setrlimit(RLIMIT_CPU, &limit);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (row)
            *row = value;
        run_suite(&s, first_seed);
        const char *bytes = (const char *)&s;
        for (size_t done = 0; done < sizeof s;) {
            ssize_t wrote = write(end[1], bytes + done, sizeof s - done);
            if (wrote <= 0)
                _exit(1);
            done += (size_t)wrote;
        }
        _exit(0);
    }
    close(end[1]);
    char *bytes = (char *)&s;
    for (size_t done = 0; done < sizeof s;) {
        ssize_t got = read(end[0], bytes + done, sizeof s - done);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    close(end[0]);
    waitpid(child, NULL, 0);
    return s;
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */
enum { EVALUATIONS, EVIDENCE, MEAN, BOUND, DISTORTION, RELIABLE, FAILED, SECONDS, FIGURES };
static const char *const HEADS[] = {"evaluations, %", "error of log Z, %", "error of means, %", "bound, nats",
                                    "distortion, %",  "reliable fits",     "failed fits",       "time, %"};

typedef struct {
    bool complete, same;
    double figure[FIGURES];
} change;

static change compare(const suite *a, const suite *b)
{
    change c = {.complete = b->complete, .same = true};
    double evidence[2] = {0, 0}, mean[2] = {0, 0}, n = 0;
    if (!b->complete)
        return c;
    for (size_t i = 0; i < a->n; i++) {
        const outcome *x = &a->fit[i], *y = &b->fit[i];
        c.same = c.same && x->hash == y->hash;
        c.figure[RELIABLE] += y->reliable - x->reliable;
        c.figure[FAILED] += !isfinite(y->evidence) - !isfinite(x->evidence);
        if (!isfinite(x->evidence + y->evidence + x->bound + y->bound + x->distortion + y->distortion))
            continue;
        n++;
        c.figure[EVALUATIONS] += log(y->evaluations / x->evaluations);
        c.figure[BOUND] += y->bound - x->bound;
        c.figure[DISTORTION] += y->distortion - x->distortion;
        evidence[0] += log(x->evidence + 1e-3); /* geometric means: no fit rules the others */
        evidence[1] += log(y->evidence + 1e-3);
        mean[0] += log(x->mean + 1e-3);
        mean[1] += log(y->mean + 1e-3);
    }
    c.figure[EVALUATIONS] = 100 * expm1(c.figure[EVALUATIONS] / n);
    c.figure[EVIDENCE] = 100 * expm1((evidence[1] - evidence[0]) / n);
    c.figure[MEAN] = 100 * expm1((mean[1] - mean[0]) / n);
    c.figure[BOUND] /= n;
    c.figure[DISTORTION] = 100 * expm1(c.figure[DISTORTION] / n);
    c.figure[SECONDS] = 100 * (b->seconds / a->seconds - 1);
    return c;
}

/* Root mean squares of what other seeds change, of two sets that have nothing in common. */
static void noise(const suite *base, double sd[FIGURES])
{
    for (size_t k = 0; k < REFERENCES; k++) {
        suite other = apart(NULL, 0, 1000 * (k + 1));
        change c = compare(base, &other);
        for (size_t i = 0; i < FIGURES; i++)
            sd[i] += c.figure[i] * c.figure[i] / REFERENCES;
    }
    for (size_t i = 0; i < FIGURES; i++)
        sd[i] = sqrt(sd[i]);
}

static double smaller(double value)
{
    return value == rint(value) && value > 1 ? ceil(value / 2) : value / 2;
}

/* Twice the value; of a share above a half, half of what is missing to 1. */
static double larger(double value)
{
    return value >= 0.5 && value < 1 ? (1 + value) / 2 : 2 * value;
}

static bool beyond(const change *c, size_t i, const double *sd)
{
    return fabs(c->figure[i]) > 3 * sd[i] && fabs(c->figure[i]) > 1e-9;
}

static void print_figure(const change *c, size_t i, const double *sd)
{
    bool counts = i == RELIABLE || i == FAILED, mark = beyond(c, i, sd);
    if (!c->complete)
        printf("%s", i ? "" : "**does not end**");
    else if (!c->same)
        printf("%s%+.*f%s", mark ? "**" : "", counts ? 0 : i == BOUND ? 3 : 1, c->figure[i], mark ? "**" : "");
    else
        printf("=");
}

static void print_row(const wv_policy_row *r, const change c[2], const double *sd)
{
    const char *effect = "none";
    for (size_t k = 0; k < 2; k++) {
        if (!c[k].same && !strcmp(effect, "none"))
            effect = "noise";
        for (size_t i = 0; i < FIGURES; i++)
            if (!c[k].complete || (!c[k].same && beyond(&c[k], i, sd)))
                effect = "yes";
    }
    printf("| %s | %g | %s |", r->name, r->value, effect);
    for (size_t i = 0; i < FIGURES && strcmp(effect, "none") != 0; i++) {
        printf(" ");
        print_figure(&c[0], i, sd);
        printf(" / ");
        print_figure(&c[1], i, sd);
        printf(" |");
    }
    printf("\n");
    fflush(stdout);
}

/* The row's value in the table that the engine reads: rows are doubles in order. */
static double *value_of(size_t i)
{
    return (double *)((char *)&wv_policy + i * sizeof(double));
}

static bool asked_for(const char *name, int argc, char **argv)
{
    static bool started;
    bool any = false;
    for (int i = 1; i < argc; i++) {
        bool from = !strcmp(argv[i], "--from") && i + 1 < argc;
        started = started || (from && !strcmp(argv[i + 1], name));
        any = any || (!from && !strcmp(argv[i], name));
        i += from;
        if (from && started)
            any = true;
    }
    return argc == 1 || any;
}

int main(int argc, char **argv)
{
    double sd[FIGURES] = {0};
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    for (size_t i = 0; i < ROWS; i++)
        if (FITS[i].make(&model[i]))
            return EXIT_FAILURE;
    suite base = apart(NULL, 0, 1);
    if (!base.complete)
        return EXIT_FAILURE;
    noise(&base, sd);
    printf("%zu fits, %.2f s\n\n| row | value | effect |", base.n, base.seconds);
    for (size_t i = 0; i < FIGURES; i++)
        printf(" %s |", HEADS[i]);
    printf("\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n| *noise* | | |");
    for (size_t i = 0; i < FIGURES; i++)
        printf(" %.2g |", sd[i]);
    printf("\n");
    for (size_t i = 0; wv_policy_describe(i); i++) {
        const wv_policy_row *r = wv_policy_describe(i);
        if (!asked_for(r->name, argc, argv))
            continue;
        suite low = apart(value_of(i), smaller(r->value), 1), high = apart(value_of(i), larger(r->value), 1);
        change c[2] = {compare(&base, &low), compare(&base, &high)};
        print_row(r, c, sd);
    }
    return EXIT_SUCCESS;
}
