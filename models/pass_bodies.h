/* pass_bodies.h - the passes of pass.h, for one instruction set. Included with WV_LANES, its doubles in a
 * register; WV_TARGET, the attribute of functions that use it; and WV_PASS, the name of the table that is
 * defined here, with WV_NAME and WV_THERE in it. */
#include "pass.h"
#include "simd/lanes.h"
#include <float.h>
#include <math.h>

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

WV_TARGET static void softplus_times(size_t rows, size_t width, const double *times, double *s, double *sum)
{
    const wv_lanes zero = {0}, one = zero + 1.0;
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes value = zero;
        for (size_t r = 0; r < rows; r++) {
            wv_lanes v = wv_lanes_load(s + r * width + i), t = wv_lanes_exp_minus(wv_lanes_abs(v)), total = 1.0 + t;
            wv_mask negative = v <= zero;
            value += times[r] * (wv_lanes_keep(~negative, v) + wv_lanes_log(total));
            wv_lanes_store(s + r * width + i, times[r] * (wv_lanes_select(negative, t, one) / total));
        }
        wv_lanes_store(sum + i, wv_lanes_load(sum + i) + value);
    }
}

WV_TARGET static void exponential(size_t rows, size_t width, double *s, double *sum)
{
    const wv_lanes zero = {0}, infinite = zero + INFINITY;
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes value = zero;
        for (size_t r = 0; r < rows; r++) {
            wv_lanes v = wv_lanes_load(s + r * width + i);
            wv_mask high = v > 700.0;
            wv_lanes e = wv_lanes_select(high, infinite, wv_lanes_exp_minus(-wv_lanes_keep(~high, v)));
            value += e;
            wv_lanes_store(s + r * width + i, e);
        }
        wv_lanes_store(sum + i, wv_lanes_load(sum + i) + value);
    }
}

/* log(1 + t), t >= 0, to a relative error of rounding: where 1 + t is inexact, the quotient mends it. */
WV_INLINE wv_lanes log_1_plus(wv_lanes t)
{
    wv_lanes total = 1.0 + t, kept = total - 1.0;
    return wv_lanes_select(kept > 0.0, wv_lanes_log(total) * (t / wv_lanes_select(kept > 0.0, kept, total)), t);
}

/* Any lane? */
WV_INLINE bool any(wv_mask mask)
{
    int64_t found = 0;
    for (size_t k = 0; k < WV_LANES; k++)
        found |= mask[k];
    return found != 0;
}

/* One logarithm does for all rows in a row that have the same count and weight, as in softplus. A large shape would
 * multiply the rounding of 1 + t: beyond 1e5 each row has its own. */
WV_TARGET static void negbinomial(size_t rows, size_t width, const double *y, const double *times, const double *scale,
                                  double *s, double *sum)
{
    const wv_lanes zero = {0}, one = zero + 1.0;
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes shape = wv_lanes_load(scale + i), log_shape = wv_lanes_load(scale + width + i);
        wv_lanes by_y = zero, by_shape = zero, slopes = zero, high, product, fine;
        wv_mask large = shape > 1e5;
        bool some = any(large);
        for (size_t r = 0, end; r < rows; r = end) {
            wv_lanes both = times[r] * (y[r] + shape);
            high = fine = zero;
            product = one;
            for (end = r; end < rows && y[end] == y[r] && times[end] == times[r]; end++) {
                double *at = s + end * width + i;
                wv_lanes u = wv_lanes_load(at) - log_shape, t = wv_lanes_exp_minus(wv_lanes_abs(u)), total = 1.0 + t;
                wv_mask negative = u <= zero;
                high += wv_lanes_keep(~negative, u);
                product *= total;
                if (some)
                    fine += log_1_plus(t);
                wv_lanes slope = both * (wv_lanes_select(negative, t, one) / total);
                slopes += slope;
                wv_lanes_store(at, slope);
            }
            wv_lanes l = high + wv_lanes_select(large, fine, wv_lanes_log(product));
            by_y += (times[r] * y[r]) * l;
            by_shape += times[r] * l;
        }
        wv_lanes_store(sum + i, wv_lanes_load(sum + i) + by_y);
        wv_lanes_store(sum + width + i, wv_lanes_load(sum + width + i) + by_shape);
        wv_lanes_store(sum + 2 * width + i, wv_lanes_load(sum + 2 * width + i) + slopes);
    }
}

/* With x = shape + n >= 256, d = far - n and l = log(1 + d / x), Stirling's series gives
 *     log Gamma(x + d) - log Gamma(x) = (x + d - 1/2) l + d log x - d + c(x + d) - c(x),  c(x) = 1/(12 x) - 1/(360
 * x^3), right to 1e-15, and its derivative. */
WV_TARGET static void rising(size_t n, const double *times, size_t far_n, const double *far, const double *far_times,
                             size_t width, const double *shape, double *sum)
{
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes phi = wv_lanes_load(shape + i), value = {0}, slope = {0};
        for (size_t k = 0; k < n; k++) {
            wv_lanes x = phi + (double)k;
            value += times[k] * wv_lanes_log(x);
            slope += times[k] / x;
        }
        wv_lanes x = phi + (double)n, log_x = wv_lanes_log(x), a = 1.0 / x, a2 = a * a;
        wv_lanes c = a * (1.0 / 12.0 - a2 * (1.0 / 360.0)), by_x = a * (0.5 + a * (1.0 / 12.0 - a2 * (1.0 / 120.0)));
        for (size_t k = 0; k < far_n; k++) {
            double d = far[k] - (double)n;
            wv_lanes l = log_1_plus(d / x), b = 1.0 / (x + d), b2 = b * b;
            value += far_times[k] * ((x + d - 0.5) * l - d + d * log_x + (b * (1.0 / 12.0 - b2 * (1.0 / 360.0)) - c));
            slope += far_times[k] * (l - b * (0.5 + b * (1.0 / 12.0 - b2 * (1.0 / 120.0))) + by_x);
        }
        wv_lanes_store(sum + i, value);
        wv_lanes_store(sum + width + i, slope);
    }
}

WV_TARGET static void student(size_t rows, size_t width, const double *y, const double *times, const double *scale,
                              double *s, double *sum)
{
    for (size_t i = 0; i < width; i += WV_LANES) {
        wv_lanes factor = wv_lanes_load(scale + i), logs = {0}, shares = {0};
        for (size_t r = 0; r < rows; r++) {
            wv_lanes e = y[r] - wv_lanes_load(s + r * width + i), v = e * e * factor, a = times[r] / (1.0 + v);
            logs += times[r] * wv_lanes_log(1.0 + v);
            shares += a * v;
            wv_lanes_store(s + r * width + i, -(a * factor * e));
        }
        wv_lanes_store(sum + i, wv_lanes_load(sum + i) + logs);
        wv_lanes_store(sum + width + i, wv_lanes_load(sum + width + i) + shares);
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

const wv_pass WV_PASS = {WV_NAME, WV_NEEDS, softplus,     softplus_times, exponential,  negbinomial, rising,
                         student, tangent,  tangent_back, centre,         add_gaussian, covariance,  covariance_back};
