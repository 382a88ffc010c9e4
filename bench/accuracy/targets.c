/* targets.c - the densities of the accuracy tables, with gradients. */
#include "targets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double half_log_2pi = 0.918938533204672741780, pi = 3.141592653589793238463;

double bench_uniform(bench_random *r)
{
    r->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = r->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

double bench_normal(bench_random *r)
{
    double u = bench_uniform(r), v = bench_uniform(r);
    return sqrt(-2 * log(u)) * cos(2 * pi * v);
}

static bench_target *new_target(size_t dim, double log_z, wvgd_point_density *density)
{
    bench_target *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->dim = dim;
    t->log_z = log_z;
    t->density = density;
    t->spare = calloc(4 * dim + 64, sizeof(double));
    if (!t->spare)
        abort();
    return t;
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */
static double mixture(void *self, const double *z, double *grad)
{
    bench_target *t = self;
    size_t D = t->dim;
    double y[D], g[D], top = -INFINITY, total = 0, term[t->K], half = (t->nu + (double)D) / 2;
    if (grad)
        memset(grad, 0, D * sizeof *grad);
    double all[t->K * D];
    for (size_t k = 0; k < t->K; k++) {
        const double *L = t->root + k * D * D;
        double r = 0, det = 0;
        for (size_t i = 0; i < D; i++) {
            double s = z[i] - t->mean[k * D + i];
            for (size_t j = 0; j < i; j++)
                s -= L[i * D + j] * y[j];
            y[i] = s / L[i * D + i];
            r += y[i] * y[i];
            det += log(L[i * D + i]);
        }
        double slope = 1;
        if (t->nu > 0) {
            term[k] = t->log_w[k] - det - half * log1p(r / t->nu) + lgamma(half) - lgamma(t->nu / 2) -
                      (double)D / 2 * log(t->nu * pi);
            slope = (t->nu + (double)D) / (t->nu + r);
        } else
            term[k] = t->log_w[k] - det - r / 2 - (double)D * half_log_2pi;
        for (size_t i = D; i-- > 0;) { /* g = -L'^-1 y */
            double s = y[i];
            for (size_t j = i + 1; j < D; j++)
                s -= L[j * D + i] * g[j];
            g[i] = s / L[i * D + i];
        }
        for (size_t i = 0; i < D; i++)
            all[k * D + i] = -slope * g[i];
        top = fmax(top, term[k]);
    }
    for (size_t k = 0; k < t->K; k++)
        total += exp(term[k] - top);
    for (size_t k = 0; grad && k < t->K; k++)
        for (size_t i = 0; i < D; i++)
            grad[i] += exp(term[k] - top) / total * all[k * D + i];
    return top + log(total);
}

/* Orthonormal rows Q[D][D] by Gram and Schmidt. */
static void random_axes(bench_random *r, size_t D, double *Q)
{
    for (size_t i = 0; i < D; i++) {
        for (size_t k = 0; k < D; k++)
            Q[i * D + k] = bench_normal(r);
        for (size_t j = 0; j < i; j++) {
            double dot = 0;
            for (size_t k = 0; k < D; k++)
                dot += Q[i * D + k] * Q[j * D + k];
            for (size_t k = 0; k < D; k++)
                Q[i * D + k] -= dot * Q[j * D + k];
        }
        double norm = 0;
        for (size_t k = 0; k < D; k++)
            norm += Q[i * D + k] * Q[i * D + k];
        for (size_t k = 0; k < D; k++)
            Q[i * D + k] /= sqrt(norm);
    }
}

/* Lower Cholesky factor of a random covariance: eigenvalues in 0.5..1.5 about random axes, times size^2. */
static void random_root(bench_random *r, size_t D, double size, double *L)
{
    double *Q = calloc(2 * D * D, sizeof *Q), *C = Q + D * D;
    if (!Q)
        abort();
    random_axes(r, D, Q);
    for (size_t i = 0; i < D; i++) {
        double e = size * size * (0.5 + bench_uniform(r));
        for (size_t a = 0; a < D; a++)
            for (size_t b = 0; b < D; b++)
                C[a * D + b] += e * Q[i * D + a] * Q[i * D + b];
    }
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j <= i; j++) {
            double s = C[i * D + j];
            for (size_t k = 0; k < j; k++)
                s -= L[i * D + k] * L[j * D + k];
            L[i * D + j] = i == j ? sqrt(s) : s / L[j * D + j];
        }
    free(Q);
}

static bench_target *new_mixture(size_t D, size_t K, double nu)
{
    bench_target *t = new_target(D, 0, mixture);
    t->K = K;
    t->nu = nu;
    t->log_w = calloc(K, sizeof(double));
    t->mean = calloc(K * D, sizeof(double));
    t->root = calloc(K * D * D, sizeof(double));
    if (!t->log_w || !t->mean || !t->root)
        abort();
    return t;
}

bench_target *bench_mixture(uint64_t seed, size_t D, size_t K, double box, double low, double high, double nu)
{
    bench_random r = {seed * 7919 + D * 104729 + K};
    bench_target *t = new_mixture(D, K, nu);
    double total = 0;
    for (size_t k = 0; k < K; k++) {
        for (size_t i = 0; i < D; i++)
            t->mean[k * D + i] = box * (2 * bench_uniform(&r) - 1);
        random_root(&r, D, pow(10, low + (high - low) * bench_uniform(&r)), t->root + k * D * D);
        total += t->log_w[k] = 0.1 + bench_uniform(&r);
    }
    for (size_t k = 0; k < K; k++)
        t->log_w[k] = log(t->log_w[k] / total);
    return t;
}

bench_target *bench_star(void)
{
    bench_target *t = new_mixture(2, 7, 0);
    for (size_t k = 0; k < 7; k++) {
        double a = 2 * pi * (double)k / 7, c = cos(a), s = sin(a), v1 = 1, v2 = 0.01;
        double C[3] = {c * c * v1 + s * s * v2, c * s * (v1 - v2), s * s * v1 + c * c * v2}, *L = t->root + 4 * k;
        t->mean[2 * k] = 1.5 * c;
        t->mean[2 * k + 1] = 1.5 * s;
        L[0] = sqrt(C[0]);
        L[2] = C[1] / L[0];
        L[3] = sqrt(C[2] - L[2] * L[2]);
        t->log_w[k] = -log(7);
    }
    return t;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
static double rosenbrock(void *self, const double *z, double *grad)
{
    double a = 1 - z[0], b = z[1] - z[0] * z[0];
    (void)self;
    if (grad) {
        grad[0] = a + 200 * b * z[0];
        grad[1] = -100 * b;
    }
    return -0.5 * (a * a + 100 * b * b);
}

/* Two shells of radius 2 and width 0.1 around +-3.5 on the first axis, each a normal density of the distance. */
static double shells(void *self, const double *z, double *grad)
{
    const bench_target *t = self;
    double term[2], slope[2][32];
    for (int k = 0; k < 2; k++) {
        double r = 0, d[32];
        for (size_t i = 0; i < t->dim; i++) {
            d[i] = z[i] - (i == 0 ? (k ? 3.5 : -3.5) : 0);
            r += d[i] * d[i];
        }
        r = sqrt(r);
        term[k] = -(r - 2) * (r - 2) / (2 * 0.01) - log(0.1) - half_log_2pi;
        for (size_t i = 0; i < t->dim; i++)
            slope[k][i] = r > 0 ? -(r - 2) / 0.01 * d[i] / r : 0;
    }
    double top = fmax(term[0], term[1]), w0 = exp(term[0] - top), w1 = exp(term[1] - top);
    for (size_t i = 0; grad && i < t->dim; i++)
        grad[i] = (w0 * slope[0][i] + w1 * slope[1][i]) / (w0 + w1);
    return top + log(w0 + w1);
}

static double quartic(void *self, const double *z, double *grad)
{
    double f = z[1] * z[1] + 3 * z[0] * z[0] * (z[0] * z[0] - 1), r = 1 - f;
    (void)self;
    if (grad) {
        grad[0] = -z[0] + 100 * r * (12 * z[0] * z[0] * z[0] - 6 * z[0]);
        grad[1] = -z[1] + 100 * r * 2 * z[1];
    }
    return -0.5 * (z[0] * z[0] + z[1] * z[1]) - 2 * half_log_2pi - 50 * r * r - log(0.1) - half_log_2pi;
}

/* Neal's: v ~ N(0, 3^2), x_i ~ N(0, exp(v)). */
static double funnel(void *self, const double *z, double *grad)
{
    const bench_target *t = self;
    double v = z[0], lp = -v * v / 18 - log(3) - half_log_2pi, s = exp(-v), g = -v / 9;
    for (size_t i = 1; i < t->dim; i++) {
        lp += -0.5 * z[i] * z[i] * s - v / 2 - half_log_2pi;
        g += 0.5 * z[i] * z[i] * s - 0.5;
        if (grad)
            grad[i] = -z[i] * s;
    }
    if (grad)
        grad[0] = g;
    return lp;
}

/* Eight schools, centred: mu, log tau, theta. */
static double schools(void *self, const double *z, double *grad)
{
    static const double y[8] = {28, 8, -3, 7, -1, 1, 18, 12}, sigma[8] = {15, 10, 16, 11, 9, 11, 10, 18};
    double mu = z[0], lt = z[1], tau = exp(lt), q = tau * tau / 25, lp, gm, gt;
    (void)self;
    lp = -mu * mu / 50 - log(5) - half_log_2pi - log(pi * 5) - log1p(q) + lt;
    gm = -mu / 25;
    gt = 1 - 2 * q / (1 + q);
    for (int i = 0; i < 8; i++) {
        double d = (z[2 + i] - mu) / tau, e = (y[i] - z[2 + i]) / sigma[i];
        lp += -0.5 * d * d - lt - half_log_2pi - 0.5 * e * e - log(sigma[i]) - half_log_2pi;
        gm += d / tau;
        gt += d * d - 1;
        if (grad)
            grad[2 + i] = -d / tau + e / sigma[i];
    }
    if (grad) {
        grad[0] = gm;
        grad[1] = gt;
    }
    return lp;
}

/* A straight line through seven points: intercept, slope ~ N(0, 100^2), sigma ~ half-Cauchy(5), on the log scale. */
static double line7(void *self, const double *z, double *grad)
{
    static const double x[7] = {1.17, 2.97, 3.26, 4.69, 5.83, 6.00, 6.41},
                        y[7] = {78.93, 58.20, 67.47, 37.47, 45.65, 32.92, 29.97};
    double s = exp(z[2]), q = s * s / 25, lp = -(z[0] * z[0] + z[1] * z[1]) / 2e4 - 2 * log(100) - 2 * half_log_2pi,
           g0 = -z[0] / 1e4, g1 = -z[1] / 1e4, g2 = 1 - 2 * q / (1 + q);
    (void)self;
    lp += log(2 / (pi * 5)) - log1p(q) + z[2];
    for (int i = 0; i < 7; i++) {
        double r = (y[i] - z[0] - z[1] * x[i]) / s;
        lp += -0.5 * r * r - z[2] - half_log_2pi;
        g0 += r / s;
        g1 += r / s * x[i];
        g2 += r * r - 1;
    }
    if (grad) {
        grad[0] = g0;
        grad[1] = g1;
        grad[2] = g2;
    }
    return lp;
}

bench_target *bench_named(const char *name)
{
    static const struct {
        const char *name;
        size_t dim;
        double log_z;
        wvgd_point_density *density;
    } table[] = {
        {"rosenbrock", 2, -0.4647080, rosenbrock},
        {"shells2", 2, 3.2241714, shells},
        {"shells5", 5, 6.7509320, shells},
        {"quartic", 2, -1.864884, quartic},
        {"funnel", 10, 0, funnel},
        {"schools", 10, -32.0044945, schools},
        {"line7", 3, NAN, line7},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            return new_target(table[i].dim, table[i].log_z, table[i].density);
    return NULL;
}

/* ---- other coordinates ------------------------------------------------------------------------------------------- */
void bench_inside(const bench_target *t, const double *z, double *x)
{
    for (size_t i = 0; i < t->dim; i++) {
        x[i] = t->inverse ? 0 : z[i];
        for (size_t k = 0; t->inverse && k < t->dim; k++)
            x[i] += t->inverse[i * t->dim + k] * z[k];
    }
}

static double mapped(void *self, const double *z, double *grad)
{
    bench_target *t = self;
    double x[t->dim], g[t->dim];
    bench_inside(t, z, x);
    double log_p = t->inner->density(t->inner, x, grad ? g : NULL) - t->log_det;
    for (size_t k = 0; grad && k < t->dim; k++) {
        grad[k] = 0;
        for (size_t i = 0; i < t->dim; i++)
            grad[k] += t->inverse[i * t->dim + k] * g[i];
    }
    return log_p;
}

static bench_target *new_mapped(bench_target *inner)
{
    bench_target *t = new_target(inner->dim, inner->log_z, mapped);
    t->inner = inner;
    t->inverse = calloc(inner->dim * inner->dim, sizeof *t->inverse);
    if (!t->inverse)
        abort();
    return t;
}

bench_target *bench_scaled(bench_target *inner, const double *scale)
{
    bench_target *t = new_mapped(inner);
    for (size_t i = 0; i < t->dim; i++) {
        t->inverse[i * t->dim + i] = 1 / scale[i];
        t->log_det += log(scale[i]);
    }
    return t;
}

bench_target *bench_sheared(bench_target *inner, uint64_t seed, double condition)
{
    bench_target *t = new_mapped(inner);
    size_t D = t->dim;
    bench_random r = {seed};
    double *Q = calloc(2 * D * D, sizeof *Q), *P = Q + D * D;
    if (!Q)
        abort();
    random_axes(&r, D, Q);
    random_axes(&r, D, P);
    for (size_t k = 0; k < D; k++) {
        double axis = pow(condition, D > 1 ? (double)k / (double)(D - 1) - 0.5 : 0);
        t->log_det += log(axis);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                t->inverse[i * D + j] += Q[k * D + i] * P[k * D + j] / axis;
    }
    free(Q);
    return t;
}

wvgd_model bench_model(bench_target *t)
{
    wvgd_model model;
    if (wvgd_model_pointwise(&model, t->dim, t->density, t, true) != 0)
        abort();
    return model;
}

void bench_free(bench_target *t)
{
    if (!t)
        return;
    bench_free(t->inner);
    free(t->log_w);
    free(t->mean);
    free(t->root);
    free(t->inverse);
    free(t->spare);
    free(t);
}
