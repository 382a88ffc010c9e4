/* others.c - more kinds: other shapes of what targets.c has, and posteriors of one or two parameters. */
#include "targets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double log_2pi = 1.8378770664093453;

static double *take(size_t n)
{
    return trust_take(n, sizeof(double));
}

static double between(test_random *r, double low, double high)
{
    return low + (high - low) * test_random_uniform(r);
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */
/* Images of a Gaussian of independent coordinates (m_1 .. m_4, s_1 .. s_4) under the permutations of four labels. */
static void labels4(trust_target *t, uint64_t seed)
{
    enum { LABELS = 4, D = 2 * LABELS, K = 24 };
    test_random r = test_random_seed(seed);
    double m[D], sd[D];
    trust_mixture(t, D, K);
    for (size_t i = 0; i < D; i++) {
        m[i] = i < LABELS ? 3 * (double)i + between(&r, -0.8, 0.8) : 0.5 * test_random_normal(&r);
        sd[i] = between(&r, 0.1, 0.5);
    }
    size_t k = 0;
    for (size_t code = 0; code < 256; code++) {
        size_t to[LABELS], used = 0;
        for (size_t i = 0; i < LABELS; i++)
            used |= 1u << (to[i] = code >> 2 * i & 3);
        if (used != 15)
            continue;
        for (size_t i = 0; i < D; i++) {
            size_t at = i < LABELS ? to[i] : LABELS + to[i - LABELS];
            t->b[k * D + at] = m[i];
            t->c[(k * D + at) * D + at] = sd[i];
        }
        k++;
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

static void slab8(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 8, 0.3, 4, 0);
}

static void slab3(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 3, 0.2, 30, 0);
}

static void slab12(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 12, 0.7, 20, 0.2);
}

static void modes8(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 8, 8, 6, -0.05, 0.05, 0);
}

static void modes3(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 3, 12, 10, -0.1, 0.1, 0);
}

/* A mode of 3 % of the mass beside one of 97 %. */
static void unequal(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    enum { D = 6 };
    double sd[D], by[D], norm = 0;
    trust_mixture(t, D, 2);
    t->a[1] = log(0.03 / 0.97);
    for (size_t i = 0; i < D; i++) {
        by[i] = test_random_normal(&r);
        norm += by[i] * by[i];
    }
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < D; i++) {
            sd[i] = between(&r, 0.6, 1.4);
            t->b[k * D + i] = (k ? 8 : 0) * by[i] / sqrt(norm);
        }
        trust_random_root(&r, D, sd, t->c + k * D * D);
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

