/* targets.c - see targets.h. */
#include "targets.h"
#include "items.h"
#include <gsl/gsl_sf_psi.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "test_random.h"

static const double log_2pi = 1.8378770664093453;

static void *take(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

static double log_normal(double x, double sd)
{
    return -x * x / (2 * sd * sd) - log(sd) - log_2pi / 2;
}

/* ---- normal given log scales ------------------------------------------------------------------------------------- */
static double log_prior(const bend_target *t, const double *z, double *grad)
{
    double sum = 0;
    for (size_t s = 0; s < t->scales; s++) {
        double away = z[s] - t->prior_mean[s], ratio = exp(z[s]) / t->cauchy, square = ratio * ratio;
        sum += t->cauchy > 0 ? log(2 / (M_PI * t->cauchy)) - log1p(square) + z[s] : log_normal(away, t->prior_sd[s]);
        if (grad)
            grad[s] += t->cauchy > 0 ? 1 - 2 * square / (1 + square) : -away / (t->prior_sd[s] * t->prior_sd[s]);
    }
    return sum;
}

static double scale_of(const double *z, int number)
{
    return number < 0 ? 1 : exp(z[number]);
}

static double normal_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    if (grad)
        memset(grad, 0, t->dim * sizeof *grad);
    double sum = log_prior(t, z, grad);
    for (size_t i = 0; i < t->factors; i++) {
        const bend_factor *f = t->factor + i;
        double sd = f->sd * scale_of(z, f->scale), r = f->constant / sd, part[BEND_TERMS];
        for (size_t k = 0; k < f->terms; k++) {
            part[k] = f->coefficient[k] * scale_of(z, f->by[k]) / sd;
            r += part[k] * z[f->of[k]];
        }
        sum -= r * r / 2 + log(sd) + log_2pi / 2;
        for (size_t k = 0; k < f->terms && grad; k++) {
            grad[f->of[k]] -= r * part[k];
            if (f->by[k] >= 0)
                grad[f->by[k]] -= r * part[k] * z[f->of[k]];
        }
        if (f->scale >= 0 && grad)
            grad[f->scale] += r * r - 1;
    }
    return sum;
}

