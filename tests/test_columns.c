/* test_columns.c - tests of Gaussians at many points: each instruction set's passes against long double, densities
 * in blocks against those of one point, and the triangles behind them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd/columns.h"
#include "gaussian.h"
#include "dense.h"
#include "support/every_pass.h"
#include "support/test_random.h"

enum { MOST = 40, ROWS = 5 };

/* exp has a relative error below 1e-15; what would be below 1e-307 is 0; NaN is nothing. */
static void check_exponentials(const wv_columns *pass)
{
    double x[WV_COLUMNS] = {3.0, 2.5, -705.0, -710.0, -1e300, -INFINITY, NAN, 3.0 - 1e-18}, out[WV_COLUMNS];
    for (size_t i = 8; i < WV_COLUMNS; i++)
        x[i] = 3.0 - exp((double)i / 8.0 - 1.0);
    pass->exponentials(WV_COLUMNS, 3.0, x, out);
    for (size_t i = 0; i < WV_COLUMNS; i++) {
        long double a = 3.0L - (long double)x[i], value = a <= 708.0L ? expl(-a) : 0.0L;
        assert_true(fabsl(out[i] - value) <= 4 * DBL_EPSILON * value);
    }
    assert_true(out[3] == 0.0 && out[4] == 0.0 && out[5] == 0.0 && out[6] == 0.0);
}

static void exponentials(void **state)
{
    (void)state;
    with_each(check_exponentials);
}

/* Sums of exponentials of any size, of nothing, and of NaN. */
static void check_add_logs(const wv_columns *pass)
{
    static double log_q[ROWS * WV_COLUMNS];
    double out[WV_COLUMNS], first[WV_COLUMNS];
    test_random r = test_random_seed(7);
    for (size_t i = 0; i < ROWS * WV_COLUMNS; i++)
        log_q[i] = 800.0 * (test_random_uniform(&r) - 0.5);
    for (size_t i = 0; i < WV_COLUMNS; i++)
        first[i] = i % 3 ? -INFINITY : log_q[i] + 1.0;
    for (size_t c = 0; c < ROWS; c++) {
        log_q[c * WV_COLUMNS + 1] = -INFINITY;
        log_q[c * WV_COLUMNS + 2] = c ? log_q[2] - 0.1 * (double)c : log_q[2];
    }
    log_q[WV_COLUMNS + 4] = NAN;
    memcpy(out, first, sizeof out);
    pass->add_logs(ROWS, WV_COLUMNS, log_q, out);
    for (size_t i = 0; i < WV_COLUMNS; i++) {
        long double top = first[i], sum = 0;
        for (size_t c = 0; c < ROWS; c++)
            if (log_q[c * WV_COLUMNS + i] > (double)top)
                top = log_q[c * WV_COLUMNS + i];
        if (i == 1) {
            assert_true(out[i] == -INFINITY);
            continue;
        }
        sum = expl((long double)first[i] - top);
        for (size_t c = 0; c < ROWS; c++)
            if (!isnan(log_q[c * WV_COLUMNS + i]))
                sum += expl((long double)log_q[c * WV_COLUMNS + i] - top);
        assert_true(fabsl(out[i] - (top + logl(sum))) <= 4 * DBL_EPSILON * (1 + fabsl(top)));
    }
}

static void add_logs(void **state)
{
    (void)state;
    with_each(check_add_logs);
}

static void check_tails(const wv_columns *pass)
{
    double r[WV_COLUMNS], out[WV_COLUMNS];
    for (size_t i = 0; i < WV_COLUMNS; i++)
        r[i] = i ? pow(10.0, (double)i / 3.0 - 12.0) : 0.0;
    pass->tails(WV_COLUMNS, 3.0, 17.0, -2.0, r, out);
    for (size_t i = 0; i < WV_COLUMNS; i++) {
        long double value = -2.0L - 17.0L * log1pl((long double)r[i] / 3.0L);
        assert_true(fabsl(out[i] - value) <= 17 * 4 * DBL_EPSILON * (1 + fabsl(value)));
    }
    r[0] = INFINITY;
    pass->tails(WV_COLUMNS, 3.0, 17.0, -2.0, r, out);
    assert_true(out[0] == -INFINITY);
}

