/* targets.c - densities in closed form: mixtures, products of one-dimensional densities, and bent ones. */
#include "targets.h"
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test_random.h"

static const double log_2pi = 1.8378770664093453;
const double trust_level[TRUST_LEVELS] = {0.05, 0.5, 0.95};

void *trust_take(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

static double *take(size_t n)
{
    return trust_take(n, sizeof(double));
}

static double between(test_random *r, double low, double high)
{
    return low + (high - low) * test_random_uniform(r);
}

/* Densities, in 1/sd, below which there is no quantile that draws could tell: a gap between modes. */
static const double gap = 0.01;

/* Mass up to point i: by the trapezoidal rule with its first correction; before: of the points before it. */
static double mass_up_to(size_t n, const double *m, size_t i, double before)
{
    double left = i ? m[i - 1] : m[i], right = i + 1 < n ? m[i + 1] : m[i];
    return before + m[i] / 2 - (right - left) / 24;
}

trust_marginal trust_marginal_of(size_t n, const double *x, const double *m)
{
    double sum = 0, mean = 0, var = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        sum += m[i];
        mean += m[i] * x[i];
    }
    mean /= sum;
    for (size_t i = 0; i < n; i++)
        var += m[i] * (x[i] - mean) * (x[i] - mean) / sum;
    trust_marginal t = {.mean = mean, .sd = sqrt(var)};
    size_t level = 0;
    for (size_t i = 0; i + 1 < n && level < TRUST_LEVELS; before += m[i++]) { /* the density is linear in between */
        double here = mass_up_to(n, m, i, before), next = mass_up_to(n, m, i + 1, before + m[i]), h = x[i + 1] - x[i];
        for (; level < TRUST_LEVELS && next >= trust_level[level] * sum; level++) {
            double more = fmax(trust_level[level] * sum - here, 0), d = m[i] * m[i] + 2 * (m[i + 1] - m[i]) * more;
            t.quantile[level] = m[i] / (h * sum) * t.sd > gap ? x[i] + h * 2 * more / (m[i] + sqrt(fmax(d, 0))) : NAN;
        }
    }
    return t;
}

/* ---- mixtures of Gaussians or Student-t's: a log weights[K], b means [K][D], c Cholesky factors [K][D][D],
 * p[0] degrees of freedom or 0 ------------------------------------------------------------------------------------- */
void trust_mixture(trust_target *t, size_t D, size_t K)
{
    t->dim = D;
    t->K = K;
    t->a = take(K);
    t->b = take(K * D);
    t->c = take(K * D * D);
    t->work = take(K * D + K);
}

static double log_constant(const trust_target *t)
{
    double D = (double)t->dim, nu = t->p[0];
    return nu > 0 ? lgamma((nu + D) / 2) - lgamma(nu / 2) - D / 2 * log(nu * M_PI) : -D / 2 * log_2pi;
}

static double mixture_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    size_t D = t->dim;
    double nu = t->p[0], top = -INFINITY, sum = 0, *part = t->work + t->K * D, constant = log_constant(t);
    for (size_t k = 0; k < t->K; k++) {
        const double *L = t->c + k * D * D;
        double *y = t->work + k * D, r = 0, log_det = 0;
        for (size_t i = 0; i < D; i++) {
            double s = z[i] - t->b[k * D + i];
            for (size_t l = 0; l < i; l++)
                s -= L[i * D + l] * y[l];
            y[i] = s / L[i * D + i];
            r += y[i] * y[i];
            log_det += log(L[i * D + i]);
        }
        double by = nu > 0 ? (nu + (double)D) / (nu + r) : 1; /* - d log / d (r / 2) */
        part[k] = t->a[k] + constant - log_det - (nu > 0 ? (nu + (double)D) / 2 * log1p(r / nu) : r / 2);
        for (size_t i = D; i-- > 0;) { /* y becomes the gradient of the part */
            double s = y[i];
            for (size_t l = i + 1; l < D; l++)
                s -= L[l * D + i] * y[l];
            y[i] = s / L[i * D + i];
        }
        for (size_t i = 0; i < D; i++)
            y[i] *= -by;
        top = fmax(top, part[k]);
    }
    if (!isfinite(top))
        return -INFINITY;
    for (size_t k = 0; k < t->K; k++)
        sum += exp(part[k] - top);
    for (size_t i = 0; grad && i < D; i++)
        grad[i] = 0;
    for (size_t k = 0; grad && k < t->K; k++)
        for (size_t i = 0; i < D; i++)
            grad[i] += exp(part[k] - top) / sum * t->work[k * D + i];
    return top + log(sum);
}

