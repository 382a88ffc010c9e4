/* test_input.c - from files to models: what is refused, with which exit code and message; what is accepted,
 * and what becomes of it; external models. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* ours takes arguments */
#undef fail_msg
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include "model_data.h"
#include "near.h"
#include "open_model.h"
#include "test_random.h"
#include "text.h"

#define FAIL(...) (print_error(__VA_ARGS__), _fail(__FILE__, __LINE__))

static char directory[] = "/tmp/wvgd_test_input_XXXXXX";
static char data_path[128]; /* of the file that tests write */

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(data_path, sizeof data_path, "%s/data.txt", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(data_path);
    return rmdir(directory);
}

static void write_data(const char *content, size_t size)
{
    unlink(data_path); /* a new file: truncating an old one may wait for the disk */
    FILE *file = fopen(data_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Sets "name=value" or "flag" among the values of the model options. */
static void set_option(const char **values, const char *text)
{
    if (!text)
        return;
    size_t length = strcspn(text, "=");
    const model_option *option;
    for (unsigned i = 0; (option = describe_model_option(i)); i++)
        if (strlen(option->name) == length && strncmp(option->name, text, length) == 0) {
            values[i] = text + length + (text[length] == '=');
            return;
        }
    FAIL("no option %s", text);
}

static int open_with(const char *model, const char *data, const char *text, const char *first, const char *second,
                     unsigned threads, opened_model *out, failure *f)
{
    const char *values[32] = {NULL};
    set_option(values, first);
    set_option(values, second);
    model_request request = {
        .name = model, .data = data, .text = text, .option = values, .threads = threads, .seed = 7};
    memset(out, 0xA5, sizeof *out);
    *f = (failure){0};
    int code = open_model(&request, out, f);
    if (code == 0) {
        assert_true(out->model.dim >= 1);
        assert_non_null(out->model.names);
        assert_non_null(out->shown_names);
    } else {
        assert_null(out->owner);
        assert_int_equal(f->code, code);
        assert_true(*f->text);
    }
    return code;
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */
#define TEXT(literal) literal, sizeof(literal) - 1

typedef struct {
    const char *model;
    const char *content;
    size_t size;
    int code;
    const char *fragment;       /* of the message */
    const char *first, *second; /* options */
} bad_input;

static const bad_input bad_inputs[] = {
    /* the header */
    {"logistic", TEXT(""), 65, "data.txt:1: the file is empty", NULL, NULL},
    {"logistic", TEXT("\n\n  \n"), 65, "data.txt:1: the file is empty", NULL, NULL},
    {"logistic", TEXT("a,y\n"), 65, "data.txt:2: there are no rows", NULL, NULL},
    {"logistic", TEXT("a,y"), 65, "there are no rows", NULL, NULL},
    {"logistic", TEXT("y\n0\n1\n"), 65, "data.txt:1: column y: there is no other column", NULL, NULL},
    {"logistic", TEXT("a,,y\n1,2,0\n2,3,1\n"), 65, "data.txt:1: column 2 has no name: write one", NULL, NULL},
    {"logistic", TEXT("a,y,\n1,0,\n2,1,\n"), 65, "data.txt:1: column 3 has no name", NULL, NULL},
    {"logistic", TEXT("a,b,a,y\n1,2,3,0\n1,2,3,1\n"), 65,
     "data.txt:1: column 3: another column has the name \"a\", too", NULL, NULL},
    {"logistic", TEXT("1.5,2.5,0\n2,3,1\n"), 65, "data.txt:1: column 1: found the number 1.5, expected a header", NULL,
     NULL},
    {"logistic", TEXT("a|b|y\n1|2|0\n"), 65, "data.txt:1: fields are separated by vertical bars, expected commas", NULL,
     NULL},
    {"logistic", TEXT("a;b;y\n1;2;0\n1;3;1\n"), 65,
     "fields seem to be separated by semicolons, not by commas: leave out --delimiter", "delimiter=,", NULL},
    {"logistic", TEXT("a;y\n1;0\n3;1\n"), 64, "--delimiter is '|': expected", "delimiter=|", NULL},
    {"logistic", TEXT("a;y\n1;0\n3;1\n"), 64, "--missing is 'keep': expected", "missing=keep", NULL},
    {"logistic", TEXT("a;y\n1,5;0\n3,2;1\n"), 65,
     "data.txt:2: column a: found \"1,5\", expected a number with a decimal", NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,2020-01-31,0\n1,2020-02-28,1\n"), 65,
     "data.txt:2: column b: found \"2020-01-31\", expected a number or a category, not a date (replace dates by "
     "numbers, such as days since the first): --ignore b leaves out the column",
     NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,31 Jan 2020 12:30,0\n1,1 Feb 2021 0:00,1\n"), 65,
     "not a date (replace dates by numbers, such as days since the first)", NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,?,0\nx,3/4/2020,1\nNA,5/6/2021,0\n"), 65,
     "not a date (replace dates by numbers, such as days since the first)", NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,?,0\nx,3/4/2020,1\nNA,5/6/2021,0\n"), 65, "a value in every row (1 of 3 have none)",
     NULL, NULL},
    {"logistic", TEXT("a,y\n?,0\nNA,1\n"), 65, "column a has no value in any row: --ignore a leaves out the column",
     "missing=drop", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n1,3,1\n"), 65, "there is no column \"c\"", "features=a,c", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n1,3,1\n"), 65, "column y is a feature (--features) and cannot be the target",
     "features=a,y", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n1,3,1\n"), 65, "column a is a feature (--features) and cannot be ignored",
     "features=a", "ignore=a"},
    {"logistic", TEXT("\"a\nb\",y\n1,0\n2,1\n"), 65, "column 1: found \"a\\x0Ab\", expected a name without control",
     NULL, NULL},
    {"logistic", TEXT("a\xFF,y\n1,0\n2,1\n"), 65, "column 1: found \"a\\xFF\", expected a name in UTF-8", NULL, NULL},
    {"logistic",
     TEXT("a\xC2\x9B"
          "31m,y\n1,0\n2,1\n"),
     65, "column 1: found \"a\\xC2\\x9B31m\", expected a name without control", NULL, NULL},
    {"logistic", TEXT("a,lp__,y\n1,2,0\n2,2,1\n"), 65, "a parameter cannot be named \"lp__\"", NULL, NULL},
    {"linear", TEXT("log_weight__,y\n1,0\n2,1\n"), 65, "a parameter cannot be named \"log_weight__\"", NULL, NULL},
    {"linear", TEXT("path__,lp_approx__,y\n1,1,0\n2,1,1\n"), 65, "a parameter cannot be named \"path__\"", NULL, NULL},
    {"logistic", TEXT("intercept,y\n1,0\n2,1\n"), 65,
     "data.txt:1: column intercept: the model logistic has a parameter of that name", NULL, NULL},
    {"linear", TEXT("log_sigma,y\n1,0\n2,1\n"), 65,
     "data.txt:1: column log_sigma: the model linear has a parameter of that name", NULL, NULL},
    /* rows */
    {"logistic", TEXT("a,b,y\n1,2,0\n1,2\n"), 65, "data.txt:3: found 2 fields, expected 3", NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n1,2,3,1\n"), 65, "data.txt:3: found 4 fields, expected 3", NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n3\n"), 65, "data.txt:3: found 1 field, expected 3", NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n,1\n"), 65,
     "data.txt:3: column a: found an empty field, expected a value in every row", NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\nNA,1\n"), 65, "data.txt:3: column a: found \"NA\", expected a value in every row",
     NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n?,1\n"), 65, "found \"?\", expected a value in every row", NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\nred,1\n"), 65,
     "data.txt:3: column a: found \"red\", expected a number or a category, but", NULL, NULL},
    {"logistic", TEXT("a,y\r\n1,0\r\n\r\n12x,1\r\n"), 65, "data.txt:4: column a: found \"12x\", expected a number",
     NULL, NULL},
    {"logistic", TEXT("a,y\r1,0\rx,1\r"), 65, "data.txt:3: column a: found \"x\"", NULL, NULL},
    {"logistic", TEXT("a,b,y\n1,\"p\nq\",0\n"), 65, "data.txt:2: column b: found \"p\\x0Aq\", expected a number", NULL,
     NULL},
    {"logistic", TEXT("\"a\",\"b\"\n\"1\",\"x\ny\"\n2,3,4\n"), 65, "data.txt:4: found 3 fields, expected 2", NULL,
     NULL},
    {"logistic", TEXT("a,y\nnan,0\n1,1\n"), 65, "found \"nan\", expected a value in every row", NULL, NULL},
    {"logistic", TEXT("a,y\n-nan,0\n1,1\n"), 65, "found \"-nan\"", NULL, NULL},
    {"logistic", TEXT("a,y\ninf,0\n1,1\n"), 65, "found \"inf\", expected a finite number", NULL, NULL},
    {"logistic", TEXT("a,y\n-Infinity,0\n1,1\n"), 65, "found \"-Infinity\", expected a finite number", NULL, NULL},
    {"logistic", TEXT("a,y\n1e999,0\n1,1\n"), 65, "found \"1e999\", expected a number between -1.8e308 and 1.8e308",
     NULL, NULL},
    {"logistic", TEXT("a,y\n0x1p3,0\n1,1\n"), 65, "found \"0x1p3\", expected a decimal number", NULL, NULL},
    {"logistic", TEXT("a,y\n\"1,5\",0\n1,1\n"), 65, "found \"1,5\", expected a number with a decimal point", NULL,
     NULL},
    {"logistic", TEXT("a,y\n1,5,0\n1,1\n"), 65, "data.txt:2: found 3 fields, expected 2", NULL, NULL},
    {"logistic", TEXT("a,y\n1e,0\n1,1\n"), 65, "found \"1e\"", NULL, NULL},
    {"logistic", TEXT("a,y\n.,0\n1,1\n"), 65, "found \".\"", NULL, NULL},
    {"logistic", TEXT("a,y\n--1,0\n1,1\n"), 65, "found \"--1\"", NULL, NULL},
    {"logistic", TEXT("a,y\n1 2,0\n1,1\n"), 65, "found \"1 2\"", NULL, NULL},
    {"logistic", TEXT("a,y\n\xC2\xB2,0\n1,1\n"), 65, "found \"\xC2\xB2\", expected a number", NULL, NULL},
    {"logistic", TEXT("a,b,c,y\n1,x,3,0\n?,5,6,0\n7,8,9,\n"), 65, "a value in every row (1 of 3 have none)\n/", NULL,
     NULL},
    {"logistic", TEXT("a,b,c,y\n1,x,3,0\n?,5,6,0\n7,8,9,\n"), 65, "data.txt:4: column y: found an empty field", NULL,
     NULL},
    {"gp", TEXT("t,y\nx,1\n2,z\n"), 65, "column t: found \"x\", expected a number\n/", NULL, NULL},
    {"logistic", TEXT("a,y\n\"1,0\n1,1\n"), 65, "data.txt:2: a quoted field has no closing quote", NULL, NULL},
    {"logistic", TEXT("a,y\n1\"2,0\n1,1\n"), 65, "data.txt:2: field 1: found a quote inside a field", NULL, NULL},
    {"logistic", TEXT("a,y\n1,\"0\"x\n1,1\n"), 65, "data.txt:2: field 2: found a quote inside a field", NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n2\0,1\n"), 65, "data.txt:3: found a NUL byte", NULL, NULL},
    {"logistic",
     TEXT("\xFF\xFE"
          "a\0,\0y\0\n\0"),
     65, "data.txt looks like UTF-16 text, expected UTF-8 text", NULL, NULL},
    {"logistic",
     TEXT("\x7F"
          "ELF\x02\x01\x01\0\0\0"),
     65, "data.txt:1: found a NUL byte", NULL, NULL},
    {"logistic", TEXT("\x89PNG\r\n\x1A\n\x0D\x01\xF0\x9F"), 65, "data.txt", NULL, NULL},
    /* targets */
    {"logistic", TEXT("a,y\n1,0\n2,0\n"), 65, "data.txt:3: column y: every row has the same value \"0\"", NULL, NULL},
    {"logistic", TEXT("a,y\n1,no\n2,yes\n3,no\n4,maybe\n"), 65,
     "data.txt:5: column y: found \"maybe\", expected two different values (\"no\" and \"yes\" so far)", NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n2,1\n3,2\n"), 65, "data.txt:4: column y: found \"2\", expected two different values",
     NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n2,NA\n3,0\n"), 65, "data.txt:3: column y: found \"NA\", expected a value in every row",
     NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n2,\n3,1\n"), 65, "data.txt:3: column y: found an empty field", NULL, NULL},
    {"logistic", TEXT("size,y\n1,0\n2,1\n"), 65, "data.txt:1: there is no column \"sise\": did you mean size",
     "target=sise", NULL},
    {"logistic", TEXT("size,y\n1,0\n2,1\n"), 65, "expected size or y", "target=quite_another", NULL},
    {"linear", TEXT("a,y\n1,2.5\n2,2.50\n"), 65, "every row has the same value \"2.5\"", NULL, NULL},
    {"linear", TEXT("a,y\n1,2.5\n2,x\n"), 65, "data.txt:3: column y: found \"x\", expected a number", NULL, NULL},
    {"linear", TEXT("a,y\n1,2.5\n"), 65, "every row has the same value", NULL, NULL},
    {"bnn", TEXT("a,y\n1,p\n2,q\n3,r\n"), 65, "data.txt:2: column y: found \"p\", expected a number", NULL, NULL},
    {"bnn", TEXT("a,y\n1,p\n2,q\n3,r\n"), 65, "data.txt:4: column y: found \"r\", expected two different values",
     "likelihood=binary", NULL},
    {"bnn", TEXT("a,y\n1,p\n2,q\n"), 65, "column y: found \"p\", expected a number", "likelihood=normal", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n2,1,1\n"), 65, "there is no column \"c\"", "ignore=a,c", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n2,1,1\n"), 65, "there is no column \"\"", "ignore=", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n2,1,1\n"), 65,
     "column y: there is no other column, expected a target and at least one feature", "ignore=a,b", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n2,1,1\n"), 65, "there is no other column", "ignore=a,b,y", NULL},
    {"logistic", TEXT("a,b,y\n1,2,0\n2,1,1\n"), 65, "column a is the target and cannot be ignored", "ignore=a",
     "target=a"},
    {"gp", TEXT("t,y,z\n1,2,3\n"), 65,
     "data.txt:1: found 3 columns, expected two: time and value (leave out others with --ignore)", NULL, NULL},
    {"gp", TEXT("t\n1\n"), 65, "data.txt:1: found 1 column, expected two: time and value", NULL, NULL},
    {"gp", TEXT("t,y,z\n1,2,3\n"), 65, "data.txt:1: found 0 columns", "ignore=t,y,z", NULL},
    {"gp", TEXT("t,y\n1,2\n2,2\n"), 65, "column y: every row has the same value \"2\"", NULL, NULL},
    {"gp", TEXT("t,y\n1,2\n2,\n"), 65, "data.txt:3: column y: found an empty field", NULL, NULL},
    /* JSON */
    {"mixture", TEXT(""), 65, "data.txt:1:0: invalid JSON: found end of file", NULL, NULL},
    {"mixture", TEXT("[]"), 65, "top level: found an array of 0, expected an object", NULL, NULL},
    {"mixture", TEXT("3"), 65, "data.txt is not JSON: it begins with \"3\", expected an object {...}", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\n\"means\":[0,],\n"), 65,
     "data.txt:2:12: invalid JSON: found a comma before ']'", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[NaN],\"sds\":[1]}"), 65,
     "data.txt:1:27: invalid JSON: invalid token at 'NaN'", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[-Infinity],\"sds\":[1]}"), 65, "invalid token at '-", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[1e999],\"sds\":[1]}"), 65, "overflow", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"sds\":[1]} x"), 65, "expected end of file", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"weights\":[2],\"means\":[0],\"sds\":[1]}"), 65, "duplicate object key", NULL,
     NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"sds\":[1]"), 65, "found end of file", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[\"\xFF\"],\"sds\":[1]}"), 65, "byte 0xff", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[\"\\u0000\"],\"sds\":[1]}"), 65, "data.txt:1:", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"mean\":[0],\"sds\":[1]}"), 65, "unknown key \"mean\": did you mean \"means\"?",
     NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"sds\":[1],\"Xyzzy plugh\":0}"), 65,
     "unknown key \"Xyzzy plugh\"", NULL, NULL},
    {"mixture", TEXT("{\"means\":[0],\"sds\":[1]}"), 65, "weights: found nothing, expected an array", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"sds\":[1]}"), 65, "means: found nothing, expected an array of 1", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0]}"), 65, "found neither, expected either \"sds\" or \"covs\"", NULL,
     NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"sds\":[1],\"covs\":[1]}"), 65, "found \"sds\" and \"covs\"",
     NULL, NULL},
    {"mixture", TEXT("{\"weights\":[],\"means\":[],\"sds\":[]}"), 65, "weights: found an array of 0", NULL, NULL},
    {"mixture", TEXT("{\"weights\":1,\"means\":[0],\"sds\":[1]}"), 65, "weights: found 1, expected an array", NULL,
     NULL},
    {"mixture", TEXT("{\"weights\":[1,2],\"means\":[0],\"sds\":[1,1]}"), 65,
     "means: found an array of 1, expected an array of 2", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1,-2],\"means\":[0,1],\"sds\":[1,1]}"), 65,
     "weights[1]: found -2, expected a number above 0", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[0],\"means\":[0],\"sds\":[1]}"), 65,
     "weights[0]: found 0, expected a number above 0", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1e308,1e308],\"means\":[0,1],\"sds\":[1,1]}"), 65, "weights: the sum is above",
     NULL, NULL},
    {"mixture", TEXT("{\"weights\":[\"1\"],\"means\":[0],\"sds\":[1]}"), 65,
     "weights[0]: found the string \"1\", expected a number", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[null],\"sds\":[1]}"), 65, "means[0]: found null", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[]],\"sds\":[1]}"), 65,
     "means[0]: found an array of 0, expected at least one", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[{}],\"sds\":[1]}"), 65, "means[0]: found an object", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1,1],\"means\":[[0,1],[1]],\"sds\":[[1,1],[1,1]]}"), 65,
     "means[1]: found an array of 1, expected an array of 2", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1,1,1],\"means\":[[0,1],[1,1],[0,true]],\"sds\":[[1,1],[1,1],[1,1]]}"), 65,
     "means[2][1]: found true", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"sds\":[1]}"), 65,
     "sds[0]: found 1, expected an array of 2 numbers", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"sds\":[[1,0]]}"), 65,
     "sds[0][1]: found 0, expected a number above 0", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"sds\":[-1]}"), 65, "sds[0][0]: found -1", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"sds\":[1e-200]}"), 65, "between 1e-150 and 1e150", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"covs\":[[1,1]]}"), 65,
     "covs[0][0]: found 1, expected an array of 2 numbers", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"covs\":[[[1,0]]]}"), 65,
     "covs[0]: found an array of 1, expected an array of 2 rows", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"covs\":[[[1,0.5],[0.4,1]]]}"), 65,
     "covs[0][1][0]: found 0.4", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"covs\":[[[1,2],[2,1]]]}"), 65,
     "covs[0]: the matrix is not positive definite (leading minor of order 2)", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[[0,1]],\"covs\":[[[1,0],[0,-1]]]}"), 65,
     "covs[0][1][1]: found -1, expected a variance above 0", NULL, NULL},
    {"mixture", TEXT("{\"weights\":[1],\"means\":[0],\"covs\":[0]}"), 65, "covs[0][0][0]: found 0", NULL, NULL},
    /* usage */
    {"logistik", TEXT("a,y\n1,0\n2,1\n"), 64, "unknown model \"logistik\": did you mean logistic?", NULL, NULL},
    {"quux", TEXT("a,y\n1,0\n2,1\n"), 64, "expected mixture, logistic, linear, glm, gp, bnn, or a path", NULL, NULL},
    {"", TEXT("a,y\n1,0\n2,1\n"), 64, "unknown model \"\"", NULL, NULL},
    {"logistic", TEXT("a,y\n1,0\n2,1\n"), 64, "--hidden does not apply to the model logistic, only to bnn", "hidden=3",
     NULL},
    {"bnn", TEXT("a,y\n1,0\n2,1\n"), 64, "--no-intercept does not apply to the model bnn", "no-intercept", NULL},
    {"bnn", TEXT("a,y\n1,0\n2,1\n"), 64, "--hidden is '0': expected a whole number", "hidden=0", NULL},
    {"bnn", TEXT("a,y\n1,0\n2,1\n"), 64, "--hidden is '2.5'", "hidden=2.5", NULL},
    {"bnn", TEXT("a,y\n1,0\n2,1\n"), 64, "--likelihood is 'poisson': expected auto", "likelihood=poisson", NULL},
    {"linear", TEXT("a,y\n1,0\n2,1\n"), 64, "--prior-sd is '-1': expected a number above 0", "prior-sd=-1", NULL},
    {"linear", TEXT("a,y\n1,0\n2,1\n"), 64, "--prior-sd is '1,5': expected one number, such as 1.2", "prior-sd=1,5",
     NULL},
    {"linear", TEXT("a,y\n1,0\n2,1\n"), 64, "--prior-sd is ''", "prior-sd=", NULL},
    {"linear", TEXT("a,y\n1,0\n2,1\n"), 64, "--prior-sd is ' 5': expected a number without blanks", "prior-sd= 5",
     NULL},
    {"linear", TEXT("a,y\n1,0\n2,1\n"), 64, "--prior-sd is '0x10': expected a decimal number", "prior-sd=0x10", NULL},
    {"mixture", TEXT("{}"), 64, "--ignore does not apply to the model mixture", "ignore=a", NULL},
    {"gp", TEXT("t,y\n1,0\n2,1\n"), 64, "--prior-means is '1,2,3': expected four numbers", "prior-means=1,2,3", NULL},
    {"gp", TEXT("t,y\n1,0\n2,1\n"), 64, "--prior-means is '1,2,3,4,5'", "prior-means=1,2,3,4,5", NULL},
    {"gp", TEXT("t,y\n1,0\n2,1\n"), 64, "--prior-sds is '1,1,0,1': the third value is 0, expected four numbers above 0",
     "prior-sds=1,1,0,1", NULL},
};

