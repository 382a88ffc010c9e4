/* logistic_tables.c - the experiment logistic in words, numbers and one figure. */
#include "logistic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* The paper's table: mean ELBO and its standard error, for 1 to 5 particles. */
static const struct {
    const char *name;
    double mean[MOST_PARTICLES], se[MOST_PARTICLES];
} paper[SETS] = {
    {"boston", {-245, -222, -198, -172, -160}, {32, 19, 24, 13, 5}},
    {"diabetes", {-27.1, -26.1, -25.3, -25.6, -25.5}, {0.4, 0.4, 0.5, 0.3, 0.4}},
    {"iris", {-3.41, -3.15, -2.29, -2.11, -2.24}, {0.27, 0.28, 0.19, 0.21, 0.17}},
    {"cancer", {-535, -255, -252, -217, -205}, {78, 22, 21, 14, 15}},
};

/* ---- numbers over subsets ---------------------------------------------------------------------------------------- */
/* Which fits: data set, features, solver, family, particles. */
typedef struct {
    size_t k, how, solver, family, N;
} place;

static bool was_run(const logistic_study *study, size_t k)
{
    return study->subset[k][0][0].run[JOINT][0][0].evaluations > 0;
}

static const logistic_run *run_at(const logistic_study *study, place at, size_t s)
{
    return &study->subset[at.k][at.how][s].run[at.solver][at.family][at.N - 1];
}

/* A number of one subset; NAN: there is none. */
typedef double subset_value(const logistic_study *study, place at, size_t s);

static double pelbo_of(const logistic_study *study, place at, size_t s)
{
    const logistic_run *run = run_at(study, at, s);
    return run->evaluations ? run->bound.value : (double)NAN;
}

static double evidence_of(const logistic_study *study, place at, size_t s)
{
    const logistic_run *run = run_at(study, at, s);
    return run->evaluations ? run->evidence.value : (double)NAN;
}

static double evaluations_of(const logistic_study *study, place at, size_t s)
{
    const logistic_run *run = run_at(study, at, s);
    return run->evaluations ? (double)run->evaluations : (double)NAN;
}

static double optimum_of(const logistic_study *study, place at, size_t s)
{
    return study->subset[at.k][at.how][s].optimum[at.family];
}

static double truth_of(const logistic_study *study, place at, size_t s)
{
    return study->set[at.k].log_evidence[at.how][s];
}

/* On one particle of the same solver. */
static double gain_of(const logistic_study *study, place at, size_t s)
{
    place one = at;
    one.N = 1;
    return pelbo_of(study, at, s) - pelbo_of(study, one, s);
}

/* Below the evidence: the mean of the joint solver's estimates with full Gaussians, one for each
 * number of particles. */
static double gap_of(const logistic_study *study, place at, size_t s)
{
    double evidence = 0;
    for (size_t N = 1; N <= study->particles; N++)
        evidence += evidence_of(study, (place){at.k, at.how, JOINT, 1, N}, s) / (double)study->particles;
    return evidence - pelbo_of(study, at, s);
}

/* Staged below joint. */
static double staged_loss_of(const logistic_study *study, place at, size_t s)
{
    place other = at;
    at.solver = JOINT;
    other.solver = STAGED;
    return pelbo_of(study, at, s) - pelbo_of(study, other, s);
}

/* Over the subsets where the number is known. */
static sample_summary over_subsets(const logistic_study *study, subset_value *value, place at)
{
    double x[SUBSETS];
    size_t n = 0;
    for (size_t s = 0; s < study->subsets; s++) {
        x[n] = value(study, at, s);
        if (!isnan(x[n]))
            n++;
    }
    return summarise_sample(n, x);
}

/* The largest over the subsets whose evidence is given, all sets: of optimum - bound of what was fitted or,
 * `reported`, of |optimum - PELBO| as the fit reports it. */
static double worst_shortfall(const logistic_study *study, place at, bool reported)
{
    double worst = 0;
    for (at.k = 0; at.k < SETS; at.k++)
        for (size_t s = 0; was_run(study, at.k) && s < study->subsets; s++) {
            double best = optimum_of(study, at, s);
            if (!isnan(truth_of(study, at, s)))
                worst = fmax(worst,
                             reported ? fabs(best - run_at(study, at, s)->pelbo.value) : best - pelbo_of(study, at, s));
        }
    return worst;
}

