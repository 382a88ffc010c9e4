/* stan_rewrite.c - tokens of a Stan program, each with what is to be written before it, instead of it and
 * after it. No grammar beyond what is needed to tell declarations from statements; text that does not fit is
 * left as it is, for Stan to complain about. */
#include "stan_rewrite.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *space, *at; /* blanks and comments before the token; its letters */
    size_t length, line;
    size_t match;                /* of ( [ {: the closing one; else, or if there is none: the number of tokens */
    char *before, *text, *after; /* text NULL: its letters */
} token;

/* What has been changed. */
enum { ARRAYS, SEVERAL, ORDER, DENSITIES, BARS, DIVISION, PROFILES, FUNCTIONS, LETTERS, CHANGES };
static const char *const change_names[CHANGES] = {"array[...]",
                                                  "several names in a declaration",
                                                  "declarations after statements",
                                                  "_lupdf and _lupmf",
                                                  "_cdf(x | ...)",
                                                  "%/%",
                                                  "profile",
                                                  "names of functions",
                                                  "letters in texts"};

typedef struct {
    token *t;
    size_t n, room;
    const char *end; /* of the text */
    bool changed[CHANGES], no_memory;
    size_t old_arrays;
} program;

enum { NESTING = 200 }; /* statements within statements that are looked into */

/* ---- tokens ------------------------------------------------------------------------------------------------------ */
/* Past blanks and comments. */
static const char *skip_space(const char *s, size_t *line)
{
    for (;;) {
        const char *from = s;
        s += strspn(s, " \t\r\n\f\v");
        if (*s == '#' || (s[0] == '/' && s[1] == '/')) {
            s += strcspn(s, "\n");
        } else if (s[0] == '/' && s[1] == '*') {
            const char *end = strstr(s + 2, "*/");
            s = end ? end + 2 : s + strlen(s);
        }
        if (s == from)
            return s;
        for (const char *c = from; c < s; c++)
            *line += *c == '\n';
    }
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t token_length(const char *s)
{
    static const char *const operators[] = {"%/%", ".*=", "./=", "+=", "-=", "*=", "/=", "==",
                                            "!=",  "<=",  ">=",  "&&", "||", ".*", "./", ".^"};
    size_t n = 0;
    if (*s == '"') {
        n = 1 + strcspn(s + 1, "\"\n");
        return n + (s[n] == '"');
    }
    while (is_letter(s[n]) || (n && s[n] == '.' && isdigit((unsigned char)*s) && isdigit((unsigned char)s[n + 1])))
        n++;
    if (n)
        return n;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strncmp(s, operators[i], strlen(operators[i])))
            return strlen(operators[i]);
    return 1;
}

static void split(program *p, const char *text)
{
    size_t line = 1;
    for (const char *space = text, *at;; space = at + p->t[p->n - 1].length) {
        at = skip_space(space, &line);
        if (p->n == p->room) {
            size_t room = 2 * p->room + 256;
            token *larger = realloc(p->t, room * sizeof *larger);
            if (!larger) {
                p->no_memory = true;
                return;
            }
            p->t = larger;
            p->room = room;
        }
        p->end = space;
        if (!*at)
            return;
        p->t[p->n++] = (token){.space = space, .at = at, .length = token_length(at), .line = line};
    }
}

/* Which bracket closes which. */
static void match_brackets(program *p)
{
    size_t *open = malloc((p->n + 1) * sizeof *open), depth = 0;
    if (!open) {
        p->no_memory = true;
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        char c = p->t[i].length == 1 ? *p->t[i].at : 'x';
        p->t[i].match = p->n;
        if (strchr("([{", c))
            open[depth++] = i;
        else if (strchr(")]}", c) && depth && *p->t[open[depth - 1]].at == (c == ')' ? '(' : c == ']' ? '[' : '{'))
            p->t[open[--depth]].match = i;
    }
    free(open);
}

static bool is(const program *p, size_t i, const char *word)
{
    return i < p->n && p->t[i].length == strlen(word) && !strncmp(p->t[i].at, word, p->t[i].length);
}

static bool is_name(const program *p, size_t i)
{
    return i < p->n && is_letter(*p->t[i].at) && !isdigit((unsigned char)*p->t[i].at);
}

static bool ends_in(const program *p, size_t i, const char *ending)
{
    size_t n = strlen(ending);
    return is_name(p, i) && p->t[i].length > n && !strncmp(p->t[i].at + p->t[i].length - n, ending, n);
}

