/* table.c - columns of a CSV file with types, and which of its rows count. */
#include "table.h"
#include "ascending.h"
#include "pages.h"
#include "text.h"
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

enum { MOST_LEVELS = 50, FACTOR_LEVELS = 10000, ROWS_PER_LEVEL = 5, LONGEST_NAME = 255 };
enum { MOST_SENT = 100000 }; /* levels of a column that a process tells others of: more are refused anyway */

static int no_memory(const csv_file *csv, failure *f)
{
    return fail(f, EX_SOFTWARE, "%s: no memory for %zu rows of %zu columns", csv->path, csv->rows, csv->columns);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
static int read_delimiter(const char *text, char *delimiter, failure *f)
{
    bool tab = text && (!strcasecmp(text, "tab") || !strcmp(text, "\\t"));
    *delimiter = tab ? '\t' : text ? *text : '\0';
    if (!text || tab || (strlen(text) == 1 && strchr(",;\t", *text)))
        return 0;
    return fail(f, EX_USAGE, "--delimiter is '%.60s': expected ',' or ';' or tab", text);
}

int open_table(const char *path, const table_options *options, data_table *t, failure *f)
{
    char delimiter;
    *t = (data_table){0};
    if (options->missing && strcmp(options->missing, "error") && strcmp(options->missing, "drop"))
        return fail(f, EX_USAGE, "--missing is '%.60s': expected error (refuse the file) or drop (leave out the rows)",
                    options->missing);
    if (read_delimiter(options->delimiter, &delimiter, f) ||
        open_csv_share(path, delimiter, options->shares, &t->csv, f))
        return f->code;
    t->column = calloc(t->csv.columns, sizeof *t->column);
    if (!t->column) {
        int code = no_memory(&t->csv, f);
        close_table(t);
        return code;
    }
    for (size_t c = 0; c < t->csv.columns; c++)
        t->column[c].name = t->csv.name[c];
    return 0;
}

void forget_values(data_table *t)
{
    for (size_t c = 0; t->column && c < t->csv.columns; c++) {
        free(t->column[c].value);
        t->column[c].value = NULL;
    }
}

static void forget_response(data_table *t)
{
    free(t->response);
    free(t->response_at);
    t->response = NULL;
    t->response_at = NULL;
}

void forget_table_rows(data_table *t)
{
    if (!t->csv.shares)
        return;
    forget_rows(&t->csv);
    forget_response(t);
    free(t->row);
    t->row = NULL;
    for (size_t c = 0; c < t->csv.columns; c++)
        t->column[c].name = t->csv.name[c];
}

void close_table(data_table *t)
{
    forget_values(t);
    for (size_t c = 0; t->column && c < t->csv.columns; c++) {
        free(t->column[c].level);
        free(t->column[c].level_text);
    }
    forget_response(t);
    free(t->column);
    free(t->row);
    close_csv(&t->csv);
    *t = (data_table){0};
}

/* ---- names of columns -------------------------------------------------------------------------------------------- */
/* "expected a, b, c or d": the first columns, as many as the text has room for; or "did you mean b?". Returns it. */
const char *suggest_columns(const csv_file *csv, const char *name, char text[SUGGESTED])
{
    const char **names = calloc(csv->columns + 1, sizeof *names), *nearest = NULL; /* NULL at the end */
    if (names) {
        memcpy(names, csv->name, csv->columns * sizeof *names);
        nearest = find_nearest(name, names);
    }
    free(names);
    if (nearest) {
        snprintf(text, SUGGESTED, "did you mean %.300s?", nearest);
        return text;
    }
    size_t at = (size_t)snprintf(text, SUGGESTED, "expected ");
    for (size_t i = 0; i < csv->columns; i++) {
        const char *before = !i ? "" : i + 1 < csv->columns ? ", " : " or ";
        if (at + strlen(before) + strlen(csv->name[i]) + sizeof ", ..." > SUGGESTED) {
            snprintf(text + at, SUGGESTED - at, "%s...", i ? ", " : "");
            break;
        }
        at += (size_t)snprintf(text + at, SUGGESTED - at, "%s%s", before, csv->name[i]);
    }
    return text;
}

int refuse_column(const csv_file *csv, const char *name, failure *f)
{
    char shown[QUOTED], what[SUGGESTED];
    return fail(f, EX_DATAERR, "%s:1: there is no column %s: %s", csv->path, quote(name, shown),
                suggest_columns(csv, name, what));
}

int mark_columns(const csv_file *csv, const char *list, bool *flag, failure *f)
{
    if (find_column(csv, list) < csv->columns) {
        flag[find_column(csv, list)] = true;
        return 0;
    }
    char *copy = strdup(list), *at = copy;
    if (!copy)
        return fail(f, EX_SOFTWARE, "%s: no memory for the names of columns", csv->path);
    failure all = {0}, one;
    while (at) {
        char *name = at + strspn(at, " "), *comma = strchr(name, ',');
        at = comma ? comma + 1 : NULL;
        if (comma)
            *comma = '\0';
        for (size_t n = strlen(name); n && name[n - 1] == ' ';)
            name[--n] = '\0';
        size_t c = find_column(csv, name);
        if (c < csv->columns)
            flag[c] = true;
        else {
            refuse_column(csv, name, &one);
            add_failure(&all, &one);
        }
    }
    free(copy);
    if (all.code)
        *f = all;
    return all.code;
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */
enum { REMEDY = 1100, LIST = 500 }; /* bytes that are kept for what helps, and of a list of columns in it */

typedef bool column_test(const data_column *column);

static bool is_untold(const data_column *column)
{
    return column->untold;
}

/* Columns that one of the options leaves out. */
static bool is_unusable(const data_column *column)
{
    return column->refused && !column->response && !column->named;
}

static bool is_unusable_name(const data_column *column)
{
    return column->refused && !column->response && column->named;
}

static bool is_gappy(const data_column *column)
{
    return column->missing && !column->refused && !column->response && !column->named;
}

static bool is_gappy_name(const data_column *column)
{
    return column->missing && !column->refused && !column->response && column->named;
}

static size_t count_columns(const data_table *t, column_test *test)
{
    size_t n = 0;
    for (size_t c = 0; c < t->csv.columns; c++)
        n += test(&t->column[c]);
    return n;
}

/* "a,b": names as --ignore takes them, in quotes where a shell needs them. */
static const char *list_names(const data_table *t, column_test *test, char text[LIST])
{
    size_t at = 0;
    bool quotes = false;
    for (size_t c = 0; c < t->csv.columns; c++)
        quotes = quotes || (test(&t->column[c]) && strpbrk(t->csv.name[c], " \t\"$&()*;<>?[]`{|}~#!\\"));
    at += (size_t)snprintf(text, LIST, "%s", quotes ? "'" : "");
    for (size_t c = 0, n = 0; c < t->csv.columns; c++) {
        if (!test(&t->column[c]))
            continue;
        if (at + strlen(t->csv.name[c]) + sizeof ",...'" > LIST) {
            at += (size_t)snprintf(text + at, LIST - at, "%s...", n ? "," : "");
            break;
        }
        at += (size_t)snprintf(text + at, LIST - at, "%s%s", n++ ? "," : "", t->csv.name[c]);
    }
    snprintf(text + at, LIST - at, "%s", quotes ? "'" : "");
    return text;
}

/* "--ignore a,b and a formula without c": how to leave out columns. */
static const char *leave_out(const data_table *t, column_test *free, column_test *named, char text[2 * LIST + 40])
{
    char list[LIST];
    bool some = count_columns(t, free) > 0, more = count_columns(t, named) > 0;
    *text = '\0';
    if (some)
        sprintf(text, "--ignore %s", list_names(t, free, list));
    if (more)
        sprintf(text + strlen(text), "%s%s without %s", some ? " and " : "", t->formula ? "a formula" : "--features",
                list_names(t, named, list));
    return text;
}

/* Says what is wrong with column c, or remembers that there is no room for it. */
static void add_problem(data_table *t, size_t c, failure *all, const failure *one)
{
    if (all->code && strlen(all->text) + strlen(one->text) + REMEDY > sizeof all->text)
        t->column[c].untold = true;
    else
        add_failure(all, one);
}

void add_remedies(const data_table *t, failure *f)
{
    char columns[2 * LIST + 40], list[LIST];
    failure one;
    bool unusable = count_columns(t, is_unusable) + count_columns(t, is_unusable_name) > 0,
         several = count_columns(t, is_unusable) + count_columns(t, is_unusable_name) > 1;
    bool dropped = t->drops && t->all_rows; /* so that gaps are no problem */
    size_t gaps = dropped ? 0 : count_columns(t, is_gappy) + count_columns(t, is_gappy_name);
    if (count_columns(t, is_untold)) {
        fail(&one, f->code, "and there are problems of these kinds in %s", list_names(t, is_untold, list));
        add_failure(f, &one);
    }
    leave_out(t, unusable ? is_unusable : is_gappy, unusable ? is_unusable_name : is_gappy_name, columns);
    if (t->gaps && t->all_rows && !dropped)
        fail(&one, f->code, "--missing drop leaves out %zu of %zu rows%s%s%s", t->gaps, t->csv.all_rows,
             unusable ? ", and "
             : gaps   ? "; "
                      : "",
             columns,
             unusable && several ? " leaves out the columns that cannot be used"
             : unusable          ? " leaves out the column that cannot be used"
             : gaps == 1         ? " leaves out the column instead"
             : gaps              ? " leaves out the columns instead"
                                 : "");
    else if (unusable || gaps)
        fail(&one, f->code, "%s leaves out the column%s", columns, several || (!unusable && gaps > 1) ? "s" : "");
    else
        return;
    size_t at = strlen(f->text);
    if (strchr(f->text, '\n'))
        add_failure(f, &one);
    else /* one problem takes one line */
        snprintf(f->text + at, sizeof f->text - at, ": %s", one.text);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* Missing values of each column; those without any other cannot be used. Then the rows that have none in the others. */
static void count_missing(data_table *t)
{
    const csv_file *csv = &t->csv;
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = first_field(csv, row);
        for (size_t c = 0; c < csv->columns; c++, field = next_field(field))
            if (t->column[c].used && is_missing(field))
                t->column[c].first = t->column[c].missing++ ? t->column[c].first : row;
    }
}

static int share_missing(data_table *t, failure *f)
{
    for (size_t c = 0; t->csv.shares && c < t->csv.columns; c++)
        if (share_counts(t->csv.shares, 1, &t->column[c].missing, f))
            return f->code;
    for (size_t c = 0; c < t->csv.columns; c++)
        t->column[c].refused = t->column[c].missing == t->csv.all_rows;
    return 0;
}

static void find_rows(data_table *t)
{
    const csv_file *csv = &t->csv;
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = first_field(csv, row);
        bool missing = false;
        for (size_t c = 0; c < csv->columns; c++, field = next_field(field))
            missing = missing || (t->column[c].used && !t->column[c].refused && is_missing(field));
        if (missing)
            t->gaps++;
        else
            t->row[t->rows++] = row;
    }
}

/* Says so of column c, where its first missing value is in this share. */
static int refuse_gap(const data_table *t, size_t c, bool here, failure *f)
{
    const data_column *column = &t->column[c];
    char expected[100];
    f->code = 0;
    if (column->refused)
        return fail(f, EX_DATAERR, "%s: column %s has no value in any row", t->csv.path, column->name);
    if (!here)
        return 0;
    snprintf(expected, sizeof expected, "a value in every row (%zu of %zu have none)", column->missing,
             t->csv.all_rows);
    return refuse_field(&t->csv, column->first, c, find_field(&t->csv, column->first, c), expected, f);
}

/* gaps: missing values that must not be dropped; columns without any value are refused anyway. */
static void refuse_missing(data_table *t, bool gaps, const bool *here, failure *f)
{
    failure one;
    f->code = 0;
    for (size_t c = 0; c < t->csv.columns; c++)
        if (t->column[c].refused || (gaps && t->column[c].missing)) {
            refuse_gap(t, c, here[c], &one);
            if (share_failure(t->csv.shares, &one))
                add_problem(t, c, f, &one);
        }
}

/* Rows, and those with gaps, of all shares. */
static int share_rows(data_table *t, failure *f)
{
    size_t counts[2] = {t->rows, t->gaps};
    if (share_counts(t->csv.shares, 2, counts, f))
        return f->code;
    t->all_rows = counts[0];
    t->dropped = t->gaps = counts[1];
    return 0;
}

/* Which rows count: *wrong says so if some have missing values that must not be dropped, or none are left. They are
 * left out then, too, to look for other problems. */
static int choose_rows(data_table *t, const table_options *options, failure *wrong, failure *f)
{
    bool *here = calloc(t->csv.columns, sizeof *here);
    f->code = wrong->code = 0;
    t->drops = options->missing && !strcmp(options->missing, "drop");
    t->row = calloc(t->csv.rows + 1, sizeof *t->row);
    if (!here || !t->row)
        no_memory(&t->csv, f);
    int code = share_failure(t->csv.shares, f);
    if (!code)
        count_missing(t);
    for (size_t c = 0; !code && c < t->csv.columns; c++)
        here[c] = t->column[c].missing > 0;
    if (!code)
        code = share_missing(t, f);
    if (!code) {
        find_rows(t);
        code = share_rows(t, f);
    }
    if (!code)
        refuse_missing(t, t->gaps && !(t->drops && t->all_rows), here, wrong);
    free(here);
    return code;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
int read_boolean(const char *s)
{
    static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"f", "t"}, {"n", "y"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int k = 0; k < 2; k++)
            if (!strcasecmp(s, words[i][k]))
                return k;
    return -1;
}

/* Does s look like a pattern, in which 9 stands for a digit and - for a separator? What follows a blank or a T does
 * not matter. */
static bool is_like(const char *s, const char *pattern)
{
    for (; *pattern; pattern++, s++)
        if (*pattern == '9' ? !isdigit((unsigned char)*s) : !*s || !strchr("-/.", *s))
            return false;
    return !*s || *s == ' ' || *s == 'T';
}

static bool is_month(const char *s)
{
    static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                         "jul", "aug", "sep", "oct", "nov", "dec"};
    for (size_t i = 0; i < sizeof months / sizeof *months; i++)
        if (!strncasecmp(s, months[i], 3))
            return true;
    return false;
}

