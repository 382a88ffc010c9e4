/* row_blocks.c - two matrix products and a pass in between, block by block. */
#include "row_blocks.h"
#include "pass.h"
#include "wvgd_model.h"
#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Products of up to so many multiplications are done without copying their operands (by OpenBLAS: 1.2 times
 * as fast); and rows a block has at least. */
enum { SMALL = 1000000, FEW = 48 };

/* Blocks of points that share a block of rows, at most, and numbers that their weights, or gradients, may be. */
enum { BLOCKS = 4, NEAR = 16384 };

/* One block of rows, one of points. */
static void evaluate_block(const wv_row_blocks *r, const wv_row_model *m, size_t at, size_t rows, bool grad,
                           wv_row_work *k)
{
    int P = (int)r->P, n = (int)k->width;
    const double *X = r->X + at * r->P;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, n, P, 1.0, X, P, k->w, n, 0.0, k->s, n);
    m->pass(m->self, at, rows, k);
    if (grad)
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, P, n, (int)rows, -1.0, X, P, k->s, n, 1.0, k->g, n);
}

/* Each block of points also fetches its share of the next block of rows. */
static void evaluate_rows(const wv_row_blocks *r, const wv_row_model *m, size_t blocks, bool grad, wv_row_work *k)
{
    for (size_t at = 0, next; at < r->rows; at = next) {
        next = at + r->block < r->rows ? at + r->block : r->rows;
        size_t last = next + r->block < r->rows ? next + r->block : r->rows, share = (last - next) * r->P / blocks;
        for (size_t i = 0; i < blocks; i++) {
            for (size_t p = i * share; p < (i + 1) * share; p += 64 / sizeof *r->X)
                __builtin_prefetch(r->X + next * r->P + p, 0, 2);
            evaluate_block(r, m, at, next - at, grad, &k[i]);
        }
    }
}

/* One point: matrix times vector, and rows take the place of columns in the pass. */
static void evaluate_rows_once(const wv_row_blocks *r, const wv_row_model *m, bool grad, wv_row_work *k)
{
    int P = (int)r->P;
    for (size_t at = 0; at < r->rows; at += r->block) {
        size_t rows = r->rows - at < r->block ? r->rows - at : r->block;
        const double *X = r->X + at * r->P;
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)rows, P, 1.0, X, P, k->w, 1, 0.0, k->s, 1);
        m->once(m->self, rows, k->s, k->sum);
        if (grad)
            cblas_dgemv(CblasRowMajor, CblasTrans, (int)rows, P, -1.0, X, P, k->s, 1, 1.0, k->g, 1);
    }
}

/* Numbers that a block of points has of its own. */
static size_t own_size(const wv_row_blocks *r)
{
    return r->points * (2 * r->P + r->sums + r->scales);
}

static void begin(const wv_row_blocks *r, const wv_row_model *m, size_t b, size_t width, const double *z,
                  wv_row_work *k)
{
    k->width = width;
    memset(k->w, 0, r->P * width * sizeof *k->w);
    memset(k->g, 0, r->P * width * sizeof *k->g);
    /* the last block of sums has room for WV_PASS_WIDTH of one point */
    memset(k->sum, 0, r->sums * (width == 1 ? WV_PASS_WIDTH : width) * sizeof *k->sum);
    m->begin(m->self, b, z, k);
}

/* n points, at most so many as r->blocks blocks have. */
static void evaluate(const wv_row_blocks *r, const wv_row_model *m, size_t n, const double *z, double *log_p,
                     double *grad, double *piece)
{
    size_t most = r->points * r->P, blocks = 0;
    bool once = n == 1 && m->once;
    wv_row_work k[BLOCKS];
    for (size_t i = 0; i < n; i += r->points, blocks++) {
        double *own = piece + blocks * own_size(r), *sum = own + 2 * most;
        k[blocks] = (wv_row_work){0, own, own + most, sum, sum + r->sums * r->points, piece + r->blocks * own_size(r)};
        size_t b = n - i < r->points ? n - i : r->points;
        begin(r, m, b, once ? 1 : wv_pass_width(b), z + i * m->dim, &k[blocks]);
    }
    if (once)
        evaluate_rows_once(r, m, grad, k);
    else
        evaluate_rows(r, m, blocks, grad, k);
    for (size_t i = 0; i < n; i += r->points)
        m->finish(m->self, n - i < r->points ? n - i : r->points, z + i * m->dim, log_p + i,
                  grad ? grad + i * m->dim : NULL, &k[i / r->points]);
}

int wv_row_blocks_evaluate(wv_row_blocks *r, const wv_row_model *m, size_t n, const double *z, double *log_p,
                           double *grad)
{
    double *piece = wv_scratch_take(&r->scratch);
    if (!piece)
        return -1;
    for (size_t i = 0, here; i < n; i += here) {
        here = n - i < r->blocks * r->points ? n - i : r->blocks * r->points;
        evaluate(r, m, here, z + i * m->dim, log_p + i, grad ? grad + i * m->dim : NULL, piece);
    }
    wv_scratch_give(&r->scratch, piece);
    return 0;
}

/* As many points as leave enough rows to a small product. */
static void choose_blocks(wv_row_blocks *r)
{
    r->points = WVGD_CHUNK;
    while (r->points > WV_PASS_WIDTH && r->points * FEW > SMALL / r->P)
        r->points /= 2;
    r->block = SMALL / r->P / r->points / WV_PASS_WIDTH * WV_PASS_WIDTH;
    r->block = r->block < FEW ? FEW : r->block > WV_PASS_ROWS ? WV_PASS_ROWS : r->block;
    r->blocks = NEAR / (r->P * r->points);
    r->blocks = r->blocks < 1 ? 1 : r->blocks > BLOCKS ? BLOCKS : r->blocks;
}

int wv_row_blocks_open(wv_row_blocks *r, size_t rows, size_t P, size_t sums, size_t scales)
{
    bool fits = P > 0 && P <= INT_MAX / WVGD_CHUNK;
    *r = (wv_row_blocks){.rows = rows, .P = fits ? P : 1, .sums = sums, .scales = scales};
    choose_blocks(r);
    wv_scratch_open(&r->scratch, r->blocks * own_size(r) + r->points * r->block);
    r->X = fits ? calloc(rows + 1, P * sizeof *r->X) : NULL;
    return r->X ? 0 : -1;
}

void wv_row_blocks_close(wv_row_blocks *r)
{
    wv_scratch_close(&r->scratch);
    free(r->X);
}
