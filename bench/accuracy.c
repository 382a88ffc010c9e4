/* accuracy.c - how right the staged solver is, and whether it knows: tables of random mixtures, shapes with known
 * evidence, other units, hard cases, and of the verdict.
 *     accuracy [modes|shapes|units|hard ...] [--seeds N] [--first SEED]
 * Seeds are the caller's to choose; nothing in the library was fitted to any of them. Evidence
 * errors are absolute, in nats. */
#include "accuracy/targets.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double error, se, evaluations, seconds;
    bool reliable, failed;
    size_t modes; /* components of a mixture that have their share of the draws */
    double mean[2], sd[2];
} outcome;

typedef struct {
    size_t n, all, beyond, failed, reliable, wrong, good, good_reliable;
    double error, absolute, squares, evaluations, seconds;
} totals;

static unsigned long seeds = 20, first_seed = 1;

/* How many components of the mixture have at least half of the mass that they should: the mean of their
 * responsibilities, which are known, over the weighted draws. */
static size_t covered(const bench_target *outer, const wvgd_fit *fit)
{
    const bench_target *t = outer->inner ? outer->inner : outer;
    size_t n, D = t->dim, found = 0;
    const double *z, *log_w;
    double *mass = calloc(t->K, sizeof *mass), *part = calloc(t->K, sizeof *part), *y = calloc(2 * D, sizeof *y),
           *x = y + D;
    if (!mass || !part || !y || wvgd_draws(fit, &n, &z, NULL, &log_w, NULL, NULL) != WVGD_OK)
        abort();
    for (size_t i = 0; i < n; i++) {
        bench_inside(outer, z + i * D, x);
        double top = -INFINITY, sum = 0, half = (t->nu + (double)D) / 2;
        for (size_t k = 0; k < t->K; k++) {
            const double *L = t->root + k * D * D;
            double r = 0;
            part[k] = t->log_w[k];
            for (size_t a = 0; a < D; a++) {
                double s = x[a] - t->mean[k * D + a];
                for (size_t b = 0; b < a; b++)
                    s -= L[a * D + b] * y[b];
                y[a] = s / L[a * D + a];
                r += y[a] * y[a];
                part[k] -= log(L[a * D + a]);
            }
            part[k] -= t->nu > 0 ? half * log1p(r / t->nu) : r / 2;
            top = fmax(top, part[k]);
        }
        for (size_t k = 0; k < t->K; k++)
            sum += exp(part[k] - top);
        for (size_t k = 0; k < t->K; k++)
            mass[k] += exp(log_w[i] + part[k] - top) / sum;
    }
    for (size_t k = 0; k < t->K; k++)
        found += mass[k] > 0.5 * exp(t->log_w[k]);
    free(mass);
    free(part);
    free(y);
    return found;
}

static outcome fit_target(bench_target *t, unsigned long seed, double init_scale)
{
    outcome out = {.failed = true};
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    wvgd_model model = bench_model(t);
    wvgd_options_init(&o);
    o.seed = seed;
    o.init_scale = init_scale;
    o.most_particles = 80; /* as in the program */
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    if (fit && wvgd_run(fit, NULL, NULL, &error) == WVGD_OK) {
        wvgd_get_results(fit, &r);
        out = (outcome){.error = r.evidence.value - t->log_z,
                        .se = r.evidence.se,
                        .evaluations = (double)r.evaluations,
                        .seconds = r.seconds,
                        .reliable = r.reliable};
        for (size_t i = 0; i < 2 && i < t->dim; i++) {
            out.mean[i] = r.mean[i];
            out.sd[i] = sqrt(r.var[i]);
        }
        const bench_target *mixture = t->inner ? t->inner : t;
        if (mixture->K)
            out.modes = covered(t, fit);
    } else
        fprintf(stderr, "seed %lu: %s\n", seed, error.text);
    wvgd_free(fit);
    wvgd_model_close(&model);
    return out;
}

static void add(totals *s, const bench_target *t, const outcome *o)
{
    const bench_target *mixture = t->inner ? t->inner : t;
    bool complete = !mixture->K || o->modes == mixture->K, good = !o->failed && fabs(o->error) < 0.1;
    s->n++;
    s->failed += o->failed;
    s->all += complete;
    s->reliable += o->reliable;
    s->wrong += o->reliable && !good;
    s->good += good;
    s->good_reliable += good && o->reliable;
    s->evaluations += o->evaluations;
    s->seconds += o->seconds;
    if (o->failed || !complete)
        return;
    s->error += o->error;
    s->absolute += fabs(o->error);
    s->squares += o->error * o->error / (o->se * o->se);
    s->beyond += fabs(o->error) > 3 * o->se;
}

static void head(const char *what)
{
    printf("\n%s\n%-34s %5s %6s %9s %9s %6s %8s %8s %8s %7s\n", what, "target", "runs", "all", "mean err", "mean |.|",
           "rms z", "> 3 se", "reliable", "evals", "s");
}

static void row(const char *name, const totals *s)
{
    double complete = (double)(s->all ? s->all : 1), n = (double)s->n;
    printf("%-34s %5zu %6.3f %9.4f %9.4f %6.2f %8.3f %8.2f %8.0f %7.2f%s\n", name, s->n, (double)s->all / n,
           s->error / complete, s->absolute / complete, sqrt(s->squares / complete), (double)s->beyond / complete,
           (double)s->reliable / n, s->evaluations / n, s->seconds / n, s->failed ? "  (some failed)" : "");
    fflush(stdout);
}

static totals total;

