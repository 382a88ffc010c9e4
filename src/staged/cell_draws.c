/* cell_draws.c - the stored draws of a cell: gathered, in rows or in columns, and what they tell of Gaussians by
 * weights that stand for these, without any draws of their own. */
#include "staged/cell_draws.h"
#include "fit.h"
#include "gaussian.h"
#include "simd/columns.h"
#include "dense.h"
#include "policy.h"
#include "staged/mixture_fit.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

void wv_cell_draws_update_walls(wvgd_fit *f)
{
    wv_geometry g = wv_partition_geometry(&f->cells);
    wv_halfspaces_update(&f->halfspaces, &g, f->arena);
}

wv_inside wv_cell_draws_inside(wvgd_fit *f, size_t j, wv_rng_use use, uint64_t first, size_t n, bool around)
{
    wv_in_cell c = {.j = j,
                    .q = wv_partition_component(&f->cells, j),
                    .around = around ? wv_partition_proposal(&f->cells, j) : (wv_gaussian){0},
                    .stream = {f->opt.seed, use, f->count.batch, j}};
    return wv_halfspaces_draw_inside(&f->halfspaces, &c, first, n, f->arena);
}

/* ---- gathered ---------------------------------------------------------------------------------------------------- */
size_t wv_cell_draws_most(const wvgd_fit *f, size_t j)
{
    size_t n = 0;
    for (size_t i = 0; i < f->closing.draws.n; i++)
        n += f->closing.draws.cell[i] == j;
    return n < f->size.n_max ? n : f->size.n_max;
}

/* Arrays for so many values. */
static wv_cell_sample with_values(wvgd_fit *f, size_t most)
{
    return (wv_cell_sample){.log_p = wv_arena_take(f->arena, most),
                            .log_w = wv_arena_take(f->arena, most),
                            .log_mix = wv_arena_take(f->arena, most),
                            .log_m = wv_arena_take(f->arena, most)};
}

/* What is known of stored draw i, as the next of the sample. */
static void add_values(const wvgd_fit *f, size_t i, wv_cell_sample *s)
{
    s->log_p[s->n] = f->closing.draws.log_p[i];
    s->log_w[s->n] = f->closing.log_w[i];
    s->log_mix[s->n] = f->closing.draws.log_mix[0][i];
    s->log_m[s->n] = f->closing.draws.log_m[i];
    s->n++;
}

/* Adds the stored draws of cell j in rows. */
static void add_rows(const wvgd_fit *f, size_t j, wv_cell_sample *s)
{
    size_t D = f->D;
    for (size_t i = 0; i < f->closing.draws.n && s->n < f->size.n_max; i++)
        if (f->closing.draws.cell[i] == j && f->closing.draws.log_p[i] > -INFINITY) {
            memcpy(s->x + s->n * D, f->closing.draws.x + i * D, D * sizeof(double));
            if (s->grad)
                memcpy(s->grad + s->n * D, f->closing.draws.grad + i * D, D * sizeof(double));
            add_values(f, i, s);
        }
}

wv_cell_sample wv_cell_draws_sample(wvgd_fit *f, size_t j, bool gradients)
{
    size_t most = wv_cell_draws_most(f, j);
    wv_cell_sample s = with_values(f, most);
    s.x = wv_arena_take(f->arena, most * f->D);
    s.grad = gradients ? wv_arena_take(f->arena, most * f->D) : NULL;
    add_rows(f, j, &s);
    return s;
}

/* ---- where the density ends -------------------------------------------------------------------------------------- */
static bool lacks_density(const wvgd_fit *f, size_t j)
{
    const wv_draws *d = &f->closing.draws;
    for (size_t i = 0; i < d->n; i++)
        if (d->cell[i] == j && !(d->log_p[i] > -INFINITY))
            return true;
    return false;
}

