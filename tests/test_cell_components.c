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

#include "staged/cell_bound.h"
#include "staged/cell_draws.h"
#include "fit.h"
#include "support/edited_state.h"
#include "support/fitted.h"
#include "support/logistic_truth.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"

enum { MAX_D = 12 };

static int flat(void *self, size_t n, const double *z, double *log_density, double *gradient)
{
    size_t D = *(size_t *)self;
    (void)z;
    memset(log_density, 0, n * sizeof *log_density);
    if (gradient)
        memset(gradient, 0, n * D * sizeof *gradient);
    return 0;
}

/* A fit that has not begun: particles, components and metric are for the tests to set. */
static wvgd_fit *new_fit(size_t *D, size_t N, wvgd_family family, wvgd_cost cost)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_model model = {.name = "flat", .dim = *D, .log_density = flat, .self = D, .has_gradient = true};
    wvgd_options_init(&o);
    assert_int_equal(o.solver, WVGD_STAGED);
    o.particles = N;
    o.family = family;
    o.cost = cost;
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    if (!f)
        fail_msg("%s", error.text);
    return f;
}

static void fill_root(wvgd_family family, size_t D, test_random *r, double *root)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++) {
            double v = k == i ? 0.6 + test_random_uniform(r) : k < i ? 0.6 * test_random_uniform(r) - 0.3 : 0;
            if (family == WVGD_FULL)
                root[i * D + k] = v;
            if (family == WVGD_DIAG && k == i)
                root[i] = v;
        }
}

/* out[D] = root e */
static void colour(wvgd_family family, size_t D, const double *root, const double *e, double *out)
{
    for (size_t i = 0; i < D; i++) {
        out[i] = family == WVGD_DIAG ? root[i] * e[i] : 0;
        for (size_t k = 0; family == WVGD_FULL && k <= i; k++)
            out[i] += root[i * D + k] * e[k];
    }
}

/* The particle nearest to x, by |L^-1 (x - z)|^2, with L the metric's root or I, or by sum |x - z|, one by one. */
static size_t nearest(const wvgd_fit *f, const double *x)
{
    size_t D = f->D, at = 0;
    double least = INFINITY;
    for (size_t j = 0; j < f->N; j++) {
        double y[32], cost = 0;
        for (size_t i = 0; i < D; i++) {
            y[i] = x[i] - f->cells.now.z[j * D + i];
            if (f->opt.cost == WVGD_L1)
                y[i] = sqrt(fabs(y[i]));
            for (size_t k = 0; f->opt.cost == WVGD_MAHALANOBIS && k < i; k++)
                y[i] -= f->cells.now.metric[i * D + k] * y[k];
            if (f->opt.cost == WVGD_MAHALANOBIS)
                y[i] /= f->cells.now.metric[i * D + i];
            cost += y[i] * y[i];
        }
        if (cost < least) {
            least = cost;
            at = j;
        }
    }
    return at;
}

/* One component in all cells: masses against counts of draws, made and compared with all particles one by one,
 * within their errors; fewer walls than dimensions, more, particles on a line, costs without walls. */
