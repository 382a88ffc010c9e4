/* cmd_summary.c - wvgd summary: what a run directory says, for people or as JSON. */
#include "commands.h"
#include "run_directory.h"
#include "summary.h"
#include <stdint.h>
#include <stdlib.h>
#include <sysexits.h>

enum { PARTICLES = 20 }; /* shown, unless --all is given */

static int print_json(const json_t *run, failure *f)
{
    if (put_summary_json(stdout, run))
        return fail(f, EX_SOFTWARE, "no memory for the JSON text");
    putchar('\n');
    return ferror(stdout) ? fail(f, EX_IOERR, "cannot write to stdout") : 0;
}

/* The first of what speaks against the result. */
static const char *first_reason(const json_t *run)
{
    const char *text =
        json_string_value(json_array_get(json_object_get(json_object_get(run, "verdict"), "reasons"), 0));
    return text ? text : "-";
}

static bool summary_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"json", 0, NULL, NULL, NULL, "print JSON: the same numbers with all digits", NULL},
        {"all", 0, NULL, NULL, NULL, "show all particles, not only the 20 of greatest mass", NULL},
        {"check", 0, NULL, NULL, NULL, "exit with code 1 if the result is unreliable", NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

static int run_summary(arguments *a, failure *f)
{
    json_t *run = NULL;
    if (!a->words)
        return fail(f, EX_USAGE, "summary: DIR is missing: name a run directory");
    int code = read_run(a->word[0], &run, f);
    if (code)
        return code;
    if (given(a, "json"))
        code = print_json(run, f);
    else
        put_summary(stdout, run, SIZE_MAX, given(a, "all") ? SIZE_MAX : PARTICLES, a->word[0]);
    if (!code && given(a, "check") && !is_reliable(run))
        code = fail(f, EXIT_FAILURE, "the run in %s is unreliable: %s", a->word[0], first_reason(run));
    json_decref(run);
    return code;
}

const command summary_command = {
    "summary",
    "DIR",
    "show the results of a run: parameters, particles, evidence, verdict",
    "Prints the results in the run directory DIR. First data and prior, the log evidence and its lower bound. Then, "
    "for "
    "each parameter: mean, sd, quantiles, effective sample size (ESS) and Monte Carlo standard error (MCSE). If there "
    "are several modes: their masses, their particles, and the means of the parameters that differ most between modes. "
    "For each particle: the mass of its cell, and how well its Gaussian describes the posterior there. Last, a verdict "
    "with reasons and advice. docs/tutorial.md explains each number.",
    "wvgd summary iris\nwvgd summary iris --json | jq .evidence.importance.value\n# in a script: continue only if no "
    "problems were detected\nwvgd summary iris --check >iris.txt && wvgd sample iris --out draws.csv\n",
    summary_option,
    "DIR",
    run_summary,
    NULL,
};
