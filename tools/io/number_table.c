/* number_table.c - tables of a run, through libcsv. */
#include "number_table.h"
#include "text.h"
#include <csv.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

typedef struct {
    const char *path;
    number_table *t;
    failure *f;
    int code;
    size_t fields, field_room, size, room, in_row, line;
} reader;

static void no_memory(reader *r)
{
    r->code = fail(r->f, EX_SOFTWARE, "%s: not enough memory for a table of this size", r->path);
}

/* Doubles an array of items of that size when it is full. */
static bool make_room(void **array, size_t *room, size_t needed, size_t item)
{
    size_t wanted = *room ? *room : 1024;
    if (needed <= *room)
        return true;
    while (wanted < needed)
        wanted *= 2;
    void *larger = wanted > SIZE_MAX / 2 / item ? NULL : realloc(*array, wanted * item);
    if (!larger)
        return false;
    *array = larger;
    *room = wanted;
    return true;
}

static void add_field(void *data, size_t length, void *self)
{
    reader *r = self;
    void *fields = r->t->field, *text = r->t->text;
    if (r->code)
        return;
    bool made = make_room(&fields, &r->field_room, r->fields + 1, sizeof *r->t->field) &&
                make_room(&text, &r->room, r->size + length + 1, 1);
    r->t->field = fields;
    r->t->text = text;
    if (!made) {
        no_memory(r);
        return;
    }
    r->t->field[r->fields++] = r->size;
    memcpy(r->t->text + r->size, data, length);
    r->t->text[r->size + length] = '\0';
    r->size += length + 1;
    r->in_row++;
}

static void end_row(int character, void *self)
{
    (void)character;
    reader *r = self;
    if (r->code)
        return;
    if (!r->t->columns)
        r->t->columns = r->in_row;
    else if (r->in_row != r->t->columns)
        r->code = fail(r->f, EX_DATAERR, "%s:%zu: found %zu fields, expected %zu as in the header", r->path, r->line,
                       r->in_row, r->t->columns);
    else
        r->t->rows++;
    r->in_row = 0;
}

static void parse(reader *r, const char *text, size_t size)
{
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI)) {
        no_memory(r);
        return;
    }
    for (size_t at = 0; at < size && !r->code;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (text + at)) + 1 : size - at;
        r->line++;
        if (!(text[at] == '#' && !r->in_row) &&
            csv_parse(&parser, text + at, length, add_field, end_row, r) != length && !r->code)
            r->code = fail(r->f, EX_DATAERR, "%s:%zu: invalid CSV: %s", r->path, r->line,
                           csv_strerror(csv_error(&parser)));
        at += length;
    }
    if (!r->code && csv_fini(&parser, add_field, end_row, r) && !r->code)
        r->code = fail(r->f, EX_DATAERR, "%s:%zu: a quoted field has no closing quote", r->path, r->line);
    csv_free(&parser);
    if (!r->code && !r->t->columns)
        r->code = fail(r->f, EX_DATAERR, "%s: the header with column names is missing", r->path);
}

int read_table(const char *path, number_table *t, failure *f)
{
    char *text;
    size_t size;
    *t = (number_table){0};
    reader r = {.path = path, .t = t, .f = f};
    if (read_text(path, &text, &size, f))
        return f->code;
    parse(&r, text, size);
    free(text);
    if (r.code)
        free_number_table(t);
    return r.code;
}

void free_number_table(number_table *t)
{
    free(t->field);
    free(t->text);
    *t = (number_table){0};
}

const char *table_name(const number_table *t, size_t column)
{
    return t->text + t->field[column];
}

const char *table_text(const number_table *t, size_t row, size_t column)
{
    return t->text + t->field[(row + 1) * t->columns + column];
}

double table_number(const number_table *t, size_t row, size_t column)
{
    const char *text = table_text(t, row, column);
    const char *end;
    double value = convert_number(text, &end); /* NaN and Inf too */
    return end == text || *end ? NAN : value;
}

size_t table_column(const number_table *t, const char *name)
{
    size_t c = 0;
    while (c < t->columns && strcmp(table_name(t, c), name))
        c++;
    return c;
}
