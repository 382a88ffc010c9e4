/* cmd_sample.c - wvgd sample: draws from a fit that has ended, as Stan CSV. The fit comes back from its saved state, so that the data are not needed; only
 * models that transform their parameters must be opened again. */
#include "commands.h"
#include "run_directory.h"
#include "run_record.h"
#include "shown.h"
#include "write.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

typedef struct {
    json_t *asked;
    void *state;
    size_t size;
    opened_model model; /* without densities, unless it was opened again */
    const char **names; /* [dim] */
    double *start;
    wvgd_fit *fit;
} saved_fit;

static void free_saved(saved_fit *s)
{
    wvgd_free(s->fit);
    if (s->model.owner)
        close_model(&s->model);
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
        return fail(f, EX_DATAERR, "%s: the checkpoint does not say what the parameters are", dir);
    s->names = calloc(D, sizeof *s->names);
    if (!s->names)
        return fail(f, EX_SOFTWARE, "no memory for %zu names", D);
    for (size_t i = 0; i < D; i++)
        if (!(s->names[i] = json_string_value(json_array_get(names, i))))
            return fail(f, EX_DATAERR, "%s: the checkpoint does not name parameter %zu", dir, i + 1);
    s->model.model = (wvgd_model){.dim = D, .has_gradient = record_reopen_flag(s->asked, "gradient"), .names = s->names, .start = start, .start_self = s};
    s->model.shown = D;
    s->model.shown_names = s->names;
    return 0;
}

/* A model with constraints shows its draws itself; one with a cost of its own tells their cells. */
static int reopen_model(saved_fit *s, failure *f)
{
    failure why;
    int code = open_recorded(s->asked, false, &s->model, &why);
    return code ? fail(f, code, "draws of this run need the model itself, and its data: %s", why.text) : 0;
}

static int restore_fit(saved_fit *s, const char *dir, failure *f)
{
    wvgd_options options;
    wvgd_error error;
    int code = record_options(s->asked, &options, f);
    if (!code)
        code = take_cost(&options, &s->model, f);
    if (code)
        return code;
    if (record_reopen_flag(s->asked, "start") && !(s->start = calloc(options.particles, s->model.model.dim * sizeof *s->start)))
        return fail(f, EX_SOFTWARE, "no memory for %zu particles", options.particles);
    s->fit = wvgd_new(&s->model.model, &options, s->start, &error);
    if (!s->fit || wvgd_restore(s->fit, s->state, s->size, &error) != WVGD_OK)
        return fail(f, EX_DATAERR, "cannot restore the fit in %s: %s", dir, error.text);
    wvgd_results r;
    wvgd_get_results(s->fit, &r);
    if (r.stop == WVGD_RUNNING)
        return fail(f, EX_NOINPUT, "the run in %s has not ended yet: wvgd fit --resume %s goes on with it", dir, dir);
    return 0;
}

static int load_fit(saved_fit *s, const char *dir, failure *f)
{
    const char *file = has_run_file(dir, RESULT_FILE) ? RESULT_FILE : CHECKPOINT_FILE;
    if (!access(dir, F_OK) && !is_run_directory(dir))
        return fail(f, EX_NOINPUT, "%s is no run directory: it has neither " RUN_FILE " nor " CHECKPOINT_FILE, dir);
    int code = read_checkpoint(dir, file, &s->asked, &s->state, &s->size, f);
    if (code)
        return f->code = code == EX_TEMPFAIL ? EX_DATAERR : code; /* damaged: nothing goes on here */
    if (!same_run(s->asked, dir))
        return fail(f, EX_DATAERR, "%s/%s belongs to another run than %s/" RUN_FILE, dir, file, dir);
    code = needs_model(s->asked) ? reopen_model(s, f) : shape_model(s, dir, f);
    return code ? code : restore_fit(s, dir, f);
}

static int write_sample(const saved_fit *s, const char *path, draws_kind kind, uint64_t seed, size_t n, failure *f)
{
    const char *name = json_string_value(json_object_get(json_object_get(s->asked, "model"), "name"));
    whole_file w;
    if (path && belongs_to_run(path))
        return fail(f, EX_CANTCREAT, "%s belongs to a run, which would be damaged: choose another --out", path);
    if (!path)
        return put_draws(stdout, s->fit, &s->model, name ? name : "model", kind, seed, n, f);
    int code = begin_file(&w, path, f);
    if (code)
        return code;
    code = put_draws(w.stream, s->fit, &s->model, name ? name : "model", kind, seed, n, f);
    if (code)
        abandon_file(&w);
    return code ? code : finish_file(&w, f);
}

static bool sample_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"draws", 'n', "K", "1..100000000", "1000; all with --weighted", "number of draws", NULL},
        {"resample", 0, NULL, NULL, NULL, "posterior draws: the closing draws of the fit, resampled by their importance weights", NULL},
        {"weighted", 0, NULL, NULL, NULL, "the closing draws themselves, with log_weight__", NULL},
        {"out", 'o', "FILE", NULL, NULL, "write there instead of stdout", NULL},
        {"seed", 0, "S", "0..2^64-1", "1", "another seed, other draws", NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

static int run_sample(arguments *a, failure *f)
{
    bool resample = given(a, "resample") != NULL, weighted = given(a, "weighted") != NULL;
    size_t n = weighted ? 0 : 1000, seed = 1;
    saved_fit s = {0};
    if (!a->words)
        return fail(f, EX_USAGE, "sample: DIR is missing: draws of which run?");
    if (resample && weighted)
        return fail(f, EX_USAGE, "sample: --resample and --weighted exclude each other");
    int code = given_count(a, "draws", 1, 100000000, &n, f);
    if (!code)
        code = given_count(a, "seed", 0, SIZE_MAX, &seed, f);
    if (!code)
        code = load_fit(&s, a->word[0], f);
    if (!code)
        code = write_sample(&s, given(a, "out"), resample ? RESAMPLED_DRAWS : weighted ? WEIGHTED_DRAWS : ENSEMBLE_DRAWS, seed, n, f);
    free_saved(&s);
    return code;
}

const command sample_command = {
    "sample",
    "DIR",
    "draws from a fit that has ended, as Stan CSV",
    "Writes draws from the run in DIR as Stan CSV: from the fitted approximation (the ensemble) by default, from the posterior by "
    "importance resampling with "
    "--resample, or all points with their weights with --weighted. The data are not needed, except by shared objects that transform their "
    "parameters.",
    "wvgd sample heart -n 4000 --out draws.csv\n"
    "wvgd sample heart -n 4000 --resample --seed 7 | grep -v '^#'\n",
    sample_option,
    "DIR",
    run_sample,
};
