/* finish.c - fits that chains complete (docs/internals/finish.md): are they right, and what do they cost?
 *     finish [TARGET ...] [--seeds N] [--first SEED] [--evaluations N] [--finish auto|never|always] [--bend auto|never]
 *            [--reference N] [--nuts]
 * TARGET: part of a name; all of them without. A line for each fit: how it ended, evaluations, error of the log
 * evidence in nats and in its standard errors where it is known, largest errors of means (in sds) and of log sds, and
 * the diagnostics of the chains. Where there is no closed form, means and sds are compared with --reference N (0: none)
 * states of a long run of independent chains of this file. --nuts prints what a NUTS sampler takes instead: 4 chains,
 * 1000 iterations of warmup and 1000 more, diagonal metric.
 *     shells     two Gaussian shells of radius 2 and width 0.1, D = 5
 *     pairs      18 Rosenbrock pairs, turned, D = 36
 *     horseshoe  logistic regression of 24 columns with a horseshoe prior, D = 50
 *     gp         latent Gaussian process with counts, amplitude and length unknown, D = 62
 *     volatility stochastic volatility of 100 steps, D = 103 */
#include "bend/nuts.h"
#include "wvgd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128 };

/* ---- targets ---- */
typedef struct {
    const char *name;
    size_t dim;
    wvgd_point_density *density;
    double log_z;                /* NAN: not known */
    double mean[MOST], sd[MOST]; /* of coordinates; sd 0: not known */
    void (*make)(void);
} target;

/* Two shells around (+-3.5, 0, ...), exp(-(|x - c| - 2)^2 / (2 w^2)). */
static const double shell_width = 0.1;

static double shells(void *self, const double *z, double *grad)
{
    (void)self;
    double log_p[2], g[2][5], top;
    for (size_t s = 0; s < 2; s++) {
        double square = 0;
        for (size_t i = 0; i < 5; i++) {
            g[s][i] = z[i] - (i ? 0 : s ? 3.5 : -3.5);
            square += g[s][i] * g[s][i];
        }
        double r = sqrt(square), d = (r - 2) / shell_width;
        log_p[s] = -d * d / 2;
        for (size_t i = 0; i < 5; i++)
            g[s][i] *= -d / shell_width / (r + 1e-300);
    }
    top = fmax(log_p[0], log_p[1]) + log1p(exp(-fabs(log_p[0] - log_p[1])));
    for (size_t i = 0; grad && i < 5; i++)
        grad[i] = exp(log_p[0] - top) * g[0][i] + exp(log_p[1] - top) * g[1][i];
    return top;
}

/* Pairs a ~ N(1, 1), b ~ N(a^2, 0.1), turned by three reflections. */
enum { PAIRS = 18 };
static double mirror[3][2 * PAIRS];

static void turn(double *x, bool back)
{
    for (size_t m = 0; m < 3; m++) {
        const double *a = mirror[back ? 2 - m : m];
        double along = 0;
        for (size_t i = 0; i < 2 * PAIRS; i++)
            along += a[i] * x[i];
        for (size_t i = 0; i < 2 * PAIRS; i++)
            x[i] -= 2 * along * a[i];
    }
}

static double pairs(void *self, const double *z, double *grad)
{
    (void)self;
    const double Q = 0.1;
    double x[2 * PAIRS], g[2 * PAIRS], sum = 0;
    memcpy(x, z, sizeof x);
    turn(x, false);
    for (size_t i = 0; i < PAIRS; i++) {
        double a = x[2 * i], e = a * a - x[2 * i + 1];
        sum -= ((a - 1) * (a - 1) + e * e / Q) / 2;
        g[2 * i] = 1 - a - 2 * a * e / Q;
        g[2 * i + 1] = e / Q;
    }
    turn(g, true);
    if (grad)
        memcpy(grad, g, sizeof g);
    return sum;
}