static void tails(void **state)
{
    (void)state;
    with_each(check_tails);
}

/* Distances from a few places, of which two are the same: the nearest (the first of the two), the
 * second nearest, for any number of places. */
static void check_distances(const wv_columns *pass)
{
    enum { PLACES = 11 };
    static double x[ROWS * WV_COLUMNS], z[PLACES * ROWS];
    double scale[ROWS], near[WV_COLUMNS], next[WV_COLUMNS], which[WV_COLUMNS], out[WV_COLUMNS];
    test_random r = test_random_seed(13);
    for (size_t i = 0; i < ROWS * WV_COLUMNS; i++)
        x[i] = test_random_uniform(&r);
    for (size_t i = 0; i < PLACES * ROWS; i++)
        z[i] = test_random_uniform(&r);
    for (size_t d = 0; d < ROWS; d++) {
        scale[d] = 1.0 + (double)d;
        z[3 * ROWS + d] = z[ROWS + d];
    }
    for (size_t N = 1; N <= PLACES; N++) {
        pass->nearest(ROWS, WV_COLUMNS, N, x, z, near, next, which);
        pass->apart(ROWS, WV_COLUMNS, x, z + (N - 1) * ROWS, scale, out);
        for (size_t i = 0; i < WV_COLUMNS; i++) {
            double least = INFINITY, second = INFINITY, scaled = 0;
            size_t at = 0;
            for (size_t j = 0; j < N; j++) {
                double square = 0;
                for (size_t d = 0; d < ROWS; d++)
                    square += (x[d * WV_COLUMNS + i] - z[j * ROWS + d]) * (x[d * WV_COLUMNS + i] - z[j * ROWS + d]);
                if (square < least) {
                    second = least;
                    least = square;
                    at = j;
                } else if (square < second)
                    second = square;
            }
            for (size_t d = 0; d < ROWS; d++)
                scaled += pow((x[d * WV_COLUMNS + i] - z[(N - 1) * ROWS + d]) * scale[d], 2);
            assert_true((size_t)which[i] == at && fabs(near[i] - least) < 1e-14 &&
                        (N == 1 ? isinf(next[i]) : fabs(next[i] - second) < 1e-14));
            assert_true(fabs(out[i] - scaled) < 1e-13 * (1 + scaled));
        }
    }
}

static void distances(void **state)
{
    (void)state;
    with_each(check_distances);
}

/* Scores of a few directions, of which two are the same: the highest (the first of the two), for any number of them;
 * half of the squared lengths as offsets, so that it is the nearest place. */
static void check_scores(const wv_columns *pass)
{
    enum { PLACES = 11 };
    static double x[ROWS * WV_COLUMNS], z[PLACES * ROWS];
    double half[PLACES], near[WV_COLUMNS], next[WV_COLUMNS], nearest[WV_COLUMNS], which[WV_COLUMNS];
    test_random r = test_random_seed(14);
    for (size_t i = 0; i < ROWS * WV_COLUMNS; i++)
        x[i] = test_random_uniform(&r);
    for (size_t i = 0; i < PLACES * ROWS; i++)
        z[i] = test_random_uniform(&r);
    memcpy(z + 3 * ROWS, z + ROWS, ROWS * sizeof *z);
    for (size_t j = 0; j < PLACES; j++) {
        half[j] = 0;
        for (size_t d = 0; d < ROWS; d++)
            half[j] += z[j * ROWS + d] * z[j * ROWS + d] / 2;
    }
    for (size_t N = 1; N <= PLACES; N++) {
        pass->highest(ROWS, WV_COLUMNS, N, x, z, half, which);
        pass->nearest(ROWS, WV_COLUMNS, N, x, z, near, next, nearest);
        for (size_t i = 0; i < WV_COLUMNS; i++)
            assert_true((size_t)which[i] == (size_t)nearest[i] && which[i] != 3);
    }
}

static void scores(void **state)
{
    (void)state;
    with_each(check_scores);
}

