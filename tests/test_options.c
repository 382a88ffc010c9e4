/* test_options.c - the option table: defaults, text in and out, ranges, junk, and structs filled by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wvgd.h"

static const char *const NAMES[] = {
    "solver",      "particles", "most-particles", "components", "family",          "rank",        "cells",
    "cost",        "power",     "estimator",      "sampler",    "draws",           "init",        "bend",
    "finish",      "starts",    "init-scale",     "max-iter",   "max-evaluations", "max-seconds", "tol",
    "evidence-se", "seed",      "min-batch",      "threads"};
enum { OPTIONS = sizeof NAMES / sizeof *NAMES };

static wvgd_options fresh(void)
{
    wvgd_options o;
    wvgd_options_init(&o);
    return o;
}

static const wvgd_option_info *info_of(const char *name)
{
    const wvgd_option_info *info;
    for (size_t i = 0; (info = wvgd_options_describe(i)) != NULL; i++)
        if (!strcmp(info->name, name))
            return info;
    fail_msg("no row for option %s", name);
    return NULL;
}

static bool is_choice(const wvgd_option_info *info)
{
    return strstr(info->values, "..") == NULL;
}

static void assert_text(const wvgd_options *o, const char *name, const char *expected)
{
    char text[64];
    assert_int_equal(wvgd_options_get(o, name, text, sizeof text, NULL), WVGD_OK);
    assert_string_equal(text, expected);
}

/* Refused, with a message that names option, value and rule; the options stay as they were. */
static void assert_refused(const char *name, const char *value)
{
    wvgd_options o = fresh(), before = o;
    wvgd_error error = {WVGD_OK, ""};
    if (wvgd_options_set(&o, name, value, &error) != WVGD_E_ARGUMENT)
        fail_msg("option %s took '%s'", name, value);
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    if (!strstr(error.text, name) || !strstr(error.text, value) || !strstr(error.text, info_of(name)->values))
        fail_msg("option %s, value '%s': the message is \"%s\"", name, value, error.text);
    assert_memory_equal(&o, &before, sizeof o);
    assert_int_equal(wvgd_options_set(&o, name, value, NULL), WVGD_E_ARGUMENT);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static void every_row_is_described(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIONS; i++) {
        const wvgd_option_info *info = wvgd_options_describe(i);
        assert_non_null(info);
        assert_string_equal(info->name, NAMES[i]);
        assert_true(strlen(info->help) > 10 && !strchr(info->help, '\n'));
        assert_true(strlen(info->values) > 2);
    }
    assert_null(wvgd_options_describe(OPTIONS));
    assert_null(wvgd_options_describe(SIZE_MAX));
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    wvgd_options o = fresh();
    assert_int_equal(o.size, sizeof o);
    assert_int_equal(o.solver, WVGD_STAGED);
    assert_int_equal(o.particles, 5);
    assert_int_equal(o.components, 80);
    assert_int_equal(o.family, WVGD_FULL);
    assert_int_equal(o.rank, 5);
    assert_int_equal(o.cells, WVGD_HARD);
    assert_int_equal(o.cost, WVGD_MAHALANOBIS);
    assert_true(o.power == 1.5);
    assert_int_equal(o.estimator, WVGD_NATURAL);
    assert_int_equal(o.sampler, WVGD_MIXTURE);
    assert_int_equal(o.draws, 0);
    assert_int_equal(o.init, WVGD_INIT_EXPLORE);
    assert_int_equal(o.starts, 0);
    assert_true(o.init_scale == 1.0);
    assert_int_equal(o.max_iter, 2000);
    assert_int_equal(o.max_evaluations, 0);
    assert_true(o.max_seconds == 0.0);
    assert_true(o.tol == 0.005);
    assert_true(o.evidence_se == 0.02);
    assert_int_equal(o.seed, 1);
    assert_int_equal(o.min_batch, 0);
    assert_int_equal(o.threads, 1); /* a library starts no threads unasked */
    assert_null(o.metric);
    assert_null(o.cost_function);
    assert_null(o.cost_batch);
    assert_null(o.cost_self);
    for (size_t i = 0; i < OPTIONS; i++) { /* and the text in the table is that default */
        wvgd_options again = fresh();
        char text[64];
        assert_int_equal(wvgd_options_set(&again, NAMES[i], info_of(NAMES[i])->initial, NULL), WVGD_OK);
        assert_memory_equal(&again, &o, sizeof o);
        assert_int_equal(wvgd_options_get(&o, NAMES[i], text, sizeof text, NULL), WVGD_OK);
        assert_int_equal(wvgd_options_set(&again, NAMES[i], text, NULL), WVGD_OK);
        assert_memory_equal(&again, &o, sizeof o);
    }
}

