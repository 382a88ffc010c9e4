/* test_bent_fit.c - whole fits with --bend auto: a funnel and a banana, whose evidence and means are known in closed
 * form, come out right with fewer evaluations, and so do bananas with nearly collinear axes and a funnel along no axis;
 * a posterior that no map follows comes out right without;
 * the bits do not depend on threads, or on a pause in any batch; cells with components of u are a density; and a fit in
 * which no bend is found is the fit without, as is one whose bend would need many components; the search for modes
 * waits for a bend and then goes on; a regression whose evaluations are cheap gets no map. It would find a wrong
 * determinant, a map that is lost in a saved state, evaluations spent on a search that finds nothing, and maps that
 * one large weight calls for. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/logistic_truth.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { D = 6, MOST_D = 9 };
static const double half_log_2pi = 0.918938533204672741780;

/* v ~ N(0, 1.5^2), x_i ~ N(0, exp(v)). */
static int funnel(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const double variance = 2.25;
    (void)self;
    for (size_t i = 0; i < n; i++) {
        const double *x = z + i * D;
        double squares = 0, scale = exp(-x[0]);
        for (size_t k = 1; k < D; k++)
            squares += x[k] * x[k];
        log_p[i] = -x[0] * x[0] / (2 * variance) - log(variance) / 2 - squares * scale / 2 - (D - 1) * x[0] / 2 -
                   D * half_log_2pi;
        if (!grad)
            continue;
        grad[i * D] = -x[0] / variance + squares * scale / 2 - (D - 1) / 2.0;
        for (size_t k = 1; k < D; k++)
            grad[i * D + k] = -scale * x[k];
    }
    return 0;
}

/* The funnel, reflected along a direction that has no part of 0. */
static void reflect(double *x)
{
    const double v[D] = {0.5, -0.6, 0.3, 0.4, -0.2, 0.1};
    double along = 0, square = 0;
    for (size_t k = 0; k < D; k++) {
        along += v[k] * x[k];
        square += v[k] * v[k];
    }
    for (size_t k = 0; k < D; k++)
        x[k] -= 2 * along / square * v[k];
}

static int turned_funnel(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    for (size_t i = 0; i < n; i++) {
        double x[D];
        memcpy(x, z + i * D, sizeof x);
        reflect(x);
        funnel(self, 1, x, log_p + i, grad ? grad + i * D : NULL);
        if (grad)
            reflect(grad + i * D);
    }
    return 0;
}

/* a ~ N(1, 1), b ~ N(a^2, 0.1^2). */
static int banana(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const double variance = 0.01;
    (void)self;
    for (size_t i = 0; i < n; i++) {
        double a = z[2 * i], away = z[2 * i + 1] - a * a;
        log_p[i] = -(a - 1) * (a - 1) / 2 - away * away / (2 * variance) - log(variance) / 2 - 2 * half_log_2pi;
        if (!grad)
            continue;
        grad[2 * i] = 1 - a + 2 * a * away / variance;
        grad[2 * i + 1] = -away / variance;
    }
    return 0;
}

/* Two thin bananas: a_i ~ N(1, 1), b_i ~ N(a_i^2, 0.1^2). */
static int bananas(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        double pair[2][2], slope[2][2], part[2];
        for (size_t k = 0; k < 2; k++) {
            pair[k][0] = z[4 * i + k];
            pair[k][1] = z[4 * i + 2 + k];
            banana(NULL, 1, pair[k], part + k, slope[k]);
            if (grad) {
                grad[4 * i + k] = slope[k][0];
                grad[4 * i + 2 + k] = slope[k][1];
            }
        }
        log_p[i] = part[0] + part[1];
    }
    return 0;
}

/* Log-gamma of shape 1 in each coordinate: means are minus Euler's constant. */
static int log_gamma(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t k = 0; k < D; k++) {
            double e = exp(z[i * D + k]);
            log_p[i] += z[i * D + k] - e;
            if (grad)
                grad[i * D + k] = 1 - e;
        }
    }
    return 0;
}

