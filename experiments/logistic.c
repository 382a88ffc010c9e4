/* logistic.c - the paper's table: PELBO of Bayesian logistic regression by number of particles, on twenty subsets of
 * 50 rows of four data sets, with features standardised and as they are.
 *
 * The table is about how good the bound of N truncated Gaussians can be, so it has the joint solver, which fits
 * them to the posterior itself: a fit for each subset, family and number of particles. The staged solver
 * (the default) spends a hundredth of the evaluations and fits them to its own mixture; one fit a subset
 * (family full, one particle), whose draws are cut into 1 to 5 cells (wvgd_quantize), more than one on the
 * first subsets only. A fit estimates its bound from some hundred or thousand draws; for the tables it is
 * evaluated once more, from many (sharp_bound.h) or, with one particle, by quadrature. Beside them the best
 * Gaussian of the family, exactly (logistic_bound.h). */
#include "logistic.h"
#include "sharp_bound.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* In the order of the paper's table. */
static const char *const set_names[SETS] = {"boston", "diabetes", "iris", "cancer"};
const char *const family_names[FAMILIES] = {"diag", "full"};
const char *const solver_names[SOLVERS] = {"joint", "staged"};
static const wvgd_family families[FAMILIES] = {WVGD_DIAG, WVGD_FULL};

enum { BOUND_DRAWS = 20000 };

/* Sets of a quick run are those with the fewest weights. */
static const size_t quick_sets[] = {2};

static size_t set_of(const logistic_study *study, size_t k)
{
    return study->r->quick ? quick_sets[k] : k;
}

static int run_fit(wvgd_fit *fit, const logistic_data *rows, const wvgd_options *o, logistic_run *out,
                   wvgd_error *error)
{
    wvgd_results r;
    double begun = now_seconds();
    if (!fit || wvgd_run(fit, NULL, NULL, error) != WVGD_OK)
        return -1;
    wvgd_get_results(fit, &r);
    *out = (logistic_run){.pelbo = r.pelbo,
                          .pelbo_beta = r.pelbo_beta,
                          .evidence = r.evidence,
                          .evaluations = r.evaluations,
                          .seconds = now_seconds() - begun,
                          .reliable = r.reliable};
    if (o->particles == 1)
        out->bound.value = o->family == WVGD_FULL ? logistic_elbo_full(rows, r.mu, r.chol)
                                                  : logistic_elbo_diag(rows, r.mu, r.sd);
    return 0;
}

/* One fit of the joint solver, or cells from the draws of `base`. */
static int fit_cells(const wvgd_model *model, const wvgd_fit *base, const logistic_data *rows, const wvgd_options *o,
                     logistic_run *out, wvgd_error *error)
{
    wvgd_fit *fit = base ? wvgd_quantize(base, o, error) : wvgd_new(model, o, NULL, error);
    int failed = run_fit(fit, rows, o, out, error);
    if (!failed && o->particles > 1)
        failed = sharpen_bound(model, fit, BOUND_DRAWS, o->seed, &out->bound, error);
    wvgd_free(fit);
    return failed;
}

/* Both families, 1 to `most` particles. */
static int fit_all(const wvgd_model *model, const wvgd_fit *base, const logistic_data *rows, size_t most,
                   wvgd_options *o, logistic_run out[FAMILIES][MOST_PARTICLES], wvgd_error *error)
{
    for (size_t k = 0; k < FAMILIES; k++)
        for (size_t N = 1; N <= most; N++) {
            o->particles = N;
            o->family = families[k];
            /* of the joint solver: to settle several particles to the default takes twice as long
             * and changes nothing in the table */
            o->tol = N == 1 ? 0.005 : 0.02;
            if (fit_cells(model, base, rows, o, &out[k][N - 1], error))
                return -1;
        }
    return 0;
}

static int fit_rows(const logistic_study *study, size_t s, const wvgd_model *model, const logistic_data *rows,
                    logistic_subset *out, wvgd_error *error)
{
    wvgd_options o;
    logistic_run first;
    wvgd_options_init(&o);
    o.seed = study->r->seed;
    o.solver = WVGD_JOINT;
    if (fit_all(model, NULL, rows, study->particles, &o, out->run[JOINT], error))
        return -1;
    wvgd_options_init(&o);
    o.seed = study->r->seed;
    o.particles = 1;
    o.family = WVGD_FULL;
    wvgd_fit *base = wvgd_new(model, &o, NULL, error);
    int failed = run_fit(base, rows, &o, &first, error) ||
                 fit_all(model, base, rows, s < study->staged_subsets ? study->particles : 1, &o, out->run[STAGED],
                         error);
    wvgd_free(base);
    return failed;
}

static int find_optima(const logistic_data *rows, logistic_subset *out)
{
    size_t D = rows->D;
    double *work = calloc(2 * D + D * D, sizeof *work);
    out->optimum[0] = work ? logistic_meanfield(rows, work, work + D) : (double)NAN;
    out->optimum[1] = work ? logistic_fullrank(rows, work, work + 2 * D) : (double)NAN;
    free(work);
    return isfinite(out->optimum[0]) && isfinite(out->optimum[1]) ? 0 : -1;
}

/* Job i: subset by subset, so that the long ones are spread. */
static int fit_subset(void *self, size_t i, failure *f)
{
    logistic_study *study = self;
    size_t each = study->sets * SCALINGS, s = i / each, k = set_of(study, i % each / SCALINGS), how = i % SCALINGS;
    logistic_subset *out = &study->subset[k][how][s];
    wvgd_model model;
    logistic_data rows;
    wvgd_error error;
    int code = open_logistic_subset(&study->set[k], s, (scaling)how, &model, &rows, f);
    if (code)
        return code;
    if (find_optima(&rows, out))
        code = fail(f, EX_SOFTWARE, "%s, subset %zu, %s: the exact optimum was not found", study->set[k].name, s,
                    scaling_names[how]);
    else if (fit_rows(study, s, &model, &rows, out, &error))
        code = fail(f, EX_SOFTWARE, "%s, subset %zu, %s: %s", study->set[k].name, s, scaling_names[how], error.text);
    wvgd_model_close(&model);
    free(rows.X);
    return code;
}

static int run_logistic(const reproduction *r, failure *f)
{
    logistic_study *study = calloc(1, sizeof *study);
    if (!study)
        return fail(f, EX_SOFTWARE, "no memory for the experiment %s", r->name);
    study->r = r;
    study->sets = r->quick ? sizeof quick_sets / sizeof *quick_sets : SETS;
    study->subsets = r->quick ? 2 : SUBSETS;
    study->particles = r->quick ? 2 : MOST_PARTICLES;
    study->staged_subsets = r->quick ? 1 : 5;
    int code = 0;
    for (size_t k = 0; k < SETS && !code; k++)
        code = read_logistic_set(set_names[k], &study->set[k], f);
    if (!code)
        code = run_jobs(r, "subsets", study->subsets * study->sets * SCALINGS, fit_subset, study, f);
    if (!code)
        code = write_logistic(study, f);
    for (size_t k = 0; k < SETS; k++)
        free_logistic_set(&study->set[k]);
    free(study);
    return code;
}

const experiment logistic_experiment = {
    "logistic", "logistic regression on 20 subsets of four data sets: PELBO by number of particles", run_logistic};
