/* cmd_report.c - wvgd report: a run directory as one HTML page, or as figures. */
#include "blas_memory.h"
#include "commands.h"
#include "compare_page.h"
#include "figures.h"
#include "fit_options.h"
#include "fit_request.h"
#include "page.h"
#include "run_directory.h"
#include "run_session.h"
#include "text.h"
#include "view_sources.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

static bool report_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"out", 'o', "FILE", NULL, "DIR/report.html", "file for the page", NULL},
        {"figures", 0, "FIGURES", NULL, NULL,
         "write the main plots as SVG and PNG files to this directory (needs gnuplot); write the page only if --out is "
         "given",
         NULL},
        {"model", 0, "MODEL.so", NULL, NULL, NAMED_MODEL_HELP, NULL},
        {"trust-model", 0, NULL, NULL, NULL, TRUST_MODEL_HELP, NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

static int check_path(const char *path, failure *f)
{
    return belongs_to_run(path)
               ? fail(f, EX_CANTCREAT, "%s is a file of a run and would be overwritten: choose another --out", path)
               : 0;
}

/* data: what the page shows, which is freed; NULL: why is in *f. */
static int write_data(json_t *data, const char *path, failure *f)
{
    struct stat about;
    int code = data ? write_page(path, data, f) : f->code;
    json_decref(data);
    if (!code && !stat(path, &about) && S_ISREG(about.st_mode)) {
        fputs("wrote ", stdout);
        put_foreign(stdout, path);
        printf(" (%.2f MB): open it in a browser\n", (double)about.st_size / 1e6);
    }
    return code;
}

static int write_report(run_view *v, const char *path, failure *f)
{
    return check_path(path, f) ? f->code : write_data(describe_report(v, f), path, f);
}

/* Several runs on one page. */
static int report_comparison(arguments *a, failure *f)
{
    const char *out = given(a, "out");
    if (!out)
        return fail(f, EX_USAGE, "report: %zu run directories and no --out: -o FILE names the page that compares them",
                    a->words);
    if (given(a, "figures"))
        return fail(f, EX_USAGE, "report: --figures takes one run directory, found %zu", a->words);
    if (check_path(out, f))
        return f->code;
    if (!has_page())
        return write_page(out, NULL, f);
    wvgd_error error;
    wvgd_comparison *c = wvgd_compare(a->words, a->word, &error);
    int code = c ? write_data(describe_comparison(c, f), out, f) : fail_as(f, &error);
    wvgd_comparison_free(c);
    return code;
}

static int run_report(arguments *a, failure *f)
{
    if (a->words > 1)
        return report_comparison(a, f);
    run_view v = {0};
    view_sources s = {0};
    const char *figures = given(a, "figures"), *out = given(a, "out");
    if (!a->words)
        return fail(f, EX_USAGE, "report: DIR is missing: name a run directory");
    bool page = out || !figures;
    char *path = out ? strdup(out) : run_path(a->word[0], "report.html");
    wvgd_request *q = NULL;
    int code = path ? reserve_blas(1, f) : fail(f, EX_SOFTWARE, "no memory");
    if (!code)
        code = request_trust(a, &q, f);
    wvgd_request_notes(q, print_note, NULL);
    if (!code)
        code = read_whole_view(a->word[0], q, &v, &s, f);
    if (!code && page && !has_page())
        code = write_page(path, NULL, f);
    if (!code && figures)
        code = write_figures(&v, figures, f);
    if (!code && page)
        code = write_report(&v, path, f);
    free_view(&v);
    free_sources(&s);
    wvgd_request_free(q);
    free(path);
    return code;
}

const command report_command = {
    "report",
    "DIR [-o FILE]\nDIR DIR... -o FILE\nDIR --figures FIGURES",
    "write a report: one self-contained HTML page, or figures",
    "Writes an HTML page about the run in DIR. The page is one file and works offline. It shows the verdict with its "
    "reasons, parameters, densities, pairs of parameters with cells and particles, a replay of the fit and, for some "
    "models, their predictions: calibration or residuals, replicated data, effects of columns. With several runs, "
    "writes a page that compares them by their evidence, as wvgd compare does. With --figures, writes the main plots "
    "as SVG and PNG files instead.",
    "wvgd report iris                       # iris/report.html\n"
    "wvgd report iris -o /tmp/iris.html\n"
    "wvgd report with without -o compared.html\n"
    "wvgd report iris --figures figures     # marginals, pair, masses, training: .svg and .png\n",
    report_option,
    "DIR...",
    run_report,
    NULL,
};
