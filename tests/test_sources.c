/* test_sources.c - densities of weighted Gaussians and Student-t's against long double, whichever way their roots are
 * given, however many points and sources there are. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dense.h"
#include "sources.h"
#include "support/test_random.h"

enum { MOST_D = 9, MOST_R = 2, MOST_C = 70, MOST_N = 200, ROOT = MOST_D * MOST_D + MOST_R * (1 + MOST_D) };

/* Sources of which every fourth is like the one before, and the others are full, diagonal and of low rank by turns. */
typedef struct {
    size_t D, C;
    bool apart; /* each is one of Gaussian and Student-t, and like no other */
    double mu[MOST_C][MOST_D], root[MOST_C][ROOT], inverse[MOST_C][MOST_D * MOST_D];
    wv_gaussian q[MOST_C];
    wv_source source[MOST_C];
    test_random r;
} fixture;

static wv_source source_at(const void *self, size_t c)
{
    return ((const fixture *)self)->source[c];
}

/* Orthonormal rows of a low-rank root: two axes turned by an angle. */
static void set_low_rank(fixture *f, double *root)
{
    size_t D = f->D;
    double angle = 6 * test_random_uniform(&f->r), *Q = root + D + MOST_R;
    for (size_t r = 0; r < MOST_R; r++)
        root[D + r] = exp(test_random_normal(&f->r));
    memset(Q, 0, MOST_R * D * sizeof *Q);
    Q[0] = Q[D + 1] = cos(angle);
    Q[1] = sin(angle);
    Q[D] = -sin(angle);
}

static void make(fixture *f, size_t c)
{
    static const wvgd_family turns[] = {WVGD_FULL, WVGD_DIAG, WVGD_LOWRANK};
    size_t D = f->D, turn = c % 4 % 3, both = c % 3;
    double *root = f->root[c], *inverse = f->inverse[c];
    bool like = !f->apart && c % 4 == 3, low_rank = !like && turns[turn] == WVGD_LOWRANK && D >= MOST_R;
    wvgd_family family = low_rank ? WVGD_LOWRANK : turns[turn % 2];
    test_random_normals(&f->r, D, f->mu[c]);
    memset(root, 0, ROOT * sizeof *root);
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j <= i; j++)
            if (family == WVGD_FULL || i == j)
                root[family == WVGD_FULL ? i * D + j : i] = j < i ? 0.3 * test_random_normal(&f->r)
                                                                  : 0.5 + test_random_uniform(&f->r);
    if (low_rank)
        set_low_rank(f, root);
    f->q[c] = (wv_gaussian){wv_family_get(family), D, low_rank ? MOST_R : 0, f->mu[c], root, 0};
    wv_source s = {.mu = f->mu[c],
                   .log_det = f->q[c].family->log_det(D, f->q[c].R, root),
                   .weight = both != 1 ? 0.1 + test_random_uniform(&f->r) : 0,
                   .nu = 3 + (double)(c % 5),
                   .t_weight = both == 1 || (both == 2 && !f->apart) ? 0.2 + test_random_uniform(&f->r) : 0};
    if (like) { /* the root of the one before, times 2 */
        double times = 2;
        f->q[c] = f->q[c - 1];
        s.mu = f->source[c - 1].mu;
        s.log_det = f->source[c - 1].log_det + (double)D * log(times);
        s.like = 1 / (times * times);
    } else if (low_rank)
        s.q = &f->q[c];
    else if (family == WVGD_FULL) {
        wv_dense_invert(D, root, inverse);
        s.inverse = inverse;
    } else {
        for (size_t i = 0; i < D; i++)
            inverse[i] = 1 / root[i];
        s.scale = inverse;
    }
    f->source[c] = s;
}

/* |y|^2 at x, by the covariance. */
static long double square_of(const fixture *f, size_t c, const double *x, wv_arena *arena)
{
    const wv_gaussian *q = &f->q[c];
    size_t D = f->D, mark = wv_arena_mark(arena);
    double *cov = wv_arena_take(arena, D * D);
    long double L[MOST_D][MOST_D] = {{0}}, y[MOST_D], sum = 0;
    wv_gaussian_cov(q, cov, arena);
    for (size_t i = 0; i < D; i++) {
        for (size_t j = 0; j <= i; j++) {
            long double s = (long double)cov[i * D + j];
            for (size_t k = 0; k < j; k++)
                s -= L[i][k] * L[j][k];
            L[i][j] = i == j ? sqrtl(s) : s / L[j][j];
        }
        y[i] = (long double)x[i] - (long double)q->mu[i];
        for (size_t k = 0; k < i; k++)
            y[i] -= L[i][k] * y[k];
        y[i] /= L[i][i];
        sum += y[i] * y[i];
    }
    wv_arena_release(arena, mark);
    return f->source[c].like > 0 ? sum * (long double)f->source[c].like : sum;
}

