/* formula.h - R's formula language, y ~ x1 + x2*x3 + offset(log(n)): text to a tree. docs/formula.md has the grammar.
 * A formula knows no table yet; design.h makes a design matrix of both. */
#ifndef WV_FORMULA_H
#define WV_FORMULA_H
#include "failure.h"
#include "text.h"
#include <stdbool.h>
#include <stddef.h>

/* Limits, so that no text takes much memory, time or stack. */
enum {
    FORMULA_BYTES = 65536, /* of the text */
    FORMULA_NODES = 32768, /* of the tree */
    FORMULA_DEPTH = 60,    /* of parentheses, functions, signs and powers inside of each other */
    FORMULA_CHAIN = 100,   /* of operators, as in I(a*b*c): depth of the tree. Sums of terms have no such limit */
    FORMULA_DEGREE = 20,   /* of poly() */
};

typedef enum {
    /* numbers and columns, and what can be computed from them */
    NODE_NUMBER, /* value */
    NODE_COLUMN, /* name */
    NODE_ADD,    /* a + b, and so on: left, right */
    NODE_SUBTRACT,
    NODE_MULTIPLY,
    NODE_DIVIDE,
    NODE_POWER,
    NODE_NEGATE,   /* left */
    NODE_FUNCTION, /* of left: log, exp ...; `function` says which */
    NODE_SCALE,    /* (left - mean) / sd; plain: not centred; as_is: not divided */
    /* what only a variable of a term can be */
    NODE_POLY,   /* of left; value: its degree; plain: powers that are not orthogonal */
    NODE_FACTOR, /* of the column left */
    NODE_OFFSET, /* of left */
    /* terms */
    NODE_VARIABLE,  /* left is one of those above */
    NODE_DOT,       /* all columns that the response does not name */
    NODE_INTERCEPT, /* value 1 or 0 */
    NODE_SUM,       /* left, and those after it (next); each is added or removed (minus) */
    NODE_CROSS,     /* a*b */
    NODE_INTERACT,  /* a:b */
    NODE_NEST,      /* a/b */
    NODE_WITHIN,    /* a %in% b */
    NODE_REPEAT,    /* a^value */
    NODE_GROUP,     /* (a|b) */
} node_kind;

enum { NO_NODE = -1 };

typedef struct {
    node_kind kind;
    int left, right, next; /* indices of nodes, or NO_NODE */
    double value;
    const char *name; /* of a column, or of a function; in formula.names */
    size_t function;  /* index in the table of functions */
    bool minus, plain, as_is;
    int depth;      /* of the tree below it */
    size_t at, end; /* bytes of the text that it comes from */
} formula_node;

typedef enum {
    RESPONSE_PLAIN,  /* y, or an expression */
    RESPONSE_PAIR,   /* cbind(success, failure) */
    RESPONSE_TRIALS, /* y | trials(n) */
} response_kind;

typedef struct {
    char *text;  /* as given */
    char *names; /* those of the nodes, each with a NUL */
    size_t nodes;
    formula_node *node; /* [nodes] */
    response_kind response;
    int y, other; /* expressions of the response; other: failures or trials */
    int terms;    /* right of ~; NO_NODE: nothing */
} formula;

/* Parses text[size]. 0, or EX_USAGE with *f filled: what was found and expected, the text, and a ^ under the place. */
int parse_formula(const char *text, size_t size, formula **out, failure *f);
void free_formula(formula *); /* accepts NULL */

/* Says that something is wrong at node n of the formula, as parse_formula does. */
__attribute__((format(printf, 5, 6))) int refuse_node(const formula *m, int n, int code, failure *f, const char *format,
                                                      ...);

/* The text of a node as it appears in names: no blanks, no parentheses but needed ones, back-quotes only inside of
 * functions. To be freed; NULL: no memory. */
char *node_text(const formula *m, int n);

/* A number as it appears in names: whole ones below 1e15 without an exponent. Returns out. */
const char *name_number(double value, char out[NUMBER_ROOM]);

/* The value of function `index` (formula_node.function). */
double call_function(size_t index, double x);
#endif
