/* test_costs.c - where particles come to rest: for every cost they are stationary points of the transport cost
 * E min_j c(z_j, z), and one particle is the point of least mean cost: mean, median, or what lies between.
 *
 * On the closing draws x_i with weights w_i the gradient in z_j, per unit of mass, is
 * g = sum_cell w grad_1 c(z_j, x) / sum_cell w, with standard error s = sqrt(sum_cell w^2 (grad - g)^2) / sum_cell w.
 * The particle rests on other draws, some ten thousand as well: its own error is of the same size, so g has standard
 * error about sqrt(2) s; with up to 50 comparisons a test, four of these, 5.7 s. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "wvgd.h"

enum { D = 2, N = 3 };
static const double METRIC[D * D] = {2.0, 0.8, 0.8, 1.0};
static const double WITHIN = 5.7;

static wvgd_model MODEL; /* three skewed heaps of unequal scale */

static int set_up(void **state)
{
    (void)state;
    const double weight[] = {0.5, 0.3, 0.2}, mean[] = {-1, 0, 2, 1, 1, -2},
                 cov[] = {1, 0.4, 0.4, 0.6, 0.5, -0.1, -0.1, 0.3, 0.2, 0, 0, 0.9};
    return target_mixture(&MODEL, D, 3, weight, mean, cov);
}

static int tear_down(void **state)
{
    (void)state;
    wvgd_model_close(&MODEL);
    return 0;
}

/* sum_i sqrt(1 + (a_i - b_i)^2) - 1, skewed a little by a weight on the second coordinate */
static double smooth_cost(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    const double *heavy = self;
    double sum = 0;
    for (size_t i = 0; i < dim; i++) {
        double d = a[i] - b[i], w = i == 1 ? *heavy : 1, r = sqrt(1 + d * d);
        sum += w * (r - 1);
        if (grad_a)
            grad_a[i] = w * d / r;
    }
    return sum;
}
static double HEAVY = 3;

/* ---- costs by name, as written down ------------------------------------------------------------------------------ */
typedef struct {
    const char *name;
    wvgd_cost cost;
    double power;
    bool metric;
} row;

static const row ROWS[] = {{"sqeuclid", WVGD_SQEUCLID, 0, false},
                           {"l1", WVGD_L1, 1, false},
                           {"lp 1.5", WVGD_LP, 1.5, false},
                           {"lp 2", WVGD_LP, 2, false},
                           {"lp 4", WVGD_LP, 4, false},
                           {"callback", WVGD_CALLBACK, 0, false},
                           {"mahalanobis, metric given", WVGD_MAHALANOBIS, 0, true},
                           {"own", WVGD_OWN, 0, false}};
enum { COSTS = sizeof ROWS / sizeof *ROWS };

static wvgd_options options_of(const row *c, size_t particles, uint64_t seed)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = particles;
    o.cost = c->cost;
    o.seed = seed;
    if (c->cost == WVGD_LP)
        o.power = c->power;
    if (c->metric)
        o.metric = METRIC;
    o.cost_function = smooth_cost;
    o.cost_self = &HEAVY;
    return o;
}

/* grad_1 c(z, x), up to a linear map that depends on the cell alone (which does not move its zero). */
static void gradient_of(const row *c, const double *z, const double *x, double *g)
{
    if (c->cost == WVGD_CALLBACK) {
        smooth_cost(&HEAVY, D, z, x, g);
        return;
    }
    for (size_t i = 0; i < D; i++) {
        double d = z[i] - x[i];
        g[i] = c->cost == WVGD_L1   ? (d > 0) - (d < 0)
               : c->cost == WVGD_LP ? copysign(pow(fabs(d), c->power - 1), d)
                                    : d;
    }
}

static wvgd_fit *fit_of(const row *c, size_t particles, uint64_t seed)
{
    wvgd_options o = options_of(c, particles, seed);
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s: %s", c->name, error.text);
    return fit;
}

/* The largest |g| / s over coordinates of all particles. */
static double worst_pull(const wvgd_fit *fit, const row *c)
{
    wvgd_results r;
    size_t n;
    const double *x, *log_w;
    const uint32_t *cell;
    double worst = 0;
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_draws(fit, &n, &x, NULL, &log_w, &cell, NULL), WVGD_OK);
    for (size_t j = 0; j < r.N; j++) {
        double mass = 0, g[D] = {0}, s[D] = {0}, one[D];
        for (size_t i = 0; i < n; i++)
            if (cell[i] == j) {
                gradient_of(c, r.z + j * D, x + i * D, one);
                mass += exp(log_w[i]);
                for (size_t d = 0; d < D; d++)
                    g[d] += exp(log_w[i]) * one[d];
            }
        for (size_t d = 0; d < D; d++)
            g[d] /= mass;
        for (size_t i = 0; i < n; i++)
            if (cell[i] == j) {
                gradient_of(c, r.z + j * D, x + i * D, one);
                for (size_t d = 0; d < D; d++)
                    s[d] += exp(2 * log_w[i]) * (one[d] - g[d]) * (one[d] - g[d]);
            }
        for (size_t d = 0; d < D; d++)
            worst = fmax(worst, fabs(g[d]) / (sqrt(s[d]) / mass));
    }
    return worst;
}