/* ---- text in and out --------------------------------------------------------------------------------------------- */
static void every_choice_round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIONS; i++) {
        const wvgd_option_info *info = info_of(NAMES[i]);
        if (!is_choice(info))
            continue;
        char values[128], *rest = values;
        snprintf(values, sizeof values, "%s", info->values);
        for (char *value = strtok_r(values, "|", &rest); value; value = strtok_r(NULL, "|", &rest)) {
            wvgd_options o = fresh();
            assert_int_equal(wvgd_options_set(&o, NAMES[i], value, NULL), WVGD_OK);
            assert_text(&o, NAMES[i], value);
        }
    }
    wvgd_options o = fresh(); /* the texts mean the enums of the header */
    assert_int_equal(wvgd_options_set(&o, "family", "lowrank", NULL), WVGD_OK);
    assert_int_equal(o.family, WVGD_LOWRANK);
    assert_int_equal(wvgd_options_set(&o, "cells", "soft", NULL), WVGD_OK);
    assert_int_equal(o.cells, WVGD_SOFT);
    assert_int_equal(wvgd_options_set(&o, "estimator", "reparam", NULL), WVGD_OK);
    assert_int_equal(o.estimator, WVGD_REPARAM);
    assert_int_equal(wvgd_options_set(&o, "sampler", "reject", NULL), WVGD_OK);
    assert_int_equal(o.sampler, WVGD_REJECT);
    assert_int_equal(wvgd_options_set(&o, "cost", "callback", NULL), WVGD_OK);
    assert_int_equal(o.cost, WVGD_CALLBACK);
    assert_int_equal(wvgd_options_set(&o, "init", "normal", NULL), WVGD_OK);
    assert_int_equal(o.init, WVGD_INIT_NORMAL);
    assert_int_equal(wvgd_options_set(&o, "init", "prior", NULL), WVGD_OK);
    assert_int_equal(o.init, WVGD_INIT_PRIOR);
    assert_int_equal(wvgd_options_set(&o, "solver", "joint", NULL), WVGD_OK);
    assert_int_equal(o.solver, WVGD_JOINT);
}

/* Any double that is in range comes back as the same bits. */
static void numbers_round_trip(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *shown;
    } rows[] = {{"particles", "1", "1"},
                {"particles", "1e3", "1000"},
                {"particles", "100000", "100000"},
                {"particles", "7.0", "7"},
                {"rank", "1000", "1000"},
                {"draws", "0", "0"},
                {"draws", "1000000", "1000000"},
                {"max-iter", "1e6", "1000000"},
                {"power", "1", "1"},
                {"power", "8", "8"},
                {"power", "2.5", "2.5"},
                {"min-batch", "0", "0"},
                {"min-batch", "4096", "4096"},
                {"max-evaluations", "0", "0"},
                {"max-evaluations", "1e9", "1000000000"},
                {"max-seconds", "0", "0"},
                {"max-seconds", "1e9", NULL},
                {"init-scale", "1e-50", NULL},
                {"init-scale", "1e50", NULL},
                {"init-scale", "0.1", NULL},
                {"tol", "1e-8", NULL},
                {"tol", "10", "10"},
                {"evidence-se", "0.001", NULL},
                {"evidence-se", "1", "1"},
                {"seed", "0", "0"},
                {"seed", "18446744073709551615", "18446744073709551615"},
                {"seed", "007", "7"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wvgd_options o = fresh(), again = fresh();
        char text[64];
        wvgd_error error;
        if (wvgd_options_set(&o, rows[i].name, rows[i].value, &error) != WVGD_OK)
            fail_msg("%s %s: %s", rows[i].name, rows[i].value, error.text);
        if (rows[i].shown)
            assert_text(&o, rows[i].name, rows[i].shown);
        assert_int_equal(wvgd_options_get(&o, rows[i].name, text, sizeof text, NULL), WVGD_OK);
        assert_int_equal(wvgd_options_set(&again, rows[i].name, text, NULL), WVGD_OK);
        assert_memory_equal(&o, &again, sizeof o);
    }
    wvgd_options o = fresh();
    o.tol = nextafter(0.1, 1.0);
    char text[64];
    assert_int_equal(wvgd_options_get(&o, "tol", text, sizeof text, NULL), WVGD_OK);
    assert_int_equal(wvgd_options_set(&o, "tol", text, NULL), WVGD_OK);
    assert_true(o.tol == nextafter(0.1, 1.0));
}

