/* mixture.c - random mixtures of five Gaussians in one dimension (section "Mixture of Gaussians" of the paper): the
 * density of WVGD with N particles, N = 3..7, against that of SVGD with 3N particles under the kernel bandwidth that
 * is best for each result. Measured by the integrated squared error, integral of (q - p)^2, by quadrature. Beside
 * the default solver: the joint solver, which is the paper's dynamics with exact gradients; the same with the
 * paper's biased gradient; and the paper's own choice of gradient and sampler. Densities are sum_j beta_j q_j, with
 * the masses of the cells as weights, as in the paper. */
#include "mixture.h"
#include "kde.h"
#include "random.h"
#include "shared_file.h"
#include "svgd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const struct {
    const char *name, *text;
} methods[METHODS] = {
    [WITH_WVGD] = {"wvgd", "WVGD, default solver"},
    [WITH_SVGD] = {"svgd", "SVGD, 3N particles"},
    [WITH_JOINT] = {"joint", "WVGD, `--solver joint`"},
    [WITH_REPARAM] = {"joint-reparam", "the same with the paper's gradient, `--estimator reparam`"},
    [WITH_PAPER] = {"paper", "the paper's: `--solver joint --estimator reparam --sampler reject`"},
};

/* ---- WVGD -------------------------------------------------------------------------------------------------------- */
void mixture_options(mixture_method method, size_t N, uint64_t seed, wvgd_options *o)
{
    wvgd_options_init(o);
    o->particles = N;
    o->family = WVGD_DIAG;
    o->cost = WVGD_SQEUCLID;
    o->seed = seed;
    o->solver = method == WITH_WVGD ? WVGD_STAGED : WVGD_JOINT;
    if (method == WITH_REPARAM || method == WITH_PAPER)
        o->estimator = WVGD_REPARAM;
    if (method == WITH_PAPER)
        o->sampler = WVGD_REJECT;
}

/* Where the ensemble's density may jump: midpoints of particles that are neighbours. border: [N-1]. */
static void find_borders(size_t N, const double *z, double *border)
{
    double sorted[MOST_N];
    memcpy(sorted, z, N * sizeof *sorted);
    for (size_t i = 1; i < N; i++)
        for (size_t j = i; j && sorted[j] < sorted[j - 1]; j--) {
            double t = sorted[j];
            sorted[j] = sorted[j - 1];
            sorted[j - 1] = t;
        }
    for (size_t i = 0; i + 1 < N; i++)
        border[i] = (sorted[i] + sorted[i + 1]) / 2;
}

/* log density of the ensemble, whose weights are changed to the masses of the cells. */
static int log_ensemble(const wvgd_fit *fit, const quadrature *q, double *log_q, failure *f)
{
    wvgd_results r;
    wvgd_error error;
    size_t *cell = malloc(q->m * sizeof *cell);
    int code = 0;
    wvgd_get_results(fit, &r);
    if (!cell)
        return fail(f, EX_SOFTWARE, "no memory for %zu points", q->m);
    if (wvgd_log_q(fit, q->m, q->x, log_q, &error) != WVGD_OK || wvgd_cell(fit, q->m, q->x, cell, &error) != WVGD_OK)
        code = fail(f, EX_SOFTWARE, "%s", error.text);
    for (size_t i = 0; i < q->m && !code; i++)
        log_q[i] = r.weight[cell[i]] > 0 ? log_q[i] + log(r.beta[cell[i]] / r.weight[cell[i]]) : -INFINITY;
    free(cell);
    return code;
}

