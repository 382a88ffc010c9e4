/* nogradient.c - models without gradients: what differences cost, and whether results are right.
 *     nogradient [gradients] [large] [classics] [tables] [noise] [targets] [walls] [odd] [--seeds N] [--first SEED]
 *         [--bend auto|never]
 * gradients: twelve targets with their gradients and without. Columns: evaluations of each (means over seeds), their
 *     ratio beside the most that it may be, 2D + 2; the largest difference between the two log evidences over both
 *     standard errors; the largest error of the one without over its standard error; reliable verdicts of each.
 * large: the same in 40 to 64 dimensions.
 * classics: targets that nested samplers are shown with, all through a prior transform: z is standard normal, and the
 *     parameters are quantiles of the prior at Phi(z). The log evidence is known in closed form or by quadrature.
 * tables: log densities that are interpolated linearly in tables.
 * noise: a Gaussian whose log density is in single precision, or has noise of this size, relative or absolute, that is
 *     a function of the point ("fixed") or is not ("random").
 * targets: noise in a banana, a mixture and a logistic regression.
 * walls: boxes, steps and plateaus.
 * odd: what people have instead of a smooth density: simulators with fixed random numbers, counts of accepted
 *     simulations, tables on a grid of logs, whole numbers, NaN outside of a disc, a corner. Truths are sums over
 * grids. A fit is right if |error of the log evidence| <= max(0.05, 3 se); a lie is one called reliable that is not
 * right. nogradient one NAME [--first SEED], nogradient density NAME fit one classic and print evaluations, verdict,
 * means and sds, or answer points on the standard input with its log densities, for bench/peers/nogradient_emcee.py. */
#include "targets.h"
#include "wvgd.h"
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, BINS = 40 };
static const double pi = 3.14159265358979323846;
static unsigned long seeds = 3, first_seed = 101;
static const char *bend; /* NULL: the default */

typedef struct {
    bool failed, reliable;
    double evidence, se, evaluations;
    double mean[MOST], sd[MOST];
    char reason[240];
} outcome;

static outcome fit(const wvgd_model *model, unsigned long seed)
{
    outcome out = {.failed = true};
    wvgd_options o;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_results r;
    wvgd_options_init(&o);
    o.seed = seed;
    o.most_particles = 80; /* as in the program */
    if (bend && wvgd_options_set(&o, "bend", bend, &error) != WVGD_OK)
        return out;
    wvgd_fit *f = wvgd_new(model, &o, NULL, &error);
    if (f && wvgd_run(f, NULL, NULL, &error) == WVGD_OK) {
        wvgd_get_results(f, &r);
        out = (outcome){.reliable = r.reliable,
                        .evidence = r.evidence.value,
                        .se = r.evidence.se,
                        .evaluations = (double)r.evaluations};
        for (size_t i = 0; i < model->dim; i++) {
            out.mean[i] = r.mean[i];
            out.sd[i] = sqrt(r.var[i]);
        }
        snprintf(out.reason, sizeof out.reason, "%s", r.reasons && !r.reliable ? r.reason[0] : "");
    } else
        snprintf(out.reason, sizeof out.reason, "%s", error.text);
    wvgd_free(f);
    return out;
}

static bool is_right(const outcome *o, double truth)
{
    return !o->failed && fabs(o->evidence - truth) <= fmax(0.05, 3 * o->se);
}

/* ---- with and without gradients ---------------------------------------------------------------------------------- */
typedef struct {
    const char *name;
    int (*make)(wvgd_model *model);
} maker;

static int gaussian_2(wvgd_model *m)
{
    return target_gaussian_random(m, 2, 100, 3, true);
}
static int gaussian_10(wvgd_model *m)
{
    return target_gaussian_random(m, 10, 1e8, 4, true);
}
static int gaussian_30(wvgd_model *m)
{
    return target_gaussian_random(m, 30, 1e4, 5, true);
}
static int mixture_2(wvgd_model *m)
{
    return target_mixture_random(m, 2, 3, 4, 7);
}
static int rosenbrock_2(wvgd_model *m)
{
    return target_rosenbrock(m, 2);
}
static int rosenbrock_4(wvgd_model *m)
{
    return target_rosenbrock(m, 4);
}
static int banana_3(wvgd_model *m)
{
    return target_banana(m, 3, 2, 0.3);
}
static int banana_20(wvgd_model *m)
{
    return target_banana(m, 20, 2, 0.1);
}

