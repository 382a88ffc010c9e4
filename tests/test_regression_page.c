/* test_regression_page.c - the page of a regression against closed forms: effects of a linear model are averages of
 * linear predictors; replicated responses of draws that are all the same are normal, or 0 and 1 with one probability.
 * Would find effects of the wrong column or level, noise that is left out or too large, groups that are not of equal
 * size, and shares on the wrong side. */
#include "regression_page.h"
#include "glm_data.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "near.h"

enum { ROWS = 100, DRAWS = 400, WEIGHTS = 5 };
static const char *const weight_names[WEIGHTS] = {"x", "g[b]", "g[c]", "intercept", "log_sigma"};

static double x_of(size_t i)
{
    return (double)(i * 37 % ROWS) / 10;
}

static double y_of(size_t i)
{
    return 5 + 2 * sin((double)i * 1.3);
}

/* Rows x, g, y: y as above, or yes for each fifth row. */
static void write_rows(const char *path, bool labels)
{
    FILE *s = fopen(path, "w");
    assert_non_null(s);
    fputs("x,g,y\n", s);
    for (size_t i = 0; i < ROWS; i++) {
        fprintf(s, "%.17g,%c,", x_of(i), "aabc"[i % 4]);
        if (labels)
            fprintf(s, "%s\n", i % 5 ? "no" : "yes");
        else
            fprintf(s, "%.17g\n", y_of(i));
    }
    fclose(s);
}

/* The page of a run of that kind with draw[DRAWS][n]. */
static json_t *page_of(const char *kind, size_t n, const double *draw)
{
    char path[] = "regression_page_XXXXXX";
    bool labels = n < WEIGHTS;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    write_rows(path, labels);
    run_view v = {.n = DRAWS, .P = n, .D = n, .data = path};
    v.draw = malloc(DRAWS * n * sizeof *v.draw);
    memcpy(v.draw, draw, DRAWS * n * sizeof *v.draw);
    json_t *names = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(names, json_string(weight_names[i]));
    v.run = json_pack("{s:{s:s}, s:{}, s:{s:[sss], s:b, s:{s:[sss]}}, s:{s:o}}", "model", "kind", kind, "options",
                      "data", "features", "x", "g[b]", "g[c]", "discrete", labels, "levels", "g", "a", "b", "c",
                      "posterior", "names", names);
    assert_non_null(v.run);
    json_t *page = describe_regression_page(&v);
    if (json_object_get(page, "missing"))
        fail_msg("%s", json_string_value(json_object_get(page, "missing")));
    unlink(path);
    json_decref(v.run);
    free(v.draw);
    return page;
}

static double number(const json_t *o, const char *key)
{
    assert_true(json_is_number(json_object_get(o, key)));
    return json_number_value(json_object_get(o, key));
}

/* Means over the first 200 draws, which effects use. */
static void shows_effects(void **state)
{
    (void)state;
    static double draw[DRAWS][WEIGHTS];
    double w[WEIGHTS] = {0}, x = 0;
    for (size_t k = 0; k < DRAWS; k++)
        for (size_t i = 0; i < WEIGHTS; i++) {
            draw[k][i] = (double)i - 1 + sin((double)(k * (i + 3))) / 3;
            w[i] += k < 200 ? draw[k][i] / 200 : 0;
        }
    for (size_t i = 0; i < ROWS; i++)
        x += x_of(i) / ROWS;
    json_t *page = page_of("linear", WEIGHTS, draw[0]), *effects = json_object_get(page, "effects");
    assert_int_equal(json_array_size(effects), 2);
    const json_t *of_x = json_object_get(json_array_get(effects, 0), "points"),
                 *of_g = json_object_get(json_array_get(effects, 1), "points");
    assert_int_equal(json_array_size(of_x), 20);
    for (size_t g = 0; g < 20; g++) {
        const json_t *point = json_array_get(of_x, g);
        assert_near(number(point, "x"), 9.9 * (double)g / 19, 1e-12);
        assert_near(number(point, "mean"), w[3] + w[0] * number(point, "x") + (w[1] + w[2]) / 4, 1e-9);
        assert_true(number(point, "q5") < number(point, "mean") && number(point, "mean") < number(point, "q95"));
    }
    assert_int_equal(json_array_size(of_g), 3);
    for (size_t g = 0; g < 3; g++) {
        const json_t *point = json_array_get(of_g, g);
        assert_int_equal(json_string_value(json_object_get(point, "level"))[0], "abc"[g]);
        assert_near(number(point, "mean"), w[3] + w[0] * x + (g ? w[g] : 0), 1e-9);
    }
    json_decref(page);
}

static double below(double u)
{
    return erfc(-u / sqrt(2)) / 2;
}

/* Is the share of a distribution below a quantile of DRAWS draws p? */
static void expect_share(double share, double p)
{
    assert_near(share, p, 4 * sqrt(p * (1 - p) / DRAWS));
}