/* log sum of q/m over the stored draws of cell j without density. */
static double log_sum_beyond(wvgd_fit *f, size_t j, const wv_gaussian *q)
{
    const wv_draws *d = &f->closing.draws;
    size_t D = f->D, n = 0, most = wv_cell_draws_most(f, j), mark = wv_arena_mark(f->arena);
    double *x = wv_arena_take(f->arena, most * D), *y = wv_arena_take(f->arena, most * D),
           *log_m = wv_arena_take(f->arena, most), *log_u = wv_arena_take(f->arena, most);
    for (size_t i = 0; i < d->n && n < most; i++)
        if (d->cell[i] == j && !(d->log_p[i] > -INFINITY)) {
            memcpy(x + n * D, d->x + i * D, D * sizeof *x);
            log_m[n++] = d->log_m[i];
        }
    wv_gaussian_log_density(q, n, x, log_u, y, f->arena);
    cblas_daxpy((int)n, -1.0, log_m, 1, log_u, 1);
    double sum = wv_weights_lse(n, log_u);
    wv_arena_release(f->arena, mark);
    return sum;
}

double wv_cell_draws_coefficients(const wvgd_fit *f)
{
    double D = (double)f->D;
    return 1 + 2 * D + (f->cells.shape.family == wv_family_get(WVGD_DIAG) ? 0 : D * (D - 1) / 2);
}

/* What draws with density tell of q, whose log sum over those without it is `beyond`. A fit of p coefficients to n
 * draws that leaves them a variance V has added p V / n to their mean. */
static wv_ended tell_ended(const wvgd_fit *f, const wv_judgement *a, double mean, double beyond)
{
    double p = wv_cell_draws_coefficients(f), all = (double)f->closing.draws.n, log_Z = a->elbo - mean,
           share = 1 / (1 + exp(beyond - log(all) - log_Z));
    bool ended = share < wv_policy.component_hardly_cut;
    return (wv_ended){.ended = ended,
                      .told = ended && a->ess > wv_policy.component_ended_draws * p,
                      .ess = a->ess,
                      .log_Z = {log_Z, sqrt(fmax(1 / a->ess - 1 / all, 0))},
                      .mean = mean - p * a->variance / a->ess,
                      .variance = a->variance};
}

wv_ended wv_cell_draws_ended(wvgd_fit *f, size_t j, const wv_gaussian *q)
{
    wv_ended e = {.ended = false};
    if (!lacks_density(f, j))
        return e;
    size_t mark = wv_arena_mark(f->arena);
    wv_cell_sample s = wv_cell_draws_sample(f, j, false);
    double *log_q = wv_arena_take(f->arena, s.n), *u = wv_arena_take(f->arena, s.n),
           *y = wv_arena_take(f->arena, s.n * f->D), mean = 0;
    wv_gaussian_log_density(q, s.n, s.x, log_q, y, f->arena);
    wv_judgement a = wv_cell_draws_judge(f, &s, log_q, u);
    for (size_t i = 0; i < s.n && a.ess > 0; i++)
        mean += u[i] * (s.log_p[i] - log_q[i]);
    if (a.ess > 0)
        e = tell_ended(f, &a, mean, log_sum_beyond(f, j, q));
    wv_arena_release(f->arena, mark);
    return e;
}

/* ---- in columns -------------------------------------------------------------------------------------------------- */
/* Rows become columns from number n on. */
static void turn(size_t D, size_t n, const double *const *row, double *columns)
{
    wv_columns_best()->turn(D, row, columns + n / WV_COLUMNS * WV_COLUMNS * D + n % WV_COLUMNS);
}

