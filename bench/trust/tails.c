/* tails.c - densities of one mode whose mass reaches to where a Gaussian has none: skewed, heavy, long, bent and
 * hollow. They are densities of uncorrelated coordinates y with known sds, turned: z = H y, H the reflection along
 * a[dim]. So the sd of z_i is the root of sum_k H_ik^2 var(y_k). */
#include "targets.h"
#include <gsl/gsl_sf_psi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test_random.h"

enum { MOST = 32 };
static const double log_2pi = 1.8378770664093453;

static double between(test_random *r, double low, double high)
{
    return low + (high - low) * test_random_uniform(r);
}

/* ---- densities of y and their gradients, and variances ----------------------------------------------------------- */
typedef struct {
    double (*log_p)(const trust_target *t, const double *y, double *g);
    double (*variance)(const trust_target *t, size_t i);
    size_t dim[2];          /* from, to */
    double low[3], high[3]; /* of p[0], p[1], p[2] */
} tail;

static double log_normal(double x, double sd)
{
    return -x * x / (2 * sd * sd) - log(sd) - log_2pi / 2;
}

/* log of a gamma variate of shape p[0] */
static double skewed(const trust_target *t, const double *y, double *g)
{
    double sum = -(double)t->dim * lgamma(t->p[0]);
    for (size_t i = 0; i < t->dim; i++) {
        sum += t->p[0] * y[i] - exp(y[i]);
        g[i] = t->p[0] - exp(y[i]);
    }
    return sum;
}

static double skewed_variance(const trust_target *t, size_t i)
{
    (void)i;
    return gsl_sf_psi_1(t->p[0]);
}

/* Student-t's of p[0] degrees of freedom: each coordinate for itself, or all together */
static double students(const trust_target *t, const double *y, double *g)
{
    double nu = t->p[0], sum = (double)t->dim * (lgamma((nu + 1) / 2) - lgamma(nu / 2) - log(nu * M_PI) / 2);
    for (size_t i = 0; i < t->dim; i++) {
        sum -= (nu + 1) / 2 * log1p(y[i] * y[i] / nu);
        g[i] = -(nu + 1) * y[i] / (nu + y[i] * y[i]);
    }
    return sum;
}

static double ellipse(const trust_target *t, const double *y, double *g)
{
    double nu = t->p[0], D = (double)t->dim, r = 0;
    for (size_t i = 0; i < t->dim; i++)
        r += y[i] * y[i];
    for (size_t i = 0; i < t->dim; i++)
        g[i] = -(nu + D) * y[i] / (nu + r);
    return lgamma((nu + D) / 2) - lgamma(nu / 2) - D / 2 * log(nu * M_PI) - (nu + D) / 2 * log1p(r / nu);
}

static double student_variance(const trust_target *t, size_t i)
{
    (void)i;
    return t->p[0] / (t->p[0] - 2);
}

/* (1 - p[0]) N(0, 1) + p[0] N: of sd p[1] along the first `wide` coordinates and with its mean at p[2] sds along the
 * first of them */
static double two_normals(const trust_target *t, const double *y, double *g, size_t wide)
{
    double a = log1p(-t->p[0]), b = log(t->p[0]), m = t->p[2] * t->p[1];
    for (size_t i = 0; i < wide; i++) {
        a += log_normal(y[i], 1);
        b += log_normal(y[i] - (i ? 0 : m), t->p[1]);
    }
    double top = fmax(a, b), sum = exp(a - top) + exp(b - top), share = exp(b - top) / sum, rest = 0;
    for (size_t i = 0; i < t->dim; i++) {
        g[i] = i < wide ? -(1 - share) * y[i] - share * (y[i] - (i ? 0 : m)) / (t->p[1] * t->p[1]) : -y[i];
        rest += i < wide ? 0 : log_normal(y[i], 1);
    }
    return top + log(sum) + rest;
}

static double long_tail(const trust_target *t, const double *y, double *g)
{
    return two_normals(t, y, g, 1);
}

static double around(const trust_target *t, const double *y, double *g)
{
    return two_normals(t, y, g, t->dim);
}

static double plane(const trust_target *t, const double *y, double *g)
{
    return two_normals(t, y, g, 2);
}

static double two_normals_variance(const trust_target *t, size_t i)
{
    double w = t->p[0], s = t->p[1], m = i ? 0 : t->p[2] * s;
    return 1 - w + w * (s * s + m * m) - w * w * m * m;
}

static double long_tail_variance(const trust_target *t, size_t i)
{
    return i ? 1 : two_normals_variance(t, 0);
}

static double plane_variance(const trust_target *t, size_t i)
{
    return i > 1 ? 1 : two_normals_variance(t, i);
}

/* a normal and an exponential variate of mean p[0] together */
static double one_sided(const trust_target *t, const double *y, double *g)
{
    double rate = 1 / t->p[0], sum = 0;
    for (size_t i = 0; i < t->dim; i++) {
        double x = y[i] - rate, far = x < -20 ? -x : 0, /* log of the normal distribution, and its slope */
            below = far > 0 ? -x * x / 2 - log(far) - log_2pi / 2 - 1 / (x * x) : log(erfc(-x / M_SQRT2) / 2),
               slope = exp(-x * x / 2 - log_2pi / 2 - below);
        sum += log(rate) + rate * rate / 2 - rate * y[i] + below;
        g[i] = slope - rate;
    }
    return sum;
}