/* Logistic regression y ~ logit(b0 + X b), b_j = tau lambda_j n_j, half-Cauchy lambda_j and tau, on log scales. */
enum { COLUMNS = 24, ROWS = 150 };
static double X[ROWS][COLUMNS];
static int Y[ROWS];

static double half_cauchy(double log_x, double *slope)
{
    double t = exp(2 * log_x);
    *slope = 1 - 2 * t / (1 + t);
    return log(2 / M_PI) - log1p(t) + log_x;
}

static double horseshoe(void *self, const double *z, double *grad)
{
    (void)self;
    double b[COLUMNS], gb[COLUMNS] = {0}, g[2 + 2 * COLUMNS], slope, sum, half_log_2pi = 0.5 * log(2 * M_PI);
    double shift = z[1] + log(0.1); /* tau is about a tenth */
    sum = half_cauchy(z[1], &g[1]) - z[0] * z[0] / 50 - half_log_2pi - log(5);
    g[0] = -z[0] / 25;
    for (size_t j = 0; j < COLUMNS; j++) {
        double n = z[2 + j], log_lambda = z[2 + COLUMNS + j];
        b[j] = exp(shift + log_lambda) * n;
        sum += half_cauchy(log_lambda, &slope) - n * n / 2 - half_log_2pi;
        g[2 + j] = -n;
        g[2 + COLUMNS + j] = slope;
    }
    for (size_t i = 0; i < ROWS; i++) {
        double eta = z[0];
        for (size_t j = 0; j < COLUMNS; j++)
            eta += X[i][j] * b[j];
        double e = exp(-fabs(eta)), p = eta > 0 ? 1 / (1 + e) : e / (1 + e), d = Y[i] - p;
        sum += (Y[i] ? fmin(eta, 0) : -fmax(eta, 0)) - log1p(e);
        g[0] += d;
        for (size_t j = 0; j < COLUMNS; j++)
            gb[j] += d * X[i][j];
    }
    for (size_t j = 0; j < COLUMNS; j++) {
        g[2 + j] += gb[j] * exp(shift + z[2 + COLUMNS + j]);
        g[2 + COLUMNS + j] += gb[j] * b[j];
        g[1] += gb[j] * b[j];
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return sum;
}

static void make_horseshoe(void)
{
    nuts_seed(11);
    for (size_t i = 0; i < ROWS; i++) {
        double eta = -0.3;
        for (size_t j = 0; j < COLUMNS; j++) {
            X[i][j] = nuts_normal();
            eta += X[i][j] * (j == 0 ? 1.5 : j == 1 ? -1 : j == 2 ? 0.7 : 0);
        }
        Y[i] = nuts_uniform() < 1 / (1 + exp(-eta));
    }
}

/* Counts y_i ~ Poisson(exp(m + a sum_k s_k(l) z_k B_ik)): the process by 60 cosines whose spectrum is that of a
 * Gaussian covariance of length l; z = (log a, log l, 60 standard normals). */
enum { WAVES = 60, COUNTS = 80 };
static double B[COUNTS][WAVES];
static int K[COUNTS];

static double gp(void *self, const double *z, double *grad)
{
    (void)self;
    double a = exp(z[0]), l = exp(z[1]), f[COUNTS], g[2 + WAVES], scale[WAVES], slope[WAVES], sum = 0;
    sum -= z[0] * z[0] / 2 + (z[1] + 1.5) * (z[1] + 1.5) / (2 * 0.25);
    g[0] = -z[0];
    g[1] = -(z[1] + 1.5) / 0.25;
    for (size_t k = 0; k < WAVES; k++) {
        double w = M_PI * (double)(k + 1) / 2, s = sqrt(sqrt(2 * M_PI) * l) * exp(-w * w * l * l / 4);
        scale[k] = a * s;
        slope[k] = 0.5 - w * w * l * l / 2;
        sum -= z[2 + k] * z[2 + k] / 2;
        g[2 + k] = -z[2 + k];
    }
    for (size_t i = 0; i < COUNTS; i++) {
        f[i] = 1;
        for (size_t k = 0; k < WAVES; k++)
            f[i] += scale[k] * z[2 + k] * B[i][k];
        double mean = exp(f[i]), d = K[i] - mean;
        sum += K[i] * f[i] - mean;
        for (size_t k = 0; k < WAVES; k++) {
            double part = d * scale[k] * B[i][k];
            g[2 + k] += part;
            g[0] += part * z[2 + k];
            g[1] += part * z[2 + k] * slope[k];
        }
    }
    if (grad)
        memcpy(grad, g, sizeof g);
    return sum;
}

static int poisson(double mean)
{
    double p = exp(-mean), sum = p, u = nuts_uniform();
    int k = 0;
    while (u > sum && k < 1000)
        sum += p *= mean / ++k;
    return k;
}

static void make_gp(void)
{
    nuts_seed(12);
    for (size_t i = 0; i < COUNTS; i++) {
        double t = 2 * ((double)i + 0.5) / COUNTS - 1;
        for (size_t k = 0; k < WAVES; k++)
            B[i][k] = sin(M_PI * (double)(k + 1) / 2 * (t + 1));
        K[i] = poisson(exp(1 + sin(4 * t) + 0.5 * cos(9 * t)));
    }
}

/* y_t ~ N(0, exp(h_t / 2)), h_t - mu = phi (h_(t-1) - mu) + sigma n_t; z = (mu, logit-like phi, log sigma, n). */
enum { STEPS = 100 };
static double R[STEPS];

static double volatility(void *self, const double *z, double *grad)
{
    (void)self;
    double phi = tanh(z[1]), sigma = exp(z[2]), root = sqrt(1 - phi * phi), h[STEPS], back = 0, sum, g[3] = {0};
    sum = -(z[0] + 1) * (z[0] + 1) / 8 - (z[1] - 1.5) * (z[1] - 1.5) / 0.5 - (z[2] + 1.5) * (z[2] + 1.5) / 0.5;
    double *out = grad;
    for (size_t t = 0; t < STEPS; t++) {
        h[t] = t ? phi * h[t - 1] + sigma * z[3 + t] : sigma / root * z[3];
        double e = R[t] * R[t] * exp(-h[t] - z[0]);
        sum -= (h[t] + z[0] + e + z[3 + t] * z[3 + t]) / 2;
    }
    for (size_t t = STEPS; t-- > 0;) {
        double e = R[t] * R[t] * exp(-h[t] - z[0]), direct = (e - 1) / 2;
        g[0] += direct;
        back = direct + phi * back; /* d sum / d h_t */
        if (t) {
            g[1] += back * h[t - 1];
            g[2] += back * sigma * z[3 + t];
            if (out)
                out[3 + t] = back * sigma - z[3 + t];
        } else {
            g[1] += back * sigma * z[3] * phi / (root * root * root);
            g[2] += back * h[0];
            if (out)
                out[3] = back * sigma / root - z[3];
        }
    }
    if (out) {
        out[0] = g[0] - (z[0] + 1) / 4;
        out[1] = g[1] * (1 - phi * phi) - (z[1] - 1.5) * 4;
        out[2] = g[2] - (z[2] + 1.5) * 4;
    }
    return sum;
}

static void make_volatility(void)
{
    double h = 0;
    nuts_seed(13);
    for (size_t t = 0; t < STEPS; t++) {
        h = 0.95 * h + 0.25 * nuts_normal();
        R[t] = exp((h - 1) / 2) * nuts_normal();
    }
}

static target targets[];

static void make_shells(void)
{
    target *t = &targets[0];
    double sum = 0, w = shell_width, step = 8e-4;
    for (double r = step / 2; r < 2 + 12 * w; r += step)
        sum += pow(r, 4) * exp(-(r - 2) * (r - 2) / (2 * w * w)) * step;
    double square = 0;
    for (double r = step / 2; r < 2 + 12 * w; r += step)
        square += pow(r, 6) * exp(-(r - 2) * (r - 2) / (2 * w * w)) * step / 5;
    t->log_z = log(2 * sum * 8 * M_PI * M_PI / 3);
    for (size_t i = 0; i < 5; i++)
        t->sd[i] = sqrt(square / sum + (i ? 0 : 3.5 * 3.5));
}

static void make_pairs(void)
{
    target *t = &targets[1];
    double var[2 * PAIRS], e[2 * PAIRS];
    nuts_seed(10);
    for (size_t m = 0; m < 3; m++) {
        double square = 0;
        for (size_t i = 0; i < 2 * PAIRS; i++) {
            mirror[m][i] = nuts_normal();
            square += mirror[m][i] * mirror[m][i];
        }
        for (size_t i = 0; i < 2 * PAIRS; i++)
            mirror[m][i] /= sqrt(square);
    }
    t->log_z = PAIRS * (log(2 * M_PI) + 0.5 * log(0.1));
    for (size_t i = 0; i < 2 * PAIRS; i++) { /* coordinate i is e . x, x the pairs */
        memset(e, 0, sizeof e);
        e[i] = 1;
        turn(e, false);
        t->mean[i] = var[i] = 0;
        for (size_t k = 0; k < PAIRS; k++) { /* means 1 and 2; variances 1 and 6 + Q; covariance 2 */
            t->mean[i] += e[2 * k] + 2 * e[2 * k + 1];
            var[i] += e[2 * k] * e[2 * k] + 6.1 * e[2 * k + 1] * e[2 * k + 1] + 4 * e[2 * k] * e[2 * k + 1];
        }
        t->sd[i] = sqrt(var[i]);
    }
}

static target targets[] = {
    {"shells", 5, shells, NAN, {0}, {0}, make_shells},
    {"pairs", 2 * PAIRS, pairs, NAN, {0}, {0}, make_pairs},
    {"horseshoe", 2 + 2 * COLUMNS, horseshoe, NAN, {0}, {0}, make_horseshoe},
    {"gp", 2 + WAVES, gp, NAN, {0}, {0}, make_gp},
    {"volatility", 3 + STEPS, volatility, NAN, {0}, {0}, make_volatility},
};

/* Means and sds by a long run. */
typedef struct {
    size_t dim;
    double sum[MOST], square[MOST];
} sums;

static void add(void *self, const double *x)
{
    sums *s = self;
    for (size_t i = 0; i < s->dim; i++) {
        s->sum[i] += x[i];
        s->square[i] += x[i] * x[i];
    }
}

static void refer(target *t, size_t draws)
{
    enum { CHAINS = 4 };
    sums s = {.dim = t->dim};
    double n = CHAINS * (double)(draws / CHAINS);
    for (size_t c = 0; c < CHAINS; c++)
        nuts_run(t->density, NULL, t->dim, 900 + c, 1000, draws / CHAINS, add, &s);
    for (size_t i = 0; i < t->dim; i++) {
        t->mean[i] = s.sum[i] / n;
        t->sd[i] = sqrt(s.square[i] / n - t->mean[i] * t->mean[i]);
    }
}

/* ---- */
static unsigned long seeds = 1, first_seed = 1, evaluations = 0, reference = 0;
static const char *finish = "auto", *bend = "never";
static int show_nuts;

/* Evaluations of each stage. */
static struct {
    const char *name;
    size_t n;
} spent[16];
static size_t last;
static const char *stage_before;

static int tally(void *self, const wvgd_progress *p)
{
    (void)self;
    for (size_t i = 0; stage_before && i < sizeof spent / sizeof *spent; i++) {
        if (spent[i].name && strcmp(spent[i].name, stage_before))
            continue;
        spent[i].name = stage_before;
        spent[i].n += p->evaluations - last;
        break;
    }
    last = p->evaluations;
    stage_before = p->stage;
    return 0;
}

static void fit_one(const target *t, unsigned long seed)
{
    wvgd_model model;
    wvgd_options o;
    wvgd_error error = {0};
    wvgd_results r;
    memset(spent, 0, sizeof spent);
    last = 0;
    stage_before = NULL;
    if (wvgd_model_pointwise(&model, t->dim, t->density, NULL, true))
        abort();
    wvgd_options_init(&o);
    o.seed = seed;
    o.particles = 2;
    o.max_evaluations = evaluations;
    if (wvgd_options_set(&o, "finish", finish, &error) || wvgd_options_set(&o, "bend", bend, &error))
        abort();
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    if (!fit || wvgd_run(fit, tally, NULL, &error) != WVGD_OK) {
        printf("%-10s %3lu %s\n", t->name, seed, error.text);
        wvgd_free(fit);
        return;
    }
    wvgd_get_results(fit, &r);
    double worst_mean = 0, worst_sd = 0, off = r.evidence.value - t->log_z;
    for (size_t i = 0; i < t->dim; i++)
        if (t->sd[i] > 0) {
            worst_mean = fmax(worst_mean, fabs(r.mean[i] - t->mean[i]) / t->sd[i]);
            worst_sd = fmax(worst_sd, fabs(log(sqrt(r.var[i]) / t->sd[i])));
        }
    printf(
        "%-10s %3lu %-15s %s %7zu (%6zu walks %6zu finish) | log Z %9.3f +- %.3f, off %6.3f = %5.1f se | mean %.3f log "
        "sd %.3f | %s T %zu states %zu rungs %zu acc %.2f jumps %.2f tau %.1f R %.3f errors %.3f %.3f drift %.1f "
        "missing %.3f K %zu %zu of %zu out\n",
        t->name, seed, wvgd_stop_name(r.stop), r.reliable ? "reliable  " : "unreliable", r.evaluations,
        r.walks_evaluations, r.finish_evaluations, r.evidence.value, r.evidence.se, off, off / r.evidence.se,
        worst_mean, worst_sd, r.finish, r.finish_trajectories, r.finish_states, r.finish_rungs, r.finish_acceptance,
        r.finish_jumps, r.finish_tau, r.finish_rhat, r.finish_mean_se, r.finish_sd_se, r.finish_drift, r.finish_missing,
        r.components, r.walks_outside, r.walks);
    printf("     ");
    for (size_t i = 0; i < sizeof spent / sizeof *spent && spent[i].name; i++)
        printf(" %s %zu", spent[i].name, spent[i].n);
    puts("");
    for (size_t i = 0; i < r.reasons && !r.reliable; i++)
        printf("      %s\n", r.reason[i]);
    fflush(stdout);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

static void price(const target *t)
{
    printf("%-10s NUTS, 4 x 2000: %zu gradients\n", t->name, nuts_price(t->density, NULL, t->dim));
}

static bool asked(int argc, char **argv, const char *name)
{
    bool some = false, found = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--nuts"))
            continue;
        if (!strncmp(argv[i], "--", 2)) {
            i++;
            continue;
        }
        some = true;
        found = found || strstr(name, argv[i]);
    }
    return found || !some;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--nuts"))
            show_nuts = 1;
        else if (!strcmp(argv[i], "--seeds") && more)
            seeds = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--first") && more)
            first_seed = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--evaluations") && more)
            evaluations = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--reference") && more)
            reference = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--finish") && more)
            finish = argv[++i];
        else if (!strcmp(argv[i], "--bend") && more)
            bend = argv[++i];
        else if (argv[i][0] == '-')
            return fprintf(stderr, "usage: finish [TARGET ...] [--seeds N] [--first SEED] [--evaluations N] [--finish "
                                   "WHEN] [--bend WHEN] [--reference N] [--nuts]\n"),
                   64;
    }
    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
        target *t = &targets[k];
        if (!asked(argc, argv, t->name))
            continue;
        t->make();
        if (show_nuts) {
            price(t);
            continue;
        }
        if (isnan(t->log_z) && reference)
            refer(t, reference);
        for (unsigned long s = 0; s < seeds; s++)
            fit_one(t, first_seed + s);
    }
    return 0;
}
