/* terms.h - the terms that a formula stands for, as R's terms() makes them: sums, products and powers multiplied out,
 * each term once, in the order of their degrees. No table is needed, but for the columns that `.` stands for. */
#ifndef WV_TERMS_H
#define WV_TERMS_H
#include "formula.h"
#include <stdint.h>

enum {
    MOST_TERMS = 10000, /* of a formula */
    MOST_FACTORS = 16,  /* variables of a term */
};

typedef struct {
    uint16_t order;                  /* how many variables */
    uint16_t variable[MOST_FACTORS]; /* [order] rising */
} formula_term;

typedef struct {
    size_t variables; /* in the order of the formula, those of terms that were removed too */
    int *variable;    /* [variables] node: a column, function, scale, poly or factor */
    char **text;      /* [variables] its name */
    size_t terms;
    formula_term *term; /* [terms] */
    bool intercept;
    size_t offsets;
    int *offset; /* [offsets] nodes */
} formula_terms;

/* Adds nodes to the formula for what `.` stands for: dot[dots], which must outlive it. 0, or an exit code with *f
 * filled and *out empty. */
int expand_formula(formula *m, size_t dots, const char *const *dot, formula_terms *out, failure *f);
void free_terms(formula_terms *t); /* accepts an all-zero struct */

/* Indices by name: a table of texts, each once. */
typedef struct {
    size_t n, room, slots;
    const char **text; /* [n] */
    uint32_t *slot;    /* [slots] index + 1, or 0 */
} text_index;
/* The index of a text, which is added if it is new and must outlive the table; SIZE_MAX: no memory. */
size_t index_text(text_index *x, const char *text);
void free_index(text_index *x);
#endif