/* Densities relative to their mixture, however small or large: one without a share counts as nothing in the mixture,
 * as do NaN and zero; where there is no density the mixture has none. */
static void check_shares(const wv_columns *pass)
{
    enum { LD = WV_COLUMNS + 8 };
    static double log_q[ROWS * LD], u[ROWS * LD];
    double alpha[ROWS] = {0.2, 0.0, 0.3, 1e-6, 0.5}, log_m[WV_COLUMNS];
    test_random r = test_random_seed(17);
    for (size_t i = 0; i < ROWS * LD; i++)
        log_q[i] = (i % LD < 32 ? 20.0 : 2000.0) * (test_random_uniform(&r) - 0.5) - 5000.0;
    for (size_t c = 0; c < ROWS; c++)
        log_q[c * LD] = -INFINITY;
    log_q[1] = NAN;
    log_q[2 * LD + 2] = -INFINITY;
    memcpy(u, log_q, sizeof u);
    pass->shares(ROWS, WV_COLUMNS, LD, alpha, u, log_m);
    for (size_t i = 0; i < WV_COLUMNS; i++) {
        long double top = -INFINITY, sum = 0;
        for (size_t c = 0; c < ROWS; c++)
            if (alpha[c] > 0 && log_q[c * LD + i] > (double)top)
                top = log_q[c * LD + i];
        for (size_t c = 0; c < ROWS; c++)
            if (i && alpha[c] > 0 && !isnan(log_q[c * LD + i]))
                sum += alpha[c] * expl(log_q[c * LD + i] - top);
        if (i)
            assert_true(fabsl(log_m[i] - (top + logl(sum))) <= 4 * DBL_EPSILON * (1 + fabsl(top)));
        else
            assert_true(log_m[0] == -INFINITY);
        for (size_t c = 0; c < ROWS; c++) {
            long double below = log_q[c * LD + i] - top, value = !i || isnan(log_q[c * LD + i]) || below < -708
                                                                     ? 0
                                                                     : expl(below < 600 ? below : 600) / sum;
            assert_true(fabsl(u[c * LD + i] - value) <= 8 * DBL_EPSILON * value);
        }
    }
}

static void shares(void **state)
{
    (void)state;
    with_each(check_shares);
}

static void fill_root(size_t D, test_random *r, double *L)
{
    memset(L, 0, D * D * sizeof *L);
    for (size_t i = 0; i < D; i++)
        for (size_t k = 0; k <= i; k++)
            L[i * D + k] = i == k ? 0.5 + test_random_uniform(r) : test_random_uniform(r) - 0.5;
}

/* Weighted passes leave out columns without weight, whatever stands there. */
static void check_weighted(const wv_columns *pass)
{
    static double y[ROWS * WV_COLUMNS], out[ROWS * WV_COLUMNS], weighted[ROWS * WV_COLUMNS];
    double w[WV_COLUMNS], centre[ROWS], sum[ROWS] = {0}, squares[WV_COLUMNS];
    test_random r = test_random_seed(11);
    for (size_t i = 0; i < ROWS * WV_COLUMNS; i++)
        y[i] = test_random_uniform(&r);
    for (size_t i = 0; i < WV_COLUMNS; i++)
        w[i] = i % 4 ? test_random_uniform(&r) : 0.0;
    for (size_t d = 0; d < ROWS; d++)
        centre[d] = test_random_uniform(&r);
    y[0] = INFINITY;
    y[4] = NAN;
    pass->mean(ROWS, WV_COLUMNS, w, y, sum);
    pass->centre(ROWS, WV_COLUMNS, w, y, centre, out, weighted);
    for (size_t d = 0; d < ROWS; d++) {
        double total = 0;
        for (size_t i = 0; i < WV_COLUMNS; i++) {
            double v = i % 4 ? y[d * WV_COLUMNS + i] - centre[d] : 0.0;
            total += i % 4 ? w[i] * y[d * WV_COLUMNS + i] : 0.0;
            assert_true(out[d * WV_COLUMNS + i] == v && fabs(weighted[d * WV_COLUMNS + i] - w[i] * v) < 1e-15);
        }
        assert_true(fabs(sum[d] - total) < 1e-12);
    }
    pass->scale(ROWS, WV_COLUMNS, w, y, weighted);
    pass->squares(ROWS, WV_COLUMNS, out, squares);
    for (size_t i = 0; i < WV_COLUMNS; i++) {
        double square = 0;
        for (size_t d = 0; d < ROWS; d++) {
            square += out[d * WV_COLUMNS + i] * out[d * WV_COLUMNS + i];
            assert_true(fabs(weighted[d * WV_COLUMNS + i] - (i % 4 ? w[i] * y[d * WV_COLUMNS + i] : 0.0)) < 1e-15);
        }
        assert_true(fabs(squares[i] - square) < 1e-13);
    }
}

