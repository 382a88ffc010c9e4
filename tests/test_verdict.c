/* test_verdict.c - the verdict: in favour of what is right, against what is not or cannot be known,
 * always in sentences that say what to do. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "support/edited_state.h"
#include "support/fitted.h"
#include "support/near.h"
#include "support/targets.h"
#include "evidence.h"
#include "verdict.h"
#include "staged/explore.h"
#include "wvgd.h"

static bool says(const wvgd_results *r, const char *words)
{
    for (size_t i = 0; i < r->reasons; i++)
        if (strstr(r->reason[i], words))
            return true;
    return false;
}

/* Sentences for a user: words, whole, and, when they are against the result, with a remedy after a
 * colon or as a question. */
static void assert_sentences(const wvgd_results *r)
{
    assert_true(r->reasons >= 1 && r->reasons <= 12);
    for (size_t i = 0; i < r->reasons; i++) {
        const char *text = r->reason[i];
        size_t length = strlen(text), spaces = 0;
        for (const char *c = text; *c; c++) {
            spaces += *c == ' ';
            assert_true(isprint((unsigned char)*c));
        }
        if (length < 30 || length > 235 || spaces < 5)
            fail_msg("no sentence, or one cut short: %s", text);
        if (!r->reliable && !strchr(text, ':'))
            fail_msg("no remedy: %s", text);
        if (strstr(text, " nan") || strstr(text, "-nan") || strstr(text, "(null)"))
            fail_msg("a number is missing: %s", text);
    }
}

/* A fit that has been run to its end, whose verdict is in sentences. */
static wvgd_fit *judged(const wvgd_model *model, const wvgd_options *o, wvgd_results *r)
{
    wvgd_fit *fit = fitted(model, o, r);
    assert_sentences(r);
    return fit;
}

/* ---- in favour --------------------------------------------------------------------------------------------------- */
/* A Gaussian, and separated modes of one size, with either solver: reliable, and what has been looked at is told.
 * The number of modes expected unseen: of W equal ones, n wide starts miss W (n - 1)/(n - W - 2) - W. */
