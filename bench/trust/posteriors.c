/* posteriors.c - posteriors of small models, whose evidence quadrature or a conjugate prior tells. */
#include "targets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test_random.h"

static const double log_2pi = 1.8378770664093453;

static double *take(size_t n)
{
    return trust_take(n, sizeof(double));
}

static double between(test_random *r, double low, double high)
{
    return low + (high - low) * test_random_uniform(r);
}

/* Cholesky factor of A[m][m] in its lower half; log determinant. */
static double factor(size_t m, double *A)
{
    double log_det = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t l = 0; l <= i; l++) {
            double s = A[i * m + l];
            for (size_t k = 0; k < l; k++)
                s -= A[i * m + k] * A[l * m + k];
            A[i * m + l] = i == l ? sqrt(s) : s / A[l * m + l];
            log_det += i == l ? log(s) : 0;
        }
    return log_det;
}

/* x := L^-1 x, or L^-T x. */
static void solve(size_t m, const double *L, double *x, bool transposed)
{
    for (size_t g = 0; g < m; g++) {
        size_t i = transposed ? m - 1 - g : g;
        double s = x[i];
        for (size_t k = transposed ? i + 1 : 0; k < (transposed ? m : i); k++)
            s -= (transposed ? L[k * m + i] : L[i * m + k]) * x[k];
        x[i] = s / L[i * m + i];
    }
}

/* ---- spectra: a times[n], b observations[n], K lines, p[0] noise, p[1] prior sd of constant and amplitudes.
 * z = (constant, (cos, sin) amplitudes of each line, u of each line), frequency = 0.01 + 0.49 Phi(u) --------------- */
static const double lowest = 0.01, range = 0.49;

static double phi(double u)
{
    return erfc(-u / M_SQRT2) / 2;
}

static double spectrum_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    size_t lines = t->K, m = 1 + 2 * lines;
    double sum = -(double)t->dim * log_2pi / 2 - (double)m * log(t->p[1]) - (double)t->n * (log_2pi / 2 + log(t->p[0]));
    for (size_t k = 0; k < t->dim; k++) {
        double s = k < m ? t->p[1] : 1, y = z[k] / s;
        sum -= y * y / 2;
        if (grad)
            grad[k] = -y / s;
    }
    for (size_t i = 0; i < t->n; i++) {
        double fitted = z[0], C[3], S[3];
        for (size_t l = 0; l < lines; l++) {
            double angle = 2 * M_PI * (lowest + range * phi(z[m + l])) * t->a[i];
            C[l] = cos(angle);
            S[l] = sin(angle);
            fitted += z[1 + 2 * l] * C[l] + z[2 + 2 * l] * S[l];
        }
        double r = (t->b[i] - fitted) / t->p[0], g = r / t->p[0];
        sum -= r * r / 2;
        if (!grad)
            continue;
        grad[0] += g;
        for (size_t l = 0; l < lines; l++) {
            double u = z[m + l], slope = range * exp(-u * u / 2 - log_2pi / 2) * 2 * M_PI * t->a[i];
            grad[1 + 2 * l] += g * C[l];
            grad[2 + 2 * l] += g * S[l];
            grad[m + l] += g * slope * (-z[1 + 2 * l] * S[l] + z[2 + 2 * l] * C[l]);
        }
    }
    return sum;
}

static void spectrum_start(void *self, const double *normal, double *z)
{
    const trust_target *t = self;
    for (size_t k = 0; k < t->dim; k++)
        z[k] = normal[k] * (k < 1 + 2 * t->K ? t->p[1] : 1);
}

