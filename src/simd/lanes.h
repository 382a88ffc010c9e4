/* lanes.h - several doubles at a time, with the vector types of gcc and clang: exp, log, tanh and selections, for the
 * engine and the models. (Compilers do not vectorise loops with selections.) Included with WV_LANES defined, the
 * doubles that a register holds, and WV_TARGET, the attribute of functions that use it.
 *
 * exp(-a), a >= -700: -a = k log 2 + r with |r| <= log(2)/2, and expm1(r) = r + r^2 q(r) with q of degree 9,
 * interpolating at Chebyshev's points, right to 4e-17 of r. Relative errors are below 1e-15. Beyond a = 708, where
 * exp(-a) would be below 1e-307, the result is 0.
 * log s = e log 2 + 2 atanh(t), t = (m - 1)/(m + 1), s = m 2^e with sqrt(1/2) <= m < sqrt(2): atanh(t)/t is a series in
 * t^2 <= 0.0295, up to t^22 right to 1e-18. */
#ifndef WV_LANES_H
#define WV_LANES_H
#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef double wv_lanes __attribute__((vector_size(WV_LANES * sizeof(double))));
typedef int64_t wv_mask __attribute__((vector_size(WV_LANES * sizeof(int64_t)))); /* -1: yes, 0: no */
#define WV_INLINE WV_TARGET static inline __attribute__((always_inline))

WV_INLINE wv_lanes wv_lanes_load(const double *x)
{
    wv_lanes v;
    memcpy(&v, x, sizeof v);
    return v;
}

WV_INLINE void wv_lanes_store(double *x, wv_lanes v)
{
    memcpy(x, &v, sizeof v);
}

/* x where mask says so, else 0. */
WV_INLINE wv_lanes wv_lanes_keep(wv_mask mask, wv_lanes x)
{
    return (wv_lanes)(mask & (wv_mask)x);
}

WV_INLINE wv_lanes wv_lanes_select(wv_mask mask, wv_lanes yes, wv_lanes no)
{
    return (wv_lanes)((mask & (wv_mask)yes) | (~mask & (wv_mask)no));
}

WV_INLINE wv_lanes wv_lanes_abs(wv_lanes x)
{
    return (wv_lanes)((wv_mask)x & INT64_MAX);
}

/* |x| with the sign of s. */
WV_INLINE wv_lanes wv_lanes_sign(wv_lanes x, wv_lanes s)
{
    return (wv_lanes)(((wv_mask)x & INT64_MAX) | ((wv_mask)s & INT64_MIN));
}

/* Adding it rounds to an integer, which the low bits then hold: 1.5 2^52. */
#define WV_LANES_SHIFT 6755399441055744.0

/* 2^k, 0 where `near` is no, and, in *p, expm1(r): exp(-a) = 2^k + 2^k expm1(r). */
WV_INLINE wv_lanes wv_lanes_split(wv_lanes a, wv_mask near, wv_lanes *p)
{
    const double log2_e = 1.4426950408889634, log_2_high = 6.93147180369123816490e-01,
                 log_2_low = 1.90821492927058770002e-10;
    wv_lanes x = -wv_lanes_keep(near, a), shifted = x * log2_e + WV_LANES_SHIFT, k = shifted - WV_LANES_SHIFT;
    wv_lanes r = (x - k * log_2_high) - k * log_2_low, r2 = r * r, r4 = r2 * r2;
    wv_lanes c2 = 0.5000000000000001 + r * 0.16666666666666669, c4 = 0.041666666666624164 + r * 0.008333333333330065;
    wv_lanes c6 = 0.0013888888917196719 + r * 0.00019841269863040545,
             c8 = 2.4801521322368692e-05 + r * 2.7557268480310024e-06;
    wv_lanes c10 = 2.7620075879983367e-07 + r * 2.5100375832561234e-08;
    *p = r + r2 * ((c2 + r2 * c4) + r4 * ((c6 + r2 * c8) + r4 * c10));
    return (wv_lanes)((((wv_mask)shifted + 1023) << 52) & near);
}

/* exp(-a); NaN stays NaN. */
WV_INLINE wv_lanes wv_lanes_exp_minus(wv_lanes a)
{
    wv_lanes p, scale = wv_lanes_split(a, ~(a > 708.0), &p);
    return scale + scale * p;
}

/* exp(-a); NaN gives 0. */
WV_INLINE wv_lanes wv_lanes_exp_or_0(wv_lanes a)
{
    wv_lanes p, scale = wv_lanes_split(a, a <= 708.0, &p);
    return scale + scale * p;
}

/* exp(-a) - 1; NaN stays NaN. */
WV_INLINE wv_lanes wv_lanes_expm1_minus(wv_lanes a)
{
    wv_lanes p, scale = wv_lanes_split(a, ~(a > 708.0), &p);
    return scale * p + (scale - 1.0);
}

/* log s for positive s that is not denormal; infinity and NaN stay. */
WV_INLINE wv_lanes wv_lanes_log(wv_lanes s)
{
    wv_mask bits = (wv_mask)s, exponent = (bits >> 52) - 1022;
    wv_lanes m = (wv_lanes)((bits & 0x000fffffffffffff) | 0x3fe0000000000000); /* [1/2, 1) */
    wv_mask small = m < 0.70710678118654752;
    m = wv_lanes_select(small, m + m, m);
    wv_lanes e = (wv_lanes)((exponent + small) + (int64_t)0x4338000000000000) - WV_LANES_SHIFT;
    wv_lanes t = (m - 1.0) / (m + 1.0), t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    wv_lanes a = (1.0 / 3.0 + t2 * (1.0 / 5.0)) + t4 * (1.0 / 7.0 + t2 * (1.0 / 9.0));
    wv_lanes b = (1.0 / 11.0 + t2 * (1.0 / 13.0)) + t4 * (1.0 / 15.0 + t2 * (1.0 / 17.0));
    wv_lanes c = 1.0 / 19.0 + t2 * (1.0 / 21.0) + t4 * (1.0 / 23.0);
    wv_lanes value = e * 0.69314718055994531 + 2.0 * (t + t * (t2 * (a + t8 * (b + t8 * c))));
    return wv_lanes_select(s <= DBL_MAX, value, s);
}

/* tanh |v| = -m / (2 + m) with m = expm1(-2 |v|). */
WV_INLINE wv_lanes wv_lanes_tanh(wv_lanes v)
{
    wv_lanes m = wv_lanes_expm1_minus(2.0 * wv_lanes_abs(v));
    return wv_lanes_sign(m / (2.0 + m), v);
}
#endif
