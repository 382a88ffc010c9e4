/* cell_draws.c - the stored draws of a cell: gathered, in rows or in columns, and what they tell of Gaussians by
 * weights that stand for these, without any draws of their own. */
#include "staged/cell_draws.h"
#include "fit.h"
#include "gaussian.h"
#include "simd/columns.h"
#include "dense.h"
#include "staged/mixture_fit.h"
#include "weights.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

/* ---- gathered ---------------------------------------------------------------------------------------------------- */
/* What is known of stored draw i, as number n of a cell's. */
static void gather_values(wvgd_fit *f, size_t i, size_t n)
{
    f->desk.glp[n] = f->closing.draws.log_p[i];
    f->desk.glv[n] = f->closing.log_w[i];
    f->desk.moving[n] = f->closing.draws.log_mix[0][i];
    f->desk.psi[n] = f->closing.draws.log_m[i];
}

/* Rows become columns from number n on. */
static void turn(wvgd_fit *f, size_t n, const double *const *row)
{
    wv_columns_best()->turn(f->D, row, f->desk.gy + n / WV_COLUMNS * WV_COLUMNS * f->D + n % WV_COLUMNS);
}

size_t wv_cell_draws_gather(wvgd_fit *f, size_t j, bool gradients)
{
    size_t n = 0, D = f->D;
    for (size_t i = 0; i < f->closing.draws.n && n < f->size.n_max; i++)
        if (f->closing.draws.cell[i] == j && f->closing.draws.log_p[i] > -INFINITY) {
            memcpy(f->desk.gx + n * D, f->closing.draws.x + i * D, D * sizeof(double));
            if (gradients)
                memcpy(f->desk.gg + n * D, f->closing.draws.grad + i * D, D * sizeof(double));
            gather_values(f, i, n++);
        }
    return n;
}

/* Scratch of a block of draws in columns. */
typedef struct {
    double *centred, *weighted; /* [D][WV_COLUMNS] */
} block;

static block names(const wvgd_fit *f)
{
    return (block){f->desk.columns, f->desk.columns + f->D * WV_COLUMNS};
}

static size_t block_of(size_t n, size_t first)
{
    return n - first < WV_COLUMNS ? n - first : WV_COLUMNS;
}

size_t wv_cell_draws_columns(wvgd_fit *f, size_t j, size_t every)
{
    const double *row[WV_COLUMNS_WIDTH];
    size_t n = 0, D = f->D;
    for (size_t i = 0; i < f->closing.draws.n && n < f->size.n_max; i++)
        if ((j < f->N ? f->closing.draws.cell[i] == j : i % every == 0) && f->closing.draws.log_p[i] > -INFINITY) {
            row[n % WV_COLUMNS_WIDTH] = f->closing.draws.x + i * D;
            gather_values(f, i, n++);
            if (n % WV_COLUMNS_WIDTH == 0)
                turn(f, n - WV_COLUMNS_WIDTH, row);
        }
    for (size_t k = n % WV_COLUMNS_WIDTH; k && k < WV_COLUMNS_WIDTH; k++)
        row[k] = row[k - 1]; /* columns beyond the last repeat it */
    if (n % WV_COLUMNS_WIDTH)
        turn(f, n - n % WV_COLUMNS_WIDTH, row);
    return n;
}