/* L L' with random axes and standard deviations sd[D]. */
void trust_random_root(test_random *r, size_t D, const double *sd, double *L)
{
    double *Q = take(D * D), *C = take(D * D);
    test_random_normals(r, D * D, Q);
    for (size_t i = 0; i < D; i++) { /* orthonormal rows */
        for (size_t l = 0; l < i; l++) {
            double dot = 0;
            for (size_t k = 0; k < D; k++)
                dot += Q[i * D + k] * Q[l * D + k];
            for (size_t k = 0; k < D; k++)
                Q[i * D + k] -= dot * Q[l * D + k];
        }
        double norm = 0;
        for (size_t k = 0; k < D; k++)
            norm += Q[i * D + k] * Q[i * D + k];
        for (size_t k = 0; k < D; k++)
            Q[i * D + k] /= sqrt(norm);
    }
    for (size_t i = 0; i < D; i++)
        for (size_t l = 0; l < D; l++)
            for (size_t k = 0; k < D; k++)
                C[i * D + l] += Q[k * D + i] * Q[k * D + l] * sd[k] * sd[k];
    for (size_t i = 0; i < D; i++)
        for (size_t l = 0; l <= i; l++) {
            double s = C[i * D + l];
            for (size_t k = 0; k < l; k++)
                s -= L[i * D + k] * L[l * D + k];
            L[i * D + l] = i == l ? sqrt(s) : s / L[l * D + l];
        }
    free(Q);
    free(C);
}

/* sd, or scale, of component k along coordinate i. */
static double width_of(const trust_target *t, size_t k, size_t i)
{
    const double *L = t->c + (k * t->dim + i) * t->dim;
    double v = 0;
    for (size_t l = 0; l <= i; l++)
        v += L[l] * L[l];
    return sqrt(v);
}

/* Probability that coordinate i is at most x. */
static double mixture_below(const trust_target *t, size_t i, double x)
{
    double below = 0, sum = 0, nu = t->p[0];
    for (size_t k = 0; k < t->K; k++) {
        double y = (x - t->b[k * t->dim + i]) / width_of(t, k, i), w = exp(t->a[k]);
        below += w * (nu > 0 ? gsl_cdf_tdist_P(y, nu) : gsl_cdf_ugaussian_P(y));
        sum += w;
    }
    return below / sum;
}

/* Means, sds and quantiles of all coordinates. */
static void know_mixture(trust_target *t)
{
    double nu = t->p[0];
    t->known = t->dim;
    t->marginal = trust_take(t->dim, sizeof *t->marginal);
    for (size_t i = 0; i < t->dim; i++) {
        double sum = 0, mean = 0, square = 0, low = INFINITY, high = -INFINITY;
        for (size_t k = 0; k < t->K; k++) {
            double w = exp(t->a[k]), m = t->b[k * t->dim + i], s = width_of(t, k, i);
            sum += w;
            mean += w * m;
            square += w * (m * m + s * s * (nu > 0 ? nu / (nu - 2) : 1));
            low = fmin(low, m - 60 * s);
            high = fmax(high, m + 60 * s);
        }
        t->marginal[i].mean = nu > 0 && nu <= 1 ? NAN : mean / sum;
        t->marginal[i].sd = nu > 0 && nu <= 2 ? NAN : sqrt(square / sum - mean * mean / (sum * sum));
        for (size_t q = 0; q < TRUST_LEVELS; q++) { /* by bisection */
            double a = low, b = high;
            for (int step = 0; step < 60; step++) {
                double middle = (a + b) / 2;
                *(mixture_below(t, i, middle) < trust_level[q] ? &a : &b) = middle;
            }
            double step = isfinite(t->marginal[i].sd) ? 0.01 * t->marginal[i].sd : 0.01 * width_of(t, 0, i);
            bool told = mixture_below(t, i, a + step) - mixture_below(t, i, a - step) > 0.02 * gap;
            t->marginal[i].quantile[q] = told ? (a + b) / 2 : NAN;
        }
    }
}