/* A Student-t of three degrees of freedom in each coordinate: costly for one Gaussian, but there is no argument. */
static int heavy(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        double q = 1;
        for (size_t k = 0; k < D; k++)
            q += z[i * D + k] * z[i * D + k] / 3;
        log_p[i] = -(3.0 + D) / 2 * log(q);
        for (size_t k = 0; grad && k < D; k++)
            grad[i * D + k] = -(3.0 + D) / 3 * z[i * D + k] / q;
    }
    return 0;
}

static wvgd_model model_of(wvgd_log_density *f, size_t dim)
{
    return (wvgd_model){.name = "test", .dim = dim, .log_density = f, .has_gradient = true};
}

static wvgd_fit *begin(const wvgd_model *m, const char *bend, const char *threads, const char *seed)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_options_init(&o);
    assert_int_equal(wvgd_options_set(&o, "bend", bend, NULL), WVGD_OK);
    assert_int_equal(wvgd_options_set(&o, "threads", threads, NULL), WVGD_OK);
    assert_int_equal(wvgd_options_set(&o, "seed", seed, NULL), WVGD_OK);
    wvgd_fit *f = wvgd_new(m, &o, NULL, &error);
    assert_non_null(f);
    return f;
}

/* What a fit has found, and whether it came to the stage. */
typedef struct {
    double evidence, se, mean[MOST_D], mean_se[MOST_D];
    size_t evaluations, maps, modes;
    bool bent;
} found;

static found finish(wvgd_fit *f, size_t dim)
{
    wvgd_error error;
    wvgd_progress p;
    wvgd_results r;
    found to = {0};
    bool before = false;
    for (wvgd_get_progress(f, &p); strcmp(p.stage, "done"); wvgd_get_progress(f, &p)) {
        bool now = !strcmp(p.stage, "bend");
        to.maps += now && !before;
        to.bent = to.bent || now;
        before = now;
        assert_int_equal(wvgd_step(f, &error), WVGD_OK);
    }
    wvgd_get_results(f, &r);
    to.evidence = r.evidence.value;
    to.se = r.evidence.se;
    to.evaluations = r.evaluations;
    to.modes = r.modes;
    for (size_t i = 0; i < dim; i++) {
        to.mean[i] = r.mean[i];
        to.mean_se[i] = r.mcse[i];
    }
    wvgd_free(f);
    return to;
}

static found run(const wvgd_model *m, const char *bend, const char *threads, const char *seed)
{
    return finish(begin(m, bend, threads, seed), m->dim);
}

static void funnel_is_straightened(void **state)
{
    const char *const seeds[] = {"11", "12"};
    wvgd_model m = model_of(funnel, D);
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        found bent = run(&m, "auto", "1", seeds[i]), straight = run(&m, "never", "1", seeds[i]);
        assert_true(bent.bent && !straight.bent);
        assert_true(bent.evaluations < straight.evaluations);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.01));
        assert_near(bent.mean[0], 0, 4 * hypot(bent.mean_se[0], 0.02));
    }
}

static void banana_is_straightened(void **state)
{
    wvgd_model m = model_of(banana, 2);
    (void)state;
    found bent = run(&m, "auto", "1", "13");
    assert_true(bent.bent);
    assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.01));
    assert_near(bent.mean[0], 1, 4 * hypot(bent.mean_se[0], 0.02));
    assert_near(bent.mean[1], 2, 4 * hypot(bent.mean_se[1], 0.05));
}

/* Near a Gaussian around its top the axes of a thin banana are nearly collinear: the wrong one may be taken first. */
static void collinear_axes_are_told_apart(void **state)
{
    enum { SEEDS = 5 };
    wvgd_model m = model_of(bananas, 4);
    (void)state;
    for (int k = 1; k <= SEEDS; k++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", k);
        found bent = run(&m, "auto", "1", seed);
        assert_true(bent.bent && bent.se < 0.01);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.005));
    }
}

