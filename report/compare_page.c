/* compare_page.c - several runs on one page, as JSON: the rows of wvgd compare, and of each run, in the same order,
 * what it is, its verdict and its posterior. */
#include "compare_page.h"
#include "run_directory.h"
#include "run_json.h"
#include <sysexits.h>

enum { QUANTITIES = 2000 }; /* of a run that are shown */

/* Names, means and two quantiles of the first quantities. */
static json_t *describe_posterior(const json_t *posterior)
{
    static const char *const keys[] = {"names", "mean", "sd", "q5", "q95"};
    json_t *o = json_object();
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *list = json_object_get(posterior, keys[k]);
        json_t *some = json_array();
        for (size_t i = 0; i < json_array_size(list) && i < QUANTITIES; i++)
            json_array_append(some, json_array_get(list, i));
        json_object_set_new(o, keys[k], some);
    }
    return o;
}

static json_t *describe_one(const json_t *run, const wvgd_compared *row)
{
    static const char *const keys[] = {"command", "model", "data", "priors", "stop", "verdict"};
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "name", json_text(row->run), "log_evidence",
                          json_number(row->log_evidence), "se", json_number(row->se), "difference",
                          json_number(row->difference), "difference_se", json_number(row->difference_se),
                          "bayes_factor", json_number(row->bayes_factor), "probability", json_number(row->probability),
                          "reliable", row->reliable);
    for (size_t k = 0; o && k < sizeof keys / sizeof *keys; k++)
        if (json_object_get(run, keys[k]))
            json_object_set(o, keys[k], json_object_get(run, keys[k]));
    json_object_set_new(o, "posterior", describe_posterior(json_object_get(run, "posterior")));
    return o;
}

static int add_runs(json_t *list, const wvgd_comparison *c, failure *f)
{
    size_t n;
    const wvgd_compared *row = wvgd_comparison_rows(c, &n);
    for (size_t i = 0; i < n; i++) {
        json_t *run = NULL;
        int code = read_run(row[i].run, &run, f);
        if (!code)
            json_array_append_new(list, describe_one(run, &row[i]));
        json_decref(run);
        if (code)
            return code;
    }
    return 0;
}

json_t *describe_comparison(const wvgd_comparison *c, failure *f)
{
    size_t notes;
    json_t *runs = json_array(), *texts = json_array();
    const char *const *note = wvgd_comparison_notes(c, &notes);
    for (size_t i = 0; i < notes; i++)
        json_array_append_new(texts, json_text(note[i]));
    int code = add_runs(runs, c, f);
    json_t *o = json_pack("{s:s, s:{}, s:o, s:o}", "dir", "", "run", "comparison", runs, "notes", texts);
    if (!o && !code)
        code = fail(f, EX_SOFTWARE, "no memory for the comparison");
    if (!code)
        return o;
    json_decref(o);
    return NULL;
}
