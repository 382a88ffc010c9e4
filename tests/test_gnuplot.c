/* test_gnuplot.c - figures by gnuplot: two whole files, or none and the reason. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* cmocka's, and a function of the program's */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "gnuplot.h"
#include "text.h"

static char dir[] = "/tmp/wvgd-gnuplot-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static const char *path_of(const char *file)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return path;
}

static int remove_dir(void **state)
{
    static const char *const files[] = {"figure.svg", "figure.png"};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        unlink(path_of(files[i]));
    return rmdir(dir);
}

static size_t count_files(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void test_figure(void **state)
{
    char *text;
    size_t size;
    failure f;
    (void)state;
    if (!has_gnuplot())
        skip();
    assert_int_equal(draw_figure(dir, "figure", 400, 300,
                                 "$d << EOD\n1 2\n2 3\nEOD\nplot $d with lines lt 2 title 'x'\n", &f),
                     0);
    assert_int_equal(count_files(), 2);
    assert_int_equal(read_text(path_of("figure.svg"), &text, &size, &f), 0);
    assert_non_null(strstr(text, "</svg>"));
    assert_non_null(strstr(text, "width=\"400\" height=\"300\""));
    char red[3], green[3], blue[3]; /* svg: rgb(213,  94,   0) */
    assert_int_equal(sscanf(figure_colour(1), "#%2s%2s%2s", red, green, blue), 3);
    char wanted[40];
    snprintf(wanted, sizeof wanted, "rgb(%3lu, %3lu, %3lu)", strtoul(red, NULL, 16), strtoul(green, NULL, 16),
             strtoul(blue, NULL, 16));
    assert_non_null(strstr(text, wanted));
    free(text);
    assert_string_equal(figure_colour(FIGURE_COLOURS), figure_colour(0));
}

/* What was there before stays as it is. */
static void test_wrong_script(void **state)
{
    failure f;
    (void)state;
    if (!has_gnuplot())
        skip();
    size_t before = count_files();
    assert_int_equal(draw_figure(dir, "figure", 400, 300, "plot sin(x) with nothing\n", &f), EX_SOFTWARE);
    assert_non_null(strstr(f.text, "gnuplot cannot draw figure"));
    assert_non_null(strstr(f.text, "line "));
    assert_int_equal(count_files(), before);
    assert_int_equal(draw_figure("/nowhere", "figure", 400, 300, "plot sin(x)\n", &f), EX_CANTCREAT);
}

static void test_no_gnuplot(void **state)
{
    failure f;
    const char *path = getenv("PATH");
    char *kept = strdup(path ? path : "");
    (void)state;
    setenv("PATH", dir, 1);
    assert_false(has_gnuplot());
    size_t before = count_files();
    assert_int_equal(draw_figure(dir, "figure", 400, 300, "plot sin(x)\n", &f), EX_UNAVAILABLE);
    assert_non_null(strstr(f.text, "gnuplot-nox"));
    assert_int_equal(count_files(), before);
    setenv("PATH", kept, 1);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_figure), cmocka_unit_test(test_wrong_script),
                                       cmocka_unit_test(test_no_gnuplot)};
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