static void weighted(void **state)
{
    (void)state;
    with_each(check_weighted);
}

/* ---- moments and secants ----------------------------------------------------------------------------------------- */
/* Sums of 64 terms, each a product of a few numbers, in any order: size is the sum of what is added, without signs. */
static void sums_to(double got, long double wanted, long double size)
{
    assert_true(fabsl(got - wanted) <= 64 * DBL_EPSILON * size);
}

static void fill(size_t n, test_random *r, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = test_random_normal(r);
}

/* Rows anywhere in memory, not aligned, that end where they end, become columns; nothing else is touched. */
static void check_turn(const wv_columns *pass)
{
    enum { LONGEST = 70, SENTINEL = -7 };
    static double out[(LONGEST + 1) * WV_COLUMNS];
    for (size_t D = 1; D <= LONGEST; D++) {
        double *held[WV_COLUMNS_WIDTH];
        const double *row[WV_COLUMNS_WIDTH];
        for (size_t k = 0; k < WV_COLUMNS_WIDTH; k++) {
            held[k] = malloc((D + k % 3) * sizeof **held);
            assert_non_null(held[k]);
            row[k] = held[k] + k % 3;
            for (size_t d = 0; d < D; d++)
                held[k][k % 3 + d] = (double)(100 * d + k);
        }
        for (size_t i = 0; i < (LONGEST + 1) * WV_COLUMNS; i++)
            out[i] = SENTINEL;
        pass->turn(D, row, out + WV_COLUMNS_WIDTH);
        for (size_t d = 0; d <= LONGEST; d++)
            for (size_t i = 0; i < WV_COLUMNS; i++) {
                bool turned = d < D && i / WV_COLUMNS_WIDTH == 1;
                assert_true(out[d * WV_COLUMNS + i] == (turned ? (double)(100 * d + i - WV_COLUMNS_WIDTH) : SENTINEL));
            }
        for (size_t k = 0; k < WV_COLUMNS_WIDTH; k++)
            free(held[k]);
    }
}

static void turned(void **state)
{
    (void)state;
    with_each(check_turn);
}

/* Rows that are apart, that follow each other, or overlap; columns up to the next multiple of
 * eight repeat the last row. */
static void turned_rows(void **state)
{
    (void)state;
    enum { LONGEST = 20, GAP = 3, SENTINEL = -7 };
    static double x[WV_COLUMNS * (LONGEST + GAP)], out[LONGEST * WV_COLUMNS], plain[LONGEST * WV_COLUMNS];
    for (size_t i = 0; i < WV_COLUMNS * (LONGEST + GAP); i++)
        x[i] = (double)i;
    for (size_t D = 1; D <= LONGEST; D++)
        for (size_t n = 1; n <= WV_COLUMNS; n++) {
            const size_t aparts[] = {D + GAP, D, 1};
            for (size_t a = 0; a < 3; a++) {
                for (size_t i = 0; i < LONGEST * WV_COLUMNS; i++)
                    out[i] = plain[i] = SENTINEL;
                wv_columns_turn_rows(D, n, x, aparts[a], out);
                for (size_t i = 0; i < LONGEST * WV_COLUMNS; i++) {
                    size_t d = i / WV_COLUMNS, k = i % WV_COLUMNS, from = k < n ? k : n - 1;
                    assert_true(out[i] == (d < D && k < wv_columns_round(n) ? x[from * aparts[a] + d] : SENTINEL));
                }
                wv_columns_turn(D, n, x, plain);
                assert_true(aparts[a] != D || !memcmp(out, plain, sizeof out));
            }
        }
}

