/* certificate.c - do the walks that check a fit see what is wrong with it? Fits of the kinds of bench/trust and of more
 * with long tails, or with a core that few components take for the whole, as they are and with few components.
 *     certificate [KIND ...] [--seeds N] [--first SEED] [--components K,...] [--width W] [--bend auto|never]
 *                 [--finish auto|never|always] [--evaluations N] [-v]
 * KIND: part of a kind's name; all of them without. --components: 0,1,3 by default; 0 is the default of a fit. --width:
 * by which the sds of all components are multiplied before the final draws. A row for each kind:
 *     wrong     fits off by more than 0.1 nats in the log evidence, or by 15 % in an sd that is known and not marked
 *     seeming   those of them whose standard error of the log evidence is below 0.05: they look good
 *     right     the others
 *     flagged   of the wrong, of the seeming and of the right ones, those whose walks say that they are wrong
 *     walks     mean evaluations of walks, and as a share of all others
 * Then totals; of the seeming ones, those that are off by more than three of the standard errors that they state, which
 * no noise of their draws explains; and what walks take where they may take the larger of 600 evaluations and 15 % of
 * all others, on average. Fits with few components that are right have a row of their own: their proposals do leave
 * mass out. Rows in brackets are what walks cannot reach, and not in the totals: kinds with modes apart, with too few
 * components for them or with a mode that no gradient points to, and scales with necks, with all components that they
 * want.
 * --finish auto: chains complete fits where they are needed, if --evaluations allows it; a line says how many of these
 * are then wrong, and of how many the log evidence is off by more than 3 of its standard errors. -v: a line for each
 * fit. */
#include "trust/targets.h"
#include "fit.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    size_t wrong, seeming, right, wrong_flagged, seeming_flagged, right_flagged;
    size_t hidden, hidden_flagged; /* seeming ones that are wrong beyond their own standard errors */
    double walks, others, aim;     /* evaluations: of walks, others, and what walks may take: 600, or 15 % of these */
} totals;

/* What fits of a kind belong to. */
typedef enum { PLAIN, LIMITED, APART, NECKS, CLASSES } class;
static const char *const classes[CLASSES] = {"default fits", "with few components", "(modes apart)", "(necks)"};
static totals by_class[CLASSES];
static size_t completed, completed_wrong, completed_beyond; /* by chains */
/* Kinds with wrong fits that count, or with right default fits; the most of one kind. */
static size_t wrong_kinds, most_wrong, right_kinds, most_right;

/* Kinds whose modes lie apart, and kinds with a neck: scales of what is not on their own scale. */
static const char *const apart[] = {"mixture of 5",  "mixture of 4", "mixture of 3", "narrow and wide", "labels",
                                    "means of",      "slab",         "two modes",    "spectrum",        "two decays",
                                    "egg box",       "hidden",       "mixture of 8", "mixture of 12",   "97 %",
                                    "beside wide",   "frequency",    "3 modes",      "damped",          "position by",
                                    "product of two"},
                         *const necks[] = {"centred, D", "random walk", "funnel", "scales and"};

static unsigned long seeds = 5, first_seed = 1, evaluations;
static const char *components = "0,1,3", *bend = "never", *finish = "never";
static double width = 1;
static int verbose;

static bool is_one_of(const char *name, size_t n, const char *const *list)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(name, list[i]))
            return !strstr(name, "non-centred");
    return false;
}

static class class_of(const char *name, unsigned long K)
{
    if (is_one_of(name, sizeof apart / sizeof *apart, apart) && (K || strstr(name, "hidden")))
        return APART;
    if (is_one_of(name, sizeof necks / sizeof *necks, necks) && !K)
        return NECKS;
    return K ? LIMITED : PLAIN;
}

/* The largest |log(sd / true sd)| of what is known and not marked. */
static double sd_error(const trust_target *t, const wvgd_results *r)
{
    double worst = 0;
    for (size_t i = 0; i < t->known; i++)
        if (isfinite(t->marginal[i].sd) && !(r->tail_k[i] > r->tail_k_limit))
            worst = fmax(worst, fabs(log(sqrt(r->var[i]) / t->marginal[i].sd)));
    return worst;
}