wv_cell_sample wv_cell_draws_columns(wvgd_fit *f, size_t j)
{
    const double *row[WV_COLUMNS_WIDTH];
    size_t D = f->D, most = wv_cell_draws_most(f, j);
    wv_cell_sample s = with_values(f, most);
    s.x = wv_arena_take(f->arena, (most + WV_COLUMNS - 1) / WV_COLUMNS * WV_COLUMNS * D);
    for (size_t i = 0; i < f->closing.draws.n && s.n < f->size.n_max; i++)
        if (f->closing.draws.cell[i] == j && f->closing.draws.log_p[i] > -INFINITY) {
            row[s.n % WV_COLUMNS_WIDTH] = f->closing.draws.x + i * D;
            add_values(f, i, &s);
            if (s.n % WV_COLUMNS_WIDTH == 0)
                turn(D, s.n - WV_COLUMNS_WIDTH, row, s.x);
        }
    for (size_t k = s.n % WV_COLUMNS_WIDTH; k && k < WV_COLUMNS_WIDTH; k++)
        row[k] = row[k - 1]; /* columns beyond the last repeat it */
    if (s.n % WV_COLUMNS_WIDTH)
        turn(D, s.n - s.n % WV_COLUMNS_WIDTH, row, s.x);
    return s;
}

/* Two blocks of draws in columns, [D][WV_COLUMNS]. */
typedef struct {
    double *centred, *weighted;
} blocks;

static blocks take_blocks(wvgd_fit *f)
{
    return (blocks){wv_arena_take(f->arena, f->D * WV_COLUMNS), wv_arena_take(f->arena, f->D * WV_COLUMNS)};
}

static size_t block_of(size_t n, size_t first)
{
    return n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
}

/* Mean, or with `square` the covariance about it (lower half), added to what is there. */
static void add_moments(wvgd_fit *f, const wv_cell_sample *s, const double *u, blocks b, double *mean, double *square)
{
    size_t D = f->D;
    double w[WV_COLUMNS];
    const wv_columns *pass = wv_columns_best();
    for (size_t first = 0; first < s->n; first += WV_COLUMNS) {
        size_t here = block_of(s->n, first), whole = wv_columns_round(here);
        for (size_t i = 0; i < whole; i++)
            w[i] = i < here ? u[first + i] : 0;
        if (square) {
            pass->centre(D, whole, w, s->x + first * D, mean, b.centred, b.weighted);
            wv_columns_product(D, whole, b.weighted, b.centred, true, square, f->arena);
        } else
            pass->mean(D, whole, w, s->x + first * D, mean);
    }
}

/* The covariance in root becomes its Cholesky factor. It is that of correlations, of which the share `keep` is
 * believed. False: there is none. */
static bool factor(wvgd_fit *f, double keep, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *sd = wv_arena_take(f->arena, D), *spare = wv_arena_take(f->arena, D * D);
    bool ok = true;
    for (size_t k = 0; k < D && ok; k++)
        ok = (sd[k] = sqrt(root[k * D + k])) > 1e-150;
    for (size_t k = 0; k < D && ok; k++)
        for (size_t i = 0; i <= k; i++)
            root[k * D + i] = i < k ? keep * (root[k * D + i] / sd[k] / sd[i]) : 1;
    ok = ok && wv_dense_chol(D, root, spare);
    for (size_t k = 0; k < D && ok; k++)
        cblas_dscal((int)k + 1, sd[k], root + k * D, 1);
    wv_arena_release(f->arena, mark);
    return ok;
}

/* Correlations are shrunk towards none where draws are few. */
bool wv_cell_draws_moments(wvgd_fit *f, const wv_cell_sample *s, const double *u, double *mean, double *root)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double ess = wv_weights_ess(s->n, u);
    blocks b = take_blocks(f);
    memset(mean, 0, D * sizeof *mean);
    memset(root, 0, D * D * sizeof *root);
    add_moments(f, s, u, b, mean, NULL);
    add_moments(f, s, u, b, mean, root);
    wv_arena_release(f->arena, mark);
    return factor(f, ess / (ess + (double)D), root);
}

