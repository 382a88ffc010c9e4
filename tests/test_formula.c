/* test_formula.c - formulas against R's model.matrix (tests/data/formula.R): values, names, offsets and responses of
 * the rows of a fit, and of new rows; messages about formulas that are wrong, with their places; hostile texts. Would
 * find a wrong precedence, order of terms, coding of a factor whose margin is absent, columns of new rows that are
 * coded with the levels or means of these rows, places that are off by one, and texts that take memory or stack without
 * limit. */
#include "design.h"
#include "formula.h"
#include "text.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#define DATA WVGD_SOURCE_DIR "/tests/data/"

/* What R has for a formula. */
typedef struct {
    char *text, *names;
    size_t rows, new_rows;
    char *x[64], *new_x[64]; /* [rows], [new_rows] numbers with blanks between them */
    char *y, *trials, *offset, *new_offset;
} truth;

static void free_truth(truth *t)
{
    for (size_t i = 0; i < t->rows; i++)
        free(t->x[i]);
    for (size_t i = 0; i < t->new_rows; i++)
        free(t->new_x[i]);
    free(t->text);
    free(t->names);
    free(t->y);
    free(t->trials);
    free(t->offset);
    free(t->new_offset);
    *t = (truth){0};
}

/* ---- designs ----------------------------------------------------------------------------------------------------- */
/* The design of a formula, and its rows if they are wanted; an exit code otherwise. */
static int build(const char *path, const char *text, const char *missing, const bool *ignored, design **d,
                 design_rows *rows, failure *f)
{
    formula *m;
    data_table t;
    table_options options = {.missing = missing};
    *d = NULL;
    if (parse_formula(text, strlen(text), &m, f))
        return f->code;
    int code = open_table(path, &options, &t, f);
    if (!code) {
        code = mark_formula_columns(m, ignored, &t, f);
        if (!code && (code = read_columns(&t, &options, f)))
            add_remedies(&t, f);
        if (!code)
            code = make_design(m, ignored, &t, d, f);
        if (!code && rows)
            code = fill_design(*d, &t, WITH_RESPONSE, rows, f);
        close_table(&t);
    }
    free_formula(m);
    if (code) {
        free_design(*d);
        *d = NULL;
    }
    return code;
}

static int code_new(const design *d, const char *path, design_parts parts, design_rows *rows, failure *f)
{
    csv_file csv;
    if (open_csv(path, 0, &csv, f))
        return f->code;
    int code = read_design_rows(d, &csv, parts, rows, f);
    close_csv(&csv);
    return code;
}

/* Numbers of a line against x[n], which are `step` apart. */
static void check_numbers(const char *formula_text, const char *what, const char *line, size_t n, const double *x)
{
    const char *at = line;
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        const char *end;
        double wanted = convert_number(at, &end);
        if (end == at)
            fail_msg("%s: %s: R has only %zu values", formula_text, what, i);
        if (!(fabs(x[i] - wanted) <= 1e-11 * (1 + fabs(wanted))))
            fail_msg("%s: %s %zu: %.15g, R has %.15g", formula_text, what, i, x[i], wanted);
        at = end;
    }
    if (at[strspn(at, " \n")])
        fail_msg("%s: %s: R has more than %zu values", formula_text, what, n);
}

