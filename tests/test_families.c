/* test_families.c - families of Gaussians: draws in mirrored pairs, Student-t draws of any degrees, steps of low-rank
 * components, determinants. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "arena.h"
#include "dense.h"
#include "gaussian.h"
#include "rng.h"
#include "support/near.h"
#include "support/test_random.h"

static double between(test_random *r, double lo, double hi)
{
    return lo + (hi - lo) * test_random_uniform(r);
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

/* Student-t draws x with nu degrees of freedom: E log(1 + x^2/nu) = psi((nu + 1)/2) - psi(nu/2), known by recurrence
 * from psi(1) - psi(1/2) = 2 log 2 and psi(3/2) - psi(1) = 2 - 2 log 2. */
static void student_draws(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    static double x[DRAWS];
    const double mu = 0, root = 1;
    wv_arena *arena = wv_arena_new(4 * DRAWS);
    double odd = 2 * log(2), even = 2 - 2 * log(2); /* for nu = 1 and nu = 2 */
    for (size_t nu = 1; nu <= WV_DEGREES; nu++) {
        wv_gaussian q = {wv_family_get(WVGD_DIAG), 1, 0, &mu, &root, (double)nu};
        wv_stream stream = {1, WV_RNG_FREE, nu, 0};
        double sum = 0, squares = 0, exact = nu % 2 ? odd : even;
        wv_gaussian_draw(&q, &stream, 0, DRAWS, false, x, arena);
        for (size_t i = 0; i < DRAWS; i++) {
            double value = log1p(x[i] * x[i] / (double)nu);
            sum += value;
            squares += value * value;
        }
        double mean = sum / DRAWS, se = sqrt((squares / DRAWS - mean * mean) / DRAWS);
        assert_near(mean, exact, 4 * se);
        *(nu % 2 ? &odd : &even) += 1 / ((double)(nu + 1) / 2) - 1 / ((double)nu / 2);
    }
    wv_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mirrored_draws),
        cmocka_unit_test(student_draws),
        cmocka_unit_test(low_rank_steps),
        cmocka_unit_test(determinants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