/* log p(data, scales), and mean[n] and second moment[n] of the others given these. Q[n][n] scratch. */
static double given_scales(const bend_target *t, const double *z, double *Q, double *mean, double *square)
{
    size_t S = t->scales, n = t->dim - S;
    double sum = log_prior(t, z, NULL), h[BEND_MOST] = {0}, log_det = 0, fits = 0;
    memset(Q, 0, n * n * sizeof *Q);
    for (size_t i = 0; i < t->factors; i++) {
        const bend_factor *f = t->factor + i;
        double sd = f->sd * scale_of(z, f->scale), c = f->constant / sd, part[BEND_TERMS];
        for (size_t k = 0; k < f->terms; k++)
            part[k] = f->coefficient[k] * scale_of(z, f->by[k]) / sd;
        for (size_t k = 0; k < f->terms; k++) {
            h[f->of[k] - S] -= c * part[k];
            for (size_t l = 0; l < f->terms; l++)
                Q[(f->of[k] - S) * n + f->of[l] - S] += part[k] * part[l];
        }
        sum -= c * c / 2 + log(sd) + log_2pi / 2;
    }
    lapack_int m = (lapack_int)n;
    memcpy(mean, h, n * sizeof *mean);
    if (LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', m, Q, m) || LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'L', m, 1, Q, m, mean, m))
        abort();
    for (size_t i = 0; i < n; i++) {
        log_det += log(Q[i * n + i]);
        fits += h[i] * mean[i];
    }
    if (LAPACKE_dpotri(LAPACK_COL_MAJOR, 'L', m, Q, m))
        abort();
    for (size_t i = 0; i < n; i++)
        square[i] = mean[i] * mean[i] + Q[i * n + i];
    return sum + fits / 2 + (double)n * log_2pi / 2 - log_det;
}

/* A grid of `side` points a scale over the box, by the midpoint rule; the box shrinks to where the density is not tiny,
 * and, in the last pass, moments are summed. */
typedef struct {
    double low[BEND_SCALES], high[BEND_SCALES];
} box;

static size_t power(size_t a, size_t n)
{
    return n ? a * power(a, n - 1) : 1;
}

static void grid_point(const bend_target *t, const box *b, size_t side, size_t number, double *z)
{
    for (size_t s = 0; s < t->scales; s++, number /= side)
        z[s] = b->low[s] + (b->high[s] - b->low[s]) * ((double)(number % side) + 0.5) / (double)side;
}

static box shrink(const bend_target *t, box b, size_t side, double *Q)
{
    const double tiny = 40;
    size_t all = power(side, t->scales);
    double *log_p = take(all, sizeof *log_p), z[BEND_SCALES], mean[BEND_MOST], square[BEND_MOST], top = -INFINITY;
    box to = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (size_t i = 0; i < all; i++) {
        grid_point(t, &b, side, i, z);
        log_p[i] = given_scales(t, z, Q, mean, square);
        top = fmax(top, log_p[i]);
    }
    for (size_t i = 0; i < all; i++) {
        grid_point(t, &b, side, i, z);
        for (size_t s = 0; s < t->scales && log_p[i] > top - tiny; s++) {
            double step = (b.high[s] - b.low[s]) / (double)side;
            to.low[s] = fmin(to.low[s], z[s] - 1.5 * step);
            to.high[s] = fmax(to.high[s], z[s] + 1.5 * step);
        }
    }
    free(log_p);
    return to;
}

static void integrate(bend_target *t, box b, size_t side, double *Q)
{
    size_t S = t->scales, all = power(side, S), n = t->dim - S;
    double z[BEND_SCALES], mean[BEND_MOST], square[BEND_MOST], first[BEND_MOST] = {0}, second[BEND_MOST] = {0},
                                                               top = -INFINITY, sum = 0, cell = 1;
    for (size_t i = 0; i < all; i++) {
        grid_point(t, &b, side, i, z);
        double log_p = given_scales(t, z, Q, mean, square), w;
        if (log_p > top) { /* sums so far are in units of exp(top) */
            double by = exp(top - log_p);
            sum *= by;
            for (size_t k = 0; k < t->dim; k++) {
                first[k] *= by;
                second[k] *= by;
            }
            top = log_p;
        }
        sum += w = exp(log_p - top);
        for (size_t k = 0; k < S; k++) {
            first[k] += w * z[k];
            second[k] += w * z[k] * z[k];
        }
        for (size_t k = 0; k < n; k++) {
            first[S + k] += w * mean[k];
            second[S + k] += w * square[k];
        }
    }
    for (size_t s = 0; s < S; s++)
        cell *= (b.high[s] - b.low[s]) / (double)side;
    t->log_z = top + log(sum * cell);
    for (size_t k = 0; k < t->dim; k++) {
        t->mean[k] = first[k] / sum;
        t->sd[k] = sqrt(second[k] / sum - t->mean[k] * t->mean[k]);
    }
}

static void by_quadrature(bend_target *t)
{
    static const size_t coarse[] = {0, 200, 40, 20}, fine[] = {0, 4000, 120, 44};
    size_t n = t->dim - t->scales;
    double *Q = take(n * n, sizeof *Q);
    box b;
    for (size_t s = 0; s < t->scales; s++) {
        b.low[s] = t->cauchy > 0 ? log(t->cauchy) - 14 : t->prior_mean[s] - 8 * t->prior_sd[s];
        b.high[s] = t->cauchy > 0 ? log(t->cauchy) + 14 : t->prior_mean[s] + 8 * t->prior_sd[s];
    }
    for (size_t i = 0; i < 3; i++)
        b = shrink(t, b, coarse[t->scales], Q);
    integrate(t, b, fine[t->scales], Q);
    t->density = normal_density;
    free(Q);
}

static bend_factor *add(bend_target *t, double constant, double sd, int scale)
{
    if (t->factors == t->room) {
        t->room = 2 * t->room + 64;
        t->factor = realloc(t->factor, t->room * sizeof *t->factor);
        if (!t->factor)
            abort();
    }
    t->factor[t->factors] = (bend_factor){.constant = constant, .sd = sd, .scale = scale};
    return t->factor + t->factors++;
}

/* + coefficient exp(z_by) z_of */
static bend_factor *term(bend_factor *f, double coefficient, size_t of, int by)
{
    f->of[f->terms] = of;
    f->coefficient[f->terms] = coefficient;
    f->by[f->terms++] = by;
    return f;
}

/* ---- hierarchies ------------------------------------------------------------------------------------------------- */
static void schools(bend_target *t, bool apart)
{
    static const double y[] = {28, 8, -3, 7, -1, 1, 18, 12}, s[] = {15, 10, 16, 11, 9, 11, 10, 18};
    t->scales = 1;
    t->dim = 10;
    t->cauchy = 5;
    term(add(t, 0, 5, -1), 1, 1, -1);
    for (size_t j = 0; j < 8; j++) {
        bend_factor *effect = add(t, 0, 1, apart ? -1 : 0), *seen;
        term(effect, 1, 2 + j, -1);
        if (!apart)
            term(effect, -1, 1, -1);
        seen = add(t, -y[j], s[j], -1);
        term(seen, 1, 2 + j, apart ? 0 : -1);
        if (apart)
            term(seen, 1, 1, -1);
    }
    by_quadrature(t);
}

static void schools_centred(bend_target *t)
{
    schools(t, false);
}

static void schools_apart(bend_target *t)
{
    schools(t, true);
}

/* J groups of `each` observations of sd exp(log sigma), which is unknown, too; intercepts around their mean, with an
 * unknown scale. z = (log tau, log sigma, mu, group[J]). */
static void groups(bend_target *t, uint64_t seed, size_t J, size_t each, double tau, bool apart)
{
    test_random r = test_random_seed(seed);
    t->scales = 2;
    t->dim = 3 + J;
    for (size_t s = 0; s < 2; s++)
        t->prior_sd[s] = 1;
    term(add(t, 0, 5, -1), 1, 2, -1);
    for (size_t j = 0; j < J; j++) {
        double a = 1 + tau * test_random_normal(&r);
        bend_factor *effect = add(t, 0, 1, apart ? -1 : 0);
        term(effect, 1, 3 + j, -1);
        if (!apart)
            term(effect, -1, 2, -1);
        for (size_t i = 0; i < each; i++) {
            bend_factor *seen = add(t, -(a + test_random_normal(&r)), 1, 1);
            term(seen, 1, 3 + j, apart ? 0 : -1);
            if (apart)
                term(seen, 1, 2, -1);
        }
    }
    by_quadrature(t);
}

static void groups5_weak(bend_target *t)
{
    groups(t, 1, 5, 2, 0.5, false);
}

static void groups5_weak_apart(bend_target *t)
{
    groups(t, 1, 5, 2, 0.5, true);
}

static void groups20_strong(bend_target *t)
{
    groups(t, 2, 20, 10, 1.5, false);
}

static void groups20_strong_apart(bend_target *t)
{
    groups(t, 2, 20, 10, 1.5, true);
}

static void groups33_weak(bend_target *t)
{
    groups(t, 3, 33, 3, 0.3, false);
}

static void groups50_apart(bend_target *t)
{
    groups(t, 4, 50, 4, 0.7, true);
}

/* Intercepts and slopes of 12 groups with 5 observations each. z = (log tau_a, log tau_b, log sigma, mu_a, mu_b, a[12],
 * b[12]). */
static void slopes(bend_target *t, uint64_t seed, bool apart)
{
    enum { J = 12, EACH = 5 };
    test_random r = test_random_seed(seed);
    t->scales = 3;
    t->dim = 5 + 2 * J;
    for (size_t s = 0; s < 3; s++)
        t->prior_sd[s] = 1;
    term(add(t, 0, 5, -1), 1, 3, -1);
    term(add(t, 0, 5, -1), 1, 4, -1);
    for (size_t j = 0; j < J; j++) {
        double a = 0.5 + 0.8 * test_random_normal(&r), b = -0.5 + 0.4 * test_random_normal(&r);
        for (size_t k = 0; k < 2; k++) {
            bend_factor *effect = add(t, 0, 1, apart ? -1 : (int)k);
            term(effect, 1, 5 + k * J + j, -1);
            if (!apart)
                term(effect, -1, 3 + k, -1);
        }
        for (size_t i = 0; i < EACH; i++) {
            double x = test_random_normal(&r);
            bend_factor *seen = add(t, -(a + b * x + test_random_normal(&r)), 1, 2);
            term(seen, 1, 5 + j, apart ? 0 : -1);
            term(seen, x, 5 + J + j, apart ? 1 : -1);
            if (apart) {
                term(seen, 1, 3, -1);
                term(seen, x, 4, -1);
            }
        }
    }
    by_quadrature(t);
}

static void slopes_centred(bend_target *t)
{
    slopes(t, 5, false);
}

static void slopes_apart(bend_target *t)
{
    slopes(t, 5, true);
}

/* x_i = phi x_(i-1) + q e, seen as x_i + s e but for every step from `from` on up to `to`. z = (log q, log s, x[n]). */
static void walk(bend_target *t, uint64_t seed, size_t n, double phi, size_t from, size_t to)
{
    test_random r = test_random_seed(seed);
    double x = 0;
    t->scales = 2;
    t->dim = 2 + n;
    t->prior_mean[0] = t->prior_mean[1] = -1;
    t->prior_sd[0] = t->prior_sd[1] = 1;
    for (size_t i = 0; i < n; i++) {
        bend_factor *moved = add(t, 0, i ? 1 : 3, i ? 0 : -1);
        term(moved, 1, 2 + i, -1);
        if (i)
            term(moved, -phi, 1 + i, -1);
        x = phi * x + 0.3 * test_random_normal(&r);
        double y = x + 0.5 * test_random_normal(&r);
        if (i < from || i >= to)
            term(add(t, -y, 1, 1), 1, 2 + i, -1);
    }
    by_quadrature(t);
}

static void walk32(bend_target *t)
{
    walk(t, 6, 30, 1, 0, 0);
}

static void walk32_gap(bend_target *t)
{
    walk(t, 7, 30, 1, 10, 20);
}

static void ar32(bend_target *t)
{
    walk(t, 8, 30, 0.8, 0, 0);
}

static void walk100(bend_target *t)
{
    walk(t, 9, 100, 1, 40, 50);
}

/* ---- counts of 40 groups: y_j ~ Poisson(exp(a_j)), a_j ~ N(mu, tau^2); z = (mu, log tau, a[40]) --------------------
 */
enum { COUNTS = 40 };

static double counts_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    double tau = exp(z[1]), sum = log_normal(z[0], 3) + log_normal(z[1], 1), slope[2] = {-z[0] / 9, -z[1]};
    for (size_t j = 0; j < COUNTS; j++) {
        double a = z[2 + j], e = (a - z[0]) / tau, rate = exp(a);
        sum += log_normal(e, 1) - z[1] + t->data[j] * a - rate - lgamma(t->data[j] + 1);
        slope[0] += e / tau;
        slope[1] += e * e - 1;
        if (grad)
            grad[2 + j] = t->data[j] - rate - e / tau;
    }
    if (grad)
        memcpy(grad, slope, sizeof slope);
    return sum;
}

