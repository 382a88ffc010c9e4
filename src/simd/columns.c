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

void wv_columns_whiten(size_t D, size_t n, const double *inverse, const double *mu, const double *x, double *spare,
                       double *y, double *r)
{
    const wv_columns *pass = wv_columns_best();
    pass->subtract(D, n, x, mu, spare);
    for (size_t a = 0; a < D; a += STRIP) {
        size_t rows = D - a < STRIP ? D - a : STRIP;
        cblas_dgemm(ROW, CblasNoTrans, CblasNoTrans, (int)rows, (int)n, (int)(a + rows), 1.0, inverse + a * D, (int)D,
                    spare, WV_COLUMNS, 0.0, y + a * WV_COLUMNS, WV_COLUMNS);
    }
    pass->squares(D, n, y, r);
}

void wv_columns_push(size_t D, size_t n, const double *inverse, const double *y, double *out)
{
    for (size_t a = 0; a < D; a += STRIP) {
        size_t rows = D - a < STRIP ? D - a : STRIP;
        cblas_dgemm(ROW, CblasTrans, CblasNoTrans, (int)rows, (int)n, (int)(D - a), 1.0, inverse + a * D + a, (int)D,
                    y + a * WV_COLUMNS, WV_COLUMNS, 1.0, out + a * WV_COLUMNS, WV_COLUMNS);
    }
}

void wv_columns_product(size_t D, size_t n, const double *a, const double *b, bool lower, double *out)
{
    size_t strip = lower ? STRIP : D;
    for (size_t at = 0; at < D; at += strip) {
        size_t rows = D - at < strip ? D - at : strip, columns = lower ? at + rows : D;
        cblas_dgemm(ROW, CblasNoTrans, CblasTrans, (int)rows, (int)columns, (int)n, 1.0, a + at * WV_COLUMNS,
                    WV_COLUMNS, b, WV_COLUMNS, 1.0, out + at * D, (int)D);
    }
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
