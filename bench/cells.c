/* cells.c - the truncated components of the cells against the best there are.
 *     cells line [MIXTURES [SEED]]    random mixtures in one dimension, N = 2..10: nats below the optimum, found by
 *                                     quadrature
 *     cells quantize [MIXTURES [SEED]] the same cells from a fit with two, by wvgd_quantize
 *     cells named                     two mixtures with cells that fall off steeply from a wall, six seeds each
 *     cells density [SEEDS [FRESH]]   integrated squared error over that of the optimum, N = 3..7: the mixtures of
 *                                     tests/data, and as many fresh ones
 *     cells gap [SEEDS [D [FIRST]]]   log evidence - PELBO in 2, 5, 10 and 31 dimensions, or D (0: all), and the time
 * of a fit Options after these: --cost C, --family F, --solver S; --beside B: the mixtures have B narrow Gaussian
 * coordinates beside the first, so that the best components are known in more dimensions, too. */
#include "logistic_truth.h"
#include "ascending.h"
#include "mixture_tables.h"
#include "oracle1d.h"
#include "targets.h"
#include "test_random.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { K = 5, MOST = 10, MOST_BESIDE = 30 };

static wvgd_options asked;         /* what all fits have in common */
static bool quantized;             /* cells are made from a fit with two particles */
static size_t beside;              /* narrow coordinates beside the mixture's */
static const double narrow = 0.05; /* their sd */

/* Only OpenBLAS has it: its threads would get in each other's way here. */
void openblas_set_num_threads(int threads) __attribute__((weak));

static void die(const char *why)
{
    fprintf(stderr, "cells: %s\n", why);
    exit(70);
}

/* Seconds of this thread. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static wvgd_fit *fit_model(const wvgd_model *model, size_t N, wvgd_family family, uint64_t seed, wvgd_results *r)
{
    wvgd_options o = asked;
    wvgd_error error;
    o.particles = N;
    o.family = family;
    o.seed = seed;
    o.threads = 1;
    if (quantized)
        o.particles = 2;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        die(error.text);
    if (quantized) {
        wvgd_fit *two = fit;
        o.particles = N;
        fit = wvgd_quantize(two, &o, &error);
        if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
            die(error.text);
        wvgd_free(two);
    }
    wvgd_get_results(fit, r);
    return fit;
}

/* ---- one dimension ----------------------------------------------------------------------------------------------- */
typedef struct {
    double weight[K], mean[K], sd[K];
} mixture;

static mixture random_mixture(uint64_t seed)
{
    mixture m;
    test_random r = test_random_seed(seed);
    test_random_mixture(&r, K, m.weight, m.mean, m.sd);
    return m;
}

static oracle1d_target target_of(const mixture *m)
{
    return (oracle1d_target){K, m->weight, m->mean, m->sd};
}

/* The mixture along the first of 1 + beside coordinates, narrow Gaussians along the others. */
static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const mixture *m = self;
    size_t D = 1 + beside;
    for (size_t i = 0; i < n; i++) {
        const double *x = z + i * D;
        double p = 0, slope = 0, y = 0;
        for (size_t k = 0; k < K; k++) {
            double t = (x[0] - m->mean[k]) / m->sd[k], part = m->weight[k] / m->sd[k] * exp(-t * t / 2);
            p += part;
            slope -= part * t / m->sd[k];
        }
        for (size_t k = 1; k < D; k++)
            y += x[k] * x[k] / (narrow * narrow) / 2 + log(narrow) + 0.91893853320467274;
        log_p[i] = log(p) - 0.91893853320467274 - y;
        if (grad)
            grad[i * D] = p > 0 ? slope / p : 0;
        for (size_t k = 1; k < D && grad; k++)
            grad[i * D + k] = -x[k] / (narrow * narrow);
    }
    return 0;
}

static int open_mixture(wvgd_model *model, mixture *m)
{
    if (!beside)
        return target_mixture_1d(model, K, m->weight, m->mean, m->sd);
    *model = (wvgd_model){
        .dim = 1 + beside, .log_density = log_density, .self = m, .has_gradient = true, .thread_safe = true};
    return 0;
}

/* A component given x, its first coordinate, along the others: N(at + slope x, C C'). */
typedef struct {
    double at[MOST_BESIDE], slope[MOST_BESIDE]; /* [beside] */
    double squares, log_det;                    /* the sum of squares of C, and log |C| */
} conditional;