static void easy_ones(void **state)
{
    (void)state;
    enum { D = 3, K = 3 };
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++)
        for (int modes = 1; modes <= K; modes += K - 1) {
            double weight[K], mean[K * D], cov[K * D * D];
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = solver_options(solver, (size_t)modes, 1);
            target_separated(D, (size_t)modes, 10, 8, 2, weight, mean, cov);
            assert_int_equal(target_mixture(&model, D, (size_t)modes, weight, mean, cov), 0);
            wvgd_fit *fit = judged(&model, &o, &r);
            if (!r.reliable)
                fail_msg("solver %d, %d modes: %s", (int)solver, modes, r.reason[0]);
            assert_true(says(&r, "converged") && says(&r, "standard error") && says(&r, modes > 1 ? "modes" : "mode"));
            assert_int_equal(r.modes, modes);
            double W = (double)r.modes, n = (double)wv_explore_of(fit)->wide;
            assert_near(r.expected_unseen, W * (n - 1) / (n - W - 2) - W, 1e-9);
            assert_near(r.evidence.value, 0, 5 * r.evidence.se);
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

/* Half of the mass in a spike inside of a slab, to which no gradient leads: nothing tells of it, and the fit is called
 * reliable. What a search by gradients cannot know the verdict has to say itself. */
static void what_cannot_be_known(void **state)
{
    (void)state;
    enum { D = 5, K = 2 };
    double weight[K] = {0.5, 0.5}, mean[K * D] = {0}, cov[K * D * D] = {0};
    wvgd_model model;
    for (size_t i = 0; i < D; i++) {
        mean[D + i] = 1;
        cov[i * D + i] = 1;
        cov[(D + i) * D + i] = 1e-6;
    }
    assert_int_equal(target_mixture(&model, D, K, weight, mean, cov), 0);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        wvgd_results r;
        wvgd_options o = solver_options(WVGD_STAGED, 5, seed);
        wvgd_fit *fit = judged(&model, &o, &r);
        assert_near(r.evidence.value, log(0.5), 0.01);
        assert_true(r.reliable);
        assert_true(says(&r, "cannot find modes that are very narrow or that no gradient leads to"));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* ---- against ----------------------------------------------------------------------------------------------------- */
/* Neal's funnel in ten dimensions, and products of Cauchy densities: not reliable, or right: to 0.05 and 5 standard
 * errors, as tails that no draw has reached are allowed for by neither. */
static void hard_ones(void **state)
{
    (void)state;
    size_t doubted = 0;
    for (int which = 0; which < 3; which++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = solver_options(WVGD_STAGED, 2, 1);
        assert_int_equal(which ? target_cauchy(&model, 1 + 2 * (size_t)which) : target_funnel(&model, 10, 3), 0);
        wvgd_fit *fit = judged(&model, &o, &r);
        print_message("%s in %zu dimensions: log evidence %.3f +- %.3f, true 0, %s, k-hat %.2f, %zu evaluations\n",
                      model.name, r.D, r.evidence.value, r.evidence.se, r.reliable ? "reliable" : "doubted", r.pareto_k,
                      r.evaluations);
        if (r.reliable && !(fabs(r.evidence.value) < 0.05 + 5 * r.evidence.se))
            fail_msg("%s: log evidence %g +- %g, true 0, said to be reliable", model.name, r.evidence.value,
                     r.evidence.se);
        doubted += !r.reliable;
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("%zu of 3 doubted\n", doubted);
}

/* A Gaussian in three dimensions, lifted by a constant. */
static double lifted(void *self, const double *z, double *grad)
{
    double log_p = *(const double *)self;
    for (size_t i = 0; i < 3; i++) {
        log_p -= 0.5 * z[i] * z[i];
        if (grad)
            grad[i] = -z[i];
    }
    return log_p;
}

static void rounded_away(void **state)
{
    (void)state;
    static double lifts[] = {1e16, -1e16, 1e18, 1e300, 1e6};
    for (size_t k = 0; k < 5; k++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = solver_options(WVGD_STAGED, 2, 1);
        wvgd_error error = {WVGD_OK, ""};
        assert_int_equal(wvgd_model_pointwise(&model, 3, lifted, &lifts[k], true), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        wvgd_status status = wvgd_run(fit, NULL, NULL, &error);
        wvgd_get_results(fit, &r);
        if (k == 4) { /* six digits fewer are no trouble */
            assert_int_equal(status, WVGD_OK);
            assert_true(r.reliable);
            assert_near(r.evidence.value - lifts[k], 1.5 * log(2 * 3.14159265358979), 1e-3);
        } else if (status == WVGD_OK) {
            assert_sentences(&r);
            if (r.reliable || !says(&r, "double resolves"))
                fail_msg("log densities of %g: %s, %s", lifts[k], r.reliable ? "reliable" : "not reliable",
                         r.reason[0]);
        } else
            assert_int_equal(status, WVGD_E_NO_DRAWS);
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

static double level(void *self, const double *z, double *grad)
{
    (void)self;
    (void)z;
    if (grad)
        grad[0] = grad[1] = 0;
    return 1;
}

/* Falls off across z_1 + z_2 = 0, not along it. */
static double ridge(void *self, const double *z, double *grad)
{
    double sum = z[0] + z[1];
    (void)self;
    if (grad)
        grad[0] = grad[1] = -2 * sum;
    return -sum * sum;
}

/* Logistic regression without a prior: negative x have label 0, others label 1. */
static double separated(void *self, const double *z, double *grad)
{
    static const double x[] = {-3, -2, -1, -0.5, 0.5, 1, 2, 3};
    double log_p = 0, to[2] = {0, 0};
    (void)self;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        double sign = x[i] < 0 ? -1 : 1, eta = sign * (z[0] + z[1] * x[i]), miss = sign / (1 + exp(eta));
        log_p -= eta > -30 ? log1p(exp(-eta)) : -eta;
        to[0] += miss;
        to[1] += miss * x[i];
    }
    if (grad)
        memcpy(grad, to, sizeof to);
    return log_p;
}

/* Proper, however wide. */
static double wide(void *self, const double *z, double *grad)
{
    const double variance = 1e20;
    (void)self;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = -z[i] / variance;
    return -(z[0] * z[0] + z[1] * z[1]) / (2 * variance);
}

/* Where the density does not fall off, the verdict names that, and nothing that follows from it. */
static void improper(void **state)
{
    (void)state;
    wvgd_point_density *const densities[] = {level, ridge, separated, wide};
    for (size_t d = 0; d < sizeof densities / sizeof *densities; d++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            wvgd_model model;
            wvgd_results r;
            wvgd_options o = solver_options(WVGD_STAGED, 2, seed);
            assert_int_equal(wvgd_model_pointwise(&model, 2, densities[d], NULL, true), 0);
            wvgd_fit *fit = judged(&model, &o, &r);
            if (densities[d] == wide)
                assert_true(r.reliable);
            else if (r.reliable || r.reasons != 1 || !says(&r, "improper") || !says(&r, "proper prior"))
                fail_msg("density %zu, seed %d: %zu reasons, %s", d, (int)seed, r.reasons, r.reason[0]);
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

/* Without gradients modes cannot be searched for; with the joint solver and starts of its own they are not. */
static void not_searched(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_results r;
    assert_int_equal(target_gaussian_random(&model, 2, 3, 1, true), 0);
    for (int way = 0; way < 2; way++) {
        wvgd_options o = solver_options(way ? WVGD_JOINT : WVGD_STAGED, 1, 1);
        model.has_gradient = way;
        o.estimator = way ? WVGD_NATURAL : WVGD_SCORE;
        o.init = way ? WVGD_INIT_NORMAL : WVGD_INIT_EXPLORE;
        wvgd_fit *fit = judged(&model, &o, &r);
        assert_false(r.reliable);
        assert_true(says(&r, "there was no search for modes"));
        assert_int_equal(r.reasons, 1); /* and nothing else: the fit itself is right */
        assert_near(r.evidence.value, 0, 5 * r.evidence.se);
        assert_true(isnan(r.expected_unseen));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* Four modes and only ten ascents: some is found by one of them only. */
static void found_only_once(void **state)
{
    (void)state;
    enum { D = 2, K = 4 };
    size_t once = 0;
    double weight[K], mean[K * D], cov[K * D * D];
    wvgd_model model;
    target_separated(D, K, 10, 8, 1, weight, mean, cov);
    assert_int_equal(target_mixture(&model, D, K, weight, mean, cov), 0);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        wvgd_results r;
        wvgd_options o = solver_options(WVGD_STAGED, 2, seed);
        o.starts = 9;
        wvgd_fit *fit = judged(&model, &o, &r);
        once += r.hit_once > 0;
        assert_int_equal(says(&r, "so others may have been missed: set --starts"), r.hit_once > 0);
        if (r.hit_once)
            assert_false(r.reliable);
        wvgd_free(fit);
    }
    assert_true(once > 0);
    wvgd_model_close(&model);
}

/* One point in five is not a number. */
static double spotted(void *self, const double *z, double *grad)
{
    (void)self;
    if (grad) {
        grad[0] = -z[0];
        grad[1] = -z[1];
    }
    return fmod(fabs(z[0]) * 1000, 1) < 0.2 ? NAN : -0.5 * (z[0] * z[0] + z[1] * z[1]);
}

static void bad_points(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(wvgd_model_pointwise(&model, 2, spotted, NULL, true), 0);
    for (wvgd_solver solver = WVGD_STAGED; solver <= WVGD_JOINT; solver++) {
        wvgd_results r;
        wvgd_options o = solver_options(solver, 1, 1);
        wvgd_fit *fit = judged(&model, &o, &r);
        assert_false(r.reliable);
        assert_true(says(&r, "NaN or infinite density"));
        for (size_t i = 0; i < r.warnings; i++) /* once is enough */
            assert_null(strstr(r.warning[i], "NaN or infinite density"));
        wvgd_free(fit);
    }
    wvgd_model_close(&model);
}

/* A k-hat of a cell that is too high is said, unless it may well be chance: by less than its standard error,
 * with few draws, or with next to no mass. */
static void uncovered_cells(void **state)
{
    (void)state;
    static const struct {
        double k, ess, beta;
        bool said;
    } cases[] = {{0.9, 500, 0.5, true},    {0.8, 60, 0.5, false},   {1.2, 60, 0.5, true}, {3, 40, 0.5, false},
                 {0.9, 500, 0.005, false}, {0.5, 5000, 0.5, false}, {NAN, 20, 0.5, false}};
    enum { DRAWS = 2000 }; /* limit 0.697 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool said = wv_verdict_cell_uncovered(cases[i].k, cases[i].ess, cases[i].beta, DRAWS);
        if (said != cases[i].said)
            fail_msg("k-hat %g of %g draws, mass %g: %s", cases[i].k, cases[i].ess, cases[i].beta,
                     said ? "said" : "not said");
    }
}

/* Weights that differ from the masses count beyond two errors of each. */
static void weights_and_masses(void **state)
{
    (void)state;
    static const struct {
        double weight, elbo_se, beta_se, apart;
    } cases[] = {{0.5, 0.001, 0.001, 0},    {0.52, 1e-9, 1e-9, 0.04},      {0.55, 0.001, 0.001, 0.0958},
                 {0.55, 0.4, 0.001, 0},     {0.55, 1e-9, 0.01, 0.06},      {1, 0.1, 0, 1},
                 {0.55, NAN, 0.001, 0.096}, {0.55, INFINITY, 0.001, 0.096}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double weight[] = {1 - cases[i].weight, cases[i].weight}, se[] = {cases[i].elbo_se, cases[i].elbo_se},
               beta[] = {0.5, 0.5}, beta_se[] = {cases[i].beta_se, cases[i].beta_se};
        assert_near(wv_verdict_weights_apart(2, weight, se, beta, beta_se), cases[i].apart, 2e-3);
    }
}

/* A component is a bad fit if it could gain 0.1 nats beyond two errors in a cell of weight; NAN counts as unseen. */
static void gains_of_components(void **state)
{
    (void)state;
    static const struct {
        double gain, gain_se, beta, unknown;
        bool bad;
    } cases[] = {{0, 0, 0.5, 0, false},        {0.3, 0.05, 0.5, 0, true},   {0.3, 0.15, 0.5, 0, false},
                 {0.3, 0.01, 0.005, 0, false}, {NAN, NAN, 0.5, 0.5, false}, {NAN, NAN, 0.005, 0, false},
                 {0.05, 0.001, 0.9, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double gain[] = {0.01, cases[i].gain}, se[] = {0.001, cases[i].gain_se}, beta[] = {0.5, cases[i].beta};
        wv_verdict_gains g = wv_verdict_look_at_gains(2, gain, se, beta);
        assert_int_equal(g.worst, cases[i].bad ? 1 : 2);
        assert_near(g.unknown, cases[i].unknown, 1e-12);
    }
}

/* The ensemble is part of what is judged, and what is said of it is a sentence with a remedy. */
static void ensembles(void **state)
{
    (void)state;
    enum { N = 2 };
    const double weight = 1, mean[2] = {0.3, 0.2}, cov[4] = {1, 0, 0, 1}, other[N] = {0.9, 0.1};
    double before[N];
    wvgd_model model;
    wvgd_results r;
    wvgd_options o = solver_options(WVGD_STAGED, N, 1);
    assert_int_equal(target_mixture(&model, 2, 1, &weight, mean, cov), 0);
    wvgd_fit *fit = judged(&model, &o, &r);
    assert_true(r.reliable);
    memcpy(before, r.weight, sizeof before);
    assert_true(edited_state_replace(fit, N, before, other) > 0);
    wvgd_get_results(fit, &r);
    assert_near(r.weight[0], 0.9, 1e-12);
    assert_sentences(&r);
    assert_false(r.reliable);
    assert_true(says(&r, "masses of its cells differ by"));
    for (size_t j = 0; j < N; j++)
        assert_near(r.loss[j], r.evidence.value + log(r.beta[j]) - r.elbo[j], 1e-12);
    wvgd_free(fit);
    wvgd_model_close(&model);
}

/* An evidence below a bound gets the error that makes both agree. */
static void bounds_above_the_evidence(void **state)
{
    (void)state;
    const wvgd_estimate evidence = {-1, 0.01}, none = {-INFINITY, INFINITY};
    for (double above = -0.1; above < 1; above += 0.05) {
        const wvgd_estimate bound = {-1 + above, 0.02};
        for (int which = 0; which < 2; which++) {
            wvgd_estimate e = wv_evidence_reconcile(evidence, which ? none : bound, which ? bound : none, 3);
            bool said = wv_evidence_contradicted(e, which ? none : bound, which ? bound : none, 3);
            assert_near(e.value, -1, 0);
            assert_true(above <= 3.0001 * hypot(e.se, 0.02));
            assert_int_equal(said, above > 3 * hypot(0.01, 0.02));
            if (!said)
                assert_near(e.se, 0.01, 0);
        }
    }
}

/* Student-t's with four degrees of freedom along both axes: the result is right, and where one component leaves
 * tails uncovered the mixture grows, so that most runs are said to be covered (without: half of them). */
static double tails_along_axes(void *self, const double *z, double *grad)
{
    (void)self;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = -5 * z[i] / (4 + z[i] * z[i]);
    return -2.5 * (log1p(z[0] * z[0] / 4) + log1p(z[1] * z[1] / 4)) + 2 * log(0.375);
}

static void tails_that_can_be_covered(void **state)
{
    (void)state;
    size_t covered = 0, right = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_options o = solver_options(WVGD_STAGED, 5, seed);
        assert_int_equal(wvgd_model_pointwise(&model, 2, tails_along_axes, NULL, true), 0);
        wvgd_fit *fit = judged(&model, &o, &r);
        covered += !says(&r, "k-hat") && (r.reliable || !says(&r, "standard error of the log evidence"));
        right += fabs(r.evidence.value) < 0.05;
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
    print_message("tails along axes: %zu of 40 right, %zu said to be covered\n", right, covered);
    assert_true(right >= 39 && covered >= 28);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* z1 of N(0, 2^2), z2 of N(sin z1, 0.5^2), in double or in single precision; the derivative by z1 times a factor. */
typedef struct {
    double factor;
    bool single;
} wave;

static double wavy(void *self, const double *z, double *grad)
{
    const wave *w = self;
    double r = (z[1] - sin(z[0])) / 0.5, log_p = -z[0] * z[0] / 8 - r * r / 2 - 100;
    if (grad) {
        grad[0] = w->factor * (-z[0] / 4 + r * cos(z[0]) / 0.5);
        grad[1] = -r / 0.5;
    }
    return w->single ? (double)(float)log_p : log_p;
}

/* Kinks everywhere: |z1| + |z2|. */
static double kinked(void *self, const double *z, double *grad)
{
    (void)self;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = z[i] > 0 ? -1 : 1;
    return -fabs(z[0]) - fabs(z[1]);
}

static void wrong_gradients(void **state)
{
    (void)state;
    static const struct {
        wvgd_point_density *density;
        wave w;
        bool wrong;
    } cases[] = {{wavy, {1, false}, false}, {wavy, {1, true}, false}, {kinked, {1, false}, false},
                 {wavy, {-1, false}, true}, {wavy, {2, false}, true}, {wavy, {0.8, true}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            wvgd_model model;
            wvgd_results r;
            wave w = cases[i].w;
            wvgd_options o = staged_options(5, seed);
            assert_int_equal(wvgd_model_pointwise(&model, 2, cases[i].density, &w, true), 0);
            wvgd_fit *fit = judged(&model, &o, &r);
            assert_int_equal(says(&r, "the gradient is wrong"), cases[i].wrong);
            assert_false(cases[i].wrong && r.reliable);
            if (cases[i].wrong) /* and nothing that follows from it */
                assert_int_equal(r.reasons, 1);
            wvgd_free(fit);
            wvgd_model_close(&model);
        }
}

/* The negative of a log density. */
static double energy(void *self, const double *z, double *grad)
{
    (void)self;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = z[i];
    return (z[0] * z[0] + z[1] * z[1]) / 2;
}

static double nowhere(void *self, const double *z, double *grad)
{
    (void)self;
    (void)z;
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] = 0;
    return -INFINITY;
}

static double downhill(void *self, const double *z, double *grad)
{
    double log_p = kinked(self, z, grad);
    for (size_t i = 0; grad && i < 2; i++)
        grad[i] *= -1;
    return log_p;
}

/* Of mistakes that all end without a mode, or far away, each has a message of its own. */
static void mistakes_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        wvgd_point_density *density;
        const char *text;
    } cases[] = {{energy, "sign of the log density"},
                 {nowhere, "was -INFINITY at all"},
                 {downhill, "check the gradient"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wvgd_model model;
        wvgd_results r;
        wvgd_error error = {.text = ""};
        wvgd_options o = staged_options(5, 1);
        assert_int_equal(wvgd_model_pointwise(&model, 2, cases[i].density, NULL, true), 0);
        wvgd_fit *fit = wvgd_new(&model, &o, NULL, NULL);
        wvgd_status status = wvgd_run(fit, NULL, NULL, &error);
        wvgd_get_results(fit, &r);
        print_message("%s\n", status == WVGD_OK ? r.reason[0] : error.text);
        assert_non_null(strstr(status == WVGD_OK ? r.reason[0] : error.text, cases[i].text));
        assert_true(status != WVGD_OK || (r.reasons == 1 && !r.reliable));
        wvgd_free(fit);
        wvgd_model_close(&model);
    }
}

/* One cell for two modes: fewer particles are no remedy. */
static void remedies_that_can_be_followed(void **state)
{
    (void)state;
    const double weight[] = {0.5, 0.5}, mean[] = {-20, 0, 20, 0}, cov[] = {1, 0, 0, 1, 1, 0, 0, 1};
    wvgd_model model;
    wvgd_results r;
    wvgd_options o = staged_options(1, 1);
    assert_int_equal(target_mixture(&model, 2, 2, weight, mean, cov), 0);
    wvgd_fit *fit = judged(&model, &o, &r);
    for (size_t i = 0; i < r.reasons; i++)
        assert_null(strstr(r.reason[i], "fewer --particles"));
    wvgd_free(fit);
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(easy_ones),
        cmocka_unit_test(what_cannot_be_known),
        cmocka_unit_test(hard_ones),
        cmocka_unit_test(rounded_away),
        cmocka_unit_test(improper),
        cmocka_unit_test(mistakes_are_told_apart),
        cmocka_unit_test(remedies_that_can_be_followed),
        cmocka_unit_test(not_searched),
        cmocka_unit_test(found_only_once),
        cmocka_unit_test(bad_points),
        cmocka_unit_test(uncovered_cells),
        cmocka_unit_test(weights_and_masses),
        cmocka_unit_test(gains_of_components),
        cmocka_unit_test(ensembles),
        cmocka_unit_test(bounds_above_the_evidence),
        cmocka_unit_test(tails_that_can_be_covered),
        cmocka_unit_test(wrong_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
