/* bent.c - hierarchies, random walks, bananas, funnels and shells: posteriors that one Gaussian does not fit. Their
 * evidence, and the marginals of their scales, come from closed forms for all that is normal given the scales, and
 * from quadrature over these. */
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

static double log_normal(double x, double sd)
{
    return -x * x / (2 * sd * sd) - log(sd) - log_2pi / 2;
}

/* Density and slope in x of N(x; 0, sd). */
static double prior(double x, double sd, double *slope)
{
    if (slope)
        *slope -= x / (sd * sd);
    return log_normal(x, sd);
}

/* ---- groups: n observations a[n] of sds b[n]; z = (mu, log tau, group[n]), group = mean or its deviation (K = 1).
 * mu ~ N(0, p[0]), log tau ~ N(p[1], 1) -----------------------------------------------------------------------------
 */
static double groups_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double mu = z[0], tau = exp(z[1]), slope[2] = {0}, sum;
    sum = prior(mu, t->p[0], &slope[0]) + prior(z[1] - t->p[1], 1, &slope[1]);
    for (size_t j = 0; j < t->n; j++) {
        double e = t->K ? z[2 + j] : (z[2 + j] - mu) / tau, theta = t->K ? mu + tau * z[2 + j] : z[2 + j],
               y = (t->a[j] - theta) / t->b[j], pull = y / t->b[j];
        sum += log_normal(e, 1) - y * y / 2 - log(t->b[j]) - log_2pi / 2 - (t->K ? 0 : z[1]);
        slope[0] += t->K ? pull : e / tau;
        slope[1] += t->K ? pull * tau * e : e * e - 1;
        if (grad)
            grad[2 + j] = t->K ? pull * tau - e : pull - e / tau;
    }
    if (grad)
        memcpy(grad, slope, sizeof slope);
    return sum;
}

/* log p(y, log tau), and mean and variance of mu given these: y_j ~ N(mu, b_j^2 + tau^2). */
static double groups_scale(const trust_target *t, double log_tau, double *mean, double *var)
{
    double tau = exp(log_tau), precision = 1 / (t->p[0] * t->p[0]), pull = 0, square = 0,
           sum = log_normal(log_tau - t->p[1], 1) - log(t->p[0]);
    for (size_t j = 0; j < t->n; j++) {
        double v = t->b[j] * t->b[j] + tau * tau;
        precision += 1 / v;
        pull += t->a[j] / v;
        square += t->a[j] * t->a[j] / v;
        sum -= (log(v) + log_2pi) / 2;
    }
    *mean = pull / precision;
    *var = 1 / precision;
    return sum - (square - pull * *mean) / 2 - log(precision) / 2;
}

/* Evidence, and the marginals of mu and log tau. */
static void groups_truth(trust_target *t)
{
    enum { GRID = 4000 };
    double *x = take(GRID), *m = take(GRID), mean, var, top = -INFINITY, sum = 0, first = 0, second = 0, step = 0.005;
    for (size_t g = 0; g < GRID; g++) {
        x[g] = t->p[1] + step * ((double)g - GRID / 2);
        m[g] = groups_scale(t, x[g], &mean, &var);
        top = fmax(top, m[g]);
    }
    for (size_t g = 0; g < GRID; g++) {
        groups_scale(t, x[g], &mean, &var);
        m[g] = exp(m[g] - top);
        sum += m[g];
        first += m[g] * mean;
        second += m[g] * (mean * mean + var);
    }
    t->log_z = top + log(sum * step);
    t->known = 2;
    t->marginal = trust_take(2, sizeof *t->marginal);
    first /= sum;
    t->marginal[0] = (trust_marginal){first, sqrt(second / sum - first * first), {NAN, NAN, NAN}};
    t->marginal[1] = trust_marginal_of(GRID, x, m);
    free(x);
    free(m);
}

static void groups(trust_target *t, uint64_t seed, size_t apart)
{
    test_random r = test_random_seed(seed);
    t->n = 5 + (size_t)between(&r, 0, 11);
    t->dim = t->n + 2;
    t->K = apart;
    t->p[0] = 5;
    t->p[1] = between(&r, -1, 0.5);
    t->a = take(t->n);
    t->b = take(t->n);
    double tau = exp(t->p[1] + test_random_normal(&r)), mu = 2 * test_random_normal(&r), noise = between(&r, 0.3, 1.5);
    for (size_t j = 0; j < t->n; j++) {
        t->b[j] = noise * between(&r, 0.5, 1.5);
        t->a[j] = mu + tau * test_random_normal(&r) + t->b[j] * test_random_normal(&r);
    }
    t->density = groups_density;
    groups_truth(t);
}

