/* int_scores.c - products of whole numbers with AVX-512's VNNI. */
#include "simd/int_scores.h"
#include "simd/instructions.h"
#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { LANES = 16, ABREAST = 4 }; /* particles that are multiplied at once */

typedef __m512i ints;

INLINE ints load(const int32_t *x)
{
    return _mm512_loadu_si512(x);
}

INLINE ints all(int32_t x)
{
    return _mm512_set1_epi32(x);
}

/* sum + the products of the parts of each word */
INLINE ints multiply(bool bytes, ints sum, ints x, ints z)
{
    return bytes ? _mm512_dpbusd_epi32(sum, x, z) : _mm512_dpwssd_epi32(sum, x, z);
}

TARGET static float narrow(bool mirrored, size_t n, size_t D, const double *rows, const double *middle, float *e)
{
    enum { WIDE = 8 };
    size_t ld = (D + LANES - 1) / LANES * LANES;
    __m256 most = _mm256_setzero_ps(), wrong = most;
    for (size_t k = 0; k < n; k++, e += ld) {
        const double *row = rows + (mirrored ? 2 * k : k) * D, *other = mirrored ? row + D : middle;
        for (size_t i = 0; i < ld; i += WIDE) {
            __mmask8 there = (__mmask8)(i + WIDE <= D ? 0xffU : i < D ? (1U << (D - i)) - 1 : 0U);
            __m512d apart = _mm512_sub_pd(_mm512_maskz_loadu_pd(there, row + i),
                                          _mm512_maskz_loadu_pd(there, other + i));
            __m256 v = _mm512_cvtpd_ps(_mm512_mul_pd(apart, _mm512_set1_pd(mirrored ? 0.5 : 1)));
            _mm256_storeu_ps(e + i, v);
            wrong = _mm256_or_ps(wrong, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
            most = _mm256_max_ps(most, _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v));
        }
    }
    return _mm256_movemask_ps(wrong) ? (float)NAN : _mm512_reduce_max_ps(_mm512_zextps256_ps512(most));
}

TARGET static void round_rows(const wv_int_scores_words *w, size_t n, size_t ld, const float *e, float scale, int lift,
                              size_t stride, int32_t *out, float *size, float *rest, int32_t *sum)
{
    size_t per = w->bytes ? 4 : 2;
    for (size_t k = 0; k < n; k++) {
        __m512 squares = _mm512_setzero_ps(), left = squares;
        ints total = _mm512_setzero_si512();
        for (size_t i = 0; i < ld; i += LANES) {
            __m512 v = _mm512_mul_ps(_mm512_loadu_ps(e + k * ld + i), _mm512_set1_ps(scale));
            ints whole = _mm512_cvtps_epi32(v);
            __m512 r = _mm512_sub_ps(v, _mm512_cvtepi32_ps(whole));
            int32_t parts[LANES / 2], *to = out + i / per * stride + k;
            size_t here = w->words - i / per < LANES / per ? w->words - i / per : LANES / per;
            squares = _mm512_fmadd_ps(v, v, squares);
            left = _mm512_fmadd_ps(r, r, left);
            total = _mm512_add_epi32(total, whole);
            if (w->bytes)
                _mm_storeu_si128((__m128i *)(void *)parts, _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, all(lift))));
            else
                _mm256_storeu_si256((__m256i *)(void *)parts, _mm512_cvtepi32_epi16(whole));
            for (size_t a = 0; a < here; a++)
                to[a * stride] = parts[a];
        }
        size[k] = _mm512_reduce_add_ps(squares);
        rest[k] = _mm512_reduce_add_ps(left);
        sum[k] = _mm512_reduce_add_epi32(total);
    }
}

TARGET static void level(const wv_int_scores_words *w, float scale)
{
    for (size_t j = 0; j < w->groups * WV_INT_SCORES_GROUP; j += LANES) {
        ints whole =
                 _mm512_cvtps_epi32(_mm512_min_ps(_mm512_mul_ps(_mm512_loadu_ps(w->square + j), _mm512_set1_ps(scale)),
                                                  _mm512_set1_ps(0x1p30F))),
             base = load(w->base + j);
        _mm512_storeu_si512(w->plus + j, _mm512_add_epi32(whole, base));
        _mm512_storeu_si512(w->minus + j, _mm512_sub_epi32(whole, base));
    }
}

/* The two lowest of what has been seen. */
typedef struct {
    ints first, second;
} pair;

INLINE void rank(ints low, pair *p)
{
    p->second = _mm512_min_epi32(p->second, _mm512_max_epi32(p->first, low));
    p->first = _mm512_min_epi32(p->first, low);
}

