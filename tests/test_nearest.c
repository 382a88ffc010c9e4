/* test_nearest.c - the nearest of many particles against comparing all of them: candidates in single precision, scores
 * of whole numbers, cells and costs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "simd/columns.h"
#include "simd/instructions.h"
#include "simd/int_scores.h"
#include "support/test_random.h"

enum { MOST = 50 };

/* Runs check with every instruction set that is there. */
static void with_each(void (*check)(const wv_columns *))
{
    check(&wv_columns_any);
    check(wv_columns_best());
#ifdef __x86_64__
    if (wv_instructions_best() >= WV_AVX2)
        check(&wv_columns_avx2);
#endif
}

enum { NARROW_D = 7, NARROW_N = 30 };

/* Mirror images have the candidates that they would have by themselves. */
static void check_images(const wv_columns *pass, size_t n, const float *x, const float *z)
{
    static float all[NARROW_D * WV_COLUMNS];
    int32_t first[2 * WV_COLUMNS], second[2 * WV_COLUMNS], one[WV_COLUMNS], two[WV_COLUMNS];
    float third[2 * WV_COLUMNS], three[WV_COLUMNS], square[NARROW_N];
    for (size_t j = 0; j < n; j++) {
        square[j] = 0;
        for (size_t d = 0; d < NARROW_D; d++)
            square[j] += z[j * NARROW_D + d] * z[j * NARROW_D + d];
    }
    pass->nearby_mirrored(NARROW_D, n + 20, n, x, z, square, first, second, third);
    for (int image = 0; image < 2; image++) {
        for (size_t i = 0; i < NARROW_D * WV_COLUMNS; i++)
            all[i] = image ? -x[i] : x[i];
        pass->nearby(NARROW_D, n + 20, n, all, z, one, two, three);
        for (size_t i = 0; i < n + 20; i++) {
            size_t at = i + (image ? WV_COLUMNS : 0);
            float own = 0;
            for (size_t d = 0; d < NARROW_D; d++)
                own += x[d * WV_COLUMNS + i] * x[d * WV_COLUMNS + i];
            assert_true((first[at] == one[i] && second[at] == two[i]) || (first[at] == two[i] && second[at] == one[i]));
            assert_true(fabsf(third[at] + own - three[i]) <= 1e-4F);
        }
    }
}

/* Two candidates and the third distance, in single precision, for any number of rows and columns. */
static void check_nearby(const wv_columns *pass)
{
    enum { D = NARROW_D, N = NARROW_N };
    static float x[D * WV_COLUMNS], z[N * D];
    static double wide[D * WV_COLUMNS];
    double mu[D];
    int32_t first[WV_COLUMNS], second[WV_COLUMNS];
    float third[WV_COLUMNS];
    test_random r = test_random_seed(5);
    for (size_t d = 0; d < D; d++)
        mu[d] = 1e6 * test_random_normal(&r);
    for (size_t i = 0; i < D * WV_COLUMNS; i++)
        wide[i] = mu[i / WV_COLUMNS] + test_random_normal(&r);
    for (size_t i = 0; i < N * D; i++)
        z[i] = (float)test_random_normal(&r);
    pass->shorten(D, wide, mu, x);
    for (size_t i = 0; i < D * WV_COLUMNS; i++)
        assert_true(fabs(x[i] - (wide[i] - mu[i / WV_COLUMNS])) <= FLT_EPSILON * fabs((double)x[i]));
    for (size_t n = 4; n <= N; n++) {
        pass->nearby(D, n + 20, n, x, z, first, second, third);
        for (size_t i = 0; i < n + 20; i++) {
            double least[3] = {INFINITY, INFINITY, INFINITY};
            size_t at[3] = {0};
            for (size_t j = 0; j < n; j++) {
                double cost = 0;
                for (size_t d = 0; d < D; d++)
                    cost += pow((double)x[d * WV_COLUMNS + i] - (double)z[j * D + d], 2);
                for (size_t k = 0; k < 3; k++)
                    if (cost < least[k]) {
                        memmove(least + k + 1, least + k, (2 - k) * sizeof *least);
                        memmove(at + k + 1, at + k, (2 - k) * sizeof *at);
                        least[k] = cost;
                        at[k] = j;
                        break;
                    }
            }
            assert_true(((size_t)first[i] == at[0] && (size_t)second[i] == at[1]) || least[1] - least[0] < 1e-5);
            assert_true(fabs(third[i] - least[2]) <= 1e-5 * least[2]);
        }
        check_images(pass, n, x, z);
    }
}

