/* bend.c - what bent coordinates earn and cost: fits with and without them, of targets whose truth is known.
 *     bend [KIND ...] [--bend auto|never] [--seeds N] [--first SEED] [--check] [--map] [--nuts] [--stages] [-v]
 *     bend --reference FILE
 * KIND: part of a kind's name; all of them without. A row for each kind:
 *     right      means within 0.1 sd, log sds within 0.1, |error of the log evidence| <= max(0.05, 3 se)
 *     reliable   share of the fits
 *     lies       called reliable, and not right
 *     kept       fits that ended in bent coordinates
 *     evals      median, without the walks of the certificate
 *     walks      median of the evaluations of these
 *     log Z      median error, and the largest; se its median
 *     mean, sd   medians of the largest error of a mean, in sds, and of a log sd, among those that the fit does not
 *                mark as heavy-tailed
 * --check compares gradients with differences and prints the truths. --map stops at the first map, and says how near
 * the posterior is to a standard normal in u: the gap of the log evidence to the mean of log p~ - log N, and the
 * effective share of draws of 0.8 N + 0.2 t_5; with -v Gaussians of the arguments, and slices along each of them.
 * --nuts adds a column: gradients of NUTS (4 chains, 1000 iterations of warmup and 1000 more, diagonal metric; one run)
 * over the median of all evaluations. --stages adds a line: medians of the evaluations of each stage, those of
 * exploration as ascents, draws that judge Gaussians on their way, and fits of Gaussians. --reference finds the truth
 * of the item responses (bend/items.txt) anew. */
#include "bend/items.h"
#include "bend/nuts.h"
#include "bend/targets.h"
#include "ascending.h"
#include "fit.h"
#include "test_random.h"
#include "weights.h"
#include "wvgd.h"
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stages of the solver, and parts of exploration. */
enum { SEEDS_MOST = 100, JUDGE = WV_DONE, ALONE, STAGES };

typedef struct {
    bool reliable, right, lie, kept;
    size_t worst; /* parameter, of whose sd the error is largest */
    double evaluations, walks, error, size, se, mean, sd, log_sd, seconds, by[STAGES];
} outcome;

static unsigned long seeds = 5, first_seed = 101;
static const char *bend = "auto";
static bool verbose, check, map, nuts, stages;

/* Largest errors of means and of log sds that are not marked. */
static void compare(const bend_target *t, const wvgd_results *r, outcome *o)
{
    for (size_t i = 0; i < t->dim; i++) {
        if (r->tail_k[i] > r->tail_k_limit)
            continue;
        double log_sd = log(sqrt(r->var[i]) / t->sd[i]), sd = fabs(log_sd);
        o->mean = fmax(o->mean, fabs(r->mean[i] - t->mean[i]) / t->sd[i]);
        o->worst = sd > o->sd ? i : o->worst;
        o->log_sd = sd > o->sd ? log_sd : o->log_sd;
        o->sd = fmax(o->sd, sd);
    }
}

/* ---- the map alone ----------------------------------------------------------------------------------------------- */
enum { MAP_DRAWS = 4000 };

/* Draws u[n][D] of 0.8 N + 0.2 t_5, and log of its density over that of N. */
static void draw_heavy(test_random *state, size_t n, size_t D, double *u, double *log_ratio)
{
    const double nu = 5, share = 0.2, d = (double)D;
    const double constant = lgamma((nu + d) / 2) - lgamma(nu / 2) - d / 2 * log(nu / 2);
    for (size_t i = 0; i < n; i++) {
        double square = 0, chi = 0;
        for (size_t k = 0; k < (size_t)nu; k++)
            chi += pow(test_random_normal(state), 2);
        double by = (double)i < share * (double)n ? sqrt(nu / chi) : 1;
        for (size_t k = 0; k < D; k++) {
            u[i * D + k] = by * test_random_normal(state);
            square += u[i * D + k] * u[i * D + k];
        }
        log_ratio[i] = log(1 - share + share * exp(constant - (nu + d) / 2 * log1p(square / nu) + square / 2));
    }
}