static int separated(wvgd_model *m, size_t D, size_t K)
{
    static double weight[4], mean[4 * MOST], cov[4 * MOST * MOST];
    target_separated(D, K, 10, 8, 1, weight, mean, cov);
    return target_mixture(m, D, K, weight, mean, cov);
}
static int separated_5(wvgd_model *m)
{
    return separated(m, 5, 3);
}
static int separated_15(wvgd_model *m)
{
    return separated(m, 15, 2);
}

static int log_gamma_8(wvgd_model *m)
{
    const double shapes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    return target_log_gamma(m, 8, shapes);
}

static int student_4(wvgd_model *m)
{
    const double weight = 1, mean[4] = {1, -2, 3, 0};
    double scale[16] = {0};
    for (size_t i = 0; i < 4; i++)
        scale[5 * i] = pow(10, (double)i - 1);
    return target_student_mixture(m, 4, 1, 5, &weight, mean, scale);
}

static void compare(const maker *t)
{
    wvgd_model model;
    double with = 0, without = 0, apart = 0, off = 0;
    size_t reliable[2] = {0, 0}, failed = 0;
    if (t->make(&model) != 0)
        return;
    double truth = target_truth_of(&model).log_evidence;
    for (unsigned long s = first_seed; s < first_seed + seeds; s++) {
        wvgd_model blind = model;
        blind.has_gradient = false;
        outcome a = fit(&model, s), b = fit(&blind, s);
        failed += a.failed + b.failed;
        with += a.evaluations / (double)seeds;
        without += b.evaluations / (double)seeds;
        reliable[0] += a.reliable;
        reliable[1] += b.reliable;
        apart = fmax(apart, fabs(a.evidence - b.evidence) / hypot(a.se, b.se));
        off = fmax(off, fabs(b.evidence - truth) / b.se);
        if (b.reason[0])
            printf("    %s\n", b.reason);
    }
    printf("%-16s %3zu %9.0f %9.0f %7.1f %4zu %7.2f %7.2f   %zu %zu of %lu%s\n", t->name, model.dim, with, without,
           without / with, 2 * model.dim + 2, apart, off, reliable[0], reliable[1], seeds, failed ? "  FAILED" : "");
    fflush(stdout);
    wvgd_model_close(&model);
}

static void compare_all(const maker *all, size_t n)
{
    printf("%-16s %3s %9s %9s %7s %4s %7s %7s   %s\n", "target", "D", "with", "without", "ratio", "most", "apart",
           "off", "reliable, with and without");
    for (size_t i = 0; i < n; i++)
        compare(&all[i]);
}

static int gaussian_40(wvgd_model *m)
{
    return target_gaussian_random(m, 40, 1e4, 5, true);
}
static int gaussian_64(wvgd_model *m)
{
    return target_gaussian_random(m, 64, 1e4, 5, true);
}
static int separated_40(wvgd_model *m)
{
    return separated(m, 40, 2);
}
static int banana_40(wvgd_model *m)
{
    return target_banana(m, 40, 2, 0.1);
}
static int banana_64(wvgd_model *m)
{
    return target_banana(m, 64, 2, 0.1);
}
static int log_gamma_64(wvgd_model *m)
{
    double shapes[64];
    for (size_t i = 0; i < 64; i++)
        shapes[i] = 4 + (double)(i % 8);
    return target_log_gamma(m, 64, shapes);
}

static void large(void)
{
    static const maker all[] = {{"gaussian", gaussian_40}, {"gaussian", gaussian_64}, {"separated", separated_40},
                                {"banana", banana_40},     {"banana", banana_64},     {"log-gamma", log_gamma_64}};
    compare_all(all, sizeof all / sizeof *all);
}

static void gradients(void)
{
    static const maker all[] = {{"gaussian", gaussian_2},     {"gaussian", gaussian_10},    {"gaussian", gaussian_30},
                                {"mixture", mixture_2},       {"separated", separated_5},   {"separated", separated_15},
                                {"rosenbrock", rosenbrock_2}, {"rosenbrock", rosenbrock_4}, {"banana", banana_3},
                                {"banana", banana_20},        {"log-gamma", log_gamma_8},   {"student", student_4}};
    compare_all(all, sizeof all / sizeof *all);
}

/* ---- classics ---------------------------------------------------------------------------------------------------- */
typedef struct {
    const char *name;
    size_t D;
    double (*log_likelihood)(const double *u); /* of the unit cube */
    double truth;
} classic;

/* Stays inside the cube, where doubles can tell. */
static double phi(double z)
{
    return fmin(fmax(0.5 * erfc(-z * sqrt(0.5)), 1e-300), 1 - 0x1p-53);
}

