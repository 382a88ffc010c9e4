/* saved_fit.c - from the checkpoint (or result) of a run to its fit, without the data where possible. */
#include "saved_fit.h"
#include "blas_memory.h"
#include "run_directory.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

void free_saved(saved_fit *s)
{
    wvgd_free(s->fit);
    if (s->model.owner)
        close_model(&s->model);
    free_values(&s->stored);
    json_decref(s->asked);
    free(s->state);
    free(s->names);
    free(s->start);
}

/* A fit that has ended starts nowhere. */
static void start(void *self, const double *normal, double *z)
{
    const saved_fit *s = self;
    memcpy(z, normal, s->model.model.dim * sizeof *z);
}

/* The model of the record as far as a fit needs it: its dimension and the names of its coordinates. */
static int shape_model(saved_fit *s, const char *dir, failure *f)
{
    const json_t *model = json_object_get(s->asked, "model"), *names = json_object_get(model, "names");
    size_t D = json_array_size(names);
    if (!D || (json_int_t)D != json_integer_value(json_object_get(model, "dim")))
        return fail(f, EX_DATAERR, "%s: the checkpoint has no list of parameters", dir);
    s->names = calloc(D, sizeof *s->names);
    if (!s->names)
        return fail(f, EX_SOFTWARE, "no memory for %zu names", D);
    for (size_t i = 0; i < D; i++)
        if (!(s->names[i] = json_string_value(json_array_get(names, i))))
            return fail(f, EX_DATAERR, "%s: the checkpoint does not name parameter %zu", dir, i + 1);
    s->model.model = (wvgd_model){.dim = D,
                                  .has_gradient = record_reopen_flag(s->asked, "gradient"),
                                  .names = s->names,
                                  .start = start,
                                  .start_self = s};
    s->model.shown = D;
    s->model.shown_names = s->names;
    return 0;
}

/* A model with constraints shows its draws itself; one with a cost of its own tells their cells. */
static int reopen_model(saved_fit *s, const char *dir, const model_trust *trust, failure *f)
{
    failure why;
    int code = open_again(s->asked, dir, trust, &s->model, &why);
    return code ? fail(f, code, "draws from this run need its model and data: %s", why.text) : 0;
}

/* The stored values in the place of the model. */
static int take_stored(saved_fit *s, const char *dir, size_t whole, failure *f)
{
    int code = shape_model(s, dir, f);
    if (!code)
        code = read_values(s->asked, s->state, whole, &s->stored, f);
    s->model.shown = s->stored.P;
    s->model.shown_names = s->stored.names;
    s->model.show = find_values;
    s->model.show_self = &s->stored;
    s->from_store = true;
    return code;
}

static int restore_fit(saved_fit *s, const char *dir, failure *f)
{
    wvgd_options options;
    wvgd_error error;
    int code = reserve_blas(1, f);
    if (!code)
        code = record_options(s->asked, &options, f);
    if (!code)
        code = take_cost(&options, &s->model, f);
    if (code)
        return code;
    if (record_reopen_flag(s->asked, "start") &&
        !(s->start = calloc(options.particles, s->model.model.dim * sizeof *s->start)))
        return fail(f, EX_SOFTWARE, "no memory for %zu particles", options.particles);
    options.threads = 1; /* there is nothing left to share */
    s->fit = wvgd_new(&s->model.model, &options, s->start, &error);
    if (!s->fit || wvgd_restore(s->fit, s->state, s->size, &error) != WVGD_OK)
        return fail(f, error.code == WVGD_E_MEMORY ? EX_SOFTWARE : EX_DATAERR, "cannot restore the fit in %s: %s", dir,
                    error.text);
    wvgd_results r;
    wvgd_get_results(s->fit, &r);
    if (r.stop == WVGD_RUNNING)
        return fail(f, EX_NOINPUT, "the run in %s has not finished: wvgd fit --resume %s continues it", dir, dir);
    return 0;
}

/* The same, with the size of all that is there. */
static int read_whole(const char *dir, json_t **asked, void **state, size_t *size, failure *f)
{
    if (settle_run(dir, f))
        return f->code;
    if (find_run(dir, f))
        return f->code;
    bool closed = has_run_file(dir, RESULT_FILE);
    const char *file = closed ? RESULT_FILE : CHECKPOINT_FILE;
    if (!closed && !has_run_file(dir, CHECKPOINT_FILE))
        return fail(f, EX_NOINPUT,
                    "%s has no " CHECKPOINT_FILE
                    ": a run of wvgd svgd has none; its results are in particles.csv and draws.csv",
                    dir);
    int code = read_checkpoint(dir, file, asked, state, size, f);
    if (code)
        return f->code = code == EX_TEMPFAIL ? EX_DATAERR : code; /* damaged: nothing goes on here */
    return same_run(*asked, dir)
               ? 0
               : fail(f, EX_DATAERR, "%s/%s belongs to another run than %s/" RUN_FILE, dir, file, dir);
}

int read_saved(const char *dir, json_t **asked, void **state, size_t *size, failure *f)
{
    int code = read_whole(dir, asked, state, size, f);
    if (!code)
        *size = stored_state_size(*asked, *size);
    return code;
}

int load_saved(saved_fit *s, const char *dir, const model_trust *trust, failure *f)
{
    size_t whole = 0;
    int code = read_whole(dir, &s->asked, &s->state, &whole, f);
    if (code)
        return code;
    s->size = stored_state_size(s->asked, whole);
    bool open = needs_model(s->asked), told = trust->recorded || trust->named;
    if (open && !told && has_stored_values(s->asked))
        code = take_stored(s, dir, whole, f);
    else
        code = open ? reopen_model(s, dir, trust, f) : shape_model(s, dir, f);
    if (!code)
        code = restore_fit(s, dir, f);
    return !code && s->from_store ? match_values(&s->stored, s->fit, f) : code;
}
