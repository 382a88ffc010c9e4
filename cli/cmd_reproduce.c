/* cmd_reproduce.c - wvgd reproduce: the experiments of the paper, by the table in experiments/reproduce.c. */
#include "blas_memory.h"
#include "commands.h"
#include "reproduce.h"
#include "run_directory.h"
#include "signals.h"
#include "text.h"
#include "say.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const option_line reproduce_options[] = {
    {"out", 'o', "DIR", NULL, "reproduction",
     "directory for tables and figures; existing files are replaced. With all: one subdirectory per experiment", NULL},
    {"seed", 0, "N", "0..2^64-1", "1", "random seed", NULL},
    {"quick", 0, NULL, NULL, NULL, "run a much smaller version, to test that everything works", NULL},
    {"threads", 0, "N", "1..4096", "all cores", "number of fits to run in parallel; results do not depend on it", NULL},
    {"targets", 0, "FILE", NULL, NULL,
     "mixture: read targets from a JSON file: {\"targets\": [{\"weights\": [..], \"means\": [..], \"sds\": [..]}, ..]}",
     NULL},
    {"random-targets", 0, "K", "1..1000", NULL,
     "mixture: use K random targets, drawn by the paper's rule, instead of the fixed ones", NULL},
    {"quiet", 'q', NULL, NULL, NULL, "show no progress on stderr", NULL},
};

static bool reproduce_option(size_t i, option_line *line)
{
    if (i >= sizeof reproduce_options / sizeof *reproduce_options)
        return false;
    *line = reproduce_options[i];
    return true;
}

static const experiment *find_experiment(const char *name, failure *f)
{
    const char *names[32] = {"all"};
    const experiment *e;
    for (size_t i = 0; i + 2 < sizeof names / sizeof *names && (e = describe_experiment(i)); i++) {
        names[i + 1] = e->name;
        if (!strcmp(e->name, name))
            return e;
    }
    const char *near = find_nearest(name, names);
    fail(f, EX_USAGE,
         near ? "reproduce: unknown experiment '%.60s': did you mean %s?"
              : "reproduce: unknown experiment '%.60s': see wvgd reproduce --help",
         name, near);
    return NULL;
}

static int make_directory(const char *dir, failure *f)
{
    struct stat about;
    if (!mkdir(dir, 0777) || (errno == EEXIST && !stat(dir, &about) && S_ISDIR(about.st_mode)))
        return 0;
    return fail(f, EX_CANTCREAT, "cannot create the directory %s: %s", dir, strerror(errno));
}

static int run_one(const experiment *e, const reproduction *asked, const char *out, failure *f)
{
    reproduction r = *asked;
    int code = make_directory(out, f);
    r.out = out;
    r.name = e->name;
    if (code)
        return code;
    if (!r.quiet)
        say("%s: %s", e->name, e->line);
    double begun = now_seconds();
    code = e->run(&r, f);
    if (!code && !r.quiet)
        say("%s took %.0f s; results are in %s", e->name, now_seconds() - begun, out);
    return code;
}

static int run_all(const reproduction *asked, const char *out, failure *f)
{
    int code = make_directory(out, f);
    for (size_t i = 0; !code && describe_experiment(i); i++) {
        char *dir = run_path(out, describe_experiment(i)->name);
        code = dir ? run_one(describe_experiment(i), asked, dir, f) : fail(f, EX_SOFTWARE, "no memory");
        free(dir);
    }
    return code;
}

static int run_reproduce(arguments *a, failure *f)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = cores > 0 ? (size_t)cores : 1;
    reproduction r = {.seed = 1,
                      .quick = given(a, "quick"),
                      .quiet = given(a, "quiet"),
                      .targets = given(a, "targets")};
    const char *out = given(a, "out") ? given(a, "out") : "reproduction", *name = a->words ? a->word[0] : NULL;
    if (!name)
        return fail(f, EX_USAGE, "reproduce: NAME is missing: see wvgd reproduce --help");
    const experiment *e = strcmp(name, "all") ? find_experiment(name, f) : NULL;
    int code = e || !strcmp(name, "all") ? 0 : f->code;
    if (!code)
        code = given_seed(a, "seed", &r.seed, f);
    if (!code)
        code = given_count(a, "threads", &threads, f);
    if (!code)
        code = given_count(a, "random-targets", &r.random_targets, f);
    if (!code && r.targets && r.random_targets)
        code = fail(f, EX_USAGE, "reproduce: give either --targets or --random-targets, not both");
    if (!code)
        code = reserve_blas(threads, f);
    if (code)
        return code;
    r.threads = (unsigned)threads;
    char *line = command_text(a);
    if (!line)
        return fail(f, EX_SOFTWARE, "no memory for the command line");
    r.command = line;
    catch_signals(false);
    code = e ? run_one(e, &r, out, f) : run_all(&r, out, f);
    free(line);
    return code;
}

const command reproduce_command = {
    "reproduce",
    "NAME|all [--quick] [--out DIR]",
    "run the paper's experiments and compare with its numbers",
    "Runs one experiment (mixture, logistic, gp, bnn, theory) or all of them. Writes results.csv (one row per run), "
    "results.md (tables with the paper's numbers beside ours) and, if gnuplot is installed, figures (SVG and PNG) to "
    "DIR.",
    "wvgd reproduce mixture --out mixture\n# test that everything works; takes at most two minutes\nwvgd reproduce all "
    "--quick --out quick\n",
    reproduce_option,
    "mixture|logistic|gp|bnn|theory|all",
    run_reproduce,
    NULL,
};
