/* test_models.c - tests of the built-in models: values against independent computations, gradients against
 * differences, hostile points, batches, threads, and the wrapper that checks gradients. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../models/models.h"
#include "support/logistic_truth.h"
#include "support/mixture_tables.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"

static const double LOG_2PI = 1.8378770664093453, PI = 3.141592653589793;

/* ---- the models under test --------------------------------------------------------------------------------------- */
enum { ROWS = 600, COLUMNS = 4, MAX_D = 300 }; /* more rows than models take at a time */

typedef struct {
    double X[ROWS * COLUMNS], binary[ROWS], real[ROWS];
} rows_of_data;

static const char *const NAMES[COLUMNS] = {"one", "two", "three", "four"};

/* Features of several scales, the third constant; labels and values that depend on them. */
static const rows_of_data *data_rows(void)
{
    static rows_of_data data;
    test_random r = test_random_seed(11);
    for (size_t i = 0; i < ROWS; i++) {
        double *x = data.X + i * COLUMNS;
        for (size_t d = 0; d < COLUMNS; d++)
            x[d] = d == 2 ? 0.1 : (double)(d + 1) * (0.5 + test_random_normal(&r));
        double f = x[0] - 0.3 * x[1] + 0.2 * tanh(x[3]);
        data.binary[i] = f + 1.5 * test_random_normal(&r) > 0.0;
        data.real[i] = 2.0 + f + 0.7 * test_random_normal(&r);
    }
    return &data;
}

static wv_regression regression(bool binary, size_t rows, bool standardize, bool intercept, double prior_sd)
{
    const rows_of_data *data = data_rows();
    return (wv_regression){rows,  COLUMNS,     data->X,   binary ? data->binary : data->real,
                           NAMES, standardize, intercept, prior_sd,
                           NULL,  false,       NULL};
}

/* Generalised linear models: a row of every kind, with and without weights and offsets. Counts are up to some
 * hundreds, so that Stirling's series is used, too. */
typedef struct {
    double y[6][ROWS], trials[ROWS], weight[ROWS], offset[ROWS];
} glm_rows;

static const glm_rows *glm_data(void)
{
    static glm_rows g;
    const rows_of_data *data = data_rows();
    test_random r = test_random_seed(21);
    for (size_t i = 0; i < ROWS; i++) {
        double count = exp(0.7 * data->real[i]);
        g.trials[i] = (double)(1 + i % 7);
        g.y[WV_GAUSSIAN][i] = g.y[WV_STUDENT][i] = data->real[i];
        g.y[WV_BERNOULLI][i] = data->binary[i];
        g.y[WV_BINOMIAL][i] = floor(g.trials[i] * test_random_uniform(&r) + 0.3);
        g.y[WV_POISSON][i] = floor(fmin(count, 40.0));
        g.y[WV_NEGBINOMIAL][i] = floor(i % 50 ? count : 40.0 * count);
        g.weight[i] = i % 11 == 0 ? 0.0 : 0.5 * (double)(1 + i % 3);
        g.offset[i] = 0.3 * test_random_normal(&r);
    }
    return &g;
}

static const wv_prior GLM_PRIOR[COLUMNS + 3] = {{WV_PRIOR_NORMAL, 0.1, 1.5, 0}, {WV_PRIOR_STUDENT, 3, -0.2, 2.0},
                                                {WV_PRIOR_CAUCHY, 0.2, 1.2, 0}, {WV_PRIOR_NORMAL, 0, 0.4, 0},
                                                {WV_PRIOR_NORMAL, 0.5, 2.5, 0}, {WV_PRIOR_EXPONENTIAL, 0.7, 0, 0},
                                                {WV_PRIOR_GAMMA, 2, 0.1, 0}};

static wv_glm glm_of(wv_likelihood l, bool weighted)
{
    static const double centre[COLUMNS] = {0.3, -0.2, 0.1, 0.7};
    const glm_rows *g = glm_data();
    return (wv_glm){.likelihood = l,
                    .rows = ROWS,
                    .columns = COLUMNS,
                    .X = data_rows()->X,
                    .y = g->y[l],
                    .trials = l == WV_BINOMIAL ? g->trials : NULL,
                    .weight = weighted ? g->weight : NULL,
                    .offset = weighted ? g->offset : NULL,
                    .names = NAMES,
                    .intercept = true,
                    .prior = GLM_PRIOR,
                    .centre = weighted ? centre : NULL};
}

enum { TIMES = 40 };
static double TIME[TIMES], VALUE[TIMES];
static const wv_gp_prior GP_PRIOR = {{0.3, -1.0, 1.0, -2.0}, {1.0, 0.5, 1.5, 2.0}};

static void fill_series(void)
{
    test_random r = test_random_seed(12);
    for (size_t i = 0; i < TIMES; i++) {
        TIME[i] = 1000.0 + 10.0 * test_random_uniform(&r);
        VALUE[i] = sin(2.0 * TIME[i]) + 0.3 * test_random_normal(&r);
    }
}

/* Opens model number `which`; false past the last. spread: the scale of points at which it is looked at. */
static bool open_model(size_t which, wvgd_model *model, double *spread)
{
    static const double weight[2] = {0.4, 1.1}, mean[6] = {1.0, 0.0, -1.0, -1.0, 0.5, 2.0};
    static const double cov[18] = {1.0, 0.3, 0.1, 0.3, 2.0, -0.2, 0.1, -0.2, 0.5,
                                   0.2, 0.1, 0.0, 0.1, 0.3, 0.0,  0.0, 0.0,  1.0};
    wv_regression binary = regression(true, ROWS, true, true, 1.5), real = regression(false, ROWS, true, true, 1.5);
    wv_regression raw_binary = regression(true, 300, false, false, 0.7), few = regression(false, 3, false, true, 2.0);
    wv_regression none = regression(true, 0, true, true, 1.0);
    fill_series();
    *spread = 1.0;
    int status = -1;
    switch (which) {
    case 0:
        status = wv_model_mixture(model, 3, 2, weight, mean, cov);
        *spread = 2.0;
        break;
    case 1: status = wv_model_logistic(model, &binary); break;
    case 2: status = wv_model_logistic(model, &raw_binary); break;
    case 3: status = wv_model_linear(model, &real); break;
    case 4: status = wv_model_linear(model, &few); break;
    case 5: status = wv_model_gp(model, TIMES, TIME, VALUE, &GP_PRIOR); break;
    case 6: status = wv_model_bnn(model, &binary, 3, true); break;
    case 7: status = wv_model_bnn(model, &real, 45, false); break; /* groups smaller than a chunk */
    case 8: status = wv_model_logistic(model, &none); break;
    case 9: status = wv_model_linear(model, &none); break;
    case 10: status = wv_model_bnn(model, &none, 2, false); break;
    default:
        if (which >= 23)
            return false;
        wv_glm g = glm_of((wv_likelihood)((which - 11) % 6), which >= 17);
        status = wv_model_glm(model, &g);
        *spread = 0.3;
        break;
    }
    assert_int_equal(status, 0);
    assert_true(model->dim <= MAX_D && model->has_gradient && model->thread_safe);
    return true;
}

static double at(const wvgd_model *model, const double *z)
{
    double log_p;
    assert_int_equal(model->log_density(model->self, 1, z, &log_p, NULL), 0);
    return log_p;
}