/* Long thin Gaussians with one middle. */
static void cross(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    enum { D = 4, K = 3 };
    trust_mixture(t, D, K);
    for (size_t k = 0; k < K; k++) {
        double sd[D] = {2, 0.2, 0.2, 0.2};
        t->a[k] = log(between(&r, 0.2, 1));
        trust_random_root(&r, D, sd, t->c + k * D * D);
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

static void student_2(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 4, 1, 2, 0, 0, 2);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
static double p_log_half_cauchy(double x, double shape, double *slope)
{
    (void)shape;
    *slope = -tanh(x);
    return log(2 / M_PI) - fabs(x) - log1p(exp(-2 * fabs(x)));
}

/* log of a half Student-t of `shape` degrees of freedom */
static double p_log_half_t(double x, double nu, double *slope)
{
    double q = exp(2 * x) / nu;
    *slope = 1 - (nu + 1) * q / (1 + q);
    return log(2) + lgamma((nu + 1) / 2) - lgamma(nu / 2) - log(nu * M_PI) / 2 - (nu + 1) / 2 * log1p(q) + x;
}

static double p_gamma(double x, double shape, double *slope)
{
    *slope = (shape - 1) / x - 1;
    return x <= 0 ? -INFINITY : (shape - 1) * log(x) - x - lgamma(shape);
}

static double p_beta(double x, double shape, double *slope)
{
    double b = 2;
    *slope = (shape - 1) / x - (b - 1) / (1 - x);
    return x <= 0 || x >= 1
               ? -INFINITY
               : (shape - 1) * log(x) + (b - 1) * log1p(-x) - lgamma(shape) - lgamma(b) + lgamma(shape + b);
}

static double p_laplace(double x, double shape, double *slope)
{
    (void)shape;
    *slope = x > 0 ? -1 : 1;
    return -fabs(x) - log(2);
}

static double p_flat(double x, double shape, double *slope)
{
    double y = pow(fabs(x), shape - 1);
    *slope = x > 0 ? -shape * y : shape * y;
    return -y * fabs(x) - log(2 * tgamma(1 + 1 / shape));
}

static double p_student(double x, double nu, double *slope)
{
    *slope = -(nu + 1) * x / (nu + x * x);
    return lgamma((nu + 1) / 2) - lgamma(nu / 2) - log(nu * M_PI) / 2 - (nu + 1) / 2 * log1p(x * x / nu);
}

static double log_phi(double x) /* log of the normal distribution function */
{
    return x > -30 ? log(erfc(-x / M_SQRT2) / 2) : -x * x / 2 - log_2pi / 2 - log(-x) + log1p(-1 / (x * x));
}

static double p_skew(double x, double shape, double *slope)
{
    double up = log_phi(shape * x);
    *slope = -x + shape * exp(-shape * shape * x * x / 2 - log_2pi / 2 - up);
    return log(2) - x * x / 2 - log_2pi / 2 + up;
}

/* N(0, 1), and a narrow one with little mass at 7 sds */
static double p_beside(double x, double shape, double *slope)
{
    double s = 0.3, y = (x - 7) / s, a = -x * x / 2 + log1p(-shape), b = -y * y / 2 + log(shape / s), top = fmax(a, b),
           p = exp(a - top), q = exp(b - top);
    *slope = (-x * p - y / s * q) / (p + q);
    return top + log(p + q) - log_2pi / 2;
}

static const trust_line log_half_cauchy = {p_log_half_cauchy, -60, 60}, log_half_t = {p_log_half_t, -40, 40},
                        gamma_line = {p_gamma, 0, 60}, beta_line = {p_beta, 0, 1}, laplace = {p_laplace, -60, 60},
                        flat = {p_flat, -20, 20}, student = {p_student, -1000, 1000}, skew = {p_skew, -12, 12},
                        beside = {p_beside, -10, 12};

static void half_cauchys(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 6, &log_half_cauchy, 0, 1);
}

static void half_ts(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 4, &log_half_t, 2, 6);
}

static void gammas(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 4, &gamma_line, 1.5, 5);
}

static void infinite(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 2, &gamma_line, 0.5, 0.9);
    for (size_t i = 0; i < t->known; i++) /* the grid of its marginals does not resolve the wall */
        t->marginal[i] = (trust_marginal){NAN, NAN, {NAN, NAN, NAN}};
}

static void betas(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 3, &beta_line, 1.2, 5);
}

static void laplaces(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 12, &laplace, 0, 1);
}

static void flats(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 4, &flat, 6, 10);
}

static void sharps(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 4, &flat, 1.3, 1.7);
}

static void student_products(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 4, &student, 3, 5);
}

static void skews(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 8, &skew, -6, 6);
}

static void besides(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 2, &beside, 0.05, 0.3);
}

/* exp(- largest |z_i - a_i| / b_i) */
static double tent_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    size_t at = 0;
    double most = 0;
    for (size_t i = 0; i < t->dim; i++) {
        double y = fabs(z[i] - t->a[i]) / t->b[i];
        at = y > most ? i : at;
        most = fmax(most, y);
    }
    for (size_t i = 0; grad && i < t->dim; i++)
        grad[i] = i != at ? 0 : z[i] > t->a[i] ? -1 / t->b[i] : 1 / t->b[i];
    return -most;
}

static void tent(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    t->dim = 3;
    t->a = take(3);
    t->b = take(3);
    t->density = tent_density;
    t->log_z = log(48); /* 2^D D! */
    for (size_t i = 0; i < 3; i++) {
        t->a[i] = 2 * test_random_normal(&r);
        t->b[i] = pow(10, between(&r, -1, 1));
        t->log_z += log(t->b[i]);
    }
}