static int measure_fit(const mixture_target *t, const wvgd_fit *fit, double *ise, failure *f)
{
    wvgd_results r;
    quadrature q;
    double low, high, border[MOST_N];
    wvgd_get_results(fit, &r);
    find_borders(r.N, r.z, border);
    target_range(t, &low, &high);
    for (size_t j = 0; j < r.N; j++) {
        /* so far may the ensemble's outer cells reach; particles of its inner ones, too, are in between */
        double reach = 10 * r.sd[j];
        low = r.z[j] < low + 1 || reach < 100 ? fmin(low, fmax(r.mu[j] - reach, low - 100)) : low;
        high = r.z[j] > high - 1 || reach < 100 ? fmax(high, fmin(r.mu[j] + reach, high + 100)) : high;
    }
    int code = make_quadrature(low, high, r.N - 1, border, &q, f);
    if (code)
        return code;
    double *log_q = malloc(q.m * sizeof *log_q);
    code = log_q ? log_ensemble(fit, &q, log_q, f) : fail(f, EX_SOFTWARE, "no memory for %zu points", q.m);
    *ise = 0;
    for (size_t i = 0; i < q.m && !code; i++) {
        double error = exp(log_q[i]) - target_density(t, q.x[i]);
        *ise += q.weight[i] * error * error;
    }
    free(log_q);
    free_quadrature(&q);
    return code;
}

static int run_wvgd(const mixture_target *t, uint64_t seed, mixture_run *run, failure *f)
{
    wvgd_model model;
    wvgd_options o;
    wvgd_error error;
    wvgd_results r;
    double begun = now_seconds();
    if (open_target(t, &model))
        return fail(f, EX_SOFTWARE, "no memory for a target");
    mixture_options(run->method, run->N, seed, &o);
    wvgd_fit *fit = wvgd_new(&model, &o, NULL, &error);
    int code = fit && wvgd_run(fit, NULL, NULL, &error) == WVGD_OK
                   ? 0
                   : fail(f, EX_SOFTWARE, "target %zu, N = %zu: %s", run->target, run->N, error.text);
    if (!code) {
        wvgd_get_results(fit, &r);
        run->pelbo = r.pelbo.value;
        run->evaluations = r.evaluations;
        run->seconds = now_seconds() - begun;
        run->converged = r.stop == WVGD_CONVERGED;
        code = measure_fit(t, fit, &run->ise, f);
        if (!code && !isfinite(run->ise))
            code = fail(f, EX_SOFTWARE, "target %zu, N = %zu: the density of the fit is no number", run->target,
                        run->N);
    }
    wvgd_free(fit);
    wvgd_model_close(&model);
    return code;
}

/* ---- SVGD -------------------------------------------------------------------------------------------------------- */
enum { SVGD_STEPS = 20000, QUICK_STEPS = 2000, SVGD_STARTS = 10 };

static int measure_particles(const mixture_target *t, size_t n, const double *z, double *ise, failure *f)
{
    quadrature q;
    double low, high;
    target_range(t, &low, &high);
    for (size_t i = 0; i < n; i++) {
        low = fmin(low, z[i] - 5);
        high = fmax(high, z[i] + 5);
    }
    int code = make_quadrature(low, high, 0, NULL, &q, f);
    if (code)
        return code;
    double *p = malloc(q.m * sizeof *p);
    if (!p)
        code = fail(f, EX_SOFTWARE, "no memory for %zu points", q.m);
    for (size_t i = 0; i < q.m && !code; i++)
        p[i] = target_density(t, q.x[i]);
    if (!code)
        svgd_kde_oracle(n, z, 0.02, 5, &(svgd_quadrature){q.m, q.x, q.weight, p}, ise);
    free(p);
    free_quadrature(&q);
    return code;
}