/* t ~ N(0, 1), x ~ N(0, P(t)^-1), P = 1 + sum_m exp(b_m t) a_m a_m': its principal axes turn as t changes. */
enum { TURNING = 8, TERMS = 6 };

static int turning(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    static const double b[TERMS] = {2, 1, -1, -2, 1.5, -1.5};
    (void)self;
    for (size_t i = 0; i < n; i++) {
        const double *x = z + i * (1 + TURNING) + 1, t = x[-1];
        double P[TURNING][TURNING] = {{0}}, Q[TURNING][TURNING] = {{0}}, g[1 + TURNING] = {-t}, det = 0, trace = 0;
        for (size_t c = 0; c < TURNING; c++)
            P[c][c] = 1;
        for (size_t m = 0; m < TERMS; m++)
            for (size_t c = 0; c < TURNING; c++)
                for (size_t e = 0; e < TURNING; e++) {
                    double first = (double)m,
                           by = exp(b[m] * t) * cos(3 * first * (double)c + first) * cos(3 * first * (double)e + first);
                    P[c][e] += by;
                    Q[c][e] += b[m] * by; /* dP/dt */
                }
        log_p[i] = -t * t / 2 - (1 + TURNING) * half_log_2pi;
        for (size_t c = 0; c < TURNING; c++)
            for (size_t e = 0; e < TURNING; e++) {
                log_p[i] -= x[c] * P[c][e] * x[e] / 2;
                g[0] -= x[c] * Q[c][e] * x[e] / 2;
                g[1 + c] -= P[c][e] * x[e];
            }
        for (size_t k = 0; k < TURNING; k++) { /* Q <- P^-1 Q, and log det P, by Gauss and Jordan's elimination */
            double pivot = P[k][k];
            det += log(pivot);
            for (size_t e = 0; e < TURNING; e++) {
                P[k][e] /= pivot;
                Q[k][e] /= pivot;
            }
            for (size_t c = 0; c < TURNING; c++) {
                double times = c == k ? 0 : P[c][k];
                for (size_t e = 0; e < TURNING; e++) {
                    P[c][e] -= times * P[k][e];
                    Q[c][e] -= times * Q[k][e];
                }
            }
        }
        for (size_t k = 0; k < TURNING; k++)
            trace += Q[k][k];
        log_p[i] += det / 2;
        g[0] += trace / 2;
        if (grad)
            memcpy(grad + i * (1 + TURNING), g, sizeof g);
    }
    return 0;
}

/* Rows see the others one by one, each in a basis that stays; the affine layer sees pairs of them. */
static void axes_that_turn(void **state)
{
    enum { SEEDS = 4 };
    const double most = 24000; /* of all; 28,800 without that layer, 19,900 with it */
    double evaluations = 0;
    wvgd_model m = model_of(turning, 1 + TURNING);
    (void)state;
    for (int k = 1; k <= SEEDS; k++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", k);
        found bent = run(&m, "auto", "1", seed);
        print_message("seed %s: %zu evaluations\n", seed, bent.evaluations);
        assert_true(bent.bent);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.005));
        evaluations += (double)bent.evaluations;
    }
    assert_true(evaluations < most);
}

/* Ascents of bananas end in several places, whose Gaussians are taken for modes until a map shows that they are parts
 * of one: then there is nothing to search among them. */
static void a_map_is_one_mode(void **state)
{
    static const char *const seeds[] = {"2", "7", "10", "12"};
    const double most = 9000; /* 12,000 and more if there are several */
    wvgd_model m = model_of(bananas, 4);
    (void)state;
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
        found bent = run(&m, "auto", "1", seeds[k]);
        print_message("seed %s: %zu modes, %zu evaluations\n", seeds[k], bent.modes, bent.evaluations);
        assert_true(bent.bent && bent.modes == 1);
        assert_true((double)bent.evaluations < most);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.005));
    }
}

