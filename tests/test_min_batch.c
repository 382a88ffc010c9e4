/* test_min_batch.c - batches of at least min_batch points. It would find a stage that stays narrow, results that are
 * wrong, evaluations that are not counted, and states that do not go on as they should. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "near.h"
#include "wvgd.h"

enum { D = 4, WIDE = 700, WAVE = 128 /* ascents at most */ };

/* Two Gaussians with sds 1 and 0.5, weights 2 and 1: the log evidence is log 3. */
static void evaluate(size_t n, const double *z, double *log_p, double *grad)
{
    for (size_t i = 0; i < n; i++) {
        double a = log(2) - D * 0.918938533204672741780, b = -D * (0.918938533204672741780 + log(0.5));
        const double *x = z + i * D;
        for (size_t d = 0; d < D; d++) {
            a -= 0.5 * (x[d] - 2) * (x[d] - 2);
            b -= 0.5 * (x[d] + 3) * (x[d] + 3) / 0.25;
        }
        double top = fmax(a, b), sum = exp(a - top) + exp(b - top), share = exp(a - top) / sum;
        log_p[i] = top + log(sum);
        for (size_t d = 0; grad && d < D; d++)
            grad[i * D + d] = -share * (x[d] - 2) - (1 - share) * (x[d] + 3) / 0.25;
    }
}

typedef struct {
    size_t fit, trial, wave; /* points of the smallest batches of these stages, and of the widest wave */
    size_t points;
    wvgd_results r;
} seen;

/* A fit by ask and tell; saved and restored into a new one after `change` batches. */
static seen run(wvgd_solver solver, size_t min_batch, size_t change, bool gradient)
{
    seen s = {SIZE_MAX, SIZE_MAX, 0, 0, {0}};
    wvgd_model model = {.dim = D, .has_gradient = gradient};
    wvgd_options o;
    wvgd_error error = {0};
    wvgd_options_init(&o);
    o.solver = solver;
    o.min_batch = min_batch;
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    assert_non_null(f);
    for (size_t batch = 1;; batch++) {
        size_t n;
        const double *z;
        bool wants;
        wvgd_progress p;
        assert_int_equal(wvgd_ask(f, &n, &z, &wants, &error), WVGD_OK);
        if (!n)
            break;
        wvgd_get_progress(f, &p);
        if (!strcmp(p.stage, "fit"))
            s.fit = n < s.fit ? n : s.fit;
        if (!strcmp(p.stage, "trial"))
            s.trial = n < s.trial ? n : s.trial;
        if (!strcmp(p.stage, "explore") && n <= WAVE) /* others are fits of modes */
            s.wave = n > s.wave ? n : s.wave;
        s.points += n;
        double *answer = malloc(n * (D + 1) * sizeof *answer);
        assert_non_null(answer);
        evaluate(n, z, answer, wants ? answer + n : NULL);
        assert_int_equal(wvgd_tell(f, answer, wants ? answer + n : NULL, &error), WVGD_OK);
        free(answer);
        if (batch == change) {
            size_t size = wvgd_save_size(f);
            char *state = malloc(size);
            assert_int_equal(wvgd_save(f, state, size, &error), WVGD_OK);
            wvgd_free(f);
            f = wvgd_new(&model, &o, NULL, &error);
            assert_int_equal(wvgd_restore(f, state, size, &error), WVGD_OK);
            free(state);
        }
    }
    wvgd_get_results(f, &s.r);
    wvgd_free(f); /* pointers of s.r are not looked at */
    return s;
}

static void is_right_and_wide(void **state)
{
    (void)state;
    for (int solver = 0; solver < 2; solver++) {
        seen none = run((wvgd_solver)solver, 0, 0, true), wide = run((wvgd_solver)solver, WIDE, 0, true);
        assert_int_equal(none.r.widened, 0);
        assert_true(none.fit < WIDE); /* or this test tests nothing */
        assert_true(wide.fit >= WIDE);
        assert_true(wide.trial >= WIDE);
        assert_true(none.wave < WAVE);
        assert_int_equal(wide.wave, WAVE);
        assert_true(wide.r.widened > 0);
        assert_true(wide.r.widened < wide.r.evaluations);
        assert_int_equal(wide.points, wide.r.evaluations);
        assert_near(wide.r.evidence.value, log(3), 4 * wide.r.evidence.se + 0.01);
    }
}

/* Points of the difference quotients of a wider batch are counted, too. */
static void counts_differences(void **state)
{
    (void)state;
    seen wide = run(WVGD_STAGED, WIDE, 0, false);
    assert_true(wide.r.widened > 0);
    assert_true(wide.r.widened < wide.r.evaluations);
    assert_near(wide.r.evidence.value, log(3), 4 * wide.r.evidence.se + 0.01);
}

static void goes_on(void **state)
{
    (void)state;
    seen whole = run(WVGD_STAGED, WIDE, 0, true);
    for (size_t change = 5; change < 60; change += 9) {
        seen parts = run(WVGD_STAGED, WIDE, change, true);
        assert_int_equal(parts.r.evaluations, whole.r.evaluations);
        assert_int_equal(parts.r.widened, whole.r.widened);
        assert_true(parts.r.evidence.value == whole.r.evidence.value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_right_and_wide),
        cmocka_unit_test(counts_differences),
        cmocka_unit_test(goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