/* ---- what they tell ---------------------------------------------------------------------------------------------- */
void wv_cell_draws_density(wvgd_fit *f, const wv_cell_sample *s, const wv_gaussian *q, double *log_q)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena);
    double *inverse = wv_arena_take(f->arena, D * D),
           constant = wv_columns_constant(D, q->family->log_det(D, 0, q->root), 0), r[WV_COLUMNS];
    blocks b = take_blocks(f);
    bool mixture = wv_mixture_is(&f->mix, q);
    if (mixture)
        memcpy(log_q, s->log_mix, s->n * sizeof *log_q);
    else
        wv_dense_invert(D, q->root, inverse);
    for (size_t first = 0; first < s->n && !mixture; first += WV_COLUMNS) {
        size_t here = block_of(s->n, first);
        wv_columns_whiten(D, wv_columns_round(here), inverse, q->mu, s->x + first * D, b.weighted, b.centred, r);
        wv_columns_log(D, here, constant, 0, r, log_q + first);
    }
    wv_arena_release(f->arena, mark);
}

wv_judgement wv_cell_draws_judge(const wvgd_fit *f, const wv_cell_sample *s, const double *log_q, double *u)
{
    size_t n = s->n;
    double top = -INFINITY, sum = 0, squares = 0, mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) {
        u[i] = log_q[i] - s->log_m[i];
        top = u[i] > top ? u[i] : top;
    }
    if (!(top > -INFINITY))
        return (wv_judgement){0, -INFINITY, INFINITY};
    for (size_t i = 0; i < n; i++)
        u[i] -= top;
    wv_weights_exp(n, u);
    for (size_t i = 0; i < n; i++) {
        sum += u[i];
        squares += u[i] * u[i];
        mean += u[i] * (s->log_p[i] - log_q[i]);
    }
    mean /= sum;
    for (size_t i = 0; i < n; i++) {
        double d = s->log_p[i] - log_q[i] - mean;
        u[i] /= sum;
        variance += u[i] * d * d;
    }
    return (wv_judgement){sum * sum / squares, mean + top + log(sum / (double)f->closing.draws.n), variance};
}

/* The regression of r = log p~ - log m on T = (1, y, y^2/2), y in the coordinates of a Gaussian q, with weights u for
 * q, and d = log m - log q. */
typedef struct {
    size_t p;                /* columns of T: 1 + 2D */
    double *S;               /* [p][p] T'uT, lower half */
    double *with_r, *with_d; /* [p] T'ur, T'ud */
    double squares, rr, dd;  /* sums of u^2, u r^2, u d^2 */
} regression;

/* Of one block: the roots of its weights, and r and d times these. */
typedef struct {
    double root[WV_COLUMNS], r[WV_COLUMNS], d[WV_COLUMNS];
} scaled;

/* The block of draws from number `first` on, filled up with zeros, and its part of the sums of squares. */
static void scale(const wv_cell_sample *s, const double *log_q, const double *u, size_t first, scaled *to,
                  regression *g)
{
    size_t here = block_of(s->n, first), whole = wv_columns_round(here);
    double level = s->log_p[0] - s->log_mix[0];
    for (size_t i = 0; i < whole; i++) {
        double w = i < here ? u[first + i] : 0;
        to->root[i] = sqrt(w);
        to->r[i] = i < here ? to->root[i] * (s->log_p[first + i] - s->log_mix[first + i] - level) : 0;
        to->d[i] = i < here ? to->root[i] * (s->log_mix[first + i] - log_q[first + i]) : 0;
        g->squares += w * w;
        g->rr += to->r[i] * to->r[i];
        g->dd += to->d[i] * to->d[i];
    }
}

/* T[p][WV_COLUMNS] of whitened columns y[D][WV_COLUMNS], times root. */
static void statistics(size_t D, size_t whole, const double *y, const double *root, double *T)
{
    memcpy(T, root, whole * sizeof *T);
    for (size_t k = 0; k < D; k++)
        for (size_t i = 0; i < whole; i++) {
            double t = y[k * WV_COLUMNS + i];
            T[(1 + k) * WV_COLUMNS + i] = root[i] * t;
            T[(1 + D + k) * WV_COLUMNS + i] = root[i] * (t * t / 2);
        }
}