/* y ~ (1 - w) N(0, 1) + w N(z_1, 1), w = 1 / (1 + exp(-z_0)), z ~ N(0, 3^2): where w is small, z_1 may be anything. */
static int part(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    static const double y[] = {0.46,  0.96, 0.95, -0.61, -1.53, 1.23,  0.12, 0.32,  -0.67, 1.04,
                               -0.52, 1.32, 1.81, 0.32,  2.11,  -0.43, 0.13, -1.05, 1.08,  0.75};
    (void)self;
    for (size_t i = 0; i < n; i++) {
        const double *x = z + 2 * i, w = 1 / (1 + exp(-x[0]));
        double sum = -(x[0] * x[0] + x[1] * x[1]) / 18 - 2 * log(3) - 22 * half_log_2pi, g[2] = {-x[0] / 9, -x[1] / 9};
        for (size_t k = 0; k < sizeof y / sizeof *y; k++) {
            double d = y[k] - x[1], p = (1 - w) * exp(-y[k] * y[k] / 2), q = w * exp(-d * d / 2);
            sum += log(p + q);
            g[0] += (q * (1 - w) - p * w) / (p + q);
            g[1] += q / (p + q) * d;
        }
        log_p[i] = sum;
        if (grad)
            memcpy(grad + 2 * i, g, sizeof g);
    }
    return 0;
}

/* Its evidence, by the midpoint rule. */
static double evidence_of_part(void)
{
    const double half = 15, step = 0.05;
    double sum = 0;
    for (double a = -half + step / 2; a < half; a += step)
        for (double b = -half + step / 2; b < half; b += step) {
            double z[] = {a, b}, log_p;
            part(NULL, 1, z, &log_p, NULL);
            sum += exp(log_p) * step * step;
        }
    return log(sum);
}

/* A map that follows the middle of the posterior may leave aside what lies far out along the other coordinate, where
 * draws and walks in its coordinates do not get: starts of the search for modes that goes on have been there. */
static void what_a_map_leaves_aside(void **state)
{
    enum { SEEDS = 12 };
    wvgd_model m = model_of(part, 2);
    double truth = evidence_of_part();
    (void)state;
    for (int k = 1; k <= SEEDS; k++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", k);
        found fit = run(&m, "auto", "1", seed);
        assert_true(fit.bent);
        assert_near(fit.evidence, truth, 4 * fit.se);
    }
}

/* The scale depends on a direction that is no axis. */
static void directions_are_refined(void **state)
{
    wvgd_model m = model_of(turned_funnel, D);
    (void)state;
    for (int k = 1; k <= 3; k++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", k);
        found bent = run(&m, "auto", "1", seed);
        assert_true(bent.bent && bent.se < 0.03);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.005));
    }
}

static wvgd_model blind_funnel(void)
{
    wvgd_model m = model_of(funnel, D);
    m.has_gradient = false;
    return m;
}

/* Values of the density are enough: differences are taken in u. */
static void funnel_is_straightened_without_gradients(void **state)
{
    wvgd_model m = blind_funnel(), with = model_of(funnel, D);
    (void)state;
    for (int k = 11; k <= 13; k++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", k);
        found bent = run(&m, "auto", "1", seed), straight = run(&m, "never", "1", seed),
              slopes = run(&with, "auto", "1", seed);
        assert_true(bent.bent && bent.evaluations < straight.evaluations);
        assert_true(bent.evaluations < (2 * D + 2) * slopes.evaluations);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.01));
        assert_near(bent.mean[0], 0, 4 * hypot(bent.mean_se[0], 0.02));
    }
}

