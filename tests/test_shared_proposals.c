/* test_shared_proposals.c - many particles, whose groups share proposals: what is estimated is the same. Masses of
 * cells and of components in them against closed forms, bounds and evidence against known constants; who shares a
 * proposal with whom; components that lose their cells. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition.h"
#include "support/edited_state.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

static double cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static wvgd_options options(size_t N, size_t draws)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.family = WVGD_DIAG;
    o.cost = WVGD_SQEUCLID;
    o.init = WVGD_INIT_NORMAL;
    o.particles = N;
    o.draws = draws;
    return o;
}

static wvgd_fit *open(const wvgd_model *model, const wvgd_options *o, const double *z0)
{
    wvgd_error error;
    wvgd_fit *f = wvgd_new(model, o, z0, &error);
    if (!f)
        fail_msg("%s", error.text);
    return f;
}

/* A standard normal, in D dimensions; particles on the first axis, so that cells are slabs. Edges
 * of cell j: between neighbours. */
static double edge(size_t N, const double *z, size_t D, size_t j)
{
    return j == 0 ? -INFINITY : j == N ? INFINITY : (z[(j - 1) * D] + z[j * D]) / 2;
}

/* Components and cells of a state. */
typedef struct {
    double *z, *mu, *root, *spread; /* [N][D] */
    double *weight, *log_Z;         /* [N] */
} cells;

/* Cells and components that are not those of the posterior: particles as far apart as a quantizer's would be, spreads
 * up to a quarter wrong, components beside them. */
static void disturb(size_t N, size_t D, cells *c)
{
    test_random r = test_random_seed(N + D);
    for (size_t j = 0; j < N; j++) {
        double low = fmax(edge(N, c->z, D, j), c->z[j * D] - 1), high = fmin(edge(N, c->z, D, j + 1), c->z[j * D] + 1);
        for (size_t d = 0; d < D; d++) {
            c->spread[j * D + d] = (d ? 1 : (high - low) / sqrt(12.0)) * (0.75 + 0.5 * test_random_uniform(&r));
            c->root[j * D + d] = d ? 0.8 + 0.4 * test_random_uniform(&r) : 2 * c->spread[j * D];
            c->mu[j * D + d] = c->z[j * D + d] + 0.3 * c->root[j * D + d] * test_random_normal(&r);
        }
        c->weight[j] = 1 / (double)N;
        c->log_Z[j] = log(0.5);
    }
}

/* Puts a fit that has begun to search into such a state. */
static void put(wvgd_fit *f, size_t N, size_t D, const cells *c)
{
    wvgd_results r;
    double *spread = malloc(N * D * sizeof *spread);
    wvgd_get_results(f, &r);
    for (size_t i = 0; i < N * D; i++)
        spread[i] = sqrt(r.cell_cov[i]);
    const struct {
        size_t n;
        const double *from, *to; /* [n] */
    } edit[] = {{N * D, r.z, c->z},         {N * D, r.mu, c->mu},     {N * D, r.sd, c->root},
                {N * D, spread, c->spread}, {N, r.weight, c->weight}, {N, r.log_Z, c->log_Z}};
    for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
        assert_true(edited_state_replace(f, edit[i].n, edit[i].from, edit[i].to) > 0);
        wvgd_get_results(f, &r);
    }
    free(spread);
}

static void step(wvgd_fit *f)
{
    wvgd_error error;
    if (wvgd_step(f, &error) != WVGD_OK)
        fail_msg("%s", error.text);
}

static const char *stage_of(const wvgd_fit *f)
{
    wvgd_progress p;
    wvgd_get_progress(f, &p);
    return p.stage;
}

/* A proposal, as its draws show it: they come one after the other, in pairs of which each is the mirror image of the
 * other about its mean. */
enum { MOST_D = 10 };
typedef struct {
    size_t n;
    double mean[MOST_D], square[MOST_D]; /* sums of squares about the mean */
} proposal;