/* Medians of the mean squares of scores + u of the arguments and of the others: 0 for a standard normal. */
static void judge_scores(bend_target *t, wvgd_fit *fit, size_t n, const double *u, const double *x)
{
    size_t D = t->dim, r = fit->bend.r;
    double *size[2] = {malloc(n * sizeof(double)), malloc(n * sizeof(double))}, grad[BEND_MOST];
    if (!size[0] || !size[1])
        abort();
    for (size_t i = 0; i < n; i++) {
        double log_p = t->density(t, x + i * D, grad);
        wv_bend_pull(&fit->bend, 1, u + i * D, &log_p, grad, fit->arena);
        size[0][i] = size[1][i] = 0;
        for (size_t k = 0; k < D; k++)
            size[k >= r][i] += pow(grad[k] + u[i * D + k], 2) / (double)(k < r ? r : D - r);
    }
    for (size_t k = 0; k < 2; k++) {
        qsort(size[k], n, sizeof(double), ascending);
        printf(", %s %.4f %.3f", k ? "others" : "scores of arguments", size[k][n / 2], size[k][n * 95 / 100]);
        free(size[k]);
    }
}

/* Along each argument, in u: sd of log p~ - log N given all arguments, the other ones being 0, and the log of the mean
 * of the ratio over all but this one. */
static void judge_slices(bend_target *t, wvgd_fit *fit, unsigned long seed)
{
    enum { EACH = 200, HALF = 5 };
    const wv_bend *b = &fit->bend;
    size_t D = t->dim;
    double u[BEND_MOST], x[BEND_MOST], w[EACH], log_det;
    test_random state = test_random_seed(seed + 999);
    for (size_t j = 0; j < b->r; j++) {
        printf("    argument %zu:", j);
        for (int a = -HALF; a <= HALF; a++) {
            double mean = 0, square = 0, top = -INFINITY, sum = 0;
            for (size_t i = 0; i < EACH; i++) {
                double norm = 0;
                for (size_t k = 0; k < D; k++) {
                    u[k] = k < b->r && i % 2 ? 0 : test_random_normal(&state);
                    u[k] = k == j ? a : u[k];
                    norm += u[k] * u[k];
                }
                wv_bend_forward(b, 1, u, x, &log_det, fit->arena);
                w[i] = t->density(t, x, NULL) + log_det + norm / 2 + (double)D * log(2 * M_PI) / 2 - t->log_z;
                mean += i % 2 ? w[i] * 2 / EACH : 0;
                square += i % 2 ? w[i] * w[i] * 2 / EACH : 0;
                top = i % 2 ? top : fmax(top, w[i]);
            }
            for (size_t i = 0; i < EACH; i += 2)
                sum += exp(w[i] - top) * 2 / EACH;
            printf(" %d: %.2f %+.2f,", a, sqrt(square - mean * mean), log(sum) + top);
        }
        puts("");
    }
}

