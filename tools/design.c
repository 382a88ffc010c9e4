/* design.c - design matrices, coded as R's model.matrix does. Columns of a variable:
 *
 *     number       x, log(x), I(x^2), scale(x): one
 *     polynomial   poly(x,k): k, orthogonal to each other and to 1 in the rows of the fit, with t = (x - mean) / range:
 *                      p_1 = t - a_1, p_j = (t - a_j) p_(j-1) - b_j p_(j-2), each divided by its norm
 *     factor       a categorical column, factor(x): one for each level but the first (treatment coding), or for all
 *
 * Columns of a term are products of a column of each of its variables; that of the first variable changes fastest. A
 * factor of a term has columns for all of its levels if no term before it holds all other variables of the term, or if
 * there is no intercept and it is the first factor of all. */
#include "design.h"
#include "column_moments.h"
#include "terms.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { BLOCK = 256 }; /* rows that are worked on at a time */

/* Which of the columns of the file are needed for what. */
enum { FOR_X = 1, FOR_TRIALS = 2, FOR_Y = 4 };

typedef struct {
    const char *name; /* in the formula or in dot */
    int node;         /* that names it first */
    int uses;         /* FOR_X ... */
    column_kind kind;
    size_t levels;
    char **level; /* [levels] in the order of their bytes */
} source;

typedef struct {
    size_t width;  /* columns with treatment coding of a factor */
    size_t levels; /* of a factor, or 0 */
    size_t at;     /* in the values of a block */
    char **label;  /* [levels] of a factor */
    char **own;    /* the same, if they are not those of a source */
    bool used;
} variable;

/* What a node took from the rows of the fit: mean and sd of scale(); mean, range, then a_1 .. a_k, b_1 .. b_k and
 * norms 1 .. k of poly(); the values of factor(number). */
typedef struct {
    size_t n;
    double *value; /* [n] */
} state;

struct design {
    design_shape shape;
    formula *m;
    size_t dots;
    char **dot; /* [dots] */
    formula_terms terms;
    size_t sources;
    source *source;     /* [sources] */
    size_t *source_of;  /* [nodes] of a column */
    state *state;       /* [nodes] */
    variable *variable; /* [terms.variables] */
    uint16_t *full;     /* [terms.terms] bits of its variables that have columns for all levels */
    size_t values;      /* of a row, for all variables */
    char **names;       /* [shape.columns] */
    char **term_names;  /* [terms.terms] */
    size_t *term_of;    /* [shape.columns] */
    char *y_name, *other_name;
    const char **listed; /* [sources] names for design_columns */
};

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory for a design matrix");
}

const design_shape *shape_of(const design *d)
{
    return &d->shape;
}

static void free_texts(size_t n, char **text)
{
    for (size_t i = 0; text && i < n; i++)
        free(text[i]);
    free(text);
}

void free_design(design *d)
{
    if (!d)
        return;
    for (size_t i = 0; d->source && i < d->sources; i++)
        free_texts(d->source[i].levels, d->source[i].level);
    for (size_t i = 0; d->state && i < d->m->nodes; i++)
        free(d->state[i].value);
    for (size_t i = 0; d->variable && i < d->terms.variables; i++)
        free_texts(d->variable[i].levels, d->variable[i].own);
    free_texts(d->shape.columns, d->names);
    free_texts(d->terms.terms, d->term_names);
    free_texts(d->dots, d->dot);
    free_terms(&d->terms);
    free_formula(d->m);
    free(d->source);
    free(d->source_of);
    free(d->state);
    free(d->variable);
    free(d->full);
    free(d->term_of);
    free(d->y_name);
    free(d->other_name);
    free(d->listed);
    free(d);
}

/* ---- without a table: variables, terms, columns that are needed -------------------------------------------------- */
/* Adds the columns below a node to those that are needed. */
static bool need_columns(design *d, text_index *names, int n, int uses)
{
    const formula_node *node = &d->m->node[n];
    if (node->kind == NODE_COLUMN) {
        size_t i = index_text(names, node->name);
        if (i == SIZE_MAX)
            return false;
        if (i == d->sources)
            d->source[d->sources++] = (source){.name = node->name, .node = n};
        d->source[i].uses |= uses;
        d->source_of[n] = i;
    }
    return (node->left == NO_NODE || need_columns(d, names, node->left, uses)) &&
           (node->right == NO_NODE || need_columns(d, names, node->right, uses));
}

static bool find_sources(design *d, text_index *names)
{
    const formula *m = d->m;
    int trials = m->response == RESPONSE_PAIR ? FOR_Y | FOR_TRIALS : FOR_Y;
    bool good = need_columns(d, names, m->y, trials) &&
                (m->other == NO_NODE || need_columns(d, names, m->other, FOR_Y | FOR_TRIALS));
    for (size_t v = 0; good && v < d->terms.variables; v++)
        if (d->variable[v].used)
            good = need_columns(d, names, d->terms.variable[v], FOR_X);
    for (size_t i = 0; good && i < d->terms.offsets; i++)
        good = need_columns(d, names, d->terms.offset[i], FOR_X);
    return good;
}

/* A response cannot explain itself. */
static int check_response(const design *d, failure *f)
{
    const formula_node *y = &d->m->node[d->m->y];
    for (size_t v = 0; y->kind == NODE_COLUMN && v < d->terms.variables; v++)
        if (d->variable[v].used && !strcmp(d->terms.text[v], y->name))
            return refuse_node(d->m, d->terms.variable[v], EX_USAGE, f,
                               "%.255s is the response and cannot also be a term", y->name);
    return 0;
}

static bool copy_texts(size_t n, const char *const *from, char ***to)
{
    *to = calloc(n + 1, sizeof **to);
    for (size_t i = 0; *to && i < n; i++)
        if (!((*to)[i] = strdup(from[i])))
            return false;
    return *to != NULL;
}

/* The design as far as the text of the formula tells it; NULL with *f filled. */
static design *begin_design(const char *text, size_t dots, const char *const *dot, failure *f)
{
    design *d = calloc(1, sizeof *d);
    text_index names = {0};
    if (!d) {
        no_memory(f);
        return NULL;
    }
    int code = parse_formula(text, strlen(text), &d->m, f);
    d->dots = dots;
    if (!code && !copy_texts(dots, dot, &d->dot))
        code = no_memory(f);
    if (!code)
        code = expand_formula(d->m, dots, (const char *const *)d->dot, &d->terms, f);
    if (!code) {
        d->variable = calloc(d->terms.variables + 1, sizeof *d->variable);
        d->source = calloc(d->m->nodes, sizeof *d->source);
        d->source_of = calloc(d->m->nodes, sizeof *d->source_of);
        d->state = calloc(d->m->nodes, sizeof *d->state);
        for (size_t i = 0; d->variable && i < d->terms.terms; i++)
            for (size_t k = 0; k < d->terms.term[i].order; k++)
                d->variable[d->terms.term[i].variable[k]].used = true;
        if (!d->variable || !d->source || !d->source_of || !d->state || !find_sources(d, &names))
            code = no_memory(f);
    }
    free_index(&names);
    if (!code)
        code = check_response(d, f);
    if (!code)
        return d;
    free_design(d);
    return NULL;
}