/* Weights are made to sum to exp(log_z). */
void trust_mixture_end(trust_target *t, double log_z)
{
    double sum = 0;
    for (size_t k = 0; k < t->K; k++)
        sum += exp(t->a[k]);
    for (size_t k = 0; k < t->K; k++)
        t->a[k] += log_z - log(sum);
    t->log_z = log_z;
    t->density = mixture_density;
    know_mixture(t);
}

/* K components with means uniform in a box and sds of one size each, 10^U(low, high). */
void trust_random_mixture(trust_target *t, uint64_t seed, size_t D, size_t K, double box, double low, double high,
                          double nu)
{
    test_random r = test_random_seed(seed);
    double *sd = take(D);
    trust_mixture(t, D, K);
    t->p[0] = nu;
    for (size_t k = 0; k < K; k++) {
        double size = pow(10, between(&r, low, high));
        t->a[k] = log(between(&r, 0.1, 1));
        for (size_t i = 0; i < D; i++) {
            t->b[k * D + i] = between(&r, -box, box);
            sd[i] = size * between(&r, 0.6, 1.4);
        }
        trust_random_root(&r, D, sd, t->c + k * D * D);
    }
    free(sd);
    trust_mixture_end(t, between(&r, -50, 50));
}

/* One Gaussian or Student-t; sds from 1 down to condition^-1/2. */
static void one_ellipse(trust_target *t, uint64_t seed, size_t D, double condition, double nu)
{
    test_random r = test_random_seed(seed);
    double *sd = take(D);
    trust_mixture(t, D, 1);
    t->p[0] = nu;
    for (size_t i = 0; i < D; i++) {
        sd[i] = pow(condition, -0.5 * (double)i / (double)(D > 1 ? D - 1 : 1));
        t->b[i] = test_random_normal(&r);
    }
    trust_random_root(&r, D, sd, t->c);
    free(sd);
    trust_mixture_end(t, between(&r, -50, 50));
}

static void gaussian3(trust_target *t, uint64_t seed)
{
    one_ellipse(t, seed, 3, 100, 0);
}

static void gaussian10(trust_target *t, uint64_t seed)
{
    one_ellipse(t, seed, 10, 1e4, 0);
}

static void gaussian30(trust_target *t, uint64_t seed)
{
    one_ellipse(t, seed, 30, 30, 0);
}

static void scaled(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    trust_mixture(t, 8, 1);
    for (size_t i = 0; i < 8; i++) {
        double s = pow(10, between(&r, -5, 5));
        t->b[i] = s * 3 * test_random_normal(&r);
        t->c[i * 8 + i] = s;
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

static void student5(trust_target *t, uint64_t seed)
{
    one_ellipse(t, seed, 6, 10, 5);
}

static void student3(trust_target *t, uint64_t seed)
{
    one_ellipse(t, seed, 3, 10, 3);
}

static void paper(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    trust_mixture(t, 1, 5);
    for (size_t k = 0; k < 5; k++) {
        t->a[k] = log(test_random_uniform(&r));
        t->b[k] = 1.5 * test_random_normal(&r);
        t->c[k] = between(&r, 0.1, 1);
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

static void mixture2(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 2, 5, 10, 0, 0, 0);
}

static void mixture5(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 5, 4, 8, 0, 0, 0);
}

static void mixture10(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 10, 3, 5, 0, 0, 0);
}

static void overlapping(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 4, 6, 2, -0.2, 0.2, 0);
}

static void narrow2(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 2, 4, 10, -1, 0.25, 0);
}

static void narrow5(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 5, 4, 8, -0.35, 0.15, 0);
}

static void students(trust_target *t, uint64_t seed)
{
    trust_random_mixture(t, seed, 4, 4, 10, 0, 0, 4);
}

