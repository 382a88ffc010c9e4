/* cmd_fit.c - wvgd fit: makes a request of the command line, and runs it. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "run_session.h"

static wvgd_session *open_fit(const char *dir, const wvgd_request *q, wvgd_error *error)
{
    return dir ? wvgd_resume(dir, q, error) : wvgd_open(q, error);
}

static int run_fit(arguments *a, failure *f)
{
    const char *dir = given(a, "resume");
    wvgd_request *q = NULL;
    int code = dir ? request_changes(a, &q, f) : request_fit(a, &q, f);
    if (!code)
        code = run_session(open_fit, dir, q, f);
    wvgd_request_free(q);
    return code;
}

const command fit_command = {
    "fit",
    "MODEL [--data FILE] --out DIR\n--resume DIR [MODEL.so]",
    "fit a model, print a summary, write the results to a directory",
    "Fits MODEL, a built-in model (see wvgd models) or a shared object. The fit stops when it has converged. It prints "
    "a summary to stdout and writes run.json, particles.csv, trace.csv, history.csv, draws.csv (Stan CSV) and a "
    "checkpoint to DIR. Ctrl-C stops early and writes the results so far; --resume DIR continues. If the model is a "
    "shared object, name it again or give --trust-model.",
    "# logistic regression; the target is the last column of the file\nwvgd fit logistic --data data/iris.csv "
    "--standardize --out iris\n# linear regression of another column on the others but y\nwvgd fit linear --data "
    "data/iris.csv --target petal_width "
    "--ignore y --standardize --out width\n# counts, with a formula as in R\nwvgd fit glm --data data/breaks.csv "
    "--formula 'breaks ~ wool' "
    "--likelihood poisson --out breaks\n# options from a file\nwvgd fit --config iris.json --out iris2\n# your own "
    "model, compiled to a shared object\nwvgd fit ./model.so --data data.json --out mine\n# continue after Ctrl-C, or "
    "with a higher limit\nwvgd fit --resume iris --max-iter 10000\nwvgd fit --resume mine ./model.so\n",
    fit_option,
    "MODEL",
    run_fit,
    "data target ignore standardize formula likelihood missing prior out particles seed threads max-seconds "
    "evidence-se resume overwrite quiet",
};
