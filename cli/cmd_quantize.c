/* cmd_quantize.c - wvgd quantize: other cells from the draws of a staged fit that has ended. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "request.h"
#include "run_directory.h"
#include "run_session.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* DIR/cells-N, or DIR/cells-N-COST. To be freed. */
static char *default_directory(const arguments *a)
{
    char name[200];
    const char *cost = given(a, "cost"), *dir = a->word[0];
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/')
        length--;
    snprintf(name, sizeof name, "cells-%.60s%s%.60s", given(a, "particles"), cost ? "-" : "", cost ? cost : "");
    char *parent = strndup(dir, length), *path = parent ? run_path(parent, name) : NULL;
    free(parent);
    return path;
}

static int choose_directory(const arguments *a, wvgd_request *q, failure *f)
{
    if (given(a, "out"))
        return 0;
    char *out = default_directory(a);
    int code = out ? request_put(q, "out", out, f) : fail(f, EX_SOFTWARE, "no memory");
    free(out);
    return code;
}

static int run_quantize(arguments *a, failure *f)
{
    wvgd_request *q = NULL;
    if (!a->words)
        return fail(f, EX_USAGE, "quantize: DIR is missing: name a run directory");
    if (!given(a, "particles"))
        return fail(f, EX_USAGE, "quantize: --particles N is missing: give the number of cells");
    int code = request_cells(a, &q, f);
    if (!code)
        code = choose_directory(a, q, f);
    if (!code)
        code = run_session(wvgd_open_cells, a->word[0], q, f);
    wvgd_request_free(q);
    return code;
}

/* Those of the fit that may change keep their ranges, but have another default. */
static bool quantize_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"out", 'o', "OTHER", NULL, "DIR/cells-N, or DIR/cells-N-COST", "directory for the results; created if missing",
         NULL},
        {"overwrite", 0, NULL, NULL, NULL, "replace an existing run", NULL},
        {"model", 0, "MODEL.so", NULL, NULL, NAMED_MODEL_HELP, NULL},
        {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP, NULL},
        {"quiet", 'q', NULL, NULL, NULL, "show no progress and no hints on stderr; warnings remain", NULL},
    };
    size_t n = 0;
    while (describe_cell_option(n))
        n++;
    if (i < n) {
        bool found = find_option(describe_cell_option(i), line);
        line->initial = i ? "as in the run" : NULL;
        line->group = NULL;
        return found;
    }
    if (i - n >= sizeof table / sizeof *table)
        return false;
    *line = table[i - n];
    return true;
}

const command quantize_command = {
    "quantize",
    "DIR --particles N [--cost C] [--out OTHER]",
    "divide the posterior of a finished fit into other cells",
    "Divides the posterior of the run in DIR into N new cells without fitting again. It reuses the final draws of "
    "the fit and evaluates the model only to compute the bound of the new cells. OTHER becomes a run directory like "
    "any other. The run in DIR must be finished and use --solver staged; its model and data must still be in place.",
    "# first five cells, then ten and twenty of the same posterior\nwvgd fit logistic --data data/iris.csv --particles "
    "5 "
    "--out iris\nwvgd quantize iris --particles 10                  # in iris/cells-10\nwvgd quantize iris "
    "--particles 20 --out iris20\n# another distance: absolute differences instead of squares\nwvgd quantize iris "
    "--particles 10 --cost l1\nwvgd summary iris/cells-10-l1\n",
    quantize_option,
    "DIR",
    run_quantize,
    NULL,
};