/* Integral over one intercept, and its first two moments, by the midpoint rule around its top. */
static void counts_one(double y, double mu, double tau, double to[3])
{
    enum { GRID = 120 };
    const double wide = 9;
    double a = mu;
    for (int i = 0; i < 60; i++) {
        double slope = y - exp(a) - (a - mu) / (tau * tau), bend = exp(a) + 1 / (tau * tau), step = slope / bend;
        a += fmin(fmax(step, -1), 1);
    }
    double sd = 1 / sqrt(exp(a) + 1 / (tau * tau)), h = 2 * wide * sd / GRID, log_y = lgamma(y + 1);
    to[0] = to[1] = to[2] = 0;
    for (size_t i = 0; i < GRID; i++) {
        double x = a - wide * sd + h * ((double)i + 0.5), p = h * exp(log_normal(x - mu, tau) + y * x - exp(x) - log_y);
        to[0] += p;
        to[1] += p * x;
        to[2] += p * x * x;
    }
}

static void counts(bend_target *t)
{
    enum { SIDE = 60 };
    test_random r = test_random_seed(10);
    double sum = 0, first[2 + COUNTS] = {0}, second[2 + COUNTS] = {0}, top = NAN;
    t->dim = 2 + COUNTS;
    t->density = counts_density;
    for (size_t j = 0; j < COUNTS; j++) {
        double rate = exp(0.5 + 0.4 * test_random_normal(&r)), left = rate;
        for (; (left += log(test_random_uniform(&r))) > 0;)
            t->data[j]++;
    }
    for (size_t g = 0; g < SIDE * SIDE; g++) {
        double z[2] = {-1 + 3.0 * ((double)(g % SIDE) + 0.5) / SIDE, -6 + 7.0 * ((double)(g / SIDE) + 0.5) / SIDE},
               log_p = log_normal(z[0], 3) + log_normal(z[1], 1), part[COUNTS][3];
        for (size_t j = 0; j < COUNTS; j++) {
            counts_one(t->data[j], z[0], exp(z[1]), part[j]);
            log_p += log(part[j][0]);
        }
        top = isnan(top) ? log_p : top;
        double w = exp(log_p - top);
        sum += w;
        for (size_t k = 0; k < 2; k++) {
            first[k] += w * z[k];
            second[k] += w * z[k] * z[k];
        }
        for (size_t j = 0; j < COUNTS; j++) {
            first[2 + j] += w * part[j][1] / part[j][0];
            second[2 + j] += w * part[j][2] / part[j][0];
        }
    }
    t->log_z = top + log(sum * 3 * 7 / (SIDE * SIDE));
    for (size_t k = 0; k < t->dim; k++) {
        t->mean[k] = first[k] / sum;
        t->sd[k] = sqrt(second[k] / sum - t->mean[k] * t->mean[k]);
    }
}

