/* test_locale.c - the library under a locale with decimal commas: defaults, options as text, saved states and messages
 * are those of the C locale, and the locale of the program is left alone. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* of cmocka: the program has a function of this name */

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"
#include "wvgd.h"
#include "write.h"

/* Where LOCPATH is set, setlocale of glibc leaks the list of its directories. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:argz_add_sep";
}

static char directory[] = "/tmp/wvgd-locale-XXXXXX";

/* Where localedef cannot make one there is nothing to test. */
static int make_locale(void **state)
{
    char command[300], text[16];
    *state = NULL;
    if (!mkdtemp(directory))
        return -1;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/comma.UTF-8 >/dev/null 2>&1", directory);
    if (system(command) || setenv("LOCPATH", directory, 1) || !setlocale(LC_ALL, "comma.UTF-8"))
        return 0;
    snprintf(text, sizeof text, "%.1f", 1.5);
    *state = strcmp(text, "1,5") ? NULL : directory;
    return 0;
}

static int remove_locale(void **state)
{
    char command[300];
    (void)state;
    setlocale(LC_ALL, "C");
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static void need(void **state)
{
    if (*state)
        return;
    print_message("skipped: there is no locale with decimal commas (Debian package locales)\n");
    skip();
}

static void options_are_those_of_c(void **state)
{
    need(state);
    wvgd_options o;
    wvgd_error error;
    char text[40];
    wvgd_options_init(&o);
    assert_true(o.tol == 0.005 && o.evidence_se == 0.02 && o.power == 1.5);
    assert_int_equal(wvgd_options_set(&o, "tol", "0.25", &error), WVGD_OK);
    assert_true(o.tol == 0.25);
    assert_int_equal(wvgd_options_get(&o, "tol", text, sizeof text, &error), WVGD_OK);
    assert_string_equal(text, "0.25");
    assert_int_equal(wvgd_options_set(&o, "tol", "0,25", &error), WVGD_E_ARGUMENT);
}

static int normal(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        log_p[i] = -0.5 * z[i] * z[i];
        if (grad)
            grad[i] = -z[i];
    }
    return 0;
}

/* A state that was saved under one locale goes on under the other, and messages do not change. */
static void states_and_messages_are_those_of_c(void **state)
{
    need(state);
    wvgd_model model = {.name = "normal", .dim = 1, .log_density = normal, .has_gradient = true};
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    wvgd_options_init(&o);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error), *other;
    assert_non_null(fit);
    assert_int_equal(wvgd_run(fit, NULL, NULL, &error), WVGD_OK);
    wvgd_get_results(fit, &r);
    for (size_t i = 0; i < r.reasons; i++)
        for (const char *c = r.reason[i]; *c; c++)
            assert_false(*c == ',' && c > r.reason[i] && c[-1] >= '0' && c[-1] <= '9' && c[1] >= '0' && c[1] <= '9');
    size_t size = wvgd_save_size(fit);
    void *buffer = malloc(size);
    assert_non_null(buffer);
    assert_int_equal(wvgd_save(fit, buffer, size, &error), WVGD_OK);
    setlocale(LC_ALL, "C");
    assert_non_null(other = wvgd_new(&model, &o, NULL, &error));
    assert_int_equal(wvgd_restore(other, buffer, size, &error), WVGD_OK);
    assert_non_null(setlocale(LC_ALL, "comma.UTF-8"));
    double start = NAN;
    o.particles = 1;
    assert_null(wvgd_new(&model, &o, &start, &error));
    o.tol = 12.5;
    assert_null(wvgd_new(&model, &o, NULL, &error));
    assert_non_null(strstr(error.text, "12.5"));
    free(buffer);
    wvgd_free(fit);
    wvgd_free(other);
}

static void files_are_those_of_c(void **state)
{
    need(state);
    char path[100], line[100] = "";
    whole_file w;
    failure f = {0};
    snprintf(path, sizeof path, "%s/numbers", directory);
    assert_int_equal(begin_file(&w, path, &f), 0);
    put_number(w.stream, 1.25e-7);
    assert_int_equal(finish_file(&w, &f), 0);
    FILE *s = fopen(path, "r");
    assert_non_null(s);
    assert_non_null(fgets(line, sizeof line, s));
    fclose(s);
    assert_string_equal(line, "1.2499999999999999e-07");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_those_of_c),
        cmocka_unit_test(states_and_messages_are_those_of_c),
        cmocka_unit_test(files_are_those_of_c),
    };
    return cmocka_run_group_tests(tests, make_locale, remove_locale);
}
