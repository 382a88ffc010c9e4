/* bridge.c - the bridge of Meng and Wong: the ratio of the masses of two densities p~ and q from n1 draws of q and n2
 * of p, with the least variance (method, section 9).
 *
 *     Z = sum_i 1 / (n1 q/p~ + n2/Z)    over all draws */
#include "staged/bridge.h"
#include "fit.h"
#include <math.h>

double wv_bridge_add(double a, double b)
{
    double top = fmax(a, b), low = fmin(a, b);
    return low > -INFINITY ? top + log1p(exp(low - top)) : top;
}

static bool is_out(const wv_bridge_samples *s, size_t i, size_t columns)
{
    return s->groups && i % columns % s->groups == s->out;
}

static double count(const wv_bridge_samples *s, size_t n, size_t columns)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += !is_out(s, i, columns);
    return sum;
}

/* log Z, by iteration of Z = sum 1 / (n1 q/p~ + n2/Z). */
double wv_bridge(const wv_bridge_samples *s)
{
    enum { ITERATIONS = 1000 };
    const double enough = 1e-10;
    double n1 = count(s, s->nq, s->columns_q), n2 = count(s, s->np, s->columns_p), z = -INFINITY;
    for (size_t i = 0; i < s->nq; i++)
        if (!is_out(s, i, s->columns_q))
            z = wv_bridge_add(z, s->q[i]);
    z = isfinite(z) ? z - log(n1) : 0;
    for (int k = 0; k < ITERATIONS; k++) {
        double next = -INFINITY;
        for (size_t i = 0; i < s->nq; i++)
            if (!is_out(s, i, s->columns_q) && s->q[i] > -INFINITY)
                next = wv_bridge_add(next, -wv_bridge_add(log(n1) - s->q[i], log(n2) - z));
        for (size_t i = 0; i < s->np; i++)
            if (!is_out(s, i, s->columns_p))
                next = wv_bridge_add(next, -wv_bridge_add(log(n1) - s->p[i], log(n2) - z));
        double change = fabs(next - z);
        z = next;
        if (!(change > enough))
            break;
    }
    return z;
}

/* Squared relative error of a mean over units, [units][each] values one after the other; infinite where all are 0. */
static double square_error(size_t units, size_t each, const double *value)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < units * each; i++)
        mean += value[i] / (double)(units * each);
    for (size_t u = 0; u < units; u++) {
        double own = 0;
        for (size_t k = 0; k < each; k++)
            own += value[u * each + k] / (double)each;
        square += (own - mean) * (own - mean);
    }
    return mean > 0 && units > 1 ? square / ((double)units * ((double)units - 1) * mean * mean) : INFINITY;
}

/* The evidence by the bridge between draws, of log p~/m q[n1], and states p[chains][each], and its standard error, with
 * pairs of draws and chains as units: Z = mean_q A / mean_p B. */
wvgd_estimate wv_bridge_states(wvgd_fit *f, size_t n1, const double *q, size_t each, const double *p)
{
    size_t C = f->chains.now.chains, n2 = C * each, mark = wv_arena_mark(f->arena);
    double *A = wv_arena_take(f->arena, n1), *B = wv_arena_take(f->arena, n2), share = (double)n1 / (double)(n1 + n2);
    double z = wv_bridge(&(wv_bridge_samples){.q = q, .p = p, .nq = n1, .np = n2, .columns_q = n1, .columns_p = n2});
    for (size_t i = 0; i < n1; i++)
        A[i] = exp(-wv_bridge_add(log(1 - share), log(share) + z - q[i]));
    for (size_t i = 0; i < n2; i++)
        B[i] = exp(-wv_bridge_add(log(1 - share) + p[i] - z, log(share)));
    double se = sqrt(square_error(n1 / 2, 2, A) + square_error(C, each, B));
    wv_arena_release(f->arena, mark);
    return (wvgd_estimate){z, se};
}
