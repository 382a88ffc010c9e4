/* terms.c - a tree to a list of terms. A term is a set of variables, a list of terms a set in the order of appearance:
 *     a + b   both          a:b   every term of a joined with every one of b          a*b   a + b + a:b
 *     a - b   a without b   a/b   a, and b within a                                   a^k   a:a: ... :a, k times
 *     a %in% b   each term of a joined with all variables of b
 * Joining keeps each variable once, so that a:a is a. */
#include "terms.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const size_t most_work = 20000000; /* terms that are made, looked at or moved: well below a second */

static uint64_t hash_bytes(const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ b[i]) * 1099511628211u;
    return h ^ h >> 32;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */
static void put_text(text_index *x, size_t i)
{
    size_t at = (size_t)hash_bytes(x->text[i], strlen(x->text[i])) & (x->slots - 1);
    while (x->slot[at])
        at = (at + 1) & (x->slots - 1);
    x->slot[at] = (uint32_t)i + 1;
}

static bool grow_index(text_index *x)
{
    size_t room = x->room ? 2 * x->room : 64;
    const char **text = realloc(x->text, room * sizeof *text);
    if (text)
        x->text = text;
    uint32_t *slot = text ? calloc(2 * room, sizeof *slot) : NULL;
    if (!slot)
        return false;
    free(x->slot);
    x->slot = slot;
    x->room = room;
    x->slots = 2 * room;
    for (size_t i = 0; i < x->n; i++)
        put_text(x, i);
    return true;
}

size_t index_text(text_index *x, const char *text)
{
    if (x->slots) {
        size_t at = (size_t)hash_bytes(text, strlen(text)) & (x->slots - 1);
        for (; x->slot[at]; at = (at + 1) & (x->slots - 1))
            if (!strcmp(x->text[x->slot[at] - 1], text))
                return x->slot[at] - 1;
    }
    if (x->n == x->room && !grow_index(x))
        return SIZE_MAX;
    x->text[x->n] = text;
    put_text(x, x->n);
    return x->n++;
}

void free_index(text_index *x)
{
    free(x->text);
    free(x->slot);
    *x = (text_index){0};
}

/* ---- lists of terms ---------------------------------------------------------------------------------------------- */
typedef struct {
    size_t n, room, slots;
    formula_term *t; /* [n] all different */
    uint32_t *slot;  /* [slots] index + 1, or 0 */
} list;

static void free_list(list *l)
{
    free(l->t);
    free(l->slot);
    *l = (list){0};
}

static bool equal(const formula_term *a, const formula_term *b)
{
    return a->order == b->order && !memcmp(a->variable, b->variable, a->order * sizeof *a->variable);
}

/* Where a term is in the table, or where it would be. */
static size_t find_slot(const list *l, const formula_term *t)
{
    size_t at = (size_t)hash_bytes(t->variable, t->order * sizeof *t->variable) & (l->slots - 1);
    while (l->slot[at] && !equal(&l->t[l->slot[at] - 1], t))
        at = (at + 1) & (l->slots - 1);
    return at;
}

static bool has_term(const list *l, const formula_term *t)
{
    return l->slots && l->slot[find_slot(l, t)];
}

static bool grow_list(list *l)
{
    size_t room = l->room ? 2 * l->room : 8;
    formula_term *t = realloc(l->t, room * sizeof *t);
    if (t)
        l->t = t;
    uint32_t *slot = t ? calloc(2 * room, sizeof *slot) : NULL;
    if (!slot)
        return false;
    free(l->slot);
    l->slot = slot;
    l->room = room;
    l->slots = 2 * room;
    for (size_t i = 0; i < l->n; i++)
        l->slot[find_slot(l, &l->t[i])] = (uint32_t)i + 1;
    return true;
}

/* What is known while the tree is being expanded. */
typedef struct {
    formula *m;
    failure *f;
    formula_terms *out;
    text_index names; /* of the variables */
    size_t *of_node;  /* [nodes] the variable that a node is */
    size_t dots, first_dot;
    size_t work;
    size_t offset_room;
} expander;

static bool work(expander *e, int n, size_t amount)
{
    e->work += amount;
    if (e->f->code)
        return false;
    if (e->work > most_work)
        refuse_node(e->m, n, EX_USAGE, e->f, "this makes too many terms: expected at most %d", MOST_TERMS);
    return !e->f->code;
}

static void add_term(expander *e, int n, list *l, const formula_term *t)
{
    if (!work(e, n, 1) || has_term(l, t))
        return;
    if (l->n == MOST_TERMS)
        refuse_node(e->m, n, EX_USAGE, e->f, "this makes more than %d terms", MOST_TERMS);
    else if (l->n == l->room && !grow_list(l))
        fail(e->f, EX_SOFTWARE, "no memory for the terms of a formula");
    else {
        l->slot[find_slot(l, t)] = (uint32_t)l->n + 1;
        l->t[l->n++] = *t;
    }
}

static void add_all(expander *e, int n, list *to, const list *from)
{
    for (size_t i = 0; i < from->n && !e->f->code; i++)
        add_term(e, n, to, &from->t[i]);
}