/* 12 Jan 2020, 12-Jan-20, Jan 12, 2020 */
static bool has_month(const char *s)
{
    size_t digits = strspn(s, "0123456789");
    if (digits)
        return digits <= 2 && s[digits] && strchr(" -/.", s[digits]) && is_month(s + digits + 1);
    s += is_month(s) ? strcspn(s, " -/.") : 0;
    return *s && isdigit((unsigned char)s[strspn(s, " -/.")]);
}

static bool is_date(const char *s)
{
    static const char *const patterns[] = {"9999-99-99", "99-99-9999", "9-99-9999", "99-9-9999", "9-9-9999",
                                           "9999-9-9",   "9999-9-99",  "9999-99-9", "99-99-99",  "9999-99",
                                           "9-99-99",    "99-9-99",    "9-9-99"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (is_like(s, patterns[i]))
            return true;
    return isdigit((unsigned char)*s) || is_month(s) ? has_month(s) : false;
}

static const char *field_of(const data_table *t, size_t c, size_t i)
{
    return find_field(&t->csv, t->row[i], c);
}

static bool is_read(const data_column *column)
{
    return column->used && !column->refused;
}

const char *response_field(const data_table *t, size_t column, size_t i)
{
    return t->response ? t->response + t->response_at[i] : field_of(t, column, i);
}

/* Is all that is used here numbers? */
static bool are_numbers(const data_table *t)
{
    double ignored;
    for (size_t i = 0; i < t->rows; i++) {
        const char *field = first_field(&t->csv, t->row[i]);
        for (size_t c = 0; c < t->csv.columns; c++, field = next_field(field))
            if (is_read(&t->column[c]) && read_number(field, &ignored))
                return false;
    }
    return true;
}

/* What will still be asked for when the text of rows is gone: labels of logistic regressions may be numbers. */
static bool keep_response(data_table *t)
{
    size_t c = 0, bytes = 0;
    while (c < t->csv.columns && !t->column[c].response)
        c++;
    if (c == t->csv.columns)
        return true;
    for (size_t i = 0; i < t->rows; i++)
        bytes += strlen(field_of(t, c, i)) + 1;
    t->response = malloc(bytes + 1);
    t->response_at = calloc(t->rows + 1, sizeof *t->response_at);
    if (!t->response || !t->response_at)
        return false;
    for (size_t i = 0, at = 0; i < t->rows; i++) {
        t->response_at[i] = at;
        at = (size_t)(stpcpy(t->response + at, field_of(t, c, i)) + 1 - t->response);
    }
    return true;
}

/* The text of rows from..to is not asked for again. */
static void give_back_rows(const data_table *t, size_t from, size_t to)
{
    size_t at = t->csv.start[t->row[from]];
    give_back(t->csv.text + at, t->csv.start[t->row[to]] - at);
}

/* Reads all columns that are used as numbers, row by row, and counts those values of each that are some. lean: rows
 * that have been read are given back. */
static bool read_as_numbers(data_table *t, bool lean, size_t *numbers)
{
    enum { TOGETHER = 4096 }; /* rows */
    const csv_file *csv = &t->csv;
    if (lean && !keep_response(t))
        return false;
    for (size_t c = 0; c < csv->columns; c++) {
        t->column[c].first = csv->rows;
        if (is_read(&t->column[c]) && !(t->column[c].value = calloc(t->rows + 1, sizeof *t->column[c].value)))
            return false;
    }
    for (size_t i = 0; i < t->rows; i++) {
        const char *field = first_field(csv, t->row[i]);
        for (size_t c = 0; c < csv->columns; c++, field = next_field(field))
            if (!is_read(&t->column[c]))
                continue;
            else if (!read_number(field, &t->column[c].value[i]))
                numbers[c]++;
            else if (t->column[c].first == csv->rows)
                t->column[c].first = t->row[i];
        if (lean && i && i % TOGETHER == 0)
            give_back_rows(t, i - TOGETHER, i);
    }
    return true;
}

bool is_feature(const data_column *column)
{
    return column->used && !column->response;
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* sorted[n] without repetitions; returns how many are left. */
static size_t drop_repeated(size_t n, const char **sorted)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!kept || strcmp(sorted[kept - 1], sorted[i]))
            sorted[kept++] = sorted[i];
    return kept;
}