/* Whether errors are within three of the standard errors that the fit states. */
static bool told(const trust_target *t, const wvgd_results *r)
{
    bool within = fabs(r->evidence.value - t->log_z) <= 3 * r->evidence.se;
    for (size_t i = 0; i < t->known && within; i++)
        within = !isfinite(t->marginal[i].sd) || r->tail_k[i] > r->tail_k_limit ||
                 fabs(sqrt(r->var[i]) - t->marginal[i].sd) <= 3 * r->sd_se[i];
    return within;
}

static void judge(const trust_target *t, const wvgd_results *r, const wv_certified *c, const char *name,
                  unsigned long seed, totals *s)
{
    const double nats = 0.1, sds = log(1.15), good_se = 0.05;
    double error = r->evidence.value - t->log_z, sd = sd_error(t, r);
    bool wrong = !(fabs(error) <= nats) || sd > sds, seems = wrong && r->evidence.se < good_se,
         flagged = c->result == WV_CERTIFICATE_FAILED, hidden = seems && !told(t, r);
    s->wrong += wrong;
    s->seeming += seems;
    s->right += !wrong;
    s->wrong_flagged += wrong && flagged;
    s->seeming_flagged += seems && flagged;
    s->right_flagged += !wrong && flagged;
    s->hidden += hidden;
    s->hidden_flagged += hidden && flagged;
    if (r->stop == WVGD_FINISHED) {
        completed++;
        completed_wrong += wrong;
        completed_beyond += fabs(error) > 3 * r->evidence.se;
    }
    s->walks += (double)r->walks_evaluations;
    s->others += (double)(r->evaluations - r->walks_evaluations);
    s->aim += fmax(600, 0.15 * (double)(r->evaluations - r->walks_evaluations));
    if (verbose)
        printf("%s, seed %lu: error %.3f se %.3f, log sd %.3f, k-hat %.2f, stop %d, missing %.2f, %zu of %zu walks "
               "outside, %zu failures, %zu of %zu evaluations%s%s\n",
               name, seed, error, r->evidence.se, sd, r->pareto_k, (int)r->stop, r->finish_missing, r->walks_outside,
               r->walks, c->failures, r->walks_evaluations, r->evaluations,
               wrong ? hidden ? "  WRONG, HIDDEN" : "  WRONG" : "",
               flagged                    ? " FLAGGED"
               : r->stop == WVGD_FINISHED ? " COMPLETED"
                                          : "");
}

/* As wvgd_run; components get another width before the first final draws. */
static bool run(wvgd_fit *fit, wvgd_error *error)
{
    bool scaled = width == 1;
    while (fit->stage != WV_DONE) {
        for (size_t k = 0; fit->stage == WV_CLOSING && !scaled && k < fit->mix.K; k++)
            wv_mixture_scale_root(&fit->mix, k, width);
        scaled = scaled || fit->stage == WV_CLOSING;
        if (wvgd_step(fit, error) != WVGD_OK)
            return false;
    }
    return true;
}