/* All evaluations of a map are counted, also those for differences. */
static void values_of_maps_are_counted(void **state)
{
    wvgd_model m = blind_funnel();
    wvgd_fit *f = begin(&m, "auto", "1", "11");
    wvgd_progress p;
    wvgd_results r;
    size_t in_maps = 0;
    (void)state;
    for (wvgd_get_progress(f, &p); strcmp(p.stage, "done");) {
        size_t before = p.evaluations;
        bool map = !strcmp(p.stage, "bend");
        assert_int_equal(wvgd_step(f, NULL), WVGD_OK);
        wvgd_get_progress(f, &p);
        in_maps += map ? p.evaluations - before : 0;
    }
    wvgd_get_results(f, &r);
    assert_true(in_maps > 0);
    assert_int_equal(r.bend_evaluations, in_maps);
    wvgd_free(f);
}

/* Skewed coordinates that are independent: lines make them normal, and arguments would not. */
static void independent_axes_get_lines(void **state)
{
    const double euler = 0.57721566490153286;
    wvgd_model m = model_of(log_gamma, D);
    (void)state;
    for (int k = 1; k <= 3; k++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", k);
        found bent = run(&m, "auto", "1", seed);
        assert_true(bent.bent && bent.evaluations < 5000);
        assert_near(bent.evidence, 0, 4 * hypot(bent.se, 0.005));
        for (size_t i = 0; i < D; i++)
            assert_near(bent.mean[i], -euler, 0.06);
    }
}

/* Pieces of the map are there for all coordinates, and for no others; what they are is tested in cli/bend.sh. */
static void check_pieces(const wvgd_fit *f)
{
    wvgd_bend_map map;
    wvgd_bend_line line;
    wvgd_bend_row row;
    assert_true(wvgd_get_bend(f, &map) && map.D == D && map.arguments && map.layers && map.centre && map.basis);
    assert_true(wvgd_get_bend_line(f, D - 1, &line) && !wvgd_get_bend_line(f, D, &line));
    for (size_t l = 0; l <= map.layers; l++) {
        size_t n = l ? D - map.arguments : map.arguments;
        for (size_t i = 0; i < n; i++) {
            assert_true(wvgd_get_bend_row(f, l, i, &row) && row.parents <= (l ? map.arguments : i));
            for (size_t k = 0; k < row.parents; k++)
                assert_true(row.parent[k] < (l ? map.arguments : i));
        }
        assert_false(wvgd_get_bend_row(f, l, n, &row));
        assert_int_equal(wvgd_bend_turn(f, l) != NULL, l && l < map.layers);
    }
    assert_true(!wvgd_get_bend_row(f, map.layers + 1, 0, &row) && !wvgd_bend_turn(f, map.layers + 1));
    assert_false(wvgd_get_bend_row(f, (size_t)-1, 0, &row));
}

/* The ensemble of cells with components of u is a density, its draws are draws of it, and its bound is one. p is known,
 * so draws x of it are at hand: the mean of q/p is 1, that of x q/p is the mean of draws of q. */