/* Images of a Gaussian under all permutations of `labels` blocks of two coordinates: (m_1 .. m_L, s_1 .. s_L). */
static void label_switching(trust_target *t, uint64_t seed, size_t labels)
{
    static const size_t of2[][3] = {{0, 1, 2}, {1, 0, 2}},
                        of3[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    test_random r = test_random_seed(seed);
    size_t D = 2 * labels, K = labels == 2 ? 2 : 6;
    double *A = take(D * D), *m = take(D), sd[6];
    trust_mixture(t, D, K);
    for (size_t i = 0; i < D; i++) {
        m[i] = i < labels ? 3 * (double)i + between(&r, -0.8, 0.8) : 0.5 * test_random_normal(&r);
        sd[i] = between(&r, 0.1, 0.5);
    }
    for (size_t k = 0; k < K; k++) {
        const size_t *to = labels == 2 ? of2[k] : of3[k];
        double *L = t->c + k * D * D;
        if (!k)
            trust_random_root(&r, D, sd, A);
        for (size_t i = 0; i < D; i++)
            t->b[k * D + (i < labels ? to[i] : labels + to[i - labels])] = m[i];
        for (size_t i = 0; i < D; i++) /* P A A' P', and its root */
            for (size_t l = 0; l < D; l++) {
                size_t pi = i < labels ? to[i] : labels + to[i - labels],
                       pl = l < labels ? to[l] : labels + to[l - labels];
                double s = 0;
                for (size_t g = 0; g < D; g++)
                    s += A[i * D + g] * A[l * D + g];
                L[pi * D + pl] = s;
            }
        for (size_t i = 0; i < D; i++)
            for (size_t l = 0; l < D; l++) {
                double s = L[i * D + l];
                for (size_t g = 0; l <= i && g < l; g++)
                    s -= L[i * D + g] * L[l * D + g];
                L[i * D + l] = l > i ? L[i * D + l] : i == l ? sqrt(s) : s / L[l * D + l];
            }
    }
    free(A);
    free(m);
    trust_mixture_end(t, between(&r, -50, 50));
}

static void labels2(trust_target *t, uint64_t seed)
{
    label_switching(t, seed, 2);
}

static void labels3(trust_target *t, uint64_t seed)
{
    label_switching(t, seed, 3);
}

/* A slab with so much of the mass around a spike `ratio` times narrower, `off` sds of the slab from its middle. */
void trust_slab(trust_target *t, uint64_t seed, size_t D, double share, double ratio, double off)
{
    test_random r = test_random_seed(seed);
    trust_mixture(t, D, 2);
    t->a[0] = log(share);
    t->a[1] = log(1 - share);
    for (size_t i = 0; i < D; i++) {
        t->b[i] = test_random_normal(&r);
        t->b[D + i] = t->b[i] + off * test_random_normal(&r);
        t->c[i * D + i] = between(&r, 0.8, 1.2);
        t->c[D * D + i * D + i] = t->c[i * D + i] / ratio;
    }
    trust_mixture_end(t, between(&r, -50, 50));
}

static void slab20(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 20, 0.5, 10, 0);
}

static void slab20_thin(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 20, 0.01, 10, 0);
}

static void slab5(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 5, 0.5, 10, 0);
}

static void slab10(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 10, 0.9, 5, 0);
}

static void hidden(trust_target *t, uint64_t seed)
{
    trust_slab(t, seed, 5, 0.5, 100, 0.6);
}

/* ---- products of one-dimensional densities: a shifts, b scales, c a parameter a coordinate ----------------------- */
static double p_laplace(double x, double shape, double *slope)
{
    double rate = x > 0 ? shape : 1 / shape; /* asymmetric, with a kink at 0 */
    *slope = x > 0 ? -rate : rate;
    return -rate * fabs(x) - log(1 / shape + shape);
}

static double p_truncated(double x, double shape, double *slope)
{
    *slope = -x; /* normal above `shape` */
    return x < shape ? -INFINITY : -x * x / 2 - log_2pi / 2 - log(erfc(shape / M_SQRT2) / 2);
}

static double p_exponential(double x, double shape, double *slope)
{
    (void)shape;
    *slope = -1;
    return x < 0 ? -INFINITY : -x;
}

