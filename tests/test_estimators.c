/* test_estimators.c - every estimator of an iteration against quadrature, in one dimension.
 *
 * A fit is put into a state with known particles and components; batches of fits with other seeds are drawn from that
 * same state, and the mean over batches of each estimate is compared with its exact value, within 4 standard errors of
 * that mean. Gradients and natural parameters, which a fit does not show, are estimated by update/ from points that
 * are weighted as those of a batch are. Self-normalised estimates, logs of means and shrunken regressions have
 * a bias of the order of 1/n for n draws; batches are so large that it stays below that error, or it is named
 * where it is compared. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gaussian.h"
#include "support/edited_state.h"
#include "support/near.h"
#include "support/oracle1d.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "update/quadratic.h"
#include "update/reparam.h"
#include "weights.h"
#include "wvgd.h"

enum { MAX_N = 5, MAX_K = 3 };

/* ---- a state to estimate from ------------------------------------------------------------------------------------ */
typedef struct {
    size_t N, K;
    double weight[MAX_K], mean[MAX_K], sd[MAX_K];      /* [K] target, not normalised */
    double z[MAX_N], mu[MAX_N], root[MAX_N], w[MAX_N]; /* [N] sorted particles, components, ensemble weights */
} problem;

static oracle1d_target target_of(const problem *p)
{
    return (oracle1d_target){p->K, p->weight, p->mean, p->sd};
}

static double between(test_random *r, double lo, double hi)
{
    return lo + (hi - lo) * test_random_uniform(r);
}

/* Components wide enough for what they cover, so that importance weights have finite variance: one
 * alone has to cover everything. */
static problem random_problem(size_t N, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    problem p = {.N = N, .K = MAX_K};
    double total = 0;
    for (size_t k = 0; k < p.K; k++) {
        p.weight[k] = between(&r, 0.3, 3.0);
        p.mean[k] = 1.5 * test_random_normal(&r);
        p.sd[k] = between(&r, 0.3, 0.9);
    }
    for (size_t j = 0; j < N; j++) {
        p.z[j] = j ? p.z[j - 1] + between(&r, 0.5, 1.8) : between(&r, -2.5, -0.5);
        p.mu[j] = p.z[j] + 0.4 * test_random_normal(&r);
        p.root[j] = N > 1 ? between(&r, 0.8, 1.6) : between(&r, 2.0, 3.0);
        total += p.w[j] = between(&r, 0.2, 1.0);
    }
    for (size_t j = 0; j < N; j++)
        p.w[j] /= total;
    return p;
}

/* Wherever the state of the fit has n doubles, it has others. */
static void put(wvgd_fit *f, size_t n, const double *from, const double *to)
{
    if (!edited_state_replace(f, n, from, to))
        fail_msg("the state has no such %zu numbers", n);
}

static wvgd_fit *open(const wvgd_model *model, const wvgd_options *o, const double *z0)
{
    wvgd_error error;
    wvgd_fit *f = wvgd_new(model, o, z0, &error);
    if (!f)
        fail_msg("%s", error.text);
    return f;
}

static void step(wvgd_fit *f)
{
    wvgd_error error;
    if (wvgd_step(f, &error) != WVGD_OK)
        fail_msg("%s", error.text);
}