static void candidates(void **state)
{
    (void)state;
    with_each(check_nearby);
}

/* Parts of word i of row k, as numbers. */
static int32_t part(const wv_int_scores_words *w, const int32_t *words, size_t stride, size_t i, size_t k, bool sign)
{
    uint32_t word = (uint32_t)words[(w->bytes ? i / 4 : i / 2) * stride + k];
    if (!w->bytes)
        return (int16_t)(word >> i % 2 * 16);
    return sign ? (int8_t)(word >> i % 4 * 8) : (int32_t)(word >> i % 4 * 8 & 0xff) - 128;
}

/* Scores of whole numbers, the lowest in each group, the lowest and second lowest of these, and
 * who is listed, against one by one. */
static void check_whole(const wv_int_scores *pass, bool bytes, bool mirrored, size_t D)
{
    enum { N = 75, GROUPS = 5, ROOM = 10000, LD = 48 };
    static int32_t z[GROUPS * WV_INT_SCORES_GROUP * LD], x[WV_COLUMNS * LD], base[GROUPS * WV_INT_SCORES_GROUP],
        plus[GROUPS * WV_INT_SCORES_GROUP], minus[GROUPS * WV_INT_SCORES_GROUP], low[GROUPS * WV_INT_SCORES_IMAGES];
    static float e[WV_COLUMNS * LD], square[GROUPS * WV_INT_SCORES_GROUP];
    static double wide[2 * WV_COLUMNS * LD], middle[LD];
    static uint32_t row[ROOM + WV_INT_SCORES_GROUP], particle[ROOM + WV_INT_SCORES_GROUP],
        hit[ROOM + WV_INT_SCORES_GROUP];
    static int32_t score[WV_INT_SCORES_IMAGES][N];
    wv_int_scores_words w = {.bytes = bytes,
                             .mirrored = mirrored,
                             .words = (D + (bytes ? 3 : 1)) / (bytes ? 4 : 2),
                             .groups = GROUPS,
                             .z = z,
                             .base = base,
                             .x = x,
                             .square = square,
                             .plus = plus,
                             .minus = minus,
                             .low = low};
    wv_int_scores_list list = {row, particle, hit};
    int32_t first[WV_INT_SCORES_IMAGES], second[WV_INT_SCORES_IMAGES], limit[WV_INT_SCORES_IMAGES], sum[WV_COLUMNS];
    float size[WV_COLUMNS], rest[WV_COLUMNS], largest = bytes ? 127 : 3000;
    size_t ld = (D + 15) / 16 * 16, images = mirrored ? WV_INT_SCORES_IMAGES : WV_COLUMNS, expected = 0;
    test_random r = test_random_seed(D + 2 * bytes + mirrored);
    memset(z, 0, sizeof z);
    memset(base, 0, sizeof base);
    for (size_t d = 0; d < D; d++)
        middle[d] = test_random_normal(&r);
    for (size_t j = 0; j < N; j += WV_INT_SCORES_GROUP) {
        size_t here = N - j < WV_INT_SCORES_GROUP ? N - j : WV_INT_SCORES_GROUP;
        for (size_t i = 0; i < here * D; i++)
            wide[i] = middle[i % D] + test_random_uniform(&r) - 0.5;
        assert_true(pass->narrow(false, here, D, wide, middle, e) <= 0.51F);
        pass->round(&w, here, ld, e, largest, 0, WV_INT_SCORES_GROUP, z + j * w.words, size, rest, sum);
        for (size_t k = 0; k < here; k++) {
            int32_t total = 0;
            for (size_t d = 0; d < D; d++) {
                total += part(&w, z + j * w.words, WV_INT_SCORES_GROUP, d, k, true);
                assert_true(fabs(part(&w, z + j * w.words, WV_INT_SCORES_GROUP, d, k, true) -
                                 (wide[k * D + d] - middle[d]) * (double)largest) <= 0.501);
            }
            assert_int_equal(total, sum[k]);
            base[j + k] = bytes ? 128 * total : 0;
        }
    }
    for (size_t j = 0; j < GROUPS * WV_INT_SCORES_GROUP; j++)
        square[j] = j < N ? (float)(100 * test_random_uniform(&r) - 20) : (float)INFINITY;
    for (size_t i = 0; i < images * D; i++)
        wide[i] = middle[i % D] + test_random_uniform(&r) - 0.5;
    float most = pass->narrow(mirrored, WV_COLUMNS, D, wide, middle, e), seen = 0;
    pass->round(&w, WV_COLUMNS, ld, e, largest / most, 128, WV_COLUMNS, x, size, rest, sum);
    for (size_t k = 0; k < WV_COLUMNS; k++) {
        double squares = 0, left = 0;
        for (size_t d = 0; d < D; d++) {
            double v = (mirrored ? (wide[2 * k * D + d] - wide[(2 * k + 1) * D + d]) / 2 : wide[k * D + d] - middle[d]),
                   whole = part(&w, x, WV_COLUMNS, d, k, false);
            seen = fmaxf(seen, (float)fabs(v));
            v *= (double)(largest / most);
            squares += v * v;
            left += (v - whole) * (v - whole);
            assert_true(fabs(v - whole) <= 0.501);
        }
        assert_true(fabs((double)size[k] - squares) <= 1e-5 * squares &&
                    fabs((double)rest[k] - left) <= 1e-2 * (left + 1e-2));
    }
    assert_true(seen == most);
    pass->level(&w, 7.0F);
    for (size_t i = 0; i < images; i++)
        for (size_t j = 0; j < N; j++) {
            int32_t product = 0;
            for (size_t d = 0; d < D; d++)
                product += part(&w, x, WV_COLUMNS, d, i % WV_COLUMNS, false) *
                           part(&w, z + j / WV_INT_SCORES_GROUP * WV_INT_SCORES_GROUP * w.words, WV_INT_SCORES_GROUP, d,
                                j % WV_INT_SCORES_GROUP, true);
            score[i][j] = (int32_t)lrintf(7.0F * square[j]) + (i < WV_COLUMNS ? -product : product);
        }
    pass->sweep(&w, false, first);
    pass->sweep(&w, true, second);
    for (size_t i = 0; i < WV_INT_SCORES_IMAGES; i++)
        limit[i] = i < images ? second[i] + (int32_t)(i * 30) : INT32_MIN;
    for (size_t i = 0; i < images; i++) {
        int32_t lowest[GROUPS];
        for (size_t g = 0; g < GROUPS; g++) {
            lowest[g] = INT32_MAX;
            for (size_t j = g * WV_INT_SCORES_GROUP; j < N && j < (g + 1) * WV_INT_SCORES_GROUP; j++) {
                lowest[g] = score[i][j] < lowest[g] ? score[i][j] : lowest[g];
                expected += score[i][j] <= limit[i];
            }
            assert_int_equal(low[g * WV_INT_SCORES_IMAGES + i], lowest[g]);
        }
        size_t below = 0, not_above = 0;
        for (size_t g = 0; g < GROUPS; g++) {
            assert_true(first[i] <= lowest[g]);
            below += lowest[g] < second[i];
            not_above += lowest[g] <= second[i];
        }
        assert_true(below <= 1 && not_above >= 2);
    }
    assert_int_equal(pass->pick(&w, limit, ROOM, &list), expected);
    assert_true(expected >= 2 * images);
    uint32_t last[WV_INT_SCORES_IMAGES] = {0};
    for (size_t k = 0; k < expected; k++) {
        size_t image = mirrored ? row[k] / 2 + (row[k] % 2 ? WV_COLUMNS : 0) : row[k];
        assert_true(score[image][particle[k]] <= limit[image] && particle[k] + 1 > last[image]);
        last[image] = particle[k] + 1;
    }
    assert_int_equal(pass->pick(&w, limit, expected, &list), expected); /* no room */
    wide[D] = NAN;
    assert_true(isnan(pass->narrow(mirrored, WV_COLUMNS, D, wide, middle, e)));
}

