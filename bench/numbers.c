/* numbers.c - are means, sds and quantiles as wrong as their standard errors say? Fits of targets with known moments,
 * many seeds each: root mean square of (estimate - truth) / standard error, which should be 1, of all parameters;
 * the share beyond three standard errors; the largest standard error of log sd; how many parameters are marked as
 * heavy-tailed; and evaluations.
 *     numbers [SEEDS [KIND]]    KIND: the first letters of a target's name */
#include "test_random.h"
#include "wvgd.h"
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_gamma.h>
#include <gsl/gsl_sf_psi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 30, P = 3 };
static const double level[P] = {0.05, 0.5, 0.95};

/* Only OpenBLAS has it: its threads would get in each other's way here. */
void openblas_set_num_threads(int threads) __attribute__((weak));

typedef struct target target;
struct target {
    const char *name;
    size_t D;
    double (*log_p)(const target *t, const double *z, double *grad);
    double (*cdf)(const target *t, size_t i, double x);
    double (*mean)(const target *t, size_t i), (*sd)(const target *t, size_t i);
    double L[MOST][MOST]; /* gaussian: inverse of a root of the covariance, lower; */
    double S[MOST];       /* and sds */
};

static double zero(const target *t, size_t i)
{
    (void)t, (void)i;
    return 0;
}

/* ---- correlated Gaussian ----------------------------------------------------------------------------------------- */
static double gaussian(const target *t, const double *z, double *grad)
{
    double sum = 0;
    memset(grad, 0, t->D * sizeof *grad);
    for (size_t i = 0; i < t->D; i++) {
        double y = 0;
        for (size_t k = 0; k <= i; k++)
            y += t->L[i][k] * z[k];
        for (size_t k = 0; k <= i; k++)
            grad[k] -= y * t->L[i][k];
        sum -= y * y / 2;
    }
    return sum;
}

static double gaussian_cdf(const target *t, size_t i, double x)
{
    return gsl_cdf_ugaussian_P(x / t->S[i]);
}

static double gaussian_sd(const target *t, size_t i)
{
    return t->S[i];
}

/* A random lower triangle, and sds from its inverse. */
static void correlate(target *t)
{
    test_random random = test_random_seed(7 + t->D);
    for (size_t i = 0; i < t->D; i++)
        for (size_t k = 0; k <= i; k++)
            t->L[i][k] = i == k ? exp(test_random_normal(&random) / 2)
                                : 0.5 * test_random_normal(&random) / sqrt((double)t->D);
    memset(t->S, 0, sizeof t->S);
    for (size_t c = 0; c < t->D; c++) { /* column c of the inverse */
        double x[MOST] = {0};
        for (size_t i = c; i < t->D; i++) {
            x[i] = i == c;
            for (size_t k = c; k < i; k++)
                x[i] -= t->L[i][k] * x[k];
            x[i] /= t->L[i][i];
            t->S[i] += x[i] * x[i];
        }
    }
    for (size_t i = 0; i < t->D; i++)
        t->S[i] = sqrt(t->S[i]);
}

/* ---- independent coordinates ------------------------------------------------------------------------------------- */
static double scale(size_t i)
{
    return exp(0.7 * (double)(i % 5) - 1);
}

static double logistic(const target *t, const double *z, double *grad)
{
    double sum = 0;
    for (size_t i = 0; i < t->D; i++) {
        double y = z[i] / scale(i), a = fabs(y);
        sum += -a - 2 * log1p(exp(-a));
        grad[i] = -tanh(y / 2) / scale(i);
    }
    return sum;
}

static double logistic_cdf(const target *t, size_t i, double x)
{
    (void)t;
    return 1 / (1 + exp(-x / scale(i)));
}

static double logistic_sd(const target *t, size_t i)
{
    (void)t;
    return M_PI / sqrt(3) * scale(i);
}

/* Logarithm of a gamma variate: skewed. */
static double shape(size_t i)
{
    return (double)(1 + i % 3) * (double)(1 + i % 3);
}

static double log_gamma(const target *t, const double *z, double *grad)
{
    double sum = 0;
    for (size_t i = 0; i < t->D; i++) {
        sum += shape(i) * z[i] - exp(z[i]);
        grad[i] = shape(i) - exp(z[i]);
    }
    return sum;
}

static double log_gamma_cdf(const target *t, size_t i, double x)
{
    (void)t;
    return gsl_cdf_gamma_P(exp(x), shape(i), 1);
}

