/* test_cell_components.c - components in their cells: masses of one in all cells are what counting gives, one that is
 * nowhere near its cell gives way, densities are stored as they are, and steps are taken where they gain. */
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
#include "support/logistic_truth.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"

enum { MAX_D = 12 };

/* The particle nearest to x, by |L^-1 (x - z)|^2, with L the metric's root or I, or by sum |x - z|, one by one. */
static size_t nearest(const wvgd_options *o, const wvgd_results *r, const double *x)
{
    size_t D = r->D, at = 0;
    double least = INFINITY;
    for (size_t j = 0; j < r->N; j++) {
        double cost = 0;
        for (size_t i = 0; i < D; i++) {
            double y = x[i] - r->z[j * D + i];
            cost += o->cost == WVGD_L1 ? fabs(y) : o->metric ? 0 : y * y;
            for (size_t k = 0; k < D && o->metric; k++)
                cost += y * o->metric[i * D + k] * (x[k] - r->z[j * D + k]);
        }
        if (cost < least) {
            least = cost;
            at = j;
        }
    }
    return at;
}

/* A A', of a lower triangle A[D][D]. */
static void square(size_t D, const double *A, double *out)
{
    for (size_t i = 0; i < D * D; i++) {
        out[i] = 0;
        for (size_t k = 0; k < D; k++)
            out[i] += A[i / D * D + k] * A[i % D * D + k];
    }
}

/* Normal posteriors, most of whose cells share a component: masses against counts of draws, made and compared with all
 * particles one by one, within their errors; fewer walls than dimensions, more, particles close to a line, costs
 * without walls. */
static void masses(void **state)
{
    (void)state;
    enum { CASES = 7, DRAWS = 100000, MOST = 20 };
    static const struct {
        size_t D, N;
        wvgd_family family;
        wvgd_cost cost;
        bool line, shared;
    } cases[CASES] = {{8, 7, WVGD_FULL, WVGD_MAHALANOBIS, false, true},
                      {12, 12, WVGD_FULL, WVGD_SQEUCLID, false, true},
                      {5, MOST, WVGD_FULL, WVGD_MAHALANOBIS, false, true},
                      {3, 8, WVGD_DIAG, WVGD_SQEUCLID, false, false},
                      {1, 6, WVGD_FULL, WVGD_SQEUCLID, false, true},
                      {9, 6, WVGD_FULL, WVGD_SQEUCLID, true, true},
                      {4, 7, WVGD_FULL, WVGD_L1, false, false}};
    test_random random = test_random_seed(21);
    double squares = 0, worst = 0, all = 0;
    for (size_t c = 0; c < CASES; c++) {
        size_t D = cases[c].D, N = cases[c].N, same = 0;
        double root[MAX_D * MAX_D], cov[MAX_D * MAX_D], metric[MAX_D * MAX_D], mean[MAX_D], e[MAX_D], x[MAX_D];
        wvgd_options o = staged_options(N, 1 + c);
        wvgd_model model;
        wvgd_results r;
        test_random_root(WVGD_FULL, D, &random, root);
        square(D, root, metric);
        test_random_root(WVGD_FULL, D, &random, root);
        for (size_t i = 0; i < D * D; i++)
            root[i] *= i % (D + 1) ? (cases[c].family == WVGD_FULL) : cases[c].line && i ? 0.05 : 1;
        square(D, root, cov);
        test_random_normals(&random, D, mean);
        assert_int_equal(target_gaussian_cov(&model, D, mean, cov, true), 0);
        o.family = cases[c].family;
        o.cost = cases[c].cost;
        o.metric = o.cost == WVGD_MAHALANOBIS ? metric : NULL;
        wvgd_fit *f = fitted(&model, &o, &r);
        const double *roots = o.family == WVGD_FULL ? r.chol : r.sd;
        size_t size = o.family == WVGD_FULL ? D * D : D;
        double total = 0;
        for (size_t j = 0; j < N; j++) {
            double n = 0;
            for (size_t i = 0; i < DRAWS / N; i++) {
                test_random_normals(&random, D, e);
                test_random_colour(cases[c].family, D, roots + j * size, e, x);
                for (size_t k = 0; k < D; k++)
                    x[k] += r.mu[j * D + k];
                n += nearest(&o, &r, x) == j;
            }
            double se = hypot(r.elbo_se[j], sqrt(1 / n - (double)N / DRAWS)),
                   z = (r.log_Z[j] - log(n * (double)N / DRAWS)) / se;
            total += exp(r.log_Z[j]);
            same += !memcmp(roots, roots + j * size, size * sizeof *roots);
            if (n < 200)
                continue; /* next to nothing: neither is normal */
            squares += z * z;
            worst = fmax(worst, fabs(z));
            all++;
            assert_true(r.elbo_se[j] < 0.2);
        }
        if (cases[c].shared)
            assert_int_equal(same, N);
        if (same == N)
            assert_near(total, 1, 1e-12);
        wvgd_free(f);
        wvgd_model_close(&model);
    }
    print_message("masses of components: z-scores of %.0f have root mean square %.2f, the largest is %.2f\n", all,
                  sqrt(squares / all), worst);
    assert_true(all > 50);
    assert_true(sqrt(squares / all) < 1 + 4 / sqrt(2 * all) && worst < 5);
}

