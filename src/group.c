/* group.c - many particles are split into groups of neighbours, so that a draw need not be weighed by the components of all (weight.h). A group that is too large is cut at the median along the
 * axis on which its particles lie furthest apart, in units of their cells. Each group is described by the Gaussian with the mean and the variances of its cells. */
#include "group.h"
#include <math.h>
#include <string.h>

enum { MOST = 16 }; /* particles in a group */

size_t wv_group_most(size_t N)
{
    return 2 * N / MOST + 1;
}

/* Mean of the particles, and their variances between and within cells, of members first .. end. */
static void measure(const wvgd_fit *f, size_t first, size_t end, double *mean, double *between, double *within)
{
    size_t D = f->D;
    double n = (double)(end - first);
    memset(mean, 0, D * sizeof *mean);
    memset(between, 0, D * sizeof *mean);
    memset(within, 0, D * sizeof *mean);
    for (size_t k = first; k < end; k++) {
        const double *z = f->now.z + f->member[k] * D;
        for (size_t i = 0; i < D; i++)
            mean[i] += z[i] / n;
    }
    for (size_t k = first; k < end; k++) {
        const double *z = f->now.z + f->member[k] * D;
        wv_gauss cell = wv_fit_spread(f, f->member[k]);
        cell.family->sd(D, 0, cell.root, f->vector[3]);
        for (size_t i = 0; i < D; i++) {
            between[i] += (z[i] - mean[i]) * (z[i] - mean[i]) / n;
            within[i] += f->vector[3][i] * f->vector[3][i] / n;
        }
    }
}

static bool before(const wvgd_fit *f, size_t axis, uint32_t a, uint32_t b)
{
    double za = f->now.z[a * f->D + axis], zb = f->now.z[b * f->D + axis];
    return za != zb ? za < zb : a < b;
}

/* Rearranges member[n] so that the first `half` of them come before the others along an axis (Hoare's selection). */
static void divide(const wvgd_fit *f, size_t axis, size_t n, uint32_t *member, size_t half)
{
    for (size_t low = 0, high = n - 1; low < high;) {
        uint32_t pivot = member[(low + high) / 2], swap;
        size_t i = low, k = high;
        for (;;) {
            while (before(f, axis, member[i], pivot))
                i++;
            while (before(f, axis, pivot, member[k]))
                k--;
            if (i >= k)
                break;
            swap = member[i];
            member[i++] = member[k];
            member[k--] = swap;
        }
        if (half <= k)
            high = k;
        else
            low = k + 1;
    }
}

static void describe(wvgd_fit *f, size_t first, size_t end, const double *mean, const double *between, const double *within)
{
    size_t D = f->D, draws = 0;
    double *mu = f->group + f->groups * (2 * D + 2), *scale = mu + D;
    memcpy(mu, mean, D * sizeof *mu);
    mu[2 * D] = 0;
    for (size_t i = 0; i < D; i++) {
        scale[i] = 1 / sqrt(between[i] + within[i]);
        mu[2 * D] -= log(scale[i]);
    }
    for (size_t k = first; k < end; k++)
        draws += f->share[f->member[k]] + f->share[f->N + f->member[k]];
    mu[2 * D + 1] = (double)draws / (double)f->b.n;
    f->group_start[++f->groups] = end;
}

static void split(wvgd_fit *f, size_t first, size_t end)
{
    double *mean = f->vector[0], *between = f->vector[1], *within = f->vector[2], most = -1;
    size_t axis = 0, half = (end - first) / 2;
    measure(f, first, end, mean, between, within);
    if (end - first <= MOST) {
        describe(f, first, end, mean, between, within);
        return;
    }
    for (size_t i = 0; i < f->D; i++)
        if (between[i] / within[i] > most) {
            most = between[i] / within[i];
            axis = i;
        }
    divide(f, axis, end - first, f->member + first, half);
    split(f, first, first + half);
    split(f, first + half, end);
}

void wv_group_split(wvgd_fit *f)
{
    for (size_t j = 0; j < f->N; j++)
        f->member[j] = (uint32_t)j;
    f->groups = 0;
    f->group_start[0] = 0;
    split(f, 0, f->N);
}
