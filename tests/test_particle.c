/* test_particle.c - particles go where the transport cost is least: Lloyd-Max quantizers, medians, means, and the force
 * on one of two particles. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "ascending.h"
#include "draws.h"
#include "particle.h"
#include "support/near.h"
#include "support/oracle1d.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { MAX_N = 4 };

/* Three components, most mass on the left, a long tail to the right. */
static const double SKEW_WEIGHT[] = {0.6, 0.3, 0.1}, SKEW_MEAN[] = {0.0, 1.5, 5.0}, SKEW_SD[] = {0.5, 0.8, 1.2};
static const oracle1d_target SKEW = {3, SKEW_WEIGHT, SKEW_MEAN, SKEW_SD};
static const oracle1d_interval LINE = {-INFINITY, INFINITY};

static wvgd_fit *new_fit(const wvgd_model *model, const wvgd_options *options, const double *z0)
{
    wvgd_error error;
    wvgd_fit *fit = wvgd_new(model, options, z0, &error);
    if (!fit)
        fail_msg("%s", error.text);
    return fit;
}

static wvgd_results run(wvgd_fit *fit)
{
    wvgd_error error;
    wvgd_results r;
    if (wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    return r;
}

static wvgd_options squared_diag(size_t N)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = N;
    o.cost = WVGD_SQEUCLID;
    o.family = WVGD_DIAG;
    return o;
}

/* ---- the standard normal ----------------------------------------------------------------------------------------- */
/* Optimal quantizers of N(0, 1), from 10 random starts each, with the joint solver. */
static void lloyd_max(void **state)
{
    (void)state;
    static const double optimum[3][MAX_N] = {{-0.7979, 0.7979},
                                             {-1.2240, 0.0, 1.2240},
                                             {-1.5104, -0.4528, 0.4528, 1.5104}};
    static const double distortion[3] = {0.3634, 0.1902, 0.1175};
    enum { STARTS = 10, WHAT = 3 }; /* particles, their exact distortion, the distortion reported */
    int reached[WHAT] = {0};
    double worst[3][WHAT] = {{0}};
    const double one = 1.0, zero = 0.0;
    const oracle1d_target normal = {1, &one, &zero, &one};
    wvgd_model model;
    assert_int_equal(target_mixture_1d(&model, 1, &one, &zero, &one), 0);
    for (size_t N = 2; N <= MAX_N; N++) {
        for (uint64_t seed = 1; seed <= STARTS; seed++) {
            double z[MAX_N];
            test_random random = test_random_seed(100 * N + seed);
            for (size_t j = 0; j < N; j++)
                z[j] = 2.0 * test_random_normal(&random);
            wvgd_options o = squared_diag(N);
            o.seed = seed;
            wvgd_fit *fit = new_fit(&model, &o, z);
            wvgd_results r = run(fit);
            memcpy(z, r.z, N * sizeof *z);
            qsort(z, N, sizeof *z, ascending);
            double off[WHAT] = {0, fabs(oracle1d_distortion(&normal, N, z) - distortion[N - 2]),
                                fabs(r.distortion.value - distortion[N - 2])};
            for (size_t j = 0; j < N; j++)
                off[0] = fmax(off[0], fabs(z[j] - optimum[N - 2][j]));
            for (int what = 0; what < WHAT; what++) {
                reached[what] += off[what] < 0.01;
                worst[N - 2][what] = fmax(worst[N - 2][what], off[what]);
            }
            wvgd_free(fit);
        }
        print_message("N(0,1), N = %zu, largest error of a particle %.4f, of their exact distortion %.5f, of the "
                      "reported distortion %.4f\n",
                      N, worst[N - 2][0], worst[N - 2][1], worst[N - 2][2]);
    }
    print_message("of 30 starts: particles within 0.01 in %d, exact distortion in %d, reported distortion in %d\n",
                  reached[0], reached[1], reached[2]);
    for (int what = 0; what < WHAT; what++)
        assert_int_equal(reached[what], 3 * STARTS);
    model.close(model.self);
}

