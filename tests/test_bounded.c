/* test_bounded.c - limits of parameters: the density in coordinates without limits against the change of variables, its
 * gradient against differences, evidence against closed forms, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "support/fitted.h"
#include "support/near.h"
#include "support/targets.h"
#include "wvgd.h"

enum { D = 4 };
static const double lower[D] = {-1, 2, -INFINITY, -INFINITY}, upper[D] = {3, INFINITY, -5, INFINITY};

/* exp(-|theta_i|) about: smooth inside the limits, and never asked for outside. */
static double density(void *self, const double *theta, double *grad)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < D; i++) {
        assert_true(theta[i] >= lower[i] && theta[i] <= upper[i]);
        double y = theta[i] - (i == 2 ? -6 : 1);
        sum -= y * y / 2;
        if (grad)
            grad[i] = -y;
    }
    return sum;
}

static void bounded_model(wvgd_model *inner, wvgd_model *model, bool gradient)
{
    assert_int_equal(wvgd_model_pointwise(inner, D, density, NULL, gradient), 0);
    assert_int_equal(wvgd_model_bounded(model, inner, lower, upper), 0);
    assert_int_equal(model->has_gradient, gradient);
}

/* log p(z) = log p(theta) + sum log dtheta/dz, the last by differences of wvgd_model_parameters: exact to 1e-8. Far out
 * nothing overflows. */
static void the_jacobian_is_there(void **state)
{
    (void)state;
    const double z[][D] = {{0.3, -1, 0.7, 2}, {-4, 1.5, -1, -1}, {5, 0.1, 2, 0}}, h = 1e-5;
    wvgd_model inner, model;
    bounded_model(&inner, &model, true);
    for (size_t k = 0; k < 3; k++) {
        double theta[D], ahead[D], behind[D], a[D], b[D], log_p, truth;
        for (size_t i = 0; i < D; i++) {
            a[i] = z[k][i] + h;
            b[i] = z[k][i] - h;
        }
        assert_int_equal(wvgd_model_parameters(&model, 1, z[k], theta), 0);
        assert_int_equal(wvgd_model_parameters(&model, 1, a, ahead), 0);
        assert_int_equal(wvgd_model_parameters(&model, 1, b, behind), 0);
        truth = density(NULL, theta, NULL);
        for (size_t i = 0; i < D; i++)
            truth += log((ahead[i] - behind[i]) / (2 * h));
        assert_int_equal(model.log_density(model.self, 1, z[k], &log_p, NULL), 0);
        assert_near(log_p, truth, 1e-8 * (1 + fabs(truth)));
    }
    assert_true(target_gradient_error(&model, 3, z[0]) < 1e-7);
    const double far[D] = {-800, -800, 800, 1}, other[D] = {800, -800, 800, 1};
    double log_p[2], theta[2 * D];
    assert_int_equal(model.log_density(model.self, 1, far, log_p, NULL), 0);
    assert_int_equal(model.log_density(model.self, 1, other, log_p + 1, NULL), 0);
    assert_true(isfinite(log_p[0]) && isfinite(log_p[1]));
    assert_int_equal(wvgd_model_parameters(&model, 1, far, theta), 0);
    assert_true(theta[0] == lower[0] && theta[1] == lower[1]);
    wvgd_model_close(&model);
    wvgd_model_close(&inner);
}

static double log_share(double from, double to)
{
    return log(0.5 * (erf(to * sqrt(0.5)) - erf(from * sqrt(0.5)))) + 0.5 * log(2 * acos(-1.0));
}

/* Truncated normals have known integrals; with gradients and without. */
static void the_evidence_is_the_same(void **state)
{
    (void)state;
    double truth = log_share(-2, 2) + log_share(1, 40) + log_share(-40, 1) + log_share(-40, 40);
    for (int gradient = 0; gradient < 2; gradient++) {
        wvgd_model inner, model;
        wvgd_results r;
        bounded_model(&inner, &model, gradient);
        wvgd_options o = staged_options(2, 4);
        wvgd_fit *fit = fitted(&model, &o, &r);
        assert_near(r.evidence.value, truth, 4 * r.evidence.se);
        wvgd_free(fit);
        wvgd_model_close(&model);
        wvgd_model_close(&inner);
    }
}

/* Starts of the inner model are parameters. */
static void inside(void *self, const double *normal, double *theta)
{
    (void)self;
    (void)normal;
    const double at[D] = {2.5, 2.25, -5.5, 7};
    memcpy(theta, at, sizeof at);
}

static void starts_become_coordinates(void **state)
{
    (void)state;
    wvgd_model inner, model;
    double z[D], theta[D], at[D];
    assert_int_equal(wvgd_model_pointwise(&inner, D, density, NULL, false), 0);
    inner.start = inside;
    assert_int_equal(wvgd_model_bounded(&model, &inner, lower, upper), 0);
    model.start(model.start_self, NULL, z);
    assert_int_equal(wvgd_model_parameters(&model, 1, z, theta), 0);
    inside(NULL, NULL, at);
    for (size_t i = 0; i < D; i++)
        assert_near(theta[i], at[i], 1e-12);
    wvgd_model_close(&model);
    wvgd_model_close(&inner);
}

static void refuses(void **state)
{
    (void)state;
    wvgd_model inner, model;
    const double equal[D] = {3, 0, 0, 0}, none[D] = {NAN, 0, 0, 0}, wide[2][D] = {{-1e308, 0, 0, 0}, {1e308, 1, 1, 1}};
    double z[D] = {0};
    assert_int_equal(wvgd_model_pointwise(&inner, D, density, NULL, false), 0);
    assert_int_equal(wvgd_model_bounded(&model, &inner, equal, upper), -1);
    assert_int_equal(wvgd_model_bounded(&model, &inner, none, NULL), -1);
    assert_int_equal(wvgd_model_bounded(&model, &inner, NULL, none), -1);
    assert_int_equal(wvgd_model_bounded(&model, &inner, wide[0], wide[1]), -1);
    assert_int_equal(wvgd_model_bounded(&model, NULL, lower, upper), -1);
    assert_int_equal(wvgd_model_bounded(NULL, &inner, lower, upper), -1);
    assert_int_equal(wvgd_model_parameters(&inner, 1, z, z), -1);
    assert_int_equal(wvgd_model_parameters(NULL, 1, z, z), -1);
    assert_int_equal(wvgd_model_bounded(&model, &inner, NULL, NULL), 0); /* no limits at all */
    assert_int_equal(wvgd_model_parameters(&model, 1, z, NULL), -1);
    wvgd_model_close(&model);
    wvgd_model_close(&inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_jacobian_is_there),
        cmocka_unit_test(the_evidence_is_the_same),
        cmocka_unit_test(starts_become_coordinates),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