static void dashes_and_underscores_are_equal(void **state)
{
    (void)state;
    wvgd_options o = fresh();
    assert_int_equal(wvgd_options_set(&o, "max_iter", "17", NULL), WVGD_OK);
    assert_text(&o, "max-iter", "17");
    assert_int_equal(wvgd_options_set(&o, "max-iter", "18", NULL), WVGD_OK);
    assert_text(&o, "max_iter", "18");
    assert_int_equal(wvgd_options_set(&o, "evidence_se", "0.5", NULL), WVGD_OK);
    assert_true(o.evidence_se == 0.5);
}

static void small_buffers_are_refused(void **state)
{
    (void)state;
    wvgd_options o = fresh();
    wvgd_error error = {WVGD_OK, ""};
    char text[16] = "untouched";
    /* "mahalanobis" and its end need 12 */
    assert_int_equal(wvgd_options_get(&o, "cost", text, 11, &error), WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "cost"));
    assert_int_equal(wvgd_options_get(&o, "cost", text, 12, NULL), WVGD_OK);
    assert_int_equal(wvgd_options_get(&o, "cost", NULL, 0, NULL), WVGD_E_ARGUMENT);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */
static void unknown_names_are_refused(void **state)
{
    (void)state;
    static const char *const unknown[] = {"",           "Particles",  "particle",      "particles ",
                                          " particles", "maxiter",    "max--iter",     "-max-iter",
                                          "metric",     "size",       "cost_function", "cost-self",
                                          "init-scal",  "init-scale2"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        wvgd_options o = fresh(), before = o;
        wvgd_error error = {WVGD_OK, ""};
        char text[64];
        assert_int_equal(wvgd_options_set(&o, unknown[i], "5", &error), WVGD_E_ARGUMENT);
        assert_int_equal(error.code, WVGD_E_ARGUMENT);
        assert_non_null(strstr(error.text, unknown[i]));
        assert_int_equal(wvgd_options_get(&o, unknown[i], text, sizeof text, &error), WVGD_E_ARGUMENT);
        assert_int_equal(wvgd_options_get(&o, unknown[i], text, sizeof text, NULL), WVGD_E_ARGUMENT);
        assert_memory_equal(&o, &before, sizeof o);
    }
    char name[4000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    wvgd_options o = fresh();
    wvgd_error error;
    assert_int_equal(wvgd_options_set(&o, name, name, &error), WVGD_E_ARGUMENT);
    assert_int_equal(wvgd_options_set(&o, "seed", name, &error), WVGD_E_ARGUMENT);
    assert_true(strlen(error.text) < sizeof error.text);
}

static void junk_is_refused(void **state)
{
    (void)state;
    static const char *const junk[] = {"",         " ",   "x",         " 5",   "\t5",      "\n5",   "\v5",    "\f5",
                                       "\r5",      "5 ",  "5\n",       "5x",   "5,",       "5 5",   "1e",     "nan",
                                       "-nan",     "NaN", "inf",       "-inf", "INFINITY", "1e999", "-1e999", "1e308",
                                       "-1",       "-5",  "--5",       "5..5", "1e3e3",    "0x",    "0x10",   "0X1p3",
                                       "+0x5",     ".",   "+",         "5.e",  "e5",       "5e+",   "\x0a7",  "true",
                                       "diagfull", "|",   "diag|full", "DIAG", "diag "};
    for (size_t i = 0; i < OPTIONS; i++)
        for (size_t k = 0; k < sizeof junk / sizeof *junk; k++)
            assert_refused(NAMES[i], junk[k]);
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } rows[] = {{"particles", "0"},
                {"particles", "100001"},
                {"particles", "2.5"},
                {"particles", "1e-3"},
                {"rank", "0"},
                {"rank", "1001"},
                {"draws", "1000001"},
                {"draws", "0.5"},
                {"max-iter", "0"},
                {"max-iter", "1000001"},
                {"max-iter", "1.5"},
                {"power", "0.999"},
                {"power", "8.001"},
                {"init-scale", "0"},
                {"init-scale", "1e200"},
                {"init-scale", "1e-200"},
                {"min-batch", "4097"},
                {"min-batch", "1.5"},
                {"max-evaluations", "-1"},
                {"max-evaluations", "1000000001"},
                {"max-seconds", "-1e-9"},
                {"max-seconds", "1.1e9"},
                {"tol", "0"},
                {"tol", "9e-9"},
                {"tol", "10.1"},
                {"evidence-se", "0"},
                {"evidence-se", "0.0009"},
                {"evidence-se", "1.1"},
                {"seed", "-0"},
                {"seed", "+1"},
                {"seed", "1.0"},
                {"seed", "1e3"},
                {"seed", "0x10"},
                {"seed", "18446744073709551616"},
                {"seed", "\v-5"},
                {"family", "0"},
                {"family", "ful"},
                {"family", "fulll"},
                {"cost", "functional"},
                {"init", "zero"},
                {"components", "0"},
                {"components", "201"},
                {"starts", "100001"},
                {"starts", "0.5"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].name, rows[i].value);
}