/* Proposals of n points x[n][D] into p[most]; returns how many there are. */
static size_t find_proposals(size_t n, size_t D, const double *x, size_t most, proposal *p)
{
    size_t found = 0;
    for (size_t i = 0; i + 1 < n; i += 2) {
        const double *a = x + i * D, *b = a + D;
        bool same = found > 0;
        for (size_t d = 0; d < D && same; d++)
            same = fabs((a[d] + b[d]) / 2 - p[found - 1].mean[d]) < 1e-9;
        if (!same) {
            assert_true(found < most);
            p[found] = (proposal){0};
            for (size_t d = 0; d < D; d++)
                p[found].mean[d] = (a[d] + b[d]) / 2;
            found++;
        }
        p[found - 1].n += 2;
        for (size_t d = 0; d < D; d++)
            p[found - 1].square[d] += 2 * pow(a[d] - p[found - 1].mean[d], 2);
    }
    return found;
}

/* Estimates of N masses from several batches: the mean of each, less the truth, in standard errors of the mean. With
 * B batches these are t variables, whose mean square is (B-1)/(B-3). */
enum { BATCHES = 40 };
static void compare(const char *what, size_t N, const double *sum, const double *squares, const double *truth)
{
    double mean_square = 0, most = 0, spread = (BATCHES - 1.0) / (BATCHES - 3.0);
    for (size_t j = 0; j < N; j++) {
        double mean = sum[j] / BATCHES, variance = fmax(squares[j] / BATCHES - mean * mean, 0) / (BATCHES - 1),
               t = fabs(mean - truth[j]) / sqrt(variance);
        most = fmax(most, t);
        mean_square += t * t / (double)N;
    }
    if (!(most < 6) || !(fabs(mean_square - spread) < 5 * spread * sqrt(2.3 / (double)N)))
        fail_msg("%s of %zu cells: %.2f standard errors at worst, mean square %.3f", what, N, most, mean_square);
}

/* A batch of the state of a fit that has another seed: masses of the N cells, and of components in them, into
 * mass[2][N]. */
static void take_batch(const wvgd_model *model, wvgd_options *o, const wvgd_fit *from, const double *z, double *mass)
{
    size_t N = o->particles, n;
    const double *x;
    bool gradient;
    wvgd_error error;
    wvgd_results r;
    o->seed++;
    wvgd_fit *f = open(model, o, z);
    assert_int_equal(edited_state_move(f, from, &error), WVGD_OK);
    proposal *p = malloc(N * sizeof *p);
    assert_int_equal(wvgd_ask(f, &n, &x, &gradient, &error), WVGD_OK);
    assert_true(find_proposals(n, model->dim, x, N - 1, p) < N); /* they are shared */
    free(p);
    step(f);
    wvgd_get_results(f, &r);
    for (size_t j = 0; j < N; j++) {
        mass[j] = r.beta[j];
        mass[N + j] = exp(r.log_Z[j]);
    }
    wvgd_free(f);
}

static void check_masses(size_t D, size_t N)
{
    wvgd_model model;
    double *memory = calloc(4 * N * D + 2 * N, sizeof *memory), *mass = calloc(2 * N, sizeof *mass),
           *sums = calloc(2 * N, sizeof *sums), *squares = calloc(2 * N, sizeof *squares),
           *truth = calloc(2 * N, sizeof *truth), *C = calloc(D * D, sizeof *C), *m = calloc(D, sizeof *m);
    cells c = {
        memory, memory + N * D, memory + 2 * N * D, memory + 3 * N * D, memory + 4 * N * D, memory + 4 * N * D + N};
    for (size_t d = 0; d < D; d++)
        C[d * D + d] = 1;
    assert_int_equal(target_gaussian_cov(&model, D, m, C, true), 0);
    for (size_t j = 0; j < N; j++) {
        /* quantiles of a normal with sd sqrt(3), as an optimal quantizer has them, by bisection */
        double low = -12, high = 12, p = ((double)j + 0.5) / (double)N;
        for (int k = 0; k < 60; k++)
            *(cdf((low + high) / 2 / sqrt(3.0)) < p ? &low : &high) = (low + high) / 2;
        c.z[j * D] = low;
    }
    disturb(N, D, &c);
    for (size_t j = 0; j < N; j++) {
        double low = edge(N, c.z, D, j), high = edge(N, c.z, D, j + 1), mu = c.mu[j * D], sd = c.root[j * D];
        truth[j] = cdf(high) - cdf(low);
        truth[N + j] = cdf((high - mu) / sd) - cdf((low - mu) / sd);
    }
    wvgd_options o = options(N, 64);
    wvgd_fit *f = open(&model, &o, c.z);
    while (!strcmp(stage_of(f), "pilot"))
        step(f);
    step(f);
    put(f, N, D, &c);
    assert_string_equal(stage_of(f), "fit");
    for (size_t batch = 0; batch < BATCHES; batch++) {
        take_batch(&model, &o, f, c.z, mass);
        for (size_t j = 0; j < 2 * N; j++) {
            sums[j] += mass[j];
            squares[j] += mass[j] * mass[j];
        }
    }
    compare("masses", N, sums, squares, truth);
    compare("masses of components", N, sums + N, squares + N, truth + N);
    wvgd_free(f);
    model.close(model.self);
    free(memory);
    free(mass);
    free(sums);
    free(squares);
    free(truth);
    free(C);
    free(m);
}

