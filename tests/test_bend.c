/* test_bend.c - bent coordinates: the map against long double, its inverse, determinant and gradients against
 * differences, fits of rows and lines to scores whose answer is known, and forged states. It would find a wrong
 * derivative, a map that is not its inverse's inverse, and an index out of range. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinates/bend.h"
#include "coordinates/bend_arguments.h"
#include "gaussian.h"
#include "policy.h"
#include "staged/bent.h"
#include "support/near.h"
#include "support/test_random.h"

enum { D = 6, ARGUMENTS = 2, OTHERS = D - ARGUMENTS, ROOM = 4000000 };

typedef struct {
    wv_bend b;
    wv_arena *arena;
    test_random r;
} fixture;

/* A row of all arguments. */
static wv_bend_row some_row(test_random *r, size_t parents)
{
    wv_bend_row row;
    wv_bend_row_clear(&row);
    row.parents = parents;
    for (size_t k = 0; k < row.parents; k++)
        row.parent[k] = row.parents - 1 - k;
    for (size_t e = 0; e < 2; e++) {
        for (size_t k = 0; k <= row.parents; k++)
            row.precision[e][k] += 0.5 * test_random_normal(r);
        for (size_t k = 0; k <= 2 * row.parents; k++)
            row.location[e][k] = 0.3 * test_random_normal(r);
    }
    return row;
}

/* Two layers of the others, each in a basis that two reflections make. */
static void add_layers(fixture *f)
{
    for (size_t l = 0; l < 2; l++) {
        double T[OTHERS * OTHERS] = {0};
        wv_bend_row row[OTHERS];
        for (size_t i = 0; i < OTHERS; i++) {
            T[i * (OTHERS + 1)] = 1;
            row[i] = some_row(&f->r, ARGUMENTS);
        }
        for (size_t round = 0; round < 2; round++) {
            double v[OTHERS], square = 0;
            test_random_normals(&f->r, OTHERS, v);
            for (size_t i = 0; i < OTHERS; i++)
                square += v[i] * v[i];
            for (size_t i = 0; i < OTHERS; i++) {
                double along = 0;
                for (size_t k = 0; k < OTHERS; k++)
                    along += T[i * OTHERS + k] * v[k];
                for (size_t k = 0; k < OTHERS; k++)
                    T[i * OTHERS + k] -= 2 * along * v[k] / square;
            }
        }
        wv_bend_add_layer(&f->b, T, row);
    }
}

/* An affine layer that depends on all arguments; what stands above the diagonal of C is none of it. */
static void add_affine(fixture *f)
{
    double slice[(1 + 2 * ARGUMENTS) * OTHERS * (OTHERS + 1)];
    for (size_t i = 0; i < sizeof slice / sizeof *slice; i++)
        slice[i] = 0.1 * test_random_normal(&f->r);
    wv_bend_add_affine(&f->b, ARGUMENTS, slice, true);
}

/* A map with all that it may have: arguments that depend on each other, an affine layer, rows in three layers, a curved
 * line for each coordinate. */
static void set_up(fixture *f, uint64_t seed)
{
    memset(f, 0, sizeof *f);
    f->r = test_random_seed(seed);
    f->arena = wv_arena_new(ROOM);
    assert_true(f->arena && wv_bend_new(&f->b, D, 64));
    double centre[D], basis[D * D], value[WV_BEND_KNOTS];
    test_random_normals(&f->r, D, centre);
    for (size_t i = 0; i < D * D; i++)
        basis[i] = 0.3 * test_random_normal(&f->r) + (i % (D + 1) == 0);
    assert_true(wv_bend_set_frame(&f->b, ARGUMENTS, centre, basis, f->arena));
    for (size_t i = 0; i < D; i++) {
        wv_bend_row row = some_row(&f->r, i < ARGUMENTS ? i : ARGUMENTS);
        wv_bend_set_row(&f->b, i, &row);
        wv_bend_line line;
        double lean = test_random_uniform(&f->r);
        for (size_t k = 0; k < WV_BEND_KNOTS; k++) {
            double u = -4 + 9 * (double)k / (WV_BEND_KNOTS - 1);
            value[k] = u + 0.4 * lean * sqrt(1 + u * u);
        }
        assert_true(wv_bend_line_set(&line, -4, 5, value));
        wv_bend_set_line(&f->b, i, &line);
    }
    add_layers(f);
    add_affine(f);
}