static double log_gamma_mean(const target *t, size_t i)
{
    (void)t;
    return gsl_sf_psi(shape(i));
}

static double log_gamma_sd(const target *t, size_t i)
{
    (void)t;
    return sqrt(gsl_sf_psi_1(shape(i)));
}

/* Student's t: 5 degrees of freedom. */
static double student_of(double nu, const target *t, const double *z, double *grad)
{
    double sum = 0;
    for (size_t i = 0; i < t->D; i++) {
        double y = z[i] / scale(i);
        sum -= (nu + 1) / 2 * log1p(y * y / nu);
        grad[i] = -(nu + 1) * y / (nu + y * y) / scale(i);
    }
    return sum;
}

static double student(const target *t, const double *z, double *grad)
{
    return student_of(5, t, z, grad);
}

static double student_cdf(const target *t, size_t i, double x)
{
    (void)t;
    return gsl_cdf_tdist_P(x / scale(i), 5);
}

static double student_sd(const target *t, size_t i)
{
    (void)t;
    return sqrt(5.0 / 3) * scale(i);
}

/* Cauchy: no mean, no sd. */
static double cauchy(const target *t, const double *z, double *grad)
{
    return student_of(1, t, z, grad);
}

static double cauchy_cdf(const target *t, size_t i, double x)
{
    (void)t;
    return gsl_cdf_tdist_P(x / scale(i), 1);
}

static double infinite(const target *t, size_t i)
{
    (void)t, (void)i;
    return INFINITY;
}

/* Two Gaussians, 0.3 at -3 and 0.7 at 3 of the first coordinate, and with other sds. */
static const double part[2] = {0.3, 0.7}, centre[2] = {-3, 3}, width[2] = {0.6, 1.2};

static double mixture(const target *t, const double *z, double *grad)
{
    double log_q[2], top, sum;
    for (size_t k = 0; k < 2; k++) {
        log_q[k] = log(part[k]) - (double)t->D * log(width[k]);
        for (size_t i = 0; i < t->D; i++) {
            double y = (z[i] - (i ? 0 : centre[k])) / width[k];
            log_q[k] -= y * y / 2;
        }
    }
    top = fmax(log_q[0], log_q[1]);
    sum = exp(log_q[0] - top) + exp(log_q[1] - top);
    for (size_t i = 0; i < t->D; i++) {
        grad[i] = 0;
        for (size_t k = 0; k < 2; k++)
            grad[i] -= exp(log_q[k] - top) / sum * (z[i] - (i ? 0 : centre[k])) / width[k] / width[k];
    }
    return top + log(sum);
}

static double mixture_cdf(const target *t, size_t i, double x)
{
    (void)t;
    return part[0] * gsl_cdf_ugaussian_P((x - (i ? 0 : centre[0])) / width[0]) +
           part[1] * gsl_cdf_ugaussian_P((x - (i ? 0 : centre[1])) / width[1]);
}

static double mixture_mean(const target *t, size_t i)
{
    (void)t;
    return i ? 0 : part[0] * centre[0] + part[1] * centre[1];
}

static double mixture_sd(const target *t, size_t i)
{
    double within = part[0] * width[0] * width[0] + part[1] * width[1] * width[1], mean = mixture_mean(t, i);
    return sqrt(within + (i ? 0 : part[0] * centre[0] * centre[0] + part[1] * centre[1] * centre[1] - mean * mean));
}

static target targets[] = {
    {"gaussian 3", 3, gaussian, gaussian_cdf, zero, gaussian_sd, {{0}}, {0}},
    {"gaussian 10", 10, gaussian, gaussian_cdf, zero, gaussian_sd, {{0}}, {0}},
    {"gaussian 30", 30, gaussian, gaussian_cdf, zero, gaussian_sd, {{0}}, {0}},
    {"logistic 3", 3, logistic, logistic_cdf, zero, logistic_sd, {{0}}, {0}},
    {"logistic 10", 10, logistic, logistic_cdf, zero, logistic_sd, {{0}}, {0}},
    {"log gamma 3", 3, log_gamma, log_gamma_cdf, log_gamma_mean, log_gamma_sd, {{0}}, {0}},
    {"log gamma 10", 10, log_gamma, log_gamma_cdf, log_gamma_mean, log_gamma_sd, {{0}}, {0}},
    {"student 1", 1, student, student_cdf, zero, student_sd, {{0}}, {0}},
    {"student 3", 3, student, student_cdf, zero, student_sd, {{0}}, {0}},
    {"mixture 2", 2, mixture, mixture_cdf, mixture_mean, mixture_sd, {{0}}, {0}},
    {"mixture 6", 6, mixture, mixture_cdf, mixture_mean, mixture_sd, {{0}}, {0}},
    {"cauchy 1", 1, cauchy, cauchy_cdf, zero, infinite, {{0}}, {0}},
    {"cauchy 2", 2, cauchy, cauchy_cdf, zero, infinite, {{0}}, {0}},
};