/* Levels of this share, as many as may be sent, one after the other; to be freed. */
static char *join_levels(const data_column *column, size_t *bytes)
{
    size_t n = column->levels < MOST_SENT ? column->levels : MOST_SENT;
    *bytes = 0;
    for (size_t k = 0; k < n; k++)
        *bytes += strlen(column->level[k]) + 1;
    char *text = malloc(*bytes + 1), *at = text;
    for (size_t k = 0; text && k < n; k++)
        at = stpcpy(at, column->level[k]) + 1;
    return text;
}

/* The levels of all shares take the place of those of this one. */
static int share_levels(row_shares *s, data_column *column, failure *f)
{
    size_t bytes, size, n = 0;
    char *mine = join_levels(column, &bytes), *all = NULL;
    if (!mine || share_texts(s, mine, bytes, &all, &size, NULL, f)) {
        free(mine);
        return fail(f, EX_SOFTWARE, "no memory for the levels of column %s", column->name);
    }
    free(mine);
    for (size_t i = 0; i < size; i++)
        n += !all[i];
    const char **level = calloc(n + 1, sizeof *level);
    if (!level) {
        free(all);
        return fail(f, EX_SOFTWARE, "no memory for the levels of column %s", column->name);
    }
    for (size_t k = 0, at = 0; k < n; k++, at += strlen(all + at) + 1)
        level[k] = all + at;
    qsort(level, n, sizeof *level, compare_texts);
    free(column->level);
    column->level = level;
    column->level_text = all;
    column->levels = drop_repeated(n, level);
    return 0;
}

