/* lanes.h - two doubles at a time: exp(-a) and expm1(-a) for a >= 0, and selections, as vector code on every processor (with the vector types
 * of gcc and clang: loops with selections are not vectorised by themselves).
 * -a = k log 2 + r with |r| <= log(2)/2, and expm1(r) is its Taylor polynomial of degree 13, whose remainder is below 5e-18. Relative errors are
 * below 1e-15. Arguments beyond 700, and NaN, are taken for 700: exp(-700) = 1e-304 is still a normal number. */
#ifndef WV_LANES_H
#define WV_LANES_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WV_LANES = 2 };
typedef double wv_lanes __attribute__((vector_size(WV_LANES * sizeof(double))));
typedef int64_t wv_mask __attribute__((vector_size(WV_LANES * sizeof(int64_t)))); /* -1: yes, 0: no */
#define WV_INLINE static inline __attribute__((always_inline))

/* Loads and stores n <= WV_LANES numbers; lanes beyond n hold `other`. */
WV_INLINE wv_lanes wv_lanes_load(const double *x, size_t n, double other)
{
    wv_lanes v = {other, other};
    if (n >= WV_LANES)
        memcpy(&v, x, sizeof v);
    else
        memcpy(&v, x, n * sizeof *x);
    return v;
}

WV_INLINE void wv_lanes_store(double *x, size_t n, wv_lanes v)
{
    if (n >= WV_LANES)
        memcpy(x, &v, sizeof v);
    else
        memcpy(x, &v, n * sizeof *x);
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

/* 2^k and, in *p, expm1(r): exp(-a) = 2^k + 2^k expm1(r). */
WV_INLINE wv_lanes wv_lanes_split(wv_lanes a, wv_lanes *p)
{
    const double log2_e = 1.4426950408889634, log_2_high = 6.93147180369123816490e-01, log_2_low = 1.90821492927058770002e-10;
    const double shift = 6755399441055744.0; /* 1.5 2^52: adding it rounds to an integer, which the low bits then hold */
    const wv_lanes most = {700.0, 700.0};
    wv_lanes x = -wv_lanes_select(a < most, a, most), shifted = x * log2_e + shift, k = shifted - shift;
    wv_lanes r = (x - k * log_2_high) - k * log_2_low, r2 = r * r, r4 = r2 * r2;
    wv_lanes c2 = 0.5 + r * (1.0 / 6.0), c4 = 1.0 / 24.0 + r * (1.0 / 120.0), c6 = 1.0 / 720.0 + r * (1.0 / 5040.0);
    wv_lanes c8 = 1.0 / 40320.0 + r * (1.0 / 362880.0), c10 = 1.0 / 3628800.0 + r * (1.0 / 39916800.0);
    wv_lanes c12 = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
    *p = r + r2 * ((c2 + r2 * c4) + r4 * ((c6 + r2 * c8) + r4 * (c10 + r2 * c12)));
    return (wv_lanes)(((wv_mask)shifted + 1023) << 52);
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
#endif
