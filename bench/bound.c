/* bound.c - is the bound a bound? PELBO against the log evidence of random targets that have a known one, in 1 to 10
 * dimensions, with good proposals and bad ones (tests/support/random_fit.c).
 *     bound [FITS [FIRST]]      500 fits, from number 0 on; -v: a line for each, too
 * prints a row for each kind of target:
 *     fits       and how many ended with an error instead of a result
 *     3 se, .5   bounds above the evidence by more than 3 standard errors, by more than 0.5 nats
 *     worst      the largest excess, in standard errors and in nats
 *     printed    bounds above the importance evidence that is printed beside them, by 3 standard errors of both
 *     gap        median of log evidence - PELBO
 *     unweighted mean posterior mass of cells that have no weight because their draws cannot support one
 *     reliable   share of the fits that nothing speaks against, */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "random_fit.h"
#include "ascending.h"
#include "targets.h"
#include "wvgd.h"

enum { ROWS = RANDOM_FIT_KINDS + 1 };

typedef struct {
    size_t fits, errors, above, far_above, printed, reliable;
    double worst_se, worst, unweighted, *gap; /* gap: [fits] */
} tally;

static bool verbose;

static double unweighted(const wvgd_results *r)
{
    double mass = 0;
    for (size_t j = 0; j < r->N; j++)
        mass += r->weight[j] > 0 ? 0 : r->beta[j];
    return mass;
}

static void add(tally *t, const wvgd_results *r, double truth)
{
    double off = r->pelbo.value - truth, se = fmax(r->pelbo.se, 1e-9);
    t->above += off > 3 * se + 1e-6;
    t->far_above += off > 0.5;
    t->printed += r->pelbo.value - r->evidence.value > 3 * hypot(r->pelbo.se, r->evidence.se) + 1e-6;
    t->reliable += r->reliable;
    t->worst_se = fmax(t->worst_se, off > 1e-6 ? off / se : 0);
    t->worst = fmax(t->worst, off);
    t->unweighted += unweighted(r);
    t->gap[t->fits - t->errors - 1] = -off;
}

static void fit_one(uint64_t number, tally *of_kind, tally *all)
{
    wvgd_model model;
    wvgd_options o;
    wvgd_error error = {0};
    wvgd_results r;
    int kind = random_fit_make(number, &model, &o);
    if (kind < 0)
        exit(70);
    double truth = target_truth_of(&model).log_evidence;
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    bool ok = fit && wvgd_run(fit, NULL, NULL, &error) == WVGD_OK;
    tally *to[] = {of_kind + kind, all};
    if (ok)
        wvgd_get_results(fit, &r);
    for (size_t i = 0; i < 2; i++) {
        to[i]->fits++;
        to[i]->errors += !ok;
        if (ok)
            add(to[i], &r, truth);
    }
    if (verbose)
        printf("%llu %s D %zu N %zu K %zu family %d cost %d seed %llu: off %.4f se %.4f evidence %.4f se %.4f k %.2f "
               "%s %s\n",
               (unsigned long long)number, random_fit_kind[kind], model.dim, o.particles, o.components, (int)o.family,
               (int)o.cost, (unsigned long long)o.seed, ok ? r.pelbo.value - truth : NAN, ok ? r.pelbo.se : NAN,
               ok ? r.evidence.value - truth : NAN, ok ? r.evidence.se : NAN, ok ? r.pareto_k : NAN,
               ok ? wvgd_stop_name(r.stop) : error.text,
               ok && r.reliable ? "reliable"
               : ok             ? r.reason[0]
                                : "");
    fflush(stdout);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

static void print_row(const char *name, tally *t)
{
    size_t n = t->fits - t->errors;
    if (!n)
        return;
    qsort(t->gap, n, sizeof *t->gap, ascending);
    printf("%-12s %5zu %6zu %5zu %4zu %9.1f %8.3f %8zu %8.3f %10.4f %9.2f\n", name, t->fits, t->errors, t->above,
           t->far_above, t->worst_se, t->worst, t->printed, t->gap[n / 2], t->unweighted / (double)n,
           (double)t->reliable / (double)n);
}

int main(int argc, char **argv)
{
    verbose = argc > 1 && !strcmp(argv[1], "-v");
    argv += verbose;
    argc -= verbose;
    size_t fits = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    tally t[ROWS] = {{0}};
    for (size_t k = 0; k < ROWS; k++)
        if (!(t[k].gap = calloc(fits + 1, sizeof *t[k].gap)))
            return 70;
    for (uint64_t i = 0; i < fits; i++)
        fit_one(first + i, t, t + RANDOM_FIT_KINDS);
    puts("             fits errors  3 se   .5  worst se    worst  printed      gap unweighted  reliable");
    for (size_t k = 0; k < ROWS; k++) {
        print_row(k < RANDOM_FIT_KINDS ? random_fit_kind[k] : "all", t + k);
        free(t[k].gap);
    }
    return 0;
}
