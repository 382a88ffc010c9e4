/* test_cells.c - what the staged solver makes of its draws: cells that are optimal quantizers, masses that are
 * those of the posterior, components that are as good as Gaussians can be, and bounds that rise with the
 * number of cells. All costs and families. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/logistic_truth.h"
#include "ascending.h"
#include "support/fitted.h"
#include "support/near.h"
#include "support/oracle1d.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

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

/* ---- two minima -------------------------------------------------------------------------------------------------- */
/* A mixture on which four particles have two resting places, with distortions of 0.16353 (two particles below zero)
 * and 0.16646 (one). Means of the squared distance over 3000 draws with the mixture as control tell them apart most
 * of the time; starts by k-means++ alone end in the worse one, in 7 of 8 runs. */
static void the_better_of_two_minima(void **state)
{
    (void)state;
    enum { N = 4, SEEDS = 8 };
    static const double weight[] = {0.15848614057926969, 0.0315942460720902, 0.29023516042777614, 0.33502764475977437,
                                    0.1846568081610896};
    static const double mean[] = {-0.9431845719506537, -0.4645223293504566, 0.20667141819381082, -0.07002243025525451,
                                  2.6998378449694087};
    static const double sd[] = {0.9542470494060727, 0.464577075467948, 0.10263252055039185, 0.6699258872440416,
                                0.7130979594892056};
    wvgd_model model;
    size_t better = 0;
    assert_int_equal(target_mixture_1d(&model, 5, weight, mean, sd), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        wvgd_results r;
        wvgd_options o = options_of(N, WVGD_FULL, seed);
        size_t below = 0;
        wvgd_fit *fit = fitted(&model, &o, &r);
        for (size_t j = 0; j < N; j++)
            below += r.z[j] < 0;
        better += below == 2;
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
    print_message("two minima: the better one in %zu of %d runs\n", better, SEEDS);
    assert_true(better >= SEEDS / 2 + 1);
}

/* ---- Lloyd-Max --------------------------------------------------------------------------------------------------- */
/* The standard normal, whose optimal quantizers are known. A particle rests on the n/N draws of its cell: its
 * standard error is the cell's sd, at most 0.6, times sqrt(N/n), and more as cells follow particles (by a factor of
 * less than 3). The distortion is level at the optimum: that of the particles is off by sum beta (error)^2 only. */
static void lloyd_max(void **state)
{
    (void)state;
    enum { MAX_N = 4, SEEDS = 6 };
    static const double optimum[3][MAX_N] = {{-0.7979, 0.7979},
                                             {-1.2240, 0.0, 1.2240},
                                             {-1.5104, -0.4528, 0.4528, 1.5104}};
    static const double distortion[3] = {0.3634, 0.1902, 0.1175};
    const double one = 1.0, zero = 0.0;
    const oracle1d_target normal = {1, &one, &zero, &one};
    wvgd_model model;
    assert_int_equal(target_mixture_1d(&model, 1, &one, &zero, &one), 0);
    for (size_t N = 2; N <= MAX_N; N++) {
        double worst = 0, worst_exact = 0, worst_told = 0, se = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            wvgd_results r;
            wvgd_options o = options_of(N, WVGD_FULL, seed);
            double z[MAX_N], total = 0;
            o.cost = WVGD_SQEUCLID;
            wvgd_fit *fit = fitted(&model, &o, &r);
            memcpy(z, r.z, N * sizeof *z);
            qsort(z, N, sizeof *z, ascending);
            se = 0.6 * sqrt((double)N / r.ess);
            for (size_t j = 0; j < N; j++) {
                assert_near(z[j], optimum[N - 2][j], 3 * 3 * se);
                worst = fmax(worst, fabs(z[j] - optimum[N - 2][j]));
                total += r.beta[j];
            }
            assert_near(total, 1, 1e-9);
            double exact = oracle1d_distortion(&normal, N, z);
            worst_exact = fmax(worst_exact, exact / distortion[N - 2] - 1);
            worst_told = fmax(worst_told, fabs(r.distortion.value - exact) / r.distortion.se);
            assert_near(r.distortion.value, exact, 5 * r.distortion.se);
            wvgd_free(fit);
        }
        print_message("N(0,1), N = %zu: particles within %.4f (standard error %.3f), exact distortion within %.2f %%, "
                      "the reported one %.1f standard errors from it\n",
                      N, worst, se, 100 * worst_exact, worst_told);
        assert_true(worst_exact < 0.03);
    }
    wvgd_model_close(&model);
}