static double *random_points(uint64_t seed, size_t n, size_t D, double spread)
{
    double *z = malloc(n * D * sizeof *z);
    assert_non_null(z);
    test_random r = test_random_seed(seed);
    for (size_t i = 0; i < n * D; i++)
        z[i] = spread * test_random_normal(&r);
    return z;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */
/* The derivative by coordinate d from six points: the error is that of the seventh order, h^6 / 140 times
 * the seventh derivative (60^7 is a large one: a phase 2 pi f dt of 60), and rounding, 1e-16 |log p| / h:
 * both below 1e-8 relative to the gradient. */
static double slope(const wvgd_model *model, const double *z, size_t d)
{
    static const double WEIGHT[3] = {45.0, -9.0, 1.0};
    double moved[MAX_D], sum = 0.0, h = 3e-4;
    memcpy(moved, z, model->dim * sizeof *z);
    for (size_t k = 0; k < 3; k++) {
        moved[d] = z[d] + h * (double)(k + 1);
        sum += WEIGHT[k] * at(model, moved);
        moved[d] = z[d] - h * (double)(k + 1);
        sum -= WEIGHT[k] * at(model, moved);
    }
    return sum / (60.0 * h);
}

static void gradients_are_exact(void **state)
{
    (void)state;
    enum { N = 10 };
    wvgd_model model;
    double spread, log_p[N], grad[N * MAX_D];
    for (size_t which = 0; open_model(which, &model, &spread); which++) {
        size_t D = model.dim;
        double *z = random_points(which, N, D, spread);
        assert_int_equal(model.log_density(model.self, N, z, log_p, grad), 0);
        for (size_t i = 0; i < (D < 100 ? N : 1); i++) {
            double size = 1.0;
            for (size_t d = 0; d < D; d++)
                size = fmax(size, fabs(grad[i * D + d]));
            for (size_t d = 0; d < D; d++)
                assert_near(grad[i * D + d], slope(&model, z + i * D, d), 1e-8 * size);
        }
        free(z);
        wvgd_model_close(&model);
    }
}

/* 150 points at once, one by one, without gradients, and in threads. */
static void batches_are_points(void **state)
{
    (void)state;
    enum { N = 150 };
    wvgd_model model, shared;
    double spread, log_p[N], alone, without[N], threaded[N];
    double *grad = malloc(N * MAX_D * sizeof *grad), *grad_threaded = malloc(N * MAX_D * sizeof *grad),
           grad_alone[MAX_D];
    double *first = malloc(N * MAX_D * sizeof *grad), log_p_first[N];
    assert_true(grad && grad_threaded && first);
    for (size_t which = 0; open_model(which, &model, &spread); which++) {
        size_t D = model.dim;
        double *z = random_points(which + 100, N, D, spread);
        assert_int_equal(model.log_density(model.self, N, z, log_p, grad), 0);
        assert_int_equal(model.log_density(model.self, N, z, without, NULL), 0);
        assert_memory_equal(log_p, without, sizeof log_p);
        for (size_t i = 0; i < N; i++) {
            double size = 1.0;
            assert_int_equal(model.log_density(model.self, 1, z + i * D, &alone, grad_alone), 0);
            assert_true(isfinite(alone));
            assert_near(log_p[i], alone, 1e-12 * (1.0 + fabs(alone)));
            for (size_t d = 0; d < D; d++)
                size = fmax(size, fabs(grad_alone[d]));
            for (size_t d = 0; d < D; d++)
                assert_near(grad[i * D + d], grad_alone[d], 1e-12 * size);
        }
        for (unsigned threads = 1; threads <= 3; threads++) {
            assert_int_equal(wvgd_model_threads(&shared, &model, threads), 0);
            assert_int_equal(shared.log_density(shared.self, N, z, threaded, grad_threaded), 0);
            wvgd_model_close(&shared);
            if (threads == 1) {
                memcpy(log_p_first, threaded, sizeof threaded);
                memcpy(first, grad_threaded, N * D * sizeof *first);
            }
            assert_memory_equal(log_p_first, threaded, sizeof threaded);
            assert_memory_equal(first, grad_threaded, N * D * sizeof *first);
        }
        free(z);
        wvgd_model_close(&model);
    }
    free(grad);
    free(grad_threaded);
    free(first);
}

/* Finite or -INFINITY anywhere, with a gradient that is 0 in the latter case, and the point beside
 * it is as it is without. */
static void hostile_points_are_answered(void **state)
{
    (void)state;
    static const double SIZE[] = {1e-300, 30.0, 1e3, 1e4, 1e8, 1e100, 1e154, 1e200, 1e300, 1e308, INFINITY, NAN};
    enum { SIZES = sizeof SIZE / sizeof *SIZE, PATTERNS = 4 };
    wvgd_model model;
    double spread, z[2 * MAX_D], grad[2 * MAX_D], log_p[2], calm[2 * MAX_D], grad_calm[2 * MAX_D], log_p_calm[2];
    for (size_t which = 0; open_model(which, &model, &spread); which++) {
        size_t D = model.dim;
        double *beside = random_points(which, 2, D, spread);
        memcpy(calm, beside, 2 * D * sizeof *calm);
        assert_int_equal(model.log_density(model.self, 2, calm, log_p_calm, grad_calm), 0);
        for (size_t k = 0; k < SIZES * PATTERNS; k++) {
            double size = SIZE[k / PATTERNS];
            memcpy(z, calm, 2 * D * sizeof *z);
            for (size_t d = 0; d < D; d++) /* all, all negative, alternating, only the last */
                if (k % PATTERNS < 3 || d == D - 1)
                    z[d] = k % PATTERNS == 1 || (k % PATTERNS == 2 && d % 2) ? -size : size;
            assert_int_equal(model.log_density(model.self, 2, z, log_p, grad), 0);
            assert_true(isfinite(log_p[0]) || log_p[0] == -INFINITY);
            for (size_t d = 0; d < D; d++)
                assert_true(log_p[0] == -INFINITY ? grad[d] == 0.0 : !isnan(grad[d]));
            assert_near(log_p[1], log_p_calm[1], 0.0);
            assert_memory_equal(grad + D, grad_calm + D, D * sizeof *grad);
        }
        free(beside);
        wvgd_model_close(&model);
    }
}

static void assert_names(const wvgd_model *model, const char *const *expected)
{
    for (size_t d = 0; d < model->dim; d++)
        assert_string_equal(model->names[d], expected[d]);
}

static void coordinates_have_names(void **state)
{
    (void)state;
    const char *const weights[] = {"one", "two", "three", "four", "intercept", "log_sigma"};
    const char *const process[] = {"log_A", "log_f", "log_s", "log_B"};
    const char *const network[] = {"w1[1,1]", "w1[1,2]", "w1[1,3]", "w1[1,4]", "w1[2,1]", "w1[2,2]", "w1[2,3]",
                                   "w1[2,4]", "b1[1]",   "b1[2]",   "w2[1]",   "w2[2]",   "b2",      "log_sigma"};
    wv_regression data = regression(true, ROWS, true, true, 1.0);
    wvgd_model model;
    assert_int_equal(wv_model_logistic(&model, &data), 0);
    assert_int_equal(model.dim, 5);
    assert_names(&model, weights);
    wvgd_model_close(&model);
    assert_int_equal(wv_model_linear(&model, &data), 0);
    assert_int_equal(model.dim, 6);
    assert_names(&model, weights);
    wvgd_model_close(&model);
    for (int binary = 0; binary < 2; binary++) {
        assert_int_equal(wv_model_bnn(&model, &data, 2, binary), 0);
        assert_int_equal(model.dim, 14 - binary);
        assert_names(&model, network);
        wvgd_model_close(&model);
    }
    fill_series();
    assert_int_equal(wv_model_gp(&model, TIMES, TIME, VALUE, &GP_PRIOR), 0);
    assert_int_equal(model.dim, 4);
    assert_names(&model, process);
    wvgd_model_close(&model);
}

/* Draws from the priors. Of a point's normals each coordinate has its own; so has its mean over N draws: m of a
 * normal prior within 5 sd / sqrt(N), and the variance within 5 sqrt(2 / N) of its own. u = log(sigma / scale) has
 * the density 1/(pi cosh u): mean 0 and variance pi^2/4, its fourth moment 5 pi^4/16, so that the variance has the
 * standard error sqrt((5 - 1) / N) pi^2/4. */
static void starts_are_draws_from_the_prior(void **state)
{
    (void)state;
    enum { N = 4000 };
    static const struct {
        size_t which;
        double sd;
        bool noise;
    } models[] = {{1, 1.5, false}, {2, 0.7, false}, {3, 1.5, true}, {4, 2.0, true},
                  {5, 0.0, false}, {6, 1.5, false}, {10, 1.0, true}};
    wvgd_model model, shared;
    double spread, normal[MAX_D], z[MAX_D];
    assert_true(open_model(0, &model, &spread));
    assert_null(model.start); /* a mixture has no prior */
    wvgd_model_close(&model);
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        double sum[MAX_D] = {0.0}, squares[MAX_D] = {0.0};
        test_random r = test_random_seed(k);
        assert_true(open_model(models[k].which, &model, &spread));
        assert_int_equal(wvgd_model_threads(&shared, &model, 2), 0); /* wrappers pass it on */
        for (size_t i = 0; i < N; i++) {
            test_random_normals(&r, model.dim, normal);
            shared.start(shared.start_self, normal, z);
            for (size_t d = 0; d < model.dim; d++) {
                sum[d] += z[d];
                squares[d] += z[d] * z[d];
            }
        }
        for (size_t d = 0; d < model.dim; d++) {
            bool noise = models[k].noise && d == model.dim - 1, process = models[k].which == 5;
            double sd = noise     ? PI / 2.0
                        : process ? GP_PRIOR.sd[d]
                                  : models[k].sd,
                   mean = noise     ? log(models[k].sd)
                          : process ? GP_PRIOR.mean[d]
                                    : 0.0;
            double found = sum[d] / N, variance = squares[d] / N - found * found;
            assert_near(found, mean, 5.0 * sd / sqrt(N));
            assert_near(variance / (sd * sd), 1.0, 5.0 * sqrt((noise ? 4.0 : 2.0) / N));
        }
        memset(normal, 0, sizeof normal);
        for (double far = -30.0; far <= 30.0; far += 15.0) { /* finite in the tails too */
            normal[model.dim - 1] = far;
            model.start(model.start_self, normal, z);
            assert_true(isfinite(z[model.dim - 1]));
        }
        wvgd_model_close(&shared);
        wvgd_model_close(&model);
    }
}