/* Covariances are those of correlations, shrunk towards none where draws are few. */
bool wv_cell_draws_moments(wvgd_fit *f, size_t n, double *mean, double *root)
{
    size_t D = f->D;
    double *sd = f->desk.vector[0], w[WV_COLUMNS], ess = wv_weights_ess(n, f->desk.ga), keep = ess / (ess + (double)D);
    const wv_columns *pass = wv_columns_best();
    block b = names(f);
    memset(mean, 0, D * sizeof *mean);
    memset(root, 0, D * D * sizeof *root);
    for (int round = 0; round < 2; round++)
        for (size_t first = 0; first < n; first += WV_COLUMNS) {
            size_t here = block_of(n, first), whole = wv_columns_round(here);
            for (size_t i = 0; i < whole; i++)
                w[i] = i < here ? f->desk.ga[first + i] : 0;
            if (round) {
                pass->centre(D, whole, w, f->desk.gy + first * D, mean, b.centred, b.weighted);
                wv_columns_product(D, whole, b.weighted, b.centred, true, root);
            } else
                pass->mean(D, whole, w, f->desk.gy + first * D, mean);
        }
    for (size_t k = 0; k < D; k++)
        if (!((sd[k] = sqrt(root[k * D + k])) > 1e-150))
            return false;
    for (size_t k = 0; k < D; k++)
        for (size_t i = 0; i <= k; i++)
            root[k * D + i] = i < k ? keep * (root[k * D + i] / sd[k] / sd[i]) : 1;
    if (!wv_dense_chol(D, root, f->desk.square[0]))
        return false;
    for (size_t k = 0; k < D; k++)
        cblas_dscal((int)k + 1, sd[k], root + k * D, 1);
    return true;
}

/* ---- what they tell ---------------------------------------------------------------------------------------------- */
void wv_cell_draws_density(wvgd_fit *f, const wv_gaussian *q, size_t n, double *log_q)
{
    size_t D = f->D;
    double *inverse = f->desk.square[1], constant = wv_columns_constant(D, q->family->log_det(D, 0, q->root), 0),
           r[WV_COLUMNS];
    block b = names(f);
    wv_dense_invert(D, q->root, inverse);
    if (wv_mixture_is(&f->mix, q)) {
        memcpy(log_q, f->desk.moving, n * sizeof *log_q);
        return;
    }
    for (size_t first = 0; first < n; first += WV_COLUMNS) {
        size_t here = block_of(n, first);
        wv_columns_whiten(D, wv_columns_round(here), inverse, q->mu, f->desk.gy + first * D, b.weighted, b.centred, r);
        wv_columns_log(D, here, constant, 0, r, log_q + first);
    }
}

wv_judgement wv_cell_draws_judge(wvgd_fit *f, size_t n, const double *log_q)
{
    wv_judgement a = {0, -INFINITY, INFINITY};
    double *u = f->desk.gu, top = -INFINITY, sum = 0, squares = 0, mean = 0, spread = 0;
    for (size_t i = 0; i < n; i++) {
        u[i] = log_q[i] - f->desk.psi[i];
        top = u[i] > top ? u[i] : top;
    }
    if (!(top > -INFINITY))
        return a;
    for (size_t i = 0; i < n; i++)
        u[i] -= top;
    wv_weights_exp(n, u);
    for (size_t i = 0; i < n; i++) {
        sum += u[i];
        squares += u[i] * u[i];
        mean += u[i] * (f->desk.glp[i] - log_q[i]);
    }
    mean /= sum;
    for (size_t i = 0; i < n; i++) {
        double d = f->desk.glp[i] - log_q[i] - mean;
        u[i] /= sum;
        spread += u[i] * d * d;
    }
    return (wv_judgement){sum * sum / squares, mean + top + log(sum / (double)f->closing.draws.n), spread};
}

size_t wv_cell_draws_asked(size_t D)
{
    enum { FOR_EACH = 5 }; /* coefficient */
    return FOR_EACH * (1 + 2 * D);
}

/* By the regression of r = log p~ - log m on T = (1, y, y^2/2), y in the coordinates of q, with weights u for q: S
 * b = T'ur leaves r'ur - b'T'ur, and with d = log m - log q what it explains is d + T b. */