/* Levels of a column, and the level of each row. */
static int find_levels(data_table *t, size_t c, failure *f)
{
    data_column *column = &t->column[c];
    const char **field = calloc(t->rows + 1, sizeof *field), **sorted = calloc(t->rows + 1, sizeof *sorted);
    bool good = field && sorted;
    f->code = 0;
    for (size_t i = 0; good && i < t->rows; i++)
        sorted[i] = field[i] = field_of(t, c, i);
    if (good) {
        qsort(sorted, t->rows, sizeof *sorted, compare_texts);
        column->levels = drop_repeated(t->rows, sorted);
    }
    column->level = sorted;
    if (!good)
        no_memory(&t->csv, f);
    if (!share_failure(t->csv.shares, f) && t->csv.shares)
        share_levels(t->csv.shares, column, f);
    for (size_t i = 0; !f->code && i < t->rows; i++) {
        const char **at = bsearch(&field[i], column->level, column->levels, sizeof *column->level, compare_texts);
        column->value[i] = at ? (double)(at - column->level) : 0; /* beyond what is sent: the column is refused */
    }
    free(field);
    return f->code;
}

typedef bool value_test(const char *s);

static bool is_boolean(const char *s)
{
    return read_boolean(s) >= 0;
}

/* A number that cannot be used: infinite, too large, hexadecimal, with a decimal comma. */
static bool is_broken_number(const char *s)
{
    double value;
    const char *expected = read_number(s, &value);
    return expected && strcmp(expected, "a number");
}

