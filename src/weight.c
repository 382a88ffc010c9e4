/* weight.c - log-sum-exp, deterministic-mixture weights p~/m and q_j/m, effective sample size,
 * Pareto k-hat (method, sections 3 and 5). */
#include "weight.h"
#include "columns.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* out = exp(x - top), by whole vectors and then one by one. */
static void exponentials(size_t n, double top, const double *x, double *out)
{
    size_t whole = n - n % WV_COLUMNS_WIDTH;
    double tail[WV_COLUMNS_WIDTH];
    wv_columns_best()->exponentials(whole, top, x, out);
    for (size_t i = whole; i < whole + WV_COLUMNS_WIDTH; i++)
        tail[i - whole] = i < n ? x[i] : -INFINITY;
    wv_columns_best()->exponentials(WV_COLUMNS_WIDTH, top, tail, tail);
    memcpy(out + whole, tail, (n - whole) * sizeof *out);
}

void wv_weight_exp(size_t n, double *x)
{
    exponentials(n, 0, x, x);
}

double wv_weight_largest(size_t n, const double *w)
{
    double top = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (w[i] > top)
            top = w[i];
    return top;
}

double wv_weight_lse(size_t n, const double *log_w)
{
    double top = wv_weight_largest(n, log_w), sum = 0;
    if (top == -INFINITY)
        return top;
    for (size_t i = 0; i < n; i++)
        sum += exp(log_w[i] - top);
    return top + log(sum);
}

bool wv_weight_normalise(size_t n, const double *log_w, double *w)
{
    double top = wv_weight_largest(n, log_w), sum = 0;
    if (top == -INFINITY) {
        memset(w, 0, n * sizeof *w);
        return false;
    }
    exponentials(n, top, log_w, w);
    for (size_t i = 0; i < n; i++)
        sum += w[i];
    for (size_t i = 0; i < n; i++)
        w[i] /= sum;
    return true;
}

double wv_weight_ess(size_t n, const double *w)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += w[i];
        squares += w[i] * w[i];
    }
    return squares > 0 ? sum * sum / squares : 0;
}