static void refuses_bad_inputs(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof bad_inputs / sizeof *bad_inputs; i++) {
        const bad_input *bad = &bad_inputs[i];
        opened_model model;
        failure f;
        write_data(bad->content, bad->size);
        int code = open_with(bad->model, data_path, NULL, bad->first, bad->second, 1, &model, &f);
        if (code != bad->code || !strstr(f.text, bad->fragment)) {
            print_message("%zu: %s: exit code %d, expected %d: %s\n    expected: %s\n", i, bad->model, code, bad->code,
                          f.text, bad->fragment);
            wrong++;
        }
        close_model(&model);
    }
    assert_int_equal(wrong, 0);
}

static void expect_failure(const char *model, const char *data, const char *text, int code, const char *fragment)
{
    opened_model out;
    failure f;
    int got = open_with(model, data, text, NULL, NULL, 1, &out, &f);
    if (got != code || !strstr(f.text, fragment))
        FAIL("%s: exit code %d, expected %d: %s; expected: %s", model, got, code, f.text, fragment);
}

static void refuses_what_cannot_be_opened(void **state)
{
    (void)state;
    char missing[160];
    snprintf(missing, sizeof missing, "%s/missing.csv", directory);
    const char *models[] = {"logistic", "mixture", "gp", WVGD_BINARY_DIR "/tests/plugin.so"};
    for (size_t i = 0; i < 4; i++) {
        expect_failure(models[i], missing, NULL, EX_NOINPUT, "missing.csv: No such file");
        expect_failure(models[i], directory, NULL, EX_NOINPUT, "found a directory, expected a file");
    }
    expect_failure("logistic", "", NULL, EX_NOINPUT, "cannot open ");
    expect_failure("logistic", NULL, NULL, EX_USAGE, "--data FILE is missing: expected CSV");
    expect_failure("logistic", data_path, "{}", EX_USAGE, "--config");
    write_data(TEXT("a,y\n1,0\n"));
    assert_int_equal(chmod(data_path, 0), 0);
    if (access(data_path, R_OK) != 0) /* root may read everything */
        expect_failure("logistic", data_path, NULL, EX_NOINPUT, "Permission denied");
    assert_int_equal(chmod(data_path, 0600), 0);
    expect_failure("logistic", "/dev/zero", NULL, EX_DATAERR, "/dev/zero:1: found a NUL byte");
    expect_failure("logistic", "/dev/null", NULL, EX_DATAERR, "the file is empty");
}