/* ---- masses ------------------------------------------------------------------------------------------------------ */
static const double WEIGHT[] = {0.5, 0.3, 0.2}, MEAN[] = {-1, 0, 2, 1, 1, -2},
                    COV[] = {1, 0.4, 0.4, 0.6, 0.5, -0.1, -0.1, 0.3, 0.2, 0, 0, 0.9};

/* x[2]: a draw from this mixture. */
static void draw(test_random *r, double *x)
{
    double u = test_random_uniform(r), a = test_random_normal(r), b = test_random_normal(r);
    size_t k = u < WEIGHT[0] ? 0 : u < WEIGHT[0] + WEIGHT[1] ? 1 : 2;
    const double *C = COV + 4 * k;
    double root = sqrt(C[0]), cross = C[1] / root;
    x[0] = MEAN[2 * k] + root * a;
    x[1] = MEAN[2 * k + 1] + cross * a + sqrt(C[3] - cross * cross) * b;
}

static double quartic(void *self, size_t dim, const double *a, const double *b, double *grad_a)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < dim; i++) {
        double d = a[i] - b[i];
        sum += d * d + 0.1 * d * d * d * d;
        if (grad_a)
            grad_a[i] = 2 * d + 0.4 * d * d * d;
    }
    return sum;
}

/* Every cost and family: the cells' masses against exact draws from the target, within 5 of both standard errors;
 * bounds below the evidence, which is right. */