/* ---- columns of the table ---------------------------------------------------------------------------------------- */
static bool has_dot(const formula *m)
{
    for (size_t n = 0; n < m->nodes; n++)
        if (m->node[n].kind == NODE_DOT)
            return true;
    return false;
}

static void mark_named(const formula *m, int n, const csv_file *csv, bool *flag)
{
    const formula_node *node = &m->node[n];
    size_t c = node->kind == NODE_COLUMN ? find_column(csv, node->name) : csv->columns;
    if (c < csv->columns)
        flag[c] = true;
    if (node->left != NO_NODE)
        mark_named(m, node->left, csv, flag);
    if (node->right != NO_NODE)
        mark_named(m, node->right, csv, flag);
}

/* Does the text name a column, not only `.`? */
static bool is_named(const formula *m, const char *name)
{
    for (size_t n = 0; n < m->nodes; n++)
        if (m->node[n].kind == NODE_COLUMN && !strcmp(m->node[n].name, name))
            return true;
    return false;
}

/* Is the column an argument of factor()? */
static bool is_factor(const formula *m, const char *name)
{
    for (size_t n = 0; n < m->nodes; n++) {
        int below = m->node[n].kind == NODE_FACTOR ? m->node[n].left : NO_NODE;
        if (below != NO_NODE && m->node[below].kind == NODE_COLUMN && !strcmp(m->node[below].name, name))
            return true;
    }
    return false;
}

/* The design as far as the names of the columns tell it. */
static design *begin_with(const formula *m, const bool *ignored, const csv_file *csv, failure *f)
{
    const char **dot = calloc(csv->columns + 1, sizeof *dot);
    bool *left = calloc(csv->columns + 1, sizeof *left);
    size_t dots = 0;
    design *d = NULL;
    if (!dot || !left)
        no_memory(f);
    else {
        mark_named(m, m->y, csv, left);
        if (m->other != NO_NODE)
            mark_named(m, m->other, csv, left);
        for (size_t c = 0; has_dot(m) && c < csv->columns; c++)
            if (!left[c] && !(ignored && ignored[c]))
                dot[dots++] = csv->name[c];
        d = begin_design(m->text, dots, dot, f);
    }
    free(dot);
    free(left);
    return d;
}

/* A column that the file lacks. */
static int refuse_source(const design *d, const source *s, const csv_file *csv, failure *f)
{
    char shown[QUOTED], what[SUGGESTED];
    refuse_node(d->m, s->node, EX_DATAERR, f, "%.120s has no column %s: %s", csv->path, quote(s->name, shown),
                suggest_columns(csv, s->name, what));
    return f->code;
}

int mark_formula_columns(const formula *m, const bool *ignored, data_table *t, failure *f)
{
    failure all = {0}, one;
    design *d = begin_with(m, ignored, &t->csv, f);
    if (!d)
        return f->code;
    t->formula = true;
    for (size_t i = 0; i < d->sources; i++) {
        size_t c = find_column(&t->csv, d->source[i].name);
        if (c == t->csv.columns) {
            refuse_source(d, &d->source[i], &t->csv, &one);
            add_failure(&all, &one);
            continue;
        }
        t->column[c].used = true;
        t->column[c].response = !(d->source[i].uses & FOR_X);
        t->column[c].named = is_named(m, d->source[i].name);
        t->column[c].factor = is_factor(m, d->source[i].name);
    }
    free_design(d);
    if (all.code)
        *f = all;
    return all.code;
}

/* ---- values of expressions --------------------------------------------------------------------------------------- */
/* Rows that are being coded. */
typedef struct {
    const csv_file *csv;
    const size_t *row;          /* [rows] of the file; NULL: all of them */
    const double *const *value; /* [sources][rows] */
    size_t rows, all_rows;      /* of this share; of all shares */
    double *scratch;            /* [FORMULA_CHAIN + 2][BLOCK] */
} rows_of;

static double apply(node_kind kind, double a, double b)
{
    switch (kind) {
    case NODE_ADD: return a + b;
    case NODE_SUBTRACT: return a - b;
    case NODE_MULTIPLY: return a * b;
    case NODE_DIVIDE: return a / b;
    default: return pow(a, b);
    }
}

/* out[n]: the expression in rows first .. first + n - 1; n is at most BLOCK. */
static void evaluate(const design *d, const rows_of *r, int at, size_t first, size_t n, double *out, double *scratch)
{
    const formula_node *node = &d->m->node[at];
    const state *s = &d->state[at];
    switch (node->kind) {
    case NODE_NUMBER:
        for (size_t i = 0; i < n; i++)
            out[i] = node->value;
        return;
    case NODE_COLUMN: memcpy(out, r->value[d->source_of[at]] + first, n * sizeof *out); return;
    default: break;
    }
    evaluate(d, r, node->left, first, n, out, scratch);
    if (node->right != NO_NODE)
        evaluate(d, r, node->right, first, n, scratch, scratch + BLOCK);
    for (size_t i = 0; i < n; i++)
        switch (node->kind) {
        case NODE_NEGATE: out[i] = -out[i]; break;
        case NODE_FUNCTION: out[i] = call_function(node->function, out[i]); break;
        case NODE_SCALE: out[i] = (out[i] - s->value[0]) / s->value[1]; break;
        case NODE_OFFSET: break;
        default: out[i] = apply(node->kind, out[i], scratch[i]);
        }
}

static size_t line_of(const rows_of *r, size_t i)
{
    return r->csv->line[r->row ? r->row[i] : i];
}

/* Refuses values that are no numbers. */
static int check_finite(const design *d, const rows_of *r, int node, size_t first, size_t n, const double *x,
                        failure *f)
{
    size_t i = 0;
    while (i < n && isfinite(x[i]))
        i++;
    if (i == n)
        return 0;
    char *text = node_text(d->m, node);
    refuse_node(d->m, node, EX_DATAERR, f, "%.200s:%zu: %.200s is %s, expected a finite number", r->csv->path,
                line_of(r, first + i), text ? text : "a term", isnan(x[i]) ? "not a number" : "infinite");
    free(text);
    return f->code;
}

/* A whole vector, to be freed. */
static double *evaluate_all(const design *d, const rows_of *r, int node, failure *f)
{
    double *x = malloc((r->rows + 1) * sizeof *x);
    if (!x) {
        no_memory(f);
        return NULL;
    }
    for (size_t first = 0; first < r->rows; first += BLOCK) {
        size_t n = r->rows - first < BLOCK ? r->rows - first : BLOCK;
        evaluate(d, r, node, first, n, x + first, r->scratch);
        if (check_finite(d, r, node, first, n, x + first, f)) {
            free(x);
            return NULL;
        }
    }
    return x;
}

