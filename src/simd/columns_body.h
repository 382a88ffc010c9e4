/* columns_body.h - passes over blocks of points for one instruction set. Included with WV_LANES, its doubles in a
 * register, WV_TARGET, the attribute of functions that use it, and WV_SET, the name of the table.
 * exp(-a) = 2^k (1 + r + r^2 q(r)), |r| <= log(2)/2, q of degree 9 interpolating at Chebyshev's points, right
 * to 4e-17; beyond 708 it is taken for 0.
 * log s = e log 2 + 2 atanh(t), t = (m - 1)/(m + 1), s = m 2^e with sqrt(1/2) <= m < sqrt(2): atanh(t)/t is a series
 * in t^2 <= 0.0295, to t^22 right to 1e-18. */
#include "simd/columns.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef double lanes __attribute__((vector_size(WV_LANES * sizeof(double))));
typedef int64_t words __attribute__((vector_size(WV_LANES * sizeof(int64_t))));
#define INLINE WV_TARGET static inline __attribute__((always_inline))

static const double shift = 6755399441055744.0; /* 1.5 2^52: an integer in the low bits of a double */

INLINE lanes load(const double *x)
{
    lanes v;
    memcpy(&v, x, sizeof v);
    return v;
}

INLINE void put(double *x, lanes v)
{
    memcpy(x, &v, sizeof v);
}

INLINE lanes all(double x)
{
    return x - (lanes){0};
}

INLINE lanes choose(words mask, lanes yes, lanes no)
{
    return (lanes)((mask & (words)yes) | (~mask & (words)no));
}

INLINE double sum_of(lanes v)
{
#if WV_LANES == 8
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
#elif WV_LANES == 4
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1);
#endif
    return v[0] + v[1];
}

/* exp(-a), a >= -700 */
INLINE lanes exp_minus(lanes a)
{
    words near = a <= 708.0;
    lanes x = -(lanes)(near & (words)a), shifted = x * 1.4426950408889634 + shift, k = shifted - shift;
    lanes r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10, r2 = r * r, r4 = r2 * r2;
    lanes c2 = 0.5000000000000001 + r * 0.16666666666666669, c4 = 0.041666666666624164 + r * 0.008333333333330065;
    lanes c6 = 0.0013888888917196719 + r * 0.00019841269863040545,
          c8 = 2.4801521322368692e-05 + r * 2.7557268480310024e-06;
    lanes c10 = 2.7620075879983367e-07 + r * 2.5100375832561234e-08;
    lanes p = r + r2 * ((c2 + r2 * c4) + r4 * ((c6 + r2 * c8) + r4 * c10));
    lanes scale = (lanes)((((words)shifted + 1023) << 52) & near);
    return scale + scale * p;
}

/* log s, s a positive number that is not denormal; infinity stays. */
INLINE lanes log_of(lanes s)
{
    words bits = (words)s, exponent = (bits >> 52) - 1022;
    lanes m = (lanes)((bits & 0x000fffffffffffff) | 0x3fe0000000000000); /* [1/2, 1) */
    words small = m < 0.70710678118654752;
    m = choose(small, m + m, m);
    lanes e = (lanes)((exponent + small) + (int64_t)0x4338000000000000) - shift;
    lanes t = (m - 1.0) / (m + 1.0), t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    lanes a = (1.0 / 3.0 + t2 * (1.0 / 5.0)) + t4 * (1.0 / 7.0 + t2 * (1.0 / 9.0));
    lanes b = (1.0 / 11.0 + t2 * (1.0 / 13.0)) + t4 * (1.0 / 15.0 + t2 * (1.0 / 17.0));
    lanes c = 1.0 / 19.0 + t2 * (1.0 / 21.0) + t4 * (1.0 / 23.0);
    lanes value = e * 0.69314718055994531 + 2.0 * (t + t * (t2 * (a + t8 * (b + t8 * c))));
    return choose(s <= DBL_MAX, value, s);
}