static void merge(totals *to, const totals *s)
{
    to->n += s->n;
    to->all += s->all;
    to->good += s->good;
    to->reliable += s->reliable;
    to->wrong += s->wrong;
    to->good_reliable += s->good_reliable;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
static void modes(void)
{
    static const size_t D[] = {2, 5, 10, 20}, K[] = {5, 10};
    static const double box[] = {10, 50};
    totals sum = {0};
    head("Random Gaussian mixtures, full covariances, means uniform in a box; start scale not given (1) and given "
         "(half the box). err: of the log evidence, where all modes were found");
    for (size_t b = 0; b < 2; b++)
        for (size_t k = 0; k < 2; k++)
            for (size_t d = 0; d < 4; d++)
                for (int given = 0; given < 2; given++) {
                    totals s = {0};
                    char name[80];
                    for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
                        bench_target *t = bench_mixture(seed, D[d], K[k], box[b], 0, 0, 0);
                        outcome o = fit_target(t, seed, given ? box[b] / 2 : 1);
                        add(&s, t, &o);
                        bench_free(t);
                    }
                    snprintf(name, sizeof name, "D = %zu, K = %zu, box %g, scale %s", D[d], K[k], box[b],
                             given ? "given" : "1");
                    row(name, &s);
                    merge(&sum, &s);
                    merge(&total, &s);
                }
    printf("all modes in %.3f of %zu runs\n", (double)sum.all / (double)sum.n, sum.n);
}

static void named(const char *name)
{
    totals s = {0};
    for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
        bench_target *t = !strcmp(name, "star") ? bench_star() : bench_named(name);
        outcome o = fit_target(t, seed, 1);
        add(&s, t, &o);
        bench_free(t);
    }
    row(name, &s);
    merge(&total, &s);
}

static void shapes(void)
{
    static const char *const names[] = {"rosenbrock", "shells2", "shells5", "quartic", "star", "funnel", "schools"};
    head("Shapes");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        named(names[i]);
    for (size_t D = 5; D <= 20; D += 15) {
        totals s = {0};
        char name[80];
        for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
            bench_target *t = bench_mixture(seed, D, 10, 20, 0, 0, 2);
            outcome o = fit_target(t, seed, 1);
            add(&s, t, &o);
            bench_free(t);
        }
        snprintf(name, sizeof name, "10 Student-t's, df 2, D = %zu", D);
        row(name, &s);
        merge(&total, &s);
    }
    bench_target *t = bench_named("line7");
    outcome o = fit_target(t, first_seed, 1);
    printf("line through seven points: slope %.3f +- %.3f, %.0f evaluations\n", o.mean[1], o.sd[1], o.evaluations);
    bench_free(t);
}

/* One target in other coordinates. */
typedef struct {
    const char *name;
    double decades, condition; /* axes times 10^U(-decades, decades); or a shear */
} unit;

static void units(void)
{
    static const unit table[] = {
        {"D = 5, K = 5", 0, 0}, {"axes times 10^U(-3, 3)", 3, 0},   {"axes times 10^U(-6, 6)", 6, 0},
        {"rotated", 0, 1},      {"sheared, condition 1e3", 0, 1e3}, {"sheared, condition 1e6", 0, 1e6}};
    head("Units: the first row's mixtures in other coordinates, not given");
    for (size_t u = 0; u < sizeof table / sizeof *table; u++) {
        totals s = {0};
        for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
            bench_random r = {seed + 77};
            double scale[5];
            for (size_t i = 0; i < 5; i++)
                scale[i] = pow(10, table[u].decades * (2 * bench_uniform(&r) - 1));
            bench_target *t = bench_mixture(seed, 5, 5, 10, 0, 0, 0);
            t = table[u].condition > 0 ? bench_sheared(t, seed + 77, table[u].condition) : bench_scaled(t, scale);
            outcome o = fit_target(t, seed, 1);
            add(&s, t, &o);
            bench_free(t);
        }
        row(table[u].name, &s);
        merge(&total, &s);
    }
}

static void hard(void)
{
    static const size_t D[] = {2, 5, 10};
    head("Narrow modes beside wide ones: sds times 10^U(-1, 0.25), K = 5");
    for (size_t d = 0; d < 3; d++) {
        totals s = {0};
        char name[80];
        for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
            bench_target *t = bench_mixture(seed, D[d], 5, 10, -1, 0.25, 0);
            outcome o = fit_target(t, seed, 1);
            add(&s, t, &o);
            bench_free(t);
        }
        snprintf(name, sizeof name, "D = %zu", D[d]);
        row(name, &s);
        merge(&total, &s);
    }
}

static void verdict(void)
{
    printf("\nVerdict, over the %zu fits above: of %zu called reliable %.3f have |evidence error| < 0.1; of %zu good "
           "ones %.3f are called reliable\n",
           total.n, total.reliable, total.reliable ? 1 - (double)total.wrong / (double)total.reliable : NAN, total.good,
           total.good ? (double)total.good_reliable / (double)total.good : NAN);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tables[] = {{"modes", modes}, {"shapes", shapes}, {"units", units}, {"hard", hard}};
    enum { TABLES = sizeof tables / sizeof *tables };
    bool some = false;
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        puts("accuracy [modes|shapes|units|hard ...] [--seeds N] [--first SEED]");
        return 0;
    }
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--seeds"))
            seeds = strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--first"))
            first_seed = strtoul(argv[i + 1], NULL, 10);
    }
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < TABLES; k++)
            if (!strcmp(argv[i], tables[k].name)) {
                some = true;
                tables[k].run();
            }
    for (size_t k = 0; k < TABLES && !some; k++)
        tables[k].run();
    verdict();
    return 0;
}