/* A fit with the state of another, and the next seed. */
static wvgd_fit *twin(const wvgd_model *model, wvgd_options *o, const wvgd_fit *from, const double *z0)
{
    wvgd_error error;
    o->seed++;
    wvgd_fit *f = open(model, o, z0);
    if (edited_state_move(f, from, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    return f;
}

typedef struct {
    const problem *p;
    wvgd_options o;
    wvgd_model model;
    wvgd_fit *f;
    test_random random;
    wv_step step;
    size_t undone;
    double *x, *g, *log_p, *log_u, *u; /* [room] a cell's points */
} rig;

enum { DRAWS = 4000, BATCHES = 50, ROOM = MAX_N * DRAWS };

/* A fit in its second iteration (in the first, the bound's weights come from the batch itself) with the problem's
 * particles, components and weights. */
static rig open_rig(const problem *p, wvgd_options o)
{
    rig r = {.p = p, .o = o, .random = test_random_seed(p->N)};
    oracle1d_target target = target_of(p);
    wvgd_results old;
    double old_spread[MAX_N], spread[MAX_N], log_Z[MAX_N];
    assert_int_equal(target_mixture_1d(&r.model, p->K, p->weight, p->mean, p->sd), 0);
    r.o.particles = p->N;
    r.o.cost = WVGD_SQEUCLID;
    r.o.family = WVGD_DIAG;
    r.f = open(&r.model, &r.o, p->z);
    step(r.f);
    wvgd_get_results(r.f, &old);
    for (size_t j = 0; j < p->N; j++) {
        oracle1d_interval cell = oracle1d_cell(p->N, p->z, j);
        old_spread[j] = sqrt(old.cell_cov[j]);
        spread[j] = sqrt(oracle1d_posterior_in(&target, cell).var);
        log_Z[j] = oracle1d_component_in(&target, cell, p->mu[j], p->root[j]).log_Z;
    }
    const struct {
        const double *from, *to; /* [N] */
    } edit[] = {{old.z, p->z},        {old.mu, p->mu},    {old.sd, p->root},
                {old_spread, spread}, {old.weight, p->w}, {old.log_Z, log_Z}};
    for (size_t i = 0; i < (p->N > 1 ? 6 : 3); i++) { /* one component has weight 1 and all of its cell */
        put(r.f, p->N, edit[i].from, edit[i].to);
        wvgd_get_results(r.f, &old);
    }
    r.step = (wv_step){.D = 1, .dense = true, .most_coefficients = 3, .arena = wv_arena_new(40 * ROOM)};
    r.x = malloc(5 * ROOM * sizeof *r.x);
    assert_non_null(r.step.arena);
    assert_non_null(r.x);
    r.g = r.x + ROOM;
    r.log_p = r.g + ROOM;
    r.log_u = r.log_p + ROOM;
    r.u = r.log_u + ROOM;
    return r;
}

static void close_rig(rig *r)
{
    free(r->x);
    wv_arena_free(r->step.arena);
    wvgd_free(r->f);
    r->model.close(r->model.self);
}

/* ---- one batch --------------------------------------------------------------------------------------------------- */
/* What is estimated. Of every cell: */
enum { LOG_Z, BETA, ELBO, GRAD_MU, GRAD_LOG_SD, NATURAL_1, NATURAL_2, PER_CELL };
static const char *const NAME[PER_CELL] = {
    "log Z", "beta", "ELBO", "d ELBO/d mu", "d ELBO/d log sigma", "natural target 1", "natural target 2"};

typedef struct {
    double cell[MAX_N][PER_CELL], pelbo, pelbo_se, distortion;
    double ess[MAX_N]; /* of the weights that stand for q_j */
} values;

static double log_normal(double x, double mu, double sd)
{
    return -log(sd) - (x - mu) * (x - mu) / (2 * sd * sd);
}

/* Draws of component k that lie in cell j, behind n others, with the weights of draws of component j in their cell:
 * 1, or where they stand beside as many draws of each component, by the density of all these. Returns how many there
 * are then. */
static size_t draw(rig *r, size_t j, size_t k, size_t n)
{
    const problem *p = r->p;
    oracle1d_interval cell = oracle1d_cell(p->N, p->z, j);
    for (size_t i = 0; i < DRAWS; i++) {
        double x = p->mu[k] + p->root[k] * test_random_normal(&r->random), m = 0;
        if (!(x > cell.lo && x < cell.hi))
            continue;
        for (size_t c = 0; c < p->N; c++)
            m += exp(log_normal(x, p->mu[c], p->root[c]));
        r->log_u[n] = r->o.sampler == WVGD_REJECT ? 0 : log_normal(x, p->mu[j], p->root[j]) - log(m);
        r->x[n++] = x;
    }
    return n;
}

/* Weighted points of cell j, as an iteration takes them. */
static wv_update gather(rig *r, size_t j, double *mu, double *root)
{
    size_t n = 0;
    for (size_t k = 0; k < r->p->N; k++)
        n = k == j || r->o.sampler == WVGD_MIXTURE ? draw(r, j, k, n) : n;
    assert_true(wv_weights_normalise(n, r->log_u, r->u));
    assert_int_equal(r->model.log_density(r->model.self, n, r->x, r->log_p, r->g), 0);
    *mu = r->p->mu[j];
    *root = r->p->root[j];
    return (wv_update){.estimator = r->o.estimator,
                       .family = wv_family_get(WVGD_DIAG),
                       .mu = mu,
                       .root = root,
                       .n = n,
                       .x = r->x,
                       .log_p = r->log_p,
                       .grad = r->g,
                       .u = r->u,
                       .ess = wv_weights_ess(n, r->u),
                       .truncated = r->p->N > 1,
                       .rho = 1};
}

/* Gradient of ELBO_j = Cov_qj(T, log p~ - log q) = F (natural target - current), then the chain rule to
 * (mu, log sigma). */
static void elbo_gradient_1d(const wv_update *c, const double natural[2], double gradient[2])
{
    double s2 = c->root[0] * c->root[0], d0 = natural[0] - c->mu[0] / s2, d1 = natural[1] + 1 / (2 * s2),
           F[3] = {0, 0, 0}, e1 = 0, e2 = 0;
    for (size_t k = 0; k < c->n; k++) {
        e1 += c->u[k] * c->x[k];
        e2 += c->u[k] * c->x[k] * c->x[k];
    }
    for (size_t k = 0; k < c->n; k++) {
        double t1 = c->x[k] - e1, t2 = c->x[k] * c->x[k] - e2;
        F[0] += c->u[k] * t1 * t1;
        F[1] += c->u[k] * t1 * t2;
        F[2] += c->u[k] * t2 * t2;
    }
    double g0 = F[0] * d0 + F[1] * d1, g1 = F[1] * d0 + F[2] * d1; /* in the natural parameters mu/s2, -1/(2 s2) */
    gradient[0] = g0 / s2;
    gradient[1] = -2 * g0 * c->mu[0] / s2 + g1 / s2;
}

/* The estimates behind a step: gradient of ELBO_j in (mu, log sigma), and the natural parameters (coefficients of z and
 * z^2) that the step aims at. */
static void target_1d(const wv_step *s, const wv_update *c, double gradient[2], double natural[2])
{
    if (c->estimator == WVGD_REPARAM) {
        wv_reparam_gradient(s, c, gradient, gradient + 1);
        gradient[0] /= c->root[0];
        natural[0] = natural[1] = NAN;
        return;
    }
    size_t mark = wv_arena_mark(s->arena);
    wv_quadratic l = wv_quadratic_room(s, c);
    if (wv_quadratic_fit(s, c, &l)) {
        /* log p~ ~ a0 y + (X - 1) y^2/2 with y = (z - m)/sd */
        double sd = c->root[0], m = c->mu[0] + sd * l.m.mean[0], s2 = sd * sd;
        natural[1] = (l.X[0] - 1) / (2 * s2);
        natural[0] = l.a0[0] / sd - m * (l.X[0] - 1) / s2;
        elbo_gradient_1d(c, natural, gradient);
    }
    wv_arena_release(s->arena, mark);
}

/* What another batch of the state tells. */
static values estimate(rig *r)
{
    wvgd_fit *f = twin(&r->model, &r->o, r->f, r->p->z);
    wvgd_results now;
    size_t rows;
    step(f);
    wvgd_get_results(f, &now);
    const wvgd_trace_row *last = wvgd_trace(f, &rows) + rows - 1;
    values v = {.pelbo = last->pelbo, .pelbo_se = last->pelbo_se, .distortion = last->distortion};
    r->step.limits = &r->undone;
    for (size_t j = 0; j < r->p->N; j++) {
        double mu, root;
        wv_update c = gather(r, j, &mu, &root);
        v.cell[j][LOG_Z] = now.log_Z[j];
        v.cell[j][BETA] = now.beta[j];
        v.cell[j][ELBO] = now.elbo[j];
        v.ess[j] = c.ess;
        target_1d(&r->step, &c, &v.cell[j][GRAD_MU], &v.cell[j][NATURAL_1]);
    }
    wvgd_free(f);
    return v;
}

static values exact(const problem *p)
{
    values v = {.pelbo = 0};
    oracle1d_target target = target_of(p);
    double elbo[MAX_N];
    for (size_t j = 0; j < p->N; j++) {
        oracle1d_interval cell = oracle1d_cell(p->N, p->z, j);
        oracle1d_component c = oracle1d_component_in(&target, cell, p->mu[j], p->root[j]);
        const double of_cell[PER_CELL] = {c.log_Z,       oracle1d_posterior_in(&target, cell).beta,
                                          c.elbo,        c.grad_mu,
                                          c.grad_log_sd, c.a1,
                                          c.a2};
        memcpy(v.cell[j], of_cell, sizeof of_cell);
        elbo[j] = c.elbo;
    }
    v.pelbo = oracle1d_pelbo(p->N, elbo, p->w);
    v.distortion = oracle1d_distortion(&target, p->N, p->z);
    return v;
}

/* ---- many batches ------------------------------------------------------------------------------------------------ */
typedef struct {
    size_t n;
    double mean, squares; /* squares: sum of squared deviations */
} tally;

static void add(tally *t, double x)
{
    double d = x - t->mean;
    t->n++;
    t->mean += d / (double)t->n;
    t->squares += d * (x - t->mean);
}

static double se(const tally *t)
{
    return sqrt(t->squares / (double)(t->n - 1) / (double)t->n);
}

typedef struct {
    tally cell[MAX_N][PER_CELL], pelbo, pelbo_variance, distortion, ess[MAX_N];
} tallies;

static void average(rig *r, size_t batches, tallies *t)
{
    memset(t, 0, sizeof *t);
    for (size_t b = 0; b < batches; b++) {
        values v = estimate(r);
        for (size_t j = 0; j < r->p->N; j++) {
            for (int q = 0; q < PER_CELL; q++)
                add(&t->cell[j][q], v.cell[j][q]);
            add(&t->ess[j], v.ess[j]);
        }
        add(&t->pelbo, v.pelbo);
        add(&t->pelbo_variance, v.pelbo_se * v.pelbo_se);
        add(&t->distortion, v.distortion);
    }
}

/* Standard errors between estimate and truth, after allowing for a known bias. */
static double score(const tally *t, double truth, double bias)
{
    double off = fabs(t->mean - truth);
    return off <= bias ? 0 : off > bias ? (off - bias) / se(t) : INFINITY;
}

/* ---- against quadrature ------------------------------------------------------------------------------------------ */
static wvgd_options options_for(wvgd_estimator estimator, wvgd_sampler sampler)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.estimator = estimator;
    o.sampler = sampler;
    o.draws = DRAWS;
    return o;
}

/* Most standard errors by which anything in a problem is off. The regression on p = 2 statistics shrinks a step by
 * ESS/(ESS + p) and has a ridge of p/ESS, which the correlation of z and z^2 on a cell amplifies: together less than
 * 10 p/ESS of the change, in which the two coefficients mix. 1e-9: rounding. */
static double compare(const problem *p, const tallies *t)
{
    values e = exact(p);
    oracle1d_target target = target_of(p);
    double worst = fmax(score(&t->pelbo, e.pelbo, 1e-9), score(&t->distortion, e.distortion, 1e-9));
    for (size_t j = 0; j < p->N; j++) {
        oracle1d_component c = oracle1d_component_in(&target, oracle1d_cell(p->N, p->z, j), p->mu[j], p->root[j]);
        double s2 = p->root[j] * p->root[j], d1 = fabs(c.a1 - p->mu[j] / s2), d2 = fabs(c.a2 + 0.5 / s2),
               reach = 2 * (fabs(c.mean) + sqrt(c.var));
        double share = 20 / t->ess[j].mean;
        const double bias[PER_CELL] = {
            [NATURAL_1] = share * (d1 + reach * d2), [NATURAL_2] = share * (d2 + d1 / reach)};
        for (int q = 0; q < PER_CELL; q++) {
            double off = score(&t->cell[j][q], e.cell[j][q], 1e-9 + bias[q]);
            if (!(off <= 4))
                print_error("cell %zu of %zu, %s: %.6f +- %.6f, exact %.6f\n", j + 1, p->N, NAME[q], t->cell[j][q].mean,
                            se(&t->cell[j][q]), e.cell[j][q]);
            worst = off <= worst ? worst : off;
        }
    }
    return worst;
}

/* Twenty random problems, N = 1..5, with both samplers and both exact estimators. Some 500
 * comparisons: the chance that 4 standard errors, estimated from 50 batches, fail one of them by
 * accident is about one in ten for a new set of seeds. */
static void agree_with_quadrature(void **state)
{
    (void)state;
    static const wvgd_estimator estimators[] = {WVGD_NATURAL, WVGD_SCORE};
    static const wvgd_sampler samplers[] = {WVGD_MIXTURE, WVGD_REJECT};
    for (size_t i = 0; i < 4; i++) {
        double worst = 0;
        for (size_t N = 1; N <= MAX_N; N++) {
            problem p = random_problem(N, 10 * i + N);
            tallies t;
            rig r = open_rig(&p, options_for(estimators[i / 2], samplers[i % 2]));
            average(&r, BATCHES, &t);
            worst = fmax(worst, compare(&p, &t));
            close_rig(&r);
        }
        print_message("estimator %s, sampler %s: at most %.2f standard errors off\n", i / 2 ? "score" : "natural",
                      i % 2 ? "reject" : "mixture", worst);
        assert_true(worst <= 4);
    }
}

/* The standard error that comes with the bound of a batch, against the spread of bounds over batches. Draws come in
 * antithetic pairs, which the standard error ignores: it may be too large, by up to two, but not too small. 50
 * batches tell a standard deviation to 10 %: three times that. */
static void bound_has_its_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        double largest = 0;
        for (size_t N = 1; N <= MAX_N; N++) {
            problem p = random_problem(N, 100 + N);
            tallies t;
            rig r = open_rig(&p, options_for(WVGD_NATURAL, i ? WVGD_REJECT : WVGD_MIXTURE));
            average(&r, BATCHES, &t);
            double ratio = sqrt(t.pelbo.squares / (double)(t.pelbo.n - 1) / t.pelbo_variance.mean);
            largest = fmax(largest, ratio);
            assert_true(ratio > 0.5 / 1.3);
            close_rig(&r);
        }
        print_message("sampler %s: spread of the bound over batches at most %.2f times its standard error\n",
                      i ? "reject" : "mixture", largest);
        assert_true(largest < 1.3);
    }
}

