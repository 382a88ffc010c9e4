/* gp.c - hyperparameters of a Gaussian process whose posterior allows two readings of the series: particles,
 * their cells and masses against quadrature.
 *
 * Series: one that was simulated and has both readings, each with much mass (gp_reference.py says how it was
 * chosen and integrates its posterior), and the lynx of data/. Each is fitted with several seeds; the draws of
 * a fit are cut into 2 to 5 cells. A particle is of the reading that the rule of gp.h gives its
 * hyperparameters; beta and the means of a reading are those of its particles together. The same from the
 * weighted draws, each by the rule, needs no cells. */
#include "gp.h"
#include "json_file.h"
#include "shared_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

const char *const reading_names[READINGS] = {"oscillation", "smooth or noise"};
static const char *const parameter_names[GP_PARAMETERS] = {"log_A", "log_f", "log_s", "log_B"};

int reading_of(const double *theta)
{
    return theta[1] + theta[2] > 0 && theta[0] > theta[3] ? OSCILLATION : SMOOTH;
}

static const gp_case cases[] = {
    {"simulated",
     "experiments/gp_simulated.csv",
     "experiments/gp_simulated_reference.json",
     {{0, -2.3, 0.7, -1.2}, {1, 0.7, 0.5, 1.25}},
     {{24, -3.2, 2.2}, {300, -4.8, 0.8}, {16, -0.6, 2.6}, {90, -3.0, 0.8}},
     3},
    {"lynx",
     "data/lynx.csv",
     "experiments/gp_lynx_reference.json",
     {{-1, -2.3, 1.5, -3}, {1, 0.5, 1, 1.5}},
     {{24, -2.2, -0.2}, {90, -3.5, -2.0}, {24, 0.5, 1.8}, {60, -5.2, -3.5}},
     3},
};
enum {
    CASES = sizeof cases / sizeof *cases,
    SEEDS = 5,
    LEAST_CELLS = 2,
    MOST_CELLS = 5,
    CUTS = MOST_CELLS - LEAST_CELLS + 1,
    MANY_STARTS = 400
};

/* Cells by each particle's own covariance, which is what keeps readings apart, and by one metric
 * for all; the draws, without cells. */
enum { OWN, ONE_METRIC, COSTS };
static const wvgd_cost costs[COSTS] = {WVGD_OWN, WVGD_MAHALANOBIS};
static const char *const cost_names[COSTS] = {"own", "mahalanobis"};

/* Ascents: as many as the program thinks fit, or many. */
enum { FEW, MANY, EFFORTS };
static const size_t efforts[EFFORTS] = {0, MANY_STARTS};
static const char *const effort_names[EFFORTS] = {"default", "400"};

typedef struct {
    gp_summary cells[COSTS][CUTS], draws;
    wvgd_estimate evidence;
    size_t evaluations, starts;
    double seconds;
    bool reliable;
} gp_run;

typedef struct {
    const reproduction *r;
    size_t cases, seeds, cuts, least_effort; /* of a quick run: fewer */
    series_data series[CASES];
    gp_summary reference[CASES];
    gp_run run[CASES][EFFORTS][SEEDS];
    wvgd_fit *picture[CASES]; /* the cells that are drawn */
    wvgd_model model[CASES];
} gp_study;

/* ---- input ------------------------------------------------------------------------------------------------------- */
static int read_numbers(const char *path, json_t *list, const char *where, size_t n, double *value, failure *f)
{
    if (json_array_size(list) != n)
        return refuse_json(path, where, list, "an array of as many numbers as there are readings or parameters", f);
    for (size_t i = 0; i < n; i++) {
        json_t *number = json_array_get(list, i);
        if (!json_is_number(number))
            return refuse_json(path, where, number, "a number", f);
        value[i] = json_number_value(number);
    }
    return 0;
}