static bool all_values(const data_table *t, size_t c, value_test *test)
{
    failure ignored; /* what follows fails, too */
    bool all = true;
    for (size_t i = 0; i < t->rows && all; i++)
        all = test(field_of(t, c, i));
    return !share_all(t->csv.shares, &all, &ignored) && all && t->all_rows > 0;
}

static int refuse_broken(const data_table *t, size_t c, failure *f)
{
    double value;
    for (size_t i = 0; i < t->rows; i++) {
        const char *field = field_of(t, c, i);
        if (is_broken_number(field)) {
            refuse_field(&t->csv, t->row[i], c, field, read_number(field, &value), f);
            break;
        }
    }
    return share_failure(t->csv.shares, f);
}

/* The first value that is no number is not what is expected. */
static int refuse_first(const data_table *t, size_t c, const char *expected, failure *f)
{
    size_t first = t->column[c].first;
    f->code = 0;
    if (first < t->csv.rows)
        refuse_field(&t->csv, first, c, find_field(&t->csv, first, c), expected, f);
    return share_failure(t->csv.shares, f);
}

/* "1.20 EUR", "$5", "12%": a number with a unit before or after it. */
static bool has_unit(const char *s)
{
    double value;
    const char *digits = s;
    while (*digits && !isalpha((unsigned char)*digits) && !strchr("+-.0123456789", *digits))
        digits++;
    size_t n = strspn(digits, "+-.,0123456789eE");
    char number[64];
    if (!n || n >= sizeof number || (digits == s && !digits[n]) || digits - s > 4 || strlen(digits + n) > 4 ||
        strpbrk(digits + n, ":/")) /* a time, a ratio */
        return false;
    memcpy(number, digits, n);
    number[n] = '\0';
    return !read_number(number, &value);
}