/* ---- the paper's estimator --------------------------------------------------------------------------------------- */
/* Cell (-inf, 0.3), q = N(0, 1), target N(1, 1): without its boundary term the gradient converges to
 * (1, E_q1[z]) = (1.000, -0.617), not to (0.434, -0.787). */
static void reparam_is_biased(void **state)
{
    (void)state;
    const problem p = {.N = 2,
                       .K = 1,
                       .weight = {1},
                       .mean = {1},
                       .sd = {1},
                       .z = {-0.7, 1.3},
                       .mu = {0, 1},
                       .root = {1, 1},
                       .w = {0.5, 0.5}};
    values e = exact(&p);
    assert_near(e.cell[0][GRAD_MU], 0.434, 5e-4);
    assert_near(e.cell[0][GRAD_LOG_SD], -0.787, 5e-4);
    for (size_t i = 0; i < 2; i++) {
        tallies t;
        const tally *mu = &t.cell[0][GRAD_MU], *log_sd = &t.cell[0][GRAD_LOG_SD];
        wvgd_sampler sampler = i ? WVGD_REJECT : WVGD_MIXTURE;
        rig r = open_rig(&p, options_for(WVGD_REPARAM, sampler));
        average(&r, 4 * BATCHES, &t);
        close_rig(&r);
        print_message("cell (-inf, 0.3): exact gradient (%.4f, %.4f), reparam (%.4f, %.4f +- %.4f)", e.cell[0][GRAD_MU],
                      e.cell[0][GRAD_LOG_SD], mu->mean, log_sd->mean, se(log_sd));
        assert_near(mu->mean, 1.0, 4 * se(mu) + 1e-9);
        assert_near(log_sd->mean, -0.61669, 4 * se(log_sd) + 1e-5);
        r = open_rig(&p, options_for(WVGD_NATURAL, sampler));
        average(&r, 4 * BATCHES, &t);
        close_rig(&r);
        print_message(", natural (%.4f +- %.4f, %.4f +- %.4f)\n", mu->mean, se(mu), log_sd->mean, se(log_sd));
        assert_near(mu->mean, e.cell[0][GRAD_MU], 4 * se(mu));
        assert_near(log_sd->mean, e.cell[0][GRAD_LOG_SD], 4 * se(log_sd));
    }
}

