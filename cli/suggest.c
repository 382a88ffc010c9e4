/* suggest.c - words that people try first, and what answers them. */
#include "suggest.h"
#include "text.h"
#include "wvgd_tools.h"
#include <string.h>
#include <sysexits.h>

typedef struct {
    const char *word, *answer;
} likely_word;

static const char *answer_to(const likely_word *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].word, word))
            return list[i].answer;
    return NULL;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */
static const likely_word commands[] = {
    {"run", "use wvgd fit"},
    {"infer", "use wvgd fit"},
    {"train", "use wvgd fit"},
    {"regression", "use wvgd fit linear (a numeric response), logistic (two labels) or glm (a formula)"},
    {"resume", "use wvgd fit --resume DIR"},
    {"continue", "use wvgd fit --resume DIR"},
    {"plot", "use wvgd report DIR for a page with plots, or wvgd report DIR --figures FIGURES for SVG and PNG files"},
    {"show", "use wvgd summary DIR"},
    {"print", "use wvgd summary DIR"},
    {"coef", "use wvgd summary DIR"},
    {"coefficients", "use wvgd summary DIR"},
    {"anova", "use wvgd compare DIR DIR..., which compares runs by their evidence"},
    {"diagnose", "use wvgd summary DIR, which ends with a verdict and its reasons"},
    {"check", "use wvgd summary DIR --check, which exits with code 1 if the result is unreliable"},
    {"validate", "use wvgd summary DIR --check, which exits with code 1 if the result is unreliable"},
    {"status", "use wvgd summary DIR"},
    {"export", "use wvgd summary DIR --json, or wvgd sample DIR for draws"},
    {"draw", "use wvgd sample DIR"},
    {"posterior", "use wvgd summary DIR for means and quantiles, or wvgd sample DIR for draws"},
    {"evidence", "use wvgd summary DIR, or wvgd compare DIR DIR... for several runs"},
    {"draws", "use wvgd sample DIR"},
    {"compile", "use wvgd stan-compile PROGRAM.stan"},
    {"list", "use wvgd models"},
    {"version", "use wvgd --version"},
    {"score", "scores are not available yet; wvgd summary DIR prints the log evidence"},
    {"evaluate", "scores are not available yet; wvgd summary DIR prints the log evidence and a verdict"},
    {"loo", "cross-validation is not available yet; wvgd compare DIR DIR... compares runs by their evidence"},
    {"waic", "it is not available yet; wvgd compare DIR DIR... compares runs by their evidence"},
    {"batch", "batches are not available yet; run wvgd fit once for each data set"},
};

/* A model or a data file in the place of a command. */
static int refuse_other_word(const char *name, failure *f)
{
    if (ends_in(name, ".so"))
        return fail(f, EX_USAGE, "%.200s is a model: write wvgd fit %.200s", name, name);
    if (ends_in(name, ".stan"))
        return fail(f, EX_USAGE, "%.200s is a Stan program: write wvgd stan %.200s", name, name);
    if (ends_in(name, ".csv") || ends_in(name, ".json"))
        return fail(f, EX_USAGE, "%.200s is a file, not a command: write wvgd fit MODEL --data %.200s", name, name);
    for (size_t i = 0; wvgd_model_describe(i); i++)
        if (!strcmp(name, wvgd_model_describe(i)->name))
            return fail(f, EX_USAGE, "%s is a model, not a command: write wvgd fit %s", name, name);
    return 0;
}