static void remove_all(expander *e, int n, list *from, const list *what)
{
    size_t kept = 0;
    if (!work(e, n, from->n + 2 * from->slots))
        return;
    for (size_t i = 0; i < from->n; i++)
        if (!has_term(what, &from->t[i]))
            from->t[kept++] = from->t[i];
    if (kept == from->n)
        return;
    from->n = kept;
    memset(from->slot, 0, from->slots * sizeof *from->slot);
    for (size_t i = 0; i < kept; i++)
        from->slot[find_slot(from, &from->t[i])] = (uint32_t)i + 1;
}

/* The variables of both. */
static formula_term join(expander *e, int n, const formula_term *a, const formula_term *b)
{
    formula_term t = {0};
    for (size_t i = 0, k = 0; i < a->order || k < b->order;) {
        bool left = k == b->order || (i < a->order && a->variable[i] <= b->variable[k]);
        uint16_t v = left ? a->variable[i] : b->variable[k];
        if (t.order == MOST_FACTORS) {
            if (!e->f->code)
                refuse_node(e->m, n, EX_USAGE, e->f, "this makes an interaction of more than %d variables",
                            MOST_FACTORS);
            break;
        }
        t.variable[t.order++] = v;
        i += i < a->order && a->variable[i] == v;
        k += k < b->order && b->variable[k] == v;
    }
    return t;
}

static void join_all(expander *e, int n, list *to, const list *a, const list *b)
{
    for (size_t i = 0; i < a->n && !e->f->code; i++)
        for (size_t k = 0; k < b->n && !e->f->code; k++) {
            formula_term t = join(e, n, &a->t[i], &b->t[k]);
            add_term(e, n, to, &t);
        }
}

/* One term with all variables of a list. */
static formula_term merge(expander *e, int n, const list *l)
{
    formula_term t = {0};
    for (size_t i = 0; i < l->n && !e->f->code; i++)
        t = join(e, n, &t, &l->t[i]);
    return t;
}