static double through_prior(void *self, const double *z, double *grad)
{
    const classic *c = self;
    double u[MOST], sum = 0;
    (void)grad;
    for (size_t i = 0; i < c->D; i++) {
        u[i] = phi(z[i]);
        sum -= 0.5 * z[i] * z[i] + 0.5 * log(2 * pi);
    }
    return sum + c->log_likelihood(u);
}

static void prior_draw(void *self, const double *normal, double *z)
{
    const classic *c = self;
    memcpy(z, normal, c->D * sizeof *z);
}

static double egg_box(const double *u)
{
    return pow(2 + cos(5 * pi * u[0]) * cos(5 * pi * u[1]), 5);
}

static double log_normal(double x, double mean, double sd)
{
    double y = (x - mean) / sd;
    return -0.5 * y * y - log(sd) - 0.5 * log(2 * pi);
}

static double log_add(double a, double b)
{
    double top = fmax(a, b);
    return isfinite(top) ? top + log(exp(a - top) + exp(b - top)) : top;
}

/* Logarithm of an exponential variable, at this place with this scale. */
static double log_log_gamma(double x, double place, double scale)
{
    double y = (x - place) / scale;
    return y - exp(y) - log(scale);
}

/* Beaujean and Caldwell (2013): two peaks in each of two coordinates, log-gamma and normal ones. Log evidence 0. */
static double log_gamma_10(const double *u)
{
    const double s = 1.0 / 30;
    double sum = log_add(log_log_gamma(u[0], 1.0 / 3, s), log_log_gamma(u[0], 2.0 / 3, s)) - log(2) +
                 log_add(log_normal(u[1], 1.0 / 3, s), log_normal(u[1], 2.0 / 3, s)) - log(2);
    for (size_t i = 2; i < 10; i++)
        sum += i < 6 ? log_log_gamma(u[i], 2.0 / 3, s) : log_normal(u[i], 2.0 / 3, s);
    return sum;
}

static double shells(const double *u)
{
    double x = 12 * u[0] - 6, y = 12 * u[1] - 6;
    return log_add(log_normal(hypot(x - 3.5, y), 2, 0.1), log_normal(hypot(x + 3.5, y), 2, 0.1));
}

/* A line on a noisy spectrum: amplitude 0 to 10, position in 40 bins, width 0.5 to 5, all uniform. */
static double line_data[BINS];
static double spectral_line(const double *u)
{
    double amplitude = 10 * u[0], place = BINS * u[1], width = 0.5 + 4.5 * u[2], sum = 0;
    for (size_t b = 0; b < BINS; b++) {
        double y = ((double)b + 0.5 - place) / width;
        sum += log_normal(line_data[b], amplitude * exp(-0.5 * y * y), 1);
    }
    return sum;
}

/* Standard normals with correlation 0.5 in a box of 10 sds. */
static double correlated(const double *u)
{
    enum { D = 20 };
    const double rho = 0.5;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < D; i++) {
        double x = 10 * u[i] - 5;
        sum += x;
        squares += x * x;
    }
    double form = (squares - rho / (1 + (D - 1) * rho) * sum * sum) / (1 - rho);
    return -0.5 * form - 0.5 * (log(1 + (D - 1) * rho) + (D - 1) * log(1 - rho)) - D * 0.5 * log(2 * pi);
}

/* log of the mean of the likelihood over a midpoint grid of so many nodes along each coordinate. */
static double by_quadrature(const classic *c, size_t nodes)
{
    double top = -INFINITY, sum = 0, u[3] = {0.5, 0.5, 0.5};
    size_t all = 1;
    for (size_t i = 0; i < c->D; i++)
        all *= nodes;
    for (size_t k = 0; k < all; k++) {
        size_t rest = k;
        for (size_t i = 0; i < c->D; i++, rest /= nodes)
            u[i] = ((double)(rest % nodes) + 0.5) / (double)nodes;
        double value = c->log_likelihood(u);
        if (value > top) {
            sum *= exp(top - value);
            top = value;
        }
        sum += exp(value - top);
    }
    return top + log(sum / (double)all);
}

static void make_line(void)
{
    uint64_t h = 88172645463325252u;
    for (size_t b = 0; b < BINS; b++) {
        double noise = -6; /* about normal: a sum of twelve */
        for (int k = 0; k < 12; k++) {
            h ^= h << 13;
            h ^= h >> 7;
            h ^= h << 17;
            noise += (double)(h >> 11) * 0x1p-53;
        }
        double y = ((double)b + 0.5 - 24) / 2;
        line_data[b] = 3 * exp(-0.5 * y * y) + noise;
    }
}