/* One particle has no boundary: there the paper's estimator is exact. */
static void reparam_of_one_is_not(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        problem p = random_problem(1, 200 + seed);
        values e = exact(&p);
        tallies t;
        rig r = open_rig(&p, options_for(WVGD_REPARAM, WVGD_MIXTURE));
        average(&r, BATCHES, &t);
        for (int q = GRAD_MU; q <= GRAD_LOG_SD; q++)
            assert_near(t.cell[0][q].mean, e.cell[0][q], 4 * se(&t.cell[0][q]));
        close_rig(&r);
    }
}

/* ---- soft cells -------------------------------------------------------------------------------------------------- */
/* Two overlapping Gaussians in the plane. */
enum { PLANE = 2 };
static const double SOFT_WEIGHT[2] = {0.35, 0.65}, SOFT_MEAN[2 * PLANE] = {-1.0, 0.2, 0.8, -0.5},
                    SOFT_COV[2 * PLANE * PLANE] = {0.8, 0.3, 0.3, 0.5, 0.6, -0.2, -0.2, 1.1};

static wvgd_options soft_options(wvgd_estimator estimator)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = 2;
    o.cost = WVGD_SQEUCLID;
    o.cells = WVGD_SOFT;
    o.estimator = estimator;
    return o;
}

/* Particles, means and roots of the components, as they stand in a state. */
typedef struct {
    double z[2 * PLANE], mu[2 * PLANE], root[2 * PLANE * PLANE];
} planes;