static int read_summary(const char *path, json_t *root, gp_summary *out, failure *f)
{
    json_t *error = json_object_get(root, "error"), *evidence = json_object_get(root, "log_evidence");
    if (!json_is_number(evidence))
        return refuse_json(path, "log_evidence", evidence, "a number", f);
    out->log_evidence = json_number_value(evidence);
    out->error_mass = json_number_value(json_object_get(error, "mass"));
    out->error_mean = json_number_value(json_object_get(error, "mean_in_sd"));
    int code = read_numbers(path, json_object_get(root, "mass"), "mass", READINGS, out->mass, f);
    for (size_t k = 0; k < READINGS && !code; k++) {
        code = read_numbers(path, json_array_get(json_object_get(root, "mean"), k), "mean[]", GP_PARAMETERS,
                            out->mean[k], f);
        if (!code)
            code = read_numbers(path, json_array_get(json_object_get(root, "sd"), k), "sd[]", GP_PARAMETERS, out->sd[k],
                                f);
    }
    return code;
}

static int read_reference(const char *name, gp_summary *out, failure *f)
{
    json_t *root = NULL;
    char *path = find_shared(name, f);
    int code = path ? load_json(path, 0, &root, f) : f->code;
    if (!code)
        code = read_summary(path, root, out, f);
    json_decref(root);
    free(path);
    return code;
}

static int read_case(gp_study *study, size_t c, failure *f)
{
    char *path = find_shared(cases[c].data, f);
    int code = path ? read_series(path, NULL, &study->series[c], f) : f->code;
    free(path);
    if (!code &&
        wv_model_gp(&study->model[c], study->series[c].n, study->series[c].t, study->series[c].y, &cases[c].prior))
        code = fail(f, EX_SOFTWARE, "no memory for the series %s", cases[c].name);
    return code ? code : read_reference(cases[c].reference, &study->reference[c], f);
}

/* ---- summaries of a fit ------------------------------------------------------------------------------------------ */
/* Adds a point of weight w; sums become means at the end. */
static void add_point(gp_summary *s, const double *theta, double w)
{
    int k = reading_of(theta);
    s->mass[k] += w;
    for (size_t d = 0; d < GP_PARAMETERS; d++)
        s->mean[k][d] += w * theta[d];
}

/* Nothing of a reading: its means are NAN. */
static void finish_summary(gp_summary *s)
{
    for (size_t k = 0; k < READINGS; k++)
        for (size_t d = 0; d < GP_PARAMETERS; d++)
            s->mean[k][d] = s->mass[k] > 0 ? s->mean[k][d] / s->mass[k] : (double)NAN;
}

static int summarise_draws(const wvgd_fit *fit, gp_summary *out, wvgd_error *error)
{
    size_t n;
    const double *z, *w = wvgd_draw_weights(fit);
    if (!w || wvgd_draws(fit, &n, &z, NULL, NULL, NULL, error) != WVGD_OK)
        return -1;
    *out = (gp_summary){0};
    for (size_t i = 0; i < n; i++)
        add_point(out, z + i * GP_PARAMETERS, w[i]);
    finish_summary(out);
    return 0;
}

static void summarise_cells(const wvgd_fit *fit, gp_summary *out)
{
    wvgd_results r;
    wvgd_get_results(fit, &r);
    *out = (gp_summary){0};
    for (size_t j = 0; j < r.N; j++)
        add_point(out, r.z + j * GP_PARAMETERS, r.beta[j]);
    finish_summary(out);
}

