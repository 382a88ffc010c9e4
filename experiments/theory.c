/* theory.c - special cases that the paper's theory makes statements about, with numbers: `wvgd reproduce theory`
 * writes theory.md, of which experiments/theory.md is a copy with other links.
 *     1  one particle: mean for the squared cost, median for L1; SVGD: a mode
 *     2  two particles: the force on one is the global pull less what the other screens
 *     3  explaining away against kernel repulsion: variance of the particles in 2 to 50 dimensions
 *     4  bias of the paper's gradient against the mass of the cell */
#include "gnuplot.h"
#include "mixture_targets.h"
#include "models.h"
#include "random.h"
#include "reproduce.h"
#include "shared_file.h"
#include "svgd.h"
#include "wvgd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

typedef struct {
    const reproduction *r;
    whole_file csv, text; /* section,case,quantity,value; and the document */
    target_list list;
} theory;

static void note(theory *t, const char *section, const char *what, const char *quantity, double value)
{
    fprintf(t->csv.stream, "%s,%s,%s,", section, what, quantity);
    put_number(t->csv.stream, value);
    putc('\n', t->csv.stream);
}

/* Fits take ten times fewer draws by themselves: these are to show what the particles converge to. */
static double closing_se(const theory *t)
{
    return t->r->quick ? 0.02 : 0.003;
}

/* For printing with four digits: nothing is shown as -0.0000. */
static double unsigned_zero(double x)
{
    return fabs(x) < 5e-5 ? 0 : x;
}

/* ---- 1: one particle --------------------------------------------------------------------------------------------- */
static double target_mean(const mixture_target *t)
{
    double mean = 0;
    for (size_t k = 0; k < t->K; k++)
        mean += t->weight[k] * t->mean[k];
    return mean;
}

static double target_sd(const mixture_target *t)
{
    double mean = target_mean(t), square = 0;
    for (size_t k = 0; k < t->K; k++)
        square += t->weight[k] * (t->sd[k] * t->sd[k] + (t->mean[k] - mean) * (t->mean[k] - mean));
    return sqrt(square);
}

static double target_below(const mixture_target *t, double x)
{
    double mass = 0;
    for (size_t k = 0; k < t->K; k++)
        mass += t->weight[k] * erfc((t->mean[k] - x) / (t->sd[k] * sqrt(2))) / 2;
    return mass;
}

