/* far.c - kinds of targets whose modes lie far from each other, or are as wide as each other but attract starts
 * unequally. */
#include "targets.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

static double between(test_random *r, double low, double high)
{
    return low + (high - low) * test_random_uniform(r);
}

/* Three Gaussians of sds 30 to 80, means of sd 1000: the user's scale is 1. */
void trust_far(trust_target *t, uint64_t seed)
{
    enum { DIM = 6, MODES = 3 };
    test_random r = test_random_seed(seed);
    trust_mixture(t, DIM, MODES);
    for (size_t k = 0; k < MODES; k++) {
        double size = pow(10, between(&r, 1.5, 1.9));
        t->a[k] = log(between(&r, 0.2, 1));
        for (size_t i = 0; i < DIM; i++) {
            t->b[k * DIM + i] = 1000 * test_random_normal(&r);
            t->c[k * DIM * DIM + i * (DIM + 1)] = size;
        }
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

/* ---- a damped oscillation: amplitude, decay, frequency, phase, offset, log sd of the noise --------------------- */
enum { WAVE = 6 };
static const double log_2pi = 1.83787706640934548356;

static double normal(double x, double mean, double sd, double *slope)
{
    double e = (x - mean) / sd;
    if (slope)
        *slope = -e / sd;
    return -e * e / 2 - log(sd) - log_2pi / 2;
}

static double wave_prior(const double *z, double *grad)
{
    static const double mean[] = {0, 1, 8, 0, 0}, sd[] = {5, 1, 3, 1, 2};
    double sigma = exp(z[5]), sum = -2 * sigma + log(2) + z[5]; /* exponential, mean 1/2 */
    for (size_t i = 0; i < WAVE - 1; i++)
        sum += normal(z[i], mean[i], sd[i], grad ? grad + i : NULL);
    if (grad)
        grad[5] = 1 - 2 * sigma;
    return sum;
}

static double wave_likelihood(const trust_target *t, const double *z, double *grad)
{
    double sum = 0, precision = exp(-2 * z[5]);
    for (size_t i = 0; i < t->n; i++) {
        double x = t->a[i], e = exp(-z[1] * x), c = cos(z[2] * x + z[3]), s = sin(z[2] * x + z[3]),
               off = t->b[i] - z[0] * e * c - z[4], q = off * precision;
        sum -= off * q / 2 + z[5] + log_2pi / 2;
        if (!grad)
            continue;
        grad[0] += q * e * c;
        grad[1] -= q * x * z[0] * e * c;
        grad[2] -= q * x * z[0] * e * s;
        grad[3] -= q * z[0] * e * s;
        grad[4] += q;
        grad[5] += off * q - 1;
    }
    return sum;
}

static double wave_density(void *self, const double *z, double *grad)
{
    double prior = wave_prior(z, grad);
    return prior + wave_likelihood(self, z, grad);
}

/* The likelihood is the same at the images of z: where a shift of the phase by pi comes with a sign of the amplitude,
 * and where frequency and phase change sign. The log density of all of them together. */
static double log_orbit(const trust_target *t, const double *z)
{
    enum { TURNS = 6 };
    double sum = 0;
    for (int turn = -TURNS; turn <= TURNS; turn++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double image[WAVE];
            memcpy(image, z, sizeof image);
            image[0] *= turn % 2 ? -1 : 1;
            image[2] *= sign;
            image[3] = sign * z[3] + turn * M_PI;
            sum += exp(wave_prior(image, NULL));
        }
    return log(sum) + wave_likelihood(t, z, NULL);
}

/* Weighted draws of a Student-t with nu degrees of freedom around one of the images: moments m, root L for the next
 * round, and the log evidence. */
static double wave_round(const trust_target *t, test_random *r, size_t draws, double *m, double *L)
{
    const double nu = 6;
    double mean[WAVE] = {0}, cov[WAVE * WAVE] = {0}, sum = 0, top = -INFINITY, log_det = 0;
    for (size_t i = 0; i < WAVE; i++)
        log_det += log(L[i * (WAVE + 1)]);
    double scale = lgamma((nu + WAVE) / 2) - lgamma(nu / 2) - WAVE / 2. * log(nu * M_PI) - log_det;
    for (size_t d = 0; d < draws; d++) {
        double e[WAVE], z[WAVE], chi = 0, norm = 0;
        for (size_t i = 0; i < (size_t)nu; i++)
            chi += pow(test_random_normal(r), 2) / nu;
        for (size_t i = 0; i < WAVE; i++) {
            e[i] = test_random_normal(r) / sqrt(chi);
            norm += e[i] * e[i];
            z[i] = m[i] + cblas_ddot((int)i + 1, L + i * WAVE, 1, e, 1);
        }
        double log_w = log_orbit(t, z) - scale + (nu + WAVE) / 2 * log1p(norm / nu), old = exp(fmin(top - log_w, 0));
        double w = exp(fmin(log_w - top, 0));
        if (log_w > top) { /* all sums are in units of the largest weight */
            sum *= old;
            cblas_dscal(WAVE, old, mean, 1);
            cblas_dscal(WAVE * WAVE, old, cov, 1);
            top = log_w;
            w = 1;
        }
        for (size_t i = 0; i < WAVE; i++)
            z[i] -= m[i];
        sum += w;
        cblas_daxpy(WAVE, w, z, 1, mean, 1);
        cblas_dsyr(CblasRowMajor, CblasLower, WAVE, w, z, 1, cov, WAVE);
    }
    cblas_dscal(WAVE, 1 / sum, mean, 1);
    cblas_dscal(WAVE * WAVE, 1 / sum, cov, 1);
    cblas_dsyr(CblasRowMajor, CblasLower, WAVE, -1, mean, 1, cov, WAVE);
    cblas_daxpy(WAVE, 1, mean, 1, m, 1);
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', WAVE, cov, WAVE) == 0)
        memcpy(L, cov, sizeof cov);
    return top + log(sum / (double)draws);
}

/* By importance sampling, which begins at the parameters that made the data, with the Fisher information there. */
static double wave_evidence(const trust_target *t, test_random *r, const double *truth)
{
    double m[WAVE], L[WAVE * WAVE] = {0}, sigma = exp(truth[5]);
    memcpy(m, truth, sizeof m);
    for (size_t i = 0; i < WAVE; i++)
        L[i * (WAVE + 1)] = 1;
    for (size_t i = 0; i < t->n; i++) {
        double x = t->a[i], e = exp(-m[1] * x), c = cos(m[2] * x + m[3]), s = sin(m[2] * x + m[3]),
               row[WAVE] = {e * c, -x * m[0] * e * c, -x * m[0] * e * s, -m[0] * e * s, 1, sigma * sqrt(2)};
        cblas_dsyr(CblasRowMajor, CblasLower, WAVE, 1 / (sigma * sigma), row, 1, L, WAVE);
    }
    LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', WAVE, L, WAVE);
    LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'L', WAVE, L, WAVE);
    LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', WAVE, L, WAVE);
    for (size_t round = 0; round < 3; round++)
        wave_round(t, r, 3000, m, L);
    return wave_round(t, r, 40000, m, L);
}

void trust_wave(trust_target *t, uint64_t seed)
{
    const double noise = 0.2;
    test_random r = test_random_seed(seed);
    double truth[WAVE] = {between(&r, 2, 4),  between(&r, 0.4, 1.2),  between(&r, 6, 11),
                          between(&r, -1, 1), test_random_normal(&r), log(noise)};
    t->dim = WAVE;
    t->n = 60;
    t->a = trust_take(t->n, sizeof *t->a);
    t->b = trust_take(t->n, sizeof *t->b);
    t->density = wave_density;
    for (size_t i = 0; i < t->n; i++) {
        double x = t->a[i] = 0.05 * (double)i;
        t->b[i] = truth[0] * exp(-truth[1] * x) * cos(truth[2] * x + truth[3]) + truth[4] +
                  noise * test_random_normal(&r);
    }
    t->log_z = wave_evidence(t, &r, truth);
}