/* y ~ N(5, 2^2): mean and least value of 100 have known distributions. */
static void replicates_numbers(void **state)
{
    (void)state;
    static double draw[DRAWS][WEIGHTS];
    double mean = 0, least = INFINITY, sum = 0;
    for (size_t k = 0; k < DRAWS; k++) {
        draw[k][3] = 5;
        draw[k][4] = log(2);
    }
    for (size_t i = 0; i < ROWS; i++) {
        mean += y_of(i) / ROWS;
        least = fmin(least, y_of(i));
    }
    for (size_t i = 0; i < ROWS; i++)
        sum += (y_of(i) - mean) * (y_of(i) - mean);
    json_t *page = page_of("linear", WEIGHTS, draw[0]),
           *list = json_object_get(json_object_get(page, "replicated"), "statistics");
    const json_t *m = json_array_get(list, 0), *s = json_array_get(list, 1), *l = json_array_get(list, 2);
    static const char *const key[] = {"q5", "q50", "q95"};
    static const double p[] = {0.05, 0.5, 0.95};
    for (size_t q = 0; q < 3; q++) {
        expect_share(below((number(m, key[q]) - 5) / 0.2), p[q]);
        expect_share(1 - pow(1 - below((number(l, key[q]) - 5) / 2), ROWS), p[q]);
        /* Wilson and Hilferty: the cube root of chi^2 is nearly normal */
        expect_share(below((cbrt(pow(number(s, key[q]) / 2, 2)) - 1 + 2.0 / 9 / 99) / sqrt(2.0 / 9 / 99)), p[q]);
    }
    assert_near(number(m, "observed"), mean, 1e-12);
    assert_near(number(s, "observed"), sqrt(sum / 99), 1e-12);
    assert_near(number(l, "observed"), least, 1e-12);
    expect_share(number(m, "above"), 1 - below((mean - 5) / 0.2));
    expect_share(number(l, "above"), pow(1 - below((least - 5) / 2), ROWS));
    json_decref(page);
}

/* Counts are binomial(10, 0.2): 5, 50, 95 % are 0, 2, 4; 4 of 96.7 %, so 5 may come out. */
static void replicates_labels(void **state)
{
    (void)state;
    static double draw[DRAWS][WEIGHTS - 1];
    double seen = 0;
    for (size_t k = 0; k < DRAWS; k++)
        draw[k][3] = log(0.25);
    json_t *page = page_of("logistic", WEIGHTS - 1, draw[0]),
           *list = json_object_get(json_object_get(page, "replicated"), "groups"), *group;
    size_t g;
    assert_int_equal(json_array_size(list), 10);
    json_array_foreach(list, g, group) {
        assert_near(number(group, "rows"), 10, 0);
        assert_near(number(group, "lo"), 0.2, 1e-12);
        assert_near(number(group, "q5"), 0, 0);
        assert_near(number(group, "q50"), 2, 0);
        assert_near(number(group, "q95"), 4.5, 0.5);
        seen += number(group, "observed");
    }
    assert_near(seen, ROWS / 5, 0);
    json_decref(page);
}

/* s | trials(n) ~ factor(k), with draws that are all the same: effects are shares of the trials, however many there
 * are, at the values of k. */
static void shows_shares(void **state)
{
    (void)state;
    char path[] = "regression_page_XXXXXX";
    static const char *const names[] = {"intercept", "factor(k)[3.5]", "factor(k)[10]"}, *const levels[] = {"2", "3.5",
                                                                                                            "10"};
    static const char terms[] = "s | trials(n) ~ factor(k)";
    static double draw[DRAWS][3];
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs("k,s,n\n", file);
    for (int i = 0; i < 30; i++)
        fprintf(file, "%s,%d,%d\n", levels[i % 3], i % 4, 4 + i * i);
    fclose(file);
    failure f;
    glm_data g;
    glm_request q = {.formula = terms, .likelihood = "binomial", .keep = true};
    assert_int_equal(read_glm(path, &q, &g, &f), 0);
    for (size_t k = 0; k < DRAWS; k++)
        for (size_t i = 0; i < 3; i++)
            draw[k][i] = (double)i - 1.5;
    run_view v = {.n = DRAWS, .P = 3, .D = 3, .data = path, .draw = draw[0]};
    v.run = json_pack("{s:{s:s, s:s, s:o}, s:{s:s, s:s}, s:{s:b}, s:{s:[sss]}}", "model", "kind", "glm", "likelihood",
                      "binomial", "design", describe_design(g.design), "options", "formula", terms, "likelihood",
                      "binomial", "data", "discrete", true, "posterior", "names", names[0], names[1], names[2]);
    assert_non_null(v.run);
    json_t *page = describe_regression_page(&v);
    assert_true(json_is_true(json_object_get(page, "shares")));
    const json_t *effect = json_array_get(json_object_get(page, "effects"), 0),
                 *points = json_object_get(effect, "points");
    assert_int_equal(json_array_size(json_object_get(page, "effects")), 1);
    assert_string_equal(json_string_value(json_object_get(effect, "kind")), "categorical");
    assert_int_equal(json_array_size(points), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *point = json_array_get(points, i);
        assert_string_equal(json_string_value(json_object_get(point, "level")), levels[i]);
        assert_near(number(point, "mean"), 1 / (1 + exp(1.5 - (i ? (double)i - 1.5 : 0))), 1e-12);
    }
    json_decref(page);
    json_decref(v.run);
    free_glm(&g);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_effects),
        cmocka_unit_test(replicates_numbers),
        cmocka_unit_test(replicates_labels),
        cmocka_unit_test(shows_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
