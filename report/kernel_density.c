/* kernel_density.c - kernel density estimates by diffusion (Botev, Grotowski and Kroese, 2010): values are binned,
 * the cosine transform of the bins is damped by exp(-k^2 pi^2 t / 2), where t, the squared bandwidth in units of the
 * range, solves the fixed point equation of section 5 there. Unlike a rule of thumb it does not smear separate
 * modes. In small samples the equation may have a zero that is far too small: the bandwidth is at least 0.8 sd
 * n^(-1/5), sd that of the values around the means of their cells, where there are several. */
#include "kernel_density.h"
#include "ascending.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.141592653589793;

/* Bins that sum to 1, and the effective number of values behind them. */
static double fill_bins(const weighted_values *v, size_t grid, double lo, double hi, double *bins)
{
    double sum = 0, squares = 0;
    memset(bins, 0, grid * sizeof *bins);
    for (size_t i = 0; i < v->n; i++) {
        double w = v->weight ? v->weight[i] : 1, at = (v->x[i * v->stride] - lo) / (hi - lo) * (double)grid;
        if (!(w > 0) || !isfinite(at))
            continue;
        sum += w;
        squares += w * w;
        if (at >= 0 && at <= (double)grid)
            bins[at < (double)grid ? (size_t)at : grid - 1] += w;
    }
    for (size_t g = 0; g < grid && sum > 0; g++)
        bins[g] /= sum;
    return sum > 0 ? sum * sum / squares : 0;
}

/* a_k = sum_g bins_g cos(pi k (g + 1/2) / grid); table: cos(pi m / (2 grid)) for m < 4 grid. */
static void transform(size_t grid, const double *bins, const double *table, double *a)
{
    for (size_t k = 0; k < grid; k++) {
        a[k] = 0;
        for (size_t g = 0; g < grid; g++)
            a[k] += bins[g] * table[k * (2 * g + 1) % (4 * grid)];
    }
}

/* 2 pi^(2s) sum_k k^(2s) a_k^2 exp(-k^2 pi^2 t) */
static double roughness(size_t grid, const double *a, int s, double t)
{
    double sum = 0;
    for (size_t k = 1; k < grid; k++) {
        double square = (double)k * (double)k * PI * PI;
        sum += pow(square, s) * a[k] * a[k] * exp(-square * t);
    }
    return 2 * sum;
}

/* t - xi gamma^[5](t), whose zero is the squared bandwidth. */
static double fixed_point(size_t grid, const double *a, double n, double t)
{
    double f = roughness(grid, a, 7, t);
    for (int s = 6; s >= 2; s--) {
        double odd = 1;
        for (int k = 1; k < 2 * s; k += 2)
            odd *= k;
        double c = (1 + pow(0.5, s + 0.5)) / 3, time = pow(2 * c * odd / sqrt(2 * PI) / (n * f), 2 / (3 + 2.0 * s));
        f = roughness(grid, a, s, time);
    }
    return t - pow(2 * n * sqrt(PI) * f, -0.4);
}