/* ---- mixture ----------------------------------------------------------------------------------------------------- */
/* The trapezoidal rule on a Gaussian of sd s with steps below s/2 is exact to 1e-30: what remains is rounding. */
static void mixture_integrates_to_its_weights(void **state)
{
    (void)state;
    mixture_table m;
    wvgd_model model;
    for (int target = 0; target < MIXTURE_TARGETS; target++) {
        assert_true(mixture_table_read(&m, target));
        double var[MIXTURE_MAX], weights = 0.0, narrowest = INFINITY, lo = INFINITY, hi = -INFINITY, sum = 0.0;
        for (size_t k = 0; k < m.K; k++) {
            var[k] = m.sd[k] * m.sd[k];
            m.weight[k] *= 1.0 + target;
            weights += m.weight[k];
            narrowest = fmin(narrowest, m.sd[k]);
            lo = fmin(lo, m.mean[k] - 9.0 * m.sd[k]);
            hi = fmax(hi, m.mean[k] + 9.0 * m.sd[k]);
        }
        assert_int_equal(wv_model_mixture(&model, 1, m.K, m.weight, m.mean, var), 0);
        double step = narrowest / 2.5;
        for (double z = lo; z < hi; z += step)
            sum += step * exp(at(&model, &z));
        assert_near(log(sum), log(weights), 1e-10);
        wvgd_model_close(&model);
    }
}

