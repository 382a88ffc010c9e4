/* oracle1d.c - what a fit computes, in one dimension and by quadrature, for tests.
 *
 * Composite Gauss-Legendre rules on bounded intervals. For the target these end 38 sds from its
 * components, where the density underflows; for a component, where q has fallen by a factor exp(80)
 * from its largest value in the cell:
 *     (z - mu)^2 < (c - mu)^2 + 160 sd^2,  c the point of the cell nearest to mu.
 * Weights of q_j are normalised on the nodes in log space, so that cells deep in the tail of q are
 * no worse than others. */
#include "oracle1d.h"

#include <gsl/gsl_integration.h>
#include <math.h>
#include <stdlib.h>

enum { NODES = 16, MIN_PANELS = 64, MAX_PANELS = 65536 };

static const double LOG_2PI = 1.8378770664093453;

/* ---- quadrature -------------------------------------------------------------------------------------------------- */
typedef struct {
    size_t n;
    double *x, *w; /* [n] nodes and weights */
} grid;

static double *numbers(size_t n)
{
    double *x = malloc(n * sizeof *x);
    if (!x)
        abort();
    return x;
}

/* Nodes on [lo, hi] in panels of at most the given width (between MIN_PANELS and MAX_PANELS of
 * them); none if the interval is empty. */
static grid grid_new(oracle1d_interval range, double width)
{
    double length = range.hi - range.lo;
    size_t panels = length > 0.0 ? (size_t)fmin(fmax(ceil(length / width), MIN_PANELS), MAX_PANELS) : 0;
    grid g = {panels * NODES, numbers(panels * NODES + 1), numbers(panels * NODES + 1)};
    gsl_integration_glfixed_table *rule = gsl_integration_glfixed_table_alloc(NODES);
    for (size_t i = 0; i < g.n; i++) {
        double a = range.lo + length * (double)(i / NODES) / (double)panels,
               b = range.lo + length * (double)(i / NODES + 1) / (double)panels;
        gsl_integration_glfixed_point(a, b, i % NODES, &g.x[i], &g.w[i], rule);
    }
    gsl_integration_glfixed_table_free(rule);
    return g;
}

static void grid_free(grid *g)
{
    free(g->x);
    free(g->w);
}

static double smallest(size_t n, const double *x)
{
    double least = x[0];
    for (size_t i = 1; i < n; i++)
        least = fmin(least, x[i]);
    return least;
}

static grid target_grid(const oracle1d_target *t, oracle1d_interval cell)
{
    oracle1d_interval range = {INFINITY, -INFINITY};
    for (size_t k = 0; k < t->K; k++) {
        range.lo = fmin(range.lo, t->mean[k] - 38.0 * t->sd[k]);
        range.hi = fmax(range.hi, t->mean[k] + 38.0 * t->sd[k]);
    }
    range.lo = fmax(range.lo, cell.lo);
    range.hi = fmin(range.hi, cell.hi);
    return grid_new(range, 0.5 * smallest(t->K, t->sd));
}

static grid component_grid(const oracle1d_target *t, oracle1d_interval cell, double mu, double sd)
{
    double c = fmin(fmax(mu, cell.lo), cell.hi), away = fabs(c - mu);
    /* of the range beyond c, on the far side of mu */
    double reach = 160.0 * sd * sd / (away + sqrt(away * away + 160.0 * sd * sd));
    oracle1d_interval range = {fmax(c - reach, cell.lo), fmin(c + reach, cell.hi)};
    return grid_new(range, fmin(0.5 * sd, 0.25 * smallest(t->K, t->sd)));
}

/* ---- the target -------------------------------------------------------------------------------------------------- */
static double log_normal(double z, double mu, double sd)
{
    double y = (z - mu) / sd;
    return -0.5 * y * y - log(sd) - 0.5 * LOG_2PI;
}

double oracle1d_log_evidence(const oracle1d_target *target)
{
    double sum = 0.0;
    for (size_t k = 0; k < target->K; k++)
        sum += target->weight[k];
    return log(sum);
}