/* n times `unit` between head and tail. */
static void write_repeated(const char *head, const char *unit, size_t n, const char *tail)
{
    FILE *file = fopen(data_path, "wb");
    assert_non_null(file);
    fputs(head, file);
    while (n--)
        fputs(unit, file);
    fputs(tail, file);
    assert_int_equal(fclose(file), 0);
}

static void refuses_huge_inputs(void **state)
{
    (void)state;
    write_repeated("a,y\n1,0\n", "x", 3000000, ",1\n");
    expect_failure("logistic", data_path, NULL, EX_DATAERR, "xxx\"..., expected a number");
    write_repeated("a,y\n1,0\n\"", "\n", 100000, "\",1\n3,1,1\n");
    expect_failure("logistic", data_path, NULL, EX_DATAERR, "data.txt:100004: found 3 fields");
    write_repeated("a,y\n1,0\n\"", "2,1\n", 100000, "");
    expect_failure("logistic", data_path, NULL, EX_DATAERR, "data.txt:3: a quoted field has no closing quote");
    write_repeated("", "n", 1000, ",y\n1,0\n2,1\n");
    expect_failure("logistic", data_path, NULL, EX_DATAERR, "expected a name of at most 255 bytes");
    write_repeated("a", ",", 100000, "\n");
    expect_failure("logistic", data_path, NULL, EX_DATAERR, "column 2 has no name");
    write_repeated("{\"weights\":", "[", 1000000, "");
    expect_failure("mixture", data_path, NULL, EX_DATAERR, "depth");
    write_repeated("", "{\"means\":", 100000, "");
    expect_failure("mixture", data_path, NULL, EX_DATAERR, "depth");
    write_repeated("{\"weights\":[1", "0", 1000, "],\"means\":[0],\"sds\":[1]}");
    expect_failure("mixture", data_path, NULL, EX_DATAERR, "overflow");
    write_repeated("{\"weights\":[1],\"means\":[[0", ",0", 20000, "]],\"sds\":[[1]]}");
    expect_failure("mixture", data_path, NULL, EX_DATAERR, "1 components in 20001 dimensions");
    write_repeated("t,y\n0,1\n", "0,0\n", 20000, "");
    expect_failure("gp", data_path, NULL, EX_DATAERR, "data.txt:20002: found 20001 rows, expected at most 20000");
}