enum { CLASSICS = 5 };
static classic all_classics[CLASSICS] = {{"egg box", 2, egg_box, NAN},
                                         {"log-gamma", 10, log_gamma_10, 0},
                                         {"two shells", 2, shells, NAN},
                                         {"spectral line", 3, spectral_line, NAN},
                                         {"correlated", 20, correlated, NAN}};

static int make_classic(classic *c, wvgd_model *model)
{
    make_line();
    int status = wvgd_model_pointwise(model, c->D, through_prior, c, false);
    model->start = prior_draw;
    model->start_self = c;
    return status;
}

/* One line of a table: a fit and its verdict. */
static void print_fit(const char *name, size_t D, unsigned long seed, const outcome *o, double truth)
{
    printf("%-16s %3zu %6lu %10.0f %9.3f %9.3f %8.3f  %s%s %s\n", name, D, seed, o->evaluations, o->evidence,
           o->evidence - truth, o->se,
           o->failed     ? "failed"
           : o->reliable ? "reliable"
                         : "not reliable",
           o->reliable && !is_right(o, truth) ? ", A LIE" : "", o->reason);
    fflush(stdout);
}

static void print_heads(const char *title)
{
    printf("%-16s %3s %6s %10s %9s %9s %8s  %s\n", title, "D", "seed", "evals", "log Z", "error", "se", "verdict");
}

static void classics(void)
{
    print_heads("classic");
    for (size_t i = 0; i < CLASSICS; i++) {
        classic *c = &all_classics[i];
        wvgd_model model;
        if (make_classic(c, &model))
            return;
        if (c->D == 20)
            c->truth = -20 * log(10);
        else if (isnan(c->truth))
            c->truth = by_quadrature(c, c->D == 2 ? 4000 : 200);
        for (unsigned long s = first_seed; s < first_seed + seeds; s++) {
            outcome o = fit(&model, s);
            print_fit(c->name, c->D, s, &o, c->truth);
        }
        wvgd_model_close(&model);
    }
}

static classic *find_classic(const char *name)
{
    for (size_t i = 0; i < CLASSICS; i++)
        if (!strcmp(all_classics[i].name, name))
            return &all_classics[i];
    return NULL;
}

static int one(const char *name)
{
    classic *c = find_classic(name);
    wvgd_model model;
    if (!c || make_classic(c, &model))
        return 1;
    outcome o = fit(&model, first_seed);
    printf("%zu %.0f %d\n", c->D, o.evaluations, o.reliable);
    for (size_t i = 0; i < c->D; i++)
        printf("%.17g %.17g\n", o.mean[i], o.sd[i]);
    wvgd_model_close(&model);
    return 0;
}

/* Points of D doubles come in, log densities go out, one by one; the reader says how many it waits for. */
static int answer_density(const char *name)
{
    classic *c = find_classic(name);
    double z[MOST];
    uint64_t n;
    if (!c)
        return 1;
    make_line();
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        for (uint64_t k = 0; k < n; k++) {
            if (fread(z, sizeof *z, c->D, stdin) != c->D)
                return 1;
            double value = through_prior(c, z, NULL);
            fwrite(&value, sizeof value, 1, stdout);
        }
        fflush(stdout);
    }
    return 0;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
/* Each coordinate has a table of y - exp(y) with so many nodes a unit, y = z / 10^(i - 1), read by linear
 * interpolation, and beyond its ends -12 and 4 along the last piece. */
typedef struct {
    const char *name;
    double nodes;
} table;

enum { TABLE_D = 4 };

static double node(const table *t, double k)
{
    return k / t->nodes - exp(k / t->nodes);
}

static double table_density(void *self, const double *z, double *grad)
{
    const table *t = self;
    double sum = 0;
    (void)grad;
    for (size_t i = 0; i < TABLE_D; i++) {
        double at = z[i] / pow(10, (double)i - 1) * t->nodes,
               k = fmin(fmax(floor(at), -12 * t->nodes), 4 * t->nodes - 1);
        sum += node(t, k) + (at - k) * (node(t, k + 1) - node(t, k));
    }
    return sum;
}