static conditional given_first(const wvgd_results *r, size_t j)
{
    size_t D = r->D;
    const double *mu = r->mu + j * D, *sd = r->sd + j * D, *L = r->chol ? r->chol + j * D * D : NULL;
    conditional c = {{0}, {0}, 0, 0};
    for (size_t k = 1; k < D; k++) {
        c.slope[k - 1] = L ? L[k * D] / L[0] : 0;
        c.at[k - 1] = mu[k] - c.slope[k - 1] * mu[0];
        c.log_det += log(L ? L[k * D + k] : sd[k]);
        for (size_t i = 1; i <= k; i++)
            c.squares += L ? L[k * D + i] * L[k * D + i] : i == k ? sd[k] * sd[k] : 0;
    }
    return c;
}

/* Nats by which it is worse than the best there, where x has this mean and variance. */
static double beside_loss(const conditional *c, double mean, double var)
{
    double v = narrow * narrow,
           loss = (c->squares / v - (double)beside) / 2 + (double)beside * log(narrow) - c->log_det;
    for (size_t k = 0; k < beside; k++) {
        double off = c->at[k] + c->slope[k] * mean;
        loss += (off * off + c->slope[k] * c->slope[k] * var) / (2 * v);
    }
    return loss;
}

/* A fitted ensemble, particles ascending. */
typedef struct {
    conditional other[MOST];                                                            /* [N] */
    double z[MOST], mu[MOST], sd[MOST], elbo[MOST], se[MOST], beta[MOST], weight[MOST]; /* [N] */
    double pelbo, pelbo_se, seconds;
    bool reliable;
} ensemble;

static ensemble fit_mixture(mixture *m, size_t N, uint64_t seed)
{
    ensemble e = {.seconds = now()};
    wvgd_model model;
    wvgd_results r;
    if (open_mixture(&model, m))
        die("no memory");
    wvgd_fit *fit = fit_model(&model, N, asked.family, seed, &r);
    for (size_t j = 0, D = r.D; j < N; j++) {
        size_t rank = 0;
        for (size_t k = 0; k < N; k++)
            rank += r.z[k * D] < r.z[j * D] || (r.z[k * D] == r.z[j * D] && k < j);
        e.z[rank] = r.z[j * D];
        e.mu[rank] = r.mu[j * D];
        e.sd[rank] = r.sd[j * D];
        e.other[rank] = given_first(&r, j);
        e.elbo[rank] = r.elbo[j];
        e.se[rank] = r.elbo_se[j];
        e.beta[rank] = r.beta[j];
        e.weight[rank] = r.weight[j];
    }
    e.pelbo = r.pelbo.value;
    e.pelbo_se = r.pelbo.se;
    e.reliable = r.reliable;
    wvgd_free(fit);
    wvgd_model_close(&model);
    e.seconds = now() - e.seconds;
    return e;
}

/* Nats by which the component of cell j is below the best there. */
static double loss_of(const oracle1d_target *t, size_t N, const ensemble *e, size_t j, oracle1d_best *best)
{
    oracle1d_interval cell = oracle1d_cell(N, e->z, j);
    *best = oracle1d_best_in(t, cell);
    oracle1d_component q = oracle1d_component_in(t, cell, e->mu[j], e->sd[j]);
    return best->elbo - q.elbo + beside_loss(&e->other[j], q.mean, q.var);
}

/* Losses of the cells of all fits with N particles. */
typedef struct {
    size_t n, fits;
    double *loss, seconds;
    double off; /* squares of (ELBO_j reported - exact) / se, summed */
} losses;

static void add_fit(losses *l, mixture *m, size_t N, uint64_t seed)
{
    oracle1d_target t = target_of(m);
    ensemble e = fit_mixture(m, N, seed);
    l->fits++;
    l->seconds += e.seconds;
    for (size_t j = 0; j < N; j++) {
        oracle1d_best best;
        double loss = loss_of(&t, N, &e, j, &best), z = (e.elbo[j] - best.elbo + loss) / hypot(e.se[j], 1e-4);
        l->loss[l->n++] = loss;
        l->off += z * z;
        if (fabs(z) > 6)
            printf("  mixture %llu, N = %zu, cell %zu: ELBO %.5f +- %.5f, exact %.5f\n", (unsigned long long)seed, N,
                   j + 1, e.elbo[j], e.se[j], best.elbo - loss);
        if (loss > 0.02)
            printf("  mixture %llu, N = %zu, cell %zu: %.4f below %.4f; mu %.3g sd %.3g, best %.3g %.3g; beta %.4f, "
                   "reliable %d\n",
                   (unsigned long long)seed, N, j + 1, loss, best.elbo, e.mu[j], e.sd[j], best.mu, best.sd, e.beta[j],
                   e.reliable);
    }
}