/* Rows of a square become its columns, in place. */
INLINE void transpose(lanes *r)
{
#if WV_LANES == 8
    lanes s[8], t[8];
    for (int k = 0; k < 8; k += 2) {
        s[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        s[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int k = 0; k < 8; k += 4)
        for (int i = k; i < k + 2; i++) {
            t[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            t[i + 2] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        r[k] = __builtin_shufflevector(t[k], t[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[k + 4] = __builtin_shufflevector(t[k], t[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#elif WV_LANES == 4
    lanes s[4];
    for (int k = 0; k < 4; k += 2) {
        s[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 4, 2, 6);
        s[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 1, 5, 3, 7);
    }
    for (int k = 0; k < 2; k++) {
        r[k] = __builtin_shufflevector(s[k], s[k + 2], 0, 1, 4, 5);
        r[k + 2] = __builtin_shufflevector(s[k], s[k + 2], 2, 3, 6, 7);
    }
#else
    lanes first = r[0];
    r[0] = __builtin_shufflevector(first, r[1], 0, 2);
    r[1] = __builtin_shufflevector(first, r[1], 1, 3);
#endif
}

WV_TARGET static void turn(size_t D, const double *const *row, double *out)
{
    for (size_t d = 0; D < WV_LANES && d < D; d++)
        for (size_t k = 0; k < WV_COLUMNS_WIDTH; k++)
            out[d * WV_COLUMNS + k] = row[k][d];
    for (size_t k = 0; k < WV_COLUMNS_WIDTH; k += WV_LANES)
        for (size_t next = 0; D >= WV_LANES && next < D; next += WV_LANES) {
            size_t d = next + WV_LANES < D ? next : D - WV_LANES; /* the last square overlaps the one before */
            lanes square[WV_LANES];
            for (size_t i = 0; i < WV_LANES; i++)
                square[i] = load(row[k + i] + d);
            transpose(square);
            for (size_t i = 0; i < WV_LANES; i++)
                put(out + (d + i) * WV_COLUMNS + k, square[i]);
        }
}

WV_TARGET static void subtract(size_t D, size_t n, const double *x, const double *mu, double *out)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES)
            put(out + d * WV_COLUMNS + i, load(x + d * WV_COLUMNS + i) - mu[d]);
}

WV_TARGET static void squares(size_t D, size_t n, const double *y, double *out)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        lanes even = {0}, odd = {0};
        size_t d = 0;
        for (; d + 1 < D; d += 2) {
            lanes a = load(y + d * WV_COLUMNS + i), b = load(y + (d + 1) * WV_COLUMNS + i);
            even += a * a;
            odd += b * b;
        }
        if (d < D)
            even += load(y + d * WV_COLUMNS + i) * load(y + d * WV_COLUMNS + i);
        put(out + i, even + odd);
    }
}

WV_TARGET static void scale(size_t D, size_t n, const double *w, const double *y, double *out)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES) {
            lanes u = load(w + i);
            put(out + d * WV_COLUMNS + i, (lanes)((u > 0.0) & (words)(u * load(y + d * WV_COLUMNS + i))));
        }
}

WV_TARGET static void centre(size_t D, size_t n, const double *w, const double *y, const double *mean, double *out,
                             double *weighted)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES) {
            lanes u = load(w + i), v = (lanes)((u > 0.0) & (words)(load(y + d * WV_COLUMNS + i) - mean[d]));
            put(out + d * WV_COLUMNS + i, v);
            put(weighted + d * WV_COLUMNS + i, u * v);
        }
}

WV_TARGET static void mean(size_t D, size_t n, const double *w, const double *y, double *sum)
{
    for (size_t d = 0; d < D; d++) {
        lanes s = {0};
        for (size_t i = 0; i < n; i += WV_LANES) {
            lanes u = load(w + i);
            s += (lanes)((u > 0.0) & (words)(u * load(y + d * WV_COLUMNS + i)));
        }
        sum[d] += sum_of(s);
    }
}

WV_TARGET static void add_logs(size_t C, size_t n, const double *log_q, double *out)
{
    const lanes nothing = all(-INFINITY);
    for (size_t i = 0; i < n; i += WV_LANES) {
        lanes first = load(out + i), top = choose(first > nothing, first, nothing);
        for (size_t c = 0; c < C; c++) {
            lanes v = load(log_q + c * WV_COLUMNS + i);
            top = choose(v > top, v, top);
        }
        words some = top > nothing;
        lanes base = (lanes)(some & (words)top), sum = exp_minus(base - first);
        for (size_t c = 0; c < C; c++)
            sum += exp_minus(base - load(log_q + c * WV_COLUMNS + i)); /* NaN is not <= 708: 0 */
        put(out + i, choose(some, base + log_of(sum), nothing));
    }
}

