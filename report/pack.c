/* pack.c - base64 of numbers in few bytes. */
#include "pack.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const double HALF_PI = 1.5707963267948966;
enum { LEVELS = 65534, NO_LEVEL = 65535 };

/* n items of `size` bytes that `put` writes, as a JSON string; NULL without memory. */
static json_t *encode(size_t n, size_t size, void (*put)(const void *self, size_t i, unsigned char *out),
                      const void *self)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = n * size, room = (bytes + 2) / 3 * 4;
    unsigned char *raw = calloc(bytes + 3, 1);
    char *text = malloc(room + 1);
    json_t *json = NULL;
    if (raw && text) {
        for (size_t i = 0; i < n; i++)
            put(self, i, raw + i * size);
        for (size_t i = 0, k = 0; i < bytes; i += 3, k += 4) {
            uint32_t three = (uint32_t)raw[i] << 16 | (uint32_t)raw[i + 1] << 8 | raw[i + 2];
            for (size_t d = 0; d < 4; d++)
                text[k + d] = digit[three >> (18 - 6 * d) & 63];
        }
        if (bytes % 3)
            memset(text + room - (3 - bytes % 3), '=', 3 - bytes % 3);
        json = json_stringn(text, room);
    }
    free(raw);
    free(text);
    return json;
}

static void put_16(unsigned char *out, unsigned value)
{
    out[0] = (unsigned char)(value & 255);
    out[1] = (unsigned char)(value >> 8);
}

static void put_float(const void *self, size_t i, unsigned char *out)
{
    float value = (float)((const double *)self)[i];
    uint32_t bits;
    if (!isfinite(value))
        value = NAN;
    memcpy(&bits, &value, sizeof bits);
    put_16(out, bits & 65535);
    put_16(out + 2, bits >> 16);
}

json_t *pack_floats(size_t n, const double *x)
{
    return encode(n, 4, put_float, x);
}

typedef struct {
    const double *x;
    size_t rows, stride;
    const double *lo, *hi; /* of each column */
} level_source;

/* Item i is row i % rows of column i / rows. */
static void put_level(const void *self, size_t i, unsigned char *out)
{
    const level_source *s = self;
    size_t c = i / s->rows;
    double x = s->x[i % s->rows * s->stride + c], u = s->hi[c] > s->lo[c] ? (x - s->lo[c]) / (s->hi[c] - s->lo[c]) : 0;
    put_16(out, isfinite(x) && u >= 0 && u <= 1 ? (unsigned)lrint(u * LEVELS) : NO_LEVEL);
}

json_t *pack_levels(size_t n, const double *x, size_t stride, double lo, double hi)
{
    level_source s = {x, n ? n : 1, stride, &lo, &hi};
    return encode(n, 2, put_level, &s);
}

static void find_range(size_t rows, size_t columns, const double *x, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (size_t k = 0; k < rows; k++)
        if (isfinite(x[k * columns])) {
            *lo = fmin(*lo, x[k * columns]);
            *hi = fmax(*hi, x[k * columns]);
        }
    if (*lo > *hi)
        *lo = *hi = 0;
}

json_t *pack_table(size_t rows, size_t columns, const double *x)
{
    json_t *o = json_object(), *low = json_array(), *high = json_array();
    double *lo = calloc(2 * columns + 1, sizeof *lo), *hi = lo + columns;
    for (size_t c = 0; lo && c < columns; c++) {
        find_range(rows, columns, x + c, &lo[c], &hi[c]);
        json_array_append_new(low, json_real(lo[c]));
        json_array_append_new(high, json_real(hi[c]));
    }
    level_source s = {x, rows ? rows : 1, columns, lo, hi};
    json_object_set_new(o, "lo", low);
    json_object_set_new(o, "hi", high);
    json_t *levels = lo ? encode(rows * columns, 2, put_level, &s) : NULL;
    free(lo);
    if (!levels || json_object_set_new(o, "levels", levels)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void put_count(const void *self, size_t i, unsigned char *out)
{
    size_t x = ((const size_t *)self)[i];
    put_16(out, x < 65535 ? (unsigned)x : 65535);
}

json_t *pack_counts(size_t n, const size_t *x)
{
    return encode(n, 2, put_count, x);
}

static void put_correlation(const void *self, size_t i, unsigned char *out)
{
    double r = ((const double *)self)[i];
    long q = isfinite(r) ? lrint(asin(fmax(-1, fmin(1, r))) / HALF_PI * 127) : -128;
    *out = (unsigned char)(q & 255);
}

json_t *pack_correlations(size_t n, const double *r)
{
    return encode(n, 1, put_correlation, r);
}
