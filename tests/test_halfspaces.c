/* test_halfspaces.c - points that cost no evaluation: draws of a component inside its cell are those that rejection
 * gives, and masses by a lattice those of closed forms. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gaussian.h"
#include "halfspaces.h"
#include "simd/columns.h"
#include "nearest.h"
#include "support/near.h"
#include "support/test_random.h"

enum { MAX_D = 12, MAX_N = 6, MOMENTS = 1 + MAX_D + MAX_D * (MAX_D + 1) / 2 };

/* Particles and components, for the tests to set, and the walls between them. */
typedef struct {
    double z[MAX_N * MAX_D], mu[MAX_N * MAX_D], root[MAX_N * MAX_D * MAX_D], metric[MAX_D * MAX_D];
    const wv_family *family; /* of the components */
    wv_geometry g;
    wv_halfspaces h;
    wv_arena *arena;
} cells;

static cells *new_cells(size_t D, size_t N, wvgd_family family, wvgd_cost cost)
{
    cells *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_true(N <= MAX_N && D <= MAX_D);
    c->family = wv_family_get(family);
    c->g = (wv_geometry){.cost = {.kind = cost, .metric_family = wv_family_get(WVGD_FULL)},
                         .N = N,
                         .D = D,
                         .z = c->z,
                         .metric = c->metric};
    c->arena = wv_arena_new(WV_FREE * 8 * MAX_D);
    assert_true(c->arena && wv_halfspaces_new(&c->h, N, D, true));
    return c;
}

static void free_cells(cells *c)
{
    wv_halfspaces_free(&c->h);
    wv_arena_free(c->arena);
    free(c);
}

static wv_gaussian component(const cells *c, size_t j)
{
    size_t D = c->g.D;
    return (wv_gaussian){c->family, D, 0, c->mu + j * D, c->root + j * c->family->size(D, 0), 0};
}

/* Draws number first .. first + n of component j inside its cell. */
static wv_inside draw_inside(cells *c, size_t j, uint64_t first, size_t n)
{
    wv_in_cell in = {.j = j, .q = component(c, j), .stream = {1, WV_RNG_BOUND, 0, j}};
    return wv_halfspaces_draw_inside(&c->h, &in, first, n, c->arena);
}

