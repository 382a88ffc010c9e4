/* normal_body.h - Box-Muller for one instruction set. Included with WV_LANES, its doubles in a register,
 * WV_TARGET, the attribute of functions that use it, and WV_NORMAL, the name of the function.
 * log u = e log 2 + 2 atanh(s), s = (m - 1)/(m + 1), u = m 2^e with sqrt(1/2) <= m < sqrt(2): atanh(s)/s is a
 * series in s^2 <= 0.0295, to s^22 right to 1e-18.
 * 2 pi v = (pi/2) (q + r), |r| <= 1/2, q an integer: sine and cosine of r pi/2 by their Taylor polynomials of
 * degrees 17 and 18 (errors below 1e-18), exchanged and with signs by q. */
#include "simd/normal.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef double lanes __attribute__((vector_size(WV_LANES * sizeof(double))));
typedef int64_t words __attribute__((vector_size(WV_LANES * sizeof(int64_t))));
#define INLINE WV_TARGET static inline __attribute__((always_inline))

INLINE lanes choose(words mask, lanes yes, lanes no)
{
    return (lanes)((mask & (words)yes) | (~mask & (words)no));
}

INLINE lanes minus_two_log(lanes u)
{
    const double shift = 6755399441055744.0; /* 1.5 2^52: an integer in the low bits of a double */
    words bits = (words)u, exponent = (bits >> 52) - 1022;
    lanes m = (lanes)((bits & 0x000fffffffffffff) | 0x3fe0000000000000); /* [1/2, 1) */
    words small = m < 0.70710678118654752;
    m = choose(small, m + m, m);
    lanes e = (lanes)((exponent + small) + (int64_t)0x4338000000000000) - shift;
    lanes s = (m - 1.0) / (m + 1.0), s2 = s * s, s4 = s2 * s2, s8 = s4 * s4;
    lanes a = (1.0 / 3.0 + s2 * (1.0 / 5.0)) + s4 * (1.0 / 7.0 + s2 * (1.0 / 9.0));
    lanes b = (1.0 / 11.0 + s2 * (1.0 / 13.0)) + s4 * (1.0 / 15.0 + s2 * (1.0 / 17.0));
    lanes c = 1.0 / 19.0 + s2 * (1.0 / 21.0) + s4 * (1.0 / 23.0);
    lanes tail = s2 * (a + s8 * (b + s8 * c));
    return -2.0 * (e * 0.69314718055994531 + 2.0 * (s + s * tail));
}

WV_TARGET void WV_NORMAL(size_t n, double *x, double *y)
{
    const double shift = 6755399441055744.0;
    for (size_t i = 0; i < n; i += WV_LANES) {
        lanes u, v, radius;
        memcpy(&u, x + i, sizeof u);
        memcpy(&v, y + i, sizeof v);
        lanes l = minus_two_log(u);
        for (size_t k = 0; k < WV_LANES; k++)
            radius[k] = sqrt(l[k]);
        lanes v4 = 4.0 * v, shifted = v4 + shift, r = v4 - (shifted - shift), t = r * 1.5707963267948966, t2 = t * t,
              t4 = t2 * t2, t8 = t4 * t4;
        words q = (words)shifted;
        lanes s = (-1.0 / 6.0 + t2 * (1.0 / 120.0)) + t4 * (-1.0 / 5040.0 + t2 * (1.0 / 362880.0));
        s += t8 * ((-1.0 / 39916800.0 + t2 * (1.0 / 6227020800.0)) +
                   t4 * (-1.0 / 1307674368000.0 + t2 * (1.0 / 355687428096000.0)));
        lanes sine = t + t * t2 * s;
        lanes c = (1.0 / 24.0 + t2 * (-1.0 / 720.0)) + t4 * (1.0 / 40320.0 + t2 * (-1.0 / 3628800.0));
        c += t8 * ((1.0 / 479001600.0 + t2 * (-1.0 / 87178291200.0)) +
                   t4 * (1.0 / 20922789888000.0 + t2 * (-1.0 / 6402373705728000.0)));
        lanes cosine = 1.0 + t2 * (-0.5 + t2 * c);
        words odd = -(q & 1);
        /* of the angle: cosine, sine, up to signs */
        lanes first = choose(odd, sine, cosine), second = choose(odd, cosine, sine);
        first = (lanes)((words)first ^ (((q + 1) & 2) << 62));
        second = (lanes)((words)second ^ ((q & 2) << 62));
        first *= radius;
        second *= radius;
        memcpy(x + i, &first, sizeof first);
        memcpy(y + i, &second, sizeof second);
    }
}