void wv_weight_add_log(size_t n, double *out, double log_w, const double *log_q)
{
    for (size_t k = 0; k < n; k++) {
        double a = out[k], b = log_w + log_q[k], top = a > b ? a : b;
        if (top > -INFINITY)
            out[k] = top + log1p(exp((a > b ? b : a) - top));
    }
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */
static bool diagonal(const wv_gauss *q)
{
    return q->family == wv_family_get(WVGD_DIAG);
}

/* Inverse scales and the constant in the log density of a diagonal Gaussian or Student-t, into scale[D + 1]. */
static void prepare_one(const wv_gauss *q, double *scale)
{
    for (size_t i = 0; i < q->D; i++)
        scale[i] = 1 / q->root[i];
    scale[q->D] = wv_columns_constant(q->D, q->family->log_det(q->D, 0, q->root), q->nu);
}

/* The same for all proposals that are diagonal, and the shares of all. Returns how many points are weighed at once:
 * few, which stay near, unless matrices have to be inverted for them. */
static size_t prepare(wvgd_fit *f)
{
    size_t at_once = WV_COLUMNS;
    for (size_t c = 0; c < f->proposals; c++) {
        const wv_gauss *q = &f->proposal[c].q;
        f->alpha[c] = exp(f->proposal[c].log_alpha);
        if (diagonal(q))
            prepare_one(q, f->scale + c * (f->D + 1));
        else
            at_once = WV_BLOCK;
    }
    return at_once;
}

/* Points of a batch as rows [n][D] and in columns, WV_COLUMNS to a block. */
typedef struct {
    size_t n;
    const double *x;
    double *columns, *y; /* y: scratch, [WV_BLOCK][D] */
} points;

static points turn(wvgd_fit *f, const wv_batch *b, size_t first, size_t n)
{
    size_t D = f->D;
    points p = {n, b->x + first * D, f->gathered, f->gathered + WV_BLOCK * D};
    for (size_t k = 0; k < n; k += WV_COLUMNS)
        wv_columns_turn(D, n - k < WV_COLUMNS ? n - k : WV_COLUMNS, p.x + k * D, p.columns + k * D);
    return p;
}

static void density(const wvgd_fit *f, const points *p, size_t c, double *log_q)
{
    const wv_gauss *q = &f->proposal[c].q;
    const double *scale = f->scale + c * (f->D + 1);
    if (!diagonal(q)) {
        wv_component_log_density(q, p->n, p->x, log_q, p->y, f->work);
        return;
    }
    for (size_t k = 0; k < p->n; k += WV_COLUMNS) {
        size_t here = wv_columns_round(p->n - k < WV_COLUMNS ? p->n - k : WV_COLUMNS);
        wv_columns_best()->apart(f->D, here, p->columns + k * f->D, q->mu, scale, log_q + k);
        wv_columns_log(f->D, here, scale[f->D], q->nu, log_q + k, log_q + k);
    }
}

/* Log densities of all proposals at some points, into f->block[proposals][ld]. */
static void densities(wvgd_fit *f, const points *p, size_t ld)
{
    for (size_t c = 0; c < f->proposals; c++)
        density(f, p, c, f->block + c * ld);
}

/* log_m[n], and f->block becomes u = q / m. */
static void divide(wvgd_fit *f, size_t n, size_t ld, double *log_m)
{
    wv_columns_best()->shares(f->proposals, wv_columns_round(n), ld, f->alpha, f->block, log_m);
}

/* A batch is weighed in pieces, which workers share. */
typedef struct {
    wv_batch *b;
    size_t piece, at_once;  /* points in a piece, and those whose densities are held at once */
    const double *const *w; /* [2] weights of the components */
} weighing;

/* Shares the pieces; returns how many there are. */
static size_t share_pieces(wvgd_fit *f, weighing *g, wv_fit_task *task)
{
    size_t n = g->b->n, pieces = wv_fit_pieces(n);
    g->piece = wv_fit_piece(n);
    g->at_once = prepare(f);
    wv_fit_share(f, pieces,
                 (double)n * (double)f->proposals * (double)f->D * (g->at_once == WV_BLOCK ? (double)f->D : 1), task,
                 g);
    return pieces;
}

static size_t end_of(const weighing *g, size_t k)
{
    return (k + 1) * g->piece < g->b->n ? (k + 1) * g->piece : g->b->n;
}

/* Weighs n points; adds to sum_u[N]. */
static void weigh_block(wvgd_fit *f, wv_batch *b, size_t first, size_t n, size_t ld, const double *const w[2],
                        double *sum_u)
{
    double *u = f->block, log_m[WV_BLOCK], mix[WV_BLOCK];
    points p = turn(f, b, first, n);
    densities(f, &p, ld);
    for (size_t k = 0; k < n; k++)
        b->log_q[first + k] = u[b->cell[first + k] * ld + k];
    divide(f, n, ld, log_m);
    memcpy(b->log_m + first, log_m, n * sizeof *log_m);
    for (size_t j = 0; j < f->N; j++)
        sum_u[j] += cblas_dasum((int)n, u + j * ld, 1);
    for (int i = 0; i < 2 && w[i]; i++) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)f->N, (int)n, 1.0, u, (int)ld, w[i], 1, 0.0, mix, 1);
        for (size_t k = 0; k < n; k++)
            b->log_mix[i][first + k] = log_m[k] + log(mix[k]);
    }
}

static void weigh_piece(wvgd_fit *f, void *context, size_t k)
{
    const weighing *g = context;
    double *sum_u = f->piece_u + k * f->N;
    memset(sum_u, 0, f->N * sizeof *sum_u);
    for (size_t at = k * g->piece, end = end_of(g, k); at < end; at += g->at_once)
        weigh_block(f, g->b, at, end - at < g->at_once ? end - at : g->at_once, g->at_once, g->w, sum_u);
}