static void masses(void **state)
{
    (void)state;
    static const size_t D[] = {1, 1, 1, 10, 10}, N[] = {50, 200, 1000, 50, 200};
    for (size_t i = 0; i < 5; i++)
        check_masses(D[i], N[i]);
}

/* Whole fits, ended early where they would take long: the bound is one, and the evidence is right,
 * within 4 standard errors. Masses sum to 1. */
static void check_bound(const wvgd_model *model, wvgd_options o)
{
    wvgd_error error;
    wvgd_results r;
    wvgd_fit *f = open(model, &o, NULL);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(f, &r);
    double sum = 0;
    for (size_t j = 0; j < r.N; j++) {
        assert_true(r.beta[j] >= 0);
        sum += r.beta[j];
    }
    assert_near(sum, 1, 1e-12);
    assert_near(r.evidence.value, 0, 4 * r.evidence.se);
    if (!(r.pelbo.value < 4 * r.pelbo.se))
        fail_msg("bound %.4f with standard error %.4f above the log evidence 0", r.pelbo.value, r.pelbo.se);
    if (!(r.pelbo.value > -0.3))
        fail_msg("bound %.4f", r.pelbo.value);
    wvgd_free(f);
}

static void bounds(void **state)
{
    (void)state;
    wvgd_model model;
    const double weight[] = {0.3, 0.5, 0.2}, mean[] = {-3, 0, 5}, sd[] = {0.5, 1, 0.3};
    assert_int_equal(target_mixture_1d(&model, 3, weight, mean, sd), 0);
    wvgd_options o = options(50, 0);
    check_bound(&model, o);
    o.cells = WVGD_SOFT;
    o.max_iter = 40;
    check_bound(&model, o);
    model.close(model.self);
    assert_int_equal(target_mixture_random(&model, 2, 5, 2.0, 3), 0);
    o = options(200, 64);
    o.family = WVGD_FULL;
    o.max_iter = 60;
    check_bound(&model, o);
    model.close(model.self);
    assert_int_equal(target_gaussian_random(&model, 10, 10, 5, true), 0);
    o = options(1000, 32);
    o.max_iter = 30;
    o.family = WVGD_FULL;
    check_bound(&model, o);
    model.close(model.self);
}

/* Forty particles around each of two places 100 sds apart never share a proposal across; within a place they do. */
static void groups_keep_to_their_modes(void **state)
{
    (void)state;
    enum { N = 80, D = 3, M = 8 };
    const double weight[] = {0.5, 0.5}, mean[] = {-50, 0, 0, 50, 0, 0},
                 cov[] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    double z[N * D];
    wvgd_model model;
    wvgd_error error;
    test_random r = test_random_seed(1);
    assert_int_equal(target_mixture(&model, D, 2, weight, mean, cov), 0);
    for (size_t i = 0; i < N * D; i++)
        z[i] = mean[i / D % 2 * D + i % D] + 0.5 * test_random_normal(&r);
    static const wvgd_family family[] = {WVGD_DIAG, WVGD_FULL};
    for (size_t k = 0; k < 2; k++) {
        wvgd_options o = options(N, M);
        o.family = family[k];
        o.estimator = WVGD_SCORE; /* without a pilot: spreads are those of the given scale */
        o.init_scale = 1;
        wvgd_fit *f = open(&model, &o, z);
        size_t n, draws = 0, near[2] = {0, 0};
        const double *x;
        bool gradient;
        proposal p[N];
        assert_string_equal(stage_of(f), "fit");
        assert_int_equal(wvgd_ask(f, &n, &x, &gradient, &error), WVGD_OK);
        assert_int_equal(find_proposals(n, D, x, N, p), 4);
        for (size_t c = 0; c < 4; c++) {
            for (size_t d = 0; d < D; d++)
                assert_true(p[c].square[d] / (double)p[c].n < 9);
            near[p[c].mean[0] > 0]++;
            draws += p[c].n;
        }
        assert_int_equal(draws, N * M);
        assert_int_equal(n, N * M);
        assert_int_equal(near[0], 2);
        wvgd_free(f);
    }
    model.close(model.self);
}