static double target_median(const mixture_target *t)
{
    double low, high;
    target_range(t, &low, &high);
    while (high - low > 1e-10) {
        double middle = (low + high) / 2;
        if (target_below(t, middle) < 0.5)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Where one ends up who goes uphill from x. */
static double climb(const mixture_target *t, double x)
{
    double step = target_density(t, x + 1e-4) > target_density(t, x - 1e-4) ? 1e-4 : -1e-4;
    while (target_density(t, x + step) > target_density(t, x))
        x += step;
    return x;
}

/* The particle of a fit with N = 1, and the standard error of the posterior mean that it has reached. */
static int fit_one(const theory *t, const wvgd_model *model, wvgd_cost cost, double *z, double *se, failure *f)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    wvgd_options_init(&o);
    o.particles = 1;
    o.cost = cost;
    o.evidence_se = closing_se(t);
    o.seed = t->r->seed;
    wvgd_fit *fit = wvgd_new(model, &o, NULL, &error);
    int code = fit && wvgd_run(fit, NULL, NULL, &error) == WVGD_OK ? 0 : fail(f, EX_SOFTWARE, "%s", error.text);
    if (!code) {
        wvgd_get_results(fit, &r);
        *z = r.z[0];
        *se = r.mcse[0];
    }
    wvgd_free(fit);
    return code;
}

static int svgd_one(const wvgd_model *model, double start, double *z, failure *f)
{
    enum { STEPS = 20000 };
    svgd_options o;
    svgd_view v = {0};
    svgd_options_init(&o);
    o.particles = 1;
    o.tol = 1e-8;
    svgd *s = svgd_new(model, &o, &start);
    int failed = s ? 0 : -1;
    while (!failed && !v.converged && v.iteration < STEPS) {
        failed = svgd_step(s);
        svgd_get(s, &v);
    }
    *z = failed ? NAN : v.z[0];
    svgd_free(s);
    return failed ? fail(f, EX_SOFTWARE, "SVGD with one particle has failed") : 0;
}

/* What one particle does on one target, and what it should. */
typedef struct {
    double mean, median, mode, squared, se, absolute, absolute_se, stein;
} lone_particle;

typedef struct {
    theory *t;
    lone_particle *row; /* [n] */
} lone_jobs;

static int run_lone(void *self, size_t i, failure *f)
{
    lone_jobs *jobs = self;
    const mixture_target *target = &jobs->t->list.target[i];
    lone_particle *row = &jobs->row[i];
    wvgd_model model;
    double se = NAN;
    row->mean = target_mean(target);
    row->median = target_median(target);
    row->mode = climb(target, row->mean);
    if (open_target(target, &model))
        return fail(f, EX_SOFTWARE, "no memory for a target");
    int code = fit_one(jobs->t, &model, WVGD_SQEUCLID, &row->squared, &row->se, f);
    if (!code)
        code = fit_one(jobs->t, &model, WVGD_L1, &row->absolute, &se, f);
    if (!code)
        code = svgd_one(&model, row->mean, &row->stein, f);
    /* of the median of as many independent draws */
    row->absolute_se = se / target_sd(target) / (2 * target_density(target, row->median));
    wvgd_model_close(&model);
    return code;
}

static int show_one_particle(theory *t, failure *f)
{
    enum { TARGETS = 5 };
    lone_particle row[TARGETS] = {{0}};
    size_t n = t->r->quick ? 2 : TARGETS;
    int code = run_jobs(t->r, "one particle", n < t->list.n ? n : t->list.n, run_lone, &(lone_jobs){t, row}, f);
    if (code)
        return code;
    fputs(
        "## 1. One particle\n\nThe loss of one particle is E c(z_1, z): its minimum is the mean of the posterior for "
        "the squared Euclidean cost and the (coordinate-wise) median for the L1 cost. SVGD with one particle has no "
        "kernel sum left and goes uphill to a mode. The first targets of `experiments/data/mixtures.json`; true values "
        "by quadrature, `+-` are standard errors from the number of the fit's draws, of which there are more than by "
        "default (`--evidence-se 0.003`), and SVGD starts at the mean. The L1 loss is flat near its minimum, so that "
        "the solver is content about a hundredth of the posterior's sd away from it.\n\n"
        "| target | mean | WVGD, squared cost | +- | median | WVGD, L1 cost | +- | mode uphill from the mean | SVGD |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        t->text.stream);
    for (size_t i = 0; i < n && i < t->list.n; i++) {
        const lone_particle *p = &row[i];
        char name[32];
        fprintf(t->text.stream, "| %zu | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f |\n", i, p->mean,
                p->squared, p->se, p->median, p->absolute, p->absolute_se, p->mode, p->stein);
        snprintf(name, sizeof name, "target %zu", i);
        note(t, "one particle", name, "mean", p->mean);
        note(t, "one particle", name, "wvgd squared", p->squared);
        note(t, "one particle", name, "median", p->median);
        note(t, "one particle", name, "wvgd l1", p->absolute);
        note(t, "one particle", name, "mode", p->mode);
        note(t, "one particle", name, "svgd", p->stein);
    }
    fputs("\n", t->text.stream);
    return 0;
}

/* ---- 2: the screening force -------------------------------------------------------------------------------------- */
/* Integral of g(z) p(z) from a to b. */
static double integrate(const mixture_target *t, double a, double b, double (*g)(double z, const double *at),
                        const double *at, failure *f)
{
    quadrature q;
    double sum = 0;
    if (make_quadrature(a, b, 0, NULL, &q, f))
        return NAN;
    for (size_t i = 0; i < q.m; i++)
        sum += q.weight[i] * g(q.x[i], at) * target_density(t, q.x[i]);
    free_quadrature(&q);
    return sum;
}

/* -d/dz_1 (z_1 - z)^2: how a point at z pulls at the particle at[0]. */
static double pull(double z, const double *at)
{
    return 2 * (z - at[0]);
}

static double squared_cost(double z, const double *at)
{
    return (z - at[0]) * (z - at[0]);
}

static double one(double z, const double *at)
{
    (void)z;
    (void)at;
    return 1;
}

/* D(z_1, z_2), z_1 < z_2. */
static double distortion_of_two(const mixture_target *t, double low, double high, double z1, double z2, failure *f)
{
    double middle = (z1 + z2) / 2;
    return integrate(t, low, middle, squared_cost, &z1, f) + integrate(t, middle, high, squared_cost, &z2, f);
}

static void show_force(theory *t, const char *name, const mixture_target *target, double z1, double z2, failure *f)
{
    const double d = 1e-4;
    double low, high, middle = (z1 + z2) / 2;
    char what[64];
    target_range(target, &low, &high);
    double all = integrate(target, low, high, pull, &z1, f), screened = integrate(target, middle, high, pull, &z1, f),
           mass = integrate(target, middle, high, one, NULL, f);
    double slope =
        (distortion_of_two(target, low, high, z1 + d, z2, f) - distortion_of_two(target, low, high, z1 - d, z2, f)) /
        (2 * d);
    double repulsion = log(2.0) / (2 * (z1 - z2)); /* 1/2 d/dz_2 exp(-(z_1-z_2)^2/h), h = (z_1-z_2)^2/log 2 */
    fprintf(t->text.stream, "| %s | %.1f | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f |\n", name, z2, mass, all, screened,
            unsigned_zero(all - screened), unsigned_zero(-slope), repulsion);
    snprintf(what, sizeof what, "%s z2=%.1f", name, z2);
    note(t, "screening", what, "mass beyond the middle", mass);
    note(t, "screening", what, "pull less screened", all - screened);
    note(t, "screening", what, "-dD/dz1", -slope);
    note(t, "screening", what, "svgd repulsion", repulsion);
}

static int show_screening(theory *t, failure *f)
{
    static double weight[2][2] = {{0.5, 0.5}, {0.95, 0.05}}, mean[2] = {-1, 3}, sd[2] = {0.5, 0.5};
    static const double z2[] = {1, 3, 6};
    f->code = 0;
    fputs("## 2. Two particles: the screening force\n\nIn one dimension with z_1 < z_2 and the squared cost, the force "
          "on particle 1, `-dD/dz_1`, is the pull of the whole posterior, `2 E(z - z_1)`, less the pull of what lies "
          "beyond the middle (z_1 + z_2)/2, which particle 2 explains away. (The paper writes c for its derivative, "
          "and its velocity is this force divided by the mass of the cell.) So the apparent repulsion depends on the "
          "mass behind particle 2: two targets w N(-1, 0.5^2) + (1 - w) N(3, 0.5^2), z_1 = -1. SVGD's repulsion, with "
          "the median heuristic, is the same for both. All by quadrature; `-dD/dz_1` by differences of D.\n\n"
          "| target | z_2 | mass beyond the middle | pull of all | of these screened | force on z_1 | -dD/dz_1 | "
          "SVGD's repulsion |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
          t->text.stream);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof z2 / sizeof *z2; i++)
            show_force(t, k ? "w = 0.95" : "w = 0.5", &(mixture_target){2, weight[k], mean, sd}, -1, z2[i], f);
    fputs("\n", t->text.stream);
    return f->code;
}

/* ---- 3: dimensions ----------------------------------------------------------------------------------------------- */
enum { PARTICLES = 20, STEIN_MANY = 100, ENSEMBLE_DRAWS = 20000 };

/* Mean over coordinates of the variance of weighted points; weight NULL: equal. */
static double mean_variance(size_t n, size_t D, const double *z, const double *weight)
{
    double sum = 0;
    for (size_t d = 0; d < D; d++) {
        double mean = 0;
        for (size_t i = 0; i < n; i++)
            mean += (weight ? weight[i] : 1 / (double)n) * z[i * D + d];
        for (size_t i = 0; i < n; i++)
            sum += (weight ? weight[i] : 1 / (double)n) * (z[i * D + d] - mean) * (z[i * D + d] - mean);
    }
    return sum / (double)D;
}

static int open_normal(size_t D, wvgd_model *model)
{
    const double weight = 1;
    double *mean = calloc(D, sizeof *mean), *cov = calloc(D * D, sizeof *cov);
    for (size_t d = 0; d < D && cov; d++)
        cov[d * D + d] = 1;
    int failed = mean && cov ? wv_model_mixture(model, D, 1, &weight, mean, cov) : -1;
    free(mean);
    free(cov);
    return failed;
}

/* Variances relative to the truth, which is 1. */
typedef struct {
    double stein, stein_many;      /* SVGD with PARTICLES and with STEIN_MANY */
    double particles, both, draws; /* WVGD: the weighted particles; with the distortion added; the ensemble */
} spreads;

static int spread_of_svgd(const theory *t, const wvgd_model *model, size_t n, double *variance, failure *f)
{
    enum { STEPS = 5000, QUICK = 300 };
    svgd_options o;
    svgd_view v = {0};
    size_t D = model->dim, most = t->r->quick ? QUICK : STEPS;
    double *start = calloc(n, D * sizeof *start);
    svgd_options_init(&o);
    o.particles = n;
    o.tol = 1e-6;
    if (start)
        svgd_random_normal(t->r->seed, 77, n * D, start);
    svgd *s = start ? svgd_new(model, &o, start) : NULL;
    int failed = s ? 0 : -1;
    while (!failed && !v.converged && v.iteration < most) {
        failed = svgd_step(s);
        svgd_get(s, &v);
    }
    *variance = failed ? NAN : mean_variance(n, D, v.z, NULL);
    svgd_free(s);
    free(start);
    return failed ? fail(f, EX_SOFTWARE, "SVGD in %zu dimensions has failed", D) : 0;
}

/* Mean squared distance of the ensemble's draws to the particles of their cells. */
static double mean_cost(size_t D, const double *draws, const size_t *cell, const double *z)
{
    double sum = 0;
    for (size_t i = 0; i < ENSEMBLE_DRAWS; i++)
        for (size_t d = 0; d < D; d++) {
            double c = draws[i * D + d] - z[cell[i] * D + d];
            sum += c * c;
        }
    return sum / ENSEMBLE_DRAWS;
}

static int spread_of_wvgd(const theory *t, const wvgd_model *model, spreads *out, failure *f)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    size_t D = model->dim;
    double *draws = calloc(ENSEMBLE_DRAWS, D * sizeof *draws);
    size_t *cell = calloc(ENSEMBLE_DRAWS, sizeof *cell);
    wvgd_options_init(&o);
    o.particles = PARTICLES;
    o.cost = WVGD_SQEUCLID;
    o.family = WVGD_FULL;
    o.seed = t->r->seed;
    wvgd_fit *fit = draws && cell ? wvgd_new(model, &o, NULL, &error) : NULL;
    int code = draws && cell ? 0 : fail(f, EX_SOFTWARE, "no memory for draws");
    if (!code && (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK ||
                  wvgd_sample(fit, 1, ENSEMBLE_DRAWS, draws, cell, &error) != WVGD_OK))
        code = fail(f, EX_SOFTWARE, "%s", error.text);
    if (!code) {
        wvgd_get_results(fit, &r);
        out->particles = mean_variance(r.N, D, r.z, r.beta);
        out->both = out->particles + mean_cost(D, draws, cell, r.z) / (double)D;
        out->draws = mean_variance(ENSEMBLE_DRAWS, D, draws, NULL);
    }
    wvgd_free(fit);
    free(draws);
    free(cell);
    return code;
}