static void check_names(const truth *t, const design_shape *s)
{
    char all[8192] = "";
    for (size_t c = 0; c < s->columns; c++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", c ? "\t" : "", s->names[c]);
    if (strcmp(all, t->names) != 0)
        fail_msg("%s: names\n%s\nbut by R's columns\n%s", t->text, all, t->names);
    assert_int_equal(s->intercept, !strncmp(t->names, "intercept", 9) && (!t->names[9] || t->names[9] == '\t'));
}

/* The design after a way through JSON text. */
static design *store(const design *d)
{
    failure f;
    design *out;
    json_t *json = describe_design(d);
    assert_non_null(json);
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    json_decref(json);
    json = json_loads(text, 0, NULL);
    free(text);
    if (load_design("run.json", json, &out, &f))
        fail_msg("%s", f.text);
    json_decref(json);
    return out;
}

static void check_truth(const truth *t)
{
    failure f;
    design *d;
    design_rows rows = {0}, again = {0};
    if (build(DATA "formula.csv", t->text, NULL, NULL, &d, &rows, &f))
        fail_msg("%s: %s", t->text, f.text);
    check_names(t, shape_of(d));
    assert_int_equal(rows.rows, t->rows);
    for (size_t i = 0; i < rows.rows; i++)
        check_numbers(t->text, "row", t->x[i], rows.columns, rows.X + i * rows.columns);
    check_numbers(t->text, "response", t->y, rows.rows, rows.y);
    assert_int_equal(!t->trials, !rows.trials);
    assert_int_equal(!t->offset, !rows.offset);
    if (t->trials)
        check_numbers(t->text, "trials", t->trials, rows.rows, rows.trials);
    if (t->offset)
        check_numbers(t->text, "offset", t->offset, rows.rows, rows.offset);

    design *stored = store(d);
    check_names(t, shape_of(stored));
    if (code_new(stored, DATA "formula.csv", WITH_RESPONSE, &again, &f)) /* the same bits */
        fail_msg("%s: %s", t->text, f.text);
    assert_memory_equal(again.X, rows.X, rows.rows * rows.columns * sizeof *rows.X);
    assert_memory_equal(again.y, rows.y, rows.rows * sizeof *rows.y);
    free_design_rows(&again);
    if (t->new_rows && code_new(stored, DATA "formula_new.csv", WITHOUT_RESPONSE, &again, &f))
        fail_msg("%s: %s", t->text, f.text);
    for (size_t i = 0; i < t->new_rows; i++)
        check_numbers(t->text, "new row", t->new_x[i], again.columns, again.X + i * again.columns);
    if (t->new_offset)
        check_numbers(t->text, "new offset", t->new_offset, again.rows, again.offset);
    free_design_rows(&again);
    free_design_rows(&rows);
    free_design(stored);
    free_design(d);
}

/* Takes a line "key: text". */
static bool take(char *line, const char *key, char **text)
{
    size_t n = strlen(key);
    if (strncmp(line, key, n) || strncmp(line + n, ": ", 2))
        return false;
    line[strcspn(line, "\n")] = '\0';
    *text = strdup(line + n + 2);
    return true;
}

static void agrees_with_R(void **unused)
{
    (void)unused;
    FILE *file = fopen(DATA "formula.txt", "r");
    char *line = NULL, *text;
    size_t room = 0, count = 0;
    truth t = {0};
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        if (take(line, "formula", &text)) {
            if (t.text)
                check_truth(&t);
            free_truth(&t);
            t.text = text;
            count++;
        } else if (take(line, "x", &text))
            t.x[t.rows++] = text;
        else if (take(line, "new", &text))
            t.new_x[t.new_rows++] = text;
        else if (!take(line, "names", &t.names) && !take(line, "y", &t.y) && !take(line, "trials", &t.trials) &&
                 !take(line, "offset", &t.offset) && !take(line, "newoffset", &t.new_offset))
            fail_msg("unknown line %s", line);
    }
    check_truth(&t);
    free_truth(&t);
    free(line);
    fclose(file);
    assert_true(count >= 100);
}

/* ---- formulas that are wrong ------------------------------------------------------------------------------------- */
typedef struct {
    const char *text;
    size_t column; /* where the ^ is to be, counted from 1 */
    const char *message;
} wrong;

/* "formula, column N: ...", the text, and a ^ below the place. */
static void check_place(const wrong *w, const failure *f)
{
    char head[60];
    snprintf(head, sizeof head, "formula, column %zu: ", w->column);
    const char *line = strchr(f->text, '\n'), *caret = line ? strchr(line + 1, '\n') : NULL;
    if (strncmp(f->text, head, strlen(head)) || !strstr(f->text, w->message) || !caret)
        fail_msg("%s: expected column %zu and \"%s\", found\n%s", w->text, w->column, w->message, f->text);
    size_t indent = strspn(caret + 1, " ");
    if (indent != 4 + w->column - 1 || strcmp(caret + 1 + indent, "^") != 0)
        fail_msg("%s: the ^ is not at column %zu:\n%s", w->text, w->column, f->text);
    if (strncmp(line + 1, "    ", 4) || strncmp(line + 5, w->text, (size_t)(caret - line) - 5))
        fail_msg("%s: the text is not shown:\n%s", w->text, f->text);
}