/* ---- closed forms ------------------------------------------------------------------------------------------------ */
/* x_i ~ N(1, 1), y_i ~ N(x_i^2, p[0]). */
static double pairs_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    size_t k = t->dim / 2;
    double sum = 0;
    for (size_t i = 0; i < k; i++) {
        double a = z[i], away = z[k + i] - a * a, pull = away / (t->p[0] * t->p[0]);
        sum += log_normal(a - 1, 1) + log_normal(away, t->p[0]);
        if (grad) {
            grad[i] = 1 - a + 2 * a * pull;
            grad[k + i] = -pull;
        }
    }
    return sum;
}

static void pairs(bend_target *t, size_t dim, double sd)
{
    t->dim = dim;
    t->p[0] = sd;
    t->density = pairs_density;
    for (size_t i = 0; i < dim; i++) {
        t->mean[i] = i < dim / 2 ? 1 : 2;
        t->sd[i] = i < dim / 2 ? 1 : sqrt(sd * sd + 6);
    }
}

static void pairs4(bend_target *t)
{
    pairs(t, 4, 0.1);
}

static void pairs10(bend_target *t)
{
    pairs(t, 10, 0.1);
}

static void pairs36(bend_target *t)
{
    pairs(t, 36, sqrt(0.1));
}

static void reflect(const bend_target *t, double *x)
{
    double along = 0;
    for (size_t i = 0; i < t->dim; i++)
        along += t->turn[i] * x[i];
    for (size_t i = 0; i < t->dim; i++)
        x[i] -= 2 * along * t->turn[i];
}

