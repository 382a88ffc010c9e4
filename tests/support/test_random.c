/* test_random.c - splitmix64: state += golden gamma, then a bijective mix; Box-Muller: sqrt(-2 log u) cos(2 pi v). */
#include "test_random.h"

#include <math.h>

test_random test_random_seed(uint64_t seed)
{
    return (test_random){seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x5851f42d4c957f2d)};
}

uint64_t test_random_bits(test_random *r)
{
    uint64_t x = r->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double test_random_uniform(test_random *r)
{
    return ((double)(test_random_bits(r) >> 12) + 0.5) * 0x1p-52;
}

double test_random_normal(test_random *r)
{
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2.0 * log(test_random_uniform(r)));
    return radius * cos(two_pi * test_random_uniform(r));
}

void test_random_normals(test_random *r, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = test_random_normal(r);
}

void test_random_mixture(test_random *r, size_t K, double *weight, double *mean, double *sd)
{
    double sum = 0;
    for (size_t k = 0; k < K; k++)
        sum += weight[k] = test_random_uniform(r);
    for (size_t k = 0; k < K; k++) {
        weight[k] /= sum;
        mean[k] = 1.5 * test_random_normal(r);
        sd[k] = 0.1 + 0.9 * test_random_uniform(r);
    }
}

void test_random_root(wvgd_family family, size_t D, test_random *r, double *root)
{
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k < D; k++) {
            double v = k == i ? 0.6 + test_random_uniform(r) : k < i ? 0.6 * test_random_uniform(r) - 0.3 : 0;
            if (family == WVGD_FULL)
                root[i * D + k] = v;
            if (family == WVGD_DIAG && k == i)
                root[i] = v;
        }
}

void test_random_colour(wvgd_family family, size_t D, const double *root, const double *e, double *out)
{
    for (size_t i = 0; i < D; i++) {
        out[i] = family == WVGD_DIAG ? root[i] * e[i] : 0;
        for (size_t k = 0; family == WVGD_FULL && k <= i; k++)
            out[i] += root[i * D + k] * e[k];
    }
}