/* ---- one particle ------------------------------------------------------------------------------------------------ */
static double median(const oracle1d_target *target)
{
    double lo = -10, hi = 10;
    while (hi - lo > 1e-9) {
        double mid = (lo + hi) / 2;
        if (oracle1d_posterior_in(target, (oracle1d_interval){-INFINITY, mid}).beta < 0.5)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

/* Standard error of the share of the posterior below x, from the weighted closing draws. */
static double share_se(const wvgd_fit *fit, double x)
{
    size_t n;
    const double *z, *log_w;
    double share = 0, squares = 0;
    wvgd_error error;
    assert_int_equal(wvgd_draws(fit, &n, &z, NULL, &log_w, NULL, &error), WVGD_OK);
    for (size_t i = 0; i < n; i++)
        share += exp(log_w[i]) * (z[i] < x);
    for (size_t i = 0; i < n; i++)
        squares += pow(exp(log_w[i]) * ((z[i] < x) - share), 2);
    return sqrt(squares);
}

/* One particle of a skewed mixture: the median under the absolute cost, the mean under the squared
 * one. It rests on the closing draws: standard errors are those of their mean, and of their mass
 * below the median over the density there. */
static void one_particle(void **state)
{
    (void)state;
    enum { SEEDS = 5 };
    wvgd_model model;
    assert_int_equal(target_mixture_1d(&model, SKEW.K, SKEW_WEIGHT, SKEW_MEAN, SKEW_SD), 0);
    double mean = oracle1d_posterior_in(&SKEW, LINE).mean, middle = median(&SKEW),
           density = exp(oracle1d_log_p(&SKEW, middle));
    assert_true(mean - middle > 0.4);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double start = 3.0;
        wvgd_options o = squared_diag(1);
        o.seed = seed;
        wvgd_fit *fit = new_fit(&model, &o, &start);
        wvgd_results r = run(fit);
        double se = r.mcse[0];
        print_message("one particle, squared cost: %.4f, mean %.4f (se %.4f)\n", r.z[0], mean, se);
        assert_near(r.z[0], mean, 4 * se);
        wvgd_free(fit);
        o.cost = WVGD_L1;
        fit = new_fit(&model, &o, &start);
        r = run(fit);
        se = share_se(fit, middle) / density;
        print_message("one particle, absolute cost: %.4f, median %.4f (se %.4f)\n", r.z[0], middle, se);
        assert_near(r.z[0], middle, 4 * se);
        wvgd_free(fit);
    }
    model.close(model.self);
}

/* ---- a cost of the user's ---------------------------------------------------------------------------------------- */
static double squared_distance(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double sum = 0;
    ++*(size_t *)self;
    for (size_t i = 0; i < dim; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        if (grad_a)
            grad_a[i] = 2 * (a[i] - b[i]);
    }
    return sum;
}

/* The squared distance as a callback: the same first steps, and the same quantizer in the end, with
 * more noise: a callback has no control variate, so that particles come to rest with a standard
 * deviation of 0.0134 (over twelve seeds). */
static void callback_is_squared(void **state)
{
    (void)state;
    const double one = 1.0, zero = 0.0, z0[3] = {-1.0, 0.3, 2.0};
    wvgd_model model;
    assert_int_equal(target_mixture_1d(&model, 1, &one, &zero, &one), 0);
    size_t calls = 0;
    wvgd_options o = squared_diag(3);
    wvgd_fit *plain = new_fit(&model, &o, z0);
    o.cost = WVGD_CALLBACK;
    o.cost_function = squared_distance;
    o.cost_self = &calls;
    wvgd_fit *own = new_fit(&model, &o, z0);
    wvgd_error error;
    for (int step = 0; step < 3; step++) {
        /* the first steps are the same but for rounding: the Newton step of a quadratic is exact */
        assert_int_equal(wvgd_step(plain, &error), WVGD_OK);
        assert_int_equal(wvgd_step(own, &error), WVGD_OK);
        wvgd_results r[2];
        wvgd_get_results(plain, &r[0]);
        wvgd_get_results(own, &r[1]);
        for (size_t j = 0; j < 3; j++)
            assert_near(r[1].z[j], r[0].z[j], 1e-9);
    }
    assert_true(calls > 0);
    wvgd_results a = run(plain), b = run(own);
    double za[3], zb[3];
    memcpy(za, a.z, sizeof za);
    memcpy(zb, b.z, sizeof zb);
    qsort(za, 3, sizeof *za, ascending);
    qsort(zb, 3, sizeof *zb, ascending);
    for (size_t j = 0; j < 3; j++)
        assert_near(zb[j], za[j], 4 * 0.0134);
    assert_near(b.distortion.value, a.distortion.value, 4 * hypot(a.distortion.se, b.distortion.se));
    wvgd_free(plain);
    wvgd_free(own);
    model.close(model.self);
}

/* ---- the force --------------------------------------------------------------------------------------------------- */
/* n draws from components N(z_j, sd^2), in turn: those nearer to the first particle than to the second, with the
 * weights of q_1 and of the target, into x, log_u and log_v. */
static wv_cell_points draw_points(test_random *r, size_t n, const double z[2], double sd, double *x, double *log_u,
                                  double *log_v)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        double at = z[i % 2] + sd * test_random_normal(r), a = (at - z[0]) / sd, b = (at - z[1]) / sd,
               log_q = -a * a / 2 - log(sd) - log(2 * acos(-1)) / 2,
               log_m = log_q + log1p(exp((a * a - b * b) / 2)) - log(2);
        if (fabs(a) > fabs(b))
            continue;
        x[kept] = at;
        log_u[kept] = log_q - log_m;
        log_v[kept++] = oracle1d_log_p(&SKEW, at) - log_m;
    }
    return (wv_cell_points){kept, x, log_u, log_v};
}