static void refuses_syntax(void **unused)
{
    (void)unused;
    static const wrong table[] = {
        {"", 1, "found the end, expected a response"},
        {"  ", 3, "found the end, expected a response"},
        {"y", 2, "found the end, expected an operator, or ~"},
        {"~ x", 1, "found \"~\", expected a response"},
        {"y ~", 4, "found the end, expected a column, a function, 0, 1, . or \"(\""},
        {"y ~ x +", 8, "found the end, expected a column"},
        {"y ~ * x", 5, "found \"*\", expected a column"},
        {"y ~ x z", 7, "found \"z\", expected an operator or the end"},
        {"y ~ a b", 7,
         "found \"b\", expected an operator or the end (a name with blanks stands in back-quotes: `a b`)"},
        {"y ~ \"a b\"", 5, "a name with blanks stands in back-quotes"},
        {"y ~ x ~ z", 7, "found \"~\", expected an operator or the end"},
        {"y x ~ z", 3, "found \"x\", expected an operator, or ~"},
        {"y ~ (x + z", 11, "found the end, expected an operator or \")\""},
        {"y ~ x + z)", 10, "found \")\", expected an operator or the end"},
        {"y ~ ()", 6, "found \")\", expected a column"},
        {"y ~ x : ", 9, "found the end, expected a column"},
        {"y ~ 2", 5, "found \"2\", expected a column, a function, 0, 1, . or \"(\": to use"},
        {"y ~ 2*x", 5, "found \"2\", expected a column"},
        {"y ~ x*2", 7, "write I()"},
        {"y ~ x:1", 7,
         "found 1, expected a column, a function, . or \"(\": 1 can only be added to terms or subtracted"},
        {"y ~ 0*x", 5, "0 can only be added to terms or subtracted"},
        {"y ~ 2x", 5, "found \"2\""},
        {"y ~ x^z", 7, "found \"z\", expected a whole number from 1"},
        {"y ~ (x + z)^0", 13, "found \"0\", expected a whole number from 1"},
        {"y ~ (x + z)^2.5", 13, "found \"2.5\", expected a whole number"},
        {"y ~ (x + z)^1e9", 13, "expected a whole number from 1 to 1000000"},
        {"y ~ (x + z)^2^2", 14, "found \"^\", expected an operator or the end"},
        {"y ~ (1|a)", 5, "grouping terms as in (1|g) are not supported yet"},
        {"y ~ x + (x|a)", 9, "grouping terms"},
        {"y ~ x + (1 + x || a/b) + z", 9, "grouping terms"},
        {"y ~ (1|a) + (", 14, "found the end, expected a column"},
        {"y ~ x + 1|a", 10, "grouping terms stand in parentheses"},
        {"y ~ x || a", 7, "grouping terms stand in parentheses"},
        {"y ~ lgo(x)", 5, "there is no function \"lgo\": did you mean log?"},
        {"y ~ spline(x)", 5, "there is no function \"spline\": expected I, log"},
        {"y ~ I(sin(x))", 7, "there is no function \"sin\""},
        {"y ~ I(poly(x, 2))", 7, "poly() is a term of its own"},
        {"y ~ log(factor(a))", 9, "factor() is a term of its own"},
        {"y ~ x + cbind(s, f)", 9, "cbind() belongs to the response"},
        {"y ~ trials(n)", 5, "trials() belongs to the response"},
        {"y ~ log()", 9, "found \")\", expected a column, a number"},
        {"y ~ log(x", 10, "found the end, expected an operator or \")\""},
        {"y ~ log(x, 2)", 10, "log() takes one argument: log2()"},
        {"y ~ sqrt(x, 2)", 11, "sqrt() takes one argument"},
        {"y ~ I(x +)", 10, "found \")\", expected a column, a number"},
        {"y ~ I(.)", 7, "found \".\", expected a column, a number, a function or \"(\": . stands only for terms"},
        {"y ~ I(x:z)", 8, "found \":\", expected an operator or \")\""},
        {"y ~ I(x > 1)", 9, "found \">\""},
        {"y ~ poly(x)", 11, "the degree of the polynomial"},
        {"y ~ poly(x, 0)", 13, "found \"0\", expected a whole number from 1 to 20: the degree"},
        {"y ~ poly(x, z)", 13, "found \"z\", expected a whole number"},
        {"y ~ poly(x, 2, 3)", 16, "expected raw = TRUE or FALSE"},
        {"y ~ poly(x, 2, raw = 1)", 22, "found \"1\", expected TRUE or FALSE"},
        {"y ~ poly(x, raw = TRUE)", 23, "the degree of the polynomial"},
        {"y ~ factor(x + 1)", 14, "factor() takes one column"},
        {"y ~ factor(3)", 12, "found \"3\", expected a column"},
        {"y ~ factor(log(x))", 12, "factor() takes no expression"},
        {"y ~ scale(x, 2)", 14, "expected center = TRUE or FALSE"},
        {"y ~ scale(x, centre = TRUE)", 14, "found \"centre\", expected center"},
        {"y ~ x:offset(z)", 7, "offset() can only be added"},
        {"y ~ x - offset(z)", 9, "offset() can only be added"},
        {"y ~ (x + offset(z))^2", 10, "offset() can only be added"},
        {"y ~ x + y", 9, "y is the response"},
        {"y ~ x + x:y", 11, "y is the response"},
        {"cbind(s) ~ x", 8, "and the failures: cbind(success, failure)"},
        {"cbind(s, f, n) ~ x", 11, "cbind(success, failure)"},
        {"cbind(s, f) + 1 ~ x", 13, "found \"+\", expected ~ and terms"},
        {"s | n ~ x", 5, "found \"n\", expected trials(n)"},
        {"s | weights(n) ~ x", 5, "weights are an option, --weights"},
        {"s | trials() ~ x", 12, "found \")\""},
        {"a:b ~ x", 2, "found \":\""},
        {". ~ x", 1, "found \".\""},
        {"y ~ `x", 5, "a name has no closing back-quote"},
        {"y ~ ``", 5, "found an empty name"},
        {"y ~ x & z", 7, "found \"&\""},
        {"y ~ x %o% z", 7, "found \"%\""},
        {"y ~ x == z", 7, "found \"=\""},
        {"y ~ a$x", 6, "found \"$\""},
        {"y ~ \"x\"", 5, "found \"\"\""},
        {"y ~ I(0x10*x)", 7, "found a hexadecimal number"},
        {"y ~ I(1e999*x)", 7, "found a number that is too large"},
        {"y ~ x +\tz +\n* a", 13, "found \"*\""},
        {"\xC3\xA9 ~ \xC3\xBC + ?", 9, "found \"?\""},
        {"y ~ \xE2\x82\xAC + ", 9, "found the end"}, /* every letter counts as one */
        {"y ~ a:b:c:d:e:f:g:h:i:j:k:l:m:n:o:p:q", 5, "an interaction of more than 16 variables"},
        {"y ~ (a - a)*b", 6, "these terms cancel"},
        {"y ~ b/(a - a)", 8, "these terms cancel"},
        {"y ~ (a - a)^2", 6, "these terms cancel"},
        {"y ~ 0", 5, "there are no terms and no intercept"},
        {"y ~ x - x - 1", 5, "there are no terms and no intercept"},
    };
    const char *path = DATA "formula.csv";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        failure f = {0};
        design *d;
        if (build(path, table[i].text, NULL, NULL, &d, NULL, &f) != EX_USAGE)
            fail_msg("%s: exit code %d: %s", table[i].text, f.code, f.text);
        if (!strpbrk(table[i].text, "\t\n"))
            check_place(&table[i], &f);
        else
            assert_non_null(strstr(f.text, "column 13: found \"*\""));
    }
}