static bool is_type(const program *p, size_t i)
{
    static const char *const types[] = {"int",
                                        "real",
                                        "vector",
                                        "row_vector",
                                        "matrix",
                                        "ordered",
                                        "positive_ordered",
                                        "simplex",
                                        "unit_vector",
                                        "cholesky_factor_corr",
                                        "cholesky_factor_cov",
                                        "corr_matrix",
                                        "cov_matrix"};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (is(p, i, types[k]))
            return true;
    return false;
}

/* array[...] TYPE begins here? Then the index of the type, else 0. */
static size_t array_type(const program *p, size_t i)
{
    if (!is(p, i, "array") || !is(p, i + 1, "[") || p->t[i + 1].match >= p->n)
        return 0;
    size_t type = p->t[i + 1].match + 1;
    return is_type(p, type) ? type : 0;
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */
/* Appends to a text of a token. */
__attribute__((format(printf, 3, 4))) static void add(program *p, char **text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int more = vsnprintf(NULL, 0, format, args);
    size_t have = *text ? strlen(*text) : 0;
    char *larger = more < 0 ? NULL : realloc(*text, have + (size_t)more + 1);
    if (larger) {
        vsnprintf(larger + have, (size_t)more + 1, format, again);
        *text = larger;
    } else {
        p->no_memory = true;
    }
    va_end(again);
    va_end(args);
}

static void replace(program *p, size_t i, const char *text)
{
    free(p->t[i].text);
    p->t[i].text = NULL;
    add(p, &p->t[i].text, "%s", text);
}

/* Removes tokens from first to last; what was to be written before and after them stays. */
static void drop(program *p, size_t first, size_t last)
{
    for (size_t i = first; i <= last && i < p->n; i++)
        replace(p, i, "");
}

/* Tokens from first up to, not including, end, as one line; free() it. */
static char *render(program *p, size_t first, size_t end)
{
    char *text = NULL;
    add(p, &text, "%s", "");
    for (size_t i = first; i < end && i < p->n; i++) {
        const token *t = &p->t[i];
        add(p, &text, "%s%s%.*s%s", i > first && t->space != t->at ? " " : "", t->before ? t->before : "",
            t->text ? (int)strlen(t->text) : (int)t->length, t->text ? t->text : t->at, t->after ? t->after : "");
    }
    return text;
}

/* ---- names and operators ----------------------------------------------------------------------------------------- */
/* The program has a function of its own with this name. */
static bool defines(const program *p, const char *name)
{
    for (size_t i = 1; i < p->n; i++)
        if (is(p, i, name) && is(p, i + 1, "(") && (is_type(p, i - 1) || is(p, i - 1, "]") || is(p, i - 1, "void")))
            return true;
    return false;
}

static void rename_functions(program *p)
{
    static const struct {
        const char *name, *old, *argument, *end; /* argument: written first, end: last */
    } table[] = {{"zeros_vector", "rep_vector", "0, ", ""},
                 {"ones_vector", "rep_vector", "1, ", ""},
                 {"zeros_row_vector", "rep_row_vector", "0, ", ""},
                 {"ones_row_vector", "rep_row_vector", "1, ", ""},
                 {"zeros_int_array", "rep_array", "0, ", ""},
                 {"ones_int_array", "rep_array", "1, ", ""},
                 {"zeros_array", "rep_array", "0.0, ", ""},
                 {"ones_array", "rep_array", "1.0, ", ""},
                 {"identity_matrix", "diag_matrix", "rep_vector(1, ", ")"},
                 {"gp_exp_quad_cov", "cov_exp_quad", "", ""},
                 {"fatal_error", "reject", "", ""}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        bool own = defines(p, table[k].name);
        for (size_t i = 0, open = 1; i < p->n && !own; i++, open++)
            if (is(p, i, table[k].name) && is(p, open, "(") && p->t[open].match < p->n) {
                replace(p, i, table[k].old);
                add(p, &p->t[open].after, "%s", table[k].argument);
                add(p, &p->t[p->t[open].match].before, "%s", table[k].end);
                p->changed[FUNCTIONS] = true;
            }
    }
}

/* foo_lupdf -> foo_lpdf */
static void rename_density(program *p, size_t i)
{
    if (!ends_in(p, i, "_lupdf") && !ends_in(p, i, "_lupmf"))
        return;
    const token *t = &p->t[i];
    char *name = NULL;
    add(p, &name, "%.*s%.*s", (int)t->length - 4, t->at, 3, t->at + t->length - 3);
    if (name)
        replace(p, i, name);
    free(name);
    p->changed[DENSITIES] = true;
}

/* foo_cdf(x | a) -> foo_cdf(x, a) */
static void replace_bar(program *p, size_t i)
{
    if (!ends_in(p, i, "_cdf") || !is(p, i + 1, "(") || p->t[i + 1].match >= p->n)
        return;
    for (size_t k = i + 2; k < p->t[i + 1].match; k = p->t[k].match < p->n ? p->t[k].match + 1 : k + 1)
        if (is(p, k, "|")) {
            replace(p, k, ",");
            p->changed[BARS] = true;
            return;
        }
}

/* array[,] real -> real[,] */
static void turn_unsized(program *p, size_t i)
{
    size_t type = array_type(p, i), commas = 0;
    if (!type)
        return;
    while (is(p, i + 2 + commas, ","))
        commas++;
    if (i + 2 + commas != type - 1)
        return;
    add(p, &p->t[type].after, "[");
    for (size_t k = 0; k < commas; k++)
        add(p, &p->t[type].after, ",");
    add(p, &p->t[type].after, "]");
    drop(p, i, type - 1);
    p->changed[ARRAYS] = true;
}

/* Texts that are printed have ASCII only. */
static void replace_letters(program *p, size_t i)
{
    size_t length = p->t[i].length, others = 0;
    if (*p->t[i].at != '"')
        return;
    for (size_t k = 0; k < length; k++)
        others += (unsigned char)p->t[i].at[k] > 127;
    char *text = others ? strndup(p->t[i].at, length) : NULL;
    for (char *c = text; c && *c; c++)
        *c = (unsigned char)*c > 127 ? '?' : *c;
    if (!text)
        return;
    replace(p, i, text);
    free(text);
    p->changed[LETTERS] = true;
}

static void change_words(program *p)
{
    rename_functions(p);
    for (size_t i = 0; i < p->n && !p->no_memory; i++) {
        rename_density(p, i);
        replace_bar(p, i);
        turn_unsized(p, i);
        replace_letters(p, i);
        if (is(p, i, "%/%")) {
            replace(p, i, "/");
            p->changed[DIVISION] = true;
        }
    }
}

/* ---- declarations ------------------------------------------------------------------------------------------------ */
/* The first token at or after i, outside brackets, that is one of two; or `end`. */
static size_t find(const program *p, size_t i, size_t end, const char *one, const char *other)
{
    while (i < end && !is(p, i, one) && !is(p, i, other))
        i = p->t[i].match < p->n ? p->t[i].match + 1 : i + 1;
    return i < end ? i : end;
}

typedef struct {
    size_t first, type; /* tokens: "array" or the type; the type */
    size_t name;        /* the first name */
    size_t end;         /* the semicolon */
    char *text, *sizes; /* the type with bounds and sizes; what is between array[ and ], or NULL */
} declaration;

/* A declaration that begins at i and ends before `close`? */
static bool read_declaration(program *p, size_t i, size_t close, declaration *d)
{
    size_t array = array_type(p, i), at = array ? array : i;
    *d = (declaration){.first = i, .type = at};
    if (!is_type(p, at))
        return false;
    at++;
    if (is(p, at, "<"))
        at = find(p, at, close, ">", ";") + 1;
    if (is(p, at, "[") && p->t[at].match < close)
        at = p->t[at].match + 1;
    d->name = at;
    d->end = find(p, at, close, ";", ";");
    if (!is_name(p, at) || d->end == close)
        return false;
    d->text = render(p, d->type, at);
    d->sizes = array ? render(p, i + 2, array - 1) : NULL;
    return d->text && (d->sizes || !array);
}

static void free_declaration(declaration *d)
{
    free(d->text);
    free(d->sizes);
}

static bool is_whole(const program *p, size_t i)
{
    return i < p->n && strspn(p->t[i].at, "0123456789") == p->t[i].length;
}

/* {1, 2} and rep_array(1, N) are arrays of int: with a fraction they are real. */
static void make_real(program *p, size_t i, size_t end)
{
    if (is(p, i, "rep_array") && is(p, i + 1, "(") && is(p, i + 3, ",") && is_whole(p, i + 2))
        add(p, &p->t[i + 2].after, ".0");
    for (bool literal = is(p, i, "{"); literal && i < end;
         i += is(p, i, "(") || is(p, i, "[") ? p->t[i].match - i + 1 : 1)
        if (is_whole(p, i) && (is(p, i + 1, ",") || is(p, i + 1, "}")))
            add(p, &p->t[i].after, ".0");
}

/* One name of a declaration, with its sizes and its value; `end`: the comma or semicolon after it. hoist NULL: the
 * name stays here; else its declaration is added there and only the assignment stays. */
static void change_name(program *p, const declaration *d, size_t name, size_t end, bool first, char **hoist)
{
    bool sized = is(p, name + 1, "[") && p->t[name + 1].match < end;
    size_t value = sized ? p->t[name + 1].match + 1 : name + 1;
    char *sizes = NULL;
    if (d->sizes)
        add(p, &sizes, "[%s]", d->sizes);
    else if (sized)
        sizes = render(p, name + 1, value);
    if (is(p, d->type, "real") && sizes)
        make_real(p, value + 1, end);
    if (sized && !p->old_arrays)
        p->old_arrays = p->t[name].line;
    if (!hoist) {
        if (d->sizes)
            add(p, &p->t[name].after, "%s", sizes ? sizes : "");
        if (!first) {
            replace(p, name - 1, ";"); /* the comma */
            add(p, &p->t[name - 1].after, " %s", d->text);
        }
    } else {
        add(p, hoist, " %s %.*s%s;", d->text, (int)p->t[name].length, p->t[name].at, sizes ? sizes : "");
        if (sized)
            drop(p, name + 1, value - 1);
        if (value == end)
            drop(p, name, name);
        replace(p, end, value == end ? "" : ";");
    }
    free(sizes);
}

static void change_declaration(program *p, const declaration *d, char **hoist)
{
    for (size_t name = d->name, end; name < d->end; name = end + 1) {
        end = find(p, name, d->end, ",", ",");
        if (!is_name(p, name))
            break;
        change_name(p, d, name, end, name == d->name, hoist);
        p->changed[SEVERAL] = p->changed[SEVERAL] || (end < d->end && !hoist);
    }
    if (d->sizes) {
        drop(p, d->first, d->type - 1);
        p->changed[ARRAYS] = true;
    }
    if (hoist) {
        drop(p, d->type, d->name - 1);
        p->changed[ORDER] = true;
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
static void change_block(program *p, size_t open, bool outer, size_t depth);

/* A statement at i, of a block that ends at `close`; the index after it. */
static size_t change_statement(program *p, size_t i, size_t close, size_t depth)
{
    static const char *const heads[] = {"for", "while", "if"};
    if (depth > NESTING)
        return close;
    if (is(p, i, "{") && p->t[i].match < close) {
        change_block(p, i, false, depth + 1);
        return p->t[i].match + 1;
    }
    if (is(p, i, "else"))
        return change_statement(p, i + 1, close, depth + 1);
    size_t body = is(p, i + 1, "(") && p->t[i + 1].match < close ? p->t[i + 1].match + 1 : 0;
    for (size_t k = 0; body && k < sizeof heads / sizeof *heads; k++)
        if (is(p, i, heads[k]))
            return change_statement(p, body, close, depth + 1);
    if (body && is(p, i, "profile") && is(p, body, "{")) {
        drop(p, i, body - 1);
        p->changed[PROFILES] = true;
        return change_statement(p, body, close, depth + 1);
    }
    size_t end = find(p, i, close, ";", ";");
    return end < close ? end + 1 : close;
}

/* A block that opens at `open`. outer: its names are seen by the blocks that follow. */
static void change_block(program *p, size_t open, bool outer, size_t depth)
{
    size_t close = p->t[open].match, anchor = open, extra = 0;
    bool statements = false;
    for (size_t i = open + 1, next; i < close && !p->no_memory; i = next) {
        declaration d;
        if (!read_declaration(p, i, close, &d)) {
            free_declaration(&d);
            next = change_statement(p, i, close, depth);
            statements = true;
            continue;
        }
        char *hoist = NULL;
        if (statements && !outer) {
            add(p, &p->t[i].before, "{ ");
            extra++;
            statements = false;
            p->changed[ORDER] = true;
        }
        change_declaration(p, &d, statements ? &hoist : NULL);
        if (hoist)
            add(p, &p->t[anchor].after, "%s", hoist);
        else if (outer)
            anchor = d.end;
        free(hoist);
        next = d.end + 1;
        free_declaration(&d);
    }
    for (; extra; extra--)
        add(p, &p->t[close].before, "} ");
}

/* Bodies of functions. */
static void change_functions(program *p, size_t open)
{
    for (size_t i = open + 1; i < p->t[open].match && !p->no_memory; i++)
        if (is(p, i, "{") && p->t[i].match < p->n) {
            change_block(p, i, false, 0);
            i = p->t[i].match;
        }
}

static void change_blocks(program *p)
{
    for (size_t i = 0; i < p->n && !p->no_memory; i++) {
        if (!is(p, i, "{") || p->t[i].match >= p->n)
            continue;
        if (i && is(p, i - 1, "functions"))
            change_functions(p, i);
        else
            change_block(p, i, !(i && is(p, i - 1, "model")), 0);
        i = p->t[i].match;
    }
}

/* ---- names that cannot be rewritten ------------------------------------------------------------------------------ */
/* Takes note of a token, if it is the first. */
static void note_newer(const program *p, size_t i, stan_rewriting *r)
{
    if (*r->newer && r->newer_line <= p->t[i].line)
        return;
    snprintf(r->newer, sizeof r->newer, "%.*s", (int)p->t[i].length, p->t[i].at);
    r->newer_line = p->t[i].line;
}

static void find_newer(const program *p, stan_rewriting *r)
{
    static const char *const functions[] = {"tuple",
                                            "reduce_sum",
                                            "reduce_sum_static",
                                            "ode_rk45",
                                            "ode_rk45_tol",
                                            "ode_ckrk",
                                            "ode_ckrk_tol",
                                            "ode_adams",
                                            "ode_adams_tol",
                                            "ode_bdf",
                                            "ode_bdf_tol",
                                            "ode_adjoint_tol_ctl",
                                            "dae",
                                            "dae_tol",
                                            "solve_newton",
                                            "solve_powell",
                                            "solve_newton_tol",
                                            "solve_powell_tol",
                                            "linspaced_array",
                                            "linspaced_vector",
                                            "linspaced_row_vector",
                                            "linspaced_int_array",
                                            "one_hot_vector",
                                            "norm1",
                                            "norm2",
                                            "chol2inv",
                                            "discrete_range_lpmf",
                                            "std_normal_qf",
                                            "symmetrize_from_lower_tri",
                                            "gp_matern32_cov",
                                            "gp_matern52_cov",
                                            "gp_exponential_cov",
                                            "gp_dot_prod_cov",
                                            "gp_periodic_cov"};
    static const char *const words[] = {
        "complex", "complex_vector", "complex_row_vector", "complex_matrix", "sum_to_zero_vector", "jacobian", ".^"};
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        bool own = defines(p, functions[k]);
        for (size_t i = 0; i < p->n && !own; i++)
            if (is(p, i, functions[k]) && is(p, i + 1, "("))
                note_newer(p, i, r);
    }
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        for (size_t i = 0; i < p->n; i++)
            if (is(p, i, words[k]) &&
                (!is_letter(*words[k]) || is_name(p, i + 1) || is(p, i + 1, "[") || is(p, i + 1, "+=")))
                note_newer(p, i, r);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static char *write_program(const program *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    for (size_t i = 0; i < p->n; i++) {
        const token *t = &p->t[i];
        fwrite(t->space, 1, (size_t)(t->at - t->space), s);
        if (t->before)
            fputs(t->before, s);
        if (t->text)
            fputs(t->text, s);
        else
            fwrite(t->at, 1, t->length, s);
        if (t->after)
            fputs(t->after, s);
    }
    fputs(p->end, s);
    if (fclose(s)) {
        free(text);
        return NULL;
    }
    return text;
}

stan_rewriting rewrite_stan(const char *text)
{
    stan_rewriting r = {0};
    program p = {0};
    split(&p, text);
    if (!p.no_memory)
        match_brackets(&p);
    if (!p.no_memory) {
        find_newer(&p, &r);
        change_words(&p);
        change_blocks(&p);
    }
    r.old_arrays = p.old_arrays;
    for (size_t k = 0, at = 0; k < CHANGES; k++)
        if (p.changed[k])
            at += (size_t)snprintf(r.changes + at, sizeof r.changes - at, "%s%s", at ? ", " : "", change_names[k]);
    if (*r.changes && !p.no_memory)
        r.text = write_program(&p);
    for (size_t i = 0; i < p.n; i++) {
        free(p.t[i].before);
        free(p.t[i].text);
        free(p.t[i].after);
    }
    free(p.t);
    return r;
}
