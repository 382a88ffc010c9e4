/* test_free.c - points that cost no evaluation: draws of a component inside its cell are those that rejection gives,
 * masses by a lattice those of closed forms, and those of a component in all cells what counting gives. */
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
#include "nearest.h"
#include "gaussian.h"
#include "fit.h"
#include "halfspaces.h"
#include "support/near.h"
#include "support/test_random.h"
#include "wvgd.h"

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

/* ---- draws inside a cell ----------------------------------------------------------------------------------------- */
enum { MAX_D = 12, MOMENTS = 1 + MAX_D + MAX_D * (MAX_D + 1) / 2 };

/* Sums over draws of the share inside, of coordinates and of their products (about mu), and of the squares of these. */
typedef struct {
    double n, sum[MOMENTS], squares[MOMENTS];
} tally;

/* x: NULL if the draw is not inside */
static void add(tally *t, size_t D, const double *mu, const double *x)
{
    size_t m = 0;
    if (!x)
        return;
    for (size_t i = 0; i <= D; i++)
        for (size_t k = 0; k <= i; k++, m++) { /* the last coordinate is 1 */
            double v = (i < D ? x[i] - mu[i] : 1) * (k < D ? x[k] - mu[k] : 1);
            t->sum[m] += v;
            t->squares[m] += v * v;
        }
}

/* Largest difference between two tallies, in standard errors; sums are of draws inside, relative to all. */
static double apart(const tally *a, const tally *b, size_t D)
{
    double worst = 0;
    for (size_t m = 0; m < (D + 1) * (D + 2) / 2; m++) {
        double x = a->sum[m] / a->n, y = b->sum[m] / b->n;
        double se = sqrt((a->squares[m] / a->n - x * x) / a->n + (b->squares[m] / b->n - y * y) / b->n);
        worst = fmax(worst, fabs(x - y) / se);
    }
    return worst;
}

/* Shares, means and second moments of some 80,000 draws against as many by rejection from other random numbers:
 * within 5 standard errors, which one of 2,400 differences exceeds by chance in one of 700 such tests. Every draw is
 * in its cell, and a short call gives the first draws of a long one; draws that are made one by one are as good as
 * others. Particles of the last cases are on a line, or nearly so: walls are parallel, up to rounding. */