/* Log likelihood with constant and amplitudes integrated out, for frequencies at the shares w[lines] of the range. */
static double given_frequencies(const trust_target *t, const double *w)
{
    size_t m = 1 + 2 * t->K;
    double A[49] = {0}, b[7] = {0}, x[7], square = 0, noise = t->p[0] * t->p[0], prior = t->p[1] * t->p[1];
    for (size_t i = 0; i < t->n; i++) {
        x[0] = 1;
        for (size_t l = 0; l < t->K; l++) {
            double angle = 2 * M_PI * (lowest + range * w[l]) * t->a[i];
            x[1 + 2 * l] = cos(angle);
            x[2 + 2 * l] = sin(angle);
        }
        for (size_t k = 0; k < m; k++) {
            b[k] += x[k] * t->b[i];
            for (size_t l = 0; l <= k; l++)
                A[k * m + l] += x[k] * x[l];
        }
        square += t->b[i] * t->b[i];
    }
    for (size_t k = 0; k < m; k++)
        A[k * m + k] += noise / prior;
    double log_det = factor(m, A) + (double)m * log(prior / noise), explained = 0;
    solve(m, A, b, false);
    for (size_t k = 0; k < m; k++)
        explained += b[k] * b[k];
    return -(double)t->n / 2 * (log_2pi + log(noise)) - log_det / 2 - (square - explained) / (2 * noise);
}

static double log_add(double a, double b)
{
    double top = fmax(a, b);
    return isfinite(top) ? top + log(exp(a - top) + exp(b - top)) : top;
}

static double integrate_line(const trust_target *t)
{
    enum { STEPS = 20000 };
    double sum = -INFINITY;
    for (size_t i = 0; i < STEPS; i++)
        sum = log_add(sum, given_frequencies(t, (double[]){((double)i + 0.5) / STEPS}) - log(STEPS));
    return sum;
}

/* A coarse grid, and a fine one in the squares that matter. */
static double integrate_plane(const trust_target *t)
{
    enum { STEPS = 1000, FINE = 10 };
    double *at = take((size_t)STEPS * STEPS), top = -INFINITY, sum = -INFINITY;
    for (size_t i = 0; i < STEPS; i++)
        for (size_t k = 0; k <= i; k++) {
            double v = given_frequencies(t, (double[]){((double)i + 0.5) / STEPS, ((double)k + 0.5) / STEPS});
            at[i * STEPS + k] = at[k * STEPS + i] = v;
            top = fmax(top, v);
        }
    for (size_t i = 0; i < STEPS; i++)
        for (size_t k = 0; k <= i; k++) {
            double times = k < i ? log(2) : 0, v = at[i * STEPS + k];
            if (v < top - 16) {
                sum = log_add(sum, v + times - 2 * log(STEPS));
                continue;
            }
            for (size_t g = 0; g < FINE * FINE; g++) {
                double w[] = {((double)i + ((double)(g / FINE) + 0.5) / FINE) / STEPS,
                              ((double)k + ((double)(g % FINE) + 0.5) / FINE) / STEPS};
                sum = log_add(sum, given_frequencies(t, w) + times - 2 * log(STEPS * FINE));
            }
        }
    free(at);
    return sum;
}

/* Three strong lines: importance sampling around the peak near `w`, and its five images. */
static double integrate_peak(const trust_target *t, test_random *r, double *w)
{
    enum { DRAWS = 20000 };
    double best = given_frequencies(t, w), step = 1e-3, H[9], nu = 6, sum = -INFINITY;
    while (step > 1e-7) { /* along the axes, with shorter and shorter steps */
        bool moved = false;
        for (size_t k = 0; k < 3; k++)
            for (int sign = -1; sign <= 1; sign += 2) {
                w[k] += sign * step;
                double v = given_frequencies(t, w);
                if (v > best) {
                    best = v;
                    moved = true;
                } else
                    w[k] -= sign * step;
            }
        step = moved ? step : step / 2;
    }
    const double h = 2e-5;
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            double v = 0;
            for (int g = 0; g < 4; g++) {
                double x[] = {w[0], w[1], w[2]};
                x[i] += g & 1 ? h : -h;
                x[k] += g & 2 ? h : -h;
                v += ((g & 1) == (g >> 1) ? -1 : 1) * given_frequencies(t, x);
            }
            H[i * 3 + k] = v / (4 * h * h);
        }
    double log_det = factor(3, H);
    for (size_t d = 0; d < DRAWS; d++) { /* Student-t's of 6 degrees of freedom */
        double x[3], y[3], chi = 0, q = 0;
        test_random_normals(r, 3, y);
        for (int g = 0; g < 6; g++) {
            double n = test_random_normal(r);
            chi += n * n;
        }
        for (size_t k = 0; k < 3; k++) {
            x[k] = y[k] / sqrt(chi / nu);
            q += x[k] * x[k];
        }
        double log_q = lgamma((nu + 3) / 2) - lgamma(nu / 2) - 1.5 * log(nu * M_PI) + log_det / 2 -
                       (nu + 3) / 2 * log1p(q / nu);
        solve(3, H, x, true);
        for (size_t k = 0; k < 3; k++)
            x[k] += w[k];
        sum = log_add(sum, given_frequencies(t, x) - log_q - log(DRAWS));
    }
    return sum + log(6);
}