void wv_weight_mixture(wvgd_fit *f, wv_batch *b, const double *const w[2])
{
    weighing g = {.b = b, .w = w};
    size_t pieces = share_pieces(f, &g, weigh_piece);
    for (size_t k = 0; k < pieces; k++)
        cblas_daxpy((int)f->N, 1.0, f->piece_u + k * f->N, 1, b->sum_u, 1);
}

/* Inverse scales and constants of diagonal components, after those of the proposals. */
static double *prepare_own(wvgd_fit *f)
{
    double *scale = f->scale + f->proposals * (f->D + 1);
    for (size_t j = 0; j < f->N; j++) {
        wv_gauss q = wv_fit_component(f, j);
        prepare_one(&q, scale + j * (f->D + 1));
    }
    return scale;
}

/* log q_j of points of cell j, all components diagonal. */
static void own_densities(wvgd_fit *f, wv_batch *b, size_t first, size_t n, const double *scale)
{
    size_t D = f->D;
    for (size_t i = first; i < first + n; i++) {
        const double *own = scale + b->cell[i] * (D + 1);
        b->log_q[i] = own[D] - wv_columns_best()->row_apart(D, b->x + i * D, f->now.mu + b->cell[i] * D, own) / 2;
    }
}

/* The same for all points of cell j and any component. */
static void own_densities_gathered(wvgd_fit *f, void *context, size_t j)
{
    wv_batch *b = context;
    size_t D = f->D;
    double log_q[WV_BLOCK], *x = f->gathered, *y = x + WV_BLOCK * D;
    wv_gauss q = wv_fit_component(f, j);
    for (size_t first = f->start[j]; first < f->start[j + 1]; first += WV_BLOCK) {
        size_t n = f->start[j + 1] - first < WV_BLOCK ? f->start[j + 1] - first : WV_BLOCK;
        for (size_t k = 0; k < n; k++)
            memcpy(x + k * D, b->x + f->order[first + k] * D, D * sizeof *x);
        wv_component_log_density(&q, n, x, log_q, y, f->work);
        for (size_t k = 0; k < n; k++)
            b->log_q[f->order[first + k]] = log_q[k];
    }
}

wv_weight_plan wv_weight_begin(wvgd_fit *f)
{
    return (wv_weight_plan){.at_once = prepare(f),
                            .own = f->family == wv_family_get(WVGD_DIAG) ? prepare_own(f) : NULL};
}

void wv_weight_some(wvgd_fit *f, wv_batch *b, const wv_weight_plan *plan, size_t first, size_t n)
{
    for (size_t end = first + n, here; first < end; first += here) {
        double log_m[WV_BLOCK];
        here = end - first < plan->at_once ? end - first : plan->at_once;
        points p = turn(f, b, first, here);
        densities(f, &p, plan->at_once);
        divide(f, here, plan->at_once, log_m);
        memcpy(b->log_m + first, log_m, here * sizeof *log_m);
        if (plan->own)
            own_densities(f, b, first, here, plan->own);
    }
}

void wv_weight_end(wvgd_fit *f, wv_batch *b, const wv_weight_plan *plan)
{
    if (!plan->own)
        wv_fit_share(f, f->N, (double)(b->n * f->D * f->D), own_densities_gathered, b);
    for (size_t j = 0; j < f->N; j++)
        b->sum_u[j] = (double)b->n;
    for (size_t i = 0; i < b->n; i++)
        b->log_mix[0][i] = -INFINITY;
}

/* ---- Pareto k-hat ------------------------------------------------------------------------------------------------ */
static int ascending(const void *a, const void *b, void *key)
{
    const double *w = key;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    return w[i] != w[k] ? (w[i] < w[k] ? -1 : 1) : (i < k ? -1 : i > k);
}