static planes planes_of(const wvgd_fit *f)
{
    planes s;
    wvgd_results r;
    wvgd_get_results(f, &r);
    memcpy(s.z, r.z, sizeof s.z);
    memcpy(s.mu, r.mu, sizeof s.mu);
    memcpy(s.root, r.chol, sizeof s.root);
    return s;
}

/* The fit in its second iteration (in the first, weights come from the batch) with these, and the true weights. */
static void put_planes(wvgd_fit *f, const planes *to)
{
    planes from = planes_of(f);
    wvgd_results r;
    put(f, 2 * PLANE, from.z, to->z);
    put(f, 2 * PLANE, from.mu, to->mu);
    put(f, 2 * PLANE * PLANE, from.root, to->root);
    wvgd_get_results(f, &r);
    put(f, 2, r.weight, SOFT_WEIGHT);
}

static double component_error(const wvgd_fit *f)
{
    double worst = 0, own[PLANE * PLANE];
    wvgd_error error;
    planes now = planes_of(f);
    for (size_t j = 0; j < 2; j++) {
        assert_int_equal(wvgd_component_cov(f, j, own, &error), WVGD_OK);
        for (size_t i = 0; i < PLANE; i++)
            worst = fmax(worst, fabs(now.mu[j * PLANE + i] - SOFT_MEAN[j * PLANE + i]));
        for (size_t i = 0; i < PLANE * PLANE; i++)
            worst = fmax(worst, fabs(own[i] - SOFT_COV[j * PLANE * PLANE + i]));
    }
    return worst;
}