/* ---- results.csv ------------------------------------------------------------------------------------------------- */
static void put_row(const logistic_study *study, FILE *out, place at, size_t s)
{
    const logistic_subset *subset = &study->subset[at.k][at.how][s];
    const logistic_run *run = run_at(study, at, s);
    const double numbers[] = {run->bound.value,
                              run->bound.se,
                              run->pelbo.value,
                              run->pelbo.se,
                              run->pelbo_beta.value,
                              run->pelbo_beta.se,
                              subset->optimum[at.family],
                              subset->optimum[1],
                              run->evidence.value,
                              run->evidence.se,
                              study->set[at.k].log_evidence[at.how][s],
                              study->set[at.k].log_evidence_se[at.how][s]};
    fprintf(out, "%s,%zu,%s,%s,%s,%zu", study->set[at.k].name, s, scaling_names[at.how], solver_names[at.solver],
            family_names[at.family], at.N);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        fputc(',', out);
        put_number(out, numbers[i]);
    }
    fprintf(out, ",%zu,%.4f,%d\n", run->evaluations, run->seconds, run->reliable);
}

static int write_rows(const logistic_study *study, failure *f)
{
    whole_file w;
    place at;
    if (begin_result(study->r, "results.csv", &w, f))
        return f->code;
    fputs("dataset,subset,features,solver,family,particles,pelbo,pelbo_se,reported_pelbo,reported_pelbo_se,reported_"
          "pelbo_beta,reported_pelbo_beta_se,optimum_"
          "one_gaussian,optimum_fullrank,evidence,"
          "evidence_se,true_log_evidence,true_log_evidence_se,evaluations,seconds,reliable\n",
          w.stream);
    for (at.k = 0; at.k < SETS; at.k++)
        for (size_t s = 0; was_run(study, at.k) && s < study->subsets; s++)
            for (at.how = 0; at.how < SCALINGS; at.how++)
                for (at.solver = 0; at.solver < SOLVERS; at.solver++)
                    for (at.family = 0; at.family < FAMILIES; at.family++)
                        for (at.N = 1; at.N <= study->particles; at.N++)
                            if (run_at(study, at, s)->evaluations)
                                put_row(study, w.stream, at, s);
    return finish_file(&w, f);
}

/* ---- results.md -------------------------------------------------------------------------------------------------- */
static void put_summary(FILE *out, sample_summary s)
{
    if (s.n > 1)
        fprintf(out, " %.2f ± %.2f |", s.mean, s.se);
    else if (s.n)
        fprintf(out, " %.2f |", s.mean);
    else
        fputs(" |", out);
}

static void put_set(const logistic_study *study, FILE *out, size_t k)
{
    for (size_t how = 0; how < SCALINGS; how++)
        for (size_t family = 0; family < FAMILIES; family++) {
            place at = {k, how, JOINT, family, 1};
            fprintf(out, "| %s | %s | %s |", study->set[k].name, scaling_names[how], family_names[family]);
            for (at.N = 1; at.N <= MOST_PARTICLES; at.N++)
                put_summary(out, at.N <= study->particles ? over_subsets(study, pelbo_of, at) : (sample_summary){0});
            at.N = 1;
            fprintf(out, " %.2f | %.2f | %.2f |\n", over_subsets(study, optimum_of, at).mean,
                    over_subsets(study, evidence_of, (place){k, how, JOINT, 1, 1}).mean,
                    over_subsets(study, truth_of, at).mean);
        }
    fprintf(out, "| %s | *paper* | *diag* |", paper[k].name);
    for (size_t N = 0; N < MOST_PARTICLES; N++)
        fprintf(out, " *%g ± %g* |", paper[k].mean[N], paper[k].se[N]);
    fputs(" | | |\n", out);
}

