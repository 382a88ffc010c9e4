/* columns_body.h - passes over blocks of points for one instruction set. Included with WV_LANES, its doubles in a
 * register, WV_TARGET, the attribute of functions that use it, and WV_SET, the name of the table. */
#include "simd/columns.h"
#include "simd/lanes.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

WV_INLINE wv_lanes all(double x)
{
    return x - (wv_lanes){0};
}

WV_INLINE double sum_of(wv_lanes v)
{
#if WV_LANES == 8
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
#elif WV_LANES == 4
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1);
#endif
    return v[0] + v[1];
}

/* Rows of a square become its columns, in place. */
WV_INLINE void transpose(wv_lanes *r)
{
#if WV_LANES == 8
    wv_lanes s[8], t[8];
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
    wv_lanes s[4];
    for (int k = 0; k < 4; k += 2) {
        s[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 4, 2, 6);
        s[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 1, 5, 3, 7);
    }
    for (int k = 0; k < 2; k++) {
        r[k] = __builtin_shufflevector(s[k], s[k + 2], 0, 1, 4, 5);
        r[k + 2] = __builtin_shufflevector(s[k], s[k + 2], 2, 3, 6, 7);
    }
#else
    wv_lanes first = r[0];
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
            wv_lanes square[WV_LANES];
            for (size_t i = 0; i < WV_LANES; i++)
                square[i] = wv_lanes_load(row[k + i] + d);
            transpose(square);
            for (size_t i = 0; i < WV_LANES; i++)
                wv_lanes_store(out + (d + i) * WV_COLUMNS + k, square[i]);
        }
}

WV_TARGET static void subtract(size_t D, size_t n, const double *x, const double *mu, double *out)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES)
            wv_lanes_store(out + d * WV_COLUMNS + i, wv_lanes_load(x + d * WV_COLUMNS + i) - mu[d]);
}

WV_TARGET static void squares(size_t D, size_t n, const double *y, double *out)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes even = {0}, odd = {0};
        size_t d = 0;
        for (; d + 1 < D; d += 2) {
            wv_lanes a = wv_lanes_load(y + d * WV_COLUMNS + i), b = wv_lanes_load(y + (d + 1) * WV_COLUMNS + i);
            even += a * a;
            odd += b * b;
        }
        if (d < D)
            even += wv_lanes_load(y + d * WV_COLUMNS + i) * wv_lanes_load(y + d * WV_COLUMNS + i);
        wv_lanes_store(out + i, even + odd);
    }
}

WV_TARGET static void scale(size_t D, size_t n, const double *w, const double *y, double *out)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES) {
            wv_lanes u = wv_lanes_load(w + i);
            wv_lanes_store(out + d * WV_COLUMNS + i,
                           (wv_lanes)((u > 0.0) & (wv_mask)(u * wv_lanes_load(y + d * WV_COLUMNS + i))));
        }
}

WV_TARGET static void centre(size_t D, size_t n, const double *w, const double *y, const double *mean, double *out,
                             double *weighted)
{
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < n; i += WV_LANES) {
            wv_lanes u = wv_lanes_load(w + i),
                     v = (wv_lanes)((u > 0.0) & (wv_mask)(wv_lanes_load(y + d * WV_COLUMNS + i) - mean[d]));
            wv_lanes_store(out + d * WV_COLUMNS + i, v);
            wv_lanes_store(weighted + d * WV_COLUMNS + i, u * v);
        }
}

WV_TARGET static void mean(size_t D, size_t n, const double *w, const double *y, double *sum)
{
    for (size_t d = 0; d < D; d++) {
        wv_lanes s = {0};
        for (size_t i = 0; i < n; i += WV_LANES) {
            wv_lanes u = wv_lanes_load(w + i);
            s += (wv_lanes)((u > 0.0) & (wv_mask)(u * wv_lanes_load(y + d * WV_COLUMNS + i)));
        }
        sum[d] += sum_of(s);
    }
}

WV_TARGET static void add_logs(size_t C, size_t n, const double *log_q, double *out)
{
    const wv_lanes nothing = all(-INFINITY);
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes first = wv_lanes_load(out + i), top = wv_lanes_select(first > nothing, first, nothing);
        for (size_t c = 0; c < C; c++) {
            wv_lanes v = wv_lanes_load(log_q + c * WV_COLUMNS + i);
            top = wv_lanes_select(v > top, v, top);
        }
        wv_mask some = top > nothing;
        wv_lanes base = (wv_lanes)(some & (wv_mask)top), sum = wv_lanes_exp_or_0(base - first);
        for (size_t c = 0; c < C; c++)
            sum += wv_lanes_exp_or_0(base - wv_lanes_load(log_q + c * WV_COLUMNS + i)); /* NaN is not <= 708: 0 */
        wv_lanes_store(out + i, wv_lanes_select(some, base + wv_lanes_log(sum), nothing));
    }
}

