/* test_bound.c - the bounds are bounds, and the standard errors that come with bounds, evidence
 * and masses are those errors.
 *
 * 120 random Gaussian mixtures with known evidence, the joint solver with every family, sampler, kind of
 * cell, cost and estimator in turn, stopped after few iterations: nothing here needs a good fit. The state
 * just before the final draws goes to a fit with another seed; finishing both gives two independent sets of results
 * for the same components, cells and weights. Masses are compared with exact draws of the target. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/edited_state.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { PROBLEMS = 120, MAX_D = 10, MAX_N = 10, MAX_K = 5 };

/* ---- targets that can be drawn from ------------------------------------------------------------------------------ */
typedef struct {
    size_t D, K;
    double log_evidence;
    /* [K], [K][D], [K][D][D] covariance = root root' */
    double weight[MAX_K], mean[MAX_K * MAX_D], root[MAX_K * MAX_D * MAX_D];
    wvgd_model model;
} mixture;

/* K components with means of N(0, 4) and correlated covariances; the weights sum to something else than 1. */
static void make_mixture(mixture *m, size_t D, size_t K, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    double cov[MAX_K * MAX_D * MAX_D], total = 0;
    m->D = D;
    m->K = K;
    for (size_t k = 0; k < K; k++) {
        double *A = m->root + k * D * D, *C = cov + k * D * D;
        total += m->weight[k] = 0.5 + 4 * test_random_uniform(&r);
        for (size_t i = 0; i < D; i++)
            m->mean[k * D + i] = 2 * test_random_normal(&r);
        for (size_t i = 0; i < D * D; i++)
            A[i] = 0.5 * test_random_normal(&r) / sqrt((double)D) + (i % (D + 1) == 0 ? 0.7 : 0);
        for (size_t i = 0; i < D; i++)
            for (size_t l = 0; l < D; l++) {
                C[i * D + l] = i == l ? 0.01 : 0; /* so that no direction is too narrow for the others' scale */
                for (size_t s = 0; s < D; s++)
                    C[i * D + l] += A[i * D + s] * A[l * D + s];
            }
    }
    m->log_evidence = log(total);
    assert_int_equal(target_mixture(&m->model, D, K, m->weight, m->mean, cov), 0);
}

/* x[D]: a draw from the normalised mixture. */
static void draw(const mixture *m, test_random *r, double *x)
{
    double u = test_random_uniform(r) * exp(m->log_evidence), y[MAX_D];
    size_t k = 0, D = m->D;
    for (; k + 1 < m->K && u > m->weight[k]; k++)
        u -= m->weight[k];
    test_random_normals(r, D, y);
    for (size_t i = 0; i < D; i++) {
        x[i] = m->mean[k * D + i] + 0.1 * test_random_normal(r);
        for (size_t l = 0; l < D; l++)
            x[i] += m->root[(k * D + i) * D + l] * y[l];
    }
}

/* ---- two closings of one state ----------------------------------------------------------------------------------- */
typedef struct {
    size_t N;
    wvgd_estimate pelbo, pelbo_beta, evidence;
    double beta[MAX_N], beta_se[MAX_N];
} closing;