static double p_uniform(double x, double shape, double *slope)
{
    (void)shape;
    *slope = 0;
    return x < 0 || x > 1 ? -INFINITY : 0;
}

static double p_log_gamma(double x, double shape, double *slope)
{
    *slope = shape - exp(x);
    return shape * x - exp(x) - lgamma(shape);
}

static double p_logit_beta(double x, double shape, double *slope)
{
    double a = shape, b = 2, u = 1 / (1 + exp(-x)); /* Beta(shape, 2) of 1/(1 + exp(-x)) */
    *slope = a - (a + b) * u;
    return a * x - (a + b) * (fmax(x, 0) + log1p(exp(-fabs(x)))) + lgamma(a + b) - lgamma(a) - lgamma(b);
}

static double p_bimodal(double x, double shape, double *slope)
{
    double a = -(x + 1) * (x + 1) * 8, b = -(x - 1) * (x - 1) * 8, top = fmax(a, b), /* sds 1/4 */
        p = (1 - shape) * exp(a - top), q = shape * exp(b - top);
    *slope = (-16 * (x + 1) * p - 16 * (x - 1) * q) / (p + q);
    return top + log(p + q) - log_2pi / 2 + log(4);
}

static double p_quartic(double x, double shape, double *slope)
{
    (void)shape;
    *slope = -4 * x * x * x;
    return -x * x * x * x - log(2 * tgamma(1.25));
}

static double p_cauchy(double x, double shape, double *slope)
{
    (void)shape;
    *slope = -2 * x / (1 + x * x);
    return -log1p(x * x) - log(M_PI);
}

static const trust_line laplace = {p_laplace, -80, 80}, truncated = {p_truncated, -4, 12},
                        exponential = {p_exponential, 0, 60}, uniform = {p_uniform, 0, 1},
                        log_gamma = {p_log_gamma, -60, 8}, logit_beta = {p_logit_beta, -60, 60},
                        bimodal = {p_bimodal, -5, 5}, quartic = {p_quartic, -5, 5}, cauchy = {p_cauchy, 0, 0};

static double product_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    const trust_line *of = t->what;
    double sum = t->log_z, slope;
    for (size_t i = 0; i < t->dim; i++) {
        sum += of->log_p((z[i] - t->a[i]) / t->b[i], t->c[i], &slope) - log(t->b[i]);
        if (grad)
            grad[i] = slope / t->b[i];
    }
    return sum;
}

static trust_marginal cauchy_marginal(double middle, double scale)
{
    trust_marginal m = {.mean = NAN, .sd = NAN};
    for (size_t l = 0; l < TRUST_LEVELS; l++)
        m.quantile[l] = middle + scale * tan(M_PI * (trust_level[l] - 0.5));
    return m;
}

void trust_product(trust_target *t, uint64_t seed, size_t D, const trust_line *of, double low, double high)
{
    enum { GRID = 40000 };
    test_random r = test_random_seed(seed);
    double *x = take(GRID), *m = take(GRID), slope;
    t->dim = D;
    t->what = of;
    t->density = product_density;
    t->log_z = between(&r, -50, 50);
    t->a = take(D);
    t->b = take(D);
    t->c = take(D);
    t->known = D;
    t->marginal = trust_take(D, sizeof *t->marginal);
    for (size_t i = 0; i < D; i++) {
        t->a[i] = 2 * test_random_normal(&r);
        t->b[i] = pow(10, between(&r, -1, 1));
        t->c[i] = between(&r, low, high);
        double from = of == &truncated ? t->c[i] : of->low, step = (of->high - from) / GRID;
        for (size_t g = 0; of != &cauchy && g < GRID; g++) {
            double at = from + ((double)g + 0.5) * step;
            x[g] = t->a[i] + t->b[i] * at;
            m[g] = exp(of->log_p(at, t->c[i], &slope));
        }
        t->marginal[i] = of == &cauchy ? cauchy_marginal(t->a[i], t->b[i]) : trust_marginal_of(GRID, x, m);
    }
    free(x);
    free(m);
}

static void kinks(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 5, &laplace, 1, 1);
}