WV_TARGET static void exponentials(size_t n, double top, const double *x, double *out)
{
    for (size_t i = 0; i < n; i += WV_LANES)
        put(out + i, exp_minus(top - load(x + i)));
}

WV_TARGET static void tails(size_t n, double nu, double power, double constant, const double *r, double *out)
{
    double inverse = 1.0 / nu;
    for (size_t i = 0; i < n; i += WV_LANES)
        put(out + i, constant - power * log_of(1.0 + load(r + i) * inverse));
}

enum {
    ABREAST = 4,                    /* rows, or vectors, that are summed at once */
    VECTORS = WV_LANES == 8 ? 4 : 2 /* vectors of columns that share a row */
};

WV_TARGET static void apart(size_t D, size_t n, const double *x, const double *mu, const double *scaled, double *out)
{
    size_t i = 0;
    for (; i + ABREAST * WV_LANES <= n; i += ABREAST * WV_LANES) {
        lanes sum[ABREAST] = {{0}};
        for (size_t d = 0; d < D; d++)
            for (size_t k = 0; k < ABREAST; k++) {
                lanes y = (load(x + d * WV_COLUMNS + i + k * WV_LANES) - mu[d]) * scaled[d];
                sum[k] += y * y;
            }
        for (size_t k = 0; k < ABREAST; k++)
            put(out + i + k * WV_LANES, sum[k]);
    }
    for (; i < n; i += WV_LANES) {
        lanes sum = {0};
        for (size_t d = 0; d < D; d++) {
            lanes y = (load(x + d * WV_COLUMNS + i) - mu[d]) * scaled[d];
            sum += y * y;
        }
        put(out + i, sum);
    }
}

/* The least and the second least of the costs so far, with one more. */
INLINE void compare(lanes cost, double j, lanes *near, lanes *next, lanes *which)
{
    words closer = cost < *near, second = cost < *next;
    *next = choose(closer, *near, choose(second, cost, *next));
    *near = choose(closer, cost, *near);
    *which = choose(closer, all(j), *which);
}

WV_TARGET static void nearest(size_t D, size_t n, size_t N, const double *x, const double *z, double *near,
                              double *next, double *which)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        lanes least = all(INFINITY), other = least, at = {0};
        size_t j = 0;
        for (; j + ABREAST <= N; j += ABREAST) {
            lanes sum[ABREAST] = {{0}};
            const double *row = z + j * D;
            for (size_t d = 0; d < D; d++) {
                lanes v = load(x + d * WV_COLUMNS + i);
                for (size_t k = 0; k < ABREAST; k++) {
                    lanes y = v - row[k * D + d];
                    sum[k] += y * y;
                }
            }
            for (size_t k = 0; k < ABREAST; k++)
                compare(sum[k], (double)(j + k), &least, &other, &at);
        }
        for (; j < N; j++) {
            lanes sum = {0};
            for (size_t d = 0; d < D; d++) {
                lanes y = load(x + d * WV_COLUMNS + i) - z[j * D + d];
                sum += y * y;
            }
            compare(sum, (double)j, &least, &other, &at);
        }
        put(near + i, least);
        put(next + i, other);
        put(which + i, at);
    }
}

INLINE void climb(lanes score, double j, lanes *most, lanes *which)
{
    words higher = score > *most;
    *most = choose(higher, score, *most);
    *which = choose(higher, all(j), *which);
}

/* Some rows at once, for some vectors of columns. */
INLINE void climb_rows(size_t D, size_t rows, size_t vectors, const double *x, const double *g, const double *offset,
                       double j, lanes *most, lanes *at)
{
    lanes sum[ABREAST][VECTORS];
    for (size_t k = 0; k < rows; k++)
        for (size_t v = 0; v < vectors; v++)
            sum[k][v] = all(-offset[k]);
    for (size_t d = 0; d < D; d++)
        for (size_t v = 0; v < vectors; v++) {
            lanes y = load(x + d * WV_COLUMNS + v * WV_LANES);
            for (size_t k = 0; k < rows; k++)
                sum[k][v] += g[k * D + d] * y;
        }
    for (size_t k = 0; k < rows; k++)
        for (size_t v = 0; v < vectors; v++)
            climb(sum[k][v], j + (double)k, &most[v], &at[v]);
}