static void draws_inside(void **state)
{
    (void)state;
    enum { BATCHES = 20, CASES = 8, ALONE = 20000 };
    static const struct {
        size_t D, N;
        wvgd_family family;
        wvgd_cost cost;
    } cases[CASES] = {{5, 2, WVGD_FULL, WVGD_MAHALANOBIS},  {6, 6, WVGD_FULL, WVGD_MAHALANOBIS},
                      {12, 4, WVGD_FULL, WVGD_MAHALANOBIS}, {7, 3, WVGD_FULL, WVGD_SQEUCLID},
                      {9, 5, WVGD_DIAG, WVGD_SQEUCLID},     {8, 4, WVGD_DIAG, WVGD_MAHALANOBIS},
                      {6, 3, WVGD_FULL, WVGD_SQEUCLID},     {6, 3, WVGD_FULL, WVGD_SQEUCLID}};
    static double near[WV_FREE], next[WV_FREE];
    static uint32_t cell[WV_FREE];
    test_random r = test_random_seed(3);
    double worst = 0;
    for (size_t c = 0; c < CASES; c++) {
        size_t D = cases[c].D, N = cases[c].N, size, walls;
        wvgd_fit *f = new_fit(&D, N, cases[c].family, cases[c].cost);
        double line[MAX_D], basis[MAX_D * MAX_D];
        size = f->family->size(D, 0);
        fill_root(WVGD_FULL, D, &r, f->cells.now.metric);
        for (size_t i = 0; i < D; i++)
            line[i] = test_random_normal(&r);
        for (size_t i = 0; i < N * D; i++) {
            f->cells.now.z[i] = c + 2 >= CASES ? 0.3 + (double)(i / D) * 0.4 * line[i % D]
                                               : 0.8 * test_random_normal(&r);
            f->cells.now.z[i] += c + 1 == CASES ? 3e-9 * test_random_normal(&r) : 0;
            f->cells.now.mu[i] = f->cells.now.z[i] + 0.3 * test_random_normal(&r);
        }
        for (size_t j = 0; j < N; j++)
            fill_root(cases[c].family, D, &r, f->cells.now.root + j * size);
        wv_cell_draws_update_walls(f);
        for (size_t j = 0; j < N; j++) {
            tally got = {.n = BATCHES * WV_FREE}, wanted = {.n = BATCHES * WV_FREE}, alone = {.n = ALONE};
            const double *mu = f->cells.now.mu + j * D;
            double e[MAX_D], x[MAX_D];
            size_t mark = wv_arena_mark(f->arena);
            for (uint64_t b = 0; b < BATCHES; b++) {
                wv_inside in = wv_cell_draws_inside(f, j, WV_RNG_BOUND, b * WV_FREE, WV_FREE, false);
                assert_true(in.all == WV_FREE && in.n <= WV_FREE);
                wv_nearest_assign(&f->halfspaces.g, in.n, in.x, cell, near, next, f->arena);
                for (size_t i = 0; i < in.n; i++) {
                    assert_true(in.u[i] == 1 && (cell[i] == j || next[i] - near[i] < 1e-9 * next[i]));
                    add(&got, D, mu, in.x + i * D);
                }
                wv_inside few = wv_cell_draws_inside(f, j, WV_RNG_BOUND, b * WV_FREE, 100, false);
                assert_true(few.all == 100 && few.n <= in.n && few.n <= 100);
                for (size_t i = 0; i < few.n * D; i++)
                    assert_near(few.x[i], in.x[i], 1e-12 * (1 + fabs(in.x[i])));
                wv_arena_release(f->arena, mark);
            }
            for (size_t i = 0; i < BATCHES * WV_FREE; i++) {
                test_random_normals(&r, D, e);
                colour(cases[c].family, D, f->cells.now.root + j * size, e, x);
                for (size_t k = 0; k < D; k++)
                    x[k] += mu[k];
                add(&wanted, D, mu, nearest(f, x) == j ? x : NULL);
            }
            for (uint64_t i = 0; i < ALONE; i++) {
                wv_inside one = wv_cell_draws_inside(f, j, WV_RNG_BOUND, BATCHES * WV_FREE + i, 1, false);
                add(&alone, D, mu, one.n ? one.x : NULL);
                wv_arena_release(f->arena, mark);
            }
            double z = fmax(apart(&got, &wanted, D), apart(&alone, &wanted, D));
            worst = fmax(worst, z);
            if (!(z < 5))
                fail_msg("case %zu, cell %zu: %g standard errors", c, j, z);
            wv_gaussian q = wv_partition_component(&f->cells, j);
            walls = wv_halfspaces_walls(&f->halfspaces, j, &q, basis, f->arena).dims;
            wv_arena_release(f->arena, mark);
            assert_true(c + 2 >= CASES ? walls == N - 1 || walls == D : walls == N - 1);
        }
        wvgd_free(f);
    }
    print_message("draws inside cells: moments within %.2f standard errors of those by rejection\n", worst);
}

/* ---- a lattice --------------------------------------------------------------------------------------------------- */
static double below(double h)
{
    return erfc(-h / sqrt(2)) / 2;
}

/* Cell 0 of particles whose differences from particle 0 are at right angles in the coordinates in which component
 * 0 is standard normal: its mass is a product of normal integrals. Up to four walls, anywhere in eight
 * dimensions; the lattice of another seed each time. With two particles the other cell has a closed form, too.
 * Errors are as large as they are said to be. */