static void uneven_kinks(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 3, &laplace, 0.5, 2);
}

static void walls(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 4, &truncated, -1, 1);
}

static void exponentials(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 3, &exponential, 0, 1);
}

static void box(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 2, &uniform, 0, 1);
}

static void log_gammas(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 6, &log_gamma, 0.5, 5);
}

static void logit_betas(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 5, &logit_beta, 0.5, 6);
}

static void bimodals(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 3, &bimodal, 0.2, 0.8);
}

static void quartics(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 6, &quartic, 0, 1);
}

static void cauchys(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 2, &cauchy, 0, 1);
}

static void more_cauchys(trust_target *t, uint64_t seed)
{
    trust_product(t, seed, 5, &cauchy, 0, 1);
}

/* ---- bent: p[0] the sd of z[0], p[1] the bend -------------------------------------------------------------------- */
static double banana_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double s = t->p[0], bend = t->p[1], x = z[0] / s, y = z[1] + bend * (z[0] * z[0] - s * s),
           sum = t->log_z - log(s) - (double)t->dim * log_2pi / 2 - x * x / 2 - y * y / 2;
    for (size_t i = 2; i < t->dim; i++) {
        sum -= z[i] * z[i] / 2;
        if (grad)
            grad[i] = -z[i];
    }
    if (grad) {
        grad[0] = -x / s - 2 * y * bend * z[0];
        grad[1] = -y;
    }
    return sum;
}

static trust_marginal normal_marginal(double sd)
{
    trust_marginal m = {.sd = sd};
    for (size_t l = 0; l < TRUST_LEVELS; l++)
        m.quantile[l] = gsl_cdf_gaussian_Pinv(trust_level[l], sd);
    return m;
}

/* Of z[1] = y - bend (z[0]^2 - sd^2), y standard normal: its density on a grid is a mean over z[0]. */
static trust_marginal bent_marginal(double sd, double bend)
{
    enum { GRID = 2000, INNER = 400 };
    double *x = take(GRID), *m = take(GRID), low = -bend * 63 * sd * sd - 8, high = bend * sd * sd + 8;
    for (size_t g = 0; g < GRID; g++) {
        x[g] = low + (high - low) * ((double)g + 0.5) / GRID;
        for (size_t i = 0; i < INNER; i++) {
            double u = 8 * ((double)i + 0.5) / INNER, y = x[g] + bend * sd * sd * (u * u - 1);
            m[g] += exp(-u * u / 2 - y * y / 2);
        }
    }
    trust_marginal of = trust_marginal_of(GRID, x, m);
    free(x);
    free(m);
    return of;
}

static void banana(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    t->dim = 3;
    t->p[0] = between(&r, 1, 2);
    t->p[1] = between(&r, 0.1, 0.6);
    t->log_z = between(&r, -50, 50);
    t->density = banana_density;
    t->known = 3;
    t->marginal = trust_take(3, sizeof *t->marginal);
    t->marginal[0] = normal_marginal(t->p[0]);
    t->marginal[1] = bent_marginal(t->p[0], t->p[1]);
    t->marginal[2] = normal_marginal(1);
}

/* p[0]: radius, p[1]: width; normalised by a closed form for the plane, far from the middle. */
static double shell_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double radius = hypot(z[0], z[1]), y = (radius - t->p[0]) / t->p[1];
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = radius > 0 ? -y / t->p[1] * z[i] / radius : 0;
    return t->log_z - y * y / 2 - log(t->p[2]);
}

/* Of a coordinate: columns of a grid over the plane. */
static trust_marginal shell_marginal(trust_target *t)
{
    enum { GRID = 800 };
    double *x = take(GRID), *m = take(GRID), end = t->p[0] + 8 * t->p[1];
    for (size_t g = 0; g < GRID; g++)
        x[g] = end * (2 * ((double)g + 0.5) / GRID - 1);
    for (size_t g = 0; g < GRID; g++)
        for (size_t i = 0; i < GRID; i++)
            m[g] += exp(shell_density(t, (double[]){x[g], x[i]}, NULL) - t->log_z);
    trust_marginal of = trust_marginal_of(GRID, x, m);
    free(x);
    free(m);
    return of;
}