/* ---- posteriors of one or two parameters: a, b data[n], p as they like ------------------------------------------- */
static double normal(double x, double mean, double sd, double *slope)
{
    double y = (x - mean) / sd;
    if (slope)
        *slope -= y / sd;
    return -y * y / 2 - log(sd) - log_2pi / 2;
}

/* Independent normal priors. */
static double priors(const trust_target *t, const double *z, double sd, double *grad)
{
    double sum = 0;
    for (size_t k = 0; k < t->dim; k++) {
        if (grad)
            grad[k] = 0;
        sum += normal(z[k], 0, sd, grad ? grad + k : NULL);
    }
    return sum;
}

static double robust_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 5, grad), s = 0.3, nu = 3;
    for (size_t i = 0; i < t->n; i++) {
        double r = (t->b[i] - z[0] - z[1] * t->a[i]) / s, g = (nu + 1) * r / (nu + r * r) / s;
        sum -= (nu + 1) / 2 * log1p(r * r / nu);
        if (grad) {
            grad[0] += g;
            grad[1] += g * t->a[i];
        }
    }
    return sum;
}

static void make_robust(trust_target *t, test_random *r)
{
    double z[] = {test_random_normal(r), test_random_normal(r)};
    t->n = 12;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, -2, 2);
        t->b[i] = z[0] + z[1] * t->a[i] + 0.3 * test_random_normal(r) + (i % 3 ? 0 : 4 * test_random_normal(r));
    }
}

static double probit_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 3, grad);
    for (size_t i = 0; i < t->n; i++) {
        double s = t->b[i] > 0 ? 1 : -1, eta = s * (z[0] + z[1] * t->a[i]), up = log_phi(eta),
               g = s * exp(-eta * eta / 2 - log_2pi / 2 - up);
        sum += up;
        if (grad) {
            grad[0] += g;
            grad[1] += g * t->a[i];
        }
    }
    return sum;
}

static void make_probit(trust_target *t, test_random *r)
{
    double z[] = {test_random_normal(r), 1.5 * test_random_normal(r)};
    t->n = 15;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, -2, 2);
        t->b[i] = z[0] + z[1] * t->a[i] + test_random_normal(r) > 0;
    }
}

/* times a, censored where b is 0; z = log shape, log scale */
static double weibull_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 2, grad), k = exp(z[0]);
    for (size_t i = 0; i < t->n; i++) {
        double l = log(t->a[i]) - z[1], h = exp(k * l);
        sum += t->b[i] > 0 ? z[0] - z[1] + (k - 1) * l - h : -h;
        if (grad) {
            grad[0] += (t->b[i] > 0 ? 1 + k * l : 0) - h * k * l;
            grad[1] += (t->b[i] > 0 ? -k : 0) + h * k;
        }
    }
    return sum;
}

static void make_weibull(trust_target *t, test_random *r)
{
    double k = exp(between(r, -0.7, 1)), scale = exp(between(r, -1, 1));
    t->n = 10;
    for (size_t i = 0; i < t->n; i++) {
        double x = scale * pow(-log(test_random_uniform(r)), 1 / k), c = scale * between(r, 0.5, 3);
        t->a[i] = fmin(x, c);
        t->b[i] = x < c;
    }
}

static double digamma(double x)
{
    double s = 0;
    for (; x < 8; x++)
        s -= 1 / x;
    double q = 1 / (x * x);
    return s + log(x) - 0.5 / x - q * (1.0 / 12 - q * (1.0 / 120 - q / 252));
}

/* counts b; z = log mean, log dispersion */
static double counts_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 3, grad), mu = exp(z[0]), f = exp(z[1]);
    for (size_t i = 0; i < t->n; i++) {
        double y = t->b[i];
        sum += lgamma(y + f) - lgamma(f) - lgamma(y + 1) - f * log1p(mu / f) + y * (z[0] - log(mu + f));
        if (grad) {
            grad[0] += y - (y + f) * mu / (mu + f);
            grad[1] += f * (digamma(y + f) - digamma(f) - log1p(mu / f) + (mu - y) / (mu + f));
        }
    }
    return sum;
}