static void tear_down(fixture *f)
{
    wv_bend_free(&f->b);
    wv_arena_free(f->arena);
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */
/* w_i in long double, from the formulas of bend_row.h. */
static long double row_of(const wv_bend_row *row, const long double *w, long double v)
{
    long double p[2], mu[2];
    for (size_t e = 0; e < 2; e++) {
        p[e] = (long double)row->precision[e][0];
        mu[e] = (long double)row->location[e][0];
        for (size_t k = 0; k < row->parents; k++) {
            long double t = w[row->parent[k]];
            p[e] += (long double)row->precision[e][1 + k] * t;
            mu[e] += (long double)row->location[e][1 + k] * t +
                     (long double)row->location[e][1 + row->parents + k] * (t * t - 1);
        }
        p[e] = expl(p[e]);
    }
    return (p[0] * mu[0] + p[1] * mu[1]) / (p[0] + p[1]) + v / sqrtl(p[0] + p[1]);
}

/* v <- T (m + exp(s) T'v). */
static void layer_of(const wv_bend_layer *layer, const long double *w, long double *v)
{
    long double turned[OTHERS] = {0};
    for (size_t i = 0; i < OTHERS; i++) {
        for (size_t k = 0; k < OTHERS; k++)
            turned[i] += (long double)layer->turn[k * OTHERS + i] * v[k];
        turned[i] = row_of(&layer->row[i], w, turned[i]);
    }
    for (size_t i = 0; i < OTHERS; i++) {
        v[i] = 0;
        for (size_t k = 0; k < OTHERS; k++)
            v[i] += (long double)layer->turn[i * OTHERS + k] * turned[k];
    }
}

/* v <- o(t) + C(t) v. */
static void affine_of(const wv_bend_affine *a, const long double *w, long double *v)
{
    const long double reach = (long double)wv_policy.bend_affine_reach;
    long double y[OTHERS], phi[1 + 2 * ARGUMENTS] = {1};
    for (size_t i = 0; i < ARGUMENTS; i++) {
        long double t = w[a->parent[i]], s = t / sqrtl(1 + t * t / (reach * reach));
        phi[1 + 2 * i] = s;
        phi[2 + 2 * i] = s * s - 1;
    }
    for (size_t i = 0; i < OTHERS; i++) {
        long double c[OTHERS + 1] = {0};
        for (size_t f = 0; f < a->features; f++)
            for (size_t k = 0; k <= OTHERS; k++)
                c[k] += phi[f] * (long double)a->slice[(f * OTHERS + i) * (OTHERS + 1) + k];
        y[i] = c[OTHERS] + expl(c[i]) * v[i];
        for (size_t k = 0; k < i; k++)
            y[i] += c[k] * v[k];
    }
    memcpy(v, y, sizeof y);
}

static void maps_as_in_long_double(void **state)
{
    fixture f;
    (void)state;
    set_up(&f, 1);
    for (size_t round = 0; round < 50; round++) {
        double u[D], x[D];
        long double v[D], w[D];
        test_random_normals(&f.r, D, u);
        wv_bend_forward(&f.b, 1, u, x, NULL, f.arena);
        for (size_t i = 0; i < D; i++)
            v[i] = (long double)wv_bend_line_at(&f.b.line[i], u[i]).v;
        for (size_t i = 0; i < ARGUMENTS; i++)
            w[i] = row_of(&f.b.row[i], w, v[i]);
        affine_of(&f.b.affine, w, v + ARGUMENTS);
        for (size_t l = f.b.layers; l-- > 0;)
            layer_of(&f.b.layer[l], w, v + ARGUMENTS);
        for (size_t i = ARGUMENTS; i < D; i++)
            w[i] = row_of(&f.b.row[i], w, v[i]);
        for (size_t i = 0; i < D; i++) {
            long double sum = (long double)f.b.centre[i], size = fabsl(sum);
            for (size_t k = 0; k < D; k++) {
                sum += (long double)f.b.basis[i * D + k] * w[k];
                size += fabsl((long double)f.b.basis[i * D + k] * w[k]);
            }
            assert_near(x[i], (double)sum, 64 * DBL_EPSILON * (double)size);
        }
    }
    tear_down(&f);
}

static void inverts(void **state)
{
    fixture f;
    (void)state;
    set_up(&f, 2);
    for (size_t round = 0; round < 200; round++) {
        double u[D], x[D], back[D];
        for (size_t i = 0; i < D; i++)
            u[i] = 3 * test_random_normal(&f.r);
        wv_bend_forward(&f.b, 1, u, x, NULL, f.arena);
        wv_bend_inverse(&f.b, 1, x, back, f.arena);
        wv_bend_forward(&f.b, 1, back, back, NULL, f.arena);
        for (size_t i = 0; i < D; i++)
            assert_near(back[i], x[i], 1e-9 * (1 + fabs(x[i])));
    }
    tear_down(&f);
}

/* |det df/du| from central differences, by elimination. */
static double log_determinant(fixture *f, const double *u)
{
    const double h = 1e-5;
    double J[D][D], sum = 0;
    for (size_t k = 0; k < D; k++) {
        double a[D], b[D], x[D], y[D];
        memcpy(a, u, sizeof a);
        memcpy(b, u, sizeof b);
        a[k] += h;
        b[k] -= h;
        wv_bend_forward(&f->b, 1, a, x, NULL, f->arena);
        wv_bend_forward(&f->b, 1, b, y, NULL, f->arena);
        for (size_t i = 0; i < D; i++)
            J[i][k] = (x[i] - y[i]) / (2 * h);
    }
    for (size_t k = 0; k < D; k++) {
        size_t best = k;
        for (size_t i = k; i < D; i++)
            best = fabs(J[i][k]) > fabs(J[best][k]) ? i : best;
        for (size_t j = 0; j < D; j++) {
            double keep = J[k][j];
            J[k][j] = J[best][j];
            J[best][j] = keep;
        }
        sum += log(fabs(J[k][k]));
        for (size_t i = k + 1; i < D; i++)
            for (size_t j = D; j-- > k;)
                J[i][j] -= J[i][k] / J[k][k] * J[k][j];
    }
    return sum;
}

/* A log density of x with a gradient. */
static double density(const double *x, double *g)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++) {
        double next = x[(i + 1) % D], last = x[(i + D - 1) % D];
        sum += -0.5 * x[i] * x[i] + 0.2 * sin(x[i] * next);
        g[i] = -x[i] + 0.2 * (cos(x[i] * next) * next + cos(x[i] * last) * last);
    }
    return sum;
}