/* The polynomials of one row into out[j * BLOCK], j < k. */
static void evaluate_poly(const formula_node *node, const state *s, double x, double *out)
{
    size_t k = (size_t)node->value;
    double t, before = 0, now = 1;
    if (node->plain) {
        for (size_t j = 0; j < k; j++)
            out[j * BLOCK] = now *= x;
        return;
    }
    t = (x - s->value[0]) / s->value[1];
    const double *a = s->value + 2, *b = a + k, *norm = b + k;
    for (size_t j = 0; j < k; j++) {
        double next = (t - a[j]) * now - b[j] * before;
        before = now;
        now = next;
        out[j * BLOCK] = now / norm[j];
    }
}

static int compare_numbers(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Which value of factor(number) x is; its count: none. */
static size_t find_value(const state *s, double x)
{
    const double *found = bsearch(&x, s->value, s->n, sizeof x, compare_numbers);
    return found ? (size_t)(found - s->value) : s->n;
}

/* ---- what nodes take from the rows of the fit -------------------------------------------------------------------- */
static bool set_state(state *s, size_t n)
{
    s->n = n;
    s->value = calloc(n + 1, sizeof *s->value);
    return s->value != NULL;
}

/* Rows of all shares count: sums are taken in the order of the shares, and code is 0 in all of them or in none. */
static int find_mean(const rows_of *r, const double *x, double *mean, failure *f)
{
    double n = (double)r->all_rows, rest = 0;
    *mean = 0;
    for (size_t i = 0; i < r->rows; i++)
        *mean += x[i] / n;
    int code = share_sums(r->csv->shares, 1, mean, f);
    for (size_t i = 0; i < r->rows; i++)
        rest += x[i] - *mean;
    if (!code)
        code = share_sums(r->csv->shares, 1, &rest, f);
    *mean += rest / n;
    return code;
}

/* Sample sd around a centre; root mean square if that is 0. */
static int find_spread(const rows_of *r, const double *x, double centre, double *spread, failure *f)
{
    double sum = 0;
    for (size_t i = 0; i < r->rows; i++)
        sum += (x[i] - centre) * (x[i] - centre);
    int code = share_sums(r->csv->shares, 1, &sum, f);
    *spread = sqrt(sum / ((double)r->all_rows - 1));
    return code;
}

static int take_scale(design *d, const rows_of *r, int n, double *x, failure *f)
{
    const formula_node *node = &d->m->node[n];
    double *value = d->state[n].value;
    bool constant = false;
    value[0] = 0;
    value[1] = 1;
    if ((!node->plain && find_mean(r, x, &value[0], f)) ||
        (!node->as_is && find_spread(r, x, value[0], &value[1], f)) ||
        find_constants(r->csv->shares, r->rows, 1, x, &constant, f))
        return f->code;
    if (!node->as_is && (constant || !(value[1] > 0) || !isfinite(value[1])))
        return refuse_node(d->m, n, EX_DATAERR, f, "%.200s is constant, so scale() cannot divide it by its sd",
                           r->csv->path);
    return 0;
}

static int find_largest_distance(const rows_of *r, const double *x, double from, double *most, failure *f)
{
    double mine = 0, *all;
    size_t shares;
    for (size_t i = 0; i < r->rows; i++)
        mine = fmax(mine, fabs(x[i] - from));
    if (share_numbers(r->csv->shares, 1, &mine, &all, &shares, f))
        return f->code;
    *most = 0;
    for (size_t k = 0; k < shares; k++)
        *most = fmax(*most, all[k]);
    free(all);
    return 0;
}

/* How many different values there are; they are sorted to the front. */
static size_t sort_values(double *x, size_t n)
{
    size_t different = 0;
    qsort(x, n, sizeof *x, compare_numbers);
    for (size_t i = 0; i < n; i++)
        if (!different || x[different - 1] != x[i])
            x[different++] = x[i];
    return different;
}

/* The different values of all shares, at most `most` of each, sorted; to be freed. x becomes scratch. */
static int find_values(const rows_of *r, double *x, size_t most, double **all, size_t *different, failure *f)
{
    size_t own = sort_values(x, r->rows);
    if (share_numbers(r->csv->shares, own < most ? own : most, x, all, different, f))
        return f->code;
    *different = sort_values(*all, *different);
    return 0;
}

/* a_j = <t p, p> / <p, p>, b_j = <p, p> / <q, q> for p = p_(j-1), q = p_(j-2). x becomes t, p and q are scratch. */
static int make_polynomials(state *s, size_t k, const rows_of *r, double *x, double *p, double *q, failure *f)
{
    double *a = s->value + 2, *b = a + k, *norm = b + k, square = (double)r->all_rows, last = 0;
    for (size_t i = 0; i < r->rows; i++) {
        x[i] = (x[i] - s->value[0]) / s->value[1];
        p[i] = 1;
        q[i] = 0;
    }
    for (size_t j = 0; j < k; j++) {
        double first = 0;
        for (size_t i = 0; i < r->rows; i++)
            first += x[i] * p[i] * p[i];
        if (share_sums(r->csv->shares, 1, &first, f))
            return f->code;
        a[j] = first / square;
        b[j] = j ? square / last : 0;
        last = square;
        square = 0;
        for (size_t i = 0; i < r->rows; i++) {
            double next = (x[i] - a[j]) * p[i] - b[j] * q[i];
            q[i] = p[i];
            p[i] = next;
            square += next * next;
        }
        if (share_sums(r->csv->shares, 1, &square, f))
            return f->code;
        norm[j] = sqrt(square);
    }
    return 0;
}

/* p: room for the rows; a copy of x comes back in it, sorted. */
static int check_degree(design *d, const rows_of *r, int n, const double *x, double *p, failure *f)
{
    size_t k = (size_t)d->m->node[n].value, different;
    double *all;
    memcpy(p, x, r->rows * sizeof *p);
    if (find_values(r, p, k + 1, &all, &different, f))
        return f->code;
    free(all);
    return different > k ? 0
                         : refuse_node(d->m, n, EX_DATAERR, f,
                                       "a polynomial of degree %zu needs more than %zu different values: %.200s has "
                                       "%zu",
                                       k, k, r->csv->path, different);
}

static int fill_poly(design *d, const rows_of *r, int n, double *x, double *p, double *q, failure *f)
{
    state *s = &d->state[n];
    size_t k = (size_t)d->m->node[n].value;
    if (check_degree(d, r, n, x, p, f) || find_mean(r, x, &s->value[0], f) ||
        find_largest_distance(r, x, s->value[0], &s->value[1], f) || make_polynomials(s, k, r, x, p, q, f))
        return f->code;
    for (size_t j = 0; j < s->n; j++)
        if (!isfinite(s->value[j]) || (j >= 2 + 2 * k && !(s->value[j] > 0)))
            return refuse_node(d->m, n, EX_DATAERR, f, "the polynomials cannot be computed: expected a lower degree");
    return 0;
}

static int take_poly(design *d, const rows_of *r, int n, double *x, failure *f)
{
    size_t rows = r->rows;
    double *p = malloc((rows + 1) * sizeof *p), *q = malloc((rows + 1) * sizeof *q);
    f->code = p && q ? 0 : no_memory(f);
    int code = share_failure(r->csv->shares, f);
    if (!code)
        code = fill_poly(d, r, n, x, p, q, f);
    free(p);
    free(q);
    return code;
}

static int take_values(design *d, const rows_of *r, int n, double *x, failure *f)
{
    double *all;
    size_t different, most = r->csv->shares ? 10 * DESIGN_COLUMNS : r->rows; /* that a process tells others of */
    if (find_values(r, x, most, &all, &different, f))
        return f->code;
    if (different > DESIGN_COLUMNS) {
        free(all);
        return refuse_node(d->m, n, EX_DATAERR, f, "there are %zu different values: expected a factor with at most %d",
                           different, DESIGN_COLUMNS);
    }
    d->state[n] = (state){different, all};
    return 0;
}

static bool is_categorical(const design *d, int n)
{
    return d->m->node[n].kind == NODE_COLUMN && d->source[d->source_of[n]].kind == COLUMN_CATEGORICAL;
}

/* Does a node take something from the rows? */
static bool has_state(const design *d, int n)
{
    const formula_node *node = &d->m->node[n];
    return node->kind == NODE_SCALE || (node->kind == NODE_POLY && !node->plain) ||
           (node->kind == NODE_FACTOR && !is_categorical(d, node->left));
}

typedef int state_visit(design *d, int n, void *self, failure *f);

/* Calls visit for every node below n that has a state, the inner ones first. */
static int visit_states(design *d, int n, state_visit *visit, void *self, failure *f)
{
    const formula_node *node = &d->m->node[n];
    if ((node->left != NO_NODE && visit_states(d, node->left, visit, self, f)) ||
        (node->right != NO_NODE && visit_states(d, node->right, visit, self, f)))
        return f->code;
    return has_state(d, n) ? visit(d, n, self, f) : 0;
}

/* All expressions that are used, in an order that the formula alone decides. */
static int visit_all(design *d, state_visit *visit, void *self, failure *f)
{
    const formula *m = d->m;
    if (visit_states(d, m->y, visit, self, f) || (m->other != NO_NODE && visit_states(d, m->other, visit, self, f)))
        return f->code;
    for (size_t v = 0; v < d->terms.variables; v++)
        if (d->variable[v].used && visit_states(d, d->terms.variable[v], visit, self, f))
            return f->code;
    for (size_t i = 0; i < d->terms.offsets; i++)
        if (visit_states(d, d->terms.offset[i], visit, self, f))
            return f->code;
    return 0;
}

static int take_state(design *d, int n, void *self, failure *f)
{
    const rows_of *r = self;
    const formula_node *node = &d->m->node[n];
    bool values = node->kind == NODE_FACTOR;
    size_t size = node->kind == NODE_SCALE ? 2 : 2 + 3 * (size_t)node->value;
    f->code = 0;
    double *x = evaluate_all(d, r, node->left, f);
    if (x && !values && !set_state(&d->state[n], size))
        no_memory(f);
    int code = share_failure(r->csv->shares, f);
    if (!code)
        code = node->kind == NODE_SCALE  ? take_scale(d, r, n, x, f)
               : node->kind == NODE_POLY ? take_poly(d, r, n, x, f)
                                         : take_values(d, r, n, x, f);
    free(x);
    return code;
}

/* ---- coding ------------------------------------------------------------------------------------------------------ */
/* Categories have no values to compute with. */
static int check_numbers(const design *d, int n, failure *f)
{
    const formula_node *node = &d->m->node[n];
    if (is_categorical(d, n))
        return refuse_node(d->m, n, EX_DATAERR, f, "column %.255s has categories, expected numbers", node->name);
    if (node->left != NO_NODE && check_numbers(d, node->left, f))
        return f->code;
    return node->right != NO_NODE ? check_numbers(d, node->right, f) : 0;
}

static int check_kinds(const design *d, failure *f)
{
    const formula *m = d->m;
    if (!(m->response == RESPONSE_PLAIN && m->node[m->y].kind == NODE_COLUMN) && check_numbers(d, m->y, f))
        return f->code;
    if (m->other != NO_NODE && check_numbers(d, m->other, f))
        return f->code;
    for (size_t v = 0; v < d->terms.variables; v++) {
        int n = d->terms.variable[v];
        bool whole = m->node[n].kind == NODE_COLUMN || m->node[n].kind == NODE_FACTOR;
        if (d->variable[v].used && !whole && check_numbers(d, n, f))
            return f->code;
    }
    for (size_t i = 0; i < d->terms.offsets; i++)
        if (check_numbers(d, d->terms.offset[i], f))
            return f->code;
    return 0;
}

static char **label_values(const state *s)
{
    char **label = calloc(s->n + 1, sizeof *label), number[NUMBER_ROOM];
    for (size_t i = 0; label && i < s->n; i++)
        if (!(label[i] = strdup(name_number(s->value[i], number)))) {
            free_texts(i, label);
            return NULL;
        }
    return label;
}

/* Width and labels of variable v. */
static int measure_variable(design *d, size_t v, failure *f)
{
    variable *x = &d->variable[v];
    int n = d->terms.variable[v];
    const formula_node *node = &d->m->node[n];
    int column = node->kind == NODE_FACTOR ? node->left : n;
    x->width = node->kind == NODE_POLY ? (size_t)node->value : 1;
    if (is_categorical(d, column)) {
        x->levels = d->source[d->source_of[column]].levels;
        x->label = d->source[d->source_of[column]].level;
    } else if (node->kind == NODE_FACTOR) {
        if (!(x->own = label_values(&d->state[n])))
            return no_memory(f);
        x->levels = d->state[n].n;
        x->label = x->own;
    } else
        return 0;
    x->width = x->levels - 1;
    return x->levels > 1 ? 0
                         : refuse_node(d->m, n, EX_DATAERR, f, "%.255s is the same in all rows: expected two levels",
                                       d->terms.text[v]);
}

static bool holds(const formula_term *t, const formula_term *part, size_t without)
{
    size_t i = 0;
    for (size_t k = 0; k < part->order; k++) {
        if (k == without)
            continue;
        while (i < t->order && t->variable[i] < part->variable[k])
            i++;
        if (i == t->order || t->variable[i] != part->variable[k])
            return false;
    }
    return true;
}

/* Has variable k of a term columns for all levels? */
static bool is_full(const formula_terms *all, size_t term, size_t k)
{
    const formula_term *t = &all->term[term];
    if (t->order == 1)
        return false;
    for (size_t i = 0; i < term; i++)
        if (all->term[i].order + 1 >= t->order && holds(&all->term[i], t, k))
            return false;
    return true;
}

static void code_factors(design *d)
{
    const formula_terms *all = &d->terms;
    bool first = !all->intercept;
    for (size_t i = 0; i < all->terms; i++)
        for (size_t k = 0; k < all->term[i].order; k++) {
            if (!d->variable[all->term[i].variable[k]].levels)
                continue;
            if (first || is_full(all, i, k))
                d->full[i] |= (uint16_t)(1u << k);
            first = false;
        }
}

/* Columns of variable k of a term. */
static size_t width_of(const design *d, size_t term, size_t k)
{
    const variable *x = &d->variable[d->terms.term[term].variable[k]];
    return d->full[term] >> k & 1 ? x->levels : x->width;
}

/* Where a term stands in the formula, for messages: its last variable. */
static int node_of(const design *d, size_t term)
{
    const formula_term *t = &d->terms.term[term];
    return d->terms.variable[t->variable[t->order - 1]];
}

static int count_columns(design *d, failure *f)
{
    design_shape *s = &d->shape;
    s->columns = d->terms.intercept ? 1 : 0;
    for (size_t i = 0; i < d->terms.terms; i++) {
        size_t width = 1;
        for (size_t k = 0; k < d->terms.term[i].order; k++) {
            width *= width_of(d, i, k);
            if (width > DESIGN_COLUMNS)
                break;
        }
        s->columns += width;
        if (s->columns > DESIGN_COLUMNS) {
            s->columns = 0;
            return refuse_node(d->m, node_of(d, i), EX_USAGE, f, "the design has more than %d columns", DESIGN_COLUMNS);
        }
    }
    return 0;
}

/* The name of column c of a term: names of its variables, with the level or number of the column of each. c SIZE_MAX:
 * that of the term. */
static char *name_column(const design *d, size_t term, size_t c)
{
    const formula_term *t = &d->terms.term[term];
    char *text = NULL;
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    for (size_t k = 0; k < t->order; k++) {
        const variable *x = &d->variable[t->variable[k]];
        size_t width = width_of(d, term, k), i = c % width;
        fprintf(s, "%s%s", k ? ":" : "", d->terms.text[t->variable[k]]);
        if (c != SIZE_MAX && x->levels)
            fprintf(s, "[%s]", x->label[width == x->levels ? i : i + 1]);
        else if (c != SIZE_MAX && d->m->node[d->terms.variable[t->variable[k]]].kind == NODE_POLY)
            fprintf(s, "[%zu]", i + 1);
        c = c == SIZE_MAX ? c : c / width;
    }
    if (!fclose(s))
        return text;
    free(text);
    return NULL;
}

static int check_names(const design *d, failure *f)
{
    const design_shape *s = &d->shape;
    char shown[QUOTED];
    for (size_t c = 0; c < s->columns; c++) {
        const char *problem = name_problem(d->names[c]);
        if (problem)
            return refuse_node(d->m, d->term_of[c] < d->terms.terms ? node_of(d, d->term_of[c]) : NO_NODE, EX_DATAERR,
                               f, "the coefficient %s has a name that %s", quote(d->names[c], shown), problem);
    }
    size_t again = find_repeated(s->columns, (const char *const *)d->names);
    if (again > s->columns)
        return no_memory(f);
    if (again < s->columns)
        return refuse_node(d->m, node_of(d, d->term_of[again]), EX_DATAERR, f,
                           "two coefficients would be called %s: rename a column", quote(d->names[again], shown));
    return 0;
}

static int name_columns(design *d, failure *f)
{
    design_shape *s = &d->shape;
    size_t c = 0, terms = d->terms.terms;
    if (d->terms.intercept) {
        d->term_of[0] = terms;
        if (!(d->names[c++] = strdup("intercept")))
            return no_memory(f);
    }
    for (size_t i = 0; i < terms; i++) {
        size_t width = 1;
        for (size_t k = 0; k < d->terms.term[i].order; k++)
            width *= width_of(d, i, k);
        if (!(d->term_names[i] = name_column(d, i, SIZE_MAX)))
            return no_memory(f);
        for (size_t k = 0; k < width; k++, c++) {
            d->term_of[c] = i;
            if (!(d->names[c] = name_column(d, i, k)))
                return no_memory(f);
        }
    }
    s->names = (const char *const *)d->names;
    s->term = (const char *const *)d->term_names;
    s->term_of = d->term_of;
    s->terms = terms;
    s->intercept = d->terms.intercept;
    return check_names(d, f);
}

static int describe_response(design *d, failure *f)
{
    design_shape *s = &d->shape;
    const formula *m = d->m;
    const source *y = &d->source[d->source_of[m->y]];
    s->response = m->response;
    s->offset = d->terms.offsets > 0;
    d->y_name = node_text(m, m->y);
    d->other_name = m->other == NO_NODE ? NULL : node_text(m, m->other);
    if (!d->y_name || (m->other != NO_NODE && !d->other_name))
        return no_memory(f);
    s->response_name = d->y_name;
    s->other_name = d->other_name;
    s->response_column = m->node[m->y].kind == NODE_COLUMN;
    s->response_type = s->response_column ? y->kind : COLUMN_NUMERIC;
    s->levels = s->response_column ? y->levels : 0;
    s->level = s->levels ? (const char *const *)y->level : NULL;
    return 0;
}

/* uses that rows with these parts have. */
static int uses_of(design_parts parts)
{
    return FOR_X | (parts == WITHOUT_RESPONSE ? 0 : FOR_TRIALS) | (parts == WITH_RESPONSE ? FOR_Y : 0);
}

/* For design_columns: three lists with a NULL at the end. */
static void list_columns(design *d)
{
    static const design_parts all[] = {WITHOUT_RESPONSE, WITH_TRIALS, WITH_RESPONSE};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0, at = k * (d->sources + 1); i < d->sources; i++)
            if (d->source[i].uses & uses_of(all[k]))
                d->listed[at++] = d->source[i].name;
}