static void make_counts(trust_target *t, test_random *r)
{
    double mean = exp(between(r, 0, 2.5)), spread = between(r, 0.2, 1.2);
    t->n = 12;
    for (size_t i = 0; i < t->n; i++) {
        double rate = mean * exp(spread * test_random_normal(r)), p = 1;
        for (t->b[i] = -1; p > exp(-rate); t->b[i]++)
            p *= test_random_uniform(r);
    }
}

/* z = atanh of the coefficient, log sd of the noise */
static double series_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 1.5, grad), c = tanh(z[0]), s = exp(z[1]);
    for (size_t i = 1; i < t->n; i++) {
        double r = (t->b[i] - c * t->b[i - 1]) / s;
        sum -= r * r / 2 + z[1] + log_2pi / 2;
        if (grad) {
            grad[0] += r / s * t->b[i - 1] * (1 - c * c);
            grad[1] += r * r - 1;
        }
    }
    return sum;
}

static void make_series(trust_target *t, test_random *r)
{
    double c = between(r, -0.5, 1), s = exp(between(r, -1, 1));
    t->n = 15;
    t->b[0] = s * test_random_normal(r);
    for (size_t i = 1; i < t->n; i++)
        t->b[i] = c * t->b[i - 1] + s * test_random_normal(r);
}

/* Gaussian process: a places, b values; z = log length, log sd of the noise */
static double process_density(void *self, const double *z, double *grad)
{
    enum { MOST = 10 };
    const trust_target *t = self;
    size_t n = t->n;
    double sum = priors(t, z, 1.5, grad), A[MOST * MOST], L[MOST * MOST] = {0}, inverse[MOST * MOST], x[MOST],
           length = exp(z[0]), v = exp(2 * z[1]);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            double d = (t->a[i] - t->a[k]) / length;
            A[i * n + k] = exp(-d * d / 2);
        }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= i; k++) {
            double s = A[i * n + k] + (i == k ? v + 1e-6 : 0);
            for (size_t g = 0; g < k; g++)
                s -= L[i * n + g] * L[k * n + g];
            L[i * n + k] = i == k ? sqrt(s) : s / L[k * n + k];
        }
    for (size_t i = 0; i < n; i++) {
        x[i] = t->b[i];
        for (size_t k = 0; k < i; k++)
            x[i] -= L[i * n + k] * x[k];
        x[i] /= L[i * n + i];
        sum -= x[i] * x[i] / 2 + log(L[i * n + i]) + log_2pi / 2;
    }
    if (!grad)
        return sum;
    for (size_t c = 0; c < n; c++) { /* inverse of L L' */
        double *y = inverse + c * n;
        for (size_t i = 0; i < n; i++) {
            y[i] = i == c;
            for (size_t k = 0; k < i; k++)
                y[i] -= L[i * n + k] * y[k];
            y[i] /= L[i * n + i];
        }
        for (size_t i = n; i-- > 0;) {
            for (size_t k = i + 1; k < n; k++)
                y[i] -= L[k * n + i] * y[k];
            y[i] /= L[i * n + i];
        }
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++)
            x[i] -= L[k * n + i] * x[k];
        x[i] /= L[i * n + i];
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            double d = (t->a[i] - t->a[k]) / length, w = x[i] * x[k] - inverse[i * n + k];
            grad[0] += w * A[i * n + k] * d * d / 2;
            grad[1] += i == k ? w * v : 0;
        }
    return sum;
}

static void make_process(trust_target *t, test_random *r)
{
    double f = between(r, 0.3, 2), phase = between(r, 0, 6), s = between(r, 0.05, 0.6);
    t->n = 10;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, -3, 3);
        t->b[i] = sin(f * t->a[i] + phase) + s * test_random_normal(r);
    }
}

/* z = mean, log sd of three observations */
static double three_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 5, grad), s = exp(z[1]);
    for (size_t i = 0; i < t->n; i++) {
        double r = (t->b[i] - z[0]) / s;
        sum -= r * r / 2 + z[1] + log_2pi / 2;
        if (grad) {
            grad[0] += r / s;
            grad[1] += r * r - 1;
        }
    }
    return sum;
}