static double pulled(fixture *f, const double *u, double *grad)
{
    double x[D], log_p;
    wv_bend_forward(&f->b, 1, u, x, NULL, f->arena);
    log_p = density(x, grad);
    wv_bend_pull(&f->b, 1, u, &log_p, grad, f->arena);
    return log_p;
}

static void pulls_gradients_back(void **state)
{
    const double h = 1e-5;
    fixture f;
    (void)state;
    set_up(&f, 3);
    for (size_t round = 0; round < 50; round++) {
        double u[D], x[D], grad[D], spare[D], g[D], log_det;
        test_random_normals(&f.r, D, u);
        double log_p = pulled(&f, u, grad);
        wv_bend_forward(&f.b, 1, u, x, &log_det, f.arena);
        assert_near(log_p, density(x, g) + log_det, 1e-9 * (1 + fabs(log_p)));
        assert_near(log_det, log_determinant(&f, u), 1e-6);
        for (size_t i = 0; i < D; i++) {
            double a[D], b[D];
            memcpy(a, u, sizeof a);
            memcpy(b, u, sizeof b);
            a[i] += h;
            b[i] -= h;
            assert_near(grad[i], (pulled(&f, a, spare) - pulled(&f, b, spare)) / (2 * h), 1e-5 * (1 + fabs(log_p)));
        }
        wv_bend_push(&f.b, 1, u, &log_p, grad, f.arena);
        assert_near(log_p, density(x, g), 1e-9 * (1 + fabs(log_p)));
        for (size_t i = 0; i < D; i++)
            assert_near(grad[i], g[i], 1e-8 * (1 + fabs(g[i])));
    }
    tear_down(&f);
}