double oracle1d_log_p(const oracle1d_target *target, double z)
{
    double top = -INFINITY, sum = 0.0;
    for (size_t k = 0; k < target->K; k++)
        top = fmax(top, log(target->weight[k]) + log_normal(z, target->mean[k], target->sd[k]));
    if (isinf(top))
        return top;
    for (size_t k = 0; k < target->K; k++)
        sum += exp(log(target->weight[k]) + log_normal(z, target->mean[k], target->sd[k]) - top);
    return top + log(sum);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
oracle1d_interval oracle1d_cell(size_t N, const double *z, size_t j)
{
    oracle1d_interval cell = {-INFINITY, INFINITY};
    if (j > 0)
        cell.lo = 0.5 * (z[j - 1] + z[j]);
    if (j + 1 < N)
        cell.hi = 0.5 * (z[j] + z[j + 1]);
    return cell;
}

oracle1d_posterior oracle1d_posterior_in(const oracle1d_target *target, oracle1d_interval cell)
{
    grid g = target_grid(target, cell);
    double log_evidence = oracle1d_log_evidence(target), mass = 0.0, mean = 0.0, square = 0.0;
    for (size_t i = 0; i < g.n; i++) {
        g.w[i] *= exp(oracle1d_log_p(target, g.x[i]) - log_evidence);
        mass += g.w[i];
        mean += g.w[i] * g.x[i];
    }
    mean /= mass;
    for (size_t i = 0; i < g.n; i++)
        square += g.w[i] * (g.x[i] - mean) * (g.x[i] - mean);
    grid_free(&g);
    return (oracle1d_posterior){mass, mean, square / mass};
}

double oracle1d_distortion(const oracle1d_target *target, size_t N, const double *z)
{
    double sum = 0.0;
    for (size_t j = 0; j < N; j++) {
        oracle1d_posterior p = oracle1d_posterior_in(target, oracle1d_cell(N, z, j));
        if (p.beta > 0.0)
            sum += p.beta * (p.var + (p.mean - z[j]) * (p.mean - z[j]));
    }
    return sum;
}

void oracle1d_lloyd(const oracle1d_target *target, size_t N, double *z, size_t steps)
{
    double *mean = numbers(N);
    for (size_t s = 0; s < steps; s++) {
        for (size_t j = 0; j < N; j++)
            mean[j] = oracle1d_posterior_in(target, oracle1d_cell(N, z, j)).mean;
        for (size_t j = 0; j < N; j++)
            z[j] = mean[j];
    }
    free(mean);
}

/* Masses and sums of z up to each of some points, by which means of cells are told at once. */
enum { STEPS = 40000 };
typedef struct {
    double lo, step, mass[STEPS + 1], sum[STEPS + 1];
} cumulated;

static cumulated *cumulate(const oracle1d_target *t)
{
    cumulated *c = malloc(sizeof *c);
    double hi = -INFINITY;
    if (!c)
        abort();
    *c = (cumulated){.lo = INFINITY};
    for (size_t k = 0; k < t->K; k++) {
        c->lo = fmin(c->lo, t->mean[k] - 9.0 * t->sd[k]);
        hi = fmax(hi, t->mean[k] + 9.0 * t->sd[k]);
    }
    c->step = (hi - c->lo) / STEPS;
    for (size_t i = 0; i < STEPS; i++) {
        double z = c->lo + ((double)i + 0.5) * c->step, p = exp(oracle1d_log_p(t, z)) * c->step;
        c->mass[i + 1] = c->mass[i] + p;
        c->sum[i + 1] = c->sum[i] + p * z;
    }
    return c;
}

/* Mass and sum of z below a point. */
static void below(const cumulated *c, double z, double *mass, double *sum)
{
    double at = fmin(fmax((z - c->lo) / c->step, 0.0), STEPS);
    size_t i = at < STEPS ? (size_t)at : STEPS - 1;
    *mass = c->mass[i] + (at - (double)i) * (c->mass[i + 1] - c->mass[i]);
    *sum = c->sum[i] + (at - (double)i) * (c->sum[i + 1] - c->sum[i]);
}

/* A Lloyd step of z[N]; returns the sum of mass times squared mean over the cells: what the steps raise. */
static double quick_step(const cumulated *c, size_t N, double *z)
{
    double before = 0.0, before_sum = 0.0, value = 0.0;
    for (size_t j = 0; j < N; j++) {
        double mass, sum;
        below(c, j + 1 < N ? 0.5 * (z[j] + z[j + 1]) : INFINITY, &mass, &sum);
        double m = mass - before, s = sum - before_sum;
        before = mass;
        before_sum = sum;
        if (m > 0.0) {
            z[j] = s / m;
            value += s * s / m;
        }
    }
    return value;
}

/* Starts are quantiles: of every other one a place in each of N equal shares, of the others wherever they fall, for
 * the best may have several where there is little mass. */
void oracle1d_quantizer(const oracle1d_target *target, size_t N, size_t starts, double *z)
{
    cumulated *c = cumulate(target);
    double best = -INFINITY, *at = numbers(N);
    for (size_t s = 0; s < starts; s++) {
        double value = 0.0;
        for (size_t j = 0; j < N; j++) {
            double n = (double)(s * N + j), shift = s ? fmod(n * n * 0.6180339887498949, 1.0) : 0.5,
                   wanted = (s % 2 ? shift : ((double)j + shift) / (double)N) * c->mass[STEPS];
            size_t i = 0, before = j;
            while (i < STEPS && c->mass[i] < wanted)
                i++;
            for (; before > 0 && at[before - 1] > c->lo + (double)i * c->step; before--)
                at[before] = at[before - 1];
            at[before] = c->lo + (double)i * c->step;
        }
        for (int k = 0; k < 1000; k++)
            value = quick_step(c, N, at);
        if (value > best) {
            best = value;
            for (size_t j = 0; j < N; j++)
                z[j] = at[j];
        }
    }
    free(at);
    free(c);
    oracle1d_lloyd(target, N, z, 5);
}

/* ---- components -------------------------------------------------------------------------------------------------- */
/* Turns the weights of g into those of q_j, which sum to 1; returns log Z_j. */
static double truncate_to(grid *g, double mu, double sd)
{
    double top = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < g->n; i++)
        top = fmax(top, log_normal(g->x[i], mu, sd));
    for (size_t i = 0; i < g->n; i++)
        sum += g->w[i] *= exp(log_normal(g->x[i], mu, sd) - top);
    for (size_t i = 0; i < g->n; i++)
        g->w[i] /= sum;
    return top + log(sum);
}