/* Cells at rest are better than the same cells with a particle moved by half its cell's sd: the
 * distortion rises on the closing draws. */
static double distortion_of(const row *c, const double *z, const double *V, size_t n, const double *x,
                            const double *log_w)
{
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        double least = INFINITY;
        for (size_t j = 0; j < N; j++) {
            double d[D], cost = 0;
            for (size_t a = 0; a < D; a++)
                d[a] = z[j * D + a] - x[i * D + a];
            if (c->cost == WVGD_CALLBACK)
                cost = smooth_cost(&HEAVY, D, z + j * D, x + i * D, NULL);
            else if (c->cost == WVGD_MAHALANOBIS)
                cost = METRIC[0] * d[0] * d[0] + 2 * METRIC[1] * d[0] * d[1] + METRIC[3] * d[1] * d[1];
            else if (c->cost == WVGD_OWN) {
                const double *v = V + j * D * D;
                double det = v[0] * v[3] - v[1] * v[2];
                cost = (v[3] * d[0] * d[0] - 2 * v[1] * d[0] * d[1] + v[0] * d[1] * d[1]) / det / 2 + log(det) / 2;
            } else
                for (size_t a = 0; a < D; a++)
                    cost += pow(fabs(d[a]), c->cost == WVGD_SQEUCLID ? 2 : c->power);
            least = fmin(least, cost);
        }
        total += exp(log_w[i]) * least;
    }
    return total;
}

static void assert_local_minimum(const wvgd_fit *fit, const row *c)
{
    wvgd_results r;
    size_t n;
    const double *x, *log_w;
    double z[N * D];
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_draws(fit, &n, &x, NULL, &log_w, NULL, NULL), WVGD_OK);
    memcpy(z, r.z, sizeof z);
    double rest = distortion_of(c, z, r.cell_cov, n, x, log_w);
    assert_near(rest, r.distortion.value, 6 * r.distortion.se); /* it is the distortion that is reported */
    for (size_t i = 0; i < N * D; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            z[i] += sign * 0.5 * sqrt(r.cell_cov[i / D * D * D + i % D * (D + 1)]);
            double moved = distortion_of(c, z, r.cell_cov, n, x, log_w);
            if (!(moved > rest))
                fail_msg("%s: moving coordinate %zu of particle %zu lowers the distortion from %g to %g", c->name,
                         i % D, i / D, rest, moved);
            z[i] = r.z[i];
        }
}

static void particles_are_at_rest(void **state)
{
    (void)state;
    for (size_t k = 0; k < COSTS; k++) {
        wvgd_fit *fit = fit_of(&ROWS[k], N, 1);
        double pull = worst_pull(fit, &ROWS[k]);
        if (!(pull <= WITHIN))
            fail_msg("%s: a particle is pulled by %.1f standard errors", ROWS[k].name, pull);
        assert_local_minimum(fit, &ROWS[k]);
        wvgd_free(fit);
    }
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */
/* The same cost for many points at once, summed in the order in which a fit sums what it is told of pairs. */
static void smooth_costs(void *self, size_t dim, const double *a, size_t n, const double *b, double *cost,
                         const double *weight, double *grad_a)
{
    double one[D];
    for (size_t d = 0; grad_a && d < dim; d++)
        grad_a[d] = 0;
    for (size_t k = 0; k < n; k++) {
        double here = smooth_cost(self, dim, a, b + k * dim, one);
        if (cost)
            cost[k] = here;
        for (size_t d = 0; grad_a && d < dim; d++)
            grad_a[d] += weight[k] * one[d];
    }
}

/* A cost by points or by batches, or by batches alone: the same particles, masses and distortion. */
static void batches_are_pairs(void **state)
{
    (void)state;
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        wvgd_results r[3];
        wvgd_fit *fit[3];
        wvgd_error error;
        for (int way = 0; way < 3; way++) {
            wvgd_options o = options_of(&ROWS[5], N, 1);
            o.solver = solver;
            if (way > 0)
                o.cost_batch = smooth_costs;
            if (way > 1)
                o.cost_function = NULL;
            if (!(fit[way] = wvgd_new(&MODEL, &o, NULL, &error)) || wvgd_run(fit[way], NULL, NULL, &error) != WVGD_OK)
                fail_msg("way %d: %s", way, error.text);
            wvgd_get_results(fit[way], &r[way]);
        }
        for (int way = 1; way < 3; way++) {
            for (size_t i = 0; i < N * D; i++)
                assert_near(r[way].z[i], r[0].z[i], 1e-9);
            for (size_t j = 0; j < N; j++)
                assert_near(r[way].beta[j], r[0].beta[j], 1e-9);
            assert_near(r[way].distortion.value, r[0].distortion.value, 1e-9);
        }
        for (int way = 0; way < 3; way++)
            wvgd_free(fit[way]);
    }
}