static const size_t dimension[] = {2, 5, 10, 20, 50};
enum { DIMENSIONS = sizeof dimension / sizeof *dimension };

typedef struct {
    theory *t;
    spreads *out; /* [DIMENSIONS] */
} spread_jobs;

/* The largest one first. */
static int measure_spreads(void *self, size_t job, failure *f)
{
    spread_jobs *jobs = self;
    size_t n = jobs->t->r->quick ? 2 : DIMENSIONS, i = n - 1 - job;
    spreads *out = &jobs->out[i];
    wvgd_model model;
    if (open_normal(dimension[i], &model))
        return fail(f, EX_SOFTWARE, "no memory for a target");
    int code = spread_of_svgd(jobs->t, &model, PARTICLES, &out->stein, f);
    if (!code)
        code = spread_of_svgd(jobs->t, &model, STEIN_MANY, &out->stein_many, f);
    if (!code)
        code = spread_of_wvgd(jobs->t, &model, out, f);
    wvgd_model_close(&model);
    return code;
}

static int draw_spreads(const theory *t, size_t n, const spreads *s, failure *f)
{
    char *script = NULL;
    size_t size = 0;
    FILE *g = open_memstream(&script, &size);
    if (!g)
        return fail(f, EX_SOFTWARE, "no memory for a figure");
    fputs("$v << EOD\n", g);
    for (size_t i = 0; i < n; i++)
        fprintf(g, "%zu %.5g %.5g %.5g %.5g\n", dimension[i], s[i].stein, s[i].stein_many, s[i].particles, s[i].draws);
    fprintf(g,
            "EOD\nset logscale x\nset xrange [1.8:56]\nset yrange [0:1.15]\nset xtics (2, 5, 10, 20, 50)\n"
            "set xlabel 'dimensions'\nset ylabel 'variance / true variance'\nset key at graph 0.98, 0.86\n"
            "plot 1 with lines lc rgb '#999999' lw 1 dt 2 notitle, $v using 1:5 with linespoints lt 1 title 'WVGD, "
            "ensemble of %d particles', $v using 1:4 with linespoints lt 5 title 'WVGD, the particles', $v using 1:3 "
            "with linespoints lt 4 title 'SVGD, %d particles', $v using 1:2 with linespoints lt 2 title 'SVGD, %d "
            "particles'\n",
            PARTICLES, STEIN_MANY, PARTICLES);
    int code = fclose(g) ? fail(f, EX_SOFTWARE, "no memory for a figure")
                         : draw_result(t->r, "figure_variance", 720, 440, script, f);
    free(script);
    return code;
}