static int refuse_levels(const data_table *t, size_t c, size_t most, size_t numbers, failure *f)
{
    char expected[400], factor[120] = "";
    const data_column *column = &t->column[c];
    if (t->formula && column->named && !column->factor)
        snprintf(factor, sizeof factor, ": write factor(%.60s) to take it all the same", column->name);
    if (column->levels == 1)
        snprintf(expected, sizeof expected, "a number, or at least two different values");
    else if (2 * numbers > t->all_rows)
        snprintf(expected, sizeof expected,
                 "a number, as in %zu of %zu rows (an empty field or NA stands for no value)", numbers, t->all_rows);
    else if (all_values(t, c, has_unit))
        snprintf(expected, sizeof expected, "a number without a unit");
    else if (column->levels == t->all_rows)
        snprintf(expected, sizeof expected,
                 "a number or a category, but the column has a different text in every row (an identifier?)");
    else if (most < 2)
        snprintf(expected, sizeof expected, "a number, or a category with five rows for each of its levels%s", factor);
    else
        snprintf(expected, sizeof expected, "a number, or a category with at most %zu levels%s (it has %zu)%s", most,
                 most < MOST_LEVELS ? ", a fifth of the rows" : "", column->levels, factor);
    return refuse_first(t, c, expected, f);
}