void trust_centred(trust_target *t, uint64_t seed)
{
    groups(t, seed, 0);
}

void trust_non_centred(trust_target *t, uint64_t seed)
{
    groups(t, seed, 1);
}

/* ---- a random walk x_1 ~ N(0, 3), x_i = x_(i-1) + q e, seen as y_i = x_i + s e, in a[n]; z = (log q, log s, x[n]),
 * log q and log s ~ N(p[0], 1), N(p[1], 1)
 * -------------------------------------------------------------------------------- */
static const double walk_start = 3;

static double walk_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    const double *x = z + 2;
    double q = exp(z[0]), s = exp(z[1]), slope[2] = {0}, first = 0,
           sum = prior(z[0] - t->p[0], 1, &slope[0]) + prior(z[1] - t->p[1], 1, &slope[1]);
    if (grad)
        memset(grad + 2, 0, t->n * sizeof *grad);
    sum += prior(x[0], walk_start, &first);
    if (grad)
        grad[2] = first;
    for (size_t i = 0; i < t->n; i++) {
        double y = (t->a[i] - x[i]) / s, e = i ? (x[i] - x[i - 1]) / q : 0;
        sum += log_normal(y, 1) - z[1] + (i ? log_normal(e, 1) - z[0] : 0);
        slope[1] += y * y - 1;
        slope[0] += i ? e * e - 1 : 0;
        if (grad) {
            grad[2 + i] += y / s - e / q;
            if (i)
                grad[1 + i] += e / q;
        }
    }
    if (grad)
        memcpy(grad, slope, sizeof slope);
    return sum;
}

/* log p(y | q, s), by the Kalman filter. */
static double walk_filter(const trust_target *t, double q, double s)
{
    double mean = 0, var = walk_start * walk_start, sum = 0;
    for (size_t i = 0; i < t->n; i++) {
        var += i ? q * q : 0;
        double all = var + s * s, off = t->a[i] - mean;
        sum -= (off * off / all + log(all) + log_2pi) / 2;
        mean += var / all * off;
        var *= s * s / all;
    }
    return sum;
}

static void walk_truth(trust_target *t)
{
    enum { GRID = 400 };
    double step = 0.03, top = -INFINITY, sum = 0, *x = take(GRID), *log_p = take(GRID * GRID), *m = take(2 * GRID);
    for (size_t g = 0; g < GRID; g++)
        x[g] = step * ((double)g - GRID / 2 + 0.5);
    for (size_t g = 0; g < GRID; g++)
        for (size_t i = 0; i < GRID; i++) {
            log_p[g * GRID + i] = log_normal(x[g], 1) + log_normal(x[i], 1) +
                                  walk_filter(t, exp(t->p[0] + x[g]), exp(t->p[1] + x[i]));
            top = fmax(top, log_p[g * GRID + i]);
        }
    for (size_t g = 0; g < GRID; g++)
        for (size_t i = 0; i < GRID; i++) {
            double p = exp(log_p[g * GRID + i] - top);
            sum += p;
            m[g] += p;
            m[GRID + i] += p;
        }
    t->log_z = top + log(sum * step * step);
    t->known = 2;
    t->marginal = trust_take(2, sizeof *t->marginal);
    for (size_t k = 0; k < 2; k++) {
        t->marginal[k] = trust_marginal_of(GRID, x, m + k * GRID);
        t->marginal[k].mean += t->p[k];
        for (size_t l = 0; l < TRUST_LEVELS; l++)
            t->marginal[k].quantile[l] += t->p[k];
    }
    free(x);
    free(log_p);
    free(m);
}

void trust_walk(trust_target *t, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    t->n = 8 + (size_t)between(&r, 0, 13);
    t->dim = t->n + 2;
    t->p[0] = between(&r, -1.5, 0);
    t->p[1] = between(&r, -1.5, 0);
    double q = exp(t->p[0] + test_random_normal(&r)), s = exp(t->p[1] + test_random_normal(&r)),
           x = walk_start * test_random_normal(&r);
    t->a = take(t->n);
    for (size_t i = 0; i < t->n; i++) {
        x += i ? q * test_random_normal(&r) : 0;
        t->a[i] = x + s * test_random_normal(&r);
    }
    t->density = walk_density;
    walk_truth(t);
}

