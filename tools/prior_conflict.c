/* prior_conflict.c - compares the response with what draws from the prior expect of some rows: its mean and its slopes
 * on the columns, which no draw in a thousand may put so far out, and its sd, which no draw in a thousand may reach.
 * For shares, draws near the observed one must not be rare either: a prior that makes all rows alike has shares of 0
 * and 1 only. That a prior allows much more than there is, is no conflict. A prior that all weights share may also hold
 * the intercept where the data do not want it, if columns are far from 0: the intercept is fitted without its prior,
 * and compared with it. Last, a response that is an exact function of the columns has no noise to estimate. */
#include "prior_conflict.h"
#include "predict.h"
#include "predictive.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { DRAWS = 4000, ROWS = 100, FEW_ROWS = 10, WIDE = 300, RARE = DRAWS / 1000, SELDOM = DRAWS / 100, LARGEST = 5000 };
enum { FIT_ROWS = 1000, FIT_WEIGHTS = 100, NEWTON_STEPS = 50 };
static const double far_out = 3; /* prior sds: the density of the prior is a hundredth of its largest */
static const double longest = 5; /* step of a log odds */
static const double settled = 1e-6;
static const double exact = 1e-9; /* residual sds */
static const char harm[] = "this distorts the evidence and, unless the data are many, the result";

