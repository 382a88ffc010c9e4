/* glm.c - generalised linear models. With eta = X w + offset and weights v_i, the log likelihoods are
 *     bernoulli, binomial  sum_i v_i (y_i eta_i - n_i log(1 + exp eta_i)) + ...,  n_i trials
 *     poisson              sum_i v_i (y_i eta_i - exp eta_i) + ...
 *     negbinomial          sum_i v_i (y_i u_i - (y_i + shape) log(1 + exp u_i)
 *                          + log Gamma(y_i + shape) - log Gamma(shape)) + ...,  u_i = eta_i - log shape
 *     student              sum_i v_i (-(nu + 1)/2 log(1 + (y_i - eta_i)^2 / (nu sigma^2)) - log sigma + c(nu)),
 *                          c(nu) = log Gamma((nu + 1)/2) - log Gamma(nu/2) - log(nu pi)/2
 * where ... are constants of the data. What is linear in eta is (X' v y) . w, known before the fit; the rest takes two
 * matrix products and a pass in between (row_blocks.h). The offset is a column of X whose weight is 1. Without weights
 * bernoulli is as in logistic.c: rows times 1 - 2 y, and nothing cancels. The log of the rising factorial
 * shape (shape + 1) .. (shape + y - 1) is a sum over k of log(shape + k), times the weight of all counts above k.
 * gaussian is in linear.c. */
#include "density.h"
#include "regression_design.h"
#include "gaussian.h"
#include "pass.h"
#include "prior.h"
#include "row_blocks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR_COUNTS = 256 }; /* of which each has a logarithm of its own; Stirling's series for those beyond */

typedef struct {
    wv_likelihood likelihood;
    bool signs;              /* bernoulli without weights */
    size_t P, D;             /* weights, the intercept's included; coordinates */
    bool offset;             /* X has it as its last column */
    double weights;          /* sum v */
    double constant, Y;      /* of the log likelihood; sum v y */
    double *linear;          /* [P] X' v y, where it enters so */
    double *y, *times;       /* [rows] responses, and what a pass multiplies a row with */
    size_t near, far_n;      /* counts: 0 .. near - 1, and different ones beyond */
    double *near_times;      /* [near] weights of the counts above k */
    double *far, *far_times; /* [far_n] */
    wv_priors priors;
    const char **names;
    const wv_pass *pass;
    wv_row_blocks rows;
} glm;

/* ---- parameters beside weights ----------------------------------------------------------------------------------- */
static size_t extras(wv_likelihood l)
{
    return l == WV_STUDENT ? 2 : l == WV_NEGBINOMIAL ? 1 : 0;
}

/* Neither it nor its square, or inverse, overflows. */
static bool is_usable(double x)
{
    return x > 1e-150 && x < 1e150;
}

