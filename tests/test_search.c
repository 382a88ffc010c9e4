/* test_search.c - posteriors whose modes are easily missed, or mistaken: starts of astronomically low density, spectra
 * with narrow peaks among many others, labels that may be exchanged, slabs around spikes, heavy tails, walls. Each is
 * small, and its evidence is known, or the same for every seed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/fitted.h"
#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

static const double log_2pi = 1.83787706640934548356;

/* ---- ARMA(1, 1) -------------------------------------------------------------------------------------------------- */
enum { TIMES = 200 };

/* y_t = mu + phi y_(t-1) + theta e_(t-1) + e_t, e_t of N(0, sigma^2), e_0 = y_0 - mu (1 + phi); z = (mu, phi, theta,
 * log sigma) with priors N(0, 10^2), N(0, 2^2), N(0, 2^2) and a half-Cauchy of scale 2.5. Where |theta| > 1 errors grow
 * like theta^200. */
static double arma(void *self, const double *z, double *grad)
{
    const double *y = self, mu = z[0], phi = z[1], theta = z[2], s = exp(z[3]), q = s / 2.5;
    double e = y[0] - mu * (1 + phi), d[] = {-1 - phi, -mu, 0}; /* the error, and its derivatives */
    double log_p = log(2 / (M_PI * 2.5)) - log1p(q * q) + z[3] - mu * mu / 200 - (phi * phi + theta * theta) / 8 -
                   log(10 * 2 * 2) - 1.5 * log_2pi,
           g[] = {-mu / 100, -phi / 4, -theta / 4, 1 - 2 * q * q / (1 + q * q)};
    for (size_t t = 0; t < TIMES; t++) {
        if (t) {
            double before = e;
            e = y[t] - mu - phi * y[t - 1] - theta * before;
            d[0] = -1 - theta * d[0];
            d[1] = -y[t - 1] - theta * d[1];
            d[2] = -before - theta * d[2];
        }
        log_p -= e * e / (2 * s * s) + z[3] + log_2pi / 2;
        for (size_t i = 0; i < 3; i++)
            g[i] -= e * d[i] / (s * s);
        g[3] += e * e / (s * s) - 1;
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

/* Starts where the density is exp(-1e80) once made ascents freeze there. */
static void starts_without_hope(void **state)
{
    (void)state;
    double y[TIMES], last = 0, first = 0, first_se = 0;
    test_random random = test_random_seed(11);
    wvgd_model model;
    for (size_t t = 0; t < TIMES; t++) {
        double now = 0.15 * test_random_normal(&random);
        y[t] = (t ? 0.9 * y[t - 1] : 0) - 0.4 * last + now;
        last = now;
    }
    assert_int_equal(wvgd_model_pointwise(&model, 4, arma, y, true), 0);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        first = seed == 1 ? r.evidence.value : first;
        first_se = seed == 1 ? r.evidence.se : first_se;
        assert_near(r.evidence.value, first, 5 * hypot(first_se, r.evidence.se));
        assert_true(r.stop == WVGD_CONVERGED && r.evidence.se < 0.05);
        assert_true(r.pelbo.value < r.evidence.value + 4 * hypot(r.evidence.se, r.pelbo.se));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* ---- a regression in raw units ----------------------------------------------------------------------------------- */
enum { ROWS = 40, COLUMNS = 5 };

typedef struct {
    double x[ROWS][COLUMNS], y[ROWS];
} rows;

/* y of N(x beta, sigma^2); z = (beta, log sigma), beta of N(0, 100^2 sigma^2), log sigma of N(0, 2^2). */
static double raw_regression(void *self, const double *z, double *grad)
{
    const rows *of = self;
    double v = exp(2 * z[COLUMNS]), by = 0, g[COLUMNS] = {0};
    for (size_t i = 0; i < ROWS; i++) {
        double res = of->y[i];
        for (size_t k = 0; k < COLUMNS; k++)
            res -= of->x[i][k] * z[k];
        for (size_t k = 0; k < COLUMNS; k++)
            g[k] += res * of->x[i][k];
        by += res * res;
    }
    for (size_t k = 0; k < COLUMNS; k++) {
        by += z[k] * z[k] * 1e-4;
        g[k] -= z[k] * 1e-4;
    }
    for (size_t k = 0; grad && k < COLUMNS; k++)
        grad[k] = g[k] / v;
    if (grad)
        grad[COLUMNS] = by / v - (ROWS + COLUMNS) - z[COLUMNS] / 4;
    return -by / (2 * v) - (ROWS + COLUMNS) * z[COLUMNS] - z[COLUMNS] * z[COLUMNS] / 8;
}

/* From coefficients that are far off ascents first find the large sigma that goes with them: on that ridge the density
 * hardly rises for thousands of sds. It is no top, so there are no others to be afraid of. */
static void a_ridge_is_no_top(void **state)
{
    (void)state;
    static const double unit[COLUMNS] = {1, 300, 0.01, 1000, 0.1};
    test_random random = test_random_seed(5);
    rows of;
    wvgd_model model;
    for (size_t i = 0; i < ROWS; i++) {
        of.y[i] = test_random_normal(&random);
        for (size_t k = 0; k < COLUMNS; k++) {
            double x = k ? 2 + test_random_normal(&random) : 1;
            of.x[i][k] = x * unit[k];
            of.y[i] += x * (double)(k + 1);
        }
    }
    assert_int_equal(wvgd_model_pointwise(&model, COLUMNS + 1, raw_regression, &of, true), 0);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_true(r.reliable && r.modes == 1);
        print_message("%zu starts, %zu evaluations\n", r.starts, r.evaluations);
        assert_true(r.starts < 100);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Two Rosenbrock pairs: along each valley the density hardly rises, and Gaussians fitted to where ascents stopped short
 * were taken for 40 modes. */
static void a_valley_is_one_mode(void **state)
{
    (void)state;
    enum { EACH = 3 };
    size_t evaluations[2] = {0, 0}, reliable = 0;
    for (uint64_t seed = 1; seed <= 2 * EACH; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        assert_int_equal(target_rosenbrock(&model, 4), 0);
        model.has_gradient = seed % 2;
        o.bend = WVGD_BEND_AUTO;
        wvgd_fit *fit = fitted(&model, &o, &r);
        print_message("%zu modes, %zu evaluations, error %.3f +- %.3f: %s\n", r.modes, r.evaluations,
                      r.evidence.value - target_truth_of(&model).log_evidence, r.evidence.se, r.reason[0]);
        assert_true(r.modes < 10);
        reliable += r.reliable;
        evaluations[seed % 2] += r.evaluations;
        assert_near(r.evidence.value, target_truth_of(&model).log_evidence, fmax(0.01, 4 * r.evidence.se));
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    assert_true(reliable >= 2 * EACH - 1);
    assert_true(evaluations[1] < (size_t)EACH * 18000 && evaluations[0] < (size_t)EACH * 70000);
}

/* A top that is narrower than the doubles around it is refused, and said. */
static double needle(void *self, const double *z, double *grad)
{
    (void)self;
    const double u = (z[0] - 1e6) / 1e-11;
    if (grad)
        grad[0] = -u / 1e-11;
    return -u * u / 2;
}

static void needles_are_refused(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_options o = staged_options(1, 1);
    assert_int_equal(wvgd_model_pointwise(&model, 1, needle, NULL, true), 0);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_E_NO_DRAWS);
    assert_non_null(strstr(error.text, "double resolves"));
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* ---- spectra ----------------------------------------------------------------------------------------------------- */
enum { DATES = 40, LINES = 2, WAVES = 2 * LINES + 1, GRID = 700 };

/* y_t = c + sum_l a_l cos(2 pi f_l t) + b_l sin(2 pi f_l t) + noise of N(0, 1); c, a_l, b_l of N(0, 2^2), f_l uniform
 * in (0.01, 0.5); z = (c, a_1, b_1, a_2, b_2, logits of the f). */
static double frequency(double logit)
{
    return 0.01 + 0.49 / (1 + exp(-logit));
}

static double spectrum(void *self, const double *z, double *grad)
{
    const double *y = self;
    double log_p = 0, g[WAVES + LINES] = {0}, f[LINES], rate[LINES];
    for (size_t i = 0; i < WAVES; i++) {
        log_p -= z[i] * z[i] / 8 + log(2) + log_2pi / 2;
        g[i] = -z[i] / 4;
    }
    for (size_t l = 0; l < LINES; l++) {
        double u = z[WAVES + l], p = 1 / (1 + exp(-u));
        f[l] = frequency(u);
        rate[l] = 0.49 * p * (1 - p);
        log_p -= fabs(u) + 2 * log1p(exp(-fabs(u)));
        g[WAVES + l] = 1 - 2 * p;
    }
    for (size_t t = 0; t < DATES; t++) {
        double c[LINES], s[LINES], e = y[t] - z[0];
        for (size_t l = 0; l < LINES; l++) {
            c[l] = cos(2 * M_PI * f[l] * (double)t);
            s[l] = sin(2 * M_PI * f[l] * (double)t);
            e -= z[1 + 2 * l] * c[l] + z[2 + 2 * l] * s[l];
        }
        log_p -= e * e / 2 + log_2pi / 2;
        g[0] += e;
        for (size_t l = 0; l < LINES; l++) {
            g[1 + 2 * l] += e * c[l];
            g[2 + 2 * l] += e * s[l];
            g[WAVES + l] += e * 2 * M_PI * (double)t * rate[l] * (z[2 + 2 * l] * c[l] - z[1 + 2 * l] * s[l]);
        }
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

/* Row k of the design at frequencies f: 1, cosines and sines. */
static void design(const double *f, double t, double *row)
{
    row[0] = 1;
    for (size_t l = 0; l < LINES; l++) {
        row[1 + 2 * l] = cos(2 * M_PI * f[l] * t);
        row[2 + 2 * l] = sin(2 * M_PI * f[l] * t);
    }
}

/* log p(y | f): amplitudes integrated out, with A = X'X + I/4 = L L' and b = L^-1 X'y. */
static double given_frequencies(const double *y, const double *f)
{
    double A[WAVES][WAVES] = {{0}}, b[WAVES] = {0}, row[WAVES], log_p = -WAVES * log(2);
    for (size_t t = 0; t < DATES; t++) {
        design(f, (double)t, row);
        log_p -= y[t] * y[t] / 2 + log_2pi / 2;
        for (size_t i = 0; i < WAVES; i++) {
            b[i] += row[i] * y[t];
            for (size_t k = 0; k <= i; k++)
                A[i][k] += row[i] * row[k];
        }
    }
    for (size_t i = 0; i < WAVES; i++) {
        A[i][i] += 0.25;
        for (size_t k = 0; k <= i; k++) {
            for (size_t r = 0; r < k; r++)
                A[i][k] -= A[i][r] * A[k][r];
            A[i][k] = k < i ? A[i][k] / A[k][k] : sqrt(A[i][i]);
        }
        for (size_t r = 0; r < i; r++)
            b[i] -= A[i][r] * b[r];
        b[i] /= A[i][i];
        log_p += b[i] * b[i] / 2 - log(A[i][i]);
    }
    return log_p;
}

/* The log evidence, on a grid of frequencies that is fine beside the width of the peaks; nearly all of it comes from
 * where the density is high, so frequencies that explain nothing are looked at on a coarse grid only. */
static double spectrum_evidence(const double *y)
{
    double top = -INFINITY, sum = 0;
    for (size_t i = 0; i < GRID; i++)
        for (size_t k = 0; k <= i; k++) {
            const double f[] = {0.01 + 0.49 * ((double)i + 0.5) / GRID, 0.01 + 0.49 * ((double)k + 0.5) / GRID};
            double log_p = given_frequencies(y, f) + (i > k ? log(2) : 0);
            sum = log_p > top ? sum * exp(top - log_p) + 1 : sum + exp(log_p - top);
            top = fmax(top, log_p);
        }
    return top + log(sum) - 2 * log(GRID);
}

static void make_spectrum(uint64_t seed, double *y)
{
    test_random random = test_random_seed(seed);
    double f[LINES], amplitude[WAVES], row[WAVES];
    for (size_t l = 0; l < LINES; l++)
        f[l] = 0.01 + 0.49 * test_random_uniform(&random);
    test_random_normals(&random, WAVES, amplitude);
    for (size_t t = 0; t < DATES; t++) {
        design(f, (double)t, row);
        y[t] = test_random_normal(&random);
        for (size_t i = 0; i < WAVES; i++)
            y[t] += 2 * amplitude[i] * row[i];
    }
}

static bool is_right(const wvgd_results *r, double truth)
{
    return fabs(r->evidence.value - truth) < fmax(0.05, 3 * r->evidence.se);
}

/* What is called reliable is right, and with the number of starts that the verdict asks for it is right. */
static void lines_of_a_spectrum(void **state)
{
    (void)state;
    enum { SPECTRA = 4 };
    size_t right = 0;
    for (uint64_t seed = 1; seed <= SPECTRA; seed++) {
        double y[DATES];
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        make_spectrum(seed, y);
        double truth = spectrum_evidence(y);
        assert_int_equal(wvgd_model_pointwise(&model, WAVES + LINES, spectrum, y, true), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_true(is_right(&r, truth) || !r.reliable);
        for (size_t i = 0; i < r.reasons && !r.reliable; i++)
            if (strstr(r.reason[i], "set --starts to "))
                o.starts = (size_t)atol(strstr(r.reason[i], "set --starts to ") + 16);
        print_message("spectrum %d: error %.3f, %zu modes, %s, %zu evaluations", (int)seed, r.evidence.value - truth,
                      r.modes, r.reliable ? "reliable" : "unreliable", r.evaluations);
        wvgd_free(fit);
        if (o.starts) {
            fit = fitted(&model, &o, &r);
            assert_true(is_right(&r, truth) || !r.reliable);
            print_message("; %zu starts: error %.3f", o.starts, r.evidence.value - truth);
            wvgd_free(fit);
        }
        print_message("\n");
        right += is_right(&r, truth);
        wvgd_model_close(&model);
    }
    assert_true(right + 1 >= SPECTRA);
}

/* ---- many tops --------------------------------------------------------------------------------------------------- */
enum { MORE_DATES = 60, MORE_LINES = 3, MORE = 1 + 3 * MORE_LINES };

typedef struct {
    double t[MORE_DATES], y[MORE_DATES];
} series;

/* The same with three lines, noise of 0.7, and z = (c, amplitudes, u), frequencies 0.01 + 0.49 Phi(u), u of N(0, 1). */
static double three_lines(void *self, const double *z, double *grad)
{
    const series *of = self;
    double log_p = 0, g[MORE];
    for (size_t i = 0; i < MORE; i++) {
        double sd = i < 1 + 2 * MORE_LINES ? 2 : 1;
        log_p -= z[i] * z[i] / (2 * sd * sd);
        g[i] = -z[i] / (sd * sd);
    }
    for (size_t k = 0; k < MORE_DATES; k++) {
        double c[MORE_LINES], s[MORE_LINES], e = of->y[k] - z[0];
        for (size_t l = 0; l < MORE_LINES; l++) {
            double angle = 2 * M_PI * of->t[k] * (0.01 + 0.49 * erfc(-z[7 + l] / M_SQRT2) / 2);
            c[l] = cos(angle);
            s[l] = sin(angle);
            e -= z[1 + 2 * l] * c[l] + z[2 + 2 * l] * s[l];
        }
        log_p -= e * e / (2 * 0.49);
        g[0] += e / 0.49;
        for (size_t l = 0; l < MORE_LINES; l++) {
            double u = z[7 + l], rate = 2 * M_PI * of->t[k] * 0.49 * exp(-u * u / 2 - log_2pi / 2);
            g[1 + 2 * l] += e / 0.49 * c[l];
            g[2 + 2 * l] += e / 0.49 * s[l];
            g[7 + l] += e / 0.49 * rate * (z[2 + 2 * l] * c[l] - z[1 + 2 * l] * s[l]);
        }
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

static void draw_prior(void *self, const double *normal, double *z)
{
    (void)self;
    for (size_t i = 0; i < MORE; i++)
        z[i] = (i < 1 + 2 * MORE_LINES ? 2 : 1) * normal[i];
}

/* The best top is found part by part: starts of the prior that come to it are one in hundreds. It is no lower than
 * where the data were made. */
static void tops_with_parts(void **state)
{
    (void)state;
    const double truth[] = {1, 2.5, -1, -2, 1.5, 0.5, 3, -1, 0.1, 0.8};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        series of;
        test_random random = test_random_seed(seed);
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        for (size_t k = 0; k < MORE_DATES; k++) {
            of.t[k] = 60 * test_random_uniform(&random);
            of.y[k] = truth[0] + 0.7 * test_random_normal(&random);
            for (size_t l = 0; l < MORE_LINES; l++) {
                double angle = 2 * M_PI * of.t[k] * (0.01 + 0.49 * erfc(-truth[7 + l] / M_SQRT2) / 2);
                of.y[k] += truth[1 + 2 * l] * cos(angle) + truth[2 + 2 * l] * sin(angle);
            }
        }
        assert_int_equal(wvgd_model_pointwise(&model, MORE, three_lines, &of, true), 0);
        model.start = draw_prior;
        wvgd_fit *fit = fitted(&model, &o, &r);
        double above = three_lines(&of, r.mode, NULL) - three_lines(&of, truth, NULL);
        print_message("three lines %d: %.3f above, %zu modes, %s, %zu evaluations\n", (int)seed, above, r.modes,
                      r.reliable ? "reliable" : "unreliable", r.evaluations);
        assert_true(above > -1 && r.modes == 6);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */
/* Two groups: means, log sds, log odds of the first. Exchanging the groups changes the sign of the log odds. */
static double groups(void *self, const double *z, double *grad)
{
    const double *y = self;
    double p = 1 / (1 + exp(-z[4])), g[5] = {-z[0] / 25, -z[1] / 25, -z[2], -z[3], 1 - 2 * p},
           log_p = -(z[0] * z[0] + z[1] * z[1]) / 50 - (z[2] * z[2] + z[3] * z[3]) / 2 + log(p) + log1p(-p);
    for (size_t t = 0; t < DATES; t++) {
        double l[2], q[2];
        for (size_t k = 0; k < 2; k++) {
            q[k] = (y[t] - z[k]) / exp(z[2 + k]);
            l[k] = log(k ? 1 - p : p) - q[k] * q[k] / 2 - z[2 + k] - log_2pi / 2;
        }
        double top = fmax(l[0], l[1]), sum = top + log(exp(l[0] - top) + exp(l[1] - top));
        log_p += sum;
        for (size_t k = 0; k < 2; k++) {
            double r = exp(l[k] - sum);
            g[k] += r * q[k] / exp(z[2 + k]);
            g[2 + k] += r * (q[k] * q[k] - 1);
            g[4] += k ? -r * p : r * (1 - p);
        }
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

/* One ascent finds a mode; its image is known from it. */
static void labels_are_exchanged(void **state)
{
    (void)state;
    double y[DATES];
    wvgd_model model;
    test_random random = test_random_seed(5);
    for (size_t t = 0; t < DATES; t++)
        y[t] = t % 3 ? 4 + test_random_normal(&random) : -3 + 0.5 * test_random_normal(&random);
    assert_int_equal(wvgd_model_pointwise(&model, 5, groups, y, true), 0);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(2, seed);
        o.starts = 1;
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_int_equal(r.starts, 1);
        assert_int_equal(r.modes, 2);
        assert_near(r.mean[0], r.mean[1], 6 * (r.mcse[0] + r.mcse[1]));
        assert_near(r.mean[4], 0, 6 * r.mcse[4]);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* ---- slabs ------------------------------------------------------------------------------------------------------- */
enum { MANY = 20 };

/* sds of the slab, 0.7 to 1.3 */
static double slab_sd(size_t i)
{
    return 0.7 + 0.6 * (double)i / (MANY - 1);
}

/* ((1 - w) N(1, 0.1^2 C) + w N(1, C)) |C|^(1/2), C = diag(slab_sd^2); self: w. */
static double spike_in_slab(void *self, const double *z, double *grad)
{
    const double w = *(const double *)self, s = 0.1;
    double square = 0;
    for (size_t i = 0; i < MANY; i++)
        square += (z[i] - 1) * (z[i] - 1) / (slab_sd(i) * slab_sd(i));
    double spike = log1p(-w) - square / (2 * s * s) - MANY * (log(s) + log_2pi / 2),
           slab = log(w) - square / 2 - MANY * log_2pi / 2, top = fmax(spike, slab),
           log_p = top + log(exp(spike - top) + exp(slab - top)), share = exp(spike - log_p);
    for (size_t i = 0; grad && i < MANY; i++)
        grad[i] = -(z[i] - 1) / (slab_sd(i) * slab_sd(i)) * (share / (s * s) + 1 - share);
    return log_p;
}

/* The ascents that end in the spike pass through the slab; the first of them may fail to tell it. */
static void slabs_around_spikes(void **state)
{
    (void)state;
    double log_z = 0;
    for (size_t i = 0; i < MANY; i++)
        log_z += log(slab_sd(i));
    for (size_t k = 0; k < 2; k++)
        for (uint64_t seed = 1; seed <= (k ? 16 : 4); seed++) {
            double w = k ? 0.01 : 0.5;
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = staged_options(2, seed);
            assert_int_equal(wvgd_model_pointwise(&model, MANY, spike_in_slab, &w, true), 0);
            wvgd_fit *fit = fitted(&model, &o, &r);
            assert_int_equal(r.modes, 2);
            assert_near(r.evidence.value, log_z, fmax(4 * r.evidence.se, 1e-3));
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

/* ---- heavy tails ------------------------------------------------------------------------------------------------- */
enum { TAILED = 10, SIDES = 5 };

/* A mixture of round Student-t's with 2 degrees of freedom at the points of self, [TAILED][SIDES]. */
static double tailed(void *self, const double *z, double *grad)
{
    const double(*at)[SIDES] = self, nu = 2, half = (nu + SIDES) / 2;
    double part[TAILED], slope[TAILED], top = -INFINITY, sum = 0;
    for (size_t k = 0; k < TAILED; k++) {
        double square = 0;
        for (size_t i = 0; i < SIDES; i++)
            square += (z[i] - at[k][i]) * (z[i] - at[k][i]);
        part[k] = -half * log1p(square / nu);
        slope[k] = -2 * half / (nu + square);
        top = fmax(top, part[k]);
    }
    for (size_t k = 0; k < TAILED; k++)
        sum += part[k] = exp(part[k] - top);
    for (size_t i = 0; grad && i < SIDES; i++) {
        grad[i] = 0;
        for (size_t k = 0; k < TAILED; k++)
            grad[i] += part[k] / sum * slope[k] * (z[i] - at[k][i]);
    }
    return top + log(sum / TAILED) + lgamma(half) - lgamma(nu / 2) - SIDES * log(nu * M_PI) / 2;
}

/* A wide Gaussian on the way to a top, which the tails of all of them feed, hides none of the others. */
static void tops_in_heavy_tails(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        double at[TAILED][SIDES];
        test_random random = test_random_seed(seed);
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(TAILED, seed);
        for (size_t i = 0; i < TAILED * SIDES; i++)
            at[i / SIDES][i % SIDES] = 80 * test_random_uniform(&random) - 40;
        assert_int_equal(wvgd_model_pointwise(&model, SIDES, tailed, at, true), 0);
        wvgd_fit *fit = fitted(&model, &o, &r);
        print_message("heavy tails %d: error %.4f +- %.4f, %zu modes, %zu evaluations\n", (int)seed, r.evidence.value,
                      r.evidence.se, r.modes, r.evaluations);
        assert_near(r.evidence.value, 0, 4 * r.evidence.se);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* ---- walls ------------------------------------------------------------------------------------------------------- */
static const double corner[] = {3, -1, 2.5}, length[] = {0.2, 5, 1};

/* Exponentials: 0 unless z > corner. */
static double cornered(void *self, const double *z, double *grad)
{
    (void)self;
    double log_p = 0;
    for (size_t i = 0; i < 3; i++) {
        if (z[i] < corner[i])
            return -INFINITY;
        log_p -= (z[i] - corner[i]) / length[i] + log(length[i]);
        if (grad)
            grad[i] = -1 / length[i];
    }
    return log_p;
}

/* No start of the given scale has density, and the top is in the corner. */
static void corners(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, 3, cornered, NULL, true), 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_near(r.evidence.value, 0, fmax(4 * r.evidence.se, 0.05));
        assert_true(r.evidence.se < 0.05);
        for (size_t i = 0; i < 3; i++)
            assert_near(r.mean[i], corner[i] + length[i], 5 * r.mcse[i]);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* 0 in the box of self, [2], along every coordinate; its log evidence is 0. */
static double boxed(void *self, const double *z, double *grad)
{
    const double *box = self;
    for (size_t i = 0; i < 3; i++) {
        if (!(z[i] > box[0] && z[i] < box[1]))
            return -INFINITY;
        if (grad)
            grad[i] = 0;
    }
    return -3 * log(box[1] - box[0]);
}

/* Boxes much wider or narrower than the given scale are found; one far from 0 is not, and the error says what helps. */
static void boxes(void **state)
{
    (void)state;
    static double box[][2] = {{0, 1e-4}, {500, 5000}, {100, 101}};
    for (size_t k = 0; k < 3; k++) {
        wvgd_model model;
        wvgd_options o = staged_options(5, 1);
        wvgd_error error = {WVGD_OK, ""};
        assert_int_equal(wvgd_model_pointwise(&model, 3, boxed, box[k], true), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
        wvgd_status status = wvgd_run(fit, NULL, NULL, &error);
        if (k < 2) {
            wvgd_results r;
            assert_int_equal(status, WVGD_OK);
            wvgd_get_results(fit, &r);
            if (r.reliable)
                assert_near(r.evidence.value, 0, fmax(4 * r.evidence.se, 0.05));
        } else {
            assert_int_equal(status, WVGD_E_NO_DRAWS);
            assert_non_null(strstr(error.text, "starting points where it is finite"));
            assert_non_null(strstr(error.text, "wvgd_model_bounded"));
        }
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* An egg box of 13 modes, of which half are cut off by its walls. */
static const double side = 8 * M_PI;

static double egg_box(void *self, const double *z, double *grad)
{
    (void)self;
    if (z[0] < 0 || z[0] > side || z[1] < 0 || z[1] > side)
        return -INFINITY;
    double v = 2 + cos(z[0] / 2) * cos(z[1] / 2);
    if (grad) {
        grad[0] = -1.5 * v * v * sin(z[0] / 2) * cos(z[1] / 2);
        grad[1] = -1.5 * v * v * cos(z[0] / 2) * sin(z[1] / 2);
    }
    return v * v * v;
}

/* Fits of a mode in a corner shrank without end, and later starts with them: one mode was found, and called all. */
static void egg_boxes(void **state)
{
    (void)state;
    enum { STEPS = 1000 };
    double sum = 0;
    wvgd_model model;
    for (size_t i = 0; i < STEPS; i++)
        for (size_t k = 0; k < STEPS; k++) {
            double z[] = {((double)i + 0.5) * side / STEPS, ((double)k + 0.5) * side / STEPS};
            sum += exp(egg_box(NULL, z, NULL) - 27) * side * side / (STEPS * STEPS);
        }
    assert_int_equal(wvgd_model_pointwise(&model, 2, egg_box, NULL, true), 0);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_true(r.modes >= 13);
        assert_near(r.evidence.value, log(sum) + 27, fmax(4 * r.evidence.se, 0.05));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* The egg box of nested samplers through a uniform prior, without gradients: where modes are cut off by the walls of
 * the prior, z has long tails. Final draws alone may not show that they are not covered, when those that the verdict
 * looks at do; nor may they meet the largest weights, which walks meet. Ascents to such a mode may be too short to tell
 * the curvature of its top, and the few draws of a Gaussian much too wide said that it has no weight. */
static double egg_box_by_prior(void *self, const double *z, double *grad)
{
    double u = M_PI * 2.5 * erfc(-z[0] * sqrt(0.5)), v = M_PI * 2.5 * erfc(-z[1] * sqrt(0.5));
    (void)self, (void)grad;
    return pow(2 + cos(u) * cos(v), 5) - (z[0] * z[0] + z[1] * z[1]) / 2 - log_2pi;
}

static void draw_normal(void *self, const double *normal, double *z)
{
    (void)self;
    memcpy(z, normal, 2 * sizeof *z);
}

static void tails_at_the_edge_of_a_prior(void **state)
{
    (void)state;
    const double truth = 235.8556; /* a sum over 4000 x 4000 points */
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, 2, egg_box_by_prior, NULL, false), 0);
    model.start = draw_normal;
    double squares = 0, n = 0;
    for (uint64_t seed = 8201; seed <= 8216; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        o.most_particles = 80;
        wvgd_fit *fit = fitted(&model, &o, &r);
        double z = (r.evidence.value - truth) / r.evidence.se;
        assert_int_equal(r.modes, 18);
        assert_near(r.evidence.value, truth, fmax(4 * r.evidence.se, 0.05));
        squares += z * z;
        n++;
        wvgd_free(fit);
    }
    print_message("errors of the log evidence: %.2f standard errors (rms)\n", sqrt(squares / n));
    assert_true(squares < n + 4 * sqrt(2 * n)); /* 0.1 % of the sums of so many squares are larger */
    wvgd_model_close(&model);
}

/* Two normals along each of D axes, independent of each other: 2^D modes. */
typedef struct {
    double weight, mean[2], sd[2]; /* of the first, of both */
} pair;

static double variance_of(const pair *p)
{
    double a = p->weight, b = 1 - a;
    return a * p->sd[0] * p->sd[0] + b * p->sd[1] * p->sd[1] + a * b * pow(p->mean[0] - p->mean[1], 2);
}

static void open_pairs(wvgd_model *model, size_t D, const pair *axis)
{
    enum { MOST = 3, MODES = 8 };
    double weight[MODES], mean[MODES * MOST], cov[MODES * MOST * MOST] = {0};
    for (size_t k = 0; k < (size_t)1 << D; k++) {
        weight[k] = 1;
        for (size_t i = 0; i < D; i++) {
            size_t other = k >> i & 1;
            weight[k] *= other ? 1 - axis[i].weight : axis[i].weight;
            mean[k * D + i] = axis[i].mean[other];
            cov[(k * D + i) * D + i] = pow(axis[i].sd[other], 2);
        }
    }
    assert_int_equal(target_mixture(model, D, (size_t)1 << D, weight, mean, cov), 0);
}

/* One of four modes has 0.4 % of the mass, but is so far from the heaviest that it makes 5 % of a variance. It was
 * known, and left out. */
static void light_modes_that_make_variance(void **state)
{
    (void)state;
    static const pair axis[] = {{0.93, {0.786, 1.693}, {0.13, 0.0389}}, {0.94, {4.787, 7.636}, {0.407, 0.122}}};
    wvgd_model model;
    open_pairs(&model, 2, axis);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_near(r.evidence.value, 0, fmax(4 * r.evidence.se, 0.001));
        for (size_t i = 0; i < 2; i++)
            assert_near(sqrt(r.var[i] / variance_of(&axis[i])), 1, fmax(4 * r.sd_se[i] / sqrt(r.var[i]), 0.002));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Eight modes, five or six sds apart: one Gaussian fitted to two of them foretold so little that any end of an ascent
 * passed for a part of it. One mode was lost, and with it 6 % of the mass. */
static void modes_behind_a_bad_gaussian(void **state)
{
    (void)state;
    static const struct {
        double apart;
        uint64_t seed;
    } cases[] = {{5, 184}, {5, 185}, {5, 186}, {6, 81}, {6, 82}, {6, 83}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double d = cases[i].apart;
        pair axis[] = {{0.56, {0, -0.17 * d}, {0.17, 0.17}},
                       {0.72, {0, 0.06 * d}, {0.06, 0.06}},
                       {0.42, {0, -0.03 * d}, {0.03, 0.03}}};
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = staged_options(5, cases[i].seed);
        open_pairs(&model, 3, axis);
        wvgd_fit *fit = fitted(&model, &o, &r);
        print_message("%.0f sds apart: error %.4f +- %.4f\n", d, r.evidence.value, r.evidence.se);
        assert_near(r.evidence.value, 0, fmax(4 * r.evidence.se, 0.02));
        for (size_t k = 0; k < 3; k++)
            assert_near(log(r.var[k] / variance_of(&axis[k])) / 2, 0, 0.03);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* Sixteen narrow modes at the scale of the user in the middle of eight that lie far outside: later starts were all as
 * wide as these, so that in half of the fits one in the middle was not found. */
static void modes_in_the_middle(void **state)
{
    (void)state;
    enum { INNER = 4, OUTER = 8, K = INNER * INNER + OUTER };
    double weight[K], mean[2 * K], cov[4 * K] = {0};
    wvgd_model model;
    for (size_t k = 0; k < K; k++) {
        double angle = (double)k * 2 * M_PI / OUTER, sd = k < OUTER ? 1 : 0.02;
        weight[k] = 1.0 / K;
        mean[2 * k] = k < OUTER ? 30 * cos(angle) : 0.6 * (double)((k - OUTER) / INNER) - 0.9;
        mean[2 * k + 1] = k < OUTER ? 30 * sin(angle) : 0.6 * (double)((k - OUTER) % INNER) - 0.9;
        cov[4 * k] = cov[4 * k + 3] = sd * sd;
    }
    assert_int_equal(target_mixture(&model, 2, K, weight, mean, cov), 0);
    for (uint64_t seed = 31; seed <= 40; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_int_equal(r.modes, K);
        assert_near(r.evidence.value, 0, fmax(4 * r.evidence.se, 0.01));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Two wide modes that overlap, which no single Gaussian foretells, and two narrow ones far from them: the search for
 * these ended after fifty starts. It goes on when a mixture foretells the density, if no number of starts was given. */
static void narrow_modes_beside_overlapping_ones(void **state)
{
    (void)state;
    enum { K = 4 };
    const double weight[K] = {0.28, 0.11, 0.29, 0.32}, sd[K] = {0.5, 1.06, 0.1, 0.14},
                 mean[2 * K] = {-5.74, 6.25, -3.51, 6.83, 2.04, 1.08, -6.4, -6.01};
    double cov[4 * K] = {0};
    wvgd_model model;
    for (size_t k = 0; k < K; k++)
        cov[4 * k] = cov[4 * k + 3] = sd[k] * sd[k];
    assert_int_equal(target_mixture(&model, 2, K, weight, mean, cov), 0);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_near(r.evidence.value, 0, fmax(4 * r.evidence.se, 0.01));
        assert_true(r.starts > 1000);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Three Gaussians thousands of times as far apart as starts are wide. The widest says what the density is at all starts
 * of the user's scale, and where the widest is not the first mode of all, around that too. */
static void modes_far_apart(void **state)
{
    (void)state;
    enum { DIM = 6, K = 3 };
    const double weight[K] = {0.2, 0.3, 0.5}, sd[K] = {50, 30, 80},
                 mean[DIM * K] = {-1000, 500, 0,   2000, 1000, -300, 1500, -800,  300,
                                  -1000, 0,   500, 800,  1200, -900, 300,  -1500, 900};
    double cov[DIM * DIM * K] = {0};
    size_t missed = 0;
    wvgd_model model;
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < DIM; i++)
            cov[(k * DIM + i) * DIM + i] = sd[k] * sd[k];
    assert_int_equal(target_mixture(&model, DIM, K, weight, mean, cov), 0);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        missed += fabs(r.evidence.value) > 0.01;
        wvgd_free(fit);
    }
    assert_true(missed <= 1); /* without starts that far away 12 */
    wvgd_model_close(&model);
}

/* ---- a damped oscillation ---------------------------------------------------------------------------------------- */
enum { DAMPED = 6, TICKS = 60 };

typedef struct {
    double t[TICKS], y[TICKS];
} damped_data;

static double damped_prior(double x, double mean, double sd, double *slope)
{
    double e = (x - mean) / sd;
    *slope = -e / sd;
    return -e * e / 2 - log(sd) - log_2pi / 2;
}

/* A exp(-k t) cos(w t + phi) + o, z = (A, k, w, phi, o, log sigma): (-A, phi - pi) has the same likelihood. */
static double damped(void *self, const double *z, double *grad)
{
    static const double mean[] = {0, 1, 8, 0, 0}, sd[] = {5, 1, 3, 1, 2};
    const damped_data *data = self;
    double g[DAMPED], precision = exp(-2 * z[5]), log_p = log(2) - 2 * exp(z[5]) + z[5];
    g[5] = 1 - 2 * exp(z[5]);
    for (size_t i = 0; i < DAMPED - 1; i++)
        log_p += damped_prior(z[i], mean[i], sd[i], g + i);
    for (size_t k = 0; k < TICKS; k++) {
        double t = data->t[k], e = exp(-z[1] * t), c = e * cos(z[2] * t + z[3]), s = e * sin(z[2] * t + z[3]),
               off = data->y[k] - z[0] * c - z[4], q = off * precision;
        log_p -= off * q / 2 + z[5] + log_2pi / 2;
        g[0] += q * c;
        g[1] -= q * t * z[0] * c;
        g[2] -= q * t * z[0] * s;
        g[3] -= q * z[0] * s;
        g[4] += q;
        g[5] += off * q - 1;
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return log_p;
}

/* In the frame of the first mode nearly all ascents led to that mode, which may be the lighter one: of these seeds some
 * found it only. */
static void modes_that_attract_unequally(void **state)
{
    (void)state;
    damped_data data;
    test_random random = test_random_seed(12345);
    wvgd_model model;
    double best = -INFINITY, least = INFINITY;
    for (size_t k = 0; k < TICKS; k++) {
        double t = data.t[k] = 0.05 * (double)k;
        data.y[k] = 3 * exp(-0.8 * t) * cos(9 * t + 0.4) + 0.5 + 0.2 * test_random_normal(&random);
    }
    assert_int_equal(wvgd_model_pointwise(&model, DAMPED, damped, &data, true), 0);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        wvgd_results r;
        wvgd_options o = staged_options(5, seed);
        wvgd_fit *fit = fitted(&model, &o, &r);
        best = fmax(best, r.evidence.value);
        least = fmin(least, r.evidence.value);
        wvgd_free(fit);
    }
    assert_true(best - least < 0.2);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_modes_beside_overlapping_ones),
        cmocka_unit_test(modes_far_apart),
        cmocka_unit_test(modes_that_attract_unequally),
        cmocka_unit_test(starts_without_hope),
        cmocka_unit_test(a_ridge_is_no_top),
        cmocka_unit_test(a_valley_is_one_mode),
        cmocka_unit_test(needles_are_refused),
        cmocka_unit_test(lines_of_a_spectrum),
        cmocka_unit_test(labels_are_exchanged),
        cmocka_unit_test(slabs_around_spikes),
        cmocka_unit_test(tops_in_heavy_tails),
        cmocka_unit_test(corners),
        cmocka_unit_test(boxes),
        cmocka_unit_test(egg_boxes),
        cmocka_unit_test(tails_at_the_edge_of_a_prior),
        cmocka_unit_test(light_modes_that_make_variance),
        cmocka_unit_test(modes_behind_a_bad_gaussian),
        cmocka_unit_test(modes_in_the_middle),
        cmocka_unit_test(tops_with_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