bool wv_cell_draws_may_gain(wvgd_fit *f, const wv_gaussian *q, size_t n, const double *log_q, double alike,
                            double times)
{
    size_t D = f->D, p = 1 + 2 * D, blocks = (n + WV_COLUMNS - 1) / WV_COLUMNS,
           step = blocks / (wv_cell_draws_asked(D) / WV_COLUMNS + 1) + 1;
    double *S = f->desk.F, *b = f->desk.Fc, *with_r = f->desk.Fm, *with_d = f->desk.gr, *sums = with_d + p,
           *T = f->desk.T, root[WV_COLUMNS], r[WV_COLUMNS], d[WV_COLUMNS], square[WV_COLUMNS]; /* T: [p][WV_COLUMNS] */
    double squares = 0, rr = 0, dd = 0, level = f->desk.glp[0] - f->desk.moving[0];
    block c = names(f);
    memset(S, 0, p * p * sizeof *S);
    memset(with_r, 0, p * sizeof *with_r);
    memset(with_d, 0, p * sizeof *with_d);
    for (size_t first = 0; first < n; first += step * WV_COLUMNS) {
        size_t here = block_of(n, first), whole = wv_columns_round(here);
        wv_columns_whiten(D, whole, f->desk.square[1], q->mu, f->desk.gy + first * D, c.weighted, c.centred, square);
        for (size_t i = 0; i < whole; i++) {
            double u = i < here ? f->desk.gu[first + i] : 0;
            root[i] = T[i] = sqrt(u);
            r[i] = i < here ? root[i] * (f->desk.glp[first + i] - f->desk.moving[first + i] - level) : 0;
            d[i] = i < here ? root[i] * (f->desk.moving[first + i] - log_q[first + i]) : 0;
            squares += u * u;
            rr += r[i] * r[i];
            dd += d[i] * d[i];
        }
        for (size_t k = 0; k < D; k++)
            for (size_t i = 0; i < whole; i++) {
                double y = c.centred[k * WV_COLUMNS + i];
                T[(1 + k) * WV_COLUMNS + i] = root[i] * y;
                T[(1 + D + k) * WV_COLUMNS + i] = root[i] * (y * y / 2);
            }
        wv_columns_product(p, whole, T, T, true, S);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)p, (int)whole, 1.0, T, WV_COLUMNS, r, 1, 1.0, with_r, 1);
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)p, (int)whole, 1.0, T, WV_COLUMNS, d, 1, 1.0, with_d, 1);
    }
    /* of what is left that is fitted away, and seems to be explained */
    double sum = S[0], share = (double)p * squares / (sum * sum);
    for (size_t k = 0; k < p; k++) {
        sums[k] = S[k * p];
        S[k * p + k] *= 1 + 1e-10;
    }
    memcpy(b, with_r, p * sizeof *b);
    if (!(share < 0.67) ||
        LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', (lapack_int)p, 1, S, (lapack_int)p, b, (lapack_int)p) != 0)
        return true;
    double fitted = cblas_ddot((int)p, b, 1, with_r, 1), mean = (with_d[0] + cblas_ddot((int)p, b, 1, sums, 1)) / sum;
    double left = (rr - fitted) / sum / (1 - share),
           gained = (dd + 2 * cblas_ddot((int)p, b, 1, with_d, 1) + fitted) / sum - mean * mean - share * left;
    return gained > 0.5 * fmax(alike, times * left);
}

void wv_cell_draws_keep(wvgd_fit *f, size_t j, size_t n, const double *log_q)
{
    for (size_t i = 0, k = 0; i < f->closing.draws.n; i++)
        if (f->closing.draws.cell[i] == j)
            f->closing.draws.log_q[i] = f->closing.draws.log_p[i] > -INFINITY && k < n ? log_q[k++] : -INFINITY;
}

void wv_cell_draws_measure(wvgd_fit *f, size_t j)
{
    size_t n = wv_cell_draws_gather(f, j, false);
    wv_gaussian q = wv_partition_component(&f->cells, j);
    wv_gaussian_log_density(&q, n, f->desk.gx, f->desk.gr, f->desk.y, f->arena);
    wv_cell_draws_keep(f, j, n, f->desk.gr);
}