/* ---- formulas that do not fit the table -------------------------------------------------------------------------- */
static char *write_file(const char *text)
{
    char *path = strdup("/tmp/test_formula.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return path;
}

static const char small[] =
    "y;x;g;id;flat;only;intercept;q;day\n"
    "1;1.5;u;r1;3;v;1;;2020-01-01\n2;-1;v;r2;3;v;2;1;2020-01-02\n3;2;u;r3;3;v;4;2;2020-01-03\n"
    "4;0;v;r4;3;v;7;3;2020-01-04\n5;1e200;u;r5;3;v;1;4;2020-01-05\n6;7;v;r6;3;v;3;5;2020-01-06\n"
    "7;8;v;r7;3;v;1;6;2020-01-07\n8;9;u;r8;3;v;1;7;2020-01-08\n9;1;u;r9;3;v;1;8;2020-01-09\n"
    "10;2;v;r10;3;v;5;9;2020-01-10\n11;2;v;r11;3;v;5;9;2020-01-10\n12;2;u;r12;3;v;5;9;2020-01-10\n";

static void refuses_data(void **unused)
{
    (void)unused;
    static const wrong table[] = {
        {"y ~ x + agee", 9, "has no column \"agee\": expected "},
        {"y ~ X", 5, "has no column \"X\": did you mean x?"},
        {"y ~ x + flatt", 9, "has no column \"flatt\": did you mean flat?"},
        {"yy ~ x", 1, "has no column \"yy\""},
        {"y ~ log(g)", 9, "column g has categories, expected numbers"},
        {"y ~ I(x + g)", 11, "column g has categories"},
        {"y ~ poly(g, 2)", 10, "column g has categories"},
        {"y ~ x + offset(g)", 16, "column g has categories"},
        {"log(g) ~ x", 5, "column g has categories"},
        {"cbind(g, y) ~ x", 7, "column g has categories"},
        {"y | trials(g) ~ x", 12, "column g has categories"},
        {"y ~ g + sqrt(x)", 9, ":3: sqrt(x) is not a number, expected a finite number"},
        {"y ~ g + log(x + 1)", 9, ":3: log(x+1) is infinite"},
        {"y ~ I(1/x)", 5, ":5: I(1/x) is infinite"},
        {"y ~ offset(log(x))", 5, ":3: offset(log(x)) is not a number"},
        {"log(x) ~ y", 1, ":3: log(x) is not a number"}, /* not finite: the response, too */
        {"y ~ scale(flat)", 5, "constant"},
        {"y ~ poly(flat, 1)", 5, "a polynomial of degree 1 needs more than 1 different values"},
        {"y ~ poly(intercept, 6)", 5, "has 6"},
        {"y ~ factor(flat)", 5, "factor(flat) is the same in all rows: expected two levels"},
        {"y ~ x + intercept", 9, "two coefficients would be called \"intercept\""},
    };
    char *path = write_file(small);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        failure f = {0};
        design *d;
        design_rows rows = {0};
        if (build(path, table[i].text, NULL, NULL, &d, &rows, &f) != EX_DATAERR)
            fail_msg("%s: exit code %d: %s", table[i].text, f.code, f.text);
        check_place(&table[i], &f);
    }
    failure f;
    design *d;
    design_rows rows = {0};
    assert_int_equal(build(path, "y ~ x:I(x)", NULL, NULL, &d, &rows, &f), EX_DATAERR);
    assert_non_null(strstr(f.text, ":6: x:I(x) is too large"));
    assert_int_equal(build(path, "y ~ foo + bar", NULL, NULL, &d, NULL, &f), EX_DATAERR); /* all of them */
    assert_true(strstr(f.text, "\"foo\"") && strstr(f.text, "\"bar\""));
    assert_int_equal(build(path, "y ~ id", NULL, NULL, &d, NULL, &f), EX_DATAERR); /* as every table */
    assert_non_null(strstr(f.text, ": a formula without id leaves out the column"));
    assert_int_equal(build(path, "y ~ day", NULL, NULL, &d, NULL, &f), EX_DATAERR);
    assert_non_null(strstr(f.text, ": a formula without day leaves out the column"));
    assert_int_equal(build(path, "y ~ q", NULL, NULL, &d, NULL, &f), EX_DATAERR);
    assert_non_null(strstr(f.text, "leaves out 1 of 12 rows; a formula without q leaves out the column instead"));
    unlink(path);
    free(path);
}