static void make_three(trust_target *t, test_random *r)
{
    t->n = 3;
    for (size_t i = 0; i < t->n; i++)
        t->b[i] = test_random_normal(r);
}

/* Distances b from anchors at (a[2 i], a[2 i + 1]). */
static double ranges_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 3, grad), s = 0.2;
    for (size_t i = 0; i < t->n; i++) {
        double x = z[0] - t->a[2 * i], y = z[1] - t->a[2 * i + 1], d = hypot(x, y), r = (t->b[i] - d) / s;
        sum -= r * r / 2 + log(s) + log_2pi / 2;
        if (grad && d > 0) {
            grad[0] += r / s * x / d;
            grad[1] += r / s * y / d;
        }
    }
    return sum;
}

static void make_ranges(trust_target *t, test_random *r)
{
    double x = 2 * test_random_normal(r), y = 2 * test_random_normal(r);
    t->n = 2 + (test_random_uniform(r) > 0.5);
    for (size_t i = 0; i < t->n; i++) {
        t->a[2 * i] = 2 * test_random_normal(r);
        t->a[2 * i + 1] = 2 * test_random_normal(r);
        t->b[i] = hypot(x - t->a[2 * i], y - t->a[2 * i + 1]) + 0.2 * test_random_normal(r);
    }
}

/* A line with a bend: y = z[1] max(x - z[0], 0) */
static double stick_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 2, grad), s = 0.5;
    for (size_t i = 0; i < t->n; i++) {
        double on = fmax(t->a[i] - z[0], 0), r = (t->b[i] - z[1] * on) / s;
        sum -= r * r / 2 + log(s) + log_2pi / 2;
        if (grad && on > 0) {
            grad[0] -= r / s * z[1];
            grad[1] += r / s * on;
        }
    }
    return sum;
}

static void make_stick(trust_target *t, test_random *r)
{
    double at = between(r, -1.5, 1.5), slope = 1.5 * test_random_normal(r);
    t->n = 15;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, -2, 2);
        t->b[i] = slope * fmax(t->a[i] - at, 0) + 0.5 * test_random_normal(r);
    }
}

/* One unknown frequency: y = sin(z a) */
static double frequency_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 3, grad);
    for (size_t i = 0; i < t->n; i++) {
        double r = (t->b[i] - sin(z[0] * t->a[i])) / t->p[1];
        sum -= r * r / 2 + log(t->p[1]) + log_2pi / 2;
        if (grad)
            grad[0] += r / t->p[1] * t->a[i] * cos(z[0] * t->a[i]);
    }
    return sum;
}

static void make_frequency(trust_target *t, test_random *r)
{
    double f = 3 * test_random_normal(r);
    t->n = 15;
    t->p[1] = between(r, 0.5, 1.2);
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, 0, 6);
        t->b[i] = sin(f * t->a[i]) + t->p[1] * test_random_normal(r);
    }
}

/* b successes of 10; z = logit of the mean, log concentration */
static double shares_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 2, grad), m = 1 / (1 + exp(-z[0])), c = exp(z[1]), A = m * c, B = (1 - m) * c, n = 10;
    for (size_t i = 0; i < t->n; i++) {
        double y = t->b[i];
        sum += lgamma(y + A) - lgamma(A) + lgamma(n - y + B) - lgamma(B) - lgamma(n + c) + lgamma(c);
        if (grad) {
            double da = digamma(y + A) - digamma(A), db = digamma(n - y + B) - digamma(B),
                   dc = digamma(c) - digamma(n + c);
            grad[0] += c * m * (1 - m) * (da - db);
            grad[1] += A * da + B * db + c * dc;
        }
    }
    return sum;
}

static void make_shares(trust_target *t, test_random *r)
{
    double middle = test_random_normal(r), spread = between(r, 0.1, 1.5);
    t->n = 8;
    for (size_t i = 0; i < t->n; i++) {
        double p = 1 / (1 + exp(-middle - spread * test_random_normal(r)));
        for (size_t k = 0; k < 10; k++)
            t->b[i] += test_random_uniform(r) < p;
    }
}