/* A fit that is saved and restored between two batches goes on as if nothing had happened. */
static void resumed(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_error error;
    assert_int_equal(target_mixture_random(&model, 2, 3, 2.0, 3), 0);
    wvgd_options o = options(40, 16);
    wvgd_fit *f = open(&model, &o, NULL), *g = open(&model, &o, NULL);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(wvgd_step(f, &error), WVGD_OK);
        if (i == 5) {
            size_t size = wvgd_save_size(f);
            void *bytes = malloc(size);
            assert_int_equal(wvgd_save(f, bytes, size, &error), WVGD_OK);
            assert_int_equal(wvgd_restore(g, bytes, size, &error), WVGD_OK);
            free(bytes);
        } else if (i > 5)
            assert_int_equal(wvgd_step(g, &error), WVGD_OK);
    }
    wvgd_results a, b;
    wvgd_get_results(f, &a);
    wvgd_get_results(g, &b);
    const double *const of_f[] = {a.z, a.mu, a.sd, a.cell_cov}, *const of_g[] = {b.z, b.mu, b.sd, b.cell_cov};
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(of_f[i], of_g[i], a.N * a.D * sizeof(double));
    const double *const masses_f[] = {a.beta, a.elbo, a.log_Z, a.weight}, *const masses_g[] = {b.beta, b.elbo, b.log_Z,
                                                                                               b.weight};
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(masses_f[i], masses_g[i], a.N * sizeof(double));
    wvgd_free(f);
    wvgd_free(g);
    model.close(model.self);
}

/* A posterior that is equally wide in all directions, and nearly normal: where its cells lie is all the
 * same, and particles drift without end. They come to rest when the distortion does, long before iterations
 * run out; evidence against quadrature. */
static int round_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    size_t D = *(size_t *)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            double x = z[i * D + d];
            log_p[i] -= x * x / 2 + 0.02 * x * x * x * x;
            if (grad)
                grad[i * D + d] = -x - 0.08 * x * x * x;
        }
    }
    return 0;
}

static void turning_particles_come_to_rest(void **state)
{
    (void)state;
    size_t D = 20;
    double one = 0, width = 0.01;
    wvgd_model model = {
        .name = "round", .dim = D, .log_density = round_density, .self = &D, .has_gradient = true, .thread_safe = true};
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.family = WVGD_DIAG;
    o.particles = 20;
    /* 393 are enough; 690 if splits may fit noise, and more than 1200 if drift alone could end the search */
    o.max_iter = 600;
    for (int i = -1000; i <= 1000; i++)
        one += width * exp(-pow(i * width, 2) / 2 - 0.02 * pow(i * width, 4));
    wvgd_fit *f = open(&model, &o, NULL);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(f, &r);
    assert_int_equal(r.stop, WVGD_CONVERGED);
    assert_near(r.evidence.value, (double)D * log(one), 4 * r.evidence.se);
    assert_true(r.pelbo.value < (double)D * log(one) + 4 * r.pelbo.se);
    wvgd_free(f);
}

/* A diagonal component that begins again takes the sds of its cell, but none larger than those that coordinates
 * have, given the others, where the pilot has them correlated: for a correlation r sqrt(1 - r^2) times the sd. */