/* One particle under a callback is placed on the closing draws, to rounding: the mean gradient there is 0, which it
 * is not at their mean, where it begins (log-gamma variables are skewed). With all of the Hessian, from some of the
 * draws, and beyond 128 dimensions with its diagonal. */
static void callbacks_in_many_dimensions(void **state)
{
    (void)state;
    enum { MANY = 130 };
    for (size_t dim = 3; dim <= MANY; dim += MANY - 3) {
        double shape[MANY], g[MANY], g0[MANY], largest = 0, least = INFINITY;
        wvgd_options o = options_of(&ROWS[5], 1, 1);
        wvgd_model model;
        wvgd_error error;
        wvgd_results r;
        size_t n;
        const double *x, *log_w;
        for (size_t d = 0; d < dim; d++)
            shape[d] = dim == MANY ? 60 : 1.5;
        assert_int_equal(target_log_gamma(&model, dim, shape), 0);
        o.family = WVGD_DIAG;
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
        if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
            fail_msg("%s", error.text);
        wvgd_get_results(fit, &r);
        assert_int_equal(wvgd_draws(fit, &n, &x, NULL, &log_w, NULL, NULL), WVGD_OK);
        assert_true(n > 2000);
        double *w = malloc(n * sizeof *w);
        for (size_t i = 0; i < n; i++)
            w[i] = exp(log_w[i]);
        for (int at = 0; at < 2; at++) {
            double *sum = at ? g0 : g, one[MANY];
            for (size_t d = 0; d < dim; d++)
                sum[d] = 0;
            for (size_t i = 0; i < n; i++) {
                smooth_cost(&HEAVY, dim, at ? r.mean : r.z, x + i * dim, one);
                for (size_t d = 0; d < dim; d++)
                    sum[d] += w[i] * one[d];
            }
        }
        for (size_t d = 0; d < dim; d++) {
            largest = fmax(largest, fabs(g[d]));
            least = fmin(least, fabs(g0[d]));
        }
        print_message("%zu dimensions: gradients up to %.2g at the particle, %.2g or more at the mean\n", dim, largest,
                      least);
        assert_true(largest < fmax(1e-9, 1e-6 * least));
        assert_true(least > 1e-6);
        free(w);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

static double half_cost(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double cost = smooth_cost(self, dim, a, b, grad_a);
    return b[0] > 0 ? NAN : cost;
}

/* A cost that is no number in half of the space: said, with either solver. */
static void costs_that_are_not_numbers(void **state)
{
    (void)state;
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        wvgd_options o = options_of(&ROWS[5], N, 1);
        wvgd_error error;
        wvgd_results r;
        bool said = false;
        o.solver = solver;
        o.max_iter = 50;
        o.cost_function = half_cost;
        wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, &error);
        if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
            fail_msg("%s", error.text);
        wvgd_get_results(fit, &r);
        for (size_t i = 0; i < r.warnings; i++)
            said |= strstr(r.warning[i], "cost between a particle and a draw") != NULL;
        assert_true(said);
        wvgd_free(fit);
    }
}

/* (a - b)' A (a - b) of a long thin A, unlike the posterior: eigenvalues 1.98 and 0.02. */
static double slanted_cost(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double d[D] = {a[0] - b[0], a[1] - b[1]}, lean = *(const double *)self,
           pull[D] = {d[0] + lean * d[1], lean * d[0] + d[1]};
    for (size_t i = 0; grad_a && i < dim; i++)
        grad_a[i] = 2 * pull[i];
    return d[0] * pull[0] + d[1] * pull[1];
}

/* Coordinates that depend on each other: the particle of a quadratic cost is the mean of its cell, here on
 * the closing draws, which place it. Steps along single coordinates would leave 0.98 of what is missing in
 * each round. What is left to gain in the cells as they are is a part of the next round's gain; rounds end
 * with one that has gained less than 3e-4. */
