/* csv_file.c - CSV through libcsv in strict mode. libcsv does not know about lines: it is fed one line at a
 * time, so that what it reports can be placed.
 * Fields replace the file in memory: a field and its NUL never take more bytes than the file had for it and what
 * ended it, so they are written behind what is being read. */
#include "csv_file.h"
#include "text.h"
#include <csv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#define WITHOUT_ROW_NAMES                                                                                              \
    "if the first field is a row name, write the file without row names (R: row.names = FALSE, pandas: index = False)"

/* What is known while the file is being read. */
typedef struct {
    csv_file *csv;
    failure *f;
    int code;         /* nonzero: it has failed */
    size_t line;      /* the line being fed */
    size_t row_line;  /* where the row being read began */
    bool row_ended;   /* in the line being fed */
    bool header;      /* has been read */
    size_t fields;    /* of the row being read */
    size_t row_start; /* in text */
    size_t size;      /* of text */
    size_t row_room;  /* of start and line */
    size_t head;      /* bytes of the header, where its rows are a share; 0: they follow it */
    size_t head_line; /* the line that then follows it */
    bool later;       /* which is not the next one */
} reader;

static void no_memory(reader *r)
{
    r->code = fail(r->f, EX_SOFTWARE, "%s:%zu: not enough memory for a file of this size", r->csv->path, r->line);
}

static void add_field(void *field, size_t length, void *self)
{
    reader *r = self;
    if (r->code)
        return;
    if (length)
        memcpy(r->csv->text + r->size, field, length);
    r->csv->text[r->size + length] = '\0';
    r->size += length + 1;
    r->fields++;
}

static int add_row_room(reader *r)
{
    size_t room = r->row_room ? 2 * r->row_room : 1024;
    size_t *start = room <= SIZE_MAX / sizeof *start ? realloc(r->csv->start, room * sizeof *start) : NULL;
    if (start)
        r->csv->start = start;
    size_t *line = start ? realloc(r->csv->line, room * sizeof *line) : NULL;
    if (!line)
        return -1;
    r->csv->line = line;
    r->row_room = room;
    return 0;
}

/* Why a row may have another number of fields than the header; "": nobody knows. */
static const char *explain_row(const reader *r)
{
    const csv_file *csv = r->csv;
    if (csv->text[r->row_start] == '#')
        return ": comment lines are no part of a table, leave them out";
    if (r->fields != csv->columns + 1 || r->size < 2)
        return "";
    if (!csv->text[r->size - 2]) /* the last field is empty */
        return ": if lines end with a delimiter, leave it out, or write one after the header, too, and a name";
    return !csv->rows && !r->later ? ": " WITHOUT_ROW_NAMES : "";
}

static void add_row(reader *r)
{
    csv_file *csv = r->csv;
    if (r->fields != csv->columns) {
        r->code = fail(r->f, EX_DATAERR, "%s:%zu: found %zu field%s, expected %zu as in the header%s", csv->path,
                       r->row_line, r->fields, r->fields == 1 ? "" : "s", csv->columns, explain_row(r));
        return;
    }
    if (csv->rows == r->row_room && add_row_room(r)) {
        no_memory(r);
        return;
    }
    csv->start[csv->rows] = r->row_start;
    csv->line[csv->rows++] = r->row_line;
}

static void end_row(int character, void *self)
{
    (void)character;
    reader *r = self;
    if (r->code)
        return;
    if (!r->header)
        r->csv->columns = r->fields;
    else
        add_row(r);
    r->header = true;
    r->row_ended = true;
    r->fields = 0;
    r->row_start = r->size;
}

/* Bytes of the first line of text[size], with its end. */
static size_t measure_line(const char *text, size_t size)
{
    size_t n = strcspn(text, "\r\n");
    if (n < size)
        n += text[n] == '\r' && text[n + 1] == '\n' ? 2 : 1;
    return n;
}

static void refuse_syntax(reader *r, struct csv_parser *parser, bool at_end)
{
    if (csv_error(parser) != CSV_EPARSE)
        no_memory(r);
    else if (at_end)
        r->code = fail(r->f, EX_DATAERR, "%s:%zu: a quoted field has no closing quote", r->csv->path, r->row_line);
    else
        r->code = fail(
            r->f, EX_DATAERR,
            "%s:%zu: field %zu: found a quote inside a field: put the field in quotes and double the quotes inside it",
            r->csv->path, r->line, r->fields + 1);
}