static double one_sided_variance(const trust_target *t, size_t i)
{
    (void)i;
    return 1 + t->p[0] * t->p[0];
}

/* pairs of s ~ N(0, p[0]) and N(0, e^s) */
static double scales(const trust_target *t, const double *y, double *g)
{
    double sum = 0, v = t->p[0] * t->p[0];
    for (size_t i = 0; i < t->dim; i += 2) {
        double e = y[i + 1] * exp(-y[i]);
        sum += log_normal(y[i], t->p[0]) + log_normal(e, 1) - y[i];
        g[i] = -y[i] / v + e * e - 1;
        g[i + 1] = -e * exp(-y[i]);
    }
    return sum;
}

static double scales_variance(const trust_target *t, size_t i)
{
    return i % 2 ? exp(2 * t->p[0] * t->p[0]) : t->p[0] * t->p[0];
}

/* pairs of x ~ N(0, 1) and N(p[0] (x^2 - 1), p[1]) */
static double bananas(const trust_target *t, const double *y, double *g)
{
    double sum = 0;
    for (size_t i = 0; i < t->dim; i += 2) {
        double off = y[i + 1] - t->p[0] * (y[i] * y[i] - 1), pull = off / (t->p[1] * t->p[1]);
        sum += log_normal(y[i], 1) + log_normal(off, t->p[1]);
        g[i] = -y[i] + 2 * pull * t->p[0] * y[i];
        g[i + 1] = -pull;
    }
    return sum;
}

static double bananas_variance(const trust_target *t, size_t i)
{
    return i % 2 ? 2 * t->p[0] * t->p[0] + t->p[1] * t->p[1] : 1;
}

/* one such pair, times normals */
static double banana(const trust_target *t, const double *y, double *g)
{
    double off = y[1] - t->p[0] * (y[0] * y[0] - 1), pull = off / (t->p[1] * t->p[1]),
           sum = log_normal(y[0], 1) + log_normal(off, t->p[1]);
    g[0] = -y[0] + 2 * pull * t->p[0] * y[0];
    g[1] = -pull;
    for (size_t i = 2; i < t->dim; i++) {
        sum += log_normal(y[i], 1);
        g[i] = -y[i];
    }
    return sum;
}

static double banana_variance(const trust_target *t, size_t i)
{
    return i > 1 ? 1 : bananas_variance(t, i);
}

/* s ~ N(0, p[0]), all others N(0, e^s) */
static double one_scale(const trust_target *t, const double *y, double *g)
{
    double sum = log_normal(y[0], t->p[0]);
    g[0] = -y[0] / (t->p[0] * t->p[0]);
    for (size_t i = 1; i < t->dim; i++) {
        double e = y[i] * exp(-y[0]);
        sum += log_normal(e, 1) - y[0];
        g[0] += e * e - 1;
        g[i] = -e * exp(-y[0]);
    }
    return sum;
}

static double one_scale_variance(const trust_target *t, size_t i)
{
    return scales_variance(t, i > 0);
}

/* a ring of radius 2 and width p[0], times normals */
static const double radius = 2;

static double ring(const trust_target *t, const double *y, double *g)
{
    double r = hypot(y[0], y[1]), w = t->p[0], e = (r - radius) / w, a = radius / w,
           sum = -e * e / 2 -
                 log(2 * M_PI * (w * w * exp(-a * a / 2) + radius * w * sqrt(M_PI / 2) * erfc(-a / M_SQRT2)));
    for (size_t i = 0; i < t->dim; i++) {
        g[i] = i > 1 ? -y[i] : r > 0 ? -e / w * y[i] / r : 0;
        sum += i > 1 ? log_normal(y[i], 1) : 0;
    }
    return sum;
}

static double ring_variance(const trust_target *t, size_t i)
{
    enum { GRID = 20000 };
    double sum = 0, square = 0, w = t->p[0], step = (radius + 12 * w) / GRID;
    for (size_t k = 0; k < GRID && i < 2; k++) {
        double r = ((double)k + 0.5) * step, p = r * exp(-(r - radius) * (r - radius) / (2 * w * w));
        sum += p;
        square += p * r * r / 2;
    }
    return i < 2 ? square / sum : 1;
}

/* ---- turned ------------------------------------------------------------------------------------------------------ */
static double density(void *self, const double *z, double *grad)
{
    const trust_target *t = self;
    const tail *of = t->what;
    double y[MOST], g[MOST];
    memcpy(y, z, t->dim * sizeof *y);
    trust_reflect(t, y);
    double log_p = of->log_p(t, y, g) + t->log_z;
    trust_reflect(t, g);
    if (grad)
        memcpy(grad, g, t->dim * sizeof *g);
    return log_p;
}