/* log Gamma(x + 1/2) - log Gamma(x) and, in *slope, its derivative. */
static double half_step(double x, double *slope)
{
    double value = 0, down = 0;
    for (; x < 16; x++) {
        value -= log1p(0.5 / x);
        down += 0.5 / (x * (x + 0.5));
    }
    double a = 1 / x, a2 = a * a;
    *slope = down +
             a * (0.5 + a * (1.0 / 8 - a2 * (1.0 / 64 - a2 * (1.0 / 128 - a2 * (17.0 / 2048 - a2 * 31 / 2048)))));
    return value + 0.5 * log(x) -
           a * (1.0 / 8 - a2 * (1.0 / 192 - a2 * (1.0 / 640 - a2 * (17.0 / 14336 - a2 * 31 / 18432))));
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
static void begin(const void *self, size_t b, const double *z, wv_row_work *k)
{
    const glm *g = self;
    size_t width = k->width;
    for (size_t i = 0; i < b; i++) {
        for (size_t d = 0; d < g->P; d++)
            k->w[d * width + i] = z[i * g->D + d];
        if (g->offset)
            k->w[g->P * width + i] = 1;
    }
    for (size_t i = 0; i < width && g->rows.scales; i++) {
        const double *more = z + (i < b ? i : 0) * g->D + g->P;
        if (g->likelihood == WV_STUDENT)
            k->scale[i] = exp(-2 * more[0] - more[1]);
        else {
            k->scale[i] = exp(more[0]);
            k->scale[width + i] = more[0];
        }
    }
}

static void pass(const void *self, size_t at, size_t rows, wv_row_work *k)
{
    const glm *g = self;
    const double *y = g->y + at, *times = g->times + at;
    if (g->signs)
        g->pass->softplus(rows, k->width, k->s, k->sum);
    else if (g->likelihood == WV_POISSON)
        g->pass->exp(rows, k->width, k->s, k->sum);
    else if (g->likelihood == WV_NEGBINOMIAL)
        g->pass->negbinomial(rows, k->width, y, times, k->scale, k->s, k->sum);
    else if (g->likelihood == WV_STUDENT)
        g->pass->student(rows, k->width, y, times, k->scale, k->s, k->sum);
    else
        g->pass->softplus_times(rows, k->width, times, k->s, k->sum);
}

/* One point of a model whose rows are alike. */
static void once(const void *self, size_t rows, double *s, double *sum)
{
    const glm *g = self;
    size_t padded = wv_pass_width(rows);
    for (size_t i = rows; i < padded; i++)
        s[i] = -1e300; /* adds 0 */
    (g->signs ? g->pass->softplus : g->pass->exp)(padded / WV_PASS_WIDTH, WV_PASS_WIDTH, s, sum);
}

/* What the sums say of one point; the derivatives by further coordinates are added to slope[2], and the gradient by
 * weights is to be multiplied by the factor. */
static double likelihood(const glm *g, const double *more, const double sum[5], double slope[2], double *factor)
{
    *factor = 1;
    if (g->likelihood == WV_NEGBINOMIAL) {
        double log_shape = more[0], shape = exp(log_shape);
        slope[0] += shape * (sum[4] - sum[1]) - g->Y + sum[2];
        return is_usable(shape) ? sum[3] - g->Y * log_shape - sum[0] - shape * sum[1] : -INFINITY;
    }
    if (g->likelihood != WV_STUDENT)
        return -sum[0];
    double log_sigma = more[0], nu = exp(more[1]), by_nu, c = half_step(nu / 2, &by_nu);
    if (!is_usable(nu) || !is_usable(exp(log_sigma)))
        return -INFINITY;
    *factor = nu + 1;
    slope[0] += (nu + 1) * sum[1] - g->weights;
    slope[1] += 0.5 * (g->weights * (nu * by_nu - 1) - nu * sum[0] + (nu + 1) * sum[1]);
    return g->weights * (c - 0.5 * (more[1] + log(M_PI)) - log_sigma) - 0.5 * (nu + 1) * sum[0];
}

static void finish(const void *self, size_t b, const double *z, double *log_p, double *grad, const wv_row_work *k)
{
    const glm *g = self;
    size_t P = g->P, D = g->D, width = k->width;
    for (size_t i = 1; width == 1 && i < WV_PASS_WIDTH; i++)
        k->sum[0] += k->sum[i];
    if (g->likelihood == WV_NEGBINOMIAL)
        g->pass->rising(g->near, g->near_times, g->far_n, g->far, g->far_times, width, k->scale, k->sum + 3 * width);
    for (size_t i = 0; i < b; i++) {
        const double *w = z + i * D;
        double *slope = grad ? grad + i * D : NULL, own[2] = {0, 0}, sum[5] = {0}, factor, linear = g->constant;
        for (size_t s = 0; s < g->rows.sums; s++)
            sum[s] = k->sum[s * width + i];
        log_p[i] = wv_priors_density(&g->priors, w, slope) + likelihood(g, w + P, sum, own, &factor);
        for (size_t d = 0; d < P; d++)
            linear += g->linear[d] * w[d];
        log_p[i] += linear;
        for (size_t d = 0; slope && d < P; d++)
            slope[d] += g->linear[d] + factor * k->g[d * width + i];
        for (size_t d = P; slope && d < D; d++)
            slope[d] += own[d - P];
    }
    wv_density_reject(b, D, log_p, grad);
}

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    glm *g = self;
    bool alike = g->signs || g->likelihood == WV_POISSON;
    const wv_row_model model = {g->D, begin, pass, alike ? once : NULL, finish, g};
    return wv_row_blocks_evaluate(&g->rows, &model, n, z, log_p, grad);
}