static void lattice_masses(void **state)
{
    (void)state;
    enum { DIM = 8, TRIALS = 60 };
    test_random r = test_random_seed(8);
    for (size_t dims = 1; dims <= WV_LATTICE; dims++) {
        double squares = 0, worst = 0;
        size_t D = DIM, N = dims + 1, n = 0;
        wvgd_fit *f = new_fit(&D, N, WVGD_FULL, WVGD_MAHALANOBIS);
        for (uint64_t trial = 0; trial < TRIALS; trial++) {
            double h[WV_LATTICE], Q[WV_LATTICE * DIM], truth = 1;
            fill_root(WVGD_FULL, D, &r, f->cells.now.metric);
            for (size_t j = 0; j < N; j++)
                memcpy(f->cells.now.root + j * D * D, f->cells.now.metric, D * D * sizeof(double));
            for (size_t i = 0; i < D; i++)
                f->cells.now.mu[i] = 5 * test_random_normal(&r);
            for (size_t j = 1; j < N; j++)
                memcpy(f->cells.now.mu + j * D, f->cells.now.mu, D * sizeof(double));
            double e[DIM], away[DIM]; /* particle 0 anywhere: at a distance from the mean that the walls make up for */
            for (size_t k = 0; k < dims; k++) { /* directions at right angles */
                double *q = Q + k * D, square = 0;
                test_random_normals(&r, D, q);
                for (size_t m = 0; m < k; m++) {
                    double along = 0;
                    for (size_t i = 0; i < D; i++)
                        along += q[i] * Q[m * D + i];
                    for (size_t i = 0; i < D; i++)
                        q[i] -= along * Q[m * D + i];
                }
                for (size_t i = 0; i < D; i++)
                    square += q[i] * q[i];
                for (size_t i = 0; i < D; i++)
                    q[i] /= sqrt(square);
            }
            test_random_normals(&r, D, e);
            for (size_t i = 0; i < D; i++)
                e[i] *= 0.3;
            colour(WVGD_FULL, D, f->cells.now.metric, e, away);
            for (size_t i = 0; i < D; i++)
                f->cells.now.z[i] = f->cells.now.mu[i] + away[i];
            for (size_t k = 0; k < dims; k++) {
                /* the wall of a particle that is 2 a away from e along q is at q.e + a */
                double a = 0.2 + 1.3 * test_random_uniform(&r), step[DIM];
                h[k] = a;
                for (size_t i = 0; i < D; i++) {
                    h[k] += Q[k * D + i] * e[i];
                    step[i] = 2 * a * Q[k * D + i];
                }
                colour(WVGD_FULL, D, f->cells.now.metric, step, away);
                for (size_t i = 0; i < D; i++)
                    f->cells.now.z[(k + 1) * D + i] = f->cells.now.z[i] + away[i];
                truth *= below(h[k]);
            }
            f->opt.seed = 100 + trial;
            f->halfspaces.lattice_dims = 0;
            wv_cell_draws_update_walls(f);
            wv_halfspaces_lattice(&f->halfspaces, f->opt.seed, dims);
            double total = 0, errors = 0;
            for (size_t j = 0; j < N; j++) { /* all components are one: masses sum to 1 */
                size_t mark = wv_arena_mark(f->arena);
                wv_walls walls = wv_cell_draws_walls(f, j);
                assert_int_equal(walls.dims, dims);
                double mass = wv_halfspaces_lattice_mass(&f->halfspaces, &walls),
                       error = wv_halfspaces_lattice_error(dims, 2 * WV_LATTICE_POINTS, mass);
                wv_arena_release(f->arena, mark);
                total += mass;
                errors += error;
                if (j && N > 2)
                    continue;
                double z = (mass - (j ? 1 - truth : truth)) / error;
                squares += z * z;
                worst = fmax(worst, fabs(z));
                n++;
            }
            assert_near(total, 1, 4 * errors);
        }
        double size = sqrt(squares / (double)n);
        print_message(
            "lattice in %zu dimensions: errors of masses %.2f of what is said (root mean square), at most %.2f\n", dims,
            size, worst);
        assert_true(size < 1.5 && size > 0.1 && worst < 5);
        wvgd_free(f);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_inside),
        cmocka_unit_test(lattice_masses),
        cmocka_unit_test(shared_masses),
        cmocka_unit_test(lost_component),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