/* Mean and variance of q_j, from its weights. */
static void component_moments(const grid *g, oracle1d_component *c)
{
    for (size_t i = 0; i < g->n; i++)
        c->mean += g->w[i] * g->x[i];
    for (size_t i = 0; i < g->n; i++)
        c->var += g->w[i] * (g->x[i] - c->mean) * (g->x[i] - c->mean);
}

/* Covariances of h = log p~ - log q with d log q / d mu = (z - mu)/sd^2 and d log q / d log
 * sd = ((z - mu)/sd)^2 - 1. */
static void component_gradient(const grid *g, const double *log_p, double mu, double sd, oracle1d_component *c)
{
    for (size_t i = 0; i < g->n; i++) {
        double h = log_p[i] - log_normal(g->x[i], mu, sd) - (c->elbo - c->log_Z), t = g->x[i] - c->mean,
               shift = c->mean - mu;
        c->grad_mu += g->w[i] * h * t / (sd * sd);
        c->grad_log_sd += g->w[i] * h * (t * t + 2.0 * t * shift) / (sd * sd);
    }
}

/* log p~ on polynomials orthonormal under q_j but for scale: 1, t = (z - mean)/s, r = t^2 - skew
 * t - 1. Then in powers of z. */
static void component_regression(const grid *g, const double *log_p, oracle1d_component *c)
{
    double s = sqrt(c->var), skew = 0.0, level = 0.0, b1 = 0.0, b2 = 0.0, square = 0.0;
    for (size_t i = 0; i < g->n; i++) {
        skew += g->w[i] * pow((g->x[i] - c->mean) / s, 3.0);
        level += g->w[i] * log_p[i];
    }
    for (size_t i = 0; i < g->n; i++) {
        double t = (g->x[i] - c->mean) / s, r = t * t - skew * t - 1.0;
        b1 += g->w[i] * t * (log_p[i] - level);
        b2 += g->w[i] * r * (log_p[i] - level);
        square += g->w[i] * r * r;
    }
    b2 /= square;
    double slope = (b1 - b2 * skew) / s;
    c->a2 = b2 / c->var;
    c->a1 = slope - 2.0 * c->a2 * c->mean;
    c->a0 = level - b2 - slope * c->mean + c->a2 * c->mean * c->mean;
}

