/* gp_quadrature.c - the hyper-posterior of a Gaussian process on a grid, and what a process with
 * given hyperparameters predicts. */
#include "gp_quadrature.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { A, F, S, B }; /* coordinates */
/* jitter: as in models/gp.c */
static const double two_pi = 6.283185307179586, log_two_pi = 1.8378770664093453, jitter = 1e-10;

double gp_axis_step(const gp_axis *axis)
{
    return axis->n > 1 ? (axis->high - axis->low) / (double)(axis->n - 1) : 1.0;
}

double gp_axis_at(const gp_axis *axis, size_t i)
{
    return axis->low + gp_axis_step(axis) * (double)i;
}

/* The correlation of the process at times that are dt apart. */
static double correlation(double f, double s, double dt)
{
    return exp(-0.5 * dt * dt / (s * s)) * cos(two_pi * f * dt);
}

/* One (f, s): eigenvalues of R, and the squares of y in its eigenvectors. */
typedef struct {
    size_t n;
    double *R;      /* [n][n], then its eigenvectors */
    double *value;  /* [n] */
    double *square; /* [n] */
} spectrum;

static int find_spectrum(const series_data *series, double f, double s, spectrum *out)
{
    size_t n = series->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++)
            out->R[i * n + j] = correlation(f, s, series->t[i] - series->t[j]);
    /* column-major: the lower half is the upper one; eigenvectors are rows */
    if (LAPACKE_dsyev(LAPACK_COL_MAJOR, 'V', 'U', (lapack_int)n, out->R, (lapack_int)n, out->value) != 0)
        return -1;
    for (size_t k = 0; k < n; k++) {
        double c = cblas_ddot((int)n, out->R + k * n, 1, series->y, 1);
        out->value[k] = fmax(out->value[k], 0.0) + jitter;
        out->square[k] = c * c;
    }
    return 0;
}

static double log_likelihood(const spectrum *s, double a, double b)
{
    double sum = (double)s->n * log_two_pi, product = 1.0;
    for (size_t k = 0; k < s->n; k++) {
        double v = a * s->value[k] + b;
        product *= v;
        sum += s->square[k] / v;
        if (product < 1e-200 || product > 1e200 || k + 1 == s->n) { /* a logarithm now and then */
            sum += log(product);
            product = 1.0;
        }
    }
    return -0.5 * sum;
}

static double log_prior(const wv_gp_prior *prior, int d, double x)
{
    double u = (x - prior->mean[d]) / prior->sd[d];
    return -0.5 * u * u - log(prior->sd[d]) - 0.5 * log_two_pi;
}

/* Adds exp(x) to exp(*sum). */
static void add_log(double *sum, double x)
{
    double high = fmax(*sum, x), low = fmin(*sum, x);
    *sum = isfinite(high) ? high + log1p(exp(low - high)) : high;
}

/* The best density at (f, B) so far is kept in highest[f][B]. */
static void add_plane(const wv_gp_prior *prior, const spectrum *s, size_t f, double log_s, gp_marginal *out,
                      double *highest)
{
    const gp_axis *axis = out->axis;
    double log_f = gp_axis_at(&axis[F], f), fixed = log_prior(prior, F, log_f) + log_prior(prior, S, log_s) +
                                                    log(gp_axis_step(&axis[A]) * gp_axis_step(&axis[S]));
    for (size_t b = 0; b < axis[B].n; b++) {
        size_t cell = f * axis[B].n + b;
        double log_b = gp_axis_at(&axis[B], b);
        for (size_t a = 0; a < axis[A].n; a++) {
            double log_a = gp_axis_at(&axis[A], a), x = log_likelihood(s, exp(log_a), exp(log_b)) +
                                                        log_prior(prior, A, log_a) + log_prior(prior, B, log_b) + fixed;
            add_log(&out->log_density[cell], x);
            if (x > highest[cell]) {
                highest[cell] = x;
                memcpy(out->best + GP_PARAMETERS * cell, (double[]){log_a, log_f, log_s, log_b},
                       GP_PARAMETERS * sizeof(double));
            }
        }
    }
}

static int fill_marginal(const series_data *series, const wv_gp_prior *prior, spectrum *s, gp_marginal *out,
                         double *highest)
{
    for (size_t i = 0; i < out->axis[F].n * out->axis[B].n; i++)
        out->log_density[i] = highest[i] = -INFINITY;
    for (size_t f = 0; f < out->axis[F].n; f++)
        for (size_t k = 0; k < out->axis[S].n; k++) {
            double log_s = gp_axis_at(&out->axis[S], k);
            if (find_spectrum(series, exp(gp_axis_at(&out->axis[F], f)), exp(log_s), s))
                return -1;
            add_plane(prior, s, f, log_s, out, highest);
        }
    return 0;
}

int make_gp_marginal(const series_data *series, const wv_gp_prior *prior, const gp_axis axis[GP_PARAMETERS],
                     gp_marginal *out)
{
    size_t n = series->n, cells = axis[F].n * axis[B].n;
    double *work = calloc(n * (n + 2) + cells, sizeof *work);
    *out = (gp_marginal){.log_density = calloc(cells, sizeof(double)),
                         .best = calloc(cells, GP_PARAMETERS * sizeof(double))};
    memcpy(out->axis, axis, sizeof out->axis);
    spectrum s = {n, work, work + n * n, work + n * (n + 1)};
    int failed = !work || !out->log_density || !out->best || fill_marginal(series, prior, &s, out, work + n * (n + 2));
    free(work);
    if (failed)
        free_gp_marginal(out);
    return failed ? -1 : 0;
}

void free_gp_marginal(gp_marginal *m)
{
    free(m->log_density);
    free(m->best);
    *m = (gp_marginal){0};
}

double gp_marginal_total(const gp_marginal *m)
{
    double total = -INFINITY;
    for (size_t i = 0; i < m->axis[F].n * m->axis[B].n; i++)
        add_log(&total, m->log_density[i]);
    return total + log(gp_axis_step(&m->axis[F]) * gp_axis_step(&m->axis[B]));
}

/* With K = L L' and k the covariances with the observations: mean k' K^-1 y, variance A - |L^-1 k|^2. */
static int predict(const series_data *series, const double *theta, size_t m, const double *times, double *mean,
                   double *sd, double *K, double *alpha, double *k)
{
    int n = (int)series->n;
    double a = exp(theta[A]), f = exp(theta[F]), s = exp(theta[S]), b = exp(theta[B]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            K[i * n + j] = a * correlation(f, s, series->t[i] - series->t[j]) + (i == j ? b + a * jitter : 0.0);
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', n, K, n) != 0)
        return -1;
    memcpy(alpha, series->y, series->n * sizeof *alpha);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, n, K, n, alpha, 1);
    for (size_t i = 0; i < m; i++) {
        for (int j = 0; j < n; j++)
            k[j] = a * correlation(f, s, times[i] - series->t[j]);
        cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, n, K, n, k, 1);
        mean[i] = cblas_ddot(n, k, 1, alpha, 1);
        sd[i] = sqrt(fmax(a - cblas_ddot(n, k, 1, k, 1), 0.0));
    }
    return 0;
}

int predict_gp(const series_data *series, const double *theta, size_t m, const double *times, double *mean, double *sd)
{
    size_t n = series->n;
    double *work = calloc(n * (n + 2), sizeof *work);
    int failed = !work || predict(series, theta, m, times, mean, sd, work, work + n * n, work + n * (n + 1));
    free(work);
    return failed ? -1 : 0;
}