static long double log_density(const fixture *f, size_t c, bool t, long double square)
{
    long double D = (long double)f->D, nu = (long double)f->source[c].nu, pi = acosl(-1),
                det = (long double)f->source[c].log_det;
    return t ? lgammal((nu + D) / 2) - lgammal(nu / 2) - D / 2 * logl(nu * pi) - det -
                   (nu + D) / 2 * log1pl(square / nu)
             : -D / 2 * logl(2 * pi) - det - square / 2;
}

static long double log_sum(const fixture *f, const double *x, wv_arena *arena)
{
    long double sum = 0;
    for (size_t c = 0; c < f->C; c++) {
        long double square = square_of(f, c, x, arena);
        sum += (long double)f->source[c].weight * expl(log_density(f, c, false, square));
        if (f->source[c].t_weight > 0)
            sum += (long double)f->source[c].t_weight * expl(log_density(f, c, true, square));
    }
    return logl(sum);
}

static void assert_close(double value, long double right)
{
    if (!(fabsl((long double)value - right) <= 2e-12L * (1 + fabsl(right))))
        fail_msg("%.17g, where it is %.17Lg", value, right);
}

static void check(fixture *f, size_t n, wv_workers *w)
{
    static double x[MOST_N * MOST_D], sum[MOST_N], kept[MOST_N];
    wv_arena *arena = w->arena[0];
    size_t D = f->D, mark = wv_arena_mark(arena);
    wv_sources all = {source_at, f, f->C, D};
    for (size_t c = 0; c < f->C; c++)
        make(f, c);
    test_random_normals(&f->r, n * D, x);
    wv_sources_log(&all, n, x, NULL, sum, w);
    wv_squares squares = wv_sources_squares(D, f->C, n, 0, arena);
    wv_sources_measure(&all, 0, n, x, &squares, w);
    wv_sources_log(&all, n, x, &squares, kept, w);
    for (size_t i = 0; i < n; i++) {
        assert_close(sum[i], log_sum(f, x + i * D, arena));
        assert_true(sum[i] == kept[i]);
    }
    wv_arena_release(arena, mark);
}

static void sums(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 2, MOST_D}, sources[] = {1, 4, 33, MOST_C}, points[] = {1, 63, 65, MOST_N};
    static fixture f;
    wv_workers w;
    f.r = test_random_seed(71);
    assert_true(wv_workers_new(&w, 1, (wv_workers_room){400000, 0}));
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++)
            for (size_t k = 0; k < 4; k++) {
                f.D = dims[i];
                f.C = sources[j];
                f.apart = false;
                check(&f, points[k], &w);
            }
    wv_workers_free(&w);
}

static void each(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 2, MOST_D}, points[] = {1, 8, 63, WV_COLUMNS};
    static fixture f;
    static double x[WV_COLUMNS * MOST_D], log_q[MOST_C * WV_COLUMNS], constant[MOST_C];
    wv_workers w;
    f.r = test_random_seed(72);
    assert_true(wv_workers_new(&w, 1, (wv_workers_room){400000, 0}));
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4; k++) {
            f.D = dims[i];
            f.C = MOST_C;
            f.apart = true;
            for (size_t c = 0; c < f.C; c++)
                make(&f, c);
            wv_sources all = {source_at, &f, f.C, f.D};
            test_random_normals(&f.r, points[k] * f.D, x);
            wv_sources_constants(&all, constant);
            wv_sources_each(&all, constant, points[k], x, log_q, w.arena[0]);
            for (size_t c = 0; c < f.C; c++)
                for (size_t p = 0; p < points[k]; p++)
                    assert_close(log_q[c * WV_COLUMNS + p], log_density(&f, c, f.source[c].t_weight > 0,
                                                                        square_of(&f, c, x + p * f.D, w.arena[0])));
        }
    wv_workers_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