INLINE void climb_all(size_t D, size_t N, size_t vectors, const double *x, const double *g, const double *offset,
                      double *which)
{
    lanes most[VECTORS], at[VECTORS];
    size_t j = 0;
    for (size_t v = 0; v < vectors; v++) {
        most[v] = all(-INFINITY);
        at[v] = all(0);
    }
    for (; j + ABREAST <= N; j += ABREAST)
        climb_rows(D, ABREAST, vectors, x, g + j * D, offset + j, (double)j, most, at);
    for (; j < N; j++)
        climb_rows(D, 1, vectors, x, g + j * D, offset + j, (double)j, most, at);
    for (size_t v = 0; v < vectors; v++)
        put(which + v * WV_LANES, at[v]);
}

WV_TARGET static void highest(size_t D, size_t n, size_t N, const double *x, const double *g, const double *offset,
                              double *which)
{
    size_t i = 0;
    for (; i + VECTORS * WV_LANES <= n; i += VECTORS * WV_LANES)
        climb_all(D, N, VECTORS, x + i, g, offset, which + i);
    for (; i < n; i += WV_LANES)
        climb_all(D, N, 1, x + i, g, offset, which + i);
}

INLINE bool any(words mask)
{
    int64_t bits = 0;
    for (size_t k = 0; k < WV_LANES; k++)
        bits |= mask[k];
    return bits != 0;
}

WV_TARGET static void within(size_t D, size_t n, size_t N, const double *x, const double *g, const double *bound,
                             double *out)
{
    enum { OFTEN = 8 }; /* rows after which to see whether there are columns left */
    for (size_t i = 0; i < n; i += WV_LANES) {
        words plus = all(0) == 0, minus = plus;
        for (size_t j = 0; j < N && (j % OFTEN || any(plus | minus)); j++) {
            lanes v = {0};
            for (size_t d = 0; d < D; d++)
                v += g[j * D + d] * load(x + d * WV_COLUMNS + i);
            plus &= v < bound[j];
            minus &= -v < bound[j];
        }
        put(out + i, (lanes)((words)all(1) & plus) + (lanes)((words)all(2) & minus));
    }
}

typedef float narrow __attribute__((vector_size(2 * WV_LANES * sizeof(float))));
typedef int32_t flags __attribute__((vector_size(2 * WV_LANES * sizeof(int32_t))));
enum { NARROW = 2 * WV_LANES };

WV_TARGET static void shorten(size_t D, const double *x, const double *mu, float *out)
{
    typedef float shorter __attribute__((vector_size(WV_LANES * sizeof(float))));
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < WV_COLUMNS; i += WV_LANES) {
            shorter v = __builtin_convertvector(load(x + d * WV_COLUMNS + i) - mu[d], shorter);
            memcpy(out + d * WV_COLUMNS + i, &v, sizeof v);
        }
}

INLINE narrow either(flags mask, narrow yes, narrow no)
{
    return (narrow)((mask & (flags)yes) | (~mask & (flags)no));
}

/* The three least squared distances of a vector of columns, and which rows are at the first two. */
typedef struct {
    narrow least[3];
    flags which[2];
} trio;

INLINE void insert(narrow cost, int32_t j, trio *t)
{
    flags first = cost < t->least[0], second = cost < t->least[1], third = cost < t->least[2], at = j - (flags){0};
    t->least[2] = either(second, t->least[1], either(third, cost, t->least[2]));
    t->least[1] = either(first, t->least[0], either(second, cost, t->least[1]));
    t->least[0] = either(first, cost, t->least[0]);
    t->which[1] = (first & t->which[0]) | (~first & ((second & at) | (~second & t->which[1])));
    t->which[0] = (first & at) | (~first & t->which[0]);
}

INLINE void put_trio(const trio *t, int32_t *first, int32_t *second, float *third)
{
    memcpy(first, &t->which[0], sizeof t->which[0]);
    memcpy(second, &t->which[1], sizeof t->which[1]);
    memcpy(third, &t->least[2], sizeof t->least[2]);
}