static void shell(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    double radius = between(&r, 1.5, 3), width = radius * between(&r, 0.07, 0.15), y = radius / width;
    t->dim = 2;
    t->p[0] = radius;
    t->p[1] = width;
    /* 2 pi integral of rho exp(-(rho - radius)^2 / (2 width^2)) */
    t->p[2] = 2 * M_PI * (width * width * exp(-y * y / 2) + radius * width * sqrt(M_PI / 2) * erfc(-y / M_SQRT2));
    t->log_z = between(&r, -50, 50);
    t->density = shell_density;
    t->known = 2;
    t->marginal = trust_take(2, sizeof *t->marginal);
    t->marginal[0] = t->marginal[1] = shell_marginal(t);
}

static double funnel_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double v = z[0], s = t->p[0], sum = t->log_z - log(s) - v * v / (2 * s * s) - (double)t->dim * log_2pi / 2,
           up = -v / (s * s);
    for (size_t i = 1; i < t->dim; i++) {
        double q = z[i] * z[i] * exp(-v);
        sum -= (v + q) / 2;
        up += (q - 1) / 2;
        if (grad)
            grad[i] = -z[i] * exp(-v);
    }
    if (grad)
        grad[0] = up;
    return sum;
}

static void funnel(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    t->dim = 5;
    t->p[0] = between(&r, 1.5, 3);
    t->log_z = between(&r, -50, 50);
    t->density = funnel_density;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static void line1(trust_target *t, uint64_t seed)
{
    trust_spectrum(t, seed, 1, 60, 1);
}

static void line2(trust_target *t, uint64_t seed)
{
    trust_spectrum(t, seed, 2, 60, 1);
}

static void line3(trust_target *t, uint64_t seed)
{
    trust_spectrum(t, seed, 3, 60, 0.7);
}

static void logistic(trust_target *t, uint64_t seed)
{
    trust_posterior(t, seed, "logistic");
}

static void poisson(trust_target *t, uint64_t seed)
{
    trust_posterior(t, seed, "poisson");
}

static void location(trust_target *t, uint64_t seed)
{
    trust_posterior(t, seed, "location");
}

static void means(trust_target *t, uint64_t seed)
{
    trust_posterior(t, seed, "means");
}

static void decays(trust_target *t, uint64_t seed)
{
    trust_posterior(t, seed, "decays");
}

static void eggs(trust_target *t, uint64_t seed)
{
    trust_posterior(t, seed, "eggs");
}

const trust_kind trust_kinds[] = {
    {"gaussian, D = 3", TRUST_COUNTED, gaussian3},
    {"gaussian, D = 10, condition 1e4", TRUST_COUNTED, gaussian10},
    {"gaussian, D = 30", TRUST_COUNTED, gaussian30},
    {"gaussian, scales 1e-5..1e5", TRUST_COUNTED, scaled},
    {"student, 5 df, D = 6", TRUST_COUNTED, student5},
    {"student, 3 df, D = 3", TRUST_COUNTED, student3},
    {"cauchy, D = 2", TRUST_COUNTED, cauchys},
    {"cauchy, D = 5", TRUST_COUNTED, more_cauchys},
    {"mixture by the paper, D = 1", TRUST_COUNTED, paper},
    {"mixture of 5, D = 2", TRUST_COUNTED, mixture2},
    {"mixture of 4, D = 5", TRUST_COUNTED, mixture5},
    {"mixture of 3, D = 10", TRUST_COUNTED, mixture10},
    {"mixture of 6 that overlap, D = 4", TRUST_COUNTED, overlapping},
    {"narrow and wide, D = 2", TRUST_COUNTED, narrow2},
    {"narrow and wide, D = 5", TRUST_COUNTED, narrow5},
    {"mixture of 4 students, D = 4", TRUST_COUNTED, students},
    {"labels of 2 groups, D = 4", TRUST_COUNTED, labels2},
    {"labels of 3 groups, D = 6", TRUST_COUNTED, labels3},
    {"means of a mixture model, D = 2", TRUST_COUNTED, means},
    {"slab 50 %, spike 1/10, D = 20", TRUST_COUNTED, slab20},
    {"slab 1 %, spike 1/10, D = 20", TRUST_COUNTED, slab20_thin},
    {"slab 50 %, spike 1/10, D = 5", TRUST_COUNTED, slab5},
    {"slab 90 %, spike 1/5, D = 10", TRUST_COUNTED, slab10},
    {"kinks, D = 5", TRUST_COUNTED, kinks},
    {"uneven kinks, D = 3", TRUST_COUNTED, uneven_kinks},
    {"walls, D = 4", TRUST_COUNTED, walls},
    {"exponentials at a wall, D = 3", TRUST_COUNTED, exponentials},
    {"box, D = 2", TRUST_COUNTED, box},
    {"log-gammas, D = 6", TRUST_COUNTED, log_gammas},
    {"logit-betas, D = 5", TRUST_COUNTED, logit_betas},
    {"two modes an axis, D = 3", TRUST_COUNTED, bimodals},
    {"quartics, D = 6", TRUST_COUNTED, quartics},
    {"spectrum, 1 line, D = 4", TRUST_COUNTED, line1},
    {"spectrum, 2 lines, D = 7", TRUST_COUNTED, line2},
    {"spectrum, 3 lines, D = 10", TRUST_COUNTED, line3},
    {"linear regression, raw columns", TRUST_COUNTED, trust_regression},
    {"logistic regression, D = 2", TRUST_COUNTED, logistic},
    {"poisson regression, D = 2", TRUST_COUNTED, poisson},
    {"cauchy location, D = 1", TRUST_COUNTED, location},
    {"two decays, D = 2", TRUST_COUNTED, decays},
    {"egg box, D = 2", TRUST_COUNTED, eggs},
    {"banana, D = 3", TRUST_COUNTED, banana},
    {"shell, D = 2", TRUST_COUNTED, shell},
    {"funnel, D = 5", TRUST_BENT, funnel},
    {"hidden spike, D = 5", TRUST_HIDDEN, hidden},
    {"groups, centred, D = 7..17", TRUST_BENT, trust_centred},
    {"groups, non-centred, D = 7..17", TRUST_BENT, trust_non_centred},
    {"random walk, D = 10..22", TRUST_BENT, trust_walk},
    {"bent pairs, D = 4", TRUST_BENT, trust_pairs4},
    {"bent pairs, D = 10", TRUST_BENT, trust_pairs10},
    {"funnel, D = 10", TRUST_BENT, trust_funnel10},
    {"funnel turned, D = 6", TRUST_BENT, trust_funnel_turned},
    {"shell, D = 5", TRUST_BENT, trust_shell5},
};
const size_t trust_kind_count = sizeof trust_kinds / sizeof *trust_kinds;

void trust_reflect(const trust_target *t, double *x)
{
    double along = 0;
    for (size_t i = 0; i < t->dim; i++)
        along += t->a[i] * x[i];
    for (size_t i = 0; i < t->dim; i++)
        x[i] -= 2 * along * t->a[i];
}

trust_target *trust_make(const trust_kind *kind, uint64_t seed)
{
    trust_target *t = trust_take(1, sizeof *t);
    uint64_t number = 0; /* of the kind */
    while (number < trust_kind_count && kind != trust_kinds + number)
        number++;
    for (size_t i = 0; number == trust_kind_count + i && i < trust_tail_count && kind != trust_tails + i; i++)
        number++;
    for (size_t i = 0;
         number == trust_kind_count + trust_tail_count + i && i < trust_other_count && kind != trust_others + i; i++)
        number++;
    for (size_t i = 0, first = trust_kind_count + trust_tail_count + trust_other_count;
         number == first + i && kind != trust_cores + i; i++)
        number++;
    kind->make(t, seed * 1000003 + number);
    return t;
}

void trust_open(trust_target *t, wvgd_model *model)
{
    if (wvgd_model_pointwise(model, t->dim, t->density, t, true))
        abort();
    model->start = t->start;
    model->start_self = t;
}

void trust_free(trust_target *t)
{
    if (t) {
        free(t->marginal);
        free(t->a);
        free(t->b);
        free(t->c);
        free(t->work);
    }
    free(t);
}
