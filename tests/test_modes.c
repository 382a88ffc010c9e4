/* test_modes.c - two well separated Gaussians of masses 0.3 and 0.7: every number of particles finds both, with
 * their masses and the whole evidence. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/near.h"
#include "support/targets.h"
#include "support/test_random.h"
#include "wvgd.h"

enum { MAX_D = 10, MAX_N = 6 };
static const double MASS[2] = {0.3, 0.7}, AWAY = 5.0;

/* Means -5 and 5 in every coordinate, unit variances; the first round, the second with neighbouring coordinates
 * correlated. Normalised: the evidence is 1. */
static void make_two(wvgd_model *model, size_t D)
{
    double mean[2 * MAX_D], cov[2 * MAX_D * MAX_D] = {0};
    for (size_t i = 0; i < D; i++) {
        mean[i] = -AWAY;
        mean[D + i] = AWAY;
        cov[i * D + i] = 1;
        cov[D * D + i * D + i] = 1;
        if (i)
            cov[D * D + i * D + i - 1] = cov[D * D + (i - 1) * D + i] = 0.4;
    }
    assert_int_equal(target_mixture(model, D, 2, MASS, mean, cov), 0);
}

/* z0[N][D]: particles scattered around both modes, at least one at each. */
static void place(size_t N, size_t D, uint64_t seed, double *z0)
{
    test_random r = test_random_seed(seed);
    for (size_t j = 0; j < N; j++)
        for (size_t i = 0; i < D; i++)
            z0[j * D + i] = (j % 2 ? AWAY : -AWAY) + test_random_normal(&r);
}

/* Largest errors over all runs of one kind. */
typedef struct {
    double mass, pelbo, evidence;
    int runs, within; /* mass and bound both within 0.01 */
} errors;

static void run(const wvgd_model *model, const wvgd_options *o, const double *z0, errors *e)
{
    wvgd_error error;
    wvgd_results r;
    wvgd_fit *fit = wvgd_new(model, o, z0, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    double left = 0;
    for (size_t j = 0; j < r.N; j++)
        left += r.z[j * r.D] < 0 ? r.beta[j] : 0;
    double mass = fabs(left - MASS[0]), pelbo = fabs(r.pelbo.value);
    if (mass > 0.01 || pelbo > 0.01)
        print_message("    D %zu N %zu seed %llu: mass %.4f, PELBO %.4f +- %.4f, evidence %.4f +- %.4f, %s after %zu "
                      "iterations\n",
                      r.D, r.N, (unsigned long long)o->seed, left, r.pelbo.value, r.pelbo.se, r.evidence.value,
                      r.evidence.se, wvgd_stop_name(r.stop), r.iterations);
    e->mass = fmax(e->mass, mass);
    e->pelbo = fmax(e->pelbo, pelbo);
    e->evidence = fmax(e->evidence, fabs(r.evidence.value));
    e->runs++;
    e->within += mass <= 0.01 && pelbo < 0.01;
    wvgd_free(fit);
}

static void two_modes(size_t D, bool given, uint64_t seeds, const char *what)
{
    errors e = {0};
    wvgd_model model;
    double z0[MAX_N * MAX_D];
    make_two(&model, D);
    for (size_t N = 2; N <= MAX_N; N++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            wvgd_options o;
            wvgd_options_init(&o);
            o.solver = WVGD_JOINT;
            o.particles = N;
            o.seed = seed;
            if (given)
                o.init = WVGD_INIT_NORMAL;
            place(N, D, seed, z0);
            run(&model, &o, given ? z0 : NULL, &e);
        }
    print_message("D = %zu, %s: %d of %d runs within 0.01; largest error of a mode's mass %.4f, of PELBO %.4f, of the "
                  "evidence %.4f\n",
                  D, what, e.within, e.runs, e.mass, e.pelbo, e.evidence);
    assert_true(e.mass <= 0.01);
    assert_true(e.pelbo < 0.01);
    model.close(model.self);
}

static void defaults_in_2(void **state)
{
    (void)state;
    two_modes(2, false, 3, "defaults");
}

static void defaults_in_10(void **state)
{
    (void)state;
    two_modes(10, false, 2, "defaults");
}

static void given_starts_in_2(void **state)
{
    (void)state;
    two_modes(2, true, 2, "starts given near both modes");
}

static void given_starts_in_10(void **state)
{
    (void)state;
    two_modes(10, true, 1, "starts given near both modes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_in_2),
        cmocka_unit_test(defaults_in_10),
        cmocka_unit_test(given_starts_in_2),
        cmocka_unit_test(given_starts_in_10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