static void ensemble_is_a_density(void **state)
{
    enum { N = 20000, CELLS = 4 };
    static double x[N * D], log_p[N], log_q[N], z[N * D];
    static size_t cell[N];
    wvgd_model m = model_of(funnel, D);
    wvgd_error error;
    wvgd_options o;
    wvgd_results r;
    test_random random = test_random_seed(21);
    (void)state;
    wvgd_options_init(&o);
    o.particles = CELLS;
    o.seed = 11;
    assert_int_equal(wvgd_options_set(&o, "bend", "auto", NULL), WVGD_OK);
    wvgd_fit *f = wvgd_new(&m, &o, NULL, &error);
    assert_non_null(f);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(f, &r);
    assert_true(r.bent && r.bend_arguments == 1 && r.bend_evaluations > 0);
    assert_true(r.bent_components && r.components);
    check_pieces(f);
    for (size_t i = 0; i < N; i++) {
        x[i * D] = 1.5 * test_random_normal(&random);
        for (size_t k = 1; k < D; k++)
            x[i * D + k] = exp(x[i * D] / 2) * test_random_normal(&random);
    }
    funnel(NULL, N, x, log_p, NULL);
    assert_int_equal(wvgd_log_q(f, N, x, log_q, &error), WVGD_OK);
    assert_int_equal(wvgd_sample(f, 1, N, z, cell, &error), WVGD_OK);
    double sum = 0, squares = 0, mean = 0, spread = 0, drawn = 0, share[CELLS] = {0};
    for (size_t i = 0; i < N; i++) {
        double w = exp(log_q[i] - log_p[i]), t = w * x[i * D];
        sum += w / N;
        squares += w * w / N;
        mean += t / N;
        spread += t * t / N;
        drawn += z[i * D] / N;
        share[cell[i]] += 1.0 / N;
    }
    /* masses in the cells have errors of their own, of about 0.01 */
    assert_near(sum, 1, 4 * hypot(sqrt((squares - sum * sum) / N), 0.01));
    assert_near(drawn, mean, 4 * hypot(sqrt((spread - mean * mean) / N), 1.5 / sqrt(N)) + 0.05);
    for (size_t j = 0; j < CELLS; j++)
        assert_near(share[j], r.weight[j], 4 * sqrt(r.weight[j] / N));
    assert_near(r.pelbo.value, 0, 4 * hypot(r.pelbo.se, 0.02));
    wvgd_free(f);
}

static void threads_change_nothing(void **state)
{
    const wvgd_model models[] = {model_of(funnel, D), blind_funnel()};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        found one = run(&models[k], "auto", "1", "11"), two = run(&models[k], "auto", "2", "11");
        assert_memory_equal(&one.evidence, &two.evidence, sizeof one.evidence);
        assert_memory_equal(one.mean, two.mean, sizeof one.mean);
        assert_int_equal(one.evaluations, two.evaluations);
    }
}

/* The fit goes on in another one after every batch of the stage, and of those before and after it. */
static void goes_on(const wvgd_model *m)
{
    wvgd_error error;
    wvgd_progress p;
    found whole = run(m, "auto", "1", "11");
    wvgd_fit *f = begin(m, "auto", "1", "11");
    size_t moved = 0;
    for (wvgd_get_progress(f, &p); strcmp(p.stage, "done"); wvgd_get_progress(f, &p)) {
        if (strcmp(p.stage, "explore")) {
            size_t size = wvgd_save_size(f);
            void *bytes = malloc(size);
            assert_non_null(bytes);
            assert_int_equal(wvgd_save(f, bytes, size, &error), WVGD_OK);
            wvgd_free(f);
            f = begin(m, "auto", "1", "11");
            assert_int_equal(wvgd_restore(f, bytes, size, &error), WVGD_OK);
            free(bytes);
            moved++;
        }
        assert_int_equal(wvgd_step(f, &error), WVGD_OK);
    }
    found again = finish(f, D);
    assert_true(moved > 5);
    assert_memory_equal(&again.evidence, &whole.evidence, sizeof again.evidence);
    assert_memory_equal(again.mean, whole.mean, sizeof again.mean);
}

static void goes_on_from_a_state(void **state)
{
    wvgd_model with = model_of(funnel, D), without = blind_funnel();
    (void)state;
    goes_on(&with);
    goes_on(&without);
}

static void finds_nothing_for_nothing(void **state)
{
    wvgd_model m = model_of(heavy, D);
    (void)state;
    found with = run(&m, "auto", "1", "11"), without = run(&m, "never", "1", "11");
    assert_false(with.bent);
    assert_memory_equal(&with.evidence, &without.evidence, sizeof with.evidence);
    assert_int_equal(with.evaluations, without.evaluations);
}

/* Three long thin Gaussians with one middle, along random directions. A map is better than one Gaussian, but in its
 * coordinates the posterior needs 40 components, and the ends of the arms are lost. */
enum { ARMS = 3, ARM_D = 4 };