INLINE narrow load_narrow(const float *x)
{
    narrow v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* Two vectors of columns and four rows at once; the last four rows may overlap those before: what
 * is seen again is left out. */
WV_TARGET static void nearby(size_t D, size_t n, size_t N, const float *x, const float *z, int32_t *first,
                             int32_t *second, float *third)
{
    const narrow far = (float)INFINITY - (narrow){0};
    for (size_t i = 0; i < n; i += 2 * NARROW) {
        trio low = {{far, far, far}, {{0}, {0}}}, high = low;
        for (size_t j = 0; j < N; j += 4) {
            size_t from = j + 4 <= N ? j : N - 4;
            const float *z0 = z + from * D, *z1 = z0 + D, *z2 = z1 + D, *z3 = z2 + D;
            narrow a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
            for (size_t d = 0; d < D; d++) {
                narrow v = load_narrow(x + d * WV_COLUMNS + i), w = load_narrow(x + d * WV_COLUMNS + i + NARROW), y;
                y = v - z0[d], a0 += y * y, y = w - z0[d], b0 += y * y;
                y = v - z1[d], a1 += y * y, y = w - z1[d], b1 += y * y;
                y = v - z2[d], a2 += y * y, y = w - z2[d], b2 += y * y;
                y = v - z3[d], a3 += y * y, y = w - z3[d], b3 += y * y;
            }
            narrow a[4] = {a0, a1, a2, a3}, b[4] = {b0, b1, b2, b3};
            for (size_t k = j - from; k < 4; k++) {
                insert(a[k], (int32_t)(from + k), &low);
                insert(b[k], (int32_t)(from + k), &high);
            }
        }
        put_trio(&low, first + i, second + i, third + i);
        put_trio(&high, first + i + NARROW, second + i + NARROW, third + i + NARROW);
    }
}

WV_TARGET static void nearby_mirrored(size_t D, size_t n, size_t N, const float *x, const float *z, const float *square,
                                      int32_t *first, int32_t *second, float *third)
{
    const narrow far = (float)INFINITY - (narrow){0};
    for (size_t i = 0; i < n; i += 2 * NARROW) {
        trio low = {{far, far, far}, {{0}, {0}}}, high = low, low_image = low, high_image = low;
        for (size_t j = 0; j < N; j += 4) {
            size_t from = j + 4 <= N ? j : N - 4;
            const float *z0 = z + from * D, *z1 = z0 + D, *z2 = z1 + D, *z3 = z2 + D;
            narrow a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
            for (size_t d = 0; d < D; d++) {
                narrow v = load_narrow(x + d * WV_COLUMNS + i), w = load_narrow(x + d * WV_COLUMNS + i + NARROW);
                a0 += v * z0[d], b0 += w * z0[d];
                a1 += v * z1[d], b1 += w * z1[d];
                a2 += v * z2[d], b2 += w * z2[d];
                a3 += v * z3[d], b3 += w * z3[d];
            }
            narrow a[4] = {a0, a1, a2, a3}, b[4] = {b0, b1, b2, b3};
            for (size_t k = j - from; k < 4; k++) {
                int32_t at = (int32_t)(from + k);
                insert(square[at] - 2.0F * a[k], at, &low);
                insert(square[at] + 2.0F * a[k], at, &low_image);
                insert(square[at] - 2.0F * b[k], at, &high);
                insert(square[at] + 2.0F * b[k], at, &high_image);
            }
        }
        size_t image = WV_COLUMNS + i;
        put_trio(&low, first + i, second + i, third + i);
        put_trio(&high, first + i + NARROW, second + i + NARROW, third + i + NARROW);
        put_trio(&low_image, first + image, second + image, third + image);
        put_trio(&high_image, first + image + NARROW, second + image + NARROW, third + image + NARROW);
    }
}

WV_TARGET static void shares(size_t C, size_t n, size_t ld, const double *alpha, double *log_q, double *log_m)
{
    const lanes nothing = all(-INFINITY);
    for (size_t i = 0; i < n; i += WV_LANES) {
        lanes top = nothing, sum = {0};
        for (size_t c = 0; c < C; c++) {
            lanes v = load(log_q + c * ld + i);
            if (alpha[c] > 0)
                top = choose(v > top, v, top);
        }
        words some = top > nothing;
        lanes base = (lanes)(some & (words)top);
        for (size_t c = 0; c < C; c++) {
            lanes below = base - load(log_q + c * ld + i),
                  e = exp_minus(choose(below < -600.0, all(-600.0), below)); /* NaN is not <= 708: 0 */
            put(log_q + c * ld + i, e);
            sum += alpha[c] * e;
        }
        put(log_m + i, choose(some, base + log_of(sum), nothing));
        lanes each = 1.0 / sum;
        for (size_t c = 0; c < C; c++)
            put(log_q + c * ld + i, (lanes)(some & (words)(load(log_q + c * ld + i) * each)));
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* Coordinates are taken by whole vectors, for all rows at once, so that sums stay in registers;
 * what is left of them, one by one. */

INLINE double distance_of(size_t D, const double *x, const double *m)
{
    lanes sum = {0};
    double total = 0;
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        lanes y = load(x + d) - load(m + d);
        sum += y * y;
    }
    for (; d < D; d++)
        total += (x[d] - m[d]) * (x[d] - m[d]);
    for (size_t k = 0; k < WV_LANES && D >= WV_LANES; k++)
        total += sum[k];
    return total;
}

WV_TARGET static double row_distance(size_t D, const double *x, const double *m)
{
    return distance_of(D, x, m);
}

WV_TARGET static void row_distances(size_t D, size_t n, const double *x, const uint32_t *xi, const double *m,
                                    const uint32_t *mi, double *out)
{
    for (size_t k = 0; k < n; k++)
        out[k] = distance_of(D, x + xi[k] * D, m + mi[k] * D);
}

WV_TARGET static double row_apart(size_t D, const double *x, const double *m, const double *s)
{
    lanes sum = {0};
    double total = 0;
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        lanes z = (load(x + d) - load(m + d)) * load(s + d);
        sum += z * z;
    }
    for (; d < D; d++)
        total += (x[d] - m[d]) * s[d] * ((x[d] - m[d]) * s[d]);
    total += sum_of(sum);
    return total;
}

WV_TARGET static void row_means(size_t n, size_t D, const double *u, const double *x, double *out)
{
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        lanes sum = {0};
        for (size_t p = 0; p < n; p++)
            sum += u[p] * load(x + p * D + d);
        put(out + d, sum);
    }
    for (; d < D; d++) {
        double sum = 0;
        for (size_t p = 0; p < n; p++)
            sum += u[p] * x[p * D + d];
        out[d] = sum;
    }
}