static void turned(trust_target *t, uint64_t seed, const tail *of)
{
    test_random r = test_random_seed(seed);
    double norm = 0;
    t->what = of;
    t->dim = of->dim[0] + 2 * (size_t)between(&r, 0, (double)(of->dim[1] - of->dim[0]) / 2 + 1);
    t->a = trust_take(t->dim, sizeof *t->a);
    for (size_t k = 0; k < 3; k++)
        t->p[k] = between(&r, of->low[k], of->high[k]);
    for (size_t i = 0; i < t->dim; i++) {
        t->a[i] = test_random_normal(&r);
        norm += t->a[i] * t->a[i];
    }
    for (size_t i = 0; i < t->dim; i++)
        t->a[i] /= sqrt(norm);
    t->log_z = between(&r, -50, 50);
    t->density = density;
    t->known = t->dim;
    t->marginal = trust_take(t->dim, sizeof *t->marginal);
    for (size_t i = 0; i < t->dim; i++) {
        double variance = 0;
        for (size_t k = 0; k < t->dim; k++) {
            double h = (i == k) - 2 * t->a[i] * t->a[k];
            variance += h * h * of->variance(t, k);
        }
        t->marginal[i] = (trust_marginal){NAN, sqrt(variance), {NAN, NAN, NAN}};
    }
}

static const tail tails[] = {
    {skewed, skewed_variance, {10, 20}, {0.3}, {1}},
    {students, student_variance, {8, 16}, {5}, {8}},
    {ellipse, student_variance, {8, 16}, {5}, {8}},
    {long_tail, long_tail_variance, {8, 20}, {0.1, 4, 0}, {0.4, 8, 0}},
    {long_tail, long_tail_variance, {8, 20}, {0.1, 3, 1}, {0.4, 5, 1.5}},
    {around, two_normals_variance, {6, 12}, {0.1, 2, 0}, {0.5, 3, 0}},
    {one_sided, one_sided_variance, {8, 16}, {2}, {4}},
    {scales, scales_variance, {6, 12}, {0.5}, {0.9}},
    {bananas, bananas_variance, {8, 16}, {0.3, 0.3}, {0.7, 0.6}},
    {ring, ring_variance, {6, 12}, {0.3}, {0.6}},
    {around, two_normals_variance, {2, 4}, {0.05, 3, 0}, {0.3, 6, 0}},
    {plane, plane_variance, {4, 12}, {0.1, 3, 0}, {0.3, 6, 0.5}},
    {around, two_normals_variance, {2, 6}, {0.1, 0.8, 3.5}, {0.3, 1.2, 5}},
    {long_tail, long_tail_variance, {4, 12}, {0.1, 1.5, 2}, {0.3, 2.5, 2.5}},
    {banana, banana_variance, {2, 8}, {0.5, 0.3}, {1, 0.6}},
    {one_scale, one_scale_variance, {3, 7}, {0.5}, {0.9}},
    {one_sided, one_sided_variance, {2, 6}, {3}, {8}},
    {skewed, skewed_variance, {2, 8}, {0.1}, {0.3}},
};

#define KIND(k)                                                                                                        \
    static void kind##k(trust_target *t, uint64_t seed)                                                                \
    {                                                                                                                  \
        turned(t, seed, tails + (k));                                                                                  \
    }
KIND(0)
KIND(1)
KIND(2)
KIND(3)
KIND(4)
KIND(5)
KIND(6)
KIND(7)
KIND(8)
KIND(9)
KIND(10)
KIND(11)
KIND(12)
KIND(13)
KIND(14)
KIND(15)
KIND(16)
KIND(17)

const trust_kind trust_tails[] = {
    {"log-gammas, turned, D = 10..20", TRUST_COUNTED, kind0},
    {"students, turned, D = 8..16", TRUST_COUNTED, kind1},
    {"student, 5..8 df, D = 8..16", TRUST_COUNTED, kind2},
    {"long tail, D = 8..20", TRUST_COUNTED, kind3},
    {"tail on one side, D = 8..20", TRUST_COUNTED, kind4},
    {"normals of two widths, D = 6..12", TRUST_COUNTED, kind5},
    {"normal and exponential, D = 8..16", TRUST_COUNTED, kind6},
    {"scales and normals, D = 6..12", TRUST_BENT, kind7},
    {"bananas, turned, D = 8..16", TRUST_BENT, kind8},
    {"ring and normals, D = 6..12", TRUST_BENT, kind9},
};
const size_t trust_tail_count = sizeof trust_tails / sizeof *trust_tails;

const trust_kind trust_cores[] = {
    {"core in a wide tail, D = 2..4", TRUST_COUNTED, kind10},
    {"core in a wide plane, D = 4..12", TRUST_COUNTED, kind11},
    {"light mode at a saddle, D = 2..6", TRUST_COUNTED, kind12},
    {"shoulder, D = 4..12", TRUST_COUNTED, kind13},
    {"one bent ridge, D = 2..8", TRUST_BENT, kind14},
    {"one scale of all, D = 3..7", TRUST_BENT, kind15},
    {"long exponentials, D = 2..6", TRUST_COUNTED, kind16},
    {"skewed log-gammas, D = 2..8", TRUST_COUNTED, kind17},
};
const size_t trust_core_count = sizeof trust_cores / sizeof *trust_cores;