/* The worst mean of a reading, in sds of the reference; NAN: there is none. */
static double mean_error(const gp_summary *s, const gp_summary *reference, size_t k)
{
    double worst = 0;
    for (size_t d = 0; d < GP_PARAMETERS; d++)
        worst = isnan(s->mean[k][d]) ? (double)NAN
                                     : fmax(worst, fabs(s->mean[k][d] - reference->mean[k][d]) / reference->sd[k][d]);
    return worst;
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */
/* With few starts: two cells only, to see whether both readings are there. */
static size_t costs_cut(size_t effort)
{
    return effort == MANY ? COSTS : 1;
}

static size_t numbers_cut(const gp_study *study, size_t effort)
{
    return effort == MANY ? study->cuts : 1;
}

static int cut(gp_study *study, size_t c, size_t effort, bool keep, const wvgd_fit *base, wvgd_options *o, gp_run *out,
               wvgd_error *error)
{
    for (size_t k = 0; k < costs_cut(effort); k++)
        for (size_t i = 0; i < numbers_cut(study, effort); i++) {
            o->cost = costs[k];
            o->particles = LEAST_CELLS + i;
            wvgd_fit *fit = wvgd_quantize(base, o, error);
            int failed = !fit || wvgd_run(fit, NULL, NULL, error) != WVGD_OK;
            if (!failed)
                summarise_cells(fit, &out->cells[k][i]);
            if (keep && !failed && k == OWN && (o->particles == cases[c].figure_particles || !study->picture[c])) {
                wvgd_free(study->picture[c]);
                study->picture[c] = fit;
            } else
                wvgd_free(fit);
            if (failed)
                return -1;
        }
    return 0;
}

static int fit_case(gp_study *study, size_t c, size_t effort, size_t seed, gp_run *out, wvgd_error *error)
{
    double begun = now_seconds();
    wvgd_options o;
    wvgd_results r;
    wvgd_options_init(&o);
    o.particles = LEAST_CELLS;
    o.family = WVGD_FULL;
    o.cost = WVGD_OWN;
    o.starts = efforts[effort];
    o.evidence_se = 0.006; /* the default gives means to a tenth of an sd at best */
    o.seed = study->r->seed + seed;
    wvgd_fit *base = wvgd_new(&study->model[c], &o, NULL, error);
    int failed = !base || wvgd_run(base, NULL, NULL, error) != WVGD_OK || summarise_draws(base, &out->draws, error);
    if (!failed) {
        wvgd_get_results(base, &r);
        out->evidence = r.evidence;
        out->evaluations = r.evaluations;
        out->starts = r.starts;
        out->reliable = r.reliable;
        failed = cut(study, c, effort, effort == MANY && seed == 0, base, &o, out, error);
        out->seconds = now_seconds() - begun;
    }
    wvgd_free(base);
    return failed;
}

static int fit_job(void *self, size_t i, failure *f)
{
    gp_study *study = self;
    size_t each = EFFORTS - study->least_effort, effort = study->least_effort + i % each, c = i / each % study->cases,
           seed = i / each / study->cases;
    wvgd_error error;
    if (fit_case(study, c, effort, seed, &study->run[c][effort][seed], &error))
        return fail(f, EX_SOFTWARE, "%s, seed %zu: %s", cases[c].name, seed, error.text);
    return 0;
}

/* ---- results.csv, particles.csv ---------------------------------------------------------------------------------- */
static void put_rows(FILE *out, const gp_study *study, size_t c, size_t effort, size_t seed, const char *from,
                     size_t particles, const gp_summary *s)
{
    const gp_run *run = &study->run[c][effort][seed];
    const gp_summary *reference = &study->reference[c];
    for (size_t k = 0; k < READINGS; k++) {
        fprintf(out, "%s,%llu,%s,%s,%zu,%s,%.6f,%.6f,%.6f", cases[c].name, (unsigned long long)study->r->seed + seed,
                effort_names[effort], from, particles, reading_names[k], s->mass[k], reference->mass[k],
                mean_error(s, reference, k));
        for (size_t d = 0; d < GP_PARAMETERS; d++)
            fprintf(out, ",%.6f,%.6f,%.6f", s->mean[k][d], reference->mean[k][d], reference->sd[k][d]);
        fprintf(out, ",%.5f,%.5f,%.5f,%zu,%zu,%.3f,%d\n", run->evidence.value, run->evidence.se,
                reference->log_evidence, run->starts, run->evaluations, run->seconds, run->reliable);
    }
}

static int write_rows(const gp_study *study, failure *f)
{
    whole_file w;
    if (begin_result(study->r, "results.csv", &w, f))
        return f->code;
    fputs("series,seed,starts_asked,from,particles,interpretation,mass,reference_mass,worst_mean_error_sd", w.stream);
    for (size_t d = 0; d < GP_PARAMETERS; d++)
        fprintf(w.stream, ",%s,reference_%s,reference_sd_%s", parameter_names[d], parameter_names[d],
                parameter_names[d]);
    fputs(",evidence,evidence_se,reference_log_evidence,starts,evaluations,seconds,reliable\n", w.stream);
    for (size_t c = 0; c < study->cases; c++)
        for (size_t effort = study->least_effort; effort < EFFORTS; effort++)
            for (size_t seed = 0; seed < study->seeds; seed++) {
                const gp_run *run = &study->run[c][effort][seed];
                put_rows(w.stream, study, c, effort, seed, "draws", 0, &run->draws);
                for (size_t k = 0; k < costs_cut(effort); k++)
                    for (size_t i = 0; i < numbers_cut(study, effort); i++)
                        put_rows(w.stream, study, c, effort, seed, cost_names[k], LEAST_CELLS + i, &run->cells[k][i]);
            }
    return finish_file(&w, f);
}

static int write_particles(const gp_study *study, failure *f)
{
    whole_file w;
    wvgd_results r;
    if (begin_result(study->r, "particles.csv", &w, f))
        return f->code;
    fputs("series,particle,interpretation,beta,beta_se,log_A,log_f,log_s,log_B\n", w.stream);
    for (size_t c = 0; c < study->cases; c++) {
        wvgd_get_results(study->picture[c], &r);
        for (size_t j = 0; j < r.N; j++) {
            const double *z = r.z + j * GP_PARAMETERS;
            fprintf(w.stream, "%s,%zu,%s,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f\n", cases[c].name, j + 1,
                    reading_names[reading_of(z)], r.beta[j], r.beta_se[j], z[0], z[1], z[2], z[3]);
        }
    }
    return finish_file(&w, f);
}

/* ---- results.md -------------------------------------------------------------------------------------------------- */
static void put_reference(FILE *out, const gp_study *study, size_t c)
{
    const gp_summary *ref = &study->reference[c];
    fprintf(out,
            "\n## %s\n%zu observations; priors: log A ~ N(%g, %g²), log f ~ N(%g, %g²), log s ~ N(%g, %g²), log B ~ "
            "N(%g, %g²). Reference: log evidence %.4f; masses to %.4f, means to %.3f sd.\n\n"
            "| interpretation | mass | log A | log f | log s | log B |\n|---|---|---|---|---|---|\n",
            cases[c].name, study->series[c].n, cases[c].prior.mean[0], cases[c].prior.sd[0], cases[c].prior.mean[1],
            cases[c].prior.sd[1], cases[c].prior.mean[2], cases[c].prior.sd[2], cases[c].prior.mean[3],
            cases[c].prior.sd[3], ref->log_evidence, ref->error_mass, ref->error_mean);
    for (size_t k = 0; k < READINGS; k++) {
        fprintf(out, "| %s | %.4f |", reading_names[k], ref->mass[k]);
        for (size_t d = 0; d < GP_PARAMETERS; d++)
            fprintf(out, " %.3f ± %.3f |", ref->mean[k][d], ref->sd[k][d]);
        fputs("\n", out);
    }
}

/* Worst of the seeds: errors of mass and of means of readings that the reference gives some mass. */
static void worst_of(const gp_study *study, size_t c, size_t effort,
                     const gp_summary *(*pick)(const gp_run *run, size_t k, size_t i), size_t k, size_t i, double *mass,
                     double *mean)
{
    *mass = *mean = 0;
    for (size_t seed = 0; seed < study->seeds; seed++) {
        const gp_summary *s = pick(&study->run[c][effort][seed], k, i), *reference = &study->reference[c];
        *mass = fmax(*mass, fabs(s->mass[OSCILLATION] - reference->mass[OSCILLATION]));
        for (size_t reading = 0; reading < READINGS; reading++) {
            double error = mean_error(s, reference, reading);
            if (reference->mass[reading] > 0.01)
                *mean = isnan(error) || isnan(*mean) ? (double)NAN : fmax(*mean, error);
        }
    }
}

static const gp_summary *pick_cells(const gp_run *run, size_t k, size_t i)
{
    return &run->cells[k][i];
}

static const gp_summary *pick_draws(const gp_run *run, size_t k, size_t i)
{
    (void)k;
    (void)i;
    return &run->draws;
}

static void put_worst(FILE *out, const char *effort, const char *from, size_t particles, double mass, double mean)
{
    fprintf(out, "| %s | %s |", effort, from);
    if (particles)
        fprintf(out, " %zu |", particles);
    else
        fputs(" |", out);
    if (isnan(mean))
        fprintf(out, " %.4f | an interpretation was missed |\n", mass);
    else
        fprintf(out, " %.4f | %.3f |\n", mass, mean);
}

/* What the fits of one effort have cost, and how many of them are right and say so. */
static void put_effort(FILE *out, const gp_study *study, size_t c, size_t effort)
{
    double evaluations = 0, error = 0;
    size_t right = 0, reliable = 0, both = 0;
    for (size_t seed = 0; seed < study->seeds; seed++) {
        const gp_run *run = &study->run[c][effort][seed];
        bool found = fabs(run->draws.mass[OSCILLATION] - study->reference[c].mass[OSCILLATION]) < 0.1;
        evaluations += (double)run->evaluations / (double)study->seeds;
        error = fmax(error, fabs(run->evidence.value - study->reference[c].log_evidence));
        right += found;
        reliable += run->reliable;
        both += found && run->reliable;
    }
    fprintf(out,
            "\nStarts %s: masses within 0.1 in %zu of %zu fits; called reliable: %zu, of which right: %zu. %.0f "
            "evaluations a fit; log evidence off by at most %.4f.\n",
            effort_names[effort], right, study->seeds, reliable, both, evaluations, error);
}

static void put_errors(FILE *out, const gp_study *study, size_t c)
{
    double mass, mean;
    fprintf(out,
            "\nThe worst of %zu seeds: error of the mass of an interpretation, and of a mean within one, in its sds.\n"
            "\n| starts | from | particles | mass | mean |\n|---|---|---|---|---|\n",
            study->seeds);
    for (size_t effort = EFFORTS; effort-- > study->least_effort;) {
        worst_of(study, c, effort, pick_draws, 0, 0, &mass, &mean);
        put_worst(out, effort_names[effort], "weighted draws", 0, mass, mean);
        for (size_t k = 0; k < costs_cut(effort); k++)
            for (size_t i = 0; i < numbers_cut(study, effort); i++) {
                worst_of(study, c, effort, pick_cells, k, i, &mass, &mean);
                put_worst(out, effort_names[effort], cost_names[k], LEAST_CELLS + i, mass, mean);
            }
    }
    for (size_t effort = EFFORTS; effort-- > study->least_effort;)
        put_effort(out, study, c, effort);
}

static void put_particles(FILE *out, const gp_study *study, size_t c)
{
    wvgd_results r;
    wvgd_get_results(study->picture[c], &r);
    fprintf(out,
            "\nParticles of the figure (gp_%s.svg), cost own:\n\n| particle | beta | A | f | s | B | f s | "
            "interpretation |\n|---|---|---|---|---|---|---|---|\n",
            cases[c].name);
    for (size_t j = 0; j < r.N; j++) {
        const double *z = r.z + j * GP_PARAMETERS;
        fprintf(out, "| %zu | %.3f ± %.3f | %.3f | %.4f | %.2f | %.4f | %.2f | %s |\n", j + 1, r.beta[j], r.beta_se[j],
                exp(z[0]), exp(z[1]), exp(z[2]), exp(z[3]), exp(z[1] + z[2]), reading_names[reading_of(z)]);
    }
}

static int write_tables(const gp_study *study, failure *f)
{
    whole_file w;
    if (begin_markdown(study->r, "results.md", "Gaussian process", &w, f))
        return f->code;
    fputs("Covariance A exp(-(t - t')²/(2 s²)) cos(2 pi f (t - t')) + B [t = t']. Oscillation: f s > 1 and A > B; else "
          "smooth or noise. A particle has the interpretation of its own hyperparameters; beta and\n"
          "means of an interpretation are sums over its particles. Reference: quadrature on a grid in all four "
          "parameters by `gp_reference.py`, which shares no code with the program.\n",
          w.stream);
    for (size_t c = 0; c < study->cases; c++) {
        put_reference(w.stream, study, c);
        put_errors(w.stream, study, c);
        put_particles(w.stream, study, c);
    }
    fputs("\nEvery run: results.csv.\n", w.stream);
    return finish_file(&w, f);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */
static int draw_case(const gp_study *study, size_t c, failure *f)
{
    gp_axis axis[GP_PARAMETERS];
    gp_marginal m;
    wvgd_results r;
    char name[64];
    memcpy(axis, cases[c].axis, sizeof axis);
    for (size_t d = 0; d < GP_PARAMETERS && study->r->quick; d++)
        axis[d].n = axis[d].n / 3 + 2;
    if (make_gp_marginal(&study->series[c], &cases[c].prior, axis, &m))
        return fail(f, EX_SOFTWARE, "%s: no memory for its posterior on a grid", cases[c].name);
    size_t cells = axis[1].n * axis[3].n;
    size_t *index = calloc(cells, sizeof *index);
    uint32_t *cell = calloc(cells, sizeof *cell);
    wvgd_error error = {0};
    int code = 0;
    if (!index || !cell || wvgd_cell(study->picture[c], cells, m.best, index, &error) != WVGD_OK)
        code = fail(f, EX_SOFTWARE, "%s: %s", cases[c].name, index && cell ? error.text : "no memory for a figure");
    for (size_t i = 0; i < cells && !code; i++)
        cell[i] = (uint32_t)index[i];
    wvgd_get_results(study->picture[c], &r);
    snprintf(name, sizeof name, "gp_%s", cases[c].name);
    if (!code)
        code = draw_gp(study->r, name, &(gp_picture){&cases[c], &study->series[c], &m, cell, r.N, r.z, r.beta}, f);
    free(index);
    free(cell);
    free_gp_marginal(&m);
    return code;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */
static int run_study(gp_study *study, failure *f)
{
    int code = 0;
    for (size_t c = 0; c < study->cases && !code; c++)
        code = read_case(study, c, f);
    if (!code)
        code = run_jobs(study->r, "fits", study->cases * (EFFORTS - study->least_effort) * study->seeds, fit_job, study,
                        f);
    if (!code)
        code = write_rows(study, f);
    if (!code)
        code = write_particles(study, f);
    if (!code)
        code = write_tables(study, f);
    for (size_t c = 0; c < study->cases && !code; c++)
        code = draw_case(study, c, f);
    return code ? code : print_result(study->r, "results.md", f);
}

static int run_gp(const reproduction *r, failure *f)
{
    gp_study *study = calloc(1, sizeof *study);
    if (!study)
        return fail(f, EX_SOFTWARE, "no memory for the experiment %s", r->name);
    study->r = r;
    study->cases = r->quick ? 1 : CASES;
    study->seeds = r->quick ? 1 : SEEDS;
    study->cuts = r->quick ? 1 : CUTS;
    study->least_effort = r->quick ? MANY : FEW;
    int code = run_study(study, f);
    for (size_t c = 0; c < CASES; c++) {
        wvgd_free(study->picture[c]);
        wvgd_model_close(&study->model[c]);
        if (study->series[c].t)
            free_series(&study->series[c]);
    }
    free(study);
    return code;
}

const experiment gp_experiment = {"gp", "hyperparameters of a Gaussian process with two interpretations", run_gp};
