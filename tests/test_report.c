/* test_report.c - parts of the report: packed numbers, densities, tables of a run directory. */
#include "kernel_density.h" /* before cmocka.h, which has a macro called fail */
#include "number_table.h"
#include "pack.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static void expect_packed(json_t *packed, const char *wanted)
{
    assert_non_null(packed);
    assert_string_equal(json_string_value(packed), wanted);
    json_decref(packed);
}

/* base64 of little-endian numbers, written down by hand. */
static void packs(void **state)
{
    (void)state;
    expect_packed(pack_floats(1, (double[]){1}), "AACAPw==");
    expect_packed(pack_floats(2, (double[]){1, -2}), "AACAPwAAAMA=");
    expect_packed(pack_floats(0, (double[]){0}), "");
    expect_packed(pack_counts(3, (size_t[]){1, 256, SIZE_MAX}), "AQAAAf//");
    expect_packed(pack_levels(3, (double[]){0, 10, NAN}, 1, 0, 10), "AAD+////");
    expect_packed(pack_levels(2, (double[]){-1, INFINITY}, 1, 0, 10), "/////w==");
    expect_packed(pack_correlations(3, (double[]){0, 1, -1}), "AH+B");
    expect_packed(pack_correlations(1, (double[]){NAN}), "gA==");
}

/* Each column between its own least and greatest number; one without numbers does no harm. */
static void packs_tables(void **state)
{
    (void)state;
    json_t *t = pack_table(2, 3, (double[]){1, 5, NAN, 3, 5, NAN});
    assert_non_null(t);
    assert_true(json_real_value(json_array_get(json_object_get(t, "lo"), 0)) == 1);
    assert_true(json_real_value(json_array_get(json_object_get(t, "hi"), 0)) == 3);
    assert_string_equal(json_string_value(json_object_get(t, "levels")), "AAD+/wAAAAD/////");
    json_decref(t);
}

enum { DRAWS = 4000, GRID = 160 };

/* Inverse of the standard normal distribution function at u, by halving. */
static double normal_quantile(double u)
{
    double below = -6, above = 6;
    for (int step = 0; step < 50; step++) {
        double z = (below + above) / 2;
        *(0.5 * erfc(-z / sqrt(2)) < u ? &below : &above) = z;
    }
    return (below + above) / 2;
}

/* Quantiles of two normals, sd 1 and 0.1, ten apart, 3 : 1: no smearing, and the heights of the wide one within 15 %
 * (the bias of the kernel and of bins as wide as the sd of the narrow one). */
static void finds_densities(void **state)
{
    (void)state;
    size_t cell[DRAWS];
    double x[DRAWS], density[GRID], lo = -5, hi = 12, sum, middle, wide;
    for (size_t i = 0; i < DRAWS; i++) {
        double z = normal_quantile(((double)(i % (DRAWS / 4)) + 0.5) / (DRAWS / 4));
        x[i] = i < 3 * DRAWS / 4 ? z : 10 + 0.1 * z;
        cell[i] = i >= 3 * DRAWS / 4;
    }
    double step = (hi - lo) / GRID;
    for (size_t cells = 1; cells <= 2; cells++) {
        assert_true(estimate_density(&(weighted_values){DRAWS, 1, x, NULL, cell, cells}, GRID, lo, hi, density));
        sum = middle = wide = 0;
        for (size_t g = 0; g < GRID; g++) {
            double at = lo + ((double)g + 0.5) * step;
            sum += density[g] * step;
            middle = at > 4.5 && at < 8.5 ? fmax(middle, density[g]) : middle;
            wide = fabs(at) < 1 ? fmax(wide, fabs(density[g] / (0.75 * exp(-at * at / 2) / sqrt(8 * atan(1))) - 1))
                                : wide;
        }
        assert_true(fabs(sum - 1) < 0.01);
        assert_true(middle < 0.01);
        assert_true(wide < 0.15);
    }
}

/* Curves end at bounds: at 0 for what is positive or negative, at the last value where many are next to it; a
 * density has its full height there, and all of its mass inside. */