/* Integrals of exp of the pieces, and of both ends. */
static double table_truth(const table *t)
{
    double low = -12 * t->nodes, high = 4 * t->nodes, sum = 0, log_units = 0;
    for (double k = low; k < high; k++)
        sum += (exp(node(t, k + 1)) - exp(node(t, k))) / (node(t, k + 1) - node(t, k)) / t->nodes;
    sum += exp(node(t, low)) / (node(t, low + 1) - node(t, low)) / t->nodes +
           exp(node(t, high)) / (node(t, high - 1) - node(t, high)) / t->nodes;
    for (size_t i = 0; i < TABLE_D; i++)
        log_units += ((double)i - 1) * log(10);
    return TABLE_D * log(sum) + log_units;
}

static void tables(void)
{
    static table all[] = {{"16 nodes", 16}, {"4 nodes", 4}, {"1 node", 1}};
    print_heads("table, per unit");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (unsigned long s = first_seed; s < first_seed + seeds; s++) {
            wvgd_model model;
            if (wvgd_model_pointwise(&model, TABLE_D, table_density, &all[i], false))
                return;
            outcome o = fit(&model, s);
            print_fit(all[i].name, TABLE_D, s, &o, table_truth(&all[i]));
            wvgd_model_close(&model);
        }
}

/* ---- noise and walls --------------------------------------------------------------------------------------------- */
typedef struct {
    const char *name;
    double relative, absolute; /* noise */
    bool random, single;       /* not a function of the point; in single precision */
    int wall;                  /* 0: none; 1: half space; 2: box, flat inside; 3: whole numbers of sds/8; 4: a step */
} rough;

static uint64_t counter;