WV_TARGET static void exponentials(size_t n, double top, const double *x, double *out)
{
    for (size_t i = 0; i < n; i += WV_LANES)
        wv_lanes_store(out + i, wv_lanes_exp_or_0(top - wv_lanes_load(x + i)));
}

WV_TARGET static void tails(size_t n, double nu, double power, double constant, const double *r, double *out)
{
    double inverse = 1.0 / nu;
    for (size_t i = 0; i < n; i += WV_LANES)
        wv_lanes_store(out + i, constant - power * wv_lanes_log(1.0 + wv_lanes_load(r + i) * inverse));
}

enum {
    ABREAST = 4,                    /* rows, or vectors, that are summed at once */
    VECTORS = WV_LANES == 8 ? 4 : 2 /* vectors of columns that share a row */
};

WV_TARGET static void apart(size_t D, size_t n, const double *x, const double *mu, const double *scaled, double *out)
{
    size_t i = 0;
    for (; i + ABREAST * WV_LANES <= n; i += ABREAST * WV_LANES) {
        wv_lanes sum[ABREAST] = {{0}};
        for (size_t d = 0; d < D; d++)
            for (size_t k = 0; k < ABREAST; k++) {
                wv_lanes y = (wv_lanes_load(x + d * WV_COLUMNS + i + k * WV_LANES) - mu[d]) * scaled[d];
                sum[k] += y * y;
            }
        for (size_t k = 0; k < ABREAST; k++)
            wv_lanes_store(out + i + k * WV_LANES, sum[k]);
    }
    for (; i < n; i += WV_LANES) {
        wv_lanes sum = {0};
        for (size_t d = 0; d < D; d++) {
            wv_lanes y = (wv_lanes_load(x + d * WV_COLUMNS + i) - mu[d]) * scaled[d];
            sum += y * y;
        }
        wv_lanes_store(out + i, sum);
    }
}

/* The least and the second least of the costs so far, with one more. */
WV_INLINE void compare(wv_lanes cost, double j, wv_lanes *near, wv_lanes *next, wv_lanes *which)
{
    wv_mask closer = cost < *near, second = cost < *next;
    *next = wv_lanes_select(closer, *near, wv_lanes_select(second, cost, *next));
    *near = wv_lanes_select(closer, cost, *near);
    *which = wv_lanes_select(closer, all(j), *which);
}

WV_TARGET static void nearest(size_t D, size_t n, size_t N, const double *x, const double *z, double *near,
                              double *next, double *which)
{
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes least = all(INFINITY), other = least, at = {0};
        size_t j = 0;
        for (; j + ABREAST <= N; j += ABREAST) {
            wv_lanes sum[ABREAST] = {{0}};
            const double *row = z + j * D;
            for (size_t d = 0; d < D; d++) {
                wv_lanes v = wv_lanes_load(x + d * WV_COLUMNS + i);
                for (size_t k = 0; k < ABREAST; k++) {
                    wv_lanes y = v - row[k * D + d];
                    sum[k] += y * y;
                }
            }
            for (size_t k = 0; k < ABREAST; k++)
                compare(sum[k], (double)(j + k), &least, &other, &at);
        }
        for (; j < N; j++) {
            wv_lanes sum = {0};
            for (size_t d = 0; d < D; d++) {
                wv_lanes y = wv_lanes_load(x + d * WV_COLUMNS + i) - z[j * D + d];
                sum += y * y;
            }
            compare(sum, (double)j, &least, &other, &at);
        }
        wv_lanes_store(near + i, least);
        wv_lanes_store(next + i, other);
        wv_lanes_store(which + i, at);
    }
}

WV_INLINE void climb(wv_lanes score, double j, wv_lanes *most, wv_lanes *which)
{
    wv_mask higher = score > *most;
    *most = wv_lanes_select(higher, score, *most);
    *which = wv_lanes_select(higher, all(j), *which);
}