/* Columns that the formula does not need may be anything; rows are dropped only for those that it does need. */
static void needs_only_its_columns(void **unused)
{
    (void)unused;
    char *path = write_file(small);
    failure f;
    design *d;
    design_rows rows = {0};
    if (build(path, "y ~ x + g", NULL, NULL, &d, &rows, &f))
        fail_msg("%s", f.text);
    assert_int_equal(rows.rows, 12);
    free_design_rows(&rows);
    free_design(d);
    if (build(path, "y ~ . - id - only - day - intercept", "drop", NULL, &d, &rows, &f))
        fail_msg("%s", f.text);
    assert_int_equal(rows.rows, 11);
    assert_int_equal(rows.columns, 5); /* intercept x g[v] flat q */
    assert_string_equal(shape_of(d)->names[2], "g[v]");
    free_design_rows(&rows);
    free_design(d);
    const bool ignored[9] = {[3] = true, [5] = true, [6] = true, [7] = true, [8] = true};
    if (build(path, "y ~ . + log(intercept)", NULL, ignored, &d, &rows, &f)) /* what is ignored can still be named */
        fail_msg("%s", f.text);
    assert_int_equal(rows.rows, 12);
    assert_int_equal(rows.columns, 5); /* intercept x g[v] flat log(intercept) */
    assert_string_equal(shape_of(d)->names[4], "log(intercept)");
    assert_string_equal(shape_of(d)->term[1], "g");
    assert_int_equal(shape_of(d)->term_of[2], 1);
    assert_int_equal(shape_of(d)->term_of[0], shape_of(d)->terms);
    free_design_rows(&rows);
    free_design(d);
    unlink(path);
    free(path);
}

/* ---- new rows ---------------------------------------------------------------------------------------------------- */
static void check_new(const design *d, design_parts parts, const char *text, size_t messages,
                      const char *const *message)
{
    failure f = {0};
    design_rows rows = {0};
    char *path = write_file(text);
    int code = code_new(d, path, parts, &rows, &f);
    if ((code != 0) != (messages != 0) || (code && code != EX_DATAERR))
        fail_msg("%s: exit code %d: %s", text, code, f.text);
    for (size_t i = 0; i < messages; i++)
        if (!strstr(f.text, message[i]))
            fail_msg("%s: expected \"%s\", found\n%s", text, message[i], f.text);
    free_design_rows(&rows);
    unlink(path);
    free(path);
}