static void join_each(expander *e, int n, list *to, const list *l, const formula_term *with)
{
    for (size_t i = 0; i < l->n && !e->f->code; i++) {
        formula_term t = join(e, n, &l->t[i], with);
        add_term(e, n, to, &t);
    }
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */
static void expand(expander *e, int n, bool added, bool plain, list *to);

static void expand_variable(expander *e, int n, size_t variable, list *to)
{
    formula_term t = {.order = 1, .variable = {(uint16_t)variable}};
    add_term(e, n, to, &t);
}

static void expand_offset(expander *e, int n, bool allowed)
{
    formula_terms *out = e->out;
    if (!allowed) {
        refuse_node(e->m, n, EX_USAGE, e->f, "offset() can only be added to other terms");
        return;
    }
    if (out->offsets == e->offset_room) {
        size_t room = e->offset_room ? 2 * e->offset_room : 4;
        int *offset = realloc(out->offset, room * sizeof *offset);
        if (!offset) {
            fail(e->f, EX_SOFTWARE, "no memory for the terms of a formula");
            return;
        }
        out->offset = offset;
        e->offset_room = room;
    }
    out->offset[out->offsets++] = n;
}

static void expand_sum(expander *e, int n, bool added, bool plain, list *to)
{
    for (int child = e->m->node[n].left; child != NO_NODE && !e->f->code; child = e->m->node[child].next) {
        list part = {0};
        bool minus = e->m->node[child].minus;
        expand(e, child, added != minus, plain && !minus, &part);
        if (minus)
            remove_all(e, child, to, &part);
        else
            add_all(e, child, to, &part);
        free_list(&part);
    }
}

static void expand_power(expander *e, int n, const list *a, list *to)
{
    double power = e->m->node[n].value;
    add_all(e, n, to, a);
    for (double k = 1; k < power && !e->f->code; k++) {
        list next = {0};
        join_all(e, n, &next, a, to);
        bool ready = next.n == to->n;
        for (size_t i = 0; ready && i < to->n; i++)
            ready = equal(&next.t[i], &to->t[i]);
        free_list(to);
        *to = next;
        if (ready)
            break;
    }
}

/* An operator between a and b, or a power of a. */
static void combine(expander *e, int n, const list *a, const list *b, list *to)
{
    formula_term all;
    switch (e->m->node[n].kind) {
    case NODE_REPEAT: expand_power(e, n, a, to); return;
    case NODE_INTERACT: join_all(e, n, to, a, b); return;
    case NODE_WITHIN:
        all = merge(e, n, b);
        join_each(e, n, to, a, &all);
        return;
    case NODE_NEST:
        all = merge(e, n, a);
        add_all(e, n, to, a);
        join_each(e, n, to, b, &all);
        return;
    default: /* NODE_CROSS */
        add_all(e, n, to, a);
        add_all(e, n, to, b);
        join_all(e, n, to, a, b);
    }
}

/* added: an even number of minus signs stand before it. plain: nothing but plus signs do. */
static void expand(expander *e, int n, bool added, bool plain, list *to)
{
    const formula_node *node = &e->m->node[n];
    list a = {0}, b = {0};
    if (e->f->code)
        return;
    switch (node->kind) {
    case NODE_INTERCEPT: e->out->intercept = (node->value == 1) == added; return;
    case NODE_VARIABLE: expand_variable(e, n, e->of_node[n], to); return;
    case NODE_DOT:
        for (size_t i = 0; i < e->dots && !e->f->code; i++)
            expand_variable(e, n, e->of_node[e->first_dot + i], to);
        return;
    case NODE_SUM: expand_sum(e, n, added, plain, to); return;
    case NODE_OFFSET: expand_offset(e, n, plain); return;
    default: break;
    }
    expand(e, node->left, added, false, &a);
    if (node->right != NO_NODE)
        expand(e, node->right, added, false, &b);
    bool right = node->right != NO_NODE && !b.n;
    if (!e->f->code && (!a.n || right))
        refuse_node(e->m, right ? node->right : node->left, EX_USAGE, e->f,
                    "these terms cancel, so there is nothing to combine with other terms");
    if (!e->f->code)
        combine(e, n, &a, &b, to);
    free_list(&a);
    free_list(&b);
}

/* ---- variables --------------------------------------------------------------------------------------------------- */
static bool no_memory(expander *e)
{
    fail(e->f, EX_SOFTWARE, "no memory for the terms of a formula");
    return false;
}

/* Nodes for the columns that `.` stands for. */
static bool add_dots(expander *e, const char *const *dot)
{
    formula *m = e->m;
    e->first_dot = m->nodes;
    formula_node *node = realloc(m->node, (m->nodes + e->dots) * sizeof *node);
    if (!node)
        return no_memory(e);
    m->node = node;
    size_t at = 0;
    while (e->dots && at + 1 < m->nodes && node[at].kind != NODE_DOT)
        at++;
    at = e->dots ? node[at].at : 0;
    for (size_t i = 0; i < e->dots; i++)
        node[m->nodes++] = (formula_node){.kind = NODE_COLUMN,
                                          .left = NO_NODE,
                                          .right = NO_NODE,
                                          .next = NO_NODE,
                                          .depth = 1,
                                          .name = dot[i],
                                          .at = at};
    return true;
}

/* The variable that node `is` has the expression of: a new one, or one that was there. */
static bool name_variable(expander *e, int expression, size_t node)
{
    formula_terms *out = e->out;
    char *text = node_text(e->m, expression);
    size_t i = text ? index_text(&e->names, text) : SIZE_MAX;
    if (i == SIZE_MAX) {
        free(text);
        return no_memory(e);
    }
    e->of_node[node] = i;
    if (i < out->variables) {
        free(text);
        return true;
    }
    out->variable[i] = expression;
    out->text[out->variables++] = text;
    return true;
}

/* Variables in the order of the text: nodes are made in this order, too, but for those of `.`. */
static bool find_variables(expander *e)
{
    const formula *m = e->m;
    formula_terms *out = e->out;
    e->of_node = calloc(m->nodes + 1, sizeof *e->of_node);
    out->variable = calloc(m->nodes + 1, sizeof *out->variable);
    out->text = calloc(m->nodes + 1, sizeof *out->text);
    if (!e->of_node || !out->variable || !out->text)
        return no_memory(e);
    bool dotted = false;
    for (size_t n = 0; n < e->first_dot; n++) {
        if (m->node[n].kind == NODE_VARIABLE && !name_variable(e, m->node[n].left, n))
            return false;
        for (size_t i = 0; m->node[n].kind == NODE_DOT && !dotted && i < e->dots; i++)
            if (!name_variable(e, (int)(e->first_dot + i), e->first_dot + i))
                return false;
        dotted = dotted || m->node[n].kind == NODE_DOT;
    }
    return true;
}

/* By degree, and in the order of appearance among equals. */
static bool sort_terms(expander *e, const list *all)
{
    formula_terms *out = e->out;
    out->term = calloc(all->n + 1, sizeof *out->term);
    if (!out->term)
        return no_memory(e);
    for (int order = 1; order <= MOST_FACTORS; order++)
        for (size_t i = 0; i < all->n; i++)
            if (all->t[i].order == order)
                out->term[out->terms++] = all->t[i];
    return true;
}

int expand_formula(formula *m, size_t dots, const char *const *dot, formula_terms *out, failure *f)
{
    expander e = {.m = m, .f = f, .out = out, .dots = dots};
    list all = {0};
    *out = (formula_terms){.intercept = true};
    f->code = 0;
    if (dots > MOST_TERMS)
        fail(f, EX_USAGE, "the formula has more than %d terms: . stands for %zu columns", MOST_TERMS, dots);
    if (!f->code && add_dots(&e, dot) && find_variables(&e)) {
        expand(&e, m->terms, true, true, &all);
        if (!f->code)
            sort_terms(&e, &all);
    }
    free_list(&all);
    free_index(&e.names);
    free(e.of_node);
    if (f->code)
        free_terms(out);
    return f->code;
}

void free_terms(formula_terms *t)
{
    for (size_t i = 0; i < t->variables; i++)
        free(t->text[i]);
    free(t->text);
    free(t->variable);
    free(t->term);
    free(t->offset);
    *t = (formula_terms){0};
}