static void check_row_times(const wv_columns *pass)
{
    enum { LONGEST = 64 };
    static double x[LONGEST], M[LONGEST * LONGEST], out[LONGEST + 1];
    test_random r = test_random_seed(37);
    for (size_t D = 1; D <= LONGEST; D++) {
        fill(D, &r, x);
        fill(D * D, &r, M);
        out[D] = -7.0;
        pass->row_times(D, x, M, out);
        for (size_t i = 0; i < D; i++) {
            long double sum = 0, size = 0;
            for (size_t k = 0; k < D; k++) {
                sum += (long double)x[k] * M[k * D + i];
                size += fabsl((long double)x[k] * M[k * D + i]);
            }
            sums_to(out[i], sum, size);
        }
        assert_true(out[D] == -7.0);
    }
}

static void row_times(void **state)
{
    (void)state;
    with_each(check_row_times);
}

/* The inverse Hessian as a matrix, H <- (I - s y'/sy) H (I - y s'/sy) + s s'/sy from the oldest pair to the newest.
 * Curvatures lie between 1/2 and 2, so that rounding grows by a small factor with each pair; rows that are shorter
 * than whole vectors end with zeros and keep these. */
static void check_row_secants(const wv_columns *pass)
{
    enum { PAIRS = 7, LONGEST = 40 };
    static double s[PAIRS * LONGEST], y[PAIRS * LONGEST];
    static long double H[LONGEST * LONGEST];
    double v[LONGEST], sy[PAIRS];
    const double *s_row[PAIRS], *y_row[PAIRS];
    test_random r = test_random_seed(41);
    for (size_t D = 1; D <= LONGEST; D += 3)
        for (size_t n = 0; n <= PAIRS; n++) {
            size_t whole = wv_columns_round(D);
            double gamma = 0.5 + test_random_uniform(&r), start[LONGEST] = {0};
            fill(D, &r, start);
            memcpy(v, start, sizeof v);
            memset(s, 0, sizeof s);
            memset(y, 0, sizeof y);
            for (size_t i = 0; i < D * D; i++)
                H[i] = i % (D + 1) ? 0 : gamma;
            for (size_t k = n; k-- > 0;) { /* the newest is the first, and stands anywhere */
                double *to = s + 3 * k % PAIRS * LONGEST, *yo = y + 5 * k % PAIRS * LONGEST;
                s_row[k] = to;
                y_row[k] = yo;
                sy[k] = 0;
                for (size_t i = 0; i < D; i++) {
                    to[i] = test_random_normal(&r);
                    yo[i] = to[i] * (0.5 + 1.5 * test_random_uniform(&r));
                    sy[k] += to[i] * yo[i];
                }
                long double left[LONGEST], both = 0; /* H y, y'H y */
                for (size_t i = 0; i < D; i++) {
                    left[i] = 0;
                    for (size_t j = 0; j < D; j++)
                        left[i] += H[i * D + j] * yo[j];
                    both += left[i] * yo[i];
                }
                for (size_t i = 0; i < D; i++)
                    for (size_t j = 0; j < D; j++)
                        H[i * D + j] += ((1 + both / sy[k]) * to[i] * to[j] - to[i] * left[j] - left[i] * to[j]) /
                                        sy[k];
            }
            pass->row_secants(whole, n, s_row, y_row, sy, gamma, v);
            for (size_t i = 0; i < whole; i++) {
                long double value = 0, size = 0;
                for (size_t j = 0; i < D && j < D; j++) {
                    value += H[i * D + j] * start[j];
                    size += fabsl(H[i * D + j] * start[j]);
                }
                assert_true(i < D ? fabsl(v[i] - value) <= 1e-12L * (1 + size) : v[i] == 0.0);
            }
        }
}

static void row_secants(void **state)
{
    (void)state;
    with_each(check_row_secants);
}

