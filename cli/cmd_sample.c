/* cmd_sample.c - wvgd sample: draws from a fit that has ended, as Stan CSV. The fit comes back from its saved state,
 * and quantities of models that transform their parameters from what was stored with it. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "run_directory.h"
#include "saved_fit.h"
#include "say.h"
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
        return fail(f, EX_CANTCREAT, "%s is a file of a run and would be overwritten: choose another --out", path);
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
        {"from", 0, "posterior|ensemble", NULL, "posterior",
         "posterior: the final draws of the fit, resampled by importance weight, as in draws.csv; draws may repeat. "
         "ensemble: draws from the fitted approximation; they never repeat, and are as close to the posterior as the "
         "fit",
         NULL},
        {"resample", 0, NULL, NULL, NULL, "the same as --from posterior", NULL},
        {"weighted", 0, NULL, NULL, NULL,
         "write the final draws with their log_weight__. With -n K, write K evenly spaced draws and rescale their "
         "weights; for estimates, use all draws",
         NULL},
        {"out", 'o', "FILE", NULL, NULL, "write to FILE instead of stdout", NULL},
        {"seed", 0, "N", "0..2^64-1", "1", "random seed of the draws", NULL},
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
    return fail(f, EX_TEMPFAIL,
                "the run in %s stores %zu ensemble draws, of seed 1. Other draws need its model, which is code: name "
                "it with --model or give --trust-model. --from posterior needs no model",
                dir, s->stored.ensemble);
}

/* There are only so many draws with weights. */
static void note_fewer(const saved_fit *s, wvgd_draws_kind kind, size_t n)
{
    wvgd_results r;
    wvgd_get_results(s->fit, &r);
    if (kind == WVGD_DRAWS_WEIGHTED && n > r.closing_draws)
        say("warning: the run has %zu weighted draws, not %zu: all of them are written", r.closing_draws, n);
}

/* Which draws are asked for. */
static int given_kind(const arguments *a, wvgd_draws_kind *kind, failure *f)
{
    const char *from = given(a, "from");
    size_t ensemble = 0;
    if (given_choice(a, "from", &ensemble, f))
        return f->code;
    if ((from || given(a, "resample")) && given(a, "weighted"))
        return fail(f, EX_USAGE, "sample: give either --%s or --weighted, not both", from ? "from" : "resample");
    if (ensemble && given(a, "resample"))
        return fail(f, EX_USAGE, "sample: give either --from ensemble or --resample, not both");
    *kind = given(a, "weighted") ? WVGD_DRAWS_WEIGHTED : ensemble ? WVGD_DRAWS_ENSEMBLE : WVGD_DRAWS_RESAMPLED;
    return 0;
}

static int run_sample(arguments *a, failure *f)
{
    size_t n = given(a, "weighted") ? 0 : 1000;
    uint64_t seed = 1;
    wvgd_draws_kind kind = WVGD_DRAWS_RESAMPLED;
    saved_fit s = {0};
    model_trust trust;
    if (!a->words)
        return fail(f, EX_USAGE, "sample: DIR is missing: name a run directory");
    int code = given_kind(a, &kind, f);
    if (!code)
        code = given_count(a, "draws", &n, f);
    if (!code)
        code = given_seed(a, "seed", &seed, f);
    if (!code)
        code = given_trust(a, &trust, f);
    if (!code)
        code = load_saved(&s, a->word[0], &trust, f);
    if (!code)
        code = check_stored(&s, a->word[0], kind, seed, n, f);
    if (!code)
        note_fewer(&s, kind, n);
    if (!code)
        code = write_sample(&s, given(a, "out"), kind, seed, n, f);
    free_saved(&s);
    return code;
}

const command sample_command = {
    "sample",
    "DIR",
    "write draws from the posterior of a finished fit as Stan CSV",
    "Writes draws from the run in DIR as Stan CSV. By default they come from the posterior, by importance resampling; "
    "--weighted writes the weighted draws that are resampled. --from ensemble draws from the fitted approximation "
    "instead; the model is not evaluated there, so lp__ is NaN. Neither model nor data are needed: for models "
    "that transform their parameters, such as Stan programs, the run stores the transformed values of its final draws "
    "and of 1000 ensemble draws.",
    "# draws from the posterior\nwvgd sample heart -n 4000 --out draws.csv\n# draws from the approximation, "
    "with another seed\nwvgd sample heart -n 4000 --from ensemble --seed 7 | grep -v '^#'\n",
    sample_option,
    "DIR",
    run_sample,
    NULL,
};