/* Particles start from N(0, 1.5^2), the distribution of the components' locations by the paper's rule. */
static int run_svgd(const mixture_target *t, const reproduction *r, mixture_run *run, failure *f)
{
    enum { FIRST_STREAM = 1000000 };
    wvgd_model model;
    svgd_options o;
    svgd_view v = {0};
    double z0[3 * MOST_N], begun = now_seconds();
    size_t n = 3 * run->N, most = r->quick ? QUICK_STEPS : SVGD_STEPS;
    svgd_options_init(&o);
    o.particles = n;
    o.optimiser = SVGD_ADAGRAD;
    o.step = 0.5;
    o.tol = 1e-6;
    svgd_random_normal(r->seed, FIRST_STREAM + (run->target * 100 + run->N) * 100 + run->start, n, z0);
    for (size_t i = 0; i < n; i++)
        z0[i] *= 1.5;
    if (open_target(t, &model))
        return fail(f, EX_SOFTWARE, "no memory for a target");
    svgd *s = svgd_new(&model, &o, z0);
    int code = s ? 0 : fail(f, EX_SOFTWARE, "no memory for SVGD");
    double half = NAN;
    while (!code && !v.converged && v.iteration < most) {
        if (svgd_step(s))
            code = fail(f, EX_SOFTWARE, "target %zu: SVGD has failed", run->target);
        svgd_get(s, &v);
        if (!code && v.iteration == most / 2)
            code = measure_particles(t, n, v.z, &half, f);
    }
    if (!code) {
        run->pelbo = NAN;
        run->evaluations = v.evaluations;
        run->seconds = now_seconds() - begun;
        run->converged = v.converged;
        code = measure_particles(t, n, v.z, &run->ise, f);
        run->drift = isfinite(half) ? fabs(run->ise / half - 1) : 0;
    }
    svgd_free(s);
    wvgd_model_close(&model);
    return code;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */
typedef struct {
    mixture_runs *all;
    mixture_method method;
} job_context;

static int run_job(void *self, size_t i, failure *f)
{
    job_context *c = self;
    mixture_run *run = &c->all->run[c->method][i];
    const mixture_target *t = &c->all->list.target[run->target];
    const reproduction *r = c->all->r;
    return c->method == WITH_SVGD ? run_svgd(t, r, run, f) : run_wvgd(t, r->seed + run->start, run, f);
}

static int run_method(mixture_runs *all, mixture_method method, size_t starts, failure *f)
{
    size_t n = 0, count = all->list.n * NUMBERS_N * starts;
    job_context c = {all, method};
    all->run[method] = calloc(count, sizeof *all->run[method]);
    if (!all->run[method])
        return fail(f, EX_SOFTWARE, "no memory for %zu runs", count);
    for (size_t t = 0; t < all->list.n; t++)
        for (size_t N = LEAST_N; N <= MOST_N; N++)
            for (size_t s = 0; s < starts; s++)
                if (!all->r->quick || N == LEAST_N)
                    all->run[method][n++] = (mixture_run){.target = t, .N = N, .start = s, .method = method};
    all->count[method] = n;
    return run_jobs(all->r, methods[method].name, n, run_job, &c, f);
}

static int load_targets(const reproduction *r, target_list *list, failure *f)
{
    if (r->targets)
        return read_targets(r->targets, list, f);
    if (r->random_targets)
        return draw_targets(r->random_targets, r->seed, list, f);
    char *targets = find_shared("experiments/mixtures.json", f),
         *optima = targets ? find_shared("experiments/mixtures_truth.json", f) : NULL;
    int code = optima ? read_targets(targets, list, f) : f->code;
    if (!code)
        code = read_optima(optima, list, f);
    free(targets);
    free(optima);
    return code;
}

/* ---- results.csv ------------------------------------------------------------------------------------------------- */
static int write_rows(const mixture_runs *all, failure *f)
{
    whole_file w;
    int code = begin_result(all->r, "results.csv", &w, f);
    if (code)
        return code;
    fputs("target,method,particles,ise,pelbo,evaluations,seconds\n", w.stream);
    for (size_t m = 0; m < METHODS; m++)
        for (size_t i = 0; i < all->count[m]; i++) {
            const mixture_run *run = &all->run[m][i];
            fprintf(w.stream, "%zu,%s,%zu,", run->target, methods[m].name, m == WITH_SVGD ? 3 * run->N : run->N);
            put_number(w.stream, run->ise);
            putc(',', w.stream);
            put_number(w.stream, run->pelbo);
            fprintf(w.stream, ",%zu,%.4f\n", run->evaluations, run->seconds);
        }
    return finish_file(&w, f);
}

/* ---- results.md -------------------------------------------------------------------------------------------------- */
/* Means over runs with N particles. */
typedef struct {
    size_t n, converged;
    double ise, pelbo, evaluations, seconds;
} method_mean;

static method_mean mean_of(const mixture_runs *all, mixture_method m, size_t N)
{
    method_mean mean = {0};
    for (size_t i = 0; i < all->count[m]; i++) {
        const mixture_run *run = &all->run[m][i];
        if (run->N != N)
            continue;
        mean.n++;
        mean.converged += run->converged;
        mean.ise += run->ise;
        mean.pelbo += run->pelbo;
        mean.evaluations += (double)run->evaluations;
        mean.seconds += run->seconds;
    }
    double n = mean.n ? (double)mean.n : NAN;
    mean.ise /= n;
    mean.pelbo /= n;
    mean.evaluations /= n;
    mean.seconds /= n;
    return mean;
}

double mixture_error(const mixture_runs *all, mixture_method m, size_t target, size_t N)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < all->count[m]; i++)
        if (all->run[m][i].N == N && all->run[m][i].target == target) {
            sum += all->run[m][i].ise;
            n++;
        }
    return sum / n;
}