static void arms(wvgd_model *model, uint64_t seed)
{
    double weight[ARMS] = {1, 1, 1}, mean[ARMS * ARM_D] = {0}, cov[ARMS * ARM_D * ARM_D];
    test_random r = test_random_seed(seed);
    for (size_t k = 0; k < ARMS; k++) {
        double a[ARM_D], square = 0;
        for (size_t i = 0; i < ARM_D; i++) {
            a[i] = test_random_normal(&r);
            square += a[i] * a[i];
        }
        for (size_t i = 0; i < ARM_D; i++)
            for (size_t j = 0; j < ARM_D; j++)
                cov[(k * ARM_D + i) * ARM_D + j] = (i == j) * 0.04 + 3.96 * a[i] * a[j] / square;
    }
    assert_int_equal(target_mixture(model, ARM_D, ARMS, weight, mean, cov), 0);
}

static void what_is_not_bent_does_without_a_map(void **state)
{
    (void)state;
    const uint64_t seeds[] = {1, 12, 14};
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        wvgd_model m;
        wvgd_options o;
        wvgd_results r;
        wvgd_error error;
        arms(&m, seeds[s]);
        wvgd_options_init(&o);
        o.seed = seeds[s];
        o.particles = 2;
        o.finish = WVGD_FINISH_NEVER;
        wvgd_fit *fit = wvgd_new(&m, &o, NULL, &error);
        assert_non_null(fit);
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(fit, &r);
        assert_true(r.bend_maps > 0 && !r.bent);
        assert_near(r.evidence.value, target_truth_of(&m).log_evidence, 3.5 * r.evidence.se);
        wvgd_free(fit);
        wvgd_model_close(&m);
    }
}

/* x of N(0, 1.5^2) and y of N(x^2, 0.2^2) in -2..3 and -1..6, without gradients. */
static double banana_in_a_box(void *self, const double *z, double *grad)
{
    double a = z[0] / 1.5, b = (z[1] - z[0] * z[0]) / 0.2;
    (void)self, (void)grad;
    return -(a * a + b * b) / 2 - log(1.5 * 0.2 * 2 * M_PI);
}

/* Between limits both arms of a banana go on without end, and maps that were right in its middle missed a fifth of the
 * mass: draws of the trial before the bend show it. */
static void arms_are_not_lost(void **state)
{
    (void)state;
    enum { STEPS = 2000 };
    static const uint64_t seeds[] = {7, 12, 16, 20};
    const double low[] = {-2, -1}, high[] = {3, 6};
    double sum = 0;
    for (size_t i = 0; i < STEPS; i++)
        for (size_t k = 0; k < STEPS; k++) {
            double z[] = {-2 + 5 * ((double)i + 0.5) / STEPS, -1 + 7 * ((double)k + 0.5) / STEPS};
            sum += exp(banana_in_a_box(NULL, z, NULL)) * 35 / (STEPS * STEPS);
        }
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
        wvgd_model inner, m;
        wvgd_options o;
        wvgd_error error;
        wvgd_results r;
        assert_int_equal(wvgd_model_pointwise(&inner, 2, banana_in_a_box, NULL, false), 0);
        assert_int_equal(wvgd_model_bounded(&m, &inner, low, high), 0);
        wvgd_options_init(&o);
        o.particles = 2;
        o.seed = seeds[k];
        wvgd_fit *fit = wvgd_new(&m, &o, NULL, &error);
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(fit, &r);
        assert_near(r.evidence.value, log(sum), fmax(0.05, 4 * r.evidence.se));
        wvgd_free(fit);
        wvgd_model_close(&m);
        wvgd_model_close(&inner);
    }
}

/* v ~ N(0, 3^2), x_i ~ N(0, exp(v)), in as many dimensions as the search for modes waits for a bend in. */
enum { WIDE_D = 10 };

