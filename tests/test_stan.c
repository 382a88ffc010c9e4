/* test_stan.c - Stan programs before Stan sees them: newer syntax rewritten, files included, and
 * texts that are no programs at all. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* ours takes arguments */
#include "stan_rewrite.h"
#include "stan_source.h"
#include "test_random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* Without the blanks that rewriting leaves behind or takes away, but with the lines. */
static void squeeze(const char *text, char *out)
{
    for (; *text; text++)
        if (*text != ' ')
            *out++ = *text;
    *out = '\0';
}

static void rewrites(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after; /* after NULL: nothing to change */
    } cases[] = {
        {"data { int N; real x[N]; }", NULL},
        {"data { int N; array[N] real x; }", "data { int N; real x[N]; }"},
        {"data { array[N, M] vector<lower=0>[K] x; }", "data { vector<lower=0>[K] x[N, M]; }"},
        {"data {\n array[N,\n M // two\n ] int<lower=0, upper=1> x; }",
         "data {\n\n // two\n int<lower=0, upper=1> x[N, M]; }"},
        {"parameters { array[K] simplex[3] t, s; }", "parameters { simplex[3] t[K]; simplex[3] s[K]; }"},
        {"parameters { real a; real b; }", NULL},
        {"parameters { real a, b; }", "parameters { real a; real b; }"},
        {"functions { array[] real f(array[,] int x, data array[] vector y) { return x; } }",
         "functions { real[] f(int[,] x, data vector[] y) { return x; } }"},
        {"model { array[2] int a = {1, 2}; }", "model { int a[2] = {1, 2}; }"},
        {"model { array[2] real a = {1, b[2]}; }", "model { real a[2] = {1.0, b[2]}; }"},
        {"model { array[2] real a = rep_array(0, 2); }", "model { real a[2] = rep_array(0.0, 2); }"},
        {"model { x ~ normal(0, 1); real y = 1; y ~ normal(x, 1); }",
         "model { x ~ normal(0, 1); { real y = 1; y ~ normal(x, 1); } }"},
        {"model { for (i in 1:2) { z += 1; real y; } real w; }",
         "model { for (i in 1:2) { z += 1; { real y; } } { real w; } }"},
        {"generated quantities { real a = 1; for (i in 1:3) a += i; array[2] real b = f(a), c; int d[3]; }",
         "generated quantities { real a = 1; real b[2]; real c[2]; int d[3]; for (i in 1:3) a += i; b = f(a); }"},
        {"model { target += foo_lupdf(x | 1) + bar_lupmf(y | 2); }",
         "model { target += foo_lpdf(x | 1) + bar_lpmf(y | 2); }"},
        {"model { target += log(normal_cdf(f(x | y) | 0, 1)); }",
         "model { target += log(normal_cdf(f(x | y), 0, 1)); }"},
        {"model { int a = 7 %/% 2; }", "model { int a = 7 / 2; }"},
        {"model { print(\"\xc3\xa9z\"); } // \xc3\xa9", "model { print(\"?\?z\"); } // \xc3\xa9"},
        {"model { profile(\"a\") { x ~ normal(0, 1); } }", "model { { x ~ normal(0, 1); } }"},
        {"model { vector[3] v = zeros_vector(3) + identity_matrix(N) * ones_vector(N); }",
         "model { vector[3] v = rep_vector(0, 3) + diag_matrix(rep_vector(1, N)) * rep_vector(1, N); }"},
        {"functions { vector zeros_vector(int n) { return rep_vector(0, n); } } model { x = zeros_vector(3); }", NULL},
        {"model { array[i] = 3; print(\"array[N] real x;\"); /* array[N] real x; */ // array[N] real x;\n }", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stan_rewriting r = rewrite_stan(cases[i].before);
        char found[500] = "", expected[500] = "";
        if (r.text)
            squeeze(r.text, found);
        if (cases[i].after)
            squeeze(cases[i].after, expected);
        assert_string_equal(found, expected);
        assert_int_equal(*r.changes != '\0', cases[i].after != NULL);
        free(r.text);
    }
}

static void tells_newer_and_older(void **state)
{
    (void)state;
    stan_rewriting r = rewrite_stan("model {\n real y[3];\n tuple(int, int) t;\n}");
    assert_string_equal(r.newer, "tuple");
    assert_int_equal(r.newer_line, 3);
    assert_int_equal(r.old_arrays, 2);
    free(r.text);
    r = rewrite_stan("functions { real norm2(vector x) { return 1; } } model { target += norm2(y); }");
    assert_string_equal(r.newer, "");
    assert_int_equal(r.old_arrays, 0);
    free(r.text);
}

