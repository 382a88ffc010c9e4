/* normal_body.h - Box-Muller for one instruction set. Included with WV_LANES, its doubles in a register,
 * WV_TARGET, the attribute of functions that use it, and WV_NORMAL, the name of the function.
 * 2 pi v = (pi/2) (q + r), |r| <= 1/2, q an integer: sine and cosine of r pi/2 by their Taylor polynomials of
 * degrees 17 and 18 (errors below 1e-18), exchanged and with signs by q. */
#include "simd/lanes.h"
#include "simd/normal.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

WV_TARGET void WV_NORMAL(size_t n, double *x, double *y)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes u, v, radius;
        memcpy(&u, x + i, sizeof u);
        memcpy(&v, y + i, sizeof v);
        wv_lanes l = -2.0 * wv_lanes_log(u);
        for (size_t k = 0; k < WV_LANES; k++)
            radius[k] = sqrt(l[k]);
        wv_lanes v4 = 4.0 * v, shifted = v4 + WV_LANES_SHIFT, r = v4 - (shifted - WV_LANES_SHIFT),
                 t = r * 1.5707963267948966, t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
        wv_mask q = (wv_mask)shifted;
        wv_lanes s = (-1.0 / 6.0 + t2 * (1.0 / 120.0)) + t4 * (-1.0 / 5040.0 + t2 * (1.0 / 362880.0));
        s += t8 * ((-1.0 / 39916800.0 + t2 * (1.0 / 6227020800.0)) +
                   t4 * (-1.0 / 1307674368000.0 + t2 * (1.0 / 355687428096000.0)));
        wv_lanes sine = t + t * t2 * s;
        wv_lanes c = (1.0 / 24.0 + t2 * (-1.0 / 720.0)) + t4 * (1.0 / 40320.0 + t2 * (-1.0 / 3628800.0));
        c += t8 * ((1.0 / 479001600.0 + t2 * (-1.0 / 87178291200.0)) +
                   t4 * (1.0 / 20922789888000.0 + t2 * (-1.0 / 6402373705728000.0)));
        wv_lanes cosine = 1.0 + t2 * (-0.5 + t2 * c);
        wv_mask odd = -(q & 1);
        /* of the angle: cosine, sine, up to signs */
        wv_lanes first = wv_lanes_select(odd, sine, cosine), second = wv_lanes_select(odd, cosine, sine);
        first = (wv_lanes)((wv_mask)first ^ (((q + 1) & 2) << 62));
        second = (wv_lanes)((wv_mask)second ^ ((q & 2) << 62));
        first *= radius;
        second *= radius;
        memcpy(x + i, &first, sizeof first);
        memcpy(y + i, &second, sizeof second);
    }
}
