/* kernel.c - distances, median and kernel sums. Only the lower triangle of the symmetric n x n matrix is computed:
 * distances and their exponentials are half the work, and BLAS multiplies by symmetric matrices, of many points by
 * bands of rows: between bands somebody may want to stop. The median is exact: it is looked for in narrow windows
 * around the last one, and among all distances only if it is not there. exp(-x), x >= 0, two numbers at a time: -x = k
 * log 2 + r, |r| <= log(2)/2, Taylor polynomial of degree 13 in r; relative error below 1e-15. */
#include "kernel.h"
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BAND = 1024 }; /* rows */

struct svgd_kernel {
    size_t n, D;
    bool (*stop)(void *self);
    void *self;
    double *centred; /* [n][D] points minus their mean */
    double *square;  /* [n] their squared lengths */
    double *matrix;  /* [n][n] lower triangle: Gram matrix, squared distances, kernel */
    double *factor;  /* [n][D+1] g - 2 z/h, and a column of ones */
    double *sum;     /* [n][D+1] kernel times factor */
    double *chosen;  /* [n (n-1)/2] distances among which the median is looked for */
    double last;     /* the last median of squared distances; 0: none yet */
};

void svgd_kernel_free(svgd_kernel *k)
{
    if (!k)
        return;
    free(k->centred);
    free(k->square);
    free(k->matrix);
    free(k->factor);
    free(k->sum);
    free(k->chosen);
    free(k);
}

static double *numbers(size_t rows, size_t columns)
{
    return columns && rows > PTRDIFF_MAX / sizeof(double) / columns ? NULL : calloc(rows * columns + 1, sizeof(double));
}

svgd_kernel *svgd_kernel_new(size_t n, size_t D, bool (*stop)(void *self), void *self)
{
    svgd_kernel *k = n && D && n <= INT_MAX / 2 && D < INT_MAX / 2 ? calloc(1, sizeof *k) : NULL;
    if (!k)
        return NULL;
    *k = (svgd_kernel){n,
                       D,
                       stop,
                       self,
                       numbers(n, D),
                       numbers(n, 1),
                       numbers(n, n),
                       numbers(n, D + 1),
                       numbers(n, D + 1),
                       numbers(n, n / 2 + 1),
                       0};
    if (k->centred && k->square && k->matrix && k->factor && k->sum && k->chosen)
        return k;
    svgd_kernel_free(k);
    return NULL;
}

/* ---- distances --------------------------------------------------------------------------------------------------- */
static void centre(svgd_kernel *k, const double *z)
{
    size_t n = k->n, D = k->D;
    double *mean = k->sum, share = 1 / (double)n; /* [D] */
    memset(mean, 0, D * sizeof *mean);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < D; d++)
            mean[d] += share * z[i * D + d];
    for (size_t i = 0; i < n; i++) {
        double square = 0;
        for (size_t d = 0; d < D; d++) {
            double c = z[i * D + d] - mean[d];
            k->centred[i * D + d] = c;
            square += c * c;
        }
        k->square[i] = square;
    }
}

static bool stopped(const svgd_kernel *k)
{
    return k->stop && k->stop(k->self);
}

/* The last row of the band that begins there; a few rows more are none of their own. */
static size_t band_end(const svgd_kernel *k, size_t first)
{
    return k->n - first < 2 * BAND ? k->n : first + BAND;
}

/* Rows first .. end-1 of the lower triangle of -2 times the Gram matrix. */
static void multiply_rows(svgd_kernel *k, size_t first, size_t end)
{
    int D = (int)k->D, n = (int)k->n, rows = (int)(end - first);
    const double *own = k->centred + first * k->D;
    double *to = k->matrix + first * k->n;
    if (first)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, (int)first, D, -2, own, D, k->centred, D, 0, to, n);
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, rows, D, -2, own, D, 0, to + first, n);
}

bool svgd_kernel_distances(svgd_kernel *k, const double *z)
{
    size_t n = k->n;
    centre(k, z);
    for (size_t first = 0, end; first < n; first = end) {
        end = band_end(k, first);
        if (stopped(k))
            return false;
        multiply_rows(k, first, end);
        for (size_t i = first; i < end; i++) {
            double *row = k->matrix + i * n, own = k->square[i];
            for (size_t j = 0; j < i; j++) {
                double d = row[j] + (own + k->square[j]);
                row[j] = d > 0 ? d : 0;
            }
            row[i] = 0;
        }
    }
    return true;
}

/* ---- median ------------------------------------------------------------------------------------------------------ */
/* Squared distances in [low, high] go to chosen; returns how many, and in *below how many are less. */
static size_t choose(svgd_kernel *k, double low, double high, size_t *below)
{
    size_t count = 0;
    *below = 0;
    for (size_t i = 1; i < k->n; i++) {
        const double *row = k->matrix + i * k->n;
        for (size_t j = 0; j < i; j++) {
            k->chosen[count] = row[j]; /* kept if the next one does not take its place */
            *below += row[j] < low;
            count += (row[j] >= low) & (row[j] <= high);
        }
    }
    return count;
}

static void swap(double *a, double *b)
{
    double c = *a;
    *a = *b;
    *b = c;
}

/* The number of rank `rank`, counted from 0, among x[n]; puts it there, with none greater before
 * it and none less behind it. */