static double wide_funnel(void *self, const double *x, double *grad)
{
    const double variance = 9;
    double squares = 0, scale = exp(-x[0]);
    (void)self;
    for (size_t k = 1; k < WIDE_D; k++)
        squares += x[k] * x[k];
    if (grad) {
        grad[0] = -x[0] / variance + squares * scale / 2 - (WIDE_D - 1) / 2.0;
        for (size_t k = 1; k < WIDE_D; k++)
            grad[k] = -scale * x[k];
    }
    return -x[0] * x[0] / (2 * variance) - log(variance) / 2 - squares * scale / 2 - (WIDE_D - 1) * x[0] / 2 -
           WIDE_D * half_log_2pi;
}

/* A bend is looked for after the first ascents, and the other starts are made when it is known: they end where the map
 * says what is there. It would find ascents that all climb the neck, and a search that does not go on. */
static void search_waits_for_a_bend(void **state)
{
    const double most = 5000; /* 7400 and more if the search ends first */
    (void)state;
    for (uint64_t seed = 31; seed <= 33; seed++) {
        wvgd_model m;
        wvgd_options o;
        wvgd_results r;
        wvgd_error error;
        assert_int_equal(wvgd_model_pointwise(&m, WIDE_D, wide_funnel, NULL, true), 0);
        wvgd_options_init(&o);
        o.seed = seed;
        o.particles = 2;
        wvgd_fit *fit = wvgd_new(&m, &o, NULL, &error);
        assert_non_null(fit);
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(fit, &r);
        print_message("seed %d: %zu starts, %zu evaluations\n", (int)seed, r.starts, r.evaluations);
        assert_true(r.bent && r.modes == 1 && r.starts >= 40);
        assert_true((double)r.evaluations < most);
        assert_near(r.evidence.value, 0, 4 * hypot(r.evidence.se, 0.005));
        wvgd_free(fit);
        wvgd_model_close(&m);
    }
}

/* A logistic regression is skewed a little, which a map sees: but where evaluations are cheap it costs a second and
 * saves some of 20 milliseconds. When a single trial decided, 2 of these 8 fits made maps: a trial of 160 draws that
 * has one large weight says that the evidence wants 50,000 or a million, where 1000 draws say 10,000. */
static void single_weights_make_no_maps(void **state)
{
    (void)state;
    size_t maps = 0;
    logistic_data data;
    wvgd_model m;
    assert_true(logistic_data_read(&data, "cancer", LOGISTIC_ALL_ROWS, true));
    assert_int_equal(target_logistic(&m, data.n, data.D, data.X, data.y), 0);
    m.work = 4e5;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        wvgd_options o;
        wvgd_results r;
        wvgd_error error;
        wvgd_options_init(&o);
        o.seed = seed;
        wvgd_fit *fit = wvgd_new(&m, &o, NULL, &error);
        assert_non_null(fit);
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(fit, &r);
        print_message("seed %d: %zu maps, %zu evaluations\n", (int)seed, r.bend_maps, r.evaluations);
        maps += r.bend_maps;
        wvgd_free(fit);
    }
    assert_true(maps <= 1);
    wvgd_model_close(&m);
    logistic_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(funnel_is_straightened),
        cmocka_unit_test(banana_is_straightened),
        cmocka_unit_test(collinear_axes_are_told_apart),
        cmocka_unit_test(a_map_is_one_mode),
        cmocka_unit_test(axes_that_turn),
        cmocka_unit_test(directions_are_refined),
        cmocka_unit_test(independent_axes_get_lines),
        cmocka_unit_test(funnel_is_straightened_without_gradients),
        cmocka_unit_test(values_of_maps_are_counted),
        cmocka_unit_test(ensemble_is_a_density),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(goes_on_from_a_state),
        cmocka_unit_test(what_a_map_leaves_aside),
        cmocka_unit_test(finds_nothing_for_nothing),
        cmocka_unit_test(what_is_not_bent_does_without_a_map),
        cmocka_unit_test(arms_are_not_lost),
        cmocka_unit_test(search_waits_for_a_bend),
        cmocka_unit_test(single_weights_make_no_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
