/* cmd_quantize.c - wvgd quantize: other cells from the draws of a staged fit that has ended. Nothing is fitted
 * again: the new partition is written as the checkpoint of a run of its own, which lacks only the batch for its
 * bound, and wvgd fit goes on with that one. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "request.h"
#include "run_directory.h"
#include "run_record.h"
#include "saved_fit.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const char *const changeable[] = {"particles", "cost", "power", "family"};
enum { CHANGEABLE = sizeof changeable / sizeof *changeable };

typedef struct {
    model_trust trust;
    json_t *asked; /* the record of the fit, later that of its new cells */
    void *state;
    size_t size;
    opened_model model;
    double *start;
    wvgd_options options;
    wvgd_fit *fit, *cells;
} quantization;

static void free_quantization(quantization *q)
{
    wvgd_free(q->cells);
    wvgd_free(q->fit);
    close_model(&q->model);
    json_decref(q->asked);
    free(q->state);
    free(q->start);
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */
static int load_state(quantization *q, const char *dir, failure *f)
{
    if (read_saved(dir, &q->asked, &q->state, &q->size, f) || record_options(q->asked, &q->options, f))
        return f->code;
    if (q->options.solver != WVGD_STAGED)
        return fail(f, EX_DATAERR, "the run in %s used the joint solver: quantize needs a fit with --solver staged",
                    dir);
    return 0;
}

static int restore_fit(quantization *q, const char *dir, failure *f)
{
    failure why;
    wvgd_error error;
    wvgd_results r;
    int code = open_again(q->asked, dir, &q->trust, &q->model, &why);
    if (code)
        return fail(f, code, "new cells need the model and its data to compute their bound: %s", why.text);
    if (take_cost(&q->options, &q->model, f))
        return f->code;
    if (record_reopen_flag(q->asked, "start") &&
        !(q->start = calloc(q->options.particles, q->model.model.dim * sizeof *q->start)))
        return fail(f, EX_SOFTWARE, "no memory for %zu particles", q->options.particles);
    q->fit = wvgd_new(&q->model.model, &q->options, q->start, &error);
    if (!q->fit || wvgd_restore(q->fit, q->state, q->size, &error) != WVGD_OK)
        return fail(f, error.code == WVGD_E_MEMORY ? EX_SOFTWARE : EX_DATAERR, "cannot restore the fit in %s: %s", dir,
                    error.text);
    wvgd_get_results(q->fit, &r);
    if (r.stop == WVGD_RUNNING)
        return fail(f, EX_NOINPUT, "the run in %s has not finished: wvgd fit --resume %s continues it", dir, dir);
    return 0;
}

/* ---- its new cells ----------------------------------------------------------------------------------------------- */
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

static void set_value(arguments *a, const char *name, const char *value)
{
    for (size_t i = 0; i < a->options; i++)
        if (!strcmp(a->name[i], name))
            a->value[i] = value;
}

/* What the command line says, as the record of a new run does: values are checked, the command is quoted. */
static int read_changes(const arguments *a, json_t **changes, failure *f)
{
    static const char *word[] = {"model"}; /* which the fit will name */
    arguments b = *a;
    wvgd_request *q = NULL;
    b.word = word;
    int code = request_fit(&b, &q, f);
    if (!code)
        code = new_record(q, changes, f);
    wvgd_request_free(q);
    return code;
}

static int change_asked(quantization *q, const arguments *a, const json_t *changes, failure *f)
{
    json_t *options = json_object_get(q->asked, "options"), *reopen = json_object_get(q->asked, "reopen");
    const json_t *new_options = json_object_get(changes, "options");
    int failed = json_object_set(q->asked, "command", json_object_get(changes, "command")) |
                 json_object_set(reopen, "out", json_object_get(json_object_get(changes, "reopen"), "out"));
    for (size_t i = 0; i < CHANGEABLE; i++)
        if (given(a, changeable[i]))
            failed |= json_object_set(options, changeable[i], json_object_get(new_options, changeable[i]));
    forget_stored_values(q->asked);
    json_object_del(reopen, "start");     /* new particles start nowhere, */
    json_object_del(q->asked, "history"); /* and have come from nowhere */
    if (failed)
        return fail(f, EX_SOFTWARE, "no memory for the record of the run");
    return complete_record(q->asked, &q->model, f);
}

static int make_cells(quantization *q, failure *f)
{
    wvgd_error error;
    wvgd_options options;
    wvgd_results r;
    int code = record_options(q->asked, &options, f);
    if (!code)
        code = take_cost(&options, &q->model, f);
    if (code)
        return code;
    wvgd_get_results(q->fit, &r);
    if (options.particles > r.closing_draws)
        return fail(f, EX_USAGE, "--particles is '%zu': expected at most %zu, the number of draws of the run",
                    options.particles, r.closing_draws);
    q->cells = wvgd_quantize(q->fit, &options, &error);
    return q->cells ? 0 : fail(f, error.code == WVGD_E_ARGUMENT ? EX_USAGE : EX_SOFTWARE, "%s", error.text);
}

/* The partition without its bound, as a run to go on with. */
static int write_begun(quantization *q, const char *out, bool overwrite, bool *made, failure *f)
{
    int lock = -1;
    wvgd_error error;
    size_t size = wvgd_save_size(q->cells);
    void *state = malloc(size);
    int code = state ? 0 : fail(f, EX_SOFTWARE, "no memory for a checkpoint of %zu bytes", size);
    if (!code && wvgd_save(q->cells, state, size, &error) != WVGD_OK)
        code = fail(f, EX_SOFTWARE, "%s", error.text);
    if (!code)
        code = make_run_directory(out, overwrite, &lock, made, f);
    if (!code) {
        const char *file = file_to_begin(out);
        file_set set = set_of_run(out);
        set.passing = true; /* nothing is lost that could not be had again */
        code = write_checkpoint(&set, file, q->asked, state, size, f);
        if (!code)
            code = commit_files(&set, f);
        if (code)
            discard_run(out, file, *made);
    }
    if (lock >= 0)
        close(lock);
    free(state);
    return code;
}

/* Evaluates the bound, writes the files and prints the summary, as for any run that goes on. */
static int go_on(const arguments *q, bool made, failure *f)
{
    char fit[] = "fit", resume[] = "--resume", silent[] = "--quiet", trust[] = "--trust-model";
    const char *out = given(q, "out");
    char *dir = strdup(out), *argv[6] = {fit, resume, dir};
    int argc = 3;
    if (given(q, "quiet"))
        argv[argc++] = silent;
    if (given(q, "trust-model"))
        argv[argc++] = trust;
    arguments a = {0};
    int code = dir ? parse_arguments(&fit_command, argc, argv, &a, f) : fail(f, EX_SOFTWARE, "no memory");
    a.object = given(q, "model"); /* the user has named it */
    if (!code)
        code = fit_command.run(&a, f);
    if (code && (has_run_file(out, NEXT_FILE) || !has_run_file(out, RUN_FILE))) /* it has not ended */
        discard_run(out, file_to_resume(out), made);
    free_arguments(&a);
    free(dir);
    return code;
}

static int begin_cells(const arguments *a, const json_t *changes, bool *made, failure *f)
{
    quantization q = {0};
    const char *dir = a->word[0], *out = given(a, "out");
    int code = given_trust(a, &q.trust, f);
    if (!code)
        code = load_state(&q, dir, f);
    if (!code)
        code = check_run_directory(out, given(a, "overwrite") != NULL, f);
    if (!code)
        code = restore_fit(&q, dir, f);
    if (!code)
        code = change_asked(&q, a, changes, f);
    if (!code)
        code = make_cells(&q, f);
    if (!code)
        code = write_begun(&q, out, given(a, "overwrite") != NULL, made, f);
    free_quantization(&q);
    return code;
}

static int run_quantize(arguments *a, failure *f)
{
    json_t *changes = NULL;
    char *out = NULL;
    bool made = false;
    if (!a->words)
        return fail(f, EX_USAGE, "quantize: DIR is missing: name a run directory");
    if (!given(a, "particles"))
        return fail(f, EX_USAGE, "quantize: --particles N is missing: give the number of cells");
    if (!given(a, "out")) {
        if (!(out = default_directory(a)))
            return fail(f, EX_SOFTWARE, "no memory");
        set_value(a, "out", out);
    }
    int code = read_changes(a, &changes, f);
    if (!code)
        code = begin_cells(a, changes, &made, f);
    if (!code)
        code = go_on(a, made, f);
    json_decref(changes);
    free(out);
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
        {"quiet", 'q', NULL, NULL, NULL, "show no progress on stderr", NULL},
    };
    if (i < CHANGEABLE) {
        bool found = find_option(changeable[i], line);
        line->initial = i ? "as in the run" : NULL;
        line->group = NULL;
        return found;
    }
    if (i - CHANGEABLE >= sizeof table / sizeof *table)
        return false;
    *line = table[i - CHANGEABLE];
    return true;
}

const command quantize_command = {
    "quantize",
    "DIR --particles N [--cost C] [--out OTHER]",
    "divide the posterior of a finished fit into other cells",
    "Divides the posterior of the run in DIR into N new cells without fitting again. It reuses the weighted draws of "
    "the fit and evaluates the model only to compute the bound of the new cells. OTHER becomes a run directory like "
    "any other. The run in DIR must be finished and use --solver staged; its model and data must still be in place.",
    "# first five cells, then ten and twenty of the same posterior\nwvgd fit logistic --data heart.csv --particles 5 "
    "--out heart\nwvgd quantize heart --particles 10                  # in heart/cells-10\nwvgd quantize heart "
    "--particles 20 --out heart20\n# another distance: absolute differences instead of squares\nwvgd quantize heart "
    "--particles 10 --cost l1\nwvgd summary heart/cells-10-l1\n",
    quantize_option,
    "DIR",
    run_quantize,
    NULL,
};