static double hash_normal(const double *z, size_t D, uint64_t more)
{
    uint64_t h = 14695981039346656037u ^ more * 0x9E3779B97F4A7C15u;
    double sum = -6;
    for (size_t i = 0; i < D; i++) {
        uint64_t bits;
        memcpy(&bits, z + i, sizeof bits);
        h = (h ^ bits) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    for (int k = 0; k < 12; k++) {
        h = h * 6364136223846793005u + 1442695040888963407u;
        sum += (double)((h ^ h >> 29) >> 11) * 0x1p-53;
    }
    return sum;
}

enum { ROUGH_D = 5 };

/* A Gaussian with sds 0.1 to 1000, and a constant that makes log densities as large as those of much data. */
static double rough_density(void *self, const double *z, double *grad)
{
    const rough *r = self;
    double sum = -200;
    (void)grad;
    for (size_t i = 0; i < ROUGH_D; i++) {
        double sd = pow(10, (double)i - 1), y = (z[i] - sd) / sd;
        if (r->wall == 1 && i == 1 && y < 0)
            return -INFINITY;
        if (r->wall == 2) {
            if (!(fabs(y) < 1))
                return -INFINITY;
            continue;
        }
        if (r->wall == 3)
            y = (floor(8 * y) + 0.5) / 8;
        if (r->wall == 4 && i == 1 && y < 0)
            sum -= 3;
        if (r->single) {
            float f = (float)z[i];
            y = (double)((f - (float)sd) / (float)sd);
            sum = (double)((float)sum - 0.5f * (float)y * (float)y - (float)log(sd) - 0.9189385f);
        } else
            sum -= 0.5 * y * y + log(sd) + 0.5 * log(2 * pi);
    }
    double noise = hash_normal(z, ROUGH_D, r->random ? ++counter : 0);
    return sum + noise * (r->absolute + r->relative * fabs(sum));
}

static double rough_truth(const rough *r)
{
    double cell = 0, truth = -200;
    switch (r->wall) {
    case 1: return truth - log(2);
    case 2:
        for (int i = 0; i < ROUGH_D; i++)
            truth += log(2 * pow(10, i - 1));
        return truth;
    case 3: /* the sum over steps of an eighth of an sd */
        for (int k = -400; k < 400; k++)
            cell += exp(log_normal((k + 0.5) / 8, 0, 1)) / 8;
        return truth + ROUGH_D * log(cell);
    case 4: return truth + log(0.5 + 0.5 * exp(-3));
    default: return truth;
    }
}

static void run_rough(const rough *all, size_t n, const char *title)
{
    printf("%-26s %6s %9s %9s %8s  %s\n", title, "seed", "evals", "error", "se", "verdict");
    for (size_t i = 0; i < n; i++)
        for (unsigned long s = first_seed; s < first_seed + seeds; s++) {
            wvgd_model model;
            rough r = all[i];
            if (wvgd_model_pointwise(&model, ROUGH_D, rough_density, &r, false))
                return;
            outcome o = fit(&model, s);
            double truth = rough_truth(&r);
            printf("%-26s %6lu %9.0f %9.4f %8.4f  %s%s %s\n", r.name, s, o.evaluations, o.evidence - truth, o.se,
                   o.failed     ? "failed"
                   : o.reliable ? "reliable"
                                : "not reliable",
                   o.reliable && !is_right(&o, truth) ? ", A LIE" : "", o.reason);
            fflush(stdout);
            wvgd_model_close(&model);
        }
}

static void noise(void)
{
    static const rough all[] = {{"none", 0, 0, false, false, 0},
                                {"single precision", 0, 0, false, true, 0},
                                {"relative 1e-7, fixed", 1e-7, 0, false, false, 0},
                                {"relative 1e-7, random", 1e-7, 0, true, false, 0},
                                {"relative 1e-4, fixed", 1e-4, 0, false, false, 0},
                                {"relative 1e-4, random", 1e-4, 0, true, false, 0},
                                {"absolute 0.01, fixed", 0, 0.01, false, false, 0},
                                {"absolute 0.01, random", 0, 0.01, true, false, 0},
                                {"absolute 1, fixed", 0, 1, false, false, 0},
                                {"absolute 1, random", 0, 1, true, false, 0}};
    run_rough(all, sizeof all / sizeof *all, "noise");
}

static void walls(void)
{
    static const rough all[] = {{"half of a Gaussian", 0, 0, false, false, 1},
                                {"a flat box", 0, 0, false, false, 2},
                                {"plateaus of sd/8", 0, 0, false, false, 3},
                                {"a step of 3 nats", 0, 0, false, false, 4}};
    run_rough(all, sizeof all / sizeof *all, "walls");
}

/* ---- noise in other targets -------------------------------------------------------------------------------------- */
/* The values of another model, with a constant and noise, all in single precision if asked for. */
typedef struct {
    wvgd_model inner;
    rough r;
} noisy;

static double noisy_density(void *self, const double *z, double *grad)
{
    noisy *s = self;
    double x[MOST], value;
    (void)grad;
    for (size_t i = 0; i < s->inner.dim; i++)
        x[i] = s->r.single ? (double)(float)z[i] : z[i];
    if (s->inner.log_density(s->inner.self, 1, x, &value, NULL))
        return NAN;
    value -= 200;
    value = s->r.single ? (double)(float)value : value;
    double more = hash_normal(z, s->inner.dim, s->r.random ? ++counter : 0);
    return value + more * (s->r.absolute + s->r.relative * fabs(value));
}

/* Logistic regression of 60 rows on four columns and a constant, priors N(0, 2^2). */
enum { ROWS = 60, COLUMNS = 5 };
static double design[ROWS][COLUMNS], label[ROWS];

static void make_rows(void)
{
    const double slope[COLUMNS] = {0.5, 1, -1, 0.3, 0};
    for (size_t i = 0; i < ROWS; i++) {
        double eta = 0, at = (double)i;
        for (size_t k = 0; k < COLUMNS; k++) {
            design[i][k] = k ? hash_normal(&at, 1, k) : 1;
            eta += slope[k] * design[i][k];
        }
        label[i] = hash_normal(&at, 1, 99) * 1.8 < eta;
    }
}

static double logistic(void *self, const double *z, double *grad)
{
    double sum = 0;
    (void)self;
    for (size_t k = 0; k < COLUMNS; k++) {
        sum += log_normal(z[k], 0, 2);
        if (grad)
            grad[k] = -z[k] / 4;
    }
    for (size_t i = 0; i < ROWS; i++) {
        double eta = cblas_ddot(COLUMNS, design[i], 1, z, 1);
        sum += label[i] * eta - (eta > 0 ? eta + log1p(exp(-eta)) : log1p(exp(eta)));
        for (size_t k = 0; grad && k < COLUMNS; k++)
            grad[k] += design[i][k] * (label[i] - 1 / (1 + exp(-eta)));
    }
    return sum;
}

static int make_logistic(wvgd_model *m)
{
    make_rows();
    return wvgd_model_pointwise(m, COLUMNS, logistic, NULL, true);
}

/* The log evidence in closed form, or else by a fit with gradients and a small error. */
static double truth_of(const wvgd_model *m, bool known)
{
    wvgd_options o;
    wvgd_results r;
    double value = NAN;
    if (known)
        return target_truth_of(m).log_evidence;
    wvgd_options_init(&o);
    o.evidence_se = 0.003;
    wvgd_fit *f = wvgd_new(m, &o, NULL, NULL);
    if (f && wvgd_run(f, NULL, NULL, NULL) == WVGD_OK) {
        wvgd_get_results(f, &r);
        value = r.evidence.value;
    }
    wvgd_free(f);
    return value;
}

static void print_rough(const char *name, unsigned long s, const outcome *o, double truth)
{
    printf("%-36s %6lu %9.0f %9.4f %8.4f  %s%s %s\n", name, s, o->evaluations, o->evidence - truth, o->se,
           o->failed     ? "failed"
           : o->reliable ? "reliable"
                         : "not reliable",
           o->reliable && !is_right(o, truth) ? ", A LIE" : "", o->reason);
    fflush(stdout);
}

static void targets(void)
{
    static const maker all[] = {{"banana", banana_3}, {"mixture", mixture_2}, {"logistic", make_logistic}};
    static const rough kinds[] = {
        {"single precision", 0, 0, false, true, 0},         {"relative 1e-7, fixed", 1e-7, 0, false, false, 0},
        {"relative 1e-7, random", 1e-7, 0, true, false, 0}, {"relative 1e-4, fixed", 1e-4, 0, false, false, 0},
        {"relative 1e-4, random", 1e-4, 0, true, false, 0}, {"absolute 0.01, fixed", 0, 0.01, false, false, 0},
        {"absolute 0.01, random", 0, 0.01, true, false, 0}, {"absolute 1, fixed", 0, 1, false, false, 0},
        {"absolute 1, random", 0, 1, true, false, 0}};
    printf("%-36s %6s %9s %9s %8s  %s\n", "noise in", "seed", "evals", "error", "se", "verdict");
    for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
        noisy s;
        if (all[t].make(&s.inner))
            return;
        double truth = truth_of(&s.inner, t < 2) - 200;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (unsigned long seed = first_seed; seed < first_seed + seeds; seed++) {
                wvgd_model model;
                char name[80];
                s.r = kinds[k];
                snprintf(name, sizeof name, "%s, %s", all[t].name, kinds[k].name);
                if (wvgd_model_pointwise(&model, s.inner.dim, noisy_density, &s, false))
                    return;
                outcome o = fit(&model, seed);
                print_rough(name, seed, &o, truth);
                wvgd_model_close(&model);
            }
        wvgd_model_close(&s.inner);
    }
}