/* (1 - w) N(0, 1) + w N(z[1], 1), w = 1 / (1 + exp(-z[0])) */
static double parts_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 3, grad), w = 1 / (1 + exp(-z[0]));
    for (size_t i = 0; i < t->n; i++) {
        double y = t->b[i], d = y - z[1], top = fmin(y * y, d * d), p = (1 - w) * exp((top - y * y) / 2),
               q = w * exp((top - d * d) / 2);
        sum += log(p + q) - top / 2 - log_2pi / 2;
        if (grad) {
            grad[0] += (q * (1 - w) - p * w) / (p + q);
            grad[1] += q / (p + q) * d;
        }
    }
    return sum;
}

static void make_parts(trust_target *t, test_random *r)
{
    double w = test_random_uniform(r), m = 3 * test_random_normal(r);
    t->n = 20;
    for (size_t i = 0; i < t->n; i++)
        t->b[i] = test_random_normal(r) + (test_random_uniform(r) < w ? m : 0);
}

/* y = exp(z[0]) a / (exp(z[1]) + a) */
static double dose_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 2, grad), s = 0.15;
    for (size_t i = 0; i < t->n; i++) {
        double k = exp(z[1]), y = exp(z[0]) * t->a[i] / (k + t->a[i]), r = (t->b[i] - y) / s;
        sum -= r * r / 2 + log(s) + log_2pi / 2;
        if (grad) {
            grad[0] += r / s * y;
            grad[1] -= r / s * y * k / (k + t->a[i]);
        }
    }
    return sum;
}

static void make_dose(trust_target *t, test_random *r)
{
    double v = exp(0.5 * test_random_normal(r)), k = exp(test_random_normal(r));
    t->n = 8;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, 0.1, 3);
        t->b[i] = v * t->a[i] / (k + t->a[i]) + 0.15 * test_random_normal(r);
    }
}

/* y = z[0] z[1]: two bent modes */
static double factors_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 2, grad), s = t->p[1];
    for (size_t i = 0; i < t->n; i++) {
        double r = (t->b[i] - z[0] * z[1]) / s;
        sum -= r * r / 2 + log(s) + log_2pi / 2;
        if (grad) {
            grad[0] += r / s * z[1];
            grad[1] += r / s * z[0];
        }
    }
    return sum;
}

static void make_factors(trust_target *t, test_random *r)
{
    double product = 2 * test_random_normal(r);
    t->n = 3;
    t->p[1] = between(r, 0.3, 1);
    for (size_t i = 0; i < t->n; i++)
        t->b[i] = product + t->p[1] * test_random_normal(r);
}

/* Angles: cosines of z - b */
static double angle_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = priors(t, z, 5, grad);
    for (size_t i = 0; i < t->n; i++) {
        sum += 2 * cos(z[0] - t->b[i]);
        if (grad)
            grad[0] -= 2 * sin(z[0] - t->b[i]);
    }
    return sum;
}