void trust_spectrum(trust_target *t, uint64_t seed, size_t lines, size_t observations, double noise)
{
    test_random r = test_random_seed(seed);
    double w[3], z[10];
    t->K = lines;
    t->dim = 1 + 3 * lines;
    t->n = observations;
    t->a = take(t->n);
    t->b = take(t->n);
    t->p[0] = noise;
    t->p[1] = 2;
    t->density = spectrum_density;
    t->start = spectrum_start;
    z[0] = 2 * test_random_normal(&r);
    for (size_t l = 0; l < lines; l++) {
        w[l] = lines == 3 ? 0.1 + 0.3 * (double)l + between(&r, 0, 0.15) : test_random_uniform(&r);
        double size = between(&r, 2, 4), angle = 2 * M_PI * test_random_uniform(&r);
        z[1 + 2 * l] = lines == 3 ? size * cos(angle) : 2 * test_random_normal(&r);
        z[2 + 2 * l] = lines == 3 ? size * sin(angle) : 2 * test_random_normal(&r);
    }
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(&r, 0, 60);
        t->b[i] = z[0] + t->p[0] * test_random_normal(&r);
        for (size_t l = 0; l < lines; l++) {
            double angle = 2 * M_PI * (lowest + range * w[l]) * t->a[i];
            t->b[i] += z[1 + 2 * l] * cos(angle) + z[2 + 2 * l] * sin(angle);
        }
    }
    t->log_z = lines == 1 ? integrate_line(t) : lines == 2 ? integrate_plane(t) : integrate_peak(t, &r, w);
}

/* ---- posteriors of one or two parameters: a and b data[n], p as they like ---------------------------------------- */
static double normal_priors(const trust_target *t, const double *z, double sd, double *grad)
{
    double sum = 0;
    for (size_t k = 0; k < t->dim; k++) {
        sum -= z[k] * z[k] / (2 * sd * sd) + log(sd) + log_2pi / 2;
        if (grad)
            grad[k] = -z[k] / (sd * sd);
    }
    return sum;
}

static double logistic_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = normal_priors(t, z, 5, grad);
    for (size_t i = 0; i < t->n; i++) {
        double eta = z[0] + z[1] * t->a[i], s = t->b[i] > 0 ? 1 : -1;
        sum -= fmax(-s * eta, 0) + log1p(exp(-fabs(eta)));
        double g = s / (1 + exp(s * eta));
        if (grad) {
            grad[0] += g;
            grad[1] += g * t->a[i];
        }
    }
    return sum;
}

static double poisson_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = normal_priors(t, z, 3, grad);
    for (size_t i = 0; i < t->n; i++) {
        double eta = z[0] + z[1] * t->a[i], rate = exp(eta);
        sum += t->b[i] * eta - rate - lgamma(t->b[i] + 1);
        if (grad) {
            grad[0] += t->b[i] - rate;
            grad[1] += (t->b[i] - rate) * t->a[i];
        }
    }
    return sum;
}

static double location_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = normal_priors(t, z, 10, grad);
    for (size_t i = 0; i < t->n; i++) {
        double r = t->b[i] - z[0];
        sum -= log1p(r * r) + log(M_PI);
        if (grad)
            grad[0] += 2 * r / (1 + r * r);
    }
    return sum;
}

