/* cmd_svgd.c - wvgd svgd: the SVGD baseline on any model. */
#include "commands.h"
#include "fit_request.h"
#include "run_session.h"
#include "svgd_session.h"

static wvgd_session *open_svgd(const char *from, const wvgd_request *q, wvgd_error *error)
{
    (void)from;
    return wvgd_open(q, error);
}

static int run_svgd_command(arguments *a, failure *f)
{
    wvgd_request *q = NULL;
    int code = request_svgd(a, &q, f);
    if (!code)
        code = run_session(open_svgd, NULL, q, f);
    wvgd_request_free(q);
    return code;
}

const command svgd_command = {
    "svgd",
    "MODEL [--data FILE] --out DIR",
    "Stein variational gradient descent on the same models, for comparison",
    "Moves particles of equal weight by SVGD (Liu and Wang, 2016) with the RBF kernel. Prints a summary to stdout and "
    "writes run.json, particles.csv, trace.csv and draws.csv (the particles) to DIR. SVGD gives no evidence and no "
    "standard errors; its density is a kernel density estimate. It serves as a baseline: for inference use wvgd fit.",
    "wvgd svgd logistic --data data/iris.csv --standardize --particles 200 --out iris-svgd\n"
    "wvgd svgd mixture --data mixture.json --optimizer adam --step 0.1 --out mixture-svgd\n",
    svgd_option,
    "MODEL",
    run_svgd_command,
    "data target ignore standardize out particles step seed threads max-iter max-seconds overwrite quiet",
};