static void masses_of_all_costs(void **state)
{
    (void)state;
    enum { N = 5, DRAWS = 20000 };
    static double x[2 * DRAWS];
    static size_t cell[DRAWS];
    test_random random = test_random_seed(3);
    for (size_t i = 0; i < DRAWS; i++)
        draw(&random, x + 2 * i);
    wvgd_model model;
    assert_int_equal(target_mixture(&model, 2, 3, WEIGHT, MEAN, COV), 0);
    for (wvgd_cost cost = WVGD_SQEUCLID; cost <= WVGD_CALLBACK; cost++)
        for (wvgd_family family = WVGD_DIAG; family <= WVGD_LOWRANK; family++) {
            wvgd_results r;
            wvgd_options o = options_of(N, family, 1 + (uint64_t)cost);
            double share[N] = {0}, total = 0;
            o.cost = cost;
            o.rank = 1;
            o.cost_function = quartic;
            wvgd_fit *fit = fitted(&model, &o, &r);
            assert_int_equal(wvgd_cell(fit, DRAWS, x, cell, NULL), WVGD_OK);
            for (size_t i = 0; i < DRAWS; i++)
                share[cell[i]] += 1.0 / DRAWS;
            for (size_t j = 0; j < N; j++) {
                total += r.beta[j];
                double se = hypot(r.beta_se[j], sqrt(share[j] * (1 - share[j]) / DRAWS));
                if (!(fabs(r.beta[j] - share[j]) < 5 * se))
                    fail_msg("cost %d, family %d: cell %zu has mass %.4f +- %.4f, and really %.4f", (int)cost,
                             (int)family, j, r.beta[j], r.beta_se[j], share[j]);
            }
            assert_near(total, 1, 1e-9);
            assert_near(r.evidence.value, 0, 5 * r.evidence.se);
            assert_true(r.pelbo.value < 4 * r.pelbo.se && r.pelbo_beta.value < 4 * r.pelbo_beta.se);
            assert_true(r.distortion.value > 0 || cost == WVGD_OWN); /* own has a log determinant in it */
            wvgd_free(fit);
        }
    wvgd_model_close(&model);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */
/* Diagonal components on a Gaussian with correlation 0.95: one loses log(1 - 0.95^2)/2 = -1.164
 * nats, more lose less. */
static void more_cells_are_better(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 4, 8};
    const double zero[2] = {0, 0}, cov[4] = {1, 0.95, 0.95, 1}, alone = 0.5 * log(1 - 0.95 * 0.95);
    wvgd_model model;
    wvgd_estimate before = {-INFINITY, 0};
    assert_int_equal(target_gaussian_cov(&model, 2, zero, cov, true), 0);
    for (size_t i = 0; i < 4; i++) {
        wvgd_results r;
        wvgd_options o = options_of(counts[i], WVGD_DIAG, 1);
        /* cuts across the long axis; under the posterior's own metric all directions are alike */
        o.cost = WVGD_SQEUCLID;
        wvgd_fit *fit = fitted(&model, &o, &r);
        print_message("correlation 0.95, diag, N = %zu: PELBO %.4f +- %.4f\n", counts[i], r.pelbo.value, r.pelbo.se);
        if (i == 0)
            assert_near(r.pelbo.value, alone, 4 * r.pelbo.se + 0.01);
        assert_true(r.pelbo.value - before.value > 4 * hypot(r.pelbo.se, before.se));
        assert_true(r.pelbo.value < 4 * r.pelbo.se);
        before = r.pelbo;
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* ELBO of N(0, s^2 I) on a t with nu degrees of freedom in D dimensions: E log t - E log q, over r^2/s^2
 * of chi^2_D, by the trapezoidal rule. */
static double elbo_of_t(size_t D, double nu, double s)
{
    const double pi = 3.14159265358979323846;
    double d = (double)D, sum = 0, h = 0.001, constant = lgamma((nu + d) / 2) - lgamma(nu / 2) - d / 2 * log(nu * pi);
    for (double y = h / 2; y < 12; y += h) { /* y = r/s of chi_D */
        double density = exp((d - 1) * log(y) - y * y / 2 - (d / 2 - 1) * log(2) - lgamma(d / 2));
        sum += h * density * (constant - (nu + d) / 2 * log1p(s * s * y * y / nu) + y * y / 2);
    }
    return sum + d * log(s) + d / 2 * log(2 * pi);
}

/* One particle is the best Gaussian, and three are no worse. Heavy tails: t with 5 degrees of freedom in three
 * dimensions, whose best Gaussian is round: within 0.1 nats and 4 standard errors. */
static void one_particle_in_heavy_tails(void **state)
{
    (void)state;
    enum { D = 3 };
    const double one = 1, zero[D] = {0}, identity[D * D] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double best = -INFINITY;
    wvgd_model model;
    for (double s = 0.8; s < 1.6; s += 0.01)
        best = fmax(best, elbo_of_t(D, 5, s));
    assert_int_equal(target_student_mixture(&model, D, 1, 5, &one, zero, identity), 0);
    for (size_t N = 1; N <= 3; N += 2)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            wvgd_results r;
            wvgd_options o = options_of(N, WVGD_FULL, seed);
            wvgd_fit *fit = fitted(&model, &o, &r);
            print_message("t with 5 degrees of freedom, N = %zu: PELBO %.3f +- %.3f, best Gaussian %.3f\n", N,
                          r.pelbo.value, r.pelbo.se, best);
            if (!(r.pelbo.value > best - 0.1 - 4 * r.pelbo.se))
                fail_msg("N = %zu, seed %d: PELBO %.3f +- %.3f, but a single Gaussian has %.3f", N, (int)seed,
                         r.pelbo.value, r.pelbo.se, best);
            wvgd_free(fit);
        }
    wvgd_model_close(&model);
}

/* Logistic regressions whose best Gaussians are known exactly: the fitted one is within 0.25 nats of it (it is
 * fitted to the mixture that made the draws, not to the posterior), its ELBO is what is reported, and the
 * evidence is right within 4 standard errors. */
static void one_particle_of_logistic_regressions(void **state)
{
    (void)state;
    static const char *const names[] = {"iris", "boston", "diabetes"};
    for (int d = 0; d < 3; d++)
        for (int subset = 0; subset < 2; subset++) {
            logistic_data data;
            logistic_truth truth;
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = options_of(1, WVGD_FULL, 1 + (uint64_t)subset);
            o.bend = WVGD_BEND_NEVER; /* components are Gaussians of x */
            assert_true(logistic_data_read(&data, names[d], subset, true));
            assert_true(logistic_truth_read(&truth, names[d], subset, true));
            assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
            wvgd_fit *fit = fitted(&model, &o, &r);
            double elbo = logistic_elbo_full(&data, r.mu, r.chol);
            print_message("%s %d: ELBO %.4f below the optimum, reported %.1f standard errors off, evidence %.1f, %zu "
                          "evaluations\n",
                          names[d], subset, truth.elbo_fullrank - elbo, (r.pelbo.value - elbo) / r.pelbo.se,
                          (r.evidence.value - truth.log_evidence) / hypot(r.evidence.se, truth.log_evidence_se),
                          r.evaluations);
            assert_near(elbo, truth.elbo_fullrank, 0.02);
            assert_near(r.pelbo.value, elbo, 4 * r.pelbo.se);
            assert_near(r.evidence.value, truth.log_evidence, 4 * hypot(r.evidence.se, truth.log_evidence_se));
            wvgd_free(fit);
            wvgd_model_close(&model);
            logistic_data_free(&data);
        }
}

/* Raw features of very different scales: a diagonal Gaussian is far narrower than the posterior, and only
 * evaluations of its own place it. The optimum is exact; 0.05 of it is wanted. */
static void one_diagonal_particle(void **state)
{
    (void)state;
    logistic_data data;
    logistic_truth truth;
    wvgd_model model;
    wvgd_results r;
    wvgd_options o = options_of(1, WVGD_DIAG, 1);
    assert_true(logistic_data_read(&data, "boston", 0, false));
    assert_true(logistic_truth_read(&truth, "boston", 0, false));
    assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
    wvgd_fit *fit = fitted(&model, &o, &r);
    assert_near(logistic_elbo_diag(&data, r.mu, r.sd), truth.elbo_meanfield, 0.05);
    wvgd_free(fit);
    wvgd_model_close(&model);
    logistic_data_free(&data);
}

/* Of a normal posterior every truncated component is the posterior itself, whatever the cells are: in many
 * dimensions, with many cells, each a small part of it, the bound is the evidence still. */
static void many_cells_of_a_normal(void **state)
{
    (void)state;
    static const size_t counts[] = {5, 100, 300};
    wvgd_model model;
    assert_int_equal(target_gaussian_random(&model, 20, 10, 1, true), 0);
    for (size_t i = 0; i < 3; i++) {
        wvgd_results r;
        wvgd_options o = options_of(counts[i], WVGD_FULL, 1);
        wvgd_fit *fit = fitted(&model, &o, &r);
        print_message("normal in 20 dimensions, N = %zu: PELBO %.4f +- %.4f\n", counts[i], r.pelbo.value, r.pelbo.se);
        assert_near(r.pelbo.value, 0, 4 * r.pelbo.se + 0.01);
        assert_true(r.pelbo.se < 0.02);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* ---- weights and masses ------------------------------------------------------------------------------------------ */
/* The weights are the best that is known of: the bound with them is not below that with the masses, but for
 * the noise of both. Diagonal components of a correlated posterior (raw features) differ by tens of nats, and
 * a weight from a noisy ELBO once cost 30. */
static void weights_are_no_worse_than_masses(void **state)
{
    (void)state;
    logistic_data data;
    assert_true(logistic_data_read(&data, "diabetes", 4, false));
    for (uint64_t seed = 1; seed <= 3; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = options_of(2, WVGD_DIAG, seed);
        assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        if (!(r.pelbo.value > r.pelbo_beta.value - 3 * hypot(r.pelbo.se, r.pelbo_beta.se)))
            fail_msg("seed %d: bound %g +- %g, with the masses as weights %g +- %g", (int)seed, r.pelbo.value,
                     r.pelbo.se, r.pelbo_beta.value, r.pelbo_beta.se);
        wvgd_free(fit);
        model.close(model.self);
    }
    logistic_data_free(&data);
}

/* Masses of many cells in one dimension against the normal distribution function: 10 fits of 20 cells; masses of one
 * fit sum to one, so that about 190 of the 200 z are free: their root mean square lies within 4 / sqrt(2 x 190) of 1
 * if the errors are right, and may be below. */
static void masses_in_one_dimension(void **state)
{
    (void)state;
    enum { N = 20, SEEDS = 10 };
    static const double weight[2] = {0.3, 0.7}, mean[2] = {-3, 3}, sd[2] = {1, 0.7}, cov[2] = {1, 0.49};
    double squares = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double z[N], below = 0;
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = options_of(N, WVGD_FULL, seed);
        o.cost = WVGD_SQEUCLID;
        assert_int_equal(target_mixture(&model, 1, 2, weight, mean, cov), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        memcpy(z, r.z, sizeof z);
        qsort(z, N, sizeof *z, ascending);
        for (size_t i = 0; i < N; i++) {
            double above = 0;
            size_t j = 0;
            while (r.z[j] != z[i])
                j++;
            for (int k = 0; k < 2; k++)
                above += i + 1 < N ? weight[k] * erfc(-((z[i] + z[i + 1]) / 2 - mean[k]) / sd[k] / sqrt(2)) / 2
                                   : weight[k];
            squares += pow((r.beta[j] - (above - below)) / r.beta_se[j], 2);
            below = above;
        }
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("masses in one dimension: root mean square of z %.2f\n", sqrt(squares / (N * SEEDS)));
    assert_true(sqrt(squares / (N * SEEDS)) < 1 + 4 / sqrt(2 * 190));
}

/* ---- a simplex --------------------------------------------------------------------------------------------------- */
enum { WIDE = 12, MAX_CORNERS = 5 };

/* y[n][WIDE] = L^-1 (x - mean) */
static void whiten(size_t n, const double *L, const double *mean, const double *x, double *y)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < WIDE; i++) {
            y[j * WIDE + i] = x[j * WIDE + i] - mean[i];
            for (size_t k = 0; k < i; k++)
                y[j * WIDE + i] -= L[i * WIDE + k] * y[j * WIDE + k];
            y[j * WIDE + i] /= L[i * WIDE + i];
        }
}

static double product(const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < WIDE; i++)
        sum += a[i] * b[i];
    return sum;
}

/* How far along coordinate i a point may go before it lies in the other of two cells; INFINITY: beyond all measure. */
static double find_wall(const wvgd_fit *fit, const double *from, size_t i)
{
    double at[WIDE], inside = 0, outside = INFINITY;
    for (double far = 1e-3; far < 1e9 && isinf(outside); far *= -2) {
        size_t cell[2];
        memcpy(at, from, sizeof at);
        assert_int_equal(wvgd_cell(fit, 1, at, &cell[0], NULL), WVGD_OK);
        at[i] += far;
        assert_int_equal(wvgd_cell(fit, 1, at, &cell[1], NULL), WVGD_OK);
        outside = cell[0] != cell[1] ? far : INFINITY;
    }
    for (int halving = 0; halving < 50 && isfinite(outside); halving++) {
        size_t cell[2];
        double middle = (inside + outside) / 2;
        memcpy(at, from, sizeof at);
        assert_int_equal(wvgd_cell(fit, 1, at, &cell[0], NULL), WVGD_OK);
        at[i] += middle;
        assert_int_equal(wvgd_cell(fit, 1, at, &cell[1], NULL), WVGD_OK);
        *(cell[0] == cell[1] ? &inside : &outside) = middle;
    }
    return outside;
}

/* Mass of the first of two cells under N(mean, L L'). The wall is where a.x = a.m, m half-way between the particles:
 * from m + d/10, d = z_1 - z_0, it is t_i away along coordinate i, so that a_i = -a.d / 10 t_i. */
static double first_of_two(const wvgd_fit *fit, const double *L, const double *mean, const double *z)
{
    double a[WIDE], from[WIDE], h = 0, square = 0;
    for (size_t i = 0; i < WIDE; i++)
        from[i] = (z[i] + z[WIDE + i]) / 2 + (z[WIDE + i] - z[i]) / 10;
    for (size_t i = 0; i < WIDE; i++)
        a[i] = -1 / find_wall(fit, from, i);
    for (size_t i = 0; i < WIDE; i++) {
        double along = 0;
        for (size_t k = i; k < WIDE; k++)
            along += L[k * WIDE + i] * a[k];
        square += along * along;
        h += a[i] * ((z[i] + z[WIDE + i]) / 2 - mean[i]);
    }
    return erfc(-h / sqrt(2 * square)) / 2;
}

/* Of a normal posterior in many dimensions few particles are best, under the posterior's own metric, at the corners
 * of a regular simplex around the mean: in coordinates in which the posterior is standard normal cell j is where
 * u_j.x is the largest of N numbers with correlations -1/(N-1), so that the mean of a cell is r u_j with
 * r^2 = N/(N-1) E[max of N standard normals]^2, and the distortion is D - r^2, the least there is. Search begins at
 * such a simplex (test_kmeans). The metric is estimated, from some 400 draws: its
 * eigenvalues are within (1 +- sqrt(12/400))^2, a third, of the true ones, for which particles then settle; that
 * changes their distortion by the square of this, weighted: a few hundredths of r^2 at most. Masses are those of the
 * cells that there are, by exact draws, and of two cells by a closed form. */
static void particles_form_a_simplex(void **state)
{
    (void)state;
    enum { D = WIDE, SEEDS = 4, DRAWS = 100000 };
    static const double highest[MAX_CORNERS + 1] = {0,           0, 0.5641895835, 0.8462843753, 1.0293753730,
                                                    1.1629644736}; /* E[max of N] */
    static double x[DRAWS * D], e[DRAWS * D];
    static size_t cell[DRAWS];
    wvgd_model model;
    double L[D * D], excess = 0, beyond = 0, told = 0, mass = 0, exact = 0, uneven = 0;
    assert_int_equal(target_gaussian_random(&model, D, 100, 3, true), 0);
    target_truth truth = target_truth_of(&model);
    for (size_t i = 0; i < D; i++) /* Cholesky */
        for (size_t k = 0; k <= i; k++) {
            double s = truth.cov[i * D + k];
            for (size_t m = 0; m < k; m++)
                s -= L[i * D + m] * L[k * D + m];
            L[i * D + k] = k == i ? sqrt(s) : s / L[k * D + k];
        }
    test_random random = test_random_seed(5);
    test_random_normals(&random, DRAWS * D, e);
    for (size_t i = 0; i < DRAWS; i++)
        for (size_t d = 0; d < D; d++) {
            x[i * D + d] = truth.mean[d];
            for (size_t k = 0; k <= d; k++)
                x[i * D + d] += L[d * D + k] * e[i * D + k];
        }
    for (size_t N = 2; N <= MAX_CORNERS; N++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            wvgd_results r;
            double y[MAX_CORNERS * D], n = (double)N, square = n / (n - 1) * highest[N] * highest[N], total = 0,
                                       share[MAX_CORNERS] = {0}, sum = 0, squares = 0;
            wvgd_options o = options_of(N, WVGD_FULL, seed);
            wvgd_fit *fit = fitted(&model, &o, &r);
            assert_int_equal(r.components, 1);
            assert_int_equal(wvgd_cell(fit, DRAWS, x, cell, NULL), WVGD_OK);
            whiten(N, L, truth.mean, r.z, y);
            for (size_t i = 0; i < DRAWS; i++) { /* |x - z|^2 less |x|^2, whose mean is D */
                double least = INFINITY;
                for (size_t j = 0; j < N; j++)
                    least = fmin(least, product(y + j * D, y + j * D) - 2 * product(y + j * D, e + i * D));
                share[cell[i]] += 1.0 / DRAWS;
                sum += least / DRAWS;
                squares += least * least / DRAWS;
            }
            double se = sqrt((squares - sum * sum) / DRAWS),
                   first = N == 2 ? first_of_two(fit, L, truth.mean, r.z) : NAN;
            excess = fmax(excess, (sum + square) / square);
            beyond = fmax(beyond, -(sum + square) / se);
            for (size_t j = 0; j < N; j++) {
                total += r.beta[j];
                if (N == 2)
                    exact = fmax(exact, fabs(r.beta[j] - (j ? 1 - first : first)) / r.beta_se[j]);
                mass = fmax(mass,
                            fabs(r.beta[j] - share[j]) / hypot(r.beta_se[j], sqrt(share[j] * (1 - share[j]) / DRAWS)));
                uneven = fmax(uneven, fabs(n * share[j] - 1));
            }
            assert_near(total, 1, 1e-9);
            told = fmax(told, fabs(r.distortion.value - (D - square)) / r.distortion.se);
            wvgd_free(fit);
        }
    wvgd_model_close(&model);
    print_message("simplices: distortions %.3f of r^2 above the least (%.2f standard errors below), as told within "
                  "%.2f standard errors; masses within %.2f (of two %.2f), %.2f from equal\n",
                  excess, beyond, told, mass, exact, uneven);
    assert_true(excess < 0.03 && beyond < 4 && told < 4);
    assert_true(mass < 5 && exact < 4 && uneven < 0.4);
}

/* ---- several modes ----------------------------------------------------------------------------------------------- */
/* Two modes twenty sds apart, and four coordinates with a long tail on one side: log-gamma, y - exp(y). */
static double far_modes(void *self, const double *z, double *grad)
{
    double a = -0.5 * (z[0] - 10) * (z[0] - 10), b = -0.5 * (z[0] + 10) * (z[0] + 10), top = fmax(a, b),
           sum = top + log1p(exp(-fabs(a - b)));
    (void)self;
    if (grad)
        grad[0] = (exp(a - top) * (10 - z[0]) - exp(b - top) * (10 + z[0])) / (exp(a - top) + exp(b - top));
    for (size_t i = 1; i < 5; i++) {
        sum += z[i] - exp(z[i]);
        if (grad)
            grad[i] = 1 - exp(z[i]);
    }
    return sum;
}

/* No cell holds parts of both. In units of the posterior the modes are as wide apart as the tail is long, and 7 to 10 %
 * of the mass lay in cells of the other mode. */
static void cells_keep_modes_apart(void **state)
{
    (void)state;
    enum { N = 8 };
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, 5, far_modes, NULL, true), 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        wvgd_results r;
        wvgd_error error;
        wvgd_options o = options_of(N, WVGD_FULL, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        size_t n;
        const double *z, *log_p, *log_w;
        const uint32_t *cell;
        double side[N][2] = {{0}}, mixed = 0;
        assert_int_equal(wvgd_draws(fit, &n, &z, &log_p, &log_w, &cell, &error), WVGD_OK);
        for (size_t i = 0; i < n; i++)
            side[cell[i]][z[5 * i] > 0] += exp(log_w[i]);
        for (size_t j = 0; j < N; j++)
            mixed += fmin(side[j][0], side[j][1]);
        print_message("far modes, seed %d: %.4f of the mass in cells of the other mode\n", (int)seed, mixed);
        assert_int_equal(r.modes, 2);
        assert_true(mixed < 1e-3);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lloyd_max),
        cmocka_unit_test(masses_of_all_costs),
        cmocka_unit_test(more_cells_are_better),
        cmocka_unit_test(one_particle_in_heavy_tails),
        cmocka_unit_test(one_particle_of_logistic_regressions),
        cmocka_unit_test(one_diagonal_particle),
        cmocka_unit_test(many_cells_of_a_normal),
        cmocka_unit_test(weights_are_no_worse_than_masses),
        cmocka_unit_test(masses_in_one_dimension),
        cmocka_unit_test(the_better_of_two_minima),
        cmocka_unit_test(particles_form_a_simplex),
        cmocka_unit_test(cells_keep_modes_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
