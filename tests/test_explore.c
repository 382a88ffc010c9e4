/* test_explore.c - exploration by ascents, one alone, then in waves: all modes of well-separated mixtures
 * and no others, with their masses; one mode however badly scaled; an error where there is no density.
 * Only the exploring stage is run: the particles of the joint solver, and the mixture of the staged one,
 * begin at the modes that it has found. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simd/columns.h"
#include "staged/explore.h"
#include "staged/modes.h"
#include "support/near.h"
#include "support/saved.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { MAX_K = 5, MAX_D = 8 };

static size_t modes_of(const wvgd_fit *fit)
{
    wvgd_results r;
    wvgd_get_results(fit, &r);
    return r.modes;
}

/* A fit that has just explored. */
static wvgd_fit *explored(const wvgd_model *model, wvgd_solver solver, size_t N, uint64_t seed, double init_scale)
{
    wvgd_options o;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_options_init(&o);
    o.solver = solver;
    o.particles = N;
    o.seed = seed;
    o.init_scale = init_scale;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    assert_non_null(fit);
    assert_string_equal(stage_of(fit), "explore");
    while (!strcmp(stage_of(fit), "explore"))
        if (wvgd_step(fit, &error) != WVGD_OK)
            fail_msg("%s", error.text);
    return fit;
}

/* K Gaussians with random axes and sds in 0.3..1, weights in 0.2..1, means at least 8 apart (so 4
 * of the largest sds from any saddle). */
static void separated(wvgd_model *model, size_t D, size_t K, uint64_t seed, double *mean, double *weight)
{
    test_random random = test_random_seed(seed);
    double cov[MAX_K * MAX_D * MAX_D];
    for (size_t k = 0; k < K;) {
        double *m = mean + k * D, nearest = INFINITY;
        for (size_t i = 0; i < D; i++)
            m[i] = 6 * test_random_normal(&random);
        for (size_t other = 0; other < k; other++) {
            double d2 = 0;
            for (size_t i = 0; i < D; i++)
                d2 += (m[i] - mean[other * D + i]) * (m[i] - mean[other * D + i]);
            nearest = fmin(nearest, sqrt(d2));
        }
        if (nearest < 8)
            continue;
        wvgd_model axes; /* covariance of a Gaussian with random axes */
        assert_int_equal(target_gaussian_random(&axes, D, 1 + 9 * test_random_uniform(&random),
                                                test_random_bits(&random), true),
                         0);
        memcpy(cov + k * D * D, target_truth_of(&axes).cov, D * D * sizeof *cov);
        wvgd_model_close(&axes);
        weight[k++] = 0.2 + 0.8 * test_random_uniform(&random);
    }
    assert_int_equal(target_mixture(model, D, K, weight, mean, cov), 0);
}

/* Every mean has a particle within half a unit (the top of a component so far from the others is its mean to 1e-6,
 * and an ascent ends where it promises less than 0.1 nat more: within sqrt(0.2) sds). */
static size_t modes_missed(const wvgd_results *r, size_t K, const double *mean)
{
    size_t missed = 0;
    for (size_t k = 0; k < K; k++) {
        double nearest = INFINITY;
        for (size_t j = 0; j < r->N; j++) {
            double d2 = 0;
            for (size_t i = 0; i < r->D; i++)
                d2 += (r->z[j * r->D + i] - mean[k * r->D + i]) * (r->z[j * r->D + i] - mean[k * r->D + i]);
            nearest = fmin(nearest, sqrt(d2));
        }
        missed += !(nearest < 0.5);
    }
    return missed;
}

/* Largest error of log weight of the mixture that the staged solver begins with, over components
 * near a mean; INFINITY: one has none. */
static double mixture_error(const wvgd_results *r, size_t K, const double *mean, const double *weight)
{
    double worst = 0, total = 0;
    for (size_t k = 0; k < K; k++)
        total += weight[k];
    for (size_t k = 0; k < K; k++) {
        double share = 0;
        for (size_t c = 0; c < r->components; c++) {
            double d2 = 0;
            for (size_t i = 0; i < r->D; i++)
                d2 += (r->component_mu[c * r->D + i] - mean[k * r->D + i]) *
                      (r->component_mu[c * r->D + i] - mean[k * r->D + i]);
            share += d2 < 0.25 ? r->component_weight[c] : 0;
        }
        worst = fmax(worst, fabs(log(share) - log(weight[k] / total)));
    }
    return worst;
}