/* Adds some blocks of draws, as many as it takes to tell. */
static void regress(wvgd_fit *f, const wv_cell_sample *s, const wv_gaussian *q, const double *log_q, const double *u,
                    regression *g)
{
    size_t D = f->D, p = g->p, all = (s->n + WV_COLUMNS - 1) / WV_COLUMNS,
           step = all / ((size_t)wv_policy.gain_draws * p / WV_COLUMNS + 1) + 1, mark = wv_arena_mark(f->arena);
    double *inverse = wv_arena_take(f->arena, D * D), *T = wv_arena_take(f->arena, p * WV_COLUMNS), square[WV_COLUMNS];
    blocks b = take_blocks(f);
    scaled by;
    wv_dense_invert(D, q->root, inverse);
    for (size_t first = 0; first < s->n; first += step * WV_COLUMNS) {
        size_t whole = wv_columns_round(block_of(s->n, first));
        wv_columns_whiten(D, whole, inverse, q->mu, s->x + first * D, b.weighted, b.centred, square);
        scale(s, log_q, u, first, &by, g);
        statistics(D, whole, b.centred, by.root, T);
        wv_columns_product(p, whole, T, T, true, g->S, f->arena);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)p, (int)whole, 1.0, T, WV_COLUMNS, by.r, 1, 1.0, g->with_r, 1);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)p, (int)whole, 1.0, T, WV_COLUMNS, by.d, 1, 1.0, g->with_d, 1);
    }
    wv_arena_release(f->arena, mark);
}

/* S b = T'ur leaves r'ur - b'T'ur, and what it explains is d + T b. b, sums: [p] scratch. */
static bool gains(regression *g, double *b, double *sums, double alike, double times)
{
    size_t p = g->p;
    /* of what is left that is fitted away, and seems to be explained */
    double sum = g->S[0], share = (double)p * g->squares / (sum * sum);
    for (size_t k = 0; k < p; k++) {
        sums[k] = g->S[k * p];
        g->S[k * p + k] *= 1 + 1e-10;
    }
    memcpy(b, g->with_r, p * sizeof *b);
    if (!(share < wv_policy.gain_noise) ||
        LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, g->S, (lapack_int)p, b, (lapack_int)p) != 0)
        return true;
    double fitted = cblas_ddot((int)p, b, 1, g->with_r, 1),
           mean = (g->with_d[0] + cblas_ddot((int)p, b, 1, sums, 1)) / sum;
    double left = (g->rr - fitted) / sum / (1 - share),
           gained = (g->dd + 2 * cblas_ddot((int)p, b, 1, g->with_d, 1) + fitted) / sum - mean * mean - share * left;
    return gained > wv_policy.gain_doubt * fmax(alike, times * left);
}

bool wv_cell_draws_may_gain(wvgd_fit *f, const wv_cell_sample *s, const wv_gaussian *q, const double *log_q,
                            const double *u, double alike, double times)
{
    size_t p = 1 + 2 * f->D, mark = wv_arena_mark(f->arena);
    regression g = {.p = p,
                    .S = wv_arena_zeros(f->arena, p * p),
                    .with_r = wv_arena_zeros(f->arena, p),
                    .with_d = wv_arena_zeros(f->arena, p)};
    double *b = wv_arena_take(f->arena, p), *sums = wv_arena_take(f->arena, p);
    regress(f, s, q, log_q, u, &g);
    bool gain = gains(&g, b, sums, alike, times);
    wv_arena_release(f->arena, mark);
    return gain;
}

void wv_cell_draws_keep(wvgd_fit *f, size_t j, size_t n, const double *log_q)
{
    wv_draws_set_log_q(&f->closing.draws, j, n, log_q);
}

void wv_cell_draws_measure(wvgd_fit *f, size_t j)
{
    size_t mark = wv_arena_mark(f->arena);
    wv_cell_sample s = wv_cell_draws_sample(f, j, false);
    double *log_q = wv_arena_take(f->arena, s.n), *y = wv_arena_take(f->arena, s.n * f->D);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, s.n, s.x, log_q, y, f->arena);
    wv_cell_draws_keep(f, j, s.n, log_q);
    wv_arena_release(f->arena, mark);
}
