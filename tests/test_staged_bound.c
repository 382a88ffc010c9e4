/* test_staged_bound.c - bounds of the staged solver, masses of its components and what cheap evaluations are used
 * for, against exact ELBOs, fresh draws of the ensemble and the evidence. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/edited_state.h"
#include "support/fitted.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "weights.h"
#include "wvgd.h"

static int note_walks(void *self, const wvgd_progress *p)
{
    *(bool *)self |= !strcmp(p->stage, "probe");
    return 0;
}

/* The bound of a fit from so many draws of its ensemble, and its standard error. */
static wvgd_estimate independent_bound(const wvgd_fit *fit, const wvgd_model *model, size_t n)
{
    double *x = malloc(n * model->dim * sizeof *x), *log_p = malloc(n * sizeof *log_p),
           *log_q = malloc(n * sizeof *log_q), mean = 0, squares = 0;
    assert_int_equal(wvgd_sample(fit, 99, n, x, NULL, NULL), WVGD_OK);
    assert_int_equal(wvgd_log_q(fit, n, x, log_q, NULL), WVGD_OK);
    assert_int_equal(model->log_density(model->self, n, x, log_p, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        mean += (log_p[i] - log_q[i]) / (double)n;
        squares += (log_p[i] - log_q[i]) * (log_p[i] - log_q[i]) / (double)n;
    }
    free(x);
    free(log_p);
    free(log_q);
    return (wvgd_estimate){mean, sqrt((squares - mean * mean) / (double)n)};
}

/* Where a model says that its evaluations are cheap, more of them are drawn instead of components grown, walks look
 * at the tails all the same, the evidence is right, and the bound is told more precisely. */
static void cheap_evaluations(void **state)
{
    (void)state;
    enum { SEEDS = 10, D = 12 };
    double shape[D], squares[2] = {0, 0}, bounds[2] = {0, 0}, errors[2] = {0, 0};
    size_t components[2] = {0, 0}, evaluations[2] = {0, 0}, fewest[2] = {SIZE_MAX, SIZE_MAX}, walks = 0;
    for (size_t i = 0; i < D; i++)
        shape[i] = 5;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int cheap = 0; cheap < 2; cheap++) {
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(2, seed);
            o.bend = WVGD_BEND_NEVER; /* a mixture that grows, or does not */
            assert_int_equal(target_log_gamma(&model, D, shape), 0);
            model.work = cheap ? 200 : 0;
            wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
            bool walked = false;
            assert_int_equal(wvgd_run(fit, note_walks, &walked, NULL), WVGD_OK);
            wvgd_get_results(fit, &r);
            walks += cheap && walked;
            fewest[cheap] = r.closing_draws < fewest[cheap] ? r.closing_draws : fewest[cheap];
            double z = (r.evidence.value - target_truth_of(&model).log_evidence) / r.evidence.se;
            squares[cheap] += z * z;
            wvgd_estimate bound = independent_bound(fit, &model, 4000);
            z = (r.pelbo.value - bound.value) / hypot(r.pelbo.se, bound.se);
            bounds[cheap] += z * z;
            errors[cheap] += r.pelbo.se / SEEDS;
            components[cheap] += r.components;
            evaluations[cheap] += r.evaluations;
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
    print_message("components, evaluations, rms z: %zu, %zu, %.2f; where evaluations are cheap %zu, %zu, %.2f\n",
                  components[0] / SEEDS, evaluations[0] / SEEDS, sqrt(squares[0] / SEEDS), components[1] / SEEDS,
                  evaluations[1] / SEEDS, sqrt(squares[1] / SEEDS));
    print_message("error of the bound, rms z: %.4f, %.2f; where evaluations are cheap %.4f, %.2f\n", errors[0],
                  sqrt(bounds[0] / SEEDS), errors[1], sqrt(bounds[1] / SEEDS));
    assert_true(components[0] > 2 * SEEDS);
    assert_true(components[1] < components[0] / 2);
    assert_true(walks > SEEDS / 2);
    assert_true(fewest[0] < 1500 && fewest[1] > 2000);
    assert_true(sqrt(squares[1] / SEEDS) < 1 + 4 / sqrt(2 * SEEDS));
    assert_true(errors[1] < 0.75 * errors[0]); /* five times as many draws, with a mixture of one as control */
    for (int cheap = 0; cheap < 2; cheap++)
        assert_true(sqrt(bounds[cheap] / SEEDS) < 1 + 4 / sqrt(2 * SEEDS));
}

/* ELBO of a Gaussian for independent log-gamma variables: E[a z - exp z] is a mu - exp(mu + C_ii/2). */
static double log_gamma_elbo(size_t D, const double *shape, const double *mu, const double *root)
{
    double elbo = 0;
    for (size_t i = 0; i < D; i++) {
        double variance = 0;
        for (size_t k = 0; k <= i; k++)
            variance += root[i * D + k] * root[i * D + k];
        elbo += shape[i] * mu[i] - exp(mu[i] + variance / 2) - lgamma(shape[i]) + log(root[i * D + i]) +
                0.5 * log(2 * M_PI * M_E);
    }
    return elbo;
}

/* The bound of one component is its ELBO, which is known exactly here, on average and within its errors: controls
 * that are fitted to the draws they are used on would raise it. */
static void bound_of_one(void **state)
{
    (void)state;
    enum { SEEDS = 400, D = 12 };
    double shape[D], sum = 0, variance = 0, squares = 0;
    for (size_t i = 0; i < D; i++)
        shape[i] = 1;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(1, seed);
        o.evidence_se = 0.5; /* what it takes to know the evidence does not matter here */
        o.bend = WVGD_BEND_NEVER;
        assert_int_equal(target_log_gamma(&model, D, shape), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        double off = r.pelbo.value - log_gamma_elbo(D, shape, r.mu, r.chol);
        sum += off;
        variance += r.pelbo.se * r.pelbo.se;
        squares += off * off / (r.pelbo.se * r.pelbo.se);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("bound of one component: off by %.5f (%.5f) on average, rms z %.2f\n", sum / SEEDS,
                  sqrt(variance) / SEEDS, sqrt(squares / SEEDS));
    assert_true(fabs(sum) < 3 * sqrt(variance));
    assert_true(sqrt(squares / SEEDS) < 1 + 4 / sqrt(2 * SEEDS));
}

/* The bound of many components is that of fresh draws of the ensemble, on average: weights that come of the
 * draws that judge them would raise it. */
static void bound_of_many(void **state)
{
    (void)state;
    enum { SEEDS = 10, D = 8, N = 60 };
    double shape[D], sum = 0, variance = 0;
    for (size_t i = 0; i < D; i++)
        shape[i] = 2;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(N, seed);
        assert_int_equal(target_log_gamma(&model, D, shape), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        wvgd_estimate bound = independent_bound(fit, &model, 2000);
        sum += r.pelbo.value - bound.value;
        variance += r.pelbo.se * r.pelbo.se + bound.se * bound.se;
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("bound of %d components: off by %.4f (%.4f) on average\n", N, sum / SEEDS, sqrt(variance) / SEEDS);
    assert_true(fabs(sum) < 3 * sqrt(variance));
}

/* On a sharply bent ridge steps may lead a component out of its cell, and what the stored draws tell of it must not
 * weigh. Bounds stay below the evidence, and near it. */
static void bounds_of_bent_ridges(void **state)
{
    (void)state;
    enum { SEEDS = 12, CASES = 2 };
    static const struct {
        size_t D, N;
        double bend;
    } cases[CASES] = {{8, 30, 0.6}, {5, 30, 1}};
    for (size_t c = 0; c < CASES; c++) {
        double lowest = INFINITY, highest = -INFINITY, mean = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(cases[c].N, seed);
            o.cost = WVGD_SQEUCLID;
            assert_int_equal(target_banana(&model, cases[c].D, 3, cases[c].bend), 0);
            wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
            assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
            wvgd_get_results(fit, &r);
            double off = r.pelbo.value - target_truth_of(&model).log_evidence;
            lowest = fmin(lowest, off);
            highest = fmax(highest, off - 3 * r.pelbo.se);
            mean += off / SEEDS;
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
        print_message("bent ridge in %zu dimensions, %zu particles: bounds %.4f on average, from %.3f, at most %.3f "
                      "less 3 standard errors\n",
                      cases[c].D, cases[c].N, mean, lowest, highest);
        assert_true(lowest > -1 && highest < 0);
    }
}

/* All cells of a normal posterior have one component, the mixture, whose masses there are those of the points that
 * placed the particles: they sum to 1, and are what other draws say. */
static void masses_of_the_mixture(void **state)
{
    (void)state;
    enum { D = 8, N = 12, DRAWS = 100000 };
    wvgd_model model;
    wvgd_results r;
    wvgd_options o = staged_options(N, 3);
    test_random random = test_random_seed(4);
    double mean[D] = {0}, sd[D], cov[D * D] = {0}, x[D], total = 0, squares = 0;
    size_t count[N] = {0};
    for (size_t i = 0; i < D; i++) {
        sd[i] = 1 + 0.1 * (double)i;
        cov[i * (D + 1)] = sd[i] * sd[i];
    }
    o.cost = WVGD_SQEUCLID;
    assert_int_equal(target_gaussian_cov(&model, D, mean, cov, true), 0);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    wvgd_get_results(fit, &r);
    assert_int_equal(r.components, 1);
    for (size_t i = 0; i < DRAWS; i++) {
        double least = INFINITY;
        size_t at = 0;
        test_random_normals(&random, D, x);
        for (size_t j = 0; j < N; j++) {
            double cost = 0;
            for (size_t k = 0; k < D; k++)
                cost += (sd[k] * x[k] - r.z[j * D + k]) * (sd[k] * x[k] - r.z[j * D + k]);
            at = cost < least ? j : at;
            least = fmin(least, cost);
        }
        count[at]++;
    }
    for (size_t j = 0; j < N; j++) {
        /* some ten thousand points */
        double n = (double)count[j], z = (r.log_Z[j] - log(n / DRAWS)) / sqrt(1 / n + 1 / (1e4 * n / DRAWS));
        total += exp(r.log_Z[j]);
        squares += z * z;
    }
    print_message("masses of the mixture: sum %.15g, rms z %.2f\n", total, sqrt(squares / N));
    assert_near(total, 1, 1e-12);
    assert_true(sqrt(squares / N) < 1 + 4 / sqrt(2 * N));
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* A component that hardly reaches into its cell has a mass there that few draws tell, and an ELBO that may be
 * anything. One above the log mass of the cell cannot be, and gets no weight. */
static void impossible_bounds_have_no_weight(void **state)
{
    (void)state;
    size_t odd = 0; /* the cell that its component reaches best: no pool finds its mass again */
    wvgd_model model;
    wvgd_results r;
    wvgd_progress p;
    wvgd_options o = staged_options(5, 1);
    assert_int_equal(target_log_gamma(&model, 4, (const double[]){2, 2, 2, 2}), 0);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
    for (wvgd_get_progress(fit, &p); strcmp(p.stage, "bound"); wvgd_get_progress(fit, &p))
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    double before[5], after[5];
    wvgd_get_results(fit, &r);
    memcpy(before, r.log_Z, sizeof before);
    memcpy(after, r.log_Z, sizeof after);
    for (size_t j = 1; j < 5; j++)
        odd = r.log_Z[j] > r.log_Z[odd] ? j : odd;
    after[odd] += 8;
    assert_int_equal(edited_state_replace(fit, 5, before, after), 1);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    wvgd_get_results(fit, &r);
    print_message("a mass that is 8 nats too large: weight %.3f, bound %.3f +- %.3f, evidence %.3f\n", r.weight[odd],
                  r.pelbo.value, r.pelbo.se, r.evidence.value);
    assert_true(r.weight[odd] == 0);
    bool said = false;
    for (size_t i = 0; i < r.warnings; i++)
        said |= strstr(r.warning[i], "have no bound") != NULL;
    assert_true(said);
    assert_true(r.pelbo.value < target_truth_of(&model).log_evidence + 3 * r.pelbo.se);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* The density of a log gamma variable of shape 2 in each of three dimensions, cut off where the first is above 0.7. */
static double cut(void *self, const double *z, double *grad)
{
    (void)self;
    double sum = 0;
    for (size_t i = 0; i < 3; i++) {
        sum += 2 * z[i] - exp(z[i]);
        if (grad)
            grad[i] = 2 - exp(z[i]);
    }
    return z[0] > 0.7 ? -INFINITY : sum;
}

static double quadratic(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < dim; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        if (grad_a)
            grad_a[i] = 2 * (a[i] - b[i]);
    }
    return sum;
}

/* What is said of cells against sums over the closing draws: masses (a callback has no control), their standard
 * errors, effective sizes, and k-hat of the draws of each alone. */
static void diagnostics_of_cells(void **state)
{
    (void)state;
    enum { D = 3, N = 4 };
    wvgd_model model;
    wvgd_options o = staged_options(N, 1);
    wvgd_results r;
    o.cost = WVGD_CALLBACK;
    o.cost_function = quadratic;
    assert_int_equal(target_banana(&model, D, 1, 0.5), 0);
    wvgd_fit *f = fitted(&model, &o, &r);
    size_t n;
    const double *all_log_w;
    const uint32_t *cell;
    assert_int_equal(wvgd_draws(f, &n, NULL, NULL, &all_log_w, &cell, NULL), WVGD_OK);
    double *log_w = malloc(n * sizeof *log_w);
    wv_arena *arena = wv_arena_new(2 * n);
    assert_true(log_w && arena);
    for (size_t j = 0; j < N; j++) {
        double mass = 0, squares = 0, error = 0;
        size_t own = 0;
        for (size_t i = 0; i < n; i++)
            if (cell[i] == j) {
                mass += exp(all_log_w[i]);
                squares += exp(2 * all_log_w[i]);
                log_w[own++] = all_log_w[i];
            }
        for (size_t i = 0; i < n; i++)
            error += pow(exp(all_log_w[i]) * ((cell[i] == j) - mass), 2);
        assert_near(r.beta[j], mass, 1e-12);
        assert_near(r.beta_se[j], sqrt(error), 1e-12);
        assert_near(r.cell_ess[j], mass * mass / squares, 1e-6);
        assert_near(r.cell_pareto_k[j], wv_weights_pareto_k(own, log_w, NULL, arena), 1e-9);
    }
    wv_arena_free(arena);
    free(log_w);
    wvgd_free(f);
    wvgd_model_close(&model);
}

/* log N(x; mu, L L') */
static double gaussian(size_t D, const double *x, const double *mu, const double *L)
{
    double y[16], log_q = -0.5 * (double)D * log(2 * acos(-1));
    for (size_t i = 0; i < D; i++) {
        y[i] = x[i] - mu[i];
        for (size_t k = 0; k < i; k++)
            y[i] -= L[i * D + k] * y[k];
        y[i] /= L[i * D + i];
        log_q -= y[i] * y[i] / 2 + log(L[i * D + i]);
    }
    return log_q;
}

/* The log densities that closing draws have under the components of their cells, however they were come by, in the
 * saved state: of a posterior that is nearly normal they are the mixture's own, which stand there, too. */
static void stored_densities(void **state)
{
    (void)state;
    enum { D = 8, N = 4 };
    const double shape[D] = {40, 50, 60, 70, 80, 90, 100, 110};
    wvgd_model model;
    wvgd_options o = staged_options(N, 1);
    wvgd_results r;
    assert_int_equal(target_log_gamma(&model, D, shape), 0);
    wvgd_fit *f = fitted(&model, &o, &r);
    assert_int_equal(r.components, 1);
    size_t n;
    const double *x;
    const uint32_t *cell;
    assert_int_equal(wvgd_draws(f, &n, &x, NULL, NULL, &cell, NULL), WVGD_OK);
    double *log_q = malloc(n * sizeof *log_q), apart = 0;
    assert_non_null(log_q);
    for (size_t i = 0; i < n; i++) {
        log_q[i] = gaussian(D, x + i * D, r.mu + cell[i] * D, r.chol + cell[i] * D * D);
        apart = fmax(apart, fabs(log_q[i] - gaussian(D, x + i * D, r.component_mu, r.component_chol)));
    }
    assert_int_equal(edited_state_count(f, n, log_q, 1e-9), apart < 1e-9 ? 2 : 1);
    free(log_q);
    wvgd_free(f);
    wvgd_model_close(&model);
}

/* A component that does not find its cell, moved away by hand: its draws are closing draws of the cell, those of
 * other cells are as before, and a prefix is the same. */
static void draws_of_lost_components(void **state)
{
    (void)state;
    enum { D = 2, N = 3, n = 200, FEWER = 90, LOST = 0 };
    double z[3][n * D];
    size_t cell[n], found = 0, lost = 0;
    wvgd_model model;
    wvgd_options o = staged_options(N, 1);
    wvgd_error error;
    assert_int_equal(target_banana(&model, D, 1, 0.5), 0);
    o.bend = WVGD_BEND_NEVER; /* components are Gaussians of x */
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    assert_int_equal(wvgd_sample(f, 1, n, z[0], cell, NULL), WVGD_OK);
    wvgd_results r;
    double before[N * D], after[N * D];
    wvgd_get_results(f, &r);
    memcpy(before, r.mu, sizeof before);
    memcpy(after, r.mu, sizeof after);
    for (size_t at = LOST, way = 0; at == LOST; way++) { /* out of its cell */
        assert_true(way < 4);
        after[LOST * D] = before[LOST * D] + (way % 2 ? -1e6 : 1e6);
        after[LOST * D + 1] = before[LOST * D + 1] + (way / 2 ? -1e6 : 1e6);
        assert_int_equal(wvgd_cell(f, 1, after + LOST * D, &at, NULL), WVGD_OK);
    }
    assert_true(edited_state_replace(f, N * D, before, after) > 0);
    size_t draws;
    const double *x;
    const uint32_t *of;
    assert_int_equal(wvgd_draws(f, &draws, &x, NULL, NULL, &of, NULL), WVGD_OK);
    assert_int_equal(wvgd_sample(f, 1, n, z[1], cell, NULL), WVGD_OK);
    assert_int_equal(wvgd_sample(f, 1, FEWER, z[2], NULL, NULL), WVGD_OK);
    assert_memory_equal(z[1], z[2], FEWER * D * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        if (cell[i] != LOST) {
            assert_memory_equal(z[0] + i * D, z[1] + i * D, D * sizeof(double));
            continue;
        }
        lost++;
        for (size_t k = 0; k < draws; k++)
            if (!memcmp(z[1] + i * D, x + k * D, D * sizeof(double))) {
                assert_int_equal(of[k], LOST);
                found++;
                break;
            }
    }
    assert_true(lost > 10);
    assert_int_equal(found, lost);
    wvgd_free(f);
    wvgd_model_close(&model);
}

/* A component whose cell lies eight sds out in its tail, set by hand: draws follow the normal density that is left
 * there, by ten bins of equal mass, and none comes twice. */
static void draws_of_remote_cells(void **state)
{
    (void)state;
    enum { N = 3, n = 30000, BINS = 10 };
    const double mu = -12.0, sd = 1.5, weight = 1, mean = 0.3,
                 scale = 0.9; /* no numbers that stand elsewhere in a state */
    static double z[n];
    static size_t cell[n];
    wvgd_model model;
    wvgd_options o = staged_options(N, 1);
    wvgd_error error;
    size_t last = 0, count[BINS] = {0}, drawn = 0, again = 0;
    o.cost = WVGD_SQEUCLID;
    assert_int_equal(target_mixture_1d(&model, 1, &weight, &mean, &scale), 0);
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    wvgd_results r;
    wvgd_get_results(f, &r);
    for (size_t j = 1; j < N; j++)
        last = r.z[j] > r.z[last] ? j : last;
    double next = -INFINITY;
    for (size_t j = 0; j < N; j++)
        next = j != last && r.z[j] > next ? r.z[j] : next;
    double wall = (next + r.z[last]) / 2, all = erfc((wall - mu) / sd / sqrt(2));
    const double *const view[] = {r.mu, r.chol, r.log_Z}, other[] = {mu, sd, log(all / 2)};
    double before[3][N], after[3][N];
    for (size_t i = 0; i < 3; i++) {
        memcpy(before[i], view[i], sizeof before[i]);
        memcpy(after[i], view[i], sizeof after[i]);
        after[i][last] = other[i];
    }
    for (size_t i = 0; i < 3; i++)
        assert_true(edited_state_replace(f, N, before[i], after[i]) > 0);
    wvgd_get_results(f, &r);
    assert_true(r.log_Z[last] < -25 && r.mu[last] == mu);
    assert_int_equal(wvgd_sample(f, 1, n, z, cell, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i++) {
        if (cell[i] != last)
            continue;
        double beyond = erfc((z[i] - mu) / sd / sqrt(2)) / all; /* uniform */
        assert_true(z[i] >= wall && beyond >= 0 && beyond <= 1);
        count[beyond < 1 ? (size_t)(BINS * beyond) : BINS - 1]++;
        for (size_t k = i + 1; k < n && drawn < 200; k++)
            again += z[k] == z[i];
        drawn++;
    }
    double chi = 0, expected = (double)drawn / BINS;
    for (size_t b = 0; b < BINS; b++)
        chi += ((double)count[b] - expected) * ((double)count[b] - expected) / expected;
    print_message("a remote cell: chi-square %.1f with %d degrees of freedom, %zu draws\n", chi, BINS - 1, drawn);
    assert_true(drawn > n / 5);
    assert_true(chi < BINS - 1 + 5 * sqrt(2.0 * (BINS - 1)));
    assert_int_equal(again, 0);
    wvgd_free(f);
    wvgd_model_close(&model);
}

/* Where the support ends inside a cell, draws that are not evaluated do not know it; a bound that
 * believed them would lie above the evidence. */
static void bounds_of_cut_supports(void **state)
{
    (void)state;
    double truth = log(1 - (1 + exp(0.7)) * exp(-exp(0.7))), highest = -INFINITY;
    for (uint64_t seed = 11; seed <= 22; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        assert_int_equal(wvgd_model_pointwise(&model, 3, cut, NULL, true), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        highest = fmax(highest, (r.pelbo.value - truth) / r.pelbo.se);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("bounds on a support that is cut off: at most %.1f standard errors above the truth\n", highest);
    assert_true(highest < 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_evaluations),      cmocka_unit_test(bound_of_one),
        cmocka_unit_test(bound_of_many),          cmocka_unit_test(bounds_of_bent_ridges),
        cmocka_unit_test(masses_of_the_mixture),  cmocka_unit_test(impossible_bounds_have_no_weight),
        cmocka_unit_test(bounds_of_cut_supports), cmocka_unit_test(draws_of_lost_components),
        cmocka_unit_test(draws_of_remote_cells),  cmocka_unit_test(diagnostics_of_cells),
        cmocka_unit_test(stored_densities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