static void turn(bend_target *t)
{
    test_random r = test_random_seed(11);
    double norm = 0;
    for (size_t i = 0; i < t->dim; i++) {
        t->turn[i] = test_random_normal(&r);
        norm += t->turn[i] * t->turn[i];
    }
    for (size_t i = 0; i < t->dim; i++)
        t->turn[i] /= sqrt(norm);
    t->turned = true;
}

/* v ~ N(0, 3), x_i ~ N(0, exp(v/2)). */
static double funnel_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    double x[BEND_MOST], g[BEND_MOST];
    memcpy(x, z, t->dim * sizeof *x);
    reflect(t, x);
    double sum = log_normal(x[0], 3), by = exp(-x[0]);
    g[0] = -x[0] / 9;
    for (size_t i = 1; i < t->dim; i++) {
        double q = x[i] * x[i] * by;
        sum -= (x[0] + q + log_2pi) / 2;
        g[0] += (q - 1) / 2;
        g[i] = -x[i] * by;
    }
    reflect(t, g);
    if (grad)
        memcpy(grad, g, t->dim * sizeof *g);
    return sum;
}

/* Variances of reflected coordinates, from those of the plain ones. */
static void turn_sds(bend_target *t)
{
    double var[BEND_MOST];
    for (size_t i = 0; i < t->dim; i++) {
        double sum = 0;
        for (size_t k = 0; k < t->dim; k++)
            sum += pow((i == k) - 2 * t->turn[i] * t->turn[k], 2) * t->sd[k] * t->sd[k];
        var[i] = sum;
    }
    for (size_t i = 0; i < t->dim; i++)
        t->sd[i] = sqrt(var[i]);
    reflect(t, t->mean);
}