/* Random numbers as functions of an index (splitmix64). */
static double uniform_at(uint64_t i)
{
    uint64_t x = i * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static double normal_at(uint64_t i)
{
    return sqrt(-2 * log(uniform_at(2 * i))) * cos(2 * M_PI * uniform_at(2 * i + 1));
}

static bool is_share(const prior_question *q)
{
    return !strcmp(q->family->name, "bernoulli") || !strcmp(q->family->name, "binomial");
}

static bool is_number(const prior_question *q)
{
    return !q->family->counts;
}

/* ---- some rows of all shares ------------------------------------------------------------------------------------- */
typedef struct {
    size_t rows, width;
    double *x; /* [rows][width] columns as the model has them, then offset and response */
} sample;

static const double *row_of(const sample *s, size_t i)
{
    return s->x + i * s->width;
}

/* Row i of this share. */
static void copy_row(const prior_question *q, size_t i, double *x)
{
    size_t C = q->columns;
    for (size_t c = 0; c < C; c++) {
        double raw = q->X[i * C + c];
        x[c] = !q->centre ? raw : q->scale[c] > 0 ? (raw - q->centre[c]) / q->scale[c] : 0;
    }
    x[C] = q->offset ? q->offset[i] : 0;
    x[C + 1] = !q->trials ? q->y[i] : q->trials[i] > 0 ? q->y[i] / q->trials[i] : 0;
}

/* Rows 0, N / rows, 2 N / rows ... of the N of all shares, as many as there are; x to be freed. */
static int take_sample(const prior_question *q, size_t rows, sample *s, failure *f)
{
    double mine = (double)q->rows, *counts, *own;
    size_t shares, first = 0, n = 0, numbers;
    *s = (sample){rows < q->all_rows ? rows : q->all_rows, q->columns + 2, NULL};
    if (share_numbers(q->shares, 1, &mine, &counts, &shares, f))
        return f->code;
    for (unsigned k = 0; q->shares && k < q->shares->rank; k++)
        first += (size_t)counts[k];
    free(counts);
    own = calloc(s->rows + 1, s->width * sizeof *own);
    f->code = own ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu rows", s->rows);
    int code = share_failure(q->shares, f);
    for (size_t k = 0; k < s->rows && !code; k++) {
        size_t i = k * q->all_rows / s->rows;
        if (i >= first && i < first + q->rows)
            copy_row(q, i - first, own + n++ * s->width);
    }
    if (!code)
        code = share_numbers(q->shares, n * s->width, own, &s->x, &numbers, f);
    free(own);
    return code;
}

/* The linear predictor of a row at z. */
static double predict_row(const prior_question *q, const double *z, const double *x)
{
    size_t C = q->columns;
    if (q->hidden)
        return network_output(q->hidden, C, z, x);
    double t = (q->intercept ? z[C] : 0) + x[C];
    for (size_t c = 0; c < C; c++)
        t += z[c] * x[c];
    return t;
}

/* The variance of a response of that mean. */
static double variance(const prior_question *q, const double *z, double mean)
{
    size_t D = q->model->dim;
    const char *name = q->family->name;
    if (!strcmp(name, "gaussian"))
        return exp(2 * z[D - 1]);
    if (!strcmp(name, "student")) {
        double nu = exp(z[D - 1]);
        return exp(2 * z[D - 2]) * (nu > 3 ? nu / (nu - 2) : 3);
    }
    return !strcmp(name, "negbinomial") ? mean + mean * mean * exp(-z[D - 1]) : mean;
}

/* Mean and sd of the response under one draw; m[rows]: the mean of each row. */
static void expect(const prior_question *q, const double *z, const sample *s, double *m, double *mean, double *sd)
{
    double sum = 0, square = 0, noise = 0, n = (double)s->rows;
    for (size_t k = 0; k < s->rows; k++) {
        m[k] = q->family->mean(predict_row(q, z, row_of(s, k)));
        double step = m[k] - sum;
        sum += step / (double)(k + 1);
        square += step * (m[k] - sum);
        noise += is_share(q) ? 0 : variance(q, z, m[k]) / n;
    }
    *mean = sum;
    *sd = sqrt(square / n + noise);
}

/* Column c less its mean, over the sum of squares: the slope of y on it is the sum of h y. false: it is constant. */
static bool project(const sample *s, size_t c, double *h)
{
    double mean = 0, square = 0;
    for (size_t k = 0; k < s->rows; k++)
        mean += row_of(s, k)[c] / (double)s->rows;
    for (size_t k = 0; k < s->rows; k++) {
        h[k] = row_of(s, k)[c] - mean;
        square += h[k] * h[k];
    }
    for (size_t k = 0; k < s->rows; k++)
        h[k] /= square;
    return isnormal(square);
}

/* ---- what to do -------------------------------------------------------------------------------------------------- */
typedef struct {
    double mean, sd, se; /* of the response, or of the share */
    double least;        /* what a share or a mean of 0 may stand for */
    double offset;       /* in the linear predictor, on average */
} observed;

static int observe(const prior_question *q, observed *o, failure *f)
{
    double sums[2] = {0, 0}, square = 0, n = (double)q->all_rows; /* of trials, of responses */
    for (size_t i = 0; i < q->rows; i++) {
        sums[0] += q->trials ? q->trials[i] : 1;
        sums[1] += q->y[i];
    }
    if (share_sums(q->shares, 2, sums, f))
        return f->code;
    double trials = sums[0], mean = sums[1] / trials;
    for (size_t i = 0; i < q->rows && !is_share(q); i++)
        square += (q->y[i] - mean) * (q->y[i] - mean);
    if (share_sums(q->shares, 1, &square, f))
        return f->code;
    o->mean = mean;
    o->sd = n > 1 ? sqrt(square / (n - 1)) : 0;
    o->se = is_share(q)    ? sqrt((mean * (1 - mean) + 0.25 / trials) / trials)
            : is_number(q) ? o->sd / sqrt(n)
                           : sqrt((o->sd * o->sd + 1 / n) / n); /* of counts that are all 0, too */
    o->least = 0.5 / trials;
    return 0;
}

/* The offset of some rows that all could have; of means that are exponentials, the log of their average. */
static double average_offset(const prior_question *q, const sample *s)
{
    double sum = 0, most = -INFINITY, n = (double)s->rows;
    bool plain = is_number(q) || is_share(q);
    for (size_t k = 0; k < s->rows; k++)
        most = fmax(most, row_of(s, k)[q->columns]);
    for (size_t k = 0; k < s->rows; k++) {
        double offset = row_of(s, k)[q->columns] - most;
        sum += (plain ? offset : exp(offset)) / n;
    }
    return most + (plain ? sum : log(sum));
}

/* The intercept that has the mean, if columns are centred. */
static double link(const prior_question *q, const observed *o)
{
    double eta = is_number(q)  ? o->mean
                 : is_share(q) ? log(fmax(o->mean, o->least) / fmax(1 - o->mean, o->least))
                               : log(fmax(o->mean, o->least));
    return eta - o->offset;
}

static void advise(FILE *s, const prior_question *q, const observed *o, bool location, bool alike)
{
    double at = link(q, o), far = fmax(fabs(at), is_number(q) ? o->sd : 1);
    if (alike && q->standardize)
        fputs("--standardize makes the columns comparable", s);
    else if (q->prior_sd > 0 && q->linear)
        fprintf(s, "leave out --prior-sd for priors scaled to the data, or try --prior-sd %.1g", far);
    else if (q->prior_sd > 0)
        fprintf(s, "try --prior-sd %.1g%s", fmax(far, 2 * q->prior_sd), is_share(q) ? "" : ", or rescale the response");
    else if (location && q->intercept)
        fprintf(s, "try --prior 'intercept=normal(%.3g, %.3g)'", at, is_number(q) ? 2.5 * o->sd : 2.5);
    else if (location)
        fputs("add an intercept to the formula, or widen the slopes, as in --prior 'slopes=normal(0, 10)'", s);
    else if (is_number(q))
        fprintf(s, "try --prior 'sigma=exponential(%.3g)'", 1 / o->sd);
    else
        fprintf(s, "try %s--prior 'slopes=normal(0, 10)'",
                strcmp(q->family->name, "poisson") ? "" : "--likelihood negbinomial, or ");
}

static void advise_column(FILE *s, const prior_question *q, size_t c)
{
    if (q->standardize && !q->linear && q->prior_sd > 0)
        fputs("--standardize makes the columns comparable", s);
    else if (q->prior_sd > 0 && q->linear)
        fputs("leave out --prior-sd for priors scaled to the data", s);
    else if (q->prior_sd > 0)
        fprintf(s, "try --prior-sd %.1g", 4 * q->prior_sd);
    else
        fprintf(s, "leave out its --prior for one scaled to the data, or widen the prior of %.48s", q->model->names[c]);
}

static char *describe(const prior_question *q, const observed *o, double *x, bool location, bool alike)
{
    char *text = NULL;
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    sort_draws(DRAWS, x);
    fprintf(s,
            alike ? PRIOR_CONFLICT ": %s of %.48s is %.3g, but hardly any draw from the prior has it near that value; "
                                   "most have it near %.3g or %.3g: %s; "
                  : PRIOR_CONFLICT
                ": %s of %.48s is %.3g, but the prior expects it between %.3g and %.3g (90 %% of its "
                "draws; fewer than one in a thousand is beyond the observed value): %s; ",
            location ? is_share(q) ? "the share" : "the mean" : "the sd", q->target, location ? o->mean : o->sd,
            sorted_quantile(DRAWS, x, 0.05), sorted_quantile(DRAWS, x, 0.95), harm);
    advise(s, q, o, location, alike);
    if (!fclose(s))
        return text;
    free(text);
    return NULL;
}

/* ---- mean, sd, slopes -------------------------------------------------------------------------------------------- */
static char *judge(const prior_question *q, const observed *o, double *mean, double *sd)
{
    size_t below = 0, above = 0, near = 0, wide = 0;
    for (size_t k = 0; k < DRAWS; k++) {
        below += mean[k] <= o->mean + 3 * o->se;
        above += mean[k] >= o->mean - 3 * o->se;
        near += fabs(mean[k] - o->mean) <= 0.1 + 3 * o->se;
        wide += sd[k] >= o->sd || !isfinite(sd[k]);
    }
    if (below < RARE || above < RARE)
        return describe(q, o, mean, true, false);
    if (is_share(q))
        return near < SELDOM ? describe(q, o, mean, true, true) : NULL;
    return wide < RARE ? describe(q, o, sd, false, false) : NULL;
}

/* Draws of the slope of y on a column. */
static char *describe_column(const prior_question *q, size_t c, double slope, double *x)
{
    char *text = NULL;
    size_t size;
    FILE *s = open_memstream(&text, &size);
    if (!s)
        return NULL;
    sort_draws(DRAWS, x);
    fprintf(s,
            PRIOR_CONFLICT
            ": per %s of %.48s, %s%.48s changes by %.3g on average, but the prior expects a change "
            "between %.3g and %.3g (90 %% of its draws; fewer than one in a thousand is beyond the observed one): %s; ",
            q->centre ? "sd" : "unit", q->model->names[c], is_share(q) ? "the share of " : "", q->target, slope,
            sorted_quantile(DRAWS, x, 0.05), sorted_quantile(DRAWS, x, 0.95), harm);
    advise_column(s, q, c);
    if (!fclose(s))
        return text;
    free(text);
    return NULL;
}

/* expected: [DRAWS][rows] */
static char *judge_column(const prior_question *q, const observed *o, const sample *s, size_t c, const double *expected,
                          double *slope)
{
    double h[ROWS], observed_slope = 0, square = 0;
    size_t below = 0, above = 0;
    if (!project(s, c, h))
        return NULL;
    for (size_t k = 0; k < s->rows; k++) {
        observed_slope += h[k] * row_of(s, k)[q->columns + 1];
        square += h[k] * h[k];
    }
    cblas_dgemv(CblasRowMajor, CblasNoTrans, DRAWS, (int)s->rows, 1.0, expected, (int)s->rows, h, 1, 0.0, slope, 1);
    double se = sqrt(square) * (is_share(q) ? sqrt(o->mean * (1 - o->mean)) : o->sd);
    for (size_t k = 0; k < DRAWS; k++) {
        below += !(slope[k] > observed_slope + 3 * se);
        above += !(slope[k] < observed_slope - 3 * se);
    }
    return below < RARE || above < RARE ? describe_column(q, c, observed_slope, slope) : NULL;
}

/* ---- no noise ---------------------------------------------------------------------------------------------------- */
/* Is the response a linear function of the columns, but for rounding? Its sigma would be near 0. */
static bool is_exact(const prior_question *q, const observed *o, const sample *s)
{
    size_t n = s->rows, D = s->width - 1;
    lapack_int rank = 0;
    double square = 0, mean = 0, *A = calloc(n * D + n + D, sizeof *A), *y = A + n * D, *singular = y + n;
    if (!A || n <= D + 1 || !is_number(q) || q->hidden) {
        free(A);
        return false;
    }
    for (size_t k = 0; k < n; k++) {
        memcpy(A + k * D, row_of(s, k), (D - 1) * sizeof *A);
        A[k * D + D - 1] = 1;
        y[k] = row_of(s, k)[D] - row_of(s, k)[D - 1]; /* less the offset */
        mean += y[k] / (double)n;
    }
    for (size_t k = 0; k < n; k++)
        y[k] -= mean;
    lapack_int code = LAPACKE_dgelsd(LAPACK_ROW_MAJOR, (lapack_int)n, (lapack_int)D, 1, A, (lapack_int)D, y, 1,
                                     singular, 1e-12, &rank);
    for (size_t k = (size_t)rank; k < n; k++) /* these are the residuals, if the rank is full */
        square += y[k] * y[k];
    free(A);
    return !code && rank == (lapack_int)D && sqrt(square / (double)n) < exact * o->sd;
}

/* ---- the intercept ----------------------------------------------------------------------------------------------- */
typedef struct {
    size_t n, D;
    double *A;       /* [n][D] some rows, and 1 */
    double *B;       /* [n][D] times square roots of the weights */
    double *y, *r;   /* [n] responses; residuals, and steps of the linear predictor */
    double *H, *v;   /* [D][D] Hessian; [D][2] gradient, and the last unit vector */
    double *w;       /* [D] */
    double variance; /* of the noise */
} fitted;

static bool begin_fit(const sample *s, double variance, fitted *k)
{
    size_t n = s->rows, C = s->width - 2, D = C + 1;
    *k = (fitted){.n = n, .D = D, .variance = variance};
    k->A = calloc(2 * n * (D + 1) + D * (D + 3), sizeof *k->A);
    if (!k->A)
        return false;
    k->B = k->A + n * D;
    k->y = k->B + n * D;
    k->r = k->y + n;
    k->H = k->r + n;
    k->v = k->H + D * D;
    k->w = k->v + 2 * D;
    for (size_t j = 0; j < n; j++) {
        memcpy(k->A + j * D, row_of(s, j), C * sizeof *k->A);
        k->A[j * D + C] = 1;
        k->y[j] = row_of(s, j)[C + 1];
    }
    return true;
}

/* Hessian and gradient of minus the log posterior, without the prior of the intercept. */
static void differentiate(const prior_question *q, fitted *k)
{
    size_t n = k->n, D = k->D;
    double square = 0, precision = 1 / (q->prior_sd * q->prior_sd);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)n, (int)D, 1.0, k->A, (int)D, k->w, 1, 0.0, k->r, 1);
    for (size_t j = 0; j < n; j++) {
        double p = q->family->mean(k->r[j]), weight = is_share(q) ? p * (1 - p) : 1 / k->variance;
        double residual = k->y[j] - p;
        square += residual * residual;
        k->r[j] = is_share(q) ? residual : residual / k->variance;
        for (size_t d = 0; d < D; d++)
            k->B[j * D + d] = sqrt(weight) * k->A[j * D + d];
    }
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)D, (int)n, 1.0, k->B, (int)D, 0.0, k->H, (int)D);
    cblas_dgemv(CblasRowMajor, CblasTrans, (int)n, (int)D, 1.0, k->A, (int)D, k->r, 1, 0.0, k->v, 2);
    for (size_t d = 0; d + 1 < D; d++) {
        k->H[d * D + d] += precision;
        k->v[2 * d] -= precision * k->w[d];
    }
    for (size_t d = 0; d < D; d++)
        k->v[2 * d + 1] = d + 1 == D;
    k->variance = is_share(q) ? 1 : fmax(square / (double)n, 1e-12 * k->variance);
}