static void all_modes_and_no_others(void **state)
{
    (void)state;
    static const size_t dims[] = {2, 5};
    enum { SEEDS = 3 };
    size_t runs = 0, complete = 0, exact = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t K = 2; K <= MAX_K; K++)
            for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                double mean[MAX_K * MAX_D], weight[MAX_K];
                wvgd_model model;
                wvgd_results r;
                separated(&model, dims[d], K, 100 * dims[d] + 10 * K + seed, mean, weight);
                wvgd_fit *fit = explored(&model, WVGD_JOINT, K, seed, 1);
                wvgd_get_results(fit, &r);
                size_t missed = modes_missed(&r, K, mean);
                if (missed || r.modes != K)
                    print_message("D = %zu, K = %zu, seed %d: %zu modes, %zu of them hit once, %zu missed, %zu starts, "
                                  "%zu evaluations\n",
                                  dims[d], K, (int)seed, r.modes, r.hit_once, missed, r.starts, r.evaluations);
                runs++;
                complete += missed == 0;
                exact += r.modes == K;
                assert_true(r.starts >= 8 && r.starts <= 2400 * (r.modes + 1) + 8 && r.hit_once <= r.modes);
                wvgd_free(fit);
                fit = explored(&model, WVGD_STAGED, K, seed, 1);
                wvgd_get_results(fit, &r);
                /* every mode is a Gaussian: its fit, and so its ELBO, is exact but for rounding and
                 * 1e-6 of the others */
                double off = mixture_error(&r, K, mean, weight);
                if (!missed && !(off < 1e-5))
                    fail_msg("D = %zu, K = %zu, seed %d: log masses of the modes are off by %g", dims[d], K, (int)seed,
                             off);
                wvgd_free(fit);
                wvgd_model_close(&model);
            }
    /* nothing random is left with fixed seeds; one miss is allowed for: no finite number of starts
     * finds all modes always */
    if (complete + 1 < runs)
        fail_msg("all modes found in %zu of %zu runs", complete, runs);
    if (exact + 1 < runs)
        fail_msg("the number of modes is right in %zu of %zu runs", exact, runs);
}

/* One mode, however its axes are scaled and wherever it is; the particle begins at its top, within
 * sqrt(0.2) of its sds (and a little). */