static void shared_masses(void **state)
{
    (void)state;
    enum { CASES = 7, DRAWS = 100000, MOST = 20 };
    static const struct {
        size_t D, N;
        wvgd_family family;
        wvgd_cost cost;
        bool line;
    } cases[CASES] = {{8, 7, WVGD_FULL, WVGD_MAHALANOBIS, false},
                      {12, 12, WVGD_FULL, WVGD_SQEUCLID, false},
                      {5, MOST, WVGD_FULL, WVGD_MAHALANOBIS, false},
                      {3, 8, WVGD_DIAG, WVGD_SQEUCLID, false},
                      {1, 6, WVGD_FULL, WVGD_SQEUCLID, false},
                      {9, 6, WVGD_FULL, WVGD_SQEUCLID, true},
                      {4, 7, WVGD_FULL, WVGD_L1, false}};
    test_random r = test_random_seed(21);
    double squares = 0, worst = 0, all = 0;
    for (size_t c = 0; c < CASES; c++) {
        size_t D = cases[c].D, N = cases[c].N, count[MOST] = {0};
        wvgd_fit *f = new_fit(&D, N, cases[c].family, cases[c].cost);
        double line[MAX_D], e[MAX_D], x[MAX_D], total = 0;
        size_t size = f->family->size(D, 0);
        fill_root(WVGD_FULL, D, &r, f->cells.now.metric);
        fill_root(cases[c].family, D, &r, f->cells.now.root);
        for (size_t i = 0; i < D; i++) {
            line[i] = 0.5 * test_random_normal(&r);
            f->cells.now.mu[i] = test_random_normal(&r);
        }
        for (size_t i = 0; i < N * D; i++)
            f->cells.now.z[i] = f->cells.now.mu[i % D] +
                                (cases[c].line ? ((double)(i / D) - 2.2) * line[i % D] : 0.8 * test_random_normal(&r));
        for (size_t j = 1; j < N; j++) {
            memcpy(f->cells.now.mu + j * D, f->cells.now.mu, D * sizeof(double));
            memcpy(f->cells.now.root + j * size, f->cells.now.root, size * sizeof(double));
        }
        wv_cell_draws_update_walls(f);
        wv_cell_bound_masses(f, NULL);
        for (size_t i = 0; i < DRAWS; i++) {
            test_random_normals(&r, D, e);
            colour(cases[c].family, D, f->cells.now.root, e, x);
            for (size_t k = 0; k < D; k++)
                x[k] += f->cells.now.mu[k];
            count[nearest(f, x)]++;
        }
        for (size_t j = 0; j < N; j++) {
            double n = (double)count[j], se = hypot(f->cells.elbo_se[j], sqrt(1 / n - 1.0 / DRAWS)),
                   z = (f->cells.log_Z[j] - log(n / DRAWS)) / se;
            total += exp(f->cells.log_Z[j]);
            if (n < 200)
                continue; /* next to nothing: neither is normal */
            squares += z * z;
            worst = fmax(worst, fabs(z));
            all++;
            assert_true(f->cells.elbo_se[j] < 0.2);
        }
        assert_near(total, 1, 1e-12);
        wvgd_free(f);
    }
    print_message("masses of a shared component: z-scores of %.0f have root mean square %.2f, the largest is %.2f\n",
                  all, sqrt(squares / all), worst);
    assert_true(all > 50);
    assert_true(sqrt(squares / all) < 1 + 4 / sqrt(2 * all) && worst < 5);
}

/* A component that is nowhere near its cell, so that nothing tells its mass there, gives way to
 * that of the mixture; the others stay. */
static void lost_component(void **state)
{
    (void)state;
    enum { LOST = 1 };
    size_t D = 6, N = 3;
    wvgd_fit *f = new_fit(&D, N, WVGD_FULL, WVGD_SQEUCLID);
    test_random r = test_random_seed(5);
    double mu[18], root[36];
    for (size_t i = 0; i < D * D; i++) {
        f->mix.root[i] = root[i] = i % (D + 1) ? 0 : 1.5;
        for (size_t j = 0; j < N; j++)
            f->cells.now.spread[j * D * D + i] = f->cells.now.root[j * D * D + i] = root[i];
    }
    memset(f->mix.mu, 0, D * sizeof(double));
    f->mix.w[0] = 1;
    f->mix.K = 1;
    for (size_t i = 0; i < N * D; i++) {
        f->cells.now.z[i] = test_random_normal(&r);
        f->cells.now.mu[i] = mu[i] = f->cells.now.z[i] + 0.1 * test_random_normal(&r) +
                                     (i / D == LOST ? (i % D ? 0 : 200) : 0);
    }
    for (size_t i = 0; i < D; i++)
        f->cells.now.root[LOST * D * D + i * (D + 1)] = 0.1;
    memcpy(f->cells.best.mu, f->cells.now.mu, N * D * sizeof(double));
    memcpy(f->cells.best.root, f->cells.now.root, N * D * D * sizeof(double));
    wv_cell_draws_update_walls(f);
    wv_cell_bound_masses(f, NULL);
    for (size_t j = 0; j < N; j++) {
        assert_true(f->cells.elbo_se[j] < 0.3 && f->cells.log_Z[j] > -20);
        for (size_t i = 0; i < D; i++)
            assert_true(f->cells.now.mu[j * D + i] == (j == LOST ? f->mix.mu[i] : mu[j * D + i]));
    }
    assert_memory_equal(f->cells.now.root + LOST * D * D, root, sizeof root);
    wvgd_free(f);
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

/* On a bent ridge no Gaussian of the mixture is the best one for a cell, and the stored draws say so, whatever was
 * found for all cells at once; a normal posterior needs no other than its own. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_masses),
        cmocka_unit_test(lost_component),
        cmocka_unit_test(densities_at_stored_draws),
        cmocka_unit_test(components_step_where_that_gains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