/* The ends of the ranges that the table shows are in, and what lies ten times beyond is out. */
static void ranges_are_as_shown(void **state)
{
    (void)state;
    size_t ranges = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        const wvgd_option_info *info = info_of(NAMES[i]);
        char low[64], high[64], beyond[64];
        const char *dots = strstr(info->values, "..");
        if (is_choice(info) || !strcmp(NAMES[i], "seed"))
            continue;
        assert_non_null(dots);
        snprintf(low, sizeof low, "%.*s", (int)(dots - info->values), info->values);
        snprintf(high, sizeof high, "%s", dots + 2);
        wvgd_options o = fresh();
        assert_int_equal(wvgd_options_set(&o, NAMES[i], low, NULL), WVGD_OK);
        assert_int_equal(wvgd_options_set(&o, NAMES[i], high, NULL), WVGD_OK);
        snprintf(beyond, sizeof beyond, "%.17g", 10 * atof(high));
        assert_refused(NAMES[i], beyond);
        snprintf(beyond, sizeof beyond, "%.17g", atof(low) > 0 ? atof(low) / 10 : -1.0);
        assert_refused(NAMES[i], beyond);
        ranges++;
    }
    assert_int_equal(ranges, 15);
}

/* ---- structs filled by hand -------------------------------------------------------------------------------------- */
static int flat(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -0.5 * z[i] * z[i];
        if (grad)
            grad[i] = -z[i];
    }
    return 0;
}
static const wvgd_model MODEL = {.dim = 1, .log_density = flat, .has_gradient = true};

static void assert_new_refuses(const wvgd_options *o, const char *name, const char *value, const char *rule)
{
    wvgd_error error = {WVGD_OK, ""};
    assert_null(wvgd_new(&MODEL, o, NULL, &error));
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    if (!strstr(error.text, name) || !strstr(error.text, value) || !strstr(error.text, rule))
        fail_msg("expected '%s', '%s' and '%s' in \"%s\"", name, value, rule, error.text);
    assert_null(wvgd_new(&MODEL, o, NULL, NULL));
}

#define REFUSE(field, bad, name, value)                                                                                \
    do {                                                                                                               \
        wvgd_options hand = fresh();                                                                                   \
        hand.field = bad;                                                                                              \
        assert_new_refuses(&hand, name, value, info_of(name)->values);                                                 \
    } while (0)

static void bad_structs_are_refused(void **state)
{
    (void)state;
    REFUSE(particles, 0, "particles", "0");
    REFUSE(particles, 100001, "particles", "100001");
    REFUSE(particles, SIZE_MAX, "particles", "18446744073709551615");
    REFUSE(threads, 0, "threads", "0");
    REFUSE(threads, 4097, "threads", "4097");
    REFUSE(rank, 0, "rank", "0");
    REFUSE(rank, SIZE_MAX, "rank", "18446744073709551615");
    REFUSE(power, 0.5, "power", "0.5");
    REFUSE(power, NAN, "power", "nan");
    REFUSE(power, INFINITY, "power", "inf");
    REFUSE(draws, 1000001, "draws", "1000001");
    REFUSE(init_scale, 0, "init-scale", "0");
    REFUSE(init_scale, -1, "init-scale", "-1");
    REFUSE(init_scale, INFINITY, "init-scale", "inf");
    REFUSE(max_iter, 0, "max-iter", "0");
    REFUSE(min_batch, 4097, "min-batch", "4097");
    REFUSE(max_evaluations, 1000000001, "max-evaluations", "1000000001");
    REFUSE(max_seconds, -1, "max-seconds", "-1");
    REFUSE(max_seconds, NAN, "max-seconds", "nan");
    REFUSE(tol, 0, "tol", "0");
    REFUSE(evidence_se, 2, "evidence-se", "2");
}