static double means_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = normal_priors(t, z, 5, grad);
    for (size_t i = 0; i < t->n; i++) {
        double r = t->b[i] - z[0], s = t->b[i] - z[1], top = fmin(r * r, s * s), p = exp((top - r * r) / 2),
               q = exp((top - s * s) / 2);
        sum += log((p + q) / 2) - top / 2 - log_2pi / 2;
        if (grad) {
            grad[0] += p / (p + q) * r;
            grad[1] += q / (p + q) * s;
        }
    }
    return sum;
}

static double decays_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = normal_priors(t, z, 1, grad), s = 0.05;
    for (size_t i = 0; i < t->n; i++) {
        double k[] = {exp(z[0]), exp(z[1])}, e[] = {exp(-k[0] * t->a[i]), exp(-k[1] * t->a[i])},
               r = (t->b[i] - e[0] - e[1]) / s;
        sum -= r * r / 2 + log(s) + log_2pi / 2;
        for (size_t l = 0; grad && l < 2; l++)
            grad[l] -= r / s * e[l] * k[l] * t->a[i];
    }
    return sum;
}

static double eggs_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    for (size_t k = 0; k < 2; k++)
        if (z[k] < 0 || z[k] > t->p[0])
            return -INFINITY;
    double v = 2 + cos(z[0] / 2) * cos(z[1] / 2);
    if (grad) {
        grad[0] = -1.5 * v * v * sin(z[0] / 2) * cos(z[1] / 2);
        grad[1] = -1.5 * v * v * cos(z[0] / 2) * sin(z[1] / 2);
    }
    return v * v * v;
}

/* Data: x uniform in (-2, 2) or so, y made with parameters of the prior's size. */
static void make_logistic(trust_target *t, test_random *r)
{
    double z[] = {test_random_normal(r), 2 * test_random_normal(r)};
    t->n = 25;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, -2, 2);
        t->b[i] = test_random_uniform(r) < 1 / (1 + exp(-z[0] - z[1] * t->a[i]));
    }
}

static void make_poisson(trust_target *t, test_random *r)
{
    double z[] = {between(r, -1, 2), test_random_normal(r)};
    t->n = 20;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, -1, 1);
        double rate = exp(z[0] + z[1] * t->a[i]), p = 1;
        for (t->b[i] = -1; p > exp(-rate); t->b[i]++)
            p *= test_random_uniform(r);
    }
}

static void make_location(trust_target *t, test_random *r)
{
    t->n = 5;
    for (size_t i = 0; i < t->n; i++)
        t->b[i] = between(r, -12, 12);
}

static void make_means(trust_target *t, test_random *r)
{
    double m[] = {between(r, -4, 0), between(r, 1, 4)};
    t->n = 30;
    for (size_t i = 0; i < t->n; i++)
        t->b[i] = m[i % 2] + test_random_normal(r);
}

static void make_decays(trust_target *t, test_random *r)
{
    double k[] = {exp(test_random_normal(r)), exp(test_random_normal(r))};
    t->n = 15;
    for (size_t i = 0; i < t->n; i++) {
        t->a[i] = between(r, 0, 3);
        t->b[i] = exp(-k[0] * t->a[i]) + exp(-k[1] * t->a[i]) + 0.05 * test_random_normal(r);
    }
}

static void make_eggs(trust_target *t, test_random *r)
{
    t->p[0] = between(r, 6, 10) * M_PI;
}

typedef struct {
    const char *name;
    size_t dim;
    wvgd_point_density *density;
    void (*make)(trust_target *t, test_random *r);
    double low, high; /* nothing outside */
} posterior;

static const posterior posteriors[] = {
    {"logistic", 2, logistic_density, make_logistic, -40, 40}, {"poisson", 2, poisson_density, make_poisson, -20, 20},
    {"location", 1, location_density, make_location, -80, 80}, {"means", 2, means_density, make_means, -40, 40},
    {"decays", 2, decays_density, make_decays, -9, 9},         {"eggs", 2, eggs_density, make_eggs, 0, 10 * M_PI},
};