static void make_angle(trust_target *t, test_random *r)
{
    double at = between(r, -3, 3);
    t->n = 3;
    for (size_t i = 0; i < t->n; i++)
        t->b[i] = at + test_random_normal(r);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static void posterior(trust_target *t, uint64_t seed, size_t dim, wvgd_point_density *density,
                      void (*make)(trust_target *t, test_random *r), double width)
{
    test_random r = test_random_seed(seed);
    double box[2][2] = {{-width, width}, {-width, width}};
    t->dim = dim;
    t->density = density;
    t->a = take(40);
    t->b = take(40);
    make(t, &r);
    trust_quadrature(t, box);
}

#define POSTERIOR(name, dim, width)                                                                                    \
    static void name(trust_target *t, uint64_t seed)                                                                   \
    {                                                                                                                  \
        posterior(t, seed, dim, name##_density, make_##name, width);                                                   \
    }
POSTERIOR(robust, 2, 30)
POSTERIOR(probit, 2, 18)
POSTERIOR(weibull, 2, 8)
POSTERIOR(counts, 2, 18)
POSTERIOR(series, 2, 9)
POSTERIOR(process, 2, 9)
POSTERIOR(three, 2, 30)
POSTERIOR(ranges, 2, 15)
POSTERIOR(stick, 2, 14)
POSTERIOR(frequency, 1, 25)
POSTERIOR(shares, 2, 13)
POSTERIOR(parts, 2, 20)
POSTERIOR(dose, 2, 12)
POSTERIOR(factors, 2, 13)
POSTERIOR(angle, 1, 45)

static void faint_line(trust_target *t, uint64_t seed)
{
    trust_spectrum(t, seed, 1, 25, 2);
}

static void sharp_lines(trust_target *t, uint64_t seed)
{
    trust_spectrum(t, seed, 2, 40, 0.6);
}

static void faint_lines(trust_target *t, uint64_t seed)
{
    trust_spectrum(t, seed, 2, 30, 1.5);
}

const trust_kind trust_others[] = {
    {"labels of 4 groups, D = 8", TRUST_COUNTED, labels4},
    {"slab 30 %, spike 1/4, D = 8", TRUST_COUNTED, slab8},
    {"slab 20 %, spike 1/30, D = 3", TRUST_COUNTED, slab3},
    {"slab 70 %, spike 1/20 off, D = 12", TRUST_HIDDEN, slab12},
    {"mixture of 8, D = 8", TRUST_COUNTED, modes8},
    {"mixture of 12, D = 3", TRUST_COUNTED, modes3},
    {"97 % and 3 %, D = 6", TRUST_COUNTED, unequal},
    {"cross, D = 4", TRUST_COUNTED, cross},
    {"student, 2 df, D = 4", TRUST_COUNTED, student_2},
    {"log half-Cauchys, D = 6", TRUST_COUNTED, half_cauchys},
    {"log half-t's, D = 4", TRUST_COUNTED, half_ts},
    {"gammas at a wall, D = 4", TRUST_COUNTED, gammas},
    {"gammas infinite at a wall, D = 2", TRUST_COUNTED, infinite},
    {"betas in a box, D = 3", TRUST_COUNTED, betas},
    {"kinks, D = 12", TRUST_COUNTED, laplaces},
    {"flat tops, D = 4", TRUST_COUNTED, flats},
    {"sharp tops, D = 4", TRUST_COUNTED, sharps},
    {"students, 3..5 df, D = 4", TRUST_COUNTED, student_products},
    {"skew normals, D = 8", TRUST_COUNTED, skews},
    {"narrow beside wide an axis, D = 2", TRUST_COUNTED, besides},
    {"tent, D = 3", TRUST_COUNTED, tent},
    {"robust regression, D = 2", TRUST_COUNTED, robust},
    {"probit regression, D = 2", TRUST_COUNTED, probit},
    {"weibull survival, D = 2", TRUST_COUNTED, weibull},
    {"overdispersed counts, D = 2", TRUST_COUNTED, counts},
    {"autoregression, D = 2", TRUST_COUNTED, series},
    {"gaussian process, D = 2", TRUST_COUNTED, process},
    {"three observations, D = 2", TRUST_COUNTED, three},
    {"position by ranges, D = 2", TRUST_COUNTED, ranges},
    {"broken stick, D = 2", TRUST_COUNTED, stick},
    {"frequency, D = 1", TRUST_COUNTED, frequency},
    {"beta-binomial, D = 2", TRUST_COUNTED, shares},
    {"weight and mean of a part, D = 2", TRUST_COUNTED, parts},
    {"dose and response, D = 2", TRUST_COUNTED, dose},
    {"product of two, D = 2", TRUST_COUNTED, factors},
    {"angle, D = 1", TRUST_COUNTED, angle},
    {"spectrum, faint line, D = 4", TRUST_COUNTED, faint_line},
    {"spectrum, 2 sharp lines, D = 7", TRUST_COUNTED, sharp_lines},
    {"spectrum, 2 faint lines, D = 7", TRUST_COUNTED, faint_lines},
    {"3 modes far apart, D = 6", TRUST_COUNTED, trust_far},
    {"damped oscillation, D = 6", TRUST_COUNTED, trust_wave},
};
const size_t trust_other_count = sizeof trust_others / sizeof *trust_others;