#define NEW(d, parts, text, ...)                                                                                       \
    check_new(d, parts, text, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

static void codes_new_rows(void **unused)
{
    (void)unused;
    failure f;
    design *d;
    size_t n;
    if (build(DATA "formula.csv", "s | trials(n) ~ a*x + own + factor(k) + offset(z)", NULL, NULL, &d, NULL, &f))
        fail_msg("%s", f.text);
    check_new(d, WITHOUT_RESPONSE, "a,x,own,k,z\nu,1,t,2,1\n", 0, NULL); /* one row, one level, another word */
    NEW(d, WITHOUT_RESPONSE, "a,own,k\nu,t,2\n", "no column \"x\"", "no column \"z\"");
    NEW(d, WITHOUT_RESPONSE, "a,x,own,k,z\nu,1,t,2,1\nU,1,maybe,2,1\n",
        ":3: column a: ", "a level that the model was fitted with: \"W\", \"u\", \"v\"",
        "yes or no (or true or false)");
    NEW(d, WITHOUT_RESPONSE, "a,x,own,k,z\nu,NA,t,2,\n", "column x: ", "column z: ", "a value");
    NEW(d, WITHOUT_RESPONSE, "a,x,own,k,z\nu,1,t,2,1\nu,1,t,3,1\n",
        ":3: factor(k) is 3, expected a value that the model was fitted with");
    NEW(d, WITH_TRIALS, "a,x,own,k,z\nu,1,t,2,1\n", "no column \"n\"");
    check_new(d, WITH_TRIALS, "a,x,own,k,z,n\nu,1,t,2,1,4\n", 0, NULL);
    NEW(d, WITH_RESPONSE, "a,x,own,k,z,n\nu,1,t,2,1,4\n", "no column \"s\"");
    const char *const *columns = design_columns(d, WITHOUT_RESPONSE, &n);
    assert_int_equal(n, 5);
    assert_string_equal(columns[0], "a");
    design_columns(d, WITH_TRIALS, &n);
    assert_int_equal(n, 6);
    columns = design_columns(d, WITH_RESPONSE, &n);
    assert_int_equal(n, 7);
    assert_string_equal(columns[0], "s");
    assert_string_equal(shape_of(d)->response_name, "s");
    assert_string_equal(shape_of(d)->other_name, "n");
    free_design(d);
    if (build(DATA "formula.csv", "factor(a) ~ x", NULL, NULL, &d, NULL, &f)) /* labels: as a */
        fail_msg("%s", f.text);
    assert_int_equal(shape_of(d)->levels, 3);
    assert_string_equal(shape_of(d)->level[0], "W");
    free_design(d);
}

/* A record that somebody has changed is refused, whatever is wrong in it. */
static void refuses_damaged_records(void **unused)
{
    (void)unused;
    static const char *const changes[] = {
        "{\"formula\": 3}",
        "{\"formula\": \"y ~\"}",
        "{\"formula\": \"y ~ q\"}",
        "{\"formula\": \"y ~ .\", \"dot\": [3]}",
        "{\"dot\": [\"k\"]}",
        "{\"columns\": []}",
        "{\"columns\": 7}",
        "{\"columns\": [{\"name\": \"y\", \"kind\": \"x\"}, {\"name\": \"a\"}, {}, {}]}",
        "{\"state\": []}",
        "{\"state\": [[1], [1, 2]]}",
        "{\"state\": [[0, 0], [2, 3]]}",
        "{\"state\": [[0, 1], [3, 2]]}",
        "{\"state\": [[0, 1], [3, \"a\"]]}",
        "{\"state\": [[0, 1], [3]]}",
    };
    failure f;
    design *d, *out;
    if (build(DATA "formula.csv", "y ~ a + scale(x) + factor(k)", NULL, NULL, &d, NULL, &f))
        fail_msg("%s", f.text);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        json_t *json = describe_design(d), *change = json_loads(changes[i], 0, NULL);
        assert_true(json && change);
        json_object_update(json, change);
        if (i != 4 && !load_design("run.json", json, &out, &f))
            fail_msg("%s was taken", changes[i]);
        else if (i == 4) { /* . does not occur: what it would stand for does not matter */
            assert_int_equal(load_design("run.json", json, &out, &f), 0);
            free_design(out);
        }
        json_decref(change);
        json_decref(json);
    }
    json_t *json = describe_design(d);
    json_t *levels = json_object_get(json_array_get(json_object_get(json, "columns"), 1), "levels");
    json_array_append_new(levels, json_string("A")); /* out of order */
    assert_int_equal(load_design("run.json", json, &out, &f), EX_DATAERR);
    json_array_clear(levels);
    assert_int_equal(load_design("run.json", json, &out, &f), EX_DATAERR);
    json_decref(json);
    free_design(d);
}

