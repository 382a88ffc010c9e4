/* cmd_sample.c - wvgd sample: draws from a fit that has ended, as Stan CSV. The fit comes back from its saved state,
 * and quantities of models that transform their parameters from what was stored with it. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "run_directory.h"
#include "saved_fit.h"
#include "shown.h"
#include "write.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int write_sample(const saved_fit *s, const char *path, wvgd_draws_kind kind, uint64_t seed, size_t n, failure *f)
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
        {"resample", 0, NULL, NULL, NULL,
         "draws of the posterior instead: the closing draws of the fit, resampled by their importance weights, as in "
         "draws.csv; they may repeat",
         NULL},
        {"weighted", 0, NULL, NULL, NULL,
         "the closing draws themselves, with log_weight__; with -n K only K of them, evenly spaced, whose weights are "
         "made to sum to 1: for estimates take all",
         NULL},
        {"out", 'o', "FILE", NULL, NULL, "write there instead of stdout", NULL},
        {"seed", 0, "S", "0..2^64-1", "1", "another seed, other draws", NULL},
        {"model", 0, "MODEL.so", NULL, NULL, NAMED_MODEL_HELP, NULL},
        {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP, NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

/* The run keeps quantities of its closing draws, and of some draws of the ensemble. */
static int check_stored(const saved_fit *s, const char *dir, wvgd_draws_kind kind, uint64_t seed, size_t n, failure *f)
{
    if (!s->from_store || kind != WVGD_DRAWS_ENSEMBLE || (seed == 1 && n <= s->stored.ensemble))
        return 0;
    return fail(
        f, EX_TEMPFAIL,
        "the run in %s keeps quantities of %zu draws of the ensemble, those of seed 1: others need its model, and "
        "that is code: name it by --model, or give --trust-model; --resample needs none",
        dir, s->stored.ensemble);
}

static int run_sample(arguments *a, failure *f)
{
    bool resample = given(a, "resample") != NULL, weighted = given(a, "weighted") != NULL;
    size_t n = weighted ? 0 : 1000, seed = 1;
    saved_fit s = {0};
    model_trust trust;
    if (!a->words)
        return fail(f, EX_USAGE, "sample: DIR is missing: draws of which run?");
    if (resample && weighted)
        return fail(f, EX_USAGE, "sample: --resample and --weighted exclude each other");
    int code = given_count(a, "draws", 1, 100000000, &n, f);
    if (!code)
        code = given_count(a, "seed", 0, SIZE_MAX, &seed, f);
    wvgd_draws_kind kind = resample ? WVGD_DRAWS_RESAMPLED : weighted ? WVGD_DRAWS_WEIGHTED : WVGD_DRAWS_ENSEMBLE;
    if (!code)
        code = given_trust(a, &trust, f);
    if (!code)
        code = load_saved(&s, a->word[0], &trust, f);
    if (!code)
        code = check_stored(&s, a->word[0], kind, seed, n, f);
    if (!code)
        code = write_sample(&s, given(a, "out"), kind, seed, n, f);
    free_saved(&s);
    return code;
}

const command sample_command = {
    "sample",
    "DIR",
    "draws from a fit that has ended, as Stan CSV; --resample: of the posterior itself",
    "Writes draws from the run in DIR as Stan CSV. By default they come from the fitted approximation (the ensemble), "
    "which is near the posterior but not the posterior, and the model is not evaluated: lp__ is NaN. --resample gives "
    "draws of the posterior, by importance resampling; --weighted gives the points that these are taken from, with "
    "their weights. Neither model nor data are needed: a run keeps what a model that transforms its parameters, such "
    "as "
    "a Stan program, has to show for its closing draws and for 1000 draws of the ensemble.",
    "# draws of the posterior\n"
    "wvgd sample heart -n 4000 --resample --out draws.csv\n"
    "# draws from the approximation, from another seed\n"
    "wvgd sample heart -n 4000 --seed 7 | grep -v '^#'\n",
    sample_option,
    "DIR",
    run_sample,
};