/* One step from here, in the second iteration of a fit with another seed; returns the error after it. */
static double soft_step(const wvgd_model *model, wvgd_options *o, const wvgd_fit *second, planes *at, double *before)
{
    wvgd_fit *f = twin(model, o, second, SOFT_MEAN);
    put_planes(f, at);
    *before = component_error(f);
    step(f);
    double after = component_error(f);
    *at = planes_of(f);
    wvgd_free(f);
    return after;
}

/* Components and weights at the truth of a mixture: log p~ + log r_j = log w_j q_j at every point, so a step from
 * any batch stays there, but for rounding. */
static void soft_cells_stay_at_truth(void **state)
{
    (void)state;
    static const wvgd_estimator estimators[] = {WVGD_NATURAL, WVGD_SCORE};
    wvgd_model model;
    planes truth;
    memcpy(truth.z, SOFT_MEAN, sizeof truth.z);
    memcpy(truth.mu, SOFT_MEAN, sizeof truth.mu);
    for (size_t j = 0; j < 2; j++) {
        const double *c = SOFT_COV + j * PLANE * PLANE;
        double *root = truth.root + j * PLANE * PLANE;
        root[0] = sqrt(c[0]);
        root[1] = 0;
        root[2] = c[2] / root[0];
        root[3] = sqrt(c[3] - root[2] * root[2]);
    }
    assert_int_equal(target_mixture(&model, PLANE, 2, SOFT_WEIGHT, SOFT_MEAN, SOFT_COV), 0);
    for (size_t e = 0; e < 2; e++) {
        wvgd_options o = soft_options(estimators[e]);
        wvgd_fit *second = open(&model, &o, SOFT_MEAN);
        planes at = truth;
        step(second);
        for (size_t batch = 0; batch < 5; batch++) {
            double before;
            memcpy(at.z, SOFT_MEAN, sizeof at.z);
            assert_true(soft_step(&model, &o, second, &at, &before) < 1e-9);
            assert_true(before < (batch ? 1e-9 : 1e-14));
        }
        wvgd_free(second);
    }
    model.close(model.self);
}