/* ---- what is accepted -------------------------------------------------------------------------------------------- */
typedef struct {
    const char *content;
    size_t size;
    double y[3];
    const char *target;
} good_target;

static void reads_labels(void **state)
{
    (void)state;
    static const good_target cases[] = {
        {TEXT("a,y\n1,0\n2,1\n3,0\n"), {0, 1, 0}, NULL},
        {TEXT("a,y\n1,1\n2,0\n3,1\n"), {1, 0, 1}, NULL},
        {TEXT("a,y\n1,1\n2,2\n3,1\n"), {0, 1, 0}, NULL},
        {TEXT("a,y\n1,10\n2,9\n3,10.0\n"), {1, 0, 1}, NULL}, /* by value, not by text */
        {TEXT("a,y\n1,-1\n2,+1\n3,1e0\n"), {0, 1, 1}, NULL},
        {TEXT("a,y\n1,yes\n2,no\n3,yes\n"), {1, 0, 1}, NULL},
        {TEXT("a,y\n1,Yes\n2,no\n3,Yes\n"), {1, 0, 1}, NULL}, /* by meaning, not by bytes */
        {TEXT("a,y\n1,No\n2,y\n3,NO\n"), {0, 1, 0}, NULL},
        {TEXT("a,y\n1,1\n2,x\n3,1\n"), {0, 1, 0}, NULL},
        {TEXT("a,\"the \"\"target\"\", y\"\n1,\"b,1\"\n2,\"a\n2\"\n3,\"b,1\"\n"), {1, 0, 1}, NULL},
        {TEXT("\xEF\xBB\xBF"
              "y,a\r\n0,1\r\n1,2\r\n\r\n0,3\r\n"),
         {0, 1, 0},
         "y"},
        {TEXT("y , a\n 0 , 1\n1,\t2\n0,3"), {0, 1, 0}, "y"},
        {TEXT("y,a\r0,1\r1,2\r0,3\r"), {0, 1, 0}, "y"},
        {TEXT("\n\ny,\"a\"\n\"0\",\"1\"\n\n\"1\",\" 2 \"\n0,3\n\n"), {0, 1, 0}, "y"},
        {TEXT("a,gr\xC3\xB6\xC3\x9F"
              "e\n1,klein\n2,gro\xC3\x9F\n3,klein\n"),
         {1, 0, 1},
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        regression_data data;
        failure f;
        write_data(cases[i].content, cases[i].size);
        if (read_regression(data_path, &(table_options){.target = cases[i].target}, TARGET_LABELS, &data, &f))
            FAIL("%zu: %s", i, f.text);
        assert_int_equal(data.rows, 3);
        assert_int_equal(data.columns, 1);
        assert_string_equal(data.names[0], "a");
        for (size_t row = 0; row < 3; row++) {
            assert_near(data.y[row], cases[i].y[row], 0);
            assert_near(data.X[row], (double)row + 1, 0);
        }
        free_regression(&data);
    }
}

static void reads_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},
                {"-0", -0.0},
                {"+1.5", 1.5},
                {".5", 0.5},
                {"5.", 5},
                {"1e3", 1000},
                {"-1.25E-2", -0.0125},
                {"1e-999", 0},
                {" 7\t", 7},
                {"0.1", 0.1},
                {"1e308", 1e308},
                {"4.9e-324", 4.9e-324},
                {"123456789012345678901234567890", 123456789012345678901234567890.0}};
    /* decimal commas, where the system has them */
    static const char *const locales[] = {"C", "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"};
    for (size_t l = 0; l < sizeof locales / sizeof *locales; l++) {
        if (!setlocale(LC_ALL, locales[l]))
            continue;
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            double value = NAN;
            assert_null(read_number(good[i].text, &value));
            assert_memory_equal(&value, &good[i].value, sizeof value);
        }
    }
    setlocale(LC_ALL, "C");
}