static void one_mode_badly_scaled(void **state)
{
    (void)state;
    for (size_t D = 2; D <= MAX_D; D += 3)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            wvgd_model model;
            wvgd_results r;
            assert_int_equal(target_gaussian_random(&model, D, 1e6, seed, true), 0);
            wvgd_fit *fit = explored(&model, WVGD_JOINT, 1, seed, seed == 3 ? 100 : 1);
            wvgd_get_results(fit, &r);
            if (r.modes != 1)
                fail_msg("D = %zu, seed %d: %zu modes", D, (int)seed, r.modes);
            double log_p[2], z[2 * MAX_D];
            memcpy(z, r.z, D * sizeof *z);
            memcpy(z + D, target_truth_of(&model).mean, D * sizeof *z);
            assert_int_equal(model.log_density(model.self, 2, z, log_p, NULL), 0);
            if (!(log_p[1] - log_p[0] < 0.2))
                fail_msg("D = %zu, seed %d: the particle begins %g nats below the top", D, (int)seed,
                         log_p[1] - log_p[0]);
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

static void axes_of_any_length(void **state)
{
    (void)state;
    enum { D = 6 };
    double mean[D], cov[D * D] = {0};
    for (size_t i = 0; i < D; i++) {
        double sd = pow(10, (double)i * 2 - 5); /* 1e-5 .. 1e5 */
        mean[i] = (i % 2 ? 3 : -3) * sd;
        cov[i * D + i] = sd * sd;
    }
    wvgd_model model;
    wvgd_results r;
    assert_int_equal(target_gaussian_cov(&model, D, mean, cov, true), 0);
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        wvgd_fit *fit = explored(&model, solver, 1, 1, 1);
        wvgd_get_results(fit, &r);
        assert_int_equal(r.modes, 1);
        /* such an ascent may end early: the fit gets there */
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        assert_near(r.evidence.value, 0, 6 * r.evidence.se);
        for (size_t i = 0; i < D; i++)
            assert_near(r.mean[i], mean[i], 6 * r.mcse[i]);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* The scale of the starts need not be right: modes 8 or more apart from starts of scale 0.01, and of 1000. */
static void starts_of_another_scale(void **state)
{
    (void)state;
    static const double scales[] = {0.01, 1000};
    for (size_t k = 0; k < 2; k++)
        for (uint64_t seed = 1; seed <= 2; seed++) {
            double mean[MAX_K * MAX_D], weight[MAX_K];
            wvgd_model model;
            wvgd_results r;
            separated(&model, 2, 3, 7 + seed, mean, weight);
            wvgd_fit *fit = explored(&model, WVGD_JOINT, 3, seed, scales[k]);
            wvgd_get_results(fit, &r);
            if (modes_missed(&r, 3, mean))
                fail_msg("scale %g, seed %d: %zu modes missed", scales[k], (int)seed, modes_missed(&r, 3, mean));
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

/* More particles than modes: each mode has some; fewer: each particle is in a mode. */
static void particles_are_shared_out(void **state)
{
    (void)state;
    double mean[MAX_K * MAX_D], weight[MAX_K];
    wvgd_model model;
    wvgd_results r;
    separated(&model, 2, 3, 40, mean, weight);
    for (size_t N = 1; N <= 12; N += N < 3 ? 1 : 9) {
        size_t count[3] = {0, 0, 0};
        wvgd_fit *fit = explored(&model, WVGD_JOINT, N, 3, 1);
        wvgd_get_results(fit, &r);
        for (size_t j = 0; j < N; j++)
            for (size_t k = 0; k < 3; k++)
                count[k] += hypot(r.z[2 * j] - mean[2 * k], r.z[2 * j + 1] - mean[2 * k + 1]) < 4;
        assert_int_equal(count[0] + count[1] + count[2], N);
        for (size_t k = 0; k < 3; k++)
            assert_true(N < 3 ? count[k] <= 1 : count[k] >= 1);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* ---- nothing to find --------------------------------------------------------------------------------------------- */
static int nowhere(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    size_t *evaluations = self;
    (void)z;
    for (size_t i = 0; i < n; i++)
        log_p[i] = -INFINITY;
    for (size_t i = 0; grad && i < 2 * n; i++)
        grad[i] = 0;
    *evaluations += n;
    return 0;
}

static void no_density_is_an_error(void **state)
{
    (void)state;
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        size_t evaluations = 0;
        wvgd_model model = {.dim = 2, .log_density = nowhere, .self = &evaluations, .has_gradient = true};
        wvgd_options o;
        wvgd_error error = {WVGD_OK, ""};
        wvgd_results r;
        wvgd_options_init(&o);
        o.solver = solver;
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_NO_DRAWS);
        assert_int_equal(error.code, WVGD_E_NO_DRAWS);
        assert_non_null(strstr(error.text, "init-scale")); /* what to do about it */
        wvgd_get_results(fit, &r);
        assert_int_equal(r.evaluations, evaluations);
        assert_int_equal(r.zero_points, evaluations);
        assert_true(evaluations <= 5000);
        wvgd_free(fit);
    }
}

/* The staged solver always explores: its first ascents begin at the starts given, one after
 * another until a mode is known. */
static void given_starts_are_explored(void **state)
{
    (void)state;
    const double z0[] = {0.5, -0.5, 3, 4};
    wvgd_model model;
    wvgd_options o;
    wvgd_results r;
    size_t n;
    const double *z;
    bool gradient;
    assert_int_equal(target_gaussian_random(&model, 2, 3, 1, true), 0);
    wvgd_options_init(&o);
    o.particles = 2;
    wvgd_fit *fit = wvgd_new(&model, &o, z0, NULL);
    assert_string_equal(stage_of(fit), "explore");
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    assert_true(n == 1 && gradient);
    assert_memory_equal(z, z0, 2 * sizeof *z0);
    for (wvgd_get_results(fit, &r); r.starts < 2; wvgd_get_results(fit, &r))
        assert_int_equal(wvgd_step(fit, NULL), WVGD_OK);
    assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, NULL), WVGD_OK);
    assert_true(n == 8);
    assert_memory_equal(z, z0 + 2, 2 * sizeof *z0);
    assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
    wvgd_get_results(fit, &r);
    assert_int_equal(r.modes, 1);
    assert_near(r.evidence.value, 0, 6 * r.evidence.se);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* So many ascents as the user wants, rounded up to whole waves. */
static void as_many_starts_as_wanted(void **state)
{
    (void)state;
    static const size_t starts[] = {1, 5, 30, 100};
    wvgd_model model;
    assert_int_equal(target_gaussian_random(&model, 2, 3, 1, true), 0);
    for (size_t k = 0; k < 4; k++) {
        wvgd_options o;
        wvgd_results r;
        wvgd_options_init(&o);
        o.particles = 1;
        o.starts = starts[k];
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        assert_true(r.starts >= starts[k] && r.starts < starts[k] + 8);
        assert_int_equal(r.modes, 1);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* The joint solver, with given starts, or init normal, or no gradient: nothing is explored. */
static void exploring_is_optional(void **state)
{
    (void)state;
    const double z0[] = {0.5, -0.5};
    wvgd_model model, blind;
    assert_int_equal(target_gaussian_random(&model, 2, 3, 1, true), 0);
    blind = model;
    blind.has_gradient = false;
    for (int way = 0; way < 3; way++) {
        wvgd_options o;
        wvgd_results r;
        wvgd_options_init(&o);
        o.solver = WVGD_JOINT;
        o.particles = 1;
        if (way == 1)
            o.init = WVGD_INIT_NORMAL;
        if (way == 2)
            o.estimator = WVGD_SCORE;
        wvgd_fit *fit = wvgd_new(way == 2 ? &blind : &model, &o, way == 0 ? z0 : NULL, NULL);
        assert_non_null(fit);
        assert_string_equal(stage_of(fit), "fit");
        wvgd_get_results(fit, &r);
        if (way == 0)
            assert_memory_equal(r.z, z0, sizeof z0);
        assert_int_equal(wvgd_run(fit, NULL, NULL, NULL), WVGD_OK);
        wvgd_get_results(fit, &r);
        assert_int_equal(r.starts + r.modes + r.hit_once, 0);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* The inverse Hessian of BFGS after `last` pairs of path k, of which all that count are there: H <- (I - s y'/sy) H
 * (I - y s'/sy) + s s'/sy, from the oldest to the newest. */
static void bfgs(const wv_explore *e, size_t k, size_t last, double H[3][3])
{
    enum { D = 3 };
    const size_t P = wv_columns_round(D);
    const double *S = e->path_s + k * WV_KEPT * P, *Y = e->path_y + k * WV_KEPT * P, *s = S + (last - 1) % WV_KEPT * P,
                 *y = Y + (last - 1) % WV_KEPT * P;
    double gamma = (s[0] * y[0] + s[1] * y[1] + s[2] * y[2]) / (y[0] * y[0] + y[1] * y[1] + y[2] * y[2]);
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++)
            H[i][j] = i == j ? gamma : 0;
    for (size_t q = last < WV_PAIRS ? 0 : last - WV_PAIRS; q < last; q++) {
        double sy = 0, yHy = 0, Hy[D] = {0};
        s = S + q % WV_KEPT * P;
        y = Y + q % WV_KEPT * P;
        for (size_t i = 0; i < D; i++) {
            sy += s[i] * y[i];
            for (size_t j = 0; j < D; j++)
                Hy[i] += H[i][j] * y[j];
        }
        for (size_t i = 0; i < D; i++)
            yHy += y[i] * Hy[i];
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                H[i][j] += (1 + yHy / sy) * s[i] * s[j] / sy - (s[i] * Hy[j] + Hy[i] * s[j]) / sy;
    }
}

/* Stations of path k whose roots are there, and whose curvature pairs still are: the Gaussian left behind has
 * covariance L L' = F H F', F the frame. Returns how many. */
static size_t check_stations(const wv_explore *e, size_t k)
{
    enum { D = 3 };
    const wv_path *p = &e->path[k];
    const double *F = e->frame;
    size_t seen = 0;
    for (size_t i = 0; i < e->stations; i++) {
        const double *L = e->station_root + (k * e->stations + i) * D * D;
        double H[D][D], size = 0;
        if (!(p->made & 1u << i) || !p->left[i] || p->pairs >= p->left[i] + WV_KEPT - WV_PAIRS)
            continue;
        bfgs(e, k, p->left[i], H);
        for (size_t r = 0; r < D * D; r++)
            size += L[r] * L[r];
        for (size_t r = 0; r < D; r++)
            for (size_t c = 0; c < D; c++) {
                double left = 0, right = 0;
                for (size_t m = 0; m < D; m++) {
                    left += L[r * D + m] * L[c * D + m];
                    for (size_t n = 0; n < D; n++)
                        right += F[r * D + m] * H[m][n] * F[c * D + n];
                }
                assert_near(left, right, 1e-9 * size);
            }
        seen++;
    }
    return seen;
}

/* Gaussians on the way have the curvature that was met. */
static void stations(void **state)
{
    (void)state;
    size_t seen = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        wvgd_model model;
        wvgd_options o;
        wvgd_error error;
        assert_int_equal(target_mixture_random(&model, 3, 3, 5, seed), 0);
        wvgd_options_init(&o);
        wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
        assert_non_null(f);
        while (!strcmp(stage_of(f), "explore")) {
            assert_int_equal(wvgd_step(f, &error), WVGD_OK);
            for (size_t k = 0; k < WV_PATHS; k++)
                seen += check_stations(wv_explore_of(f), k);
        }
        wvgd_free(f);
        wvgd_model_close(&model);
    }
    assert_true(seen >= 10);
}

/* A second mode with half the sds of the first, or a third, six sds away in a random direction: where the density at
 * most starts is foretold, many start close by. */
static void narrower_modes(void **state)
{
    (void)state;
    static const struct {
        size_t D;
        double sd;
        int least; /* of 24; some 24 and 19 are found */
    } cases[] = {{2, 0.3, 22}, {5, 0.5, 17}};
    enum { SEEDS = 24, MAX = 5 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t D = cases[c].D;
        int found = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            double weight[2] = {0.5, 0.5}, mean[2 * MAX] = {0}, cov[2 * MAX * MAX] = {0}, square = 0;
            test_random random = test_random_seed(100 + seed);
            for (size_t i = 0; i < D; i++) {
                mean[D + i] = test_random_normal(&random);
                square += mean[D + i] * mean[D + i];
                cov[i * (D + 1)] = 1;
                cov[D * D + i * (D + 1)] = cases[c].sd * cases[c].sd;
            }
            for (size_t i = 0; i < D; i++)
                mean[D + i] *= 6 / sqrt(square);
            wvgd_model model;
            assert_int_equal(target_mixture(&model, D, 2, weight, mean, cov), 0);
            wvgd_fit *fit = explored(&model, WVGD_STAGED, 2, seed, 1);
            found += modes_of(fit) == 2;
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
        print_message("%zu dimensions, sds times %g: both modes in %d of %d runs\n", D, cases[c].sd, found, SEEDS);
        assert_true(found >= cases[c].least);
    }
}

/* y = a b with noise: a and b may both change signs. The tops lie on bent ridges, where the Gaussian of
 * the curvature says nothing of the mass. */
static double product(void *self, const double *z, double *grad)
{
    (void)self;
    double off = (z[0] * z[1] - 2) / 0.09;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = -z[i] / 9 - off * z[1 - i];
    return -0.5 * ((z[0] * z[0] + z[1] * z[1]) / 9 + off * (z[0] * z[1] - 2));
}

/* Normal mixture of three components whose names may be exchanged: means, log sd, two log odds. Twenty
 * observations around each of -5, 0 and 5. */
static double three_clusters(void *self, const double *z, double *grad)
{
    const double *y = self;
    enum { K = 3, n = 60 };
    double odds[K] = {z[4], z[5], 0}, top = fmax(fmax(z[4], z[5]), 0), total = 0, log_w[K], log_p = -0.5 * z[3] * z[3],
           g[6] = {0, 0, 0, -z[3], 0, 0}, var = exp(2 * z[3]);
    for (size_t k = 0; k < K; k++)
        total += exp(odds[k] - top);
    for (size_t k = 0; k < K; k++) {
        log_w[k] = odds[k] - top - log(total);
        log_p += 1.5 * log_w[k] - z[k] * z[k] / 50;
        g[k] = -z[k] / 25;
        for (size_t j = 0; j < 2; j++)
            g[4 + j] += 1.5 * ((j == k) - exp(odds[j] - top) / total);
    }
    for (size_t i = 0; i < n; i++) {
        double l[K], most = -INFINITY, sum = 0;
        for (size_t k = 0; k < K; k++) {
            l[k] = log_w[k] - z[3] - 0.5 * (y[i] - z[k]) * (y[i] - z[k]) / var;
            most = fmax(most, l[k]);
        }
        for (size_t k = 0; k < K; k++)
            sum += exp(l[k] - most);
        log_p += most + log(sum);
        for (size_t k = 0; k < K; k++) {
            double r = exp(l[k] - most) / sum, d = y[i] - z[k];
            g[k] += r * d / var;
            g[3] += r * (d * d / var - 1);
            if (k < 2)
                g[4 + k] += r - exp(odds[k] - top) / total;
        }
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

/* Modes that are images of each other are found in every run: from a plateau that is no mode ascents go on, tops as
 * high as a mode's are fitted, and starts lie on both sides. */
static void mirrored_modes(void **state)
{
    (void)state;
    double y[60];
    test_random random = test_random_seed(13);
    for (size_t i = 0; i < 60; i++)
        y[i] = 5 * ((double)(i % 3) - 1) + (i % 3 == 1 ? 0.5 : 1) * test_random_normal(&random);
    struct {
        const char *name;
        size_t D, modes;
        wvgd_point_density *density;
        uint64_t seeds;
    } cases[] = {{"product", 2, 2, product, 120}, {"three clusters", 6, 6, three_clusters, 40}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        wvgd_model model;
        size_t found = 0;
        if (getenv("WVGD_TEST_FEW"))
            cases[c].seeds /= 20; /* under valgrind, which looks at memory, not at modes */
        assert_int_equal(wvgd_model_pointwise(&model, cases[c].D, cases[c].density, y, true), 0);
        for (uint64_t seed = 1; seed <= cases[c].seeds; seed++) {
            wvgd_fit *fit = explored(&model, WVGD_STAGED, 2, seed, 1);
            found += modes_of(fit) >= cases[c].modes;
            wvgd_free(fit);
        }
        print_message("%s: all modes in %zu of %d runs\n", cases[c].name, found, (int)cases[c].seeds);
        assert_int_equal(found, cases[c].seeds);
        wvgd_model_close(&model);
    }
}

/* The first start after those of the given scale is the mirror image of the mode. */
static void mirror_image_of_the_mode(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o;
    wvgd_error error;
    size_t n, seen = 0;
    const double *z;
    bool gradient;
    double log_p[400], grad[800];
    assert_int_equal(wvgd_model_pointwise(&model, 2, product, NULL, true), 0);
    wvgd_options_init(&o);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    while (!strcmp(stage_of(fit), "explore")) {
        const wv_modes *modes = wv_modes_of(fit);
        size_t best = 0;
        assert_int_equal(wvgd_ask(fit, &n, &z, &gradient, &error), WVGD_OK);
        assert_true(n <= 400);
        for (size_t m = 1; m < modes->n; m++)
            best = modes->mode[m].elbo > modes->mode[best].elbo ? m : best;
        for (size_t i = 0; i < n; i++)
            seen += modes->n && z[2 * i] == -modes->x[2 * best] && z[2 * i + 1] == -modes->x[2 * best + 1];
        model.log_density(model.self, n, z, log_p, grad);
        assert_int_equal(wvgd_tell(fit, log_p, grad, &error), WVGD_OK);
    }
    assert_int_equal(seen, 1);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_modes_and_no_others),
        cmocka_unit_test(one_mode_badly_scaled),
        cmocka_unit_test(axes_of_any_length),
        cmocka_unit_test(starts_of_another_scale),
        cmocka_unit_test(particles_are_shared_out),
        cmocka_unit_test(no_density_is_an_error),
        cmocka_unit_test(given_starts_are_explored),
        cmocka_unit_test(as_many_starts_as_wanted),
        cmocka_unit_test(exploring_is_optional),
        cmocka_unit_test(stations),
        cmocka_unit_test(narrower_modes),
        cmocka_unit_test(mirrored_modes),
        cmocka_unit_test(mirror_image_of_the_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