/* A level that would be no name of a column of the design. */
static int refuse_level_names(const data_table *t, size_t c, failure *f)
{
    const data_column *column = &t->column[c];
    f->code = 0;
    for (size_t k = 0; k < column->levels && !f->code; k++) {
        bool is_long = strlen(column->name) + strlen(column->level[k]) + strlen("[]") > LONGEST_NAME;
        const char *problem = is_long ? "fewer bytes" : name_problem(column->level[k]);
        char expected[200];
        if (!problem)
            continue;
        snprintf(expected, sizeof expected, "a category with %s%s", problem, remedy_of_text(column->level[k]));
        for (size_t i = 0; i < t->rows && !f->code; i++)
            if (!strcmp(field_of(t, c, i), column->level[k]))
                refuse_field(&t->csv, t->row[i], c, column->level[k], expected, f);
    }
    return share_failure(t->csv.shares, f);
}

/* The kind of a column that is not numeric, and its values. */
static int read_words(data_table *t, size_t c, size_t numbers, failure *f)
{
    data_column *column = &t->column[c];
    size_t most = column->factor                               ? FACTOR_LEVELS
                  : t->all_rows / ROWS_PER_LEVEL < MOST_LEVELS ? t->all_rows / ROWS_PER_LEVEL
                                                               : MOST_LEVELS;
    if (all_values(t, c, is_boolean)) {
        column->kind = COLUMN_BOOLEAN;
        for (size_t i = 0; i < t->rows; i++)
            column->value[i] = read_boolean(field_of(t, c, i));
        return 0;
    }
    column->kind = COLUMN_CATEGORICAL;
    column->mixed = numbers > 0;
    if (!column->response && (f->code = 0, refuse_broken(t, c, f)))
        return f->code;
    if (!column->response && all_values(t, c, is_date))
        return refuse_first(
            t, c, "a number or a category, not a date (replace dates by numbers, such as days since the first)", f);
    if (find_levels(t, c, f))
        return f->code;
    if (!column->response && (column->levels > most || column->levels == 1))
        return refuse_levels(t, c, most, numbers, f);
    return column->response ? 0 : refuse_level_names(t, c, f);
}