/* The integral over a box by midpoints, and marginals. With `to`, the smallest box of what is within 45 nats of the top
 * as well. */
static double integrate_box(trust_target *t, size_t steps, double (*box)[2], double (*to)[2])
{
    size_t rows = t->dim > 1 ? steps : 1;
    double *v = take(steps * rows), *x = take(2 * steps), *m = take(2 * steps), top = -INFINITY, sum = 0, area = 1;
    for (size_t k = 0; k < t->dim; k++) {
        double h = (box[k][1] - box[k][0]) / (double)steps;
        area *= h;
        for (size_t i = 0; i < steps; i++)
            x[k * steps + i] = box[k][0] + ((double)i + 0.5) * h;
    }
    for (size_t i = 0; i < steps; i++)
        for (size_t l = 0; l < rows; l++) {
            double z[] = {x[i], x[steps + l]};
            v[i * rows + l] = t->density(t, z, NULL);
            top = fmax(top, v[i * rows + l]);
        }
    for (size_t k = 0; to && k < t->dim; k++) {
        to[k][0] = INFINITY;
        to[k][1] = -INFINITY;
    }
    for (size_t i = 0; i < steps; i++)
        for (size_t l = 0; l < rows; l++) {
            size_t at[] = {i, l};
            for (size_t k = 0; to && v[i * rows + l] > top - 45 && k < t->dim; k++) {
                double h = (box[k][1] - box[k][0]) / (double)steps, c = x[k * steps + at[k]];
                to[k][0] = fmin(to[k][0], fmax(c - h, box[k][0]));
                to[k][1] = fmax(to[k][1], fmin(c + h, box[k][1]));
            }
            double mass = exp(v[i * rows + l] - top);
            sum += mass;
            m[i] += mass;
            m[steps + l] += mass;
        }
    for (size_t k = 0; k < t->dim; k++)
        t->marginal[k] = trust_marginal_of(steps, x + k * steps, m + k * steps);
    free(v);
    free(x);
    free(m);
    return top + log(sum * area);
}

void trust_quadrature(trust_target *t, double (*box)[2])
{
    double inner[2][2];
    t->known = t->dim;
    t->marginal = trust_take(t->dim, sizeof *t->marginal);
    integrate_box(t, 600, box, inner);
    t->log_z = integrate_box(t, t->dim > 1 ? 800 : 100000, inner, NULL);
}

void trust_posterior(trust_target *t, uint64_t seed, const char *name)
{
    test_random r = test_random_seed(seed);
    const posterior *of = posteriors;
    while (strcmp(of->name, name) != 0)
        of++;
    t->dim = of->dim;
    t->density = of->density;
    t->a = take(30);
    t->b = take(30);
    of->make(t, &r);
    double high = t->p[0] > 0 ? t->p[0] : of->high, box[2][2] = {{of->low, high}, {of->low, high}};
    trust_quadrature(t, box);
}

/* ---- linear regression with unknown noise and the conjugate prior: a columns[n][p] in their own units, b y[n], c
 * units[p]; sigma^2 of InverseGamma(2, 1), coefficients of N(0, 100 sigma^2 / unit^2). z = (coefficients, log sigma)
 * ------------------------------------------------------------------------------------------------------------------ */
enum { COLUMNS = 5 };

static double regression_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double log_s = z[COLUMNS], v = exp(2 * log_s), by = 0, sum;
    sum = -(double)(t->n + COLUMNS) * (log_2pi / 2 + log_s) + log(2) - 4 * log_s - 1 / v; /* the prior of log sigma */
    for (size_t k = 0; grad && k < COLUMNS; k++)
        grad[k] = 0;
    for (size_t i = 0; i < t->n; i++) {
        double res = t->b[i];
        for (size_t k = 0; k < COLUMNS; k++)
            res -= t->a[i * COLUMNS + k] * z[k];
        by += res * res;
        for (size_t k = 0; grad && k < COLUMNS; k++)
            grad[k] += res * t->a[i * COLUMNS + k] / v;
    }
    for (size_t k = 0; k < COLUMNS; k++) {
        double sd = 10 / t->c[k];
        by += z[k] * z[k] / (sd * sd);
        sum -= log(sd);
        if (grad)
            grad[k] -= z[k] / (sd * sd * v);
    }
    if (grad)
        grad[COLUMNS] = -(double)(t->n + COLUMNS) - 4 + 2 / v + by / v;
    return sum - by / (2 * v);
}