static int show_dimensions(theory *t, failure *f)
{
    spreads s[DIMENSIONS] = {{0}};
    size_t n = t->r->quick ? 2 : DIMENSIONS;
    int code = run_jobs(t->r, "dimensions", n, measure_spreads, &(spread_jobs){t, s}, f);
    if (code)
        return code;
    fprintf(t->text.stream,
            "## 3. Explaining away against kernel repulsion\n\nA standard normal in D dimensions: the variance of what "
            "each method puts in its place, relative to the truth, which is 1, as a mean over coordinates. SVGD's "
            "repulsion comes from a kernel in which, in many dimensions, all particles are about equally far from each "
            "other: its particles collapse towards the mode. WVGD's particles are means of cells, so that as a bare "
            "point set they have the variance of the posterior less the distortion, always: what a quantizer with few "
            "points in many dimensions cannot hold is in its transport densities, and the ensemble has all of it. %d "
            "particles (SVGD also %d); distortion and variance of the ensemble from %d of its draws.\n\n"
            "| D | SVGD, %d | SVGD, %d | WVGD, particles alone | + distortion / D | WVGD, ensemble |\n"
            "| --- | --- | --- | --- | --- | --- |\n",
            PARTICLES, STEIN_MANY, ENSEMBLE_DRAWS, PARTICLES, STEIN_MANY);
    for (size_t i = 0; i < n; i++) {
        char what[32];
        fprintf(t->text.stream, "| %zu | %.3f | %.3f | %.3f | %.3f | %.3f |\n", dimension[i], s[i].stein,
                s[i].stein_many, s[i].particles, s[i].both, s[i].draws);
        snprintf(what, sizeof what, "D=%zu", dimension[i]);
        note(t, "dimensions", what, "svgd 20", s[i].stein);
        note(t, "dimensions", what, "svgd 100", s[i].stein_many);
        note(t, "dimensions", what, "wvgd particles", s[i].particles);
        note(t, "dimensions", what, "wvgd particles and distortion", s[i].both);
        note(t, "dimensions", what, "wvgd ensemble", s[i].draws);
    }
    fputs("\n![variance against dimension](figure_variance.svg)\n\n", t->text.stream);
    return draw_spreads(t, n, s, f);
}

