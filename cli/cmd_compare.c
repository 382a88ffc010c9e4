/* cmd_compare.c - wvgd compare: runs side by side, the one that the data support most first. */
#include "commands.h"
#include "run_session.h"
#include "say.h"
#include "text.h"
#include <string.h>
#include <sysexits.h>

static bool compare_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"json", 0, NULL, NULL, NULL, "print JSON: a list with an object for each run, with all digits", NULL},
    };
    if (i >= sizeof table / sizeof *table)
        return false;
    *line = table[i];
    return true;
}

static int print_rows(wvgd_comparison *c, bool json, failure *f)
{
    const char *text;
    size_t n;
    wvgd_error error;
    if (wvgd_comparison_text(c, json, &text, &error) != WVGD_OK)
        return fail_as(f, &error);
    fputs(text, stdout);
    if (json)
        putchar('\n');
    const char *const *note = wvgd_comparison_notes(c, &n);
    for (size_t i = 0; i < n; i++)
        say("%s", note[i]);
    return 0;
}

static int run_compare(arguments *a, failure *f)
{
    wvgd_error error;
    if (a->words < 2)
        return fail(f, EX_USAGE, "compare: found %zu run director%s, expected at least two", a->words,
                    a->words == 1 ? "y" : "ies");
    wvgd_comparison *c = wvgd_compare(a->words, a->word, &error);
    int code = c ? print_rows(c, given(a, "json") != NULL, f) : fail_as(f, &error);
    wvgd_comparison_free(c);
    return code;
}

const command compare_command = {
    "compare",
    "DIR DIR...",
    "compare runs by their evidence: Bayes factors and probabilities of models",
    "Prints a row for each run, the best one first: its log evidence and the difference to the best run, with their "
    "standard errors; the Bayes factor against the best run, which is the exponential of the difference; the "
    "probability of the run, if all were equally probable before the data; and whether it is reliable. "
    "The evidence depends on the priors: a line on stderr says when they differ. Regressions that explain "
    "different responses, or different rows, are refused. wvgd cannot see which data a function, a shared object or a "
    "Stan "
    "program explains: it says so, and the comparison is right only if they are the same. Neither models nor data are "
    "needed.",
    "wvgd fit linear --data cars.csv --out all\nwvgd fit linear --data cars.csv --ignore weight --out less\n"
    "wvgd compare all less\nwvgd compare all less --json | jq '.[0].run'\n",
    compare_option,
    "DIR...",
    run_compare,
    NULL,
};