/* Component LOST of three in six dimensions, and what it would go back to, are far away from its cell. Arrays of a
 * state begin at multiples of eight doubles: what is kept stands behind four arrays of 24, one of 40 and five of 8
 * (wv_ensemble). Returns false where the two are the same, and so cannot be told apart. */
enum { LOST = 1, LOST_N = 3, LOST_D = 6, KEPT = 4 * 24 + 40 + 5 * 8 };
static bool lose(wvgd_fit *f)
{
    wvgd_results r;
    double far[LOST_D], narrow[LOST_D];
    wvgd_get_results(f, &r);
    for (size_t i = 0; i < LOST_D; i++) {
        far[i] = -200 * r.z[LOST * LOST_D + i]; /* in the cells of the others */
        narrow[i] = 0.1;
    }
    const double *mu = r.mu + LOST * LOST_D, *sd = r.sd + LOST * LOST_D;
    if (edited_state_count(f, LOST_D, mu, 0) != 1 || edited_state_count(f, LOST_D, sd, 0) != 1)
        return false;
    for (size_t kept = 2; kept-- > 0; wvgd_get_results(f, &r)) {
        assert_int_equal(edited_state_put(f, LOST_D, mu, kept * KEPT, LOST_D, far), 1);
        assert_int_equal(edited_state_put(f, LOST_D, sd, kept * KEPT, LOST_D, narrow), 1);
    }
    return true;
}

/* A component that is nowhere near its cell, so that nothing tells its mass there, gives way to that of the mixture. */
static void lost_component(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_error error;
    wvgd_results r;
    wvgd_options o = staged_options(LOST_N, 3);
    wvgd_progress p;
    double cov[LOST_D * LOST_D] = {0}, mean[LOST_D] = {0};
    bool lost = false;
    for (size_t i = 0; i < LOST_D; i++)
        cov[i * (LOST_D + 1)] = 1.5 * 1.5;
    o.family = WVGD_DIAG;
    o.cost = WVGD_SQEUCLID;
    assert_int_equal(target_gaussian_cov(&model, LOST_D, mean, cov, true), 0);
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(f);
    for (wvgd_get_progress(f, &p); strcmp(p.stage, "bound"); wvgd_get_progress(f, &p)) {
        lost = lost || (!strcmp(p.stage, "refine") && lose(f));
        assert_int_equal(wvgd_step(f, &error), WVGD_OK);
    }
    assert_true(lost);
    wvgd_get_results(f, &r);
    for (size_t j = 0; j < LOST_N; j++) {
        assert_true(r.log_Z[j] > -20 && r.weight[j] > 0.1);
        for (size_t i = 0; i < LOST_D; i++) {
            assert_near(r.mu[j * LOST_D + i], 0, 0.1);
            assert_near(r.sd[j * LOST_D + i], 1.5, 0.1);
        }
    }
    wvgd_free(f);
    wvgd_model_close(&model);
}

static wvgd_options options_of(size_t N, wvgd_family family, uint64_t seed)
{
    wvgd_options o;
    wvgd_options_init(&o);
    assert_int_equal(o.solver, WVGD_STAGED);
    o.particles = N;
    o.family = family;
    o.seed = seed;
    return o;
}

/* ---- densities at the stored draws ------------------------------------------------------------------------------- */
/* Log densities that are stored with the draws are those of the component of the cell that a draw lies in, as it was
 * left, whichever of several ways it was found in: by forward substitution in long double. */
static void densities_at_stored_draws(void **state)
{
    (void)state;
    static const char *const names[] = {"cancer", "diabetes", "iris"};
    static const size_t counts[] = {2, 5, 20};
    size_t apart = 0;
    for (size_t d = 0; d < 3; d++) {
        logistic_data data;
        wvgd_model model;
        assert_true(logistic_data_read(&data, names[d], 0, true));
        assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
        for (size_t c = 0; c < 3; c++) {
            wvgd_results r;
            double size = 1;
            wvgd_options o = options_of(counts[c], WVGD_FULL, 1 + c);
            o.bend = WVGD_BEND_NEVER; /* components are Gaussians of x */
            wvgd_fit *f = fitted(&model, &o, &r);
            size_t D = data.D, seen = 0, n;
            const double *z, *log_p;
            const uint32_t *cell;
            assert_int_equal(wvgd_draws(f, &n, &z, &log_p, NULL, &cell, NULL), WVGD_OK);
            assert_true(n > 100);
            double *y = malloc(D * sizeof *y), *log_q = malloc(n * sizeof *log_q);
            for (size_t i = 0; i < n; i++) {
                const double *x = z + i * D, *mu = r.mu + cell[i] * D, *root = r.chol + cell[i] * D * D;
                long double q = -(long double)D / 2 * logl(2 * acosl(-1.0L));
                size_t there;
                if (i % 16 == 0) { /* the cells are those of the particles as they are */
                    assert_int_equal(wvgd_cell(f, 1, x, &there, NULL), WVGD_OK);
                    assert_int_equal(there, cell[i]);
                }
                for (size_t k = 0; k < D; k++) {
                    long double v = (long double)x[k] - mu[k];
                    for (size_t m = 0; m < k; m++)
                        v -= (long double)root[k * D + m] * y[m];
                    v /= root[k * D + k];
                    y[k] = (double)v;
                    q -= v * v / 2 + logl(root[k * D + k]);
                    size = fmax(size, (double)(v * v));
                }
                log_q[i] = log_p[i] > -INFINITY ? (double)q : -INFINITY;
                seen += log_p[i] > -INFINITY;
            }
            size_t found = edited_state_count(f, n, log_q, 1e-12 * size * (double)D);
            assert_true(found > 0);
            apart += found == 1; /* else the mixture, whose density stands there, too, is that of all components */
            free(log_q);
            assert_true(seen > n / 2);
            free(y);
            wvgd_free(f);
        }
        wvgd_model_close(&model);
        logistic_data_free(&data);
    }
    print_message("densities at stored draws: %zu of 9 fits have components of their own\n", apart);
    assert_true(apart > 2);
}