INLINE void sweep_as(bool bytes, bool mirrored, const wv_int_scores_words *w, bool second, int32_t *out)
{
    const ints most = all(INT32_MAX);
    for (size_t c = 0; c < WV_COLUMNS; c += 2 * LANES) {
        pair lowest[4] = {{most, most}, {most, most}, {most, most}, {most, most}};
        for (size_t g = 0; g < w->groups; g++) {
            ints low[4] = {most, most, most, most};
            for (size_t k = 0; k < WV_INT_SCORES_GROUP; k += ABREAST) {
                const int32_t *z = w->z + g * w->words * WV_INT_SCORES_GROUP + k,
                              *plus = w->plus + g * WV_INT_SCORES_GROUP + k,
                              *minus = w->minus + g * WV_INT_SCORES_GROUP + k;
                ints a[ABREAST], b[ABREAST];
                for (size_t q = 0; q < ABREAST; q++)
                    a[q] = b[q] = _mm512_setzero_si512();
                for (size_t i = 0; i < w->words; i++) {
                    ints v = load(w->x + i * WV_COLUMNS + c), u = load(w->x + i * WV_COLUMNS + c + LANES);
                    for (size_t q = 0; q < ABREAST; q++) {
                        ints one = all(z[i * WV_INT_SCORES_GROUP + q]);
                        a[q] = multiply(bytes, a[q], v, one);
                        b[q] = multiply(bytes, b[q], u, one);
                    }
                }
                for (size_t q = 0; q < ABREAST; q++) {
                    low[0] = _mm512_min_epi32(low[0], _mm512_sub_epi32(all(plus[q]), a[q]));
                    low[1] = _mm512_min_epi32(low[1], _mm512_sub_epi32(all(plus[q]), b[q]));
                    if (mirrored) {
                        low[2] = _mm512_min_epi32(low[2], _mm512_add_epi32(all(minus[q]), a[q]));
                        low[3] = _mm512_min_epi32(low[3], _mm512_add_epi32(all(minus[q]), b[q]));
                    }
                }
            }
            for (size_t v = 0; v < (mirrored ? 4 : 2); v++) {
                _mm512_storeu_si512(w->low + g * WV_INT_SCORES_IMAGES + v / 2 * WV_COLUMNS + c + v % 2 * LANES, low[v]);
                rank(low[v], &lowest[v]);
            }
        }
        for (size_t v = 0; v < (mirrored ? 4 : 2); v++)
            _mm512_storeu_si512(out + v / 2 * WV_COLUMNS + c + v % 2 * LANES,
                                second ? lowest[v].second : lowest[v].first);
    }
}

TARGET static void sweep(const wv_int_scores_words *w, bool second, int32_t *out)
{
    if (w->bytes && w->mirrored)
        sweep_as(true, true, w, second, out);
    else if (w->bytes)
        sweep_as(true, false, w, second, out);
    else if (w->mirrored)
        sweep_as(false, true, w, second, out);
    else
        sweep_as(false, false, w, second, out);
}

/* Which particles of a group have scores for an image that are not above the limit: bits. */
INLINE __mmask16 examine(bool bytes, const wv_int_scores_words *w, size_t g, size_t image, int32_t limit)
{
    const int32_t *x = w->x + image % WV_COLUMNS, *z = w->z + g * w->words * WV_INT_SCORES_GROUP;
    ints even = _mm512_setzero_si512(), odd = even;
    size_t i = 0;
    for (; i + 1 < w->words; i += 2) {
        even = multiply(bytes, even, all(x[i * WV_COLUMNS]), load(z + i * WV_INT_SCORES_GROUP));
        odd = multiply(bytes, odd, all(x[(i + 1) * WV_COLUMNS]), load(z + (i + 1) * WV_INT_SCORES_GROUP));
    }
    if (i < w->words)
        even = multiply(bytes, even, all(x[i * WV_COLUMNS]), load(z + i * WV_INT_SCORES_GROUP));
    ints sign = all(image < WV_COLUMNS ? -1 : 0), product = _mm512_add_epi32(even, odd); /* -p = ~p + 1 */
    ints score = _mm512_sub_epi32(_mm512_xor_si512(product, sign), sign);
    return _mm512_cmple_epi32_mask(
        _mm512_add_epi32(load((image < WV_COLUMNS ? w->plus : w->minus) + g * WV_INT_SCORES_GROUP), score), all(limit));
}

/* First images with groups, then, of these, rows with particles. Which of the lanes go on the lists is not
 * foreseeable, so nothing depends on it but how far these have grown. */
INLINE size_t pick_as(bool bytes, const wv_int_scores_words *w, const int32_t *limit, size_t room,
                      const wv_int_scores_list *list)
{
    const ints lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t n = 0, hits = 0, images = w->mirrored ? WV_INT_SCORES_IMAGES : WV_COLUMNS;
    for (size_t g = 0; g < w->groups; g++)
        for (size_t v = 0; v < images; v += LANES) {
            __mmask16 low = _mm512_cmple_epi32_mask(load(w->low + g * WV_INT_SCORES_IMAGES + v), load(limit + v));
            _mm512_storeu_si512(list->hit + hits,
                                _mm512_maskz_compress_epi32(
                                    low, _mm512_add_epi32(lanes, all((int32_t)(g * WV_INT_SCORES_IMAGES + v)))));
            hits += (size_t)__builtin_popcount(low);
            if (hits >= room)
                return room;
        }
    for (size_t k = 0; k < hits; k++) {
        uint32_t g = list->hit[k] / WV_INT_SCORES_IMAGES, image = list->hit[k] % WV_INT_SCORES_IMAGES,
                 row = w->mirrored ? 2 * (image % WV_COLUMNS) + image / WV_COLUMNS : image;
        __mmask16 near = examine(bytes, w, g, image, limit[image]);
        _mm512_storeu_si512(list->row + n, all((int32_t)row));
        _mm512_storeu_si512(
            list->particle + n,
            _mm512_maskz_compress_epi32(near, _mm512_add_epi32(lanes, all((int32_t)(g * WV_INT_SCORES_GROUP)))));
        n += (size_t)__builtin_popcount(near);
        if (n >= room)
            return room;
    }
    return n;
}

TARGET static size_t pick(const wv_int_scores_words *w, const int32_t *limit, size_t room,
                          const wv_int_scores_list *list)
{
    return w->bytes ? pick_as(true, w, limit, room, list) : pick_as(false, w, limit, room, list);
}

const wv_int_scores *wv_int_scores_best(void)
{
    static const wv_int_scores vnni = {narrow, round_rows, level, sweep, pick};
    return wv_instructions_best() >= WV_AVX512_VNNI ? &vnni : NULL;
}
#else
const wv_int_scores *wv_int_scores_best(void)
{
    return NULL;
}
#endif