static void mixture_agrees_with_target(void **state)
{
    (void)state;
    enum { D = 4, K = 3, N = 100 };
    const double weight[K] = {0.2, 0.5, 3.0};
    double mean[K * D], cov[K * D * D] = {0.0}, factor[D * D], log_p[2][N], grad[2][N * D];
    test_random r = test_random_seed(3);
    test_random_normals(&r, K * D, mean);
    for (size_t k = 0; k < K; k++) {
        test_random_normals(&r, D * D, factor);
        for (size_t i = 0; i < D * D; i++) {
            cov[k * D * D + i] = i / D == i % D ? 0.1 : 0.0;
            for (size_t j = 0; j < D; j++)
                cov[k * D * D + i] += factor[i / D * D + j] * factor[i % D * D + j];
        }
    }
    wvgd_model model[2];
    assert_int_equal(wv_model_mixture(&model[0], D, K, weight, mean, cov), 0);
    assert_int_equal(target_mixture(&model[1], D, K, weight, mean, cov), 0);
    double *z = random_points(4, N, D, 4.0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(model[i].log_density(model[i].self, N, z, log_p[i], grad[i]), 0);
    for (size_t i = 0; i < N; i++)
        assert_near(log_p[0][i], log_p[1][i], 1e-10 * (1.0 + fabs(log_p[1][i])));
    for (size_t i = 0; i < N * D; i++)
        assert_near(grad[0][i], grad[1][i], 1e-9 * (1.0 + fabs(grad[1][i])));
    for (int i = 0; i < 2; i++)
        wvgd_model_close(&model[i]);
    free(z);
}

static void mixture_rejects_what_is_none(void **state)
{
    (void)state;
    const double one = 1.0, zero = 0.0, negative = -1.0, mean[2] = {0.0, 0.0}, indefinite[4] = {1.0, 2.0, 2.0, 1.0},
                 holed[4] = {1.0, NAN, NAN, 1.0};
    wvgd_model model = {.name = "untouched"};
    assert_int_equal(wv_model_mixture(&model, 2, 1, &one, mean, indefinite), -1);
    assert_int_equal(wv_model_mixture(&model, 2, 1, &one, mean, holed), -1);
    assert_int_equal(wv_model_mixture(&model, 1, 1, &zero, mean, &one), -1);
    assert_int_equal(wv_model_mixture(&model, 1, 1, &negative, mean, &one), -1);
    assert_int_equal(wv_model_mixture(&model, 1, 1, &one, mean, &zero), -1);
    assert_int_equal(wv_model_mixture(&model, 0, 1, &one, mean, &one), -1);
    assert_string_equal(model.name, "untouched");
}

/* ---- logistic ---------------------------------------------------------------------------------------------------- */
static void logistic_agrees_with_target(void **state)
{
    (void)state;
    static const char *const DATASET[] = {"iris", "boston", "cancer", "diabetes"};
    enum { N = 70, MOST = 31 };
    double log_p[2][N], grad[2][N * MOST];
    for (size_t which = 0; which < 8; which++) {
        logistic_data raw, full;
        bool standardize = which % 2;
        assert_true(logistic_data_read(&raw, DATASET[which / 2], LOGISTIC_ALL_ROWS, false));
        assert_true(logistic_data_read(&full, DATASET[which / 2], LOGISTIC_ALL_ROWS, standardize));
        size_t D = raw.D;
        double *X = malloc(raw.n * D * sizeof *X);
        const char *names[MOST];
        assert_true(X && D <= MOST);
        for (size_t i = 0; i < raw.n; i++)
            memcpy(X + i * (D - 1), raw.X + i * D, (D - 1) * sizeof *X);
        for (size_t d = 0; d < D; d++)
            names[d] = "x";
        wv_regression data = {raw.n, D - 1, X, raw.y, names, standardize, true, 1.0, NULL, false, NULL};
        wvgd_model model[2];
        assert_int_equal(wv_model_logistic(&model[0], &data), 0);
        assert_int_equal(target_logistic(&model[1], full.n, D, full.X, full.y), 0);
        double *z = random_points(which, N, D, 1.0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(model[i].log_density(model[i].self, N, z, log_p[i], grad[i]), 0);
        for (size_t i = 0; i < N; i++) {
            double size = 1.0;
            assert_near(log_p[0][i], log_p[1][i], 1e-12 * (1.0 + fabs(log_p[1][i])));
            for (size_t d = 0; d < D; d++)
                size = fmax(size, fabs(grad[1][i * D + d]));
            for (size_t d = 0; d < D; d++)
                assert_near(grad[0][i * D + d], grad[1][i * D + d], 1e-12 * size);
        }
        for (int i = 0; i < 2; i++)
            wvgd_model_close(&model[i]);
        free(z);
        free(X);
        logistic_data_free(&raw);
        logistic_data_free(&full);
    }
}

/* Standardised, the third feature, 0.1 in every row, says nothing: its weight has the prior's gradient. */
static void constant_columns_become_zero(void **state)
{
    (void)state;
    wv_regression data = regression(true, ROWS, true, true, 1.5);
    wvgd_model model;
    const double w[5] = {0.3, -0.2, 0.9, 0.1, 0.4};
    double log_p, grad[5];
    assert_int_equal(wv_model_logistic(&model, &data), 0);
    assert_int_equal(model.log_density(model.self, 1, w, &log_p, grad), 0);
    assert_near(grad[2], -0.9 / (1.5 * 1.5), 1e-15);
    wvgd_model_close(&model);
}

/* One row x = 1, y in {0, 1}: f = w, so the likelihood is known for any w. */
static void logistic_is_stable_in_the_tails(void **state)
{
    (void)state;
    const double x = 1.0, y[2] = {0.0, 1.0}, W[] = {1e-10, 1.0, 20.0, 36.0, 40.0, 500.0, 700.0, 709.0, 1e3, 1e5};
    const char *const name = "x";
    for (size_t k = 0; k < 2 * sizeof W / sizeof *W; k++)
        for (int label = 0; label < 2; label++) {
            const double w = k % 2 ? -W[k / 2] : W[k / 2], prior_sd = 1e6;
            wv_regression data = {1, 1, &x, &y[label], &name, false, false, prior_sd, NULL, false, NULL};
            wvgd_model model;
            assert_int_equal(wv_model_logistic(&model, &data), 0);
            double log_p, grad, s = label ? w : -w,
                                prior = -0.5 * (w / prior_sd) * (w / prior_sd) - log(prior_sd) - 0.5 * LOG_2PI;
            assert_int_equal(model.log_density(model.self, 1, &w, &log_p, &grad), 0);
            double expected = s > 0.0 ? -log1p(exp(-s)) : s - log1p(exp(s)),
                   miss = s > 0.0 ? exp(-s) / (1.0 + exp(-s)) : 1.0 / (1.0 + exp(s));
            assert_near(log_p, prior + expected, 1e-14 * fabs(prior + expected));
            assert_near(grad, (label ? miss : -miss) - w / (prior_sd * prior_sd), 3e-16);
            wvgd_model_close(&model);
        }
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */
static double log_noise_prior(double log_sigma, double scale)
{
    double sigma = exp(log_sigma);
    /* half-Cauchy, times d sigma / d log sigma */
    return log(2.0 / (PI * scale * (1.0 + sigma * sigma / (scale * scale)))) + log_sigma;
}

/* With one feature and no intercept the integral over w is known: y ~ N(0, prior_sd^2 x x' + sigma^2 I),
 * whose determinant is sigma^2n (1 + s^2 x'x / sigma^2). The integral over log sigma of the noise's prior
 * alone is 1: tails beyond 60 hold exp(-60). */
static void linear_integrates_to_its_evidence(void **state)
{
    (void)state;
    enum { N = 12 };
    double x[N], y[N], xx = 0.0, xy = 0.0, yy = 0.0, s = 1.7, prior_mass = 0.0;
    const char *const name = "x";
    test_random r = test_random_seed(21);
    for (size_t i = 0; i < N; i++) {
        x[i] = test_random_normal(&r);
        y[i] = 0.8 * x[i] + 0.5 * test_random_normal(&r);
        xx += x[i] * x[i];
        xy += x[i] * y[i];
        yy += y[i] * y[i];
    }
    wv_regression data = {N, 1, x, y, &name, false, false, s, NULL, false, NULL};
    wvgd_model model;
    assert_int_equal(wv_model_linear(&model, &data), 0);
    for (double log_sigma = -2.0; log_sigma <= 3.0; log_sigma += 0.25) {
        double var = exp(2.0 * log_sigma), precision = xx / var + 1.0 / (s * s), mean = xy / var / precision,
               sd = 1.0 / sqrt(precision), mass = 0.0;
        double log_marginal =
            -0.5 * (N * (LOG_2PI + log(var)) + log1p(s * s * xx / var) + (yy - xy * xy / (xx + var / (s * s))) / var);
        for (double u = -9.0; u < 9.0; u += 0.25) {
            double z[2] = {mean + u * sd, log_sigma};
            mass += 0.25 * sd * exp(at(&model, z));
        }
        assert_near(log(mass), log_marginal + log_noise_prior(log_sigma, s), 1e-11);
    }
    wvgd_model_close(&model);
    data.rows = 0;
    assert_int_equal(wv_model_linear(&model, &data), 0);
    for (double u = -60.0; u < 60.0; u += 0.05) {
        double z[2] = {0.0, u};
        prior_mass += 0.05 * exp(at(&model, z) + 0.5 * LOG_2PI + log(s));
    }
    assert_near(prior_mass, 1.0, 1e-12);
    wvgd_model_close(&model);
}

/* Against the sum over rows; also with fewer rows than weights. */
static void linear_agrees_with_rows(void **state)
{
    (void)state;
    const rows_of_data *rows = data_rows();
    const size_t COUNT[] = {1, 4, 5, 6, ROWS};
    for (size_t k = 0; k < sizeof COUNT / sizeof *COUNT; k++) {
        wv_regression data = regression(false, COUNT[k], false, true, 2.0);
        wvgd_model model;
        assert_int_equal(wv_model_linear(&model, &data), 0);
        double *z = random_points(k, 20, 6, 1.0);
        for (size_t i = 0; i < 20; i++) {
            const double *w = z + i * 6;
            double expected = log_noise_prior(w[5], 2.0);
            for (size_t d = 0; d < 5; d++)
                expected -= 0.125 * w[d] * w[d] + log(2.0) + 0.5 * LOG_2PI;
            for (size_t n = 0; n < COUNT[k]; n++) {
                double e = rows->real[n] - w[4];
                for (size_t d = 0; d < COLUMNS; d++)
                    e -= rows->X[n * COLUMNS + d] * w[d];
                expected -= 0.5 * e * e * exp(-2.0 * w[5]) + w[5] + 0.5 * LOG_2PI;
            }
            assert_near(at(&model, w), expected, 1e-12 * (1.0 + fabs(expected)));
        }
        free(z);
        wvgd_model_close(&model);
    }
}

/* ---- gp ---------------------------------------------------------------------------------------------------------- */
/* log N(y; 0, K) by a Cholesky factorisation of K [n][n] in place. */
static double log_normal(size_t n, double *K, const double *y)
{
    double v[TIMES], log_p = -0.5 * (double)n * LOG_2PI;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = K[i * n + j];
            for (size_t k = 0; k < j; k++)
                sum -= K[i * n + k] * K[j * n + k];
            K[i * n + j] = i == j ? sqrt(sum) : sum / K[j * n + j];
        }
        v[i] = y[i];
        for (size_t k = 0; k < i; k++)
            v[i] -= K[i * n + k] * v[k];
        v[i] /= K[i * n + i];
        log_p -= 0.5 * v[i] * v[i] + log(K[i * n + i]);
    }
    return log_p;
}

/* Away from singular K, where rounding is not amplified: B at least 0.01 A. The 1e-10 A on the diagonal changes log
 * p by up to 1e-10 / 0.01 times n and |alpha|^2, below 1e-5. */
/* Row by row, in long double. */
static long double prior_density(const wv_prior *p, long double x)
{
    long double a = p->a, b = p->b, u = (x - a) / b, v = (x - b) / p->c;
    switch (p->kind) {
    case WV_PRIOR_NORMAL: return -u * u / 2 - logl(b) - logl(2 * 3.14159265358979323846264338327950288L) / 2;
    case WV_PRIOR_STUDENT:
        return lgammal((a + 1) / 2) - lgammal(a / 2) - logl(a * 3.14159265358979323846264338327950288L) / 2 -
               logl(p->c) - (a + 1) / 2 * log1pl(v * v / a);
    case WV_PRIOR_CAUCHY: return -logl(3.14159265358979323846264338327950288L * b) - log1pl(u * u);
    case WV_PRIOR_EXPONENTIAL: return logl(a) - a * x;
    case WV_PRIOR_GAMMA: return a * logl(b) - lgammal(a) + (a - 1) * logl(x) - b * x;
    default: return prior_density(&(wv_prior){WV_PRIOR_NORMAL, p->a, p->b, 0}, logl(x)) - logl(x);
    }
}

static long double row_density(const wv_glm *g, size_t i, long double eta, const double *more)
{
    long double y = g->y[i], n = g->trials ? g->trials[i] : 1, m = expl(eta), q = expl(more[0]), nu = expl(more[1]),
                u = (y - eta) / q, p = 1 / (1 + expl(-eta));
    switch (g->likelihood) {
    case WV_GAUSSIAN: return -u * u / 2 - logl(q) - logl(2 * 3.14159265358979323846264338327950288L) / 2;
    case WV_STUDENT:
        return lgammal((nu + 1) / 2) - lgammal(nu / 2) - logl(nu * 3.14159265358979323846264338327950288L) / 2 -
               logl(q) - (nu + 1) / 2 * log1pl(u * u / nu);
    case WV_BERNOULLI:
    case WV_BINOMIAL: return lgammal(n + 1) - lgammal(y + 1) - lgammal(n - y + 1) + y * logl(p) + (n - y) * log1pl(-p);
    case WV_POISSON: return y * eta - m - lgammal(y + 1);
    default: return lgammal(y + q) - lgammal(q) - lgammal(y + 1) + q * logl(q / (q + m)) + y * logl(m / (q + m));
    }
}

static long double glm_density(const wv_glm *g, size_t D, const double *z)
{
    const double *more = z + COLUMNS + 1, none[2] = {0, 0};
    long double sum = 0, intercept = z[COLUMNS];
    for (size_t c = 0; g->centre && c < COLUMNS; c++)
        intercept += (long double)g->centre[c] * z[c];
    for (size_t d = 0; d <= COLUMNS; d++)
        sum += prior_density(&g->prior[d], d < COLUMNS ? (long double)z[d] : intercept);
    for (size_t d = COLUMNS + 1; d < D; d++)
        sum += prior_density(&g->prior[d], expl(z[d])) + z[d];
    double both[2] = {D > COLUMNS + 1 ? more[0] : none[0], D > COLUMNS + 2 ? more[1] : none[1]};
    for (size_t i = 0; i < ROWS; i++) {
        long double eta = z[COLUMNS] + (g->offset ? (long double)g->offset[i] : 0);
        for (size_t c = 0; c < COLUMNS; c++)
            eta += (long double)z[c] * g->X[i * COLUMNS + c];
        sum += (g->weight ? (long double)g->weight[i] : 1) * row_density(g, i, eta, both);
    }
    return sum;
}

/* All six, with and without weights, offsets and a centre, as sums over their rows. One point and a batch; a shape of
 * e^26, where the logarithms of 1 + t must be exact relative to themselves; and a large nu. */
static void glm_agrees_with_rows(void **state)
{
    (void)state;
    enum { N = 20 };
    for (size_t k = 0; k < 12; k++) {
        wv_glm g = glm_of((wv_likelihood)(k % 6), k >= 6);
        wvgd_model model;
        double log_p[N], one;
        assert_int_equal(wv_model_glm(&model, &g), 0);
        double *z = random_points(k, N, model.dim, 0.3);
        bool counts = g.likelihood == WV_NEGBINOMIAL;
        if (model.dim > COLUMNS + 1)
            z[model.dim - 1] = counts ? 26.0 : 14.0;
        assert_int_equal(model.log_density(model.self, N, z, log_p, NULL), 0);
        for (size_t i = 0; i < N; i++) {
            double truth = (double)glm_density(&g, model.dim, z + i * model.dim);
            assert_near(log_p[i], truth, 2e-13 * fabs(truth) + (i ? 0 : counts ? 3e-5 : 1e-8));
            assert_int_equal(model.log_density(model.self, 1, z + i * model.dim, &one, NULL), 0);
            assert_near(one, log_p[i], 1e-12 * fabs(truth) + (i ? 0 : counts ? 3e-5 : 1e-8));
        }
        free(z);
        wvgd_model_close(&model);
    }
}

static bool location_is_zero(const wv_prior *p)
{
    return (p->kind == WV_PRIOR_STUDENT ? p->b : p->a) == 0;
}

/* The priors of positive parameters integrate to 1, cut off at 0 where they have to be, and starts are draws from them:
 * the mean of the log, from 4000 starts, is that of the density, within five standard errors and 0.05 for approximate
 * quantiles. */
static void priors_are_normalised(void **state)
{
    (void)state;
    static const wv_prior priors[] = {{WV_PRIOR_NORMAL, 0, 2, 0},      {WV_PRIOR_NORMAL, 1, 2, 0},
                                      {WV_PRIOR_STUDENT, 3, 0, 2},     {WV_PRIOR_STUDENT, 4, -1, 2},
                                      {WV_PRIOR_CAUCHY, 0, 2, 0},      {WV_PRIOR_CAUCHY, -1, 2, 0},
                                      {WV_PRIOR_EXPONENTIAL, 3, 0, 0}, {WV_PRIOR_GAMMA, 2, 0.1, 0},
                                      {WV_PRIOR_GAMMA, 0.7, 2, 0},     {WV_PRIOR_LOGNORMAL, 1, 0.5, 0}};
    for (size_t k = 0; k < sizeof priors / sizeof *priors; k++) {
        wv_prior both[2] = {{WV_PRIOR_NORMAL, 0, 1, 0}, priors[k]};
        wv_glm g = {
            .likelihood = WV_NEGBINOMIAL, .rows = 0, .columns = 0, .names = NAMES, .intercept = true, .prior = both};
        wvgd_model model;
        assert_int_equal(wv_model_glm(&model, &g), 0);
        double sum = 0, mean = 0, square = 0, found = 0, h = 0.01, normal[2] = {0, 0}, z[2];
        for (double t = -60; t < 60; t += h) {
            double p = exp(at(&model, (double[]){0, t}) + 0.5 * LOG_2PI) * h;
            sum += p;
            mean += p * t;
            square += p * t * t;
        }
        assert_near(sum, 1.0, 1e-6);
        test_random r = test_random_seed(k);
        for (size_t i = 0; i < 4000; i++) {
            normal[1] = test_random_normal(&r);
            model.start(model.start_self, normal, z);
            found += z[1] / 4000;
        }
        if (priors[k].kind >= WV_PRIOR_EXPONENTIAL || location_is_zero(&priors[k]))
            assert_near(found, mean, 5 * sqrt((square - mean * mean) / 4000) + 0.05);
        wvgd_model_close(&model);
    }
}

static void gp_agrees_with_dense_normal(void **state)
{
    (void)state;
    wvgd_model model;
    double K[TIMES * TIMES];
    fill_series();
    assert_int_equal(wv_model_gp(&model, TIMES, TIME, VALUE, &GP_PRIOR), 0);
    double *points = random_points(5, 30, 4, 1.0);
    for (size_t i = 0; i < 30; i++) {
        double *z = points + 4 * i, expected = 0.0;
        z[3] = z[0] + log(0.01) + fabs(z[3]);
        double A = exp(z[0]), f = exp(z[1]), s = exp(z[2]), B = exp(z[3]);
        for (size_t j = 0; j < TIMES * TIMES; j++) {
            double dt = TIME[j / TIMES] - TIME[j % TIMES], jitter = j / TIMES == j % TIMES ? 1e-10 * A + B : 0.0;
            K[j] = A * exp(-0.5 * dt * dt / (s * s)) * cos(2.0 * PI * f * dt) + jitter;
        }
        for (size_t d = 0; d < 4; d++) {
            double u = (z[d] - GP_PRIOR.mean[d]) / GP_PRIOR.sd[d];
            expected -= 0.5 * u * u + log(GP_PRIOR.sd[d]) + 0.5 * LOG_2PI;
        }
        expected += log_normal(TIMES, K, VALUE);
        assert_near(at(&model, z), expected, 1e-10 * (1.0 + fabs(expected)));
    }
    free(points);
    wvgd_model_close(&model);
}

/* Pairs of equal times with next to no noise: all but singular. */
static void gp_survives_duplicate_times(void **state)
{
    (void)state;
    double t[TIMES], grad[4], log_p;
    wvgd_model model;
    fill_series();
    for (size_t i = 0; i < TIMES; i++)
        t[i] = TIME[i / 2];
    assert_int_equal(wv_model_gp(&model, TIMES, t, VALUE, &GP_PRIOR), 0);
    for (double log_s = -5.0; log_s < 20.0; log_s += 1.0)
        for (double log_B = -700.0; log_B < 0.0; log_B += 69.0) {
            double z[4] = {0.0, -3.0, log_s, log_B};
            assert_int_equal(model.log_density(model.self, 1, z, &log_p, grad), 0);
            assert_true(isfinite(log_p) || log_p == -INFINITY);
            for (size_t d = 0; d < 4; d++)
                assert_true(isfinite(grad[d]));
        }
    double overflow[4] = {800.0, 0.0, 0.0, 0.0}, underflow[4] = {-800.0, 0.0, 0.0, -800.0};
    assert_near(at(&model, overflow), -INFINITY, 0.0);
    assert_near(at(&model, underflow), -INFINITY, 0.0); /* K = 0 */
    wvgd_model_close(&model);
}

/* ---- bnn --------------------------------------------------------------------------------------------------------- */
static void bnn_agrees_with_rows(void **state)
{
    (void)state;
    enum { H = 3 };
    const rows_of_data *rows = data_rows();
    for (int binary = 0; binary < 2; binary++) {
        wv_regression data = regression(binary, ROWS, false, false, 2.0);
        wvgd_model model;
        assert_int_equal(wv_model_bnn(&model, &data, H, binary), 0);
        size_t D = model.dim, weights = H * (COLUMNS + 2) + 1;
        double *z = random_points(7, 20, D, 1.0);
        for (size_t i = 0; i < 20; i++) {
            const double *w1 = z + i * D, *b1 = w1 + H * COLUMNS, *w2 = b1 + H, *b2 = w2 + H, log_sigma = w1[D - 1];
            double expected = binary ? 0.0 : log_noise_prior(log_sigma, 2.0);
            for (size_t d = 0; d < weights; d++)
                expected -= 0.125 * w1[d] * w1[d] + log(2.0) + 0.5 * LOG_2PI;
            for (size_t n = 0; n < ROWS; n++) {
                double f = *b2;
                for (size_t h = 0; h < H; h++) {
                    double sum = b1[h];
                    for (size_t d = 0; d < COLUMNS; d++)
                        sum += w1[h * COLUMNS + d] * rows->X[n * COLUMNS + d];
                    f += w2[h] * tanh(sum);
                }
                double e = (rows->real[n] - f) * exp(-log_sigma);
                expected -= binary ? log1p(exp(data.y[n] > 0.0 ? -f : f)) : 0.5 * e * e + log_sigma + 0.5 * LOG_2PI;
            }
            assert_near(at(&model, w1), expected, 1e-12 * (1.0 + fabs(expected)));
        }
        free(z);
        wvgd_model_close(&model);
    }
}

/* ---- the cost between predictions of a bnn ----------------------------------------------------------------------- */
/* f by its formula, row by row. */
static void predict(size_t rows, size_t H, const double *z, double *f)
{
    const double *b1 = z + H * COLUMNS, *w2 = b1 + H, *X = data_rows()->X;
    for (size_t i = 0; i < rows; i++) {
        f[i] = w2[H];
        for (size_t h = 0; h < H; h++) {
            double sum = b1[h];
            for (size_t d = 0; d < COLUMNS; d++)
                sum += z[h * COLUMNS + d] * X[i * COLUMNS + d];
            f[i] += w2[h] * tanh(sum);
        }
    }
}

/* Of one pair. */
static double angle_cost(wv_bnn_angle *angle, size_t dim, const double *a, const double *b, double *grad_a)
{
    double cost, one = 1.0;
    wv_bnn_angle_costs(angle, dim, a, 1, b, &cost, &one, grad_a);
    return cost;
}

/* Values against arccos, whose rounding near 1 is about sqrt(2e-16); gradients against central differences of
 * fourth order, error h^4 times a fifth derivative of some hundreds and rounding 1e-15 / h. The cost is asked in an
 * order that repeats points, as a fit does. */
static void angles_are_those_of_predictions(void **state)
{
    (void)state;
    enum { H = 3, N = 6, STEPS = 4 };
    static double f[2][ROWS];
    static const double STEP[STEPS] = {1.0, -1.0, 2.0, -2.0}, WEIGHT[STEPS] = {8.0, -8.0, -1.0, 1.0};
    for (int binary = 0; binary < 2; binary++) {
        wv_regression data = regression(binary, ROWS, false, true, 1.0);
        wvgd_model model;
        assert_int_equal(wv_model_bnn(&model, &data, H, binary), 0);
        wv_bnn_angle *angle = wv_bnn_angle_new(&model);
        assert_non_null(angle);
        size_t D = model.dim;
        double *z = random_points(7, N, D, 1.0), grad[MAX_D], moved[MAX_D], h = 1e-3;
        for (size_t pair = 0; pair < N * N; pair++) {
            const double *a = z + pair / N * D, *b = z + pair % N * D;
            double dot = 0.0, square[2] = {0.0, 0.0};
            predict(ROWS, H, a, f[0]);
            predict(ROWS, H, b, f[1]);
            for (size_t i = 0; i < ROWS; i++) {
                dot += f[0][i] * f[1][i];
                for (int k = 0; k < 2; k++)
                    square[k] += f[k][i] * f[k][i];
            }
            double cost = angle_cost(angle, D, a, b, grad);
            assert_near(cost, acos(fmin(1.0, dot / sqrt(square[0] * square[1]))), 1e-7);
            assert_near(angle_cost(angle, D, b, a, NULL), cost, 1e-12);
            if (a == b) {
                assert_near(cost, 0.0, 0.0);
                for (size_t d = 0; d < D; d++)
                    assert_near(grad[d], 0.0, 0.0);
                continue;
            }
            for (size_t d = 0; d < D; d++) {
                double difference = 0.0;
                memcpy(moved, a, D * sizeof *moved);
                for (size_t k = 0; k < STEPS; k++) {
                    moved[d] = a[d] + STEP[k] * h;
                    difference += WEIGHT[k] * angle_cost(angle, D, moved, b, NULL) / (12.0 * h);
                }
                assert_near(grad[d], difference, 1e-8);
            }
        }
        free(z);
        wv_bnn_angle_free(angle);
        wvgd_model_close(&model);
    }
}

/* Hidden units in another order, and with the signs of all their weights turned: tanh is odd. Up to rounding the
 * outputs are the same, and all H! 2^H images at cost 0. */
static void mirror_images_predict_the_same(void **state)
{
    (void)state;
    enum { H = 3, IMAGES = 6 * 8 };
    static const size_t ORDER[6][H] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    wv_regression data = regression(true, ROWS, true, true, 1.0);
    wvgd_model model;
    assert_int_equal(wv_model_bnn(&model, &data, H, true), 0);
    wv_bnn_angle *angle = wv_bnn_angle_new(&model);
    assert_non_null(angle);
    double *z = random_points(8, 2, model.dim, 1.0), image[MAX_D], grad[MAX_D];
    /* two points are not mirror images */
    assert_true(angle_cost(angle, model.dim, z, z + model.dim, NULL) > 0.1);
    for (size_t k = 0; k < IMAGES; k++) {
        memcpy(image, z, model.dim * sizeof *image);
        for (size_t h = 0; h < H; h++) {
            size_t from = ORDER[k / 8][h];
            double sign = k >> h & 1 ? -1.0 : 1.0;
            for (size_t d = 0; d < COLUMNS; d++)
                image[h * COLUMNS + d] = sign * z[from * COLUMNS + d];
            image[H * COLUMNS + h] = sign * z[H * COLUMNS + from];
            image[H * COLUMNS + H + h] = sign * z[H * COLUMNS + H + from];
        }
        assert_near(angle_cost(angle, model.dim, image, z, grad), 0.0, 1e-13);
        for (size_t d = 0; d < model.dim; d++)
            assert_near(grad[d], 0.0, 0.0);
        assert_near(at(&model, image), at(&model, z), 1e-9);
    }
    free(z);
    wv_bnn_angle_free(angle);
    wvgd_model_close(&model);
}

/* Many points at once, more than are kept apart (some of them ask for the place of another, or come twice): the
 * costs of pairs, to rounding, and gradients that sum theirs. */
static void angles_of_many_points(void **state)
{
    (void)state;
    enum { H = 1, N = 40000, SOME = 50 };
    wv_regression data = regression(false, 7, false, true, 1.0);
    wvgd_model model;
    assert_int_equal(wv_model_bnn(&model, &data, H, false), 0);
    wv_bnn_angle *angle = wv_bnn_angle_new(&model), *other = wv_bnn_angle_new(&model);
    assert_non_null(angle);
    assert_non_null(other);
    size_t D = model.dim;
    double *z = random_points(9, N, D, 1.0), *cost = calloc(2 * N, sizeof *cost), *weight = cost + N, sum[MAX_D],
           one[MAX_D], grad[MAX_D];
    for (size_t i = 0; i < N; i++) {
        weight[i] = i % 5 ? 0.0 : cos((double)i);
        if (i % 97 == 1)
            memcpy(z + i * D, z + (i - 1) * D, D * sizeof *z);
    }
    for (int round = 0; round < 2; round++) { /* new, and kept in part */
        for (size_t d = 0; d < D; d++)
            sum[d] = 0.0;
        wv_bnn_angle_costs(angle, D, z, N, z, cost, weight, grad);
        for (size_t i = 0; i < N; i++) {
            assert_near(cost[i], angle_cost(other, D, z, z + i * D, one), 1e-14);
            for (size_t d = 0; d < D; d++)
                sum[d] += weight[i] * one[d];
        }
        for (size_t d = 0; d < D; d++)
            assert_near(grad[d], sum[d], 1e-9);
    }
    wv_bnn_angle_costs(angle, D, z, SOME, z, NULL, weight, sum); /* costs that nobody asks for */
    wv_bnn_angle_costs(angle, D, z, SOME, z, cost, weight, grad);
    for (size_t d = 0; d < D; d++)
        assert_near(sum[d], grad[d], 0.0);
    free(z);
    free(cost);
    wv_bnn_angle_free(angle);
    wv_bnn_angle_free(other);
    wvgd_model_close(&model);
}

/* A number between 0 and pi whatever the weights. */
static void angles_of_hostile_points(void **state)
{
    (void)state;
    static const double SIZE[] = {0.0, 1e-320, 1e-300, 1e-160, 1e3, 1e100, 1e200, 1e308, INFINITY, NAN};
    enum { SIZES = sizeof SIZE / sizeof *SIZE };
    wv_regression data = regression(false, 300, true, true, 1.0);
    wvgd_model model;
    assert_int_equal(wv_model_bnn(&model, &data, 2, false), 0);
    wv_bnn_angle *angle = wv_bnn_angle_new(&model);
    assert_non_null(angle);
    double a[MAX_D], b[MAX_D], grad[MAX_D];
    for (size_t k = 0; k < SIZES * SIZES; k++) {
        for (size_t d = 0; d < model.dim; d++) {
            a[d] = SIZE[k / SIZES] * (double)(d + 1);
            b[d] = -SIZE[k % SIZES] * (double)(model.dim - d);
        }
        double cost = angle_cost(angle, model.dim, a, b, grad);
        assert_true(cost >= 0.0 && cost <= 3.1415926535897936);
        for (size_t d = 0; d < model.dim; d++)
            assert_true(isfinite(grad[d]));
    }
    wv_bnn_angle_free(angle);
    wvgd_model_close(&model);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    wv_regression data = regression(true, ROWS, true, false, 1.0), empty = {.rows = ROWS, .y = data.y, .prior_sd = 1.0};
    wvgd_model model = {.name = "untouched"};
    assert_int_equal(wv_model_bnn(&model, &data, SIZE_MAX, true), -1);
    assert_int_equal(wv_model_bnn(&model, &data, SIZE_MAX / 6, true), -1);
    assert_int_equal(wv_model_bnn(&model, &data, 0, true), -1);
    assert_int_equal(wv_model_logistic(&model, &empty), -1);
    assert_int_equal(wv_model_linear(&model, &empty), -1);
    assert_int_equal(wv_model_gp(&model, 0, data.X, data.y, &GP_PRIOR), -1);
    assert_string_equal(model.name, "untouched");
}

#if defined __SANITIZE_ADDRESS__
#define LIMITABLE 0
#elif defined __has_feature
#define LIMITABLE !__has_feature(address_sanitizer)
#else
#define LIMITABLE 1
#endif

/* With 1 GB of addresses: a network of 1e7 units (names alone take 1 GB), and a covariance matrix of 20000 times. */
static void lack_of_memory_is_reported(void **state)
{
    (void)state;
    if (!LIMITABLE)
        skip(); /* the sanitizer needs addresses of its own */
    enum { N = 20000 };
    struct rlimit before, limit;
    wv_regression data = regression(true, ROWS, true, false, 1.0);
    double *t = calloc(N, sizeof *t), z[4] = {0.0}, log_p;
    wvgd_model model = {.name = "untouched"}, process;
    assert_non_null(t);
    assert_int_equal(wv_model_gp(&process, N, t, t, &GP_PRIOR), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 30;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    int network = wv_model_bnn(&model, &data, 10000000, true);
    int matrix = process.log_density(process.self, 1, z, &log_p, NULL);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(network, -1);
    assert_string_equal(model.name, "untouched");
    assert_int_equal(matrix, -1);
    wvgd_model_close(&process);
    free(t);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */
static void check_passes_what_is_right(void **state)
{
    (void)state;
    enum { N = 70 };
    wvgd_model model, checked;
    double spread, log_p[2][N], *grad[2] = {malloc(N * MAX_D * sizeof(double)), malloc(N * MAX_D * sizeof(double))};
    assert_true(grad[0] && grad[1]);
    for (size_t which = 0; open_model(which, &model, &spread); which++) {
        double *z = random_points(which, N, model.dim, spread);
        z[0] = NAN; /* the first point has no density: the next ones are compared */
        assert_int_equal(wv_model_check(&checked, &model, 3), 0);
        assert_int_equal(checked.log_density(checked.self, N, z, log_p[0], NULL), 0);
        assert_int_equal(wv_model_checked(&checked).compared, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(checked.log_density(checked.self, N, z, log_p[0], grad[0]), 0);
        assert_int_equal(model.log_density(model.self, N, z, log_p[1], grad[1]), 0);
        assert_memory_equal(log_p[0], log_p[1], sizeof log_p[0]);
        assert_memory_equal(grad[0], grad[1], N * model.dim * sizeof(double));
        wv_check result = wv_model_checked(&checked);
        assert_int_equal(result.batches, 3);
        assert_int_equal(result.evaluations, 3 * N);
        assert_int_equal(result.compared, 3 * model.dim);
        assert_true(result.seconds >= 0.0);
        assert_near(result.error, 0.0, 1e-4);
        free(z);
        wvgd_model_close(&checked);
        wvgd_model_close(&model);
    }
    free(grad[0]);
    free(grad[1]);
}

/* -sum_d (z_d - d)^2 / 2 / scale^2 in 40 dimensions, with the derivative by coordinate 17 off by a factor. */
typedef struct {
    double scale, factor;
} faulty;

static double faulty_density(void *self, const double *z, double *grad)
{
    const faulty *f = self;
    double log_p = 0.0;
    for (size_t d = 0; d < 40; d++) {
        double u = (z[d] - (double)d) / f->scale;
        log_p -= 0.5 * u * u;
        if (grad)
            grad[d] = -u / f->scale * (d == 17 ? f->factor : 1.0);
    }
    return log_p;
}

static void check_finds_what_is_wrong(void **state)
{
    (void)state;
    const double SCALE[] = {1e-3, 1.0, 1e4}, FACTOR[] = {1.01, -1.0, 0.0, 2.0, NAN, INFINITY},
                 ERROR[] = {0.01 / 1.01, 2.0, 1.0, 0.5, INFINITY, INFINITY};
    for (size_t k = 0; k < 18; k++) {
        faulty f = {SCALE[k / 6], FACTOR[k % 6]};
        double z[80], log_p[2], grad[80];
        wvgd_model model, checked;
        test_random r = test_random_seed(k);
        for (size_t d = 0; d < 80; d++)
            z[d] = (double)(d % 40) + f.scale * (0.5 + test_random_uniform(&r));
        assert_int_equal(wvgd_model_pointwise(&model, 40, faulty_density, &f, true), 0);
        assert_int_equal(wv_model_check(&checked, &model, 2), 0);
        assert_int_equal(checked.log_density(checked.self, 2, z, log_p, grad), 0);
        wv_check result = wv_model_checked(&checked);
        assert_int_equal(result.compared, 80);
        assert_int_equal(result.coordinate, 17);
        assert_near(result.error, ERROR[k % 6], 2e-3);
        assert_false(fabs(result.gradient - f.factor * result.difference) > 1e-3 * fabs(result.difference));
        wvgd_model_close(&checked);
        wvgd_model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_exact),
        cmocka_unit_test(batches_are_points),
        cmocka_unit_test(hostile_points_are_answered),
        cmocka_unit_test(coordinates_have_names),
        cmocka_unit_test(mixture_integrates_to_its_weights),
        cmocka_unit_test(mixture_agrees_with_target),
        cmocka_unit_test(mixture_rejects_what_is_none),
        cmocka_unit_test(logistic_agrees_with_target),
        cmocka_unit_test(constant_columns_become_zero),
        cmocka_unit_test(logistic_is_stable_in_the_tails),
        cmocka_unit_test(linear_integrates_to_its_evidence),
        cmocka_unit_test(linear_agrees_with_rows),
        cmocka_unit_test(glm_agrees_with_rows),
        cmocka_unit_test(priors_are_normalised),
        cmocka_unit_test(gp_agrees_with_dense_normal),
        cmocka_unit_test(gp_survives_duplicate_times),
        cmocka_unit_test(starts_are_draws_from_the_prior),
        cmocka_unit_test(bnn_agrees_with_rows),
        cmocka_unit_test(angles_are_those_of_predictions),
        cmocka_unit_test(mirror_images_predict_the_same),
        cmocka_unit_test(angles_of_many_points),
        cmocka_unit_test(angles_of_hostile_points),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(lack_of_memory_is_reported),
        cmocka_unit_test(check_passes_what_is_right),
        cmocka_unit_test(check_finds_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