/* One step; *moved: how far the linear predictor goes at most. */
static bool step(const prior_question *q, fitted *k, double *moved)
{
    size_t n = k->n, D = k->D;
    differentiate(q, k);
    if (LAPACKE_dposv(LAPACK_ROW_MAJOR, 'L', (lapack_int)D, 2, k->H, (lapack_int)D, k->v, 2))
        return false;
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)n, (int)D, 1.0, k->A, (int)D, k->v, 2, 0.0, k->r, 1);
    *moved = fabs(k->r[cblas_idamax((int)n, k->r, 1)]);
    double part = is_share(q) && *moved > longest ? longest / *moved : 1;
    cblas_daxpy((int)D, part, k->v, 2, k->w, 1);
    return isfinite(*moved);
}

/* What the data alone would have the intercept be, given the prior of the other weights, by Newton's method. */
static bool free_intercept(const prior_question *q, const observed *o, const sample *s, double *intercept, double *se)
{
    fitted k;
    double moved = INFINITY;
    if (!begin_fit(s, is_share(q) ? 1 : o->sd * o->sd, &k))
        return false;
    for (int i = 0; i < NEWTON_STEPS && moved > settled * (is_share(q) ? 1 : o->sd); i++)
        if (!step(q, &k, &moved))
            moved = -1;
    *intercept = k.w[k.D - 1];
    *se = sqrt(k.v[2 * k.D - 1]);
    free(k.A);
    return moved >= 0 && moved < longest;
}