/* Where the first value of each column stands that is no number. */
static int share_first_lines(data_table *t, failure *f)
{
    for (size_t c = 0; c < t->csv.columns; c++) {
        data_column *column = &t->column[c];
        bool here = is_read(column) && column->first < t->csv.rows;
        double line = here ? (double)t->csv.line[column->first] : 0;
        if (share_first(t->csv.shares, here, &line, f))
            return f->code;
        column->first_line = (size_t)line;
    }
    return 0;
}

/* "id", "customer_id", "CustomerID", "index": */
static bool names_rows(const char *name)
{
    static const char *const words[] = {"id", "index", "row", "rownames", "rowid", "uuid"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(name, words[i]))
            return true;
    return n > 2 &&
           (!strcasecmp(name + n - 3, "_id") || !strcasecmp(name + n - 3, "-id") || !strcasecmp(name + n - 3, " id") ||
            !strcasecmp(name + n - 3, ".id") ||
            (islower((unsigned char)name[n - 3]) && (!strcmp(name + n - 2, "Id") || !strcmp(name + n - 2, "ID"))));
}

/* All of x[n] differ. */
static bool are_different(size_t n, const double *x)
{
    double *sorted = malloc((n + 1) * sizeof *sorted);
    bool different = sorted != NULL;
    if (sorted) {
        memcpy(sorted, x, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, ascending);
    }
    for (size_t i = 1; i < n && different; i++)
        different = sorted[i] != sorted[i - 1];
    free(sorted);
    return different;
}

/* Rising whole numbers from 0 or 1 up to the number of rows, or different ones in a column that is called so. */
static int find_counter(data_table *t, size_t c, failure *f)
{
    data_column *column = &t->column[c];
    bool whole = t->all_rows > 2, rising = true, different;
    double first = t->rows ? column->value[0] : 0, last = t->rows ? column->value[t->rows - 1] : 0;
    for (size_t i = 0; i < t->rows && whole; i++) {
        whole = column->value[i] >= 0 && column->value[i] == floor(column->value[i]);
        rising = rising && column->value[i] <= (double)t->csv.all_rows &&
                 (!i || column->value[i] > column->value[i - 1]);
    }
    if (share_first(t->csv.shares, t->rows > 0, &first, f) || share_last(t->csv.shares, t->rows > 0, &last, f) ||
        share_all(t->csv.shares, &whole, f) || share_all(t->csv.shares, &rising, f))
        return f->code;
    rising = rising && last - first >= (double)t->all_rows - 1; /* over all shares */
    different = whole && !rising && names_rows(column->name) && are_different(t->rows, column->value);
    if (share_all(t->csv.shares, &different, f))
        return f->code;
    column->counter = whole && ((rising && first <= 1) || different || (rising && names_rows(column->name)));
    return 0;
}

static int read_values(data_table *t, failure *all, failure *f)
{
    failure one;
    bool lean = t->lean && t->csv.shares && are_numbers(t);
    if (share_all(t->csv.shares, &lean, f))
        return f->code;
    size_t *numbers = calloc(t->csv.columns, sizeof *numbers);
    f->code = 0;
    if (!numbers || !read_as_numbers(t, lean, numbers))
        no_memory(&t->csv, f);
    int code = share_failure(t->csv.shares, f);
    if (!code)
        code = share_counts(t->csv.shares, t->csv.columns, numbers, f);
    if (!code)
        code = share_first_lines(t, f);
    for (size_t c = 0; !code && c < t->csv.columns; c++)
        if (is_read(&t->column[c]) && numbers[c] < t->all_rows && read_words(t, c, numbers[c], &one)) {
            t->column[c].refused = true;
            add_problem(t, c, all, &one);
        } else if (is_read(&t->column[c]) && numbers[c] == t->all_rows)
            code = find_counter(t, c, f);
    free(numbers);
    return code;
}

int read_columns(data_table *t, const table_options *options, failure *f)
{
    failure all;
    if (choose_rows(t, options, &all, f) || read_values(t, &all, f))
        return f->code;
    if (all.code)
        *f = all;
    return all.code;
}