static void leaves_points_without_density(void **state)
{
    fixture f;
    double u[2 * D] = {0}, log_p[2] = {-INFINITY, NAN}, grad[2 * D] = {0};
    (void)state;
    set_up(&f, 4);
    wv_bend_pull(&f.b, 2, u, log_p, grad, f.arena);
    for (size_t i = 0; i < 2; i++)
        assert_true(log_p[i] == -INFINITY && grad[i * D] == 0);
    tear_down(&f);
}

static void rescales_arguments(void **state)
{
    fixture f;
    (void)state;
    set_up(&f, 5);
    wv_bend_clear_layers(&f.b); /* the affine one does without */
    add_layers(&f);
    double u[D], x[D], y[D];
    wv_bend_line straight;
    wv_bend_row plain;
    wv_bend_line_clear(&straight);
    wv_bend_row_clear(&plain);
    for (size_t j = 0; j < ARGUMENTS; j++) {
        wv_bend_set_line(&f.b, j, &straight);
        wv_bend_set_row(&f.b, j, &plain);
    }
    test_random_normals(&f.r, D, u);
    wv_bend_forward(&f.b, 1, u, x, NULL, f.arena);
    wv_bend_rescale(&f.b, 1, 0.7, 1.6, f.arena);
    u[1] = (u[1] - 0.7) / 1.6;
    wv_bend_forward(&f.b, 1, u, y, NULL, f.arena);
    for (size_t i = 0; i < D; i++)
        assert_near(x[i], y[i], 1e-12 * (1 + fabs(x[i])));
    tear_down(&f);
}

/* An argument leans: the map is the same where the argument and the basis change together. */
static void leans_arguments(void **state)
{
    const double delta[D] = {-0.4, 0, 0.3, -0.2, 0.5, 0.1};
    fixture f;
    (void)state;
    set_up(&f, 11);
    double u[D], x[D], back[D], inverse[D * D];
    wv_bend_lean(&f.b, 1, delta);
    test_random_normals(&f.r, D, u);
    wv_bend_forward(&f.b, 1, u, x, NULL, f.arena);
    wv_bend_inverse(&f.b, 1, x, back, f.arena);
    for (size_t i = 0; i < D; i++)
        assert_near(back[i], u[i], 1e-9 * (1 + fabs(u[i])));
    memcpy(inverse, f.b.inverse, sizeof inverse);
    assert_true(wv_bend_set_frame(&f.b, ARGUMENTS, f.b.centre, f.b.basis, f.arena));
    for (size_t i = 0; i < D * D; i++)
        assert_near(f.b.inverse[i], inverse[i], 1e-12 * (1 + fabs(inverse[i])));
    tear_down(&f);
}