/* text: the file, size bytes and a NUL. */
static void parse(reader *r, char delimiter, char *text, size_t size)
{
    struct csv_parser parser;
    bool row_open = false;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI)) {
        no_memory(r);
        return;
    }
    csv_set_blk_size(&parser, 1 << 16);
    csv_set_delim(&parser, (unsigned char)delimiter);
    for (size_t at = 0; at < size && !r->code; r->line++) {
        size_t length = measure_line(text + at, size - at);
        bool blank = strspn(text + at, " \t\r\n") >= length;
        if (r->head && at == r->head) {
            r->later = r->line != r->head_line;
            r->line = r->head_line;
        }
        if (!row_open)
            r->row_line = r->line;
        r->row_ended = false;
        if (csv_parse(&parser, text + at, length, add_field, end_row, r) != length && !r->code)
            refuse_syntax(r, &parser, false);
        row_open = !r->row_ended && (row_open || !blank);
        at += length;
    }
    if (!r->code && csv_fini(&parser, add_field, end_row, r) && !r->code)
        refuse_syntax(r, &parser, true);
    csv_free(&parser);
}

/* How often a line has a character outside quotes. */
static size_t count_outside(const char *line, char wanted)
{
    size_t n = 0;
    bool quoted = false;
    for (; *line && !strchr("\r\n", *line); line++) {
        quoted ^= *line == '"';
        n += !quoted && *line == wanted;
    }
    return n;
}

/* The one of , ; tab that the header has most of. */
static char find_delimiter(const char *text)
{
    static const char delimiters[] = {',', ';', '\t'};
    char best = ',';
    text += strspn(text, " \r\n");
    for (size_t i = 1; i < sizeof delimiters; i++)
        if (count_outside(text, delimiters[i]) > count_outside(text, best))
            best = delimiters[i];
    return best;
}

static const char *name_delimiter(char delimiter)
{
    return delimiter == ',' ? "commas" : delimiter == ';' ? "semicolons" : "tabs";
}

/* Files that are no tables, as their first lines tell. */
static int check_kind(const char *path, const char *text, char delimiter, failure *f)
{
    static const struct {
        char separator;
        const char *name;
    } others[] = {{'|', "vertical bars"}, {' ', "blanks"}};
    text += strspn(text, " \t\r\n");
    const char *second = text + strcspn(text, "\r\n");
    second += strspn(second, "\r\n");
    if (!strncasecmp(text, "sep=", 4) && strcspn(text, "\r\n") <= 5)
        return fail(f, EX_DATAERR, "%s:1: found %.5s, which is a note for one program only: leave out this line", path,
                    text);
    if (*text == '#' &&
        (!count_outside(text, delimiter) || count_outside(text, delimiter) != count_outside(second, delimiter)))
        return fail(f, EX_DATAERR, "%s:1: found a comment, expected a header: leave out the lines that begin with #",
                    path);
    if (*text == '{' || *text == '[')
        return fail(f, EX_DATAERR, "%s looks like JSON, expected CSV (wvgd models shows what each model takes)", path);
    if (count_outside(text, find_delimiter(text)) && !count_outside(text, delimiter))
        return fail(f, EX_DATAERR, "%s:1: fields seem to be separated by %s, not by %s: leave out --delimiter", path,
                    name_delimiter(find_delimiter(text)), name_delimiter(delimiter));
    for (size_t i = 0; i < sizeof others / sizeof *others && !count_outside(text, delimiter); i++)
        if (count_outside(text, others[i].separator) && count_outside(second, others[i].separator))
            return fail(f, EX_DATAERR, "%s:1: fields are separated by %s, expected commas, semicolons or tabs", path,
                        others[i].name);
    return 0;
}

/* Names, separated by commas. A first line of nothing but numbers is a row. */
static int check_header(const csv_file *csv, failure *f)
{
    double number;
    char shown[QUOTED];
    size_t numbers = 0;
    for (size_t c = 0; c < csv->columns; c++) {
        if (!*csv->name[c])
            return fail(f, EX_DATAERR, "%s:1: column %zu has no name: %s", csv->path, c + 1,
                        !c                     ? WITHOUT_ROW_NAMES
                        : c + 1 < csv->columns ? "write one in the header"
                                               : "write one, or leave out the delimiter at the end of every line");
        const char *rule = name_problem(csv->name[c]);
        if (rule)
            return fail(f, EX_DATAERR, "%s:1: column %zu: found %s, expected %s%s", csv->path, c + 1,
                        quote(csv->name[c], shown), rule, remedy_of_text(csv->name[c]));
        numbers += read_number(csv->name[c], &number) == NULL;
    }
    if (numbers == csv->columns)
        return fail(f, EX_DATAERR,
                    "%s:1: column 1: found the number %s, expected a header with column names: write "
                    "one as the first line",
                    csv->path, csv->name[0]);
    size_t repeated = find_repeated(csv->columns, csv->name);
    if (repeated < csv->columns)
        return fail(f, EX_DATAERR, "%s:1: column %zu: another column has the name %s, too: rename one of them",
                    csv->path, repeated + 1, quote(csv->name[repeated], shown));
    return repeated > csv->columns ? fail(f, EX_SOFTWARE, "%s: no memory for %zu columns", csv->path, csv->columns) : 0;
}