/* Is there one whose prior is that of the other weights? */
static bool shares_prior(const prior_question *q)
{
    return q->prior_sd > 0 && q->intercept && !q->hidden && !q->offset && !q->trials && q->columns &&
           q->columns < FIT_WEIGHTS;
}

static char *judge_intercept(const prior_question *q, const observed *o, const sample *s)
{
    char *text = NULL;
    size_t size;
    double at, se;
    if (!shares_prior(q) || !free_intercept(q, o, s, &at, &se) || fabs(at) - 2 * se < far_out * q->prior_sd)
        return NULL;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    fprintf(to,
            PRIOR_CONFLICT ": the intercept is the value where every column is 0, which the data put near %.3g +- "
                           "%.2g, but its prior is normal(0, %g), which distorts the other weights, too; ",
            at, se, q->prior_sd);
    if (q->standardize && !q->linear)
        fputs("--standardize measures columns from their means", to);
    else if (q->linear)
        fputs("leave out --prior-sd for priors scaled to the data", to);
    else
        fprintf(to, "try --prior-sd %.1g", fmax(fabs(at) / 2, 2 * q->prior_sd));
    if (!fclose(to))
        return text;
    free(text);
    return NULL;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static char *compare(const prior_question *q, const observed *o, const sample *some, const sample *more)
{
    size_t D = q->model->dim, n = some->rows;
    char *text = NULL;
    double *z = calloc(2 * D + 1, sizeof *z), *mean = calloc(2 * DRAWS, sizeof *mean),
           *expected = calloc(DRAWS * n + 1, sizeof *expected);
    bool room = z && mean && expected;
    for (size_t k = 0; room && k < DRAWS; k++) {
        for (size_t d = 0; d < D; d++)
            z[D + d] = normal_at(k * D + d);
        q->model->start(q->model->start_self, z + D, z);
        expect(q, z, some, expected + k * n, &mean[k], &mean[DRAWS + k]);
    }
    if (room)
        text = judge(q, o, mean, mean + DRAWS);
    for (size_t c = 0; c < q->columns && room && !text && D <= WIDE && n >= FEW_ROWS; c++)
        text = judge_column(q, o, some, c, expected, mean);
    free(z);
    free(mean);
    free(expected);
    if (!text && is_exact(q, o, some))
        return strdup("the response is an exact linear function of the columns: there is no noise to estimate, and the "
                      "posterior is a spike; solve for the coefficients, or fit data with noise");
    return text ? text : judge_intercept(q, o, more);
}

int prior_conflict(const prior_question *q, char **line, failure *f)
{
    size_t D = q->model->dim;
    observed o = {0};
    sample some = {0}, more = {0};
    *line = NULL;
    if (!q->all_rows || D > LARGEST || !q->model->start)
        return 0;
    int code = take_sample(q, D > WIDE ? FEW_ROWS : ROWS, &some, f);
    if (!code && shares_prior(q))
        code = take_sample(q, FIT_ROWS, &more, f);
    if (!code)
        code = observe(q, &o, f);
    if (!code && q->offset)
        o.offset = average_offset(q, &some);
    if (!code)
        *line = compare(q, &o, &some, &more);
    free(some.x);
    free(more.x);
    return code;
}