/* ---- hostile texts ----------------------------------------------------------------------------------------------- */
/* `times` copies of a text between two others; to be freed. */
static char *repeat(const char *before, const char *text, size_t times, const char *after)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    assert_non_null(stream);
    fputs(before, stream);
    for (size_t i = 0; i < times; i++)
        fputs(text, stream);
    fputs(after, stream);
    fclose(stream);
    return out;
}

/* Builds it or refuses it. */
static int try(const char *text, failure *f)
{
    design *d;
    design_rows rows = {0};
    f->code = 0;
    int code = build(DATA "formula.csv", text, NULL, NULL, &d, &rows, f);
    free_design_rows(&rows);
    free_design(d);
    return code;
}

static const struct {
    const char *before, *text;
    size_t times;
    const char *after, *message; /* NULL: it is fine */
} long_ones[] = {
    {"y ~ ", "(", 30000, "x", "nested too deeply: expected at most 60 levels"},
    {"y ~ ", "(", 50, "x))))))))))))))))))))))))))))))))))))))))))))))))))", NULL},
    {"y ~ I(", "-", 30000, "x)", "nested too deeply"},
    {"y ~ ", "-", 30000, "x", "nested too deeply"},
    {"y ~ z + ", "-", 40, "x", NULL},
    {"y ~ ", "log(", 10000, "x", "nested too deeply"},
    {"y ~ I(x", "^x", 20000, ")", "nested too deeply"},
    {"y ~ I(x", "+x", 10000, ")", "more than 100 operators"},
    {"y ~ I(x", "+x", 90, ")", NULL},
    {"y ~ I(x", "*x", 10000, ")", "more than 100 operators"},
    {"", "y+", 10000, "y ~ x", "more than 100 operators"},
    {"y ~ x", "*x", 10000, "", "more than 100 operators"},
    {"y ~ x", ":x", 90, "", NULL},
    {"y ~ x", "+x", 15000, "", NULL},
    {"y ~ x", "-z", 10000, "", NULL},
    {"y ~ x", "+(x-z)", 4000, "", NULL},
    {"y ~ x", "+x", 32000, "", "too long"},
    {"y ~ x", " ", 70000, "", "bytes: expected at most 65536"},
    {"y ~ x + ", "y", 60000, "", "has no column"},
    {"y ~ `", "y", 60000, "`", "has no column"},
    {"y ~ (.)^", "9", 5, "", "more than 10000 columns"},
    {"y ~ (x + z + a + b + c)^", "9", 6, "", NULL},
    {"y ~ (x + z)^", "9", 6, "", NULL},
    {"y ~ ", "((((.)^2)^2)^2)+", 1000, "x", "too many terms"},
    {"y ~ x + offset(z)", "+offset(z)", 3000, "", NULL},
};

/* The thread's own: exit codes that are wrong. */
static void *run_long_ones(void *self)
{
    char *complaint = self;
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones && !*complaint; i++) {
        failure *f = calloc(1, sizeof *f);
        char *text = repeat(long_ones[i].before, long_ones[i].text, long_ones[i].times, long_ones[i].after);
        int code = try(text, f);
        if (long_ones[i].message ? !code || !strstr(f->text, long_ones[i].message) : code)
            snprintf(complaint, 900, "%s%s...: exit code %d: %.700s", long_ones[i].before, long_ones[i].text, code,
                     f->text);
        free(text);
        free(f);
    }
    return NULL;
}

/* In a thread with little stack: nothing may recurse without limit, or keep long texts there. */
static void bounds_stack_and_memory(void **unused)
{
    (void)unused;
#ifdef __SANITIZE_ADDRESS__ /* guards in frames */
    const size_t stack = 2048 * 1024;
#else
    const size_t stack = 128 * 1024;
#endif
    pthread_t thread;
    pthread_attr_t attr;
    char complaint[1000] = "";
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, stack), 0);
    assert_int_equal(pthread_create(&thread, &attr, run_long_ones, complaint), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (*complaint)
        fail_msg("%s", complaint);
    formula *m;
    failure f;
    char many[2000] = "y ~ (c0";
    for (int i = 1; i < 141; i++) /* 141 * 142 / 2 terms */
        snprintf(many + strlen(many), sizeof many - strlen(many), "+c%d", i);
    strcat(many, ")^2");
    assert_int_equal(try(many, &f), EX_USAGE);
    assert_non_null(strstr(f.text, "column 5: this makes more than 10000 terms"));
    assert_int_equal(parse_formula("y ~ x\0+ z", 9, &m, &f), EX_USAGE);
    assert_non_null(strstr(f.text, "column 6: found a NUL byte"));
    assert_int_equal(parse_formula("y ~ x\xFF", 6, &m, &f), EX_USAGE);
    assert_non_null(strstr(f.text, "column 6: found the byte \\xFF"));
    assert_int_equal(parse_formula("y ~ x + z", 5, &m, &f), 0); /* no byte after the size is read */
    free_formula(m);
}