/* The smallest zero, by halving; a rule of thumb where there is none. */
static double find_bandwidth(size_t grid, const double *a, double n)
{
    double low = 0, high = 1e-6;
    while (high < 0.1 && !(fixed_point(grid, a, n, high) > 0))
        high *= 2;
    if (!(fixed_point(grid, a, n, high) > 0))
        return pow(0.28 * pow(n, -0.2), 2);
    for (int step = 0; step < 40; step++) {
        double middle = (low + high) / 2;
        if (fixed_point(grid, a, n, middle) > 0)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The variance of the values around the means of their cells. */
static double variance_within(const weighted_values *v)
{
    double *sum = calloc(2 * (v->cells + 1), sizeof *sum), *weight = sum ? sum + v->cells + 1 : NULL, total = 0,
           squares = 0;
    for (int pass = 0; sum && pass < 2; pass++)
        for (size_t i = 0; i < v->n; i++) {
            double w = v->weight ? v->weight[i] : 1, x = v->x[i * v->stride];
            size_t j = v->cell && v->cell[i] < v->cells ? v->cell[i] : v->cells;
            if (!(w > 0) || !isfinite(x))
                continue;
            if (pass) {
                squares += w * pow(x - sum[j] / weight[j], 2);
                total += w;
            } else {
                sum[j] += w * x;
                weight[j] += w;
            }
        }
    free(sum);
    return total > 0 ? squares / total : 0;
}

bool estimate_density(const weighted_values *v, size_t grid, double lo, double hi, double *density)
{
    double *bins = calloc(6 * grid, sizeof *bins), *a = bins ? bins + grid : NULL, *table = bins ? a + grid : NULL;
    memset(density, 0, grid * sizeof *density);
    double n = bins && hi > lo && isfinite(hi - lo) ? fill_bins(v, grid, lo, hi, bins) : 0;
    if (n > 0) {
        for (size_t m = 0; m < 4 * grid; m++)
            table[m] = cos(PI * (double)m / (2 * (double)grid));
        transform(grid, bins, table, a);
        double t = find_bandwidth(grid, a, n > 2 ? n : 2),
               least = v->cells > 1 ? 0.64 * variance_within(v) / pow(hi - lo, 2) * pow(n, -0.4) : 0;
        t = t > least ? t : least;
        for (size_t k = 0; k < grid; k++)
            a[k] *= exp(-(double)k * (double)k * PI * PI * t / 2);
        for (size_t g = 0; g < grid; g++) {
            double sum = a[0];
            for (size_t k = 1; k < grid; k++)
                sum += 2 * a[k] * table[k * (2 * g + 1) % (4 * grid)];
            density[g] = fmax(sum, 0) / (hi - lo);
        }
    }
    free(bins);
    return bins != NULL;
}

/* The finite ones of n values, in order: how many goes to *k. NULL: no memory. */
static double *sort_values(size_t n, const double *x, size_t stride, size_t *k)
{
    double *sorted = malloc((n + 1) * sizeof *sorted);
    *k = 0;
    for (size_t i = 0; sorted && i < n; i++)
        if (isfinite(x[i * stride]))
            sorted[(*k)++] = x[i * stride];
    if (*k)
        qsort(sorted, *k, sizeof *sorted, ascending);
    return sorted;
}

static void show_most(size_t k, const double *sorted, double *lo, double *hi)
{
    size_t cut = k / 500;
    *lo = -1;
    *hi = 1;
    if (k) {
        *lo = sorted[cut];
        *hi = sorted[k - 1 - cut];
        double pad = *hi > *lo ? 0.1 * (*hi - *lo) : fmax(fabs(*lo), 1) * 0.1;
        *lo -= pad;
        *hi += pad;
    }
}

bool find_shown_range(size_t n, const double *x, size_t stride, double *lo, double *hi)
{
    size_t k;
    double *sorted = sort_values(n, x, stride, &k);
    show_most(k, sorted, lo, hi);
    free(sorted);
    return sorted != NULL;
}

bool find_curve_range(size_t n, const double *x, size_t stride, double *lo, double *hi)
{
    size_t k, low = 0, high = 0;
    double *sorted = sort_values(n, x, stride, &k);
    show_most(k, sorted, lo, hi);
    if (k && sorted[0] < sorted[k - 1]) {
        double least = sorted[0], greatest = sorted[k - 1], near = (*hi - *lo) / 20;
        while (low < k && sorted[low] < least + near)
            low++;
        while (high < k && sorted[k - 1 - high] > greatest - near)
            high++;
        if (low > k / 50 + 5)
            *lo = fmax(*lo, least);
        if (high > k / 50 + 5)
            *hi = fmin(*hi, greatest);
        if (least >= 0 && *lo < near)
            *lo = 0;
        if (greatest <= 0 && *hi > -near)
            *hi = 0;
    }
    free(sorted);
    return sorted != NULL;
}