static void line(size_t mixtures, uint64_t seed)
{
    losses by[MOST + 1] = {{0}};
    for (size_t N = 2; N <= MOST; N++) {
        by[N].loss = calloc((mixtures / (MOST - 1) + 1) * N, sizeof(double));
        if (!by[N].loss)
            die("no memory");
    }
    for (size_t i = 0; i < mixtures; i++) {
        mixture m = random_mixture(seed + i);
        size_t N = 2 + i % (MOST - 1);
        add_fit(&by[N], &m, N, seed + i);
    }
    printf("   N  fits cells   median     90 %%     99 %%      max  > .02  > .1  z of ELBO_j   ms a fit\n");
    for (size_t N = 2; N <= MOST; N++) {
        losses *l = &by[N];
        size_t above = 0, far = 0;
        qsort(l->loss, l->n, sizeof *l->loss, ascending);
        for (size_t i = 0; i < l->n; i++) {
            above += l->loss[i] > 0.02;
            far += l->loss[i] > 0.1;
        }
        if (l->n)
            printf("%4zu %5zu %5zu %8.5f %8.5f %8.4f %8.4f %6zu %5zu %12.2f %10.1f\n", N, l->fits, l->n,
                   l->loss[l->n / 2], l->loss[l->n * 9 / 10], l->loss[l->n * 99 / 100], l->loss[l->n - 1], above, far,
                   sqrt(l->off / (double)l->n), 1e3 * l->seconds / (double)l->fits);
        free(l->loss);
    }
}

static void named(void)
{
    static struct {
        mixture m;
        size_t N;
    } cases[] = {{{{.00466, .35741, .29228, .04079, .30485},
                   {1.05819, -1.35738, 1.78502, .48774, .42437},
                   {.96551, .24039, .14947, .93655, .89014}},
                  7},
                 {{{.23789, .23264, .22727, .10675, .19545},
                   {-.12970, -1.66241, -.34054, -2.18969, -1.47930},
                   {.27326, .87163, .84458, .52722, .75329}},
                  4}};
    for (size_t c = 0; c < 2; c++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            size_t N = cases[c].N;
            oracle1d_best best;
            oracle1d_target t = target_of(&cases[c].m);
            ensemble e = fit_mixture(&cases[c].m, N, seed);
            double loss = loss_of(&t, N, &e, N - 1, &best), worst = loss;
            for (size_t j = 0; j + 1 < N; j++) {
                oracle1d_best other;
                worst = fmax(worst, loss_of(&t, N, &e, j, &other));
            }
            printf(
                "case %zu seed %llu: last cell %.4f below %.4f (mu %.4g sd %.4g, weight %.4f, beta %.4f), worst cell "
                "%.4f\n",
                c + 1, (unsigned long long)seed, loss, best.elbo, e.mu[N - 1], e.sd[N - 1], e.weight[N - 1],
                e.beta[N - 1], worst);
        }
}

/* ---- densities --------------------------------------------------------------------------------------------------- */
/* The integrated squared error of the best components on the optimal cells, with the masses as weights. */
static double best_density(const oracle1d_target *t, size_t N)
{
    double z[MOST], mu[MOST], sd[MOST], beta[MOST];
    oracle1d_quantizer(t, N, 40, z);
    for (size_t j = 0; j < N; j++) {
        oracle1d_interval cell = oracle1d_cell(N, z, j);
        oracle1d_best b = oracle1d_best_in(t, cell);
        mu[j] = b.mu;
        sd[j] = b.sd;
        beta[j] = oracle1d_posterior_in(t, cell).beta;
    }
    return oracle1d_ise(t, N, z, mu, sd, beta);
}