static void funnel(bend_target *t, size_t dim, bool turned)
{
    t->dim = dim;
    t->density = funnel_density;
    if (turned)
        turn(t);
    t->sd[0] = 3;
    for (size_t i = 1; i < dim; i++)
        t->sd[i] = exp(2.25);
    turn_sds(t);
}

static void funnel10(bend_target *t)
{
    funnel(t, 10, false);
}

static void funnel30(bend_target *t)
{
    funnel(t, 30, false);
}

static void funnel10_turned(bend_target *t)
{
    funnel(t, 10, true);
}

/* Log-gamma of shape 1 in each coordinate. */
static double gamma_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    double x[BEND_MOST], sum = 0;
    memcpy(x, z, t->dim * sizeof *x);
    reflect(t, x);
    for (size_t i = 0; i < t->dim; i++) {
        double e = exp(x[i]);
        sum += x[i] - e;
        x[i] = 1 - e;
    }
    reflect(t, x);
    if (grad)
        memcpy(grad, x, t->dim * sizeof *x);
    return sum;
}

static void log_gamma(bend_target *t, bool turned)
{
    t->dim = 10;
    t->density = gamma_density;
    if (turned)
        turn(t);
    for (size_t i = 0; i < t->dim; i++) {
        t->mean[i] = gsl_sf_psi(1);
        t->sd[i] = M_PI / sqrt(6);
    }
    turn_sds(t);
}

static void log_gamma10(bend_target *t)
{
    log_gamma(t, false);
}

static void log_gamma10_turned(bend_target *t)
{
    log_gamma(t, true);
}