/* How near to a standard normal the target is in u. */
static void judge_map(const bend_kind *kind, bend_target *t, wvgd_fit *fit, unsigned long seed)
{
    const wv_bend *b = &fit->bend;
    size_t D = t->dim, n = MAP_DRAWS;
    double *u = malloc(n * D * sizeof *u), *x = malloc(n * D * sizeof *x), *log_det = malloc(n * sizeof *u),
           *w = malloc(n * sizeof *w), *ratio = malloc(n * sizeof *ratio);
    test_random state = test_random_seed(seed + 9999);
    if (!u || !x || !log_det || !w || !ratio)
        abort();
    draw_heavy(&state, n, D, u, ratio);
    wv_bend_forward(b, n, u, x, log_det, fit->arena);
    double top = -INFINITY, sum = 0, squares = 0, gap = 0, plain = 0;
    for (size_t i = 0; i < n; i++) {
        double square = 0;
        for (size_t k = 0; k < D; k++)
            square += u[i * D + k] * u[i * D + k];
        w[i] = t->density(t, x + i * D, NULL) + log_det[i] + square / 2 + (double)D * log(2 * M_PI) / 2 - t->log_z;
        if ((double)i >= 0.2 * (double)n) {
            gap -= w[i];
            plain++;
        }
        w[i] -= ratio[i];
        w[i] = isfinite(w[i]) ? w[i] : -INFINITY;
        top = fmax(top, w[i]);
    }
    double k_hat = wv_weights_pareto_k(n, w, NULL, fit->arena);
    for (size_t i = 0; i < n; i++) {
        sum += exp(w[i] - top);
        squares += exp(2 * (w[i] - top));
    }
    printf("  %s, seed %lu: %zu arguments (", kind->name, seed, b->r);
    for (size_t j = 0; j < b->r; j++) {
        size_t axis = 0;
        for (size_t i = 0; i < D; i++)
            if (fabs(b->inverse[j * D + i]) * t->sd[i] > fabs(b->inverse[j * D + axis]) * t->sd[axis])
                axis = i;
        printf(j ? " %zu" : "%zu", axis);
    }
    printf("), %zu evaluations, gap %.4f, ESS/n %.3f, k-hat %.2f, log Z %+.4f", (size_t)fit->count.points, gap / plain,
           sum * sum / squares / (double)n, k_hat, log(sum / (double)n) + top);
    judge_scores(t, fit, n, u, x);
    puts("");
    for (size_t k = 0; verbose && fit->mix.K > 1 && k < fit->mix.K; k++) {
        printf("    Gaussian of the arguments: weight %.4f", fit->mix.w[k]);
        for (size_t j = 0; j < b->r; j++)
            printf(", %+.2f (%.2f)", fit->mix.mu[k * D + j],
                   cblas_dnrm2((int)j + 1, fit->mix.root + (k * D + j) * D, 1));
        puts("");
    }
    if (verbose)
        judge_slices(t, fit, seed);
    fflush(stdout);
    free(u);
    free(x);
    free(log_det);
    free(w);
    free(ratio);
}