int refuse_command(const char *name, failure *f)
{
    const char *names[32] = {NULL};
    for (size_t i = 0; i + 1 < sizeof names / sizeof *names && describe_command(i); i++)
        names[i] = describe_command(i)->name;
    const char *answer = answer_to(commands, sizeof commands / sizeof *commands, name);
    if (answer)
        return fail(f, EX_USAGE, "unknown command '%s': %s", name, answer);
    if (refuse_other_word(name, f))
        return f->code;
    const char *near = find_nearest(name, names);
    return fail(f, EX_USAGE,
                near ? "unknown command '%.60s': did you mean %s?" : "unknown command '%.60s': see wvgd --help", name,
                near);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */
/* The options that words mean, where a command has them. */
static const likely_word options[] = {
    {"iterations", "max-iter"},
    {"iter", "max-iter"},
    {"iters", "max-iter"},
    {"num-iterations", "max-iter"},
    {"max-iters", "max-iter"},
    {"max-iterations", "max-iter"},
    {"time", "max-seconds"},
    {"timeout", "max-seconds"},
    {"output", "out"},
    {"output-dir", "out"},
    {"dir", "out"},
    {"input", "data"},
    {"file", "data"},
    {"csv", "data"},
    {"response", "target"},
    {"label", "target"},
    {"outcome", "target"},
    {"exclude", "ignore"},
    {"drop", "ignore"},
    {"force", "overwrite"},
    {"silent", "quiet"},
    {"cores", "threads"},
    {"jobs", "threads"},
    {"n", "draws"},
    {"samples", "draws"},
    {"num-samples", "draws"},
    {"random-state", "seed"},
    {"tolerance", "tol"},
    {"normalize", "standardize"},
    {"scale", "standardize"},
    {"prior-scale", "prior-sd"},
    {"plots", "figures"},
    {"format", "json"},
    {"newdata", "data"},
    {"dlogz", "evidence-se"},
    {"continue", "resume"},
    {"exist-ok", "overwrite"},
    {"workers", "threads"},
    {"progress", "quiet"},
    {"no-progress", "quiet"},
    {"na.action", "missing"},
    {"nsamples", "draws"},
    {"ndraws", "draws"},
};

/* What there is instead, where a command reads data. */
static const likely_word answers[] = {
    {"columns", "--features A,B names the features, and --ignore A,B the columns to leave out"},
    {"offset", "the formula of a glm has the offset, as in 'y ~ x + offset(log(exposure))'"},
    {"sep", "--delimiter C says what separates the fields of a CSV file"},
    {"chains", "a fit needs no chains; --repeat R runs independent fits"},
    {"warmup", "there is no warm-up"},
    {"nlive", "there are no live points; --evidence-se sets the precision"},
    {"live-points", "there are no live points; --evidence-se sets the precision"},
    {"walkers", "there are no walkers; --evidence-se sets the precision"},
    {"bounds", "limits belong to the model: see wvgd_model_bounded in docs/c.md"},
    {"dim", "the dimension belongs to the model: dim in wvgd_model"},
    {"ndim", "the dimension belongs to the model: dim in wvgd_model"},
    {"names", "names of parameters belong to the model: names in wvgd_model"},
    {"gradient", "the model says whether it has gradients; --check-gradient checks them"},
    {"no-gradient", "the model says that it has none: has_gradient = false in C"},
    {"factor", "columns of texts are categories; write factor(x) in the formula of a glm for one of numbers"},
    {"categorical", "columns of texts are categories; write factor(x) in the formula of a glm for one of numbers"},
    {"interval", "predict writes q5 to q95 of the mean, and lower to upper of the response: 90 % each"},
    {"level", "predict writes q5 to q95 of the mean, and lower to upper of the response: 90 % each"},
    {"type", "predict writes the mean response, its uncertainty, and limits of the response itself"},
};

static bool has_option(const command *c, const char *name, option_line *line)
{
    for (size_t i = 0; c->option && c->option(i, line); i++)
        if (!strcmp(line->name, name))
            return true;
    return false;
}

bool is_likely_option(const char *word)
{
    return answer_to(options, sizeof options / sizeof *options, word) ||
           answer_to(answers, sizeof answers / sizeof *answers, word);
}

/* Another command that has the option: fit, if it does. */
static const command *find_owner(const char *name)
{
    option_line line;
    for (size_t i = 0; describe_command(i); i++)
        if (has_option(describe_command(i), name, &line))
            return describe_command(i);
    return NULL;
}

static const char *nearest_option(const command *c, const char *word)
{
    enum { MOST = 200 };
    static const char *const everywhere[] = {"help", "help-all", "version"};
    const char *names[MOST + 4] = {NULL};
    size_t n = 0;
    option_line line;
    for (; n < MOST && c->option && c->option(n, &line); n++)
        names[n] = line.name;
    memcpy(names + n, everywhere, sizeof everywhere);
    return find_nearest(word, names);
}

int refuse_option(const command *c, const char *word, const char *option, failure *f)
{
    option_line line;
    const char *meant = answer_to(options, sizeof options / sizeof *options, word),
               *answer = answer_to(answers, sizeof answers / sizeof *answers, word);
    if (meant && has_option(c, meant, &line)) {
        char letter[] = {'-', line.letter, '\0'};
        return fail(f, EX_USAGE, "%s: unknown option --%s: did you mean %s%s--%s%s%s?", c->name, word,
                    line.letter ? letter : "", line.letter ? ", " : "", meant, option ? " or --" : "",
                    option ? option : "");
    }
    if (answer && has_option(c, "data", &line))
        return fail(f, EX_USAGE, "%s: unknown option --%s: %s", c->name, word, answer);
    const command *owner = find_owner(word);
    if (owner)
        return fail(f, EX_USAGE, "%s: unknown option --%s: it is an option of wvgd %s", c->name, word, owner->name);
    const char *near = nearest_option(c, word);
    if (near)
        return fail(f, EX_USAGE, "%s: unknown option --%s: did you mean --%s?", c->name, word, near);
    return fail(f, EX_USAGE, "%s: unknown option --%s: see wvgd %s --help%s", c->name, word, c->name,
                c->basic ? "-all" : "");
}