/* A draw from the prior. */
static void start(void *self, const double *normal, double *z)
{
    const glm *g = self;
    wv_priors_start(&g->priors, normal, z);
}

static void close_glm(void *self)
{
    glm *g = self;
    wv_row_blocks_close(&g->rows);
    wv_priors_close(&g->priors);
    free(g->linear);
    free(g->y);
    free(g->times);
    free(g->near_times);
    free(g->far);
    free(g->far_times);
    free(g->names);
    free(g);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
static double weight_of(const wv_glm *data, size_t i)
{
    return data->weight ? data->weight[i] : 1;
}

static double trials_of(const wv_glm *data, size_t i)
{
    return data->trials ? data->trials[i] : 1;
}

/* The part of the log likelihood that depends on the data only, but for what is linear in the offset. */
static double constant_of(const wv_glm *data, size_t i)
{
    double y = data->y[i], n = trials_of(data, i);
    switch (data->likelihood) {
    case WV_BINOMIAL: return lgamma(n + 1) - lgamma(y + 1) - lgamma(n - y + 1);
    case WV_POISSON:
    case WV_NEGBINOMIAL: return -lgamma(y + 1);
    default: return 0;
    }
}

typedef struct {
    double y, weight;
    size_t i;
} sorted_row;

static int by_response(const void *a, const void *b)
{
    const sorted_row *p = a, *q = b;
    return p->y != q->y             ? (p->y > q->y) - (p->y < q->y)
           : p->weight != q->weight ? (p->weight > q->weight) - (p->weight < q->weight)
                                    : (p->i > q->i) - (p->i < q->i);
}

/* Rows of weight 0 do not count; those of counts come in the order of these. Returns how many there are. */
static size_t order_rows(const wv_glm *data, sorted_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < data->rows; i++)
        if (weight_of(data, i) > 0)
            row[n++] = (sorted_row){data->y[i], weight_of(data, i), i};
    if (data->likelihood == WV_NEGBINOMIAL)
        qsort(row, n, sizeof *row, by_response);
    return n;
}

/* Row `at` of the model. */
static void fill_row(glm *g, const wv_glm *data, const sorted_row *row, size_t at)
{
    size_t C = data->columns, S = g->rows.P, i = row->i;
    double *x = g->rows.X + at * S, v = row->weight, y = row->y, offset = data->offset ? data->offset[i] : 0;
    memcpy(x, data->X + i * C, C * sizeof *x);
    if (data->intercept)
        x[C] = 1;
    if (g->offset) /* exp(eta) times v is exp(eta + log v) */
        x[g->P] = offset + (g->likelihood == WV_POISSON ? log(v) : 0);
    g->y[at] = y;
    g->times[at] = v * trials_of(data, i);
    g->constant += v * constant_of(data, i);
    g->weights += v;
    g->Y += v * y;
    if (g->likelihood == WV_STUDENT)
        return;
    if (g->signs) {
        for (size_t d = 0; d < S && y > 0.5; d++)
            x[d] = -x[d];
        return;
    }
    g->constant += v * y * offset;
    for (size_t d = 0; d < g->P; d++)
        g->linear[d] += v * y * x[d];
}