static void fit_map(const bend_kind *kind, bend_target *t, unsigned long seed)
{
    wvgd_options options;
    wvgd_error error = {0};
    wvgd_model model;
    if (wvgd_model_pointwise(&model, t->dim, t->density, t, true))
        abort();
    wvgd_options_init(&options);
    options.seed = seed;
    wvgd_options_set(&options, "bend", bend, &error);
    wvgd_fit *fit = wvgd_new(&model, &options, NULL, &error);
    while (fit && !fit->bend.on && fit->stage != WV_DONE) {
        if (wvgd_step(fit, &error))
            exit((fprintf(stderr, "%s, seed %lu: %s\n", kind->name, seed, error.text), 70));
    }
    if (!fit)
        abort();
    if (fit->bend.on)
        judge_map(kind, t, fit, seed);
    else
        printf("  %s, seed %lu: no argument, %zu evaluations\n", kind->name, seed, (size_t)fit->count.points);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

static const char *const stage_name[STAGES] = {
    [WV_EXPLORE] = "ascents", [JUDGE] = "judge",      [ALONE] = "Gaussians",  [WV_FIT] = "fit",
    [WV_TRIAL] = "trial",     [WV_PROBE] = "probe",   [WV_BEND] = "map",      [WV_CLOSING] = "final",
    [WV_SEEK] = "seek",       [WV_CERTIFY] = "walks", [WV_FINISH] = "chains", [WV_REFINE] = "refine",
    [WV_BOUND] = "bound",
};

/* What the next batch is for. */
static size_t stage_of(const wvgd_fit *fit)
{
    if (fit->stage != WV_EXPLORE)
        return fit->stage;
    return fit->explore.phase == WV_JUDGE ? JUDGE : fit->explore.phase == WV_ALONE ? ALONE : WV_EXPLORE;
}

static void print_stages(const double *by)
{
    for (size_t k = 0, some = 0; k < STAGES; k++)
        if (by[k] > 0)
            printf("%s%s %.0f", some++ ? ", " : "", stage_name[k], by[k]);
}

static outcome fit_one(const bend_kind *kind, bend_target *t, unsigned long seed)
{
    outcome o = {0};
    wvgd_options options;
    wvgd_error error = {0};
    wvgd_results r;
    wvgd_model model;
    if (wvgd_model_pointwise(&model, t->dim, t->density, t, true))
        abort();
    wvgd_options_init(&options);
    options.seed = seed;
    options.most_particles = 80; /* as the program has it */
    if (wvgd_options_set(&options, "bend", bend, &error))
        exit((fprintf(stderr, "%s\n", error.text), 64));
    wvgd_fit *fit = wvgd_new(&model, &options, NULL, &error);
    while (fit && fit->stage != WV_DONE) {
        size_t before = fit->count.evaluations, stage = stage_of(fit);
        if (wvgd_step(fit, &error))
            break;
        o.by[stage] += (double)(fit->count.evaluations - before);
    }
    if (!fit || fit->stage != WV_DONE)
        exit((fprintf(stderr, "%s, seed %lu: %s\n", kind->name, seed, error.text), 70));
    wvgd_get_results(fit, &r);
    compare(t, &r, &o);
    o.error = r.evidence.value - t->log_z;
    o.size = fabs(o.error);
    o.se = r.evidence.se;
    o.reliable = r.reliable;
    o.kept = fit->bent.kept;
    o.walks = o.by[WV_CERTIFY];
    o.evaluations = (double)r.evaluations - o.walks;
    o.seconds = r.seconds;
    bool evidence = o.size <= fmax(0.05, 3 * o.se);
    o.right = evidence && o.mean <= 0.1 && o.sd <= 0.1;
    o.lie = o.reliable && !o.right;
    if (verbose) {
        printf("  %s, seed %lu: log Z %+.4f (%.4f), mean %.3f, log sd %+.3f (%zu), k-hat %.2f, %zu arguments%s, %.0f "
               "evaluations (",
               kind->name, seed, o.error, o.se, o.mean, o.log_sd, o.worst, r.pareto_k,
               fit->bend.tried ? fit->bend.r : 0, o.kept ? "" : ", left", o.evaluations);
        print_stages(o.by);
        printf("), %.2f s, %s\n", o.seconds, o.reliable ? "reliable" : r.reason[0]);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
    fflush(stdout);
    return o;
}

/* Median of the field at this offset. */
static double median(const outcome *o, size_t n, size_t offset)
{
    double value[SEEDS_MOST];
    for (size_t i = 0; i < n; i++)
        memcpy(value + i, (const char *)(o + i) + offset, sizeof *value);
    qsort(value, n, sizeof *value, ascending);
    return (value[(n - 1) / 2] + value[n / 2]) / 2;
}

static void print_row(const bend_kind *kind, bend_target *t, const outcome *o, size_t n)
{
    size_t right = 0, reliable = 0, lies = 0, kept = 0;
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        right += o[i].right;
        reliable += o[i].reliable;
        lies += o[i].lie;
        kept += o[i].kept;
        worst = fmax(worst, o[i].size);
    }
    double evaluations = median(o, n, offsetof(outcome, evaluations)), walks = median(o, n, offsetof(outcome, walks));
    printf("%-34s %4zu %3zu/%zu %6zu %5zu %5zu %8.0f %5.0f %+8.4f %7.4f %7.4f %6.3f %6.3f %6.2f", kind->name, t->dim,
           right, n, reliable, lies, kept, evaluations, walks, median(o, n, offsetof(outcome, error)), worst,
           median(o, n, offsetof(outcome, se)), median(o, n, offsetof(outcome, mean)),
           median(o, n, offsetof(outcome, sd)), median(o, n, offsetof(outcome, seconds)));
    if (nuts)
        printf(" %6.0f", (double)nuts_price(t->density, t, t->dim) / (evaluations + walks));
    puts("");
    if (stages) {
        double by[STAGES];
        for (size_t k = 0; k < STAGES; k++)
            by[k] = median(o, n, offsetof(outcome, by) + k * sizeof(double));
        printf("    ");
        print_stages(by);
        puts("");
    }
    fflush(stdout);
}

/* Largest difference of the gradient from one by differences, near the mean. */
static void check_kind(const bend_kind *kind, bend_target *t)
{
    const double h = 1e-5;
    double z[BEND_MOST], g[BEND_MOST], worst = 0;
    for (size_t i = 0; i < t->dim; i++)
        z[i] = t->mean[i] + 0.3 * sin(1 + (double)i) * fmin(t->sd[i], 1);
    t->density(t, z, g);
    for (size_t i = 0; i < t->dim; i++) {
        double at = z[i], above, below;
        z[i] = at + h;
        above = t->density(t, z, NULL);
        z[i] = at - h;
        below = t->density(t, z, NULL);
        z[i] = at;
        worst = fmax(worst, fabs((above - below) / (2 * h) - g[i]) / (1 + fabs(g[i])));
    }
    printf("%-34s gradient %.1e, log Z %.6f, means %.4f %.4f %.4f, sds %.4f %.4f %.4f\n", kind->name, worst, t->log_z,
           t->mean[0], t->mean[1], t->mean[2], t->sd[0], t->sd[1], t->sd[2]);
    fflush(stdout);
}

static void run_kind(const bend_kind *kind)
{
    outcome o[SEEDS_MOST];
    bend_target *t = bend_make(kind);
    if (check)
        check_kind(kind, t);
    else if (map)
        for (unsigned long i = 0; i < seeds; i++)
            fit_map(kind, t, first_seed + i);
    else {
        for (unsigned long i = 0; i < seeds; i++)
            o[i] = fit_one(kind, t, first_seed + i);
        print_row(kind, t, o, seeds);
    }
    bend_free(t);
}

int main(int argc, char **argv)
{
    const char *part[100];
    size_t parts = 0;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--help"))
            return puts("bend [KIND ...] [--bend auto|never] [--seeds N] [--first SEED] [--check] [--map] [--nuts] "
                        "[--stages] [-v]") < 0;
        if (!strcmp(argv[i], "-v"))
            verbose = true;
        else if (!strcmp(argv[i], "--check"))
            check = true;
        else if (!strcmp(argv[i], "--map"))
            map = true;
        else if (!strcmp(argv[i], "--nuts"))
            nuts = true;
        else if (!strcmp(argv[i], "--stages"))
            stages = true;
        else if (more && !strcmp(argv[i], "--reference"))
            return bend_items_refer(argv[++i]), 0;
        else if (more && !strcmp(argv[i], "--seeds"))
            seeds = strtoul(argv[++i], NULL, 10);
        else if (more && !strcmp(argv[i], "--first"))
            first_seed = strtoul(argv[++i], NULL, 10);
        else if (more && !strcmp(argv[i], "--bend"))
            bend = argv[++i];
        else if (parts < sizeof part / sizeof *part)
            part[parts++] = argv[i];
    }
    if (!seeds || seeds > SEEDS_MOST)
        return 64;
    if (!check && !map)
        printf("%-34s %4s %5s %6s %5s %5s %8s %5s %8s %7s %7s %6s %6s %6s%s\n", "kind", "D", "right", "reliab", "lies",
               "kept", "evals", "walks", "log Z", "worst", "se", "mean", "sd", "s", nuts ? "  NUTS" : "");
    for (size_t k = 0; k < bend_kind_count; k++) {
        bool asked = !parts;
        for (size_t i = 0; i < parts; i++)
            asked = asked || strstr(bend_kinds[k].name, part[i]);
        if (asked)
            run_kind(bend_kinds + k);
    }
    return 0;
}