static void stops_at_bounds(void **state)
{
    (void)state;
    double x[DRAWS], density[GRID], lo, hi, shown_lo, shown_hi;
    for (int sign = 1; sign >= -1; sign -= 2)
        for (double bound = 0; bound < 6; bound += 5) {
            for (size_t i = 0; i < DRAWS; i++)
                /* an exponential distribution, moved and mirrored */
                x[i] = sign * (bound - log(((double)i + 0.5) / DRAWS));
            assert_true(find_curve_range(DRAWS, x, 1, &lo, &hi));
            assert_true(fabs((sign > 0 ? lo : hi) - sign * bound) < 0.001);
            assert_true(sign > 0 ? hi > bound + 5 : lo < -bound - 5);
            assert_true(estimate_density(&(weighted_values){DRAWS, 1, x, NULL, NULL, 0}, GRID, lo, hi, density));
            double sum = 0, step = (hi - lo) / GRID;
            for (size_t g = 0; g < GRID; g++)
                sum += density[g] * step;
            assert_true(fabs(sum - 1) < 0.01);
            assert_true(fabs(density[sign > 0 ? 0 : GRID - 1] - 1) < 0.15);
        }
    for (size_t i = 0; i < DRAWS; i++)
        x[i] = 3 + normal_quantile(((double)i + 0.5) / DRAWS);
    assert_true(find_curve_range(DRAWS, x, 1, &lo, &hi));
    assert_true(find_shown_range(DRAWS, x, 1, &shown_lo, &shown_hi));
    assert_true(lo == shown_lo && hi == shown_hi); /* tails have room */
    assert_true(find_curve_range(DRAWS / 40, x, 40, &lo, &hi));
    assert_true(find_shown_range(DRAWS / 40, x, 40, &shown_lo, &shown_hi));
    assert_true(lo == shown_lo && hi == shown_hi); /* so have those of a hundred values */
    for (size_t i = 0; i < DRAWS; i++)
        x[i] = i % 4 == 0;
    assert_true(find_curve_range(DRAWS, x, 1, &lo, &hi));
    assert_true(lo == 0 && hi == 1);
    assert_true(estimate_density(&(weighted_values){DRAWS, 1, x, NULL, NULL, 0}, GRID, lo, hi, density));
    /* the greatest value is not lost */
    assert_true(density[0] > density[GRID / 2] && density[GRID - 1] > density[GRID / 2]);
}

static void survives_odd_values(void **state)
{
    (void)state;
    double density[GRID], odd[] = {NAN, INFINITY, 3, 3, -INFINITY}, weight[] = {1, 1, 0.5, NAN, -1}, lo, hi;
    assert_true(estimate_density(&(weighted_values){5, 1, odd, weight, NULL, 0}, GRID, 2, 4, density));
    assert_true(estimate_density(&(weighted_values){0, 1, NULL, NULL, NULL, 0}, GRID, 0, 1, density));
    assert_true(density[0] == 0);
    assert_true(estimate_density(&(weighted_values){5, 1, odd, weight, NULL, 0}, GRID, -1.7e308, 1.7e308, density));
    assert_true(find_shown_range(5, odd, 1, &lo, &hi));
    assert_true(lo < 3 && hi > 3);
    assert_true(find_curve_range(5, odd, 1, &lo, &hi));
    assert_true(lo < 3 && hi > 3);
    assert_true(find_shown_range(0, NULL, 1, &lo, &hi));
    assert_true(lo < hi);
    assert_true(find_curve_range(0, NULL, 1, &lo, &hi));
    assert_true(lo < hi);
}

static void write_text(const char *path, const char *text)
{
    FILE *s = fopen(path, "w");
    assert_non_null(s);
    fputs(text, s);
    assert_int_equal(fclose(s), 0);
}

static void reads_tables(void **state)
{
    (void)state;
    char path[] = "/tmp/wvgd-table-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    number_table t;
    failure f;
    write_text(path, "# a comment\na,\"b \"\"c\"\"\",a\n1,NaN,-Inf\n# another\n2,word,1e3x\n");
    assert_int_equal(read_table(path, &t, &f), 0);
    assert_int_equal(t.rows, 2);
    assert_int_equal(t.columns, 3);
    assert_string_equal(table_name(&t, 1), "b \"c\"");
    assert_int_equal(table_column(&t, "a"), 0);
    assert_int_equal(table_column(&t, "d"), 3);
    assert_true(isnan(table_number(&t, 0, 1)) && isinf(table_number(&t, 0, 2)) && isnan(table_number(&t, 1, 2)));
    assert_string_equal(table_text(&t, 1, 1), "word");
    free_number_table(&t);
    write_text(path, "a,b\n1,2\n3\n");
    assert_int_equal(read_table(path, &t, &f), EX_DATAERR);
    assert_non_null(strstr(f.text, ":3: found 1 fields"));
    write_text(path, "# nothing else\n");
    assert_int_equal(read_table(path, &t, &f), EX_DATAERR);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs),           cmocka_unit_test(packs_tables),        cmocka_unit_test(finds_densities),
        cmocka_unit_test(stops_at_bounds), cmocka_unit_test(survives_odd_values), cmocka_unit_test(reads_tables)};
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