/* ---- pairs: x ~ N(0, p[0]), y ~ N(p[1] (x^2 - p[0]^2), p[2]) --------------------------------------------------------
 */
static double pairs_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double sum = t->log_z;
    for (size_t i = 0; i < t->dim; i += 2) {
        double s = t->p[0], off = z[i + 1] - t->p[1] * (z[i] * z[i] - s * s), pull = off / (t->p[2] * t->p[2]);
        sum += log_normal(z[i], s) + log_normal(off, t->p[2]);
        if (grad) {
            grad[i] = -z[i] / (s * s) + 2 * pull * t->p[1] * z[i];
            grad[i + 1] = -pull;
        }
    }
    return sum;
}

static void pairs(trust_target *t, uint64_t seed, size_t dim)
{
    test_random r = test_random_seed(seed);
    t->dim = dim;
    t->p[0] = between(&r, 0.7, 1.3);
    t->p[1] = between(&r, 0.5, 1);
    t->p[2] = between(&r, 0.2, 0.5);
    t->log_z = between(&r, -50, 50);
    t->density = pairs_density;
}

void trust_pairs4(trust_target *t, uint64_t seed)
{
    pairs(t, seed, 4);
}

void trust_pairs10(trust_target *t, uint64_t seed)
{
    pairs(t, seed, 10);
}

/* ---- a funnel v ~ N(0, p[0]), z_i ~ N(0, exp(v/2)), seen in coordinates turned by the reflection along a[dim] */
static double funnel_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double x[16], g[16], sum;
    memcpy(x, z, t->dim * sizeof *x);
    trust_reflect(t, x);
    sum = t->log_z + log_normal(x[0], t->p[0]);
    g[0] = -x[0] / (t->p[0] * t->p[0]);
    for (size_t i = 1; i < t->dim; i++) {
        double q = x[i] * x[i] * exp(-x[0]);
        sum -= (x[0] + q + log_2pi) / 2;
        g[0] += (q - 1) / 2;
        g[i] = -x[i] * exp(-x[0]);
    }
    trust_reflect(t, g);
    if (grad)
        memcpy(grad, g, t->dim * sizeof *g);
    return sum;
}

static void funnel(trust_target *t, uint64_t seed, size_t dim, bool turned)
{
    test_random r = test_random_seed(seed);
    double norm = 0;
    t->dim = dim;
    t->a = take(dim);
    for (size_t i = 0; i < dim && turned; i++) {
        t->a[i] = test_random_normal(&r);
        norm += t->a[i] * t->a[i];
    }
    for (size_t i = 0; i < dim && turned; i++)
        t->a[i] /= sqrt(norm);
    t->p[0] = between(&r, 1, 3);
    t->log_z = between(&r, -50, 50);
    t->density = funnel_density;
}

void trust_funnel10(trust_target *t, uint64_t seed)
{
    funnel(t, seed, 10, false);
}

void trust_funnel_turned(trust_target *t, uint64_t seed)
{
    funnel(t, seed, 6, true);
}

/* ---- a shell of radius p[0] and width p[1] in five dimensions -------------------------------------------------------
 */
static double shell_density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    double radius = 0;
    for (size_t i = 0; i < t->dim; i++)
        radius = hypot(radius, z[i]);
    double y = (radius - t->p[0]) / t->p[1];
    for (size_t i = 0; grad && i < t->dim; i++)
        grad[i] = radius > 0 ? -y / t->p[1] * z[i] / radius : 0;
    return -y * y / 2;
}

void trust_shell5(trust_target *t, uint64_t seed)
{
    enum { GRID = 20000 };
    test_random r = test_random_seed(seed);
    double sum = 0, step;
    t->dim = 5;
    t->p[0] = 2;
    t->p[1] = between(&r, 0.2, 0.5);
    t->density = shell_density;
    step = (t->p[0] + 12 * t->p[1]) / GRID;
    for (size_t g = 0; g < GRID; g++) {
        double rho = ((double)g + 0.5) * step, y = (rho - t->p[0]) / t->p[1];
        sum += pow(rho, 4) * exp(-y * y / 2) * step;
    }
    t->log_z = log(sum * 8 * M_PI * M_PI / 3); /* the area of the unit sphere in five dimensions */
}
