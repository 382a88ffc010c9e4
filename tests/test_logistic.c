/* test_logistic.c - logistic regression posteriors without tuning: one particle against the best full and diagonal
 * Gaussians, whose bounds are known exactly, and the importance-sampled evidence against the true one. Ten subsets
 * of 50 rows of four data sets (D = 5 to 31), features standardised or as they are. The joint solver. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "support/logistic_truth.h"
#include "support/targets.h"
#include "wvgd.h"

enum { DATASETS = 4, SUBSETS = 10 };
static const char *const DATASET[DATASETS] = {"iris", "boston", "cancer", "diabetes"};

/* Largest shortfalls over the subsets of a data set, or over all. */
typedef struct {
    double gap;      /* nats of the exact ELBO below the optimum */
    double report;   /* standard errors between the reported and the exact ELBO */
    double evidence; /* error of the importance-sampled log evidence */
    size_t iterations, evaluations;
} shortfall;

static void worse(shortfall *all, const shortfall *one)
{
    all->gap = fmax(all->gap, one->gap);
    all->report = fmax(all->report, one->report);
    all->evidence = fmax(all->evidence, one->evidence);
    all->iterations = one->iterations > all->iterations ? one->iterations : all->iterations;
    all->evaluations = one->evaluations > all->evaluations ? one->evaluations : all->evaluations;
}

static shortfall fit_subset(const char *name, int subset, bool standardize, wvgd_family family)
{
    logistic_data data;
    logistic_truth truth;
    wvgd_model model;
    wvgd_options o;
    wvgd_results r;
    wvgd_error error;
    assert_true(logistic_data_read(&data, name, subset, standardize));
    assert_true(logistic_truth_read(&truth, name, subset, standardize));
    assert_int_equal(target_logistic(&model, data.n, data.D, data.X, data.y), 0);
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.particles = 1;
    o.family = family;
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    if (!fit || wvgd_run(fit, NULL, NULL, &error) != WVGD_OK)
        fail_msg("%s", error.text);
    wvgd_get_results(fit, &r);
    bool full = family == WVGD_FULL;
    double elbo = full ? logistic_elbo_full(&data, r.mu, r.chol) : logistic_elbo_diag(&data, r.mu, r.sd);
    shortfall s = {.gap = (full ? truth.elbo_fullrank : truth.elbo_meanfield) - elbo,
                   .report = fabs(r.pelbo.value - elbo) / r.pelbo.se,
                   .evidence = fabs(r.evidence.value - truth.log_evidence),
                   .iterations = r.iterations,
                   .evaluations = r.evaluations};
    if (!(s.gap > -1e-6))
        fail_msg("%s %d: an ELBO above the optimum by %g", name, subset, -s.gap);
    if (!(s.report < 4) || (full && !(s.evidence < 0.05)))
        print_message(
            "    %s %d: ELBO %.4f reported %.4f +- %.4f, evidence %.4f +- %.4f, true %.4f, %s after %zu iterations\n",
            name, subset, elbo, r.pelbo.value, r.pelbo.se, r.evidence.value, r.evidence.se, truth.log_evidence,
            wvgd_stop_name(r.stop), r.iterations);
    wvgd_free(fit);
    model.close(model.self);
    logistic_data_free(&data);
    return s;
}

/* The bound's noise allows 4 of its standard errors; 40 runs of each kind. */
static void check(bool standardize, wvgd_family family, double allowed)
{
    shortfall all = {0};
    const char *treatment = standardize ? "standardised" : "raw", *shape = family == WVGD_FULL ? "full" : "diag";
    for (int d = 0; d < DATASETS; d++) {
        shortfall here = {0};
        for (int subset = 0; subset < SUBSETS; subset++) {
            shortfall s = fit_subset(DATASET[d], subset, standardize, family);
            worse(&here, &s);
        }
        print_message("%s, %s, %s: at most %.4f nats below the optimum, reported ELBO %.1f standard errors off, "
                      "evidence %.4f, %zu iterations, %zu evaluations\n",
                      DATASET[d], treatment, shape, here.gap, here.report, here.evidence, here.iterations,
                      here.evaluations);
        worse(&all, &here);
    }
    assert_true(all.gap < allowed);
    assert_true(all.report < 4);
    if (family == WVGD_FULL)
        assert_true(all.evidence < 0.05);
}

static void full_standardised(void **state)
{
    (void)state;
    check(true, WVGD_FULL, 0.02);
}

static void full_raw(void **state)
{
    (void)state;
    check(false, WVGD_FULL, 0.05);
}

static void diag_standardised(void **state)
{
    (void)state;
    check(true, WVGD_DIAG, 0.02);
}

static void diag_raw(void **state)
{
    (void)state;
    check(false, WVGD_DIAG, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_standardised),
        cmocka_unit_test(full_raw),
        cmocka_unit_test(diag_standardised),
        cmocka_unit_test(diag_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