/* Once kinds, levels and states are known. */
static int finish_design(design *d, failure *f)
{
    for (size_t v = 0; v < d->terms.variables; v++)
        if (d->variable[v].used) {
            if (measure_variable(d, v, f))
                return f->code;
            d->variable[v].at = d->values;
            d->values += d->variable[v].levels ? 1 : d->variable[v].width;
        }
    d->full = calloc(d->terms.terms + 1, sizeof *d->full);
    d->term_names = calloc(d->terms.terms + 1, sizeof *d->term_names);
    if (!d->full || !d->term_names)
        return no_memory(f);
    code_factors(d);
    if (count_columns(d, f))
        return f->code;
    if (!d->shape.columns)
        return refuse_node(d->m, d->m->terms, EX_USAGE, f,
                           "there are no terms and no intercept: expected at least one of them");
    d->names = calloc(d->shape.columns + 1, sizeof *d->names);
    d->term_of = calloc(d->shape.columns + 1, sizeof *d->term_of);
    d->listed = calloc(3 * (d->sources + 1), sizeof *d->listed);
    if (!d->names || !d->term_of || !d->listed)
        return no_memory(f);
    list_columns(d);
    return name_columns(d, f) ? f->code : describe_response(d, f);
}

/* Kinds and levels of the columns. value[sources]: their values. */
static int take_kinds(design *d, const data_table *t, const double **value, failure *f)
{
    for (size_t i = 0; i < d->sources; i++) {
        size_t c = find_column(&t->csv, d->source[i].name);
        if (c == t->csv.columns)
            return refuse_source(d, &d->source[i], &t->csv, f);
        const data_column *column = &t->column[c];
        if (!column->value)
            return fail(f, EX_SOFTWARE, "column %s has not been read", column->name);
        value[i] = column->value;
        d->source[i].kind = column->kind;
        if (column->kind != COLUMN_CATEGORICAL)
            continue;
        d->source[i].levels = column->levels;
        if (!copy_texts(column->levels, column->level, &d->source[i].level))
            return no_memory(f);
    }
    return 0;
}