static trust_marginal student_marginal(double middle, double scale, double nu)
{
    enum { GRID = 40001 };
    double *x = take(GRID), *m = take(GRID);
    for (size_t i = 0; i < GRID; i++) {
        double y = 40 * ((double)i / (GRID - 1) * 2 - 1);
        x[i] = middle + scale * y;
        m[i] = exp(-(nu + 1) / 2 * log1p(y * y / nu));
    }
    trust_marginal out = trust_marginal_of(GRID, x, m);
    free(x);
    free(m);
    return out;
}

static trust_marginal log_sigma_marginal(double a, double b)
{
    enum { GRID = 40001 };
    double *x = take(GRID), *m = take(GRID), middle = log(b / a) / 2;
    for (size_t i = 0; i < GRID; i++) {
        x[i] = middle + 3 * ((double)i / (GRID - 1) * 2 - 1);
        m[i] = exp(-2 * a * (x[i] - middle) - b * exp(-2 * x[i]) + b * exp(-2 * middle));
    }
    trust_marginal out = trust_marginal_of(GRID, x, m);
    free(x);
    free(m);
    return out;
}

void trust_regression(trust_target *t, uint64_t seed)
{
    enum { N = 40 };
    test_random r = test_random_seed(seed);
    double beta[COLUMNS], A[COLUMNS * COLUMNS] = {0}, v[COLUMNS] = {0}, square = 0, sigma = between(&r, 0.3, 2);
    t->n = N;
    t->dim = t->known = COLUMNS + 1;
    t->a = take(N * COLUMNS);
    t->b = take(N);
    t->c = take(COLUMNS);
    t->marginal = trust_take(t->known, sizeof *t->marginal);
    t->density = regression_density;
    for (size_t k = 0; k < COLUMNS; k++) {
        t->c[k] = k ? pow(10, between(&r, -3, 3)) : 1;
        beta[k] = 2 * test_random_normal(&r);
    }
    for (size_t i = 0; i < N; i++) {
        double x[COLUMNS];
        t->b[i] = sigma * test_random_normal(&r);
        for (size_t k = 0; k < COLUMNS; k++) {
            x[k] = k ? 2 + test_random_normal(&r) : 1;
            t->a[i * COLUMNS + k] = x[k] * t->c[k];
            t->b[i] += x[k] * beta[k];
        }
        for (size_t k = 0; k < COLUMNS; k++) {
            v[k] += x[k] * t->b[i];
            for (size_t l = 0; l <= k; l++)
                A[k * COLUMNS + l] += x[k] * x[l];
        }
        square += t->b[i] * t->b[i];
    }
    for (size_t k = 0; k < COLUMNS; k++)
        A[k * COLUMNS + k] += 0.01;
    double log_det = factor(COLUMNS, A), a = 2 + N / 2.0, b = 1 + square / 2;
    solve(COLUMNS, A, v, false);
    for (size_t k = 0; k < COLUMNS; k++)
        b -= v[k] * v[k] / 2;
    solve(COLUMNS, A, v, true);
    t->log_z = lgamma(a) - lgamma(2) - a * log(b) + COLUMNS * log(0.01) / 2 - log_det / 2 - N * log_2pi / 2;
    for (size_t k = 0; k < COLUMNS; k++) {
        double e[COLUMNS] = {0}, var = 0;
        e[k] = 1;
        solve(COLUMNS, A, e, false);
        for (size_t l = 0; l < COLUMNS; l++)
            var += e[l] * e[l];
        t->marginal[k] = student_marginal(v[k] / t->c[k], sqrt(b / a * var) / t->c[k], 2 * a);
    }
    t->marginal[COLUMNS] = log_sigma_marginal(a, b);
}
