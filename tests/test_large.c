/* test_large.c - components without D x D matrices, in so many dimensions that the joint solver is used whatever was
 * asked for: Gaussian posteriors whose optimum is known, with fewer draws in an iteration than dimensions. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "wvgd.h"

/* y = (z - mean)/sd of precision I - sum_k c v_k v_k', v_k the unit vector of equal entries on every RANK-th
 * coordinate from the k-th on; or AR(1). Not normalised. */
enum { RANK = 3 };
typedef struct {
    size_t D;
    double c;     /* variance 1/(1 - c) along each v_k */
    double chain; /* correlation of neighbours, or 0 */
} posterior;

static double mean_of(size_t d)
{
    return 3 * sin((double)d);
}
static double sd_of(const posterior *p, size_t d)
{
    return pow(10, 1 - 2 * (double)((d * 7919) % p->D) / (double)p->D);
}
static double entry(const posterior *p, size_t k)
{
    return 1 / sqrt((double)((p->D - k + RANK - 1) / RANK));
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const posterior *p = self;
    size_t D = p->D;
    double *y = malloc(4 * D * sizeof *y), *g = y + D, *mean = y + 2 * D, *sd = y + 3 * D, v[RANK];
    for (size_t k = 0; k < RANK; k++)
        v[k] = entry(p, k);
    for (size_t d = 0; d < D; d++) {
        mean[d] = mean_of(d);
        sd[d] = sd_of(p, d);
    }
    for (size_t i = 0; i < n; i++) {
        double along[RANK] = {0};
        log_p[i] = 0;
        for (size_t d = 0; d < D; d++) {
            y[d] = (z[i * D + d] - mean[d]) / sd[d];
            along[d % RANK] += v[d % RANK] * y[d];
        }
        for (size_t d = 0; d < D; d++) {
            g[d] = y[d] - p->c * along[d % RANK] * v[d % RANK];
            if (p->chain > 0) {
                double r = p->chain, left = d ? y[d - 1] : 0, right = d + 1 < D ? y[d + 1] : 0;
                g[d] = (y[d] * (d && d + 1 < D ? 1 + r * r : 1) - r * (left + right)) / (1 - r * r);
            }
            log_p[i] -= y[d] * g[d] / 2;
            if (grad)
                grad[i * D + d] = -g[d] / sd[d];
        }
    }
    free(y);
    return 0;
}

static wvgd_fit *fit(const posterior *p, wvgd_family family, size_t N, wvgd_results *r)
{
    wvgd_model model = {.name = "normal",
                        .dim = p->D,
                        .log_density = log_density,
                        .self = (void *)(uintptr_t)p,
                        .has_gradient = true,
                        .thread_safe = true};
    wvgd_options o;
    wvgd_error error;
    wvgd_options_init(&o);
    o.family = family;
    o.particles = N;
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    if (!f)
        fail_msg("%s", error.text);
    assert_int_equal(wvgd_run(f, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(f, r);
    assert_int_equal(r->solver, WVGD_JOINT); /* though staged was asked for */
    assert_int_equal(r->stop, WVGD_CONVERGED);
    return f;
}

/* The component is the posterior: means and sds to a thousandth of a sd, the bound to a thousandth of a nat. Moments
 * have the noise of some 5000 closing draws: 5 standard errors of the largest of D. */
static void check_exact(const posterior *p, wvgd_family family, size_t N, double tolerance)
{
    wvgd_results r;
    wvgd_fit *f = fit(p, family, N, &r);
    double log_Z = 0.5 * (double)p->D * log(2 * 3.14159265358979323846) - RANK * 0.5 * log(1 - p->c),
           noise = 5 / sqrt(r.ess);
    for (size_t d = 0; d < p->D; d++)
        log_Z += log(sd_of(p, d));
    for (size_t d = 0; d < p->D; d++) {
        double v = entry(p, d % RANK), sd = sd_of(p, d) * sqrt(1 + p->c / (1 - p->c) * v * v);
        for (size_t j = 0; j < N; j++) {
            assert_near(r.mu[j * p->D + d], mean_of(d), tolerance * sd);
            assert_near(log(r.sd[j * p->D + d] / sd), 0, tolerance);
        }
        assert_near(r.mean[d], mean_of(d), noise * sd);
        assert_near(log(sqrt(r.var[d]) / sd), 0, noise);
    }
    assert_near(r.pelbo.value, log_Z, 0.5 * tolerance + 4 * r.pelbo.se);
    assert_near(r.evidence.value, log_Z, 4 * r.evidence.se);
    wvgd_free(f);
}

static void gaussians_of_the_family(void **state)
{
    (void)state;
    check_exact(&(posterior){1000, 0, 0}, WVGD_DIAG, 1, 1e-3);
    check_exact(&(posterior){1000, 0, 0}, WVGD_LOWRANK, 1, 1e-3);
    check_exact(&(posterior){1000, 0.9, 0}, WVGD_LOWRANK, 1, 1e-3);
    check_exact(&(posterior){400, 0.95, 0}, WVGD_LOWRANK, 1, 1e-3);
}

/* Cells are cut by noise here, and components near their optimum to what the tolerance allows: 0.005 nats for
 * every 128 dimensions, over D means and sds. */
static void several_particles(void **state)
{
    (void)state;
    check_exact(&(posterior){200, 0, 0}, WVGD_DIAG, 3, 0.05);
    check_exact(&(posterior){200, 0.9, 0}, WVGD_LOWRANK, 3, 0.05);
}

/* A diagonal Gaussian cannot be like a chain of correlated coordinates: it loses D log(1 + r^2)/2 nats, 22 here, and
 * the weights of its draws are worth nothing. Its optimum is known, the posterior's mean and the conditional sds;
 * means and sds are reported from it, and it is said why. */
static void what_weights_cannot_correct(void **state)
{
    (void)state;
    posterior p = {200, 0, 0.5};
    wvgd_results r;
    wvgd_fit *f = fit(&p, WVGD_DIAG, 1, &r);
    bool said = false;
    assert_false(r.reliable);
    assert_true(r.ess < 30);
    for (size_t i = 0; i < r.reasons; i++)
        said = said || strstr(r.reason[i], "come from the fitted components");
    assert_true(said);
    size_t n;
    const double *log_w;
    double squares = 0;
    assert_int_equal(wvgd_draws(f, &n, NULL, NULL, &log_w, NULL, NULL), WVGD_OK);
    for (size_t i = 0; i < n; i++)
        squares += exp(2 * log_w[i]);
    double noise = 0.02 + 5 * sqrt(squares);
    for (size_t d = 0; d < p.D; d++) {
        double sd = sd_of(&p, d) * sqrt(0.75 / (d && d + 1 < p.D ? 1.25 : 1));
        assert_near(r.mean[d], mean_of(d), noise * sd);
        assert_near(log(sqrt(r.var[d]) / sd), 0, noise);
    }
    size_t size = wvgd_save_size(f); /* and again after it has been saved and restored */
    void *bytes = malloc(size);
    double before = log_w[n / 2];
    assert_int_equal(wvgd_save(f, bytes, size, NULL), WVGD_OK);
    assert_int_equal(wvgd_restore(f, bytes, size, NULL), WVGD_OK);
    assert_int_equal(wvgd_draws(f, &n, NULL, NULL, &log_w, NULL, NULL), WVGD_OK);
    assert_near(log_w[n / 2], before, 0);
    free(bytes);
    wvgd_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gaussians_of_the_family), cmocka_unit_test(several_particles),
                                       cmocka_unit_test(what_weights_cannot_correct)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
