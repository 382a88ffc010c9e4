/* start_file.c - reads the particles of --init FILE.csv. */
#include "start_file.h"
#include "csv_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int read_rows(const csv_file *csv, double *start, failure *f)
{
    for (size_t j = 0; j < csv->rows; j++) {
        const char *field = first_field(csv, j);
        for (size_t i = 0; i < csv->columns; i++, field = next_field(field))
            if (read_field(csv, j, i, field, start++, f))
                return f->code;
    }
    return 0;
}

/* Which columns there should be: the first parameters by name. */
static int refuse_columns(const char *path, size_t columns, size_t D, const char *const *names, failure *f)
{
    char list[300] = "";
    size_t at = 0, i = 0;
    for (; i < D && at + strlen(names[i]) + sizeof ", ..." < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
    return fail(f, EX_DATAERR, "%s has %zu column%s, expected %zu: one for each parameter, %s%s", path, columns,
                columns == 1 ? "" : "s", D, list, i < D ? ", ..." : "");
}

int read_start(const char *path, size_t D, const char *const *names, bool fixed, size_t *particles, double **start,
               failure *f)
{
    csv_file csv;
    int code = open_csv(path, 0, &csv, f);
    if (code)
        return code;
    size_t wanted = fixed ? *particles : csv.rows;
    if (csv.columns != D)
        code = refuse_columns(path, csv.columns, D, names, f);
    else if (csv.rows != wanted)
        code = fail(f, EX_DATAERR, "%s has %zu row%s, expected %zu: one for each of --particles %zu", path, csv.rows,
                    csv.rows == 1 ? "" : "s", wanted, wanted);
    *start = code ? NULL : calloc(csv.rows, D * sizeof **start);
    if (!code && !*start)
        code = fail(f, EX_SOFTWARE, "no memory for %zu particles", csv.rows);
    if (!code)
        code = read_rows(&csv, *start, f);
    *particles = wanted;
    close_csv(&csv);
    return code;
}

char *start_note(const char *path, size_t before, size_t particles)
{
    char *text = NULL;
    size_t size;
    FILE *s = before == particles ? NULL : open_memstream(&text, &size);
    if (!s)
        return NULL;
    fprintf(s, "%s has %zu row%s, so the number of particles is %zu, not %zu", path, particles,
            particles == 1 ? "" : "s", particles, before);
    return fclose(s) ? NULL : text;
}
