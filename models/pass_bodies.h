/* pass_bodies.h - the passes of pass.h, for one instruction set. Included with WV_LANES, its doubles in a
 * register; WV_TARGET, the attribute of functions that use it; and WV_PASS, the name of the table that is
 * defined here, with WV_NAME and WV_THERE in it. */
#include "pass.h"
#include "simd/lanes.h"
#include <float.h>

/* log(1 + exp s) = max(s, 0) + log(1 + t), t = exp(-|s|) <= 1: a product of up to 512 factors 1 + t stays
 * below 2^512, so one logarithm does for all. sigmoid(s) is 1 / (1 + t), or t / (1 + t) where s <= 0;
 * comparisons are such that NaN stays NaN. */
WV_TARGET static void softplus(size_t rows, size_t width, double *s, double *sum)
{
    const wv_lanes zero = {0}, one = zero + 1.0;
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes above = zero, product = one;
        for (size_t r = 0; r < rows; r++) {
            wv_lanes v = wv_lanes_load(s + r * width + i), t = wv_lanes_exp_minus(wv_lanes_abs(v)), total = 1.0 + t;
            wv_mask negative = v <= zero;
            above += wv_lanes_keep(~negative, v);
            product *= total;
            wv_lanes_store(s + r * width + i, wv_lanes_select(negative, t, one) / total);
        }
        wv_lanes_store(sum + i, wv_lanes_load(sum + i) + (above + wv_lanes_log(product)));
    }
}

WV_TARGET static void tangent(size_t n, double *x)
{
    for (size_t i = 0; i < n; i += WV_LANES)
        wv_lanes_store(x + i, wv_lanes_tanh(wv_lanes_load(x + i)));
}

WV_TARGET static void tangent_back(size_t H, size_t n, const double *w, const double *df, double *T)
{
    for (size_t h = 0; h < H; h++, T += n)
        for (size_t i = 0; i < n; i += WV_LANES) {
            wv_lanes t = wv_lanes_load(T + i);
            wv_lanes_store(T + i, w[h] * wv_lanes_load(df + i) * (1.0 - t * t));
        }
}

WV_TARGET static void centre(size_t D, size_t width, const double *z, const double *mean, double *v)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = d * width; i < (d + 1) * width; i += WV_LANES)
            wv_lanes_store(v + i, wv_lanes_load(z + i) - mean[d]);
}

WV_TARGET static void add_gaussian(size_t D, size_t width, double log_weight, const double *v, const double *slope,
                                   double *top, double *total, double *grad)
{
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes squares = {0}, most = wv_lanes_load(top + i);
        for (size_t d = 0; d < D; d++) {
            wv_lanes x = wv_lanes_load(v + d * width + i);
            squares += x * x;
        }
        wv_lanes log_g = log_weight - 0.5 * squares;
        wv_mask counts = log_g > -DBL_MAX, higher = log_g > most;
        wv_lanes high = wv_lanes_select(higher, log_g, most), low = wv_lanes_select(higher, most, log_g);
        wv_lanes part = wv_lanes_keep(counts & (low > -DBL_MAX), wv_lanes_exp_minus(high - low)),
                 one = (wv_lanes){0} + 1.0;
        wv_lanes old = wv_lanes_select(higher, part, one),
                 new = wv_lanes_keep(counts, wv_lanes_select(higher, one, part));
        wv_lanes_store(top + i, high);
        wv_lanes_store(total + i, old * wv_lanes_load(total + i) + new);
        for (size_t d = 0; grad && d < D; d++) {
            double *at = grad + d * width + i;
            wv_lanes step = wv_lanes_keep(new > 0.0, new *wv_lanes_load(slope + d * width + i));
            wv_lanes_store(at, old * wv_lanes_load(at) - step);
        }
    }
}

WV_TARGET static void covariance(size_t n, const wv_pass_process *p, const wv_pass_time *at, const wv_pass_time *times,
                                 double *decay, double *K)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes dt = *at->t - wv_lanes_load(times->t + i), a = p->half_precision * dt * dt;
        /* products of smaller ones would be slow to compute, and mean nothing */
        wv_lanes e = wv_lanes_keep(a < 230.0, p->A * wv_lanes_exp_minus(a));
        wv_lanes_store(decay + i, e);
        wv_lanes_store(K + i, e * (*at->cosine * wv_lanes_load(times->cosine + i) +
                                   *at->sine * wv_lanes_load(times->sine + i)));
    }
}

/* WV_PASS_WIDTH sums, whatever the lanes: the same order. */
WV_TARGET static void covariance_back(size_t n, const wv_pass_time *at, const wv_pass_time *times, const double *decay,
                                      const double *inverse, double sums[3])
{
    enum { PARTS = WV_PASS_WIDTH / WV_LANES };
    wv_lanes k[PARTS] = {{0}}, k_dt2[PARTS] = {{0}}, by_f[PARTS] = {{0}};
    for (size_t i = 0; i < n; i += WV_PASS_WIDTH)
        for (size_t part = 0; part < PARTS; part++) {
            size_t j = i + part * WV_LANES;
            wv_lanes dt = *at->t - wv_lanes_load(times->t + j), c = wv_lanes_load(times->cosine + j),
                     s = wv_lanes_load(times->sine + j);
            wv_lanes weight = (*at->alpha * wv_lanes_load(times->alpha + j) - wv_lanes_load(inverse + j)) *
                              wv_lanes_load(decay + j);
            wv_lanes with = weight * (*at->cosine * c + *at->sine * s);
            k[part] += with;
            k_dt2[part] += with * dt * dt;
            by_f[part] += weight * (*at->sine * c - *at->cosine * s) * dt;
        }
    for (size_t part = 0; part < PARTS; part++)
        for (size_t lane = 0; lane < WV_LANES; lane++) {
            sums[0] += k[part][lane];
            sums[1] += k_dt2[part][lane];
            sums[2] += by_f[part][lane];
        }
}

const wv_pass WV_PASS = {WV_NAME, WV_NEEDS,     softplus,   tangent,        tangent_back,
                         centre,  add_gaussian, covariance, covariance_back};