static void whole_numbers(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 2, 7, 8, 15, 16, 17, 33, 47};
    if (!wv_int_scores_best())
        skip();
    for (size_t k = 0; k < 4 * 9; k++)
        check_whole(wv_int_scores_best(), k % 2, k / 2 % 2, dims[k / 4]);
}

/* Cells and costs are those that comparing all particles gives. next: NULL if it is not known */
static void check_cells(const wv_geometry *g, size_t n, const double *x, const uint32_t *cell, const double *near,
                        const double *next)
{
    size_t D = g->D;
    for (size_t i = 0; i < n; i++) {
        double least = INFINITY, second = INFINITY;
        size_t at = 0;
        for (size_t j = 0; j < g->N; j++) {
            double cost = 0;
            for (size_t d = 0; d < D; d++)
                cost += (x[i * D + d] - g->z[j * D + d]) * (x[i * D + d] - g->z[j * D + d]);
            if (cost < least) {
                second = least;
                least = cost;
                at = j;
            } else if (cost < second)
                second = cost;
        }
        assert_true(cell[i] == at || second <= least * (1 + 1e-14));
        assert_true(fabs(near[i] - least) <= 1e-13 * least && (!next || fabs(next[i] - second) <= 1e-13 * second));
    }
}

/* Whatever the scale and wherever the origin: also where single precision cannot tell, with particles that lie upon
 * each other, and for pairs of mirror images. */