/* ---- odd densities ----------------------------------------------------------------------------------------------- */
enum { SIMULATED = 200, SEEN = 12 };
static double fixed_number[SIMULATED], seen[SEEN];

static void make_simulations(void)
{
    for (size_t i = 0; i < SIMULATED; i++) {
        double at = (double)i;
        fixed_number[i] = hash_normal(&at, 1, 7);
    }
    for (size_t i = 0; i < SEEN; i++) {
        double at = (double)i;
        seen[i] = 1 + 1.5 * hash_normal(&at, 1, 8) + hash_normal(&at, 1, 9);
    }
}

static double priors(const double *z)
{
    return log_normal(z[0], 0, 2) + log_normal(z[1], 0, 1);
}

/* y ~ N(m + s b, 1), b ~ N(0, 1), integrated by draws of b that are always the same; z = (m, log s). */
static double simulator(void *self, const double *z, double *grad)
{
    double sum = priors(z);
    (void)self, (void)grad;
    for (size_t k = 0; k < SEEN; k++) {
        double mean = 0;
        for (size_t i = 0; i < SIMULATED; i++)
            mean += exp(log_normal(seen[k], z[0] + exp(z[1]) * fixed_number[i], 1)) / SIMULATED;
        sum += log(mean);
    }
    return sum;
}

/* The share of 200 simulations m + s b, of the same numbers, that lie within 1 of an observation: a likelihood in whole
 * numbers. */
static double accepted(void *self, const double *z, double *grad)
{
    double sum = priors(z);
    (void)self, (void)grad;
    for (size_t k = 0; k < 3; k++) {
        double count = 0;
        for (size_t i = 0; i < SIMULATED; i++)
            count += fabs(z[0] + exp(z[1]) * fixed_number[i] - seen[k]) < 1;
        sum += log((count + 0.5) / (SIMULATED + 1));
    }
    return sum;
}

/* A table at ten nodes a decade of two positive parameters, read by linear interpolation between logs; z are logs. */
static double log_table(void *self, const double *z, double *grad)
{
    double share[2], corner[2], sum = 0;
    (void)self, (void)grad;
    for (size_t i = 0; i < 2; i++) {
        double at = z[i] / log(10) * 10;
        corner[i] = floor(at);
        share[i] = at - corner[i];
    }
    for (size_t a = 0; a < 2; a++)
        for (size_t b = 0; b < 2; b++) {
            double x = (corner[0] + (double)a) * log(10) / 10, y = (corner[1] + (double)b) * log(10) / 10,
                   r = exp(x) - 2 * exp(0.5 * y);
            sum += (a ? share[0] : 1 - share[0]) * (b ? share[1] : 1 - share[1]) *
                   (-0.5 * r * r - 0.5 * x * x - 0.5 * y * y);
        }
    return sum;
}