WV_TARGET static void row_slopes(size_t n, size_t D, const double *u, const double *x, const double *m, const double *g,
                                 const double *gm, double *variance, double *cross)
{
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        lanes square = {0}, both = {0}, middle = load(m + d), level = g ? load(gm + d) : middle;
        for (size_t p = 0; p < n; p++) {
            lanes y = load(x + p * D + d) - middle, uy = u[p] * y;
            square += uy * y;
            if (g)
                both += uy * (load(g + p * D + d) - level);
        }
        put(variance + d, square);
        if (g)
            put(cross + d, both);
    }
    for (; d < D; d++) {
        double square = 0, both = 0;
        for (size_t p = 0; p < n; p++) {
            double y = x[p * D + d] - m[d], uy = u[p] * y;
            square += uy * y;
            if (g)
                both += uy * (g[p * D + d] - gm[d]);
        }
        variance[d] = square;
        if (g)
            cross[d] = both;
    }
}

WV_TARGET static void row_quadratic(size_t n, size_t D, const double *x, const double *m, const double *s,
                                    const double *a1, const double *a2, double *r)
{
    for (size_t p = 0; p < n; p++) {
        const double *row = x + p * D;
        lanes sum = {0};
        double total = 0;
        size_t d = 0;
        for (; d + WV_LANES <= D; d += WV_LANES) {
            lanes z = (load(row + d) - load(m + d)) * load(s + d);
            sum += z * (load(a1 + d) + load(a2 + d) * (0.5 * z));
        }
        for (; d < D; d++) {
            double z = (row[d] - m[d]) * s[d];
            total += z * (a1[d] + a2[d] * (0.5 * z));
        }
        total += sum_of(sum);
        r[p] -= total;
    }
}