/* The counts of negative binomials, which are sorted. */
static bool count(glm *g, size_t rows, const sorted_row *row)
{
    double most = rows ? row[rows - 1].y : 0, above = 0;
    size_t i = rows;
    g->near = most < NEAR_COUNTS ? (size_t)most : NEAR_COUNTS;
    g->near_times = calloc(g->near + 1, sizeof *g->near_times);
    g->far = calloc(rows + 1, sizeof *g->far);
    g->far_times = calloc(rows + 1, sizeof *g->far_times);
    if (!g->near_times || !g->far || !g->far_times)
        return false;
    for (; i > 0 && row[i - 1].y > NEAR_COUNTS; i--) {
        above += row[i - 1].weight;
        if (!g->far_n || g->far[g->far_n - 1] != row[i - 1].y)
            g->far[g->far_n++] = row[i - 1].y;
        g->far_times[g->far_n - 1] += row[i - 1].weight;
    }
    for (size_t k = g->near; k-- > 0;) { /* counts above k */
        for (; i > 0 && row[i - 1].y > (double)k; i--)
            above += row[i - 1].weight;
        g->near_times[k] = above;
    }
    return true;
}

static bool fill(glm *g, const wv_glm *data, size_t rows, const sorted_row *row)
{
    static const size_t sums[] = {[WV_STUDENT] = 2, [WV_NEGBINOMIAL] = 5},
                        scales[] = {[WV_STUDENT] = 1, [WV_NEGBINOMIAL] = 2};
    wv_likelihood l = data->likelihood;
    bool more = l == WV_STUDENT || l == WV_NEGBINOMIAL;
    if (wv_row_blocks_open(&g->rows, rows, g->P + g->offset, more ? sums[l] : 1, more ? scales[l] : 0))
        return false;
    g->linear = calloc(g->P + 1, sizeof *g->linear);
    g->y = calloc(rows + 1, sizeof *g->y);
    g->times = calloc(rows + 1, sizeof *g->times);
    if (!g->linear || !g->y || !g->times)
        return false;
    for (size_t i = 0; i < rows; i++)
        fill_row(g, data, &row[i], i);
    return l != WV_NEGBINOMIAL || count(g, rows, row);
}

/* Operations of a row, beside those of the matrix products. */
static double pass_work(wv_likelihood l)
{
    return l == WV_BERNOULLI || l == WV_POISSON ? 30 : 60;
}

int wv_model_glm(wvgd_model *model, const wv_glm *data)
{
    static const char *const more[][2] = {
        [WV_STUDENT] = {"log_sigma", "log_nu"}, [WV_BERNOULLI] = {NULL, NULL},
        [WV_BINOMIAL] = {NULL, NULL},           [WV_POISSON] = {NULL, NULL},
        [WV_NEGBINOMIAL] = {"log_shape", NULL},
    };
    wv_likelihood l = data->likelihood;
    if (l == WV_GAUSSIAN)
        return wv_model_gaussian(model, "glm", data);
    size_t P = data->columns + data->intercept, D = P + extras(l), rows = 0;
    glm *g = malloc(sizeof *g);
    sorted_row *row = malloc((data->rows + 1) * sizeof *row);
    if (g) {
        *g = (glm){.likelihood = l,
                   .signs = l == WV_BERNOULLI && !data->weight,
                   .P = P,
                   .D = D,
                   .offset = data->offset || (l == WV_POISSON && data->weight),
                   .names = wv_design_names(data->columns, data->names, data->intercept, more[l]),
                   .pass = wv_pass_best()};
        wv_scratch_open(&g->rows.scratch, 1); /* so that it can be closed */
    }
    if (g && row)
        rows = order_rows(data, row);
    if (!g || !row || !g->names || !P ||
        wv_priors_open(&g->priors, data->columns, data->intercept, extras(l), data->prior, data->centre) ||
        !fill(g, data, rows, row)) {
        free(row);
        if (g)
            close_glm(g);
        return -1;
    }
    free(row);
    *model = (wvgd_model){.name = "glm",
                          .dim = D,
                          .log_density = log_density,
                          .self = g,
                          .has_gradient = true,
                          .batched = true,
                          .thread_safe = true,
                          .names = g->names,
                          .close = close_glm,
                          .start = start,
                          .start_self = g,
                          .work = (double)rows * (4 * (double)(P + g->offset) + pass_work(l))};
    return 0;
}
