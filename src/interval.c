/* interval.c - cells in one dimension. Particle k takes from the cell of j the points that are nearer to it: those
 * beyond the point halfway between them, under a cost that is a function of the distance; under the cost `own`, where
 * a difference of two quadratics is negative. What no particle takes is the cell. Masses and draws of a Gaussian there
 * come from the logarithm of its distribution function, which tells tails of any length. */
#include "interval.h"
#include "weights.h"
#include <math.h>

/* ---- cells ------------------------------------------------------------------------------------------------------- */
bool wv_interval_cells(const wv_geometry *g)
{
    return g->D == 1 && g->cost.kind != WVGD_CALLBACK;
}

/* What k takes by a cost that is a function of the distance; d: from j to k. Returns how many intervals. */
static size_t take_beyond(double z, double d, bool first, wv_interval *to)
{
    *to = d > 0   ? (wv_interval){z + d / 2, INFINITY}
          : d < 0 ? (wv_interval){-INFINITY, z + d / 2}
                  : (wv_interval){-INFINITY, INFINITY};
    return d != 0 || first;
}

/* What k takes by the cost `own`, where (y - d)^2/(2 s^2) + log s < y^2/(2 r^2) + log r, y = x - z; s, r: sds of k and
 * j; d: from j to k. */
static size_t take_own(double z, double d, double s, double r, bool first, wv_interval *to)
{
    double a = (1 / (s * s) - 1 / (r * r)) / 2, half = -d / (2 * s * s), c = d * d / (2 * s * s) + log(s / r);
    if (s == r)
        return take_beyond(z, d, first, to);
    double square = half * half - a * c, root = sqrt(fmax(square, 0)), q = -(half + copysign(root, half));
    double one = q / a, other = q != 0 ? c / q : one, lo = z + fmin(one, other), hi = z + fmax(one, other);
    to[0] = a > 0 ? (wv_interval){lo, hi} : (wv_interval){-INFINITY, square > 0 ? lo : INFINITY};
    to[1] = (wv_interval){hi, INFINITY};
    return square > 0 ? 1 + (a < 0) : a < 0;
}

/* What all other particles take from the cell of j, to[2 N]; returns how many intervals. */
static size_t taken(const wv_geometry *g, size_t j, wv_interval *to)
{
    const double *z = g->z, *sd = g->spread;
    size_t n = 0;
    for (size_t k = 0; k < g->N; k++)
        if (k != j)
            n += g->cost.kind == WVGD_OWN ? take_own(z[j], z[k] - z[j], sd[k], sd[j], k < j, to + n)
                                          : take_beyond(z[j], z[k] - z[j], k < j, to + n);
    return n;
}

wv_intervals wv_interval_cell(const wv_geometry *g, size_t j, wv_arena *arena)
{
    size_t N = g->N;
    wv_intervals cell = {0, (wv_interval *)wv_arena_take(arena, 2 * (2 * N + 1))};
    size_t mark = wv_arena_mark(arena);
    wv_interval *other = (wv_interval *)wv_arena_take(arena, 4 * N);
    double at = -INFINITY, *start = wv_arena_take(arena, 2 * N);
    uint32_t *order = wv_arena_take_index(arena, 2 * N);
    size_t n = taken(g, j, other);
    for (size_t i = 0; i < n; i++)
        start[i] = other[i].lo;
    wv_weights_order(n, start, order, arena);
    for (size_t i = 0; i < n; i++) {
        if (start[order[i]] > at)
            cell.part[cell.n++] = (wv_interval){at, start[order[i]]};
        at = fmax(at, other[order[i]].hi);
    }
    if (at < INFINITY)
        cell.part[cell.n++] = (wv_interval){at, INFINITY};
    wv_arena_release(arena, mark);
    return cell;
}

/* ---- the normal distribution ------------------------------------------------------------------------------------- */
static const double log_2 = 0.693147180559945309, half_log_2pi = 0.918938533204672742;

/* log Phi(x): by erfc, and far out by the asymptotic series. */
static double log_below(double x)
{
    if (x > -20)
        return log(0.5 * erfc(-x * 0.707106781186547524));
    double s = 1 / (x * x), series = 1 - s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s * (1 - 9 * s))));
    return -x * x / 2 - half_log_2pi + log(series / -x);
}

/* log(exp a - exp b), a >= b. */
static double log_difference(double a, double b)
{
    return b < a ? a + log(-expm1(b - a)) : -INFINITY;
}

/* log(exp a + exp b). */
static double log_sum(double a, double b)
{
    double top = fmax(a, b);
    return top > -INFINITY ? top + log1p(exp(fmin(a, b) - top)) : top;
}

/* log(Phi(r) - Phi(l)), in the tail where both are small. */
static double log_between(double l, double r)
{
    return l > 0 ? log_difference(log_below(-l), log_below(-r)) : log_difference(log_below(r), log_below(l));
}

/* x with log Phi(x) = y <= log 1/2: Newton's steps on a concave function, from the left. */
static double inverse(double y)
{
    double x = -sqrt(2 * fmax(-y - log_2, 0)), step = 1;
    for (int k = 0; k < 50 && fabs(step) > 1e-14 * fmax(1, fabs(x)); k++) {
        double now = log_below(x);
        x += step = (y - now) * exp(now + x * x / 2 + half_log_2pi);
    }
    return x;
}

/* The quantile u of the standard normal between l and r. */
static double quantile(double l, double r, double u)
{
    double low = log_sum(log1p(-u) + log_below(l), log(u) + log_below(r));
    if (low < -log_2)
        return inverse(low);
    return -inverse(log_sum(log1p(-u) + log_below(-l), log(u) + log_below(-r)));
}

/* ---- masses and draws -------------------------------------------------------------------------------------------- */
static double sd_of(const wv_gaussian *q)
{
    double sd;
    q->family->sd(1, q->R, q->root, &sd);
    return sd;
}

double wv_interval_log_mass(const wv_intervals *s, const wv_gaussian *q)
{
    double sum = -INFINITY, mu = *q->mu, sd = sd_of(q);
    for (size_t i = 0; i < s->n; i++)
        sum = log_sum(sum, log_between((s->part[i].lo - mu) / sd, (s->part[i].hi - mu) / sd));
    return sum;
}

/* A point of N(mu, sd^2) in the cell, of log mass `all`, from a number u of U(0, 1): it chooses one of the intervals,
 * and what is left of it a point there. */
static double point(const wv_intervals *s, double mu, double sd, double all, double u)
{
    for (size_t i = 0; i < s->n; i++) {
        double l = (s->part[i].lo - mu) / sd, r = (s->part[i].hi - mu) / sd, share = exp(log_between(l, r) - all);
        if (u < share || i + 1 == s->n)
            return fmin(fmax(mu + sd * quantile(l, r, fmin(u / share, 1)), s->part[i].lo), s->part[i].hi);
        u -= share;
    }
    return mu;
}

double wv_interval_draw(const wv_intervals *s, const wv_gaussian *q, const wv_stream *stream, uint64_t first, size_t n,
                        double *x)
{
    double all = wv_interval_log_mass(s, q), sd = sd_of(q), u;
    for (size_t i = 0; i < n; i++) {
        wv_rng_uniform(stream, first + i, 1, &u);
        x[i] = point(s, *q->mu, sd, all, u);
    }
    return all;
}