/* Mean error of the best possible, or of the known runs of SVGD, the first `starts` of them; NAN
 * if nothing is known. */
static double mean_optimum(const target_list *list, size_t N, size_t starts)
{
    double sum = 0;
    for (size_t t = 0; t < list->n && list->optimum; t++) {
        const mixture_optimum *o = &list->optimum[t * NUMBERS_N + N - LEAST_N];
        sum += starts ? 0 : o->ise;
        for (size_t s = 0; s < starts; s++)
            sum += o->svgd_ise[s] / (double)starts;
    }
    return list->optimum ? sum / (double)list->n : NAN;
}

static void put_cell(FILE *s, const char *format, double value)
{
    if (isfinite(value)) {
        fputs(" ", s);
        fprintf(s, format, value);
        fputs(" |", s);
    } else
        fputs(" - |", s);
}

/* Targets on which WVGD's error is below SVGD's mean one, out of how many. */
static size_t count_better(const mixture_runs *all, size_t N, size_t *pairs)
{
    size_t better = 0;
    *pairs = 0;
    for (size_t t = 0; t < all->list.n; t++) {
        double ours = mixture_error(all, WITH_WVGD, t, N), theirs = mixture_error(all, WITH_SVGD, t, N);
        better += ours < theirs;
        *pairs += isfinite(ours) && isfinite(theirs);
    }
    return better;
}

/* Standard error of the mean over targets and starts that comes from the starts alone: the targets
 * are the same for both methods. */
static double error_of_starts(const mixture_runs *all, size_t N)
{
    double sum = 0, targets = 0;
    for (size_t t = 0; t < all->list.n; t++) {
        double mean = mixture_error(all, WITH_SVGD, t, N), square = 0, n = 0;
        for (size_t i = 0; i < all->count[WITH_SVGD]; i++) {
            const mixture_run *run = &all->run[WITH_SVGD][i];
            if (run->N == N && run->target == t) {
                square += (run->ise - mean) * (run->ise - mean);
                n++;
            }
        }
        sum += square / (n * (n - 1));
        targets++;
    }
    return sqrt(sum) / targets;
}

static const double wanted_ratio[NUMBERS_N] = {0.40, 0.15, 0.15, 0.10, 0.05};

static void put_main_row(FILE *s, const mixture_runs *all, size_t N, size_t wins, size_t pairs)
{
    double ours = mean_of(all, WITH_WVGD, N).ise, theirs = mean_of(all, WITH_SVGD, N).ise, se = error_of_starts(all, N);
    double optimum = mean_optimum(&all->list, N, 0), known = mean_optimum(&all->list, N, GIVEN_STARTS);
    const struct {
        const char *format;
        double value;
    } column[] = {
        {"%.5f", optimum},
        {"%.5f", ours},
        {"%.2f", ours / optimum},
        {"%.5f", theirs},
        {"%.5f", se},
        {"%.5f", known},
        {"%.3f", ours / theirs},
        {"%.3f", ours / theirs * se / theirs},
        {"%.3f", ours / known},
        {"%.3f", ours / mean_optimum(&all->list, N, 1)},
        {"%.2f", wanted_ratio[N - LEAST_N]},
        {"%.3f", optimum / known},
    };
    fprintf(s, "| %zu |", N);
    for (size_t c = 0; c < sizeof column / sizeof *column; c++)
        put_cell(s, column[c].format, column[c].value);
    fprintf(s, " %zu of %zu targets |\n", wins, pairs);
}