static double select_rank(size_t n, double *x, size_t rank)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        double pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i >= j)
                break;
            swap(&x[i++], &x[j--]);
        }
        if (rank <= j) /* all up to x[j] are at most the pivot, all behind it at least */
            high = j;
        else
            low = j + 1;
    }
    return x[rank];
}

static bool is_number(double x)
{
    return x == x;
}

/* Median of the squared distances. Of an even number of distances it is the mean of the two in the
 * middle, as distances. */
static double median_distance(svgd_kernel *k)
{
    size_t pairs = k->n * (k->n - 1) / 2, first = (pairs - 1) / 2, second = pairs / 2, below = 0;
    static const double width[] = {0.005, 0.05};
    enum { WINDOWS = sizeof width / sizeof *width };
    size_t count = 0;
    for (size_t w = k->last > 0 ? 0 : WINDOWS; w <= WINDOWS && (!count || first < below || second >= below + count);
         w++)
        count = w < WINDOWS ? choose(k, (1 - width[w]) * k->last, (1 + width[w]) * k->last, &below)
                            : choose(k, 0, INFINITY, &below);
    if (first < below || second >= below + count) /* distances that are no numbers */
        return NAN;
    double b = select_rank(count, k->chosen, second - below), a = b;
    for (size_t i = 0; second > first && i < second - below; i++) /* the greatest of those before it */
        a = i && a > k->chosen[i] ? a : k->chosen[i];
    k->last = b;
    return (sqrt(a) + sqrt(b)) / 2;
}

double svgd_kernel_median(svgd_kernel *k)
{
    if (k->n < 2)
        return 1;
    double median = median_distance(k);
    return median > 0 && is_number(median) ? median * median / log((double)k->n) : 1;
}

/* ---- kernel ------------------------------------------------------------------------------------------------------ */
enum { LANES = 2 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t whole __attribute__((vector_size(LANES * sizeof(int64_t))));

static inline lanes exp_minus(lanes a)
{
    const double log2_e = 1.4426950408889634, log_2_high = 6.93147180369123816490e-01,
                 log_2_low = 1.90821492927058770002e-10;
    /* 1.5 2^52: adding it rounds to an integer, which the low bits then hold */
    const double shift = 6755399441055744.0;
    const lanes most = {700, 700};
    whole small = a < most;
    lanes x = -(lanes)((small & (whole)a) | (~small & (whole)most)), shifted = x * log2_e + shift, k = shifted - shift;
    lanes r = (x - k * log_2_high) - k * log_2_low, r2 = r * r, r4 = r2 * r2;
    lanes c0 = 1.0 + r, c2 = 0.5 + r * (1.0 / 6.0), c4 = 1.0 / 24.0 + r * (1.0 / 120.0),
          c6 = 1.0 / 720.0 + r * (1.0 / 5040.0);
    lanes c8 = 1.0 / 40320.0 + r * (1.0 / 362880.0), c10 = 1.0 / 3628800.0 + r * (1.0 / 39916800.0);
    lanes c12 = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
    lanes p = c0 + r2 * ((c2 + r2 * c4) + r4 * ((c6 + r2 * c8) + r4 * (c10 + r2 * c12)));
    return p * (lanes)(((whole)shifted + 1023) << 52);
}

void svgd_kernel_exponentials(size_t n, double *x, double scale)
{
    size_t i = 0;
    lanes v;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        v = exp_minus(scale * v);
        memcpy(x + i, &v, sizeof v);
    }
    if (i < n) {
        v = exp_minus((lanes){scale * x[i], 0});
        x[i] = v[0];
    }
}

/* What rows first .. end-1 of the lower triangle, and the columns that mirror them, add to kernel times factor. */
static void add_sums(svgd_kernel *k, size_t first, size_t end)
{
    int n = (int)k->n, columns = (int)k->D + 1, rows = (int)(end - first);
    const double *K = k->matrix + first * k->n, *own = k->factor + first * (k->D + 1);
    double *sum = k->sum + first * (k->D + 1);
    cblas_dsymm(CblasRowMajor, CblasLeft, CblasLower, rows, columns, 1, K + first, n, own, columns, 0, sum, columns);
    if (!first)
        return;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, (int)first, 1, K, n, k->factor, columns, 1,
                sum, columns);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)first, columns, rows, 1, K, n, own, columns, 1, k->sum,
                columns);
}

bool svgd_kernel_direction(svgd_kernel *k, const double *grad, double h, double *phi)
{
    size_t n = k->n, D = k->D, columns = D + 1;
    double pull = 2 / h, share = 1 / (double)n;
    for (size_t first = 0, end; first < n; first = end) {
        end = band_end(k, first);
        if (stopped(k))
            return false;
        for (size_t i = first; i < end; i++) {
            svgd_kernel_exponentials(i, k->matrix + i * n, 1 / h);
            k->matrix[i * n + i] = 1;
            for (size_t d = 0; d < D; d++)
                k->factor[i * columns + d] = grad[i * D + d] - pull * k->centred[i * D + d];
            k->factor[i * columns + D] = 1;
        }
        add_sums(k, first, end);
    }
    for (size_t i = 0; i < n; i++) {
        double all = k->sum[i * columns + D];
        for (size_t d = 0; d < D; d++)
            phi[i * D + d] = share * (k->sum[i * columns + d] + pull * all * k->centred[i * D + d]);
    }
    return true;
}