/* From elsewhere, steps with the true weights lead to the truth, by a constant factor each (0.89 here: the
 * components overlap), for the noise of a step vanishes with the error. */
static void soft_cells_go_to_truth(void **state)
{
    (void)state;
    const planes start = {{-2.0, 1.0, 2.0, -1.0}, {-2.0, 1.0, 2.0, -1.0}, {1, 0, 0, 1, 1, 0, 0, 1}};
    planes at = start;
    wvgd_model model;
    assert_int_equal(target_mixture(&model, PLANE, 2, SOFT_WEIGHT, SOFT_MEAN, SOFT_COV), 0);
    wvgd_options o = soft_options(WVGD_NATURAL);
    wvgd_fit *second = open(&model, &o, SOFT_MEAN);
    step(second);
    double first, before, after = soft_step(&model, &o, second, &at, &first);
    for (size_t batch = 1; batch < 150; batch++)
        after = soft_step(&model, &o, second, &at, &before);
    print_message("soft cells: error of the components from %.3g to %.3g in 150 steps\n", first, after);
    assert_true(first > 0.5);
    assert_true(after < 1e-7);
    wvgd_free(second);
    model.close(model.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agree_with_quadrature),    cmocka_unit_test(bound_has_its_error),
        cmocka_unit_test(reparam_is_biased),        cmocka_unit_test(reparam_of_one_is_not),
        cmocka_unit_test(soft_cells_stay_at_truth), cmocka_unit_test(soft_cells_go_to_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