/* ---- controls ---------------------------------------------------------------------------------------------------- */
/* Student-t of 5 degrees of freedom. */
static double student_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    const double nu = 5;
    double D = (double)t->dim, q = 1;
    for (size_t i = 0; i < t->dim; i++)
        q += z[i] * z[i] / nu;
    for (size_t i = 0; i < t->dim && grad; i++)
        grad[i] = -(nu + D) / nu * z[i] / q;
    return lgamma((nu + D) / 2) - lgamma(nu / 2) - D / 2 * log(nu * M_PI) - (nu + D) / 2 * log(q);
}

static void student10(bend_target *t)
{
    t->dim = 10;
    t->density = student_density;
    for (size_t i = 0; i < t->dim; i++)
        t->sd[i] = sqrt(5.0 / 3);
}

/* 0.7 N(0, 1) + 0.3 N(m, s^2), m = 6 and s = 1.5 in every coordinate. */
static double two_density(void *self, const double *z, double *grad)
{
    const bend_target *t = self;
    double part[2] = {log(0.7), log(0.3)};
    for (size_t i = 0; i < t->dim; i++) {
        part[0] += log_normal(z[i], 1);
        part[1] += log_normal(z[i] - 6, 1.5);
    }
    double top = fmax(part[0], part[1]), sum = top + log(exp(part[0] - top) + exp(part[1] - top));
    for (size_t i = 0; i < t->dim && grad; i++)
        grad[i] = -exp(part[0] - sum) * z[i] - exp(part[1] - sum) * (z[i] - 6) / 2.25;
    return sum;
}

static void two5(bend_target *t)
{
    t->dim = 5;
    t->density = two_density;
    for (size_t i = 0; i < t->dim; i++) {
        t->mean[i] = 0.3 * 6;
        t->sd[i] = sqrt(0.7 + 0.3 * (2.25 + 36) - t->mean[i] * t->mean[i]);
    }
}

/* Groups with much data: nearly normal. */
static void groups10_plain(bend_target *t)
{
    groups(t, 12, 10, 40, 1, false);
}

/* ------------------------------------------------------------------------------------------------------------------ */
const bend_kind bend_kinds[] = {
    {"schools, centred", false, schools_centred},
    {"schools, non-centred", false, schools_apart},
    {"5 groups, weak, centred", false, groups5_weak},
    {"5 groups, weak, non-centred", false, groups5_weak_apart},
    {"20 groups, strong, centred", false, groups20_strong},
    {"20 groups, strong, non-centred", false, groups20_strong_apart},
    {"33 groups, weak, centred", false, groups33_weak},
    {"50 groups, non-centred", false, groups50_apart},
    {"slopes of 12 groups, centred", false, slopes_centred},
    {"slopes of 12 groups, non-centred", false, slopes_apart},
    {"random walk, 30 steps", false, walk32},
    {"random walk, 30 steps, gap", false, walk32_gap},
    {"AR(1), 30 steps", false, ar32},
    {"random walk, 100 steps, gap", false, walk100},
    {"counts of 40 groups", false, counts},
    {"item responses, 200", false, bend_items},
    {"pairs, 4", false, pairs4},
    {"pairs, 10", false, pairs10},
    {"pairs, 36", false, pairs36},
    {"funnel, 10", false, funnel10},
    {"funnel, 30", false, funnel30},
    {"funnel, 10, turned", false, funnel10_turned},
    {"log-gamma, 10", false, log_gamma10},
    {"log-gamma, 10, turned", false, log_gamma10_turned},
    {"Student-t, 10", true, student10},
    {"two Gaussians, 5", true, two5},
    {"10 groups, much data", true, groups10_plain},
};
const size_t bend_kind_count = sizeof bend_kinds / sizeof *bend_kinds;

bend_target *bend_make(const bend_kind *kind)
{
    bend_target *t = take(1, sizeof *t);
    kind->make(t);
    return t;
}

void bend_free(bend_target *t)
{
    free(t->factor);
    free(t);
}
