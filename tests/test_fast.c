/* test_fast.c - what is done fast against the plain way: passes over rows, the nearest of many particles, steps of
 * diagonal components, draws in pairs and in columns. */
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
#include "gaussian.h"
#include "dense.h"
#include "fit.h"
#include "simd/instructions.h"
#include "rng.h"
#include "support/near.h"
#include "support/test_random.h"
#include "update/update.h"
#include "wvgd.h"

enum { MOST = 50, POINTS = 70 };

static double between(test_random *r, double lo, double hi)
{
    return lo + (hi - lo) * test_random_uniform(r);
}

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

/* ---- passes over rows -------------------------------------------------------------------------------------------- */
typedef struct {
    double x[POINTS * MOST], g[POINTS * MOST], u[POINTS], r[POINTS], m[MOST], gm[MOST], s[MOST], a1[MOST], a2[MOST],
        half[MOST];
} rows;

static rows random_rows(size_t D, uint64_t seed)
{
    test_random r = test_random_seed(seed);
    rows k;
    for (size_t i = 0; i < POINTS * D; i++) {
        k.x[i] = test_random_normal(&r);
        k.g[i] = test_random_normal(&r);
    }
    for (size_t p = 0; p < POINTS; p++) {
        k.u[p] = test_random_uniform(&r);
        k.r[p] = test_random_normal(&r);
    }
    for (size_t d = 0; d < D; d++) {
        k.m[d] = test_random_normal(&r);
        k.gm[d] = test_random_normal(&r);
        k.s[d] = between(&r, 0.5, 2.0);
        k.a1[d] = test_random_normal(&r);
        k.a2[d] = test_random_normal(&r);
        k.half[d] = between(&r, 0.3, 0.7);
    }
    return k;
}

static void same(double got, long double wanted, long double size)
{
    assert_true(fabsl(got - wanted) <= 1e-14L * (1 + size));
}

static void check_rows(const wv_columns *pass)
{
    for (size_t D = 1; D <= MOST; D += D < 20 ? 1 : 15)
        for (size_t n = 1; n <= POINTS; n += 23) {
            rows k = random_rows(D, 100 * D + n);
            double mean[MOST], variance[MOST], alone[MOST], cross[MOST], left[POINTS], products[4 * MOST];
            static double T[POINTS * 2 * MOST];
            memcpy(left, k.r, sizeof left);
            pass->row_means(n, D, k.u, k.x, mean);
            pass->row_slopes(n, D, k.u, k.x, k.m, k.g, k.gm, variance, cross);
            pass->row_slopes(n, D, k.u, k.x, k.m, NULL, NULL, alone, NULL);
            pass->row_quadratic(n, D, k.x, k.m, k.s, k.a1, k.a2, left);
            pass->row_products(n, D, k.u, k.r, k.x, k.m, k.s, k.half, products);
            pass->row_statistics(n, D, k.u, k.x, k.m, k.s, k.half, T);
            for (size_t d = 0; d < D; d++) {
                long double sum[7] = {0};
                for (size_t p = 0; p < n; p++) {
                    long double u = k.u[p], x = k.x[p * D + d], y = x - k.m[d], z = y * k.s[d],
                                t = z * z / 2 - k.half[d];
                    long double term[7] = {u * x,         u * y * y, u * y * (k.g[p * D + d] - (long double)k.gm[d]),
                                           u * z * t,     u * t * t, u * z * k.r[p],
                                           u * t * k.r[p]};
                    for (size_t i = 0; i < 7; i++)
                        sum[i] += term[i];
                    same(T[p * 2 * D + d], sqrtl(u) * z, 10);
                    same(T[p * 2 * D + D + d], sqrtl(u) * t, 30);
                }
                same(mean[d], sum[0], POINTS);
                same(variance[d], sum[1], 10 * POINTS);
                same(alone[d], sum[1], 10 * POINTS);
                same(cross[d], sum[2], 10 * POINTS);
                for (size_t i = 0; i < 4; i++)
                    same(products[i * D + d], sum[3 + i], 100 * POINTS);
            }
            for (size_t p = 0; p < n; p++) {
                long double r = k.r[p], apart = 0, distance = 0;
                for (size_t d = 0; d < D; d++) {
                    long double y = k.x[p * D + d] - (long double)k.m[d], z = y * k.s[d];
                    r -= k.a1[d] * z + k.a2[d] * z * z / 2;
                    apart += z * z;
                    distance += y * y;
                }
                same(left[p], r, 20 * MOST);
                same(pass->row_apart(D, k.x + p * D, k.m, k.s), apart, apart);
                same(pass->row_distance(D, k.x + p * D, k.m), distance, distance);
            }
            uint32_t xi[POINTS], mi[POINTS];
            for (size_t p = 0; p < n; p++) {
                xi[p] = (uint32_t)(p * 5 % n);
                mi[p] = (uint32_t)(p * 3 % n);
            }
            pass->row_distances(D, n, k.x, xi, k.g, mi, left);
            for (size_t p = 0; p < n; p++)
                assert_true(left[p] == pass->row_distance(D, k.x + xi[p] * D, k.g + mi[p] * D));
        }
}

