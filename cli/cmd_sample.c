/* cmd_sample.c - wvgd sample: draws from a fit that has ended, as Stan CSV. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "run_session.h"
#include <sysexits.h>

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
        {"overwrite", 0, NULL, NULL, NULL, "replace FILE if it exists", NULL},
        {"seed", 0, "N", "0..2^64-1", "1", "random seed of the draws", NULL},
        {"model", 0, "MODEL.so", NULL, NULL, NAMED_MODEL_HELP, NULL},
        {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP, NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
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

static int write_sample(const arguments *a, const wvgd_request *q, wvgd_draws_kind kind, uint64_t seed, size_t n,
                        failure *f)
{
    wvgd_error error;
    wvgd_session *s = wvgd_load(a->word[0], q, &error);
    wvgd_status status = s ? wvgd_session_write_draws(s, kind, seed, n, given(a, "out"), stdout, &error) : error.code;
    wvgd_session_close(s);
    return status == WVGD_OK ? 0 : fail_as(f, &error);
}

static int run_sample(arguments *a, failure *f)
{
    size_t n = given(a, "weighted") ? 0 : 1000;
    uint64_t seed = 1;
    wvgd_draws_kind kind = WVGD_DRAWS_RESAMPLED;
    wvgd_request *q = NULL;
    if (!a->words)
        return fail(f, EX_USAGE, "sample: DIR is missing: name a run directory");
    int code = given_kind(a, &kind, f);
    if (!code)
        code = given_count(a, "draws", &n, f);
    if (!code)
        code = given_seed(a, "seed", &seed, f);
    if (!code)
        code = request_trust(a, &q, f);
    if (!code)
        code = check_out_file(a, f);
    wvgd_request_notes(q, print_note, NULL);
    if (!code)
        code = write_sample(a, q, kind, seed, n, f);
    wvgd_request_free(q);
    return code;
}

const command sample_command = {
    "sample",
    "DIR",
    "write draws from the posterior of a finished fit as Stan CSV",
    "Writes draws from the run in DIR as Stan CSV. By default they come from the posterior, by importance resampling; "
    "--weighted writes all final draws of the fit with their weights instead. --from ensemble draws from the fitted "
    "approximation "
    "instead; the model is not evaluated there, so lp__ is NaN. Neither model nor data are needed: for models "
    "that transform their parameters, such as Stan programs, the run stores the transformed values of its final draws "
    "and of 1000 ensemble draws.",
    "# draws from the posterior\nwvgd sample iris -n 4000 --out draws.csv\n# draws from the approximation, "
    "with another seed\nwvgd sample iris -n 4000 --from ensemble --seed 7 | grep -v '^#'\n",
    sample_option,
    "DIR",
    run_sample,
    NULL,
};