static void put_table(const logistic_study *study, FILE *out)
{
    fprintf(out,
            "Mean over %zu subsets of %d rows and its standard error, in nats. Solver joint. PELBO of the fitted "
            "ensemble with the best weights, from 20,000 fresh draws (one particle: by\n"
            "quadrature); \"one Gaussian\": the exact optimum of one Gaussian of the family, by deterministic "
            "quadrature; \"evidence\": our importance-sampled log evidence (family full, one\n"
            "particle); \"true\": the log evidence of the ten subsets for which it is given.\n\n"
            "| data | features | family | 1 particle | 2 | 3 | 4 | 5 | one Gaussian | evidence | true (first 10) |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|\n",
            study->subsets, SUBSET_ROWS);
    for (size_t k = 0; k < SETS; k++)
        if (was_run(study, k))
            put_set(study, out, k);
}

/* Falls of the mean from N to N + 1 particles, in standard errors of the mean: the largest. */
static double largest_fall(const logistic_study *study, place at)
{
    double largest = 0;
    for (at.N = 1; at.N < study->particles; at.N++) {
        place next = at;
        next.N++;
        sample_summary now = over_subsets(study, pelbo_of, at), then = over_subsets(study, pelbo_of, next);
        largest = fmax(largest, (now.mean - then.mean) / then.se);
    }
    return largest;
}

static void put_gains(const logistic_study *study, FILE *out)
{
    fprintf(out,
            "\n## More particles\nSolver joint. Gain of %zu particles on one (mean over subsets of the difference, its "
            "standard error; on how many subsets it is positive), and the largest fall of the\n"
            "mean between N and N + 1 particles in standard errors of the mean (1 and less: none to speak of).\n\n"
            "| data | features | family | gain | subsets | largest fall |\n|---|---|---|---|---|---|\n",
            study->particles);
    for (size_t k = 0; k < SETS; k++)
        for (size_t how = 0; was_run(study, k) && how < SCALINGS; how++)
            for (size_t family = 0; family < FAMILIES; family++) {
                place at = {k, how, JOINT, family, study->particles};
                sample_summary gain = over_subsets(study, gain_of, at);
                size_t positive = 0;
                for (size_t s = 0; s < study->subsets; s++)
                    positive += gain_of(study, at, s) > 0;
                fprintf(out, "| %s | %s | %s | %.3f ± %.3f | %zu of %zu | %.2f |\n", study->set[k].name,
                        scaling_names[how], family_names[family], gain.mean, gain.se, positive, study->subsets,
                        largest_fall(study, at));
            }
}

static void put_shortfalls(const logistic_study *study, FILE *out)
{
    fputs("\n## One particle against the exact optimum\nThe worst subset of those whose truth is given, in nats: what "
          "the Gaussian that was found lacks (its own ELBO by quadrature), and how far the\n"
          "PELBO that the fit reports, a Monte Carlo estimate, is from the optimum.\n\n"
          "| solver | features | family | the fit lacks | its report is off by |\n|---|---|---|---|---|\n",
          out);
    for (size_t solver = 0; solver < SOLVERS; solver++)
        for (size_t how = 0; how < SCALINGS; how++)
            for (size_t family = 0; family < FAMILIES; family++) {
                place at = {0, how, solver, family, 1};
                fprintf(out, "| %s | %s | %s | %.4f | %.4f |\n", solver_names[solver], scaling_names[how],
                        family_names[family], worst_shortfall(study, at, false), worst_shortfall(study, at, true));
            }
}

/* Errors of the evidence over all sets. */
typedef struct {
    size_t n, within;
    double worst, worst_se, squares, largest;
} evidence_errors;

static evidence_errors compare_evidence(const logistic_study *study, place at)
{
    evidence_errors e = {0};
    for (at.k = 0; at.k < SETS; at.k++)
        for (size_t s = 0; was_run(study, at.k) && s < study->subsets; s++) {
            wvgd_estimate ours = run_at(study, at, s)->evidence;
            double error = ours.value - truth_of(study, at, s),
                   z = error / hypot(ours.se, study->set[at.k].log_evidence_se[at.how][s]);
            if (isnan(error))
                continue;
            e.n++;
            e.within += fabs(error) <= 0.05;
            e.squares += z * z;
            e.largest = fmax(e.largest, fabs(z));
            if (fabs(error) > fabs(e.worst)) {
                e.worst = error;
                e.worst_se = ours.se;
            }
        }
    return e;
}