/* Short numbers have a quick way of their own: the same bits as strtod. */
static void reads_numbers_as_strtod(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (size_t k = 0; k < 200000; k++) {
        char text[64] = "";
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t digits = 1 + (seed >> 33) % 18, point = (seed >> 40) % (digits + 3), n = 0;
        text[n] = "-+ "[(seed >> 50) % 3];
        n += text[n] != ' ';
        for (size_t i = 0; i < digits; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (i == point)
                text[n++] = '.';
            text[n++] = (char)('0' + (seed >> 33) % 10);
        }
        if (k % 5 == 0)
            snprintf(text + n, sizeof text - n, "e%d", (int)(seed >> 40) % 40 - 20);
        else
            text[n] = '\0';
        double value = NAN, expected = strtod(text, NULL);
        assert_null(read_number(text, &value));
        assert_memory_equal(&value, &expected, sizeof value);
    }
}

static double evaluate(const opened_model *model, const double *z, double *grad)
{
    double log_p = NAN;
    assert_int_equal(model->model.log_density(model->model.self, 1, z, &log_p, grad), 0);
    return log_p;
}

static double normal_log_density(double x, double mean, double sd)
{
    return -0.5 * (x - mean) * (x - mean) / (sd * sd) - log(sd) - 0.5 * log(2 * acos(-1));
}

static void opens_logistic(void **state)
{
    (void)state;
    opened_model model;
    failure f;
    write_data(TEXT("y,a\nno,1\nyes,2\nyes,-1\n"));
    assert_int_equal(open_with("logistic", data_path, NULL, "target=y", "prior-sd=3", 2, &model, &f), 0);
    assert_string_equal(model.kind, "logistic");
    assert_int_equal(model.model.dim, 2);
    assert_string_equal(model.model.names[0], "a");
    assert_string_equal(model.model.names[1], "intercept");
    assert_int_equal(model.shown, 2);
    assert_null(model.show);
    const double w[2] = {0.7, -0.4};
    double expected = -log1p(exp(0.7 - 0.4)) - log1p(exp(-(1.4 - 0.4))) - log1p(exp(0.7 + 0.4)) +
                      normal_log_density(0.7, 0, 3) + normal_log_density(-0.4, 0, 3);
    assert_near(evaluate(&model, w, NULL), expected, 1e-12);
    close_model(&model);
    assert_int_equal(open_with("logistic", data_path, NULL, "target=y", "no-intercept", 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 1);
    close_model(&model);
    close_model(&model); /* all zero now */
}

static void opens_mixtures(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        size_t size, dim;
    } same[] = {
        /* 2 N(0, 1) + 3 N(1, 0.25), in one dimension or beside a standard normal */
        {TEXT("{\"weights\":[2,3],\"means\":[0,1],\"sds\":[1,0.5]}"), 1},
        {TEXT("\xEF\xBB\xBF{\"weights\":[2,3.0],\"means\":[[0],1],\"sds\":[1,[0.5]]}\r\n"), 1},
        {TEXT("{\"covs\":[1,[[0.25]]],\"means\":[0,1],\"weights\":[2,3]}"), 1},
        {TEXT("{\"weights\":[2,3],\"means\":[[0,0],[1,0]],\"sds\":[[1,1],[0.5,1]]}"), 2},
        {TEXT("{\"weights\":[2,3],\"means\":[[0,0],[1,0]],\"covs\":[[[1,0],[0,1]],[[0.25,0],[0,1]]]}"), 2},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        opened_model model;
        failure f;
        write_data(same[i].content, same[i].size);
        if (open_with("mixture", data_path, NULL, NULL, NULL, 1, &model, &f))
            FAIL("%zu: %s", i, f.text);
        assert_int_equal(model.model.dim, same[i].dim);
        assert_string_equal(model.model.names[0], "z.1");
        const double z[2] = {0.3, 0.8};
        double expected = log(2 * exp(normal_log_density(0.3, 0, 1)) + 3 * exp(normal_log_density(0.3, 1, 0.5)));
        if (same[i].dim == 2)
            expected += normal_log_density(0.8, 0, 1);
        assert_near(evaluate(&model, z, NULL), expected, 1e-12);
        close_model(&model);
    }
}

/* Log likelihood: log density less the prior N(0, 1) of each weight. */
static double log_likelihood(const opened_model *model, const double *w)
{
    double value = evaluate(model, w, NULL);
    for (size_t d = 0; d < model->model.dim; d++)
        value -= normal_log_density(w[d], 0, 1);
    return value;
}

/* Target, labels, and what weights of standardised features are worth on the raw ones (docs/formats.md). */
static void tells_what_it_read(void **state)
{
    (void)state;
    opened_model model, raw;
    failure f;
    write_data(TEXT("a,state,c,b\n1,well,7,200\n2,ill,7,-100\n4,well,7,0\n9,ill,7,50\n"));
    assert_int_equal(open_with("logistic", data_path, NULL, "standardize", "target=state", 1, &model, &f), 0);
    const wvgd_table *facts = model.facts;
    assert_string_equal(facts->target, "state");
    assert_string_equal(facts->label[0], "ill");
    assert_string_equal(facts->label[1], "well");
    assert_int_equal(facts->columns, 3);
    assert_string_equal(facts->names[2], "b");
    assert_near(facts->mean[0], 4, 1e-15);
    assert_near(facts->sd[0], sqrt(38.0 / 3), 1e-15);
    assert_near(facts->mean[1], 7, 0);
    assert_near(facts->sd[1], 0, 0);
    assert_int_equal(open_with("logistic", data_path, NULL, "target=state", NULL, 1, &raw, &f), 0);
    assert_null(raw.facts->mean);
    const double w[4] = {0.5, 3, -0.25, 1.5};
    double v[4] = {0, 0, 0, w[3]};
    for (size_t c = 0; c < 3; c++)
        if (facts->sd[c] > 0) {
            v[c] = w[c] / facts->sd[c];
            v[3] -= v[c] * facts->mean[c];
        }
    assert_near(log_likelihood(&model, w), log_likelihood(&raw, v), 1e-12);
    close_model(&raw);
    close_model(&model);
    assert_int_equal(open_with("linear", data_path, NULL, "ignore=state", NULL, 1, &model, &f), 0);
    assert_string_equal(model.facts->target, "b");
    assert_null(model.facts->label[0]);
    close_model(&model);
    write_data(TEXT("t,y\n0,1\n1,2\n2,5\n"));
    assert_int_equal(open_with("gp", data_path, NULL, NULL, NULL, 1, &model, &f), 0);
    assert_null(model.facts);
    close_model(&model);
}

