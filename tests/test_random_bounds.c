/* test_random_bounds.c - the bound is a bound, on random targets of known evidence with good proposals and bad ones.
 * bench/bound.c does the same for as many as one likes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "support/random_fit.h"
#include "support/targets.h"
#include "wvgd.h"

/* How far the bound lies above the evidence; *errors: in standard errors. What is printed beside each other agrees. */
static double excess_of(uint64_t number, double *errors)
{
    wvgd_model model;
    wvgd_options o;
    wvgd_results r;
    wvgd_error error;
    int kind = random_fit_make(number, &model, &o);
    assert_true(kind >= 0);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    double off = r.pelbo.value - target_truth_of(&model).log_evidence;
    *errors = off > 1e-6 ? off / r.pelbo.se : 0;
    if (off > 0.5 || *errors > 4)
        fail_msg("fit %d (%s): the bound is %.3f +- %.3f above the evidence", (int)number, random_fit_kind[kind], off,
                 r.pelbo.se);
    if (r.pelbo.value - r.evidence.value > 3.001 * hypot(r.pelbo.se, r.evidence.se) + 1e-6)
        fail_msg("fit %d: PELBO %.3f +- %.3f, log evidence %.3f +- %.3f", (int)number, r.pelbo.value, r.pelbo.se,
                 r.evidence.value, r.evidence.se);
    wvgd_free(fit);
    wvgd_model_close(&model);
    return off;
}

/* Components that hardly reach into their cells, and poor weights: bounds were 0.5 to 550 nats above the evidence while
 * few evaluated draws, unevenly weighted, stood for such a component. */
static void components_out_of_reach(void **state)
{
    (void)state;
    /* the last two: cells of several parts in one dimension, and components that reach beyond all quadrature nodes */
    static const uint64_t number[] = {18, 147, 220, 322, 352, 1107, 1109, 1340, 1421, 1509, 20233, 30057};
    double errors;
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        excess_of(number[i], &errors);
}

/* Of some of all kinds none is far above, and few by three standard errors. */
static void any(void **state)
{
    (void)state;
    enum { FITS = 64, FIRST = 50000 };
    size_t above = 0;
    double worst = 0;
    for (uint64_t i = 0; i < FITS; i++) {
        double errors;
        excess_of(FIRST + i, &errors);
        above += errors > 3;
        worst = fmax(worst, errors);
    }
    print_message("of %d bounds %zu are 3 standard errors above the evidence; at most %.1f\n", FITS, above, worst);
    assert_true(above <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(components_out_of_reach), cmocka_unit_test(any)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