static void nearest_particles(void **state)
{
    (void)state;
    enum { n = 300 };
    static const size_t dims[] = {1, 2, 8, 9, 17, MOST}, numbers[] = {41, 167};
    static const double scales[] = {1, 1e-3, 1e-25, 1e25, 1e150}, origins[] = {0, 1, 1e9};
    test_random r = test_random_seed(8);
    wv_arena *arena = wv_arena_new(200000);
    assert_non_null(arena);
    for (size_t k = 0; k < 6 * 5 * 3 * 2; k++) {
        size_t D = dims[k % 6], N = numbers[k / 90];
        double scale = scales[k / 6 % 5], origin = origins[k / 30 % 3] * scale;
        double *x = malloc(n * D * sizeof *x), *z = malloc(N * D * sizeof *z), middle[MOST], near[n], next[n];
        uint32_t cell[n];
        wv_geometry g = {.cost.kind = WVGD_SQEUCLID, .N = N, .D = D, .z = z};
        wv_nearest_batch batch;
        assert_true(x && z && wv_nearest_batch_new(&batch, N, D));
        for (int twins = 0; twins < 2; twins++) {
            for (size_t i = 0; i < N * D; i++)
                z[i] = origin + scale * test_random_normal(&r);
            for (size_t i = 0; i < n * D; i++)
                x[i] = origin + scale * test_random_normal(&r);
            if (twins) {
                memcpy(z + 30 * D, z + 7 * D, D * sizeof *x); /* with a point upon them, */
                memcpy(x + 11 * D, z + 7 * D, D * sizeof *x);
                for (size_t d = 0; d < D; d++) { /* and triplets that are nearly the same */
                    z[20 * D + d] = z[21 * D + d] * (1 + 1e-9);
                    z[22 * D + d] = z[21 * D + d] * (1 - 1e-9);
                }
            }
            wv_nearest_assign(&g, n, x, cell, near, next, arena);
            check_cells(&g, n, x, cell, near, next);
            if (twins)
                assert_int_equal(cell[11], 7);
            for (size_t d = 0; d < D; d++)
                middle[d] = origin + scale * test_random_normal(&r);
            for (size_t i = 0; i < n * D; i++) {
                double e = scale * test_random_normal(&r);
                if (i / D % 2 == 0) {
                    x[i] = middle[i % D] + e;
                    x[i + D] = middle[i % D] - e;
                }
            }
            wv_nearest_prepare(&batch, &g, arena);
            for (int second = 0; second < 2; second++) {
                size_t mark = wv_arena_mark(arena);
                wv_nearest_sieve s;
                assert_true(wv_nearest_mirrored(&batch, &g, middle, &s, arena));
                for (size_t i = 0; i < n; i += 2 * WV_COLUMNS)
                    wv_nearest_assign_mirrored(&s, n - i < 2 * WV_COLUMNS ? n - i : 2 * WV_COLUMNS, x + i * D, cell + i,
                                               near + i, next + i, second, arena);
                wv_arena_release(arena, mark);
                check_cells(&g, n, x, cell, near, second ? next : NULL);
            }
        }
        free(x);
        free(z);
        wv_nearest_batch_free(&batch);
    }
    wv_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(nearest_particles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