/* Two particles in 1-D, squared cost. The force on particle 1 is the pull of the whole distribution
 * minus that of the mass beyond the middle,
 *     -grad_1 D = 2 [ E z - z_1 - integral_{z > (z_1+z_2)/2} (z - z_1) p dz ],
 * and a full step goes by the force over 2 beta_1. Mean of 40 batches of 4,000 draws a component
 * against quadrature, within 4 standard errors of that mean (the bias of a self-normalised mean is of
 * the order of 1/8,000, below a tenth of it). */
static void force(void **state)
{
    (void)state;
    enum { BATCHES = 40, DRAWS = 8000 };
    static double x[DRAWS], log_u[DRAWS], log_v[DRAWS], weight[DRAWS];
    const double z[2] = {-0.4, 2.2}, sd = 1.5;
    const wv_family *diagonal = wv_family_get(WVGD_DIAG);
    wv_partition cells;
    wv_arena *arena = wv_arena_new(10 * DRAWS);
    test_random random = test_random_seed(12);
    assert_true(arena && wv_partition_new(&cells, (wv_shape){.N = 2,
                                                             .D = 1,
                                                             .family = diagonal,
                                                             .cell_family = diagonal,
                                                             .metric_family = diagonal,
                                                             .cost = {.kind = WVGD_SQEUCLID}}));
    oracle1d_posterior whole = oracle1d_posterior_in(&SKEW, LINE),
                       beyond = oracle1d_posterior_in(&SKEW, oracle1d_cell(2, z, 1)),
                       own = oracle1d_posterior_in(&SKEW, oracle1d_cell(2, z, 0));
    double exact = 2 * (whole.mean - z[0] - beyond.beta * (beyond.mean - z[0])), h = 1e-5;
    double moved[2][2] = {{z[0] + h, z[1]}, {z[0] - h, z[1]}};
    assert_near(exact, -(oracle1d_distortion(&SKEW, 2, moved[0]) - oracle1d_distortion(&SKEW, 2, moved[1])) / (2 * h),
                1e-6);
    double mean = 0, squares = 0;
    for (size_t batch = 0; batch < BATCHES; batch++) {
        double middle;
        wv_cell_points p = draw_points(&random, DRAWS, z, sd, x, log_u, log_v);
        wv_partition_set_sd(&cells, &sd);
        wv_partition_move_all(&cells, z);
        assert_true(wv_particle_step(&cells, 0, p, (wv_free_draws){0}, 1.0, weight, &middle, arena) >= 0);
        wv_geometry g = wv_partition_geometry(&cells);
        assert_true(g.z[1] == z[1]);
        double full_step = g.z[0] - z[0], value = 2 * own.beta * full_step;
        mean += value / BATCHES;
        squares += value * value / BATCHES;
    }
    double se = sqrt((squares - mean * mean) / (BATCHES - 1));
    print_message("force on one of two particles: %.5f +- %.5f, exact %.5f\n", mean, se, exact);
    assert_near(mean, exact, 4 * se);
    wv_partition_free(&cells);
    wv_arena_free(arena);
}

/* Of the points of many batches the last are kept for the quantiser, as many as there is room for,
 * each with its density. */
static void the_last_points_are_kept(void **state)
{
    (void)state;
    enum { BATCH = 1000, BATCHES = 23, ROOM = 4100 };
    wv_batch batch;
    wv_draws d;
    assert_true(wv_batch_new(&batch, BATCH, 2, 1, false) && wv_draws_new(&d, (wv_draws_shape){.D = 2, .room = ROOM}));
    bool *seen = malloc(BATCH * BATCHES * sizeof *seen);
    batch.n = BATCH;
    for (size_t b = 0; b < BATCHES; b++) {
        for (size_t i = 0; i < BATCH; i++) {
            double number = (double)(b * BATCH + i);
            batch.x[2 * i] = number;
            batch.x[2 * i + 1] = batch.log_p[i] = -number;
            batch.log_m[i] = 2 * number;
        }
        wv_draws_collect(&d, &batch);
        size_t made = (b + 1) * BATCH, kept = made < ROOM ? made : ROOM;
        assert_int_equal(d.n, kept);
        memset(seen, 0, BATCH * BATCHES * sizeof *seen);
        for (size_t i = 0; i < kept; i++) {
            double number = d.x[2 * i];
            assert_true(number >= (double)(made - kept) && number < (double)made && !seen[(size_t)number]);
            assert_true(d.x[2 * i + 1] == -number && d.log_p[i] == -number && d.log_m[i] == 2 * number);
            seen[(size_t)number] = true;
        }
    }
    free(seen);
    wv_draws_free(&d);
    wv_batch_free(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_points_are_kept), cmocka_unit_test(lloyd_max), cmocka_unit_test(one_particle),
        cmocka_unit_test(callback_is_squared),      cmocka_unit_test(force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