/* Products of any size, with A as it is and turned, alone and added to what is there. */
static void check_multiply(const wv_columns *pass)
{
    enum { LARGEST = 21, APART = LARGEST + 2 };
    static double a[APART * APART], b[APART * APART], out[APART * APART], before[APART * APART];
    test_random r = test_random_seed(23);
    for (size_t m = 1; pass->multiply && m <= LARGEST; m += 2)
        for (size_t n = WV_COLUMNS_WIDTH; n <= LARGEST; n += m == 5 ? 1 : 6)
            for (size_t k = 1; k <= LARGEST; k += 5)
                for (size_t kind = 0; kind < 4; kind++) {
                    size_t row = kind & 1 ? 1 : APART, step = kind & 1 ? APART : 1;
                    for (size_t i = 0; i < (size_t)APART * APART; i++) {
                        a[i] = test_random_normal(&r);
                        b[i] = test_random_normal(&r);
                        before[i] = out[i] = test_random_normal(&r);
                    }
                    pass->multiply(&(wv_product){m, n, k, a, row, step, b, APART, out, APART, kind & 2});
                    for (size_t i = 0; i < APART; i++)
                        for (size_t j = 0; j < APART; j++) {
                            long double value = before[i * APART + j] * (i >= m || j >= n || kind & 2);
                            for (size_t l = 0; i < m && j < n && l < k; l++)
                                value += (long double)a[i * row + l * step] * b[l * APART + j];
                            assert_true(fabsl(out[i * APART + j] - value) < 1e-13L);
                        }
                }
}

static void multiply(void **state)
{
    (void)state;
    with_each(check_multiply);
}

/* Densities of a block are those of its points one by one; pushing back is the gradient; products
 * are sums over columns. */
static void densities(void **state)
{
    (void)state;
    static double x[WV_COLUMNS * MOST], block[MOST * WV_COLUMNS], spare[MOST * WV_COLUMNS], y[MOST * WV_COLUMNS],
        out[MOST * WV_COLUMNS], C[MOST * MOST];
    double L[MOST * MOST], inverse[MOST * MOST], mu[MOST], one[MOST], r[WV_COLUMNS], log_q[WV_COLUMNS], value;
    test_random random = test_random_seed(3);
    wv_arena *arena = wv_arena_new((size_t)WV_COLUMNS * WV_COLUMNS);
    for (size_t D = 1; D <= MOST; D += 3)
        for (size_t n = 1; n <= WV_COLUMNS; n += 21) {
            size_t wide = wv_columns_round(n);
            fill_root(D, &random, L);
            for (size_t i = 0; i < D; i++)
                mu[i] = test_random_uniform(&random);
            for (size_t i = 0; i < n * D; i++)
                x[i] = 4.0 * test_random_uniform(&random) - 2.0;
            wv_dense_invert(D, L, inverse);
            wv_columns_turn(D, n, x, block);
            wv_columns_whiten(D, wide, inverse, mu, block, spare, y, r);
            for (double nu = 0.0; nu <= 3.0; nu += 3.0) {
                wv_gaussian q = {wv_family_get(WVGD_FULL), D, 0, mu, L, nu};
                wv_columns_density(D, wide, q.family->log_det(D, 0, L), nu, r, log_q);
                for (size_t i = 0; i < n; i++) {
                    wv_gaussian_log_density(&q, 1, x + i * D, &value, one, NULL);
                    assert_true(fabs(log_q[i] - value) < 1e-9 * (1 + fabs(value)));
                }
            }
            memset(out, 0, sizeof out);
            memset(C, 0, sizeof C);
            wv_columns_push(D, wide, inverse, y, out);
            wv_columns_product(D, wide, y, out, false, C, arena);
            for (size_t a = 0; a < D; a++) {
                double sum = 0;
                for (size_t b = 0; b < D; b++)
                    sum += L[b * D + a] * out[b * WV_COLUMNS];
                assert_true(fabs(sum - y[a * WV_COLUMNS]) < 1e-8 * (1 + fabs(sum))); /* L' L'^-1 y = y */
                for (size_t b = 0; b < D; b++) {
                    double product = 0;
                    for (size_t i = 0; i < wide; i++)
                        product += y[a * WV_COLUMNS + i] * out[b * WV_COLUMNS + i];
                    assert_true(fabs(product - C[a * D + b]) < 1e-9 * (1 + fabs(product)));
                }
            }
        }
    wv_arena_free(arena);
}

