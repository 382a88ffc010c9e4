/* view.c - a run directory as far as it can be read. */
#include "report.h"
#include "run_directory.h"
#include "run_json.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

double run_item(const json_t *list, size_t i)
{
    const json_t *v = json_array_get(list, i);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

void note(run_view *v, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(v->notes, json_text(text));
}

bool is_staged(const run_view *v)
{
    const json_t *used = json_object_get(v->run, "solver"),
                 *solver = used ? used : json_object_get(json_object_get(v->run, "options"), "solver");
    return json_is_string(solver) && !strcmp(json_string_value(solver), "staged");
}

weighted_values posterior_values(const run_view *v)
{
    return v->closing.n && !v->transformed ? v->closing : (weighted_values){v->n, v->P, v->draw, NULL, v->cell, v->N};
}

/* A table that may be missing. */
static int read_optional(run_view *v, const char *file, const char *shows, number_table *t, failure *f)
{
    if (!has_run_file(v->dir, file)) {
        note(v, "%s is missing from the run directory: no %s", file, shows);
        return 0;
    }
    struct stat about;
    char *path = run_path(v->dir, file);
    int code = !path                                            ? fail(f, EX_SOFTWARE, "no memory")
               : !stat(path, &about) && !S_ISREG(about.st_mode) ? fail(f, EX_DATAERR, "%s is not a regular file", path)
                                                                : read_table(path, t, f);
    free(path);
    return code;
}

/* draws.csv: four columns of its own, then one for each quantity. */
static int take_draws(run_view *v, const number_table *t, failure *f)
{
    enum { OWN = 4 };
    size_t path = table_column(t, "path__");
    if (t->columns != v->P + OWN || path >= OWN)
        return fail(f, EX_DATAERR,
                    "%s/" DRAWS_FILE ": found %zu columns%s, expected lp__, lp_approx__, path__, log_weight__ and the "
                    "%zu quantities of " RUN_FILE,
                    v->dir, t->columns, path < OWN ? "" : " without path__ in front", v->P);
    v->draw = malloc((t->rows * v->P + 1) * sizeof *v->draw);
    v->cell = malloc((t->rows + 1) * sizeof *v->cell);
    if (!v->draw || !v->cell)
        return fail(f, EX_SOFTWARE, "no memory for %zu draws", t->rows);
    v->n = t->rows;
    for (size_t i = 0; i < v->n; i++) {
        double cell = table_number(t, i, path);
        v->cell[i] = cell >= 1 && cell <= (double)v->N ? (size_t)cell - 1 : SIZE_MAX;
        for (size_t c = 0; c < v->P; c++)
            v->draw[i * v->P + c] = table_number(t, i, OWN + c);
    }
    return 0;
}

static int read_draws(run_view *v, failure *f)
{
    number_table t = {0};
    int code = read_optional(v, DRAWS_FILE, "draws, and densities only if the fit itself is there", &t, f);
    if (!code && t.columns)
        code = take_draws(v, &t, f);
    free_number_table(&t);
    return code;
}

static int check_names(const run_view *v, failure *f)
{
    const json_t *model = json_object_get(v->run, "model"),
                 *shown = json_object_get(json_object_get(v->run, "posterior"), "names"),
                 *names = json_object_get(model, "names");
    for (size_t i = 0; i < v->P; i++)
        if (!json_is_string(json_array_get(shown, i)))
            return fail(f, EX_DATAERR,
                        "%s/" RUN_FILE ": posterior.names[%zu] is no text, expected the name of a quantity", v->dir, i);
    for (size_t i = 0; i < v->D; i++)
        if (!json_is_string(json_array_get(names, i)))
            return fail(f, EX_DATAERR,
                        "%s/" RUN_FILE ": model.names[%zu] is no text, expected the name of one of %zu coordinates",
                        v->dir, i, v->D);
    return v->D ? 0
                : fail(f, EX_DATAERR,
                       "%s/" RUN_FILE ": model.names is no list of names, expected the coordinates of the fit", v->dir);
}

int read_view(const char *dir, run_view *v, failure *f)
{
    *v = (run_view){.dir = dir, .notes = json_array()};
    int code = v->notes ? read_run(dir, &v->run, f) : fail(f, EX_SOFTWARE, "no memory");
    if (code)
        return code;
    const json_t *names = json_object_get(json_object_get(v->run, "model"), "names"),
                 *shown = json_object_get(json_object_get(v->run, "posterior"), "names");
    v->N = json_array_size(json_object_get(v->run, "particles"));
    v->D = json_array_size(names);
    v->P = json_array_size(shown);
    v->transformed = !json_equal(names, shown);
    code = check_names(v, f);
    if (!code)
        code = read_draws(v, f);
    if (!code)
        code = read_optional(v, TRACE_FILE, "course of the fit", &v->trace, f);
    if (!code)
        code = read_optional(v, HISTORY_FILE, "replay", &v->history, f);
    return code;
}

void free_view(run_view *v)
{
    json_decref(v->run);
    json_decref(v->notes);
    free_number_table(&v->trace);
    free_number_table(&v->history);
    free(v->draw);
    free(v->cell);
    free(v->particle);
    free(v->coordinate);
    *v = (run_view){0};
}
