/* test_restore.c - restoring into a fit that has run before equals restoring into a new one, in
 * every stage of both solvers.
 *
 * A fit is recorded: its state after every batch. One other fit then restores these states in a scrambled
 * order, takes one batch from each, and must arrive at the recorded next state, whatever it did before. From
 * the first state of each stage it goes on to the end. Batches are asked for and told by hand, so that states
 * hold no times and can be compared as bytes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/fitted.h"
#include "support/saved.h"
#include "support/targets.h"
#include "wvgd.h"

typedef struct {
    size_t states;      /* one more than batches */
    saved *state;       /* [states] */
    const char **stage; /* [states] */
    char *verdict;      /* of the end */
} record;

/* ---- a batch, and a state ---------------------------------------------------------------------------------------- */
static bool ended(const wvgd_fit *fit)
{
    return !strcmp(stage_of(fit), "done");
}

static void batch(wvgd_fit *fit, const wvgd_model *model)
{
    size_t n;
    const double *z;
    bool gradient;
    wvgd_error error;
    if (wvgd_ask(fit, &n, &z, &gradient, &error) != WVGD_OK)
        fail_msg("ask: %s", error.text);
    double *log_p = malloc(n * sizeof *log_p), *grad = malloc(n * model->dim * sizeof *grad);
    assert_non_null(log_p);
    assert_non_null(grad);
    assert_int_equal(model->log_density(model->self, n, z, log_p, gradient ? grad : NULL), 0);
    if (wvgd_tell(fit, log_p, gradient ? grad : NULL, &error) != WVGD_OK)
        fail_msg("tell: %s", error.text);
    free(log_p);
    free(grad);
}

static void restore(wvgd_fit *fit, const saved *s)
{
    wvgd_error error;
    if (wvgd_restore(fit, s->bytes, s->size, &error) != WVGD_OK)
        fail_msg("restore: %s", error.text);
}

/* All that is said of the result in words. */
static char *verdict_of(const wvgd_fit *fit)
{
    enum { SIZE = 16384 };
    char *text = calloc(1, SIZE);
    wvgd_results r;
    wvgd_get_results(fit, &r);
    strcpy(text, r.reliable ? "reliable\n" : "unreliable\n");
    for (size_t i = 0; i < r.reasons + r.warnings; i++) {
        strncat(text, i < r.reasons ? r.reason[i] : r.warning[i - r.reasons], SIZE - strlen(text) - 2);
        strcat(text, "\n");
    }
    return text;
}

/* ---- a record of a fit ------------------------------------------------------------------------------------------- */
static record record_fit(const wvgd_model *model, const wvgd_options *o)
{
    record r = {0};
    wvgd_fit *fit = wvgd_new(model, o, NULL, NULL);
    assert_non_null(fit);
    for (;;) {
        r.state = realloc(r.state, (r.states + 1) * sizeof *r.state);
        r.stage = realloc(r.stage, (r.states + 1) * sizeof *r.stage);
        r.state[r.states] = save(fit);
        r.stage[r.states++] = stage_of(fit);
        if (ended(fit))
            break;
        batch(fit, model);
    }
    r.verdict = verdict_of(fit);
    wvgd_free(fit);
    return r;
}

static void free_record(record *r)
{
    for (size_t i = 0; i < r->states; i++)
        free(r->state[i].bytes);
    free(r->state);
    free(r->stage);
    free(r->verdict);
}

static bool has_stage(const record *r, const char *stage)
{
    for (size_t i = 0; i < r->states; i++)
        if (!strcmp(r->stage[i], stage))
            return true;
    return false;
}

static void assert_state(const wvgd_fit *fit, const saved *wanted, const char *stage, size_t i)
{
    saved s = save(fit);
    if (s.size != wanted->size || memcmp(s.bytes, wanted->bytes, s.size))
        fail_msg("a used fit that restores state %zu, of stage %s, does not go on as a new one does", i, stage);
    free(s.bytes);
}