oracle1d_component oracle1d_component_in(const oracle1d_target *target, oracle1d_interval cell, double mu, double sd)
{
    oracle1d_component c = {0};
    grid g = component_grid(target, cell, mu, sd);
    double *log_p = numbers(g.n + 1); /* [g.n] */
    c.log_Z = truncate_to(&g, mu, sd);
    component_moments(&g, &c);
    c.elbo = c.log_Z;
    for (size_t i = 0; i < g.n; i++) {
        log_p[i] = oracle1d_log_p(target, g.x[i]);
        c.elbo += g.w[i] * (log_p[i] - log_normal(g.x[i], mu, sd));
    }
    c.kl = log(oracle1d_posterior_in(target, cell).beta) + oracle1d_log_evidence(target) - c.elbo;
    component_gradient(&g, log_p, mu, sd, &c);
    component_regression(&g, log_p, &c);
    free(log_p);
    grid_free(&g);
    return c;
}

/* ---- the best component ------------------------------------------------------------------------------------------ */
/* A cell in units of the posterior there, t = (z - mean) / h; components are exp(b t - P t^2 / 2) / C. */
typedef struct {
    grid g;
    oracle1d_posterior p;
    double h, *t, *log_p, *u; /* [g.n] u: weights of a component */
} unit_cell;

typedef struct {
    double b, P;
} natural;

static const double FLATTEST = 1e-5;

/* Weights of q into c->u; returns its ELBO, with the target in units of z. */
static double weigh(const unit_cell *c, natural q)
{
    double top = -INFINITY, sum = 0.0, mean = 0.0;
    for (size_t i = 0; i < c->g.n; i++)
        top = fmax(top, q.b * c->t[i] - 0.5 * q.P * c->t[i] * c->t[i]);
    for (size_t i = 0; i < c->g.n; i++)
        sum += c->u[i] = c->g.w[i] * exp(q.b * c->t[i] - 0.5 * q.P * c->t[i] * c->t[i] - top);
    for (size_t i = 0; i < c->g.n; i++) {
        c->u[i] /= sum;
        if (c->u[i] > 0.0)
            mean += c->u[i] * (c->log_p[i] - q.b * c->t[i] + 0.5 * q.P * c->t[i] * c->t[i]);
    }
    return mean + top + log(sum);
}

/* The regression of log p~ on t and t^2 under the weights u; b once more where P meets its floor. */
static natural regress(const unit_cell *c)
{
    double m1 = 0.0, m2 = 0.0, ml = 0.0, s11 = 0.0, s12 = 0.0, s22 = 0.0, r1 = 0.0, r2 = 0.0;
    for (size_t i = 0; i < c->g.n; i++)
        if (c->u[i] > 0.0) {
            m1 += c->u[i] * c->t[i];
            m2 += c->u[i] * c->t[i] * c->t[i];
            ml += c->u[i] * c->log_p[i];
        }
    for (size_t i = 0; i < c->g.n; i++)
        if (c->u[i] > 0.0) {
            double a = c->t[i] - m1, d = c->t[i] * c->t[i] - m2, l = c->log_p[i] - ml;
            s11 += c->u[i] * a * a;
            s12 += c->u[i] * a * d;
            s22 += c->u[i] * d * d;
            r1 += c->u[i] * a * l;
            r2 += c->u[i] * d * l;
        }
    double curve = (s11 * r2 - s12 * r1) / (s11 * s22 - s12 * s12), P = fmax(-2.0 * curve, FLATTEST);
    return (natural){(r1 + 0.5 * P * s12) / s11, P};
}

/* Steps from q on, halved until the ELBO rises; returns the last ELBO. */
static double climb(const unit_cell *c, natural *q)
{
    double elbo = weigh(c, *q), gain = INFINITY;
    for (int k = 0; k < 200 && gain > 1e-10; k++) {
        weigh(c, *q);
        natural to = regress(c), next = *q;
        gain = 0.0;
        for (double rho = 1.0; rho > 1e-8 && !(gain > 0.0); rho /= 2.0) {
            next = (natural){q->b + rho * (to.b - q->b), q->P + rho * (to.P - q->P)};
            gain = weigh(c, next) - elbo;
        }
        if (gain > 0.0) {
            *q = next;
            elbo += gain;
        }
    }
    return elbo;
}