static void components_begin_again(void **state)
{
    (void)state;
    enum { N = 2, D = 2 };
    const double r = 0.8, root[4] = {3, 0, r * 2, sqrt(1 - r * r) * 2}, z[N * D] = {1, 2, 3, 4}, wide[D] = {4, 4},
                 narrow[D] = {4, 0.5};
    const wv_family *diag = wv_family_get(WVGD_DIAG);
    wv_partition p;
    wv_arena *arena = wv_arena_new(1000);
    assert_true(
        arena &&
        wv_partition_new(&p, (wv_shape){.N = N, .D = D, .family = diag, .cell_family = diag, .metric_family = diag}));
    for (size_t j = 0; j < N; j++) {
        wv_gaussian shape = {diag, D, 0, z + j * D, j ? wide : narrow, 0};
        wv_partition_place(&p, j, z + j * D, &shape, j ? wide : narrow);
        wv_partition_set_component(&p, j, wide, wide);
        wv_partition_restart_component(&p, j, root, arena);
    }
    assert_near(p.now.root[0], 3 * sqrt(1 - r * r), 1e-12);
    assert_near(p.now.root[1], 0.5, 1e-12);
    assert_near(p.now.root[2], 3 * sqrt(1 - r * r), 1e-12);
    assert_near(p.now.root[3], 2 * sqrt(1 - r * r), 1e-12);
    assert_memory_equal(p.now.mu, z, sizeof z);
    wv_partition_free(&p);
    wv_arena_free(arena);
}

/* Heavy tails (two degrees of freedom, in five dimensions): components that run away from their cells take shorter
 * steps until they keep to them. Cells can only help: a bound below that of one component is no fit. */
static void runaways_are_slowed_down(void **state)
{
    (void)state;
    enum { D = 5 };
    const double weight = 1, mean[D] = {0};
    double scale[D * D] = {0}, bound[2];
    wvgd_model model;
    for (size_t i = 0; i < D; i++)
        scale[i * D + i] = 1;
    assert_int_equal(target_student_mixture(&model, D, 1, 2, &weight, mean, scale), 0);
    for (int several = 0; several < 2; several++) {
        wvgd_options o;
        wvgd_results r;
        wvgd_error error;
        wvgd_options_init(&o);
        o.solver = WVGD_JOINT;
        o.particles = several ? 4 : 1;
        o.max_iter = 400;
        wvgd_fit *f = open(&model, &o, NULL);
        assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
        wvgd_get_results(f, &r);
        bound[several] = r.pelbo.value + 3 * r.pelbo.se;
        wvgd_free(f);
    }
    if (!(bound[1] > bound[0] - 0.05))
        fail_msg("bounds %g with one component, %g with four", bound[0], bound[1]);
    wvgd_model_close(&model);
}

static bool says_so(const wvgd_fit *f)
{
    wvgd_results r;
    bool said = false;
    wvgd_get_results(f, &r);
    for (size_t i = 0; i < r.warnings; i++)
        said |= strstr(r.warning[i], "fit of the component failed") != NULL;
    return said;
}

/* From the means of two components to the losses of the second: means, roots, spreads, metric, centre and ELBOs of two
 * cells in two dimensions are between them (wv_partition_archive). */
enum { LOSSES = 4 + 6 + 4 + 2 + 2 + 2 + 1 };

/* A component of weight that is no longer fitted is reported; one of next to no mass is not. */
static void giving_up_is_reported(void **state)
{
    (void)state;
    size_t D = 2;
    const double often = 20, light[2] = {1 - 1e-3, 1e-3};
    wvgd_error error;
    wvgd_results r;
    wvgd_model model = {
        .name = "round", .dim = D, .log_density = round_density, .self = &D, .has_gradient = true, .thread_safe = true};
    wvgd_options o = options(2, 100);
    o.max_iter = 40;
    wvgd_fit *f = open(&model, &o, NULL);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    assert_false(says_so(f));
    wvgd_get_results(f, &r);
    assert_true(edited_state_put(f, 2 * D, r.mu, LOSSES, 1, &often) > 0);
    assert_true(says_so(f));
    assert_true(edited_state_replace(f, 2, r.beta, light) > 0);
    assert_false(says_so(f));
    wvgd_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masses),
                                       cmocka_unit_test(bounds),
                                       cmocka_unit_test(groups_keep_to_their_modes),
                                       cmocka_unit_test(resumed),
                                       cmocka_unit_test(turning_particles_come_to_rest),
                                       cmocka_unit_test(components_begin_again),
                                       cmocka_unit_test(runaways_are_slowed_down),
                                       cmocka_unit_test(giving_up_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