static void passes_over_rows(void **state)
{
    (void)state;
    with_each(check_rows);
}

/* ---- the nearest of many particles ------------------------------------------------------------------------------- */
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

static int flat(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    size_t D = *(size_t *)self;
    memset(log_p, 0, n * sizeof *log_p);
    for (size_t i = 0; grad && i < n * D; i++)
        grad[i] = -z[i];
    return 0;
}

static wvgd_fit *new_fit(size_t *D, size_t N, wvgd_family family)
{
    wvgd_options o;
    wvgd_error error;
    wvgd_model model = {.name = "flat", .dim = *D, .log_density = flat, .self = D, .has_gradient = true};
    wvgd_options_init(&o);
    o.solver = WVGD_JOINT;
    o.family = family;
    o.cost = WVGD_SQEUCLID;
    o.init = WVGD_INIT_NORMAL;
    o.particles = N;
    wvgd_fit *f = wvgd_new(&model, &o, NULL, &error);
    if (!f)
        fail_msg("%s", error.text);
    return f;
}

/* Cells and costs are those that comparing all particles gives. next: NULL if it is not known */
static void check_cells(const wvgd_fit *f, size_t n, const double *x, const uint32_t *cell, const double *near,
                        const double *next)
{
    size_t D = f->D;
    for (size_t i = 0; i < n; i++) {
        double least = INFINITY, second = INFINITY;
        size_t at = 0;
        for (size_t j = 0; j < f->N; j++) {
            double cost = 0;
            for (size_t d = 0; d < D; d++)
                cost += (x[i * D + d] - f->cells.now.z[j * D + d]) * (x[i * D + d] - f->cells.now.z[j * D + d]);
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
    for (size_t k = 0; k < 6 * 5 * 3 * 2; k++) {
        size_t D = dims[k % 6], N = numbers[k / 90];
        double scale = scales[k / 6 % 5], origin = origins[k / 30 % 3] * scale;
        wvgd_fit *f = new_fit(&D, N, WVGD_DIAG);
        wv_geometry g = wv_partition_geometry(&f->cells);
        double *x = malloc(n * D * sizeof *x), middle[MOST], near[n], next[n];
        uint32_t cell[n];
        for (int twins = 0; twins < 2; twins++) {
            for (size_t i = 0; i < N * D; i++)
                f->cells.now.z[i] = origin + scale * test_random_normal(&r);
            for (size_t i = 0; i < n * D; i++)
                x[i] = origin + scale * test_random_normal(&r);
            if (twins) {
                memcpy(f->cells.now.z + 30 * D, f->cells.now.z + 7 * D, D * sizeof *x); /* with a point upon them, */
                memcpy(x + 11 * D, f->cells.now.z + 7 * D, D * sizeof *x);
                for (size_t d = 0; d < D; d++) { /* and triplets that are nearly the same */
                    f->cells.now.z[20 * D + d] = f->cells.now.z[21 * D + d] * (1 + 1e-9);
                    f->cells.now.z[22 * D + d] = f->cells.now.z[21 * D + d] * (1 - 1e-9);
                }
            }
            wv_nearest_assign(&g, n, x, cell, near, next, f->arena);
            check_cells(f, n, x, cell, near, next);
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
            wv_nearest_prepare(&f->nearest, &g, f->arena);
            for (int second = 0; second < 2; second++) {
                size_t mark = wv_arena_mark(f->arena);
                wv_nearest_sieve s;
                assert_true(wv_nearest_mirrored(&f->nearest, &g, middle, &s, f->arena));
                for (size_t i = 0; i < n; i += 2 * WV_COLUMNS)
                    wv_nearest_assign_mirrored(&s, n - i < 2 * WV_COLUMNS ? n - i : 2 * WV_COLUMNS, x + i * D, cell + i,
                                               near + i, next + i, second, f->arena);
                wv_arena_release(f->arena, mark);
                check_cells(f, n, x, cell, near, second ? next : NULL);
            }
        }
        free(x);
        wvgd_free(f);
    }
}

/* ---- steps of diagonal components -------------------------------------------------------------------------------- */
/* In one dimension a diagonal component and a full one are the same, and so are their steps, limits included. */
static void one_dimension(void **state)
{
    (void)state;
    enum { n = 60 };
    size_t D = 1, limited = 0;
    wvgd_fit *f[2] = {new_fit(&D, 2, WVGD_DIAG), new_fit(&D, 2, WVGD_FULL)};
    test_random r = test_random_seed(9);
    for (int trial = 0; trial < 400; trial++) {
        double x[n], g[n], log_p[n], u[n], mu[2], root[2], kl[2], total = 0, squares = 0, curve = between(&r, -3, 30),
                                                                  third = test_random_normal(&r);
        for (size_t p = 0; p < n; p++) {
            x[p] = between(&r, 0.3, 2);
            u[p] = exp(-x[p] * x[p] / 2);
            log_p[p] = -curve * x[p] * x[p] / 2 + third * x[p] * x[p] * x[p] / 6 +
                       (trial % 2 ? 0.3 * sin(5 * x[p]) : 0);
            g[p] = -curve * x[p] + third * x[p] * x[p] / 2 + (trial % 2 ? 1.5 * cos(5 * x[p]) : 0);
            total += u[p];
        }
        for (size_t p = 0; p < n; p++) {
            u[p] /= total;
            squares += u[p] * u[p];
        }
        for (int k = 0; k < 2; k++) {
            mu[k] = 0;
            root[k] = 1;
            wv_update c = {.estimator = trial % 3 ? WVGD_NATURAL : WVGD_SCORE,
                           .family = f[k]->family,
                           .mu = &mu[k],
                           .root = &root[k],
                           .n = n,
                           .x = x,
                           .log_p = log_p,
                           .grad = g,
                           .u = u,
                           .ess = 1 / squares,
                           .truncated = true,
                           .rho = trial % 5 ? 0.5 : 1};
            wv_update_result result = wv_fit_update(f[k], &c);
            assert_true(result.ok);
            kl[k] = result.kl;
        }
        limited += root[0] > 1.999 || root[0] < 0.501;
        assert_near(mu[0], mu[1], 1e-6 * (1 + fabs(mu[1])));
        assert_near(root[0], root[1], 1e-6 * root[1]);
        assert_near(kl[0], kl[1], 1e-6 * (1 + kl[1]));
    }
    assert_true(limited > 20 && limited < 380);
    wvgd_free(f[0]);
    wvgd_free(f[1]);
}

/* A full step on a normal posterior whose coordinates are independent ends there, however the cell cuts the
 * component: with few points and many, in few dimensions and many. */
static void normal_posteriors(void **state)
{
    (void)state;
    enum { MAX_D = 40, MAX_n = 400 };
    static double x[MAX_n * MAX_D], g[MAX_n * MAX_D], log_p[MAX_n], u[MAX_n];
    for (size_t D = 2; D <= MAX_D; D *= 2)
        for (size_t n = D; n <= MAX_n; n *= 2) {
            if (D > 4 && n < 2 * D)
                continue;
            wvgd_fit *f = new_fit(&D, 2, WVGD_DIAG);
            test_random r = test_random_seed(D + n);
            double mu[MAX_D], root[MAX_D], mean[MAX_D], sd[MAX_D], total = 0, squares = 0;
            for (size_t d = 0; d < D; d++) {
                mu[d] = test_random_normal(&r);
                root[d] = between(&r, 0.1, 10);
                mean[d] = mu[d] + 0.1 * root[d] * test_random_normal(&r);
                sd[d] = root[d] * between(&r, 0.9, 1.1);
            }
            for (size_t p = 0; p < n; p++) {
                double size = 0;
                log_p[p] = 3;
                for (size_t d = 0; d < D; d++) {
                    double y = between(&r, d ? -1 : 0, 1.5), v;
                    size += y * y;
                    x[p * D + d] = mu[d] + root[d] * y;
                    v = (x[p * D + d] - mean[d]) / sd[d];
                    log_p[p] -= v * v / 2;
                    g[p * D + d] = -v / sd[d];
                }
                total += u[p] = exp(-size / 2 / (double)D);
            }
            for (size_t p = 0; p < n; p++) {
                u[p] /= total;
                squares += u[p] * u[p];
            }
            wv_update c = {.estimator = WVGD_NATURAL,
                           .family = f->family,
                           .mu = mu,
                           .root = root,
                           .n = n,
                           .x = x,
                           .log_p = log_p,
                           .grad = g,
                           .u = u,
                           .ess = 1 / squares,
                           .truncated = true,
                           .rho = 1};
            bool few = c.ess < 1.5 * (double)D; /* a ridge of 1/ESS holds the step back */
            assert_true(wv_fit_update(f, &c).ok);
            for (size_t d = 0; d < D; d++) {
                assert_near(mu[d], mean[d], (few ? 0.2 : 1e-4) * sd[d]);
                assert_near(root[d], sd[d], (few ? 0.2 : 1e-4) * sd[d]);
            }
            wvgd_free(f);
        }
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* Points of a lattice in rows and in columns: multiples of the powers of 1/phi, phi^(d+1) = phi + 1 in d dimensions,
 * d even, moved and made normal, in long double. Multiples up to 300 leave an error of a few hundred roundings in u,
 * which grows by 1 / (u radius) in a radius. */
static void lattices(void **state)
{
    (void)state;
    enum { N = 5 * WV_LATTICE_BLOCK, ODD = 3 * WV_LATTICE_BLOCK - 5 };
    static double plain[N * WV_LATTICE], some[N * WV_LATTICE], columns[N * WV_LATTICE];
    const long double turn = 2 * acosl(-1.0L);
    for (size_t dims = 1; dims <= WV_LATTICE; dims++) {
        wv_stream stream = {5 + dims, WV_RNG_SETTLE, 2, 3};
        size_t even = (dims + 1) / 2 * 2;
        long double phi = 2;
        double shift[WV_LATTICE];
        for (int i = 0; i < 200; i++)
            phi = powl(1 + phi, 1 / (long double)(even + 1));
        wv_rng_uniform(&stream, 0, WV_LATTICE, shift);
        for (size_t i = 0; i < N * WV_LATTICE; i++)
            some[i] = -7;
        wv_rng_lattice(&stream, N, dims, plain);
        wv_rng_lattice(&stream, ODD, dims, some);
        wv_rng_lattice_columns(&stream, N, dims, columns);
        for (size_t i = 0; i < N; i++)
            for (size_t d = 0; d < dims; d++) {
                size_t pair = d / 2 * 2, at = i * dims + d;
                long double u = shift[pair] + (long double)i * powl(phi, -(long double)(pair + 1)),
                            v = shift[pair + 1] + (long double)i * powl(phi, -(long double)(pair + 2));
                u -= floorl(u);
                long double radius = sqrtl(-2 * logl(u)), value = radius * (d % 2 ? sinl(turn * v) : cosl(turn * v));
                assert_true(fabsl(plain[at] - value) <= 1e-12L * (1 + 1 / (u * radius) + radius));
                assert_true(some[at] == (i < ODD ? plain[at] : -7));
                assert_true(columns[(i / WV_LATTICE_BLOCK * dims + d) * WV_LATTICE_BLOCK + i % WV_LATTICE_BLOCK] ==
                            plain[at]);
            }
    }
}

/* A root of any family, with widths from 1/2 to 2. */
static void fill_family(wvgd_family family, size_t D, size_t R, test_random *r, double *root)
{
    double *Q = root + D + R;
    for (size_t i = 0; i < D; i++) {
        if (family == WVGD_FULL)
            for (size_t k = 0; k < D; k++)
                root[i * D + k] = k < i ? between(r, -0.3, 0.3) : k == i ? between(r, 0.5, 2) : 0;
        else
            root[i] = between(r, 0.5, 2);
    }
    for (size_t k = 0; family == WVGD_LOWRANK && k < R; k++) {
        /* rows that are orthonormal: one after the other without what is along those before */
        double square = 0;
        root[D + k] = k % 2 ? 0.3 : 4;
        for (size_t i = 0; i < D; i++)
            Q[k * D + i] = test_random_normal(r);
        for (size_t m = 0; m < k; m++) {
            double along = 0;
            for (size_t i = 0; i < D; i++)
                along += Q[k * D + i] * Q[m * D + i];
            for (size_t i = 0; i < D; i++)
                Q[k * D + i] -= along * Q[m * D + i];
        }
        for (size_t i = 0; i < D; i++)
            square += Q[k * D + i] * Q[k * D + i];
        for (size_t i = 0; i < D; i++)
            Q[k * D + i] /= sqrt(square);
    }
}

/* Mirrored draws 2k and 2k + 1 are draw k as it is made alone and its mirror image, wherever a call begins and ends;
 * nothing else is written. Coordinates are sums of D products in one order or another. */
static void mirrored_draws(void **state)
{
    (void)state;
    enum { WIDEST = 37, R = 2, PAIRS = 23, SENTINEL = -7 };
    static const wvgd_family families[] = {WVGD_DIAG, WVGD_FULL, WVGD_LOWRANK};
    static double root[WIDEST * WIDEST + R * WIDEST], mu[WIDEST], alone[PAIRS * WIDEST], x[(2 * PAIRS + 1) * WIDEST];
    wv_arena *work = wv_arena_new(2 * PAIRS * (WIDEST + R));
    assert_non_null(work);
    test_random r = test_random_seed(43);
    for (size_t c = 0; c < 3 * 2 * 3; c++) {
        size_t D = (const size_t[]){2, 9, WIDEST}[c % 3];
        wv_gaussian q = {wv_family_get(families[c / 3 % 3]), D, R, mu, root, c / 9 ? 3 : 0};
        wv_stream stream = {c, WV_RNG_FIT, 4, 1};
        fill_family(families[c / 3 % 3], D, R, &r, root);
        for (size_t i = 0; i < D; i++)
            mu[i] = 3 * test_random_normal(&r);
        for (size_t k = 0; k < PAIRS; k++)
            wv_gaussian_draw(&q, &stream, k, 1, false, alone + k * D, work);
        if (q.nu == 0) { /* and that is the standard normal draw of its number */
            double e[WIDEST], y[WIDEST];
            wv_rng_normal(&stream, PAIRS - 1, D, e);
            wv_gaussian_whiten(&q, 1, alone + (PAIRS - 1) * D, y, work);
            for (size_t i = 0; i < D; i++)
                assert_near(y[i], e[i], 1e-9);
        }
        for (size_t first = 0; first < 2 * PAIRS; first++)
            for (size_t n = 0; first + n <= 2 * PAIRS; n++) {
                for (size_t i = 0; i < (n + 1) * D; i++)
                    x[i] = SENTINEL;
                wv_gaussian_draw(&q, &stream, first, n, true, x, work);
                for (size_t i = 0; i < n * D; i++) {
                    size_t number = first + i / D;
                    double away = alone[number / 2 * D + i % D] - mu[i % D];
                    assert_near(x[i], mu[i % D] + (number % 2 ? -away : away),
                                1e-13 * (double)D * (1 + fabs(mu[i % D]) + fabs(away)));
                }
                for (size_t i = 0; i < D; i++)
                    assert_true(x[n * D + i] == SENTINEL);
            }
    }
    wv_arena_free(work);
}

/* Steps of a low-rank component towards one and the same Gaussian S: each begins where the last has ended, so
 * that they come to where no width can be better, diag(S^-1 C) = 1, to the 0.002 at which each stops. Beginning
 * anew each time they ended 0.01 to 0.09 off. */
static void low_rank_steps(void **state)
{
    (void)state;
    enum { D = 20, R = 3, STEPS = 100 };
    static double L[D * D], inverse[D * D], S[D * D], P[D * D], C[D * D], turned[D * D], cov[D * D],
        root[D + R + R * D], mu[D];
    const wv_family *low = wv_family_get(WVGD_LOWRANK);
    wv_arena *work = wv_arena_new(8 * D * D);
    test_random r = test_random_seed(53);
    assert_non_null(work);
    for (int trial = 0; trial < 5; trial++) {
        wv_gaussian q = {low, D, R, mu, root, 0};
        double off = 0;
        fill_family(WVGD_FULL, D, 0, &r, L);
        fill_family(WVGD_LOWRANK, D, R, &r, root);
        wv_dense_invert(D, L, inverse);
        for (size_t i = 0; i < D * D; i++) {
            S[i] = P[i] = 0;
            for (size_t k = 0; k < D; k++) {
                S[i] += L[i / D * D + k] * L[i % D * D + k];
                P[i] += inverse[k * D + i / D] * inverse[k * D + i % D];
            }
        }
        for (int step = 0; step < STEPS; step++) {
            memcpy(turned, S, sizeof turned); /* S in the coordinates of the component, from both sides */
            low->whiten(D, R, root, D, turned, work);
            for (size_t i = 0; i < D * D; i++)
                C[i] = turned[i % D * D + i / D];
            low->whiten(D, R, root, D, C, work);
            assert_true(low->absorb(D, R, root, C, work));
        }
        wv_gaussian_cov(&q, cov, work);
        for (size_t i = 0; i < D; i++) {
            double sum = 0;
            for (size_t k = 0; k < D; k++)
                sum += P[i * D + k] * cov[k * D + i];
            off = fmax(off, fabs(sum - 1));
        }
        assert_true(off < 0.002);
    }
    wv_arena_free(work);
}

/* Determinants of triangles whose diagonals, or products of some of them, are near the ends of the
 * range of numbers, against sums of logs. */
static void determinants(void **state)
{
    (void)state;
    enum { WIDEST = 40, KINDS = 6 };
    static double L[WIDEST * WIDEST];
    const wv_family *full = wv_family_get(WVGD_FULL);
    test_random r = test_random_seed(47);
    for (size_t D = 1; D <= WIDEST; D++)
        for (size_t kind = 0; kind < KINDS; kind++) {
            long double sum = 0, size = 0;
            for (size_t i = 0; i < D * D; i++)
                L[i] = NAN; /* nothing but the diagonal counts */
            for (size_t i = 0; i < D; i++) {
                double power = kind == 0   ? between(&r, -1, 1)
                               : kind == 1 ? between(&r, -200, 200)
                               : kind == 2 ? between(&r, 140, 160)
                               : kind == 3 ? between(&r, -160, -140)
                               : kind == 4 ? between(&r, 40, 60) * (i % 5 ? 1 : -1)
                               : i % 2     ? 300
                                           : -300;
                L[i * D + i] = pow(10, power);
                sum += logl(L[i * D + i]);
                size += fabsl(logl(L[i * D + i]));
            }
            assert_near(full->log_det(D, 0, L), (double)sum, 2 * DBL_EPSILON * (double)(D + size * (long double)D));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_over_rows), cmocka_unit_test(candidates),        cmocka_unit_test(nearest_particles),
        cmocka_unit_test(one_dimension),    cmocka_unit_test(normal_posteriors), cmocka_unit_test(whole_numbers),
        cmocka_unit_test(lattices),         cmocka_unit_test(mirrored_draws),    cmocka_unit_test(determinants),
        cmocka_unit_test(low_rank_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