/* ---- random texts ------------------------------------------------------------------------------------------------ */
static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Pieces of the language, and some of none. */
static const char *const pieces[] = {
    "y",        "x",       "z",       "a",    "b",  "c",    "k",      "own",       "`a b`",   ".",      " + ",
    " - ",      "*",       ":",       "/",    "^",  "^2",   "^3",     "(",         ")",       "(",      ")",
    "~",        " ~ ",     "1",       "0",    "2",  "I(",   "log(",   "exp(",      "sqrt(",   "scale(", "poly(",
    ",2)",      ",raw=T)", "factor(", "|",    "||", "%in%", "cbind(", "trials(n)", "offset(", ",",      "=",
    "\xC3\xA9", "`",       "\t",      "\x01", "%",  "1e5",  "1e999",  "\"",        "**",      "abs(",   "-1",
};

/* Sentences: mostly right. */
static const char *const operands[] = {"x",         "a",         "b",      "c",        "own",       "`a b`",
                                       "(x + a)",   "(a - 1)",   "I(x^2)", "log(z)",   "poly(z,2)", "scale(x)",
                                       "factor(k)", "(a + b)^2", "(b/z)",  "exp(x/9)", "-x",        "z^3",
                                       "1",         ".",         "(x|a)",  "nothing",  "I(a)",      "offset(z)"},
                         *const operators[] = {" + ", " + ", " + ", " - ", "*", ":", "/", " %in% "};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void survives_random_texts(void **unused)
{
    (void)unused;
    uint64_t seed = 20261;
    size_t good = 0, bad = 0;
    for (size_t k = 0; k < 6000; k++) {
        char text[600] = "";
        size_t length = 1 + next_random(&seed) % (k % 2 ? 5 : 16);
        if (k % 2)
            snprintf(text, sizeof text, "y ~ x");
        for (size_t i = 0; i < length; i++) {
            const char *first = k % 2 ? operators[next_random(&seed) % COUNT(operators)] : "",
                       *second = k % 2 ? operands[next_random(&seed) % COUNT(operands)]
                                       : pieces[next_random(&seed) % COUNT(pieces)];
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", first, second);
        }
        failure f = {0};
        int code = try(text, &f);
        if (code && (code != f.code || !*f.text || (code != EX_USAGE && code != EX_DATAERR)))
            fail_msg("%s: exit code %d: %s", text, code, f.text);
        good += !code;
        bad += code != 0;
    }
    if (good < 500 || bad < 1000)
        fail_msg("%zu good, %zu bad", good, bad);
}

/* The formulas of the truths with a byte changed, left out or doubled. */
static void survives_changed_texts(void **unused)
{
    (void)unused;
    uint64_t seed = 7;
    FILE *file = fopen(DATA "formula.txt", "r");
    char *line = NULL, *text;
    size_t room = 0;
    assert_non_null(file);
    while (getline(&line, &room, file) > 0) {
        if (!take(line, "formula", &text))
            continue;
        size_t n = strlen(text);
        for (size_t i = 0; i < n; i++) {
            failure f = {0};
            char *changed = malloc(n + 2);
            size_t kind = next_random(&seed) % 3;
            memcpy(changed, text, i);
            changed[i] = kind == 0 ? "+-*/:^()~|.,`01xa "[next_random(&seed) % 18] : text[i];
            memcpy(changed + i + (kind != 1), text + i + (kind != 2), n + 1 - i - (kind != 2));
            int code = try(changed, &f);
            if (code && code != EX_USAGE && code != EX_DATAERR)
                fail_msg("%s: exit code %d: %s", changed, code, f.text);
            free(changed);
        }
        free(text);
    }
    free(line);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_R),
        cmocka_unit_test(refuses_syntax),
        cmocka_unit_test(refuses_data),
        cmocka_unit_test(needs_only_its_columns),
        cmocka_unit_test(codes_new_rows),
        cmocka_unit_test(refuses_damaged_records),
        cmocka_unit_test(bounds_stack_and_memory),
        cmocka_unit_test(survives_random_texts),
        cmocka_unit_test(survives_changed_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