WV_TARGET static void row_products(size_t n, size_t D, const double *u, const double *r, const double *x,
                                   const double *m, const double *s, const double *half, double *out)
{
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        lanes zt = {0}, tt = {0}, zr = {0}, tr = {0}, middle = load(m + d), unit = load(s + d), level = load(half + d);
        for (size_t p = 0; p < n; p++) {
            lanes z = (load(x + p * D + d) - middle) * unit, t = 0.5 * z * z - level, ut = u[p] * t;
            zt += ut * z;
            tt += ut * t;
            zr += u[p] * r[p] * z;
            tr += ut * r[p];
        }
        put(out + d, zt);
        put(out + D + d, tt);
        put(out + 2 * D + d, zr);
        put(out + 3 * D + d, tr);
    }
    for (; d < D; d++) {
        double sum[4] = {0};
        for (size_t p = 0; p < n; p++) {
            double z = (x[p * D + d] - m[d]) * s[d], t = 0.5 * z * z - half[d], ut = u[p] * t;
            sum[0] += ut * z;
            sum[1] += ut * t;
            sum[2] += u[p] * r[p] * z;
            sum[3] += ut * r[p];
        }
        for (size_t k = 0; k < 4; k++)
            out[k * D + d] = sum[k];
    }
}

WV_TARGET static void row_statistics(size_t n, size_t D, const double *u, const double *x, const double *m,
                                     const double *s, const double *half, double *T)
{
    for (size_t p = 0; p < n; p++, T += 2 * D) {
        const double *row = x + p * D;
        double root = sqrt(u[p]);
        size_t d = 0;
        for (; d + WV_LANES <= D; d += WV_LANES) {
            lanes z = (load(row + d) - load(m + d)) * load(s + d);
            put(T + d, root * z);
            put(T + D + d, root * (0.5 * z * z - load(half + d)));
        }
        for (; d < D; d++) {
            double z = (row[d] - m[d]) * s[d];
            T[d] = root * z;
            T[D + d] = root * (0.5 * z * z - half[d]);
        }
    }
}

WV_TARGET static void powers(size_t D, size_t n, const double *w, const double *y, const double *from, double *out)
{
    for (size_t d = 0; d < D; d++) {
        lanes s1 = {0}, s2 = {0}, t1 = {0}, t2 = {0};
        for (size_t i = 0; i < n; i += WV_LANES) {
            lanes u = load(w + i), x = (lanes)((u > 0.0) & (words)(load(y + d * WV_COLUMNS + i) - from[d])), ux = u * x;
            s1 += ux;
            s2 += ux * x;
            t1 += u * ux;
            t2 += ux * ux;
        }
        out[d] += sum_of(s1);
        out[D + d] += sum_of(s2);
        out[2 * D + d] += sum_of(t1);
        out[3 * D + d] += sum_of(t2);
    }
}

WV_TARGET static void pair_scores(size_t D, size_t n, const double *v, const double *w, const double *g,
                                  const double *h, const double *x, const double *y, const double *mu,
                                  const double *unit, double *out, double *square)
{
    for (size_t d = 0; d < D; d++) {
        lanes s = {0}, t = {0};
        for (size_t i = 0; i < n; i += WV_LANES) {
            size_t at = d * WV_COLUMNS + i;
            lanes a = load(v + i), b = load(w + i), ga = load(g + at), gb = load(h + at);
            lanes ea = a * (ga * ((load(x + at) - mu[d]) * unit[d]) + 1.0),
                  eb = b * (gb * ((load(y + at) - mu[d]) * unit[d]) + 1.0);
            ga *= a;
            gb *= b;
            put(out + at, ga + gb);
            put(out + D * WV_COLUMNS + at, ea + eb);
            s += ga * ga + gb * gb;
            t += ea * ea + eb * eb;
        }
        if (square) {
            square[d] += sum_of(s);
            square[D + d] += sum_of(t);
        }
    }
}