static void put_evidence(const logistic_study *study, FILE *out)
{
    fputs("\n## Importance-sampled log evidence against the truth\nFamily full, one particle; error of the estimate on "
          "the subsets for which the truth is given. z: errors over the standard errors of both.\n\n"
          "| solver | features | subsets | within 0.05 | largest error | its standard error | rms z | largest z |\n"
          "|---|---|---|---|---|---|---|---|\n",
          out);
    for (size_t solver = 0; solver < SOLVERS; solver++)
        for (size_t how = 0; how < SCALINGS; how++) {
            evidence_errors e = compare_evidence(study, (place){0, how, solver, 1, 1});
            fprintf(out, "| %s | %s | %zu | %zu | %.4f | %.4f | %.2f | %.2f |\n", solver_names[solver],
                    scaling_names[how], e.n, e.within, e.worst, e.worst_se, sqrt(e.squares / (double)e.n), e.largest);
        }
}

/* The staged solver beside the joint one, all sets that were run. */
static void put_staged(const logistic_study *study, FILE *out)
{
    fprintf(out,
            "\n## The default solver\nNats by which the bound of the staged solver is below that of the joint one "
            "(mean over subsets and its standard error; one particle: %zu subsets, more: the first %zu),\n"
            "and evaluations of the posterior a fit. The staged solver's cells of one subset come from one fit.\n\n"
            "| data | features | family | 1 particle | %zu particles | evaluations: joint, 1 | joint, %zu | staged |\n"
            "|---|---|---|---|---|---|---|---|\n",
            study->subsets, study->staged_subsets, study->particles, study->particles);
    for (size_t k = 0; k < SETS; k++)
        for (size_t how = 0; was_run(study, k) && how < SCALINGS; how++)
            for (size_t family = 0; family < FAMILIES; family++) {
                place at = {k, how, JOINT, family, 1}, more = {k, how, JOINT, family, study->particles};
                fprintf(out, "| %s | %s | %s |", study->set[k].name, scaling_names[how], family_names[family]);
                put_summary(out, over_subsets(study, staged_loss_of, at));
                put_summary(out, over_subsets(study, staged_loss_of, more));
                fprintf(out, " %.0f | %.0f | %.0f |\n", over_subsets(study, evaluations_of, at).mean,
                        over_subsets(study, evaluations_of, more).mean,
                        over_subsets(study, evaluations_of, (place){k, how, STAGED, family, 1}).mean);
            }
}

/* What the paper's number of N particles can be: below the best single Gaussian, above the evidence, or neither,
 * under either treatment of the features. */
static const char *judge_paper(const logistic_study *study, size_t k, size_t N)
{
    double optimum[SCALINGS], evidence[SCALINGS], mean = paper[k].mean[N], far = 3 * paper[k].se[N];
    for (size_t how = 0; how < SCALINGS; how++) {
        optimum[how] = over_subsets(study, optimum_of, (place){k, how, JOINT, 0, 1}).mean;
        evidence[how] = over_subsets(study, evidence_of, (place){k, how, JOINT, 1, 1}).mean;
    }
    if (mean + far < fmin(optimum[STANDARDIZED], optimum[RAW]))
        return "not converged";
    return mean - far > fmax(evidence[STANDARDIZED], evidence[RAW]) ? "no bound of this model" : "possible";
}

