/* test_mixtures.c - fifteen random mixtures in one dimension, three, five and seven particles, from random starts,
 * with the joint solver: the cells against the optimal quantizer, the ensemble's density against that of the best
 * truncated Gaussians on the optimal cells (deterministic optima from tests/data), and everything that a fit
 * reports about itself against quadrature. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/mixture_tables.h"
#include "support/oracle1d.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { STARTS = 1, LEAST = 3, MOST = 7 };

/* A fitted ensemble, particles ascending, and what it reports. */
typedef struct {
    double z[MIXTURE_MAX], mu[MIXTURE_MAX], sd[MIXTURE_MAX], weight[MIXTURE_MAX], beta[MIXTURE_MAX],
        beta_se[MIXTURE_MAX]; /* [N] */
    wvgd_estimate pelbo, evidence, distortion;
} ensemble;

static void sort_into(ensemble *e, const wvgd_results *r)
{
    for (size_t j = 0; j < r->N; j++) {
        size_t rank = 0;
        for (size_t k = 0; k < r->N; k++)
            rank += r->z[k] < r->z[j] || (r->z[k] == r->z[j] && k < j);
        e->z[rank] = r->z[j];
        e->mu[rank] = r->mu[j];
        e->sd[rank] = r->sd[j];
        e->weight[rank] = r->weight[j];
        e->beta[rank] = r->beta[j];
        e->beta_se[rank] = r->beta_se[j];
    }
    e->pelbo = r->pelbo;
    e->evidence = r->evidence;
    e->distortion = r->distortion;
}

static ensemble fit_mixture(const mixture_table *m, size_t N, uint64_t seed)
{
    ensemble e;
    wvgd_model model;
    wvgd_options o;
    wvgd_results r;
    wvgd_error error;
    double z0[MIXTURE_MAX];
    assert_int_equal(target_mixture_1d(&model, m->K, m->weight, m->mean, m->sd), 0);
    test_random random = test_random_seed(seed);
    for (size_t j = 0; j < N; j++)
        z0[j] = 2.0 * test_random_normal(&random);
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = N;
    o.cost = WVGD_SQEUCLID;
    o.family = WVGD_DIAG;
    o.seed = seed;
    wvgd_fit *fit = wvgd_new(&model, &o, z0, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    sort_into(&e, &r);
    wvgd_free(fit);
    model.close(model.self);
    return e;
}

/* ---- cells and density ------------------------------------------------------------------------------------------- */
/* What is counted over runs: those within 3 % of the optimal distortion, integrated squared errors, and bounds. */
typedef struct {
    int runs, near;
    double ise, best_ise, pelbo, best_pelbo;
} counts;

static void count(counts *c, const oracle1d_target *target, const mixture_truth *truth, const ensemble *e)
{
    c->runs++;
    c->near += oracle1d_distortion(target, truth->N, e->z) <= 1.03 * truth->distortion;
    c->ise += oracle1d_ise(target, truth->N, e->z, e->mu, e->sd, e->beta);
    c->best_ise += truth->ise;
    c->pelbo += e->pelbo.value;
    c->best_pelbo += truth->pelbo;
}

static void show(const char *what, size_t N, const counts *c)
{
    print_message("%s%zu: distortion within 3 %% of the optimum in %d of %d runs, density error %.3f times the "
                  "optimum's, PELBO %.4f (optimum %.4f)\n",
                  what, N, c->near, c->runs, c->ise / c->best_ise, c->pelbo / c->runs, c->best_pelbo / c->runs);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */
/* Sums of squared z-scores. */
typedef struct {
    size_t n;
    double squares;
} scores;

static void add(scores *s, double value, double se, double exact)
{
    s->n++;
    s->squares += (value - exact) * (value - exact) / (se * se);
}

static double root_mean_square(const scores *s)
{
    return sqrt(s->squares / (double)s->n);
}

static struct {
    counts by_N[MOST + 1], all;
    scores pelbo, evidence, distortion, beta;
    double above; /* most standard errors by which a bound is above the evidence */
} seen;

/* What a fit says of itself, against quadrature for the very state that it describes. The mixtures
 * are normalised: the log evidence is 0. */
static void compare(const oracle1d_target *target, size_t N, const ensemble *e)
{
    double elbo[MIXTURE_MAX];
    for (size_t j = 0; j < N; j++) {
        oracle1d_interval cell = oracle1d_cell(N, e->z, j);
        elbo[j] = oracle1d_component_in(target, cell, e->mu[j], e->sd[j]).elbo;
        add(&seen.beta, e->beta[j], e->beta_se[j], oracle1d_posterior_in(target, cell).beta);
    }
    add(&seen.pelbo, e->pelbo.value, e->pelbo.se, oracle1d_pelbo(N, elbo, e->weight));
    add(&seen.evidence, e->evidence.value, e->evidence.se, 0);
    add(&seen.distortion, e->distortion.value, e->distortion.se, oracle1d_distortion(target, N, e->z));
    seen.above = fmax(seen.above, e->pelbo.value / e->pelbo.se);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */
static int fit_all(void **state)
{
    (void)state;
    for (size_t N = LEAST; N <= MOST; N += 2)
        for (int t = 0; t < MIXTURE_TARGETS; t++) {
            mixture_table m;
            mixture_truth truth;
            assert_true(mixture_table_read(&m, t));
            assert_true(mixture_truth_read(&truth, t, N));
            oracle1d_target target = {m.K, m.weight, m.mean, m.sd};
            for (int start = 0; start < STARTS; start++) {
                ensemble e = fit_mixture(&m, N, (uint64_t)(1000 * start + 100 * t) + N);
                count(&seen.by_N[N], &target, &truth, &e);
                count(&seen.all, &target, &truth, &e);
                compare(&target, N, &e);
            }
        }
    return 0;
}

static void near_the_optimum(void **state)
{
    (void)state;
    for (size_t N = LEAST; N <= MOST; N += 2)
        show("N = ", N, &seen.by_N[N]);
    show("all up to N = ", MOST, &seen.all);
    assert_true(100 * seen.all.near >= 95 * seen.all.runs);
    assert_true(seen.all.ise <= 1.25 * seen.all.best_ise);
}

/* 45 z-scores tell a standard deviation to 11 %: bounds of 0.7 and 1.35 are three times that. */
static void reports_are_calibrated(void **state)
{
    (void)state;
    double pelbo = root_mean_square(&seen.pelbo), evidence = root_mean_square(&seen.evidence),
           distortion = root_mean_square(&seen.distortion), beta = root_mean_square(&seen.beta);
    print_message("z-scores against quadrature, root mean square: PELBO %.3f, evidence %.3f, distortion %.3f, masses "
                  "%.3f; PELBO at most %.2f standard errors above the evidence\n",
                  pelbo, evidence, distortion, beta, seen.above);
    assert_true(pelbo > 0.7 && pelbo < 1.35);
    assert_true(evidence > 0.7 && evidence < 1.35);
    assert_true(distortion > 0.7 && distortion < 1.35);
    assert_true(beta > 0.7 && beta < 1.35);
    assert_true(seen.above < 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(near_the_optimum), cmocka_unit_test(reports_are_calibrated)};
    return cmocka_run_group_tests(tests, fit_all, NULL);
}