static void put_main_table(FILE *s, const mixture_runs *all)
{
    size_t better = 0, pairs = 0, here;
    fputs("| N | optimum | WVGD | WVGD / optimum | SVGD, 3N | +- | SVGD as known | WVGD / SVGD | +- | WVGD / SVGD as "
          "known | of these the first runs | wanted | optimum / SVGD as known | WVGD better on |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
          s);
    for (size_t N = LEAST_N; N <= MOST_N; N++) {
        size_t wins = count_better(all, N, &here);
        if (!here)
            continue;
        better += wins;
        pairs += here;
        put_main_row(s, all, N, wins, here);
    }
    fprintf(s,
            "\nWVGD is better than SVGD on %zu of %zu pairs of target and N (%.1f %%; wanted: at least 95 %%). Wanted "
            "of WVGD / optimum: at most 1.2; of WVGD / SVGD: at most what the column says. `+-` is what the mean over "
            "SVGD's starts is uncertain by.%s\n\n",
            better, pairs, 100 * (double)better / (double)pairs,
            all->list.optimum ? " `SVGD as known`: the five runs for each target and N that come with the targets; the "
                                "wanted ratios are near those to the first of them. Over all starts, ours or the known "
                                "ones, a ratio cannot be below that of the best possible approximation, which the last "
                                "column but one has."
                              : "");
}

/* Which targets take part in an error above the optimum's most. */
static void put_worst(FILE *s, const mixture_runs *all)
{
    if (!all->list.optimum)
        return;
    fputs("Targets (counted from 0) that add most to WVGD's mean error beyond the optimum's: ", s);
    for (size_t N = LEAST_N; N <= MOST_N; N++) {
        size_t worst = 0;
        double most = -INFINITY, total = 0;
        for (size_t t = 0; t < all->list.n; t++) {
            double more = mixture_error(all, WITH_WVGD, t, N) - all->list.optimum[t * NUMBERS_N + N - LEAST_N].ise;
            total += more;
            if (more > most) {
                most = more;
                worst = t;
            }
        }
        if (isfinite(most))
            fprintf(s, "%sN = %zu: %zu (%.5f of %.5f in all)", N > LEAST_N ? "; " : "", N, worst, most, total);
    }
    fputs(".\n\n", s);
}

/* Do our runs of SVGD end where those given did? Counts those within 2 % of one of the five given for their target. */
static void put_agreement(FILE *s, const mixture_runs *all)
{
    size_t near = 0, runs = all->count[WITH_SVGD], converged = 0, still = 0;
    for (size_t i = 0; i < runs; i++) {
        const mixture_run *run = &all->run[WITH_SVGD][i];
        const mixture_optimum *o = all->list.optimum ? &all->list.optimum[run->target * NUMBERS_N + run->N - LEAST_N]
                                                     : NULL;
        bool found = false;
        for (size_t k = 0; o && k < GIVEN_STARTS; k++)
            found = found || fabs(run->ise / o->svgd_ise[k] - 1) < 0.02;
        near += found;
        converged += run->converged;
        still += run->drift < 0.02;
    }
    fprintf(s,
            "SVGD: AdaGrad, at most %d steps, %d starts from N(0, 1.5^2) for each target and N, bandwidth h = "
            "med^2/log n in every step; the density is a kernel estimate with the bandwidth that is best for each "
            "result. %zu of %zu runs have settled (force below 1e-6), and the errors of %zu have changed by less than "
            "2 %% in the second half of the steps. ",
            all->r->quick ? QUICK_STEPS : SVGD_STEPS, all->r->quick ? 1 : SVGD_STARTS, converged, runs, still);
    if (all->list.optimum)
        fprintf(s,
                "Where it ends depends on the start; %zu of the %zu errors are within 2 %% of one of the five known "
                "for their target and N.",
                near, runs);
    fputs("\n\n", s);
}