/* Inverses of triangles, and roots of inverses: V V' a = I. */
static void triangles(void **state)
{
    (void)state;
    static double L[MOST * MOST], inverse[MOST * MOST], a[MOST * MOST], V[MOST * MOST], spare[MOST * MOST];
    test_random random = test_random_seed(4);
    for (size_t D = 1; D <= MOST; D++) {
        fill_root(D, &random, L);
        wv_dense_invert(D, L, inverse);
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k < D; k++) {
                double unit = 0, square = i == k;
                for (size_t j = 0; j < D; j++) {
                    unit += L[i * D + j] * inverse[j * D + k];
                    square += L[i * D + j] * L[k * D + j] / (double)D;
                }
                assert_true(fabs(unit - (i == k)) < 1e-10);
                assert_true(k <= i || inverse[i * D + k] == 0.0);
                a[i * D + k] = square;
            }
        assert_true(wv_dense_inverse_root(D, a, V, spare));
        for (size_t i = 0; i < D; i++)
            for (size_t k = 0; k < D; k++) {
                double unit = 0;
                for (size_t j = 0; j < D; j++)
                    for (size_t m = 0; m < D; m++)
                        unit += a[i * D + j] * V[j * D + m] * V[k * D + m];
                assert_true(fabs(unit - (i == k)) < 1e-12 * (double)(D * D));
                assert_true(k <= i || V[i * D + k] == 0.0);
            }
        assert_true(wv_dense_above(D, a, 1.0, 0.999, spare)); /* 1 + a square */
        assert_false(wv_dense_above(D, a, -1.0, -1.0, spare));
        a[0] = -1.0;
        assert_false(wv_dense_inverse_root(D, a, V, spare));
    }
}

/* Rows through the root of a component are the same alone, in threes and all at once; and there is a way back. */
static void any_number_of_rows(void **state)
{
    (void)state;
    enum { MANY = 24 };
    static double L[MOST * MOST], x[MANY * MOST], all[MANY * MOST], some[MANY * MOST];
    const wv_family *full = wv_family_get(WVGD_FULL);
    void (*const turn[])(size_t, size_t, const double *, size_t, double *, wv_arena *) = {full->colour, full->whiten,
                                                                                          full->pull, full->push};
    wv_arena *arena = wv_arena_new(1 << 16);
    assert_non_null(arena);
    test_random random = test_random_seed(9);
    for (size_t D = 1; D <= MOST; D += 1 + D / 4) {
        fill_root(D, &random, L);
        for (size_t i = 0; i < MANY * D; i++)
            x[i] = test_random_normal(&random);
        for (size_t t = 0; t < 4; t++) {
            memcpy(all, x, MANY * D * sizeof *x);
            turn[t](D, 0, L, MANY, all, arena);
            for (size_t rows = 1; rows <= 3; rows += 2) {
                memcpy(some, x, MANY * D * sizeof *x);
                for (size_t at = 0; at < MANY; at += rows)
                    turn[t](D, 0, L, rows, some + at * D, arena);
                for (size_t i = 0; i < MANY * D; i++)
                    assert_true(fabs(some[i] - all[i]) < 1e-9 * (1 + fabs(all[i])));
            }
            turn[t ^ 1](D, 0, L, MANY, all, arena);
            for (size_t i = 0; i < MANY * D; i++)
                assert_true(fabs(all[i] - x[i]) < 1e-9 * (1 + fabs(x[i])));
        }
    }
    wv_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials), cmocka_unit_test(add_logs),    cmocka_unit_test(tails),
        cmocka_unit_test(distances),    cmocka_unit_test(scores),      cmocka_unit_test(shares),
        cmocka_unit_test(weighted),     cmocka_unit_test(turned),      cmocka_unit_test(turned_rows),
        cmocka_unit_test(row_times),    cmocka_unit_test(row_secants), cmocka_unit_test(multiply),
        cmocka_unit_test(densities),    cmocka_unit_test(triangles),   cmocka_unit_test(any_number_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
