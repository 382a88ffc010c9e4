/* lanes.h - several doubles at a time, with the vector types of gcc and clang: exp(-a) and expm1(-a) for a >= 0, and
 * selections. (Loops with selections are not vectorised by themselves.) Included with WV_LANES defined, as many as
 * the instruction set holds in a register, and WV_TARGET, the attribute of functions that use it.
 * -a = k log 2 + r with |r| <= log(2)/2, and expm1(r) is r + r^2 q(r), q of degree 9 interpolating at Chebyshev's
 * points, which is right to 4e-17 of r. Relative errors are below 1e-15. Beyond 708, where exp(-a) would be below
 * 1e-307, it is taken for 0; NaN stays NaN. */
#ifndef WV_LANES_H
#define WV_LANES_H
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

/* 2^k, 0 where exp(-a) is, and, in *p, expm1(r): exp(-a) = 2^k + 2^k expm1(r). */
WV_INLINE wv_lanes wv_lanes_split(wv_lanes a, wv_lanes *p)
{
    const double log2_e = 1.4426950408889634, log_2_high = 6.93147180369123816490e-01,
                 log_2_low = 1.90821492927058770002e-10;
    /* 1.5 2^52: adding it rounds to an integer, which the low bits then hold */
    const double shift = 6755399441055744.0;
    wv_mask near = ~(a > 708.0);
    wv_lanes x = -wv_lanes_keep(near, a), shifted = x * log2_e + shift, k = shifted - shift;
    wv_lanes r = (x - k * log_2_high) - k * log_2_low, r2 = r * r, r4 = r2 * r2;
    wv_lanes c2 = 0.5000000000000001 + r * 0.16666666666666669, c4 = 0.041666666666624164 + r * 0.008333333333330065;
    wv_lanes c6 = 0.0013888888917196719 + r * 0.00019841269863040545,
             c8 = 2.4801521322368692e-05 + r * 2.7557268480310024e-06;
    wv_lanes c10 = 2.7620075879983367e-07 + r * 2.5100375832561234e-08;
    *p = r + r2 * ((c2 + r2 * c4) + r4 * ((c6 + r2 * c8) + r4 * c10));
    return (wv_lanes)((((wv_mask)shifted + 1023) << 52) & near);
}

WV_INLINE wv_lanes wv_lanes_exp_minus(wv_lanes a)
{
    wv_lanes p, scale = wv_lanes_split(a, &p);
    return scale + scale * p;
}

WV_INLINE wv_lanes wv_lanes_expm1_minus(wv_lanes a)
{
    wv_lanes p, scale = wv_lanes_split(a, &p);
    return scale * p + (scale - 1.0);
}

/* tanh |v| = -m / (2 + m) with m = expm1(-2 |v|). */
WV_INLINE wv_lanes wv_lanes_tanh(wv_lanes v)
{
    wv_lanes m = wv_lanes_expm1_minus(2.0 * wv_lanes_abs(v));
    return wv_lanes_sign(m / (2.0 + m), v);
}
#endif