static int name_columns(csv_file *csv, failure *f)
{
    if (csv->columns == 0)
        return fail(f, EX_DATAERR, "%s:1: the file is empty, expected a header with column names", csv->path);
    csv->name = calloc(csv->columns, sizeof *csv->name);
    if (!csv->name)
        return fail(f, EX_SOFTWARE, "%s: no memory for %zu columns", csv->path, csv->columns);
    const char *field = csv->text;
    for (size_t c = 0; c < csv->columns; c++, field = next_field(field))
        csv->name[c] = field;
    return check_header(csv, f);
}

static int finish(csv_file *csv, failure *f)
{
    f->code = 0;
    name_columns(csv, f);
    if (share_failure(csv->shares, f))
        return f->code;
    csv->all_rows = csv->rows;
    if (share_counts(csv->shares, 1, &csv->all_rows, f))
        return f->code;
    if (csv->all_rows == 0) {
        fail(f, EX_DATAERR, "%s:2: there are no rows after the header", csv->path);
        return share_failure(csv->shares, f);
    }
    return 0;
}

/* text[size] becomes the fields of csv. All processes fail together. */
static int read_fields(reader *r, char *text, size_t size, char delimiter)
{
    csv_file *csv = r->csv;
    csv->text = text;
    delimiter = delimiter ? delimiter : find_delimiter(text);
    if (!check_kind(csv->path, text, delimiter, r->f)) {
        parse(r, delimiter, text, size);
        r->f->code = r->code;
    }
    if (share_failure(csv->shares, r->f))
        return r->f->code;
    return finish(csv, r->f);
}

int open_csv_share(const char *path, char delimiter, row_shares *shares, csv_file *csv, failure *f)
{
    char *text;
    size_t size;
    *csv = (csv_file){.path = path, .shares = shares};
    reader r = {.csv = csv, .f = f, .line = 1};
    if (shares ? read_share(shares, path, &text, &size, &r.head, &r.head_line, f) : read_text(path, &text, &size, f))
        return f->code;
    f->code = 0;
    int code = read_fields(&r, text, size, delimiter);
    if (code)
        close_csv(csv);
    return code;
}

int open_csv(const char *path, char delimiter, csv_file *csv, failure *f)
{
    return open_csv_share(path, delimiter, NULL, csv, f);
}

void close_csv(csv_file *csv)
{
    free(csv->name);
    free(csv->text);
    free(csv->start);
    free(csv->line);
    *csv = (csv_file){0};
}

void forget_rows(csv_file *csv)
{
    size_t head = csv->rows ? csv->start[0] : 0;
    char *text = head ? realloc(csv->text, head) : NULL;
    for (size_t c = 0; text && c < csv->columns; c++)
        csv->name[c] = c ? next_field(csv->name[c - 1]) : text;
    csv->text = text ? text : csv->text;
    free(csv->start);
    free(csv->line);
    csv->start = csv->line = NULL;
    csv->rows = 0;
}

const char *first_field(const csv_file *csv, size_t row)
{
    return csv->text + csv->start[row];
}

const char *next_field(const char *field)
{
    return field + strlen(field) + 1;
}

const char *find_field(const csv_file *csv, size_t row, size_t column)
{
    const char *field = first_field(csv, row);
    while (column--)
        field = next_field(field);
    return field;
}

size_t find_column(const csv_file *csv, const char *name)
{
    size_t c = 0;
    while (c < csv->columns && strcmp(csv->name[c], name) != 0)
        c++;
    return c;
}

int refuse_field(const csv_file *csv, size_t row, size_t column, const char *field, const char *expected, failure *f)
{
    char shown[QUOTED];
    const char *found = *field ? quote(field, shown) : "an empty field";
    return fail(f, EX_DATAERR, "%s:%zu: column %s: found %s, expected %s", csv->path, csv->line[row], csv->name[column],
                found, expected);
}

int read_field(const csv_file *csv, size_t row, size_t column, const char *field, double *value, failure *f)
{
    const char *expected = read_number(field, value);
    return expected ? refuse_field(csv, row, column, field, expected, f) : 0;
}
