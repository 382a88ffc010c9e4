/* table_notes.c - tables that are in order, but hardly what was meant. */
#include "table_notes.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Does a target have no values but 0 and 1? */
static bool is_binary(row_shares *shares, size_t rows, const double *y)
{
    bool binary = true;
    failure ignored; /* what comes after it fails, too */
    for (size_t i = 0; i < rows && binary; i++)
        binary = y[i] == 0 || y[i] == 1;
    return !share_all(shares, &binary, &ignored) && binary;
}

static char *finish(FILE *s, char **text)
{
    if (s && !fclose(s) && *text && **text)
        return *text;
    free(*text);
    return NULL;
}

static void put_column_hints(FILE *s, const data_table *t)
{
    double number;
    char shown[QUOTED];
    const char *odd = NULL;
    if (t->dropped)
        fprintf(s, "dropped %zu of %zu rows with missing values\n", t->dropped, t->dropped + t->all_rows);
    for (size_t c = 0; c < t->csv.columns; c++) {
        const data_column *column = &t->column[c];
        if (!odd && !read_number(column->name, &number) && number != floor(number))
            odd = column->name;
        if (is_feature(column) && column->mixed)
            fprintf(
                s,
                "column %s is treated as categorical, with %zu levels: some of its values are numbers, but not the one "
                "in line %zu\n",
                column->name, column->levels, column->first_line);
        if (is_feature(column) && column->counter && column->named)
            fprintf(s, "column %s seems only to number the rows: leave it out if it says nothing else\n", column->name);
        else if (is_feature(column) && column->counter)
            fprintf(s, "column %s seems only to number the rows: --ignore %s leaves it out\n", column->name,
                    column->name);
    }
    if (odd)
        fprintf(s, "a column is called %s: is the first line of the file a row, and the header missing?\n",
                quote(odd, shown));
}

static void put_level_warnings(FILE *s, const data_table *t)
{
    char first[QUOTED], second[QUOTED];
    for (size_t c = 0; c < t->csv.columns; c++) {
        const data_column *column = &t->column[c];
        for (size_t i = 0; is_feature(column) && i < column->levels; i++)
            for (size_t k = 0; k < i; k++)
                if (!strcasecmp(column->level[i], column->level[k])) {
                    fprintf(s,
                            "the levels %s and %s of column %s differ only in case: make them one if they mean the "
                            "same\n",
                            quote(column->level[k], first), quote(column->level[i], second), column->name);
                    break;
                }
    }
}

char *glm_hints(const glm_data *g)
{
    char *text = NULL;
    size_t size;
    bool binary = is_binary(g->table.csv.shares, g->rows.rows, g->rows.y), trials = g->rows.trials != NULL;
    FILE *s = open_memstream(&text, &size);
    if (s)
        put_column_hints(s, &g->table);
    if (s && binary && !trials && g->likelihood != WV_BERNOULLI)
        fprintf(s, "the response has only two values, and the likelihood is %s: did you mean --likelihood bernoulli?\n",
                g->family);
    return finish(s, &text);
}

char *level_warnings(const data_table *t)
{
    char *text = NULL;
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (s)
        put_level_warnings(s, t);
    return finish(s, &text);
}

char *table_hints(const regression_data *d)
{
    char *text = NULL;
    size_t size;
    bool binary = is_binary(d->source.csv.shares, d->rows, d->y);
    FILE *s = open_memstream(&text, &size);
    if (s && d->moved)
        fprintf(s, "the target is %s, because the last column is ignored: --target names another one\n", d->target);
    if (s)
        put_column_hints(s, &d->source);
    if (s && !d->labels && binary)
        fprintf(s, "the target %s has only the values 0 and 1: did you mean the model logistic?\n", d->target);
    return finish(s, &text);
}

char *table_warnings(const regression_data *d, const bool *constant)
{
    char *text = NULL, zero[QUOTED], one[QUOTED];
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (s && d->labels && !strcasecmp(d->label[0], d->label[1]))
        fprintf(s, "the labels %s and %s of the target %s differ only in case: make them one if they mean the same\n",
                quote(d->label[0], zero), quote(d->label[1], one), d->target);
    if (s)
        put_level_warnings(s, &d->source);
    for (size_t c = 0; s && c < d->columns; c++)
        if (constant[c])
            fprintf(s, "column %s is constant: its weight only reflects the prior; --ignore %s leaves it out\n",
                    d->names[c], d->names[c]);
    return finish(s, &text);
}

char *next_line(char **lines)
{
    char *line = *lines, *end = line ? strchr(line, '\n') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    *lines = end + 1;
    return line;
}