/* ---- 4: bias ----------------------------------------------------------------------------------------------------- */
/* q = N(0,1) on the cell (-inf, c), target N(1,1), so that log p - log q = z - 1/2: gradients in (mu,
 * log sigma) of the ELBO on the cell.
 *     exact     Cov_qj( d log q / d theta, log p - log q ) = Cov(z, z), Cov(z^2, z)
 *     paper's   E_qj[ dz/dtheta (log p - log q)'(z) ] = 1, E z
 * The paper's is the reparametrised gradient with rejected draws left out, which forgets that
 * theta decides on what is rejected. */
typedef struct {
    double mass, exact[2], paper[2], sampled[2];
} gradients;

static double normal_below(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static double normal_quantile(double p)
{
    double low = -40, high = 40;
    while (high - low > 1e-12) {
        double middle = (low + high) / 2;
        if (normal_below(middle) < p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Moments m[k] = E z^k, k <= 3, of N(0,1) cut at c: m_k = (k-1) m_{k-2} - c^{k-1} phi(c)/Phi(c). */
static void cut_moments(double c, double m[4])
{
    double ratio = exp(-0.5 * c * c) / sqrt(6.283185307179586) / normal_below(c);
    m[0] = 1;
    m[1] = -ratio;
    m[2] = 1 - c * ratio;
    m[3] = 2 * m[1] - c * c * ratio;
}

static gradients find_gradients(const theory *t, double mass)
{
    enum { DRAWS = 400000, QUICK = 20000, BLOCK = 10000 };
    gradients g = {.mass = mass};
    double c = normal_quantile(mass), m[4], kept = 0, *z = malloc(BLOCK * sizeof *z);
    cut_moments(c, m);
    g.exact[0] = m[2] - m[1] * m[1];
    g.exact[1] = m[3] - m[2] * m[1];
    g.paper[0] = 1;
    g.paper[1] = m[1];
    for (size_t b = 0; z && b < (t->r->quick ? QUICK : DRAWS) / BLOCK; b++) {
        svgd_random_normal(t->r->seed, 1000 + b, BLOCK, z);
        for (size_t i = 0; i < BLOCK; i++)
            if (z[i] < c) { /* kept: dz/dmu = 1, dz/dlog sigma = z; (log p - log q)' = 1 */
                kept++;
                g.sampled[0] += 1;
                g.sampled[1] += z[i];
            }
    }
    free(z);
    g.sampled[0] /= kept;
    g.sampled[1] /= kept;
    return g;
}

static double relative_bias(const gradients *g)
{
    return hypot(g->paper[0] - g->exact[0], g->paper[1] - g->exact[1]) / hypot(g->exact[0], g->exact[1]);
}

static int show_bias(theory *t, failure *f)
{
    static const double mass[] = {0.05, 0.1, 0.2, 0.4, 0.6179114221889526, 0.8, 0.9, 0.99, 0.999};
    char *script = NULL;
    size_t size = 0;
    FILE *s = open_memstream(&script, &size);
    if (!s)
        return fail(f, EX_SOFTWARE, "no memory for a figure");
    fputs("## 4. Bias of the paper's gradient\n\nThe paper reparametrises draws of the untruncated component, rejects "
          "those outside the cell, and calls the mean of the rest an unbiased gradient. It is not: whether a draw is "
          "rejected depends on the parameters too. Component N(0, 1) on the cell (-inf, c), target N(1, 1): the "
          "gradient of the cell's ELBO in (mu, log sigma) in closed form, the limit of the paper's estimator, and its "
          "mean over random draws, against the mass Z that the component has in the cell. The bias vanishes as Z goes "
          "to 1 (one particle has none); at Z = 0.618, c = 0.3, it is two thirds of the gradient, and below Z = 0.3 "
          "larger than it. What it costs on fitted mixtures is in [the results of the mixture "
          "experiment](../mixture/results.md).\n\n"
          "| Z | exact: mu | log sigma | paper's: mu | log sigma | by draws: mu | log sigma | bias / gradient |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
          t->text.stream);
    fputs("$bias << EOD\n", s);
    for (size_t i = 0; i < sizeof mass / sizeof *mass; i++) {
        gradients g = find_gradients(t, mass[i]);
        char what[32];
        fprintf(t->text.stream, "| %.3f | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f | %.3f |\n", g.mass, g.exact[0],
                g.exact[1], g.paper[0], g.paper[1], g.sampled[0], g.sampled[1], relative_bias(&g));
        fprintf(s, "%.6g %.6g %.6g %.6g %.6g\n", g.mass, g.exact[0], g.paper[0], g.exact[1], g.paper[1]);
        snprintf(what, sizeof what, "Z=%.3f", g.mass);
        note(t, "bias", what, "exact mu", g.exact[0]);
        note(t, "bias", what, "exact log sigma", g.exact[1]);
        note(t, "bias", what, "paper mu", g.paper[0]);
        note(t, "bias", what, "paper log sigma", g.paper[1]);
    }
    fputs("\n![gradients against the mass of the cell](figure_bias.svg)\n", t->text.stream);
    fputs("EOD\nset xlabel 'mass of the component in its cell'\nset ylabel 'gradient of the ELBO'\nset xrange [0:1]\n"
          "set key bottom left\n"
          "plot $bias using 1:2 with linespoints lt 1 title 'mu, exact', $bias using 1:3 with linespoints lt 2 title "
          "'mu, paper', $bias using 1:4 with linespoints lt 1 dt 2 pt 6 title 'log sigma, exact', $bias using 1:5 "
          "with linespoints lt 2 dt 2 pt 6 title 'log sigma, paper'\n",
          s);
    int code = fclose(s) ? fail(f, EX_SOFTWARE, "no memory for a figure")
                         : draw_result(t->r, "figure_bias", 720, 440, script, f);
    free(script);
    return code;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static int load_targets(theory *t, failure *f)
{
    char *path = find_shared("experiments/mixtures.json", f);
    int code = path ? read_targets(path, &t->list, f) : f->code;
    free(path);
    return code;
}

static int show_all(theory *t, failure *f)
{
    int code = show_one_particle(t, f);
    if (!code)
        code = show_screening(t, f);
    if (!code)
        code = show_dimensions(t, f);
    return code ? code : show_bias(t, f);
}

static int run_theory(const reproduction *r, failure *f)
{
    theory t = {.r = r};
    int code = load_targets(&t, f);
    if (!code)
        code = begin_result(r, "results.csv", &t.csv, f);
    if (!code && (code = begin_markdown(r, "theory.md", "Special cases of the theory", &t.text, f)))
        abandon_file(&t.csv);
    if (!code) {
        fputs("section,case,quantity,value\n", t.csv.stream);
        code = show_all(&t, f);
        if (code) {
            abandon_file(&t.csv);
            abandon_file(&t.text);
        } else if (!(code = finish_file(&t.csv, f)))
            code = finish_file(&t.text, f);
        else
            abandon_file(&t.text);
    }
    if (!code)
        code = print_result(r, "theory.md", f);
    free_targets(&t.list);
    return code;
}

const experiment theory_experiment = {
    "theory", "special cases of the theory: one and two particles, dimensions, bias of the paper's gradient",
    run_theory};
