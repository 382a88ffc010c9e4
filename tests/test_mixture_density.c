/* test_mixture_density.c - density, gradient, shares and owners of a mixture against long double, however many points
 * and components there are, and after every change of the mixture. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mixture.h"
#include "support/test_random.h"

enum { MOST_D = 9, MOST_K = 70, MOST_N = 200 };

/* A mixture with room for all, and workers who have an arena. */
typedef struct {
    wv_mixture m;
    wv_workers workers;
    test_random r;
} fixture;

static void set_up(fixture *f, size_t D, uint64_t seed)
{
    f->r = test_random_seed(seed);
    assert_true(wv_mixture_new(&f->m, D, MOST_K) && wv_workers_new(&f->workers, 1, (wv_workers_room){400000, 0}));
}

static void tear_down(fixture *f)
{
    wv_mixture_free(&f->m);
    wv_workers_free(&f->workers);
}

static void append(fixture *f, size_t K)
{
    size_t D = f->m.D;
    for (size_t k = 0; k < K; k++) {
        double mu[MOST_D], root[MOST_D * MOST_D] = {0};
        test_random_normals(&f->r, D, mu);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j <= i; j++)
                root[i * D + j] = j < i ? 0.3 * test_random_normal(&f->r) : 0.5 + test_random_uniform(&f->r);
        wv_mixture_append(&f->m, &(wv_gaussian){wv_family_get(WVGD_FULL), D, 0, mu, root, 0},
                          0.1 + test_random_uniform(&f->r));
    }
    wv_mixture_normalise(&f->m);
}

/* log (w_k q_k) at x; slope[D]: gradient of log q_k. */
static long double log_part(const wv_mixture *m, size_t k, const double *x, long double *slope)
{
    size_t D = m->D;
    const double *L = m->root + k * D * D;
    long double y[MOST_D], sum = logl((long double)m->w[k]) - (long double)D * 0.918938533204672741780329736L;
    for (size_t i = 0; i < D; i++) {
        y[i] = (long double)x[i] - (long double)m->mu[k * D + i];
        for (size_t j = 0; j < i; j++)
            y[i] -= (long double)L[i * D + j] * y[j];
        y[i] /= (long double)L[i * D + i];
        sum -= y[i] * y[i] / 2 + logl((long double)L[i * D + i]);
    }
    for (size_t i = D; i-- > 0;) { /* L' s = -y */
        slope[i] = -y[i];
        for (size_t j = i + 1; j < D; j++)
            slope[i] -= (long double)L[j * D + i] * slope[j];
        slope[i] /= (long double)L[i * D + i];
    }
    return sum;
}

/* log m at x, its gradient[D], and the component that has most of it. */
static long double expected(const wv_mixture *m, const double *x, long double *gradient, size_t *owner)
{
    long double part[MOST_K], slope[MOST_K][MOST_D], top = -INFINITY, sum = 0;
    for (size_t k = 0; k < m->K; k++) {
        part[k] = log_part(m, k, x, slope[k]);
        *owner = part[k] > top ? k : *owner;
        top = part[k] > top ? part[k] : top;
    }
    for (size_t k = 0; k < m->K; k++)
        sum += expl(part[k] - top);
    memset(gradient, 0, m->D * sizeof *gradient);
    for (size_t k = 0; k < m->K; k++)
        for (size_t i = 0; i < m->D; i++)
            gradient[i] += expl(part[k] - top) / sum * slope[k][i];
    return top + logl(sum);
}

/* All that a mixture says of n points. */
static void check(fixture *f, size_t n)
{
    static double x[MOST_N * MOST_D], grad[MOST_N * MOST_D], log_m[MOST_N], plain[MOST_N];
    static size_t owner[MOST_N];
    size_t D = f->m.D;
    test_random_normals(&f->r, n * D, x);
    for (size_t i = 0; i < D; i++)
        x[(n - 1) * D + i] *= 40; /* one that lies far out */
    wv_mixture_log_density(&f->m, n, x, log_m, grad, &f->workers);
    wv_mixture_log_density(&f->m, n, x, plain, NULL, &f->workers);
    wv_mixture_owners(&f->m, n, x, owner, f->workers.arena[0]);
    for (size_t i = 0; i < n; i++) {
        long double gradient[MOST_D];
        size_t best = 0;
        double right = (double)expected(&f->m, x + i * D, gradient, &best);
        assert_true(fabs(log_m[i] - right) <= 1e-12 * (1 + fabs(right)) && log_m[i] == plain[i]);
        assert_int_equal(owner[i], best);
        assert_int_equal(wv_mixture_owner(&f->m, x + i * D, f->workers.arena[0]), best);
        for (size_t d = 0; d < D; d++)
            assert_true(fabs(grad[i * D + d] - (double)gradient[d]) <= 1e-11 * (1 + fabs(right)));
    }
}

static void many_points_and_components(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 2, 8, MOST_D}, components[] = {1, 3, 33, MOST_K},
                        points[] = {1, 8, 63, 65, MOST_N};
    for (size_t c = 0; c < 4 * 4; c++) {
        fixture f;
        set_up(&f, dims[c % 4], 10 + c);
        append(&f, components[c / 4]);
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
            check(&f, points[i]);
        tear_down(&f);
    }
}

/* What is kept of the roots follows them. */
static void after_every_change(void **state)
{
    (void)state;
    enum { D = 3, K = 4 };
    fixture f, other;
    double marked[K] = {0, 1, 0, 0}, C[D * D] = {2, 0.5, 0.1, 0.5, 1, 0, 0.1, 0, 3}, mu[K * D], root[K * D * D];
    set_up(&f, D, 1);
    set_up(&other, D, 2);
    append(&f, K);
    check(&f, 70);
    wv_mixture_scale_root(&f.m, 2, 1.5);
    check(&f, 70);
    assert_true(wv_mixture_absorb(&f.m, 0, C, f.workers.arena[0]));
    check(&f, 70);
    wv_mixture_drop(&f.m, marked);
    check(&f, 70);
    append(&other, K);
    memcpy(mu, other.m.mu, sizeof mu);
    memcpy(root, other.m.root, sizeof root);
    wv_mixture_set_components(&f.m, mu, root);
    check(&f, 70);
    wv_mixture_copy(&f.m, &other.m);
    check(&f, 70);
    wv_mixture_set_one(&f.m, mu + D, root + D * D);
    check(&f, 70);
    tear_down(&f);
    tear_down(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_points_and_components),
        cmocka_unit_test(after_every_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