/* A number of animals, whole, and the logit of the chance to be seen. */
static double whole_number(void *self, const double *z, double *grad)
{
    const double counts[] = {18, 23, 20, 16};
    double n = floor(z[0]), p = 1 / (1 + exp(-z[1])), sum = log_normal(z[1], 0, 1) + log_normal(log(n), 4, 1) - log(n);
    (void)self, (void)grad;
    if (!(n >= 23))
        return -INFINITY;
    for (size_t k = 0; k < 4; k++)
        sum += lgamma(n + 1) - lgamma(counts[k] + 1) - lgamma(n - counts[k] + 1) + counts[k] * log(p) +
               (n - counts[k]) * log1p(-p);
    return sum;
}

static double disc(void *self, const double *z, double *grad)
{
    (void)self, (void)grad;
    return hypot(z[0], z[1]) < 1.5 ? log_normal(z[0], 0.5, 1) + log_normal(z[1], 0, 1) : NAN;
}

static double wedge(void *self, const double *z, double *grad)
{
    (void)self, (void)grad;
    return z[0] > 0 && z[1] > z[0] ? -z[0] - 0.2 * z[1] : -INFINITY; /* a corner with an oblique wall */
}

static double corner(void *self, const double *z, double *grad)
{
    (void)self, (void)grad;
    return z[0] > 0 && z[1] > 0 ? -z[0] - 300 * z[1] : -INFINITY;
}

/* log of the integral over a rectangle, by the midpoint rule. */
static double by_grid(wvgd_point_density *density, const double *low, const double *high)
{
    enum { NODES = 500 };
    double top = -INFINITY, sum = 0, step[2] = {(high[0] - low[0]) / NODES, (high[1] - low[1]) / NODES};
    for (size_t i = 0; i < NODES; i++)
        for (size_t k = 0; k < NODES; k++) {
            double z[2] = {low[0] + ((double)i + 0.5) * step[0], low[1] + ((double)k + 0.5) * step[1]},
                   value = density(NULL, z, NULL);
            if (!isfinite(value))
                continue;
            if (value > top) {
                sum *= exp(top - value);
                top = value;
            }
            sum += exp(value - top);
        }
    return top + log(sum * step[0] * step[1]);
}

static void odd(void)
{
    static const struct {
        const char *name;
        wvgd_point_density *density;
        double low[2], high[2];
    } all[] = {{"simulator, fixed numbers", simulator, {-7, -6}, {9, 4}},
               {"accepted simulations", accepted, {-12, -6}, {12, 5}},
               {"table of logs", log_table, {-8, -8}, {8, 8}},
               {"a whole number", whole_number, {23, -6}, {523, 6}},
               {"NaN outside a disc", disc, {-1.5, -1.5}, {1.5, 1.5}},
               {"a wedge", wedge, {0, 0}, {40, 150}},
               {"a corner", corner, {0, 0}, {40, 0.15}}};
    make_simulations();
    printf("%-36s %6s %9s %9s %8s  %s\n", "odd", "seed", "evals", "error", "se", "verdict");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double truth = by_grid(all[i].density, all[i].low, all[i].high);
        for (unsigned long s = first_seed; s < first_seed + seeds; s++) {
            wvgd_model model;
            if (wvgd_model_pointwise(&model, 2, all[i].density, NULL, false))
                return;
            outcome o = fit(&model, s);
            print_rough(all[i].name, s, &o, truth);
            wvgd_model_close(&model);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"gradients", gradients}, {"large", large},     {"classics", classics}, {"tables", tables},
                 {"noise", noise},         {"targets", targets}, {"walls", walls},       {"odd", odd}};
    bool some = false;
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--seeds"))
            seeds = strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--first"))
            first_seed = strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--bend"))
            bend = argv[i + 1];
    }
    if (argc > 2 && !strcmp(argv[1], "one"))
        return one(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "density"))
        return answer_density(argv[2]);
    for (int all = 0; all < 2 && !some; all++) /* those that were named, or else all */
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            bool named = all;
            for (int i = 1; i < argc; i++)
                named |= !strcmp(argv[i], parts[k].name);
            if (named)
                parts[k].run();
            some |= named;
        }
    return 0;
}