static void opens_the_others(void **state)
{
    (void)state;
    opened_model model;
    failure f;
    const double z[32] = {0.1};
    write_data(TEXT("y,t\n1,0\n2.5,1\n0,2.5\n"));
    assert_int_equal(open_with("gp", data_path, NULL, "prior-means=0,-1,1,-2", "prior-sds=1,1,.5,2", 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 4);
    assert_true(isfinite(evaluate(&model, z, NULL)));
    close_model(&model);
    assert_int_equal(open_with("linear", data_path, NULL, "target=y", "standardize", 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 3); /* t, intercept, log_sigma */
    assert_true(isfinite(evaluate(&model, z, NULL)));
    close_model(&model);
    assert_int_equal(open_with("bnn", data_path, NULL, "hidden=2", "target=y", 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 2 + 2 + 2 + 1 + 1); /* w1, b1, w2, b2, log_sigma */
    close_model(&model);
    write_data(TEXT("t,y\n0,p\n1,q\n2,p\n"));
    assert_int_equal(open_with("bnn", data_path, NULL, "hidden=2", NULL, 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 2 + 2 + 2 + 1); /* two labels: no log_sigma */
    double cost = NAN;
    model.cost(model.cost_self, model.model.dim, z, 1, z, &cost, NULL, NULL);
    assert_near(cost, 0, 0);
    assert_true(isfinite(evaluate(&model, z, NULL)));
    close_model(&model);
}

/* A table with columns of all kinds: what they become, by hand. */
static void codes_columns(void **state)
{
    (void)state;
    static const char text[] =
        "id;plan;active;x;y\n1;b;Yes;0.5;no\n2;a;no;1;yes\n3;c;NO;;yes\n4;b;yes;2;no\n5;a;no;3;no\n"
        "6;b;no;1;yes\n7;a;no;1;yes\n8;a;no;1;yes\n9;a;yes;1;yes\n10;a;no;1;yes\n11;a;no;1;yes\n";
    static const char *const names[] = {"plan[b]", "active", "x"};
    static const double rows[][3] = {{1, 1, 0.5}, {0, 0, 1}, {1, 1, 2}, {0, 0, 3}, {1, 0, 1}};
    regression_data data;
    failure f;
    for (int tab = 0; tab < 2; tab++) {
        char copy[sizeof text];
        memcpy(copy, text, sizeof text);
        for (char *c = copy; tab && *c; c++)
            *c = *c == ';' ? '\t' : *c;
        write_data(copy, sizeof text - 1);
        table_options how = {.ignore = "id", .missing = "drop"};
        if (read_regression(data_path, &how, TARGET_LABELS, &data, &f))
            FAIL("%s", f.text);
        assert_int_equal(data.rows, 10);
        assert_int_equal(data.source.dropped, 1);
        assert_int_equal(data.columns, 3); /* c is gone with its row */
        for (size_t c = 0; c < 3; c++)
            assert_string_equal(data.names[c], names[c]);
        for (size_t i = 0; i < 15; i++)
            assert_near(data.X[i], rows[i / 3][i % 3], 0);
        assert_near(data.y[1], 1, 0);
        assert_near(data.y[2], 0, 0);
        free_regression(&data);
    }
    table_options chosen = {.features = "plan,active"};
    if (read_regression(data_path, &chosen, TARGET_LABELS, &data, &f) != EX_DATAERR) /* 3 levels in 11 rows */
        FAIL("took 3 levels");
    chosen.features = "active";
    if (read_regression(data_path, &chosen, TARGET_LABELS, &data, &f))
        FAIL("%s", f.text);
    assert_int_equal(data.rows, 11); /* x is missing in one, but not used */
    assert_int_equal(data.columns, 1);
    free_regression(&data);
}

/* Which columns count, and which of them is the target or the time. */
static void leaves_columns_out(void **state)
{
    (void)state;
    static const struct {
        const char *ignore, *target, *first; /* first: name of the only feature */
        double x, y;                         /* of the second row */
    } cases[] = {
        {"id", NULL, "a", 2, 20},    {"\"id\" , b", "y", NULL, 0, 0}, {"id,y", NULL, NULL, 0, 0},
        {"y,id", "b, c", "a", 2, 7}, {"b, c,id", NULL, NULL, 0, 0},
    };
    write_data(TEXT("id,a,\"b, c\",y\nA1,1,5,10\nA2,2,7,20\nA3,3,6,30\n"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        regression_data data;
        failure f;
        table_options how = {.target = cases[i].target, .ignore = cases[i].ignore};
        int code = read_regression(data_path, &how, TARGET_REAL, &data, &f);
        if (i == 1 || i == 4) { /* no such column: names are not quoted, and one with a comma stands alone */
            assert_int_equal(code, EX_DATAERR);
            continue;
        }
        if (code)
            FAIL("%zu: %s", i, f.text);
        if (cases[i].first) {
            assert_string_equal(data.names[0], cases[i].first);
            assert_near(data.X[data.columns], cases[i].x, 0);
            assert_near(data.y[1], cases[i].y, 0);
        }
        assert_int_equal(data.columns, i == 0 ? 2 : 1);
        free_regression(&data);
    }
    static const struct {
        const char *content;
        const char *ignore;
    } series[] = {{"t,y\n1,5\n2,6\n", NULL},
                  {"y,t\n5,1\n6,2\n", NULL},
                  {"year,count\n1,5\n2,6\n", NULL},
                  {"y,year\n5,1\n6,2\n", NULL},
                  {"count,t\n5,1\n6,2\n", NULL},
                  {"t,count\n1,5\n2,6\n", NULL},
                  {"site,year,count\nx,1,5\ny,2,6\n", "site"},
                  {"t,y,z\n1,5,?\n2,6,?\n", "z"}};
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        series_data data;
        failure f;
        write_data(series[i].content, strlen(series[i].content));
        if (read_series(data_path, series[i].ignore, &data, &f))
            FAIL("%zu: %s", i, f.text);
        assert_int_equal(data.n, 2);
        assert_near(data.t[1], 2, 0);
        assert_near(data.y[1], 6, 0);
        free_series(&data);
    }
}

static void reads_the_data_of_the_project(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t dim;
    } files[] = {{"boston.csv", 14}, {"cancer.csv", 31}, {"diabetes.csv", 11}, {"iris.csv", 5}};
    for (size_t i = 0; i < 4; i++) {
        char path[512];
        opened_model model;
        failure f;
        snprintf(path, sizeof path, "%s/data/%s", WVGD_SOURCE_DIR, files[i].path);
        if (open_with("logistic", path, NULL, "standardize", NULL, 1, &model, &f))
            FAIL("%s", f.text);
        assert_int_equal(model.model.dim, files[i].dim);
        close_model(&model);
    }
}

static void describes_models_and_options(void **state)
{
    (void)state;
    unsigned models = 0, options = 0;
    for (const wvgd_model_info *m; (m = wvgd_model_describe(models)); models++)
        assert_true(m->name && m->data && m->help && !strchr(m->help, '\n'));
    for (const model_option *o; (o = describe_model_option(options)); options++)
        assert_true(o->name && o->models && o->help && !strchr(o->help, '\n'));
    assert_int_equal(models, 8);
    assert_int_equal(options, 16);
}

/* ---- mutations of good files ------------------------------------------------------------------------------------- */
static size_t pick(test_random *r, size_t n)
{
    return (size_t)(test_random_bits(r) % n);
}

/* One small change of text[size], which has room for `room`. */
static size_t mutate(test_random *r, char *text, size_t size, size_t room)
{
    static const char *const pieces[] = {"\"",   "\n",   "\r",        ",",     "[",
                                         "]",    "{",    "}",         "-",     "e",
                                         ".",    "\xFF", "\xC3",      "1e308", "nan",
                                         "0x",   ":",    "\"means\"", "\t",    "00000000000000000000",
                                         "\"\"", ";",    "1e-308",    "null"};
    size_t at = pick(r, size + 1), length;
    const char *piece = pieces[pick(r, sizeof pieces / sizeof *pieces)];
    switch (pick(r, 5)) {
    case 0: /* another byte */
        if (at < size)
            text[at] = (char)test_random_bits(r);
        return size;
    case 1: /* a bit */
        if (at < size)
            text[at] = (char)(text[at] ^ (1 << pick(r, 8)));
        return size;
    case 2: /* a piece more */
        length = strlen(piece);
        if (size + length > room)
            return size;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, piece, length);
        return size + length;
    case 3: /* some bytes less */
        length = pick(r, size - at + 1);
        length = length > 8 ? 8 : length;
        memmove(text + at, text + at + length, size - at - length);
        return size - length;
    default: /* cut short, sometimes */ return pick(r, 8) == 0 ? at : size;
    }
}

static void survives_mutations(void **state)
{
    (void)state;
    static const struct {
        const char *model, *content;
    } seeds[] = {
        {"logistic", "a,\"b, c\",y\n1,2,no\n3.5,-4e-1,yes\r\n5,\"6\",no\n\n7,8,\"yes\"\n"},
        {"linear", "a,b,y\n1,2,0.5\n3.5,-4e-1,7\n5,6,1\n"},
        {"bnn", "a,y\n1,0\n2,1\n3,1\n"},
        {"gp", "t,y\n0,1\n1,2.5\n2,0.5\n3.5,-1\n"},
        {"mixture", "{\"weights\":[0.5,1.5],\"means\":[[0,1],[2,3]],\"sds\":[[1,2],[0.5,1e-1]]}"},
        {"mixture", "{\"weights\": [1], \"means\": [[0, 1]], \"covs\": [[[1, 0.5], [0.5, 2]]]}"},
    };
    test_random r = test_random_seed(11);
    size_t accepted = 0, refused = 0;
    for (size_t i = 0; i < 3000; i++) {
        char text[512];
        size_t which = i % 6, size = strlen(seeds[which].content);
        memcpy(text, seeds[which].content, size);
        for (size_t k = 1 + pick(&r, 4); k > 0; k--)
            size = mutate(&r, text, size, sizeof text);
        opened_model model;
        failure f;
        write_data(text, size);
        int code = open_with(seeds[which].model, data_path, NULL, NULL, NULL, 1, &model, &f);
        if (code == 0) {
            double z[64] = {0}, grad[64];
            assert_true(model.model.dim <= 64);
            assert_true(evaluate(&model, z, grad) < INFINITY); /* not NaN either */
            accepted++;
        } else {
            assert_int_equal(code, EX_DATAERR);
            assert_true(strstr(f.text, "data.txt") || strstr(f.text, "two parameters are named"));
            for (const char *c = f.text; *c; c++)
                assert_true((unsigned char)*c >= ' ' || *c == '\n'); /* a line for each problem */
            refused++;
        }
        close_model(&model);
    }
    assert_true(accepted > 300 && refused > 300); /* both happen, or the mutations test nothing */
}

/* ---- external models --------------------------------------------------------------------------------------------- */
#define OBJECT(name) WVGD_BINARY_DIR "/tests/" name ".so"

static void opens_plugins(void **state)
{
    (void)state;
    opened_model model;
    failure f;
    double z[3] = {0.5, -1, 2}, grad[3];
    assert_int_equal(open_with(OBJECT("plugin"), NULL, "3", NULL, NULL, 4, &model, &f), 0);
    assert_string_equal(model.kind, "plugin");
    assert_int_equal(model.model.dim, 3);
    assert_string_equal(model.model.names[2], "z.3");
    assert_true(model.model.thread_safe);
    assert_near(evaluate(&model, z, grad),
                normal_log_density(0.5, 0, 1) + normal_log_density(-1, 0, 1) + normal_log_density(2, 0, 1), 1e-12);
    assert_near(grad[2], -2, 0);
    close_model(&model);
    write_data(TEXT("5\n"));
    assert_int_equal(open_with(OBJECT("plugin"), data_path, NULL, NULL, NULL, 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 5);
    close_model(&model);
    assert_int_equal(open_with(OBJECT("plugin"), NULL, NULL, NULL, NULL, 1, &model, &f), 0);
    assert_int_equal(model.model.dim, 2);
    close_model(&model);
    /* a name without '/' is a file here, not one of the system's libraries */
    assert_int_equal(chdir(WVGD_BINARY_DIR "/tests"), 0);
    assert_int_equal(open_with("plugin.so", NULL, NULL, NULL, NULL, 1, &model, &f), 0);
    close_model(&model);
}

static void refuses_bad_objects(void **state)
{
    (void)state;
    static const struct {
        const char *object, *text;
        int code;
        const char *fragment;
    } cases[] = {
        {OBJECT("plugin"), "what", 65, "found the configuration \"what\", expected a dimension"},
        {OBJECT("plugin"), "silent", 65, "without a message"},
        {OBJECT("plugin"), "0", 65, "the model has dimension 0, expected at least 1"},
        {OBJECT("plugin"), "30000000", 65, "the model has 30000000 parameters, expected at most 1000000"},
        {OBJECT("plugin"), "broken", 70, "has left log_density NULL"},
        {OBJECT("plugin"), "names", 70, "name of parameter 2: found \"\", expected a name"},
        {OBJECT("empty"), NULL, 65, "exports neither wvgd_model_open nor bs_model_construct"},
        {OBJECT("fake_stan_old"), NULL, 65, "the model was built with BridgeStan 1.x, expected 2.x"},
        {OBJECT("fake_stan_incomplete"), NULL, 65, "does not export the function bs_param_constrain"},
        {OBJECT("fake_stan_empty"), NULL, 65, "the Stan program has 0 parameters, expected at least 1"},
        {OBJECT("fake_stan_nameless"), NULL, 70, "the names do not match"},
        {OBJECT("fake_stan"), "{\"fail\": 1}", 65, "variable does not exist: y"},
        {OBJECT("fake_stan"), "data.json", 65, "--config: found \"data.json\", expected a JSON object"},
        {OBJECT("missing"), NULL, 66, "missing.so: No such file"},
        {"nowhere.so", NULL, 66, "nowhere.so: No such file"},
        {"/tmp/", NULL, 66, "found a directory, expected a shared object"},
        {"/dev/null", NULL, 66, "something that is not a file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_failure(cases[i].object, NULL, cases[i].text, cases[i].code, cases[i].fragment);
    write_data(TEXT("{}"));
    expect_failure(OBJECT("plugin"), data_path, "3", EX_USAGE, "give either --data or --config");
    write_data(TEXT(""));
    expect_failure(OBJECT("fake_stan"), data_path, NULL, EX_DATAERR, "data.txt: found \"\", expected a JSON object");
    expect_failure(data_path, NULL, NULL, EX_DATAERR, "not a shared object");
    opened_model model;
    failure f;
    assert_int_equal(open_with(OBJECT("plugin"), NULL, NULL, "hidden=3", NULL, 1, &model, &f), EX_USAGE);
}

/* The loader would crash on these. */
static void refuses_damaged_objects(void **state)
{
    (void)state;
    char *object = NULL;
    struct stat about;
    assert_int_equal(stat(OBJECT("plugin"), &about), 0);
    size_t size = (size_t)about.st_size;
    assert_non_null(object = malloc(size));
    FILE *file = fopen(OBJECT("plugin"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(object, 1, size, file), size);
    fclose(file);
    const size_t cuts[] = {4, 63, 64, 100, 1000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        write_data(object, cuts[i]);
        expect_failure(data_path, NULL, NULL, EX_DATAERR, "cut short or damaged");
    }
    free(object);
}

static void opens_stan_models(void **state)
{
    (void)state;
    opened_model model;
    failure f;
    static const char *const shown[] = {"mu", "sigma", "ratio", "draw"};
    write_data(TEXT(" {\"y\": [1, 2, Infinity]}\n"));
    assert_int_equal(open_with(OBJECT("fake_stan"), data_path, NULL, NULL, NULL, 4, &model, &f), 0);
    assert_string_equal(model.kind, "bridgestan");
    assert_string_equal(model.model.name, "fake_model");
    assert_int_equal(model.model.dim, 2);
    assert_string_equal(model.model.names[1], "sigma");
    assert_false(model.model.thread_safe);
    assert_true(model.model.has_gradient);
    assert_int_equal(model.shown, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(model.shown_names[i], shown[i]);
    const double z[2] = {2.5, 0.3};
    double grad[2], values[4];
    double expected = normal_log_density(2.5, 1, 2) + normal_log_density(0.3, 0, 0.5); /* with Jacobian and constants */
    assert_near(evaluate(&model, z, NULL), expected, 1e-12);
    assert_near(evaluate(&model, z, grad), expected, 1e-12);
    assert_near(grad[0], -1.5 / 4, 1e-12);
    assert_near(grad[1], -0.3 / 0.25, 1e-12);
    for (int draw = 1; draw <= 2; draw++) { /* the generator of generated quantities starts from the seed, 7 */
        assert_int_equal(model.show(model.show_self, z, values), 0);
        assert_near(values[0], 2.5, 0);
        assert_near(values[1], exp(0.3), 1e-12);
        assert_near(values[2], 2.5 / exp(0.3), 1e-12);
        assert_near(values[3], 7 + draw, 0);
    }
    assert_null(model.first_message);
    assert_int_equal(model.failed_points, 0);
    /* the upper quartile, and far below all: starts are uniform between -2 and 2 */
    const double normal[2] = {0.6744897501960817, -40};
    model.model.start(model.model.start_self, normal, values);
    assert_near(values[0], 1, 1e-12);
    assert_near(values[1], -2, 1e-12);
    assert_null(model.cost);
    close_model(&model);
}

static void counts_failing_points(void **state)
{
    (void)state;
    enum { POINTS = 1000 };
    static double z[POINTS][2], log_p[POINTS], grad[POINTS][2];
    const char *const objects[] = {OBJECT("fake_stan"), OBJECT("fake_stan_threads")};
    for (size_t i = 0; i < POINTS; i++)
        z[i][0] = i % 10 == 3 ? 60 : i % 10 == 7 ? -60 : 0.001 * (double)i;
    for (size_t k = 0; k < 2; k++) {
        opened_model model;
        failure f;
        assert_int_equal(open_with(objects[k], NULL, NULL, NULL, NULL, 4, &model, &f), 0);
        assert_int_equal(model.model.thread_safe, k == 1);
        assert_int_equal(model.model.log_density(model.model.self, POINTS, &z[0][0], log_p, &grad[0][0]), 0);
        for (size_t i = 0; i < POINTS; i++) {
            bool bad = i % 10 == 3 || i % 10 == 7;
            assert_true(bad ? isnan(log_p[i]) && grad[i][0] == 0 : isfinite(log_p[i]));
        }
        assert_int_equal(model.failed_points, POINTS / 5);
        assert_non_null(model.first_message);
        assert_non_null(strstr(model.first_message, "mu is too large")); /* of point 3, whichever thread was first */
        double values[4] = {0};
        assert_true(model.show(model.show_self, z[3], values) != 0);
        assert_true(isnan(values[0]) && isnan(values[3]));
        assert_int_equal(model.failed_points, POINTS / 5 + 1);
        close_model(&model);
    }
}

/* What a Stan program prints does not get among the results. */
static void keeps_standard_output_clean(void **state)
{
    (void)state;
    opened_model model;
    failure f;
    const double z[2] = {0, 0};
    write_data("", 0);
    fflush(stdout);
    int before = dup(STDOUT_FILENO), file = open(data_path, O_WRONLY);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    int code = open_with(OBJECT("fake_stan"), NULL, NULL, NULL, NULL, 1, &model, &f);
    double log_p = code == 0 ? evaluate(&model, z, NULL) : NAN;
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(file);
    assert_int_equal(code, 0);
    assert_true(isfinite(log_p));
    close_model(&model);
    struct stat about;
    assert_int_equal(stat(data_path, &about), 0);
    assert_int_equal(about.st_size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_inputs),
        cmocka_unit_test(refuses_what_cannot_be_opened),
        cmocka_unit_test(refuses_huge_inputs),
        cmocka_unit_test(reads_labels),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(reads_numbers_as_strtod),
        cmocka_unit_test(opens_logistic),
        cmocka_unit_test(opens_mixtures),
        cmocka_unit_test(tells_what_it_read),
        cmocka_unit_test(opens_the_others),
        cmocka_unit_test(codes_columns),
        cmocka_unit_test(leaves_columns_out),
        cmocka_unit_test(reads_the_data_of_the_project),
        cmocka_unit_test(describes_models_and_options),
        cmocka_unit_test(survives_mutations),
        cmocka_unit_test(opens_plugins),
        cmocka_unit_test(refuses_bad_objects),
        cmocka_unit_test(refuses_damaged_objects),
        cmocka_unit_test(opens_stan_models),
        cmocka_unit_test(counts_failing_points),
        cmocka_unit_test(keeps_standard_output_clean),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