static double *allocate_scratch(void)
{
    return malloc((FORMULA_CHAIN + 2) * BLOCK * sizeof(double));
}

int make_design(const formula *m, const bool *ignored, const data_table *t, design **out, failure *f)
{
    *out = NULL;
    design *d = begin_with(m, ignored, &t->csv, f);
    if (!d)
        return f->code;
    const double **value = calloc(d->sources + 1, sizeof *value);
    rows_of r = {&t->csv, t->row, value, t->rows, t->all_rows, allocate_scratch()};
    int code = value && r.scratch ? 0 : no_memory(f);
    if (!code)
        code = take_kinds(d, t, value, f);
    if (!code)
        code = check_kinds(d, f);
    if (!code)
        code = visit_all(d, take_state, &r, f);
    if (!code)
        code = finish_design(d, f);
    free(value);
    free(r.scratch);
    if (code)
        free_design(d);
    else
        *out = d;
    return code;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
void free_design_rows(design_rows *r)
{
    free(r->X);
    free(r->offset);
    free(r->y);
    free(r->trials);
    *r = (design_rows){0};
}

static int refuse_value(const design *d, const rows_of *r, size_t v, size_t i, double x, failure *f)
{
    char number[NUMBER_ROOM];
    return refuse_node(d->m, d->terms.variable[v], EX_DATAERR, f,
                       "%.200s:%zu: %.200s is %s, expected a value that the model was fitted with", r->csv->path,
                       line_of(r, i), d->terms.text[v], name_number(x, number));
}

/* Values of variable v in the rows of a block: out[width][BLOCK], or the level of a factor. */
static int fill_variable(const design *d, const rows_of *r, size_t v, size_t first, size_t n, double *out, failure *f)
{
    int at = d->terms.variable[v];
    const formula_node *node = &d->m->node[at];
    if (node->kind != NODE_POLY && node->kind != NODE_FACTOR) {
        evaluate(d, r, at, first, n, out, r->scratch);
        return check_finite(d, r, at, first, n, out, f);
    }
    double *x = r->scratch;
    evaluate(d, r, node->left, first, n, x, r->scratch + BLOCK);
    if (node->kind == NODE_POLY) {
        for (size_t i = 0; i < n; i++)
            evaluate_poly(node, &d->state[at], x[i], out + i);
        for (size_t j = 0; j < d->variable[v].width; j++)
            if (check_finite(d, r, at, first, n, out + j * BLOCK, f))
                return f->code;
        return 0;
    }
    if (is_categorical(d, node->left)) {
        memcpy(out, x, n * sizeof *out);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        size_t level = find_value(&d->state[at], x[i]);
        if (level == d->state[at].n)
            return refuse_value(d, r, v, first + i, x[i], f);
        out[i] = (double)level;
    }
    return 0;
}

/* out[n] times column c of variable k of a term. */
static void multiply(const design *d, size_t term, size_t k, size_t c, size_t n, const double *values, double *out)
{
    const variable *x = &d->variable[d->terms.term[term].variable[k]];
    const double *value = values + x->at * BLOCK;
    if (!x->levels) {
        for (size_t i = 0; i < n; i++)
            out[i] *= value[c * BLOCK + i];
        return;
    }
    double level = (double)(d->full[term] >> k & 1 ? c : c + 1);
    for (size_t i = 0; i < n; i++)
        out[i] *= value[i] == level ? 1.0 : 0.0;
}

/* The columns of a term, from column `at` of X on, in the rows of a block. */
static void fill_term(const design *d, size_t term, size_t n, const double *values, double *X, double *scratch)
{
    const formula_term *t = &d->terms.term[term];
    size_t width = 1;
    for (size_t k = 0; k < t->order; k++)
        width *= width_of(d, term, k);
    for (size_t c = 0; c < width; c++) {
        for (size_t i = 0; i < n; i++)
            scratch[i] = 1;
        for (size_t k = 0, rest = c; k < t->order; k++) {
            size_t own = width_of(d, term, k);
            multiply(d, term, k, rest % own, n, values, scratch);
            rest /= own;
        }
        for (size_t i = 0; i < n; i++)
            X[i * d->shape.columns + c] = scratch[i];
    }
}

static int check_products(const design *d, const rows_of *r, size_t first, size_t n, const double *X, failure *f)
{
    size_t C = d->shape.columns;
    for (size_t i = 0; i < n * C; i++)
        if (!isfinite(X[i]))
            return fail(f, EX_DATAERR, "%.200s:%zu: %s is too large", r->csv->path, line_of(r, first + i / C),
                        d->names[i % C]);
    return 0;
}

/* Rows first .. first + n - 1 of X. */
static int fill_block(const design *d, const rows_of *r, size_t first, size_t n, double *values, double *X, failure *f)
{
    for (size_t v = 0; v < d->terms.variables; v++)
        if (d->variable[v].used && fill_variable(d, r, v, first, n, values + d->variable[v].at * BLOCK, f))
            return f->code;
    for (size_t i = 0; d->terms.intercept && i < n; i++)
        X[i * d->shape.columns] = 1;
    for (size_t c = 0; c < d->shape.columns; c++)
        if (d->term_of[c] < d->terms.terms && (!c || d->term_of[c - 1] != d->term_of[c]))
            fill_term(d, d->term_of[c], n, values, X + c, r->scratch);
    return check_products(d, r, first, n, X, f);
}

static int fill_X(const design *d, const rows_of *r, double *X, failure *f)
{
    double *values = malloc((d->values + 1) * BLOCK * sizeof *values);
    int code = values ? 0 : no_memory(f);
    for (size_t first = 0; first < r->rows && !code; first += BLOCK) {
        size_t n = r->rows - first < BLOCK ? r->rows - first : BLOCK;
        code = fill_block(d, r, first, n, values, X + first * d->shape.columns, f);
    }
    free(values);
    return code;
}

/* The sum of the offsets, or NULL. */
static int fill_offset(const design *d, const rows_of *r, double **out, failure *f)
{
    for (size_t k = 0; k < d->terms.offsets; k++) {
        double *x = evaluate_all(d, r, d->terms.offset[k], f);
        if (!x)
            return f->code;
        if (!*out) {
            *out = x;
            continue;
        }
        for (size_t i = 0; i < r->rows; i++)
            (*out)[i] += x[i];
        free(x);
    }
    return 0;
}

static int fill_response(const design *d, const rows_of *r, design_parts parts, design_rows *out, failure *f)
{
    const formula *m = d->m;
    bool y = parts == WITH_RESPONSE || (parts == WITH_TRIALS && m->response == RESPONSE_PAIR);
    if (y && !(out->y = evaluate_all(d, r, m->y, f)))
        return f->code;
    if (parts == WITHOUT_RESPONSE || m->other == NO_NODE)
        return 0;
    if (!(out->trials = evaluate_all(d, r, m->other, f)))
        return f->code;
    for (size_t i = 0; m->response == RESPONSE_PAIR && i < r->rows; i++)
        out->trials[i] += out->y[i];
    if (parts != WITH_RESPONSE) {
        free(out->y);
        out->y = NULL;
    }
    return 0;
}

static int fill_rows(const design *d, rows_of *r, design_parts parts, design_rows *out, failure *f)
{
    size_t C = d->shape.columns;
    *out = (design_rows){.rows = r->rows, .columns = C};
    r->scratch = allocate_scratch();
    if (r->rows < SIZE_MAX / sizeof *out->X / C)
        out->X = malloc((r->rows * C + 1) * sizeof *out->X);
    int code = out->X && r->scratch
                   ? 0
                   : fail(f, EX_SOFTWARE, "%.200s: no memory for %zu rows of %zu columns", r->csv->path, r->rows, C);
    if (!code)
        code = fill_X(d, r, out->X, f);
    if (!code)
        code = fill_offset(d, r, &out->offset, f);
    if (!code)
        code = fill_response(d, r, parts, out, f);
    free(r->scratch);
    if (code)
        free_design_rows(out);
    return code;
}

int fill_design(const design *d, const data_table *t, design_parts parts, design_rows *out, failure *f)
{
    *out = (design_rows){0};
    const double **value = calloc(d->sources + 1, sizeof *value);
    if (!value)
        return no_memory(f);
    int code = 0;
    for (size_t i = 0; i < d->sources && !code; i++) {
        size_t c = find_column(&t->csv, d->source[i].name);
        if (c == t->csv.columns || !(value[i] = t->column[c].value))
            code = fail(f, EX_SOFTWARE, "column %s has not been read", d->source[i].name);
    }
    rows_of r = {&t->csv, t->row, value, t->rows, t->all_rows, NULL};
    if (!code)
        code = fill_rows(d, &r, parts, out, f);
    free(value);
    return code;
}

/* ---- new rows ---------------------------------------------------------------------------------------------------- */
const char *const *design_columns(const design *d, design_parts parts, size_t *columns)
{
    size_t at = parts == WITHOUT_RESPONSE ? 0 : parts == WITH_TRIALS ? d->sources + 1 : 2 * (d->sources + 1);
    *columns = 0;
    while (d->listed[at + *columns])
        ++*columns;
    return d->listed + at;
}

const double *factor_values(const design *d, const char *column, size_t *values)
{
    const formula_node *node = d->m->node;
    for (size_t v = 0; v < d->terms.variables; v++) {
        int n = d->terms.variable[v];
        if (!d->variable[v].used || node[n].kind != NODE_FACTOR || !d->state[n].n ||
            strcmp(node[node[n].left].name, column) != 0)
            continue;
        *values = d->state[n].n;
        return d->state[n].value;
    }
    *values = 0;
    return NULL;
}

static int compare_texts(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* The value of a field, coded as in the fit. NULL, or what was expected, perhaps in text. */
static const char *read_value(const source *s, const char *field, double *x, char text[LEVELS_ROOM])
{
    if (is_missing(field))
        return "a value: a row without one cannot be predicted, so leave it out";
    if (s->kind == COLUMN_NUMERIC)
        return read_number(field, x);
    if (s->kind == COLUMN_BOOLEAN) {
        *x = read_boolean(field);
        return *x < 0 ? "yes or no (or true or false), as in the data of the fit" : NULL;
    }
    char **found = bsearch(&field, s->level, s->levels, sizeof *s->level, compare_texts);
    *x = found ? (double)(found - s->level) : 0;
    *text = '\0';
    for (size_t k = 0; !found && k < s->levels; k++)
        add_level(text, s->level[k]);
    return found ? NULL : text;
}

/* Which source each column of the file is; d->sources: none. A line for each that the file lacks. */
static int find_new_columns(const design *d, const csv_file *csv, int uses, size_t *which, failure *f)
{
    failure all = {0}, one;
    char shown[QUOTED];
    for (size_t c = 0; c < csv->columns; c++)
        which[c] = d->sources;
    for (size_t i = 0; i < d->sources; i++) {
        size_t c = d->source[i].uses & uses ? find_column(csv, d->source[i].name) : csv->columns;
        if (c < csv->columns)
            which[c] = i;
        else if (d->source[i].uses & uses) {
            fail(&one, EX_DATAERR, "%s:1: there is no column %s, which the model was fitted with", csv->path,
                 quote(d->source[i].name, shown));
            add_failure(&all, &one);
        }
    }
    if (all.code)
        *f = all;
    return all.code;
}

/* value[sources][rows]; a line for each column that has a field which cannot be read: the first of these. */
static int read_new_values(const design *d, const csv_file *csv, size_t *which, double *const *value, failure *f)
{
    failure all = {0}, one;
    char text[LEVELS_ROOM];
    for (size_t row = 0; row < csv->rows; row++) {
        const char *field = first_field(csv, row);
        for (size_t c = 0; c < csv->columns; c++, field = next_field(field)) {
            if (which[c] == d->sources)
                continue;
            const char *expected = read_value(&d->source[which[c]], field, &value[which[c]][row], text);
            if (!expected)
                continue;
            refuse_field(csv, row, c, field, expected, &one);
            add_failure(&all, &one);
            which[c] = d->sources;
        }
    }
    if (all.code)
        *f = all;
    return all.code;
}

int read_design_rows(const design *d, const csv_file *csv, design_parts parts, design_rows *out, failure *f)
{
    *out = (design_rows){0};
    size_t *which = calloc(csv->columns, sizeof *which);
    double **value = calloc(d->sources + 1, sizeof *value);
    int code = which && value ? find_new_columns(d, csv, uses_of(parts), which, f) : no_memory(f);
    for (size_t i = 0; i < d->sources && !code; i++)
        if ((d->source[i].uses & uses_of(parts)) && !(value[i] = malloc((csv->rows + 1) * sizeof *value[i])))
            code = no_memory(f);
    if (!code)
        code = read_new_values(d, csv, which, value, f);
    rows_of r = {csv, NULL, (const double *const *)value, csv->rows, csv->rows, NULL};
    if (!code)
        code = fill_rows(d, &r, parts, out, f);
    for (size_t i = 0; value && i < d->sources; i++)
        free(value[i]);
    free(value);
    free(which);
    return code;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */
static const char *const kind_names[] = {
    [COLUMN_NUMERIC] = "numeric", [COLUMN_BOOLEAN] = "boolean", [COLUMN_CATEGORICAL] = "categorical"};

static json_t *describe_texts(size_t n, char *const *text)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_string(text[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *describe_source(const source *s)
{
    if (s->kind != COLUMN_CATEGORICAL)
        return json_pack("{s:s, s:s}", "name", s->name, "kind", kind_names[s->kind]);
    return json_pack("{s:s, s:s, s:o}", "name", s->name, "kind", kind_names[s->kind], "levels",
                     describe_texts(s->levels, s->level));
}

static int add_state(design *d, int n, void *self, failure *f)
{
    json_t *row = json_array();
    for (size_t i = 0; i < d->state[n].n; i++)
        if (json_array_append_new(row, json_real(d->state[n].value[i]))) {
            json_decref(row);
            return no_memory(f);
        }
    return json_array_append_new(self, row) ? no_memory(f) : 0;
}

json_t *describe_design(const design *d)
{
    failure f;
    json_t *columns = json_array(), *states = json_array(), *out = NULL;
    int code = columns && states ? visit_all((design *)(uintptr_t)d, add_state, states, &f) : -1;
    for (size_t i = 0; i < d->sources && !code; i++)
        code = json_array_append_new(columns, describe_source(&d->source[i]));
    if (!code)
        out = json_pack("{s:s, s:o, s:O, s:O}", "formula", d->m->text, "dot", describe_texts(d->dots, d->dot),
                        "columns", columns, "state", states);
    json_decref(columns);
    json_decref(states);
    return out;
}

static int damaged(const char *path, const char *what, failure *f)
{
    return fail(f, EX_DATAERR, "%s: the record of the design lacks %s", path, what);
}

/* Strings to texts, to be freed. what: what it is that they tell. */
static int load_texts(const char *path, const char *what, const json_t *list, char ***text, size_t *n, failure *f)
{
    *n = json_array_size(list);
    *text = calloc(*n + 1, sizeof **text);
    int code = *text ? 0 : no_memory(f);
    for (size_t i = 0; i < *n && !code; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (!s)
            code = damaged(path, what, f);
        else if (!((*text)[i] = strdup(s)))
            code = no_memory(f);
    }
    if (code) {
        free_texts(*n, *text);
        *text = NULL;
        *n = 0;
    }
    return code;
}

static int load_source(const char *path, const json_t *from, source *s, failure *f)
{
    const char *name = json_string_value(json_object_get(from, "name")),
               *kind = json_string_value(json_object_get(from, "kind"));
    if (!name || !kind || strcmp(name, s->name) != 0)
        return damaged(path, "its columns", f);
    size_t k = 0;
    while (k < 3 && strcmp(kind, kind_names[k]) != 0)
        k++;
    if (k == 3)
        return damaged(path, "the kind of a column", f);
    s->kind = (column_kind)k;
    if (s->kind != COLUMN_CATEGORICAL)
        return 0;
    if (load_texts(path, "the levels of a column", json_object_get(from, "levels"), &s->level, &s->levels, f))
        return f->code;
    for (size_t i = 1; i < s->levels; i++)
        if (strcmp(s->level[i - 1], s->level[i]) >= 0)
            return damaged(path, "levels in the right order", f);
    return s->levels ? 0 : damaged(path, "the levels of a column", f);
}

/* States that are read one by one. */
typedef struct {
    const char *path;
    const json_t *list;
    size_t next;
} state_reader;

/* Is value i of a node what it can be? Divisors are positive, values of a factor rise. */
static bool is_sound(const design *d, int n, size_t i)
{
    const state *s = &d->state[n];
    const formula_node *node = &d->m->node[n];
    bool divisor = (node->kind != NODE_FACTOR && i == 1) ||
                   (node->kind == NODE_POLY && i >= 2 + 2 * (size_t)node->value);
    if (!isfinite(s->value[i]) || (divisor && !(s->value[i] > 0)))
        return false;
    return node->kind != NODE_FACTOR || !i || s->value[i - 1] < s->value[i];
}

static int load_state(design *d, int n, void *self, failure *f)
{
    state_reader *r = self;
    const formula_node *node = &d->m->node[n];
    const json_t *row = json_array_get(r->list, r->next++);
    size_t size = json_array_size(row);
    if (node->kind == NODE_FACTOR ? size < 2 || size > DESIGN_COLUMNS
                                  : size != (node->kind == NODE_SCALE ? 2 : 2 + 3 * (size_t)node->value))
        return damaged(r->path, "the values of scale(), poly() or factor()", f);
    if (!set_state(&d->state[n], size))
        return no_memory(f);
    for (size_t i = 0; i < size; i++) {
        d->state[n].value[i] = json_is_number(json_array_get(row, i)) ? json_number_value(json_array_get(row, i)) : NAN;
        if (!is_sound(d, n, i))
            return damaged(r->path, "valid values of scale(), poly() or factor()", f);
    }
    return 0;
}

static int load_parts(const char *path, const json_t *from, design *d, failure *f)
{
    const json_t *columns = json_object_get(from, "columns");
    state_reader r = {path, json_object_get(from, "state"), 0};
    if (json_array_size(columns) != d->sources)
        return damaged(path, "its columns", f);
    for (size_t i = 0; i < d->sources; i++)
        if (load_source(path, json_array_get(columns, i), &d->source[i], f))
            return f->code;
    if (check_kinds(d, f) || visit_all(d, load_state, &r, f))
        return f->code;
    return finish_design(d, f);
}

int load_design(const char *path, const json_t *from, design **out, failure *f)
{
    const char *text = json_string_value(json_object_get(from, "formula"));
    char **dot;
    size_t dots;
    *out = NULL;
    if (!text)
        return damaged(path, "its formula", f);
    if (load_texts(path, "its formula", json_object_get(from, "dot"), &dot, &dots, f))
        return f->code;
    design *d = begin_design(text, dots, (const char *const *)dot, f);
    free_texts(dots, dot);
    int code = d ? load_parts(path, from, d, f) : f->code;
    if (code)
        free_design(d);
    else
        *out = d;
    return code;
}