static void put_judgement(const logistic_study *study, FILE *out)
{
    fputs("\n## The paper's numbers\n\"Not converged\": more than three of its standard errors below what one diagonal "
          "Gaussian reaches exactly, with features standardised or raw. With the best single Gaussian in\n"
          "every cell and Z_j as weights the ensemble is that Gaussian, so that on any partition more particles cannot "
          "have a lower optimum: such a number can only come from an optimiser that had not\n"
          "converged. \"No bound of this model\": more than three standard errors above the log evidence under either "
          "treatment, which no lower bound can be, converged or not: another model, other\n"
          "subsets, or a bound that is estimated with a bias.\n\n| data | 1 particle | 2 | 3 | 4 | 5 | one diagonal "
          "Gaussian (standardized, raw) | log evidence (standardized, raw) |\n|---|---|---|---|---|---|---|---|\n",
          out);
    for (size_t k = 0; k < SETS; k++) {
        if (!was_run(study, k))
            continue;
        fprintf(out, "| %s |", paper[k].name);
        for (size_t N = 0; N < MOST_PARTICLES; N++)
            fprintf(out, " %g: %s |", paper[k].mean[N], judge_paper(study, k, N));
        for (size_t how = 0; how < SCALINGS; how++)
            fprintf(out, "%s %.2f", how ? "," : "", over_subsets(study, optimum_of, (place){k, how, JOINT, 0, 1}).mean);
        fputs(" |", out);
        for (size_t how = 0; how < SCALINGS; how++)
            fprintf(out, "%s %.2f", how ? "," : "",
                    over_subsets(study, evidence_of, (place){k, how, JOINT, 1, 1}).mean);
        fputs(" |\n", out);
    }
}

static int write_tables(const logistic_study *study, failure *f)
{
    whole_file w;
    if (begin_markdown(study->r, "results.md", "Logistic regression", &w, f))
        return f->code;
    put_table(study, w.stream);
    put_judgement(study, w.stream);
    put_shortfalls(study, w.stream);
    put_gains(study, w.stream);
    put_evidence(study, w.stream);
    put_staged(study, w.stream);
    fputs("\nEvery run: results.csv. Figure: logistic.svg, logistic.png.\n", w.stream);
    return finish_file(&w, f);
}

/* ---- figure ------------------------------------------------------------------------------------------------------ */
static void put_curves(const logistic_study *study, FILE *s, size_t k)
{
    for (size_t how = 0; how < SCALINGS; how++)
        for (size_t family = 0; family < FAMILIES; family++) {
            fprintf(s, "$g%zu%zu%zu << EOD\n", k, how, family);
            for (size_t N = 1; N <= study->particles; N++) {
                sample_summary gap = over_subsets(study, gap_of, (place){k, how, JOINT, family, N});
                fprintf(s, "%zu %.9g %.9g\n", N, gap.mean, gap.se);
            }
            fputs("EOD\n", s);
        }
    fprintf(s, "set title '%s'\nplot", study->set[k].name);
    for (size_t how = 0; how < SCALINGS; how++)
        for (size_t family = 0; family < FAMILIES; family++)
            fprintf(s, "%s $g%zu%zu%zu using 1:2:3 with yerrorlines lt %zu dt %d pt %d lw 1.5 title '%s, %s'",
                    how + family ? "," : "", k, how, family, family + 1, how == RAW ? 2 : 1, how == RAW ? 6 : 7,
                    family_names[family], scaling_names[how]);
    fputs("\nunset key\n", s); /* one for all */
}

static int draw_gaps(const logistic_study *study, failure *f)
{
    char *script = NULL;
    size_t size;
    FILE *s = open_memstream(&script, &size);
    if (!s)
        return fail(f, EX_SOFTWARE, "no memory for a figure");
    fputs("set multiplot layout 2,2 margins 0.08,0.98,0.08,0.89 spacing 0.09,0.14\nset logscale y\nset format y '%g'\n"
          "set xrange [0.7:5.3]\nset yrange [0.004:40]\nset xtics 1\n"
          "set xlabel 'particles'\nset ylabel 'log evidence - PELBO (nats)'\n"
          "set key at screen 0.5,0.98 center top vertical maxrows 2 samplen 3\n",
          s);
    for (size_t k = 0; k < SETS; k++)
        if (was_run(study, k))
            put_curves(study, s, k);
    fputs("unset multiplot\n", s);
    int code = fclose(s) ? fail(f, EX_SOFTWARE, "no memory for a figure")
                         : draw_result(study->r, "logistic", 1000, 760, script, f);
    free(script);
    return code;
}

int write_logistic(const logistic_study *study, failure *f)
{
    int code = write_rows(study, f);
    if (!code)
        code = write_tables(study, f);
    if (!code)
        code = draw_gaps(study, f);
    return code ? code : print_result(study->r, "results.md", f);
}