static void slanted_costs_settle(void **state)
{
    (void)state;
    double lean = 0.98;
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    size_t n;
    const double *x, *log_w;
    const uint32_t *cell;
    wvgd_options_init(&o);
    o.particles = N;
    o.cost = WVGD_CALLBACK;
    o.cost_function = slanted_cost;
    o.cost_self = &lean;
    wvgd_fit *fit = wvgd_new(&MODEL, &o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    assert_int_equal(wvgd_draws(fit, &n, &x, NULL, &log_w, &cell, NULL), WVGD_OK);
    double gain = 0;
    for (size_t j = 0; j < N; j++) {
        double mass = 0, mean[D] = {0};
        for (size_t i = 0; i < n; i++)
            if (cell[i] == j) {
                mass += exp(log_w[i]);
                for (size_t d = 0; d < D; d++)
                    mean[d] += exp(log_w[i]) * x[i * D + d];
            }
        for (size_t d = 0; d < D; d++)
            mean[d] /= mass;
        gain += mass * slanted_cost(&lean, D, r.z + j * D, mean, NULL);
    }
    print_message("slanted cost: %.3g of the distortion left to gain\n", gain / r.distortion.value);
    assert_true(gain < 3e-4 * r.distortion.value);
    wvgd_free(fit);
}

/* One particle: the centre that the cost calls for, found on the closing draws by bisection of the
 * mean gradient, which is monotone. */
static double centre_of(const row *c, size_t d, size_t n, const double *x, const double *log_w)
{
    double low = -20, high = 20;
    for (int round = 0; round < 60; round++) {
        double at[D] = {0, 0}, one[D], sum = 0, middle = (low + high) / 2;
        at[d] = middle;
        for (size_t i = 0; i < n; i++) {
            gradient_of(c, at, x + i * D, one);
            sum += exp(log_w[i]) * one[d];
        }
        if (sum > 0)
            high = middle;
        else
            low = middle;
    }
    return (low + high) / 2;
}

static void one_particle_is_the_centre(void **state)
{
    (void)state;
    for (size_t k = 0; k < COSTS; k++) {
        wvgd_fit *fit = fit_of(&ROWS[k], 1, 1);
        wvgd_results r;
        size_t n;
        const double *x, *log_w;
        wvgd_get_results(fit, &r);
        assert_int_equal(wvgd_draws(fit, &n, &x, NULL, &log_w, NULL, NULL), WVGD_OK);
        double pull = worst_pull(fit, &ROWS[k]);
        if (!(pull <= WITHIN))
            fail_msg("%s: the particle is pulled by %.1f standard errors", ROWS[k].name, pull);
        /* a median of n draws has error 1.25 sd / sqrt(n), a mean 1: six of these, for either */
        for (size_t d = 0; d < D; d++)
            assert_near(r.z[d], centre_of(&ROWS[k], d, n, x, log_w), 6 * 1.5 * r.mcse[d]);
        wvgd_free(fit);
    }
}

/* Without a metric given, mahalanobis divides by the posterior's covariance: one particle has
 * distortion D, whatever the scale. */
static void the_metric_follows_the_posterior(void **state)
{
    (void)state;
    static const double sds[] = {1e-3, 1, 30};
    for (size_t k = 0; k < 3; k++)
        for (int given = 0; given < 2; given++) {
            double mean[] = {0, 0}, v = sds[k] * sds[k], cov[] = {v, 0.5 * v, 0.5 * v, 4 * v};
            wvgd_model model;
            wvgd_options o;
            wvgd_results r;
            wvgd_options_init(&o);
            o.solver = WVGD_JOINT;
            o.particles = 1;
            o.init = given ? WVGD_INIT_NORMAL : WVGD_INIT_EXPLORE;
            assert_int_equal(target_gaussian_cov(&model, D, mean, cov, true), 0);
            wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
            assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
            wvgd_get_results(fit, &r);
            /* 6 standard errors, and 10 % as the metric is itself an estimate */
            if (!(fabs(r.distortion.value - D) <= 0.1 * D + 6 * r.distortion.se))
                fail_msg("sd %g, init %d: distortion %g, expected %d", sds[k], (int)o.init, r.distortion.value, D);
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(particles_are_at_rest),
        cmocka_unit_test(batches_are_pairs),
        cmocka_unit_test(callbacks_in_many_dimensions),
        cmocka_unit_test(costs_that_are_not_numbers),
        cmocka_unit_test(slanted_costs_settle),
        cmocka_unit_test(one_particle_is_the_centre),
        cmocka_unit_test(the_metric_follows_the_posterior),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