/* The `last` largest of log_w[n] at the end of order[n], sorted, without allocation (heap sort):
 * qsort_r may allocate. */
static void sort_by(size_t n, uint32_t *order, const double *log_w, size_t last)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t end = n, root = n / 2; end > 1 && end > n - last;) {
        uint32_t value;
        if (root > 0)
            value = order[--root];
        else {
            value = order[--end];
            order[end] = order[0];
        }
        size_t at = root;
        for (size_t child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && ascending(&order[child], &order[child + 1], (void *)(uintptr_t)log_w) < 0)
                child++;
            if (ascending(&value, &order[child], (void *)(uintptr_t)log_w) >= 0)
                break;
            order[at] = order[child];
        }
        order[at] = value;
    }
}

/* Mean of log(1 - theta x) over the exceedances: logarithms of products of a few factors, where these are numbers. */
static double shape_at(double theta, size_t m, const double *x)
{
    enum { FACTORS = 8 };
    double sum = 0;
    for (size_t i = 0, end; i < m; i = end) {
        double product = 1;
        for (end = i; end < m && end < i + FACTORS; end++)
            product *= 1 - theta * x[end];
        if (product > 1e-300 && product < INFINITY)
            sum += log(product);
        else
            for (size_t k = i; k < end; k++)
                sum += log1p(-theta * x[k]);
    }
    return sum / (double)m;
}

/* Generalised Pareto fit of sorted exceedances x[m]: the posterior mean of theta on Zhang and Stephens's grid, then
 * shape and scale; shape shrunk towards 1/2 as if by ten more observations. */
static double pareto_fit(size_t m, const double *x, double *scale)
{
    size_t grid = 30 + (size_t)sqrt((double)m);
    double quartile = x[(size_t)((double)m / 4 + 0.5) - 1], top = -INFINITY, theta = 0, total = 0;
    for (size_t i = 1; i <= grid; i++) {
        double t = 1 / x[m - 1] + (1 - sqrt((double)grid / ((double)i - 0.5))) / (3 * quartile);
        double k = shape_at(t, m, x), likelihood = (double)m * (log(-t / k) - k - 1);
        if (likelihood > top) {
            theta *= exp(top - likelihood);
            total *= exp(top - likelihood);
            top = likelihood;
        }
        theta += t * exp(likelihood - top);
        total += exp(likelihood - top);
    }
    theta /= total;
    double k = shape_at(theta, m, x);
    *scale = -k / theta;
    return ((double)m * k + 5) / ((double)m + 10);
}

double wv_weight_pareto_k(size_t n, const double *log_w, double *smoothed, uint32_t *order)
{
    if (smoothed)
        memcpy(smoothed, log_w, n * sizeof *smoothed);
    size_t m = (size_t)fmin(0.2 * (double)n, 3 * sqrt((double)n));
    if (m < 5)
        return NAN;
    sort_by(n, order, log_w, m + 1);
    double top = log_w[order[n - 1]], cut = log_w[order[n - m - 1]], x[m]; /* m <= 3 sqrt(n): small */
    if (!(cut > -INFINITY) || !isfinite(top))
        return NAN;
    for (size_t i = 0; i < m; i++)
        x[i] = exp(log_w[order[n - m + i]] - top) - exp(cut - top);
    if (!(x[m - 1] > 1e-12) || !(x[(size_t)((double)m / 4 + 0.5) - 1] > 0))
        return NAN; /* equal weights have no tail */
    double scale, k = pareto_fit(m, x, &scale);
    if (smoothed && isfinite(k))
        for (size_t i = 0; i < m; i++) {
            double p = ((double)i + 0.5) / (double)m;
            double quantile = fabs(k) > 1e-8 ? scale * expm1(-k * log1p(-p)) / k : -scale * log1p(-p);
            smoothed[order[n - m + i]] = fmin(top + log(quantile + exp(cut - top)), top);
        }
    return k;
}