static void fit_one(const trust_kind *kind, unsigned long seed, unsigned long K, totals *s)
{
    trust_target *t = trust_make(kind, seed);
    wvgd_options o;
    wvgd_error error = {0};
    wvgd_results r;
    wvgd_model model;
    trust_open(t, &model);
    wvgd_options_init(&o);
    o.seed = seed;
    o.particles = 2;
    if (K)
        o.components = K;
    if (evaluations)
        o.max_evaluations = evaluations;
    if (wvgd_options_set(&o, "bend", bend, &error) || wvgd_options_set(&o, "finish", finish, &error))
        abort();
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    if (fit && run(fit, &error)) {
        wvgd_get_results(fit, &r);
        judge(t, &r, &fit->certificate.now, kind->name, seed, s);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
    trust_free(t);
}

static void add(totals *to, const totals *s)
{
    to->wrong += s->wrong;
    to->seeming += s->seeming;
    to->right += s->right;
    to->wrong_flagged += s->wrong_flagged;
    to->seeming_flagged += s->seeming_flagged;
    to->right_flagged += s->right_flagged;
    to->hidden += s->hidden;
    to->hidden_flagged += s->hidden_flagged;
    to->walks += s->walks;
    to->others += s->others;
    to->aim += s->aim;
}

static double share(size_t part, size_t all)
{
    return all ? (double)part / (double)all : NAN;
}

static void row(const char *name, const totals *s)
{
    printf("%-40s %6zu %7zu %6zu   %6.3f %6.3f %6.3f  %6.0f %6.3f\n", name, s->wrong, s->seeming, s->right,
           share(s->wrong_flagged, s->wrong), share(s->seeming_flagged, s->seeming), share(s->right_flagged, s->right),
           s->walks / (double)(s->wrong + s->right), s->walks / s->others);
}

/* Fits of a kind with so many components: a row, unless there are none. */
static totals fit_some(const trust_kind *kind, unsigned long K)
{
    totals s = {0};
    char name[80];
    for (unsigned long k = 0; k < seeds; k++)
        fit_one(kind, first_seed + k, K, &s);
    class c = class_of(kind->name, K);
    snprintf(name, sizeof name, c >= APART ? "(%s, %lu)" : "%s, %lu", kind->name, K);
    row(name, &s);
    fflush(stdout);
    add(&by_class[c], &s);
    return c >= APART ? (totals){0} : s;
}

static void fit_kind(const trust_kind *kind)
{
    size_t wrong = 0, right = 0;
    for (const char *at = components; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        unsigned long K = strtoul(at, NULL, 10);
        totals s = fit_some(kind, K);
        wrong += s.wrong;
        right += K ? 0 : s.right;
    }
    wrong_kinds += wrong > 0;
    right_kinds += right > 0;
    most_wrong = wrong > most_wrong ? wrong : most_wrong;
    most_right = right > most_right ? right : most_right;
}

static void summary(void)
{
    totals both = {0};
    for (size_t c = 0; c < CLASSES; c++) {
        row(classes[c], &by_class[c]);
        if (c < APART)
            add(&both, &by_class[c]);
    }
    row("default or few components", &both);
    if (completed)
        printf("completed by chains: %zu, of which %zu are wrong, and %zu beyond 3 standard errors\n", completed,
               completed_wrong, completed_beyond);
    printf("wrong fits of %zu kinds, at most %.3f of them of one; %.3f of them seem good\n", wrong_kinds,
           share(most_wrong, both.wrong), share(both.seeming, both.wrong));
    printf("%zu of these are off by more than 3 of their own standard errors; flagged %.3f\n", both.hidden,
           share(both.hidden_flagged, both.hidden));
    const totals *s = &by_class[PLAIN];
    if (s->right)
        printf("right default fits of %zu kinds, at most %.3f of them of one; walks take %.0f evaluations of %.0f\n",
               right_kinds, share(most_right, s->right), s->walks / (double)(s->wrong + s->right),
               s->aim / (double)(s->wrong + s->right));
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
    return found || !some;
}

static void fit_kinds(int argc, char **argv, size_t n, const trust_kind *kinds)
{
    for (size_t k = 0; k < n; k++)
        if (asked(argc, argv, kinds[k].name))
            fit_kind(kinds + k);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v"))
            verbose = 1;
        else if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
            seeds = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--first") && i + 1 < argc)
            first_seed = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--components") && i + 1 < argc)
            components = argv[++i];
        else if (!strcmp(argv[i], "--width") && i + 1 < argc)
            width = strtod(argv[++i], NULL);
        else if (!strcmp(argv[i], "--bend") && i + 1 < argc)
            bend = argv[++i];
        else if (!strcmp(argv[i], "--finish") && i + 1 < argc)
            finish = argv[++i];
        else if (!strcmp(argv[i], "--evaluations") && i + 1 < argc)
            evaluations = strtoul(argv[++i], NULL, 10);
        else if (argv[i][0] == '-')
            return fprintf(stderr, "usage: certificate [KIND ...] [--seeds N] [--first SEED] [--components K,...] "
                                   "[--width W] [--bend WHEN] [--finish WHEN] [--evaluations N] [-v]\n"),
                   64;
    }
    printf("%-40s %6s %7s %6s   %6s %6s %6s  %6s %6s\n", "kind, components", "wrong", "seeming", "right", "wrong",
           "seem.", "right", "walks", "share");
    fit_kinds(argc, argv, trust_kind_count, trust_kinds);
    fit_kinds(argc, argv, trust_tail_count, trust_tails);
    fit_kinds(argc, argv, trust_core_count, trust_cores);
    fit_kinds(argc, argv, trust_other_count, trust_others);
    summary();
    return 0;
}