static double at_point(void *self, const double *z, double *grad)
{
    const target *t = self;
    double unused[MOST];
    return t->log_p(t, z, grad ? grad : unused);
}

/* ---- what a fit says against the truth --------------------------------------------------------------------------- */
typedef struct {
    size_t n, beyond;
    double squares;
} scores;

static void add(scores *s, double z)
{
    s->n++;
    s->beyond += !(fabs(z) <= 3);
    s->squares += z * z;
}

static void print(const scores *s)
{
    printf(" %6.2f %5.1f%%", sqrt(s->squares / (double)s->n), 100 * (double)s->beyond / (double)s->n);
}

typedef struct {
    scores mean, sd, quantile;
    size_t evaluations, reliable, marked, parameters, fits;
    double worst, width;
} record;

static double quantile(const target *t, size_t i, double p)
{
    double low = -1e4, high = 1e4;
    for (int k = 0; k < 100; k++) {
        double middle = (low + high) / 2;
        *(t->cdf(t, i, middle) < p ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static void die(const char *why)
{
    fprintf(stderr, "numbers: %s\n", why);
    exit(70);
}

static void compare(const target *t, wvgd_fit *fit, record *a)
{
    wvgd_results r;
    wvgd_error error;
    size_t n;
    const double *z;
    double out[5][MOST], q[MOST * P], se[MOST * P];
    wvgd_description to = {out[0], out[1], out[2], out[3], out[4], q, se};
    wvgd_get_results(fit, &r);
    if (wvgd_draws(fit, &n, &z, NULL, NULL, NULL, &error) != WVGD_OK ||
        wvgd_describe(fit, t->D, z, P, level, &to, &error) != WVGD_OK)
        die(error.text);
    a->fits++;
    a->evaluations += r.evaluations;
    a->reliable += r.reliable;
    for (size_t i = 0; i < t->D; i++) {
        double sd = sqrt(r.var[i]), true_sd = t->sd(t, i);
        if (true_sd < INFINITY) {
            add(&a->mean, (r.mean[i] - t->mean(t, i)) / r.mcse[i]);
            add(&a->sd, (sd - true_sd) / r.sd_se[i]);
            a->worst = fmax(a->worst, r.sd_se[i] / sd);
        }
        for (size_t l = 0; l < P; l++) {
            add(&a->quantile, (q[i * P + l] - quantile(t, i, level[l])) / se[i * P + l]);
            a->width += se[i * P + l] / sd / P;
        }
        a->marked += r.tail_k[i] > r.tail_k_limit;
        a->parameters++;
    }
}

static void run(target *t, size_t seeds)
{
    record a = {0};
    wvgd_model model;
    wvgd_error error;
    if (t->log_p == gaussian)
        correlate(t);
    if (wvgd_model_pointwise(&model, t->D, at_point, t, true))
        die("no memory");
    for (size_t seed = 1; seed <= seeds; seed++) {
        wvgd_options o;
        wvgd_options_init(&o);
        o.seed = seed;
        o.threads = 1;
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
        if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
            die(error.text);
        compare(t, fit, &a);
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
    printf("%-14s", t->name);
    print(&a.mean);
    print(&a.sd);
    print(&a.quantile);
    printf(" %7.4f %7.4f %5zu/%-5zu %4zu/%-4zu %8zu\n", a.worst, a.width / (double)a.parameters, a.marked, a.parameters,
           a.reliable, a.fits, a.evaluations / a.fits);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    size_t seeds = argc > 1 ? (size_t)atol(argv[1]) : 40;
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    printf("%-14s %13s %13s %13s %7s %7s %11s %9s %8s\n", "target", "mean: z  >3", "sd: z  >3", "quantile:z >3",
           "se lnsd", "se q/sd", "marked", "reliable", "evals");
    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
        if (argc < 3 || !strncmp(targets[k].name, argv[2], strlen(argv[2])))
            run(&targets[k], seeds);
    return 0;
}