static closing finish(wvgd_fit *fit)
{
    closing c;
    wvgd_results r;
    wvgd_error error;
    if (wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    c = (closing){.N = r.N, .pelbo = r.pelbo, .pelbo_beta = r.pelbo_beta, .evidence = r.evidence};
    memcpy(c.beta, r.beta, r.N * sizeof *c.beta);
    memcpy(c.beta_se, r.beta_se, r.N * sizeof *c.beta_se);
    return c;
}

/* Both closings draw from the same state: the trial is over, so components, cells, ensemble
 * weights and proposal are fixed. */
static void finish_twice(wvgd_fit *fit, wvgd_fit *other, closing out[2])
{
    wvgd_error error;
    wvgd_progress p;
    uint64_t trial = 0;
    for (bool begun = false; !begun || edited_state_stage(fit) == trial;) {
        if (wvgd_step(fit, &error) != WVGD_OK)
            fail_msg("%s", error.text);
        wvgd_get_progress(fit, &p);
        if (!begun && !strcmp(p.stage, "close")) { /* the trial, which the final draws follow */
            begun = true;
            trial = edited_state_stage(fit);
        }
    }
    assert_string_equal(p.stage, "close");
    if (edited_state_move(other, fit, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    out[0] = finish(fit);
    out[1] = finish(other);
}

/* L[D][D]: lower Cholesky factor of C, in place. */
static void factor(size_t D, double *C)
{
    for (size_t k = 0; k < D; k++)
        for (size_t i = k; i < D; i++) {
            for (size_t l = 0; l < k; l++)
                C[i * D + k] -= C[i * D + l] * C[k * D + l];
            C[i * D + k] = i == k ? sqrt(C[i * D + k]) : C[i * D + k] / C[k * D + k];
        }
}

static double gaussian(size_t D, const double *x, const double *mu, const double *L)
{
    double y[MAX_D], log_q = -0.5 * (double)D * log(2 * acos(-1));
    for (size_t i = 0; i < D; i++) {
        y[i] = x[i] - mu[i];
        for (size_t k = 0; k < i; k++)
            y[i] -= L[i * D + k] * y[k];
        y[i] /= L[i * D + i];
        log_q -= y[i] * y[i] / 2 + log(L[i * D + i]);
    }
    return exp(log_q);
}

/* Does the closing proposal m cover the target? Largest p/m among 2,000 exact draws from the target p, where m is most
 * of the proposal: components, and Gaussians around the particles with the covariance of the cells, without the heavier
 * tails. A missed mode or a tail shows here. */
static double largest_ratio(const mixture *m, const wvgd_fit *fit, uint64_t seed)
{
    enum { DRAWS = 2000 };
    test_random random = test_random_seed(seed);
    wvgd_results r;
    size_t D = m->D, square = D * D;
    double L[2][MAX_N][MAX_D * MAX_D] = {0}, largest = 0, x[MAX_D], log_p;
    wvgd_get_results(fit, &r);
    bool full = r.chol != NULL;
    for (size_t j = 0; j < r.N; j++) {
        assert_int_equal(wvgd_component_cov(fit, j, L[0][j], NULL), WVGD_OK);
        for (size_t i = 0; i < square; i++)
            L[1][j][i] = full ? r.cell_cov[j * square + i] : i % (D + 1) ? 0 : r.cell_cov[j * D + i / D];
        factor(D, L[0][j]);
        factor(D, L[1][j]);
    }
    for (size_t i = 0; i < DRAWS; i++) {
        double density = 0;
        draw(m, &random, x);
        for (size_t j = 0; j < r.N; j++)
            density += 0.4 * (0.9 * r.weight[j] + 0.1 / (double)r.N) *
                       (gaussian(D, x, r.mu + j * D, L[0][j]) + gaussian(D, x, r.z + j * D, L[1][j]));
        assert_int_equal(m->model.log_density(m->model.self, 1, x, &log_p, NULL), 0);
        largest = fmax(largest, exp(log_p - m->log_evidence) / density);
    }
    return largest;
}

/* truth[N]: masses of the cells, by exact draws from the target, which are so many. */
enum { CHECKS = 20000 };
static void true_masses(const mixture *m, const wvgd_fit *fit, uint64_t seed, double *truth)
{
    static double x[CHECKS * MAX_D];
    static size_t cell[CHECKS];
    test_random r = test_random_seed(seed);
    memset(truth, 0, MAX_N * sizeof *truth);
    for (size_t i = 0; i < CHECKS; i++)
        draw(m, &r, x + i * m->D);
    assert_int_equal(wvgd_cell(fit, CHECKS, x, cell, NULL), WVGD_OK);
    for (size_t i = 0; i < CHECKS; i++)
        truth[cell[i]] += 1.0 / CHECKS;
}

/* ---- moments of what was seen ------------------------------------------------------------------------------------ */
typedef struct {
    size_t n;
    double sum, squares;
} tally;

static void add(tally *t, double x)
{
    t->n++;
    t->sum += x;
    t->squares += x * x;
}

static double mean(const tally *t)
{
    return t->sum / (double)t->n;
}
static double sd(const tally *t)
{
    return sqrt((t->squares - t->sum * mean(t)) / (double)(t->n - 1));
}
static double root_mean_square(const tally *t)
{
    return sqrt(t->squares / (double)t->n);
}

/* ---- random mixtures --------------------------------------------------------------------------------------------- */
static wvgd_options options_of(size_t i)
{
    static const wvgd_cost costs[] = {WVGD_SQEUCLID, WVGD_MAHALANOBIS, WVGD_OWN, WVGD_L1};
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = 1 + (7 * i + i / 10) % MAX_N;
    o.family = (wvgd_family)(i % 3);
    o.rank = 2;
    o.sampler = (wvgd_sampler)(i / 3 % 2);
    o.cells = (wvgd_cells)(i / 6 % 2);
    o.cost = costs[i / 2 % 4];
    o.estimator = (wvgd_estimator)(i / 4 % 3);
    if (o.estimator == WVGD_REPARAM && o.family == WVGD_LOWRANK)
        o.estimator = WVGD_NATURAL; /* there is no such estimator */
    o.init_scale = 3;
    o.max_iter = 45;
    o.evidence_se = 0.05;
    o.seed = i + 1;
    return o;
}

/* Differences between two closings of one state, in their standard errors. A fit without noise has a standard error
 * of rounding size: both bounds agree then. */
static void compare_bounds(const wvgd_estimate *a, const wvgd_estimate *b, tally *z)
{
    double noise = hypot(a->se, b->se);
    if (noise < 1e-9)
        assert_near(a->value, b->value, 1e-9);
    else
        add(z, (a->value - b->value) / noise);
}

static struct {
    tally gap, gain;                 /* PELBO - log evidence, PELBO - PELBO(beta) */
    double above, above_beta, below; /* in standard errors: bounds above the evidence, PELBO below PELBO(beta) */
    tally pelbo, pelbo_beta, evidence, beta; /* z-scores */
    size_t covered;
} seen;

static void see(const mixture *m, const wvgd_fit *fit, const closing c[2], uint64_t seed)
{
    bool covered = largest_ratio(m, fit, seed) < 50;
    double truth[MAX_N];
    for (int i = 0; i < 2; i++) {
        double noise = hypot(c[i].pelbo.se, c[i].pelbo_beta.se) + 1e-9;
        seen.above = fmax(seen.above, (c[i].pelbo.value - m->log_evidence) / (c[i].pelbo.se + 1e-9));
        seen.above_beta = fmax(seen.above_beta,
                               (c[i].pelbo_beta.value - m->log_evidence) / (c[i].pelbo_beta.se + 1e-9));
        seen.below = fmax(seen.below, (c[i].pelbo_beta.value - c[i].pelbo.value) / noise);
        if (covered)
            add(&seen.evidence, (c[i].evidence.value - m->log_evidence) / c[i].evidence.se);
    }
    add(&seen.gap, c[0].pelbo.value - m->log_evidence);
    add(&seen.gain, c[0].pelbo.value - c[0].pelbo_beta.value);
    compare_bounds(&c[0].pelbo, &c[1].pelbo, &seen.pelbo);
    compare_bounds(&c[0].pelbo_beta, &c[1].pelbo_beta, &seen.pelbo_beta);
    seen.covered += covered;
    if (!covered || c[0].N == 1)
        return;
    true_masses(m, fit, seed, truth);
    for (size_t j = 0; j < c[0].N; j++)
        if (c[0].beta[j] > 0.01) /* others are too light for a normal approximation */
            add(&seen.beta,
                (c[0].beta[j] - truth[j]) / hypot(c[0].beta_se[j], sqrt(truth[j] * (1 - truth[j]) / CHECKS)));
}

static int fit_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROBLEMS; i++) {
        mixture m;
        closing c[2];
        wvgd_error error;
        wvgd_options o = options_of(i);
        make_mixture(&m, 1 + i % MAX_D, 1 + i % MAX_K, i + 1);
        wvgd_fit *fit = wvgd_new(&m.model, &o, NULL, &error);
        o.seed ^= 0x9e3779b97f4a7c15u;
        wvgd_fit *other = wvgd_new(&m.model, &o, NULL, &error);
        if (!fit || !other)
            fail_msg("%s", error.text);
        finish_twice(fit, other, c);
        see(&m, fit, c, i + 1);
        wvgd_free(fit);
        wvgd_free(other);
        m.model.close(m.model.self);
    }
    return 0;
}

/* PELBO <= log evidence, on average within 3 standard errors of the average, and in each of 480
 * bounds within 4 of its own. */
static void bound_is_a_bound(void **state)
{
    (void)state;
    double se = sd(&seen.gap) / sqrt(PROBLEMS);
    print_message(
        "PELBO - log evidence: mean %.4f +- %.4f; at most %.2f standard errors above it (weights beta: %.2f)\n",
        mean(&seen.gap), se, seen.above, seen.above_beta);
    assert_true(mean(&seen.gap) <= 3 * se);
    assert_true(seen.above <= 4);
    assert_true(seen.above_beta <= 4);
}

/* The best weights, chosen on other draws, are hardly worse than weight beta even with the noise of that choice. */
static void best_weights_are_best(void **state)
{
    (void)state;
    print_message("PELBO - PELBO(beta): mean %.4f; at most %.2f standard errors below\n", mean(&seen.gain), seen.below);
    assert_true(mean(&seen.gain) >= 0);
    assert_true(seen.below <= 4);
}

/* 120 z-scores tell a standard deviation to 6.5 %, those of the evidence to 7 %, the masses (dependent within
 * a fit) to about 6 %: bounds of 0.75 and 1.3 are four times that. The standard errors of masses ignore that
 * every component makes a fixed number of draws, which takes noise away where components agree with cells:
 * down to 0.6, but no more than 1.3 either. */
static void errors_are_calibrated(void **state)
{
    (void)state;
    double pelbo = root_mean_square(&seen.pelbo), pelbo_beta = root_mean_square(&seen.pelbo_beta),
           evidence = root_mean_square(&seen.evidence), beta = root_mean_square(&seen.beta);
    print_message("z-scores, root mean square: PELBO %.3f (%zu), PELBO(beta) %.3f, evidence %.3f (%zu of %d fits "
                  "cover the target; mean %.3f), masses %.3f (%zu)\n",
                  pelbo, seen.pelbo.n, pelbo_beta, evidence, seen.covered, PROBLEMS, mean(&seen.evidence), beta,
                  seen.beta.n);
    assert_true(pelbo > 0.75 && pelbo < 1.3);
    assert_true(pelbo_beta > 0.75 && pelbo_beta < 1.3);
    assert_true(seen.covered > PROBLEMS / 3);
    assert_true(evidence > 0.75 && evidence < 1.3);
    assert_true(beta > 0.6 && beta < 1.3);
}

/* ---- more particles ---------------------------------------------------------------------------------------------- */
/* Diagonal components on a Gaussian with correlation 0.95: one loses log(1 - 0.95^2)/2 = -1.164
 * nats, more lose less. */
static void more_particles_are_better(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 4, 8};
    const double zero[2] = {0, 0}, cov[4] = {1, 0.95, 0.95, 1}, alone = 0.5 * log(1 - 0.95 * 0.95);
    wvgd_model model;
    wvgd_results before = {0}, r;
    assert_int_equal(target_gaussian_cov(&model, 2, zero, cov, true), 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        wvgd_options o;
        wvgd_error error;
        wvgd_options_init(&o);
        o.solver = WVGD_JOINT;
        o.particles = counts[i];
        o.family = WVGD_DIAG;
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
        if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
            fail_msg("%s", error.text);
        wvgd_get_results(fit, &r);
        print_message("correlation 0.95, diag, N = %zu: PELBO %.4f +- %.4f, with weight beta %.4f +- %.4f\n", counts[i],
                      r.pelbo.value, r.pelbo.se, r.pelbo_beta.value, r.pelbo_beta.se);
        if (i == 0) {
            assert_near(r.pelbo.value, alone, 4 * r.pelbo.se + o.tol);
            assert_near(r.pelbo_beta.value, alone, 4 * r.pelbo_beta.se + o.tol);
        } else { /* by more than noise */
            assert_true(r.pelbo.value - before.pelbo.value > 4 * hypot(r.pelbo.se, before.pelbo.se));
            assert_true(r.pelbo_beta.value - before.pelbo_beta.value >
                        4 * hypot(r.pelbo_beta.se, before.pelbo_beta.se));
        }
        assert_true(r.pelbo.value < 4 * r.pelbo.se);
        before = r;
        wvgd_free(fit);
    }
    model.close(model.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_is_a_bound),
        cmocka_unit_test(best_weights_are_best),
        cmocka_unit_test(errors_are_calibrated),
        cmocka_unit_test(more_particles_are_better),
    };
    return cmocka_run_group_tests(tests, fit_all, NULL);
}