/* The particle nearest to x, by |L^-1 (x - z)|^2, with L the metric's root or I, one by one. */
static size_t nearest(const cells *c, const double *x)
{
    size_t D = c->g.D, at = 0;
    double least = INFINITY;
    for (size_t j = 0; j < c->g.N; j++) {
        double y[MAX_D], cost = 0;
        for (size_t i = 0; i < D; i++) {
            y[i] = x[i] - c->z[j * D + i];
            for (size_t k = 0; c->g.cost.kind == WVGD_MAHALANOBIS && k < i; k++)
                y[i] -= c->metric[i * D + k] * y[k];
            if (c->g.cost.kind == WVGD_MAHALANOBIS)
                y[i] /= c->metric[i * D + i];
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
        size_t D = cases[c].D, N = cases[c].N, size;
        cells *f = new_cells(D, N, cases[c].family, cases[c].cost);
        double line[MAX_D];
        size = f->family->size(D, 0);
        test_random_root(WVGD_FULL, D, &r, f->metric);
        for (size_t i = 0; i < D; i++)
            line[i] = test_random_normal(&r);
        for (size_t i = 0; i < N * D; i++) {
            f->z[i] = c + 2 >= CASES ? 0.3 + (double)(i / D) * 0.4 * line[i % D] : 0.8 * test_random_normal(&r);
            f->z[i] += c + 1 == CASES ? 3e-9 * test_random_normal(&r) : 0;
            f->mu[i] = f->z[i] + 0.3 * test_random_normal(&r);
        }
        for (size_t j = 0; j < N; j++)
            test_random_root(cases[c].family, D, &r, f->root + j * size);
        wv_halfspaces_update(&f->h, &f->g, f->arena);
        for (size_t j = 0; j < N; j++) {
            tally got = {.n = BATCHES * WV_FREE}, wanted = {.n = BATCHES * WV_FREE}, alone = {.n = ALONE};
            const double *mu = f->mu + j * D;
            double e[MAX_D], x[MAX_D];
            size_t mark = wv_arena_mark(f->arena);
            for (uint64_t b = 0; b < BATCHES; b++) {
                wv_inside in = draw_inside(f, j, b * WV_FREE, WV_FREE);
                assert_true(in.all == WV_FREE && in.n <= WV_FREE);
                wv_nearest_assign(&f->g, in.n, in.x, cell, near, next, f->arena);
                for (size_t i = 0; i < in.n; i++) {
                    assert_true(in.u[i] == 1 && (cell[i] == j || next[i] - near[i] < 1e-9 * next[i]));
                    add(&got, D, mu, in.x + i * D);
                }
                wv_inside few = draw_inside(f, j, b * WV_FREE, 100);
                assert_true(few.all == 100 && few.n <= in.n && few.n <= 100);
                for (size_t i = 0; i < few.n * D; i++)
                    assert_near(few.x[i], in.x[i], 1e-12 * (1 + fabs(in.x[i])));
                wv_arena_release(f->arena, mark);
            }
            for (size_t i = 0; i < BATCHES * WV_FREE; i++) {
                test_random_normals(&r, D, e);
                test_random_colour(cases[c].family, D, f->root + j * size, e, x);
                for (size_t k = 0; k < D; k++)
                    x[k] += mu[k];
                add(&wanted, D, mu, nearest(f, x) == j ? x : NULL);
            }
            for (uint64_t i = 0; i < ALONE; i++) {
                wv_inside one = draw_inside(f, j, BATCHES * WV_FREE + i, 1);
                add(&alone, D, mu, one.n ? one.x : NULL);
                wv_arena_release(f->arena, mark);
            }
            double z = fmax(apart(&got, &wanted, D), apart(&alone, &wanted, D));
            worst = fmax(worst, z);
            if (!(z < 5))
                fail_msg("case %zu, cell %zu: %g standard errors", c, j, z);
        }
        free_cells(f);
    }
    print_message("draws inside cells: moments within %.2f standard errors of those by rejection\n", worst);
}

/* ---- a lattice --------------------------------------------------------------------------------------------------- */
static double below(double h)
{
    return erfc(-h / sqrt(2)) / 2;
}

/* Share of the points of the lattice, and of their mirror images, in cell 0, as q sees it. */
static double lattice_mass(cells *f, const wv_gaussian *q, size_t dims)
{
    size_t mark = wv_arena_mark(f->arena), N = f->g.N, D = f->g.D;
    double inside = 0, which[WV_COLUMNS], *A = wv_arena_take(f->arena, N * D), *W = wv_arena_take(f->arena, N * D),
           *low = wv_arena_take(f->arena, N), *e = wv_arena_take(f->arena, dims * WV_COLUMNS);
    wv_halfspaces_scores(&f->h, q, dims, A, W, low, f->arena);
    for (size_t at = 0; at < WV_LATTICE_POINTS; at += WV_COLUMNS)
        for (int sign = -1; sign <= 1; sign += 2) {
            for (size_t i = 0; i < dims * WV_COLUMNS; i++)
                e[i] = sign * f->h.lattice[at * dims + i];
            wv_columns_best()->highest(dims, WV_COLUMNS, N, e, W, low, which);
            for (size_t i = 0; i < WV_COLUMNS; i++)
                inside += which[i] == 0;
        }
    wv_arena_release(f->arena, mark);
    return inside / (2 * WV_LATTICE_POINTS);
}

/* Cell 0 of particles whose differences from particle 0 are at right angles in the coordinates in which component
 * 0 is standard normal: its mass is a product of normal integrals. Up to four walls, anywhere in eight
 * dimensions; the lattice of another seed each time. With two particles both cells have a closed form.
 * Errors are as large as they are said to be. */
static void lattice_masses(void **state)
{
    (void)state;
    enum { DIM = 8, TRIALS = 60 };
    test_random r = test_random_seed(8);
    for (size_t dims = 1; dims <= WV_LATTICE; dims++) {
        double squares = 0, worst = 0;
        size_t D = DIM, N = dims + 1, n = 0;
        cells *f = new_cells(D, N, WVGD_FULL, WVGD_MAHALANOBIS);
        for (uint64_t trial = 0; trial < TRIALS; trial++) {
            double h[WV_LATTICE], Q[WV_LATTICE * DIM], truth = 1;
            test_random_root(WVGD_FULL, D, &r, f->metric);
            for (size_t j = 0; j < N; j++)
                memcpy(f->root + j * D * D, f->metric, D * D * sizeof(double));
            for (size_t i = 0; i < D; i++)
                f->mu[i] = 5 * test_random_normal(&r);
            for (size_t j = 1; j < N; j++)
                memcpy(f->mu + j * D, f->mu, D * sizeof(double));
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
            test_random_colour(WVGD_FULL, D, f->metric, e, away);
            for (size_t i = 0; i < D; i++)
                f->z[i] = f->mu[i] + away[i];
            for (size_t k = 0; k < dims; k++) {
                /* the wall of a particle that is 2 a away from e along q is at q.e + a */
                double a = 0.2 + 1.3 * test_random_uniform(&r), step[DIM];
                h[k] = a;
                for (size_t i = 0; i < D; i++) {
                    h[k] += Q[k * D + i] * e[i];
                    step[i] = 2 * a * Q[k * D + i];
                }
                test_random_colour(WVGD_FULL, D, f->metric, step, away);
                for (size_t i = 0; i < D; i++)
                    f->z[(k + 1) * D + i] = f->z[i] + away[i];
                truth *= below(h[k]);
            }
            f->h.lattice_dims = 0;
            wv_halfspaces_update(&f->h, &f->g, f->arena);
            wv_halfspaces_lattice(&f->h, 100 + trial, dims);
            wv_gaussian q = component(f, 0);
            double mass = lattice_mass(f, &q, dims),
                   z = (mass - truth) / wv_halfspaces_lattice_error(dims, 2 * WV_LATTICE_POINTS, mass);
            squares += z * z;
            worst = fmax(worst, fabs(z));
            n++;
            for (size_t j = 0; j < 2 && N == 2; j++)
                assert_near(wv_halfspaces_log_mass(&f->h, j, &q, f->arena), log(j ? 1 - truth : truth), 1e-9);
        }
        double size = sqrt(squares / (double)n);
        print_message(
            "lattice in %zu dimensions: errors of masses %.2f of what is said (root mean square), at most %.2f\n", dims,
            size, worst);
        assert_true(size < 1.5 && size > 0.1 && worst < 5);
        free_cells(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_inside),
        cmocka_unit_test(lattice_masses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