static unit_cell unit_cell_new(const oracle1d_target *target, oracle1d_interval cell)
{
    unit_cell c = {.g = target_grid(target, cell), .p = oracle1d_posterior_in(target, cell)};
    c.h = sqrt(c.p.var);
    c.t = numbers(c.g.n + 1);
    c.log_p = numbers(c.g.n + 1);
    c.u = numbers(c.g.n + 1);
    for (size_t i = 0; i < c.g.n; i++) {
        c.t[i] = (c.g.x[i] - c.p.mean) / c.h;
        c.log_p[i] = oracle1d_log_p(target, c.g.x[i]);
    }
    return c;
}

static void unit_cell_free(unit_cell *c)
{
    grid_free(&c->g);
    free(c->t);
    free(c->log_p);
    free(c->u);
}

/* From the moments of the posterior, from a level, and from every component of the target. */
oracle1d_best oracle1d_best_in(const oracle1d_target *target, oracle1d_interval cell)
{
    oracle1d_best best = {NAN, NAN, -INFINITY, false};
    unit_cell c = unit_cell_new(target, cell);
    for (size_t k = 0; k < target->K + 2; k++) {
        natural q = {0.0, k == 0 ? 1.0 : FLATTEST};
        if (k > 1) {
            q.P = fmax(c.p.var / (target->sd[k - 2] * target->sd[k - 2]), FLATTEST);
            q.b = q.P * (target->mean[k - 2] - c.p.mean) / c.h;
        }
        double elbo = climb(&c, &q);
        if (elbo > best.elbo)
            best = (oracle1d_best){c.p.mean + c.h * q.b / q.P, c.h / sqrt(q.P), elbo, q.P <= FLATTEST};
    }
    unit_cell_free(&c);
    return best;
}

/* ---- the ensemble ------------------------------------------------------------------------------------------------ */
double oracle1d_pelbo(size_t N, const double *elbo, const double *weight)
{
    double sum = 0.0;
    for (size_t j = 0; j < N; j++)
        if (weight[j] > 0.0)
            sum += weight[j] * (elbo[j] - log(weight[j]));
    return sum;
}

double oracle1d_best_weights(size_t N, const double *elbo, double *weight)
{
    double top = -INFINITY, sum = 0.0;
    for (size_t j = 0; j < N; j++)
        top = fmax(top, elbo[j]);
    for (size_t j = 0; j < N; j++)
        sum += weight[j] = exp(elbo[j] - top);
    for (size_t j = 0; j < N; j++)
        weight[j] /= sum;
    return top + log(sum);
}

/* Integral over the cell of (w q_j)^2 - 2 w q_j p; sums to the ISE with the integral of p^2. */
static double cell_ise(const oracle1d_target *target, oracle1d_interval cell, double mu, double sd, double weight)
{
    grid g = component_grid(target, cell, mu, sd);
    double log_evidence = oracle1d_log_evidence(target), log_Z = truncate_to(&g, mu, sd), sum = 0.0;
    for (size_t i = 0; i < g.n; i++) {
        double q = weight * exp(log_normal(g.x[i], mu, sd) - log_Z),
               p = exp(oracle1d_log_p(target, g.x[i]) - log_evidence);
        sum += weight * g.w[i] * (q - 2.0 * p);
    }
    grid_free(&g);
    return sum;
}

double oracle1d_ise(const oracle1d_target *target, size_t N, const double *z, const double *mu, const double *sd,
                    const double *weight)
{
    grid g = target_grid(target, (oracle1d_interval){-INFINITY, INFINITY});
    double log_evidence = oracle1d_log_evidence(target), sum = 0.0;
    for (size_t i = 0; i < g.n; i++)
        sum += g.w[i] * exp(2.0 * (oracle1d_log_p(target, g.x[i]) - log_evidence));
    grid_free(&g);
    for (size_t j = 0; j < N; j++)
        sum += cell_ise(target, oracle1d_cell(N, z, j), mu[j], sd[j], weight[j]);
    return sum;
}