/* Some rows at once, for some vectors of columns. */
WV_INLINE void climb_rows(size_t D, size_t rows, size_t vectors, const double *x, const double *g, const double *offset,
                          double j, wv_lanes *most, wv_lanes *at)
{
    wv_lanes sum[ABREAST][VECTORS];
    for (size_t k = 0; k < rows; k++)
        for (size_t v = 0; v < vectors; v++)
            sum[k][v] = all(-offset[k]);
    for (size_t d = 0; d < D; d++)
        for (size_t v = 0; v < vectors; v++) {
            wv_lanes y = wv_lanes_load(x + d * WV_COLUMNS + v * WV_LANES);
            for (size_t k = 0; k < rows; k++)
                sum[k][v] += g[k * D + d] * y;
        }
    for (size_t k = 0; k < rows; k++)
        for (size_t v = 0; v < vectors; v++)
            climb(sum[k][v], j + (double)k, &most[v], &at[v]);
}

WV_INLINE void climb_all(size_t D, size_t N, size_t vectors, const double *x, const double *g, const double *offset,
                         double *which)
{
    wv_lanes most[VECTORS], at[VECTORS];
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
        wv_lanes_store(which + v * WV_LANES, at[v]);
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

typedef float narrow __attribute__((vector_size(2 * WV_LANES * sizeof(float))));
typedef int32_t flags __attribute__((vector_size(2 * WV_LANES * sizeof(int32_t))));
enum { NARROW = 2 * WV_LANES };

WV_TARGET static void shorten(size_t D, const double *x, const double *mu, float *out)
{
    typedef float shorter __attribute__((vector_size(WV_LANES * sizeof(float))));
    for (size_t d = 0; d < D; d++)
        for (size_t i = 0; i < WV_COLUMNS; i += WV_LANES) {
            shorter v = __builtin_convertvector(wv_lanes_load(x + d * WV_COLUMNS + i) - mu[d], shorter);
            memcpy(out + d * WV_COLUMNS + i, &v, sizeof v);
        }
}

WV_INLINE narrow either(flags mask, narrow yes, narrow no)
{
    return (narrow)((mask & (flags)yes) | (~mask & (flags)no));
}

/* The three least squared distances of a vector of columns, and which rows are at the first two. */
typedef struct {
    narrow least[3];
    flags which[2];
} trio;

WV_INLINE void insert(narrow cost, int32_t j, trio *t)
{
    flags first = cost < t->least[0], second = cost < t->least[1], third = cost < t->least[2], at = j - (flags){0};
    t->least[2] = either(second, t->least[1], either(third, cost, t->least[2]));
    t->least[1] = either(first, t->least[0], either(second, cost, t->least[1]));
    t->least[0] = either(first, cost, t->least[0]);
    t->which[1] = (first & t->which[0]) | (~first & ((second & at) | (~second & t->which[1])));
    t->which[0] = (first & at) | (~first & t->which[0]);
}

WV_INLINE void put_trio(const trio *t, int32_t *first, int32_t *second, float *third)
{
    memcpy(first, &t->which[0], sizeof t->which[0]);
    memcpy(second, &t->which[1], sizeof t->which[1]);
    memcpy(third, &t->least[2], sizeof t->least[2]);
}

WV_INLINE narrow load_narrow(const float *x)
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

WV_TARGET static void shares(size_t C, size_t n, size_t ld, const double *alpha, double *log_q, double *log_m)
{
    const wv_lanes nothing = all(-INFINITY);
    for (size_t i = 0; i < n; i += WV_LANES) {
        wv_lanes top = nothing, sum = {0};
        for (size_t c = 0; c < C; c++) {
            wv_lanes v = wv_lanes_load(log_q + c * ld + i);
            if (alpha[c] > 0)
                top = wv_lanes_select(v > top, v, top);
        }
        wv_mask some = top > nothing;
        wv_lanes base = (wv_lanes)(some & (wv_mask)top);
        for (size_t c = 0; c < C; c++) {
            wv_lanes below = base - wv_lanes_load(log_q + c * ld + i),
                     e = wv_lanes_exp_or_0(
                         wv_lanes_select(below < -600.0, all(-600.0), below)); /* NaN is not <= 708: 0 */
            wv_lanes_store(log_q + c * ld + i, e);
            sum += alpha[c] * e;
        }
        wv_lanes_store(log_m + i, wv_lanes_select(some, base + wv_lanes_log(sum), nothing));
        wv_lanes each = 1.0 / sum;
        for (size_t c = 0; c < C; c++)
            wv_lanes_store(log_q + c * ld + i, (wv_lanes)(some & (wv_mask)(wv_lanes_load(log_q + c * ld + i) * each)));
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* Coordinates are taken by whole vectors, for all rows at once, so that sums stay in registers;
 * what is left of them, one by one. */

WV_INLINE double distance_of(size_t D, const double *x, const double *m)
{
    wv_lanes sum = {0};
    double total = 0;
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        wv_lanes y = wv_lanes_load(x + d) - wv_lanes_load(m + d);
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

WV_TARGET static double row_apart(size_t D, const double *x, const double *m, const double *s)
{
    wv_lanes sum = {0};
    double total = 0;
    size_t d = 0;
    for (; d + WV_LANES <= D; d += WV_LANES) {
        wv_lanes z = (wv_lanes_load(x + d) - wv_lanes_load(m + d)) * wv_lanes_load(s + d);
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
        wv_lanes sum = {0};
        for (size_t p = 0; p < n; p++)
            sum += u[p] * wv_lanes_load(x + p * D + d);
        wv_lanes_store(out + d, sum);
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
        wv_lanes square = {0}, both = {0}, middle = wv_lanes_load(m + d), level = g ? wv_lanes_load(gm + d) : middle;
        for (size_t p = 0; p < n; p++) {
            wv_lanes y = wv_lanes_load(x + p * D + d) - middle, uy = u[p] * y;
            square += uy * y;
            if (g)
                both += uy * (wv_lanes_load(g + p * D + d) - level);
        }
        wv_lanes_store(variance + d, square);
        if (g)
            wv_lanes_store(cross + d, both);
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
        wv_lanes sum = {0};
        double total = 0;
        size_t d = 0;
        for (; d + WV_LANES <= D; d += WV_LANES) {
            wv_lanes z = (wv_lanes_load(row + d) - wv_lanes_load(m + d)) * wv_lanes_load(s + d);
            sum += z * (wv_lanes_load(a1 + d) + wv_lanes_load(a2 + d) * (0.5 * z));
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
        wv_lanes zt = {0}, tt = {0}, zr = {0}, tr = {0}, middle = wv_lanes_load(m + d), unit = wv_lanes_load(s + d),
                 level = wv_lanes_load(half + d);
        for (size_t p = 0; p < n; p++) {
            wv_lanes z = (wv_lanes_load(x + p * D + d) - middle) * unit, t = 0.5 * z * z - level, ut = u[p] * t;
            zt += ut * z;
            tt += ut * t;
            zr += u[p] * r[p] * z;
            tr += ut * r[p];
        }
        wv_lanes_store(out + d, zt);
        wv_lanes_store(out + D + d, tt);
        wv_lanes_store(out + 2 * D + d, zr);
        wv_lanes_store(out + 3 * D + d, tr);
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
            wv_lanes z = (wv_lanes_load(row + d) - wv_lanes_load(m + d)) * wv_lanes_load(s + d);
            wv_lanes_store(T + d, root * z);
            wv_lanes_store(T + D + d, root * (0.5 * z * z - wv_lanes_load(half + d)));
        }
        for (; d < D; d++) {
            double z = (row[d] - m[d]) * s[d];
            T[d] = root * z;
            T[D + d] = root * (0.5 * z * z - half[d]);
        }
    }
}

WV_TARGET static void row_times(size_t D, const double *x, const double *M, double *out)
{
    size_t at = 0;
    for (; at + ABREAST * WV_LANES <= D; at += ABREAST * WV_LANES) {
        wv_lanes s[ABREAST] = {{0}};
        for (size_t k = 0; k < D; k++)
            for (size_t i = 0; i < ABREAST; i++)
                s[i] += x[k] * wv_lanes_load(M + k * D + at + i * WV_LANES);
        for (size_t i = 0; i < ABREAST; i++)
            wv_lanes_store(out + at + i * WV_LANES, s[i]);
    }
    for (; at < D && D >= WV_LANES; at += WV_LANES) {
        size_t from = at + WV_LANES < D ? at : D - WV_LANES; /* the last vector overlaps the one before */
        wv_lanes even = {0}, odd = {0};
        size_t k = 0;
        for (; k + 1 < D; k += 2) {
            even += x[k] * wv_lanes_load(M + k * D + from);
            odd += x[k + 1] * wv_lanes_load(M + (k + 1) * D + from);
        }
        if (k < D)
            even += x[k] * wv_lanes_load(M + k * D + from);
        wv_lanes_store(out + from, even + odd);
    }
    for (; at < D; at++) {
        double s = 0;
        for (size_t k = 0; k < D; k++)
            s += x[k] * M[k * D + at];
        out[at] = s;
    }
}

WV_INLINE double product(size_t D, const double *a, const double *b)
{
    wv_lanes even = {0}, odd = {0};
    size_t i = 0;
    for (; i + WV_LANES < D; i += 2 * WV_LANES) {
        even += wv_lanes_load(a + i) * wv_lanes_load(b + i);
        odd += wv_lanes_load(a + i + WV_LANES) * wv_lanes_load(b + i + WV_LANES);
    }
    if (i < D)
        even += wv_lanes_load(a + i) * wv_lanes_load(b + i);
    return sum_of(even + odd);
}

WV_INLINE void add_times(size_t D, double w, const double *a, double *out)
{
    for (size_t i = 0; i < D; i += WV_LANES)
        wv_lanes_store(out + i, wv_lanes_load(out + i) + w * wv_lanes_load(a + i));
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
        wv_lanes_store(v + i, gamma * wv_lanes_load(v + i));
    for (size_t q = pairs; q-- > 0;)
        add_times(D, a[q] - product(D, y[q], v) / sy[q], s[q], v);
}

/* ---- products of small matrices ---- */
#if WV_LANES > 2
enum { TILE = 2 * WV_LANES }; /* columns: with as many sums as hide how long a multiplication takes */

/* out[rows][columns], columns at most TILE, from column `at` of B on; below the last row that one stands again. */
WV_INLINE void tile(const wv_product *p, size_t first, size_t rows, size_t at, size_t columns, double *out, size_t ldo)
{
    const size_t across = columns / WV_LANES;
    const double *row[WV_LANES];
    wv_lanes sum[WV_LANES][2] = {{{0}}};
    for (size_t r = 0; r < WV_LANES; r++)
        row[r] = p->a + (first + (r < rows ? r : rows - 1)) * p->a_row;
    for (size_t k = 0; k < p->k; k++) {
        wv_lanes b[2];
        for (size_t v = 0; v < across; v++)
            b[v] = wv_lanes_load(p->b + k * p->ldb + at + v * WV_LANES);
        for (size_t r = 0; r < WV_LANES; r++)
            for (size_t v = 0; v < across; v++)
                sum[r][v] += row[r][k * p->a_step] * b[v];
    }
    for (size_t r = 0; r < WV_LANES && r < rows; r++)
        for (size_t v = 0; v < across; v++) {
            double *to = out + r * ldo + v * WV_LANES;
            wv_lanes_store(to, p->add ? wv_lanes_load(to) + sum[r][v] : sum[r][v]);
        }
}

/* The last tile of a row, which overlaps the one before, is made aside. */
WV_TARGET static void multiply(const wv_product *p)
{
    size_t last = p->n - WV_COLUMNS_WIDTH;
    double aside[WV_LANES * WV_COLUMNS_WIDTH];
    for (size_t i = 0; i < p->m; i += WV_LANES) {
        size_t rows = p->m - i < WV_LANES ? p->m - i : WV_LANES, j = 0;
        double *out = p->out + i * p->ldo;
        for (; j + TILE <= p->n; j += TILE)
            tile(p, i, rows, j, TILE, out + j, p->ldo);
        for (; j + WV_COLUMNS_WIDTH <= p->n; j += WV_COLUMNS_WIDTH)
            tile(p, i, rows, j, WV_COLUMNS_WIDTH, out + j, p->ldo);
        if (j == p->n)
            continue;
        for (size_t r = 0; r < rows; r++)
            memcpy(aside + r * WV_COLUMNS_WIDTH, out + r * p->ldo + last, WV_COLUMNS_WIDTH * sizeof *out);
        tile(p, i, rows, last, WV_COLUMNS_WIDTH, aside, WV_COLUMNS_WIDTH);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = j; c < p->n; c++)
                out[r * p->ldo + c] = aside[r * WV_COLUMNS_WIDTH + (c - last)];
    }
}
#else
#define multiply NULL
#endif

const wv_columns WV_SET = {turn,          subtract,     squares,        scale,        centre,    mean,      add_logs,
                           exponentials,  tails,        apart,          nearest,      highest,   shorten,   nearby,
                           shares,        row_times,    row_secants,    row_distance, row_apart, row_means, row_slopes,
                           row_quadratic, row_products, row_statistics, multiply};