/* Lines stay where they are, whatever the text. */
static void survives_any_text(void **state)
{
    (void)state;
    static const char *const pieces[] = {"array",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "(",
                                         ")",
                                         "<",
                                         ">",
                                         "real",
                                         "int",
                                         "vector",
                                         "x",
                                         "y",
                                         ",",
                                         ";",
                                         "=",
                                         "1",
                                         "2.5",
                                         "for",
                                         "if",
                                         "else",
                                         "while",
                                         "model",
                                         "functions",
                                         "generated quantities",
                                         "\n",
                                         "//",
                                         "/*",
                                         "*/",
                                         "\"",
                                         "#",
                                         "|",
                                         "_cdf",
                                         "a_cdf",
                                         "b_lupdf",
                                         "%/%",
                                         "profile",
                                         "zeros_vector",
                                         "identity_matrix",
                                         "rep_array",
                                         "lower",
                                         "tuple",
                                         "complex",
                                         ".^",
                                         "\xff",
                                         "'"};
    test_random random = test_random_seed(11);
    for (size_t round = 0; round < 3000; round++) {
        char text[2000] = "";
        size_t at = 0, words = (size_t)(test_random_uniform(&random) * 120);
        for (size_t k = 0; k < words; k++) {
            size_t which = (size_t)(test_random_uniform(&random) * (double)(sizeof pieces / sizeof *pieces));
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", pieces[which],
                                   test_random_uniform(&random) < 0.8 ? " " : "");
        }
        stan_rewriting r = rewrite_stan(text);
        if (r.text) {
            size_t before = 0, after = 0;
            for (const char *c = text; *c; c++)
                before += *c == '\n';
            for (const char *c = r.text; *c; c++)
                after += *c == '\n';
            assert_int_equal(before, after);
        }
        free(r.text);
    }
    enum { DEEP = 200000 };
    static char deep[2 * DEEP + 10]; /* statements within statements */
    memset(deep, '{', DEEP);
    memset(deep + DEEP, '}', DEEP);
    free(rewrite_stan(deep).text);
    for (size_t i = 0; i < 2 * DEEP; i++)
        deep[i] = "{("[i % 2];
    deep[0] = 'x';
    deep[1] = '{';
    free(rewrite_stan(deep).text);
}

static void write_file(const char *name, const char *text)
{
    FILE *s = fopen(name, "w");
    assert_non_null(s);
    fputs(text, s);
    assert_int_equal(fclose(s), 0);
}

static void includes_files(void **state)
{
    (void)state;
    stan_source source;
    failure f;
    size_t line = 3;
    char directory[] = "/tmp/wvgd-test-stan-XXXXXX";
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    write_file("main.stan", "first\n  #include <part one.stan>\r\nlast // no newline at the end");
    write_file("part one.stan", "/* #include nothing\n#include nothing */\n#include \"inner.stan\"\n");
    write_file("inner.stan", "inner\n");
    assert_int_equal(read_stan("main.stan", &source, &f), 0);
    assert_string_equal(source.text,
                        "first\n/* #include nothing\n#include nothing */\ninner\nlast // no newline at the end\n");
    assert_int_equal(source.lines, 5);
    assert_string_equal(locate_stan(&source, &line), "part one.stan");
    assert_int_equal(line, 2);
    line = 4;
    assert_string_equal(locate_stan(&source, &line), "inner.stan");
    assert_int_equal(line, 1);
    line = 1000;
    assert_string_equal(locate_stan(&source, &line), "main.stan");
    assert_int_equal(line, 3);
    free_stan(&source);
    write_file("inner.stan", "#include inner.stan\n#include inner.stan\n");
    assert_int_equal(read_stan("main.stan", &source, &f), EX_DATAERR);
    write_file("inner.stan", "#include gone.stan\n");
    assert_int_equal(read_stan("main.stan", &source, &f), EX_NOINPUT);
    assert_non_null(strstr(f.text, "inner.stan:1: cannot find the included file gone.stan"));
    unlink("main.stan");
    unlink("part one.stan");
    unlink("inner.stan");
    assert_int_equal(chdir("/"), 0);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewrites),
        cmocka_unit_test(tells_newer_and_older),
        cmocka_unit_test(survives_any_text),
        cmocka_unit_test(includes_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