/* fresh: seed of the first fresh mixture. */
static void density(uint64_t seeds, uint64_t first)
{
    printf("   N   mixtures    optimum  ISE over it, weights beta   optimal weights\n");
    for (size_t N = 3; N <= 7; N++)
        for (int fresh = 0; fresh < 2; fresh++) {
            double best = 0, by_beta = 0, by_weight = 0;
            for (int i = 0; i < MIXTURE_TARGETS; i++) {
                mixture_table table;
                mixture m = random_mixture(first + (uint64_t)i);
                if (!fresh && mixture_table_read(&table, i))
                    for (size_t k = 0; k < K; k++) {
                        m.weight[k] = table.weight[k];
                        m.mean[k] = table.mean[k];
                        m.sd[k] = table.sd[k];
                    }
                oracle1d_target t = target_of(&m);
                best += best_density(&t, N);
                for (uint64_t seed = 1; seed <= seeds; seed++) {
                    ensemble e = fit_mixture(&m, N, seed);
                    by_beta += oracle1d_ise(&t, N, e.z, e.mu, e.sd, e.beta) / (double)seeds;
                    by_weight += oracle1d_ise(&t, N, e.z, e.mu, e.sd, e.weight) / (double)seeds;
                }
            }
            printf("%4zu %10s %10.6f %20.3f %22.3f\n", N, fresh ? "fresh" : "tests/data", best / MIXTURE_TARGETS,
                   by_beta / best, by_weight / best);
        }
}

/* ---- more dimensions --------------------------------------------------------------------------------------------- */
static void show_gap(const char *name, const wvgd_model *model, double log_evidence, uint64_t seed)
{
    static const size_t counts[] = {2, 5, 10};
    for (wvgd_family family = WVGD_DIAG; family <= WVGD_FULL; family++)
        for (size_t i = 0; i < 3; i++) {
            wvgd_results r;
            double begun = now();
            wvgd_fit *fit = fit_model(model, counts[i], family, seed, &r);
            printf("%-10s %2zu %5s %4zu %4llu %9.4f %8.4f %9.4f %8zu %8.1f\n", name, r.D,
                   family == WVGD_DIAG ? "diag" : "full", counts[i], (unsigned long long)seed,
                   log_evidence - r.pelbo.value, r.pelbo.se, log_evidence - r.pelbo_beta.value, r.evaluations,
                   1e3 * (now() - begun));
            fflush(stdout);
            wvgd_free(fit);
        }
}

static void gap(uint64_t seeds, size_t only, uint64_t first)
{
    static const size_t dims[] = {2, 5, 10};
    wvgd_model model;
    logistic_data data;
    logistic_truth truth;
    printf("target      D family  N seed       gap       se  gap beta    evals       ms\n");
    for (size_t i = 0; i < 3; i++)
        for (uint64_t seed = first; seed < first + seeds && (!only || only == dims[i]); seed++) {
            if (target_mixture_random(&model, dims[i], 5, 1.5, seed))
                die("no memory");
            show_gap("mixture", &model, 0, seed);
            wvgd_model_close(&model);
        }
    if (only && only != 31)
        return;
    if (!logistic_data_read(&data, "cancer", LOGISTIC_ALL_ROWS, true) ||
        !logistic_truth_read(&truth, "cancer", LOGISTIC_ALL_ROWS, true) ||
        target_logistic(&model, data.n, data.D, data.X, data.y))
        die("no data of cancer");
    for (uint64_t seed = first; seed < first + (seeds + 1) / 2; seed++)
        show_gap("cancer", &model, truth.log_evidence, seed);
    wvgd_model_close(&model);
    logistic_data_free(&data);
}

static size_t number(int argc, char **argv, int at, size_t otherwise)
{
    return argc > at && argv[at][0] != '-' ? strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    wvgd_error error;
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    wvgd_options_init(&asked);
    asked.cost = WVGD_SQEUCLID;
    asked.family = WVGD_DIAG;
    for (int i = 2; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--beside"))
            beside = number(argc, argv, i + 1, 0) <= MOST_BESIDE ? number(argc, argv, i + 1, 0) : MOST_BESIDE;
        else if (argv[i][0] == '-' && wvgd_options_set(&asked, argv[i] + 2, argv[i + 1], &error) != WVGD_OK)
            die(error.text);
    quantized = !strcmp(what, "quantize");
    if (!strcmp(what, "line") || quantized)
        line(number(argc, argv, 2, 1000), number(argc, argv, 3, 1));
    else if (!strcmp(what, "named"))
        named();
    else if (!strcmp(what, "density"))
        density(number(argc, argv, 2, 2), number(argc, argv, 3, 900000));
    else if (!strcmp(what, "gap"))
        gap(number(argc, argv, 2, 4), number(argc, argv, 3, 0), number(argc, argv, 4, 1));
    else
        die("expected line, quantize, named, density or gap");
    return 0;
}