/* Arguments change places: the others see what they saw. */
static void swaps_arguments(void **state)
{
    fixture f;
    (void)state;
    set_up(&f, 10);
    wv_bend_clear_layers(&f.b); /* the affine one does without */
    add_layers(&f);
    double u[D], x[D], y[D];
    wv_bend_line straight;
    wv_bend_row plain;
    wv_bend_line_clear(&straight);
    wv_bend_row_clear(&plain);
    for (size_t j = 0; j < ARGUMENTS; j++) {
        wv_bend_set_line(&f.b, j, &straight);
        wv_bend_set_row(&f.b, j, &plain);
    }
    test_random_normals(&f.r, D, u);
    wv_bend_forward(&f.b, 1, u, x, NULL, f.arena);
    wv_bend_swap(&f.b, 0, 1);
    double keep = u[0];
    u[0] = u[1];
    u[1] = keep;
    wv_bend_forward(&f.b, 1, u, y, NULL, f.arena);
    for (size_t i = 0; i < D; i++)
        assert_near(x[i], y[i], 1e-12 * (1 + fabs(x[i])));
    wv_bend_inverse(&f.b, 1, y, y, f.arena);
    for (size_t i = 0; i < D; i++)
        assert_near(y[i], u[i], 1e-9 * (1 + fabs(u[i])));
    tear_down(&f);
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */
/* Scores of a coordinate with a prior of scale exp(t) and a measurement: the row that was made of them comes back. */
static void finds_two_experts(void **state)
{
    enum { N = 600 };
    fixture f;
    static double t[N], y[N], g[N], w[N];
    (void)state;
    set_up(&f, 6);
    for (size_t i = 0; i < N; i++) {
        t[i] = 1.5 * test_random_normal(&f.r);
        double prior = exp(-2 * t[i]), data = 1.3, m = data * 0.8 / (prior + data);
        y[i] = m + test_random_normal(&f.r) / sqrt(prior + data);
        g[i] = -prior * y[i] - data * (y[i] - 0.8);
        w[i] = 1.0 / N;
    }
    wv_bend_row row;
    wv_bend_row_clear(&row);
    row.parents = 1;
    wv_bend_row_fit(&row, &(wv_bend_points){N, 1, 1, t, y, g, w}, wv_policy.bend_ridge, true, f.arena);
    for (double at = -2; at <= 2; at += 0.5) {
        double prior = exp(-2 * at), data = 1.3;
        wv_bend_place p = wv_bend_row_at(&row, &at);
        assert_near(p.s, -log(prior + data) / 2, 0.05);
        assert_near(p.m, data * 0.8 / (prior + data), 0.05);
    }
    tear_down(&f);
}

/* The log of an exponential variable has the density exp(v - exp(v)). */
static void finds_a_line(void **state)
{
    enum { N = 500 };
    fixture f;
    static double v[N], g[N], w[N];
    (void)state;
    set_up(&f, 7);
    for (size_t i = 0; i < N; i++) {
        v[i] = log(-log(test_random_uniform(&f.r)));
        g[i] = 1 - exp(v[i]);
        w[i] = 1;
    }
    wv_bend_line line;
    wv_bend_line_fit(&line, N, v, g, w, f.arena);
    assert_true(line.curved);
    for (double u = -2; u <= 2; u += 0.5) {
        double above = erfc(u / sqrt(2)) / 2, truth = log(-log(above));
        assert_near(wv_bend_line_at(&line, u).v, truth, 0.1); /* knees follow exp(v) so far */
        assert_near(wv_bend_line_inverse(&line, wv_bend_line_at(&line, u).v), u, 1e-12);
    }
    tear_down(&f);
}

static void refuses_lines_that_fall(void **state)
{
    double value[WV_BEND_KNOTS];
    wv_bend_line line;
    (void)state;
    for (size_t k = 0; k < WV_BEND_KNOTS; k++)
        value[k] = sin((double)k);
    assert_false(wv_bend_line_set(&line, -1, 1, value));
    assert_false(line.curved);
    assert_true(wv_bend_line_at(&line, 0.3).v == 0.3);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* 0.9 N(0, 1) and, of arms, 0.1 N((2, -3), (0.5, 1.5)) of the arguments; the others are standard normal. */
static double with_arm(bool arm, const double *x, double *g)
{
    double side = (x[0] - 2) / 0.5, along = (x[1] + 3) / 1.5, square = 0,
           part[2] = {log(0.9) - (x[0] * x[0] + x[1] * x[1]) / 2,
                      arm ? log(0.1 / 0.75) - (side * side + along * along) / 2 : -INFINITY},
           top = fmax(part[0], part[1]), sum = top + log(exp(part[0] - top) + exp(part[1] - top)),
           of_arm = exp(part[1] - sum);
    g[0] = -(1 - of_arm) * x[0] - of_arm * side / 0.5;
    g[1] = -(1 - of_arm) * x[1] - of_arm * along / 1.5;
    for (size_t i = 2; i < D; i++) {
        square += x[i] * x[i];
        g[i] = -x[i];
    }
    return sum - square / 2;
}

static bool fit_arm(bool arm, wv_bend_clouds *q)
{
    enum { N = 400, BASIS = D * D };
    fixture f;
    wv_bend_pool p = {0};
    wv_stream stream = {1, WV_RNG_BEND, 0, 1};
    static double x[N * D], g[N * D], log_p[N];
    double centre[D] = {0}, basis[BASIS] = {0};
    set_up(&f, 10);
    for (size_t i = 0; i < D; i++)
        basis[i * (D + 1)] = 1;
    assert_true(wv_bend_set_frame(&f.b, ARGUMENTS, centre, basis, f.arena) && wv_bend_pool_new(&p, D));
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < D; k++)
            x[i * D + k] = (k < ARGUMENTS ? 2 : 1) * test_random_normal(&f.r);
        log_p[i] = with_arm(arm, x + i * D, g + i * D);
    }
    wv_bend_pool_take(&p, N, x, log_p, g);
    bool found = wv_bend_arguments_fit(&p, &f.b, &stream, q, f.arena);
    wv_bend_pool_free(&p);
    tear_down(&f);
    return found;
}