WV_TARGET static void pair_values(size_t D, size_t n, double share, const double *v, const double *w, const double *x,
                                  const double *y, const double *middle, const double *units, const double *from,
                                  double *out, double *squared)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES) {
            size_t at = d * WV_COLUMNS + i;
            lanes a = load(v + i) * share, b = load(w + i) * share;
            lanes p = (lanes)((a > 0.0) & (words)((load(x + at) - middle[d]) * units[d] - from[d])),
                  q = (lanes)((b > 0.0) & (words)((load(y + at) - middle[d]) * units[d] - from[d]));
            put(out + at, a * p + b * q);
            put(squared + at, a * p * p + b * q * q);
        }
}

WV_TARGET static void pair_sums(size_t D, size_t n, const double *keep, const double *t, const double *a,
                                const double *q, double *out)
{
    for (size_t d = 0; d < D; d++) {
        lanes e1 = {0}, e2 = {0}, q1 = {0}, qt = {0};
        for (size_t i = 0; i < n; i += WV_LANES) {
            size_t at = d * WV_COLUMNS + i;
            lanes e = load(a + at) * load(keep + i), s = load(q + at);
            e1 += e;
            e2 += e * e;
            q1 += s;
            qt += s * load(t + i);
        }
        out[d] += sum_of(e1);
        out[D + d] += sum_of(e2);
        out[2 * D + d] += sum_of(q1);
        out[3 * D + d] += sum_of(qt);
    }
}

WV_TARGET static void row_times(size_t D, const double *x, const double *M, double *out)
{
    size_t at = 0;
    for (; at + ABREAST * WV_LANES <= D; at += ABREAST * WV_LANES) {
        lanes s[ABREAST] = {{0}};
        for (size_t k = 0; k < D; k++)
            for (size_t i = 0; i < ABREAST; i++)
                s[i] += x[k] * load(M + k * D + at + i * WV_LANES);
        for (size_t i = 0; i < ABREAST; i++)
            put(out + at + i * WV_LANES, s[i]);
    }
    for (; at < D && D >= WV_LANES; at += WV_LANES) {
        size_t from = at + WV_LANES < D ? at : D - WV_LANES; /* the last vector overlaps the one before */
        lanes even = {0}, odd = {0};
        size_t k = 0;
        for (; k + 1 < D; k += 2) {
            even += x[k] * load(M + k * D + from);
            odd += x[k + 1] * load(M + (k + 1) * D + from);
        }
        if (k < D)
            even += x[k] * load(M + k * D + from);
        put(out + from, even + odd);
    }
    for (; at < D; at++) {
        double s = 0;
        for (size_t k = 0; k < D; k++)
            s += x[k] * M[k * D + at];
        out[at] = s;
    }
}

INLINE double product(size_t D, const double *a, const double *b)
{
    lanes even = {0}, odd = {0};
    size_t i = 0;
    for (; i + WV_LANES < D; i += 2 * WV_LANES) {
        even += load(a + i) * load(b + i);
        odd += load(a + i + WV_LANES) * load(b + i + WV_LANES);
    }
    if (i < D)
        even += load(a + i) * load(b + i);
    return sum_of(even + odd);
}

INLINE void add_times(size_t D, double w, const double *a, double *out)
{
    for (size_t i = 0; i < D; i += WV_LANES)
        put(out + i, load(out + i) + w * load(a + i));
}

WV_TARGET static void row_secants(size_t D, size_t pairs, const double *const *s, const double *const *y,
                                  const double *sy, double gamma, double *v)
{
    double a[64]; /* more than there are pairs */
    for (size_t q = 0; q < pairs; q++) {
        a[q] = product(D, s[q], v) / sy[q];
        add_times(D, -a[q], y[q], v);
    }
    for (size_t i = 0; i < D; i += WV_LANES)
        put(v + i, gamma * load(v + i));
    for (size_t q = pairs; q-- > 0;)
        add_times(D, a[q] - product(D, y[q], v) / sy[q], s[q], v);
}

const wv_columns WV_SET = {turn,          subtract,     squares,   scale,           centre,        mean,
                           add_logs,      exponentials, tails,     apart,           nearest,       highest,
                           within,        shorten,      nearby,    nearby_mirrored, shares,        powers,
                           pair_scores,   pair_values,  pair_sums, row_times,       row_secants,   row_distance,
                           row_distances, row_apart,    row_means, row_slopes,      row_quadratic, row_products,
                           row_statistics};
