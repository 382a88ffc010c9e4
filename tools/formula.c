/* formula.c - R's formula language by recursive descent. Precedence is R's, from loose to tight:
 *     ~   |   + -   * /   %in%   :   - + (sign)   ^
 * Left of ~ and inside of functions these are arithmetic, elsewhere they make terms (docs/formula.md). Recursion is no
 * deeper than FORMULA_DEPTH; every node remembers where it stands in the text, for messages. */
#include "formula.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static double same(double x)
{
    return x;
}

static const struct {
    const char *name;
    double (*call)(double x);
} functions[] = {{"I", same},      {"log", log}, {"log2", log2}, {"log10", log10},
                 {"log1p", log1p}, {"exp", exp}, {"sqrt", sqrt}, {"abs", fabs}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

double call_function(size_t index, double x)
{
    return functions[index].call(x);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */
enum { BEFORE = 70, AFTER = 40 }; /* bytes of the text that are shown on either side of the place */

/* Characters that text[from .. to) is shown with. */
static size_t show_part(const char *text, size_t from, size_t to, char *out, size_t room)
{
    size_t shown = 0, at = 0;
    char one[5];
    *out = '\0';
    while (from < to && at + sizeof one < room) {
        bool blank = strchr("\n\r\t", text[from]) != NULL;
        size_t length = blank ? 1 : show_character(text + from, one);
        bool whole = blank || length > 1 || one[0] != '\\' || text[from] == '\\';
        at += (size_t)snprintf(out + at, room - at, "%s", blank ? " " : one);
        shown += whole ? 1 : strlen(one);
        from += length;
    }
    return shown;
}

/* Where a character begins, at or before a byte. */
static size_t start_of(const char *text, size_t at)
{
    while (at && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    return at;
}

/* The place `at` of the text: a line of it, and a ^ below. */
static void add_place(const char *text, size_t at, failure *f)
{
    char before[4 * BEFORE + 8], after[4 * AFTER + 8], line[sizeof before + sizeof after + 16];
    size_t size = strlen(text), from = at > BEFORE ? start_of(text, at - BEFORE) : 0,
           to = size - at > AFTER ? start_of(text, at + AFTER) : size;
    size_t indent = show_part(text, from, at, before, sizeof before);
    show_part(text, at, to, after, sizeof after);
    failure one;
    snprintf(line, sizeof line, "    %s%s%s%s", from ? "..." : "", before, after, to < size ? "..." : "");
    fail(&one, f->code, "%s", line);
    add_failure(f, &one);
    fail(&one, f->code, "    %*s^", (int)(indent + (from ? 3 : 0)), "");
    add_failure(f, &one);
}

/* Characters before a place, counted from 1. */
static size_t column_of(const char *text, size_t at)
{
    size_t column = 1;
    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)text[i] & 0xC0) != 0x80;
    return column;
}

__attribute__((format(printf, 5, 0))) static int refuse_at(const char *text, size_t at, int code, failure *f,
                                                           const char *format, va_list args)
{
    char what[600];
    vsnprintf(what, sizeof what, format, args);
    fail(f, code, "formula, column %zu: %s", column_of(text, at), what);
    add_place(text, at, f);
    return code;
}

int refuse_node(const formula *m, int n, int code, failure *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refuse_at(m->text, n == NO_NODE ? 0 : m->node[n].at, code, f, format, args);
    va_end(args);
    return code;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */
typedef enum {
    T_END,
    T_NUMBER,
    T_NAME,
    T_QUOTED, /* a name in back-quotes */
    T_DOT,
    T_IN, /* %in% */
    T_OR, /* || */
    T_OTHER,
    T_TILDE = '~',
    T_PLUS = '+',
    T_MINUS = '-',
    T_TIMES = '*',
    T_SLASH = '/',
    T_POWER = '^',
    T_COLON = ':',
    T_BAR = '|',
    T_OPEN = '(',
    T_CLOSE = ')',
    T_COMMA = ',',
    T_EQUALS = '=',
} token_kind;

typedef struct {
    formula *m;
    failure *f;
    size_t size;     /* of the text */
    size_t names;    /* bytes used of m->names */
    size_t room;     /* of m->node */
    token_kind kind; /* the token */
    size_t at, end;  /* where it stands */
    double value;    /* of a number */
    size_t last;     /* where the token before it ended */
    int depth;       /* of recursion */
    int group;       /* the first (a|b), or NO_NODE */
} parser;

__attribute__((format(printf, 3, 4))) static int refuse(parser *p, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!p->f->code)
        refuse_at(p->m->text, at, EX_USAGE, p->f, format, args);
    va_end(args);
    return NO_NODE;
}

/* "found X" for the token. */
static const char *found(const parser *p, char out[QUOTED])
{
    char text[QUOTED];
    size_t length = p->end - p->at < sizeof text ? p->end - p->at : sizeof text - 1;
    if (p->kind == T_END)
        return "the end";
    memcpy(text, p->m->text + p->at, length);
    text[length] = '\0';
    return quote(text, out);
}

static int expected(parser *p, const char *what)
{
    char shown[QUOTED], c = p->m->text[p->at];
    bool name = c == '"' || c == '\'' ||
                ((p->kind == T_NAME || p->kind == T_QUOTED) && !strncmp(what, "an operator", 11));
    return refuse(p, p->at, "found %s, expected %s%s", found(p, shown), what,
                  name ? " (a name with blanks stands in back-quotes: `a b`)" : "");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Letters of any script: a byte that is not ASCII counts as one. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ((unsigned char)c & 0x80);
}

static bool is_part(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == '_';
}

static void read_number_token(parser *p)
{
    const char *s = p->m->text, *end;
    p->value = convert_number(s + p->at, &end);
    p->end = (size_t)(end - s);
    if (s[p->at] == '0' && (s[p->at + 1] == 'x' || s[p->at + 1] == 'X'))
        refuse(p, p->at, "found a hexadecimal number, expected a decimal one");
    else if (!isfinite(p->value))
        refuse(p, p->at, "found a number that is too large");
    else if (s[p->end] == 'L' && !is_part(s[p->end + 1]))
        p->end++; /* R's mark of whole numbers */
    p->kind = T_NUMBER;
}

static void read_quoted_token(parser *p)
{
    const char *s = p->m->text, *close = strchr(s + p->at + 1, '`');
    p->kind = T_QUOTED;
    p->end = close ? (size_t)(close - s) + 1 : p->size;
    if (!close)
        refuse(p, p->at, "a name has no closing back-quote");
    else if (p->end - p->at == 2)
        refuse(p, p->at, "found an empty name in back-quotes");
}

static void read_name_token(parser *p)
{
    const char *s = p->m->text;
    while (is_part(s[p->end]))
        p->end++;
    p->kind = p->end - p->at == 1 && s[p->at] == '.' ? T_DOT : T_NAME;
}

static void read_operator_token(parser *p)
{
    const char *s = p->m->text + p->at;
    bool power = s[0] == '*' && s[1] == '*', or = s[0] == '|' && s[1] == '|', in = !strncmp(s, "%in%", 4);
    p->kind = power ? T_POWER : or ? T_OR : in ? T_IN : strchr("~+-*/^:|(),=", *s) ? (token_kind)*s : T_OTHER;
    p->end = p->at + (in ? 4 : power || or ? 2 : 1);
    while (p->kind == T_OTHER && ((unsigned char)p->m->text[p->end] & 0xC0) == 0x80)
        p->end++;
}

static void advance(parser *p)
{
    const char *s = p->m->text;
    p->last = p->end;
    p->at = p->end + strspn(s + p->end, " \t\r\n");
    p->end = p->at;
    if (p->f->code || !s[p->at]) {
        p->kind = T_END;
        return;
    }
    if (is_digit(s[p->at]) || (s[p->at] == '.' && is_digit(s[p->at + 1])))
        read_number_token(p);
    else if (is_letter(s[p->at]) || s[p->at] == '.')
        read_name_token(p);
    else if (s[p->at] == '`')
        read_quoted_token(p);
    else
        read_operator_token(p);
    if (p->f->code)
        p->kind = T_END;
}

static bool is_word(const parser *p, const char *word)
{
    return p->kind == T_NAME && p->end - p->at == strlen(word) && !strncmp(p->m->text + p->at, word, p->end - p->at);
}

/* Is the token a name with a parenthesis after it? */
static bool is_call(const parser *p)
{
    const char *after = p->m->text + p->end;
    return p->kind == T_NAME && after[strspn(after, " \t\r\n")] == '(';
}

static bool take(parser *p, token_kind kind, const char *what)
{
    if (p->kind != kind) {
        expected(p, what);
        return false;
    }
    advance(p);
    return !p->f->code;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
static bool make_room(parser *p)
{
    formula *m = p->m;
    if (m->nodes < p->room)
        return true;
    size_t room = p->room ? 2 * p->room : 64;
    formula_node *node = room <= FORMULA_NODES ? realloc(m->node, room * sizeof *node) : NULL;
    if (!node) {
        if (room > FORMULA_NODES)
            refuse(p, p->at, "the formula is too long: expected at most %d names, numbers and operators",
                   FORMULA_NODES);
        else
            p->f->code = fail(p->f, EX_SOFTWARE, "no memory for a formula");
        return false;
    }
    m->node = node;
    p->room = room;
    return true;
}

static int depth_of(const formula *m, int n)
{
    return n == NO_NODE ? 0 : m->node[n].depth;
}

/* A node that begins at `at` and ends where the last token did. */
static int add_node(parser *p, node_kind kind, int left, int right, size_t at)
{
    if (p->f->code || !make_room(p))
        return NO_NODE;
    formula *m = p->m;
    int a = depth_of(m, left), b = depth_of(m, right), depth = 1 + (a > b ? a : b);
    if (depth > FORMULA_CHAIN)
        return refuse(p, at, "there are more than %d operators in a row", FORMULA_CHAIN);
    m->node[m->nodes] = (formula_node){
        .kind = kind, .left = left, .right = right, .next = NO_NODE, .depth = depth, .at = at, .end = p->last};
    return (int)m->nodes++;
}

/* Enters one more level of recursion. */
static bool enter(parser *p)
{
    if (p->f->code)
        return false;
    if (++p->depth <= FORMULA_DEPTH)
        return true;
    refuse(p, p->at, "the formula is nested too deeply: expected at most %d levels", FORMULA_DEPTH);
    return false;
}

/* A column, or what a function is called, from the token. */
static const char *keep_name(parser *p)
{
    size_t quoted = p->kind == T_QUOTED, length = p->end - p->at - 2 * quoted;
    char *name = p->m->names + p->names;
    memcpy(name, p->m->text + p->at + quoted, length);
    name[length] = '\0';
    p->names += length + 1;
    return name;
}

static int add_column(parser *p)
{
    size_t at = p->at;
    const char *name = keep_name(p);
    advance(p);
    int n = add_node(p, NODE_COLUMN, NO_NODE, NO_NODE, at);
    if (n != NO_NODE)
        p->m->node[n].name = name;
    return n;
}

static int add_number(parser *p, node_kind kind)
{
    size_t at = p->at;
    double value = p->value;
    advance(p);
    int n = add_node(p, kind, NO_NODE, NO_NODE, at);
    if (n != NO_NODE)
        p->m->node[n].value = value;
    return n;
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */
static int parse_expression(parser *p);

static const char an_expression[] = "a column, a number, a function or \"(\"";

static int refuse_function(parser *p, bool term)
{
    static const char *const terms[] = {"I",   "log",   "log2", "log10",  "log1p",     "exp",    "sqrt",
                                        "abs", "scale", "poly", "factor", "as.factor", "offset", NULL},
                             *const inside[] = {"I",   "log",  "log2", "log10", "log1p",
                                                "exp", "sqrt", "abs",  "scale", NULL};
    char name[QUOTED], shown[QUOTED];
    size_t length = p->end - p->at < sizeof name ? p->end - p->at : sizeof name - 1;
    memcpy(name, p->m->text + p->at, length);
    name[length] = '\0';
    if (is_word(p, "cbind") || is_word(p, "trials"))
        return refuse(p, p->at, "%s() belongs to the response, left of ~: cbind(success, failure), y | trials(n)",
                      name);
    if (!term && (is_word(p, "poly") || is_word(p, "factor") || is_word(p, "as.factor") || is_word(p, "offset")))
        return refuse(p, p->at, "%s() is a term of its own and cannot be part of an expression", name);
    const char *near = find_nearest(name, term ? terms : inside);
    return refuse(p, p->at, "there is no function %s: %s%s%s", quote(name, shown), near ? "did you mean " : "expected ",
                  near   ? near
                  : term ? "I, log, log2, log10, log1p, exp, sqrt, abs, scale, poly, factor or offset"
                         : "I, log, log2, log10, log1p, exp, sqrt, abs or scale",
                  near ? "?" : "");
}

/* NAME = TRUE or FALSE, from the name on. */
static bool parse_switch(parser *p, bool *value)
{
    advance(p);
    if (!take(p, T_EQUALS, "\"=\""))
        return false;
    bool yes = is_word(p, "TRUE") || is_word(p, "T");
    if (!yes && !is_word(p, "FALSE") && !is_word(p, "F")) {
        expected(p, "TRUE or FALSE");
        return false;
    }
    *value = yes;
    advance(p);
    return true;
}

/* scale(x), scale(x, center = FALSE), scale(x, scale = FALSE), from the name on. */
static int parse_scale(parser *p)
{
    size_t at = p->at;
    bool centre = true, unit = true;
    advance(p);
    advance(p);
    int arg = parse_expression(p);
    while (!p->f->code && p->kind == T_COMMA) {
        advance(p);
        if (!is_word(p, "center") && !is_word(p, "scale"))
            return expected(p, "center = TRUE or FALSE, scale = TRUE or FALSE");
        if (!parse_switch(p, is_word(p, "center") ? &centre : &unit))
            return NO_NODE;
    }
    if (!take(p, T_CLOSE, "\")\" or \",\""))
        return NO_NODE;
    int n = add_node(p, NODE_SCALE, arg, NO_NODE, at);
    if (n != NO_NODE) {
        p->m->node[n].plain = !centre;
        p->m->node[n].as_is = !unit;
    }
    return n;
}

/* A function of numbers, from its name on. */
static int parse_call(parser *p, bool term)
{
    size_t which = 0, at = p->at;
    if (is_word(p, "scale"))
        return parse_scale(p);
    while (which < FUNCTIONS && !is_word(p, functions[which].name))
        which++;
    if (which == FUNCTIONS)
        return refuse_function(p, term);
    advance(p);
    advance(p);
    int arg = parse_expression(p);
    if (!p->f->code && p->kind == T_COMMA)
        return refuse(p, p->at, "%s() takes one argument%s", functions[which].name,
                      which == 1 ? ": log2() and log10() have other bases" : "");
    if (!take(p, T_CLOSE, "an operator or \")\""))
        return NO_NODE;
    int n = add_node(p, NODE_FUNCTION, arg, NO_NODE, at);
    if (n != NO_NODE) {
        p->m->node[n].function = which;
        p->m->node[n].name = functions[which].name;
    }
    return n;
}

static int parse_atom(parser *p)
{
    if (p->kind == T_NUMBER)
        return add_number(p, NODE_NUMBER);
    if (is_call(p))
        return parse_call(p, false);
    if (p->kind == T_NAME || p->kind == T_QUOTED)
        return add_column(p);
    if (p->kind != T_OPEN)
        return expected(p, p->kind == T_DOT ? "a column, a number, a function or \"(\": . stands only for terms"
                                            : an_expression);
    advance(p);
    int n = parse_expression(p);
    return take(p, T_CLOSE, "an operator or \")\"") ? n : NO_NODE;
}

/* - x, + x, x ^ y: a power binds tighter than the sign before it, and looser than the one after it. */
static int parse_signed(parser *p)
{
    size_t at = p->at;
    int n = NO_NODE;
    if (!enter(p))
        return NO_NODE;
    if (p->kind == T_MINUS || p->kind == T_PLUS) {
        bool minus = p->kind == T_MINUS;
        advance(p);
        n = parse_signed(p);
        n = minus ? add_node(p, NODE_NEGATE, n, NO_NODE, at) : n;
    } else {
        n = parse_atom(p);
        if (!p->f->code && p->kind == T_POWER) {
            advance(p);
            int right = parse_signed(p);
            n = add_node(p, NODE_POWER, n, right, at);
        }
    }
    p->depth--;
    return p->f->code ? NO_NODE : n;
}

/* Operands of two operators of one rank, from left to right. */
static int parse_chain(parser *p, int (*operand)(parser *), const token_kind sign[2], const node_kind node[2])
{
    size_t at = p->at;
    int n = operand(p);
    while (!p->f->code && (p->kind == sign[0] || p->kind == sign[1])) {
        node_kind kind = node[p->kind == sign[1]];
        advance(p);
        int right = operand(p);
        n = add_node(p, kind, n, right, at);
    }
    return n;
}

static int parse_product(parser *p)
{
    return parse_chain(p, parse_signed, (token_kind[]){T_TIMES, T_SLASH}, (node_kind[]){NODE_MULTIPLY, NODE_DIVIDE});
}

static int parse_expression(parser *p)
{
    return parse_chain(p, parse_product, (token_kind[]){T_PLUS, T_MINUS}, (node_kind[]){NODE_ADD, NODE_SUBTRACT});
}

/* ---- terms ------------------------------------------------------------------------------------------------------- */
static int parse_sum(parser *p);

static const char a_term[] = "a column, a function, 0, 1, . or \"(\"";

/* A whole number in [1, most]. */
static bool parse_count(parser *p, int most, const char *of, double *value)
{
    if (p->kind != T_NUMBER || p->value < 1 || p->value > most || p->value != floor(p->value)) {
        char shown[QUOTED];
        refuse(p, p->at, "found %s, expected a whole number from 1 to %d: the %s", found(p, shown), most, of);
        return false;
    }
    *value = p->value;
    advance(p);
    return true;
}

/* poly(x, k), poly(x, degree = k, raw = TRUE), from the name on. */
static int parse_poly(parser *p)
{
    size_t at = p->at;
    double degree = 0;
    bool raw = false;
    advance(p);
    advance(p);
    int arg = parse_expression(p);
    if (!p->f->code && p->kind != T_COMMA)
        return expected(p, "an operator, or \",\" and the degree of the polynomial");
    while (!p->f->code && p->kind == T_COMMA) {
        advance(p);
        if (is_word(p, "raw")) {
            if (!parse_switch(p, &raw))
                return NO_NODE;
            continue;
        }
        if (degree > 0)
            return expected(p, "raw = TRUE or FALSE");
        if (is_word(p, "degree")) {
            advance(p);
            if (!take(p, T_EQUALS, "\"=\""))
                return NO_NODE;
        }
        if (!parse_count(p, FORMULA_DEGREE, "degree of the polynomial", &degree))
            return NO_NODE;
    }
    if (!p->f->code && degree < 1)
        return expected(p, "\",\" and the degree of the polynomial");
    if (!take(p, T_CLOSE, "\")\" or \",\""))
        return NO_NODE;
    int n = add_node(p, NODE_POLY, arg, NO_NODE, at);
    if (n != NO_NODE) {
        p->m->node[n].value = degree;
        p->m->node[n].plain = raw;
    }
    return n;
}

/* factor(column), from the name on. */
static int parse_factor(parser *p)
{
    size_t at = p->at;
    advance(p);
    advance(p);
    if ((p->kind != T_NAME && p->kind != T_QUOTED) || is_call(p))
        return expected(p, "a column: factor() takes no expression");
    int column = add_column(p);
    return take(p, T_CLOSE, "\")\": factor() takes one column") ? add_node(p, NODE_FACTOR, column, NO_NODE, at)
                                                                : NO_NODE;
}

static int parse_offset(parser *p)
{
    size_t at = p->at;
    advance(p);
    advance(p);
    int arg = parse_expression(p);
    return take(p, T_CLOSE, "an operator or \")\"") ? add_node(p, NODE_OFFSET, arg, NO_NODE, at) : NO_NODE;
}

static int parse_variable(parser *p)
{
    size_t at = p->at;
    int n;
    if (!is_call(p))
        n = add_column(p);
    else if (is_word(p, "poly"))
        n = parse_poly(p);
    else if (is_word(p, "factor") || is_word(p, "as.factor"))
        n = parse_factor(p);
    else if (is_word(p, "offset"))
        return parse_offset(p);
    else
        n = parse_call(p, true);
    return p->f->code ? NO_NODE : add_node(p, NODE_VARIABLE, n, NO_NODE, at);
}

/* What stands in parentheses: terms, or terms | groups. */
static int parse_inner(parser *p)
{
    size_t at = p->at;
    advance(p);
    int n = parse_sum(p);
    if (!p->f->code && (p->kind == T_BAR || p->kind == T_OR)) {
        advance(p);
        int groups = parse_sum(p);
        n = add_node(p, NODE_GROUP, n, groups, at);
        p->group = p->group == NO_NODE ? n : p->group;
    }
    return take(p, T_CLOSE, "an operator or \")\"") ? n : NO_NODE;
}

static int parse_primary(parser *p)
{
    size_t at = p->at;
    char shown[QUOTED];
    if (p->kind == T_NUMBER && (p->value == 0 || p->value == 1))
        return add_number(p, NODE_INTERCEPT);
    if (p->kind == T_NUMBER)
        return refuse(p, p->at, "found %s, expected %s: to use a number in a term, write I(), as in I(2*x)",
                      found(p, shown), a_term);
    if (p->kind == T_NAME || p->kind == T_QUOTED)
        return parse_variable(p);
    if (p->kind == T_DOT) {
        advance(p);
        return add_node(p, NODE_DOT, NO_NODE, NO_NODE, at);
    }
    if (p->kind != T_OPEN)
        return expected(p, a_term);
    if (!enter(p))
        return NO_NODE;
    int n = parse_inner(p);
    p->depth--;
    return n;
}

/* Is node n a 0 or 1, which is no factor of a term? Refuses it. */
static bool refuse_intercept(parser *p, int n)
{
    if (p->f->code || p->m->node[n].kind != NODE_INTERCEPT)
        return false;
    refuse(p, p->m->node[n].at,
           "found %g, expected a column, a function, . or \"(\": %g can only be added to terms or subtracted",
           p->m->node[n].value, p->m->node[n].value);
    return true;
}

static int join_terms(parser *p, node_kind kind, int left, int right, size_t at)
{
    if (p->f->code || refuse_intercept(p, left) || refuse_intercept(p, right))
        return NO_NODE;
    return add_node(p, kind, left, right, at);
}

static int parse_power(parser *p)
{
    size_t at = p->at;
    double value;
    int n = parse_primary(p);
    if (p->f->code || p->kind != T_POWER)
        return n;
    advance(p);
    if (refuse_intercept(p, n) ||
        !parse_count(p, 1000000, "power of a sum of terms (I() for that of a column)", &value))
        return NO_NODE;
    n = add_node(p, NODE_REPEAT, n, NO_NODE, at);
    if (n != NO_NODE)
        p->m->node[n].value = value;
    return n;
}

/* Operators from the tightest: level 0 is :, 1 is %in%, 2 are * and /. */
static int parse_level(parser *p, int level)
{
    size_t at = p->at;
    int n = level ? parse_level(p, level - 1) : parse_power(p);
    while (!p->f->code) {
        node_kind kind = level == 0 && p->kind == T_COLON   ? NODE_INTERACT
                         : level == 1 && p->kind == T_IN    ? NODE_WITHIN
                         : level == 2 && p->kind == T_TIMES ? NODE_CROSS
                         : level == 2 && p->kind == T_SLASH ? NODE_NEST
                                                            : NODE_NUMBER;
        if (kind == NODE_NUMBER)
            return n;
        advance(p);
        int right = level ? parse_level(p, level - 1) : parse_power(p);
        n = join_terms(p, kind, n, right, at);
    }
    return NO_NODE;
}

/* A term behind a sign, which may have signs of its own: x + -1. These are sums of one term. */
static int parse_addend(parser *p)
{
    size_t at = p->at;
    bool minus = p->kind == T_MINUS;
    if (!minus && p->kind != T_PLUS)
        return parse_level(p, 2);
    if (!enter(p))
        return NO_NODE;
    advance(p);
    int n = parse_addend(p);
    p->depth--;
    if (p->f->code || !minus)
        return n;
    p->m->node[n].minus = true;
    return add_node(p, NODE_SUM, n, NO_NODE, at);
}

/* term + term - term ...: a list, however long. */
static int parse_sum(parser *p)
{
    size_t at = p->at;
    int first = parse_addend(p), last = first, depth = p->f->code ? 0 : depth_of(p->m, first);
    while (!p->f->code && (p->kind == T_PLUS || p->kind == T_MINUS)) {
        bool minus = p->kind == T_MINUS;
        advance(p);
        int n = parse_addend(p);
        if (p->f->code)
            return NO_NODE;
        p->m->node[n].minus = minus;
        p->m->node[last].next = n;
        depth = depth_of(p->m, n) > depth ? depth_of(p->m, n) : depth;
        last = n;
    }
    if (p->f->code || first == last)
        return first;
    int sum = add_node(p, NODE_SUM, first, NO_NODE, at);
    if (sum != NO_NODE)
        p->m->node[sum].depth = depth + 1;
    return sum;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */
static void parse_pair(parser *p)
{
    formula *m = p->m;
    m->response = RESPONSE_PAIR;
    advance(p);
    advance(p);
    m->y = parse_expression(p);
    if (!take(p, T_COMMA, "an operator, or \",\" and the failures: cbind(success, failure)"))
        return;
    m->other = parse_expression(p);
    take(p, T_CLOSE, "an operator or \")\": cbind(success, failure)");
}

static void parse_trials(parser *p)
{
    formula *m = p->m;
    m->response = RESPONSE_TRIALS;
    advance(p);
    if (!is_call(p) || !is_word(p, "trials")) {
        expected(p, is_word(p, "weights") ? "trials(n): weights are an option, --weights" : "trials(n)");
        return;
    }
    advance(p);
    advance(p);
    m->other = parse_expression(p);
    take(p, T_CLOSE, "an operator or \")\"");
}

static void parse_response(parser *p)
{
    formula *m = p->m;
    bool factor = is_call(p) && (is_word(p, "factor") || is_word(p, "as.factor"));
    if (p->kind == T_TILDE || p->kind == T_END)
        expected(p, "a response, as in y ~ x");
    else if (is_call(p) && is_word(p, "cbind"))
        parse_pair(p);
    else {
        m->y = factor ? parse_factor(p) : parse_expression(p);
        if (factor && !p->f->code)
            m->y = m->node[m->y].left; /* labels are labels */
        if (!p->f->code && p->kind == T_BAR)
            parse_trials(p);
    }
}

static void parse_whole(parser *p)
{
    formula *m = p->m;
    advance(p);
    if (!p->f->code)
        parse_response(p);
    if (p->f->code || !take(p, T_TILDE, m->response == RESPONSE_PLAIN ? "an operator, or ~ and terms" : "~ and terms"))
        return;
    m->terms = parse_sum(p);
    if (p->f->code)
        return;
    if (p->kind == T_BAR || p->kind == T_OR)
        expected(p, "an operator or the end: grouping terms stand in parentheses, as in (1|g)");
    else if (p->kind != T_END)
        expected(p, "an operator or the end");
    else if (p->group != NO_NODE)
        refuse(p, m->node[p->group].at,
               "grouping terms as in (1|g) are not supported yet: factor(g) gives each group a coefficient of its own");
}

static int check_text(const char *text, size_t size, failure *f)
{
    if (size > FORMULA_BYTES)
        return fail(f, EX_USAGE, "the formula has %zu bytes: expected at most %d", size, FORMULA_BYTES);
    const char *nul = memchr(text, 0, size);
    if (nul)
        return fail(f, EX_USAGE, "formula, column %zu: found a NUL byte", column_of(text, (size_t)(nul - text)));
    return 0;
}

static int refuse_bytes(const formula *m, failure *f)
{
    size_t at = 0, length = 1;
    while (m->text[at] && (length = utf8_length(m->text + at)))
        at += length;
    if (!m->text[at])
        return 0;
    fail(f, EX_USAGE, "formula, column %zu: found the byte \\x%02X, expected UTF-8", column_of(m->text, at),
         (unsigned char)m->text[at]);
    return f->code;
}

int parse_formula(const char *text, size_t size, formula **out, failure *f)
{
    *out = NULL;
    if (check_text(text, size, f))
        return f->code;
    formula *m = calloc(1, sizeof *m);
    char *copy = malloc(size + 1), *names = malloc(size + 2);
    if (!m || !copy || !names) {
        free(m);
        free(copy);
        free(names);
        return fail(f, EX_SOFTWARE, "no memory for a formula");
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    *m = (formula){.text = copy, .names = names, .y = NO_NODE, .other = NO_NODE, .terms = NO_NODE};
    parser p = {.m = m, .f = f, .size = size, .group = NO_NODE};
    f->code = 0;
    if (!refuse_bytes(m, f))
        parse_whole(&p);
    if (f->code) {
        free_formula(m);
        return f->code;
    }
    *out = m;
    return 0;
}

void free_formula(formula *m)
{
    if (!m)
        return;
    free(m->text);
    free(m->names);
    free(m->node);
    free(m);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
static bool is_plain_name(const char *s)
{
    if (!is_letter(*s) && !(*s == '.' && s[1] && !is_digit(s[1])))
        return false;
    while (is_part(*s))
        s++;
    return !*s;
}

const char *name_number(double value, char out[NUMBER_ROOM])
{
    if (value != floor(value) || fabs(value) >= 1e15)
        return short_number(value, out);
    snprintf(out, NUMBER_ROOM, "%.0f", value == 0 ? 0 : value); /* no -0 */
    return out;
}

/* How tightly an operator binds. */
static int strength(const formula_node *n)
{
    switch (n->kind) {
    case NODE_ADD:
    case NODE_SUBTRACT: return 1;
    case NODE_MULTIPLY:
    case NODE_DIVIDE: return 2;
    case NODE_NEGATE: return 3;
    case NODE_POWER: return 4;
    default: return 5;
    }
}

static void put_node(FILE *s, const formula *m, int n, bool top);

/* In parentheses if it binds less than it must. */
static void put_operand(FILE *s, const formula *m, int n, int least)
{
    bool inner = strength(&m->node[n]) < least;
    if (inner)
        putc('(', s);
    put_node(s, m, n, false);
    if (inner)
        putc(')', s);
}

static void put_call(FILE *s, const formula *m, const formula_node *node, const char *name)
{
    fprintf(s, "%s(", name);
    put_node(s, m, node->left, false);
    if (node->kind == NODE_POLY)
        fprintf(s, ",%g%s", node->value, node->plain ? ",raw=TRUE" : "");
    if (node->kind == NODE_SCALE)
        fprintf(s, "%s%s", node->plain ? ",center=FALSE" : "", node->as_is ? ",scale=FALSE" : "");
    putc(')', s);
}

static void put_node(FILE *s, const formula *m, int n, bool top)
{
    static const char sign[] = {
        [NODE_ADD] = '+', [NODE_SUBTRACT] = '-', [NODE_MULTIPLY] = '*', [NODE_DIVIDE] = '/', [NODE_POWER] = '^'};
    const formula_node *node = &m->node[n];
    char number[NUMBER_ROOM];
    int own = strength(node);
    switch (node->kind) {
    case NODE_NUMBER: fputs(name_number(node->value, number), s); return;
    case NODE_COLUMN: fprintf(s, top || is_plain_name(node->name) ? "%s" : "`%s`", node->name); return;
    case NODE_NEGATE:
        putc('-', s);
        put_operand(s, m, node->left, own);
        return;
    case NODE_POWER:
        put_operand(s, m, node->left, own + 1);
        putc('^', s);
        put_operand(s, m, node->right, own - 1);
        return;
    case NODE_FUNCTION: put_call(s, m, node, node->name); return;
    case NODE_SCALE: put_call(s, m, node, "scale"); return;
    case NODE_POLY: put_call(s, m, node, "poly"); return;
    case NODE_FACTOR: put_call(s, m, node, "factor"); return;
    case NODE_OFFSET: put_call(s, m, node, "offset"); return;
    case NODE_VARIABLE: put_node(s, m, node->left, top); return;
    case NODE_ADD:
    case NODE_SUBTRACT:
    case NODE_MULTIPLY:
    case NODE_DIVIDE:
        put_operand(s, m, node->left, own);
        putc(sign[node->kind], s);
        put_operand(s, m, node->right, own + 1);
        return;
    default: return; /* terms have names of their own */
    }
}

char *node_text(const formula *m, int n)
{
    char *text = NULL;
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    put_node(s, m, n, true);
    if (!fclose(s))
        return text;
    free(text);
    return NULL;
}