static void finds_an_arm(void **state)
{
    wv_bend_clouds q;
    double share = 0;
    (void)state;
    assert_false(fit_arm(false, &q));
    assert_true(fit_arm(true, &q));
    for (size_t k = 0; k < q.K; k++)
        share += q.mu[k][0] > 1 && q.mu[k][1] < -1 ? q.w[k] : 0;
    assert_near(share, 0.1, 0.03);
}

/* Half of the points for a map come from the Gaussians of the arguments, made wider; of the others every second one is
 * far out along one argument alone. Without either, arms of the arguments stay unseen (docs/internals/bend.md). */
static void draws_points_along_arms(void **state)
{
    (void)state;
    enum { N = 8000 };
    static double x[N * D], u[N * D];
    wv_bend_pool pool = {.D = D, .round = (size_t)wv_policy.bend_rounds_gaussian + 1};
    wv_bend_clouds q = {
        .K = 2, .r = ARGUMENTS, .w = {0.5, 0.5}, .mu = {{0}, {2, -2}}, .root = {{1, 0, 0, 1}, {1, 0, 0, 1}}};
    wv_stream stream = {3, WV_RNG_BEND, 0, 0}, arms = {3, WV_RNG_BEND, 0, 1};
    fixture f;
    double mean[2] = {0}, square[2] = {0}, others = 0, along = 0, beside = 0;
    set_up(&f, 11);
    wv_bend_draw(&pool, &f.b, &stream, N, x, f.arena);
    wv_bend_inverse(&f.b, N, x, u, f.arena);
    for (size_t i = 1; i < N / 2; i += 2) { /* far out alone: one of both arguments, never both */
        bool first = i / 4 % 2 == 0;
        along += pow(u[i * D + !first], 2) / (N / 4);
        beside += pow(u[i * D + first], 2) / (N / 4);
    }
    assert_near(along, 16, 16 * 4 * sqrt(2. / (N / 4)));
    assert_near(beside, 1, 4 * sqrt(2. / (N / 4)));
    wv_bend_arguments_draw(&q, &f.b, &arms, N, x, f.arena);
    wv_bend_inverse(&f.b, N, x, u, f.arena);
    for (size_t i = 0; i < N; i += 2) {
        for (size_t k = 0; k < ARGUMENTS; k++) {
            mean[k] += u[i * D + k] / (N / 2);
            square[k] += u[i * D + k] * u[i * D + k] / (N / 2);
        }
        others += u[i * D + D - 1] * u[i * D + D - 1] / (N / 2);
    }
    double wide = wv_policy.bend_arm_wide * wv_policy.bend_arm_wide, error = 4 * sqrt((wide + 1) / (N / 2));
    assert_near(mean[0], 1, error);
    assert_near(mean[1], -1, error);
    for (size_t k = 0; k < ARGUMENTS; k++)
        assert_near(square[k], wide + 2, 4 * (wide + 4) * sqrt(2. / (N / 2)));
    assert_near(others, 1, 4 * sqrt(2. / (N / 2)));
    tear_down(&f);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */
static size_t write_state(wv_bend *b, unsigned char *to, size_t room)
{
    wv_archive a = {.mode = WV_WRITING, .out = to, .size = room};
    assert_true(wv_bend_archive(b, &a));
    return room - a.size;
}

static bool read_state(wv_bend *b, wv_archiving mode, const unsigned char *from, size_t size)
{
    wv_archive a = {.mode = mode, .in = from, .size = size};
    return wv_bend_archive(b, &a) && !a.refused;
}

static void comes_back_from_a_state(void **state)
{
    enum { BYTES = 100000 };
    fixture f, other;
    static unsigned char bytes[BYTES];
    (void)state;
    set_up(&f, 8);
    set_up(&other, 9);
    wv_bend_count(&f.b, 1, 40);
    wv_bend_switch(&f.b, true);
    size_t size = write_state(&f.b, bytes, BYTES);
    assert_true(read_state(&other.b, WV_CHECKING, bytes, size) && read_state(&other.b, WV_READING, bytes, size));
    double u[D] = {0.3, -1, 2, 0.1, 0, -0.4}, x[D], y[D];
    wv_bend_forward(&f.b, 1, u, x, NULL, f.arena);
    wv_bend_forward(&other.b, 1, u, y, NULL, f.arena);
    assert_memory_equal(x, y, sizeof x);
    assert_true(wv_bend_show(&other.b, 1, u, f.arena) != u);
    wv_bend_row right = f.b.row[3], wrong = right;
    wrong.parent[0] = D; /* no argument has this number */
    wv_bend_set_row(&f.b, 3, &wrong);
    size = write_state(&f.b, bytes, BYTES);
    assert_false(read_state(&other.b, WV_CHECKING, bytes, size));
    wv_bend_set_row(&f.b, 3, &right);
    wv_bend_row last = f.b.layer[1].row[0];
    f.b.layer[1].row[0] = wrong;
    size = write_state(&f.b, bytes, BYTES);
    assert_false(read_state(&other.b, WV_CHECKING, bytes, size));
    f.b.layer[1].row[0] = last;
    f.b.affine.parent[1] = ARGUMENTS;
    assert_false(wv_bend_archive(&f.b, &(wv_archive){.mode = WV_WRITING, .out = bytes, .size = BYTES}));
    tear_down(&f);
    tear_down(&other);
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */
/* A map in two dimensions: x_0 = first u_0, x_1 = exp(slope u_0) u_1. */
static void set_funnel(wv_bend *b, double first, double slope, wv_arena *arena)
{
    const double centre[2] = {0}, basis[4] = {first, 0, 0, 1};
    wv_bend_row row;
    assert_true(wv_bend_new(b, 2, 64));
    wv_bend_row_clear(&row);
    row.parents = 1;
    row.precision[0][1] = row.precision[1][1] = -2 * slope;
    assert_true(wv_bend_set_frame(b, 1, centre, basis, arena));
    wv_bend_set_row(b, 1, &row);
}

/* Free draws through the map tell means and variances in x, and the errors of these. Of a funnel along u_0 and a
 * mixture in u all have closed forms. */
static void free_draws_tell_variances(void **state)
{
    (void)state;
    enum { K = 2, SEEDS = 200 };
    static const double w[K] = {0.3, 0.7}, mu[K][2] = {{-0.5, 0.4}, {0.3, -0.2}}, sd[K][2] = {{0.6, 0.9}, {1.1, 1}};
    const double first = 1.5, slope = 0.75;
    double mean[2] = {0}, var[2] = {0}, off[2] = {0}, z[2] = {0}, told[2], told_var[2], told_se[2];
    wv_arena *arena = wv_arena_new(ROOM);
    wv_bend map;
    wv_mixture mix;
    wv_map_draws d = {&map, &mix, (const double[2]){0}, 0};
    assert_true(arena && wv_mixture_new(&mix, 2, K));
    set_funnel(&map, first, slope, arena);
    for (size_t k = 0; k < K; k++) {
        const double *m = mu[k], *s = sd[k], by = slope * s[0], root[4] = {s[0], 0, 0, s[1]};
        wv_mixture_append(&mix, &(wv_gaussian){wv_family_get(WVGD_FULL), 2, 0, m, root, 0}, w[k]);
        mean[0] += w[k] * first * m[0];
        mean[1] += w[k] * exp(slope * m[0] + by * by / 2) * m[1];
        var[0] += w[k] * first * first * (m[0] * m[0] + s[0] * s[0]);
        var[1] += w[k] * exp(2 * slope * m[0] + 2 * by * by) * (m[1] * m[1] + s[1] * s[1]);
    }
    for (size_t i = 0; i < 2; i++)
        var[i] -= mean[i] * mean[i];
    for (d.seed = 1; d.seed <= SEEDS; d.seed++) {
        wv_bent_free_moments(&d, &(wv_moments_known){told, told_var, told_se}, arena);
        for (size_t i = 0; i < 2; i++) {
            assert_true(told_se[i] < 0.05 * var[i]);
            off[i] += (told[i] - mean[i]) / sqrt(var[i]) / SEEDS;
            z[i] += pow((told_var[i] - var[i]) / told_se[i], 2) / SEEDS;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        print_message("x_%zu: means off by %.1e sds, z-scores of variances have root mean square %.2f\n", i, off[i],
                      sqrt(z[i]));
        assert_near(off[i], 0, 4 / sqrt(wv_policy.bend_free_draws * SEEDS / 4)); /* a draw in four counts, at least */
        assert_near(z[i], 1, 4 * sqrt(2. / SEEDS));
    }
    wv_mixture_free(&mix);
    wv_bend_free(&map);
    wv_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_as_in_long_double),
        cmocka_unit_test(inverts),
        cmocka_unit_test(pulls_gradients_back),
        cmocka_unit_test(leaves_points_without_density),
        cmocka_unit_test(rescales_arguments),
        cmocka_unit_test(leans_arguments),
        cmocka_unit_test(swaps_arguments),
        cmocka_unit_test(finds_two_experts),
        cmocka_unit_test(finds_a_line),
        cmocka_unit_test(refuses_lines_that_fall),
        cmocka_unit_test(finds_an_arm),
        cmocka_unit_test(draws_points_along_arms),
        cmocka_unit_test(comes_back_from_a_state),
        cmocka_unit_test(free_draws_tell_variances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