/* Components of cells that are none of the mixture's, nor shared, as a mode's Gaussian is: those that took steps. */
static size_t own_components(const wvgd_fit *f)
{
    wvgd_results r;
    wvgd_get_results(f, &r);
    size_t size = r.D * r.D, own = 0;
    for (size_t j = 0; j < r.N; j++) {
        const double *root = r.chol + j * size;
        bool found = false;
        for (size_t k = 0; k < r.components; k++)
            found |= !memcmp(root, r.component_chol + k * size, size * sizeof *root);
        for (size_t i = 0; i < r.N; i++)
            found |= i != j && !memcmp(root, r.chol + i * size, size * sizeof *root);
        own += !found;
    }
    return own;
}

/* Cells with next to no closing draws have the Gaussian of the mixture there, which loses nothing where the posterior
 * is one, and not that of moments that no draws have told. */
static void cells_of_few_draws(void **state)
{
    (void)state;
    for (uint64_t seed = 714; seed < 718; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(40, seed);
        o.family = WVGD_FULL;
        o.cost = WVGD_SQEUCLID;
        assert_int_equal(target_gaussian_random(&model, 10, 1, 1, true), 0);
        wvgd_fit *f = fitted(&model, &o, &r);
        for (size_t j = 0; j < r.N; j++)
            assert_true(r.loss[j] < 0.05 + 5 * r.loss_se[j] && !(r.gain[j] > 0.05));
        wvgd_free(f);
        wvgd_model_close(&model);
    }
}

/* On a bent ridge no Gaussian of the mixture is the best one for a cell, and the stored draws say so; a normal
 * posterior needs no other than its own. */
static void components_step_where_that_gains(void **state)
{
    (void)state;
    enum { SEEDS = 6, N = 5, D = 12 };
    for (int bent = 0; bent < 2; bent++) {
        size_t own = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            wvgd_model model;
            wvgd_options o;
            wvgd_error error;
            assert_int_equal(target_banana(&model, D, 6, bent ? 0.05 : 0), 0);
            wvgd_options_init(&o);
            o.particles = N;
            o.cost = WVGD_SQEUCLID;
            o.seed = seed;
            o.bend = WVGD_BEND_NEVER;
            wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
            assert_non_null(f);
            assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
            own += own_components(f);
            wvgd_free(f);
            wvgd_model_close(&model);
        }
        print_message("components of their own, %s: %zu of %d\n", bent ? "banana" : "normal", own, SEEDS * N);
        assert_true(bent ? own >= SEEDS * N / 3 : own == 0);
    }
}

/* Beside bent ridges the mixture says far too much of components that are wide: taken at its word, the bound was
 * hundreds of nats below the evidence. Components of the mixture may lie there, too: where nothing else was left, the
 * bound was 700 nats low, until Gaussians of modes needed no stored draws. They lose ten. */
static void no_component_where_the_mixture_is_wrong(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        wvgd_model model;
        wvgd_options o = staged_options(5, seed);
        wvgd_results r;
        o.bend = WVGD_BEND_NEVER;
        assert_int_equal(target_rosenbrock(&model, 10), 0);
        double truth = target_truth_of(&model).log_evidence;
        wvgd_fit *f = fitted(&model, &o, &r);
        print_message("bound on the evidence of bent ridges: %.1f nats below it\n", truth - r.pelbo.value);
        assert_true(r.pelbo.value > truth - 30 && r.pelbo.value < truth + 3 * r.pelbo.se);
        wvgd_free(f);
        wvgd_model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masses),
        cmocka_unit_test(lost_component),
        cmocka_unit_test(densities_at_stored_draws),
        cmocka_unit_test(cells_of_few_draws),
        cmocka_unit_test(components_step_where_that_gains),
        cmocka_unit_test(no_component_where_the_mixture_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
