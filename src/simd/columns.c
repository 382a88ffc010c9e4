/* columns.c - which instruction set the passes use, and the products between them: triangles are multiplied in
 * strips, so that most of their zeros are left out. */
#include "simd/columns.h"
#include "simd/instructions.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

enum { STRIP = 8 };

#define ROW CblasRowMajor

static const double half_log_2pi = 0.918938533204672741780, pi = 3.141592653589793238463;

const wv_columns *wv_columns_best(void)
{
#ifdef __x86_64__
    wv_instructions best = wv_instructions_best();
    if (best >= WV_AVX512)
        return &wv_columns_avx512;
    if (best >= WV_AVX2)
        return &wv_columns_avx2;
#endif
    return &wv_columns_any;
}

size_t wv_columns_round(size_t n)
{
    return (n + WV_COLUMNS_WIDTH - 1) / WV_COLUMNS_WIDTH * WV_COLUMNS_WIDTH;
}

void wv_columns_turn_rows(size_t D, size_t n, const double *x, size_t apart, double *block)
{
    const wv_columns *pass = wv_columns_best();
    for (size_t i = 0; i < n; i += WV_COLUMNS_WIDTH) {
        const double *row[WV_COLUMNS_WIDTH];
        for (size_t k = 0; k < WV_COLUMNS_WIDTH; k++) {
            row[k] = x + (i + k < n ? i + k : n - 1) * apart;
            for (size_t d = 0; i + k + WV_COLUMNS_WIDTH < n && d < D; d += 64 / sizeof *x)
                /* the next few: eight rows at once are more than the processor sees coming */
                __builtin_prefetch(row[k] + WV_COLUMNS_WIDTH * apart + d);
        }
        pass->turn(D, row, block + i);
    }
}

void wv_columns_turn(size_t D, size_t n, const double *x, double *block)
{
    wv_columns_turn_rows(D, n, x, D, block);
}

void wv_columns_multiply(const wv_product *p)
{
    const wv_columns *pass = wv_columns_best();
    bool rows = p->a_step == 1 && p->a_row >= p->k; /* of A lie in one piece */
    if (pass->multiply && p->n >= WV_COLUMNS_WIDTH)
        pass->multiply(p);
    else
        cblas_dgemm(ROW, rows ? CblasNoTrans : CblasTrans, CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1.0, p->a,
                    (int)(rows ? p->a_row : p->a_step), p->b, (int)p->ldb, p->add, p->out, (int)p->ldo);
}

void wv_columns_whiten(size_t D, size_t n, const double *inverse, const double *mu, const double *x, double *spare,
                       double *y, double *r)
{
    const wv_columns *pass = wv_columns_best();
    pass->subtract(D, n, x, mu, spare);
    for (size_t a = 0; a < D; a += STRIP) {
        size_t rows = D - a < STRIP ? D - a : STRIP;
        wv_columns_multiply(&(wv_product){rows, n, a + rows, inverse + a * D, D, 1, spare, WV_COLUMNS,
                                          y + a * WV_COLUMNS, WV_COLUMNS, false});
    }
    pass->squares(D, n, y, r);
}

void wv_columns_push(size_t D, size_t n, const double *inverse, const double *y, double *out)
{
    for (size_t a = 0; a < D; a += STRIP) {
        size_t rows = D - a < STRIP ? D - a : STRIP;
        wv_columns_multiply(&(wv_product){rows, n, D - a, inverse + a * D + a, 1, D, y + a * WV_COLUMNS, WV_COLUMNS,
                                          out + a * WV_COLUMNS, WV_COLUMNS, true});
    }
}

/* Up to WV_COLUMNS rows of b at a time, turned. */
void wv_columns_product(size_t D, size_t n, const double *a, const double *b, bool lower, double *out, wv_arena *arena)
{
    size_t strip = lower ? STRIP : D, mark = wv_arena_mark(arena);
    double *turned = wv_arena_take(arena, (size_t)WV_COLUMNS * WV_COLUMNS);
    for (size_t from = 0; from < D; from += WV_COLUMNS) {
        size_t wide = D - from < WV_COLUMNS ? D - from : WV_COLUMNS;
        for (size_t k = 0; k < wide; k += WV_COLUMNS_WIDTH) {
            const double *row[WV_COLUMNS_WIDTH];
            for (size_t i = 0; i < WV_COLUMNS_WIDTH; i++)
                row[i] = b + (from + k + i < D ? from + k + i : D - 1) * WV_COLUMNS;
            wv_columns_best()->turn(n, row, turned + k);
        }
        for (size_t at = lower ? from : 0; at < D; at += strip) {
            size_t rows = D - at < strip ? D - at : strip,
                   columns = lower && at + rows - from < wide ? at + rows - from : wide;
            wv_columns_multiply(&(wv_product){rows, columns, n, a + at * WV_COLUMNS, WV_COLUMNS, 1, turned, WV_COLUMNS,
                                              out + at * D + from, D, true});
        }
    }
    wv_arena_release(arena, mark);
}

/* lgamma writes to a global variable; this one, which C libraries have beside it, does not. */
double lgamma_r(double x, int *sign);

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

double wv_columns_constant(size_t D, double log_det, double nu)
{
    double d = (double)D;
    return -log_det + (nu > 0 ? log_gamma((nu + d) / 2) - log_gamma(nu / 2) - d / 2 * log(nu * pi) : -d * half_log_2pi);
}

void wv_columns_log(size_t D, size_t n, double constant, double nu, const double *r, double *log_q)
{
    if (nu > 0) {
        wv_columns_best()->tails(n, nu, (nu + (double)D) / 2, constant, r, log_q);
        return;
    }
    for (size_t i = 0; i < n; i++)
        log_q[i] = constant - r[i] / 2;
}

void wv_columns_density(size_t D, size_t n, double log_det, double nu, const double *r, double *log_q)
{
    wv_columns_log(D, n, wv_columns_constant(D, log_det, nu), nu, r, log_q);
}