/* Values that no name stands for; the message shows the number. */
static void bad_enums_are_refused(void **state)
{
    (void)state;
    REFUSE(family, (wvgd_family)3, "family", "3");
    REFUSE(family, (wvgd_family)77, "family", "77");
    REFUSE(family, (wvgd_family)-1, "family", "-1");
    REFUSE(cells, (wvgd_cells)2, "cells", "2");
    REFUSE(cost, (wvgd_cost)6, "cost", "6");
    REFUSE(cost, (wvgd_cost)1000000, "cost", "1000000");
    REFUSE(estimator, (wvgd_estimator)-7, "estimator", "-7");
    REFUSE(sampler, (wvgd_sampler)2, "sampler", "2");
    REFUSE(init, (wvgd_init)3, "init", "3");
    REFUSE(solver, (wvgd_solver)2, "solver", "2");
    wvgd_options o = fresh(); /* its text is the number */
    o.family = (wvgd_family)5;
    assert_text(&o, "family", "5");
}

static void wrong_size_is_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, sizeof(wvgd_options) - 8, sizeof(wvgd_options) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        wvgd_options o = fresh();
        char value[32], rule[32];
        o.size = sizes[i];
        snprintf(value, sizeof value, "%zu", sizes[i]);
        snprintf(rule, sizeof rule, "%zu", sizeof o);
        assert_new_refuses(&o, "size", value, rule);
    }
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    wvgd_options o = fresh();
    o.cost = WVGD_CALLBACK;
    assert_new_refuses(&o, "cost", "callback", "cost_function");
    o = fresh();
    o.family = WVGD_LOWRANK;
    o.estimator = WVGD_REPARAM;
    assert_new_refuses(&o, "reparam", "lowrank", "diag or full");
    static const double metrics[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        o = fresh();
        o.metric = &metrics[i];
        assert_new_refuses(&o, "metric", "positive definite", "metric");
    }
    const double z0[] = {0, 1, NAN, 2, 3};
    wvgd_error error = {WVGD_OK, ""};
    o = fresh();
    assert_null(wvgd_new(&MODEL, &o, z0, &error));
    assert_int_equal(error.code, WVGD_E_ARGUMENT);
    assert_non_null(strstr(error.text, "particle 3"));
    assert_non_null(strstr(error.text, "nan"));
}

static void bad_models_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t dim;
        bool gradient;
        const char *option, *value, *what;
    } rows[] = {{0, true, NULL, NULL, "0"},
                {1000001, true, NULL, NULL, "1000001"},
                {SIZE_MAX, true, "family", "diag", "dimensions"},
                {5000, true, "family", "full", "full"},
                {65, false, "estimator", "natural", "gradient"},
                {3, false, "estimator", "reparam", "gradient"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wvgd_options o = fresh();
        wvgd_model model = MODEL;
        wvgd_error error = {WVGD_OK, ""};
        model.dim = rows[i].dim;
        model.has_gradient = rows[i].gradient;
        if (rows[i].option)
            assert_int_equal(wvgd_options_set(&o, rows[i].option, rows[i].value, NULL), WVGD_OK);
        assert_null(wvgd_new(&model, &o, NULL, &error));
        assert_int_equal(error.code, WVGD_E_ARGUMENT);
        assert_non_null(strstr(error.text, rows[i].what));
        assert_null(wvgd_new(&model, &o, NULL, NULL));
    }
}

/* Sizes that no machine has: no memory, not an overflow. */
static void too_much_is_no_memory(void **state)
{
    (void)state;
    wvgd_options o = fresh();
    wvgd_model model = MODEL;
    wvgd_error error = {WVGD_OK, ""};
    model.dim = 1000000;
    o.family = WVGD_LOWRANK;
    o.rank = 1000;
    o.particles = 100000;
    o.draws = 1000000;
    assert_null(wvgd_new(&model, &o, NULL, &error));
    assert_int_equal(error.code, WVGD_E_MEMORY);
    assert_non_null(strstr(error.text, "1000000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_described),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(every_choice_round_trips),
        cmocka_unit_test(numbers_round_trip),
        cmocka_unit_test(dashes_and_underscores_are_equal),
        cmocka_unit_test(small_buffers_are_refused),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(junk_is_refused),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(ranges_are_as_shown),
        cmocka_unit_test(bad_structs_are_refused),
        cmocka_unit_test(bad_enums_are_refused),
        cmocka_unit_test(wrong_size_is_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(bad_models_are_refused),
        cmocka_unit_test(too_much_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