static void put_solvers(FILE *s, const mixture_runs *all)
{
    fputs("| method | N | mean ISE | / optimum | mean PELBO | evaluations | seconds | converged |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
          s);
    for (size_t m = 0; m < METHODS; m++)
        for (size_t N = LEAST_N; N <= MOST_N; N++) {
            method_mean mean = mean_of(all, (mixture_method)m, N);
            if (!mean.n)
                continue;
            fprintf(s, "| %s | %zu |", methods[m].text, N);
            put_cell(s, "%.5f", mean.ise);
            put_cell(s, "%.2f", mean.ise / mean_optimum(&all->list, N, 0));
            put_cell(s, "%.4f", mean.pelbo);
            put_cell(s, "%.0f", mean.evaluations);
            put_cell(s, "%.2f", mean.seconds);
            fprintf(s, " %zu of %zu |\n", mean.converged, mean.n);
        }
    putc('\n', s);
}

static double overall(const mixture_runs *all, mixture_method m)
{
    double sum = 0;
    for (size_t i = 0; i < all->count[m]; i++)
        sum += all->run[m][i].ise;
    return sum / (double)all->count[m];
}

static int write_table(const mixture_runs *all, failure *f)
{
    whole_file w;
    int code = begin_markdown(all->r, "results.md", "Mixtures of Gaussians: WVGD against SVGD", &w, f);
    if (code)
        return code;
    fprintf(w.stream,
            "%zu targets in one dimension, %s. Integrated squared error (ISE) of the density, by quadrature; means "
            "over targets.\n\n",
            all->list.n,
            all->r->targets          ? "from `--targets`"
            : all->r->random_targets ? "random by the paper's rule"
                                     : "those of `experiments/data/mixtures.json`, random by the paper's rule");
    put_main_table(w.stream, all);
    fputs("The paper shows histograms of these errors but prints no numbers; it says that WVGD \"has consistently "
          "higher performance than SVGD\". `optimum` is the error of the best truncated Gaussians on the cells of the "
          "optimal quantizer, computed deterministically.\n\n",
          w.stream);
    put_worst(w.stream, all);
    put_agreement(w.stream, all);
    fputs("## Solvers\n\n", w.stream);
    put_solvers(w.stream, all);
    fprintf(w.stream,
            "What the bias of the paper's gradient costs: over all N, its error is %.2f times that of the exact "
            "gradient with the same solver and sampler, and %.2f times with the paper's sampler as well; `wvgd fit` "
            "as it comes has %.2f times the error of the joint solver.\n",
            overall(all, WITH_REPARAM) / overall(all, WITH_JOINT), overall(all, WITH_PAPER) / overall(all, WITH_JOINT),
            overall(all, WITH_WVGD) / overall(all, WITH_JOINT));
    return finish_file(&w, f);
}

static int run_mixture(const reproduction *r, failure *f)
{
    mixture_runs all = {.r = r};
    int code = load_targets(r, &all.list, f);
    if (!code && r->quick && all.list.n > 2)
        all.list.n = 2;
    for (size_t m = 0; m < METHODS && !code; m++)
        code = run_method(&all, (mixture_method)m, m == WITH_SVGD && !r->quick ? SVGD_STARTS : 1, f);
    if (!code)
        code = write_rows(&all, f);
    if (!code)
        code = draw_errors(&all, f);
    if (!code)
        code = draw_training(&all, f);
    if (!code)
        code = write_table(&all, f);
    if (!code)
        code = print_result(r, "results.md", f);
    for (size_t m = 0; m < METHODS; m++)
        free(all.run[m]);
    free_targets(&all.list);
    return code;
}

const experiment mixture_experiment = {"mixture", "random mixtures of five Gaussians: WVGD against SVGD", run_mixture};