/* ---- the same from a fit that has run ---------------------------------------------------------------------------- */
static void goes_to_the_end(wvgd_fit *used, const wvgd_model *model, const record *r, size_t i)
{
    restore(used, &r->state[i]);
    while (!ended(used))
        batch(used, model);
    assert_state(used, &r->state[r->states - 1], r->stage[i], i);
    char *verdict = verdict_of(used);
    assert_string_equal(verdict, r->verdict);
    free(verdict);
}

static void takes_one_batch(wvgd_fit *used, const wvgd_model *model, const record *r, size_t i)
{
    size_t n;
    const double *z;
    bool gradient;
    restore(used, &r->state[i]);
    assert_state(used, &r->state[i], r->stage[i], i);
    batch(used, model);
    assert_state(used, &r->state[i + 1], r->stage[i], i);
    if (i % 3 == 0) /* the next restore comes between ask and tell */
        assert_int_equal(wvgd_ask(used, &n, &z, &gradient, NULL), WVGD_OK);
}

static size_t common_divisor(size_t a, size_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static void check(const wvgd_model *model, const wvgd_options *o, const char *const *stages)
{
    record r = record_fit(model, o);
    for (; *stages; stages++)
        if (!has_stage(&r, *stages))
            fail_msg("the fit never came to stage %s", *stages);
    wvgd_fit *used = wvgd_new(model, o, NULL, NULL);
    size_t batches = r.states - 1, stride = batches * 5 / 8 + 1;
    while (common_divisor(stride, batches) > 1)
        stride++;
    goes_to_the_end(used, model, &r, 0);
    for (size_t k = 0, i = 0; k < batches; k++, i = (i + stride) % batches)
        takes_one_batch(used, model, &r, i);
    for (size_t i = 1; i < r.states; i++)
        if (strcmp(r.stage[i], r.stage[i - 1]))
            goes_to_the_end(used, model, &r, i);
    wvgd_free(used);
    free_record(&r);
}

/* ---- the fits ---------------------------------------------------------------------------------------------------- */
static wvgd_options options_of(wvgd_solver solver, size_t N, wvgd_family family, size_t max_iter)
{
    wvgd_options o;
    wvgd_options_init(&o);
    o.solver = solver;
    o.particles = N;
    o.family = family;
    o.max_iter = max_iter;
    return o;
}

static void staged_fit_that_grows(void **state)
{
    (void)state;
    wvgd_model model;
    wvgd_options o = options_of(WVGD_STAGED, 2, WVGD_FULL, 2000);
    assert_int_equal(target_banana(&model, 2, 1, 1), 0);
    check(&model, &o, (const char *const[]){"explore", "fit", "trial", "bend", "close", "bound", "done", NULL});
    o.bend = WVGD_BEND_NEVER;
    check(&model, &o,
          (const char *const[]){"explore", "fit", "trial", "probe", "close", "certify", "bound", "done", NULL});
    wvgd_model_close(&model);
}

static void staged_fit_of_one_particle(void **state)
{
    (void)state;
    wvgd_model model;
    const double shapes[] = {2, 3, 4};
    wvgd_options o = options_of(WVGD_STAGED, 1, WVGD_FULL, 2000);
    o.evidence_se = 0.01;
    assert_int_equal(target_log_gamma(&model, 3, shapes), 0);
    check(&model, &o, (const char *const[]){"explore", "fit", "trial", "close", "refine", "bound", "done", NULL});
    wvgd_model_close(&model);
}

static void staged_fits_with_many_cells(void **state)
{
    (void)state;
    wvgd_model model;
    const double shapes[] = {2, 8, 2, 8, 2, 8};
    wvgd_options o = options_of(WVGD_STAGED, 4, WVGD_FULL, 2000);
    assert_int_equal(target_log_gamma(&model, 6, shapes), 0);
    check(&model, &o, (const char *const[]){"bound", "done", NULL});
    o.family = WVGD_DIAG;
    o.cost = WVGD_SQEUCLID;
    check(&model, &o, (const char *const[]){"refine", "bound", "done", NULL});
    o.family = WVGD_LOWRANK;
    o.rank = 2;
    o.cells = WVGD_SOFT;
    o.cost = WVGD_L1;
    check(&model, &o, (const char *const[]){"bound", "done", NULL});
    wvgd_model_close(&model);
    assert_int_equal(target_mixture_random(&model, 2, 3, 4.0, 5), 0);
    o = options_of(WVGD_STAGED, 3, WVGD_DIAG, 2000);
    check(&model, &o, (const char *const[]){"explore", "fit", "trial", "close", "bound", "done", NULL});
    wvgd_model_close(&model);
}

/* Six modes and five cells: there will be more. */
static void staged_fit_with_more_cells(void **state)
{
    (void)state;
    double weight[6], mean[12], cov[24] = {0};
    wvgd_model model;
    wvgd_results r;
    for (size_t k = 0; k < 6; k++) {
        weight[k] = 1.0 / 6;
        mean[2 * k] = 8 * cos((double)k * M_PI / 3);
        mean[2 * k + 1] = 8 * sin((double)k * M_PI / 3);
        cov[4 * k] = cov[4 * k + 3] = 1;
    }
    assert_int_equal(target_mixture(&model, 2, 6, weight, mean, cov), 0);
    wvgd_options o = options_of(WVGD_STAGED, 5, WVGD_FULL, 2000);
    wvgd_fit *fit = fitted(&model, &o, &r);
    assert_int_equal(r.N, 5);
    assert_false(r.reliable);
    wvgd_free(fit);
    o.most_particles = 20;
    fit = fitted(&model, &o, &r);
    assert_int_equal(r.N, 6);
    assert_true(r.reliable);
    size_t rows;
    double sum = 0;
    wvgd_trace(fit, &rows);
    for (size_t j = 0; j < 6; j++) {
        sum += wvgd_trace_beta(fit)[(rows - 1) * 6 + j];
        assert_true(fabs(r.beta[j] - 1.0 / 6) < 4 * r.beta_se[j] + 1e-3);
    }
    assert_true(fabs(sum - 1) < 1e-9);
    wvgd_free(fit);
    check(&model, &o, (const char *const[]){"explore", "trial", "close", "bound", "done", NULL});
    wvgd_model_close(&model);
}

static void joint_fits(void **state)
{
    (void)state;
    wvgd_model model;
    assert_int_equal(target_mixture_random(&model, 2, 3, 4.0, 5), 0);
    wvgd_options o = options_of(WVGD_JOINT, 2, WVGD_FULL, 400);
    o.tol = 0.1;
    check(&model, &o, (const char *const[]){"explore", "fit", "settle", "average", "close", "done", NULL});
    o = options_of(WVGD_JOINT, 3, WVGD_DIAG, 40);
    check(&model, &o, (const char *const[]){"explore", "pilot", "fit", "close", "done", NULL});
    o = options_of(WVGD_JOINT, 3, WVGD_LOWRANK, 30);
    o.rank = 1;
    o.cells = WVGD_SOFT;
    check(&model, &o, (const char *const[]){"fit", "close", "done", NULL});
    o = options_of(WVGD_JOINT, 3, WVGD_FULL, 30);
    o.estimator = WVGD_REPARAM;
    o.sampler = WVGD_REJECT;
    check(&model, &o, (const char *const[]){"fit", "close", "done", NULL});
    o = options_of(WVGD_JOINT, 3, WVGD_DIAG, 30);
    o.estimator = WVGD_SCORE;
    o.init = WVGD_INIT_NORMAL;
    check(&model, &o, (const char *const[]){"fit", "close", "done", NULL});
    wvgd_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staged_fit_that_grows),
        cmocka_unit_test(staged_fit_of_one_particle),
        cmocka_unit_test(staged_fits_with_many_cells),
        cmocka_unit_test(staged_fit_with_more_cells),
        cmocka_unit_test(joint_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
